"""Files within a file: attachments of a mail or a PDF, archives in a mail, messages of a mailbox.

Each is read by the parser of its own suffix, within limits, and becomes a document of its own, whose path is below that of the file.
"""

import lzma
import re
import zlib
from bisect import bisect_left, bisect_right
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from zipfile import BadZipFile, ZipFile, ZipInfo

from localrag.loaders.content import InnerDocument, InnerFile, LoadOptions, ParsedFile, Unreadable, metadata_pairs, open_archive
from localrag.records import DocumentPart

MAX_LISTED = 5  # files that were not read for the same reason, by name
MAX_LEVELS = 32  # of documents within documents: messages nest 10 deep, attached files 4
MAX_NAME_CHARS = 120  # of a component of an inner document's name
_NO_NAME_CHARS = re.compile(r"[\x00-\x1f\x7f\\]+")


@dataclass(slots=True)
class InnerFiles:
    """The files within one file: `sections` has the label and text of those that were read, `unread` name and reason of the others."""

    options: LoadOptions
    sections: list[tuple[str, str]] = field(default_factory=list)
    unread: list[tuple[str, str]] = field(default_factory=list)
    _contents: dict[str, deque[tuple[str, bool, ParsedFile]]] = field(default_factory=dict)  # label → name, is it listed, content

    def read(self, name: str, data: bytes) -> None:
        """Read a file, or the files of an archive. What cannot be read is listed with its reason."""
        try:
            self._count(len(data))
            if PurePosixPath(name).suffix.lower() == ".zip":
                self._read_archive(name, data)
                return
            content = self._parsed(name, data)
        except Unreadable as error:
            self.unread.append((name, str(error)))
        else:
            self.add(f"attachment {name}", name, content)
            self.unread += [(f"{name}: {key}", value) for key, value in content.metadata if key == "not read"]

    def add(self, label: str, name: str, content: ParsedFile, *, is_listed: bool = False) -> None:
        """Add a file that was read, under a heading; `is_listed`: the heading stays in the text of the whole file."""
        self.sections.append((label, f"# {name}\n\n{content.text}"))
        self._contents.setdefault(label, deque()).append((name, is_listed, content))

    def documents(self, parts: Sequence[DocumentPart]) -> tuple[InnerDocument, ...]:
        """The files as documents, given the parts that `join_sections` made of `sections`; each file is returned once."""
        found = []
        for part in parts:
            if not (contents := self._contents.get(part.label)):
                continue
            name, is_listed, content = contents.popleft()
            start = min(part.start + len(f"# {name}\n\n"), part.end)
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

    def _count(self, size: int) -> None:
        """Count a file of so many bytes. Raises Unreadable for one beyond the limits."""
        budget = self.options.inner
        if budget is None or budget.files <= 0 or budget.size < size or budget.depth <= 0:
            raise Unreadable("too many files, too large or too deep within others")
        budget.files, budget.size = budget.files - 1, budget.size - size

    def _parsed(self, name: str, data: bytes) -> ParsedFile:
        """The content of a file that was counted. Raises Unreadable."""
        budget = self.options.inner
        assert budget is not None
        budget.depth -= 1
        try:
            plain = replace(self.options, ocr="", pages={}, tex_definitions="")
            content = budget.parse(InnerFile(PurePosixPath(name).name or name, -1, data), plain)
        except (Unreadable, MemoryError):
            raise
        except RecursionError as error:
            raise Unreadable("nested too deeply") from error
        except Exception as error:  # parsers of broken files raise anything
            raise Unreadable(f"damaged: {str(error)[:100] or 'it ends too early'}", failed=True) from error
        finally:
            budget.depth += 1
        return content

    def _read_archive(self, name: str, data: bytes) -> None:
        """Read the files of an archive that was counted. Raises Unreadable."""
        budget = self.options.inner
        assert budget is not None
        budget.depth -= 1
        try:
            with open_archive(InnerFile(name, -1, data)) as archive:
                for entry in archive.infolist():
                    if not entry.is_dir():
                        self._read_entry(archive, f"{name}/{entry.filename}", entry)
        finally:
            budget.depth += 1

    def _read_entry(self, archive: ZipFile, name: str, entry: ZipInfo) -> None:
        try:
            data = archive.read(entry)
        except (BadZipFile, zlib.error, lzma.LZMAError, EOFError, ValueError, RuntimeError, OSError) as error:
            self.unread.append((name, f"damaged: {str(error)[:100] or 'it ends too early'}"))
        else:
            self.read(name, data)


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
    title: str = ""
    metadata: tuple[tuple[str, str], ...] = ()


def split_text(text: str, parts: Sequence[DocumentPart], inner: Sequence[InnerDocument]) -> list[SplitText]:
    """The text of a file and those of the files within it, which have different names; one without text lists what is in it."""
    ordered = _with_own_names(sorted(inner, key=lambda d: (d.start, -d.end)))
    parts = sorted(parts, key=lambda part: part.start)
    found = [_part_of(text, parts, InnerDocument("", 0, 0, len(text)), ordered)]
    for n, document in enumerate(ordered):
        within = ordered[n + 1 : bisect_left(ordered, document.end, n + 1, key=lambda d: d.start)]
        first = bisect_left(parts, document.start, key=lambda part: part.start)
        last = bisect_right(parts, document.end, key=lambda part: part.start)
        found.append(_part_of(text, parts[first:last], document, within))
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


def _part_of(text: str, parts: Sequence[DocumentPart], document: InnerDocument, within: Sequence[InnerDocument]) -> SplitText:
    """The text of one document, without the documents within it, and the parts that lie in it as a whole."""
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
    shifted = []
    for part in parts:
        place = bisect_right(olds, part.start) - 1
        if place >= 0 and (part.start, part.end) != (document.cut, document.end) and part.end - olds[place] <= len(pieces[place]):
            by = news[place] - olds[place]
            shifted.append(replace(part, start=part.start + by, end=part.end + by))
    own = "\n\n".join(pieces) or "\n".join(f"- {d.name.removeprefix(f'{document.name}/')}" for d in within)
    return SplitText(document.name, own, tuple(shifted), document.title, document.metadata)
