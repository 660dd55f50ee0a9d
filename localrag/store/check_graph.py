"""Is the graph in an index as it must be? Part of `check`."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlite_utils import Database

from localrag.pagerank import Ids
from localrag.store import ledger, places
from localrag.store.wrong import Wrong, finished, one, rows, some_of
from localrag.text.plain import squeeze

AT_ONCE = 100_000  # rows read from the database


def _graph_wrong(db: Database, found: list[tuple[str, list[Any]]]) -> list[Wrong]:
    """What is wrong with the graph; it is due where the graph is going to be built anew."""
    due = "graph" not in ledger.settings(db) or not finished(db)
    return [Wrong(f"{len(keys)} {what}: {some_of(keys)}", "graph", tuple(keys), due) for what, keys in found if keys]


def mentions(db: Database) -> tuple[str, list[Wrong]]:
    """Mentions, evidence and claims lie in their chunks, and a mention's name is the text at its place."""
    inside = "x.start >= c.start AND x.start < x.end AND x.end <= c.end"
    joined = "x JOIN chunks c ON c.id = x.chunk_id JOIN documents d ON d.id = c.document_id"
    shown = "d.path || ':' || x.start || '-' || x.end"
    found = []
    for table in ("mentions", "evidence", "claims"):
        keys = [k for (k,) in rows(db, f"SELECT {shown} FROM {table} {joined} WHERE NOT ({inside})")]
        found.append((f"{table} outside their chunk", keys))
    text = "substr(c.text, x.start - c.start + 1, x.end - x.start)"
    named = rows(db, f"SELECT {shown}, x.name, {text} FROM mentions {joined} WHERE {inside} AND {text} <> x.name")
    found.append(("mentions with another name than the text has", [k for k, name, there in named if squeeze(there) != name]))
    bare = [k for (k,) in rows(db, "SELECT id FROM entities e WHERE NOT EXISTS (SELECT 1 FROM mentions WHERE entity_id = e.id)")]
    found.append(("entities without a mention", bare))
    counts = [f"{one(db, f'SELECT count(*) FROM {table}')} {what}" for table, what in _WORDS.items()]
    return f"{', '.join(counts)}, all in their places", _graph_wrong(db, found)


_WORDS = {"mentions": "mentions", "evidence": "pieces of evidence", "claims": "claims"}


def relationships(db: Database) -> tuple[str, list[Wrong]]:
    """Relationships join two different entities, and an entity's degree is the number of them."""
    loops = [k for (k,) in rows(db, "SELECT id FROM relationships WHERE source_id = target_id")]
    ends = (
        "(SELECT count(*) FROM relationships r WHERE r.source_id = e.id) + (SELECT count(*) FROM relationships r WHERE r.target_id = e.id)"
    )
    degrees = [k for (k,) in rows(db, f"SELECT id FROM entities e WHERE degree <> {ends}")]
    found = [("relationships of an entity with itself", loops), ("entities with another degree than relationships", degrees)]
    found.append(("pairs of entities that are not the sum of what documents say of them", _other_sums(db)))
    counts = [f"{one(db, f'SELECT count(*) FROM {t}')} {t}" for t in ("entities", "relationships")]
    return ", ".join(counts), _graph_wrong(db, found)


def _other_sums(db: Database) -> list[Any]:
    """The pairs of entities whose counts, or whose being a relationship, are not what follows from their documents."""
    sums = "a, b, sum(shared), sum(chunks), sum(statements), sum(strength), sum(read) FROM document_pairs GROUP BY a, b"
    kept = "a, b, shared, chunks, statements, strength, read FROM pairs"
    other = f"SELECT a, b FROM (SELECT {sums} EXCEPT SELECT {kept}) UNION SELECT a, b FROM (SELECT {kept} EXCEPT SELECT {sums})"
    lost = "SELECT a, b FROM pairs WHERE kept AND relationship_id NOT IN (SELECT id FROM relationships)"
    return [f"{a}-{b}" for a, b in rows(db, f"{other} UNION {lost}")]


def communities(db: Database) -> tuple[str, list[Wrong]]:
    """Every entity is in exactly one community of every level, and communities divide up the one above them."""
    entities, keys = (Ids([i for (i,) in db.execute(f"SELECT id FROM {t} ORDER BY id")]) for t in ("entities", "communities"))
    level, above = np.zeros(len(keys), np.int64), np.full(len(keys), -1, np.int64)
    for n, (at, parent) in enumerate(db.execute("SELECT level, parent_id FROM communities ORDER BY id")):
        place = keys.number(parent) if parent else None
        level[n], above[n] = at, -1 if place is None else place
    home, who = _members(db, keys, entities)
    found: list[tuple[str, list[Any]]] = []
    for at in np.unique(level).tolist():
        alone = np.bincount(who[level[home] == at], minlength=len(entities)) == 1
        found.append((f"entities not in just one community of level {at}", [entities[int(n)] for n in np.flatnonzero(~alone)]))
    lost = (level > 0) & ((above < 0) | (level[above] != level - 1))
    found.append(("communities whose parent is missing", [keys[int(n)] for n in np.flatnonzero(lost)]))
    whole, parts = home * len(entities) + who, above[home] * len(entities) + who
    divided = level[home] < level.max(initial=0)
    other = np.setxor1d(whole[divided], parts[(level[home] > 0) & ~lost[home]]) // max(1, len(entities))
    found.append(("communities that those below do not divide up", [keys[int(n)] for n in np.unique(other)]))
    found.append(("entities, but no community", list(entities) if not len(keys) else []))
    return f"{len(keys)} communities on {len(np.unique(level))} levels", _graph_wrong(db, found)


def _members(db: Database, communities: Ids, entities: Ids) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The numbers of the communities, and of the entities, that rows of `members` join; rows of what is no more are orphans."""
    parts = [(np.empty(0, np.int64), np.empty(0, np.int64))]
    found = db.execute(
        "SELECT m.community_id, m.entity_id FROM members m"
        " JOIN communities c ON c.id = m.community_id JOIN entities e ON e.id = m.entity_id"
    )
    while some := found.fetchmany(AT_ONCE):
        home, who = zip(*some, strict=True)
        parts.append((communities.numbers(home), entities.numbers(who)))
    homes, whos = zip(*parts, strict=True)
    return np.concatenate(homes), np.concatenate(whos)


def picture(db: Database) -> tuple[str, list[Wrong]]:
    """Everything in the graph has a place in its picture; rows of what is no more are found with the database's other orphans."""
    counts = places.counts(db)
    wrong = []
    if missing := places.without_place(db):
        due = not ledger.settings(db).get("layout") or not finished(db)
        wrong.append(Wrong(f"{len(missing)} entities and communities have no place: {some_of(missing)}", "layout", tuple(missing), due))
    if ledger.settings(db).get("picture") and (bare := places.without_vector(db)):
        due = not ledger.settings(db).get("layout") or not finished(db)
        wrong.append(Wrong(f"{len(bare)} entities have no structural vector: {some_of(bare)}", "layout", tuple(bare), due))
    return f"places of {counts['entities']} entities and {counts['communities']} communities", wrong
