"""Runs over a folder of documents without a model, and what its index holds."""

import asyncio
import sqlite3
from contextlib import closing

from localrag.engine.settings import EngineOptions
from localrag.indexing.documents import DeletionPolicy
from localrag.indexing.pipeline import build_index
from localrag.project import open_for_writing
from localrag.store.check import check_index
from localrag.store.opening import open_index
from tests.conftest import write_documents


def put(folder, documents):
    """Documents in the folder's `docs`, which is given back."""
    write_documents(folder / "docs", documents)
    return folder / "docs"


def index(folder, *paths, prune=False, verify=False, reports=False, **settings):
    """Index `docs`, or other paths of the folder; what became of its files."""
    with open_for_writing(folder / ".localrag", extractor="phrases", engine=EngineOptions(), **settings) as project:
        found = [folder / p for p in paths or ["docs"]]
        build = build_index(found, project, lambda _: None, reports=reports, deletion=DeletionPolicy(prune=prune, rehash=verify))
        return asyncio.run(build).documents


def rows(folder, sql):
    """What the index of a folder holds."""
    with closing(sqlite3.connect(folder / ".localrag" / "index.db")) as db:
        return db.execute(sql).fetchall()


def wrong_in(folder):
    """What `check` finds in the index of a folder, also what is only due."""
    with closing(open_index(folder / ".localrag")) as db:
        return [problem for part in check_index(db, folder / ".localrag") for problem in part.problems]
