"""Folders that came from somebody else: nothing that this machine did not write there is deleted or replaced, and no link is followed."""

import os
import sys
from pathlib import Path

import pytest

from localrag.cli.settings import set_value
from localrag.errors import LocalragError, UsageError
from localrag.exchange.export import EXPORT_FORMATS, FILE_FORMATS, export_index
from localrag.exchange.pack import pack_index, unpack_index
from localrag.exchange.table_files import check_answer_file, check_output_file
from localrag.exchange.wiki import read_wiki, update_wiki
from localrag.exchange.wiki_pages import MAX_PAGE_BYTES
from tests.conftest import run_localrag
from tests.exchange.made import make_index
from tests.test_strange_files import within

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="there are no FIFOs, and links need a privilege"),
    pytest.mark.usefixtures("own_home"),
]
FOLDERS = sorted(set(EXPORT_FORMATS) - set(FILE_FORMATS))


@pytest.fixture
def own_home(tmp_path_factory, monkeypatch):
    """A data folder without notes of earlier exports."""
    monkeypatch.setenv("LOCALRAG_HOME", str(tmp_path_factory.mktemp("home")))


@pytest.fixture
def private(tmp_path):
    """A folder of the user outside of any export, and its files."""
    folder = tmp_path / "private"
    folder.mkdir()
    for name in ("precious.txt", "documents.jsonl", "note.md", "Start here.md"):
        (folder / name).write_text(f"mine: {name}")
    return folder


def files_in(folder):
    """Every file and link below a folder, with its bytes or its target."""
    return {
        p.relative_to(folder).as_posix(): p.readlink() if p.is_symlink() else p.read_bytes()
        for p in folder.rglob("*")
        if p.is_symlink() or p.is_file()
    }


@pytest.mark.parametrize("kind", FOLDERS)
def test_an_export_beside_files_from_elsewhere_deletes_nothing(kind, opened, tmp_path, private):
    """Neither files in the folder, nor files that a link in it leads to, nor the link; the export itself is written."""
    out = tmp_path / "out"
    (out / "deep" / "er").mkdir(parents=True)
    (out / "link").symlink_to(private)
    (out / "to-file.jsonl").symlink_to(private / "precious.txt")
    (out / "deep" / "er" / "a.txt").write_text("mine")
    for suffix in ("docx", "jsonl", "csv", "parquet"):
        (out / f"thesis.{suffix}").write_bytes(b"mine")
    before, outside = files_in(out), files_in(private)
    made = export_index(opened, kind, out, force=True)
    assert made.removed == ()
    assert files_in(private) == outside
    after = files_in(out)
    assert {name: after[name] for name in before} == before
    assert set(made.files) <= set(after)
    assert export_index(opened, kind, out, force=True).removed == ()
    assert files_in(out) == after


@pytest.mark.parametrize("is_exported", [False, True])
def test_a_file_that_is_not_as_an_export_wrote_it_is_the_users(opened, tmp_path, is_exported):
    """From elsewhere or changed since: without force nothing is written beside it, with force it is not replaced."""
    out = tmp_path / "out"
    out.mkdir()
    if is_exported:
        export_index(opened, "jsonl", out)
    (out / "claims.jsonl").write_text("mine")
    before = files_in(out)
    for force in (False, True):
        with pytest.raises(UsageError, match=r"other files|claims\.jsonl exists and is not part of an export"):
            export_index(opened, "jsonl", out, force=force)
        assert files_in(out) == before


@pytest.mark.parametrize("target", ["precious.txt", "gone.txt"])
@pytest.mark.parametrize("kind", FOLDERS)
def test_a_link_where_an_export_writes_is_neither_followed_nor_replaced(kind, target, opened, tmp_path, private):
    """Also one that leads to nothing: the export is refused before anything is written."""
    names = export_index(opened, kind, tmp_path / "first").files
    out = tmp_path / "out"
    out.mkdir()
    (out / names[-1]).symlink_to(private / target)
    before, outside = files_in(out), files_in(private)
    with pytest.raises(UsageError, match="exists and is not part of an export"):
        export_index(opened, kind, out, force=True)
    assert (files_in(out), files_in(private)) == (before, outside)


@pytest.mark.parametrize("kind", FOLDERS)
@pytest.mark.parametrize("target", ["private", "nowhere"])
def test_a_folder_that_is_a_link_is_no_place_for_an_export(kind, target, opened, tmp_path, private):
    """The error names where it leads to; named itself, that folder can be written to."""
    (tmp_path / "out").symlink_to(tmp_path / target)
    before = files_in(private)
    with pytest.raises(UsageError, match="is a link") as refused:
        export_index(opened, kind, tmp_path / "out", force=True)
    assert str(tmp_path / target) in refused.value.hint
    assert files_in(private) == before
    assert not (tmp_path / "nowhere").exists()


def test_an_export_removes_what_it_wrote_itself_and_no_longer_needs(opened, tmp_path):
    """A table of the last export that the index has no rows for any more."""
    out = tmp_path / "out"
    first = export_index(opened, "parquet", out)
    less = make_index(tmp_path / "less", claims=False)
    second = export_index(less, "parquet", out)
    assert second.removed == tuple(sorted(set(first.files) - set(second.files))) != ()
    assert set(files_in(out)) == {*second.files}


def test_notes_about_one_folder_say_nothing_about_another(opened, tmp_path):
    """A copy of an export is a folder of other files."""
    export_index(opened, "jsonl", tmp_path / "out")
    (tmp_path / "archive").mkdir()
    for name, data in files_in(tmp_path / "out").items():
        (tmp_path / "archive" / name).write_bytes(data)
    before = files_in(tmp_path / "archive")
    with pytest.raises(UsageError, match="other files"):
        export_index(make_index(tmp_path / "less", claims=False), "jsonl", tmp_path / "archive")
    assert files_in(tmp_path / "archive") == before


STRANGE = {
    "pipe": os.mkfifo,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "link": lambda path: path.symlink_to(path.parent.parent / "private" / "note.md"),
    "loop": lambda path: path.symlink_to(path),
    "folder": Path.mkdir,
    "huge": lambda path: (path.touch(), os.truncate(path, MAX_PAGE_BYTES + 1)),
}


@pytest.mark.parametrize("kind", STRANGE)
def test_only_regular_files_are_read_as_notes(kind, opened, tmp_path, private):
    """A pipe is not waited for, a device, a link and a huge file are not read; each stays, and its name is not given to a page."""
    wiki, name = tmp_path / "wiki", "note.md"
    update_wiki(opened, wiki)
    STRANGE[kind](wiki / name)
    with within(20):
        assert len(read_wiki(wiki).other_names) == 1
        result = update_wiki(opened, wiki)
    assert (result.written, result.deleted, result.edited) == ((), (), ())
    assert os.path.lexists(wiki / name)
    assert (private / "note.md").read_text() == "mine: note.md"


@pytest.mark.parametrize("inside", ["Documents", "Entities", "Communities", "Start here.md"])
@pytest.mark.parametrize("target", ["private", "nowhere"])
def test_no_page_is_written_through_a_link(inside, target, opened, tmp_path, private):
    """Where a folder of pages is a link the wiki is refused before anything is written; a link with a page's name stays beside the page."""
    wiki = tmp_path / "wiki"
    wiki.mkdir()
    (wiki / inside).symlink_to(private / inside if inside.endswith(".md") and target == "private" else tmp_path / target)
    before, outside = files_in(wiki), files_in(private)
    try:
        update_wiki(opened, wiki, force=True)
    except UsageError as error:
        assert "is a link" in str(error)
        assert files_in(wiki) == before
    assert files_in(private) == outside
    assert files_in(wiki)[inside] == before[inside]
    assert not (tmp_path / "nowhere").exists()


def test_pages_behind_a_link_are_not_those_of_the_wiki(opened, tmp_path):
    """Another wiki that a link leads to is neither changed nor deleted."""
    update_wiki(make_index(tmp_path / "other", ("Zoe", "Yan")), tmp_path / "elsewhere")
    before = files_in(tmp_path / "elsewhere")
    wiki = tmp_path / "wiki"
    wiki.mkdir()
    (wiki / "Mine").symlink_to(tmp_path / "elsewhere")
    for page in (tmp_path / "elsewhere").rglob("*.md"):
        (wiki / page.name).symlink_to(page)
    links = files_in(wiki)
    update_wiki(opened, wiki, force=True)
    assert files_in(tmp_path / "elsewhere") == before
    assert links.items() <= files_in(wiki).items()


@pytest.mark.parametrize("check", [check_output_file, check_answer_file])
@pytest.mark.parametrize("target", ["precious.txt", "gone.txt"])
def test_a_link_in_place_of_a_file_to_write_counts_as_a_file(check, target, tmp_path, private):
    """Also one that leads to nothing is replaced only with force."""
    (tmp_path / "out.docx").symlink_to(private / target)
    with pytest.raises(UsageError, match="exists already"):
        check(tmp_path / "out.docx")
    check(tmp_path / "out.docx", force=True)


@pytest.mark.parametrize("kind", sorted(FILE_FORMATS))
def test_a_file_is_never_written_through_a_link(kind, opened, tmp_path, private):
    """With force the link is replaced, not what it leads to."""
    (tmp_path / "out").symlink_to(private / "precious.txt")
    with pytest.raises(UsageError, match="exists already"):
        export_index(opened, kind, tmp_path / "out")
    export_index(opened, kind, tmp_path / "out", force=True)
    assert not (tmp_path / "out").is_symlink()
    assert (private / "precious.txt").read_text() == "mine: precious.txt"


def test_a_pack_takes_no_private_file_that_a_link_in_the_folder_leads_to(tmp_path, private):
    """Documents behind links that lead out, and files of the index that are links, are left out."""
    from zipfile import ZipFile

    index = make_index(tmp_path / "clone")
    (tmp_path / "clone" / "docs").mkdir(exist_ok=True)
    (tmp_path / "clone" / "docs" / "a.txt").unlink(missing_ok=True)
    (tmp_path / "clone" / "docs" / "a.txt").symlink_to(private / "precious.txt")
    for name in ("aliases.txt", "domain.toml"):
        (index.folder / name).symlink_to(private / "note.md")
    packed = pack_index(tmp_path / "out.localrag", index.folder, documents=True)
    with ZipFile(packed.path) as archive:
        assert not [name for name in archive.namelist() if b"mine" in archive.read(name)]
    assert dict(packed.skipped_files)["docs/a.txt"] == "lies outside the folder that holds the index"


def test_unpacking_follows_no_link(tmp_path, private):
    """A folder of documents that is a link stops it, wherever it leads; nothing is written."""
    index = make_index(tmp_path / "clone")
    (tmp_path / "clone" / "docs").mkdir(exist_ok=True)
    (tmp_path / "clone" / "docs" / "a.txt").write_text("text")
    packed = pack_index(tmp_path / "out.localrag", index.folder, documents=True)
    target = tmp_path / "target"
    (target / "inside").mkdir(parents=True)
    for place in (private, target / "inside"):
        (target / "docs").unlink(missing_ok=True)
        (target / "docs").symlink_to(place)
        before = files_in(tmp_path)
        with pytest.raises(LocalragError, match="is a link"):
            unpack_index(packed.path, target)
        assert files_in(tmp_path) == before


@pytest.mark.ci
@pytest.mark.parametrize(("inbox", "reason"), [("inbox", "is a link"), (".localrag", "the index folder")])
def test_the_inbox_of_a_server_is_a_folder_of_its_own(inbox, reason, tmp_path, private):
    """Neither a link out of a folder from somebody else, nor the index, whose files an upload could be called like."""
    make_index(tmp_path / "clone")
    (tmp_path / "clone" / "inbox").symlink_to(private)
    done = run_localrag("serve", "--no-open", "--port", "0", "--inbox", inbox, cwd=tmp_path / "clone")
    assert done.returncode == 2
    assert reason in done.stderr


def test_settings_are_not_changed_through_a_link_in_a_folder(tmp_path):
    """The user's own settings, or another program's, that a localrag.toml leads to stay as they are."""
    (tmp_path / "other.toml").write_text('mode = "local"\n')
    (tmp_path / "localrag.toml").symlink_to(tmp_path / "other.toml")
    with pytest.raises(UsageError, match="is a link") as refused:
        set_value(tmp_path / "localrag.toml", "mode", "basic")
    assert str(tmp_path / "other.toml") in str(refused.value)
    assert (tmp_path / "other.toml").read_text() == 'mode = "local"\n'
