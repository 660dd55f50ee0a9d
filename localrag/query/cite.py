"""Drafts → answers whose citations are verified: each resolves to a file, a character range and a verbatim quote."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from sqlite_utils import Database

from localrag.records import Citation, Quote
from localrag.store import corpus


@dataclass(frozen=True, slots=True)
class Point:
    """A stretch of an answer with the passages it rests on; `title` stands before it."""

    text: str
    quotes: tuple[Quote, ...]
    title: str = ""


@dataclass(frozen=True, slots=True)
class Draft:
    """An answer before its citations are numbered. `note` says what the reader should know of how it came about."""

    points: tuple[Point, ...]
    opening: str = ""
    level: int | None = None
    note: str = ""


def cite(draft: Draft, db: Database) -> tuple[str, tuple[Citation, ...]]:
    """The answer's text with `[n]` behind each point, and the citations. A quote that is not in its document is left out."""
    numbers: dict[Quote, int] = {}
    citations: list[Citation] = []
    paragraphs = [draft.opening] if draft.opening else []
    for point in draft.points:
        marks = []
        for quote in dict.fromkeys(point.quotes):
            if quote not in numbers:
                citation = _verified(quote, len(citations) + 1, db)
                if citation is None:
                    continue
                numbers[quote] = citation.n
                citations.append(citation)
            marks.append(f"[{numbers[quote]}]")
        title = f"**{point.title}**\n" if point.title else ""
        paragraphs.append(f"{title}{point.text} {''.join(marks)}".rstrip())
    return "\n\n".join(paragraphs), tuple(citations)


def _verified(quote: Quote, n: int, db: Database) -> Citation | None:
    path = corpus.document_path(db, quote.chunk_id)
    text = corpus.document_text(db, path) or ""
    if text[quote.start : quote.end] != quote.text:
        return None
    return Citation(n, path, quote.start, quote.end, quote.text, quote.chunk_id)


_MARK = re.compile(r"\[(\d+)\]")


def points_of(prose: str, sources: Sequence[tuple[Quote, ...]]) -> list[Point]:
    """Free prose whose sentences cite `[n]`, as points: n counts `sources` from 1; a number beyond them is dropped."""
    points = []
    for paragraph in filter(str.strip, prose.split("\n")):
        ids = [int(m) for m in _MARK.findall(paragraph)]
        quotes = tuple(q for i in dict.fromkeys(ids) if 1 <= i <= len(sources) for q in sources[i - 1][:1])
        points.append(Point(_MARK.sub("", paragraph).replace(" .", ".").strip(), quotes))
    return points
