"""The graph's picture for the page: places and relationships as one block of numbers, names on request.

The block is little-endian: twelve numbers of 32 bits (mark, version, how many nodes, relationships, communities, links, where each of these
parts begins and the last ends, how long the rest is), the parts column by column, and JSON with the picture's tag and the types. Nodes
stand in the order of their rank, relationships in that of their weight, communities before those below them; all are known by their
numbers. A tag names the picture of one generation; names are not given for another one's numbers.
"""

import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlite_utils import Database
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from localrag import contents
from localrag.records import content_id
from localrag.serve.guard import error
from localrag.serve.site import Site
from localrag.store import places
from localrag.store.connect import snapshot

MARK, VERSION = 0x3147524C, 1  # "LRG1"
MOST = 500  # names at once
HEADER = 12  # numbers
NONE = 0xFFFFFFFF
NEAR = ("127.", "::1", "localhost")  # clients for whom packing takes longer than sending
_kept: dict[Path, "Picture"] = {}
_making = Lock()


@dataclass(frozen=True, slots=True)
class Picture:
    """The picture of one generation: its tag, the block, and what its numbers stand for.

    `communities` are those drawn; `drawn` is the number by which any community is: one that is all of the one above it is that one's.
    """

    state: str
    tag: str
    data: bytes
    entities: tuple[str, ...]
    communities: tuple[str, ...]
    drawn: dict[str, int]
    numbers: dict[str, int]


def payload(db: Database) -> bytes:
    """The picture of the published graph, as the page reads it."""
    return make_picture(db, places.state(db)).data


def make_picture(db: Database, state: str) -> Picture:
    """The picture of the published graph; entities and communities without a place are not in it."""
    nodes = places.placed_entities(db)
    numbers = {row[0]: n for n, row in enumerate(nodes)}
    listed, drawn, below, size = _communities(db, numbers)
    circles = np.array([row[3:6] for row in listed], "<f4").reshape(-1, 3)
    tree = np.array([(row[1], drawn.get(row[2] or "", NONE)) for row in listed], "<u4").reshape(-1, 2)
    types = sorted({row[1] for row in nodes})
    kind = {name: n for n, name in enumerate(types)}
    spots = np.array([row[2:5] for row in nodes], "<f4").reshape(-1, 3)
    sorts = np.array([kind[row[1]] for row in nodes], "<u4")
    rows = [(numbers[a], numbers[b], w) for a, b, w in places.joined(db) if a in numbers and b in numbers]
    links = _links(db, drawn)
    tag = content_id("picture", VERSION, state)
    parts = [
        _block(*spots.T, below, sorts),
        _block(*_ends(rows)),
        _block(*circles.T, *tree.T, size),
        _block(*_ends(links)),
    ]
    rest = json.dumps({"graph": tag, "types": types}, ensure_ascii=False).encode()
    offsets = np.cumsum([HEADER * 4, *map(len, parts)])
    header = np.array([MARK, VERSION, len(nodes), len(rows), len(listed), len(links), *offsets, len(rest)], "<u4")
    data = b"".join([header.tobytes(), *parts, rest])
    return Picture(state, tag, data, tuple(numbers), tuple(row[0] for row in listed), drawn, numbers)


def _communities(db: Database, numbers: dict[str, int]) -> tuple[list[Any], dict[str, int], NDArray[Any], NDArray[Any]]:
    """The communities to draw; every community's number among them; each node's deepest one; how many entities each has."""
    known, sizes = places.placed_communities(db), places.sizes(db)
    listed: list[Any] = []
    drawn: dict[str, int] = {}
    for row in known:
        parent = row[2] or ""
        if parent in drawn and sizes[parent] == sizes[row[0]]:
            drawn[row[0]] = drawn[parent]
        else:
            drawn[row[0]] = len(listed)
            listed.append(row)
    below = np.full(len(numbers), NONE, "<u4")
    for entity, community in places.memberships(db):
        if entity in numbers and community in drawn:
            below[numbers[entity]] = drawn[community]
    return listed, drawn, below, np.array([sizes.get(row[0], 0) for row in listed], "<u4")


def _links(db: Database, drawn: dict[str, int]) -> list[tuple[int, int, float]]:
    found: dict[tuple[int, int], float] = {}
    for link in places.load_links(db):
        a, b = sorted((drawn[link.a], drawn[link.b]))
        found[a, b] = max(link.weight, found.get((a, b), 0.0))
    return sorted(((a, b, w) for (a, b), w in found.items()), key=lambda row: -row[2])


def _ends(rows: list[tuple[int, int, float]]) -> tuple[NDArray[Any], NDArray[Any]]:
    return np.array([row[:2] for row in rows], "<u4").reshape(-1), np.array([row[2] for row in rows], "<f4")


def _block(*columns: NDArray[Any]) -> bytes:
    return b"".join(np.ascontiguousarray(column).tobytes() for column in columns)


def picture(site: Site, db: Database) -> Picture:
    """The picture of the graph in the index as `db` sees it; it is kept until the graph is another one."""
    state = places.state(db)
    with _making:
        kept = _kept.get(site.folder)
        if kept is None or kept.state != state:
            kept = _kept[site.folder] = make_picture(db, state)
    return kept


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
