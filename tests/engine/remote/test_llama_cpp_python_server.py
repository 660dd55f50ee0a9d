"""The server of llama-cpp-python with the bundled model: what it tells, answers in a form, an index and a question."""

import asyncio

import pytest

from localrag.engine.remote.remote_engine import RemoteEngine
from localrag.engine.settings import EngineOptions
from localrag.errors import ContextTooSmall
from tests.engine.remote.asking import YES_OR_NO, known, request
from tests.servers import ModelServer

pytestmark = pytest.mark.ci
WINDOW = 2048


@pytest.fixture(scope="module")
def url(chat_file):
    """The address of a running server."""
    pytest.importorskip("fastapi")
    arguments = ("--model", chat_file.path, "--port", "{port}", "--n_ctx", WINDOW)
    server = ModelServer("-m", "llama_cpp.server", *arguments, health="/v1/models")
    yield server.url
    server.kill()


def test_it_answers_in_prose_and_in_a_form(url):
    """Streamed text is the answer; a choice is one of its options."""
    shown = []
    engine = RemoteEngine(known(url, "default"), EngineOptions())

    said = asyncio.run(engine.generate(request(text="What is a ferry?", on_text=shown.append)))
    chosen = asyncio.run(engine.generate(request(YES_OR_NO, "Is the sea wet? Answer yes or no.")))

    assert said.text
    assert "".join(shown) == said.text
    assert chosen.text in ("yes", "no")


def test_a_request_beyond_its_window_is_known_and_the_window_remembered(url):
    """It does not tell its window; its error does."""
    engine = RemoteEngine(known(url, "default"), EngineOptions())
    with pytest.raises(ContextTooSmall):
        asyncio.run(engine.generate(request(text="The ferry leaks. " * 1400)))
    assert engine.window == WINDOW
