"""Asking through the ledger: what was answered is never computed again, also when it is asked twice at once."""

import asyncio

import pytest

from localrag.engine.settings import EngineOptions
from localrag.llm.grammar import choice_of
from localrag.llm.model import ChatModel
from localrag.store.llm_cache import SqliteLlmCache
from localrag.store.opening import open_index

QUESTION = [{"role": "user", "content": "Does the ferry leak? " * 20}]


@pytest.fixture
def db(tmp_path):
    return open_index(tmp_path / "index", create=True)


@pytest.fixture
def model(tiny, db):
    opened = ChatModel(SqliteLlmCache(db), tiny("llama"), EngineOptions("slots=2,n_ctx=512"))
    yield opened
    opened.close()


def ask(model, question=QUESTION):
    return model.ask("t", question, max_tokens=30, grammar=choice_of(["yes, it certainly does", "no, it certainly does not"]))


def test_the_same_question_asked_at_once_is_answered_once(model):
    """Five callers get the same words, the model computes them once."""

    async def five():
        return await asyncio.gather(*(ask(model) for _ in range(5)))

    texts = {reply.text for reply in asyncio.run(five())}

    assert len(texts) == 1
    assert model.calls == 1


def test_who_gives_up_does_not_take_the_others_along(model):
    """The first of two callers is cancelled while the model computes for it; the other is answered."""

    async def two():
        await model.engine()
        first = asyncio.create_task(ask(model))
        await asyncio.sleep(0)
        second = asyncio.create_task(ask(model))
        await asyncio.sleep(0.001)
        first.cancel()
        return await second

    assert asyncio.run(two()).text
    assert model.calls == 1
