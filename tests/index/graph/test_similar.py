"""Entities that might be one."""

import asyncio

import numpy as np

from localrag.index.graph.similar import alike_in_meaning, ask_whether_same
from localrag.index.graph.variants import Decisions
from localrag.llm.model import Reply
from localrag.records import Entity, Graph, Merge, Quote
from tests.index.crew.tools import here


def embed(texts):
    """Vectors by first letter: names that begin alike are near."""
    return np.stack([np.eye(26, dtype=np.float32)[ord(t[0].lower()) - 97] for t in texts])


def entity(name, kind="place"):
    return Entity(name, name, kind)


def test_near_names_of_one_type_are_offered():
    """Siam and Sukhothai are; names of another type, with other digits or kept apart by the user are not."""
    names = [entity("Siam"), entity("Sukhothai"), entity("Sita", "person"), entity("S1"), entity("S2")]
    decided = Decisions(different=frozenset({frozenset(("siam", "sukhothai"))}))

    crew = here(embed=embed)
    offered = {frozenset((m.name, m.into)) for m in asyncio.run(alike_in_meaning(Graph(tuple(names)), crew, Decisions()))}
    left = asyncio.run(alike_in_meaning(Graph(tuple(names)), crew, decided))

    assert offered == {frozenset(("Siam", "Sukhothai"))}
    assert left == []


class Says:
    """A model that says yes to pairs with a certain name."""

    def __init__(self, name):
        self.name = name
        self.asked = 0

    async def ask(self, _task, messages, **_):
        self.asked += 1
        return Reply("yes" if self.name in messages[-1]["content"] else "no", (), None, (), 0, 0, 0.0)


def test_the_model_decides_pairs_it_can_see():
    """A yes becomes a decision of the model's; a pair without a sentence to show is not asked."""
    pairs = (Merge("Zakhary", "zachary", "Zachary", "spelt alike", 0.9), Merge("Tartu", "tarto", "Tarto", "spelt alike", 0.9))
    graph = Graph(
        tuple(map(entity, ("Zakhary", "Zachary", "Tartu", "Tarto"))), similar=(*pairs, Merge("No", "one", "One", "spelt alike", 0.9))
    )
    quotes = {n: [Quote("c", 0, 1, f"{n} waits.")] for n in ("Zakhary", "Zachary", "Tartu", "Tarto")}
    model = Says("Zakhary")

    decided, failed = asyncio.run(ask_whether_same(graph, quotes, here(model), Decisions()))

    assert decided.same == (("zakhary", "zachary"),)
    assert decided.by_model == frozenset(decided.same)
    assert model.asked == 2
    assert failed == []
