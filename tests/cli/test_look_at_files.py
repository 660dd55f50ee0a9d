"""Files of all kinds on the command line: what was read, what was left out and why, pages in citations, rows with a text column."""

import json

import pytest

from localrag.index import Index
from tests.conftest import run_localrag
from tests.indexing import files


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


def test_the_columns_of_tables_are_kept_as_settings(office):
    """--text-column reads the rows anew and stays in force."""
    run_localrag("index", "docs", "--extractor", "phrases", "--text-column", "story", "--metadata-columns", "name", cwd=office)
    again = run_localrag("index", "docs", cwd=office)
    with Index.open(office) as index:
        (text,) = (d.text for d in index.documents() if d.path == "docs/crew.csv")

    assert text == "name: Ruth Sand\nRuth Sand sailed to Brannock.\n\nname: Lars Holm\nLars Holm stayed in Vardby."
    assert "Nothing new" in again.stderr
