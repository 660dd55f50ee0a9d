"""Retrieval without a model: full text, vectors, and personalised PageRank over entities and chunks.

PageRank restarts at the passages found by full text and vectors and at the entities that the question names. So it also finds a passage
that shares no word with the question but is about an entity in a relevant passage.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from localrag.dates.date_mentions import DateMention, find_dates
from localrag.dates.edtf import Day
from localrag.project import Project
from localrag.records import Chunk
from localrag.store import chunks as chunks_store
from localrag.store import documents, graph, vectors
from localrag.store.filtered import FilteredDatabase
from localrag.store.full_text import chunks_matching, search_chunks
from localrag.store.query_terms import parse_query
from localrag.text.language import detect_language
from localrag.text.sentences import CJK, STOP_WORDS, cjk_bigrams, is_cjk

if TYPE_CHECKING:
    from localrag.pagerank import PageRankGraph, Weights


CANDIDATE_CHUNKS = 50  # restart passages from full text, and from vectors
SOFTMAX_TEMPERATURE = 0.6  # of cosines in units of their spread, for the restart probability
MIN_SPREAD = 1e-3  # of cosines
LEXICAL_EXPONENT = 5  # of the BM25 score relative to the best
LEXICAL_WEIGHT = 0.7  # of full text, relative to vectors
CJK_LEXICAL_WEIGHT = 4.0  # the bundled embedder knows little Chinese
# Restart passages with boosted mentions, characters around a mention that may contain words of the question, the boost.
MAX_WEIGHED_PASSAGES, MENTION_WINDOW_CHARS, MENTION_FACTOR = 20, 60, 10.0
DATE_FACTOR, MAX_DATED_CHUNKS = 3.0, 20_000  # for passages of documents of the time that the question names; at most so many
RERANKED, FUSION = 30, 10  # passages for the reranker; the constant k of reciprocal rank fusion
RESTRICTED = 1000  # passages looked through for those that have a quoted phrase
REPEATED_FACTOR, MIN_REPEATED = 2, 0.8  # passages looked at for each that is wanted; the share of a passage from which on it is a repeat
FIRST_DAY, LAST_DAY = (-9999, 1, 1), (9999, 12, 31)
T = TypeVar("T")
MAX_NAME_WORDS = 8
MAX_QUERY_WORDS = 300  # of a question, looked up as names

_WORD_PATTERN = re.compile(r"(?:(?<!\S)\.)?[^\W_][\w'’.&-]*")
_WORDS = re.compile(r"[^\W_]+")
_CJK_RUN = re.compile(f"[{CJK}·]+")


@dataclass(frozen=True, slots=True)
class NamedEntity:
    """An entity that a question names; `text` is the name in the question."""

    entity_id: str
    text: str


def _cached(project: Project, key: Hashable, compute: Callable[[], T]) -> T:
    """The result of a search from the project's `search_cache`, computed on first use."""
    if project.search_cache is None:
        return compute()
    if key not in project.search_cache:
        project.search_cache[key] = compute()
    result: T = project.search_cache[key]
    return result


def named_entities(question: str, project: Project) -> list[NamedEntity]:
    """The entities that a question names, by any of their names in any case; words within a longer name are not matched again."""
    return list(_cached(project, ("entities", question), lambda: _find_named_entities(question, project)))


def _find_named_entities(question: str, project: Project) -> list[NamedEntity]:
    entities: dict[str, NamedEntity] = {}
    phrases = list(_phrases(question))
    ids_by_name = graph.entity_ids_by_name(project.db, {form for *_, forms in phrases for form in forms})
    used: set[int] = set()
    for start, end, text, forms in sorted(phrases, key=lambda t: (t[0] - t[1], t[0])):
        ids = next((ids_by_name[f.lower()] for f in forms if f.lower() in ids_by_name), ())
        if ids and used.isdisjoint(range(start, end)):
            used.update(range(start, end))
            for entity in ids:
                entities.setdefault(entity, NamedEntity(entity, text))
    return list(entities.values())


def _phrases(question: str) -> Iterator[tuple[int, int, str, list[str]]]:
    """Phrases of up to MAX_NAME_WORDS words as (start, end, text, spellings of a name); for CJK spans of 2 to 12 characters."""
    words = list(_WORD_PATTERN.finditer(question))[:MAX_QUERY_WORDS]
    for i, first in enumerate(words):
        for final in words[i : i + MAX_NAME_WORDS]:
            text = question[first.start() : final.end()].rstrip(".,&-'’")
            bare = re.sub(r"['’]s$", "", text)
            if text.lower() not in STOP_WORDS and len(text) > 1 and not is_cjk(text):
                yield first.start(), final.end(), bare, list(dict.fromkeys([text, bare, f"the {bare}", bare.removeprefix(".")]))
    for run in _CJK_RUN.finditer(question[:2000]):
        for i in range(run.start(), run.end()):
            for j in range(i + 2, min(i + 12, run.end()) + 1):
                yield i, j, question[i:j], [question[i:j]]


def retrieve(question: str, vector: NDArray[np.float32], project: Project, k: int) -> list[tuple[Chunk, float]]:
    """The `k` most relevant passages for a question, best first, with scores relative to the best (1). `vector`, (d,): the question's."""
    from localrag.pagerank import personalized_pagerank  # imports scipy, a tenth of a second
    from localrag.store.entity_network import load_entity_network

    seeds = _seed_chunks(question, vector, project)
    if not seeds:
        return []
    scores = seeds
    net = load_entity_network(project.db, project.folder)
    if net.entities:
        restart_chunks = {n: w for c, w in seeds.items() if (n := net.chunks.number(c)) is not None}
        entities = _seed_entities(question, net, project)
        probabilities = personalized_pagerank(
            net,
            entities,
            restart_chunks,
            _query_word_boosts(question, list(seeds)[:MAX_WEIGHED_PASSAGES], net, project),
            _selected_chunks(net, project),
        )
        probabilities[_dated_chunks(question, net, project)] *= DATE_FACTOR
        wanted = max(k, RERANKED) if project.reranker else REPEATED_FACTOR * k
        top = np.argpartition(-probabilities, min(wanted, len(probabilities) - 1))[: wanted + 1]
        scores = {net.chunks[i]: float(probabilities[i]) for i in top if probabilities[i] > 0}
    best = sorted(scores, key=lambda c: (-scores[c], c))
    if project.reranker:
        scores = _rerank(question, best[: max(k, RERANKED)], project)
        best = list(scores)
    return [(c, scores[c.id] / scores[best[0]]) for c in _without_repeats(best, k, project)]


def search_passages(query: str, project: Project, k: int) -> list[tuple[Chunk, float]]:
    """The `k` most relevant passages that have a query's quoted phrases and nothing it excludes, best first, with scores."""
    parsed = parse_query(query)
    vector = project.embedder.embed([parsed.text])[0]
    if not parsed.phrases and not parsed.excluded:
        return retrieve(parsed.text, vector, project, k)
    allowed = chunks_matching(project.db, parsed.phrases, parsed.excluded)
    found = [(c, score) for c, score in retrieve(parsed.text, vector, project, max(k, RESTRICTED)) if c.id in allowed][:k]
    by_words = (
        key for key, _ in search_chunks(project.db, parsed.text, max(k, RESTRICTED), detect_language(parsed.text)) if key in allowed
    )
    others = _without_repeats(list(dict.fromkeys([*(c.id for c, _ in found), *by_words])), k, project)[len(found) :]
    return [*found, *((c, 0.0) for c in others)]


def _without_repeats(best: Sequence[str], k: int, project: Project) -> list[Chunk]:
    """The first `k` chunks of which none repeats one before it: it has no other words, and few more."""
    chosen, seen = list[Chunk](), list[str]()
    for start in range(0, len(best), max(k, 1)):
        for chunk in chunks_store.chunks_by_id(project.db, best[start : start + k]):
            words = f" {' '.join(_WORDS.findall(chunk.text.casefold()))} "
            if not any(words in other or (other in words and len(other) >= MIN_REPEATED * len(words)) for other in seen if words.strip()):
                chosen.append(chunk)
                seen.append(words)
            if len(chosen) == k:
                return chosen
    return chosen


def _dated_chunks(question: str, net: "PageRankGraph", project: Project) -> NDArray[np.int64]:
    """The chunks of documents of the time that a question names; none where there are too many of them to tell passages apart."""
    dated = _cached(project, ("dates", question), lambda: documents_of_dates(question, project, date.today()))
    ids = chunks_store.ids_in_documents(project.db, dated, MAX_DATED_CHUNKS + 1) if dated else []
    numbers = [n for i in ids if (n := net.chunks.number(i)) is not None] if len(ids) <= MAX_DATED_CHUNKS else []
    return np.array(numbers, np.int64)


def documents_of_dates(question: str, project: Project, today: date) -> frozenset[str]:
    """The documents (ids) of the time that a question names, by the date in their metadata or, of a single time, in their path.

    Empty if the question names none. `today`: what "last March" is reckoned from.
    """
    mentions = find_dates(question, today, detect_language(question)).mentions
    found = set[str]()
    for mention in mentions:
        first, last = _days(mention)
        found |= documents.ids_of_days(project.db, _iso(first), _iso(last), list(_name_patterns(mention)))
    return frozenset(found)


def _days(mention: DateMention) -> tuple[Day, Day]:
    first, last = mention.value.first_day, mention.value.last_day
    if mention.bound in ("before", "until", "by") or mention.value.start is None:
        first = FIRST_DAY
    if mention.bound in ("after", "since") or mention.value.end is None:
        last = LAST_DAY
    return first, last


def _iso(day: Day) -> str:
    return f"{max(day[0], 0):04d}-{day[1]:02d}-{day[2]:02d}"


def _name_patterns(mention: DateMention) -> Iterator[str]:
    """Patterns of file names with a single year, month or day: `2024-03`, `2024_03`, `202403`."""
    one = mention.value.start
    if one is None or one != mention.value.end or mention.bound or one.years > 1 or one.month > 12 or one.year < 1000:
        return
    parts = [f"{one.year:04d}", *(f"{part:02d}" for part in (one.month, one.day) if part)]
    for between in ("-", "_", ".", "") if len(parts) > 1 else ("",):
        yield f"*[^0-9]{between.join(parts)}[^0-9]*"


def _selected_chunks(net: "PageRankGraph", project: Project) -> NDArray[np.float32] | None:
    """A 0/1 mask of the chunks that match the filter; None without a filter."""
    if not isinstance(project.db, FilteredDatabase):
        return None
    if "inside" not in project.db.query_cache:
        project.db.query_cache["inside"] = np.zeros(len(net.chunks), np.float32)
        project.db.query_cache["inside"][net.chunks.numbers(project.db.subject_ids("chunk"))] = 1
    inside: NDArray[np.float32] = project.db.query_cache["inside"]
    return inside


def _rerank(question: str, best: Sequence[str], project: Project) -> dict[str, float]:
    """Scores by chunk id, best first: the ranks of PageRank and reranker fused (reciprocal rank fusion, Cormack et al. 2009).

    A reranker only sees question and passage, so it cannot judge passages that merely lead to the answer; hence both.
    """
    assert project.reranker is not None
    reranker_scores = project.reranker(question, [c.text for c in chunks_store.chunks_by_id(project.db, best)])
    reranker_rank = {int(i): rank for rank, i in enumerate(np.argsort(-reranker_scores, kind="stable"))}
    fused = {c: 1 / (FUSION + rank) + 1 / (FUSION + reranker_rank[rank]) for rank, c in enumerate(best)}
    return dict(sorted(fused.items(), key=lambda item: (-item[1], item[0])))


def hybrid_search(question: str, vector: NDArray[np.float32], project: Project, k: int) -> list[Chunk]:
    """The `k` best passages of full-text and vector search, without the graph."""
    return chunks_store.chunks_by_id(project.db, list(_seed_chunks(question, vector, project))[:k])


def search_meaning_and_words(
    question: str, vector: NDArray[np.float32], project: Project
) -> tuple[list[tuple[str, float]], list[tuple[str, float]]]:
    """The chunks nearest in meaning, with cosines, and in words, with BM25 scores; by id, best first."""

    def find() -> tuple[list[tuple[str, float]], list[tuple[str, float]]]:
        by_meaning = vectors.nearest(project.db, project.folder, "chunk", vector, CANDIDATE_CHUNKS)
        return by_meaning, search_chunks(project.db, question, CANDIDATE_CHUNKS, detect_language(question))

    return _cached(project, ("nearest", question, vector.tobytes()), find)


def cosine_spread(cosines: Collection[float]) -> float:
    """The standard deviation of the nearest chunks' cosines, which is some five times larger with one embedder than with another."""
    return max(float(np.std(list(cosines))), MIN_SPREAD) if cosines else MIN_SPREAD


def _seed_chunks(question: str, vector: NDArray[np.float32], project: Project) -> dict[str, float]:
    return dict(_cached(project, ("passages", question, vector.tobytes()), lambda: _find_starting_passages(question, vector, project)))


def _find_starting_passages(question: str, vector: NDArray[np.float32], project: Project) -> dict[str, float]:
    by_meaning, by_words = search_meaning_and_words(question, vector, project)
    share: dict[str, float] = {}
    weight = CJK_LEXICAL_WEIGHT if is_cjk(question) else LEXICAL_WEIGHT
    temperature = SOFTMAX_TEMPERATURE * cosine_spread([s for _, s in by_meaning])
    for scored, weight_of_search in (
        ([(c, math.exp((s - by_meaning[0][1]) / temperature)) for c, s in by_meaning], 1.0),
        ([(c, (max(s, 0.0) / max(by_words[0][1], 1e-9)) ** LEXICAL_EXPONENT) for c, s in by_words], weight),
    ):
        total = sum(s for _, s in scored) or 1.0
        for c, s in scored:
            share[c] = share.get(c, 0.0) + weight_of_search * s / total
    return dict(sorted(share.items(), key=lambda item: (-item[1], item[0])))


def _seed_entities(question: str, net: "PageRankGraph", project: Project) -> "Weights":
    """Restart weights of the entities that the question names, higher for rare ones; entities with the same name share its weight."""
    named = [(n.text, number) for n in named_entities(question, project) if (number := net.entities.number(n.entity_id)) is not None]
    sharing = Counter(text for text, _ in named)
    return {number: float(net.rarity[number]) / sharing[text] for text, number in named}


def _query_word_boosts(question: str, chunk_ids: Sequence[str], net: "PageRankGraph", project: Project) -> "dict[int, Weights]":
    """Weights of edges from chunks to mentions that have words of the question near them."""
    question_stems = content_stems(re.sub(r"\b[A-Z]\w+", " ", question))
    if not question_stems:
        return {}
    chunks = {c.id: (c, n) for c in chunks_store.chunks_by_id(project.db, chunk_ids) if (n := net.chunks.number(c.id)) is not None}
    boosts: dict[int, dict[int, float]] = {}
    for m in graph.mentions_in(project.db, list(chunks)):
        chunk, number = chunks[m.chunk_id]
        start, end = m.start - chunk.start, m.end - chunk.start
        around = f"{chunk.text[max(0, start - MENTION_WINDOW_CHARS) : start]} {chunk.text[end : end + MENTION_WINDOW_CHARS]}"
        boost = MENTION_FACTOR * len(question_stems & content_stems(around)) / len(question_stems)
        entity = net.entities.number(m.entity_id)
        if entity is not None and boost:
            chunk_boosts = boosts.setdefault(number, {})
            chunk_boosts[entity] = max(boost, chunk_boosts.get(entity, 0.0))
    return dict(boosts)


def content_stems(text: str) -> set[str]:
    """The content words of `text`, truncated to five letters, which merges most inflections; CJK text as character pairs."""
    words = (w for w in re.findall(r"[^\W_]{3,}", text.lower()) if not is_cjk(w) and w not in STOP_WORDS)
    return {w[:5] for w in words} | set(cjk_bigrams(text).split())


def word_share(question: str, text: str) -> float:
    """The share of the question's content words that `text` has, 0 to 1."""
    wanted = content_stems(question)
    return len(wanted & content_stems(text)) / max(1, len(wanted))
