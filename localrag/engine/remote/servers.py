"""Model servers: what they tell of themselves, and the state of the one in use.

llama-server, vLLM, Ollama and LM Studio report their model at different endpoints; of other servers only the model's name is known. A
server's state has no event loop: `localrag chat` runs one per question.
"""

import asyncio
import random
import re
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import count
from pathlib import PurePath
from typing import Any

from localrag.engine.remote.client import ConnectionLost, HttpConfig, check_host, get, http_config, key_refused, post
from localrag.engine.remote.refusals import BUSY, GATEWAY, HttpError
from localrag.engine.remote.replies import MalformedResponse, as_count
from localrag.engine.settings import EngineOptions
from localrag.errors import EngineError, ModelError, UsageError
from localrag.model_files import ModelFile, ServerInfo
from localrag.system.resources import run_in_thread, wait_for

PROBE_TIMEOUT_S = 3.0
SERVER_TIMEOUT_S = 10.0  # for everything that a server is asked before its first request
MAX_LISTED_MODELS = 8
MAX_SETTINGS_CHARS = 20_000
OLLAMA_DEFAULT_CONTEXT = 4096  # Ollama's smallest default; it truncates longer prompts silently


def with_server_info(file: ModelFile, options: EngineOptions, known: dict[str, str] | None = None) -> ModelFile:
    """A served model with what its server tells; any other file unchanged. `known`: path and fingerprint an index is bound to.

    For a server that does not answer, or is not allowed, the index's binding is used. Raises EngineError if there is none, UsageError if
    the server is not allowed.
    """
    if not file.url or file.server:
        return file
    answer = wait_for(run_in_thread(lambda: asyncio.run(_ask(file, options))))  # an event loop may run in this thread
    if answer:
        return replace(file, server=answer)
    if known and _leads_to(known["path"], file):
        return replace(file, server=ServerInfo(), bound_fingerprint=known["fingerprint"])
    check_host(file.url, options.allowed_hosts)
    raise EngineError(f"{file.url} does not answer.", "Start the server, or correct its address: --model http://HOST:PORT/v1#NAME")


def _leads_to(path: str, file: ModelFile) -> bool:
    url, _, name = path.partition("#")
    return (url.rstrip("/"), name) == (file.url, file.name)


async def _ask(file: ModelFile, options: EngineOptions) -> ServerInfo | None:
    wire = http_config(file.url, by_index=file.by_index)
    try:
        check_host(file.url, options.allowed_hosts)
    except UsageError:
        return None
    return await query_server(wire, file.url, file)


async def query_server(wire: HttpConfig, url: str, file: ModelFile) -> ServerInfo | None:
    """A server's info; None if it does not answer in SERVER_TIMEOUT_S. Raises EngineError for a missing key, or without a chat model."""
    try:
        async with asyncio.timeout(SERVER_TIMEOUT_S):
            return await _query_server(wire, url, file)
    except TimeoutError:
        return None


async def _query_server(wire: HttpConfig, url: str, file: ModelFile) -> ServerInfo | None:
    try:
        models, suffix = await _list_models(wire, url)
    except ConnectionLost:
        return None
    except HttpError as error:
        if error.status in (401, 403):
            raise key_refused(wire, url) from error
        return None if error.status in (*BUSY, *GATEWAY) else ServerInfo()
    except MalformedResponse:
        return ServerInfo()
    entry = find_served_model(models, file.name)
    if entry.get("owned_by") == "llamacpp" and not isinstance(entry.get("meta"), dict) and "status" not in entry:
        return None  # it is still loading the model; one with a status loads it for the first request
    if not entry:
        _check_listed(url, models, file.name)
    try:
        return replace(await _read_server_info(wire, f"{url}{suffix}", entry, file), suffix=suffix)
    except ConnectionLost:
        return None


async def _list_models(wire: HttpConfig, url: str) -> tuple[Any, str]:
    """A server's list of models, and what its address lacks: "/v1" where only that has a list."""
    models: Any = None
    refusal: HttpError | MalformedResponse | None = None
    for suffix in ("",) if url.endswith("/v1") else ("", "/v1"):
        try:
            models = await get(wire, f"{url}{suffix}/models", PROBE_TIMEOUT_S)
        except (HttpError, MalformedResponse) as error:
            if isinstance(error, HttpError) and error.status not in (400, 404, 405):
                raise
            refusal = error
        if _listed(models):
            return models, suffix
    if refusal:
        raise refusal
    return models, ""


def _listed(models: Any) -> list[dict[str, Any]]:
    listed = models.get("data") if isinstance(models, dict) else None
    return [m for m in listed if isinstance(m, dict) and isinstance(m.get("id"), str)] if isinstance(listed, list) else []


def find_served_model(models: Any, name: str) -> dict[str, Any]:
    """The entry of a model in a server's list, also without folder, ending and tag; of no name, the only chat model. {} without."""
    entries = _listed(models)
    if len(entries) == 1 and entries[0].get("owned_by") == "llamacpp":
        return entries[0]
    if name == "default":
        chat = [m for m in entries if not _NO_CHAT_NAME.search(m["id"])]
        return chat[0] if len(chat) == 1 else entries[0] if len(entries) == 1 else {}
    for spelling in (str, str.casefold, _base_name):
        named = [m for m in entries if spelling(name) in (spelling(m["id"]), spelling(m["id"].removesuffix(":latest")))]
        if named:
            return named[0]
    return {}


_NO_CHAT_NAME = re.compile(
    r"(?:^|[-_./])(?:mmproj|embed|embedding|embeddings|embedder|rerank|reranker|bge|e5|gte|minilm)(?:$|[-_.:/])", re.I
)


def _base_name(name: str) -> str:
    return PurePath(name.casefold()).name.removesuffix(".gguf")


def _check_listed(url: str, models: Any, name: str) -> None:
    if names := [m["id"] for m in _listed(models)]:
        told = f"has no model {name!r}" if name != "default" else "has several models"
        more = " …" * (len(names) > MAX_LISTED_MODELS)
        raise EngineError(f"{url} {told}.", f"It has: {', '.join(names[:MAX_LISTED_MODELS])}{more}. Name one: --model {url}#NAME")


async def _read_server_info(wire: HttpConfig, url: str, entry: dict[str, Any], file: ModelFile) -> ServerInfo:
    root, model = url.removesuffix("/v1"), str(entry.get("id", ""))
    if _NO_CHAT_NAME.search(PurePath(model or file.name).name):
        raise EngineError(
            f"{model or file.name} at {url} is no chat model: it embeds or ranks texts, or reads pictures.",
            "Name a chat model of the server.",
        )
    if isinstance(meta := entry.get("meta"), dict):
        return await _of_llama(wire, root, model, meta)
    if entry.get("owned_by") == "vllm" or "max_model_len" in entry:
        name = PurePath(str(entry.get("root") or model)).name
        return ServerInfo(_digest("vllm", name), model, window=as_count(entry.get("max_model_len")), tokenize_field="prompt")
    if entry.get("owned_by") == "me" and "permissions" in entry:  # llama-cpp-python's, where a new request interrupts the one before
        return ServerInfo(_digest("llama-cpp-python", PurePath(model).name), model, slots=1)
    model = model or file.name
    if isinstance(digest := _of_name(await _maybe(wire, f"{root}/api/tags"), "models", model).get("digest"), str):
        return await _of_ollama(wire, root, model, digest)
    studio = _of_name(await _maybe(wire, f"{root}/api/v0/models"), "data", model)
    if "loaded_context_length" in studio or "quantization" in studio:
        parts = [str(studio.get(name)) for name in ("id", "publisher", "arch", "quantization")]
        return ServerInfo(_digest("lmstudio", *parts), model, window=as_count(studio.get("loaded_context_length")))
    return ServerInfo(model=str(entry.get("id", "")))


async def _of_llama(wire: HttpConfig, root: str, model: str, meta: dict[str, Any]) -> ServerInfo:
    props = await _maybe(wire, f"{root}/props")
    props = props if isinstance(props, dict) else {}
    settings = props.get("default_generation_settings")
    window = as_count(settings.get("n_ctx")) if isinstance(settings, dict) else 0
    shape = [str(as_count(meta.get(name))) for name in ("vocab_type", "n_vocab", "n_ctx_train", "n_embd", "n_params", "size")]
    digest = _digest("llama", PurePath(str(props.get("model_path") or model)).name, *shape)
    return ServerInfo(
        digest, model, as_count(meta.get("n_params")), window or as_count(meta.get("n_ctx")), as_count(props.get("total_slots")), "content"
    )


async def _of_ollama(wire: HttpConfig, root: str, model: str, digest: str) -> ServerInfo:
    loaded = _of_name(await _maybe(wire, f"{root}/api/ps"), "models", model)
    details = loaded.get("details")
    size = str(details.get("parameter_size", "")) if isinstance(details, dict) else ""
    unit = {"K": 1e3, "M": 1e6, "B": 1e9}.get(size[-1:], 0)
    parameters = round(float(size[:-1]) * unit) if unit and size[:-1].replace(".", "", 1).isdigit() else 0
    shown = await _maybe(wire, f"{root}/api/show", {"model": model})
    shown = shown if isinstance(shown, dict) else {}
    setting = re.search(r"^num_ctx\s+(\d{3,8})\s*$", str(shown.get("parameters", ""))[:MAX_SETTINGS_CHARS], re.M)
    window = as_count(loaded.get("context_length")) or (int(setting[1]) if setting else OLLAMA_DEFAULT_CONTEXT)
    return ServerInfo(_digest("ollama", digest), model, parameters, window)


def _of_name(listed: Any, where: str, name: str) -> dict[str, Any]:
    entries = listed.get(where) if isinstance(listed, dict) else None
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and name in (called := (entry.get("name"), entry.get("model"), entry.get("id"))) + tuple(
            str(c).removesuffix(":latest") for c in called
        ):
            return entry
    return {}


async def _maybe(wire: HttpConfig, address: str, body: dict[str, Any] | None = None) -> Any:
    try:
        return await (get(wire, address, PROBE_TIMEOUT_S) if body is None else post(wire, address, body, PROBE_TIMEOUT_S))
    except (HttpError, MalformedResponse):
        return None


def _digest(*parts: str) -> str:
    return sha256("\0".join(parts).encode(errors="replace")).hexdigest()[:16]


async def count_tokens(wire: HttpConfig, url: str, facts: ServerInfo, text: str) -> int:
    """The tokens of a text with the server's own vocabulary; 0 if it cannot tell. Raises ConnectionLost."""
    if not facts.tokenize_field:
        return 0
    try:
        body = {facts.tokenize_field: text, "model": facts.model, "add_special_tokens": False}
        answer = await post(wire, f"{url.removesuffix('/v1')}/tokenize", body)
    except (HttpError, MalformedResponse):
        return 0
    tokens = answer.get("tokens") if isinstance(answer, dict) else None
    return len(tokens) if isinstance(tokens, list) else 0


DEFAULT_PARALLEL_REQUESTS = 8  # for a server that does not report its slots; it queues or rejects more
DEFAULT_CONTEXT = 4096  # for a server that does not report it

ANSWER_PRIORITY = 0  # of a request that a person waits for
INDEXING_WAIT_S, INTERACTIVE_WAIT_S = 1800.0, 60.0  # for servers that are down
FIRST_RETRY_DELAY_S, MAX_RETRY_DELAY_S = 0.25, 10.0  # doubled after every try
POLL_S = 0.1  # between two looks at whether a server that another request asks has answered


def backoff_delay(tries: int) -> float:
    """Seconds before the next try: exponential with jitter, so that clients do not retry together."""
    return min(MAX_RETRY_DELAY_S, FIRST_RETRY_DELAY_S * 2.0 ** min(tries, 20)) * random.uniform(0.5, 1.5)


def down_timeout(priority: int) -> float:
    """Seconds to wait for a server that is down; less for a person."""
    return INTERACTIVE_WAIT_S if priority == ANSWER_PRIORITY else INDEXING_WAIT_S


@dataclass(eq=False, slots=True)
class ModelServer:
    """The server of a model: its info, its slots, and whether it answers.

    It is asked for its info before its first request and after a lost connection: it may serve another model by now. `read_info` asks it,
    `notify` informs the user; `digest` identifies the model that it must serve.
    """

    url: str
    info: ServerInfo
    capacity: int  # requests at the same time
    read_info: Callable[[], Awaitable[ServerInfo | None]]
    notify: Callable[[str], None]
    digest: str
    active_requests: int = 0
    is_up: bool = False
    down_since: float = 0.0  # time.monotonic() of the first attempt without an answer, which the user was told
    omitted_fields: frozenset[str] = frozenset()  # that it rejected by name
    in_words: bool = False  # it is asked in words first
    was_in_words: bool = False  # its last answer came only when it was asked in words
    ends_silently: bool = False  # nothing marks the end of its answers
    thinks: bool = False  # although told not to
    learned_window: int = 0  # by requests that did not fit
    is_reported_busy: bool = False
    _is_probed: bool = False
    _waiting: "list[tuple[int, int, asyncio.AbstractEventLoop, asyncio.Future[None]]]" = field(default_factory=list)
    _turn: "count[int]" = field(default_factory=count)

    @property
    def address(self) -> str:
        """The URL to which paths are added."""
        return self.url + self.info.suffix

    @property
    def window(self) -> int:
        """Tokens of a request, as far as the server told it or it was found out; 0 if unknown."""
        return min((w for w in (self.info.window, self.learned_window) if w), default=0)

    def note_form(self, *, in_words: bool) -> None:
        """Record how a usable answer was asked for: twice the same, and the next request is asked so first."""
        self.in_words, self.was_in_words = in_words if in_words == self.was_in_words else self.in_words, in_words

    async def acquire(self, priority: int) -> None:
        """Wait for the server and a slot, for `release`. Raises EngineError after too long, ModelError for another model."""
        started, turn = time.monotonic(), next(self._turn)
        while True:
            await self._wait_until_up(started, priority)
            if self.active_requests < self.capacity:
                break
            loop = asyncio.get_running_loop()
            waiter = (priority, turn, loop, loop.create_future())
            self._waiting.append(waiter)
            try:
                await waiter[3]
            finally:
                self._waiting.remove(waiter)
        self.active_requests += 1

    def release(self) -> None:
        """Return a slot, and wake all who wait for one, the most urgent first."""
        self.active_requests -= 1
        for _, _, loop, future in sorted(self._waiting, key=lambda w: w[:2]):
            with suppress(RuntimeError):  # its event loop is closed
                loop.call_soon_threadsafe(_set, future)

    async def _wait_until_up(self, started: float, priority: int) -> None:
        """Ask for the server's info, one request for all that wait, until it answers."""
        tries = 0
        while not self.is_up:
            if self._is_probed:
                await asyncio.sleep(POLL_S)
            else:
                self._is_probed = True
                try:
                    await self._probe()
                    if not self.is_up:
                        await asyncio.sleep(backoff_delay(tries))
                finally:
                    self._is_probed = False
                tries += 1
            self._check_waited(started, priority)

    async def _probe(self) -> None:
        info = await self.read_info()
        if info is None:
            if not self.down_since:
                self.down_since = time.monotonic()
                self.notify(f"{self.url} does not answer; waiting for it …")
            return
        if self.digest and info.digest and info.digest != self.digest:
            raise ModelError(
                f"{self.url} serves another model than before.",
                "Serve the same one, or run the same command again: finished work is saved.",
            )
        if self.down_since:  # it may have been started with another window
            self.notify(f"{self.url} is back.")
            self.learned_window = 0
        self.info, self.is_up, self.down_since = info, True, 0.0

    def _check_waited(self, started: float, priority: int) -> None:
        """Check that the server has not been waited for too long: by this person, or since it is down. Raises EngineError."""
        since = started if priority == ANSWER_PRIORITY else self.down_since
        if self.down_since and time.monotonic() - since > down_timeout(priority):
            waited = f"{INDEXING_WAIT_S / 60:.0f} minutes" if priority else f"{INTERACTIVE_WAIT_S:.0f} seconds"
            raise EngineError(
                f"{self.url} has not answered for {waited}.", "Start the server and run the same command again; finished work is saved."
            )


def _set(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
