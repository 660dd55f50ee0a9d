"""An adapter: merged into the bundled embedding model it computes what torch computes, and its reader finds spans where they stand."""

import numpy as np
import pytest

from localrag.engine.adapter import read_adapter, write_adapter
from localrag.engine.encoder import QUESTION, Encoder, missing_characters
from localrag.engine.llama.states import States
from localrag.engine.reader import LONGEST, Read, Reader, best_span
from localrag.models import find_embedder
from localrag.query.read import read
from localrag.records import Quote

WIDTH, RANK, ALPHA = 384, 4, 8.0
CHARACTERS = ["罗", "维"]
MODULES = {"blk.0.attn_q": "encoder.layer.0.attention.self.query", "blk.3.ffn_up": "encoder.layer.3.intermediate.dense"}


@pytest.fixture(scope="module")
def tensors():
    """Random differences to two weights, rows for two characters, and heads."""
    rng = np.random.default_rng(0)
    made = {"characters": rng.normal(0, 0.05, (len(CHARACTERS), WIDTH))}
    for name, out in (("blk.0.attn_q", WIDTH), ("blk.3.ffn_up", 4 * WIDTH)):
        made[f"{name}.weight.lora_a"] = rng.normal(0, 0.1, (RANK, WIDTH))
        made[f"{name}.weight.lora_b"] = rng.normal(0, 0.1, (out, RANK))
    for head, n in (("span", 2), ("kind", 4)):
        made |= {f"head.{head}.weight": rng.normal(0, 0.1, (n, WIDTH)), f"head.{head}.bias": rng.normal(0, 0.1, n)}
    return {name: values.astype(np.float16).astype(np.float32) for name, values in made.items()}


@pytest.fixture(scope="module")
def adapter(tensors, tmp_path_factory):
    path = tmp_path_factory.mktemp("adapter") / "reader.gguf"
    write_adapter(path, tensors.items(), characters=CHARACTERS, alpha=ALPHA, window=96)
    return read_adapter(path)


def test_an_adapter_is_read_as_it_was_written(adapter, tensors):
    """Its tensors, characters and window come back from the file."""
    assert adapter.characters == tuple(CHARACTERS)
    assert (adapter.window, adapter.alpha) == (96, ALPHA)
    assert adapter.tensors.keys() == tensors.keys()
    assert all(np.array_equal(adapter.tensors[name], values) for name, values in tensors.items())


def test_merged_weights_compute_what_torch_computes(adapter, tensors):
    """The states of every token, new characters among them, are those of the same weights in torch; of several texts at once, too."""
    import torch
    from transformers import AutoModel

    file = find_embedder()
    encoder = Encoder(file.path, CHARACTERS)
    texts = [
        encoder.encode("Who owns the Skua?", ["Ingrid Holm owns the ferry.", "罗维 wrote."], 96).ids,
        encoder.encode("谁？", [], 96).ids,
    ]
    model = AutoModel.from_pretrained(file.path, add_pooling_layer=False, local_files_only=True).eval()
    modules = dict(model.named_modules())
    with torch.no_grad():
        for name, module in MODULES.items():
            a, b = (torch.tensor(tensors[f"{name}.weight.lora_{part}"]) for part in "ab")
            modules[module].weight += ALPHA / RANK * b @ a
        words = torch.cat([model.embeddings.word_embeddings.weight, torch.tensor(tensors["characters"])])
        expected = [model(inputs_embeds=words[torch.tensor([ids])]).last_hidden_state[0].numpy() for ids in texts]
    got = States(file, adapter).compute(texts)

    assert max(max(ids) for ids in texts) >= model.config.vocab_size  # a character that the vocabulary lacks
    for one, other in zip(expected, got, strict=True):
        assert one.shape == other.shape
        assert np.abs(one - other).max() < 0.05 * np.abs(one).max()
        assert (one * other).sum() / np.linalg.norm(one) / np.linalg.norm(other) > 0.9995


def test_tokens_know_their_place():
    """Each token of a passage stands where it says; those of the question stand in none, and the whole is cut at the given length."""
    encoder = Encoder(find_embedder().path, [])
    passages = ["Ingrid Holm bought it.", "In 1974, Größe."]
    found = encoder.encode("Who bought it?", passages, 60)

    said = [passages[p][a:b].lower() for p, a, b in found.places if p != QUESTION]
    assert said[:4] == ["ingrid", "holm", "bought", "it"]
    assert "1974" in said
    assert len(found.ids) == len(found.places) < 60
    assert len(encoder.encode("Who bought it?", passages, 10).ids) == 10


def test_characters_the_vocabulary_lacks_are_found():
    """Those that stand in the texts a few times, the commonest first; none that it has."""
    found = missing_characters(find_embedder().path, ["维维维维 罗罗罗 Holm", "丂"])

    assert found[0] == "维"
    assert "丂" not in found


def test_the_best_span_is_that_of_all_pairs():
    """Beside every start with every end not before it and not too far behind, computed one by one."""
    rng = np.random.default_rng(1)
    start, end = rng.normal(size=(2, 90)).astype(np.float32)
    got = best_span(Read(None, start, end, np.zeros(4, np.float32)), 10, 80)
    every = [(float(start[a] + end[b]), a, b) for a in range(10, 81) for b in range(a, min(81, a + LONGEST))]

    assert got == pytest.approx(max(every))


def test_what_is_read_stands_in_its_sentence(adapter):
    """Every span lies within its sentence; of a long passage the sentences nearest the question are read, with their neighbours."""
    sentences = [f"Sentence {n} says that Ingrid Holm bought ferry {n} in Vardby." for n in range(200)]
    quotes = [Quote("one" if n < 150 else "two", 100 * n, 100 * n + len(s), s) for n, s in enumerate(sentences)]
    relevance = np.linspace(0, 1, 200, dtype=np.float32)[::-1].copy()
    found = read("Who bought ferry 3?", quotes, relevance, Reader(find_embedder(), adapter))

    read_ones = {f.sentence for f in found.found}
    assert {0, 1, 2, 3} <= read_ones
    assert max(read_ones) < 150
    assert [f.score for f in found.found] == sorted((f.score for f in found.found), reverse=True)
    for f in found.found:
        assert sentences[f.sentence][f.start : f.end].strip()
        assert 0 <= f.start < f.end <= len(sentences[f.sentence])
    assert 0 <= found.yes <= 1
