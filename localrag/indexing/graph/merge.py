"""Incremental merging: documents that changed → updated names, entities, mentions, relationships and weights.

One document and all of them are handled alike: a new index is an update of nothing. `GraphUpdate.apply` is the flow:

1. names of documents, stored as votes (`count_name_votes`), and the fuller names that they stand for (`CorpusNames`). A name's fuller name
   depends on the names that the rules find for it (`index_keys` and `query_keys` in `entity_resolution`), so only names that query a key of
   a changed name are resolved again, in the order in which all would be: the result is the same;
2. names → entities;
3. the contribution of each document (`document_contribution`) is taken out and put in again; entities and relationships are sums of
   contributions.

Also finds names that are similar in spelling, which the user decides on, and the sentences behind entities and relationships.
"""

import heapq
import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TypeVar

import numpy as np
from rapidfuzz import fuzz, process

from localrag.indexing.graph.communities import ATTACHMENT_WEIGHT, CommunityArrays, GraphArrays, community_arrays, graph_arrays
from localrag.indexing.graph.contributions import (
    ROWS_PER_BATCH,
    DocumentContribution,
    NameVotes,
    NodeTable,
    PairWeights,
    batched,
    count_name_votes,
    document_contribution,
    document_name_targets,
    elect_name,
    entity_id,
    majority,
)
from localrag.indexing.graph.entity_resolution import (
    MAX_BLOCK_SIZE,
    MAX_SIMILAR_PAIRS,
    MIN_SIMILARITY,
    MergeDecisions,
    NameForm,
    NameTarget,
    find_target,
    index_keys,
    numbers_in_key,
    query_keys,
    resolution_order,
    resolve_chain,
    targets_by_decision,
)
from localrag.records import (
    Chunk,
    Claim,
    Entity,
    Evidence,
    Extraction,
    Graph,
    Mention,
    Quote,
    Relationship,
)
from localrag.store import chunks as chunks_store
from localrag.store import staging
from localrag.store.staging import IN_JSON_LIST, GraphStaging, StagedRow
from localrag.text.quotes import sentence_quotes
from localrag.text.sentences import collapse_whitespace

_SEPARATOR = "\x1f"
ROWS_PER_TRANSACTION = 5_000  # names whose forms are stored together
MAX_CACHED_NAMES = 500_000  # names, and lookups, that stay in memory: some 200 MB
LookupPair = tuple[str, str]  # kind of a lookup, and its key


class NameFormTable(Mapping[str, NameForm]):
    """The most frequent form of every name of the corpus, by key; names that were read stay in memory."""

    def __init__(self, staged: GraphStaging) -> None:
        self._staged = staged
        self._kept: dict[str, tuple[NameForm, NameTarget | None] | None] = {}
        self._unstored: dict[str, tuple[NameForm, NameTarget | None]] = {}

    def _row(self, key: str) -> tuple[NameForm, NameTarget | None] | None:
        if key not in self._kept:
            self._make_room()
            row = self._staged.get("corpus_names", key)
            self._kept[key] = _record(row) if row else None
        return self._kept[key]

    def __getitem__(self, key: str) -> NameForm:
        row = self._row(key)
        if row is None:
            raise KeyError(key)
        return row[0]

    def __contains__(self, key: object) -> bool:
        return self._row(str(key)) is not None

    def __iter__(self) -> Iterator[str]:
        return (key for (key,) in self._staged.select("corpus_names", columns="t.name_key"))

    def __len__(self) -> int:
        return self._staged.count("corpus_names")

    def target(self, key: str) -> NameTarget | None:
        """The fuller name that a key stands for in documents that do not say otherwise."""
        row = self._row(key)
        return row[1] if row else None

    def save(self, name: NameForm, target: NameTarget | None) -> None:
        """Set the form and the fuller name of a key; `flush` stores them."""
        self._make_room()
        self._kept[name.key] = self._unstored[name.key] = (name, target)

    def _make_room(self) -> None:
        if len(self._kept) >= MAX_CACHED_NAMES:
            self.flush()
            self._kept.clear()

    def flush(self) -> None:
        """Store changed rows, before other code reads the tables."""
        forms = ((n.key, n.text, n.type, n.count, *(target or (None, None, None))) for n, target in self._unstored.values())
        self._staged.upsert("corpus_names", forms)
        self._unstored = {}

    def delete(self, key: str) -> None:
        """Delete a key that no document has any more."""
        self._kept[key] = None
        self._unstored.pop(key, None)
        self._staged.delete("corpus_names", [(key,)])


def _record(row: StagedRow) -> tuple[NameForm, NameTarget | None]:
    key, text, kind, count, target, reason, score = row
    return NameForm("", key, text, kind, count), None if target is None else (target, reason, score)


class CorpusNames:
    """The names of the corpus, indexed by the keys they can be found by and those they query."""

    def __init__(self, staged: GraphStaging) -> None:
        self._staged = staged
        self.names = NameFormTable(staged)
        self._found: dict[str, list[str]] = {}

    def update(self, keys: Iterable[str]) -> tuple[set[tuple[str, str]], set[str]]:
        """Update the forms of these keys, and all fuller names that depend on them.

        Returns the types and beginnings of names whose form is new, changed or deleted, and the keys whose fuller name changed.
        """
        before = {key: self.names.get(key) for key in keys}
        changed = self._forms_changed(before)
        queue = _ResolutionQueue(self.names)
        if 2 * len(changed) > len(self.names):  # resolving nearly all names is faster than finding the affected ones
            queue.add(self.names)
        else:
            queue.add(changed)
            for key in changed:
                for name in filter(None, (before[key], self.names.get(key))):
                    queue.add(self._askers(name))
                for (other,) in self._staged.select("corpus_names", "t.target_key = ?", [key], "t.name_key"):
                    queue.add(self._askers(self.names[other]))
        other_target = {key for key in changed if key not in self.names}
        while key := queue.next():
            old, new = self.names.target(key), find_target(key, self.names, self._lookup, self._found_before(key))
            if new != old:
                self.names.save(self.names[key], new)
                other_target.add(key)
                if (new and new[0]) != (old and old[0]):
                    queue.add(self._askers(self.names[key]), after=key)
        self.names.flush()
        forms = (name for key in changed for name in (before[key], self.names.get(key)) if name)
        return set(map(blocking_key, forms)), other_target

    def _found_before(self, key: str) -> Callable[[str], NameTarget | None]:
        return lambda other: self.names.target(other) if resolution_order(other) < resolution_order(key) else None

    def _forms_changed(self, before: Mapping[str, NameForm | None]) -> set[str]:
        """Recompute the most frequent forms of keys and their lookup rows from the documents' names; returns the changed keys."""
        changed = set()
        rows: dict[str, tuple[set[LookupPair], set[LookupPair]]] = {"name_index": (set(), set()), "name_queries": (set(), set())}
        for n, (key, old) in enumerate(before.items()):
            if n % ROWS_PER_TRANSACTION == 0:
                self._put_asked(rows)
            best = max(self._staged.select("document_names", "t.name_key = ?", [key], "t.count, t.form, t.type"), default=None)
            now = NameForm("", key, best[1], best[2], best[0]) if best else None
            if now == old:
                continue
            changed.add(key)
            for table, values in (("name_index", _offered_keys), ("name_queries", _asks)):
                removed, new = ({(value, key) for value in values(name)} if name else set() for name in (old, now))
                rows[table][0].update(removed - new)
                rows[table][1].update(new - removed)
            if now is None:
                self.names.delete(key)
            else:
                self.names.save(now, self.names.target(key))
        self._put_asked(rows)
        return changed

    def _put_asked(self, rows: Mapping[str, tuple[set[LookupPair], set[LookupPair]]]) -> None:
        """Replace the lookup rows of names."""
        for value, _ in rows["name_index"][0] | rows["name_index"][1]:
            self._found.pop(value, None)
        for table, (removed, new) in rows.items():
            self._staged.delete(table, removed)
            self._staged.upsert(table, new)
            removed.clear()
            new.clear()
        self.names.flush()

    def _lookup(self, *lookup_pair: str) -> list[str]:
        value = _SEPARATOR.join(lookup_pair)
        if value not in self._found:
            if len(self._found) >= MAX_CACHED_NAMES:
                self._found.clear()
            self._found[value] = sorted(k for (k,) in self._staged.select("name_index", "t.lookup_key = ?", [value], "t.name_key"))
        return self._found[value]

    def _askers(self, name: NameForm) -> set[str]:
        """The keys that query anything that a name can be found by."""
        askers = {
            k for value in _offered_keys(name) for (k,) in self._staged.select("name_queries", "t.lookup_key = ?", [value], "t.name_key")
        }
        return askers - {name.key}


def blocking_key(name: NameForm) -> tuple[str, str]:
    """The block of names that a similar spelling is searched in: same type, same beginning."""
    return name.type, name.key[:2]


class _ResolutionQueue:
    """Keys to be resolved, in order, each once while it waits."""

    def __init__(self, names: NameFormTable) -> None:
        self._names = names
        self._heap: list[tuple[tuple[int, str], str]] = []
        self._waiting: set[str] = set()

    def add(self, keys: Iterable[str], after: str | None = None) -> None:
        """Add the keys that exist; with `after` only later ones, since earlier ones do not depend on it."""
        for key in keys:
            if key not in self._waiting and key in self._names and (after is None or resolution_order(key) > resolution_order(after)):
                self._waiting.add(key)
                heapq.heappush(self._heap, (resolution_order(key), key))

    def next(self) -> str:
        """Remove and return the first key; empty if there are none."""
        if not self._heap:
            return ""
        _, key = heapq.heappop(self._heap)
        self._waiting.discard(key)
        return key


def _offered_keys(name: NameForm) -> set[str]:
    return {_SEPARATOR.join(v) for v in index_keys(name)} | {_SEPARATOR.join(("key", name.key))}


def _asks(name: NameForm) -> set[str]:
    return {_SEPARATOR.join(v) for v in query_keys(name)}


DOCUMENTS_PER_TRANSACTION = 50  # documents, or batches of names, whose changes are committed together
T = TypeVar("T")
ReadExtractions = Callable[[str], tuple[Mapping[str, Chunk], Sequence[Extraction]]]  # the chunks and extractions of a document


@dataclass
class GraphUpdate:
    """One update of the graph.

    `entities` are the keys of changed entities, `keys` the names whose entity may have changed, `blocks` the blocks of names whose similar
    spellings may have changed.
    """

    staged: GraphStaging
    read: ReadExtractions
    decisions: MergeDecisions
    entities: set[str] = field(default_factory=set)
    keys: set[str] = field(default_factory=set)
    blocks: set[tuple[str, str]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.corpus = CorpusNames(self.staged)
        self.nodes = NodeTable(self.staged)
        self.sums = PairWeights(self.staged, self.nodes)
        self._decided = targets_by_decision(self.decisions)

    def apply(self, changed: Collection[str], removed: Collection[str], decided: Collection[str] = ()) -> None:
        """Update the graph for new, changed and removed documents, and for names with a new decision."""
        keys = set[str]()
        self._in_transactions(lambda document: keys.update(self._remove_names(document)), removed)
        self._in_transactions(lambda document: keys.update(self._store_names(document)), changed)
        blocks, elsewhere = self.corpus.update(keys)
        self.blocks |= blocks
        self.keys |= keys | elsewhere | set(decided)
        self.entities |= {key for key in decided if self.nodes.find(key) is not None}
        self._in_transactions(lambda document: self._store_contribution(document, DocumentContribution(), {}), removed)
        listed = json.dumps(sorted(elsewhere | set(decided)))
        concerned = {d for (d,) in self.staged.select("document_names", f"t.name_key {IN_JSON_LIST}", [listed], "t.document_id")}
        again = [d for d in concerned.difference(changed) if self._assign_entities(d)]
        self._in_transactions(self._assign_entities, changed)
        self._in_transactions(self._recompute_contribution, (*changed, *again))
        self.nodes.flush()
        self._in_transactions(self._store_entities, batched(sorted(self.entities), ROWS_PER_BATCH))
        self.blocks |= {blocking_key(self.corpus.names[key]) for key in self.entities if key in self.corpus.names}
        self._in_transactions(self._store_merges, batched(sorted(self.keys), ROWS_PER_BATCH))
        self.sums.update_relationships()

    def _in_transactions(self, work: Callable[[T], object], subjects: Iterable[T]) -> None:
        """Call `work` for each subject, committing several at a time: a commit takes as long for many changes as for one."""
        for batch in batched(subjects, DOCUMENTS_PER_TRANSACTION):
            with self.staged.transaction():
                for subject in batch:
                    work(subject)

    def _remove_names(self, document: str) -> set[str]:
        rows = list(self.staged.select("document_names", "t.document_id = ?", [document], "t.name_key, t.entity_key"))
        self.staged.delete("document_names", [(document, key) for key, _ in rows])
        self.entities |= {entity for _, entity in rows}
        return {key for key, _ in rows}

    def _store_names(self, document: str) -> set[str]:
        """Store a document's votes on its names; returns the keys whose votes changed."""
        chunks, extractions = self.read(document)
        votes, defined = count_name_votes(extractions, chunks)
        targets = document_name_targets(document, votes, defined)
        old = {row[1]: row for row in self.staged.select("document_names", "t.document_id = ?", [document])}
        new = []
        for key, v in votes.items():
            votes_json = [json.dumps(x, ensure_ascii=False) for x in (_sorted(v.texts), _sorted(v.types), sorted(v.descriptions))]
            form = (majority(v.texts), majority(v.types), v.texts.total())
            new.append((document, key, *votes_json, *form, *targets.get(key, (None, None, None)), old[key][11] if key in old else ""))
        changed = {key for _, key in self.staged.replace("document_names", old.values(), new)}
        self.entities |= {row[11] for row in old.values()}
        return changed

    def _assign_entities(self, document: str) -> bool:
        """Assign each name of a document to an entity; returns whether any assignment changed."""
        rows = {row[1]: row for row in self.staged.select("document_names", "t.document_id = ?", [document])}

        def target(key: str) -> NameTarget | None:
            if key not in rows:
                return None
            own = rows[key][8:11]
            return self._decided.get(key) or (own if own[0] is not None else self.corpus.names.target(key))

        new = []
        for key, row in rows.items():
            entity = resolve_chain(key, target, self.decisions)
            if row[11] != entity:
                new.append((*row[:11], entity))
                self.keys.add(key)
                self.entities |= {row[11], entity} - {""}
        self.staged.upsert("document_names", new)
        return bool(new)

    def _recompute_contribution(self, document: str) -> None:
        """Replace a document's contribution to the graph by its present one."""
        chunks, extractions = self.read(document)
        names: dict[str, str] = dict(self.staged.select("document_names", "t.document_id = ?", [document], "t.name_key, t.entity_key"))
        for entity in names.values():
            self.nodes.get_or_create(entity)
        self._store_contribution(document, document_contribution(extractions, chunks, names), chunks)
        self.entities |= set(names.values())

    def _store_contribution(self, document: str, contribution: DocumentContribution, chunks: Mapping[str, Chunk]) -> None:
        staged = self.staged
        before = [c for (c,) in staged.select("graph_inputs", "t.document_id = ?", [document], "t.chunk_id")]
        listed = json.dumps(sorted({*before, *chunks}))
        inside = "t.chunk_id IN (SELECT value FROM json_each(?))"
        staged.replace("mentions", staged.select("mentions", inside, [listed]), contribution.mentions)
        claims = [tuple(getattr(c, n) for n in c.__slots__) for c in contribution.claims]
        staged.replace("claims", staged.select("claims", inside, [listed]), claims)
        self.sums.apply_document(document, contribution, staged.select("relationship_spans", inside, [listed]))

    def _store_entities(self, keys: Sequence[str]) -> None:
        """Update entities: name and type by vote, descriptions, other names."""
        staged = self.staged
        before, now, existing, written = list[StagedRow](), list[StagedRow](), list[StagedRow](), list[StagedRow]()
        columns = "t.name_key, t.form_counts, t.type_counts, t.descriptions"
        for key in keys:
            ident = entity_id(key)
            before += (row for row in [staged.get("entities", ident)] if row)
            existing += staged.select("entity_aliases", "t.entity_id = ?", [ident])
            uses = list(staged.select("document_names", "t.entity_key = ?", [key], columns))
            if uses:
                now.append(_entity(key, uses, before[-1] if before and before[-1][0] == ident else None))
                written += ((alias, ident) for (alias,) in staged.select("mentions", "t.entity_id = ?", [ident], "DISTINCT t.name"))
            else:
                self.nodes.delete(key)
        staged.replace("entities", before, now)
        staged.replace("entity_aliases", existing, written)

    def _store_merges(self, keys: Sequence[str]) -> None:
        """Store the names that were merged into each entity, and the reasons."""
        old, new = list[StagedRow](), list[StagedRow]()
        for key in keys:
            old += self.staged.select("name_merges", "t.name_key = ? AND t.is_applied = 1", [key])
            new += ((key, entity, 1, *reason) for entity, reason in self._merge_reasons(key).items())
        self.staged.replace("name_merges", old, new)

    def _merge_reasons(self, key: str) -> dict[str, tuple[str, float]]:
        where = "t.name_key = ? AND t.name_key <> t.entity_key"
        rows = set(self.staged.select("document_names", where, [key], "t.entity_key, t.target_key, t.reason, t.score"))
        reasons: dict[str, tuple[str, float]] = {}
        for entity, target, reason, score in sorted(rows, key=lambda row: (-(row[3] or 0), row[2] or "")):
            if step := self._decided.get(key) or ((target, reason, score) if target else self.corpus.names.target(key)):
                reasons.setdefault(entity, step[1:])
        return reasons


def _entity(key: str, uses: Sequence[StagedRow], existing: StagedRow | None) -> StagedRow:
    """The row of an entity, from the votes of documents on its names; description and degree stay as they are."""
    distinct_votes = Counter(uses)  # most documents have the same votes on a common name
    votes = [(r[0], NameVotes(_times(r[1], n), _times(r[2], n), dict.fromkeys(json.loads(r[3])))) for r, n in distinct_votes.items()]
    name, kind, descriptions = elect_name(key, votes)
    descriptions_json = json.dumps(descriptions, ensure_ascii=False)
    return (entity_id(key), name, kind, existing[3] if existing else "", existing[4] if existing else 0, descriptions_json)


def _times(votes: str, n: int) -> Counter[str]:
    return Counter({value: n * count for value, count in json.loads(votes).items()})


def _sorted(votes: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(votes.items()))


def entity_of_row(row: StagedRow) -> Entity:
    """The entity in a row."""
    key, name, kind, description, degree, descriptions = row
    return Entity(key, name, kind, _parse_descriptions(descriptions), description, degree)


def relationship_of_row(row: StagedRow) -> Relationship:
    """The relationship in a row."""
    key, source, target, description, weight, strength, descriptions = row
    return Relationship(key, source, target, _parse_descriptions(descriptions), description, weight, strength)


def _parse_descriptions(descriptions: str) -> tuple[str, ...]:
    return () if descriptions == "[]" else tuple(json.loads(descriptions))  # "[]" is frequent: without a model all rows have it


def load_graph(staged: GraphStaging) -> Graph:
    """The whole staged graph."""
    mentions = staged.select("mentions", columns="t.entity_id, t.chunk_id, t.name, t.start, t.end")
    return Graph(
        tuple(sorted(map(entity_of_row, staged.select("entities")), key=lambda e: e.id)),
        tuple(sorted(map(relationship_of_row, staged.select("relationships")), key=lambda r: r.id)),
        tuple(Mention(*row) for row in sorted(mentions)),
        tuple(Evidence(*row) for row in sorted(staged.select("evidence"))),
        tuple(Claim(*row) for row in sorted(staged.select("claims"))),
    )


def load_graph_arrays(staged: GraphStaging, *, attached: bool = False) -> GraphArrays:
    """The arrays of the staged graph; `attached`: with the attachments of entities without relationships."""
    joined = staged.select("relationships", columns="t.source_id, t.target_id, t.weight")
    more = staged.select("isolated_entities", columns=f"t.entity_id, t.attached_to_id, {ATTACHMENT_WEIGHT}") if attached else iter(())
    return graph_arrays(list(staged.select("entities", columns="t.id, t.degree")), (row for edges in (joined, more) for row in edges))


def load_community_arrays(staged: GraphStaging, entities: Sequence[str]) -> CommunityArrays:
    """The arrays of the staged communities."""
    return community_arrays(
        list(staged.select("communities", columns="t.id, t.level, t.parent_id")), staged.select("community_members"), entities
    )


MAX_CACHED_CHUNKS = 20_000  # chunks that stay in memory, some 60 MB
MAX_CACHED_POSITIONS = 200_000  # chunks whose positions stay in memory, some 40 MB


class SupportingSentences:
    """Reads the sentences about entities and relationships."""

    def __init__(self, staged: GraphStaging) -> None:
        self._staged = staged
        self._chunks: dict[str, Chunk] = {}
        self._places: dict[str, tuple[str, int]] = {}

    def of_entity(self, entity_id: str, limit: int = 2) -> list[Quote]:
        """The sentences that mention an entity, each once: the most informative, of equals the first in the order of paths."""
        rows = sorted(self._staged.select("mentions", "t.entity_id = ?", [entity_id], "-t.informativeness, t.chunk_id, t.start, t.end"))
        quotes: dict[str, Quote] = {}
        for _, equal in groupby(rows, key=lambda row: row[0]):
            for chunk, (_, _, start, end) in self._in_order(equal):
                quote = sentence_quotes(chunk, start, end)[0]
                quotes.setdefault(collapse_whitespace(quote.text), quote)
                if len(quotes) >= limit:
                    return list(quotes.values())
        return list(quotes.values())

    def of_relationship(self, relationship_id: str) -> list[Quote]:
        """The sentences that state a relationship, each once, in the order of paths."""
        rows = self._staged.select("evidence", "t.relationship_id = ?", [relationship_id], "0, t.chunk_id, t.start, t.end")
        quotes: dict[str, Quote] = {}
        for chunk, (_, _, start, end) in self._in_order(rows):
            for quote in sentence_quotes(chunk, start, end):
                quotes.setdefault(collapse_whitespace(quote.text), quote)
        return list(quotes.values())

    def _in_order(self, rows: Iterable[StagedRow]) -> Iterator[tuple[Chunk, StagedRow]]:
        """The chunks of rows (…, chunk, start, end), in the order of paths and positions."""
        some = list(rows)
        if len(some) > 1:
            if len(self._places) > MAX_CACHED_POSITIONS:
                self._places.clear()
            new = {row[1] for row in some if row[1] not in self._places}
            self._places |= staging.chunk_positions(self._staged.db, new) if new else {}
            some.sort(key=lambda row: (self._places[row[1]], row[2]))
        for row in some:
            yield self._chunk(row[1]), row

    def _chunk(self, chunk_id: str) -> Chunk:
        if chunk_id not in self._chunks:
            if len(self._chunks) >= MAX_CACHED_CHUNKS:
                self._chunks.clear()
            (self._chunks[chunk_id],) = chunks_store.chunks_by_id(self._staged.db, [chunk_id])
        return self._chunks[chunk_id]


def find_similar_spellings(staged: GraphStaging, blocks: Iterable[tuple[str, str]]) -> None:
    """Compare the spelling of entities in these blocks (type and first two letters) again, and store the similar pairs."""
    for kind, start in sorted(blocks):
        block = f"{kind} {start}"
        keys = _most_frequent(staged, kind, start)
        scores = process.cdist(keys, keys, scorer=fuzz.ratio, score_cutoff=MIN_SIMILARITY)
        found = ((keys[int(i)], keys[int(j)], float(scores[i, j])) for i, j in np.argwhere(np.triu(scores, 1) > 0))
        pairs = [(block, a, b, score) for a, b, score in found if numbers_in_key(a) == numbers_in_key(b)]
        staged.replace("similar_names", list(staged.select("similar_names", "t.block = ?", [block])), pairs)


def _most_frequent(staged: GraphStaging, kind: str, start: str) -> list[str]:
    """The keys of a block's most frequent entities, without names that are part of another entity."""
    where, limit = "t.type = ? AND substr(t.name_key, 1, 2) = ? AND length(t.name_key) > 5", 2 * MAX_BLOCK_SIZE
    while True:
        first = f"ORDER BY t.count DESC, t.name_key LIMIT {limit}"
        rows = sorted(staged.select("corpus_names", where, [kind, start], "-t.count, t.name_key", first))
        ordered = [key for _, key in rows[:limit]]
        entities = {key for (key,) in staged.select("graph_nodes", f"t.entity_key {IN_JSON_LIST}", [json.dumps(ordered)], "t.entity_key")}
        keys = [key for key in ordered if key in entities]
        if len(keys) >= MAX_BLOCK_SIZE or len(rows) < limit:
            return keys[:MAX_BLOCK_SIZE]
        limit *= 4


def undecided_pairs(staged: GraphStaging, decisions: MergeDecisions) -> list[tuple[str, str, float]]:
    """The undecided pairs of entities with similar spelling, by key, the most similar first."""
    first = f"ORDER BY t.score DESC, t.a, t.b LIMIT {MAX_SIMILAR_PAIRS + len(decisions.separate_pairs)}"
    pairs = sorted(staged.select("similar_names", columns="t.a, t.b, t.score", first=first), key=lambda row: (-row[2], row[0], row[1]))
    return [(a, b, round(score / 100, 2)) for a, b, score in pairs if frozenset((a, b)) not in decisions.separate_pairs][:MAX_SIMILAR_PAIRS]
