"""Descriptions of pictures, in every kind of Office document; and what a table within a table says."""

import pytest

from localrag.loaders.inline_text import picture_text
from tests.loaders.office_files import docx, odf, odf_cell, odf_table, p, pptx, xlsx
from tests.loaders.parsing import text_of

ALT = "The keel of the Skua, seen from below"
PICTURE_NS = 'xmlns:pic="http://schemas.openxmlformats.org/drawingml/2006/picture"'
PLACED = "http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing"
WORD_PICTURE = (
    f'<w:r><w:drawing><wp:inline xmlns:wp="{PLACED}"><wp:docPr id="1" name="x" descr="{ALT}"/><a:graphic><a:graphicData>'
    f"<pic:pic {PICTURE_NS}/></a:graphicData></a:graphic></wp:inline></w:drawing></w:r>"
)
SLIDE_PICTURE = f'<p:pic><p:nvPicPr><p:cNvPr id="1" name="x" descr="{ALT}"/></p:nvPicPr></p:pic>'
SHEET_PICTURE = f'<d:wsDr xmlns:d="urn:d"><d:pic><d:nvPicPr><d:cNvPr descr="{ALT}"/></d:nvPicPr></d:pic></d:wsDr>'
FRAME = f"<draw:frame><draw:image/><svg:desc>{ALT}</svg:desc></draw:frame>"
SOURCES = {
    "a.docx": docx(p("Below:", WORD_PICTURE)),
    "a.pptx": pptx(SLIDE_PICTURE),
    "a.xlsx": xlsx([["Boat"]], relations={"d": ("drawing", "../drawings/d.xml")}, parts={"xl/drawings/d.xml": SHEET_PICTURE}),
    "line.odt": odf("text", f"<text:p>Below: {FRAME}</text:p>"),
    "page.odt": odf("text", FRAME),
    "link.odt": odf("text", f"<text:p><draw:a>{FRAME}</draw:a></text:p>"),
    "cell.odt": odf("text", odf_table(odf_cell("Boat") + odf_cell("Keel"), odf_cell("Skua") + odf_cell(FRAME))),
    "a.ods": odf("spreadsheet", odf_table(odf_cell("Keel", inside=FRAME))),
    "a.odp": odf("presentation", f"<draw:page>{FRAME}</draw:page>"),
    "a.html": f'<p>Below: <img alt="{ALT}"></p>'.encode(),
}


@pytest.mark.parametrize("name", SOURCES)
def test_the_description_of_a_picture_is_read_once(name):
    """In brackets, where the picture is."""
    assert text_of(name, SOURCES[name]).count(f"[{ALT}]") == 1


@pytest.mark.parametrize("description", ["", "Picture 1", "logo", "keel.png", "A boat on water\n\nDescription automatically generated"])
def test_what_describes_no_picture_is_left_out(description):
    """Names of files and icons, and what a program guessed."""
    assert picture_text(description) == ""


def test_a_table_within_a_cell_keeps_the_row_and_the_header_around_it():
    """Of a table with a header; one without it may only place what is in it."""
    inner = odf_table(odf_cell("Cod") + odf_cell("7"), odf_cell("Eel") + odf_cell("8"))
    head = f"<table:table-header-rows><table:table-row>{odf_cell('Boat')}{odf_cell('Catch')}</table:table-row></table:table-header-rows>"
    row = f"<table:table-row>{odf_cell('Skua')}{odf_cell('of 1871', inside=inner)}</table:table-row>"

    assert text_of("a.odt", odf("text", f"<table:table>{head}{row}</table:table>")) == "Boat: Skua · Catch: Cod: 7; Eel: 8; of 1871"
    assert text_of("a.odt", odf("text", f"<table:table>{row}</table:table>")) == "Skua\n\nCod: 7\nEel: 8\n\nof 1871"


def test_the_picture_of_a_text_box_is_described_once():
    """Though it is drawn within another frame."""
    box = f"<text:p><draw:frame><draw:text-box><text:p>{FRAME}Figure 1</text:p></draw:text-box></draw:frame></text:p>"

    assert text_of("a.odt", odf("text", box)).count(ALT) == 1
