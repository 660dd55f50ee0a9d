"""The location of an index."""

from pathlib import Path

from localrag.settings import INDEX_FOLDER

DATABASE_FILE = "index.db"


def find_nearest_index(path: Path | None) -> Path | None:
    """The index folder: the given one, or `.localrag` in the current or nearest parent folder; None if there is none."""
    current = Path.cwd()
    folders = [path, path / INDEX_FOLDER] if path else [folder / INDEX_FOLDER for folder in (current, *current.parents)]
    return next((folder for folder in folders if (folder / DATABASE_FILE).exists()), None)
