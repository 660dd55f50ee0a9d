"""The adapter: merged into the bundled chat model it computes what torch computes; the recipe that makes it runs from nothing."""

import asyncio
import json
import re
from pathlib import Path

import numpy as np
import pytest

from localrag.engine.llama.weights import merge_adapter
from localrag.engine.request import Request
from localrag.engine.settings import EngineSettings
from localrag.engine.weights import load_adapter, write_adapter
from localrag.errors import ModelError
from localrag.llm.grammar import short_answer
from localrag.llm.qa_reader import prompt_of
from localrag.model_files import find_adapter
from tests.conftest import DATA, run_module

ROOT = Path(__file__).parents[2]


def silent(_text):
    pass


def test_an_adapter_is_read_as_it_was_written(tmp_path):
    """Its tensors and its scale come back from the file, in 16-bit floats."""
    rng = np.random.default_rng(0)
    tensors = {
        f"blk.0.attn_q.weight.lora_{part}": rng.normal(size=shape).astype(np.float16) for part, shape in (("a", (4, 8)), ("b", (8, 4)))
    }
    write_adapter(tmp_path / "a.gguf", tensors.items(), alpha=8.0)
    found = load_adapter(tmp_path / "a.gguf")

    assert found.alpha == 8.0
    assert all(np.array_equal(found.tensors[name], values) for name, values in tensors.items())
    a, b = (tensors[f"blk.0.attn_q.weight.lora_{part}"].astype(np.float32) for part in "ab")
    assert np.allclose(found.merged("blk.0.attn_q.weight", np.ones((8, 8), np.float32)), 1 + 2 * b @ a)
    assert found.modifies("blk.0.attn_q.weight")
    assert not found.modifies("blk.1.attn_q.weight")


def test_the_merged_model_computes_what_torch_computes(chat_file, tmp_path):
    """After an adapter with random weights on every layer is exported and merged: the same best token, and nearly the same distribution."""
    import torch

    from localrag.engine.llama.model import LlamaModel
    from scripts.train_adapter import export, taught

    torch.manual_seed(1)
    model, tokenizer = taught()
    with torch.no_grad():
        for name, weights in model.named_parameters():
            if "lora_B" in name:
                weights.normal_(0, 0.03)
    export(model, tmp_path / "adapter.gguf")
    text = "The ferry Skua was bought by Ingrid Holm in 1974, and"
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    with torch.no_grad():
        wanted, before = model(torch.tensor([ids])).logits[0, -1].log_softmax(-1).numpy(), None
        with model.disable_adapter():
            before = model(torch.tensor([ids])).logits[0, -1].log_softmax(-1).numpy()
    llama = LlamaModel(merge_adapter(chat_file, tmp_path / "adapter.gguf", silent), EngineSettings(slots=1, n_ctx=256, gpu_layers=0))
    try:
        row = llama.decode([(token, n, 0, n == len(ids) - 1) for n, token in enumerate(ids)])[0].copy()  # the model's own memory
    finally:
        llama.close()
    got = row - row.max() - np.log(np.exp(row - row.max()).sum())

    def divergence(other):
        return float((np.exp(wanted) * (wanted - other)).sum())

    assert divergence(got) < 0.02 < divergence(before)
    assert got.argmax() == wanted.argmax()


def test_a_damaged_adapter_is_refused(tmp_path, monkeypatch):
    """The error names the file and what mends it."""
    from localrag import model_files

    (tmp_path / "reader.gguf").write_bytes(b"GGUF, or not")
    monkeypatch.setattr(model_files, "shipped_data_path", lambda name: tmp_path / "reader.gguf" if name.endswith(".gguf") else ROOT / name)

    with pytest.raises(ModelError, match=r"reader\.gguf is damaged") as refused:
        find_adapter("reader")
    assert "adapter=no" in refused.value.hint


TEXT = "The ferry Skua was bought by Ingrid Holm in 1974. It is painted green."


def answered(engine, grammar, *, scored=True):
    cells = engine.backend.chat.encode(prompt_of("Who bought the Skua?", TEXT))

    async def asked():
        return await engine.generate(Request(cells, 48, grammar, with_log_probability=scored))

    return asyncio.run(asked())


def test_a_short_answer_is_a_stretch_of_the_text_or_nothing(engine):
    """Whatever the model would rather say: words of the text in their order, without punctuation at the end, or that there is none."""
    found = answered(engine, short_answer(TEXT, ["none"]))

    assert found.is_complete
    assert found.text == "none" or re.search(rf"(?<!\w){re.escape(found.text)}(?!\w)", TEXT)
    assert answered(engine, short_answer(TEXT, ["yes", "no"], stretch=False)).text in {"yes", "no"}


def test_a_scored_answer_comes_with_its_probability(engine):
    """It is that of the tokens drawn among all tokens: a grammar that forbids what the model would say makes it small."""
    likely, forced = answered(engine, None), answered(engine, short_answer("zyx", ["qqq"]))

    assert forced.log_probability < -5 < 0
    assert forced.log_probability < likely.log_probability / max(1, likely.output_tokens)
    assert answered(engine, None, scored=False).log_probability == 0


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.skipif(not DATA.exists(), reason="needs the annotated sets beside the checkout")
def test_the_recipe_runs_from_nothing(tmp_path, chat_file):
    """A tenth of the made questions and a few steps: the loss falls, the checkpoint is gone on from, and the file can be merged."""
    run_module("scripts.training_data", DATA, tmp_path / "sets", "--made", 1600)
    first = run_module("scripts.train_adapter", tmp_path / "sets", tmp_path / "out", "--steps", 10)
    second = run_module("scripts.train_adapter", tmp_path / "sets", tmp_path / "out", "--steps", 40)
    losses = [float(loss) for loss in re.findall(r"step \d+ loss ([\d.]+)", first + second)]

    assert "step 10\n" in second.splitlines()[0] + "\n"
    assert losses[-1] < 0.8 * losses[0]
    assert {"EM", "F1"} <= json.loads(second[second.rindex("\n{") :])["xquad_en"].keys()
    assert merge_adapter(chat_file, tmp_path / "out" / "reader.gguf", silent).path.exists()
