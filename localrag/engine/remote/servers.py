"""Model servers: what they tell of themselves, and the state of the one in use.

llama-server, vLLM, Ollama and LM Studio report their model at different endpoints; of other servers only the model's name is known. Server
info is cached for the time when a server does not answer. A server's state has no event loop: `localrag chat` runs one per question.
"""

import asyncio
import json
import random
import re
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from itertools import count
from pathlib import PurePath
from typing import Any, Generic, TypeVar

from localrag.engine.remote.client import ConnectionLost, HttpConfig, check_host, get, http_config, key_refused, post
from localrag.engine.remote.refusals import BUSY, GATEWAY, HttpError, is_unknown_model
from localrag.engine.remote.replies import MalformedResponse, as_count
from localrag.engine.remote.request_body import FORMS
from localrag.engine.settings import EngineOptions
from localrag.engine.tokenizer import Tokenizer
from localrag.errors import EngineError, ModelError, UsageError
from localrag.model_files import ModelFile, ServerInfo
from localrag.system.files import cache_dir, write_atomically
from localrag.system.resources import run_in_thread, wait_for

T = TypeVar("T")

PROBE_TIMEOUT_S = 3.0
SERVER_TIMEOUT_S = 10.0  # for everything that a server is asked before its first request
TRIAL_TIMEOUT_S = 1.0
MAX_LISTED_MODELS = 8
MAX_SETTINGS_CHARS = 20_000
OLLAMA_DEFAULT_CONTEXT = 4096  # Ollama's smallest default; it truncates longer prompts silently
_LATIN = (
    "Ingrid Holm bought the ferry Skua from the Northern Line in 1974. Mayor Ruth Sand had asked for it: “The town of Vardby has waited "
    "two years.” Repairs (hull, 12,450 kr.; engine, 3,200 kr.) were paid by the owner's insurance, according to the minutes."
)
_CHINESE = "英格丽·霍尔姆在一九七四年从北方航线公司买下了渡轮“海鸥号”。市长说，这座小镇已经等了两年。船体和发动机的修理费由船主的保险支付。"


def with_server_info(file: ModelFile, options: EngineOptions, known: dict[str, str] | None = None) -> ModelFile:
    """A served model with what its server tells; any other file unchanged. `known`: path and fingerprint an index is bound to.

    For a server that does not answer, or is not allowed, cached info is used, or the index's binding. Raises EngineError if nothing is
    known, UsageError if the server is not allowed.
    """
    if not file.url or file.server:
        return file
    answer = wait_for(run_in_thread(lambda: asyncio.run(_ask(file, options))))  # an event loop may run in this thread
    if info := answer or _cached_info().get(f"{file.url}#{file.name}"):
        return replace(file, server=info)
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
    """The info of the server at a URL; None if it does not answer in SERVER_TIMEOUT_S or is not ready.

    Raises EngineError for a missing key, a model that the server does not have, and one that cannot chat.
    """
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
        return None if error.status in (*BUSY, *GATEWAY) else _with_learned(f"{url}#{file.name}", ServerInfo())
    except MalformedResponse:
        return _with_learned(f"{url}#{file.name}", ServerInfo())
    entry = find_served_model(models, file.name)
    if entry.get("owned_by") == "llamacpp" and not isinstance(entry.get("meta"), dict) and "status" not in entry:
        return None  # it is still loading the model; one with a status loads it for the first request
    try:
        facts = await _read_server_info(wire, f"{url}{suffix}", entry, file)
        if not entry:
            await _check_unlisted(wire, url, models, replace(facts, suffix=suffix), file)
        facts = await _with_scale(wire, url, replace(facts, suffix=suffix), file)
        return _save_server_info(f"{url}#{file.name}", _with_learned(f"{url}#{file.name}", facts))
    except ConnectionLost:
        return None


async def _list_models(wire: HttpConfig, url: str) -> tuple[Any, str]:
    """A server's list of models, and what its address lacks: "/v1" where only that has a list. Raises what `get` raises."""
    refusal: HttpError | MalformedResponse | None = None
    models: Any = None
    try:
        models = await get(wire, f"{url}/models", PROBE_TIMEOUT_S)
    except (HttpError, MalformedResponse) as error:
        if url.endswith("/v1") or (isinstance(error, HttpError) and error.status not in (400, 404, 405)):
            raise
        refusal = error
    if _listed(models) or url.endswith("/v1"):
        return models, ""
    with suppress(HttpError, MalformedResponse):
        below = await get(wire, f"{url}/v1/models", PROBE_TIMEOUT_S)
        if refusal or _listed(below):
            return below, "/v1"
    if refusal:
        raise refusal
    return models, ""


def _listed(models: Any) -> list[dict[str, Any]]:
    listed = models.get("data") if isinstance(models, dict) else None
    return [m for m in listed if isinstance(m, dict) and isinstance(m.get("id"), str)] if isinstance(listed, list) else []


def find_served_model(models: Any, name: str) -> dict[str, Any]:
    """The entry of a model in a server's list: by its name, also without folder, ending and tag; of no name, the only chat model.

    llama-server has one model, whatever its name. {} if there is none.
    """
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


async def _check_unlisted(wire: HttpConfig, url: str, models: Any, facts: ServerInfo, file: ModelFile) -> None:
    """Check a model that is not in a server's list by asking it for one token; some servers have models that they do not list.

    Raises EngineError if the server does not know it. A server that needs longer than a second to answer is loading it.
    """
    names = [m["id"] for m in _listed(models)]
    if not names:
        return
    hint = f"It has: {', '.join(names[:MAX_LISTED_MODELS])}{' …' * (len(names) > MAX_LISTED_MODELS)}. Name one: --model {url}#NAME"
    if file.name == "default":
        raise EngineError(f"{url} has several models.", hint)
    body = {"model": file.name, "messages": [{"role": "user", "content": "Say yes."}], "max_tokens": 1}
    try:
        await post(wire, f"{url}{facts.suffix}/chat/completions", body, TRIAL_TIMEOUT_S)
    except HttpError as error:
        if is_unknown_model(error):
            raise EngineError(f"{url} has no model {file.name!r}.", hint) from error
    except (ConnectionLost, MalformedResponse):
        return


def _check_chats(url: str, name: str, *, can_chat: bool) -> None:
    if not can_chat:
        raise EngineError(
            f"{name} at {url} is no chat model: it embeds or ranks texts, or reads pictures.", "Name a chat model of the server."
        )


async def _read_server_info(wire: HttpConfig, url: str, entry: dict[str, Any], file: ModelFile) -> ServerInfo:
    root, model = url.removesuffix("/v1"), str(entry.get("id", ""))
    _check_chats(url, model or file.name, can_chat=not _NO_CHAT_NAME.search(PurePath(model or file.name).name))
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
        _check_chats(url, model, can_chat=studio.get("type") not in ("embeddings", "embedding", "reranker"))
        parts = [str(studio.get(name)) for name in ("id", "publisher", "arch", "quantization")]
        window = as_count(studio.get("loaded_context_length"))
        return ServerInfo(_digest("lmstudio", *parts), model, window=window, is_window_assumed=not window)
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
    capabilities = shown.get("capabilities")
    _check_chats(root, model, can_chat=not isinstance(capabilities, list) or "completion" in capabilities)
    told = as_count(loaded.get("context_length"))
    setting = re.search(r"^num_ctx\s+(\d{3,8})\s*$", str(shown.get("parameters", ""))[:MAX_SETTINGS_CHARS], re.M)
    window = told or (int(setting[1]) if setting else OLLAMA_DEFAULT_CONTEXT)
    return ServerInfo(_digest("ollama", digest), model, parameters, window, is_window_assumed=not told)


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


async def _with_scale(wire: HttpConfig, url: str, facts: ServerInfo, file: ModelFile) -> ServerInfo:
    """The info with the server's tokens per token of the local stand-in, for Latin and Chinese text: measured once per model."""
    before = _cached_info().get(f"{url}#{file.name}")
    if before and before.digest == facts.digest and before.tokenize_field:
        return replace(facts, latin_token_ratio=before.latin_token_ratio, chinese_token_ratio=before.chinese_token_ratio)
    if not facts.tokenize_field:
        return facts
    tokenizer = Tokenizer(replace(file, server=None))
    latin, chinese = [
        round((await count_tokens(wire, url, facts, text) or tokenizer.count(text)) / tokenizer.count(text), 2)
        for text in (_LATIN, _CHINESE)
    ]
    return replace(facts, latin_token_ratio=latin, chinese_token_ratio=chinese)


def _cached_info() -> dict[str, ServerInfo]:
    """Cached server info by URL and model name."""
    try:
        entries = json.loads((cache_dir() / "servers.json").read_text())
        return {key: ServerInfo(**info | {"omitted_fields": tuple(info["omitted_fields"])}) for key, info in entries.items()}
    except (OSError, ValueError, TypeError, AttributeError, KeyError):
        return {}


def _save_server_info(key: str, info: ServerInfo) -> ServerInfo:
    cached = _cached_info()
    if cached.get(key) != info:
        stored = {k: asdict(i) for k, i in (cached | {key: info}).items()}
        write_atomically(cache_dir() / "servers.json", json.dumps(stored).encode())
    return info


LEARNED_FOR_S = 24 * 3600.0  # a server may be updated, or started with a larger window


def _with_learned(key: str, facts: ServerInfo) -> ServerInfo:
    """The info of a server with what its answers have taught of the same model, most of it within the last day."""
    before = _cached_info().get(key)
    if before is None or before.digest != facts.digest:
        return facts
    facts = replace(facts, hides_thinking=before.hides_thinking)
    if not 0 <= time.time() - before.learned_at <= LEARNED_FOR_S:
        return facts
    window = before.learned_window if before.window == facts.window else 0
    return replace(facts, learned_window=window, omitted_fields=before.omitted_fields, form=before.form, learned_at=before.learned_at)


def save_learned(server: "ModelServer", name: str, *, hides_thinking: bool = False) -> None:
    """Remember, also for other processes, what a server turned out to need."""
    info, omitted = server.info, tuple(sorted(server.omitted_fields.value))
    learned = replace(
        info,
        hides_thinking=info.hides_thinking or hides_thinking,
        learned_window=server.learned_window,
        omitted_fields=omitted,
        form=server.form.value,
    )
    if learned != info:
        server.info = _save_server_info(f"{server.url}#{name}", replace(learned, learned_at=time.time()))


DEFAULT_PARALLEL_REQUESTS = 8  # for a server that does not report its slots; it queues or rejects more
DEFAULT_CONTEXT = 4096  # for a server that does not report it

ANSWER_PRIORITY = 0  # of a request that a person waits for
INDEXING_WAIT_S, INTERACTIVE_WAIT_S = 1800.0, 60.0  # for servers that are down
FIRST_RETRY_DELAY_S, MAX_RETRY_DELAY_S = 0.25, 10.0  # doubled after every try


def backoff_delay(tries: int) -> float:
    """Seconds before the next try: exponential with jitter, so that clients do not retry together."""
    return min(MAX_RETRY_DELAY_S, FIRST_RETRY_DELAY_S * 2.0 ** min(tries, 20)) * random.uniform(0.5, 1.5)


def down_timeout(priority: int) -> float:
    """Seconds to wait for a server that is down; less for a person."""
    return INTERACTIVE_WAIT_S if priority == ANSWER_PRIORITY else INDEXING_WAIT_S


@dataclass(slots=True)
class Conclusion(Generic[T]):
    """What a server turned out to need. It changes when two requests, the second begun after the first ended, speak for the same value:
    one fault, which may meet several requests at once, proves nothing.
    """

    value: T
    _proposed: T | None = None
    _proposed_at: float = 0.0

    def observe(self, value: T, begun: float) -> None:
        """Take into account that a request begun at `begun` (time.monotonic()) needed this value."""
        if value == self.value:
            self._proposed = None
        elif value != self._proposed:
            self._proposed, self._proposed_at = value, time.monotonic()
        elif begun >= self._proposed_at:
            self.value, self._proposed = value, None


@dataclass(eq=False, slots=True)
class ModelServer:
    """The server of a model: its info, its slots, and since when it has been down (0: up).

    It starts as down, so that it is asked before its first request: it may serve another model by now. `read_info` asks it for its info,
    `notify` informs the user; `digest` identifies the model that it must serve.
    """

    url: str
    info: ServerInfo
    capacity: int  # requests at the same time
    read_info: Callable[[], Awaitable[ServerInfo | None]]
    notify: Callable[[str], None]
    digest: str
    active_requests: int = 0
    down_since: float = field(default_factory=time.monotonic)
    is_reported_down: bool = False
    error: ModelError | None = None  # why it is no longer used
    omitted_fields: Conclusion[frozenset[str]] = field(default_factory=lambda: Conclusion(frozenset()))  # that it rejected
    form: Conclusion[str] = field(default_factory=lambda: Conclusion(FORMS[0]))  # in which it is asked first
    ends_silently: Conclusion[bool] = field(default_factory=lambda: Conclusion(False))  # nothing marks the end of its answers
    reasoning_level: int = 0  # of REASONING_TOKENS: thinks although told not to
    learned_window: int = 0  # by requests that did not fit
    longest_answered: int = 0  # tokens of the longest request that it answered
    is_info_current: bool = False  # asked again since its model is loaded
    is_reported_busy: bool = False
    has_answered: bool = False
    refused: int = 0  # requests that it has refused, before its first answer
    probe: "asyncio.Task[None] | None" = None
    _waiting: "list[tuple[int, int, asyncio.AbstractEventLoop, asyncio.Future[None]]]" = field(default_factory=list)
    _turn: "count[int]" = field(default_factory=count)

    def __post_init__(self) -> None:
        self.omitted_fields.value, self.form.value = frozenset(self.info.omitted_fields), self.info.form
        self.learned_window = self.info.learned_window

    @property
    def address(self) -> str:
        """The URL to which paths are added."""
        return self.url + self.info.suffix

    @property
    def window(self) -> int:
        """Tokens of a request, as far as the server told it or it was found out; 0 if unknown."""
        return min((w for w in (self.info.window, self.learned_window) if w), default=0)

    async def acquire(self, priority: int) -> None:
        """Wait for a slot, to be returned by `release`. Raises EngineError if the server has not answered for too long."""
        started, turn = time.monotonic(), next(self._turn)
        while self.down_since or self.error or self.active_requests >= self.capacity:
            self._probe_if_down()
            self._raise_if_waited_too_long(started, priority)
            loop = asyncio.get_running_loop()
            waiter = (priority, turn, loop, loop.create_future())
            self._waiting.append(waiter)
            try:
                await waiter[3]
            finally:
                self._waiting.remove(waiter)
        self.active_requests += 1

    def release(self) -> None:
        """Return a slot."""
        self.active_requests -= 1
        self._wake()

    def mark_down(self) -> None:
        """Record a broken connection: the server gets no requests until it answers again."""
        self.down_since = self.down_since or time.monotonic()
        self._probe_if_down()

    def _raise_if_waited_too_long(self, started: float, priority: int) -> None:
        if self.error:
            raise self.error
        since = started if priority == ANSWER_PRIORITY else self.down_since
        if self.down_since and self.is_reported_down and time.monotonic() - since > down_timeout(priority):
            waited = f"{INDEXING_WAIT_S / 60:.0f} minutes" if priority else f"{INTERACTIVE_WAIT_S:.0f} seconds"
            raise EngineError(
                f"{self.url} has not answered for {waited}.", "Start the server and run the same command again; finished work is saved."
            )

    def _probe_if_down(self) -> None:
        if self.down_since and self.error is None and (self.probe is None or self.probe.done()):
            self.probe = asyncio.get_running_loop().create_task(self._until_it_answers())

    async def _until_it_answers(self) -> None:
        for tries in count():
            try:
                info = await self.read_info()
            except ModelError as error:
                self.error = error
                break
            if info is not None:
                self._back(info)
                break
            if not self.is_reported_down:
                self.is_reported_down, self.down_since = True, time.monotonic()
                self.notify(f"{self.url} does not answer; waiting for it …")
            self._wake()  # waiters check their timeout
            await asyncio.sleep(backoff_delay(tries))
        self._wake()

    def _back(self, info: ServerInfo) -> None:
        if self.digest and info.digest and info.digest != self.digest:
            self.error = ModelError(
                f"{self.url} serves another model than before.",
                "Serve the same one, or run the same command again: finished work is saved.",
            )
            return
        if self.is_reported_down:  # it may have been started with another window
            self.notify(f"{self.url} is back.")
            self.learned_window, self.longest_answered = 0, 0
        self.info, self.down_since, self.is_reported_down, self.is_info_current = info, 0.0, False, False

    def _wake(self) -> None:
        """Wake all waiters, the most urgent first."""
        for _, _, loop, future in sorted(self._waiting, key=lambda w: w[:2]):
            with suppress(RuntimeError):  # its event loop is closed
                loop.call_soon_threadsafe(_set, future)


def _set(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
