"""Files and folders that are written for other programs.

Files that are not of an export are never replaced, and an export is never left incomplete. The folder may come from somebody else: a file
counts as one of an export only if this machine noted its hash when it wrote it there. Everything is first written to a hidden folder inside
it and then moved, through no link; the next export removes what a killed process left.
"""

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sqlite_utils import Database

from localrag.errors import LocalragError, NoIndex, UsageError
from localrag.store import graph
from localrag.system.files import (
    ensure_private_folder,
    find_link,
    is_temp_file,
    place_below,
    remove_stale_temp_files,
    temp_folder,
)
from localrag.system.trust import forget_written_file, hash_below, record_written_file, written_file_hash

STAGING_FOLDER = "localrag-export"


def check_target_file(path: Path, *, force: bool) -> None:
    """Raises UsageError if a file cannot be written to this path, or exists there and may not be replaced."""
    if path.is_dir():
        raise UsageError(f"{path} is a folder; this format is one file.", "Name a file in it.")
    if not path.parent.is_dir():
        raise UsageError(f"There is no folder {path.parent}.", f"Make it: mkdir -p {path.parent}")
    if (path.exists() or path.is_symlink()) and not force:
        raise UsageError(f"{path} exists already.", "Replace it with --force, or name another file.")


def check_folder(folder: Path, *, force: bool) -> None:
    """Raises UsageError if the path is a file or a link, or if the folder has anything that is not of an export of this machine."""
    if folder.is_symlink():
        raise UsageError(f"{folder} is a link.", f"Name the folder itself: {os.path.realpath(folder)}")
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file; this format is a folder of files.", "Name a folder.")
    if not folder.is_dir() or force:
        return
    remove_stale_temp_files(folder)
    items = (item for item in folder.iterdir() if not is_temp_file(item))
    if not all(written_file_hash(folder, item.name) for item in items):
        raise UsageError(f"{folder} holds other files.", "Name another folder, or write beside them with --force; none of them is changed.")


@contextmanager
def staging_folder(folder: Path) -> Iterator[Path]:
    """A folder inside `folder` to write to; removed at the end, together with `folder` if it is new and empty."""
    is_new = not folder.exists()
    ensure_private_folder(folder)
    remove_stale_temp_files(folder)
    try:
        with temp_folder(folder, STAGING_FOLDER) as inner:
            yield inner
    finally:
        if is_new:
            with suppress(OSError):  # it has the export
                folder.rmdir()


def replace_export(inner: Path, folder: Path) -> tuple[list[str], list[str]]:
    """Move a written export in place of the last one; its files, and the last one's that were deleted. Raises as `move_into_place`."""
    new = {name: hash_below(inner, name) for name in _files_below(inner)}
    suffixes = {Path(name).suffix for name in new}
    names = [item.name for item in folder.iterdir() if item.suffix in suffixes]
    old = {name: digest for name in names if (digest := written_file_hash(folder, name))}
    deleted = [name for name in old if name not in new]
    for name, digest in new.items():  # first: if this process is killed, the next export knows its own files
        record_written_file(folder, name, digest)
    move_into_place(inner, folder, old, deleted)
    for name, digest in old.items():
        if new.get(name) != digest:
            forget_written_file(folder, name, digest)
    return list(new), deleted


def _files_below(folder: Path) -> list[str]:
    return sorted(item.relative_to(folder).as_posix() for item in folder.rglob("*") if item.is_file())


def move_into_place(inner: Path, folder: Path, replaceable: Collection[str], deleted: Collection[str] = ()) -> list[str]:
    """Move written files into the folder. Raises UsageError, before any move, for one not `replaceable`, or written through a link."""
    new = _files_below(inner)
    for name in new:
        link, target = find_link(folder, name), folder / name
        if link is not None and link != target:
            raise UsageError(f"{link} is a link, and nothing is written through it.", "Move it away, or name another folder.")
        if link or (name not in replaceable and target.exists()):
            raise UsageError(f"{target} exists and is not part of an export of this machine.", "Move it away, or name another folder.")
    for name in new:
        (inner / name).chmod(0o600)
        place_below(folder, name, inner / name)
    for name in deleted:
        with suppress(FileNotFoundError):
            place_below(folder, name, None)
        if not find_link(folder, name):
            with suppress(OSError):  # it has other files
                (folder / name).parent.rmdir()
    return new


def check_outside_index(path: Path, index_folder: Path) -> None:
    """Raises UsageError if a path is inside the folder of an index."""
    if index_folder.resolve() in (path.resolve(), *path.resolve().parents):
        raise UsageError(f"{path} is inside the index folder.", "Choose another path.")


def check_filled(db: Database) -> None:
    """Raises NoIndex for an index without documents, LocalragError for one without a graph."""
    counts = graph.counts(db)
    if not counts["documents"]:
        raise NoIndex("The index is empty: there is nothing to export.", "Fill it: localrag index PATH")
    if not counts["entities"]:
        raise LocalragError("The index has no graph yet: no entity has been found so far.", "Finish it: localrag index")
