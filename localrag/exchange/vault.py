"""An Obsidian vault that is exported again and again: whose notes are whose, and what a person wrote in them.

A note that localrag makes says in its front matter what it is of, and holds a line that divides it: what is above is made anew, what is
below belongs to the person. The line holds a hash of what is above, so that a change there is seen, and such a note is left alone.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from localrag.records import content_id

_FRONT = re.compile(r"\A---\n(.*?)^---$", re.DOTALL | re.MULTILINE)
_KEY = re.compile(r"""^localrag: *["']?([\w:]+)["']?\s*$""", re.MULTILINE)
_LINE = re.compile(r"^%% localrag ([0-9a-f]{20}): [^\n]*%%(?:\n|\Z)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Note:
    """A note of an earlier export: what it is of, its path below the vault, what stands `below` the line, whether the rest is as made."""

    key: str
    path: str
    text: str
    below: str
    untouched: bool


def divided(above: str, below: str = "") -> str:
    """A note: what is made, the line, what is the person's."""
    line = f"%% localrag {_hash(above)}: what is above is made anew by the next export; what you write below stays %%\n"
    return f"{above.strip()}\n\n{line}{below}"


def _hash(above: str) -> str:
    return content_id(above.strip())


def read_note(path: str, text: str) -> Note | None:
    """A note of an earlier export; None for any other text."""
    text = text.replace("\r\n", "\n")
    front = _FRONT.match(text)
    key = _KEY.search(front[1]) if front else None
    if key is None:
        return None
    line = _LINE.search(text)
    if line is None:  # the person took it out: all of it is theirs now
        return Note(key[1], path, text, text, False)
    return Note(key[1], path, text, text[line.end() :], _hash(text[: line.start()]) == line[1])


def notes_in(vault: Path) -> tuple[dict[str, Note], list[str]]:
    """The notes of earlier exports by what they are of, wherever they were moved to, and the names of all others."""
    found: dict[str, Note] = {}
    others: list[str] = []
    for path in sorted(_markdown(vault)):
        try:
            note = read_note(path.relative_to(vault).as_posix(), path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError):
            note = None
        if note is None or note.key in found:  # a second one is a copy that the person made
            others.append(path.stem)
        else:
            found[note.key] = note
    return found, others


def _markdown(vault: Path) -> Iterator[Path]:
    """The notes of a vault; what lies in folders whose names begin with a dot is no part of it."""
    if vault.is_dir():
        for path in vault.rglob("*.md"):
            if not any(part.startswith(".") for part in path.relative_to(vault).parts):
                yield path


def leftovers(known: dict[str, Note], now: Iterable[str]) -> tuple[list[str], list[str]]:
    """Of notes whose subject is gone, the paths of those that go, and of those that stay because somebody wrote in them."""
    old = [known[key] for key in sorted(known.keys() - set(now))]
    gone = [note.path for note in old if note.untouched and not note.below.strip()]
    return gone, [note.path for note in old if note.path not in gone]
