"""OpenDocument in a single XML file."""

import pytest
from lxml import etree

from localrag.filters import day_from_metadata
from localrag.loaders.math_text import mathml_text
from tests.loaders.office_files import ODF, odf_cell, odf_table
from tests.loaders.parsing import parsed

MATH = '<math xmlns="http://www.w3.org/1998/Math/MathML"><mi>x</mi></math>'
PICTURE = "<draw:image><office:binary-data>aGFyYm91cg==</office:binary-data></draw:image><svg:desc>The keel of the Skua</svg:desc>"
TEXT = (
    '<text:h text:outline-level="1">Tolls</text:h><text:p>Raised in 1871<text:span text:style-name="T1">2</text:span>.'
    f"<draw:frame>{PICTURE}</draw:frame></text:p><text:p><draw:frame><draw:object>{MATH}</draw:object></draw:frame></text:p>"
)
SHEET = odf_table(odf_cell("Boat") + odf_cell("Toll"), odf_cell("Skua") + odf_cell("7"), odf_cell("Tern") + odf_cell("9"))
SLIDE = '<draw:page><draw:frame presentation:class="title"><draw:text-box><text:p>Ice</text:p></draw:text-box></draw:frame></draw:page>'
STYLES = '<style:style style:name="T1" style:family="text"><style:text-properties style:text-position="super 58%"/></style:style>'
FOOTER = '<style:master-page style:name="Standard"><style:footer><text:p>file 88-C</text:p></style:footer></style:master-page>'


def flat(kind, body, styles=""):
    """A document in a single file, with its metadata, styles, footer and body."""
    return (
        f"<office:document {ODF}><office:meta><dc:title>Harbour</dc:title><dc:date>1931-02-03T00:00:00</dc:date></office:meta>"
        f"<office:automatic-styles>{STYLES}{styles}</office:automatic-styles><office:master-styles>{FOOTER}</office:master-styles>"
        f"<office:body><office:{kind}>{body}</office:{kind}></office:body></office:document>"
    ).encode()


@pytest.mark.parametrize(
    ("name", "kind", "body", "text"),
    [
        ("a.fodt", "text", TEXT, "# Tolls\n\nRaised in 1871[2]. [The keel of the Skua]\n\nx\n\nFooter: file 88-C"),
        ("a.fods", "spreadsheet", SHEET, "# Toll\n\nBoat: Skua · Toll: 7\nBoat: Tern · Toll: 9\n\nFooter: file 88-C"),
        ("a.fodp", "presentation", SLIDE, "# Ice"),
    ],
)
def test_documents_in_a_single_xml_file_are_read(name, kind, body, text):
    """With styles, objects, metadata and footers, and without the bytes of pictures."""
    document = parsed(name, flat(kind, body))

    assert document.text == text
    assert (document.title, day_from_metadata(document.metadata)) == ("Harbour", "1931-02-03")


POWER = "<msup><mi>{}</mi>{}</msup>"
MATRIX = "<mtable><mtr><mtd><mn>1</mn></mtd><mtd><mn>0</mn></mtd></mtr><mtr><mtd><mn>0</mn></mtd><mtd><mi>k</mi></mtd></mtr></mtable>"
FORMULAS = {
    "<mn>2</mn><mfrac><mn>1</mn><mn>4</mn></mfrac><mtext> cups</mtext>": "2 1/4 cups",
    "<mn>3</mn><mo>×</mo><msup><mn>10</mn><mrow><mo>−</mo><mn>5</mn></mrow></msup><mo>&#x2062;</mo><mi>kg</mi>": "3 × 10^−5 kg",
    f"<mi>x</mi><mo>=</mo><mfrac><mrow><mo>−</mo><mi>b</mi><mo>+</mo><msqrt>{POWER.format('b', '<mn>2</mn>')}</msqrt></mrow>"
    "<mrow><mn>2</mn><mi>a</mi></mrow></mfrac>": "x = (−b + √(b^2))/(2a)",
    "<munderover><mo>∑</mo><mrow><mi>i</mi><mo>=</mo><mn>1</mn></mrow><mi>n</mi></munderover><msub><mi>x</mi><mi>i</mi></msub>":
        "∑_(i=1)^n x_i",
    f"<mo>(</mo>{MATRIX}<mo>)</mo>": "(1, 0; 0, k)",
    f"<mi>A</mi><mo>=</mo>{MATRIX}": "A = [1, 0; 0, k]",
    "<mroot><mi>x</mi><mn>3</mn></mroot><mo>≤</mo><mi>sin</mi><mo>&#x2061;</mo><mi>t</mi>": "√[3](x) ≤ sin t",
    "<semantics><mrow><mi>E</mi><mo>=</mo><mn>1</mn></mrow><annotation encoding='StarMath 5.0'>E=1</annotation></semantics>": "E = 1",
    "<mfenced open='[' close=')'><mn>0</mn><mn>1</mn></mfenced><msup><mi>f</mi><mo>′</mo></msup>": "[0, 1)f′",
}  # fmt: skip


@pytest.mark.parametrize(("formula", "text"), FORMULAS.items(), ids=FORMULAS.values())
def test_a_formula_is_written_on_one_line(formula, text):
    """With or without the namespace of MathML."""
    for namespace in ("", ' xmlns="http://www.w3.org/1998/Math/MathML"'):
        assert mathml_text(etree.fromstring(f"<math{namespace}>{formula}</math>")) == text


STRUCK = "".join(
    f'<style:style style:name="{name}" style:family="{family}" {above}><style:text-properties {line}/></style:style>'
    for name, family, above, line in [
        ("Gone", "text", "", 'style:text-line-through-style="solid"'),
        ("Twice", "text", "", 'style:text-line-through-type="double"'),
        ("Below", "text", 'style:parent-style-name="Gone"', ""),
        ("Kept", "text", "", 'style:text-line-through-style="none" style:text-line-through-type="none"'),
        ("Line", "paragraph", "", 'style:text-line-through-style="solid"'),
        ("Cell", "table-cell", "", 'style:text-line-through-style="solid"'),
        ("Pen", "text", "", 'fo:background-color="#ffff00"'),
        ("Paper", "text", "", 'fo:background-color="#f8f9fa"'),
    ]
)
SPAN = '<text:span text:style-name="{}">{}</text:span>'
FORM = '<text:a xlink:href="{}">the form</text:a>'
NOTED = (
    '<office:annotation office:name="n1"><dc:creator>Ane</dc:creator><text:p>Too high</text:p></office:annotation>900 '
    f'{SPAN.format("T1", "crowns")}<office:annotation-end office:name="n1"/>'
)
MARKED = {
    "link": (f"<text:p>Fill in {FORM.format('https://a.example/plots')}.</text:p>", "Fill in the form (https://a.example/plots)."),
    "mail": ('<text:p><text:a xlink:href="mailto:edda@a.example">Edda</text:a></text:p>', "Edda (edda@a.example)"),
    "own place": (f"<text:p>See {FORM.format('#part')}.</text:p>", "See the form."),
    "struck": (f"<text:p>Pays {SPAN.format('Gone', '14')} {SPAN.format('Twice', '15')} {SPAN.format('Below', '16')} 17.</text:p>",
               "Pays ~~14~~ ~~15~~ ~~16~~ 17."),
    "struck line": (f'<text:p text:style-name="Line">Dogs {SPAN.format("Kept", "do not")} pay.</text:p>', "~~Dogs~~ do not ~~pay.~~"),
    "struck link": (f"<text:p>{SPAN.format('Gone', FORM.format('https://a.example'))}</text:p>", "~~the form (https://a.example)~~"),
    "pen": (f"<text:p>It {SPAN.format('Pen', 'leaks')} {SPAN.format('Paper', 'badly')}.</text:p>", "It ==leaks== badly."),
    "all of a color": (f"<text:p>{SPAN.format('Pen', 'It leaks.')}</text:p>", "It leaks."),
    "comment": (f"<text:p>Pay {NOTED} a year.</text:p>", "Pay 900 crowns a year.\n\nComment by Ane on “900 crowns”: Too high"),
    "comment at a place": (f"<text:p>Pay{NOTED.partition('900')[0]} it.</text:p><text:p>Soon.</text:p>",
                           "Pay it.\n\nSoon.\n\nComment by Ane: Too high"),
    "formula": (f"<text:p>Take 2<draw:frame><draw:object>{MATH.replace('<mi>x</mi>', '<mfrac><mn>3</mn><mn>8</mn></mfrac>')}</draw:object>"
                "</draw:frame> of it.</text:p>", "Take 2 3/8 of it."),
}  # fmt: skip


@pytest.mark.parametrize(("body", "text"), MARKED.values(), ids=MARKED)
def test_links_and_marks_are_written_with_their_words(body, text):
    """Struck text by its style or one that this is based on, the words of comments, formulas in their sentence."""
    found = parsed("a.fodt", flat("text", body, STRUCK)).text

    assert found.removesuffix("Footer: file 88-C").strip() == text


def test_links_and_struck_text_stand_in_cells():
    """A cell by its own style."""
    linked = '<table:table-cell table:formula="of:=HYPERLINK(&quot;https://a.example/7&quot;;&quot;water&quot;)"><text:p>water</text:p>'
    cells = odf_cell("Dog") + odf_cell("free", 'table:style-name="Cell"') + f"{linked}</table:table-cell>"
    sheet = odf_table(odf_cell("Animal") + odf_cell("Fare") + odf_cell("Form"), cells)

    assert "Animal: Dog · Fare: ~~free~~ · Form: water (https://a.example/7)" in parsed("a.fods", flat("spreadsheet", sheet, STRUCK)).text


def test_blocks_of_a_document_are_known():
    """Headings with their level, paragraphs, items of lists, and tables with the labels of their columns."""
    listed = (
        "<text:list><text:list-item><text:p>rope</text:p></text:list-item><text:list-item><text:p>tar</text:p></text:list-item></text:list>"
    )
    found = parsed("a.fodt", flat("text", f'<text:h text:outline-level="2">Tolls</text:h><text:p>It leaks.</text:p>{listed}{SHEET}'))

    assert [(b.kind, b.level, b.columns, found.text[b.start : b.end]) for b in found.blocks[:-1]] == [
        ("heading", 2, (), "## Tolls"), ("paragraph", 0, (), "It leaks."), ("list", 0, (), "- rope"), ("list", 0, (), "- tar"),
        ("table", 0, ("Boat", "Toll"), "Boat: Skua · Toll: 7\nBoat: Tern · Toll: 9"),
    ]  # fmt: skip
