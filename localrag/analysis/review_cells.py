"""The cell of a review: a short answer of the kind that is asked for, its quote, and how sure it is; or that nothing is stated."""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from rapidfuzz import fuzz

from localrag.analysis.amounts import find_amounts
from localrag.analysis.dates import find_dates
from localrag.analysis.reading import entailments, read_passages
from localrag.analysis.review_questions import AnswerKind, ReviewQuestion, to_statement
from localrag.analysis.review_reading import DocumentSection, SectionReading, read_section
from localrag.analysis.tables import Cell, CellState
from localrag.project import Project
from localrag.query.passages import MAX_SHORT_WORDS, MIN_SHORT_SCORE
from localrag.query.retriever import word_share
from localrag.records import Citation
from localrag.text.sentences import cached_sentences, collapse_whitespace

CELL_VERSION = 1  # of the rules below: another one makes all cells anew that no person decided
MAX_ITEMS = 30  # of a list
MAX_TEXT_CHARS = 300  # of a sentence that is shown for want of a short answer
SENTENCE_WINDOWS = 3  # best windows whose sentences are read by themselves as well
MIN_NAMED_RATIO = 90  # of 100, from which on a text names an answer
MIN_STATED = 0.0  # log odds
MIN_ENTAILED, MIN_CONTRADICTORY = 0.5, 0.9  # probabilities
# Logistic weights of the best window's relevance, its short answer's log odds, the share of the question's words in it, and of 1.
STATED_WEIGHTS = (0.6, 0.1, 2.0, -1.0)


class EvidenceSpan(NamedTuple):
    """Characters `start` to `end` of a document that may prove an answer, in a window that was read."""

    read: SectionReading
    start: int
    end: int


def make_cell(question: ReviewQuestion, vector: NDArray[np.float32], section: DocumentSection, project: Project) -> Cell:
    """The cell of a question, of which `vector`, (d,), is the embedding. Raises UsageError without the reader, ModelError."""
    read = read_section(question.text, vector, section, project)
    if not read:
        return Cell(state=CellState.NOT_STATED)
    if question.kind is AnswerKind.YES_NO:
        return _yes_or_no(question, read, section, project)
    if question.kind is AnswerKind.CHOICE:
        return _choice(question, read, section, project)
    if question.kind is AnswerKind.LIST:
        return _items(question, read, section, project)
    if question.kind is AnswerKind.TEXT:
        return _text(question, read, section)
    return _value(question, read, section)


def stated_log_odds(question: str, read: Sequence[SectionReading]) -> float:
    """The log odds that a section answers a question, of which the nearest windows were read."""
    best = read[0]
    share = max(word_share(question, " ".join([*r.window.blocks[0].headings, r.window.text])) for r in read)
    span = min(max(best.reading.score, -10.0), 10.0)
    return float(np.dot(STATED_WEIGHTS, (best.reading.relevance, span, share, 1.0)))


def _probability(log_odds: float) -> float:
    return 1 / (1 + math.exp(-log_odds))


def _not_stated(log_odds: float) -> Cell:
    return Cell(state=CellState.NOT_STATED, confidence=_probability(-log_odds))


def _sentence_around(read: SectionReading, start: int, end: int, section: DocumentSection) -> Citation:
    """The citation of the sentence of a window that holds a span of the document."""
    window = read.window
    spans = (s for s in cached_sentences(window.text) if window.start + s.end > start)
    first = next(spans, None)
    if first is None:
        return section.source.cite(start, end, window.chunk_id)
    return section.source.cite(window.start + first.start, max(end, window.start + first.end), window.chunk_id)


def _text(question: ReviewQuestion, read: Sequence[SectionReading], section: DocumentSection) -> Cell:
    """The short answer where the reader is sure of one, else the sentence that holds its likeliest one."""
    sure = stated_log_odds(question.text, read)
    if sure < MIN_STATED:
        return _not_stated(sure)
    best = max(read, key=lambda r: r.reading.relevance + r.reading.score)
    best = best if best.reading.score >= MIN_SHORT_SCORE else read[0]
    start, end = best.span
    cited = _sentence_around(best, start, end, section)
    short = section.source.document.text[start:end]
    is_short = best.reading.score >= MIN_SHORT_SCORE and 0 < len(short.split()) <= MAX_SHORT_WORDS and "\n" not in short
    text = short if is_short else collapse_whitespace(cited.quote)
    return Cell(text if len(text) <= MAX_TEXT_CHARS else f"{text[: MAX_TEXT_CHARS - 1]}…", (cited,), confidence=_probability(sure))


def _value(question: ReviewQuestion, read: Sequence[SectionReading], section: DocumentSection) -> Cell:
    """The date or amount nearest the short answer of the best window that has one; another value in a sure window contradicts it."""
    sure = stated_log_odds(question.text, read)
    found = [one for r in read if (one := _nearest_value(question.kind, r, section)) is not None] if sure >= MIN_STATED else []
    if not found:
        return _not_stated(sure)
    (text, value, cited, reading), *others = found
    for other_text, other_value, other_cited, other_reading in others:
        if other_value != value and min(reading.reading.score, other_reading.reading.score) >= MIN_SHORT_SCORE:
            return Cell(f"{text} / {other_text}", (cited, other_cited), CellState.CONTRADICTORY, _probability(sure), value)
    return Cell(text, (cited,), confidence=_probability(sure), value=value)


def _nearest_value(
    kind: AnswerKind, read: SectionReading, section: DocumentSection
) -> tuple[str, str | float, Citation, SectionReading] | None:
    """The value of a window nearest its short answer: its text, the value, its citation."""
    window, text = read.window, read.window.text
    spans: Iterable[tuple[int, int, str | float]]
    if kind is AnswerKind.DATE:
        spans = [(d.start, d.end, d.value) for d in find_dates(text, section.source.document.date)]
    else:
        spans = [(a.start, a.end, a.value) for a in find_amounts(text)]
    first, last = read.reading.start, read.reading.end
    best = min(spans, key=lambda s: (max(0, s[0] - last, first - s[1]), s[0]), default=None)
    if best is None:
        return None
    start, end, value = best
    if max(0, start - last, first - end) > MAX_TEXT_CHARS:
        return None
    cited = _sentence_around(read, window.start + start, window.start + end, section)
    return collapse_whitespace(text[start:end]), value, cited, read


def _items(question: ReviewQuestion, read: Sequence[SectionReading], section: DocumentSection, project: Project) -> Cell:
    """The short answers of all sentences of the windows, each once."""
    sure = stated_log_odds(question.text, read)
    if sure < MIN_STATED:
        return _not_stated(sure)
    sentences = [(r, r.window.start + s.start, r.window.start + s.end) for r in read for s in islice(cached_sentences(r.window.text), 40)]
    texts = [section.source.document.text[start:end] for _, start, end in sentences]
    items: dict[str, tuple[str, Citation]] = {}
    for (r, start, _), text, reading in zip(sentences, texts, read_passages(question.text, texts, project), strict=True):
        item = collapse_whitespace(text[reading.start : reading.end])
        if reading.score >= MIN_SHORT_SCORE and item and item.casefold() not in items:
            items[item.casefold()] = item, section.source.cite(start, start + len(text), r.window.chunk_id)
    if not items:
        return _text(question, read, section)
    chosen = list(items.values())[:MAX_ITEMS]
    return Cell("; ".join(item for item, _ in chosen), tuple(c for _, c in chosen), confidence=_probability(sure), value=float(len(items)))


def _evidence_of(read: Sequence[SectionReading]) -> list[EvidenceSpan]:
    """The windows, and the sentences around the short answers of the best ones."""
    spans = [EvidenceSpan(r, r.window.start, r.window.end) for r in read]
    for r in read[:SENTENCE_WINDOWS]:
        start, end = r.span
        for s in cached_sentences(r.window.text):
            if r.window.start + s.end > start and r.window.start + s.start <= max(start, end - 1):
                spans.append(EvidenceSpan(r, r.window.start + s.start, r.window.start + s.end))
    return spans


def _yes_or_no(question: ReviewQuestion, read: Sequence[SectionReading], section: DocumentSection, project: Project) -> Cell:
    """Yes where a passage entails the question as a statement, no where one contradicts it."""
    spans, document = _evidence_of(read), section.source.document
    found = entailments([(document.text[s.start : s.end], to_statement(question.text)) for s in spans], project)
    answers = {"Yes": [e.entailed for e in found], "No": [e.contradicted for e in found]}
    return _decide(answers, spans, stated_log_odds(question.text, read), section)


def _choice(question: ReviewQuestion, read: Sequence[SectionReading], section: DocumentSection, project: Project) -> Cell:
    """The one of the named answers that a passage entails most, behind the question; one that stands in it counts for more."""
    spans, document = _evidence_of(read), section.source.document
    texts = [document.text[s.start : s.end] for s in spans]
    asked = question.text.rstrip("?？ ")
    found = iter(entailments([(text, f"{asked}: {choice}.") for choice in question.choices for text in texts], project))
    answers = {
        choice: [(next(found).entailed + (fuzz.partial_ratio(choice.casefold(), text.casefold()) >= MIN_NAMED_RATIO)) / 2 for text in texts]
        for choice in question.choices
    }
    return _decide(answers, spans, stated_log_odds(question.text, read), section)


def _decide(answers: Mapping[str, Sequence[float]], spans: Sequence[EvidenceSpan], stated: float, section: DocumentSection) -> Cell:
    """The answer with the surest passage; two sure ones contradict each other, and without a sure one nothing is stated."""
    if stated < MIN_STATED:
        return _not_stated(stated)
    best = {answer: int(np.argmax(values)) for answer, values in answers.items()}
    ranked = sorted(answers, key=lambda answer: -answers[answer][best[answer]])
    first = ranked[0]
    probability = answers[first][best[first]]
    if probability < MIN_ENTAILED:
        return _not_stated(stated)
    sure = [a for a in ranked[1:] if answers[a][best[a]] >= MIN_CONTRADICTORY and probability >= MIN_CONTRADICTORY]
    cited = []
    for answer in [first, *sure[:1]]:
        span = spans[best[answer]]
        cited.append(section.source.cite(span.start, span.end, span.read.window.chunk_id))
    if sure:
        return Cell(f"{first} / {sure[0]}", tuple(cited), CellState.CONTRADICTORY, probability)
    return Cell(first, tuple(cited), confidence=probability)
