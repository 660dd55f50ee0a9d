"""Fit how likely two statements contradict each other (`localrag/analysis/contradiction_score.py`), and print the weights.

    python -m scripts.fit_contradictions INDEX…

Learned from are the pairs of scripts/contradiction_pairs.txt but each fourth, and the likeliest pairs of sentences of the indexes, which
are taken to be compatible; statements that `scripts/measure_contradictions.py` planted are left out. Only pairs that a search would score
count: they share words, something differs, and the reader calls them contradictory. Also prints the area under the ROC curve for the
pairs left out. PRIOR_WEIGHTS, which only order what is read, were fitted earlier, with features of which some are gone.
"""

import argparse
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler

from localrag.analysis.contradiction_score import Agreement, may_contradict, pair_features, shares_enough_words
from localrag.analysis.contradictions import comparable_pairs
from localrag.analysis.differences import differences
from localrag.analysis.placed_sentences import opened_documents
from localrag.analysis.statements import compared_sentences
from localrag.engine.embedder import open_embedder
from localrag.entailment.normalization import normalize_sentence
from localrag.llm.reader import Entailment, PassageReader
from localrag.model_files import find_embedder
from localrag.project import open_for_query

PAIRS, PLANTED = Path("scripts/contradiction_pairs.txt"), Path("tests/data/contradictions/planted.jsonl")
KEPT_EACH = 4
READ_PER_INDEX = 400


@dataclass(frozen=True)
class LabelledPair:
    """Two statements that contradict each other or not; `is_kept`: only measured on."""

    texts: tuple[str, str]
    is_contradiction: bool
    is_kept: bool
    cosine: float


def written_pairs() -> Iterator[LabelledPair]:
    """The pairs that were written for this."""
    found, kind, n = list[tuple[tuple[str, str], bool, bool]](), "", 0
    for line in PAIRS.read_text(encoding="utf-8").splitlines():
        if line.startswith("=="):
            kind, n = line, 0
        elif "||" in line and not line.startswith("#"):
            n += 1
            first, second = map(normalize_sentence, line.split(" || "))
            found.append(((first, second), "compatible" not in kind, n % KEPT_EACH == 0))
    texts = sorted({text for pair, _, _ in found for text in pair})
    vectors = dict(zip(texts, open_embedder(find_embedder(None)).embed(texts), strict=True))
    for (first, second), is_contradiction, is_kept in found:
        yield LabelledPair((first, second), is_contradiction, is_kept, float(vectors[first] @ vectors[second]))


def corpus_pairs(index: Path) -> list[LabelledPair]:
    """The READ_PER_INDEX likeliest pairs of an index that share words and differ, without planted statements."""
    planted = {
        _letters(row[key]) for row in map(json.loads, PLANTED.open(encoding="utf-8")) for key in ("statement", "other") if key in row
    }
    with open_for_query(index, logs=False) as project:
        statements = compared_sentences(opened_documents(project), project)
        ranked = sorted(
            (
                (pair.prior, pair.texts, pair.cosine)
                for pair in comparable_pairs(statements, project)
                if not {_letters(pair.first.text), _letters(pair.second.text)} & planted
            ),
            reverse=True,
        )
    differing = (row for row in ranked if differences(*row[1]) and shares_enough_words(*row[1]))
    return [LabelledPair(texts, False, False, cosine) for (_, texts, cosine), _ in zip(differing, range(READ_PER_INDEX), strict=False)]


def _letters(text: str) -> str:
    return re.sub(r"\W", "", text)


def read(pairs: Sequence[tuple[str, str]], reader: PassageReader) -> dict[tuple[str, str], Entailment]:
    """What the reader says of each pair."""
    unique = sorted(set(pairs), key=lambda pair: sum(map(len, pair)))
    found: list[Entailment] = []
    for start in range(0, len(unique), 64):
        found += reader.entailments(unique[start : start + 64])
    return dict(zip(unique, found, strict=True))


def described_pairs(pairs: Sequence[LabelledPair], reader: PassageReader) -> Iterator[tuple[LabelledPair, dict[str, float]]]:
    """The pairs that a search would score, with their features."""
    differing = {pair.texts: found for pair in pairs if (found := differences(*pair.texts)) and shares_enough_words(*pair.texts)}
    readings = read([texts for pair in differing for texts in (pair, pair[::-1])], reader)
    scored = {pair for pair in differing if may_contradict(readings[pair], readings[pair[::-1]])}
    changed = [texts for pair in scored for d in differing[pair] for texts in (d.agreeing, d.agreeing[::-1])]
    readings |= read(changed, reader)
    for pair in pairs:
        if pair.texts in scored:
            agreements = [Agreement(d, (readings[d.agreeing], readings[d.agreeing[::-1]])) for d in differing[pair.texts]]
            yield pair, pair_features(*pair.texts, pair.cosine, agreements)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("indexes", nargs="+", type=Path)
    pairs = [*written_pairs(), *(pair for index in parser.parse_args().indexes for pair in corpus_pairs(index))]
    described = list(described_pairs(pairs, PassageReader()))
    names = list(described[0][1])
    x = np.array([list(features.values()) for _, features in described])
    y = np.array([pair.is_contradiction for pair, _ in described])
    is_kept = np.array([pair.is_kept for pair, _ in described])
    scaler = StandardScaler().fit(x[~is_kept])
    model = LogisticRegression().fit(scaler.transform(x[~is_kept]), y[~is_kept])
    weights = model.coef_[0] / scaler.scale_
    print("PAIR_WEIGHTS = {")
    for name, weight in zip(["bias", *names], [float(model.intercept_[0] - weights @ scaler.mean_), *weights], strict=True):
        print(f'    "{name}": {weight:.3f},')
    area = roc_auc_score(y[is_kept], model.decision_function(scaler.transform(x[is_kept])))
    print(f"}}\n# {len(x)} of {len(pairs)} pairs scored. Area under the ROC curve of {is_kept.sum()} kept ones: {area:.3f}")


if __name__ == "__main__":
    main()
