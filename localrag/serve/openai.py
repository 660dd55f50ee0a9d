"""`/v1`: the index as a model of OpenAI's API, with citations in every form that programs read."""

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from localrag.errors import LocalragError, UsageError, kind_and_place
from localrag.query.answer import MODES
from localrag.query.question import Options
from localrag.records import Answer, Citation
from localrag.serve.guard import error, json_body
from localrag.serve.tasks import task_answer
from localrag.serve.worker import Busy, Worker

NAME = "localrag"  # the model whose mode the question chooses; `localrag:MODE` is one of a mode
STILL_THERE = 10.0  # seconds between comments in a stream that says nothing else
QUOTED = 160  # characters of a quote in the title of a citation
MOST_TEXTS = 2048  # of a call for embeddings
EVENTS = "text/event-stream"
NOTHING_SPENT = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}


class Api:
    """The handlers of `/v1` over one index; `root` is the folder that paths of documents are relative to."""

    def __init__(self, worker: Worker, root: Path, *, list_sources: bool = True) -> None:
        self._worker, self._root, self._list_sources = worker, root, list_sources

    async def models(self, _request: Request) -> Response:
        """`GET /v1/models`."""
        names = [NAME, *(f"{NAME}:{mode}" for mode in MODES)]
        return JSONResponse({"object": "list", "data": [{"id": n, "object": "model", "created": 0, "owned_by": "localrag"} for n in names]})

    async def embeddings(self, request: Request) -> Response:
        """`POST /v1/embeddings`, as numbers or in base64."""
        try:
            body = json_body(await request.body(), ["input"])
        except ValueError as wrong:
            return error(400, str(wrong))
        texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
        if not isinstance(texts, list) or not texts or not all(isinstance(t, str) and t for t in texts) or len(texts) > MOST_TEXTS:
            return error(400, f"`input` is a text, or a list of 1 to {MOST_TEXTS} texts.")
        try:
            vectors, counts = await self._worker.embed(texts), await self._worker.count(texts)
        except Exception as failed:  # noqa: BLE001 — as in `chat`
            return failure(failed)
        packed = body.get("encoding_format") == "base64"
        data = [
            {"object": "embedding", "index": n, "embedding": base64.b64encode(v.astype("<f4").tobytes()).decode() if packed else v.tolist()}
            for n, v in enumerate(np.asarray(vectors, np.float32))
        ]
        usage = {"prompt_tokens": sum(counts), "total_tokens": sum(counts)}
        return JSONResponse({"object": "list", "data": data, "model": str(body.get("model", NAME)), "usage": usage})

    async def chat(self, request: Request) -> Response:
        """`POST /v1/chat/completions`, whole or as a stream of checked sentences."""
        try:
            body = json_body(await request.body(), ["messages"])
            text, history, options = _question(body)
        except ValueError as wrong:
            return error(400, str(wrong))
        except LookupError as wrong:
            return error(404, str(wrong.args[0]), code="model_not_found")
        model = str(body.get("model", NAME))
        if (done := task_answer(text)) is not None:
            said = _Said(model)
            return Response(said.at_once(done), media_type=EVENTS) if body.get("stream") else JSONResponse(said.whole(done))
        if body.get("stream"):
            options_of_stream = body.get("stream_options")
            usage = isinstance(options_of_stream, dict) and bool(options_of_stream.get("include_usage"))
            return StreamingResponse(self._streamed(text, history, options, model, usage=usage), media_type=EVENTS)
        try:
            made = await self._worker.ask(text, options, lambda _: None, lambda _: None, history)
        except Exception as failed:  # noqa: BLE001 — whatever it was, the client gets a sentence and the server stays
            return failure(failed)
        return JSONResponse(self._whole(made, model))

    def _whole(self, made: Answer, model: str) -> dict[str, Any]:
        return _Said(model).whole(self._text(made), self._annotations(made), _usage(made)) | self._sources(made)

    async def _streamed(self, text: str, history: list[Answer], options: Options, model: str, *, usage: bool) -> AsyncIterator[str]:
        said = _Said(model)
        heard: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        asked = asyncio.create_task(
            self._worker.ask(
                text,
                options,
                lambda new: heard.put_nowait({"content": _inert(new)}),
                lambda status: heard.put_nowait({"reasoning_content": f"{status}\n"}),
                history,
            )
        )
        sent = ""
        try:
            yield said.chunk({"role": "assistant", "content": ""})
            while not asked.done() or not heard.empty():
                delta = await _next(heard, asked)
                if delta is None:
                    yield ": still there\n\n"
                elif delta:
                    sent += delta.get("content", "")
                    yield said.chunk(delta)
            made = asked.result()
            rest = self._text(made)
            rest = rest[len(sent) :] if rest.startswith(sent) else f"\n\n{rest}"
            yield said.chunk({"content": rest, "annotations": self._annotations(made)})
            yield said.chunk({}, finish="stop", **self._sources(made))
            if usage:
                yield said.event(said.head() | {"choices": [], "usage": _usage(made)})
            yield "data: [DONE]\n\n"
        except Exception as failed:  # noqa: BLE001 — as in `chat`
            yield said.event(json.loads(bytes(failure(failed).body)))
        finally:  # also where the client has gone
            asked.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await asked

    def _text(self, made: Answer) -> str:
        """The answer with a list of its sources, for readers that show no annotations. Nothing in it loads a page or a picture."""
        text = _inert(made.answer)
        if not self._list_sources or not made.citations:
            return text
        return text + "\n\nSources\n" + "\n".join(f"[{c.n}] {_inert(self._title(c))}" for c in made.citations)

    def _title(self, c: Citation) -> str:
        place = f"{c.path}, {c.part}" if c.part else c.path
        quote = " ".join(c.quote.split())
        return f"{place} — “{quote if len(quote) <= QUOTED else quote[: QUOTED - 1] + '…'}”"

    def _address(self, c: Citation) -> str:
        """The file, and the characters of its text (RFC 5147): one address for each citation."""
        return f"{(self._root / c.path).absolute().as_uri()}#char={c.start},{c.end}"

    def _annotations(self, made: Answer) -> list[dict[str, Any]]:
        text = self._text(made)
        found = []
        for c in made.citations:
            at = text.index(f"[{c.n}]")
            cited = {"url": self._address(c), "title": self._title(c), "start_index": at, "end_index": at + len(f"[{c.n}]")}
            found.append({"type": "url_citation", "url_citation": cited})
        return found

    def _sources(self, made: Answer) -> dict[str, Any]:
        """What clients of Perplexity's kind read; and the question as it was understood."""
        results = [{"title": self._title(c), "url": self._address(c), "snippet": c.quote} for c in made.citations]
        return {"citations": [r["url"] for r in results], "search_results": results, "asked": made.asked}


class _Said:
    """The pieces of one answer as a client reads them."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._id, self._created = f"chatcmpl-{uuid4().hex}", int(time.time())

    def head(self) -> dict[str, Any]:
        """What every chunk begins with."""
        return {"id": self._id, "object": "chat.completion.chunk", "created": self._created, "model": self._model}

    def chunk(self, delta: dict[str, Any], finish: str | None = None, **rest: Any) -> str:
        """A piece of the answer, as an event."""
        return self.event(self.head() | {"choices": [{"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}]} | rest)

    @staticmethod
    def event(value: dict[str, Any]) -> str:
        """A line of a stream."""
        return f"data: {json.dumps(value, ensure_ascii=False)}\n\n"

    def whole(self, text: str, annotations: Sequence[dict[str, Any]] = (), usage: dict[str, int] = NOTHING_SPENT) -> dict[str, Any]:
        """The answer in one object."""
        message = {"role": "assistant", "content": text, "refusal": None, "annotations": list(annotations)}
        choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
        return self.head() | {"object": "chat.completion", "choices": [choice], "usage": usage}

    def at_once(self, text: str) -> str:
        """A stream that says a text and ends."""
        return "".join([self.chunk({"role": "assistant", "content": text}), self.chunk({}, finish="stop"), "data: [DONE]\n\n"])


def _question(body: dict[str, Any]) -> tuple[str, list[Answer], Options]:
    """The last thing a person said, the conversation before it, how to answer it. Raises ValueError; LookupError for an unknown model."""
    messages = body["messages"]
    if not isinstance(messages, list) or not all(isinstance(m, dict) for m in messages):
        raise ValueError("`messages` is a list of objects.")
    said = [n for n, m in enumerate(messages) if m.get("role") == "user"]
    text = _content(messages[said[-1]]) if said else ""
    if not text.strip():
        raise ValueError("No message of the user has a text.")
    if body.get("tool_choice") == "required":
        raise ValueError("This model calls no tools.")
    name, _, mode = str(body.get("model", NAME)).partition(":")
    if name != NAME or (mode and mode not in MODES):
        raise LookupError(f"There is no model {body.get('model')!r}. Those there are: GET /v1/models")
    seed = body.get("seed")
    replies = (next((_content(m) for m in messages[n + 1 :] if m.get("role") == "assistant"), "") for n in said)
    history = [Answer(_content(messages[n]), reply, "mix") for n, reply in zip(said[:-1], replies, strict=False)]
    return text, history, replace(Options(mode or "auto"), seed=seed if isinstance(seed, int) else 0)


def _content(message: dict[str, Any]) -> str:
    """The text of a message, which may come in parts."""
    content = message.get("content")
    if isinstance(content, list):
        return "\n".join(str(p.get("text", "")) for p in content if isinstance(p, dict) and p.get("type") == "text")
    return content if isinstance(content, str) else ""


async def _next(heard: "asyncio.Queue[dict[str, Any]]", asked: "asyncio.Task[Answer]") -> dict[str, Any] | None:
    """What is heard next, {} where the answer ended meanwhile, None after STILL_THERE seconds of nothing."""
    waiting = asyncio.ensure_future(heard.get())
    done, _ = await asyncio.wait({waiting, asked}, timeout=STILL_THERE, return_when=asyncio.FIRST_COMPLETED)
    if waiting in done:
        return waiting.result()
    waiting.cancel()
    return {} if asked in done else None


def _inert(text: str) -> str:
    """Text of documents without what a chat program would load or follow: pictures, links, HTML."""
    return text.replace("![", "!\u200b[").replace("](", "]\u200b(").replace("<", "&lt;")


def _usage(made: Answer) -> dict[str, int]:
    return {
        "prompt_tokens": made.prompt_tokens,
        "completion_tokens": made.output_tokens,
        "total_tokens": made.prompt_tokens + made.output_tokens,
    }


def failure(failed: BaseException) -> JSONResponse:
    """What a client is told of a failure; an unexpected one by kind and place only, for its message may hold text of the documents."""
    if isinstance(failed, Busy):
        return error(503, str(failed), "server_error", "busy")
    if isinstance(failed, LocalragError):
        return error(400 if isinstance(failed, UsageError) else 500, f"{failed} {failed.hint}".strip(), "server_error")
    return error(500, f"Something unexpected happened: {kind_and_place(failed)}.", "server_error")
