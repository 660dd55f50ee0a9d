"""ParsedFile, LoadOptions and Unreadable; open files; size-checked zip archives; decoding of bytes to text."""

import errno
import io
import os
import re
import stat
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO
from zipfile import BadZipFile, ZipFile

from localrag.loaders.encodings import decode_bytes
from localrag.records import DocumentBlock, DocumentPart

MEGABYTE = 1_000_000
ONLY_IMAGES, A_PICTURE = "only images, no text (scanned?)", "a picture"  # reasons for unread scans without OCR
UNKNOWN_CHARACTERS = "its fonts do not say which characters they draw"
UNKNOWN_FONTS = f"no readable text, {UNKNOWN_CHARACTERS}"
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f\x84\x86-\x9f\ufffe\uffff]")  # except tab, line and page breaks
_HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)
_TRAILING = re.compile(r"(?<![ \t\xa0])[ \t\xa0]+(?=\n)")  # matches only from the start of a run: otherwise quadratic in its length
_BLANK = re.compile(r"\n{3,}")
_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]{0,200}(?:\x07|\x1b\\)|[@-Z\\^_])"
)  # of terminals: colors, cursor, titles
# Invisible marks within words, ligatures, and letters with combining accents.
_TYPOGRAPHY = re.compile(
    "\u00ad(?:[ \t]*\n[ \t]*(?=[^\\W\\d_]))?|[\u2060\ufeff]|(?<=[A-Za-z\u00c0-\u04ff])\u200b(?=[A-Za-z\u00c0-\u04ff])"
    "|[\ufb00-\ufb06\ufb13-\ufb17]|[A-Za-z\u00c0-\u04ff][\u0300-\u036f]+"
)
_REPLACED_CHARACTERS = re.compile("[\u00ad\u200b\u2060\ufeff\ufb00-\ufb17\u0300-\u036f]")  # one of them is in every match


def number_in(text: str, otherwise: int = 0) -> int:
    """The non-negative integer in `text`, for counts and levels; `otherwise` if it is none or has ten digits or more."""
    return int(text) if text.isdecimal() and len(text) < 10 else otherwise


@dataclass(slots=True)
class InnerBudget:
    """What may still be read of the files within a file, at any depth, and the function that parses them."""

    parse: "Callable[[OpenFile, LoadOptions], ParsedFile]"
    files: int = 500
    size: int = 200 * MEGABYTE
    depth: int = 4


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """Options for reading files. Of tables: the text column (or key), and the columns put before the text as metadata.

    `ocr`: the languages of OCR as Tesseract takes them (`eng+deu`), empty without OCR: then `ocr_unavailable_reason` says why.
    `pages`: the scanned pages read so far, page number from 1 → `ocr.OcrPage`. `definitions`: see `latex_inputs`. `all_files`: also
    minified code.
    """

    text_column: str = ""
    metadata_columns: tuple[str, ...] = ()
    ocr: str = ""
    ocr_unavailable_reason: str = ""
    is_ocr_disabled: bool = False
    pages: Mapping[int, Mapping[str, Any]] = field(default_factory=dict, compare=False)
    inner: "InnerBudget | None" = field(default=None, compare=False)
    definitions: str = field(default="", compare=False)
    all_files: bool = False


@dataclass(frozen=True, slots=True)
class InnerDocument:
    """A file within a file that becomes a document of its own: characters `start` to `end` of the file's text.

    `name`: its place in the file, with slashes. The document of the file itself leaves out what is between `cut` and `end`.
    """

    name: str
    cut: int
    start: int
    end: int
    title: str = ""
    metadata: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class ParsedFile:
    """The content of a file, also of the files within it, `inner`. `title`: from its metadata or first heading.

    `pages_to_ocr`: the numbers of pages that need OCR. `kind`: the suffix by which the file was read.
    """

    text: str
    title: str = ""
    metadata: tuple[tuple[str, str], ...] = ()
    parts: tuple[DocumentPart, ...] = ()
    blocks: tuple[DocumentBlock, ...] = ()
    pages_to_ocr: tuple[int, ...] = ()
    inner: tuple[InnerDocument, ...] = ()
    kind: str = ""


class Unreadable(Exception):
    """A file cannot be read. `failed`: its format is supported, so this is a failure; `kind`: as of a ParsedFile."""

    def __init__(self, reason: str, *, failed: bool = False) -> None:
        super().__init__(reason)
        self.failed, self.kind = failed, ""


def clean_text(text: str) -> str:
    """Text from a binary format without control characters, trailing spaces and multiple blank lines."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _BLANK.sub("\n\n", _TRAILING.sub("", _CONTROL.sub("", text))).strip("\n")


def normalize_typography(content: ParsedFile) -> ParsedFile:
    """The content as a search for its words finds it: without soft hyphens, with ligatures as letters and accents in their letters."""
    content = replace(content, title=_TYPOGRAPHY.sub(lambda match: _plain_letters(match[0]), content.title))
    if content.text.isascii() or not _REPLACED_CHARACTERS.search(content.text):
        return content
    pieces: list[str] = []
    ends, shifts = [0], [0]  # end of each replaced piece in the old text, and how far the text after it moves
    position = 0
    for match in _TYPOGRAPHY.finditer(content.text):
        replacement = _plain_letters(match[0])
        pieces += [content.text[position : match.start()], replacement]
        position = match.end()
        ends.append(position)
        shifts.append(shifts[-1] + len(replacement) - len(match[0]))

    text = "".join([*pieces, content.text[position:]])

    def moved(offset: int) -> int:
        return min(offset + shifts[bisect_right(ends, offset) - 1], len(text))

    parts = (replace(p, start=moved(p.start), end=moved(p.end)) for p in content.parts)
    blocks = (replace(b, start=moved(b.start), end=moved(b.end)) for b in content.blocks)
    inner = (replace(d, cut=moved(d.cut), start=moved(d.start), end=moved(d.end)) for d in content.inner)
    return replace(content, text=text, parts=tuple(parts), blocks=tuple(blocks), inner=tuple(inner))


def _plain_letters(text: str) -> str:
    if text[0] in "\u00ad\u2060\ufeff\u200b":
        return ""
    return unicodedata.normalize("NFKC" if text[0] >= "\ufb00" else "NFC", text)


def strip_escapes(text: str) -> str:
    """A text without the escape sequences of terminals."""
    return _ESCAPES.sub("", text) if "\x1b" in text else text


def first_heading(text: str) -> str:
    """The first `# …` line of a text, without the #; empty if there is none."""
    match = _HEADING.search(text)
    return match[1] if match else ""


def superscript(text: str, *, is_note: bool = False) -> str:
    """Raised text as it follows the text before it: `1st`, `10^6`, and `1894[2]` for the mark of a note.

    Plain digits would join the number before them, and the raised ones of Unicode are plain digits to most models.
    """
    mark = " ".join(text.split())
    if mark and (is_note or mark[0] in "[(*†‡§¶#"):
        return f"[{mark.strip('[]()')}]"
    if not mark or mark.isalpha() or _is_punctuation(mark):
        return mark
    return f"^{mark}" if re.fullmatch(r"[-+−–]?\w+(?:[.,]\d+)?|[-+−–]", mark) else f"^({mark})"


def subscript(text: str) -> str:
    """Lowered text as it follows the text before it: `CO2`, `x_i`."""
    mark = " ".join(text.split())
    return mark if not mark or mark[0].isdigit() or _is_punctuation(mark) else f"_{mark}" if mark.isalnum() else f"_({mark})"


def _is_punctuation(mark: str) -> bool:
    """Whether a raised or lowered text is a sign, or begins as a remark does: `°`, `: 228`."""
    return mark[0] in ":;,." or not any(c.isalnum() or c in "+-−–" for c in mark)


def metadata_pairs(**values: object) -> tuple[tuple[str, str], ...]:
    """The non-empty values as metadata, each on one line."""
    rows = ((name, " ".join(str(value).split())[:500]) for name, value in values.items() if value)
    return tuple((name, value) for name, value in rows if value)


@dataclass(frozen=True, slots=True)
class OpenFile:
    """A file's name without its folder, and its open descriptor, so that the sandboxed process needs no access to the path.

    Every read may raise OSError.
    """

    name: str
    descriptor: int

    @property
    def suffix(self) -> str:
        """The suffix of the name, with the dot."""
        return Path(self.name).suffix

    def read_bytes(self, most: int = -1) -> bytes:
        """The content, or its beginning."""
        with os.fdopen(self.descriptor, "rb", closefd=False) as file:
            file.seek(0)
            return file.read(most)

    def open(self) -> BinaryIO:
        """A stream of the complete content."""
        return io.BytesIO(self.read_bytes())


@dataclass(frozen=True, slots=True)
class InnerFile(OpenFile):
    """A file within another one, in memory; it has no descriptor."""

    data: bytes

    def read_bytes(self, most: int = -1) -> bytes:
        """The content, or its beginning."""
        return self.data if most < 0 else self.data[:most]


@contextmanager
def open_file(path: Path) -> Iterator[OpenFile]:
    """Open a regular file until the end of the block, without blocking on a pipe. Raises OSError, also for other kinds of files."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        yield OpenFile(path.name, descriptor)
    finally:
        os.close(descriptor)


MAX_UNPACKED_BYTES = 500 * MEGABYTE
MAX_COMPRESSION_RATIO = 200  # real documents reach 40
RATIO_CHECK_FROM_BYTES = 20 * MEGABYTE  # smaller archives may have any ratio
MAX_ENTRIES = 20_000


def open_archive(file: OpenFile) -> ZipFile:
    """Open a zip archive whose declared size is acceptable; zipfile never unpacks more than declared.

    Raises Unreadable for an encrypted archive, a zip bomb, or a file that is no archive.
    """
    try:
        archive = ZipFile(file.open())
    except (BadZipFile, ValueError, OSError, NotImplementedError) as error:
        raise Unreadable(f"damaged: {error}", failed=True) from error
    entries = archive.infolist()
    size, packed = sum(e.file_size for e in entries), sum(e.compress_size for e in entries)
    if size > MAX_UNPACKED_BYTES or len(entries) > MAX_ENTRIES or (size > RATIO_CHECK_FROM_BYTES and size > packed * MAX_COMPRESSION_RATIO):
        raise Unreadable(f"a zip bomb: {packed / MEGABYTE:.1f} MB unpack to {size / MEGABYTE:,.0f} MB")
    if any(e.flag_bits & 1 for e in entries):
        raise Unreadable("password-protected")
    return archive


def read_entry(archive: ZipFile, name: str, *, needed: bool = True) -> bytes:
    """A file of an archive; if not `needed`, empty if it is missing or damaged. Raises Unreadable."""
    try:
        return archive.read(name)
    except (KeyError, BadZipFile) as error:
        if needed:
            raise Unreadable(f"damaged: {name} is missing or corrupt", failed=True) from error
        return b""


def decode(data: bytes, declared: str = "") -> str:
    r"""Decode a file's bytes, see `encodings.decode_bytes`. Line ends become `\n`.

    `declared`: the encoding the file declares. Raises Unreadable for binary data.
    """
    text = decode_bytes(data, declared)
    if data and not text:
        raise Unreadable("binary, not text", failed=True)
    return text.replace("\r\n", "\n").replace("\r", "\n")
