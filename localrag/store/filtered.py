"""FilteredDatabase: a connection that sees only the documents that match a filter, and reports restricted to them.

The matching document ids are computed once into a temporary table. Views of the same names shadow the tables and show only what is in these
documents; descriptions are empty unless all of their evidence matches.

A report is unchanged only if every mention of its community's entities is in matching documents. Otherwise its findings keep only their
matching quotes and the text of these, and title and summary are replaced, because they describe all documents.
"""

import json
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlite_utils import Database

from localrag.errors import LocalragError, UsageError
from localrag.filters import METADATA_PREFIX, DocumentFilter, FilterCondition, matches_path, suffix_of, suffixes_of_type, suggestion
from localrag.records import Finding, Quote, Report
from localrag.store.collections import check_collections_exist
from localrag.text.sentences import collapse_whitespace, is_cjk, join_names

MAX_SHOWN_VALUES = 8  # available values listed when nothing matches
_CHUNK_IS_SELECTED = "SELECT 1 FROM main.chunks c WHERE c.id = {}.chunk_id AND c.document_id IN (SELECT id FROM temp.selected)"
_MENTIONED_IN_SELECTION = f"SELECT 1 FROM main.mentions m WHERE m.entity_id = {{}} AND EXISTS ({_CHUNK_IS_SELECTED.format('m')})"
_EVIDENCE_OUTSIDE = f"SELECT 1 FROM main.evidence e WHERE e.relationship_id = r.id AND NOT EXISTS ({_CHUNK_IS_SELECTED.format('e')})"
_QUOTES = "json_each(r.findings) f, json_each(f.value, '$.quotes') q"
_OWN_NAME = (
    "coalesce((SELECT name FROM mentions WHERE entity_id = x.id AND name = x.name LIMIT 1),"
    " (SELECT name FROM mentions WHERE entity_id = x.id GROUP BY name ORDER BY count(*) DESC, name LIMIT 1))"
)
_VIEWS = {
    "documents": "SELECT * FROM main.documents WHERE id IN (SELECT id FROM temp.selected)",
    "chunks": "SELECT * FROM main.chunks WHERE document_id IN (SELECT id FROM temp.selected)",
    **{
        table: f"SELECT * FROM main.{table} t WHERE EXISTS ({_CHUNK_IS_SELECTED.format('t')})"
        for table in ("mentions", "evidence", "claims")
    },
    "entities": f"SELECT id, {_OWN_NAME} AS name, type, '' AS description, degree, '[]' AS descriptions FROM main.entities x"
    f" WHERE EXISTS ({_MENTIONED_IN_SELECTION.format('x.id')})",
    "entity_aliases": f"SELECT * FROM main.entity_aliases a WHERE EXISTS ({_MENTIONED_IN_SELECTION.format('a.entity_id')})",
    "relationships": "SELECT id, source_id, target_id,"
    f" CASE WHEN EXISTS ({_EVIDENCE_OUTSIDE}) THEN '' ELSE description END AS description, weight, strength,"
    f" CASE WHEN EXISTS ({_EVIDENCE_OUTSIDE}) THEN '[]' ELSE descriptions END AS descriptions"
    f" FROM main.relationships r WHERE EXISTS (SELECT 1 FROM main.evidence e WHERE e.relationship_id = r.id AND EXISTS"
    f" ({_CHUNK_IS_SELECTED.format('e')}))",
    "communities": "SELECT * FROM main.communities k WHERE EXISTS (SELECT 1 FROM main.community_members b WHERE b.community_id = k.id"
    f" AND EXISTS ({_MENTIONED_IN_SELECTION.format('b.entity_id')}))",
    "reports": f"SELECT * FROM main.reports r WHERE EXISTS (SELECT 1 FROM {_QUOTES} JOIN chunks c"
    " ON c.id = json_extract(q.value, '$.chunk_id'))",
}
_SUBJECTS = {  # kind of vector → its subjects
    "chunk": "SELECT id FROM chunks",
    "entity": "SELECT DISTINCT m.entity_id AS id FROM chunks c JOIN main.mentions m ON m.chunk_id = c.id",
    "report": "SELECT community_id AS id FROM reports",
}


class NoMatchingDocuments(LocalragError):
    """No document matches the filter; the hint lists available values."""


class FilteredDatabase(Database):
    """A database restricted to the filtered documents; `query_cache` holds values computed for one question."""

    def __init__(self, db: Database) -> None:
        super().__init__(db.conn)
        self.query_cache: dict[Any, Any] = {}

    def subject_ids(self, kind: str) -> set[str]:
        """The ids of the visible subjects of a kind of vector: chunk, entity or report."""
        if kind not in self.query_cache:
            self.query_cache[kind] = {key for (key,) in self.execute(_SUBJECTS[kind])}
        subjects: set[str] = self.query_cache[kind]
        return subjects

    def vector_ids(self, kind: str) -> NDArray[np.int64]:
        """The numbers of the vectors of visible subjects of a kind, sorted."""
        if ("vectors", kind) not in self.query_cache:
            joined = f"({_SUBJECTS[kind]}) s CROSS JOIN embeddings e ON e.kind = ? AND e.subject_id = s.id"
            rows = self.execute(f"SELECT e.vector_id FROM {joined}", [kind])
            self.query_cache["vectors", kind] = np.sort(np.fromiter((n for (n,) in rows), np.int64))
        numbers: NDArray[np.int64] = self.query_cache["vectors", kind]
        return numbers


def open_filtered(db: Database, selection: DocumentFilter, root: Path) -> Database:
    """Restrict the database to the filtered documents, by temporary views on its read-only connection.

    `root`: the folder that stored paths are relative to. Returns `db` itself if every document matches. Raises UsageError for an unknown
    condition, key or collection, and NoMatchingDocuments.
    """
    if not selection:
        return db
    where, values = _where(db, selection, root)
    db.execute("PRAGMA query_only = OFF")  # only temporary tables of this connection are written
    try:
        db.execute("CREATE TEMP TABLE selected (id TEXT PRIMARY KEY) WITHOUT ROWID")
        db.execute(f"INSERT INTO temp.selected SELECT d.id FROM main.documents d WHERE {where}", values)
        n_selected, n_documents = (int(db.execute(f"SELECT count(*) FROM {t}").fetchone()[0]) for t in ("temp.selected", "main.documents"))
        if not n_selected:
            raise NoMatchingDocuments(f"No document matches {selection}.", explain_no_match(db, selection, root))
        if n_selected == n_documents:
            db.execute("DROP TABLE temp.selected")
            return db
        for name, select in _VIEWS.items():
            columns = ", ".join(f'"{row[1]}"' for row in db.execute(f"PRAGMA main.table_info({name})"))
            db.execute(f"CREATE TEMP VIEW {name} AS {select.replace('SELECT *', f'SELECT {columns}', 1)}")
        db.execute("CREATE TEMP TABLE selected_rows (row INTEGER PRIMARY KEY)")
        db.execute("INSERT INTO temp.selected_rows SELECT r.row FROM chunks c JOIN main.chunks_fts_rows r ON r.chunk_id = c.id")
    finally:
        db.execute("PRAGMA query_only = ON")
    return FilteredDatabase(db)


def _where(db: Database, selection: DocumentFilter, root: Path) -> tuple[str, list[str]]:
    """The SQL condition on `main.documents d` for a filter, and its values."""
    conditions = selection.conditions
    _check_keys(db, conditions)
    check_collections_exist(db, selection.collections)
    db.conn.create_function("is_at", 2, matches_path, deterministic=True)
    db.conn.create_function("suffix_of", 1, suffix_of, deterministic=True)
    db.conn.create_function("folded", 1, _folded, deterministic=True)
    groups: dict[tuple[str, bool], list[FilterCondition]] = {}
    for c in conditions:
        groups.setdefault((c.key.casefold(), c.is_negated), []).append(c)
    parts, values = list[str](), list[str]()
    for (_, negated), group in groups.items():
        clauses = [_condition_sql(c, root) for c in group]
        parts.append(f"{'NOT ' if negated else ''}({' OR '.join(sql for sql, _ in clauses)})")
        values += [v for _, clause_values in clauses for v in clause_values]
    if selection.collections:
        parts.append("d.path IN (SELECT path FROM main.collection_documents WHERE name IN (SELECT value FROM json_each(?)))")
        values.append(json.dumps(list(selection.collections)))
    return " AND ".join(parts) or "true", values


def _condition_sql(condition: FilterCondition, root: Path) -> tuple[str, list[str]]:
    value = condition.value
    if condition.key == "path":
        inside = Path(value).is_absolute() and Path(value).is_relative_to(root)
        return "is_at(d.path, ?)", [Path(value).relative_to(root).as_posix() if inside else value]
    if condition.key == "type":
        return "suffix_of(d.path) IN (SELECT value FROM json_each(?))", [json.dumps(suffixes_of_type(value))]
    if condition.key in ("after", "before"):
        return f"(d.date <> '' AND d.date {'>=' if condition.key == 'after' else '<'} ?)", [value]
    key = condition.key[len(METADATA_PREFIX) :]
    pair = "EXISTS (SELECT 1 FROM json_each(d.metadata) p WHERE folded(json_extract(p.value, '$[0]')) = ?"
    sql = f"{pair} AND instr(folded(json_extract(p.value, '$[1]')), ?))"
    title = [_folded(value)] if _folded(key) == "title" else []
    return (f"({sql} OR instr(folded(d.title), ?))" if title else sql), [_folded(key), _folded(value), *title]


def _folded(text: str) -> str:
    return unicodedata.normalize("NFC", str(text)).casefold()


def metadata_keys(db: Database) -> dict[str, int]:
    """Metadata key → number of documents with it, most frequent first; every document has a title."""
    counted = "SELECT json_extract(p.value, '$[0]'), count(DISTINCT d.id) FROM main.documents d, json_each(d.metadata) p GROUP BY 1"
    counts = {str(key): int(n) for key, n in db.execute(counted)}
    total = int(db.execute("SELECT count(*) FROM main.documents").fetchone()[0])
    return dict(sorted(({**counts, "title": total}).items(), key=lambda item: (-item[1], item[0])))


def _check_keys(db: Database, conditions: Iterable[FilterCondition]) -> None:
    wanted = [c for c in conditions if c.key.startswith(METADATA_PREFIX)]
    existing = metadata_keys(db) if wanted else {}
    for c in wanted:
        key = c.key[len(METADATA_PREFIX) :]
        if _folded(key) not in map(_folded, existing):
            listed = ", ".join(f"{name} ({n})" for name, n in list(existing.items())[:30])
            raise UsageError(
                f"--filter: no document has the metadata key {key!r}, in '{c}'.", f"Keys here: {listed}{suggestion(key, existing)}"
            )


def explain_no_match(db: Database, selection: DocumentFilter, root: Path) -> str:
    """Explain why nothing matches: the number of matches of each condition alone, and available values for those without any."""
    single_filters = [DocumentFilter(str(c)) for c in selection.conditions] + [DocumentFilter("", selection.collections)] * bool(
        selection.collections
    )
    sentences = []
    for single in single_filters:
        where, values = _where(db, single, root)
        n = int(db.execute(f"SELECT count(*) FROM main.documents d WHERE {where}", values).fetchone()[0])
        if n and len(single_filters) > 1:
            sentences.append(f"Alone, {single} matches {n}.")
        elif not n:
            sentences.append(_available_values(db, single.conditions[0]) if single.conditions else "The collection is empty.")
    return " ".join(sentences) or "Each condition matches some documents, but none matches all of them."


def _available_values(db: Database, condition: FilterCondition) -> str:
    if condition.key in ("after", "before"):
        first, last = db.execute("SELECT min(date), max(date) FROM main.documents WHERE date <> ''").fetchone()
        return f"{condition} matches none: the documents are dated {first} to {last}."
    if condition.key.startswith(METADATA_PREFIX):
        key = _folded(condition.key[len(METADATA_PREFIX) :])
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
    rows = db.execute(f"{sql} ORDER BY 2 DESC, 1 LIMIT {MAX_SHOWN_VALUES + 1}", values).fetchall()
    listed = ", ".join(f"{str(v)[:80]} ({n})" for v, n in rows[:MAX_SHOWN_VALUES]) + " …" * (len(rows) > MAX_SHOWN_VALUES)
    return f"{condition} matches none. There is: {listed}."


MAX_TITLE_NAMES = 3  # names in a title


def filter_reports(db: FilteredDatabase, reports: Sequence[Report]) -> list[Report]:
    """The reports restricted to the filtered documents, in order, without those that have no finding left."""
    inside = _entities_inside(db, {q.chunk_id for r in reports for f in r.findings for q in f.quotes})
    mixed = _partly_selected(db, [r.community_id for r in reports])
    filtered = []
    for report in reports:
        findings = tuple(f for f in (_filter_finding(f, inside) for f in report.findings) if f is not None)
        if findings and report.community_id not in mixed and findings == report.findings:
            filtered.append(report)
        elif findings:
            title = _title(db, report, findings)
            summary = " ".join(f.explanation for f in findings[:2])
            filtered.append(replace(report, title=title, summary=summary, rating=None, rating_explanation="", findings=findings))
    return filtered


def _title(db: FilteredDatabase, report: Report, findings: Sequence[Finding]) -> str:
    """The report's own title if it occurs in a matching chunk, as for extractive reports; otherwise names of entities."""
    ids = json.dumps(sorted({q.chunk_id for f in findings for q in f.quotes}))
    rows = db.execute("SELECT text FROM chunks WHERE id IN (SELECT value FROM json_each(?))", [ids])
    if any(report.title.casefold() in collapse_whitespace(text).casefold() for (text,) in rows):
        return report.title
    return join_names(_names(db, report.community_id)) or findings[0].explanation


def _filter_finding(finding: Finding, inside: set[str]) -> Finding | None:
    quotes = tuple(q for q in finding.quotes if q.chunk_id in inside)
    if not quotes:
        return None
    return finding if quotes == finding.quotes else Finding("", _quoted_text(quotes), quotes)


def _quoted_text(quotes: Sequence[Quote]) -> str:
    texts = list(dict.fromkeys(collapse_whitespace(q.text) for q in quotes))
    return ("" if all(map(is_cjk, texts)) else " ").join(texts)


def _entities_inside(db: FilteredDatabase, chunks: set[str]) -> set[str]:
    rows = db.execute("SELECT id FROM chunks WHERE id IN (SELECT value FROM json_each(?))", [json.dumps(sorted(chunks))])
    return {key for (key,) in rows}


def _partly_selected(db: FilteredDatabase, communities: Sequence[str]) -> set[str]:
    """The communities whose entities are also mentioned in documents outside the filter."""
    is_selected = "SELECT 1 FROM main.chunks c WHERE c.id = m.chunk_id AND c.document_id IN (SELECT id FROM temp.selected)"
    mentioned = "SELECT 1 FROM main.community_members b JOIN main.mentions m ON m.entity_id = b.entity_id WHERE b.community_id = value"
    elsewhere = f"{mentioned} AND NOT EXISTS ({is_selected})"
    rows = db.execute(f"SELECT value FROM json_each(?) WHERE EXISTS ({elsewhere})", [json.dumps(list(communities))])
    return {key for (key,) in rows}


def _names(db: FilteredDatabase, community: str) -> list[str]:
    """The entities of a community that the filtered documents mention most; people and places before things."""
    rows = db.execute(
        "SELECT e.name FROM main.community_members b JOIN entities e ON e.id = b.entity_id WHERE b.community_id = ?"
        " ORDER BY e.type = 'thing', (SELECT count(*) FROM mentions m WHERE m.entity_id = e.id) DESC, e.name LIMIT ?",
        [community, MAX_TITLE_NAMES],
    )
    return [str(name) for (name,) in rows]
