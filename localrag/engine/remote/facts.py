"""What a server tells of itself and of its model, kept in the user cache for the time when it does not answer.

llama-server, vLLM, Ollama and LM Studio each tell it elsewhere; of any other server the model's name is all that is known.
"""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from hashlib import sha256
from pathlib import PurePath
from typing import Any

from localrag.engine.remote.dialect import whole
from localrag.engine.remote.server import Lost, Malformed, Refused, Wire, check_host, get, key_refused, open_wire, post
from localrag.engine.settings import EngineOptions
from localrag.engine.tokens import Tokenizer
from localrag.errors import EngineFailed, UsageError
from localrag.models import Facts, ModelFile
from localrag.system.cores import in_a_thread_that_ends
from localrag.system.files import cache_dir, replace_file

QUICK = 3.0  # seconds for an answer to a question about the server itself
OLLAMA_WINDOW = 4096  # its least default; a longer prompt would be cut without a word
_LATIN = (
    "Ingrid Holm bought the ferry Skua from the Northern Line in 1974. Mayor Ruth Sand had asked for it: “The town of Vardby has waited "
    "two years.” Repairs (hull, 12,450 kr.; engine, 3,200 kr.) were paid by the owner's insurance, according to the minutes."
)
_CHINESE = "英格丽·霍尔姆在一九七四年从北方航线公司买下了渡轮“海鸥号”。市长说，这座小镇已经等了两年。船体和发动机的修理费由船主的保险支付。"


def identified(file: ModelFile, options: EngineOptions, known: dict[str, str] | None = None) -> ModelFile:
    """A served model with what its servers tell; any other file as it is. `known`: path and fingerprint an index is bound to.

    A server that does not answer, or may not be asked, is known by what it told before, and an index by its own word. Raises EngineFailed
    where nothing is known, UsageError where servers have different models or are not allowed.
    """
    if not file.url or file.facts:
        return file
    asked = in_a_thread_that_ends(lambda: asyncio.run(_ask_all(file, options)))
    kept = _kept()
    facts = [found or kept.get(f"{url}#{file.name}") for url, found in zip(file.urls, asked, strict=True)]
    one = replace(file, facts=tuple(f or Facts() for f in facts))
    _check_same(one)
    if known and _leads_to(known["path"], file) and (known["fingerprint"] in _by_address(file) or not any(facts)):
        return replace(one, bound=known["fingerprint"])
    if not any(facts):
        for url in file.urls:
            check_host(url, options.allowed_hosts)
        raise EngineFailed(
            f"{' and '.join(file.urls)} {'does' if len(file.urls) == 1 else 'do'} not answer.",
            "Start the server, or correct its address: --model http://HOST:PORT/v1#NAME",
        )
    return one


def _leads_to(given: str, file: ModelFile) -> bool:
    url, _, name = given.partition("#")
    return (url.rstrip("/"), name) == (file.url, file.name)


def _by_address(file: ModelFile) -> list[str]:
    """The fingerprints that served models had while they were made of address (as it was typed) and name: an index keeps its own."""
    return [sha256(f"{url} {file.name}".encode()).hexdigest()[:16] for url in (file.url, f"{file.url}/")]


def _check_same(file: ModelFile) -> None:
    told = [(url, f) for url, f in zip(file.urls, file.facts, strict=True) if f.digest]
    for url, facts in told[1:]:
        if facts.digest != told[0][1].digest:
            raise UsageError(
                f"{told[0][0]} serves {_shown(told[0][1], file)}, {url} serves {_shown(facts, file)}: they are not the same model.",
                "Give servers of one model, or one of the two.",
            )


def _shown(facts: Facts, file: ModelFile) -> str:
    size = f" ({facts.parameters / 1e6:,.0f}M parameters)" if facts.parameters else ""
    return f"{PurePath(facts.model or file.name).name}{size}"


async def _ask_all(file: ModelFile, options: EngineOptions) -> list[Facts | None]:
    async def one(url: str) -> Facts | None:
        try:
            check_host(url, options.allowed_hosts)
        except UsageError:
            return None
        return await look(wire, url, file)

    wire = open_wire(file.urls, by_index=file.by_index)
    return list(await asyncio.gather(*(one(url) for url in file.urls)))


async def look(wire: Wire, url: str, file: ModelFile) -> Facts | None:
    """What the server at an address tells of the model; None where it does not answer, or is not ready. Raises EngineFailed."""
    try:
        models = await get(wire, f"{url}/models", QUICK)
    except Lost:
        return None
    except Refused as error:
        if error.status in (401, 403):
            raise key_refused(wire, url) from error
        return None if error.status in (429, 502, 503, 504) else Facts()
    except Malformed:
        return Facts()
    entry = _entry(models, file.name)
    if entry.get("owned_by") == "llamacpp" and not isinstance(entry.get("meta"), dict):
        return None  # it is still loading the model
    try:
        facts = await _told(wire, url, entry, file)
        return _keep(f"{url}#{file.name}", await _with_scale(wire, url, facts, file))
    except Lost:
        return None


def _entry(models: Any, name: str) -> dict[str, Any]:
    """What a list of models says of one: that of its name; else the only one, where no name was given or llama-server has no other."""
    listed = models.get("data") if isinstance(models, dict) else None
    entries = [m for m in listed if isinstance(m, dict) and isinstance(m.get("id"), str)] if isinstance(listed, list) else []
    named = [m for m in entries if name in (m["id"], m["id"].removesuffix(":latest"))]
    only = entries if len(entries) == 1 and (name == "default" or entries[0].get("owned_by") == "llamacpp") else [{}]
    return (named or only)[0]


async def _told(wire: Wire, url: str, entry: dict[str, Any], file: ModelFile) -> Facts:
    root, model = url.removesuffix("/v1"), str(entry.get("id", ""))
    if isinstance(meta := entry.get("meta"), dict):
        return await _of_llama(wire, root, model, meta)
    if entry.get("owned_by") == "vllm" or "max_model_len" in entry:
        name = PurePath(str(entry.get("root") or model)).name
        return Facts(_digest("vllm", name), model, window=whole(entry.get("max_model_len")), counts="prompt")
    model = model or file.name
    if isinstance(found := _of_name(await _maybe(wire, f"{root}/api/tags"), "models", model).get("digest"), str):
        return await _of_ollama(wire, root, model, found)
    studio = _of_name(await _maybe(wire, f"{root}/api/v0/models"), "data", model)
    if "loaded_context_length" in studio or "quantization" in studio:
        parts = [str(studio.get(name)) for name in ("id", "publisher", "arch", "quantization")]
        return Facts(_digest("lmstudio", *parts), model, window=whole(studio.get("loaded_context_length")))
    return Facts(model=str(entry.get("id", "")))


async def _of_llama(wire: Wire, root: str, model: str, meta: dict[str, Any]) -> Facts:
    props = await _maybe(wire, f"{root}/props")
    props = props if isinstance(props, dict) else {}
    settings = props.get("default_generation_settings")
    window = whole(settings.get("n_ctx")) if isinstance(settings, dict) else 0
    shape = [str(whole(meta.get(name))) for name in ("vocab_type", "n_vocab", "n_ctx_train", "n_embd", "n_params", "size")]
    digest = _digest("llama", PurePath(str(props.get("model_path") or model)).name, *shape)
    return Facts(digest, model, whole(meta.get("n_params")), window or whole(meta.get("n_ctx")), whole(props.get("total_slots")), "content")


async def _of_ollama(wire: Wire, root: str, model: str, digest: str) -> Facts:
    loaded = _of_name(await _maybe(wire, f"{root}/api/ps"), "models", model)
    details = loaded.get("details")
    size = str(details.get("parameter_size", "")) if isinstance(details, dict) else ""
    unit = {"K": 1e3, "M": 1e6, "B": 1e9}.get(size[-1:], 0)
    parameters = round(float(size[:-1]) * unit) if unit and size[:-1].replace(".", "", 1).isdigit() else 0
    return Facts(_digest("ollama", digest), model, parameters, whole(loaded.get("context_length")) or OLLAMA_WINDOW)


def _of_name(listed: Any, where: str, name: str) -> dict[str, Any]:
    entries = listed.get(where) if isinstance(listed, dict) else None
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and name in (called := (entry.get("name"), entry.get("model"), entry.get("id"))) + tuple(
            str(c).removesuffix(":latest") for c in called
        ):
            return entry
    return {}


async def _maybe(wire: Wire, address: str) -> Any:
    try:
        return await get(wire, address, QUICK)
    except (Refused, Malformed):
        return None


def _digest(*parts: str) -> str:
    return sha256("\0".join(parts).encode(errors="replace")).hexdigest()[:16]


async def count(wire: Wire, url: str, facts: Facts, text: str) -> int:
    """The tokens of a text by the server's own vocabulary; 0 where it does not tell. Raises Lost."""
    if not facts.counts:
        return 0
    try:
        body = {facts.counts: text, "model": facts.model, "add_special_tokens": False}
        told = await post(wire, f"{url.removesuffix('/v1')}/tokenize", body)
    except (Refused, Malformed):
        return 0
    tokens = told.get("tokens") if isinstance(told, dict) else None
    return len(tokens) if isinstance(tokens, list) else 0


async def _with_scale(wire: Wire, url: str, facts: Facts, file: ModelFile) -> Facts:
    """The facts with how many tokens the server counts for one of the stand-in's, of Latin and of Chinese text: measured once a model."""
    before = _kept().get(f"{url}#{file.name}")
    if before and before.digest == facts.digest and before.counts:
        return replace(facts, latin=before.latin, chinese=before.chinese)
    if not facts.counts:
        return facts
    tokenizer = Tokenizer(replace(file, facts=()))
    latin, chinese = [
        round((await count(wire, url, facts, text) or tokenizer.count(text)) / tokenizer.count(text), 2) for text in (_LATIN, _CHINESE)
    ]
    return replace(facts, latin=latin, chinese=chinese)


def _kept() -> dict[str, Facts]:
    """What servers told before, by address and name."""
    try:
        found = json.loads((cache_dir() / "servers.json").read_text())
        return {key: Facts(**facts) for key, facts in found.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def _keep(key: str, facts: Facts) -> Facts:
    kept = _kept()
    if kept.get(key) != facts:
        replace_file(cache_dir() / "servers.json", json.dumps({k: asdict(f) for k, f in (kept | {key: facts}).items()}).encode())
    return facts


def at_once(facts: Facts, options: EngineOptions) -> int:
    """How many requests a server gets at the same time."""
    return options.at_once or facts.slots or AT_ONCE


AT_ONCE = 8  # requests to a server that does not tell how many it takes; it queues or refuses what is beyond


def window(facts: Sequence[Facts]) -> int:
    """Tokens that a request may have on any of the servers."""
    return min((f.window for f in facts if f.window), default=DEFAULT_WINDOW)


DEFAULT_WINDOW = 4096  # of a server that does not tell
