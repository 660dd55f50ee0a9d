"""The gate of an index folder, which may come from anybody: its files and its schema are checked before anything in it is read.

SQLite executes parts of a schema (views, triggers, generated columns, expressions), and writes to what a link leads to. A schema that is
localrag's own to the byte needs no further precaution; `PRAGMA trusted_schema = OFF` would forbid its index over a JSON value.
"""

import os
import shlex
import sqlite3
from pathlib import Path

from localrag.errors import LocalragError, UsageError
from localrag.records import content_id
from localrag.settings import INDEX_FOLDER

SchemaObjects = dict[tuple[str, str], tuple[str, str | None]]  # (type, name) → (table, SQL)
SCHEMA_HASH = "88d7ea551c045b81c7c9"  # of the objects of `schema.SCHEMA`: comparing it is quicker than creating them
DATABASE_FILE = "index.db"
LINKED_FILES = ("domain.toml", "aliases.txt")  # files of the user, which localrag only reads


def check_files(folder: Path) -> None:
    """Raise UsageError if a file of an index folder is a link, a pipe or a device: localrag would write to its target, or wait for it."""
    try:
        entries = list(os.scandir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise LocalragError(f"The index folder {folder} cannot be read: {error.strerror}.", "Check the folder's permissions") from error
    for entry in entries:
        is_linked = entry.name in LINKED_FILES and entry.is_file()
        if not (is_linked or entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False)):
            raise UsageError(
                f"The index in {folder} is not opened: {entry.name} is a link or a device, no file of its own.",
                f"Remove it: rm {shlex.quote(entry.path)}. If it leads to another index, name that one: --index DIR",
            )


def schema_objects(connection: sqlite3.Connection) -> SchemaObjects:
    """All objects of a database's schema."""
    rows = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master")
    return {(str(kind), str(name)): (str(table), sql) for kind, name, table, sql in rows}


def schema_hash(objects: SchemaObjects) -> str:
    """A hash of the objects."""
    return content_id(*(repr(row) for row in sorted(objects.items())))


def find_nearest_index(path: Path | None) -> Path | None:
    """The index folder: the given one, or `.localrag` in the current or nearest parent folder; None if there is none."""
    current = Path.cwd()
    folders = [path, path / INDEX_FOLDER] if path else [folder / INDEX_FOLDER for folder in (current, *current.parents)]
    return next((folder for folder in folders if (folder / DATABASE_FILE).exists()), None)
