"""Files with integers of thousands of digits, which Python refuses to convert by default, are read."""

import io
import re
import zipfile

import pytest
from docx import Document
from openpyxl import Workbook

from localrag.loaders.content import LoadOptions, open_file
from localrag.loaders.parser_process import parse_file

LONG = "7" * 5000
TEXTS = {
    "a.md": f"---\ntitle: Kept\nnumber: {LONG}\n---\nThe text.\n",
    "b.md": f"---\ntitle: Kept\nnumber: 0x{LONG}\n---\nThe text.\n",
    "c.md": f"---\ntitle: Kept\nnumber: 1{':1' * 5000}\n---\nThe text.\n",
    "d.md": f"---\ntitle: Kept\nnumber: 1{':1' * 5000}.5\nodd: !!int {LONG}\n---\nThe text.\n",
    "e.md": f"+++\ntitle = 'Kept'\nnumber = {LONG}\n+++\nThe text.\n",
    "f.md": f"+++\ntitle = 'Kept'\nnumber = [0x{LONG}, 1.{LONG}]\n+++\nThe text.\n",
    "a.json": f'{{"a": {LONG}, "b": "The text."}}',
    "a.jsonl": f'{{"a": {LONG}, "b": "The text."}}\n',
    "a.ipynb": f'{{"nbformat": 4, "nbformat_minor": {LONG}, "metadata": {{}}, "cells": [{{"cell_type": "code", "execution_count": {LONG}, '
    '"metadata": {}, "outputs": [], "source": ["The text."]}]}',
    "a.csv": f"name,number\nThe text.,{LONG}\nb,{LONG}\n",
    "a.srt": f"{LONG}\n{LONG}:00:01,000 --> 00:00:02,000\nThe text.\n",
    "a.vtt": f"WEBVTT\n\n{LONG}:00:01.000 --> {LONG}:00:02.000\nThe text.\n",
    "a.rtf": rf"{{\rtf1\ansi{{\fonttbl{{\f{LONG}\fcharset{LONG} Arial;}}}}\u{LONG}?\fs{LONG} The text.}}",
    "a.eml": f"Date: Mon, {LONG} Jan {LONG} 10:00:00 +{LONG}\nSubject: x\nContent-Length: {LONG}\n\nThe text.\n",
    "a.html": f'<ol start="{LONG}"><li value="{LONG}">The text.</ol><table><tr><td colspan="{LONG}" rowspan="{LONG}">a</table>&#{LONG};',
    "a.xml": f"<a b='{LONG}'><c>{LONG}</c><d>The text.</d></a>",
    "a.ics": f"BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART:{LONG}\nDURATION:PT{LONG}H\nSUMMARY:The text.\nEND:VEVENT\nEND:VCALENDAR\n",
    "a.tex": rf"\documentclass{{article}}\begin{{document}}\setcounter{{page}}{{{LONG}}} The text. \end{{document}}",
}


def rewritten(data, part, pattern, new):
    """A zip archive with one part changed."""
    target = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(target, "w") as made:
        for name in old.namelist():
            text = old.read(name)
            if name == part:
                changed = re.sub(pattern, new, text.decode())
                assert changed != text.decode()
                text = changed.encode()
            made.writestr(name, text)
    return target.getvalue()


def docx(pattern, new):
    document, target = Document(), io.BytesIO()
    document.add_heading("Kept", level=1)
    document.add_paragraph("The text.", style="List Number")
    document.add_table(1, 2).cell(0, 0).text = "a"
    document.save(target)
    return rewritten(target.getvalue(), "word/document.xml", pattern, new)


def xlsx(pattern, new):
    book, target = Workbook(), io.BytesIO()
    book.active.append(["The text.", 12345])
    book.active.append(["b", 5])
    book.save(target)
    return rewritten(target.getvalue(), "xl/worksheets/sheet1.xml", pattern, new)


def odt(body):
    spaces = " ".join(f'xmlns:{n}="urn:oasis:names:tc:opendocument:xmlns:{n}:1.0"' for n in ("office", "text", "table"))
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as made:
        made.writestr("mimetype", "application/vnd.oasis.opendocument.text")
        made.writestr(
            "content.xml",
            f"<office:document-content {spaces}><office:body><office:text>{body}</office:text></office:body></office:document-content>",
        )
    return target.getvalue()


FILES = {
    "outline.docx": lambda: docx('<w:pStyle w:val="Heading1"/>', f'<w:pStyle w:val="Heading1"/><w:outlineLvl w:val="{LONG}"/>'),
    "depth.docx": lambda: docx(
        '<w:pStyle w:val="ListNumber"/>',
        f'<w:pStyle w:val="ListNumber"/><w:numPr><w:ilvl w:val="{LONG}"/><w:numId w:val="{LONG}"/></w:numPr>',
    ),
    "span.docx": lambda: docx("<w:tcPr>", f'<w:tcPr><w:gridSpan w:val="{LONG}"/>'),
    "value.xlsx": lambda: xlsx("12345", LONG),
    "level.odt": lambda: odt(f'<text:h text:outline-level="{LONG}">Kept</text:h><text:p>The<text:s text:c="{LONG}"/> text.</text:p>'),
}


@pytest.mark.parametrize("name", [*TEXTS, *FILES])
def test_a_file_with_a_number_of_thousands_of_digits_is_read(tmp_path, name):
    """Its text is there, and a title beside the number too."""
    file = tmp_path / name
    file.write_bytes(FILES[name]() if name in FILES else TEXTS[name].encode())

    with open_file(file) as opened:
        content = parse_file(opened, LoadOptions())

    assert "text." in content.text
    assert "Kept" not in TEXTS.get(name, "") or content.title == "Kept"
