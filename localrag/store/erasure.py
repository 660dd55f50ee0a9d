"""Taking documents out of the database so that no byte of their text is left in any file of the index."""

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from sqlite_utils import Database

from localrag.config import cache_dir
from localrag.store import corpus, ledger

CACHES = ("*.faiss*", "*.npz", "index.db.before-*", "*.part")


def forget(db: Database, paths: Sequence[str]) -> None:
    """Delete documents, what models said of them or of several documents at once, and conversations that cite them or cite nothing."""
    with db.atomic():
        for path in paths:
            corpus.remove_document(db, path)
        gone = json.dumps(list(paths))
        db.execute("DELETE FROM llm_calls WHERE path = '' OR path IN (SELECT value FROM json_each(?))", [gone])
        told = (
            "SELECT id FROM answers WHERE json_array_length(result, '$.citations') = 0 OR json_extract(result, '$.unsupported') > 0"
            " OR EXISTS (SELECT 1 FROM json_each(result, '$.citations') AS c JOIN json_each(?) AS p"
            " ON json_extract(c.value, '$.path') = p.value)"
        )
        talks = f"SELECT conversation FROM answers WHERE conversation > 0 AND id IN ({told})"
        db.execute(f"DELETE FROM answers WHERE id IN ({told}) OR conversation IN ({talks})", [gone, gone])
        db.execute("DELETE FROM failures")
        ledger.save_settings(db, erasing=True)
        db.execute("DELETE FROM settings WHERE key IN ('graph', 'reports', 'coverage')")


def forget_graph(db: Database) -> None:
    """Delete the graph and what models said of it: no document is left."""
    with db.atomic():
        for table in ("communities", "entities", "merges", "llm_calls", "answers"):
            db.execute(f"DELETE FROM {table}")
        db.execute("DELETE FROM embeddings")


def finish(db: Database, folder: Path) -> None:
    """Where documents were forgotten: write the database anew, empty its log, and delete the copies and caches of it."""
    if not ledger.settings(db).get("erasing"):
        return
    db.execute("INSERT INTO chunk_search(chunk_search) VALUES ('optimize')")  # or deleted words stay in its segments
    db.conn.commit()
    db.execute("VACUUM")
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    prefixes = cache_dir() / "prefixes"  # beginnings that prompts share may hold a stretch of a text
    for file in [f for pattern in CACHES for f in folder.glob(pattern)] + [f for f in prefixes.rglob("*") if f.is_file()]:
        file.unlink(missing_ok=True)
    for kind in prefixes.glob("*"):
        with suppress(OSError):  # another process keeps its own there
            kind.rmdir()
    ledger.save_settings(db, erasing=False)
