"""What the one who hands out jobs can do: many simulated workers, and the most that one process hands out, takes in and stores.

    python -m scripts.measure.scale_crew workers --seconds 60           64 workers that only wait, of 0.4 to 1.6 times the speed
    python -m scripts.measure.scale_crew workers --seconds 60 --kill 8  8 of them end half-way, noticed after 30 s of their time
    python -m scripts.measure.scale_crew driver FOLDER --chunks 17500   made-up bundles, 17 answers a chunk, to the stored extraction
    python -m scripts.measure.scale_crew driver FOLDER --chunks 17500 --kill 10   the same, with the process killed ten times on the way

A simulated worker takes 16 chunks at once, each for 5 s (log-normal) divided by `--speed-up`. Prints a table as Markdown.
"""

import argparse
import asyncio
import json
import math
import os
import random
import resource
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from localrag.indexing.extraction.stage import extract_chunks
from localrag.indexing.extraction.tasks import ExtractChunks, ExtractionAttempt, batch_by
from localrag.indexing.method import IndexingMethod
from localrag.indexing.tasks import MAX_CHUNKS_PER_TASK, Task, TaskContext, run_in_order
from localrag.indexing.workers.pool import open_scheduler
from localrag.indexing.workers.scheduler import Scheduler
from localrag.indexing.workers.worker import CacheAccess, TaskRequest, TaskResult, WorkerLost
from localrag.project import open_for_writing
from localrag.records import Chunk, Document, ExtractedEntity, ExtractedRelationship, Extraction, LlmCall, clustered_key, content_id
from localrag.settings import IndexSettings
from localrag.store import chunks as chunks_store
from localrag.store import documents, runs

SLOTS, SECONDS, NOTICED, CALLS = 16, 5.0, 30.0, 17


@dataclass(frozen=True)
class Unit(Task[int]):
    """A unit of chunks, each of which takes some time."""

    chunks: tuple[float, ...]

    @property
    def n_chunks(self) -> int:
        """How many chunks they are."""
        return len(self.chunks)

    async def run(self, _tools: TaskContext) -> int:
        """Nothing: the simulated worker waits."""
        return len(self.chunks)


class Waiting:
    """A worker that waits as long as a real one would compute."""

    has_llm, is_llm_only, location, numerics = True, False, "simulated", ""
    capacity = max(MAX_CHUNKS_PER_TASK + 1, int(1.5 * SLOTS))

    def __init__(self, name: str, speed: float, speed_up: float) -> None:
        self.name, self.speed = name, speed
        self._pace = speed * speed_up
        self._slots = [0.0] * SLOTS  # when each is free
        self.gone = False
        self._speed_up = speed_up

    async def run_task(self, task_request: TaskRequest) -> TaskResult:
        """Be done when the slots have had the time for all of the unit's chunks."""
        now = time.monotonic()
        end = now
        for seconds in task_request.task.chunks:
            slot = min(range(SLOTS), key=self._slots.__getitem__)
            self._slots[slot] = max(now, self._slots[slot]) + seconds / self._pace
            end = max(end, self._slots[slot])
        await asyncio.sleep(end - now)
        if self.gone:
            await asyncio.sleep(NOTICED / self._speed_up)
            raise WorkerLost("it was switched off")
        return TaskResult(len(task_request.task.chunks), seconds=end - now)

    async def engine_limits(self) -> dict[str, Any]:
        """As of an engine."""
        return {"window": 4096, "at_once": SLOTS}

    def close(self) -> None:
        """Nothing is held."""


def times(n: int, chance: random.Random) -> list[float]:
    """Seconds that chunks take: log-normal, on average SECONDS."""
    return [chance.lognormvariate(math.log(SECONDS) - 0.125, 0.5) for _ in range(n)]


def simulate(seconds: float, speed_up: float, kill: int, n_workers: int) -> None:
    """Print how much of what the workers could do was done."""
    chance = random.Random(0)
    workers = [Waiting(f"w{n}", chance.uniform(0.4, 1.6), speed_up) for n in range(n_workers)]
    rate = sum(w.speed for w in workers) * SLOTS * speed_up / SECONDS
    chunks = times(int(rate * seconds), chance)
    model = SimpleNamespace(calls=0, prompt_tokens=0, output_tokens=0)
    killed = chance.sample(workers, kill)

    async def run() -> float:
        worker_pool = Scheduler(
            TaskContext(model, None, None, IndexSettings(), str), CacheAccess(lambda _: [], lambda *_: None, may_have_calls=False)
        )  # type: ignore[arg-type]
        for worker in workers:
            worker_pool.add(worker)
        units = (Unit(some) for some in batch_by(chunks, len(chunks), worker_pool.batch_size))
        asyncio.get_running_loop().call_later(seconds / 2, lambda: [setattr(w, "gone", True) for w in killed])
        began, done = time.monotonic(), 0
        async for some in run_in_order(worker_pool, units, asks=True):
            done += sum(result for _, result in some)
        assert done == len(chunks)
        return time.monotonic() - began

    before = time.process_time()
    took = asyncio.run(run())
    cpu = time.process_time() - before
    total = sum(chunks)
    ideal = total / (sum(w.speed for w in workers) * SLOTS * speed_up)
    if kill:  # half of the time all of them, then those that are left
        left = sum(w.speed for w in workers if w not in killed)
        ideal = seconds / 2 + (total - seconds / 2 * sum(w.speed for w in workers) * SLOTS * speed_up) / (left * SLOTS * speed_up)
    static = max(total / len(workers) / (w.speed * SLOTS * speed_up) for w in workers)
    print("| workers | chunks | ideal | pulled | of ideal | equal shares | of ideal | driver CPU a chunk | chunks/s |")
    print("|---|---|---|---|---|---|---|---|---|")
    shares = "–" if kill else f"{static:.1f} s | {100 * ideal / static:.0f} %"
    print(
        f"| {n_workers}{f', {kill} killed' if kill else ''} | {len(chunks)} | {ideal:.1f} s | {took:.1f} s | {100 * ideal / took:.0f} % | "
        f"{shares} | {1000 * cpu / len(chunks):.2f} ms | {len(chunks) / took:.0f} |"
    )


class MadeUp:
    """A worker that answers at once, with as much as a real one would send."""

    has_llm, is_llm_only, location, numerics, capacity = True, False, "made up", "", 4 * MAX_CHUNKS_PER_TASK

    def __init__(self, name: str) -> None:
        self.name = name

    async def run_task(self, task_request: TaskRequest) -> TaskResult:
        """An extraction and CALLS answers for each chunk."""
        job = task_request.task
        assert isinstance(job, ExtractChunks)
        known = {c.key for c in task_request.cached_calls}
        calls = [call for c in job.chunks for call in made_calls(c) if call.key not in known]
        return TaskResult(tuple(ExtractionAttempt(made_extraction(c)) for c in job.chunks), new_calls=tuple(calls))

    async def engine_limits(self) -> dict[str, Any]:
        """As of an engine."""
        return {"window": 4096, "at_once": SLOTS}

    def close(self) -> None:
        """Nothing is held."""


def made_calls(chunk: Chunk) -> Iterator[LlmCall]:
    """Answers about a chunk."""
    about = content_id(chunk.text)
    for n in range(CALLS):
        key = clustered_key(content_id(chunk.id, str(n)), about)
        yield LlmCall(
            key, "entities", "made-up", key, "grammar", "0", '[{"name": "Ingrid Holm", "type": "person"}]', (7,) * 24, 300, 24, 0.5, about
        )


def made_extraction(chunk: Chunk) -> Extraction:
    """Names and relationships of a chunk."""
    names = [f"Name {chunk.ordinal} {n}" for n in range(10)]
    entities = tuple(ExtractedEntity(name, "person") for name in names)
    return Extraction(chunk.id, entities, tuple(ExtractedRelationship(a, b) for a, b in pairwise(names)))


def make_corpus(folder: Path, n: int) -> None:
    """Documents of 16 chunks each."""
    with open_for_writing(folder, extractor="model", style="extractive") as project:
        for number in range(len(documents.document_hashes(project.db)), n // 16):
            words = " ".join(f"word{(number * 7 + i) % 5000}" for i in range(320))
            text = "".join(f"{words} {number:06} {k:02}. " for k in range(16))  # no text twice: answers are looked up by it
            size = len(text) // 16
            path = f"{number:08}.txt"
            key = content_id(path)
            bounds = [(k * size, (k + 1) * size) for k in range(16)]
            chunks = [Chunk(content_id(key, *at), key, k, *at, text[slice(*at)], 680) for k, at in enumerate(bounds)]
            documents.save_document(project.db, Document(key, path, key, text, key), chunks)
            chunks_store.save_sentences(project.db, {c.id: struct.pack("<2I", 0, len(c.text)) for c in chunks})


def drive(folder: Path) -> None:
    """Hand out and store all chunks that are left; print what it took."""
    with open_for_writing(folder) as opened:
        project, worker_pool = open_scheduler(opened)
        runs.start_run(project.db, os.getpid())

        async def run() -> None:
            for n in range(8):
                worker_pool.add(MadeUp(f"w{n}"))
            await extract_chunks(project, IndexingMethod("model", asks_model=True), worker_pool, Quiet())  # type: ignore[arg-type]

        there = project.db["extractions"].count
        before, began = time.process_time(), time.monotonic()
        asyncio.run(run())
        row = {
            "done": project.db["extractions"].count - there,
            "seconds": time.monotonic() - began,
            "cpu": time.process_time() - before,
            "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            "calls": project.db["llm_calls"].count,
            "extractions": project.db["extractions"].count,
        }
        print(json.dumps(row))


class Quiet:
    """Nobody listens."""

    def __call__(self, *_: Any) -> None:
        """Nothing."""

    def count_names(self, _: Any) -> None:
        """Nothing."""


def driver(folder: Path, n: int, kills: int) -> None:
    """Make the corpus, then drive in a process of its own, which is killed some times on the way."""
    make_corpus(folder, n)
    command, chance, done = [sys.executable, "-m", "scripts.measure.scale_crew", "drive", str(folder)], random.Random(0), 0
    for _ in range(kills):
        process = subprocess.Popen(command)
        try:
            process.wait(chance.uniform(2, 2 + n / 17_500))
            break
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            done += 1
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    row = json.loads(said.splitlines()[-1])
    assert row["calls"] == n // 16 * 16 * CALLS, row
    assert row["extractions"] == n // 16 * 16, row
    print("| chunks | killed | of the last process: chunks | seconds | chunks/s | CPU a chunk | memory at most |")
    print("|---|---|---|---|---|---|---|")
    last, seconds = row["done"], row["seconds"]
    each_ms = 1000 * row["cpu"] / max(last, 1)
    print(f"| {n} | {done} | {last} | {seconds:.1f} | {last / seconds:.0f} | {each_ms:.2f} ms | {row['memory']:.0f} MB |")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ways = parser.add_subparsers(dest="way", required=True)
    workers = ways.add_parser("workers")
    workers.add_argument("--seconds", type=float, default=60.0)
    workers.add_argument("--speed-up", type=float, default=1.0)
    workers.add_argument("--kill", type=int, default=0)
    workers.add_argument("--workers", type=int, default=64)
    made = ways.add_parser("driver")
    made.add_argument("folder", type=Path)
    made.add_argument("--chunks", type=int, default=17_500)
    made.add_argument("--kill", type=int, default=0)
    ways.add_parser("drive").add_argument("folder", type=Path)
    args = parser.parse_args()
    if args.way == "workers":
        simulate(args.seconds, args.speed_up, args.kill, args.workers)
    elif args.way == "driver":
        driver(args.folder, args.chunks, args.kill)
    else:
        drive(args.folder)


if __name__ == "__main__":
    main()
