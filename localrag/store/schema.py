"""The schema of `index.db`, its version, and a checksum per table. An index of another version is refused.

SQLite detects damage to its structures, but not a changed byte in a value. `table_checksums` holds per table the sum of its rows'
checksums, so that a write only adds or subtracts those of the row. Temporary triggers of every writing connection do that, at 2 µs per row.
A program without them can still write; `check` then reports the table as changed.
"""

import re
import shlex
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from marshal import dumps
from pathlib import Path
from typing import Any
from zlib import crc32

from sqlite_utils import Database

from localrag.errors import IndexMismatch, LocalragError
from localrag.store.location import SCHEMA_HASH, SchemaObjects, schema_hash, schema_objects
from localrag.system.installation import upgrade_hint

SCHEMA_VERSION = 39  # PRAGMA user_version

# The number of rejected names of an extraction, NULL for invalid JSON; index and query must use the same expression.
REJECTED_NAMES_EXPR = "CASE WHEN json_valid(result) THEN json_extract(result, '$.rejected_names') END"

_DOCUMENT = """
    id TEXT PRIMARY KEY, path TEXT NOT NULL UNIQUE, title TEXT NOT NULL, text TEXT NOT NULL, content_hash TEXT NOT NULL,
    added_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP, metadata TEXT NOT NULL DEFAULT '[]', parts TEXT NOT NULL DEFAULT '[]',
    blocks BLOB NOT NULL DEFAULT x'', date TEXT NOT NULL DEFAULT '', date_source TEXT NOT NULL DEFAULT '',
    title_source TEXT NOT NULL DEFAULT '', original_path TEXT NOT NULL DEFAULT ''"""

_CHUNK = "ordinal INTEGER NOT NULL, start INTEGER NOT NULL, end INTEGER NOT NULL, text TEXT NOT NULL, tokens INTEGER NOT NULL"
_CHUNK += ", headings TEXT NOT NULL DEFAULT '[]'"

SCHEMA = f"""
CREATE TABLE index_settings (key TEXT PRIMARY KEY, value TEXT NOT NULL);

CREATE TABLE table_checksums (table_name TEXT PRIMARY KEY, checksum INTEGER NOT NULL) WITHOUT ROWID;

CREATE TABLE documents ({_DOCUMENT});
CREATE INDEX documents_by_content ON documents(path, content_hash);

CREATE TABLE skipped_files (
    path TEXT PRIMARY KEY, reason TEXT NOT NULL, is_failure INTEGER NOT NULL DEFAULT 0, content_hash TEXT NOT NULL DEFAULT '');

CREATE TABLE file_stats (
    path TEXT PRIMARY KEY, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, inode INTEGER NOT NULL, digest TEXT NOT NULL) WITHOUT ROWID;

CREATE TABLE collection_documents (name TEXT NOT NULL, path TEXT NOT NULL, PRIMARY KEY (name, path));
CREATE INDEX collection_documents_by_path ON collection_documents(path);

CREATE TABLE review_cells (
    path TEXT NOT NULL, section TEXT NOT NULL, question TEXT NOT NULL, input_hash TEXT NOT NULL, cell TEXT NOT NULL,
    decided_at TEXT NOT NULL DEFAULT '', PRIMARY KEY (path, section, question)) WITHOUT ROWID;

CREATE TABLE ocr_pages (
    scan_id TEXT NOT NULL, page INTEGER NOT NULL, image_hash TEXT NOT NULL, words BLOB NOT NULL, PRIMARY KEY (scan_id, page));
CREATE INDEX ocr_pages_by_image ON ocr_pages(image_hash);

CREATE TABLE ocr_documents (content_hash TEXT PRIMARY KEY, scan_id TEXT NOT NULL, languages TEXT NOT NULL);

CREATE TABLE removed_documents (path TEXT PRIMARY KEY, words BLOB NOT NULL);

CREATE TABLE chunks (id TEXT PRIMARY KEY, document_id TEXT NOT NULL REFERENCES documents(id) ON DELETE CASCADE, {_CHUNK});
CREATE INDEX chunks_by_document ON chunks(document_id, ordinal);
CREATE INDEX chunks_in_document ON chunks(document_id, id);

CREATE TABLE sentence_spans (chunk_id TEXT PRIMARY KEY, splitter_version INTEGER NOT NULL, spans BLOB NOT NULL);

CREATE VIRTUAL TABLE chunks_fts USING fts5(chunk_id UNINDEXED, text, cjk, tokenize = 'porter unicode61 remove_diacritics 2');

CREATE VIRTUAL TABLE chunks_fts_vocab USING fts5vocab(chunks_fts, row);

CREATE TABLE chunks_fts_rows (row INTEGER PRIMARY KEY, chunk_id TEXT NOT NULL UNIQUE REFERENCES chunks(id) ON DELETE CASCADE);

CREATE TABLE llm_calls (
    key TEXT PRIMARY KEY, task TEXT NOT NULL, model TEXT NOT NULL, prompt_hash TEXT NOT NULL, grammar TEXT NOT NULL,
    sampling TEXT NOT NULL, text TEXT NOT NULL, tokens TEXT NOT NULL, prompt_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL,
    seconds REAL NOT NULL, created_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP, subject TEXT NOT NULL DEFAULT '',
    config_hash TEXT NOT NULL DEFAULT '', unused_since TEXT);
CREATE INDEX llm_calls_by_subject ON llm_calls(subject);
CREATE INDEX llm_calls_unused ON llm_calls(unused_since) WHERE unused_since IS NOT NULL;

CREATE TABLE extractions (chunk_id TEXT NOT NULL, config_hash TEXT NOT NULL, result TEXT NOT NULL, PRIMARY KEY (chunk_id, config_hash));
CREATE INDEX extractions_by_noise ON extractions({REJECTED_NAMES_EXPR}) WHERE {REJECTED_NAMES_EXPR} > 0;

CREATE TABLE changed_chunks (chunk_id TEXT PRIMARY KEY) WITHOUT ROWID;

CREATE TABLE entities (
    id TEXT PRIMARY KEY, name TEXT NOT NULL, type TEXT NOT NULL, description TEXT NOT NULL, degree INTEGER NOT NULL,
    descriptions TEXT NOT NULL);
CREATE INDEX entities_by_degree ON entities(type, degree);

CREATE TABLE entity_aliases (
    alias TEXT NOT NULL, entity_id TEXT NOT NULL REFERENCES entities(id) ON DELETE CASCADE, PRIMARY KEY (alias, entity_id));
CREATE INDEX entity_aliases_nocase ON entity_aliases(alias COLLATE NOCASE);
CREATE INDEX entity_aliases_by_entity ON entity_aliases(entity_id);

CREATE TABLE mentions (
    entity_id TEXT NOT NULL REFERENCES entities(id) ON DELETE CASCADE,
    chunk_id TEXT NOT NULL REFERENCES chunks(id) ON DELETE CASCADE,
    start INTEGER NOT NULL, end INTEGER NOT NULL, name TEXT NOT NULL, informativeness REAL NOT NULL DEFAULT 0,
    PRIMARY KEY (entity_id, chunk_id, start, end));
CREATE INDEX mentions_by_chunk ON mentions(chunk_id);

CREATE TABLE relationships (
    id TEXT PRIMARY KEY, source_id TEXT NOT NULL REFERENCES entities(id) ON DELETE CASCADE,
    target_id TEXT NOT NULL REFERENCES entities(id) ON DELETE CASCADE, description TEXT NOT NULL, weight REAL NOT NULL,
    strength REAL NOT NULL, descriptions TEXT NOT NULL);
CREATE INDEX relationships_by_target ON relationships(target_id);
CREATE INDEX relationships_by_source ON relationships(source_id);

CREATE TABLE evidence (
    relationship_id TEXT NOT NULL REFERENCES relationships(id) ON DELETE CASCADE,
    chunk_id TEXT NOT NULL REFERENCES chunks(id) ON DELETE CASCADE, start INTEGER NOT NULL, end INTEGER NOT NULL,
    PRIMARY KEY (relationship_id, chunk_id, start, end));
CREATE INDEX evidence_by_chunk ON evidence(chunk_id);

CREATE TABLE claims (
    id TEXT PRIMARY KEY, chunk_id TEXT NOT NULL REFERENCES chunks(id) ON DELETE CASCADE,
    subject_id TEXT NOT NULL REFERENCES entities(id) ON DELETE CASCADE,
    object_id TEXT REFERENCES entities(id) ON DELETE CASCADE, type TEXT NOT NULL, status TEXT NOT NULL, start_date TEXT NOT NULL,
    end_date TEXT NOT NULL, description TEXT NOT NULL, span_start INTEGER NOT NULL, span_end INTEGER NOT NULL);
CREATE INDEX claims_by_subject ON claims(subject_id);
CREATE INDEX claims_by_chunk ON claims(chunk_id);
CREATE INDEX claims_by_object ON claims(object_id);

CREATE TABLE communities (
    id TEXT PRIMARY KEY, level INTEGER NOT NULL, ordinal INTEGER NOT NULL, parent_id TEXT, UNIQUE (level, ordinal));
CREATE INDEX communities_by_parent ON communities(parent_id);

CREATE TABLE community_members (
    community_id TEXT NOT NULL REFERENCES communities(id) ON DELETE CASCADE,
    entity_id TEXT NOT NULL REFERENCES entities(id) ON DELETE CASCADE, PRIMARY KEY (community_id, entity_id));
CREATE INDEX community_members_by_entity ON community_members(entity_id);

CREATE TABLE community_weights (community_id TEXT PRIMARY KEY, total_weight REAL NOT NULL, internal_weight REAL NOT NULL) WITHOUT ROWID;

CREATE TABLE isolated_entities (entity_id TEXT PRIMARY KEY, attached_to_id TEXT NOT NULL) WITHOUT ROWID;
CREATE INDEX isolated_entities_by_attached ON isolated_entities(attached_to_id);

CREATE TABLE reports (
    community_id TEXT PRIMARY KEY REFERENCES communities(id) ON DELETE CASCADE, input_hash TEXT NOT NULL, title TEXT NOT NULL,
    summary TEXT NOT NULL, rating REAL NOT NULL, rating_explanation TEXT NOT NULL, findings TEXT NOT NULL, markdown TEXT NOT NULL);
CREATE INDEX reports_imported ON reports(community_id) WHERE substr(input_hash, 1, 9) = 'imported ';

CREATE TABLE report_documents (
    document_id TEXT NOT NULL, community_id TEXT NOT NULL REFERENCES reports(community_id) ON DELETE CASCADE,
    PRIMARY KEY (document_id, community_id));
CREATE INDEX report_documents_by_community ON report_documents(community_id);

CREATE TABLE title_word_counts (word_hash INTEGER PRIMARY KEY, sentences INTEGER NOT NULL);

CREATE TABLE entity_positions (
    entity_id TEXT PRIMARY KEY REFERENCES entities(id) ON DELETE CASCADE, x REAL NOT NULL, y REAL NOT NULL, r REAL NOT NULL);

CREATE TABLE community_positions (
    community_id TEXT PRIMARY KEY REFERENCES communities(id) ON DELETE CASCADE, x REAL NOT NULL, y REAL NOT NULL, r REAL NOT NULL);

CREATE TABLE community_edges (
    level INTEGER NOT NULL, source_id TEXT NOT NULL REFERENCES communities(id) ON DELETE CASCADE,
    target_id TEXT NOT NULL REFERENCES communities(id) ON DELETE CASCADE, weight REAL NOT NULL, PRIMARY KEY (source_id, target_id));
CREATE INDEX community_edges_by_target ON community_edges(target_id);

CREATE TABLE embeddings (
    vector_id INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, subject_id TEXT NOT NULL, content_hash TEXT NOT NULL,
    embedder TEXT NOT NULL, vector BLOB NOT NULL, windows BLOB NOT NULL DEFAULT x'', UNIQUE (kind, subject_id));
CREATE INDEX embeddings_by_content ON embeddings(kind, content_hash);
CREATE INDEX embeddings_by_embedder ON embeddings(kind, embedder, subject_id);
CREATE INDEX embeddings_by_kind ON embeddings(kind);

CREATE TABLE vector_versions (kind TEXT PRIMARY KEY, version TEXT NOT NULL);


CREATE TABLE name_merges (
    name_key TEXT NOT NULL, entity_key TEXT NOT NULL, is_applied INTEGER NOT NULL, reason TEXT NOT NULL, score REAL NOT NULL,
    PRIMARY KEY (name_key, entity_key, is_applied)) WITHOUT ROWID;

CREATE TABLE graph_inputs (chunk_id TEXT PRIMARY KEY, document_id TEXT NOT NULL, input_hash TEXT NOT NULL) WITHOUT ROWID;
CREATE INDEX graph_inputs_by_document ON graph_inputs(document_id);

CREATE TABLE document_names (
    document_id TEXT NOT NULL, name_key TEXT NOT NULL, form_counts TEXT NOT NULL, type_counts TEXT NOT NULL, descriptions TEXT NOT NULL,
    form TEXT NOT NULL, type TEXT NOT NULL, count INTEGER NOT NULL, target_key TEXT, reason TEXT, score REAL, entity_key TEXT NOT NULL,
    PRIMARY KEY (document_id, name_key)) WITHOUT ROWID;
CREATE INDEX document_names_by_key ON document_names(name_key);
CREATE INDEX document_names_by_entity ON document_names(entity_key);

CREATE TABLE corpus_names (
    name_key TEXT PRIMARY KEY, form TEXT NOT NULL, type TEXT NOT NULL, count INTEGER NOT NULL, target_key TEXT, reason TEXT, score REAL)
    WITHOUT ROWID;
CREATE INDEX corpus_names_by_target ON corpus_names(target_key);
CREATE INDEX corpus_names_by_block ON corpus_names(type, substr(name_key, 1, 2), count);

CREATE TABLE name_index (lookup_key TEXT NOT NULL, name_key TEXT NOT NULL, PRIMARY KEY (lookup_key, name_key)) WITHOUT ROWID;

CREATE TABLE name_queries (lookup_key TEXT NOT NULL, name_key TEXT NOT NULL, PRIMARY KEY (lookup_key, name_key)) WITHOUT ROWID;

CREATE TABLE similar_names (
    block TEXT NOT NULL, a TEXT NOT NULL, b TEXT NOT NULL, score REAL NOT NULL, PRIMARY KEY (block, a, b)) WITHOUT ROWID;
CREATE INDEX similar_names_by_score ON similar_names(score);

CREATE TABLE graph_nodes (
    id INTEGER PRIMARY KEY, entity_key TEXT NOT NULL UNIQUE, n_sentences INTEGER NOT NULL, strongest_neighbor INTEGER NOT NULL);

CREATE TABLE cooccurrences (
    a INTEGER NOT NULL, b INTEGER NOT NULL, relationship_id TEXT NOT NULL, shared_sentences INTEGER NOT NULL, n_chunks INTEGER NOT NULL,
    n_statements INTEGER NOT NULL, strength INTEGER NOT NULL, llm_chunks INTEGER NOT NULL, weight REAL, is_relationship INTEGER NOT NULL,
    PRIMARY KEY (a, b)) WITHOUT ROWID;
CREATE INDEX cooccurrences_by_a ON cooccurrences(a, weight);
CREATE INDEX cooccurrences_by_b ON cooccurrences(b, weight);
CREATE INDEX cooccurrences_by_weight ON cooccurrences(weight);

CREATE TABLE document_entity_counts (
    document_id TEXT NOT NULL, node INTEGER NOT NULL, n_sentences INTEGER NOT NULL, PRIMARY KEY (document_id, node)) WITHOUT ROWID;

CREATE TABLE document_cooccurrences (
    document_id TEXT NOT NULL, a INTEGER NOT NULL, b INTEGER NOT NULL, shared_sentences INTEGER NOT NULL, n_chunks INTEGER NOT NULL,
    n_statements INTEGER NOT NULL, strength INTEGER NOT NULL, llm_chunks INTEGER NOT NULL, descriptions TEXT NOT NULL,
    PRIMARY KEY (document_id, a, b)) WITHOUT ROWID;
CREATE INDEX document_cooccurrences_described ON document_cooccurrences(a, b) WHERE descriptions <> '';

CREATE TABLE relationship_spans (
    chunk_id TEXT NOT NULL, a INTEGER NOT NULL, b INTEGER NOT NULL, start INTEGER NOT NULL, end INTEGER NOT NULL,
    PRIMARY KEY (chunk_id, a, b, start, end)) WITHOUT ROWID;
CREATE INDEX relationship_spans_by_pair ON relationship_spans(a, b);

CREATE TABLE weight_histogram (bucket REAL PRIMARY KEY, n INTEGER NOT NULL) WITHOUT ROWID;

CREATE TABLE failures (
    stage TEXT NOT NULL, subject TEXT NOT NULL, reason TEXT NOT NULL, failed_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP,
    kind TEXT NOT NULL DEFAULT '', PRIMARY KEY (stage, subject));

CREATE TABLE answers (
    id INTEGER PRIMARY KEY, question TEXT NOT NULL, mode TEXT NOT NULL, answer_json TEXT NOT NULL,
    created_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP, conversation INTEGER NOT NULL DEFAULT 0);

CREATE TABLE runs (
    id INTEGER PRIMARY KEY, pid INTEGER NOT NULL, started_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP, ended_at TEXT,
    state TEXT NOT NULL, stage TEXT NOT NULL DEFAULT '', done INTEGER NOT NULL DEFAULT 0, total INTEGER NOT NULL DEFAULT 0,
    engine_metrics TEXT NOT NULL DEFAULT '{{}}', progress TEXT NOT NULL DEFAULT '{{}}', updated_at REAL NOT NULL DEFAULT 0);

CREATE TABLE staged_documents ({_DOCUMENT});
CREATE INDEX staged_documents_by_content ON staged_documents(path, content_hash);

CREATE TABLE staged_chunks (id TEXT PRIMARY KEY, document_id TEXT NOT NULL REFERENCES staged_documents(id) ON DELETE CASCADE, {_CHUNK});
CREATE INDEX staged_chunks_by_document ON staged_chunks(document_id, ordinal);

CREATE TABLE staged_deletions (path TEXT PRIMARY KEY);

CREATE TABLE staged_reports (
    community_id TEXT PRIMARY KEY, input_hash TEXT NOT NULL, title TEXT NOT NULL, summary TEXT NOT NULL, rating REAL NOT NULL,
    rating_explanation TEXT NOT NULL, findings TEXT NOT NULL, markdown TEXT NOT NULL);

CREATE TABLE staged_embeddings (
    kind TEXT NOT NULL, subject_id TEXT NOT NULL, content_hash TEXT NOT NULL, embedder TEXT NOT NULL, vector BLOB NOT NULL,
    windows BLOB NOT NULL DEFAULT x'', PRIMARY KEY (kind, subject_id));
CREATE INDEX staged_embeddings_by_content ON staged_embeddings(kind, content_hash);
CREATE TRIGGER embeddings_inserted AFTER INSERT ON embeddings BEGIN
    INSERT OR REPLACE INTO vector_versions VALUES (new.kind, hex(randomblob(8))); END;
CREATE TRIGGER embeddings_deleted AFTER DELETE ON embeddings BEGIN
    INSERT OR REPLACE INTO vector_versions VALUES (old.kind, hex(randomblob(8))); END;

-- Chunks that were stored, deleted or extracted since the published graph was made: its inputs are compared for their documents.
CREATE TRIGGER extractions_inserted AFTER INSERT ON extractions BEGIN
    INSERT OR IGNORE INTO changed_chunks VALUES (new.chunk_id); END;
CREATE TRIGGER extractions_updated AFTER UPDATE ON extractions BEGIN
    INSERT OR IGNORE INTO changed_chunks VALUES (old.chunk_id), (new.chunk_id); END;
CREATE TRIGGER extractions_deleted AFTER DELETE ON extractions BEGIN
    INSERT OR IGNORE INTO changed_chunks VALUES (old.chunk_id); END;

-- A chunk without an extraction is recorded when it gets one.
CREATE TRIGGER chunks_inserted AFTER INSERT ON chunks WHEN EXISTS (SELECT 1 FROM extractions WHERE chunk_id = new.id) BEGIN
    INSERT OR IGNORE INTO changed_chunks VALUES (new.id); END;
CREATE TRIGGER chunks_updated AFTER UPDATE ON chunks WHEN (old.id, old.document_id) <> (new.id, new.document_id) BEGIN
    INSERT OR IGNORE INTO changed_chunks VALUES (old.id), (new.id); END;
CREATE TRIGGER chunks_deleted AFTER DELETE ON chunks WHEN EXISTS (SELECT 1 FROM graph_inputs WHERE chunk_id = old.id) BEGIN
    INSERT OR IGNORE INTO changed_chunks VALUES (old.id); END;

-- The network of entities and chunks depends on the titles of documents.
CREATE TRIGGER documents_title_updated AFTER UPDATE OF title ON documents WHEN old.title <> new.title BEGIN
    INSERT OR REPLACE INTO vector_versions VALUES ('title', hex(randomblob(8))); END
"""

CHECKSUMS_TABLE = "table_checksums"
CONTENT_TABLES = tuple(name for name in re.findall(r"^CREATE TABLE (\w+)", SCHEMA, re.MULTILINE) if name != CHECKSUMS_TABLE)


def create_schema(db: Database) -> None:
    """Create all tables in an empty database, in one transaction."""
    with db.atomic():
        for statement in re.split(r";\n+", SCHEMA.strip()):
            db.execute(statement)
        db.conn.executemany("INSERT INTO table_checksums VALUES (?, 0)", ((table,) for table in CONTENT_TABLES))
        db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def check_schema(connection: sqlite3.Connection, path: Path) -> None:
    """Check that a database has no object but those that localrag made, before a table of it is read; an empty one is new.

    Raises IndexMismatch for another version, LocalragError.
    """
    connection.execute("BEGIN")  # one state, even if another process creates it
    try:
        objects, version = schema_objects(connection), schema_version(connection)
    finally:
        connection.rollback()
    if not objects or (version == SCHEMA_VERSION and schema_hash(objects) == SCHEMA_HASH):
        return
    if version > SCHEMA_VERSION:
        raise IndexMismatch(f"The index {path} was made by a newer localrag (schema {version}).", upgrade_hint())
    if version == 0:
        raise LocalragError(f"{path} is not a usable index: another program made it.", "Move it elsewhere and index again.")
    if version < SCHEMA_VERSION:
        folder = shlex.quote(str(path.parent))
        raise IndexMismatch(
            f"The index {path} was made by an older localrag (schema {version}), and this one does not read it: a new index has none of its"
            " conversations, review decisions, merges and collections.",
            f"Build it anew: mv {folder} {folder}.old && localrag index PATH",
        )
    differing = sorted({" ".join(key) for key, _ in objects.items() ^ current_schema().items()})
    if differing:  # SQLite itself writes parts of the schema, in another release perhaps differently
        raise LocalragError(
            f"The index {path} is not read, since its schema is not localrag's own: {', '.join(differing[:3])}.",
            "Keep only the rows of its tables, and a copy of what it was: localrag check --repair",
        )


def schema_version(connection: sqlite3.Connection) -> int:
    """The version of a database's schema; 0 for an empty database and one of another program."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def current_schema() -> SchemaObjects:
    """The objects that `create_schema` creates."""
    with closing(sqlite3.connect(":memory:")) as connection:
        create_schema(Database(connection))
        return schema_objects(connection)


def keep_checksums(connection: sqlite3.Connection) -> None:
    """Let a connection maintain the checksums of all tables that it writes to."""
    connection.create_function("row_checksum", -1, _row_checksum, deterministic=True)
    connection.execute("PRAGMA recursive_triggers = ON")  # so that REPLACE fires the delete triggers
    connection.execute("BEGIN")
    for table in CONTENT_TABLES:
        new, old = (f"row_checksum({_columns(connection, table, row)})" for row in ("new.", "old."))
        for event, change in (("INSERT", f"+ {new}"), ("UPDATE", f"+ {new} - {old}"), ("DELETE", f"- {old}")):
            update = f"UPDATE table_checksums SET checksum = checksum {change} WHERE table_name = '{table}'"
            connection.execute(f"CREATE TEMP TRIGGER {table}_checksum_{event} AFTER {event} ON main.{table} BEGIN {update}; END")
    connection.execute("COMMIT")


def recompute_checksums(db: Database, tables: Iterable[str] = CONTENT_TABLES) -> None:
    """Set the checksums of tables to those of their current rows."""
    with db.atomic():
        rows = [(table, table_checksum(db.conn, table)) for table in tables]
        db.conn.executemany("INSERT OR REPLACE INTO table_checksums VALUES (?, ?)", rows)


def changed_tables(db: Database) -> list[str]:
    """The tables whose rows do not match their checksum, including unreadable ones."""
    stored = dict(db.execute("SELECT table_name, checksum FROM table_checksums"))
    return [table for table in CONTENT_TABLES if stored.get(table) != _checksum_if_readable(db.conn, table)]


# Columns with JSON, which may also be empty: arrays and objects.
_ARRAYS = frozenset({"metadata", "parts", "headings", "descriptions", "findings"})
_OBJECTS = frozenset({"form_counts", "type_counts", "answer_json", "engine_metrics", "progress", "result"})
_OBJECT_SETTINGS = "'settings', 'chat_model', 'embedder'"


def tables_with_other_types(connection: sqlite3.Connection) -> list[str]:
    """The tables with values of another type than localrag writes into a column, or with other JSON."""
    found = []
    for table in CONTENT_TABLES:
        wrong = ["false"]
        for _, name, kind, *_ in connection.execute(f"PRAGMA main.table_info({table})"):
            wrong.append(f"typeof({name}) NOT IN ('{kind.lower()}', 'null')")
            if name in _ARRAYS | _OBJECTS:
                other = f"json_type({name}) <> '{'array' if name in _ARRAYS else 'object'}'"
                wrong.append(f"CASE WHEN json_valid({name}) THEN {other} ELSE {name} <> '' END")
        if table == "index_settings":
            wrong.append(f"CASE WHEN json_valid(value) THEN key IN ({_OBJECT_SETTINGS}) AND json_type(value) <> 'object' ELSE true END")
        if connection.execute(f"SELECT EXISTS (SELECT 1 FROM main.{table} WHERE {' OR '.join(wrong)})").fetchone()[0]:
            found.append(table)
    return found


def _checksum_if_readable(connection: sqlite3.Connection, table: str) -> int | None:
    try:
        return table_checksum(connection, table)
    except (sqlite3.DatabaseError, UnicodeDecodeError):
        return -1


def table_checksum(connection: sqlite3.Connection, table: str) -> int:
    """The sum of the checksums of a table's rows. Raises sqlite3.DatabaseError if a row cannot be read."""
    connection.create_function("row_checksum", -1, _row_checksum, deterministic=True)
    columns = _columns(connection, table)
    (checksum,) = connection.execute(f"SELECT coalesce(sum(row_checksum({columns})), 0) FROM main.{table}").fetchone()
    return int(checksum)


def _row_checksum(*row: Any) -> int:
    return crc32(dumps(row, 2))  # marshal version 2: later ones depend on string identity


def _columns(connection: sqlite3.Connection, table: str, prefix: str = "") -> str:
    return ", ".join(f'{prefix}"{row[1]}"' for row in connection.execute(f"PRAGMA main.table_info({table})"))
