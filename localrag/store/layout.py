"""Layout of the graph view: positions of entities and communities, edges between communities."""

import json
from collections.abc import Sequence
from typing import Any

from sqlite_utils import Database

from localrag.records import CommunityEdge, GraphLayout, Position


def load_layout(db: Database) -> GraphLayout:
    """The layout of the published graph."""
    return GraphLayout(
        tuple(Position(*row) for row in db.execute("SELECT entity_id, x, y, r FROM entity_positions ORDER BY entity_id")),
        tuple(Position(*row) for row in db.execute("SELECT community_id, x, y, r FROM community_positions ORDER BY community_id")),
        load_community_edges(db),
    )


def load_community_edges(db: Database) -> tuple[CommunityEdge, ...]:
    """The edges between communities."""
    edges = db.execute("SELECT level, source_id, target_id, weight FROM community_edges ORDER BY 1, 2, 3")
    return tuple(CommunityEdge(*row) for row in edges)


def save_layout(db: Database, layout: GraphLayout) -> None:
    """Replace the stored layout, in the caller's transaction."""
    for table, positions in (("entity_positions", layout.entities), ("community_positions", layout.communities)):
        db.execute(f"DELETE FROM {table}")
        db.conn.executemany(f"INSERT INTO {table} VALUES (?, ?, ?, ?)", ((p.id, p.x, p.y, p.r) for p in positions))
    db.execute("DELETE FROM community_edges")
    db.conn.executemany("INSERT INTO community_edges VALUES (?, ?, ?, ?)", ((e.level, e.a, e.b, e.weight) for e in layout.edges))


def subjects_without_position(db: Database) -> list[str]:
    """The ids of entities and communities without a position."""
    missing = "SELECT id FROM entities WHERE id NOT IN (SELECT entity_id FROM entity_positions)"
    missing += " UNION ALL SELECT id FROM communities WHERE id NOT IN (SELECT community_id FROM community_positions)"
    return [key for (key,) in db.execute(missing)]


def layout_state(db: Database) -> str:
    """A string that changes whenever the graph view does."""
    hashes = "(SELECT group_concat(value) FROM (SELECT value FROM index_settings WHERE key IN ('graph_hash', 'layout_hash') ORDER BY key))"
    tables = "entities", "relationships", "communities", "entity_positions"
    counts = ", ".join(f"(SELECT max(rowid) || ' ' || count(*) FROM {t})" for t in tables)
    return repr(db.execute(f"SELECT {hashes}, {counts}").fetchone())


def positioned_entities(db: Database) -> list[tuple[str, str, float, float, float]]:
    """Entities with a position, highest degree first: id, type, x, y, r."""
    select = "SELECT e.id, e.type, p.x, p.y, p.r FROM entities e JOIN entity_positions p ON p.entity_id = e.id"
    return db.execute(f"{select} ORDER BY e.degree DESC, e.id").fetchall()


def positioned_communities(db: Database) -> list[tuple[str, int, str | None, float, float, float]]:
    """Communities with a position, the coarsest and largest first: id, level, parent, x, y, r."""
    select = "SELECT c.id, c.level, c.parent_id, p.x, p.y, p.r FROM communities c JOIN community_positions p ON p.community_id = c.id"
    return db.execute(f"{select} ORDER BY c.level, c.ordinal").fetchall()


def deepest_communities(db: Database) -> list[tuple[str, str]]:
    """Entities with the ids of their communities that have no child."""
    parents = "SELECT parent_id FROM communities WHERE parent_id IS NOT NULL"
    return db.execute(f"SELECT entity_id, community_id FROM community_members WHERE community_id NOT IN ({parents})").fetchall()


def community_sizes(db: Database) -> dict[str, int]:
    """Community id → number of its entities."""
    return dict(db.execute("SELECT community_id, count(*) FROM community_members GROUP BY 1"))


def relationship_edges(db: Database) -> list[tuple[str, str, float]]:
    """The two entities and the weight of every relationship, the heaviest first."""
    return db.execute("SELECT source_id, target_id, weight FROM relationships ORDER BY weight DESC, id").fetchall()


def node_labels(db: Database, ids: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Id, name, type and degree of entities, by id."""
    rows = db.query("SELECT id, name, type, degree FROM entities WHERE id IN (SELECT value FROM json_each(?))", [json.dumps(list(ids))])
    return {row["id"]: row for row in rows}
