"""Sanitizing a database from elsewhere: keeps only rows of localrag's tables, without anything bound to the other machine.

SQLite executes parts of a schema: triggers, views, generated columns. So the schema must be exactly localrag's; otherwise only the rows of
its tables are copied into a new database.
"""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from sqlite_utils import Database

from localrag.errors import IndexMismatch, LocalragError
from localrag.settings import IndexSettings
from localrag.store.check import copy_rows
from localrag.store.database import back_up_database
from localrag.store.location import DATABASE_FILE, schema_objects
from localrag.store.schema import SCHEMA_VERSION, current_schema, keep_checksums, schema_version
from localrag.store.vectors import INDEX_FILE_SETTINGS
from localrag.system.files import new_database_file
from localrag.system.installation import upgrade_hint

SQLITE_MAGIC = b"SQLite format 3\0"
# Settings that are kept; all others stay on the machine where they were written.
UNLISTED = frozenset({"id", *INDEX_FILE_SETTINGS})  # every index has its own: dropped without being reported
PORTABLE = frozenset(
    "settings chat_model embedder prepend_metadata chunk_tokens chunk_embedding_text merge_decisions graph_hash"
    " graph_options_hash extraction_hashes merge_rules_version descriptions_hash clustering_statistics reports_state reports_hash"
    " title_corpus_size layout_hash graph_embeddings_hash gc_config layout_method imports reclustered budgets_model"
    " style_model auto_extractor reports_style dropped_rows is_embedder_named"
    " has_removed_text pending_erasure pending_conversation_erasure".split()
)
MACHINE_BOUND = {"studies": "study", "source_paths": "indexed folder"}  # → name for messages
BOUND_MODEL_SETTINGS = {"chat_model": "chat model", "embedder": "embedder"}


def sanitize_database(path: Path) -> list[tuple[str, str]]:
    """Make a foreign database safe to open; returns the schema objects that were removed, each with the reason.

    Raises LocalragError for a damaged file or one that is no database, IndexMismatch for another version.
    """
    with path.open("rb") as f:
        if f.read(len(SQLITE_MAGIC)) != SQLITE_MAGIC:
            raise _unusable("it is not a database")
    try:
        with closing(sqlite3.connect(path)) as connection:
            _read_only(connection)
            objects, expected = schema_objects(connection), current_schema()
            _check_version(connection)
            foreign = sorted(name for name, sql in objects.items() if expected.get(name) != sql)
            if not foreign and not expected.keys() - objects.keys():
                _check_pages(connection)
                return []
        _rebuild(path)
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # also a name that is not UTF-8
        raise _unusable(str(error)) from error
    return [(f"{kind} {name}" if kind else name, "it is not of localrag's own schema") for kind, name in foreign]


def drop_foreign_schema(folder: Path) -> Path | None:
    """Make an index with another schema than localrag's anew, from the rows of its tables; the caller holds the writer lock.

    Returns the copy of the database as it was, or None if its schema is localrag's. Raises LocalragError.
    """
    path = folder / DATABASE_FILE
    with closing(sqlite3.connect(path)) as connection:
        if schema_version(connection) != SCHEMA_VERSION or schema_objects(connection) == current_schema():
            return None
        copy = back_up_database(Database(connection), path, "foreign")
    sanitize_database(path)
    return copy


def _read_only(connection: sqlite3.Connection) -> None:
    """Make a connection read-only, and check every page that it reads.

    `trusted_schema` must stay on, because an index of localrag calls a JSON function. Reading plain columns of plain tables executes
    nothing.
    """
    for pragma in ("cell_size_check = ON", "query_only = ON"):
        connection.execute(f"PRAGMA {pragma}")


def _unusable(reason: str) -> LocalragError:
    return LocalragError(
        f"The index in the pack is not usable: {reason}. Nothing was unpacked.", "Create the pack again on the original machine."
    )


def _check_version(connection: sqlite3.Connection) -> None:
    """Raise IndexMismatch for a foreign schema of another version, LocalragError for a database of another program."""
    if not (version := schema_version(connection)):
        raise _unusable("it is no index of localrag")
    if version > SCHEMA_VERSION:
        raise IndexMismatch(f"The index in the pack was made by a newer localrag (schema {version}).", upgrade_hint())
    if version < SCHEMA_VERSION:
        raise IndexMismatch(
            f"The index in the pack was made by an older localrag (schema {version}).",
            "Index there again with this version, and pack again.",
        )


def _check_pages(connection: sqlite3.Connection) -> None:
    (result,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if result != "ok":
        raise _unusable(f"it is damaged ({result})")


def _rebuild(path: Path) -> None:
    """Replace a foreign database by a new one with localrag's schema and the foreign rows, as far as they fit."""
    part = new_database_file(path.with_name(f"{path.name}.part"))
    try:
        with closing(sqlite3.connect(path)) as foreign:
            _read_only(foreign)
            copy_rows(foreign, part)
        with closing(sqlite3.connect(part)) as connection:
            _check_pages(connection)
        for name in (path.name, f"{path.name}-wal", f"{path.name}-shm", f"{path.name}-journal"):
            path.with_name(name).unlink(missing_ok=True)
        part.replace(path)
    finally:
        for leftover in (part, Path(f"{part}-journal")):
            leftover.unlink(missing_ok=True)


def forget_id(path: Path) -> None:
    """Delete the id of an index from a copy of its database: what was chosen for the index on this machine is known by it."""
    with closing(sqlite3.connect(path)) as connection:
        keep_checksums(connection)
        connection.execute("PRAGMA secure_delete = ON")
        connection.execute("DELETE FROM index_settings WHERE key = 'id'")
        connection.commit()


def drop_machine_state(db: Database) -> list[tuple[str, str]]:
    """Delete everything bound to the original machine, in one transaction; returns what to report to the user.

    Names and fingerprints of models stay: they are part of the index. Their locations go.
    """
    dropped: list[tuple[str, str]] = []
    with db.atomic():
        for key, value in db.execute("SELECT key, value FROM index_settings").fetchall():
            dropped += _drop_setting(db, key, value)
        db.execute("DELETE FROM file_stats")  # file stats of the other machine are meaningless here
        dropped += _drop_vectors(db)
        state = "CASE WHEN ended_at IS NULL THEN 'interrupted' ELSE state END"
        db.execute(f"UPDATE runs SET pid = 0, engine_metrics = '{{}}', progress = '{{}}', state = {state}")
        db.execute("UPDATE runs SET ended_at = CURRENT_TIMESTAMP WHERE ended_at IS NULL")
    return dropped


def _drop_vectors(db: Database) -> Iterator[tuple[str, str]]:
    """Delete vectors of another length than most of their kind; the next run computes them again."""
    for table in ("embeddings", "staged_embeddings"):
        kind = "kind" if table in ("embeddings", "staged_embeddings") else "''"
        sizes = f"SELECT {kind}, length(vector), count(*) FROM {table} WHERE typeof(vector) = 'blob' GROUP BY 1, 2 ORDER BY 3, 2"
        rows = db.execute(sizes).fetchall()  # of each kind, the most frequent size last
        usual = {name: size for name, size, _ in rows if isinstance(name, str) and size and size % 4 == 0}
        is_usual = f"SELECT 1 FROM json_each(?) u WHERE u.key = {kind} AND u.value = length(vector) AND typeof(vector) = 'blob'"
        n_deleted = db.execute(f"DELETE FROM {table} WHERE NOT EXISTS ({is_usual})", [json.dumps(usual)]).rowcount
        if n_deleted:
            yield f"{n_deleted} rows of {table}", "their vectors are missing or of another length than the others"


def _drop_setting(db: Database, key: Any, text: Any) -> Iterator[tuple[str, str]]:
    value = _parsed(text)
    if key in BOUND_MODEL_SETTINGS and _is_binding(value):
        if "://" in value["path"]:
            yield f"address of the {BOUND_MODEL_SETTINGS[key]} {value['name']}", value["path"].partition("#")[0]
        _save(db, key, {name: value[name] for name in ("name", "fingerprint")} | {"path": ""})
    elif key == "settings" and isinstance(value, dict):
        if value.get("follow_links"):
            yield "setting follow_links", "it follows links out of the indexed folders"
        sound = json.loads(json.dumps(IndexSettings.from_json(value).to_json()))  # as it was stored
        _save(db, key, {name: item for name, item in sound.items() if value.get(name) == item} | {"follow_links": False})
    elif key not in PORTABLE or key in BOUND_MODEL_SETTINGS or key == "settings" or value is None:
        db.execute("DELETE FROM index_settings WHERE key = ?", [key])
        if key in UNLISTED:
            return
        listed = value if isinstance(value, list) and key in MACHINE_BOUND else [value]
        yield from ((MACHINE_BOUND.get(key, f"setting {key}"), str(item)) for item in listed)


def _parsed(text: Any) -> Any:
    """A settings value parsed from JSON; None if invalid."""
    try:
        return json.loads(text)
    except (ValueError, TypeError, RecursionError):
        return None


def _save(db: Database, key: str, value: Any) -> None:
    db.execute("UPDATE index_settings SET value = ? WHERE key = ?", [json.dumps(value), key])


def _is_binding(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(value.get(name), str) for name in ("name", "path", "fingerprint"))
