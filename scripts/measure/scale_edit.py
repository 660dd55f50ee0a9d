"""What an edit costs in a large index, stage by stage: nothing changed, one document, a hundred, one in a hundred gone.

    python -m scripts.measure.scale_edit --chunks 10000 --chunks 100000
    python -m scripts.measure.scale_edit --chunks 10000 --fresh      # and a fresh index of the same, to compare

The documents are made up (`made_up.py`) with what is found in them, in the store as a run would have left it; vectors are random. What is
measured is everything a run does without a model behind reading files: names, graph, communities, picture, reports, vectors, publication.
Each document is read from the store when it is edited, so that the memory is that of the run. Prints a table as Markdown. With `--folder`
the indexes are kept, and one that is there already is edited, not made.
"""

import argparse
import asyncio
import json
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from localrag.indexing.embeddings import embed_chunks
from localrag.indexing.extraction.nlp import PHRASES_HASH
from localrag.indexing.pipeline import _build_and_publish
from localrag.indexing.workers.pool import LocalPool, task_context
from localrag.records import content_id
from localrag.store import chunks as chunks_store
from localrag.store import documents, generations, graph
from localrag.text.sentences import sentence_bounds
from scripts.measure.made_up import Made, make_documents
from scripts.measure.stages import Stages, project_at

ONES = 5  # documents that are edited one by one


def add(project: Any, made: Made) -> None:
    """Store a document as reading, splitting and extracting would."""
    document, chunks, extractions = made
    documents.save_document(project.db, document, chunks)
    chunks_store.save_sentences(project.db, {c.id: sentence_bounds(c.text) for c in chunks})
    chunks_store.save_extractions(project.db, PHRASES_HASH, extractions)


def edited(made: Made, version: int) -> Made:
    """The document with a sentence more at its beginning and none of the names of its last chunk."""
    document, chunks, extractions = made
    line = f"It was written again {version} times. "
    moved = [
        replace(c, id=content_id(c.id, version), start=c.start + len(line) * (n > 0), end=c.end + len(line)) for n, c in enumerate(chunks)
    ]
    moved[0] = replace(moved[0], text=line + moved[0].text)
    ids = {old.id: new.id for old, new in zip(chunks, moved, strict=True)}
    found = [replace(x, chunk_id=ids[x.chunk_id]) for x in extractions]
    found[-1] = replace(found[-1], entities=(), relationships=())
    key = content_id(document.path, version)
    return replace(document, id=key, text=line + document.text), [replace(c, document_id=key) for c in moved], found


def run(project: Any, change: Callable[[], None]) -> dict[str, Any]:
    """Make a change and bring the index up to date; what that took."""
    stages, figures = Counter[str](), Counter[str]()

    def said(stage: str, seconds: float, cpu: float, mib: int) -> None:
        stages[stage] += seconds  # type: ignore[assignment]
        figures.update({"seconds": seconds, "cpu": cpu})  # type: ignore[dict-item]
        figures["mib"] = max(figures["mib"], mib)

    tell = Stages(said)

    async def build() -> None:
        with generations.view_next_generation(project.db):
            tell("change")
            change()
            worker_pool = LocalPool(task_context(project))
            tell("what is new")
            await embed_chunks(project, worker_pool, tell)  # type: ignore[arg-type]
            tell("graph")
            await _build_and_publish(project, "extractive", worker_pool, tell)  # type: ignore[arg-type]
        tell("end")

    asyncio.run(build())
    log = Path(f"{project.db.execute('PRAGMA database_list').fetchone()[2]}-wal")
    return {**figures, "log_mib": log.stat().st_size / (1 << 20) if log.exists() else 0.0, "stages": dict(stages)}


def stored(project: Any, path: str) -> Made:
    """A document as it is in the index, with its chunks and what was found in them."""
    db = project.db
    document = documents.find_document(db, path)
    assert document
    chunks = chunks_store.chunks_of(db, document.id)
    found = []
    for chunk in chunks:
        select = "SELECT result FROM extractions WHERE config_hash = ? AND chunk_id = ?"
        found += [chunks_store.extraction_of(chunk.id, row) for (row,) in db.execute(select, [PHRASES_HASH, chunk.id])]
    return document, chunks, found


def measure(size: int, folder: Path, *, fresh: bool) -> None:
    """All changes in an index of this size, a JSON line each."""
    project = project_at(folder)
    version, chance = int(time.time()), random.Random()

    def edit(n: int) -> None:
        nonlocal version
        version += 1
        for path in chance.sample(paths, n):
            add(project, edited(stored(project, path), version))

    def remove(n: int) -> None:
        for path in chance.sample(paths, n):
            documents.remove_document(project.db, path)

    def say(what: str, row: dict[str, Any]) -> None:
        print(json.dumps({"what": what, "chunks": graph.counts(project.db)["chunks"], **row}), flush=True)

    if not graph.counts(project.db)["chunks"]:
        say("fresh", run(project, lambda: [add(project, made) for made in make_documents(size)] and None))
    paths = sorted(documents.document_paths(project.db).values())
    say("nothing", run(project, lambda: None))
    for _ in range(ONES):
        say("one edited", run(project, lambda: edit(1)))
    say("a hundred edited", run(project, lambda: edit(min(100, len(paths) // 2))))
    say("1 % gone", run(project, lambda: remove(max(1, len(paths) // 100))))
    if fresh:
        left = sorted(documents.document_paths(project.db).values())
        with tempfile.TemporaryDirectory(dir=folder.parent) as other:
            again = project_at(Path(other))
            say("the same, fresh", run(again, lambda: [add(again, stored(project, path)) for path in left] and None))


def main() -> None:
    """Every share in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, action="append")
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help="where to make the indexes, which are kept")
    args = parser.parse_args()
    if args.one:
        with nullcontext(args.folder / str(args.one)) if args.folder else tempfile.TemporaryDirectory() as place:
            Path(place).mkdir(parents=True, exist_ok=True)
            measure(args.one, Path(place), fresh=args.fresh)
        return
    rows = []
    for size in args.chunks or [10_000]:
        call = [
            sys.executable,
            "-m",
            "scripts.measure.scale_edit",
            "--one",
            str(size),
            *["--fresh"] * args.fresh,
            *(["--folder", str(args.folder)] if args.folder else []),
        ]
        with subprocess.Popen(call, stdout=subprocess.PIPE, text=True) as process:
            for line in process.stdout or ():
                rows.append(json.loads(line))
                print(line, end="", file=sys.stderr, flush=True)
    print("| chunks | change | seconds | CPU s | log MiB | MiB | " + "most of it |")
    print("|---|---|---|---|---|---|---|")
    for row in rows:
        most = sorted(row["stages"].items(), key=lambda s: -s[1])[:4]
        listed = ", ".join(f"{stage} {seconds:.1f}" for stage, seconds in most)
        figures = f"{row['seconds']:.1f} | {row['cpu']:.1f} | {row['log_mib']:.1f} | {row['mib']}"
        print(f"| {row['chunks']:,} | {row['what']} | {figures} | {listed} |")


if __name__ == "__main__":
    main()
