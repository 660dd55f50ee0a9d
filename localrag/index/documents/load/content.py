"""What a parser makes of a file: text, title, metadata and parts; or why it can make nothing of it."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from localrag.records import Part

MEGABYTE = 1_000_000
ONLY_IMAGES, A_PICTURE = "only images, no text (scanned?)", "a picture"  # why nothing is read of scans where nothing reads them
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f\x84\x86-\x9f\ufffe\uffff]")  # not tab, line and page breaks
_HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)
_TRAILING = re.compile(r"(?<![ \t\xa0])[ \t\xa0]+(?=\n)")  # from where a run begins: else a long one costs its square
_BLANK = re.compile(r"\n{3,}")


def number_in(text: str, otherwise: int = 0) -> int:
    """The non-negative integer that `text` states, for counts and levels; `otherwise` if it is none or has ten digits or more."""
    return int(text) if text.isdecimal() and len(text) < 10 else otherwise


@dataclass(frozen=True, slots=True)
class Options:
    """How files are read. Of rows: the column (or key) that holds the text, and those whose values stand before it.

    `ocr` are the languages that scans are read in, as Tesseract takes them (`eng+deu`); empty where they are not read: `no_ocr` says why,
    and `ocr_refused` that it is the user's wish. `pages` are the scans read so far: number, from 1 → `tesseract.Page`.
    """

    text_column: str = ""
    metadata_columns: tuple[str, ...] = ()
    ocr: str = ""
    no_ocr: str = ""
    ocr_refused: bool = False
    pages: Mapping[int, Mapping[str, Any]] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class Content:
    """What a file holds. A `title` is the file's own: from its metadata or its first heading. `scans`: pages that are to be read by OCR."""

    text: str
    title: str = ""
    metadata: tuple[tuple[str, str], ...] = ()
    parts: tuple[Part, ...] = ()
    scans: tuple[int, ...] = ()


class Unreadable(Exception):
    """A file cannot be read; `failed`: it should have been possible."""

    def __init__(self, reason: str, *, failed: bool = False) -> None:
        super().__init__(reason)
        self.failed = failed


def compose(sections: Iterable[tuple[str, str]], goes_on: Callable[[str, str], bool] = lambda *_: False) -> tuple[str, tuple[Part, ...]]:
    """One text of labelled stretches; those without text or label are no part. Between two stands a blank line, or a space where the
    first `goes_on` in the second.
    """
    pieces: list[str] = []
    parts: list[Part] = []
    at = 0
    for label, section in sections:
        body = section.strip()
        if not body:
            continue
        if pieces:
            pieces.append(" " if goes_on(pieces[-1], body) else "\n\n")
            at += len(pieces[-1])
        if label:
            parts.append(Part(label, at, at + len(body)))
        pieces.append(body)
        at += len(body)
    return "".join(pieces), tuple(parts)


def clean(text: str) -> str:
    """Text out of a binary format: without control characters, spaces at line ends and runs of blank lines."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _BLANK.sub("\n\n", _TRAILING.sub("", _CONTROL.sub("", text))).strip("\n")


def first_heading(text: str) -> str:
    """The first `# …` line of a text, without its marks."""
    found = _HEADING.search(text)
    return found[1] if found else ""


def described(**values: object) -> tuple[tuple[str, str], ...]:
    """Metadata of those values that say something, each on one line."""
    rows = ((name, " ".join(str(value).split())[:500]) for name, value in values.items() if value)
    return tuple((name, value) for name, value in rows if value)
