"""Entities that might be one."""

import asyncio

import numpy as np
from sqlite_utils import Database

from localrag.indexing.graph.entity_resolution import MergeDecisions
from localrag.indexing.graph.merge import decide_with_llm, find_similar_meanings
from localrag.llm.model import ModelReply
from localrag.store.schema import create_schema
from localrag.store.staging import GraphStaging
from tests.indexing.workers.tools import here


def embed(texts):
    """Vectors by first letter: names that begin alike are near."""
    return np.stack([np.eye(26, dtype=np.float32)[ord(t[0].lower()) - 97] for t in texts])


def test_near_names_of_one_type_are_offered():
    """Siam and Sukhothai are; names of another type, with other digits or kept apart by the user are not."""
    db = Database(memory=True)
    create_schema(db)
    staged = GraphStaging(db)
    named = [("Siam", "place"), ("Sukhothai", "place"), ("Sita", "person"), ("S1", "place"), ("S2", "place")]
    staged.upsert("entities", [(name, name, kind, "", 0, "[]") for name, kind in named])
    asked = []

    def counted(texts):
        asked.extend(texts)
        return embed(texts)

    worker_pool = here(embed=counted)
    offered = [frozenset(pair[:2]) for pair in asyncio.run(find_similar_meanings(staged, worker_pool, "embedder", MergeDecisions()))]
    apart = MergeDecisions(separate_pairs=frozenset({frozenset(("siam", "sukhothai"))}))
    left = asyncio.run(find_similar_meanings(staged, worker_pool, "embedder", apart))

    assert offered == [frozenset(("siam", "sukhothai"))]
    assert left == []
    assert sorted(asked) == ["S1", "S2", "Siam", "Sukhothai"]  # names are embedded once, the only one of its type never


class Says:
    """A model that says yes to pairs with a certain name."""

    def __init__(self, name):
        self.name = name
        self.asked = 0

    async def ask(self, _task, messages, **_):
        self.asked += 1
        return ModelReply("yes" if self.name in messages[-1]["content"] else "no", (), 0, 0, 0.0)


def test_the_model_decides_pairs_it_can_see():
    """A yes is said of the shorter name, as another name of the fuller; a pair without a sentence to show is not asked."""
    pairs = [
        (("zachary", "zakhary"), ("Zachary", "Zakhary"), ("Zachary waits.", "Zakhary waits.")),
        (("tarto", "tartu"), ("Tarto", "Tartu"), ("Tarto waits.", "Tartu waits.")),
        (("one", "no"), ("One", "No"), ("", "No waits.")),
    ]
    model = Says("Zakhary")

    same, failed = asyncio.run(decide_with_llm(pairs, here(model)))

    assert same == [("zakhary", "zachary")]
    assert model.asked == 2
    assert failed == []
