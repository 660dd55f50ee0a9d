"""The contribution of one document to the graph, and the weights of relationships.

A document contributes name votes and, once its names are assigned to entities, mentions, relationships and co-occurrence counts.

A pair that no model has extracted weighs how surprising it is that its entities share sentences: shared sentences × normalised pointwise
mutual information (Bouma 2009), 0 to 1, of the two entities' sentences. The weakest are pruned, but never the strongest of an entity. A
pair that a model has extracted weighs the number of chunks that state it.

Sentence counts are rounded to two significant digits, the total to a power of two, and the pruning threshold has three: so an edit changes
the weights of a few pairs, and not, with the total, every one of them a little.
"""

import json
import math
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, islice
from typing import TypeVar

from localrag.indexing.extraction.names import find_all_name_spans, find_name_spans, sentence_numbers
from localrag.indexing.graph.entity_resolution import NameForm, NameTarget, defined_aliases, find_targets, name_key
from localrag.records import Chunk, Claim, Extraction, content_id
from localrag.store.staging import GraphStaging, StagedRow
from localrag.text.quotes import informativeness
from localrag.text.sentences import Span, cached_sentences, collapse_whitespace

EntityKeyPair = tuple[str, str]  # the keys of two entities, the alphabetically first one first


@dataclass(slots=True)
class NameVotes:
    """The votes of a document on one name: its spellings, types and descriptions."""

    texts: Counter[str] = field(default_factory=Counter)
    types: Counter[str] = field(default_factory=Counter)
    descriptions: dict[str, None] = field(default_factory=dict)


def majority(votes: Mapping[str, int]) -> str:
    """The most frequent value; of equals the alphabetically first, so that the order of chunks does not matter."""
    return min((v for v in votes if votes[v]), key=lambda v: (-votes[v], v), default="")


def elect_name(key: str, uses: Sequence[tuple[str, NameVotes]]) -> tuple[str, str, list[str]]:
    """Elect an entity's name and type and collect its descriptions, from its names (keys) with their votes; the longest is the name."""
    own_votes = [v for name, v in uses if name == key or key.startswith(f"{name} (")] or [v for _, v in uses]
    texts, types = sum((v.texts for v in own_votes), Counter[str]()), sum((v.types for _, v in uses), Counter[str]())
    return majority(texts), majority(types), sorted({d for _, v in uses for d in v.descriptions})


def count_name_votes(
    extractions: Sequence[Extraction], chunks: Mapping[str, Chunk]
) -> tuple[dict[str, NameVotes], dict[str, tuple[str, str]]]:
    """Count a document's votes on every name, by key, and find the names that it defines as equal."""
    votes: defaultdict[str, NameVotes] = defaultdict(NameVotes)
    defined: dict[str, tuple[str, str]] = {}
    for extraction in extractions:
        chunk = chunks[extraction.chunk_id]
        spans = find_all_name_spans(chunk.text, [e.name for e in extraction.entities])
        for e in extraction.entities:
            vote = votes[name_key(e.name)]
            if spans[e.name]:
                vote.types[e.type] += 1
            if e.description:
                vote.descriptions[e.description] = None
            for span in spans[e.name]:
                written = chunk.text[span.start : span.end]
                if collapse_whitespace(written) == written:
                    vote.texts[written] += 1
        defined |= defined_aliases(chunk.text, spans)
    # a name that is broken over two lines everywhere cannot be shown verbatim
    return {key: v for key, v in votes.items() if v.types and v.texts}, defined


def document_name_targets(
    document_id: str, votes: Mapping[str, NameVotes], defined: Mapping[str, tuple[str, str]]
) -> dict[str, NameTarget]:
    """The fuller names that names of a document stand for in it."""
    names = {key: NameForm(document_id, key, majority(v.texts), majority(v.types), v.texts.total()) for key, v in votes.items()}
    return find_targets(names, defined, one_document=True)


@dataclass(slots=True)
class PairCounts:
    """The counts of a document on two entities: shared sentences, chunks that relate them, statements and their strength.

    `llm_chunks` is the number of their chunks that a model has extracted from.
    """

    shared_sentences: int = 0
    chunks: int = 0
    statements: int = 0
    strength: int = 0
    llm_chunks: int = 0
    descriptions: dict[str, None] = field(default_factory=dict)


@dataclass(slots=True)
class DocumentContribution:
    """The contribution of a document to the graph. `statements` are where relationships can be shown: chunk, ends, start, end."""

    mentions: list[tuple[str, str, int, int, str, float]] = field(default_factory=list)  # entity, chunk, start, end, name, informativeness
    claims: list[Claim] = field(default_factory=list)
    statements: list[tuple[str, EntityKeyPair, int, int]] = field(default_factory=list)
    sentence_counts: Counter[str] = field(default_factory=Counter)  # of each entity
    n_sentences: int = 0  # sentences with any mention
    pairs: defaultdict[EntityKeyPair, PairCounts] = field(default_factory=lambda: defaultdict(PairCounts))


def entity_id(key: str) -> str:
    """The id of an entity."""
    return content_id("entity", key)


def relationship_id(ends: EntityKeyPair) -> str:
    """The id of the relationship of two entities."""
    return content_id("relationship", *ends)


def document_contribution(
    extractions: Sequence[Extraction], chunks: Mapping[str, Chunk], entity_of: Mapping[str, str]
) -> DocumentContribution:
    """Build a document's contribution, whose names (by key) are assigned to entities (by key)."""
    contribution = DocumentContribution()
    mentioned: defaultdict[int, set[str]] = defaultdict(set)  # start of a sentence → the entities in it: overlapping chunks share it
    for extraction in extractions:
        chunk = chunks[extraction.chunk_id]
        spans = cached_sentences(chunk.text)
        starts = [s.start for s in spans]
        places = _mentioned(extraction, chunk, entity_of)
        in_sentence: defaultdict[int, set[str]] = defaultdict(set)
        number = {at: max(0, bisect_right(starts, at) - 1) for _, at in places}
        for key, at in places:
            in_sentence[number[at]].add(key)
        worth = {
            n: informativeness(collapse_whitespace(chunk.text[slice(*spans[n])]) if spans else "", len(keys))
            for n, keys in in_sentence.items()
        }
        for (key, at), (end, name) in places.items():
            contribution.mentions.append((entity_id(key), chunk.id, chunk.start + at, chunk.start + end, name, worth[number[at]]))
        for n, keys in in_sentence.items():
            mentioned[chunk.start + (starts[n] if starts else 0)] |= keys
        _relate(contribution, extraction, chunk, spans, entity_of)
        contribution.claims += _claims(extraction, chunk, entity_of)
    contribution.n_sentences = len(mentioned)
    for keys in mentioned.values():
        contribution.sentence_counts.update(keys)
        for ends in combinations(sorted(keys), 2):
            contribution.pairs[ends].shared_sentences += 1
    return contribution


def _mentioned(extraction: Extraction, chunk: Chunk, entity_of: Mapping[str, str]) -> dict[tuple[str, int], tuple[int, str]]:
    """(entity key, start of a mention in the chunk) → its end, and the name as written."""
    spans = find_all_name_spans(chunk.text, [e.name for e in extraction.entities])
    return {
        (key, span.start): (span.end, collapse_whitespace(chunk.text[span.start : span.end]))
        for e in extraction.entities
        if (key := entity_of.get(name_key(e.name))) is not None
        for span in spans[e.name]
    }


def _relate(
    contribution: DocumentContribution, extraction: Extraction, chunk: Chunk, spans: Sequence[Span], entity_of: Mapping[str, str]
) -> None:
    """Add what one chunk says about pairs of entities."""
    names = dict.fromkeys(name for r in extraction.relationships for name in (r.source, r.target))
    places = sentence_numbers({name: find_name_spans(chunk.text, name) for name in names}, spans)
    stated: dict[tuple[EntityKeyPair, int, int], None] = {}
    related: dict[EntityKeyPair, None] = {}
    for r in extraction.relationships:
        keys = sorted({entity_of.get(name_key(name), "") for name in (r.source, r.target)})
        if len(keys) != 2 or not all(keys):
            continue
        ends = (keys[0], keys[1])
        related[ends] = None
        pair = contribution.pairs[ends]
        pair.statements += 1
        pair.strength += r.strength
        if r.description:
            pair.descriptions[r.description] = None
        for a, b in _evidence(places[r.source], places[r.target]):
            stated[ends, chunk.start + spans[a].start, chunk.start + spans[b].end] = None
    for ends in related:
        contribution.pairs[ends].chunks += 1
    for ends in dict.fromkeys(ends for ends, _, _ in stated):
        contribution.pairs[ends].llm_chunks += extraction.extractor != "phrases"
    contribution.statements += [(chunk.id, *place) for place in stated]


def _evidence(source: Sequence[int], target: Sequence[int]) -> list[tuple[int, int]]:
    """The sentences (first, last) that show a relationship: the nearest that have both names, or of names far apart one for each."""
    if not source or not target:
        return []
    _, i, j = min((abs(i - j), i, j) for i in source for j in target)
    first, last = sorted((i, j))
    return [(first, last)] if last - first <= 1 else [(first, first), (last, last)]


def _claims(extraction: Extraction, chunk: Chunk, entity_of: Mapping[str, str]) -> Iterator[Claim]:
    for c in extraction.claims:
        ends = [entity_of.get(name_key(name)) for name in (c.subject, c.object)]
        if ends[0] is None:
            continue
        subject, target = entity_id(ends[0]), entity_id(ends[1]) if ends[1] else None
        start, end = chunk.start + c.start, chunk.start + c.end
        key = content_id("claim", chunk.id, start, end, subject, target, c.type)
        yield Claim(key, chunk.id, subject, target, c.type, c.status, c.start_date, c.end_date, c.description, start, end)


TOTAL_NODE = 0  # the number of the row that counts the sentences with any mention
MAX_CACHED_NODES = 200_000  # rows that stay in memory


class NodeTable:
    """The numbers and sentence counts of entities. A row: number, key, sentences, strongest neighbour."""

    def __init__(self, staged: GraphStaging) -> None:
        self._staged = staged
        self._numbers: dict[str, int] = {}
        self._rows: dict[int, StagedRow] = {}
        self._unstored: dict[int, StagedRow] = {}
        self._next = max((n for (n,) in staged.select("graph_nodes", columns="max(t.id)") if n is not None), default=0) + 1

    def find(self, key: str) -> int | None:
        """The number of an entity, if it exists."""
        if key not in self._numbers:
            row = next(iter(self._staged.select("graph_nodes", "t.entity_key = ?", [key], "t.id")), None)
            if row is None:
                return None
            self._keep(key, row[0])
        return self._numbers[key]

    def _keep(self, key: str, number: int) -> None:
        if len(self._numbers) >= MAX_CACHED_NODES:
            self.flush()
            self._numbers.clear()
        self._numbers[key] = number

    def get_or_create(self, key: str) -> int:
        """The number of an entity, creating its row if it has none."""
        number = self.find(key)
        if number is None:
            number = self._next
            self._next += 1
            self._keep(key, number)
            self.update((number, key, 0, 0))
        return number

    def row(self, number: int) -> StagedRow:
        """The row of an entity, or of the total; without a key if the entity no longer exists."""
        if number not in self._rows:
            if len(self._rows) >= MAX_CACHED_NODES:
                self.flush()
                self._rows.clear()
            self._rows[number] = self._staged.get("graph_nodes", number) or (number, "", 0, 0)
        return self._rows[number]

    def update(self, row: StagedRow) -> None:
        """Replace an entity's row; `flush` stores it."""
        self._rows[row[0]] = self._unstored[row[0]] = row

    def flush(self) -> None:
        """Store changed rows, before other code reads the table."""
        self._staged.upsert("graph_nodes", self._unstored.values())
        self._unstored = {}

    def delete(self, key: str) -> None:
        """Delete an entity without mentions."""
        number = self.find(key)
        if number is not None:
            del self._numbers[key]
            self._rows.pop(number, None)
            self._unstored.pop(number, None)
            self._staged.delete("graph_nodes", [(number,)])


PRUNED_SHARE = 0.4  # share of the weakest co-occurrences that are left out, unless one is all that its entity has
MIN_NPMI = 0.05  # the least NPMI of a pair, also if it shares no sentence, only adjacent ones
T = TypeVar("T")
ROWS_PER_BATCH = 1000  # pairs, or entities, that are stored together
NodePair = tuple[int, int]
_SHARED, _CHUNKS, _STATEMENTS, _STRENGTH, _READ, _WEIGHT, _KEPT = range(3, 10)  # columns of a pair


def round_down(n: int, digits: int = 2) -> int:
    """A count rounded down to so many significant digits; a smaller one is exact."""
    step: int = 10 ** max(0, len(str(n)) - digits)
    return n - n % step


def rounded_total(total: int) -> int:
    """The number of all sentences as used in weights: a power of two, at least two, so that it seldom changes all pairs."""
    return 1 << max(1, total.bit_length() - 1)


def weight_bucket(weight: float) -> float:
    """A weight in ten thousandths, rounded down to three significant digits."""
    return round_down(round(weight * 10_000), 3) / 10_000


def npmi_weight(shared: int, a: int, b: int, total: int) -> float:
    """The NPMI weight of a pair with `a`, `b` and `shared` of `total` sentences."""
    if not shared:
        return MIN_NPMI
    a, b, total = round_down(a), round_down(b), rounded_total(total)
    share = shared / total
    npmi = min(1.0, math.log(share * total * total / (a * b)) / -math.log(share)) if share < 1 else 1.0
    return round(shared * max(MIN_NPMI, npmi), 4)


class PairWeights:
    """Counts of entities and pairs over all documents, and the weights and relationships that depend on them."""

    def __init__(self, staged: GraphStaging, nodes: NodeTable) -> None:
        self._staged, self._nodes = staged, nodes
        self._sentences: Counter[int] = Counter()  # changes of the sentence counts of entities
        self._pairs: defaultdict[NodePair, list[int]] = defaultdict(lambda: [0] * 5)
        self._shown: set[NodePair] = set()  # pairs with changed spans

    def apply_document(self, document: str, contribution: DocumentContribution, shown: Iterable[StagedRow]) -> None:
        """Replace a document's contribution. `shown`: the spans of relationships that it had before."""
        staged, number = self._staged, self._nodes.get_or_create
        before = list(staged.select("document_entity_counts", "t.document_id = ?", [document]))
        now = [(document, number(key), n) for key, n in contribution.sentence_counts.items()] + [
            (document, TOTAL_NODE, contribution.n_sentences)
        ] * bool(contribution.n_sentences)
        staged.replace("document_entity_counts", before, now)
        for sign, rows in ((-1, before), (1, now)):
            for _, node, n in rows:
                self._sentences[node] += sign * n
        old = list(staged.select("document_cooccurrences", "t.document_id = ?", [document]))
        new = []
        for (a, b), p in contribution.pairs.items():
            descriptions = json.dumps(sorted(p.descriptions), ensure_ascii=False) if p.descriptions else ""
            new.append((document, number(a), number(b), p.shared_sentences, p.chunks, p.statements, p.strength, p.llm_chunks, descriptions))
        changed = staged.replace("document_cooccurrences", old, new)
        stated = {(chunk, number(a), number(b), start, end) for chunk, (a, b), start, end in contribution.statements}
        others = staged.replace("relationship_spans", shown, stated)
        for sign, rows in ((-1, old), (1, new)):
            for row in rows:
                if row[:3] in changed:
                    sums = self._pairs[row[1], row[2]]
                    for n in range(5):
                        sums[n] += sign * row[3 + n]
        self._shown |= {(key[1], key[2]) for key in others}

    def update_relationships(self) -> None:
        """Weigh changed pairs, decide which are relationships, and store these with their spans."""
        counts: Counter[float] = Counter(dict(self._staged.select("weight_histogram")))
        before, counts_before = pruning_threshold(counts), counts.copy()
        uncertain, look = set[int](), {*self._pairs, *self._shown}
        for batch in batched(self._changed_pairs(), ROWS_PER_BATCH):
            rows = [(ends, self._staged.get("cooccurrences", *ends)) for ends in batch]
            weighed = [(row, self._weighed(ends, row, self._pairs.get(ends, [0] * 5))) for ends, row in rows]
            self._staged.upsert("cooccurrences", [new for row, new in weighed if new != row])
            for row, new in weighed:
                if _count(counts, row, new):
                    look.add(new[:2])
                    uncertain.update(new[:2])
        threshold = pruning_threshold(counts)
        self._staged.replace("weight_histogram", counts_before.items(), ((b, n) for b, n in counts.items() if n))
        for node in uncertain:
            look |= self._find_strongest(node)
        self._nodes.flush()
        if threshold != before:
            where = "t.llm_chunks = 0 AND t.weight >= ? AND t.weight < ?"
            look |= set(self._staged.select("cooccurrences", where, sorted((threshold, before)), "t.a, t.b"))
        degrees: Counter[int] = Counter()
        for batch in batched(sorted(look), ROWS_PER_BATCH):
            self._relate([row for ends in batch if (row := self._staged.get("cooccurrences", *ends)) is not None], threshold, degrees)
        self._count_degrees(degrees)

    def _changed_pairs(self) -> set[NodePair]:
        """The pairs whose weight may change: their own counts changed, or those of an end, or the total."""
        everything, stale = self._count_sentences()
        pairs = set(self._pairs)
        if everything:
            pairs |= set(self._staged.select("cooccurrences", "t.llm_chunks = 0", columns="t.a, t.b"))
        else:
            for node in stale:
                for end in "ab":
                    pairs |= set(self._staged.select("cooccurrences", f"t.{end} = ?", [node], "t.a, t.b"))
        return pairs

    def _count_sentences(self) -> tuple[bool, list[int]]:
        """Update sentence counts; returns whether all pairs' weights change, and else the entities whose pairs' weights do."""
        everything, stale = False, []
        for node, more in self._sentences.items():
            row = self._nodes.row(node)
            n = row[2] + more
            if more and (row[1] or node == TOTAL_NODE):
                self._nodes.update((*row[:2], n, row[3]))
            if node == TOTAL_NODE:
                everything = rounded_total(n) != rounded_total(row[2])
            elif round_down(n) != round_down(row[2]):
                stale.append(node)
        return everything, stale

    def _weighed(self, ends: NodePair, row: StagedRow | None, more: Sequence[int]) -> StagedRow:
        """A pair's present row, after adding these counts."""
        a, b = (self._nodes.row(end) for end in ends)
        old = row or (*ends, "", 0, 0, 0, 0, 0, None, 0)
        sums = [n + m for n, m in zip(old[_SHARED:_WEIGHT], more, strict=True)]
        shared, chunks, statements, _, read = sums
        by_sentences = 0.0 if read or not statements else npmi_weight(shared, a[2], b[2], self._nodes.row(TOTAL_NODE)[2])
        weight = None if not statements else float(chunks) if read else by_sentences
        return (*ends, old[2] or relationship_id((a[1], b[1])), *sums, weight, old[_KEPT])

    def _find_strongest(self, node: int) -> set[NodePair]:
        """Recompute an entity's strongest neighbour; returns the pairs that this affects."""
        row = self._nodes.row(node)
        if not row[1]:
            return set()
        best: list[tuple[str, int, NodePair]] = []
        heaviest = "ORDER BY t.weight DESC LIMIT 1"
        first = (row for end in "ab" for row in self._staged.select("cooccurrences", f"t.{end} = ?", [node], "t.weight", heaviest))
        top = max((w for (w,) in first if w), default=None)
        for end in "ab" if top is not None else "":
            rows = self._staged.select("cooccurrences", f"t.{end} = ? AND t.weight = ?", [node, top], "t.relationship_id, t.a, t.b")
            best += [(key, b if a == node else a, (a, b)) for key, a, b in rows]
        _, other, ends = max(best, default=("", 0, (0, 0)))
        pairs = {ends, (node, row[3]), (row[3], node)} if other != row[3] else {ends}
        if other != row[3]:
            self._nodes.update((*row[:3], other))
        return {pair for pair in pairs if all(pair) and self._staged.get("cooccurrences", *pair)}

    def _relate(self, rows: Sequence[StagedRow], threshold: float, degrees: Counter[int]) -> None:
        """Create, delete or update the relationships of pairs."""
        staged = self._staged
        places = self._about(rows, "relationship_spans", "t.chunk_id, t.start, t.end")
        descriptions = self._about(rows, "document_cooccurrences", "t.descriptions", "t.descriptions <> ''")
        new, existing, shown, related, evidence = (list[StagedRow]() for _ in range(5))
        for row in rows:
            ends, key, was = (row[0], row[1]), row[2], bool(row[_KEPT])
            is_relationship = row[_WEIGHT] is not None and (bool(row[_READ]) or row[_WEIGHT] >= threshold or self._strongest(*ends))
            for node in ends:
                degrees[node] += is_relationship - was
            before = staged.get("relationships", key) if was else None
            if before is not None:
                existing.append(before)
                shown += staged.select("evidence", "t.relationship_id = ?", [key])
            if is_relationship:
                related.append(self._relationship(row, before, descriptions[ends]))
                evidence += ((key, *place) for place in places[ends])
            if is_relationship != was:
                new.append((*row[:_KEPT], int(is_relationship)))
        staged.replace("relationships", existing, related)
        staged.replace("evidence", shown, evidence)
        staged.upsert("cooccurrences", new)
        staged.delete("cooccurrences", [row[:2] for row in rows if not any(row[_SHARED:_WEIGHT])])

    def _about(self, rows: Sequence[StagedRow], table: str, columns: str, where: str = "true") -> Mapping[NodePair, Sequence[StagedRow]]:
        """Pair → its rows in a table. `rows`: of pairs, in order."""
        rows_by_pair: defaultdict[NodePair, list[StagedRow]] = defaultdict(list)
        listed = f"t.a, t.b, {columns}"
        for row in rows:
            for a, b, *columns_of_row in self._staged.select(table, f"t.a = ? AND t.b = ? AND {where}", row[:2], listed):
                rows_by_pair[a, b].append(tuple(columns_of_row))
        return rows_by_pair

    def _strongest(self, a: int, b: int) -> bool:
        return bool(self._nodes.row(a)[3] == b or self._nodes.row(b)[3] == a)

    def _relationship(self, row: StagedRow, existing: StagedRow | None, said: Iterable[StagedRow]) -> StagedRow:
        a, b = (self._nodes.row(end)[1] for end in row[:2])
        descriptions = json.dumps(sorted({d for (some,) in said for d in json.loads(some)}), ensure_ascii=False)
        strength = row[_STRENGTH] / row[_STATEMENTS]
        return (row[2], entity_id(a), entity_id(b), existing[3] if existing else "", row[_WEIGHT], strength, descriptions)

    def _count_degrees(self, degrees: Counter[int]) -> None:
        for batch in batched(degrees.items(), ROWS_PER_BATCH):
            keys = ((self._nodes.row(node)[1], more) for node, more in batch)
            entities = ((self._staged.get("entities", entity_id(key)), more) for key, more in keys if more and key)
            self._staged.upsert("entities", [(*row[:4], row[4] + more, row[5]) for row, more in entities if row is not None])


def pruning_threshold(counts: Counter[float]) -> float:
    """The weight below which pairs are pruned, from the number of pairs of each weight."""
    place, total = int(sum(counts.values()) * PRUNED_SHARE), 0
    for weight in sorted(counts):
        total += counts[weight]
        if total > place:
            return weight
    return 0.0


def _count(counts: Counter[float], old: StagedRow | None, new: StagedRow) -> bool:
    """Update the weight histogram of pairs without a model's extraction; returns whether the pair's weight changed."""
    for row, sign in ((old, -1), (new, 1)):
        if row is not None and row[_WEIGHT] is not None and not row[_READ]:
            counts[weight_bucket(row[_WEIGHT])] += sign
    return old is None or (new[_WEIGHT], bool(new[_READ])) != (old[_WEIGHT], bool(old[_READ]))


def batched(items: Iterable[T], n: int) -> Iterator[list[T]]:
    """The items in lists of `n`."""
    remaining = iter(items)
    while batch := list(islice(remaining, n)):
        yield batch
