"""The pages of a wiki: a generated block between two lines of markers, and everything else, which belongs to a person.

The first marker names the subject of the page and has hashes of the block and of the properties as they were generated, so that what a
person changed there is detected. A changed block is left as it is; its new version is put below it, once. Of the properties only the
generated ones are replaced, and only while none of them was changed. No other byte of a page ever changes.
"""

import json
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
NEW_NOTE = "you changed the part above: this is its new version, keep one of the two"
NO_HASH = "-"
_BEGIN = re.compile(r"^%%localrag:(begin|new) (\S+) ([0-9a-f]{20}) ([0-9a-f]{20}|-) ([0-9a-f]{20}|-)[^\n]*%%[ \t]*\r?\n", re.MULTILINE)
_END = re.compile(r"^%%localrag:end%%[ \t]*\r?(?:\n|\Z)", re.MULTILINE)
_FRONT = re.compile(r"\A\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*\r?(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_FRONT_KEY = re.compile(r"""^localrag:[ \t]*["']?([\w:]+)["']?[ \t]*\r?$""", re.MULTILINE)
MAX_PAGE_BYTES = 10_000_000
MAX_FRONT_CHARS = 100_000
MAX_FRONT_BRACKETS = 1_000  # open brackets: the parser's time grows with the square of how deep they nest
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
    """A generated block at characters `start` to `end` of a page, with its markers.

    `made_hash`: of its text as it was generated; `front_hash`: of the properties that were generated with it; `offered_hash`: of the new
    version that was put below it, NO_HASH without one. `is_new`: it is such a new version.
    """

    key: str
    start: int
    end: int
    text: str
    made_hash: str
    front_hash: str
    offered_hash: str
    is_new: bool

    @property
    def marker(self) -> tuple[str, str, str, str, bool]:
        """What its first marker says."""
        return self.key, self.made_hash, self.front_hash, self.offered_hash, self.is_new

    @property
    def is_unedited(self) -> bool:
        """Whether its text is as it was generated."""
        return hash_text(self.text) == self.made_hash


@dataclass(frozen=True, slots=True)
class WikiPage:
    """A page in a folder: its subject, its path below the folder, its text; `block` is None if the person took its markers out."""

    key: str
    path: str
    text: str
    block: PageBlock | None

    @property
    def offer(self) -> PageBlock | None:
        """The new version below the block, unless the person changed it, which makes it theirs."""
        if self.block is None:
            return None
        return next((b for b in blocks(self.text, self.block.end) if b.is_new and b.key == self.key and b.is_unedited), None)

    @property
    def is_edited(self) -> bool:
        """Whether the person changed the generated block, or took its markers out."""
        return self.block is None or not self.block.is_unedited

    @property
    def names(self) -> list[str]:
        """What tells its subject from others: the path of a document, else the aliases and the name of the file."""
        front = _FRONT.match(self.text)
        values = (load_properties(front[1]) if front else None) or {}
        if self.key.startswith("document:"):
            return [source] if isinstance(source := values.get("source"), str) else []
        aliases = values.get("aliases")
        return [*(name for name in (aliases if isinstance(aliases, list) else [aliases]) if isinstance(name, str)), Path(self.path).stem]

    @property
    def own_parts(self) -> list[tuple[int, str]]:
        """What the person wrote outside of the block and the properties, with the offset of each part."""
        if self.block is None:
            parts = [(0, len(self.text))]
        else:
            offer = self.offer
            stops = [self.block.start, self.block.end, *((offer.start, offer.end) if offer else ()), len(self.text)]
            parts = list(zip([0, *stops[1::2]], stops[::2], strict=True))
        front = _FRONT.match(self.text)
        first = front.end() if front else 0
        return [(max(a, first), self.text[max(a, first) : b]) for a, b in parts if b > max(a, first)]

    @property
    def is_only_generated(self) -> bool:
        """Whether the person wrote nothing: nothing outside of the block, no other properties, and the block is unedited."""
        front = _FRONT.match(self.text)
        is_theirs = front is not None and self.block is not None and hash_properties(load_properties(front[1])) != self.block.front_hash
        return not self.is_edited and not is_theirs and not any(part.strip("\ufeff \t\r\n") for _, part in self.own_parts)


def hash_text(text: str) -> str:
    """The hash of a generated text, whatever the line ends and the white space around it."""
    return content_id(text.replace("\r\n", "\n").strip().encode("utf-8", "replace").decode())


def blocks(text: str, start: int = 0) -> Iterator[PageBlock]:
    """The blocks of a page from an offset on; a first marker that another one follows before the last marker begins none."""
    begins = list(_BEGIN.finditer(text, start))
    for begin, following in zip_longest(begins, begins[1:]):
        end = _END.search(text, begin.end(), following.start() if following else len(text))
        if end is not None:
            kind, key, made, front, offered = begin.groups()
            yield PageBlock(key, begin.start(), end.end(), text[begin.end() : end.start()], made, front, offered, kind == "new")


def parse_page(path: str, text: str) -> WikiPage | None:
    """A page of a wiki; None for any other text.

    Of several blocks, the page's is the one of the subject that its properties name, as the others may have been copied there. If the
    person deleted the block and kept its new version, that is the block.
    """
    front = _FRONT.match(text)
    named = _FRONT_KEY.search(front[1]) if front else None
    key = named[1] if named else ""
    block = min(blocks(text), key=lambda b: (b.key != key, b.is_new, not b.is_unedited, b.start), default=None)
    if block is not None:
        return WikiPage(block.key, path, text, block)
    begin = _BEGIN.search(text)
    subject = key or (begin[2] if begin else "")
    return WikiPage(subject, path, text, None) if subject else None


def read_text(path: Path) -> str:
    """The text of a page; bytes that are no UTF-8 come back as they were from `encode_text`. Raises OSError as `read_regular_file`."""
    return read_regular_file(path, MAX_PAGE_BYTES).decode("utf-8", "surrogateescape")


def encode_text(text: str) -> bytes:
    """The bytes of a page."""
    return text.encode("utf-8", "surrogateescape")


def new_page(page: GeneratedPage) -> str:
    """The text of a page that does not exist yet."""
    if page.front is None:
        return _render("begin", page.key, page.text, NO_HASH)
    yaml = _dump(page.front)
    return f"---\n{yaml}---\n\n" + _render("begin", page.key, page.text, hash_properties(load_properties(yaml)))


def updated_page(old: WikiPage, page: GeneratedPage) -> str:
    """The text of a page brought up to date."""
    block = old.block
    if block is None:
        return old.text
    made_hash = hash_text(page.text)
    head, front_hash = _updated_front(old.text[: block.start], block.front_hash, page.front)
    body, newline = old.text[block.start : block.end], "\r\n" if "\r\n" in block.text else "\n"
    if block.is_unedited or hash_text(block.text) == made_hash:
        if block.marker != (page.key, made_hash, front_hash, NO_HASH, False):
            body = _render("begin", page.key, page.text, front_hash, newline)
        return head + body + _without_offer(old)
    offered_hash = NO_HASH if block.made_hash == made_hash else made_hash
    if block.marker != (page.key, block.made_hash, front_hash, offered_hash, False):
        body = _begin_line("begin", page.key, block.made_hash, front_hash, offered_hash) + newline + body.split("\n", 1)[1]
    if offered_hash != NO_HASH and (block.key, block.offered_hash) == (page.key, offered_hash):
        return head + body + old.text[block.end :]  # the new version stands below, or the person deleted it there
    if offered_hash != NO_HASH:
        body += ("" if body.endswith("\n") else newline) + newline + _render("new", page.key, page.text, front_hash, newline)
    return head + body + _without_offer(old)


def _without_offer(old: WikiPage) -> str:
    """What stands below the block, without a new version that the person did not change."""
    assert old.block is not None
    tail, offer = old.text[old.block.end :], old.offer
    if offer is None:
        return tail
    before, after = old.text[old.block.end : offer.start], old.text[offer.end :]
    return after if before in ("\n", "\r\n") else before + after


def _render(kind: str, key: str, text: str, front_hash: str, newline: str = "\n") -> str:
    lines = f"{_begin_line(kind, key, hash_text(text), front_hash, NO_HASH)}\n\n{text.strip()}\n\n%%localrag:end%%\n"
    return lines.replace("\n", newline)


def _begin_line(kind: str, key: str, made_hash: str, front_hash: str, offered_hash: str) -> str:
    note = BEGIN_NOTE if kind == "begin" else NEW_NOTE
    return f"%%localrag:{kind} {key} {made_hash} {front_hash} {offered_hash} {note}%%"


def _dump(values: Properties) -> str:
    """Properties as YAML."""
    import yaml

    cleaned = {_cleaned(key): _cleaned(value) for key, value in values.items()}
    return str(yaml.safe_dump(cleaned, allow_unicode=True, sort_keys=False, width=10**9))


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return replace_control_characters(value).replace("[[", "((").replace("]]", "))")  # Obsidian follows links in properties, too
    return [_cleaned(v) for v in value] if isinstance(value, list) else value


def load_properties(front: str) -> dict[str, Any] | None:
    """The properties in YAML, all scalars as texts; None if it is no plain mapping."""
    import yaml

    if len(front) > MAX_FRONT_CHARS or front.count("[") + front.count("{") > MAX_FRONT_BRACKETS:
        return None
    try:
        if any(isinstance(token, yaml.AliasToken) for token in yaml.scan(front)):  # they may stand for very much
            return None
        values = yaml.load(front, Loader=yaml.BaseLoader)
    except (yaml.YAMLError, RecursionError, ValueError, TypeError):
        return None
    return values if isinstance(values, dict) and all(isinstance(key, str) for key in values) else None


def hash_properties(values: Properties | None) -> str:
    """The hash of properties as `load_properties` gives them, in any order; NO_HASH without any."""
    return NO_HASH if values is None else content_id(json.dumps(values, sort_keys=True))


def _updated_front(head: str, front_hash: str, new: Properties | None) -> tuple[str, str]:
    """What stands above the block, with new properties, and their hash; the same if the person changed or removed generated ones."""
    front = _FRONT.match(head)
    if front is None or new is None:
        return head, front_hash
    yaml, newline = front[1].replace("\r\n", "\n"), "\r\n" if "\r\n" in front[1] else "\n"
    old, dumped = load_properties(yaml), load_properties(_dump(new)) or {}
    if old is None or yaml.replace("\n", newline) != front[1]:
        return head, front_hash
    if hash_properties(old) == front_hash:
        yaml = yaml if old == dumped else _dump(new)
    elif hash_properties({key: old[key] for key in dumped if key in old}) == front_hash:
        yaml = _replaced_properties(yaml, {_cleaned(key): new[key] for key in new if dumped[_cleaned(key)] != old.get(_cleaned(key))})
        if load_properties(yaml) != old | dumped:  # they are written in a way that this does not know
            return head, front_hash
    else:
        return head, front_hash
    return head[: front.start(1)] + yaml.replace("\n", newline) + head[front.end(1) :], hash_properties(dumped)


def _replaced_properties(yaml: str, values: Properties) -> str:
    """YAML with some of its properties replaced, each with the lines that belong to it, or added; all other lines stay."""
    for key, value in values.items():
        lines = re.compile(rf"^{re.escape(key)}[ \t]*:[^\n]*\n(?:[ \t-][^\n]*\n)*", re.MULTILINE).search(yaml)
        start, end = lines.span() if lines else (len(yaml), len(yaml))
        yaml = yaml[:start] + _dump({key: value}) + yaml[end:]
    return yaml
