"""Servers on loopback that say what a test wants them to say, over real HTTP."""

import contextlib
import json
import re
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path


class Server:
    """An OpenAI-compatible server; `answer(body)` gives the content of its reply, a status, its raw bytes, or a function of the handler.

    `gets`: what it tells at other addresses. `port`: to come back where another was. `certificate`: (certificate, key) files, for https.
    """

    def __init__(self, answer, gets=None, port=0, certificate=None):
        self.bodies, self.headers, self.asked, self.posted, self.under_way, self.most = [], [], [], [], 0, 0
        lock, outer = threading.Lock(), self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                outer.asked.append(self.path)
                told = (gets or {}).get(self.path)
                told = told() if callable(told) else told
                reply(self, 404 if told is None else 200, json.dumps(told).encode())

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.posted.append(self.path)
                if not self.path.endswith("/chat/completions"):
                    told = (gets or {}).get(self.path)
                    return reply(self, 404 if told is None else 200, json.dumps(told and told(body)).encode())
                with lock:
                    outer.bodies.append(body)
                    outer.headers.append(dict(self.headers))
                    outer.under_way += 1
                    outer.most = max(outer.most, outer.under_way)
                try:
                    said = answer(body)
                    return said(self) if callable(said) else self.say(said)
                finally:
                    with lock:
                        outer.under_way -= 1

            def say(self, said):
                if isinstance(said, bytes):
                    return reply(self, 200, said)
                if isinstance(said, int):
                    return reply(self, said, b"{}", Location="http://192.0.2.1/")
                return reply(self, 200, json.dumps(answered(said)).encode())

            def log_message(self, *_):
                pass

        ThreadingHTTPServer.allow_reuse_address = True
        ThreadingHTTPServer.daemon_threads = True
        self._http = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._http.handle_error = lambda *_: None
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            self._http.socket = context.wrap_socket(self._http.socket, server_side=True)
        self.port = self._http.server_port
        self.url = f"http{'s' if certificate else ''}://127.0.0.1:{self.port}/v1"
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()

    def close(self):
        self._http.shutdown()
        self._http.server_close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def reply(handler, status, data, **headers):
    """An answer with its length; the connection ends with it."""
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.send_header("Content-Length", str(len(data)))
    handler.end_headers()
    handler.wfile.write(data)


def answered(said, ended="stop"):
    """A completion as servers write it."""
    return {
        "choices": [{"message": {"content": said}, "finish_reason": ended}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 4},
    }


def event(text):
    """A stretch of a streamed answer."""
    return b"data: " + json.dumps({"choices": [{"delta": {"content": text}, "finish_reason": None}]}).encode() + b"\n\n"


def refusal(status, message, kind="invalid_request_error", **headers):
    """An error as OpenAI-compatible servers describe it."""
    data = json.dumps({"error": {"code": status, "message": message, "type": kind}}).encode()
    return lambda handler: reply(handler, status, data, **headers)


def llama(name="smol.gguf", slots=2, window=2048, **meta):
    """What a llama-server tells of itself (seen at b0-unknown of xllamacpp 2026.10), with the model's own numbers."""
    shape = {"vocab_type": 2, "n_vocab": 49152, "n_ctx_train": 8192, "n_embd": 576, "n_params": 134515008, "size": 96576768} | meta
    return {
        "/v1/models": {"data": [{"id": f"/models/{name}", "owned_by": "llamacpp", "meta": shape}]},
        "/props": {"total_slots": slots, "model_path": f"/models/{name}", "default_generation_settings": {"n_ctx": window}},
        "/tokenize": lambda body: {"tokens": list(range(len(body["content"].split())))},
    }


class LlamaServer:
    """llama.cpp's own server with a model, in a process of its own, which can be killed and started again at its port."""

    def __init__(self, model, *, slots, window):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        script = Path(__file__).with_name("llama_server.py")
        self.command = [sys.executable, *map(str, (script, model, port, slots, window))]
        self.root = f"http://127.0.0.1:{port}"
        self.url = f"{self.root}/v1"
        self.start()

    def start(self):
        """Start it, and wait until it answers."""
        self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while not self.get("/health"):
            assert self.process.poll() is None
            time.sleep(0.1)

    def get(self, path):
        """What it tells; None while it does not."""
        with contextlib.suppress(OSError):
            return json.load(urllib.request.urlopen(self.root + path, timeout=10))

    def kill(self):
        """SIGKILL: what it computed is lost, its connections break."""
        self.process.kill()
        self.process.wait()


def stream(*deltas, ended="stop", usage=None, done=True):
    """A streamed answer of these deltas (a text, or a message's fields), with its finish reason, its usage and the end of the stream."""
    events = [{"choices": [{"index": 0, "delta": d if isinstance(d, dict) else {"content": d}, "finish_reason": None}]} for d in deltas]
    events += [{"choices": [{"index": 0, "delta": {}, "finish_reason": ended}]}] * bool(ended)
    events += [{"choices": [], "usage": usage}] * bool(usage)
    return b"".join(b"data: " + json.dumps(e).encode() + b"\n\n" for e in events) + b"data: [DONE]\n\n" * done


def schema_of(body):
    """The properties of the JSON schema of a request; none if it has no schema."""
    return body.get("response_format", {}).get("json_schema", {}).get("schema", {}).get("properties", {})


def size_of(body):
    """The tokens of a request, as a server counts them: one for four characters."""
    return sum(len(m["content"]) for m in body["messages"]) // 4 + (body.get("max_tokens") or 0)


def with_window(window, answer, refuse):
    """An answerer with a window: `refuse(size)` answers requests beyond it."""
    return lambda body: answer(body) if (size := size_of(body)) <= window else refuse(size)


def writes_of_the_town(body):
    """What a model that obeys its prompt but no schema writes: JSON lines of capitalised names, and a report in a code block."""
    told, asked = body["messages"][0]["content"], body["messages"][-1]["content"]
    if asked.startswith("From: "):
        names = dict.fromkeys(re.findall(r"[A-Z]\w+(?: [A-Z]\w+)*", asked.split("Text:\n")[1].split("\n\nAnswer with JSON")[0]))
        return "\n".join(json.dumps({"name": n, "type": "place", "description": f"{n} is named in the text"}) for n in names)
    if "are related" in asked:
        names = [row["name"] for row in json.loads(body["messages"][-2]["content"])["items"]]
        rows = [{"source": a, "target": b, "description": f"{a} is near {b}", "strength": 5} for a, b in pairwise(names)]
        return "\n".join(map(json.dumps, rows))
    if "Answer with one JSON object" in told:
        finding = {"summary": "They belong together", "explanation": "They are named together.", "evidence": ["E1"]}
        report = {"title": "The town", "summary": "The town and its people.", "findings": [finding]}
        return "Here it is:\n```json\n" + json.dumps(report | {"rating_explanation": "A small town.", "rating": "7/10"}, indent=1) + "\n```"
    return "Ingrid Holm bought the ferry Skua. [1]"


class Dripping(Server):
    """A llama-server that answers the addresses of `slow` with a part every 0.2 s and no end: headers, spaces, comments, or a text."""

    def __init__(self, slow, form="spaces"):
        self.form, self.begun = form, threading.Event()
        super().__init__(lambda _: "The town bought the ferry.", gets=llama())
        handler = self._http.RequestHandlerClass
        usual = handler.parse_request
        handler.parse_request = lambda request: usual(request) and (request.path not in slow or self.drip(request))

    def drip(self, handler):
        """An answer without an end."""
        self.begun.set()
        handler.send_response(200)
        if self.form != "headers":
            handler.send_header("content-type", "application/json")
            handler.end_headers()
        part = {"headers": b"x-more: 1\r\n", "spaces": b" ", "comments": b": still there\n\n", "text": event("so ")}[self.form]
        handler.flush_headers()
        with contextlib.suppress(OSError):
            while True:
                handler.wfile.write(part)
                time.sleep(0.2)
