"""ParsedFile, LoadOptions and Unreadable; open files; size-checked zip archives; decoding of bytes to text."""

import codecs
import ctypes
import errno
import io
import mmap
import os
import re
import stat
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, cast
from zipfile import BadZipFile, ZipFile

from localrag.records import DocumentPart

MEGABYTE = 1_000_000
ONLY_IMAGES, A_PICTURE = "only images, no text (scanned?)", "a picture"  # reasons for unread scans without OCR
UNKNOWN_CHARACTERS = "its fonts do not say which characters they draw"
UNKNOWN_FONTS = f"no readable text, {UNKNOWN_CHARACTERS}"
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f\x84\x86-\x9f\ufffe\uffff]")  # except tab, line and page breaks
_HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)
_TRAILING = re.compile(r"(?<![ \t\xa0])[ \t\xa0]+(?=\n)")  # matches only from the start of a run: otherwise quadratic in its length
_BLANK = re.compile(r"\n{3,}")
_TRADE_MARKS = ("®", "™", "℠", "©", "º", "ª")


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

    `ocr`: the languages of OCR as Tesseract takes them (`eng+deu`), empty without OCR: then `ocr_unavailable_reason` says why, and
    `is_ocr_disabled` that the user disabled it. `pages`: the scanned pages read so far, page number from 1 → `ocr.TesseractPage`.
    `inner`: what may still be read of the files within the file.
    """

    text_column: str = ""
    metadata_columns: tuple[str, ...] = ()
    ocr: str = ""
    ocr_unavailable_reason: str = ""
    is_ocr_disabled: bool = False
    pages: Mapping[int, Mapping[str, Any]] = field(default_factory=dict, compare=False)
    inner: "InnerBudget | None" = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class ParsedFile:
    """The content of a file. `title`: from its metadata or first heading. `pages_to_ocr`: the numbers of pages that need OCR."""

    text: str
    title: str = ""
    metadata: tuple[tuple[str, str], ...] = ()
    parts: tuple[DocumentPart, ...] = ()
    pages_to_ocr: tuple[int, ...] = ()


class Unreadable(Exception):
    """A file cannot be read. `failed`: its format is supported, so this is a failure."""

    def __init__(self, reason: str, *, failed: bool = False) -> None:
        super().__init__(reason)
        self.failed = failed


def join_sections(
    sections: Iterable[tuple[str, str]], goes_on: Callable[[str, str], bool] = lambda *_: False
) -> tuple[str, tuple[DocumentPart, ...]]:
    """Join labelled sections into one text, with parts for those with text and label.

    Sections are separated by a blank line, or by a space where `goes_on(first, second)` is true.
    """
    texts: list[str] = []
    parts: list[DocumentPart] = []
    offset = 0
    for label, section in sections:
        body = section.strip()
        if not body:
            continue
        if texts:
            texts.append(" " if goes_on(texts[-1], body) else "\n\n")
            offset += len(texts[-1])
        if label:
            parts.append(DocumentPart(label, offset, offset + len(body)))
        texts.append(body)
        offset += len(body)
    return "".join(texts), tuple(parts)


def clean_text(text: str) -> str:
    """Text from a binary format without control characters, trailing spaces and multiple blank lines."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _BLANK.sub("\n\n", _TRAILING.sub("", _CONTROL.sub("", text))).strip("\n")


def first_heading(text: str) -> str:
    """The first `# …` line of a text, without the #; empty if there is none."""
    match = _HEADING.search(text)
    return match[1] if match else ""


def superscript(text: str, *, is_note: bool = False) -> str:
    """Raised text as it follows the text before it: `1st`, `10^6`, and `1894[2]` for the mark of a note.

    Plain digits would join the number before them, and the raised ones of Unicode are plain digits to most models.
    """
    mark = " ".join(text.split())
    if not mark or mark.isalpha() or mark in _TRADE_MARKS:
        return mark
    if is_note or mark[0] in "[(*†‡§¶#":
        return f"[{mark.strip('[]()')}]"
    return f"^{mark}" if re.fullmatch(r"[-+−–]?\w+(?:[.,]\d+)?|[-+−–]", mark) else f"^({mark})"


def subscript(text: str) -> str:
    """Lowered text as it follows the text before it: `CO2`, `x_i`."""
    mark = " ".join(text.split())
    return mark if not mark or mark[0].isdigit() else f"_{mark}" if mark.isalnum() else f"_({mark})"


_ROMAN = ((100, "c"), (90, "xc"), (50, "l"), (40, "xl"), (10, "x"), (9, "ix"), (5, "v"), (4, "iv"), (1, "i"))


def format_number(number: int, form: str) -> str:
    """A list number in one of Word's formats, such as `lowerLetter`, `upperRoman` or `decimal`."""
    if form in {"lowerLetter", "upperLetter"} and number > 0:
        text = chr(ord("a") + (number - 1) % 26) * ((number - 1) // 26 % 50 + 1)
    elif form in {"lowerRoman", "upperRoman"} and 0 < number < 400:
        text, remaining = "", number
        for value, sign in _ROMAN:
            text += sign * (remaining // value)
            remaining %= value
    else:
        text = str(number)
    return text.upper() if form.startswith("upper") else text


def comment_line(text: str, author: str, date: str) -> str:
    """A reader's comment with author and date."""
    return f"Comment{f' by {author}' if author else ''}{f', {date[:10]}' if date else ''}: {text}"


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

    @property
    def size(self) -> int:
        """The size in bytes."""
        return os.fstat(self.descriptor).st_size

    def open(self) -> BinaryIO:
        """A stream from the beginning, with its own position."""
        return cast("BinaryIO", io.BufferedReader(_RawReader(self.descriptor), 1 << 16))

    def read_bytes(self) -> bytes:
        """The complete content."""
        with self.open() as file:
            return file.read()

    def mapped(self) -> "ctypes.Array[ctypes.c_char]":
        """The complete content, memory-mapped without a copy. Raises ValueError for an empty file."""
        pages = mmap.mmap(self.descriptor, 0, access=mmap.ACCESS_COPY)
        return (ctypes.c_char * len(pages)).from_buffer(pages)


@dataclass(frozen=True, slots=True)
class InnerFile(OpenFile):
    """A file within another one, in memory; it has no descriptor."""

    data: bytes

    @property
    def size(self) -> int:
        """The size in bytes."""
        return len(self.data)

    def open(self) -> BinaryIO:
        """A stream from the beginning, with its own position."""
        return io.BytesIO(self.data)

    def mapped(self) -> "ctypes.Array[ctypes.c_char]":
        """A copy of the complete content. Raises ValueError for an empty file."""
        if not self.data:
            raise ValueError("an empty file")
        return (ctypes.c_char * len(self.data)).from_buffer_copy(self.data)


class _RawReader(io.RawIOBase):
    """Reads with `preadv` at its own position: duplicates of a descriptor share one."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor, self._position = os.dup(descriptor), 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        read = os.preadv(self._descriptor, [buffer], self._position)
        self._position += read
        return read

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: os.fstat(self._descriptor).st_size}[whence]
        if start + offset < 0:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        self._position = start + offset
        return self._position

    def tell(self) -> int:
        return self._position

    def close(self) -> None:
        if not self.closed:
            os.close(self._descriptor)
        super().close()


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
_OLD_OFFICE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"


def open_archive(file: OpenFile) -> ZipFile:
    """Open a zip archive whose declared size is acceptable; zipfile never unpacks more than declared.

    Raises Unreadable for an encrypted archive, a zip bomb, or a file that is no archive.
    """
    _refuse_old_office(file)
    try:
        archive = ZipFile(file.open())
    except (BadZipFile, ValueError, OSError, NotImplementedError) as error:
        raise Unreadable(f"damaged: {error}", failed=True) from error
    entries = archive.infolist()
    size, packed = sum(e.file_size for e in entries), sum(e.compress_size for e in entries)
    if size > MAX_UNPACKED_BYTES or len(entries) > MAX_ENTRIES or (size > RATIO_CHECK_FROM_BYTES and size > packed * MAX_COMPRESSION_RATIO):
        raise Unreadable(f"a zip bomb: {file.size / MEGABYTE:.1f} MB unpack to {size / MEGABYTE:,.0f} MB")
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


def _refuse_old_office(file: OpenFile) -> None:
    """Raise Unreadable for Office's old format, which also wraps encrypted documents of any suffix."""
    with file.open() as f:
        head = f.read(MEGABYTE)
    if head.startswith(_OLD_OFFICE):
        encrypted = "EncryptedPackage".encode("utf-16-le") in head
        raise Unreadable("password-protected" if encrypted else f"format not supported: Office before 2007, though named {file.suffix}")


_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_SUPERSET_ENCODINGS = {
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "big5": "cp950",
    "euc-kr": "cp949",
    "iso-8859-1": "cp1252",
}
_STRANGE = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f-\x84\x86-\x9f\ufffd-\uffff\ue000-\uf8ff]")
_SAMPLE_BYTES = 200_000  # bytes used to detect an encoding


def decode(data: bytes, declared: str = "") -> str:
    r"""Decode a file's bytes: UTF-8 first and strictly, then by byte-order marks, then by detection. Line ends become `\n`.

    `declared`: the encoding the file declares. Raises Unreadable for binary data.
    """
    text = _decoded(data, declared)
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _decoded(data: bytes, declared: str) -> str:
    mark = next((name for mark, name in _BYTE_ORDER_MARKS if data.startswith(mark)), "")
    if mark:
        return _plausible(data, mark) or _refuse()
    if b"\x1b$" in data and (japanese := _plausible(data, "iso2022_jp")):
        return japanese  # all its bytes are ASCII
    if b"\0" not in data:
        try:
            return _without_noise(data.decode("utf-8"))
        except UnicodeDecodeError:
            pass
        return _plausible(data, declared) or _detected(data) or _refuse()
    return next((text for name in _utf16_or_32(data) if (text := _plausible(data, name))), "") or _refuse()


def looks_binary(head: bytes) -> bool:
    """Whether the first bytes of a file are not text in any encoding."""
    if head.startswith(tuple(mark for mark, _ in _BYTE_ORDER_MARKS)):
        return False
    if b"\0" in head:
        return not _utf16_or_32(head)
    return sum(byte < 9 or 13 < byte < 27 or 27 < byte < 32 for byte in head) > len(head) * 0.01


def _utf16_or_32(data: bytes) -> list[str]:
    """UTF-16 or UTF-32 by the positions of zero bytes, which come with Latin letters, spaces and line ends; empty if neither."""
    sample = data[: _SAMPLE_BYTES - _SAMPLE_BYTES % 4]
    zeros = [sample[n::4].count(0) * 4 / max(len(sample), 1) for n in range(4)]
    if min(zeros[2:]) > 0.95 and zeros[0] < 0.5:
        return ["utf-32-le"]
    if min(zeros[:2]) > 0.95 and zeros[3] < 0.5:
        return ["utf-32-be"]
    even, odd = (zeros[0] + zeros[2]) / 2, (zeros[1] + zeros[3]) / 2
    if len(data) % 2 or abs(even - odd) < max(even, odd) * 0.8:
        return []
    return ["utf-16-le"] if odd > even else ["utf-16-be"]


def _plausible(data: bytes, name: str) -> str:
    """The text of the data in an encoding; empty if it is not plausible."""
    try:
        text = data.decode(_SUPERSET_ENCODINGS.get(name.lower(), name or "ascii"))
    except (ValueError, LookupError):  # some codecs raise other errors than UnicodeDecodeError
        return ""
    return text if text and len(_STRANGE.findall(text[:_SAMPLE_BYTES])) <= len(text[:_SAMPLE_BYTES]) * 0.002 else ""


def _detected(data: bytes) -> str:
    """The text of the data in the detected encoding; empty if it is not plausible."""
    import chardet

    detected = chardet.detect(data[:_SAMPLE_BYTES])
    name = str(detected["encoding"] or "")
    text = _plausible(data, name)
    foreign = [c for c in text[:_SAMPLE_BYTES] if c > "~" and unicodedata.category(c)[0] not in "PZ"]
    if text and sum(unicodedata.category(c) != "So" for c in foreign) >= 0.8 * len(foreign):  # So: boxes, blocks, dingbats
        return text
    return _replaced(data) if len(data) > _SAMPLE_BYTES / 100 else ""


def _replaced(data: bytes) -> str:
    """UTF-8 with a few broken bytes, as in a file cut within a character; empty if there are more."""
    text = data.decode("utf-8", "replace")
    return text if text.count("\ufffd") <= len(text) * 0.001 else ""


def _without_noise(text: str) -> str:
    strange = sum(c in "\x01\x02\x03\x04\x05\x06\x07\x08\x0e\x0f\x7f" for c in text[:_SAMPLE_BYTES])
    return text if strange <= len(text[:_SAMPLE_BYTES]) * 0.01 else _refuse()


def _refuse() -> str:
    raise Unreadable("binary, not text")
