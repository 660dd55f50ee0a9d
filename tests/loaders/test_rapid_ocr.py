"""RapidOCR, which reads scans where there is no Tesseract: its words, their order, and when it is used."""

import math
import subprocess
import sys

import pytest
from PIL import Image

from localrag.errors import UsageError
from localrag.loaders.ocr import OcrReader, checked_languages, find_ocr, load_options, mean_confidence, rapidocr_program
from localrag.loaders.rapid_ocr import TextBox, page_words
from localrag.loaders.sandbox import landlock_version
from localrag.settings import IndexSettings
from tests.indexing.scans import TEXT, drawn, remove_ocr, saved, share_found, without_tesseract

pytest.importorskip("rapidocr", reason="RapidOCR is not installed")


@pytest.fixture
def no_tesseract(tmp_path, monkeypatch):
    """A machine without Tesseract."""
    monkeypatch.setenv("PATH", without_tesseract(tmp_path))


def box(text, left, top, width=600, height=30, angle=0.0):
    """A box of text, turned around the page's corner."""
    corners = ((left, top), (left + width, top), (left + width, top + height), (left, top + height))
    cos, sin = math.cos(angle), math.sin(angle)
    return TextBox(tuple((x * cos - y * sin, x * sin + y * cos) for x, y in corners), text, 0.9)


def lines_of(boxes):
    """The text of each line."""
    words = page_words(boxes)
    return [" ".join(w[0] for w in words if w[6] == n) for n in dict.fromkeys(w[6] for w in words)]


@pytest.mark.parametrize("angle", [0.0, 0.05, -0.05, math.pi / 2, math.pi])
def test_columns_are_read_one_after_the_other(angle):
    """Also where a headline is over both, lines of the two differ in height, and the page is turned."""
    left = [box(f"left {n}", 100, 200 + 50 * n, 640 - 40 * (n % 3), angle=angle) for n in range(9)]
    right = [box(f"right {n}", 760, 215 + 50 * n, angle=angle) for n in range(9)]
    head, foot = box("A headline", 100, 100, 1260, angle=angle), box("A foot line", 100, 700, 1260, angle=angle)
    mixed = [foot, *(b for pair in zip(right, left, strict=True) for b in pair), head]

    assert lines_of(mixed) == ["A headline", *(f"left {n}" for n in range(9)), *(f"right {n}" for n in range(9)), "A foot line"]


def test_lines_of_a_page_upside_down_may_lean_either_way():
    """Their angles are near a half turn from both sides, whose mean would be none."""
    boxes = [box(f"line {n}", 100, 100 + 60 * n, angle=math.pi + (0.001 if n % 2 else -0.001)) for n in range(4)]
    assert lines_of(boxes[::-1]) == [f"line {n}" for n in range(4)]


def test_three_columns_are_read_from_the_left():
    """Each gap divides what the one before it left together."""
    boxes = [box(f"{name} {n}", 100 + 500 * k, 200 + 50 * n, 420) for n in range(5) for k, name in enumerate("cab")]
    assert [line[0] for line in lines_of(boxes)] == ["c"] * 5 + ["a"] * 5 + ["b"] * 5


def test_the_cells_of_a_table_row_are_one_line():
    """They are too narrow for columns of text."""
    rows = [box(text, 100 + 700 * k, 100 + 50 * n, 120) for n in range(6) for k, text in ((1, f"{n} crowns"), (0, f"item {n}"))]
    assert lines_of(rows) == [f"item {n} {n} crowns" for n in range(6)]


def test_words_share_the_width_of_their_box_by_letters():
    """Each has its own place, a confidence from 0 to 100, and the number of its line; a Chinese character is a word."""
    assert page_words([box("Ruth Sand", 100, 50, 900)]) == [["Ruth", 100, 50, 500, 80, 90, 0], ["Sand", 600, 50, 1000, 80, 90, 0]]
    assert [w[:4] for w in page_words([box("2024年 A", 0, 50, 800)])] == [["2024", 0, 50, 457], ["年", 457, 50, 571], ["A", 686, 50, 800]]
    assert page_words([]) == []


def test_without_tesseract_it_reads_the_languages_whose_letters_it_knows(no_tesseract):
    """Others are refused, by options and on the command line, with the reason."""
    assert load_options(IndexSettings()).ocr == "rapidocr"
    assert load_options(IndexSettings(language="German")).ocr == "rapidocr"
    assert load_options(IndexSettings(ocr_languages=("chi_sim", "eng"))).ocr == "rapidocr"
    unread = load_options(IndexSettings(language="Russian"))
    assert (unread.ocr, unread.ocr_unavailable_reason) == ("", "RapidOCR does not read rus, which needs Tesseract (localrag doctor)")
    assert checked_languages("eng+deu") == ("eng", "deu")
    with pytest.raises(UsageError, match="RapidOCR does not read rus"):
        checked_languages("eng,rus")


def test_without_either_there_is_no_program(tmp_path, monkeypatch):
    """Whichever the languages are meant for; where OCR is switched off, none is looked for."""
    assert find_ocr(load_options(IndexSettings(ocr=False)).ocr) is None
    remove_ocr(monkeypatch, tmp_path)
    assert find_ocr("rapidocr") is None
    assert find_ocr("eng") is None


@pytest.mark.ci
@pytest.mark.parametrize("turn", [None, Image.Transpose.ROTATE_180, Image.Transpose.ROTATE_90])
def test_a_page_is_read_however_it_is_turned(turn):
    """97 of 100 words or more, in their lines, with places on the page as it is."""
    image = drawn(TEXT) if turn is None else drawn(TEXT).transpose(turn)
    page = OcrReader(rapidocr_program()).read(saved(image, "PPM"))

    assert share_found(TEXT, " ".join(w[0] for w in page["words"])) >= 0.97
    assert (page["width"], page["height"]) == image.size
    assert page["by"].startswith("RapidOCR 3")
    assert all(0 <= a < c <= image.width and 0 <= b < d <= image.height for _, a, b, c, d, *_ in page["words"])
    assert len({w[6] for w in page["words"]}) == 5
    assert mean_confidence(page) > 90


HOSTILE = """
import os, socket, subprocess, sys
import rapidocr
from localrag.loaders import rapid_ocr

class Hostile:
    def __init__(self, params):
        pass

    def __call__(self, image):
        for attempt in (socket.socket, lambda: open("/etc/passwd"), lambda: open("made", "w"), os.fork, lambda: subprocess.run(["true"])):
            try:
                attempt()
                print("allowed", attempt, file=sys.stderr)
            except OSError as error:
                print("refused", file=sys.stderr)
        raise SystemExit("ended")

rapidocr.RapidOCR = Hostile
rapid_ocr.main(6 * 2**30, 60)
"""


@pytest.mark.ci
@pytest.mark.skipif(sys.platform != "linux" or not landlock_version(), reason="the kernel's filter and Landlock are Linux's")
def test_a_page_that_takes_it_over_reaches_nothing(tmp_path):
    """No connection, no file but libraries, none written, no other process."""
    page = saved(Image.new("L", (60, 60), 255), "PPM")
    done = subprocess.run([sys.executable, "-c", HOSTILE], check=False, cwd=tmp_path, input=page, capture_output=True, timeout=120)

    said = done.stderr.decode().splitlines()
    assert said[-6:] == ["refused"] * 5 + ["ended"]
