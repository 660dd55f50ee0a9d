"""A model behind a server that answers from the passages: it is asked every question."""

import asyncio
import json
import re

import pytest

from localrag.asking import answer_question
from localrag.indexing.pipeline import build_index
from localrag.project import open_for_query, open_for_writing
from localrag.query.question import QueryOptions
from tests.conftest import DATA
from tests.servers import Server, llama

GLASSWORKS = DATA / "glassworks"
QUESTIONS = (  # of TOWN, in other words than its own
    "Who is in charge of the vessel's repairs?",
    "Am I allowed to have a second job?",
    "Which firm replied that the buyer knew the boat?",
    "Qui est le second du bateau ?",
    "How many documents are there?",
    "What does the newest protocol say?",
)


def copies(body):
    """The first sentence of the first passage in the prompt, as the answer; empty if there is no passage."""
    shown = re.search(r"^\[1\] [^\n]+\n(.+?)(?:\n\n\[2\]|\n\nQuestion: )", body["messages"][-1]["content"], re.MULTILINE | re.DOTALL)
    sentence = re.split(r"(?<=[.。!?])\s", shown[1])[0] if shown else ""
    return f"{sentence} [1]"


def ask_all(documents, folder, questions, server):
    """The answers to questions about documents by the server's model, each with the number of requests it took."""
    with open_for_writing(folder / ".localrag", model=f"{server.url}#writer", extractor="phrases") as project:
        asyncio.run(build_index([documents], project, lambda _: None, reports=False))
    given = []
    for text in questions:
        before = len(server.bodies)
        with open_for_query(folder / ".localrag") as project:
            made = asyncio.run(answer_question(text, project, QueryOptions("basic")))
        given.append((made, len(server.bodies) - before))
    return given


@pytest.fixture
def server():
    """A server with a model of four billion parameters."""
    with Server(copies, llama("writer", window=8192, n_params=4_000_000_000)) as one:
        yield one


@pytest.mark.ci
def test_no_question_is_refused_before_the_model_is_asked(tmp_path, plain_town, server):
    """Questions in other words than the documents' reach the model with passages, and its answer is kept."""
    for made, asked in ask_all(plain_town / "docs", tmp_path, QUESTIONS, server):
        assert asked, made.question
        assert made.is_answerable, made.question
        assert made.citations, made.question


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.skipif(not GLASSWORKS.exists(), reason="the questions on the glassworks are not on this machine")
def test_no_answerable_question_on_the_glassworks_is_refused(tmp_path, server):
    """None of the 36 questions that the six documents answer is refused."""
    rows = [json.loads(row) for row in (GLASSWORKS / "questions.jsonl").read_text(encoding="utf-8").splitlines()]
    questions = [r["question"] for r in rows if r.get("answerable")]
    given = ask_all(GLASSWORKS / "docs", tmp_path, questions, server)

    assert len(questions) == 36
    assert [made.question for made, _ in given if not made.is_answerable] == []
