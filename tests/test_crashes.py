"""Whatever happens to the process or the disk, the same command ends with the same index and repeats nothing it had paid for."""

import random
import re
import shlex
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from localrag.store.check import check_index, problems
from localrag.store.location import DATABASE_FILE
from localrag.store.opening import open_index
from tests import power
from tests.cli.commands.test_index import rows
from tests.conftest import TOWN, run_localrag, run_process, write_town
from tests.serve.server import served
from tests.test_slow import GRAPH, many_documents

KILLS = 50


def run_and_kill(folder, seconds, *args):
    """Run `localrag index`, kill it after so many seconds; whether it was still running."""
    process = subprocess.Popen([sys.executable, "-m", "localrag", "index", "docs", *args], cwd=folder, stderr=subprocess.DEVNULL)
    try:
        process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.wait()
        return True
    return False


def wrong_in(index):
    """What the check of an index finds wrong, beside what the next run does anyway."""
    db = open_index(index)
    try:
        return list(problems(check_index(db, index)))
    finally:
        db.close()


@pytest.mark.slow
def test_fifty_kills_at_random_moments_change_nothing(tmp_path):
    """SIGKILL at seeded random moments of every stage, fifty times: the index that comes of it is the undisturbed one, every committed
    answer is kept and given once, and the check finds nothing wrong after any kill."""
    undisturbed = tmp_path / "undisturbed"
    for folder in (tmp_path / "first", undisturbed):  # the first run of all measures the machine, which takes longer
        many_documents(folder)
        started = time.monotonic()
        assert run_process("index", "docs", cwd=folder).returncode == 0
        whole = time.monotonic() - started
    rng = random.Random(0)
    kills, series = 0, 0
    while kills < KILLS:
        series += 1
        folder = tmp_path / f"killed{series}"
        many_documents(folder)
        committed = []
        while run_and_kill(folder, rng.uniform(0.2, 0.6) * whole, "-q"):
            kills += 1
            if (folder / ".localrag" / "index.db").exists():
                now = rows(folder, "SELECT rowid, key, text FROM llm_calls ORDER BY rowid")
                assert now[: len(committed)] == committed
                committed = now
                assert not wrong_in(folder / ".localrag"), (series, kills)
        for name, sql in GRAPH.items():
            assert rows(folder, sql) == rows(undisturbed, sql), (name, series, kills)


pytestmark = pytest.mark.ci
able = pytest.mark.skipif(
    not shutil.which("unshare")
    or subprocess.run(["unshare", "-rm", "mount", "-t", "tmpfs", "none", "/mnt"], check=False, capture_output=True).returncode != 0,
    reason="this system lets no test mount a file system",
)
LOCALRAG = f"{sys.executable} -m localrag"


@able
def test_a_full_disk_stops_the_run_and_loses_nothing(tmp_path):
    """On a full disk the run ends with a sentence; with room again the same command finishes an index that is whole."""
    write_town(tmp_path / "docs")
    for n in range(30):
        (tmp_path / "docs" / f"n{n}.txt").write_text(TOWN["b.txt"] * 40 + f" Number {n}.")
    script = f"""
        mkdir small; mount -t tmpfs -o size=600k none small
        {LOCALRAG} index docs --index small/idx --extractor phrases -q 2> full.txt && exit 9 || echo "full: $?"
        mount -o remount,size=64m small
        {LOCALRAG} index docs --index small/idx --extractor phrases -q
        {LOCALRAG} check --index small/idx
        """
    command = ["unshare", "-rm", "sh", "-ec", script]
    done = subprocess.run(command, check=False, cwd=tmp_path, capture_output=True, text=True, timeout=600)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "full: 1" in done.stdout
    told = (tmp_path / "full.txt").read_text()
    assert "full" in told
    assert "Traceback" not in told


def stopped_between_locks(writer, index):
    """Stop a process; let it go on, and return False, if nobody can read the index while it stands still."""
    writer.send_signal(signal.SIGSTOP)
    try:
        with closing(sqlite3.connect(index / DATABASE_FILE, timeout=0.1)) as db:
            db.execute("SELECT count(*) FROM sqlite_master")
            return True
    except sqlite3.OperationalError:
        writer.send_signal(signal.SIGCONT)
        return False


@pytest.fixture
def written_to(own_town):
    """A folder whose index another process is writing to: a real run, stopped in the middle; and that process.

    It is not stopped within the moment in which SQLite opens its log and lets nobody else read.
    """
    (own_town / "docs" / "new.txt").write_text("Ada Quill painted the Skua green.")
    writer = subprocess.Popen([sys.executable, "-m", "localrag", "index", "docs", "-q"], cwd=own_town)
    lock = own_town / ".localrag" / "writer.lock"
    while lock.read_text() != str(writer.pid) or not stopped_between_locks(writer, own_town / ".localrag"):
        assert writer.poll() is None
        time.sleep(0.002)
    yield own_town, writer
    writer.send_signal(signal.SIGCONT)
    assert writer.wait(120) == 0


WRITERS = (
    "index docs", "rm docs/a.md", "rm --all --yes", "reembed", "gc", "check --repair", 'merges add Skua "Lars Holm"',
    "collections rename a b", "collections rm a", "sessions rm --all --yes",
)  # fmt: skip


def test_a_second_writer_is_refused(written_to):
    """While one process writes to an index, every other command that would ends with the first one's number and what to do; nothing that
    was there is changed, and questions are answered."""
    folder, writer = written_to
    for command in WRITERS:
        refused = run_localrag(*shlex.split(command), cwd=folder)
        assert refused.returncode == 1, (command, refused.stderr)
        assert f"process {writer.pid}) is writing to" in refused.stderr, command
        assert "Wait for it" in refused.stderr, command
    asked = run_localrag("ask", "Who is the mate of the Skua?", "--mode", "basic", cwd=folder)
    assert "Lars Holm" in asked.stdout


def test_what_a_page_or_a_pack_would_write_waits_for_the_writer(written_to, tmp_path):
    """A run that a served page starts is refused with the same sentence, and its questions are answered; a pack is not unpacked over an
    index, written to or not, and is made of one."""
    folder, writer = written_to
    with served(folder) as running, running.client() as client:
        assert client.post("/api/index", json={}).status_code == 202
        while (run := client.get("/api/status").json()["run"])["ours"]:
            time.sleep(0.1)
        asked = client.post("/v1/chat/completions", json={"messages": [{"role": "user", "content": "Who is the mate of the Skua?"}]})
    packed = run_localrag("pack", str(tmp_path / "town.zip"), cwd=folder)
    refused = run_localrag("unpack", str(tmp_path / "town.zip"), ".", cwd=folder)

    assert f"process {writer.pid}) is writing to" in str(run)
    assert "Lars Holm" in asked.text
    assert packed.returncode == 0, packed.stderr
    assert (refused.returncode, "There is an index in" in refused.stderr) == (2, True)


EDITS = """
import asyncio, sys
from pathlib import Path
from localrag.indexing.pipeline import build_index
from localrag.project import open_for_writing
from localrag.store import vectors

vectors.INDEX_FROM_VECTORS = 3  # the files beside the database are made for few chunks too
folder = Path(sys.argv[1])
for day in range(2, 5):
    for file in (folder / "docs").iterdir():
        lines = file.read_text().splitlines()
        file.write_text("\\n".join(line.rpartition(" day ")[0] + f" day {day}." for line in lines))
    with open_for_writing(folder / ".localrag", extractor="phrases") as project:
        asyncio.run(build_index([folder / "docs"], project, lambda _: None))
    (folder / ".localrag" / f"published {day}").touch()  # which the log of file calls has too
"""


def write_days(docs, day):
    """Documents whose every sentence says which day it is."""
    people = ["Lars Holm", "Ingrid Holm", "Ruth Sand", "Walter Muir", "Agnes Thorburn", "Ada Quist"]
    docs.mkdir(parents=True)
    for n in range(8):
        pairs = [(people[(n + k) % 6], people[(n + 2 * k + 1) % 6]) for k in range(8)]
        (docs / f"{n}.txt").write_text("\n".join(f"{a} wrote to {b} about the ferry Skua in letter {n} on day {day}." for a, b in pairs))


def days_in(index):
    """The days that the documents of an index, what is found of them and its graph speak of."""
    with closing(open_index(index)) as db:
        texts = " ".join(text for (text,) in db.execute("SELECT text FROM documents UNION ALL SELECT text FROM chunks"))
    return {int(day) for day in re.findall(r" day (\d+)", texts)}


@pytest.mark.skipif(not shutil.which("gcc") or sys.platform != "linux", reason="needs gcc and Linux to log the file calls of a process")
def test_after_a_power_cut_the_last_published_state_is_there(tmp_path):
    """Of three updates, cut whenever something was synced and at other moments, what is on the disk is an index in which nothing is wrong,
    with the documents of the newest update that had ended, or of the next one; of writes that were not synced any part may be lost."""
    folder, log, rng = tmp_path / "town", tmp_path / "calls.log", random.Random(0)
    write_days(folder / "docs", 1)
    assert run_process("index", "docs", "--extractor", "phrases", "-q", cwd=folder).returncode == 0
    disk, published, told = power.Disk(), 1, []
    disk.start(folder / ".localrag")
    power.logged(EDITS, folder / ".localrag", log, folder)
    ops = power.ops_in(log)
    syncs = [n for n, op in enumerate(ops) if op.kind == "s"]
    cuts = {*syncs, *(n + 1 for n in syncs), *rng.sample(range(len(ops)), 60), len(ops) - 1}
    assert len(syncs) > 10
    for n, op in enumerate(ops):
        disk.do(op)
        if op.kind == "c" and "published" in op.path:
            published = int(op.path[-1])
        if n in cuts:
            left = tmp_path / "left"
            power.put(disk.cut(rng), folder / ".localrag", left)
            days = days_in(left)
            if wrong := [w.text for w in wrong_in(left)]:
                told.append((n, op.kind, Path(op.path).name, wrong))
            if days not in ({published}, {published + 1}):
                told.append((n, op.kind, Path(op.path).name, f"{days} where {published} was published"))

    assert not told, (len(told), len(cuts), told[:5])
