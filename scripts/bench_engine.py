"""Measures the engine on this machine: what batching brings, and what a prefix and a decoded row cost.

    make bench            # or: python scripts/bench_engine.py [--model PATH.gguf] [--rounds 3]

Decoding is bound by memory and compute per row; reading a prompt by compute. The same requests are run one after the other and all at
once, in alternation, and the medians are compared: absolute figures are those of this machine at this moment, the ratio is the result.
A table for people, then one JSON line for machines.
"""

import argparse
import asyncio
import json
import platform
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from localrag.config import free_cores
from localrag.demo import CORPUS
from localrag.engine.engine import Engine, Generation, Request
from localrag.engine.llama import Llama
from localrag.llm.grammar import entity_lines
from localrag.llm.prompts import load_prompt
from localrag.models import find_chat_model

TYPES = ("person", "organization", "place", "event")


def requests(engine: Engine, number: int) -> list[Request]:
    """Entity prompts over passages of the demo corpus, bounded to spans of the passage."""
    passages = [p.read_text(encoding="utf-8")[200:900] for p in sorted(CORPUS.rglob("*.md"))]
    texts = [passages[n % len(passages)][: 500 + 20 * n] for n in range(number)]
    prompt = load_prompt("extractive/entities")
    return [
        Request(
            engine.cells(engine.backend.chat.render(prompt.fill(text=text, types=", ".join(TYPES)))),
            max_tokens=400,
            grammar=entity_lines([], TYPES, span_of=text, most=6),
        )
        for text in texts
    ]


def timed(engine: Engine, work: list[Request], *, together: bool) -> tuple[float, list[Generation]]:
    """Seconds and results of the work, at once or one by one, on an engine that holds nothing yet."""
    engine.forget()

    async def run() -> list[Generation]:
        if together:
            return list(await asyncio.gather(*(engine.generate(r) for r in work)))
        return [await engine.generate(r) for r in work]

    started = time.perf_counter()
    results = asyncio.run(run())
    return time.perf_counter() - started, results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--requests", type=int, default=16)
    args = parser.parse_args()
    file = find_chat_model(args.model)
    engine = Engine(Llama(file, threads=free_cores()))
    work = requests(engine, args.requests)
    seconds: dict[bool, list[float]] = {True: [], False: []}
    same = True
    for _ in range(args.rounds):
        by_one, alone = timed(engine, work, together=False)
        at_once, batched = timed(engine, work, together=True)
        seconds[False].append(by_one)
        seconds[True].append(at_once)
        same = same and [g.text for g in alone] == [g.text for g in batched]
        tokens = sum(g.output_tokens for g in batched)
    engine.close()
    one, all_ = statistics.median(seconds[False]), statistics.median(seconds[True])
    print(f"{file.name} on {platform.machine()}, {free_cores()} cores, {args.requests} requests, {tokens} output tokens")
    print(f"  one by one   {one:6.1f} s   {tokens / one:6.1f} output tok/s")
    print(f"  all at once  {all_:6.1f} s   {tokens / all_:6.1f} output tok/s   {one / all_:.2f} times as fast, answers equal: {same}")
    figures = {"model": file.name, "cores": free_cores(), "requests": args.requests, "output_tokens": tokens, "equal": same}
    print(json.dumps(figures | {"one_by_one_s": round(one, 2), "all_at_once_s": round(all_, 2), "ratio": round(one / all_, 2)}))


if __name__ == "__main__":
    main()
