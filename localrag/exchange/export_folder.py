"""Files and folders that are written for other programs.

Files that are not of an export are never replaced, and an export is never left incomplete. An export folder has a marker file that lists
its files by format. The folder may come from somebody else: a file counts as one of an export only if this machine noted its hash when it
wrote it there. Everything is first written to a hidden folder inside it and then moved, through no link; the next export removes what a
killed process left.
"""

import json
import os
from collections.abc import Collection, Iterator, Mapping
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
    read_regular_file,
    remove_stale_temp_files,
    temp_folder,
    write_atomically,
)
from localrag.system.trust import forget_written_file, hash_below, record_written_file, written_file_hash

EXPORT_MARKER = ".localrag-export.json"
MAX_MARKER_BYTES = 50_000_000
STAGING_FOLDER = "localrag-export"


def check_target_file(path: Path, *, force: bool) -> None:
    """Raises UsageError if a file cannot be written to this path, or exists there and may not be replaced."""
    if path.is_dir():
        raise UsageError(f"{path} is a folder; this format is one file.", "Name a file in it.")
    if not path.parent.is_dir():
        raise UsageError(f"There is no folder {path.parent}.", f"Make it: mkdir -p {path.parent}")
    if (path.exists() or path.is_symlink()) and not force:
        raise UsageError(f"{path} exists already.", "Replace it with --force, or name another file.")


def check_folder(folder: Path, kind: str, *, force: bool) -> None:
    """Raises UsageError if the path is a file or a link, or if the folder has anything other than an export of this format."""
    if folder.is_symlink():
        raise UsageError(f"{folder} is a link.", f"Name the folder itself: {os.path.realpath(folder)}")
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file; this format is a folder of files.", "Name a folder.")
    if not folder.is_dir() or force:
        return
    remove_stale_temp_files(folder)
    exported = [kind for kind, names in _marked_files(folder).items() if any(written_file_hash(folder, name) for name in names)]
    others = (item for item in folder.iterdir() if item.name != EXPORT_MARKER and not is_temp_file(item))
    if kind in exported or not any(others):
        return
    content = f"an export as {' and '.join(sorted(exported))}" if exported else "other files"
    raise UsageError(f"{folder} holds {content}.", "Name another folder, or write beside them with --force; none of them is changed.")


def _marked_files(folder: Path) -> dict[str, list[str]]:
    """Format → the files of earlier exports in a folder, as its marker says, which may come from anywhere; empty without a readable one."""
    with suppress(OSError, ValueError, KeyError, AttributeError, TypeError, RecursionError):
        files = json.loads(read_regular_file(folder / EXPORT_MARKER, MAX_MARKER_BYTES))["files"]
        return {str(kind): [name for name in map(str, names) if _is_inside(name)] for kind, names in files.items()}
    return {}


def marked_files(folder: Path, kind: str) -> list[str]:
    """The files that the marker of a folder lists for a format; the marker may say anything."""
    return _marked_files(folder).get(kind, [])


def _is_inside(name: str) -> bool:
    return bool(name) and not Path(name).is_absolute() and ".." not in Path(name).parts and Path(name).as_posix() == name


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


def replace_export(inner: Path, folder: Path, kind: str) -> tuple[list[str], list[str]]:
    """Move a written export into the folder, in place of the last one of this format; returns its files, and those that were deleted.

    Raises UsageError as `move_into_place`.
    """
    old = {name: digest for name in marked_files(folder, kind) if (digest := written_file_hash(folder, name))}
    new = {name: hash_below(inner, name) for name in _files_below(inner)}
    deleted = [name for name in old if name not in new]
    for name, digest in new.items():  # first: if this process is killed, the next export knows its own files
        record_written_file(folder, name, digest)
    move_into_place(inner, folder, kind, old, deleted)
    for name, digest in old.items():
        if new.get(name) != digest:
            forget_written_file(folder, name, digest)
    return list(new), deleted


def _files_below(folder: Path) -> list[str]:
    return sorted(item.relative_to(folder).as_posix() for item in folder.rglob("*") if item.is_file())


def _check_replaceable(folder: Path, names: Collection[str], replaceable: Collection[str]) -> None:
    """Raises UsageError if something is in the place of a file to write that may not be replaced, or a link on the way there."""
    for name in names:
        link, target = find_link(folder, name), folder / name
        if link is not None and link != target:
            raise UsageError(f"{link} is a link, and nothing is written through it.", "Move it away, or name another folder.")
        if link or (name not in replaceable and target.exists()):
            raise UsageError(f"{target} exists and is not part of an export of this machine.", "Move it away, or name another folder.")


def move_into_place(inner: Path, folder: Path, kind: str, replaceable: Collection[str], deleted: Collection[str] = ()) -> list[str]:
    """Move the written files into the folder; `replaceable` are files there that may be replaced, `deleted` those to delete.

    Raises UsageError, before anything is moved, if a file would be replaced that is not of an export, or written through a link.
    """
    new = _files_below(inner)
    _check_replaceable(folder, new, replaceable)
    _write_marker(folder, kind, {*replaceable, *new})
    for name in new:
        (inner / name).chmod(0o600)
        place_below(folder, name, inner / name)
    for name in deleted:
        with suppress(FileNotFoundError):
            place_below(folder, name, None)
        if not find_link(folder, name):
            with suppress(OSError):  # it has other files
                (folder / name).parent.rmdir()
    _write_marker(folder, kind, {*replaceable, *new} - set(deleted))
    return new


def _write_marker(folder: Path, kind: str, names: Collection[str]) -> None:
    files: Mapping[str, list[str]] = _marked_files(folder) | {kind: sorted(names)}
    write_atomically(
        folder / EXPORT_MARKER, json.dumps({"made_by": "localrag export", "files": files}, ensure_ascii=False, indent=1).encode()
    )


def check_outside_index(path: Path, index_folder: Path) -> None:
    """Raises UsageError if a path is inside the folder of an index."""
    if index_folder.resolve() in (path.resolve(), *path.resolve().parents):
        raise UsageError(f"{path} is inside the index folder.", "Choose another path.")


def check_filled(db: Database, level: int | None, *, needs_graph: bool = True) -> None:
    """Raises NoIndex for an index without documents, LocalragError for one without a graph, UsageError if it has not this level."""
    counts = graph.counts(db)
    if not counts["documents"]:
        raise NoIndex("The index is empty: there is nothing to export.", "Fill it: localrag index PATH")
    if needs_graph and not counts["entities"]:
        raise LocalragError("The index has no graph yet: no entity has been found so far.", "Finish it: localrag index")
    levels = graph.communities_per_level(db)
    if level is not None and levels and level not in levels:
        raise UsageError(f"There is no level {level} of communities.", f"Levels: {min(levels)} to {max(levels)}: localrag tree")
