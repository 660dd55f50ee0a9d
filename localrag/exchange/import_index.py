"""Import of an index of Microsoft GraphRAG: locates its content in the documents' text and stores it.

Chunks, names and claims that do not occur in the text are listed as skipped.
"""

import asyncio
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path, PurePosixPath

from localrag.engine.tokenizer import Tokenizer
from localrag.errors import UsageError
from localrag.exchange.foreign import (
    GRAPHRAG,
    ForeignChunk,
    ForeignClaim,
    ForeignCommunity,
    ForeignDocument,
    ForeignEntity,
    ForeignFinding,
    ForeignIndex,
    ForeignRelationship,
)
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
    ExtractedClaim,
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
from localrag.text.quotes import entity_quotes, relationship_quotes
from localrag.text.sentences import collapse_whitespace, sentences

_ENDS = " \t\r\n\ufffd"  # of a chunk that was cut between the bytes of a character
_DATE = re.compile(r"\d{4}(?:-\d{2}(?:-\d{2})?)?")
_QUOTATION_MARK = re.compile("[\"'“”‘’«»]")
_QUOTES = "\"'“”‘’«»"
MIN_SENTENCE_CHARS = 25  # characters of a sentence that identify it
MAX_HEADER_LINES = 20  # lines of metadata that may precede a chunk's text
CLAIM_STATUSES = ("TRUE", "FALSE", "SUSPECTED")


@dataclass(slots=True)
class LocatedIndex:
    """Documents with their chunks, the extractions located in these, and the skipped items (item → reason)."""

    documents: list[tuple[Document, list[Chunk]]] = field(default_factory=list)
    extractions: list[Extraction] = field(default_factory=list)
    forms: dict[str, set[str]] = field(default_factory=dict)  # entity name → its spellings in the text
    skipped: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class _ChunkMatches:
    """The entities, relationships and claims that occur in one chunk's text. `names`: normalised name → its first spelling there."""

    chunk: Chunk
    entities: dict[str, ExtractedEntity] = field(default_factory=dict)
    relationships: dict[tuple[str, str], ExtractedRelationship] = field(default_factory=dict)
    claims: list[ExtractedClaim] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)


def locate_in_documents(foreign: ForeignIndex, paths: Mapping[str, str], counts: CountTokens, *, size: int, overlap: int) -> LocatedIndex:
    """Locate everything in the documents, whose `paths` are by key. Text outside all chunks gets chunks of `size` tokens."""
    located = LocatedIndex(skipped=dict(foreign.skipped))
    matches: dict[str, _ChunkMatches] = {}
    of_source: defaultdict[str, list[ForeignChunk]] = defaultdict(list)
    for passage in foreign.passages:
        of_source[passage.source].append(passage)
    for key in of_source.keys() - {s.key for s in foreign.sources}:
        located.skipped |= {f"chunk {p.key[:12]}": "its document is not in the folder" for p in of_source[key]}
    for source in foreign.sources:
        document, places = _document(source, of_source[source.key], paths[source.key], foreign.content_hash, located.skipped)
        chunks = _chunks(document, places, counts, size, overlap)
        located.documents.append((document, chunks))
        by_place = {(c.start, c.end): c for c in chunks}
        matches |= {key: _ChunkMatches(by_place[place]) for key, place in places.items()}
    one = {f.chunk.id: f for f in matches.values()}  # two keys with one span are one chunk
    matches = {key: one[f.chunk.id] for key, f in matches.items()}
    for node in foreign.nodes:
        _place_node(node, matches, located)
    for edge in foreign.edges:
        _place_edge(edge, matches, located)
    for statement in foreign.statements:
        _place_statement(statement, matches, located)
    located.extractions = [
        Extraction(f.chunk.id, tuple(f.entities.values()), tuple(f.relationships.values()), tuple(f.claims)) for f in one.values()
    ]
    return located


def _document(
    source: ForeignDocument, passages: Sequence[ForeignChunk], path: str, state: str, skipped: dict[str, str]
) -> tuple[Document, dict[str, tuple[int, int]]]:
    """The document, and the spans of its chunks by key."""
    places: dict[str, tuple[int, int]] = {}
    at = 0
    for passage in passages:
        place = _place(source.text, passage.text, at)
        if place is None:
            skipped[f"chunk {passage.key[:12]}"] = f"its text does not occur in {source.title}"
        else:
            places[passage.key] = place
            at = place[0]
    return Document(content_id(path, content_id(source.text)), path, source.title, source.text, f"{IMPORTED_MARK} {state}"), places


def _place(text: str, wanted: str, at: int) -> tuple[int, int] | None:
    """The span of a chunk, preferably after `at`, without a character cut at its ends or metadata before it."""
    lines = wanted.split("\n")
    for n in range(min(MAX_HEADER_LINES, len(lines))):
        part = "\n".join(lines[n:]).strip(_ENDS)
        if not part:
            break
        for begin in (at, 0):
            if (start := text.find(part, begin)) >= 0:
                return start, start + len(part)
    return None


def _chunks(document: Document, places: Mapping[str, tuple[int, int]], counts: CountTokens, size: int, overlap: int) -> list[Chunk]:
    """The chunks of a document in order: the other program's, and new ones of the text between them."""
    spans = sorted(set(places.values()))
    new_spans: list[tuple[int, int]] = []
    at = 0
    for start, end in [*spans, (len(document.text), len(document.text))]:
        if document.text[at:start].strip("\ufeff" + _ENDS):
            part = replace(document, text=document.text[at:start])
            new_spans += [(at + c.start, at + c.end) for c in split_document(part, counts, size=size, overlap=overlap)]
        at = max(at, end)
    spans = sorted({*spans, *new_spans})
    texts, outline = [document.text[a:b] for a, b in spans], Outline(document.text)
    return [
        Chunk(content_id(document.id, a, b), document.id, n, a, b, text, tokens, outline.headings_at(a))
        for n, ((a, b), text, tokens) in enumerate(zip(spans, texts, counts(texts) if texts else [], strict=True))
    ]


def _place_node(node: ForeignEntity, matches: Mapping[str, _ChunkMatches], located: LocatedIndex) -> None:
    """Add an entity to every chunk that names it, in each spelling there; its description to the first."""
    description = node.description
    forms = located.forms.setdefault(node.name, set())
    for f in _of(node.passages, matches):
        for form in _surface_forms(f.chunk.text, node.name):
            forms.add(form)
            f.names.setdefault(name_key(node.name), form)
            f.entities.setdefault(form, ExtractedEntity(form, node.type, description))
            description = ""
    if not forms:
        located.skipped[f"entity {node.name}"] = "its name occurs in none of its chunks"


def _of(keys: Sequence[str], matches: Mapping[str, _ChunkMatches]) -> Iterator[_ChunkMatches]:
    yield from {matches[key].chunk.id: matches[key] for key in keys if key in matches}.values()


def _surface_forms(text: str, name: str) -> list[str]:
    """The spellings of a name in a text, ignoring case, each once."""
    spans = find_name_spans(text.casefold(), name.casefold()) if len(text.casefold()) == len(text) else find_name_spans(text, name)
    return list(dict.fromkeys(collapse_whitespace(text[s.start : s.end]) for s in spans))


def _place_edge(edge: ForeignRelationship, matches: Mapping[str, _ChunkMatches], located: LocatedIndex) -> None:
    """Add a relationship to every chunk that names both of its ends; its description to the first."""
    ends = [name_key(name) for name in (edge.source, edge.target)]
    description, placed = edge.description, False
    for f in _of(edge.passages, matches):
        a, b = (f.names.get(end) for end in ends)
        if a and b and a != b and (a, b) not in f.relationships:
            f.relationships[a, b] = ExtractedRelationship(a, b, description, edge.strength)
            description, placed = "", True
    if not placed:
        located.skipped[f"relationship {edge.source} – {edge.target}"] = "no chunk of it names both"


def _place_statement(claim: ForeignClaim, matches: Mapping[str, _ChunkMatches], located: LocatedIndex) -> None:
    """Add a claim with the first sentence of its quote that occurs in its chunk."""
    name = f"claim on {claim.subject}: {claim.description[:60]}"
    f = matches.get(claim.passage)
    subject = f.names.get(name_key(claim.subject)) if f else None
    span = _quoted(f.chunk.text, claim.quote) if f else None
    if f is None or subject is None or span is None:
        reason = "its chunk is not there" if f is None else "its quote does not occur in its chunk" if span is None else ""
        located.skipped[name] = reason or "its subject is not an entity that its chunk names"
        return
    status = claim.status.upper() if claim.status.upper() in CLAIM_STATUSES else "SUSPECTED"
    target = f.names.get(name_key(claim.object), "")
    since, until = (date[0] if (date := _DATE.match(given)) else "" for given in (claim.start_date, claim.end_date))
    f.claims.append(ExtractedClaim(subject, target, claim.type.lower(), status, since, until, claim.description, *span))


def _quoted(text: str, quote: str) -> tuple[int, int] | None:
    """The span of the first sentence of a quote that occurs in the text, ignoring whitespace and quotation marks."""
    for sentence in [quote, *(quote[s.start : s.end] for s in sentences(quote))]:
        words = sentence.strip(_QUOTES + _ENDS).split()
        if len(" ".join(words)) >= min(MIN_SENTENCE_CHARS, len(quote.strip())) and words:
            hit = re.search(_QUOTATION_MARK.sub(lambda _: f"[{_QUOTES}]", r"\s+".join(map(re.escape, words))), text)  # any quotation marks
            if hit:
                first = next(iter(sentences(hit[0])), None)  # of a whole passage the first: a claim has one sentence
                return hit.start(), hit.start() + (first.end if first and len(hit[0]) > 600 else len(hit[0]))
    return None


QUOTES_PER_FINDING = 2  # of each referenced item
MAX_QUOTES = 8  # of a finding


@dataclass(frozen=True, slots=True)
class ImportResult:
    """The outcome of an import: counts found and imported, and skipped items (→ reason). `is_duplicate`: it was imported before."""

    program: str
    is_duplicate: bool
    found: Mapping[str, int]
    n_imported: Mapping[str, int]
    skipped: Mapping[str, str]


def import_index(foreign: ForeignIndex, folder: Path, project: Project, progress: Callable[[RunProgress], None]) -> ImportResult:
    """Store and publish another program's index of documents in `folder`; does nothing if the same was imported before.

    Raises UsageError if it has no document.
    """
    db = project.db
    if not foreign.sources:
        raise UsageError(f"There are no documents in {folder}.", "Give the output folder of a finished run.")
    names = ("documents", "chunks", "entities", "relationships", "claims", "reports")
    parts = (foreign.sources, foreign.passages, foreign.nodes, foreign.edges, foreign.statements, foreign.groups)
    found = dict(zip(names, map(len, parts), strict=True))
    is_stored = f"{IMPORTED_MARK} {foreign.content_hash}" in documents_store.document_hashes(db).values()
    done = runs.load_settings(db).get("imports", [])
    if is_stored and foreign.content_hash in done:
        return ImportResult(GRAPHRAG, True, found, {}, {})
    counts = Tokenizer(project.model.file).counts
    size, overlap = project.settings.chunk_tokens, project.settings.chunk_overlap
    located = locate_in_documents(foreign, _paths(foreign, folder, project), counts, size=size, overlap=overlap)
    for document, chunks in located.documents:
        documents_store.save_document(db, document, chunks)
    chunks_store.save_extractions(db, IMPORTED_MARK, located.extractions)
    retained: dict[str, int] = {}

    def import_communities(
        graph: Graph, chunks: Mapping[str, Chunk], existing: Sequence[Community]
    ) -> tuple[list[Community], list[Report]]:
        communities, reports = _communities(foreign, located, graph, chunks, existing)
        retained.update(_imported_counts(foreign, located, graph), reports=len(reports))
        return communities, reports

    asyncio.run(publish_imported(project, progress, import_communities))
    runs.save_settings(db, imports=[*done, foreign.content_hash], chunk_tokens=size, prepend_metadata=project.settings.prepend_metadata)
    return ImportResult(GRAPHRAG, False, found, retained, located.skipped)


def _paths(foreign: ForeignIndex, folder: Path, project: Project) -> dict[str, str]:
    """The path of each document: its title within the imported folder."""
    paths: dict[str, str] = {}
    taken: set[str] = set()
    for n, source in enumerate(foreign.sources, 1):
        title = (
            "/".join(part for part in PurePosixPath(source.title.replace("\\", "/")).parts if is_safe_member_name(part)) or f"document {n}"
        )
        name = title if title not in taken else f"{PurePosixPath(title).with_suffix('')} {n}{PurePosixPath(title).suffix}"
        taken.add(name)
        paths[source.key] = relative_path(folder.resolve() / name, project.root)
    return paths


def _imported_counts(foreign: ForeignIndex, located: LocatedIndex, graph: Graph) -> dict[str, int]:
    """Counts of the imported items; entities that occur only inside longer names are not counted."""
    names = {m.name for m in graph.mentions}
    for node in foreign.nodes:
        if located.forms[node.name] and not located.forms[node.name] & names:
            located.skipped[f"entity {node.name}"] = "its name occurs only inside longer names"
    chunks = {c.id for _, some in located.documents for c in some}
    skipped_counts = {kind: sum(s.startswith(f"{kind} ") for s in located.skipped) for kind in ("chunk", "entity", "relationship")}
    return {
        "documents": len(located.documents),
        "chunks": len(foreign.passages) - skipped_counts["chunk"],
        "entities": len(foreign.nodes) - skipped_counts["entity"],
        "relationships": len(foreign.edges) - skipped_counts["relationship"],
        "claims": sum(c.chunk_id in chunks for c in graph.claims),
    }


def _communities(
    foreign: ForeignIndex, located: LocatedIndex, graph: Graph, chunks: Mapping[str, Chunk], existing: Sequence[Community]
) -> tuple[list[Community], list[Report]]:
    """The other program's communities and reports, of entities that are in the graph and in no imported community yet."""
    of_name = {m.name: m.entity_id for m in graph.mentions}
    taken = {e for c in existing for e in c.entity_ids}
    ids = {node.name: next((of_name[form] for form in sorted(located.forms[node.name]) if form in of_name), "") for node in foreign.nodes}
    trees = _complete_trees(foreign.groups, ids, located.skipped)
    home = {e: key for e, key in _deepest_communities(trees, ids).items() if e not in taken}
    parents = {g.key: g.parent for g in trees}
    members: dict[str, list[str]] = {}
    for entity, deepest in home.items():
        at: str | None = deepest
        while at is not None:
            members.setdefault(at, []).append(entity)
            at = parents.get(at)
    name = {g.key: content_id("community", IMPORTED_MARK, foreign.content_hash, g.key) for g in trees}
    groups = [g for g in trees if g.key in members]
    for g in trees:
        if g.key not in members:
            located.skipped[f"report {g.title}"] = "none of its entities occurs in the text, or all are in other communities"
    communities = [
        Community(name[g.key], g.level, 0, name[g.parent] if g.parent is not None else None, tuple(sorted(members[g.key]))) for g in groups
    ]
    quotes = _quotes(graph, chunks, ids)
    return communities, [_report(g, name[g.key], foreign.content_hash, quotes) for g in groups]


def _deepest_communities(groups: Sequence[ForeignCommunity], ids: Mapping[str, str]) -> dict[str, str]:
    """Entity → its deepest community; an entity of two belongs to the first."""
    deepest: dict[str, str] = {}
    for g in sorted(groups, key=lambda g: g.level):
        for entity in dict.fromkeys(ids.get(n, "") for n in g.nodes):
            if entity and (deepest.get(entity) == g.parent if g.level else entity not in deepest):
                deepest[entity] = g.key
    return deepest


def _complete_trees(groups: Sequence[ForeignCommunity], ids: Mapping[str, str], skipped: dict[str, str]) -> list[ForeignCommunity]:
    """The communities, without the sub-communities of a community that they do not divide, by the entities in the graph."""
    retained: dict[str, ForeignCommunity] = {}
    for level in sorted({g.level for g in groups}):
        of_parent: defaultdict[str | None, list[ForeignCommunity]] = defaultdict(list)
        for g in groups:
            if g.level == level:
                of_parent[g.parent].append(g)
        for parent, children in of_parent.items():
            inside = {ids[n] for g in children for n in g.nodes if ids.get(n)}
            if level == 0 or (parent in retained and inside >= {ids[n] for n in retained[parent].nodes if ids.get(n)}):
                retained |= {g.key: g for g in children}
            else:
                skipped |= {f"report {g.title}": "it and its neighbours do not divide up the community above" for g in children}
    return list(retained.values())


QuotesOfFinding = Callable[[ForeignFinding, ForeignCommunity], tuple[Quote, ...]]


def _quotes(graph: Graph, chunks: Mapping[str, Chunk], ids: Mapping[str, str]) -> QuotesOfFinding:
    """A function that returns the sentences of a finding's references, or of the entities it names if it has none."""
    of_entity, of_relationship = entity_quotes(graph, chunks), relationship_quotes(graph, chunks)
    between = {frozenset((r.source_id, r.target_id)): r.id for r in graph.relationships}

    def quoted(insight: ForeignFinding, group: ForeignCommunity) -> tuple[Quote, ...]:
        text = f"{insight.summary} {insight.explanation}".casefold()
        nodes = insight.nodes if insight.nodes or insight.edges else [n for n in group.nodes if n.casefold() in text]
        pairs = (between.get(frozenset(ids.get(n, "") for n in ends), "") for ends in insight.edges)
        candidates = chain(
            *(of_relationship.get(key, ())[:QUOTES_PER_FINDING] for key in pairs),
            *(of_entity.get(ids.get(n, ""), ())[:QUOTES_PER_FINDING] for n in nodes),
        )
        return tuple(dict.fromkeys(candidates))[:MAX_QUOTES]

    return quoted


def _report(group: ForeignCommunity, key: str, state: str, quotes: QuotesOfFinding) -> Report:
    findings = tuple(Finding(i.summary, i.explanation, quotes(i, group)) for i in group.insights)
    return Report(key, f"{IMPORTED_MARK} {state}", group.title, group.summary, group.rating, group.rating_explanation, findings)
