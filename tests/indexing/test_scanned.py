"""Scans in an index: read once, whatever comes between; listed where nothing reads them; erased with their document."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import suppress

import psutil
import pytest

from localrag.indexing.pipeline import plan_index
from localrag.loaders.ocr import OcrReader
from localrag.model_files import find_chat_model
from localrag.project import open_for_writing
from tests.conftest import run_localrag
from tests.indexing.runs import put, rows
from tests.indexing.scans import drawn, needs, remove_ocr, saved, scanned_pdf, without_tesseract

pytestmark = [pytest.mark.ci, needs("eng")]
NAMES = ("herring", "timber", "lantern", "anchor", "barrel", "compass")
PAGES = [f"Ruth Sand wrote page {n} about the {name}\nof the ferry Skua in Brannock." for n, name in enumerate(NAMES, 1)]


def docs(folder, **files):
    put(folder, {name.replace("_", "."): data for name, data in files.items()})


@pytest.fixture
def calls(monkeypatch):
    """How many pages Tesseract was asked for so far, with the real one behind."""
    asked = []
    read = OcrReader.read
    monkeypatch.setattr(OcrReader, "read", lambda self, image: asked.append(1) or read(self, image))
    return asked


def index(folder, *more, **env):
    done = run_localrag("index", "docs", "--extractor", "phrases", "-q", *more, cwd=folder, **env)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def test_a_scan_is_read_once(tmp_path, calls):
    """A second run asks for no page; one page more asks for that page; a copy and a move ask for none."""
    docs(tmp_path, a_pdf=scanned_pdf(*(drawn(t, size=(1800, 600)) for t in PAGES[:2])))
    index(tmp_path)
    assert len(calls) == 2
    index(tmp_path)
    assert len(calls) == 2
    (tmp_path / "docs" / "a.pdf").rename(tmp_path / "docs" / "b.pdf")
    index(tmp_path)
    assert len(calls) == 2
    docs(tmp_path, b_pdf=scanned_pdf(*(drawn(t, size=(1800, 600)) for t in PAGES[:3])))
    index(tmp_path)
    assert len(calls) == 3
    index(tmp_path)

    [(text,)] = rows(tmp_path, "SELECT text FROM documents")
    assert all(name in text for name in NAMES[:3])
    assert rows(tmp_path, "SELECT count(*), count(DISTINCT scan_id) FROM ocr_pages") == [(3, 1)]


def test_what_a_killed_run_has_read_is_not_read_again(tmp_path, calls):
    """The process is killed between two pages of six; the next run reads the rest only, and the index is whole."""
    docs(tmp_path, a_pdf=scanned_pdf(*(drawn(t, size=(2480, 3000)) for t in PAGES)))
    command = [sys.executable, "-m", "localrag", "index", "docs", "--extractor", "phrases", "-q"]
    process = subprocess.Popen(command, cwd=tmp_path, env=os.environ)
    done = 0
    while not done and process.poll() is None:
        time.sleep(0.02)
        if (tmp_path / ".localrag" / "index.db").exists():
            try:
                [(done,)] = rows(tmp_path, "SELECT count(*) FROM ocr_pages")
            except sqlite3.OperationalError:
                done = 0
    process.send_signal(signal.SIGKILL)
    process.wait()
    [(kept,)] = rows(tmp_path, "SELECT count(*) FROM ocr_pages")
    assert 0 < kept < 6
    index(tmp_path)

    assert len(calls) == 6 - kept
    [(text, parts)] = rows(tmp_path, "SELECT text, parts FROM documents")
    assert all(name in text for name in NAMES)
    assert [label for label, *_ in json.loads(parts)] == [f"page {n}" for n in range(1, 7)]


def test_an_interrupt_ends_a_scan_at_once(tmp_path):
    """Ctrl-C while Tesseract reads: the run ends in 130 within seconds, and no process of it is left."""
    docs(tmp_path, a_pdf=scanned_pdf(*(drawn("\n".join([t] * 12), size=(2480, 3000)) for t in PAGES)))
    command = [sys.executable, "-m", "localrag", "index", "docs", "--extractor", "phrases", "-q"]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    deadline, reading = time.monotonic() + 300, []
    while not reading and time.monotonic() < deadline:
        time.sleep(0.05)
        with suppress(psutil.Error):  # one that has just ended
            reading = [p for p in psutil.Process(process.pid).children(recursive=True) if p.name() == "tesseract"]
    assert reading
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)

    assert process.returncode == 130, said
    assert "Stopped. Saved:" in said
    assert not psutil.wait_procs(reading, timeout=5)[1]


def test_scans_wait_until_there_is_something_to_read_them_with(tmp_path, monkeypatch):
    """Without OCR they are listed with the reason and where to look; once it is installed the same command reads them."""
    docs(tmp_path, a_pdf=scanned_pdf(drawn(PAGES[0], size=(1800, 600))), b_png=saved(drawn(PAGES[1], size=(1800, 600))), c_txt=b"A note.")
    with monkeypatch.context() as bare:
        remove_ocr(bare, tmp_path)
        index(tmp_path)
    listed = run_localrag("files", "--skipped", cwd=tmp_path).stdout
    assert "docs/a.pdf: only images, no text (scanned?): neither Tesseract nor RapidOCR is installed (localrag doctor)" in listed
    assert "docs/b.png: a picture: neither Tesseract nor RapidOCR is installed (localrag doctor)" in listed
    index(tmp_path)

    assert rows(tmp_path, "SELECT path FROM documents ORDER BY path") == [("docs/a.pdf",), ("docs/b.png",), ("docs/c.txt",)]
    assert run_localrag("files", "--skipped", cwd=tmp_path).stdout == ""


@pytest.mark.parametrize("other", ["RapidOCR", "nothing"])
def test_what_was_read_stays_where_tesseract_is_gone(other, tmp_path, monkeypatch, calls):
    """The index moves to a machine without it: nothing is lost or read again; where the chunks are cut anew, what is there reads it."""
    docs(tmp_path, a_pdf=scanned_pdf(drawn(PAGES[0], size=(1800, 600))), c_txt=b"Lars Holm left a note.")
    index(tmp_path)
    if other == "nothing":
        remove_ocr(monkeypatch, tmp_path)
    monkeypatch.setenv("PATH", without_tesseract(tmp_path))
    index(tmp_path)
    assert len(calls) == 1
    index(tmp_path, "--chunk-tokens", "200")

    assert rows(tmp_path, "SELECT path FROM documents ORDER BY path") == [("docs/a.pdf",), ("docs/c.txt",)]
    assert len(calls) == (2 if other == "RapidOCR" else 1)
    index(tmp_path)  # takes away what no document uses any more
    assert rows(tmp_path, "SELECT count(DISTINCT scan_id) FROM ocr_documents") == [(1,)]


def test_no_ocr_leaves_scans_out(tmp_path, calls):
    """It is a setting of the index like others: kept, said as the reason, and taken back."""
    docs(tmp_path, a_png=saved(drawn(PAGES[0], size=(1800, 600))), c_txt=b"A note.")
    index(tmp_path, "--no-ocr")
    index(tmp_path)
    assert not calls
    assert "docs/a.png: a picture: --no-ocr" in run_localrag("files", "--skipped", cwd=tmp_path).stdout
    index(tmp_path, "--ocr")

    assert len(calls) == 1
    assert rows(tmp_path, "SELECT path FROM documents ORDER BY path") == [("docs/a.png",), ("docs/c.txt",)]


@needs("deu")
def test_other_languages_read_the_scans_again(tmp_path, calls):
    """The words are those of the languages that were asked for last; what was read before is forgotten."""
    docs(tmp_path, a_png=saved(drawn("Die Brücke ist größer.", size=(1800, 600))))
    index(tmp_path)
    index(tmp_path, "--ocr-languages", "deu,eng")
    index(tmp_path)
    assert len(calls) == 2
    assert rows(tmp_path, "SELECT text FROM documents") == [("Die Brücke ist größer.",)]
    index(tmp_path)
    assert rows(tmp_path, "SELECT languages FROM ocr_documents") == [("deu+eng",)]
    refused = run_localrag("index", "docs", "--ocr-languages", "tlh", cwd=tmp_path)
    assert refused.returncode == 2 and "tesseract-ocr-tlh" in refused.stderr


def test_pages_that_are_not_read_are_listed(tmp_path):
    """`localrag files --skipped` names the page and the reason; of the document the rest is there."""
    import numpy as np
    from PIL import Image

    noise = Image.fromarray(np.random.default_rng(0).integers(0, 255, (900, 1200), dtype="uint8"))
    docs(tmp_path, a_pdf=scanned_pdf(drawn(PAGES[0], size=(1800, 600)), noise))
    index(tmp_path)

    assert run_localrag("files", "--skipped", cwd=tmp_path).stdout == "indexed  docs/a.pdf: page 2: no legible text\n"


def test_the_plan_counts_the_pages(tmp_path, calls):
    """Nothing is read; how many pages would be, is said."""
    docs(tmp_path, a_pdf=scanned_pdf(*(drawn(t, size=(900, 300), letters=20) for t in PAGES)), b_txt=b"A note.")
    with open_for_writing(tmp_path / ".localrag", extractor="phrases") as project:
        found = plan_index([tmp_path / "docs"], tmp_path, project.settings, find_chat_model(None), project.db)
    said = run_localrag("index", "docs", "--plan", cwd=tmp_path).stdout

    assert (found.scans, found.to_read, found.skipped) == (6, 2, ())
    assert "scans     6 pages to be read by OCR" in said
    assert not calls


def test_the_words_of_a_scan_are_erased_with_its_document(tmp_path):
    """After `rm` no page of it is stored, also none of what looked the same; the other scan's are."""
    docs(tmp_path, a_pdf=scanned_pdf(drawn(PAGES[0], size=(1800, 600))), b_pdf=scanned_pdf(drawn(PAGES[1], size=(1800, 600))))
    index(tmp_path)
    assert run_localrag("rm", "docs/a.pdf", cwd=tmp_path).returncode == 0

    assert rows(tmp_path, "SELECT s.content_hash = d.content_hash FROM ocr_documents s, documents d") == [(1,)]
    assert rows(tmp_path, "SELECT count(*) FROM ocr_pages") == [(1,)]
