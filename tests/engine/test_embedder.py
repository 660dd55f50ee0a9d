"""Texts to vectors: the same model through torch and, written as a GGUF file, through llama.cpp."""

import gguf
import numpy as np
import pytest
from safetensors.numpy import load_file

from localrag.engine.embedder import load_folder, open_embedder
from localrag.engine.weights import gguf_tensors
from localrag.model_files import ModelFile, find_embedder


def write_gguf(folder, path, head=None):
    """all-MiniLM-L6-v2 as a GGUF file: its own weights under llama.cpp's names; with a `head` (weight, bias) a reranker."""
    writer = gguf.GGUFWriter(path, "bert")
    writer.add_block_count(6)
    writer.add_context_length(512)
    writer.add_embedding_length(384)
    writer.add_feed_forward_length(1536)
    writer.add_head_count(12)
    writer.add_layer_norm_eps(1e-12)
    writer.add_causal_attention(False)
    writer.add_pooling_type(gguf.PoolingType.RANK if head else gguf.PoolingType.MEAN)
    writer.add_file_type(0)
    vocabulary = (folder / "vocab.txt").read_text(encoding="utf-8").splitlines()
    writer.add_tokenizer_model("bert")
    writer.add_tokenizer_pre("jina-v2-en")
    phantom = [w[2:] if w.startswith("##") else w if w.startswith("[") and w.endswith("]") else "\u2581" + w for w in vocabulary]
    writer.add_token_list(phantom)
    writer.add_token_types([3 if w.startswith("[") and w.endswith("]") else 1 for w in vocabulary])
    writer.add_token_type_count(2)
    for key, word in (("bos", "[CLS]"), ("sep", "[SEP]"), ("unk", "[UNK]"), ("pad", "[PAD]"), ("mask", "[MASK]")):
        getattr(writer, f"add_{key}_token_id")(vocabulary.index(word))
    writer.add_eos_token_id(vocabulary.index("[SEP]"))
    for name, weights in gguf_tensors(folder):
        writer.add_tensor(name, weights.astype(np.float32))
    if head:
        pooler = load_file(folder / "model.safetensors")
        for part in ("weight", "bias"):
            writer.add_tensor(f"cls.{part}", pooler[f"pooler.dense.{part}"].astype(np.float32))
        writer.add_tensor("cls.output.weight", head[0])
        writer.add_tensor("cls.output.bias", head[1])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("embedder") / "minilm.gguf"
    write_gguf(find_embedder().path, path)
    return ModelFile("minilm", "embedder", path)


@pytest.mark.parametrize("way", ["torch", "llama.cpp"])
def test_the_end_of_a_long_text_counts(file, way):
    """Two texts that differ only beyond the model's window have different vectors: nothing is cut."""
    ways = {"torch": lambda: load_folder(find_embedder()), "llama.cpp": lambda: open_embedder(file).embed_windows}
    one, other = ways[way]()(["ferry " * 700, "ferry " * 500 + "harbour master " * 100]).vectors

    assert one @ other < 0.99


def test_what_was_embedded_before_is_not_computed_again():
    """Short texts keep their vectors, bit for bit those of a fresh embedder; only new ones are computed, each once."""
    kept, computed = open_embedder(find_embedder()), []
    inner = kept.embed_windows
    kept.embed_windows = lambda texts: computed.append(list(texts)) or inner(texts)
    kept.embed(["Ruth Sand", "Lars Holm"])
    again = kept.embed(["Lars Holm", "the ferry", "Ruth Sand", "the ferry"])

    assert computed == [["Ruth Sand", "Lars Holm"], ["the ferry"]]
    assert np.array_equal(again, load_folder(find_embedder())(["Lars Holm", "the ferry", "Ruth Sand", "the ferry"]).vectors)
    assert kept.embed([]).shape == (0, 384)
