"""A call that fails while a question is answered costs what it would have said, and the answer's note says so."""

import asyncio
import re
import shutil

import pytest

from localrag.engine.settings import EngineOptions
from localrag.errors import AnswerTruncated, EngineError
from localrag.llm.budgets import TokenBudgets
from localrag.project import open_for_query
from localrag.query import global_search, question
from tests.conftest import mostly_ci
from tests.fakes import CutOff, Scripted, answered_by, example
from tests.query import made

QUESTION = "What happened to the Old Quay?"


@pytest.fixture(scope="module")
def town(demo_town, tmp_path_factory):
    """A copy of the demo, indexed without a model."""
    return shutil.copytree(demo_town, tmp_path_factory.mktemp("demo") / "town") / ".localrag"


@pytest.fixture
def ask(town, tmp_path):
    """A function that asks a copy of the index a question of a scripted model; the ledger of another test answers nothing."""
    shutil.copytree(town, tmp_path / "index")

    def asked(mode, says, window=4096, engine="", text=QUESTION, **options):
        with open_for_query(tmp_path / "index", engine=EngineOptions(engine)) as project:
            scripted = answered_by(project, Scripted(says, window=window))
            return made.ask(project, text, mode, style="abstractive", **options), scripted

    return asked


def well(request):
    """A good answer to any request."""
    if request.grammar is None:
        return "The Skua is a ferry. [1]"
    value = {"answer": "5"} if request.task == "rate" else example(request.grammar.schema)
    if request.task == "primer":
        value["questions"] = ["Who sold the Old Quay?", "Who bought the Old Quay?"]
    return value


def fails_once(task, how):
    """A model that fails one request of a task, whichever comes first."""
    left = [how]
    return lambda request: left.pop() if left and request.task == task else well(request)


BROKEN = [CutOff('{"points": [{"descr'), EngineError("the step failed")]


@pytest.mark.parametrize("how", BROKEN, ids=["cut off", "failed"])
@pytest.mark.parametrize(("mode", "task", "options"), [
    ("global", "map", {}), *mostly_ci([("ts", "map", {}), ("drift", "primer", {}), ("global", "rate", {"dynamic": True})]),
])  # fmt: skip
def test_one_failed_call_costs_one_batch(ask, mode, task, options, how):
    """The other batches, reports and follow-ups make the answer; the note has the number of calls that failed."""
    given, engine = ask(mode, fails_once(task, how), **options)

    assert engine.tasks.count(task) > 1
    assert engine.tasks.count("reduce") == 1
    assert "The Skua is a ferry." in given.answer
    assert "1 of " in given.note
    assert "model calls failed" in given.note


@pytest.mark.ci
def test_a_follow_up_that_fails_leaves_the_others(ask):
    """Of drift's follow-up questions one fails; what the reports and the other follow-ups said is put together."""
    given, engine = ask("drift", fails_once("answer", EngineError("the step failed")))

    assert engine.tasks.count("answer") > 1
    assert engine.tasks[-1] == "reduce"
    assert given.mode == "drift"
    assert "1 of " in given.note


@pytest.mark.parametrize("mode", ["global", "ts"])
def test_where_every_map_call_fails_the_documents_answer(ask, mode):
    """Without a single point the most relevant sentences are the answer, each cited, and the note says why."""
    given, engine = ask(mode, lambda r: EngineError("the step failed") if r.task == "map" else well(r))

    n = engine.tasks.count("map")
    assert "reduce" not in engine.tasks
    assert len(given.citations) > 2
    assert not given.unsupported_sentences
    assert f"{n} of {n} model calls failed" in given.note
    assert "the step failed" in given.note


def test_a_batch_too_large_for_the_window_is_read_in_halves(ask, monkeypatch):
    """Where the window is smaller than budgets are for, no source is lost: each is in a batch of its own at worst."""
    monkeypatch.setattr(global_search, "effective_budgets", lambda *_: asyncio.sleep(0, TokenBudgets.of(16384)))
    given, engine = ask("global", well)

    answered = [r for r in engine.requests if r.task == "map" and sum(len(m["content"]) for m in r.messages) // 4 + r.max_tokens <= 4096]
    shown = [r.messages[-1]["content"].count("\n# ") for r in answered]
    first = engine.requests[0]
    assert first not in answered
    assert sum(shown) >= first.messages[-1]["content"].count("\n# ") > max(shown)
    assert "failed" not in given.note


@pytest.mark.ci
def test_a_rewritten_question_that_fails_is_asked_as_it_is(ask):
    """A conversation goes on where the model cannot rewrite a follow-up."""
    first, _ = ask("basic", well)
    then, engine = ask("basic", fails_once("standalone", CutOff("Wh")), text="What did she say of it?", conversation=first.conversation)

    assert engine.tasks == ["standalone", "answer"]
    assert "1 of 2 model calls" in then.note


def test_a_final_answer_without_a_whole_sentence_is_one_of_the_documents(ask):
    """Cut off in its first line, it gives way to sentences of the documents."""
    given, _ = ask("basic", lambda _: CutOff("The quay was so"))

    assert given.citations
    assert not given.unsupported_sentences
    assert "The quay was so" not in given.answer


def test_an_answer_that_cannot_be_written_is_an_error(ask):
    """A server that is gone is no reason to answer in another way without a word."""
    with pytest.raises(EngineError, match="gone"):
        ask("basic", lambda _: EngineError("the server is gone"))


@pytest.mark.ci
def test_what_was_cut_off_is_not_in_the_ledger(ask):
    """The same question again asks the model again."""
    ask("basic", lambda _: CutOff("The quay was sold. [1]\nThe rest of i"))
    given, engine = ask("basic", well)

    assert engine.tasks == ["answer"]
    assert "cut off" not in given.note


@pytest.mark.ci
def test_a_level_of_very_many_reports_is_read_in_part_and_that_is_said(ask, monkeypatch):
    """Also where the level was asked for, no more is read than a question may cost; the note says how much, and how to read all."""
    whole, _ = ask("global", well)
    monkeypatch.setattr(question, "MAX_QUESTION_CALLS", 3)
    some, engine = ask("global", well)
    asked_for, _ = ask("global", well, level=some.level)
    n = int(re.search(r"--max-calls (\d+)", some.note).group(1))
    every, _ = ask("global", well, max_calls=n)

    assert engine.tasks == ["map", "map", "reduce"]
    assert re.search(r"\d+ of \d+ reports read in 2 calls, the most relevant ones first", some.note)
    assert re.search(r"\d+ of \d+ reports read in 2 calls", asked_for.note)
    assert " of " not in re.search(r"[^.]*reports read[^.]*", whole.note + every.note).group()


def test_the_text_of_a_cut_off_answer_is_no_part_of_the_message():
    """Errors are printed; what the model wrote of the documents is not."""
    error = AnswerTruncated("cut off", so_far="secret")

    assert "secret" not in str(error)
    assert error.partial_text == "secret"
