"""Written answers in every program's interface: Markdown is kept, nothing in it is active, marks and headings are where they belong."""

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from localrag import serializers
from localrag.cli.views.answers import answer_json
from localrag.query.question import QueryOptions
from localrag.records import Answer, AnswerSentence, Citation
from localrag.serve import api, chat, mcp_results, openai
from localrag.serve.chat_request import ChatRequest
from localrag.serve.query_worker import RunningQuestion
from tests.text.test_markdown import HOSTILE, KEPT, active_parts


async def count(texts):
    """As many tokens as words."""
    return [len(text.split()) for text in texts]


SITE = SimpleNamespace(query_worker=SimpleNamespace(count=count), list_sources=True, address="http://127.0.0.1:1", root=Path("/docs"))
PARTS = [
    "## Plans\n\n",
    "Two plans <b>exist</b>. [1]",
    " See ![x](http://evil.example/p.png) and [that](http://evil.example). [related][2]\n\n",
    "| Plan | Price |\n",
    "|---|---|\n",
    "| Basic \\| small | 10 € [1] |\n\n",
    "```py\n",
    "x[0](y) = a<b>[1]\n",
    "```\n",
    "[2]\n\n",
    "- 一 <img src=x>\n  - مرحبا [unsupported]\n",
]


def answer_of(parts, claims=(), **more):
    """An answer made of parts, with two citations; the marks are the ones outside the code."""
    text = "".join(parts)
    code = range(text.find("```py"), text.find("```\n", text.find("```py") + 5))
    marks = [(at, n) for n in (1, 2) for at in range(len(text)) if text.startswith(f"[{n}]", at) and at not in code]
    spans = [AnswerSentence(text.index(c), text.index(c) + len(c), "supported", (1,)) for c in claims]
    cited = tuple(
        Citation(n, f"plan{n}.md", 0, 5, "`quoted", "", "page 2" * (n - 1), ("Prices", "![h](http://evil.example/)")) for n in (1, 2)
    )
    return Answer("Which plans?", text, "mix", citations=cited, citation_marks=tuple(sorted(marks)), sentences=tuple(spans), id=7, **more)


CLAIMS = ["Two plans <b>exist</b>.", "| Basic \\| small | 10 € [1] |", "```py\nx[0](y) = a<b>[1]\n```", "一 <img src=x>"]
ANSWER = answer_of(PARTS, CLAIMS)
KEPT_BLOCKS = [
    "## Plans\n",
    "|---|---|\n| Basic \\| small | 10 € [1] |\n",
    "```py\nx[0](y) = a<b>[1]\n```\n[2]\n",
    "\n  - مرحبا [unsupported]",
]


async def events_of(made, answer, parts):
    """What a stream sends for an answer that comes in parts."""

    async def finished():
        return answer

    events = asyncio.Queue()
    for part in parts:
        events.put_nowait(("text", part))
    task = asyncio.create_task(finished())
    await asyncio.wait([task])
    return [event async for event in made(RunningQuestion(task, events))]


def completion_of(answer, parts):
    """The chunks of a stream of the chat API as (contents, annotations, fields of the last)."""
    limit = chat.OutputLimit(ChatRequest("m", "", (), QueryOptions()), None)

    def stream(asked):
        return chat.encode_events(chat.answer_events(asked, limit, SITE), openai.CompletionEncoder("m"))

    made = asyncio.run(events_of(stream, answer, parts))
    chunks = [json.loads(event.removeprefix("data: ")) for event in made if "[DONE]" not in event]
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    return "".join(d.get("content", "") for d in deltas), [a for d in deltas for a in d.get("annotations", [])], chunks[-1]


def lines_of(answer, parts):
    """The lines of a stream of the page's API."""
    return [e for e in asyncio.run(events_of(lambda asked: api._events("a", asked), answer, parts)) if e]


def test_the_chat_api_keeps_markdown_and_its_marks():
    """Blocks stay as they are laid out; annotations are at the marks; the sources below name file, part and headings."""
    text, annotations, last = completion_of(ANSWER, PARTS)

    assert active_parts(text) == []
    assert all(block in text for block in KEPT_BLOCKS)
    for annotation in annotations:
        cited = annotation["url_citation"]
        assert text[cited["start_index"] : cited["end_index"]] == f"[{cited['url'][-1]}]"
        assert cited["headings"] == ["Prices", "![h](http://evil.example/)"]
    assert "\n\nSources\n\n- [1] plan1.md › Prices › !\\[h]\\(http://evil.example/) — “`quoted”\n- [2] plan2.md › page 2 › Prices" in text
    assert [s["text"] for s in last["sentences"]] == ["Two plans &lt;b>exist&lt;/b>.", CLAIMS[1], CLAIMS[2], "一 &lt;img src=x>"]


@pytest.mark.parametrize("cut", [5, 8, 11])
def test_a_stream_and_a_whole_answer_are_the_same_also_if_cut(cut):
    """In the middle of a table, of a fence and at the end; a cut fence is closed before the sources."""
    answer = answer_of(PARTS[:cut])
    text, *_ = completion_of(answer, PARTS[:cut])

    assert text == serializers.serialize_answer(answer)["answer"] + chat.source_list(answer, SITE)
    assert text.count("```") % 2 == 0
    assert "\n\nSources\n\n" in text


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_is_active_in_any_interface(text):
    """In the whole, in each sentence, in segments put together, and cut by MCP to its size."""
    answer = answer_of(
        [f"{text}\n\n", "Then `![x](http://evil.example/p.png)` " + "and more " * 900 + f"`{text}` [1]\n"], ["Then `![x](http"]
    )
    made = serializers.serialize_answer(answer)
    result = mcp_results.answer_result(made).structured_content
    streamed = completion_of(answer, [answer.answer])[0]
    said = [s["text"] for shown in (made, result) for s in shown["sentences"]]
    lines = "".join(e["text"] for e in lines_of(answer, [answer.answer]) if e["event"] == "text")
    segments = "".join(s.get("text") or f"[{s['n']}]" for s in made["segments"])

    for shown in (made["answer"], segments, result["answer"], streamed, lines, answer_json(answer, Path("/docs"))["answer"], *said):
        assert active_parts(shown) == []


@pytest.mark.parametrize("text", KEPT)
def test_what_is_not_active_stays_to_the_letter(text):
    """In each interface."""
    answer = Answer("What?", text, "mix")

    assert serializers.serialize_answer(answer)["answer"] == answer_json(answer, Path("/docs"))["answer"] == text
    assert mcp_results.answer_result(serializers.serialize_answer(answer)).structured_content["answer"] == text
    assert completion_of(answer, [text])[0] == text


def test_sentences_and_marks_are_found_in_the_text_that_is_given():
    """Their offsets are those of the neutral text, and the page's segments have every mark."""
    made = serializers.serialize_answer(ANSWER)

    assert all(made["answer"][s["start"] : s["end"]] == s["text"] for s in made["sentences"])
    assert [s["n"] for s in made["segments"] if "n" in s] == [1, 2, 1, 2]
    assert made["citations"][1]["headings"] == ["Prices", "![h](http://evil.example/)"]
    streamed = [s for e in lines_of(ANSWER, PARTS) if e["event"] == "text" for s in e["segments"]]
    assert [s["n"] for s in streamed if "n" in s] == [1, 2, 1, 2]
