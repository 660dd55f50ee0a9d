"""The pages of a wiki: a generated block between two lines of markers, and everything else, which belongs to a person.

The first marker names the subject of the page and has hashes of the block and of the properties as they were generated, so that what a
person changed there is detected: it is left as it is. No other byte of a page ever changes.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from localrag.records import content_id
from localrag.system.files import read_regular_file
from localrag.text.sentences import replace_control_characters

BEGIN_NOTE = "generated: write above this line or below the next one"
NO_HASH = "-"
_BEGIN = re.compile(r"^%%localrag:begin (\S+) ([0-9a-f]{20}) ([0-9a-f]{20}|-)[^\n]*%%[ \t]*\r?\n", re.MULTILINE)
_END = re.compile(r"^%%localrag:end%%[ \t]*\r?(?:\n|\Z)", re.MULTILINE)
_FRONT = re.compile(r"\A\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*\r?(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_FRONT_KEY = re.compile(r"""^localrag:[ \t]*["']?([\w:]+)["']?[ \t]*\r?$""", re.MULTILINE)
MAX_PAGE_BYTES = 10_000_000
Properties = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class GeneratedPage:
    """A page as it is generated: its subject, the kind and folder of a new page, its properties (None: they stay), its text."""

    key: str
    kind: str
    folder: str
    front: Properties | None
    text: str


@dataclass(frozen=True, slots=True)
class PageBlock:
    """A generated block of a page. `made_hash`: of its text as generated; `front_hash`: of the properties generated with it."""

    key: str
    start: int
    end: int
    text: str
    made_hash: str
    front_hash: str


@dataclass(frozen=True, slots=True)
class WikiPage:
    """A page in a folder: its subject, its path below the folder, its text; `block` is None if the person took its markers out."""

    key: str
    path: str
    text: str
    block: PageBlock | None

    @property
    def is_edited(self) -> bool:
        """Whether the person changed the generated block, or took its markers out."""
        return self.block is None or hash_text(self.block.text) != self.block.made_hash

    @property
    def own_parts(self) -> list[tuple[int, str]]:
        """What the person wrote outside of the block and the properties, with the offset of each part."""
        front = _FRONT.match(self.text)
        first = front.end() if front else 0
        if self.block is None:
            return [(first, self.text[first:])]
        return [(first, self.text[first : self.block.start]), (self.block.end, self.text[self.block.end :])]

    @property
    def is_only_generated(self) -> bool:
        """Whether the person wrote nothing: nothing outside of the block, no other properties, and the block is unedited."""
        front = _FRONT.match(self.text)
        is_theirs = front is not None and self.block is not None and hash_text(front[1]) != self.block.front_hash
        return not self.is_edited and not is_theirs and not any(part.strip("\ufeff \t\r\n") for _, part in self.own_parts)


def hash_text(text: str) -> str:
    """Return the hash of a generated text, whatever the line ends and the white space around it."""
    return content_id(text.replace("\r\n", "\n").strip().encode("utf-8", "replace").decode())


def _page_blocks(text: str) -> Iterator[PageBlock]:
    """A first marker that another one follows before the last marker begins none."""
    begins = list(_BEGIN.finditer(text))
    for begin, following in zip_longest(begins, begins[1:]):
        end = _END.search(text, begin.end(), following.start() if following else len(text))
        if end is not None:
            yield PageBlock(begin[1], begin.start(), end.end(), text[begin.end() : end.start()], begin[2], begin[3])


def parse_page(path: str, text: str) -> WikiPage | None:
    """A page of a wiki; None for any other text. Of several blocks, its own is that of the subject that its properties name."""
    front = _FRONT.match(text)
    named = _FRONT_KEY.search(front[1]) if front else None
    key = named[1] if named else ""
    block = min(_page_blocks(text), key=lambda b: (b.key != key, b.start), default=None)
    if block is not None:
        return WikiPage(block.key, path, text, block)
    begin = _BEGIN.search(text)
    subject = key or (begin[1] if begin else "")
    return WikiPage(subject, path, text, None) if subject else None


def read_text(path: Path) -> str:
    """Read the text of a page; bytes that are no UTF-8 come back as they were from `encode_text`. Raises OSError."""
    return read_regular_file(path, MAX_PAGE_BYTES).decode("utf-8", "surrogateescape")


def encode_text(text: str) -> bytes:
    """Return the bytes of a page."""
    return text.encode("utf-8", "surrogateescape")


def new_page(page: GeneratedPage) -> str:
    """Return the text of a page that does not exist yet."""
    if page.front is None:
        return _render(page, NO_HASH)
    yaml = _dump(page.front)
    return f"---\n{yaml}---\n\n" + _render(page, hash_text(yaml))


def updated_page(old: WikiPage, page: GeneratedPage) -> str:
    """Return the text of a page brought up to date; the same if the person changed the generated part."""
    block = old.block
    if block is None or old.is_edited:
        return old.text
    head, front_hash = _updated_front(old.text[: block.start], block.front_hash, page.front)
    body, newline = old.text[block.start : block.end], "\r\n" if "\r\n" in block.text else "\n"
    if (block.key, block.made_hash, block.front_hash) != (page.key, hash_text(page.text), front_hash):
        body = _render(page, front_hash, newline)
    return head + body + old.text[block.end :]


def _render(page: GeneratedPage, front_hash: str, newline: str = "\n") -> str:
    begin = f"%%localrag:begin {page.key} {hash_text(page.text)} {front_hash} {BEGIN_NOTE}%%"
    return f"{begin}\n\n{page.text.strip()}\n\n%%localrag:end%%\n".replace("\n", newline)


def _updated_front(head: str, front_hash: str, new: Properties | None) -> tuple[str, str]:
    """Return what stands above the block, with new properties, and their hash; the same if the person changed any."""
    front = _FRONT.match(head)
    if front is None or new is None or hash_text(front[1]) != front_hash:
        return head, front_hash
    yaml, newline = _dump(new), "\r\n" if "\r\n" in front[1] else "\n"
    return head[: front.start(1)] + yaml.replace("\n", newline) + head[front.end(1) :], hash_text(yaml)


def _dump(values: Properties) -> str:
    import yaml

    cleaned = {_cleaned(key): _cleaned(value) for key, value in values.items()}
    return str(yaml.safe_dump(cleaned, allow_unicode=True, sort_keys=False, width=10**9))


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return replace_control_characters(value).replace("[[", "((").replace("]]", "))")  # Obsidian follows links in properties, too
    return [_cleaned(v) for v in value] if isinstance(value, list) else value
