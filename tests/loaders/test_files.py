"""Ignore files from a stranger: they leave out what git leaves out, in bounded time and memory."""

import os
import random
import shutil
import subprocess
import sys

import pytest

from localrag.loaders.discover import MAX_IGNORE_FILE_BYTES, find_files

NAMES = ["a", "b", "ab", "ba", "a.txt", "b.md", "aab", "a b", "c"]
PIECES = ["a", "b", "*", "?", "**", "/", "[ab]", "[!a]", ".txt", "*.md", "c", "\\a", " "]


def found(folder):
    sources = find_files([folder])
    return sorted(p.relative_to(folder.resolve()).as_posix() for p in sources.files), {
        p.name: reason for p, reason in sources.left_out.items()
    }


def found_in_time(folder):
    """What `find_files` prints in another process, with a time limit."""
    code = "import sys; from pathlib import Path; from localrag.loaders.discover import find_files"
    code += (
        "; s = find_files([Path(sys.argv[1])]); print(sorted(p.name for p in s.files), dict((p.name, w) for p, w in s.left_out.items()))"
    )
    limited = "import resource; resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30)); " if sys.platform == "linux" else ""
    return subprocess.run([sys.executable, "-c", limited + code, folder], check=True, capture_output=True, text=True, timeout=60).stdout


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_ignore_files_leave_out_what_git_leaves_out(tmp_path):
    """Patterns drawn at random, three levels of folders: the same files are left as by `git ls-files`."""
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    for draw in (random.Random(seed) for seed in range(60)):
        folder = tmp_path / "docs"
        shutil.rmtree(folder, ignore_errors=True)
        for _ in range(12):
            file = folder.joinpath(*draw.choices(NAMES, k=draw.randint(1, 3)))
            if not any(p.is_file() for p in (file, *file.parents)) and not file.exists():
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text("text", encoding="utf-8")
        lines = ["".join(draw.choices(["", "!"], [3, 1]) + draw.choices(PIECES, k=draw.randint(1, 4))) for _ in range(4)]
        lines = [line for line in lines if "***" not in line and not line.isspace()]  # whose meaning git does not document
        (folder / ".gitignore").write_text("\n".join(lines), encoding="utf-8")
        listed = ["git", "-C", folder, "-c", "core.quotePath=false", "ls-files", "-z", "--others", "--exclude-standard"]
        by_git = subprocess.run(listed, check=True, capture_output=True).stdout.decode().split("\0")

        assert set(found(folder)[0]) ^ set(by_git) <= {"", ".gitignore"}, lines


@pytest.mark.parametrize(
    "pattern", ["*a" * 60 + "b", "**/*a" * 60 + "b", "[a-c]*" * 60 + "/", "?*" * 100 + "b\n!" + "*?" * 100 + "c", "*" * 5000 + "b"]
)
def test_a_pattern_of_many_wild_cards_is_matched_in_the_time_of_a_short_one(tmp_path, pattern):
    """Nested stars cause no backtracking."""
    (tmp_path / ("a" * 200)).write_text("text")
    (tmp_path / ".gitignore").write_text(pattern)

    assert "a" * 200 in found_in_time(tmp_path)


@pytest.mark.skipif(sys.platform == "win32", reason="there are no FIFOs")
def test_an_ignore_file_that_is_a_pipe_is_not_waited_for(tmp_path):
    """It is listed as left out, and the folder is read."""
    (tmp_path / "a.txt").write_text("text")
    os.mkfifo(tmp_path / ".gitignore")

    assert found_in_time(tmp_path) == "['a.txt'] {'.gitignore': 'an ignore file that is not a regular file: not read'}\n"


@pytest.mark.skipif(sys.platform == "win32", reason="a folder cannot be opened there")
def test_an_ignore_file_that_is_a_folder_is_not_read(tmp_path):
    """It is listed as left out, and the run goes on."""
    (tmp_path / "a.txt").write_text("text")
    (tmp_path / ".gitignore").mkdir()

    assert found(tmp_path) == (["a.txt"], {".gitignore": "an ignore file that is not a regular file: not read"})


@pytest.mark.skipif(sys.platform == "win32", reason="there is no /dev/zero")
@pytest.mark.parametrize("target", ["/dev/zero", "rules"])
def test_an_ignore_file_that_is_a_link_is_not_followed(tmp_path, target):
    """Neither to a device that never ends nor to another file, as with git."""
    (tmp_path / "rules").write_text("*\n")
    (tmp_path / ".localragignore").symlink_to(target)

    assert found_in_time(tmp_path) == "['rules'] {'.localragignore': 'an ignore file that is a link: not read'}\n"


def test_an_ignore_file_of_more_than_a_megabyte_is_listed_and_not_read(tmp_path):
    """One of exactly a megabyte is read."""
    (tmp_path / "a.txt").write_text("text")
    (tmp_path / ".gitignore").write_bytes(b"a.txt\n".ljust(MAX_IGNORE_FILE_BYTES + 1, b"#"))
    assert found(tmp_path) == (["a.txt"], {".gitignore": "an ignore file of more than 1 MB: not read"})

    (tmp_path / ".gitignore").write_bytes(b"a.txt\n".ljust(MAX_IGNORE_FILE_BYTES, b"#"))
    assert found(tmp_path) == ([], {})


def test_an_ignore_file_that_is_not_text_is_read_as_far_as_possible(tmp_path):
    """Bytes that are not UTF-8 spoil only their own line."""
    (tmp_path / "a.txt").write_text("text")
    (tmp_path / "b.txt").write_text("text")
    (tmp_path / ".gitignore").write_bytes(b"\xff\xfe\x00\na.txt\n\xe9\n")

    assert found(tmp_path) == (["b.txt"], {})


def test_a_pattern_that_cannot_be_read_is_listed_and_the_others_hold(tmp_path):
    """One line of a stranger's ignore file does not stop the run."""
    (tmp_path / "a.txt").write_text("text")
    (tmp_path / "b.txt").write_text("text")
    (tmp_path / ".gitignore").write_text("!  \na.txt\n")

    assert found(tmp_path) == (["b.txt"], {".gitignore": "a pattern of an ignore file that cannot be read: '!  '"})


@pytest.mark.skipif(sys.platform != "linux", reason="names are text elsewhere")
def test_a_name_that_is_no_text_is_matched(tmp_path):
    """Its invalid bytes match a wildcard."""
    with open(os.path.join(os.fsencode(tmp_path), b"a\xff.log"), "w") as file:  # noqa: PTH118, PTH123
        file.write("text")
    (tmp_path / ".gitignore").write_text("a?.log")

    assert found(tmp_path) == ([], {})
