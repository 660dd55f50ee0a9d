"""Microsoft GraphRAG's output folder (Parquet tables, versions 1 to 3) → what it says. Names of its files and columns: graphrag.toml."""

import re
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from localrag.errors import UsageError
from localrag.exchange.imports.foreign import (
    MAX_LEVEL,
    Edge,
    Foreign,
    Group,
    Insight,
    Node,
    Passage,
    Source,
    Statement,
    UnexpectedValue,
    real_number,
    shortened_repr,
    strength_of,
    tree_faults,
    unexpected_values_refused,
    whole_number,
)
from localrag.system.extras import require

PROGRAM = "Microsoft GraphRAG"
TYPES = {"geo": "place", "location": "place", "": "thing"}  # its words for what we call otherwise
_DATA = re.compile(r"\s*\[Data:([^\]]*)\]")
_REFERENCE = re.compile(r"(Entities|Relationships)\s*\(([\d,\s]+)")
Row = dict[str, Any]


def read_graphrag(folder: Path) -> Foreign:
    """All that the folder's tables say; `folder` may be the project above it. Raises UsageError naming what is not as expected."""
    require("export", "pyarrow")
    with unexpected_values_refused(folder, PROGRAM):
        return _read(folder)


def _read(folder: Path) -> Foreign:
    schema = tomllib.loads((Path(__file__).parent / "graphrag.toml").read_text(encoding="utf-8"))
    place = _place(folder, schema)
    digest = sha256()
    tables = {name: _rows(place, table, digest) for name, table in schema.items()}
    entities = {row["id"]: str(row["name"]) for row in tables["entities"]}
    skipped: dict[str, str] = {}
    return Foreign(
        PROGRAM,
        digest.hexdigest()[:20],
        tuple(Source(str(row["id"]), str(row["title"] or row["id"]), str(row["text"] or "")) for row in tables["documents"]),
        tuple(Passage(str(row["id"]), _first(row["document"]), str(row["text"] or "")) for row in tables["chunks"]),
        tuple(_node(row) for row in tables["entities"]),
        tuple(_edge(row) for row in tables["relationships"]),
        tuple(_statement(row) for row in tables["claims"] if row.get("kind") in (None, "claim")),
        tuple(_groups(tables, entities, skipped)),
        skipped,
    )


def _place(folder: Path, schema: Mapping[str, Any]) -> Path:
    """The folder with the tables: the one given, or its `output`."""
    for place in (folder, folder / "output"):
        if all(_file(place, table) for table in schema.values() if table["required"]):
            return place
    if not folder.is_dir():
        raise UsageError(f"There is no folder {folder}.", "Give the output folder of a finished run.")
    expected = ", ".join(f"{table['files'][0]}.parquet" for table in schema.values() if table["required"])
    found = ", ".join(sorted(path.name for path in folder.iterdir())[:12]) or "nothing"
    raise UsageError(
        f"{folder} is no output of {PROGRAM} 1 to 3: expected {expected} (or create_final_….parquet), found {found}.",
        "Give the output folder of a finished run; one of an older version has to be indexed again with a newer one.",
    )


def _file(place: Path, table: Mapping[str, Any]) -> Path | None:
    return next((path for name in table["files"] if (path := place / f"{name}.parquet").is_file()), None)


def _rows(place: Path, table: Mapping[str, Any], digest: Any) -> list[Row]:
    """The rows of a table under our names of its columns; none of one that is not there. Raises UsageError."""
    import pyarrow
    from pyarrow import parquet

    path = _file(place, table)
    if path is None:
        return []
    with path.open("rb") as f:
        while block := f.read(1 << 20):
            digest.update(block)
    try:
        there = parquet.read_schema(path).names
        chosen = {}
        for name, names in {**table["columns"], **table.get("optional", {})}.items():
            known = next((n for n in names if n in there), None)
            if known is not None:
                chosen[name] = known
            elif name in table["columns"]:
                raise UsageError(
                    f"{path} is not of {PROGRAM} 1 to 3: expected a column {' or '.join(names)}, found {', '.join(there)}.",
                    "An index of an older version has to be made again with a newer one.",
                )
        rows = parquet.read_table(path, columns=list(chosen.values())).to_pylist()
    except (pyarrow.ArrowException, OSError) as error:
        raise UsageError(f"{path} cannot be read: {str(error).splitlines()[0]}.", "Copy it again, or run that program again.") from error
    return [{name: row[column] for name, column in chosen.items()} for row in rows]


def _first(document: Any) -> str:
    """The document of a chunk; early versions list several."""
    return str((document or [""])[0] if not isinstance(document, str) else document)


def _node(row: Row) -> Node:
    kind = str(row["type"] or "").strip('"').lower()
    return Node(str(row["name"]), TYPES.get(kind, kind), str(row["description"] or "").strip(), _chunks_of(row))


def _chunks_of(row: Row) -> tuple[str, ...]:
    return tuple(map(str, row["chunks"] or ()))


def _edge(row: Row) -> Edge:
    """Its weight is the sum of the model's ratings, of 1 to 10, over the chunks that state it."""
    chunks = _chunks_of(row)
    strength = strength_of(row["weight"] or 1, len(chunks))
    return Edge(str(row["source"]), str(row["target"]), str(row["description"] or "").strip(), strength, chunks)


def _statement(row: Row) -> Statement:
    said = {key: "" if row[key] in (None, "NONE", "None") else str(row[key]).strip() for key in row if key != "kind"}
    return Statement(**{{"chunk": "passage"}.get(key, key): value for key, value in said.items()})


def _groups(tables: Mapping[str, list[Row]], entities: Mapping[Any, str], skipped: dict[str, str]) -> Iterable[Group]:
    """The communities, those of whole trees that have reports throughout."""
    reports = {row["number"]: row for row in tables["reports"]}
    rows = _by_level(tables["communities"], skipped)
    parents = _parents(rows)
    nodes = {row["number"]: str(row["name"]) for row in tables["entities"]}
    edges = {row["number"]: (str(row["source"]), str(row["target"])) for row in tables["relationships"]}
    faults = tree_faults(parents, {number: row["level"] for number, row in rows.items()})
    roots: dict[Any, Any] = {}
    for number in rows:  # the coarsest first
        roots[number] = number if number in faults or parents[number] is None else roots[parents[number]]
    bare = {roots[number] for number in rows if number not in reports or number in faults}
    for number, row in sorted(rows.items()):
        if roots[number] in bare:
            why = faults.get(number, "it, or one below the same top, has no report or no place")
            skipped[f"community {number}"] = f"{why}: its entities are clustered anew"
            continue
        report, parent = reports[number], parents[number]
        yield Group(
            str(number),
            row["level"],
            None if parent is None else str(parent),
            tuple(entities[key] for key in row["entities"] if key in entities),
            str(report["title"]),
            str(report["summary"]),
            real_number(report["rating"]),
            str(report["rating_explanation"] or ""),
            tuple(_insight(f, nodes, edges) for f in report["findings"] or ()),
        )


def _by_level(table: list[Row], skipped: dict[str, str]) -> dict[int, Row]:
    """The communities by number, coarsest level first; those with an invalid number or level are added to `skipped`."""
    rows = []
    for row in table:
        try:
            number, level = whole_number(row["number"], "its number"), whole_number(row["level"], "its level", MAX_LEVEL)
            rows.append((level, number, row | {"number": number, "level": level, "entities": list(row["entities"] or ())}))
        except UnexpectedValue as error:
            skipped[f"community {shortened_repr(row['number'])}"] = f"{error}: its entities are clustered anew"
    return {number: row for _, number, row in sorted(rows, key=lambda entry: entry[:2])}


def _parents(rows: Mapping[int, Row]) -> dict[int, Any]:
    """Community → the number of its parent; if the table has none, of a community one level up that holds all of its entities."""
    held: defaultdict[tuple[int, Any], list[int]] = defaultdict(list)
    for number, row in rows.items():
        for key in dict.fromkeys(row["entities"]):
            held[row["level"], key].append(number)
    return {number: _parent(row, rows, held) for number, row in rows.items()}


def _parent(row: Row, rows: Mapping[int, Row], held: Mapping[tuple[int, Any], list[int]]) -> Any:
    if row["level"] == 0:
        return None
    if row.get("parent") in rows:
        return row["parent"]
    homes = [set(held.get((row["level"] - 1, key), ())) for key in row["entities"]]
    return min(set.intersection(*homes), default=None) if homes else None


def _insight(finding: Any, nodes: Mapping[Any, str], edges: Mapping[Any, tuple[str, str]]) -> Insight:
    """A finding, without its references, which point into the tables by number."""
    summary, text = (str(finding.get(key) or "") for key in ("summary", "explanation")) if isinstance(finding, dict) else ("", str(finding))
    numbers: defaultdict[str, dict[int, None]] = defaultdict(dict)
    for data in _DATA.findall(text):
        for kind, listed in _REFERENCE.findall(data):
            numbers[kind] |= dict.fromkeys(int(n) for n in re.findall(r"\d+", listed))
    named = tuple(nodes[n] for n in numbers["Entities"] if n in nodes)
    related = tuple(edges[n] for n in numbers["Relationships"] if n in edges)
    return Insight(summary, _DATA.sub("", text).strip(), named, related)
