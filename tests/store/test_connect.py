"""An index that cannot be read completely is refused: no answer comes from old data, and no connection stays open."""

import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing, contextmanager

import psutil
import pytest

from localrag.errors import IndexBusy, IndexMismatch, NoIndex, UsageError
from localrag.project import open_for_query, open_for_writing, open_read_only
from localrag.store import database
from localrag.store.collections import collections
from localrag.store.database import snapshot
from localrag.store.opening import open_index
from tests.test_crashes import able

LOCALRAG = f"{sys.executable} -m localrag"


@pytest.fixture
def town(plain_town, tmp_path):
    """A copy of the index to be changed."""
    shutil.copytree(plain_town, tmp_path / "town")
    return tmp_path / "town"


@contextmanager
def unfinished(folder):
    """The writer of an index whose last change is in the log alone, where a killed process leaves it."""
    with closing(open_index(folder, create=True)) as db:
        with db.atomic():
            db.execute("INSERT INTO collection_documents VALUES ('letters', 'docs/b.txt')")
        assert (folder / "index.db-wal").stat().st_size > 0
        yield db


def read_only(script, folder):
    """Run a shell script in a namespace where the index of a folder is on a read-only file system."""
    mounted = f"mount --bind {folder}/.localrag {folder}/.localrag; mount -o remount,ro,bind {folder}/.localrag\n{script}"
    command = ["unshare", "-rm", "sh", "-c", mounted]
    return subprocess.run(command, check=False, cwd=folder, capture_output=True, text=True, timeout=300, env=os.environ)


@able
@pytest.mark.ci
@pytest.mark.parametrize("command", ["collections list", "status", 'search "the ferry"', 'ask "Who is the mate of the Skua?" --mode basic'])
def test_a_log_that_cannot_be_read_is_said_and_its_copy_answers(town, tmp_path, command):
    """On a read-only disk an index with changes in its log is refused with the command that helps, and that command helps."""
    with unfinished(town / ".localrag"):
        for name in ("index.db", "index.db-wal"):
            shutil.copy(town / ".localrag" / name, tmp_path / name)
    for name in ("index.db", "index.db-wal"):  # as it was before the last connection was closed; no file of shared memory beside it
        shutil.copy(tmp_path / name, town / ".localrag" / name)
    done = read_only(f"{LOCALRAG} {command}", town)
    (helps,) = [line.partition("it: ")[2].partition(",")[0] for line in done.stderr.splitlines() if "→" in line]
    subprocess.run(helps.replace("DIR", str(tmp_path / "copy")), shell=True, check=True)

    assert done.returncode == 1
    assert "has changes in its log (index.db-wal)" in done.stderr
    assert "Lars" not in done.stdout
    with open_read_only(tmp_path / "copy") as copy:
        assert collections(copy.db) == {"letters": 1}


@able
@pytest.mark.ci
def test_a_log_that_can_be_read_is_read_on_a_read_only_disk(town):
    """While the one who writes it is there, or where a killed one left the log's index too, the newest state is answered from."""
    folder = town / ".localrag"
    with unfinished(folder):
        live = read_only(f"{LOCALRAG} collections list", town)
        for path in folder.glob("index.db*"):
            shutil.copy(path, town / path.name)
    for path in town.glob("index.db*"):
        shutil.move(path, folder / path.name)
    left = read_only(f"{LOCALRAG} collections list", town)

    assert (live.stdout.split(), left.stdout.split()) == (["1", "letters"], ["1", "letters"]), live.stderr + left.stderr


@able
@pytest.mark.ci
def test_an_index_without_a_log_is_read_on_a_read_only_disk(town):
    """With no log, or an empty one, the database alone is the newest state; writing is refused in a sentence."""
    (town / ".localrag" / "index.db-wal").touch()
    done = read_only(f"{LOCALRAG} files", town)
    refused = read_only(f"{LOCALRAG} index docs", town)

    assert done.returncode == 0, done.stderr
    assert "docs/b.txt" in done.stdout
    assert (refused.returncode, "Traceback" in refused.stderr) == (1, False)


@able
@pytest.mark.ci
@pytest.mark.parametrize(("command", "code", "said"), [("files", 0, "docs/b.txt"), ("index docs", 1, "The disk is full.")])
def test_on_a_full_disk_an_index_is_read_and_writing_is_refused(town, command, code, said):
    """Not a byte is free, so SQLite has no room even for the memory that its readers share."""
    index = town / ".localrag"
    full = f"mount -t tmpfs -o size=30m,mode=700 none {index}; cp -r copy/. {index}; cat /dev/zero > {index}/fill"
    script = f"cp -r {index} copy; {full}; {LOCALRAG} {command}"
    done = subprocess.run(["unshare", "-rm", "sh", "-c", script], check=False, cwd=town, capture_output=True, text=True, timeout=300)

    assert (done.returncode, said in done.stdout + done.stderr) == (code, True), done.stderr


@pytest.mark.ci
def test_an_index_that_another_process_holds_for_itself_is_not_read_past_it(town, monkeypatch):
    """An exclusive lock is waited for and then reported; the database is not read without its log."""
    monkeypatch.setattr(database, "READER_BUSY_TIMEOUT_S", 0.2)
    folder = town / ".localrag"
    with closing(sqlite3.connect(folder / "index.db")) as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("INSERT INTO collection_documents VALUES ('letters', 'docs/b.txt')")
        other.commit()
        with pytest.raises(IndexBusy, match="holds the index"), snapshot(folder):
            pass
        with pytest.raises(IndexBusy, match="holds the index"):
            open_index(folder)


@pytest.mark.parametrize(
    ("change", "opening", "error"),
    [
        ("PRAGMA user_version = 999", open_read_only, IndexMismatch),
        ("DELETE FROM index_settings WHERE key = 'chat_model'", open_for_query, NoIndex),
        ("UPDATE index_settings SET value = json_set(value, '$.fingerprint', '?') WHERE key = 'embedder'", open_for_query, IndexMismatch),
        ("", open_for_query, UsageError),
        ("", open_for_writing, UsageError),
    ],
)
def test_an_index_that_is_refused_is_closed(town, change, opening, error):
    """Whatever the reason, the last that its domain cannot be read, no connection stays open, even while the exception is alive."""
    folder = town / ".localrag"
    (folder / "domain.toml").write_text("" if change else "about = [")
    with closing(open_index(folder)) as db, db.atomic():
        db.execute(change or "SELECT 1")
    with pytest.raises(error) as refused, opening(folder):
        pass
    left = [file.path for file in psutil.Process().open_files() if file.path.startswith(str(town))]

    assert refused.value.__traceback__
    assert left == []
