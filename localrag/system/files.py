"""User folders, shipped data, private and atomic file writes, temporary files, and FileStat."""

import errno
import fcntl
import os
import re
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import BufferedRandom, BufferedReader
from os import stat_result
from pathlib import Path
from secrets import token_hex

import platformdirs

from localrag.errors import LocalragError
from localrag.system.installation import reinstall_hint

PACKAGE_DIR = Path(__file__).parents[1]


def home_dir() -> Path:
    """The user's home folder. For a user without one, as in some containers, a folder that cannot be created: nothing is found there."""
    try:
        return Path.home()
    except RuntimeError:
        return Path("/nonexistent")


def _user_dir(path: Callable[[str], Path], below: str = "") -> Path:
    if home := os.environ.get("LOCALRAG_HOME"):
        return Path(home) / below
    try:
        return path("localrag")
    except RuntimeError:  # no home
        return home_dir() / "localrag" / below


def cache_dir() -> Path:
    """The folder of requantized models, vocabularies and fingerprints (`LOCALRAG_HOME` moves it), created if possible; none is needed."""
    folder = _user_dir(platformdirs.user_cache_path, "cache")
    with suppress(OSError):
        ensure_private_folder(folder)
    return folder


def config_dir() -> Path:
    """The folder of the user's settings, model list and prompts (`LOCALRAG_HOME` moves it); not created."""
    return _user_dir(platformdirs.user_config_path)


def data_dir() -> Path:
    """The folder of downloaded models (`LOCALRAG_HOME` moves it); not created."""
    return _user_dir(platformdirs.user_data_path)


def shipped_data_path(name: str) -> Path:
    """The path of `prompts` or `models.toml` as shipped: in a wheel under `_data`, in a checkout beside the package."""
    for folder in (PACKAGE_DIR / "_data", PACKAGE_DIR.parent):
        if (folder / name).exists():
            return folder / name
    raise LocalragError(f"localrag's own {name} is missing from {PACKAGE_DIR}.", reinstall_hint())


def ensure_private_folder(folder: Path) -> Path:
    """Create a folder and its missing parents, readable only by the owner; an existing folder keeps its mode."""
    if not folder.is_dir():
        ensure_private_folder(folder.parent).joinpath(folder.name).mkdir(mode=0o700, exist_ok=True)
    return folder


def ensure_private_file(path: Path) -> Path:
    """Create a missing file that only the owner can read. Raises OSError, also for a link and for what is no file."""
    with suppress(FileExistsError):
        os.close(os.open(path, _NEW_FILE, 0o600))
        return path
    open_regular_file(path).close()
    return path


def new_database_file(path: Path) -> Path:
    """Create an empty private file for SQLite; what a killed process left there, or a link, is deleted first. Raises OSError."""
    for old in (path, Path(f"{path}-journal")):
        old.unlink(missing_ok=True)
    os.close(os.open(path, _NEW_FILE, 0o600))
    return path


# Folders of documents come from anywhere: links are not followed, pipes not waited for, and no terminal is taken over.
_NO_LINK = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
_NEW_FILE = os.O_RDWR | os.O_CREAT | os.O_EXCL | _NO_LINK
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


def open_regular_file(path: Path) -> BufferedReader:
    """Open a file that may come from somebody else. Raises OSError, with the reason as `strerror`, for a link and for what is no file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | _NO_LINK)
    except OSError as error:
        raise OSError(error.errno, "a link" if path.is_symlink() else error.strerror, str(path)) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return os.fdopen(descriptor, "rb")


def read_regular_file(path: Path, limit: int) -> bytes:
    """The bytes of a file that may come from somebody else; raises OSError as `open_regular_file`, and for more than `limit` bytes."""
    with open_regular_file(path) as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise OSError(errno.EFBIG, f"larger than {limit / 1e6:g} MB", str(path))
    return data


def read_linked_file(path: Path, limit: int) -> bytes:
    """As `read_regular_file`, of a file that may be a link by the user. Raises OSError."""
    return read_regular_file(Path(os.path.realpath(path)), limit)


def find_link(folder: Path, name: str) -> Path | None:
    """The first link on the way from a folder to a path below it; None if there is none."""
    parts = name.split("/")
    return next((p for n in range(len(parts)) if (p := folder.joinpath(*parts[: n + 1])).is_symlink()), None)


def place_below(folder: Path, name: str, source: Path | None) -> None:
    """Move a file to a path below a folder, or with None delete the one there. Raises OSError if a folder on the way is a link."""
    *inside, last = name.split("/")
    at = os.open(folder, _FOLDER)
    try:
        for part in inside:
            if source is not None:
                with suppress(FileExistsError):
                    os.mkdir(part, 0o700, dir_fd=at)
            above, at = at, os.open(part, _FOLDER, dir_fd=at)
            os.close(above)
        if source is None:
            os.unlink(last, dir_fd=at)
        else:
            os.replace(source, last, dst_dir_fd=at)
    finally:
        os.close(at)


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file readable only by the owner, in one step: other processes see the old or the new content, never a part."""
    with atomic_file(path) as part:
        part.write_bytes(data)


def open_part_file(target: Path) -> tuple[Path, BufferedRandom]:
    """Create a private file beside `target`, to be renamed to it or deleted; while open, it is no killed process's. Raises OSError."""
    part = target.with_name(f"{target.name[:MAX_PART_PREFIX]}.localrag-{os.getpid()}-{token_hex(4)}.part")
    file = os.fdopen(os.open(part, _NEW_FILE, 0o600), "r+b")
    fcntl.flock(file, fcntl.LOCK_SH)  # shows that the process lives, also across containers and machines, where process ids do not
    return part, file


MAX_PART_PREFIX = 50  # characters of the target's name, up to 200 bytes, so that the name of its part is none too long


@contextmanager
def atomic_file(target: Path) -> Iterator[Path]:
    """Yield an empty private file beside `target` to write to; at the end it replaces the target, or a link there, in one step.

    Even after a power cut there is either the old or the complete new file. If writing fails the new file is removed, as are those of
    killed processes in the folder. Raises OSError.
    """
    remove_stale_temp_files(target.parent)
    part, file = open_part_file(target)
    try:
        with file:
            yield part
            os.fsync(file.fileno())  # otherwise the new name may have half of the content after a power cut
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


_TEMP_NAME = re.compile(r".*\.localrag-(?:[a-z]+-)?(\d{1,9})-[0-9a-f]+\.part")  # of `open_part_file` and `temp_folder`, with the process id


def remove_stale_temp_files(folder: Path) -> None:
    """Remove the files of `open_part_file`, and the folders of `temp_folder`, in a folder whose process has ended."""
    with suppress(OSError):
        for part in folder.glob("*.localrag-*.part"):
            if is_stale_temp_file(part):
                if part.is_dir():
                    shutil.rmtree(part, ignore_errors=True)
                else:
                    part.unlink(missing_ok=True)


def is_temp_file(part: Path) -> bool:
    """Whether `open_part_file` or `temp_folder` created the file or folder, in any process."""
    return _TEMP_NAME.fullmatch(part.name) is not None


def is_stale_temp_file(part: Path) -> bool:
    """Whether `open_part_file` or `temp_folder` created the file or folder, in a process that has ended."""
    import psutil  # slow import (10 ms), not needed by --help

    name = _TEMP_NAME.fullmatch(part.name)
    return name is not None and not psutil.pid_exists(int(name[1])) and not _is_held(part)


def touch_atime(path: Path) -> None:
    """Set the access time of a file to now, also on systems that do not maintain it; the modification time stays."""
    with suppress(OSError):
        os.utime(path, ns=(time.time_ns(), path.stat().st_mtime_ns))


@contextmanager
def temp_folder(parent: Path, name: str) -> Iterator[Path]:
    """A temporary private folder within `parent`, named with `name`, such as "localrag-unpack", deleted at the end. Raises OSError."""
    inner = ensure_private_folder(parent) / f".{name}-{os.getpid()}-{token_hex(4)}.part"
    inner.mkdir(mode=0o700)
    descriptor = os.open(inner, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)  # as in `atomic_file`
        yield inner
    finally:
        shutil.rmtree(inner, ignore_errors=True)
        os.close(descriptor)


def _is_held(part: Path) -> bool:
    try:
        descriptor = os.open(part, os.O_RDONLY | _NO_LINK)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        finally:
            os.close(descriptor)
    except OSError:
        return True
    return False


StatKey = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class FileStat:
    """The stat of a file when it was read (bytes, modification time in ns, inode), and the digest of its bytes."""

    size: int
    mtime_ns: int
    inode: int
    digest: str

    @property
    def stat_key(self) -> StatKey:
        """The values compared: if all three are equal, the file counts as unchanged."""
        return self.size, self.mtime_ns, self.inode


def containing_file(path: Path) -> Path:
    """The file that a document's path leads to: the path itself, or the file above it for a document within a file."""
    return next((p for p in (path, *path.parents) if p.is_file()), path)


def stat_key(status: stat_result) -> StatKey:
    """The values of a stat result that are compared with a FileStat."""
    return status.st_size, status.st_mtime_ns, status.st_ino
