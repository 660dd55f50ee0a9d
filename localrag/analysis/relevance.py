"""Which sentences of documents are about an entity or a topic."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

from localrag.analysis.placed_sentences import PlacedSentence
from localrag.analysis.reading import read_pairs
from localrag.project import Project
from localrag.query.retriever import content_stems, named_entities, retrieve, word_share
from localrag.store import graph

TOPIC_CHUNKS = 50  # retrieved for a topic
# A sentence is about a topic if the reader's relevance and this times the share of the topic's words in it are together above 0.
WORD_SHARE_WEIGHT = 3.0
_PERSONAL_PRONOUN = re.compile(r"\b(?:he|she|er|sie|él|ella|il|elle)\b|^[他她]|[，。；][他她]", re.IGNORECASE)
PRONOUN_CHARS = 60  # at the beginning of a sentence that may hold its subject


def entity_ids_of(about: str, project: Project) -> frozenset[str]:
    """The entities that a text names, by any of their names; none if it also has other words, so that it is a topic."""
    entities = named_entities(about, project)
    remaining = about
    for name in sorted((entity.text for entity in entities), key=len, reverse=True):
        remaining = remaining.replace(name, " ")
    return frozenset() if content_stems(remaining) else frozenset(entity.entity_id for entity in entities)


def chunk_ids_of_entities(entity_ids: frozenset[str], project: Project) -> frozenset[str]:
    """The chunks that mention one of the entities."""
    return frozenset(mention.chunk_id for mention in graph.mentions(project.db, entity_ids))


def chunk_ids_of_topic(topic: str, project: Project) -> frozenset[str]:
    """The chunks that are most relevant to a topic."""
    found = retrieve(topic, project.embedder.embed([topic])[0], project, TOPIC_CHUNKS)
    return frozenset(chunk.id for chunk, _ in found)


def is_in_chunks(sentence: PlacedSentence, chunk_ids: frozenset[str]) -> bool:
    """Whether a sentence is in one of the chunks, also where that overlaps the one that it was read from."""
    chunks = sentence.source.chunks  # in order
    first, last = bisect_right(chunks, sentence.start, key=lambda c: c.end), bisect_left(chunks, sentence.end, key=lambda c: c.start)
    return any(c.id in chunk_ids for c in chunks[first:last])


def are_about_topic(topic: str, texts: Sequence[str], project: Project) -> list[bool]:
    """Whether each text is about a topic. Raises UsageError and ModelError as `read_pairs` does."""
    readings = read_pairs([(topic, text) for text in texts], project)
    return [r.relevance + WORD_SHARE_WEIGHT * word_share(topic, text) > 0 for text, r in zip(texts, readings, strict=True)]


def sentences_about_entities(
    sentences: Sequence[PlacedSentence], entity_ids: frozenset[str], people: frozenset[str], project: Project
) -> Iterator[PlacedSentence]:
    """The sentences of a document that mention one of the entities, and those after one of these that go on with "he" or "she".

    `people`: the entities that are persons (`people_in`). A sentence that goes on follows one that mentions no other person, nor does it.
    """
    mentioned = _mentioned_entities(sentences, project)
    is_about_person, end = False, 0
    for sentence, ids in zip(sentences, mentioned, strict=True):
        is_mentioned = not ids.isdisjoint(entity_ids)
        others = (ids & people) - entity_ids
        gap = sentence.source.document.text[end : sentence.start]
        goes_on = is_about_person and not others and "\n\n" not in gap and bool(_PERSONAL_PRONOUN.search(sentence.text[:PRONOUN_CHARS]))
        if is_mentioned or goes_on:
            yield sentence
        is_about_person = not others and (goes_on or not ids.isdisjoint(entity_ids & people))
        end = sentence.end


def people_in(project: Project) -> frozenset[str]:
    """The entities that are persons."""
    return frozenset(entity.id for entity in graph.entities(project.db) if entity.type == "person")


def _mentioned_entities(sentences: Sequence[PlacedSentence], project: Project) -> list[set[str]]:
    """The entities that each sentence of a document mentions."""
    found: list[set[str]] = [set() for _ in sentences]
    starts = [sentence.start for sentence in sentences]
    for mention in graph.mentions_in(project.db, [c.id for c in sentences[0].source.chunks]) if sentences else ():
        n = bisect_right(starts, mention.start) - 1
        if n >= 0 and mention.start < sentences[n].end:
            found[n].add(mention.entity_id)
    return found
