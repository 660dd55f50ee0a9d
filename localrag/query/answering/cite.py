"""Drafts → answers whose citations are verified: each resolves to a file, a character range and a verbatim quote that supports it."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlite_utils import Database

from localrag.query.answering.verify import Check, Verdict
from localrag.query.draft import Draft, Point, Source
from localrag.query.question import NOBODY, Watch
from localrag.records import Citation, Document, Quote
from localrag.states import CONTRADICTED, STATES, SUPPORTED, UNSUPPORTED, Sentence
from localrag.store import corpus
from localrag.text.marks import escape_marks
from localrag.text.plain import Said, sentences, squeeze


@dataclass(frozen=True, slots=True)
class Cited:
    """The text of an answer with `[n]` behind each point, its citations, and the state of each of its sentences.

    `counts` has the number of sentences of each state, in the order of STATES, including those left out of the text; `sentences` has only
    those in the text.
    `marks` are the places of all `[n]` in the text, with their n: a document may have such marks of its own. `repeated` sentences were said
    before, or went round in themselves; they are left out.
    """

    text: str
    citations: tuple[Citation, ...]
    counts: tuple[int, ...] = (0, 0, 0, 0)
    repeated: int = 0
    marks: tuple[tuple[int, int], ...] = ()
    sentences: tuple[Sentence, ...] = ()

    def count(self, state: str) -> int:
        """The number of sentences with this state."""
        return self.counts[STATES.index(state)]


SHORTEST = 10  # characters; less is no sentence that could be checked by itself
MAX_QUOTE_CHARS = 300  # characters of the source behind a contradicted sentence


class Citer:
    """Takes the points of an answer one by one; each stands at once as it will in the answer, checked and with its citations numbered.

    Each sentence that a model wrote is cited by the sentences of its sources that prove it. One that nothing proves is marked with its
    state, and cited by the nearest sentence if it is related to it or contradicted by it; with `strict` it is left out. A repeated
    sentence is left out. A quote that is not in its document is no citation. `watch` is given every citation, and every new stretch of
    the answer's text.
    """

    def __init__(self, db: Database, check: Check, *, strict: bool = False, bullets: bool = False, watch: Watch = NOBODY) -> None:
        self._check, self._strict, self._bullets, self._watch = check, strict, bullets, watch
        self._verified = _verifier(db)
        self._numbers: dict[Quote, int] = {}
        self._citations: list[Citation] = []
        self._text = ""
        self._places: list[tuple[int, int]] = []
        self._sentences: list[Sentence] = []
        self._counts = dict.fromkeys(STATES, 0)
        self._said = Said()
        self._taken = self._repeated = 0

    def take(self, point: Point) -> None:
        """The next point of the answer."""
        self._taken += 1
        before = "\n\n" * bool(self._text) + (f"**{point.title}**\n" if point.title else "") + "- " * self._bullets
        for text in _sentences(point.text) if point.written else [point.text]:
            if point.written and not self._said.is_new(text):
                self._repeated += 1
                continue
            verdict = self._check(text, point.quotes, point.given) if point.written else Verdict(SUPPORTED, point.quotes)
            if self._strict and verdict.state != SUPPORTED:
                self._counts[verdict.state] += 1
                continue
            numbers = self._cite(verdict.quotes)
            state = verdict.state if numbers else UNSUPPORTED
            self._counts[state] += 1
            if self._strict and not numbers:
                continue
            self._say_sentence(before, text, Verdict(state, verdict.quotes), numbers)
            before = " "  # the sentences of a point are one paragraph

    def cited(self, draft: Draft | None = None) -> Cited:
        """The answer, when the points of its draft that were not taken yet are; without a draft, as far as it has come."""
        if draft:
            if draft.opening and not self._taken:
                self._say(escape_marks(draft.opening))
            for point in draft.points[self._taken :]:
                self.take(point)
        counts = tuple(self._counts.values())
        return Cited(self._text, tuple(self._citations), counts, self._repeated, tuple(self._places), tuple(self._sentences))

    def _cite(self, quotes: Sequence[Quote]) -> list[int]:
        """The numbers of the quotes that are in their documents."""
        numbers = []
        for quote in dict.fromkeys(quotes):
            if quote not in self._numbers and (citation := self._verified(quote, len(self._citations) + 1)):
                self._numbers[quote] = citation.n
                self._citations.append(citation)
                if self._watch.citation:
                    self._watch.citation(citation)
            if quote in self._numbers:
                numbers.append(self._numbers[quote])
        return numbers

    def _say_sentence(self, before: str, text: str, verdict: Verdict, numbers: Sequence[int]) -> None:
        """Add a sentence, then the source's words if they contradict it, its state if nothing proves it, and its citation marks."""
        before, text = escape_marks(before), escape_marks(text)
        start = len(self._text) + len(before)
        self._sentences.append(Sentence(start, start + len(text), verdict.state, tuple(numbers)))
        new = f"{before}{text} "
        if verdict.state == CONTRADICTED:
            said = escape_marks(squeeze(verdict.quotes[0].text))
            new += f"≠ “{said if len(said) <= MAX_QUOTE_CHARS else said[: MAX_QUOTE_CHARS - 1] + '…'}” "
        new += f"[{verdict.state}]" * (verdict.state != SUPPORTED)
        for n in numbers:
            self._places.append((len(self._text) + len(new), n))
            new += f"[{n}]"
        self._say(new)

    def _say(self, new: str) -> None:
        """Add to the text."""
        self._text += new
        if self._watch.text:
            self._watch.text(new)


def cite(draft: Draft, db: Database, check: Check, *, strict: bool = False, bullets: bool = False) -> Cited:
    """The answer that a draft becomes, see `Citer`."""
    return Citer(db, check, strict=strict, bullets=bullets).cited(draft)


def _sentences(text: str) -> list[str]:
    """The sentences of a stretch of prose; one too short to be checked stays with the next."""
    found: list[str] = []
    short = False
    for start, end in sentences(text):
        part = squeeze(text[start:end])
        found[len(found) - short :] = [f"{found[-1]} {part}" if short else part]
        short = len(found[-1]) < SHORTEST
    return found


def _verifier(db: Database) -> Callable[[Quote, int], Citation | None]:
    """A function that makes a quote citation `n` if it is verbatim in its document; each document is read once."""
    documents: dict[str, Document | None] = {}

    def verified(quote: Quote, n: int) -> Citation | None:
        path = corpus.document_path(db, quote.chunk_id)
        if path not in documents:
            documents[path] = corpus.document(db, path)
        found = documents[path]
        if found is None or found.text[quote.start : quote.end] != quote.text:
            return None
        part = next((p.label for p in found.parts if p.start <= quote.start < p.end), "")
        return Citation(n, path, quote.start, quote.end, quote.text, quote.chunk_id, part)

    return verified


_MARK = re.compile(r"\[(\d+)\]")


def points_of(prose: str, sources: Sequence[Source]) -> list[Point]:
    """Free prose whose sentences cite `[n]`, as points: n counts `sources` from 1; a number beyond them is dropped."""
    points, given = [], tuple(dict.fromkeys(q for source in sources for q in source.quotes))
    for paragraph in filter(str.strip, prose.split("\n")):
        ids = [int(m) for m in _MARK.findall(paragraph)]
        quotes = tuple(q for i in dict.fromkeys(ids) if 1 <= i <= len(sources) for q in sources[i - 1].quotes)
        points.append(Point(_MARK.sub("", paragraph).replace(" .", ".").strip(), quotes, written=True, given=given))
    return points
