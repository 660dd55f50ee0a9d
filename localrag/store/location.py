"""The location of an index, and names for shell completion, with few imports, because completion runs at every Tab."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from localrag.settings import INDEX_FOLDER
from localrag.store.gate import check_files, has_known_schema

DATABASE_FILE = "index.db"
_MAX_NAMES = 100  # names per completion
_BUSY_TIMEOUT_S = 0.2  # wait for another process's lock


def find_nearest_index(path: Path | None) -> Path | None:
    """The index folder: the given one, or `.localrag` in the current or nearest parent folder; None if there is none."""
    current = Path.cwd()
    folders = [path, path / INDEX_FOLDER] if path else [folder / INDEX_FOLDER for folder in (current, *current.parents)]
    return next((folder for folder in folders if (folder / DATABASE_FILE).exists()), None)


def entity_names(folder: Path, prefix: str) -> list[str]:
    """Entity names with this prefix, ignoring case, highest degree first. Raises sqlite3.Error."""
    sql = """SELECT name, max(degree) AS degree FROM
        (SELECT name, degree FROM entities UNION SELECT alias, degree FROM entity_aliases JOIN entities ON id = entity_id)
        WHERE name LIKE ? ESCAPE '\\' GROUP BY name ORDER BY degree DESC, name LIMIT ?"""
    return [name for name, _ in _read_rows(folder, sql, prefix)]


def community_titles(folder: Path, prefix: str) -> list[tuple[str, str]]:
    """Number and title of the communities whose number has this prefix. Raises sqlite3.Error."""
    sql = """SELECT level || '.' || ordinal AS number, coalesce(title, '') FROM communities LEFT JOIN reports ON id = community_id
        WHERE number LIKE ? ESCAPE '\\' ORDER BY level, ordinal LIMIT ?"""
    return [(number, title) for number, title in _read_rows(folder, sql, prefix)]


def _read_rows(folder: Path, sql: str, prefix: str) -> Iterator[tuple[str, str]]:
    pattern = "".join(f"\\{c}" if c in "%_\\" else c for c in prefix) + "%"
    path = (folder / DATABASE_FILE).absolute()
    check_files(folder)
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=_BUSY_TIMEOUT_S)) as connection:
        if not has_known_schema(connection):
            raise sqlite3.DatabaseError("its schema is not localrag's own")
        yield from connection.execute(sql, [pattern, _MAX_NAMES])
