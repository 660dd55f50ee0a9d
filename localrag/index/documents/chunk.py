"""Document → Chunks: at most `chunk_tokens` tokens, cut between sentences, overlapping, with exact character offsets."""

from collections.abc import Callable, Sequence

from localrag.records import Chunk, Document, content_id
from localrag.text.plain import Span, sentences, squeeze

LOOSE = 0.25  # share of a chunk within which its end may be chosen
Counter = Callable[[Sequence[str]], list[int]]


def chunk(document: Document, counts: Counter, *, size: int, overlap: int, header: str = "", spans: Sequence[Span] = ()) -> list[Chunk]:
    """Split a document into chunks of at most `size` tokens; each starts with up to `overlap` tokens of whole sentences of the last.

    `counts` gives the tokens of several texts. A sentence longer than `size` is cut where it must be. The last chunk ends with the
    text: no chunk holds only what another holds. A `header` that will stand before every chunk counts as part of it. `spans`: the
    sentences, where they are known.
    """
    text = document.text
    before = f"{header}\n" if header else ""
    size = max(size - counts([before])[0], size // 2) if before else size
    units = _units(text, spans or sentences(text), counts, size)
    weights = counts([text[start:end] for start, end in units])
    chunks: list[Chunk] = []
    first = done = 0
    while first < len(units):
        last, total = first, 0
        while last < len(units) and (last == first or total + weights[last] <= size):
            total += weights[last]
            last += 1
        if last < len(units):
            last = _best_end(text, units, weights, max(first, done), last, total * LOOSE)
        start, end = units[first].start, units[last - 1].end
        body = text[start:end]
        chunks.append(Chunk(content_id(document.id, start, end), document.id, len(chunks), start, end, body, counts([before + body])[0]))
        if last == len(units):
            break
        # The next sentence must still fit behind the overlap, or a chunk would hold nothing new.
        first, done = _overlap_start(weights, first, last, min(overlap, size - weights[last])), last
    return chunks


def _best_end(text: str, units: Sequence[Span], weights: Sequence[int], new: int, last: int, room: float) -> int:
    """Where, in the last `room` tokens of what would fit, a chunk ends: after a paragraph if one ends there, else wherever the sentences'
    own words decide; always behind `new`, its first unit that no other chunk holds. So an edit moves the cuts near it only, and the
    chunks of the rest of the document stay what they were (content-defined chunking, Muthitacharoen et al. 2001).
    """
    earliest = last
    while earliest - 1 > new and room >= weights[earliest - 1]:
        earliest -= 1
        room -= weights[earliest]

    def rank(end: int) -> tuple[bool, str]:
        sentence = text[units[end - 1].start : units[end - 1].end]
        return not sentence.endswith("\n\n"), content_id(squeeze(sentence))

    return min(range(earliest, last + 1), key=rank)


def _overlap_start(weights: Sequence[int], first: int, last: int, overlap: int) -> int:
    """The unit the next chunk starts with: as many whole units before `last` as fit the overlap, but always further than `first`."""
    start, total = last, 0
    while start - 1 > first and total + weights[start - 1] <= overlap:
        start -= 1
        total += weights[start]
    return start


def _units(text: str, spans: Sequence[Span], counts: Counter, size: int) -> list[Span]:
    """The sentences, with the whitespace that follows each, none longer than `size` tokens."""
    ends = [s.start for s in spans[1:]] + [len(text.rstrip())]
    whole = [Span(s.start, max(end, s.end)) for s, end in zip(spans, ends, strict=False)]
    units: list[Span] = []
    for unit, tokens in zip(whole, counts([text[a:b] for a, b in whole]), strict=True):
        units += [unit] if tokens <= size else _cut(text, unit, counts, size)
    return units


def _cut(text: str, unit: Span, counts: Counter, size: int) -> list[Span]:
    """Pieces of a sentence that is too long, cut at a space where there is one."""
    middle = (unit.start + unit.end) // 2
    space = text.rfind(" ", unit.start + 1, middle)
    at = space + 1 if space > unit.start + (middle - unit.start) // 2 else middle
    pieces: list[Span] = []
    for piece in (Span(unit.start, at), Span(at, unit.end)):
        long = piece.end - piece.start > 1 and counts([text[piece.start : piece.end]])[0] > size
        pieces += _cut(text, piece, counts, size) if long else [piece]
    return pieces
