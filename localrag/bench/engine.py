"""Benchmark of the engine: a workload and its speed on this machine.

The workload asks for one JSON object of a schema for every chunk of a text, after the same few-shot conversation, with greedy decoding.
"""

import asyncio
import json
import re
import tempfile
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from localrag.demo import CORPUS
from localrag.engine.autotune.load import open_backend
from localrag.engine.engine import Engine
from localrag.engine.llama.model import LlamaModel
from localrag.engine.request import Generation, Request
from localrag.engine.settings import EngineOptions
from localrag.errors import UsageError
from localrag.llm.grammar import json_object
from localrag.model_files import ModelFile

WORKLOAD_FOLDER = Path(__file__).parent / "workload"


@dataclass(frozen=True, slots=True)
class Workload:
    """The workload: a conversation that precedes every chunk, the chunks, the schema of the answers and their length."""

    prefix: tuple[dict[str, str], ...]
    chunks: tuple[str, ...]
    schema: dict[str, Any]
    max_tokens: int


def read_workload(*, chunks: int, words: int, max_tokens: int) -> Workload:
    """The workload: the demo documents in chunks, after a conversation and with a schema of this package. Raises UsageError."""
    prefix = (WORKLOAD_FOLDER / "prefix.txt").read_text(encoding="utf-8")
    turns = re.findall(r"<\|im_start\|>(\w+)\n((?:(?!<\|im_start\|>).)*?)<\|im_end\|>", prefix, re.DOTALL)
    words_of_text = " ".join(path.read_text(encoding="utf-8") for path in sorted(CORPUS.rglob("*.md"))).split()
    if len(words_of_text) <= (chunks - 1) * words:
        raise UsageError(
            f"The demo has {len(words_of_text)} words, {chunks} chunks of {words} need {chunks * words}.", "Ask for fewer: --chunks 4"
        )
    return Workload(
        tuple({"role": role, "content": content.strip()} for role, content in turns),
        tuple(" ".join(words_of_text[i * words : (i + 1) * words]) for i in range(chunks)),
        json.loads((WORKLOAD_FOLDER / "schema.json").read_text(encoding="utf-8")),
        max_tokens,
    )


def run_workload(file: ModelFile, options: EngineOptions, work: Workload) -> dict[str, Any]:
    """The metrics of one run of the workload from a cold start, without stored KV. Raises ModelError."""

    def cold() -> LlamaModel:
        backend = open_backend(file, options)
        backend.prefix_folder = Path(folder)
        return backend

    with tempfile.TemporaryDirectory() as folder, closing(Engine(cold)) as engine:
        return _run(engine, work)


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
