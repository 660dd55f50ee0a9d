"""A server's life in one process that counts every attempt to reach beyond this machine: `python -m tests.served_life FOLDER [counted]`.

Counted by the kernel, it runs in a network namespace whose one interface is loopback.
"""

import fcntl
import json
import os
import signal
import socket
import struct
import sys
import threading
import time
from pathlib import Path

import httpx

from localrag.cli import app
from tests.conftest import write_town
from tests.life import counters, run

LOOPBACK = ("127.0.0.1", "::1", "localhost")
PORT = 18765
UP = 0x8914  # SIOCSIFFLAGS

attempts: list[str] = []


def watch(event, args):
    """Notes what reaches beyond loopback: connections, bound addresses, names that are looked up."""
    if event in ("socket.connect", "socket.bind", "socket.sendto", "socket.sendmsg"):
        address = args[1]
        if isinstance(address, tuple) and address[0] not in LOOPBACK:
            attempts.append(f"{event} {address}")
    elif event.startswith(("socket.getaddrinfo", "socket.gethost")) and args[0] not in LOOPBACK:
        attempts.append(f"{event} {args}")


def raise_loopback():
    """Switch on the one interface of a new namespace."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as link:
        fcntl.ioctl(link, UP, struct.pack("16sh22x", b"lo", 1 | 64))


def visit(folder: Path) -> list[str]:
    """What a person and programs do with a server; what was not answered well."""
    address = f"http://127.0.0.1:{PORT}"
    failed = []
    with httpx.Client(base_url=address, trust_env=False, timeout=300) as client:
        for _ in range(600):
            try:
                client.get("/healthz")
                break
            except httpx.TransportError:
                time.sleep(0.1)
        client.headers["authorization"] = f"Bearer {(folder / '.localrag' / 'serve.key').read_text().strip()}"

        def does(method, path, **kwargs):
            answer = client.request(method, path, **kwargs)
            if not answer.is_success:
                failed.append(f"{method} {path}: {answer.status_code} {answer.text[:300]}")
            return answer

        does("GET", "/")
        does("GET", "/static/app.js")
        for mode in ("auto", "mix", "global"):
            does("POST", "/api/ask", json={"question": "What is wrong with the Skua?", "mode": mode})
        does("POST", "/v1/chat/completions", json={"model": "localrag", "messages": [{"role": "user", "content": "Who is the mate?"}]})
        does("POST", "/v1/embeddings", json={"model": "localrag", "input": "ferry"})
        does("GET", "/api/search", params={"q": "渡轮漏水"})
        does("GET", "/api/graph.bin")
        question = "Who is the mate of the Skua?"
        lines = does("POST", "/api/tables/review", json={"questions": [question]}).text.splitlines()
        if json.loads(lines[-1])["event"] != "done":
            failed.append(f"the review: {lines[-1][:300]}")
        does("PUT", "/api/review/cell", json={"path": "docs/a.md", "question": question, "text": "Lars Holm"})
        does("PUT", "/api/files/new.txt", content=b"Ada Quill painted the Skua green. ![x](http://evil.example/x.png)")
        does("POST", "/api/index", json={})
        for _ in range(1200):
            if not client.get("/api/status").json()["run"]["ours"]:
                break
            time.sleep(0.1)
        if client.get("/api/documents", params={"q": "new.txt"}).json()["total"] != 1:
            failed.append("the file was not indexed")
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        asked = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
        does("POST", "/mcp", json=asked, headers={"accept": "application/json, text/event-stream"})
    return failed


def main() -> None:
    """Index, serve, visit."""
    folder, counted = Path(sys.argv[1]), len(sys.argv) > 2
    if counted:
        raise_loopback()
    sys.addaudithook(watch)
    write_town(folder / "docs")
    run("index", "docs", "--extractor", "phrases", "--quiet")
    failed: list[str] = []

    def visitor():
        failed.append("the visit broke off")
        try:
            failed[:] = visit(folder)
        finally:
            os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=visitor).start()
    app(["serve", "--no-open", "--port", str(PORT)], standalone_mode=False)
    if counted:
        beyond = {"Ip:OutNoRoutes", "Ip6OutNoRoutes", "Udp:OutDatagrams"}
        attempts.extend(f"{name}={value}" for name, value in counters().items() if name in beyond and value)
    sys.stdout.write(f"\nattempts: {attempts}\nfailed: {failed}\n")


if __name__ == "__main__":
    main()
