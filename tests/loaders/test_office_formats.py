"""Office documents as a careful reader would write them down: every kind of thing in them, in every format that has it."""

import csv
import io
import re
import struct
import zipfile

import pytest

from localrag.filters import day_from_metadata
from localrag.loaders.content import LoadOptions, Unreadable, open_file
from localrag.loaders.discover import find_files
from localrag.loaders.parser_process import parse_file
from localrag.loaders.reader import load_files
from localrag.records import SkippedFile
from tests.conftest import mostly_ci
from tests.indexing.files import zipped
from tests.loaders import office_files as made
from tests.loaders.office_files import (
    COVERED,
    LOW,
    NAMES,
    SUPER,
    ap,
    cell,
    docx,
    frame,
    numbering,
    odf,
    odf_cell,
    odf_table,
    p,
    pptx,
    raised,
    run,
    shape,
    slide_table,
    table,
    xlsx,
)


@pytest.fixture
def read(tmp_path, request):
    """Reads bytes as a file of a name."""

    limit = csv.field_size_limit()
    request.addfinalizer(lambda: csv.field_size_limit(limit))  # a parser of tables sets it, for its own process

    def content_of(name, data, options=LoadOptions()):  # noqa: B008
        (tmp_path / name).write_bytes(data)
        with open_file(tmp_path / name) as file:
            return parse_file(file, options)

    return content_of


SUP, SUB = '<w:vertAlign w:val="superscript"/>', '<w:vertAlign w:val="subscript"/>'
XLSX_RICH = '<r><t>Lit in 1871</t></r><r><rPr><vertAlign val="superscript"/></rPr><t>3</t></r><r><t> by CO</t></r>'
XLSX_RICH += (
    '<r><rPr><vertAlign val="subscript"/></rPr><t>2</t></r><r><t>, 10</t></r><r><rPr><vertAlign val="superscript"/></rPr><t>6</t></r>'
)
ODF_RICH = (
    '<text:p>Lit in 1871<text:span text:style-name="T1">3</text:span> by CO<text:span text:style-name="T2">2</text:span>, 10'
    '<text:span text:style-name="T1">6</text:span></text:p>'
)
RAISED = {
    "a.docx": docx(p("Lit in 1871", run("3", SUP), " by CO", run("2", SUB), ", 10", run("6", SUP))),
    "a.pptx": pptx(shape(f"<a:r><a:t>Lit in 1871</a:t></a:r>{raised(3, 30000)}<a:r><a:t> by CO</a:t></a:r>{raised(2, -25000)}"
                         f"<a:r><a:t>, 10</a:t></a:r>{raised(6, '30%')}")),
    "a.xlsx": xlsx([['<c t="s"><v>0</v></c>']], strings=[XLSX_RICH]),
    "b.xlsx": xlsx([[f'<c t="inlineStr"><is>{XLSX_RICH}</is></c>']]),
    "a.odt": odf("text", ODF_RICH, SUPER + LOW),
    "a.odp": odf("presentation", f"<draw:page><draw:frame><draw:text-box>{ODF_RICH}</draw:text-box></draw:frame></draw:page>", SUPER + LOW),
    "a.ods": odf("spreadsheet", odf_table(f"<table:table-cell>{ODF_RICH}</table:table-cell>"), SUPER + LOW),
}  # fmt: skip


@pytest.mark.parametrize("name", RAISED)
def test_raised_and_lowered_text_is_told_from_what_it_follows(read, name):
    """The mark of a note stands in brackets, an exponent behind ^, the digit of a formula as it is."""
    assert read(name, RAISED[name]).text.endswith("Lit in 1871[3] by CO2, 10^6")


def test_styles_raise_text_too(read):
    """A style of characters, and one that is based on it; words that are raised stay words."""
    style = (
        f'<w:styles {NAMES}><w:style w:type="character" w:styleId="Up"><w:name w:val="up"/><w:rPr>{SUP}</w:rPr></w:style>'
        '<w:style w:type="character" w:styleId="Upper"><w:name w:val="upper"/><w:basedOn w:val="Up"/></w:style></w:styles>'
    )
    body = p("Herring", run("12", '<w:rStyle w:val="Upper"/>'), " at 5 m", run("2", '<w:rStyle w:val="Up"/>'), ", the 1", run("st", SUP))
    body += p(run("a whole line that is raised", SUP))
    child = '<style:style style:name="T3" style:family="text" style:parent-style-name="T1"/>'
    odt = '<text:p>Herring<text:span text:style-name="T3">12</text:span> and cod'
    odt += '<text:span text:style-name="Superscript">4</text:span></text:p>'

    assert read("a.docx", docx(body, parts={"word/styles.xml": style})).text == (
        "Herring[12] at 5 m^2, the 1st\n\na whole line that is raised"
    )
    assert read("a.odt", odf("text", odt, SUPER + child)).text == "Herring[12] and cod[4]"


NOTES = f'<w:footnotes {NAMES}><w:footnote w:id="4">{p("At the bow.")}</w:footnote></w:footnotes>'
ENDNOTES = f'<w:endnotes {NAMES}><w:endnote w:id="4">{p("Since May.")}</w:endnote></w:endnotes>'
ODF_NOTE = (
    '<text:note text:note-class="{}"><text:note-citation>{}</text:note-citation>'
    "<text:note-body><text:p>{}</text:p></text:note-body></text:note>"
)


def test_notes_are_numbers_with_their_text_at_the_end(read):
    """Footnotes and endnotes, also those with a mark of their own, and those in tables."""
    marks = '<w:r><w:footnoteReference w:id="4"/></w:r>', '<w:r><w:endnoteReference w:customMarkFollows="1" w:id="4"/><w:t>*</w:t></w:r>'
    parts = {"word/footnotes.xml": NOTES, "word/endnotes.xml": ENDNOTES}
    relations = {"f": ("footnotes", "footnotes.xml"), "e": ("endnotes", "endnotes.xml")}
    odt = f"<text:p>The Skua leaks{ODF_NOTE.format('footnote', '1', 'At the bow.')}.</text:p>"
    odt += odf_table(odf_cell(f"badly{ODF_NOTE.format('endnote', 'i', 'Since May.')}") + odf_cell("x"))

    assert read("a.docx", docx(p("The Skua leaks", marks[0], " badly", marks[1], "."), relations, parts)).text == (
        "The Skua leaks [1] badly [2].\n\n[1] At the bow.\n\n[2] Since May."
    )
    assert read("a.odt", odf("text", odt)).text == "The Skua leaks [1].\n\nbadly [2] · x\n\n[1] At the bow.\n\n[2] Since May."


def test_deleted_and_hidden_text_is_gone_and_moved_text_stands_once(read):
    """What was inserted stays; a deleted row of a table goes with its cells."""
    body = p("The price is ", f"<w:del>{run('900').replace('w:t', 'w:delText')}</w:del>", f"<w:ins>{run('1,150')}</w:ins>", " crowns.")
    body += p(f"<w:moveFrom>{run('Paid in May.')}</w:moveFrom>", "Signed. ", f"<w:moveTo>{run('Paid in May.')}</w:moveTo>")
    body += p(run("secret", "<w:vanish/>"), run("shown", '<w:vanish w:val="0"/>'))
    body += table(cell("a") + cell("b") + cell("c"), f"<w:trPr><w:del/></w:trPr>{cell('x')}{cell('y')}{cell('z')}")
    odt = (
        "<text:tracked-changes><text:changed-region><text:deletion><text:p>900</text:p></text:deletion></text:changed-region>"
        "</text:tracked-changes><text:p>The price is <text:change/><text:change-start/>1,150<text:change-end/> crowns.</text:p>"
    )

    assert read("a.docx", docx(body)).text == "The price is 1,150 crowns.\n\nSigned. Paid in May.\n\nshown\n\na · b · c"
    assert read("a.odt", odf("text", odt)).text == "The price is 1,150 crowns."


def field(instruction, *result, begin=""):
    """A field of Word: its instruction and result."""
    shown = '<w:r><w:fldChar w:fldCharType="separate"/></w:r>' + "".join(map(run, result)) if result else ""
    return (
        f'<w:r><w:fldChar w:fldCharType="begin">{begin}</w:fldChar></w:r><w:r><w:instrText>{instruction}</w:instrText></w:r>{shown}'
        '<w:r><w:fldChar w:fldCharType="end"/></w:r>'
    )


def test_fields_show_their_results_and_breaks_divide_words(read):
    """Instructions are left out, with what is nested in them; tabs and breaks stand for space, soft hyphens for nothing."""
    nested = '<w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText>IF </w:instrText></w:r>' + field("MERGEFIELD x", "inner")
    nested += '<w:r><w:fldChar w:fldCharType="separate"/></w:r>' + run("outer") + '<w:r><w:fldChar w:fldCharType="end"/></w:r>'
    characters = "<w:r><w:t>keeper</w:t><w:ptab/><w:t>Jorun</w:t><w:br/><w:t>salt</w:t><w:softHyphen/><w:t>works re\xadgister X</w:t>"
    body = p(field("DATE", "4 May"), '<w:fldSimple w:instr="AUTHOR">' + run(" by Ane") + "</w:fldSimple>") + p(nested)
    body += p(characters + "<w:noBreakHyphen/><w:t>ray</w:t></w:r>")
    odt = "<text:p>keeper<text:tab/>Jorun<text:line-break/>salt\xadworks<text:s text:c='2'/>X\u2011ray</text:p>"
    slide = shape("<a:r><a:t>keeper</a:t></a:r><a:br/><a:r><a:t>Jorun salt\xadworks</a:t></a:r>")

    assert read("a.docx", docx(body)).text == "4 May by Ane\n\nouter\n\nkeeper\tJorun\nsaltworks register X-ray"
    assert read("a.odt", odf("text", odt)).text == "keeper\tJorun\nsaltworks  X\u2011ray"
    assert read("a.pptx", pptx(slide)).text == "keeper Jorun saltworks"


def test_symbols_and_checkboxes_are_characters(read):
    """Of symbol fonts, content controls and forms of before 2007, ticked and not."""
    control = '<w:sdt><w:sdtPr><w14:checkbox><w14:checked w14:val="1"/></w14:checkbox></w:sdtPr><w:sdtContent><w:r/></w:sdtContent></w:sdt>'
    boxes = [f"<w:ffData><w:checkBox>{state}</w:checkBox></w:ffData>" for state in ("<w:checked/>", '<w:default w:val="0"/>')]
    body = p(
        "Insured: ",
        '<w:r><w:sym w:font="Wingdings" w:char="F0FD"/></w:r>',
        " yes ",
        '<w:r><w:sym w:font="Wingdings" w:char="F0A8"/></w:r>',
        " no",
    )
    body += p('<w:r><w:sym w:font="Symbol" w:char="F061"/></w:r>', run("\uf0fc", '<w:rFonts w:ascii="Wingdings"/>'), " done ", control)
    body += p("latex ", field("FORMCHECKBOX", begin=boxes[0]), " salt ", field("FORMCHECKBOX", begin=boxes[1]))
    slide = shape('<a:r><a:rPr><a:sym typeface="Wingdings"/></a:rPr><a:t>\uf0a8</a:t></a:r><a:r><a:t> no</a:t></a:r>')
    names = 'xmlns:field="urn:openoffice:names:experimental:ooo-ms-field:xmlns:field:1.0"'
    box = '<form:checkbox form:id="c1" form:label="insured" form:current-state="checked"/>'
    odt = f'<office:forms><form:form>{box}</form:form></office:forms><text:p><draw:control draw:control="c1"/> latex '
    odt += f"<field:fieldmark {names} "
    odt += 'field:type="vnd.oasis.opendocument.field.FORMCHECKBOX"/></text:p>'

    assert read("a.docx", docx(body)).text == "Insured: ☒ yes ☐ no\n\nα✓ done ☒\n\nlatex ☒ salt ☐"
    assert read("a.pptx", pptx(slide)).text == "☐ no"
    assert read("a.odt", odf("text", odt)).text == "☒ insured latex ☐"


def test_form_fields_have_their_chosen_values(read):
    """The entry of a list, the text of a field, what a content control shows."""
    entries = '<w:listEntry w:val="A"/><w:listEntry w:val="AB negative"/>'
    chosen = f'<w:ffData><w:ddList><w:result w:val="1"/>{entries}</w:ddList></w:ffData>'
    control = "<w:sdt><w:sdtPr><w:dropDownList/></w:sdtPr><w:sdtContent>" + run("Ness") + "</w:sdtContent></w:sdt>"
    body = p("Blood group: ", field("FORMDROPDOWN", begin=chosen)) + p("Name: ", field("FORMTEXT", "Ane Holt", begin="<w:ffData/>"))
    body += p("Port: ", control)
    forms = (
        '<office:forms><form:form><form:listbox form:id="l"><form:option form:label="A"/><form:option form:label="AB negative" '
        'form:current-selected="true"/></form:listbox><form:text form:id="t" form:current-value="Ane Holt"/></form:form></office:forms>'
    )
    odt = f'{forms}<text:p>Blood group: <draw:control draw:control="l"/></text:p><text:p>Name: <draw:control draw:control="t"/></text:p>'

    assert read("a.docx", docx(body)).text == "Blood group: AB negative\n\nName: Ane Holt\n\nPort: Ness"
    assert read("a.odt", odf("text", odt)).text == "Blood group: AB negative\n\nName: Ane Holt"


def test_a_reading_stands_behind_its_word(read):
    """In parentheses, as in print without the space above."""
    body = p(f"<w:r><w:ruby><w:rt>{run('とうだい')}</w:rt><w:rubyBase>{run('灯台')}</w:rubyBase></w:ruby></w:r>", "は明るい。")
    odt = "<text:p><text:ruby><text:ruby-base>灯台</text:ruby-base><text:ruby-text>とうだい</text:ruby-text></text:ruby>は明るい。</text:p>"

    assert read("a.docx", docx(body)).text == read("a.odt", odf("text", odt)).text == "灯台(とうだい)は明るい。"


def test_headers_and_footers_stand_once(read):
    """The reference of a letter is read, the number of a page is not, nor a header that no page shows."""
    references = '<w:headerReference w:type="default" r:id="h"/><w:headerReference w:type="first" r:id="x"/><w:footerReference r:id="f"/>'
    parts = {
        "word/h.xml": f"<w:hdr {NAMES}>{p('Pilots of Ness')}</w:hdr>",
        "word/x.xml": f"<w:hdr {NAMES}>{p('Not shown')}</w:hdr>",
        "word/f.xml": f"<w:ftr {NAMES}>{p('Reference KB-77')}{p('Page ', field('PAGE', '1'), ' of ', field('NUMPAGES', '9'))}</w:ftr>",
    }
    body = p("Dear Ane,") + f"<w:sectPr>{references}</w:sectPr>" + f"<w:sectPr>{references}</w:sectPr>"
    page = (
        '<office:master-styles><style:master-page style:name="Standard"><style:header><text:p>Pilots of Ness</text:p></style:header>'
        "<style:footer><text:p>Reference KB-77</text:p><text:p>Seite <text:page-number>1</text:page-number></text:p></style:footer>"
        '</style:master-page><style:master-page style:name="Unused"><style:header><text:p>Not shown</text:p></style:header>'
        "</style:master-page></office:master-styles>"
    )
    running = "<headerFooter><oddHeader>&amp;LPilots of Ness&amp;RPage &amp;P</oddHeader>"
    running += '<oddFooter>&amp;C&amp;"Arial,Bold"&amp;8Reference KB-77</oddFooter></headerFooter>'
    slides = [shape("Dear Ane,") + shape("Reference KB-77", kind="ftr") + shape(str(n), kind="sldNum") for n in (1, 2)]
    decks = '<presentation:footer-decl presentation:name="f">Reference KB-77</presentation:footer-decl>'
    decks += '<draw:page presentation:use-footer-name="f"><text:p>Dear Ane,</text:p></draw:page>' * 2
    letter = "Header: Pilots of Ness\n\nDear Ane,\n\nFooter: Reference KB-77"

    assert read("a.docx", docx(body, {k: ("header" if k != "f" else "footer", f"{k}.xml") for k in "hxf"}, parts)).text == letter
    assert read("a.odt", odf("text", "<text:p>Dear Ane,</text:p>", styles=page)).text == letter
    assert read("a.xlsx", xlsx([["Dear Ane,"]], running)).text == "# Toll\n\nDear Ane,\n\nHeader: Pilots of Ness\n\nFooter: Reference KB-77"
    assert read("a.ods", odf("spreadsheet", odf_table(odf_cell("Dear Ane,")), styles=page)).text.endswith(
        "Dear Ane,\n\nHeader: Pilots of Ness\nFooter: Reference KB-77"
    )
    assert read("a.pptx", pptx(*slides)).text == "Dear Ane,\n\nFooter: Reference KB-77\n\nDear Ane,"
    assert read("a.odp", odf("presentation", decks)).text == "Dear Ane,\n\nDear Ane,\n\nFooter: Reference KB-77"


INNER = docx(p("The keys are with Bo Rask."))
INSERTED = {
    "chunk.html": "<html><body><p>The keys are with <b>Bo Rask</b>.</p></body></html>",
    "chunk.rtf": r"{\rtf1\ansi The keys are with \b Bo Rask\b0.\par}",
    "chunk.docx": INNER,
    "chunk.txt": "The keys are with Bo Rask.",
    "chunk.mht": 'MIME-Version: 1.0\nContent-Type: multipart/related; boundary="b"\n\n--b\nContent-Type: text/html\n'
    "Content-Transfer-Encoding: quoted-printable\n\n<p>The keys are with Bo=20Rask.</p>\n--b--\n",
}


@pytest.mark.parametrize("name", INSERTED)
def test_a_document_inserted_into_another_is_read(read, name):
    """In its place, by the reader of its own format."""
    body = p("Before.") + '<w:altChunk r:id="c"/>' + p("After.")
    content = read("a.docx", docx(body, {"c": ("aFChunk", name)}, {f"word/{name}": INSERTED[name]}))

    assert content.text == "Before.\n\nThe keys are with Bo Rask.\n\nAfter."


def test_an_inserted_document_that_cannot_be_read_is_named(read):
    """The rest of the document is read."""
    body = p("Before.") + '<w:altChunk r:id="c"/><w:altChunk r:id="none"/>' + p("After.")
    content = read("a.docx", docx(body, {"c": ("aFChunk", "x.docx")}, {"word/x.docx": b"PK\x03\x04 broken"}))

    assert content.text == "Before.\n\n[x.docx cannot be read]\n\nAfter."


POINTS = "".join(
    f'<dgm:pt modelId="{n}"><dgm:t>{ap(text)}</dgm:t></dgm:pt>' for n, text in enumerate(["", "Iduna Kell", "Claus Dahlin", "Bo Rask"])
)
LINKS = "".join(
    f'<dgm:cxn modelId="c{n}" srcId="{source}" destId="{target}" srcOrd="{order}"/>'
    for n, (source, target, order) in enumerate([(1, 3, 1), (0, 1, 0), (1, 2, 0), (3, 1, 0)])
)
DIAGRAM = f"<dgm:dataModel {NAMES}><dgm:ptLst>{POINTS}</dgm:ptLst><dgm:cxnLst>{LINKS}</dgm:cxnLst></dgm:dataModel>"
CHART = (
    '<c:chartSpace xmlns:c="http://schemas.openxmlformats.org/drawingml/2006/chart"><c:chart><c:ser><c:tx><c:v>Herring</c:v></c:tx>'
    '<c:cat><c:pt idx="0"><c:v>1901</c:v></c:pt></c:cat><c:val><c:pt idx="0"><c:v>412</c:v></c:pt></c:val></c:ser></c:chart></c:chartSpace>'
)


def test_diagrams_are_lists(read):
    """The texts of SmartArt, nested as they are drawn, in documents, slides and sheets."""
    refers = '<dgm:relIds r:dm="d"/>'
    relations = {"d": ("diagramData", "../word/d.xml")}
    drawn = p(f"<w:r><w:drawing><a:graphic><a:graphicData>{refers}</a:graphicData></a:graphic></w:drawing></w:r>")
    texts = "- Iduna Kell\n  - Claus Dahlin\n  - Bo Rask"
    sheet = {
        "xl/drawings/drawing1.xml": f"<d {NAMES}>{refers}</d>",
        "xl/drawings/_rels/drawing1.xml.rels": made.relationships({"d": ("diagramData", "/word/d.xml")}),
    }

    assert read("a.docx", docx(drawn, relations, {"word/d.xml": DIAGRAM})).text == texts
    assert read("a.pptx", pptx(frame(refers), relations={"d": ("diagramData", "/word/d.xml")}, parts={"word/d.xml": DIAGRAM})).text == texts
    book = xlsx([["Posts"]], relations={"x": ("drawing", "../drawings/drawing1.xml")}, parts=sheet | {"word/d.xml": DIAGRAM})
    assert read("a.xlsx", book).text.endswith(texts)


@pytest.mark.parametrize(
    ("choice", "fallback"), [("The fee is 77 crowns.", ""), ("", "The fee is 77 crowns."), ("The fee is 77 crowns.", "The old fee.")]
)
def test_one_of_two_alternatives_is_read(read, choice, fallback):
    """The newer one, unless only the older one says anything."""
    boxes = [f"<w:txbxContent>{p(text)}</w:txbxContent>" if text else "" for text in (choice, fallback)]
    body = p(
        f"<w:r><mc:AlternateContent><mc:Choice><w:drawing><wps:txbx>{boxes[0]}</wps:txbx></w:drawing></mc:Choice>"
        f"<mc:Fallback><w:pict><v:textbox>{boxes[1]}</v:textbox></w:pict></mc:Fallback></mc:AlternateContent></w:r>"
    )
    shapes = [shape(text) if text else "" for text in (choice, fallback)]
    slide = f"<mc:AlternateContent><mc:Choice>{shapes[0]}</mc:Choice><mc:Fallback>{shapes[1]}</mc:Fallback></mc:AlternateContent>"

    assert read("a.docx", docx(body)).text == read("a.pptx", pptx(slide)).text == "The fee is 77 crowns."


def test_text_boxes_are_read_where_they_are_anchored(read):
    """In documents, in cells of tables, on sheets, and shapes with text as well."""
    box = f"<w:r><w:pict><w:txbxContent>{p('In a box.')}</w:txbxContent></w:pict></w:r>"
    drawing = f'<d xmlns:x="urn:x" {NAMES}><x:sp><x:txBody>{ap("In a box.")}</x:txBody></x:sp></d>'
    book = xlsx([["Beside"]], relations={"x": ("drawing", "../d.xml")}, parts={"xl/d.xml": drawing})
    odt = "<text:p>Beside<draw:custom-shape><text:p>In a box.</text:p></draw:custom-shape></text:p>"
    rows = odf_table(odf_cell("Beside <draw:frame><draw:text-box><text:p>In a box.</text:p></draw:text-box></draw:frame>"))

    assert read("a.docx", docx(p("Beside", box))).text == "Beside\n\nIn a box."
    assert read("a.docx", docx(table(f"<w:tc>{p('Beside', box)}</w:tc>{cell('b')}{cell('c')}"))).text == "Beside · b · c\n\nIn a box."
    assert read("a.xlsx", book).text == "# Toll\n\nBeside\n\nIn a box."
    assert read("a.odt", odf("text", odt)).text == "Beside\n\nIn a box."
    assert read("a.ods", odf("spreadsheet", rows)).text == "# Toll\n\nBeside In a box."


def test_embedded_files_are_named(read):
    """Workbooks in documents, slides and texts; the charts of OpenDocument are read like others."""
    relations = {"e": ("package", "embeddings/catches.xlsx"), "o": ("oleObject", "embeddings/deed.bin")}
    chart = (
        f"<office:document-content {made.ODF}><office:body><office:chart><chart:chart><chart:title><text:p>Landings</text:p></chart:title>"
        f"{odf_table(odf_cell('') + odf_cell('Herring'), odf_cell('1901') + odf_cell('412'))}</chart:chart></office:chart></office:body>"
        "</office:document-content>"
    )
    odt = '<text:p>Text<draw:frame><draw:object xlink:href="./Object 1"/></draw:frame><draw:object-ole xlink:href="./deed"/></text:p>'

    assert read("a.docx", docx(p("Text"), relations)).text == "Text\n\nEmbedded files: catches.xlsx, deed.bin"
    assert read("a.pptx", pptx(shape("Text"), relations=relations)).text == "Text\n\nEmbedded files: catches.xlsx, deed.bin"
    assert read("a.odt", odf("text", odt, parts={"Object 1/content.xml": chart})).text == (
        "Text\n\nLandings\n1901 · Herring: 412\n\nEmbedded files: deed"
    )


def test_comments_have_their_authors_and_their_cells(read):
    """They stand apart from the values, threads in place of what older programs show, in every format."""
    comments = f'<comments xmlns="{made.S}"><authors><author>H. Lund</author></authors><commentList>'
    comments += '<comment ref="B2" authorId="0"><text><r><t>H. Lund:</t></r><r><t> was 11</t></r></text></comment>'
    comments += '<comment ref="A2" authorId="0"><text><t>[Threaded comment] open it in a newer program</t></text></comment>'
    comments += "</commentList></comments>"
    thread = '<ThreadedComments xmlns="urn:t"><threadedComment ref="A2" dT="2024-03-01T10:00:00" personId="{1}"><text>Which one?</text>'
    parts = {
        "xl/c.xml": comments,
        "xl/t.xml": f"{thread}</threadedComment></ThreadedComments>",
        "xl/persons/person.xml": '<personList xmlns="urn:t"><person id="{1}" displayName="Ane Holt"/></personList>',
    }
    relations = {"c": ("comments", "../c.xml"), "t": ("http://x/2017/threadedComment", "../t.xml")}
    note = "<office:annotation><dc:creator>H. Lund</dc:creator><dc:date>2024-03-01T10:00:00</dc:date>"
    note += "<text:p>was 11</text:p></office:annotation>"
    rows = odf_table(odf_cell("Zone") + odf_cell("Rate"), odf_cell("Inner") + odf_cell("12", inside=note))
    slide = f"<draw:page>{note}<text:p>Rates</text:p></draw:page>"
    said = f'<w:comments {NAMES}><w:comment w:author="H. Lund" w:date="2024-03-01T10:00:00Z">{p("was 11")}</w:comment></w:comments>'

    assert read("a.xlsx", xlsx([["Zone", "Rate"], ["Inner", 12]], relations=relations, parts=parts)).text == (
        "# Toll\n\nZone: Inner · Rate: 12\n\nComment by Ane Holt on A2 (Inner), 2024-03-01: Which one?\n\n"
        "Comment by H. Lund on B2 (Inner · 12): was 11"
    )
    assert read("a.ods", odf("spreadsheet", rows)).text == (
        "# Toll\n\nZone: Inner · Rate: 12\n\nComment by H. Lund on B2 (Inner · 12), 2024-03-01: was 11"
    )
    assert read("a.odt", odf("text", f"<text:p>Rates{note}</text:p>")).text == "Rates\n\nComment by H. Lund, 2024-03-01: was 11"
    assert read("a.odp", odf("presentation", slide)).text == "Rates\n\nComment by H. Lund, 2024-03-01: was 11"
    assert read("a.docx", docx(p("Rates"), {"c": ("comments", "c.xml")}, {"word/c.xml": said})).text == (
        "Rates\n\nComment by H. Lund, 2024-03-01: was 11"
    )


def test_slides_are_read_in_order_with_their_groups_and_notes(read):
    """Titles are headings, boxes one below the other are read from above, speaker notes are said to be such."""
    boxes = shape("Step two.", place="0 500 900 100") + shape("Step one.", place="0 100 900 100")
    group = f"<p:grpSp>{shape('In a group.')}<p:grpSp>{shape('Deeper.')}</p:grpSp></p:grpSp>"
    notes = (
        f"<p:notes {NAMES}><p:cSld><p:spTree>{shape('Speak slowly.', kind='body')}{shape('1', kind='sldNum')}</p:spTree></p:cSld></p:notes>"
    )
    deck = pptx(group + boxes + shape("Pilots", kind="title"), relations={"n": ("notesSlide", "../n.xml")}, parts={"ppt/n.xml": notes})
    body = (
        '<draw:page><draw:frame presentation:class="outline"><draw:text-box><text:p>Step one.</text:p></draw:text-box></draw:frame>'
        '<draw:frame presentation:class="title"><draw:text-box><text:p>Pilots</text:p></draw:text-box></draw:frame><presentation:notes>'
        '<draw:frame presentation:class="notes"><draw:text-box><text:p>Speak slowly.</text:p></draw:text-box></draw:frame>'
        "</presentation:notes></draw:page>"
    )

    assert read("a.pptx", deck).text == "# Pilots\n\nIn a group.\n\nDeeper.\n\nStep one.\n\nStep two.\n\nNotes: Speak slowly."
    content = read("a.odp", odf("presentation", body))
    assert (content.text, content.title) == ("# Pilots\n\nStep one.\n\nNotes: Speak slowly.", "Pilots")


def spanning(text, rows=1, columns=1):
    return odf_cell(text, f'table:number-rows-spanned="{rows}" table:number-columns-spanned="{columns}"')


RATES = [["Zone", "Class", "Rate"], ["Inner", "small", 12], ["", "large", 30], ["Outer", "small", 9]]
ODF_RATES = odf_table(
    odf_cell("Zone") + odf_cell("Class") + odf_cell("Rate"),
    spanning("Inner", rows=2) + odf_cell("small") + odf_cell("12"),
    COVERED + odf_cell("large") + odf_cell("30"),
    odf_cell("Outer") + odf_cell("small") + odf_cell("9"),
)
GROUPED = {
    "a.docx": docx(table(
        cell("Zone") + cell("Class") + cell("Rate"),
        cell("Inner", '<w:vMerge w:val="restart"/>') + cell("small") + cell("12"),
        cell("", "<w:vMerge/>") + cell("large") + cell("30"),
        cell("Outer") + cell("small") + cell("9"),
    )),
    "a.pptx": pptx(slide_table(
        ["Zone", "Class", "Rate"], [("Inner", 'rowSpan="2"'), "small", "12"], [("", 'vMerge="1"'), "large", "30"], ["Outer", "small", "9"],
    )),
    "a.xlsx": xlsx(RATES, '<mergeCells><mergeCell ref="A2:A3"/></mergeCells>'),
    "a.xls": made.xls([[v if isinstance(v, str) else (float(v), -1) for v in row] for row in RATES], merged=[(1, 2, 0, 0)]),
    "a.odt": odf("text", ODF_RATES),
    "a.ods": odf("spreadsheet", ODF_RATES),
    "a.odp": odf("presentation", f"<draw:page><draw:frame>{ODF_RATES}</draw:frame></draw:page>"),
}  # fmt: skip


@pytest.mark.parametrize("name", GROUPED)
def test_the_label_of_a_group_of_rows_stands_in_each(read, name):
    """A cell that spans rows names all of them."""
    assert read(name, GROUPED[name]).text.endswith(
        "Zone: Inner · Class: small · Rate: 12\nZone: Inner · Class: large · Rate: 30\nZone: Outer · Class: small · Rate: 9"
    )


CATCHES = [["Port", "1901", "", "1902"], ["", "Herring", "Cod", "Herring"], ["Ness", 412, 87, 300], ["Wessel", 388, 140, 310]]
ODF_CATCHES = odf_table(
    spanning("Port", rows=2) + spanning("1901", columns=2) + COVERED + odf_cell("1902"),
    COVERED + odf_cell("Herring") + odf_cell("Cod") + odf_cell("Herring"),
    odf_cell("Ness") + odf_cell("412") + odf_cell("87") + odf_cell("300"),
    odf_cell("Wessel") + odf_cell("388") + odf_cell("140") + odf_cell("310"),
)
SPANNED = {
    "a.docx": docx(table(
        cell("Port", '<w:vMerge w:val="restart"/>') + cell("1901", '<w:gridSpan w:val="2"/>') + cell("1902"),
        cell("", "<w:vMerge/>") + cell("Herring") + cell("Cod") + cell("Herring"),
        cell("Ness") + cell("412") + cell("87") + cell("300"),
        cell("Wessel") + cell("388") + cell("140") + cell("310"),
    )),
    "a.pptx": pptx(slide_table(
        [("Port", 'rowSpan="2"'), ("1901", 'gridSpan="2"'), ("", 'hMerge="1"'), "1902"], [("", 'vMerge="1"'), "Herring", "Cod", "Herring"],
        ["Ness", "412", "87", "300"], ["Wessel", "388", "140", "310"],
    )),
    "a.xlsx": xlsx(CATCHES, '<mergeCells><mergeCell ref="A1:A2"/><mergeCell ref="B1:C1"/></mergeCells>'),
    "a.xls": made.xls(
        [[v if isinstance(v, str) else (float(v), -1) for v in row] for row in CATCHES], merged=[(0, 1, 0, 0), (0, 0, 1, 2)]
    ),
    "a.odt": odf("text", ODF_CATCHES),
    "a.ods": odf("spreadsheet", ODF_CATCHES),
    "a.odp": odf("presentation", f"<draw:page><draw:frame>{ODF_CATCHES}</draw:frame></draw:page>"),
}  # fmt: skip


@pytest.mark.parametrize("name", SPANNED)
def test_two_header_rows_are_one(read, name):
    """A year above the kinds of fish is part of each of their names."""
    assert read(name, SPANNED[name]).text.endswith(
        "Port: Ness · 1901 Herring: 412 · 1901 Cod: 87 · 1902 Herring: 300\n"
        "Port: Wessel · 1901 Herring: 388 · 1901 Cod: 140 · 1902 Herring: 310"
    )


def test_a_cell_that_spans_columns_is_in_each(read):
    """Of a table with a header; a heading within a table and the caption above it stay on their own."""
    rows = [["Catches", "", ""], ["Port", "Herring", "Cod"], ["North coast", "", ""], ["Ness", "closed", ""], ["Wessel", 388, 140]]
    merged = "".join(f'<mergeCell ref="{ref}"/>' for ref in ("A1:C1", "A3:C3", "B4:C4"))

    assert read("a.xlsx", xlsx(rows, f"<mergeCells>{merged}</mergeCells>")).text == (
        "# Toll\n\nCatches\nPort: North coast\nPort: Ness · Herring: closed · Cod: closed\nPort: Wessel · Herring: 388 · Cod: 140"
    )


def test_a_form_with_spanning_cells_keeps_its_rows(read):
    """Two rows that each begin with a label are no header, and nothing is repeated in them."""
    body = table(
        cell("Name") + cell("Ane Holt", '<w:gridSpan w:val="2"/>'),
        cell("Port") + cell("Ness") + cell("east"),
        cell("Since") + cell("1901") + cell("May"),
    )

    assert read("a.docx", docx(body)).text == "Name · Ane Holt\nPort · Ness · east\nSince · 1901 · May"


def test_rows_of_word_may_begin_later(read):
    """A row that leaves out columns has its cells below those they stand under; marked header rows are a header."""
    rows = cell("Port") + cell("Herring") + cell("Cod"), cell("Ness") + cell("412") + cell("87")
    later = f'<w:trPr><w:gridBefore w:val="1"/></w:trPr>{cell("388")}{cell("140")}'
    marked = [
        f"<w:trPr><w:tblHeader/></w:trPr>{row}"
        for row in (cell("Port") + cell("Catch") + cell("Catch"), cell("") + cell("of May") + cell("of June"))
    ]

    assert read("a.docx", docx(table(*rows, later))).text == "Port: Ness · Herring: 412 · Cod: 87\nHerring: 388 · Cod: 140"
    assert read("a.docx", docx(table(*marked, cell("Ness") + cell("412") + cell("87")))).text == (
        "Port: Ness · Catch of May: 412 · Catch of June: 87"
    )


FORMATS = {
    "0.0%": (0.175, "17.5%"), "00000": (2139, "02139"), "#,##0.00 &quot;EUR&quot;": (1249.5, "1,249.50 EUR"),
    "yyyy\\-mm\\-dd": (45360, "2024-03-09"),
    "dd/mm/yyyy hh:mm": (45360.354166667, "2024-03-09 08:30"), "h:mm": (0.354166667, "08:30"), "[h]:mm": (1.5, "36:00"),
    "# ?/?": (2.5, "2 1/2"),
    "mmm\\-yy": (45360, "2024-03"), "[$€-407] #,##0": (1234.4, "€ 1,234"), "0;[Red]\\(0\\)": (-5, "(5)"),
    "000-00-0000": (123456789, "123-45-6789"),
    "0.00E+00": (12345.678, "1.23E+04"), "&quot;No. &quot;0": (7, "No. 7"), "General": (0.30000000000000004, "0.3"),
    "#,##0,&quot;k&quot;": (1234567, "1,235k"),
    "&quot;yes&quot;;;&quot;no&quot;": (0, "no"), "_(* #,##0.00_);_(* \\(#,##0.00\\);_(* &quot;-&quot;??_);_(@_)": (-1234.5, "(1,234.50)"),
    "General&quot; pcs&quot;": (7, "7 pcs"), "[&lt;=9999999]###\\-####;\\(###\\) ###\\-####": (5551234, "555-1234"),
    "0.##": (1, "1"), "@": (12, "12"),
}  # fmt: skip


@pytest.mark.parametrize("name", ["a.xlsx", "a.xls"])
def test_numbers_are_as_they_are_shown(read, name):
    """Per cent, leading zeros, currencies, fractions, durations; dates and times as ISO."""
    codes = list(FORMATS)
    if name == "a.xls":
        codes = [code for code in codes if code != "General"]
        plain = [re.sub("&lt;", "<", re.sub("&quot;", '"', code)) for code in codes]
        text = read(name, made.xls([[("Rate")], *([(float(FORMATS[c][0]), n)] for n, c in enumerate(codes))], formats=plain)).text
    else:
        rows = [["Rate"], *([f'<c s="{n + 1}"><v>{FORMATS[code][0]!r}</v></c>'] for n, code in enumerate(codes))]
        text = read(name, xlsx(rows, formats=codes)).text

    assert re.findall(r"^(?:Rate: )?(.*)$", text.partition("\n\n")[2], re.MULTILINE)[-len(codes) :] == [FORMATS[code][1] for code in codes]


def test_values_that_are_no_numbers_are_as_they_are_shown(read):
    """Booleans, errors, dates of the strict format, days counted from 1904, escaped characters."""
    cells = [
        '<c t="b"><v>1</v></c>',
        '<c t="e"><v>#DIV/0!</v></c>',
        '<c t="d"><v>2024-03-09T00:00:00</v></c>',
        '<c s="1"><v>43898</v></c>',
        "a_x000D_b",
    ]
    ods = odf_table(
        odf_cell("17.5 %", 'office:value-type="percentage" office:value="0.175"')
        + odf_cell("02139", 'office:value-type="float" office:value="2139"')
        + odf_cell("9. 3. 24", 'office:value-type="date" office:date-value="2024-03-09T08:30:00"')
        + '<table:table-cell office:value-type="float" office:value="12"/>'
        + '<table:table-cell office:value-type="boolean" office:boolean-value="true"/>'
    )

    assert read("a.xlsx", xlsx([cells], formats=["d.m.yyyy"], book='<workbookPr date1904="1"/>')).text.endswith(
        "TRUE · #DIV/0! · 2024-03-09 · 2024-03-09 · a b"
    )
    assert read("a.ods", odf("spreadsheet", ods)).text.endswith("17.5 % · 02139 · 2024-03-09 08:30:00 · 12 · TRUE")


def test_formulas_that_were_never_computed_are_written(read):
    """Also one that is shared with the cell above; a computed one has its value."""
    rows = [
        ["Item", "Net", "Gross"],
        ["Rope", 100, "<c><f>B2*1.25</f><v>125</v></c>"],
        ["Tar", 40, '<c><f t="shared" si="0">_xlfn.CEILING(B3)</f><v></v></c>'],
        ["Oak", 10, '<c><f t="shared" si="0"/></c>'],
    ]
    ods = odf_table('<table:table-cell table:formula="of:=SUM([.B2:.B3])"/>' + odf_cell("x"))

    assert read("a.xlsx", xlsx(rows)).text.endswith(
        "Item: Rope · Net: 100 · Gross: 125\nItem: Tar · Net: 40 · Gross: =CEILING(B3)\nItem: Oak · Net: 10 · Gross: =CEILING(B3)"
    )
    assert read("a.ods", odf("spreadsheet", ods)).text.endswith("=SUM(B2:B3) · x")


@pytest.mark.parametrize("name", ["a.docx", "a.pptx", "a.xlsx"])
def test_the_author_and_date_are_the_documents_own(read, name):
    """Those of its properties; a document without them has none, and not the day on which it is read."""
    core = (
        '<cp:coreProperties xmlns:cp="urn:c" xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:t="http://purl.org/dc/terms/">'
        "<dc:title>Tolls</dc:title><dc:creator>Sigrid Falk</dc:creator><t:created>1999-05-04T00:00:00Z</t:created>"
        "<t:modified>2001-02-03T00:00:00Z</t:modified></cp:coreProperties>"
    )
    files = {"a.docx": lambda **o: docx(p("x"), **o), "a.pptx": lambda **o: pptx(shape("x"), **o), "a.xlsx": lambda **o: xlsx([["x"]], **o)}
    content = read(name, files[name](parts={"core.xml": core}))

    assert (content.title, dict(content.metadata).get("author"), day_from_metadata(content.metadata)) == (
        "Tolls",
        "Sigrid Falk",
        "2001-02-03",
    )
    assert read(name, files[name]()).metadata == ()


def strict(data):
    """The same file in the strict variant of the format."""
    target = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as source, zipfile.ZipFile(target, "w") as written:
        for name in source.namelist():
            text = re.sub(rb"http://schemas\.openxmlformats\.org/(\w+)/2006/(\w+)", rb"http://purl.oclc.org/ooxml/\1/\2", source.read(name))
            written.writestr(name, text.replace(b"purl.oclc.org/ooxml/package/", b"schemas.openxmlformats.org/package/2006/"))
    return target.getvalue()


@pytest.mark.parametrize("name", ["a.docx", "a.pptx", "a.xlsx"])
def test_the_strict_format_is_read_like_the_other(read, name):
    """Text, tables and numbers have the same names in another namespace."""
    data = {"a.docx": docx(p("Lit in 1871", run("3", SUP))), "a.pptx": RAISED["a.pptx"], "a.xlsx": SPANNED["a.xlsx"]}[name]
    other = strict(data)

    assert b"purl.oclc.org" in zipfile.ZipFile(io.BytesIO(other)).read("_rels/.rels")
    assert read(name, other).text == read(name, data).text


@pytest.mark.parametrize(
    "suffix", [".docm", ".dotx", ".dotm", ".pptm", ".ppsx", ".potx", ".xlsm", ".xltx", ".xltm", ".ott", ".ots", ".otp"]
)
def test_templates_and_files_with_macros_are_read(read, suffix):
    """Whatever content type they declare."""
    kind = "application/vnd.ms-office.macroEnabledTemplate.main+xml"
    data = {
        "d": docx(p("Elna Brook inherits the mill."), content_type=kind),
        "p": pptx(shape("Elna Brook inherits the mill."), content_type=kind),
        "x": xlsx([["Elna Brook inherits the mill."]], content_type=kind),
        "o": odf("text", "<text:p>Elna Brook inherits the mill.</text:p>"),
    }[suffix[1]]

    assert read(f"a{suffix}", data).text.endswith("Elna Brook inherits the mill.")


def numbered_style(name):
    """A style sheet with one style, whose paragraphs are of list 1."""
    number = '<w:pPr><w:numPr><w:numId w:val="1"/></w:numPr></w:pPr>'
    return f'<w:styles {NAMES}><w:style w:styleId="{name}"><w:name w:val="{name.lower()}"/>{number}</w:style></w:styles>'


def test_lists_of_word_start_again_where_they_say_so(read):
    """A list of the same definition goes on unless it has a start of its own; levels may be changed, styles numbered."""
    restart = '<w:lvlOverride w:ilvl="0"><w:startOverride w:val="5"/></w:lvlOverride>'
    letters = '<w:lvl w:ilvl="0"><w:start w:val="1"/><w:numFmt w:val="lowerLetter"/><w:lvlText w:val="%1)"/></w:lvl>'
    changed = f'<w:lvlOverride w:ilvl="0">{letters}</w:lvlOverride>'
    lists = numbering(("decimal", "%1.", 1), ("lowerRoman", "%1.%2", 1), nums={1: "", 2: "", 3: restart, 4: changed})
    style = numbered_style("Duty")
    body = "".join(p("x", number=number) for number in ((1, 0), (1, 1), (1, 1), (2, 0), (3, 0), (3, 0), (3, 1), (4, 0), (4, 0)))
    body += p("x", style="Duty")
    parts = {"word/numbering.xml": lists, "word/styles.xml": style}

    assert read("a.docx", docx(body, {"n": ("numbering", "numbering.xml")}, parts)).text.split("\n") == [
        *("1. x", "  1.i x", "  1.ii x", "2. x", "5. x", "6. x", "  6.i x", "a) x", "b) x", "3. x")
    ]


def test_levels_of_word_that_never_restart_and_styles_that_name_their_level(read):
    """`lvlRestart` 0 lets a level go on; a style that belongs to the second level is numbered there; legal numbers are decimal."""
    lists = numbering(("upperRoman", "%1.", 1), ("decimal", "%1-%2", 1), nums={1: ""})
    lists = lists.replace(
        '<w:lvlText w:val="%1-%2"/>', '<w:lvlRestart w:val="0"/><w:pStyle w:val="Clause"/><w:isLgl/><w:lvlText w:val="%1-%2"/>'
    )
    style = numbered_style("Clause")
    body = p("x", number=(1, 0)) + p("x", style="Clause") + p("x", number=(1, 0)) + p("x", style="Clause")
    parts = {"word/numbering.xml": lists, "word/styles.xml": style}

    assert read("a.docx", docx(body, {"n": ("numbering", "numbering.xml")}, parts)).text.split("\n") == [
        "I. x",
        "  1-1 x",
        "II. x",
        "  2-2 x",
    ]


def test_a_style_with_a_level_but_no_list_is_numbered_only_below_one(read):
    """Word's subtitles have a level of no list; a style that is based on a numbered one is in its list."""
    bare = "<w:pPr><w:numPr><w:ilvl w:val='1'/></w:numPr></w:pPr>"
    others = (
        f'<w:style w:styleId="Subtitle"><w:name w:val="Subtitle"/>{bare}</w:style>'
        f'<w:style w:styleId="Lower"><w:name w:val="lower"/><w:basedOn w:val="Duty"/>{bare}</w:style></w:styles>'
    )
    style = numbered_style("Duty").replace("</w:styles>", others)
    parts = {"word/numbering.xml": numbering(("decimal", "%1.", 1), ("decimal", "%1.%2", 1), nums={1: ""}), "word/styles.xml": style}
    body = p("At sea", style="Subtitle") + p("x", style="Duty") + p("x", style="Lower")

    assert read("a.docx", docx(body, {"n": ("numbering", "numbering.xml")}, parts)).text == "At sea\n\n1. x\n  1.1 x"


LISTS = (
    '<text:list-style style:name="L1"><text:list-level-style-number text:level="1" style:num-format="1" style:num-suffix="."/>'
    '<text:list-level-style-number text:level="2" style:num-format="a" style:num-suffix=")" text:start-value="3"/></text:list-style>'
    '<text:list-style style:name="L2"><text:list-level-style-bullet text:level="1"/></text:list-style>'
)


def items(*texts, attributes="", style="L1"):
    inner = "".join(t if t.startswith("<") else f"<text:list-item><text:p>{t}</text:p></text:list-item>" for t in texts)
    return f'<text:list text:style-name="{style}" {attributes}>{inner}</text:list>'


def test_lists_of_opendocument_have_their_numbers(read):
    """Numbers, letters, starts of levels and items, lists that go on, bullets, and what follows in an item."""
    nested = "<text:list-item><text:p>b</text:p><text:list><text:list-item><text:p>c</text:p></text:list-item></text:list></text:list-item>"
    body = items("a", nested, "<text:list-item><text:p>d</text:p><text:p>more</text:p></text:list-item>") + "<text:p>Then</text:p>"
    body += items("e", attributes='text:continue-numbering="true"') + items("f") + items("g", style="L2")
    body += items('<text:list-item text:start-value="7"><text:p>h</text:p></text:list-item>', "i")

    assert read("a.odt", odf("text", body, LISTS)).text.split("\n") == [
        *("1. a", "2. b", "  c) c", "3. d", "  more", "", "Then", "", "4. e", "1. f", "- g", "7. h", "8. i")
    ]


def test_numbered_headings_of_opendocument_have_their_numbers(read):
    """As the outline of the document says."""
    outline = (
        '<office:styles><text:outline-style><text:outline-level-style text:level="1" style:num-format="1"/>'
        '<text:outline-level-style text:level="2" style:num-format="1" text:display-levels="2"/></text:outline-style></office:styles>'
    )
    body = "".join(f'<text:h text:outline-level="{level}">x</text:h>' for level in (1, 2, 2, 1, 2))

    assert read("a.odt", odf("text", body, styles=outline)).text.split("\n\n") == ["# 1 x", "## 1.1 x", "## 1.2 x", "# 2 x", "## 2.1 x"]


def test_numbered_lists_of_slides_have_their_numbers(read):
    """Letters and starts as well; bullets where a paragraph has one, none where it has none."""
    numbered = [ap(t, f'<a:pPr lvl="{n}"><a:buAutoNum type="{kind}"/></a:pPr>') for t, n, kind in (
        ("a", 0, "arabicPeriod"), ("b", 1, "alphaLcParenR"), ("c", 1, "alphaLcParenR"), ("d", 0, "arabicPeriod"),
    )]  # fmt: skip
    started = ap("e", '<a:pPr><a:buAutoNum type="romanUcParenBoth" startAt="4"/></a:pPr>')
    rest = ap("f", '<a:pPr><a:buChar char="•"/></a:pPr>') + ap("g", "<a:pPr><a:buNone/></a:pPr>")
    slide = f"<p:sp><p:txBody>{''.join(numbered)}{started}{rest}</p:txBody></p:sp>"

    assert read("a.pptx", pptx(slide)).text.split("\n") == ["1. a", "  a) b", "  b) c", "2. d", "(IV) e", "- f", "g"]


OLD = {
    "a.doc": (made.doc("To Ane Holt,\rElna Brook inherits the mill.\r"), "Elna Brook inherits the mill."),
    "a.ppt": (made.ppt(("Mill", "Elna Brook inherits the mill."), ("End", "Thanks.")),
              "# Mill\n\nElna Brook inherits the mill.\n\n# End\n\nThanks."),
    "a.xls": (made.xls([["Name", "Share"], ["Elna Brook", (0.4, 0)]], formats=["0%"]), "Name: Elna Brook · Share: 40%"),
    "rtf.doc": (rb"{\rtf1\ansi Elna Brook inherits the mill.\par}", "Elna Brook inherits the mill."),
    "new.doc": (docx(p("Elna Brook inherits the mill.")), "Elna Brook inherits the mill."),
    "html.xls": (b"<html><table><tr><th>Name</th><th>Share</th></tr><tr><td>Elna</td><td>40</td></tr></table></html>",
                 "Name: Elna · Share: 40"),
    "tabs.xls": (b"Name\tShare\nElna\t40\n", "Name: Elna · Share: 40"),
    "new.xls": (xlsx([["Name", "Share"], ["Elna", 40]]), "Name: Elna · Share: 40"),
    "text.doc": (b"Elna Brook inherits the mill.", "Elna Brook inherits the mill."),
}  # fmt: skip


@pytest.mark.parametrize("name", OLD)
def test_old_formats_are_read_and_what_only_has_their_name(read, name):
    """Files of Office before 2007, and those that programs give its suffixes to."""
    data, text = OLD[name]

    assert text in read(name, data).text


@pytest.mark.parametrize(("page", "name"), [(1252, "Jürgen"), (10000, "J\N{CEDILLA}rgen"), (999, "Jürgen")])
def test_the_author_and_date_of_an_old_document_are_read(read, page, name):
    """In the encoding that it names, or the usual one where nobody knows that."""
    content = read("a.doc", made.doc("Text.\r", made.summary(b"Tolls", b"J\xfcrgen", 1_000_000_000, page)))

    assert content.metadata == (("title", "Tolls"), ("author", name), ("date", "2001-09-09"))


def test_a_count_that_no_file_can_hold_costs_nothing(read):
    """Properties of an old document are read as far as they are there."""
    properties = made.summary(b"Tolls", b"Ane", 0)
    properties = properties[:52] + struct.pack("<I", 0xFFFFFFFF) + properties[56:]

    assert read("a.doc", made.doc("Text.\r", properties)).text == "Text."


def test_tables_and_fields_of_old_documents_are_read(read):
    """Rows with their headers; of a field its result; breaks, hyphens and hidden characters as in newer documents."""
    text = "Rates\rZone\x07Class\x07Rate\x07\x07Inner\x07small\x0712\x07\x07Paid \x13 DATE \x144 May\x15 for X\x1eray\x0bsalt\x1fworks.\r"

    assert read("a.doc", made.doc(text)).text == "Rates\n\nZone: Inner · Class: small · Rate: 12\n\nPaid 4 May for X-ray\nsaltworks."


def test_messages_of_outlook_are_read_like_mail(read):
    """Sender, recipients, date, text, attachments and attached messages."""
    content = read(
        "a.msg", made.msg("Berth 41", "Rurik comes at noon.", attachments=[("fee.bin", b"\x00\x01"), ("", ("Inner", "Bring the keys."))])
    )

    for line in ("From: Iduna Kell <iduna@ness.example>", "To: Claus Dahlin <claus@ness.example>", "Subject: Berth 41"):
        assert line in content.text
    assert "Rurik comes at noon." in content.text
    assert "fee.bin" in content.text
    assert "Bring the keys." in content.text
    assert (content.title, dict(content.metadata)["date"][:10]) == ("Berth 41", "2001-09-09")


def test_a_message_with_letters_of_any_script_keeps_them(read):
    """In names, subject and text."""
    content = read("a.msg", made.msg("Über 船", "Käpt'n Brömel", sender=('Jürgen "J" Böhm', "j@ness.example")))

    assert "Über 船" in content.text
    assert "Käpt'n Brömel" in content.text
    assert "Jürgen" in content.text


def test_every_office_format_is_read_in_the_confined_process(tmp_path):
    """Also by the libraries of the old formats, without threads, connections and writing."""
    files = {f"{n}{name[1:]}": data for n, group in enumerate((RAISED, GROUPED, SPANNED)) for name, data in group.items()}
    files |= {name: data for name, (data, _) in OLD.items()} | {"a.msg": made.msg("Berth 41", "Noon.", attachments=[("x.txt", b"x")])}
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    found = list(load_files(find_files([tmp_path]).files, tmp_path))

    assert len(found) == len(files)
    assert [document for document in found if isinstance(document, SkippedFile)] == []


def test_damaged_parts_lose_no_other(read):
    """A comment, diagram, slide or style sheet that is no XML leaves the text; without a main part the file is refused."""
    relations = {"s": ("styles", "styles.xml"), "n": ("numbering", "n.xml"), "c": ("comments", "c.xml"), "f": ("footnotes", "f.xml")}
    parts = dict.fromkeys(("word/styles.xml", "word/n.xml", "word/c.xml", "word/f.xml"), "<not closed")
    noted = p("Text", '<w:r><w:footnoteReference w:id="4"/></w:r>', number=(1, 0))

    assert read("a.docx", docx(noted, relations, parts)).text == "- Text [1]\n\n[1]"
    assert (
        read("a.pptx", pptx(shape("One"), shape("Two"), parts={"ppt/slides/slide0.xml": "<not"})).text
        == "[slide0.xml cannot be read]\n\nTwo"
    )
    assert read("a.xlsx", xlsx([["x"]], parts={"xl/styles.xml": "<not", "docProps/core.xml": "<not"})).text.endswith("x")
    assert read("a.odt", odf("text", "<text:p>x</text:p>", parts={"styles.xml": "<not"})).text == "x"
    for name, data in {
        "a.docx": zipped({"x": "y"}),
        "a.doc": made.doc("x")[:600],
        "a.xls": OLD["a.xls"][0][:900],
        "a.msg": b"x" * 600,
    }.items():
        with pytest.raises(Unreadable):
            read(name, data)


HOSTILE = {
    "spans.xlsx": lambda: xlsx([["a", "b"]] + [["c"]] * 3000, "".join(f'<mergeCell ref="A{n}:XFD1048576"/>' for n in range(1, 3000))),
    "far.xlsx": lambda: xlsx([["a"], ['<c r="XFD1048576"><v>1</v></c>', '<c r="ZZZ9999999"><v>2</v></c>']]),
    "tags.xlsx": lambda: xlsx([["a"]], f"<!-- {'<mergeCell x ' * 30_000}{'<oddHeader>' * 30_000} -->"),
    "format.xlsx": lambda: xlsx([[f'<c s="1"><v>{"9" * 300}</v></c>', '<c s="1"><v>1e400</v></c>', "a"]],
                                formats=["0" * 20_000 + "#,##0.0" + "?/" * 900]),
    "spans.docx": lambda: docx(table(*[cell("a", '<w:gridSpan w:val="200"/><w:vMerge w:val="restart"/>') * 20 + cell("b")] * 60)),
    "lists.docx": lambda: docx("".join(p("a", number=(n, n % 9)) for n in range(2000))),
    "fields.docx": lambda: docx(p(*['<w:r><w:fldChar w:fldCharType="begin"/></w:r>'] * 3000) + p("a")),
    "loop.pptx": lambda: pptx(frame('<dgm:relIds r:dm="d"/>') + shape("a"),
                              relations={"d": ("diagramData", "/d.xml")}, parts={"d.xml": DIAGRAM}),
    "repeats.ods": lambda: odf("spreadsheet", odf_table(
        odf_cell("a", 'table:number-columns-repeated="999999999" table:number-rows-spanned="99999"')
    )),
    "nested.odt": lambda: odf("text", "<text:list><text:list-item>" * 150 + "<text:p>a</text:p>" + "</text:list-item></text:list>" * 150),
    "object.odt": lambda: odf("text", '<text:p>a<draw:object xlink:href="."/><draw:object xlink:href=""/></text:p>'),
}  # fmt: skip


@pytest.mark.parametrize("name", mostly_ci(HOSTILE, *(name for name in HOSTILE if name != "spans.docx")))
def test_hostile_files_are_read_in_little_time(read, name):
    """Spans, repetitions, loops and nesting that no person made cost no more than the file is long."""
    data = HOSTILE[name]()

    assert "a" in read(name, data).text


def test_sheets_may_have_a_text_column(read):
    """As in tables of text: each row a paragraph with its metadata before it."""
    rows = [["when", "who", "what"], [1901, "Ane", "The Skua leaks."]]
    options = LoadOptions("what", ("when", "who"))
    old = made.xls([[v if isinstance(v, str) else (float(v), -1) for v in row] for row in rows])

    assert (
        read("a.xlsx", xlsx(rows), options).text == read("a.xls", old, options).text == "# Toll\n\nwhen: 1901 · who: Ane\nThe Skua leaks."
    )


def test_content_controls_may_stand_around_anything(read):
    """Paragraphs, rows and cells in them are read in their place."""
    body = f"<w:sdt><w:sdtContent>{p('Contents')}</w:sdtContent></w:sdt>"
    body += (
        f"<w:tbl><w:sdt><w:sdtContent><w:tr><w:sdt><w:sdtContent>{cell('Date')}</w:sdtContent></w:sdt>{cell('Author')}{cell('x')}</w:tr>"
    )
    body += f"</w:sdtContent></w:sdt><w:tr>{cell('2015')}{cell('Ane')}{cell('3')}</w:tr></w:tbl>"

    assert read("a.docx", docx(body)).text == "Contents\n\nDate: 2015 · Author: Ane · x: 3"
