"""Pages of scans and pictures that were read by OCR: the words with their places, kept for citations and for runs that go on.

A page is stored as soon as it is read, under the scan it is of (the file's bytes and the languages) and under what it looks like. Pages
belong to the documents of a content hash. What belongs to no document any more goes with the next run; what a killed run has read belongs
to none yet, and waits for the next one or an erasure.
"""

import json
import zlib
from collections.abc import Sequence
from typing import Any

from sqlite_utils import Database

Page = dict[str, Any]  # as `index/documents/load/tesseract.py` has it
_STORED = "SELECT content_hash FROM main.documents UNION SELECT content_hash FROM next_documents"


class KeptPages:
    """The pages in a database."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def pages(self, scan: str) -> dict[int, Page]:
        """The pages of a scan that were read, by number."""
        rows = self._db.execute("SELECT page, words FROM scanned_pages WHERE scan = ? ORDER BY page", [scan])
        return {number: _unpacked(words) for number, words in rows}

    def like(self, looks: str) -> Page | None:
        """A page that looks just so, of whichever scan."""
        row = self._db.execute("SELECT words FROM scanned_pages WHERE looks = ? LIMIT 1", [looks]).fetchone()
        return _unpacked(row[0]) if row else None

    def keep(self, scan: str, number: int, looks: str, page: Page) -> None:
        """Commit a page."""
        data = zlib.compress(json.dumps(page, ensure_ascii=False, separators=(",", ":")).encode())
        with self._db.atomic():
            self._db.execute("INSERT OR REPLACE INTO scanned_pages VALUES (?, ?, ?, ?)", [scan, number, looks, data])

    def belong(self, content_hash: str, scan: str, languages: str) -> None:
        """The pages of a scan are those of the documents of a content hash."""
        with self._db.atomic():
            self._db.execute("INSERT OR REPLACE INTO scans VALUES (?, ?, ?)", [content_hash, scan, languages])


def _unpacked(words: bytes) -> Page:
    page: Page = json.loads(zlib.decompress(words))
    return page


def languages(db: Database) -> dict[str, str]:
    """Content hash → the languages its pages were read in, of every document with scanned pages."""
    return dict(db.execute("SELECT content_hash, languages FROM scans"))


def pages_of(db: Database, content_hash: str, numbers: Sequence[int]) -> dict[int, Page]:
    """Those of a document's pages that were read by OCR, by number."""
    joined = "scanned_pages p JOIN scans s ON s.scan = p.scan WHERE s.content_hash = ? AND p.page IN (SELECT value FROM json_each(?))"
    return {
        n: _unpacked(words) for n, words in db.execute(f"SELECT p.page, p.words FROM {joined}", [content_hash, json.dumps(list(numbers))])
    }


def forget_unused(db: Database, *, unfinished: bool = False) -> None:
    """Delete the pages of scans whose documents are gone, also those waiting to be published; `unfinished`: those of killed runs, too."""
    with db.atomic():
        gone = [scan for (scan,) in db.execute(f"SELECT scan FROM scans WHERE content_hash NOT IN ({_STORED})")]
        db.execute(f"DELETE FROM scans WHERE content_hash NOT IN ({_STORED})")
        orphans = "DELETE FROM scanned_pages WHERE scan NOT IN (SELECT scan FROM scans)"
        if unfinished:
            db.execute(orphans)
        else:
            db.execute(f"{orphans} AND scan IN (SELECT value FROM json_each(?))", [json.dumps(gone)])
