"""What tests of the server share: a server over the module's index, its clients, and a browser."""

import shutil
from pathlib import Path

import pytest

from localrag.engine.settings import EngineOptions
from localrag.project import open_for_query
from localrag.serve.query_worker import QueryWorker
from tests.serve.browser import chromium
from tests.serve.server import served_here


@pytest.fixture(scope="module")
def folder(plain_town, tmp_path_factory):
    """A copy of the index of letters; a module may have another `folder`."""
    return Path(shutil.copytree(plain_town, tmp_path_factory.mktemp("served") / "town"))


@pytest.fixture(scope="module")
def server(folder):
    """A server in this process over the module's `folder`."""
    with served_here(folder) as running:
        yield running


@pytest.fixture(scope="module")
def client(server):
    """An HTTP client with the key."""
    with server.client() as made:
        yield made


@pytest.fixture(scope="module")
def openai_client(server):
    """A program that speaks OpenAI's protocol."""
    import openai

    return openai.OpenAI(base_url=f"{server.address}/v1", api_key=server.key, max_retries=0)


@pytest.fixture(scope="module")
def browser(server):
    """The browser of a module's tests; it begins after the index is made, since its loop runs in this thread."""
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def worker(folder):
    """What answers questions about the module's `folder` in this process, without a reader."""
    made = QueryWorker(folder / ".localrag", lambda: open_for_query(folder / ".localrag", engine=EngineOptions(use_adapters=False)))
    made.start()
    yield made
    made.close()
