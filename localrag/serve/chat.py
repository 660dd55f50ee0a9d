"""Answers to chat programs, whole and in parts, before a wire format is chosen: text, citations as annotations, list of sources."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from localrag import serializers
from localrag.query.citations import escape_marks, to_one_line
from localrag.records import SUPPORTED_STATE, Answer, Citation
from localrag.serve.chat_request import ChatRequest
from localrag.serve.context import ServerContext, error_response
from localrag.serve.query_worker import RunningQuestion, answer_unless_disconnected, question_events, start_question
from localrag.store.answers import program_conversation
from localrag.store.database import snapshot
from localrag.text.markdown import NeutralMarkdown, NeutralStream, neutralize

MAX_QUOTE_CHARS = 160  # of a quote in the title of a citation
ATTACHED_NOTE = "\n\nThe text that was attached to the question was not read: localrag answers from the documents of its index."
CountTokens = Callable[[Sequence[str]], Awaitable[list[int]]]
ChatEvent = tuple[str, Any]  # "text" or "status" and a text, "waiting" and None, at the end "reply" and a ChatReply
ChatEvents = AsyncGenerator[ChatEvent, None]


@dataclass(frozen=True, slots=True)
class ChatReply:
    """The end of an answer: its whole `text`, `finish` (stop, or length if it was cut at the largest number of tokens).

    `annotations`: a flat `url_citation` for each citation, at its first mark in `text`. `sources`: further fields, as in Perplexity's API.
    """

    text: str
    finish: str = "stop"
    annotations: list[dict[str, Any]] = field(default_factory=list)
    sources: dict[str, Any] = field(default_factory=dict)
    prompt_tokens: int = 0
    output_tokens: int = 0


class ChatEncoder(Protocol):
    """The wire format of the response to one request."""

    def opening(self) -> Sequence[str]:
        """What a stream begins with."""

    def part(self, kind: str, value: Any) -> str:
        """An event of the kind text, status or waiting; empty if the format has none."""

    def closing(self, reply: ChatReply) -> Sequence[str]:
        """What a stream ends with."""

    def failed(self, error: Mapping[str, Any]) -> str:
        """What a stream ends with after a failure, by the fields of OpenAI's error."""

    def whole(self, reply: ChatReply) -> dict[str, Any]:
        """The whole response as one object."""


async def chat_response(
    chat: ChatRequest, site: ServerContext, request: Request, encoder: ChatEncoder, media_type: str, *, is_stream: bool
) -> Response:
    """Answer a request by one object, or by a stream of checked sentences."""
    if is_stream:
        return StreamingResponse(encode_events(stream_chat(chat, site), encoder), media_type=media_type)
    return JSONResponse(encoder.whole(await complete_chat(chat, site, request)))


async def encode_events(events: ChatEvents, encoder: ChatEncoder) -> AsyncIterator[str]:
    """Yield the events of an answer in a wire format."""
    try:
        for piece in encoder.opening():
            yield piece
        async with aclosing(events):
            async for kind, value in events:
                for piece in encoder.closing(value) if kind == "reply" else [encoder.part(kind, value)]:
                    if piece:
                        yield piece
    except Exception as failed:  # noqa: BLE001 — any failure becomes an event, and the server keeps running
        yield encoder.failed(json.loads(bytes(error_response(failed).body))["error"])


class OutputLimit:
    """Cuts a text that comes in parts after a number of tokens. `length`: characters so far; `finish`: the reason in OpenAI's words."""

    def __init__(self, request: ChatRequest, count_tokens: CountTokens) -> None:
        self._tokens_left, self._count_tokens = request.max_tokens, count_tokens
        self.length, self.finish, self.is_reached = 0, "stop", False

    async def write(self, text: str) -> str:
        """As much of the next part as is allowed."""
        if self.is_reached:
            return ""
        if self._tokens_left is not None and text:
            text = await self._fit(text, self._tokens_left)
        self.length += len(text)
        return text

    async def _fit(self, text: str, tokens_left: int) -> str:
        (n_tokens,) = await self._count_tokens([text])
        if n_tokens <= tokens_left:
            self._tokens_left = tokens_left - n_tokens
            return text
        self.is_reached, self.finish, fitting = True, "length", []
        words = re.findall(r"(?<!\s)\s*\S+", text)[: tokens_left + 1]  # a word has at least one token
        for word, n_tokens in zip(words, await self._count_tokens(words), strict=True):
            tokens_left -= n_tokens
            if tokens_left < 0:
                break
            fitting.append(word)
        return "".join(fitting)


async def complete_chat(request: ChatRequest, site: ServerContext, connection: Request) -> ChatReply:
    """The whole answer. If the client disconnects, the question is cancelled. Raises the errors of a question."""
    limit = OutputLimit(request, site.query_worker.count)
    if request.task_answer is not None:
        return ChatReply(await limit.write(request.task_answer), limit.finish)
    asked = await _start(request, site)
    answer = await answer_unless_disconnected(asked, connection)
    neutral = neutralize(answer.answer)
    text = await limit.write(neutral.text + source_list(answer, site, request))
    return await _with_counts(_reply(text, answer, neutral, site, limit), answer.question, site)


async def _start(request: ChatRequest, site: ServerContext) -> RunningQuestion:
    """Start answering, in the conversation that the program's history continues."""

    def continued() -> int | None:
        with snapshot(site.folder) as db:
            return program_conversation(db, [answer.question for answer in request.history])

    number = await asyncio.to_thread(continued) if request.history else None
    return start_question(site.query_worker, request.question, replace(request.options, conversation=number), request.history)


async def stream_chat(request: ChatRequest, site: ServerContext) -> ChatEvents:
    """The events of an answer, the last one its reply; it has to be closed. Raises the errors of a question."""
    limit = OutputLimit(request, site.query_worker.count)
    if request.task_answer is not None:
        reply = ChatReply(await limit.write(request.task_answer), limit.finish)
        yield "text", reply.text
        yield "reply", reply
        return
    asked = await _start(request, site)
    async with aclosing(answer_events(asked, limit, site, request)) as events:
        async for event in events:
            yield event


async def answer_events(asked: RunningQuestion, limit: OutputLimit, site: ServerContext, request: ChatRequest | None = None) -> ChatEvents:
    """The events of a question that is being answered; at the end, or when they are closed, it is ended."""
    heard, sent, stream = "", "", NeutralStream()
    try:
        async for kind, value in question_events(asked):
            if kind == "text":
                heard += value
                if text := await limit.write(stream.write(value).text):
                    sent += text
                    yield "text", text
            elif kind == "status":
                yield "status", value
            elif kind == "nothing":
                yield "waiting", None
        answer = asked.task.result()
        neutral, shift = neutralize(answer.answer), 0
        if answer.answer.startswith(heard):
            rest = stream.write(answer.answer[len(heard) :]).text + stream.finish()
        else:  # it was reworded
            rest = f"{stream.finish()}\n\n"
            shift = limit.length + len(rest)
            rest += neutral.text
        text = await limit.write(rest + source_list(answer, site, request))
        yield "text", text
        yield "reply", await _with_counts(_reply(sent + text, answer, neutral, site, limit, shift), answer.question, site)
    finally:  # also after a disconnect
        await asked.end()


async def _with_counts(reply: ChatReply, question: str, site: ServerContext) -> ChatReply:
    """Return a reply with numbers of tokens: those that a model read and wrote, else those of the question and of the text."""
    if reply.output_tokens:
        return reply
    n_prompt, n_output = await site.query_worker.count([question, reply.text])
    return replace(reply, prompt_tokens=n_prompt, output_tokens=n_output)


def _reply(text: str, answer: Answer, neutral: NeutralMarkdown, site: ServerContext, limit: OutputLimit, shift: int = 0) -> ChatReply:
    """The reply for an answer whose text begins at `shift`; citations whose mark was cut off are left out of the annotations."""
    cited = [note for note in annotations(answer, neutral, site, shift) if note["end_index"] <= limit.length]
    return ChatReply(text, limit.finish, cited, sources(answer, neutral, site), answer.prompt_tokens, answer.output_tokens)


def source_list(answer: Answer, site: ServerContext, request: ChatRequest | None = None) -> str:
    """The list of sources below an answer, for clients that show no annotations, and a note if other sources were sent."""
    lines = [f"- [{c.n}] {_state(answer, c)}{_title(c)}" for c in answer.citations if site.list_sources]
    listed = "\n\nSources\n\n" + neutralize("\n".join(lines)).text if lines else ""
    return listed + (ATTACHED_NOTE if request and request.has_attached else "")


def _state(answer: Answer, c: Citation) -> str:
    state = answer.state_of(c.n)
    return "" if state == SUPPORTED_STATE else f"({state}) "


def _title(c: Citation) -> str:
    place = to_one_line(c.place())
    quote = to_one_line(c.quote)
    return escape_marks(f"{place} — “{quote if len(quote) <= MAX_QUOTE_CHARS else quote[: MAX_QUOTE_CHARS - 1] + '…'}”")


def _address(answer: Answer, c: Citation, site: ServerContext) -> str:
    """URL of a citation on the page; for an answer that was not stored, of the file with a character range (RFC 5147)."""
    if answer.id:
        return f"{site.address}/#/source/{answer.id}/{c.n}"
    return f"{(site.root / c.path).absolute().as_uri()}#char={c.start},{c.end}"


def annotations(answer: Answer, neutral: NeutralMarkdown, site: ServerContext, shift: int = 0) -> list[dict[str, Any]]:
    """A flat `url_citation` per citation, at its first mark in the neutralized answer, which begins at `shift`."""
    first = {n: at for at, n in reversed(answer.citation_marks)}
    notes = []
    for c in answer.citations:
        at = shift + neutral.offset(first[c.n]) if c.n in first else 0
        end = at + len(f"[{c.n}]") if c.n in first else 0
        cited = {"url": _address(answer, c, site), "title": _title(c), "headings": list(c.headings), "state": answer.state_of(c.n)}
        notes.append({"type": "url_citation"} | cited | {"start_index": at, "end_index": end})
    return notes


def sources(answer: Answer, neutral: NeutralMarkdown, site: ServerContext) -> dict[str, Any]:
    """Further fields of a response: citations as Perplexity's API has them, the standalone question, and sentences with their states."""
    results = [
        {"title": _title(c), "url": _address(answer, c, site), "snippet": c.quote, "headings": list(c.headings)}
        | {"state": answer.state_of(c.n)}
        for c in answer.citations
    ]
    sentences = [{name: s[name] for name in ("text", "state", "citations")} for s in serializers.sentences(answer, neutral)]
    return {
        "citations": [r["url"] for r in results],
        "search_results": results,
        "asked": answer.standalone_question,
        "sentences": sentences,
    }
