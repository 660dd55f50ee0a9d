"""Files → Documents: walk the given paths, read what is text, list the rest with its reason."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from localrag.config import INDEX_FOLDER
from localrag.errors import UsageError
from localrag.records import Document, content_id

SUFFIXES = frozenset({".txt", ".text", ".md", ".markdown"})


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file that was not indexed. `failed`: it should have been possible, so the run is only partly done."""

    path: str
    reason: str
    failed: bool


def check_paths(paths: Sequence[Path]) -> None:
    """Raises UsageError for a path where there is nothing, before anything is made or written."""
    for path in paths:
        if not path.exists():
            raise UsageError(f"There is nothing at {path}.", "Check the path: localrag index PATH…")


def find_files(paths: Sequence[Path]) -> list[Path]:
    """All files below `paths`, sorted, each once; hidden files, hidden folders and links to folders are left out. Raises UsageError."""
    check_paths(paths)
    found: dict[Path, None] = {}
    for path in paths:
        for file in [path] if path.is_file() else _walk(path):
            found[file.resolve()] = None
    return sorted(found)


def _walk(folder: Path) -> Iterator[Path]:
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(f for f in folders if not f.startswith(".") and f != INDEX_FOLDER)
        yield from (Path(parent) / f for f in sorted(files) if not f.startswith("."))


def load(file: Path, root: Path) -> Document | Skipped:
    """Read one file. Line ends count as one character (as `Path.read_text` has it), and so do offsets everywhere."""
    path = stored_path(file, root)
    if file.suffix.lower() not in SUFFIXES:
        return Skipped(path, f"format not supported: {file.suffix or 'no suffix'}", False)
    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return Skipped(path, "not UTF-8 text", True)
    except OSError as error:
        return Skipped(path, f"cannot be read: {error.strerror}", True)
    if "\0" in text:
        return Skipped(path, "binary, not text", True)
    if not text.strip("\ufeff \t\r\n\f\v"):
        return Skipped(path, "empty", False)
    content_hash = content_id(text)
    return Document(content_id(path, content_hash), path, _title(text, file), text, content_hash)


def stored_path(file: Path, root: Path) -> str:
    """The path as the index keeps it: relative to the index's root where it lies below it, absolute otherwise."""
    file = file.resolve()
    return file.relative_to(root).as_posix() if file.is_relative_to(root) else str(file)


def _title(text: str, file: Path) -> str:
    first = next((line.strip("\ufeff# \t") for line in text.splitlines() if line.strip("\ufeff# \t")), "")
    return first[:100] if file.suffix.lower() in {".md", ".markdown"} and first else file.stem
