"""Make a database that came from elsewhere safe to use: only rows of our tables are kept, without anything bound to the other machine.

SQLite executes parts of a schema: triggers, views, generated columns. So the schema must be exactly the one that our migrations make; if it
is not, the rows of our tables are copied into a new database, and nothing else is.
"""

import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from sqlite_utils import Database
from sqlite_utils.migrations import Migrations

from localrag.config import Settings
from localrag.errors import IndexMismatch, LocalragError
from localrag.store.copied import LOCATION_KEY
from localrag.store.migrations import migrations
from localrag.store.repair import rebuild_full_text
from localrag.system.files import private_file

MAGIC = b"SQLite format 3\0"
# Rows of `settings`. Those that are not named here stay on the machine where they were written.
UNLISTED = frozenset({"id", LOCATION_KEY})  # every index has its own: dropped, but not listed
PORTABLE = frozenset(
    "settings chat_model embedder prepended chunk_tokens chunk_vectors decisions same_by_model graph options read_by merging described"
    " clustered reports reported titled titles layout graph_vectors collected_for picture imports reclustered window_of style_of spent"
    " search_passes unused_recipes erasing forgetting".split()
)
MACHINE_BOUND = {"studies": "study", "studies_with_text": "study", "sources": "indexed folder"}  # → the name of a value
MODELS = {"chat_model": "chat model", "embedder": "embedder"}
Schema = dict[tuple[str, str], tuple[str, str | None]]  # type and name of each object → its table and its SQL
_MIGRATED = "_sqlite_migrations"
_IS_PLAIN_TABLE = "substr(upper(ltrim(sql)), 1, 13) = 'CREATE TABLE '"  # not a virtual one


def sanitize_database(path: Path) -> list[tuple[str, str]]:
    """Make a foreign database safe to open as ours; returns the objects that its schema lost, and why.

    Raises LocalragError for a file that is damaged or no database, IndexMismatch for one of a newer localrag.
    """
    with path.open("rb") as f:
        if f.read(len(MAGIC)) != MAGIC:
            raise _unusable("it is not a database")
    try:
        with closing(sqlite3.connect(path)) as connection:
            _read_only(connection)
            applied = _applied(connection)
            ours = _schema_at(applied)
            other = sorted(name for name, sql in _objects(connection).items() if ours.get(name) != sql)
            if not other and not ours.keys() - _objects(connection).keys():
                _check_pages(connection)
                return []
        _rebuild(path, ours, applied)
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # also a name that is not UTF-8
        raise _unusable(str(error)) from error
    return [(f"{kind} {name}" if kind else name, "it is not of localrag's own schema") for kind, name in other]


def _read_only(connection: sqlite3.Connection) -> None:
    """Let a connection write nothing, and check every page that it reads.

    `trusted_schema` must stay on, because one of our own indexes calls a JSON function. Reading plain columns of plain tables executes
    nothing of a schema.
    """
    for pragma in ("cell_size_check = ON", "query_only = ON"):
        connection.execute(f"PRAGMA {pragma}")


def _unusable(why: str) -> LocalragError:
    return LocalragError(f"The index in the pack is not usable: {why}. Nothing was unpacked.", "Make the pack again where it was made.")


def _applied(connection: sqlite3.Connection) -> frozenset[str]:
    """The names of the migrations applied to a database. Raises IndexMismatch for an unknown one."""
    found = connection.execute(f"SELECT count(*) FROM sqlite_master WHERE name = ? AND type = 'table' AND {_IS_PLAIN_TABLE}", [_MIGRATED])
    if not found.fetchone()[0]:
        raise _unusable("it is no index of localrag")
    if {"name", "migration_set"} - _columns(connection, _MIGRATED):
        raise _unusable("it is no index of localrag")
    names = connection.execute(f"SELECT name FROM {_MIGRATED} WHERE migration_set = ? LIMIT 10000", [migrations.name])
    applied = frozenset(str(name) for (name,) in names)
    if newer := sorted(applied - {m.name for m in migrations._migrations}):
        raise IndexMismatch(f"The index in the pack was made by a newer localrag ({newer[-1]}).", "Upgrade: pip install --upgrade localrag")
    return applied


def _objects(connection: sqlite3.Connection) -> Schema:
    """All objects in the schema of a database."""
    rows = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master")
    return {(str(kind), str(name)): (str(table), sql) for kind, name, table, sql in rows}


def _schema_at(applied: Iterable[str]) -> Schema:
    """The schema that these migrations make."""
    with closing(sqlite3.connect(":memory:")) as connection:
        _migrate(connection, applied)
        return _objects(connection)


def _migrate(connection: sqlite3.Connection, applied: Iterable[str]) -> None:
    chosen, names = Migrations(migrations.name), set(applied)
    chosen._migrations = [m for m in migrations._migrations if m.name in names]
    chosen.apply(Database(connection))


def _check_pages(connection: sqlite3.Connection) -> None:
    (result,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if result != "ok":
        raise _unusable(f"it is damaged ({result})")


def _rebuild(path: Path, ours: Schema, applied: frozenset[str]) -> None:
    """Replace a foreign database by a new one with our schema and its rows, as far as they fit."""
    part = private_file(path.with_name(f"{path.name}.part"))
    try:
        with closing(sqlite3.connect(part, isolation_level=None)) as connection:
            connection.execute("PRAGMA synchronous = OFF")  # after a power cut the pack is unpacked again
            _migrate(connection, applied)
            triggers = [(name, sql) for (kind, name), (_, sql) in ours.items() if kind == "trigger" and sql]
            with closing(sqlite3.connect(path)) as theirs:
                _read_only(theirs)
                connection.execute("BEGIN")
                for name, _ in triggers:
                    connection.execute(f'DROP TRIGGER "{name}"')
                for table in _tables(connection):
                    _copy_rows(theirs, connection, table)
                for _, sql in triggers:
                    connection.execute(sql)
                connection.execute("COMMIT")
            _rebuild_search(connection)
            _check_pages(connection)
        for name in (path.name, f"{path.name}-wal", f"{path.name}-shm", f"{path.name}-journal"):
            path.with_name(name).unlink(missing_ok=True)
        part.replace(path)
    finally:
        for left in (part, Path(f"{part}-journal")):
            left.unlink(missing_ok=True)


def _tables(connection: sqlite3.Connection) -> list[str]:
    """Our ordinary tables, without SQLite's own and those of the full-text index."""
    rows = connection.execute(f"SELECT name FROM sqlite_master WHERE type = 'table' AND {_IS_PLAIN_TABLE} ORDER BY rowid")
    return [name for (name,) in rows if not name.startswith(("sqlite_", "chunk_search", "chunk_terms"))]


def _copy_rows(theirs: sqlite3.Connection, ours: sqlite3.Connection, table: str) -> None:
    """Copy the rows of a table, in the columns that both have, if the foreign one is an ordinary table, too."""
    ours.execute(f'DELETE FROM "{table}"')
    there = f"SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = ? AND {_IS_PLAIN_TABLE}"
    if not theirs.execute(there, [table]).fetchone()[0]:
        return
    columns = sorted(_columns(ours, table) & _columns(theirs, table))
    if columns:
        named, places = ", ".join(f'"{column}"' for column in columns), ", ".join("?" * len(columns))
        rows = theirs.execute(f'SELECT {named} FROM "{table}"')
        ours.executemany(f'INSERT OR IGNORE INTO "{table}" ({named}) VALUES ({places})', rows)


def _columns(connection: sqlite3.Connection, table: str) -> set[str]:
    """The columns of a table, without generated and hidden ones."""
    return {row[1] for row in connection.execute(f'PRAGMA table_xinfo("{table}")') if row[6] == 0}


def _rebuild_search(connection: sqlite3.Connection) -> None:
    """Bring the schema up to date, and build the full-text index of the copied chunks."""
    db = Database(connection)
    migrations.apply(db)
    rebuild_full_text(db)


def drop_machine_state(db: Database) -> list[tuple[str, str]]:
    """Delete everything bound to the machine that an index was made on, in one transaction; returns what the user should know of it.

    Names and fingerprints of models stay: they are part of the index, and the models' locations are not.
    """
    dropped: list[tuple[str, str]] = []
    with db.atomic():
        for key, value in db.execute("SELECT key, value FROM settings").fetchall():
            dropped += _drop_setting(db, key, value)
        db.execute("DELETE FROM seen")  # sizes, times and inodes of files there must not be taken for those here
        dropped += _drop_vectors(db)
        db.execute("DELETE FROM vector_files")  # FAISS files are built again
        state = "CASE WHEN ended_at IS NULL THEN 'interrupted' ELSE state END"
        db.execute(f"UPDATE runs SET pid = 0, figures = '{{}}', facts = '{{}}', state = {state}")
        db.execute("UPDATE runs SET ended_at = CURRENT_TIMESTAMP WHERE ended_at IS NULL")
    return dropped


def _drop_vectors(db: Database) -> Iterator[tuple[str, str]]:
    """Delete vectors of another length than most of their kind, which fit no matrix; the next run computes them again."""
    for table in ("embeddings", "next_embeddings", "name_vectors", "structural_vectors"):
        kind = "kind" if table.endswith("embeddings") else "''"
        sizes = f"SELECT {kind}, length(vector), count(*) FROM {table} WHERE typeof(vector) = 'blob' GROUP BY 1, 2 ORDER BY 3, 2"
        rows = db.execute(sizes).fetchall()  # of each kind, the most frequent size last
        usual = {name: size for name, size, _ in rows if isinstance(name, str) and size and size % 4 == 0}
        sound = f"SELECT 1 FROM json_each(?) u WHERE u.key = {kind} AND u.value = length(vector) AND typeof(vector) = 'blob'"
        gone = db.execute(f"DELETE FROM {table} WHERE NOT EXISTS ({sound})", [json.dumps(usual)]).rowcount
        if gone:
            yield f"{gone} rows of {table}", "their vectors are missing or of another length than the others"


def _drop_setting(db: Database, key: Any, text: Any) -> Iterator[tuple[str, str]]:
    value = _parsed(text)
    if key in MODELS and _is_binding(value):
        if "://" in value["path"]:
            yield f"address of the {MODELS[key]} {value['name']}", value["path"].partition("#")[0]
        _save(db, key, {name: value[name] for name in ("name", "fingerprint")} | {"path": ""})
    elif key == "settings" and isinstance(value, dict):
        if value.get("follow_links"):
            yield "setting follow_links", "it follows links out of the indexed folders"
        _save(db, key, _known_settings(value) | {"follow_links": False})
    elif key not in PORTABLE or key in MODELS or key == "settings" or value is None:
        db.execute("DELETE FROM settings WHERE key = ?", [key])
        if key in UNLISTED:
            return
        listed = value if isinstance(value, list) and key in MACHINE_BOUND else [value]
        yield from ((MACHINE_BOUND.get(key, f"setting {key}"), str(item)) for item in listed)


def _parsed(text: Any) -> Any:
    """A value of the settings; None for invalid JSON."""
    try:
        return json.loads(text)
    except (ValueError, TypeError, RecursionError):
        return None


def _save(db: Database, key: str, value: Any) -> None:
    db.execute("UPDATE settings SET value = ? WHERE key = ?", [json.dumps(value), key])


def _is_binding(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(value.get(name), str) for name in ("name", "path", "fingerprint"))


def _known_settings(value: dict[str, Any]) -> dict[str, Any]:
    """The known settings of the right type; others take today's default."""
    usual = Settings().to_json()
    return {key: item for key, item in value.items() if key in usual and _is_same_type(item, usual[key])}


def _is_same_type(value: Any, usual: Any) -> bool:
    if isinstance(usual, tuple | list):
        return isinstance(value, list) and all(isinstance(text, str) for text in value)
    return type(value) is type(usual)
