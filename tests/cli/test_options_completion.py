"""What the shell offers at Tab, asked as the shell asks: by the environment, in a process of its own."""

import os
import shutil
import subprocess
import sys

import pytest

from localrag.model_files import add_model, user_file
from tests.forked import run_forked

pytestmark = pytest.mark.ci
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


def test_models_are_offered_by_kind(town):
    """Chat models for --model, embedders for --embedder, rerankers for --reranker; all of them for test."""
    add_model("chat", "small-one", "/a.gguf")
    add_model("reranker", "sorter", "/b.gguf")

    assert offered(town, "ask", "x", "--model", "s") == ["smollm2-135m", "small-one"]
    assert offered(town, "index", "docs", "--embedder", "") == ["all-minilm-l6-v2", "multilingual-e5-small"]
    assert offered(town, "search", "x", "--reranker", "") == ["sorter"]
    assert offered(town, "models", "test", "s") == ["smollm2-135m", "small-one", "sorter"]


def test_what_is_wrong_is_no_word_of_completion(town):
    """With a typo in models.toml nothing is offered, and nothing is said."""
    user_file().parent.mkdir(exist_ok=True)
    user_file().write_text("[chat\n")
    assert offered(town, "models", "test", "s") == []
    assert offered(town, "index", "docs", "--model", "s") == []


def test_choices_settings_and_prompts_are_offered(town):
    """By the beginning that is typed; fish is answered as bash is."""
    assert offered(town, "ask", "x", "--mode", "g") == ["global"]
    assert offered(town, "config", "get", "chunk") == ["chunk_tokens"]
    assert offered(town, "prompts", "show", "abstractive/repo") == ["abstractive/report", "abstractive/report_long"]
    assert offered(town, "ask", "x", "--mode", "g", shell="fish") == ["global"]


def test_completion_loads_no_heavy_library(town):
    """Tab is pressed often: what models are offered with is the standard library."""
    code = f"""import sys
from localrag.cli import options
assert options.any_model("s")
print([m for m in {HEAVY} if m in sys.modules])"""
    done = subprocess.run([sys.executable, "-c", code], check=True, cwd=town, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"
