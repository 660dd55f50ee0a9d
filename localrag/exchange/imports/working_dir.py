"""The working folders of LightRAG and nano-graphrag (JSON stores and a GraphML file beside them) → what they say."""

import html
import json
from collections.abc import Iterator, Mapping
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
    UnexpectedValue,
    real_number,
    strength_of,
    tree_faults,
    unexpected_values_refused,
    whole_number,
)

DOCUMENTS, CHUNKS = "kv_store_full_docs.json", "kv_store_text_chunks.json"
GRAPH, REPORTS = "graph_chunk_entity_relation.graphml", "kv_store_community_reports.json"
BETWEEN = "<SEP>"  # several values in one text
TYPES = {"geo": "place", "location": "place", "unknown": "thing", "": "thing"}
_XML = "{http://graphml.graphdrawing.org/xmlns}"
Row = dict[str, Any]


def read_lightrag(folder: Path) -> Foreign:
    """All that a folder of LightRAG's default stores says; it has no communities. Raises UsageError naming what is not as expected."""
    return _read(folder, "LightRAG", {})


def read_nano(folder: Path) -> Foreign:
    """All that a folder of nano-graphrag's default stores says, communities with their reports. Raises UsageError."""
    return _read(folder, "nano-graphrag", _store(folder, REPORTS, "nano-graphrag") if (folder / REPORTS).is_file() else {})


def _read(folder: Path, program: str, reports: Mapping[str, Row]) -> Foreign:
    with unexpected_values_refused(folder, program):
        return _read_all(folder, program, reports)


def _read_all(folder: Path, program: str, reports: Mapping[str, Row]) -> Foreign:
    documents, chunks = _store(folder, DOCUMENTS, program, "content"), _store(folder, CHUNKS, program, "content", "full_doc_id")
    nodes, edges = _graph(folder / GRAPH, program)
    digest = sha256()
    for name in (DOCUMENTS, CHUNKS, GRAPH, *[REPORTS] * bool(reports)):
        digest.update((folder / name).read_bytes())
    titles = {row["full_doc_id"]: row.get("file_path") for row in chunks.values()}
    ordered = sorted(chunks.items(), key=lambda item: (str(item[1]["full_doc_id"]), real_number(item[1].get("chunk_order_index", 0))))
    skipped: dict[str, str] = {}
    return Foreign(
        program,
        digest.hexdigest()[:20],
        tuple(Source(key, _title(row.get("file_path") or titles.get(key), key), str(row["content"])) for key, row in documents.items()),
        tuple(Passage(key, str(row["full_doc_id"]), str(row["content"])) for key, row in ordered),
        tuple(_node(name, row) for name, row in nodes.items()),
        tuple(_edge(source, target, row) for source, target, row in edges),
        groups=tuple(_groups(reports, skipped)),
        skipped=skipped,
    )


def _store(folder: Path, name: str, program: str, *needed: str) -> dict[str, Row]:
    """A store: key → row, each of which has the `needed` values."""
    path = folder / name
    if not path.is_file():
        found = ", ".join(sorted(p.name for p in folder.iterdir())[:12]) if folder.is_dir() else "no such folder"
        raise UsageError(
            f"{folder} is no working folder of {program}: expected {name}, found {found or 'nothing'}.",
            "Give the folder that it was told to work in, with its default stores (JSON and NetworkX).",
        )
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
        for key, row in rows.items():
            if missing := [n for n in needed if n not in row]:
                raise UsageError(
                    f"{path} is not as {program} writes it: {key} has {', '.join(row)}, but no {' and no '.join(missing)}.",
                    "Give a folder of its present version.",
                )
    except (ValueError, AttributeError, TypeError, RecursionError) as error:
        raise UsageError(f"{path} cannot be read: {error}.", "Copy it again, or run that program again.") from error
    return dict(rows)


def _graph(path: Path, program: str) -> tuple[dict[str, Row], list[tuple[str, str, Row]]]:
    """The entities by name and the relationships (source, target, values) of a GraphML file. Raises UsageError."""
    from defusedxml import DefusedXmlException
    from defusedxml.ElementTree import ParseError, parse

    try:
        top = parse(path).getroot()
    except FileNotFoundError as error:
        raise UsageError(f"{path.parent} is no working folder of {program}: {path.name} is missing.", "Run that program again.") from error
    except (ParseError, DefusedXmlException, OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {error}.", "Copy it again, or run that program again.") from error
    names = {str(key.get("id")): str(key.get("attr.name")) for key in top.iter(f"{_XML}key")}

    def values(element: Any) -> Row:
        return {names.get(str(data.get("key")), ""): data.text or "" for data in element.iter(f"{_XML}data")}

    nodes = {str(node.get("id")): values(node) for node in top.iter(f"{_XML}node")}
    return nodes, [(str(e.get("source")), str(e.get("target")), values(e)) for e in top.iter(f"{_XML}edge")]


def _title(path: Any, key: str) -> str:
    return str(path) if path and path != "unknown_source" else f"{key}.txt"


def _plain(name: str) -> str:
    """A name without the marks and codes that models put around it."""
    return html.unescape(name).strip().strip('"').strip()


def _node(name: str, row: Row) -> Node:
    kind = _plain(row.get("entity_type", "")).lower()
    return Node(_plain(name), TYPES.get(kind, kind), _described(row), _chunks_of(row))


def _edge(source: str, target: str, row: Row) -> Edge:
    """Its weight is the sum of the model's ratings over the chunks that state it, or their number."""
    chunks = _chunks_of(row)
    return Edge(_plain(source), _plain(target), _described(row), strength_of(row.get("weight") or 1, len(chunks)), chunks)


def _described(row: Row) -> str:
    return " ".join(dict.fromkeys(_plain(part) for part in row.get("description", "").split(BETWEEN) if part.strip()))


def _chunks_of(row: Row) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, row.get("source_id", "").split(BETWEEN))))


def _groups(reports: Mapping[str, Row], skipped: dict[str, str]) -> Iterator[Group]:
    """The communities with their reports; a report that the model failed to write has no title, and its community is left out."""
    parents = {child: key for key, row in reports.items() for child in _texts(row.get("sub_communities"))}
    levels = {}
    for key, row in reports.items():
        try:
            levels[key] = whole_number(row.get("level"), "its level", MAX_LEVEL)
        except UnexpectedValue as error:
            skipped[f"community {key}"] = f"{error}: its entities are clustered anew"
    faults = tree_faults({key: parents.get(key) for key in levels}, levels)
    skipped |= {f"community {key}": f"{why}: its entities are clustered anew" for key, why in faults.items()}
    kept: set[str | None] = {None}
    for key in sorted((k for k in levels if k not in faults), key=levels.__getitem__):
        row, content = reports[key], reports[key].get("report_json")
        if parents.get(key) not in kept or not isinstance(content, dict) or not content.get("title"):
            continue
        kept.add(key)
        yield Group(
            key,
            levels[key],
            parents.get(key),
            tuple(map(_plain, _texts(row.get("nodes")))),
            str(content["title"]),
            str(content.get("summary", "")),
            real_number(content.get("rating")),
            str(content.get("rating_explanation", "")),
            tuple(map(_insight, content["findings"] if isinstance(content.get("findings"), list) else ())),
        )


def _insight(finding: Any) -> Insight:
    if isinstance(finding, dict):
        return Insight(str(finding.get("summary", "")), str(finding.get("explanation", "")))
    return Insight("", str(finding))


def _texts(value: Any) -> list[str]:
    """The strings of a list; empty for any other value."""
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []
