"""Which entity one without relationships goes with."""

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator
from itertools import islice

from localrag.store.staged import AMONG, Staged

LOOKED_UP = 500  # entities whose neighbours are looked up together


def attach(staged: Staged, *, anew: bool) -> None:
    """Keep for each entity without a relationship which one it goes with: that which it shares most chunks with, if any.

    Of equally many, the one with most relationships. Looked at again are those that a change concerns, or all (`anew`).
    """
    if anew:
        asked: Iterable[str] = [key for (key,) in staged.rows("entities", "t.degree = 0", columns="t.id")]
    else:
        changed = staged.changed("mentions")
        chunks = {chunk for _, chunk, *_ in changed}
        near = {e for (e,) in staged.rows("mentions", f"t.chunk_id {AMONG}", [json.dumps(sorted(chunks))], "t.entity_id")}
        asked = near | {entity for entity, *_ in changed} | {key for (key,) in staged.changed("entities")}
    left = iter(sorted(asked))
    while some := list(islice(left, LOOKED_UP)):
        known = list(staged.rows("attached", f"t.entity_id {AMONG}", [json.dumps(some)]))
        staged.replace("attached", known, _attached(staged, some))


def _attached(staged: Staged, some: Collection[str]) -> Iterator[tuple[str, str]]:
    found = staged.rows("entities", f"t.degree = 0 AND t.id {AMONG}", [json.dumps(sorted(some))], "t.id")
    singles = sorted(key for (key,) in found)
    own = set(staged.rows("mentions", f"t.entity_id {AMONG}", [json.dumps(singles)], "t.entity_id, t.chunk_id"))
    chunks = json.dumps(sorted({chunk for _, chunk in own}))
    inside: defaultdict[str, set[str]] = defaultdict(set)
    for entity, chunk in staged.rows("mentions", f"t.chunk_id {AMONG}", [chunks], "t.entity_id, t.chunk_id"):
        inside[chunk].add(entity)
    others = json.dumps(sorted({e for some in inside.values() for e in some}))
    degree: dict[str, int] = dict(staged.rows("entities", f"t.id {AMONG}", [others], "t.id, t.degree"))
    near: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for single, chunk in own:
        near[single].update(inside[chunk] - {single})
    for single in singles:
        if shared := near[single]:
            yield single, min(shared, key=lambda other, shared=shared: (-shared[other], -degree[other], other))  # type: ignore[misc]
