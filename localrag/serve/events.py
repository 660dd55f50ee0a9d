"""How the index and its runs stand, told to a page that waits for it to change; and the runs that the page starts and stops."""

import asyncio
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from importlib.metadata import version
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from localrag.contents import Unknown
from localrag.index.progress import aged
from localrag.query.answer import MODES
from localrag.serve.inbox import name_in_inbox, remove_from_inbox
from localrag.serve.site import Site, changed
from localrag.store import graph, ledger, look
from localrag.store.connect import snapshot
from localrag.system.processes import is_alive

WAITS = 20.0  # seconds that a request waits for something to change
LOOKS = 0.5  # seconds between two looks
WAITERS = 64  # requests that wait at once; more are answered without waiting
_STATES: Mapping[str, str] = {"complete": "done", "partly": "done", "interrupted": "stopped"}


@dataclass(slots=True)
class Pace:
    """How far the run was when it was last told: a bar of the page never goes back."""

    run: int = 0
    share: float = 0.0
    waiting: int = 0  # requests

    def shown(self, run: dict[str, Any]) -> dict[str, Any]:
        """The share of the whole run, seconds until it ends, None while nothing is known; what each of several workers does."""
        if run["ended_at"] is not None:  # its process is about to end, or another run to begin
            return {"share": self.share if run["id"] == self.run else 0.0, "left": None, "workers": []}
        if not run.get("facts"):
            return {"share": 0.0, "left": None, "workers": []}
        facts = aged(run["facts"], max(0.0, time.time() - run["seen_at"]))
        self.share = max(facts["share"], self.share if run["id"] == self.run else 0.0)
        self.run = run["id"]
        left = facts["left"]
        return {"share": self.share, "left": round(math.sqrt(left[0] * left[1]), 1) if left else None, "workers": facts.get("workers", [])}


def routes(site: Site) -> list[Route]:
    """`/api/status`, and what starts and stops runs."""
    return [
        Route("/api/status", partial(_told, site=site, pace=Pace())),
        Route("/api/index", changed(site, _index), methods=["POST"]),
        Route("/api/index", changed(site, _stop), methods=["DELETE"]),
        Route("/api/documents/{id}", changed(site, _remove), methods=["DELETE"]),
    ]


async def _told(request: Request, site: Site, pace: Pace) -> Response:
    since = request.query_params.get("since", "")
    until = time.monotonic() + WAITS
    pace.waiting += 1
    try:
        while True:
            found = await run_in_threadpool(status, site, pace)
            if found["stamp"] != since or time.monotonic() > until or pace.waiting > WAITERS or await request.is_disconnected():
                return JSONResponse(found)
            await asyncio.sleep(LOOKS)
    finally:
        pace.waiting -= 1


def _index(_request: Request, site: Site) -> dict[str, Any]:
    site.jobs.start("index", _sources(site))
    return {"started": True}


def _stop(_request: Request, site: Site) -> dict[str, Any]:
    site.jobs.stop()
    return {"stopped": True}


def _remove(request: Request, site: Site) -> dict[str, Any]:
    """Remove a document from the index; then its file, too, where it was dragged in."""
    key = request.path_params["id"]
    with snapshot(site.folder) as db:
        found = look.described(db, key)
    if found is None:
        raise Unknown(f"There is no document {key}.")
    name = name_in_inbox(found["path"], site.root, site.inbox)
    then = partial(remove_from_inbox, name, site.inbox) if name else None
    site.jobs.start("rm", [str(site.root / found["path"])], then)
    return {"started": True, "file": "removed" if name else "kept"}


def _sources(site: Site) -> list[str]:
    """What was indexed before, as far as it is there, and the inbox."""
    with snapshot(site.folder) as db:
        kept = ledger.settings(db).get("sources") or look.tops(db)
    there = [str(path) for path in dict.fromkeys(site.root / source for source in kept) if path.exists()]
    inbox = site.inbox.absolute()
    covered = any(inbox.is_relative_to(source) for source in there)
    return [*there, *[str(inbox)] * (not covered and inbox.is_dir() and any(inbox.iterdir()))]


def status(site: Site, pace: Pace) -> dict[str, Any]:
    """The index in numbers, its models, its last run and the questions under way; `stamp` changes whenever any of it does."""
    with snapshot(site.folder) as db:
        bound, run, mark = ledger.settings(db), ledger.last_run(db), look.stamp(db)
        counts, files, levels = graph.counts(db), look.file_states(db), [int(level) for level in graph.communities_per_level(db)]
    settings = bound.get("settings", {})
    found = {
        "version": version("localrag"),
        "name": site.root.name,
        "root": str(site.root),
        "read_only": site.read_only,
        "most_bytes": site.most_bytes,
        "model": bound.get("chat_model", {}).get("name", ""),
        "style": settings.get("style", ""),
        "embedder": bound.get("embedder", {}).get("name", ""),
        "modes": ["auto", *MODES],
        "levels": levels,
        "counts": {k: counts[k] for k in ("documents", "chunks", "entities", "relationships", "communities", "reports")},
        "files": files,
        "questions": site.worker.questions,
        "servers": list(site.outside),
    }
    shown = _run(run, site)
    stamp = blake2b(repr((mark, found, shown)).encode(), digest_size=8).hexdigest()
    if shown and run and shown["state"] == "running":
        shown |= pace.shown(run)
    return {"stamp": stamp} | found | {"run": shown}


def _run(run: dict[str, Any] | None, site: Site) -> dict[str, Any] | None:
    """The newest run. One that this server starts is there from its first moment, and a failure says why."""
    message = site.jobs.failed_with
    if run is None:
        return None
    state = _STATES.get(run["state"], run["state"])
    if run["ended_at"] is None:
        state = "running" if is_alive(run["pid"], run["started_at"]) else "stopped"
    if site.jobs.running:
        state = "running"
    if message:
        state = "failed"
    values = {k: run[k] for k in ("stage", "done", "total", "started_at", "ended_at")}
    return {"state": state, "ours": site.jobs.running, "message": message, "share": None, "left": None} | values
