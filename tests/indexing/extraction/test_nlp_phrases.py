"""The graph without a model."""

from localrag.indexing.extraction.names import DocumentCasing
from localrag.indexing.extraction.nlp import extract_noun_phrases
from localrag.records import Chunk
from tests.indexing.graph.in_memory_graph import build_graph_in_memory
from tests.indexing.graph.whole import weigh_by_pmi

TEXT = (
    "Lars Holm met Ruth Sand in Vardby. Lars Holm wrote to Ruth Sand. Ruth Sand answered Lars Holm. "
    "Vardby is cold. Vardby is small. Lars Holm saw Vardby once. The Skua sank near Vardby. Vardby waits."
)


def chunk_of(text):
    return Chunk("c", "d", 0, 0, len(text), text, 50)


def test_phrases_are_names_of_the_text_related_by_sentence():
    """Every name is verbatim, none is repeated, and a relationship joins two names of one sentence."""
    found = extract_noun_phrases(chunk_of(TEXT), DocumentCasing(TEXT))

    names = [e.name for e in found.entities]
    assert {"Lars Holm", "Ruth Sand", "Vardby", "Skua"} <= set(names)
    assert len(names) == len(set(names))
    assert all(n in TEXT for n in names)
    assert {frozenset((r.source, r.target)) for r in found.relationships} >= {frozenset(("Skua", "Vardby"))}
    assert found.extractor == "phrases"


def test_weights_are_surprise_and_nobody_loses_the_last_relationship():
    """Two who share most of their sentences weigh more than one met by chance; pruning leaves every entity a relationship."""
    chunk = chunk_of(TEXT)
    graph = build_graph_in_memory([extract_noun_phrases(chunk, DocumentCasing(TEXT))], {"c": chunk})

    weighed = weigh_by_pmi(graph, {"c": chunk}, {"c"})

    names = {e.id: e.name for e in weighed.entities}
    weight = {frozenset((names[r.source_id], names[r.target_id])): r.weight for r in weighed.relationships}
    assert weight[frozenset(("Lars Holm", "Ruth Sand"))] > weight.get(frozenset(("Lars Holm", "Vardby")), 0)
    assert {n for pair in weight for n in pair} == {names[end] for r in graph.relationships for end in (r.source_id, r.target_id)}
