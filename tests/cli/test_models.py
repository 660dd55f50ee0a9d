"""`localrag models`, as a user types it."""

import json
import shutil

import pytest

from localrag.catalog import hub as hub_catalog
from localrag.model_files import user_file, user_models
from tests.catalog.hub import Hub
from tests.conftest import run_localrag

MODEL = "model-Q4_K_M.gguf"


@pytest.fixture
def own(tmp_path, monkeypatch, home):
    """A home without models of other programs; what was measured of this machine is shared."""
    (home / "cache").mkdir(exist_ok=True)
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "cache").symlink_to(home / "cache")
    for name in ("HF_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME", "OLLAMA_MODELS", "LLAMA_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("LOCALRAG_HOME", str(tmp_path / "own"))
    return tmp_path


def run(folder, *args):
    return run_localrag("models", *args, cwd=folder)


def test_the_list_names_the_bundled_models_and_the_defaults(own):
    """As a table and as JSON; --all adds those worth downloading, with what fits."""
    table = run(own, "list")
    everything = json.loads(run(own, "list", "--all", "--json").stdout)

    assert "* smollm2-135m" in table.stdout.replace("*  ", "* ")
    assert [row["name"] for row in everything["models"] if row["default"]] == ["smollm2-135m", "all-minilm-l6-v2"]
    assert {"qwen3-4b", "bge-m3", "bge-reranker-v2-m3"} <= {m["name"] for m in everything["curated"]}
    assert {m["fits"] for m in everything["curated"]} <= {"fits", "tight", "too big"}


@pytest.mark.ci
def test_a_file_is_tested_added_used_and_forgotten(own, chat_file):
    """`add` copies nothing and lists the file under its name, `use` makes it the default of new indexes, `rm` leaves the file."""
    path = own / "My Model.gguf"
    path.symlink_to(chat_file.path)
    added = run(own, "add", str(path), "--name", "mine", "--use")
    listed = json.loads(run(own, "list", "--json").stdout)["models"]
    removed = run(own, "rm", "mine")

    assert added.returncode == 0, added.stderr
    assert "held to a grammar it answers" in added.stdout
    assert "New indexes use mine" in added.stderr
    assert [row["name"] for row in listed if row["default"]] == ["mine", "all-minilm-l6-v2"]
    assert [row["path"] for row in listed if row["name"] == "mine"] == [str(path)]
    assert removed.returncode == 0
    assert user_models() == {}
    assert path.exists()


@pytest.fixture
def docs(own):
    (own / "docs").mkdir()
    (own / "docs" / "a.txt").write_text("Ingrid Holm bought the ferry Skua in Vardby. Lars Holm is her brother.")
    return own


PHRASES = ("index", "docs", "--extractor", "phrases")


@pytest.mark.ci
def test_an_index_finds_its_model_when_its_name_is_gone_or_another_files(docs, chat_file, tiny):
    """Forgotten, its file is used where it was; moved and listed anew, where it is; the name given to another file does not mislead."""
    path, moved = docs / "model.gguf", docs / "moved.gguf"
    shutil.copy(chat_file.path, path)
    run(docs, "add", str(path), "--name", "mine", "--no-test")
    assert run_localrag("index", "docs", "--model", "mine", "--extractor", "phrases", cwd=docs).returncode == 0

    def used():
        assert (done := run_localrag("index", "docs", cwd=docs)).returncode == 0, done.stderr
        return json.loads(run_localrag("status", "--json", cwd=docs).stdout)["models"]["chat_model"]

    run(docs, "add", str(tiny("llama").path), "--name", "mine", "--no-test")
    assert (used()["name"], used()["path"]) == ("mine", str(path))
    run(docs, "rm", "mine")
    assert (used()["name"], used()["path"]) == ("mine", str(path))
    path.rename(moved)
    run(docs, "add", str(moved), "--name", "mine", "--no-test")
    assert (used()["name"], used()["path"]) == ("mine", str(moved))


@pytest.mark.ci
def test_a_new_index_names_the_model_that_suits_this_machine(docs, monkeypatch):
    """Once, where it is begun with the bundled model, with the commands that take the better one; not with --quiet, nor of a chosen one."""
    monkeypatch.setattr("localrag.catalog.listing.memory_fit", lambda _: "fits")
    monkeypatch.setattr("localrag.catalog.listing.available_cores", lambda: 4)
    quiet = run_localrag(*PHRASES, "--quiet", "--index", "other", cwd=docs)
    first, again = run_localrag(*PHRASES, cwd=docs), run_localrag(*PHRASES, cwd=docs)
    chosen = run_localrag(*PHRASES, "--model", "smollm2-135m", "--index", "third", cwd=docs)

    assert (first.returncode, again.returncode, chosen.returncode) == (0, 0, 0)
    said = first.stderr.splitlines()
    assert said[0].startswith("The bundled models index")
    assert "Best for this machine: qwen3-4b (2.5 GB, Apache-2.0" in said[0]
    assert said[1] == '  → localrag models pull qwen3-4b --use && localrag ask "…"'
    assert quiet.stderr == ""
    assert "Best for this machine" not in again.stderr + chosen.stderr


def test_a_model_that_fails_its_test_is_not_added(own, chat_file):
    """Half a file is refused before anything is listed, and so is a chat model given as a reranker."""
    half = own / "half.gguf"
    half.write_bytes(chat_file.path.read_bytes()[:1_000_000])
    done = run(own, "add", str(half))
    wrong = run(own, "add", str(chat_file.path), "--kind", "reranker")

    assert done.returncode == 4
    assert "incomplete" in done.stderr
    assert wrong.returncode == 4
    assert "so it is not on your list" in wrong.stderr
    assert not user_file().exists()


@pytest.mark.ci
def test_a_model_is_pulled_tested_listed_and_forgotten(own, chat_file, monkeypatch):
    """From a hub on loopback: the only command that opens a connection; what it brought is kept."""
    hub = Hub({MODEL: chat_file.path.read_bytes()})
    hub.stretch = 30_000_000  # it breaks off now and then
    monkeypatch.setenv("HF_ENDPOINT", hub.url)
    monkeypatch.setattr(hub_catalog, "RETRY_DELAY_S", 0.01)
    pulled = run(own, "pull", "org/model-GGUF:Q4_K_M", "--name", "fresh")
    hub.close()
    path = own / "own" / "models" / "org" / "model-GGUF" / MODEL
    listed = user_models()["chat"]["fresh"]
    used = run_localrag("models", "test", "fresh", cwd=own)
    removed = run(own, "rm", "fresh")

    assert pulled.returncode == 0, pulled.stderr
    assert f"{MODEL}, 98 MB" in pulled.stderr
    assert listed == {"path": str(path), "source": f"org/model-GGUF/{MODEL}"}
    assert used.returncode == 0, used.stdout
    assert removed.returncode == 0
    assert path.exists()
    assert "fresh" not in user_models().get("chat", {})


def test_names_that_are_unknown_are_said_with_near_ones(own):
    """Of test, and of pull, where a name is neither on the list nor a repository."""
    test, pull = run(own, "test", "smolm2-135m"), run(own, "pull", "qwen3-4")

    assert test.returncode == 4
    assert "Did you mean 'smollm2-135m'" in test.stderr
    assert pull.returncode == 2
    assert "Did you mean 'qwen3-4b'" in pull.stderr
