"""Scans that would take days: a file has an hour in each run, what was not read is listed, and the next run reads on."""

import sys
from itertools import count
from types import SimpleNamespace

import pytest

from localrag.indexing.documents import StoredFiles, detect_changes
from localrag.loaders import ocr
from localrag.loaders.content import LoadOptions
from localrag.loaders.discover import DigestCache
from localrag.loaders.ocr import OUT_OF_TIME, OcrProgram, ocr_pages_reader, parse_json
from localrag.loaders.reader import content_hash_of, load_files
from localrag.records import SkippedFile
from localrag.store.documents import OcrPages, delete_unused_ocr_pages, replace_skipped_files
from localrag.store.opening import open_index
from tests.indexing.scans import Kept, drawn, scanned_pdf

PAGES = 20
# A program that finds a word in any page, or none.
SCRIPT = """import json, sys
words = [["harbour", 10, 10, 200, 40, 95, 1]] if sys.argv[1] == "legible" else []
print(json.dumps({"width": 400, "height": 400, "words": words}))
"""


@pytest.fixture(autouse=True)
def _ten_minutes_a_page(monkeypatch):
    """A clock on which each look takes ten minutes."""
    ticks = count(0, 600)
    monkeypatch.setattr(ocr, "time", SimpleNamespace(monotonic=lambda: next(ticks)))


def loaded(file, kept, kind="legible"):
    """What becomes of a file in one run."""
    program = OcrProgram("Reader 1", "Reader", (sys.executable, "-I", "-c", SCRIPT, kind), {}, parse_json)
    (found,) = load_files([file], file.parent, LoadOptions(ocr="eng"), scans=ocr_pages_reader(program, "eng", kept, lambda *_: None))
    return found


@pytest.fixture
def file(tmp_path):
    """A scan of many pages that differ."""
    (tmp_path / "a.pdf").write_bytes(scanned_pdf(*(drawn(f"Page {n}", size=(600, 300)) for n in range(PAGES))))
    return tmp_path / "a.pdf"


@pytest.mark.ci
def test_a_scan_that_takes_longer_than_an_hour_is_read_in_several_runs(file):
    """Each run reads some pages and lists the others with the command that reads on; then the document is as if read at once."""
    kept, shares = Kept(), []
    whole = content_hash_of(file, DigestCache({}).digest_of("a.pdf", file), LoadOptions(ocr="eng"))
    while len(shares) < PAGES:
        found = loaded(file, kept)
        shares.append(len(found.parts))
        changes = detect_changes({"a.pdf": file}, StoredFiles({"a.pdf": found.content_hash}), DigestCache({}), LoadOptions(ocr="eng"))
        listed = dict(found.metadata).get("not read", "")
        if not listed:
            break
        assert listed == f"pages {shares[-1] + 1} to {PAGES}: {OUT_OF_TIME}"
        assert "localrag index" in listed
        assert changes.to_read == {"a.pdf": file}
        assert kept.owner[0] == found.content_hash != whole
    assert len(shares) > 2
    assert shares == sorted(set(shares))
    assert shares[-1] == PAGES
    assert found.content_hash == whole
    assert changes.to_read == {}


@pytest.mark.ci
def test_a_scan_of_nonsense_is_not_begun_anew_by_each_run(file, tmp_path):
    """Its pages stay in the index while it is skipped, until all were read; then it is known as read."""
    db = open_index(tmp_path / ".localrag", create=True)
    read = []
    for _ in range(PAGES):
        found = loaded(file, OcrPages(db), "nonsense")
        assert isinstance(found, SkippedFile)
        replace_skipped_files(db, [found])
        delete_unused_ocr_pages(db)
        read.append(db.execute("SELECT count(*) FROM ocr_pages").fetchone()[0])
        if OUT_OF_TIME not in found.reason:
            break
    assert read == sorted(set(read))
    assert read[-1] == PAGES
    replace_skipped_files(db, [])
    delete_unused_ocr_pages(db)
    assert db.execute("SELECT count(*) FROM ocr_pages").fetchone()[0] == 0
