"""OpenAI's API (`/v1`): the index as a chat model whose answers carry citations, and as an embedding model.

Chat completions and the Responses API differ by their encoders. Nothing is kept between requests, so a response cannot refer to another.
"""

import asyncio
import base64
import json
import time
from collections.abc import Mapping
from functools import partial
from typing import Any
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from localrag.serve.auth import json_body
from localrag.serve.chat import ChatReply, chat_response
from localrag.serve.chat_request import MODEL_NAME, all_model_names, read_chat_request, split_model_name
from localrag.serve.context import ServerContext
from localrag.serve.values import read_bool, read_int

MAX_EMBEDDING_INPUTS = 2048  # of a request
SSE_MEDIA_TYPE = "text/event-stream"
KEEPALIVE_LINE = ": still there\n\n"
MESSAGE_TYPE = "message"
REFERENCES = ("previous_response_id", "conversation", "background", "prompt")  # parameters that need something kept on the server


def openai_routes(site: ServerContext) -> list[Route]:
    """The routes below `/v1`."""
    return [
        Route("/v1/models", partial(list_models_endpoint, site=site)),
        Route("/v1/models/{name:path}", partial(model_endpoint, site=site)),
        Route("/v1/chat/completions", partial(chat_endpoint, site=site), methods=["POST"]),
        Route("/v1/responses", partial(responses_endpoint, site=site), methods=["POST"]),
        Route("/v1/embeddings", partial(embeddings_endpoint, site=site), methods=["POST"]),
    ]


async def list_models_endpoint(request: Request, site: ServerContext) -> Response:
    """`GET /v1/models`: the index and each of its collections, in every mode."""
    del request
    return JSONResponse({"object": "list", "data": [_model(name) for name in await asyncio.to_thread(all_model_names, site)]})


async def model_endpoint(request: Request, site: ServerContext) -> Response:
    """`GET /v1/models/NAME`: one of them."""
    name = request.path_params["name"]
    await split_model_name(name, site)
    return JSONResponse(_model(name))


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "localrag"}


async def embeddings_endpoint(request: Request, site: ServerContext) -> Response:
    """`POST /v1/embeddings`: vectors as numbers or in base64, by the embedding model of the index, whatever model is named."""
    body = json_body(await request.body(), ["input"])
    if body.get("encoding_format") not in (None, "float", "base64"):
        raise ValueError("`encoding_format` is float or base64.")
    vectors, counts = await embed_input(body, "input", site)
    packed = body.get("encoding_format") == "base64"
    data = [
        {"object": "embedding", "index": n, "embedding": base64.b64encode(v.astype("<f4").tobytes()).decode() if packed else v.tolist()}
        for n, v in enumerate(vectors)
    ]
    usage = {"prompt_tokens": sum(counts), "total_tokens": sum(counts)}
    return JSONResponse({"object": "list", "data": data, "model": str(body.get("model", MODEL_NAME)), "usage": usage})


async def embed_input(body: Mapping[str, Any], name: str, site: ServerContext) -> tuple[NDArray[np.float32], list[int]]:
    """The vectors of the texts of a request, (n, d), and their numbers of tokens. Raises ValueError."""
    texts = [body[name]] if isinstance(body[name], str) else body[name]
    if isinstance(texts, list) and any(isinstance(part, int) for text in texts for part in (text if isinstance(text, list) else [text])):
        raise ValueError(
            f"`{name}` has tokens of another model: send texts. In LangChain: OpenAIEmbeddings(check_embedding_ctx_length=False)"
        )
    if not isinstance(texts, list) or not texts or not all(isinstance(t, str) and t for t in texts) or len(texts) > MAX_EMBEDDING_INPUTS:
        raise ValueError(f"`{name}` is a text, or a list of 1 to {MAX_EMBEDDING_INPUTS} texts.")
    vectors, counts = np.asarray(await site.query_worker.embed(texts), np.float32), await site.query_worker.count(texts)
    if body.get("dimensions") is not None and read_int("dimensions", body["dimensions"]) != vectors.shape[1]:
        raise ValueError(f"The embedding model of this index has {vectors.shape[1]} dimensions: leave out `dimensions`.")
    return vectors, counts


async def chat_endpoint(request: Request, site: ServerContext) -> Response:
    """`POST /v1/chat/completions`: one response, or a stream of checked sentences."""
    body = await asyncio.to_thread(json_body, await request.body(), ["messages"])
    chat = await read_chat_request(body, site)
    is_stream, options = read_bool("stream", body.get("stream")), body.get("stream_options")
    has_usage = is_stream and isinstance(options, dict) and read_bool("include_usage", options.get("include_usage"))
    encoder = CompletionEncoder(chat.model, has_usage=has_usage)
    return await chat_response(chat, site, request, encoder, SSE_MEDIA_TYPE, is_stream=is_stream)


class CompletionEncoder:
    """Encodes one chat completion: an object, or chunks of a stream, the last with the numbers of tokens if `has_usage`."""

    def __init__(self, model: str, *, has_usage: bool = False) -> None:
        self._model, self._has_usage = model, has_usage
        self._id, self._created = f"chatcmpl-{uuid4().hex}", int(time.time())

    def opening(self) -> list[str]:
        """The chunk that names the role."""
        return [self._chunk({"role": "assistant", "content": ""})]

    def part(self, kind: str, value: Any) -> str:
        """A chunk with text, or with a status as a thought; a comment while there is nothing to tell."""
        if kind == "waiting":
            return KEEPALIVE_LINE
        return self._chunk({"content": value} if kind == "text" else {"reasoning_content": f"{value}\n"})

    def closing(self, reply: ChatReply) -> list[str]:
        """The annotations, the reason of the end with the sources, and the usage."""
        ends = [self._chunk({"annotations": _annotations(reply)})] if reply.annotations else []
        ends.append(self._chunk({}, finish=reply.finish, **reply.sources))
        ends += [_event(self._head() | {"choices": [], "usage": _usage(reply)})] if self._has_usage else []
        return [*ends, "data: [DONE]\n\n"]

    def failed(self, error: Mapping[str, Any]) -> str:
        """The error as an event."""
        return _event({"error": error})

    def whole(self, reply: ChatReply) -> dict[str, Any]:
        """The whole answer as one object."""
        message = {"role": "assistant", "content": reply.text, "refusal": None, "annotations": _annotations(reply)}
        choice = {"index": 0, "message": message, "finish_reason": reply.finish, "logprobs": None}
        return self._head() | {"object": "chat.completion", "choices": [choice], "usage": _usage(reply)} | reply.sources

    def _head(self) -> dict[str, Any]:
        return {"id": self._id, "object": "chat.completion.chunk", "created": self._created, "model": self._model}

    def _chunk(self, delta: dict[str, Any], finish: str | None = None, **rest: Any) -> str:
        return _event(self._head() | {"choices": [{"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}]} | rest)


def _event(value: dict[str, Any]) -> str:
    """A server-sent event."""
    return f"data: {json.dumps(value, ensure_ascii=False)}\n\n"


def _annotations(reply: ChatReply) -> list[dict[str, Any]]:
    """OpenAI's annotations of a chat completion, whose fields are one level deeper."""
    return [{"type": note["type"], note["type"]: {k: v for k, v in note.items() if k != "type"}} for note in reply.annotations]


def _usage(reply: ChatReply) -> dict[str, int]:
    total = reply.prompt_tokens + reply.output_tokens
    return {"prompt_tokens": reply.prompt_tokens, "completion_tokens": reply.output_tokens, "total_tokens": total}


async def responses_endpoint(request: Request, site: ServerContext) -> Response:
    """`POST /v1/responses`: one response, or a stream of typed events."""
    body = await asyncio.to_thread(json_body, await request.body(), ["input"])
    chat = await read_chat_request(_body_of_completion(body), site)
    is_stream = read_bool("stream", body.get("stream"))
    return await chat_response(chat, site, request, ResponsesEncoder(chat.model), SSE_MEDIA_TYPE, is_stream=is_stream)


def _body_of_completion(body: Mapping[str, Any]) -> dict[str, Any]:
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
    return {name: body.get(name) for name in ("model", "tool_choice", "seed", "filter", "where")} | more


class ResponsesEncoder:
    """Encodes one response of the Responses API: an object, or the numbered events of a stream."""

    def __init__(self, model: str) -> None:
        self._model, self._created = model, int(time.time())
        self._id, self._item_id = f"resp_{uuid4().hex}", f"msg_{uuid4().hex}"
        self._n_events = 0

    def whole(self, reply: ChatReply) -> dict[str, Any]:
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
            self._part_event("response.content_part.added", part={"type": "output_text", "text": "", "annotations": [], "logprobs": []}),
        ]

    def part(self, kind: str, value: Any) -> str:
        """An event with text; a comment while there is nothing to tell."""
        if kind == "text":
            return self._part_event("response.output_text.delta", delta=value, logprobs=[])
        return KEEPALIVE_LINE if kind == "waiting" else ""

    def _part_event(self, kind: str, **values: Any) -> str:
        """An event of the one part of the one message."""
        return self._event(kind, item_id=self._item_id, output_index=0, content_index=0, **values)

    def closing(self, reply: ChatReply) -> list[str]:
        """The events behind the last part of the text."""
        response = self.whole(reply)
        notes = enumerate(reply.annotations)
        return [
            *(self._part_event("response.output_text.annotation.added", annotation_index=n, annotation=note) for n, note in notes),
            self._part_event("response.output_text.done", text=reply.text, logprobs=[]),
            self._part_event("response.content_part.done", part=_output_text(reply)),
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
