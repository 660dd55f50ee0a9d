"""Where in the documents' own text another program's chunks, names and claims stand. What stands nowhere is listed, not invented."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from localrag.exchange.imports.foreign import Edge, Foreign, Node, Passage, Source, Statement
from localrag.index.documents.chunk import Counter, chunk
from localrag.index.extraction.names.spans import find_name
from localrag.index.graph.spelling import normalise
from localrag.records import (
    IMPORTED,
    Chunk,
    Document,
    ExtractedClaim,
    ExtractedEntity,
    ExtractedRelationship,
    Extraction,
    content_id,
)
from localrag.text.plain import sentences, squeeze

_ENDS = " \t\r\n\ufffd"  # of a chunk that was cut between the bytes of a character
_DATE = re.compile(r"\d{4}(?:-\d{2}(?:-\d{2})?)?")
_MARK = re.compile("[\"'“”‘’«»]")
_QUOTES = "\"'“”‘’«»"
LEAST = 25  # characters of a sentence that can be told from others
HEADER = 20  # lines of metadata that may have been put before a chunk
STATUS = ("TRUE", "FALSE", "SUSPECTED")


@dataclass(slots=True)
class Located:
    """Documents with their chunks, what was extracted from these, and what is left out: what it is → why."""

    documents: list[tuple[Document, list[Chunk]]] = field(default_factory=list)
    extractions: list[Extraction] = field(default_factory=list)
    forms: dict[str, set[str]] = field(default_factory=dict)  # an entity's name → how the text writes it
    skipped: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class _Found:
    """What of one chunk's entities, relationships and claims its text proves. `names`: normalised name → as the text writes it first."""

    chunk: Chunk
    entities: dict[str, ExtractedEntity] = field(default_factory=dict)
    relationships: dict[tuple[str, str], ExtractedRelationship] = field(default_factory=dict)
    claims: list[ExtractedClaim] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)


def locate(foreign: Foreign, paths: Mapping[str, str], counts: Counter, *, size: int, overlap: int) -> Located:
    """Place everything in the documents, whose `paths` are by key. Text that is in no chunk gets chunks of our own, of `size` tokens."""
    located = Located(skipped=dict(foreign.skipped))
    found: dict[str, _Found] = {}
    of_source: defaultdict[str, list[Passage]] = defaultdict(list)
    for passage in foreign.passages:
        of_source[passage.source].append(passage)
    for key in of_source.keys() - {s.key for s in foreign.sources}:
        located.skipped |= {f"chunk {p.key[:12]}": "its document is not in the folder" for p in of_source[key]}
    for source in foreign.sources:
        document, places = _document(source, of_source[source.key], paths[source.key], foreign.state, located.skipped)
        chunks = _chunks(document, places, counts, size, overlap)
        located.documents.append((document, chunks))
        by_place = {(c.start, c.end): c for c in chunks}
        found |= {key: _Found(by_place[place]) for key, place in places.items()}
    one = {f.chunk.id: f for f in found.values()}  # two keys of one place are one chunk
    found = {key: one[f.chunk.id] for key, f in found.items()}
    for node in foreign.nodes:
        _place_node(node, found, located)
    for edge in foreign.edges:
        _place_edge(edge, found, located)
    for statement in foreign.statements:
        _place_statement(statement, found, located)
    located.extractions = [
        Extraction(f.chunk.id, tuple(f.entities.values()), tuple(f.relationships.values()), tuple(f.claims)) for f in one.values()
    ]
    return located


def _document(
    source: Source, passages: Sequence[Passage], path: str, state: str, skipped: dict[str, str]
) -> tuple[Document, dict[str, tuple[int, int]]]:
    """The document, and where its chunks stand in it, by their key."""
    places: dict[str, tuple[int, int]] = {}
    at = 0
    for passage in passages:
        place = _place(source.text, passage.text, at)
        if place is None:
            skipped[f"chunk {passage.key[:12]}"] = f"its text does not stand in {source.title}"
        else:
            places[passage.key] = place
            at = place[0]
    return Document(content_id(path, content_id(source.text)), path, source.title, source.text, f"{IMPORTED} {state}"), places


def _place(text: str, wanted: str, at: int) -> tuple[int, int] | None:
    """Where a chunk stands, at best behind `at`, without what was cut in two at its ends or put before it."""
    lines = wanted.split("\n")
    for n in range(min(HEADER, len(lines))):
        part = "\n".join(lines[n:]).strip(_ENDS)
        if not part:
            break
        for begin in (at, 0):
            if (start := text.find(part, begin)) >= 0:
                return start, start + len(part)
    return None


def _chunks(document: Document, places: Mapping[str, tuple[int, int]], counts: Counter, size: int, overlap: int) -> list[Chunk]:
    """The chunks of a document in their order: those of the other program, and our own of what lies between them."""
    spans = sorted(set(places.values()))
    own: list[tuple[int, int]] = []
    at = 0
    for start, end in [*spans, (len(document.text), len(document.text))]:
        if document.text[at:start].strip("\ufeff" + _ENDS):
            part = replace(document, text=document.text[at:start])
            own += [(at + c.start, at + c.end) for c in chunk(part, counts, size=size, overlap=overlap)]
        at = max(at, end)
    spans = sorted({*spans, *own})
    texts = [document.text[a:b] for a, b in spans]
    return [
        Chunk(content_id(document.id, a, b), document.id, n, a, b, text, tokens)
        for n, ((a, b), text, tokens) in enumerate(zip(spans, texts, counts(texts) if texts else [], strict=True))
    ]


def _place_node(node: Node, found: Mapping[str, _Found], located: Located) -> None:
    """Note an entity in every chunk that names it, in each way the text writes it; its description in the first."""
    description = node.description
    forms = located.forms.setdefault(node.name, set())
    for f in _of(node.passages, found):
        for form in _forms(f.chunk.text, node.name):
            forms.add(form)
            f.names.setdefault(normalise(node.name), form)
            f.entities.setdefault(form, ExtractedEntity(form, node.type, description))
            description = ""
    if not forms:
        located.skipped[f"entity {node.name}"] = "its name stands in none of its chunks"


def _of(keys: Sequence[str], found: Mapping[str, _Found]) -> Iterator[_Found]:
    yield from {found[key].chunk.id: found[key] for key in keys if key in found}.values()


def _forms(text: str, name: str) -> list[str]:
    """How a text writes a name, whatever the case, each way once."""
    spans = find_name(text.casefold(), name.casefold()) if len(text.casefold()) == len(text) else find_name(text, name)
    return list(dict.fromkeys(squeeze(text[s.start : s.end]) for s in spans))


def _place_edge(edge: Edge, found: Mapping[str, _Found], located: Located) -> None:
    """Note a relationship in every chunk that names both of its ends; its description in the first."""
    ends = [normalise(name) for name in (edge.source, edge.target)]
    description, placed = edge.description, False
    for f in _of(edge.passages, found):
        a, b = (f.names.get(end) for end in ends)
        if a and b and a != b and (a, b) not in f.relationships:
            f.relationships[a, b] = ExtractedRelationship(a, b, description, edge.strength)
            description, placed = "", True
    if not placed:
        located.skipped[f"relationship {edge.source} – {edge.target}"] = "no chunk of it names both"


def _place_statement(said: Statement, found: Mapping[str, _Found], located: Located) -> None:
    """Note a claim in the first sentence of its quote that stands in its chunk."""
    name = f"claim on {said.subject}: {said.description[:60]}"
    f = found.get(said.passage)
    subject = f.names.get(normalise(said.subject)) if f else None
    span = _quoted(f.chunk.text, said.quote) if f else None
    if f is None or subject is None or span is None:
        why = "its chunk is not there" if f is None else "its quote does not stand in its chunk" if span is None else ""
        located.skipped[name] = why or "its subject is no entity that its chunk names"
        return
    status = said.status.upper() if said.status.upper() in STATUS else "SUSPECTED"
    target = f.names.get(normalise(said.object), "")
    since, until = (date[0] if (date := _DATE.match(given)) else "" for given in (said.since, said.until))
    f.claims.append(ExtractedClaim(subject, target, said.type.lower(), status, since, until, said.description, *span))


def _quoted(text: str, quote: str) -> tuple[int, int] | None:
    """Where the first sentence of a quote stands that can be found, whatever its whitespace and the marks around it."""
    for sentence in [quote, *(quote[s.start : s.end] for s in sentences(quote))]:
        words = sentence.strip(_QUOTES + _ENDS).split()
        if len(" ".join(words)) >= min(LEAST, len(quote.strip())) and words:
            hit = re.search(_MARK.sub(lambda _: f"[{_QUOTES}]", r"\s+".join(map(re.escape, words))), text)  # any marks of quotation
            if hit:
                first = next(iter(sentences(hit[0])), None)  # of a whole passage the beginning: a claim is one sentence's
                return hit.start(), hit.start() + (first.end if first and len(hit[0]) > 600 else len(hit[0]))
    return None
