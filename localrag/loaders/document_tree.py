"""What parsers make of a file: blocks, whose text is made of runs; and the one writer of a document's text.

`inline_text` writes the runs of a block, `render` the blocks: Markdown with the offsets of every block, which nothing changes afterwards.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby

from localrag.loaders.content import clean_text
from localrag.loaders.inline_text import shifted_text
from localrag.records import DocumentBlock, DocumentPart
from localrag.text.outline import BlockKind

MAX_TARGET_CHARS = 200  # a longer address is shown without its query
MAX_LIST_DEPTH = 12  # nested lists that are indented further
_FRACTION = 2  # beside 1 for raised and -1 for lowered text
_ADDRESS = re.compile(r"(?:https?|ftps?)://\S+|(?:mailto|tel|sms|news|doi|urn|geo):\S+", re.IGNORECASE)
_DOCUMENT_ADDRESS = re.compile(r"[^?#:]*\.(?:pdf|docx?|xlsx?|pptx?|od[tsp]|rtf|csv|zip|epub|txt|md|ics)", re.IGNORECASE)
_SCHEME = re.compile(r"(?:https?|ftps?)://(?:www\.)?|(?:mailto|tel|sms):|%[0-9a-f]{2}", re.IGNORECASE)  # and what is escaped


@dataclass(frozen=True, slots=True)
class TextRun:
    """A piece of text and how it is set. `shift`: 1 if it is raised, -1 if it is lowered; `link`: the address that it leads to."""

    text: str
    shift: int = 0
    link: str = ""
    is_deleted: bool = False
    is_highlighted: bool = False


def inline_text(runs: Iterable[TextRun]) -> str:
    """Runs as one text: `words (target)`, `~~deleted~~`, `==highlighted==`, 10^6, CO2; soft hyphens are left out."""
    text = ""
    parts: list[str] = []
    for style, styled in groupby(runs, key=lambda run: (run.link, run.is_deleted, run.is_highlighted)):
        piece = ""
        for shift, joined in _with_fractions(_shifts(styled)):
            before = (text + piece[-60:])[-60:]
            if shift == _FRACTION:
                piece += " " * before[-1:].isdigit() + joined
            else:
                piece += shifted_text(before, joined, shift) if shift else joined
        parts.append(marked_text(piece, *style) if any(style) else piece)
        text = (text + piece)[-60:]  # what the next raised text may belong to
    return "".join(parts)


def _shifts(runs: Iterable[TextRun]) -> list[tuple[int, str]]:
    """Texts that are raised, lowered or neither."""
    groups = groupby(runs, key=lambda run: run.shift if run.text.strip() else 0)
    return [(shift, "".join(run.text for run in group).replace("\xad", "")) for shift, group in groups]


def _with_fractions(shifts: list[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Raised and lowered texts; raised digits, a slash and lowered digits are a fraction."""
    n = 0
    while n < len(shifts):
        (first, above), (second, sign), (third, below) = (*shifts[n : n + 3], (0, ""), (0, ""))[:3]
        is_fraction = (first, second, third) == (1, 0, -1) and sign.strip() in {"/", "⁄", "∕"}
        yield (_FRACTION, f"{above.strip()}/{below.strip()}") if is_fraction else shifts[n]
        n += 3 if is_fraction else 1


def marked_text(text: str, link: str = "", is_deleted: bool = False, is_highlighted: bool = False) -> str:
    """A text with its marks around its words, not around the blanks beside them."""
    words = text.strip()
    if not words:
        return text
    marked = f"=={words}==" if is_highlighted else words
    if target := link_target(link, words):
        marked += f" ({target})"
    if is_deleted:
        marked = f"~~{marked}~~"
    before, _, after = text.partition(words)
    return f"{before}{marked}{after}"


def link_target(link: str, words: str) -> str:
    """The address of a link as it is shown: empty within the document, and where the words are the address.

    Addresses relative to the document's are shown if they name a document.
    """
    link = "".join(link.split())
    if not _ADDRESS.fullmatch(link):
        return link if _DOCUMENT_ADDRESS.fullmatch(link) and link != words else ""
    if len(link) > MAX_TARGET_CHARS:
        link = re.split(r"[?#]", link, maxsplit=1)[0]
    target = link[7:].partition("?")[0] if link.lower().startswith("mailto:") else link
    is_said = _bare(target) in _bare(words)
    return "" if is_said or len(link) > MAX_TARGET_CHARS else target


def _bare(address: str) -> str:
    return "".join(filter(str.isalnum, _SCHEME.sub("", address))).lower()


@dataclass(frozen=True, slots=True)
class TextBlock:
    """A block of a document. `level`: of a heading, from 1; of an item of a list its depth, from 0.

    `marker`: of an item its bullet or number, empty for what goes on below it. `columns`: the labels of a table's columns, if it has them.
    `is_apart`: whether an item begins a list of its own.
    """

    kind: BlockKind
    text: str
    level: int = 0
    marker: str = ""
    columns: tuple[str, ...] = ()
    is_apart: bool = False


def heading_block(level: int, text: str) -> TextBlock:
    """A heading on one line."""
    return TextBlock(BlockKind.HEADING, " ".join(text.split()), min(max(level, 1), 6))


def paragraph(text: str) -> TextBlock:
    """A paragraph, of one line or several."""
    return TextBlock(BlockKind.PARAGRAPH, text)


def item(depth: int, marker: str, text: str) -> TextBlock:
    """An item of a list, or without a marker what goes on below one."""
    return TextBlock(BlockKind.LIST, text, min(max(depth, 0), MAX_LIST_DEPTH), marker)


def apart_block(blocks: Iterable[TextBlock]) -> Iterator[TextBlock]:
    """Blocks of which the first is apart from a list before it."""
    for n, block in enumerate(blocks):
        yield block if n else replace(block, is_apart=True)


def code(text: str, language: str = "") -> TextBlock:
    """Code in a fence, which is longer than any in it."""
    fence = "`" * max([3, *(len(ticks) + 1 for ticks in re.findall("`+", text))])
    return TextBlock(BlockKind.CODE, f"{fence}{language}\n{text}\n{fence}" if text.strip() else "")


@dataclass(frozen=True, slots=True)
class RenderedText:
    """The text of a document, and where its blocks and parts stand in it."""

    text: str
    blocks: tuple[DocumentBlock, ...] = ()
    parts: tuple[DocumentPart, ...] = ()


def render(blocks: Iterable[TextBlock]) -> RenderedText:
    """Write blocks as Markdown: items of a list on lines of their own, other blocks between blank lines."""
    pieces: list[str] = []
    places: list[DocumentBlock] = []
    offset, before = 0, None
    for block in blocks:
        text = clean_text(block.text).rstrip()
        if not text:
            continue
        if block.kind is BlockKind.HEADING:
            text = f"{'#' * block.level} {text}"
        elif block.kind is BlockKind.LIST:
            text = "  " * block.level + (f"{block.marker} {text}" if block.marker else text)
        if before is not None:
            pieces.append("\n" if block.kind is before is BlockKind.LIST and not block.is_apart else "\n\n")
            offset += len(pieces[-1])
        places.append(DocumentBlock(block.kind, offset, offset + len(text), block.level, block.columns))
        pieces.append(text)
        offset, before = offset + len(text), block.kind
    return RenderedText("".join(pieces), tuple(places))


def join_sections(
    sections: Iterable[tuple[str, str | RenderedText]], goes_on: Callable[[str, str], bool] = lambda *_: False
) -> RenderedText:
    """Join labelled sections into one text, with parts for those with text and label, and their blocks.

    Sections are separated by a blank line, or by a space where `goes_on(first, second)` is true.
    """
    texts: list[str] = []
    parts: list[DocumentPart] = []
    blocks: list[DocumentBlock] = []
    offset = 0
    for label, section in sections:
        rendered = section if isinstance(section, RenderedText) else RenderedText(section)
        body = rendered.text.strip()
        if not body:
            continue
        if texts:
            texts.append(" " if goes_on(texts[-1], body) else "\n\n")
            offset += len(texts[-1])
        if label:
            parts.append(DocumentPart(label, offset, offset + len(body)))
        blocks += moved_blocks(rendered.blocks, offset - rendered.text.index(body[0]), offset, offset + len(body))
        texts.append(body)
        offset += len(body)
    return RenderedText("".join(texts), tuple(blocks), tuple(parts))


def moved_blocks(blocks: Iterable[DocumentBlock], by: int, first: int, end: int) -> Iterator[DocumentBlock]:
    """Blocks moved by so many characters, cut to what lies between two offsets of the new text."""
    for block in blocks:
        start, stop = max(block.start + by, first), min(block.end + by, end)
        if start < stop:
            yield replace(block, start=start, end=stop)
