"""Models that other programs left on this machine: where they are looked for, and what is said of them."""

import json
import shutil
from hashlib import sha256

import pytest

from localrag.catalog.listing import best_chat_model, recommended_models
from localrag.catalog.local_models import find_local_models, memory_fit, read_model_info
from localrag.errors import ModelError


@pytest.fixture
def machine(tmp_path, monkeypatch, tiny):
    """A home folder in which the four programs have a model each, all with different content."""
    for name in ("HF_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME", "OLLAMA_MODELS", "LLAMA_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("LOCALRAG_HOME", str(tmp_path / "own"))
    model = tiny("llama").path
    snapshot = tmp_path / ".cache/huggingface/hub/models--org--repo/snapshots/abc"
    blob = tmp_path / ".cache/huggingface/hub/models--org--repo/blobs/123"
    for folder in (snapshot, blob.parent, tmp_path / ".lmstudio/models/pub/model", tmp_path / ".cache/llama.cpp"):
        folder.mkdir(parents=True)
    shutil.copy(model, blob)
    (snapshot / "hf-model.gguf").symlink_to(blob)
    shutil.copy(model, tmp_path / ".lmstudio/models/pub/model/lm-model.gguf")
    shutil.copy(model, tmp_path / ".cache/llama.cpp/org_model-cpp.gguf")
    digest = sha256(model.read_bytes()).hexdigest()
    manifest = tmp_path / ".ollama/models/manifests/registry.ollama.ai/library/qwen3/4b"
    (tmp_path / ".ollama/models/blobs").mkdir(parents=True)
    manifest.parent.mkdir(parents=True)
    shutil.copy(model, tmp_path / f".ollama/models/blobs/sha256-{digest}")
    layers = [
        {"mediaType": "application/vnd.ollama.image.template", "digest": f"sha256:{'0' * 64}"},
        {"mediaType": "application/vnd.ollama.image.model", "digest": f"sha256:{digest}"},
    ]
    manifest.write_text(json.dumps({"layers": layers}))
    (manifest.parent / "broken").write_text("{")
    return tmp_path


def found():
    return {(f.program, f.name): f for f in find_local_models()}


def test_the_models_of_four_programs_are_found_where_they_are(machine):
    """Hugging Face's snapshots, LM Studio's tree, Ollama's blobs by their manifests, llama.cpp's cache; nothing is copied."""
    before = sorted(machine.rglob("*"))
    models = found()

    assert set(models) == {
        ("Hugging Face", "hf-model"), ("LM Studio", "lm-model"), ("Ollama", "qwen3-4b"), ("llama.cpp", "org_model-cpp"),
    }  # fmt: skip
    assert all(f.info and f.info.kind == "chat" for f in models.values())
    assert sorted(machine.rglob("*")) == before


def test_the_programs_own_settings_are_followed(machine, monkeypatch):
    """HF_HUB_CACHE, OLLAMA_MODELS and LLAMA_CACHE lead to models kept elsewhere."""
    for variable, old in (
        ("HF_HUB_CACHE", ".cache/huggingface/hub"),
        ("OLLAMA_MODELS", ".ollama/models"),
        ("LLAMA_CACHE", ".cache/llama.cpp"),
    ):
        (machine / old).rename(machine / variable)
        monkeypatch.setenv(variable, str(machine / variable))

    assert {program for program, _ in found()} == {"Hugging Face", "LM Studio", "Ollama", "llama.cpp"}


def test_a_file_is_listed_once_and_shards_as_one(machine):
    """Two links to one file are one model; of a model in two files the first stands for both."""
    folder = machine / "given"
    folder.mkdir()
    model = machine / ".lmstudio/models/pub/model/lm-model.gguf"
    (folder / "a.gguf").symlink_to(model)
    (folder / "b.gguf").symlink_to(model)
    for n in (1, 2):
        (folder / f"big-0000{n}-of-00002.gguf").write_bytes(model.read_bytes())

    assert [f.name for f in find_local_models([folder])] == ["a", "big"]


def test_what_is_no_model_is_listed_with_its_reason(machine):
    """A file that is half there, or of something else, is not of use and says why; the others are found all the same."""
    cache = machine / ".cache/llama.cpp"
    whole = (cache / "org_model-cpp.gguf").read_bytes()
    (cache / "half.gguf").write_bytes(whole[: len(whole) // 2])
    (cache / "text.gguf").write_text("no model")
    models = found()

    assert "incomplete" in models["llama.cpp", "half"].problem
    assert "not a GGUF file" in models["llama.cpp", "text"].problem
    assert models["llama.cpp", "org_model-cpp"].info


def test_a_folder_that_is_not_there_is_an_error(tmp_path):
    """It is named."""
    with pytest.raises(ModelError, match="There is no folder"):
        find_local_models([tmp_path / "nowhere"])


def test_a_header_says_what_a_model_is(chat_file):
    """The bundled chat model, by its header alone."""
    about = read_model_info(chat_file.path)

    assert (about.kind, about.architecture, about.quantization, about.context_length, about.has_chat_template) == (
        "chat",
        "llama",
        "Q4_1",
        8192,
        True,
    )
    assert about.size == chat_file.path.stat().st_size
    assert about.size < about.memory_needed < 2 << 30
    assert memory_fit(about.memory_needed) in ("fits", "tight")
    assert memory_fit(1 << 50) == "too big"


def test_the_curated_list_is_whole_and_in_order():
    """Every entry has a name, a repository, a licence and a size; each kind goes from small to large, from 0.4B to 14B."""
    models = recommended_models()
    chats = [m for m in models if m.kind == "chat"]

    assert len({m.name for m in models}) == len(models)
    assert all(m.repo.count("/") == 1 and m.licence and m.languages and m.good_for for m in models)
    assert [m.size for m in chats] == sorted(m.size for m in chats)
    assert {m.kind for m in models} == {"chat", "embedder", "reranker"}
    assert (chats[0].parameters, chats[-1].parameters) == ("0.4B", "14B")


def test_the_best_model_is_one_that_fits(monkeypatch):
    """Few cores get a small one, a GPU of 16 GB the largest, and a machine without memory none."""
    monkeypatch.setattr("localrag.catalog.listing.memory_fit", lambda needs: "fits" if needs < 8e9 else "too big")
    monkeypatch.setattr("localrag.catalog.listing.available_cores", lambda: 2)
    assert best_chat_model(0).name == "qwen3-1.7b"
    assert best_chat_model(16 << 30).name == "qwen3-14b"
    monkeypatch.setattr("localrag.catalog.listing.available_cores", lambda: 16)
    assert best_chat_model(0).name == "qwen3-8b"
    monkeypatch.setattr("localrag.catalog.listing.memory_fit", lambda _: "too big")
    assert best_chat_model(0) is None
