"""The tables as JSON Lines, one file each: everything the index says, under the names that localrag itself uses."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sqlite_utils import Database

from localrag.store import tables

Row = dict[str, Any]


def write(db: Database, folder: Path, level: int | None = None) -> dict[str, int]:
    """Write one file a table into a folder, communities and reports down to a level; returns the numbers of rows."""
    found: dict[str, Iterable[Row]] = {
        "documents": (row | {"metadata": dict(row["metadata"]), "parts": list(map(_part, row["parts"]))} for row in tables.documents(db)),
        "chunks": tables.chunks(db),
        "entities": tables.entities(db),
        "mentions": tables.mentions(db),
        "relationships": tables.relationships(db),
        "evidence": tables.evidence(db),
        "claims": tables.claims(db),
        "communities": (_community(row) for row in tables.communities(db, level)),
        "reports": _reports(db, level),
    }
    return {name: _write(folder / f"{name}.jsonl", rows) for name, rows in found.items()}


def _part(part: list[Any]) -> Row:
    return dict(zip(("label", "start", "end"), part, strict=True))


def _community(row: Row) -> Row:
    return row | {"number": f"{row['level']}.{row.pop('ordinal')}"}


def _reports(db: Database, level: int | None) -> Iterator[Row]:
    for place, report in tables.reports(db, level):
        findings = [asdict(finding) for finding in report.findings]
        own = {name: getattr(report, name) for name in ("title", "summary", "rating", "rating_explanation", "markdown")}
        yield {"community_id": place["id"], "number": f"{place['level']}.{place['ordinal']}", **own, "findings": findings}


def _write(path: Path, rows: Iterable[Row]) -> int:
    n = 0
    with path.open("w", encoding="utf-8", newline="\n") as out:
        for n, row in enumerate(rows, 1):  # noqa: B007
            out.write(json.dumps(row, ensure_ascii=False) + "\n")
    return n
