"""Adapter files."""

from pathlib import Path

import gguf
import numpy as np
import pytest

from localrag.engine.weights import ALPHA_KEY, load_adapter
from localrag.errors import ModelError
from localrag.model_files import find_adapter

ROOT = Path(__file__).parents[2]


def test_an_adapter_is_read_as_it_was_written(tmp_path):
    """Its tensors and its scale come back from the file, in 16-bit floats."""
    rng = np.random.default_rng(0)
    tensors = {
        f"blk.0.attn_q.weight.lora_{part}": rng.normal(size=shape).astype(np.float16) for part, shape in (("a", (4, 8)), ("b", (8, 4)))
    }
    writer = gguf.GGUFWriter(tmp_path / "a.gguf", "bert")
    writer.add_float32(ALPHA_KEY, 8.0)
    for name, values in tensors.items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    found = load_adapter(tmp_path / "a.gguf")

    assert found.alpha == 8.0
    assert all(np.array_equal(found.tensors[name], values) for name, values in tensors.items())
    a, b = (tensors[f"blk.0.attn_q.weight.lora_{part}"].astype(np.float32) for part in "ab")
    assert np.allclose(found.merged("blk.0.attn_q.weight", np.ones((8, 8), np.float32)), 1 + 2 * b @ a)
    assert found.modifies("blk.0.attn_q.weight")
    assert not found.modifies("blk.1.attn_q.weight")


def test_a_damaged_adapter_is_refused(tmp_path, monkeypatch):
    """The error names the file and what mends it."""
    from localrag import model_files

    (tmp_path / "tagger.gguf").write_bytes(b"GGUF, or not")
    monkeypatch.setattr(model_files, "shipped_data_path", lambda name: tmp_path / "tagger.gguf" if name.endswith(".gguf") else ROOT / name)

    with pytest.raises(ModelError, match=r"tagger\.gguf is damaged") as refused:
        find_adapter("tagger")
    assert "adapter=no" in refused.value.hint
