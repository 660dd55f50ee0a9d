"""On a slow machine a model writes a sentence or two about each of the broadest themes, from the sentences that stand below."""

import re
import shutil
from pathlib import PurePosixPath

import pytest

from localrag.engine.settings import EngineOptions
from localrag.errors import EngineError
from localrag.filters import DocumentFilter
from localrag.project import open_for_query
from localrag.query import theme_answers
from localrag.query.question_kind import WholeForm
from tests.fakes import Scripted, answered_by
from tests.query import made

READING_SPEED = 10.0  # tokens per second: reading all reports would take too long
WHOLE = "What are the main themes?"


@pytest.fixture
def ask(demo_town, tmp_path):
    """A function that asks a copy of the demo a question of a slow model, which `says` to each request what that returns."""
    shutil.copytree(demo_town, tmp_path / "town")

    def asked(says, question=WHOLE, window=4096, **options):
        with open_for_query(tmp_path / "town" / ".localrag", engine=EngineOptions()) as project:
            scripted = answered_by(project, Scripted(says, window=window))
            project.model.prefill_speed = lambda: READING_SPEED
            return made.ask(project, question, "global", style="abstractive", **options), scripted.requests

    return asked


def sources_in(request):
    """The numbers and files of a request's sentences."""
    return re.findall(r"^\[(\d+)\] (\S+)", request.messages[-1]["content"], re.MULTILINE)


def first_sentence(request):
    """The first of a request's sentences in English, with its number; where none is in English, one that says little."""
    told = re.split(r"^\[(\d+)\] \S+\n", request.messages[-1]["content"].rpartition("\n\n")[0], flags=re.MULTILINE)[1:]
    for number, text in zip(told[::2], told[1::2], strict=True):
        if text.isascii() or "é" in text:
            return f"{' '.join(text.split()).rstrip('.')}. [{number}]"
    return f"The captain said {len(text)} words in court. [1]"


def test_each_theme_is_written_from_its_own_sentences(ask):
    """Every request has sentences of one theme, numbered from 1, and asks about it; the answer has all themes, the broadest first."""
    answer, requests = ask(first_sentence)
    headings = re.findall(r"^\*\*(\S[^:]*).* \(in (\d+) of 17 documents\)\*\*$", answer.answer, re.MULTILINE)

    assert [r.task for r in requests] == ["theme"] * 5
    assert all([int(n) for n, _ in sources_in(r)] == list(range(1, len(sources_in(r)) + 1)) for r in requests)
    assert all(f"What is said about {label}?" in r.messages[-1]["content"] for (label, _), r in zip(headings, requests, strict=False))
    assert len(headings) > 6
    assert [int(n) for _, n in headings] == sorted((int(n) for _, n in headings), reverse=True)
    assert len(answer.citations) >= 4
    assert "cut off" not in answer.note


def own_sentence(request):
    """A sentence of the model's own, another for each request."""
    return f"Townspeople remember {len(request.messages[-1]['content'])} things of that winter. [1]"


def test_a_copy_of_a_sentence_that_stands_below_is_left_out(ask):
    """Where the model repeats a sentence of a theme, each sentence is there once."""
    answer, requests = ask(first_sentence)

    assert len(requests) == 5
    assert all(re.match(r"\*\*.*\*\*\n(?:- |The captain said)", section) for section in THEME.split(answer.answer)[1:])


THEME = re.compile(r"^(?=\*\*\S.* \(in \d+ of 17 documents\)\*\*$)", re.MULTILINE)


@pytest.mark.ci
@pytest.mark.parametrize(
    "says", ["", "The sources do not answer the question.", EngineError("the step failed")], ids=["", "declined", "failed"]
)
def test_a_theme_of_which_the_model_says_nothing_has_its_sentences_alone(ask, says):
    """What is declined or fails costs itself alone: every theme is there, with sentences, and the answer is no refusal."""
    answer, requests = ask(lambda request: says if "Tern Slip" in request.messages[-1]["content"] else own_sentence(request))
    _, *sections = THEME.split(answer.answer)

    assert (
        sum("Townspeople remember" in section for section in sections)
        == sum("Tern Slip" not in r.messages[-1]["content"] for r in requests)
        < 5
    )
    assert all("\n- " in section for section in sections)
    assert answer.is_answerable
    assert ("the step failed" in answer.note) == isinstance(says, EngineError)


@pytest.mark.ci
def test_a_topic_is_written_from_the_passages_near_it(ask):
    """The groups of passages that are near the topic are its themes."""
    _, requests = ask(first_sentence, "What do the documents say about the lighthouse?")

    assert {r.task for r in requests} == {"theme"}
    about = [re.search("light|lamp|Gannet", r.messages[-1]["content"].rpartition("\n\n")[0]) for r in requests]
    assert sum(map(bool, about)) >= len(requests) - 1


@pytest.mark.ci
@pytest.mark.parametrize(
    ("question", "told"),
    [
        ("Compare the lifeboat and the lighthouse.", "The passages nearest to the question"),
        ("Which subject comes up in the most documents?", "Counted are documents"),
    ],
)
def test_a_comparison_of_things_is_of_passages_about_them(ask, monkeypatch, question, told):
    """A comparison that names what it compares is answered from passages about that; one of all subjects counts all themes."""
    monkeypatch.setattr(theme_answers, "whole_form", lambda *_: WholeForm.COMPARISON)
    answer, _ = ask(first_sentence, question)

    assert answer.note.startswith(told)


def test_only_selected_documents_are_read(ask):
    """With a filter the themes are those of the selected documents."""
    _, requests = ask(first_sentence, selection=DocumentFilter("path=docs/council/*"))

    assert {str(PurePosixPath(path).parent) for r in requests for _, path in sources_in(r)} == {"docs/council"}


def test_a_model_that_writes_nothing_leaves_the_sentences_of_the_themes(ask):
    """The answer is then what it is without a model."""
    answer, _ = ask(lambda _: "")

    assert len(answer.citations) >= 4
    assert answer.unsupported_sentences == 0
