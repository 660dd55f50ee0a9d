"""Rows of the graph's tables as records, and as columns."""

import json
from collections.abc import Sequence

from localrag.index.graph.columns import ATTACHED, Columns, Levels, columns, levels
from localrag.records import Claim, Entity, Evidence, Graph, Mention, Relationship
from localrag.store.staged import Row, Staged


def entity_of_row(row: Row) -> Entity:
    """The entity in a row."""
    key, name, kind, description, degree, descriptions = row
    return Entity(key, name, kind, _several(descriptions), description, degree)


def relationship_of_row(row: Row) -> Relationship:
    """The relationship in a row."""
    key, source, target, description, weight, strength, descriptions = row
    return Relationship(key, source, target, _several(descriptions), description, weight, strength)


def _several(descriptions: str) -> tuple[str, ...]:
    return () if descriptions == "[]" else tuple(json.loads(descriptions))  # without a model there are none, and there are many rows


def whole_graph(staged: Staged) -> Graph:
    """All of the graph as it will be."""
    mentions = staged.rows("mentions", columns="t.entity_id, t.chunk_id, t.name, t.start, t.end")
    return Graph(
        tuple(sorted(map(entity_of_row, staged.rows("entities")), key=lambda e: e.id)),
        tuple(sorted(map(relationship_of_row, staged.rows("relationships")), key=lambda r: r.id)),
        tuple(Mention(*row) for row in sorted(mentions)),
        tuple(Evidence(*row) for row in sorted(staged.rows("evidence"))),
        tuple(Claim(*row) for row in sorted(staged.rows("claims"))),
    )


def staged_columns(staged: Staged, *, attached: bool = False) -> Columns:
    """Those of a graph as it will be; `attached`: with what entities without relationships go with."""
    joined = staged.rows("relationships", columns="t.source_id, t.target_id, t.weight")
    more = staged.rows("attached", columns=f"t.entity_id, t.to_id, {ATTACHED}") if attached else iter(())
    return columns(list(staged.rows("entities", columns="t.id, t.degree")), (row for some in (joined, more) for row in some))


def staged_levels(staged: Staged, entities: Sequence[str]) -> Levels:
    """The communities as they will be."""
    return levels(list(staged.rows("communities", columns="t.id, t.level, t.parent_id")), staged.rows("members"), entities)
