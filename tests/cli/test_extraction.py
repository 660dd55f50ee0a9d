"""Extraction from the command line: without a model, merges and the user's word on them, tuning, evaluation."""

import json
import sqlite3

from tests.conftest import run_localrag


def rows(folder, sql):
    return sqlite3.connect(folder / ".localrag" / "index.db").execute(sql).fetchall()


def test_merges_are_listed_undone_and_added(own_town):
    """Mayor Ruth Sand is Ruth Sand; undone they are two; added they are one again, also after indexing anew."""
    listed = json.loads(run_localrag("merges", "list", "--json", cwd=own_town).stdout)["merges"]
    add = run_localrag("merges", "add", "Skua", "海鸥号", cwd=own_town)
    joined = {name for (name,) in rows(own_town, "SELECT name FROM entities")}
    merge = next(m for m in json.loads(run_localrag("merges", "list", "--json", cwd=own_town).stdout)["merges"] if m["name"] == "Skua")
    undo = run_localrag("merges", "undo", str(merge["id"]), cwd=own_town)
    apart = {name for (name,) in rows(own_town, "SELECT name FROM entities")}

    assert all({"id", "name", "into", "reason", "score"} == set(m) for m in listed)
    assert add.returncode == undo.returncode == 0, add.stderr + undo.stderr
    assert merge["reason"] == "decided by the user"
    assert "Skua" not in joined
    assert {"Skua", "海鸥号"} <= apart
    assert "Skua != 海鸥号" in (own_town / ".localrag" / "aliases.txt").read_text(encoding="utf-8")


def test_a_name_nobody_has_is_refused(own_town):
    """Adding an unknown name or undoing an unknown merge says so and changes nothing."""
    assert run_localrag("merges", "add", "Nobody", "Skua", cwd=own_town).returncode == 2
    assert "localrag merges list" in run_localrag("merges", "undo", "999", cwd=own_town).stderr
    assert not (own_town / ".localrag" / "aliases.txt").exists()
