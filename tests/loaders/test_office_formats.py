"""Office documents as a careful reader would write them down: every kind of thing in them, in every format that has it."""

import io
import re
import struct
import zipfile

import pytest

from localrag.filters import day_from_metadata
from localrag.loaders.content import Unreadable
from localrag.loaders.discover import find_files
from localrag.loaders.reader import load_files
from localrag.records import SkippedFile
from tests.conftest import mostly_ci
from tests.indexing.files import zipped
from tests.loaders import office_files as made
from tests.loaders.office_files import LOW, NAMES, SUPER, cell, docx, odf, odf_cell, odf_table, p, pptx, run, shape, table, xlsx
from tests.loaders.parsing import parsed, text_of
from tests.loaders.test_load import write

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
    "a.pptx": pptx(shape(f"<a:r><a:t>Lit in 1871</a:t></a:r>{made.raised(3, 30000)}<a:r><a:t> by CO</a:t></a:r>{made.raised(2, -25000)}"
                         f"<a:r><a:t>, 10</a:t></a:r>{made.raised(6, '30%')}")),
    "a.xlsx": xlsx([['<c t="s"><v>0</v></c>']], strings=[XLSX_RICH]),
    "b.xlsx": xlsx([[f'<c t="inlineStr"><is>{XLSX_RICH}</is></c>']]),
    "a.odt": odf("text", ODF_RICH, SUPER + LOW),
    "a.odp": odf("presentation", f"<draw:page><draw:frame><draw:text-box>{ODF_RICH}</draw:text-box></draw:frame></draw:page>", SUPER + LOW),
    "a.ods": odf("spreadsheet", odf_table(f"<table:table-cell>{ODF_RICH}</table:table-cell>"), SUPER + LOW),
}  # fmt: skip


def spanning(text, rows=1, columns=1):
    return odf_cell(text, f'table:number-rows-spanned="{rows}" table:number-columns-spanned="{columns}"')


def numbers(rows):
    """Rows of a sheet as Excel 97 has them."""
    return [[v if isinstance(v, str) else (float(v), -1) for v in row] for row in rows]


def merged(*ranges):
    cells = "".join(f'<mergeCell ref="{one}"/>' for one in ranges)
    return f"<mergeCells>{cells}</mergeCells>"


CATCHES = [["Port", "1901", "", "1902"], ["", "Herring", "Cod", "Herring"], ["Ness", 412, 87, 300], ["", 388, 140, 310]]
ODF_CATCHES = odf_table(
    spanning("Port", rows=2) + spanning("1901", columns=2) + made.COVERED + odf_cell("1902"),
    made.COVERED + odf_cell("Herring") + odf_cell("Cod") + odf_cell("Herring"),
    spanning("Ness", rows=2) + odf_cell("412") + odf_cell("87") + odf_cell("300"),
    made.COVERED + odf_cell("388") + odf_cell("140") + odf_cell("310"),
)
# A year above the kinds of fish is part of each of their names; a cell that spans rows names all of them.
SPANNED_TEXT = (
    "Port: Ness · 1901 Herring: 412 · 1901 Cod: 87 · 1902 Herring: 300\nPort: Ness · 1901 Herring: 388 · 1901 Cod: 140 · 1902 Herring: 310"
)
SPANNED = {
    "a.docx": docx(table(
        cell("Port", '<w:vMerge w:val="restart"/>') + cell("1901", '<w:gridSpan w:val="2"/>') + cell("1902"),
        cell("", "<w:vMerge/>") + cell("Herring") + cell("Cod") + cell("Herring"),
        cell("Ness", '<w:vMerge w:val="restart"/>') + cell("412") + cell("87") + cell("300"),
        cell("", "<w:vMerge/>") + cell("388") + cell("140") + cell("310"),
    )),
    "a.pptx": pptx(made.slide_table(
        [("Port", 'rowSpan="2"'), ("1901", 'gridSpan="2"'), ("", 'hMerge="1"'), "1902"], [("", 'vMerge="1"'), "Herring", "Cod", "Herring"],
        [("Ness", 'rowSpan="2"'), "412", "87", "300"], [("", 'vMerge="1"'), "388", "140", "310"],
    )),
    "a.xlsx": xlsx(CATCHES, merged("A1:A2", "B1:C1", "A3:A4")),
    "a.xls": made.xls(numbers(CATCHES), merged=[(0, 1, 0, 0), (0, 0, 1, 2), (2, 3, 0, 0)]),
    "a.odt": odf("text", ODF_CATCHES),
    "a.ods": odf("spreadsheet", ODF_CATCHES),
    "a.odp": odf("presentation", f"<draw:page><draw:frame>{ODF_CATCHES}</draw:frame></draw:page>"),
}  # fmt: skip
# The mark of a note stands in brackets, an exponent behind ^, the digit of a formula as it is.
ENDINGS = {"Lit in 1871[3] by CO2, 10^6": RAISED, SPANNED_TEXT: SPANNED}


@pytest.mark.parametrize(("name", "data", "text"), [(name, data, text) for text, files in ENDINGS.items() for name, data in files.items()])
def test_every_format_says_the_same(name, data, text):
    """Raised and lowered text, and a group of rows below one label and two rows of headers."""
    assert text_of(name, data).endswith(text)


STYLES = (
    f'<w:styles {NAMES}><w:style w:type="character" w:styleId="Up"><w:name w:val="up"/><w:rPr>{SUP}</w:rPr></w:style>'
    '<w:style w:type="character" w:styleId="Upper"><w:name w:val="upper"/><w:basedOn w:val="Up"/></w:style></w:styles>'
)
STYLED = p("Herring", run("12", '<w:rStyle w:val="Upper"/>'), " at 5 m", run("2", '<w:rStyle w:val="Up"/>'), ", the 1", run("st", SUP))
STYLED += p(run("a whole line that is raised", SUP))
ODF_STYLE = '<style:style style:name="T3" style:family="text" style:parent-style-name="T1"/>'
ODF_STYLED = '<text:p>Herring<text:span text:style-name="T3">12</text:span> and cod</text:p>'
NOTES = f'<w:footnotes {NAMES}><w:footnote w:id="4">{p("At the bow.")}</w:footnote></w:footnotes>'
ENDNOTES = f'<w:endnotes {NAMES}><w:endnote w:id="4">{p("Since May.")}</w:endnote></w:endnotes>'
FOOTNOTE = '<w:r><w:footnoteReference w:id="4"/></w:r>'
ENDNOTE = '<w:r><w:endnoteReference w:customMarkFollows="1" w:id="4"/><w:t>*</w:t></w:r>'
ODF_NOTE = (
    '<text:note text:note-class="{}"><text:note-citation>{}</text:note-citation>'
    "<text:note-body><text:p>{}</text:p></text:note-body></text:note>"
)
ODF_NOTED = f"<text:p>The Skua leaks{ODF_NOTE.format('footnote', '1', 'At the bow.')}.</text:p>"
ODF_NOTED += odf_table(odf_cell(f"badly{ODF_NOTE.format('endnote', 'i', 'Since May.')}") + odf_cell("x"))
CHANGED = p("The price is ", f"<w:del>{run('900').replace('w:t', 'w:delText')}</w:del>", f"<w:ins>{run('1,150')}</w:ins>", " crowns.")
CHANGED += p(f"<w:moveFrom>{run('Paid in May.')}</w:moveFrom>", "Signed. ", f"<w:moveTo>{run('Paid in May.')}</w:moveTo>")
CHANGED += p(run("secret", "<w:vanish/>"), run("shown", '<w:vanish w:val="0"/>'))
CHANGED += table(cell("a") + cell("b") + cell("c"), f"<w:trPr><w:del/></w:trPr>{cell('x')}{cell('y')}{cell('z')}")
ODF_CHANGED = (
    "<text:tracked-changes><text:changed-region><text:deletion><text:p>900</text:p></text:deletion></text:changed-region>"
    "</text:tracked-changes><text:p>The price is <text:change/><text:change-start/>1,150<text:change-end/> crowns.</text:p>"
)


def field(instruction, *result, begin=""):
    """A field of Word: its instruction and result."""
    shown = '<w:r><w:fldChar w:fldCharType="separate"/></w:r>' + "".join(map(run, result)) if result else ""
    return (
        f'<w:r><w:fldChar w:fldCharType="begin">{begin}</w:fldChar></w:r><w:r><w:instrText>{instruction}</w:instrText></w:r>{shown}'
        '<w:r><w:fldChar w:fldCharType="end"/></w:r>'
    )


NESTED_FIELD = (
    f'<w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText>IF </w:instrText></w:r>{field("MERGEFIELD x", "inner")}'
    f'<w:r><w:fldChar w:fldCharType="separate"/></w:r>{run("outer")}<w:r><w:fldChar w:fldCharType="end"/></w:r>'
)
BREAKS = (
    "<w:r><w:t>keeper</w:t><w:ptab/><w:t>Jorun</w:t><w:br/><w:t>salt</w:t><w:softHyphen/><w:t>works re\xadgister X</w:t>"
    "<w:noBreakHyphen/><w:t>ray</w:t></w:r>"
)
FIELDS = p(field("DATE", "4 May"), f'<w:fldSimple w:instr="AUTHOR">{run(" by Ane")}</w:fldSimple>') + p(NESTED_FIELD) + p(BREAKS)
TICKED, UNTICKED = (
    field("FORMCHECKBOX", begin=f"<w:ffData><w:checkBox>{state}</w:checkBox></w:ffData>")
    for state in ("<w:checked/>", '<w:default w:val="0"/>')
)
CHECKBOX = '<w:sdt><w:sdtPr><w14:checkbox><w14:checked w14:val="1"/></w14:checkbox></w:sdtPr><w:sdtContent><w:r/></w:sdtContent></w:sdt>'


def symbol(font, code):
    return f'<w:r><w:sym w:font="{font}" w:char="{code}"/></w:r>'


SYMBOLS = p("Insured: ", symbol("Wingdings", "F0FD"), " yes ", symbol("Wingdings", "F0A8"), " no")
SYMBOLS += p(symbol("Symbol", "F061"), run("\uf0fc", '<w:rFonts w:ascii="Wingdings"/>'), " done ", CHECKBOX)
SYMBOLS += p("latex ", TICKED, " salt ", UNTICKED)
SLIDE_SYMBOLS = shape('<a:r><a:rPr><a:sym typeface="Wingdings"/></a:rPr><a:t>\uf0a8</a:t></a:r><a:r><a:t> no</a:t></a:r>')
ODF_BOXES = (
    '<office:forms><form:form><form:checkbox form:id="c1" form:label="insured" form:current-state="checked"/></form:form></office:forms>'
    '<text:p><draw:control draw:control="c1"/> latex</text:p>'
)
CHOICE = '<w:ffData><w:ddList><w:result w:val="1"/><w:listEntry w:val="A"/><w:listEntry w:val="AB negative"/></w:ddList></w:ffData>'
FORM = p("Blood group: ", field("FORMDROPDOWN", begin=CHOICE)) + p("Name: ", field("FORMTEXT", "Ane Holt", begin="<w:ffData/>"))
FORM += p("Port: ", f"<w:sdt><w:sdtPr><w:dropDownList/></w:sdtPr><w:sdtContent>{run('Ness')}</w:sdtContent></w:sdt>")
ODF_FORM = (
    '<office:forms><form:form><form:listbox form:id="l"><form:option form:label="A"/><form:option form:label="AB negative" '
    'form:current-selected="true"/></form:listbox><form:text form:id="t" form:current-value="Ane Holt"/></form:form></office:forms>'
    '<text:p>Blood group: <draw:control draw:control="l"/></text:p><text:p>Name: <draw:control draw:control="t"/></text:p>'
)
READING = p(f"<w:r><w:ruby><w:rt>{run('とうだい')}</w:rt><w:rubyBase>{run('灯台')}</w:rubyBase></w:ruby></w:r>", "は明るい。")
ODF_READING = (
    "<text:p><text:ruby><text:ruby-base>灯台</text:ruby-base><text:ruby-text>とうだい</text:ruby-text></text:ruby>は明るい。</text:p>"
)
RUNNING = '<w:headerReference w:type="default" r:id="h"/><w:headerReference w:type="first" r:id="x"/><w:footerReference r:id="f"/>'
RUNNING_RELATIONS = {"h": ("header", "h.xml"), "x": ("header", "x.xml"), "f": ("footer", "f.xml")}
RUNNING_PARTS = {
    "word/h.xml": f"<w:hdr {NAMES}>{p('Pilots of Ness')}</w:hdr>",
    "word/x.xml": f"<w:hdr {NAMES}>{p('Not shown')}</w:hdr>",
    "word/f.xml": f"<w:ftr {NAMES}>{p('Reference KB-77')}{p('Page ', field('PAGE', '1'), ' of ', field('NUMPAGES', '9'))}</w:ftr>",
}
ODF_RUNNING = (
    '<office:master-styles><style:master-page style:name="Standard"><style:header><text:p>Pilots of Ness</text:p></style:header>'
    "<style:footer><text:p>Reference KB-77</text:p><text:p>Seite <text:page-number>1</text:page-number></text:p></style:footer>"
    '</style:master-page><style:master-page style:name="Unused"><style:header><text:p>Not shown</text:p></style:header>'
    "</style:master-page></office:master-styles>"
)
XLSX_RUNNING = "<headerFooter><oddHeader>&amp;LPilots of Ness&amp;RPage &amp;P</oddHeader>"
XLSX_RUNNING += '<oddFooter>&amp;C&amp;"Arial,Bold"&amp;8Reference KB-77</oddFooter></headerFooter>'
FOOTED_SLIDES = [shape("Dear Ane,") + shape("Reference KB-77", kind="ftr") + shape(str(n), kind="sldNum") for n in (1, 2)]
ODF_FOOTED = '<presentation:footer-decl presentation:name="f">Reference KB-77</presentation:footer-decl>'
ODF_FOOTED += '<draw:page presentation:use-footer-name="f"><text:p>Dear Ane,</text:p></draw:page>' * 2
LETTER = "Header: Pilots of Ness\n\nDear Ane,\n\nFooter: Reference KB-77"
INSERTED = {
    "chunk.html": "<html><body><p>The keys are with <b>Bo Rask</b>.</p></body></html>",
    "chunk.mht": 'MIME-Version: 1.0\nContent-Type: multipart/related; boundary="b"\n\n--b\nContent-Type: text/html\n'
    "Content-Transfer-Encoding: quoted-printable\n\n<p>The keys are with Bo=20Rask.</p>\n--b--\n",
}


def with_inserted(name, data, more=""):
    """A Word document into which a file is inserted."""
    return docx(f'{p("Before.")}<w:altChunk r:id="c"/>{more}{p("After.")}', {"c": ("aFChunk", name)}, {f"word/{name}": data})


POINTS = "".join(
    f'<dgm:pt modelId="{n}"><dgm:t>{made.ap(text)}</dgm:t></dgm:pt>' for n, text in enumerate(["", "Iduna Kell", "Claus Dahlin", "Bo Rask"])
)
LINKS = "".join(
    f'<dgm:cxn modelId="c{n}" srcId="{source}" destId="{target}" srcOrd="{order}"/>'
    for n, (source, target, order) in enumerate([(1, 3, 1), (0, 1, 0), (1, 2, 0), (3, 1, 0)])
)
DIAGRAM = {"word/d.xml": f"<dgm:dataModel {NAMES}><dgm:ptLst>{POINTS}</dgm:ptLst><dgm:cxnLst>{LINKS}</dgm:cxnLst></dgm:dataModel>"}
DIAGRAM_IDS = '<dgm:relIds r:dm="d"/>'
DIAGRAM_RELATION = {"d": ("diagramData", "/word/d.xml")}
DIAGRAM_TEXT = "- Iduna Kell\n  - Claus Dahlin\n  - Bo Rask"


def alternatives(choice, fallback):
    """A Word document and a slide with two versions of a text box."""
    boxes = [f"<w:txbxContent>{p(text)}</w:txbxContent>" if text else "" for text in (choice, fallback)]
    body = p(
        f"<w:r><mc:AlternateContent><mc:Choice><w:drawing><wps:txbx>{boxes[0]}</wps:txbx></w:drawing></mc:Choice>"
        f"<mc:Fallback><w:pict><v:textbox>{boxes[1]}</v:textbox></w:pict></mc:Fallback></mc:AlternateContent></w:r>"
    )
    shapes = [shape(text) if text else "" for text in (choice, fallback)]
    slide = f"<mc:AlternateContent><mc:Choice>{shapes[0]}</mc:Choice><mc:Fallback>{shapes[1]}</mc:Fallback></mc:AlternateContent>"
    return ("two.docx", docx(body), "The fee is 77 crowns."), ("two.pptx", pptx(slide), "The fee is 77 crowns.")


BOX = f"<w:r><w:pict><w:txbxContent>{p('In a box.')}</w:txbxContent></w:pict></w:r>"
XLSX_BOX = {"xl/d.xml": f'<d xmlns:x="urn:x" {NAMES}><x:sp><x:txBody>{made.ap("In a box.")}</x:txBody></x:sp></d>'}
ODF_SHAPE = "<text:p>Beside<draw:custom-shape><text:p>In a box.</text:p></draw:custom-shape></text:p>"
EMBEDDED = {"e": ("package", "embeddings/catches.xlsx"), "o": ("oleObject", "embeddings/deed.bin")}
ODF_CHART = (
    f"<office:document-content {made.ODF}><office:body><office:chart><chart:chart><chart:title><text:p>Landings</text:p></chart:title>"
    f"{odf_table(odf_cell('') + odf_cell('Herring'), odf_cell('1901') + odf_cell('412'))}</chart:chart></office:chart></office:body>"
    "</office:document-content>"
)
ODF_EMBEDDED = '<text:p>Text<draw:frame><draw:object xlink:href="./Object 1"/></draw:frame><draw:object-ole xlink:href="./deed"/></text:p>'
XLSX_COMMENTS = {
    "xl/c.xml": f'<comments xmlns="{made.S}"><authors><author>H. Lund</author></authors><commentList>'
    '<comment ref="B2" authorId="0"><text><r><t>H. Lund:</t></r><r><t> was 11</t></r></text></comment>'
    '<comment ref="A2" authorId="0"><text><t>[Threaded comment] open it in a newer program</t></text></comment></commentList></comments>',
    "xl/t.xml": '<ThreadedComments xmlns="urn:t"><threadedComment ref="A2" dT="2024-03-01T10:00:00" personId="{1}">'
    "<text>Which one?</text></threadedComment></ThreadedComments>",
    "xl/persons/person.xml": '<personList xmlns="urn:t"><person id="{1}" displayName="Ane Holt"/></personList>',
}
COMMENT_RELATIONS = {"c": ("comments", "../c.xml"), "t": ("http://x/2017/threadedComment", "../t.xml")}
ODF_COMMENT = "<office:annotation><dc:creator>H. Lund</dc:creator><dc:date>2024-03-01T10:00:00</dc:date>"
ODF_COMMENT += "<text:p>was 11</text:p></office:annotation>"
ODF_COMMENTED = odf_table(odf_cell("Zone") + odf_cell("Rate"), odf_cell("Inner") + odf_cell("12", inside=ODF_COMMENT))
WORD_COMMENT = f'<w:comments {NAMES}><w:comment w:author="H. Lund" w:date="2024-03-01T10:00:00Z">{p("was 11")}</w:comment></w:comments>'
COMMENTED = "Rates\n\nComment by H. Lund, 2024-03-01: was 11"
STEPS = shape("Step two.", place="0 500 900 100") + shape("Step one.", place="0 100 900 100")
GROUP = f"<p:grpSp>{shape('In a group.')}<p:grpSp>{shape('Deeper.')}</p:grpSp></p:grpSp>"
SPEAKER = (
    f"<p:notes {NAMES}><p:cSld><p:spTree>{shape('Speak slowly.', kind='body')}{shape('1', kind='sldNum')}</p:spTree></p:cSld></p:notes>"
)
ODF_SLIDE = (
    '<draw:page><draw:frame presentation:class="outline"><draw:text-box><text:p>Step one.</text:p></draw:text-box></draw:frame>'
    '<draw:frame presentation:class="title"><draw:text-box><text:p>Pilots</text:p></draw:text-box></draw:frame><presentation:notes>'
    '<draw:frame presentation:class="notes"><draw:text-box><text:p>Speak slowly.</text:p></draw:text-box></draw:frame>'
    "</presentation:notes></draw:page>"
)
SPANNING_ROWS = [["Catches", "", ""], ["Port", "Herring", "Cod"], ["North coast", "", ""], ["Ness", "closed", ""], ["Wessel", 388, 140]]
PORTS = [cell("Port") + cell("Herring") + cell("Cod"), cell("Ness") + cell("412") + cell("87")]
HEADER_ROWS = [cell("Port") + cell("Catch") + cell("Catch"), cell("") + cell("of May") + cell("of June")]
CONTROLS = (
    f"<w:sdt><w:sdtContent>{p('Contents')}</w:sdtContent></w:sdt><w:tbl><w:sdt><w:sdtContent><w:tr><w:sdt><w:sdtContent>{cell('Date')}"
    f"</w:sdtContent></w:sdt>{cell('Author')}{cell('x')}</w:tr></w:sdtContent></w:sdt>"
    f"<w:tr>{cell('2015')}{cell('Ane')}{cell('3')}</w:tr></w:tbl>"
)
XLSX_VALUES = [
    '<c t="b"><v>1</v></c>', '<c t="e"><v>#DIV/0!</v></c>', '<c t="d"><v>2024-03-09T00:00:00</v></c>', '<c s="1"><v>43898</v></c>',
    "a_x000D_b",
]  # fmt: skip
ODF_VALUES = odf_table(
    odf_cell("17.5 %", 'office:value-type="percentage" office:value="0.175"')
    + odf_cell("02139", 'office:value-type="float" office:value="2139"')
    + odf_cell("9. 3. 24", 'office:value-type="date" office:date-value="2024-03-09T08:30:00"')
    + '<table:table-cell office:value-type="float" office:value="12"/>'
    + '<table:table-cell office:value-type="boolean" office:boolean-value="true"/>'
)
FORMULAS = [
    ["Item", "Net", "Gross"],
    ["Rope", 100, "<c><f>B2*1.25</f><v>125</v></c>"],
    ["Tar", 40, '<c><f t="shared" si="0">_xlfn.CEILING(B3)</f><v></v></c>'],
    ["Oak", 10, '<c><f t="shared" si="0"/></c>'],
]
PLOTS, WATER = "https://tarn.example/plots?y=2031", "https://tarn.example/water"
LINKED = {"l": ("hyperlink", PLOTS), "m": ("hyperlink", "mailto:edda@tarn.example")}
WORD_LINKS = p(
    "Ask by ",
    f'<w:hyperlink r:id="l" w:anchor="top">{run("the ")}{run("form", "<w:b/>")}</w:hyperlink>',
    " or ",
    f'<w:hyperlink r:id="m">{run("write")}</w:hyperlink>',
    ", see ",
    f'<w:hyperlink w:anchor="p2">{run("below")}</w:hyperlink>',
)
WORD_LINKS += p("Water: ", field(f'HYPERLINK "{WATER}" \\t "_blank"', "the ", "shed"), ", ", field('HYPERLINK \\l "p2"', "below"), FOOTNOTE)
WORD_LINKS += p(f'<w:fldSimple w:instr="HYPERLINK &quot;{WATER}&quot;">{run("shed")}</w:fldSimple>', f" {WATER}")
WORD_LINKS += p(
    '<w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText>HYPERLINK "</w:instrText></w:r>', field("MERGEFIELD a", WATER),
    '<w:r><w:instrText>"</w:instrText></w:r><w:r><w:fldChar w:fldCharType="separate"/></w:r>', field("REF b", "tap"),
    '<w:r><w:fldChar w:fldCharType="end"/></w:r>',
)  # fmt: skip
LINKED_NOTE = NOTES.replace("At the bow.", "</w:t></w:r><w:hyperlink r:id='n'><w:r><w:t>Plan</w:t></w:r></w:hyperlink><w:r><w:t>")
LINKED_NOTES = {
    "word/footnotes.xml": LINKED_NOTE,
    "word/_rels/footnotes.xml.rels": made.relationships({"n": ("hyperlink", "https://tarn.example/plan")}),
}
STRIKING = (
    f'<w:styles {NAMES}><w:style w:type="character" w:styleId="Out"><w:name w:val="out"/><w:rPr><w:strike/></w:rPr></w:style>'
    '<w:style w:type="character" w:styleId="Gone"><w:name w:val="gone"/><w:basedOn w:val="Out"/></w:style>'
    '<w:style w:type="paragraph" w:styleId="Void"><w:name w:val="void"/><w:rPr><w:dstrike/></w:rPr></w:style></w:styles>'
)
STRUCK = p(
    "A cart pays ", run("14", "<w:strike/>"), run(" crowns", "<w:dstrike/>"), " 19 crowns, ", run("a dog 2", '<w:rStyle w:val="Gone"/>')
)
STRUCK += p("Void, but ", run("not this", '<w:dstrike w:val="0"/>'), style="Void")
YELLOW = '<w:highlight w:val="yellow"/>'
HIGHLIGHTED = p(
    "The landlord ", run("repairs ", YELLOW), run("the roof", YELLOW), " and ", run("paints", '<w:highlight w:val="none"/>'), " it."
)


def commented(key, *texts):
    """Paragraphs in which a comment is about the second half of the first and the first half of the last."""
    begin, end = (f'<w:commentRange{one} w:id="{key}"/>' for one in ("Start", "End"))
    return p(texts[0], begin, texts[1]) + "".join(map(p, texts[2:-2])) + p(texts[-2], end, texts[-1])


def word_comment(key, author, text, paragraph):
    inner = p(text).replace("<w:p>", f'<w:p w14:paraId="{paragraph}">')
    return f'<w:comment w:id="{key}" w:author="{author}" w:date="2031-03-01T10:00:00Z">{inner}</w:comment>'


THREADS = {
    "word/c.xml": f"<w:comments {NAMES}>{word_comment(0, 'Ane', 'Too high.', 'A')}{word_comment(1, 'Bo', 'Why?', 'B')}"
    f"{word_comment(2, 'Una', 'I agree.', 'C')}</w:comments>",
    "word/x.xml": '<w15:commentsEx xmlns:w15="http://schemas.microsoft.com/office/word/2012/wordml"><w15:commentEx w15:paraId="A"/>'
    '<w15:commentEx w15:paraId="B"/><w15:commentEx w15:paraId="C" w15:paraIdParent="A"/></w15:commentsEx>',
}
THREADED = docx(
    commented(0, "The rent is ", "900 crowns", " a month", ".") + commented(1, "The ", "deposit", "", " is low."),
    {"c": ("comments", "c.xml"), "x": ("http://x/2011/commentsExtended", "x.xml")},
    THREADS,
)


def math(*parts):
    """A formula of Word; parts are texts, or XML."""
    return f"<m:oMath>{''.join(map(term, parts))}</m:oMath>"


def term(part):
    return part if part.startswith("<") else f"<m:r><m:t>{part}</m:t></m:r>"


def built(tag, properties="", **parts):
    """A structure of a formula, with the names of its parts."""
    inner = "".join(
        f"<m:{name}>{''.join(map(term, (part,) if isinstance(part, str) else part))}</m:{name}>" for name, part in parts.items()
    )
    return f"<m:{tag}><m:{tag}Pr>{properties}</m:{tag}Pr>{inner}</m:{tag}>"


MATRIX = f"<m:m>{''.join(f'<m:mr><m:e>{term(a)}</m:e><m:e>{term(b)}</m:e></m:mr>' for a, b in ('10', '01'))}</m:m>"
WORD_FORMULAS = {
    "3/8": math(built("f", num="3", den="8")),
    "2 1/4 inch": math("2", built("f", num="1", den="4")) + run(" inch"),
    "10^5 x_i^2 y": math(built("sSup", e="10", sup="5"), " ", built("sSubSup", e="x", sub="i", sup="2"), "y"),
    "(a+b)/2": math(built("f", num="a+b", den="2")),
    "√(2) √[3](x)": math(built("rad", deg="", e="2"), " ", built("rad", deg="3", e="x")),
    "∑_(i=1)^n i": math(built("nary", '<m:chr m:val="∑"/>', sub="i=1", sup="n", e="i")),
    "[1, 0; 0, 1]": math(built("d", '<m:begChr m:val="["/><m:endChr m:val="]"/>', e=MATRIX)),
    "v⃗ y\u0305": math(built("acc", '<m:chr m:val="⃗"/>', e="v"), " ", built("bar", '<m:pos m:val="top"/>', e="y")),
    "lim_(x→0) sin x": math(built("func", fName=built("limLow", e="lim", lim="x→0"), e=built("func", fName="sin", e="x"))),
}
SLIDE_LINKS = shape(
    '<a:r><a:t>Fill in </a:t></a:r><a:r><a:rPr><a:hlinkClick r:id="l"/></a:rPr><a:t>the form</a:t></a:r>'
    '<a:r><a:rPr strike="sngStrike"/><a:t> soon</a:t></a:r><a:r><a:rPr strike="noStrike"/><a:t> now</a:t></a:r>'
)
SLIDE_LINKS += (
    '<p:sp><p:nvSpPr><p:cNvPr id="7" name=""><a:hlinkClick r:id="m"/></p:cNvPr></p:nvSpPr>'
    f"<p:txBody>{made.ap('Write to us')}{made.ap('Next slide')}</p:txBody></p:sp>"
)
SLIDE_REMARK = (
    '<p188:cmLst xmlns:p188="urn:p" xmlns:ac="urn:a" xmlns:a="urn:d"><p188:cm created="2031-03-01T10:00:00"><ac:txMkLst><ac:spMk id="7"/>'
    '<ac:txMk cp="12" len="4"/></ac:txMkLst><p188:replyLst><p188:reply><p188:txBody><a:t>Done.</a:t></p188:txBody></p188:reply>'
    "</p188:replyLst><p188:txBody><a:t>Which?</a:t></p188:txBody></p188:cm></p188:cmLst>"
)
SHEET_LINKS = (
    '<hyperlinks><hyperlink ref="A2" r:id="l" location="top"/><hyperlink ref="B2:B3" r:id="m"/><hyperlink ref="A3" location="Toll!A1"/>'
    "</hyperlinks>"
)
LINKED_ROWS = [["Form", "Keeper", "Page"], ["Plots", "Edda", f'<c><f>HYPERLINK("{WATER}","tap")</f><v></v></c>'],
               ["Sheds", "Olav", f'<c t="str"><f>IF(A1,HYPERLINK("{WATER}", A2))</f><v>open</v></c>']]  # fmt: skip
STRUCK_FONTS = {
    "xl/styles.xml": f'<styleSheet xmlns="{made.S}"><fonts><font/><font><strike/></font><font><strike val="0"/></font></fonts><cellXfs>'
    + "".join(f'<xf fontId="{n}"/>' for n in range(3)) + "</cellXfs></styleSheet>"
}  # fmt: skip
STRUCK_RICH = "<r><t>pays </t></r><r><rPr><strike/></rPr><t>14</t></r><r><t> 19</t></r>"
STRUCK_ROW = ['<c s="1" t="inlineStr"><is><t>Dog</t></is></c>', '<c s="2"><v>2</v></c>', f'<c t="inlineStr"><is>{STRUCK_RICH}</is></c>']
OLD_TABLE = "Rates\rZone\x07Class\x07Rate\x07\x07Inner\x07small\x0712\x07\x07Paid \x13 DATE \x144 May\x15 for X\x1eray\x0bsalt\x1fworks.\r"
HUGE_COUNT = made.summary(b"Tolls", b"Ane", 0)
HUGE_COUNT = HUGE_COUNT[:52] + struct.pack("<I", 0xFFFFFFFF) + HUGE_COUNT[56:]
BROKEN_PARTS = {"s": ("styles", "styles.xml"), "n": ("numbering", "n.xml"), "c": ("comments", "c.xml"), "f": ("footnotes", "f.xml")}


TEXTS = [
    # Styles of characters raise text too, and those that are based on one; words that are raised stay words.
    ("styles.docx", docx(STYLED, parts={"word/styles.xml": STYLES}), "Herring[12] at 5 m^2, the 1st\n\na whole line that is raised"),
    ("styles.odt", odf("text", ODF_STYLED, SUPER + ODF_STYLE), "Herring[12] and cod"),
    # Notes are numbers with their text at the end, also those with a mark of their own, and those in tables.
    ("notes.docx",
     docx(p("The Skua leaks", FOOTNOTE, " badly", ENDNOTE, "."),
          {"f": ("footnotes", "footnotes.xml"), "e": ("endnotes", "endnotes.xml")},
          {"word/footnotes.xml": NOTES, "word/endnotes.xml": ENDNOTES}),
     "The Skua leaks [1] badly [2].\n\n[1] At the bow.\n\n[2] Since May."),
    ("notes.odt", odf("text", ODF_NOTED), "The Skua leaks [1].\n\nbadly [2] · x\n\n[1] At the bow.\n\n[2] Since May."),
    # Deleted and hidden text is gone, what was inserted stays, moved text stands once; a deleted row of a table goes with its cells.
    ("changes.docx", docx(CHANGED), "The price is 1,150 crowns.\n\nSigned. Paid in May.\n\nshown\n\na · b · c"),
    ("changes.odt", odf("text", ODF_CHANGED), "The price is 1,150 crowns."),
    # Fields show their results, not their instructions nor what is nested in these; tabs and breaks divide words, soft hyphens do not.
    ("fields.docx", docx(FIELDS), "4 May by Ane\n\nouter\n\nkeeper\tJorun\nsaltworks register X-ray"),
    ("breaks.odt", odf("text", "<text:p>keeper<text:tab/>Jorun<text:line-break/>salt\xadworks<text:s text:c='2'/>X\u2011ray</text:p>"),
     "keeper\tJorun\nsaltworks  X\u2011ray"),
    ("breaks.pptx", pptx(shape("<a:r><a:t>keeper</a:t></a:r><a:br/><a:r><a:t>Jorun salt\xadworks</a:t></a:r>")), "keeper Jorun saltworks"),
    # Characters of symbol fonts, boxes of content controls and of forms of before 2007, ticked and not.
    ("symbols.docx", docx(SYMBOLS), "Insured: ☒ yes ☐ no\n\nα✓ done ☒\n\nlatex ☒ salt ☐"),
    ("symbols.pptx", pptx(SLIDE_SYMBOLS), "☐ no"),
    ("boxes.odt", odf("text", ODF_BOXES), "☒ insured latex"),
    # Form fields: the entry of a list, the text of a field, what a content control shows.
    ("form.docx", docx(FORM), "Blood group: AB negative\n\nName: Ane Holt\n\nPort: Ness"),
    ("form.odt", odf("text", ODF_FORM), "Blood group: AB negative\n\nName: Ane Holt"),
    # A reading stands behind its word in parentheses, as in print without the space above.
    ("reading.docx", docx(READING), "灯台(とうだい)は明るい。"),
    ("reading.odt", odf("text", ODF_READING), "灯台(とうだい)は明るい。"),
    # Headers and footers stand once; the number of a page is not read, nor a header that no page shows.
    ("running.docx", docx(p("Dear Ane,") + f"<w:sectPr>{RUNNING}</w:sectPr>" * 2, RUNNING_RELATIONS, RUNNING_PARTS), LETTER),
    ("running.odt", odf("text", "<text:p>Dear Ane,</text:p>", styles=ODF_RUNNING), LETTER),
    ("running.xlsx", xlsx([["Dear Ane,"]], XLSX_RUNNING), "# Toll\n\nDear Ane,\n\nHeader: Pilots of Ness\n\nFooter: Reference KB-77"),
    ("running.ods", odf("spreadsheet", odf_table(odf_cell("Dear Ane,")), styles=ODF_RUNNING),
     "# Toll\n\nDear Ane,\n\nHeader: Pilots of Ness\nFooter: Reference KB-77"),
    ("running.pptx", pptx(*FOOTED_SLIDES), "Dear Ane,\n\nFooter: Reference KB-77\n\nDear Ane,"),
    ("running.odp", odf("presentation", ODF_FOOTED), "Dear Ane,\n\nDear Ane,\n\nFooter: Reference KB-77"),
    # A document that is inserted into another is read in its place, by the reader of its own format; where it cannot be, it is named.
    *((f"{name}.docx", with_inserted(name, data), "Before.\n\nThe keys are with Bo Rask.\n\nAfter.") for name, data in INSERTED.items()),
    ("broken.docx", with_inserted("x.docx", b"PK\x03\x04 broken", '<w:altChunk r:id="none"/>'),
     "Before.\n\n[x.docx cannot be read]\n\nAfter."),
    # Diagrams are lists, nested as they are drawn.
    ("diagram.docx",
     docx(p(f"<w:r><w:drawing><a:graphic><a:graphicData>{DIAGRAM_IDS}</a:graphicData></a:graphic></w:drawing></w:r>"),
          {"d": ("diagramData", "../word/d.xml")}, DIAGRAM),
     DIAGRAM_TEXT),
    ("diagram.pptx", pptx(made.frame(DIAGRAM_IDS), relations=DIAGRAM_RELATION, parts=DIAGRAM), DIAGRAM_TEXT),
    # Of two alternatives the newer one is read, unless only the older one says anything.
    *alternatives("", "The fee is 77 crowns."),
    *alternatives("The fee is 77 crowns.", "The old fee."),
    # Text boxes are read where they are anchored, also in cells, and shapes with text as well.
    ("box.docx", docx(p("Beside", BOX)), "Beside\n\nIn a box."),
    ("box-in-cell.docx", docx(table(f"<w:tc>{p('Beside', BOX)}</w:tc>{cell('b')}{cell('c')}")), "Beside · b · c\n\nIn a box."),
    ("box.xlsx", xlsx([["Beside"]], relations={"x": ("drawing", "../d.xml")}, parts=XLSX_BOX), "# Toll\n\nBeside\n\nIn a box."),
    ("box.odt", odf("text", ODF_SHAPE), "Beside\n\nIn a box."),
    # Embedded files are named; the charts of OpenDocument are read like others.
    ("embedded.docx", docx(p("Text"), EMBEDDED), "Text\n\nEmbedded files: catches.xlsx, deed.bin"),
    ("embedded.pptx", pptx(shape("Text"), relations=EMBEDDED), "Text\n\nEmbedded files: catches.xlsx, deed.bin"),
    ("embedded.odt", odf("text", ODF_EMBEDDED, parts={"Object 1/content.xml": ODF_CHART}),
     "Text\n\nLandings\n1901 · Herring: 412\n\nEmbedded files: deed"),
    # Comments stand apart from the values with their authors and cells, threads in place of what older programs show.
    ("comments.xlsx", xlsx([["Zone", "Rate"], ["Inner", 12]], relations=COMMENT_RELATIONS, parts=XLSX_COMMENTS),
     "# Toll\n\nZone: Inner · Rate: 12\n\nComment by Ane Holt on A2 (Inner), 2024-03-01: Which one?\n\n"
     "Comment by H. Lund on B2 (Inner · 12): was 11"),
    ("comments.ods", odf("spreadsheet", ODF_COMMENTED),
     "# Toll\n\nZone: Inner · Rate: 12\n\nComment by H. Lund on B2 (Inner · 12), 2024-03-01: was 11"),
    ("comments.odt", odf("text", f"<text:p>Rates{ODF_COMMENT}</text:p>"), COMMENTED),
    ("comments.docx", docx(p("Rates"), {"c": ("comments", "c.xml")}, {"word/c.xml": WORD_COMMENT}), COMMENTED),
    # Titles of slides are headings, boxes one below the other are read from above, groups too, speaker notes are said to be such.
    ("slides.pptx",
     pptx(GROUP + STEPS + shape("Pilots", kind="title"), relations={"n": ("notesSlide", "../n.xml")}, parts={"ppt/n.xml": SPEAKER}),
     "# Pilots\n\nIn a group.\n\nDeeper.\n\nStep one.\n\nStep two.\n\nNotes: Speak slowly."),
    ("slides.odp", odf("presentation", ODF_SLIDE), "# Pilots\n\nStep one.\n\nNotes: Speak slowly."),
    # A cell that spans columns of a table with a header is in each; a heading within the table is said of the rows below it.
    ("columns.xlsx", xlsx(SPANNING_ROWS, merged("A1:C1", "A3:C3", "B4:C4")),
     "# Toll\n\nCatches\nNorth coast · Port: Ness · Herring: closed · Cod: closed\nNorth coast · Port: Wessel · Herring: 388 · Cod: 140"),
    # Two rows of a form that each begin with a label are no header, and nothing is repeated in them.
    ("labels.docx",
     docx(table(cell("Name") + cell("Ane Holt", '<w:gridSpan w:val="2"/>'), cell("Port") + cell("Ness") + cell("east"),
                cell("Since") + cell("1901") + cell("May"))),
     "Name · Ane Holt\nPort · Ness · east\nSince · 1901 · May"),
    # A row that leaves out columns has its cells below those they stand under; marked header rows are a header.
    ("later.docx", docx(table(*PORTS, f'<w:trPr><w:gridBefore w:val="1"/></w:trPr>{cell("388")}{cell("140")}')),
     "Port: Ness · Herring: 412 · Cod: 87\nHerring: 388 · Cod: 140"),
    ("marked.docx", docx(table(*(f"<w:trPr><w:tblHeader/></w:trPr>{row}" for row in HEADER_ROWS), PORTS[1])),
     "Port: Ness · Catch of May: 412 · Catch of June: 87"),
    # Content controls may stand around paragraphs, rows and cells.
    ("controls.docx", docx(CONTROLS), "Contents\n\nDate: 2015 · Author: Ane · x: 3"),
    # Values that are no numbers are as they are shown: errors, dates of the strict format, days counted from 1904, escaped characters.
    ("values.xlsx", xlsx([XLSX_VALUES], formats=["d.m.yyyy"], book='<workbookPr date1904="1"/>'),
     "# Toll\n\nTRUE · #DIV/0! · 2024-03-09 · 2024-03-09 · a b"),
    ("values.ods", odf("spreadsheet", ODF_VALUES), "# Toll\n\n17.5 % · 02139 · 2024-03-09 08:30:00 · 12 · TRUE"),
    # Formulas that were never computed are written, also one that is shared with the cell above; a computed one has its value.
    ("formulas.xlsx", xlsx(FORMULAS),
     "# Toll\n\nItem: Rope · Net: 100 · Gross: 125\nItem: Tar · Net: 40 · Gross: =CEILING(B3)\nItem: Oak · Net: 10 · Gross: =CEILING(B3)"),
    ("formulas.ods", odf("spreadsheet", odf_table('<table:table-cell table:formula="of:=SUM([.B2:.B3])"/>' + odf_cell("x"))),
     "# Toll\n\n=SUM(B2:B3) · x"),
    # Old documents: rows with their headers, of a field its result; breaks, hyphens and hidden characters as in newer ones.
    ("table.doc", made.doc(OLD_TABLE), "Rates\n\nZone: Inner · Class: small · Rate: 12\n\nPaid 4 May for X-ray\nsaltworks."),
    ("count.doc", made.doc("Text.\r", HUGE_COUNT), "Text."),  # properties are read as far as they are there
    # A link is followed by its address, also in notes and fields, unless it leads within the document or its words are the address.
    ("links.docx", docx(WORD_LINKS, LINKED | {"f": ("footnotes", "footnotes.xml")}, LINKED_NOTES),
     f"Ask by the form ({PLOTS}#top) or write (edda@tarn.example), see below\n\nWater: the shed ({WATER}), below [1]\n\n"
     f"shed ({WATER}) {WATER}\n\ntap ({WATER})\n\n[1] Plan (https://tarn.example/plan)"),
    ("links.pptx", pptx(SLIDE_LINKS, relations=LINKED | {"c": ("comments", "../c.xml")}, parts={"ppt/c.xml": SLIDE_REMARK}),
     f"Fill in the form ({PLOTS}) ~~soon~~ now\n\nWrite to us\nNext slide (edda@tarn.example)\n\n"
     "Comment on “Next”, 2031-03-01: Which?\n\nReply: Done."),
    ("links.xlsx", xlsx(LINKED_ROWS, SHEET_LINKS, relations=LINKED),
     f"# Toll\n\nForm: Plots ({PLOTS}#top) · Keeper: Edda (edda@tarn.example) · Page: tap ({WATER})\n"
     f"Form: Sheds · Keeper: Olav (edda@tarn.example) · Page: open ({WATER})"),
    # What is struck through is said to be, also by a style and by one that is based on it.
    ("struck.docx", docx(STRUCK, parts={"word/styles.xml": STRIKING}),
     "A cart pays ~~14 crowns~~ 19 crowns, ~~a dog 2~~\n\n~~Void, but~~ not this"),
    ("struck.xlsx", xlsx([["Rider", "Fare", "Note"], STRUCK_ROW], parts=STRUCK_FONTS),
     "# Toll\n\nRider: ~~Dog~~ · Fare: 2 · Note: pays ~~14~~ 19"),
    ("struck.xls", made.xls([["Rider", "Fare", "Note"], ["Dog", "free", "in May"], ["Cart", "31", "no"]], struck_rows=[1]),
     "# Toll\n\nRider: ~~Dog~~ · Fare: ~~free~~ · Note: ~~in May~~\nRider: Cart · Fare: 31 · Note: no"),
    ("link.doc", made.doc(f'See \x13 HYPERLINK "{WATER}" \x14the shed\x15.\r'), f"See the shed ({WATER})."),
    # What a reader has highlighted is marked, unless it is the whole text.
    ("highlights.docx", docx(HIGHLIGHTED), "The landlord ==repairs the roof== and paints it."),
    ("yellow.docx", docx(p(run("All of it.", YELLOW))), "All of it."),
    # Comments name the words they are about, which may end in another paragraph; replies are below what they answer.
    ("threads.docx", THREADED,
     "The rent is 900 crowns\n\na month.\n\nThe deposit\n\nis low.\n\nComment by Ane on “900 crowns a month”, 2031-03-01: Too high.\n"
     "Reply by Una, 2031-03-01: I agree.\n\nComment by Bo on “deposit”, 2031-03-01: Why?"),
    # Formulas are written on one line, a fraction apart from a number before it, also one in the text.
    *((f"{text}.docx", docx(p(formula)), text) for text, formula in WORD_FORMULAS.items()),
    ("number.docx", docx(p("2", math(built("f", num="1", den="4")), " m")), "2 1/4 m"),
    # A damaged part loses no other: a style sheet, list, comment, note or slide.
    ("damaged.docx", docx(p("Text", FOOTNOTE, number=(1, 0)), BROKEN_PARTS, {f"word/{n}": "<not" for _, n in BROKEN_PARTS.values()}),
     "- Text [1]\n\n[1]"),
    ("damaged.pptx", pptx(shape("One"), shape("Two"), parts={"ppt/slides/slide0.xml": "<not"}), "[slide0.xml cannot be read]\n\nTwo"),
    ("damaged.xlsx", xlsx([["x"]], parts={"xl/styles.xml": "<not", "docProps/core.xml": "<not"}), "# Toll\n\nx"),
    ("damaged.odt", odf("text", "<text:p>x</text:p>", parts={"styles.xml": "<not"}), "x"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "data", "text"), TEXTS, ids=[name for name, *_ in TEXTS])
def test_office_documents_are_read_as_they_are_shown(name, data, text):
    """Every kind of thing that stands in them, in each format that has it."""
    assert text_of(name, data) == text


FORMATS = {
    "0.0%": (0.175, "17.5%"), "00000": (2139, "02139"), "#,##0.00 &quot;EUR&quot;": (1249.5, "1,249.50 EUR"),
    "yyyy\\-mm\\-dd": (45360, "2024-03-09"),
    "dd/mm/yyyy hh:mm": (45360.354166667, "2024-03-09 08:30"), "h:mm": (0.354166667, "08:30"), "[h]:mm": (1.5, "36:00"),
    "# ##0.00": (1234.5, "1 234.50"),
    "mmm\\-yy": (45360, "2024-03"), "[$€-407] #,##0": (1234.4, "€ 1,234"), "0;[Red]\\(0\\)": (-5, "(5)"),
    "000-00-0000": (123456789, "123-45-6789"),
    "0.00E+00": (12345.678, "1.23E+04"), "&quot;No. &quot;0": (7, "No. 7"), "General": (0.30000000000000004, "0.3"),
    "#,##0,&quot;k&quot;": (1234567, "1,235k"),
    "&quot;yes&quot;;;&quot;no&quot;": (0, "no"), "_(* #,##0.00_);_(* \\(#,##0.00\\);_(* &quot;-&quot;??_);_(@_)": (-1234.5, "(1,234.50)"),
    "General&quot; pcs&quot;": (7, "7 pcs"),
    "[&lt;=9999999]###\\-####;\\(###\\) ###\\-####": (5551234, "5551234"),
    "0.##": (1, "1"), "@": (12, "12"),
}  # fmt: skip


@pytest.mark.parametrize("name", ["a.xlsx", "a.xls"])
def test_numbers_are_as_they_are_shown(name):
    """Per cent, leading zeros, currencies, durations; dates and times as ISO."""
    codes = [code for code in FORMATS if name == "a.xlsx" or code != "General"]
    if name == "a.xls":
        plain = [re.sub("&lt;", "<", re.sub("&quot;", '"', code)) for code in codes]
        data = made.xls([["Rate"], *([(float(FORMATS[c][0]), n)] for n, c in enumerate(codes))], formats=plain)
    else:
        data = xlsx([["Rate"], *([f'<c s="{n + 1}"><v>{FORMATS[code][0]!r}</v></c>'] for n, code in enumerate(codes))], formats=codes)
    lines = text_of(name, data).partition("\n\n")[2].split("\n")

    assert [line.removeprefix("Rate: ") for line in lines][-len(codes) :] == [FORMATS[code][1] for code in codes]


PROPERTIES = (
    '<cp:coreProperties xmlns:cp="urn:c" xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:t="http://purl.org/dc/terms/">'
    "<dc:title>Tolls</dc:title><dc:creator>Sigrid Falk</dc:creator><t:created>1999-05-04T00:00:00Z</t:created>"
    "<t:modified>2001-02-03T00:00:00Z</t:modified></cp:coreProperties>"
)
MILL = "Elna Brook inherits the mill."
MADE = {
    "x": lambda **options: xlsx([[MILL]], **options),
    "d": lambda **options: docx(p(MILL), **options),
    "p": lambda **options: pptx(shape(MILL), **options),
    "o": lambda **_: odf("text", f"<text:p>{MILL}</text:p>"),
}


@pytest.mark.parametrize("name", ["a.docx", "a.pptx", "a.xlsx"])
def test_the_author_and_date_are_the_documents_own(name):
    """Those of its properties; a document without them has none, and not the day on which it is read."""
    content = parsed(name, MADE[name[2]](parts={"core.xml": PROPERTIES}))

    assert (content.title, dict(content.metadata)["author"]) == ("Tolls", "Sigrid Falk")
    assert day_from_metadata(content.metadata) == "2001-02-03"
    assert parsed(name, MADE[name[2]]()).metadata == ()


@pytest.mark.parametrize(
    "suffix", [".docm", ".dotx", ".dotm", ".pptm", ".ppsx", ".potx", ".xlsm", ".xltx", ".xltm", ".ott", ".ots", ".otp"]
)
def test_templates_and_files_with_macros_are_read(suffix):
    """Whatever content type they declare."""
    data = MADE[suffix[1]](content_type="application/vnd.ms-office.macroEnabledTemplate.main+xml")

    assert text_of(f"a{suffix}", data).endswith(MILL)


def strict(data):
    """The same file in the strict variant of the format."""
    target = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as source, zipfile.ZipFile(target, "w") as written:
        for name in source.namelist():
            text = re.sub(rb"http://schemas\.openxmlformats\.org/(\w+)/2006/(\w+)", rb"http://purl.oclc.org/ooxml/\1/\2", source.read(name))
            written.writestr(name, text.replace(b"purl.oclc.org/ooxml/package/", b"schemas.openxmlformats.org/package/2006/"))
    return target.getvalue()


@pytest.mark.parametrize("name", ["a.docx", "a.pptx", "a.xlsx"])
def test_the_strict_format_is_read_like_the_other(name):
    """Text, tables and numbers have the same names in another namespace."""
    data = SPANNED[name] if name == "a.xlsx" else RAISED[name]
    other = strict(data)

    assert b"purl.oclc.org" in zipfile.ZipFile(io.BytesIO(other)).read("_rels/.rels")
    assert text_of(name, other) == text_of(name, data)


def numbered_style(name, more=""):
    """A style sheet with one style, whose paragraphs are of list 1, and more."""
    number = '<w:pPr><w:numPr><w:numId w:val="1"/></w:numPr></w:pPr>'
    return f'<w:styles {NAMES}><w:style w:styleId="{name}"><w:name w:val="{name.lower()}"/>{number}</w:style>{more}</w:styles>'


def listed(paragraphs, lists, style):
    """A Word document with definitions of lists and styles; a paragraph is `x` of a list and level, or of a style."""
    body = "".join(p("x", style=one) if isinstance(one, str) else p("x", number=one) for one in paragraphs)
    return docx(body, {"n": ("numbering", "numbering.xml")}, {"word/numbering.xml": lists, "word/styles.xml": style})


RESTART = '<w:lvlOverride w:ilvl="0"><w:startOverride w:val="5"/></w:lvlOverride>'
LETTERS = '<w:lvlOverride w:ilvl="0"><w:lvl w:ilvl="0"><w:start w:val="1"/><w:numFmt w:val="lowerLetter"/><w:lvlText w:val="%1)"/></w:lvl>'
LETTERS += "</w:lvlOverride>"
RESTARTED = made.numbering(("decimal", "%1.", 1), ("lowerRoman", "%1.%2", 1), nums={1: "", 2: "", 3: RESTART, 4: LETTERS})
GOING_ON = made.numbering(("upperRoman", "%1.", 1), ("decimal", "%1-%2", 1), nums={1: ""}).replace(
    '<w:lvlText w:val="%1-%2"/>', '<w:lvlRestart w:val="0"/><w:pStyle w:val="Clause"/><w:isLgl/><w:lvlText w:val="%1-%2"/>'
)
BARE = "<w:pPr><w:numPr><w:ilvl w:val='1'/></w:numPr></w:pPr>"
BASED = (
    f'<w:style w:styleId="Subtitle"><w:name w:val="Subtitle"/>{BARE}</w:style>'
    f'<w:style w:styleId="Lower"><w:name w:val="lower"/><w:basedOn w:val="Duty"/>{BARE}</w:style>'
)
ODF_LISTS = (
    '<text:list-style style:name="L1"><text:list-level-style-number text:level="1" style:num-format="1" style:num-suffix="."/>'
    '<text:list-level-style-number text:level="2" style:num-format="a" style:num-suffix=")" text:start-value="3"/></text:list-style>'
    '<text:list-style style:name="L2"><text:list-level-style-bullet text:level="1"/></text:list-style>'
)


def items(*texts, attributes="", style="L1"):
    inner = "".join(t if t.startswith("<") else f"<text:list-item><text:p>{t}</text:p></text:list-item>" for t in texts)
    return f'<text:list text:style-name="{style}" {attributes}>{inner}</text:list>'


NESTED = "<text:list-item><text:p>b</text:p><text:list><text:list-item><text:p>c</text:p></text:list-item></text:list></text:list-item>"
ODF_ITEMS = items("a", NESTED, "<text:list-item><text:p>d</text:p><text:p>more</text:p></text:list-item>") + "<text:p>Then</text:p>"
ODF_ITEMS += items("e", attributes='text:continue-numbering="true"') + items("f") + items("g", style="L2")
ODF_ITEMS += items('<text:list-item text:start-value="7"><text:p>h</text:p></text:list-item>', "i")
OUTLINE = (
    '<office:styles><text:outline-style><text:outline-level-style text:level="1" style:num-format="1"/>'
    '<text:outline-level-style text:level="2" style:num-format="1" text:display-levels="2"/></text:outline-style></office:styles>'
)
HEADINGS = "".join(f'<text:h text:outline-level="{level}">x</text:h>' for level in (1, 2, 2, 1, 2))
SLIDE_ITEMS = "".join(
    made.ap(text, f"<a:pPr {properties}</a:pPr>")
    for text, properties in (
        ("a", 'lvl="0"><a:buAutoNum type="arabicPeriod"/>'),
        ("b", 'lvl="1"><a:buAutoNum type="alphaLcParenR"/>'),
        ("c", 'lvl="1"><a:buAutoNum type="alphaLcParenR"/>'),
        ("d", 'lvl="0"><a:buAutoNum type="arabicPeriod"/>'),
        ("e", '><a:buAutoNum type="romanUcParenBoth" startAt="4"/>'),
        ("f", '><a:buChar char="•"/>'),
        ("g", "><a:buNone/>"),
    )
)
NUMBERED = {
    # A list of the same definition goes on unless it has a start of its own; levels may be changed, styles numbered.
    "restarts.docx": (
        listed([(1, 0), (1, 1), (1, 1), (2, 0), (3, 0), (3, 0), (3, 1), (4, 0), (4, 0), "Duty"], RESTARTED, numbered_style("Duty")),
        "1. x|  1.i x|  1.ii x|2. x|5. x|6. x|  6.i x|a) x|b) x|3. x"),
    # `lvlRestart` 0 lets a level go on; a style that belongs to the second level is numbered there; legal numbers are decimal.
    "goes-on.docx": (listed([(1, 0), "Clause", (1, 0), "Clause"], GOING_ON, numbered_style("Clause")), "I. x|  1-1 x|II. x|  2-2 x"),
    # A style with a level but no list, as Word's subtitles have, is numbered only where it is based on a numbered one.
    "based.docx": (
        listed(["Subtitle", "Duty", "Lower"], made.numbering(("decimal", "%1.", 1), ("decimal", "%1.%2", 1), nums={1: ""}),
               numbered_style("Duty", BASED)),
        "x||1. x|  1.1 x"),
    # Numbers, letters, starts of levels and items, lists that go on, bullets, and what follows in an item.
    "lists.odt": (odf("text", ODF_ITEMS, ODF_LISTS), "1. a|2. b|  c) c|3. d|  more||Then||4. e|1. f|- g|7. h|8. i"),
    # Headings are numbered as the outline of the document says.
    "headings.odt": (odf("text", HEADINGS, styles=OUTLINE), "# 1 x||## 1.1 x||## 1.2 x||# 2 x||## 2.1 x"),
    # Letters and starts on slides as well; bullets where a paragraph has one, none where it has none.
    "items.pptx": (pptx(f"<p:sp><p:txBody>{SLIDE_ITEMS}</p:txBody></p:sp>"), "1. a|  a) b|  b) c|2. d|(IV) e|- f|g"),
}  # fmt: skip


@pytest.mark.parametrize("name", NUMBERED)
def test_lists_have_their_numbers(name):
    """Those that the program shows, in every format."""
    assert text_of(name, NUMBERED[name][0]).split("\n") == NUMBERED[name][1].split("|")


OLD = {
    "a.doc": (made.doc("To Ane Holt,\rElna Brook inherits the mill.\r"), MILL),
    "a.ppt": (made.ppt(("Mill", MILL), ("End", "Thanks.")),
              "# Mill\n\nElna Brook inherits the mill.\n\n# End\n\nThanks."),
    "a.xls": (made.xls([["Name", "Share"], ["Elna Brook", (0.4, 0)]], formats=["0%"]), "Name: Elna Brook · Share: 40%"),
    "rtf.doc": (rb"{\rtf1\ansi Elna Brook inherits the mill.\par}", MILL),
    "new.doc": (docx(p(MILL)), MILL),
    "html.xls": (b"<html><table><tr><th>Name</th><th>Share</th></tr><tr><td>Elna</td><td>40</td></tr></table></html>",
                 "Name: Elna · Share: 40"),
    "tabs.xls": (b"Name\tShare\nElna\t40\n", "Name: Elna · Share: 40"),
    "new.xls": (xlsx([["Name", "Share"], ["Elna", 40]]), "Name: Elna · Share: 40"),
    "text.doc": (MILL.encode(), MILL),
}  # fmt: skip


@pytest.mark.parametrize("name", OLD)
def test_old_formats_are_read_and_what_only_has_their_name(name):
    """Files of Office before 2007, and those that programs give its suffixes to."""
    data, text = OLD[name]

    assert text in text_of(name, data)


@pytest.mark.parametrize(("page", "name"), [(1252, "Jürgen"), (10000, "J\N{CEDILLA}rgen"), (999, "Jürgen")])
def test_the_author_and_date_of_an_old_document_are_read(page, name):
    """In the encoding that it names, or the usual one where nobody knows that."""
    content = parsed("a.doc", made.doc("Text.\r", made.summary(b"Tolls", b"J\xfcrgen", 1_000_000_000, page)))

    assert content.metadata == (("title", "Tolls"), ("author", name), ("date", "2001-09-09"))


@pytest.mark.parametrize(
    ("subject", "text", "sender", "shown"),
    [
        ("Berth 41", "Rurik comes at noon.", ("Iduna Kell", "iduna@ness.example"), "From: Iduna Kell <iduna@ness.example>"),
        ("Über 船", "Käpt'n Brömel", ('Jürgen "J" Böhm', "j@ness.example"), "Jürgen"),
    ],
)
def test_messages_of_outlook_are_read_like_mail(subject, text, sender, shown):
    """Sender, recipients, date, text, attachments and attached messages, in letters of any script."""
    content = parsed("a.msg", made.msg(subject, text, sender=sender, attachments=[("fee.bin", b"\x00\x01"), ("", ("Inner", "The keys."))]))

    for words in (shown, "To: Claus Dahlin <claus@ness.example>", f"Subject: {subject}", text, "fee.bin", "The keys."):
        assert words in content.text
    assert (content.title, dict(content.metadata)["date"][:10]) == (subject, "2001-09-09")


def test_the_hour_of_a_message_is_its_senders():
    """As the header that it was sent with tells."""
    head = "Received: x\r\nDate: Sat, 8 Sep 2001 18:46:40 -0700\r\nSubject: Berth\r\n"
    assert "Date: 2001-09-08 18:46:40-07:00" in parsed("a.msg", made.msg("Berth", "Noon.", headers=head)).text


def test_every_office_format_is_read_in_the_confined_process(tmp_path):
    """Also by the libraries of the old formats, without threads, connections and writing."""
    files = {f"{n}{name[1:]}": data for n, group in enumerate(ENDINGS.values()) for name, data in group.items()}
    files |= {name: data for name, (data, _) in OLD.items()} | {"a.msg": made.msg("Berth 41", "Noon.", attachments=[("x.txt", b"x")])}
    found = list(load_files(find_files([write(tmp_path, files)]).files, tmp_path))

    assert len(found) == len(files)
    assert [document for document in found if isinstance(document, SkippedFile)] == []


@pytest.mark.parametrize(
    ("name", "data"),
    {"a.docx": zipped({"x": "y"}), "a.doc": made.doc("x")[:600], "a.xls": OLD["a.xls"][0][:900], "a.msg": b"x" * 600}.items(),
)
def test_a_file_without_its_main_part_is_refused(name, data):
    """Nothing of it can be read."""
    with pytest.raises(Unreadable):
        parsed(name, data)


HOSTILE = {
    "spans.xlsx": lambda: xlsx([["a", "b"]] + [["c"]] * 3000, "".join(f'<mergeCell ref="A{n}:XFD1048576"/>' for n in range(1, 3000))),
    "far.xlsx": lambda: xlsx([["a"], ['<c r="XFD1048576"><v>1</v></c>', '<c r="ZZZ9999999"><v>2</v></c>']]),
    "tags.xlsx": lambda: xlsx([["a"]], f"<!-- {'<mergeCell x ' * 30_000}{'<oddHeader>' * 30_000} -->"),
    "format.xlsx": lambda: xlsx([[f'<c s="1"><v>{"9" * 300}</v></c>', '<c s="1"><v>1e400</v></c>', "a"]],
                                formats=["0" * 20_000 + "#,##0.0" + "?/" * 900]),
    "spans.docx": lambda: docx(table(*[cell("a", '<w:gridSpan w:val="200"/><w:vMerge w:val="restart"/>') * 20 + cell("b")] * 60)),
    "lists.docx": lambda: docx("".join(p("a", number=(n, n % 9)) for n in range(2000))),
    "fields.docx": lambda: docx(p(*['<w:r><w:fldChar w:fldCharType="begin"/></w:r>'] * 3000) + p("a")),
    "loop.pptx": lambda: pptx(made.frame('<dgm:relIds r:dm="d"/>') + shape("a"),
                              relations={"d": ("diagramData", "/d.xml")}, parts={"d.xml": DIAGRAM["word/d.xml"]}),
    "repeats.ods": lambda: odf("spreadsheet", odf_table(
        odf_cell("a", 'table:number-columns-repeated="999999999" table:number-rows-spanned="99999"')
    )),
    "nested.odt": lambda: odf("text", "<text:list><text:list-item>" * 150 + "<text:p>a</text:p>" + "</text:list-item></text:list>" * 150),
    "object.odt": lambda: odf("text", '<text:p>a<draw:object xlink:href="."/><draw:object xlink:href=""/></text:p>'),
}  # fmt: skip


@pytest.mark.parametrize("name", mostly_ci(HOSTILE, *(name for name in HOSTILE if name != "spans.docx")))
def test_hostile_files_are_read_in_little_time(name):
    """Spans, repetitions, loops and nesting that no person made cost no more than the file is long."""
    assert "a" in text_of(name, HOSTILE[name]())
