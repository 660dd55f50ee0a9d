"""Communities of a graph that changes: only what a change reaches moves, and the partition is as good as one found anew."""

import random
from collections import defaultdict

import igraph
import pytest
from sqlite_utils import Database

from localrag.indexing.graph.clustering import modularity, update_communities
from localrag.indexing.graph.communities import ATTACHMENT_WEIGHT, graph_arrays, hierarchical_leiden
from localrag.store import graph
from localrag.store.schema import create_schema
from localrag.store.staging import GraphStaging

MAX_SIZE = 10


@pytest.fixture
def db():
    """An empty index."""
    made = Database(memory=True)
    create_schema(made)
    return made


class Living:
    """A graph of groups that are joined within more than between, some entities of which have no relationship; it is edited at random."""

    def __init__(self, db, rng, size):
        self.db, self.rng, self.state, self.written = db, rng, {}, 0
        self.entities = {f"e{n:04}": n % (size // 15) for n in range(size)}
        self.edges = {}
        for _ in range(3 * size):
            self.join()
        self.chunks = {f"c{n:03}": set(rng.sample(sorted(self.entities), 6)) for n in range(size // 8)}
        for chunk in self.chunks:
            db["documents"].insert({"id": chunk, "path": chunk, "title": "", "text": "", "content_hash": ""})
            db["chunks"].insert({"id": chunk, "document_id": chunk, "ordinal": 0, "start": 0, "end": 0, "text": "", "tokens": 0})

    def join(self):
        """Relate two entities, mostly of one group."""
        a = self.rng.choice(sorted(self.entities))
        group = [e for e, g in self.entities.items() if g == self.entities[a]] if self.rng.random() < 0.85 else sorted(self.entities)
        b = self.rng.choice(group)
        if a != b and self.entities[a] % 7 < 6:
            self.edges[min(a, b), max(a, b)] = round(self.rng.uniform(0.5, 3), 2)

    def edit(self, much):
        """Relationships go, come and change their weight; entities too; a chunk is about others."""
        for pair in self.rng.sample(sorted(self.edges), min(much, len(self.edges))):
            if self.rng.random() < 0.5:
                del self.edges[pair]
            else:
                self.edges[pair] = round(self.rng.uniform(0.5, 3), 2)
        for _ in range(much):
            self.join()
        if self.rng.random() < 0.7:
            gone = self.rng.choice(sorted(self.entities))
            del self.entities[gone]
            self.edges = {pair: w for pair, w in self.edges.items() if gone not in pair}
            self.entities[f"n{self.written:04}{self.rng.randrange(100)}"] = self.rng.randrange(8)
        chunk = self.rng.choice(sorted(self.chunks))
        self.chunks[chunk] = set(self.rng.sample(sorted(self.entities), 6))

    def rows(self):
        """Entities, relationships and mentions as rows."""
        degree = defaultdict(int)
        for a, b in self.edges:
            degree[a] += 1
            degree[b] += 1
        entities = [(e, e, "thing", "", degree[e], "[]") for e in self.entities]
        relationships = [(f"{a} {b}", a, b, "", w, 1.0, "[]") for (a, b), w in self.edges.items()]
        mentions = [(e, c, n, n + 1, e, 0.0) for c, some in self.chunks.items() for n, e in enumerate(sorted(some & self.entities.keys()))]
        return {"entities": entities, "relationships": relationships, "mentions": mentions}

    def update(self, **options):
        """Bring the stored graph up to date; which communities are others, and how good they are now and would be if found anew."""
        staged = GraphStaging(self.db)
        for table, rows in self.rows().items():
            staged.replace(table, staged.select(table), rows)
        options = {"max_size": MAX_SIZE, "seed": 0, **options}
        done = update_communities(staged, self.state, lambda: graph.communities(self.db), **options)
        found, ids, edges = modularity(staged), *network(staged)
        with self.db.atomic():
            staged.publish()
        self.state, self.written = done.statistics, self.written + 1
        return done.changed, found, best(ids, edges)


def best(ids, edges, most=MAX_SIZE):
    """The modularity of communities that are found anew."""
    found = hierarchical_leiden(graph_arrays([(e, 0) for e in ids], edges), max_size=most, seed=0)
    home = {e: n for n, c in enumerate(found) if c.level == 0 for e in c.entity_ids}
    return as_igraph(ids, edges).modularity([home[e] for e in ids], weights="weight")


def network(staged):
    """The entities, and what joins them, with weights."""
    edges = list(staged.select("relationships", columns="t.source_id, t.target_id, t.weight"))
    edges += [(a, b, ATTACHMENT_WEIGHT) for a, b in staged.select("isolated_entities")]
    return sorted(key for (key,) in staged.select("entities", columns="t.id")), edges


def as_igraph(ids, edges):
    """The graph as igraph has it."""
    number = {e: n for n, e in enumerate(ids)}
    made = igraph.Graph(n=len(ids), edges=[(number[a], number[b]) for a, b, _ in edges])
    made.es["weight"] = [w for *_, w in edges]
    return made


def wrong(db, most=MAX_SIZE):
    """What of the stored communities of at most so many entities is not as it should be."""
    levels, found = graph.communities(db), []
    staged = GraphStaging(db)
    ids, edges = network(staged)
    weights = {key: row for key, *row in staged.select("community_weights")}
    staged.discard()
    whole, number, by_id = as_igraph(ids, edges), {e: n for n, e in enumerate(ids)}, {c.id: c for c in levels}
    for level in range(1 + max(c.level for c in levels)):
        here = [c for c in levels if c.level == level]
        if sorted(e for c in here for e in c.entity_ids) != ids:
            found.append(f"level {level} is no partition")
        for c in here:
            above = set(by_id[c.parent_id].entity_ids) if c.parent_id else set(ids)
            if not set(c.entity_ids) <= above:
                found.append(f"{c} is not inside of the one above it")
            if len(whole.induced_subgraph([number[e] for e in c.entity_ids]).connected_components()) != 1:
                found.append(f"{c} does not hang together")
            if len(above) <= most and level and len(c.entity_ids) != len(above):
                found.append(f"{c} is a part of one within the limit")
            own = set(c.entity_ids)
            strength = sum(w * ((a in own) + (b in own)) for a, b, w in edges if a in above and b in above)
            inside = sum(2 * w for a, b, w in edges if a in own and b in own)
            if weights[c.id] != pytest.approx([strength, inside], abs=1e-6):
                found.append(f"{c} weighs {strength, inside}, not {weights[c.id]}")
    if set(weights) != set(by_id):
        found.append("weights of others than there are")
    return found


@pytest.mark.parametrize("seed", range(8))
def test_after_any_edits_communities_are_a_hierarchy_that_hangs_together_and_are_as_good_as_found_anew(db, seed):
    """Every level is a partition inside the one above it, and what is kept of its weights is what they add up to."""
    rng = random.Random(seed)
    living = Living(db, rng, rng.choice([120, 240, 400]))
    living.update()
    assert not wrong(db)
    small = 0
    for _ in range(12):
        living.edit(rng.choice([1, 1, 3, 8]))

        changed, found, from_scratch = living.update()

        assert not wrong(db)
        assert found > from_scratch - 0.005
        small += changed is not None
    assert small >= 6


def test_a_change_in_one_place_leaves_the_communities_elsewhere_as_they_are(db):
    """Those that are others are among those that are said to have changed, and these are few."""
    living = Living(db, random.Random(1), 400)
    living.update()
    before = {c.id: c for c in graph.communities(db)}
    (a, b), _ = max(living.edges.items(), key=lambda pair: pair[0])
    living.edges[a, b] += 0.5

    changed, *_ = living.update()

    assert changed is not None
    after = {c.id: c for c in graph.communities(db)}
    assert {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)} <= changed
    assert len(changed) < len(before) / 10


def test_two_communities_that_come_to_belong_together_become_one(db):
    """Though most of their entities are not looked at: none of what joins these to others has changed."""
    living = Living(db, random.Random(1), 120)
    living.entities = {f"{group}{n}": group for group in range(10, 50) for n in range(10)}
    inside = [(a, b) for a in living.entities for b in living.entities if a < b and a[:2] == b[:2]]
    living.edges, living.chunks = dict.fromkeys(inside, 1.0), {}
    living.update()
    assert sorted(len(c.entity_ids) for c in graph.communities(db) if c.level == 0) == [10] * 40

    living.edges |= {(f"10{n}", f"11{n}"): 4.0 for n in range(4)}
    changed, found, from_scratch = living.update()

    assert changed is not None
    assert sorted(len(c.entity_ids) for c in graph.communities(db) if c.level == 0) == [10] * 38 + [20]
    assert not wrong(db)
    assert found == pytest.approx(from_scratch)


@pytest.mark.parametrize(("factor", "options"), [(1.3, {}), (1, {"from_scratch": True})])
def test_much_change_finds_all_communities_anew(db, factor, options):
    """Where every weight is another, nothing says which communities stay; so it is where that is asked for."""
    living = Living(db, random.Random(1), 240)
    living.update()
    for pair in living.edges:
        living.edges[pair] *= factor

    changed, *_ = living.update(**options)

    assert changed is None
