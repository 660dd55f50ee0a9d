"""What an edit costs in a large index, stage by stage: nothing changed, one document, a hundred, one in a hundred gone.

    python scripts/scale_edit.py --share 0.1 --share 1.0     # 10,000 and 100,000 chunks
    python scripts/scale_edit.py --share 0.1 --fresh         # and a fresh index of the same, to compare

The corpus is that of `scale_index.py`, in the store as a run would have left it; vectors are random. What is measured is everything a run
does without a model behind reading files: names, graph, communities, picture, reports, vectors, publication. Prints a table as Markdown.
"""

import argparse
import asyncio
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from scale_index import make_corpus, peak_mib, reset_peak, unit_vectors

from localrag.config import Settings
from localrag.index.crew.here import Here
from localrag.index.embed import embed_chunks
from localrag.index.extraction.phrases import PHRASES
from localrag.index.jobs import Tools
from localrag.index.pipeline import _build
from localrag.models import find_chat_model, find_embedder
from localrag.records import Chunk, Document, Extraction, content_id
from localrag.store import corpus, generations, ledger
from localrag.store import graph as store
from localrag.store.connect import meter_of
from localrag.store.schema import open_index
from localrag.text.plain import sentence_bounds

Made = tuple[Document, list[Chunk], list[Extraction]]


class Stages:
    """Which stage ran when; what a run tells its progress to."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last, self._since = "", time.perf_counter()

    def __call__(self, stage: str, *_: Any) -> None:
        """A stage goes on; the time since the last word is that one's."""
        now = time.perf_counter()
        if self._last:
            self.seconds[self._last] = self.seconds.get(self._last, 0.0) + now - self._since
        self._last, self._since = stage, now

    def found(self, *_: Any) -> None:
        """Nobody counts."""

    resolved = found


def project_at(folder: Path) -> Any:
    """An index with an embedder that gives random vectors, and no model."""
    db = open_index(folder, create=True)
    embedder = SimpleNamespace(embed=lambda texts: unit_vectors(len(texts), 1), file=find_embedder(None))
    model = SimpleNamespace(file=find_chat_model(None), calls=0)
    settings = replace(Settings(), extractor="phrases")
    return SimpleNamespace(db=db, folder=folder, root=folder, settings=settings, model=model, embedder=embedder, tagger=None)


def add(project: Any, made: Made) -> None:
    """Store a document as reading, splitting and extracting would."""
    document, chunks, extractions = made
    corpus.add_document(project.db, document, chunks)
    corpus.save_sentences(project.db, {c.id: sentence_bounds(c.text) for c in chunks})
    corpus.save_extractions(project.db, PHRASES, extractions)


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
    reset_peak()
    begun, cpu, written = time.perf_counter(), time.process_time(), meter_of(project.db)
    stages = Stages()

    async def build() -> None:
        with generations.next_in_view(project.db):
            change()
            crew = Here(Tools(project.model, project.embedder, None, project.settings, lambda _: ""))
            stages("search index")
            await embed_chunks(project, crew, stages)  # type: ignore[arg-type]
            stages("graph")
            await _build(project, "extractive", crew, stages)  # type: ignore[arg-type]
        stages("end")

    asyncio.run(build())
    took = {"seconds": time.perf_counter() - begun, "cpu": time.process_time() - cpu, "log_mib": written() / (1 << 20)}
    return {**took, "mib": peak_mib(), "stages": stages.seconds}


def measure(share: float, folder: Path, *, fresh: bool) -> None:
    """All changes in an index of this size, a JSON line each."""
    project = project_at(folder)
    corpus_made = make_corpus(share)
    of_chunk = {x.chunk_id: x for x in corpus_made.extractions}
    documents: dict[str, Made] = {d.path: (d, cs, [of_chunk[c.id] for c in cs]) for d, cs in corpus_made.documents}
    chance, paths = random.Random(0), list(documents)

    def edit(some: Sequence[str], version: int) -> None:
        for path in some:
            documents[path] = edited(documents[path], version)
            add(project, documents[path])

    def remove(some: Sequence[str]) -> None:
        for path in some:
            del documents[path]
            corpus.remove_document(project.db, path)

    def say(what: str, row: dict[str, Any]) -> None:
        print(json.dumps({"share": share, "what": what, "chunks": store.counts(project.db)["chunks"], **row}), flush=True)

    say("fresh", run(project, lambda: [add(project, m) for m in documents.values()] and None))
    say("nothing", run(project, lambda: None))
    for n in range(3):
        say("one edited", run(project, lambda n=n: edit([chance.choice(paths)], n)))  # type: ignore[misc]
    say("a hundred edited", run(project, lambda: edit(chance.sample(paths, min(100, len(paths) // 2)), 7)))
    say("1 % gone", run(project, lambda: remove(chance.sample(paths, max(1, len(paths) // 100)))))
    if fresh:
        with tempfile.TemporaryDirectory(dir=folder.parent) as other:
            again = project_at(Path(other))
            say("the same, fresh", run(again, lambda: [add(again, m) for m in documents.values()] and None))
    ledger.save_settings(project.db, sources=[])


def main() -> None:
    """Every share in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--share", type=float, action="append")
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--one", type=float, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help="where to make the indexes")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.folder) as place:
        if args.one:
            measure(args.one, Path(place), fresh=args.fresh)
            return
    rows = []
    for share in args.share or [0.1]:
        call = [
            sys.executable,
            __file__,
            "--one",
            str(share),
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
