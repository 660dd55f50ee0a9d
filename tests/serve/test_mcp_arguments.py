"""Arguments of MCP tools that models write nearly right: understood, or refused by a sentence that names the argument."""

import json
import os
import re
import subprocess
import sys

import pytest
from mcp import StdioServerParameters

from localrag.serve import mcp_results
from localrag.serve.mcp_server import make_server
from localrag.serve.table_worker import TableRequest
from tests.serve.mcp_clients import by_client, tool
from tests.serve.server import served_here

GIVEN = {
    "search": {"query": "ferry"},
    "ask": {"question": "Who?"},
    "review": {"questions": ["Who?"]},
    "compare": {"first": "a.md", "second": "b.txt"},
    "timeline": {},
    "list_items": {"request": "all ships"},
    "passage": {"document": "a.md"},
    "documents": {},
    "entity": {"name": "Lars Holm"},
    "themes": {},
    "communities": {},
    "report": {"id": "0.1"},
}
ODD = [None, "", " ", "AUTO", "x", 0, 1, -5, 3.0, 7.5, 500, 1 << 70, 1e300, float("inf"), "3", "3.0", "1e3", True, "true", [], ["x"], "[]"]
ODD += ['["x"]', ["x", "y"], [None], [[]], {}, {"a": 1}, "y" * 20_000, "\ud800", "9" * 5_000]


class Recorded:
    """Answers nothing, and keeps what it was asked."""

    def __init__(self):
        self.asked = []

    async def search(self, query, k, documents):
        self.asked.append({"query": query, "k": k, "filter": documents.expression, "collections": documents.collections})
        return mcp_results.passages_result([])

    async def ask(self, question, mode, seconds, tell, documents):
        self.asked.append({"question": question, "mode": mode, "max_seconds": seconds})
        return mcp_results.answer_result(mcp_results.EMPTY_ANSWER)

    async def make_table(self, request: TableRequest, seconds, offset, tell):
        self.asked.append({"request": request, "max_seconds": seconds, "offset": offset})
        return mcp_results.unfinished_table(request.kind, 0, 0)


@pytest.fixture(scope="module")
def folder(plain_town):
    return plain_town / ".localrag"


def calls(folder, *made):
    """What a server says to calls of its tools, and what it was asked."""
    recorded = Recorded()

    results = by_client(make_server(folder, recorded), *(tool(name, **given) for name, given in made), raise_exceptions=False)
    return results, recorded.asked


def test_every_argument_of_every_tool_takes_any_value_or_says_what_it_may_be(folder):
    """Null and empty are as left out; nothing is said in the words of a library."""
    (listed,) = by_client(make_server(folder, Recorded()), lambda client: client.list_tools())
    forms = {t.name: t.input_schema for t in listed.tools}
    assert forms.keys() == GIVEN.keys()
    made = [(called, GIVEN[called] | {name: odd}) for called, form in forms.items() for name in form["properties"] for odd in ODD]
    results, _ = calls(folder, *made)
    for (called, arguments), result in zip(made, results, strict=True):
        said = result.content[0].text
        changed = {name for name, value in arguments.items() if GIVEN[called].get(name) is not value}
        assert not re.search(r"pydantic|validation error|https?://|unexpected", said), (called, arguments, said)
        if any(arguments[name] in (None, "", []) and name not in GIVEN[called] for name in changed):
            assert not result.is_error, (called, arguments, said)
        if any(arguments[name] in (None, "", []) and name in forms[called].get("required", ()) for name in changed):
            assert result.is_error and all(f"`{name}`" in said for name in changed)


@pytest.mark.parametrize(
    ("tool", "arguments", "asked"),
    [
        ("search", {"query": "x", "k": 500}, {"k": 20}),
        ("search", {"query": "x", "k": "3"}, {"k": 3}),
        ("search", {"query": "x", "k": None, "filter": None, "collections": None}, {"k": 8, "filter": ""}),
        ("search", {"query": "x", "collections": "[]"}, {"collections": ()}),
        ("search", {"query": "x", "collections": '["a"]'}, {"collections": ("a",)}),
        ("search", {"question": "x", "top_k": 2}, {"query": "x", "k": 2}),
        ("search", {"Query": "x", "unknown": {"a": 1}}, {"query": "x"}),
        ("ask", {"query": "Who?", "maxSeconds": 0}, {"question": "Who?", "max_seconds": 1}),
        ("ask", {"question": "Who?", "mode": "BASIC", "max_seconds": 1e9}, {"mode": "basic", "max_seconds": 45}),
        ("ask", {"question": "Who?", "mode": "", "max_seconds": None}, {"mode": "auto", "max_seconds": 45}),
        ("timeline", {"topic": "Lars", "offset": 1 << 80}, {"offset": 1 << 40}),
    ],
)
def test_what_is_written_nearly_right_is_understood(folder, tool, arguments, asked):
    """Numbers in their range, choices in any case, lists in any form, other names of an argument."""
    (result,), (made,) = calls(folder, (tool, arguments))
    assert not result.is_error
    assert {name: made[name] for name in asked} == asked


def test_one_text_is_a_list_of_one(folder):
    """As is the only question of a review, under its other name too."""
    _, asked = calls(folder, ("review", {"questions": "Who signed?"}), ("review", {"question": '["Who signed?"]'}))
    assert [one["request"].questions for one in asked] == [("Who signed?",)] * 2


def test_what_the_index_has_is_read_with_odd_numbers(folder):
    """Offsets of any size, also beyond what SQLite holds."""
    results, _ = calls(
        folder,
        ("passage", {"document": "b.txt", "start": -5, "end": 1 << 90}),
        ("documents", {"offset": 1 << 90}),
        ("communities", {"level": "0", "offset": 1 << 90}),
        ("report", {"id": 0.1}),
    )
    assert [result.is_error for result in results[:3]] == [False] * 3
    assert results[0].structured_content["start"] == 0


def test_what_is_not_understood_is_named(folder):
    """With what the argument may be."""
    results, _ = calls(
        folder,
        ("ask", {"question": "Who?", "mode": "fast"}),
        ("search", {"query": "x", "k": "many"}),
        ("search", {"k": 3}),
        ("review", {"questions": ["Who?"] * 21}),
        ("search", {"query": {"text": "x"}}),
    )
    said = [result.content[0].text for result in results]
    assert all(result.is_error for result in results)
    assert said[0].startswith("`mode` is one of auto, ")
    assert said[1] == '`k` is a whole number from 1 to 20, not "many".'
    assert said[2] == "`query` is missing: a text of at most 10,000 characters."
    assert said[3].startswith("`questions` is a list of 1 to 20 texts")
    assert said[4].startswith("`query` is a text")


HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
UNREADABLE = {
    "a lone surrogate": '{"name": "search", "arguments": {"id": 7, "query": "\\ud800"}}',
    "many levels": '{"name": "search", "arguments": {"query": ' + "[" * 100_000 + "]" * 100_000 + "}}",
    "a long number": '{"name": "search", "arguments": {"query": "x", "k": ' + "9" * 100_000 + "}}",
    "a wrong envelope": '"search"',
    "half a line": '{"name": ',
}


@pytest.mark.ci
def test_a_request_that_cannot_be_read_is_answered(tmp_path):
    """With its id, so that its client does not wait; the next request is answered as ever."""
    process = subprocess.Popen(
        [sys.executable, "-m", "localrag", "mcp", "--index", str(tmp_path / "none")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    lines = [json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO})]
    lines += [json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"})]
    lines += [f'{{"jsonrpc": "2.0", "id": {n}, "method": "tools/call", "params": {odd}}}' for n, odd in enumerate(UNREADABLE.values(), 2)]
    lines += [json.dumps({"jsonrpc": "2.0", "id": 99, "method": "tools/list"})]
    process.stdin.write("\n".join(lines) + "\n")
    process.stdin.flush()
    answers = {}
    while 99 not in answers:
        answer = json.loads(process.stdout.readline())
        answers[answer["id"]] = answer
    process.stdin.close()
    assert process.wait(60) == 0
    assert answers.keys() == {1, 99, *range(2, 2 + len(UNREADABLE))}
    assert all("error" in answers[n] or answers[n]["result"]["isError"] for n in range(2, 2 + len(UNREADABLE)))


@pytest.mark.ci
def test_over_http_a_request_that_cannot_be_read_is_answered(folder):
    """By an error of the protocol, before and after the handshake became optional."""
    accepted = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
    with served_here(folder.parent) as server, server.client() as client:
        for odd in UNREADABLE.values():
            for headers in (accepted, accepted | {"mcp-protocol-version": "2026-07-28"}):
                body = f'{{"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {odd}}}'
                answer = client.post("/mcp", content=body, headers=headers, timeout=20)
                assert answer.status_code in (200, 400, 404)
                assert answer.json()["error"]["message"]


@pytest.mark.ci
def test_mcp_starts_without_an_index_and_its_tools_say_what_is_missing(tmp_path):
    """With the command that makes one, which only the user can run."""
    parameters = StdioServerParameters(command=sys.executable, args=["-m", "localrag", "mcp"], env=dict(os.environ), cwd=str(tmp_path))
    for result in by_client(parameters, *(tool(name, **arguments) for name, arguments in GIVEN.items())):
        assert result.is_error
        assert "There is no index" in result.content[0].text
        assert "localrag index" in result.content[0].text
