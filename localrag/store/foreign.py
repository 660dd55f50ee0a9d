"""A database that came from elsewhere: it is read as tables of rows alone, and what it says of the machine it was made on is taken out.

SQLite runs what a schema holds: triggers, views, generated columns. So the schema must be the very one that our migrations make; where it
is another, the rows of our tables go into a new database, and nothing else does.
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
from localrag.store.migrations import migrations
from localrag.store.repair import rebuild_full_text
from localrag.system.files import private_file

MAGIC = b"SQLite format 3\0"
# What an index keeps of itself under `settings`. What is not named here stays on the machine where it was kept.
NUMBER = "id"  # by which a machine knows an index: each unpacked one is another
PORTABLE = frozenset(
    "settings chat_model embedder prepended chunk_tokens chunk_vectors decisions same_by_model graph options read_by merging described"
    " clustered reports reported titled titles layout graph_vectors collected_for picture imports reclustered window_of style_of spent"
    " search_passes unused_recipes erasing forgetting".split()
)
OF_A_MACHINE = {"studies": "study", "studies_with_text": "study", "sources": "indexed folder"}  # → what a value of it is
MODELS = {"chat_model": "chat model", "embedder": "embedder"}
Schema = dict[tuple[str, str], tuple[str, str | None]]  # kind and name of each object → the table that it belongs to, and its SQL
_MIGRATED = "_sqlite_migrations"
_PLAIN = "substr(upper(ltrim(sql)), 1, 13) = 'CREATE TABLE '"  # no virtual one


def clean(path: Path) -> list[tuple[str, str]]:
    """Make a foreign database one that may be opened as ours; returns the objects of its schema that it lost, and why.

    Raises LocalragError for a file that is none or is damaged, IndexMismatch for one of a newer localrag.
    """
    with path.open("rb") as f:
        if f.read(len(MAGIC)) != MAGIC:
            raise _unusable("it is no database")
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
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # a name that is no text, too
        raise _unusable(str(error)) from error
    return [(f"{kind} {name}" if kind else name, "it is not of localrag's own schema") for kind, name in other]


def _read_only(connection: sqlite3.Connection) -> None:
    """Write nothing, and check every page that is read.

    `trusted_schema` must stay on, for our own index of what was extracted calls a function of JSON. Nothing that a schema holds runs where
    plain columns of plain tables are read.
    """
    for pragma in ("cell_size_check = ON", "query_only = ON"):
        connection.execute(f"PRAGMA {pragma}")


def _unusable(why: str) -> LocalragError:
    return LocalragError(f"The index in the pack is not usable: {why}. Nothing was unpacked.", "Make the pack again where it was made.")


def _applied(connection: sqlite3.Connection) -> frozenset[str]:
    """The names of the migrations that a database went through. Raises IndexMismatch where we do not know one."""
    found = connection.execute(f"SELECT count(*) FROM sqlite_master WHERE name = ? AND type = 'table' AND {_PLAIN}", [_MIGRATED])
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
    """Everything in the schema of a database."""
    rows = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master")
    return {(str(kind), str(name)): (str(table), sql) for kind, name, table, sql in rows}


def _schema_at(applied: Iterable[str]) -> Schema:
    """What these migrations make."""
    with closing(sqlite3.connect(":memory:")) as connection:
        _migrate(connection, applied)
        return _objects(connection)


def _migrate(connection: sqlite3.Connection, applied: Iterable[str]) -> None:
    some = Migrations(migrations.name)
    some._migrations = [m for m in migrations._migrations if m.name in set(applied)]
    some.apply(Database(connection))


def _check_pages(connection: sqlite3.Connection) -> None:
    (said,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if said != "ok":
        raise _unusable(f"it is damaged ({said})")


def _rebuild(path: Path, ours: Schema, applied: frozenset[str]) -> None:
    """Put a database in place of a foreign one that has its rows, as far as they fit, and nothing of its schema."""
    part = private_file(path.with_name(f"{path.name}.part"))
    try:
        with closing(sqlite3.connect(part, isolation_level=None)) as connection:
            connection.execute("PRAGMA synchronous = OFF")  # nobody needs the file after a power cut
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
            _search_anew(connection)
            _check_pages(connection)
        for name in (path.name, f"{path.name}-wal", f"{path.name}-shm", f"{path.name}-journal"):
            path.with_name(name).unlink(missing_ok=True)
        part.replace(path)
    finally:
        for left in (part, Path(f"{part}-journal")):
            left.unlink(missing_ok=True)


def _tables(connection: sqlite3.Connection) -> list[str]:
    """Our plain tables, without those that SQLite keeps for itself and for the full-text index."""
    rows = connection.execute(f"SELECT name FROM sqlite_master WHERE type = 'table' AND {_PLAIN} ORDER BY rowid")
    return [name for (name,) in rows if not name.startswith(("sqlite_", "chunk_search", "chunk_terms"))]


def _copy_rows(theirs: sqlite3.Connection, ours: sqlite3.Connection, table: str) -> None:
    """Take the rows of a table over, in the columns that both have, if there is a plain table of its name."""
    ours.execute(f'DELETE FROM "{table}"')
    there = f"SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = ? AND {_PLAIN}"
    if not theirs.execute(there, [table]).fetchone()[0]:
        return
    columns = sorted(_columns(ours, table) & _columns(theirs, table))
    if columns:
        named, places = ", ".join(f'"{column}"' for column in columns), ", ".join("?" * len(columns))
        rows = theirs.execute(f'SELECT {named} FROM "{table}"')
        ours.executemany(f'INSERT OR IGNORE INTO "{table}" ({named}) VALUES ({places})', rows)


def _columns(connection: sqlite3.Connection, table: str) -> set[str]:
    """The columns of a table, but for those that are computed."""
    return {row[1] for row in connection.execute(f'PRAGMA table_xinfo("{table}")') if row[6] == 0}


def _search_anew(connection: sqlite3.Connection) -> None:
    """Make the full-text index of the chunks that were taken over."""
    db = Database(connection)
    migrations.apply(db)
    rebuild_full_text(db)


def drop_machine(db: Database) -> list[tuple[str, str]]:
    """Take out of an index what is bound to the machine it was made on, in one transaction; returns what of it said something.

    Names and fingerprints of models stay: what they are is part of the index, where they are is not.
    """
    dropped: list[tuple[str, str]] = []
    with db.atomic():
        for key, value in db.execute("SELECT key, value FROM settings").fetchall():
            dropped += _drop_setting(db, key, value)
        db.execute("DELETE FROM seen")  # sizes, times and numbers of files there: they would pass for those here
        dropped += _drop_vectors(db)
        db.execute("DELETE FROM vector_files")  # index files of vectors are made anew
        going = "CASE WHEN ended_at IS NULL THEN 'interrupted' ELSE state END"
        db.execute(f"UPDATE runs SET pid = 0, figures = '{{}}', facts = '{{}}', state = {going}")
        db.execute("UPDATE runs SET ended_at = CURRENT_TIMESTAMP WHERE ended_at IS NULL")
    return dropped


def _drop_vectors(db: Database) -> Iterator[tuple[str, str]]:
    """Vectors of another length than most of their kind, which no matrix takes; the next run makes them."""
    for table in ("embeddings", "next_embeddings", "name_vectors", "structural_vectors"):
        kind = "kind" if table.endswith("embeddings") else "''"
        sizes = f"SELECT {kind}, length(vector), count(*) FROM {table} WHERE typeof(vector) = 'blob' GROUP BY 1, 2 ORDER BY 3, 2"
        usual = {name: size for name, size, _ in db.execute(sizes) if size and size % 4 == 0}  # the last of a kind is the most frequent
        sound = f"SELECT 1 FROM json_each(?) u WHERE u.key = {kind} AND u.value = length(vector) AND typeof(vector) = 'blob'"
        gone = db.execute(f"DELETE FROM {table} WHERE NOT EXISTS ({sound})", [json.dumps(usual)]).rowcount
        if gone:
            yield f"{gone} rows of {table}", "their vectors are none, or of another length than the others"


def _drop_setting(db: Database, key: Any, text: Any) -> Iterator[tuple[str, str]]:
    value = _read(text)
    if key in MODELS and _is_binding(value):
        if "://" in value["path"]:
            yield f"address of the {MODELS[key]} {value['name']}", value["path"].partition("#")[0]
        _save(db, key, {name: value[name] for name in ("name", "fingerprint")} | {"path": ""})
    elif key == "settings" and isinstance(value, dict):
        if value.get("follow_links"):
            yield "setting follow_links", "links were followed out of the folders that were indexed there"
        _save(db, key, _known_settings(value) | {"follow_links": False})
    elif key not in PORTABLE or key in MODELS or key == "settings" or value is None:
        db.execute("DELETE FROM settings WHERE key = ?", [key])
        if key == NUMBER:
            return
        listed = value if isinstance(value, list) and key in OF_A_MACHINE else [value]
        yield from ((OF_A_MACHINE.get(key, f"setting {key}"), str(one)) for one in listed)


def _read(text: Any) -> Any:
    """A value of the settings; None for one that cannot be read."""
    try:
        return json.loads(text)
    except (ValueError, TypeError, RecursionError):
        return None


def _save(db: Database, key: str, value: Any) -> None:
    db.execute("UPDATE settings SET value = ? WHERE key = ?", [json.dumps(value), key])


def _is_binding(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(value.get(name), str) for name in ("name", "path", "fingerprint"))


def _known_settings(value: dict[str, Any]) -> dict[str, Any]:
    """The settings that are of the kind that they must be; others take today's default."""
    usual = Settings().to_json()
    return {key: one for key, one in value.items() if key in usual and _alike(one, usual[key])}


def _alike(one: Any, usual: Any) -> bool:
    if isinstance(usual, tuple | list):
        return isinstance(one, list) and all(isinstance(text, str) for text in one)
    return type(one) is type(usual)
