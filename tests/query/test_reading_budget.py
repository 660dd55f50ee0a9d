"""What a question costs is bounded, said beforehand and agreed on: on a made index of thousands of reports and passages."""

import asyncio
import io
import re
import sys
import tracemalloc

import numpy as np
import pytest

from localrag.asking import answer_question
from localrag.cli.commands.ask import ask_and_print
from localrag.engine.embedder import open_embedder
from localrag.engine.settings import EngineOptions
from localrag.errors import LocalragError
from localrag.index import Index
from localrag.llm import budgets
from localrag.model_files import find_chat_model, find_embedder
from localrag.project import open_for_query
from localrag.query import question
from localrag.query.question import NO_LIMIT, AnswerCallbacks, QueryOptions
from localrag.records import Chunk, Community, Document, Entity, Finding, Graph, Mention, Quote, Report
from localrag.store import documents, generations, graph, runs, vectors
from localrag.store.database import keep_caches
from localrag.store.opening import open_index
from tests import fakes
from tests.conftest import mostly_ci
from tests.fakes import Scripted, answered_by, example
from tests.graphs import replace_graph

QUESTION = "What happened to the ferry?"
MANY = 3000
BODY = " ".join(f"The council of the town met again in the winter of {1800 + n}." for n in range(60))  # of a passage: 3.5 kB
PER_DOCUMENT = 100


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    """3,000 passages, each with an entity, a community of level 0 and a report of its own; every tenth is about a ferry."""
    folder = tmp_path_factory.mktemp("large") / ".localrag"
    db = open_index(folder, create=True)
    embedder = open_embedder(find_embedder(None))
    models = {"chat_model": find_chat_model(None), "embedder": embedder.file}
    runs.save_settings(db, **{k: {"name": f.name, "path": f.cli_argument, "fingerprint": f.fingerprint} for k, f in models.items()})
    runs.save_settings(db, budgets_model={models["chat_model"].fingerprint: 4096})
    chunks = list(passages())
    for first in range(0, MANY, PER_DOCUMENT):
        some = chunks[first : first + PER_DOCUMENT]
        document = Document(some[0].document_id, f"{some[0].document_id}.txt", "", "".join(c.text for c in some), some[0].document_id)
        documents.save_document(db, document, some)
    entities = tuple(Entity(f"e{n:05}", f"Skua {n}", "thing") for n in range(MANY))
    mentions = tuple(Mention(e.id, c.id, e.name, c.start + 4, c.start + 4 + len(e.name)) for e, c in zip(entities, chunks, strict=True))
    communities = [Community(f"k{n:05}", 0, n, None, (e.id,)) for n, e in enumerate(entities)]
    replace_graph(db, Graph(entities, mentions=mentions), communities, "made")
    for n, c in enumerate(chunks):
        quotes = tuple(Quote(c.id, c.start, c.start + len(first), first) for first in [c.text[: c.text.index(".") + 1]])
        found = (Finding(f"Skua {n}", quotes[0].text, quotes), Finding("The council", c.text[-1200:], quotes))
        graph.save_reports(db, [Report(f"k{n:05}", "h", f"Skua {n}", quotes[0].text, None, "", found)])
    generations.publish(db, without_report=[])
    about = embedder.embed([QUESTION, "Who mended the clock?"])
    near = np.stack([about[int(n % 10 != 0)] for n in range(MANY)]) + np.random.default_rng(0).normal(0, 0.01, (MANY, about.shape[1]))
    near = (near / np.linalg.norm(near, axis=1, keepdims=True)).astype(np.float32)
    for kind, ids in (("report", [c.id for c in communities]), ("chunk", [c.id for c in chunks])):
        vectors.save_vectors(db, kind, embedder.file.fingerprint, ids, dict.fromkeys(ids, "h"), near)
    db.close()
    return folder


def passages():
    """Passages whose first sentence, unlike every other, speaks of a ferry or of a clock."""
    at = 0
    for n in range(MANY):
        text = f"The Skua {n} is a {'ferry that sank' if n % 10 == 0 else 'clock that stopped'} in the year {n}. {BODY}"
        at = 0 if n % PER_DOCUMENT == 0 else at
        yield Chunk(f"c{n:05}", f"d{n // PER_DOCUMENT:03}", n % PER_DOCUMENT, at, at + len(text), text, 900)
        at += len(text)


def well(request):
    """A good answer to any request."""
    if request.grammar is None:
        return "Every tenth of them sank. [1]"
    value = {"answer": "5"} if request.task == "rate" else example(request.grammar.schema)
    return value if request.grammar.from_json else "5"


@pytest.fixture
def ask(index, monkeypatch, tmp_path):
    """A function that asks the large index of a scripted model; nothing is kept from test to test."""
    monkeypatch.setattr(budgets, "cache_dir", lambda: tmp_path)
    said = []

    def asked(mode, says=well, *, agree=None, style="abstractive", **options):
        with open_for_query(index, engine=EngineOptions(notify=said.append, use_adapters=False)) as project:
            project.db.execute("DELETE FROM llm_calls")
            scripted = answered_by(project, Scripted(says, window=4096))
            given = asyncio.run(
                answer_question(QUESTION, project, QueryOptions(mode, style=style, **options), AnswerCallbacks(confirm_cost=agree))
            )
        return given, scripted, said

    return asked


def tokens_of(engine):
    """Tokens that were put before the engine, four characters each."""
    return sum(len(m["content"]) for r in engine.requests for m in r.messages) // 4


def numbers_read(engine):
    """Which of the passages or reports the map calls showed."""
    return {int(n) for r in engine.requests if r.task == "map" for n in re.findall(r"The Skua (\d+) is", r.messages[-1]["content"])}


@pytest.mark.parametrize(("mode", "what"), [("global", "reports"), *mostly_ci([("ts", "passages")])])
def test_a_question_costs_so_much_and_no_more(ask, mode, what):
    """Of 3,000 reports or passages those that bear most on the question are read, in 50 calls and 100,000 tokens at most."""
    given, engine, _ = ask(mode)
    read = numbers_read(engine)

    assert len(engine.requests) <= question.MAX_QUESTION_CALLS
    assert tokens_of(engine) <= question.MAX_QUESTION_TOKENS
    assert len(read) >= 40
    assert all(n % 10 == 0 for n in read)
    assert f"{len(read)} of {MANY} {what} read in {engine.tasks.count('map')} calls" in given.note
    assert "--max-calls" in given.note
    assert engine.tasks[-1] == "reduce"


def test_the_user_may_set_another_limit(ask):
    """With --max-calls 5 there are four map calls and one that puts their points together; the note says what was left out."""
    given, engine, _ = ask("global", max_calls=5)

    assert engine.tasks == ["map"] * 4 + ["reduce"]
    assert "Stopped at the limit of 5 calls" in given.note
    assert f" of {MANY} reports read in 4 calls" in given.note


def in_other_words(request):
    """A good answer to any request, none of which repeats its question."""
    if request.task not in ("answer", "reduce"):
        return well(request)
    return "Every tenth of them sank. [1]"


def test_drift_keeps_a_call_for_putting_together(ask):
    """With few calls there are fewer reports and follow-ups, and what they say is still put together."""
    for most, asked in ((1, ["primer"]), (4, ["primer"] * 3 + ["reduce"]), (7, ["primer"] * 5 + ["answer", "reduce"])):
        given, engine, _ = ask("drift", in_other_words, max_calls=most)

        assert engine.tasks == asked
        assert given.mode == "drift"
        assert f"Stopped at the limit of {most} calls" in given.note


@pytest.mark.ci
def test_where_nothing_is_limited_everything_is_read(ask):
    """The paper's comparisons read every report."""
    given, engine, _ = ask("global", max_calls=NO_LIMIT)

    assert numbers_read(engine) == set(range(MANY))
    assert f"{MANY} reports read" in given.note


def test_dynamic_selection_has_the_same_limit(ask):
    """Half of the calls at most are ratings, of the reports nearest the question; the note says how many were passed over."""
    given, engine, _ = ask("global", dynamic=True)

    rated = [r.messages[-1]["content"] for r in engine.requests if r.task == "rate"]
    assert 10 <= len(rated) <= question.MAX_QUESTION_CALLS / 2
    assert all("ferry" in text for text in rated)
    assert len(engine.requests) <= question.MAX_QUESTION_CALLS
    assert tokens_of(engine) <= question.MAX_QUESTION_TOKENS
    assert f"of {len(rated)} looked at" in given.note
    assert f"{MANY - len(rated)} less relevant ones were skipped" in given.note


def test_the_best_so_far_is_what_was_found(ask):
    """With one call, or where the last one fails to come, the points of the map step are the answer."""
    one, engine, _ = ask("global", max_calls=1)
    assert engine.tasks == ["map"]
    assert "The Skua is a ferry." in one.answer

    nothing, engine, _ = ask("global", max_calls=0)
    assert engine.tasks == []
    assert nothing.citations
    assert "Stopped at the limit of 0 calls" in nothing.note


@pytest.mark.parametrize(("mode", "options"), [("global", {}), ("ts", {}), ("global", {"dynamic": True}), ("drift", {})])
def test_the_cost_is_said_and_agreed_on_before_the_first_call(ask, mode, options):
    """Calls, tokens and time by this machine's own speed are said; whoever says no is asked nothing of the model."""
    budgets.record_throughput(find_chat_model(None), {"rows": 2000, "seconds": 20.0})
    asked, calls = [], []

    def refuse():
        asked.append(1)
        return False

    with pytest.raises(LocalragError, match="was not called"):
        ask(mode, lambda r: calls.append(r) or well(r), agree=refuse, **options)
    assert calls == []
    _, engine, said = ask(mode, agree=lambda: asked.append(1) or True, **options)

    assert engine.tasks.count("reduce") == 1
    assert asked == [1, 1]
    n, tokens, minutes = re.search(r"takes (\d+) model calls, about ([\d,]+) tokens, about (\d+) (?:minutes|s)", said[-1]).groups()
    assert len(engine.requests) <= int(n) <= question.MAX_QUESTION_CALLS
    assert int(tokens.replace(",", "")) <= 1.1 * question.MAX_QUESTION_TOKENS
    assert mode == "drift" or int(minutes) == round(int(tokens.replace(",", "")) / 100 / 60)


@pytest.mark.ci
def test_without_a_terminal_and_on_a_fast_machine_nobody_is_asked(ask):
    """Nobody there, it goes on within its limits; a machine that needs seconds asks nobody."""
    budgets.record_throughput(find_chat_model(None), {"rows": 2000, "seconds": 20.0})
    _, engine, said = ask("global")
    assert engine.tasks.count("reduce") == 1
    assert "model calls" in said[-1]

    for _ in range(budgets.KEPT_RUNS):
        budgets.record_throughput(find_chat_model(None), {"rows": 200_000, "seconds": 20.0})
    _, engine, _ = ask("global", agree=lambda: pytest.fail("it takes ten seconds"))
    assert engine.tasks.count("reduce") == 1


@pytest.mark.parametrize(("mode", "options"), [("global", {}), ("global", {"dynamic": True}), ("ts", {}), ("drift", {}), ("local", {})])
def test_extractive_answers_hold_little_in_memory(ask, index, mode, options):
    """Whatever the size of the index (23 MB of text), an answer in the documents' own words holds a small part of it at a time."""
    with keep_caches(index):
        ask(mode, style="extractive", **options)  # what is loaded once for as long as an index is open does not count
        tracemalloc.start()
        try:
            given, engine, _ = ask(mode, style="extractive", **options)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert engine.requests == []
    assert given.citations
    assert all("ferry" in c.quote for c in given.citations)
    assert peak < 12e6, peak


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self):
        return True


@pytest.mark.parametrize(("typed", "yes"), [("n\n", False), ("y\n", False), ("", True)])
@pytest.mark.ci
def test_a_person_at_a_terminal_is_asked(index, monkeypatch, tmp_path, typed, yes):
    """On a terminal a long answer waits for a yes; `--yes` stands for it; a no asks nothing of the model and is an error with a hint."""
    monkeypatch.setattr(budgets, "cache_dir", lambda: tmp_path)
    budgets.record_throughput(find_chat_model(None), {"rows": 2000, "seconds": 20.0})
    stderr = Terminal()
    monkeypatch.setattr(sys, "stdin", Terminal(typed))
    monkeypatch.setattr(sys, "stderr", stderr)
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    with Index.open(index, engine=EngineOptions(notify=stderr.write)) as opened:
        project = opened._query_project()
        project.db.execute("DELETE FROM llm_calls")
        engine = answered_by(project, Scripted(well, window=4096))
        if typed == "n\n":
            with pytest.raises(LocalragError, match="was not called"):
                ask_and_print(QUESTION, opened, {"mode": "global", "style": "abstractive"}, asks=not yes)
        else:
            ask_and_print(QUESTION, opened, {"mode": "global", "style": "abstractive"}, asks=not yes)

    assert ("Go on?" in stderr.getvalue()) != yes
    assert re.search(r"takes \d+ model calls, about [\d,]+ tokens, about \d+ minutes", stderr.getvalue())
    assert ("reduce" in engine.tasks) == (typed != "n\n")


def test_a_slow_machine_quotes_reports_of_which_it_has_no_themes(ask, monkeypatch):
    """Where reading all reports would take minutes, and no passage has a vector, they are quoted; with --max-calls they are all read."""
    monkeypatch.setattr(fakes, "SPEED", 40.0)
    given, engine, _ = ask("global")
    assert engine.tasks == []
    assert given.citations
    assert "All: --max-calls 50" in given.note

    _, engine, _ = ask("global", max_calls=5)
    assert engine.tasks == ["map"] * 4 + ["reduce"]
