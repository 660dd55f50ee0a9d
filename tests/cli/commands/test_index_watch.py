"""`localrag index --watch`: it follows the files, not itself, and nothing but an interrupt ends it."""

import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, closing, contextmanager

import pytest
import typer

from localrag.cli.commands import index as index_commands
from localrag.store.opening import open_index, writer_lock
from tests.conftest import TOWN, until
from tests.forked import Forked

pytestmark = pytest.mark.ci


@contextmanager
def watching(folder, *args):
    """A process that watches; gives it and what it has said so far."""
    process = Forked("index", "docs", "--extractor", "phrases", "--watch", *args, cwd=folder, stderr=subprocess.PIPE)
    said = []
    threading.Thread(target=lambda: said.extend(iter(process.stderr.readline, "")), daemon=True).start()
    try:
        yield process, said
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(timeout=60)
        finally:
            sys.stdout.writelines(said)
    assert process.returncode == 0, "".join(said)


@contextmanager
def watching_beside_a_writer(folder, index):
    """A process that watches, begun while another holds the index, which it lets go of after some seconds."""
    with ExitStack() as stack:
        with writer_lock(index):
            open_index(index, create=True).close()
            process, said = stack.enter_context(watching(folder))
            until(lambda: any("localrag waits for it." in line for line in said))
            time.sleep(3)
            assert process.poll() is None
        yield said


def query(folder, sql, index=".localrag"):
    try:
        with closing(sqlite3.connect(f"{(folder / index / 'index.db').as_uri()}?mode=rw", timeout=30, uri=True)) as db:
            return db.execute(sql).fetchall()
    except sqlite3.OperationalError:  # not made yet
        return []


def idle(folder, index=".localrag"):
    return not query(folder, "SELECT 1 FROM runs WHERE ended_at IS NULL", index)


def is_known(folder, name, index=".localrag"):
    return bool(query(folder, f"SELECT 1 FROM entities WHERE name = '{name}'", index))


def at_rest(folder, index=".localrag", runs=2):
    return query(folder, "SELECT count(*) FROM runs WHERE state IN ('complete', 'partly')", index) >= [(runs,)]


def test_an_index_among_the_files_is_no_change(tmp_path):
    """An index of any name below the watched folder starts no run; a new file does, and others may write in between."""
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "a.txt").write_text(TOWN["b.txt"])
    with watching(tmp_path, "--index", "docs/other") as (_, said):
        until(lambda: "Watching for changes; Ctrl-C ends.\n" in said)
        until(lambda: at_rest(tmp_path, "docs/other"))
        time.sleep(6)
        runs = query(tmp_path, "SELECT count(*) FROM runs", "docs/other")
        (docs / "new.txt").write_text("Agnes Thorburn met Ruth Sand at Castlemere.")
        until(lambda: is_known(tmp_path, "Agnes Thorburn", "docs/other") and idle(tmp_path, "docs/other"))

    assert runs == [(2,)]


def test_it_waits_for_a_writer_that_is_there_first(tmp_path):
    """Begun while another localrag writes to the index, it says so once and begins when that has ended."""
    docs, index = tmp_path / "docs", tmp_path / ".localrag"
    docs.mkdir()
    (docs / "a.txt").write_text(TOWN["b.txt"])
    with watching_beside_a_writer(tmp_path, index) as said:
        until(lambda: at_rest(tmp_path) and idle(tmp_path))

    assert sum("is writing to" in line for line in said) == 1


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_that_a_finalizer_loses_ends_it(tmp_path, monkeypatch):
    """Python drops what a finalizer raises; an interrupt that comes within one ends the watch all the same."""

    class Finalized:
        def __del__(self):
            index_commands._as_interrupt(signal.SIGINT, None)

    runs = []
    monkeypatch.setattr(index_commands, "POLL_EVERY_S", 0.01)
    index_commands._interrupts.clear()
    with pytest.raises(typer.Exit) as ended:
        index_commands.watch_files([tmp_path], lambda: runs.append(id(Finalized())))

    assert len(runs) == 1
    assert ended.value.exit_code == 0


def test_no_error_ends_it(tmp_path):
    """What goes wrong is said once; the next change is read, and a folder that comes back is followed again."""
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "a.txt").write_text(TOWN["b.txt"])
    domain = tmp_path / ".localrag" / "domain.toml"
    with watching(tmp_path) as (_, said):
        until(lambda: at_rest(tmp_path))
        domain.write_text("about = ")
        (docs / "b.txt").write_text("Walter Muir came later.")
        until(lambda: any("domain.toml cannot be read" in line and "Still watching" in line for line in said))
        domain.unlink()
        (docs / "c.txt").write_text("Agnes Thorburn met Ruth Sand at Castlemere.")
        until(lambda: is_known(tmp_path, "Agnes Thorburn") and is_known(tmp_path, "Walter Muir"))
        docs.rename(tmp_path / "away")
        until(lambda: any("docs is missing: 3 documents from there are kept" in line for line in said))
        shutil.copytree(tmp_path / "away", docs)
        (docs / "d.txt").write_text("Chen Guoliang sailed to Brannock Harbour.")
        until(lambda: is_known(tmp_path, "Chen Guoliang"))
        (docs / "e.txt").write_text("Ingrid Holm sailed to Carrow Island with Zebulon Quarrick.")
        until(lambda: is_known(tmp_path, "Zebulon Quarrick") and idle(tmp_path))

    assert query(tmp_path, "SELECT count(*) FROM documents") == [(5,)]
