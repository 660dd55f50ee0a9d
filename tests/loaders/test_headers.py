"""Whether the first row of a table is its header: the same evidence in every format."""

import pytest

from localrag.loaders.headers import HeadCell, find_layout
from localrag.loaders.tabular import table_lines
from tests.loaders import office_files as made
from tests.loaders.office_files import NAMES, docx, odf, p, run, xlsx
from tests.loaders.test_load import read, write

ROWS = [("Vessel", "Skua"), ("Owner", "Ruth Sand"), ("Port", "Vardby")]
AS_PAIRS = "Vessel: Skua\nOwner: Ruth Sand\nPort: Vardby"
AS_COLUMNS = "Vessel: Owner · Skua: Ruth Sand\nVessel: Port · Skua: Vardby"
XLSX_STYLES = (
    f'<styleSheet xmlns="{made.S}"><fonts><font/><font><b/></font></fonts><fills><fill/><fill><patternFill patternType="solid">'
    '<fgColor rgb="FFDDDDDD"/></patternFill></fill></fills><cellXfs><xf/><xf fontId="1"/><xf fillId="1"/></cellXfs></styleSheet>'
)
ODF_STYLES = (
    '<style:style style:name="P1" style:family="paragraph"><style:text-properties fo:font-weight="bold"/></style:style>'
    '<style:style style:name="T1" style:family="text"><style:text-properties fo:font-weight="bold"/></style:style>'
    '<style:style style:name="C1" style:family="table-cell"><style:table-cell-properties fo:background-color="#dddddd"/></style:style>'
    '<style:style style:name="P2" style:family="paragraph" style:parent-style-name="Table_20_Heading"/>'
)
WORD_STYLES = (
    f'<w:styles {NAMES}><w:style w:type="paragraph" w:styleId="Strong"><w:rPr><w:b/></w:rPr></w:style>'
    '<w:style w:type="paragraph" w:styleId="Head"><w:basedOn w:val="Strong"/></w:style><w:style w:type="table" w:styleId="Grid">'
    '<w:tblStylePr w:type="firstRow"><w:rPr><w:b/></w:rPr></w:tblStylePr></w:style></w:styles>'
)


def word(first, *, style="", parts=None):
    """A Word file; `first`: a cell of the first row by its text."""
    rows = "".join(f"<w:tr>{''.join(made.cell(t) if n else first(t) for t in texts)}</w:tr>" for n, texts in enumerate(ROWS))
    return docx(f"<w:tbl>{style}{rows}</w:tbl>", parts={"word/styles.xml": WORD_STYLES} | (parts or {}))


def sheet(style):
    rows = [[f'<c t="inlineStr" s="{0 if n else style}"><is><t>{text}</t></is></c>' for text in texts] for n, texts in enumerate(ROWS)]
    return xlsx(rows, parts={"xl/styles.xml": XLSX_STYLES})


def text_document(first):
    rows = [[first.format(t) if n == 0 else made.odf_cell(t) for t in texts] for n, texts in enumerate(ROWS)]
    return odf("text", made.odf_table(*map("".join, rows)), automatic=ODF_STYLES)


def page(first):
    rows = [[first.format(t) if n == 0 else f"<td>{t}</td>" for t in texts] for n, texts in enumerate(ROWS)]
    return f"<table>{''.join(f'<tr>{a}{b}</tr>' for a, b in rows)}</table>".encode()


MARKED = {
    "bold.xlsx": sheet(1),
    "filled.xlsx": sheet(2),
    "table.xlsx": xlsx(
        ROWS,
        relations={"t1": ("table", "../tables/table1.xml")},
        parts={"xl/tables/table1.xml": f'<table xmlns="{made.S}" ref="A1:B3"/>'},
    ),
    "bold.xls": made.xls(ROWS, bold_rows=(0,)),
    "bold.docx": word(lambda t: f"<w:tc>{p(run(t, '<w:b/>'))}</w:tc>"),
    "style.docx": word(lambda t: f"<w:tc>{p(run(t), style='Head')}</w:tc>"),
    "filled.docx": word(lambda t: made.cell(t, '<w:shd w:val="clear" w:fill="DDDDDD"/>')),
    "table-style.docx": word(made.cell, style='<w:tblPr><w:tblStyle w:val="Grid"/><w:tblLook w:val="04A0"/></w:tblPr>'),
    "bold.html": page("<td><b>{}</b></td>"),
    "css.html": page('<td style="font-weight: bold">{}</td>'),
    "head.html": page("<th>{}</th>"),
    "paragraph.odt": text_document('<table:table-cell><text:p text:style-name="P1">{}</text:p></table:table-cell>'),
    "span.odt": text_document('<table:table-cell><text:p><text:span text:style-name="T1">{}</text:span></text:p></table:table-cell>'),
    "filled.odt": text_document('<table:table-cell table:style-name="C1"><text:p>{}</text:p></table:table-cell>'),
    "heading.odt": text_document('<table:table-cell><text:p text:style-name="P2">{}</text:p></table:table-cell>'),
}
PLAIN = {
    "plain.xlsx": sheet(0),
    "plain.xls": made.xls(ROWS),
    "plain.docx": word(made.cell),
    "look.docx": word(made.cell, style='<w:tblPr><w:tblStyle w:val="Grid"/><w:tblLook w:val="0080" w:firstRow="0"/></w:tblPr>'),
    "plain.html": page("<td>{}</td>"),
    "plain.odt": text_document("<table:table-cell><text:p>{}</text:p></table:table-cell>"),
    "plain.csv": "\n".join(map(",".join, ROWS)).encode(),
}


@pytest.mark.parametrize("name", [*MARKED, *PLAIN])
def test_a_row_that_the_document_sets_apart_is_a_header(tmp_path, name):
    """By bold letters, a fill, or markup; without them the same two columns are labels and values."""
    data = MARKED.get(name) or PLAIN[name]

    text = read(write(tmp_path, {name: data}) / name).text
    assert text.removeprefix("# Toll\n\n") == (AS_COLUMNS if name in MARKED else AS_PAIRS)


def marked(source):
    """Rows of cells divided by bars; an asterisk before a cell sets it apart."""
    return [[HeadCell(c[1:]) if c.startswith("*") else c for c in line.split("|")] for line in source.splitlines()]


def test_a_first_column_that_the_document_sets_apart_has_labels():
    """Also where the cells beside them read like names of columns."""
    assert find_layout(marked("*Project|Manager\n*Harbour wall|Ane Holt"), likely=True).is_pairs


def test_a_table_that_is_all_bold_or_has_filled_rows_by_turns_has_no_header_for_that():
    """What sets half of the rows apart says nothing of the first."""
    for source in ("*Vessel|*Skua\n*Owner|*Ruth Sand\n*Port|*Vardby", "*Vessel|*Skua\nOwner|Ruth Sand\n*Port|*Vardby\nFlag|Ness"):
        assert find_layout(marked(source), likely=True).is_pairs


@pytest.mark.parametrize("head", ["Team 1|Team 2", "A|B", "Header1|Header2"])
def test_names_that_count_the_columns_are_a_header(head):
    """One is no label of the next."""
    a, b = head.split("|")

    assert list(table_lines(marked(f"{head}\nSkua crew|Tern crew\nRuth Sand|Bo Rask"), likely=False)) == [
        f"{a}: Skua crew · {b}: Tern crew",
        f"{a}: Ruth Sand · {b}: Bo Rask",
    ]


def test_numbered_cells_that_the_rows_below_count_on_are_no_header():
    """They are cells like the others."""
    assert list(table_lines(marked("E1|E2\nE3|E4"), likely=False)) == ["E1 · E2", "E3 · E4"]
