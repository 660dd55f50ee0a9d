"""Files and folders that are written for other programs.

Files that are not of an export are never replaced, and an export is never left incomplete. An export folder has a marker file that lists
its files by format. Everything is first written to a hidden folder inside it and then moved; the next export removes what a killed process
left.
"""

import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from sqlite_utils import Database

from localrag.errors import LocalragError, NoIndex, UsageError
from localrag.store import graph
from localrag.system.files import (
    ensure_private_folder,
    is_temp_folder,
    remove_stale_temp_files,
    remove_stale_temp_folders,
    temp_folder,
    write_atomically,
)

EXPORT_MARKER = ".localrag-export.json"
STAGING_FOLDER = "localrag-export"


def check_target_file(path: Path, *, force: bool) -> None:
    """Raises UsageError if a file cannot be written to this path, or exists there and may not be replaced."""
    if path.is_dir():
        raise UsageError(f"{path} is a folder; this format is one file.", "Name a file in it.")
    if not path.parent.is_dir():
        raise UsageError(f"There is no folder {path.parent}.", f"Make it: mkdir -p {path.parent}")
    if path.exists() and not force:
        raise UsageError(f"{path} exists already.", "Replace it with --force, or name another file.")


def check_folder(folder: Path, kind: str, *, force: bool) -> None:
    """Raises UsageError if the path is a file, or if the folder has anything other than an export of this format."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file; this format is a folder of files.", "Name a folder.")
    if not folder.is_dir() or force:
        return
    remove_stale_temp_files(folder)
    exported = exported_files(folder)
    if kind in exported or not any(item for item in folder.iterdir() if not is_temp_folder(item, STAGING_FOLDER)):
        return
    content = f"an export as {' and '.join(sorted(exported))}" if exported else "other files"
    raise UsageError(f"{folder} holds {content}.", "Name another folder, or write beside them with --force; none of them is changed.")


def exported_files(folder: Path) -> dict[str, list[str]]:
    """Format → the files of earlier exports in a folder, by its marker; empty without a readable one.

    The marker may come from anywhere, with the folder: a name in it that leads out of the folder is ignored.
    """
    with suppress(OSError, ValueError, KeyError, AttributeError, TypeError):
        files = json.loads((folder / EXPORT_MARKER).read_text(encoding="utf-8"))["files"]
        return {str(kind): [name for name in map(str, names) if _is_inside(name)] for kind, names in files.items()}
    return {}


def _is_inside(name: str) -> bool:
    return bool(name) and not Path(name).is_absolute() and ".." not in Path(name).parts


@contextmanager
def staging_folder(folder: Path) -> Iterator[Path]:
    """A folder inside `folder` to write to; removed at the end, together with `folder` if it is new and empty."""
    is_new = not folder.exists()
    ensure_private_folder(folder)
    remove_stale_temp_folders(folder, STAGING_FOLDER)
    try:
        with temp_folder(folder, STAGING_FOLDER) as inner:
            yield inner
    finally:
        if is_new:
            with suppress(OSError):  # it has the export
                folder.rmdir()


def move_into_place(inner: Path, folder: Path, kind: str, replaceable: Collection[str], deleted: Collection[str] = ()) -> list[str]:
    """Move the written files into the folder; `replaceable` are files there that may be replaced, `deleted` those to delete.

    Raises UsageError, before anything is moved, if a file would be replaced that is not of an export.
    """
    new = sorted(item.relative_to(inner).as_posix() for item in inner.rglob("*") if item.is_file())
    foreign = [name for name in new if name not in replaceable and (folder / name).exists()]
    if foreign:
        raise UsageError(f"{folder / foreign[0]} exists and is not part of an export.", "Move it away, or name another folder.")
    _write_marker(folder, kind, {*replaceable, *new})  # first: if this process is killed, the next export knows its own files
    for name in new:
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        (inner / name).chmod(0o600)
        (inner / name).replace(target)
    for name in deleted:
        (folder / name).unlink(missing_ok=True)
        with suppress(OSError):  # it has other files
            (folder / name).parent.rmdir()
    _write_marker(folder, kind, {*replaceable, *new} - set(deleted))
    return new


def _write_marker(folder: Path, kind: str, names: Collection[str]) -> None:
    files: Mapping[str, list[str]] = exported_files(folder) | {kind: sorted(names)}
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
