"""Files within a file: attachments of a mail or a PDF, archives in a mail, messages of a mailbox.

Each is read by the parser of its own suffix, within limits, and becomes a document of its own, whose path is below that of the file.
"""

import lzma
import re
import zlib
from bisect import bisect_left, bisect_right
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import TypeVar
from zipfile import BadZipFile

from localrag.loaders.content import InnerDocument, InnerFile, LoadOptions, ParsedFile, Unreadable, metadata_pairs, open_archive
from localrag.loaders.document_tree import RenderedText, heading_block, join_sections, render
from localrag.records import DocumentBlock, DocumentPart

MAX_LISTED = 5  # files that were not read for the same reason, by name
MAX_LEVELS = 32  # of documents within documents: messages nest 10 deep, attached files 4
MAX_NAME_CHARS = 120  # of a component of an inner document's name
AnySpan = TypeVar("AnySpan", DocumentPart, DocumentBlock)
_NO_NAME_CHARS = re.compile(r"[\x00-\x1f\x7f\\]+")


@dataclass(slots=True)
class InnerFiles:
    """The files within one file: `sections` has the label and text of those that were read, `unread` name and reason of the others."""

    options: LoadOptions
    sections: list[tuple[str, RenderedText]] = field(default_factory=list)
    unread: list[tuple[str, str]] = field(default_factory=list)
    _contents: dict[str, deque[tuple[str, int, bool, ParsedFile]]] = field(
        default_factory=dict
    )  # label → name, start, is it listed, content

    def read(self, name: str, data: bytes) -> None:
        """Read a file, or the files of an archive. What cannot be read is listed with its reason."""
        budget = self.options.inner
        if budget is None or budget.files <= 0 or budget.size < len(data) or budget.depth <= 0:
            self.unread.append((name, "too many files, too large or too deep within others"))
            return
        budget.files, budget.size, budget.depth = budget.files - 1, budget.size - len(data), budget.depth - 1
        try:
            if PurePosixPath(name).suffix.lower() == ".zip":
                self._read_archive(name, data)
            else:
                plain = replace(self.options, ocr="", pages={}, definitions="")
                content = budget.parse(InnerFile(PurePosixPath(name).name or name, -1, data), plain)
                self.add(f"attachment {name}", name, content)
                self.unread += [(f"{name}: {key}", value) for key, value in content.metadata if key == "not read"]
        except MemoryError:
            raise
        except Unreadable as error:
            self.unread.append((name, str(error)))
        except Exception as error:  # noqa: BLE001 - parsers of broken files raise anything
            self.unread.append((name, _damaged(error)))
        finally:
            budget.depth += 1

    def add(self, label: str, name: str, content: ParsedFile, *, is_listed: bool = False) -> None:
        """Add a file that was read, under a heading; `is_listed`: the heading stays in the text of the whole file."""
        whole = join_sections([("", render([heading_block(1, name)])), ("", RenderedText(content.text, content.blocks))])
        self.sections.append((label, whole))
        start = len(whole.text) - len(content.text.rstrip())
        self._contents.setdefault(label, deque()).append((name, start, is_listed, content))

    def documents(self, parts: Sequence[DocumentPart]) -> tuple[InnerDocument, ...]:
        """The files as documents, given the parts that `join_sections` made of `sections`; each file is returned once."""
        found = []
        for part in parts:
            if not (contents := self._contents.get(part.label)):
                continue
            name, start, is_listed, content = contents.popleft()
            start += part.start
            own = safe_name(name)
            found.append(InnerDocument(own, start if is_listed else part.start, start, part.end, content.title, content.metadata))
            for d in content.inner:
                cut, first, end = (min(start + at, part.end) for at in (d.cut, d.start, d.end))
                found.append(replace(d, name=f"{own}/{d.name}", cut=cut, start=first, end=end))
        return tuple(found)

    def metadata(self) -> tuple[tuple[str, str], ...]:
        """The files that were not read, with their reasons."""
        by_reason: dict[str, list[str]] = {}
        for name, reason in self.unread:
            by_reason.setdefault(reason, []).append(name)
        listed = (
            f"{', '.join(names[:MAX_LISTED])}{f' and {len(names) - MAX_LISTED} more' if len(names) > MAX_LISTED else ''}: {reason}"
            for reason, names in by_reason.items()
        )
        return metadata_pairs(**{"not read": "; ".join(listed)})

    def _read_archive(self, name: str, data: bytes) -> None:
        with open_archive(InnerFile(name, -1, data)) as archive:
            for entry in (entry for entry in archive.infolist() if not entry.is_dir()):
                inner = f"{name}/{entry.filename}"
                try:
                    content = archive.read(entry)
                except (BadZipFile, zlib.error, lzma.LZMAError, EOFError, ValueError, RuntimeError, OSError) as error:
                    self.unread.append((inner, _damaged(error)))
                else:
                    self.read(inner, content)


def _damaged(error: Exception) -> str:
    return f"damaged: {str(error)[:100] or 'it ends too early'}"


def safe_name(name: str) -> str:
    """A name within a file as the end of a path: without control characters, and without components that lead elsewhere."""
    parts = (_NO_NAME_CHARS.sub(" ", part).strip()[:MAX_NAME_CHARS].strip() for part in name.split("/"))
    return "/".join(part for part in parts if part not in ("", ".", "..")) or "unnamed"


def are_nested(documents: Sequence[InnerDocument]) -> bool:
    """Whether no two documents overlap but by one being within the other, at most MAX_LEVELS deep."""
    ends = list[int]()
    for document in sorted(documents, key=lambda d: (d.start, -d.end)):
        while ends and ends[-1] <= document.start:
            ends.pop()
        if len(ends) == MAX_LEVELS or (ends and document.end > ends[-1]):
            return False
        ends.append(document.end)
    return True


@dataclass(frozen=True, slots=True)
class SplitText:
    """The text of a file, or of a file within it, without the files within that; `name` is empty for the file itself."""

    name: str
    text: str
    parts: tuple[DocumentPart, ...]
    blocks: tuple[DocumentBlock, ...] = ()
    title: str = ""
    metadata: tuple[tuple[str, str], ...] = ()


def split_text(
    text: str, parts: Sequence[DocumentPart], blocks: Sequence[DocumentBlock], inner: Sequence[InnerDocument]
) -> list[SplitText]:
    """The text of a file and those of the files within it, which have different names; one without text lists what is in it."""
    ordered = _with_own_names(sorted(inner, key=lambda d: (d.start, -d.end)))
    parts = sorted(parts, key=lambda part: part.start)
    found = [_part_of(text, parts, blocks, InnerDocument("", 0, 0, len(text)), ordered)]
    for n, document in enumerate(ordered):
        within = ordered[n + 1 : bisect_left(ordered, document.end, n + 1, key=lambda d: d.start)]
        first, last = bisect_left(parts, document.start, key=_start), bisect_right(parts, document.end, key=_start)
        own = blocks[bisect_left(blocks, document.start, key=_start) : bisect_left(blocks, document.end, key=_start)]
        found.append(_part_of(text, parts[first:last], own, document, within))
    return [part for part in found if part.text]


def _with_own_names(ordered: Sequence[InnerDocument]) -> list[InnerDocument]:
    """Documents by place, with a number after each name that an earlier one has; those within a document follow its name."""
    found, seen, taken, around = list[InnerDocument](), Counter[str](), set[str](), list[tuple[int, str, str]]()
    for document in ordered:
        while around and around[-1][0] <= document.start:
            around.pop()
        name = document.name
        if around and name.startswith(f"{around[-1][1]}/"):
            name = around[-1][2] + name.removeprefix(around[-1][1])
        own = name
        while own in taken:  # a file may be called like one that got a number
            seen[name] += 1
            own = f"{name} ({seen[name] + 1})"
        taken.add(own)
        around.append((document.end, document.name, own))
        found.append(replace(document, name=own))
    return found


def _start(span: DocumentPart | DocumentBlock) -> int:
    return span.start


def _part_of(
    text: str,
    parts: Sequence[DocumentPart],
    blocks: Sequence[DocumentBlock],
    document: InnerDocument,
    within: Sequence[InnerDocument],
) -> SplitText:
    """The text of one document, without the documents within it, and the parts and blocks that lie in it as a whole."""
    pieces, olds, news, length = list[str](), list[int](), list[int](), 0
    position = document.start
    for cut, end in [*((d.cut, d.end) for d in within), (document.end, document.end)]:
        piece = text[position : max(position, cut)]
        if body := piece.strip():
            olds.append(position + piece.index(body[0]))
            news.append(length)
            pieces.append(body)
            length += len(body) + 2
        position = max(position, end)

    def moved(span: AnySpan) -> Iterator[AnySpan]:
        place = bisect_right(olds, span.start) - 1
        if place >= 0 and span.end - olds[place] <= len(pieces[place]):
            by = news[place] - olds[place]
            yield replace(span, start=span.start + by, end=span.end + by)

    shifted = (new for part in parts if (part.start, part.end) != (document.cut, document.end) for new in moved(part))
    own = "\n\n".join(pieces) or "\n".join(f"- {d.name.removeprefix(f'{document.name}/')}" for d in within)
    own_blocks = tuple(new for block in blocks for new in moved(block)) if pieces else ()
    return SplitText(document.name, own, tuple(shifted), own_blocks, document.title, document.metadata)
