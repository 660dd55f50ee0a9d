"""How commands end that are not left to end by themselves: by signals, without the streams they write to, without memory or a home."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

import psutil
import pytest

from tests.conftest import ROOT, until
from tests.forked import Forked, run_forked
from tests.serve.server import served_by

pytestmark = pytest.mark.ci
TEXT = "Ada Quist met Number{n} Berg in Port{n}. "
SURPRISES = re.compile("unexpected error|Traceback|Exception ignored|Aborted")


@pytest.fixture
def place(plain_town, tmp_path):
    """A folder with an index, which has some seconds of documents to read."""
    shutil.copytree(plain_town, tmp_path, dirs_exist_ok=True)
    for n in range(60):
        (tmp_path / "docs" / f"letter{n}.txt").write_text(TEXT.format(n=n) * 60, encoding="utf-8")
    return tmp_path


def gone(processes):
    """Whether these processes end by themselves."""
    return not psutil.wait_procs(processes, timeout=30)[1]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_server_that_is_ended_while_it_indexes_ends_the_run_too(place, number):
    """What a service manager, a closed terminal and Ctrl-C send. Nothing is left: no process, and no note that it serves."""
    with served_by(Forked("serve", "--port", "0", "--no-open", cwd=place, stderr=subprocess.PIPE)) as site, site.client() as client:
        client.post("/api/index", json={})
        until(lambda: client.get("/api/status").json()["run"]["state"] == "running")
        started = psutil.Process(site.process.pid).children(recursive=True)
        assert any(".localrag" in " ".join(p.cmdline()) for p in started)
        assert (place / ".localrag" / "serve.lock").exists()
        site.process.send_signal(number)
        assert site.process.wait(60) == (130 if number == signal.SIGINT else -signal.SIGTERM)

    assert gone(started)
    assert not (place / ".localrag" / "serve.lock").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize(
    "command", ["index docs --extractor phrases", "index docs --extractor phrases --watch", "chat", "mcp", "serve --no-open --port 0"]
)
def test_a_command_that_is_ended_leaves_no_process(place, command, number):
    """Whatever it is at; it says nothing of an error."""
    process = Forked(*command.split(), cwd=place, stdin=subprocess.PIPE, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
    time.sleep(3)
    assert process.poll() is None
    started = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(number)
    _, told = process.communicate(timeout=60)

    assert process.wait() in (-number, -signal.SIGTERM, 130)
    assert not SURPRISES.search(told), told
    assert gone(started)


def test_a_signal_that_is_ignored_stays_ignored(place):
    """As `nohup` has it for the end of a terminal."""
    command = ["nohup", sys.executable, "-m", "localrag", "mcp"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=place, env=path(), stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL) as process:
        call = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},'
        process.stdin.write(call + b'"clientInfo":{"name":"x","version":"1"}}}\n')
        process.stdin.flush()
        assert b"serverInfo" in process.stdout.readline()
        process.send_signal(signal.SIGHUP)
        time.sleep(0.5)
        assert process.poll() is None
        process.stdin.close()
        assert process.wait(60) == 0


def path():
    return os.environ | {"PYTHONPATH": str(ROOT)}


def localrag(*args, cwd, shell="", before=(), **env):
    """Run a new process of the command line as a shell does with these words around it: a limit before, closed streams after."""
    limit, _, streams = shell.partition(";")
    command = [*before, "sh", "-c", f'{limit or ":"}; exec "$@" {streams}', "sh", sys.executable, "-m", "localrag", *args]
    stdin = subprocess.DEVNULL
    return subprocess.run(command, cwd=cwd, env=path() | env, stdin=stdin, capture_output=True, text=True, check=False, timeout=300)


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize(
    ("command", "code"), [("--help", 0), ("nonsense", 2), ("files", 0), ("search Skua", 0), ("files --index /missing", 3), ("mcp", 0)]
)
def test_a_stream_that_is_closed_is_like_one_that_nobody_reads(plain_town, command, code, closed):
    """`localrag files >&-` does as `> /dev/null`, whichever command and stream; no file of the index gets the number of a closed one."""
    done = localrag(*command.split(), cwd=plain_town, shell=f";{closed}")
    assert not SURPRISES.search(done.stdout + done.stderr), done
    assert done.returncode == code


@pytest.mark.parametrize("options", [(), ("--progress", "json")])
def test_indexing_and_asking_need_no_stream(tmp_path, options):
    """Not even the processes that they start."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.txt").write_text("Ingrid Holm bought the ferry Skua in Vardby.")
    assert localrag("index", "docs", "--extractor", "phrases", *options, cwd=tmp_path, shell=";<&- >&- 2>&-").returncode == 0
    assert localrag("ask", "Who bought the Skua?", cwd=tmp_path, shell=";<&- 2>&-").stdout


@pytest.mark.parametrize("kib", [400_000, 700_000, 1_200_000, 2_000_000])
def test_an_error_for_want_of_memory_names_memory(plain_town, tmp_path, kib):
    """In Python, wherever it runs out: while libraries or models are loaded, or later. Native libraries may end it themselves."""
    shutil.copytree(plain_town, tmp_path, dirs_exist_ok=True)
    done = localrag("ask", "Who bought the Skua?", cwd=tmp_path, shell=f"ulimit -v {kib};")
    assert done.returncode == 0 or re.search("(?i)memory|libgomp|GGML_ASSERT", done.stderr), done
    assert not SURPRISES.search(done.stderr), done


def test_a_port_that_is_taken_is_said_with_what_has_it(plain_town, tmp_path):
    """By this index's own server, or by another program; and what to give instead."""
    shutil.copytree(plain_town, tmp_path, dirs_exist_ok=True)
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        done = run_forked("serve", "--no-open", "--port", port, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.splitlines()[0] == f"localrag: Another program listens on port {port} of 127.0.0.1."
        assert "--port N" in done.stderr
    with served_by(Forked("serve", "--port", "0", "--no-open", cwd=tmp_path, stderr=subprocess.PIPE)) as site:
        port = site.address.rpartition(":")[2]
        done = run_forked("serve", "--no-open", "--port", port, cwd=tmp_path)
        assert done.returncode == 1
        assert "localrag serves this index there already." in done.stderr
        assert f"Open http://127.0.0.1:{port} with the key in " in done.stderr


@pytest.mark.parametrize("host", ["192.0.2.7", "no-host.invalid", "a..b"])
def test_an_address_that_this_machine_has_not_is_a_wrong_option(plain_town, tmp_path, host):
    """It is said in a sentence."""
    key = tmp_path / "key"
    key.write_text("x" * 32)
    key.chmod(0o600)
    done = run_forked("serve", "--no-open", "--host", host, "--api-key-file", str(key), cwd=plain_town)
    assert done.returncode == 2
    assert f"Nothing can listen on {host}" in done.stderr


# Another user, who is no more than a number; he may read everything, for Python may be where only its owner can read.
# It has a shell above it that completion is known for, and that stays while the command runs.
READS_ALL = "+dac_read_search"
STRANGER = [
    *("bash", "-c", '"$@"; exit $?', "bash", "setpriv", "--reuid", "1234", "--regid", "1234", "--clear-groups"),
    *("--inh-caps", READS_ALL, "--ambient-caps", READS_ALL),
]
WRITES = ("config set language en --user", "--install-completion")
NO_PERMISSION = r"localrag: (/\S+ cannot be used: Permission denied|This user has no home folder)\.\n  → .*HOME=FOLDER"
READS = ("files", "search Skua", "models list", "ask Skua?")


@pytest.mark.skipif(not shutil.which("setpriv") or os.geteuid() != 0, reason="becomes another user")
@pytest.mark.parametrize("owner", ["nobody", "another user"])
def test_a_home_is_needed_only_to_write_there(plain_town, tmp_path, monkeypatch, owner):
    """As in a container that is given a user by number: what reads works; what writes says where it could not, and the remedy."""
    shutil.copytree(plain_town, tmp_path / "work")
    for one in (tmp_path, *tmp_path.rglob("*")):
        os.chown(one, 1234, 1234)
    monkeypatch.delenv("LOCALRAG_HOME")
    monkeypatch.delenv("HOME", raising=False)
    env = {} if owner == "nobody" else {"HOME": str(ROOT / "tests")}
    for command in READS + WRITES:
        done = localrag(*command.split(), cwd=tmp_path / "work", before=STRANGER, **env)
        assert not SURPRISES.search(done.stderr), done
        assert done.returncode == int(command in WRITES), done
        assert command in READS or re.match(NO_PERMISSION, done.stderr), done
