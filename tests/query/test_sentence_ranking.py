"""Which sentence of the passages answers a question, and passages found by what a first passage says."""

import asyncio
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from localrag.indexing.pipeline import build_index
from localrag.project import open_for_query, open_for_writing
from localrag.query import sentence_ranking
from localrag.query.answer import answer_question
from localrag.query.basic_search import retrieve_two_hop
from localrag.query.question import QueryOptions
from localrag.query.retriever import retrieve
from localrag.query.sentence_ranking import (
    FAR_BEHIND,
    WEIGHTS,
    LazySequence,
    chunk_quotes,
    figures,
    fits,
    rank_quotes,
    rank_sentences,
    score_candidates,
)
from localrag.store import documents

TEXTS = {
    "boat": "# The Skua\n\nThe ferry Skua was bought by Ingrid Holm. Her aunt lent her the money. The Skua is painted green.\n",
    "ingrid": "# Ingrid Holm\n\nThe owner grew up on a farm. She was born in Molde on 4 May 1931. Her mother kept goats.\n",
    "tern": "# The Tern\n\nThe ferry Tern was bought by the Northern Line. It was painted white in 1950, and red in 1960.\n",
    "bread": "# Bread\n\nBread is baked from flour, water and salt. It rests overnight before it is baked.\n",
    "stamps": "# Stamps\n\nStamps are collected by country and by year. The rarest was printed in Bergen.\n",
}


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """Short documents under a title, indexed without a model."""
    folder = tmp_path_factory.mktemp("ranked")
    for name, text in TEXTS.items():
        (folder / f"{name}.md").write_text(text, encoding="utf-8")
    with open_for_writing(folder / ".localrag", extractor="phrases") as opened:
        asyncio.run(build_index([folder], opened, lambda _: None))
    with open_for_query(folder / ".localrag") as opened:
        yield opened


@pytest.mark.parametrize(
    ("question", "holding", "lacking"),
    [
        ("When was the Skua sold?", "It was sold on 3 May.", "It was sold to a friend."),
        ("In what year was it built?", "The yard finished it in 1931.", "The yard finished it late."),
        ("How many goats were there?", "There were eleven goats.", "There were goats."),
        ("Who bought the Skua?", "The Skua went to Ingrid Holm.", "The Skua was sold."),
        ("Where was the Skua built?", "They built it in Molde.", "They built it quickly."),
        ("Wann wurde sie gebaut?", "Sie lief 1931 vom Stapel.", "Sie lief vom Stapel."),
        ("她哪一年出生？", "她生于1931年。", "她生于农场。"),
        ("村里有多少人？", "村里有三百人。", "村里有人。"),
    ],
)
def test_a_sentence_fits_that_holds_what_is_asked_for(question, holding, lacking):
    """A date for when, a number for how many, a new name for who and where."""
    has, has_not = fits(question, [holding, lacking])

    assert has == 1 > has_not


def test_the_year_of_the_question_itself_is_no_answer():
    """What the question says already does not count as what it asks for."""
    assert fits("When after 1931 was it sold?", ["It was built in 1931.", "It was sold in 1940."]) == [-1, 1]


def test_a_question_that_asks_for_nothing_of_a_kind_prefers_no_sentence():
    """Of what and why no kind of thing is known."""
    assert fits("Why did she sell it?", ["It leaked.", "In 1931 Ingrid Holm sold it."]) == [0, 0]


def test_every_figure_moves_the_rank_by_its_weight():
    """The score is the weighted sum of the figures; where only nearness differs, the nearer sentence comes first."""
    given = (
        "What leaks?",
        ["It leaks a lot now.", "It leaks a lot now."],
        np.array([0.1, 0.4], np.float32),
        ["a", "a"],
        ["", ""],
        {"a": 1.0},
    )

    assert figures(*given).shape == (2, len(WEIGHTS))
    assert rank_sentences(*given).tolist() == pytest.approx((figures(*given) @ [*WEIGHTS.values()]).tolist(), abs=1e-4)
    first, second = rank_sentences(*given[:3], ["a", "b"], ["", ""], {"a": 1.0, "b": 1.0}), rank_sentences(*given)
    assert second[1] - second[0] == pytest.approx(0.3 * WEIGHTS["near"] - WEIGHTS["first"], abs=1e-4)
    assert first[1] - first[0] == pytest.approx(0.3 * WEIGHTS["near"] - 0.5 * WEIGHTS["rank"], abs=1e-4)


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("Who bought the ferry Skua?", "The ferry Skua was bought by Ingrid Holm."),
        ("When was the Tern painted white?", "It was painted white in 1950"),
        ("Where was Ingrid Holm born?", "She was born in Molde"),
    ],
)
def test_the_passage_that_answers_comes_first(project, question, said):
    """Not the passage with most of the question's words, but the one with what it asks for."""
    given = asyncio.run(answer_question(question, project, QueryOptions("mix", style="extractive")))

    assert said in given.citations[0].quote


@dataclass
class Counting:
    """The project's embedder, with the texts that it was given."""

    embedder: Any
    given: list[str] = field(default_factory=list)

    def embed(self, texts):
        self.given += texts
        return self.embedder.embed(texts)


@pytest.mark.parametrize(
    "question", ["Who bought the ferry Skua?", "When was the Tern painted white?", "Where was Ingrid Holm born?", "谁？"]
)
def test_the_best_sentences_are_sure_before_all_are_embedded(project, monkeypatch, question):
    """The order is the one that all vectors give, to the last sentence; for the first only some vectors are computed."""
    monkeypatch.setattr(sentence_ranking, "AT_ONCE", 2)
    vector = project.embedder.embed([question])[0]
    passages = retrieve(question, vector, project, 5)
    weight = {c.id: s for c, s in passages}
    found = score_candidates(question, chunk_quotes([c for c, _ in passages], question), (), weight)
    ids = [q.chunk_id for q in found.quotes]
    near = found.near + project.embedder.embed(found.texts) @ vector
    titles = documents.document_titles(project.db, set(ids))
    score = rank_sentences(question, found.texts, near, ids, [titles.get(i, "") for i in ids], weight)
    order = [int(n) for n in np.argsort(-score, kind="stable") if score[n] >= score.max() - FAR_BEHIND]
    counting = Counting(project.embedder)
    asked = rank_quotes(question, vector, found, replace(project, embedder=counting), weight)

    assert next(asked) == order[0]
    assert question == "谁？" or len(counting.given) < len(found.texts)
    assert [order[0], *asked] == order


def test_an_order_is_taken_as_far_as_it_is_gone_through():
    """Going through it again begins at the first; two who go through it at once miss nothing."""
    source = iter(range(4))
    order = LazySequence(source)
    first, second = iter(order), iter(order)

    assert [next(first), next(second), next(second), next(first)] == [0, 0, 1, 1]
    assert next(source) == 2
    assert list(order) == [0, 1, 3]
    assert list(order) == [0, 1, 3]


def names(project, found):
    return [documents.document_path(project.db, c.id).removesuffix(".md") for c, _ in found]


def test_a_second_step_asks_with_what_the_first_found(project):
    """The first step's best sentence names Ingrid Holm; so her passage, which shares no word with the question, comes second at once."""
    question = "In which town did the buyer of the boat called Skua spend her childhood?"
    vector = project.embedder.embed([question])[0]

    twice = retrieve_two_hop(question, vector, project, 3)

    assert names(project, twice)[:2] == ["boat", "ingrid"]
    assert [s for _, s in twice] == sorted((s for _, s in twice), reverse=True)
    assert twice[0][1] == 1
    once = dict(
        zip(names(project, retrieve(question, vector, project, 5)), (s for _, s in retrieve(question, vector, project, 5)), strict=True)
    )
    assert dict(zip(names(project, twice), (s for _, s in twice), strict=True))["ingrid"] > once.get("ingrid", 0.0)


def test_without_a_passage_there_is_no_second_step(tmp_path):
    """An index without a word gives no passages, and no error."""
    (tmp_path / "a.txt").write_text("One.", encoding="utf-8")
    with open_for_writing(tmp_path / ".localrag", extractor="phrases") as opened:
        vector = opened.embedder.embed(["Who?"])[0]

        assert retrieve_two_hop("Who?", vector, opened, 3) == []
