"""Passages of both searches are ranked by fitted trees over what the signals say of them."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier

from localrag import model_files
from localrag.errors import ModelError
from localrag.query import passage_ranking
from localrag.query.passage_ranking import FEATURES, SearchSignals, load_trees, rank_passages, ranking_features
from localrag.records import Chunk
from localrag.system.installation import reinstall_hint
from scripts.train.ranking import RankedQuestion, fit


def questions(seed, n=40):
    """Questions whose evidence is told by the first two features together."""
    chance = np.random.default_rng(seed)
    made = []
    for _ in range(n):
        features = chance.random((30, len(FEATURES)))
        together = features[:, 0] + features[:, 6]
        keys = [f"p{i}" for i in range(30)]
        made.append(RankedQuestion(features, keys, [keys[i] for i in np.argsort(-together)[:2]]))
    return made


@pytest.mark.ci
def test_the_trees_give_what_scikit_learn_gives(monkeypatch):
    """As arrays they have the log odds of the model that was fitted, but for its constant."""
    kept = []
    real = HistGradientBoostingClassifier.fit
    monkeypatch.setattr(HistGradientBoostingClassifier, "fit", lambda self, x, y: kept.append(self) or real(self, x, y))
    trees = fit(questions(1))
    rows = np.random.default_rng(2).random((500, len(FEATURES)))

    expected = kept[0].decision_function(rows)
    given = trees.scores(rows)
    assert np.ptp(given - expected) < 1e-9
    assert np.ptp(given) > 1


@pytest.mark.ci
def test_the_best_of_the_walks_stay_first():
    """Behind them the order is that of the trees, with the walk's probability."""
    trees, features = fit(questions(1)), questions(5, 1)[0].features
    order = passage_ranking.rank_rows(features, trees)

    assert order[: passage_ranking.LEADING].tolist() == np.argsort(-features[:, 0])[: passage_ranking.LEADING].tolist()
    behind = (trees.scores(features) + passage_ranking.WALK_WEIGHT * features[:, 0])[order[passage_ranking.LEADING :]]
    assert (np.diff(behind) <= 0).all()
    assert sorted(order) == list(range(30))


@pytest.fixture
def chunks():
    """Four chunks, of which the third has the question's words and the best scores."""
    texts = ["Bread\nBread is baked of flour.", "Stamps\nStamps are collected.", "The Skua\nIngrid Holm bought the ferry Skua.", "Molde"]
    return [Chunk(f"c{n}", "d", n, 0, len(text), text, 9) for n, text in enumerate(texts)]


NO_ENTITIES = SimpleNamespace(db=None)  # a project whose index names nothing; `named_entities` is replaced


def signals(text, best):
    scores = {f"c{n}": 1.0 if n == best else 0.1 for n in range(4)}
    return SearchSignals(text, scores, {c: s / 2 for c, s in scores.items()}, {c: 10 * s for c, s in scores.items()})


def test_what_all_signals_prefer_comes_first(monkeypatch, chunks):
    """With the trees that ship, a passage with the best scores of both searches and the question's words."""
    monkeypatch.setattr(passage_ranking, "named_entities", lambda *_: [])
    first = signals("Who bought the ferry Skua?", 2)
    second = replace(signals("", 2), text="Who bought the ferry Skua? Ingrid Holm bought the ferry Skua.")
    features = ranking_features(chunks, first, second, NO_ENTITIES)

    assert features.shape == (4, len(FEATURES))
    assert np.isfinite(features).all()
    assert rank_passages(chunks, first, second, NO_ENTITIES)[0].id == "c2"
    empty = SearchSignals("?", {}, {}, {})
    assert {c.id for c in rank_passages(chunks, empty, empty, NO_ENTITIES)} == {c.id for c in chunks}
    assert rank_passages([], empty, empty, NO_ENTITIES) == []


def test_embedders_whose_cosines_lie_closer_together_rank_alike(monkeypatch, chunks):
    """The trees are given cosines in units of their spread, also of a passage that is not among the nearest."""
    monkeypatch.setattr(passage_ranking, "named_entities", lambda *_: [])
    wide = replace(signals("Who bought the ferry Skua?", 2), cosines={"c0": 0.2, "c1": 0.3, "c2": 0.7})
    close = replace(wide, cosines={key: 0.75 + cosine / 5 for key, cosine in wide.cosines.items()})

    features = ranking_features(chunks, wide, wide, NO_ENTITIES)
    assert np.allclose(features, ranking_features(chunks, close, close, NO_ENTITIES))
    unseen = features[3, FEATURES.index("cosine_first")]
    assert unseen < features[0, FEATURES.index("cosine_first")] < features[2, FEATURES.index("cosine_first")] == 0


def test_damaged_trees_are_not_used(monkeypatch):
    """The file is known by its hash; the error says how to get another."""
    load_trees.cache_clear()
    damaged = model_files.shipped_models() | {"ranking": {"path": "adapters/support.safetensors", "sha256": "0"}}
    monkeypatch.setattr(model_files, "shipped_models", lambda: damaged)
    with pytest.raises(ModelError, match="damaged") as told:
        load_trees()
    load_trees.cache_clear()

    assert told.value.hint == reinstall_hint()
