"""Which machines may work together: the same programs, and arithmetic that agrees to the last bit."""

import asyncio
import time
from types import SimpleNamespace

import numpy as np
import pytest

from localrag.engine.embedder import open_embedder
from localrag.engine.settings import EngineOptions
from localrag.errors import NativeTrialFailed, UsageError
from localrag.indexing.tasks import TaskContext
from localrag.indexing.workers.ray_pool import _RayPoolManager
from localrag.indexing.workers.worker import MajorityVote, WorkerConfig, engine_layout, numerics_class, software_versions, version_mismatch
from localrag.llm.model import ChatModel
from localrag.llm.tagger import Tagger
from localrag.model_files import find_embedder
from localrag.settings import IndexSettings


def test_a_difference_is_named_with_what_mends_it():
    """localrag's version, its own files, llama.cpp, Python; the first that differs."""
    ours = software_versions()
    assert version_mismatch(ours, dict(ours)) is None
    assert version_mismatch(ours, ours | {"localrag": "0.0.9"})[0] == f"localrag 0.0.9 instead of {ours['localrag']}"
    assert "the same checkout or wheel" in version_mismatch(ours, ours | {"localrag's own files": "0"})[1]
    assert "llama-cpp-python==" in version_mismatch(ours, ours | {"llama.cpp": "0.1"})[1]
    assert "Python 3." in version_mismatch(ours, {k: v for k, v in ours.items() if k != "Python"})[1]


def found(model=None, embedder=None, tagger=None):
    embedder = embedder or SimpleNamespace(embed=lambda texts: np.ones((len(texts), 2), np.float32))
    return asyncio.run(numerics_class(TaskContext(model, embedder, tagger, IndexSettings(), lambda _: ""), asks=model is not None))


@pytest.mark.slow
def test_equal_settings_are_of_one_class_and_other_roundings_of_another(tiny):
    """The same model opened twice agrees, also with other settings for speed; with its KV in another type it does not."""
    kinds, layouts = {}, {}
    plain = "n_ctx=512,slots=2,threads=1,kv_cache_type=f16,weights=own,extra_buffers=no,flash_attention=no,gpu_layers=0"
    for name, values in {"a": plain, "b": plain, "slots": plain.replace("slots=2", "slots=4"), "kv": plain.replace("f16", "bf16")}.items():
        model = ChatModel(None, tiny("llama"), EngineOptions(values, prefix_files=False))
        try:
            kinds[name] = found(model)
            layouts[name] = asyncio.run(engine_layout(SimpleNamespace(model=model)))
        finally:
            model.close()

    assert layouts["a"] == layouts["slots"] == layouts["kv"].replace("bf16", "f16")
    assert kinds["a"] == kinds["b"] == kinds["slots"]
    assert kinds["kv"] != kinds["a"]


@pytest.mark.ci
def test_the_embedder_and_the_tagger_count(home):
    """Their figures are part of the class, and the same each time."""
    embedder = find_embedder()
    kinds = {found(embedder=open_embedder(embedder)) for _ in range(2)}
    assert len(kinds) == 1
    assert found() not in kinds
    assert found(tagger=Tagger()) == found(tagger=Tagger()) != found()


@pytest.mark.parametrize("order", [("a", "b", "b"), ("b", "b", "a"), ("b", "a", "b")])
def test_what_most_say_is_chosen_once_all_have_spoken(order):
    """In whatever order they answer; one that is gone is not waited for, and one that comes later changes nothing."""

    async def run():
        vote = MajorityVote()
        vote.awaited |= {0, 1, 2, "gone"}
        saying = [asyncio.create_task(vote.cast(n, said)) for n, said in enumerate(order)]
        await asyncio.sleep(0.1)
        assert vote.chosen is None
        vote.awaited.discard("gone")
        found = {await one for one in saying}
        return found | {await vote.cast("late", "a") for _ in range(5)}

    assert asyncio.run(run()) == {"b"}


def test_of_as_many_the_same_is_chosen_each_time():
    """Two machines that differ choose the same in every run, whoever is the first."""

    async def run(*order):
        vote = MajorityVote()
        vote.awaited |= set(order)
        return {await one for one in [asyncio.create_task(vote.cast(said, said)) for said in order]}

    assert asyncio.run(run("a", "b")) == asyncio.run(run("b", "a"))


class Machine:
    """A worker on a machine whose engine would by itself be set up in one way, and can be in others."""

    def __init__(self, name, own, can=()):
        self.name, self.own, self.can, self.location, self.numerics = name, own, (own, *can), "", ""

    async def software_info(self):
        return {"software": software_versions(), "time": time.time(), "cores": 2}

    async def ask(self, what, value):
        if what == "open":
            self.layout = value.options.overrides or self.own
            if self.layout not in self.can and self.can[-1] != "another":
                raise NativeTrialFailed(f"m with {self.layout} does not work on this machine: it ended a process.")
            if self.layout not in self.can:
                self.layout = "another"
        return self.layout if what == "layout" else hash_of(self.layout) if what == "probe" else None


def hash_of(layout):
    return f"class of {layout}"


def admitted(*machines, mixed=False):
    """Of each machine its class, or why it may not work; and what was said."""
    said = []

    async def run():
        employer = _RayPoolManager(
            "a:1",
            None,
            WorkerConfig(None, None, False, IndexSettings(), EngineOptions()),
            [],
            said.append,
            (),
            probes=True,
            mixed=mixed,
            every=1,
        )
        for machine in machines:
            employer._delay_vote_until(machine)

        async def one(machine):
            try:
                await employer._prepare_worker(machine)
            except UsageError as error:
                employer._delay_vote_until(machine, no_more=True)
                return f"{error} {error.hint}"
            return machine.numerics

        return await asyncio.gather(*map(one, machines))

    return asyncio.run(run()), said


def test_a_worker_is_told_how_the_others_engines_are_set_up():
    """Equal machines that measured differently work together, and it is said of the one that had to give way."""
    found, said = admitted(
        Machine("x", "kv_cache_type=f16", ["kv_cache_type=bf16"]), Machine("y", "kv_cache_type=bf16"), Machine("z", "kv_cache_type=bf16")
    )

    assert found == [hash_of("kv_cache_type=bf16")] * 3
    assert said == ["The engine of x is set up as those of the others: kv_cache_type=bf16. By itself it would be kv_cache_type=f16."]


def test_a_worker_that_cannot_do_as_the_others_is_refused():
    """Where its engine does not work so, or comes out in another way; the reason and what would take it are said."""
    found, said = admitted(
        Machine("x", "kv_cache_type=f16"),
        Machine("y", "kv_cache_type=bf16"),
        Machine("z", "kv_cache_type=bf16"),
        Machine("w", "a", ["another"]),
    )

    assert found[1:3] == [hash_of("kv_cache_type=bf16")] * 2
    assert "cannot use the settings of the others (kv_cache_type=bf16): m with kv_cache_type=bf16 does not work on this machine" in found[0]
    assert "--allow-mixed-hardware" in found[0]
    assert "(kv_cache_type=bf16); it would be another. To use it anyway: --allow-mixed-hardware" in found[3]
    assert not said


def test_where_all_are_taken_nobody_is_told():
    """With `mixed` each computes as it does best."""
    found, _ = admitted(
        Machine("x", "kv_cache_type=f16", ["kv_cache_type=bf16"]),
        Machine("y", "kv_cache_type=bf16"),
        Machine("z", "kv_cache_type=bf16"),
        mixed=True,
    )

    assert found == [hash_of("kv_cache_type=f16"), *[hash_of("kv_cache_type=bf16")] * 2]
