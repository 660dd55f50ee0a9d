"""Vectors too many to be compared one by one, held against brute force: made by difference, torn, missing, of another time, narrowed."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import faiss
import numpy as np
import pytest

from localrag.filters import DocumentFilter
from localrag.records import Chunk, Document, content_id
from localrag.store import chunks as chunks_store
from localrag.store import documents, generations, runs, vectors
from localrag.store.check import check_index, repair_index
from localrag.store.database import snapshot
from localrag.store.erasure import scrub_files
from localrag.store.filtered import open_filtered
from localrag.store.opening import open_index
from localrag.system.trust import record_cache_file

LEAST, MANY, WIDTH, TOPICS = 500, 3000, 32, 40
AIMS = np.random.default_rng(7).normal(size=(TOPICS, WIDTH))


def unit(matrix):
    return (matrix / np.linalg.norm(matrix, axis=1, keepdims=True)).astype(np.float32)


def about(n, seed, topics=TOPICS):
    """Vectors as texts have them: near others of their topic."""
    rng = np.random.default_rng(seed)
    return unit(AIMS[rng.integers(topics, size=n)] + rng.normal(0, 0.4, (n, WIDTH)))


def put(db, names, matrix):
    vectors.save_vectors(db, "chunk", "m", names, dict.fromkeys(names, "h"), matrix)


def remove(db, names):
    with db.atomic():
        db.conn.executemany("DELETE FROM embeddings WHERE kind = 'chunk' AND subject_id = ?", [(n,) for n in names])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(vectors, "INDEX_FROM_VECTORS", LEAST)
    monkeypatch.setattr(vectors, "MAX_SCANNED_VECTORS", MANY // 8)
    return tmp_path


@pytest.fixture
def db(folder):
    """An index with an index file of its vectors, which their publication makes."""
    db = open_index(folder, create=True)
    put(db, [f"s{n:04}" for n in range(MANY)], about(MANY, 1))
    generations.publish(db)
    return db


def file_in(folder):
    (file,) = folder.glob("*.faiss")
    return file


def brute(db, query, k=10, inside=None):
    """The best by comparing all, as (id, cosine)."""
    ids, matrix = vectors.load_vectors(db, "chunk")
    rows = [(i, float(s)) for i, s in zip(ids, matrix @ query, strict=True) if inside is None or i in inside]
    return sorted(rows, key=lambda row: (-row[1], row[0]))[:k]


def recall(db, folder, queries, k=10, inside=None, of=None):
    """The share of what brute force finds that is found; cosines are exact, in order."""
    hits = []
    for query in queries:
        best = dict(brute(db, query, k, inside))
        found = vectors.nearest(of or db, folder, "chunk", query, k)
        assert len(found) == len(best)
        assert [s for _, s in found] == sorted((s for _, s in found), reverse=True)
        assert all(s == pytest.approx(best[i], abs=1e-5) for i, s in found if i in best)
        hits.append(len(best.keys() & dict(found)) / len(best))
    return np.mean(hits)


QUERIES = about(100, 2)


def test_many_vectors_are_found_as_by_brute_force(db, folder):
    """From the index file nearly all that comparing every vector finds, with exact cosines; few are compared one by one, all of them."""
    assert recall(db, folder, QUERIES) > 0.98
    assert len(vectors.nearest(db, folder, "chunk", QUERIES[0], 10 * MANY)) == MANY
    assert vectors.nearest(db, folder, "chunk", QUERIES[0], 0) == []
    assert vectors.matches_vectors(db, folder, "chunk")
    remove(db, [f"s{n:04}" for n in range(LEAST, MANY)])
    vectors.update_indexes(db)
    assert vectors.file_of(db, "chunk") is None
    assert list(folder.glob("*.faiss")) == []
    assert recall(db, folder, QUERIES) == 1


def test_a_small_change_leaves_the_file_as_it_is(db, folder):
    """What came is found, what went is not, what has another vector is found by the new one; no file is written."""
    file, mark = file_in(folder), file_in(folder).stat()
    put(db, [f"t{n}" for n in range(50)], QUERIES[:50])
    put(db, ["s0001"], QUERIES[60:61])
    remove(db, [vectors.nearest(db, folder, "chunk", q, 1)[0][0] for q in QUERIES[61:80]])
    vectors.update_indexes(db)

    assert (file_in(folder), file.stat()) == (file, mark)
    assert recall(db, folder, QUERIES) > 0.98
    assert vectors.nearest(db, folder, "chunk", QUERIES[3], 1)[0] == ("t3", pytest.approx(1, abs=1e-5))
    assert vectors.nearest(db, folder, "chunk", QUERIES[60], 1)[0][0] == "s0001"
    assert vectors.matches_vectors(db, folder, "chunk")


@pytest.mark.ci
def test_after_many_changes_the_file_is_made_anew(db, folder):
    """It holds just the present vectors, in more lists if they are many times as many."""
    before = faiss.read_index(str(file_in(folder))).nlist
    put(db, [f"t{n}" for n in range(4 * MANY)], about(4 * MANY, 4))
    remove(db, [f"s{n:04}" for n in range(0, 1200, 3)])
    vectors.update_indexes(db)
    index = faiss.read_index(str(file_in(folder)))
    assert index.nlist == 2 * before
    assert sorted(vectors.numbers_in(index).tolist()) == vectors.vector_numbers(db, "chunk").tolist()
    assert vectors.matches_vectors(db, folder, "chunk")
    assert recall(db, folder, QUERIES) > 0.95


@pytest.mark.parametrize("share", [0.01, 0.2, 0.9])
def test_among_the_selected_as_by_brute_force(folder, share):
    """Whether the documents chosen are few or many: only theirs, and nearly all of the best, also of what came after the file."""
    db = open_index(folder, create=True)
    for d in range(100):
        text = "x" * 30
        chunks = [Chunk(f"{d:03}-{k}", f"d{d}", k, k, k + 1, "x", 1) for k in range(30)]
        documents.save_document(db, Document(f"d{d}", f"{d}.txt", "x", text, str(d)), chunks)
    ids = [c.id for c in chunks_store.all_chunks(db)]
    matrix = about(len(ids), 5)
    put(db, ids[:-60], matrix[:-60])
    vectors.update_indexes(db)
    put(db, ids[-60:], matrix[-60:])
    step = round(1 / share) if share < 0.5 else 1
    names = [f"{d}.txt" for d in range(0, 100 if share < 0.5 else 90, step)]
    db.close()
    with snapshot(folder) as whole:
        chosen = open_filtered(whole, DocumentFilter(",".join(f"path={n}" for n in names)), folder)
        inside = chosen.subject_ids("chunk")
        assert len(inside) == 30 * len(names)
        assert recall(whole, folder, QUERIES[:30], inside=inside, of=chosen) > 0.98
        assert len(vectors.nearest(chosen, folder, "chunk", QUERIES[0], MANY)) == len(inside)


def test_a_database_of_another_time_does_not_use_the_file(db, folder):
    """A copy of the database from before, put back, names a file that is gone; its numbers go on from where it was."""
    db.conn.commit()
    with closing(sqlite3.connect(folder / "copy")) as copy:
        db.conn.backup(copy)
    put(db, [f"t{n}" for n in range(600)], about(600, 6))
    vectors.update_indexes(db)
    db.close()
    for path in folder.glob("index.db*"):
        path.unlink()
    shutil.move(folder / "copy", folder / "index.db")
    again = open_index(folder, create=True)
    put(again, [f"u{n}" for n in range(600)], about(600, 8))
    assert recall(again, folder, QUERIES[:20]) == 1
    vectors.update_indexes(again)
    assert recall(again, folder, QUERIES) > 0.98
    assert vectors.matches_vectors(again, folder, "chunk")


@pytest.mark.ci
def test_what_cannot_be_written_leaves_what_was(db, folder, monkeypatch):
    """A full disk, or a process that is killed: the file before is named, there and right, and nothing half-made stays."""
    file = file_in(folder)
    put(db, [f"t{n}" for n in range(400)], about(400, 3))

    def full(index, path):
        Path(path).write_bytes(b"half")
        raise RuntimeError("No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(faiss, "write_index", full)
        vectors.update_indexes(db)
    assert list(folder.glob("*.faiss*")) == [file]
    assert recall(db, folder, QUERIES) > 0.98
    vectors.update_indexes(db)
    assert file_in(folder) != file
    assert recall(db, folder, QUERIES) > 0.98


def test_a_number_is_never_given_again(db):
    """Not that of the last vector, nor after the database was written anew."""
    last = int(vectors.vector_numbers(db, "chunk")[-1])
    remove(db, [f"s{MANY - 1:04}"])
    db.conn.commit()
    db.execute("VACUUM")
    put(db, ["t"], about(1, 9))
    assert vectors.vector_numbers(db, "chunk")[-1] > last


def test_another_embedder_gets_a_file_of_its_own(db, folder):
    """Vectors of another length are found while the file is still of the old ones, and from a new one after that."""
    wider = unit(np.random.default_rng(3).normal(size=(MANY, 2 * WIDTH)))
    put(db, [f"s{n:04}" for n in range(MANY)], wider)
    assert vectors.nearest(db, folder, "chunk", wider[5], 1)[0][0] == "s0005"
    vectors.update_indexes(db)
    assert vectors.nearest(db, folder, "chunk", wider[5], 1)[0][0] == "s0005"
    assert vectors.matches_vectors(db, folder, "chunk")


def test_an_erasure_leaves_nothing_of_a_vector_in_the_file(db, folder):
    """What is removed for good leaves no code behind, however little it is."""
    gone = vectors.vector_numbers(db, "chunk")[:3]
    remove(db, ["s0000", "s0001", "s0002"])
    assert scrub_files(db, folder)
    index = faiss.read_index(str(file_in(folder)))
    assert not np.isin(gone, vectors.numbers_in(index)).any()
    assert vectors.matches_vectors(db, folder, "chunk")


def test_questions_of_several_states_in_turn(folder):
    """A process that is asked on behalf of an earlier and a later state has the vectors of each."""
    db = open_index(folder, create=True)
    put(db, [f"s{n:03}" for n in range(300)], about(300, 1))
    with snapshot(folder) as before:
        remove(db, [f"s{n:03}" for n in range(0, 100, 2)])
        put(db, [f"t{n}" for n in range(30)], QUERIES[:30])
        db.conn.commit()
        with snapshot(folder) as after:
            for _ in range(2):
                for seen in (before, after):
                    assert recall(seen, folder, QUERIES[:20]) == 1


def test_a_check_knows_index_files(folder):
    """One that is missing is due, one with other vectors is wrong; a repair makes it."""
    db = open_index(folder, create=True)
    ids = [content_id("d", n, n + 1) for n in range(MANY)]
    documents.save_document(
        db, Document("d", "d.txt", "d", "x" * MANY, "h"), [Chunk(i, "d", n, n, n + 1, "x", 1) for n, i in enumerate(ids)]
    )
    vectors.save_vectors(db, "chunk", "m", ids, dict.fromkeys(ids, content_id("x")), about(MANY, 1))
    runs.save_settings(db, embedder={"fingerprint": "m"})
    vectors.update_indexes(db)

    def said():
        return [(w.text, w.is_pending) for w in check_index(db, folder)[-1].problems]

    assert said() == []
    data = file_in(folder).read_bytes()
    file_in(folder).write_bytes(data[:-150] + bytes(100) + data[-50:])
    record_cache_file(file_in(folder))
    assert said() == [("the FAISS index of chunks has other vectors than the database", False)]
    repair_index(db, folder)
    assert said() == []
    file_in(folder).unlink()
    assert said() == [("chunks have no FAISS index: each question compares all vectors", True)]
