"""The store: round trips, deletion, full text, vectors against brute force, versions, the writer's lock."""

import sqlite3
import threading
import time
from dataclasses import replace

import pytest

from localrag.records import (
    Answer,
    Chunk,
    Citation,
    Community,
    Document,
    DocumentBlock,
    DocumentPart,
    Entity,
    Failure,
    Finding,
    Graph,
    LlmCall,
    Mention,
    Quote,
    Report,
)
from localrag.store import answers, documents, generations, graph, llm_cache, runs
from localrag.store import chunks as chunks_store
from localrag.store.full_text import search_chunks
from localrag.store.opening import open_index
from tests.graphs import replace_graph, steps_of


@pytest.fixture
def db(tmp_path):
    return open_index(tmp_path / "index", create=True)


def add(db, path, *texts):
    document = Document(f"doc-{path}", path, path, "".join(texts), f"hash-{path}-{texts}")
    at, chunks = 0, []
    for n, text in enumerate(texts):
        chunks.append(Chunk(f"{path}-{n}", document.id, n, at, at + len(text), text, 3))
        at += len(text)
    documents.save_document(db, document, chunks)
    return document, chunks


def test_a_document_is_read_as_it_was_stored(db):
    """With its parts and blocks, also by its id."""
    table = DocumentBlock("table", 8, 24, columns=("Name", "Größe"))
    blocks = (DocumentBlock("heading", 0, 6, 2), table)
    parts = (DocumentPart("page 1", 0, 24),)
    document = Document("d", "d.html", "Boats", "## Boats\n\nName: a · Größe: 3", "h", (("author", "R"),), parts, blocks, "2031-01-01")
    documents.save_document(db, document, [])

    assert documents.find_document(db, "d.html") == documents.document_by_id(db, "d") == document


def test_chunks_are_chosen_and_read_in_steps_that_grow_with_their_number(db):
    """Four times as many documents take SQLite four times as many steps, not sixteen, while a run has the next generation in view."""

    def steps():
        with generations.view_next_generation(db):
            found = chunks_store.chunks_without_sentences(db), chunks_store.chunks_without_vector(db, "e")
            return steps_of(db, lambda: read.append([len(list(some)) for some in found]))

    read = []
    for n in range(300):
        add(db, f"{n}.txt", f"Letter {n}.")
    few = steps()
    for n in range(300, 1200):
        add(db, f"{n}.txt", f"Letter {n}.")

    assert steps() < 6 * few
    assert read == [[300, 300], [1200, 1200]]


def test_a_document_costs_the_same_however_many_there_are(db):
    """Storing, replacing and taking one out looks at its own rows: SQLite takes as many steps beside 600 documents as beside 60."""
    work = (
        lambda: add(db, "new.txt", "The ferry leaks. ", "Nobody knows."),
        lambda: add(db, "new.txt", "The ferry leaks. ", "Everybody knows."),
        lambda: documents.remove_document(db, "new.txt"),
    )
    for n in range(60):
        add(db, f"{n}.txt", f"Letter {n}.")
    few = [steps_of(db, one) for one in work]
    for n in range(60, 600):
        add(db, f"{n}.txt", f"Letter {n}.")

    assert all(steps_of(db, one) < 2 * before for one, before in zip(work, few, strict=True))


def test_the_first_committed_answer_stays(db):
    """A call is found by its key; saving it again changes nothing."""
    call = LlmCall("k", "task", "m", "p", "g", "s", "text", (1, 2), 10, 2, 0.5)
    calls = llm_cache.SqliteLlmCache(db)
    calls.save(call, needed=True)
    calls.save(LlmCall("k", "task", "m", "p", "g", "s", "other", (), 1, 1, 1.0), needed=True)

    assert calls.find("k") == call
    assert calls.find("unknown") is None
    assert llm_cache.total_llm_usage(db)["output_tokens"] == 2


def test_failures_runs_and_answers_are_kept(db):
    """What failed is a row until it is made good; the last run and answer can be read back."""
    runs.save_failure(db, Failure("extraction", "c1", "cut off"))
    runs.start_run(db, 1)
    run = runs.start_run(db, 2)
    runs.end_run(db, run, "partial", {"steps": 7})
    answer = Answer("q", "a [1]", "local", 1, (Citation(1, "a.txt", 0, 3, "One"),), note="n")
    kept = answers.save_answer(db, answer)
    following = answers.save_answer(db, replace(answer, question="r", conversation=kept.conversation))

    assert runs.failures(db) == [Failure("extraction", "c1", "cut off")]
    runs.clear_failures(db, "extraction", ["c1"])
    assert runs.failures(db) == []
    assert (runs.last_run(db)["state"], runs.last_run(db)["figures"]) == ("partial", {"steps": 7})
    assert kept == replace(answer, id=1, conversation=kept.conversation)
    assert answers.last_answer(db) == following
    assert answers.conversation(db, kept.conversation) == [kept, following]
    assert [n for n, *_ in answers.newest_answers(db, 5)] == [2, 1]
    assert graph.counts(db)["documents"] == 0


def test_a_failed_transaction_leaves_nothing(db):
    """When a document's chunks cannot be stored, neither is the document."""
    twice = Chunk("same", "d", 0, 0, 1, "x", 1)
    with pytest.raises(sqlite3.IntegrityError):
        documents.save_document(db, Document("d", "d.txt", "d", "x", "h"), [twice, twice])

    assert documents.document_hashes(db) == {}


def test_a_long_query_is_searched_by_its_rarest_words(db):
    """Of a query of many words those decide that few chunks have; words that no chunk has, and accents, do no harm."""
    common = "people talk about ships harbours weather prices fishing winter summer families letters meetings"
    add(db, "a.txt", *(f"{common} number{n}. " for n in range(5)), f"{common} The café owner’s barometers fell.")

    assert [c for c, _ in search_chunks(db, f"{common} cafe barometer zeppelin", 1)] == ["a.txt-5"]
    assert len(search_chunks(db, common, 9)) == 6


def test_a_transaction_that_begins_by_reading_waits_for_others(tmp_path):
    """A process that reads and then writes in one transaction is not refused because another wrote in between: that one waits."""
    folder = tmp_path / "index"
    one, written = open_index(folder, create=True), []

    def write():
        runs.save_settings(open_index(folder), other=1)
        written.append(True)

    with one.atomic():
        assert "other" not in runs.load_settings(one)
        thread = threading.Thread(target=write)
        thread.start()
        time.sleep(0.3)
        assert not written
        runs.save_settings(one, one=1)
    thread.join()

    assert {"one", "other"} <= runs.load_settings(one).keys()


@pytest.fixture
def reported(db):
    """Four passages; two communities of level 0, the first with two parts of which one has a report."""
    add(db, "a.txt", "Ann met Bert. ", "Ann slept. ", "Bert left. ", "Nobody came.")
    entities = tuple(Entity(i, i, "person") for i in ("ann", "bert"))
    places = (("ann", 0, 0), ("ann", 0, 9), ("bert", 0, 8), ("ann", 1, 14), ("bert", 2, 25))
    mentions = tuple(Mention(e, f"a.txt-{chunk}", e, at, at + 3) for e, chunk, at in places)
    communities = [
        Community("both", 0, 0, None, ("ann", "bert")),
        Community("one", 1, 0, "both", ("ann",)),
        Community("other", 1, 1, "both", ("bert",)),
    ]
    replace_graph(db, Graph(entities, mentions=mentions), communities, "made")
    for key in ("both", "one"):
        quotes = (Quote("a.txt-0", 0, 13, "Ann met Bert."),)
        graph.save_reports(db, [Report(key, "h", key, "so it is", None, "", (Finding("s", "e", quotes),))])
    generations.publish(db, without_report=[])
    return db


def test_reports_come_one_by_one_and_stand_for_parts_without(reported):
    """Chosen reports come in the order asked for; a part without one has that above it, once."""
    assert [r.title for r in graph.reports_of(reported, ["one", "none", "both"])] == ["one", "both"]
    assert graph.communities_with_report(reported) == [("both", 0, None), ("one", 1, "both")]
    assert graph.report_communities_at_level(reported, 1) == ["one", "both"]
    assert [r.title for r in graph.reports_of(reported, graph.report_communities_at_level(reported, 1))] == ["one", "both"]
    assert graph.community_overlap(reported, ["ann"]) == {"both": 1, "one": 1}
    assert graph.entities_of_communities(reported, ["both", "other"]) == {"both": ["ann", "bert"], "other": ["bert"]}
