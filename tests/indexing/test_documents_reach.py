"""Sources that cannot be reached, links, and documents without a file: what was read once is not lost because a drive is missing."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from localrag.loaders.discover import find_files
from tests.conftest import TOWN, run_localrag
from tests.indexing.runs import index, rows
from tests.terminals import Screen

pytestmark = pytest.mark.usefixtures("hashed_module")
NOBODY = 65534
PATHS = "SELECT path FROM documents ORDER BY path"


def put(folder, **texts):
    """Files `name.txt` with a text of their own each; a double underscore is a folder."""
    for name, text in texts.items():
        file = folder / f"{name.replace('__', '/')}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def town(folder):
    """Documents in three folders."""
    docs = folder / "docs"
    put(
        docs, a=TOWN["b.txt"], b="Ruth Sand met Walter Muir at Molde.", nas__c="Agnes Thorburn paid Walter Muir.", nas__deep__d="Lars Holm."
    )
    put(docs, own__e="Ingrid Holm sold the Skua.", own__f="Chen Guoliang wrote to Ingrid Holm.")
    index(folder)
    return docs


def everything(folder):
    """What an index holds, so that nothing of it can be lost unseen."""
    tables = ("documents", "chunks", "entities", "mentions", "extractions", "embeddings")
    return {t: rows(folder, f"SELECT * FROM {t} ORDER BY 1, 2") for t in tables}


def emptied(folder):
    shutil.rmtree(folder)
    folder.mkdir()


def replaced(folder):
    shutil.rmtree(folder)
    folder.touch()


@pytest.mark.parametrize("lose", [emptied, shutil.rmtree, replaced])
@pytest.mark.parametrize("place", ["docs/nas", "docs"])
def test_a_source_that_is_not_there_keeps_its_documents(tmp_path, place, lose):
    """A folder that is empty, missing or something else keeps its documents whole, is listed with their number, comes back unchanged."""
    town(tmp_path)
    before = everything(tmp_path)
    shutil.copytree(tmp_path / "docs", tmp_path / "copy")
    lose(tmp_path / place)

    loaded = index(tmp_path)
    after = everything(tmp_path)
    kept = {s.path: s for s in loaded.skipped}[place]
    shutil.rmtree(tmp_path / place, ignore_errors=True)
    (tmp_path / place).unlink(missing_ok=True)
    shutil.copytree(tmp_path / "copy" / place.removeprefix("docs").strip("/"), tmp_path / place)
    again = index(tmp_path)

    assert (after["documents"], after["extractions"], loaded.deleted) == (before["documents"], before["extractions"], ())
    assert everything(tmp_path) == before
    assert kept.is_failure and f"its {2 if place == 'docs/nas' else 6} documents are kept" in kept.reason
    assert (again.n_changed, again.skipped) == (0, ())


def test_a_missing_folder_does_not_hold_up_the_others(tmp_path):
    """Of two given folders the one that is there is brought up to date, and exit code and message say what is the matter with the other."""
    town(tmp_path)
    (tmp_path / "docs" / "nas").rename(tmp_path / "elsewhere")
    put(tmp_path / "more", g="Walter Muir came later.")
    shutil.rmtree(tmp_path / "docs" / "own")
    (tmp_path / "docs").rename(tmp_path / "unplugged")

    done = run_localrag("index", "docs", "more", "--extractor", "phrases", cwd=tmp_path)
    wrong = run_localrag("index", "dcos", "more", "--extractor", "phrases", cwd=tmp_path)

    assert done.returncode == 5
    assert "docs is missing: 6 documents from there are kept. To remove them: localrag rm docs" in done.stderr
    assert ("more/g.txt",) in rows(tmp_path, PATHS) and len(rows(tmp_path, PATHS)) == 7
    assert (wrong.returncode, "There is nothing at dcos" in wrong.stderr) == (2, True)
    listed = run_localrag("files", "--skipped", cwd=tmp_path).stdout
    assert listed == "failed   docs: is missing; its 6 documents are kept\n"


def test_a_folder_without_permission_keeps_its_documents_whatever_is_asked(tmp_path, monkeypatch):
    """What may not be opened is there: its documents stay even with --prune, and no file elsewhere takes their place."""
    docs = town(tmp_path)
    scandir = os.scandir

    def refused(path):
        if Path(path) == docs / "nas":
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    put(docs, copy="Agnes Thorburn paid Walter Muir.")
    monkeypatch.setattr(os, "scandir", refused)
    loaded = index(tmp_path, prune=True)

    assert (loaded.new, loaded.moved, loaded.deleted) == (("docs/copy.txt",), (), ())
    assert [(s.path, s.is_failure) for s in loaded.skipped] == [("docs/nas", True)]
    assert loaded.skipped[0].reason == "a folder without permission to open it (Permission denied); its 2 documents are kept"


@pytest.mark.skipif(os.getuid() != 0, reason="needs to become another user")
def test_the_system_refuses_a_folder(tmp_path):
    """A user who may not open a folder, or enter it, is told so, and of what it holds nothing is called missing."""
    put(tmp_path, a="1", shut__b="2", seen__c="3")
    for folder, mode in ((tmp_path, 0o755), (tmp_path / "shut", 0o000), (tmp_path / "seen", 0o744)):
        folder.chmod(mode)
    code = f"""
import os; os.setgid({NOBODY}); os.setuid({NOBODY})
from pathlib import Path
found = find_files([Path({str(tmp_path)!r})])
print(found.unreadable, sorted(f.name for f in found.files))
"""
    for folder in list(tmp_path.parents)[:-2]:
        folder.chmod(folder.stat().st_mode | 0o055)
    done = subprocess.run(
        [sys.executable, "-c", f"from localrag.loaders.discover import find_files{code}"], check=False, capture_output=True, text=True
    )

    assert done.returncode == 0, done.stderr
    assert "shut'): 'a folder without permission to open it (Permission denied)'" in done.stdout
    assert done.stdout.endswith("['a.txt', 'c.txt']\n")


def test_many_deletions_wait_for_a_yes(tmp_path):
    """Where more than a third of the files are gone their documents are kept and listed, until --prune; the rest of the run goes on."""
    docs = town(tmp_path)
    for name in ("a", "b", "own/e"):
        (docs / f"{name}.txt").unlink()
    put(docs, own__f="Chen Guoliang wrote to nobody.", own__g="Walter Muir came later.")

    done = run_localrag("index", "docs", "--extractor", "phrases", cwd=tmp_path)
    kept = rows(tmp_path, PATHS)
    listed = run_localrag("files", "--skipped", cwd=tmp_path).stdout.splitlines()
    again = index(tmp_path)
    pruned = run_localrag("index", "docs", "--extractor", "phrases", "--prune", cwd=tmp_path)

    assert done.returncode == 5
    assert "3 documents, more than a third, have no readable file any more" in done.stderr
    assert "--prune" in done.stderr and "1 new · 1 changed" in done.stderr
    assert kept == [(f"docs/{n}.txt",) for n in ("a", "b", "nas/c", "nas/deep/d", "own/e", "own/f", "own/g")]
    assert listed == [
        f"failed   docs/{n}.txt: its file is gone; its earlier content is kept until you use --prune" for n in ("a", "b", "own/e")
    ]
    assert again.retained_paths == ("docs/a.txt", "docs/b.txt", "docs/own/e.txt")
    assert pruned.returncode == 0, pruned.stderr
    assert "3 deleted" in pruned.stderr
    assert rows(tmp_path, PATHS) == [(f"docs/{n}.txt",) for n in ("nas/c", "nas/deep/d", "own/f", "own/g")]
    assert rows(tmp_path, "SELECT * FROM skipped_files") == []


@pytest.mark.ci
def test_few_deletions_need_no_yes(tmp_path):
    """A third of the documents may go without a word; documents of other paths do not count."""
    docs = town(tmp_path)
    put(tmp_path / "more", g="1 2 3", h="Walter Muir came later.")
    index(tmp_path, "more")
    (docs / "a.txt").unlink()
    (docs / "b.txt").unlink()
    (tmp_path / "more" / "g.txt").unlink()

    assert index(tmp_path).deleted == ("docs/a.txt", "docs/b.txt")
    assert index(tmp_path, "more").retained_paths == ("more/g.txt",)


def test_prune_forgets_what_is_missing_or_empty(tmp_path):
    """With --prune, documents of missing and of empty folders go; where none is left, the graph goes with them."""
    docs = town(tmp_path)
    emptied(docs / "nas")
    shutil.rmtree(docs / "own")
    some = index(tmp_path, prune=True)
    emptied(docs)
    none = index(tmp_path, prune=True)

    assert len(some.deleted) == 4
    assert none.deleted == ("docs/a.txt", "docs/b.txt")
    assert rows(tmp_path, "SELECT count(*) FROM entities") == [(0,)]


def test_a_moved_folder_is_moved_not_missing(tmp_path):
    """Files that turn up elsewhere take their documents along; those of the missing folder that do not turn up are kept."""
    docs = town(tmp_path)
    (docs / "nas").rename(docs / "share")
    (docs / "share" / "c.txt").write_text("Agnes Thorburn paid nobody.")
    loaded = index(tmp_path)

    assert (loaded.moved, loaded.new, loaded.deleted) == (("docs/share/deep/d.txt",), ("docs/share/c.txt",), ())
    assert [(u.path, u.documents) for u in loaded.unreachable] == [("docs/nas", ("docs/nas/c.txt",))]


def test_what_was_left_out_of_a_missing_folder_stays_listed(tmp_path):
    """A file that could not be read is not forgotten because its folder cannot be seen."""
    docs = town(tmp_path)
    (docs / "nas" / "b.bin").write_bytes(bytes(range(256)) * 9)
    index(tmp_path)
    emptied(docs / "nas")

    assert [s.path for s in index(tmp_path).skipped] == ["docs/nas"]
    assert rows(tmp_path, "SELECT path FROM skipped_files ORDER BY path") == [("docs/nas",), ("docs/nas/b.bin",)]


@pytest.mark.ci
def test_a_terminal_is_asked(tmp_path):
    """At a terminal many deletions are asked about: no keeps the documents, yes forgets them."""
    docs = town(tmp_path)
    for name in ("a", "b", "own/e"):
        (docs / f"{name}.txt").unlink()
    seen = []
    for answer in ("n", "y"):
        screen = Screen("index", "docs", "--extractor", "phrases", cwd=tmp_path)
        screen.wait_for_passing(r"\[y/N\]")
        screen.type(f"{answer}\n")
        seen.append((screen.end(120), len(rows(tmp_path, PATHS))))

    assert "The files of 3 of 6 documents are gone" in screen.written
    assert seen == [(5, 6), (0, 3)]


def links(folder):
    """A folder of a file, a file left out, and links of every kind."""
    put(folder, docs__a="Lars Holm.", home__config="Walter Muir.", docs__sub__b="Ruth Sand.", more__c="Agnes Thorburn.")
    docs = folder / "docs"
    (docs / ".hidden").write_text("Ingrid Holm.")
    (docs / "loop").symlink_to("loop")
    (docs / "up").symlink_to("..")
    (docs / "again.txt").symlink_to("a.txt")
    (docs / "gone.txt").symlink_to("nowhere.txt")
    (docs / "config.txt").symlink_to(folder / "home" / "config.txt")
    (docs / "dark.txt").symlink_to(".hidden")
    (docs / "folder").symlink_to(folder / "more")
    return docs


def test_links_that_lead_out_are_listed(tmp_path):
    """Links to what is found anyway are nothing; others are listed with their reason; no loop is an error; hidden files stay hidden."""
    docs = links(tmp_path)
    loaded = index(tmp_path)

    assert rows(tmp_path, PATHS) == [("docs/a.txt",), ("docs/sub/b.txt",)]
    assert {Path(s.path).name: (s.reason, s.is_failure) for s in loaded.skipped} == {
        "loop": ("a link in a circle", False),
        "up": ("a link that leads out of the folder (taken with --follow-links)", False),
        "gone.txt": ("a link to nothing (No such file or directory)", False),
        "config.txt": ("a link that leads out of the folder (taken with --follow-links)", False),
        "dark.txt": ("a link to what is left out (taken with --follow-links)", False),
        "folder": ("a link that leads out of the folder (taken with --follow-links)", False),
    }
    assert [f.name for f in find_files([docs / "config.txt"]).files] == ["config.txt"]  # given by name


def test_followed_links_keep_their_own_paths(tmp_path):
    """With --follow-links every target comes once under its link's path, for every later run; one whose target vanished is kept."""
    docs = links(tmp_path)
    (docs / "up").unlink()
    index(tmp_path, follow_links=True)
    followed = rows(tmp_path, PATHS)
    put(tmp_path / "home", config="Walter Muir left.")
    changed = index(tmp_path).changed
    (tmp_path / "home" / "config.txt").unlink()
    shutil.rmtree(tmp_path / "more")
    loaded = index(tmp_path)

    assert followed == [(f"docs/{n}",) for n in ("a.txt", "config.txt", "dark.txt", "folder/c.txt", "sub/b.txt")]
    assert changed == ("docs/config.txt",)
    assert rows(tmp_path, PATHS) == followed
    assert {u.path: u.documents for u in loaded.unreachable} == {
        "docs/config.txt": ("docs/config.txt",),
        "docs/folder": ("docs/folder/c.txt",),
    }


def test_links_in_circles_of_folders_end(tmp_path):
    """Followed folders that lead into each other and back are walked through once."""
    put(tmp_path, docs__a="1", x__b="2", y__c="3")
    (tmp_path / "docs" / "x").symlink_to(tmp_path / "x")
    (tmp_path / "x" / "y").symlink_to(tmp_path / "y")
    (tmp_path / "y" / "x").symlink_to(tmp_path / "x")
    (tmp_path / "y" / "docs").symlink_to(tmp_path / "docs")
    found = find_files([tmp_path / "docs"], follow_links=True)

    assert [f.relative_to(tmp_path.resolve()).as_posix() for f in found.files] == ["docs/a.txt", "docs/x/b.txt", "docs/x/y/c.txt"]


@pytest.mark.ci
def test_a_failed_first_run_leaves_the_models_open(tmp_path, tiny):
    """An index without a document is bound to no model: after a run that found nothing another one may be chosen."""
    (tmp_path / "empty").mkdir()
    put(tmp_path / "docs", a=TOWN["b.txt"])
    first = run_localrag("index", "empty", cwd=tmp_path)
    model = str(tiny("llama").path)
    second = run_localrag("index", "docs", "--model", model, "--extractor", "phrases", cwd=tmp_path)
    bound = json.loads(rows(tmp_path, "SELECT value FROM index_settings WHERE key = 'chat_model'")[0][0])

    assert (first.returncode, second.returncode) == (2, 0), second.stderr
    assert bound["path"] == model


def test_a_folder_that_looks_like_an_index_is_listed_with_what_is_in_it(tmp_path):
    """Two files with these names keep a folder's documents out of the index: `files --skipped` lists it with the reason."""
    put(tmp_path, docs__a=TOWN["b.txt"], docs__sub__b="Ruth Sand met Walter Muir at Molde.")
    for name in ("index.db", "writer.lock"):
        (tmp_path / "docs" / "sub" / name).write_text("x")
    index(tmp_path)
    listed = run_localrag("files", "--skipped", "--json", cwd=tmp_path)

    assert find_files([tmp_path / "docs"]).left_out == {
        tmp_path / "docs" / "sub": "a folder with index.db and writer.lock: an index, not documents"
    }
    assert "docs/sub" in listed.stdout
    assert "writer.lock" in listed.stdout
