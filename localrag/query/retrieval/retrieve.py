"""Which passages bear on a question: full text, vectors and a walk over the graph, without a model.

Passages found by words and by meaning, and the entities that the question names, are where a personalised PageRank starts; so a passage
that shares no word with the question, but is about somebody whom a near passage names, is found as well.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from localrag.project import Project
from localrag.records import Chunk, Mention
from localrag.store import corpus, graph, vectors
from localrag.store.search import search_chunks
from localrag.store.selection import Selected
from localrag.text.plain import CJK, FUNCTION_WORDS, cjk_bigrams, is_cjk

if TYPE_CHECKING:
    from localrag.pagerank import Network, Weights

POOL = 50  # passages by words and by meaning that a walk may start at
SHARPNESS = 0.05  # cosine: so much less, and a passage by meaning starts e times fewer walks
WORDS_POWER = 5  # of a passage's BM25 score as a share of the best
WORDS_SHARE = 0.7  # weight of words against meaning
CJK_WORDS_SHARE = 4.0  # the bundled embedder knows little Chinese
STEERED, WINDOW, PULL = 20, 60, 10.0  # starting passages whose mentions are weighed, characters around a mention, by how much
RERANKED, FUSION = 30, 10  # passages a reranker looks at; the lower, the more the first ranks count
LONGEST = 8  # words of a name
MOST_WORDS = 300  # of a question that are looked up as names

_WORD = re.compile(r"(?:(?<!\S)\.)?[^\W_][\w'’.&-]*")
_CJK_RUN = re.compile(f"[{CJK}·]+")


@dataclass(frozen=True, slots=True)
class Named:
    """An entity that a question names: `text` as the question writes it."""

    entity_id: str
    text: str


def named_entities(question: str, project: Project) -> list[Named]:
    """The entities a question names, by any of their names in any case, longer names first; a word of a longer name is not meant."""
    found: dict[str, Named] = {}
    tries = list(_phrases(question))
    known = graph.entities_named(project.db, {form for *_, forms in tries for form in forms})
    taken: set[int] = set()
    for start, end, text, forms in sorted(tries, key=lambda t: (t[0] - t[1], t[0])):
        ids = next((known[f.lower()] for f in forms if f.lower() in known), ())
        if ids and taken.isdisjoint(range(start, end)):
            taken.update(range(start, end))
            for entity in ids:
                found.setdefault(entity, Named(entity, text))
    return list(found.values())


def names_in(question: str, project: Project) -> list[str]:
    """The names in a question as it writes them, with the other names of what they name, sorted."""
    named = named_entities(question, project)
    aliases = graph.aliases_of(project.db, [n.entity_id for n in named])
    return sorted({*(n.text for n in named), *(a for some in aliases.values() for a in some)})


def _phrases(question: str) -> Iterator[tuple[int, int, str, list[str]]]:
    """Stretches of up to LONGEST words (start, end, text, ways to write it as a name); CJK stretches of 2 to 12 characters."""
    words = list(_WORD.finditer(question))[:MOST_WORDS]
    for i, first in enumerate(words):
        for last in words[i : i + LONGEST]:
            text = question[first.start() : last.end()].rstrip(".,&-'’")
            bare = re.sub(r"['’]s$", "", text)
            if text.lower() not in FUNCTION_WORDS and len(text) > 1 and not is_cjk(text):
                yield first.start(), last.end(), bare, list(dict.fromkeys([text, bare, f"the {bare}", bare.removeprefix(".")]))
    for run in _CJK_RUN.finditer(question[:2000]):
        for i in range(run.start(), run.end()):
            for j in range(i + 2, min(i + 12, run.end()) + 1):
                yield i, j, question[i:j], [question[i:j]]


def search(question: str, vector: NDArray[np.float32], project: Project, k: int) -> list[tuple[Chunk, float]]:
    """The `k` passages that bear most on a question, best first, with a score, 1 for the best. `vector`, (d,), is the question's."""
    from localrag.pagerank import walk  # brings scipy, a tenth of a second; no other search needs it
    from localrag.store.network import load_network

    starts = _starting_passages(question, vector, project)
    if not starts:
        return []
    scores = dict(starts)
    net = load_network(project.db, project.folder)
    if net.entities:
        begun = {n: w for c, w in starts.items() if (n := net.chunks.number(c)) is not None}
        entities = _starting_entities(question, net, project)
        stay = walk(net, entities, begun, _favoured(question, list(starts)[:STEERED], net, project), _inside(net, project))
        wanted = max(k, RERANKED) if project.rerank else k
        top = np.argpartition(-stay, min(wanted, len(stay) - 1))[: wanted + 1]
        scores = {net.chunks[i]: float(stay[i]) for i in top if stay[i] > 0}
    best = sorted(scores, key=lambda c: (-scores[c], c))
    if project.rerank:
        scores = _reranked(question, best[: max(k, RERANKED)], project)
        best = list(scores)
    return [(c, scores[c.id] / scores[best[0]]) for c in corpus.chunks_by_id(project.db, best[:k])]


def _inside(net: "Network", project: Project) -> NDArray[np.float32] | None:
    """Which chunks of the network are selected; None where all are."""
    if not isinstance(project.db, Selected):
        return None
    if "inside" not in project.db.kept:
        project.db.kept["inside"] = np.zeros(len(net.chunks), np.float32)
        project.db.kept["inside"][net.chunks.numbers(project.db.subjects("chunk"))] = 1
    inside: NDArray[np.float32] = project.db.kept["inside"]
    return inside


def _reranked(question: str, best: Sequence[str], project: Project) -> dict[str, float]:
    """Chunk id → score, best first: ranks by the walk and by the reranker, fused (reciprocal rank fusion, Cormack et al. 2009).

    A reranker sees question and passage alone, so it knows nothing of passages that only lead to the answer; hence both.
    """
    assert project.rerank is not None
    given = project.rerank(question, [c.text for c in corpus.chunks_by_id(project.db, best)])
    judged = {int(i): rank for rank, i in enumerate(np.argsort(-given, kind="stable"))}
    fused = {c: 1 / (FUSION + rank) + 1 / (FUSION + judged[rank]) for rank, c in enumerate(best)}
    return dict(sorted(fused.items(), key=lambda item: (-item[1], item[0])))


def nearest_chunks(question: str, vector: NDArray[np.float32], project: Project, k: int) -> list[Chunk]:
    """The `k` passages nearest a question by words and meaning, without the graph."""
    return corpus.chunks_by_id(project.db, list(_starting_passages(question, vector, project))[:k])


def _starting_passages(question: str, vector: NDArray[np.float32], project: Project) -> dict[str, float]:
    """Chunk id → its share of the walks that start at passages, most first."""
    by_meaning = vectors.nearest(project.db, project.folder, "chunk", vector, POOL)
    by_words = search_chunks(project.db, question, POOL)
    share: dict[str, float] = {}
    weight = CJK_WORDS_SHARE if is_cjk(question) else WORDS_SHARE
    for found, of_all in (
        ([(c, math.exp((s - by_meaning[0][1]) / SHARPNESS)) for c, s in by_meaning], 1.0),
        ([(c, (max(s, 0.0) / max(by_words[0][1], 1e-9)) ** WORDS_POWER) for c, s in by_words], weight),
    ):
        total = sum(s for _, s in found) or 1.0
        for c, s in found:
            share[c] = share.get(c, 0.0) + of_all * s / total
    return dict(sorted(share.items(), key=lambda item: (-item[1], item[0])))


def _starting_entities(question: str, net: "Network", project: Project) -> "Weights":
    """The entities the question names, rarer ones weighing more; those that share a name share its weight."""
    named = [(n.text, place) for n in named_entities(question, project) if (place := net.entities.number(n.entity_id)) is not None]
    sharing = Counter(text for text, _ in named)
    return {place: float(net.rarity[place]) / sharing[text] for text, place in named}


def _favoured(question: str, chunk_ids: Sequence[str], net: "Network", project: Project) -> "dict[int, Weights]":
    """For each of some chunks, how much more the walk is drawn to mentions with the question's words beside them ("directed by")."""
    asked = stems(re.sub(r"\b[A-Z]\w+", " ", question))
    if not asked:
        return {}
    chunks = {c.id: (c, n) for c in corpus.chunks_by_id(project.db, chunk_ids) if (n := net.chunks.number(c.id)) is not None}
    pull: dict[int, dict[int, float]] = {}
    for m in graph.mentions_in(project.db, list(chunks)):
        chunk, number = chunks[m.chunk_id]
        entity, drawn = net.entities.number(m.entity_id), PULL * len(asked & stems(_beside(m, chunk))) / len(asked)
        if entity is not None and drawn:
            of_chunk = pull.setdefault(number, {})
            of_chunk[entity] = max(drawn, of_chunk.get(entity, 0.0))
    return dict(pull)


def _beside(m: Mention, chunk: Chunk) -> str:
    start, end = m.start - chunk.start, m.end - chunk.start
    return f"{chunk.text[max(0, start - WINDOW) : start]} {chunk.text[end : end + WINDOW]}"


def stems(text: str) -> set[str]:
    """The words of `text` that say something, cut to five letters, which joins most inflections; CJK text as character pairs."""
    words = (w for w in re.findall(r"[^\W_]{3,}", text.lower()) if not is_cjk(w) and w not in FUNCTION_WORDS)
    return {w[:5] for w in words} | set(cjk_bigrams(text).split())
