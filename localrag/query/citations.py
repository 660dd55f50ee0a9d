"""Verified citations: drafts become answers whose citations have a file, a character range and a verbatim quote.

What a model wrote is checked unit by unit (`attribution`), and gets a mark for each source that proves it, or for its state. Its Markdown
stays as it is. Citation marks in texts of documents and models are escaped.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b

from sqlite_utils import Database

from localrag.query.answer_markdown import AnswerUnit, UnitKind, parse_units
from localrag.query.attribution import SupportCheck, Verdict, unit_verdict
from localrag.query.question import NO_CALLBACKS, AnswerCallbacks, AnswerDraft, AnswerPoint, DraftSource
from localrag.records import (
    CONTRADICTED_STATE,
    SENTENCE_STATES,
    SUPPORTED_STATE,
    UNSUPPORTED_STATE,
    AnswerPassage,
    AnswerSentence,
    Citation,
    Document,
    Quote,
)
from localrag.store import documents as documents_store
from localrag.text.outline import Outline
from localrag.text.quotes import quote_text
from localrag.text.sentences import RepetitionFilter, collapse_whitespace

ANSWER_MARK = re.compile(rf"\[([0-9]+|{'|'.join(SENTENCE_STATES[1:])})\]")  # a citation, or the state of an unproved sentence
# Control characters, including those that change the direction of text.
_CONTROL_CHARACTERS = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def escape_marks(text: str) -> str:
    r"""Escape the text's own `[n]` or `[unsupported]` as `\[n\]`, so that they are not read as marks; Markdown shows `[n]`."""
    return ANSWER_MARK.sub(r"\\[\1\\]", text)


def round_marks(text: str) -> str:
    """Replace the text's own `[n]` by `(n)` for prompts: a model may copy it, and its grammar allows square brackets only in real marks."""
    return ANSWER_MARK.sub(r"(\1)", text)


def to_one_line(text: str) -> str:
    """The text on one line, control characters replaced by U+FFFD, so that they cannot change how it is displayed."""
    return _CONTROL_CHARACTERS.sub("\ufffd", " ".join(text.split()))


def fence_texts(tag: str, texts: Sequence[str]) -> Callable[[str], str]:
    """A function that puts each of the texts between tags whose name occurs in none of them, so that no text can close its tag."""
    name = tag
    while any(name in text.casefold() for text in texts):
        name = f"{tag}-{blake2b(''.join([name, *texts]).encode(errors='surrogatepass'), digest_size=6).hexdigest()}"
    return lambda text: f"<{name}>\n{text}\n</{name}>"


@dataclass(frozen=True, slots=True)
class CitedAnswer:
    """The text of an answer with `[n]` after each point, its citations, and the state of each of its sentences.

    `counts`: sentences of each state, in the order of SENTENCE_STATES, including those omitted from the text; `sentences`: only those in
    the text. `citation_marks`: offsets of all `[n]` in the text, with n, since quoted documents may contain such marks themselves.
    `n_repeated`: sentences omitted because they repeat others or themselves.
    """

    text: str
    citations: tuple[Citation, ...]
    counts: tuple[int, ...] = (0, 0, 0, 0)
    n_repeated: int = 0
    citation_marks: tuple[tuple[int, int], ...] = ()
    sentences: tuple[AnswerSentence, ...] = ()
    passages: tuple[AnswerPassage, ...] = ()

    def count(self, state: str) -> int:
        """Number of sentences with this state."""
        return self.counts[SENTENCE_STATES.index(state)]


_ENDS_IN_FENCE = re.compile(r"(?:^|\n)[ \t]*(?:`{3,}|~{3,})[ \t]*$")
MIN_REPEATED_WORDS = 4  # a shorter sentence or item may occur twice
MAX_QUOTE_CHARS = 300  # of the source after a contradicted sentence


class Citer:
    """Receives the points of an answer one by one and adds each to the text, checked and with numbered citations.

    A unit that a model wrote is cited by the sentences of its sources that support it. Otherwise it is marked with its state, and cited by
    the nearest sentence if related or contradicted; with `strict` it is omitted, and so is a heading with nothing below it. Repeated
    sentences are omitted. A quote that is not verbatim in its document is not cited. `watch` receives every citation and every new part of
    the text.
    """

    def __init__(
        self, db: Database, check: SupportCheck, *, strict: bool = False, bullets: bool = False, watch: AnswerCallbacks = NO_CALLBACKS
    ) -> None:
        self._check, self._strict, self._bullets, self._watch = check, strict, bullets, watch
        self._verified = _verifier(db)
        self._numbers: dict[Quote, int] = {}
        self._citations: list[Citation] = []
        self._text = ""
        self._places: list[tuple[int, int]] = []
        self._sentences: list[AnswerSentence] = []
        self._counts = dict.fromkeys(SENTENCE_STATES, 0)
        self._said = RepetitionFilter()
        self._passages: list[AnswerPassage] = []
        self._waiting: list[AnswerUnit] = []  # layout that is added with what stands below it
        self._omitted_before: str | None = None  # layout in front of a unit that was left out
        self._previous = ""  # claim
        self._taken = self._repeated = 0

    def add(self, point: AnswerPoint) -> None:
        """Add the next point of the answer."""
        self._taken += 1
        before = "\n\n" * bool(self._text) + (f"**{point.title}**\n" if point.title else "") + "- " * self._bullets
        if point.passage:
            self._add_passage(point, *point.passage)
        elif point.unit:
            self._add_unit(point.unit, point)
        elif point.is_generated:
            for n, unit in enumerate(parse_units(point.text)):
                self._add_unit(unit if n else replace(unit, before=before + unit.before), point)
        elif point.title and len(point.quotes) > 1:
            for n, quote in enumerate(point.quotes):
                self._say_unit(
                    AnswerUnit(UnitKind.SENTENCE, quote_text(quote), "\n- " if n else f"{before}- "), Verdict(SUPPORTED_STATE, (quote,))
                )
        else:
            self._say_unit(AnswerUnit(UnitKind.SENTENCE, point.text, before), Verdict(SUPPORTED_STATE, point.quotes))

    def _add_unit(self, unit: AnswerUnit, point: AnswerPoint) -> None:
        """Add a unit that a model wrote, unless it repeats another, or is unproved and `strict`."""
        if self._omitted_before is not None and "\n" not in unit.before:
            unit = replace(unit, before=self._omitted_before)  # the rest of a list item, or of a paragraph
        self._omitted_before = None
        if not self._text and not self._waiting:
            unit = replace(unit, before=unit.before.lstrip("\n"))
        if unit.kind is UnitKind.LAYOUT:
            self._waiting.append(unit)
            if not self._strict:
                self._say_waiting()
            return
        if unit.kind is UnitKind.SENTENCE and len(unit.claim.split()) >= MIN_REPEATED_WORDS and not self._said.is_new(unit.claim):
            self._repeated += 1
            self._omitted_before = unit.before
            return
        verdict = unit_verdict(unit, point.quotes, point.given, self._check, self._previous)
        self._previous = unit.claim if unit.kind is UnitKind.SENTENCE else ""
        if verdict is None:
            self._say_waiting()
            self._say(escape_marks(unit.before + unit.text))
        elif not self._say_unit(unit, verdict):
            self._omitted_before = unit.before

    def _say_waiting(self, kind: UnitKind = UnitKind.LAYOUT) -> None:
        """Add the layout that waits; above a unit of another kind than a row, not the head of a table that lost its rows."""
        for unit in self._waiting:
            if kind in (UnitKind.LAYOUT, UnitKind.ROW) or not unit.text.lstrip().startswith("|"):
                self._say(escape_marks(unit.before + unit.text))
        self._waiting = []

    def _add_passage(self, point: AnswerPoint, headings: tuple[str, ...], marked: tuple[int, int] | None) -> None:
        """Add a passage as it stands, below its file and headings."""
        numbers = self._cite(point.quotes)
        if not numbers:
            return
        citation, quote = self._citations[numbers[0] - 1], point.quotes[0]
        place = to_one_line(replace(citation, headings=headings).place())
        before = "\n\n" * bool(self._text) + f"**{place}**\n"
        span = None if marked is None else (marked[0] - quote.start, marked[1] - quote.start)
        self._passages.append(AnswerPassage(citation.n, citation.path, headings, quote.start, quote.end, quote.text, span))
        if self._watch.on_passage:
            self._watch.on_passage(self._passages[-1])
        self._say_unit(AnswerUnit(UnitKind.SENTENCE, quote.text, before), Verdict(SUPPORTED_STATE, point.quotes))

    def result(self, draft: AnswerDraft | None = None) -> CitedAnswer:
        """The answer, after adding the remaining points of its draft; without a draft, the answer so far."""
        if draft:
            self._bullets |= draft.is_list
            if draft.opening and not self._taken:
                self._say(escape_marks(draft.opening))
            for point in draft.points[self._taken :]:
                self.add(point)
        counts = tuple(self._counts.values())
        marks, sentences = tuple(self._places), tuple(self._sentences)
        return CitedAnswer(self._text, tuple(self._citations), counts, self._repeated, marks, sentences, tuple(self._passages))

    def _cite(self, quotes: Sequence[Quote]) -> list[int]:
        """The numbers of the verbatim quotes."""
        numbers = []
        for quote in dict.fromkeys(quotes):
            if quote not in self._numbers and (citation := self._verified(quote, len(self._citations) + 1)):
                self._numbers[quote] = citation.n
                self._citations.append(citation)
                if self._watch.on_citation:
                    self._watch.on_citation(citation)
            if quote in self._numbers:
                numbers.append(self._numbers[quote])
        return numbers

    def _say_unit(self, unit: AnswerUnit, verdict: Verdict) -> bool:
        """Add a unit, the source's words if they contradict it, its state if it is not supported, and its citation marks.

        Whether it was added: with `strict` only what is supported is.
        """
        if self._strict and verdict.state != SUPPORTED_STATE:
            self._counts[verdict.state] += 1
            return False
        numbers = self._cite(verdict.quotes)
        state = verdict.state if numbers else UNSUPPORTED_STATE
        self._counts[state] += 1
        if self._strict and not numbers:
            return False
        self._say_waiting(unit.kind)
        is_code, is_row = unit.kind is UnitKind.CODE, unit.kind is UnitKind.ROW
        before = escape_marks(unit.before)
        text = unit.text if is_code else escape_marks(unit.text.rstrip().removesuffix("|").rstrip() if is_row else unit.text)
        start = len(self._text) + len(before)
        self._sentences.append(AnswerSentence(start, start + len(text), state, tuple(numbers)))
        new = f"{before}{text}" + ("\n" if is_code or _ENDS_IN_FENCE.search(text) else " ")
        if state == CONTRADICTED_STATE:
            source_text = escape_marks(collapse_whitespace(verdict.quotes[0].text))
            shown = source_text if len(source_text) <= MAX_QUOTE_CHARS else source_text[: MAX_QUOTE_CHARS - 1] + "…"
            new += f"≠ “{shown.replace('|', '/') if is_row else shown}” "
        new += f"[{state}]" * (state != SUPPORTED_STATE)
        for n in numbers:
            self._places.append((len(self._text) + len(new), n))
            new += f"[{n}]"
        self._say(new + " |" * is_row)
        return True

    def _say(self, new: str) -> None:
        self._text += new
        if self._watch.on_text:
            self._watch.on_text(new)


def _verifier(db: Database) -> Callable[[Quote, int], Citation | None]:
    """A function that turns a quote into citation `n` if it is verbatim in its document; each document is read once."""
    documents: dict[str, Document | None] = {}
    outlines: dict[str, Outline] = {}

    def verified(quote: Quote, n: int) -> Citation | None:
        path = documents_store.document_path(db, quote.chunk_id)
        if path not in documents:
            documents[path] = documents_store.find_document(db, path)
        document = documents[path]
        if document is None or document.text[quote.start : quote.end] != quote.text:
            return None
        part = next((p.label for p in document.parts if p.start <= quote.start < p.end), "")
        if path not in outlines:
            outlines[path] = Outline(document.text, document.blocks)
        headings = outlines[path].headings_at(quote.start)
        return Citation(n, path, quote.start, quote.end, quote.text, quote.chunk_id, part, headings)

    return verified


def unit_point(unit: AnswerUnit, sources: Sequence[DraftSource]) -> AnswerPoint:
    """A unit of an answer from numbered sources, with the quotes of those that it cites; other numbers are dropped."""
    quotes = tuple(dict.fromkeys(q for n in unit.cited if 1 <= n <= len(sources) for q in sources[n - 1].quotes))
    given = tuple(dict.fromkeys(q for source in sources for q in source.quotes))
    return AnswerPoint(unit.claim or unit.text, quotes, is_generated=True, given=given, unit=unit)
