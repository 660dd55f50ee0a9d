"""Collections over the life of an index, and questions to some of its documents, on the command line."""

import json
import shutil
import subprocess

import pytest

from localrag.store.collections import collections
from localrag.store.opening import open_index
from tests.conftest import TOWN, run_json, run_localrag
from tests.forked import Forked

pytestmark = pytest.mark.ci


def ok(folder, *args):
    done = run_localrag(*args, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done


def index(folder, *args):
    return ok(folder, "index", *args, "--extractor", "phrases", "-q")


def collections_of(db):
    """Path → the names of the collections that it is in."""
    found = {}
    for path, name in db.execute("SELECT path, name FROM collection_documents ORDER BY 1, 2"):
        found.setdefault(path, []).append(name)
    return found


def members(folder):
    db = open_index(folder / ".localrag")
    try:
        return collections_of(db)
    finally:
        db.close()


@pytest.fixture(autouse=True)
def no_reader(monkeypatch):
    """No chat model is loaded for what these tests ask: answers are sentences of the documents."""
    monkeypatch.setenv("LOCALRAG_ENGINE", "adapter=no")


@pytest.fixture
def folder(tmp_path):
    """Two folders of documents."""
    for name, place in (("a.md", "one"), ("b.txt", "one"), ("c.txt", "二")):
        (tmp_path / place).mkdir(exist_ok=True)
        (tmp_path / place / name).write_text(TOWN[name], encoding="utf-8")
    return tmp_path


def test_a_collection_lives_with_its_documents(folder):
    """Made by index, kept over runs without it, edits and renames; a document may be in several; files that go leave it."""
    index(folder, "one", "--collection", "ferry")
    index(folder, "二", "--collection", "中文,all")
    index(folder, "one", "--collection", "all")
    everything = {"one/a.md": ["all", "ferry"], "one/b.txt": ["all", "ferry"], "二/c.txt": ["all", "中文"]}
    assert members(folder) == everything
    index(folder, ".")
    assert members(folder) == everything

    (folder / "one" / "a.md").write_text(TOWN["a.md"] + "\nThe Skua sails at noon on Sundays.\n", encoding="utf-8")
    (folder / "one" / "b.txt").rename(folder / "二" / "信.txt")
    (folder / "new.md").write_text("# New\n\nGreta Lind came to Vardby in May with her own boat.\n", encoding="utf-8")
    index(folder, ".")
    assert members(folder) == {"one/a.md": ["all", "ferry"], "二/信.txt": ["all", "ferry"], "二/c.txt": ["all", "中文"]}
    assert run_json("search", "Who wrote to the mayor?", "--collection", "ferry", "-k", "1", cwd=folder)[0]["path"] == "二/信.txt"

    (folder / "二" / "c.txt").unlink()
    index(folder, ".")
    assert members(folder) == {"one/a.md": ["all", "ferry"], "二/信.txt": ["all", "ferry"]}
    assert run_json("collections", "list", cwd=folder)["collections"] == [{"name": n, "documents": 2} for n in ("all", "ferry")]

    ok(folder, "rm", "one/a.md", "-q")
    assert members(folder) == {"二/信.txt": ["all", "ferry"]}
    index(folder, "one")
    assert members(folder) == {"二/信.txt": ["all", "ferry"]}


def test_collections_are_listed_renamed_and_removed(folder):
    """`list`, `rename`, also into one that exists, `rm`; `status` and `files` know them; documents stay."""
    index(folder, "one", "--collection", "ferry")
    index(folder, "二", "--collection", "b")
    assert ok(folder, "collections", "list").stdout.split() == ["1", "b", "2", "ferry"]
    assert run_json("status", cwd=folder)["collections"] == {"b": 1, "ferry": 2}
    assert "ferry (2)" in ok(folder, "status").stdout
    assert [json.loads(line)["path"] for line in ok(folder, "files", "--collection", "b", "--json").stdout.splitlines()] == ["二/c.txt"]
    assert "boats has 2 documents" in ok(folder, "collections", "rename", "ferry", "boats").stderr
    assert "boats has 3 documents" in ok(folder, "collections", "rename", "b", "boats").stderr
    ok(folder, "collections", "rm", "boats")
    assert run_json("collections", "list", cwd=folder) == {"collections": []}
    assert run_json("status", cwd=folder)["documents"] == 3
    for args in (["rm", "boats"], ["rename", "boats", "x"]):
        assert run_localrag("collections", *args, cwd=folder).returncode == 2


def test_names_that_are_not_there_are_errors_with_what_there_is(folder):
    """An unknown collection, with what may have been meant; a name that cannot be one; an unknown key; before anything is asked."""
    index(folder, "one", "--collection", "ferry")
    for command in (["ask", "Who?"], ["search", "Who?"], ["questions"]):
        done = run_localrag(*command, "--collection", "fery", cwd=folder)
        assert done.returncode == 2
        assert "no collection 'fery'" in done.stderr
        assert "There are: ferry. Did you mean ferry?" in done.stderr
    assert run_localrag("index", "one", "--collection", "a/b", cwd=folder).returncode == 2
    done = run_localrag("ask", "Who?", "--filter", "pth=one", cwd=folder)
    assert done.returncode == 2
    assert "Did you mean path?" in done.stderr


def test_only_the_selected_documents_are_asked(folder):
    """`--filter` and `--collection` together hold both; the answer, its record and the log say which documents; nothing is an answer."""
    index(folder, "one", "--collection", "ferry")
    index(folder, "二", "--collection", "b")
    question = "Who is the mate of the Skua?"
    made = run_json("ask", question, "--collection", "ferry,b", "--filter", "type=txt", cwd=folder)
    assert {c["path"] for c in made["citations"]} <= {"one/b.txt", "二/c.txt"}
    assert made["citations"]
    assert (made["filter"], made["collections"]) == ("type=txt", ["ferry", "b"])
    assert run_json("logs", "-n", "1", cwd=folder)[0]["collections"] == ["ferry", "b"]
    shown = ok(folder, "ask", question, "-c")
    assert "documents: type=txt in collection ferry or b" in shown.stderr
    assert run_json("ask", question, "-c", "--filter", "", cwd=folder)["collections"] == []
    nothing = ok(folder, "ask", question, "--filter", "path=one,type=pdf")
    assert nothing.stdout.strip() == "No document matches path=one,type=pdf."
    assert "type=pdf matches none. There is: txt (2), md (1)." in nothing.stderr
    nowhere = ok(folder, "search", question, "--filter", "path=nowhere", "--json")
    assert json.loads(nowhere.stdout) == []
    assert "No document matches" in nowhere.stderr
    assert run_json("search", question, "--filter", "path=二/*", cwd=folder)[0]["path"] == "二/c.txt"
    assert all("Holm" not in q for q in run_json("questions", "--filter", "type=pdf,type=md", "-n", "9", cwd=folder) if "王海明" in q)


@pytest.mark.slow
def test_a_killed_run_goes_on_with_its_collection(folder):
    """Killed while it reads or builds, and started again: each document is in the collection, a renamed one in those it was in."""
    index(folder, "one", "--collection", "ferry")
    for n in range(150):
        (folder / "two").mkdir(exist_ok=True)
        (folder / "two" / f"{n}.txt").write_text(f"Number {n}. Greta Lind sold boat {n} to Nils Berg in Vardby.\n")
    (folder / "one" / "b.txt").rename(folder / "one" / "moved.txt")
    command = ["index", ".", "--extractor", "phrases", "--collection", "new"]
    for stage in ("documents", "noun phrases", "entity resolution"):
        process = Forked(*command, "--progress", "json", cwd=folder, stderr=subprocess.PIPE)
        while stage not in json.loads(line := process.stderr.readline()).get("stage", ""):
            assert '"end"' not in line
        process.kill()
        process.communicate()
        db = open_index(folder / ".localrag")
        published = {p for (p,) in db.execute("SELECT path FROM documents") if p.startswith("two/")}
        inside = {p for p, names in collections_of(db).items() if "new" in names}
        db.close()
        assert published <= inside
    ok(folder, *command, "-q")
    known = members(folder)
    assert known["one/moved.txt"] == ["ferry", "new"]
    assert known["one/a.md"] == ["ferry", "new"]
    assert "one/b.txt" not in known
    db = open_index(folder / ".localrag")
    assert collections(db) == {"ferry": 2, "new": 153}
    db.close()


def test_a_file_that_could_not_be_read_is_in_no_collection(folder):
    """Only documents count, and the path of one that is none is forgotten."""
    (folder / "one" / "empty.txt").write_text("")
    index(folder, "one", "--collection", "ferry")
    assert members(folder) == {"one/a.md": ["ferry"], "one/b.txt": ["ferry"]}
    shutil.rmtree(folder / "one")
    (folder / "二" / "d.txt").write_text("Greta Lind came to Vardby in May.\n")
    ok(folder, "index", "one", "二", "--extractor", "phrases", "-q", "--prune")
    assert members(folder) == {}
