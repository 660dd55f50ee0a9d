"""Benchmark of the engine: a workload from files, its speed on this machine, and the effect of each part of the engine.

The workload asks for one JSON object of a schema for every chunk of a text, after the same few-shot conversation, with greedy decoding. Any
program that can do this can be compared on the same files.
"""

import asyncio
import json
import re
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast
from unittest import mock

from localrag.demo import CORPUS
from localrag.engine.autotune.load import open_backend
from localrag.engine.engine import Engine
from localrag.engine.llama.model import LlamaModel
from localrag.engine.request import Generation, Request
from localrag.engine.sampler import GrammarMatcher
from localrag.engine.settings import EngineOptions
from localrag.errors import UsageError
from localrag.llm.grammar import json_object
from localrag.model_files import ModelFile
from localrag.system.resources import run_in_short_lived_thread

SHIPPED_WORKLOAD = Path(__file__).parent / "workload"
ABLATIONS = {
    "no prefix sharing": "share_prefixes=no",
    "no drafts": "prompt_lookup=no",
    "one sequence": "slots=1",
    "flash attention": "flash_attention=yes,kv_cache_type=f16,min_rows=1,row_multiple=1",
}
# Parts that have no option, because they are never slower: they are disabled by patching the code.
ABLATED_PARTS: dict[str, tuple[str, Any]] = {
    "no forced tokens": ("forced_tokens", lambda _: []),
    "eager masks": ("accepts", lambda *_: False),
}


@dataclass(frozen=True, slots=True)
class Workload:
    """The workload: a conversation that precedes every chunk, the chunks, the schema of the answers and their length."""

    prefix: tuple[dict[str, str], ...]
    chunks: tuple[str, ...]
    schema: dict[str, Any]
    max_tokens: int


def read_workload(text: Path | None, prefix: Path | None, schema: Path | None, *, chunks: int, words: int, max_tokens: int) -> Workload:
    """Read the files: a plain text, a conversation in ChatML (`<|im_start|>role … <|im_end|>`), a JSON schema. Raises UsageError.

    The defaults are the demo documents, and a conversation and a schema of this package.
    """
    prefix, schema = prefix or SHIPPED_WORKLOAD / "prefix.txt", schema or SHIPPED_WORKLOAD / "schema.json"
    turns = re.findall(r"<\|im_start\|>(\w+)\n((?:(?!<\|im_start\|>).)*?)<\|im_end\|>", _read_prompt(prefix), re.DOTALL)
    if not turns:
        raise UsageError(f"{prefix} holds no turn of a conversation.", "Write it as <|im_start|>role, a line break, the text, <|im_end|>.")
    try:
        shape = json.loads(_read_prompt(schema))
    except ValueError as error:
        raise UsageError(f"{schema} is not valid JSON: {error}", "Give a JSON schema.") from error
    words_of_text = " ".join(map(_read_prompt, [text] if text else sorted(CORPUS.rglob("*.md")))).split()
    parts = tuple(" ".join(words_of_text[i * words : (i + 1) * words]) for i in range(chunks))
    if not all(parts):
        raise UsageError(
            f"{text or 'The demo'} has {len(words_of_text)} words, {chunks} chunks of {words} need {chunks * words}.",
            "Ask for fewer: --chunks 4",
        )
    return Workload(tuple({"role": role, "content": content.strip()} for role, content in turns), parts, shape, max_tokens)


def _read_prompt(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}", "Check the path.") from error


class _RecordingBackend:
    """A model that records the calls that take time: decoding steps and KV cache operations."""

    def __init__(self, backend: LlamaModel) -> None:
        self._backend = backend
        self.calls: list[tuple[str, tuple[Any, ...]]] = []

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._backend, name)
        if name not in {"decode", "truncate", "copy_prefix", "save_state", "load_state"}:
            return value

        def noted(*values: Any) -> Any:
            self.calls.append((name, values))
            return value(*values)

        return noted


def run_workload(file: ModelFile, options: EngineOptions, work: Workload, *, limit: bool = False) -> dict[str, Any]:
    """The metrics of one run of the workload from a cold start, without stored KV. Raises ModelError.

    `limit` adds the speed of the same llama.cpp calls with nothing between them, which no engine that makes them can exceed.
    """

    def cold() -> Any:
        backend = open_backend(file, options)
        backend.prefix_folder = Path(folder)
        return _RecordingBackend(backend) if limit else backend

    with tempfile.TemporaryDirectory() as folder:
        engine = Engine(cold)
        try:
            figures = _run(engine, work)
        finally:
            engine.close()
        if limit:
            calls = cast(_RecordingBackend, engine.backend).calls
            seconds = run_in_short_lived_thread(lambda: _replay(open_backend(file, options), calls))
            speed = round(figures["output_tokens"] / seconds, 1)
            figures["limit"] = {"seconds": round(seconds, 2), "output_tokens_per_s": speed, "share": round(seconds / figures["seconds"], 3)}
        return figures


def _replay(backend: LlamaModel, calls: list[tuple[str, tuple[Any, ...]]]) -> float:
    """Seconds that recorded calls take one after another."""
    try:
        started = time.perf_counter()
        for name, values in calls:
            getattr(backend, name)(*values)
        return time.perf_counter() - started
    finally:
        backend.close()


def run_ablations(file: ModelFile, options: EngineOptions, work: Workload) -> dict[str, dict[str, Any]]:
    """The metrics of the workload with one part of the engine disabled at a time, by the part's name."""
    ablations = {
        name: run_workload(file, replace(options, overrides=f"{options.overrides},{change}"), work) for name, change in ABLATIONS.items()
    }
    for name, (method, instead) in ABLATED_PARTS.items():
        with mock.patch.object(GrammarMatcher, method, instead):
            ablations[name] = run_workload(file, options, work)
    return ablations


def _run(engine: Engine, work: Workload) -> dict[str, Any]:
    chat, grammar = engine.backend.chat, json_object(work.schema)
    requests = [
        Request(chat.encode([*work.prefix, {"role": "user", "content": chunk}]), work.max_tokens, grammar, task="bench")
        for chunk in work.chunks
    ]

    async def all_at_once() -> list[Generation]:
        return list(await asyncio.gather(*(engine.generate(r) for r in requests)))

    started = time.perf_counter()
    answers = asyncio.run(all_at_once())
    seconds = time.perf_counter() - started
    written = sum(a.output_tokens for a in answers)
    report = engine.metrics()
    return {
        "output_tokens": written,
        "seconds": round(seconds, 2),
        "output_tokens_per_s": round(written / seconds, 1),
        "prefill_tokens_per_s": report["prefill_tokens_per_s"],
        "decode_tokens_per_s": report["decode_tokens_per_s"],
        "chunks_per_s": round(len(requests) / seconds, 3),
        "forced_tokens": sum(a.forced_tokens for a in answers),
        "drafted_tokens": report["tasks"]["bench"]["drafted_tokens"],
        "prefix_tokens_saved": report["prefix_tokens_saved"],
        "steps": report["steps"],
        "host_share": report["host_share"],
        "slot_use": report["slot_use"],
        "settings": engine.settings.to_json(),
    }
