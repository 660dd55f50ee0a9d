"""Scans and pictures with known text, drawn when a test needs them."""

import io
import re
import shutil
from collections import Counter
from pathlib import Path

import pytest
from PIL import Image, ImageDraw, ImageFont

from localrag.loaders import ocr
from localrag.loaders.ocr import find_tesseract

FOUND = find_tesseract()
FONTS = Path("/usr/share/fonts/truetype/dejavu")
TEXT = """Ruth Sand bought the ferry Skua in the spring of 1904 for ninety
crowns. The harbour master wrote that the boat leaked at the bow and
that the council of Brannock would pay for the repair before autumn.
Lars Holm answered in a long letter: the timber had been delivered,
but nobody in the yard could say where it was kept."""


def needs(*languages):
    """Skips a test, or all of a module, where Tesseract or the data of these languages is not installed."""
    missing = [] if FOUND is None else [name for name in languages if name not in FOUND.languages]
    why = "Tesseract is not installed" if FOUND is None else f"Tesseract has no data for {', '.join(missing)}"
    return pytest.mark.skipif(FOUND is None or bool(missing), reason=why)


def drawn(text, *, size=(2480, 1400), at=(200, 200), letters=44, font="DejaVuSerif.ttf", image=None):
    """A white page with black text on it, as of 300 dots an inch."""
    image = image or Image.new("L", size, 255)
    file = FONTS / font
    shape = ImageFont.truetype(str(file), letters) if file.exists() else ImageFont.load_default(size=letters)
    ImageDraw.Draw(image).multiline_text(at, text, fill=0, font=shape, spacing=letters * 0.5)
    return image


def saved(image, kind="PNG", **options):
    data = io.BytesIO()
    image.save(data, kind, **options)
    return data.getvalue()


def scanned_pdf(*images):
    """A PDF of pages that are images."""
    return saved(images[0], "PDF", resolution=300, save_all=True, append_images=list(images[1:]))


def words(text):
    return re.findall(r"\w+", text)


def share_found(text, found):
    """The share of a text's words that were found."""
    wanted, there = Counter(words(text)), Counter(words(found))
    return sum((wanted & there).values()) / sum(wanted.values())


def without_tesseract(folder):
    """A PATH on which there is no Tesseract."""
    bare = folder / "bin"
    bare.mkdir(exist_ok=True)
    for name in ("git", "sh"):
        if (program := shutil.which(name)) and not (bare / name).exists():
            (bare / name).symlink_to(program)
    return str(bare)


def remove_ocr(monkeypatch, folder):
    """Let neither Tesseract nor RapidOCR be installed."""
    monkeypatch.setenv("PATH", without_tesseract(folder))
    monkeypatch.setattr(ocr, "rapidocr_version", lambda: "")


class Kept(dict):
    """Pages kept in memory: (scan, number) → (looks, page)."""

    def pages(self, scan):
        return {n: page for (s, n), (_, page) in self.items() if s == scan}

    def find_similar(self, looks):
        return next((page for other, page in self.values() if other == looks), None)

    def save(self, scan, number, looks, page):
        self[scan, number] = looks, page

    def link_document(self, content_hash, scan, languages):
        self.owner = content_hash, scan, languages
