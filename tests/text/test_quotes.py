"""In which order verbatim sentences come."""

import asyncio
from itertools import permutations

import pytest

from localrag.indexing.graph.stage import describe_graph
from localrag.records import Chunk, Entity, Evidence, Graph, Mention, Relationship
from localrag.text.quotes import entity_quotes, sentence_quotes

SAID = "Ingrid Holm bought the ferry {} from Lars Holm in the harbour of Vardby."
NAMES = ("Skua", "Petrel", "Fulmar")  # in the order of paths


@pytest.mark.parametrize("ids", list(permutations("abc")))
def test_equal_sentences_come_in_the_order_of_paths_and_places(ids):
    """Whatever ids an edit gives the chunks: the same sentences come first, of entities and in descriptions."""
    chunks = {key: Chunk(key, "d", n, 0, 90, SAID.format(name), 20) for n, (key, name) in enumerate(zip(ids, NAMES, strict=True))}
    holm, lars = (Entity(name, name, "person") for name in ("Ingrid Holm", "Lars Holm"))
    mentions = tuple(
        Mention(e.id, key, e.name, c.text.find(e.name), c.text.find(e.name) + 9) for key, c in chunks.items() for e in (holm, lars)
    )
    evidence = tuple(Evidence("r", key, 0, len(c.text)) for key, c in sorted(chunks.items()))
    graph = Graph((holm, lars), (Relationship("r", holm.id, lars.id, weight=3),), mentions[::-1], evidence)
    wanted = [SAID.format(name) for name in NAMES]

    assert [q.text for q in entity_quotes(graph, chunks)[holm.id]] == wanted
    of_relationship = {"r": [q for key, c in chunks.items() for q in sentence_quotes(chunks[key], 0, len(c.text))]}
    described, _ = asyncio.run(describe_graph(graph, entity_quotes(graph, chunks).get, of_relationship.get, None, "extractive"))
    assert described.entities[0].description == " ".join(wanted[:2])
    assert described.relationships[0].description == wanted[0]
