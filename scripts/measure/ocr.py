"""How well scans are read: pages of PDFs that have a text layer, made pictures of, against that layer.

    python -m scripts.measure.ocr FOLDER [--pages 10] [--dpi 150 200 300] [--languages eng]

Of every PDF below FOLDER its first page with 150 words in Latin letters or more; of these, evenly spread, as many as asked for. Each page
is drawn at a resolution, saved as a grey JPEG in a PDF without text, and read as `localrag index` does. Words are compared as multisets,
so that another order of columns counts for nothing: precision, recall, F1.
"""

import argparse
import io
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import pypdfium2
from PIL import Image

from localrag.loaders.content import LoadOptions
from localrag.loaders.ocr import OcrPage, find_ocr, ocr_pages_reader
from localrag.loaders.reader import load_files
from localrag.records import SkippedFile

ENOUGH = 150  # words of a page


class Nothing:
    """Keeps no page."""

    def pages(self, _scan: str) -> Mapping[int, OcrPage]:
        """None."""
        return {}

    def find_similar(self, _looks: str) -> OcrPage | None:
        """None."""
        return None

    def save(self, scan: str, number: int, looks: str, page: OcrPage) -> None:
        """Forget a page."""

    def link_document(self, content_hash: str, scan: str, languages: str) -> None:
        """Forget whose pages they are."""


def words(text: str) -> Counter[str]:
    """The words of a text, as often as they are in it."""
    return Counter(re.findall(r"\w+", text))


def candidates(folder: Path) -> Iterator[tuple[Path, int]]:
    """Every PDF with the number of its first page that has enough words, from 0."""
    for file in sorted(folder.rglob("*.pdf")):
        try:
            document = pypdfium2.PdfDocument(file)
        except pypdfium2.PdfiumError:
            continue
        for n in range(min(len(document), 5)):
            if len(re.findall(r"[A-Za-zÄÖÜäöüß]{2,}", document[n].get_textpage().get_text_range())) >= ENOUGH:
                yield file, n
                break


def alone(file: Path, n: int) -> bytes:
    """A PDF of one page of a PDF."""
    made = pypdfium2.PdfDocument.new()
    made.import_pages(pypdfium2.PdfDocument(file), [n])
    data = io.BytesIO()
    made.save(data)
    return data.getvalue()


def scanned(page: bytes, dpi: int) -> bytes:
    """The page as a scanner gives it."""
    image: Image.Image = pypdfium2.PdfDocument(page)[0].render(scale=dpi / 72, grayscale=True).to_pil()
    data = io.BytesIO()
    image.save(data, "PDF", resolution=dpi, quality=80)
    return data.getvalue()


def main() -> None:
    """Print a row for every page and resolution, then the means."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pages", type=int, default=10)
    parser.add_argument("--dpi", type=int, nargs="+", default=[150, 200, 300])
    parser.add_argument("--languages", default="eng")
    args = parser.parse_args()
    program = find_ocr(args.languages)
    if program is None:
        raise SystemExit("Tesseract is not installed.")
    found = list(candidates(args.folder))
    chosen = [found[i * len(found) // args.pages] for i in range(min(args.pages, len(found)))]
    reader = ocr_pages_reader(program, args.languages, Nothing(), lambda *_: None)
    rows: dict[int, list[tuple[float, float, float, float]]] = {dpi: [] for dpi in args.dpi}
    print(f"{program.name}, {args.languages}, {len(chosen)} pages\n{'page':<60} {'dpi':>4} {'F1':>6} {'seconds':>8}")
    with TemporaryDirectory() as folder:
        for file, n in chosen:
            page, at = alone(file, n), Path(folder) / "page.pdf"
            at.write_bytes(page)
            (layer,) = load_files([at], at.parent)
            if isinstance(layer, SkippedFile):
                continue
            wanted = words(layer.text)
            for dpi in args.dpi:
                at.write_bytes(scanned(page, dpi))
                started = time.perf_counter()
                (got,) = load_files([at], at.parent, LoadOptions(ocr=args.languages), scans=reader)
                seconds = time.perf_counter() - started
                there = Counter() if isinstance(got, SkippedFile) else words(got.text)
                same = (wanted & there).total()
                precision, recall = same / max(1, there.total()), same / max(1, wanted.total())
                f1 = 2 * precision * recall / max(1e-9, precision + recall)
                rows[dpi].append((precision, recall, f1, seconds))
                print(f"{f'{file.name}, page {n + 1}':<60} {dpi:>4} {f1:>6.3f} {seconds:>8.1f}", flush=True)
    for dpi, of in rows.items():
        p, r, f, s = (sum(column) / len(of) for column in zip(*of, strict=True))
        print(f"{dpi} dpi: precision {p:.3f}, recall {r:.3f}, F1 {f:.3f} (worst {min(x[2] for x in of):.3f}), {s:.1f} s a page")


if __name__ == "__main__":
    main()
