"""The command line end to end on the bundled models: what a user types and sees."""

import json
import shutil
import signal
import sqlite3
import subprocess
import time

import pytest

from tests.conftest import TOWN, run_localrag, write_town
from tests.forked import Forked


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


def test_the_graph_is_grounded(town):
    """Every entity's name stands verbatim in a chunk it cites; every mention and every evidence passage at its offsets."""
    texts = {path: (town / "docs" / path).read_text(encoding="utf-8") for path in TOWN}
    mentions = rows(town, "SELECT d.path, m.start, m.end, m.name, e.name FROM mentions m JOIN entities e ON e.id = m.entity_id "
                          "JOIN chunks c ON c.id = m.chunk_id JOIN documents d ON d.id = c.document_id")  # fmt: skip
    shown = {name for *_, name in mentions}

    assert {"Ingrid Holm", "Skua", "Northern Line"} <= shown
    assert "王海明" in shown
    for path, start, end, name, _ in mentions:
        assert texts[path.removeprefix("docs/")][start:end] == name
    for (name,) in rows(town, "SELECT name FROM entities"):
        assert any(name in text for text in texts.values())


def test_every_entity_is_in_one_community_per_level(town):
    """The communities of a level partition the entities, and each has a report."""
    (entities,) = rows(town, "SELECT count(*) FROM entities")[0]
    levels = rows(
        town,
        "SELECT level, count(*), count(DISTINCT entity_id) FROM community_members m JOIN communities c ON c.id = m.community_id GROUP BY 1",
    )

    assert levels
    assert all(members == distinct == entities for _, members, distinct in levels)
    assert rows(town, "SELECT count(*) FROM communities WHERE id NOT IN (SELECT community_id FROM reports)") == [(0,)]


def test_running_again_does_nothing(town):
    """A finished index is recognised without loading a model and without a call."""
    before = rows(town, "SELECT count(*) FROM llm_calls")
    done = run_localrag("index", "docs", cwd=town)
    run = json.loads(run_localrag("status", "--json", cwd=town).stdout)["run"]

    assert done.returncode == 0
    assert "Nothing new" in done.stderr
    assert rows(town, "SELECT count(*) FROM llm_calls") == before
    assert (run["state"], run["figures"]) == ("complete", {})  # no engine was opened


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


def test_a_fact_is_found_in_local_mode(town):
    """The sentence that answers is among those quoted, in English and in Chinese."""
    english = ask(town, "Who is the mate of the Skua?")
    chinese = ask(town, "谁是“海鸥号”的轮机长？")

    assert any("Lars Holm is the mate" in c["quote"] for c in english["citations"])
    assert any("王海明是“海鸥号”的轮机长" in c["quote"] for c in chinese["citations"])


def test_source_prints_the_passage_of_the_last_answer(town):
    """`source N` shows the file, the range and the passage; a number too high is a sentence."""
    answer = ask(town, "Who is the mate of the Skua?")
    done = run_localrag("source", "1", cwd=town)

    assert answer["citations"][0]["path"] in done.stdout
    assert answer["citations"][0]["quote"] in done.stdout
    missing = run_localrag("source", "99", cwd=town)
    assert missing.returncode == 1
    assert "no citation 99" in missing.stderr


def test_text_answers_list_their_sources(town):
    """Without --json the answer goes to stdout with file, range and quote; how it came about goes to stderr."""
    done = run_localrag("ask", "What are the main themes?", "--mode", "global", cwd=town)

    assert "] docs/a.md › The ferry, " in done.stdout
    assert "mode: global" in done.stderr
    assert "Level 0" in done.stderr


def test_edits_and_deletions_are_followed(town, tmp_path):
    """A changed file is read again, a deleted one is gone, and what did not change costs no call."""
    shutil.copytree(town, tmp_path / "town")
    folder = tmp_path / "town"
    (folder / "docs" / "b.txt").unlink()
    (folder / "docs" / "a.md").write_text(TOWN["a.md"] + "\nOlaf Berg sold the old pier to the Northern Line.\n", encoding="utf-8")
    done = run_localrag("index", "docs", cwd=folder)

    assert done.returncode == 0, done.stderr
    names = {name for (name,) in rows(folder, "SELECT name FROM entities")}
    assert "Olaf Berg" in names
    assert "Mayor Ruth Sand" not in names
    assert rows(folder, "SELECT count(*) FROM chunks WHERE text LIKE '%leaks%'") == [(0,)]
    again = rows(folder, "SELECT count(*) FROM llm_calls WHERE task = 'entities'")[0][0]
    assert again <= rows(town, "SELECT count(*) FROM llm_calls WHERE task = 'entities'")[0][0] + 1


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (["index", "nowhere"], 2, "There is nothing at nowhere"),
        (["index", "empty"], 2, "There is nothing to index in empty: no files"),
        (["index", "binary"], 2, "none of them readable text"),
        (["index", "docs", "--model", "gpt-9"], 4, "No model is called 'gpt-9'"),
        (["index", "docs", "--model", "smollm2-135n"], 4, "Did you mean 'smollm2-135m'?"),
        (["index", "docs", "--model", "./no.gguf"], 4, "There is no model file at no.gguf"),
        (["ask", "Why?"], 3, "There is no index here"),
        (["status"], 3, "localrag index PATH"),
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


def test_a_damaged_model_is_named(tmp_path):
    """A file that is no GGUF ends in code 4; the documents stay stored for the next run."""
    write_town(tmp_path / "docs")
    (tmp_path / "bad.gguf").write_bytes(b"GGUF but broken")
    done = run_localrag("index", "docs", "--model", "./bad.gguf", cwd=tmp_path)

    assert done.returncode == 4
    assert "bad.gguf" in done.stderr


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


def test_files_that_cannot_be_read_are_listed_and_the_rest_is_indexed(tmp_path):
    """Binary and damaged files are named with their reason; a broken one makes the run partly done (5)."""
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "plain.txt").write_text("nothing but small words, and no name at all in them.")
    (docs / "binary.txt").write_bytes(b"\x80\x81\xfe")
    (docs / "sheet.ods").write_bytes(b"x")
    (docs / "void.md").write_text("  \n")
    done = run_localrag("index", "docs", cwd=tmp_path)
    status = json.loads(run_localrag("status", "--json", cwd=tmp_path).stdout)

    assert done.returncode == 5, done.stderr
    assert {s["path"]: s["reason"] for s in status["skipped"]} == {
        "docs/binary.txt": "binary, not text", "docs/sheet.ods": "damaged: File is not a zip file", "docs/void.md": "empty"}  # fmt: skip
    assert status["documents"] == 1
    assert status["entities"] == 0
    assert "No entity was found" in done.stderr


@pytest.mark.ci
def test_questions_on_an_index_without_a_graph_fall_back(tmp_path):
    """A file without entities is answered from its passages, and the answer says so; no apology."""
    (tmp_path / "plain.txt").write_text("harbours freeze in most winters, and nobody can leave them until ice breaks in april.")
    run_localrag("index", "plain.txt", cwd=tmp_path)
    for mode in ("global", "local"):
        answer = ask(tmp_path, "When does the harbour freeze?", "--mode", mode)

        assert answer["mode"] == "basic"
        assert answer["note"]
        assert "freeze in most winters" in answer["citations"][0]["quote"]


@pytest.mark.ci
def test_ctrl_c_says_what_is_saved_and_the_same_command_goes_on(tmp_path):
    """Interrupted while extracting, the run ends in 130 with what is saved; the next run keeps every committed call."""
    write_town(tmp_path / "docs")
    for n in range(12):
        (tmp_path / "docs" / f"more{n}.txt").write_text(f"Ada Quist met Number{n} Berg in Port{n}. {TOWN['b.txt']}", encoding="utf-8")
    process = Forked("index", "docs", cwd=tmp_path, stderr=subprocess.PIPE)
    wait_for_calls(tmp_path, 3)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)

    assert process.returncode == 130
    assert "Saved: 15 documents" in errors
    saved = set(rows(tmp_path, "SELECT key, created_at, output_tokens FROM llm_calls"))
    done = run_localrag("index", "docs", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert saved <= set(rows(tmp_path, "SELECT key, created_at, output_tokens FROM llm_calls"))


def wait_for_calls(folder, number, seconds=120):
    """Wait until the index of a running process holds that many committed calls."""
    for _ in range(seconds * 10):
        time.sleep(0.1)
        try:
            if rows(folder, "SELECT count(*) FROM llm_calls")[0][0] >= number:
                return
        except sqlite3.OperationalError:
            continue
    raise AssertionError(f"fewer than {number} calls after {seconds} s")
