"""Citations of scans: the picture of the page with frames on the quoted words, over HTTP and in a real browser."""

import io

import numpy as np
import pytest
from PIL import Image

from tests.conftest import run_localrag
from tests.indexing.scans import drawn, needs, saved, scanned_pdf
from tests.serve.server import document_of, served_here

pytestmark = [pytest.mark.ci, needs("eng")]
FIRST = "The minutes of the harbour council of Brannock.\nRuth Sand bought the ferry Skua in spring."
SECOND = "On the second page Lars Holm answered the\ncouncil that the boat leaked at the bow."
FILES = {"minutes.pdf": 2, "photo.jpg": 1}
QUOTE = "Lars Holm answered the council"


@pytest.fixture(scope="module")
def server(tmp_path_factory, home):
    """A server over a scan of two pages and a photograph that lies on its side."""
    folder = tmp_path_factory.mktemp("scans")
    (folder / "docs").mkdir()
    exif = Image.Exif()
    exif[0x0112] = 6
    second = drawn(SECOND, size=(1800, 900))
    (folder / "docs" / "minutes.pdf").write_bytes(scanned_pdf(drawn(FIRST, size=(1800, 900)), second))
    (folder / "docs" / "photo.jpg").write_bytes(saved(second.transpose(Image.Transpose.ROTATE_90), "JPEG", exif=exif))
    done = run_localrag("index", "docs", "--extractor", "phrases", "-q", cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    with served_here(folder) as running:
        yield running


@pytest.mark.parametrize("name", FILES)
def test_the_quoted_words_are_framed_where_they_stand(server, name):
    """Two lines, two boxes: they hold the ink of these words on the picture that the page shows."""
    with server.client() as door:
        key, text = document_of(door, f"docs/{name}")
        place = {"start": text.index(QUOTE), "end": text.index(QUOTE) + len(QUOTE)}
        [page] = door.get(f"/api/documents/{key}/boxes", params=place).json()["pages"]
        shown = Image.open(io.BytesIO(door.get(f"/api/documents/{key}/pages/{page['n']}.png", params={"width": 1800}).content))
    alone = drawn("On the second page", size=(1800, 900))
    quoted = (np.asarray(drawn("On the second page Lars Holm answered the\ncouncil", size=(1800, 900))) < 128) & ~(np.asarray(alone) < 128)
    mask = np.zeros(quoted.shape, bool)
    for left, top, right, bottom in page["boxes"]:
        mask[int(top * 900) : round(bottom * 900) + 1, int(left * 1800) : round(right * 1800) + 1] = True

    assert page["n"] == FILES[name]
    assert abs(shown.width - 1800) <= 1
    shown = shown.resize((1800, 900))  # a PDF's page is as wide and high as its points allow
    assert len(page["boxes"]) == 2
    assert (quoted & mask).sum() >= 0.9 * quoted.sum()
    assert ((np.asarray(shown.convert("L")) < 128) & mask).sum() <= 1.15 * quoted.sum()
