"""The tables that migrations of an index's tables add or replace, in SQL."""

MERGING = """
ALTER TABLE mentions ADD COLUMN telling REAL NOT NULL DEFAULT 0;
DROP TABLE merges;
CREATE TABLE merges (
    name_key TEXT NOT NULL, key TEXT NOT NULL, done INTEGER NOT NULL, reason TEXT NOT NULL, score REAL NOT NULL,
    PRIMARY KEY (name_key, key, done)) WITHOUT ROWID;
CREATE TABLE graph_chunks (chunk_id TEXT PRIMARY KEY, document_id TEXT NOT NULL, made_from TEXT NOT NULL) WITHOUT ROWID;
CREATE INDEX graph_chunks_by_document ON graph_chunks(document_id);
CREATE TABLE names (
    document_id TEXT NOT NULL, key TEXT NOT NULL, texts TEXT NOT NULL, types TEXT NOT NULL, descriptions TEXT NOT NULL,
    text TEXT NOT NULL, type TEXT NOT NULL, count INTEGER NOT NULL, target TEXT, reason TEXT, score REAL, base TEXT NOT NULL,
    entity TEXT NOT NULL, PRIMARY KEY (document_id, key)) WITHOUT ROWID;
CREATE INDEX names_by_key ON names(key);
CREATE INDEX names_by_base ON names(base, type);
CREATE TABLE name_keys (
    key TEXT PRIMARY KEY, text TEXT NOT NULL, type TEXT NOT NULL, count INTEGER NOT NULL, target TEXT, reason TEXT, score REAL)
    WITHOUT ROWID;
CREATE INDEX name_keys_by_target ON name_keys(target);
CREATE INDEX name_keys_by_block ON name_keys(type, substr(key, 1, 2), count);
CREATE TABLE name_offers (value TEXT NOT NULL, key TEXT NOT NULL, PRIMARY KEY (value, key)) WITHOUT ROWID;
CREATE TABLE name_asks (value TEXT NOT NULL, key TEXT NOT NULL, PRIMARY KEY (value, key)) WITHOUT ROWID;
CREATE TABLE homonyms (base TEXT PRIMARY KEY, person INTEGER NOT NULL, entity TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE nodes (
    id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, base TEXT NOT NULL, sentences INTEGER NOT NULL, strongest INTEGER NOT NULL);
CREATE TABLE pairs (
    a INTEGER NOT NULL, b INTEGER NOT NULL, relationship_id TEXT NOT NULL, shared INTEGER NOT NULL, chunks INTEGER NOT NULL,
    statements INTEGER NOT NULL, strength INTEGER NOT NULL, read INTEGER NOT NULL, weight REAL, kept INTEGER NOT NULL,
    PRIMARY KEY (a, b)) WITHOUT ROWID;
CREATE INDEX pairs_by_a ON pairs(a, weight);
CREATE INDEX pairs_by_b ON pairs(b, weight);
CREATE INDEX pairs_by_weight ON pairs(weight);
CREATE TABLE document_nodes (
    document_id TEXT NOT NULL, node INTEGER NOT NULL, sentences INTEGER NOT NULL, PRIMARY KEY (document_id, node)) WITHOUT ROWID;
CREATE TABLE document_pairs (
    document_id TEXT NOT NULL, a INTEGER NOT NULL, b INTEGER NOT NULL, shared INTEGER NOT NULL, chunks INTEGER NOT NULL,
    statements INTEGER NOT NULL, strength INTEGER NOT NULL, read INTEGER NOT NULL, descriptions TEXT NOT NULL,
    PRIMARY KEY (document_id, a, b)) WITHOUT ROWID;
CREATE INDEX document_pairs_described ON document_pairs(a, b) WHERE descriptions <> '';
CREATE TABLE statements (
    chunk_id TEXT NOT NULL, a INTEGER NOT NULL, b INTEGER NOT NULL, start INTEGER NOT NULL, end INTEGER NOT NULL,
    PRIMARY KEY (chunk_id, a, b, start, end)) WITHOUT ROWID;
CREATE INDEX statements_by_pair ON statements(a, b);
CREATE TABLE weight_counts (bucket REAL PRIMARY KEY, n INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE alike (
    block TEXT NOT NULL, a TEXT NOT NULL, b TEXT NOT NULL, score REAL NOT NULL, PRIMARY KEY (block, a, b)) WITHOUT ROWID;
CREATE INDEX alike_by_score ON alike(score);
CREATE TABLE name_vectors (name TEXT PRIMARY KEY, embedder TEXT NOT NULL, vector BLOB NOT NULL) WITHOUT ROWID
"""

MOVING = """
CREATE INDEX communities_by_parent ON communities(parent_id);
CREATE TABLE community_weights (community_id TEXT PRIMARY KEY, strength REAL NOT NULL, inside REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE attached (entity_id TEXT PRIMARY KEY, to_id TEXT NOT NULL) WITHOUT ROWID;
CREATE INDEX attached_to ON attached(to_id);
CREATE TABLE title_words (word INTEGER PRIMARY KEY, sentences INTEGER NOT NULL);
CREATE TABLE quoted (
    document_id TEXT NOT NULL, community_id TEXT NOT NULL REFERENCES reports(community_id) ON DELETE CASCADE,
    PRIMARY KEY (document_id, community_id));
CREATE INDEX quoted_by_community ON quoted(community_id);
INSERT OR IGNORE INTO quoted SELECT c.document_id, r.community_id FROM reports r, json_each(r.findings) f,
    json_each(f.value, '$.quotes') q JOIN chunks c ON c.id = json_extract(q.value, '$.chunk_id') WHERE json_valid(r.findings);
DELETE FROM settings WHERE key = 'coverage'
"""

GROWTH = """
ALTER TABLE llm_calls ADD COLUMN recipe TEXT NOT NULL DEFAULT '';
ALTER TABLE llm_calls ADD COLUMN unused_since TEXT;
CREATE INDEX llm_calls_unused ON llm_calls(unused_since) WHERE unused_since IS NOT NULL;
CREATE TABLE also_about (key TEXT NOT NULL, about TEXT NOT NULL, PRIMARY KEY (key, about)) WITHOUT ROWID;
CREATE INDEX also_about_by_text ON also_about(about);
CREATE TABLE leaving (kind TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (kind, value)) WITHOUT ROWID
"""

TRIGGERS = """CREATE TRIGGER embedding_added AFTER INSERT ON embeddings BEGIN
    INSERT OR REPLACE INTO vector_states VALUES (new.kind, hex(randomblob(8)));
END;

CREATE TRIGGER embedding_removed AFTER DELETE ON embeddings BEGIN
    INSERT OR REPLACE INTO vector_states VALUES (old.kind, hex(randomblob(8)));
END;"""

NUMBERS = f"""
CREATE TABLE numbered (
    number INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, subject_id TEXT NOT NULL, content_hash TEXT NOT NULL,
    embedder TEXT NOT NULL, vector BLOB NOT NULL, UNIQUE (kind, subject_id));

INSERT INTO numbered (kind, subject_id, content_hash, embedder, vector)
    SELECT kind, subject_id, content_hash, embedder, vector FROM embeddings ORDER BY rowid;

DROP TABLE embeddings;

ALTER TABLE numbered RENAME TO embeddings;

CREATE INDEX embeddings_by_content ON embeddings(kind, content_hash);

CREATE INDEX embeddings_by_embedder ON embeddings(kind, embedder, subject_id);

CREATE INDEX embeddings_by_kind ON embeddings(kind);

{TRIGGERS}

CREATE TABLE vector_files (
    kind TEXT PRIMARY KEY, file TEXT NOT NULL, last INTEGER NOT NULL, vectors INTEGER NOT NULL, size INTEGER NOT NULL)
"""

_NOTED = "INSERT OR IGNORE INTO changed_chunks VALUES"
# Chunks that were stored, deleted or extracted since the published graph was made: what it is made from is compared for their documents.
CHANGED_CHUNKS = (
    "CREATE TABLE changed_chunks (chunk_id TEXT PRIMARY KEY) WITHOUT ROWID",
    f"CREATE TRIGGER extraction_added AFTER INSERT ON extractions BEGIN {_NOTED} (new.chunk_id); END",
    f"CREATE TRIGGER extraction_changed AFTER UPDATE ON extractions BEGIN {_NOTED} (old.chunk_id), (new.chunk_id); END",
    f"CREATE TRIGGER extraction_removed AFTER DELETE ON extractions BEGIN {_NOTED} (old.chunk_id); END",
    "CREATE TRIGGER chunk_added AFTER INSERT ON chunks WHEN EXISTS (SELECT 1 FROM extractions WHERE chunk_id = new.id)"
    f" BEGIN {_NOTED} (new.id); END",  # one that nothing was extracted from is noted when something is
    "CREATE TRIGGER chunk_changed AFTER UPDATE ON chunks WHEN (old.id, old.document_id) <> (new.id, new.document_id)"
    f" BEGIN {_NOTED} (old.id), (new.id); END",
    "CREATE TRIGGER chunk_removed AFTER DELETE ON chunks WHEN EXISTS (SELECT 1 FROM graph_chunks WHERE chunk_id = old.id)"
    f" BEGIN {_NOTED} (old.id); END",
)

# Documents that have another title than the network of entities and chunks was made with.
RETITLED = (
    "CREATE TABLE retitled (document_id TEXT PRIMARY KEY) WITHOUT ROWID",
    "CREATE TRIGGER title_changed AFTER UPDATE OF title ON documents WHEN old.title <> new.title"
    " BEGIN INSERT OR IGNORE INTO retitled VALUES (new.id); END",
)

# Of an extraction, as the index on it and the query that uses it have it; one that cannot be read has none.
NOISE = "CASE WHEN json_valid(result) THEN json_extract(result, '$.noise') END"
