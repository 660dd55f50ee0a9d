"""Where an export is written: never over something that is not of an export, and never half.

A folder of an export holds a small file that says which files in it are of which format. Everything is first written to a folder of its own
inside of it, whose name begins with a dot, and then moved; one that a killed process left is removed by the next export.
"""

import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from localrag.errors import UsageError
from localrag.system.files import is_working_folder, private_folder, remove_dead_folders, remove_dead_parts, replace_file, working_folder

MARKER = ".localrag-export.json"
STAGING = "localrag-export"


def check_file(path: Path, *, force: bool) -> None:
    """Raises UsageError where a file cannot be written there, or stands there and may not be replaced."""
    if path.is_dir():
        raise UsageError(f"{path} is a folder; this format is one file.", f"Name the file: {path / 'graph'}")
    if not path.parent.is_dir():
        raise UsageError(f"There is no folder {path.parent}.", f"Make it: mkdir -p {path.parent}")
    if path.exists() and not force:
        raise UsageError(f"{path} is there already.", "Replace it with --force, or name another file.")


def check_folder(folder: Path, kind: str, *, force: bool) -> None:
    """Raises UsageError where there is a file in its place, or the folder holds other things than an export of this format."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file; this format is a folder of files.", "Name a folder.")
    if not folder.is_dir() or force:
        return
    remove_dead_parts(folder)
    known = exported(folder)
    if kind in known or not any(item for item in folder.iterdir() if not is_working_folder(item, STAGING)):
        return
    what = f"an export as {' and '.join(sorted(known))}" if known else "other files"
    raise UsageError(f"{folder} holds {what}.", "Name another folder, or write beside them with --force; nothing of theirs is changed.")


def exported(folder: Path) -> dict[str, list[str]]:
    """Format → the files of earlier exports in a folder, as its marker has them; empty where there is none that can be read.

    A marker may come from anywhere, with the folder: a name in it that leads out of the folder is passed over.
    """
    with suppress(OSError, ValueError, KeyError, AttributeError, TypeError):
        found = json.loads((folder / MARKER).read_text(encoding="utf-8"))["files"]
        return {str(kind): [name for name in map(str, names) if _is_inside(name)] for kind, names in found.items()}
    return {}


def _is_inside(name: str) -> bool:
    return bool(name) and not Path(name).is_absolute() and ".." not in Path(name).parts


@contextmanager
def staging(folder: Path) -> Iterator[Path]:
    """A folder inside of `folder` to write to; gone at the end, and so is `folder` where it was made for nothing."""
    made = not folder.exists()
    private_folder(folder)
    remove_dead_folders(folder, STAGING)
    try:
        with working_folder(folder, STAGING) as inner:
            yield inner
    finally:
        if made:
            with suppress(OSError):  # it holds the export
                folder.rmdir()


def publish(inner: Path, folder: Path, kind: str, own: Collection[str], gone: Collection[str] = ()) -> list[str]:
    """Move what was written to its place; `own` are the files there that may be replaced, `gone` those of them that go.

    Raises UsageError, before anything is moved, where a file would be replaced that is not of an export.
    """
    new = sorted(item.relative_to(inner).as_posix() for item in inner.rglob("*") if item.is_file())
    foreign = [name for name in new if name not in own and (folder / name).exists()]
    if foreign:
        raise UsageError(f"{folder / foreign[0]} is there and is not of an export.", "Move it away, or name another folder.")
    _mark(folder, kind, {*own, *new})  # first: if this process is killed, the next export knows what is its own
    for name in new:
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        (inner / name).chmod(0o600)
        (inner / name).replace(target)
    for name in gone:
        (folder / name).unlink(missing_ok=True)
        with suppress(OSError):  # others are in there
            (folder / name).parent.rmdir()
    _mark(folder, kind, {*own, *new} - set(gone))
    return new


def _mark(folder: Path, kind: str, names: Collection[str]) -> None:
    files: Mapping[str, list[str]] = exported(folder) | {kind: sorted(names)}
    replace_file(folder / MARKER, json.dumps({"made_by": "localrag export", "files": files}, ensure_ascii=False, indent=1).encode())
