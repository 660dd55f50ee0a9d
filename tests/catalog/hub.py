"""A model hub on loopback, with faults: it breaks off, lies, serves other bytes, sends on."""

import json
import threading
from hashlib import sha1, sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    """Answers as the server's `hub` says."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        hub = self.server.hub
        hub.asked.append((self.path, self.headers.get("Range", ""), self.headers.get("Authorization", "")))
        if self.path.startswith("/api/"):
            self.tree(hub)
        elif hub.moved and not self.path.startswith("/there/"):
            self.answer(302, b"", Location=f"{hub.moved}/there{self.path}")
        elif hub.moved_to is not None:
            self.answer(302, b"", **hub.moved_to)
        elif hub.fails:
            hub.fails -= 1
            self.answer(503, b"")
        else:
            self.file(hub, hub.files[self.path.partition("/resolve/main/")[2]])

    def answer(self, status, body, **headers):
        self.send_response(status)
        for key, value in {"Content-Length": len(body), **headers}.items():
            self.send_header(key, str(value))
        self.end_headers()
        self.wfile.write(body)

    def tree(self, hub):
        if hub.gated:
            self.answer(401, b"")
        elif "/org/model-GGUF/" not in self.path:
            self.answer(404, b"")
        else:
            self.answer(200, json.dumps([hub.entry(*item) for item in hub.files.items()]).encode())

    def file(self, hub, data):
        wanted = "" if hub.ignores_range else self.headers.get("Range", "")
        begin = int(wanted.removeprefix("bytes=").rstrip("-") or 0)
        body = bytes(len(data) - begin) if hub.wrong else data[begin:]
        body = (body + b"more than was announced" * hub.longer)[: hub.hides or None]
        self.send_response(206 if begin else 200)
        if begin:
            self.send_header("Content-Range", f"bytes {begin}-{len(data) - 1}/{len(data)}")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: hub.stretch or None])
        self.close_connection = bool(hub.stretch)


class Hub:
    """Serves `files` (path → bytes) as the repository `org/model-GGUF`; what a test sets decides how.

    `asked` holds path, Range and Authorization of every request. After `stretch` bytes of an answer the connection ends; no answer has, or
    announces, more than `hides`; the next `fails` answers are 503; `moved` is the address that downloads are sent on to, `moved_to`
    the whole header of such an answer.
    """

    def __init__(self, files, name="127.0.0.1"):
        self.files, self.asked = files, []
        self.stretch = self.hides = self.fails = 0
        self.wrong = self.longer = self.ignores_range = self.git = self.gated = False
        self.moved, self.moved_to = "", None
        self.server = ThreadingHTTPServer((name, 0), type("Answers", (Handler,), {}))
        self.server.hub = self
        self.url = f"http://{name}:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def entry(self, path, data):
        if self.git:
            return {"type": "file", "path": path, "size": len(data), "oid": sha1(b"blob %d\0" % len(data) + data).hexdigest()}
        lfs = {"oid": sha256(data).hexdigest(), "size": len(data), "pointerSize": 130}
        return {"type": "file", "path": path, "size": len(data), "oid": "0" * 40, "lfs": lfs}

    def close(self):
        self.server.shutdown()
        self.server.server_close()
