"""Generations in the store: what waits is seen by its writer alone, is published whole, and costs what is new in it."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import numpy as np
import pytest

from localrag.records import Chunk, Community, Document, Entity, Evidence, Graph, Mention, Relationship, content_id
from localrag.store import chunks as chunks_store
from localrag.store import database, documents, generations, graph, runs, vectors
from localrag.store.database import snapshot
from localrag.store.full_text import search_chunks
from localrag.store.opening import open_index
from localrag.text.sentences import sentence_bounds
from tests.graphs import staged_graph


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "index"


@pytest.fixture
def db(folder):
    """The writer of an index with two documents and a graph that speaks of them."""
    made = open_index(folder, create=True)
    for path in ("a.txt", "b.txt"):
        add(made, path, f"Ingrid Holm wrote {path}.")
    publish_graph(made)
    return made


def add(db, path, text, *, moved=False, size=None):
    """A document in chunks of `size` characters."""
    document = Document(content_id(path, content_id(text)), path, path, text, content_id(text))
    cuts = range(0, len(text), size or len(text))
    spans = [(n, at, min(len(text), at + (size or len(text)))) for n, at in enumerate(cuts)]
    chunks = [Chunk(content_id(document.id, a, z), document.id, n, a, z, text[a:z], 3) for n, a, z in spans]
    documents.save_document(db, document, chunks, moved=moved)
    return chunks


def publish_graph(db, state="graph"):
    """The graph of whatever chunks there are: Ingrid Holm is mentioned in each that names her."""
    with generations.view_next_generation(db):
        named = [c for c in chunks_store.all_chunks(db) if "Ingrid Holm" in c.text]
        at = {c.id: c.start + c.text.index("Ingrid Holm") for c in named}
        mentions = tuple(Mention("e", c.id, "Ingrid Holm", at[c.id], at[c.id] + 11) for c in named)
        made = Graph((Entity("e", "Ingrid Holm", "person"),), (), mentions)
        generations.publish(db, staged_graph(db, made, [Community("k", 0, 0, None, ("e",))]), settings={"graph_hash": state})


def seen(folder):
    """What a reader finds: texts of documents, what full text finds, chunks that are mentioned."""
    with snapshot(folder) as db:
        texts = {path: documents.document_text(db, path) for path in documents.document_hashes(db)}
        return texts, sorted(k for k, _ in search_chunks(db, "wrote", 9)), sorted(m.chunk_id for m in graph.mentions(db))


def test_a_change_is_seen_by_its_writer_alone_until_it_is_published(db, folder):
    """A changed, a moved and a removed document stay for readers what they were; the writer sees what will be, and then all do."""
    add(db, "c.txt", "Ingrid Holm wrote nothing here.")
    publish_graph(db)
    before = seen(folder)
    (changed,) = add(db, "a.txt", "Nobody wrote a.txt.")
    documents.remove_document(db, "b.txt")
    (moved,) = add(db, "d.txt", "Ingrid Holm wrote b.txt.", moved=True)

    assert seen(folder) == before
    with generations.view_next_generation(db):
        assert [c.text for c in chunks_store.all_chunks(db)] == [
            "Nobody wrote a.txt.",
            "Ingrid Holm wrote nothing here.",
            "Ingrid Holm wrote b.txt.",
        ]
        assert set(documents.document_hashes(db)) == {"a.txt", "c.txt", "d.txt"}
    publish_graph(db, "other")
    texts, found, mentioned = seen(folder)
    assert texts == {"a.txt": "Nobody wrote a.txt.", "c.txt": "Ingrid Holm wrote nothing here.", "d.txt": "Ingrid Holm wrote b.txt."}
    assert {changed.id, moved.id} <= set(found)
    assert moved.id in mentioned
    assert changed.id not in mentioned
    assert not any(generations.count_staged(db).values())


def test_a_change_that_is_changed_again_leaves_nothing_of_the_first(db, folder):
    """Of contents that were never published nothing is left: no chunk, extraction or vector."""
    (first,) = add(db, "a.txt", "Zebulon wrote a.txt.")
    vectors.save_vectors(db, "chunk", "e", [first.id], {first.id: "h"}, np.ones((1, 4), np.float32), waits={first.id})
    chunks_store.save_sentences(db, {first.id: sentence_bounds(first.text)})
    add(db, "a.txt", "Nobody wrote a.txt.")
    publish_graph(db)

    assert seen(folder)[0]["a.txt"] == "Nobody wrote a.txt."
    assert db.execute("SELECT count(*) FROM sentence_spans WHERE chunk_id = ?", [first.id]).fetchone() == (0,)
    assert vectors.load_vectors(db, "chunk")[0] == []
    add(db, "a.txt", "Once more.")
    documents.remove_document(db, "a.txt")
    publish_graph(db)
    assert "a.txt" not in seen(folder)[0]


def test_a_document_that_is_cut_otherwise_keeps_the_chunks_that_stay(db, folder):
    """The same text in other chunks, of which one is as before: it keeps its mentions, and its neighbours are found."""
    text = "Ingrid Holm wrote. Lars Holm wrote."
    whole = add(db, "c.txt", text)
    publish_graph(db)
    first, second = add(db, "c.txt", text, size=18)
    publish_graph(db)
    _, found, mentioned = seen(folder)
    assert whole[0].id not in found
    assert {first.id, second.id} <= set(found)
    assert first.id in mentioned
    add(db, "c.txt", text, size=18)  # the very same chunks
    publish_graph(db, "same")
    assert seen(folder)[1:] == (found, mentioned)


def test_an_edit_of_one_line_writes_little_however_large_the_graph(folder):
    """Publishing one changed document writes as many rows beside 400 as beside 40: only what differs."""
    db = open_index(folder, create=True)

    def written(of):
        made = Graph(
            tuple(Entity(f"e{n}", f"Name {n}", "person") for n in range(of)),
            tuple(Relationship(f"r{n}", f"e{n}", f"e{n + 1}") for n in range(of - 1)),
            tuple(Mention(f"e{n}", chunks[n].id, "Ingrid", 0, 6) for n in range(of)),
            tuple(Evidence(f"r{n}", chunks[n].id, 0, 9) for n in range(of - 1)),
        )
        groups = [Community(f"k{n}", 0, n, None, (f"e{n}",)) for n in range(of)]
        staged = staged_graph(db, made, groups)
        before = db.conn.total_changes
        generations.publish(db, staged, settings={"graph_hash": "g"})
        return db.conn.total_changes - before

    cost = []
    for of in (40, 400):
        chunks = [add(db, f"{n}.txt", f"Ingrid Holm wrote letter {n} of {of}.")[0] for n in range(of)]
        written(of)
        chunks[7] = add(db, "7.txt", "Ingrid Holm tore this one up.")[0]
        cost.append(written(of))

    assert cost[0] == cost[1] < 60  # of them half are of the tables' checksums


def test_vectors_that_wait_are_not_searched(db, folder):
    """The vector of a changed content, and any of another embedder, is used from the moment its generation is published."""
    old = chunks_store.all_chunks(db)[0]
    eye = np.eye(3, 4, dtype=np.float32)
    vectors.save_vectors(db, "chunk", "m", [old.id], {old.id: "h"}, eye[:1])
    (new,) = add(db, "a.txt", "Nobody wrote a.txt.")
    vectors.save_vectors(db, "chunk", "m", [new.id], {new.id: "n"}, eye[1:2], waits={new.id})

    def nearest():
        with snapshot(folder) as reader:
            return [k for k, _ in vectors.nearest(reader, folder, "chunk", eye[1], 5)]

    assert nearest() == [old.id]
    assert vectors.subjects_without_vector_of(db, "chunk", {new.id: "n"}, "m") == []
    publish_graph(db)
    assert nearest() == [new.id]
    vectors.save_vectors(db, "chunk", "other", [new.id], {new.id: "n"}, eye[2:], waits={new.id})
    assert nearest() == [new.id]
    assert vectors.subjects_without_vector_of(db, "chunk", {new.id: "n"}, "m") == []  # and what waited was another embedder's: dropped
    assert generations.count_staged(db)["vectors"] == 0


def test_a_question_reads_from_one_moment(db, folder):
    """Whatever is published while a snapshot is open, it shows what it showed, and cannot be written to."""
    with snapshot(folder) as reader:
        add(db, "a.txt", "Nobody wrote a.txt.")
        publish_graph(db)
        assert documents.document_text(reader, "a.txt") == "Ingrid Holm wrote a.txt."
        assert len(graph.mentions(reader)) == 2
        with pytest.raises(Exception, match="readonly"):
            runs.save_settings(reader, other=1)
    assert seen(folder)[0]["a.txt"] == "Nobody wrote a.txt."


@pytest.mark.ci
def test_the_log_stays_short_while_readers_come_and_go(db, folder, monkeypatch):
    """With readers at every moment, after many updates the write-ahead log is no longer than its limit and one update."""
    monkeypatch.setattr(database, "WAL_LIMIT_BYTES", 1 << 20)
    stop = threading.Event()

    def read(pause):
        time.sleep(pause)
        while not stop.is_set():
            with snapshot(folder) as reader:
                assert documents.document_hashes(reader)
                time.sleep(0.06)

    threads = [threading.Thread(target=read, args=(n / 50,)) for n in range(3)]
    for thread in threads:
        thread.start()
    longest = 0
    try:
        for n in range(40):
            add(db, "a.txt", f"Ingrid Holm wrote letter {n}. " + f"Nothing {n} was said. " * 5000)
            publish_graph(db, f"graph {n}")
            longest = max(longest, (folder / "index.db-wal").stat().st_size)
    finally:
        stop.set()
        for thread in threads:
            thread.join()

    assert longest < 3 << 20


def test_the_log_is_cut_where_one_reader_follows_another_without_a_gap(db, folder):
    """Readers that take over from one another while the log is written back do not keep it from being cut."""
    old, new, newest = ExitStack(), ExitStack(), ExitStack()

    def take_over():
        time.sleep(0.3)  # the log is being cut by now
        old.close()
        new.enter_context(snapshot(folder))  # takes the place of the first
        time.sleep(0.5)
        newest.enter_context(snapshot(folder))
        new.close()

    with ThreadPoolExecutor(max_workers=1) as readers:
        readers.submit(old.enter_context, snapshot(folder)).result()
        add(db, "a.txt", "Ingrid Holm wrote another letter.")  # which that reader does not see: SQLite waits for its place
        taken_over = readers.submit(take_over)
        cut = database.truncate_wal(db)
        taken_over.result()
        readers.submit(newest.close).result()

    assert cut
