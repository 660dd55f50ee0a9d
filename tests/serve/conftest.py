"""What tests of the server share: a server over the module's index, its clients, and a browser."""

import pytest

from tests.serve.browser import chromium
from tests.serve.server import served_here


@pytest.fixture(scope="module")
def server(folder):
    """A server in this process over the module's `folder`."""
    with served_here(folder) as running:
        yield running


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
