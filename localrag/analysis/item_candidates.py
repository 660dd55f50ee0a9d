"""Candidates for the items of a list: records of tables, list items, and names in sentences."""

import re
import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from localrag.analysis.item_evidence import ItemEvidence, assume_the_rest, record_evidence, text_evidence
from localrag.analysis.list_request import ListRequest, RequestWord, likeness
from localrag.analysis.placed_sentences import OpenedDocument, PlacedSentence
from localrag.analysis.request_words import MIN_LIKENESS, compared_labels, is_about, meant_columns
from localrag.analysis.text_records import Cells, RecordTable, TextRecord, is_identifier
from localrag.records import Mention
from localrag.text.outline import Block, BlockKind
from localrag.text.sentences import STOP_WORDS, cached_sentences, collapse_whitespace

MIN_LETTER_SHARE = 0.3  # of a sentence that is read: others are numbers
PASSAGE_CHARS = 700  # of sentences that are read together
MIN_HEAD_FULLNESS = 0.6  # of a value that is the noun asked for, from which on that noun is a condition
MAX_SAMPLED_RECORDS = 200  # of a table, by which the columns with numbers are told
_BULLET = re.compile(r"^\s*(?:[-*+•‣▪◦·]|\(?(?:\d{1,3}|[a-zA-Z])[.)])\s+(?:\[[ xX]\]\s+)?")
_NAME_END = re.compile(r"\s[–—-]\s|[:：;(（\[]|,\s|\.\s|，|。")
_EMPHASIS = re.compile(r"^[*_`\"“'‘]+|(?<![*_`\"”'’])[*_`\"”'’]+$")
_CODE = re.compile(r"\b[A-Z]\w{0,9}-\d[\w-]{0,19}\b")  # such as IR-1042
_GOES_ON = re.compile(
    r"^(?:the|this|these|der|die|das|dies\w{0,2})\s|\b(?:she|he|it|they|her|his|its|their|sie|er|es|ihre?|sein|seine)\b", re.IGNORECASE
)
MAX_ARTICLE_CHARS = 4  # before a name that a sentence begins with
_ARTICLES = re.compile(r"^(?:the|an?|der|die|das|ein|eine|le|la|les|un|une|el|los|las)\s+", re.IGNORECASE)


@dataclass(slots=True)
class ItemCandidate:
    """A candidate: what it is called, the quote that may show it, and what speaks for it.

    `identity`: what makes it one item among others, for a record without a name; `entity_id`: that of the graph, if it is known there.
    """

    name: str
    source: OpenedDocument
    start: int
    end: int
    evidence: ItemEvidence
    entity_id: str = ""
    identity: tuple[str, ...] = ()
    cells: Cells = ()  # of a record
    key_labels: tuple[str, ...] = ()  # of those that name it


@dataclass(slots=True)
class ReadPassage:
    """Adjacent sentences of a block, or a list item, read together. `context`: the headings, title and lead-in above it."""

    source: OpenedDocument
    sentences: list[PlacedSentence]
    context: str
    is_list_item: bool = False
    mentions: list[Mention] = field(default_factory=list)

    @property
    def start(self) -> int:
        """Offset of its first character."""
        return self.sentences[0].start

    @property
    def end(self) -> int:
        """Offset after its last character."""
        return self.sentences[-1].end

    @property
    def text(self) -> str:
        """Its text in the document."""
        return self.source.document.text[self.start : self.end]


# Records


def record_candidates(table: RecordTable, request: ListRequest) -> list[ItemCandidate]:
    """Each record of a table as a candidate, by its key, or by another column that is asked for: "Which countries …?"."""
    keys = table.key_labels
    others = (label for label in table.labels if label not in keys and not is_identifier(label))
    asked = next((label for label in others if is_about(request.head, label)), "")
    names = (asked,) if asked else keys
    contexts = [_context_of(record) for record in table.records]
    samples = [r.cells for r in table.records[:MAX_SAMPLED_RECORDS]]
    about = " ".join((*table.labels, *contexts[:1]))
    compared = compared_labels(request, list(table.labels), samples, is_about=not request.head or is_about(request.head, about))
    first = [record_evidence(request, r.cells, context, compared) for r, context in zip(table.records, contexts, strict=True)]
    if any(e.head.fullness >= MIN_HEAD_FULLNESS and not e.is_about for e in first):  # "schooners" of a table of vessels with their types
        request = replace(request, words=(*request.words, RequestWord(request.head)), head="")
        first = [record_evidence(request, r.cells, context, compared) for r, context in zip(table.records, contexts, strict=True)]
        for evidence in first:
            evidence.is_about = True
    columns = meant_columns(request.words, [e.hits for e in first])
    found = []
    copies: Counter[tuple[str, Cells]] = Counter()
    for record, context, unrestricted in zip(table.records, contexts, first, strict=True):
        name = " ".join(filter(None, (record.value(label) for label in names)))
        if asked and not name:
            continue
        identity: tuple[str, ...] = ()
        if not name:
            copies[record.source.document.path, record.cells] += 1
            identity = (repr(record.cells), str(copies[record.source.document.path, record.cells]))
            name = next(value for _, value in record.cells)
        evidence = unrestricted
        if any(columns):
            evidence = record_evidence(request, record.cells, context, compared, columns)
            evidence.is_about = unrestricted.is_about
        place = record.source, record.start, record.end
        found.append(ItemCandidate(name, *place, evidence, identity=identity, cells=record.cells, key_labels=keys))
    assume_the_rest(request, [c.evidence for c in found])
    return found


def _context_of(record: TextRecord) -> str:
    document = record.source.document
    return " ".join((*record.source.outline.headings_at(record.start), document.title, PurePosixPath(document.path).stem))


# Prose


def read_passages_of(source: OpenedDocument, spans: Sequence[tuple[int, int]], covered: Sequence[tuple[int, int]]) -> Iterator[ReadPassage]:
    """The passages of a document that begin within one of the spans, in order; what is `covered` by records is left out."""
    text = source.document.text
    title = f"{source.document.title} {PurePosixPath(source.document.path).stem}"
    lead_in = ""
    for block in source.outline.blocks:
        if block.kind is BlockKind.HEADING:
            continue
        if not any(a < block.end and block.start < b for a, b in spans):
            lead_in = ""
            continue
        context = " ".join((*block.headings, title, lead_in))
        if block.kind is BlockKind.LIST:
            yield from _list_items(source, block, context, covered)
        else:
            yield from _passages(source, block, context, covered)
        if block.kind is not BlockKind.LIST:
            last = text[block.start : block.end].rstrip()
            lead_in = last[-200:] if last.endswith((":", "：")) else ""


def _is_in(offset: int, spans: Sequence[tuple[int, int]]) -> bool:
    n = bisect_right(spans, (offset, sys.maxsize)) - 1
    return n >= 0 and spans[n][0] <= offset < spans[n][1]


def _place_candidate(source: OpenedDocument, start: int, end: int, covered: Sequence[tuple[int, int]]) -> list[PlacedSentence]:
    from localrag.analysis.text_records import chunk_at

    text = source.document.text[start:end]
    spans = [s for s in cached_sentences(text) if sum(map(str.isalpha, text[s.start : s.end])) >= MIN_LETTER_SHARE * (s.end - s.start)]
    spans = [s for s in spans if not _is_in(start + s.start, covered)]
    return [
        PlacedSentence(
            source, chunk_at(source, start + s.start), start + s.start, start + s.end, collapse_whitespace(text[s.start : s.end])
        )
        for s in spans
    ]


def _passages(source: OpenedDocument, block: Block, context: str, covered: Sequence[tuple[int, int]]) -> Iterator[ReadPassage]:
    """The sentences of a block, as many together as fit into PASSAGE_CHARS; each further passage begins with the last one's last sentence."""  # noqa: E501
    group: list[PlacedSentence] = []
    for sentence in _place_candidate(source, block.start, block.end, covered):
        if group and sentence.end - group[0].start > PASSAGE_CHARS:
            yield ReadPassage(source, group, context)
            group = group[-1:] if sentence.end - group[-1].start <= PASSAGE_CHARS else []
        group.append(sentence)
    if group:
        yield ReadPassage(source, group, context)


def _list_items(source: OpenedDocument, block: Block, context: str, covered: Sequence[tuple[int, int]]) -> Iterator[ReadPassage]:
    """Each item of a list, with its wrapped lines."""
    text = source.document.text[block.start : block.end]
    starts = [m.start() for m in re.finditer(r"^.*$", text, re.MULTILINE) if _BULLET.match(m[0])] or [0]
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        if sentences := _place_candidate(source, block.start + start, block.start + end, covered):
            yield ReadPassage(source, sentences, context, is_list_item=True)


def prose_candidates(passage: ReadPassage, request: ListRequest) -> list[ItemCandidate]:
    """The names of a passage, each with the sentences about it.

    What a sentence says that goes on about what is before it, as "She sank off Hull" does, is said of the names there. Pronouns and the
    words of the request are no names.
    """
    named = {span: (_clean(name), entity) for span, (name, entity) in _named_spans(passage).items() if not _is_generic(name, request)}
    grouped: dict[str, list[tuple[int, int]]] = {}
    for span, (name, entity) in sorted(named.items()):
        grouped.setdefault(entity or name.casefold(), []).append(span)
    about: dict[str, list[int]] = {key: [] for key in grouped}
    topic: list[str] = []
    for n, sentence in enumerate(passage.sentences):
        own = [key for key, where in grouped.items() if any(sentence.start <= a < sentence.end for a, _ in where)]
        starts = any(sentence.start <= a <= sentence.start + MAX_ARTICLE_CHARS for a, _ in named)
        if own and (starts or not _GOES_ON.search(sentence.text)):
            topic = own
        for key in dict.fromkeys([*own, *topic]):
            about[key].append(n)
    found = [_prose_candidate(passage, request, named[where[0]], where, about[key]) for key, where in grouped.items()]
    for n, candidate in enumerate(found):
        candidate.evidence.is_first = not n
    return found


def _is_generic(name: str, request: ListRequest) -> bool:
    """Whether a name has no other words than pronouns and the like, those of the request, and the noun asked for."""
    words, asked = (set(re.findall(r"[^\W_]+", text.casefold())) for text in (name, request.text))
    return all(w in asked or w in STOP_WORDS or (request.head and likeness(request.head, w) >= MIN_LIKENESS) for w in words)


def _named_spans(passage: ReadPassage) -> dict[tuple[int, int], tuple[str, str]]:
    """Span in the document → name and entity id: of the head of a list item, of codes, and of mentions."""
    text = passage.source.document.text
    named: dict[tuple[int, int], tuple[str, str]] = {}
    if passage.is_list_item:
        start, end = _head_of_item(text, passage.start, passage.end)
        named[start, end] = (text[start:end], "")
    for a, b in ((m.start(), m.end()) for m in _CODE.finditer(text, passage.start, passage.end)):
        if not any(c < b and a < d for c, d in named):
            named[a, b] = (text[a:b], "")
    for m in passage.mentions:
        if not any(a < m.end and m.start < b for a, b in named):
            named[m.start, m.end] = (m.name, m.entity_id)
    return named


def _prose_candidate(
    passage: ReadPassage,
    request: ListRequest,
    named: tuple[str, str],
    where: Sequence[tuple[int, int]],
    about: Sequence[int],
) -> ItemCandidate:
    """The candidate of a name at the spans `where`, with the numbers of the sentences about it."""
    sentences, (name, entity) = passage.sentences, named
    own = [n for n in about if any(sentences[n].start <= a < sentences[n].end for a, _ in where)]
    evidences = {n: text_evidence(request, sentences[n].text, "") for n in about}
    telling = [n for n in about if evidences[n].is_telling]
    said = " ".join(sentences[n].text for n in sorted({own[0], *(telling or about)}))
    evidence = text_evidence(request, said, passage.context)
    best = max(about, key=lambda n: (evidences[n].strength, -n))
    first = max((n for n in own if n <= best), default=own[0])
    return ItemCandidate(name, passage.source, sentences[min(first, best)].start, sentences[best].end, evidence, entity)


def _head_of_item(text: str, start: int, end: int) -> tuple[int, int]:
    """The name of a list item: its text up to a dash, colon, comma, bracket or full stop."""
    line = text[start:end]
    first = m.end() if (m := _BULLET.match(line)) else 0
    stop = m.start() if (m := _NAME_END.search(line, first + 1)) else len(line.rstrip())
    return start + first, start + max(first + 1, stop)


def _clean(name: str) -> str:
    """A name on one line without emphasis around it and an article before it."""
    return _ARTICLES.sub("", _EMPHASIS.sub("", collapse_whitespace(name)).strip(" .,;:")) or name
