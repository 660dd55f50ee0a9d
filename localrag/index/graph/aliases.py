"""The user's own word on names: `aliases.txt` in the index folder, a line for each decision, read whenever the graph is built.

Scrooge = Ebenezer Scrooge      these are one; the last is its name
Johnson != Johnston             these are not
# a comment
"""

from collections.abc import Callable
from pathlib import Path

from localrag.errors import UsageError
from localrag.index.graph.spelling import normalise
from localrag.index.graph.variants import Decisions
from localrag.system.files import private_folder, replace_file

FILE_NAME = "aliases.txt"


def read_aliases(folder: Path) -> Decisions:
    """The decisions in an index folder's file, none where there is no file. Raises UsageError for a line that cannot be read."""
    same: list[tuple[str, str]] = []
    different: set[frozenset[str]] = set()
    for number, line in enumerate(_lines(folder), start=1):
        text = line.split("#")[0].strip()
        apart = [normalise(part) for part in text.split("!=")]
        alike = [normalise(part) for part in text.split("=")]
        if not text:
            continue
        if len(apart) == 2 and all(apart):
            different.add(frozenset(apart))
        elif len(alike) > 1 and all(alike) and "!" not in text:
            same += [(name, alike[-1]) for name in alike[:-1]]
        else:
            raise UsageError(f"{folder / FILE_NAME}, line {number}: {line.strip()!r} is no decision.", "Write A = B or A != B.")
    decided = {pair for pair in same if frozenset(pair) in different}
    return Decisions(tuple(p for p in same if p not in decided), frozenset(different))


def add_alias(folder: Path, line: str) -> None:
    """Write a decision at the end of the file; one that says the opposite of the same names is taken out."""
    opposite = line.replace("!=", "=") if "!=" in line else line.replace("=", "!=")
    kept = [old for old in _lines(folder) if old.strip() not in (line, opposite)]
    replace_file((private_folder(folder) / FILE_NAME).resolve(), ("\n".join([*kept, line]) + "\n").encode())


def drop_aliases(folder: Path, is_out: Callable[[str], bool]) -> int:
    """Take out the lines that `is_out` says of; returns how many."""
    lines = _lines(folder)
    kept = [line for line in lines if not is_out(line)]
    if len(kept) < len(lines):
        replace_file((folder / FILE_NAME).resolve(), "".join(f"{line}\n" for line in kept).encode())
    return len(lines) - len(kept)


def _lines(folder: Path) -> list[str]:
    path = folder / FILE_NAME
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []
