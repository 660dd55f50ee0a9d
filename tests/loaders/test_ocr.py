"""Scans and pictures are read by a real Tesseract: right words, whole sentences, places that cover what was drawn."""

import base64
import io
import os
import random
import re
import struct
import zlib
from functools import partial

import numpy as np
import pypdfium2
import pytest
from PIL import Image, ImageDraw

from localrag.loaders.content import LoadOptions, OpenFile
from localrag.loaders.ocr import find_ocr, ocr_pages_reader
from localrag.loaders.page_images import MAX_RENDERED_PIXELS, render_for_ocr
from localrag.loaders.quote_boxes import find_quote_boxes
from localrag.loaders.reader import load_files
from tests.indexing import files
from tests.indexing.scans import FOUND, TEXT, Kept, drawn, needs, saved, scanned_pdf, share_found

pytestmark = [pytest.mark.ci, needs("eng")]
ROTATED = {3: Image.Transpose.ROTATE_180, 6: Image.Transpose.ROTATE_90, 8: Image.Transpose.ROTATE_270}  # what undoes the EXIF number


def read(tmp_path, name, data, languages="eng", kept=None, heard=None):
    """What becomes of a file."""
    file = tmp_path / name
    file.write_bytes(data)
    reader = ocr_pages_reader(
        find_ocr(languages), languages, Kept() if kept is None else kept, lambda *step: heard is not None and heard.append(step)
    )
    (found,) = load_files([file], tmp_path, LoadOptions(ocr=languages), scans=reader)
    return found


def opened(file):
    """An open file, as the process that parses receives it."""
    return OpenFile(file.name, os.open(file, os.O_RDONLY))


def clear(kind):
    return saved(drawn(TEXT), kind)


def noisy():
    """A grey, speckled page that is turned by half a degree, as scans are."""
    rng, image = random.Random(1), drawn(TEXT).rotate(0.5, fillcolor=255)
    for _ in range(2_000):
        ImageDraw.Draw(image).point((rng.randrange(image.width), rng.randrange(image.height)), rng.randrange(256))
    return saved(Image.eval(image, lambda v: 20 + v * 8 // 10), "JPEG", quality=60)


def small(value=lambda v: v):
    """Letters of a screen, 16 pixels high, in these shades."""
    return saved(Image.eval(drawn(TEXT, size=(800, 260), at=(20, 20), letters=16, font="DejaVuSans.ttf"), value))


def turned(number):
    """A photograph of a page, taken as its EXIF number says."""
    exif = Image.Exif()
    exif[0x0112] = number
    return saved(drawn(TEXT).transpose(ROTATED[number]), "JPEG", exif=exif)


def transparent():
    """Black letters on a background without colour, which stand on white."""
    image = Image.new("RGBA", (2480, 1400), (0, 0, 0, 0))
    image.paste((0, 0, 0, 255), mask=Image.eval(drawn(TEXT), lambda v: 255 - v))
    return saved(image)


LEGIBLE = {
    **{f"letter.{kind}": (partial(clear, kind.upper()), 0.97) for kind in ("png", "jpeg", "tiff", "webp", "bmp", "gif")},
    **{f"photo{number}.jpg": (partial(turned, number), 0.97) for number in ROTATED},
    "screenshot.png": (small, 0.97),
    "dark.png": (partial(small, lambda v: 255 - v), 0.97),
    "transparent.png": (transparent, 0.97),
    "noisy.jpg": (noisy, 0.95),
}


@pytest.mark.parametrize("name", LEGIBLE)
def test_the_words_of_a_picture_are_read(tmp_path, name):
    """Of clean text nearly all, in every format, turned as its EXIF says, small, white on black; of a noisy scan 95 of 100."""
    data, share = LEGIBLE[name]

    assert share_found(TEXT, read(tmp_path, name, data()).text) >= share


def test_sentences_are_joined_over_their_lines_and_it_is_said_who_read_them(tmp_path):
    """A picture is a page."""
    found = read(tmp_path, "letter.png", saved(drawn(TEXT)))

    assert "ninety crowns. The harbour master" in found.text
    assert [p.label for p in found.parts] == ["page 1"]
    assert re.fullmatch(rf"Tesseract {FOUND.version}, eng; 1 page, mean confidence of words 9\d %", dict(found.metadata)["ocr"])


@needs("osd")
def test_a_page_that_was_scanned_on_its_side_is_read(tmp_path):
    """Nothing says that it is turned but its letters; what is quoted is framed where it stands on the picture."""
    kept = Kept()
    image = drawn(TEXT).rotate(90, expand=True, fillcolor=255)
    found = read(tmp_path, "side.png", saved(image), kept=kept)
    [(_, page)] = kept.values()
    [shown] = find_quote_boxes(opened(tmp_path / "side.png"), [1], "Lars Holm answered", 0.5, {1: page})["pages"]

    assert share_found(TEXT, found.text) >= 0.97
    mask = framed(image, shown["boxes"])
    quoted = drawn("\n\n\nLars Holm answered").rotate(90, expand=True, fillcolor=255)
    assert (black(quoted) & mask).sum() >= 0.9 * black(quoted).sum()
    assert (black(image) & mask).sum() <= 1.1 * black(quoted).sum()


def black(image):
    return np.asarray(image) < 128


def framed(image, boxes):
    """The pixels that boxes, in fractions of a picture, hold."""
    mask = np.zeros((image.height, image.width), bool)
    for left, top, right, bottom in boxes:
        rows, columns = slice(int(top * image.height), round(bottom * image.height) + 1), slice(int(left * image.width), None)
        mask[rows, columns][:, : round((right - left) * image.width) + 1] = True
    return mask


def test_the_frames_of_a_quote_cover_its_pixels(tmp_path):
    """Words drawn in a place of their own: what is framed holds nine tenths of their ink and no ink of others."""
    image = drawn(TEXT)
    words_only = drawn("Skua leaked badly", image=Image.new("L", image.size, 255), at=(200, 900))
    drawn("Skua leaked badly", image=image, at=(200, 900))
    kept = Kept()
    found = read(tmp_path, "a.png", saved(image), kept=kept)
    [(_, page)] = kept.values()
    [shown] = find_quote_boxes(opened(tmp_path / "a.png"), [1], "Skua leaked badly", 0.95, {1: page})["pages"]
    mask, ink = framed(image, shown["boxes"]), black(words_only)

    assert "Skua leaked badly" in found.text
    assert len(shown["boxes"]) == 1
    assert (ink & mask).sum() >= 0.9 * ink.sum()
    assert not (black(image) & ~ink & mask).any()


def test_every_page_of_a_tiff_is_a_part(tmp_path):
    """A fax of three pages: each is named, in order, and the second, which is blank, is none."""
    pages = [drawn("The first page speaks of herring."), Image.new("L", (2480, 1400), 255), drawn("The third page speaks of tar.")]
    found = read(tmp_path, "fax.tif", saved(pages[0], "TIFF", save_all=True, append_images=pages[1:], compression="tiff_lzw"))

    assert [(p.label, found.text[p.start : p.end]) for p in found.parts] == [
        ("page 1", "The first page speaks of herring."),
        ("page 3", "The third page speaks of tar."),
    ]
    assert "not read" not in dict(found.metadata)


def test_of_a_moving_picture_the_first_frame_is_read(tmp_path):
    """An animation is no document of as many pages."""
    frames = [drawn("The ferry leaves at nine."), drawn("Something else entirely.")]
    found = read(tmp_path, "move.gif", saved(frames[0], "GIF", save_all=True, append_images=frames[1:]))

    assert found.text == "The ferry leaves at nine."


def test_a_pdf_of_images_is_read_page_by_page(tmp_path):
    """Sentences go on over the end of a page, page numbers are left out, and progress is told for each page."""
    heard = []
    first = drawn("The harbour of Brannock was closed for the whole of that winter, and the people who\nlived from it went", letters=40)
    second = drawn("inland to look for work.", letters=40)
    for n, image in enumerate((first, second), 4):
        drawn(str(n), at=(1220, 1300), letters=40, image=image)
    found = read(tmp_path, "scan.pdf", scanned_pdf(first, second), heard=heard)

    assert "the people who lived from it went inland to look for work." in found.text
    assert [p.label for p in found.parts] == ["page 1", "page 2"]
    assert heard[0] == (0, 2) and heard[-1] == (2, 2)


def mixed_pdf():
    """Two pages of text, and between them a scan."""
    made = pypdfium2.PdfDocument(files.pdf(["Ruth Sand sailed to Vardby."], ["Lars Holm stayed at home."]))
    scan = pypdfium2.PdfDocument(scanned_pdf(drawn("The bill of lading names forty barrels.")))
    made.import_pages(scan, index=1)
    data = io.BytesIO()
    made.save(data)
    return data.getvalue()


def test_in_a_mixed_pdf_only_the_scans_are_read_by_ocr(tmp_path):
    """Pages with text keep it; the scan between them has its place."""
    kept = Kept()
    found = read(tmp_path, "mixed.pdf", mixed_pdf(), kept=kept)

    assert [(p.label, found.text[p.start : p.end]) for p in found.parts] == [
        ("page 1", "Ruth Sand sailed to Vardby."),
        ("page 2", "The bill of lading names forty barrels."),
        ("page 3", "Lars Holm stayed at home."),
    ]
    assert [n for _, n in kept] == [2]
    shown = find_quote_boxes(opened(tmp_path / "mixed.pdf"), [1, 2], found.text[: found.parts[1].end], 0.0, {2: kept[next(iter(kept))][1]})[
        "pages"
    ]
    assert [(page["n"], len(page["boxes"])) for page in shown] == [(1, 1), (2, 1)]


def test_without_ocr_a_mixed_pdf_says_which_pages_are_not_read(tmp_path):
    """What has text is indexed, and the scan is named; the hash differs, so that it is read when there is something to read it with."""
    file = tmp_path / "mixed.pdf"
    file.write_bytes(mixed_pdf())
    (found,) = load_files([file], tmp_path)

    assert [p.label for p in found.parts] == ["page 1", "page 3"]
    assert dict(found.metadata)["not read"] == "page 2: a scan"
    assert found.content_hash == files.file_hash(file) != files.file_hash(file, LoadOptions(ocr="eng"))


@pytest.mark.parametrize("height", [842, 300])
def test_a_stamp_of_the_scanner_does_not_pass_for_the_text_of_a_page(tmp_path, height):
    """An image over the whole page with a line of its program on it is a scan; over a third of the page it is a figure."""
    scan = pypdfium2.PdfDocument(scanned_pdf(drawn(TEXT, size=(2480, 3508))))
    (image,) = scan[0].get_objects()
    stamped = pypdfium2.PdfDocument(files.pdf(["Scanned by an app"]))
    placed = pypdfium2.PdfImage.new(stamped)
    placed.set_bitmap(image.get_bitmap())
    placed.set_matrix(pypdfium2.PdfMatrix().scale(595, height))
    page = stamped[0]
    page.insert_obj(placed)
    page.gen_content()
    data = io.BytesIO()
    stamped.save(data)
    found = read(tmp_path, "stamped.pdf", data.getvalue())

    assert ("ninety crowns" in found.text) == (height == 842)
    assert (found.text == "Scanned by an app") == (height == 300)


def noise(seed=0):
    return Image.fromarray(np.random.default_rng(seed).integers(0, 255, (900, 1200), dtype="uint8"))


def bomb():
    """What 3 kB say they unpack to."""
    head = struct.pack(">IIBBBBB", 60_000, 60_000, 1, 0, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(bytes(100_000), 9)), (b"IEND", b""))
    parts = (struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body)) for name, body in chunks)
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


@pytest.mark.parametrize(
    ("name", "data", "reason", "failed"),
    [
        ("noise.png", saved(noise(1)), "a picture: no legible text", False),
        ("blank.png", saved(Image.new("L", (900, 900), 250)), "a picture: blank", False),
        ("icon.png", saved(Image.new("L", (16, 16), 0)), "a picture too small for text", False),
        ("bomb.png", bomb(), "too large a picture: 60,000 × 60,000 pixels, more than 150 million", False),
        ("a.png", b"\x89PNG\r\n\x1a\nrubbish", "damaged: it is not a picture, despite its name", True),
        ("b.jpg", b"no picture", "damaged: it is not a picture, despite its name", True),
    ],
)
def test_a_picture_that_cannot_be_read_is_skipped_with_the_reason(tmp_path, name, data, reason, failed):
    """A huge one before a pixel is unpacked. What has no text is remembered as it is, so that it is not read again."""
    found = read(tmp_path, name, data)

    assert (found.reason, found.is_failure) == (reason, failed)
    assert failed or found.content_hash == files.file_hash(tmp_path / name, LoadOptions(ocr="eng"))


def test_a_picture_that_ends_too_early_does_not_take_the_run_with_it(tmp_path):
    """Half a JPEG: the reason is told."""
    data = saved(drawn(TEXT), "JPEG")
    found = read(tmp_path, "half.jpg", data[: len(data) // 2])

    assert "truncated" in found.reason


def test_a_page_as_large_as_a_wall_is_drawn_smaller(tmp_path):
    """A poster of two metres would have 560 million pixels at 300 dpi."""
    document = pypdfium2.PdfDocument(files.pdf_of(["0 0 5000 5000 re f"]))
    document[0].set_mediabox(0, 0, 5_700, 5_700)
    data = io.BytesIO()
    document.save(data)
    (tmp_path / "poster.pdf").write_bytes(data.getvalue())
    image = Image.open(io.BytesIO(base64.b64decode(render_for_ocr(opened(tmp_path / "poster.pdf"), 1)["image"])))
    assert 0.9 * MAX_RENDERED_PIXELS < image.width * image.height <= 1.01 * MAX_RENDERED_PIXELS
