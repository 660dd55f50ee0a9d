"""Which sentences of documents are about an entity or a topic."""

import re
from collections.abc import Iterator, Mapping, Sequence

from localrag.analysis.placed_sentences import PlacedSentence
from localrag.analysis.reading import read_passages
from localrag.project import Project
from localrag.query.retriever import content_stems, named_entities, retrieve, word_share
from localrag.store import graph

TOPIC_CHUNKS = 50  # retrieved for a topic
TEXTS_PER_BATCH = 64  # that the reader reads at once
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


def chunk_ids_of_topic(topic: str, project: Project) -> frozenset[str]:
    """The chunks that are most relevant to a topic."""
    found = retrieve(topic, project.embedder.embed([topic])[0], project, TOPIC_CHUNKS)
    return frozenset(chunk.id for chunk, _ in found)


def is_in_chunks(sentence: PlacedSentence, chunk_ids: frozenset[str]) -> bool:
    """Whether a sentence is in one of the chunks, also where that overlaps the one that it was read from."""
    return any(c.id in chunk_ids and c.start < sentence.end and sentence.start < c.end for c in sentence.source.chunks)


def are_about_topic(topic: str, texts: Sequence[str], project: Project) -> list[bool]:
    """Whether each text is about a topic. Raises UsageError and ModelError as `read_passages` does."""
    readings = (
        reading
        for start in range(0, len(texts), TEXTS_PER_BATCH)
        for reading in read_passages(topic, texts[start : start + TEXTS_PER_BATCH], project)
    )
    return [r.relevance + WORD_SHARE_WEIGHT * word_share(topic, text) > 0 for text, r in zip(texts, readings, strict=True)]


class EntityMentions:
    """The mentions of entities by chunk, and which of them are persons."""

    def __init__(self, entity_ids: frozenset[str], project: Project) -> None:
        self.entity_ids = entity_ids
        self._db = project.db
        self._people = frozenset(entity.id for entity in graph.entities(project.db) if entity.type == "person")
        self.chunk_ids = frozenset(mention.chunk_id for mention in graph.mentions(project.db, entity_ids))

    def sentences_about(self, sentences: Sequence[PlacedSentence]) -> Iterator[PlacedSentence]:
        """The sentences of a document that mention one of the entities, and those after one of these that go on with "he" or "she".

        Neither sentence then mentions another person.
        """
        if not sentences:
            return
        by_sentence = self._by_sentence(sentences)
        is_about_person, end = False, 0
        for n, sentence in enumerate(sentences):
            ids = by_sentence.get(n, frozenset())
            is_mentioned = not ids.isdisjoint(self.entity_ids)
            others = (ids & self._people) - self.entity_ids
            gap = sentence.source.document.text[end : sentence.start]
            goes_on = is_about_person and not others and "\n\n" not in gap and bool(_PERSONAL_PRONOUN.search(sentence.text[:PRONOUN_CHARS]))
            if is_mentioned or goes_on:
                yield sentence
            is_about_person = not others and (goes_on or (is_mentioned and not ids.isdisjoint(self.entity_ids & self._people)))
            end = sentence.end

    def _by_sentence(self, sentences: Sequence[PlacedSentence]) -> Mapping[int, frozenset[str]]:
        """Number of a sentence → the entities that it mentions."""
        mentions = sorted(graph.mentions_in(self._db, [c.id for c in sentences[0].source.chunks]), key=lambda m: m.start)
        found: dict[int, frozenset[str]] = {}
        n = 0
        for mention in mentions:
            while n < len(sentences) and sentences[n].end <= mention.start:
                n += 1
            if n < len(sentences) and sentences[n].start <= mention.start:
                found[n] = found.get(n, frozenset()) | {mention.entity_id}
        return found
