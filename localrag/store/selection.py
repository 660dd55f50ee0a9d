"""A connection that sees the selected documents alone, so that nothing else can be found, quoted, cited or used as evidence.

Which documents they are is computed once, by SQL, into a temporary table; over the tables lie views of their names that show what hangs on
these documents: chunks, mentions, evidence and claims in them; entities that they mention; relationships with evidence in them; communities
with such an entity; reports with a quote from them. What one statement says of several documents is not shown: descriptions are left out
unless all of their evidence is inside (`narrowed_report` does the same for reports). Full text and vectors are asked with the selection
beside (`search.py`, `vectors.py`). A selection that holds every document is none, and costs nothing.
"""

import json
import unicodedata
from collections.abc import Iterable, Sequence
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlite_utils import Database

from localrag.errors import LocalragError, UsageError
from localrag.store.collections import check_known
from localrag.where import META, Condition, Selection, did_you_mean, is_at, suffix_of, suffixes

SHOWN = 8  # of what there is, in an answer that nothing matches
_HOME = "SELECT 1 FROM main.chunks c WHERE c.id = {}.chunk_id AND c.document_id IN (SELECT id FROM temp.selected)"
_MENTIONED = f"SELECT 1 FROM main.mentions m WHERE m.entity_id = {{}} AND EXISTS ({_HOME.format('m')})"
_OUTSIDE = f"SELECT 1 FROM main.evidence e WHERE e.relationship_id = r.id AND NOT EXISTS ({_HOME.format('e')})"
_QUOTES = "json_each(r.findings) f, json_each(f.value, '$.quotes') q"
_OWN_NAME = (
    "coalesce((SELECT name FROM mentions WHERE entity_id = x.id AND name = x.name LIMIT 1),"
    " (SELECT name FROM mentions WHERE entity_id = x.id GROUP BY name ORDER BY count(*) DESC, name LIMIT 1))"
)
_VIEWS = {
    "documents": "SELECT * FROM main.documents WHERE id IN (SELECT id FROM temp.selected)",
    "chunks": "SELECT * FROM main.chunks WHERE document_id IN (SELECT id FROM temp.selected)",
    **{table: f"SELECT * FROM main.{table} t WHERE EXISTS ({_HOME.format('t')})" for table in ("mentions", "evidence", "claims")},
    "entities": f"SELECT id, {_OWN_NAME} AS name, type, '' AS description, degree, '[]' AS descriptions FROM main.entities x"
    f" WHERE EXISTS ({_MENTIONED.format('x.id')})",
    "entity_aliases": f"SELECT * FROM main.entity_aliases a WHERE EXISTS ({_MENTIONED.format('a.entity_id')})",
    "relationships": "SELECT id, source_id, target_id,"
    f" CASE WHEN EXISTS ({_OUTSIDE}) THEN '' ELSE description END AS description, weight, strength,"
    f" CASE WHEN EXISTS ({_OUTSIDE}) THEN '[]' ELSE descriptions END AS descriptions"
    f" FROM main.relationships r WHERE EXISTS (SELECT 1 FROM main.evidence e WHERE e.relationship_id = r.id AND EXISTS"
    f" ({_HOME.format('e')}))",
    "communities": "SELECT * FROM main.communities k WHERE EXISTS (SELECT 1 FROM main.members b WHERE b.community_id = k.id"
    f" AND EXISTS ({_MENTIONED.format('b.entity_id')}))",
    "reports": f"SELECT * FROM main.reports r WHERE EXISTS (SELECT 1 FROM {_QUOTES} JOIN chunks c"
    " ON c.id = json_extract(q.value, '$.chunk_id'))",
}
_SUBJECTS = {  # of vectors
    "chunk": "SELECT id FROM chunks",
    "entity": "SELECT DISTINCT m.entity_id AS id FROM chunks c JOIN main.mentions m ON m.chunk_id = c.id",
    "report": "SELECT community_id AS id FROM reports",
}


class NothingSelected(LocalragError):
    """No document is what was asked for; the hint says what there is."""


class Selected(Database):
    """A database of which only the selected documents are seen, see above; `kept` is what was computed of it for one question."""

    def __init__(self, db: Database) -> None:
        super().__init__(db.conn)
        self.kept: dict[Any, Any] = {}

    @cached_property
    def passages(self) -> tuple[list[str], NDArray[np.int64], NDArray[np.int64]]:
        """The chunks: ids, their rows in the full-text index, and the number of words that each has there."""
        rows = self.execute(
            "SELECT c.id, r.row, s.sz FROM chunks c JOIN main.chunk_rows r ON r.chunk_id = c.id"
            " JOIN main.chunk_search_docsize s ON s.id = r.row"
        ).fetchall()
        rows.sort(key=itemgetter(1))
        ids, numbers, sizes = zip(*rows, strict=True) if rows else ((), (), ())
        return list(ids), np.array(numbers, np.int64), _summed(sizes)

    def subjects(self, kind: str) -> set[str]:
        """The ids of what there is of a kind of vector: chunk, entity or report."""
        if kind not in self.kept:
            rows = ((i,) for i in self.passages[0]) if kind == "chunk" else self.execute(_SUBJECTS[kind])
            self.kept[kind] = {key for (key,) in rows}
        found: set[str] = self.kept[kind]
        return found

    def vectors(self, kind: str) -> NDArray[np.int64]:
        """The numbers of the vectors of what there is of a kind, in order."""
        if ("vectors", kind) not in self.kept:
            found_by = f"({_SUBJECTS[kind]}) s CROSS JOIN embeddings e ON e.kind = ? AND e.subject_id = s.id"
            rows = self.execute(f"SELECT e.number FROM {found_by}", [kind])
            self.kept["vectors", kind] = np.sort(np.fromiter((n for (n,) in rows), np.int64))
        found: NDArray[np.int64] = self.kept["vectors", kind]
        return found


def _summed(sizes: Sequence[bytes]) -> NDArray[np.int64]:
    """The sum of the three numbers (of columns) in each blob, SQLite's variable-length integers, seven bits a byte, the highest first."""
    if not sizes:
        return np.zeros(0, np.int64)
    data = np.frombuffer(b"".join(sizes), np.uint8).astype(np.int64)
    last = data < 128
    after = np.flatnonzero(last)  # where each number ends
    place = np.repeat(after, np.diff(after, prepend=-1)) - np.arange(len(data))
    numbers = np.add.reduceat((data & 127) << (7 * place), np.r_[0, after[:-1] + 1])
    columns = len(numbers) // len(sizes)
    return np.asarray(numbers.reshape(-1, columns).sum(axis=1), np.int64)


def narrow(db: Database, selection: Selection, root: Path) -> Database:
    """The database as the selection lets it be seen, over the same connection, which must be this question's own and only read.

    `root` is the folder that stored paths are relative to. `db` itself where every document is selected. Raises UsageError for a
    condition, key or collection that there is not, and NothingSelected.
    """
    if not selection:
        return db
    where, values = _where(db, selection, root)
    db.execute("PRAGMA query_only = OFF")  # what is written is temporary, and belongs to this connection
    try:
        db.execute("CREATE TEMP TABLE selected (id TEXT PRIMARY KEY) WITHOUT ROWID")
        db.execute(f"INSERT INTO temp.selected SELECT d.id FROM main.documents d WHERE {where}", values)
        chosen, every = (int(db.execute(f"SELECT count(*) FROM {t}").fetchone()[0]) for t in ("temp.selected", "main.documents"))
        if not chosen:
            raise NothingSelected(f"No document matches {selection}.", what_would(db, selection, root))
        if chosen == every:
            db.execute("DROP TABLE temp.selected")
            return db
        for name, select in _VIEWS.items():
            columns = ", ".join(f'"{row[1]}"' for row in db.execute(f"PRAGMA main.table_info({name})"))
            db.execute(f"CREATE TEMP VIEW {name} AS {select.replace('SELECT *', f'SELECT {columns}', 1)}")
        db.execute("CREATE VIRTUAL TABLE temp.chunk_instances USING fts5vocab('main', 'chunk_search', 'instance')")
    finally:
        db.execute("PRAGMA query_only = ON")
    return Selected(db)


def _where(db: Database, selection: Selection, root: Path) -> tuple[str, list[str]]:
    """The condition on `main.documents d` that a selection is, with its values."""
    conditions = selection.conditions
    _check_keys(db, conditions)
    check_known(db, selection.collections)
    db.conn.create_function("is_at", 2, is_at, deterministic=True)
    db.conn.create_function("suffix_of", 1, suffix_of, deterministic=True)
    db.conn.create_function("folded", 1, _folded, deterministic=True)
    groups: dict[tuple[str, bool], list[Condition]] = {}
    for c in conditions:
        groups.setdefault((c.key.casefold(), c.negated), []).append(c)
    parts, values = list[str](), list[str]()
    for (_, negated), group in groups.items():
        made = [_one(c, root) for c in group]
        parts.append(f"{'NOT ' if negated else ''}({' OR '.join(sql for sql, _ in made)})")
        values += [v for _, some in made for v in some]
    if selection.collections:
        parts.append("d.path IN (SELECT path FROM main.collections WHERE name IN (SELECT value FROM json_each(?)))")
        values.append(json.dumps(list(selection.collections)))
    return " AND ".join(parts) or "true", values


def _one(condition: Condition, root: Path) -> tuple[str, list[str]]:
    value = condition.value
    if condition.key == "path":
        inside = Path(value).is_absolute() and Path(value).is_relative_to(root)
        return "is_at(d.path, ?)", [Path(value).relative_to(root).as_posix() if inside else value]
    if condition.key == "type":
        return "suffix_of(d.path) IN (SELECT value FROM json_each(?))", [json.dumps(suffixes(value))]
    if condition.key in ("after", "before"):
        return f"(d.date <> '' AND d.date {'>=' if condition.key == 'after' else '<'} ?)", [value]
    key = condition.key[len(META) :]
    pair = "EXISTS (SELECT 1 FROM json_each(d.metadata) p WHERE folded(json_extract(p.value, '$[0]')) = ?"
    sql = f"{pair} AND instr(folded(json_extract(p.value, '$[1]')), ?))"
    title = [_folded(value)] if _folded(key) == "title" else []
    return (f"({sql} OR instr(folded(d.title), ?))" if title else sql), [_folded(key), _folded(value), *title]


def _folded(text: str) -> str:
    return unicodedata.normalize("NFC", str(text)).casefold()


def metadata_keys(db: Database) -> dict[str, int]:
    """The keys of metadata that documents have → how many have them, the commonest first; every document has a title."""
    counted = "SELECT json_extract(p.value, '$[0]'), count(DISTINCT d.id) FROM main.documents d, json_each(d.metadata) p GROUP BY 1"
    found = {str(key): int(n) for key, n in db.execute(counted)}
    every = int(db.execute("SELECT count(*) FROM main.documents").fetchone()[0])
    return dict(sorted(({**found, "title": every}).items(), key=lambda item: (-item[1], item[0])))


def _check_keys(db: Database, conditions: Iterable[Condition]) -> None:
    wanted = [c for c in conditions if c.key.startswith(META)]
    known = metadata_keys(db) if wanted else {}
    for c in wanted:
        key = c.key[len(META) :]
        if _folded(key) not in map(_folded, known):
            there = ", ".join(f"{name} ({n})" for name, n in list(known.items())[:30])
            raise UsageError(
                f"--where: no document has the metadata key {key!r}, in '{c}'.", f"Keys here: {there}{did_you_mean(key, known)}"
            )


def what_would(db: Database, selection: Selection, root: Path) -> str:
    """Why nothing matches: for each condition and collection alone how many documents match, and where none does, what there is."""
    alone = [Selection(str(c)) for c in selection.conditions] + [Selection("", selection.collections)] * bool(selection.collections)
    said = []
    for one in alone:
        where, values = _where(db, one, root)
        n = int(db.execute(f"SELECT count(*) FROM main.documents d WHERE {where}", values).fetchone()[0])
        if n and len(alone) > 1:
            said.append(f"Alone, {one} matches {n}.")
        elif not n:
            said.append(_there_is(db, one.conditions[0]) if one.conditions else "The collection is empty.")
    return " ".join(said) or "Each condition matches some documents, but none matches all of them."


def _there_is(db: Database, condition: Condition) -> str:
    if condition.key in ("after", "before"):
        first, last = db.execute("SELECT min(date), max(date) FROM main.documents WHERE date <> ''").fetchone()
        return f"{condition} matches none: the documents are of {first} to {last}."
    if condition.key.startswith(META):
        key = _folded(condition.key[len(META) :])
        pairs = (
            "SELECT json_extract(p.value, '$[0]') AS k, json_extract(p.value, '$[1]') AS v FROM main.documents d, json_each(d.metadata) p"
        )
        title = " UNION ALL SELECT 'title', title FROM main.documents" if key == "title" else ""
        sql, values = f"SELECT v, count(*) FROM ({pairs}{title}) WHERE folded(k) = ? GROUP BY 1", [key]
    elif condition.key == "type":
        sql, values = "SELECT suffix_of(path), count(*) FROM main.documents GROUP BY 1", []
    else:
        folder = "CASE WHEN instr(path, '/') THEN rtrim(path, replace(path, '/', '')) ELSE path END"
        sql, values = f"SELECT {folder}, count(*) FROM main.documents GROUP BY 1", []
    found = db.execute(f"{sql} ORDER BY 2 DESC, 1 LIMIT {SHOWN + 1}", values).fetchall()
    listed = ", ".join(f"{str(v)[:80]} ({n})" for v, n in found[:SHOWN]) + " …" * (len(found) > SHOWN)
    return f"{condition} matches none. There is: {listed}."
