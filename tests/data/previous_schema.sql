-- An index that the version with the previous schema made of one document and asked once; without the paths of its models.
CREATE TABLE "_sqlite_migrations" (
   "id" INTEGER PRIMARY KEY,
   "migration_set" TEXT,
   "name" TEXT,
   "applied_at" TEXT
);
CREATE TABLE settings (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE documents (
    id TEXT PRIMARY KEY, path TEXT NOT NULL UNIQUE, title TEXT NOT NULL, text TEXT NOT NULL, content_hash TEXT NOT NULL,
    added_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP, metadata TEXT NOT NULL DEFAULT '[]', parts TEXT NOT NULL DEFAULT '[]', date TEXT NOT NULL DEFAULT '', dated_by TEXT NOT NULL DEFAULT '', titled_by TEXT NOT NULL DEFAULT '', first_path TEXT NOT NULL DEFAULT '');
CREATE TABLE skipped (path TEXT PRIMARY KEY, reason TEXT NOT NULL, failed INTEGER NOT NULL DEFAULT 0, content_hash TEXT NOT NULL DEFAULT '');
CREATE TABLE chunks (
    id TEXT PRIMARY KEY, document_id TEXT NOT NULL REFERENCES documents(id) ON DELETE CASCADE, ordinal INTEGER NOT NULL,
    start INTEGER NOT NULL, end INTEGER NOT NULL, text TEXT NOT NULL, tokens INTEGER NOT NULL);
CREATE TABLE llm_calls (
    key TEXT PRIMARY KEY, task TEXT NOT NULL, model TEXT NOT NULL, prompt_hash TEXT NOT NULL, grammar TEXT NOT NULL,
    sampling TEXT NOT NULL, text TEXT NOT NULL, tokens TEXT NOT NULL, prompt_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL, seconds REAL NOT NULL, created_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP, about TEXT NOT NULL DEFAULT '', arithmetic TEXT NOT NULL DEFAULT '', recipe TEXT NOT NULL DEFAULT '', unused_since TEXT);
CREATE TABLE entities (
    id TEXT PRIMARY KEY, name TEXT NOT NULL, type TEXT NOT NULL, description TEXT NOT NULL, degree INTEGER NOT NULL,
    descriptions TEXT NOT NULL);
CREATE TABLE entity_aliases (
    alias TEXT NOT NULL, entity_id TEXT NOT NULL REFERENCES entities(id) ON DELETE CASCADE, PRIMARY KEY (alias, entity_id));
CREATE TABLE mentions (
    entity_id TEXT NOT NULL REFERENCES entities(id) ON DELETE CASCADE,
    chunk_id TEXT NOT NULL REFERENCES chunks(id) ON DELETE CASCADE,
    name TEXT NOT NULL, start INTEGER NOT NULL, end INTEGER NOT NULL, telling REAL NOT NULL DEFAULT 0, PRIMARY KEY (entity_id, chunk_id, start, end));
CREATE TABLE relationships (
    id TEXT PRIMARY KEY, source_id TEXT NOT NULL REFERENCES entities(id) ON DELETE CASCADE,
    target_id TEXT NOT NULL REFERENCES entities(id) ON DELETE CASCADE, description TEXT NOT NULL, weight REAL NOT NULL,
    strength REAL NOT NULL, descriptions TEXT NOT NULL);
CREATE TABLE evidence (
    relationship_id TEXT NOT NULL REFERENCES relationships(id) ON DELETE CASCADE,
    chunk_id TEXT NOT NULL REFERENCES chunks(id) ON DELETE CASCADE, start INTEGER NOT NULL, end INTEGER NOT NULL,
    PRIMARY KEY (relationship_id, chunk_id, start, end));
CREATE TABLE communities (
    id TEXT PRIMARY KEY, level INTEGER NOT NULL, ordinal INTEGER NOT NULL, parent_id TEXT, UNIQUE (level, ordinal));
CREATE TABLE members (
    community_id TEXT NOT NULL REFERENCES communities(id) ON DELETE CASCADE,
    entity_id TEXT NOT NULL REFERENCES entities(id) ON DELETE CASCADE, PRIMARY KEY (community_id, entity_id));
CREATE TABLE reports (
    community_id TEXT PRIMARY KEY REFERENCES communities(id) ON DELETE CASCADE, input_hash TEXT NOT NULL, title TEXT NOT NULL,
    summary TEXT NOT NULL, rating REAL NOT NULL, rating_explanation TEXT NOT NULL, findings TEXT NOT NULL, markdown TEXT NOT NULL);
CREATE TABLE failures (
    stage TEXT NOT NULL, subject TEXT NOT NULL, reason TEXT NOT NULL, at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP, kind TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (stage, subject));
CREATE TABLE answers (
    id INTEGER PRIMARY KEY, question TEXT NOT NULL, mode TEXT NOT NULL, result TEXT NOT NULL,
    at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP, conversation INTEGER NOT NULL DEFAULT 0);
CREATE TABLE runs (
    id INTEGER PRIMARY KEY, pid INTEGER NOT NULL, started_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP, ended_at TEXT,
    state TEXT NOT NULL, stage TEXT NOT NULL DEFAULT '', done INTEGER NOT NULL DEFAULT 0, total INTEGER NOT NULL DEFAULT 0, figures TEXT NOT NULL DEFAULT '{}', facts TEXT NOT NULL DEFAULT '{}', seen_at REAL NOT NULL DEFAULT 0);
CREATE TABLE claims (
    id TEXT PRIMARY KEY, chunk_id TEXT NOT NULL REFERENCES chunks(id) ON DELETE CASCADE,
    subject_id TEXT NOT NULL REFERENCES entities(id) ON DELETE CASCADE,
    object_id TEXT REFERENCES entities(id) ON DELETE CASCADE, type TEXT NOT NULL, status TEXT NOT NULL,
    since TEXT NOT NULL, until TEXT NOT NULL, description TEXT NOT NULL, start INTEGER NOT NULL, end INTEGER NOT NULL);
CREATE TABLE vector_states (kind TEXT PRIMARY KEY, state TEXT NOT NULL);
CREATE TABLE chunk_rows (row INTEGER PRIMARY KEY, chunk_id TEXT NOT NULL UNIQUE REFERENCES chunks(id) ON DELETE CASCADE);
CREATE TABLE departed (path TEXT PRIMARY KEY, edited INTEGER NOT NULL);
CREATE TABLE departed_words (word INTEGER PRIMARY KEY, edited INTEGER NOT NULL);
CREATE TABLE next_documents (
    id TEXT PRIMARY KEY, path TEXT NOT NULL UNIQUE, title TEXT NOT NULL, text TEXT NOT NULL, content_hash TEXT NOT NULL,
    added_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP, metadata TEXT NOT NULL DEFAULT '[]', parts TEXT NOT NULL DEFAULT '[]', date TEXT NOT NULL DEFAULT '', dated_by TEXT NOT NULL DEFAULT '', titled_by TEXT NOT NULL DEFAULT '', first_path TEXT NOT NULL DEFAULT '');
CREATE TABLE next_chunks (
    id TEXT PRIMARY KEY, document_id TEXT NOT NULL REFERENCES next_documents(id) ON DELETE CASCADE, ordinal INTEGER NOT NULL,
    start INTEGER NOT NULL, end INTEGER NOT NULL, text TEXT NOT NULL, tokens INTEGER NOT NULL);
CREATE TABLE next_gone (path TEXT PRIMARY KEY);
CREATE TABLE next_reports (
    community_id TEXT PRIMARY KEY, input_hash TEXT NOT NULL, title TEXT NOT NULL, summary TEXT NOT NULL, rating REAL NOT NULL,
    rating_explanation TEXT NOT NULL, findings TEXT NOT NULL, markdown TEXT NOT NULL);
CREATE TABLE next_embeddings (
    kind TEXT NOT NULL, subject_id TEXT NOT NULL, content_hash TEXT NOT NULL, embedder TEXT NOT NULL, vector BLOB NOT NULL,
    PRIMARY KEY (kind, subject_id));
CREATE TABLE "extractions" (chunk_id TEXT NOT NULL, recipe TEXT NOT NULL, result TEXT NOT NULL, PRIMARY KEY (chunk_id, recipe));
CREATE TABLE "sentences" (chunk_id TEXT PRIMARY KEY, splitter INTEGER NOT NULL, bounds BLOB NOT NULL);
CREATE TABLE places (
    entity_id TEXT PRIMARY KEY REFERENCES entities(id) ON DELETE CASCADE, x REAL NOT NULL, y REAL NOT NULL, r REAL NOT NULL);
CREATE TABLE community_places (
    community_id TEXT PRIMARY KEY REFERENCES communities(id) ON DELETE CASCADE, x REAL NOT NULL, y REAL NOT NULL, r REAL NOT NULL);
CREATE TABLE community_links (
    level INTEGER NOT NULL, a TEXT NOT NULL REFERENCES communities(id) ON DELETE CASCADE,
    b TEXT NOT NULL REFERENCES communities(id) ON DELETE CASCADE, weight REAL NOT NULL, PRIMARY KEY (a, b));
CREATE TABLE collections (name TEXT NOT NULL, path TEXT NOT NULL, PRIMARY KEY (name, path));
CREATE TABLE structural_vectors (entity_id TEXT PRIMARY KEY REFERENCES entities(id) ON DELETE CASCADE, vector BLOB NOT NULL);
CREATE TABLE scanned_pages (
    scan TEXT NOT NULL, page INTEGER NOT NULL, looks TEXT NOT NULL, words BLOB NOT NULL, PRIMARY KEY (scan, page));
CREATE TABLE scans (content_hash TEXT PRIMARY KEY, scan TEXT NOT NULL, languages TEXT NOT NULL);
CREATE TABLE seen (path TEXT PRIMARY KEY, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, inode INTEGER NOT NULL, digest TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE merges (
    name_key TEXT NOT NULL, key TEXT NOT NULL, done INTEGER NOT NULL, reason TEXT NOT NULL, score REAL NOT NULL,
    PRIMARY KEY (name_key, key, done)) WITHOUT ROWID;
CREATE TABLE graph_chunks (chunk_id TEXT PRIMARY KEY, document_id TEXT NOT NULL, made_from TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE names (
    document_id TEXT NOT NULL, key TEXT NOT NULL, texts TEXT NOT NULL, types TEXT NOT NULL, descriptions TEXT NOT NULL,
    text TEXT NOT NULL, type TEXT NOT NULL, count INTEGER NOT NULL, target TEXT, reason TEXT, score REAL, base TEXT NOT NULL,
    entity TEXT NOT NULL, PRIMARY KEY (document_id, key)) WITHOUT ROWID;
CREATE TABLE name_keys (
    key TEXT PRIMARY KEY, text TEXT NOT NULL, type TEXT NOT NULL, count INTEGER NOT NULL, target TEXT, reason TEXT, score REAL)
    WITHOUT ROWID;
CREATE TABLE name_offers (value TEXT NOT NULL, key TEXT NOT NULL, PRIMARY KEY (value, key)) WITHOUT ROWID;
CREATE TABLE name_asks (value TEXT NOT NULL, key TEXT NOT NULL, PRIMARY KEY (value, key)) WITHOUT ROWID;
CREATE TABLE homonyms (base TEXT PRIMARY KEY, person INTEGER NOT NULL, entity TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE nodes (
    id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, base TEXT NOT NULL, sentences INTEGER NOT NULL, strongest INTEGER NOT NULL);
CREATE TABLE pairs (
    a INTEGER NOT NULL, b INTEGER NOT NULL, relationship_id TEXT NOT NULL, shared INTEGER NOT NULL, chunks INTEGER NOT NULL,
    statements INTEGER NOT NULL, strength INTEGER NOT NULL, read INTEGER NOT NULL, weight REAL, kept INTEGER NOT NULL,
    PRIMARY KEY (a, b)) WITHOUT ROWID;
CREATE TABLE document_nodes (
    document_id TEXT NOT NULL, node INTEGER NOT NULL, sentences INTEGER NOT NULL, PRIMARY KEY (document_id, node)) WITHOUT ROWID;
CREATE TABLE document_pairs (
    document_id TEXT NOT NULL, a INTEGER NOT NULL, b INTEGER NOT NULL, shared INTEGER NOT NULL, chunks INTEGER NOT NULL,
    statements INTEGER NOT NULL, strength INTEGER NOT NULL, read INTEGER NOT NULL, descriptions TEXT NOT NULL,
    PRIMARY KEY (document_id, a, b)) WITHOUT ROWID;
CREATE TABLE statements (
    chunk_id TEXT NOT NULL, a INTEGER NOT NULL, b INTEGER NOT NULL, start INTEGER NOT NULL, end INTEGER NOT NULL,
    PRIMARY KEY (chunk_id, a, b, start, end)) WITHOUT ROWID;
CREATE TABLE weight_counts (bucket REAL PRIMARY KEY, n INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE alike (
    block TEXT NOT NULL, a TEXT NOT NULL, b TEXT NOT NULL, score REAL NOT NULL, PRIMARY KEY (block, a, b)) WITHOUT ROWID;
CREATE TABLE name_vectors (name TEXT PRIMARY KEY, embedder TEXT NOT NULL, vector BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE community_weights (community_id TEXT PRIMARY KEY, strength REAL NOT NULL, inside REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE attached (entity_id TEXT PRIMARY KEY, to_id TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE title_words (word INTEGER PRIMARY KEY, sentences INTEGER NOT NULL);
CREATE TABLE quoted (
    document_id TEXT NOT NULL, community_id TEXT NOT NULL REFERENCES reports(community_id) ON DELETE CASCADE,
    PRIMARY KEY (document_id, community_id));
CREATE TABLE also_about (key TEXT NOT NULL, about TEXT NOT NULL, PRIMARY KEY (key, about)) WITHOUT ROWID;
CREATE TABLE leaving (kind TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (kind, value)) WITHOUT ROWID;
CREATE TABLE "embeddings" (
    number INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, subject_id TEXT NOT NULL, content_hash TEXT NOT NULL,
    embedder TEXT NOT NULL, vector BLOB NOT NULL, UNIQUE (kind, subject_id));
CREATE TABLE vector_files (
    kind TEXT PRIMARY KEY, file TEXT NOT NULL, last INTEGER NOT NULL, vectors INTEGER NOT NULL, size INTEGER NOT NULL);
CREATE TABLE changed_chunks (chunk_id TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE retitled (document_id TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE VIRTUAL TABLE chunk_search USING fts5(chunk_id UNINDEXED, text, cjk, tokenize = 'porter unicode61 remove_diacritics 2');
CREATE VIRTUAL TABLE chunk_terms USING fts5vocab(chunk_search, row);
INSERT INTO _sqlite_migrations ("id", "migration_set", "name", "applied_at") VALUES (1, 'localrag', 'm001_initial', '2026-11-26 17:58:25.102097+00:00');
INSERT INTO _sqlite_migrations ("id", "migration_set", "name", "applied_at") VALUES (2, 'localrag', 'm002_engine_figures', '2026-11-26 17:58:25.102789+00:00');
INSERT INTO _sqlite_migrations ("id", "migration_set", "name", "applied_at") VALUES (3, 'localrag', 'm003_claims_and_merges', '2026-11-26 17:58:25.103049+00:00');
INSERT INTO _sqlite_migrations ("id", "migration_set", "name", "applied_at") VALUES (4, 'localrag', 'm004_questions', '2026-11-26 17:58:25.103585+00:00');
INSERT INTO _sqlite_migrations ("id", "migration_set", "name", "applied_at") VALUES (5, 'localrag', 'm005_documents_parts', '2026-11-26 17:58:25.104237+00:00');
INSERT INTO _sqlite_migrations ("id", "migration_set", "name", "applied_at") VALUES (6, 'localrag', 'm006_answers_about_documents', '2026-11-26 17:58:25.104727+00:00');
INSERT INTO _sqlite_migrations ("id", "migration_set", "name", "applied_at") VALUES (7, 'localrag', 'm007_skipped_files_content', '2026-11-26 17:58:25.105182+00:00');
INSERT INTO _sqlite_migrations ("id", "migration_set", "name", "applied_at") VALUES (8, 'localrag', 'm008_sentences', '2026-11-26 17:58:25.105367+00:00');
INSERT INTO _sqlite_migrations ("id", "migration_set", "name", "applied_at") VALUES (9, 'localrag', 'm009_rows_of_full_text', '2026-11-26 17:58:25.105595+00:00');
INSERT INTO _sqlite_migrations ("id", "migration_set", "name", "applied_at") VALUES (10, 'localrag', 'm010_answers_about_chunks', '2026-11-26 17:58:25.107241+00:00');
INSERT INTO _sqlite_migrations ("id", "migration_set", "name", "applied_at") VALUES (11, 'localrag', 'm011_generations', '2026-11-26 17:58:25.109536+00:00');
INSERT INTO _sqlite_migrations ("id", "migration_set", "name", "applied_at") VALUES (12, 'localrag', 'm012_places', '2026-11-26 17:58:25.109923+00:00');
INSERT INTO _sqlite_migrations ("id", "migration_set", "name", "applied_at") VALUES (13, 'localrag', 'm014_collections', '2026-11-26 17:58:25.111017+00:00');
INSERT INTO _sqlite_migrations ("id", "migration_set", "name", "applied_at") VALUES (14, 'localrag', 'm015_structural_vectors', '2026-11-26 17:58:25.111251+00:00');
INSERT INTO _sqlite_migrations ("id", "migration_set", "name", "applied_at") VALUES (15, 'localrag', 'm016_scans', '2026-11-26 17:58:25.111498+00:00');
INSERT INTO _sqlite_migrations ("id", "migration_set", "name", "applied_at") VALUES (16, 'localrag', 'm018_facts_of_runs', '2026-11-26 17:58:25.112108+00:00');
INSERT INTO _sqlite_migrations ("id", "migration_set", "name", "applied_at") VALUES (17, 'localrag', 'm019_answers_found_by_text', '2026-11-26 17:58:25.112273+00:00');
INSERT INTO _sqlite_migrations ("id", "migration_set", "name", "applied_at") VALUES (18, 'localrag', 'm020_classes_of_arithmetic', '2026-11-26 17:58:25.112632+00:00');
INSERT INTO _sqlite_migrations ("id", "migration_set", "name", "applied_at") VALUES (19, 'localrag', 'm021_files_as_seen', '2026-11-26 17:58:25.113793+00:00');
INSERT INTO _sqlite_migrations ("id", "migration_set", "name", "applied_at") VALUES (20, 'localrag', 'm022_what_the_graph_is_made_of', '2026-11-26 17:58:25.114946+00:00');
INSERT INTO _sqlite_migrations ("id", "migration_set", "name", "applied_at") VALUES (21, 'localrag', 'm023_communities_move', '2026-11-26 17:58:25.115476+00:00');
INSERT INTO _sqlite_migrations ("id", "migration_set", "name", "applied_at") VALUES (22, 'localrag', 'm024_what_is_collected', '2026-11-26 17:58:25.116468+00:00');
INSERT INTO _sqlite_migrations ("id", "migration_set", "name", "applied_at") VALUES (23, 'localrag', 'm025_numbers_of_vectors', '2026-11-26 17:58:25.118551+00:00');
INSERT INTO _sqlite_migrations ("id", "migration_set", "name", "applied_at") VALUES (24, 'localrag', 'm026_other_names_by_entity', '2026-11-26 17:58:25.118814+00:00');
INSERT INTO _sqlite_migrations ("id", "migration_set", "name", "applied_at") VALUES (25, 'localrag', 'm027_indexes_for_edits', '2026-11-26 17:58:25.119013+00:00');
INSERT INTO _sqlite_migrations ("id", "migration_set", "name", "applied_at") VALUES (26, 'localrag', 'm028_words_that_are_no_names', '2026-11-26 17:58:25.119197+00:00');
INSERT INTO _sqlite_migrations ("id", "migration_set", "name", "applied_at") VALUES (27, 'localrag', 'm029_changed_chunks', '2026-11-26 17:58:25.119535+00:00');
INSERT INTO _sqlite_migrations ("id", "migration_set", "name", "applied_at") VALUES (28, 'localrag', 'm030_retitled_documents', '2026-11-26 17:58:25.119745+00:00');
INSERT INTO settings ("key", "value") VALUES ('id', '"b294da00c80c3cfea93175451b1dd431"');
INSERT INTO settings ("key", "value") VALUES ('settings', '{"chunk_tokens": 680, "chunk_overlap": 100, "entity_types": ["person", "organization", "place", "event"], "max_cluster_size": 10, "seed": 0, "style": "auto", "extractor": "model", "max_gleanings": 0, "claims": false, "language": "", "text_column": "", "metadata_columns": [], "ocr": true, "ocr_languages": [], "follow_links": false, "prepend_metadata": false}');
INSERT INTO settings ("key", "value") VALUES ('chat_model', '{"name": "smollm2-135m", "path": "", "fingerprint": "b179c9523d0e6a0f"}');
INSERT INTO settings ("key", "value") VALUES ('embedder', '{"name": "all-minilm-l6-v2", "path": "", "fingerprint": "b2a4e7d76433aa89"}');
INSERT INTO settings ("key", "value") VALUES ('prepended', 'false');
INSERT INTO settings ("key", "value") VALUES ('chunk_tokens', '680');
INSERT INTO settings ("key", "value") VALUES ('chunk_vectors', '"bare"');
INSERT INTO settings ("key", "value") VALUES ('style_of', '{"b179c9523d0e6a0f": "extractive"}');
INSERT INTO settings ("key", "value") VALUES ('decisions', '{"same": [], "different": []}');
INSERT INTO settings ("key", "value") VALUES ('same_by_model', '{"of": "71a998645179f175c3bc", "pairs": []}');
INSERT INTO settings ("key", "value") VALUES ('graph', '"ac6c4a1abdff4c7c4bd0"');
INSERT INTO settings ("key", "value") VALUES ('options', '"74680007f4d0a55e420e"');
INSERT INTO settings ("key", "value") VALUES ('read_by', '"d61b257d117388094612"');
INSERT INTO settings ("key", "value") VALUES ('merging', '"graph 5"');
INSERT INTO settings ("key", "value") VALUES ('described', '"a13a11a67f469246afcd"');
INSERT INTO settings ("key", "value") VALUES ('clustered', '{"modularity": 0.0, "weight": 2.0, "moved": 0.0, "max_size": 10, "seed": 0, "turn": 0}');
INSERT INTO settings ("key", "value") VALUES ('reports', '"d7aacefb1421786255b0"');
INSERT INTO settings ("key", "value") VALUES ('reported', '"1ec94c1484d9acad8016"');
INSERT INTO settings ("key", "value") VALUES ('titled', '2');
INSERT INTO settings ("key", "value") VALUES ('layout', '"57409b4bd62fd945a49d"');
INSERT INTO settings ("key", "value") VALUES ('graph_vectors', '"6ab65c63c6c038d6858f"');
INSERT INTO settings ("key", "value") VALUES ('sources', '["harbour"]');
INSERT INTO settings ("key", "value") VALUES ('collected_for', '["b179c9523d0e6a0f", "imported", "eeee31d34bbc7b048d46", "eeee31d34bbc7b048d46 in part", "61f3cd9a5ff6b8e749d0", false]');
INSERT INTO settings ("key", "value") VALUES ('written_at', '["65024:2449529", false]');
INSERT INTO settings ("key", "value") VALUES ('forgetting', 'false');
INSERT INTO documents ("id", "path", "title", "text", "content_hash", "added_at", "metadata", "parts", "date", "dated_by", "titled_by", "first_path") VALUES ('94866f7ed06fb5647c96', 'harbour/ferry.txt', 'ferry', 'Ingrid Holm bought the ferry Skua in 1974. Her brother Lars Holm is the mate of the Skua. Lars Holm wrote that the Skua leaks.
', '2a60dad73cad1d33b2c5', '2026-11-26 17:58:25', '[]', '[]', '2026-11-26', 'file', 'file', '');
INSERT INTO chunks ("id", "document_id", "ordinal", "start", "end", "text", "tokens") VALUES ('5c74b69d26a55e3e582c', '94866f7ed06fb5647c96', 0, 0, 126, 'Ingrid Holm bought the ferry Skua in 1974. Her brother Lars Holm is the mate of the Skua. Lars Holm wrote that the Skua leaks.', 39);
INSERT INTO entities ("id", "name", "type", "description", "degree", "descriptions") VALUES ('3ace41ef116c5f6fa07f', 'Ingrid Holm', 'person', 'Ingrid Holm bought the ferry Skua in 1974.', 1, '[]');
INSERT INTO entities ("id", "name", "type", "description", "degree", "descriptions") VALUES ('88cfdf6a22b7a31d114f', 'Skua', 'organization', 'Ingrid Holm bought the ferry Skua in 1974. Lars Holm wrote that the Skua leaks.', 2, '[]');
INSERT INTO entities ("id", "name", "type", "description", "degree", "descriptions") VALUES ('ae683f35e696712f7d71', 'Lars Holm', 'person', 'Lars Holm wrote that the Skua leaks. Her brother Lars Holm is the mate of the Skua.', 1, '[]');
INSERT INTO entity_aliases ("alias", "entity_id") VALUES ('Ingrid Holm', '3ace41ef116c5f6fa07f');
INSERT INTO entity_aliases ("alias", "entity_id") VALUES ('Lars Holm', 'ae683f35e696712f7d71');
INSERT INTO entity_aliases ("alias", "entity_id") VALUES ('Skua', '88cfdf6a22b7a31d114f');
INSERT INTO mentions ("entity_id", "chunk_id", "name", "start", "end", "telling") VALUES ('3ace41ef116c5f6fa07f', '5c74b69d26a55e3e582c', 'Ingrid Holm', 0, 11, 2.9);
INSERT INTO mentions ("entity_id", "chunk_id", "name", "start", "end", "telling") VALUES ('88cfdf6a22b7a31d114f', '5c74b69d26a55e3e582c', 'Skua', 29, 33, 2.9);
INSERT INTO mentions ("entity_id", "chunk_id", "name", "start", "end", "telling") VALUES ('88cfdf6a22b7a31d114f', '5c74b69d26a55e3e582c', 'Skua', 84, 88, 1.9);
INSERT INTO mentions ("entity_id", "chunk_id", "name", "start", "end", "telling") VALUES ('88cfdf6a22b7a31d114f', '5c74b69d26a55e3e582c', 'Skua', 115, 119, 2.9);
INSERT INTO mentions ("entity_id", "chunk_id", "name", "start", "end", "telling") VALUES ('ae683f35e696712f7d71', '5c74b69d26a55e3e582c', 'Lars Holm', 55, 64, 1.9);
INSERT INTO mentions ("entity_id", "chunk_id", "name", "start", "end", "telling") VALUES ('ae683f35e696712f7d71', '5c74b69d26a55e3e582c', 'Lars Holm', 90, 99, 2.9);
INSERT INTO relationships ("id", "source_id", "target_id", "description", "weight", "strength", "descriptions") VALUES ('1d8b4482dff18f6c6d8c', 'ae683f35e696712f7d71', '88cfdf6a22b7a31d114f', 'Her brother Lars Holm is the mate of the Skua.', 1.0, 5.0, '[]');
INSERT INTO relationships ("id", "source_id", "target_id", "description", "weight", "strength", "descriptions") VALUES ('cd43cd657e1e79ac1e4b', '3ace41ef116c5f6fa07f', '88cfdf6a22b7a31d114f', 'Ingrid Holm bought the ferry Skua', 1.0, 5.0, '["Ingrid Holm bought the ferry Skua"]');
INSERT INTO evidence ("relationship_id", "chunk_id", "start", "end") VALUES ('1d8b4482dff18f6c6d8c', '5c74b69d26a55e3e582c', 43, 89);
INSERT INTO evidence ("relationship_id", "chunk_id", "start", "end") VALUES ('cd43cd657e1e79ac1e4b', '5c74b69d26a55e3e582c', 0, 42);
INSERT INTO communities ("id", "level", "ordinal", "parent_id") VALUES ('33a0d91045bf305bbfcb', 0, 0, NULL);
INSERT INTO members ("community_id", "entity_id") VALUES ('33a0d91045bf305bbfcb', '3ace41ef116c5f6fa07f');
INSERT INTO members ("community_id", "entity_id") VALUES ('33a0d91045bf305bbfcb', '88cfdf6a22b7a31d114f');
INSERT INTO members ("community_id", "entity_id") VALUES ('33a0d91045bf305bbfcb', 'ae683f35e696712f7d71');
INSERT INTO reports ("community_id", "input_hash", "title", "summary", "rating", "rating_explanation", "findings", "markdown") VALUES ('33a0d91045bf305bbfcb', '8494d0500b7a9dbf9ba2', 'Skua, Ingrid Holm and Lars Holm', 'Lars Holm wrote that the Skua leaks. Ingrid Holm bought the ferry Skua in 1974.', 0.0, '', '[{"summary": "Skua and Lars Holm", "explanation": "Lars Holm wrote that the Skua leaks.", "quotes": [{"chunk_id": "5c74b69d26a55e3e582c", "start": 90, "end": 126, "text": "Lars Holm wrote that the Skua leaks."}]}, {"summary": "Skua and Ingrid Holm", "explanation": "Ingrid Holm bought the ferry Skua in 1974.", "quotes": [{"chunk_id": "5c74b69d26a55e3e582c", "start": 0, "end": 42, "text": "Ingrid Holm bought the ferry Skua in 1974."}]}, {"summary": "Skua and Lars Holm", "explanation": "Her brother Lars Holm is the mate of the Skua.", "quotes": [{"chunk_id": "5c74b69d26a55e3e582c", "start": 43, "end": 89, "text": "Her brother Lars Holm is the mate of the Skua."}]}]', '# Skua, Ingrid Holm and Lars Holm

Lars Holm wrote that the Skua leaks. Ingrid Holm bought the ferry Skua in 1974.

## Skua and Lars Holm

Lars Holm wrote that the Skua leaks.

## Skua and Ingrid Holm

Ingrid Holm bought the ferry Skua in 1974.

## Skua and Lars Holm

Her brother Lars Holm is the mate of the Skua.');
INSERT INTO answers ("id", "question", "mode", "result", "at", "conversation") VALUES (3, 'Who bought the Skua?', 'mix', '{"sentences": [{"start": 11, "end": 53, "state": "supported", "citations": [1]}], "unsupported": 0, "related": 0, "contradicted": 0, "question": "Who bought the Skua?", "answer": "**ferry**\n\nIngrid Holm bought the ferry Skua in 1974. [1]", "mode": "mix", "level": null, "citations": [{"n": 1, "path": "harbour/ferry.txt", "start": 0, "end": 42, "quote": "Ingrid Holm bought the ferry Skua in 1974.", "chunk_id": "5c74b69d26a55e3e582c", "part": ""}], "calls": 0, "prompt_tokens": 0, "output_tokens": 0, "seconds": 0.65, "note": "", "style": "extractive", "asked": "Who bought the Skua?", "reason": "it names Skua", "conversation": 3, "answerable": true, "confidence": 0.9890499500117707, "short": "ferry", "id": 3, "marks": [[54, 1]], "where": "", "collections": []}', '2026-11-26 17:58:31', 3);
INSERT INTO runs ("id", "pid", "started_at", "ended_at", "state", "stage", "done", "total", "figures", "facts", "seen_at") VALUES (1, 15000, '2026-11-26 17:58:25', '2026-11-26 17:58:27', 'complete', 'report vectors', 1, 1, '{"log_bytes": 725120}', '{"stage": "report vectors", "round": 1, "done": 1, "total": 1, "share": 1.0, "left": [0.0, 0.0], "seconds": 2.0, "tokens": 0, "read_tokens_per_s": null, "written_tokens_per_s": null, "entities": 3, "file": "", "workers": []}', 1.79571590739011144634e+09);
INSERT INTO vector_states ("kind", "state") VALUES ('chunk', 'F2E3918394B7DCB5');
INSERT INTO vector_states ("kind", "state") VALUES ('entity', 'CD7A517D74EC1E6D');
INSERT INTO vector_states ("kind", "state") VALUES ('report', '90676AE35C5885AC');
INSERT INTO chunk_rows ("row", "chunk_id") VALUES (1, '5c74b69d26a55e3e582c');
INSERT INTO extractions ("chunk_id", "recipe", "result") VALUES ('5c74b69d26a55e3e582c', '61f3cd9a5ff6b8e749d0', '{"entities": [{"name": "Ingrid Holm", "type": "name", "description": ""}, {"name": "Skua", "type": "name", "description": ""}, {"name": "Lars Holm", "type": "name", "description": ""}], "relationships": [{"source": "Ingrid Holm", "target": "Skua", "description": "", "strength": 5}, {"source": "Skua", "target": "Lars Holm", "description": "", "strength": 5}], "claims": [], "by": "phrases", "noise": 1}');
INSERT INTO extractions ("chunk_id", "recipe", "result") VALUES ('5c74b69d26a55e3e582c', 'eeee31d34bbc7b048d46', '{"entities": [{"name": "Ingrid Holm", "type": "person", "description": ""}, {"name": "Skua", "type": "organization", "description": ""}, {"name": "Lars Holm", "type": "person", "description": ""}], "relationships": [{"source": "Skua", "target": "Lars Holm", "description": "", "strength": 5}, {"source": "Ingrid Holm", "target": "Skua", "description": "Ingrid Holm bought the ferry Skua", "strength": 5}], "claims": [], "by": "model", "noise": 0}');
INSERT INTO sentences ("chunk_id", "splitter", "bounds") VALUES ('5c74b69d26a55e3e582c', 4, X'000000002A0000002B000000590000005A0000007E000000');
INSERT INTO places ("entity_id", "x", "y", "r") VALUES ('88cfdf6a22b7a31d114f', 1.33943382001130602276e-02, -1.77728827231978352141e-02, 5.4582419840070484085e-01);
INSERT INTO places ("entity_id", "x", "y", "r") VALUES ('3ace41ef116c5f6fa07f', -0.608122589553583, 8.06914929576138084676e-01, 0.456761429128678);
INSERT INTO places ("entity_id", "x", "y", "r") VALUES ('ae683f35e696712f7d71', -3.32294999376066713114e-01, -1.15932469620267530885e+00, 0.456761429128678);
INSERT INTO community_places ("community_id", "x", "y", "r") VALUES ('33a0d91045bf305bbfcb', 0.0, 0.0, 1.73205080756887719317e+00);
INSERT INTO graph_chunks ("chunk_id", "document_id", "made_from") VALUES ('5c74b69d26a55e3e582c', '94866f7ed06fb5647c96', 'eeee31d34bbc7b048d46');
INSERT INTO names ("document_id", "key", "texts", "types", "descriptions", "text", "type", "count", "target", "reason", "score", "base", "entity") VALUES ('94866f7ed06fb5647c96', 'ingrid holm', '{"Ingrid Holm": 1}', '{"person": 1}', '[]', 'Ingrid Holm', 'person', 1, NULL, NULL, NULL, 'ingrid holm', 'ingrid holm');
INSERT INTO names ("document_id", "key", "texts", "types", "descriptions", "text", "type", "count", "target", "reason", "score", "base", "entity") VALUES ('94866f7ed06fb5647c96', 'lars holm', '{"Lars Holm": 2}', '{"person": 1}', '[]', 'Lars Holm', 'person', 2, NULL, NULL, NULL, 'lars holm', 'lars holm');
INSERT INTO names ("document_id", "key", "texts", "types", "descriptions", "text", "type", "count", "target", "reason", "score", "base", "entity") VALUES ('94866f7ed06fb5647c96', 'skua', '{"Skua": 3}', '{"organization": 1}', '[]', 'Skua', 'organization', 3, NULL, NULL, NULL, 'skua', 'skua');
INSERT INTO name_keys ("key", "text", "type", "count", "target", "reason", "score") VALUES ('ingrid holm', 'Ingrid Holm', 'person', 1, NULL, NULL, NULL);
INSERT INTO name_keys ("key", "text", "type", "count", "target", "reason", "score") VALUES ('lars holm', 'Lars Holm', 'person', 2, NULL, NULL, NULL);
INSERT INTO name_keys ("key", "text", "type", "count", "target", "reason", "score") VALUES ('skua', 'Skua', 'organization', 3, NULL, NULL, NULL);
INSERT INTO name_offers ("value", "key") VALUES ('companyingrid holm', 'ingrid holm');
INSERT INTO name_offers ("value", "key") VALUES ('companylars holm', 'lars holm');
INSERT INTO name_offers ("value", "key") VALUES ('companyskua', 'skua');
INSERT INTO name_offers ("value", "key") VALUES ('endholm', 'ingrid holm');
INSERT INTO name_offers ("value", "key") VALUES ('endholm', 'lars holm');
INSERT INTO name_offers ("value", "key") VALUES ('endsiholm', 'ingrid holm');
INSERT INTO name_offers ("value", "key") VALUES ('endsingridholm', 'ingrid holm');
INSERT INTO name_offers ("value", "key") VALUES ('endslholm', 'lars holm');
INSERT INTO name_offers ("value", "key") VALUES ('endslarsholm', 'lars holm');
INSERT INTO name_offers ("value", "key") VALUES ('firstingrid', 'ingrid holm');
INSERT INTO name_offers ("value", "key") VALUES ('firstlars', 'lars holm');
INSERT INTO name_offers ("value", "key") VALUES ('initialsIH', 'ingrid holm');
INSERT INTO name_offers ("value", "key") VALUES ('initialsLH', 'lars holm');
INSERT INTO name_offers ("value", "key") VALUES ('joinedingridholm', 'ingrid holm');
INSERT INTO name_offers ("value", "key") VALUES ('joinedlarsholm', 'lars holm');
INSERT INTO name_offers ("value", "key") VALUES ('keyingrid holm', 'ingrid holm');
INSERT INTO name_offers ("value", "key") VALUES ('keylars holm', 'lars holm');
INSERT INTO name_offers ("value", "key") VALUES ('keyskua', 'skua');
INSERT INTO name_offers ("value", "key") VALUES ('surnameholm', 'ingrid holm');
INSERT INTO name_offers ("value", "key") VALUES ('surnameholm', 'lars holm');
INSERT INTO name_asks ("value", "key") VALUES ('companyingrid holm', 'ingrid holm');
INSERT INTO name_asks ("value", "key") VALUES ('companylars holm', 'lars holm');
INSERT INTO name_asks ("value", "key") VALUES ('companyskua', 'skua');
INSERT INTO name_asks ("value", "key") VALUES ('endsingridholm', 'ingrid holm');
INSERT INTO name_asks ("value", "key") VALUES ('endslarsholm', 'lars holm');
INSERT INTO name_asks ("value", "key") VALUES ('firstskua', 'skua');
INSERT INTO name_asks ("value", "key") VALUES ('initialsIngrid Holm', 'ingrid holm');
INSERT INTO name_asks ("value", "key") VALUES ('initialsLars Holm', 'lars holm');
INSERT INTO name_asks ("value", "key") VALUES ('initialsSkua', 'skua');
INSERT INTO name_asks ("value", "key") VALUES ('keyholm', 'ingrid holm');
INSERT INTO name_asks ("value", "key") VALUES ('keyholm', 'lars holm');
INSERT INTO name_asks ("value", "key") VALUES ('surnameingrid holm', 'ingrid holm');
INSERT INTO name_asks ("value", "key") VALUES ('surnamelars holm', 'lars holm');
INSERT INTO name_asks ("value", "key") VALUES ('surnameskua', 'skua');
INSERT INTO nodes ("id", "key", "base", "sentences", "strongest") VALUES (0, '', '', 3, 0);
INSERT INTO nodes ("id", "key", "base", "sentences", "strongest") VALUES (1, 'ingrid holm', 'ingrid holm', 1, 3);
INSERT INTO nodes ("id", "key", "base", "sentences", "strongest") VALUES (2, 'lars holm', 'lars holm', 2, 3);
INSERT INTO nodes ("id", "key", "base", "sentences", "strongest") VALUES (3, 'skua', 'skua', 3, 1);
INSERT INTO pairs ("a", "b", "relationship_id", "shared", "chunks", "statements", "strength", "read", "weight", "kept") VALUES (1, 3, 'cd43cd657e1e79ac1e4b', 1, 1, 1, 5, 1, 1.0, 1);
INSERT INTO pairs ("a", "b", "relationship_id", "shared", "chunks", "statements", "strength", "read", "weight", "kept") VALUES (2, 3, '1d8b4482dff18f6c6d8c', 2, 1, 1, 5, 1, 1.0, 1);
INSERT INTO document_nodes ("document_id", "node", "sentences") VALUES ('94866f7ed06fb5647c96', 0, 3);
INSERT INTO document_nodes ("document_id", "node", "sentences") VALUES ('94866f7ed06fb5647c96', 1, 1);
INSERT INTO document_nodes ("document_id", "node", "sentences") VALUES ('94866f7ed06fb5647c96', 2, 2);
INSERT INTO document_nodes ("document_id", "node", "sentences") VALUES ('94866f7ed06fb5647c96', 3, 3);
INSERT INTO document_pairs ("document_id", "a", "b", "shared", "chunks", "statements", "strength", "read", "descriptions") VALUES ('94866f7ed06fb5647c96', 1, 3, 1, 1, 1, 5, 1, '["Ingrid Holm bought the ferry Skua"]');
INSERT INTO document_pairs ("document_id", "a", "b", "shared", "chunks", "statements", "strength", "read", "descriptions") VALUES ('94866f7ed06fb5647c96', 2, 3, 2, 1, 1, 5, 1, '');
INSERT INTO statements ("chunk_id", "a", "b", "start", "end") VALUES ('5c74b69d26a55e3e582c', 1, 3, 0, 42);
INSERT INTO statements ("chunk_id", "a", "b", "start", "end") VALUES ('5c74b69d26a55e3e582c', 2, 3, 43, 89);
INSERT INTO name_vectors ("name", "embedder", "vector") VALUES ('Ingrid Holm', 'b2a4e7d76433aa89', X'BC15F0BCCDC5F73B9D78AEBC138D1B3D901358BD68A5493DA94B543D0923673D33CBAD3DBD0650BD054FA0BC46E558BD5D6B8BBD68052B3C82A2A9BD0A90523DBB1E643DE38EAF3D94FFD9BC5CEE4D3DC7EC0FBEFE40A1BDD014A33CA856853CB8B54B3D7FB3DF3CAF710E3DF01F02BD8B8F20BD880038BCCD7E83BC098348BD75D6BA3C8B0A7ABCFF30CF3CFB6129BA458056BD6A2F913BCDC5F7BC39899DBC6F184BBDE796B4BD70F958BD058F5D3B18694B3D7B7FB7BDEA84733D1704C93DC992013D271432BDB412A2BC349011BD1A3BB9BD42F1EDBC4A01F83C4AB47E3DC17646BD09E3A93B3CF3403DF47EF4BC06B422BC6F1062BC1E871CBC38C4B93D5137523C81DD453DD08FFCBB2EB27D3D437694BD870380BDFFF5B23BDF4AB5BCC8CCEBBC708D1FBCFB61A93D0EDCB53C7676D93C792A07BD52C119BC1146593DB749923D153AC4BD012019BDD0B4C13C5B498E3D4580563D23E089BB3AC95ABDE7821ABC2D4DFBBCD89C17BEFC260DBB38C4B93C75E68CBB97C1F53A1A08863C2E9705BD0759623CEA5140BDABCD323EAD9F20BD5D3F8F3DC5220B3DB0F971BB4CA3C83CF5031BBCF82A393D411112BDA4A2D73C81DD453CE1F026BD6451FDBC02851BBDD2DEA73B304C173DBA0B2E3D38FF553D5E7895BC81CE7EBCD5E869BAACB6293DF3D1CBBC8571CFBD87AB87BC42A947BD17298E3B9F496A3D48CF01895BE92CBC0E7C54BDA67CAE3D70CD5C3CB1E31A3DED408A3D76A3073D5A842ABD09939ABDCD75E8BC5CEECDBDEA1183BBA3BA12BD452075BDD9DC543D4D43E73D1EC7D9395795603DE887BB3CE8970D3D5197333D40E7AB3D747138BD6F289D3DE5FA0FBD0EDCB5BC792A873D081EC6BD9AF0FC3C7760023D8636B3BDAEDF5DBC20CC7A3C22BBC4BB0EB0B93CCE4A9E3C9AD584BD0B4D4DBD1A33D03B696AAD3D71F2A1BD1056ABBBCDC5773D16734ABC591F283BDC3021BDF08CC63C1A33D03DD9B10A3D4F42833DFEF011BB0BEDEB3B956CC5BD97C1F53DED1B453DF3C9623DB72C363DADEFAF3C9786D93B3AC9DA3C71A292BC24E5AA3D99180ABDE94C9F3AAEB4133C18694B3D6A2F913B22967F3C31408DBC1F8CBD3B4645BABD7C24F7BBCEEABCBC9786593D1D3EC4BCADE9033D2B83763D7DE9DABCAC65E83C883B54BCAAC028BC6855BA3C73BCA63D0A98BB3D797A16BDF8D2C0BCA0AE6CBDF27432BBBCD5B2BD825A833D3B53223DFC268D3B30DCE33C801862BCF76DBEBDD737950832662BBAD5E869BDD5AD4DBC147D493C4F15553DB63C88BBF54358BDDA661CBBC5721A3DCF4FBFBBA7990A3EDFFA25BE819D083DE38E2FBC928DCDBC8E49533D83670D3D1EDF94BC9C1A63BD853192BB67E0E5BA1230823C43B6D13C8E5925BB9BB5E03B7D49BC3BB3E83B3EBAABCC3BB0F971BDD5E8E93A87D6D1BDBA0B2E3DCF0F82BC5CEECDBC2051A1B97F13413E036DE0BCD5ADCDBCD56D103DDAB62B3DFEA0823DB15EF4BC735CC5BC84BCBD3DABC5C93CF543D83C4D1FD4BC9C9F893BD2CE553D332B8FBA997082BB82E2E63A4CA348BC32A6683D7E66183D8C6F7CBD3BD6643DA4B2A9BC879B353DCCC0D63CFA9C453DC20E7C3D89C59BBCC358063D95BCD4BB77B091BD39899DBDD73795BD3AEE1FBE4E9B863C2C98693DF10F30BD8C2FBFBCEEA50C3D37B7AF3CEF0A8FBCB01EB7BDEA1183BAB8894F3CB13B93BBD1D986BD9C3FA83B846C2E3D3C18063E1D12C83CD5ADCDBCEA2C7BBDD7B26EBD0392253DE32E4E3D1DC2383C0923E73B3A4E01BCA47898BD8F830BBDDF9A44B23266AB3CB0F971B996EF2EBD8EF943BD0E7C54BCCA1B173DD3A30BBCBA0B2EBD133523BD66333D3DF7CD9F3A5137D23D31610A3DFCA166BD12703F3DBAABCC3C4CA3483CA60CFBBCE887BBBB44DB96BC7D6E813D020075BB8C54843CF5039BBDA62C9F3D065441BDD05460BD653B263DE9AC80BC595FE5BCEF35D93C2051A1385FDD17BD5E2557BD8AB549BD4D4C023DB5B2C03C8776F03BC0C99DBD68A5C939A238B4BDDBCB1E3D10069CBCF3A601BDAEB4933BF6A8DABC73BCA63D043A2DBD585AC43B1B3F28BDF7CD1FBC4B9EA7BD778BCC3D40D7593CD87804BD16CB423DE93CCD3C0CB24FBDC5FD45BDCACB873C537E94BD233882BD1196683DEF0A0F3D');
INSERT INTO name_vectors ("name", "embedder", "vector") VALUES ('Lars Holm', 'b2a4e7d76433aa89', X'9F9583BCCE884A3D3D9451BD9F9583BD4A23C7BCE00B003D22FB863D8268353D9BB5BE3D9481EDBBEA91F7BA1F4B93BD2AA39F3D80D1D43C63878EBCC121063C4F0A24BB44E6CD3C2BF013BC70D0A73CC654F9BDE513653DABAE4B3D07B395BD42AC873D9BD82C3D8FBD7E3D89EE92BCF3123DBDA68EF5BA6A0CB93DACA523BDDAD163BDA1BF89BDDA800A3D9D25213D381B02BD7BEF3A3D560604BD22923C3C4A00D9BD6905A1BD90DC873C33F38B3B2C8C8C3CE628E8BBC38C253DBFBF0EBD4519FC3C349FC43C074ACBBBF2E836BD1D142A3DAE18E3BC7B1F8C3D2F95F93BF37B87BDC988053DD7C333BC5C762BBD7EAC91BC31055CBD9884A0BDCFF8AC3DE128233CA88A10BC1A8FC43C35D2F23CF09BC2BDB45DFCBC218BA43B4BCF7FBC0E8C07BD6B3FE7BC94A4DB3DF46D9C3CA6FC023D5EC39FBCB982953D22DC283DC369373D2168B6BD9B6FE2BDC1850D3DD530633D8EB2813D1534A03DEE0872BDDE6B4CBDCE65DC3C2DF72BBDDF0C08BD6EF77ABC0BE4B3BC831191BC58229F3C70F3953B4E19953D2076A1BD062D283EB22C5ABD571B873CCD0AFD3BEA1DB03AE5F0763D2D3D88BDFE772CBCC346493D7B122939F96D61BC22D818BDD20408BD164923BDC1F9543D2810CF3D3CF6033C4FC4473DC80A38BD18882CBD945E7FBDAA4BCC3B722DDC3C58458DBD58A4513D2856ABBDC3D2813DA5DDF93C3BAC978934E5203D7C820BBDEF8B533DC13589BD7F12EEBC00E88E3C3352D03CB6438CBCAFA6F0BCB07A5ABDAD9F58BD41E85DBCEFEF893D81AA81BDAADFA43CB1F3643DBDA548BCD5BC9B3C034A063DEAB465BCB5C53E3D5654803DDCB2B03CE71F403DE0FE9CBAB84AA4BDE0218B3D197AC1BD5AE35A3C810E093DB139C1BDFC074ABD79C5B43C4C2A5FBCEFA9AD3C5EA0B13C9614BEBD9C1ED63B7B35973CE898CABCCA2C1EBD1DF13BBCAEF5F4BCAA91A8BB65026E3C5E5A55BCC1D6E6BC70675D3DDE6B4CBD8F26C93C166FEE3CAA93303D5134AABCBD825A3C7347223B33DE883C483F9D3D751B8CBC61D14F3C82001E3C2B1E7FBD4C7B963DBBCF09BCA25DD73ABC12F83CC34D14BDBC58D43CE9D03BBD736A90BD3B5138BD7686ABBC289C87BDE0DBAEBC7250CABC9968CABB2BF093BB7F12EEBC4A8C11BC857718BC9B92D03B7C1941BDC54DE13C0941A33C5455883DEC01DABC17A402BDDDED7EBC005C56BD78B031BDE801153D1C736E3DD902BDBC27B5EF3CF35899BD6B8A86BDF3660409F5F666BCA43684BBE41110BDAA4B4C3D2DD4BD3D72FA2DBCEC015ABCB437B13DA82146BDA15B82BD267DFE3D005C56BDA41396BC4FC447BBA464EF3B9BB5BEBBF89E3A3DB7CC56BC82001EBC6795BE3DF37B073E3FD9253CA4646F3D773264BCB52E09BD8F089EBC931B113E3F78FB3C00D799BDC11CC3BC8BAFCEBD01532E3B78F68D3D5496A13C0419ADBBFBDD433EE9ADCDBC1B0D123DD3BFABBBB66A8A3DCEABB83DBA9718BC53D277BDF835F03D2B416DBB7755D23B1511B2BDB4F6973CEAEA01BD363295BC03F17BBDEAFAC13DCA9D083D7EFD6A3C71CA5C3C0B7BE93BC34649BC708ACBBB2B13023DF5F6E63CA48400BDA2C6A13DC094CD3CEAFA413D2145C8BB36A65CBD24DFB0BD70ADB9BDF9D62BBE45A534BD94816D39859A86BD4174963C363295BC4E030C3D6C36BFBD0B7BE9BDC654793DAA91A83B9BD82C3DEC8D92BDF91C083D73987B3C850ECE3DCAEE613CF9B33DBD5435F7BCEAFAC1BDCE65DCBC4FE735BC0FD4383D98D5F9BC2C8C0CBD196E113DEE942A3D4FC447B2034A06BD70675DBC48B3E4BC7778C0BC42662B3CB139413DA2E98F3BF61E18BDCF6C74BC7BEFBA3DD50D753DD1B9E83DE2B1ED3C2453F8BC48B3E43B24029F3C0CBB29BD8EB281BDB6430CBD076DB9BC3C0B073D759416BB314BB83CD5BC1B3CDCFBE93DB15CAF3C73BB69BDD122B3BC3367533CC1F954BD110302BC19E30B3C09DCE8BC3E8666BD945302BCD810A83C0B07A2BC1BC2723D5588B6BC92068E3D8962DABD481CAF3DA6D994BC6905213C2405FCBB7732E43CD377473D60EDA5BB62720BBD34088FBCC69A55BC51E6ADBCE0FE1C3E90B919BD3F2722BC6E3DD73D3036B5BC0F1552BDDA5D9CBDC6BD433CB419863C697968BC043C9B3D1246703C');
INSERT INTO community_weights ("community_id", "strength", "inside") VALUES ('33a0d91045bf305bbfcb', 4.0, 4.0);
INSERT INTO title_words ("word", "sentences") VALUES (-5426141060434712860, 3);
INSERT INTO title_words ("word", "sentences") VALUES (-5020021929857254837, 2);
INSERT INTO title_words ("word", "sentences") VALUES (2793800969401162959, 3);
INSERT INTO title_words ("word", "sentences") VALUES (5411987460448421559, 3);
INSERT INTO quoted ("document_id", "community_id") VALUES ('94866f7ed06fb5647c96', '33a0d91045bf305bbfcb');
INSERT INTO embeddings ("number", "kind", "subject_id", "content_hash", "embedder", "vector") VALUES (1, 'chunk', '5c74b69d26a55e3e582c', 'a334a848eb911f4e3a5c', 'b2a4e7d76433aa89', X'420F41BD50F5CD3CA2ED5EBCFCBFEF364052C63CD7F9D33C3D71383D7C24EA3CB56003BD01118FBB791C2A3D1FC8203CB66D083D87C4F3BB6FBC84BCB61874B9A11E86BD97E172BC564CA33B13BC343D51F5AEBC8C1C20BDED3F8CBB0CA845391145593D49FEC63C25417D3D576B50BD485991BDB25AAABC97586EBDB7B80C3CDC17ECBD9DFE9ABDDC05063E9F11183D8FD28D3C5C43493D8E38313DC58262BDE6FB96BCFC81B2BDA11B3FBC1605EE3C2F94DEBC1D766C3DDCD4AA3DDD4682BC5DDE99BCCDF0873CDFAC61BDE9FC65BD25B2933D45548EBDB865C33BF3F6673CBA53D7BD86E19F3AECBDD13D6DDE91BB14C5483D880FBFBCA7B23ABDFB5B173D4EAA0CBD07301BBD46F86D3CD922AEBCA0FFACBDA17810BD06AEE03DE7F370BD994CFBBBEDB8F0BCC4E7723D090F833C45A0973C0B6EB73CA6C28CBD85D88B3DEF151DBD06EC5FBDA19DB7BD2B8C223D7C14A73D7DA4653D9457BD3DEE98A9BDECF7DFBBB4FCE23CAF474CBDBDACEBBC0707833D17A185BD57ACCC3C74FFC33CCADBFDBC4883BC3DE4C7023B7629923DDF0F8E3CB7731F3D25F74D3DA4E910BD73A5313D53FDEB3BEFDF3CBCB2B9FE3BC121883C5ED2883D9ECE94BD4B5AE0BC7C95AB3C1318123D13ACD13C8978DA3C42AC9ABBF97E983C01FDBABC25CAA5BD2C17903D3C0B96BC7183C5BCC54A3D3CB4E597BD85B52A3DCD0C9BBC84974D8840E9E3BCE5843B3CCE2983BC11232FBD4E4577BCAEC3ADBCCA432EBBA860C7BB4202BCBD7F3283BC843818BECC8612BC7E190CBD6754F7BD0B3E93BDF6B7953DCEF22DBDDF5230BAE928FB3CA3BC45BD0D02B93D3189963D5641073DF9C6023DC72C40BD0222A4BD348D923C7BDD15BE4B7B773DE5F8573D623C1BBD2672393C3B561F3D5B6FDEBCD080F3BCB2B3E6BC1C1120BDA92EAABD87E293BDC2A1D43D6F85CEBAD12A52BCA6FF0A3D1CB4813D8A8DC1BCBDC24FBCEBE6E93B05899B3D0589773D42B4433D7C9464BDE39F9CBDFF7709BE14EAEF3D54B8213D7468543D2BD8FE3C87A885BC602E413D1A7F63BB705E5CBDD307933D4327253EA9B988BCAE02263DF746133D4700313D96A6B2BCF5F0AFBC0679B7BD9F02E7BC5CFA2CBC6B3B5FBD630E5ABBEB36B63AA0B94A3CE4DE4DBDABB38EBD6DFA7F3D25A23F3D74FFC33B5105123C9C26A03D07C3D63DD6B372BD0DA0A5BD5DC7E7BCA11004BDFD6F65BD8727013D51FCF7BB941F2FBD8AE3C3BB74F3B2BD4B6520BD69D447073EAAF038089C74BD0095103DC800CABB6B2B3E3D88A4EFBC0A2C473C2681093C677D70BCC17D843BFE0BE8BCAD1319BD0FDE853C9DDE353D720AFFBC58EDC83B5A17A63D3EE988BB86FF583D99B4E83B0E1E863DDFA5B6BC3606D23BDF3E7B3DE0F81D3D4CEE053DE538E03DF079193DD20A10BDE19C213DF7CA6FBDE85E2D3D9122B5BCFFA954BC1ACBBE3B8A16A83DD14269BC357E423D1A4C85BC766A0EBD53BB1E3DF67A57BCF92015BD6FD1A93D255A743C5E4904BD67B5D83C9DF78EBC6998D03D80D295BDF338D8BB3C23373D7F34483D1719FEBCA1D4AA3CD7B202BCB69A113C48E04B3D387A6EBD17782F3DFDF3893CF8A1993B4857E53AD8C4493CAA7FD53B4688043C60DD23BD2AC707BE608F03BEB68BA2BCD7150BBD628FDEBD2C34B6BC1BEB04BD1798BD3C10707ABD9737F5BDB2676D3D2122453D4B3C273D583FBBBA09C00C3B3DBCBDBBF2950C3EE955E53CADEDF7B92C708F3CC754A6BDF37C513D55B637BC5002723D02B00EBBD8AB14BCC247E1BB618A5ABD45A8C6B222A7A63D9617353D1A723F3DB42E153DACBAD7BC6313FD3BFA6CEA3C7D1B703B0D4A84BD99C8793D662E9FBD16EB533D04ADEC3CFFC807BDF2CB293D69611F3C106E963C04C79BBBFFEE22BDED13B5BD2474C23D43C110BD0F7584BA818B1FBC7C752739D3901ABD60E75A3D5DF7AF3CFA9F6C3D2E7607BEF9B3C1BBEA278BBD429C98BCA0A4253C06570D3D6DB8D13C48E1BFBCCCF1583DACBE0BBC2F8FF13CA9078ABDDE115B3D61C190BDBEAE0F3D7907853C2746D23D7338DE3CC832F6BCDD50C8BCAF2D04BD3C13173D6E1D433CBAF0913CC476D23DF432833CFD79123DE0FF293C166099BCE3D096BBE0C8973D9E87DCBDCC115D3CD107D1BC4821293D');
INSERT INTO embeddings ("number", "kind", "subject_id", "content_hash", "embedder", "vector") VALUES (2, 'entity', '3ace41ef116c5f6fa07f', '9116f199f7f110518f5d', 'b2a4e7d76433aa89', X'B0465EBBBBCC973C257D60BCC658463CE7A98EBC2FB3F43B3AE46E3D06995A3D51A601BD1C9744BC114AF43C55BE613B64DBE7BB6BAA743D918E3BBD8AA9F03CBE7D133C833A113DFEA3113D4311873D69217FBD0EA1C4BD7FC5ECBCC604803CAA25B23DC092583C61B1353D911DBFBC49ECAFBD317B98BCCC5FABBD71B594BC817135BDE1CE42BD3477BB3D1A1DFCBB4F8AA1BC0B12CDBCF060B63CBD0F71BDA6F4E9BA14CEC5BD5DE788BD3A00C53C6713A8BC531D20BC313DD43DD6AD5F3D31EDDB3C40F21ABD77EB6ABDD6BED6BCE66061BCA99DA6BD657CC2BC7735E63C3506BFBD27A589BBD249D53DE22453BD65F5A03C14845BBC1EE218BC03A7B63D3BC001BD4E75B9BC366280BB16526A3CA06BE0BDB2496FBDECB4E83DC71497BDCC3C80BC05138F39D2E9C53D66864B3C6407A43C656A6B3C262062BDF72D9C3DA25A73BBB73B40BD6F3D73BD6AC9513D5DE2B73DBF6D863D5BA5533D7CC580BD1550433C41249B3CAB4F82BD02B823BD3D62283D8D3821BDDD3CA43CA92A83BBE96372BDBE3F4F3DFE8F133D91186E3D35B41FBCE020583DFB06713DBE01AEBCC5794A3DBAC59F3B0D2FEA3CB78667BCFF8BAC3A5006643D468AD1BD911B18BDF5C6143CCA2C903C5342723C9706583D5C18F73AA97C223C447F063AE7CE60BD6FA2FA3D058024BD8FD0C3BB6F4795BAB20D98BD3194443DBC9B5E3DA1CBEF8845B54FBD8FFF37BC7458FD3CBDA3C5BC1FF0883BACCDEB3C6C49283D2F1FCD3980BAB5BD2EBD16BCF44A25BE5EAE1F3BFC0925BDAD49DBBDC51B62BCAF31F63D466641BD0D2F6A3CB08FDE3C1214B5BCA561983D649B9F3D3B6E443B35D9713D44483ABD694443BDC3AC1BBC099907BE6147AC3D414C173D8EDC5FBD3CA4B03B163B883CE203CFBC370F8B3BFC20AA3C19029FBD02E797BDF2D99EBD0F150B3E0B2890BDDFFFD3BC7F24BA3CD664DF3C2FB92FBBAD4F0CBC45E13C3BF7C5BE3D8FD89B3D61F1A03DC49D19BD020572BD72C304BE469D0D3E1ED1213D77EF6C3DACA899BBD3BECCBC291D083BA2B40DBD9E1098BDC732943D6983CE3DAE2630BC4B0C813CAE74813D02D3193DB40FC9BBF6FC00BD22EF32BD24B870BD727CABBCD9B62BBDB12BF23C2073C33B33FB4BBC26DD6F3C8CA99DBD8FFD903D96EA77BBE2556E3B2B108CBBDC06B83D6549053E97B9893C8EF227BDC5AD8FBCA5EBD0BC3EEF84BD1978A23C9673863CA22958BC773810BDA7C909BDE26D53BD61DA9608A06B603D5721A5BD3A2D923C4B5EFDBBEADAB3BB03A7B6BC1EACACBC755101BDEE1F043B558D463A4191B03C3441CFBD26CE423D09926C3DAE7F47BD0D4D0F3D39BA413D35C733BD12128EBB77BF31BA3F20A03C316CC8BB9E99833C0EFBD13D9478AA3C3AD3773C5FB9E53DA1982DBC69FC2CBD090ECA3CC9922DBD76CFC33C19BBC5BCC32A54BC57C954BB83E1DB3DF7B3803C1CE73C3D161C213D66F7C7BB778A2F3D3CF8F6BC4EA4ADBB3E2CC13D004A243D7FC203BBE7DA293DE7917CBCBC30F53D00BF6EBDCDEFBFBBCAA01D3D1E32913C1B490CBC778177BB77C0A6BCF2FF503D2C72C23B379769B75A12823B62C7023DE34F033D27F728BC97F867BC1592CB3C8F859CBCA39309BD9AB3E2BDB2101FBEFEAC30BD691FD8BCCE99B9BD1EF97ABD647DFF3B6603913C37CF1FBD9FCB88BD3976123D96AF003D0CAD143D0F2CEDBC2616863CBFE0293D7763F03DE2AF883AB6CB99BBA97440BD2907C0BDAB1D873D67429C3C55BA133D50F1283C8E4367BBD71BDFBCF2B429BDF3198AB2BF97A93D8033673D0C00F63B06AA9B3C5CB588BC2EE5923C1F57633C4B1F9F3CE42156BD8E41403D6B2269BDD4BCA53D5E525EBC62AD49BD7DD26D3DBB7EC63CACA8193DDF70D03CCDADB7BCF2B282BDABC4CC3DDEFE0CBD74CF34BD39B904BDDB9ED03A643950BD467C09BA73E35E3D96A5DE3C64AACCBD59133F3D15D480BD9CD169BC64083539240D3ABC288485BBA7E1D53B75450C3DAA2532BD391132BC4B0282BD5FD7853D4CFB70BDA6C89FBB7CBEEA3C1D1FD03D3AD3773B0F3A5DBD5B16503C099F95BCE716A43D4394C139A043643D8DB2BC3D9557A63BC9111A3D5D0C193DE96DFBBC168D27BD246BA23C533ABDBDDBDDD1BC429AE5BC6CC58D3D');
INSERT INTO embeddings ("number", "kind", "subject_id", "content_hash", "embedder", "vector") VALUES (3, 'entity', '88cfdf6a22b7a31d114f', '50917a308bf8f3deaa6f', 'b2a4e7d76433aa89', X'9ACE5ABDE053303D3F26B53B35C18C3C94B4B43C0B95E33B318B783D73A8183D030FDDBC094B7C3C26AC1A3D707C053D5E62873C87A5603C9C1BBBBC7414D23BC1D36BBDD7BA2FBB2FEA213D741B013D4F65443CB1AEEF3ACCB7BFBCDE61DC3C7DE9933DB4370E3CF2FD4C3D5B744DBD8288C1BD1C6ACEBC709B9EBD32DA9A3C36EDC6BD132DC6BD6C26053E90B4A13C9966943C8FA8EC3C27741F3DE64C49BDE53AEDBB0831CCBDA0E32CBD0E10403D7DDB1CBD2802603D1CB7B13D544625BC32A082BC3814DF3C2BC090BDCFFF19BD2ACC2C3D2C9D8FBDAF4E5DBC0CA7BFBC02DACDBD906FF23B07B2C03D1A00B0BCF43E113DC1DE02BD66042BBD0536913D2C3FD53CFAC713BD3088E63C0BF295BC815806BEF60F26BD2DFEE13D072A52BD3CE111BC600EF2BC8CC29B3D24B1B3BC66D4A13C74BDAD3C150B63BDB562753D2BF019BB5EDD18BD240DACBD1AF2383D2EDC5F3DBE23993DFE37D93DFA0E82BDE87717BBF0E5C93CF61E09BDC4316EBD9BE6AB3DD7C83FBDB7D1033C8C64C83B23015EBDDB0B5C3D64902F3DA5CD823DD4DAEC3C3E17203D1C91373DD55D19BD87B8923DF24FB6BC044141BC70B82ABC57C66E3ACF7AAB3D894580BD2573E5BCD094BB3C5275DE3CA333ED3CCAE1D93C480F95BB2E87C83B1C026CBC05066CBD3672B53D1E0BC1BC9ADE05BDBD4E9C3C84A9B2BD091E083DE636533CEB05A3888259D9BCA91B613B6FBB26BC8771D6BC2C848FBCFDC3A8BCF3B2763C56458FBCCE76C6BD563532BCB9ED20BE3061CBBC2E865CBD307EF0BD74704ABD9ABDB13D509C60BDE473323BB837563D1ACB2BBDB8039A3D352C913DA429293D5939973CC44514BD6055AEBD291F6CBCB4A724BE9BE74C3D3E264A3DAA6602BDB438AF3CDB665A3DD19B1CBD4EAD2ABC215AF9BC718780BD8EB79DBDF7A896BD6F04D43D40EDBABCC4A499BCC0A56F3CC723423D8E7D853A93CFCF3B67DD41BC9D888A3D01337F3D4B3A793D677788BD532B5BBDC88201BEC2D7D33D13607D3D55D8143D652EF43CA68C02BD556B653D3BC993BC8D678FBD166FDD3D408B1B3E4B2E5DBC334E7D3CE423243D9FC7C13CD7A691BCA82885BC848CA6BD51307DBD6E7F01BC6BEA78BDEFFFAA3C611CE9BC97EC71BC73C2E8BCE7B1AFBDE931793D7EB0CE3C3E584E3CF3BBE4BC8727883DCB940F3E347AB7BC412B6DBDBF6371BC096FE9BC6B0A81BD608CFF3CBCCEB6BCA0D535BDE72A5BBC5742BABD804A44BD005D2F08CDBF733C985F81BD1AB8203B5302653CE1D7643C5E0313BD28528ABC9258D83CD2312DBCEBCB0ABA8A8036BDD4DD33BD08DAC73B5F944F3DCEACC4BC902FB3BB8A2B9F3DBCBBB9BC4810A13CBF0CE63CDBB8D13CB5B900BDCFD1CFBB0184983D99746F3D7B5A193D64BFCC3DEE59163C9A1F58BD871C0D3DC1F57DBD15D2E83C7EDD29BD339C1A3DC79492BCB2AA203D7929A43C8D46023D50157EBCF78C44BCA9F6203D5EA3003C9DF212BC4C66B33D99B8E43B62168DBCFBD49B3C1BBB19BC0EE1A23D3F0A7CBD044695BC3CF5F43C629F153D79E2E7BC716C81BA4736C93CD4A39B3C00D8F53CA20A45BD8E30D73C90C3363CECA6603C074644BCC3A5BABCFC8FB73CE6F2DDBCA34E85BC147DD4BD3A4401BE21D8EABCF1DD79BC40FDBEBD96BC4FBD5B4D19BD6B09AE3C4DCEF9BCA935F1BD93583F3D7BE7BB3CCB11603D48FD833C6416BC3AD13B0ABC101D133E49AC6A3D9A0D993C444CDEBAD2B0D8BD1DF61D3D1C8340BCAE6E4C3D5EFA243CF01C02BCE8E431BABC8121BD5840ADB23FB6853DB0FD5F3D64B7FC3CD120243D6754393C444CDEB988473F3D9725503C9DF41FBD15E4603D548871BDC40C2E3D22B1B63C8B3CC1BC1B8D1D3D8A6EDA3C4CFFBF3C1CD9913C7C954FBDB269A7BD069CCA3D6674C1BCBC2975BC1A5E35BD2A72C1BC91E876BCD1B9FB3C3C79293D64482E3DB721F9BD42F1543CC5648CBDB77D3FBCD829A53C2BA3843CAE71933CA09AE33BDE2D523D8604BCBA3FB69E3CC45768BD4650C33DD2B828BD17C0573DFFF3633C9CBCC93D36DCD63CBEB0BBBC752EE2BCA6C40DBD1A9B9B3DE8BCAABA33322B3DA059EA3D67493E3D2686303DEDE30D3DECA4A1BCF6A711BDAB79313D86CCB0BD2C55003D88BD4ABDD8DC733D');
INSERT INTO embeddings ("number", "kind", "subject_id", "content_hash", "embedder", "vector") VALUES (4, 'entity', 'ae683f35e696712f7d71', 'cd86438e21b43bfde5ff', 'b2a4e7d76433aa89', X'529CA7BD3E76363D54991DBD81A143BC222C203DEE934F3D6EE46C3D2166E13A22F0343DD14A4A3CF584AF3CF0C325BCA9097D3D853924BDB86E95BB9AE6C3BCDB25CDBDF1B2A2BC49A44B3CCA2D0E3D5244CBBB094D1D3DC789553D37C1843C947E133D64AC323DAE1D393DD8D98BBD4A3F8FBD79F6FC3C4CE6DCBC1E3B2B3DF595B2BD27F39FBDD532DD3D0AC5373DDC17AA3B9E04D63D5EFA633DD7F1C6BB4EDB45BD90B0C8BDA418073D8D56903BDEF4B5BCEA726F3D22D1113CDA1D3EBD014341BDD4D91B3D282980BD080F92BD54E9943DF2115EBC5985683D4ADEBCBB625CC5BD5FAB85BC02913E3D42A4F53BD1051A3D3E6533BDA6C09FBDDD16943D6A4761BAB2087DBC7F885C3D364FFF3B6F8BC3BD12A09B3CCF706A3DCB168BBC614FC9BCCFDB07BD4349843DD6EBA93C4A108D3CB54B00BCE9008FBBF6CC053D9BF2D6BC2B2852BD2746BEBD24763E3C5E042F3DA440FA3C57B4CD3D40400FBED90487BD725F2C3CBC92CEBD320B4DBD168F833DFB7286BD7440753C925E433D0995EABC64329E3D46DD05BDA034843DB6ACB53AC0E8C43C2AF7EA3CE610BEBC0A479D3DDF3F56BD9CB630BDA6BAC23BE20E1E3C1E282F3D79E1DFBC9BE532BDB9F1A83C664A093DFCF7A63D5E83A83C6C94923D97CA3EBB94E490BDAF3718BD94985BBCA546963C7C28A4BD1B95013D976613BDB1234BBC11BE42BDC6A63089FECF343DC291283B64B9E0BBAF0EFEBC8402E5BC660C39BDC7B82ABD273BF7BC52234CBD192941BC924BDBBD2EBB07BC4FC28D3C1B74A0BDBFDF76BD8119853DB0AB4EBDFE7C473B325C2D3D30AC91BB32F4A23DB2739A3DA7A7DE3CB779C03CF9B008BDBEE29DBD140F8E3D2CFD06BEA06F69BB1785383D054478BDEE73D63BFF0E813D399326BD5A5F2ABD5EC6DEBCF30819BDF2FC40BDA81409BD6205963DB78A2FBC9F388BBB41B36B3C749B203C94A6C03A0EB0F23C84ADA4BCE7A29F3DB59AB63C798FB33C9202F4BC0439A6BC45A881BDD19FC43D1D9C913DA1586B3DE5A99C3D1E3DB8BA523FA03D2A64153DBC7D31BD1AE9933DBE6FCC3D52C930BC653D703D1EA5423CB56186BA296F45BD9CEFB8BC3B72C4BDD48572BD676F983B9CDA9BBDB7439ABB421B44BD9E15893CE32F93BD366350BDA5774D3C0E7A603DA0D85C3C33D888BB4ECB3F3DC2A2A83D3566EEBD36B6BDBD5BE0B0BCAB7A7CBDE27D60BDB8EA183D2BC5F23C004452BD99E8153D6299FCBD956D90BD15988D08A68C1ABD4E412ABDDE26EEBC0C87493DD762DB3DB5D634BC14483EBC6E976B3DCB53D5BC4E5149BC25A518BB17AEA6BCE27125BD5E3FECBB5C506F3A40762BBD7477973DF1170FBC84FEF13C52F26E3D176CC63D6A00CCBC72A0CB3BF44038BAF7BA8F3D3632E93C6BDBF73DF2A3A23DAE3D89BD5C921E3DC1B8D9BD021EED3C506E0FBDF38712BC82810F3D935B913D72A809BDD001283CB0F056BDD0712BBD8CF74A3D6EB5D63CF3F795BD092FB23DA611003CEF488B3B254B7EBC7C8C80BB8B6CE63C3945BCBD35D10BBD8A19163D62B8283DBCCE91BCD2FA653C8E47CCBC27EFB6BC22B9393C208D56BD4A8C903DCB652DBC65E1E53C1A3D4DBC441C723DA6D32FBC8BD0AEBCA0DC93BDBBD79BBDE7C8FABD0482483CB2E221BD4E66E6BDCB04DB3BB83217BD9EF87D3D1E2AA8BD66F50EBE7193F73C276F7C3CFFD34E3D0C7D7EBCD45A273CFEA328BD73AA163E18F0903D8CEE053B9C3BF9BBBE8A85BD1A8D6C3C9E0D90BC9E6C603DA78FA3BC5CAB1ABB624811BC2E7BAABCCBFDA2B267EE113DE23E89BB0919183D1C05993C59E1413B5FF73B3D850FA53CB267C2BC00C40CBD9E7FC83DB63474BC2A0F9B3DFE05473D4C78FABCAFCDD43C928C483DB6A26A3CB4055FBD351456BDBB8CA7BD2247A93D0270B5BCBF88B33C0238AABBD7A80B3DF741A03C31DB763D500D3D3A4771573D79BEC8BD42C432BDCE9C5BBD9FB40EBDE32F933C91876D3CF15D633D8125E8BB7205CD3D62FEE83C4F09A33DD39B95BDD98B033DCE9C3BBD3BBD903D22F3FA3A1B4B323D3252933D4B7D9ABC77CBD9BC67971DBD742E763CD4F7C7BA554E813D9CFF573D3F77B23BCE90633DE45FE13A76E013BD5E5ED4BBF60E7B3DCE9583BD8A4A113DFE5B523C4C3A9F3C');
INSERT INTO embeddings ("number", "kind", "subject_id", "content_hash", "embedder", "vector") VALUES (5, 'report', '33a0d91045bf305bbfcb', '4a18a7dd650850cc352d', 'b2a4e7d76433aa89', X'9B6765BDAC06173DC4AD1ABCE50CD53A212A363D8CA91D3D4340863DB5E9E93B628F5ABB14E279BBE9FE1A3D644C023C45F7F93C1905D2BCB5D480BA364F333C6D4FE2BDFC7EAC3B779498BC03FCB53CFFF486BC807DF1BC00E3A6BBFACF5BBC9F1E5C3DB583453DAD77593DFAFD75BD179F9ABD75D480BCEE4541BD0B6EFFBA8597BFBD66E78EBDAC6F083E3E1FDC3CCCE656BBD67E9A3DC21C713D9F0C65BDDE12A7BC5A1FB9BDCAC7A43B0A1D0E3D645F0EBDECCA9E3DD6DA6F3D1AE21FBCB148B7BC8A8F3F3DC26B83BD6B2F92BDE1B28A3D1B5366BD74BC88393182003D6024B5BD8C675137C254AF3DBAB7B63CFD141C3D9AB82DBD1E084EBDFB62FB3CBAA80DBD400EB9BCBBAA293DFD1E2EBC51BEDDBDD7367ABC3596CE3D8A000BBDAB24B7BB351B25BDA968863D8CD3B73CFE8F04BBA7B3903C172E8ABD6AF2DA3C3E9549BD82975EBD8B48D8BD6288373CD0913C3DA56A723D7E0BBA3DDF00B3BDA34345BC4699923C570F7ABD5F0CF6BCC928AE3DD8AE87BD50AFCC3C9817323D45D148BCDFADA13DFD0E853B4779913DFF81B0BBA260EB3C78852F3D795002BDF730E83C13B3C83BF3E59ABCCA648CBBE23AAD3CFF6D983D1E882BBD9F04DDBCDBB1CC3CA4B4073D5B87173DA13D8B3BC63E783CCB74DE3CD7DFCCBCCBF282BD0473073D975045BC192117BD9F83E93CD6B098BDC0FC073D1B9F33BDB7EB9A09D5632DBCE1467E3CB73F9CBC29EB67BCC7841BBD55B71ABD26643ABCA2F0B93ACC1DD3BD5A3F94BCDE1718BE856691BC2471CBBC1AB7B7BD188DC4BD130F633D6DAC10BBDF6B77BAEBCDC13C56C626BDDBB1BB3D48D8A63D5D53A43C3A2FF43C783D54BDB4D38BBDFFE8943C239F18BE60A1373D8A29153DFC5D94BCB95EAA3B1FA4733D127326BD954B20BD07B90BBD98412CBB61494BBD34B54BBD7DE0A53DC0FD25BCBEDC69BC8989123D023DF73C9B8FC2BB17DD1BBCE4A6C13C1B71AB3D32AE393D333B303C2CD87CBD8C637EBDAD11EEBD15E4023E6AEA483DBA58753DD6ABFB3C8C9E6FBC452F873D996AB33C352C38BDEFF6AE3D8967203ECA140DBDEC701F3D13F7153D2D2D303D4AF2B5BC56BAB0BB3DA086BD149B3EBDD1F7B7BC60B29ABD43A91F3C82B459BB66A4B03C8C7B95BDA84F9ABDCAA6423D45FACC3C5B5A993B45C7DCBA6694863D254EC13DC597D0BDC19BA1BD0CF12BBD7E4C4BBD3B2078BD8A882D3DBED802BC96A516BD65DE2C3C7A23D0BD9456E7BC91BEBB89D38DB5BCADD33ABDB43D5E3C529B89BC8FC7363D00A1EDBCA4284D3BC820C1BCEA5F6CBC35D37D3CFBFEB4BC5E1B4ABDBB1F67BC68A0AD3C9BBB42BD146EB1BC905C9D3D43EA1C3C4E29783D974DA23CC919823DCA8933BDDC1DC63CDB3D8A3DF8554E3D0520C33C9AC5103EB06EA53DFC9015BD86A9533D8290A7BD05C8F33C8C3354BC042219BCF0014B3D5530A53D49562CBDA570E23CC36CD0BC225FF6BC10FB4B3DDC3F38BA27074FBD61EC923D429B9DB9E90E34BD6B878B3C5E71CABC0610B93D8A1999BD2405B4BB7FF9233D53795A3CC38051BD52CC84BAF16788BCF8BB943C4B684B3D33EA41BDFE58583D83DA3CBCAE49203CF3BE0B3D92B6293DEB8A143CE236B5BCF77D72BD299DFFBD467BDBBD6FE82FBC0DC608BD79CF00BE82D1B5BC66E71FBD25B9163D9B4E8ABDA98BFABD9262463DE5D4163DB3A8A63CAD589C3C2A76253D94C000BD5D23293E74DD813C5D2E9ABC2B52043D3222B8BDCF36A93C92A9AD3A0CB57D3D6D5EA8BBF247DF3CFA43A7BC56C283BD7A130AB3AAFB5E3DDBA4AE3C649C813DC6E5493D13786BBBAADF4F3C62BEE03C464E47BC723B82BD42C8A53DEDE870BD3F0D143D1411DE3CB232E2BC2AE6173DBF01803C7F0D0ABC367114BDF3C70FBD3E9BB3BDC6D2A23DFF8A20BDF865ABBB976875BC7214EF3CA9F10DBDCCB5613DB4A03E3C4072673D5BA3DEBD982047BCCD2697BDC2939CBB12070D3C57FA2D3D12FA2C3D653A0EBD9F0A623D2E46143CEE28383DF4569DBD11C1523DC01F98BD2A962C3D7C6A21BB4CA47B3D21B75F3DD9C41EBD7804C2BC16722FBD0E22843CD7C669BCDCB1D23C93E3A83DE106B73BD4E99F3C42A162BC48D60F3C3CFBBE3CAB39813DE3EBB3BDCFE3033D03ACEFBC1E7D1E3C');
DELETE FROM sqlite_sequence;
INSERT INTO sqlite_sequence ("name", "seq") VALUES ('embeddings', 5);
INSERT INTO chunk_search ("rowid", "chunk_id", "text", "cjk") VALUES (1, '5c74b69d26a55e3e582c', 'Ingrid Holm bought the ferry Skua in 1974. Her brother Lars Holm is the mate of the Skua. Lars Holm wrote that the Skua leaks.', '');
CREATE UNIQUE INDEX "idx__sqlite_migrations_migration_set_name"
    ON "_sqlite_migrations" ("migration_set", "name");
CREATE INDEX chunks_by_document ON chunks(document_id, ordinal);
CREATE INDEX mentions_by_chunk ON mentions(chunk_id);
CREATE INDEX relationships_by_target ON relationships(target_id);
CREATE INDEX relationships_by_source ON relationships(source_id);
CREATE INDEX evidence_by_chunk ON evidence(chunk_id);
CREATE INDEX members_by_entity ON members(entity_id);
CREATE INDEX claims_by_subject ON claims(subject_id);
CREATE INDEX aliases_in_any_case ON entity_aliases(alias COLLATE NOCASE);
CREATE INDEX next_chunks_by_document ON next_chunks(document_id, ordinal);
CREATE INDEX next_embeddings_by_content ON next_embeddings(kind, content_hash);
CREATE INDEX claims_by_chunk ON claims(chunk_id);
CREATE INDEX claims_by_object ON claims(object_id);
CREATE INDEX community_links_by_b ON community_links(b);
CREATE INDEX collections_by_path ON collections(path);
CREATE INDEX chunks_in_document ON chunks(document_id, id);
CREATE INDEX scanned_pages_by_looks ON scanned_pages(looks);
CREATE INDEX llm_calls_by_about ON llm_calls(about);
CREATE INDEX documents_by_content ON documents(path, content_hash);
CREATE INDEX next_documents_by_content ON next_documents(path, content_hash);
CREATE INDEX graph_chunks_by_document ON graph_chunks(document_id);
CREATE INDEX names_by_key ON names(key);
CREATE INDEX names_by_base ON names(base, type);
CREATE INDEX name_keys_by_target ON name_keys(target);
CREATE INDEX name_keys_by_block ON name_keys(type, substr(key, 1, 2), count);
CREATE INDEX pairs_by_a ON pairs(a, weight);
CREATE INDEX pairs_by_b ON pairs(b, weight);
CREATE INDEX pairs_by_weight ON pairs(weight);
CREATE INDEX document_pairs_described ON document_pairs(a, b) WHERE descriptions <> '';
CREATE INDEX statements_by_pair ON statements(a, b);
CREATE INDEX alike_by_score ON alike(score);
CREATE INDEX communities_by_parent ON communities(parent_id);
CREATE INDEX attached_to ON attached(to_id);
CREATE INDEX quoted_by_community ON quoted(community_id);
CREATE INDEX llm_calls_unused ON llm_calls(unused_since) WHERE unused_since IS NOT NULL;
CREATE INDEX also_about_by_text ON also_about(about);
CREATE INDEX embeddings_by_content ON embeddings(kind, content_hash);
CREATE INDEX embeddings_by_embedder ON embeddings(kind, embedder, subject_id);
CREATE INDEX embeddings_by_kind ON embeddings(kind);
CREATE INDEX aliases_by_entity ON entity_aliases(entity_id);
CREATE INDEX entities_by_degree ON entities(type, degree);
CREATE INDEX reports_imported ON reports(community_id) WHERE substr(input_hash, 1, 9) = 'imported ';
CREATE INDEX extractions_by_noise ON extractions(CASE WHEN json_valid(result) THEN json_extract(result, '$.noise') END) WHERE CASE WHEN json_valid(result) THEN json_extract(result, '$.noise') END > 0;
CREATE TRIGGER embedding_added AFTER INSERT ON embeddings BEGIN
    INSERT OR REPLACE INTO vector_states VALUES (new.kind, hex(randomblob(8)));
END;
CREATE TRIGGER embedding_removed AFTER DELETE ON embeddings BEGIN
    INSERT OR REPLACE INTO vector_states VALUES (old.kind, hex(randomblob(8)));
END;
CREATE TRIGGER extraction_added AFTER INSERT ON extractions BEGIN INSERT OR IGNORE INTO changed_chunks VALUES (new.chunk_id); END;
CREATE TRIGGER extraction_changed AFTER UPDATE ON extractions BEGIN INSERT OR IGNORE INTO changed_chunks VALUES (old.chunk_id), (new.chunk_id); END;
CREATE TRIGGER extraction_removed AFTER DELETE ON extractions BEGIN INSERT OR IGNORE INTO changed_chunks VALUES (old.chunk_id); END;
CREATE TRIGGER chunk_added AFTER INSERT ON chunks WHEN EXISTS (SELECT 1 FROM extractions WHERE chunk_id = new.id) BEGIN INSERT OR IGNORE INTO changed_chunks VALUES (new.id); END;
CREATE TRIGGER chunk_changed AFTER UPDATE ON chunks WHEN (old.id, old.document_id) <> (new.id, new.document_id) BEGIN INSERT OR IGNORE INTO changed_chunks VALUES (old.id), (new.id); END;
CREATE TRIGGER chunk_removed AFTER DELETE ON chunks WHEN EXISTS (SELECT 1 FROM graph_chunks WHERE chunk_id = old.id) BEGIN INSERT OR IGNORE INTO changed_chunks VALUES (old.id); END;
CREATE TRIGGER title_changed AFTER UPDATE OF title ON documents WHEN old.title <> new.title BEGIN INSERT OR IGNORE INTO retitled VALUES (new.id); END;
