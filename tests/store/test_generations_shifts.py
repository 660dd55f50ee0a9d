"""Chunks of an edited document whose text is stored again at another place."""

from dataclasses import replace

import pytest

from localrag.records import Chunk, Document, Finding, Quote, Report, content_id
from localrag.store import documents, graph
from localrag.store.generations import ChunkShift, reports_quoting_ended_chunks, shifted_chunks, shifted_report
from localrag.store.opening import open_index

SAME = "The mill stood."
BEFORE = ("Anna came.", SAME, "Hugh left.", SAME)
AFTER = ("It rained.", "Anna came.", SAME, SAME, "Hugh slept.")


def document(*texts):
    """A document, a chunk for each text."""
    whole = " ".join(texts)
    key, chunks, at = content_id(whole), [], 0
    for n, text in enumerate(texts):
        chunks.append(Chunk(content_id(key, n), key, n, at, at + len(text), text, 3))
        at += len(text) + 1
    return Document(key, "a.txt", "a", whole, key), chunks


@pytest.fixture
def edited(tmp_path):
    """An index of a document, its chunks and those of its next content."""
    db = open_index(tmp_path / "index", create=True)
    old, chunks = document(*BEFORE)
    documents.save_document(db, old, chunks)
    with db.atomic():  # a graph that speaks of it: its next content waits
        db.execute("INSERT INTO entities (id, name, type, description, degree, descriptions) VALUES ('e', 'e', '', '', 0, '[]')")
    new, later = document(*AFTER)
    documents.save_document(db, new, later)
    return db, chunks, later


def test_a_chunk_whose_text_is_there_again_is_shifted(edited):
    """The second of two equal texts becomes the second; what is not there any more is not."""
    db, old, new = edited
    assert shifted_chunks(db) == {
        old[0].id: ChunkShift(new[1].id, new[1].start),
        old[1].id: ChunkShift(new[2].id, new[2].start - old[1].start),
        old[3].id: ChunkShift(new[3].id, new[3].start - old[3].start),
    }


def test_a_report_quotes_a_shifted_chunk_where_it_is_now(edited):
    """Its words stay; a quote of what is gone is told apart."""
    db, old, new = edited
    first = Quote(old[1].id, old[1].start, old[1].end, SAME)
    lost = Quote(old[2].id, old[2].start, old[2].end, BEFORE[2])
    reports = [Report(key, "", "t", "s", None, "", (Finding("f", "e", quotes),)) for key, quotes in (("1", (first,)), ("2", (first, lost)))]
    db.conn.executemany("INSERT INTO communities (id, level, ordinal) VALUES (?, 0, ?)", [("1", 0), ("2", 1)])
    graph.save_reports(db, reports)
    db.execute("INSERT INTO reports SELECT * FROM staged_reports")
    db.conn.executemany("INSERT INTO report_documents VALUES (?, ?)", [(old[0].document_id, "1"), (old[0].document_id, "2")])

    assert reports_quoting_ended_chunks(db) == {"1": {old[1].id}, "2": {old[1].id, old[2].id}}
    (finding,) = shifted_report(reports[0], shifted_chunks(db)).findings
    assert finding.quotes == (replace(first, chunk_id=new[2].id, start=new[2].start, end=new[2].end),)
