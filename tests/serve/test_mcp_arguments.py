"""Arguments of MCP tools: understood, or refused by a sentence that names the argument."""

import asyncio
import os
import re
import sys

import pytest
from mcp import Client, StdioServerParameters

from localrag.serve import mcp_results
from localrag.serve.mcp_server import make_server
from localrag.serve.table_worker import TableRequest

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
    "communities": {},
    "report": {"id": "0.1"},
}


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

    async def through():
        async with Client(make_server(folder, recorded), raise_exceptions=False) as client:
            return [await client.call_tool(tool, arguments) for tool, arguments in made]

    return asyncio.run(through()), recorded.asked


@pytest.mark.parametrize(
    ("tool", "arguments", "asked"),
    [
        ("search", {"query": "x", "k": "3"}, {"k": 3}),
        ("search", {"query": "x", "k": 3.0}, {"k": 3}),
        ("search", {"query": "x", "k": None, "filter": None, "collections": ""}, {"k": 8, "filter": ""}),
        ("search", {"query": "x", "unknown": {"a": 1}}, {"query": "x"}),
        ("ask", {"question": "Who?", "mode": "", "max_seconds": None}, {"mode": "auto", "max_seconds": 45}),
    ],
)
def test_what_is_written_nearly_right_is_understood(folder, tool, arguments, asked):
    """Numbers as texts; what is null or empty is as if left out."""
    (result,), (made,) = calls(folder, (tool, arguments))
    assert not result.is_error
    assert {name: made[name] for name in asked} == asked


@pytest.mark.parametrize(
    ("tool", "arguments", "named"),
    [
        ("ask", {"question": "Who?", "mode": "fast"}, "mode"),
        ("search", {"query": "x", "k": "many"}, "k"),
        ("search", {"query": "x", "k": 500}, "k"),
        ("search", {"k": 3}, "query"),
        ("search", {"query": {"text": "x"}}, "query"),
        ("search", {"query": "\ud800"}, "query"),
        ("search", {"query": "y" * 20_000}, "query"),
        ("review", {"questions": ["Who?"] * 21}, "questions"),
        ("timeline", {"offset": 1 << 70}, "offset"),
        ("passage", {"document": "b.txt", "start": -5}, "start"),
    ],
)
def test_what_is_not_understood_is_named(folder, tool, arguments, named):
    """With what the argument may be, and no address of a library."""
    (result,), _ = calls(folder, (tool, arguments))
    assert result.is_error
    assert f"`{named}`" in result.content[0].text
    assert not re.search(r"pydantic|https?://|unexpected", result.content[0].text)


@pytest.mark.ci
def test_mcp_starts_without_an_index_and_its_tools_say_what_is_missing(tmp_path):
    """With the command that makes one, which only the user can run."""

    async def made():
        parameters = StdioServerParameters(command=sys.executable, args=["-m", "localrag", "mcp"], env=dict(os.environ), cwd=str(tmp_path))
        async with Client(parameters) as client:
            return [await client.call_tool(tool, arguments) for tool, arguments in GIVEN.items()]

    for result in asyncio.run(made()):
        assert result.is_error
        assert "There is no index" in result.content[0].text
        assert "localrag index" in result.content[0].text
