"""Where entities and communities lie in the picture of the graph, as rows."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlite_utils import Database

from localrag.records import CommunityLink, Layout, Place


def load(db: Database) -> Layout:
    """The places of the published graph."""
    return Layout(
        tuple(Place(*row) for row in db.execute("SELECT entity_id, x, y, r FROM places ORDER BY entity_id")),
        tuple(Place(*row) for row in db.execute("SELECT community_id, x, y, r FROM community_places ORDER BY community_id")),
        load_links(db),
        tuple(db.execute("SELECT entity_id, vector FROM structural_vectors ORDER BY entity_id").fetchall()),
    )


def load_links(db: Database) -> tuple[CommunityLink, ...]:
    """The links between communities."""
    return tuple(CommunityLink(*row) for row in db.execute("SELECT level, a, b, weight FROM community_links ORDER BY level, a, b"))


def points(db: Database, entities: Iterable[str]) -> dict[str, tuple[float, float, float]]:
    """Entity id → centre and radius, of those that have a place."""
    return _some(db, "places", "entity_id", entities)


def circles(db: Database, communities: Iterable[str]) -> dict[str, tuple[float, float, float]]:
    """Community id → centre and radius, of those that have a place."""
    return _some(db, "community_places", "community_id", communities)


def _some(db: Database, table: str, key: str, ids: Iterable[str]) -> dict[str, tuple[float, float, float]]:
    rows = db.execute(f"SELECT {key}, x, y, r FROM main.{table} WHERE {key} IN (SELECT value FROM json_each(?))", [json.dumps(sorted(ids))])
    return {i: (x, y, r) for i, x, y, r in rows}


def change(db: Database, layout: Layout) -> None:
    """Put places and links of a part of the graph in place of those it had, in the caller's transaction; what is gone took its own."""
    for table, key, some in (("places", "entity_id", layout.entities), ("community_places", "community_id", layout.communities)):
        known = _some(db, table, key, (p.id for p in some))
        _put(db, table, key, (Place(i, *circle) for i, circle in known.items()), some)
    rows = ((link.level, link.a, link.b, link.weight) for link in layout.links)
    put = "INSERT INTO community_links (level, a, b, weight) VALUES (?, ?, ?, ?) ON CONFLICT (a, b) DO UPDATE SET weight = excluded.weight"
    db.conn.executemany(put, rows)


def put(db: Database, layout: Layout) -> None:
    """Make a layout the stored one, in the caller's transaction: rows that are as they should be are not written."""
    known = load(db)
    _put(db, "places", "entity_id", known.entities, layout.entities)
    _put(db, "community_places", "community_id", known.communities, layout.communities)
    _put_vectors(db, dict(known.vectors), dict(layout.vectors))
    if set(known.links) != set(layout.links):
        db.execute("DELETE FROM community_links")
        rows = ((link.level, link.a, link.b, link.weight) for link in layout.links)
        db.conn.executemany("INSERT INTO community_links (level, a, b, weight) VALUES (?, ?, ?, ?)", rows)


def _put(db: Database, table: str, key: str, known: Iterable[Place], places: Iterable[Place]) -> None:
    old, new = {p.id: p for p in known}, {p.id: p for p in places}
    db.conn.executemany(f"DELETE FROM {table} WHERE {key} = ?", ((i,) for i in old if i not in new))
    rows = ((p.id, p.x, p.y, p.r) for i, p in new.items() if old.get(i) != p)
    update = "x = excluded.x, y = excluded.y, r = excluded.r"
    db.conn.executemany(f"INSERT INTO {table} ({key}, x, y, r) VALUES (?, ?, ?, ?) ON CONFLICT ({key}) DO UPDATE SET {update}", rows)


def _put_vectors(db: Database, old: Mapping[str, bytes], new: Mapping[str, bytes]) -> None:
    db.conn.executemany("DELETE FROM structural_vectors WHERE entity_id = ?", ((i,) for i in old if i not in new))
    rows = ((i, vector) for i, vector in new.items() if old.get(i) != vector)
    put = "INSERT INTO structural_vectors (entity_id, vector) VALUES (?, ?) ON CONFLICT (entity_id) DO UPDATE SET vector = excluded.vector"
    db.conn.executemany(put, rows)


def structural_vectors(db: Database) -> tuple[list[str], NDArray[np.float32]]:
    """The entities that have a structural vector, by id, and the vectors, (n, d) float32; none where `localrag layout` was never run."""
    rows = db.execute("SELECT entity_id, vector FROM structural_vectors ORDER BY entity_id").fetchall()
    if not rows:
        return [], np.empty((0, 0), np.float32)
    return [i for i, _ in rows], np.frombuffer(b"".join(vector for _, vector in rows), "<f4").reshape(len(rows), -1)


def without_vector(db: Database) -> list[str]:
    """The ids of entities that have no structural vector."""
    return [i for (i,) in db.execute("SELECT id FROM entities WHERE id NOT IN (SELECT entity_id FROM structural_vectors)")]


def without_place(db: Database) -> list[str]:
    """The ids of entities and communities that have no place."""
    missing = "SELECT id FROM entities WHERE id NOT IN (SELECT entity_id FROM places)"
    missing += " UNION ALL SELECT id FROM communities WHERE id NOT IN (SELECT community_id FROM community_places)"
    return [key for (key,) in db.execute(missing)]


def complete(db: Database) -> bool:
    """Whether every published entity and community has a place."""
    return not db.execute(
        "SELECT EXISTS (SELECT id FROM main.entities EXCEPT SELECT entity_id FROM main.places)"
        " OR EXISTS (SELECT id FROM main.communities EXCEPT SELECT community_id FROM main.community_places)"
    ).fetchone()[0]


def counts(db: Database) -> dict[str, Any]:
    """How many entities and communities have a place."""
    row = db.execute("SELECT (SELECT count(*) FROM places), (SELECT count(*) FROM community_places)").fetchone()
    return {"entities": row[0], "communities": row[1]}


def state(db: Database) -> str:
    """A text that changes when the graph's picture does."""
    kept = "(SELECT group_concat(value) FROM (SELECT value FROM settings WHERE key IN ('graph', 'layout') ORDER BY key))"
    counts = ", ".join(f"(SELECT max(rowid) || ' ' || count(*) FROM {t})" for t in ("entities", "relationships", "communities", "places"))
    return repr(db.execute(f"SELECT {kept}, {counts}").fetchone())


def placed_entities(db: Database) -> list[tuple[str, str, float, float, float]]:
    """Entities that have a place, those with most relationships first: id, type, x, y, r."""
    select = "SELECT e.id, e.type, p.x, p.y, p.r FROM entities e JOIN places p ON p.entity_id = e.id"
    return db.execute(f"{select} ORDER BY e.degree DESC, e.id").fetchall()


def placed_communities(db: Database) -> list[tuple[str, int, str | None, float, float, float]]:
    """Communities that have a place, the coarsest and largest first: id, level, parent, x, y, r."""
    select = "SELECT c.id, c.level, c.parent_id, p.x, p.y, p.r FROM communities c JOIN community_places p ON p.community_id = c.id"
    return db.execute(f"{select} ORDER BY c.level, c.ordinal").fetchall()


def memberships(db: Database) -> list[tuple[str, str]]:
    """Entities with the communities they are in that have none below them."""
    above = "SELECT parent_id FROM communities WHERE parent_id IS NOT NULL"
    return db.execute(f"SELECT entity_id, community_id FROM members WHERE community_id NOT IN ({above})").fetchall()


def sizes(db: Database) -> dict[str, int]:
    """Community id → number of its entities."""
    return dict(db.execute("SELECT community_id, count(*) FROM members GROUP BY 1"))


def joined(db: Database) -> list[tuple[str, str, float]]:
    """The two ends and the weight of every relationship, the heaviest first."""
    return db.execute("SELECT source_id, target_id, weight FROM relationships ORDER BY weight DESC, id").fetchall()


def names_of(db: Database, ids: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Id, name, type and degree of entities, by id."""
    rows = db.query("SELECT id, name, type, degree FROM entities WHERE id IN (SELECT value FROM json_each(?))", [json.dumps(list(ids))])
    return {row["id"]: row for row in rows}


def titles_of(db: Database, ids: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Id, level, number and title of communities, by id; an empty title where there is no report."""
    rows = db.query(
        "SELECT c.id, c.level, c.ordinal, coalesce(r.title, '') AS title FROM communities c"
        " LEFT JOIN reports r ON r.community_id = c.id WHERE c.id IN (SELECT value FROM json_each(?))",
        [json.dumps(list(ids))],
    )
    return {row["id"]: row for row in rows}
