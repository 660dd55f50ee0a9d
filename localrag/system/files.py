"""The files that localrag writes: for their owner alone, whole or not at all; the folders of the user, and what is shipped."""

import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex

import platformdirs
import psutil

from localrag.errors import LocalragError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


PACKAGE = Path(__file__).parents[1]


def cache_dir() -> Path:
    """Where requantised models, vocabularies and fingerprints are kept (`LOCALRAG_HOME` moves it); created if missing.

    Where it cannot be created, writing to it fails: everything in it can be done without.
    """
    home = os.environ.get("LOCALRAG_HOME")
    folder = Path(home) / "cache" if home else platformdirs.user_cache_path("localrag")
    with suppress(OSError):
        private_folder(folder)
    return folder


def config_dir() -> Path:
    """Where the user's own settings, list of models and prompts are (`LOCALRAG_HOME` moves it); not created."""
    home = os.environ.get("LOCALRAG_HOME")
    return Path(home) if home else platformdirs.user_config_path("localrag")


def data_dir() -> Path:
    """Where models that were pulled are kept (`LOCALRAG_HOME` moves it); not created."""
    home = os.environ.get("LOCALRAG_HOME")
    return Path(home) if home else platformdirs.user_data_path("localrag")


def data_path(name: str) -> Path:
    """`prompts` or `models.toml` as shipped: inside a wheel under `_data`, in a checkout or editable install beside the package."""
    for folder in (PACKAGE / "_data", PACKAGE.parent):
        if (folder / name).exists():
            return folder / name
    raise LocalragError(f"localrag's own {name} is missing from {PACKAGE}.", "Reinstall: pip install --force-reinstall localrag")


def private_folder(folder: Path) -> Path:
    """The folder, made if it is missing with those above it, for its owner alone; one that exists keeps the mode its owner gave it."""
    if not folder.is_dir():
        private_folder(folder.parent).joinpath(folder.name).mkdir(mode=0o700, exist_ok=True)
    return folder


def private_file(path: Path) -> Path:
    """The file, made empty if it is missing, and then for its owner alone: libraries that write to it leave its mode as it is."""
    path.touch(mode=0o600)
    return path


def replace_file(path: Path, data: bytes) -> None:
    """Write a file for its owner alone, in one step: another process sees the old content or the new, never half."""
    with new_file(path) as part:
        part.write_bytes(data)


@contextmanager
def new_file(target: Path) -> Iterator[Path]:
    """An empty file beside `target`, for its owner alone, to be written by its path; then it takes the target's place in one step.

    Even after a power cut there is either the old file or the whole new one. If writing fails, the new file is removed, and so are those
    that killed processes left in the folder. Raises OSError.
    """
    remove_dead_parts(target.parent)
    part = private_file(target.with_name(f"{target.name}.localrag-{os.getpid()}-{token_hex(4)}.part"))
    try:
        with part.open("rb") as held:
            if fcntl:  # says that its process lives also where process numbers do not: in another container, on another machine
                fcntl.flock(held, fcntl.LOCK_SH)
            yield part
            if fcntl:  # Windows syncs only what is open for writing
                os.fsync(held.fileno())  # else after a power cut the new name may have half of the content
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def remove_dead_parts(folder: Path) -> None:
    """Remove the files that `new_file` began in a folder and whose process is gone."""
    with suppress(OSError):
        for part in folder.glob("*.localrag-*.part"):
            if is_dead_part(part):
                part.unlink(missing_ok=True)


def is_dead_part(part: Path) -> bool:
    """Whether `new_file` began the file, in a process that is gone."""
    pid = re.search(r"\.localrag-(\d+)-[0-9a-f]+\.part$", part.name)
    return pid is not None and not psutil.pid_exists(int(pid[1])) and not _is_held(part)


def was_used(path: Path) -> None:
    """Note in the file's time of access that it is in use, also where the system keeps no such time; its time of change stays."""
    with suppress(OSError):
        os.utime(path, ns=(time.time_ns(), path.stat().st_mtime_ns))


@contextmanager
def working_folder(parent: Path, name: str) -> Iterator[Path]:
    """A folder within `parent` to write to, for its owner alone, whose name begins with a dot and `name`; gone at the end.

    One that a killed process left is removed by `remove_dead_folders`. Raises OSError.
    """
    inner = private_folder(parent / f".{name}-{os.getpid()}-{token_hex(4)}.part")
    held = os.open(inner, os.O_RDONLY) if fcntl else None
    try:
        if held is not None:
            fcntl.flock(held, fcntl.LOCK_SH)  # as in `new_file`
        yield inner
    finally:
        shutil.rmtree(inner, ignore_errors=True)
        if held is not None:
            os.close(held)


def is_working_folder(item: Path, name: str) -> bool:
    """Whether `working_folder` made it, in whichever process."""
    return _number_of(item, name) is not None


def remove_dead_folders(parent: Path, name: str) -> None:
    """Remove the folders of `working_folder` whose process is gone."""
    with suppress(OSError):
        for item in parent.iterdir():
            pid = _number_of(item, name)
            if pid is not None and not item.is_symlink() and not psutil.pid_exists(pid) and not _is_held(item):
                shutil.rmtree(item, ignore_errors=True)


def _number_of(item: Path, name: str) -> int | None:
    found = re.fullmatch(rf"\.{re.escape(name)}-(\d+)-[0-9a-f]+\.part", item.name)
    return int(found[1]) if found else None


def _is_held(part: Path) -> bool:
    if not fcntl:
        return False
    try:
        held = os.open(part, os.O_RDONLY)
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        finally:
            os.close(held)
    except OSError:
        return True
    return False


def check_system() -> None:
    """Raises LocalragError on Windows, which lacks what indexing needs: limits for another process, locks that end with theirs."""
    if not fcntl:
        raise LocalragError("Indexing does not run on Windows itself.", "Use the Windows Subsystem for Linux: wsl --install")
