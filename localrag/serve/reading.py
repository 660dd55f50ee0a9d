"""What the page shows of an index: documents, entities, relationships, communities, reports, passages."""

import re
from typing import Any

from sqlite_utils import Database
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from localrag import contents
from localrag.project import Opened
from localrag.query.answer import LONGEST_QUESTION
from localrag.serve.documents import selection_of
from localrag.serve.site import Site, number, read
from localrag.store import look
from localrag.store.selection import NothingSelected
from localrag.where import EVERYTHING

PAGE = 100  # files listed at once
NAMES = 10  # entities or reports offered for a name
PASSAGES = 50


def routes(site: Site) -> list[Route]:
    """Everything that only reads."""

    async def search(request: Request) -> Response:
        query = request.query_params.get("q", "").strip()
        if not query or len(query) > LONGEST_QUESTION:
            raise ValueError(f"`q` is a text of 1 to {LONGEST_QUESTION} characters.")
        k, documents = number(request, "k", 1, PASSAGES, 10), selection_of(request.query_params) or EVERYTHING
        try:
            return JSONResponse({"passages": await site.worker.search(query, k, documents), "note": ""})
        except NothingSelected as nothing:
            return JSONResponse({"passages": [], "note": f"{nothing} {nothing.hint}"})

    def path(request: Request, db: Database) -> Any:
        ends = (request.query_params.get("from", ""), request.query_params.get("to", ""))
        return contents.path_between(*ends, Opened(site.root, site.folder, db))

    return [
        Route("/api/documents", read(site, _documents)),
        Route("/api/documents/{id}", read(site, _document)),
        Route("/api/search", search),
        Route("/api/names", read(site, _names)),
        Route("/api/entities/{id}", read(site, lambda request, db: contents.entity(request.path_params["id"], db))),
        Route("/api/relationships/{id}", read(site, lambda request, db: contents.relationship(request.path_params["id"], db))),
        Route("/api/path", read(site, path)),
        Route("/api/communities", read(site, _communities)),
        Route("/api/reports/{id}", read(site, lambda request, db: contents.report(request.path_params["id"], db))),
    ]


def _documents(request: Request, db: Database) -> Any:
    asked = request.query_params
    total, rows = look.listed_files(
        db,
        state=asked.get("state", ""),
        text=asked.get("q", ""),
        offset=number(request, "offset", 0, 1 << 40, 0),
        limit=number(request, "limit", 1, PAGE, PAGE),
    )
    return {"total": total, "states": look.file_states(db), "documents": rows}


def _document(request: Request, db: Database) -> Any:
    asked, most = request.query_params, 1 << 40
    mark = None
    if "mark" in asked:
        found = re.fullmatch(r"(\d{1,12})-(\d{1,12})", asked["mark"], re.ASCII)
        if not found:
            raise ValueError("`mark` is the first character and the one after the last: 120-160.")
        mark = (int(found[1]), int(found[2]))
    start, end = (number(request, name, 0, most) if name in asked else None for name in ("from", "to"))
    return contents.document(db, request.path_params["id"], start, end, mark)


def _names(request: Request, db: Database) -> Any:
    text = request.query_params.get("q", "").strip()[:200]
    reports = look.reports_titled(db, text, NAMES) if text else []
    found = [{"id": r["id"], "number": contents.number(r), "level": r["level"], "title": r["title"]} for r in reports]
    return {"entities": look.named_like(db, text, NAMES) if text else [], "reports": found}


def _communities(request: Request, db: Database) -> Any:
    level = number(request, "level", 0, 1 << 20) if "level" in request.query_params else None
    return {"communities": contents.communities(db, level)}
