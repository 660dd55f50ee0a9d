"""Questions to some of the documents: nothing outside them is quoted, cited or used, in any mode."""

import asyncio
import re
import shutil
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localrag.asking import answer_question
from localrag.demo import CORPUS
from localrag.errors import UsageError
from localrag.filters import DocumentFilter
from localrag.project import filter_project, open_for_query
from localrag.query.local_search import _relationship_sources, _report_sources
from localrag.query.modes import MODE_FUNCTIONS
from localrag.query.question import QueryOptions
from localrag.query.retriever import hybrid_search, named_entities
from localrag.store import answers, documents, graph, runs, vectors
from localrag.store import chunks as chunks_store
from localrag.store.database import caches_of, snapshot
from localrag.store.filtered import NoMatchingDocuments
from localrag.store.opening import open_index
from tests.query import made

QUESTIONS = (
    "What happened to the Marian Dace?",
    "Who is Chen Guoliang?",
    "What are the main themes?",
    "谁是陈国梁？",
    "Give me an overview of Nora Wexley.",
    "How much money did the Engine Fund receive from the Pallister & Rowe Shipping Company?",
)
PATHS = sorted(f"docs/{p.relative_to(CORPUS).as_posix()}" for p in CORPUS.rglob("*") if p.suffix in (".md", ".txt"))
FOLDERS = sorted({p.rpartition("/")[0] for p in PATHS})


@pytest.fixture(scope="module")
def demo(demo_town, tmp_path_factory):
    """A copy of the demo, in an index made without a model."""
    folder = shutil.copytree(demo_town, tmp_path_factory.mktemp("demo") / "town")
    with open_for_query(folder / ".localrag") as opened:
        yield opened


def ask(project, question, where="", **options):
    return made.ask(project, question, selection=DocumentFilter(where), **options)


def some_paths(least=1):
    return st.lists(st.sampled_from(PATHS), min_size=least, max_size=len(PATHS) - 1, unique=True)


def only(paths):
    return ",".join(f'path="{p}"' for p in paths)


@pytest.mark.slow
@settings(max_examples=25)
@given(some_paths(), st.sampled_from(["auto", *MODE_FUNCTIONS]), st.sampled_from(QUESTIONS))
@pytest.mark.ci
def test_every_citation_of_every_mode_is_of_the_selected_documents(demo, paths, mode, question):
    """For any set of documents; and what the answer says between its titles and marks stands in these documents."""
    made = ask(demo, question, only(paths), mode=mode)

    assert {c.path for c in made.citations} <= set(paths)
    assert made.unsupported_sentences == 0
    for c in made.citations:
        assert documents.document_text(demo.db, c.path)[c.start : c.end] == c.quote


@settings(max_examples=12)
@given(some_paths(), st.sampled_from([m for m in MODE_FUNCTIONS if m != "basic"]), st.sampled_from(QUESTIONS[:4]))
@pytest.mark.ci
def test_what_a_model_would_be_shown_is_of_the_selected_documents(demo, paths, mode, question):
    """`--context-only` in every mode: sources, their titles, reports, relationships: no sentence of another document."""
    made = ask(demo, question, only(paths), mode=mode, context_only=True, style="abstractive")
    own = " ".join(documents.document_text(demo.db, p) for p in paths)
    for path in set(PATHS) - set(paths):
        for sentence in sentences_of(demo, path):
            assert sentence in own or sentence not in made.answer
    assert {c.path for c in made.citations} <= set(paths)


def sentences_of(project, path):
    text = documents.document_text(project.db, path)
    return [s.strip() for line in text.splitlines() for s in line.split(". ") if len(s.strip()) > 30]


def index_of(demo, paths, folder):
    """An index of some of the demo's documents: the same chunks and vectors, and nothing else."""
    db = open_index(folder, create=True)
    every = chunks_store.all_chunks(demo.db)
    for path in sorted(paths):
        document = documents.find_document(demo.db, path)
        documents.save_document(db, document, [c for c in every if c.document_id == document.id])
    ids, matrix = vectors.load_vectors(demo.db, "chunk", [c.id for c in chunks_store.all_chunks(db)])
    vectors.save_vectors(db, "chunk", "m", ids, dict.fromkeys(ids, "h"), matrix)
    runs.save_settings(db, settings={})
    return replace(demo, folder=folder, db=db, write_db=db)


@pytest.mark.slow
@settings(max_examples=15)
@given(some_paths(), st.sampled_from(QUESTIONS))
@pytest.mark.ci
def test_basic_finds_what_an_index_of_only_these_documents_finds(demo, tmp_path_factory, paths, question):
    """The same passages in the same order, and the same answer with the same confidence."""
    alone = index_of(demo, paths, tmp_path_factory.mktemp("alone"))
    vector = demo.embedder.embed([question])[0]
    with filter_project(demo, DocumentFilter(only(paths))) as project:
        found = [c.id for c in hybrid_search(question, vector, project, 20)]

    assert found == [c.id for c in hybrid_search(question, vector, alone, 20)]
    same = (ask(demo, question, only(paths), mode="basic"), ask(alone, question, mode="basic"))
    assert same[0].answer == same[1].answer
    assert same[0].confidence == same[1].confidence
    alone.db.close()


@settings(max_examples=15)
@given(some_paths())
@pytest.mark.ci
def test_graph_and_reports_are_seen_through_the_selected_documents(demo, paths):
    """Entities, evidence, claims and findings are those of these documents; no description or title comes from another."""
    inside = {c.id for p in paths for c in chunks_store.all_chunks(demo.db) if documents.document_path(demo.db, c.id) == p}
    with filter_project(demo, DocumentFilter(only(paths))) as project:
        db = project.db
        named = {m.entity_id for m in graph.mentions(demo.db) if m.chunk_id in inside}
        assert {e.id for e in graph.entities(db)} == named
        assert {m.chunk_id for m in graph.mentions(db)} | {e.chunk_id for e in graph.evidence(db)} <= inside
        shown = {m.entity_id: {n.name for n in graph.mentions(db, [m.entity_id])} for m in graph.mentions(db)}
        assert all(e.name in shown[e.id] and not e.description for e in graph.entities(db))
        evidence = {}
        for e in graph.evidence(demo.db):
            evidence.setdefault(e.relationship_id, set()).add(e.chunk_id)
        assert {r.id for r in graph.relationships(db)} == {r for r, chunks in evidence.items() if chunks & inside}
        assert not any(r.description for r in graph.relationships(db) if evidence[r.id] - inside)
        texts = " ".join(documents.document_text(demo.db, p) for p in paths)
        flat = "".join(texts.split()).casefold()
        for report in graph.reports_of(db, [i for i, *_ in graph.communities_with_report(db)]):
            assert {q.chunk_id for f in report.findings for q in f.quotes} <= inside
            names = re.split(r", | and |、|和", report.title)
            said = [report.title] if "".join(report.title.split()).casefold() in flat else names
            for text in (*said, *(f.explanation for f in report.findings)):
                assert "".join(text.split()).casefold() in flat
        sources = [*_report_sources(project, named), *_relationship_sources(project, named)]
        assert {q.chunk_id for s in sources for q in s.quotes} <= inside


def test_nothing_matches(demo):
    """The answer says so and what there is, cites nothing, and is kept; each condition is counted alone where only together they fail."""
    none = ask(demo, "Who is Chen Guoliang?", "path=docs/letters/*,type=pdf")
    assert none.answer == "No document matches path=docs/letters/*,type=pdf."
    assert not none.is_answerable
    assert not none.citations
    assert "Alone, path=docs/letters/* matches 3." in none.note
    assert "type=pdf matches none. There is: md (10), txt (7)." in none.note
    assert answers.last_answer(demo.db).filter_text == "path=docs/letters/*,type=pdf"
    folders = ask(demo, "Who?", "path=elsewhere").note
    assert all(f"{f}/ (" in folders for f in FOLDERS)
    dates = ask(demo, "Who?", "before=1900").note
    assert "the documents are dated" in dates
    with pytest.raises(NoMatchingDocuments), filter_project(demo, DocumentFilter("path=elsewhere")):
        pass


@pytest.mark.slow
@pytest.mark.ci
def test_a_conversation_keeps_its_documents(demo):
    """A question that goes on with a conversation is about the same documents, until it says otherwise."""
    first = ask(demo, "Who is Chen Guoliang?", "path=docs/press/*")
    on = asyncio.run(answer_question("And what did he say?", demo, QueryOptions(conversation=first.conversation)))
    other = ask(demo, "And what did he say?", "path=docs/logs/*", conversation=first.conversation)
    every = ask(demo, "And what did he say?", "", conversation=first.conversation)

    assert (on.filter_text, other.filter_text, every.filter_text) == ("path=docs/press/*", "path=docs/logs/*", "")
    assert on.citations
    assert all(c.path.startswith("docs/press/") for c in on.citations)


def test_a_name_from_outside_is_not_known_inside(demo):
    """An entity that no selected document mentions is not one, and its name is asked for as any words."""
    with filter_project(demo, DocumentFilter("path=docs/press/1974-07-06*")) as project:
        assert not named_entities("Who is Adela Strang?", project)
    assert named_entities("Who is Adela Strang?", demo)


def test_a_cache_is_of_the_whole_index(demo):
    """Asked first with a selection, the files beside the database are those of every document."""
    for path in demo.folder.glob("network.*"):
        path.unlink()
    from localrag.store import entity_network

    caches_of(demo.folder).clear()
    ask(demo, QUESTIONS[0], "path=docs/press/*", mode="mix")

    ids, matrix = vectors.load_vectors(demo.db, "chunk")
    assert vectors.nearest(demo.db, demo.folder, "chunk", matrix[-1], 1)[0][0] == ids[-1]
    assert entity_network.matches_graph(demo.db, demo.folder)


def test_a_question_of_the_whole_is_answered_from_few_documents(demo):
    """Of one short document all passages are read; of several, their reports as far as these documents say it."""
    several = ask(demo, "What are the main themes?", "path=docs/council/*")
    assert several.mode == "global"
    assert "of 6 documents" in several.answer
    one = ask(demo, "What are the main themes?", "path=docs/council/1974-01-18*")
    assert {c.path for c in one.citations} == {"docs/council/1974-01-18-school-memo.md"}
    assert one.is_answerable
    assert one.mode == "ts"
    assert "one short document" in one.reason


def test_an_unknown_key_of_metadata_is_an_error_that_lists_those_there_are(demo):
    """With what may have been meant."""
    with pytest.raises(UsageError, match="'titel'") as wrong:
        ask(demo, "Who?", "meta.titel=x")
    assert "title (17)" in wrong.value.hint
    assert "Did you mean title?" in wrong.value.hint


def test_the_database_is_not_written_to(demo):
    """What a selection needs is temporary: another connection sees none of it, and the file's version stays."""
    with snapshot(demo.folder) as db:
        before = db.execute("PRAGMA data_version").fetchone(), db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        with filter_project(demo, DocumentFilter("path=docs/press/*")) as project:
            assert project.db.execute("PRAGMA query_only").fetchone() == (1,)
            assert len(project.db.execute("SELECT id FROM documents").fetchall()) == 4
        assert before == (db.execute("PRAGMA data_version").fetchone(), db.execute("SELECT count(*) FROM sqlite_master").fetchone())
        assert len(db.execute("SELECT id FROM documents").fetchall()) == len(PATHS)
