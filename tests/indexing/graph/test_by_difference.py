"""A graph that is changed by what changed, against the graph of all that there is."""

import json
import random

import pytest
from sqlite_utils import Database

from localrag.indexing.graph.entity_resolution import MergeDecisions
from localrag.indexing.graph.merge import GraphUpdate, find_similar_spellings, undecided_pairs
from localrag.records import Chunk, ExtractedEntity, ExtractedRelationship, Extraction
from localrag.store.schema import create_schema
from localrag.store.staging import GRAPH_TABLES, GraphStaging
from tests.indexing.graph.in_memory_graph import build_graph_in_memory
from tests.indexing.graph.whole import weigh_by_pmi

SURNAMES = "Holm Sand Vik Berg Lund Strand Moe Dahl".split()
GIVEN = "Lars Anna Ingrid Per Ola Marit".split()
FIRMS = "Nordic Fish", "Nordic Salt", "Harbour Line", "Northern Coal"
PLACES = "Brannock Oslo Tarvik Holm Paris".split()
TYPES = ["person", "organization", "place", "name"]


def a_name(rng):
    """A name as a text may have it, in full or as one of its variants, with its type, which may be wrong."""
    surname, given, firm = rng.choice(SURNAMES), rng.choice(GIVEN), rng.choice(FIRMS)
    name, kind = rng.choice(
        [
            (f"{given} {surname}", "person"),
            (surname, "person"),
            (f"Mr. {surname}", "person"),
            (f"{given[0]}. {surname}", "person"),
            (given, "person"),
            (firm, "organization"),
            (f"{firm} Company", "organization"),
            ("".join(w[0] for w in f"{firm} Company".split()), "organization"),
            (rng.choice(PLACES), "place"),
        ]
    )
    return name, rng.choice(TYPES) if rng.random() < 0.1 else kind


def a_document(rng, number, version):
    """Two chunks of a document that overlap, with what was found in them."""
    sentences, found = [], []
    for _ in range(6):
        some = dict(a_name(rng) for _ in range(rng.randrange(1, 4)))
        sentences.append(f"{' met '.join(some)} about the {rng.choice(['quota', 'wreck', 'strike'])} of {rng.randrange(1900, 1910)}. ")
        found.append(some)
    chunks, extractions = {}, []
    for n, (first, last) in enumerate([(0, 4), (3, 6)]):
        start = len("".join(sentences[:first]))
        text = "".join(sentences[first:last])
        chunk = Chunk(f"d{number}-{version}-{n}", f"d{number}", n, start, start + len(text), text, 50)
        names = {name: kind for some in found[first:last] for name, kind in some.items()}
        by = rng.choice(["phrases", "phrases", "model"])
        related = []
        for some in found[first:last]:
            for a in some:
                for b in some:
                    if a < b and a not in b and b not in a and (by == "phrases" or rng.random() < 0.5):
                        related.append(ExtractedRelationship(a, b, rng.choice(["", "they met", "they quarrelled"]), rng.randrange(1, 10)))
        entities = tuple(ExtractedEntity(name, kind, rng.choice(["", f"{name} is known"])) for name, kind in names.items())
        chunks[chunk.id] = chunk
        extractions.append(Extraction(chunk.id, entities, tuple(related), extractor=by))
    return chunks, extractions


def the_whole(documents, decisions):
    """The graph of all documents, made at once."""
    chunks = {key: c for some, _ in documents.values() for key, c in some.items()}
    extractions = [x for _, (_, found) in sorted(documents.items()) for x in found]
    return weigh_by_pmi(
        build_graph_in_memory(extractions, chunks, decisions), chunks, {x.chunk_id for x in extractions if x.extractor == "phrases"}
    )


def rows_of(graph):
    """What of a graph follows from its documents, as rows."""
    return {
        "entities": {(e.id, e.name, e.type, e.degree, json.dumps(e.descriptions)) for e in graph.entities},
        "entity_aliases": {(m.name, m.entity_id) for m in graph.mentions},
        "relationships": {(r.id, r.source_id, r.target_id, r.weight, r.strength, json.dumps(r.descriptions)) for r in graph.relationships},
        "mentions": {(m.entity_id, m.chunk_id, m.start, m.end, m.name) for m in graph.mentions},
        "evidence": {(e.relationship_id, e.chunk_id, e.start, e.end) for e in graph.evidence},
    }


def stored(db):
    """The same of the stored graph."""
    columns = {
        "entities": "id, name, type, degree, descriptions",
        "entity_aliases": "alias, entity_id",
        "relationships": "id, source_id, target_id, weight, strength, descriptions",
        "mentions": "entity_id, chunk_id, start, end, name",
        "evidence": "relationship_id, chunk_id, start, end",
    }
    return {table: set(db.execute(f"SELECT {listed} FROM {table}")) for table, listed in columns.items()}


def update(db, documents, changed, gone, decisions, decided=()):
    """Bring the stored graph up to date and publish it."""
    staged = GraphStaging(db)
    GraphUpdate(staged, lambda d: documents[d], decisions).apply(changed, gone, decided)
    for document in (*changed, *gone):
        known = list(staged.select("graph_inputs", "t.document_id = ?", [document]))
        staged.replace("graph_inputs", known, [(c, document, "") for c in documents.get(document, ({},))[0]])
    with db.atomic():
        staged.publish()


@pytest.fixture
def db():
    """An empty index."""
    made = Database(memory=True)
    create_schema(made)
    return made


@pytest.mark.parametrize("seed", range(6))
def test_after_any_edits_the_graph_is_that_of_a_fresh_index(db, seed):
    """Documents come, change and go, one or several at a time, and names are decided on: all rows are what a fresh index has."""
    rng = random.Random(seed)
    documents = {f"d{n}": a_document(rng, n, 0) for n in range(12)}
    decisions = MergeDecisions()
    update(db, documents, list(documents), [], decisions)
    assert stored(db) == rows_of(the_whole(documents, decisions))
    for step in range(1, 16):
        some, gone, decided = rng.sample(sorted(documents), rng.choice([0, 1, 1, 3])), [], set()
        if rng.random() < 0.3:
            some.append(f"d{20 + step}")
        if rng.random() < 0.4:
            gone = [rng.choice(sorted(documents.keys() - set(some)))]
            del documents[gone[0]]
        if rng.random() < 0.3:
            a, b = (rng.choice(SURNAMES).lower() for _ in range(2))
            before = decisions
            decisions = rng.choice(
                [
                    MergeDecisions(),
                    MergeDecisions(merged_pairs=((a, b),)),
                    MergeDecisions(separate_pairs=frozenset([frozenset((a, f"lars {a}"))])),
                ]
            )
            pairs = [*before.merged_pairs, *decisions.merged_pairs, *before.separate_pairs, *decisions.separate_pairs]
            decided = set().union(*map(set, pairs))
        documents |= {d: a_document(rng, int(d[1:]), step) for d in some}
        update(db, documents, some, gone, decisions, decided)
        assert stored(db) == rows_of(the_whole(documents, decisions)), f"step {step}: {some}, without {gone}, {decisions}"


def test_an_index_whose_documents_are_all_gone_holds_no_name(db):
    """Text that was edited away leaves every table of the graph."""
    documents = {f"d{n}": a_document(random.Random(n), n, 0) for n in range(3)}
    update(db, documents, list(documents), [], MergeDecisions())
    update(db, {}, [], list(documents), MergeDecisions())

    assert {table: db[table].count for table in GRAPH_TABLES if db[table].count} == {"graph_nodes": 1}  # how many sentences there are: none


def test_every_merge_is_logged_with_reason_and_score(db):
    """The log says which name went where and why; names that are merely spelt alike are open."""
    names = ("Scrooge", "Ebenezer Scrooge", "Zakhary", "Zachary")
    text = " met ".join(names)
    found = Extraction("c", tuple(ExtractedEntity(name, "person") for name in names), ())
    staged = GraphStaging(db)
    made = GraphUpdate(staged, lambda _: ({"c": Chunk("c", "d", 0, 0, len(text), text, 10)}, [found]), MergeDecisions())
    made.apply(["d"], [], [])
    find_similar_spellings(staged, made.blocks)

    assert list(staged.select("name_merges")) == [("scrooge", "ebenezer scrooge", 1, "surname", 0.95)]
    assert [{a, b} for a, b, _ in undecided_pairs(staged, MergeDecisions())] == [{"zachary", "zakhary"}]
    staged.discard()
