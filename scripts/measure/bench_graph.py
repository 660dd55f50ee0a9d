"""The graph's picture, measured: layout, payload, and in a real browser the first picture, a redraw, a pick, the heap.

    python -m scripts.measure.bench_graph                       # 200,000 entities, 400,000 relationships
    python -m scripts.measure.bench_graph --entities 5000
    python -m scripts.measure.bench_graph --keep FOLDER         # make the index there, and use it the next time

The graph is made up: groups of entities that are related mostly among themselves, some hubs, some entities without a relationship.
Communities are Leiden's. The browser is LOCALRAG_TEST_CHROMIUM or the `chromium` of the PATH, drawing without a graphics card.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from localrag.indexing.embeddings import changed_embedder
from localrag.project import open_for_writing
from localrag.records import Chunk, Document, Entity, Graph, GraphLayout, Mention, Relationship, content_id
from localrag.serializers import build_graph_view
from localrag.store import documents, generations, runs
from localrag.store import layout as layout_store
from localrag.store.database import snapshot
from tests.graphs import detect_communities, lay_out_records, staged_graph

GOALS = {
    "layout, s": 30,
    "payload made, s": None,
    "payload, MB": 6.4,
    "payload from cache, s": 0.2,
    "first picture, s": 0.5,
    "redraw, ms": 16,
    "redraw at 95 %, ms": None,
    "frames a second": 20,
    "pick, ms": 1,
    "heap, MB": 150,
}
TYPES = ("person", "organization", "place", "event")


def made_up(n: int, edges: int, seed: int = 1) -> Graph:
    """A graph of `n` entities with about so many relationships."""
    rng = np.random.default_rng(seed)
    order = np.argsort(rng.integers(0, max(4, n // 200), n), kind="stable")
    place = np.empty(n, np.int64)
    place[order] = np.arange(n)
    a = np.floor(n * rng.random(edges) ** 2).astype(np.int64)
    spread = np.where(rng.random(edges) < 0.7, 12, 400)
    near = order[np.clip(place[a] + np.round(rng.normal(0, 1, edges) * spread).astype(np.int64), 0, n - 1)]
    b = np.where(rng.random(edges) < 0.93, near, rng.integers(0, n, edges))
    pairs = sorted({(min(x, y), max(x, y)) for x, y in zip(a.tolist(), b.tolist(), strict=True) if x != y})
    degree = np.bincount(np.array(pairs).ravel(), minlength=n).tolist()
    ids = [content_id("entity", i) for i in range(n)]
    entities = tuple(Entity(ids[i], f"Entity {i}", TYPES[i % 4], degree=degree[i]) for i in range(n))
    return Graph(entities, tuple(Relationship(content_id(x, y), ids[x], ids[y], weight=1.0 + (x * 7 + y) % 5) for x, y in pairs))


def make_index(folder: Path, entities: int, edges: int | None = None) -> dict[str, float]:
    """An index that holds a made-up graph and its picture, and nothing else; what its parts took."""
    graph = made_up(entities, edges or 2 * entities)
    levels, leiden = timed(lambda: detect_communities(graph, max_size=10, seed=0))
    layout, seconds = timed(lambda: lay_out_records(graph, levels, GraphLayout()))
    known = sorted(graph.entities, key=lambda e: (-e.degree, e.id))[:50]  # those that can be found by their names
    text = "\n".join(e.name for e in known)
    document = Document(content_id("a.txt", content_id(text)), "a.txt", "a", text, content_id(text))
    chunk = Chunk(content_id(document.id, 0, len(text)), document.id, 0, 0, len(text), text, 7)
    graph = replace(graph, mentions=tuple(Mention(e.id, chunk.id, e.name, *span(text, e.name)) for e in known))
    with open_for_writing(folder, extractor="phrases") as project:
        documents.save_document(project.db, document, [chunk])
        embedder = changed_embedder(project)
        generations.publish(
            project.db,
            staged_graph(project.db, graph, levels),
            layout=layout,
            embedder=embedder,
            settings={"graph_hash": "made up", "layout_hash": "made up"},
        )
        runs.end_run(project.db, runs.start_run(project.db, 1), "complete", {})
    return {"communities, s": leiden, "layout, s": seconds}


def span(text: str, line: str) -> tuple[int, int]:
    """Where a line stands in a text."""
    start = f"\n{text}\n".index(f"\n{line}\n")
    return start, start + len(line)


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """What a function gives, and the seconds it takes."""
    began = time.perf_counter()
    return work(), time.perf_counter() - began


def measured_in_browser(folder: Path) -> dict[str, float]:
    """What the page measures of itself over a real server."""
    from tests.serve.browser import chromium, opened
    from tests.serve.server import served

    with ExitStack() as stack:
        server = stack.enter_context(served(folder.parent))
        with server.client() as client:
            client.get("/api/graph.bin")
            cached = min(timed(lambda: client.get("/api/graph.bin"))[1] for _ in range(3))
        browser = stack.enter_context(chromium())
        page, heard = stack.enter_context(opened(browser, server, "#/graph"))
        page.locator(".graph[data-ready]").wait_for(timeout=60_000)
        found = page.evaluate(MEASURE)
        heap = page.context.new_cdp_session(page).send("Runtime.getHeapUsage")
        found["heap, MB"] = (heap["usedSize"] + heap.get("backingStorageSize", 0)) / 1e6
        assert not heard.errors, heard.errors
    return {"payload from cache, s": cached} | found


MEASURE = """async () => {
  const g = window.localragGraph, sort = (a) => a.sort((x, y) => x - y), out = {};
  out["first picture, s"] = g.timings.first / 1000;
  const box = document.querySelector(".graph canvas").getBoundingClientRect();
  const [cx, cy] = [box.x + box.width / 2, box.y + box.height / 2], frames = [], redraws = [];
  const pixels = document.querySelector(".graph canvas").getContext("2d");
  const wheel = (d) => document.querySelector(".graph canvas").dispatchEvent(
    new WheelEvent("wheel", {deltaY: d, clientX: cx, clientY: cy, bubbles: true, cancelable: true}));
  let last = performance.now();
  for (let i = 0; i < 120; i++) {
    wheel(i % 60 < 30 ? -60 : 60);
    // The browser draws what the canvas was told only when its pixels are wanted: that is counted, too.
    const flushed = await new Promise((done) => requestAnimationFrame(() => {
      const began = performance.now();
      pixels.getImageData(0, 0, 1, 1);
      done(performance.now() - began);
    }));
    redraws.push(g.timings.draw + flushed); frames.push(performance.now() - last); last = performance.now();
  }
  sort(redraws); out["redraw, ms"] = redraws[60]; out["redraw at 95 %, ms"] = redraws[114];
  out["frames a second"] = 120 / (frames.reduce((a, b) => a + b) / 1000);
  const began = performance.now();
  for (let i = 0; i < 1000; i++) g.pick(box.width * ((i * 37) % 100) / 100, box.height * ((i * 61) % 100) / 100);
  out["pick, ms"] = (performance.now() - began) / 1000;
  return out;
}"""


def main() -> None:
    """Measure, and print a table beside what is aimed at."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entities", type=int, default=200_000)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--no-browser", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = (options.keep or Path(temporary)) / f"graph-{options.entities}" / ".localrag"
        found: dict[str, float] = {} if (folder / "index.db").exists() else make_index(folder, options.entities)
        with snapshot(folder) as db:
            picture, seconds = timed(lambda: build_graph_view(db, layout_store.layout_state(db)))
        found |= {"payload made, s": seconds, "payload, MB": len(picture.data) / 1e6}
        if not options.no_browser:
            found |= measured_in_browser(folder)
    for name, value in found.items():
        print(f"{name:24} {value:10.3f}   {f'goal {GOALS[name]}' if GOALS.get(name) else ''}")
    print(json.dumps({"entities": options.entities} | {k: round(v, 4) for k, v in found.items()}))


if __name__ == "__main__":
    main()
