"""The reader of an index by Microsoft GraphRAG 1 to 3: the Parquet tables of its output folder.

`graphrag.toml` has the names of its files and columns.
"""

import math
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from localrag.errors import UsageError
from localrag.system.resources import require_extra

MAX_LEVEL = 1_000  # of communities


@dataclass(frozen=True, slots=True)
class ForeignDocument:
    """A document; `key` is its id in the other program."""

    key: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class ForeignChunk:
    """A chunk of the document `source`, or of an unknown one ("")."""

    key: str
    source: str
    text: str


@dataclass(frozen=True, slots=True)
class ForeignEntity:
    """An entity, found in the chunks `passages`."""

    name: str
    type: str
    description: str
    passages: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ForeignRelationship:
    """A relationship of two entities by name, stated in the chunks `passages`; `strength` 1 to 10."""

    source: str
    target: str
    description: str
    strength: int
    passages: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ForeignClaim:
    """A claim from the chunk `passage`, with the verbatim `quote`."""

    subject: str
    object: str
    type: str
    status: str
    start_date: str
    end_date: str
    description: str
    quote: str
    passage: str


@dataclass(frozen=True, slots=True)
class ForeignFinding:
    """A finding of a report, with the names of entities and the ends of relationships that it refers to."""

    summary: str
    explanation: str
    nodes: tuple[str, ...] = ()
    edges: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class ForeignCommunity:
    """A community of entities by name, inside the community `parent`, with its report."""

    key: str
    level: int
    parent: str | None
    nodes: tuple[str, ...]
    title: str
    summary: str
    rating: float
    rating_explanation: str
    insights: tuple[ForeignFinding, ...]


@dataclass(frozen=True, slots=True)
class ForeignIndex:
    """The content of another program's index. `content_hash` is of the files it was read from; `skipped`: unreadable item → reason."""

    content_hash: str
    sources: tuple[ForeignDocument, ...]
    passages: tuple[ForeignChunk, ...]
    nodes: tuple[ForeignEntity, ...]
    edges: tuple[ForeignRelationship, ...]
    statements: tuple[ForeignClaim, ...] = ()
    groups: tuple[ForeignCommunity, ...] = ()
    skipped: Mapping[str, str] = field(default_factory=dict)


class UnexpectedValue(ValueError):
    """A value has another type or range than the format allows."""


def whole_number(value: Any, what: str, limit: int = 1 << 53) -> int:
    """A value as a whole number from 0 to `limit`; `what` names it in the error. Raises UnexpectedValue."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if isinstance(value, bool) or not 0 <= number <= limit or number != int(number):
        raise UnexpectedValue(f"{what} is {shortened_repr(value)}, not a whole number from 0")
    return int(number)


def real_number(value: Any, otherwise: float = 0.0) -> float:
    """A value as a finite number; `otherwise` if it is none."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return otherwise
    return number if math.isfinite(number) else otherwise


def strength_of(weight: Any, chunks: int) -> int:
    """The strength of a relationship in each chunk, 1 to 10, from its weight summed over `chunks` chunks."""
    return min(10, max(1, round(min(1e6, max(0.0, real_number(weight, 1.0))) / max(1, chunks))))


def shortened_repr(value: Any) -> str:
    """The repr of a foreign value for an error message, cut to 60 characters."""
    return repr(value) if len(repr(value)) <= 60 else f"{repr(value)[:60]}…"


def tree_faults(parents: Mapping[Any, Any], levels: Mapping[Any, int]) -> dict[Any, str]:
    """The communities that belong to no tree, with the reason: the parent is missing, not on the level above, or the community itself.

    Everything below such a community belongs to no tree either. Cycles are impossible if each parent is on the level above.
    """
    faults: dict[Any, str] = {}
    for key in sorted(levels, key=lambda k: levels[k]):
        above = parents.get(key)
        if above is None:
            wrong = "it has no community above, but is not on level 0" if levels[key] else ""
        elif above == key:
            wrong = "it is its own parent"
        elif above not in levels:
            wrong = f"its parent {shortened_repr(above)} is not there"
        elif levels[above] != levels[key] - 1:
            wrong = f"it is on level {levels[key]}, and its parent {shortened_repr(above)} on level {levels[above]}"
        else:
            wrong = f"its parent {shortened_repr(above)} is in no tree" if above in faults else ""
        if wrong:
            faults[key] = wrong
    return faults


GRAPHRAG = "Microsoft GraphRAG"
GRAPHRAG_ENTITY_TYPES = {"geo": "place", "location": "place", "": "thing"}  # GraphRAG's type → localrag's, if they differ
_DATA = re.compile(r"(?<!\s)\s*\[Data:([^\[\]]*)\]")
_REFERENCE = re.compile(r"(Entities|Relationships)\s*\(([\d,\s]+)")
GraphRagRow = dict[str, Any]


def read_graphrag(folder: Path) -> ForeignIndex:
    """Read the tables of a folder, which may be the project above them. Raises UsageError that names the unexpected value."""
    require_extra("export", "pyarrow")
    try:
        return _read_graphrag(folder)
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        raise UsageError(
            f"What {folder} holds is not as {GRAPHRAG} writes it: {shortened_repr(str(error))}.",
            "Run that program again, or copy its output again.",
        ) from error


def _read_graphrag(folder: Path) -> ForeignIndex:
    schema = tomllib.loads((Path(__file__).parent / "graphrag.toml").read_text(encoding="utf-8"))
    place = _place(folder, schema)
    digest = sha256()
    tables = {name: _table_rows(place, table, digest) for name, table in schema.items()}
    entities = {row["id"]: str(row["name"]) for row in tables["entities"]}
    skipped: dict[str, str] = {}
    return ForeignIndex(
        digest.hexdigest()[:20],
        tuple(ForeignDocument(str(row["id"]), str(row["title"] or row["id"]), str(row["text"] or "")) for row in tables["documents"]),
        tuple(ForeignChunk(str(row["id"]), _first_document(row["document"]), str(row["text"] or "")) for row in tables["chunks"]),
        tuple(_graphrag_entity(row) for row in tables["entities"]),
        tuple(_graphrag_relationship(row) for row in tables["relationships"]),
        tuple(_graphrag_claim(row) for row in tables["claims"] if row.get("kind") in (None, "claim")),
        tuple(_graphrag_communities(tables, entities, skipped)),
        skipped,
    )


def _place(folder: Path, schema: Mapping[str, Any]) -> Path:
    """The folder with the tables: the given one, or its `output`."""
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
    """The rows of a table, with localrag's column names; none if the table is missing. Raises UsageError."""
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
    return [{name: row[column] for name, column in chosen.items()} for row in rows]


def _first_document(document: Any) -> str:
    """The document of a chunk; early versions list several."""
    return str((document or [""])[0] if not isinstance(document, str) else document)


def _graphrag_entity(row: GraphRagRow) -> ForeignEntity:
    kind = str(row["type"] or "").strip('"').lower()
    return ForeignEntity(str(row["name"]), GRAPHRAG_ENTITY_TYPES.get(kind, kind), str(row["description"] or "").strip(), _chunk_ids(row))


def _chunk_ids(row: GraphRagRow) -> tuple[str, ...]:
    return tuple(map(str, row["chunks"] or ()))


def _graphrag_relationship(row: GraphRagRow) -> ForeignRelationship:
    """Convert a relationship. Its weight is the sum of the model's ratings, 1 to 10, over the chunks that state it."""
    chunks = _chunk_ids(row)
    strength = strength_of(row["weight"] or 1, len(chunks))
    return ForeignRelationship(str(row["source"]), str(row["target"]), str(row["description"] or "").strip(), strength, chunks)


def _graphrag_claim(row: GraphRagRow) -> ForeignClaim:
    return ForeignClaim(**{key: "" if row[key] in (None, "NONE", "None") else str(row[key]).strip() for key in row if key != "kind"})


def _graphrag_communities(
    tables: Mapping[str, list[GraphRagRow]], entities: Mapping[Any, str], skipped: dict[str, str]
) -> Iterable[ForeignCommunity]:
    """The communities of those trees in which every community has a report."""
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
            reason = faults.get(number, "it, or one below the same top, has no report or no place")
            skipped[f"community {number}"] = f"{reason}: its entities are clustered again"
            continue
        report, parent = reports[number], parents[number]
        yield ForeignCommunity(
            str(number),
            row["level"],
            None if parent is None else str(parent),
            tuple(entities[key] for key in row["entities"] if key in entities),
            str(report["title"]),
            str(report["summary"]),
            real_number(report["rating"]),
            str(report["rating_explanation"] or ""),
            tuple(_graphrag_finding(f, nodes, edges) for f in report["findings"] or ()),
        )


def _by_level(table: list[GraphRagRow], skipped: dict[str, str]) -> dict[int, GraphRagRow]:
    """The communities by number, coarsest level first; those with an invalid number or level are added to `skipped`."""
    rows = []
    for row in table:
        try:
            number, level = whole_number(row["number"], "its number"), whole_number(row["level"], "its level", MAX_LEVEL)
            rows.append((level, number, row | {"number": number, "level": level, "entities": list(row["entities"] or ())}))
        except UnexpectedValue as error:
            skipped[f"community {shortened_repr(row['number'])}"] = f"{error}: its entities are clustered again"
    return {number: row for _, number, row in sorted(rows, key=lambda entry: entry[:2])}


def _parents(rows: Mapping[int, GraphRagRow]) -> dict[int, Any]:
    """Community → the number of its parent. If the table has no parents: a community one level up that has all of its entities."""
    by_entity: defaultdict[tuple[int, Any], list[int]] = defaultdict(list)
    for number, row in rows.items():
        for key in dict.fromkeys(row["entities"]):
            by_entity[row["level"], key].append(number)
    return {number: _parent(row, rows, by_entity) for number, row in rows.items()}


def _parent(row: GraphRagRow, rows: Mapping[int, GraphRagRow], by_entity: Mapping[tuple[int, Any], list[int]]) -> Any:
    if row["level"] == 0:
        return None
    if row.get("parent") in rows:
        return row["parent"]
    homes = [set(by_entity.get((row["level"] - 1, key), ())) for key in row["entities"]]
    return min(set.intersection(*homes), default=None) if homes else None


def _graphrag_finding(finding: Any, nodes: Mapping[Any, str], edges: Mapping[Any, tuple[str, str]]) -> ForeignFinding:
    """A finding without its references, which point into the tables by number."""
    summary, text = (str(finding.get(key) or "") for key in ("summary", "explanation")) if isinstance(finding, dict) else ("", str(finding))
    numbers: defaultdict[str, dict[int, None]] = defaultdict(dict)
    for data in _DATA.findall(text):
        for kind, listed in _REFERENCE.findall(data):
            numbers[kind] |= dict.fromkeys(int(n) for n in re.findall(r"\d+", listed))
    named = tuple(nodes[n] for n in numbers["Entities"] if n in nodes)
    related = tuple(edges[n] for n in numbers["Relationships"] if n in edges)
    return ForeignFinding(summary, _DATA.sub("", text).strip(), named, related)
