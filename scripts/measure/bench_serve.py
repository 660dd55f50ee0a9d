"""`localrag serve`, measured against its goals: the start, the page, questions, sources, many questions while it indexes.

    python -m scripts.measure.bench_serve
    python -m scripts.measure.bench_serve --only page load    # parts of it: start, page, questions, documents, load

The index is that of the demo, without a chat model (`--extractor phrases`), and a text of 10 MB. The browser is LOCALRAG_TEST_CHROMIUM or
the `chromium` of the PATH.
"""

import argparse
import asyncio
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import httpx

from localrag.project import open_for_writing
from localrag.records import Document, content_id
from localrag.store import documents as documents_store
from localrag.store import generations
from tests.serve.browser import chromium, opened
from tests.serve.server import Served, served

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

GOALS = {
    "listening, s": 1,
    "first status, s": 0.1,
    "first paint, s": 0.3,
    "page, KB": 200,
    "requests to other servers": 0,
    "first checked sentence, basic, s": 1.5,
    "first checked sentence, mix, s": 1.5,
    "stop until the engine is idle, s": 0.5,
    "source, s": 0.1,
    "window of a text of 10 MB, s": 0.3,
    "names as one types, s": 0.05,
    "50 questions while indexing: lost": 0,
    "50 questions while indexing: p95, s": None,
}
QUESTION = "Why did the women of the Net Loft stop their work?"


def indexed(folder: Path, *, long: bool = True) -> Path:
    """The demo's documents, indexed, and perhaps a long one that is only stored: it is looked at, not found."""
    shutil.copytree(ROOT / "localrag" / "demo" / "corpus", folder / "docs")
    localrag(folder, "index", "docs", "--extractor", "phrases", "-q")
    if not long:
        return folder
    text = "".join(f"Line {n} of the long log says that nothing happened.\n" for n in range(200_000))
    document = Document(content_id("long.txt", content_id(text)), "docs/long.txt", "long", text, content_id(text))
    with open_for_writing(folder / ".localrag", extractor="phrases") as project:
        documents_store.save_document(project.db, document, [])
        generations.publish(project.db)
    return folder


def localrag(folder: Path, *args: str) -> None:
    subprocess.run([sys.executable, "-m", "localrag", *args], cwd=folder, check=True)


def taken(work: Callable[[], Any], times: int = 5) -> float:
    """The median of the seconds that something takes."""
    found = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        found.append(time.perf_counter() - began)
    return median(found)


def start(folder: Path) -> dict[str, float]:
    """From the command to the first connection that is taken, and to the first state that is shown."""
    began = time.perf_counter()
    with served(folder) as server, server.client() as client:
        listening = time.perf_counter() - began
        client.get("/healthz").raise_for_status()
        return {"listening, s": listening, "first status, s": taken(lambda: client.get("/api/status"), 1)}


def page(folder: Path) -> dict[str, float]:
    """The first picture of the page, its size, and whom it asks."""
    with ExitStack() as stack:
        server = stack.enter_context(served(folder))
        browser = stack.enter_context(chromium())
        shown, heard = stack.enter_context(opened(browser, server))
        shown.reload()
        shown.locator("nav").first.wait_for()
        paint = shown.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime") / 1000
        files = {url for url in heard.requests if "/api/" not in url}
        with server.client() as client:
            size = sum(len(client.get(url).content) for url in files) / 1000
        return {"first paint, s": paint, "page, KB": size, "requests to other servers": len(heard.external_hosts(server.address))}


def events(client: httpx.Client, mode: str) -> Iterator[dict[str, Any]]:
    """What comes of a question to the page's door."""
    with client.stream("POST", "/api/ask", json={"question": QUESTION, "mode": mode}) as stream:
        yield from (json.loads(line) for line in stream.iter_lines() if line.strip())


def questions(folder: Path) -> dict[str, float]:
    """Seconds to the first sentence that was checked, and from stopping a question that a model writes to the engine's rest."""
    found = {}
    with served(folder) as server, server.client() as client:
        list(events(client, "basic"))  # the models are read from disk
        for mode in ("basic", "mix"):

            def first(mode: str = mode) -> None:
                next(event for event in events(client, mode) if event["event"] == "text")

            found[f"first checked sentence, {mode}, s"] = taken(first)
    with served(written(folder)) as server, server.client() as client:
        idle: list[float] = []
        for _ in range(3):
            for event in events(client, "mix"):
                if event["event"] == "draft":
                    break
            began = time.perf_counter()  # the stream is closed
            while client.get("/api/status").json()["questions"]["active"]:
                time.sleep(0.01)
            idle.append(time.perf_counter() - began)
        found["stop until the engine is idle, s"] = median(idle)
    return found


def written(folder: Path) -> Path:
    """A copy of the index whose answers a model writes."""
    copy = shutil.copytree(folder, folder.parent / "written")
    import sqlite3

    with sqlite3.connect(copy / ".localrag" / "index.db") as db:
        db.execute("UPDATE index_settings SET value = json_set(value, '$.style', 'abstractive') WHERE key = 'settings'")
    return copy


def documents(folder: Path) -> dict[str, float]:
    """A citation with its surroundings, a stretch of a long text, names while they are typed."""
    with served(folder) as server, server.client() as client:
        answer = next(event for event in events(client, "basic") if event["event"] == "done")["answer"]
        long = next(d["id"] for d in client.get("/api/documents", params={"q": "long"}).json()["documents"])
        typed = [f"/api/names?q={'margaret lisle'[:n]}" for n in range(1, 15)]
        return {
            "source, s": taken(lambda: client.get(f"/api/answers/{answer['id']}/citations/1").raise_for_status()),
            "window of a text of 10 MB, s": taken(lambda: client.get(f"/api/documents/{long}?mark=5000000-5000040").raise_for_status()),
            "names as one types, s": max(taken(lambda a=address: client.get(a).raise_for_status()) for address in typed),
        }


def load(folder: Path) -> dict[str, float]:
    """Fifty questions side by side while documents are indexed, five of which hang up."""
    inbox = folder / "inbox"
    inbox.mkdir(exist_ok=True)
    for n in range(300):
        (inbox / f"{n}.txt").write_text(f"Captain Number{n} Berg sold the boat Tern{n} to Ruth Sand in Vardby. " * 40)
    with served(folder) as server, server.client() as client:
        list(events(client, "basic"))
        client.post("/api/index", json={}).raise_for_status()
        seconds = asyncio.run(asked(server))
        running = client.get("/api/status").json()["run"]["state"]
        client.delete("/api/index")
    print(f"the run was {running} when the last question was answered", file=sys.stderr)
    lost = sum(s is None for s in seconds)
    return {
        "50 questions while indexing: lost": lost,
        "50 questions while indexing: p95, s": quantiles([s for s in seconds if s is not None], n=20)[-1],
    }


async def asked(server: Served) -> list[float | None]:
    """Seconds of each of those questions that stay; None for one without an answer."""

    async def one(client: httpx.AsyncClient, n: int) -> float | None:
        body = {"model": "localrag:mix", "messages": [{"role": "user", "content": f"{QUESTION} ({n})"}], "stream": n < 5}
        began = time.perf_counter()
        async with client.stream("POST", "/v1/chat/completions", json=body) as answer:
            if n < 5:
                await asyncio.sleep(0.1 * n)
                return None
            await answer.aread()
            return time.perf_counter() - began if answer.status_code == 200 else None

    headers = {"authorization": f"Bearer {server.key}"}
    async with httpx.AsyncClient(base_url=server.address, headers=headers, trust_env=False, timeout=600) as client:
        return list(await asyncio.gather(*(one(client, n) for n in range(50))))[5:]


PARTS = {"start": start, "page": page, "questions": questions, "documents": documents, "load": load}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    chosen = arguments.parse_args().only
    with tempfile.TemporaryDirectory() as folder:
        made = indexed(Path(folder) / "index")
        for part in chosen:
            for name, value in PARTS[part](made).items():
                goal = GOALS[name]
                print(f"{name:42}{value:8.3f}" + (f"   goal {goal}" if goal is not None else ""), flush=True)


if __name__ == "__main__":
    main()
