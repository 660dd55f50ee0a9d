"""Pages without text → their words: each is drawn by the confined process, read by Tesseract, and kept as soon as it is read."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from hashlib import blake2b, file_digest
from pathlib import Path
from typing import Any, Protocol

from localrag.index.documents.load.tesseract import Page, Reader, Tesseract
from localrag.records import content_id
from localrag.system.cores import free_cores

VERSION = 1  # of what is read of a page: with another one, every scan is read again
MOST_AT_ONCE = 8  # pages in memory, 25 MB each; a core draws no faster than eight read
Draw = Callable[[int], dict[str, Any]]  # a page's number → what `pixels.to_read` says, or the reason why there is nothing
# The file, its content hash, numbers of pages and how they are drawn → the pages.
ReadScans = Callable[[Path, str, Sequence[int], Draw], Mapping[int, Page]]


class Kept(Protocol):
    """Where pages are kept that were read: by the scan (`scan_id`) they are of, and by what they look like."""

    def pages(self, scan: str) -> Mapping[int, Page]:
        """The pages of a scan that were read, by number."""

    def like(self, looks: str) -> Page | None:
        """A page that looks just so, of whichever scan."""

    def keep(self, scan: str, number: int, looks: str, page: Page) -> None:
        """Commit a page."""

    def belong(self, content_hash: str, scan: str, languages: str) -> None:
        """The pages of a scan are those of a document."""


def scan_id(file: Path, languages: str) -> str:
    """What the pages of a file, read in these languages, are kept under. Raises OSError."""
    with file.open("rb") as f:
        digest = file_digest(f, lambda: blake2b(digest_size=20)).hexdigest()
    return content_id("scan", VERSION, digest, languages)


def scan_reader(tesseract: Tesseract, languages: str, kept: Kept, tell: Callable[[int, int], None]) -> ReadScans:
    """Reads the pages of files that nobody has read yet; `tell` hears how many of how many are done, of the file at hand."""

    def read(file: Path, content_hash: str, numbers: Sequence[int], draw: Draw) -> Mapping[int, Page]:
        scan = scan_id(file, languages)
        pages = {n: page for n, page in kept.pages(scan).items() if n in numbers}
        tell(len(pages), len(numbers))
        for n, looks, page in _read([n for n in numbers if n not in pages], draw, Reader(tesseract, languages), languages, kept):
            kept.keep(scan, n, looks, page)
            pages[n] = page
            tell(len(pages), len(numbers))
        kept.belong(content_hash, scan, languages)
        return pages

    return read


def _read(numbers: Sequence[int], draw: Draw, reader: Reader, languages: str, kept: Kept) -> Iterator[tuple[int, str, Page]]:
    """Pages in their order, as many at once as there are cores. Whoever stops listening ends what runs."""
    at_once = min(MOST_AT_ONCE, free_cores())
    running: deque[tuple[int, str, Future[Page]]] = deque()
    with ThreadPoolExecutor(at_once) as pool:
        try:
            for n in numbers:
                drawn = draw(n)
                image = drawn.get("image", b"")
                looks = content_id("page", VERSION, languages, blake2b(image).hexdigest()) if image else ""
                running.append((n, looks, _soon(drawn, kept.like(looks) if looks else None, reader, pool)))
                while len(running) > at_once or (running and running[0][2].done()):
                    yield _first(running)
            while running:
                yield _first(running)
        finally:
            reader.stop()


def _first(running: deque[tuple[int, str, Future[Page]]]) -> tuple[int, str, Page]:
    number, looks, found = running.popleft()
    return number, looks, found.result()


def _soon(drawn: dict[str, Any], known: Page | None, reader: Reader, pool: ThreadPoolExecutor) -> "Future[Page]":
    if "image" in drawn and known is None:
        return pool.submit(reader.read, drawn["image"])
    done: Future[Page] = Future()
    nothing = {"width": 0, "height": 0, "words": []}
    done.set_result(known or nothing | ({"blank": True} if drawn.get("blank") else {"why": drawn.get("reason", "")}))
    return done
