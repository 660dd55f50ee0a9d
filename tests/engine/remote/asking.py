"""Requests to a server of a test, and an engine that sends them."""

import asyncio

from localrag.engine.remote.remote_engine import RemoteEngine
from localrag.engine.remote.servers import with_server_info
from localrag.engine.request import Request
from localrag.engine.settings import EngineOptions
from localrag.llm.grammar import choice_of
from localrag.model_files import find_chat_model
from tests.servers import Server

TEXT = "Ingrid Holm bought the ferry Skua in Vardby."
YES_OR_NO = choice_of(["yes", "no"])


def remote(url, **options):
    """An engine over a server, before it was asked anything."""
    return RemoteEngine(find_chat_model(f"{url}#m"), EngineOptions(**options))


def known(url, name="m", **options):
    """A served model with what its server tells."""
    return with_server_info(find_chat_model(f"{url}#{name}"), EngineOptions(**options))


def request(grammar=None, text=TEXT, max_tokens=50, **options):
    return Request((), max_tokens, grammar, messages=({"role": "user", "content": text},), **options)


def generate(engine, *args, **options):
    """The answer to a request with these arguments."""
    return asyncio.run(engine.generate(request(*args, **options)))


def ask(answer, *args, **options):
    """The answer to a request with these arguments, and what the server got."""
    with Server(answer) as server:
        return generate(remote(server.url), *args, **options), server.bodies
