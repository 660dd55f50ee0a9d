"""A document whose file is elsewhere is the same document: its ids, and all that was made of it, stay."""

import random
import shutil
from contextlib import closing
from dataclasses import replace

import pytest

from localrag.store import collections, documents
from localrag.store.opening import open_index
from tests.conftest import run_localrag, seeds
from tests.indexing.runs import rows, wrong_in
from tests.indexing.test_documents_update import SAME, sentence
from tests.indexing.test_nothing_to_do import OLD, index, opened, write

pytestmark = pytest.mark.usefixtures("hashed_module")
LASTING = "chunks extractions sentence_spans embeddings mentions evidence reports entities communities chunks_fts".split()


def make(folder):
    """Twelve documents in two folders, changed long ago, and their index with reports."""
    rng = random.Random(7)
    for n in range(12):
        write(folder / "docs" / "top" / f"s{n % 2}" / f"f{n}.txt", "\n\n".join(sentence(rng) for _ in range(9)), OLD + n)
    index(folder, chunk_tokens=60, chunk_overlap=0)


@pytest.fixture
def folder(made_once, tmp_path):
    """A copy of these, whose files are those that the index knows."""
    made_once("moved documents", make, tmp_path)
    with closing(open_index(tmp_path / ".localrag", create=True)) as db:
        known = documents.file_stats(db)
        documents.save_file_stats(db, {path: replace(stat, inode=(tmp_path / path).stat().st_ino) for path, stat in known.items()})
    return tmp_path


def state(folder, tables=LASTING):
    return {table: rows(folder, f"SELECT rowid, * FROM {table} ORDER BY rowid") for table in tables}


def ids(folder):
    return dict(rows(folder, "SELECT path, id FROM documents"))


def equals_fresh(folder):
    """Whether an index is that of its files made at once, by names, paths and places, and nothing is wrong or due."""
    assert wrong_in(folder) == []
    fresh = folder / "fresh"
    shutil.copytree(folder / "docs", fresh / "docs")
    index(fresh, chunk_tokens=60, chunk_overlap=0)
    for name, sql in SAME.items():
        assert rows(folder, sql) == rows(fresh, sql), name
    return True


def test_a_renamed_folder_opens_no_file_and_rewrites_nothing(folder):
    """Every document keeps its id; no row of chunks, sentences, extractions, vectors, graph or reports changes, no file is opened."""
    before, known = state(folder), ids(folder)
    (folder / "docs" / "top").rename(folder / "docs" / "tip and top")
    loaded = []

    assert opened(folder, lambda: loaded.append(index(folder))) == []

    assert len(loaded[0].moved) == 12 == loaded[0].n_changed
    assert ids(folder) == {path.replace("top", "tip and top"): key for path, key in known.items()}
    assert state(folder) == before
    assert index(folder).n_changed == 0
    assert equals_fresh(folder)


def test_a_moved_file_takes_its_name_and_day_along(folder):
    """A title that is the file's name follows it, a title of its own stays; a copy put elsewhere is of its file's day, or its name's."""
    write(folder / "docs" / "own.md", "# A title of its own\n\nRuth Sand met Lars Holm.\n")
    index(folder)
    (folder / "docs" / "own.md").rename(folder / "docs" / "other 2019-03-02.md")
    write(folder / "docs" / "far.txt", (folder / "docs" / "top" / "s0" / "f0.txt").read_text(), OLD + 9 * 86_400)
    (folder / "docs" / "top" / "s0" / "f0.txt").unlink()
    key = ids(folder)["docs/top/s0/f0.txt"]

    assert sorted(index(folder).moved) == ["docs/far.txt", "docs/other 2019-03-02.md"]

    assert ids(folder)["docs/far.txt"] == key
    assert equals_fresh(folder)


@pytest.mark.ci
def test_a_new_file_of_the_same_text_at_the_old_place_is_another_document(folder):
    """A moved to B, then a new A with the text A had: two documents, two ids, and the index is sound."""
    a, b = folder / "docs" / "top" / "s0" / "f0.txt", folder / "docs" / "b.txt"
    key = ids(folder)["docs/top/s0/f0.txt"]
    a.rename(b)
    index(folder)
    write(a, b.read_text(), OLD + 3)

    assert index(folder).new == ("docs/top/s0/f0.txt",)

    assert ids(folder)["docs/b.txt"] == key != ids(folder)["docs/top/s0/f0.txt"]
    assert equals_fresh(folder)


def test_a_move_and_a_new_file_in_its_place_at_once(folder):
    """Between two runs A became B and another A was written: B is the document that A was, A a new one."""
    a, b = folder / "docs" / "top" / "s0" / "f0.txt", folder / "docs" / "b.txt"
    key = ids(folder)["docs/top/s0/f0.txt"]
    a.rename(b)
    write(a, "Walter Muir owns the Northern Line.")

    loaded = index(folder)

    assert (loaded.moved, loaded.new, loaded.changed, loaded.deleted) == (("docs/b.txt",), ("docs/top/s0/f0.txt",), (), ())
    assert ids(folder)["docs/b.txt"] == key
    assert equals_fresh(folder)


def test_documents_that_exchange_their_names(folder):
    """Two files exchanged, three in a circle: each document keeps its id, and its collections go with it."""
    here = folder / "docs" / "top" / "s0"
    db = open_index(folder / ".localrag", create=True)
    collections.add_to_collection(db, "first", ["docs/top/s0/f0.txt"])
    collections.add_to_collection(db, "second", ["docs/top/s0/f2.txt"])
    db.close()
    known, before = ids(folder), state(folder)
    for old, new in (("f0", "x"), ("f2", "f0"), ("x", "f2"), ("f4", "y"), ("f6", "f4"), ("f8", "f6"), ("y", "f8")):
        (here / f"{old}.txt").rename(here / f"{new}.txt")

    assert len(index(folder).moved) == 5

    now = ids(folder)
    for old, new in (("f0", "f2"), ("f2", "f0"), ("f4", "f8"), ("f6", "f4"), ("f8", "f6")):
        assert now[f"docs/top/s0/{new}.txt"] == known[f"docs/top/s0/{old}.txt"]
    assert rows(folder, "SELECT name, path FROM collection_documents ORDER BY 1") == [
        ("first", "docs/top/s0/f2.txt"),
        ("second", "docs/top/s0/f0.txt"),
    ]
    assert state(folder) == before
    assert equals_fresh(folder)


def test_a_file_moved_over_another_one(folder):
    """The document that was there goes, that of the file is there now; the index is that of the files."""
    here = folder / "docs" / "top" / "s0"
    (here / "f0.txt").replace(here / "f2.txt")

    index(folder)

    assert "docs/top/s0/f0.txt" not in ids(folder)
    assert equals_fresh(folder)


def test_a_copy_is_a_second_document(folder):
    """A copied file is new, also where the first is edited afterwards; the copy of a file that is gone is that document moved."""
    here = folder / "docs" / "top" / "s0"
    key = ids(folder)["docs/top/s0/f0.txt"]
    shutil.copy2(here / "f0.txt", here / "copy.txt")
    write(here / "f0.txt", (here / "f0.txt").read_text() + "\n\nRuth Sand came later.", OLD + 50)

    loaded = index(folder)

    assert (loaded.new, loaded.changed, loaded.moved) == (("docs/top/s0/copy.txt",), ("docs/top/s0/f0.txt",), ())
    shutil.copy2(here / "f4.txt", folder / "docs" / "f4.txt")
    (here / "f4.txt").unlink()
    assert index(folder).moved == ("docs/f4.txt",)
    assert key not in ids(folder).values()
    assert equals_fresh(folder)


def test_a_folder_renamed_while_some_of_its_files_are_edited(folder):
    """Edited files and one that gets another suffix are new and gone, the others move; the index is that of the files."""
    top = folder / "docs" / "top"
    top.rename(folder / "docs" / "new")
    for n in (0, 3):
        file = folder / "docs" / "new" / f"s{n % 2}" / f"f{n}.txt"
        write(file, file.read_text() + "\n\nAgnes Thorburn met Walter Muir at Molde on day 3.", OLD + 100)
    (folder / "docs" / "new" / "s0" / "f2.txt").rename(folder / "docs" / "new" / "s0" / "f2.md")

    loaded = index(folder)

    assert sorted(loaded.new) == ["docs/new/s0/f0.txt", "docs/new/s0/f2.md", "docs/new/s1/f3.txt"]
    assert sorted(loaded.deleted) == ["docs/top/s0/f0.txt", "docs/top/s0/f2.txt", "docs/top/s1/f3.txt"]
    assert len(loaded.moved) == 9
    assert equals_fresh(folder)


def test_a_name_before_the_chunks_is_read_anew(folder):
    """Where titles stand before chunks, a file of another name gives other vectors; one that only changes its folder keeps them."""
    index(folder, prepend_metadata=True)
    here = folder / "docs" / "top" / "s0"
    (here / "f0.txt").rename(here / "other.txt")
    (here / "f2.txt").rename(folder / "docs" / "f2.txt")
    key = ids(folder)["docs/top/s0/f2.txt"]

    loaded = index(folder)

    assert (loaded.moved, loaded.new) == (("docs/f2.txt",), ("docs/top/s0/other.txt",))
    assert ids(folder)["docs/f2.txt"] == key
    assert wrong_in(folder) == []


def test_a_moved_document_can_be_removed_without_a_trace(folder):
    """`rm` of a document that moved leaves neither its words nor the names it had."""
    write(folder / "docs" / "zebulon.txt", "Zebulon Quarrick met Lars Holm at Xanthorpe.")
    index(folder)
    (folder / "docs" / "zebulon.txt").rename(folder / "docs" / "z.txt")
    index(folder)

    done = run_localrag("rm", "docs/z.txt", cwd=folder)

    assert done.returncode == 0, done.stderr
    data = b"".join(f.read_bytes() for f in (folder / ".localrag").rglob("*") if f.is_file()).lower()
    assert not [w for w in (b"zebulon", b"quarrick", b"xanthorpe") if w in data]


@pytest.mark.parametrize("seed", seeds(0, 1, 2, 3))
def test_any_moves_and_edits_end_in_the_index_of_the_files(folder, seed):
    """Files added, moved, exchanged, copied, edited and deleted at random: the index is that of the files made at once."""
    rng = random.Random(seed)
    for run in range(4):
        for _ in range(rng.randrange(2, 7)):
            files = sorted((folder / "docs").rglob("*.txt"))
            a, b = rng.sample(files, 2)
            kind, at = rng.choice("new move move swap copy more less over gone".split()), OLD + 1000 * run + rng.randrange(900)
            if kind == "move":
                to = folder / "docs" / rng.choice(["p", "q"]) / rng.choice([a.name, f"n{rng.randrange(20)}.txt"])
                to.parent.mkdir(exist_ok=True)
                a.rename(to)
            elif kind == "swap":
                spare = a.with_suffix(".spare")
                a.rename(spare), b.rename(a), spare.rename(b)
            elif kind == "copy":
                shutil.copy2(a, folder / "docs" / f"copy{rng.randrange(20)}.txt")
            elif kind in ("more", "less"):
                said = a.read_text().split("\n\n")
                said[rng.randrange(len(said))] += f"\n\n{sentence(rng)}" if kind == "more" else " Nobody came."
                write(a, "\n\n".join(said[kind == "less" and len(said) > 1 :]), at)
            elif kind == "new":
                many = "\n\n".join(sentence(rng) for _ in range(rng.randrange(1, 60)))
                write(folder / "docs" / f"new{rng.randrange(10**6)}.txt", many, at)
            elif kind == "over":
                a.replace(b)
            elif len(files) > 6:
                a.unlink()
        index(folder)
        assert wrong_in(folder) == []
    assert equals_fresh(folder)
