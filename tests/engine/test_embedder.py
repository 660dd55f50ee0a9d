"""Texts to vectors: the same model through torch and, written as a GGUF file, through llama.cpp."""

import subprocess
import sys

import gguf
import numpy as np
import pytest
from safetensors.numpy import load_file

from localrag.engine.embedder import load_folder, open_embedder
from localrag.errors import ModelError
from localrag.model_files import ModelFile, find_embedder
from tests.conftest import TOWN, run_localrag, write_town

NAMES = {
    "attention.self.query": "attn_q",
    "attention.self.key": "attn_k",
    "attention.self.value": "attn_v",
    "attention.output.dense": "attn_output",
    "attention.output.LayerNorm": "attn_output_norm",
    "intermediate.dense": "ffn_up",
    "output.dense": "ffn_down",
    "output.LayerNorm": "layer_output_norm",
}
TEXTS = [*TOWN.values(), "Hello.", "", "ferry " * 700]


def write_gguf(folder, path, head=None):
    """all-MiniLM-L6-v2 as a GGUF file: its own weights under llama.cpp's names; with a `head` (weight, bias) a reranker."""
    weights = load_file(folder / "model.safetensors")
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
    fixed = {"word_embeddings": "token_embd", "position_embeddings": "position_embd", "token_type_embeddings": "token_types"}
    for full, array in weights.items():
        name = full.removeprefix("bert.")
        if name.startswith("encoder.layer."):
            _, _, n, rest = name.split(".", 3)
            stem, kind = rest.rsplit(".", 1)
            writer.add_tensor(f"blk.{n}.{NAMES[stem]}.{kind}", array.astype(np.float32))
        elif name.startswith("embeddings.LayerNorm"):
            writer.add_tensor(f"token_embd_norm.{name.rsplit('.', 1)[1]}", array.astype(np.float32))
        elif name.split(".")[1] in fixed and name.startswith("embeddings."):
            writer.add_tensor(f"{fixed[name.split('.')[1]]}.weight", array.astype(np.float32))
    if head:
        writer.add_tensor("cls.weight", weights["pooler.dense.weight"].astype(np.float32))
        writer.add_tensor("cls.bias", weights["pooler.dense.bias"].astype(np.float32))
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


@pytest.mark.ci
def test_both_ways_of_embedding_agree(file):
    """llama.cpp gives the vectors that torch gives, whatever is embedded beside a text."""
    ours, theirs = open_embedder(file).embed(TEXTS), load_folder(find_embedder())(TEXTS).vectors
    short = [n for n, text in enumerate(TEXTS) if 0 < len(text) < 600]

    assert ours.shape == theirs.shape == (len(TEXTS), 384)
    assert np.allclose(np.linalg.norm(ours, axis=1), 1, atol=1e-5)
    assert (ours[short] * theirs[short]).sum(axis=1).min() > 0.999
    assert np.allclose(ours[0], open_embedder(file).embed(TEXTS[:1])[0], atol=1e-4)


@pytest.mark.parametrize("way", ["torch", "llama.cpp"])
def test_the_end_of_a_long_text_counts(file, way):
    """Two texts that differ only beyond the model's window have different vectors: nothing is cut."""
    ways = {"torch": lambda: load_folder(find_embedder()), "llama.cpp": lambda: open_embedder(file).embed_windows}
    one, other = ways[way]()(["ferry " * 700, "ferry " * 500 + "harbour master " * 100]).vectors

    assert one @ other < 0.99


def test_a_chat_model_is_refused_as_an_embedder(chat_file):
    """A GGUF without pooling is named for what it is not."""
    with pytest.raises(ModelError, match="is not an embedding model"):
        open_embedder(ModelFile("x", "embedder", chat_file.path)).embed(["a"])


@pytest.mark.slow
@pytest.mark.ci
def test_an_index_remembers_its_embedder(tmp_path, file):
    """Indexed with a GGUF embedder, questions use it again without being told."""
    write_town(tmp_path / "docs")
    indexed = run_localrag("index", "docs", "--embedder", str(file.path), cwd=tmp_path)
    asked = run_localrag("ask", "Who is the mate of the Skua?", cwd=tmp_path)

    assert indexed.returncode == 0, indexed.stderr
    assert "Lars Holm" in asked.stdout, asked.stderr


def test_a_vector_does_not_depend_on_its_company():
    """Embedded alone, together, or in another order, a text has bit for bit the same vector."""
    model = load_folder(find_embedder())
    texts = [f"{'The ferry leaks. ' * (n % 23)}{n}" for n in range(60)]

    def embed(some):
        return model(some).vectors

    together = embed(texts)

    assert np.array_equal(embed(texts[::-1])[::-1], together)
    assert np.array_equal(embed(texts[7:19]), together[7:19])
    assert np.array_equal(embed([texts[41]])[0], together[41])


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


@pytest.mark.ci
def test_a_model_that_nobody_holds_is_freed(home):
    """Opening an index for one question after the other does not keep a model for each."""
    code = (
        "import gc, psutil\n"
        "from localrag.engine.embedder import open_embedder\n"
        "from localrag.model_files import find_embedder\n"
        "sizes = []\n"
        "for n in range(6):\n"
        "    embedder = open_embedder(find_embedder(None), quick=True)\n"
        "    embedder.embed([f'text {n}'])\n"
        "    del embedder\n"
        "    gc.collect()\n"
        "    sizes.append(psutil.Process().memory_info().rss)\n"
        "print((sizes[-1] - sizes[1]) >> 20)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert int(done.stdout) < 60  # MiB; each takes some 50
