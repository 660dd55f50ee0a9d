"""Reports that the chat model writes when a question about the whole first needs them."""

import asyncio
import shutil
from dataclasses import replace

import pytest

from localrag.asking import answer_question
from localrag.errors import EngineError
from localrag.index import Index
from localrag.indexing.report_stage import pending_reports
from localrag.project import open_for_query
from localrag.query.question import QueryOptions
from tests import fakes
from tests.fakes import Scripted, answered_by, example

QUESTION = "What are the main themes of these documents?"


def well(request):
    """A good answer to any request; a report is told by its title."""
    if request.grammar is None:
        return "The Skua is a ferry. [1]"
    return example(request.grammar.schema) | ({"title": "Written for a question"} if request.task == "report" else {})


@pytest.fixture
def ask(plain_town, tmp_path):
    """A function that asks an index whose reports quote; gives the answer and the requests."""
    folder = tmp_path / ".localrag"
    shutil.copytree(plain_town / ".localrag", folder)

    def asked(says=well, **options):
        with open_for_query(folder) as project:
            project.model.file = asked.file or project.model.file
            engine = answered_by(project, Scripted(says, window=16384))
            engine.parameters = asked.parameters
            made = asyncio.run(
                answer_question(QUESTION, project, QueryOptions("global", style="abstractive", **options), pending_reports=pending_reports)
            )
        return made, engine

    asked.folder, asked.file, asked.parameters = folder, None, None
    return asked


def test_reports_are_written_when_first_needed_and_kept(ask):
    """The first question writes them and reads what was written; the second writes none and reads the same."""
    first, engine = ask()
    second, again = ask()

    prompts = [r.messages[-1]["content"] for r in engine.requests if r.task == "map"]
    assert engine.tasks.count("report") >= 2
    assert "Written for a question" in "".join(prompts)
    assert "The model wrote" in first.note
    assert "report" not in again.tasks
    assert second.note == first.note


def test_an_index_is_left_as_it_was(ask):
    """The published reports still quote the documents; to write them into the index remains a decision of the user."""
    with Index.open(ask.folder) as index:
        before = index.reports()
    ask()
    with Index.open(ask.folder) as index:
        assert index.reports() == before


def test_a_report_that_fails_is_read_as_it_was(ask):
    """Its quotes are read, and the question is answered."""
    made, engine = ask(lambda r: EngineError("broken") if r.task == "report" else well(r))

    assert made.is_answerable
    assert "Written for a question" not in "".join(r.messages[-1]["content"] for r in engine.requests)
    assert "These reports quote the documents" in made.note


def test_reports_take_at_most_half_of_the_calls_and_half_a_minute(ask, monkeypatch):
    """With four calls two reports are written; a machine that reads 30 tokens a second writes none."""
    _, few = ask(max_calls=4)
    monkeypatch.setattr(fakes, "SPEED", 30.0)
    _, slow = ask(max_calls=20)

    assert few.tasks.count("report") <= 2
    assert "report" not in slow.tasks


def test_a_server_whose_speed_is_unknown_writes_no_reports(ask, monkeypatch):
    """It may be slow; from its second answer on its speed is known."""
    with open_for_query(ask.folder) as project:
        server = replace(project.model.file, url="http://127.0.0.1:9/v1")
    monkeypatch.setattr(ask, "file", server)
    _, unknown = ask()
    monkeypatch.setattr(fakes, "SPEED", 5000.0)
    _, fast = ask()

    assert "report" not in unknown.tasks
    assert "report" in fast.tasks


def test_a_small_model_writes_no_reports(ask, monkeypatch):
    """Its reports would say less than the quotes."""
    monkeypatch.setattr(ask, "parameters", 135_000_000)
    made, engine = ask()

    assert "report" not in engine.tasks
    assert made.is_answerable
