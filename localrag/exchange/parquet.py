"""The tables of Microsoft GraphRAG 3 as Parquet files, so that programs made for its output read an index.

Their names and columns stand in `graphrag_tables.toml`, each with what of ours it holds. Theirs name the two ends of a relationship by
title, so titles are made unique. Rows are read by cursors and written in groups of limited size.
"""

import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlite_utils import Database

from localrag.store import tables

if TYPE_CHECKING:
    import pyarrow as pa

GROUP_ROWS = 10_000
GROUP_CHARACTERS = 32 << 20  # of all texts of a group: documents may be large
NOBODY = "NONE"  # where a claim has no object or no date
Row = dict[str, Any]
Places = dict[str, Row]


def table_names() -> Mapping[str, Mapping[str, tuple[str, str]]]:
    """Table → column → its type and what of ours it holds."""
    text = files("localrag.exchange").joinpath("graphrag_tables.toml").read_text(encoding="utf-8")
    return {name: {c: (kind, own) for c, (kind, own) in columns.items()} for name, columns in tomllib.loads(text).items()}


def write(db: Database, folder: Path, level: int | None = None) -> dict[str, int]:
    """Write the tables into a folder, down to a level of communities; returns their numbers of rows."""
    places, titles = _places(db, level), tables.titles(db)
    documents, chunks, entities, relationships, communities, reports, claims = table_names().items()
    found: list[tuple[tuple[str, Any], Iterable[Row]]] = [
        (documents, _numbered(map(_document, tables.documents(db)))),
        (chunks, _numbered(tables.chunks(db))),
        (entities, _numbered(row | {"title": titles[row["id"]], "frequency": len(row["chunk_ids"])} for row in tables.entities(db))),
        (
            relationships,
            _numbered(row | {"source": titles[row["source_id"]], "target": titles[row["target_id"]]} for row in tables.relationships(db)),
        ),
        (communities, (row | places[row["id"]] for row in tables.communities(db, level))),
        (reports, _reports(db, level, places)),
        (claims, _numbered(_claim(row, titles) for row in tables.claims(db))),
    ]
    counts = {name: _write(folder / f"{name}.parquet", columns, rows) for (name, columns), rows in found}
    if not counts[claims[0]]:  # theirs is missing, too, where no claims were extracted
        (folder / f"{claims[0]}.parquet").unlink()
        del counts[claims[0]]
    return counts


def _numbered(rows: Iterable[Row]) -> Iterator[Row]:
    return (row | {"n": n} for n, row in enumerate(rows))


def _document(row: Row) -> Row:
    return row | {"metadata": json.dumps(dict(row["metadata"]), ensure_ascii=False) if row["metadata"] else None}


def _claim(row: Row, titles: Mapping[str, str]) -> Row:
    ends = {"subject": titles[row["subject_id"]], "object": titles.get(row["object_id"] or "", NOBODY)}
    return row | ends | {"kind": "claim", "since": row["since"] or NOBODY, "until": row["until"] or NOBODY}


def _places(db: Database, level: int | None) -> Places:
    """Community id → what its own row and its report's say of where it is: number, parent's, children's, title, size, date."""
    period = str(tables.newest_document(db) or "")[:10]
    found: Places = {}
    for n, (key, parent, size) in enumerate(tables.community_tree(db, level)):
        above = found.get(parent or "")
        found[key] = {"n": n, "parent": above["n"] if above else -1, "children": [], "title": f"Community {n}", "size": size}
        found[key]["period"] = period
        if above:
            above["children"].append(n)
    return found


def _reports(db: Database, level: int | None, places: Places) -> Iterator[Row]:
    for place, report in tables.reports(db, level):
        findings = [{"explanation": f.explanation, "summary": f.summary} for f in report.findings]
        own: Row = {"title": report.title, "summary": report.summary, "findings": findings}
        own |= {"rating": report.rating, "rating_explanation": report.rating_explanation}
        yield places[place["id"]] | place | own | {"markdown": report.markdown, "as_json": json.dumps(own, ensure_ascii=False)}


def _write(path: Path, columns: Mapping[str, tuple[str, str]], rows: Iterable[Row]) -> int:
    import pyarrow as pa
    from pyarrow.parquet import ParquetWriter

    schema = pa.schema([(name, _type(kind)) for name, (kind, _) in columns.items()])
    written = 0
    with ParquetWriter(path, schema, compression="zstd") as out:
        for group in _groups(rows):
            data = {name: [row[own] for row in group] for name, (_, own) in columns.items()}
            out.write_batch(pa.RecordBatch.from_pydict(data, schema=schema))
            written += len(group)
    return written


def _type(kind: str) -> "pa.DataType":
    import pyarrow as pa

    plain = {"string": pa.string(), "int64": pa.int64(), "double": pa.float64()}
    lists = {f"list<{name}>": pa.list_(of) for name, of in plain.items()}
    finding = pa.struct([("explanation", pa.string()), ("summary", pa.string())])
    return (plain | lists | {"findings": pa.list_(finding)})[kind]


def _groups(rows: Iterable[Row]) -> Iterator[list[Row]]:
    group: list[Row] = []
    characters = 0
    for row in rows:
        group.append(row)
        characters += len(row.get("text") or "")
        if len(group) >= GROUP_ROWS or characters >= GROUP_CHARACTERS:
            yield group
            group, characters = [], 0
    if group:
        yield group
