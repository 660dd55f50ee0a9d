"""The graph's picture for the page: the block of `picture.py`, names on request; they are not given for another picture's numbers."""

import gzip
from threading import Lock
from typing import Any

from sqlite_utils import Database
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from localrag import contents
from localrag.picture import Picture, make_picture
from localrag.serve.guard import error
from localrag.serve.site import Site
from localrag.store import places
from localrag.store.connect import snapshot
from localrag.store.memory import memory_of

MOST = 500  # names at once
NEAR = ("127.", "::1", "localhost")  # clients for whom packing takes longer than sending
_making = Lock()


def picture(site: Site, db: Database) -> Picture:
    """The picture of the graph in the index as `db` sees it; it is kept until the graph is another one."""
    state = places.state(db)
    with _making:
        memory = memory_of(site.folder)
        before, kept = memory.get("picture", ("", None))
        if isinstance(kept, Picture) and before == state:
            return kept
        made = make_picture(db, state)
        memory["picture"] = (state, made)
    return made


def routes(site: Site) -> list[Route]:
    """The picture, and what its numbers stand for."""

    def block(request: Request) -> Response:
        with snapshot(site.folder) as db:
            return _answer(request, picture(site, db))

    def of_numbers(request: Request) -> Response:
        with snapshot(site.folder) as db:
            made = picture(site, db)
            if (other := _of_another(request, made)) is not None:
                return other
            return JSONResponse({"graph": made.tag, **_named(request, db, made)})

    def number(request: Request) -> Response:
        asked = request.query_params
        with snapshot(site.folder) as db:
            made = picture(site, db)
        found = [("entity", made.numbers.get(i), i) for i in asked.getlist("entity")[:MOST]]
        found += [("community", made.drawn.get(i), i) for i in asked.getlist("community")[:MOST]]
        if not found:
            raise ValueError("`entity` or `community` is the id of one.")
        for kind, n, i in found:
            if n is None:
                raise contents.Unknown(f"There is no {kind} {i} in the picture of the graph.")
        return JSONResponse({"graph": made.tag, "number": found[0][1], "numbers": [n for _, n, _ in found]})

    return [
        Route("/api/graph.bin", block),
        Route("/api/graph/names", of_numbers),
        Route("/api/graph/communities", of_numbers),
        Route("/api/graph/number", number),
    ]


def _answer(request: Request, made: Picture) -> Response:
    headers = {"etag": f'"{made.tag}"', "x-graph": made.tag, "vary": "accept-encoding", "cache-control": "private, no-cache"}
    if request.headers.get("if-none-match") == headers["etag"]:
        return Response(status_code=304, headers=headers)
    data, here = made.data, request.client is not None and request.client.host.startswith(NEAR)
    if not here and "gzip" in request.headers.get("accept-encoding", ""):
        data = gzip.compress(data, 1)
        headers["content-encoding"] = "gzip"
    return Response(data, headers=headers, media_type="application/octet-stream")


def _of_another(request: Request, made: Picture) -> Response | None:
    """A refusal, where numbers of another picture are asked for."""
    if request.query_params.get("graph", made.tag) == made.tag:
        return None
    return error(409, "The graph is another one now.", code="other_graph", hint="Load the picture again.")


def _named(request: Request, db: Database, made: Picture) -> dict[str, Any]:
    asked = request.query_params.get("numbers", "")
    try:
        numbers = [int(n) for n in asked.split(",")]
    except ValueError:
        raise ValueError("`numbers` are whole numbers with commas between them: 1,2,3.") from None
    if len(numbers) > MOST:
        raise ValueError(f"`numbers` are at most {MOST}.")
    kind = request.url.path.rpartition("/")[2]
    known = made.entities if kind == "names" else made.communities
    ids = {n: known[n] for n in numbers if 0 <= n < len(known)}
    found = (places.names_of if kind == "names" else places.titles_of)(db, list(ids.values()))
    rows = [{"number": n} | found[i] for n, i in ids.items() if i in found]
    if kind == "communities":
        rows = [{k: v for k, v in row.items() if k != "ordinal"} | {"label": contents.number(row)} for row in rows]
    return {kind: rows}
