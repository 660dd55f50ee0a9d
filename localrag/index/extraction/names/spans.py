"""Where names stand in a text, and which stand near each other."""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from localrag.text.plain import Span, is_cjk

Pair = tuple[str, str]


def find_name(text: str, name: str) -> list[Span]:
    """Every place of `text` that writes `name` as whole words, also across a line break; CJK names need no boundary.

    A leading "the" may begin a sentence.
    """
    places = _written(text, name)
    return (
        list(places)
        if is_cjk(name)
        else [s for s in places if not (_goes_on(text[s.start - 1 : s.start]) or _goes_on(text[s.end : s.end + 1]))]
    )


def _written(text: str, name: str) -> Iterator[Span]:
    """Where the words of `name` stand with any whitespace between them. Compiling a pattern for each of a corpus' names takes longer."""
    first, *rest = name.split() or [name]
    article = bool(rest) and first in ("the", "The")
    head = "he" if article else first
    at = text.find(head) if head else -1
    while at >= 0:
        start, end = at - article, _end(text, at + len(head), rest)
        if end and (not article or text[max(start, 0) : at] in ("t", "T")):
            yield Span(start, end)
            at = text.find(head, end + article)
        else:
            at = text.find(head, at + 1)


def _end(text: str, at: int, words: Sequence[str]) -> int:
    """Where `words` end that stand at `at`, each behind whitespace; 0 where they do not."""
    for word in words:
        begun = at
        while text[at : at + 1].isspace():
            at += 1
        if at == begun or not text.startswith(word, at):
            return 0
        at += len(word)
    return at


def _goes_on(character: str) -> bool:
    """Whether a word that has this character beside it goes on there."""
    return (character.isalnum() or character == "_") and not "\u3040" <= character <= "\u9fff"


def longest_first(places: Mapping[str, Sequence[Span]]) -> dict[str, list[Span]]:
    """The places of each name; where one stands inside a longer one's place, as York in New York Times, it is not meant."""
    ordered = sorted(((span, name) for name, spans in places.items() for span in spans), key=lambda p: (p[0].start - p[0].end, p[0].start))
    found: dict[str, list[Span]] = {n: [] for n in places}
    taken = bytearray(max((span.end for span, _ in ordered), default=0))
    for span, name in ordered:
        if not any(taken[span.start : span.end]):
            taken[span.start : span.end] = b"\1" * (span.end - span.start)
            found[name].append(span)
    return {name: sorted(spans) for name, spans in found.items()}


def find_names(text: str, names: Sequence[str]) -> dict[str, list[Span]]:
    """The places of each name in `text`, without those that stand inside a longer one's."""
    return longest_first({name: find_name(text, name) for name in names})


def sentence_numbers(places: Mapping[str, Sequence[Span]], sentences: Sequence[Span]) -> dict[str, list[int]]:
    """For each name, the numbers of the sentences that hold it, ascending."""
    starts = [span.start for span in sentences]
    return {name: sorted({max(0, bisect_right(starts, at.start) - 1) for at in spans}) for name, spans in places.items()}


def nearby_pairs(places: dict[str, list[int]]) -> dict[Pair, tuple[int, int]]:
    """The pairs of names that share a sentence, each with the first one that does as (number, same number).

    A name that shares no sentence with another is paired with those of the adjacent ones: (number, next number).
    """
    nearest: dict[Pair, tuple[int, int, int]] = {}
    for a, b in combinations(places, 2):
        near = [(abs(i - j), min(i, j), max(i, j)) for i in places[a] for j in places[b] if abs(i - j) <= 1]
        if near and a not in b and b not in a:  # "Scrooge" inside "Ebenezer Scrooge" is no second entity
            nearest[a, b] = min(near)
    linked = {name for pair, (distance, *_) in nearest.items() if distance == 0 for name in pair}
    return {pair: (i, j) for pair, (distance, i, j) in nearest.items() if distance == 0 or not linked.issuperset(pair)}
