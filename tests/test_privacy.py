"""Nothing leaves the machine: no connection but loopback, no name look-up, from the first file to the last answer."""

import os
import shutil
import subprocess
import sys

import pytest

from tests.conftest import run_localrag, write_town

WATCH = """
import sys
def watch(event, args):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto", "socket.bind"):
        open({log!r}, "a").write(f"{{event}} {{args[1:] if event == 'socket.connect' else args}}\\n")
sys.addaudithook(watch)
"""


def test_the_watch_sees_connections(tmp_path):
    """The watch used below notices a connection and a look-up when there is one."""
    (tmp_path / "sitecustomize.py").write_text(WATCH.format(log=str(tmp_path / "log")))
    code = "import socket\ntry: socket.create_connection(('192.0.2.1', 9), 0.1)\nexcept OSError: pass"
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ | {"PYTHONPATH": str(tmp_path)})

    assert "socket.connect" in (tmp_path / "log").read_text()


def test_indexing_and_asking_open_no_connection(tmp_path):
    """Index, ask in every mode and status: not one connection, look-up or bound socket."""
    hook = tmp_path / "hook"
    hook.mkdir()
    (hook / "sitecustomize.py").write_text(WATCH.format(log=str(tmp_path / "log")))
    write_town(tmp_path / "docs")
    for args in (["index", "docs"], ["ask", "Who?", "--mode", "global"], ["ask", "Who?"], ["ask", "Who?", "--mode", "basic"], ["status"]):
        done = run_localrag(*args, cwd=tmp_path, PYTHONPATH=str(hook))
        assert done.returncode == 0, done.stderr

    assert not (tmp_path / "log").exists(), (tmp_path / "log").read_text()


@pytest.mark.skipif(
    not shutil.which("unshare") or subprocess.run(["unshare", "-rn", "true"], check=False, capture_output=True).returncode != 0,
    reason="this system lets no test make a network namespace",
)
def test_everything_works_without_any_network(tmp_path):
    """In a namespace without even loopback, indexing and asking work unchanged."""
    write_town(tmp_path / "docs")
    for args in (["index", "docs"], ["ask", "Who is the mate of the Skua?"]):
        command = ["unshare", "-rn", sys.executable, "-m", "localrag", *args]
        done = subprocess.run(command, check=False, cwd=tmp_path, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr

    assert "Lars Holm" in done.stdout
