"""What a folder from somebody else has in place of the files that localrag reads in it: nothing is waited for, or read without end."""

import json
import os
import signal
import sqlite3
import sys
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from localrag.cli.commands.analysis import _read_lines
from localrag.cli.commands.serve import read_key
from localrag.cli.settings import read_settings_file, set_value
from localrag.errors import LocalragError
from localrag.exchange.wiki import read_wiki
from localrag.indexing.graph.entity_resolution import add_alias, read_aliases
from localrag.llm.prompts import load_overrides, read_domain, trust_prompt, untrusted_prompts, update_domain_files
from localrag.loaders.discover import find_files
from localrag.serve.auth import find_running_server
from localrag.store.database import active_writer, snapshot
from localrag.store.opening import open_index, writer_lock
from localrag.system.files import atomic_file, read_regular_file, remove_stale_temp_files, write_atomically

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no FIFOs")
PROMPT = "prompts/abstractive/answer.md"


def enter(context):
    with context:
        pass


READERS = {
    "localrag.toml": [
        lambda f: read_settings_file(f / "localrag.toml", "project"),
        lambda f: set_value(f / "localrag.toml", "mode", "auto"),
    ],
    PROMPT: [lambda f: load_overrides([f / "prompts"]), lambda f: untrusted_prompts([f / "prompts"]), lambda f: trust_prompt(f / PROMPT)],
    "domain.toml": [read_domain, lambda f: update_domain_files(f, lambda domain: domain)],
    "domain.toml.before": [lambda f: update_domain_files(f, lambda domain: domain)],
    "aliases.txt": [read_aliases, lambda f: add_alias(f, "A = B")],
    "writer.lock": [lambda f: enter(writer_lock(f)), active_writer],
    "index.db": [open_index, lambda f: open_index(f, create=True), lambda f: enter(snapshot(f))],
    "index.db-wal": [open_index, lambda f: open_index(f, create=True)],
    "serve.lock": [find_running_server],
    "serve.key": [lambda f: read_key(f / "serve.key", make=False), lambda f: read_key(f / "serve.key", make=True)],
    "questions.txt": [lambda f: _read_lines(f / "questions.txt")],
    ".gitignore": [lambda f: find_files([f])],
    "notes/note.md": [read_wiki],
    "a.localrag-99999999-abcd.part": [remove_stale_temp_files, lambda f: write_atomically(f / "a", b"")],
}
STRANGE = {
    "pipe": os.mkfifo,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "terminal": lambda path: path.symlink_to("/dev/tty"),
    "loop": lambda path: path.symlink_to(path),
    "folder": Path.mkdir,
    "huge": lambda path: (path.touch(), os.truncate(path, 1 << 36)),
    "deep": lambda path: path.write_text("[" * 100_000),
}


@contextmanager
def within(seconds):
    """What hangs ends as an error."""

    def late(*_):
        raise AssertionError(f"it did not end within {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("kind", STRANGE)
@pytest.mark.parametrize("name", READERS)
def test_a_strange_file_is_refused_in_words_or_passed_over(name, kind, tmp_path):
    """Whatever stands in its place, a command goes on or ends with an error that names what is wrong."""
    for n, read in enumerate(READERS[name]):
        folder = tmp_path / str(n)
        if name.startswith("index.db-"):
            open_index(folder, create=True).close()
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).unlink(missing_ok=True)
        STRANGE[kind](folder / name)
        with within(15), suppress(LocalragError, sqlite3.DatabaseError):
            read(folder)


@pytest.mark.parametrize("kind", [kind for kind in STRANGE if kind != "deep"])
def test_only_a_regular_file_within_the_limit_is_read(kind, tmp_path):
    """Any other raises an OSError with the reason."""
    STRANGE[kind](tmp_path / "file")
    with within(15), pytest.raises(OSError, match=r"a link|not a regular file|larger than 1 MB"):
        read_regular_file(tmp_path / "file", 1_000_000)


def test_a_file_of_just_the_limit_is_read(tmp_path):
    """One byte more is too much; a link is not followed, unless its target is named."""
    (tmp_path / "file").write_bytes(b"12345")
    (tmp_path / "link").symlink_to("file")
    assert read_regular_file(tmp_path / "file", 5) == b"12345"
    assert read_regular_file((tmp_path / "link").resolve(), 5) == b"12345"
    for name, limit in (("file", 4), ("link", 5)):
        with pytest.raises(OSError, match=r"larger|a link"):
            read_regular_file(tmp_path / name, limit)


def test_a_long_name_has_room_for_its_part(tmp_path):
    """A file whose name is as long as names may be is written in one step, too."""
    for name in ("x" * 255, "é" * 127, "名" * 85):
        with atomic_file(tmp_path / name) as part:
            part.write_text(json.dumps(name))
        assert json.loads((tmp_path / name).read_text()) == name
