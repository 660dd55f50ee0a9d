"""How far communities reach over the documents, counted in small indexes and estimated from a sample in large ones."""

import random

import pytest

from localrag.records import Chunk, Community, Document, Entity, Graph, Mention, content_id
from localrag.store import documents, generations, graph
from localrag.store.opening import open_index
from tests.graphs import replace_graph

CHUNKS = 600


@pytest.fixture
def db(tmp_path):
    """Six hundred passages in as many documents; `wide` is a community of 40 entities, `narrow` of one."""
    made = open_index(tmp_path / "index", create=True)
    drawn = random.Random(1)
    names = [f"e{n}" for n in range(40)]
    mentions = []
    for n in range(CHUNKS):
        text = f"Passage {n}."
        document = Document(content_id("d", n), f"{n:03}.txt", "", text, content_id(text))
        chunk = Chunk(content_id("c", n), document.id, 0, 0, len(text), text, 3)
        documents.save_document(made, document, [chunk])
        named = drawn.sample(names, 2) if n % 3 == 0 else []
        mentions += [Mention(e, chunk.id, "Passage", 0, 7) for e in [*named, *(["few"] if n % 200 == 0 else [])]]
    entities = tuple(Entity(i, i, "thing") for i in [*names, "few"])
    communities = [Community("wide", 0, 0, None, tuple(names)), Community("narrow", 0, 1, None, ("few",))]
    replace_graph(made, Graph(entities, mentions=tuple(mentions)), communities, "made")
    generations.publish(made, without_report=["wide", "narrow"])
    return made


def test_the_reach_of_a_broad_community_is_estimated_in_a_large_index(db, monkeypatch):
    """From a third of the passages the share is within three standard errors of the true one; a community of few is counted."""
    assert graph.coverage_of(db, ["wide", "narrow", "none"]) == {"wide": 200 / CHUNKS, "narrow": 3 / CHUNKS}

    monkeypatch.setattr(graph, "COVERAGE_SAMPLE_CHUNKS", 200)
    monkeypatch.setattr(graph, "LARGE_COMMUNITY_ENTITIES", 40)
    found = graph.coverage_of(db, ["wide", "narrow", "none"])

    assert found["narrow"] == 3 / CHUNKS
    assert found["wide"] != 200 / CHUNKS
    assert abs(found["wide"] - 200 / CHUNKS) < 3 * (2 / 9 / 200) ** 0.5


def test_passages_are_drawn_from_those_that_mention_an_entity(db):
    """As many as asked for, begun again behind the last; all of them where there are no more; another start gives others."""
    every = set(graph.sample_chunks(db, 10_000, after=""))
    assert len(every) == 202
    last = sorted(every)[-3]

    assert graph.sample_chunks(db, 5, after=last) == [*sorted(every)[-2:], *sorted(every)[:3]]
    assert sorted(graph.sample_chunks(db, 10_000, after=last)) == sorted(every)
    assert graph.sample_chunks(db, 50, after=content_id(0)) != graph.sample_chunks(db, 50, after=content_id(1))
