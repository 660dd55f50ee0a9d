"""Where an index is and which names are in it: what the shell's completion asks for at every Tab, by the standard library alone."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from localrag.config import INDEX_FOLDER

FILE_NAME = "index.db"
_MOST = 100  # names at once
_WAITS = 0.2  # seconds for another process


def nearest_index(chosen: Path | None) -> Path | None:
    """The index folder: the one given, or `.localrag` here or in the nearest parent; None where there is none."""
    here = Path.cwd()
    folders = [chosen, chosen / INDEX_FOLDER] if chosen else [folder / INDEX_FOLDER for folder in (here, *here.parents)]
    return next((folder for folder in folders if (folder / FILE_NAME).exists()), None)


def entity_names(folder: Path, beginning: str) -> list[str]:
    """Names of entities that begin so, in whatever case, those with the most relationships first. Raises sqlite3.Error."""
    sql = """SELECT name, max(degree) AS degree FROM
        (SELECT name, degree FROM entities UNION SELECT alias, degree FROM entity_aliases JOIN entities ON id = entity_id)
        WHERE name LIKE ? ESCAPE '\\' GROUP BY name ORDER BY degree DESC, name LIMIT ?"""
    return [name for name, _ in _rows(folder, sql, beginning)]


def community_titles(folder: Path, beginning: str) -> list[tuple[str, str]]:
    """Number and title of the communities whose number begins so. Raises sqlite3.Error."""
    sql = """SELECT level || '.' || ordinal AS number, coalesce(title, '') FROM communities LEFT JOIN reports ON id = community_id
        WHERE number LIKE ? ESCAPE '\\' ORDER BY level, ordinal LIMIT ?"""
    return [(number, title) for number, title in _rows(folder, sql, beginning)]


def _rows(folder: Path, sql: str, beginning: str) -> Iterator[tuple[str, str]]:
    pattern = "".join(f"\\{c}" if c in "%_\\" else c for c in beginning) + "%"
    path = (folder / FILE_NAME).absolute()
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=_WAITS)) as connection:
        yield from connection.execute(sql, [pattern, _MOST])
