"""Import of an index of Microsoft GraphRAG: its content is located in the documents' text; what does not occur there is skipped."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from localrag.engine.tokenizer import Tokenizer
from localrag.errors import UsageError
from localrag.exchange.foreign import ENTITY_TYPES, GRAPHRAG, GraphRagOutput, GraphRagRow, choose_communities, strength_of
from localrag.exchange.pack import is_safe_member_name
from localrag.indexing.documents import CountTokens, split_document
from localrag.indexing.extraction.names import find_name_spans
from localrag.indexing.graph.entity_resolution import name_key
from localrag.indexing.pipeline import publish_imported
from localrag.indexing.progress import RunProgress
from localrag.loaders.discover import relative_path
from localrag.project import Project
from localrag.records import (
    IMPORTED_MARK,
    Chunk,
    Community,
    Document,
    ExtractedEntity,
    ExtractedRelationship,
    Extraction,
    Finding,
    Graph,
    Quote,
    Report,
    content_id,
)
from localrag.store import chunks as chunks_store
from localrag.store import documents as documents_store
from localrag.store import runs
from localrag.text.outline import Outline
from localrag.text.quotes import entity_quotes
from localrag.text.sentences import collapse_whitespace

_ENDS = " \t\r\n\ufffd"  # of a chunk that was cut between the bytes of a character


@dataclass(slots=True)
class LocatedIndex:
    """Documents with their chunks, the extractions located in these, and the skipped items (item → reason)."""

    documents: list[tuple[Document, list[Chunk]]] = field(default_factory=list)
    extractions: list[Extraction] = field(default_factory=list)
    forms: dict[str, set[str]] = field(default_factory=dict)  # entity name → its spellings in the text
    skipped: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class _ChunkMatches:
    """The entities and relationships that occur in one chunk's text. `names`: normalised name → its first spelling there."""

    chunk: Chunk
    entities: dict[str, ExtractedEntity] = field(default_factory=dict)
    relationships: dict[tuple[str, str], ExtractedRelationship] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)


def locate_in_documents(
    tables: Mapping[str, Sequence[GraphRagRow]], paths: Mapping[str, str], mark: str, counts: CountTokens, *, size: int, overlap: int
) -> LocatedIndex:
    """Locate everything in the documents, whose `paths` are by key. Text outside all chunks gets chunks of `size` tokens."""
    located = LocatedIndex()
    matches: dict[str, _ChunkMatches] = {}
    of_document: defaultdict[str, list[GraphRagRow]] = defaultdict(list)
    for row in tables["chunks"]:
        of_document[row["document"]].append(row)
    for key in of_document.keys() - paths.keys():
        located.skipped |= {f"chunk {row['id'][:12]}": "its document is not in the folder" for row in of_document[key]}
    for row in tables["documents"]:
        path, title = paths[row["id"]], row["title"] or row["id"]
        document = Document(content_id(path, content_id(row["text"])), path, title, row["text"], mark)
        places = _chunk_places(document, of_document[row["id"]], located.skipped)
        chunks = _chunks(document, places, counts, size, overlap)
        located.documents.append((document, chunks))
        by_place = {(c.start, c.end): c for c in chunks}
        matches |= {key: _ChunkMatches(by_place[place]) for key, place in places.items()}
    one = {f.chunk.id: f for f in matches.values()}  # two keys with one span are one chunk
    matches = {key: one[f.chunk.id] for key, f in matches.items()}
    for row in tables["entities"]:
        _place_entity(row, matches, located)
    for row in tables["relationships"]:
        _place_relationship(row, matches, located)
    located.extractions = [Extraction(f.chunk.id, tuple(f.entities.values()), tuple(f.relationships.values())) for f in one.values()]
    return located


def _chunk_places(document: Document, rows: Sequence[GraphRagRow], skipped: dict[str, str]) -> dict[str, tuple[int, int]]:
    places: dict[str, tuple[int, int]] = {}
    at = 0
    for row in rows:
        place = _place(document.text, row["text"], at)
        if place is None:
            skipped[f"chunk {row['id'][:12]}"] = f"its text does not occur in {document.title}"
        else:
            places[row["id"]] = place
            at = place[0]
    return places


def _place(text: str, wanted: str, at: int) -> tuple[int, int] | None:
    """The span of a chunk, preferably after `at`, without a character cut at its ends."""
    part = wanted.strip(_ENDS)
    start = next((found for begin in (at, 0) if (found := text.find(part, begin)) >= 0), -1)
    return (start, start + len(part)) if part and start >= 0 else None


def _chunks(document: Document, places: Mapping[str, tuple[int, int]], counts: CountTokens, size: int, overlap: int) -> list[Chunk]:
    spans = sorted(set(places.values()))
    new_spans: list[tuple[int, int]] = []
    at = 0
    for start, end in [*spans, (len(document.text), len(document.text))]:
        if document.text[at:start].strip("\ufeff" + _ENDS):
            part = replace(document, text=document.text[at:start])
            new_spans += [(at + c.start, at + c.end) for c in split_document(part, counts, size=size, overlap=overlap)]
        at = max(at, end)
    spans = sorted({*spans, *new_spans})
    texts, outline = [document.text[a:b] for a, b in spans], Outline(document.text, document.blocks)
    return [
        Chunk(content_id(document.id, a, b), document.id, n, a, b, text, tokens, outline.headings_at(a))
        for n, ((a, b), text, tokens) in enumerate(zip(spans, texts, counts(texts) if texts else [], strict=True))
    ]


def _place_entity(row: GraphRagRow, matches: Mapping[str, _ChunkMatches], located: LocatedIndex) -> None:
    kind, description = row["type"].strip('"').lower(), row["description"].strip()
    forms = located.forms.setdefault(row["name"], set())
    for f in _of(row["chunks"], matches):
        for form in _surface_forms(f.chunk.text, row["name"]):
            forms.add(form)
            f.names.setdefault(name_key(row["name"]), form)
            f.entities.setdefault(form, ExtractedEntity(form, ENTITY_TYPES.get(kind, kind), description))
            description = ""
    if not forms:
        located.skipped[f"entity {row['name']}"] = "its name occurs in none of its chunks"


def _of(keys: Sequence[str], matches: Mapping[str, _ChunkMatches]) -> Iterator[_ChunkMatches]:
    yield from {matches[key].chunk.id: matches[key] for key in keys if key in matches}.values()


def _surface_forms(text: str, name: str) -> list[str]:
    spans = find_name_spans(text.casefold(), name.casefold()) if len(text.casefold()) == len(text) else find_name_spans(text, name)
    return list(dict.fromkeys(collapse_whitespace(text[s.start : s.end]) for s in spans))


def _place_relationship(row: GraphRagRow, matches: Mapping[str, _ChunkMatches], located: LocatedIndex) -> None:
    ends = [name_key(row[name]) for name in ("source", "target")]
    description, placed = row["description"].strip(), False
    for f in _of(row["chunks"], matches):
        a, b = (f.names.get(end) for end in ends)
        if a and b and a != b and (a, b) not in f.relationships:
            f.relationships[a, b] = ExtractedRelationship(a, b, description, strength_of(row["weight"] or 1.0, len(row["chunks"])))
            description, placed = "", True
    if not placed:
        located.skipped[f"relationship {row['source']} – {row['target']}"] = "no chunk of it names both"


QUOTES_PER_NAME = 2  # of each entity that a finding names
MAX_QUOTES = 8  # of a finding


@dataclass(frozen=True, slots=True)
class ImportResult:
    """The outcome of an import: counts found and imported, and skipped items (→ reason). `is_duplicate`: it was imported before."""

    program: str
    is_duplicate: bool
    found: Mapping[str, int]
    n_imported: Mapping[str, int]
    skipped: Mapping[str, str]


def import_index(output: GraphRagOutput, folder: Path, project: Project, progress: Callable[[RunProgress], None]) -> ImportResult:
    """Store and publish another program's index; nothing if the same was imported before. Raises UsageError if it has no document."""
    db, tables = project.db, output.tables
    if not tables["documents"]:
        raise UsageError(f"There are no documents in {folder}.", "Give the output folder of a finished run.")
    found = {name: len(tables[name]) for name in ("documents", "chunks", "entities", "relationships", "reports")}
    mark = f"{IMPORTED_MARK} {output.content_hash}"
    done = runs.load_settings(db).get("imports", [])
    if output.content_hash in done and mark in documents_store.document_hashes(db).values():
        return ImportResult(GRAPHRAG, True, found, {}, {})
    counts = Tokenizer(project.model.file).counts
    size, overlap = project.settings.chunk_tokens, project.settings.chunk_overlap
    located = locate_in_documents(tables, _paths(tables["documents"], folder, project), mark, counts, size=size, overlap=overlap)
    for document, chunks in located.documents:
        documents_store.save_document(db, document, chunks)
    chunks_store.save_extractions(db, IMPORTED_MARK, located.extractions)
    retained: dict[str, int] = {}

    def import_communities(
        graph: Graph, chunks: Mapping[str, Chunk], existing: Sequence[Community]
    ) -> tuple[list[Community], list[Report]]:
        communities, reports = _communities(tables, mark, located, graph, chunks, existing)
        retained.update(_imported_counts(tables, located, graph), reports=len(reports))
        return communities, reports

    asyncio.run(publish_imported(project, progress, import_communities))
    runs.save_settings(db, imports=[*done, output.content_hash], chunk_tokens=size, prepend_metadata=project.settings.prepend_metadata)
    return ImportResult(GRAPHRAG, False, found, retained, located.skipped)


def _paths(rows: Sequence[GraphRagRow], folder: Path, project: Project) -> dict[str, str]:
    paths: dict[str, str] = {}
    taken: set[str] = set()
    for n, row in enumerate(rows, 1):
        parts = PurePosixPath((row["title"] or row["id"]).replace("\\", "/")).parts
        title = "/".join(filter(is_safe_member_name, parts)) or f"document {n}"
        name = title if title not in taken else f"{PurePosixPath(title).with_suffix('')} {n}{PurePosixPath(title).suffix}"
        taken.add(name)
        paths[row["id"]] = relative_path(folder.resolve() / name, project.root)
    return paths


def _imported_counts(tables: Mapping[str, Sequence[GraphRagRow]], located: LocatedIndex, graph: Graph) -> dict[str, int]:
    """Counts of the imported items; entities that occur only inside longer names are not counted."""
    names = {m.name for m in graph.mentions}
    for name, forms in located.forms.items():
        if forms and not forms & names:
            located.skipped[f"entity {name}"] = "its name occurs only inside longer names"
    n_skipped = {kind: sum(s.startswith(f"{kind} ") for s in located.skipped) for kind in ("chunk", "entity", "relationship")}
    return {
        "documents": len(located.documents),
        "chunks": len(tables["chunks"]) - n_skipped["chunk"],
        "entities": len(tables["entities"]) - n_skipped["entity"],
        "relationships": len(tables["relationships"]) - n_skipped["relationship"],
    }


def _communities(
    tables: Mapping[str, Sequence[GraphRagRow]],
    mark: str,
    located: LocatedIndex,
    graph: Graph,
    chunks: Mapping[str, Chunk],
    existing: Sequence[Community],
) -> tuple[list[Community], list[Report]]:
    """The other program's communities and reports, of entities that are in the graph and in no imported community yet."""
    of_name = {m.name: m.entity_id for m in graph.mentions}
    taken = {e for c in existing for e in c.entity_ids}
    ids: dict[str, str] = {}  # of entities in the other program → here
    for row in tables["entities"]:
        ids[row["id"]] = next((of_name[form] for form in sorted(located.forms[row["name"]]) if form in of_name), "")
    groups = _dividing_communities(choose_communities(tables, located.skipped), ids, located.skipped)
    members = _members(groups, ids, taken)
    for row in groups:
        if row["number"] not in members:
            located.skipped[f"report {row['title']}"] = "none of its entities occurs in the text, or all are in other communities"
    keys = {row["number"]: content_id("community", mark, row["number"]) for row in groups}
    kept = [row for row in groups if row["number"] in members]
    communities = [
        Community(keys[row["number"]], row["level"], 0, keys.get(row["parent"]), tuple(sorted(members[row["number"]]))) for row in kept
    ]
    names = {row["name"]: ids[row["id"]] for row in tables["entities"] if ids[row["id"]]}
    of_entity = entity_quotes(graph, chunks)
    return communities, [_report(row, keys[row["number"]], mark, names, of_entity) for row in kept]


def _dividing_communities(groups: Sequence[GraphRagRow], ids: Mapping[str, str], skipped: dict[str, str]) -> list[GraphRagRow]:
    """The communities, without the sub-communities of a community that they do not divide, by the entities in the graph."""
    retained: dict[int, GraphRagRow] = {}
    of_parent: defaultdict[int | None, list[GraphRagRow]] = defaultdict(list)
    for row in groups:
        of_parent[row["parent"]].append(row)
    for parent, children in of_parent.items():  # the coarsest first
        inside = {ids.get(key) for row in children for key in row["entities"]}
        if parent is None or (parent in retained and inside >= {ids[key] for key in retained[parent]["entities"] if ids.get(key)}):
            retained |= {row["number"]: row for row in children}
        else:
            skipped |= {f"report {row['title']}": "it and its neighbours do not divide up the community above" for row in children}
    return list(retained.values())


def _members(groups: Sequence[GraphRagRow], ids: Mapping[str, str], taken: Collection[str]) -> dict[int, list[str]]:
    """Community → its entities; an entity of two communities of a level belongs to the first. Those that are `taken` are left out."""
    deepest: dict[str, GraphRagRow] = {}
    for row in groups:
        for entity in dict.fromkeys(ids.get(key, "") for key in row["entities"]):
            last = deepest.get(entity)
            if entity and entity not in taken and (last["number"] == row["parent"] if last else row["level"] == 0):
                deepest[entity] = row
    by_number = {row["number"]: row for row in groups}
    members: dict[int, list[str]] = {}
    for entity, row in deepest.items():
        at: GraphRagRow | None = row
        while at is not None:
            members.setdefault(at["number"], []).append(entity)
            at = by_number.get(at["parent"])
    return members


def _report(row: GraphRagRow, key: str, mark: str, names: Mapping[str, str], of_entity: Mapping[str, Sequence[Quote]]) -> Report:
    def quotes(text: str) -> tuple[Quote, ...]:
        named = [entity for name, entity in names.items() if name.casefold() in text.casefold()]
        return tuple(dict.fromkeys(q for entity in named for q in of_entity.get(entity, ())[:QUOTES_PER_NAME]))[:MAX_QUOTES]

    findings = tuple(Finding(summary, text, quotes(f"{summary} {text}")) for summary, text in row["findings"])
    return Report(key, mark, row["title"], row["summary"], row["rating"], row["rating_explanation"], findings)
