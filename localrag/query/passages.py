"""Passages that answer a question: stretches of the retrieved documents, read by the reader, shown as they stand.

A window is a stretch of whole blocks under one heading. The reader reads the windows of a question as one batch (`llm/reader.py`). The
passage that is shown first is the paragraph, list or table that holds a sure short answer, the whole list where one is asked for, or the
section from the best window on, with its code and steps.
"""

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, zip_longest

import numpy as np

from localrag.llm.reader import PassageReading
from localrag.project import Project
from localrag.query.question_kind import QuestionKind
from localrag.query.retriever import content_stems, word_share
from localrag.records import Chunk, Document, Quote
from localrag.store import documents as documents_store
from localrag.text.outline import MAX_TITLE_CHARS, Block, BlockKind, Outline, attached, is_title_line, is_title_of
from localrag.text.sentences import cached_sentences

WINDOW_CHARS = 700  # of whole blocks; a longer block is a window of its own
MAX_REST_CHARS = 120  # of blocks that stand in the window before them even so ("Yours sincerely"), and of titles in that after them
CHUNKS_READ = 6  # best ones of retrieval: more hold the answer hardly more often
MAX_PASSAGE_CHARS = 1200  # of the passage that is shown first
PASSAGES_SHOWN = 3
# Log odds that a window answers: the reader's relevance, a part of those of its best short answer, less for each rank of its chunk.
SPAN_WEIGHT, RANK_WEIGHT = 0.1, 0.5
CONFIDENCE_WEIGHTS = (0.28, 0.13, -0.06)  # logistic: of the best relevance, of the best short answer's log odds, bias
MIN_SHORT_SCORE = 5.0  # log odds from which on eight in ten short answers are right, to questions of facts and of yes or no
MAX_SHORT_WORDS = 6
_DIRECTIVE_LINE = re.compile(r"^[ \t]*\.\. .*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of a document's blocks under one heading; `rank` is that of its chunk in retrieval, from 0."""

    document: Document
    outline: Outline
    chunk_id: str
    blocks: tuple[Block, ...]
    rank: int

    @property
    def start(self) -> int:
        """Offset of its first character in the document."""
        return self.blocks[0].start

    @property
    def end(self) -> int:
        """Offset after its last character."""
        return self.blocks[-1].end

    @property
    def text(self) -> str:
        """Its text in the document."""
        return self.document.text[self.start : self.end]


@dataclass(frozen=True, slots=True)
class ReadWindow:
    """A window with what the reader says of it."""

    window: Window
    reading: PassageReading

    @property
    def score(self) -> float:
        """Log odds, up to a constant, that the window answers the question."""
        return self.reading.relevance + SPAN_WEIGHT * self.reading.score - RANK_WEIGHT * self.window.rank

    @property
    def span(self) -> tuple[int, int]:
        """The likeliest short answer as offsets in the document."""
        return self.window.start + self.reading.start, self.window.start + self.reading.end

    @property
    def answer(self) -> str:
        """The likeliest short answer."""
        return self.window.document.text[slice(*self.span)]

    @property
    def sentence(self) -> Quote:
        """The sentence that holds the likeliest short answer."""
        text = self.window.text
        start, end = next((s for s in cached_sentences(text) if s.end > self.reading.start), (0, len(text)))
        return Quote(self.window.chunk_id, self.window.start + start, self.window.start + end, text[start:end])


@dataclass(frozen=True, slots=True)
class ShownPassage:
    """A stretch of a document that is shown: characters `start` to `end`.

    `headings`: the document's title, unless its path ends with it, and those above the stretch. `marked`: the short answer in it, as
    offsets in the document.
    """

    document: Document
    chunk_id: str
    start: int
    end: int
    headings: tuple[str, ...]
    marked: tuple[int, int] | None = None

    @property
    def text(self) -> str:
        """The passage as it stands in the document."""
        return self.document.text[self.start : self.end]

    def overlaps(self, other: "ShownPassage") -> bool:
        """Whether both have characters of a document."""
        return self.document.id == other.document.id and self.start < other.end and other.start < self.end


def chunk_windows(chunks: Sequence[Chunk], project: Project) -> Iterator[Window]:
    """The windows of chunks, best chunk first; each once."""
    known: dict[str, tuple[Document, Outline]] = {}
    seen: set[tuple[str, int]] = set()
    for rank, chunk in enumerate(chunks):
        if chunk.document_id not in known:
            document = documents_store.find_document(project.db, documents_store.document_path(project.db, chunk.id))
            if document is None:
                continue
            known[chunk.document_id] = document, Outline(document.text, document.blocks)
        document, outline = known[chunk.document_id]
        for blocks in _stretches(_blocks_of(outline, chunk, document), document):
            if (document.id, blocks[0].start) not in seen and any(_says_something(b, document.text) for b in blocks):
                seen.add((document.id, blocks[0].start))
                yield Window(document, outline, chunk.id, blocks, rank)


def _blocks_of(outline: Outline, chunk: Chunk, document: Document) -> list[Block]:
    """The blocks of a chunk, with what stands together with the last one; of very long ones the parts in the chunk."""
    blocks = outline.blocks_between(chunk.start, chunk.end)
    if not blocks:
        return []
    end = blocks[-1].end
    group = next(g for g in _attached_on_pages([*blocks, *outline.blocks_between(end, end + WINDOW_CHARS)], document) if blocks[-1] in g)
    return [part for b in [*blocks, *(b for b in group if b.start >= end)] for part in _block_parts(b, chunk, document.text)]


def _attached_on_pages(blocks: Sequence[Block], document: Document) -> Iterator[list[Block]]:
    """The blocks that stand together (`attached`); a line at the end of a page is no heading of the next page."""
    for group in attached(blocks, document.text):
        divides = [n for n in range(1, len(group)) if is_title_line(group[n - 1], document.text)]
        ends = [n for n in divides if _place(document, group[n - 1])[1] != _place(document, group[n])[1]]
        yield from (group[a:b] for a, b in pairwise([0, *ends, len(group)]))


def _block_parts(block: Block, chunk: Chunk, text: str) -> Iterator[Block]:
    """The block; or if it is longer than two windows, its lines in the chunk, a window at a time, below the first row of a table."""
    if block.end - block.start <= 2 * WINDOW_CHARS:
        yield block
        return
    line = text.rfind("\n", 0, chunk.start) + 1
    first = max(block.start, line if chunk.start - line < WINDOW_CHARS else chunk.start)
    last = min(block.end, chunk.end)
    headings = block.headings
    header = text[block.start : block.end].partition("\n")[0][:MAX_TITLE_CHARS]
    if block.kind is BlockKind.TABLE and first > block.start and ": " not in header:  # otherwise each row names its columns
        headings += (header,)
    start = end = first
    for size in _sizes(text[first:last]):
        if end > start and end + size - start > WINDOW_CHARS:
            yield replace(block, start=start, end=end, headings=headings)
            start = end
        end += size
    if end > start:
        yield replace(block, start=start, end=end, headings=headings)


def _sizes(text: str) -> Iterator[int]:
    """The lengths of a text's lines; of one longer than a window, those of its sentences, cut where they are longer too."""
    for line in text.splitlines(keepends=True):
        starts = [start for start, _ in cached_sentences(line)][1:] if len(line) > WINDOW_CHARS else []
        for start, end in pairwise([0, *starts, len(line)]):
            yield from (min(WINDOW_CHARS, end - at) for at in range(start, end, WINDOW_CHARS))


def _place(document: Document, block: Block) -> tuple[tuple[str, ...], str]:
    return block.headings, next((p.label for p in document.parts if p.start <= block.start < p.end), "")


def _says_something(block: Block, text: str) -> bool:
    return block.kind is not BlockKind.HEADING and any(map(str.isalnum, _DIRECTIVE_LINE.sub("", text[block.start : block.end])))


def _stretches(blocks: Sequence[Block], document: Document) -> Iterator[tuple[Block, ...]]:
    """Blocks under one heading, and on one page, that stand together, up to WINDOW_CHARS."""
    stretch: list[Block] = []
    for group in _attached_on_pages(blocks, document):
        is_elsewhere = stretch and _place(document, group[0]) != _place(document, stretch[-1])
        is_new = group[0].kind is BlockKind.HEADING or is_elsewhere
        is_full = stretch and group[-1].end - stretch[0].start > WINDOW_CHARS and group[-1].end - group[0].start > MAX_REST_CHARS
        if stretch and (is_new or is_full):
            told, titles = (stretch, []) if is_new else _split_titles(stretch, document.text)
            if told:
                yield tuple(told)
            stretch = titles
        stretch += group
    if stretch:
        yield tuple(stretch)


def _split_titles(blocks: list[Block], text: str) -> tuple[list[Block], list[Block]]:
    """Blocks, and the headings at their end, which belong to what follows."""
    n = len(blocks)
    while n and (blocks[n - 1].kind is BlockKind.HEADING or is_title_line(blocks[n - 1], text)):
        n -= 1
    if n < len(blocks) and blocks[-1].end - blocks[n].start > MAX_REST_CHARS:
        n = len(blocks)  # lines of a list
    return blocks[:n], blocks[n:]


def read_windows(question: str, windows: Sequence[Window], project: Project) -> list[ReadWindow]:
    """The windows with their readings, the likeliest to answer first. Raises ModelError if the reader cannot be loaded."""
    assert project.reader is not None
    cache = {} if project.search_cache is None else project.search_cache.setdefault(("readings", question), {})
    new = [w for w in windows if (w.document.id, w.start, w.end) not in cache]
    for window, reading in zip(new, project.reader.read(question, [w.text for w in new]), strict=True):
        cache[window.document.id, window.start, window.end] = reading
    read = [ReadWindow(w, cache[w.document.id, w.start, w.end]) for w in windows]
    return sorted(read, key=lambda w: -w.score)


def rank_unread(question: str, windows: Iterable[Window]) -> list[ReadWindow]:
    """The windows by rank and by the question's words in them, for want of a reader; a sentence with most of these is the best."""

    def of(window: Window) -> PassageReading:
        spans = cached_sentences(window.text)
        start, end = max(spans, key=lambda s: (word_share(question, window.text[s.start : s.end]), s.end - s.start), default=(0, 0))
        return PassageReading(start, end, -math.inf, word_share(question, window.text))

    return sorted((ReadWindow(w, of(w)) for w in windows), key=lambda w: RANK_WEIGHT * w.window.rank - 4 * w.reading.relevance)


def answer_confidence(read: Sequence[ReadWindow]) -> float:
    """The probability that the first passages answer the question."""
    best = [w.reading for w in read[:PASSAGES_SHOWN]]
    return _probability(max((r.relevance for r in best), default=-math.inf), max((r.score for r in best), default=-math.inf))


def _probability(relevance: float, answer: float) -> float:
    return float(1 / (1 + np.exp(-np.dot(CONFIDENCE_WEIGHTS, (relevance, max(answer, -30.0), 1.0)))))


def short_answer(question: str, read: Sequence[ReadWindow]) -> ReadWindow | None:
    """The window whose short answer is sure, names something new and is short; None without one."""
    found = max(read[:PASSAGES_SHOWN], key=lambda w: w.reading.score + w.reading.relevance, default=None)
    return found if found and found.reading.score >= MIN_SHORT_SCORE and is_short_answer(question, found.answer) else None


def is_short_answer(question: str, answer: str) -> bool:
    """Whether an answer is short, and has a word that the question lacks."""
    stems = content_stems(answer)
    return 0 < len(answer.split()) <= MAX_SHORT_WORDS and "\n" not in answer and not (stems and stems <= content_stems(question))


def passages_of(
    read: Sequence[ReadWindow], short: ReadWindow | None, question: str = "", kind: QuestionKind | None = None
) -> list[ShownPassage]:
    """The passages that are shown.

    First that of the short answer; of a list the list or table of the best window; else the section around the best window. Of a
    comparison the second is a section, too, of the best window with words of the question that the first lacks.
    """
    first = short or read[0]
    listed = _listed(first) if short is None and kind is QuestionKind.LIST else None
    shown = [_holding(first) if short else listed or _section(first)]
    if kind is QuestionKind.COMPARISON and (second := _other_side(question, shown[0], read)):
        shown.append(_section(second, shown[0]))
    for other in read:
        if len(shown) == PASSAGES_SHOWN:
            break
        if not any(_overlap(p, other.window) for p in shown):
            shown.append(window_passage(other.window))
    return shown


def window_passage(window: Window) -> ShownPassage:
    """A window as a passage, without the headings at its beginning."""
    start = next(b.start for b in window.blocks if b.kind is not BlockKind.HEADING)
    return _passage(window, start, _cut(window, start, window.end, WINDOW_CHARS))


def _other_side(question: str, first: ShownPassage, read: Sequence[ReadWindow]) -> ReadWindow | None:
    """The best window with words of the question that the first passage lacks; else the next best; None without another."""
    others = [w for w in read if not _overlap(first, w.window)]
    wanted = content_stems(question) - content_stems(" ".join([*first.headings, first.text]))
    named = (w for w in others if wanted & content_stems(" ".join([*w.window.blocks[0].headings, w.window.text])))
    return next(named, others[0] if others else None)


def _overlap(passage: ShownPassage, window: Window) -> bool:
    return passage.document.id == window.document.id and passage.start < window.end and window.start < passage.end


def _passage(window: Window, start: int, end: int, marked: tuple[int, int] | None = None) -> ShownPassage:
    document = window.document
    title = "" if document.title_source == "file" or document.path.endswith(document.title) else document.title  # the path says it
    headings = tuple(dict.fromkeys(filter(None, (title, *window.blocks[0].headings))))
    text = document.text[start:end]
    return ShownPassage(document, window.chunk_id, start, start + len(text.rstrip()), headings, marked)


def _holding(read: ReadWindow) -> ShownPassage:
    """The blocks that stand together around the short answer, the answer marked."""
    window, (start, end) = read.window, read.span
    group = next(g for g in attached(window.blocks, window.document.text) if start < g[-1].end)
    first = next((b.start for b in group if b.kind is not BlockKind.HEADING and start >= b.start), group[0].start)
    if group[-1].end - first > MAX_PASSAGE_CHARS:
        first = max(first, window.document.text.rfind("\n", 0, max(first, start - MAX_PASSAGE_CHARS // 2)) + 1)
    return _passage(window, first, max(end, _cut(window, first, group[-1].end, MAX_PASSAGE_CHARS)), (start, end))


def _listed(read: ReadWindow) -> ShownPassage | None:
    """The list or table of a window that holds the likeliest answer, else its first, whole, with its introduction; None without one."""
    window, (start, end) = read.window, read.span
    blocks = [b for b in window.blocks if b.kind in (BlockKind.LIST, BlockKind.TABLE)]
    if not blocks:
        return None
    block = next((b for b in blocks if b.start < end and start < b.end), blocks[0])
    reach = block.start + MAX_PASSAGE_CHARS
    around = window.outline.blocks_between(min(window.start, block.start), reach)
    group = next(g for g in attached(around, window.document.text) if g[-1].end > block.start)
    first = next(b.start for b in group if b.kind is not BlockKind.HEADING)
    if block.start - first > MAX_PASSAGE_CHARS // 2:
        first = block.start
    return _passage(window, first, _cut(window, first, group[-1].end, MAX_PASSAGE_CHARS))


def _section(read: ReadWindow, other: ShownPassage | None = None) -> ShownPassage:
    """The window with its section, up to MAX_PASSAGE_CHARS: what follows, to a passage that is shown already, then what precedes."""
    window, end = read.window, read.window.end
    most = window.start + MAX_PASSAGE_CHARS
    if other is not None and other.document.id == window.document.id and other.start >= end:
        most = min(most, other.start)
    start = next(b.start for b in window.blocks if b.kind is not BlockKind.HEADING)  # its headings stand above it
    depth, part = _place(window.document, window.blocks[0])
    after = window.outline.blocks_between(window.end, most + MAX_REST_CHARS)
    for block, following in zip_longest(after, after[1:]):
        if block.start < window.end:
            continue
        headings, label = _place(window.document, block)
        if headings[: len(depth)] != depth or label != part or block.end > most:
            break
        goes_on = following is not None and _place(window.document, following) == (headings, label)
        if not _is_title(block, following if goes_on else None, window.document.text):  # a heading with nothing below it is not shown
            end = block.end
    if depth and other is None:
        start = min([start, *_starts_before(window, end - MAX_PASSAGE_CHARS)])
    return _passage(window, start, _cut(window, start, end, MAX_PASSAGE_CHARS))


def _starts_before(window: Window, first: int) -> Iterator[int]:
    """Where the blocks before a window begin that stand together under its heading, nearest first, back to the character `first`."""
    text, place = window.document.text, _place(window.document, window.blocks[0])
    for group in reversed(list(attached(window.outline.blocks_between(max(0, first), window.start), text))):
        start = next((b.start for b in group if b.kind is not BlockKind.HEADING), -1)
        if start < max(0, first) or _place(window.document, group[-1]) != place:
            return
        yield start
        if group[0].kind is BlockKind.HEADING:
            return


def _is_title(block: Block, following: Block | None, text: str) -> bool:
    return block.kind is BlockKind.HEADING or (following is not None and is_title_of(block, following, text))


def _cut(window: Window, start: int, end: int, most: int) -> int:
    """The end of a stretch, or of its last whole block, line or sentence within `most` characters."""
    if end - start <= most:
        return end
    text = window.document.text[start : start + most]
    ends = (b.end for b, following in zip_longest(window.blocks, window.blocks[1:]) if not _is_title(b, following, window.document.text))
    if blocks := [at for at in ends if start < at <= start + most]:
        return blocks[-1]
    sentence = max((b for _, b in cached_sentences(text)[:-1]), default=0)
    return start + (max(sentence, text.rfind("\n")) if max(sentence, text.rfind("\n")) > most // 3 else most)
