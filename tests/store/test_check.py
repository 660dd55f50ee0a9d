"""Checking an index: every kind of damage is found by name, and what can be mended without a model is mended."""

import asyncio
import json
import sqlite3
import tracemalloc
from contextlib import closing

import numpy as np
import pytest

from localrag.indexing.pipeline import build_index
from localrag.project import open_for_writing
from localrag.records import Chunk, Document, content_id
from localrag.store import documents, entity_network, runs
from localrag.store.check import CHECKS, check_full_text, check_index, problems, repair_index
from localrag.store.opening import open_index, writer_lock
from localrag.store.schema import CONTENT_TABLES
from localrag.system.trust import record_cache_file
from tests.conftest import TOWN, mostly_ci, run_localrag
from tests.indexing.runs import rows

pytestmark = pytest.mark.usefixtures("hashed_module")


@pytest.fixture
def folder(indexed, tmp_path):
    """A copy of a finished index, free to be damaged."""
    return indexed(TOWN, "--extractor", "phrases", hashed=True, to=tmp_path / "town") / ".localrag"


def damage(folder, *statements):
    """Change the database behind localrag's back."""
    with sqlite3.connect(folder / "index.db") as db:
        for sql in statements:
            assert db.execute(sql).rowcount != 0, sql
    db.close()


def change(folder, *statements):
    """Change the database as localrag does."""
    db = open_index(folder)
    with db.atomic():
        for sql in statements:
            assert db.execute(sql).rowcount != 0, sql
    db.close()


def found(folder):
    """What a check finds, as (part, text); what is only due apart."""
    db = open_index(folder)
    parts = check_index(db, folder)
    db.close()
    everything = [(p.name, w.text, w.is_pending) for p in parts for w in p.problems]
    return [f"{p}: {t}" for p, t, due in everything if not due], [f"{p}: {t}" for p, t, due in everything if due]


def remedy(folder):
    with writer_lock(folder):
        db = open_index(folder, create=True)
        repair_index(db, folder)
        db.close()


VECTOR = np.full(384, 0.5, "<f4").tobytes().hex()


def one(table, change):
    """Changes one row of a table."""
    return f"UPDATE {table} SET {change} WHERE rowid = (SELECT min(rowid) FROM {table})"


def less(table):
    """Deletes one row of a table."""
    return f"DELETE FROM {table} WHERE rowid = (SELECT min(rowid) FROM {table})"


DAMAGES = {
    "other text": ("UPDATE documents SET text = 'x' || text WHERE path = 'docs/a.md'", "chunks: docs/a.md is not what was read"),
    "a chunk that is no slice": (one("chunks", "text = 'other'"), "is not a slice of it"),
    "a chunk that is missing": (less("chunks"), "has chunks that do not cover it"),
    "no full text of a chunk": (less("chunks_fts"), "1 chunks are not in the full-text index as they are"),
    "full text of no chunk": ("INSERT INTO chunks_fts VALUES ('gone', 'gone', '')", "full text: the full-text index has "),
    "full text of another text": (one("chunks_fts", "text = 'other'"), "1 chunks are not in the full-text index as they are"),
    "full text of another chunk": ("UPDATE chunks_fts_rows SET row = row + 1000", "are not in the full-text index as they are"),
    "the full-text index": ("DELETE FROM chunks_fts_data WHERE id > 10", "full text: the full-text index is damaged"),
    "a mention of no chunk": (one("mentions", "chunk_id = 'gone'"), "1 rows of mentions belong to chunks that are missing"),
    "a mention outside its chunk": (one("mentions", "start = 90000, end = 90003"), "1 mentions outside their chunk: docs/"),
    "a mention of another name": (one("mentions", "name = 'Nemo'"), "1 mentions with another name than the text has: docs/"),
    "evidence outside its chunk": (one("evidence", "end = 90000"), "1 evidence outside their chunk: docs/"),
    "no mention": ("DELETE FROM mentions WHERE entity_id = (SELECT min(id) FROM entities)", "1 entities without a mention"),
    "a relationship with itself": (one("relationships", "target_id = source_id"), "1 relationships of an entity with itself"),
    "a relationship without an end": (one("relationships", "target_id = 'gone'"), "relationships belong to entities"),
    "a degree": (one("entities", "degree = degree + 1"), "1 entities with another degree"),
    "a count of a pair": (
        "UPDATE cooccurrences SET n_chunks = n_chunks + 1 WHERE a = (SELECT min(a) FROM cooccurrences) AND is_relationship",
        "not the sum of what documents say",
    ),
    "an entity in no community": (less("community_members"), "1 entities not in just one community of level 0"),
    "a parent that is missing": (
        "UPDATE communities SET level = level + 1, parent_id = 'gone' WHERE level = (SELECT max(level) FROM communities)",
        "communities whose parent is missing",
    ),
    "no communities": ("DELETE FROM communities; DELETE FROM community_members; DELETE FROM reports", "entities, but no community"),
    "no place": (less("entity_positions"), "places: 1 entities and communities have no place"),
    "a place of nothing": (one("entity_positions", "entity_id = 'gone'"), "1 rows of entity_positions belong to entities"),
    "a report that is missing": (less("reports"), "1 communities have no report"),
    "a quote that is not verbatim": (
        one("reports", "findings = json_set(findings, '$[0].quotes[0].text', 'never said')"),
        "1 reports with a quote that is not where they say",
    ),
    "findings that cannot be read": (one("reports", "findings = '[{'"), "1 rows of reports cannot be read"),
    "an extraction that cannot be read": (one("extractions", "result = '{'"), "1 rows of extractions cannot be read"),
    "a vector that is missing": (less("embeddings"), "have no vector"),
    "a vector of another text": (one("embeddings", "content_hash = 'x'"), "are of another text"),
    "a vector of another embedder": (one("embeddings", "embedder = 'x'"), "are of another embedder"),
    "a vector of another dimension": (one("embeddings", "vector = x'0000803f'"), "have another dimension"),
    "a vector of another length": (one("embeddings", f"vector = x'{VECTOR}'"), "are not of length 1"),
    "a vector of nothing": (
        "INSERT INTO embeddings (kind, subject_id, content_hash, embedder, vector)"
        " SELECT 'entity', 'gone', content_hash, embedder, vector FROM embeddings LIMIT 1",
        "belong to nothing",
    ),
}


def test_a_sound_index_is_sound(folder):
    """Nothing is wrong with an index that was just made, and repairing it changes nothing."""
    assert found(folder) == ([], [])
    remedy(folder)

    assert not list(folder.glob("*.before-repair"))


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damage_is_found_and_mended(folder, name):
    """Each damage is named; after --repair nothing is wrong that the next `localrag index` does not make anew."""
    statements, expected = DAMAGES[name]
    kept = [rows(folder.parent, "SELECT count(*) FROM documents"), rows(folder.parent, "SELECT * FROM llm_calls")]
    damage(folder, *statements.split("; "))

    assert any(expected in text for text in found(folder)[0]), found(folder)
    remedy(folder)
    assert found(folder)[0] == []
    assert (folder / "index.db.before-repair").stat().st_mode & 0o777 == 0o600
    assert [rows(folder.parent, "SELECT count(*) FROM documents"), rows(folder.parent, "SELECT * FROM llm_calls")] == kept


def test_caches_that_disagree_with_the_database_are_found_and_dropped(folder):
    """A network of the present state with another content is found; a repair removes it. (FAISS files: see test_vector_index.)"""
    db = open_index(folder)
    entity_network.load_entity_network(db, folder)
    assert check_index(db, folder)[-1].problems == ()
    (file,) = folder.glob("network.*")
    file.write_bytes(b"torn")
    record_cache_file(file)

    assert [w.text for w in problems(check_index(db, folder))] == [
        "the file of the network has another graph than the database",
    ]
    remedy(folder)
    assert not list(folder.glob("network.*"))


def test_an_interrupted_run_is_no_damage(folder):
    """What a stopped run has not made yet is due, not wrong."""
    change(folder, "UPDATE runs SET state = 'interrupted'", "DELETE FROM embeddings WHERE kind = 'report'")

    wrong, due = found(folder)
    assert wrong == []
    assert len(due) == 1
    assert due[0].endswith("reports have no vector")


def test_what_waits_and_is_damaged_is_dropped_and_read_again(folder):
    """A waiting content that is not what was read is found; a repair drops what waits, and the next run reads the file again."""
    (folder.parent / "docs" / "b.txt").write_text("Lars Holm sold the Skua to Ruth Sand.", encoding="utf-8")

    def stop(p):
        if p.stage == "entity resolution":
            raise KeyboardInterrupt

    with open_for_writing(folder.parent) as project, pytest.raises(KeyboardInterrupt):
        asyncio.run(build_index([folder.parent / "docs"], project, stop))
    sound, due = found(folder)
    damage(folder, "UPDATE staged_documents SET text = 'x' || text")

    assert sound == []
    assert "next generation: 1 documents, 1 replaced documents, 1 vectors wait for the rest of their generation" in due
    assert found(folder)[0][0].startswith("checksums: staged_documents has rows that are not what was written")
    remedy(folder)
    assert found(folder) == ([], [])
    index_again(folder.parent)
    assert rows(folder.parent, "SELECT text FROM documents WHERE path = 'docs/b.txt'") == [("Lars Holm sold the Skua to Ruth Sand.",)]
    assert found(folder) == ([], [])


def test_failures_are_named_and_are_no_damage(folder):
    """What could not be done is shown with its reason; the index is sound all the same."""
    change(folder, "INSERT INTO failures (stage, subject, reason) VALUES ('extraction', 'c1', 'cut off')")

    assert found(folder) == ([], ["failures: extraction c1: cut off"])


def index_again(town):
    with open_for_writing(town) as project:
        asyncio.run(build_index([town / "docs"], project, lambda _: None))


def test_everything_at_once_is_mended_by_repair_and_the_next_run(folder):
    """After many damages, `check --repair` and `localrag index` the graph, the reports and the vectors are what they were."""
    town = folder.parent
    tables = ("chunks", "mentions", "evidence", "relationships", "entities", "community_members", "communities", "reports")
    before = {t: sorted(rows(folder.parent, f"SELECT * FROM {t}"), key=repr) for t in tables}
    content = "SELECT kind, subject_id, content_hash, hex(vector) FROM embeddings ORDER BY 1, 2"
    embedded = rows(folder.parent, content)
    names = ("other text", "a chunk that is no slice", "the full-text index", "a mention of another name", "an entity in no community",
             "a relationship without an end", "a quote that is not verbatim", "a vector of another length")  # fmt: skip
    damage(folder, *(DAMAGES[name][0] for name in names))

    checked = run_localrag("check", "--json", cwd=town)
    repaired = run_localrag("check", "--repair", cwd=town)
    index_again(town)

    assert checked.returncode == 1
    assert not json.loads(checked.stdout)["ok"]
    assert repaired.returncode == 0, repaired.stdout + repaired.stderr
    assert "localrag index PATH" in repaired.stderr
    assert found(folder) == ([], [])
    assert {t: sorted(rows(folder.parent, f"SELECT * FROM {t}"), key=repr) for t in tables} == before
    assert rows(folder.parent, content) == embedded


def test_a_vector_that_a_repair_took_is_made_by_a_run_with_something_else_to_do(folder):
    """An edit does not look through all entities for those without a vector; after a repair it does."""
    entity = rows(folder.parent, "SELECT subject_id FROM embeddings WHERE kind = 'entity' ORDER BY 1")[0][0]
    damage(folder, f"UPDATE embeddings SET vector = x'{VECTOR}' WHERE subject_id = '{entity}'")
    remedy(folder)
    assert not rows(folder.parent, f"SELECT 1 FROM embeddings WHERE subject_id = '{entity}'")
    (folder.parent / "docs" / "b.txt").write_text("Nothing is told in this line.\n\n" + TOWN["b.txt"], encoding="utf-8")
    index_again(folder.parent)

    assert rows(folder.parent, f"SELECT 1 FROM embeddings WHERE subject_id = '{entity}'")
    assert found(folder) == ([], [])


@pytest.mark.parametrize("table", ["mentions", "relationships", "embeddings"])
def test_a_database_with_torn_pages_is_made_anew_from_the_rest(folder, table):
    """A page that SQLite cannot read costs the rows on it and nothing else; what they were is due."""
    kept = {t: rows(folder.parent, f"SELECT * FROM {t}") for t in ("documents", "chunks", "extractions", "llm_calls", "reports")}
    ((root, size),) = rows(folder.parent, f"SELECT rootpage, page_size FROM sqlite_master, pragma_page_size WHERE name = '{table}'")
    with (folder / "index.db").open("r+b") as f:
        f.seek((root - 1) * size)
        f.write(b"\xff" * size)

    assert any(text.startswith("database: ") for text in found(folder)[0])
    remedy(folder)
    assert found(folder)[0] == []
    for other, before in kept.items():
        assert rows(folder.parent, f"SELECT * FROM {other}") == before


def store_marked_row(folder, table):
    """Store a row in a table; returns bytes that the file has of its values, and of no others."""
    values = {"TEXT": f'"mark of {table}"', "BLOB": f"mark of {table}".encode(), "INTEGER": 0x4142434445464748, "REAL": 0.5}
    db = open_index(folder)
    db.execute("PRAGMA foreign_keys = OFF")
    columns = db.execute(f"PRAGMA table_info({table})").fetchall()
    keys = sum(bool(key) for *_, key in columns)
    row = [None if key and keys == 1 and kind == "INTEGER" else values[kind] for _, _, kind, _, _, key in columns]
    with db.atomic():
        db.execute(f"INSERT INTO {table} VALUES (?{', ?' * (len(row) - 1)})", row)
    db.close()
    return b"mark of " + table.encode() if any(kind in ("TEXT", "BLOB") for _, _, kind, *_ in columns) else b"ABCDEFGH"


def change_bytes(folder, old, new):
    """Change bytes of the database's file, in a table and in its indexes, so that SQLite finds no fault."""
    content = (folder / "index.db").read_bytes()
    assert old in content
    (folder / "index.db").write_bytes(content.replace(old, new))


@pytest.mark.parametrize("table", CONTENT_TABLES)
def test_a_changed_byte_of_any_table_is_found_and_named(folder, table):
    """One bit of a value in the database's file: the table is named."""
    mark = store_marked_row(folder, table)
    named = f"checksums: {table} has rows that are not what was written: a byte changed, or another program wrote to it"
    assert named not in found(folder)[0]
    change_bytes(folder, mark, mark[:-1] + bytes([mark[-1] ^ 1]))

    assert named in found(folder)[0]


SPOILT = {  # tables with a column that nothing else says
    "extractions": "result", "embeddings": "vector", "entities": "name", "reports": "summary", "document_names": "form",
    "sentence_spans": "spans",
}  # fmt: skip


@pytest.mark.parametrize("table", mostly_ci(SPOILT, "reports"))
def test_what_a_changed_byte_spoilt_is_made_again(folder, table):
    """The command that check names, and the next run, give every table the rows it had."""
    kept = "SELECT kind, subject_id, hex(vector) FROM embeddings ORDER BY 1, 2"
    contents = {name: kept if name == "embeddings" else f"SELECT * FROM {name} ORDER BY 1, 2" for name in SPOILT}
    before = {name: rows(folder.parent, sql) for name, sql in contents.items()}
    column = SPOILT[table]
    ((value,),) = rows(folder.parent, f"SELECT {column} FROM {table} ORDER BY length({column}) DESC LIMIT 1")
    blob = value.encode() if isinstance(value, str) else value
    changed = blob[:-4] + bytes([blob[-4] ^ 1]) + blob[-3:]  # the least bits of a number, or a letter
    with closing(sqlite3.connect(folder / "index.db")) as db, db:
        spoilt = changed.decode() if isinstance(value, str) else changed
        db.execute(f"UPDATE {table} SET {column} = ? WHERE {column} = ?", [spoilt, value])

    checked = run_localrag("check", cwd=folder.parent)
    assert checked.returncode == 1
    assert "localrag check --repair" in checked.stdout + checked.stderr
    assert run_localrag("check", "--repair", cwd=folder.parent).returncode == 0
    index_again(folder.parent)
    assert found(folder) == ([], [])
    assert {name: rows(folder.parent, sql) for name, sql in contents.items()} == before


def test_answers_of_models_with_a_changed_byte_stay(folder):
    """Nothing can make them again; after a repair they count as they are."""
    store_marked_row(folder, "llm_calls")
    change_bytes(folder, b"mark of llm_calls", b"park of llm_calls")
    remedy(folder)

    assert found(folder)[0] == []
    assert rows(folder.parent, "SELECT text FROM llm_calls") == [('"park of llm_calls"',)]


@pytest.mark.ci
def test_a_check_reads_one_thing_at_a_time(tmp_path):
    """Of 30 MB of documents, their chunks and 15 MB of vectors, no part of it has more than 5 MB in memory."""
    db = open_index(tmp_path / "index", create=True)
    rng = np.random.default_rng(0)
    for n in range(100):
        text = "".join(f"Letter {n}.{k} is lost. " for k in range(14_000))
        document = Document(content_id(f"{n}.txt", content_id(text)), f"{n}.txt", "", text, str(n))
        cuts = [(k, at, min(len(text), at + 3080)) for k, at in enumerate(range(0, len(text), 3080))]
        chunks = [Chunk(content_id(document.id, a, z), document.id, k, a, z, text[a:z], 3) for k, a, z in cuts]
        documents.save_document(db, document, chunks)
        made = rng.standard_normal((len(chunks), 384), np.float32)
        found = zip(chunks, made / np.linalg.norm(made, axis=1, keepdims=True), strict=True)
        put = "INSERT INTO embeddings (kind, subject_id, content_hash, embedder, vector) VALUES ('chunk', ?, ?, 'e', ?)"
        db.conn.executemany(put, ((c.id, content_id(c.text), v.tobytes()) for c, v in found))
    db.conn.commit()
    runs.save_settings(db, embedder={"fingerprint": "e"})

    for name, check in {**CHECKS, "full text": check_full_text}.items():
        if name not in ("chunks", "full text", "vectors"):
            continue
        tracemalloc.start()
        looked_at, wrong = check(db)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert not wrong, looked_at
        assert peak < 5 << 20, name
