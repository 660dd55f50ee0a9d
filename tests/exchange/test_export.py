"""Exporting: what is refused, what is never touched, what a killed export leaves, and what `localrag export` says."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from localrag.cli.commands import exchange
from localrag.errors import LocalragError, NoIndex, UsageError
from localrag.exchange.export import EXPORT_FORMATS, FILE_FORMATS, export_index
from localrag.records import Graph
from localrag.store import chunks, documents, export_rows, generations, graph
from localrag.store.opening import open_index
from localrag.system.installation import install_hint
from tests.conftest import run_localrag
from tests.exchange.made import look_into, make_index
from tests.graphs import staged_graph

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = sorted(set(EXPORT_FORMATS) - set(FILE_FORMATS))


def place(tmp_path, kind):
    return tmp_path / (f"graph.{kind}" if kind in FILE_FORMATS else kind)


def everything(folder):
    """Every file below a folder with its bytes."""
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_the_command_offers_just_the_formats_there_are():
    """The command line knows them without loading what writes them."""
    assert exchange.EXPORT_FORMATS == EXPORT_FORMATS
    assert set(exchange._USAGE_HINTS) == set(EXPORT_FORMATS)


@pytest.mark.parametrize("kind", EXPORT_FORMATS)
def test_the_same_index_gives_the_same_files(kind, opened, tmp_path):
    """Byte by byte, whatever the format; only its owner can read them, and nothing else is left in the folder."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    made = [export_index(opened, kind, place(tmp_path / name, kind)) for name in "ab"]
    assert made[0].files == made[1].files
    assert made[0].counts == made[1].counts
    assert everything(tmp_path / "a") == everything(tmp_path / "b")
    assert made[0].size == sum(len(data) for data in everything(tmp_path / "a").values())
    assert all(p.stat().st_mode & 0o077 == 0 for p in (tmp_path / "a").rglob("*") if p.is_file())
    assert not [p for p in tmp_path.rglob("*.part")]


@pytest.mark.parametrize("kind", EXPORT_FORMATS)
def test_an_empty_index_says_what_to_run(kind, tmp_path):
    """Without documents, and with documents of which nothing is known yet; nothing is written."""
    db = open_index(tmp_path / ".localrag", create=True)
    with pytest.raises(NoIndex, match="empty") as none:
        export_index(look_into(tmp_path), kind, place(tmp_path, kind))
    assert "localrag index" in none.value.hint
    make_index(tmp_path / "other", ("Ada",))
    other = open_index(tmp_path / "other" / ".localrag", create=True)
    documents.save_document(db, documents.find_document(other, "docs/a.txt"), chunks.all_chunks(other)[:1])
    with pytest.raises(LocalragError, match="no graph yet") as none:
        export_index(look_into(tmp_path), kind, place(tmp_path, kind))
    assert "localrag index" in none.value.hint
    assert not place(tmp_path, kind).exists()


@pytest.mark.parametrize("kind", sorted(FILE_FORMATS))
def test_a_file_that_is_there_is_not_replaced_unless_asked(kind, opened, tmp_path):
    """It stays as it is; with force it is replaced; a folder of that name never is."""
    path = place(tmp_path, kind)
    path.write_text("mine")
    with pytest.raises(UsageError, match="exists already") as refused:
        export_index(opened, kind, path)
    assert "--force" in refused.value.hint
    assert path.read_text() == "mine"
    export_index(opened, kind, path, force=True)
    assert path.read_text(encoding="utf-8") != "mine"
    with pytest.raises(UsageError, match="is a folder"):
        export_index(opened, kind, tmp_path, force=True)
    with pytest.raises(UsageError, match="no folder"):
        export_index(opened, kind, tmp_path / "none" / "g")


@pytest.mark.parametrize("kind", FOLDERS)
def test_a_folder_that_holds_other_things_is_left_alone(kind, opened, tmp_path):
    """Refused without force; what force does there is held by test_hostile_folders.py."""
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "b.bin").write_bytes(b"mine")
    with pytest.raises(UsageError, match="holds other files") as refused:
        export_index(opened, kind, folder)
    assert "--force" in refused.value.hint
    assert everything(folder) == {"b.bin": b"mine"}
    with pytest.raises(UsageError, match="is a file"):
        export_index(opened, kind, folder / "b.bin", force=True)


def test_the_folder_of_the_index_is_no_place_for_it(opened):
    """Nor is a folder below it."""
    for path in (opened.folder, opened.folder / "out"):
        with pytest.raises(UsageError, match="the index folder"):
            export_index(opened, "jsonl", path, force=True)


KILLED = """
import os, signal, sys
from pathlib import Path
from localrag.exchange.export import export_index
from tests.exchange.made import look_into
real, n = os.replace, iter(range(100))
def replace(*args, **named):
    if next(n) == int(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*args, **named)
os.replace = replace
export_index(look_into(Path(sys.argv[1])), sys.argv[4], Path(sys.argv[2]), force=True)
"""


@pytest.mark.parametrize(("kind", "moves"), [("jsonl", 0), ("jsonl", 9), ("jsonl", 10), ("graphml", 0)])
@pytest.mark.ci
def test_a_killed_export_leaves_no_half_file(kind, moves, tmp_path):
    """Killed before or between the moves: what has its final name is whole, and the next export finishes and leaves nothing behind."""
    index, path, whole = make_index(tmp_path / "index"), place(tmp_path / "out", kind), place(tmp_path / "whole", kind)
    path.parent.mkdir()
    whole.parent.mkdir()
    export_index(index, kind, whole)
    call = [sys.executable, "-c", KILLED, str(tmp_path / "index"), str(path), str(moves), kind]
    done = subprocess.run(call, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, check=False)
    assert done.returncode == -signal.SIGKILL
    good = everything(whole.parent)
    left = {name: data for name, data in everything(path.parent).items() if ".part" not in name}
    assert left.items() <= good.items()
    assert any(".part" in p.name for p in path.parent.rglob("*"))
    export_index(index, kind, path)
    assert everything(path.parent) == good
    assert not [p for p in path.parent.rglob("*.part")]


def test_an_export_is_of_one_moment_while_indexing_writes(tmp_path, monkeypatch):
    """A graph that is replaced in the middle of it does not show."""
    index = make_index(tmp_path / "index", [f"Name {n}" for n in range(60)])
    others, real = graph.entities(make_index(tmp_path / "other", ["Else"]).db), export_rows.relationships

    def replaced_before(db):
        writer = open_index(index.folder, create=True)
        generations.publish(writer, staged_graph(writer, Graph(tuple(others)), []), settings={"graph_hash": "two"})
        return real(db)

    monkeypatch.setattr(export_rows, "relationships", replaced_before)
    made = export_index(index, "jsonl", tmp_path / "out")
    assert made.counts["entities"] == made.counts["mentions"] == 60
    ends = [json.loads(line) for line in (tmp_path / "out" / "relationships.jsonl").read_text(encoding="utf-8").splitlines()]
    assert len(ends) == made.counts["relationships"] > 60


def test_the_command_writes_and_says_what(tmp_path):
    """The counts, the size and what to open it with; as JSON with --json; errors end in their codes."""
    make_index(tmp_path)
    done = run_localrag("export", "graphml", "g.graphml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "26 entities" in done.stderr
    assert "Gephi" in done.stderr
    done = run_localrag("export", "jsonl", "out", "--json", cwd=tmp_path)
    said = json.loads(done.stdout)
    assert said["counts"]["entities"] == 26
    assert "entities.jsonl" in said["files"]
    assert run_localrag("export", "graphml", "g.graphml", cwd=tmp_path).returncode == 2
    assert run_localrag("export", "xlsx", "out", cwd=tmp_path).returncode == 2
    (tmp_path / "empty").mkdir()
    assert run_localrag("export", "html", "x.html", "--index", "empty", cwd=tmp_path).returncode == 3


def test_parquet_without_its_library_says_how_to_install_it(opened, tmp_path, monkeypatch):
    """Before anything is written."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(LocalragError, match="pyarrow") as missing:
        export_index(opened, "parquet", tmp_path / "out")
    assert missing.value.hint == install_hint("pyarrow")
    assert not (tmp_path / "out").exists()
