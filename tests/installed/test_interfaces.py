"""The routes of `serve`, the tools of `mcp` and the methods of `Index` work in an environment with the README's libraries alone."""

import asyncio
import json
import subprocess
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from localrag.index import Index
from localrag.serve.app import all_routes
from localrag.serve.auth import AccessPolicy
from localrag.serve.context import IndexProcess, ServerContext
from localrag.serve.mcp_http import McpHttp
from localrag.serve.mcp_server import LocalBackend, make_server
from localrag.serve.query_worker import QueryWorker
from localrag.serve.table_worker import TableWorker
from tests.serve.server import served_by

QUESTION = "date: When does the repair begin?"
ASKED = {"messages": [{"role": "user", "content": "Who bought the Skua?"}], "stream": False}


@dataclass(frozen=True)
class Visit:
    """A request to a route: its address with {ids}, its body, and the status of the answer."""

    address: str
    body: Any = None
    status: int = 200


# (Method, route) → a request, in the order in which they are made. What is deleted comes last.
VISITS: dict[tuple[str, str], Visit] = {
    ("GET", "/"): Visit("/"),
    ("GET", "/static/{name:path}"): Visit("/static/app.css"),
    ("POST", "/api/session"): Visit("/api/session", {"code": "none"}, 401),
    ("GET", "/healthz"): Visit("/healthz"),
    ("GET", "/v1/models"): Visit("/v1/models"),
    ("GET", "/v1/models/{name:path}"): Visit("/v1/models/localrag"),
    ("POST", "/v1/chat/completions"): Visit("/v1/chat/completions", ASKED | {"model": "localrag"}),
    ("POST", "/v1/embeddings"): Visit("/v1/embeddings", {"input": "The ferry."}),
    ("GET", "/api/tags"): Visit("/api/tags"),
    ("GET", "/api/version"): Visit("/api/version"),
    ("GET", "/api/ps"): Visit("/api/ps"),
    ("POST", "/api/show"): Visit("/api/show", {"model": "localrag"}),
    ("POST", "/api/generate"): Visit("/api/generate", {"model": "localrag", "prompt": "Who bought the Skua?", "stream": False}),
    ("POST", "/api/embed"): Visit("/api/embed", {"model": "localrag", "input": "the ferry"}),
    ("POST", "/api/chat"): Visit("/api/chat", ASKED | {"model": "localrag"}),
    ("POST", "/api/ask"): Visit("/api/ask", {"question": "Who bought the Skua?"}),
    ("DELETE", "/api/ask/{id}"): Visit("/api/ask/none", status=404),
    ("GET", "/api/questions"): Visit("/api/questions"),
    ("GET", "/api/conversations"): Visit("/api/conversations"),
    ("GET", "/api/conversations/{id:int}"): Visit("/api/conversations/1"),
    ("GET", "/api/answers/{id:int}"): Visit("/api/answers/1"),
    ("GET", "/api/answers/{id:int}/citations/{n:int}"): Visit("/api/answers/1/citations/1"),
    ("GET", "/api/models"): Visit("/api/models"),
    ("POST", "/api/models/{name:path}"): Visit("/api/models/smollm2-135m", {}),
    ("GET", "/api/status"): Visit("/api/status"),
    ("GET", "/api/documents"): Visit("/api/documents"),
    ("GET", "/api/documents/{id}"): Visit("/api/documents/{document}"),
    ("GET", "/api/documents/{id}/original"): Visit("/api/documents/{document}/original"),
    ("GET", "/api/documents/{id}/pages/{n:int}.png"): Visit("/api/documents/{scan}/pages/1.png"),
    ("GET", "/api/documents/{id}/boxes"): Visit("/api/documents/{scan}/boxes?start=0&end=8"),
    ("GET", "/api/search"): Visit("/api/search?q=Skua"),
    ("GET", "/api/names"): Visit("/api/names?q=Skua"),
    ("GET", "/api/entities/{id}"): Visit("/api/entities/{entity}"),
    ("GET", "/api/relationships/{id}"): Visit("/api/relationships/{relationship}"),
    ("GET", "/api/path"): Visit("/api/path?from={entity}&to={entity}"),
    ("GET", "/api/themes"): Visit("/api/themes"),
    ("GET", "/api/communities"): Visit("/api/communities"),
    ("GET", "/api/reports/{id}"): Visit("/api/reports/0.0"),
    ("GET", "/api/graph.bin"): Visit("/api/graph.bin"),
    ("GET", "/api/graph/names"): Visit("/api/graph/names?numbers=0"),
    ("GET", "/api/graph/communities"): Visit("/api/graph/communities?numbers=0"),
    ("GET", "/api/graph/number"): Visit("/api/graph/number?entity={entity}"),
    ("POST", "/api/tables/review/plan"): Visit("/api/tables/review/plan", {"questions": [QUESTION]}),
    ("POST", "/api/tables/{kind}"): Visit("/api/tables/review", {"questions": [QUESTION]}),
    ("GET", "/api/tables/{id}"): Visit("/api/tables/{table}"),
    ("GET", "/api/tables/{id}/file.{suffix}"): Visit("/api/tables/{table}/file.xlsx"),
    ("PUT", "/api/review/cell"): Visit("/api/review/cell", {"path": "docs/a.md", "question": QUESTION, "text": "never"}),
    ("DELETE", "/api/review/cell"): Visit(f"/api/review/cell?path=docs/a.md&question={QUESTION}"),
    ("DELETE", "/api/tables/{id}"): Visit("/api/tables/{table}"),
    ("PUT", "/api/files/{name:path}"): Visit("/api/files/new.txt", b"Olga Brandt bought the town hall.", 201),
    ("POST", "/api/index"): Visit("/api/index", {}, 202),
    ("DELETE", "/api/index"): Visit("/api/index", status=202),
    ("DELETE", "/api/conversations/{id:int}"): Visit("/api/conversations/1"),
    ("DELETE", "/api/documents/{id}"): Visit("/api/documents/{document}", status=202),
}
MCP_ROUTES = {("GET", "/mcp"), ("POST", "/mcp"), ("DELETE", "/mcp")}
TOOLS: dict[str, dict[str, Any]] = {
    "search": {"query": "Who bought the Skua?"},
    "ask": {"question": "Who bought the Skua?"},
    "review": {"questions": [QUESTION]},
    "compare": {"first": "docs/contract.md", "second": "docs/contract 2.md"},
    "timeline": {},
    "list_items": {"request": "all ferries"},
    "passage": {"document": "docs/a.md"},
    "documents": {},
    "entity": {"name": "Skua"},
    "themes": {},
    "communities": {},
    "report": {"id": "0.0"},
}
# Method of `Index` → a statement that calls it for `index`, in the order in which they are executed.
METHODS = {
    "open": "index = Index.open()",
    "create": "Index.create('new').close()",
    "exists": "assert index.exists",
    "root": "assert index.root.is_dir()",
    "paths": "assert 'docs/a.md' in index.paths()",
    "documents": "assert len(index.documents()) == 6",
    "files": "index.files()",
    "collections": "assert index.collections() == {'town': 6}",
    "entities": "assert index.entities(['Skua'])",
    "describe": "index.describe('Skua')",
    "complete_entity_names": "assert index.complete_entity_names('Sku') == ['Skua']",
    "name_merges": "index.name_merges()",
    "themes": "assert index.themes() and index.themes('the ferry')",
    "tree": "assert index.tree()",
    "reports": "assert index.reports()",
    "report": "index.report('0.0')",
    "counts": "index.counts()",
    "status": "index.status()",
    "load_models": "index.load_models()",
    "ask": "answer = index.ask('Who bought the Skua?'); assert 'Ingrid Holm' in answer.answer",
    "aask": "asyncio.run(index.aask('Who bought the Skua?'))",
    "astream": "asyncio.run(all_of(index.astream('Who bought the Skua?')))",
    "calls": "index.calls",
    "answers": "assert len(index.answers(9)) == 4",
    "last_answer": "index.last_answer()",
    "conversations": "index.conversations()",
    "search_conversations": "assert index.search_conversations('Skua')",
    "conversation": "assert index.conversation(1)",
    "passage": "index.passage(answer.citations[0])",
    "suggest": "assert index.suggest()",
    "search": "assert index.search('Skua')",
    "plan_review": f"index.plan_review(['{QUESTION}'])",
    "review": f"index.review(['{QUESTION}'])",
    "decide": f"index.decide('docs/a.md', '{QUESTION}', 'never')",
    "timeline": "assert index.timeline().rows",
    "list_items": "index.list_items('all ferries')",
    "compare": "index.compare('docs/contract.md', 'docs/contract 2.md')",
    "export": "index.export('jsonl', 'out')",
    "plan": "index.plan('docs')",
    "write_session": "with index.write_session(): pass",
    "add": "assert index.add('docs').complete",
    "write_reports": "refused(index.write_reports)",  # the bundled model is too small
    "documents_at": "assert index.documents_at('docs/a.md') == ['docs/a.md']",
    "remove": "assert index.remove('docs/a.md') == ['docs/a.md']",
    "reembed": "index.reembed()",
    "collect_garbage": "index.collect_garbage()",
    "remove_all": "assert len(index.remove_all()) == 5",
    "close": "index.close()",
}
PROGRAM = """import asyncio, json, sys
from localrag import Index, LocalragError

async def all_of(parts):
    return [part async for part in parts]

def refused(call):
    try:
        call()
    except LocalragError:
        return
    raise AssertionError(call)

for name, statement in json.load(sys.stdin).items():
    print(name, flush=True)
    exec(statement)
"""


def test_every_route_is_visited():
    """None is missing, and none is there that the server does not have."""
    nowhere = Path("/nowhere")
    worker = QueryWorker(nowhere, lambda _name=None: None)
    site = ServerContext(nowhere, nowhere, worker, IndexProcess(nowhere), nowhere)
    tables = TableWorker(worker)
    routes = all_routes(site, AccessPolicy("k" * 32), None, McpHttp(worker, nowhere, tables), tables)
    tables.close()
    assert {(method, route.path) for route in routes for method in route.methods - {"HEAD"}} == {*VISITS} | MCP_ROUTES


def test_every_tool_is_called():
    """None is missing, and none is there that the server does not have."""
    server = make_server(Path("/nowhere"), LocalBackend(None, None))
    assert {tool.name for tool in asyncio.run(server.list_tools())} == set(TOOLS)


def test_every_method_of_the_library_is_called():
    """None is missing, and none is there that `Index` does not have."""
    assert {name for name in dir(Index) if not name.startswith("_")} == set(METHODS)


@contextmanager
def serving(place):
    """A client of `localrag serve`, which is interrupted at the end and must end well."""
    command = [place.command, "serve", "--port", "0", "--no-open"]
    process = subprocess.Popen(command, cwd=place.folder, env=place.environment, stderr=subprocess.PIPE, text=True)
    with served_by(process) as server, server.client() as client:
        yield client


def ids_of(client):
    """What addresses name: documents and parts of the graph."""
    documents = {row["path"]: row["id"] for row in client.get("/api/documents").json()["documents"]}
    entity = client.get("/api/names?q=Skua").json()["entities"][0]["id"]
    relationship = client.get(f"/api/entities/{entity}").json()["relationships"][0]["id"]
    return {"document": documents["docs/a.md"], "scan": documents["docs/scan.pdf"], "entity": entity, "relationship": relationship}


def visit(client, method, to, ids):
    content = {"content": to.body} if isinstance(to.body, bytes) else {} if to.body is None else {"json": to.body}
    answer = client.request(method, to.address.format(**ids), **content)
    assert answer.status_code == to.status, (method, to.address, answer.text)
    assert "There is nothing at" not in answer.text
    if answer.headers.get("content-type", "").startswith("application/x-ndjson"):
        *_, last = (json.loads(line) for line in answer.text.splitlines() if line)
        assert last["event"] == "done", last
        ids["table"] = last.get("id")
    return answer


def wait_for_runs(client):
    """Until no process writes to the index, which must have ended well."""
    while (run := client.get("/api/status").json()["run"]) and run["state"] == "running":
        time.sleep(0.2)
    assert run["state"] in ("done", "stopped"), run


@pytest.mark.slow
@pytest.mark.installed
def test_every_route_works_with_the_base_libraries(place):
    """The server starts, answers a request to every route, and ends when it is interrupted."""
    with serving(place) as client:
        ids = ids_of(client)
        for (method, _), to in VISITS.items():
            visit(client, method, to, ids)
            if to.status == 202:
                wait_for_runs(client)
        asked = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        headers = {"accept": "application/json, text/event-stream"}
        assert {client.request(method, "/mcp", json=asked, headers=headers).status_code for method, _ in MCP_ROUTES} <= {200, 400, 405}


@pytest.mark.slow
@pytest.mark.installed
def test_every_tool_works_with_the_base_libraries(place):
    """`localrag mcp` starts, answers a call of every tool, and ends with its input."""
    started = StdioServerParameters(command=str(place.command), args=["mcp"], env=place.environment, cwd=place.folder)

    async def called():
        async with Client(started) as client:
            return {name: await client.call_tool(name, arguments) for name, arguments in TOOLS.items()}

    for name, result in asyncio.run(called()).items():
        assert not result.is_error, (name, result.content)


@pytest.mark.slow
@pytest.mark.installed
def test_every_method_of_the_library_works_with_the_base_libraries(place):
    """A program that imports `localrag` calls each of them."""
    done = subprocess.run(
        [place.python, "-c", PROGRAM],
        cwd=place.folder,
        env=place.environment,
        input=json.dumps(METHODS),
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.installed
@pytest.mark.parametrize(("module", "library"), [("langchain", "langchain_core"), ("llama_index", "llama_index")])
def test_a_retriever_without_its_framework_says_so(module, library, place):
    """In one sentence."""
    command = [place.python, "-c", f"from localrag.integrations import {module}_retriever; {module}_retriever()"]
    done = subprocess.run(command, cwd=place.folder, env=place.environment, check=False, capture_output=True, text=True)
    assert f"needs {library}" in done.stderr
