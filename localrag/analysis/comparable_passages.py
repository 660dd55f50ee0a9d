"""The passages of two documents in a form for comparison: without marks that carry no meaning, rows of tables by their values."""

import re
import unicodedata
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from localrag.analysis.passage_alignment import ComparablePassage
from localrag.analysis.placed_sentences import OpenedDocument, PlacedSentence
from localrag.analysis.text_records import records_in
from localrag.analysis.word_changes import HTML_TAG, split_number, tokens_of
from localrag.text.outline import Block, BlockKind
from localrag.text.sentences import Span, collapse_whitespace, is_cjk, sentences, trim_span

MAX_SPLIT_PASSAGES = 4  # into which one passage of the other document may be split
MIN_DISTINCT_CHARS, MIN_DISTINCT_CJK_CHARS = 20, 8  # of a passage that is recognized elsewhere even if it occurs several times

_SAME_SIGNS = str.maketrans(
    {"’": "'", "‘": "'", "“": '"', "”": '"', "„": '"', "–": "-", "—": "-", "‑": "-", "−": "-", "`": "", "\u00ad": ""}
)

_MARKUP = re.compile(r"(?<!\w)[*_]{1,3}(?=\S)|(?<=\S)[*_]{1,3}(?!\w)|" + HTML_TAG)
RowValues = Mapping[str, str]


def passages_of(source: OpenedDocument) -> list[PlacedSentence]:
    """The sentences, headings, list items, table rows and lines of code of a document in order, without those that are only signs.

    They are split from the whole text: a chunk may begin within a paragraph, which can change where its sentences end.
    """
    text, starts = source.document.text, [chunk.start for chunk in source.chunks]
    passages = []
    for block in source.outline.blocks:
        for start, end in _spans(text, block):
            if any(map(str.isalnum, text[start:end])):
                at = bisect_right(starts, start) - 1
                chunk_id = source.chunks[at].id if at >= 0 else ""
                passages.append(PlacedSentence(source, chunk_id, start, end, collapse_whitespace(text[start:end])))
    return passages


def _spans(text: str, block: Block) -> Iterator[Span]:
    """The passages of a block: the lines of a heading, one of which may be a rule, and of fenced code; otherwise the sentences."""
    body = text[block.start : block.end]
    if block.kind is BlockKind.HEADING or (block.kind is BlockKind.CODE and body.lstrip(" \t>").startswith(("```", "~~~"))):
        start = block.start
        for line in body.splitlines(keepends=True):
            span = trim_span(line, Span(0, len(line)))
            yield Span(start + span.start, start + span.end)
            start += len(line)
        return
    yield from (Span(block.start + start, block.start + end) for start, end in sentences(body))


def join_split(passages: Sequence[PlacedSentence], others: Sequence[PlacedSentence]) -> list[PlacedSentence]:
    """The passages, those joined that are one passage of the other document: how sentences are split depends on how lines are wrapped."""
    wanted = {_key(p.text) for p in others}
    joined, n = list[PlacedSentence](), 0
    while n < len(passages):
        p = passages[n]
        if _key(p.text) not in wanted:
            for last in passages[n + 1 : n + MAX_SPLIT_PASSAGES]:
                text = collapse_whitespace(p.source.document.text[p.start : last.end])
                if _key(text) in wanted:
                    p = replace(p, end=last.end, text=text)
                    break
        n += 1 if p is passages[n] else sum(p.start <= q.start < p.end for q in passages[n : n + MAX_SPLIT_PASSAGES])
        joined.append(p)
    return joined


def comparable_passages(
    first: Sequence[PlacedSentence], second: Sequence[PlacedSentence]
) -> tuple[list[ComparablePassage], list[ComparablePassage]]:
    """The passages of two documents for `align_passages`."""
    numbers: defaultdict[str, int] = defaultdict(lambda: len(numbers))
    a, b = (
        [_comparable(p, is_heading, row, numbers) for p, is_heading, row in zip(side, _are_headings(side), _row_values(side), strict=True)]
        for side in (first, second)
    )
    return a, b


def _row_values(passages: Sequence[PlacedSentence]) -> list[RowValues | None]:
    """Of each passage of a document column → value, if it is a row of a table whose columns have different names."""
    records = [r for r, is_keyed in records_in(passages[0].source) if not is_keyed] if passages else []
    rows = {r.start: dict(r.cells) for r in records if all(label for label, _ in r.cells) and len(dict(r.cells)) == len(r.cells) > 1}
    return [rows.get(p.start) for p in passages]


def _are_headings(passages: Sequence[PlacedSentence]) -> list[bool]:
    starts = {block.start for block in passages[0].source.outline.blocks if block.kind is BlockKind.HEADING} if passages else set[int]()
    return [p.start in starts for p in passages]


def _comparable(p: PlacedSentence, is_heading: bool, row: RowValues | None, numbers: Mapping[str, int]) -> ComparablePassage:
    key = _key(p.text, is_heading=is_heading)
    words = tokens_of(" ".join(row.values()) if row else key)
    return ComparablePassage(
        key,
        p.text,
        tuple(numbers[t.text.casefold()] for t in words if t.is_word),
        is_distinct=len(key) >= (MIN_DISTINCT_CJK_CHARS if is_cjk(key) else MIN_DISTINCT_CHARS),
        is_heading=is_heading,
        row=row,
    )


def _key(text: str, *, is_heading: bool = False) -> str:
    """A passage without its number, emphasis, and different signs for the same."""
    plain = _MARKUP.sub("", unicodedata.normalize("NFKC", text.translate(_SAME_SIGNS)))
    return split_number(plain, is_heading=is_heading)[1].strip() or plain
