"""Index content as JSON-ready values for the command line, the web page and MCP; the graph view's binary block.

Items are identified by id, and paths are as stored; whoever displays them formats paths.

The graph view's block is little-endian: twelve 32-bit numbers (mark, version, numbers of nodes, relationships, communities and community
edges, four start offsets of these parts and the end of the last, length of the JSON), the parts column by column, and JSON with the ETag
and the entity types. Nodes are ordered by degree, relationships by weight, parents before their children; all are referred to by number.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sqlite_utils import Database

from localrag.analysis.tables import Cell, ResultTable
from localrag.errors import LocalragError
from localrag.loaders.page_images import IMAGE_SUFFIXES
from localrag.loaders.reader import stored_kind
from localrag.records import Answer, Chunk, Citation, Report, content_id, file_path, to_row
from localrag.store import browse, documents, graph, layout
from localrag.store.query_terms import parse_query
from localrag.text.markdown import NeutralMarkdown, NeutralStream, neutralize
from localrag.text.sentences import cached_sentences, collapse_whitespace
from localrag.themes import Theme

if TYPE_CHECKING:
    from collections.abc import Sequence

    from localrag.project import OpenIndex, Project


JsonRow = dict[str, Any]
MAX_ROWS = 100  # mentions or relationships of an entity
MAX_TEXT_WINDOW = 65_536  # characters of a document
CONTEXT_CHARS = 400  # characters shown on either side of a citation


class NotFound(LocalragError):
    """The index contains nothing with this id or name."""


def serialize_citation(c: Citation) -> JsonRow:
    """A citation."""
    return {k: getattr(c, k) for k in ("n", "path", "part", "start", "end", "quote")} | {"headings": list(c.headings)}


def citations(answer: Answer) -> list[JsonRow]:
    """The citations of an answer, each with the best state of the sentences that have it; only `supported` is a proof."""
    return [serialize_citation(c) | {"state": answer.state_of(c.n)} for c in answer.citations]


def sentences(answer: Answer, neutral: NeutralMarkdown) -> list[JsonRow]:
    """The sentences of a neutralized answer: text (neutral also on its own), position in it, state and citations."""
    spans = [(neutral.offset(s.start), neutral.offset(s.end)) for s in answer.sentences]
    return [
        {"text": neutralize(neutral.text[start:end]).text, "start": start, "end": end, "state": s.state, "citations": list(s.citations)}
        for s, (start, end) in zip(answer.sentences, spans, strict=True)
    ]


def answer_passages(answer: Answer) -> list[JsonRow]:
    """The passages of an extractive answer as they stand in the documents."""
    return [asdict(p) | {"headings": list(p.headings), "marked": p.marked and list(p.marked)} for p in answer.passages]


def serialize_answer(answer: Answer, number: int = 0, at: str = "") -> JsonRow:
    """An answer with its cost, its Markdown neutralized; `number` and `at` (time) for a stored one."""
    names = {"llm_calls": "calls", "filter_text": "filter"}
    shown = (f.name for f in fields(answer) if f.name not in ("citations", "id", "citation_marks", "sentences", "passages"))
    values = {names.get(name, name): getattr(answer, name) for name in shown}
    confidence = answer.confidence and round(answer.confidence, 3)
    neutral = neutralize(answer.answer)
    cited = {
        "answer": neutral.text,
        "citations": citations(answer),
        "segments": split_at_citations(neutral.text, [(neutral.offset(at), n) for at, n in answer.citation_marks]),
        "sentences": sentences(answer, neutral),
        "passages": answer_passages(answer),
    }
    return {"id": number or answer.id, "at": at} | values | {"confidence": confidence} | cited


def serialize_table(table: ResultTable) -> JsonRow:
    """A table: its columns, its rows of cells, and the citations of all cells by number."""
    return {
        "kind": table.kind,
        "title": table.title,
        "note": table.note,
        "figures": dict(table.figures),
        "columns": [asdict(column) for column in table.columns],
        "rows": [{"key": row.key, "cells": [_cell(cell) for cell in row.cells]} for row in table.rows],
        "citations": [serialize_citation(c) for c in table.citations],
    }


def _cell(cell: Cell) -> JsonRow:
    confidence = cell.confidence and round(cell.confidence, 3)
    return {"text": cell.text, "value": cell.value, "state": cell.state.value, "confidence": confidence, "note": cell.note} | {
        "citations": [c.n for c in cell.citations]
    }


def split_at_citations(text: str, marks: "Sequence[tuple[int, int]]") -> list[JsonRow]:
    """Split a text at its citation marks into `{"text"}` and `{"n"}` segments, in order."""
    segments: list[JsonRow] = []
    position = 0
    for offset, n in marks:
        segments += [{"text": text[position:offset]}] * (offset > position) + [{"n": n}]
        position = offset + len(f"[{n}]")
    return [*segments, {"text": text[position:]}] if position < len(text) else segments


def serialize_part(part: str, stream: NeutralStream) -> JsonRow:
    """A part of an answer that is being written, neutralized, and split at its citation marks."""
    neutral = stream.write(part)
    return {"text": neutral.text, "segments": split_at_citations(neutral.text, neutral.citation_marks)}


def locate_citation(c: Citation, db: Database) -> JsonRow:
    """The present location of a citation: exact, moved within its document, changed, or gone with its document."""
    document = browse.document_id_at(db, c.path)
    start, state = c.start, "gone"
    if document is not None:
        state = "exact"
        if browse.text_window(db, document, c.start, c.end) != c.quote:
            position = browse.find_in_document(db, document, c.quote)
            start, state = (c.start, "changed") if position is None else (position, "moved")
    end = start + len(c.quote)
    passage = {"before": "", "quote": c.quote, "after": ""}
    if document is not None and state in ("exact", "moved"):
        passage |= {
            "before": browse.text_window(db, document, max(0, start - CONTEXT_CHARS), start),
            "after": browse.text_window(db, document, end, end + CONTEXT_CHARS),
        }
    return {"citation": serialize_citation(c), "document": document, "start": start, "end": end, "state": state, "passage": passage}


def serialize_document(db: Database, document_id: str, start: int | None, end: int | None, mark: tuple[int, int] | None) -> JsonRow:
    """A window of a document, split where a mark begins and ends. Raises NotFound."""
    document = browse.document_summary(db, document_id)
    if document is None:
        raise NotFound(f"There is no document {document_id}.", "List them: localrag files")
    length = document["length"]
    if mark is not None:
        mark = (max(0, min(mark[0], length)), max(0, min(mark[1], length, mark[0] + MAX_TEXT_WINDOW // 2)))
    middle = (mark[0] + mark[1]) // 2 if mark else 0
    first = max(0, min(length, start if start is not None else middle - MAX_TEXT_WINDOW // 2))
    last = max(first, min(length, first + MAX_TEXT_WINDOW, end if end is not None else first + MAX_TEXT_WINDOW))
    text = browse.text_window(db, document_id, first, last)
    file = file_path(document["path"])
    return {
        "id": document_id,
        "path": document["path"],
        "title": document["title"],
        "file": file,
        "kind": _page_kind(document),
        "metadata": document["metadata"],
        "length": length,
        "from": first,
        "to": last,
        "parts": [{"label": label, "start": a, "end": b} for label, a, b, *_ in document["parts"]],
        "segments": _segments(text, first, mark),
        "entities": [{k: r[k] for k in ("id", "name", "type")} for r in (browse.entities_in_span(db, document_id, *mark) if mark else [])],
    }


def _page_kind(document: JsonRow) -> str:
    """What the pages of a document are shown as; a document within a file has none."""
    path = document["path"]
    suffix = stored_kind(document["content_hash"], path) if path == file_path(path) else ""
    return "pdf" if suffix == ".pdf" else "image" if suffix in IMAGE_SUFFIXES else "text"


def _segments(text: str, first: int, mark: tuple[int, int] | None) -> list[JsonRow]:
    if mark is None:
        return [{"text": text, "mark": False}]
    a, b = (max(0, min(len(text), position - first)) for position in mark)
    segments = [(text[:a], False), (text[a:b], True), (text[b:], False)]
    return [{"text": t, "mark": m} for t, m in segments if t]


def serialize_entity(entity_id: str, db: Database, most: int | None = MAX_ROWS) -> JsonRow:
    """An entity: names, description, relationships, claims, mentions and communities. Raises NotFound."""
    entities = graph.entities(db, [entity_id])
    if not entities:
        raise NotFound(f"There is no entity {entity_id}.", "Look for it by a name.")
    entity = entities[0]
    return {
        "id": entity.id,
        "name": entity.name,
        "type": entity.type,
        "names": graph.aliases_of(db, [entity_id]).get(entity_id, []),
        "description": entity.description,
        "degree": entity.degree,
        **browse.count_mentions_and_relationships(db, entity_id),
        "relationships": browse.neighbours(db, entity_id, most),
        "claims": [to_row(c, {"start_date": "since", "end_date": "until"}) for c in graph.claims(db, [entity_id])],
        "mentions": browse.mentions_of(db, entity_id, -1 if most is None else most),
        "communities": [
            {"id": r["id"], "level": r["level"], "number": community_number(r), "title": r["title"]}
            for r in browse.communities_of(db, entity_id)
        ],
    }


def serialize_entities_named(name: str, db: Database) -> list[JsonRow]:
    """The entities with a name, with all their mentions and relationships. Raises NotFound with similar names."""
    from rapidfuzz import process

    ids = graph.entity_ids_by_name(db, [name]).get(name.lower(), ())
    if not ids:
        similar = [alias for alias, *_ in process.extract(name, list(graph.aliases(db)), limit=3, score_cutoff=60)]
        raise NotFound(f"No entity is called {name!r}.", f"Near: {', '.join(similar)}" if similar else f"Search: localrag search {name!r}")
    return [serialize_entity(key, db, most=None) for key in ids]


def serialize_relationship(relationship_id: str, db: Database) -> JsonRow:
    """A relationship with its evidence. Raises NotFound."""
    row = browse.find_relationship(db, relationship_id)
    if row is None:
        raise NotFound(f"There is no relationship {relationship_id}.")
    entities = {e.id: {"id": e.id, "name": e.name, "type": e.type} for e in graph.entities(db, [row["source_id"], row["target_id"]])}
    return {
        "id": row["id"],
        "source": entities[row["source_id"]],
        "target": entities[row["target_id"]],
        **{k: row[k] for k in ("weight", "description", "descriptions")},
        "evidence": browse.evidence_of(db, relationship_id, MAX_ROWS),
    }


def community_number(row: JsonRow) -> str:
    """A community's number for display: level and ordinal, `1.4`."""
    return f"{row['level']}.{row['ordinal']}"


def serialize_themes(themes: Sequence[Theme], db: Database, above: str = "") -> list[JsonRow]:
    """Themes with their numbers (`2.1`), breadth, sentences, the paths of their documents, and the themes they divide into."""
    paths = documents.document_paths(db)
    return [
        {
            "number": f"{above}{n}",
            "label": theme.label,
            "phrases": list(theme.phrases),
            "documents": len(theme.documents),
            "of_documents": len(paths),
            "passages": len(theme.passages),
            "paths": sorted(paths[d] for d in theme.documents if d in paths),
            "quotes": browse.locate_quotes(db, theme.quotes),
            "parts": serialize_themes(theme.parts, db, f"{above}{n}."),
        }
        for n, theme in enumerate(themes, 1)
    ]


def serialize_communities(db: Database, level: int | None = None) -> list[JsonRow]:
    """The communities of a level, or all, the coarsest first, with title and coverage of their reports."""
    rows = [r for r in browse.community_tree(db) if level is None or r["level"] == level]
    covered = graph.coverage_of(db, [r["id"] for r in rows if r["has_report"]])
    return [
        {
            "id": r["id"],
            "number": community_number(r),
            "level": r["level"],
            "title": r["title"],
            "coverage": round(covered.get(r["id"], 0.0), 4) if r["has_report"] else None,
            "entities": r["entities"],
            "parent": r["parent"],
        }
        for r in rows
    ]


NO_REPORT = "No report: too few passages speak of this community."


def serialize_report(community: str, db: Database) -> JsonRow:
    """The report of a community, by its id or number (`1.4`); without one, its entities. Raises NotFound.

    Of one that a level repeats unchanged it is that of the first.
    """
    rows = {r["id"]: r for r in browse.community_tree(db)}
    row = rows.get(community) or next((r for r in rows.values() if community_number(r) == community), None)
    if row is None:
        raise NotFound(f"There is no community {community}.", "See all: localrag tree")
    while row["parent"] and rows[row["parent"]]["entities"] == row["entities"]:
        row = rows[row["parent"]]
    key = row["id"]
    parts = [r for r in rows.values() if r["parent"] == key]
    while len(parts) == 1:
        parts = [r for r in rows.values() if r["parent"] == parts[0]["id"]]
    report = next(iter(graph.reports_of(db, [key])), Report(key, "", row["title"], NO_REPORT, None, "", ()))
    parent = rows.get(row["parent"] or "")
    members = graph.entities(db, graph.entities_of_communities(db, [key]).get(key, []))
    return {
        "id": key,
        "number": community_number(row),
        "level": row["level"],
        "title": report.title,
        "summary": report.summary,
        "findings": [
            {"summary": f.summary, "explanation": f.explanation, "quotes": browse.locate_quotes(db, f.quotes)} for f in report.findings
        ],
        "markdown": report.markdown,
        "coverage": round(graph.coverage_of(db, [key]).get(key, 0.0), 4),
        "rating": report.rating,
        "rating_explanation": report.rating_explanation,
        "entities": [{"id": e.id, "name": e.name, "type": e.type} for e in sorted(members, key=lambda e: (-e.degree, e.name))],
        "parent": {"id": parent["id"], "number": community_number(parent), "title": parent["title"]} if parent else None,
        "children": [{"id": r["id"], "number": community_number(r), "title": r["title"]} for r in parts],
    }


def serialize_passages(query: str, hits: "Sequence[tuple[Chunk, float]]", project: "Project") -> list[JsonRow]:
    """Found chunks with their location, headings, score and the sentence nearest to the query, without what that excludes."""
    from localrag.query.retriever import word_share

    rows = []
    query = parse_query(query).text
    vector = project.embedder.embed([query])[0]
    locations = browse.chunk_locations(project.db, [chunk.id for chunk, _ in hits])
    for chunk, score in hits:
        spans = cached_sentences(chunk.text) or ((0, len(chunk.text)),)
        texts = [collapse_whitespace(chunk.text[a:b]) for a, b in spans]
        similarity = project.embedder.embed(texts) @ vector + np.array([word_share(query, t) for t in texts], np.float32)
        rows.append(
            {**locations[chunk.id], "start": chunk.start, "end": chunk.end, "headings": list(chunk.headings)}
            | {"score": round(score, 3), "snippet": texts[int(np.argmax(similarity))], "text": chunk.text}
        )
    return rows


def shortest_path(first: str, last: str, opened: "OpenIndex") -> JsonRow:
    """The entities and relationships on a shortest path between two entities. Raises NotFound if there is none."""
    from scipy.sparse import csgraph

    from localrag.store.entity_network import load_entity_network

    network = load_entity_network(opened.db, opened.folder)
    start, end = network.entities.number(first), network.entities.number(last)
    if start is None or end is None:
        raise NotFound(f"There is no entity {first if start is None else last}.")
    _, predecessors = csgraph.breadth_first_order(network.entity_to_entity, start, directed=False)
    node, path = end, [last]
    while node != start:
        node = int(predecessors[node])
        if node < 0:
            raise NotFound("No relationships lead from one of these entities to the other.")
        path.append(network.entities[node])
    path.reverse()
    names = {e.id: {"id": e.id, "name": e.name, "type": e.type} for e in graph.entities(opened.db, path)}
    joined = browse.relationships_between(opened.db, list(pairwise(path)))
    return {"entities": [names[i] for i in path], "relationships": joined}


FORMAT_MARK, FORMAT_VERSION = 0x3147524C, 1  # "LRG1"
HEADER_WORDS = 12  # 32-bit numbers
NO_ID = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class GraphView:
    """The graph view of one generation: its ETag, the binary block, and the meaning of its numbers.

    `communities`: those drawn. `community_numbers`: community id → number of the drawn community; one that is identical to its parent
    has the parent's number.
    """

    layout_state: str
    etag: str
    data: bytes
    entities: tuple[str, ...]
    communities: tuple[str, ...]
    community_numbers: dict[str, int]
    entity_numbers: dict[str, int]


def build_graph_view(db: Database, state: str) -> GraphView:
    """Build the view of the published graph; entities and communities without a position are left out."""
    nodes = layout.positioned_entities(db)
    numbers = {row[0]: n for n, row in enumerate(nodes)}
    drawn_communities, community_numbers, deepest, sizes = _communities(db, numbers)
    circles = np.array([row[3:6] for row in drawn_communities], "<f4").reshape(-1, 3)
    tree = np.array([(row[1], community_numbers.get(row[2] or "", NO_ID)) for row in drawn_communities], "<u4").reshape(-1, 2)
    types = sorted({row[1] for row in nodes})
    kind = {name: n for n, name in enumerate(types)}
    positions = np.array([row[2:5] for row in nodes], "<f4").reshape(-1, 3)
    type_numbers = np.array([kind[row[1]] for row in nodes], "<u4")
    rows = [(numbers[a], numbers[b], w) for a, b, w in layout.relationship_edges(db) if a in numbers and b in numbers]
    edges = _community_edges(db, community_numbers)
    tag = content_id("picture", FORMAT_VERSION, state)
    parts = [
        _block(*positions.T, deepest, type_numbers),
        _block(*_ends(rows)),
        _block(*circles.T, *tree.T, sizes),
        _block(*_ends(edges)),
    ]
    metadata = json.dumps({"graph": tag, "types": types}, ensure_ascii=False).encode()
    offsets = np.cumsum([HEADER_WORDS * 4, *map(len, parts)])
    header = np.array(
        [FORMAT_MARK, FORMAT_VERSION, len(nodes), len(rows), len(drawn_communities), len(edges), *offsets, len(metadata)], "<u4"
    )
    data = b"".join([header.tobytes(), *parts, metadata])
    return GraphView(state, tag, data, tuple(numbers), tuple(row[0] for row in drawn_communities), community_numbers, numbers)


def _communities(db: Database, numbers: dict[str, int]) -> tuple[list[Any], dict[str, int], NDArray[Any], NDArray[Any]]:
    """The communities to draw; every community's number among them; each node's deepest one; the numbers of entities."""
    communities, sizes = layout.positioned_communities(db), layout.community_sizes(db)
    listed: list[Any] = []
    drawn: dict[str, int] = {}
    for row in communities:
        parent = row[2] or ""
        if parent in drawn and sizes[parent] == sizes[row[0]]:
            drawn[row[0]] = drawn[parent]
        else:
            drawn[row[0]] = len(listed)
            listed.append(row)
    deepest = np.full(len(numbers), NO_ID, "<u4")
    for entity, community in layout.deepest_communities(db):
        if entity in numbers and community in drawn:
            deepest[numbers[entity]] = drawn[community]
    return listed, drawn, deepest, np.array([sizes.get(row[0], 0) for row in listed], "<u4")


def _community_edges(db: Database, drawn: dict[str, int]) -> list[tuple[int, int, float]]:
    weights: dict[tuple[int, int], float] = {}
    for edge in layout.load_community_edges(db):
        a, b = sorted((drawn[edge.a], drawn[edge.b]))
        weights[a, b] = max(edge.weight, weights.get((a, b), 0.0))
    return sorted(((a, b, w) for (a, b), w in weights.items()), key=lambda row: -row[2])


def _ends(edges: list[tuple[int, int, float]]) -> tuple[NDArray[Any], NDArray[Any]]:
    return np.array([row[:2] for row in edges], "<u4").reshape(-1), np.array([row[2] for row in edges], "<f4")


def _block(*columns: NDArray[Any]) -> bytes:
    return b"".join(np.ascontiguousarray(column).tobytes() for column in columns)
