"""Deadlines of a connection: for the headers of every request, for a body, and for reading an answer; making an answer has none."""

import asyncio
import socket
import threading
import time
from contextlib import ExitStack, contextmanager, suppress

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from localrag.serve import app as app_serve
from localrag.serve import auth
from localrag.serve.app import _EXCEPTION_HANDLERS, uvicorn_limits
from localrag.serve.auth import AccessMiddleware, AccessPolicy
from tests.conftest import until

SHORT = 0.6  # seconds that are allowed
LONG = 20.0  # seconds after which a test gives up
HALF = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Half: "
WHOLE = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
HEAD = b"POST /api/session HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 10000\r\n"
KEY = "k" * 32


async def healthz(_request: Request) -> Response:
    return JSONResponse({"ok": True})


async def session(request: Request) -> Response:
    return JSONResponse({"bytes": len(await request.body())})


async def answering(_request: Request) -> Response:
    """An answer of ten sentences, which takes longer than any deadline here."""

    async def sentences():
        for n in range(10):
            await asyncio.sleep(SHORT / 3)
            yield f"Sentence {n}.\n"

    return StreamingResponse(sentences())


async def large(_request: Request) -> Response:
    return Response(bytes(16 << 20))


@pytest.fixture
def server(monkeypatch):
    """A server with the guard and short deadlines: its port, and its connections."""
    monkeypatch.setattr(app_serve, "REQUEST_TIMEOUT_S", SHORT)
    monkeypatch.setattr(app_serve, "SEND_TIMEOUT_S", SHORT)
    monkeypatch.setattr(auth, "SENDS_WITHIN", SHORT)
    monkeypatch.setattr(auth, "SLOWEST", 1000)
    monkeypatch.setattr(app_serve, "MAX_CONNECTIONS", 64)
    kept = [("/healthz", healthz), ("/api/session", session), ("/static/answer", answering), ("/static/large", large)]
    routes = [Route(path, handler, methods=["GET", "POST"]) for path, handler in kept]
    app = Starlette(
        routes=routes, middleware=[Middleware(AccessMiddleware, policy=AccessPolicy(KEY))], exception_handlers=_EXCEPTION_HANDLERS
    )
    config = uvicorn.Config(app, host="127.0.0.1", port=0, log_level="critical", **uvicorn_limits())
    running = uvicorn.Server(config)
    bound = config.bind_socket()
    thread = threading.Thread(target=running.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()
    until(lambda: running.started)
    yield bound.getsockname()[1], running.server_state.connections
    running.should_exit = True
    thread.join(LONG)
    assert not thread.is_alive()


@contextmanager
def connected(port, said=b"", answered=True, **options):
    """A connection that has sent some bytes; the answer is read if they were a whole request."""
    with socket.socket() as link:
        if options:
            link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, options["receives"])
        link.settimeout(LONG)
        link.connect(("127.0.0.1", port))
        link.sendall(said)
        if said and answered:
            assert b"200 OK" in answer_of(link)
        yield link


def answer_of(link):
    """A whole answer of few words."""
    said = b""
    while not said.endswith(b"}"):
        piece = link.recv(10_000)
        assert piece, said
        said += piece
    return said


def closed_while_dripping(link, pause=SHORT / 5):
    """Send a byte now and then until the server closes the connection; return what it sent before."""
    link.settimeout(pause)
    said, end = b"", time.monotonic() + LONG
    while time.monotonic() < end:
        with suppress(TimeoutError):
            try:
                found = link.recv(10_000)
            except ConnectionError:
                return said
            if not found:
                return said
            said += found
            continue
        with suppress(OSError):
            link.sendall(b"x")
    pytest.fail(f"the connection stays open; it said {said[:200]!r}")


def served(port):
    """Whether another client is answered."""
    with connected(port, WHOLE):
        return True


@pytest.mark.parametrize("before", [b"", WHOLE], ids=["first", "after another"])
def test_headers_that_do_not_end_close_the_connection(server, before):
    """Headers of a first or a later request have a deadline, however often a byte comes."""
    port, _ = server
    with connected(port, before) as link:
        link.sendall(HALF)
        assert closed_while_dripping(link) == b""


def test_as_many_connections_as_there_may_be_cannot_be_held_with_half_a_header_each(server):
    """Half a header on every connection does not hold them: all are closed in time, and other clients are served."""
    port, held = server
    with ExitStack() as stack:
        links = [stack.enter_context(connected(port, WHOLE)) for _ in range(64)]
        for link in links:
            link.sendall(HALF)
        with socket.create_connection(("127.0.0.1", port), timeout=LONG) as refused:
            assert b" 503 " in refused.recv(1000)
        end = time.monotonic() + LONG
        while held and time.monotonic() < end:
            for link in links:
                with suppress(OSError):
                    link.sendall(b"x")
            time.sleep(SHORT / 5)
        assert not held
        assert served(port)


@pytest.mark.ci
def test_a_body_that_comes_too_slowly_is_refused_and_its_connection_closed(server):
    """A slow body is refused, however often a byte of it comes."""
    port, _ = server
    with connected(port, HEAD + b"\r\n{", answered=False) as link:
        assert b" 408 " in closed_while_dripping(link)


def test_a_body_that_goes_on_after_its_request_was_refused_does_not_hold_the_connection(server):
    """After a refusal the rest of the body has a deadline, too."""
    port, _ = server
    with connected(port, HEAD.replace(b"/api/session", b"/api/ask") + b"\r\n{", answered=False) as link:
        assert b" 401 " in closed_while_dripping(link)


@pytest.mark.ci
def test_a_body_that_comes_steadily_may_take_longer_than_a_pause(server):
    """The deadline of a body grows with the bytes that have come."""
    port, _ = server
    with connected(port, HEAD + b"\r\n", answered=False) as link:
        for _ in range(20):
            link.sendall(bytes(500))
            time.sleep(SHORT / 4)
        assert b"200 OK" in answer_of(link)


@pytest.mark.ci
def test_a_connection_serves_one_request_after_the_other(server):
    """Requests on one connection each have the full time, also for headers that come in pieces."""
    port, _ = server
    with connected(port) as link:
        for _ in range(4):
            for piece in (WHOLE[:10], WHOLE[10:40], WHOLE[40:]):
                time.sleep(SHORT / 4)
                link.sendall(piece)
            assert b"200 OK" in answer_of(link)


@pytest.mark.ci
def test_an_answer_that_takes_long_is_not_cut(server):
    """An answer may be streamed for longer than any deadline."""
    port, _ = server
    with connected(port, WHOLE.replace(b"/healthz", b"/static/answer"), answered=False) as link:
        said = b""
        while b"Sentence 9" not in said:
            piece = link.recv(10_000)
            assert piece, said
            said += piece
        link.sendall(WHOLE)
        assert b"200 OK" in answer_of(link)


@pytest.mark.parametrize("path", [b"/static/large", b"/healthz"])
def test_answers_that_are_not_read_close_the_connection(server, path):
    """A client that reads neither one large answer nor many small ones is disconnected."""
    port, held = server
    said = WHOLE.replace(b"/healthz", path)
    with connected(port, said, answered=False, receives=2048) as link:
        until(lambda: held)
        link.setblocking(False)
        for _ in range(20_000 if path == b"/healthz" else 1):
            with suppress(OSError):
                link.send(said)
        until(lambda: not held)
        assert served(port)
