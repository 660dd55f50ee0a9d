"""What tests of worker pools share: a corpus with a scripted model, and all that an index holds, to compare."""

import asyncio
import os
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from localrag.indexing.pipeline import build_index
from localrag.indexing.workers.pool import in_process_pool
from localrag.project import open_for_writing
from localrag.store.opening import open_index
from tests.fakes import Scripted, example

NAMES = ("Ingrid Holm", "Lars Holm", "Skua", "Northern Line", "Ruth Sand", "Vardby")
# What two equal indexes differ in: when things happened, and which of two texts that share a sentence was asked about it first.
OF_A_RUN = set("created_at seconds failed_at started_at ended_at updated_at progress engine_metrics pid added_at date".split())


def well(request):
    """A good answer to any request, which depends on nothing else."""
    said = request.messages[-1]["content"]
    if request.task == "entities":
        return {"items": [{"name": n, "type": "person", "description": f"{n} is in {len(said)}"} for n in NAMES if n in said]}
    return {"items": []} if request.task in ("claims", "relationships") else example(request.grammar.schema)


class Noting(Scripted):
    """A scripted model that writes to a file what it is asked."""

    def __init__(self, log, seconds):
        super().__init__(well, seconds=seconds)
        self.log = log

    async def generate(self, request):
        generation = await super().generate(request)
        said = repr([(m["role"], m["content"]) for m in request.messages]).encode().hex()
        with Path(self.log).open("a", encoding="utf-8") as log:
            log.write(f"{os.getpid()} {request.task} {said}\n")
        return generation


@dataclass(frozen=True)
class Town:
    """A folder of documents that is indexed by a pool with a scripted model, as often as is asked for."""

    folder: Path
    seconds: float = 0.0
    texts: int = 12

    @property
    def log(self):
        return self.folder / "asked.txt"

    def write(self, **more):
        """Make the documents."""
        docs = self.folder / "docs"
        docs.mkdir(parents=True, exist_ok=True)
        for n in range(self.texts):
            said = f"{NAMES[n % 6]} met {NAMES[(n + 1) % 6]} in the year {1900 + n}. {NAMES[(n + 2) % 6]} wrote to {NAMES[n % 6]} of it."
            (docs / f"{n:03}.txt").write_text("\n\n".join([said] * (1 + 40 * (n == 3))))
        for name, text in more.items():
            (docs / f"{name}.txt").write_text(text)
        return self

    def index(self, hire=in_process_pool, progress=lambda _: None, **settings):
        """What came of a run, which the pool does; the project's own model is scripted too."""
        with open_for_writing(self.folder / ".localrag", chunk_tokens=120, chunk_overlap=20) as opened:
            project = replace(opened, tagger=None, settings=replace(opened.settings, style="abstractive", **settings))
            project.model._engine = Noting(str(self.log), self.seconds)
            return asyncio.run(build_index([self.folder / "docs"], project, progress, hire=hire))

    def tables(self):
        """Every table, but for what differs between two runs."""
        return tables(self.folder / ".localrag")

    def asked(self):
        """How often each request was answered."""
        return Counter(line.split()[2] for line in self.log.read_text().splitlines()) if self.log.exists() else Counter()


def tables(index):
    """Table → its rows, sorted, without rowids, of every table of an index."""
    with closing(open_index(index)) as db:
        found = {}
        for name in db.table_names():
            if name.startswith(("chunks_fts", "runs", "vector_versions", "index_settings", "file_stats", "table_checksums")):
                continue
            of_a_run = OF_A_RUN | ({"subject"} if name.startswith("llm_call") else set())
            columns = ", ".join(f'"{c.name}"' for c in db[name].columns if c.name not in of_a_run)
            found[name] = sorted(map(repr, db.query(f'SELECT {columns} FROM "{name}"')))
        return found
