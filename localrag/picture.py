"""The graph's picture: places and relationships as one block of numbers, for the page and for an exported page.

The block is little-endian: twelve numbers of 32 bits (mark, version, how many nodes, relationships, communities, links, where each of these
parts begins and the last ends, how long the rest is), the parts column by column, and JSON with the picture's tag and the types. Nodes
stand in the order of their rank, relationships in that of their weight, communities before those below them; all are known by their
numbers. A tag names the picture of one generation.
"""

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlite_utils import Database

from localrag.records import content_id
from localrag.store import places

MARK, VERSION = 0x3147524C, 1  # "LRG1"
HEADER = 12  # numbers
NONE = 0xFFFFFFFF


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
