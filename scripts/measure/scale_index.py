"""How the stages of indexing that ask no model grow with the corpus: time, growth and peak memory of each, and what questions cost then.

    python -m scripts.measure.scale_index --folder DIR                            # 10,000, 100,000 and 1,000,000 chunks, one after another
    python -m scripts.measure.scale_index --folder DIR --chunks 10000 --chunks 30000
    python -m scripts.measure.scale_index --folder DIR --chunks 1000000 --given   # names are not found but stored with the chunks

The full size is 1,000,000 chunks in 50,000 made-up documents (`made_up.py`); names and phrases are found in their texts by one process.
Vectors are random (nothing here depends on what they mean). What is done is kept in DIR, with the time and memory of each stage: killed
and begun again, it goes on where it was. The growth is the exponent between the first size and the last: 1.0 is linear, n log n is up to
1.1 here. A question is a sentence of the documents; `ask` answers with verbatim sentences.
"""

import argparse
import asyncio
import json
import math
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from localrag.indexing.embeddings import embed_chunks
from localrag.indexing.extraction.nlp import PHRASES_HASH
from localrag.indexing.extraction.stage import find_phrases, split_sentences
from localrag.indexing.pipeline import _build_and_publish
from localrag.indexing.workers.pool import LocalPool, task_context
from localrag.query.retriever import retrieve
from localrag.store import chunks as chunks_store
from localrag.store import documents, generations, graph, runs
from scripts.measure.made_up import make_documents
from scripts.measure.stages import Stages, peak_mib, peak_of, project_at, reset_peak, unit_vectors

SIZES = [10_000, 100_000, 1_000_000]
STORED = "documents, chunks, full text"
PROCESS_RUNS = 3
QUESTIONS = 50
TOGETHER = 500  # documents that are made before they are stored


def build(chunks: int, folder: Path, log: Path, *, given: bool) -> None:
    """Every stage that is not done yet, on an index of this size; a line in the log for each part of one.

    `given`: names and relationships are not found but stored with the chunks.
    """

    def said(stage: str, seconds: float, cpu: float, mib: int) -> None:
        row = {"chunks": chunks, "stage": stage, "seconds": seconds, "cpu": cpu, "mib": mib}
        with log.open("a", encoding="utf-8") as f:
            f.write(json.dumps(row) + "\n")
        print(json.dumps(row), file=sys.stderr, flush=True)

    project = project_at(folder)
    db = project.db
    runs.save_settings(db, chat_model=project.model.file.to_json, embedder=project.embedder.file.to_json)
    there = {path for (path,) in db.execute("SELECT path FROM documents")}
    tell, worker_pool = Stages(said), LocalPool(task_context(project))

    async def run() -> None:
        if graph.counts(db)["chunks"] < chunks:
            made = make_documents(chunks)
            tell("(making the texts)")
            while some := list(islice(made, TOGETHER)):
                tell(STORED)
                for document, of_it, found in some:
                    if document.path not in there:
                        documents.save_document(db, document, of_it)
                    if given:
                        chunks_store.save_extractions(db, PHRASES_HASH, found)
                tell("(making the texts)")
        with generations.view_next_generation(db):
            await split_sentences(db, worker_pool, tell)
            await find_phrases(project, worker_pool, tell)
            tell("chunks listed")
            await embed_chunks(project, worker_pool, tell)
            tell("what is new")
            await _build_and_publish(project, "extractive", worker_pool, tell)  # type: ignore[arg-type]
        tell("end")

    asyncio.run(run())


def measure_questions(folder: Path) -> Iterator[dict[str, Any]]:
    """What questions cost: retrieval in this process, then commands in processes of their own, the fastest of several."""
    project = project_at(folder)
    picked = project.db.execute("SELECT text FROM chunks WHERE id IN (SELECT id FROM chunks ORDER BY id LIMIT 20000)").fetchall()
    questions = [text.split(". ")[0][:160] + "?" for (text,) in picked[:: max(1, len(picked) // QUESTIONS)]][:QUESTIONS]
    reset_peak()
    spent = []
    for n, question in enumerate(questions):
        begun = time.perf_counter()
        retrieve(question, unit_vectors(1, n)[0], project, 10)
        spent.append(time.perf_counter() - begun)
    yield {"stage": "retrieval, first", "seconds": spent[0], "mib": peak_mib()}
    yield {"stage": "retrieval, median", "seconds": float(np.median(spent[1:])), "mib": peak_mib()}
    yield {"stage": "retrieval, 95th percentile", "seconds": float(np.quantile(spent[1:], 0.95)), "mib": peak_mib()}
    ask = ["ask", questions[7], "--style", "extractive", "--mode"]
    calls = {"localrag status": ["status"]} | {f"localrag ask --mode {mode}": [*ask, mode] for mode in ("mix", "basic", "local", "global")}
    for name, words in calls.items():
        seconds, mib = timed([sys.executable, "-m", "localrag", *words, "--index", str(folder)])
        yield {"stage": f"{name} (a process)", "seconds": min(seconds), "mib": mib}
        yield {"stage": f"{name}, the first time", "seconds": seconds[0], "mib": mib}


def timed(call: Sequence[str]) -> tuple[list[float], int]:
    """How long a command takes each time, and the most memory that one of them was seen to take, in MiB."""
    spent, peaks = [], [0]
    for _ in range(PROCESS_RUNS):
        begun = time.perf_counter()
        child = subprocess.Popen(call, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while child.poll() is None:  # the figure that wait4 gives counts this process too, of which the child is a copy at first
            with suppress(OSError, IndexError):
                peaks.append(peak_of(child.pid))
            time.sleep(0.02)
        spent.append(time.perf_counter() - begun)
        if child.returncode:
            raise SystemExit(f"failed: {' '.join(call)}")
    return spent, max(peaks)


def table(rows: Sequence[dict[str, Any]], sizes: Sequence[int]) -> Iterator[str]:
    """Stage, seconds at each size, growth exponent, peak memory at the last. The parts of a stage are added up."""
    of_stage: defaultdict[str, dict[int, list[float]]] = defaultdict(dict)
    for row in rows:
        found = of_stage[row["stage"]].setdefault(row["chunks"], [0.0, 0.0])
        found[0] += row["seconds"]
        found[1] = max(found[1], row["mib"])
    yield "| stage | " + " | ".join(f"{n:,}, s" for n in sizes) + " | growth | peak MiB |"
    yield "|---" * (len(sizes) + 3) + "|"
    for stage, at in of_stage.items():
        if set(sizes) <= set(at):
            first, last = at[sizes[0]], at[sizes[-1]]
            growth = math.log(last[0] / first[0]) / math.log(sizes[-1] / sizes[0]) if len(sizes) > 1 and first[0] else math.nan
            seconds = " | ".join(f"{at[n][0]:.3g}" for n in sizes)
            yield f"| {stage} | {seconds} | {growth:.2f} | {last[1]:.0f} |"


def main() -> None:
    """Every size in a process of its own, then the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, action="append", help="the size of an index")
    parser.add_argument("--folder", type=Path, required=True, help="where to make the indexes and the log (35 GB at a million chunks)")
    parser.add_argument("--given", action="store_true", help="store names with the chunks, do not find them")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    log = args.folder / "stages.jsonl"
    if args.one:
        build(args.one, args.folder / str(args.one), log, given=args.given)
        return
    sizes = sorted(args.chunks or SIZES)
    for n in sizes:
        given = ["--given"] * args.given
        subprocess.run(
            [sys.executable, "-m", "scripts.measure.scale_index", "--one", str(n), "--folder", str(args.folder), *given], check=True
        )
    rows = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    for n in sizes:
        rows += ({"chunks": n, **row} for row in measure_questions(args.folder / str(n)))
        db = project_at(args.folder / str(n)).db
        print(f"{n:,}: {graph.counts(db) | {'mentions': db['mentions'].count}}")
    print(*table(rows, sizes), sep="\n")


if __name__ == "__main__":
    main()
