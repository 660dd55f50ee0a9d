"""`localrag mcp`: over standard input and output, by the SDK's client, with a running `serve` and without."""

import asyncio
import json
import os
import stat
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
import uvicorn
from mcp import Client, StdioServerParameters
from mcp.shared.exceptions import MCPError

from localrag.errors import LocalragError
from localrag.project import open_for_query
from localrag.serve.auth import SERVER_FILE, announce_server, find_running_server
from localrag.serve.mcp_server import ServerOrLocalBackend, make_server
from tests.conftest import run_localrag, until
from tests.serve.mcp_clients import by_client, text_of, tool
from tests.serve.server import served, served_here
from tests.serve.test_mcp_server_mcp import Slow

MODES = ("legacy", "auto")
NO_MODEL = ("--model", "no-such-model")  # a process that opens the index itself fails by it
WHO = {"question": "Who is the mate of the Skua?", "mode": "mix"}


def started(folder, *args):
    command = ["-m", "localrag", "mcp", "--index", str(folder), *args]
    proxy = dict.fromkeys(("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"), "http://127.0.0.1:1")  # is never asked
    return StdioServerParameters(command=sys.executable, args=command, env=os.environ | proxy, cwd="/")


async def no_tool(client):
    try:
        return (await client.call_tool("erase", {})).is_error
    except MCPError:
        return True


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.ci
def test_everything_is_there_through_a_running_serve(folder, mode):
    """Tools with their schemas, questions with progress, errors; the models are those of `serve` alone."""
    told = []

    async def hear(*said):
        told.append(said)

    with served(folder):
        tools, answered, found, made, nobody, unknown = by_client(
            started(folder, *NO_MODEL),
            lambda client: client.list_tools(),
            lambda client: client.call_tool("ask", WHO, progress_callback=hear),
            tool("search", query="Who bought the ferry?", k=2),
            tool("timeline"),
            tool("entity", name="Zaphod"),
            no_tool,
            mode=mode,
        )

    assert {t.name for t in tools.tools} == {
        *("search", "ask", "passage", "entity", "themes", "communities", "report", "documents"),
        *("review", "timeline", "list_items", "compare"),
    }
    assert "Lars Holm" in text_of(answered)
    assert answered.structured_content["citations"]
    assert told
    assert len(found.structured_content["passages"]) == 2
    assert made.structured_content["complete"]
    assert nobody.is_error
    assert unknown


@pytest.mark.ci
def test_the_process_answers_itself_where_no_server_runs(folder):
    """Also where one has left a file behind, and also where one ends while a program is connected."""
    stale = {
        "pid": os.getpid(),
        "started_at": psutil.Process().create_time(),
        "host": "127.0.0.1",
        "port": 1,
        "key_file": str(folder / "key"),
    }
    (folder / ".localrag" / SERVER_FILE).touch(0o600)
    (folder / ".localrag" / SERVER_FILE).write_text(json.dumps(stale))
    (own,) = by_client(started(folder), tool("ask", **WHO))

    async def through_its_end():
        async with Client(started(folder, *NO_MODEL)) as client:
            with served(folder):
                during = await client.call_tool("ask", WHO)
            return during, await client.call_tool("ask", WHO)

    during, after = asyncio.run(through_its_end())

    assert "Lars Holm" in text_of(own)
    assert "Lars Holm" in text_of(during)
    assert after.is_error
    assert "no-such-model" in after.content[0].text


@contextmanager
def slow_server(folder):
    """A server in this process, announced, whose questions take for ever."""
    worker, key = Slow(folder / ".localrag", None), folder / "slow.key"
    with served_here(folder, worker=worker) as running:
        key.write_text(running.key)
        with announce_server(folder / ".localrag", "127.0.0.1", int(running.address.rpartition(":")[2]), key):
            yield worker


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.ci
def test_a_question_that_is_cancelled_ends_in_the_server(folder, mode):
    """Through the bridge; what is being done is told before, and the bridge goes on to answer."""
    told = []

    async def made(worker):
        heard = asyncio.Event()

        async def hear(progress, total, message):
            told.append((total, message))
            heard.set()

        async with Client(started(folder, *NO_MODEL), mode=mode) as client:
            call = asyncio.create_task(client.call_tool("ask", {"question": "Who?"}, progress_callback=hear))
            await asyncio.wait_for(heard.wait(), 60)
            call.cancel()
            await asyncio.wait([call])
            await asyncio.to_thread(until, lambda: worker.ended)
            return worker.ended, await client.call_tool("documents", {})

    with slow_server(folder) as worker:
        ended, after = asyncio.run(made(worker))

    assert told[0] == (45, "Reading 14 reports")
    assert ended == 1
    assert after.structured_content["total"] == 3


@pytest.mark.ci
def test_nothing_but_the_protocol_is_on_standard_output(folder):
    """Though models are loaded and a question answered; when the input ends, so does the process, and says nothing."""
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}}
    messages = [
        {"id": 1, "method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": "search", "arguments": {"query": "ferry"}}},
    ]
    command = [sys.executable, "-m", "localrag", "mcp", "--index", str(folder)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd="/")
    process.stdin.write("".join(json.dumps({"jsonrpc": "2.0"} | m) + "\n" for m in messages))
    process.stdin.flush()
    lines = [json.loads(process.stdout.readline()) for _ in range(2)]
    rest, said = process.communicate(timeout=60)

    assert [line["id"] for line in lines] == [1, 2]
    assert not lines[1]["result"].get("isError")
    assert rest == ""
    assert process.returncode == 0, said


def test_what_could_not_be_opened_is_tried_again(folder):
    """By the next question, so that the program need not be started anew."""
    index = folder / ".localrag"
    tries = []

    def opened():
        tries.append(1)
        if len(tries) == 1:
            raise LocalragError("The model file is not there.")
        return open_for_query(index)

    nearest = ServerOrLocalBackend(index, opened)
    first, second = by_client(make_server(index, nearest), *[tool("search", query="ferry")] * 2)
    nearest.close()

    assert "not there" in first.content[0].text
    assert second.structured_content["passages"]


@pytest.mark.parametrize(
    "changed",
    [{"pid": 1}, {"started_at": 1.0}, {"port": 1}, {"host": "192.168.1.20"}, {"host": "example.org"}, {"more": 1}],
    ids=lambda c: "-".join(c) + str(*c.values()),
)
def test_only_a_server_that_lives_listens_and_is_on_this_machine_is_used(tmp_path, changed):
    """Nobody else is sent the key: not another process, not another machine, not a port that something else has."""
    server = uvicorn.Config(lambda: None, port=0).bind_socket()
    server.listen(1)
    key, port = tmp_path / "key", server.getsockname()[1]
    try:
        with announce_server(tmp_path, "0.0.0.0", port, key):
            found = find_running_server(tmp_path)
            mode = stat.S_IMODE((tmp_path / SERVER_FILE).stat().st_mode)
            (tmp_path / SERVER_FILE).write_text(json.dumps(json.loads((tmp_path / SERVER_FILE).read_text()) | changed))
            other = find_running_server(tmp_path)
    finally:
        server.close()

    assert found.address == f"http://127.0.0.1:{port}/mcp"
    assert mode == 0o600
    assert other is None


@pytest.mark.skipif(os.name != "posix", reason="modes of files are POSIX's")
def test_a_file_that_others_may_have_written_is_not_read(tmp_path):
    """And one of a server that has ended is gone; of one that only the network reaches there is none."""
    server = uvicorn.Config(lambda: None, port=0).bind_socket()
    server.listen(1)
    port = server.getsockname()[1]
    with announce_server(tmp_path, "127.0.0.1", port, tmp_path / "key"):
        (tmp_path / SERVER_FILE).chmod(0o666)
        assert find_running_server(tmp_path) is None
        (tmp_path / SERVER_FILE).chmod(0o600)
        assert find_running_server(tmp_path) == replace(find_running_server(tmp_path), port=port)
    assert not (tmp_path / SERVER_FILE).exists()
    with announce_server(tmp_path, "192.168.1.20", port, tmp_path / "key"):
        assert not (tmp_path / SERVER_FILE).exists()
    server.close()


@pytest.mark.parametrize(
    ("program", "key", "more"),
    [
        ("claude", "mcpServers", {}),
        ("cursor", "mcpServers", {}),
        ("lmstudio", "mcpServers", {}),
        ("vscode", "servers", {"type": "stdio"}),
        ("zed", "context_servers", {"source": "custom", "env": {}}),
    ],
)
def test_the_settings_of_programs_are_printed(folder, tmp_path, program, key, more):
    """What to paste is all that is on standard output; its paths are absolute, and what it says starts the server."""
    done = run_localrag("mcp", "--index", os.path.relpath(folder), "--config", program, cwd=Path.cwd())
    (server,) = json.loads(done.stdout)[key].values()

    assert done.returncode == 0, done.stderr
    assert {k: server[k] for k in more} == more
    assert Path(server["command"]).is_absolute()
    assert server["args"][-2:] == ["--index", str(folder / ".localrag")]
    if program == "claude":
        parameters = StdioServerParameters(command=server["command"], args=server["args"], env=dict(os.environ), cwd=str(tmp_path))
        (listed,) = by_client(parameters, lambda client: client.list_tools())
        assert len(listed.tools) == 12
