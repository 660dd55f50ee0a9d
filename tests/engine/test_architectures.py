"""The engine on the kinds of memory that models have: attention, sliding windows, recurrent states, both; random weights tell as much."""

import asyncio
import random
from dataclasses import replace

import pytest

from localrag.engine.autotune.load import open_backend
from localrag.engine.engine import Engine
from localrag.engine.llama.model import LlamaModel
from localrag.engine.request import Request
from localrag.engine.settings import EngineOptions, EngineSettings
from localrag.llm.grammar import choice_of
from tests.conftest import mostly_ci
from tests.fakes import inconsistencies

SETTINGS = EngineSettings(threads=1, slots=4, n_ctx=512, kv_cache_type="f32")
ARCHITECTURES = ("llama", "gemma2", "mamba", "lfm2")


def opened(file, settings, prefixes):
    def open_model():
        backend = LlamaModel(file, settings)
        backend.prefix_folder = prefixes
        return backend

    return Engine(open_model)


def prompts():
    """Twelve prompts of 80 to 310 tokens; those of a task begin alike, and are longer than a sliding window."""
    chance = random.Random(3)
    shared = [[chance.randrange(20, 40000) for _ in range(60)] for _ in range(2)]
    for n in range(12):
        own = tuple(chance.randrange(20, 40000) for _ in range(chance.randrange(20, 250)))
        yield Request(
            (*shared[n % 2], *own), 12, task=f"task {n % 2}", grammar=choice_of(["certainly not", "certainly so"]) if n % 3 == 0 else None
        )


def answers(engine):
    """The answers to all prompts at once, and then to what goes on from each."""

    async def ask():
        first = await asyncio.gather(*(engine.generate(r) for r in prompts()))
        then = [Request((*g.token_ids, 5, 6, 7), 8) for g in first]
        return [g.token_ids for g in first] + [g.token_ids for g in await asyncio.gather(*(engine.generate(r) for r in then))]

    return asyncio.run(ask())


@pytest.mark.ci
@pytest.mark.parametrize("architecture", mostly_ci(ARCHITECTURES, "llama"))
def test_batched_and_shared_like_one_by_one(tiny, tmp_path, architecture):
    """Whatever a model keeps of its past: together, with shared beginnings and from files, it answers as one request at a time does."""
    file = tiny(architecture)
    alone = opened(file, replace(SETTINGS, slots=1, share_prefixes=False, prompt_lookup=False), None)
    expected = answers(alone)
    alone.close()
    engine = opened(file, SETTINGS, tmp_path)

    assert answers(engine) == expected
    assert answers(engine) == expected  # now with what was kept
    assert inconsistencies(engine) == []
    engine.close()


@pytest.mark.ci
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_settings_are_found_for_every_kind(tiny, architecture):
    """Measuring works for all of them, and what it chooses answers."""
    engine = Engine(lambda: open_backend(tiny(architecture), EngineOptions("n_ctx=512", retune=True)))
    answer = asyncio.run(engine.generate(Request((5, 6, 7), 4)))
    engine.close()

    assert answer.output_tokens
