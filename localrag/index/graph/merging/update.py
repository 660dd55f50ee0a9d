"""Documents that changed → the graph, changed by what follows from that: names, entities, mentions, relationships, weights.

The same for one document and for all of them: a new index is an update of nothing. Each document's part is taken out and put in again
(`document.contribution`); entities and relationships are sums of such parts. What is kept besides the graph (`store.staged.TABLES`) says
which names ask for which, so that an edit looks only at those that it concerns.
"""

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from localrag.index.graph.document import Contribution, Votes, contribution, entity_id, first, named, targets_of, votes_of
from localrag.index.graph.merging.corpus_names import CorpusNames, block_of
from localrag.index.graph.merging.homonyms import Homonyms
from localrag.index.graph.merging.nodes import Nodes
from localrag.index.graph.merging.weights import BATCH, Sums, batched
from localrag.index.graph.variants import Decisions, Target, decided_targets, follow
from localrag.records import Chunk, Extraction
from localrag.store.staged import Row, Staged

TOGETHER = 50  # documents, or batches of names, whose changes are committed together
T = TypeVar("T")
Read = Callable[[str], tuple[Mapping[str, Chunk], Sequence[Extraction]]]  # the chunks of a document and what was found in them


@dataclass
class Update:
    """A change of the graph under way.

    `entities` are the keys of those that something was changed of, `keys` the names that may be another entity's now, `blocks` where names
    may be spelt like others now.
    """

    staged: Staged
    read: Read
    decisions: Decisions
    entities: set[str] = field(default_factory=set)
    keys: set[str] = field(default_factory=set)
    blocks: set[tuple[str, str]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.corpus = CorpusNames(self.staged)
        self.nodes = Nodes(self.staged)
        self.sums = Sums(self.staged, self.nodes)
        self._decided = decided_targets(self.decisions)
        self.homonyms = Homonyms(self.staged, self.nodes, {a for a, b in self.decisions.same if a == b})

    def run(self, changed: Collection[str], gone: Collection[str], decided: Collection[str] = ()) -> None:
        """Bring the graph up to date with documents that are new, changed or gone, and names that something was decided of."""
        keys = set[str]()
        self._one_by_one(lambda document: keys.update(self._take_out_names(document)), gone)
        self._one_by_one(lambda document: keys.update(self._take_names(document)), changed)
        blocks, elsewhere = self.corpus.update(keys)
        self.blocks |= blocks
        self.keys |= keys | elsewhere | set(decided)
        self.entities |= {key for key in decided if self.nodes.find(key) is not None}
        self._one_by_one(lambda document: self._give(document, Contribution(), {}), gone)
        concerned = {d for key in elsewhere | set(decided) for (d,) in self.staged.rows("names", "t.key = ?", [key], "t.document_id")}
        again = [d for d in concerned.difference(changed) if self._belong(d)]
        self._one_by_one(self._belong, changed)
        self._one_by_one(self._derive, (*changed, *again))
        self.nodes.store()
        for document in self.homonyms.update(self.entities):
            self._belong(document)
            self._derive(document)
        self._one_by_one(self._store_entities, batched(sorted(self.entities), BATCH))
        self.blocks |= {block_of(self.corpus.names[key]) for key in self.entities if key in self.corpus.names}
        self._one_by_one(self._log, batched(sorted(self.keys), BATCH))
        self.sums.apply()

    def _one_by_one(self, work: Callable[[T], object], subjects: Iterable[T]) -> None:
        """Do some work for each subject; what is changed for several is committed together, which takes as long as for one."""
        for some in batched(subjects, TOGETHER):
            with self.staged.together():
                for subject in some:
                    work(subject)

    def _take_out_names(self, document: str) -> set[str]:
        rows = list(self.staged.rows("names", "t.document_id = ?", [document], "t.key, t.entity"))
        self.staged.drop("names", [(document, key) for key, _ in rows])
        self.entities |= {entity for _, entity in rows}
        return {key for key, _ in rows}

    def _take_names(self, document: str) -> set[str]:
        """Store what a document says of its names; the keys of those of which it says something else than before."""
        chunks, extractions = self.read(document)
        votes, defined = votes_of(extractions, chunks)
        targets = targets_of(document, votes, defined)
        old = {row[1]: row for row in self.staged.rows("names", "t.document_id = ?", [document])}
        new = []
        for key, v in votes.items():
            said = [json.dumps(x, ensure_ascii=False) for x in (_sorted(v.texts), _sorted(v.types), sorted(v.descriptions))]
            form = (first(v.texts), first(v.types), v.texts.total())
            new.append((document, key, *said, *form, *targets.get(key, (None, None, None)), *(old[key][11:] if key in old else ("", ""))))
        changed = {key for _, key in self.staged.replace("names", old.values(), new)}
        self.entities |= {row[12] for row in old.values()}
        return changed

    def _belong(self, document: str) -> bool:
        """Find out which entity each name of a document belongs to; whether one belongs to another than before."""
        rows = {row[1]: row for row in self.staged.rows("names", "t.document_id = ?", [document])}

        def target(key: str) -> Target | None:
            if key not in rows:
                return None
            own = rows[key][8:11]
            return self._decided.get(key) or (own if own[0] is not None else self.corpus.names.target(key))

        new = []
        for key, row in rows.items():
            base = follow(key, target, self.decisions)
            entity = self.homonyms.entity(base, person=row[6] == "person")
            if row[11:] != (base, entity):
                new.append((*row[:11], base, entity))
                self.keys.add(key)
                self.entities |= {row[12], entity} - {""}
        self.staged.put("names", new)
        return bool(new)

    def _derive(self, document: str) -> None:
        """Take a document's part in the graph out, and put in what it is now."""
        chunks, extractions = self.read(document)
        names = list(self.staged.rows("names", "t.document_id = ?", [document], "t.key, t.entity, t.base"))
        for _, entity, base in names:
            self.nodes.of(entity, base)
        self._give(document, contribution(extractions, chunks, {key: entity for key, entity, _ in names}), chunks)
        self.entities |= {entity for _, entity, _ in names}

    def _give(self, document: str, made: Contribution, chunks: Mapping[str, Chunk]) -> None:
        staged = self.staged
        before = [c for (c,) in staged.rows("graph_chunks", "t.document_id = ?", [document], "t.chunk_id")]
        listed = json.dumps(sorted({*before, *chunks}))
        inside = "t.chunk_id IN (SELECT value FROM json_each(?))"
        staged.replace("mentions", staged.rows("mentions", inside, [listed]), made.mentions)
        claims = [tuple(getattr(c, n) for n in c.__slots__) for c in made.claims]
        staged.replace("claims", staged.rows("claims", inside, [listed]), claims)
        self.sums.give(document, made, staged.rows("statements", inside, [listed]))

    def _store_entities(self, keys: Sequence[str]) -> None:
        """Bring entities up to date: name and type by vote, what is said of them, their other names."""
        staged = self.staged
        before, now, known, written = list[Row](), list[Row](), list[Row](), list[Row]()
        for key in keys:
            ident = entity_id(key)
            before += (row for row in [staged.row("entities", ident)] if row)
            known += staged.rows("entity_aliases", "t.entity_id = ?", [ident])
            rows = staged.rows("names", "t.base = ?", [self.nodes.base(key)], "t.key, t.texts, t.types, t.descriptions, t.entity")
            uses = [row for row in rows if row[4] == key]
            if uses:
                now.append(_entity(key, uses, before[-1] if before and before[-1][0] == ident else None))
                written += ((alias, ident) for (alias,) in staged.rows("mentions", "t.entity_id = ?", [ident], "DISTINCT t.name"))
            else:
                self.nodes.drop(key)
        staged.replace("entities", before, now)
        staged.replace("entity_aliases", known, written)

    def _log(self, keys: Sequence[str]) -> None:
        """Say of names which entities they were made part of, and why."""
        old, new = list[Row](), list[Row]()
        for key in keys:
            old += self.staged.rows("merges", "t.name_key = ? AND t.done = 1", [key])
            new += ((key, entity, 1, *why) for entity, why in self._merged(key).items())
        self.staged.replace("merges", old, new)

    def _merged(self, key: str) -> dict[str, tuple[str, float]]:
        where = "t.key = ? AND t.key <> t.entity"
        rows = set(self.staged.rows("names", where, [key], "t.key, t.base, t.entity, t.target, t.reason, t.score"))
        found: dict[str, tuple[str, float]] = {}
        for _, base, entity, target, reason, score in sorted(rows, key=lambda row: (-(row[5] or 0), row[4] or "")):
            step = self._decided.get(key) or ((target, reason, score) if target else self.corpus.names.target(key))
            if entity != base or step:
                found.setdefault(entity, ("homonym: kept apart", 0.9) if entity != base or not step else step[1:])
        return found


def _entity(key: str, uses: Sequence[Row], known: Row | None) -> Row:
    """The row of an entity, from what documents say of its names; description and degree as they are."""
    alike = Counter(row[:4] for row in uses)  # most documents say the same of a common name
    votes = [(r[0], Votes(_times(r[1], n), _times(r[2], n), dict.fromkeys(json.loads(r[3])))) for r, n in alike.items()]
    name, kind, descriptions = named(key, votes)
    said = json.dumps(descriptions, ensure_ascii=False)
    return (entity_id(key), name, kind, known[3] if known else "", known[4] if known else 0, said)


def _times(votes: str, n: int) -> Counter[str]:
    return Counter({said: n * count for said, count in json.loads(votes).items()})


def _sorted(votes: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(votes.items()))
