"""Model servers: server info, probing, and the server pool.

llama-server, vLLM, Ollama and LM Studio report their model at different endpoints; of other servers only the model's name is known. Server
info is cached for the time when a server does not answer. The pool has no event loop of its own: `localrag chat` runs one per question.
"""

import asyncio
import json
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from itertools import count
from pathlib import PurePath
from typing import Any

from localrag.engine.remote.client import (
    ConnectionLost,
    HttpConfig,
    HttpError,
    MalformedResponse,
    as_count,
    check_host,
    get,
    http_config,
    key_refused,
    post,
)
from localrag.engine.settings import EngineOptions
from localrag.engine.tokenizer import Tokenizer
from localrag.errors import EngineError, ModelError, UsageError
from localrag.model_files import ModelFile, ServerInfo
from localrag.system.files import cache_dir, write_atomically
from localrag.system.resources import run_in_short_lived_thread

PROBE_TIMEOUT_S = 3.0
OLLAMA_DEFAULT_CONTEXT = 4096  # Ollama's smallest default; it truncates longer prompts silently
_LATIN = (
    "Ingrid Holm bought the ferry Skua from the Northern Line in 1974. Mayor Ruth Sand had asked for it: “The town of Vardby has waited "
    "two years.” Repairs (hull, 12,450 kr.; engine, 3,200 kr.) were paid by the owner's insurance, according to the minutes."
)
_CHINESE = "英格丽·霍尔姆在一九七四年从北方航线公司买下了渡轮“海鸥号”。市长说，这座小镇已经等了两年。船体和发动机的修理费由船主的保险支付。"


def with_server_info(file: ModelFile, options: EngineOptions, known: dict[str, str] | None = None) -> ModelFile:
    """A served model with its servers' info; any other file unchanged. `known`: path and fingerprint an index is bound to.

    For a server that does not answer, or is not allowed, cached info is used, or the index's binding. Raises EngineError if nothing is
    known, UsageError if servers have different models or are not allowed.
    """
    if not file.url or file.servers:
        return file
    answers = run_in_short_lived_thread(lambda: asyncio.run(_ask_all(file, options)))
    cached = _cached_info()
    facts = [answer or cached.get(f"{url}#{file.name}") for url, answer in zip(file.urls, answers, strict=True)]
    served = replace(file, servers=tuple(f or ServerInfo() for f in facts))
    _check_same(served)
    if known and _leads_to(known["path"], file) and (known["fingerprint"] in _by_address(file) or not any(facts)):
        return replace(served, bound_fingerprint=known["fingerprint"])
    if not any(facts):
        for url in file.urls:
            check_host(url, options.allowed_hosts)
        raise EngineError(
            f"{' and '.join(file.urls)} {'does' if len(file.urls) == 1 else 'do'} not answer.",
            "Start the server, or correct its address: --model http://HOST:PORT/v1#NAME",
        )
    return served


def _leads_to(path: str, file: ModelFile) -> bool:
    url, _, name = path.partition("#")
    return (url.rstrip("/"), name) == (file.url, file.name)


def _by_address(file: ModelFile) -> list[str]:
    """Fingerprints in the old format, made of the address as typed and the name: existing indexes keep them."""
    return [sha256(f"{url} {file.name}".encode()).hexdigest()[:16] for url in (file.url, f"{file.url}/")]


def _check_same(file: ModelFile) -> None:
    known = [(url, f) for url, f in zip(file.urls, file.servers, strict=True) if f.digest]
    for url, facts in known[1:]:
        if facts.digest != known[0][1].digest:
            raise UsageError(
                f"{known[0][0]} serves {_describe_server(known[0][1], file)}, {url} serves "
                f"{_describe_server(facts, file)}: they are not the same model.",
                "Give servers of one model, or one of the two.",
            )


def _describe_server(facts: ServerInfo, file: ModelFile) -> str:
    size = f" ({facts.parameters / 1e6:,.0f}M parameters)" if facts.parameters else ""
    return f"{PurePath(facts.model or file.name).name}{size}"


async def _ask_all(file: ModelFile, options: EngineOptions) -> list[ServerInfo | None]:
    async def query(url: str) -> ServerInfo | None:
        try:
            check_host(url, options.allowed_hosts)
        except UsageError:
            return None
        return await query_server(wire, url, file)

    wire = http_config(file.urls, by_index=file.by_index)
    return list(await asyncio.gather(*(query(url) for url in file.urls)))


async def query_server(wire: HttpConfig, url: str, file: ModelFile) -> ServerInfo | None:
    """The info of the server at a URL; None if it does not answer or is not ready. Raises EngineError."""
    try:
        models = await get(wire, f"{url}/models", PROBE_TIMEOUT_S)
    except ConnectionLost:
        return None
    except HttpError as error:
        if error.status in (401, 403):
            raise key_refused(wire, url) from error
        return None if error.status in (429, 502, 503, 504) else ServerInfo()
    except MalformedResponse:
        return ServerInfo()
    entry = _entry(models, file.name)
    if entry.get("owned_by") == "llamacpp" and not isinstance(entry.get("meta"), dict):
        return None  # it is still loading the model
    try:
        facts = await _read_server_info(wire, url, entry, file)
        return _save_server_info(f"{url}#{file.name}", await _with_scale(wire, url, facts, file))
    except ConnectionLost:
        return None


def _entry(models: Any, name: str) -> dict[str, Any]:
    """The entry of a model in a server's list: by name, or the only one if no name was given or llama-server has no other."""
    listed = models.get("data") if isinstance(models, dict) else None
    entries = [m for m in listed if isinstance(m, dict) and isinstance(m.get("id"), str)] if isinstance(listed, list) else []
    named = [m for m in entries if name in (m["id"], m["id"].removesuffix(":latest"))]
    only = entries if len(entries) == 1 and (name == "default" or entries[0].get("owned_by") == "llamacpp") else [{}]
    return (named or only)[0]


async def _read_server_info(wire: HttpConfig, url: str, entry: dict[str, Any], file: ModelFile) -> ServerInfo:
    root, model = url.removesuffix("/v1"), str(entry.get("id", ""))
    if isinstance(meta := entry.get("meta"), dict):
        return await _of_llama(wire, root, model, meta)
    if entry.get("owned_by") == "vllm" or "max_model_len" in entry:
        name = PurePath(str(entry.get("root") or model)).name
        return ServerInfo(_digest("vllm", name), model, window=as_count(entry.get("max_model_len")), tokenize_field="prompt")
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
    return ServerInfo(_digest("ollama", digest), model, parameters, as_count(loaded.get("context_length")) or OLLAMA_DEFAULT_CONTEXT)


def _of_name(listed: Any, where: str, name: str) -> dict[str, Any]:
    entries = listed.get(where) if isinstance(listed, dict) else None
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and name in (called := (entry.get("name"), entry.get("model"), entry.get("id"))) + tuple(
            str(c).removesuffix(":latest") for c in called
        ):
            return entry
    return {}


async def _maybe(wire: HttpConfig, address: str) -> Any:
    try:
        return await get(wire, address, PROBE_TIMEOUT_S)
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
    tokenizer = Tokenizer(replace(file, servers=()))
    latin, chinese = [
        round((await count_tokens(wire, url, facts, text) or tokenizer.count(text)) / tokenizer.count(text), 2)
        for text in (_LATIN, _CHINESE)
    ]
    return replace(facts, latin_token_ratio=latin, chinese_token_ratio=chinese)


_STORED_KEYS = {"tokenize_field": "counts", "latin_token_ratio": "latin", "chinese_token_ratio": "chinese"}  # of servers.json


def _cached_info() -> dict[str, ServerInfo]:
    """Cached server info by URL and model name."""
    try:
        entries = json.loads((cache_dir() / "servers.json").read_text())
        names = {stored: name for name, stored in _STORED_KEYS.items()}
        return {key: ServerInfo(**{names.get(k, k): v for k, v in facts.items()}) for key, facts in entries.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def _save_server_info(key: str, facts: ServerInfo) -> ServerInfo:
    cached = _cached_info()
    if cached.get(key) != facts:
        stored = {k: {_STORED_KEYS.get(n, n): v for n, v in asdict(f).items()} for k, f in (cached | {key: facts}).items()}
        write_atomically(cache_dir() / "servers.json", json.dumps(stored).encode())
    return facts


def parallel_requests(facts: ServerInfo, options: EngineOptions) -> int:
    """Number of parallel requests to a server."""
    return options.parallel_requests or facts.slots or DEFAULT_PARALLEL_REQUESTS


DEFAULT_PARALLEL_REQUESTS = 8  # for a server that does not report its slots; it queues or rejects more


def context_size(facts: Sequence[ServerInfo]) -> int:
    """Tokens that a request may have on every server."""
    return min((f.window for f in facts if f.window), default=DEFAULT_CONTEXT)


DEFAULT_CONTEXT = 4096  # for a server that does not report it

ANSWER_PRIORITY = 0  # of a request that a person waits for
INDEXING_WAIT_S, INTERACTIVE_WAIT_S = 1800.0, 60.0  # for servers that are down
FIRST_RETRY_DELAY_S, MAX_RETRY_DELAY_S = 0.25, 10.0  # doubled after every try
MAX_SESSION_AFFINITY = 4096

ProbeServer = Callable[[str], Awaitable[ServerInfo | None]]


def backoff_delay(tries: int) -> float:
    """Seconds before the next try: exponential with jitter, so that clients do not retry together."""
    return min(MAX_RETRY_DELAY_S, FIRST_RETRY_DELAY_S * 2.0 ** min(tries, 20)) * random.uniform(0.5, 1.5)


def down_timeout(priority: int) -> float:
    """Seconds to wait for a server that is down; less for a person."""
    return INTERACTIVE_WAIT_S if priority == ANSWER_PRIORITY else INDEXING_WAIT_S


@dataclass(eq=False, slots=True)
class PooledServer:
    """One server: its info, active requests, and since when it has been down (0: up)."""

    url: str
    info: ServerInfo
    capacity: int
    active_requests: int = 0
    down_since: float = 0.0
    is_reported_down: bool = False
    error: ModelError | None = None  # why it is no longer used
    omitted_fields: frozenset[str] = frozenset()  # optional fields that it rejected
    has_reasoning: bool = False  # thinks although told not to: its answers get more tokens
    probe: "asyncio.Task[None] | None" = None

    @property
    def free(self) -> int:
        """Slots without a request of this process."""
        return self.capacity - self.active_requests if not self.down_since and self.error is None else 0


@dataclass(slots=True)
class ServerPool:
    """The servers of a model. `probe` queries a server, `notify` informs the user; `digest` identifies the model they must serve.

    A request goes to the server with its conversation's KV, otherwise to the one with most free slots.
    """

    servers: list[PooledServer]
    probe: ProbeServer
    notify: Callable[[str], None]
    digest: str
    _waiting: "list[tuple[int, int, asyncio.AbstractEventLoop, asyncio.Future[None]]]" = field(default_factory=list)
    _turn: "count[int]" = field(default_factory=count)
    _holds: dict[str, PooledServer] = field(default_factory=dict)  # conversation → where its KV is

    @property
    def capacity(self) -> int:
        """Requests that all servers together process at the same time."""
        return sum(s.capacity for s in self.servers)

    async def acquire(self, conversation: str, priority: int) -> PooledServer:
        """Wait for a slot of a server, to be returned by `release`. Raises EngineError if no server has answered for too long."""
        started, turn = time.monotonic(), next(self._turn)
        while (server := self._choose(conversation)) is None:
            self._probe_those_down()
            self._raise_if_waited_too_long(started, priority)
            loop = asyncio.get_running_loop()
            waiter = (priority, turn, loop, loop.create_future())
            self._waiting.append(waiter)
            try:
                await waiter[3]
            finally:
                self._waiting.remove(waiter)
        server.active_requests += 1
        return server

    def release(self, server: PooledServer) -> None:
        """Return a slot."""
        server.active_requests -= 1
        self._wake()

    def remember_conversation(self, conversation: str, server: PooledServer) -> None:
        """Remember which server holds a conversation's KV."""
        self._holds[conversation] = server
        if len(self._holds) > MAX_SESSION_AFFINITY:
            del self._holds[next(iter(self._holds))]

    def mark_down(self, server: PooledServer) -> None:
        """Record a broken connection: the server gets no requests until it answers again."""
        server.down_since = server.down_since or time.monotonic()
        self._probe_those_down()

    def _choose(self, conversation: str) -> PooledServer | None:
        holder = self._holds.get(conversation)
        if holder and not holder.down_since and holder.error is None:
            return holder if holder.free > 0 else None
        best = max(self.servers, key=lambda s: s.free)
        return best if best.free > 0 else None

    def _raise_if_waited_too_long(self, started: float, priority: int) -> None:
        if any(s.error is None and not (s.down_since and s.is_reported_down) for s in self.servers):
            return
        if (errors := [s.error for s in self.servers if s.error]) and len(errors) == len(self.servers):
            raise errors[0]
        since = started if priority == 0 else max(s.down_since for s in self.servers)
        if time.monotonic() - since > down_timeout(priority):
            names = " and ".join(s.url for s in self.servers) + (" has" if len(self.servers) == 1 else " have")
            waited = f"{INDEXING_WAIT_S / 60:.0f} minutes" if priority else f"{INTERACTIVE_WAIT_S:.0f} seconds"
            raise EngineError(
                f"{names} not answered for {waited}.", "Start the server and run the same command again; finished work is saved."
            )

    def _probe_those_down(self) -> None:
        for server in self.servers:
            if server.down_since and server.error is None and (server.probe is None or server.probe.done()):
                server.probe = asyncio.get_running_loop().create_task(self._until_it_answers(server))

    async def _until_it_answers(self, server: PooledServer) -> None:
        for tries in count():
            try:
                facts = await self.probe(server.url)
            except ModelError as error:
                server.error = error
                break
            if facts is not None:
                self._back(server, facts)
                break
            if not server.is_reported_down:
                server.is_reported_down, server.down_since = True, time.monotonic()
                has_others = any(not s.down_since and s.error is None for s in self.servers)
                self.notify(f"{server.url} does not answer; {'going on without it' if has_others else 'waiting for it'} …")
            self._wake()  # waiters check their timeout
            await asyncio.sleep(backoff_delay(tries))
        self._wake()

    def _back(self, server: PooledServer, facts: ServerInfo) -> None:
        if self.digest and facts.digest and facts.digest != self.digest:
            server.error = ModelError(
                f"{server.url} serves another model than before.",
                "Serve the same one, or run the same command again: finished work is saved.",
            )
            self.notify(f"{server.error} It is not used.")
            return
        if server.is_reported_down:
            self.notify(f"{server.url} is back.")
        server.info, server.down_since, server.is_reported_down = facts, 0.0, False

    def _wake(self) -> None:
        """Wake all waiters, the most urgent first."""
        for _, _, loop, future in sorted(self._waiting, key=lambda w: w[:2]):
            try:
                loop.call_soon_threadsafe(_set, future)
            except RuntimeError:  # its event loop is closed
                continue


def _set(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
