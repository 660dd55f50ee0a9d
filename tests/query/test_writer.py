"""A model behind a server that answers from the passages: it is asked every question."""

import asyncio
import re

import pytest

from localrag.indexing.pipeline import build_index
from localrag.project import open_for_query, open_for_writing
from tests.query.made import ask
from tests.servers import Server, llama

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


@pytest.mark.ci
def test_no_question_is_refused_before_the_model_is_asked(tmp_path, plain_town):
    """Questions in other words than the documents' reach a model of four billion parameters with passages, and its answer is kept."""
    with Server(copies, llama("writer", window=8192, n_params=4_000_000_000)) as server:
        with open_for_writing(tmp_path / ".localrag", model=f"{server.url}#writer", extractor="phrases") as project:
            asyncio.run(build_index([plain_town / "docs"], project, lambda _: None, reports=False))
        for text in QUESTIONS:
            before = len(server.bodies)
            with open_for_query(tmp_path / ".localrag") as project:
                made = ask(project, text, "basic")
            assert len(server.bodies) > before, text
            assert made.is_answerable and made.citations, text
