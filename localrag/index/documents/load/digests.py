"""Which bytes a file has, without opening one of which the system says just what it said when it was read.

Compared are size, time of the last change and inode, each for equality: a clock that goes backwards hides no change. A file that was
changed in the very moment it was read might be changed once more and keep its time. So what the system says of one so young is not kept
(git calls such a file racily clean), and the next run reads it.
"""

import time
from collections.abc import Mapping
from functools import cached_property
from hashlib import blake2b, file_digest
from pathlib import Path

from localrag.system.seen import Seen, Stamp, stamp_of

RACY = 2_000_000_000  # ns: the coarsest clock of a file system, that of FAT


class Digests:
    """The digests of files. `known`: what was kept of files by stored path; `verify`: nothing of it is believed."""

    def __init__(self, known: Mapping[str, Seen], *, verify: bool = False) -> None:
        self.known, self._verify = known, verify
        self._new: dict[str, Seen] = {}
        self._given: set[str] = set()

    def of(self, path: str, file: Path) -> str:
        """The digest of a file's bytes, by its stored path. Raises OSError."""
        now = time.time_ns()
        stamp = stamp_of(file.stat())
        if found := self._found(path, stamp):
            digest = found.digest
        else:
            with file.open("rb") as f:
                digest = file_digest(f, lambda: blake2b(digest_size=20)).hexdigest()
            if stamp_of(file.stat()) != stamp:
                return digest
        if self.known.get(path) != (seen := Seen(*stamp, digest)) and stamp[1] < now - RACY:
            self._new[path] = seen
        return digest

    def new(self) -> dict[str, Seen]:
        """What is to be kept of files that were read or moved since this was last asked."""
        some = {path: seen for path, seen in self._new.items() if path not in self._given}
        self._given |= some.keys()
        return some

    def _found(self, path: str, stamp: Stamp) -> Seen | None:
        """What is known of a file, of which the system says this now; at another path, where it was moved from there or is linked."""
        for some in (self._new, {} if self._verify else self.known):
            seen = some.get(path)
            if seen is not None and seen.stamp == stamp:
                return seen
        return None if self._verify else self.known.get(self.was_at(stamp))

    def was_at(self, stamp: Stamp) -> str:
        """The path at which the system said this of a file; empty where there is none. An inode of 0 says nothing."""
        return self._paths.get(stamp, "") if stamp[2] else ""

    @cached_property
    def _paths(self) -> dict[Stamp, str]:
        return {seen.stamp: path for path, seen in self.known.items()}
