"""OpenDocument in a single XML file."""

import pytest

from localrag.filters import day_from_metadata
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


def flat(kind, body):
    """A document in a single file, with its metadata, styles, footer and body."""
    return (
        f"<office:document {ODF}><office:meta><dc:title>Harbour</dc:title><dc:date>1931-02-03T00:00:00</dc:date></office:meta>"
        f"<office:automatic-styles>{STYLES}</office:automatic-styles><office:master-styles>{FOOTER}</office:master-styles>"
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
