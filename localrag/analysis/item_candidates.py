"""Candidates for the items of a list: records of tables, list items, and names and other spans in sentences."""

import re
import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from localrag.analysis.item_evidence import ItemEvidence, assume_the_rest, record_evidence, text_evidence
from localrag.analysis.list_request import TYPE_OF_NOUN, ListRequest, RequestWord
from localrag.analysis.placed_sentences import OpenedDocument, PlacedSentence
from localrag.analysis.request_words import compared_labels, is_about, meant_columns
from localrag.analysis.text_records import Cells, RecordTable, TextRecord, is_identifier
from localrag.llm.reader import PassageReading
from localrag.records import Mention
from localrag.text.outline import Block, BlockKind
from localrag.text.sentences import cached_sentences, collapse_whitespace

MIN_SPAN_SCORE = -6.0  # log odds of an answer in a sentence from which on it is a candidate
MIN_LETTER_SHARE = 0.3  # of a sentence that is read: others are numbers
PASSAGE_CHARS = 700  # of sentences that are read together
MIN_HEAD_FULLNESS = 0.6  # of a value that is the noun asked for, from which on that noun is a condition
MAX_SAMPLED_RECORDS = 200  # of a table, by which the columns with numbers are told
MAX_NAME_WORDS, MAX_NAME_CHARS = 12, 80
_BULLET = re.compile(r"^\s*(?:[-*+•‣▪◦·]|\(?(?:\d{1,3}|[a-zA-Z])[.)])\s+(?:\[[ xX]\]\s+)?")
_NAME_END = re.compile(r"\s[–—-]\s|[:：;(（\[]|,\s|\.\s|，|。")
_JOINTS = re.compile(r",\s*(?:and|or|und|oder|et|y|e|en)\s+|\s+(?:and|or|und|oder|et|y)\s+|,\s+|;\s+|、|和|及|\s&\s")
_EMPHASIS = re.compile(r"^[*_`\"“'‘]+|[*_`\"”'’]+$")
_ARTICLES = re.compile(r"^(?:the|an?|der|die|das|ein|eine|le|la|les|un|une|el|los|las)\s+", re.IGNORECASE)


@dataclass(slots=True)
class ItemCandidate:
    """A candidate: what it is called, the quote that may show it, and the text that the reader judges.

    `identity`: what makes it one item among others, for a record without a name; `entity_id`: that of the graph, if it is known there.
    """

    name: str
    source: OpenedDocument
    start: int
    end: int
    premise: str
    evidence: ItemEvidence
    entity_id: str = ""
    identity: tuple[str, ...] = ()
    pattern: str = ""  # the judged cells without the name: records that share it are judged once
    cells: Cells = ()  # of a record
    key_labels: tuple[str, ...] = ()  # of those that name it


@dataclass(slots=True)
class ReadPassage:
    """Adjacent sentences of a block, or a list item, read together. `context`: the headings, title and lead-in above it."""

    source: OpenedDocument
    sentences: list[PlacedSentence]
    context: str
    is_list_item: bool = False
    readings: list[PassageReading] = field(default_factory=list)  # of each sentence
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
        found.append(ItemCandidate(name, *place, "", evidence, identity=identity, cells=record.cells, key_labels=keys))
    assume_the_rest(request, [c.evidence for c in found])
    _choose_premises(names, compared, found)
    return found


def _context_of(record: TextRecord) -> str:
    document = record.source.document
    return " ".join((*record.source.outline.headings_at(record.start), document.title, PurePosixPath(document.path).stem))


def _choose_premises(names: Sequence[str], compared: Sequence[str | None], found: Sequence[ItemCandidate]) -> None:
    """Let the reader judge only the cells that name the record or have to do with the request; all where none has."""
    told = {hit.label for c in found for hit in c.evidence.hits if hit.share} | {*filter(None, compared)}
    for candidate in found:
        shown = [(label, value) for label, value in candidate.cells if not told or label in told or label in names]
        candidate.premise = _row_text(shown)
        candidate.pattern = _row_text([cell for cell in shown if cell[0] not in names])


def _row_text(cells: Sequence[tuple[str, str]]) -> str:
    return " · ".join(f"{label}: {value}" if label else value for label, value in cells)


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


def prose_candidates(passage: ReadPassage, request: ListRequest, types: Mapping[str, str]) -> list[ItemCandidate]:
    """The names of a passage and the answers that the reader found in its sentences, each with the sentences about it.

    `types`: entity id → type. What a sentence without a name says is said of the names before it.
    """
    named = _named_spans(passage)
    grouped: dict[str, list[tuple[int, int]]] = {}
    for span, (name, entity) in sorted(named.items()):
        grouped.setdefault(entity or name.casefold(), []).append(span)
    names_of_sentence = [[key for key, where in grouped.items() if any(s.start <= a < s.end for a, _ in where)] for s in passage.sentences]
    return [_prose_candidate(passage, request, key, named[where[0]], where, names_of_sentence, types) for key, where in grouped.items()]


def _named_spans(passage: ReadPassage) -> dict[tuple[int, int], tuple[str, str]]:
    """Span in the document → name and entity id: of the head of a list item, of mentions, and of answers that are no mention."""
    text = passage.source.document.text
    named: dict[tuple[int, int], tuple[str, str]] = {}
    if passage.is_list_item:
        start, end = _head_of_item(text, passage.start, passage.end)
        named[start, end] = (text[start:end], "")
    for m in passage.mentions:
        if not any(a < m.end and m.start < b for a, b in named):
            named[m.start, m.end] = (m.name, m.entity_id)
    for a, b in (piece for span in _answers(passage) for piece in split_span(text, *span)):
        if not any(c < b and a < d for c, d in named):
            named[a, b] = (text[a:b], "")
    return named


def _answers(passage: ReadPassage) -> list[tuple[int, int]]:
    """The spans that the reader found in the sentences of a passage, as offsets in the document."""
    read = zip(passage.sentences, passage.readings, strict=False)
    return [(s.start + r.start, s.start + r.end) for s, r in read if r.score >= MIN_SPAN_SCORE and r.end > r.start]


def _prose_candidate(
    passage: ReadPassage,
    request: ListRequest,
    key: str,
    named: tuple[str, str],
    where: Sequence[tuple[int, int]],
    names_of_sentence: Sequence[Sequence[str]],
    types: Mapping[str, str],
) -> ItemCandidate:
    sentences, (name, entity) = passage.sentences, named
    own = [n for n, names in enumerate(names_of_sentence) if key in names]
    about = [n for n in range(own[0], len(sentences)) if n in own or (not names_of_sentence[n] and _last_named(names_of_sentence, n, key))]
    evidences = {n: text_evidence(request, sentences[n].text, "") for n in about}
    telling = [n for n in about if evidences[n].is_telling]
    premise = " ".join(sentences[n].text for n in sorted({own[0], *(telling or about)}))
    evidence = text_evidence(request, premise, passage.context)
    relevance = {n: passage.readings[n].relevance for n in about} if passage.readings else dict.fromkeys(about, 0.0)
    best = max(about, key=lambda n: (evidences[n].strength, relevance[n], -n))
    evidence.is_own_sentence = best in own
    evidence.reading = max((passage.readings[n] for n in about), key=lambda r: r.relevance) if passage.readings else None
    evidence.is_span_on_item = any(a < e and s < b for a, b in _answers(passage) for s, e in where)
    evidence.type_fit = type_fit(request, types.get(entity, ""))
    first = best if best in own else max(n for n in own if n < best)
    return ItemCandidate(_clean(name), passage.source, sentences[first].start, sentences[best].end, premise, evidence, entity_id=entity)


def _last_named(names_of_sentence: Sequence[Sequence[str]], n: int, key: str) -> bool:
    before = next((names for names in reversed(names_of_sentence[:n]) if names), ())
    return key in before


def _head_of_item(text: str, start: int, end: int) -> tuple[int, int]:
    """The name of a list item: its text up to a dash, colon, comma, bracket or full stop."""
    line = text[start:end]
    first = m.end() if (m := _BULLET.match(line)) else 0
    stop = m.start() if (m := _NAME_END.search(line, first + 1)) else len(line.rstrip())
    return start + first, start + max(first + 1, stop)


def split_span(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """The parts of a span that are joined by commas or "and", without the space around them; long ones are left out."""
    parts, at = [], start
    for m in [*_JOINTS.finditer(text, start, end), None]:
        last = m.start() if m else end
        piece = text[at:last]
        a, b = at + len(piece) - len(piece.lstrip()), last - len(piece) + len(piece.rstrip())
        if b > a and b - a <= MAX_NAME_CHARS and len(text[a:b].split()) <= MAX_NAME_WORDS:
            parts.append((a, b))
        at = m.end() if m else end
    return parts


def _clean(name: str) -> str:
    """A name on one line without emphasis around it and an article before it."""
    return _ARTICLES.sub("", _EMPHASIS.sub("", collapse_whitespace(name)).strip(" .,;:")) or name


def type_fit(request: ListRequest, entity_type: str) -> int:
    """1 if an entity's type is that of the noun asked for, -1 if it is another, 0 if either is unknown."""
    if not request.wanted_type or entity_type not in TYPE_OF_NOUN.values():
        return 0
    return 1 if entity_type == request.wanted_type else -1
