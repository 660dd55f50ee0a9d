"""The index as an MCP server, by the SDK's own client: over HTTP in both eras of the protocol, and in memory."""

import asyncio
import json
import re
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp.types import PromptReference, ResourceTemplateReference

from localrag.analysis.tables import Cell, Column, TableRow, make_table
from localrag.cli import app
from localrag.engine.settings import EngineOptions
from localrag.project import open_for_query
from localrag.query.modes import MODE_FUNCTIONS
from localrag.records import Citation
from localrag.serve import mcp_results
from localrag.serve.mcp_server import LocalBackend, make_server
from localrag.serve.query_worker import QueryWorker
from localrag.settings import QueryMode
from tests.conftest import TOWN

LONG = "The lighthouse keeper Nils Berg wrote down the weather of every single day. "
STRANGE = "50% #1?.md"


@pytest.fixture(scope="module")
def folder(indexed):
    strange = "Odd names are read, too: Greta Lind counts seals 😀 near Vardby.\n"
    more = {STRANGE: strange, "long.txt": LONG * 2000, "deep/b.md": "Mia Berg cooks.\n", "other/b.md": "Nils Berg sails.\n"}
    return indexed(TOWN | more, "--extractor", "phrases")


@pytest.fixture(scope="module")
def worker(folder):
    made = QueryWorker(folder / ".localrag", lambda: open_for_query(folder / ".localrag", engine=EngineOptions(use_adapters=False)))
    made.start()
    yield made
    made.close()


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
    """What some calls give, one after the other, by one client."""

    async def made():
        async with door() as client:
            return [await call(client) for call in calls]

    found = asyncio.run(made())
    return found[0] if len(found) == 1 else found


def tool(called, /, **arguments):
    return lambda client: client.call_tool(called, arguments)


def text_of(result):
    assert not result.is_error, result.content
    return result.content[0].text


def size_of(result):
    """Bytes that a model may be given of it."""
    return len(json.dumps(result.model_dump(mode="json", by_alias=True, exclude_none=True), ensure_ascii=False).encode())


HUGE = "鸥" * 50_000


def everything_huge():
    """A result of each tool, of values as long and as many as they come."""
    one = {"id": HUGE[:40], "name": HUGE, "type": "PERSON", "title": HUGE, "number": "1.4", "level": 1, "entities": 9, "parent": None}
    place = {"document": "d", "path": "docs/鸥.md", "part": "p. 3", "start": 1, "end": 2, "score": 0.5, "headings": ["鸥"] * 6}
    quote = place | {"n": 1, "quote": HUGE, "text": HUGE, "snippet": HUGE, "before": HUGE, "name": HUGE, "after": HUGE}
    related = {"entity": one, "weight": 1.0, "description": HUGE}
    totals = {"relationships_total": 900, "mentions_total": 900}
    known = one | totals | {"names": [HUGE] * 9, "description": HUGE, "relationships": [related] * 99, "mentions": [quote] * 99}
    finding = {"summary": HUGE, "explanation": HUGE, "quotes": [quote] * 99}
    listed = {"id": "d", "path": "docs/a.md", "title": HUGE, "state": "indexed", "reason": HUGE, "characters": 5}
    part = {"id": "d", "path": "a", "title": HUGE, "from": 0, "length": len(HUGE), "segments": [{"text": HUGE}]}
    yield mcp_results.passages_result([quote] * 20)
    cited, said = quote | {"state": "related"}, {"text": HUGE, "state": "related", "citations": [1]}
    yield mcp_results.answer_result(
        {
            "answer": HUGE,
            "mode": "mix",
            "answerable": True,
            "is_answerable": True,
            "note": "",
            "citations": [cited] * 99,
            "sentences": [said] * 99,
            "passages": [{"n": 1, "path": "a", "headings": [], "start": 0, "end": 9, "text": HUGE, "marked": None}] * 3,
        }
    )
    yield mcp_results.document_text_result(part)
    yield mcp_results.entity_result(known | {"communities": [one] * 99}, [HUGE] * 99)
    yield mcp_results.communities_result([one] * 999, [0, 1], 0)
    yield mcp_results.report_result(
        one | {"summary": HUGE, "findings": [finding] * 9, "markdown": HUGE, "children": [one] * 99, "entities": [one] * 99}
    )
    yield mcp_results.documents_result(999, [listed] * 100, 0)
    for n_columns in (2, 4, 6, 21):
        yield mcp_results.table_result(huge_table(n_columns), 0)


def huge_table(n_columns):
    """A table of long texts with many citations."""
    cited = [Citation(0, "docs/鸥.md", n, n + 5, HUGE, "", "p. 3", ("鸥",) * 6) for n in range(30)]
    cells = tuple(Cell(HUGE, tuple(cited), confidence=0.5) for _ in range(n_columns))
    columns = [Column(HUGE) for _ in range(n_columns)]
    return make_table("review", HUGE, columns, [TableRow(cells, HUGE) for _ in range(40)], HUGE[:200])


def test_no_result_is_larger_than_a_model_can_take():
    """Whatever the documents hold, in bytes of all that a model may be shown."""
    sizes = [size_of(result) for result in everything_huge()]

    assert len(sizes) == len(TOOLS)
    assert max(sizes) <= mcp_results.MAX_RESULT_BYTES * 1.02, sizes  # a little for the frame of the message


TABLE_TOOLS = {"review", "timeline", "list_items", "compare"}
TOOLS = {"search", "ask", "passage", "entity", "communities", "report", "documents", *TABLE_TOOLS}


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


def test_the_modes_are_those_of_questions():
    """The schema names each of them, and `auto`."""
    assert set(QueryMode.__args__) == {"auto", *MODE_FUNCTIONS}


def test_an_answer_is_prose_with_sources_and_links_and_values(door, folder):
    """The quotes stand in the documents where they are said to; the values are not repeated as JSON in the text."""
    told = []

    async def hear(progress, total, message):
        told.append((progress, total, message))

    arguments = {"question": "Who is the mate of the Skua?", "mode": "mix"}
    found = through(door, lambda client: client.call_tool("ask", arguments, progress_callback=hear))
    values, prose = found.structured_content, text_of(found)

    assert "Lars Holm" in prose
    assert "Sources" in prose
    assert not prose.startswith("{")
    assert values["complete"]
    assert values["is_answerable"]
    assert values["citations"]
    for cited in values["citations"]:
        assert (folder / cited["path"]).read_text()[cited["start"] : cited["end"]] == cited["quote"]
    assert {b.uri for b in found.content[1:]} == {mcp_results.document_uri(c["path"]) for c in values["citations"]}
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
    assert by_path.structured_content["text"] in text_of(found)
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


def test_the_graph_is_told_of(door):
    """An entity by any of its names, communities by level, a report by its number, files with a text in their path."""
    entity, every, files = through(
        door, tool("entity", name="lars holm"), tool("communities", level=0), tool("documents", contains="b.txt")
    )
    (number, *_) = [c["number"] for c in every.structured_content["communities"] if c["title"]]
    report = through(door, tool("report", id=number))

    assert entity.structured_content["name"] == "Lars Holm"
    assert entity.structured_content["mentions"]
    assert "mate of the Skua" in text_of(entity)
    assert {c["level"] for c in every.structured_content["communities"]} == {0}
    assert report.structured_content["number"] == number
    assert report.structured_content["findings"]
    assert [d["path"] for d in files.structured_content["documents"]] == ["docs/b.txt"]


def test_what_there_is_not_is_said_in_words(door):
    """An error for the model to read, with the tool that finds what there is; wrong arguments are named."""
    nobody, nothing, no_report, wrong, many = through(
        door,
        tool("entity", name="Zaphod Beeblebrox"),
        tool("passage", document="/etc/passwd"),
        tool("report", id="9.999"),
        tool("ask", question="Who?", mode="mad"),
        tool("ask", question="Who?", max_seconds="many"),
    )

    assert all(r.is_error for r in (nobody, nothing, no_report, wrong, many))
    assert "search" in nobody.content[0].text
    assert "/etc/passwd" in nothing.content[0].text
    assert "9.999" in no_report.content[0].text
    assert "mode" in wrong.content[0].text
    assert "max_seconds" in many.content[0].text


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("./docs/b.txt", "docs/b.txt"),
        ("docs//x/../b.txt", "docs/b.txt"),
        ("docs\\b.txt", "docs/b.txt"),
        ("b.txt", "docs/b.txt"),
        ("/b.txt", "docs/b.txt"),
        ("B.TXT", "docs/b.txt"),
        ("/home/ada/town/docs/b.txt", "docs/b.txt"),
        ("deep/b.md", "docs/deep/b.md"),
        (STRANGE, f"docs/{STRANGE}"),
    ],
)
def test_a_document_is_found_by_any_spelling_of_its_path(worker, folder, name, path):
    """By a tool and as a resource; one that is not of the index opens no file."""

    async def made():
        async with Client(make_server(folder / ".localrag", LocalBackend(worker))) as client:
            read = await client.call_tool("passage", {"document": name})
            return read, await client.read_resource(mcp_results.document_uri(name))

    read, resource = asyncio.run(made())
    assert read.structured_content["path"] == path
    assert resource.contents[0].text.startswith(read.structured_content["text"][:20])


def test_a_name_of_several_documents_is_told_with_their_paths(worker, folder):
    """So that the assistant can choose."""

    async def made():
        async with Client(make_server(folder / ".localrag", LocalBackend(worker))) as client:
            return [await client.call_tool("passage", {"document": name}) for name in ("b.md", "no.md", "  ")]

    several, none, empty = asyncio.run(made())
    assert several.is_error and none.is_error and empty.is_error
    assert "docs/deep/b.md, docs/other/b.md" in several.content[0].text
    assert "`documents`" in none.content[0].text


def test_hints_name_what_an_assistant_can_do(worker, folder):
    """Tools instead of commands, and commands only as something to ask the user for."""

    async def made():
        async with Client(make_server(folder / ".localrag", LocalBackend(worker))) as client:
            calls = (
                ("passage", {"document": "no.md"}),
                ("report", {"id": "9.999"}),
                ("entity", {"name": "Zaphod"}),
                ("search", {"query": "a", "filter": "colour=red"}),
                ("search", {"query": "a", "collections": "none"}),
            )
            return [(await client.call_tool(*call)).content[0].text for call in calls]

    no_document, no_report, no_entity, no_key, no_collection = asyncio.run(made())
    assert "`documents`" in no_document
    assert "`communities`" in no_report
    assert "`search`" in no_entity
    assert "`filter`" in no_key
    assert "only the user can run" in no_collection
    for text in (no_document, no_report, no_entity, no_key):
        assert not re.search(r"localrag [a-z]+|--[a-z]+", text)


def test_every_command_is_translated_for_an_assistant():
    """With its options; the words of a sentence stay, and so does the name of the program."""
    for command in [c.name or c.callback.__name__ for c in app.registered_commands] + [g.name for g in app.registered_groups]:
        text = mcp_results.for_assistant(f"Do it: localrag {command} --all. Then go on.")
        assert ("the tool `" in text) != ("only the user can run" in text), command
        assert text.endswith("Then go on.")
    assert mcp_results.for_assistant("List them: localrag files") == "List them: the tool `documents`"
    assert "`localrag models add FILE --kind chat` (" in mcp_results.for_assistant("Try localrag models add FILE --kind chat or wait.")
    assert mcp_results.for_assistant("A name that localrag gives.") == "A name that localrag gives."


def test_a_note_of_an_answer_is_for_the_assistant():
    """Commands in it, too."""
    answer = mcp_results.EMPTY_ANSWER | {"note": "These quote; to have the model write them: localrag index --write-reports"}
    result = mcp_results.answer_result(answer)
    assert "`localrag index --write-reports` (a command that only the user can run: ask for it)" in result.structured_content["note"]
    assert "only the user can run" in result.content[0].text


def test_documents_and_reports_are_resources(door):
    """Those that are listed can be read, whatever their name; a path that is not of the index opens no file."""

    async def refused(client):
        with pytest.raises(MCPError) as failed:
            await client.read_resource(mcp_results.document_uri("/etc/passwd"))
        return failed.value

    listed, templates, report, no_file = through(
        door,
        lambda client: client.list_resources(),
        lambda client: client.list_resource_templates(),
        lambda client: client.read_resource("localrag://report/0.0"),
        refused,
    )
    (strange,) = [r.uri for r in listed.resources if r.name.endswith(STRANGE)]
    text, long = through(
        door, lambda client: client.read_resource(strange), lambda client: client.read_resource("localrag://doc/docs/long.txt")
    )

    assert {t.uri_template for t in templates.resource_templates} == {"localrag://doc/{+path}", "localrag://report/{id}"}
    assert "Greta Lind" in text.contents[0].text
    assert "The document continues" in long.contents[0].text
    assert report.contents[0].text.startswith("#")
    assert "no document" in str(no_file)


def test_a_prompt_and_names_that_complete(door):
    """The prompt takes a name that completes; so do paths and numbers of reports."""
    prompt = PromptReference(type="ref/prompt", name="answer-with-sources")
    document = ResourceTemplateReference(type="ref/resource", uri=mcp_results.DOCUMENT)
    report = ResourceTemplateReference(type="ref/resource", uri=mcp_results.REPORT)
    asked, names, paths, numbers = through(
        door,
        lambda client: client.get_prompt("answer-with-sources", {"question": "Who is the mate?", "about": "the Skua"}),
        lambda client: client.complete(prompt, {"name": "about", "value": "lars"}),
        lambda client: client.complete(document, {"name": "path", "value": "b.t"}),
        lambda client: client.complete(report, {"name": "id", "value": "0."}),
    )

    assert "Who is the mate?" in asked.messages[0].content.text
    assert "the Skua" in asked.messages[0].content.text
    assert "Lars Holm" in names.completion.values
    assert paths.completion.values == ["docs/b.txt"]
    assert "0.0" in numbers.completion.values


def test_a_name_of_another_tool_is_refused(door):
    """As an error of the call or of the protocol; the connection stays."""

    async def unknown(client):
        try:
            return (await client.call_tool("erase", {})).is_error
        except MCPError:
            return True

    failed, after = through(door, unknown, tool("documents"))

    assert failed
    assert after.structured_content["total"] == 7


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
def test_progress_comes_and_a_question_that_is_cancelled_ends():
    """What is being done is told every two seconds; where the client gives up, the question is over."""
    slow, told = Slow(Path("/nonexistent"), None), []

    async def made(mode):
        heard = asyncio.Event()

        async def hear(progress, total, message):
            told.append((progress, total, message))
            heard.set()

        async with Client(make_server(Path("/nonexistent"), LocalBackend(slow)), mode=mode) as client:
            call = asyncio.create_task(client.call_tool("ask", {"question": "Who?"}, progress_callback=hear))
            await heard.wait()
            call.cancel()
            await asyncio.wait([call])
            for _ in range(100):
                if slow.ended:
                    break
                await asyncio.sleep(0.02)

    for n, mode in enumerate(("legacy", "auto"), 1):
        asyncio.run(made(mode))
        assert slow.ended == n
    assert told[0][1] == 45
    assert told[0][2] == "Reading 14 reports"


@pytest.mark.ci
def test_past_the_time_the_best_so_far_and_how_to_go_on(monkeypatch):
    """Nothing yet is said as such, and the question has ended."""
    monkeypatch.setattr("localrag.serve.mcp_server.STOP_GRACE_S", 0.1)
    slow = Slow(Path("/nonexistent"), None)

    async def made():
        async with Client(make_server(Path("/nonexistent"), LocalBackend(slow))) as client:
            return await client.call_tool("ask", {"question": "Who?", "max_seconds": 1})

    found = asyncio.run(made())

    assert slow.ended == 1
    assert found.structured_content["complete"] is False
    assert "basic" in text_of(found)


def test_an_index_that_is_gone_is_said():
    """With the command that makes one."""
    nowhere = Path("/nonexistent/.localrag")
    worker = QueryWorker(nowhere, None)
    worker.start()

    async def made():
        async with Client(make_server(nowhere, LocalBackend(worker))) as client:
            return [
                await client.call_tool(*call) for call in (("documents", {}), ("search", {"query": "a"}))
            ], await client.list_resources()

    found, listed = asyncio.run(made())

    assert all(r.is_error and "localrag index" in r.content[0].text for r in found)
    assert not listed.resources


@pytest.mark.ci
def test_serve_starts_without_the_library():
    """It takes half a second to load; the first request to /mcp does."""
    code = "import sys, localrag.serve.app, localrag.cli.commands.serve; print([m for m in ('mcp', 'pydantic') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)

    assert done.stdout.strip() == "[]"
