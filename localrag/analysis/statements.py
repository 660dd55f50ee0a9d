"""Statements: what the sentences of documents say, each wording once, and which of them may be about the same thing."""

import math
import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from localrag.analysis.contradiction_score import is_personal_remark, needs_subject
from localrag.analysis.placed_sentences import OpenedDocument, PlacedSentence, sentences_of
from localrag.entailment.normalization import normalize_sentence
from localrag.project import Project
from localrag.query.retriever import word_share
from localrag.query.support_score import content_words
from localrag.store import graph
from localrag.text.kinds import TextKind, classify_sentence

MIN_TERMS, MAX_STATEMENT_CHARS = 2, 600
MAX_SMALL_WORD_CHARS, MIN_TITLE_SHARE = 3, 0.9
# A sentence that only says where to look.
_REFERS = re.compile(
    r"\b(?:click here|for (?:more|further|full|additional) (?:information|details?)|for details|more (?:information|details) (?:on|about)"
    r"|see [\"“„«]?(?:also|below|above|issue|page|section|chapter|figure|table|the|how|what|our)|(?:learn|read|find out) more|check out"
    r"|siehe (?:auch|unten|oben|Seite|Abschnitt)|weitere Informationen|véase|más información|voir (?:aussi|page))\b",
    re.IGNORECASE,
)
_SPEAKER = re.compile(r"^(?:[A-Z][\w.’'-]*+\s){0,3}[A-Z][\w.’'-]*+:\s+")  # who says the sentence, in minutes and transcripts
MIN_SUBJECT_SHARE = 0.6  # of the words of a document's title in a text that names what the document is about
MAX_NEIGHBORS = 8  # of a statement by vectors, and as many by rare terms
MAX_TERM_SHARE, MIN_TERM_LIMIT = 0.05, 30  # the share of the statements with a term that still is rare, and a number that always is
BLOCK_ROWS = 1024  # statements that are compared with all others at once

Vectors = NDArray[np.float32]


@dataclass(frozen=True)
class ComparedSentence:
    """One or more sentences of equal wording; `text`: on one line without markup; `terms`: content words, and entities by id.

    `subject`: the title of the document, if the sentence does not say itself what it is about.
    """

    places: tuple[PlacedSentence, ...]
    text: str
    terms: tuple[str, ...]
    subject: str = ""

    @cached_property
    def document_ids(self) -> frozenset[str]:
        """The documents that it is in."""
        return frozenset(place.source.document.id for place in self.places)

    @property
    def full_text(self) -> str:
        """The text behind its subject."""
        return f"{self.subject}: {self.text}" if self.subject else self.text

    def is_about(self, text: str) -> bool:
        """Whether a text names the subject."""
        return bool(self.subject) and word_share(self.subject, text) >= MIN_SUBJECT_SHARE


class Neighbors(NamedTuple):
    """Two statements, by number, that may be about the same thing; `cosine` of their vectors, `overlap` of their weighted terms, 0 to 1."""

    first: int
    second: int
    cosine: float
    overlap: float


def compared_sentences(
    sources: Iterable[OpenedDocument], project: Project, chunk_ids: Collection[str] | None = None
) -> list[ComparedSentence]:
    """The statements of documents, or of some of their chunks: no questions, headings, table rows, code or fragments."""
    places: defaultdict[str, list[PlacedSentence]] = defaultdict(list)
    texts: dict[str, str] = {}
    entities: defaultdict[str, set[str]] = defaultdict(set)
    for source in sources:
        mentions = sorted((m.start, m.entity_id) for m in graph.mentions_in(project.db, [chunk.id for chunk in source.chunks]))
        for sentence in sentences_of(source):
            text = _statement_text(sentence) if chunk_ids is None or sentence.chunk_id in chunk_ids else ""
            if text:
                key = text.casefold()
                texts.setdefault(key, text)
                places[key].append(sentence)
                entities[key] |= {m[1] for m in mentions[bisect_left(mentions, (sentence.start,)) : bisect_left(mentions, (sentence.end,))]}
    found = list[ComparedSentence]()
    for key, text in texts.items():
        terms = (*content_words(text), *sorted(entities[key]))
        if len(terms) >= MIN_TERMS:
            subject = title_of(places[key][0]) if needs_subject(text) else ""
            found.append(ComparedSentence(tuple(places[key]), text, (*terms, *content_words(subject)), subject))
    return found


def title_of(sentence: PlacedSentence) -> str:
    """The title of the document of a sentence, on one line."""
    return re.sub(r"[_\s]+", " ", sentence.source.document.title).strip()


def texts_in_context(first: ComparedSentence, second: ComparedSentence) -> tuple[str, str]:
    """The texts of two statements, each behind its subject if the other one names it."""
    return (
        first.full_text if first.is_about(second.text) else first.text,
        second.full_text if second.is_about(first.text) else second.text,
    )


def _statement_text(sentence: PlacedSentence) -> str:
    """The sentence without markup; empty if it states nothing that could be contradicted."""
    text, is_spoken = _SPEAKER.subn("", normalize_sentence(sentence.text))
    if is_spoken and is_personal_remark(text):
        return ""
    if len(text) > MAX_STATEMENT_CHARS or text.endswith(("?", "？", ":", "：")) or _REFERS.search(text) or _is_title(text):
        return ""
    return text if classify_sentence(sentence.text) is TextKind.PROSE else ""


def _is_title(text: str) -> bool:
    """Whether nearly all words but short ones are capitalized."""
    words = [word for word in text.split() if len(word) > MAX_SMALL_WORD_CHARS]
    return bool(words) and sum(word[0].isupper() for word in words) >= MIN_TITLE_SHARE * len(words)


def neighbor_pairs(statements: Sequence[ComparedSentence], vectors: Vectors) -> list[Neighbors]:
    """Pairs of statements of which one is among the other's nearest by vectors, (n, d), or by rare terms; never all pairs."""
    if len(statements) < 2:
        return []
    weights = term_weights(statements)
    pairs: dict[tuple[int, int], tuple[float, float]] = {}
    for start in range(0, len(statements), BLOCK_ROWS):
        rows = np.arange(start, min(start + BLOCK_ROWS, len(statements)))
        cosines = vectors[rows] @ vectors.T
        overlaps = np.asarray((weights[rows] @ weights.T).todense(), np.float32)
        for scores in (cosines, overlaps):
            scores[np.arange(len(rows)), rows] = -1
            for i, near in zip(
                rows, np.argpartition(-scores, min(MAX_NEIGHBORS, len(statements) - 1), axis=1)[:, :MAX_NEIGHBORS], strict=True
            ):
                for j in near:
                    if scores[i - start, j] > 0:
                        values = (float(cosines[i - start, j]), float(overlaps[i - start, j]))
                        pairs.setdefault((int(min(i, j)), int(max(i, j))), values)
    return [Neighbors(i, j, *values) for (i, j), values in sorted(pairs.items())]


def term_weights(statements: Sequence[ComparedSentence]) -> Any:
    """A sparse matrix, (statements, terms): how rare each term is, each row of length 1."""
    from scipy.sparse import csr_matrix

    counts = Counter(term for statement in statements for term in set(statement.terms))
    limit = max(MIN_TERM_LIMIT, MAX_TERM_SHARE * len(statements))
    columns = {term: n for n, term in enumerate(sorted(counts))}
    rows, numbers, values = [], [], []
    for row, statement in enumerate(statements):
        terms = [term for term in dict.fromkeys(statement.terms) if counts[term] <= limit]
        weights = np.log(1 + len(statements) / np.array([counts[term] for term in terms], np.float32))
        rows += [row] * len(terms)
        numbers += [columns[term] for term in terms]
        values += (weights / max(float(np.linalg.norm(weights)), 1e-9)).tolist()
    return csr_matrix((np.array(values, np.float32), (rows, numbers)), shape=(len(statements), len(columns)))


def document_similarity(statements: Sequence[ComparedSentence]) -> Callable[[ComparedSentence, ComparedSentence], float]:
    """A function of two statements: how similar their documents are, the cosine of their weighted terms; 1 for the same document."""
    terms: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for statement in statements:
        for document in statement.document_ids:
            terms[document].update(statement.terms)
    spread = Counter(term for counts in terms.values() for term in counts)
    weights = {
        document: {term: (1 + math.log(n)) * math.log(1 + len(terms) / spread[term]) for term, n in counts.items()}
        for document, counts in terms.items()
    }
    lengths = {document: math.sqrt(sum(w * w for w in values.values())) for document, values in weights.items()}

    @cache
    def cosine(a: str, b: str) -> float:
        short, long = sorted((a, b), key=lambda document: len(weights[document]))
        shared = sum(weight * weights[long].get(term, 0.0) for term, weight in weights[short].items())
        return shared / max(lengths[a] * lengths[b], 1e-9)

    def similarity(first: ComparedSentence, second: ComparedSentence) -> float:
        if first.document_ids & second.document_ids:
            return 1.0
        return max(cosine(min(a, b), max(a, b)) for a in first.document_ids for b in second.document_ids)

    return similarity
