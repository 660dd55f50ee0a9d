"""The page's API: questions as streams of JSON lines, conversations, browsing, and the graph view: numbers, with names by node number."""

import json
import re
from collections.abc import AsyncIterator
from contextlib import closing
from secrets import token_hex
from threading import Lock
from typing import Any

from sqlite_utils import Database
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from localrag import serializers
from localrag.catalog.listing import list_models
from localrag.errors import IndexBusy, UsageError
from localrag.filters import NO_FILTER
from localrag.project import OpenIndex
from localrag.query.question import MAX_QUESTION_CHARS, QueryOptions
from localrag.records import Answer
from localrag.serializers import GraphView, NotFound, build_graph_view
from localrag.serve.auth import json_body, openai_error
from localrag.serve.context import ServerContext, document_filter_of, error_response, query_int, read_handler, write_handler
from localrag.serve.query_worker import RunningQuestion, question_events, start_question
from localrag.serve.values import MAX_NUMBER, read_bool, read_int, read_number
from localrag.store import answers, browse, erasure, layout
from localrag.store.database import caches_of, snapshot
from localrag.store.filtered import NoMatchingDocuments
from localrag.store.opening import open_index, writer_lock
from localrag.text.markdown import NeutralStream
from localrag.themes import stored_themes

MAX_CONVERSATIONS = 200  # listed, newest first
STOPPED_NOTE = "Stopped before its end."


def question_routes(site: ServerContext) -> list[Route]:
    """Routes of questions, answers and conversations."""
    asked: dict[str, RunningQuestion] = {}

    async def begin(request: Request) -> Response:
        body = json_body(await request.body(), ["question"])
        question = start_question(site.query_worker, str(body["question"]), _parse_options(body), person=True)
        name = token_hex(8)
        asked[name] = question

        async def streamed() -> AsyncIterator[bytes]:
            try:
                async for event in _events(name, question):
                    yield (json.dumps(event, ensure_ascii=False) if event else "").encode() + b"\n"
            finally:  # also after a disconnect
                del asked[name]
                await question.end()

        return StreamingResponse(streamed(), media_type="application/x-ndjson")

    async def stop(request: Request) -> Response:
        question = asked.get(request.path_params["id"])
        if question is None:
            return openai_error(404, "That question is not in progress.")
        question.stop()
        return JSONResponse({"stopped": True})

    async def questions(_request: Request) -> Response:
        return JSONResponse({"questions": await site.query_worker.suggest_questions(5)})

    return [
        Route("/api/ask", begin, methods=["POST"]),
        Route("/api/ask/{id}", stop, methods=["DELETE"]),
        Route("/api/questions", questions),
        Route("/api/conversations", read_handler(site, _conversations)),
        Route("/api/conversations/{id:int}", read_handler(site, _conversation)),
        Route("/api/conversations/{id:int}", write_handler(site, _erase, 200), methods=["DELETE"]),
        Route("/api/answers/{id:int}", read_handler(site, _stored_answer)),
        Route("/api/answers/{id:int}/citations/{n:int}", read_handler(site, _citation)),
    ]


def model_routes(site: ServerContext) -> list[Route]:
    """Routes of the chat models on this machine, and of the choice among them."""

    def models(_request: Request) -> Response:
        return JSONResponse({"models": _chat_models(), "answers_with": site.query_worker.answers_with})

    return [Route("/api/models", models), Route("/api/models/{name:path}", write_handler(site, _choose_model, 200), methods=["POST"])]


def _chat_models() -> list[str]:
    return [row["name"] for row in list_models() if row["kind"] == "chat" and not row["problem"]]


def _choose_model(request: Request, site: ServerContext) -> dict[str, Any]:
    name, names = request.path_params["name"], _chat_models()
    if name not in names:
        raise UsageError(f"There is no chat model {name!r} on the list.", f"There are: {', '.join(names)}")
    site.query_worker.use_model(name)
    return {"answers_with": name}


async def _events(name: str, asked: RunningQuestion) -> AsyncIterator[dict[str, Any] | None]:
    yield {"event": "started", "id": name}
    stream = NeutralStream()
    async for kind, value in question_events(asked):
        if kind == "text":
            yield {"event": "text"} | serializers.serialize_part(value, stream)
        elif kind == "citation":
            yield {"event": "citation", "citation": serializers.serialize_citation(value)}
        else:
            yield {"event": kind, "text": value} if value is not None else None
    if asked.is_stopped and asked.task.cancelled():
        answer = asked.stored_answers[-1] if asked.stored_answers else Answer("", "", "", note=STOPPED_NOTE)
        yield {"event": "done", "answer": serializers.serialize_answer(answer), "stopped": True}
        return
    try:
        yield {"event": "done", "answer": serializers.serialize_answer(asked.task.result()), "stopped": False}
    except Exception as failed:  # noqa: BLE001 — any failure becomes an error event, and the server keeps running
        yield {"event": "error", **json.loads(bytes(error_response(failed).body))}


def _parse_options(body: dict[str, Any]) -> QueryOptions:
    def number(name: str) -> int | None:
        value = None if body.get(name) is None else read_int(name, body[name])
        if value is not None and not 0 <= value < MAX_NUMBER:
            raise ValueError(f"`{name}` is a whole number of at least 0, and no larger than any that there is.")
        return value

    max_seconds = body.get("max_seconds")
    return QueryOptions(
        str(body.get("mode") or "auto"),
        number("level"),
        strict=read_bool("strict", body.get("strict")),
        max_seconds=None if max_seconds is None else read_number("max_seconds", max_seconds, 0, MAX_NUMBER),
        conversation=number("conversation"),
        selection=document_filter_of(body),
    )


def _conversations(request: Request, db: Database) -> Any:
    limit = query_int(request, "limit", 1, MAX_CONVERSATIONS, MAX_CONVERSATIONS)
    return {"conversations": answers.conversations(db, limit), "programs": answers.conversations(db, limit, by_program=True)}


def _conversation(request: Request, db: Database) -> Any:
    key = request.path_params["id"]
    stored = [serializers.serialize_answer(answer, at=at) for at, answer in answers.conversation_with_times(db, key)]
    if not stored:
        raise NotFound(f"There is no conversation {key}.")
    return {"id": key, "answers": stored}


def _erase(request: Request, site: ServerContext) -> dict[str, Any]:
    key = request.path_params["id"]
    if site.query_worker.question_counts["active"]:  # it reads the index, and may belong to the conversation
        raise IndexBusy("A question is being answered.", "Wait for its answer, or stop it. Then delete the conversation.")
    with snapshot(site.folder) as db:
        if not answers.conversation(db, key):
            raise NotFound(f"There is no conversation {key}.")
    with writer_lock(site.folder), closing(open_index(site.folder)) as db:
        erasure.erase_conversations(db, site.folder, [key])
    return {"deleted": key}


def _answer_of_request(request: Request, db: Database) -> tuple[str, Answer]:
    key = request.path_params["id"]
    answer = answers.answer_by_id(db, key)
    if answer is None:
        raise NotFound(f"There is no answer {key}.")
    return answer


def _stored_answer(request: Request, db: Database) -> Any:
    at, answer = _answer_of_request(request, db)
    return serializers.serialize_answer(answer, at=at)


def _citation(request: Request, db: Database) -> Any:
    _, answer = _answer_of_request(request, db)
    n = request.path_params["n"]
    citation = next((c for c in answer.citations if c.n == n), None)
    if citation is None:
        raise NotFound(f"The answer {answer.id} has no citation {n}.")
    return serializers.locate_citation(citation, db)


PAGE_SIZE = 100  # files per response
MAX_COMPLETIONS = 10  # entities or reports suggested for a name
MAX_PASSAGES = 50


def browse_routes(site: ServerContext) -> list[Route]:
    """Routes that read documents, entities, relationships, communities, reports and passages."""

    async def search(request: Request) -> Response:
        query = request.query_params.get("q", "").strip()
        if not query or len(query) > MAX_QUESTION_CHARS:
            raise ValueError(f"`q` is a text of 1 to {MAX_QUESTION_CHARS} characters.")
        k, documents = query_int(request, "k", 1, MAX_PASSAGES, 10), document_filter_of(request.query_params) or NO_FILTER
        try:
            return JSONResponse({"passages": await site.query_worker.search(query, k, documents), "note": ""})
        except NoMatchingDocuments as nothing:
            return JSONResponse({"passages": [], "note": f"{nothing} {nothing.hint}"})

    def path(request: Request, db: Database) -> Any:
        ends = (request.query_params.get("from", ""), request.query_params.get("to", ""))
        return serializers.shortest_path(*ends, OpenIndex(site.root, site.folder, db))

    def themes(_: Request, db: Database) -> Any:
        return {"themes": serializers.serialize_themes(stored_themes(db, site.folder), db)}

    return [
        Route("/api/documents", read_handler(site, _documents)),
        Route("/api/documents/{id}", read_handler(site, _document)),
        Route("/api/search", search),
        Route("/api/names", read_handler(site, _names)),
        Route("/api/entities/{id}", read_handler(site, lambda request, db: serializers.serialize_entity(request.path_params["id"], db))),
        Route(
            "/api/relationships/{id}",
            read_handler(site, lambda request, db: serializers.serialize_relationship(request.path_params["id"], db)),
        ),
        Route("/api/path", read_handler(site, path)),
        Route("/api/themes", read_handler(site, themes)),
        Route("/api/communities", read_handler(site, _communities)),
        Route("/api/reports/{id}", read_handler(site, lambda request, db: serializers.serialize_report(request.path_params["id"], db))),
    ]


def _documents(request: Request, db: Database) -> Any:
    asked = request.query_params
    total, rows = browse.list_files(
        db,
        state=asked.get("state", ""),
        text=asked.get("q", ""),
        offset=query_int(request, "offset", 0, 1 << 40, 0),
        limit=query_int(request, "limit", 1, PAGE_SIZE, PAGE_SIZE),
    )
    return {"total": total, "states": browse.file_states(db), "documents": rows}


def _document(request: Request, db: Database) -> Any:
    asked, max_offset = request.query_params, 1 << 40
    mark = None
    if "mark" in asked:
        match = re.fullmatch(r"(\d{1,12})-(\d{1,12})", asked["mark"], re.ASCII)
        if not match:
            raise ValueError("`mark` is the first character and the one after the last: 120-160.")
        mark = (int(match[1]), int(match[2]))
    start, end = (query_int(request, name, 0, max_offset) if name in asked else None for name in ("from", "to"))
    return serializers.serialize_document(db, request.path_params["id"], start, end, mark)


def _names(request: Request, db: Database) -> Any:
    text = request.query_params.get("q", "").strip()[:200]
    reports = browse.reports_titled(db, text, MAX_COMPLETIONS) if text else []
    titles = [{"id": r["id"], "number": serializers.community_number(r), "level": r["level"], "title": r["title"]} for r in reports]
    return {"entities": browse.search_entity_names(db, text, MAX_COMPLETIONS) if text else [], "reports": titles}


def _communities(request: Request, db: Database) -> Any:
    level = query_int(request, "level", 0, 1 << 20) if "level" in request.query_params else None
    return {"communities": serializers.serialize_communities(db, level)}


MAX_IDS = 500  # per request
_view_lock = Lock()


def cached_graph_view(site: ServerContext, db: Database) -> GraphView:
    """The graph view of the index as `db` sees it, cached until the graph changes."""
    state = layout.layout_state(db)
    with _view_lock:
        memory = caches_of(site.folder)
        cached_state, cached = memory.get("picture", ("", None))
        if isinstance(cached, GraphView) and cached_state == state:
            return cached
        view = build_graph_view(db, state)
        memory["picture"] = (state, view)
    return view


def graph_routes(site: ServerContext) -> list[Route]:
    """Routes of the graph view, and of the names of its nodes."""

    def block(request: Request) -> Response:
        with snapshot(site.folder) as db:
            return _graph_view_response(request, cached_graph_view(site, db))

    def of_numbers(request: Request) -> Response:
        with snapshot(site.folder) as db:
            view = cached_graph_view(site, db)
            if (other := _stale_view_error(request, view)) is not None:
                return other
            return JSONResponse({"graph": view.etag, **_names_of_numbers(request, db, view)})

    def number(request: Request) -> Response:
        asked = request.query_params
        with snapshot(site.folder) as db:
            view = cached_graph_view(site, db)
        numbers = [("entity", view.entity_numbers.get(i), i) for i in asked.getlist("entity")[:MAX_IDS]]
        numbers += [("community", view.community_numbers.get(i), i) for i in asked.getlist("community")[:MAX_IDS]]
        if not numbers:
            raise ValueError("`entity` or `community` is the id of one.")
        for kind, n, i in numbers:
            if n is None:
                raise serializers.NotFound(f"There is no {kind} {i} in the picture of the graph.")
        return JSONResponse({"graph": view.etag, "number": numbers[0][1], "numbers": [n for _, n, _ in numbers]})

    return [
        Route("/api/graph.bin", block),
        Route("/api/graph/names", of_numbers),
        Route("/api/graph/communities", of_numbers),
        Route("/api/graph/number", number),
    ]


def _graph_view_response(request: Request, view: GraphView) -> Response:
    headers = {"etag": f'"{view.etag}"', "x-graph": view.etag, "cache-control": "private, no-cache"}
    if request.headers.get("if-none-match") == headers["etag"]:
        return Response(status_code=304, headers=headers)
    return Response(view.data, headers=headers, media_type="application/octet-stream")


def _stale_view_error(request: Request, view: GraphView) -> Response | None:
    """409 if a request names another graph view than the current one, whose node numbers would mean something else; else None."""
    if request.query_params.get("graph", view.etag) == view.etag:
        return None
    return openai_error(409, "The graph has changed.", code="other_graph", hint="Load the picture again.")


def _names_of_numbers(request: Request, db: Database, view: GraphView) -> dict[str, Any]:
    asked = request.query_params.get("numbers", "")
    try:
        numbers = [int(n) for n in asked.split(",")]
    except ValueError:
        raise ValueError("`numbers` are whole numbers with commas between them: 1,2,3.") from None
    if len(numbers) > MAX_IDS:
        raise ValueError(f"`numbers` are at most {MAX_IDS}.")
    kind = request.url.path.rpartition("/")[2]
    node_ids = view.entities if kind == "names" else view.communities
    ids = {n: node_ids[n] for n in numbers if 0 <= n < len(node_ids)}
    labels = (layout.node_labels if kind == "names" else browse.community_labels)(db, list(ids.values()))
    rows = [{"number": n} | labels[i] for n, i in ids.items() if i in labels]
    if kind == "communities":
        rows = [{k: v for k, v in row.items() if k != "ordinal"} | {"label": serializers.community_number(row)} for row in rows]
    return {kind: rows}
