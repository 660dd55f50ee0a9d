"""The command line end to end on the bundled models: what a user types and sees."""

import json
import shutil
import sqlite3

import pytest

from tests.conftest import run_localrag, write_town


def ask(town, *args):
    done = run_localrag("ask", *args, "--json", cwd=town)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def rows(folder, sql):
    return sqlite3.connect(folder / ".localrag" / "index.db").execute(sql).fetchall()


def check_citations(town, answer):
    """Every quote stands verbatim in its file at its range."""
    for c in answer["citations"]:
        text = (town / c["path"]).read_text(encoding="utf-8")
        assert text[c["start"] : c["end"]] == c["quote"]
        assert f"[{c['n']}]" in answer["answer"]


def test_status_counts_what_was_indexed(town):
    """`status --json` has the counts as numbers, then the details."""
    done = run_localrag("status", "--json", cwd=town)
    found = json.loads(done.stdout)

    assert list(found)[:7] == ["documents", "chunks", "entities", "relationships", "communities", "reports", "failures"]
    assert found["documents"] == 3
    assert found["failures"] == 0
    assert found["reports"] == found["communities"] > 0
    assert found["spent"]["calls"] > 0
    assert "documents" in run_localrag("status", cwd=town).stdout


@pytest.mark.parametrize("mode", ["mix", "local", "global", "drift", "basic", "ts", "ss"])
def test_answers_cite_verbatim(town, mode):
    """Each mode gives a cited answer whose quotes are verbatim; `--json` prints that object and nothing else."""
    answer = ask(town, "What is wrong with the Skua?", "--mode", mode)

    expected = ["answer", "mode", "level", "citations", "calls", "prompt_tokens", "output_tokens", "seconds"]
    assert list(answer)[:8] == expected
    assert answer["mode"] == mode
    assert answer["citations"]
    assert (answer["level"] is not None) == (mode == "global")
    check_citations(town, answer)


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (["index", "nowhere"], 2, "There is nothing at nowhere"),
        (["index", "empty"], 2, "There is nothing to index in empty: no files"),
        (["index", "binary"], 2, "none of them readable text"),
        (["index", "docs", "--model", "smollm2-135n"], 4, "Did you mean 'smollm2-135m'?"),
        (["index", "docs", "--model", "./no.gguf"], 4, "There is no model file at no.gguf"),
        (["ask", "Why?"], 3, "There is no index here"),
        (["search"], 2, "Missing argument"),
        (["index", "docs", "--index", "file/inside"], 1, "cannot be made or written to"),
    ],
)
def test_bad_input_gets_a_sentence_and_a_code(tmp_path, args, code, words):
    """What is wrong, with what, and the exit code that stands for it; no traceback."""
    write_town(tmp_path / "docs")
    (tmp_path / "empty").mkdir()
    (tmp_path / "binary").mkdir()
    (tmp_path / "binary" / "x.txt").write_bytes(b"\x00\x01\xff\xfe" * 100)
    (tmp_path / "file").write_text("not a folder")
    done = run_localrag(*args, cwd=tmp_path)

    assert done.returncode == code, done.stderr
    assert words in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_another_model_is_refused_with_the_way_out(town, tmp_path, chat_file):
    """An index made with one model is not silently continued with another."""
    shutil.copytree(town, tmp_path / "town")
    data = bytearray(chat_file.path.read_bytes())
    data[-1] ^= 1
    (tmp_path / "other.gguf").write_bytes(data)
    done = run_localrag("index", "docs", "--model", str(tmp_path / "other.gguf"), cwd=tmp_path / "town")

    assert done.returncode == 1
    assert "was made with smollm2-135m" in done.stderr
    assert "--rebuild" in done.stderr


@pytest.mark.ci
def test_questions_on_an_index_without_a_graph_fall_back(tmp_path):
    """A file without entities is answered from its passages, and the answer says so; no apology."""
    (tmp_path / "plain.txt").write_text("harbours freeze in most winters, and nobody can leave them until ice breaks in april.")
    assert "No entity was found" in run_localrag("index", "plain.txt", cwd=tmp_path).stderr
    for mode in ("global", "local"):
        answer = ask(tmp_path, "When does the harbour freeze?", "--mode", mode)

        assert answer["mode"] == "basic"
        assert answer["note"]
        assert "freeze in most winters" in answer["citations"][0]["quote"]
