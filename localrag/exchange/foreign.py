"""The reader of an index by Microsoft GraphRAG 1 to 3: Parquet tables, whose files and columns `graphrag.toml` names."""

import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from localrag.errors import UsageError
from localrag.system.resources import require_extra

GRAPHRAG = "Microsoft GraphRAG"
GraphRagRow = dict[str, Any]
ENTITY_TYPES = {"geo": "place", "location": "place", "": "thing"}  # GraphRAG's type → localrag's, if they differ
LIST_COLUMNS, NUMBER_COLUMNS, REAL_COLUMNS = ("chunks", "entities"), ("number", "level", "parent"), ("rating", "weight")
MAX_NUMBER = 1 << 53
_DATA = re.compile(r"(?<!\s)\s*\[Data:[^\[\]]*\]")  # references into the tables by number


@dataclass(frozen=True, slots=True)
class GraphRagOutput:
    """The rows of each table under localrag's names of columns; `content_hash` is of the files that they were read from."""

    content_hash: str
    tables: Mapping[str, list[GraphRagRow]]


def read_graphrag(folder: Path) -> GraphRagOutput:
    """Read the tables of a folder, which may be the project above them. Raises UsageError that names the unexpected value."""
    require_extra("export", "pyarrow")
    schema = tomllib.loads((Path(__file__).parent / "graphrag.toml").read_text(encoding="utf-8"))
    place, digest = _find_tables(folder, schema), sha256()
    try:
        tables = {name: _table_rows(place, table, digest) for name, table in schema.items()}
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise UsageError(
            f"What {folder} holds is not as {GRAPHRAG} writes it: {str(error)[:200]}.",
            "Run that program again, or copy its output again.",
        ) from error
    return GraphRagOutput(digest.hexdigest()[:20], tables)


def _find_tables(folder: Path, schema: Mapping[str, Any]) -> Path:
    for place in (folder, folder / "output"):
        if all(_file(place, table) for table in schema.values() if table["required"]):
            return place
    if not folder.is_dir():
        raise UsageError(f"There is no folder {folder}.", "Give the output folder of a finished run.")
    expected = ", ".join(f"{table['files'][0]}.parquet" for table in schema.values() if table["required"])
    content = ", ".join(sorted(path.name for path in folder.iterdir())[:12]) or "nothing"
    raise UsageError(
        f"{folder} is not the output of {GRAPHRAG} 1 to 3: expected {expected} (or create_final_….parquet), found {content}.",
        "Give the output folder of a finished run; an older one must be indexed again with a newer version.",
    )


def _file(place: Path, table: Mapping[str, Any]) -> Path | None:
    return next((path for name in table["files"] if (path := place / f"{name}.parquet").is_file()), None)


def _table_rows(place: Path, table: Mapping[str, Any], digest: Any) -> list[GraphRagRow]:
    import pyarrow
    from pyarrow import parquet

    path = _file(place, table)
    if path is None:
        return []
    with path.open("rb") as f:
        while block := f.read(1 << 20):
            digest.update(block)
    try:
        columns = parquet.read_schema(path).names
        chosen = {}
        for name, names in {**table["columns"], **table.get("optional", {})}.items():
            known = next((n for n in names if n in columns), None)
            if known is not None:
                chosen[name] = known
            elif name in table["columns"]:
                raise UsageError(
                    f"{path} is not of {GRAPHRAG} 1 to 3: expected a column {' or '.join(names)}, found {', '.join(columns)}.",
                    "An index of an older version must be built again with a newer one.",
                )
        rows = parquet.read_table(path, columns=list(chosen.values())).to_pylist()
    except (pyarrow.ArrowException, OSError) as error:
        raise UsageError(f"{path} cannot be read: {str(error).splitlines()[0]}.", "Copy it again, or run that program again.") from error
    return [{name: _typed_value(name, row[column]) for name, column in chosen.items()} for row in rows]


def _typed_value(name: str, value: Any) -> Any:
    if name == "findings":
        return [_finding(one) for one in value or ()]
    if name in LIST_COLUMNS:
        return list(map(str, value or ()))
    if name == "document" and isinstance(value, list):  # early versions list the documents of a chunk
        value = next(iter(value), None)
    if not isinstance(value, str | int | float | None):
        raise TypeError(f"`{name}` is {value!r:.60}")
    if name in NUMBER_COLUMNS:
        return _whole_number(value)
    return _real_number(value) if name in REAL_COLUMNS else "" if value is None else str(value)


def _finding(finding: Any) -> tuple[str, str]:
    if not isinstance(finding, dict):
        return "", _DATA.sub("", str(finding)).strip()
    return str(finding.get("summary") or ""), _DATA.sub("", str(finding.get("explanation") or "")).strip()


def _whole_number(value: Any) -> int | None:
    number = _real_number(value, -1.0)
    return int(number) if 0 <= number <= MAX_NUMBER and number.is_integer() else None


def _real_number(value: Any, otherwise: float = 0.0) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return otherwise
    return number if math.isfinite(number) else otherwise


def strength_of(weight: float, n_chunks: int) -> int:
    """Return the strength of a relationship in each chunk, 1 to 10, from its weight summed over the chunks that state it."""
    return min(10, max(1, round(min(1e6, max(0.0, weight)) / max(1, n_chunks))))


def choose_communities(tables: Mapping[str, Sequence[GraphRagRow]], skipped: dict[str, str]) -> list[GraphRagRow]:
    """The communities with a report on the first level or below such a one, the coarsest first; the others go to `skipped`."""
    reports = {row["number"]: row for row in tables["reports"] if row["number"] is not None}
    chosen: dict[int, GraphRagRow] = {}
    for row in sorted(tables["communities"], key=lambda row: (row["level"] is None, row["level"], row["number"] or 0)):
        level, above = row["level"], chosen.get(row.get("parent"))  # type: ignore[arg-type]
        if level is None or row["number"] not in reports:
            reason = "it has no report" if level is not None else "its level is no whole number"
        else:
            reason = "" if level == 0 or (above and above["level"] == level - 1) else "the community above it is not imported"
        if reason:
            skipped[f"community {row['number']}"] = f"{reason}: its entities are clustered again"
        else:
            chosen[row["number"]] = reports[row["number"]] | row | {"parent": row["parent"] if level else None}
    return list(chosen.values())
