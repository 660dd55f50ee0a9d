"""`localrag worker`: a cluster of two shells with a token, what is refused, and that nothing stays where it ran."""

import asyncio
import atexit
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from hashlib import sha256
from pathlib import Path

import pytest

from localrag.errors import UsageError
from localrag.indexing.workers import ray_cluster
from localrag.system.installation import pip_install
from tests.crew_ray import ROOT, write_corpus

pytest.importorskip("ray")
pytestmark = [pytest.mark.ray, pytest.mark.timeout(240)]
RUN = """
import sys
from functools import partial
from pathlib import Path
from localrag.indexing.workers.ray_pool import ray_pool
from tests.crew_ray import indexed, scripted_kit
address, docs, index, *hosts = sys.argv[1:]
said = []
outcome, found, figures = indexed(Path(docs), Path(index), ray_pool(address, every=0.5, pack=scripted_kit), said, hosts)
assert outcome.failures == (), outcome
print(said)
assert sum(row["units"] for row in figures["workers"]) > 5, (figures, said)
"""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def temporary(home):
    """A folder for what is temporary, of this home alone; its path is short, as those of sockets below it must be."""
    folder = Path("/tmp") / f"lr{sha256(str(home).encode()).hexdigest()[:8]}"
    if not folder.exists():
        folder.mkdir(mode=0o700)
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def environment(home, **more):
    kept = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
    return (
        kept
        | {
            "TMPDIR": str(temporary(home)),
            "HOME": str(home),
            "PYTHONPATH": str(ROOT),
            "LOCALRAG_HOME": str(home / "own"),
            "RAY_AUTH_MODE": "token",
        }
        | more
    )


class Shell:
    """A `localrag worker` in a shell of its own."""

    def __init__(self, home, *args, within=(), **env):
        command = [*within, sys.executable, "-u", "-m", "localrag", "worker", *args]
        self.out = home / f"out{secrets.token_hex(3)}"
        with self.out.open("w") as out:
            self.process = subprocess.Popen(command, env=environment(home, **env), stdout=out, stderr=subprocess.STDOUT)

    def said(self, text, seconds=60):
        end = time.monotonic() + seconds
        while text not in self.out.read_text():
            assert self.process.poll() is None, self.out.read_text()
            assert time.monotonic() < end, self.out.read_text()
            time.sleep(0.1)
        return self.out.read_text()

    def interrupt(self):
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(40)


def folders(home):
    """The folders that `localrag worker` with this home has made, and not removed."""
    return set(temporary(home).glob("localrag-*"))


def run(home, address, docs, index, **env):
    return subprocess.run(
        [sys.executable, "-c", RUN, address, docs, index],
        env=environment(home, **env),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.slow
@pytest.mark.parametrize("tls", [False, True], ids=["token", "token and TLS"])
def test_two_shells_make_a_cluster(tmp_path, tls):
    """The first prints the file of its token and the command for the second; both end at Ctrl-C and leave nothing; no token, no entry."""
    env = {}
    if tls:
        trustme = pytest.importorskip("trustme")
        ca = trustme.CA()
        made = ca.issue_cert("127.0.0.1", "localhost", ray_cluster.own_address())
        ca.cert_pem.write_to_path(tmp_path / "ca.pem")
        made.private_key_pem.write_to_path(tmp_path / "key.pem")
        made.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
        files = {"SERVER_CERT": "cert", "SERVER_KEY": "key", "CA_CERT": "ca"}
        env = {"RAY_USE_TLS": "1"} | {f"RAY_TLS_{name}": str(tmp_path / f"{file}.pem") for name, file in files.items()}
    docs = write_corpus(tmp_path / "docs", 6)
    port = free_port()
    head = Shell(tmp_path, "--head", "--ray", f":{port}", **env)
    try:
        shown = head.said("Ctrl-C ends")
        address = shown.split("Head: ")[1].split()[0]
        token = tmp_path / ".ray" / "auth_token"
        assert f"--ray {address}" in shown
        assert str(token) in shown
        assert token.stat().st_mode & 0o777 == 0o600
        assert token.read_text() not in shown
        assert [f.stat().st_mode & 0o777 for f in folders(tmp_path)] == [0o700]
        worker = Shell(tmp_path, "--ray", address, **env)
        try:
            worker.said("Ctrl-C ends")
            done = run(tmp_path, address, docs, tmp_path / "index", **env)
            assert done.returncode == 0, done.stderr
            other = Shell(tmp_path, "--ray", address, **env, RAY_AUTH_TOKEN="a" * 64)
            assert other.process.wait(60) == 2
            assert "refuses this token" in other.out.read_text()
            wrong = run(tmp_path, address, docs, tmp_path / "index", **env, RAY_AUTH_TOKEN="a" * 64)
            assert wrong.returncode != 0
            if tls:
                plain = run(tmp_path, address, docs, tmp_path / "index")
                assert plain.returncode != 0
        finally:
            assert worker.interrupt() == 0
    finally:
        assert head.interrupt() == 0
    assert not folders(tmp_path)


@pytest.mark.slow
def test_a_cluster_that_lets_everybody_in_is_refused(tmp_path, monkeypatch):
    """One that was started without a token is tried without one, and not used."""
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    port, folder = free_port(), Path("/tmp") / f"lr{secrets.token_hex(3)}"
    command = [
        sys.executable,
        "-m",
        "ray.scripts.scripts",
        "start",
        *ray_cluster.ray_start_arguments(folder, f"127.0.0.1:{port}", head=True),
    ]
    head = subprocess.Popen(command, env=environment(tmp_path, RAY_AUTH_MODE="disabled"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        assert any(b"runtime started" in line for line in head.stdout)
        with pytest.raises(UsageError, match="accepts connections without a token"):
            asyncio.run(ray_cluster.check_requires_token(f"127.0.0.1:{port}"))
    finally:
        head.terminate()
        head.communicate()
        subprocess.run(["rm", "-rf", folder], check=True)


def test_without_a_token_ray_is_not_used(tmp_path, monkeypatch):
    """Token mode must be set, and a token be there, before anything is connected to; what to do is said."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UsageError, match="with a token only"):
        ray_cluster.check_token()
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    with pytest.raises(UsageError, match="There is no token"):
        ray_cluster.check_token()
    token = ray_cluster.make_token()
    ray_cluster.check_token()

    assert token.stat().st_mode & 0o777 == 0o600
    assert token == ray_cluster.make_token()
    with pytest.raises(UsageError, match="No Ray cluster answers"):
        asyncio.run(ray_cluster.check_requires_token(f"127.0.0.1:{free_port()}"))


def test_machines_that_were_not_allowed_are_listed(monkeypatch):
    """This machine is allowed by all its addresses, others by name; the error has the options to add."""
    nodes = [{"NodeManagerAddress": a} for a in ("127.0.0.1", ray_cluster.own_address(), "10.9.8.7", "10.9.8.6", "10.9.8.7")]
    ray_cluster.check_allowed_nodes(nodes, ["10.9.8.6", "10.9.8.7"])
    with pytest.raises(UsageError, match=r"10\.9\.8\.7") as refused:
        ray_cluster.check_allowed_nodes(nodes, ["10.9.8.6"])

    assert refused.value.hint.endswith("--allow-host 10.9.8.7")


def test_other_versions_are_named_with_what_mends_them():
    """Those of the cluster and of this machine; where Ray says it otherwise, at least that they differ."""
    said = (
        "Version mismatch: The cluster was started with:\n    Ray: {0}\n    Python: {1}\n"
        "This process on node 1.2.3.4 was started with:\n    Ray: 2.60.0\n    Python: 3.11.2\n"
    )
    python = ray_cluster.version_mismatch_error("a:1", said.format("2.60.0", "3.11.7"))
    ray = ray_cluster.version_mismatch_error("a:1", said.format("2.61.0", "3.11.2"))

    assert "a:1 runs Ray 2.60.0 and Python 3.11.7; this machine has Ray 2.60.0 and Python 3.11.2" in str(python)
    assert "with Python 3.11.7" in python.hint
    assert ray.hint.endswith(pip_install("ray==2.61.0"))
    assert "another Ray or Python" in str(ray_cluster.version_mismatch_error("a:1", "Version mismatch"))


def test_an_address_is_a_host_and_a_port():
    """What else is given is refused before anything is done; brackets of IPv6 are taken off."""
    assert ray_cluster.split_address("[fe80::1]:6379") == ("fe80::1", 6379)
    for wrong in ("auto", "ray://a:1", ":6379", "a:b"):
        with pytest.raises(UsageError, match="not the address of a Ray cluster"):
            ray_cluster.split_address(wrong)
