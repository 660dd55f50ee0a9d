"""Names of notes that every file system takes and every wiki link finds."""

import re
import unicodedata
from collections.abc import Iterable

from localrag.exchange.plain import clean
from localrag.text.plain import squeeze

LONGEST = 120  # characters
MOST_BYTES = 200  # in UTF-8; file systems take 255, of which the ending and a number need some
_BAD = re.compile(r'[\\/:*?"<>|#^\[\]\x00-\x1f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufffd]+|%%')
_ENDING = re.compile(r"\.([A-Za-z0-9]{1,5})$")  # a link to `notes.md` or `plan.pdf` would lead to a file of that kind
_DEVICES = {"con", "prn", "aux", "nul", *(f"{name}{n}" for name in ("com", "lpt") for n in "0123456789¹²³")}


def file_name(text: str) -> str:
    """A file's name, without its ending, for a title: nothing that Windows, macOS, Linux or Obsidian forbid in one; never empty."""
    name = unicodedata.normalize("NFC", squeeze(_BAD.sub(" ", clean(text))))
    name = _ENDING.sub(r" (\1)", name.strip(". "))
    name = name[:LONGEST].encode()[:MOST_BYTES].decode("utf-8", "ignore").strip(". ")
    if name.partition(".")[0].strip().casefold() in _DEVICES:
        name = f"_{name}"
    return name or "Unnamed"


def _key(name: str) -> str:
    """What two names have in common that are one file on some file system."""
    return unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", name).casefold())


class Names:
    """Names of notes, no two of them alike on any file system; `taken` are those that are others' already."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self.of: dict[str, str] = {}
        self._taken = {_key(name) for name in taken}

    def keep(self, key: str, name: str) -> None:
        """Let something have the name that its note has already."""
        self.of[key] = name
        self._taken.add(_key(name))

    def give(self, key: str, title: str) -> str:
        """The name of something: the one it has, or a new one like its title, with a number where that is taken."""
        if key not in self.of:
            wanted = name = file_name(title)
            n = 2
            while _key(name) in self._taken:
                name, n = f"{wanted} ({n})", n + 1
            self.keep(key, name)
        return self.of[key]
