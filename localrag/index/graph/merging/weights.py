"""How strongly entities are related: sums of what documents say of pairs, and which pairs are relationships of the graph.

A pair that no model has read weighs how surprising it is that its ends share sentences: sentences shared × normalised pointwise mutual
information (Bouma 2009), 0 to 1, of the two ends' sentences. The weakest are pruned, but never the strongest of an entity. One that a
model has read weighs the chunks that state it.

Counts of sentences go in with two significant digits, that of all sentences as a power of two, and the weight below which pairs are
pruned has three: so an edit moves the weights of a few pairs, and not, with the number of all sentences, every one of them a little.
"""

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TypeVar

from localrag.index.graph.document import Contribution, relationship_id
from localrag.index.graph.document import entity_id as ident
from localrag.index.graph.merging.nodes import TOTAL, Nodes
from localrag.store.staged import Row, Staged

PRUNED = 0.4  # share of the weakest co-occurrences that are left out, unless one is all that its entity has
LEAST = 0.05  # surprise of two that only stand in adjacent sentences
T = TypeVar("T")
BATCH = 1000  # pairs, or entities, that are stored together
Ends = tuple[int, int]
_SHARED, _CHUNKS, _STATEMENTS, _STRENGTH, _READ, _WEIGHT, _KEPT = range(3, 10)  # columns of a pair


def coarse(n: int, digits: int = 2) -> int:
    """A count with so many significant digits, rounded down; a smaller one is exact."""
    step: int = 10 ** max(0, len(str(n)) - digits)
    return n - n % step


def size_of(total: int) -> int:
    """The number of all sentences as it goes into weights: a power of two, at least two. It concerns all pairs, in the same way."""
    return 1 << max(1, total.bit_length() - 1)


def bucket(weight: float) -> float:
    """A weight, in ten thousandths, with three significant digits, rounded down."""
    return coarse(round(weight * 10_000), 3) / 10_000


def surprise(shared: int, a: int, b: int, total: int) -> float:
    """The weight of a pair whose ends stand in `a` and `b` of `total` sentences, in some of them together."""
    if not shared:
        return LEAST
    a, b, total = coarse(a), coarse(b), size_of(total)
    share = shared / total
    npmi = min(1.0, math.log(share * total * total / (a * b)) / -math.log(share)) if share < 1 else 1.0
    return round(shared * max(LEAST, npmi), 4)


class Sums:
    """Counts of entities and pairs over all documents, and what follows from those that change."""

    def __init__(self, staged: Staged, nodes: Nodes) -> None:
        self._staged, self._nodes = staged, nodes
        self._sentences: Counter[int] = Counter()  # by how much the counts of these entities change
        self._pairs: defaultdict[Ends, list[int]] = defaultdict(lambda: [0] * 5)
        self._shown: set[Ends] = set()  # pairs that are shown at other places than before
        self._first = next(iter(staged.rows("pairs", columns="1", first="LIMIT 1")), None) is None  # no pair is there yet

    def give(self, document: str, made: Contribution, shown: Iterable[Row]) -> None:
        """Put what a document says in place of what it said. `shown`: where it showed relationships."""
        staged, number = self._staged, self._nodes.of
        before = list(staged.rows("document_nodes", "t.document_id = ?", [document]))
        now = [(document, number(key), n) for key, n in made.sentences.items()] + [(document, TOTAL, made.total)] * bool(made.total)
        staged.replace("document_nodes", before, now)
        for sign, rows in ((-1, before), (1, now)):
            for _, node, n in rows:
                self._sentences[node] += sign * n
        old = list(staged.rows("document_pairs", "t.document_id = ?", [document]))
        new = []
        for (a, b), p in made.pairs.items():
            said = json.dumps(sorted(p.descriptions), ensure_ascii=False) if p.descriptions else ""
            new.append((document, number(a), number(b), p.shared, p.chunks, p.statements, p.strength, p.read, said))
        changed = staged.replace("document_pairs", old, new)
        stated = {(chunk, number(a), number(b), start, end) for chunk, (a, b), start, end in made.stated}
        others = staged.replace("statements", shown, stated)
        if self._first:
            return  # of all pairs, what documents say is summed up at once
        for sign, rows in ((-1, old), (1, new)):
            for row in rows:
                if row[:3] in changed:
                    sums = self._pairs[row[1], row[2]]
                    for n in range(5):
                        sums[n] += sign * row[3 + n]
        self._shown |= {(key[1], key[2]) for key in others}

    def apply(self) -> None:
        """Weigh what changed, decide which pairs are relationships, and store these with where they are shown."""
        if self._first:
            self._apply_to_all()
            return
        counts: Counter[float] = Counter(dict(self._staged.rows("weight_counts")))
        before, known = least_of(counts), counts.copy()
        uncertain, look = set[int](), {*self._pairs, *self._shown}
        for some in batched(self._changed_pairs(), BATCH):
            rows = [(ends, self._staged.row("pairs", *ends)) for ends in some]
            weighed = [(row, self._weighed(ends, row, self._pairs.get(ends, [0] * 5))) for ends, row in rows]
            self._staged.put("pairs", [new for row, new in weighed if new != row])
            for row, new in weighed:
                if _count(counts, row, new):
                    look.add(new[:2])
                    uncertain.update(new[:2])
        least = least_of(counts)
        self._staged.replace("weight_counts", known.items(), ((b, n) for b, n in counts.items() if n))
        for node in uncertain:
            look |= self._find_strongest(node)
        self._nodes.store()
        if least != before:
            where = "t.read = 0 AND t.weight >= ? AND t.weight < ?"
            look |= set(self._staged.rows("pairs", where, sorted((least, before)), "t.a, t.b"))
        degrees: Counter[int] = Counter()
        for some in batched(sorted(look), BATCH):
            self._relate([row for ends in some if (row := self._staged.row("pairs", *ends)) is not None], least, degrees)
        self._count_degrees(degrees)

    def _apply_to_all(self) -> None:
        """As `apply`, where no pair is there yet: all are read and written in order, and no more than a batch of them is in memory."""
        self._count_sentences()
        staged, counts = self._staged, Counter[float]()
        strongest: dict[int, tuple[float, str, int]] = {}  # of an entity: weight, relationship, the other end
        summed = "t.a, t.b, sum(t.shared), sum(t.chunks), sum(t.statements), sum(t.strength), sum(t.read)"
        # +: sorted, not looked up one by one in the order of the index
        for some in batched(staged.rows("document_pairs", columns=summed, first="GROUP BY +t.a, +t.b ORDER BY +t.a, +t.b"), BATCH):
            rows = [self._weighed((a, b), None, sums) for a, b, *sums in some]
            staged.put("pairs", rows)
            for row in rows:
                _count(counts, None, row)
                for node, other in (row[:2], row[1::-1]) if row[_WEIGHT] else ():
                    strongest[node] = max(strongest.get(node, (0.0, "", 0)), (row[_WEIGHT], row[2], other))
        staged.put("weight_counts", counts.items())
        for node, (_, _, other) in strongest.items():
            self._nodes.put((*self._nodes.row(node)[:4], other))
        self._nodes.store()
        degrees, least, last = Counter[int](), least_of(counts), (-1, -1)
        while rows := list(staged.rows("pairs", "(t.a, t.b) > (?, ?)", last, first=f"ORDER BY t.a, t.b LIMIT {BATCH}")):
            last = rows[-1][:2]
            self._relate(rows, least, degrees)
        self._count_degrees(degrees)

    def _changed_pairs(self) -> set[Ends]:
        """The pairs whose weight may be another: their own counts changed, or those of an end, or that of all sentences."""
        everything, stale = self._count_sentences()
        found = set(self._pairs)
        if everything:
            found |= set(self._staged.rows("pairs", "t.read = 0", columns="t.a, t.b"))
        else:
            for node in stale:
                for end in "ab":
                    found |= set(self._staged.rows("pairs", f"t.{end} = ?", [node], "t.a, t.b"))
        return found

    def _count_sentences(self) -> tuple[bool, list[int]]:
        """Bring the counts of sentences up to date; whether all pairs weigh something else now, and else the entities whose do."""
        everything, stale = False, []
        for node, more in self._sentences.items():
            row = self._nodes.row(node)
            n = row[3] + more
            if more and (row[1] or node == TOTAL):
                self._nodes.put((*row[:3], n, row[4]))
            if node == TOTAL:
                everything = size_of(n) != size_of(row[3])
            elif coarse(n) != coarse(row[3]):
                stale.append(node)
        return everything, stale

    def _weighed(self, ends: Ends, row: Row | None, more: Sequence[int]) -> Row:
        """A pair's row as it is now, with so much more of what documents say."""
        a, b = (self._nodes.row(end) for end in ends)
        old = row or (*ends, "", 0, 0, 0, 0, 0, None, 0)
        sums = [n + m for n, m in zip(old[_SHARED:_WEIGHT], more, strict=True)]
        shared, chunks, statements, _, read = sums
        by_sentences = 0.0 if read or not statements else surprise(shared, a[3], b[3], self._nodes.row(TOTAL)[3])
        weight = None if not statements else float(chunks) if read else by_sentences
        return (*ends, old[2] or relationship_id((a[1], b[1])), *sums, weight, old[_KEPT])

    def _find_strongest(self, node: int) -> set[Ends]:
        """Find an entity's strongest neighbour anew; the pairs that this matters to."""
        row = self._nodes.row(node)
        if not row[1]:
            return set()
        best: list[tuple[str, int, Ends]] = []
        heaviest = "ORDER BY t.weight DESC LIMIT 1"
        first = (row for end in "ab" for row in self._staged.rows("pairs", f"t.{end} = ?", [node], "t.weight", heaviest))
        top = max((w for (w,) in first if w), default=None)
        for end in "ab" if top is not None else "":
            rows = self._staged.rows("pairs", f"t.{end} = ? AND t.weight = ?", [node, top], "t.relationship_id, t.a, t.b")
            best += [(key, b if a == node else a, (a, b)) for key, a, b in rows]
        _, other, ends = max(best, default=("", 0, (0, 0)))
        found = {ends, (node, row[4]), (row[4], node)} if other != row[4] else {ends}
        if other != row[4]:
            self._nodes.put((*row[:4], other))
        return {pair for pair in found if all(pair) and self._staged.row("pairs", *pair)}

    def _relate(self, rows: Sequence[Row], least: float, degrees: Counter[int]) -> None:
        """Make pairs relationships of the graph, or take them out, or bring them up to date."""
        staged = self._staged
        places = self._about(rows, "statements", "t.chunk_id, t.start, t.end")
        said = self._about(rows, "document_pairs", "t.descriptions", "t.descriptions <> ''")
        new, known, shown, related, evidence = list[Row](), list[Row](), list[Row](), list[Row](), list[Row]()
        for row in rows:
            ends, key, was = (row[0], row[1]), row[2], bool(row[_KEPT])
            kept = row[_WEIGHT] is not None and (bool(row[_READ]) or row[_WEIGHT] >= least or self._strongest(*ends))
            for node in ends:
                degrees[node] += kept - was
            before = staged.row("relationships", key) if was else None
            if before is not None:
                known.append(before)
                shown += staged.rows("evidence", "t.relationship_id = ?", [key])
            if kept:
                related.append(self._relationship(row, before, said[ends]))
                evidence += ((key, *place) for place in places[ends])
            if kept != was:
                new.append((*row[:_KEPT], int(kept)))
        staged.replace("relationships", known, related)
        staged.replace("evidence", shown, evidence)
        staged.put("pairs", new)
        staged.drop("pairs", [row[:2] for row in rows if not any(row[_SHARED:_WEIGHT])])

    def _about(self, rows: Sequence[Row], table: str, columns: str, where: str = "true") -> Mapping[Ends, Sequence[Row]]:
        """Pair → what a table has of it. `rows`: of pairs, in order."""
        found: defaultdict[Ends, list[Row]] = defaultdict(list)
        listed = f"t.a, t.b, {columns}"
        if self._first:  # they are all that lie between the first and the last
            ends = (*rows[0][:2], *rows[-1][:2])
            about = self._staged.rows(table, f"(t.a, t.b) >= (?, ?) AND (t.a, t.b) <= (?, ?) AND {where}", ends, listed)
        else:
            about = (r for row in rows for r in self._staged.rows(table, f"t.a = ? AND t.b = ? AND {where}", row[:2], listed))
        for a, b, *rest in about:
            found[a, b].append(tuple(rest))
        return found

    def _strongest(self, a: int, b: int) -> bool:
        """Whether one of the two is the strongest neighbour of the other."""
        return bool(self._nodes.row(a)[4] == b or self._nodes.row(b)[4] == a)

    def _relationship(self, row: Row, known: Row | None, said: Iterable[Row]) -> Row:
        a, b = (self._nodes.row(end)[1] for end in row[:2])
        descriptions = json.dumps(sorted({d for (some,) in said for d in json.loads(some)}), ensure_ascii=False)
        strength = row[_STRENGTH] / row[_STATEMENTS]
        return (row[2], ident(a), ident(b), known[3] if known else "", row[_WEIGHT], strength, descriptions)

    def _count_degrees(self, degrees: Counter[int]) -> None:
        for some in batched(degrees.items(), BATCH):
            keys = ((self._nodes.row(node)[1], more) for node, more in some)
            known = ((self._staged.row("entities", ident(key)), more) for key, more in keys if more and key)
            self._staged.put("entities", [(*row[:4], row[4] + more, row[5]) for row, more in known if row is not None])


def least_of(counts: Counter[float]) -> float:
    """The weight below which pairs are pruned, from how many there are of each weight."""
    place, total = int(sum(counts.values()) * PRUNED), 0
    for weight in sorted(counts):
        total += counts[weight]
        if total > place:
            return weight
    return 0.0


def _count(counts: Counter[float], old: Row | None, new: Row) -> bool:
    """Count the weights of pairs that no model has read; whether a pair weighs something else than before."""
    for row, sign in ((old, -1), (new, 1)):
        if row is not None and row[_WEIGHT] is not None and not row[_READ]:
            counts[bucket(row[_WEIGHT])] += sign
    return old is None or (new[_WEIGHT], bool(new[_READ])) != (old[_WEIGHT], bool(old[_READ]))


def batched(items: Iterable[T], n: int) -> Iterator[list[T]]:
    """The items, `n` at a time."""
    rest = iter(items)
    while some := list(islice(rest, n)):
        yield some
