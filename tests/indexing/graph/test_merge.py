"""Entities that might be one."""

import asyncio

from localrag.indexing.graph.merge import decide_with_llm
from localrag.llm.model import ModelReply
from tests.indexing.workers.tools import here


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
