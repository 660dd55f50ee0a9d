"""Readers of indexes by Microsoft GraphRAG, LightRAG and nano-graphrag; all return a ForeignIndex.

GraphRAG: the output folder of versions 1 to 3 (Parquet tables); `graphrag.toml` has the names of its files and columns. LightRAG and
nano-graphrag: the working folder (JSON stores and a GraphML file).
"""

import html
import json
import math
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
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

    program: str
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


@contextmanager
def unexpected_values_refused(folder: Path, program: str) -> Iterator[None]:
    """Turn errors from values that the program never writes (a list for a name, a number for a list) into a UsageError."""
    try:
        yield
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        raise UsageError(
            f"What {folder} holds is not as {program} writes it: {shortened_repr(str(error))}.",
            "Run that program again, or copy its output again.",
        ) from error


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
    with unexpected_values_refused(folder, GRAPHRAG):
        return _read_graphrag(folder)


def _read_graphrag(folder: Path) -> ForeignIndex:
    schema = tomllib.loads((Path(__file__).parent / "graphrag.toml").read_text(encoding="utf-8"))
    place = _place(folder, schema)
    digest = sha256()
    tables = {name: _table_rows(place, table, digest) for name, table in schema.items()}
    entities = {row["id"]: str(row["name"]) for row in tables["entities"]}
    skipped: dict[str, str] = {}
    return ForeignIndex(
        GRAPHRAG,
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
    values = {key: "" if row[key] in (None, "NONE", "None") else str(row[key]).strip() for key in row if key != "kind"}
    return ForeignClaim(
        **{{"chunk": "passage", "since": "start_date", "until": "end_date"}.get(key, key): value for key, value in values.items()}
    )


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


DOCUMENTS_FILE, CHUNKS_FILE = "kv_store_full_docs.json", "kv_store_text_chunks.json"
GRAPH_FILE, REPORTS_FILE = "graph_chunk_entity_relation.graphml", "kv_store_community_reports.json"
FIELD_SEPARATOR = "<SEP>"  # between several values in one text
LIGHTRAG_ENTITY_TYPES = {"geo": "place", "location": "place", "unknown": "thing", "": "thing"}
_XML = "{http://graphml.graphdrawing.org/xmlns}"
LightRagRow = dict[str, Any]


def read_lightrag(folder: Path) -> ForeignIndex:
    """Read the default stores of a LightRAG folder; it has no communities. Raises UsageError that names the unexpected value."""
    return _read_working_dir(folder, "LightRAG", {})


def read_nano_graphrag(folder: Path) -> ForeignIndex:
    """Read the default stores of a nano-graphrag folder, communities and reports included. Raises UsageError."""
    return _read_working_dir(
        folder, "nano-graphrag", _read_json_store(folder, REPORTS_FILE, "nano-graphrag") if (folder / REPORTS_FILE).is_file() else {}
    )


def _read_working_dir(folder: Path, program: str, reports: Mapping[str, LightRagRow]) -> ForeignIndex:
    with unexpected_values_refused(folder, program):
        return _read_all(folder, program, reports)


def _read_all(folder: Path, program: str, reports: Mapping[str, LightRagRow]) -> ForeignIndex:
    documents, chunks = (
        _read_json_store(folder, DOCUMENTS_FILE, program, "content"),
        _read_json_store(folder, CHUNKS_FILE, program, "content", "full_doc_id"),
    )
    nodes, edges = _graph(folder / GRAPH_FILE, program)
    digest = sha256()
    for name in (DOCUMENTS_FILE, CHUNKS_FILE, GRAPH_FILE, *[REPORTS_FILE] * bool(reports)):
        digest.update((folder / name).read_bytes())
    titles = {row["full_doc_id"]: row.get("file_path") for row in chunks.values()}
    ordered = sorted(chunks.items(), key=lambda item: (str(item[1]["full_doc_id"]), real_number(item[1].get("chunk_order_index", 0))))
    skipped: dict[str, str] = {}
    return ForeignIndex(
        program,
        digest.hexdigest()[:20],
        tuple(
            ForeignDocument(key, _title(row.get("file_path") or titles.get(key), key), str(row["content"]))
            for key, row in documents.items()
        ),
        tuple(ForeignChunk(key, str(row["full_doc_id"]), str(row["content"])) for key, row in ordered),
        tuple(_lightrag_entity(name, row) for name, row in nodes.items()),
        tuple(_lightrag_relationship(source, target, row) for source, target, row in edges),
        groups=tuple(_nano_communities(reports, skipped)),
        skipped=skipped,
    )


def _read_json_store(folder: Path, name: str, program: str, *needed: str) -> dict[str, LightRagRow]:
    """Read a store: key → row, each of which has the `needed` values."""
    path = folder / name
    if not path.is_file():
        content = ", ".join(sorted(p.name for p in folder.iterdir())[:12]) if folder.is_dir() else "no such folder"
        raise UsageError(
            f"{folder} is not a working folder of {program}: expected {name}, found {content or 'nothing'}.",
            "Give its working folder, with the default stores (JSON and NetworkX).",
        )
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
        for key, row in rows.items():
            if missing := [n for n in needed if n not in row]:
                raise UsageError(
                    f"{path} is not as {program} writes it: {key} has {', '.join(row)}, but no {' and no '.join(missing)}.",
                    "Give a folder of its current version.",
                )
    except (ValueError, AttributeError, TypeError, RecursionError) as error:
        raise UsageError(f"{path} cannot be read: {error}.", "Copy it again, or run that program again.") from error
    return dict(rows)


def _graph(path: Path, program: str) -> tuple[dict[str, LightRagRow], list[tuple[str, str, LightRagRow]]]:
    """The entities by name and the relationships (source, target, values) of a GraphML file. Raises UsageError."""
    from defusedxml import DefusedXmlException
    from defusedxml.ElementTree import ParseError, parse

    try:
        top = parse(path).getroot()
    except FileNotFoundError as error:
        raise UsageError(
            f"{path.parent} is not a working folder of {program}: {path.name} is missing.", "Run that program again."
        ) from error
    except (ParseError, DefusedXmlException, OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {error}.", "Copy it again, or run that program again.") from error
    names = {str(key.get("id")): str(key.get("attr.name")) for key in top.iter(f"{_XML}key")}

    def values(element: Any) -> LightRagRow:
        return {names.get(str(data.get("key")), ""): data.text or "" for data in element.iter(f"{_XML}data")}

    nodes = {str(node.get("id")): values(node) for node in top.iter(f"{_XML}node")}
    return nodes, [(str(e.get("source")), str(e.get("target")), values(e)) for e in top.iter(f"{_XML}edge")]


def _title(path: Any, key: str) -> str:
    return str(path) if path and path != "unknown_source" else f"{key}.txt"


def _plain(name: str) -> str:
    """A name without the quotation marks and entities that models add."""
    return html.unescape(name).strip().strip('"').strip()


def _lightrag_entity(name: str, row: LightRagRow) -> ForeignEntity:
    kind = _plain(row.get("entity_type", "")).lower()
    return ForeignEntity(_plain(name), LIGHTRAG_ENTITY_TYPES.get(kind, kind), _described(row), _source_chunks(row))


def _lightrag_relationship(source: str, target: str, row: LightRagRow) -> ForeignRelationship:
    """Convert a relationship. Its weight is the sum of the model's ratings over the chunks that state it, or their number."""
    chunks = _source_chunks(row)
    return ForeignRelationship(_plain(source), _plain(target), _described(row), strength_of(row.get("weight") or 1, len(chunks)), chunks)


def _described(row: LightRagRow) -> str:
    return " ".join(dict.fromkeys(_plain(part) for part in row.get("description", "").split(FIELD_SEPARATOR) if part.strip()))


def _source_chunks(row: LightRagRow) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, row.get("source_id", "").split(FIELD_SEPARATOR))))


def _nano_communities(reports: Mapping[str, LightRagRow], skipped: dict[str, str]) -> Iterator[ForeignCommunity]:
    """The communities with their reports; a community whose report failed, which has no title, is left out."""
    parents = {child: key for key, row in reports.items() for child in _texts(row.get("sub_communities"))}
    levels = {}
    for key, row in reports.items():
        try:
            levels[key] = whole_number(row.get("level"), "its level", MAX_LEVEL)
        except UnexpectedValue as error:
            skipped[f"community {key}"] = f"{error}: its entities are clustered again"
    faults = tree_faults({key: parents.get(key) for key in levels}, levels)
    skipped |= {f"community {key}": f"{reason}: its entities are clustered again" for key, reason in faults.items()}
    retained: set[str | None] = {None}
    for key in sorted((k for k in levels if k not in faults), key=levels.__getitem__):
        row, content = reports[key], reports[key].get("report_json")
        if parents.get(key) not in retained or not isinstance(content, dict) or not content.get("title"):
            continue
        retained.add(key)
        yield ForeignCommunity(
            key,
            levels[key],
            parents.get(key),
            tuple(map(_plain, _texts(row.get("nodes")))),
            str(content["title"]),
            str(content.get("summary", "")),
            real_number(content.get("rating")),
            str(content.get("rating_explanation", "")),
            tuple(map(_to_insight, content["findings"] if isinstance(content.get("findings"), list) else ())),
        )


def _to_insight(finding: Any) -> ForeignFinding:
    if isinstance(finding, dict):
        return ForeignFinding(str(finding.get("summary", "")), str(finding.get("explanation", "")))
    return ForeignFinding("", str(finding))


def _texts(value: Any) -> list[str]:
    """The strings of a list; empty for any other value."""
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []
