"""Fit how likely two statements contradict each other (`localrag/analysis/contradiction_score.py`), and print the weights.

    python -m scripts.fit_contradictions INDEX…

Learned from are the pairs of scripts/contradiction_pairs.txt but each fourth, sentences of the indexes with one number, date, name or
negation changed, and pairs of sentences of the indexes, which are taken to be compatible. Also prints the area under the ROC curve for the
pairs that were left out.
"""

import argparse
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.stats import rankdata

from localrag.analysis.contradiction_score import Agreement, pair_features, prior_features, screening_features
from localrag.analysis.contradictions import comparable_pairs
from localrag.analysis.differences import differences
from localrag.analysis.placed_sentences import opened_documents
from localrag.analysis.statements import ComparedSentence, compared_sentences, term_weights
from localrag.engine.embedder import EmbeddingModel, open_embedder
from localrag.entailment.normalization import normalize_sentence
from localrag.llm.reader import Entailment, PassageReader
from localrag.model_files import find_embedder
from localrag.project import open_for_query
from localrag.query.support_score import content_words

PAIRS = Path("scripts/contradiction_pairs.txt")
KEPT_EACH = 4
RIDGE = 0.003
# Features that cannot speak against a contradiction, and those that cannot speak for one, whatever a few hundred pairs say.
FAVORABLE = re.compile(
    r"contradicted|cosine|overlap|aligned|agreeing(?:, both ways)?$|reason: |both reasons|same unit|shared |prior|no difference ×|wording ×"
)
UNFAVORABLE = re.compile(
    r"entailed|agreeing contradicted|other |more (?!figures)|changed|condition|time|some|owner|personal|pointing|in subject|year in one"
)
WEIGHTS = {"pair": 2.0, "edited": 0.25, "corpus": 0.5}
EDITED_PER_INDEX, SAMPLED_PER_INDEX, HARD_PER_INDEX = 40, 1200, 300
Array = NDArray[np.float64]
_NEGATED = (r"\b(is|are|was|were|can|will|must|should|has been|may)\b(?! not)", r"\1 not")
_AFFIRMED = (r"\b(is|are|was|were|can|will|must|should|do|does|did) not\b", r"\1")


@dataclass
class Row:
    """A labelled pair; `group` is a key of WEIGHTS."""

    group: str
    first: str
    second: str
    is_contradiction: bool
    is_kept: bool = False
    cosine: float = 0.0
    overlap: float = 0.0
    penalty: float = 0.0


def written_pairs() -> Iterator[Row]:
    """The pairs that were written for this."""
    kind, n = "", 0
    for line in PAIRS.read_text(encoding="utf-8").splitlines():
        if line.startswith("=="):
            kind, n = line, 0
        elif "||" in line and not line.startswith("#"):
            n += 1
            first, second = map(normalize_sentence, line.split(" || "))
            yield Row("pair", first, second, "compatible" not in kind, n % KEPT_EACH == 0)


def edited_pairs(texts: Sequence[str], rng: random.Random) -> Iterator[Row]:
    """Sentences with one detail changed, EDITED_PER_INDEX in all, of each kind equally many."""
    texts = rng.sample(texts, len(texts))
    names = [m for text in texts for m in re.findall(r"(?<=[a-z] )[A-Z][a-z]{3,}(?= [a-z])", text)] or ["Marrow"]
    editors: list[Callable[[str], str]] = [
        lambda t: re.sub(
            r"(?<![\d.,:/-])(?:1[89]|20)\d\d(?![\d.,:/-]\d|-)", lambda m: str(int(m[0]) + rng.choice([-12, -7, -3, 2, 5, 10])), t, count=1
        ),
        lambda t: re.sub(r"(?<![\w.,:/-])\d{1,3}(?:,\d{3})?(?= [a-z%])", lambda m: _other_number(m[0], rng), t, count=1),
        lambda t: re.sub(r"(?<=[a-z] )[A-Z][a-z]{3,}(?= [a-z])", lambda _: rng.choice(names), t, count=1),
        lambda t: re.sub(*(_AFFIRMED if rng.random() < 0.3 else _NEGATED), t, count=1),
    ]
    left = dict.fromkeys(range(len(editors)), EDITED_PER_INDEX // len(editors))
    for text in texts:
        for n, edit in enumerate(editors):
            if left[n] and 50 < len(text) < 300 and (changed := edit(text)) != text:
                left[n] -= 1
                yield Row("edited", text, changed, True)
                break


def _other_number(number: str, rng: random.Random) -> str:
    value = int(number.replace(",", ""))
    other = max(1, round(value * rng.choice([0.4, 0.7, 1.3, 1.5, 2, 3])))
    return f"{other if other != value else value + 3:,}"


def with_similarities(rows: list[Row], background: Sequence[ComparedSentence], embedder: EmbeddingModel) -> list[Row]:
    """The rows with cosine and overlap; how rare a word is, a background tells."""
    texts = sorted({text for row in rows for text in (row.first, row.second)})
    vectors = dict(zip(texts, embedder.embed(texts), strict=True))
    weights = term_weights([*(ComparedSentence((), text, content_words(text)) for text in texts), *background])
    at = {text: n for n, text in enumerate(texts)}
    for row in rows:
        row.cosine = float(vectors[row.first] @ vectors[row.second])
        row.overlap = float((weights[at[row.first]] @ weights[at[row.second]].T).toarray()[0, 0])
    return rows


def read(reader: PassageReader, pairs: Sequence[tuple[str, str]]) -> dict[tuple[str, str], Entailment]:
    """What the reader says of each pair."""
    unique = sorted(set(pairs), key=lambda pair: sum(map(len, pair)))
    found: list[Entailment] = []
    for start in range(0, len(unique), 64):
        found += reader.entailments(unique[start : start + 64])
    return dict(zip(unique, found, strict=True))


def fitted(features: Sequence[dict[str, float]], rows: Sequence[Row]) -> dict[str, float]:
    """The weights of a logistic regression on the rows that are not kept."""
    names = list(features[0])
    used = [n for n, row in enumerate(rows) if not row.is_kept]
    x = np.array([[features[n][name] for name in names] for n in used])
    y = np.array([float(rows[n].is_contradiction) for n in used])
    w = np.array([WEIGHTS[rows[n].group] for n in used])
    penalty = np.array([rows[n].penalty for n in used])
    mean, scale = x.mean(axis=0), x.std(axis=0)
    varied = scale > 1e-6
    z = (x - mean)[:, varied] / scale[varied]

    def loss(t: Array) -> tuple[float, Array]:
        logits = z @ t[1:] + t[0] - penalty
        error = w * (1 / (1 + np.exp(-logits)) - y) / w.sum()
        value = float((w * (np.logaddexp(0, logits) - y * logits)).sum() / w.sum() + RIDGE * t[1:] @ t[1:])
        return value, np.concatenate([[error.sum()], error @ z + 2 * RIDGE * t[1:]])

    bounds = [_bounds(name) for name, is_used in zip(names, varied, strict=True) if is_used]
    t = minimize(loss, np.zeros(z.shape[1] + 1), jac=True, method="L-BFGS-B", bounds=[(None, None), *bounds]).x
    found = dict.fromkeys(names, 0.0) | dict(zip(np.array(names)[varied].tolist(), (t[1:] / scale[varied]).tolist(), strict=True))
    bias = float(t[0] - sum(found[name] * m for name, m in zip(names, mean, strict=True)))
    return {"bias": bias, **found}


def _bounds(name: str) -> tuple[float | None, float | None]:
    """The least and the greatest weight of a feature; None where there is none."""
    if UNFAVORABLE.match(name):
        return None, 0.0
    return (0.0, None) if FAVORABLE.match(name) else (None, None)


def score(weights: dict[str, float], features: dict[str, float]) -> float:
    """Log odds."""
    return weights["bias"] + sum(weights[name] * value for name, value in features.items())


def area(scores: Sequence[float], labels: Sequence[bool]) -> float:
    """The area under the ROC curve."""
    ranks, y = rankdata(scores), np.array(labels)
    n = int(y.sum())
    return float((ranks[y].sum() - n * (n + 1) / 2) / (n * (len(y) - n)))


def corpus_rows(index: Path, rng: random.Random) -> tuple[list[Row], list[ComparedSentence]]:
    """Candidate pairs of an index, and its statements."""
    with open_for_query(index, logs=False) as project:
        statements = compared_sentences(opened_documents(project), project)
        pairs = list(comparable_pairs(statements, project))
    chosen = rng.sample(pairs, min(SAMPLED_PER_INDEX, len(pairs)))
    near = sorted(pairs, key=lambda p: -(p[2].cosine + p[2].overlap))[:SAMPLED_PER_INDEX]
    unique = {
        (a.text, b.text): Row("corpus", a.text, b.text, False, False, n.cosine, n.overlap, penalty) for a, b, n, penalty in (*chosen, *near)
    }
    return list(unique.values()), statements


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("indexes", nargs="+", type=Path)
    rng, reader = random.Random(7), PassageReader()
    rows, background, corpus = list(written_pairs()), list[ComparedSentence](), dict[Path, list[Row]]()
    for index in parser.parse_args().indexes:
        corpus[index], statements = corpus_rows(index, rng)
        background += statements
        rows += edited_pairs([statement.text for statement in statements], rng)
    rows = with_similarities(rows, background, open_embedder(find_embedder(None)))
    everything = [*rows, *(row for found in corpus.values() for row in found)]
    features = [prior_features(row.first, row.second, row.cosine, row.overlap) for row in everything]
    prior = fitted(features, everything)
    priors = {id(row): score(prior, f) for row, f in zip(everything, features, strict=True)}
    likely = [row for found in corpus.values() for row in sorted(found, key=lambda r: -priors[id(r)])[: 2 * HARD_PER_INDEX]]
    rows_read = [*rows, *likely]
    readings = read(reader, [(row.first, row.second) for row in rows_read])
    features = [screening_features(priors[id(row)], readings[row.first, row.second]) for row in rows_read]
    screening = fitted(features, rows_read)
    screened = {id(row): score(screening, f) for row, f in zip(rows_read, features, strict=True)}
    hard = [
        r
        for found in corpus.values()
        for r in sorted((r for r in found if id(r) in screened), key=lambda r: -screened[id(r)])[:HARD_PER_INDEX]
    ]
    least = min(screened[id(row)] for row in hard)
    compared = [*(row for row in rows if screened[id(row)] >= least), *hard]
    found = {id(row): differences(row.first, row.second) for row in compared}
    pairs = [(row.second, row.first) for row in compared]
    readings |= read(reader, pairs + [p for ds in found.values() for d in ds for p in (d.agreeing, d.agreeing[::-1])])
    features = []
    for row in compared:
        agreements = [Agreement(d, (readings[d.agreeing], readings[d.agreeing[::-1]])) for d in found[id(row)]]
        both = (readings[row.first, row.second], readings[row.second, row.first])
        features.append(pair_features(row.first, row.second, row.cosine, both, agreements))
    weights = fitted(features, compared)
    kept = [(score(weights, f), row.is_contradiction) for row, f in zip(compared, features, strict=True) if row.is_kept]
    for name, values in (("PRIOR", prior), ("SCREENING", screening), ("PAIR", weights)):
        print(f"{name}_WEIGHTS = {{")
        print("\n".join(f'    "{key}": {value:.3f},' for key, value in values.items()) + "\n}")
    print(f"# Area under the ROC curve of {len(kept)} kept pairs: {area(*zip(*kept, strict=True)):.3f}; contradicted alone: see log odds")


if __name__ == "__main__":
    main()
