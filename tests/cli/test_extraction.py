"""Extraction from the command line: without a model, merges and the user's word on them, tuning, evaluation."""

import json
import shutil
import sqlite3

import pytest

from tests.conftest import run_localrag


def rows(folder, sql):
    return sqlite3.connect(folder / ".localrag" / "index.db").execute(sql).fetchall()


def test_a_graph_needs_no_model(copied):
    """Names, relationships, communities and reports are there, no model was asked, and questions are answered."""
    found = json.loads(run_localrag("status", "--json", cwd=copied).stdout)
    answer = json.loads(run_localrag("ask", "What happened to the Skua?", "--json", cwd=copied).stdout)

    assert found["spent"]["calls"] == 0
    assert min(found[k] for k in ("entities", "relationships", "communities", "reports")) > 0
    assert {"Ingrid Holm", "Skua"} <= {name for (name,) in rows(copied, "SELECT name FROM entities")}
    assert "王海明" in {name for (name,) in rows(copied, "SELECT name FROM entities")}
    assert answer["citations"]


@pytest.fixture
def copied(plain_town, tmp_path):
    """Three short documents indexed without a chat model."""
    shutil.copytree(plain_town, tmp_path / "p")
    return tmp_path / "p"


@pytest.mark.slow
@pytest.mark.ci
def test_the_model_replaces_what_was_found_without_it(copied):
    """Indexing the same folder with the model types the names; nothing found without it is asked again."""
    before = {kind for (kind,) in rows(copied, "SELECT DISTINCT type FROM entities")}
    done = run_localrag("index", "docs", "--extractor", "model", cwd=copied)
    after = {kind for (kind,) in rows(copied, "SELECT DISTINCT type FROM entities")}

    assert done.returncode == 0, done.stderr
    assert "name" in before
    assert after <= {"person", "organization", "place", "event", "thing"}


def test_merges_are_listed_undone_and_added(copied):
    """Mayor Ruth Sand is Ruth Sand; undone they are two; added they are one again, also after indexing anew."""
    listed = json.loads(run_localrag("merges", "list", "--json", cwd=copied).stdout)["merges"]
    add = run_localrag("merges", "add", "Skua", "海鸥号", cwd=copied)
    joined = {name for (name,) in rows(copied, "SELECT name FROM entities")}
    merge = next(m for m in json.loads(run_localrag("merges", "list", "--json", cwd=copied).stdout)["merges"] if m["name"] == "Skua")
    undo = run_localrag("merges", "undo", str(merge["id"]), cwd=copied)
    apart = {name for (name,) in rows(copied, "SELECT name FROM entities")}

    assert all({"id", "name", "into", "reason", "score"} == set(m) for m in listed)
    assert add.returncode == undo.returncode == 0, add.stderr + undo.stderr
    assert merge["reason"] == "decided by the user"
    assert "Skua" not in joined
    assert {"Skua", "海鸥号"} <= apart
    assert "Skua != 海鸥号" in (copied / ".localrag" / "aliases.txt").read_text(encoding="utf-8")


def test_a_name_nobody_has_is_refused(copied):
    """Adding an unknown name or undoing an unknown merge says so and changes nothing."""
    assert run_localrag("merges", "add", "Nobody", "Skua", cwd=copied).returncode == 2
    assert "localrag merges list" in run_localrag("merges", "undo", "999", cwd=copied).stderr
    assert not (copied / ".localrag" / "aliases.txt").exists()


@pytest.mark.slow
@pytest.mark.ci
def test_tuning_is_shown_and_written(copied):
    """`tune` prints types and writes a file that indexing then uses."""
    done = run_localrag("tune", "--passages", "1", cwd=copied)
    written = copied / ".localrag" / "domain.toml"

    assert done.returncode == 0, done.stderr
    assert "entity types" in done.stdout
    assert "entity_types" in written.read_text(encoding="utf-8")
    written.write_text("nonsense = 1\n" + written.read_text(encoding="utf-8"), encoding="utf-8")
    assert "unknown nonsense" in run_localrag("index", "docs", cwd=copied).stderr


def test_an_unknown_extractor_or_type_list_is_refused(tmp_path):
    """A wrong value is said before anything is written."""
    (tmp_path / "a.txt").write_text("Lars Holm waits in Vardby.")
    wrong = run_localrag("index", "a.txt", "--extractor", "magic", cwd=tmp_path)

    assert wrong.returncode == 2
    assert "phrases" in wrong.stderr
    assert run_localrag("index", "a.txt", "--types", 'a"b', cwd=tmp_path).returncode == 2
    assert not (tmp_path / ".localrag").exists()


@pytest.mark.ci
def test_evaluation_prints_the_scores(tmp_path):
    """`eval extraction --json` has every figure by its name; a person sees the same as a table."""
    gold = [
        {
            "tokens": ["Anna", "Marsh", "works", "for", "Dover", "Lines", "in", "Oslo", "."],
            "tags": ["B-Peop", "L-Peop", "O", "O", "B-Org", "L-Org", "O", "U-Loc", "O"],
            "relations": [{"head": 0, "tail": 1, "type": "Work_For"}],
            "orig_id": 1,
        }
    ]
    (tmp_path / "gold.json").write_text(json.dumps(gold))
    call = ["eval", "extraction", "gold.json", "--format", "conll04"]
    found = json.loads(run_localrag(*call, "--json", cwd=tmp_path).stdout)
    table = run_localrag(*call, "--extractor", "phrases", cwd=tmp_path)

    assert found["entity_f1"] == found["verbatim"] == 1.0
    assert found["relation_f1"] > 0
    assert found["duplicates"] == 0
    for key in ("entity_precision", "entity_recall", "typed_f1", "output_tokens", "seconds_per_1000_words"):
        assert key in found
    assert "Peop=person" in table.stdout
    assert run_localrag("eval", "extraction", "gold.json", "--format", "xml", cwd=tmp_path).returncode == 2
