"""Files that appear whole or not at all, and what killed processes leave of them."""

import os
import signal
import subprocess
import sys

import pytest

from localrag.system.files import atomic_file, remove_stale_temp_files, write_atomically

WRITER = """
import sys, time
from pathlib import Path
from localrag.system.files import atomic_file
with atomic_file(Path(sys.argv[1])) as part:
    part.write_text("half")
    print("writing", flush=True)
    time.sleep(60)
"""


def writer(target):
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(target)], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "writing\n"
    return process


def test_what_a_killed_process_left_goes_with_the_next_writing(tmp_path):
    """A half-written file stays while its writer lives, and goes once it was killed, whatever is written to the folder next."""
    process = writer(tmp_path / "model.gguf")
    (part,) = tmp_path.iterdir()

    write_atomically(tmp_path / "other.json", b"{}")
    assert part.exists()
    assert part.stat().st_mode & 0o777 == 0o600

    process.send_signal(signal.SIGKILL)
    process.wait()
    write_atomically(tmp_path / "other.json", b"{}")
    assert [p.name for p in tmp_path.iterdir()] == ["other.json"]


def test_a_writer_whose_number_is_not_known_here_is_left_alone(tmp_path):
    """A process of another container has a number of its own there; the file it holds open stays."""
    process = writer(tmp_path / "model.gguf")
    (part,) = tmp_path.iterdir()
    foreign = part.rename(tmp_path / "model.gguf.localrag-99999999-abcd.part")
    abandoned = tmp_path / "model.gguf.localrag-99999999-ef01.part"
    strange = tmp_path / "film.mkv.part"  # of some other program
    for path in (abandoned, strange):
        path.touch()

    remove_stale_temp_files(tmp_path)
    process.kill()
    process.wait()

    assert (foreign.exists(), abandoned.exists(), strange.exists()) == (True, False, True)


def test_a_writing_that_fails_leaves_the_old_file(tmp_path):
    """The target keeps its content and nothing else is left."""
    target = tmp_path / "a.json"
    target.write_text("old")

    with pytest.raises(RuntimeError), atomic_file(target) as part:
        part.write_text("new")
        raise RuntimeError

    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("a.json", "old")]
    assert os.access(target, os.R_OK)
