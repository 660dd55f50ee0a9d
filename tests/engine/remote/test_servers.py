"""Servers that come and go, and what they tell of themselves: over loopback, each a real HTTP server."""

import asyncio
import json
import threading
import time
from dataclasses import replace

import pytest

from localrag.engine.remote import servers
from localrag.engine.remote.remote_engine import RemoteEngine
from localrag.engine.settings import EngineOptions
from localrag.errors import ContextTooSmall, EngineError, IndexMismatch, ModelError, UsageError
from localrag.model_files import ServerInfo, find_chat_model
from localrag.project import open_for_query, open_for_writing, resolve_answer_style
from localrag.records import Document, LlmCall
from localrag.settings import IndexSettings
from localrag.store import documents, llm_cache, runs
from tests.engine.remote.asking import TEXT, known, request
from tests.servers import Server, answered, llama


def question(text=TEXT, priority=1):
    return request(text=text, max_tokens=5, priority=priority)


def free_port():
    """A port that nobody listens on."""
    made = Server(lambda _: "")
    made.close()
    return made.port


async def all_of(engine, n):
    return await asyncio.gather(*(engine.generate(question(f"{TEXT} {i}")) for i in range(n)))


def test_how_many_at_once_can_be_said_by_hand():
    """--parallel holds against what a server tells."""
    pause = threading.Event()
    with Server(lambda _: pause.wait(0.05) or "a", llama(slots=6)) as one:
        engine = RemoteEngine(known(one.url), EngineOptions(parallel_requests=3))
        asyncio.run(all_of(engine, 20))
        assert (one.most, engine.parallel_requests) == (3, 3)


@pytest.mark.ci
def test_a_server_that_is_down_pauses_the_run():
    """While the only server is away requests wait; one line says that it is awaited, one that it is back; nothing fails."""
    said = []
    one = Server(lambda _: time.sleep(0.02) or "a", llama())
    engine = RemoteEngine(known(one.url), EngineOptions(notify=said.append))

    async def run():
        asking = asyncio.create_task(all_of(engine, 30))
        await asyncio.sleep(0.1)
        one.close()
        await asyncio.sleep(1.5)
        assert not asking.done()
        with Server(lambda _: "a", llama(), port=one.port):
            return await asking

    assert [a.text for a in asyncio.run(run())] == ["a"] * 30
    assert said == [f"{one.url} does not answer; waiting for it …", f"{one.url} is back."]


@pytest.mark.ci
def test_waiting_has_an_end(monkeypatch):
    """A person is told soon that a server does not answer, an indexing run after long; both with what to do."""
    file = replace(find_chat_model(f"http://127.0.0.1:{free_port()}/v1#m"), server=ServerInfo())
    monkeypatch.setattr(servers, "INTERACTIVE_WAIT_S", 0.5)
    with pytest.raises(EngineError, match="has not answered") as error:
        asyncio.run(RemoteEngine(file, EngineOptions()).generate(question(priority=0)))
    assert "Start the server" in error.value.hint
    monkeypatch.setattr(servers, "INDEXING_WAIT_S", 3)
    engine = RemoteEngine(file, EngineOptions())
    with pytest.raises(EngineError, match="has not answered for"):
        asyncio.run(engine.generate(question()))

    async def another():
        async with asyncio.timeout(2):  # it need not wait as long again
            await engine.generate(question())

    with pytest.raises(EngineError, match="has not answered for"):
        asyncio.run(another())


def test_a_person_overtakes_indexing():
    """Of those who wait for a slot, a question comes before chunks that were there first."""
    order = []
    with Server(lambda body: time.sleep(0.05) or order.append(body["messages"][0]["content"]) or "a", llama(slots=1)) as one:
        engine = RemoteEngine(known(one.url), EngineOptions())

        async def run():
            asking = asyncio.create_task(all_of(engine, 5))
            await asyncio.sleep(0.02)
            await engine.generate(question("Who?", priority=0))
            await asking

        asyncio.run(run())
    assert order.index("Who?") <= 2


def test_another_model_behind_the_address_gets_nothing():
    """A server that comes back with another model is left out in words; where no server is left, the run ends."""
    one = Server(lambda _: "a", llama())
    engine = RemoteEngine(known(one.url), EngineOptions())
    one.close()
    with Server(lambda _: "b", llama(n_params=8_000_000_000), port=one.port) as other:
        with pytest.raises(ModelError, match="another model") as error:
            asyncio.run(engine.generate(question()))
        assert not isinstance(error.value, EngineError)
        assert other.bodies == []


def test_of_a_server_that_does_not_answer_nothing_is_known():
    """It is said at once, with what to do; so is a host that is not allowed."""
    with pytest.raises(EngineError, match="does not answer") as error:
        known(f"http://127.0.0.1:{free_port()}/v1")
    assert "Start the server" in error.value.hint
    with pytest.raises(UsageError, match="not on this machine"):
        known("http://192.0.2.7:8080/v1")


def test_an_index_outlives_the_addresses_of_its_server(tmp_path):
    """While the server is down an index knows its model; a new address is accepted, another model refused once the first was used."""
    folder = tmp_path / ".localrag"
    with Server(lambda _: "a", llama()) as one, open_for_writing(folder, model=f"{one.url}#m") as project:
        first = project.model.file.fingerprint
        style = asyncio.run(resolve_answer_style(project))
        documents.save_document(project.db, Document("d", "a.txt", "a", "The Skua leaks.", "h"), [])  # an empty index is bound to no model
    with open_for_query(folder) as project:
        assert project.model.file.fingerprint == first
        assert asyncio.run(resolve_answer_style(project)) == style == "extractive"
    with Server(lambda _: "a", llama()) as two, open_for_writing(folder, model=f"{two.url}#m") as project:
        assert project.model.file.fingerprint == first
        assert runs.load_settings(project.db)["chat_model"]["path"] == f"{two.url}#m"
        llm_cache.SqliteLlmCache(project.db).save(LlmCall("k", "report", first, "h", "", "", "a", (), 1, 1, 0.1), needed=True)
    with (
        Server(lambda _: "a", llama("tuned.gguf")) as three,
        pytest.raises(IndexMismatch),
        open_for_writing(folder, model=f"{three.url}#m"),
    ):
        pass


VLLM = {
    "/v1/models": {"data": [{"id": "m", "root": "/models/Qwen3-8B", "owned_by": "vllm", "max_model_len": 9000}]},
    "/tokenize": lambda body: {"count": 5, "tokens": [1, 2, 3, 4, 5][: len(body["prompt"])]},
}
OLLAMA = {
    "/v1/models": {"data": [{"id": "m", "owned_by": "library"}, {"id": "other", "owned_by": "library"}]},
    "/api/tags": {"models": [{"name": "m", "digest": "sha256:1"}, {"name": "other", "digest": "sha256:2"}]},
    "/api/ps": {"models": [{"name": "m", "context_length": 32768, "details": {"parameter_size": "8.2B"}}]},
}
STUDIO = {
    "/v1/models": {"data": [{"id": "m"}, {"id": "other"}]},
    "/api/v0/models": {"data": [{"id": "m", "arch": "qwen3", "quantization": "Q4_K_M", "loaded_context_length": 8192}]},
}


@pytest.mark.parametrize(
    ("gets", "window", "at_once", "parameters"),
    [
        (llama(slots=3, window=2048), 2048, 3, 134515008),
        (VLLM, 9000, 8, None),
        (OLLAMA, 32768, 8, 8_200_000_000),
        (OLLAMA | {"/api/ps": {"models": []}}, 4096, 8, None),
        (OLLAMA | {"/api/ps": {"models": []}, "/api/show": lambda _: {"parameters": "stop  <|x|>\nnum_ctx    16384\n"}}, 16384, 8, None),
        (STUDIO, 8192, 8, None),
        ({}, 4096, 8, None),
        ({"/v1/models": {"data": [{"id": "m"}]}}, 4096, 8, None),
    ],
)
def test_what_each_server_tells_is_used(gets, window, at_once, parameters):
    """Window, slots and size come from where llama-server, vLLM, Ollama and LM Studio tell them; else there are defaults."""
    with Server(lambda _: "a", gets) as one:
        file = known(one.url)
        engine = RemoteEngine(file, EngineOptions())
        assert (engine.window, engine.parallel_requests, engine.parameters) == (window, at_once, parameters)
        assert asyncio.run(engine.generate(question())).text == "a"
    assert bool(file.digest) == ("/v1/models" in gets and len(gets) > 1)


@pytest.mark.parametrize(
    "models",
    [
        3,
        [],
        {"data": 3},
        {"data": [3, {"id": 3}]},
        {"data": [{"id": "m", "owned_by": "llamacpp", "meta": {"n_params": "many", "size": -1}}]},
        {"data": [{"id": "m", "max_model_len": True, "root": 7}]},
        {"data": [{"id": "m", "meta": {}, "owned_by": ["llamacpp"]}]},
    ],
)
def test_odd_facts_are_no_facts(models):
    """A server that describes itself wrongly is one that tells nothing."""
    gets = {"/v1/models": models, "/props": {"default_generation_settings": [1], "total_slots": "x"}, "/tokenize": lambda _: {"tokens": 3}}
    with Server(lambda _: "a", gets | {"/api/tags": [1], "/api/v0/models": {"data": {}}, "/api/ps": None}) as one:
        engine = RemoteEngine(known(one.url), EngineOptions())
        assert (engine.window, engine.parallel_requests, engine.parameters) == (4096, 8, None)
        assert asyncio.run(engine.generate(question())).text == "a"


@pytest.mark.parametrize(
    ("path", "gets"),
    [
        *((path, {}) for path in ("", "/", "/v1/", "/v1/chat/completions", "/v1/models")),
        ("", {"/models": {"error": "Unexpected endpoint or method. (GET /models)"}}),  # LM Studio, with status 200
        ("", {"/models": "<html></html>"}),
    ],
)
def test_an_address_is_found_with_and_without_its_end(path, gets):
    """Without /v1 it is added where the server has it; a copied endpoint is taken off."""
    with Server(lambda _: "a", gets | {"/v1/models": {"data": [{"id": "m"}]}}) as one:
        file = known(f"http://127.0.0.1:{one.port}{path}")
        assert asyncio.run(RemoteEngine(file, EngineOptions()).generate(question())).text == "a"
    assert one.posted == ["/v1/chat/completions"]


def test_an_address_without_its_scheme_is_told_from_a_file():
    """One line says what it should be."""
    with pytest.raises(ModelError, match="begins with http") as error:
        find_chat_model("localhost:1234/v1#m")
    assert error.value.hint == "Did you mean --model http://localhost:1234/v1#m?"


LISTED = {"data": [{"id": "qwen/Qwen3-8B"}, {"id": "gemma:latest"}, {"id": "smol.gguf"}, {"id": "nomic-embed-text"}]}


@pytest.mark.parametrize(
    ("name", "listed"),
    [("QWEN/qwen3-8b", "qwen/Qwen3-8B"), ("qwen3-8b", "qwen/Qwen3-8B"), ("gemma", "gemma:latest"), ("smol", "smol.gguf")],
)
def test_a_model_is_found_by_a_part_of_its_name(name, listed):
    """In another case, without its folder, its ending or its tag; requests have the name that the server uses."""
    with Server(lambda _: "a", {"/v1/models": LISTED}) as one:
        asyncio.run(RemoteEngine(known(one.url, name=name), EngineOptions()).generate(question()))
    assert [b["model"] for b in one.bodies] == [listed]


def test_an_unknown_model_is_said_before_anything_is_tried():
    """With what the server has."""
    with Server(lambda _: "a", {"/v1/models": LISTED}) as one:
        with pytest.raises(EngineError, match="has no model 'qwen4'") as error:
            known(one.url, name="qwen4")
        with pytest.raises(EngineError, match="has several models"):
            known(one.url, name="default")
    assert "It has: qwen/Qwen3-8B, gemma:latest" in error.value.hint
    assert one.bodies == []


def test_of_no_name_the_only_chat_model_is_meant():
    """An embedder beside it is none."""
    with Server(lambda _: "a", {"/v1/models": {"data": [{"id": "text-embedding-nomic-embed-text-v1.5"}, {"id": "qwen3"}]}}) as one:
        asyncio.run(RemoteEngine(known(one.url, name="default"), EngineOptions()).generate(question()))
    assert [b["model"] for b in one.bodies] == ["qwen3"]


@pytest.mark.parametrize(
    ("name", "gets"),
    [
        ("nomic-embed-text", {"/v1/models": LISTED}),
        ("mmproj-model-f16.gguf", {"/v1/models": {"data": [{"id": "mmproj-model-f16.gguf"}]}}),
        ("smol.gguf", llama("Qwen3-Embedding-0.6B.gguf")),
    ],
    ids=["by its name", "a projector", "llama-server"],
)
def test_a_model_that_cannot_chat_is_said_before_anything_is_tried(name, gets):
    """An embedder, a reranker or a projector, by its name."""
    with Server(lambda _: "a", gets) as one, pytest.raises(EngineError, match="is no chat model"):
        known(one.url, name=name)
    assert one.bodies == []


@pytest.mark.ci
def test_a_server_that_is_still_loading_is_waited_for():
    """llama-server lists its model without numbers until it has loaded it; it gets no request before."""
    gets, looked = llama(), []
    ready = gets["/v1/models"]

    def models():
        looked.append(1)
        return ready if len(looked) > 3 else {"data": [{"id": "m", "owned_by": "llamacpp", "meta": None}]}

    with Server(lambda _: "a", gets | {"/v1/models": models}) as one:
        file = replace(find_chat_model(f"{one.url}#m"), server=ServerInfo())
        assert asyncio.run(RemoteEngine(file, EngineOptions()).generate(question())).text == "a"
        assert len(looked) > 3


def test_a_server_that_loads_its_models_when_they_are_asked_is_not_waited_for():
    """llama-server with several models lists them with their status; the first request loads one."""
    entries = [{"id": name, "owned_by": "llamacpp", "status": {"value": "unloaded"}} for name in ("m", "other")]
    with Server(lambda _: "a", {"/v1/models": {"data": entries}}) as one:
        assert asyncio.run(RemoteEngine(known(one.url), EngineOptions()).generate(question())).text == "a"
    assert [b["model"] for b in one.bodies] == ["m"]


def test_a_prompt_that_cannot_fit_is_not_sent():
    """The server's own vocabulary counts a prompt that may be too long; one that is gets no answer, one that is not does."""
    with Server(lambda _: "a", llama(window=100)) as one:
        engine = RemoteEngine(known(one.url), EngineOptions())
        asyncio.run(engine.generate(question("Vardby " * 80)))
        with pytest.raises(ContextTooSmall, match="A prompt of 90 tokens"):
            asyncio.run(engine.generate(question("Vardby " * 90)))
    assert len(one.bodies) == 1


def test_the_address_of_one_server_is_given():
    """Two addresses, two names, or something that is not an address, are said to be wrong; white space does no harm."""
    for wrong in ("http://a/v1#x,http://b/v1#y", "http://a/v1,http://b:8080#x"):
        with pytest.raises(ModelError, match="not the address of one server") as error:
            find_chat_model(wrong)
        assert error.value.hint == "Format: --model http://127.0.0.1:8080/v1#NAME"
    assert find_chat_model("http://a/v1/ #x").url == "http://a/v1"
    with pytest.raises(UsageError, match="not the address"):
        RemoteEngine(find_chat_model("http:///v1#x"), EngineOptions())


def test_settings_are_not_touched_by_how_a_server_is_reached(tmp_path):
    """Neither hosts nor the number of requests at once are kept in an index."""
    with Server(lambda _: json.dumps(answered("a")), llama()) as one:
        options = EngineOptions(allowed_hosts=("gpu.example",), parallel_requests=5)
        with open_for_writing(tmp_path / ".localrag", model=f"{one.url}#m", engine=options) as project:
            assert project.settings == IndexSettings()
            assert "gpu.example" not in json.dumps(runs.load_settings(project.db))
