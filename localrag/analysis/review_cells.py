"""The cell of a review: a short answer of the kind that is asked for, its quote, and how sure it is; or that nothing is stated."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice

import numpy as np
from rapidfuzz import fuzz

from localrag.analysis.amounts import find_amounts
from localrag.analysis.reading import entailments
from localrag.analysis.review_questions import AnswerKind, ReviewQuestion
from localrag.analysis.review_reading import MIN_SENTENCE_CHARS, DocumentSection, SectionReading, UnitReading
from localrag.analysis.tables import Cell, CellState
from localrag.dates.date_mentions import find_dates
from localrag.llm.reader import Entailment
from localrag.project import Project
from localrag.query.passages import MIN_SHORT_SCORE, is_short_answer
from localrag.query.question_kind import question_kind
from localrag.records import Citation
from localrag.text.language import detect_language
from localrag.text.sentences import cached_sentences, collapse_whitespace, is_cjk

CELL_VERSION = 4  # of the rules below: another one makes all cells anew that no person decided
MAX_ITEMS = 30  # of a list
MAX_TEXT_CHARS = 300  # of a sentence that is shown for want of a short answer
MAX_DISTANCE_CHARS = 200  # between a short answer and the date or amount that is meant
MAX_RELEVANCE_GAP = 3.0  # log odds between the best unit and one whose date or amount is taken
UNITS_WEIGHED = 4  # best units, of which each is held against a statement
MIN_NAMED_RATIO, MIN_FUZZY_CHARS = 90, 6  # of 100, from which on a text names an answer of so many characters
OTHER_CHOICES = frozenset("other others else andere anderes sonstige otro otros autre autres altro overig 其他 その他".split())
_WORDS = re.compile(r"[^\W_]+")
MIN_STATED = 0.0  # log odds
MIN_RELEVANCE = 0.0  # the reader's own log odds, from which on an answer is shown that is uncertain
UNCERTAIN = "Uncertain: this comes nearest."
PASSAGE_ONLY = "This is the passage. A chat model (--model) can decide yes or no."
MIN_ENTAILED = 0.7  # a probability
# Logistic weights of the best relevance, of the question's words in a sentence, of its cosine, and of 1.
STATED_WEIGHTS = (0.75, 1.2, 1.2, -1.0)  # nine in ten of what contracts state is found: scripts/measure/review.py


def make_cells(
    questions: Sequence[ReviewQuestion], reads: Sequence[SectionReading], section: DocumentSection, project: Project
) -> list[Cell]:
    """The cells of the questions for which a section was read. Raises UsageError without the reader, ModelError."""
    pairs = [_weighed_pairs(question, read, section) for question, read in zip(questions, reads, strict=True)]
    found = iter(entailments([*chain.from_iterable(pairs)], project))
    cells = [_make_cell(q, r, [*islice(found, len(p))], section) for q, r, p in zip(questions, reads, pairs, strict=True)]
    return [
        _with_few_words(cell, q, r, section) if q.kind is AnswerKind.TEXT and question_kind(q.text, project).wants_few_words else cell
        for cell, q, r in zip(cells, questions, reads, strict=True)
    ]


def _may_answer(read: SectionReading) -> bool:
    return stated_log_odds(read) >= MIN_STATED or (bool(read.units) and read.units[0].reading.relevance >= MIN_RELEVANCE)


def _weighed_pairs(question: ReviewQuestion, read: SectionReading, section: DocumentSection) -> list[tuple[str, str]]:
    """Texts with the statements they may entail, by which one of several named answers is chosen."""
    if not _may_answer(read):
        return []
    texts = [section.text(u.unit) for u in read.units[:UNITS_WEIGHED]]
    if question.kind is AnswerKind.CHOICE:
        asked = question.text.rstrip("?？ ")
        return [(text, f"{asked}: {choice}.") for choice in question.choices for text in texts]
    return []


def _make_cell(question: ReviewQuestion, read: SectionReading, found: Sequence[Entailment], section: DocumentSection) -> Cell:
    stated = stated_log_odds(read)
    if not _may_answer(read):
        return Cell(state=CellState.NOT_STATED, confidence=_probability(-stated))
    cell = _answered_cell(question, read, found, stated, section)
    return cell if stated >= MIN_STATED or cell.state is CellState.NOT_STATED else replace(cell, note=UNCERTAIN)


def _answered_cell(
    question: ReviewQuestion, read: SectionReading, found: Sequence[Entailment], stated: float, section: DocumentSection
) -> Cell:
    if question.kind is AnswerKind.YES_NO:
        return _clause(read.units[0], stated, section)
    if question.kind is AnswerKind.CHOICE:
        return _choice(question, read, found, stated, section)
    if question.kind is AnswerKind.LIST:
        return _items(read, stated, section)
    if question.kind is AnswerKind.TEXT:
        return _text(read, stated, section)
    return _value(question.kind, read, stated, section)


def stated_log_odds(read: SectionReading) -> float:
    """The log odds that a section answers the question that it was read for."""
    if not read.units:
        return -math.inf
    best = max(unit.reading.relevance for unit in read.units)
    return float(np.dot(STATED_WEIGHTS, (best, read.word_share, read.cosine, 1.0)))


def _probability(log_odds: float) -> float:
    return 1 / (1 + math.exp(-max(-30.0, log_odds)))


def _cite_sentence(unit: UnitReading, start: int, end: int, section: DocumentSection) -> Citation:
    """The citation of the sentence of a unit that holds a span of the document, with the sentence before a short one."""
    text = section.text(unit.unit)
    spans = [s for s in cached_sentences(text) if unit.unit.start + s.end > start]
    if not spans:
        return section.cite(unit.unit.start, unit.unit.end, unit.unit)
    return section.cite(unit.unit.start + spans[0].start, max(end, unit.unit.start + spans[0].end), unit.unit)


def _shortened(text: str) -> str:
    flat = collapse_whitespace(text)
    return flat if len(flat) <= MAX_TEXT_CHARS else f"{flat[: MAX_TEXT_CHARS - 1]}…"


def _text(read: SectionReading, stated: float, section: DocumentSection) -> Cell:
    """The sentence that holds the likeliest short answer of the best unit; a heading with the sentence after it."""
    unit = read.units[0]
    cited = _cite_sentence(unit, *unit.span, section)
    if cited.end - cited.start < MIN_SENTENCE_CHARS:
        after = (s.end for s in section.sentences if s.window == unit.unit.window and s.start >= cited.end)
        cited = section.cite(cited.start, min(after, default=cited.end), unit.unit)
    return Cell(_shortened(cited.quote), (cited,), confidence=_probability(stated))


def _with_few_words(cell: Cell, question: ReviewQuestion, read: SectionReading, section: DocumentSection) -> Cell:
    """The cell of a stated answer with the short answer that the reader is sure of, if it is a name or a number; else as it is."""
    if cell.state is CellState.NOT_STATED:
        return cell
    unit = max(read.units, key=lambda u: u.reading.score)
    start, end = unit.span
    text = section.source.document.text[start:end].rstrip(".,;")
    is_telling = is_cjk(text) or any(char.isupper() or char.isdigit() for char in text)
    if unit.reading.score < MIN_SHORT_SCORE or not is_telling or not is_short_answer(question.text, text):
        return cell
    return replace(cell, text=_shortened(text), citations=(_cite_sentence(unit, start, end, section),))


def _value(kind: AnswerKind, read: SectionReading, stated: float, section: DocumentSection) -> Cell:
    """The date or amount nearest the short answer of the best unit that has one; another value in a sure unit contradicts it."""
    near = [u for u in read.units if u.reading.relevance >= read.units[0].reading.relevance - MAX_RELEVANCE_GAP]
    found = [one for unit in near if (one := _nearest_value(kind, unit, section)) is not None]
    if not found:
        return Cell(state=CellState.NOT_STATED)
    text, value, cited, unit = found[0]
    for other_text, other_value, other_cited, other in found[1:]:
        if (
            other_value != value
            and min(unit.reading.relevance, other.reading.relevance) > 0
            and other.reading.score >= unit.reading.score / 2
        ):
            return Cell(f"{text} / {other_text}", (cited, other_cited), CellState.CONTRADICTORY, _probability(stated), value)
    return Cell(text, (cited,), confidence=_probability(stated), value=value)


def _bounds(unit: UnitReading) -> tuple[int, int]:
    return unit.unit.start, unit.unit.end


def _nearest_value(kind: AnswerKind, unit: UnitReading, section: DocumentSection) -> tuple[str, str | float, Citation, UnitReading] | None:
    """The value of a unit nearest its short answer: its text, the value, its citation."""
    text = section.text(unit.unit)
    spans: Iterable[tuple[int, int, str | float]]
    if kind is AnswerKind.DATE:
        spans = [(d.start, d.end, str(d.value)) for d in find_dates(text, section.source.own_date, detect_language(text)).mentions]
    else:
        spans = [(a.start, a.end, a.value) for a in find_amounts(text)]
    first, last = unit.reading.start, unit.reading.end
    best = min(spans, key=lambda s: (max(0, s[0] - last, first - s[1]), s[0]), default=None)
    if best is None or max(0, best[0] - last, first - best[1]) > MAX_DISTANCE_CHARS:
        return None
    start, end = unit.unit.start + best[0], unit.unit.start + best[1]
    return collapse_whitespace(text[best[0] : best[1]]), best[2], _cite_sentence(unit, start, end, section), unit


def _items(read: SectionReading, stated: float, section: DocumentSection) -> Cell:
    """The short answers of all units of which the reader is sure, each once."""
    items: dict[str, tuple[str, Citation]] = {}
    for unit in read.units:
        start, end = unit.span
        item = collapse_whitespace(section.source.document.text[start:end]).strip(".,; ")
        is_within = any(item.casefold() in known or known in item.casefold() for known in items)
        if unit.reading.score >= MIN_SHORT_SCORE and item and not is_within:
            items[item.casefold()] = item, _cite_sentence(unit, start, end, section)
    if not items:
        return _text(read, stated, section)
    chosen = list(items.values())[:MAX_ITEMS]
    return Cell("; ".join(i for i, _ in chosen), tuple(c for _, c in chosen), confidence=_probability(stated), value=float(len(items)))


def _clause(unit: UnitReading, stated: float, section: DocumentSection) -> Cell:
    """The passage that a question of yes or no is about: the reader does not tell a permission from a prohibition."""
    cited = section.cite(*_bounds(unit), unit.unit)
    return Cell(_shortened(cited.quote), (cited,), confidence=_probability(stated), note=PASSAGE_ONLY)


def _choice(question: ReviewQuestion, read: SectionReading, found: Sequence[Entailment], stated: float, section: DocumentSection) -> Cell:
    """The one of the named answers that a unit entails most, behind the question; one that stands in it counts for more."""
    units = read.units[:UNITS_WEIGHED]
    texts, read_of = [section.text(u.unit) for u in units], iter(found)
    answers = {
        choice: [(next(read_of).entailed + 2 * _is_named(choice, text) - 0.1 * n) / (2 * MIN_ENTAILED) for n, text in enumerate(texts)]
        for choice in question.choices
    }
    rest = [choice for choice in question.choices if choice.casefold() in OTHER_CHOICES]
    named = {choice: values for choice, values in answers.items() if choice not in rest}
    if rest and max(max(values) for values in named.values()) < 1:
        return replace(_decide({rest[0]: [1.0]}, units, stated, section), confidence=_probability(stated) / 2)
    return _decide(named, units, stated, section)


def _is_named(choice: str, text: str) -> bool:
    """Whether a text names an answer; a short one only as a word of its own."""
    if len(choice) < MIN_FUZZY_CHARS:
        return choice.casefold() in _WORDS.findall(text.casefold())
    return fuzz.partial_ratio(choice.casefold(), text.casefold()) >= MIN_NAMED_RATIO


def _decide(answers: Mapping[str, Sequence[float]], units: Sequence[UnitReading], stated: float, section: DocumentSection) -> Cell:
    """The answer with the surest unit, from 1 on; without a sure one the sentence that comes nearest."""
    best = {answer: int(np.argmax(values)) for answer, values in answers.items()}
    first = max(answers, key=lambda answer: answers[answer][best[answer]])
    sure = answers[first][best[first]]
    unit = units[best[first]] if sure >= 1 else units[0]
    cited = section.cite(*_bounds(unit), unit.unit)
    if sure < 1:
        return Cell(_shortened(cited.quote), (cited,), confidence=_probability(stated) * sure, note="Neither is certain.")
    return Cell(first, (cited,), confidence=_probability(stated))
