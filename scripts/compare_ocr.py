"""Compare RapidOCR with Tesseract on pages that are drawn from known texts: plain, noisy, turned and in two columns.

    python -m scripts.compare_ocr DATA FONT CJK_FONT [--pages 8]

DATA holds `qa_spans/xquad_en.jsonl`, `_de` and `_zh`; the fonts are files. Needs Tesseract with eng, deu and chi_sim. Both read as in an
index, each page in a process of its own. Prints the share of the words (of Chinese, of the characters) that were read, the share of those
read that are right, how far they are in order, and seconds a page with one thread.
"""

import argparse
import io
import json
import random
import re
import time
from collections import Counter, defaultdict
from difflib import SequenceMatcher
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageFont

from localrag.loaders.ocr import OcrReader, find_ocr

WIDTH, HEIGHT, MARGIN, GAP, LINE = 1654, 2339, 120, 60, 44  # A4 at 200 dots per inch
KINDS = ("plain", "noisy", "turned", "columns")
TESSERACT_LANGUAGES = {"en": "eng", "de": "deu", "zh": "chi_sim"}
SIZES = {"en": 30, "de": 30, "zh": 32}


def wrapped(text: str, font: ImageFont.FreeTypeFont, width: int, *, by_character: bool) -> list[str]:
    """The lines of a paragraph."""
    lines, line, gap = list[str](), "", "" if by_character else " "
    for unit in text if by_character else text.split():
        longer = f"{line}{gap}{unit}" if line else unit
        if line and font.getlength(longer) > width:
            lines.append(line)
            longer = unit
        line = longer
    return [*lines, line]


def drawn(texts: list[str], font: ImageFont.FreeTypeFont, kind: str, rng: random.Random, *, by_character: bool) -> tuple[Image.Image, str]:
    """A page and what stands on it."""
    page, said, remaining = Image.new("L", (WIDTH, HEIGHT), 255), list[str](), iter(texts)
    draw, columns = ImageDraw.Draw(page), 2 if kind == "columns" else 1
    width = (WIDTH - 2 * MARGIN - GAP * (columns - 1)) // columns
    for column in range(columns):
        y = MARGIN
        while y < HEIGHT - 2 * MARGIN:
            for line in wrapped(" ".join(next(remaining).split()), font, width, by_character=by_character):
                if y < HEIGHT - MARGIN:
                    draw.text((MARGIN + column * (width + GAP), y), line, font=font, fill=15)
                    said.append(line)
                y += LINE
            y += LINE
    if kind == "turned":
        page = page.rotate(rng.choice([-2.5, 2, 3]), fillcolor=255, resample=Image.Resampling.BICUBIC)
    return (noisy(page) if kind == "noisy" else page), ("" if by_character else " ").join(said)


def noisy(page: Image.Image) -> Image.Image:
    """A page as a poor scan: blurred, pale, grainy, smaller, and badly compressed."""
    gray = np.asarray(page.filter(ImageFilter.GaussianBlur(1.2)), float) * 0.8 + 30
    gray += np.random.default_rng(1).normal(0, 22, gray.shape)
    small = Image.fromarray(gray.clip(0, 255).astype("uint8")).resize((WIDTH * 3 // 4, HEIGHT * 3 // 4))
    data = io.BytesIO()
    small.save(data, "JPEG", quality=35)
    return Image.open(data).convert("L")


def scores(read: str, gold: str, *, by_character: bool) -> tuple[float, float, float]:
    """Recall, precision, and the share of units that are in the same order."""
    got, wanted = (re.findall(r"[\u4e00-\u9fff]|[A-Za-z0-9]+" if by_character else r"\w+", text) for text in (read, gold))
    common = sum((Counter(got) & Counter(wanted)).values())
    return common / len(wanted), common / max(1, len(got)), SequenceMatcher(None, got, wanted, autojunk=False).ratio()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("font", type=Path)
    parser.add_argument("cjk_font", type=Path)
    parser.add_argument("--pages", type=int, default=8, help="of each language")
    args = parser.parse_args()
    rng, found = random.Random(3), defaultdict(list)
    for language, tesseract in TESSERACT_LANGUAGES.items():
        lines = (args.data / "qa_spans" / f"xquad_{language}.jsonl").read_text(encoding="utf-8").splitlines()
        texts = list(dict.fromkeys(json.loads(line)["context"] for line in lines))
        rng.shuffle(texts)
        font = ImageFont.truetype(str(args.cjk_font if language == "zh" else args.font), SIZES[language])
        for n in range(args.pages):
            kind = KINDS[n % len(KINDS)]
            page, gold = drawn(texts[12 * n :], font, kind, rng, by_character=language == "zh")
            data = io.BytesIO()
            page.save(data, "PPM")
            for name, languages in (("RapidOCR", "rapidocr"), ("Tesseract", tesseract)):
                program = find_ocr(languages)
                assert program, f"{name} is not installed"
                started = time.perf_counter()
                read = OcrReader(program).read(data.getvalue())
                seconds = time.perf_counter() - started
                text = " ".join(word[0] for word in read["words"])
                found[language, kind, name].append((*scores(text, gold, by_character=language == "zh"), seconds))
    for key, rows in sorted(found.items()):
        print(*key, "recall {:.3f}, precision {:.3f}, order {:.3f}, {:.1f} s".format(*np.mean(rows, axis=0)))


if __name__ == "__main__":
    main()
