"""Whatever happens to the process or the disk, the same command ends with the same index and repeats nothing it had paid for."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time

import pytest

from localrag.store.check import check_index, wrongs
from localrag.store.schema import open_index, writer_lock
from tests.cli.test_index import rows
from tests.conftest import TOWN, run_process, write_town
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
        return list(wrongs(check_index(db, index)))
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


def in_a_small_world(script, tmp_path):
    """Run a shell script with a tmpfs of its own at `small` in a mount namespace."""
    return subprocess.run(
        ["unshare", "-rm", "sh", "-ec", script], check=False, cwd=tmp_path, capture_output=True, text=True, timeout=600, env=os.environ
    )


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
    done = in_a_small_world(
        f"""
        mkdir small; mount -t tmpfs -o size=600k none small
        {LOCALRAG} index docs --index small/idx --extractor phrases -q 2> full.txt && exit 9 || echo "full: $?"
        mount -o remount,size=64m small
        {LOCALRAG} index docs --index small/idx --extractor phrases -q
        {LOCALRAG} check --index small/idx
        """,
        tmp_path,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "full: 1" in done.stdout
    told = (tmp_path / "full.txt").read_text()
    assert "full" in told
    assert "Traceback" not in told


@able
def test_a_disk_that_is_read_only_for_a_moment(tmp_path):
    """A read-only index still answers and says that the answer is not kept; writing is refused in a sentence, and goes on later."""
    write_town(tmp_path / "docs")
    done = in_a_small_world(
        f"""
        mkdir small; mount -t tmpfs -o size=64m none small
        {LOCALRAG} index docs --index small/idx --extractor phrases -q
        mount -o remount,ro small
        {LOCALRAG} ask "Who is the mate of the Skua?" --mode basic --index small/idx
        echo "More of Ruth Sand." > docs/new.txt
        {LOCALRAG} index docs --index small/idx -q 2> refused.txt && exit 9 || echo "refused: $?"
        mount -o remount,rw small
        {LOCALRAG} index docs --index small/idx -q
        {LOCALRAG} files --index small/idx
        """,
        tmp_path,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "Lars Holm" in done.stdout
    assert "refused: 1" in done.stdout
    assert "docs/new.txt" in done.stdout
    assert "Traceback" not in (tmp_path / "refused.txt").read_text() + done.stderr


def test_many_read_while_one_writes(tmp_path):
    """Questions asked while an index is rebuilt are answered whole, each from one state of it."""
    write_town(tmp_path / "docs")
    assert run_process("index", "docs", "--extractor", "phrases", cwd=tmp_path).returncode == 0
    for n in range(40):
        (tmp_path / "docs" / f"n{n}.txt").write_text(TOWN["b.txt"] * 20 + f" Number {n} met Ruth Sand.")
    writer = subprocess.Popen([sys.executable, "-m", "localrag", "index", "docs", "-q"], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    answered = []
    while writer.poll() is None:
        answered.append(run_process("ask", "Who is the mate of the Skua?", cwd=tmp_path))
    assert writer.returncode == 0, writer.stderr.read()

    assert answered
    assert all(a.returncode == 0 and "Lars Holm" in a.stdout for a in answered), [a.stderr for a in answered]


def test_a_second_writer_is_refused(tmp_path):
    """While one process writes to an index, another ends with the first one's number and what to do."""
    write_town(tmp_path / "docs")
    with writer_lock(tmp_path / ".localrag"):
        refused = run_process("index", "docs", "--extractor", "phrases", cwd=tmp_path)

    assert refused.returncode == 1
    assert f"process {os.getpid()}) is writing to" in refused.stderr
    assert "Wait for it" in refused.stderr
