"""Of the files that were found: which are stored as they are, which moved here from elsewhere, which are to be read."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from localrag.index.documents.load import USUAL, Digests, Options, content_hash_of, is_current, is_there
from localrag.records import Skipped
from localrag.system.seen import stamp_of


@dataclass(frozen=True, slots=True)
class Stored:
    """What the index has: documents (path → content hash), of them those whose files are `gone`, and files nothing could be read of.

    `scanned`: content hash → the languages that scans were read in, where none can be read today. `held` gives the paths that no other
    document may have yet; where a document is `named` in its chunks, one that gets another name is read anew.
    """

    documents: Mapping[str, str] = field(default_factory=dict)
    gone: Collection[str] = ()
    passed: Mapping[str, Skipped] = field(default_factory=dict)
    scanned: Mapping[str, str] = field(default_factory=dict)
    held: Callable[[], Collection[str]] = tuple
    named: bool = False


@dataclass(slots=True)
class Look:
    """What is to be read (path → file), what nothing can be read of, and which documents moved: where each is now → where it was."""

    left: dict[str, Path] = field(default_factory=dict)
    skipped: list[Skipped] = field(default_factory=list)
    moves: dict[str, str] = field(default_factory=dict)


class _Hashes:
    """The content hashes that files have today, or had where scans could be read."""

    def __init__(self, digests: Digests, options: Options, languages: Iterable[str]) -> None:
        self._digests, self._options = digests, [options, *(replace(options, ocr=some) for some in sorted(set(languages)))]

    def of(self, path: str, file: Path) -> list[str]:
        """The hashes that a document of this file may have, today's first; none where it cannot be read."""
        try:
            digest = self._digests.of(path, file)
        except OSError:
            return []
        return [content_hash_of(file, digest, options) for options in self._options]


def look(files: Mapping[str, Path], stored: Stored, digests: Digests, options: Options) -> Look:
    """Hold files, by stored path, against what is stored. One is opened only where the system says something else of it than before."""
    hashes = _Hashes(digests, options, stored.scanned.values())
    found = Look()
    alike = {(s.content_hash, _kind(path)): s for path, s in stored.passed.items() if path not in stored.documents}
    for path, file in files.items():
        before, unreadable = stored.documents.get(path), stored.passed.get(path)
        if before is None and not (alike and _may_be_read(file)):
            found.left[path] = file
            continue
        now = hashes.of(path, file)
        unreadable = unreadable or (alike.get((now[0], _kind(path))) if now and before is None else None)
        if unreadable is not None and now and unreadable.content_hash == now[0] and is_current(unreadable.reason, options):
            found.skipped.append(replace(unreadable, path=path))
        elif before not in now:
            found.left[path] = file
    moves = _moves_seen(found.left, stored, digests, hashes)
    found.moves = _settled(moves | _moves_by_content(found.left, stored, hashes, moves), stored)
    found.left = {path: file for path, file in found.left.items() if path not in found.moves}
    return found


def _kind(path: str) -> str:
    """What decides how a file is parsed."""
    return Path(path).suffix.lower()


def _may_be_read(file: Path) -> bool:
    return is_there(file) and 0 < file.stat().st_size <= USUAL.size


def _moves_seen(left: Mapping[str, Path], stored: Stored, digests: Digests, hashes: _Hashes) -> dict[str, str]:
    """Documents whose file is elsewhere, by what the system says of it: where each is now → where it was.

    At its old path there is no file, or another one.
    """
    moves: dict[str, str] = {}
    taken: set[str] = set()
    for path, file in left.items():
        old = _was_at(file, digests)
        away = old != path and old in stored.documents and (old in stored.gone or old in left) and old not in taken
        if away and _keeps_its_text(old, path, stored) and stored.documents[old] in hashes.of(path, file):
            moves[path] = old
            taken.add(old)
    return moves


def _was_at(file: Path, digests: Digests) -> str:
    try:
        return digests.was_at(stamp_of(file.stat()))
    except OSError:
        return ""


def _keeps_its_text(old: str, new: str, stored: Stored) -> bool:
    """Whether a document's text and chunks are the same at another path."""
    return _kind(old) == _kind(new) and (not stored.named or Path(old).stem == Path(new).stem)


def _moves_by_content(left: Mapping[str, Path], stored: Stored, hashes: _Hashes, seen: Mapping[str, str]) -> dict[str, str]:
    """Documents whose files are gone, where a new file has their content; of several the one of the same name."""
    by_hash: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for old in set(stored.gone) - set(seen.values()):
        by_hash[stored.documents[old]][old] = None
    moves: dict[str, str] = {}
    for path, file in left.items() if by_hash else ():
        if path in stored.documents or path in seen or not _may_be_read(file):
            continue
        some = [old for h in hashes.of(path, file) for old in by_hash.get(h, ()) if _keeps_its_text(old, path, stored)]
        if some:
            old = min(some, key=lambda other: (Path(other).name != Path(path).name, other))
            moves[path] = old
            del by_hash[stored.documents[old]][old]
    return moves


def _settled(moves: Mapping[str, str], stored: Stored) -> dict[str, str]:
    """Without those to a path that another document has, or has until the next generation, and does not leave."""
    if not moves:
        return {}
    held, kept = set(stored.held()), dict(moves)
    while True:
        leaving = set(kept.values())
        some = {new: old for new, old in kept.items() if new not in held or new in leaving}
        if len(some) == len(kept):
            return kept
        kept = some
