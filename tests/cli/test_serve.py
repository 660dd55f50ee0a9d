"""The key of `localrag serve`: made on this machine, or given by the user, and nobody else's."""

import os
import subprocess
import sys

import pytest

from localrag.cli.commands.serve import read_key
from localrag.errors import UsageError

KNOWN = "a-key-that-whoever-made-the-index-knows"


def test_a_key_is_made_once(tmp_path):
    """It stays from one start to the next, for programs that have it; so does a copy of it elsewhere on this machine."""
    key = read_key(tmp_path / "serve.key", make=True)
    (tmp_path / "moved.key").write_text(f"{key}\n")
    (tmp_path / "moved.key").chmod(0o600)

    assert len(key) > 40
    assert read_key(tmp_path / "serve.key", make=True) == key
    assert read_key(tmp_path / "moved.key", make=True) == key


@pytest.mark.parametrize("how", ["file", "link", "pipe"])
def test_a_key_that_came_with_the_index_is_replaced(tmp_path, how):
    """Whoever made the index knows it. A link is replaced and not followed, and what is no file is not waited for."""
    theirs, file = tmp_path / "theirs", tmp_path / "serve.key"
    theirs.write_text(KNOWN)
    theirs.chmod(0o600)
    if how == "pipe":
        os.mkfifo(file)
    elif how == "link":
        file.symlink_to(theirs)
    else:
        theirs.rename(file)
    code = f"from pathlib import Path; from localrag.cli.commands.serve import read_key; print(read_key(Path({str(file)!r}), make=True))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    key = done.stdout.strip()

    assert done.returncode == 0, done.stderr
    assert key != KNOWN and len(key) > 40
    assert not file.is_symlink() and file.stat().st_mode & 0o777 == 0o600
    assert how == "file" or theirs.read_text() == KNOWN
    assert "not made on this machine" in done.stderr


def test_a_key_that_the_user_gave_is_used_as_it_is(tmp_path):
    """--api-key-file names it; one that others may read is refused, with the way to mend that."""
    (tmp_path / "own").write_text(KNOWN)
    (tmp_path / "own").chmod(0o600)
    key = read_key(tmp_path / "own", make=False)
    (tmp_path / "own").chmod(0o644)

    assert key == KNOWN
    with pytest.raises(UsageError) as refused:
        read_key(tmp_path / "own", make=False)
    assert "chmod 600" in refused.value.hint
