"""How surely the words of a sentence are found on the pictures of PDF pages: the text in the boxes, read back, against the sentence.

python scripts/eval_boxes.py FOLDER [--sentences 20] [--seed 0] [--misses]
"""

import argparse
import ctypes
import random
import time
import unicodedata
from pathlib import Path
from statistics import median

import pypdfium2
import pypdfium2.raw as pdfium

from localrag.loaders.reader import load_files
from localrag.records import Document
from localrag.serve.files import PageRenderer
from localrag.text.sentences import sentences

UNITS = 100_000  # of the picture's width and height

arguments = argparse.ArgumentParser(description=__doc__)
arguments.add_argument("folder", type=Path)
arguments.add_argument("--sentences", type=int, default=20)
arguments.add_argument("--seed", type=int, default=0)
arguments.add_argument("--misses", action="store_true", help="print them")


def letters(text: str) -> str:
    return "".join(c for c in unicodedata.normalize("NFKC", text) if c.isalnum())


def read_back(file: Path, shown: dict) -> str:
    """The letters whose middle lies in a box, in the page's order."""
    page = pypdfium2.PdfDocument(file)[shown["n"] - 1]
    text = page.get_textpage()
    bounds = [on_page(page, *box[:2]) + on_page(page, *box[2:]) for box in shown["boxes"]]
    found = []
    for i in range(text.count_chars()):
        left, bottom, right, top = text.get_charbox(i)
        x, y = (left + right) / 2, (bottom + top) / 2
        if any(min(a, c) <= x <= max(a, c) and min(b, d) <= y <= max(b, d) for a, b, c, d in bounds):
            found.append(chr(pdfium.FPDFText_GetUnicode(text, i)))
    return "".join(found)


def on_page(page: pypdfium2.PdfPage, across: float, down: float) -> tuple[float, float]:
    """A place on the picture, in fractions, in the page's own space."""
    x, y = ctypes.c_double(), ctypes.c_double()
    pdfium.FPDF_DeviceToPage(page, 0, 0, UNITS, UNITS, 0, round(across * UNITS), round(down * UNITS), x, y)
    return x.value, y.value


def main() -> None:
    args = arguments.parse_args()
    chance = random.Random(args.seed)
    pages, files = PageRenderer(), sorted(args.folder.rglob("*.pdf"))
    asked = placed = right = exact = 0
    took: list[float] = []
    for made in load_files(files, args.folder):
        if not isinstance(made, Document):
            continue
        file = args.folder / made.path
        spans = [(a, b) for a, b in sentences(made.text) if 30 <= b - a <= 600]
        for a, b in chance.sample(spans, min(args.sentences, len(spans))):
            shown = [(int(p.label.split()[-1]), p.start, p.end) for p in made.parts if p.start < b and p.end > a]
            before = (a - shown[0][1]) / max(1, shown[-1][2] - shown[0][1])
            started = time.perf_counter()
            found = [p for p in pages.find_boxes(file, [n for n, *_ in shown], made.text[a:b], before) if p["boxes"]]
            took.append(time.perf_counter() - started)
            asked += 1
            placed += bool(found)
            back = letters(" ".join(read_back(file, p) for p in found))
            right += letters(made.text[a:b]) in back
            exact += letters(made.text[a:b]) == back
            if args.misses and letters(made.text[a:b]) != back:
                print(f"{made.path}\n  sentence {made.text[a:b]!r}\n  boxes    {back!r}")
    pages.close()
    shares = f"{placed / asked:.1%} placed, {right / asked:.1%} read back whole, {exact / asked:.1%} with nothing else"
    print(f"{len(files)} files, {asked} sentences: {shares}, median {1000 * median(took):.1f} ms")


if __name__ == "__main__":
    main()
