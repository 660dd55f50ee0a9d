"""The tables of `index.db`, made and changed by numbered migrations, each in one transaction."""

import json

from sqlite_utils import Database
from sqlite_utils.migrations import Migrations

from localrag.store.statements import CHANGED_CHUNKS, GROWTH, MERGING, MOVING, NOISE, NUMBERS, RETITLED, TRIGGERS
from localrag.text.dates import metadata_day

migrations = Migrations("localrag")


@migrations()
def m001_initial(db: Database) -> None:
    """Documents to answers."""
    for statement in _INITIAL.strip().split(";\n"):
        db.execute(statement)


@migrations()
def m002_engine_figures(db: Database) -> None:
    """Runs say what their engine did; the tokens of answers are plain numbers."""
    db.execute("ALTER TABLE runs ADD COLUMN figures TEXT NOT NULL DEFAULT '{}'")
    db.execute(
        "UPDATE llm_calls SET tokens = (SELECT json_group_array(json_extract(t.value, '$[0]')) FROM json_each(llm_calls.tokens) AS t)"
    )


@migrations()
def m003_claims_and_merges(db: Database) -> None:
    """What was said of entities, and which names were made one."""
    for statement in _CLAIMS_AND_MERGES.strip().split(";\n"):
        db.execute(statement)


@migrations()
def m004_questions(db: Database) -> None:
    """Names found whatever their case; which vectors there are; answers belong to conversations."""
    for statement in _QUESTIONS.strip().split(";\n\n"):
        db.execute(statement)


@migrations()
def m005_documents_parts(db: Database) -> None:
    """Documents have metadata and named parts; of files left out it is known whether they should have been readable."""
    db.execute("ALTER TABLE documents ADD COLUMN metadata TEXT NOT NULL DEFAULT '[]'")
    db.execute("ALTER TABLE documents ADD COLUMN parts TEXT NOT NULL DEFAULT '[]'")
    db.execute("ALTER TABLE skipped ADD COLUMN failed INTEGER NOT NULL DEFAULT 0")


@migrations()
def m006_answers_about_documents(db: Database) -> None:
    """Model answers say which document they are about, failures of what kind they are; vectors are found by the content they are of."""
    db.execute("ALTER TABLE failures ADD COLUMN kind TEXT NOT NULL DEFAULT ''")
    db.execute("ALTER TABLE llm_calls ADD COLUMN path TEXT NOT NULL DEFAULT ''")
    db.execute("CREATE INDEX llm_calls_by_path ON llm_calls(path)")
    db.execute("CREATE INDEX embeddings_by_content ON embeddings(kind, content_hash)")


@migrations()
def m007_skipped_files_content(db: Database) -> None:
    """Files left out are known by their content, so that they are not read again."""
    db.execute("ALTER TABLE skipped ADD COLUMN content_hash TEXT NOT NULL DEFAULT ''")


@migrations()
def m008_sentences(db: Database) -> None:
    """Where the sentences of chunks are."""
    db.execute(
        "CREATE TABLE sentences (chunk_id TEXT PRIMARY KEY REFERENCES chunks(id) ON DELETE CASCADE,"
        " splitter INTEGER NOT NULL, bounds BLOB NOT NULL)"
    )


@migrations()
def m009_rows_of_full_text(db: Database) -> None:
    """Which row of the full-text index is a chunk's: without it a document is taken out by a look at every row."""
    db.execute("CREATE TABLE chunk_rows (row INTEGER PRIMARY KEY, chunk_id TEXT NOT NULL UNIQUE REFERENCES chunks(id) ON DELETE CASCADE)")
    db.execute("INSERT OR IGNORE INTO chunk_rows SELECT rowid, chunk_id FROM chunk_search WHERE chunk_id IN (SELECT id FROM chunks)")


@migrations()
def m010_answers_about_chunks(db: Database) -> None:
    """Model answers say which chunk's text they are about, whatever path it had; what left the index is remembered until an erasure."""
    db.execute("DROP INDEX llm_calls_by_path")
    db.execute("ALTER TABLE llm_calls RENAME COLUMN path TO about")
    db.execute("CREATE TABLE departed (path TEXT PRIMARY KEY, edited INTEGER NOT NULL)")
    db.execute("CREATE TABLE departed_words (word INTEGER PRIMARY KEY, edited INTEGER NOT NULL)")


@migrations()
def m011_generations(db: Database) -> None:
    """What a run makes waits in tables of its own (`generations.py`); extractions and sentences may be of chunks that wait."""
    for statement in _GENERATIONS.strip().split(";\n"):
        db.execute(statement)


@migrations()
def m012_places(db: Database) -> None:
    """The picture of the graph: places of entities and communities, and links between communities."""
    for statement in _PLACES.strip().split(";\n"):
        db.execute(statement)


@migrations()
def m014_collections(db: Database) -> None:
    """Documents have a date, and belong to collections, by their paths."""
    db.execute("CREATE TABLE collections (name TEXT NOT NULL, path TEXT NOT NULL, PRIMARY KEY (name, path))")
    db.execute("CREATE INDEX collections_by_path ON collections(path)")
    db.execute("CREATE INDEX chunks_in_document ON chunks(document_id, id)")  # the chunks of many documents, without reading their texts
    for table in ("documents", "next_documents"):
        db.execute(f"ALTER TABLE {table} ADD COLUMN date TEXT NOT NULL DEFAULT ''")
        db.execute(f"ALTER TABLE {table} ADD COLUMN dated_by TEXT NOT NULL DEFAULT ''")
        for key, metadata, added in db.execute(f"SELECT id, metadata, added_at FROM {table}").fetchall():
            day = metadata_day((name, value) for name, value in json.loads(metadata))
            db.execute(
                f"UPDATE {table} SET date = ?, dated_by = ? WHERE id = ?", [day or added[:10], "metadata" if day else "indexed", key]
            )


@migrations()
def m015_structural_vectors(db: Database) -> None:
    """What the graph's structure says of each entity, as a vector."""
    db.execute(
        "CREATE TABLE structural_vectors (entity_id TEXT PRIMARY KEY REFERENCES entities(id) ON DELETE CASCADE, vector BLOB NOT NULL)"
    )


@migrations()
def m016_scans(db: Database) -> None:
    """The words of scanned pages with their places; which pages are those of which documents."""
    for statement in _SCANS.strip().split(";\n"):
        db.execute(statement)


@migrations()
def m018_facts_of_runs(db: Database) -> None:
    """Runs say all that is known of how far they are, and when they last said it."""
    db.execute("ALTER TABLE runs ADD COLUMN facts TEXT NOT NULL DEFAULT '{}'")
    db.execute("ALTER TABLE runs ADD COLUMN seen_at REAL NOT NULL DEFAULT 0")


@migrations()
def m019_answers_found_by_text(db: Database) -> None:
    """The answers about a text are found by it: they go along where somebody else is to read it."""
    db.execute("CREATE INDEX llm_calls_by_about ON llm_calls(about)")


@migrations()
def m020_classes_of_arithmetic(db: Database) -> None:
    """Answers say what computed them, where machines that compute differently worked together; empty elsewhere."""
    db.execute("ALTER TABLE llm_calls ADD COLUMN arithmetic TEXT NOT NULL DEFAULT ''")


@migrations()
def m021_files_as_seen(db: Database) -> None:
    """What the system said of files when they were read; documents that moved keep their ids, so it is kept what these were made of."""
    db.execute(
        "CREATE TABLE seen (path TEXT PRIMARY KEY, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, inode INTEGER NOT NULL,"
        " digest TEXT NOT NULL) WITHOUT ROWID"
    )
    for table in ("documents", "next_documents"):
        db.execute(f"ALTER TABLE {table} ADD COLUMN titled_by TEXT NOT NULL DEFAULT ''")
        db.execute(f"ALTER TABLE {table} ADD COLUMN first_path TEXT NOT NULL DEFAULT ''")
        db.execute(f"CREATE INDEX {table}_by_content ON {table}(path, content_hash)")  # both without a look at the texts
    db.execute("CREATE INDEX embeddings_by_embedder ON embeddings(kind, embedder, subject_id)")  # likewise without one at the vectors


@migrations()
def m022_what_the_graph_is_made_of(db: Database) -> None:
    """What each document gives to the graph, so that an edit costs what it changes."""
    for statement in MERGING.strip().split(";\n"):
        db.execute(statement)


@migrations()
def m023_communities_move(db: Database) -> None:
    """What communities weigh, and which entity one without relationships goes with, so that a change moves only what it reaches."""
    for statement in MOVING.strip().split(";\n"):
        db.execute(statement)


@migrations()
def m024_what_is_collected(db: Database) -> None:
    """Answers say what asks for them, and since when nothing does; what left the documents is known until it is collected."""
    for statement in GROWTH.strip().split(";\n"):
        db.execute(statement)


@migrations()
def m025_numbers_of_vectors(db: Database) -> None:
    """Each vector has a number, which is never given again: what index files know it by; which index files there are."""
    for statement in NUMBERS.strip().split(";\n\n"):
        db.execute(statement)


@migrations()
def m026_other_names_by_entity(db: Database) -> None:
    """The other names of one entity are found without a look at all."""
    db.execute("CREATE INDEX aliases_by_entity ON entity_aliases(entity_id)")


@migrations()
def m027_indexes_for_edits(db: Database) -> None:
    """The reports that another program wrote, and the most connected entities of a type, are found without a scan."""
    db.execute("CREATE INDEX entities_by_degree ON entities(type, degree)")
    db.execute("CREATE INDEX reports_imported ON reports(community_id) WHERE substr(input_hash, 1, 9) = 'imported '")


@migrations()
def m028_words_that_are_no_names(db: Database) -> None:
    """How many there are is summed up without reading what was extracted."""
    db.execute(f"CREATE INDEX extractions_by_noise ON extractions({NOISE}) WHERE {NOISE} > 0")


@migrations()
def m029_changed_chunks(db: Database) -> None:
    """What a graph is made from is compared where it may have changed, not everywhere."""
    for statement in CHANGED_CHUNKS:
        db.execute(statement)


@migrations()
def m030_retitled_documents(db: Database) -> None:
    """The network that questions walk over follows the titles of documents, also where no graph is published."""
    for statement in RETITLED:
        db.execute(statement)


_SCANS = """
CREATE TABLE scanned_pages (
    scan TEXT NOT NULL, page INTEGER NOT NULL, looks TEXT NOT NULL, words BLOB NOT NULL, PRIMARY KEY (scan, page));
CREATE INDEX scanned_pages_by_looks ON scanned_pages(looks);
CREATE TABLE scans (content_hash TEXT PRIMARY KEY, scan TEXT NOT NULL, languages TEXT NOT NULL)
"""

_PLACES = """
CREATE TABLE places (
    entity_id TEXT PRIMARY KEY REFERENCES entities(id) ON DELETE CASCADE, x REAL NOT NULL, y REAL NOT NULL, r REAL NOT NULL);
CREATE TABLE community_places (
    community_id TEXT PRIMARY KEY REFERENCES communities(id) ON DELETE CASCADE, x REAL NOT NULL, y REAL NOT NULL, r REAL NOT NULL);
CREATE TABLE community_links (
    level INTEGER NOT NULL, a TEXT NOT NULL REFERENCES communities(id) ON DELETE CASCADE,
    b TEXT NOT NULL REFERENCES communities(id) ON DELETE CASCADE, weight REAL NOT NULL, PRIMARY KEY (a, b));
CREATE INDEX community_links_by_b ON community_links(b)
"""

_GENERATIONS = """
CREATE TABLE next_documents (
    id TEXT PRIMARY KEY, path TEXT NOT NULL UNIQUE, title TEXT NOT NULL, text TEXT NOT NULL, content_hash TEXT NOT NULL,
    added_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP, metadata TEXT NOT NULL DEFAULT '[]', parts TEXT NOT NULL DEFAULT '[]');
CREATE TABLE next_chunks (
    id TEXT PRIMARY KEY, document_id TEXT NOT NULL REFERENCES next_documents(id) ON DELETE CASCADE, ordinal INTEGER NOT NULL,
    start INTEGER NOT NULL, end INTEGER NOT NULL, text TEXT NOT NULL, tokens INTEGER NOT NULL);
CREATE INDEX next_chunks_by_document ON next_chunks(document_id, ordinal);
CREATE TABLE next_gone (path TEXT PRIMARY KEY);
CREATE TABLE next_reports (
    community_id TEXT PRIMARY KEY, input_hash TEXT NOT NULL, title TEXT NOT NULL, summary TEXT NOT NULL, rating REAL NOT NULL,
    rating_explanation TEXT NOT NULL, findings TEXT NOT NULL, markdown TEXT NOT NULL);
CREATE TABLE next_embeddings (
    kind TEXT NOT NULL, subject_id TEXT NOT NULL, content_hash TEXT NOT NULL, embedder TEXT NOT NULL, vector BLOB NOT NULL,
    PRIMARY KEY (kind, subject_id));
CREATE INDEX next_embeddings_by_content ON next_embeddings(kind, content_hash);
CREATE TABLE extractions_of_any (chunk_id TEXT NOT NULL, recipe TEXT NOT NULL, result TEXT NOT NULL, PRIMARY KEY (chunk_id, recipe));
INSERT INTO extractions_of_any SELECT chunk_id, recipe, result FROM extractions;
DROP TABLE extractions;
ALTER TABLE extractions_of_any RENAME TO extractions;
CREATE TABLE sentences_of_any (chunk_id TEXT PRIMARY KEY, splitter INTEGER NOT NULL, bounds BLOB NOT NULL);
INSERT INTO sentences_of_any SELECT chunk_id, splitter, bounds FROM sentences;
DROP TABLE sentences;
ALTER TABLE sentences_of_any RENAME TO sentences;
CREATE INDEX IF NOT EXISTS claims_by_chunk ON claims(chunk_id);
CREATE INDEX IF NOT EXISTS claims_by_object ON claims(object_id)
"""

_QUESTIONS = f"""
CREATE VIRTUAL TABLE chunk_terms USING fts5vocab(chunk_search, row);

CREATE INDEX aliases_in_any_case ON entity_aliases(alias COLLATE NOCASE);

CREATE TABLE vector_states (kind TEXT PRIMARY KEY, state TEXT NOT NULL);

INSERT INTO vector_states SELECT kind, hex(randomblob(8)) FROM embeddings GROUP BY kind;

{TRIGGERS}

ALTER TABLE answers ADD COLUMN conversation INTEGER NOT NULL DEFAULT 0
"""

_CLAIMS_AND_MERGES = """
CREATE TABLE claims (
    id TEXT PRIMARY KEY, chunk_id TEXT NOT NULL REFERENCES chunks(id) ON DELETE CASCADE,
    subject_id TEXT NOT NULL REFERENCES entities(id) ON DELETE CASCADE,
    object_id TEXT REFERENCES entities(id) ON DELETE CASCADE, type TEXT NOT NULL, status TEXT NOT NULL,
    since TEXT NOT NULL, until TEXT NOT NULL, description TEXT NOT NULL, start INTEGER NOT NULL, end INTEGER NOT NULL);
CREATE INDEX claims_by_subject ON claims(subject_id);
CREATE TABLE merges (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL, key TEXT NOT NULL, into_name TEXT NOT NULL, reason TEXT NOT NULL, score REAL NOT NULL,
    done INTEGER NOT NULL)
"""

_INITIAL = """
CREATE TABLE settings (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE documents (
    id TEXT PRIMARY KEY, path TEXT NOT NULL UNIQUE, title TEXT NOT NULL, text TEXT NOT NULL, content_hash TEXT NOT NULL,
    added_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP);
CREATE TABLE skipped (path TEXT PRIMARY KEY, reason TEXT NOT NULL);
CREATE TABLE chunks (
    id TEXT PRIMARY KEY, document_id TEXT NOT NULL REFERENCES documents(id) ON DELETE CASCADE, ordinal INTEGER NOT NULL,
    start INTEGER NOT NULL, end INTEGER NOT NULL, text TEXT NOT NULL, tokens INTEGER NOT NULL);
CREATE INDEX chunks_by_document ON chunks(document_id, ordinal);
CREATE VIRTUAL TABLE chunk_search USING fts5(chunk_id UNINDEXED, text, cjk, tokenize = 'porter unicode61 remove_diacritics 2');
CREATE TABLE llm_calls (
    key TEXT PRIMARY KEY, task TEXT NOT NULL, model TEXT NOT NULL, prompt_hash TEXT NOT NULL, grammar TEXT NOT NULL,
    sampling TEXT NOT NULL, text TEXT NOT NULL, tokens TEXT NOT NULL, prompt_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL, seconds REAL NOT NULL, created_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP);
CREATE TABLE extractions (
    chunk_id TEXT NOT NULL REFERENCES chunks(id) ON DELETE CASCADE, recipe TEXT NOT NULL, result TEXT NOT NULL,
    PRIMARY KEY (chunk_id, recipe));
CREATE TABLE entities (
    id TEXT PRIMARY KEY, name TEXT NOT NULL, type TEXT NOT NULL, description TEXT NOT NULL, degree INTEGER NOT NULL,
    descriptions TEXT NOT NULL);
CREATE TABLE entity_aliases (
    alias TEXT NOT NULL, entity_id TEXT NOT NULL REFERENCES entities(id) ON DELETE CASCADE, PRIMARY KEY (alias, entity_id));
CREATE TABLE mentions (
    entity_id TEXT NOT NULL REFERENCES entities(id) ON DELETE CASCADE,
    chunk_id TEXT NOT NULL REFERENCES chunks(id) ON DELETE CASCADE,
    name TEXT NOT NULL, start INTEGER NOT NULL, end INTEGER NOT NULL, PRIMARY KEY (entity_id, chunk_id, start, end));
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
CREATE TABLE communities (
    id TEXT PRIMARY KEY, level INTEGER NOT NULL, ordinal INTEGER NOT NULL, parent_id TEXT, UNIQUE (level, ordinal));
CREATE TABLE members (
    community_id TEXT NOT NULL REFERENCES communities(id) ON DELETE CASCADE,
    entity_id TEXT NOT NULL REFERENCES entities(id) ON DELETE CASCADE, PRIMARY KEY (community_id, entity_id));
CREATE INDEX members_by_entity ON members(entity_id);
CREATE TABLE reports (
    community_id TEXT PRIMARY KEY REFERENCES communities(id) ON DELETE CASCADE, input_hash TEXT NOT NULL, title TEXT NOT NULL,
    summary TEXT NOT NULL, rating REAL NOT NULL, rating_explanation TEXT NOT NULL, findings TEXT NOT NULL, markdown TEXT NOT NULL);
CREATE TABLE embeddings (
    kind TEXT NOT NULL, subject_id TEXT NOT NULL, content_hash TEXT NOT NULL, embedder TEXT NOT NULL, vector BLOB NOT NULL,
    PRIMARY KEY (kind, subject_id));
CREATE TABLE failures (
    stage TEXT NOT NULL, subject TEXT NOT NULL, reason TEXT NOT NULL, at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP,
    PRIMARY KEY (stage, subject));
CREATE TABLE answers (
    id INTEGER PRIMARY KEY, question TEXT NOT NULL, mode TEXT NOT NULL, result TEXT NOT NULL,
    at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP);
CREATE TABLE runs (
    id INTEGER PRIMARY KEY, pid INTEGER NOT NULL, started_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP, ended_at TEXT,
    state TEXT NOT NULL, stage TEXT NOT NULL DEFAULT '', done INTEGER NOT NULL DEFAULT 0, total INTEGER NOT NULL DEFAULT 0)
"""
