"""The page's questions: `POST /api/ask`, a stream of JSON lines, and what stops it; conversations that are kept."""

import json
from collections.abc import AsyncIterator
from secrets import token_hex
from typing import Any

from sqlite_utils import Database
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from localrag import contents
from localrag.contents import Unknown
from localrag.errors import IndexBusy
from localrag.query.question import Options
from localrag.records import Answer
from localrag.serve.documents import selection_of
from localrag.serve.follow import Asked, ask, follow
from localrag.serve.guard import error, json_body
from localrag.serve.site import Site, changed, failure, number, read
from localrag.store import ledger, look, purge
from localrag.store.connect import snapshot
from localrag.store.schema import open_index, writer_lock

CONVERSATIONS = 200  # listed, the newest first
STOPPED = "Stopped before its end."


def routes(site: Site) -> list[Route]:
    """Questions, answers and conversations."""
    asked: dict[str, Asked] = {}

    async def begin(request: Request) -> Response:
        body = json_body(await request.body(), ["question"])
        question = ask(site.worker, str(body["question"]), _options(body), person=True)
        name = token_hex(8)
        asked[name] = question

        async def streamed() -> AsyncIterator[bytes]:
            try:
                async for event in _events(name, question):
                    yield (json.dumps(event, ensure_ascii=False) if event else "").encode() + b"\n"
            finally:  # also where the page has gone
                del asked[name]
                await question.end()

        return StreamingResponse(streamed(), media_type="application/x-ndjson")

    async def stop(request: Request) -> Response:
        question = asked.get(request.path_params["id"])
        if question is None:
            return error(404, "That question is not being answered.")
        question.stop()
        return JSONResponse({"stopped": True})

    async def questions(_request: Request) -> Response:
        return JSONResponse({"questions": await site.worker.suggested(5)})

    return [
        Route("/api/ask", begin, methods=["POST"]),
        Route("/api/ask/{id}", stop, methods=["DELETE"]),
        Route("/api/questions", questions),
        Route("/api/conversations", read(site, _conversations)),
        Route("/api/conversations/{id:int}", read(site, _conversation)),
        Route("/api/conversations/{id:int}", changed(site, _erase, 200), methods=["DELETE"]),
        Route("/api/answers/{id:int}", read(site, _answer)),
        Route("/api/answers/{id:int}/citations/{n:int}", read(site, _citation)),
    ]


async def _events(name: str, asked: Asked) -> AsyncIterator[dict[str, Any] | None]:
    """What the page is told of a question; None where nothing happened for a while."""
    yield {"event": "started", "id": name}
    async for kind, value in follow(asked):
        if kind == "text":
            yield {"event": "text", "text": value, "segments": contents.marked(value, contents.marks_at_end(value))}
        elif kind == "citation":
            yield {"event": "citation", "citation": contents.citation(value)}
        else:
            yield {"event": kind, "text": value} if value is not None else None
    if asked.stopped and asked.task.cancelled():
        made = asked.kept[-1] if asked.kept else Answer("", "", "", note=STOPPED)
        yield {"event": "done", "answer": contents.answer(made), "stopped": True}
        return
    try:
        yield {"event": "done", "answer": contents.answer(asked.task.result()), "stopped": False}
    except Exception as failed:  # noqa: BLE001 — whatever it was, the page gets a sentence and the server stays
        yield {"event": "error", **json.loads(bytes(failure(failed).body))}


def _options(body: dict[str, Any]) -> Options:
    """How to answer. Raises ValueError."""

    def given(name: str, kinds: tuple[type, ...], otherwise: Any) -> Any:
        value = body.get(name)
        if value is None:
            return otherwise
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise ValueError(f"`{name}` is {' or '.join(k.__name__ for k in kinds)}, not {value!r:.40}.")
        return value

    return Options(
        given("mode", (str,), "auto"),
        given("level", (int,), None),
        strict=given("strict", (bool,), False),
        max_seconds=given("max_seconds", (int, float), None),
        conversation=given("conversation", (int,), None),
        selection=selection_of(body),
    )


def _conversations(request: Request, db: Database) -> Any:
    return {"conversations": look.conversations(db, number(request, "limit", 1, CONVERSATIONS, CONVERSATIONS))}


def _conversation(request: Request, db: Database) -> Any:
    key = request.path_params["id"]
    found = [contents.answer(made, at=at) for at, made in ledger.dated_conversation(db, key)]
    if not found:
        raise Unknown(f"There is no conversation {key}.")
    return {"id": key, "answers": found}


def _erase(request: Request, site: Site) -> dict[str, Any]:
    """Delete a conversation, as `localrag sessions rm` does."""
    key = request.path_params["id"]
    if site.worker.questions["active"]:  # it reads the index, and may belong to the conversation
        raise IndexBusy("A question is being answered.", "Wait for its answer, or stop it. Then delete the conversation.")
    with snapshot(site.folder) as db:
        if not ledger.conversation(db, key):
            raise Unknown(f"There is no conversation {key}.")
    with writer_lock(site.folder):
        db = open_index(site.folder)
        try:
            purge.erase_conversations(db, site.folder, [key])
        finally:
            db.close()
    return {"deleted": key}


def _numbered(request: Request, db: Database) -> tuple[str, Answer]:
    key = request.path_params["id"]
    found = ledger.answer_numbered(db, key)
    if found is None:
        raise Unknown(f"There is no answer {key}.")
    return found


def _answer(request: Request, db: Database) -> Any:
    at, made = _numbered(request, db)
    return contents.answer(made, at=at)


def _citation(request: Request, db: Database) -> Any:
    _, made = _numbered(request, db)
    n = request.path_params["n"]
    found = next((c for c in made.citations if c.n == n), None)
    if found is None:
        raise Unknown(f"The answer {made.id} has no citation {n}.")
    return contents.cited(found, db)
