"""Which machines may work together: the same programs, and arithmetic that agrees to the last bit."""

import asyncio
from types import SimpleNamespace

import numpy as np
import pytest

from localrag.config import Settings
from localrag.engine.embedding.embedder import open_embedder
from localrag.engine.settings import EngineOptions
from localrag.index.crew.alike import arithmetic, difference, software
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
    kinds = {}
    plain = "context=512,slots=2,threads=1,kv=f16,weights=own,unified=no,flash_attention=no,gpu_layers=0"
    for name, values in {"a": plain, "b": plain, "slots": plain.replace("slots=2", "slots=4"), "kv": plain.replace("f16", "bf16")}.items():
        model = Model(None, tiny("llama"), EngineOptions(values, prefix_files=False))
        try:
            kinds[name], settings = found(model)
        finally:
            model.close()

    assert "kv=bf16" in settings
    assert kinds["a"] == kinds["b"] == kinds["slots"]
    assert kinds["kv"] != kinds["a"]


def test_the_embedder_and_the_tagger_count(home):
    """Their figures are part of the class, and the same each time."""
    embedder = find_embedder()
    kinds = {found(embedder=open_embedder(embedder))[0] for _ in range(2)}
    assert len(kinds) == 1
    assert found()[0] not in kinds
    assert found(tagger=Tagger())[0] == found(tagger=Tagger())[0] != found()[0]
