"""Ignore files from a stranger: they leave out what git leaves out, in bounded time and memory."""

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from localrag.loaders.discover import MAX_IGNORE_FILE_BYTES, find_files

NAMES = ["a", "b", "ab", "ba", "a.txt", "b.md", "aab", "a b", "c"]
PIECES = ["a", "b", "*", "?", "**", "/", "[ab]", "[!a]", ".txt", "*.md", "c", "\\a", " "]


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

        assert sorted(names(folder)) == names_by_git(folder), lines


def tree(folder, *names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x")


def names(folder, *paths):
    """What is found at these paths below a folder, or in it."""
    return [f.relative_to(folder.resolve()).as_posix() for f in find_files([folder / p for p in paths] or [folder]).files]


def names_by_git(folder):
    """What git would not ignore, without hidden files."""
    listed = ["git", "-c", "core.quotePath=false", "ls-files", "-z", "--others", "--exclude-standard"]
    found = subprocess.run(listed, cwd=folder, check=True, capture_output=True).stdout.decode().split("\0")
    return sorted(name for name in found if name and not name.rpartition("/")[2].startswith("."))


def test_ignore_files_are_honoured_as_git_does(tmp_path):
    """Patterns of every level, the nearest first, exceptions, folders, and rules from above up to the repository's top."""
    tree(
        tmp_path, ".git/x", "a.log", "keep.log", "docs/a.txt", "docs/b.txt", "docs/deep/c.log", "docs/deep/d.txt", "out/e.txt", "docs/f.tmp"
    )
    (tmp_path / ".gitignore").write_text("*.log\n!keep.log\n/out/\n")
    (tmp_path / "docs" / ".gitignore").write_text("b.txt\n*.tmp\n")
    (tmp_path / "docs" / ".localragignore").write_text("!f.tmp\n")
    (tmp_path / "docs" / "deep" / ".gitignore").write_text("!c.log\n")

    assert names(tmp_path) == ["docs/a.txt", "docs/deep/c.log", "docs/deep/d.txt", "docs/f.tmp", "keep.log"]
    assert names(tmp_path, "docs") == ["docs/a.txt", "docs/deep/c.log", "docs/deep/d.txt", "docs/f.tmp"]
    assert names(tmp_path, "out", "a.log") == ["a.log", "out/e.txt"]  # given by name, they are read


def test_links_lead_nowhere_twice(tmp_path):
    """A link and its target are one file; links to folders, loops among them, are not followed; hidden files are left out."""
    tree(tmp_path, "docs/a.txt", "elsewhere/b.txt", ".hidden/c.txt", "docs/.d.txt", "docs/sub/e.txt")
    (tmp_path / "docs" / "again.txt").symlink_to(tmp_path / "docs" / "a.txt")
    (tmp_path / "docs" / "sub" / "loop").symlink_to(tmp_path / "docs")
    (tmp_path / "docs" / "out").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "docs" / "dangling").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "docs" / "pipe")

    assert names(tmp_path, "docs", "docs/sub", "docs/again.txt") == ["docs/a.txt", "docs/sub/e.txt"]
    assert names(tmp_path, "docs/.d.txt") == ["docs/.d.txt"]


def test_a_folder_that_is_an_index_is_left_out(tmp_path):
    """An index kept among the documents is not read into itself."""
    tree(tmp_path, "a.txt", "kept/index.db", "kept/writer.lock", "kept/aliases.txt", ".localrag/aliases.txt")

    assert names(tmp_path) == ["a.txt"]


@pytest.mark.parametrize(
    "pattern", ["*a" * 60 + "b", "**/*a" * 60 + "b", "[a-c]*" * 60 + "/", "?*" * 100 + "b\n!" + "*?" * 100 + "c", "*" * 5000 + "b"]
)
def test_a_pattern_of_many_wild_cards_is_matched_in_the_time_of_a_short_one(tmp_path, pattern):
    """Nested stars cause no backtracking."""
    (tmp_path / ("a" * 200)).write_text("text")
    (tmp_path / ".gitignore").write_text(pattern)

    assert "a" * 200 in found_in_time(tmp_path)


IRREGULAR = "an ignore file that is not a regular file: not read"
LINK = "an ignore file that is a link: not read"
BOTH = ["a.txt", "b.txt"]
UNREAD = {
    # A pipe is not waited for, nor is a device that never ends; another file is not read by a link either, as with git.
    "pipe": (os.mkfifo, BOTH, {".gitignore": IRREGULAR}),
    "folder": (Path.mkdir, BOTH, {".gitignore": IRREGULAR}),
    "link to a device": (lambda file: file.with_name(".localragignore").symlink_to("/dev/zero"), BOTH, {".localragignore": LINK}),
    "link to a file": (lambda file: file.symlink_to("a.txt"), BOTH, {".gitignore": LINK}),
    "too long": (
        lambda file: file.write_bytes(b"a.txt\n".ljust(MAX_IGNORE_FILE_BYTES + 1, b"#")), BOTH,
        {".gitignore": "an ignore file of more than 1 MB: not read"}),
    "just a megabyte": (lambda file: file.write_bytes(b"a.txt\n".ljust(MAX_IGNORE_FILE_BYTES, b"#")), ["b.txt"], {}),
    # Bytes that are not UTF-8 spoil only their own line, and so does a pattern that cannot be read.
    "not text": (lambda file: file.write_bytes(b"\xff\xfe\x00\na.txt\n\xe9\n"), ["b.txt"], {}),
    "no pattern": (
        lambda file: file.write_text("!  \na.txt\n"), ["b.txt"],
        {".gitignore": "a pattern of an ignore file that cannot be read: '!  '"}),
}  # fmt: skip


@pytest.mark.skipif(sys.platform == "win32", reason="there are no FIFOs and no /dev/zero")
@pytest.mark.parametrize(("make", "files", "left_out"), UNREAD.values(), ids=UNREAD)
def test_an_ignore_file_of_any_kind_stops_no_run(tmp_path, make, files, left_out):
    """What cannot be read of it is listed as left out, and the folder is read."""
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("*\n")
    make(tmp_path / ".gitignore")

    assert found_in_time(tmp_path) == f"{files} {left_out}\n"


@pytest.mark.skipif(sys.platform != "linux", reason="names are text elsewhere")
def test_a_name_that_is_no_text_is_matched(tmp_path):
    """Its invalid bytes match a wildcard."""
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/a\xff.log")).write_text("text")
    (tmp_path / ".gitignore").write_text("a?.log")

    assert names(tmp_path) == []
    assert not find_files([tmp_path]).left_out


NO_DOCUMENTS = {
    "a leftover of a program": [
        "lease.md~", "lease.md.bak", "lease.md.bak2", "lease.md.orig", "#lease.md#", "lease.md.swp", "~WRL0001.tmp", "~$lease.docx"],
    "an incomplete download": ["lease.pdf.part", "Unconfirmed 12.crdownload"],
    "a conflicted copy of a synchronized file": [
        "lease (conflicted copy 2031-02-11).md", "a (Ane's conflicted copy 2031-02-11).md", "a (In Konflikt stehende Kopie von Ane).md",
        "a (Copie en conflit de Ane 2031-02-11).md", "a (конфликтующая копия).md", "a (Ane の競合コピー 2031-02-11).md",
        "lease.sync-conflict-20310212-101010-ABCDEFG.md", "lease_conflict-20310212-101010.md", "lease-DESKTOP-A1B2C3D.docx",
        "a (SFConflict ane@b.example 2031-02-11-10-10-10).md", "a [conflicted].md",
        "a (conflict).md"],
    "generated code": ["api.pb.go", "Form.Designer.cs"],
    "a lock file of a package manager": ["package-lock.json", "yarn.lock", "Cargo.lock", "go.sum"],
    "minified code": ["app.min.js", "site-min.css", "app.js.map"],
    "a file of a program, not of a person": ["desktop.ini", "Thumbs.db", "Inbox.msf"],
    "a link to a document of Google; export that": ["Lease draft.gdoc", "Budget 2031.gsheet"],
    "a link, not a document": ["Ness.url", "Ness.webloc", "Ness.desktop"],
    "not downloaded from the cloud; download it": ["a.pdf.nextcloud"],
}  # fmt: skip
DOCUMENTS = [
    "Conflict of interest (2031-02-11).md", "Backup of the bak.md", "orig.md", "package-lock.md", "guide-desktop-install.md", "url.txt",
    "a (1).md", "Copy of lease.md", "#1 in the list.md", "min.js", "old (conflict over copyright).txt", "lease.tmp.md", "vendor list.md",
]  # fmt: skip


def test_what_is_no_document_is_listed_with_its_reason(tmp_path):
    """By its name, unless an ignore file includes it or all files are wanted; a document with such a word in its name stays."""
    tree(tmp_path, "keep/mine.bak", "keep/other.bak", *DOCUMENTS, *(name for names in NO_DOCUMENTS.values() for name in names))
    (tmp_path / "keep" / ".localragignore").write_text("!mine.bak\n")
    found, everything = find_files([tmp_path]), find_files([tmp_path], all_files=True)

    assert sorted(f.name for f in found.files) == sorted([*DOCUMENTS, "mine.bak"])
    wanted = {name: f"{reason} (taken with --all-files)" for reason, names in NO_DOCUMENTS.items() for name in [*names]}
    assert {path.name: reason for path, reason in found.left_out.items()} == wanted | {"other.bak": wanted["lease.md.bak"]}
    assert len(everything.files) == len(found.files) + len(found.left_out)
    assert not everything.left_out


def test_folders_of_dependencies_are_listed_not_read(tmp_path):
    """Also `vendor` beside a manifest; elsewhere it is a folder of papers. A folder given explicitly is read."""
    tree(
        tmp_path, "site/package.json", "site/node_modules/a/README.md", "go/go.mod", "go/vendor/b/README.md", "env/pyvenv.cfg", "env/c.txt",
        "papers/vendor/contract.md", "papers/env/water.md", "old/lib/site-packages/d/LICENSE.txt",
    )  # fmt: skip
    dependencies = "a folder of dependencies (taken with --all-files)"

    assert names(tmp_path) == ["go/go.mod", "papers/env/water.md", "papers/vendor/contract.md", "site/package.json"]
    assert {path.relative_to(tmp_path).as_posix(): reason for path, reason in find_files([tmp_path]).left_out.items()} == {
        "site/node_modules": dependencies, "go/vendor": dependencies, "old/lib/site-packages": dependencies,
        "env": "a Python environment (taken with --all-files)",
    }  # fmt: skip
    assert names(tmp_path, "site/node_modules") == ["site/node_modules/a/README.md"]


def test_a_file_that_is_in_the_cloud_only_is_listed_by_its_name(tmp_path):
    """The hidden placeholder that iCloud puts in its place says that it is not here."""
    tree(tmp_path, ".Minutes 2031.pdf.icloud", "here.txt", ".here.txt.icloud")

    assert find_files([tmp_path]).left_out == {tmp_path / "Minutes 2031.pdf": "not downloaded from iCloud; download it"}
