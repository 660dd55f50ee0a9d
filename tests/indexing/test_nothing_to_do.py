"""A run with nothing to do costs nothing: no file that looks as it did is opened, no model, no text of the index is read."""

import os
import sqlite3
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from localrag.loaders import discover, parser_process
from localrag.system.files import FileStat
from tests.conftest import TOWN, run_localrag
from tests.indexing import runs
from tests.indexing.files import pdf, xlsx
from tests.indexing.runs import rows

pytestmark = pytest.mark.usefixtures("hashed_module")
ROOT = Path(__file__).parents[2]
OPENED = []
sys.addaudithook(lambda event, args: OPENED.append(str(args[0])) if event == "open" and isinstance(args[0], (str, os.PathLike)) else None)
OLD = 1_700_000_000  # long before any test


def write(file, text, at=OLD):
    """A file whose last change is not of today."""
    file.parent.mkdir(parents=True, exist_ok=True)
    (file.write_bytes if isinstance(text, bytes) else file.write_text)(text)
    os.utime(file, (at, at))


index = partial(runs.index, prune=True, reports=True)


@pytest.fixture
def town(tmp_path):
    """Some documents and an empty scan that were changed long ago, and their index."""
    for name, text in TOWN.items():
        write(tmp_path / "docs" / name, text)
    write(tmp_path / "docs" / "scan.pdf", pdf([]))
    index(tmp_path)
    return tmp_path


def opened(folder, run):
    """The names of the files of a folder that a run opens."""
    OPENED.clear()
    run()
    return sorted({path.rpartition("/")[2] for path in OPENED if path.startswith(str(folder / "docs"))} - {"docs"})


def test_no_file_that_looks_as_it_did_is_opened(town):
    """Size, time and inode as before: neither a document nor a file that nothing could be read of is opened; with --verify all are."""
    assert opened(town, lambda: index(town)) == []
    assert opened(town, lambda: index(town, verify=True)) == sorted([*TOWN, "scan.pdf"])


@pytest.mark.ci
def test_nothing_is_read_of_the_index_and_no_model_is_opened(town):
    """Texts, extractions, descriptions and findings that cannot be read stop no run with nothing to do; it loads no heavy library."""
    with sqlite3.connect(town / ".localrag" / "index.db") as db:
        for table, column in (("chunks", "text"), ("extractions", "result"), ("entities", "descriptions"), ("reports", "findings")):
            db.execute(f"UPDATE {table} SET {column} = x'ff'")
    db.close()
    before = rows(town, "SELECT kind, version FROM vector_versions ORDER BY 1")
    code = f"""
import sys
from pathlib import Path
from tests.indexing.test_nothing_to_do import index
assert not index(Path({str(town)!r})).n_changed
print([m for m in ("llama_cpp", "torch", "igraph", "scipy.spatial", "faiss", "transformers", "tokenizers") if m in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, env=os.environ, cwd=ROOT)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr
    assert rows(town, "SELECT kind, version FROM vector_versions ORDER BY 1") == before


def test_a_touched_file_is_read_once_and_nothing_is_stored_anew(town):
    """Another time and the same content: the file is read, no row of it changes, and the next run does not open it."""
    before = rows(town, "SELECT * FROM documents ORDER BY id")
    os.utime(town / "docs" / "b.txt", (OLD + 5, OLD + 5))

    assert opened(town, lambda: index(town)) == ["b.txt"]
    assert opened(town, lambda: index(town)) == []
    assert rows(town, "SELECT * FROM documents ORDER BY id") == before


def test_another_content_of_the_same_looks_is_found_when_asked_for(town):
    """Same size, time and inode, other letters: a usual run passes it over, `--verify` reads it, on the command line, too."""
    file = town / "docs" / "b.txt"
    file.write_text(TOWN["b.txt"].replace("Holm", "Halm"))
    os.utime(file, (OLD, OLD))

    assert index(town).n_changed == 0
    done = run_localrag("index", "docs", "--verify", cwd=town)

    assert done.returncode == 0, done.stderr
    assert "Halm" in rows(town, "SELECT text FROM documents WHERE path = 'docs/b.txt'")[0][0]


def test_a_clock_that_goes_backwards_hides_no_change(town):
    """A file changed under an earlier date than the one it was read under is read."""
    write(town / "docs" / "b.txt", TOWN["b.txt"].replace("Holm", "Halm"), OLD - 86_400)

    assert index(town).changed == ("docs/b.txt",)


@pytest.mark.ci
def test_a_file_changed_just_now_is_read_once_more(town):
    """A file as young as the run may change again within one tick of its clock: it is read by the next run, too, as is one of tomorrow."""
    write(town / "docs" / "young.txt", "Ruth Sand met Lars Holm.", time.time())
    write(town / "docs" / "tomorrow.txt", "Ruth Sand met Ingrid Holm.", time.time() + 86_400)
    index(town)

    assert opened(town, lambda: index(town)) == ["tomorrow.txt", "young.txt"]
    (town / "docs" / "young.txt").write_text("Ruth Sand met Lars Halm.")
    assert index(town).changed == ("docs/young.txt",)


def test_what_a_file_is_while_it_is_hashed_is_not_kept_where_it_changes(tmp_path, monkeypatch):
    """A file that grows while its digest is computed is known by nothing afterwards."""
    file = tmp_path / "a.txt"
    write(file, "one")
    real = discover.file_digest
    monkeypatch.setattr(discover, "file_digest", lambda *a: (real(*a), write(file, "one more", OLD + 1))[0])
    found = discover.DigestCache({"a.txt": FileStat(1, 2, 3, "x")})

    found.digest_of("a.txt", file)

    assert found.new_stats() == {}


@pytest.mark.ci
def test_options_that_bear_on_a_file_have_it_read_again(tmp_path):
    """Another text column reads tables anew, and only these; another version of the loader all files."""
    write(tmp_path / "docs" / "a.txt", TOWN["b.txt"])
    write(tmp_path / "docs" / "t.csv", "note,text\nRuth Sand met Lars Holm,Ingrid Holm wrote to Ruth Sand\n")
    index(tmp_path)

    assert opened(tmp_path, lambda: index(tmp_path)) == []
    assert index(tmp_path, text_column="note").changed == ("docs/t.csv",)
    assert index(tmp_path).n_changed == 0


def test_a_newer_parser_reads_its_own_files_again(town, monkeypatch):
    """Files of other kinds stay closed, and the next run has nothing to do."""
    monkeypatch.setitem(parser_process.PARSER_VERSIONS, "markup.parse_markdown", 99)

    assert opened(town, lambda: index(town)) == ["a.md"]
    assert opened(town, lambda: index(town)) == []


def test_a_file_is_known_by_what_it_is_not_by_its_name(tmp_path, monkeypatch):
    """A PDF and a table without suffixes: a newer parser of PDF and another text column read just these again."""
    write(tmp_path / "docs" / "a.txt", TOWN["b.txt"])
    write(tmp_path / "docs" / "report", pdf(["Ruth Sand met Lars Holm."]))
    write(tmp_path / "docs" / "sums", xlsx())
    index(tmp_path)

    assert opened(tmp_path, lambda: index(tmp_path, verify=True)) == ["a.txt", "report", "sums"]
    assert index(tmp_path, verify=True).n_changed == 0
    monkeypatch.setitem(parser_process.PARSER_VERSIONS, "pdf.parse_pdf", 99)
    assert opened(tmp_path, lambda: index(tmp_path)) == ["report"]
    assert opened(tmp_path, lambda: index(tmp_path, text_column="Name")) == ["sums"]
    assert opened(tmp_path, lambda: index(tmp_path)) == []


def test_leftovers_come_with_all_files_and_go_without(tmp_path):
    """Also minified code, which its content tells; both are listed while they are left out."""
    write(tmp_path / "docs" / "a.txt", TOWN["b.txt"])
    write(tmp_path / "docs" / "a.txt.bak", "Ruth Sand met Walter Muir at Molde.")
    write(tmp_path / "docs" / "b.js", "say('Agnes Thorburn paid Walter Muir.');" * 99)

    assert {Path(s.path).name for s in index(tmp_path).skipped} == {"a.txt.bak", "b.js"}
    assert set(index(tmp_path, all_files=True).new) == {"docs/a.txt.bak", "docs/b.js"}
    assert index(tmp_path).n_changed == 0
    assert set(index(tmp_path, all_files=False).deleted) == {"docs/a.txt.bak", "docs/b.js"}


def test_a_kept_stat_leaves_with_its_document(town):
    """After `rm` nothing is kept of the file, and it is read again when it is indexed again; what is gone is known no more."""
    done = run_localrag("rm", "docs/b.txt", cwd=town)
    assert done.returncode == 0, done.stderr
    assert "docs/b.txt" not in {path for (path,) in rows(town, "SELECT path FROM file_stats")}
    assert index(town).new == ("docs/b.txt",)
    (town / "docs" / "b.txt").unlink()
    index(town)
    assert "docs/b.txt" not in {path for (path,) in rows(town, "SELECT path FROM file_stats")}


def test_a_headers_change_makes_vectors_anew(town):
    """With and again without titles before the chunks, vectors are those of an index made so at once."""
    plain = rows(town, "SELECT subject_id, content_hash FROM embeddings WHERE kind = 'chunk' ORDER BY 1")
    index(town, prepend_metadata=True)
    headed = rows(town, "SELECT subject_id, content_hash FROM embeddings WHERE kind = 'chunk' ORDER BY 1")
    index(town, prepend_metadata=False)

    assert [a[1] for a in headed] != [a[1] for a in plain]
    assert rows(town, "SELECT subject_id, content_hash FROM embeddings WHERE kind = 'chunk' ORDER BY 1") == plain
