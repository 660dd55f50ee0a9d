"""A model that repeats its prompt: the repetition is not shown, the model is asked once more, and then the answer says so."""

import asyncio
import shutil

import pytest

from localrag.asking import answer_question
from localrag.errors import EngineError
from localrag.indexing.reports import ContextElement, abstractive_report
from localrag.llm.budgets import TokenBudgets
from localrag.llm.model import EchoDetector
from localrag.llm.prompts import load_prompt, prompt_names
from localrag.project import open_for_query, open_for_writing
from localrag.query.question import AnswerCallbacks, QueryOptions
from localrag.records import Community
from tests.fakes import Scripted, answered_by

QUESTION = "What is wrong with the ferry Skua of Vardby?"
INSTRUCTION = "Write short paragraphs, and a list, a table or a code block where it helps the reader."
GOOD = "Lars Holm is the mate of the Skua."


@pytest.fixture
def ask(plain_town, tmp_path):
    """A function that asks a model that gives the listed replies in order; returns the answer, the text shown, and the requests."""
    shutil.copytree(plain_town, tmp_path / "town")

    def asked(*said):
        left, shown = list(said), []

        def says(_):
            return "\n\n".join(left.pop(0))

        with open_for_query(tmp_path / "town" / ".localrag") as project:
            engine = answered_by(project, Scripted(says, window=4096))
            watch = AnswerCallbacks(shown.append, on_draft=shown.append)
            given = asyncio.run(answer_question(QUESTION, project, QueryOptions("basic", style="abstractive"), watch))
        return given, "".join(shown), engine.requests

    return asked


@pytest.mark.parametrize("echo", [QUESTION, INSTRUCTION])
def test_an_answer_made_of_the_prompt_is_asked_again_once(ask, echo):
    """The second answer is kept, nothing of the first is shown, and the two requests differ."""
    given, shown, requests = ask([echo], [GOOD])

    assert len(requests) == 2
    assert requests[0].messages != requests[1].messages
    assert echo not in shown
    assert given.answer.startswith(GOOD)
    assert given.is_answerable


def test_a_model_that_gives_back_its_prompt_twice_has_not_answered(ask):
    """The answer says so and shows the closest passages; the model is not asked a third time."""
    given, shown, requests = ask([INSTRUCTION], [QUESTION])

    assert len(requests) == 2
    assert given.answer.startswith("The model gave back its instructions instead of an answer")
    assert INSTRUCTION not in given.answer + shown
    assert given.citations
    assert not given.is_answerable


def test_only_the_line_that_repeats_the_prompt_is_left_out(ask):
    """The other lines of the answer are kept."""
    given, shown, requests = ask([INSTRUCTION, GOOD])

    assert len(requests) == 1
    assert INSTRUCTION not in given.answer + shown
    assert given.answer.startswith(GOOD)


def test_words_of_the_question_or_of_a_source_are_no_echo():
    """An answer may reuse words of the question; words of the prompt that a source contains count as the source's."""
    prompt = load_prompt("abstractive/answer")
    echo = EchoDetector(
        prompt,
        "Who voted against the budget of 2023?",
        "Copies names, figures, dates and code exactly as they stand in the sources.",
    )

    assert not echo.is_in("Lena Brandl voted against the budget of 2023.")
    assert not echo.is_in("No, nobody did.")
    assert not echo.is_in("Copies names, figures, dates and code exactly as they stand in the sources.")
    assert echo.is_in("who voted against the budget of 2023")
    assert EchoDetector(prompt, "Who?", "").is_in("Copy names, figures, dates and code exactly as they stand in the sources.")


@pytest.mark.parametrize(
    "name", [n for n in prompt_names() if n.startswith("abstractive/") and n.partition("/")[2] not in ("entities", "rate")]
)
def test_prompts_for_prose_have_no_examples(name):
    """A small model copies an example as its answer. Prompts that extract or choose are bound by a grammar, and keep theirs."""
    assert all(role != "assistant" for role, _ in load_prompt(name).messages)


def test_a_report_has_no_finding_made_of_its_prompt(tmp_path):
    """A finding that repeats the prompt is left out; a report with no other finding is a failed call."""
    echo = "several sentences of at most 60 words in all, the ids of the data it rests on; say only what the data says"

    def report(*explanations):
        findings = [{"summary": "A finding", "explanation": text, "evidence": ["E1"]} for text in explanations]
        body = {
            "title": "The Skua",
            "summary": "Lars Holm is the mate.",
            "rating": 5,
            "rating_explanation": "It leaks.",
            "findings": findings,
        }
        elements = [ContextElement("E1", "entity E1: Skua (thing): The Skua is a ferry that leaks", 20, ())]
        with open_for_writing(tmp_path / str(len(explanations))) as project:
            answered_by(project, Scripted(lambda _: body, window=16384))
            made = abstractive_report(
                Community("c", 0, 0, None, ("a",)), elements, "k", project.model, project.settings, TokenBudgets.of(16384)
            )
            return [f.explanation for f in asyncio.run(made).findings]

    assert report(echo, "The Skua leaks.") == ["The Skua leaks."]
    with pytest.raises(EngineError, match="instructions instead of writing a report"):
        report(echo)
