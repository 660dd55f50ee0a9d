"""Status of the index for the page, by long polling; starting and stopping runs; removing documents."""

import asyncio
import math
import shlex
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from localrag import __version__
from localrag.errors import UsageError
from localrag.indexing.progress import extrapolate
from localrag.project import is_own_place
from localrag.serializers import NotFound
from localrag.serve.context import ServerContext, write_handler
from localrag.serve.files import uploaded_name
from localrag.settings import QUERY_MODES
from localrag.store import browse, graph, runs
from localrag.store.database import snapshot
from localrag.system.resources import is_alive
from localrag.system.trust import delete_written_file

LONG_POLL_S = 20.0  # that a request waits for a change
POLL_EVERY_S = 0.5
MAX_LONG_POLLS = 64  # concurrent; further requests are answered without waiting
_STATES: Mapping[str, str] = {"complete": "done", "partial": "done", "interrupted": "stopped"}


@dataclass(slots=True)
class ShownProgress:
    """Progress of a run as last sent to the page, so that its progress bar never goes back."""

    run: int = 0
    fraction: float = 0.0
    n_waiting: int = 0  # long polls

    def shown(self, run: dict[str, Any]) -> dict[str, Any]:
        """Completed share of the run, and estimated seconds left (None if unknown)."""
        if run["id"] != self.run:
            self.run, self.fraction = run["id"], 0.0
        if run["ended_at"] is not None or not run.get("facts"):  # its process is ending, or the next run is starting
            return {"fraction": self.fraction, "seconds_left": None}
        facts = extrapolate(run["facts"], max(0.0, time.time() - run["seen_at"]))
        self.fraction = max(facts["fraction"], self.fraction)
        left = facts["seconds_left"]
        seconds_left = round(math.sqrt(left[0] * left[1]), 1) if left else None
        return {"fraction": self.fraction, "seconds_left": seconds_left}


def status_routes(site: ServerContext) -> list[Route]:
    """Routes of the status, of starting and stopping runs, and of removing a document."""
    return [
        Route("/api/status", partial(_wait_for_change, site=site, pace=ShownProgress())),
        Route("/api/index", write_handler(site, _index), methods=["POST"]),
        Route("/api/index", write_handler(site, _stop), methods=["DELETE"]),
        Route("/api/documents/{id}", write_handler(site, _remove), methods=["DELETE"]),
    ]


async def _wait_for_change(request: Request, site: ServerContext, pace: ShownProgress) -> Response:
    since = request.query_params.get("since", "")
    until = time.monotonic() + LONG_POLL_S
    pace.n_waiting += 1
    try:
        while True:
            status = await run_in_threadpool(site_status, site, pace)
            if status["stamp"] != since or time.monotonic() > until or pace.n_waiting > MAX_LONG_POLLS or await request.is_disconnected():
                return JSONResponse(status)
            await asyncio.sleep(POLL_EVERY_S)
    finally:
        pace.n_waiting -= 1


def _index(_request: Request, site: ServerContext) -> dict[str, Any]:
    site.index_runs.start("index", _sources(site))
    return {"started": True}


def _stop(_request: Request, site: ServerContext) -> dict[str, Any]:
    site.index_runs.stop()
    return {"stopped": True}


def _remove(request: Request, site: ServerContext) -> dict[str, Any]:
    key = request.path_params["id"]
    with snapshot(site.folder) as db:
        document = browse.document_summary(db, key)
    if document is None:
        raise NotFound(f"There is no document {key}.")
    name = uploaded_name(document["path"], site.root, site.inbox)
    then = partial(delete_written_file, site.inbox, name) if name else None
    site.index_runs.start("rm", [str(site.root / document["path"])], then)
    return {"started": True, "file": "removed" if name else "kept"}


def _sources(site: ServerContext) -> list[str]:
    """Paths to index: the existing sources of earlier runs, and the inbox if it has files. Raises UsageError for a foreign source."""
    with snapshot(site.folder) as db:
        sources = runs.load_settings(db).get("source_paths") or browse.top_level_paths(db)
        paths = [path for path in dict.fromkeys(site.root / source for source in sources) if path.exists()]
        if foreign := [str(path) for path in paths if not is_own_place(db, site.root, path)]:
            raise UsageError(
                f"The index names {foreign[0]} as a source, which was not indexed on this machine.",
                f"If it is yours: localrag index {shlex.quote(foreign[0])}",
            )
    existing = [str(path) for path in paths]
    inbox = site.inbox.absolute()
    covered = any(inbox.is_relative_to(source) for source in existing)
    return [*existing, *[str(inbox)] * (not covered and inbox.is_dir() and any(inbox.iterdir()))]


def site_status(site: ServerContext, pace: ShownProgress) -> dict[str, Any]:
    """Counts, models, last run and running questions of the index; `stamp` changes whenever one of them does."""
    with snapshot(site.folder) as db:
        bound, run, mark = runs.load_settings(db), runs.last_run(db), browse.change_token(db)
        counts, files, levels = graph.counts(db), browse.file_states(db), [int(level) for level in graph.communities_per_level(db)]
    settings = bound.get("settings", {})
    status = {
        "version": __version__,
        "name": site.root.name,
        "root": str(site.root),
        "read_only": site.read_only,
        "most_bytes": site.most_bytes,
        "model": bound.get("chat_model", {}).get("name", ""),
        "answers_with": site.query_worker.answers_with,
        "style": settings.get("style", ""),
        "embedder": bound.get("embedder", {}).get("name", ""),
        "modes": list(QUERY_MODES),
        "levels": levels,
        "counts": {k: counts[k] for k in ("documents", "chunks", "entities", "relationships", "communities", "reports")},
        "files": files,
        "questions": site.query_worker.question_counts,
        "servers": list(site.external_hosts),
    }
    shown = _run(run, site)
    stamp = blake2b(repr((mark, status, shown)).encode(), digest_size=8).hexdigest()
    if shown and run and shown["state"] == "running":
        shown |= pace.shown(run)
    return {"stamp": stamp} | status | {"run": shown}


def _run(run: dict[str, Any] | None, site: ServerContext) -> dict[str, Any] | None:
    """The newest run as JSON, or None. A run started by this server counts as running from its start; `message` says why it failed."""
    message = site.index_runs.error_text
    if run is None:
        return None
    state = _STATES.get(run["state"], run["state"])
    if run["ended_at"] is None:
        state = "running" if is_alive(run["pid"], run["started_at"]) else "stopped"
    if site.index_runs.is_running:
        state = "running"
    if message:
        state = "failed"
    values = {k: run[k] for k in ("stage", "done", "total", "started_at", "ended_at")}
    unknown = {"fraction": None, "seconds_left": None}
    return {"state": state, "ours": site.index_runs.is_running, "message": message} | unknown | values
