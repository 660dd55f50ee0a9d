"""A mark stands on the right words in every format that is read, in a real browser."""

import pytest

from tests.indexing.files import docx, epub, mail, notebook, pdf, pptx, xlsx
from tests.loaders.office_files import odf
from tests.serve.browser import opened, own_words
from tests.serve.server import document_of

pytestmark = pytest.mark.ci

TEXT = "The 😀 ferry: {} leaks at the bow."
FILES = {
    "a.txt": (TEXT.format("Skua"), "Skua leaks"),
    "a.md": (f"# Boats\n\n{TEXT.format('**Tern**')}\n", "Tern"),
    "a.rst": (f"Boats\n=====\n\n{TEXT.format('Gull')}\n", "Gull leaks"),
    "a.adoc": (f"= Boats\n\n{TEXT.format('Heron')}\n", "Heron leaks"),
    "a.org": (f"* Boats\n{TEXT.format('Auk')}\n", "Auk leaks"),
    "a.tex": (r"\documentclass{article}\begin{document}\section{Boats}The ferry Dunlin leaks.\end{document}", "Dunlin leaks"),
    "a.rtf": (r"{\rtf1\ansi The ferry Plover leaks.\par}", "Plover leaks"),
    "a.srt": ("1\n00:00:01,000 --> 00:00:04,000\nThe ferry Curlew leaks.\n", "Curlew leaks"),
    "a.html": (f"<html><body><h1>Boats</h1><p>{TEXT.format('<b>Knot</b>')}</p></body></html>", "Knot leaks"),
    "a.xml": (f"<boats><boat>{TEXT.format('Ruff')}</boat></boats>", "Ruff leaks"),
    "a.csv": ("name,state\nStint,leaks 😀 badly\n", "leaks 😀 badly"),
    "a.json": ('[{"name": "Smew", "state": "leaks 😀 badly at the stern"}]', "badly at the stern"),
    "a.ipynb": (notebook(), "Landings"),
    "a.eml": (mail(), "The Skua leaks."),
    "a.docx": (docx(), "Ruth Sand bought the ferry"),
    "a.pptx": (pptx(), "Lars Holm answered"),
    "a.xlsx": (xlsx(), "Brannock"),
    "a.odt": (odf("text", "<text:p>The ferry Scoter leaks.</text:p>"), "Scoter leaks"),
    "a.epub": (epub(), "It was sold."),
    "a.pdf": (pdf(["The ferry Eider leaks at", "the stern."]), "Eider leaks at the stern."),
}


@pytest.fixture(scope="module")
def folder(indexed):
    """A file of each format."""
    return indexed({name: content for name, (content, _) in FILES.items()}, "--extractor", "phrases")


@pytest.mark.parametrize("name", FILES)
def test_the_mark_is_on_the_words(browser, server, name):
    """What is marked are these words, as the text has them; a PDF's are framed on its page as well."""
    words = FILES[name][1]
    with server.client() as door:
        key, text = document_of(door, f"docs/{name}")
    start = text.index(words)
    with opened(browser, server, f"#/document/{key}?mark={start}-{start + len(words)}") as (page, _):
        if name == "a.pdf":
            page.locator(".over rect").first.wait_for()
            assert page.locator(".over rect").count() == 2
            page.get_by_role("button", name="Text", exact=True).click()
        assert own_words(page) == words
