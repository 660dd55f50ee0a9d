"""What an index holds, in one dictionary: the counts first, then the details."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sqlite_utils import Database

from localrag.store import corpus, graph, growth, ledger
from localrag.store.collections import collections
from localrag.system.processes import is_alive


def status(db: Database, folder: Path) -> dict[str, Any]:
    """Counts of documents, chunks, entities, relationships, communities, reports and failures; then levels, collections with their numbers
    of documents, skipped files, failures, documents that no report rests on, the last run, tokens spent, calls by class of arithmetic, the
    models the index is bound to, what is kept for a while though nothing needs it.
    """
    bound = ledger.settings(db)
    run = ledger.last_run(db)
    return {
        **graph.counts(db),
        "communities_per_level": graph.communities_per_level(db),
        "collections": collections(db),
        "skipped": [{"path": s.path, "reason": s.reason, "failed": s.failed} for s in corpus.skipped(db)],
        "failed": [{"stage": f.stage, "subject": f.subject, "reason": f.reason} for f in ledger.failures(db)],
        "coverage": graph.coverage(db),
        "noise": corpus.noise(db),
        "merged": graph.merged(db),
        "run": shown_run(run) if run else None,
        "spent": ledger.spent(db),
        "arithmetic": ledger.arithmetic(db),
        "models": {kind: bound[kind] for kind in ("chat_model", "embedder") if kind in bound},
        "settings": bound.get("settings", {}),
        "index": str(folder),
        "kept": growth.kept(db, folder),
        "bytes": sum(f.stat().st_size for f in folder.iterdir() if f.is_file()),
    }


RUN = ("state", "stage", "done", "total", "started_at", "ended_at", "figures")


def shown_run(run: dict[str, Any]) -> dict[str, Any]:
    """A run as `ledger.last_run` gives it, as programs see it.

    `progress` is what it last said of itself, `silent` how many seconds ago; `alive` whether the process of one that has not ended goes on.
    """
    going = run["ended_at"] is None
    alive = is_alive(run["pid"], run["started_at"]) if going else None
    silent = round(max(0.0, time.time() - run["seen_at"]), 1) if going and run.get("seen_at") else None
    return {k: run[k] for k in RUN} | {"pid": run["pid"], "alive": alive, "progress": run["facts"] or None, "silent": silent}


def files(db: Database) -> Iterator[dict[str, str]]:
    """Every file an index knows of, by path: indexed, skipped or failed, the last two with the reason; so have pages nothing is read of."""
    unread = corpus.unread_pages(db)
    rows = {path: {"path": path, "state": "indexed", "reason": unread.get(path, "")} for path in corpus.document_hashes(db)}
    rows |= {s.path: {"path": s.path, "state": "failed" if s.failed else "skipped", "reason": s.reason} for s in corpus.skipped(db)}
    yield from (rows[path] for path in sorted(rows))
