"""Nothing leaves the machine, from the first file to the last answer; nothing on it is open to others."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from localrag.errors import error_location
from localrag.indexing.graph.entity_resolution import add_alias
from localrag.llm.prompts import write_domain
from localrag.settings import Domain
from localrag.store.entity_network import load_entity_network
from localrag.store.opening import open_index
from tests.conftest import run_localrag, run_process

ROOT = Path(__file__).parents[1]
ALONE = ["unshare", "-rn"]  # in a network namespace without a single interface that is up, loopback included
CAN_BE_ALONE = bool(shutil.which("unshare")) and subprocess.run([*ALONE, "true"], check=False, capture_output=True).returncode == 0


@pytest.fixture(scope="module")
def lived(tmp_path_factory):
    """A folder where an index went through its life: without any network where the system can do that, under a umask that hides nothing."""
    folder = tmp_path_factory.mktemp("lived")
    folder.chmod(0o700)
    command = [sys.executable, "-m", "tests.life", str(folder)]
    return folder, subprocess.run(
        [*ALONE, *command, "counted"] if CAN_BE_ALONE else command,
        check=False, cwd=folder, capture_output=True, text=True, timeout=900, umask=0, env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip


def open_to_others(folder):
    """Files and folders that another user of the machine could read or write."""
    return [str(p.relative_to(folder)) for p in [folder, *folder.rglob("*")] if p.stat().st_mode & 0o077]


def test_the_watch_sees_what_it_watches_for():
    """The trap of these tests notices a socket, a look-up and a connection, and the kernel's counters one that Python knows nothing of."""
    code = (
        "import sys, socket, ctypes; from tests import life; sys.addaudithook(life.watch)\n"
        "try: socket.create_connection(('192.0.2.1', 9), 0.1)\nexcept OSError: pass\n"
        "if len(sys.argv) > 1:\n"
        "    libc = ctypes.CDLL(None); s = libc.socket(2, 1, 0)\n"
        "    libc.connect(s, b'\\x02\\x00\\x00\\x09\\xc0\\x00\\x02\\x01' + bytes(8), 16); print(life.counters()['Ip:OutNoRoutes'])\n"
        "print(life.attempts)"
    )
    alone = ALONE if CAN_BE_ALONE else []
    done = subprocess.run(
        [*alone, sys.executable, "-c", code, *(["counted"] if alone else [])],
        check=True, capture_output=True, text=True, cwd=ROOT, timeout=60,
    )  # fmt: skip

    for event in ("socket.getaddrinfo", "socket.__new__", "socket.connect"):
        assert event in done.stdout
    assert not CAN_BE_ALONE or int(done.stdout.split()[0]) == 2


@pytest.mark.ci
def test_the_whole_life_of_an_index_reaches_for_no_network(lived):
    """Index, questions in every mode, conversations, updates, removals, check and doctor work with no network, and try none."""
    _, done = lived

    assert done.returncode == 0, done.stderr[-3000:]
    assert "attempts: []" in done.stdout, done.stdout[-300:]
    assert "0 network sockets" in done.stdout


@pytest.mark.ci
def test_a_served_index_reaches_for_nothing_beyond_this_machine(tmp_path):
    """The page, questions, /v1, MCP, a file that is dragged in and indexed: all over loopback, where there is nothing else."""
    command = [sys.executable, "-m", "tests.served_life", str(tmp_path)]
    done = subprocess.run(
        [*ALONE, *command, "counted"] if CAN_BE_ALONE else command,
        check=False, cwd=tmp_path, capture_output=True, text=True, timeout=300, env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip

    assert "attempts: []\nfailed: []" in done.stdout, done.stdout[-1000:] + done.stderr[-3000:]


@pytest.mark.ci
def test_what_localrag_writes_is_for_its_owner_alone(lived, home):
    """Whatever the umask: the database, its caches, the lock, and in the user cache what was measured, copied and kept of prompts."""
    folder, _ = lived
    add_alias(folder / ".localrag", "Skua != Northern Line")
    write_domain(folder / ".localrag", Domain(description="A town"))
    with closing(open_index(folder / ".localrag")) as db:
        load_entity_network(db, folder / ".localrag")  # of what was indexed last: a run removes the caches of what was there before
    made = {p.name for p in (folder / ".localrag").iterdir()}

    assert {"index.db", "writer.lock", "aliases.txt", "domain.toml"} <= made
    assert {name.split(".")[-1] for name in made} >= {"arrays"}
    assert open_to_others(folder / ".localrag") == []
    assert open_to_others(home / "cache") == []


def test_a_folder_that_was_there_keeps_its_mode(tmp_path):
    """An index put into a folder of the user's leaves it as open as the user made it; its own files are private all the same."""
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o755)
    open_index(folder, create=True).close()

    assert folder.stat().st_mode & 0o777 == 0o755
    assert open_to_others(folder) == ["."]


@pytest.mark.ci
def test_an_unexpected_error_tells_nothing_of_the_documents(own_town):
    """What crashes is named by kind and place; its message, which may hold a passage, is printed only when asked for."""
    db = sqlite3.connect(own_town / ".localrag" / "index.db")
    foreign = {"citation_marks": [], "citations": [], "collections": [], "sentences": [{"a secret passage": 1, "citations": []}]}
    db.execute("INSERT INTO answers (question, mode, answer_json) VALUES ('q', 'local', ?)", [json.dumps(foreign)])
    db.commit()
    db.close()
    done = run_localrag("logs", cwd=own_town)
    told = run_process("logs", cwd=own_town, LOCALRAG_DEBUG="1")

    assert done.returncode == 1
    assert "TypeError in answers.py" in done.stderr
    assert "LOCALRAG_DEBUG=1" in done.stderr
    assert "secret" not in done.stderr
    assert "a secret passage" in told.stderr
    assert "Traceback" in told.stderr


def test_the_end_of_a_thread_tells_nothing_of_the_documents(tmp_path):
    """A thread that dies of an exception is reported by kind and place too."""
    code = (
        "import threading\nimport localrag.cli as cli\n"
        "cli.app = lambda: threading.Thread(target=int, args=('a secret',)).start()\ncli.main()"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=ROOT)

    assert "ValueError in threading.py" in done.stderr
    assert "secret" not in done.stderr


def test_a_failure_of_the_engine_is_kept_without_its_message():
    """What is kept as a failure, and shown by status, names the kind of exception and its place only."""
    try:
        b"a secret \xff".decode()
    except UnicodeDecodeError as error:
        said = error_location(error)

    assert said.startswith("UnicodeDecodeError in test_privacy.py:")
    assert "secret" not in said
