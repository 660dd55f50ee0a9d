"""What the pages of a PDF do to its text: numbers and running heads come in between, and sentences go on over their ends."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise, takewhile
from typing import NamedTuple

HYPHEN = "\ufffe"  # what PDFium gives for a hyphen that divides a word, and the line end behind it
CELL = " · "  # between the cells of a row
ENDED = tuple(".!?:;。！？：；\"”')")
ITEM = re.compile(r"(?:[-*•‣▪●○·–]|\(?\d{1,3}[.)]|\(?[a-z][.)]|\[\d+\])\s")
_LAST_WORD = re.compile(r"(\w+)[\ufffe-]$")
_FIRST_WORD = re.compile(r"\w+")
_NUMBER = re.compile(r"(?<![\d.,])\d{1,4}(?![.,]?\d)")
_OWN = re.compile(
    r"(?:[^\w#]|_)*+(?:page|p\.?|seite|sida|strona|página|стр\.?|第)?\s*+#\s*+(?:页|頁|ページ)?(?:\s*+(?:/|of|von|de)\s*+\d++)?[\W_]*+",
    re.IGNORECASE,
)
_EDGE = 2  # lines at the top and at the foot of a page that may be running heads
_OFTEN, _SHARE = 3, 0.3  # they stand on three pages and on three of ten: those of left and right pages may differ


class Line(NamedTuple):
    """A line of a page and where it stands; all zeros where PDFium does not say."""

    text: str
    left: float = 0.0
    bottom: float = 0.0
    right: float = 0.0
    top: float = 0.0
    is_row: bool = False  # of a table: there are wide gaps in it


class _Page(NamedTuple):
    """A page in three; the head and the foot are running lines, each with what it has in common with those of other pages."""

    head: list[tuple[str, Line]]
    body: list[Line]
    foot: list[tuple[str, Line]]


def without_running(pages: Sequence[Sequence[Line]]) -> list[list[Line]]:
    """The pages without their numbers, and without the running heads and feet that stand in the middle of a sentence.

    Elsewhere heads and feet stay: under whose letterhead a page is may be what somebody asks.
    """
    shift = _shift(pages)
    keys = [{_key(line, n + shift) for line in _edges(page)} for n, page in enumerate(pages)]
    often = Counter(key for of_page in keys for key in of_page if key)
    running = {key for key, times in often.items() if times >= max(_OFTEN, _SHARE * len(pages))}
    found = [_divided(page, n + shift, running) for n, page in enumerate(pages)]
    inside = [bool(a.body and b.body) and _unfinished(a.body[-1].text, b.body[0].text) for a, b in pairwise(found)]
    return [
        [line for key, line in page.head if not (before or _OWN.fullmatch(key))]
        + page.body
        + [line for key, line in page.foot if not (behind or _OWN.fullmatch(key))]
        for page, before, behind in zip(found, [False, *inside], [*inside, False], strict=bool(pages))
    ]


def _edges(page: Sequence[Line]) -> Sequence[Line]:
    return (*page[:_EDGE], *page[_EDGE:][-_EDGE:])


def _divided(page: Sequence[Line], number: int, running: set[str]) -> _Page:
    keyed = [(_key(line, number), line) for line in page[:_EDGE]]
    head = list(takewhile(lambda pair: pair[0] in running, keyed))
    rest = page[len(head) :]
    keyed = [(_key(line, number), line) for line in reversed(rest[-_EDGE:])]
    foot = list(takewhile(lambda pair: pair[0] in running, keyed))[::-1]
    return _Page(head, list(rest[: len(rest) - len(foot)]), foot)


def _shift(pages: Sequence[Sequence[Line]]) -> int:
    """By how much the numbers printed on the pages are ahead of their order, from 0; where none are printed, any number."""
    shifts = Counter(
        shift for n, page in enumerate(pages) for shift in {int(m) - n for line in _edges(page) for m in _NUMBER.findall(line.text)}
    )
    return shifts.most_common(1)[0][0] if shifts else 0


def _key(line: Line, number: int) -> str:
    """What a line shares with the running lines of other pages, the page's number as #; nothing where it cannot be one: it has another
    number, as the totals of invoices differ in nothing else, or it repeats the head of a table.
    """
    key = _NUMBER.sub(lambda m: "#" if int(m[0]) == number else m[0], line.text)
    is_plain = not line.is_row and not any(c.isdigit() for c in key)
    return key if "#" in key or is_plain else ""


def _unfinished(line: str, following: str) -> bool:
    return line.endswith(HYPHEN) or goes_on(line, following)


def sections(pages: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The pages with their labels; a word that a page's end divides stands whole on the first."""
    left = list(pages)
    for n, page in enumerate(left):
        following = left[n + 1] if n + 1 < len(left) else ""
        if following[:1].islower() and _LAST_WORD.search(page):
            rest = following.split(maxsplit=1)
            yield f"page {n + 1}", mended(page, rest[0], f"{page}\n{following}")
            left[n + 1] = "".join(rest[1:])
        else:
            yield f"page {n + 1}", page


def goes_on(page: str, following: str) -> bool:
    """Whether a sentence of one page goes on on the next."""
    last = page.rpartition("\n")[2]
    return following[:1].islower() and not last.endswith(ENDED) and CELL not in last and not ITEM.match(following)


def mended(text: str, rest: str, whole: str) -> str:
    """A divided word put together again; its hyphen stays where `whole` writes it elsewhere, or before a capital or a digit."""
    start, end = _LAST_WORD.search(text), _FIRST_WORD.match(rest)
    own = start is not None and end is not None and f"{start[1]}-{end[0]}" in whole
    return text[:-1] + ("-" if own or not rest[:1].islower() else "") + rest
