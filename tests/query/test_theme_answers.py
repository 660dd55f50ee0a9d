"""Answers about the whole by theme, also of a model that would have to read all reports on a slow machine."""

import re
import shutil
from pathlib import PurePosixPath

import pytest

from localrag.engine.settings import EngineOptions
from localrag.filters import DocumentFilter
from localrag.project import open_for_query
from localrag.query import theme_answers
from localrag.query.question_kind import WholeForm
from tests.fakes import Scripted, answered_by
from tests.query import made

READING_SPEED = 10.0  # tokens per second: reading all reports would take too long
WHOLE = "What are the main themes?"
HEADING = re.compile(r"^\*\*(?:(\S.*) \()?[iI]n (\d+) of 17 documents\)?\*\*$", re.MULTILINE)


@pytest.fixture
def ask(demo_town, tmp_path):
    """A function that asks a copy of the demo a question of a slow model, and returns the answer with the model's requests."""
    shutil.copytree(demo_town, tmp_path / "town")

    def asked(question=WHOLE, **options):
        with open_for_query(tmp_path / "town" / ".localrag", engine=EngineOptions()) as project:
            scripted = answered_by(project, Scripted(lambda _: "The captain spoke in court. [1]", window=4096))
            project.model.prefill_speed = lambda: READING_SPEED
            return made.ask(project, question, "global", style="abstractive", **options), scripted.requests

    return asked


def test_a_slow_model_is_not_asked_about_the_whole(ask):
    """The answer has the sentences of the themes, the broadest first, each with its source; its note says how reports are read."""
    answer, requests = ask()
    counts = [int(n) for _, n in HEADING.findall(answer.answer)]

    assert requests == []
    assert len(counts) > 6
    assert counts == sorted(counts, reverse=True)
    assert len(answer.citations) >= 4
    assert answer.unsupported_sentences == answer.related == 0
    assert answer.note.endswith("Not all reports were read: that takes too long here. All: --max-calls 50")


@pytest.mark.ci
def test_a_topic_is_told_by_the_sentences_near_it(ask):
    """Most sentences are about the topic; those of no broad group stand last, below the number of their documents."""
    answer, _ = ask("What do the documents say about the lighthouse?")
    about = [re.search("light|lamp|Gannet|Muir", c.quote) for c in answer.citations]

    assert sum(map(bool, about)) >= 0.6 * len(about) > 3
    assert HEADING.findall(answer.answer)[-1][0] == ""


@pytest.mark.ci
def test_a_topic_that_is_nowhere_is_refused_by_a_slow_model_too(ask):
    """The answer says so and names themes that there are."""
    answer, _ = ask("What do the documents say about quantum computing and cryptography?")

    assert answer.answer.startswith("The documents do not say.")
    assert answer.note.startswith("Themes of the documents: ")
    assert not answer.is_answerable


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
    answer, _ = ask(question)

    assert answer.note.startswith(told)


def test_a_theme_counts_the_documents_with_its_name(ask):
    """The number behind a theme is that of the documents that have its words, or a passage about it."""
    answer, _ = ask()
    counts = dict(HEADING.findall(answer.answer))

    assert int(next(n for label, n in counts.items() if label.startswith("Tern Slip"))) == 6  # by a search for the words


def test_only_selected_documents_are_read(ask):
    """With a filter the themes are those of the selected documents."""
    answer, _ = ask(selection=DocumentFilter("path=docs/council/*"))

    assert {str(PurePosixPath(c.path).parent) for c in answer.citations} == {"docs/council"}
