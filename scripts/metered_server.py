"""A chat model and the bundled embedder behind one OpenAI-compatible server on this machine, which counts what every client spends.

    python -m scripts.metered_server MODEL.gguf PORT [--log CALLS.jsonl] [--server xllamacpp | llama-cpp-python]

It starts a llama.cpp server for the chat model and passes every request on to it, but for `/v1/embeddings`, which it answers
itself. Answers are greedy and have at most MAX_TOKENS, whatever a client asks for, so that clients differ in nothing but their prompts.
`GET /spent` returns the calls, tokens and seconds so far.
"""

import argparse
import json
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from localrag.engine.embedder import open_embedder
from localrag.model_files import find_embedder

MAX_TOKENS = 1000
SLOTS, CONTEXT = 2, 16384
SERVER = """
import os, sys, time, xllamacpp
parent = os.getppid()
p = xllamacpp.CommonParams()
p.model.path = sys.argv[1]
p.hostnames, p.port = ["127.0.0.1"], int(sys.argv[2])
p.n_parallel, p.n_ctx = int(sys.argv[3]), int(sys.argv[3]) * int(sys.argv[4])
p.no_extra_bufts, p.warmup = True, False
p.cpuparams.n_threads = 2
server = xllamacpp.Server(p)
while os.getppid() == parent:  # it ends with the server in front of it
    time.sleep(1)
"""


def command_of(server: str, model: str, port: int) -> list[str]:
    """The command that starts a server; that of llama-cpp-python answers one request at a time, and its streams tell no tokens."""
    if server == "xllamacpp":
        return [sys.executable, "-c", SERVER, model, str(port), str(SLOTS), str(CONTEXT)]
    options = {"model": model, "port": port, "n_ctx": CONTEXT, "n_threads": 2, "interrupt_requests": False}
    return [sys.executable, "-m", "llama_cpp.server", *(str(part) for name, value in options.items() for part in (f"--{name}", value))]


def _older_schema(form: dict[str, Any]) -> dict[str, Any]:
    """A `response_format` with a JSON schema in the form that both servers take."""
    schema = form.get("json_schema", {}).get("schema")
    return {"response_format": {"type": "json_object", "schema": schema}} if schema else {}


class Meter:
    """Counts calls, tokens and the seconds in which at least one call was in progress."""

    def __init__(self, log: Path | None) -> None:
        self.spent = {"calls": 0, "prompt_tokens": 0, "output_tokens": 0, "embedded": 0, "seconds": 0.0}
        self._log, self._running, self._since = log, 0, 0.0

    def begin(self) -> None:
        self._since = time.perf_counter() if not self._running else self._since
        self._running += 1

    def end(self, asked: dict[str, Any], answer: str, usage: dict[str, Any]) -> None:
        self._running -= 1
        self.spent["seconds"] += time.perf_counter() - self._since if not self._running else 0
        self.spent["calls"] += 1
        self.spent["prompt_tokens"] += usage.get("prompt_tokens", 0)
        self.spent["output_tokens"] += usage.get("completion_tokens", 0)
        if self._log:
            with self._log.open("a") as f:
                f.write(json.dumps({"asked": asked.get("messages"), "answer": answer, "usage": usage}, ensure_ascii=False) + "\n")


def app_of(upstream: str, meter: Meter) -> Starlette:
    """The server: embeddings are computed here, everything else by the server at `upstream`."""
    client = httpx.AsyncClient(base_url=upstream, timeout=None)
    embedder = open_embedder(find_embedder())

    async def embeddings(request: Request) -> Response:
        texts = (await request.json())["input"]
        texts = [texts] if isinstance(texts, str) else texts
        meter.spent["embedded"] += len(texts)
        vectors = embedder.embed([text or " " for text in texts])
        data = [{"object": "embedding", "index": n, "embedding": v.tolist()} for n, v in enumerate(vectors)]
        return JSONResponse({"object": "list", "data": data, "model": "minilm", "usage": {"prompt_tokens": 0, "total_tokens": 0}})

    async def chat(request: Request) -> Response:
        asked = await request.json()
        limit = min(MAX_TOKENS, asked.pop("max_completion_tokens", None) or asked.get("max_tokens") or MAX_TOKENS)
        sent = asked | {"temperature": 0, "max_tokens": limit} | _older_schema(asked.get("response_format") or {})
        if asked.get("stream"):
            return StreamingResponse(_streamed(asked, sent | {"stream_options": {"include_usage": True}}), media_type="text/event-stream")
        meter.begin()
        answer = await client.post("/v1/chat/completions", json=sent)
        body = answer.json() if answer.status_code == httpx.codes.OK else {}
        text = body["choices"][0]["message"].get("content") or "" if body else answer.text
        meter.end(asked, text, body.get("usage", {}))
        return Response(answer.content, answer.status_code, media_type="application/json")

    async def _streamed(asked: dict[str, Any], sent: dict[str, Any]) -> AsyncIterator[bytes]:
        text, usage = "", {}
        meter.begin()
        try:
            async with client.stream("POST", "/v1/chat/completions", json=sent) as answer:
                async for line in answer.aiter_lines():
                    yield f"{line}\n".encode()
                    if line.startswith("data: {"):
                        part = json.loads(line[6:])
                        usage = part.get("usage") or usage
                        text += "".join(c["delta"].get("content") or "" for c in part.get("choices", []))
        finally:
            meter.end(asked, text, usage)

    async def other(request: Request) -> Response:
        answer = await client.request(request.method, request.url.path, content=await request.body())
        return Response(answer.content, answer.status_code, media_type=answer.headers.get("content-type"))

    async def spent(_: Request) -> Response:
        return JSONResponse(meter.spent)

    return Starlette(
        routes=[
            Route("/spent", spent),
            Route("/v1/embeddings", embeddings, methods=["POST"]),
            *(Route(f"{root}/chat/completions", chat, methods=["POST"]) for root in ("", "/v1")),
            Route("/{path:path}", other, methods=["GET", "POST"]),
        ]
    )


def main() -> None:
    """Start both servers and wait."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("port", type=int)
    parser.add_argument("--log", type=Path)
    parser.add_argument("--server", choices=["xllamacpp", "llama-cpp-python"], default="xllamacpp")
    args = parser.parse_args()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        inner = free.getsockname()[1]
    server = subprocess.Popen(command_of(args.server, args.model, inner))
    try:
        uvicorn.run(app_of(f"http://127.0.0.1:{inner}", Meter(args.log)), host="127.0.0.1", port=args.port, log_level="warning")
    finally:
        server.kill()


if __name__ == "__main__":
    main()
