"""The command line end to end on the bundled models: what a user types and sees."""

import json
import shutil
import sqlite3

import pytest

from tests.conftest import TOWN, run_json, run_localrag, write_town
from tests.test_model_files import write_model


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
    assert 0 < found["reports"] <= found["communities"]
    assert found["spent"]["calls"] > 0
    assert "documents" in run_localrag("status", cwd=town).stdout


@pytest.mark.parametrize("mode", ["mix", "local", "global", "drift", "basic", "ts", "ss"])
def test_answers_cite_verbatim(town, mode):
    """Each mode gives a cited answer whose quotes are verbatim; `--json` prints that object and nothing else."""
    answer = run_json("ask", "What is wrong with the Skua?", "--mode", mode, cwd=town)

    expected = ["answer", "mode", "level", "citations", "calls", "prompt_tokens", "output_tokens", "seconds"]
    assert list(answer)[:8] == expected
    assert answer["mode"] == mode
    assert answer["citations"]
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
    """An index made with one model, or one embedder, is not silently continued with another."""
    shutil.copytree(town, tmp_path / "town")
    data = bytearray(chat_file.path.read_bytes())
    data[-1] ^= 1
    (tmp_path / "other.gguf").write_bytes(data)
    done = run_localrag("index", "docs", "--model", str(tmp_path / "other.gguf"), cwd=tmp_path / "town")

    assert done.returncode == 1
    assert "was made with smollm2-135m" in done.stderr
    assert "--rebuild" in done.stderr
    embedder = write_model(tmp_path / "bert.gguf", "embedder")
    refused = run_localrag("index", "docs", "--embedder", embedder, cwd=tmp_path / "town")
    assert (refused.returncode, "localrag reembed" in refused.stderr) == (1, True)


@pytest.mark.ci
def test_questions_on_an_index_without_a_graph_fall_back(tmp_path):
    """A file without entities is answered from its passages, and the answer says so; no apology."""
    (tmp_path / "plain.txt").write_text("harbours freeze in most winters, and nobody can leave them until ice breaks in april.")
    assert "No entity was found" in run_localrag("index", "plain.txt", cwd=tmp_path).stderr
    for mode in ("global", "local"):
        answer = run_json("ask", "When does the harbour freeze?", "--mode", mode, cwd=tmp_path)

        assert answer["mode"] == "basic"
        assert answer["note"]
        assert "freeze in most winters" in answer["citations"][0]["quote"]


def test_the_command_for_a_source_finds_the_index(own_town, tmp_path):
    """Where the index was named, it names it, too, and works as it stands."""
    asked = run_localrag("ask", "Who is the mate of the Skua?", "--mode", "basic", "--index", "town/.localrag", cwd=tmp_path)
    command = asked.stderr.partition("open a source: localrag ")[2].splitlines()[0]
    shown = run_localrag(*command.split(), cwd=tmp_path)

    assert command.startswith("source 1 --index ")
    assert (shown.returncode, "docs/" in shown.stdout) == (0, True), shown.stderr


def test_search_needs_no_model(town):
    """Passages with their place and best sentence, and no call of the model."""
    found = run_json("search", "Who wrote to the mayor?", cwd=town)

    assert found[0]["path"] == "docs/b.txt"
    assert "wrote to Mayor Ruth Sand" in found[0]["snippet"]
    for row in found:
        text = TOWN[row["path"].removeprefix("docs/")]
        assert text[row["start"] : row["end"]] == row["text"]
    assert "docs/b.txt" in run_localrag("search", "mayor", cwd=town).stdout


def test_an_entity_is_shown_by_any_of_its_names(town):
    """Names, description, relationships and places; an unknown name is answered with the nearest ones."""
    (found,) = run_json("entity", "lars holm", cwd=town)
    unknown = run_localrag("entity", "Lars Hölm", cwd=town)

    assert found["type"] == "person"
    assert {r["with"] for r in found["relationships"]}
    assert all(TOWN[m["path"].removeprefix("docs/")][m["start"] : m["end"]] in found["names"] for m in found["mentions"])
    assert "Lars Holm" in run_localrag("entity", "Lars Holm", cwd=town).stdout
    assert unknown.returncode == 1
    assert "Lars Holm" in unknown.stderr


def test_the_tree_holds_every_community_and_its_report_opens(town):
    """`tree` shows communities below each other; `report` prints one with verbatim passages."""
    roots = run_json("tree", cwd=town)
    status = run_json("status", cwd=town)
    waiting, ids = list(roots), []
    while waiting:
        node = waiting.pop()
        ids.append(node["id"])
        waiting += node["parts"]
    report = run_json("report", roots[0]["id"], cwd=town)

    assert len(ids) == len(set(ids)) == status["communities"]
    assert report["title"] == roots[0]["title"]
    for q in report["quotes"]:
        assert TOWN[q["path"].removeprefix("docs/")][q["start"] : q["end"]] == q["quote"]
    assert roots[0]["title"].split()[0] in run_localrag("tree", cwd=town).stdout
    assert run_localrag("report", roots[0]["id"], cwd=town).stdout.startswith("# ")
    assert "no community 9.9" in run_localrag("report", "9.9", cwd=town).stderr


def test_questions_can_be_answered_from_the_documents(town):
    """Suggested questions name what the documents name; an unknown subject is refused."""
    about = run_json("questions", "--about", "Skua", "-n", "3", cwd=town)

    assert len(about) == 3
    assert all("Skua" in q or "海鸥号" in q for q in about[:1])
    assert "No entity" in run_localrag("questions", "--about", "Atlantis", cwd=town).stderr


def test_what_cannot_be_asked_is_refused_in_a_sentence(town):
    """An unknown level, an empty question: exit code 2 and what to do."""
    for args, message in (
        (["ask", "x", "--mode", "global", "--level", "99"], "no community level 99"),
        (["ask", "  "], "question is empty"),
        (["search", ""], "query is empty"),
    ):
        done = run_localrag(*args, cwd=town)
        assert (done.returncode, message in done.stderr) == (2, True), done.stderr
