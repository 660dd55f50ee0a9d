"""Passages that are found by what a first passage says, read once; and what is shown where a model wrote nothing."""

import asyncio
from dataclasses import replace

import pytest

from localrag.project import open_for_query, open_for_writing
from localrag.query import basic_search
from localrag.query.basic_search import retrieve_two_hop
from localrag.query.retriever import retrieve
from localrag.store import documents
from tests.fakes import Scripted, answered_by
from tests.query.made import ask, index_of

TEXTS = {
    "boat": "# The Skua\n\nThe ferry Skua was bought by Ingrid Holm. Her aunt lent her the money. The Skua is painted green.\n",
    "ingrid": "# Ingrid Holm\n\nThe owner grew up on a farm. She was born in Molde on 4 May 1931. Her mother kept goats.\n",
    "tern": "# The Tern\n\nThe ferry Tern was bought by the Northern Line. It was painted white in 1950, and red in 1960.\n",
    "bread": "# Bread\n\nBread is baked from flour, water and salt. It rests overnight before it is baked.\n",
    "stamps": "# Stamps\n\nStamps are collected by country and by year. The rarest was printed in Bergen.\n",
}
CHILDHOOD = "In which town did the buyer of the boat called Skua spend her childhood?"


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """Short documents under a title, indexed without a model."""
    texts = {f"{name}.md": text for name, text in TEXTS.items()}
    with index_of(tmp_path_factory.mktemp("hops"), texts) as made, open_for_query(made.folder) as opened:
        yield opened


def names(project, chunks):
    return [documents.document_path(project.db, c.id).removesuffix(".md") for c in chunks]


@pytest.mark.parametrize("reads", [True, False], ids=["reader", "no reader"])
def test_a_second_step_asks_with_what_the_first_found(project, monkeypatch, reads):
    """The first step finds the name Ingrid Holm; so her passage, which shares no word with the question, comes second."""
    searched = []
    monkeypatch.setattr(basic_search, "retrieve", lambda question, *args: searched.append(question) or retrieve(question, *args))
    vector = project.embedder.embed([CHILDHOOD])[0]
    found = asyncio.run(retrieve_two_hop(CHILDHOOD, vector, project if reads else replace(project, reader=None), 3))

    assert names(project, found)[:2] == ["boat", "ingrid"]
    assert searched[0] == CHILDHOOD
    assert searched[1].startswith(CHILDHOOD)
    assert "Ingrid Holm" in searched[1]


def test_without_a_passage_there_is_no_second_step(tmp_path):
    """An index without a word gives no passages, and no error."""
    (tmp_path / "a.txt").write_text("One.", encoding="utf-8")
    with open_for_writing(tmp_path / ".localrag", extractor="phrases") as opened:
        vector = opened.embedder.embed(["Who?"])[0]

        assert asyncio.run(retrieve_two_hop("Who?", vector, opened, 3)) == []


@pytest.mark.parametrize("mode", ["basic", "local", "mix", "ss", "ts"])
def test_what_a_model_did_not_write_is_shown_as_passages(project, mode):
    """Where no call is left, the passages that the reader prefers are the answer, as they stand."""
    with open_for_query(project.folder) as opened:
        answered_by(opened, Scripted(lambda _: pytest.fail("no call is left")))
        found = ask(opened, "Who bought the ferry Skua?", mode, style="abstractive", max_calls=0)

    assert any("The ferry Skua was bought by Ingrid Holm." in p.text for p in found.passages)
    assert found.citations
