"""What more searches and other signals add to the ranking of passages: `python -m scripts.ablate_ranking DATA WORK`.

DATA and WORK as of `scripts/train_ranking.py`. Printed is R@5 / all@8 of each set for each variant, with trees fitted on the other sets, as
there, and what R@5 gains over `now` with 95 % certainty (paired bootstrap).

- `sum`: without trees, by the sum of both walks.
- `now`: the question, and the question with the sentence that the reader prefers.
- `beam`: two more searches, with the next two sentences; of each signal the best value of all three, and of the walks the likeliest.
- `third`: a third search, with the sentence that the reader then prefers in the second one's passages as well.
- `convergence`: as `beam`, the walks combined by their geometric mean.
- `reader`: also the reader's relevance of the thirty passages that both walks prefer, to the question alone and with the sentence.
- `signals`: also the words of the question that the passage of the sentence lacks, the words of the sentence in the title, and the cosine
  with the question's vector without the direction of that passage.
- `equal seeds`, `rare seeds`: walks that start at the entities of the question with equal weights, or with their rarity squared.
- `bagging`: the mean of BAGS times as many trees, each 80 of them fitted on questions drawn with replacement (Breiman 1996).
- `coverage`: the passages behind the first three are chosen one by one, those that have words of the question first which the others lack.
"""

import asyncio
import math
import pickle
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from localrag.pagerank import PageRankGraph
from localrag.project import Project
from localrag.query import retriever
from localrag.query.basic_search import CANDIDATES_PER_HOP, search_signals
from localrag.query.extractive import read_chunks
from localrag.query.passage_ranking import FEATURES, LEADING, MIN_PROBABILITY, WALK_WEIGHT, RankingTrees, rank_rows, ranking_features
from localrag.query.retriever import content_stems, retrieve
from localrag.records import Chunk
from localrag.text.sentences import collapse_whitespace
from scripts.train_ranking import SETS, RankedQuestion, fit, opened_set, others_of

BEAM = ("second", "second_2", "second_3")
SECOND = [FEATURES.index(name) for name in FEATURES if "second" in name]
LOG_WALK, LOG_FIRST, LOG_SECOND, RANK_WALK = (FEATURES.index(n) for n in ("log_walk", "log_first", "log_second", "rank_walk"))
COVERAGE, COVERED = 3.0, 15  # how much uncovered words count; passages among which is chosen
RESAMPLED, BAGS = 4000, 20
READ, UNREAD = 30, -12.0  # passages that the reader reads; the relevance of the others
SEEDS = {"equal seeds": 0.0, "rare seeds": 2.0}  # the power of their rarity by which entities are weighted
Array = NDArray[np.float64]


@dataclass(frozen=True)
class SearchedQuestion:
    """What several searches say of all their passages, (passages, features) by search; `found`: which of them each search has."""

    text: str
    keys: list[str]
    gold: list[str]
    stems: list[set[str]]
    features: dict[str, Array]
    found: dict[str, NDArray[np.bool_]]
    relevance: Array  # of the question, and of the question with the sentence, (passages, 2)
    more: Array  # other signals, (passages, 3)
    seeded: dict[str, Array]  # the features with other weights of entities


async def search_question(row: dict[str, str], project: Project, keys: dict[str, str]) -> SearchedQuestion | None:
    """The searches of a question; None if nothing can be read."""
    question = row["question"]
    searches = {"first": _search(question, project)}
    read, is_read = await read_chunks(question, searches["first"][2], project)
    if not is_read:
        return None
    sentences = list(dict.fromkeys(collapse_whitespace(w.sentence.text) for w in read))[: len(BEAM)]
    searches |= {name: _search(f"{question} {s}", project) for name, s in zip(BEAM, sentences, strict=False)}
    known = {chunk.id for chunk in searches["first"][2][:5]}
    text, _, second, _ = searches["second"]
    again, _ = await read_chunks(text, [c for c in second if c.id not in known], project)
    more = next((s for w in again if (s := collapse_whitespace(w.sentence.text)) not in sentences), "")
    searches["third"] = _search(f"{text} {more}", project)
    chunks = list({c.id: c for _, _, found, _ in searches.values() for c in found}.values())
    signals = {name: search_signals(text, vector, scored, project) for name, (text, vector, _, scored) in searches.items()}
    features = {name: ranking_features(chunks, signals["first"], s, project) for name, s in signals.items() if name != "first"}
    source = [c.id for c in chunks].index(read[0].window.chunk_id)
    return SearchedQuestion(
        question,
        [keys[c.document_id] for c in chunks],
        list(row["gold"]),
        [content_stems(c.text) for c in chunks],
        features,
        {name: np.array([c.id in {f.id for f in found} for c in chunks]) for name, (_, _, found, _) in searches.items()},
        _relevance(chunks, np.argsort(-features["second"][:, LOG_WALK], kind="stable")[:READ], (question, text), project),
        _more_signals(chunks, source, question, sentences[0], project),
        {name: _seeded_features(chunks, exponent, (question, text), project) for name, exponent in SEEDS.items()},
    )


def _relevance(chunks: Sequence[Chunk], rows: NDArray[np.int64], texts: Sequence[str], project: Project) -> Array:
    """The reader's relevance of some passages to each text, (passages, texts)."""
    assert project.reader is not None
    relevance = np.full((len(chunks), len(texts)), UNREAD)
    for n, text in enumerate(texts):
        relevance[rows, n] = [r.relevance for r in project.reader.read_pairs([(text, chunks[i].text) for i in rows])]
    return relevance


def _more_signals(chunks: Sequence[Chunk], source: int, question: str, sentence: str, project: Project) -> Array:
    """The signals of the variant of that name, (passages, 3). `source`: the row of the sentence's passage."""
    asked, stems = content_stems(question), [content_stems(c.text) for c in chunks]
    missing, added = asked - stems[source], content_stems(sentence) - asked
    titles = [content_stems(c.text.partition("\n")[0]) for c in chunks]
    vector, *vectors = project.embedder.embed([question, *(c.text for c in chunks)])
    rest = vector - (vector @ vectors[source]) * vectors[source]
    cosines = np.array(vectors) @ (rest / max(1e-6, float(np.linalg.norm(rest))))
    words = [(len(s & missing) / max(1, len(missing)), len(t & added) / max(1, len(t))) for s, t in zip(stems, titles, strict=True)]
    return np.column_stack([np.array(words), (cosines - cosines.max()) / cosines.std()])


def _seeded_features(chunks: Sequence[Chunk], exponent: float, texts: tuple[str, str], project: Project) -> Array:
    """The features by walks that start at entities weighted by a power of their rarity."""
    usual = retriever._seed_entities

    def weighted(question: str, net: PageRankGraph, project: Project) -> dict[int, float]:
        return {number: weight * float(net.rarity[number]) ** (exponent - 1) for number, weight in usual(question, net, project).items()}

    try:
        retriever._seed_entities = weighted
        first, second = (_search(text, project) for text in texts)
    finally:
        retriever._seed_entities = usual
    return ranking_features(
        chunks, *(search_signals(text, vector, scored, project) for text, vector, _, scored in (first, second)), project
    )


def _search(text: str, project: Project) -> tuple[str, NDArray[np.float32], list[Chunk], list[tuple[Chunk, float]]]:
    vector = project.embedder.embed([text])[0]
    scored = retrieve(text, vector, project, CANDIDATES_PER_HOP)
    return text, vector, [chunk for chunk, _ in scored], scored


async def search_set(folder: Path, work: Path) -> list[SearchedQuestion]:
    """The searches of all questions of a set, kept in `work`."""
    kept = work / f"{folder.name}.searches.pkl"
    if kept.exists():
        return list(pickle.loads(kept.read_bytes()))
    async with opened_set(folder, work) as (project, keys, queries):
        found = [searched for row in queries if (searched := await search_question(row, project, keys))]
    kept.write_bytes(pickle.dumps(found))
    return found


def combined(asked: SearchedQuestion, names: Sequence[str] = ("second",), walks: Callable[[Array], Array] | None = None) -> RankedQuestion:
    """The features of the second search with the best of some searches behind them; `walks` combines (searches, passages) probabilities."""
    here = [name for name in names if name in asked.features]
    rows = asked.found["first"] | np.any([asked.found[name] for name in here], axis=0)
    features = asked.features["second"].copy()
    if walks:
        first, *others = (np.exp(f) - MIN_PROBABILITY for f in [features[:, LOG_FIRST], *(asked.features[n][:, LOG_SECOND] for n in here)])
        walk = first + walks(np.array(others))
        features[:, LOG_WALK] = np.log(walk + MIN_PROBABILITY)
        features[np.argsort(-walk, kind="stable"), RANK_WALK] = 1 / (1 + np.arange(len(walk)))
    columns = [features]
    if len(names) > 1:
        columns.append(np.max([asked.features[name][:, SECOND] for name in here], axis=0))
    return _of_rows(asked, rows, np.concatenate(columns, axis=1))


def _of_rows(asked: SearchedQuestion, rows: NDArray[np.bool_], features: Array) -> RankedQuestion:
    return RankedQuestion(features[rows], [k for k, r in zip(asked.keys, rows, strict=True) if r], asked.gold)


def with_columns(asked: SearchedQuestion, features: Array, more: Array | None = None) -> RankedQuestion:
    """The passages of both searches with other features, (passages, features), and with more columns."""
    columns = features if more is None else np.concatenate([features, more], axis=1)
    return _of_rows(asked, asked.found["first"] | asked.found["second"], columns)


def covering_order(asked: SearchedQuestion, ranked: RankedQuestion, trees: RankingTrees, weights: Counter[str]) -> NDArray[np.int64]:
    """The order of the passages of the first two searches by their probability and the words of the question that they add."""
    stems = [s for s, f in zip(asked.stems, asked.found["first"] | asked.found["second"], strict=True) if f]
    order = rank_rows(ranked.features, trees).tolist()
    chance = 1 / (1 + np.exp(-trees.scores(ranked.features) - WALK_WEIGHT * ranked.features[:, LOG_WALK]))
    missing = {word: 1 / math.log(2 + weights[word]) for word in content_stems(asked.text)}
    total = sum(missing.values()) or 1.0
    chosen, rest = list[int](), order[:COVERED]
    while rest:
        best = rest[0]
        if len(chosen) >= LEADING:
            best = max(rest, key=lambda i: chance[i] * (1 + COVERAGE * sum(missing[w] for w in missing.keys() & stems[i]) / total))
        rest.remove(best)
        chosen.append(best)
        missing |= {word: missing[word] * (1 - chance[best]) for word in missing.keys() & stems[best]}
    return np.array(chosen + order[COVERED:])


def likeliest(walks: Array) -> Array:
    """Of the probabilities of several walks, (walks, passages), the highest."""
    return np.asarray(walks.max(axis=0))


def geometric_mean(walks: Array) -> Array:
    """Of the probabilities of several walks, (walks, passages)."""
    return np.asarray(np.exp(np.log(walks + MIN_PROBABILITY).mean(axis=0)))


def main() -> None:
    data, work = (Path(argument) for argument in sys.argv[1:3])
    asked = {name: asyncio.run(search_set(data / name, work)) for name in SETS if (data / name).is_dir()}
    variants: dict[str, Callable[[SearchedQuestion], RankedQuestion]] = {
        "beam": lambda q: combined(q, BEAM, likeliest),
        "third": lambda q: combined(q, ("second", "third"), likeliest),
        "beam and third": lambda q: combined(q, (*BEAM, "third"), likeliest),
        "convergence": lambda q: combined(q, BEAM, geometric_mean),
        "reader": lambda q: with_columns(q, q.features["second"], q.relevance),
        "signals": lambda q: with_columns(q, q.features["second"], q.more),
        **{name: partial(_seeded, name) for name in SEEDS},
    }
    now = {name: [combined(q) for q in some] for name, some in asked.items()}
    base = measure(now, lambda _, q, trees: rank_rows(q.features, trees), asked)
    _print_row("sum", measure(now, lambda _, q, __: np.argsort(-q.features[:, LOG_WALK], kind="stable"), asked), base)
    _print_row("now", base, base)
    for variant, of in variants.items():
        sets = {name: [of(q) for q in some] for name, some in asked.items()}
        _print_row(variant, measure(sets, lambda _, q, trees: rank_rows(q.features, trees), asked), base)
    _print_row("bagging", measure(now, lambda _, q, trees: rank_rows(q.features, trees), asked, bagged), base)
    weights = Counter(word for some in asked.values() for q in some for stems in q.stems for word in stems)
    _print_row("coverage", measure(now, lambda searched, q, trees: covering_order(searched, q, trees, weights), asked), base)


def _seeded(name: str, asked: SearchedQuestion) -> RankedQuestion:
    return with_columns(asked, asked.seeded[name])


def measure(
    sets: dict[str, list[RankedQuestion]],
    order: Callable[[SearchedQuestion, RankedQuestion, RankingTrees], NDArray[np.int64]],
    asked: dict[str, list[SearchedQuestion]],
    fitted: Callable[[list[RankedQuestion]], RankingTrees] = fit,
) -> dict[str, Array]:
    """For each set R@5 and all@8 of its questions, (questions, 2), with trees fitted on the others."""
    found = dict[str, Array]()
    for name, questions in sets.items():
        trees = fitted(others_of(name, sets))
        orders = [order(searched, q, trees) for searched, q in zip(asked[name], questions, strict=True)]
        found[name] = np.array([(q.recall(o), q.recall(o, 8) == 1) for q, o in zip(questions, orders, strict=True)])
    return found


def bagged(questions: list[RankedQuestion]) -> RankingTrees:
    """The mean of BAGS forests, each fitted on questions drawn with replacement."""
    chance = np.random.default_rng(0)
    forests = [fit([questions[i] for i in chance.integers(0, len(questions), len(questions))]) for _ in range(BAGS)]
    starts = np.cumsum([0, *(len(trees.feature) for trees in forests)])[:-1]
    moved = [
        trees._replace(left=trees.left + at, right=trees.right + at, roots=trees.roots + at, value=trees.value / BAGS)
        for trees, at in zip(forests, starts, strict=True)
    ]
    return RankingTrees(*map(np.concatenate, zip(*moved, strict=True)))


def _print_row(variant: str, found: dict[str, Array], base: dict[str, Array]) -> None:
    random, shares = np.random.default_rng(0), []
    for name, values in found.items():
        gains = (values - base[name])[random.integers(0, len(values), (RESAMPLED, len(values))), 0].mean(axis=1)
        low, high = np.percentile(100 * gains, (2.5, 97.5))
        recall, complete = 100 * values.mean(axis=0)
        shares.append(f"{name} {recall:.1f} / {complete:.1f} ({low:+.1f} to {high:+.1f})")
    print(f"{variant}: {', '.join(shares)}", flush=True)


if __name__ == "__main__":
    main()
