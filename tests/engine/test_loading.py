"""Loading a model: what goes wrong or is interrupted on the way leaves nothing behind."""

import asyncio
import threading
from pathlib import Path

import pytest

from localrag.engine.autotune import load
from localrag.engine.llama import model as model_llama
from localrag.engine.llama.model import LlamaModel
from localrag.engine.llama.pooled import PooledModel
from localrag.engine.settings import EngineOptions, EngineSettings
from localrag.errors import ModelError
from localrag.llm.model import ChatModel
from localrag.model_files import ModelFile
from localrag.store.llm_cache import SqliteLlmCache
from localrag.store.opening import open_index
from tests.fakes import FakeLlama

SETTINGS = EngineSettings(slots=2, n_ctx=256)


def mapped(path):
    """Whether the file is in this process's memory, as the weights of every loaded model are."""
    return str(path) in Path("/proc/self/maps").read_text()


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="the system does not say what a process has in memory")
@pytest.mark.parametrize(
    "fails",
    ["_check_chat_model", "open_format", "_check_memory", "_open_context", "_probe_truncate"],
)
def test_a_model_that_cannot_be_used_is_freed(tiny, monkeypatch, fails):
    """Whichever step after the loading fails, the weights leave the memory; a sibling that fails leaves its model usable."""
    file = tiny("llama")

    def failing(*_):
        raise ModelError("not this one")

    model = LlamaModel(file, SETTINGS)
    assert mapped(file.path)
    with monkeypatch.context() as patch:
        patch.setattr(model_llama if fails == "open_format" else LlamaModel, fails, failing)
        if fails not in ("_check_chat_model", "open_format"):
            with pytest.raises(ModelError, match="not this one"):
                model.share_weights(SETTINGS)
        model.decode([(5, 0, 0, True)])
        model.close()
        assert not mapped(file.path)
        with pytest.raises(ModelError, match="not this one"):
            LlamaModel(file, SETTINGS)
    assert not mapped(file.path)


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="the system does not say what a process has in memory")
def test_a_model_that_is_none_of_its_kind_is_freed(tiny):
    """A chat model given as an embedder."""
    with pytest.raises(ModelError, match="is not an embedding model"):
        PooledModel(tiny("llama"), SETTINGS)

    assert not mapped(tiny("llama").path)


def test_what_was_freed_can_be_cut_without_harm(tiny, monkeypatch):
    """After the KV could not be made anew, cutting a sequence does nothing; it does not touch the memory that was freed."""

    def failing(*_):
        raise ModelError("not now")

    model = LlamaModel(tiny("llama"), SETTINGS)
    with monkeypatch.context() as patch, pytest.raises(ModelError, match="not now"):
        patch.setattr(LlamaModel, "_check_memory", failing)
        model.reset()

    assert model._memory is None
    model.truncate(0, 0)
    model.truncate(1, 5)
    model.reset()
    assert model.decode([(5, 0, 0, True)]).shape == (1, model.n_vocab)
    model.close()


class Loads:
    """Stands in for opening a backend: waits until it is let go, and remembers what it gave."""

    def __init__(self, error=None):
        self.go, self.made, self.error = threading.Event(), [], error

    def __call__(self, *_):
        assert self.go.wait(10)
        if self.error:
            error, self.error = self.error, None
            raise error
        self.made.append(FakeLlama())
        return self.made[-1]


@pytest.fixture
def loads(monkeypatch):
    made = Loads()
    monkeypatch.setattr("localrag.engine.autotune.load.open_backend", made)
    return made


@pytest.fixture
def model(tmp_path):
    return ChatModel(
        SqliteLlmCache(open_index(tmp_path / "index", create=True)), ModelFile("m", "chat", tmp_path / "m.gguf"), EngineOptions()
    )


async def cancelled(model):
    """A call that is cancelled while the model is being loaded."""
    task = asyncio.create_task(model.engine())
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_a_load_whose_caller_is_gone_serves_the_next_one(model, loads):
    """Cancelled while loading, and asked again from the same loop and from another: one engine is opened, and closed at the end."""

    async def run():
        await cancelled(model)
        loads.go.set()
        return await asyncio.gather(model.engine(), model.engine())

    first, second = asyncio.run(run())
    third = asyncio.run(model.engine())
    model.close()

    assert first is second is third
    assert [b.closed for b in loads.made] == [True]


def test_a_load_whose_caller_is_gone_ends_with_the_model(model, loads):
    """Closed while it is still being loaded, the model is waited for and freed."""
    asyncio.run(cancelled(model))
    threading.Timer(0.2, loads.go.set).start()
    model.close()

    assert [b.closed for b in loads.made] == [True]


def test_a_load_that_failed_is_tried_again(model, loads):
    """All who wait get the error; the next call loads anew, also from another event loop."""
    loads.error = ModelError("no memory")
    loads.go.set()

    async def run():
        return await asyncio.gather(*(model.engine() for _ in range(3)), return_exceptions=True)

    assert [str(e) for e in asyncio.run(run())] == ["no memory"] * 3
    assert asyncio.run(model.engine()).backend is loads.made[0]
    model.close()
    assert [b.closed for b in loads.made] == [True]


@pytest.mark.ci
def test_a_new_model_answers_before_it_is_measured(tiny, tmp_path, monkeypatch):
    """With `measure_later` nothing is measured when it is loaded, only tried; what is measured then is found by the next start."""
    monkeypatch.setattr(load, "cache_dir", lambda: tmp_path)
    file, options = tiny("llama"), EngineOptions(measure_later=True)
    load.open_backend(file, options).close()
    assert load.read_record(file).cached_settings() is None

    load.measure_if_new(file, options)
    measured = load.read_record(file).cached_settings()
    backend = load.open_backend(file, options)
    backend.close()
    assert measured is not None
    assert backend.settings.kv_cache_type == measured.kv_cache_type
