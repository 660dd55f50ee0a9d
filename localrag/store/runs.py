"""Indexing runs, failures, and index settings."""

import json
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from sqlite_utils import Database

from localrag.records import Failure


def load_settings(db: Database) -> dict[str, Any]:
    """All index settings, by key."""
    return {row["key"]: json.loads(row["value"]) for row in db.query("SELECT key, value FROM index_settings")}


def save_settings(db: Database, **values: Any) -> None:
    """Set some index settings."""
    with db.atomic():
        db.table("index_settings").insert_all(({"key": k, "value": json.dumps(v)} for k, v in values.items()), replace=True)


def save_failure(db: Database, failure: Failure) -> None:
    """Record a failure."""
    with db.atomic():
        db.table("failures").insert(asdict(failure), replace=True)


def clear_failures(db: Database, stage: str, subjects: Sequence[str]) -> None:
    """Delete the failures of subjects that succeeded since."""
    with db.atomic():
        db.conn.executemany("DELETE FROM failures WHERE stage = ? AND subject = ?", [(stage, subject) for subject in subjects])


def replace_failures(db: Database, stages: Sequence[str], failures: Sequence[Failure]) -> None:
    """Replace all failures of these stages."""
    with db.atomic():
        db.execute("DELETE FROM failures WHERE stage IN (SELECT value FROM json_each(?))", [json.dumps(list(stages))])
        db.table("failures").insert_all(map(asdict, failures), replace=True)


def delete_orphan_failures(db: Database) -> None:
    """Delete the failures of chunks and communities that no longer exist."""
    with db.atomic():
        db.execute("DELETE FROM failures WHERE stage = 'extraction' AND subject NOT IN (SELECT id FROM chunks)")
        db.execute("DELETE FROM failures WHERE stage = 'report' AND subject NOT IN (SELECT id FROM communities)")


def failures(db: Database) -> list[Failure]:
    """All recorded failures, by stage and subject."""
    return [Failure(**row) for row in db.query("SELECT stage, subject, reason, kind FROM failures ORDER BY stage, subject")]


def start_run(db: Database, pid: int) -> int:
    """Record the start of an indexing run; returns its number. Runs that never ended are marked as interrupted."""
    with db.atomic():
        db.execute("UPDATE runs SET state = 'interrupted', ended_at = CURRENT_TIMESTAMP WHERE ended_at IS NULL")
        return int(str(db.table("runs").insert({"pid": pid, "state": "running"}).last_pk))


def update_run(db: Database, run: int, facts: dict[str, Any]) -> None:
    """Record the progress of a run, for other processes to read: `stage`, `done`, `total`, and all other `facts`."""
    values = [facts["stage"], facts["done"], facts["total"], json.dumps(facts, ensure_ascii=False), time.time(), run]
    with db.atomic():
        db.execute("UPDATE runs SET stage = ?, done = ?, total = ?, progress = ?, updated_at = ? WHERE id = ?", values)


def end_run(db: Database, run: int, state: str, figures: dict[str, Any]) -> None:
    """Record the end of a run: complete, partial, interrupted or failed; and its engine metrics."""
    with db.atomic():
        ended = "UPDATE runs SET state = ?, engine_metrics = ?, ended_at = CURRENT_TIMESTAMP WHERE id = ?"
        db.execute(ended, [state, json.dumps(figures), run])


def last_run(db: Database) -> dict[str, Any] | None:
    """The newest run as a row, with its engine metrics as `figures`, and its progress as `facts` at time `seen_at` (Unix seconds)."""
    columns = "*, engine_metrics AS figures, progress AS facts, updated_at AS seen_at"
    row = next(iter(db.query(f"SELECT {columns} FROM runs ORDER BY id DESC LIMIT 1")), None)
    return None if row is None else row | {name: json.loads(row.get(name) or "{}") for name in ("figures", "facts")}
