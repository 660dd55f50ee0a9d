"""The page's API of tables made from documents: making one as a stream of JSON lines, what a review costs, files, decisions about cells."""

import json
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from sqlite_utils import Database
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from localrag.analysis.tables import Cell, TableRow
from localrag.filters import NO_FILTER
from localrag.project import filter_project
from localrag.serializers import NotFound, serialize_citation, serialize_table
from localrag.serve.auth import json_body
from localrag.serve.context import ServerContext, document_filter_of, error_response, write_handler
from localrag.serve.query_worker import KEEPALIVE_S
from localrag.serve.table_worker import (
    MAX_PATH_CHARS,
    MAX_SECTION_CHARS,
    TableRequest,
    TableStopped,
    TableTask,
    TableWorker,
    parse_table_request,
    text_of,
)
from localrag.store import browse
from localrag.store.database import snapshot

MAX_SHOWN_CELLS = 50_000  # of a table on the page; its files have all
MAX_CORRECTION_CHARS = 10_000
PROGRESS_EVERY_S = 0.25
UNREAD_NOTE = "Not read yet: the same review goes on."


def table_routes(site: ServerContext, tables: TableWorker) -> list[Route]:
    """Routes of tables and of decisions about the cells of reviews."""

    async def begin(request: Request) -> Response:
        body = json_body(await request.body())
        asked = parse_table_request(request.path_params["kind"], body, document_filter_of(body) or NO_FILTER)
        task = await run_in_threadpool(tables.find_same, asked) or tables.start(asked)
        return StreamingResponse(_lines(task, tables, site), media_type="application/x-ndjson")

    async def plan(request: Request) -> Response:
        body = json_body(await request.body(), ["questions"])
        asked = parse_table_request("review", body, document_filter_of(body) or NO_FILTER)
        return JSONResponse(await run_in_threadpool(_plan, asked, tables))

    async def stop(request: Request) -> Response:
        tables.stop(_find_table(request, tables))
        return JSONResponse({"stopped": True})

    def kept(request: Request) -> Response:
        task = _made_table(request, tables)
        if not tables.is_current(task):
            raise NotFound("The index has changed since this table was made.", "Make it again.")
        return JSONResponse({"id": task.id, "table": table_json(task, site)})

    def file(request: Request) -> Response:
        return _file_response(_made_table(request, tables), request.path_params["suffix"])

    async def decide(request: Request) -> Response:
        body = json_body(await request.body(), ["path", "question"])
        return await write_handler(site, partial(_decide, body=body, tables=tables), 200)(request)

    return [
        Route("/api/tables/review/plan", plan, methods=["POST"]),
        Route("/api/tables/{kind}", begin, methods=["POST"]),
        Route("/api/tables/{id}", kept),
        Route("/api/tables/{id}", stop, methods=["DELETE"]),
        Route("/api/tables/{id}/file.{suffix}", file),
        Route("/api/review/cell", decide, methods=["PUT"]),
        Route("/api/review/cell", write_handler(site, partial(_reopen, tables=tables), 200), methods=["DELETE"]),
    ]


async def _lines(task: TableTask, tables: TableWorker, site: ServerContext) -> AsyncIterator[bytes]:
    """The events of a table as lines of JSON. A table that nobody else waits for is stopped when the client goes."""
    with task.watched():
        try:
            async for event in _events(task, tables, site):
                yield (json.dumps(event, ensure_ascii=False) if event else "").encode() + b"\n"
        finally:
            if task.watchers == 1 and not task.has_ended.is_set():
                tables.stop(task)


async def _events(task: TableTask, tables: TableWorker, site: ServerContext) -> AsyncIterator[dict[str, Any] | None]:
    yield {"event": "started", "id": task.id}
    told, told_at = (0, 0, 0), time.monotonic()
    while not await task.wait(PROGRESS_EVERY_S):
        now = (*task.progress, tables.n_before(task))
        if now != told:
            yield {"event": "progress", "done": now[0], "total": now[1], "waiting": now[2]}
            told, told_at = now, time.monotonic()
        elif time.monotonic() - told_at > KEEPALIVE_S:
            yield None
            told_at = time.monotonic()
    try:
        task.result()
        yield {
            "event": "done",
            "id": task.id,
            "table": await run_in_threadpool(table_json, task, site),
            "stopped": task.is_stopped.is_set(),
        }
    except TableStopped:
        yield {"event": "done", "id": task.id, "table": None, "stopped": True}
    except Exception as failed:  # noqa: BLE001 — any failure becomes an error event, and the server keeps running
        yield {"event": "error", **json.loads(bytes(error_response(failed).body))}


def _find_table(request: Request, tables: TableWorker) -> TableTask:
    task = tables.find(request.path_params["id"])
    if task is None:
        raise NotFound("That table is not here any more.", "Make it again.")
    return task


def _made_table(request: Request, tables: TableWorker) -> TableTask:
    task = _find_table(request, tables)
    if task.table is None:
        raise NotFound("That table is not made yet.", "Wait for it.")
    return task


def table_json(task: TableTask, site: ServerContext) -> dict[str, Any]:
    """A table as the page shows it, at most MAX_SHOWN_CELLS of its cells; `total_rows` counts all. A review also has its `questions`."""
    table = task.table
    assert table is not None
    shown = replace(table, rows=table.rows[: max(1, MAX_SHOWN_CELLS // len(table.columns))])
    values = serialize_table(shown) | {"total_rows": len(table.rows)}
    with snapshot(site.folder) as db:
        ids = {path: browse.document_id_at(db, path) for path in {c.path for c in shown.citations}}
        values["citations"] = [c | {"document": ids[c["path"]]} for c in values["citations"]]
        if table.kind == "review":
            values["questions"] = list(task.request.questions)
            for row, made in zip(values["rows"], shown.rows, strict=True):
                row.update(_place(made, task.request, db))
    return values


def _place(row: TableRow, asked: TableRequest, db: Database) -> dict[str, Any]:
    """The path, section and document of a row of a review, whose key is `path` or `path#section`."""
    found = browse.document_id_at(db, row.key)
    at = -1 if found or asked.rows == "document" else row.key.find("#")
    while at >= 0 and not found:
        found = browse.document_id_at(db, row.key[:at])
        if found:
            return {"path": row.key[:at], "section": row.key[at + 1 :], "document": found}
        at = row.key.find("#", at + 1)
    return {"path": row.key, "section": "", "document": found}


def _plan(asked: TableRequest, tables: TableWorker) -> dict[str, Any]:
    from localrag.analysis.review import plan_review
    from localrag.analysis.review_questions import parse_questions

    with tables.questions.open_project() as project, filter_project(project, asked.selection) as chosen:
        plan = plan_review(parse_questions(asked.questions), chosen, rows=asked.rows)
    return {"rows": plan.rows, "cells": plan.cells, "new_cells": plan.new_cells, "seconds": round(plan.seconds, 2)}


def _file_response(task: TableTask, suffix: str) -> Response:
    from localrag.exchange.table_files import write_table

    assert task.table is not None
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"{task.request.kind}.{suffix}"
        write_table(task.table, file)
        data = file.read_bytes()
    # A browser saves it instead of showing it, so that its content cannot act as a page of this server.
    headers = {"content-disposition": f'attachment; filename="{file.name}"', "content-security-policy": "sandbox"}
    return Response(data, media_type="application/octet-stream", headers=headers)


def _decide(_request: Request, _site: ServerContext, *, body: Mapping[str, Any], tables: TableWorker) -> dict[str, Any]:
    """Approve a cell of a review, or correct it where the body has a text."""
    from localrag.analysis.review import ROW_KINDS, decide_cell
    from localrag.analysis.review_questions import parse_questions

    path, section = text_of(body, "path", MAX_PATH_CHARS, is_required=True), text_of(body, "section", MAX_SECTION_CHARS)
    rows = body.get("rows", "document")
    if rows not in ROW_KINDS:
        raise ValueError(f"`rows` is one of {', '.join(ROW_KINDS)}, not {rows!r:.40}.")
    (question,) = parse_questions([text_of(body, "question", MAX_PATH_CHARS, is_required=True)])
    text = None if body.get("text") is None else text_of(body, "text", MAX_CORRECTION_CHARS)
    with tables.questions.open_project() as project:
        cell = decide_cell(project, path, question, text, section=section, rows=rows)
        tables.decide(_key(path, section), question.line, cell)
        return {"cell": _cell_json(cell, project.db)}


def _reopen(request: Request, _site: ServerContext, *, tables: TableWorker) -> dict[str, Any]:
    from localrag.analysis.review import reopen_cell
    from localrag.analysis.review_questions import parse_questions

    asked = request.query_params
    path, section = text_of(asked, "path", MAX_PATH_CHARS, is_required=True), text_of(asked, "section", MAX_SECTION_CHARS)
    (question,) = parse_questions([text_of(asked, "question", MAX_PATH_CHARS, is_required=True)])
    with tables.questions.open_project() as project:
        reopen_cell(project, path, question, section=section)
        cell = Cell(note=UNREAD_NOTE)
        tables.decide(_key(path, section), question.line, cell)
        return {"cell": _cell_json(cell, project.db)}


def _key(path: str, section: str) -> str:
    return path + f"#{section}" * bool(section)


def _cell_json(cell: Cell, db: Database) -> dict[str, Any]:
    cited = [serialize_citation(c) | {"document": browse.document_id_at(db, c.path)} for c in cell.citations]
    return cell.to_json() | {"citations": cited}
