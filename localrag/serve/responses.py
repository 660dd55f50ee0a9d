"""OpenAI's Responses API (`/v1/responses`): the same questions and answers as chat completions, in another wire format.

Nothing is kept between requests, so a response cannot refer to an earlier one.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from functools import partial
from typing import Any
from uuid import uuid4

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from localrag.serve.auth import json_body
from localrag.serve.chat import ChatEvents, ChatReply, complete_chat, stream_chat
from localrag.serve.chat_request import read_chat_request
from localrag.serve.context import ServerContext, error_response
from localrag.serve.values import read_bool

MESSAGE_TYPE = "message"
REFERENCES = ("previous_response_id", "conversation", "background", "prompt")  # parameters that need something kept on the server


def responses_routes(site: ServerContext) -> list[Route]:
    """The route of the Responses API."""
    return [Route("/v1/responses", partial(responses_endpoint, site=site), methods=["POST"])]


async def responses_endpoint(request: Request, site: ServerContext) -> Response:
    """`POST /v1/responses`: one response, or a stream of typed events."""
    body = await asyncio.to_thread(json_body, await request.body(), ["input"])
    chat = await read_chat_request(_chat_body(body), site)
    builder = _ResponseEvents(chat.model)
    if read_bool("stream", body.get("stream")):
        return StreamingResponse(_stream_events(stream_chat(chat, site), builder), media_type="text/event-stream")
    return JSONResponse(builder.completed(await complete_chat(chat, site, request)))


def _chat_body(body: Mapping[str, Any]) -> dict[str, Any]:
    """The same request as a body of the chat completions API. Raises ValueError."""
    for name in REFERENCES:
        if body.get(name):
            raise ValueError(f"This server keeps no responses: leave out `{name}`, and send the whole conversation as `input`.")
    given = body["input"]
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise ValueError("`input` is a text or a list of objects.")
    if any(item.get("type") == "item_reference" for item in items):
        raise ValueError("This server keeps no responses: send the items themselves instead of references.")
    system = [{"role": "system", "content": body["instructions"]}] if isinstance(body.get("instructions"), str) else []
    messages = [item for item in items if item.get("type", MESSAGE_TYPE) == MESSAGE_TYPE]
    text = body.get("text")
    more = {"messages": [*system, *messages], "max_tokens": body.get("max_output_tokens"), "logprobs": body.get("top_logprobs")}
    more["response_format"] = text.get("format") if isinstance(text, dict) else None
    return {name: body.get(name) for name in ("model", "tool_choice", "seed", "filter")} | more


async def _stream_events(events: ChatEvents, builder: "_ResponseEvents") -> AsyncIterator[str]:
    try:
        for event in builder.opening():
            yield event
        async with aclosing(events):
            async for kind, value in events:
                if kind == "text":
                    yield builder.part("response.output_text.delta", delta=value, logprobs=[])
                elif kind == "waiting":
                    yield ": still there\n\n"
                elif kind == "reply":
                    for event in builder.closing(value):
                        yield event
    except Exception as failed:  # noqa: BLE001 — any failure becomes an event, and the server keeps running
        yield builder.failed(json.loads(bytes(error_response(failed).body))["error"])


class _ResponseEvents:
    """Builds the response to one request: one object, or the numbered events of a stream."""

    def __init__(self, model: str) -> None:
        self._model, self._created = model, int(time.time())
        self._id, self._item_id = f"resp_{uuid4().hex}", f"msg_{uuid4().hex}"
        self._n_events = 0

    def completed(self, reply: ChatReply) -> dict[str, Any]:
        """The whole response as one object."""
        is_cut = reply.finish == "length"
        usage = {
            "input_tokens": reply.prompt_tokens,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": reply.output_tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": reply.prompt_tokens + reply.output_tokens,
        }
        status = "incomplete" if is_cut else "completed"
        details = {"reason": "max_output_tokens"} if is_cut else None
        output = [self._message(status, [_output_text(reply)])]
        return self._response(status) | {"incomplete_details": details, "output": output, "usage": usage} | reply.sources

    def opening(self) -> list[str]:
        """The events before the first part of the text."""
        return [
            self._event("response.created", response=self._response("in_progress")),
            self._event("response.in_progress", response=self._response("in_progress")),
            self._event("response.output_item.added", output_index=0, item=self._message("in_progress", [])),
            self.part("response.content_part.added", part={"type": "output_text", "text": "", "annotations": [], "logprobs": []}),
        ]

    def part(self, kind: str, **values: Any) -> str:
        """An event of the one part of the one message."""
        return self._event(kind, item_id=self._item_id, output_index=0, content_index=0, **values)

    def closing(self, reply: ChatReply) -> list[str]:
        """The events behind the last part of the text."""
        response = self.completed(reply)
        notes = enumerate(reply.annotations)
        return [
            *(self.part("response.output_text.annotation.added", annotation_index=n, annotation=note) for n, note in notes),
            self.part("response.output_text.done", text=reply.text, logprobs=[]),
            self.part("response.content_part.done", part=_output_text(reply)),
            self._event("response.output_item.done", output_index=0, item=response["output"][0]),
            self._event(f"response.{response['status']}", response=response),
        ]

    def failed(self, error: Mapping[str, Any]) -> str:
        """The event that ends a stream that failed."""
        message = " ".join(filter(None, (error["message"], error["hint"])))
        return self._event("response.failed", response=self._response("failed") | {"error": {"code": "server_error", "message": message}})

    def _message(self, status: str, content: list[dict[str, Any]]) -> dict[str, Any]:
        return {"id": self._item_id, "type": MESSAGE_TYPE, "status": status, "role": "assistant", "content": content}

    def _response(self, status: str) -> dict[str, Any]:
        """A response without output; the fields that OpenAI's clients require."""
        head = {"id": self._id, "object": "response", "created_at": self._created, "status": status, "model": self._model}
        empty: dict[str, Any] = {"error": None, "incomplete_details": None, "instructions": None, "metadata": {}, "usage": None}
        fixed = {"parallel_tool_calls": False, "tool_choice": "none", "tools": [], "temperature": None, "top_p": None, "store": False}
        return head | {"output": []} | empty | fixed

    def _event(self, kind: str, **values: Any) -> str:
        event = {"type": kind, "sequence_number": self._n_events} | values
        self._n_events += 1
        return f"event: {kind}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n"


def _output_text(reply: ChatReply) -> dict[str, Any]:
    return {"type": "output_text", "text": reply.text, "annotations": reply.annotations, "logprobs": []}
