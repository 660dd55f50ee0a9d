"""OpenAI's API (`/v1`): the index as a chat model whose answers carry citations, and as an embedding model."""

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


def openai_routes(site: ServerContext) -> list[Route]:
    """The routes below `/v1`."""
    return [
        Route("/v1/models", partial(list_models_endpoint, site=site)),
        Route("/v1/models/{name:path}", partial(model_endpoint, site=site)),
        Route("/v1/chat/completions", partial(chat_endpoint, site=site), methods=["POST"]),
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
    vectors, counts = await embed_input(body, site)
    packed = body.get("encoding_format") == "base64"
    data = [
        {"object": "embedding", "index": n, "embedding": base64.b64encode(v.astype("<f4").tobytes()).decode() if packed else v.tolist()}
        for n, v in enumerate(vectors)
    ]
    usage = {"prompt_tokens": sum(counts), "total_tokens": sum(counts)}
    return JSONResponse({"object": "list", "data": data, "model": str(body.get("model", MODEL_NAME)), "usage": usage})


async def embed_input(body: Mapping[str, Any], site: ServerContext) -> tuple[NDArray[np.float32], list[int]]:
    """The vectors of the texts of a request, (n, d), and their numbers of tokens. Raises ValueError."""
    texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
    if isinstance(texts, list) and any(isinstance(part, int) for text in texts for part in (text if isinstance(text, list) else [text])):
        hint = "In LangChain: OpenAIEmbeddings(check_embedding_ctx_length=False)"
        raise ValueError(f"`input` has tokens of another model: send texts. {hint}")
    if not isinstance(texts, list) or not texts or not all(isinstance(t, str) and t for t in texts) or len(texts) > MAX_EMBEDDING_INPUTS:
        raise ValueError(f"`input` is a text, or a list of 1 to {MAX_EMBEDDING_INPUTS} texts.")
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
    return f"data: {json.dumps(value, ensure_ascii=False)}\n\n"


def _annotations(reply: ChatReply) -> list[dict[str, Any]]:
    """OpenAI's annotations of a chat completion, whose fields are one level deeper."""
    return [{"type": note["type"], note["type"]: {k: v for k, v in note.items() if k != "type"}} for note in reply.annotations]


def _usage(reply: ChatReply) -> dict[str, int]:
    total = reply.prompt_tokens + reply.output_tokens
    return {"prompt_tokens": reply.prompt_tokens, "completion_tokens": reply.output_tokens, "total_tokens": total}
