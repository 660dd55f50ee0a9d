"""How far communities reach over the documents: in how many passages and documents their entities are mentioned."""

import json
from collections.abc import Iterable, Sequence

from sqlite_utils import Database

SAMPLE = 5_000  # chunks from which it is estimated, in an index of more, how many a large community reaches
MANY = 1_000  # entities; the chunks of a community with fewer are counted

_REACHED = (
    "SELECT e.community_id, count(DISTINCT m.chunk_id) FROM members e JOIN mentions m ON m.entity_id = e.entity_id"
    " WHERE e.community_id IN (SELECT value FROM json_each(?)) GROUP BY 1"
)
# CROSS JOIN and + fix the plan: the sampled chunks are read first, however many communities are asked for.
_REACHED_OF_SAMPLE = (
    "SELECT e.community_id, count(DISTINCT m.chunk_id) FROM mentions m CROSS JOIN members e ON e.entity_id = m.entity_id"
    " WHERE m.chunk_id <= ? AND +e.community_id IN (SELECT value FROM json_each(?)) GROUP BY 1"
)


def coverage_of(db: Database, community_ids: Iterable[str]) -> dict[str, float]:
    """How much of the documents each report covers: the share, 0 to 1, of all chunks that mention an entity of its community.

    For a community of MANY or more entities in an index of more than SAMPLE chunks an estimate, with a standard error of at most 0.007:
    the share of those SAMPLE chunks that have the least ids, which are hashes.
    """
    asked = list(community_ids)
    ((total,),) = db.execute("SELECT count(*) FROM chunks")
    large = _large(db, asked) if total > SAMPLE else set()
    shares = {key: n / total for key, n in db.execute(_REACHED, [json.dumps([i for i in asked if i not in large])])}
    if large:
        ((last,),) = db.execute("SELECT id FROM chunks ORDER BY id LIMIT 1 OFFSET ?", [SAMPLE - 1])
        shares |= {key: n / SAMPLE for key, n in db.execute(_REACHED_OF_SAMPLE, [last, json.dumps(sorted(large))])}
    return shares


def _large(db: Database, ids: Sequence[str]) -> set[str]:
    many = "SELECT 1 FROM members WHERE community_id = value LIMIT 1 OFFSET ?"
    rows = db.execute(f"SELECT value FROM json_each(?) WHERE EXISTS ({many})", [json.dumps(list(ids)), MANY - 1])
    return {key for (key,) in rows}


def documents_of(db: Database, community_ids: Iterable[str]) -> dict[str, int]:
    """Community id → the number of documents that mention an entity of it."""
    rows = db.execute(
        "SELECT e.community_id, count(DISTINCT c.document_id) FROM members e JOIN mentions m ON m.entity_id = e.entity_id"
        " JOIN chunks c ON c.id = m.chunk_id WHERE e.community_id IN (SELECT value FROM json_each(?)) GROUP BY 1",
        [json.dumps(list(community_ids))],
    )
    return dict(rows.fetchall())


def documents_of_graph(db: Database) -> list[str]:
    """The ids of the documents that mention an entity, in the order of their paths."""
    named = "SELECT 1 FROM chunks c JOIN mentions m ON m.chunk_id = c.id WHERE c.document_id = d.id"
    return [key for (key,) in db.execute(f"SELECT d.id FROM documents d WHERE EXISTS ({named}) ORDER BY d.path")]


def places_of(db: Database, community_ids: Iterable[str]) -> dict[str, list[tuple[str, int]]]:
    """Community id → where its entities are mentioned: chunk and the character of the document; in no order."""
    asked = list(community_ids)
    found: dict[str, list[tuple[str, int]]] = {i: [] for i in asked}
    rows = db.execute(
        "SELECT e.community_id, m.chunk_id, m.start FROM members e JOIN mentions m ON m.entity_id = e.entity_id"
        " JOIN chunks c ON c.id = m.chunk_id WHERE e.community_id IN (SELECT value FROM json_each(?))",
        [json.dumps(asked)],
    )
    for community, chunk, start in rows:
        found[community].append((chunk, start))
    return found


def chunks_of_graph(db: Database) -> int:
    """How many chunks mention an entity."""
    ((n,),) = db.execute("SELECT count(*) FROM chunks c WHERE EXISTS (SELECT 1 FROM mentions m WHERE m.chunk_id = c.id)")
    return int(n)


def some_chunks(db: Database, n: int, after: str) -> list[str]:
    """The ids of `n` chunks that mention an entity, or all: those that follow `after`, begun again behind the last.

    As ids are hashes, they are as good as drawn at random.
    """
    named = "SELECT id FROM chunks c WHERE EXISTS (SELECT 1 FROM mentions m WHERE m.chunk_id = c.id)"
    found = [key for (key,) in db.execute(f"{named} AND id > ? ORDER BY id LIMIT ?", [after, n])]
    rest = n - len(found)
    return found + [key for (key,) in db.execute(f"{named} AND id <= ? ORDER BY id LIMIT ?", [after, rest])]
