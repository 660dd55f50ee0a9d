"""Chunk → Extraction without a model: names and recurring noun phrases, related where they share a sentence.

It takes milliseconds a chunk, so a graph is there at once; the model's extractions replace it chunk by chunk.
"""

from localrag.index.extraction.names.candidates import candidates, concepts
from localrag.index.extraction.names.case import RUN, Case
from localrag.index.extraction.names.spans import nearby_pairs
from localrag.index.extraction.passage import Passage
from localrag.llm.grammar import THING
from localrag.records import Chunk, ExtractedEntity, ExtractedRelationship, Extraction, content_id

PHRASES = content_id("phrases 6")  # the recipe: what such an extraction depends on besides its chunk's document
NAME = "name"  # the type of a name that no model has looked at


def extract_phrases(chunk: Chunk, case: Case) -> Extraction:
    """The names and recurring noun phrases of a chunk; those of one sentence are related."""
    passage = Passage(chunk.text, case)
    names = candidates(passage)
    phrases = concepts(passage, names)
    pairs = nearby_pairs(passage.numbers([*names, *phrases]))
    entities = [ExtractedEntity(n, NAME) for n in names] + [ExtractedEntity(p, THING) for p in phrases]
    return Extraction(
        chunk.id,
        tuple(entities),
        tuple(ExtractedRelationship(a, b) for a, b in pairs),
        (),
        "phrases",
        max(0, len(RUN.findall(passage.text)) - len(passage.capitalised)),  # runs that are no names, or stand in furniture or licences
    )
