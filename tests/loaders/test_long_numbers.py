"""Files with integers of thousands of digits, which Python refuses to convert by default, are read."""

import pytest

from tests.loaders.office_files import cell, docx, odf, p, table, xlsx
from tests.loaders.parsing import parsed

LONG = "7" * 5000
FILES = {
    "a.md": f"---\ntitle: Kept\nnumber: {LONG}\n---\nThe text.\n",
    "b.md": f"---\ntitle: Kept\nnumber: 0x{LONG}\n---\nThe text.\n",
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
    "outline.docx": docx(p("The text.").replace("<w:pPr>", f'<w:pPr><w:outlineLvl w:val="{LONG}"/>')),
    "depth.docx": docx(p("The text.", number=(LONG, LONG))),
    "span.docx": docx(p("The text.") + table(cell("a", f'<w:gridSpan w:val="{LONG}"/>') + cell("b"))),
    "value.xlsx": xlsx([["The text.", f"<c><v>{LONG}</v></c>"], ["b", 5]]),
    "level.odt": odf("text", f'<text:h text:outline-level="{LONG}">Kept</text:h><text:p>The<text:s text:c="{LONG}"/> text.</text:p>'),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_with_a_number_of_thousands_of_digits_is_read(name):
    """Its text is there, and a title beside the number too."""
    content = parsed(name, FILES[name])

    assert "text." in content.text
    assert not name.endswith(".md") or content.title == "Kept"
