"""One file → its content: the table of formats, by suffix."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from zipfile import ZipFile

from localrag.index.documents.load.content import Content, Options, Unreadable
from localrag.index.documents.load.encoding import looks_binary
from localrag.index.documents.load.open_file import OpenFile
from localrag.index.documents.load.pixels import PICTURES

# Suffix → where its parser is. Imported when the first file of a kind comes: some take a quarter of a second.
FORMATS = {
    **dict.fromkeys((".txt", ".text", ".log"), "markup.parse_text"),
    **dict.fromkeys((".md", ".markdown", ".mdx", ".qmd", ".rmd"), "markup.parse_markdown"),
    **dict.fromkeys((".rst", ".rest"), "markup.parse_rst"),
    **dict.fromkeys((".adoc", ".asciidoc", ".asc"), "markup.parse_asciidoc"),
    ".org": "markup.parse_org",
    ".tex": "markup.parse_tex",
    ".rtf": "markup.parse_rtf",
    **dict.fromkeys((".srt", ".vtt"), "subtitles.parse_subtitles"),
    **dict.fromkeys((".html", ".htm", ".xhtml"), "html.parse_html"),
    ".epub": "epub.parse_epub",
    **dict.fromkeys((".xml", ".rss", ".atom", ".nxml", ".svg"), "xml.parse_xml"),
    **dict.fromkeys((".csv", ".tsv"), "tables.parse_csv"),
    **dict.fromkeys((".json", ".jsonl", ".ndjson", ".geojson"), "json.parse_json"),
    ".ipynb": "json.parse_notebook",
    ".eml": "mail.parse_mail",
    ".docx": "docx.parse_docx",
    ".pptx": "pptx.parse_pptx",
    **dict.fromkeys((".xlsx", ".xlsm"), "xlsx.parse_xlsx"),
    **dict.fromkeys((".odt", ".ods", ".odp"), "opendocument.parse_opendocument"),
    ".pdf": "pdf.parse_pdf",
    **dict.fromkeys(PICTURES, "image.parse_image"),
}
WITH_SCANS = PICTURES | {".pdf"}
BINARY = WITH_SCANS | {".epub", ".docx", ".pptx", ".xlsx", ".xlsm", ".odt", ".ods", ".odp"}
WITH_ROWS = frozenset({".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".geojson", ".ipynb", ".xlsx", ".xlsm"})
MAX_DIGITS = 100_000  # of an integer: converting one takes 0.2 s, and the time grows with the square of the digits
HEAD = 65_536  # bytes that tell whether a file of an unknown suffix is text


def parse(file: OpenFile, options: Options) -> Content:
    """Read a file by its suffix; any other that is text is read as text. Raises Unreadable, and whatever a damaged file leads to."""
    suffix = file.suffix.lower()
    if suffix not in BINARY:
        with file.open() as f:
            head = f.read(HEAD)
        if looks_binary(head):
            known = suffix in FORMATS
            raise Unreadable("binary, not text" if known or not suffix else f"format not supported: {file.suffix}", failed=known)
    module, _, name = FORMATS.get(suffix, "markup.parse_text").partition(".")
    parser: Callable[[OpenFile, Options], Content] = getattr(import_module(f"localrag.index.documents.load.formats.{module}"), name)
    try:
        with _long_numbers():
            content = parser(file, options)
    except Unreadable as error:
        if str(error) == "binary, not text":
            raise Unreadable(str(error), failed=suffix in FORMATS) from error
        raise
    if content.scans:
        return content
    if not content.text.strip("\ufeff \t\r\n\f\v"):
        raise Unreadable("only images, no text" if suffix in BINARY and _has_images(file) else "empty")
    return Content(
        _whole(content.text),
        _whole(" ".join(content.title.split())[:200]),
        tuple((_whole(name), _whole(value)) for name, value in content.metadata),
        tuple(replace(part, label=_whole(part.label)) for part in content.parts),
    )


@contextmanager
def _long_numbers() -> Iterator[None]:
    """Convert integers of up to MAX_DIGITS digits: by default Python raises ValueError beyond 4,300, and the file would be refused.

    The limit is that of the whole interpreter; only the process that parses (`worker`) gets here.
    """
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(MAX_DIGITS)
    try:
        yield
    finally:
        sys.set_int_max_str_digits(before)


def _has_images(file: OpenFile) -> bool:
    with ZipFile(file.open()) as archive:
        return any(name.lower().endswith((".png", ".jpg", ".jpeg", ".gif", ".emf", ".wmf", ".svg", ".tiff")) for name in archive.namelist())


def _whole(text: str) -> str:
    """The text with a question mark for every half of a character: formats can hold them, the store cannot."""
    return text.encode("utf-8", "replace").decode("utf-8")
