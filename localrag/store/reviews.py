"""The cells of reviews: what a question about one document was answered with, and what a person decided about it.

A cell belongs to a path and a question, whichever review asks it. What a person decided stays when the document changes; all else is made
anew, because `input_hash` then differs.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlite_utils import Database

CellKey = tuple[str, str, str]  # path, section of the document (empty for all of it), question
_IS_CHOSEN = "question IN (SELECT value FROM json_each(?))"


@dataclass(frozen=True, slots=True)
class StoredCell:
    """A cell as JSON-ready values; `input_hash`: of what it was made from; `decided_at`: when a person decided, empty if none did."""

    input_hash: str
    cell: dict[str, Any]
    decided_at: str = ""


def stored_cells(db: Database, questions: Sequence[str]) -> dict[CellKey, StoredCell]:
    """The cells of these questions, of all documents."""
    columns = "path, section, question, input_hash, cell, decided_at"
    rows = db.execute(f"SELECT {columns} FROM review_cells WHERE {_IS_CHOSEN}", [json.dumps(list(questions))])
    return {(path, section, question): StoredCell(key, json.loads(cell), at) for path, section, question, key, cell, at in rows}


def save_cells(db: Database, cells: Mapping[CellKey, StoredCell]) -> None:
    """Store cells that were made; those that a person decided in the meantime stay."""
    rows = [(*key, stored.input_hash, json.dumps(stored.cell, ensure_ascii=False)) for key, stored in cells.items()]
    update = "UPDATE SET input_hash = excluded.input_hash, cell = excluded.cell WHERE decided_at = ''"
    with db.atomic():
        db.conn.executemany(
            "INSERT INTO review_cells (path, section, question, input_hash, cell) VALUES (?, ?, ?, ?, ?)"
            f" ON CONFLICT (path, section, question) DO {update}",
            rows,
        )


def decide_cell(db: Database, key: CellKey, stored: StoredCell) -> None:
    """Store a person's decision about a cell."""
    with db.atomic():
        db.execute(
            "INSERT OR REPLACE INTO review_cells (path, section, question, input_hash, cell, decided_at) VALUES (?, ?, ?, ?, ?, ?)",
            [*key, stored.input_hash, json.dumps(stored.cell, ensure_ascii=False), stored.decided_at],
        )


def delete_cell(db: Database, key: CellKey) -> None:
    """Delete a cell with the decision about it; the next review makes it anew."""
    with db.atomic():
        db.execute("DELETE FROM review_cells WHERE path = ? AND section = ? AND question = ?", list(key))


def move_cells(db: Database, paths: Iterable[tuple[str, str]]) -> None:
    """Give cells of moved documents (old path, new path) their new paths."""
    with db.atomic():
        db.conn.executemany("UPDATE OR REPLACE review_cells SET path = ? WHERE path = ?", [(new, old) for old, new in paths])


def delete_cells_without(db: Database, is_stored: Callable[[str], bool]) -> None:
    """Delete the cells of which a quote is not stored any more."""
    rows = db.execute("SELECT path, section, question, cell FROM review_cells").fetchall()
    gone = [key for *key, cell in rows if not all(is_stored(c["quote"]) for c in json.loads(cell)["citations"])]
    db.conn.executemany("DELETE FROM review_cells WHERE path = ? AND section = ? AND question = ?", gone)


def delete_orphan_cells(db: Database) -> None:
    """Delete the cells of paths without a document, published or staged."""
    existing = " UNION ALL ".join(f"SELECT path FROM {table}" for table in ("main.documents", "main.staged_documents"))
    db.execute(f"DELETE FROM review_cells WHERE path NOT IN ({existing})")
