"""Questions are embedded by llama.cpp, with the model that torch embedded the index with."""

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
from transformers import AutoTokenizer

from localrag.engine.embedder import load_folder, load_folder_by_llama, open_embedder
from localrag.engine.llama.weights import convert_to_gguf
from localrag.engine.weights import pooling, window_tokenizer
from localrag.model_files import ModelFile, find_embedder
from tests.conftest import TOWN

TEXTS = [
    *TOWN.values(),
    "Who is the mate of the Skua?",
    "“Café” — naïve, Ünïcode ß İstanbul ﬁve, 3.14 % of €40; don't!",
    "北京大学 and ソニー and 서울, emoji 😀, x" + "y" * 40,
    "[CLS] a_b##c [unused1] http://example.org/a?b=c",
    "",
]


def altered(folder, **files):
    """A copy of the bundled model's folder; of the named files, these keys are other ones."""
    shutil.copytree(find_embedder().path, folder)
    for name, keys in files.items():
        path = folder / f"{name}.json"
        path.write_text(json.dumps((json.loads(path.read_text()) if path.exists() else {}) | keys))
    return ModelFile("other", "embedder", folder)


@pytest.mark.ci
def test_a_question_has_the_vector_the_index_would_give_it():
    """Both ways give the same vectors up to rounding, for any writing and for texts beyond the window."""
    ours, theirs = load_folder_by_llama(find_embedder())(TEXTS).vectors, load_folder(find_embedder())(TEXTS).vectors

    assert (ours * theirs).sum(axis=1).min() > 0.9995
    long = ["The ferry leaks and nobody knows why. " * 90]
    assert (load_folder_by_llama(find_embedder())(long).vectors @ load_folder(find_embedder())(long).vectors.T).item() > 0.9995


@pytest.mark.ci
def test_the_tokens_are_the_same_ones():
    """A text of any writing becomes the tokens that transformers would give the model; a long one loses none."""
    tokenizer, windows = AutoTokenizer.from_pretrained(find_embedder().path), window_tokenizer(find_embedder().path)

    for text in TEXTS:
        assert windows(text) == [(tokenizer(text)["input_ids"], (0, len(text)))], text
    words = [token for piece, _ in windows("The ferry leaks and nobody knows why. " * 90) for token in piece if token not in (101, 102)]
    assert words == tokenizer("The ferry leaks and nobody knows why. " * 90, verbose=False)["input_ids"][1:-1]


def test_the_copy_is_made_once_and_is_its_owners():
    """The second time the file in the user cache is taken as it is; nobody else may read it."""
    first = convert_to_gguf(find_embedder()).path
    made = first.stat().st_mtime_ns

    assert convert_to_gguf(find_embedder()).path == first
    assert first.stat().st_mtime_ns == made
    assert first.stat().st_mode & 0o777 == 0o600


def test_the_names_of_poolings_are_read_as_old_and_new_models_write_them(tmp_path):
    """One name, a list of one, or a switch for each."""
    place = tmp_path / "model" / "1_Pooling" / "config.json"
    file = altered(tmp_path / "model")

    for written, known in (
        ({"pooling_mode": "cls"}, "CLS"),
        ({"pooling_mode": ["mean"]}, "MEAN"),
        ({"pooling_mode": ["mean", "max"]}, None),
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, "CLS"),
        ({"pooling_mode": "lasttoken"}, None),
    ):
        place.write_text(json.dumps(written))
        assert pooling(file.path) == known


@pytest.mark.parametrize(
    "files",
    [
        {"config": {"model_type": "mpnet"}},
        {"config": {"hidden_act": "relu"}},
        {"1_Pooling/config": {"pooling_mode_max_tokens": True}},
        {"config_sentence_transformers": {"default_prompt_name": "query"}},
    ],
    ids=["other model", "other function", "two poolings", "prompts"],
)
def test_a_model_that_llama_cpp_would_compute_otherwise_is_left_alone(tmp_path, files):
    """It is refused."""
    file = altered(tmp_path / "model", **files)

    assert convert_to_gguf(file) is None


@pytest.mark.ci
def test_where_no_copy_can_be_kept_questions_are_embedded_all_the_same(monkeypatch, tmp_path):
    """A cache that cannot be written to costs the quick start, not the answer."""
    file = altered(tmp_path / "model")
    monkeypatch.setattr("localrag.engine.llama.weights.cache_dir", lambda: tmp_path / "model" / "config.json")

    quick = open_embedder(file, quick=True)

    assert np.array_equal(quick.embed(["Lars Holm"]), load_folder(find_embedder())(["Lars Holm"]).vectors)


@pytest.mark.ci
def test_a_question_never_waits_for_torch(plain_town, tmp_path):
    """Without the reader neither torch nor sentence-transformers is loaded for an answer; nor scipy where nothing walks over the graph."""
    folder = shutil.copytree(plain_town, tmp_path / "town")
    code = (  # a command ends the process itself
        "import atexit, os, sys; from localrag.cli import main;"
        "atexit.register(lambda: {'torch', 'transformers', 'scipy'} & set(sys.modules) and os._exit(9)); main()"
    )
    for mode in ("basic", "global"):
        call = [sys.executable, "-c", code, "ask", "Who is the mate of the Skua?", "--mode", mode, "--engine", "adapter=no"]
        done = subprocess.run(call, cwd=folder, check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
