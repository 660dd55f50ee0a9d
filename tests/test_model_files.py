"""The list of models: the shipped one, the user's over it, and what is said of a faulty one."""

import re

import gguf
import numpy as np
import pytest
from typer.testing import CliRunner

from localrag.catalog.listing import find_model, parse_pull_target
from localrag.cli import app
from localrag.errors import ModelError, UsageError
from localrag.gguf import NO_GGUF_HINT
from localrag.model_files import (
    add_model,
    checked_header,
    find_chat_model,
    find_embedder,
    find_reranker,
    hub_target,
    merged_models,
    remove_model,
    set_default,
    user_file,
    user_models,
)


@pytest.fixture(autouse=True)
def own_home(tmp_path, monkeypatch):
    monkeypatch.setenv("LOCALRAG_HOME", str(tmp_path / "own"))


def write(text):
    user_file().parent.mkdir(exist_ok=True)
    user_file().write_text(text, encoding="utf-8")


def test_without_a_list_of_the_user_there_is_the_shipped_one():
    """The bundled models are known, and the defaults."""
    assert user_models() == {}
    assert merged_models()["default_chat"] == "smollm2-135m"
    assert "all-minilm-l6-v2" in merged_models()["embedder"]


def test_the_users_list_stands_over_the_shipped_one():
    """What is added is known beside the bundled models, and may be the default; adapters stay those that are shipped."""
    add_model("chat", "qwen3-0.6b", "/models/q.gguf", "Qwen/Qwen3-0.6B-GGUF")
    set_default("chat", "qwen3-0.6b")

    assert merged_models()["chat"]["qwen3-0.6b"] == {"path": "/models/q.gguf", "source": "Qwen/Qwen3-0.6B-GGUF"}
    assert "smollm2-135m" in merged_models()["chat"]
    assert merged_models()["default_chat"] == "qwen3-0.6b"
    assert "tagger" in merged_models()["adapter"]
    assert user_file().stat().st_mode & 0o077 == 0


def test_what_the_user_wrote_stays_as_it_is():
    """Comments and other entries survive what the commands write."""
    write('# mine\n[chat.a]  # good at German\npath = "/a.gguf"\n')
    add_model("embedder", "b", "/b.gguf")
    set_default("embedder", "b")

    text = user_file().read_text(encoding="utf-8")
    assert "# mine" in text
    assert "[chat.a]  # good at German" in text
    assert user_models() == {"default_embedder": "b", "chat": {"a": {"path": "/a.gguf"}}, "embedder": {"b": {"path": "/b.gguf"}}}


def test_a_model_is_forgotten_also_as_the_default():
    """After `rm`, and where that is chosen, the default is the bundled one again; what is not on the user's list cannot be removed."""
    add_model("chat", "a", "/a.gguf")
    set_default("chat", "a")
    set_default("chat", "smollm2-135m")
    assert "default_chat" not in user_models()
    set_default("chat", "a")
    remove_model("chat", "a")

    assert merged_models()["default_chat"] == "smollm2-135m"
    assert "a" not in merged_models()["chat"]
    with pytest.raises(UsageError, match="not on your own list"):
        remove_model("chat", "smollm2-135m")


@pytest.mark.parametrize(
    ("text", "said", "hint"),
    [
        ('[chat.a]\npath = "/a.gguf\n', "not valid TOML", "Correct that line"),
        ('[chatt.a]\npath = "/a.gguf"\n', "'chatt' is no table of models", "default_chat, default_embedder, chat, embedder"),
        ("[chat.a]\npath = 3\n", "chat.a has no path", 'path = "…"'),
        ('[chat.qwen3-0.6b]\npath = "/a.gguf"\n', "chat.qwen3-0 has no path", '[chat."qwen3-0"]'),
        ('[chat.a]\npath = "/a.gguf"\nsuorce = "x"\n', "'suorce' of chat.a is not one of the texts path, package, source", 'path = "…"'),
        ('default_chat = "a"\n[chat.b]\npath = "/b.gguf"\n', "default_chat = 'a' names no chat model", "There are: smollm2-135m, b"),
    ],
)
def test_a_typo_is_said_with_its_place_and_the_remedy(text, said, hint):
    """Nothing of a faulty list is used, and nothing is written over it."""
    write(text)
    with pytest.raises(ModelError) as raised:
        merged_models()

    assert str(user_file()) in str(raised.value)
    assert said in str(raised.value)
    assert hint in raised.value.hint
    with pytest.raises(ModelError):
        add_model("chat", "b", "/b.gguf")
    assert user_file().read_text(encoding="utf-8") == text


HUB = "https://huggingface.co/Qwen/Qwen3-4B-GGUF"
PULL = "localrag models pull Qwen/Qwen3-4B-GGUF"


@pytest.mark.parametrize("find", [find_chat_model, find_embedder, find_reranker, find_model])
@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("hf.co/Qwen/Qwen3-4B-GGUF", f"{PULL}."),
        ("hf.co/Qwen/Qwen3-4B-GGUF:Q8_0", f"{PULL}:Q8_0."),
        (f"{HUB}/tree/main", f"{PULL}."),
        (f"{HUB}/resolve/main/Qwen3-4B-Q8_0.gguf?download=true", f"{PULL}:Qwen3-4B-Q8_0."),
        (f"{HUB}/blob/main/a/b-00001-of-00002.gguf", f"{PULL}:b."),
        ("Qwen/Qwen3-4B-GGUF:Q8_0", f"{PULL}:Q8_0."),
        ("qwen2.5:0.5b", "http://localhost:11434/v1#qwen2.5:0.5b"),
        ("~/.lmstudio/models/a/b.gguf", f"Check the path. {NO_GGUF_HINT}"),
        ("no.safetensors", "localrag models list --all"),
        ("a" * 5000, "localrag models list --all"),
        ("a" * 300 + "/b.gguf", "localrag models list --all"),
    ],
)
def test_a_name_of_another_program_gets_the_command_that_brings_the_model_here(tmp_path, monkeypatch, find, name, hint):
    """What Hugging Face and LM Studio call it, and paths, wherever a model is named."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelError) as refused:
        find(name)

    assert hint in refused.value.hint + "."
    assert "--allow-host" not in refused.value.hint
    for command in re.findall(r"localrag (models \w+)", refused.value.hint):
        assert CliRunner().invoke(app, [*command.split(), "--help"]).exit_code == 0
    if pulled := re.search(r"models pull (\S+?)\.(?: |$)", refused.value.hint):
        repository, quantization, _ = parse_pull_target(pulled[1])
        assert parse_pull_target(name) == (repository, quantization, "")


def test_other_weights_are_no_model(tmp_path, monkeypatch):
    """Neither a folder of them as a chat model, nor a file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "config.json").touch()
    (tmp_path / "model.safetensors").write_bytes(bytes(100))
    with pytest.raises(ModelError, match="There is no model file at weights") as weights:
        find_chat_model("weights")
    with pytest.raises(ModelError, match="is not a GGUF file") as file:
        checked_header(find_chat_model("model.safetensors").path)
    assert weights.value.hint == file.value.hint == NO_GGUF_HINT


def test_the_address_of_a_server_is_no_repository():
    """Also one on a host of the hub."""
    assert not any(map(hub_target, ("http://127.0.0.1:8080/v1", "https://router.huggingface.co/v1", "https://huggingface.co")))
    assert find_chat_model("https://router.huggingface.co/v1").url == "https://router.huggingface.co/v1"


def write_model(path, kind):
    """A file of one tensor whose header says that it is of this kind."""
    writer = gguf.GGUFWriter(path, "llama" if kind == "chat" else "bert")
    if kind != "chat":
        writer.add_pooling_type(gguf.PoolingType.RANK if kind == "reranker" else gguf.PoolingType.MEAN)
    writer.add_tensor("token_embd.weight", np.zeros((32, 32), np.float32))
    for part in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file, writer.close):
        part()
    return str(path)


NAMES = {"chat": "a chat model", "embedder": "an embedding model", "reranker": "a reranker"}
FIND = {"chat": find_chat_model, "embedder": find_embedder, "reranker": find_reranker}


@pytest.mark.parametrize("kind", NAMES)
@pytest.mark.parametrize("wanted", NAMES)
def test_a_model_of_another_kind_is_refused_where_it_is_named(kind, wanted, tmp_path):
    """By its path and by its name on the user's list: the error says what it is and what is needed."""
    path = write_model(tmp_path / "x.gguf", kind)
    add_model(wanted, "mine", path)
    for name in (path, "mine"):
        if kind == wanted:
            assert str(FIND[wanted](name).path) == path
            continue
        with pytest.raises(ModelError, match=f"x.gguf is {NAMES[kind]}; {NAMES[wanted]} is needed") as refused:
            FIND[wanted](name)
        assert ("--model" if wanted == "chat" else f"--{wanted}") in refused.value.hint
