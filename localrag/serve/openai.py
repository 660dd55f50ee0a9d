"""`/v1`: the index as a model of OpenAI's API, with citations in every form that programs read."""

import asyncio
import base64
import json
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

from localrag import contents
from localrag.errors import NoIndex
from localrag.query.answer import MODES
from localrag.query.question import Options
from localrag.records import Answer, Citation
from localrag.serve.documents import where_of
from localrag.serve.follow import Asked, ask, follow, unless_gone
from localrag.serve.guard import error, json_body
from localrag.serve.site import Site, failure
from localrag.serve.tasks import task_answer
from localrag.states import SUPPORTED
from localrag.store.collections import collections
from localrag.store.connect import snapshot
from localrag.text.marks import escape_marks, one_line
from localrag.where import Selection

NAME = "localrag"  # the model whose mode the question chooses; `localrag:MODE` is one of a mode, `localrag/NAME[:MODE]` of a collection
QUOTED = 160  # characters of a quote in the title of a citation
MOST_TEXTS = 2048  # of a call for embeddings
EVENTS = "text/event-stream"
NOTHING_SPENT = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}


def routes(site: Site) -> list[Route]:
    """The addresses of `/v1`."""
    return [
        Route("/v1/models", partial(models, site=site)),
        Route("/v1/chat/completions", partial(chat, site=site), methods=["POST"]),
        Route("/v1/embeddings", partial(embeddings, site=site), methods=["POST"]),
    ]


async def models(request: Request, site: Site) -> Response:
    """`GET /v1/models`: the whole index and each of its collections, in every mode."""
    del request
    names = [name for base in await asyncio.to_thread(_models, site) for name in (base, *(f"{base}:{mode}" for mode in MODES))]
    return JSONResponse({"object": "list", "data": [{"id": n, "object": "model", "created": 0, "owned_by": "localrag"} for n in names]})


def _models(site: Site) -> list[str]:
    """The models without their modes: the whole index, and each of its collections; one that is gone has none."""
    try:
        with snapshot(site.folder) as db:
            return [NAME, *(f"{NAME}/{collection}" for collection in collections(db))]
    except NoIndex:
        return [NAME]


async def embeddings(request: Request, site: Site) -> Response:
    """`POST /v1/embeddings`, as numbers or in base64."""
    body = json_body(await request.body(), ["input"])
    texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
    if not isinstance(texts, list) or not texts or not all(isinstance(t, str) and t for t in texts) or len(texts) > MOST_TEXTS:
        raise ValueError(f"`input` is a text, or a list of 1 to {MOST_TEXTS} texts.")
    vectors, counts = await site.worker.embed(texts), await site.worker.count(texts)
    packed = body.get("encoding_format") == "base64"
    data = [
        {"object": "embedding", "index": n, "embedding": base64.b64encode(v.astype("<f4").tobytes()).decode() if packed else v.tolist()}
        for n, v in enumerate(np.asarray(vectors, np.float32))
    ]
    usage = {"prompt_tokens": sum(counts), "total_tokens": sum(counts)}
    return JSONResponse({"object": "list", "data": data, "model": str(body.get("model", NAME)), "usage": usage})


async def chat(request: Request, site: Site) -> Response:
    """`POST /v1/chat/completions`, whole or as a stream of checked sentences."""
    body = json_body(await request.body(), ["messages"])
    try:
        text, history, options = _question(body, await asyncio.to_thread(_models, site))
    except LookupError as wrong:
        return error(404, str(wrong.args[0]), code="model_not_found")
    said = _Said(str(body.get("model", NAME)))
    if (done := task_answer(text)) is not None:
        return Response(said.at_once(done), media_type=EVENTS) if body.get("stream") else JSONResponse(said.whole(done))
    asked = ask(site.worker, text, replace(options, max_seconds=site.max_seconds), history)
    if body.get("stream"):
        options_of_stream = body.get("stream_options")
        usage = isinstance(options_of_stream, dict) and bool(options_of_stream.get("include_usage"))
        return StreamingResponse(_streamed(asked, said, site, usage=usage), media_type=EVENTS)
    made = await unless_gone(asked, request)
    return JSONResponse(said.whole(_text(made, site), _annotations(made, site), _usage(made)) | _sources(made, site))


async def _streamed(asked: Asked, said: "_Said", site: Site, *, usage: bool) -> AsyncIterator[str]:
    sent = ""
    try:
        yield said.chunk({"role": "assistant", "content": ""})
        async for kind, value in follow(asked):
            if kind == "text":
                sent += _inert(value)
                yield said.chunk({"content": _inert(value)})
            elif kind == "status":
                yield said.chunk({"reasoning_content": f"{value}\n"})
            elif kind == "nothing":
                yield ": still there\n\n"
        made = asked.task.result()
        rest = _text(made, site)
        rest = rest[len(sent) :] if rest.startswith(sent) else f"\n\n{rest}"
        yield said.chunk({"content": rest, "annotations": _annotations(made, site)})
        yield said.chunk({}, finish="stop", **_sources(made, site))
        if usage:
            yield said.event(said.head() | {"choices": [], "usage": _usage(made)})
        yield "data: [DONE]\n\n"
    except Exception as failed:  # noqa: BLE001 — whatever it was, the client gets a sentence and the server stays
        yield said.event(json.loads(bytes(failure(failed).body)))
    finally:  # also where the client has gone
        await asked.end()


def _text(made: Answer, site: Site) -> str:
    """The answer with a list of its sources, for readers that show no annotations. Nothing in it loads a page or a picture."""
    text = _inert(made.answer)
    if not site.list_sources or not made.citations:
        return text
    return text + "\n\nSources\n" + "\n".join(f"[{c.n}] {_state(made, c)}{_inert(_title(c))}" for c in made.citations)


def _state(made: Answer, c: Citation) -> str:
    """The state of a source in brackets; empty where it proves a sentence."""
    state = made.state_of(c.n)
    return "" if state == SUPPORTED else f"({state}) "


def _title(c: Citation) -> str:
    place = one_line(f"{c.path}, {c.part}" if c.part else c.path)
    quote = one_line(c.quote)
    return escape_marks(f"{place} — “{quote if len(quote) <= QUOTED else quote[: QUOTED - 1] + '…'}”")


def _address(made: Answer, c: Citation, site: Site) -> str:
    """Where the page shows a citation; of an answer that could not be kept, the file and the characters of its text (RFC 5147)."""
    if made.id:
        return f"{site.address}/#/source/{made.id}/{c.n}"
    return f"{(site.root / c.path).absolute().as_uri()}#char={c.start},{c.end}"


def _annotations(made: Answer, site: Site) -> list[dict[str, Any]]:
    """One for each citation, at its first mark."""
    first = {n: at for at, n in reversed(made.marks)}
    found = []
    for c in made.citations:
        at = len(_inert(made.answer[: first[c.n]])) if c.n in first else 0
        span = {"start_index": at, "end_index": at + len(f"[{c.n}]") if c.n in first else 0}
        found.append(
            {
                "type": "url_citation",
                "url_citation": {"url": _address(made, c, site), "title": _title(c), "state": made.state_of(c.n)} | span,
            }
        )
    return found


def _sources(made: Answer, site: Site) -> dict[str, Any]:
    """What clients of Perplexity's kind read; the question as it was understood; the sentences with their states."""
    results = [
        {"title": _title(c), "url": _address(made, c, site), "snippet": c.quote, "state": made.state_of(c.n)} for c in made.citations
    ]
    sentences = [{"text": _inert(s["text"]), "state": s["state"], "citations": s["citations"]} for s in contents.sentences(made)]
    return {"citations": [r["url"] for r in results], "search_results": results, "asked": made.asked, "sentences": sentences}


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


def _question(body: dict[str, Any], known: Sequence[str]) -> tuple[str, list[Answer], Options]:
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
    base, _, mode = str(body.get("model", NAME)).partition(":")
    if base not in known or (mode and mode not in MODES):
        raise LookupError(f"There is no model {body.get('model')!r}. Those there are: GET /v1/models")
    seed = body.get("seed")
    replies = (next((_content(m) for m in messages[n + 1 :] if m.get("role") == "assistant"), "") for n in said)
    history = [Answer(_content(messages[n]), reply, "mix") for n, reply in zip(said[:-1], replies, strict=False)]
    selection = Selection(where_of(body), (base.removeprefix(f"{NAME}/"),) if base != NAME else ())
    return text, history, Options(mode or "auto", seed=seed if isinstance(seed, int) else 0, selection=selection)


def _content(message: dict[str, Any]) -> str:
    """The text of a message, which may come in parts."""
    content = message.get("content")
    if isinstance(content, list):
        return "\n".join(str(p.get("text", "")) for p in content if isinstance(p, dict) and p.get("type") == "text")
    return content if isinstance(content, str) else ""


def _inert(text: str) -> str:
    """Text of documents without what a chat program would load or follow: pictures, links, HTML."""
    return text.replace("![", "!\u200b[").replace("](", "]\u200b(").replace("<", "&lt;")


def _usage(made: Answer) -> dict[str, int]:
    return {
        "prompt_tokens": made.prompt_tokens,
        "completion_tokens": made.output_tokens,
        "total_tokens": made.prompt_tokens + made.output_tokens,
    }
