"""Which machines may work together: the same programs, and arithmetic that agrees to the last bit."""

import asyncio
import time
from types import SimpleNamespace

import numpy as np
import pytest

from localrag.config import Settings
from localrag.engine.embedding.embedder import open_embedder
from localrag.engine.settings import EngineOptions
from localrag.errors import Refused, UsageError
from localrag.index.crew.alike import Vote, arithmetic, difference, own_layout, software
from localrag.index.crew.kit import Kit
from localrag.index.crew.on_ray import _Employer as Employer
from localrag.index.jobs import Tools
from localrag.llm.model import Model
from localrag.llm.tagging import Tagger
from localrag.models import find_embedder


def test_a_difference_is_named_with_what_mends_it():
    """localrag's version, its own files, llama.cpp, Python; the first that differs."""
    ours = software()
    assert difference(ours, dict(ours)) is None
    assert difference(ours, ours | {"localrag": "0.0.9"})[0] == f"localrag 0.0.9 instead of {ours['localrag']}"
    assert f"localrag[ray]=={ours['localrag']}" in difference(ours, ours | {"localrag's own files": "0"})[1]
    assert "llama-cpp-python==" in difference(ours, ours | {"llama.cpp": "0.1"})[1]
    assert "Python 3." in difference(ours, {k: v for k, v in ours.items() if k != "Python"})[1]


def found(model=None, embedder=None, tagger=None):
    embedder = embedder or SimpleNamespace(embed=lambda texts: np.ones((len(texts), 2), np.float32))
    return asyncio.run(arithmetic(Tools(model, embedder, tagger, Settings(), lambda _: ""), asks=model is not None))


@pytest.mark.slow
def test_equal_settings_are_of_one_class_and_other_roundings_of_another(tiny):
    """The same model opened twice agrees, also with other settings for speed; with its KV in another type it does not."""
    kinds, layouts = {}, {}
    plain = "context=512,slots=2,threads=1,kv=f16,weights=own,extra_buffers=no,unified=no,flash_attention=no,gpu_layers=0"
    for name, values in {"a": plain, "b": plain, "slots": plain.replace("slots=2", "slots=4"), "kv": plain.replace("f16", "bf16")}.items():
        model = Model(None, tiny("llama"), EngineOptions(values, prefix_files=False))
        try:
            kinds[name] = found(model)
            layouts[name] = asyncio.run(own_layout(SimpleNamespace(model=model)))
        finally:
            model.close()

    assert layouts["a"] == layouts["slots"] == layouts["kv"].replace("bf16", "f16")
    assert kinds["a"] == kinds["b"] == kinds["slots"]
    assert kinds["kv"] != kinds["a"]


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
        vote = Vote()
        vote.awaited |= {0, 1, 2, "gone"}
        saying = [asyncio.create_task(vote.say(n, said)) for n, said in enumerate(order)]
        await asyncio.sleep(0.1)
        assert vote.chosen is None
        vote.awaited.discard("gone")
        found = {await one for one in saying}
        return found | {await vote.say("late", "a") for _ in range(5)}

    assert asyncio.run(run()) == {"b"}


def test_of_as_many_the_same_is_chosen_each_time():
    """Two machines that differ choose the same in every run, whoever is the first."""

    async def run(*order):
        vote = Vote()
        vote.awaited |= set(order)
        return {await one for one in [asyncio.create_task(vote.say(said, said)) for said in order]}

    assert asyncio.run(run("a", "b")) == asyncio.run(run("b", "a"))


class Machine:
    """A worker on a machine whose engine would by itself be set up in one way, and can be in others."""

    def __init__(self, name, own, can=()):
        self.name, self.own, self.can, self.place, self.arithmetic = name, own, (own, *can), "", ""

    async def about(self):
        return {"software": software(), "time": time.time(), "cores": 2}

    async def ask(self, what, value):
        if what == "open":
            self.layout = value.options.values or self.own
            if self.layout not in self.can and self.can[-1] != "another":
                raise Refused(f"m with {self.layout} does not work on this machine: it ended a process.")
            if self.layout not in self.can:
                self.layout = "another"
        return self.layout if what == "layout" else hash_of(self.layout) if what == "probe" else None


def hash_of(layout):
    return f"class of {layout}"


def admitted(*machines, mixed=False):
    """Of each machine its class, or why it may not work; and what was said."""
    said = []

    async def run():
        employer = Employer(
            "a:1", None, Kit(None, None, False, Settings(), EngineOptions()), [], said.append, (), probes=True, mixed=mixed, every=1
        )
        for machine in machines:
            employer._await(machine)

        async def one(machine):
            try:
                await employer._admit(machine)
            except UsageError as error:
                employer._await(machine, no_more=True)
                return f"{error} {error.hint}"
            return machine.arithmetic

        return await asyncio.gather(*map(one, machines))

    return asyncio.run(run()), said


def test_a_worker_is_told_how_the_others_engines_are_set_up():
    """Equal machines that measured differently work together, and it is said of the one that had to give way."""
    found, said = admitted(Machine("x", "kv=f16", ["kv=bf16"]), Machine("y", "kv=bf16"), Machine("z", "kv=bf16"))

    assert found == [hash_of("kv=bf16")] * 3
    assert said == ["The engine of x is set up as those of the others: kv=bf16. By itself it would be kv=f16."]


def test_a_worker_that_cannot_do_as_the_others_is_refused():
    """Where its engine does not work so, or comes out in another way; the reason and what would take it are said."""
    found, said = admitted(Machine("x", "kv=f16"), Machine("y", "kv=bf16"), Machine("z", "kv=bf16"), Machine("w", "a", ["another"]))

    assert found[1:3] == [hash_of("kv=bf16")] * 2
    assert "cannot be set up as those of the others (kv=bf16): m with kv=bf16 does not work on this machine" in found[0]
    assert "--mixed" in found[0]
    assert "(kv=bf16); it would be another. Take it all the same: --mixed" in found[3]
    assert not said


def test_where_all_are_taken_nobody_is_told():
    """With `mixed` each computes as it does best."""
    found, _ = admitted(Machine("x", "kv=f16", ["kv=bf16"]), Machine("y", "kv=bf16"), Machine("z", "kv=bf16"), mixed=True)

    assert found == [hash_of("kv=f16"), *[hash_of("kv=bf16")] * 2]
