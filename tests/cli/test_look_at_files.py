"""Files of all kinds on the command line: what was read, what was left out and why, pages in citations, rows with a text column."""

import json
import sqlite3

import pytest

from tests.conftest import run_localrag
from tests.indexing import files


def rows(folder, sql):
    return sqlite3.connect(folder / ".localrag" / "index.db").execute(sql).fetchall()


@pytest.fixture(autouse=True)
def no_reader(monkeypatch):
    """No chat model is loaded for what these tests ask: answers are sentences of the documents."""
    monkeypatch.setenv("LOCALRAG_ENGINE", "adapter=no")


@pytest.fixture(scope="module")
def office(tmp_path_factory):
    """A folder of a PDF, a sheet, a locked and a broken file, indexed without a language model."""
    folder = tmp_path_factory.mktemp("office")
    docs = folder / "docs"
    docs.mkdir()
    pages = (["Ruth Sand bought the ferry Skua in Brannock."], ["Lars Holm repaired the pump of the Skua in Vardby."])
    (docs / "log.pdf").write_bytes(files.pdf(*pages, title="The log of the Skua"))
    (docs / "crew.csv").write_text("id,name,story\n1,Ruth Sand,Ruth Sand sailed to Brannock.\n2,Lars Holm,Lars Holm stayed in Vardby.\n")
    (docs / "locked.pdf").write_bytes(files.locked_pdf())
    (docs / "cut.docx").write_bytes(files.docx()[:3000])
    done = run_localrag("index", "docs", "--extractor", "phrases", cwd=folder)
    assert done.returncode == 5, done.stderr
    return folder


def test_files_says_what_became_of_each(office):
    """One line a file, or one JSON object a file; --skipped leaves out those that were read."""
    found = [json.loads(line) for line in run_localrag("files", "--json", cwd=office).stdout.splitlines()]
    shown = run_localrag("files", "--skipped", cwd=office).stdout.splitlines()

    assert found == [
        {"path": "docs/crew.csv", "state": "indexed", "reason": ""},
        {"path": "docs/cut.docx", "state": "failed", "reason": "damaged: File is not a zip file"},
        {"path": "docs/locked.pdf", "state": "skipped", "reason": "password-protected"},
        {"path": "docs/log.pdf", "state": "indexed", "reason": ""},
    ]
    assert shown == ["failed   docs/cut.docx: damaged: File is not a zip file", "skipped  docs/locked.pdf: password-protected"]


def test_a_citation_names_its_page(office):
    """In the text, in JSON and by `source`, the page stands beside the file."""
    shown = run_localrag("ask", "Who repaired the pump of the Skua?", "--mode", "basic", "--style", "extractive", cwd=office).stdout
    (first, *_) = json.loads(run_localrag("logs", "--json", cwd=office).stdout)[0]["citations"]

    assert (first["path"], first["part"]) == ("docs/log.pdf", "page 2")
    assert "] docs/log.pdf › page 2" in shown
    assert "docs/log.pdf › page 2, " in run_localrag("source", str(first["n"]), cwd=office).stdout


def test_an_unchanged_file_costs_nothing_and_a_known_text_nothing_but_reading(office):
    """Files are known by their bytes; one whose hash is of another version is read anew, and what was made of its text stays."""
    chunks = "SELECT id, rowid FROM chunks ORDER BY rowid"
    before = rows(office, "SELECT id, content_hash, metadata, parts FROM documents ORDER BY id"), rows(office, chunks)
    with sqlite3.connect(office / ".localrag" / "index.db") as db:
        db.execute("UPDATE documents SET content_hash = 'of old', metadata = '[]', parts = '[]' WHERE path = 'docs/log.pdf'")
    done = run_localrag("index", "docs", "--extractor", "phrases", cwd=office)

    assert "Nothing new" in done.stderr
    assert (rows(office, "SELECT id, content_hash, metadata, parts FROM documents ORDER BY id"), rows(office, chunks)) == before


def test_columns_and_headers_are_kept_as_settings(office):
    """--text-column reads the rows anew and stays in force; --prepend-metadata embeds chunks anew, and their text stays verbatim."""
    vectors = dict(rows(office, "SELECT subject_id, content_hash FROM embeddings WHERE kind = 'chunk'"))
    options = ("--text-column", "story", "--metadata-columns", "name", "--prepend-metadata")
    run_localrag("index", "docs", "--extractor", "phrases", *options, cwd=office)
    ((text,),) = rows(office, "SELECT text FROM documents WHERE path = 'docs/crew.csv'")
    again = run_localrag("index", "docs", cwd=office)
    after = dict(rows(office, "SELECT subject_id, content_hash FROM embeddings WHERE kind = 'chunk'"))

    assert text == "name: Ruth Sand\nRuth Sand sailed to Brannock.\n\nname: Lars Holm\nLars Holm stayed in Vardby."
    assert "Nothing new" in again.stderr
    ((chunk, body, whole, tokens),) = rows(
        office, "SELECT c.id, c.text, d.text, c.tokens FROM chunks c JOIN documents d ON d.id = c.document_id WHERE path = 'docs/log.pdf'"
    )
    assert body == whole
    assert vectors[chunk] != after[chunk]
    assert tokens > len(body.split()) + 5  # those of the header are counted
