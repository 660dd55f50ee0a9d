"""`localrag mcp`: MCP over standard input and output, answered by a running `serve` of the same index, else by this process.

While it runs, `serve` says in a file of the index folder where it listens. What only looks at the index is read here in either case;
questions and searches, which need the models, go to that server over loopback, so that they are loaded once.
"""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from localrag.serve.worker import Worker
from localrag.system.files import replace_file
from localrag.where import EVERYTHING, Selection

if TYPE_CHECKING:
    from mcp import Client
    from mcp.types import CallToolResult

    from localrag.project import Project
    from localrag.serve.mcp_server import Tell

LOCK = "serve.lock"  # a file of the index folder
EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1", "localhost": "127.0.0.1"}  # what is listened on: where that is reached
LOOPBACK = ("127.0.0.1", "::1")
SILENCE = 60.0  # seconds without a word from the server; it tells of a question every two


@dataclass(frozen=True, slots=True)
class Running:
    """A server over an index: its process with the time that began, the loopback address and port it is reached at, where its key is."""

    pid: int
    began: float
    host: str
    port: int
    key_file: str

    @property
    def address(self) -> str:
        """Where it speaks MCP."""
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}/mcp"


@contextmanager
def announced(folder: Path, host: str, port: int, key_file: Path) -> Iterator[None]:
    """Say in the index folder where a server of this process listens. Where nothing can be written there, nobody is told."""
    mine = Running(os.getpid(), psutil.Process().create_time(), EVERYWHERE.get(host, host), port, str(key_file.absolute()))
    if mine.host not in LOOPBACK:  # only reached over the network, which a bridge does not use
        yield
        return
    with suppress(OSError):
        replace_file(folder / LOCK, json.dumps(asdict(mine)).encode())
    try:
        yield
    finally:
        if _read(folder) == mine:
            (folder / LOCK).unlink(missing_ok=True)


def running(folder: Path) -> Running | None:
    """The server over an index, where its process lives and itself listens at the port: nobody else is given the key."""
    found = _read(folder)
    if found is None or found.host not in LOOPBACK:
        return None
    try:
        process = psutil.Process(found.pid)
        if abs(process.create_time() - found.began) > 1:
            return None
        listening = {c.laddr.port for c in process.net_connections("tcp") if c.status == psutil.CONN_LISTEN}
    except (psutil.Error, OSError):
        return None
    return found if found.port in listening else None


def _read(folder: Path) -> Running | None:
    """What the file says; None where there is none, or where others may have written it."""
    file = folder / LOCK
    try:
        if os.name == "posix" and ((state := file.stat()).st_uid != os.getuid() or state.st_mode & 0o077):
            return None
        return Running(**json.loads(file.read_bytes()))
    except (OSError, ValueError, TypeError):
        return None


def _said(documents: Selection) -> dict[str, str]:
    """A selection as the arguments of a tool."""
    return {"where": documents.where, "collections": ",".join(documents.collections)} if documents else {}


class Nearest:
    """Answers from the server over an index while one runs, else from this process, which then opens the index itself. Close it."""

    def __init__(self, folder: Path, opened: "Callable[[], AbstractContextManager[Project]]") -> None:
        self._folder, self._opened = folder, opened
        self._worker: Worker | None = None

    async def search(self, query: str, k: int, documents: Selection = EVERYTHING) -> "CallToolResult":
        """The passages nearest a query."""
        from localrag.serve.mcp_server import Here

        arguments = {"query": query, "k": k, **_said(documents)}
        return await self._given(arguments, "search", lambda: Here(self._own()).search(query, k, documents))

    async def ask(self, question: str, mode: str, seconds: float, tell: "Tell", documents: Selection = EVERYTHING) -> "CallToolResult":
        """An answer."""
        from localrag.serve.mcp_server import Here

        async def hear(progress: float, total: float | None, message: str | None) -> None:
            await tell(progress, total or seconds, message or "")

        arguments = {"question": question, "mode": mode, "max_seconds": seconds, **_said(documents)}
        return await self._given(arguments, "ask", lambda: Here(self._own()).ask(question, mode, seconds, tell, documents), hear)

    async def _given(
        self, arguments: dict[str, Any], tool: str, here: "Callable[[], Awaitable[CallToolResult]]", hear: Any = None
    ) -> "CallToolResult":
        """What the server gives for a call; what this process gives where there is none, or it has just ended."""
        server = await asyncio.to_thread(running, self._folder)
        if server is not None:
            try:
                async with _connected(server) as client:
                    return await client.call_tool(tool, arguments, progress_callback=hear)
            except Exception:
                if await asyncio.to_thread(running, self._folder) == server:
                    raise
        return await here()

    def _own(self) -> Worker:
        if self._worker is None:
            self._worker = worker = Worker(self._folder, self._opened)
            worker.start(self._failed)
            return worker
        return self._worker

    def _failed(self, _error: BaseException) -> None:
        self._worker = None  # the next question tries again: what was missing may be there by then

    def close(self) -> None:
        """End the questions of this process and free its models."""
        if self._worker is not None:
            self._worker.close()


@asynccontextmanager
async def _connected(server: Running) -> "AsyncIterator[Client]":
    """A client of a server, by loopback, past any proxy."""
    import httpx2
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    key = Path(server.key_file).read_text(encoding="utf-8").strip()
    async with (
        httpx2.AsyncClient(headers={"authorization": f"Bearer {key}"}, trust_env=False, timeout=SILENCE) as http,
        Client(streamable_http_client(server.address, http_client=http)) as client,
    ):
        yield client


def serve_stdio(folder: Path, opened: "Callable[[], AbstractContextManager[Project]]") -> None:
    """Speak MCP on standard input and output until the input ends; what is printed meanwhile goes to stderr."""
    from localrag.serve.mcp_server import make_server

    nearest = Nearest(folder, opened)
    try:
        asyncio.run(make_server(folder, nearest).run_stdio_async())
    finally:
        nearest.close()
