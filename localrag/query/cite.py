"""Drafts → answers whose citations are verified: each resolves to a file, a character range and a verbatim quote that supports it."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlite_utils import Database

from localrag.query.verify import Check
from localrag.records import Citation, Document, Quote
from localrag.store import corpus


@dataclass(frozen=True, slots=True)
class Source:
    """What a model is shown under one number: a text and the passages it rests on."""

    text: str
    quotes: tuple[Quote, ...]


@dataclass(frozen=True, slots=True)
class Point:
    """A stretch of an answer with the passages it rests on; `title` stands before it. `written` by a model, it has to be checked."""

    text: str
    quotes: tuple[Quote, ...]
    title: str = ""
    written: bool = False


@dataclass(frozen=True, slots=True)
class Draft:
    """An answer before its citations are numbered. `note` says what the reader should know of how it came about."""

    points: tuple[Point, ...]
    opening: str = ""
    level: int | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Cited:
    """The text of an answer with `[n]` behind each point, its citations, and how many of its sentences nothing supports."""

    text: str
    citations: tuple[Citation, ...]
    unsupported: int = 0


UNSUPPORTED = "[unsupported]"


def cite(draft: Draft, db: Database, check: Check, *, strict: bool = False, bullets: bool = False) -> Cited:
    """Number the citations of a draft.

    What a model wrote is cited by the sentence of its sources that supports it best; without any it is marked, or with `strict` left out.
    A quote that is not in its document is no citation.
    """
    verified = _verifier(db)
    numbers: dict[Quote, int] = {}
    citations: list[Citation] = []
    paragraphs = [draft.opening] if draft.opening else []
    unsupported = 0
    for point in draft.points:
        quotes = check(point.text, point.quotes) if point.written else point.quotes
        marks = []
        for quote in dict.fromkeys(quotes):
            if quote not in numbers and (citation := verified(quote, len(citations) + 1)):
                numbers[quote] = citation.n
                citations.append(citation)
            if quote in numbers:
                marks.append(f"[{numbers[quote]}]")
        if not marks:
            unsupported += 1
            if strict:
                continue
            marks = [UNSUPPORTED]
        title = f"**{point.title}**\n" if point.title else ""
        paragraphs.append(f"{title}{'- ' * bullets}{point.text} {''.join(marks)}".rstrip())
    return Cited("\n\n".join(paragraphs), tuple(citations), unsupported)


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
    points = []
    for paragraph in filter(str.strip, prose.split("\n")):
        ids = [int(m) for m in _MARK.findall(paragraph)]
        quotes = tuple(q for i in dict.fromkeys(ids) if 1 <= i <= len(sources) for q in sources[i - 1].quotes)
        points.append(Point(_MARK.sub("", paragraph).replace(" .", ".").strip(), quotes, written=True))
    return points
