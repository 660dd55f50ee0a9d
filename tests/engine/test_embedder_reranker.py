"""Rerankers as GGUF files: the scores are those of the model, and have a say in the order of passages."""

import json

import numpy as np
import pytest

from localrag.engine.embedder import open_reranker
from localrag.model_files import find_embedder, find_reranker
from tests.conftest import run_localrag, write_town
from tests.engine.test_embedder import write_gguf

QUESTION = "Who is the mate of the Skua?"
PASSAGES = ["Lars Holm is the mate of the ferry Skua.", "Bread rests overnight.", "", "The ferry was built in Molde in 1931. " * 80]


@pytest.fixture(scope="module")
def head():
    rng = np.random.default_rng(0)
    return rng.normal(size=(1, 384)).astype(np.float32), np.array([0.25], np.float32)


@pytest.fixture(scope="module")
def file(head, tmp_path_factory):
    path = tmp_path_factory.mktemp("reranker") / "cross.gguf"
    write_gguf(find_embedder().path, path, head)
    return path


@pytest.mark.ci
def test_the_scores_are_those_of_the_cross_encoder(file, head):
    """llama.cpp scores each pair as transformers does with the same weights; a long passage loses its end. Company changes nothing."""
    import torch
    from transformers import AutoTokenizer, BertForSequenceClassification

    folder = find_embedder().path
    model = BertForSequenceClassification.from_pretrained(folder, num_labels=1).eval()
    model.classifier.weight.data, model.classifier.bias.data = map(torch.from_numpy, head)
    pairs = AutoTokenizer.from_pretrained(folder)(
        [QUESTION] * len(PASSAGES), PASSAGES, padding=True, truncation="only_second", max_length=512, return_tensors="pt"
    )
    pairs["token_type_ids"] = torch.zeros_like(pairs["token_type_ids"])  # llama.cpp knows one type
    with torch.no_grad():
        expected = model(**pairs).logits[:, 0].numpy()

    rerank = open_reranker(find_reranker(str(file)))

    assert rerank(QUESTION, PASSAGES) == pytest.approx(expected, abs=0.05)
    assert rerank(QUESTION, PASSAGES[:1])[0] == pytest.approx(rerank(QUESTION, PASSAGES)[0], abs=1e-3)
    assert np.ptp(expected) > 0.5


@pytest.mark.ci
def test_the_reranker_has_a_say_in_the_order(file, tmp_path):
    """`search --reranker` finds the same passages, in another order than without."""
    write_town(tmp_path / "docs")
    for n in range(12):
        (tmp_path / "docs" / f"note{n}.txt").write_text(f"Note {n}. The Skua passed the pier with {n} barrels at {n} o'clock.")
    run_localrag("index", "docs", "--extractor", "phrases", cwd=tmp_path)
    plain, reranked = (
        json.loads(run_localrag("search", QUESTION, "-k", "12", "--json", *extra, cwd=tmp_path).stdout)
        for extra in ([], ["--reranker", str(file)])
    )

    assert len(plain) == len(reranked) == 12
    assert [p["path"] for p in plain] != [p["path"] for p in reranked]
