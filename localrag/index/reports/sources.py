"""What the report on a community is made from, read from the graph's tables for that community alone."""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from heapq import heappush, heappushpop

from localrag.index.graph.merging.quoted import Quoted
from localrag.index.graph.merging.rows import entity_of_row, relationship_of_row
from localrag.index.reports.context import LEAST_TOKENS, Sources
from localrag.records import Claim, Community, Quote, Relationship
from localrag.store import corpus
from localrag.store.levels import below, members
from localrag.store.staged import AMONG, Staged
from localrag.text.quotes import claim_quotes

OVER = 3  # times as much is read of a community as its context has room for; of a larger one that which leads
TOGETHER = 50  # entities whose relationships are read together there
KEPT = 50_000  # entities, and relationships, whose sentences are not looked up again


class Reader:
    """Reads what there is of communities, from a graph that waits or is published."""

    def __init__(self, staged: Staged, budget: int) -> None:
        """`budget`: tokens of a context."""
        self._staged, self._most = staged, OVER * budget // LEAST_TOKENS
        quoted = Quoted(staged)
        self._of_entity = lru_cache(KEPT)(quoted.of_entity)
        self._of_relationship = lru_cache(KEPT)(quoted.of_relationship)
        self._named_in = lru_cache(KEPT)(self._mentioned)

    def sources(self, community: Community) -> Sources:
        """The entities, relationships and claims of a community; of a large one those that lead."""
        keys: Sequence[str] = community.entity_ids
        relationships = []
        if len(keys) > self._most:
            degrees: dict[str, int] = dict(self._staged.rows("entities", f"t.id {AMONG}", [json.dumps(keys)], "t.id, t.degree"))
            relationships = list(self._leading(degrees))
            most = sorted(degrees, key=lambda e: (-degrees[e], e))[: self._most]
            keys = list(dict.fromkeys([*most, *(end for r in relationships for end in (r.source_id, r.target_id))]))
        entities = {e.id: e for e in map(entity_of_row, self._staged.rows("entities", f"t.id {AMONG}", [json.dumps(keys)]))}
        if not relationships:
            related = self._staged.rows("relationships", f"t.source_id {AMONG}", [json.dumps(list(entities))])
            relationships = [relationship_of_row(row) for row in related if row[2] in entities]
        claims = [Claim(*row) for row in self._staged.rows("claims", f"t.subject_id {AMONG}", [json.dumps(list(entities))])]
        others = json.dumps([c.object_id for c in claims if c.object_id and c.object_id not in entities])
        named = {e.id: e for e in map(entity_of_row, self._staged.rows("entities", f"t.id {AMONG}", [others]))}
        return Sources.of(
            {**entities, **named},
            relationships,
            sorted(claims, key=lambda c: (c.chunk_id, c.start, c.id)),
            of_entity=self._of_entity,
            of_relationship=self._of_relationship,
            of_claim=self._of_claim,
            named_in=self._named_in,
            whole=len(entities) >= len(community.entity_ids),
        )

    def community(self, key: str) -> Community:
        """The community with this id."""
        row = self._staged.row("communities", key)
        assert row is not None, key
        _, level, ordinal, above = row
        return Community(key, level, ordinal, above, tuple(members(self._staged, key)))

    def below(self, key: str) -> list[Community]:
        """The communities that one is divided into, in their order."""
        return [self.community(part) for part in below(self._staged, key)]

    def _leading(self, degrees: Mapping[str, int]) -> Iterator[Relationship]:
        """The relationships among entities that come first by the degrees of both ends.

        Those of the most connected are read first; any that is not read has two ends with no more than the next one's degree each.
        """
        order = sorted(degrees, key=lambda e: (-degrees[e], e))
        found: dict[str, Relationship] = {}
        heaviest: list[int] = []  # a heap of as many weights as relationships are wanted

        def weight(r: Relationship) -> int:
            return degrees[r.source_id] + degrees[r.target_id]

        for at in range(0, len(order), TOGETHER):
            if len(heaviest) == self._most and heaviest[0] >= 2 * degrees[order[at]]:
                break
            keys = [json.dumps(order[at : at + TOGETHER])]
            for end in ("source_id", "target_id"):
                for row in self._staged.rows("relationships", f"t.{end} {AMONG}", keys):
                    if row[0] not in found and row[1] in degrees and row[2] in degrees:
                        found[row[0]] = r = relationship_of_row(row)
                        (heappushpop if len(heaviest) == self._most else heappush)(heaviest, weight(r))
        yield from sorted(found.values(), key=lambda r: (-weight(r), r.id))[: self._most]

    def _of_claim(self, claim: Claim) -> Sequence[Quote]:
        chunks = {c.id: c for c in corpus.chunks_by_id(self._staged.db, [claim.chunk_id])}
        return list(claim_quotes([claim], chunks).values())

    def _mentioned(self, quote: Quote) -> frozenset[str]:
        inside = "t.chunk_id = ? AND t.start >= ? AND t.start < ?"
        rows = self._staged.rows("mentions", inside, [quote.chunk_id, quote.start, quote.end], "t.entity_id")
        return frozenset(e for (e,) in rows)
