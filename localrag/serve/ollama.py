"""Ollama's API (`/api/chat`, `/api/generate` and so on): the same questions and answers as JSON lines. A client has to send the key."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from functools import wraps
from hashlib import sha256
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from localrag import __version__
from localrag.serve.auth import json_body
from localrag.serve.chat import ChatReply, chat_response
from localrag.serve.chat_request import MODEL_NAME, all_model_names, read_chat_request, split_model_name
from localrag.serve.context import ServerContext, error_response
from localrag.serve.openai import embed_input
from localrag.serve.values import read_bool

DEFAULT_TAG = ":latest"  # that Ollama's clients append to a name without one
FIXED_AT = "1970-01-01T00:00:00Z"  # models have no time of change
DETAILS = {
    "parent_model": "",
    "format": "localrag",
    "family": "localrag",
    "families": ["localrag"],
    "parameter_size": "",
    "quantization_level": "",
}
Endpoint = Callable[[Request, ServerContext], Awaitable[Response]]


def ollama_routes(site: ServerContext) -> list[Route]:
    """The routes of Ollama's API, whose errors are texts."""
    return [
        Route("/api/tags", _with_text_errors(tags_endpoint, site)),
        Route("/api/version", _with_text_errors(version_endpoint, site)),
        Route("/api/show", _with_text_errors(show_endpoint, site), methods=["POST"]),
        Route("/api/ps", _with_text_errors(loaded_endpoint, site)),
        Route("/api/chat", _with_text_errors(chat_endpoint, site), methods=["POST"]),
        Route("/api/generate", _with_text_errors(chat_endpoint, site), methods=["POST"]),
        Route("/api/embed", _with_text_errors(embed_endpoint, site), methods=["POST"]),
    ]


def _with_text_errors(endpoint: Endpoint, site: ServerContext) -> Callable[[Request], Awaitable[Response]]:
    @wraps(endpoint)
    async def handled(request: Request) -> Response:
        try:
            return await endpoint(request, site)
        except Exception as failed:  # noqa: BLE001 — any failure becomes an error response, and the server keeps running
            response = error_response(failed)
            return JSONResponse({"error": _error_text(json.loads(bytes(response.body))["error"])}, response.status_code)

    return handled


def _error_text(error: Mapping[str, Any]) -> str:
    return " ".join(filter(None, (error["message"], error["hint"])))


async def version_endpoint(_request: Request, _site: ServerContext) -> Response:
    """`GET /api/version`: the version of localrag."""
    return JSONResponse({"version": __version__})


async def tags_endpoint(_request: Request, site: ServerContext) -> Response:
    """`GET /api/tags`: the index and each of its collections, in every mode."""
    names = await asyncio.to_thread(all_model_names, site)
    return JSONResponse({"models": [_model(name) for name in names]})


async def loaded_endpoint(_request: Request, _site: ServerContext) -> Response:
    """`GET /api/ps`: the index, which is always loaded."""
    return JSONResponse({"models": [_model(MODEL_NAME) | {"size_vram": 0, "expires_at": "9999-12-31T23:59:59Z"}]})


async def embed_endpoint(request: Request, site: ServerContext) -> Response:
    """`POST /api/embed`: vectors by the embedding model of the index, whatever model is named."""
    body, started_at = await asyncio.to_thread(json_body, await request.body(), ["input"]), time.monotonic()
    vectors, counts = await embed_input(body, site)
    more = {"total_duration": int((time.monotonic() - started_at) * 1e9), "load_duration": 0, "prompt_eval_count": sum(counts)}
    return JSONResponse({"model": str(body.get("model", MODEL_NAME)), "embeddings": vectors.tolist()} | more)


def _model(name: str) -> dict[str, Any]:
    digest = sha256(name.encode()).hexdigest()
    return {"name": name, "model": name, "modified_at": FIXED_AT, "size": 0, "digest": digest, "details": DETAILS}


async def show_endpoint(request: Request, site: ServerContext) -> Response:
    """`POST /api/show`: what a model can do."""
    body = json_body(await request.body())
    await split_model_name(_model_name(body.get("model") or body.get("name")), site)
    model_info = {"general.architecture": "localrag"}
    more = {"modelfile": "", "parameters": "", "template": "", "license": "", "modified_at": FIXED_AT}
    return JSONResponse({"details": DETAILS, "model_info": model_info, "capabilities": ["completion"]} | more)


async def chat_endpoint(request: Request, site: ServerContext) -> Response:
    """`POST /api/chat` and `/api/generate`: one response, or, unless `stream` is false, a stream of checked sentences."""
    body, started_at = await asyncio.to_thread(json_body, await request.body(), ["model"]), time.monotonic()
    shows_status = bool(body.get("think")) and str(body["think"]).casefold() != "false"
    is_chat = request.url.path == "/api/chat"
    encoder = LineEncoder(str(body["model"]), started_at, shows_status=shows_status, is_chat=is_chat)
    if not is_chat:
        texts = {"system": body.get("system"), "user": body.get("prompt")}
        body["messages"] = [{"role": role, "content": text} for role, text in texts.items() if text] if texts["user"] else []
    if not body.get("messages"):  # how its clients load a model
        await split_model_name(_model_name(body["model"]), site)
        return JSONResponse(encoder.line() | {"done": True, "done_reason": "load"})
    chat = await read_chat_request(_chat_body(body), site)
    is_stream = body.get("stream") is None or read_bool("stream", body["stream"])
    return await chat_response(chat, site, request, encoder, "application/x-ndjson", is_stream=is_stream)


def _model_name(name: Any) -> Any:
    return name.removesuffix(DEFAULT_TAG) if isinstance(name, str) else name


def _chat_body(body: Mapping[str, Any]) -> dict[str, Any]:
    given = body.get("options")
    options = given if isinstance(given, dict) else {}
    wanted = body.get("format")
    more: dict[str, Any] = {"model": _model_name(body["model"]), "messages": body["messages"]}
    more |= {"stop": options.get("stop") or None, "seed": options.get("seed"), "max_tokens": options.get("num_predict")}
    more["response_format"] = {"type": "json_schema", "schema": wanted} if isinstance(wanted, dict) else _named_format(wanted)
    return more | {name: body.get(name) for name in ("filter", "where")}


def _named_format(wanted: Any) -> dict[str, Any] | None:
    if wanted in (None, ""):
        return None
    if wanted == "json":
        return {"type": "json_object"}
    raise ValueError("`format` is json or a JSON schema.")


def _json_line(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False) + "\n"


class LineEncoder:
    """Encodes one response as JSON lines; `shows_status`: with the steps of the answer as thoughts; `is_chat`: as messages."""

    def __init__(self, model: str, started_at: float, *, shows_status: bool, is_chat: bool) -> None:
        self._model, self._started_at, self._shows_status, self._is_chat = model, started_at, shows_status, is_chat

    def opening(self) -> list[str]:
        """Nothing."""
        return []

    def part(self, kind: str, value: Any) -> str:
        """A line with text or a thought; one without either while there is nothing to tell, since a client parses every line."""
        if kind == "status":
            return _json_line(self.line(thinking=f"{value}\n")) if self._shows_status else ""
        return _json_line(self.line(value or ""))

    def closing(self, reply: ChatReply) -> list[str]:
        """The last line."""
        return [_json_line(self.line() | self._end(reply))]

    def failed(self, error: Mapping[str, Any]) -> str:
        """The error as a line."""
        return _json_line({"error": _error_text(error)})

    def whole(self, reply: ChatReply) -> dict[str, Any]:
        """The whole answer as one object."""
        return self.line(reply.text) | self._end(reply)

    def line(self, text: str = "", thinking: str = "") -> dict[str, Any]:
        """A part of the answer."""
        said: dict[str, Any] = {"thinking": thinking} if thinking else {}
        said = {"message": {"role": "assistant", "content": text} | said} if self._is_chat else {"response": text} | said
        return {"model": self._model, "created_at": datetime.now(UTC).isoformat(), "done": False} | said

    def _end(self, reply: ChatReply) -> dict[str, Any]:
        nanoseconds = int((time.monotonic() - self._started_at) * 1e9)
        counts = {"prompt_eval_count": reply.prompt_tokens, "eval_count": reply.output_tokens}
        durations = {"total_duration": nanoseconds, "load_duration": 0, "prompt_eval_duration": 0, "eval_duration": nanoseconds}
        return {"done": True, "done_reason": reply.finish} | durations | counts | reply.sources
