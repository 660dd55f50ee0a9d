"""What the shell offers at Tab, asked as the shell asks: by the environment, in a process of its own."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pexpect
import pytest

from localrag.model_files import add_model, user_file
from tests.forked import run_forked

HEAVY = ("torch", "llama_cpp", "faiss", "igraph", "sentence_transformers", "numpy", "sqlite_utils", "rich", "httpx")


@pytest.fixture
def town(plain_town, tmp_path, monkeypatch):
    """A copy of the town and a list of models of its own."""
    shutil.copytree(plain_town, tmp_path / "town")
    monkeypatch.setenv("LOCALRAG_HOME", str(tmp_path / "own"))
    return tmp_path / "town"


def offered(folder, *words, shell="bash"):
    """What is offered for the last of the words; nothing may be said beside it."""
    line = {"COMP_WORDS": "\n".join(("localrag", *words)), "COMP_CWORD": str(len(words)), "_LOCALRAG_COMPLETE": f"complete_{shell}"}
    if shell == "fish":
        line |= {"_TYPER_COMPLETE_ARGS": " ".join(("localrag", *words)), "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    done = run_forked(cwd=folder, timeout=60, env=os.environ | line, program="localrag")
    assert done.stderr == ""
    return [line for line in done.stdout.splitlines() if line]


@pytest.mark.ci
def test_models_are_offered_by_kind(town):
    """Chat models for --model, embedders for --embedder, those worth downloading for pull, one's own for rm; all of them for show."""
    add_model("chat", "small-one", "/a.gguf")
    add_model("reranker", "sorter", "/b.gguf")

    assert offered(town, "ask", "x", "--model", "s") == ["smollm2-135m", "small-one"]
    assert offered(town, "index", "docs", "--embedder", "") == ["all-minilm-l6-v2", "multilingual-e5-small"]
    assert offered(town, "search", "x", "--reranker", "") == ["sorter"]
    assert offered(town, "models", "show", "s") == ["smollm2-135m", "small-one", "sorter"]
    assert offered(town, "models", "rm", "s") == ["small-one", "sorter"]
    assert "qwen3-4b" in offered(town, "models", "pull", "qwen3-")


@pytest.mark.ci
def test_entities_and_communities_of_the_nearest_index_are_offered(town):
    """In whatever case they are typed; a name of two words is one word for bash, and as it is for fish, which quotes by itself."""
    assert offered(town, "entity", "ingrid") == [r"Ingrid\ Holm"]
    assert offered(town / "docs", "entity", "'Ingrid H") == ["Ingrid Holm"]
    assert offered(town, "entity", r"Ingrid\ H") == [r"Ingrid\ Holm"]
    assert offered(town, "entity", "Ingrid", shell="fish") == ["Ingrid Holm"]
    assert offered(town, "merges", "add", "Skua", "Lars") == [r"Lars\ Holm"]
    assert "0.0" in offered(town, "report", "0")
    assert offered(town, "entity", "%") == []


@pytest.mark.ci
def test_indexes_are_offered(town):
    """Folders that hold one, here or below what is typed; and another's names once it is given."""
    (town.parent / "empty").mkdir()
    shutil.copytree(town / ".localrag", town.parent / "put elsewhere")

    assert offered(town.parent, "status", "--index", "") == [r"put\ elsewhere", "town"]
    assert offered(town, "status", "--index", "../p") == [r"../put\ elsewhere"]
    assert offered(town.parent, "entity", "--index", "town", "Ingrid") == [r"Ingrid\ Holm"]


@pytest.mark.ci
def test_what_is_wrong_is_no_word_of_completion(town):
    """Without an index, with a damaged one, with a typo in models.toml: nothing is offered, and nothing is said."""
    assert offered(town.parent, "entity", "I") == []
    (town / ".localrag" / "index.db").write_bytes(b"no database" * 1000)
    assert offered(town, "entity", "I") == []
    user_file().parent.mkdir(exist_ok=True)
    user_file().write_text("[chat\n")
    assert offered(town, "models", "show", "s") == []
    assert offered(town, "index", "docs", "--model", "s") == []


@pytest.mark.ci
def test_an_index_is_not_changed_by_a_look(town):
    """Its database has the same bytes after Tab."""
    before = (town / ".localrag" / "index.db").read_bytes()
    offered(town, "entity", "I")
    assert (town / ".localrag" / "index.db").read_bytes() == before


@pytest.mark.ci
def test_completion_loads_no_heavy_library(town):
    """Tab is pressed often: what entities and models are offered with is the standard library."""
    code = f"""import sys, types
from localrag.cli import options as completion
ctx = types.SimpleNamespace(params={{}})
assert completion.entities(ctx, "Ing") and completion.any_model(ctx, "s") and completion.models_to_download(ctx, "q")
print([m for m in {HEAVY} if m in sys.modules])"""
    done = subprocess.run([sys.executable, "-c", code], check=True, cwd=town, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.skipif(not shutil.which("bash"), reason="bash is not here")
@pytest.mark.ci
def test_bash_completes_a_name_of_two_words(town):
    """A real bash with the script that --show-completion prints: Tab after `Ingr` makes `Ingrid\\ Holm`, which the command then takes."""
    command = Path(sys.executable).with_name("localrag")
    if not command.exists():
        pytest.skip("localrag is not installed as a command")
    env = os.environ | {"PATH": f"{command.parent}:{os.environ['PATH']}", "TERM": "dumb"}
    script = subprocess.run([command], check=True, capture_output=True, text=True, env=env | {"_LOCALRAG_COMPLETE": "source_bash"}).stdout
    (town / "script").write_text(script)
    shell = pexpect.spawn("bash", ["--norc", "-i"], cwd=town, env=env, encoding="utf-8", timeout=60, dimensions=(50, 200))
    shell.sendline("source ./script; PS1='ready> '")
    shell.expect("ready> ")
    shell.send("localrag entity Ingr\t")
    shell.expect(r"Ingrid\\ Holm")
    shell.sendline("--json")
    shell.expect('"name": "Ingrid Holm"')
    shell.close(force=True)
