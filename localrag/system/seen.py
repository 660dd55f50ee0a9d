"""What the system says of a file, by which it is taken for the one that was read."""

from dataclasses import dataclass
from os import stat_result

Stamp = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Seen:
    """What the system said of a file when it was read (bytes, time of the last change in ns, inode), and the digest of its bytes."""

    size: int
    mtime_ns: int
    inode: int
    digest: str

    @property
    def stamp(self) -> Stamp:
        """What is compared: where all three are what they were, the file is taken for the one that was read."""
        return self.size, self.mtime_ns, self.inode


def stamp_of(found: stat_result) -> Stamp:
    """What of a file's stat is compared."""
    return found.st_size, found.st_mtime_ns, found.st_ino
