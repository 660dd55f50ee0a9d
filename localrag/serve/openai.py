"""The OpenAI-compatible API (`/v1`): the index as a chat model whose answers carry citations, and as an embedding model."""

import asyncio
import base64
import json
import re
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import uuid4

import numpy as np
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from localrag import serializers
from localrag.errors import NoIndex
from localrag.filters import DocumentFilter
from localrag.query.answer import MODE_FUNCTIONS
from localrag.query.citations import escape_marks, to_one_line
from localrag.query.question import QueryOptions
from localrag.records import SUPPORTED_STATE, Answer, Citation
from localrag.serve.auth import json_body, openai_error
from localrag.serve.context import ServerContext, error_response, filter_text_of
from localrag.serve.query_worker import RunningQuestion, answer_unless_disconnected, question_events, start_question
from localrag.store.collections import collections
from localrag.store.database import snapshot
from localrag.text.markdown import NeutralMarkdown, NeutralStream, neutralize

_TASK_PREFIXES = ("### Task:", "Provide a concise", "Please generate a concise")
_TASK_MARKERS = re.compile(r"<chat_history>|\b(?:USER|User|Human|ASSISTANT|Assistant|AI): ")
_KEYS = ("title", "tags", "follow_ups", "queries")
_ASKED = re.compile(r"(?:USER|User|Human): (.+)")
MAX_TITLE_WORDS = 8


def answer_client_task(message: str) -> str | None:
    """The JSON answer to a chat program's own task, without a model; None if the message is a question of the user.

    Chat programs send such tasks (a title, tags, follow-up questions, search queries) as ordinary messages. A message counts as one only if
    it begins like one, contains the conversation, and names a key of the expected JSON. A looser rule would take questions of users.
    """
    text = message.lstrip()
    key = next((k for k in _KEYS if f'"{k}"' in text), None)
    if key is None or not text.startswith(_TASK_PREFIXES) or not _TASK_MARKERS.search(text):
        return None
    asked = _ASKED.search(text)
    title = " ".join(asked[1].split()[:MAX_TITLE_WORDS]).rstrip("?.!") if asked else "Documents"
    return json.dumps({key: title if key == "title" else []}, ensure_ascii=False)


# `localrag` chooses the mode by the question, `localrag:MODE` fixes it, `localrag/COLLECTION[:MODE]` restricts it to a collection.
MODEL_NAME = "localrag"
MAX_QUOTE_CHARS = 160  # of a quote in the title of a citation
MAX_EMBEDDING_INPUTS = 2048  # of a request
SSE_MEDIA_TYPE = "text/event-stream"
ZERO_USAGE = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}


def openai_routes(site: ServerContext) -> list[Route]:
    """The routes below `/v1`."""
    return [
        Route("/v1/models", partial(list_models_endpoint, site=site)),
        Route("/v1/chat/completions", partial(chat_endpoint, site=site), methods=["POST"]),
        Route("/v1/embeddings", partial(embeddings_endpoint, site=site), methods=["POST"]),
    ]


async def list_models_endpoint(request: Request, site: ServerContext) -> Response:
    """`GET /v1/models`: the index and each of its collections, in every mode."""
    del request
    names = [name for base in await asyncio.to_thread(_models, site) for name in (base, *(f"{base}:{mode}" for mode in MODE_FUNCTIONS))]
    return JSONResponse({"object": "list", "data": [{"id": n, "object": "model", "created": 0, "owned_by": "localrag"} for n in names]})


def _models(site: ServerContext) -> list[str]:
    """Model names without modes: the index and each of its collections. A missing index has no collections."""
    try:
        with snapshot(site.folder) as db:
            return [MODEL_NAME, *(f"{MODEL_NAME}/{collection}" for collection in collections(db))]
    except NoIndex:
        return [MODEL_NAME]


async def embeddings_endpoint(request: Request, site: ServerContext) -> Response:
    """`POST /v1/embeddings`: vectors as numbers or in base64."""
    body = json_body(await request.body(), ["input"])
    texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
    if not isinstance(texts, list) or not texts or not all(isinstance(t, str) and t for t in texts) or len(texts) > MAX_EMBEDDING_INPUTS:
        raise ValueError(f"`input` is a text, or a list of 1 to {MAX_EMBEDDING_INPUTS} texts.")
    vectors, counts = await site.query_worker.embed(texts), await site.query_worker.count(texts)
    packed = body.get("encoding_format") == "base64"
    data = [
        {"object": "embedding", "index": n, "embedding": base64.b64encode(v.astype("<f4").tobytes()).decode() if packed else v.tolist()}
        for n, v in enumerate(np.asarray(vectors, np.float32))
    ]
    usage = {"prompt_tokens": sum(counts), "total_tokens": sum(counts)}
    return JSONResponse({"object": "list", "data": data, "model": str(body.get("model", MODEL_NAME)), "usage": usage})


async def chat_endpoint(request: Request, site: ServerContext) -> Response:
    """`POST /v1/chat/completions`: one response, or a stream of checked sentences."""
    body = json_body(await request.body(), ["messages"])
    try:
        text, history, options = _question(body, await asyncio.to_thread(_models, site))
    except LookupError as error:
        return openai_error(404, str(error.args[0]), code="model_not_found")
    builder = _ResponseBuilder(str(body.get("model", MODEL_NAME)))
    if (done := answer_client_task(text)) is not None:
        return (
            Response(builder.one_chunk_stream(done), media_type=SSE_MEDIA_TYPE)
            if body.get("stream")
            else JSONResponse(builder.completion(done))
        )
    asked = start_question(site.query_worker, text, replace(options, max_seconds=site.max_seconds), history)
    if body.get("stream"):
        options_of_stream = body.get("stream_options")
        usage = isinstance(options_of_stream, dict) and bool(options_of_stream.get("include_usage"))
        return StreamingResponse(_stream_response(asked, builder, site, usage=usage), media_type=SSE_MEDIA_TYPE)
    answer = await answer_unless_disconnected(asked, request)
    neutral = neutralize(answer.answer)
    text = neutral.text + _source_list(answer, site)
    return JSONResponse(builder.completion(text, _annotations(answer, neutral, site), _usage(answer)) | _sources(answer, neutral, site))


async def _stream_response(asked: RunningQuestion, builder: "_ResponseBuilder", site: ServerContext, *, usage: bool) -> AsyncIterator[str]:
    heard, stream = "", NeutralStream()
    try:
        yield builder.chunk({"role": "assistant", "content": ""})
        async for kind, value in question_events(asked):
            if kind == "text":
                heard += value
                yield builder.chunk({"content": stream.write(value).text})
            elif kind == "status":
                yield builder.chunk({"reasoning_content": f"{value}\n"})
            elif kind == "nothing":
                yield ": still there\n\n"
        answer = asked.task.result()
        neutral = neutralize(answer.answer)
        if answer.answer.startswith(heard):
            rest = stream.write(answer.answer[len(heard) :]).text + stream.finish()
        else:  # it was reworded
            rest = f"{stream.finish()}\n\n{neutral.text}"
        yield builder.chunk({"content": rest + _source_list(answer, site), "annotations": _annotations(answer, neutral, site)})
        yield builder.chunk({}, finish="stop", **_sources(answer, neutral, site))
        if usage:
            yield builder.event(builder.head() | {"choices": [], "usage": _usage(answer)})
        yield "data: [DONE]\n\n"
    except Exception as failed:  # noqa: BLE001 — any failure becomes an error event, and the server keeps running
        yield builder.event(json.loads(bytes(error_response(failed).body)))
    finally:  # also after a disconnect
        await asked.end()


def _source_list(answer: Answer, site: ServerContext) -> str:
    """The list of sources below an answer, for clients that show no annotations."""
    if not site.list_sources or not answer.citations:
        return ""
    lines = [f"- [{c.n}] {_state(answer, c)}{_title(c)}" for c in answer.citations]
    return "\n\nSources\n\n" + neutralize("\n".join(lines)).text


def _state(answer: Answer, c: Citation) -> str:
    """The state of a source in brackets; empty for supported."""
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


def _annotations(answer: Answer, neutral: NeutralMarkdown, site: ServerContext) -> list[dict[str, Any]]:
    """OpenAI's annotations: one per citation, at its first mark in the neutralized answer."""
    first = {n: at for at, n in reversed(answer.citation_marks)}
    annotations = []
    for c in answer.citations:
        at = neutral.offset(first[c.n]) if c.n in first else 0
        span = {"start_index": at, "end_index": at + len(f"[{c.n}]") if c.n in first else 0}
        annotations.append(
            {
                "type": "url_citation",
                "url_citation": {
                    "url": _address(answer, c, site),
                    "title": _title(c),
                    "headings": list(c.headings),
                    "state": answer.state_of(c.n),
                }
                | span,
            }
        )
    return annotations


def _sources(answer: Answer, neutral: NeutralMarkdown, site: ServerContext) -> dict[str, Any]:
    """Further fields of a response: citations as Perplexity's API has them, the standalone question, and sentences with their states."""
    results = [
        {"title": _title(c), "url": _address(answer, c, site), "snippet": c.quote, "headings": list(c.headings)}
        | {"state": answer.state_of(c.n)}
        for c in answer.citations
    ]
    sentences = [{k: s[k] for k in ("text", "state", "citations")} for s in serializers.sentences(answer, neutral)]
    return {
        "citations": [r["url"] for r in results],
        "search_results": results,
        "asked": answer.standalone_question,
        "sentences": sentences,
    }


class _ResponseBuilder:
    """Builds the response to one request in OpenAI's format: one object, or chunks of a stream."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._id, self._created = f"chatcmpl-{uuid4().hex}", int(time.time())

    def head(self) -> dict[str, Any]:
        """Fields that every chunk has."""
        return {"id": self._id, "object": "chat.completion.chunk", "created": self._created, "model": self._model}

    def chunk(self, delta: dict[str, Any], finish: str | None = None, **rest: Any) -> str:
        """A chunk of the answer as an event."""
        return self.event(self.head() | {"choices": [{"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}]} | rest)

    @staticmethod
    def event(value: dict[str, Any]) -> str:
        """A server-sent event."""
        return f"data: {json.dumps(value, ensure_ascii=False)}\n\n"

    def completion(self, text: str, annotations: Sequence[dict[str, Any]] = (), usage: dict[str, int] = ZERO_USAGE) -> dict[str, Any]:
        """The whole answer as one object."""
        message = {"role": "assistant", "content": text, "refusal": None, "annotations": list(annotations)}
        choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
        return self.head() | {"object": "chat.completion", "choices": [choice], "usage": usage}

    def one_chunk_stream(self, text: str) -> str:
        """A complete stream with one chunk of text."""
        return "".join([self.chunk({"role": "assistant", "content": text}), self.chunk({}, finish="stop"), "data: [DONE]\n\n"])


def _question(body: dict[str, Any], model_names: Sequence[str]) -> tuple[str, list[Answer], QueryOptions]:
    """The user's last message, the conversation before it, and the options. Raises ValueError; LookupError for an unknown model."""
    messages = body["messages"]
    if not isinstance(messages, list) or not all(isinstance(m, dict) for m in messages):
        raise ValueError("`messages` is a list of objects.")
    user_turns = [n for n, m in enumerate(messages) if m.get("role") == "user"]
    text = _content(messages[user_turns[-1]]) if user_turns else ""
    if not text.strip():
        raise ValueError("No message of the user has a text.")
    if body.get("tool_choice") == "required":
        raise ValueError("This model calls no tools.")
    base, _, mode = str(body.get("model", MODEL_NAME)).partition(":")
    if base not in model_names or (mode and mode not in MODE_FUNCTIONS):
        raise LookupError(f"There is no model {body.get('model')!r}. List them: GET /v1/models")
    seed = body.get("seed")
    replies = (next((_content(m) for m in messages[n + 1 :] if m.get("role") == "assistant"), "") for n in user_turns)
    history = [Answer(_content(messages[n]), reply, "mix") for n, reply in zip(user_turns[:-1], replies, strict=False)]
    selection = DocumentFilter(filter_text_of(body), (base.removeprefix(f"{MODEL_NAME}/"),) if base != MODEL_NAME else ())
    return text, history, QueryOptions(mode or "auto", seed=seed if isinstance(seed, int) else 0, selection=selection)


def _content(message: dict[str, Any]) -> str:
    """The text of a message, whose content may be a list of parts."""
    content = message.get("content")
    if isinstance(content, list):
        return "\n".join(str(p.get("text", "")) for p in content if isinstance(p, dict) and p.get("type") == "text")
    return content if isinstance(content, str) else ""


def _usage(answer: Answer) -> dict[str, int]:
    return {
        "prompt_tokens": answer.prompt_tokens,
        "completion_tokens": answer.output_tokens,
        "total_tokens": answer.prompt_tokens + answer.output_tokens,
    }
