"""Documents whose files were not found: which of them lie where nothing can be seen at the moment, and so are not gone.

A drive that is not mounted is an empty or a missing folder; a share that is down or a folder of another user may not be opened.
"""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from localrag.index.documents.load import Sources, is_there, stored_path
from localrag.records import Skipped


@dataclass(frozen=True, slots=True)
class OutOfReach:
    """A file or folder that documents were read from and that cannot be looked into; `closed`: it is there, but may not be opened."""

    path: str
    why: str
    closed: bool
    documents: tuple[str, ...] = ()

    def listed(self) -> Skipped:
        """How the list of files that were left out says it."""
        n = len(self.documents)
        kept = (f"its {n} documents are kept" if n > 1 else "its document is kept") if n else ""
        return Skipped(self.path, f"{self.why}; {kept}" if kept else self.why, True)


def out_of_reach(documents: Iterable[str], tops: Sequence[Path], root: Path, sources: Sources) -> list[OutOfReach]:
    """Those of the documents that lie in a folder which is missing, empty, closed or a link that was left out, by that folder.

    `documents` are stored paths that were read from below `tops` and not found there now; `root` is what stored paths are relative to.
    """
    outermost = sorted(tops, key=lambda p: len(p.parts))
    known: dict[Path, OutOfReach | None] = {}
    found: dict[str, list[str]] = {}
    states: dict[str, OutOfReach] = {}
    for document in documents:
        full = root / document
        top = next((t for t in outermost if full.is_relative_to(t)), full.parent)
        for place in _from(top, full):
            if place not in known:
                known[place] = _state(place, place == full and (place != top or is_there(place)), root, sources)
            if state := known[place]:
                states[state.path] = state
                found.setdefault(state.path, []).append(document)
                break
    return [replace(states[path], documents=tuple(some)) for path, some in sorted(found.items())]


def _from(top: Path, full: Path) -> list[Path]:
    """The given path, the folders below it that lead to the document, and the document itself."""
    between = [p for p in reversed(full.parents) if p.is_relative_to(top) and p != top]
    return [top, *between, *[full] * (full != top)]


def _state(place: Path, is_document: bool, root: Path, sources: Sources) -> OutOfReach | None:
    """Why nothing can be seen in a place; None where what is not found there is gone. `is_document`: it is no folder."""
    path = stored_path(place, root)
    if why := sources.closed.get(place):
        return OutOfReach(path, why, closed=True)
    if why := sources.left_out.get(place):
        return OutOfReach(path, why, closed=False)
    if is_document:
        return None
    try:
        with os.scandir(place) as entries:
            empty = not any(not e.name.startswith(".") for e in entries)
    except (FileNotFoundError, NotADirectoryError):
        return OutOfReach(path, "is missing", closed=False)
    except OSError as error:  # one that lies above what could be walked through
        return OutOfReach(path, f"may not be opened ({error.strerror})", closed=True)
    return OutOfReach(path, "is empty", closed=False) if empty else None
