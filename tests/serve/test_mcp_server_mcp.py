"""The index as an MCP server, by the SDK's own client: over HTTP in both eras of the protocol, and in memory."""

import asyncio
import json
import re
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from localrag.analysis.tables import Cell, Column, TableRow, make_table
from localrag.records import Citation
from localrag.serve import mcp_results
from localrag.serve.mcp_server import LocalBackend, make_server
from localrag.serve.query_worker import QueryWorker
from tests.conftest import TOWN
from tests.serve.mcp_clients import by_client, size_of, text_of, tool

LONG = "The lighthouse keeper Nils Berg wrote down the weather of every single day. "
STRANGE = "50% #1?.md"


@pytest.fixture(scope="module")
def folder(indexed):
    strange = "Odd names are read, too: Greta Lind counts seals 😀 near Vardby.\n"
    more = {STRANGE: strange, "long.txt": LONG * 2000, "deep/b.md": "Mia Berg cooks.\n", "other/b.md": "Nils Berg sails.\n"}
    return indexed(TOWN | more, "--extractor", "phrases")


@pytest.fixture(params=["http-legacy", "http-auto", "memory-legacy", "memory-auto"])
def door(request, server, worker, folder):
    """A function that connects a client."""
    way, mode = request.param.split("-")

    @asynccontextmanager
    async def connected():
        if way == "memory":
            async with Client(make_server(folder / ".localrag", LocalBackend(worker)), mode=mode) as client:
                yield client
            return
        headers = {"authorization": f"Bearer {server.key}"}
        async with (
            httpx2.AsyncClient(headers=headers, trust_env=False, timeout=60) as http,
            Client(streamable_http_client(f"{server.address}/mcp", http_client=http), mode=mode) as client,
        ):
            yield client

    return connected


def through(door, *calls):
    """What some calls give, one after the other, by one client of a door."""

    async def made():
        async with door() as client:
            return [await call(client) for call in calls]

    found = asyncio.run(made())
    return found[0] if len(found) == 1 else found


HUGE = "鸥" * 50_000


def everything_huge():
    """A result of each tool, of values as long and as many as they come."""
    one = {"id": HUGE[:40], "name": HUGE, "type": "PERSON", "title": HUGE, "number": "1.4", "level": 1, "entities": 9, "parent": None}
    place = {"document": "d", "path": "docs/鸥.md", "part": "p. 3", "start": 1, "end": 2, "score": 0.5, "headings": ["鸥"] * 6}
    quote = place | {"n": 1, "quote": HUGE, "text": HUGE, "snippet": HUGE, "before": HUGE, "name": HUGE, "after": HUGE}
    known = one | {"names": [HUGE] * 9, "description": HUGE, "mentions": [quote] * 99, "communities": [one] * 99, "others": [HUGE] * 99}
    known |= {"relationships": [{"entity": one, "weight": 1.0, "description": HUGE}] * 99}
    finding = {"summary": HUGE, "explanation": HUGE, "quotes": [quote] * 99}
    listed = {"id": "d", "path": "docs/a.md", "title": HUGE, "state": "indexed", "reason": HUGE, "characters": 5}
    yield mcp_results.passages_result([quote] * 20)
    said = {"text": HUGE, "state": "related", "citations": [1]}
    answer = {"answer": HUGE, "mode": "mix", "is_answerable": True, "note": ""}
    yield mcp_results.answer_result(answer | {"citations": [quote] * 99, "sentences": [said] * 99, "passages": [quote] * 3})
    for text in (HUGE, '"\\\n' * 50_000):
        part = {"id": "d", "path": "a", "title": text, "from": 0, "length": len(text), "segments": [{"text": text}]}
        yield mcp_results.document_text_result(part)
    yield mcp_results.item_result("entity", known)
    yield mcp_results.item_result("report", one | {"findings": [finding] * 9, "markdown": HUGE, "children": [one] * 99})
    theme = {"number": "1", "label": HUGE, "phrases": [HUGE] * 3, "documents": 9, "paths": [HUGE] * 999, "quotes": [quote] * 5}
    yield mcp_results.page_result("themes", {}, [theme | {"parts": [theme] * 9}] * 99, 0, 99)
    yield mcp_results.page_result("communities", {"levels": [0, 1]}, [one] * 999, 0, 999)
    yield mcp_results.page_result("documents", {}, [listed] * 100, 0, 999)
    for n_columns in (2, 4, 6, 21):
        yield mcp_results.table_result(huge_table(n_columns), 0)


def huge_table(n_columns):
    """A table of long texts with many citations."""
    cited = [Citation(0, "docs/鸥.md", n, n + 5, HUGE, "", "p. 3", ("鸥",) * 6) for n in range(30)]
    cells = tuple(Cell(HUGE, tuple(cited), confidence=0.5) for _ in range(n_columns))
    columns = [Column(HUGE) for _ in range(n_columns)]
    return make_table("review", HUGE, columns, [TableRow(cells, HUGE) for _ in range(40)], HUGE[:200])


@pytest.mark.ci
def test_no_result_is_larger_than_a_model_can_take():
    """Whatever the documents hold, in bytes of all that a model may be shown."""
    sizes = [size_of(result) for result in everything_huge()]

    assert len(sizes) > len(TOOLS)
    assert max(sizes) <= mcp_results.MAX_RESULT_BYTES * 1.02, sizes  # a little for the frame of the message
    assert all(mcp_results.table_result(huge_table(n), 0).structured_content["rows"] for n in (2, 21))


TABLE_TOOLS = {"review", "timeline", "list_items", "compare"}
TOOLS = {"search", "ask", "passage", "entity", "themes", "communities", "report", "documents", *TABLE_TOOLS}


def test_the_tools_only_read(door):
    """Each with a schema of what it takes; no names but these, and nothing beyond this machine."""
    listed = through(door, lambda client: client.list_tools()).tools

    assert {t.name for t in listed} == TOOLS
    for found in listed:
        assert found.annotations.read_only_hint is True
        assert found.annotations.open_world_hint is False
        assert found.description
    (ask,) = (t for t in listed if t.name == "ask")
    assert ask.input_schema["properties"]["max_seconds"]["maximum"] == 45


def test_an_answer_is_given_with_its_citations_as_values_and_as_text(door, folder):
    """The quotes stand in the documents where they are said to; the text has the same values between tags."""
    told = []

    async def hear(progress, total, message):
        told.append((progress, total, message))

    arguments = {"question": "Who is the mate of the Skua?", "mode": "mix"}
    found = through(door, lambda client: client.call_tool("ask", arguments, progress_callback=hear))
    values, prose = found.structured_content, text_of(found)

    assert "Lars Holm" in values["answer"]
    assert json.loads(re.fullmatch(r"<(answer\S*)>\n(.*)\n</\1>", prose)[2])["citations"] == values["citations"]
    assert values["complete"]
    assert values["is_answerable"]
    assert values["citations"]
    for cited in values["citations"]:
        assert (folder / cited["path"]).read_text()[cited["start"] : cited["end"]] == cited["quote"]
    assert told


def test_passages_are_found_and_read_on(door):
    """What `search` finds can be read by its document and characters, by path and by id, also beyond the basic plane."""
    found = through(door, tool("search", query="Who counts seals?", k=3))
    (best, *others) = found.structured_content["passages"]
    by_path, by_id = through(
        door,
        tool("passage", document=best["path"], start=best["start"], end=best["end"]),
        tool("passage", document=best["document"], start=best["start"] + 1),
    )

    assert STRANGE in best["path"]
    assert len(others) == 2
    assert "Greta Lind" in text_of(found)
    assert by_path.structured_content["text"] == best["text"]
    assert "😀 near" in by_id.structured_content["text"]
    assert by_id.structured_content["text"].startswith(by_path.structured_content["text"][1:])


def test_results_are_bounded_and_say_how_to_go_on(door):
    """A document of 150,000 characters is read in pieces that fit, and the pieces join."""
    first, found, answered = through(
        door,
        tool("passage", document="docs/long.txt"),
        tool("search", query="weather of every day", k=20),
        tool("ask", question="What did Nils Berg write down?"),
    )
    following = first.structured_content["end"]
    second = through(door, tool("passage", document="docs/long.txt", start=following, end=following + 500))

    assert f"passage(start={following})" in text_of(first)
    joined = first.structured_content["text"] + second.structured_content["text"]
    assert (LONG * 2000).startswith(joined)
    assert all(size_of(r) < mcp_results.MAX_RESULT_BYTES for r in (first, found, answered))


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("entity", {"name": "Zaphod Beeblebrox"}, ["Zaphod", "`search`"]),
        ("passage", {"document": "/etc/passwd"}, ["/etc/passwd", "`documents`"]),
        ("passage", {"document": "b.md"}, ["docs/deep/b.md, docs/other/b.md"]),
        ("passage", {"document": "  "}, []),
        ("report", {"id": "9.999"}, ["9.999"]),
    ],
)
def test_what_there_is_not_is_said_in_words(worker, folder, name, arguments, words):
    """An error for the model to read, with the tool that finds what there is, or the paths of several documents of a name."""
    (found,) = by_client(make_server(folder / ".localrag", LocalBackend(worker)), tool(name, **arguments))
    assert found.is_error
    assert all(word in found.content[0].text for word in words)


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("./docs/b.txt", "docs/b.txt"),
        ("docs\\b.txt", "docs/b.txt"),
        ("b.txt", "docs/b.txt"),
        ("B.TXT", "docs/b.txt"),
        ("/home/ada/town/docs/b.txt", "docs/b.txt"),
        (STRANGE, f"docs/{STRANGE}"),
    ],
)
def test_a_document_is_found_by_any_spelling_of_its_path(worker, folder, name, path):
    """One that is not of the index opens no file."""
    (found,) = by_client(make_server(folder / ".localrag", LocalBackend(worker)), tool("passage", document=name))
    assert found.structured_content["path"] == path


def test_a_note_of_an_answer_is_for_the_assistant():
    """As a value, and behind the tags of what documents say."""
    answer = mcp_results.EMPTY_ANSWER | {"note": "These quote; to have the model write them: localrag index --write-reports"}
    result = mcp_results.answer_result(answer)
    assert "localrag index --write-reports" in result.structured_content["note"]
    assert "localrag index --write-reports" in result.content[0].text.rpartition(">")[2]


class Slow(QueryWorker):
    """Whose questions take for ever; it counts those that have ended."""

    ended = 0

    async def ask(self, text, options, watch=None, history=(), *, person=False):
        watch.on_status("Reading 14 reports")
        try:
            await asyncio.Event().wait()
        finally:
            self.ended += 1


@pytest.mark.ci
def test_past_the_time_the_best_so_far_and_how_to_go_on(monkeypatch):
    """Nothing yet is said as such, and the question has ended."""
    monkeypatch.setattr("localrag.serve.mcp_server.STOP_GRACE_S", 0.1)
    slow = Slow(Path("/nonexistent"), None)

    (found,) = by_client(make_server(Path("/nonexistent"), LocalBackend(slow)), tool("ask", question="Who?", max_seconds=1))

    assert slow.ended == 1
    assert found.structured_content["complete"] is False
    assert "basic" in text_of(found)
