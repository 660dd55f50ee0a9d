"""The BERT that is computed here, beside sentence-transformers with the same weights."""

import random
import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch

from localrag.engine.embedder import load_bert, load_folder
from localrag.errors import EngineError, ModelError
from localrag.model_files import ModelFile, find_embedder
from localrag.system.resources import limit_cores
from tests.conftest import TOWN, mostly_ci

FOLDER = find_embedder().path
rng = random.Random(7)
LENGTHS = [2, 3, 256, 256, 255, 17, 16, 15, 100, 100, 100, 33, 240, 6, 128, 77, 200, 31]
TOKENS = [[101, *(rng.randrange(1000, 20000) for _ in range(n - 2)), 102] for n in LENGTHS]
TEXTS = [*TOWN.values(), "Hello.", "", "北京大学 and ソニー", "Who is the mate of the Skua?"]


def without_short_floats(monkeypatch):
    """A CPU without 16-bit floats."""
    monkeypatch.setattr(torch.cpu, "get_capabilities", dict, raising=False)


@pytest.fixture
def cores():
    """What gives this process so many cores, until the test ends."""
    yield limit_cores
    limit_cores(0)


@pytest.mark.ci
def test_vectors_are_those_of_sentence_transformers(monkeypatch):
    """In 16-bit floats their cosine is over 0.999; in 32 bits each number is the same within 1e-5, whatever stands beside the text."""
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(FOLDER), device="cpu", local_files_only=True)
    expected = np.concatenate([model.encode([text], normalize_embeddings=True) for text in TEXTS])

    assert (load_folder(find_embedder())(TEXTS).vectors * expected).sum(axis=1).min() > 0.999
    without_short_floats(monkeypatch)
    assert np.abs(load_folder(find_embedder())(TEXTS).vectors - expected).max() < 1e-5


@pytest.mark.ci
@pytest.mark.parametrize("floats", mostly_ci(["own", "32 bits"], "own"))
def test_a_texts_states_do_not_depend_on_company_order_or_cores(floats, monkeypatch, cores):
    """Together, alone, the other way round and with other numbers of threads they are bit for bit the same."""
    if floats == "32 bits":
        without_short_floats(monkeypatch)
    model = load_bert(FOLDER)
    together = model.hidden_states(TOKENS)

    assert [s.shape for s in together] == [(n, 384) for n in LENGTHS]
    for n in (1, 3):
        cores(n)
        assert all(map(np.array_equal, together, model.hidden_states(TOKENS[::-1])[::-1]))
    assert all(np.array_equal(s, model.hidden_states([t])[0]) for s, t in zip(together, TOKENS, strict=True))


def test_a_text_longer_than_the_window_is_refused():
    """It is never cut in silence; an embedder gives the model windows."""
    with pytest.raises(EngineError, match="longer than the 256 tokens"):
        load_bert(FOLDER).hidden_states([[101] * 300])


@pytest.mark.ci
def test_a_model_of_another_kind_is_left_to_sentence_transformers(tmp_path):
    """Its vectors are those of that library; a folder that lacks its weights is refused."""
    folder = shutil.copytree(FOLDER, tmp_path / "model")
    config = folder / "config.json"
    config.write_text(config.read_text().replace('"gelu"', '"relu"'))
    vectors = load_folder(ModelFile("m", "embedder", folder))(["Who sails the Skua?"]).vectors
    assert vectors.shape == (1, 384)
    assert load_folder(find_embedder())(["Who sails the Skua?"]).vectors[0] @ vectors[0] < 0.99
    (folder / "model.safetensors").rename(folder / "other.safetensors")
    with pytest.raises(ModelError, match="cannot be loaded"):
        load_folder(ModelFile("m", "embedder", folder))(["Who sails the Skua?"])


@pytest.mark.ci
def test_indexing_never_waits_for_sentence_transformers():
    """The bundled model is embedded with by torch alone, which loads in a fifth of the time."""
    code = (
        "import sys\n"
        "from localrag.engine.embedder import open_embedder\n"
        "from localrag.model_files import find_embedder\n"
        "open_embedder(find_embedder()).embed(['Lars Holm'])\n"
        "print({'sentence_transformers', 'transformers'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)

    assert done.stdout.strip() == "set()"
