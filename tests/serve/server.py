"""A server for tests, spoken to over loopback: `localrag serve` as a process that is interrupted at the end, or the same in a thread."""

import json
import re
import secrets
import subprocess
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass

import httpx
import uvicorn

from localrag.engine.settings import EngineOptions
from localrag.project import open_for_query
from localrag.serve.app import make_app, uvicorn_limits
from localrag.serve.auth import AccessPolicy
from localrag.serve.context import IndexProcess, ServerContext
from localrag.serve.query_worker import QueryWorker
from tests.forked import Forked


@dataclass(frozen=True)
class Served:
    """Where a server is, the key of programs, the page's code, its process."""

    address: str
    key: str
    code: str
    process: Forked | None

    def client(self, **kwargs):
        """A client with the key."""
        return httpx.Client(base_url=self.address, headers={"authorization": f"Bearer {self.key}"}, trust_env=False, timeout=120, **kwargs)


def events(answer):
    """The events of an answer of one JSON object a line."""
    return [json.loads(line) for line in answer.text.splitlines() if line.strip()]


def chunks(answer):
    """The objects of a stream of OpenAI's protocol."""
    return [json.loads(line.removeprefix("data: ")) for line in answer.text.splitlines() if line.startswith("data: {")]


def asked(client, question, **more):
    """The answer to a question, as the page asks it."""
    *_, last = events(client.post("/api/ask", json={"question": question, "mode": "basic"} | more))
    assert last["event"] == "done", last
    return last["answer"]


def document_of(client, name):
    """The id and the text of a document whose path ends so."""
    [key] = [row["id"] for row in client.get("/api/documents").json()["documents"] if row["path"].endswith(name)]
    return key, "".join(part["text"] for part in client.get(f"/api/documents/{key}").json()["segments"])


@contextmanager
def served(folder, *args):
    """A server over the index in a folder; at its end it is interrupted, and must end well."""
    with served_by(Forked("serve", "--port", "0", "--no-open", *args, cwd=folder, stderr=subprocess.PIPE)) as site:
        yield site


@contextmanager
def served_by(process):
    """The server that a process becomes; its stderr is a pipe."""
    said = ""
    while "Ctrl-C ends" not in said:
        line = process.stderr.readline()
        assert line, said
        said += line
    threading.Thread(target=process.stderr.read, daemon=True).start()
    page = re.search(r"Page: (\S+)/#k=(\S+)", said)
    try:
        yield Served(page[1], re.search(r"Key: (\S+)", said)[1], page[2], process)
    finally:
        if process.poll() is None:
            process.send_signal(2)
            ended = process.wait(30)
            assert ended in (0, 130)


@contextmanager
def served_here(folder, *, reads=False, read_only=False, worker=None):
    """The server over the index in a folder, in a thread of this process: for tests that are not about its process.

    No reader is loaded unless it `reads`, which would give answers of one sentence their few words. `worker`: answers in place of its own.
    """
    index, key = folder / ".localrag", secrets.token_urlsafe(32)
    door = AccessPolicy(key)
    config = uvicorn.Config(None, host="127.0.0.1", port=0, access_log=False, log_level="warning", lifespan="on", **uvicorn_limits())
    bound = config.bind_socket()
    address = f"http://127.0.0.1:{bound.getsockname()[1]}"
    worker = worker or QueryWorker(index, lambda name=None: open_for_query(index, model=name, engine=EngineOptions(use_adapters=reads)))
    config.app = make_app(ServerContext(index, folder, worker, IndexProcess(index), folder / "inbox", address, read_only=read_only), door)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
    worker.start(lambda _error: None)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    try:
        yield Served(address, key, *door.login_codes, None)
    finally:
        server.should_exit = True
        thread.join(60)
        worker.close()
        assert not thread.is_alive()
