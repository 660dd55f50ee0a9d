"""Tables: dialects of delimited text, headers, pairs of label and value, tables side by side: the same in every format."""

import time
from itertools import count

import pytest

from localrag.loaders.delimited import find_delimiter, split_rows
from localrag.loaders.headers import HeadCell, find_layout
from localrag.loaders.sheet_tables import sheet_blocks
from localrag.loaders.spans import CellRange
from localrag.loaders.tabular import table_lines
from tests.loaders import office_files as made
from tests.loaders.office_files import NAMES, docx, odf, odf_cell, odf_table, p, run, xlsx
from tests.loaders.parsing import text_of

DELIMITED = {
    "decimal commas": (
        "Tag;Nord;West\n0,5;1,25;2,75\n1,5;2,25;3,75\n", "Tag: 0,5 · Nord: 1,25 · West: 2,75\nTag: 1,5 · Nord: 2,25 · West: 3,75"),
    "without header": ("0,5;1,25\n1,5;2,25\n2,5;3,5\n", "0,5 · 1,25\n1,5 · 2,25\n2,5 · 3,5"),
    "commas in fields": (
        "Shed;Where\nShed 1;north, gate 2, left\nShed 2;south, gate 1, left\n", "Shed: Shed 1 · Where: north, gate 2, left"),
    "declared": ("sep=|\nShip|Tons\nSkua|7,5\n", "Ship: Skua · Tons: 7,5"),
    "tabs": ("Ship\tTons\nSkua\t7,5\nTern\t8,5\n", "Ship: Skua · Tons: 7,5\nShip: Tern · Tons: 8,5"),
    "sentences": (
        "note\nIt rained all day, and the men slept.\nAt noon, a sail was seen.\nNothing more.\n", "At noon, a sail was seen."),
    # The particulars of an export stand before its table as they are.
    "rows above": (
        "Written by Tidebook;;\nFrom;1.1.1974;31.3.1974\nBoat;Berth;Length\nSkua;41;12,5\nTern;7;31,0\nGannet;9;8,5\n",
        "Written by Tidebook\nFrom · 1.1.1974 · 31.3.1974\nBoat: Skua · Berth: 41 · Length: 12,5"),
}  # fmt: skip


@pytest.mark.parametrize(("source", "text"), DELIMITED.values(), ids=DELIMITED)
def test_the_delimiter_is_the_one_that_divides_the_columns(source, text):
    """Decimal commas and the commas of sentences divide nothing."""
    assert text in text_of("a.csv", source)


def test_a_tsv_file_is_divided_at_tabs():
    """Even where commas would divide its lines more evenly."""
    assert list(split_rows("a, b\t1\nc, d\t2", prefers_tab=True)) == [["a, b", "1"], ["c, d", "2"]]
    assert find_delimiter(["a,b", "c,d"], prefers_tab=True) == ","


@pytest.mark.parametrize("end", ["C,3 inch,Lind\n", 'C,3",Lind\nD,1 inch,Holm\n'])
def test_a_stray_quote_takes_no_row_with_it(end):
    """Neither one that nothing closes, nor one that another stray quote seems to close."""
    rows = [row for row in split_rows(f'Rope,Size,From\nA,"6 inch,Holm\nB,2 inch,Sand\n{end}') if row]

    assert [len(row) for row in rows] == [3] * len(rows)
    assert ["B", "2 inch", "Sand"] in rows


def test_a_quoted_field_may_have_several_lines():
    """With blank lines, delimiters and doubled quotes in it."""
    rows = split_rows('id,text\n1,"The ""Skua"", she says,\n\nleaks."\n2,\n')

    assert list(rows) == [["id", "text"], ["1", 'The "Skua", she says,\n\nleaks.'], ["2", ""], []]


@pytest.mark.parametrize("source", ['a,"x\n', '"a,b"c\n', 'x;"\ny;z"\n', '"x,', "word, ", '"'])
def test_delimited_text_costs_no_more_than_its_length(source):
    """However many quotes are never closed, and in a line of any length."""
    began = time.monotonic()
    assert sum(1 for _ in split_rows(source * 100_000))
    assert time.monotonic() - began < 15


def test_a_row_has_at_most_as_many_fields_as_a_sheet_has_columns():
    """What follows is text of the last one: a line of a hundred megabytes does not fill the memory."""
    for source in ("a,b," * 50_000, '"a",b,' * 50_000):
        (row,) = split_rows(source)
        assert len(row) == 20_001
        assert row[:2] == ["a", "b"]


def lines(source, **options):
    """The lines of a table whose cells are divided by commas; an asterisk before a cell sets it apart."""
    rows = [[HeadCell(cell[1:]) if cell.startswith("*") else cell for cell in line.split(",")] for line in source.splitlines()]
    return list(table_lines(rows, **{"likely": True} | options))


HEADED = [
    "from,to,port\nLars Holm,Ruth Sand,Vardby\nRuth Sand,Lars Holm,Brannock\nAnna Lind,Lars Holm,Vardby",
    "Property,Value\nLength,31 m\nBuilt,1971\nOwner,Ruth Sand",
    "Which of the many piers of the harbour do you use?,How often?\nthe long one,daily\nnone at all,never",
    # Names above limits, also above a single row of them; ranges that name columns stay names.
    "C,Si,P\n0.39 - 0.46,0.2 - 0.35,max 0.025",
    "Age,0-14,15-64\nNess,12,40\nVardby,9,31",
]


@pytest.mark.parametrize("source", HEADED)
def test_a_header_above_columns_is_found(source):
    """By its form, its words, and that its cells do not occur again."""
    head, *rows = [line.split(",") for line in source.splitlines()]

    assert lines(source) == [
        " · ".join(f"{name}{' ' if name.endswith('?') else ': '}{value}" for name, value in zip(head, row, strict=True)) for row in rows
    ]


@pytest.mark.parametrize(
    "source",
    [
        "Lars Holm,12,Vardby\nRuth Sand,15,Brannock\nAnna Lind,9,Vardby",
        "Oslo,Norway,city\nBergen,Norway,city\nRome,Italy,city",
        "a,b\na,c",
    ],
)
def test_a_first_row_like_the_others_is_no_header(source):
    """Its cells stand without labels."""
    assert lines(source) == [line.replace(",", " · ") for line in source.splitlines()]


@pytest.mark.parametrize("likely", [True, False])
@pytest.mark.parametrize(
    "source",
    [
        "Vessel,Skua of Vardby\nOwner,Ruth Sand\nBuilder,Holm & Sons",
        "Built,1951\nRebuilt,1974\nLength in feet,31\nCrew,4",
        "Owner:,Ruth Sand\nPhone:,555-1234\nMail:,ruth@vardby.example",
        "Name,Ruth\nPort,Vardby\nMail:,ruth@vardby.example",
    ],
)
def test_a_table_of_labels_and_values_has_no_header(source, likely):
    """Each row is its label and value."""
    assert lines(source, likely=likely) == [line.replace(":,", ": ").replace(",", ": ") for line in source.splitlines()]


LINES = {
    # Numbers and years without a first column are no header; a second table has its own.
    "two tables": (
        "Town,1973,1974\nVardby,71,64\n\nName,Age\nRuth,40\nLars,38", {},
        "Town: Vardby · 1973: 71 · 1974: 64\n\nName: Ruth · Age: 40\nName: Lars · Age: 38"),
    "a caption": ("Landings of 1974,\nShip,Tons\nSkua,7", {"likely": False}, "Landings of 1974\nShip: Skua · Tons: 7"),
    # Names that count the columns are a header also where none is likely.
    **{f"names {a}": (
        f"{a},{b}\nSkua crew,Tern crew\nRuth Sand,Bo Rask", {"likely": False},
        f"{a}: Skua crew · {b}: Tern crew\n{a}: Ruth Sand · {b}: Bo Rask")
       for a, b in (("Team 1", "Team 2"), ("A", "B"), ("Header1", "Header2"))},
    # Numbered cells that the rows below count on are none.
    "numbered cells": ("E1,E2\nE3,E4", {"likely": False}, "E1 · E2\nE3 · E4"),
    # Columns of the same name keep it, from the second on with its number.
    "equal names": (
        "Rower,Time,Time\nRuth,31,32\nLars,33,34", {}, "Rower: Ruth · Time: 31 · Time (2): 32\nRower: Lars · Time: 33 · Time (2): 34"),
    # A header of two rows gives each column both its names, whether a cell that spans columns is repeated or stands in the first of them.
    **{f"two rows {n}": (
        f"{top}\n,Cod,Eel,Cod,Eel\nSkua,7,8,9,10\nTern,1,2,3,4", options,
        "Boat: Skua · 1973 Cod: 7 · 1973 Eel: 8 · 1974 Cod: 9 · 1974 Eel: 10\n"
        "Boat: Tern · 1973 Cod: 1 · 1973 Eel: 2 · 1974 Cod: 3 · 1974 Eel: 4")
       for n, (top, options) in enumerate([
           ("Boat,1973,,1974,", {}), ("Boat,1973,1973,1974,1974", {}), ("Boat,1973,1973,1974,1974", {"header_rows": 2})])},
    # Rows of one cell after a blank row are notes, in none of the columns.
    "notes below": (
        "Boat,Cod,Eel\nSkua,7,8\nTern,9,1\n,,\nWithout the catch of the strangers.,,", {},
        "Boat: Skua · Cod: 7 · Eel: 8\nBoat: Tern · Cod: 9 · Eel: 1\n\nWithout the catch of the strangers."),
    # Rows of one cell between others are headings of those below them, if they begin the table or are set apart.
    "sections": (
        "Berth,Fee,Days\nNorth,,\nA1,12,3\nA2,14,5\nSouth,,\nB1,9,2", {},
        "North · Berth: A1 · Fee: 12 · Days: 3\nNorth · Berth: A2 · Fee: 14 · Days: 5\nSouth · Berth: B1 · Fee: 9 · Days: 2"),
    "marked sections": (
        "Berth,Fee\nA1,12\n*South quay,\nB1,\nB2,9", {}, "Berth: A1 · Fee: 12\nSouth quay · Berth: B1\nSouth quay · Berth: B2 · Fee: 9"),
    "a name without values": (
        "Name,Port,Age\nRuth Sand,Ness,40\nLars Holm,,\nBo Rask,Ness,38", {},
        "Name: Ruth Sand · Port: Ness · Age: 40\nName: Lars Holm\nName: Bo Rask · Port: Ness · Age: 38"),
    # A list of headings, each with a line below, is no table.
    "headings": (
        "Version\n1.0 (January 2012)\n\nContact\nruth@vardby.example", {},
        "Version: 1.0 (January 2012)\n\nContact\nruth@vardby.example"),
}  # fmt: skip


@pytest.mark.parametrize(("source", "options", "text"), LINES.values(), ids=LINES)
def test_the_lines_of_a_table(source, options, text):
    """Each row with the names of its columns, and what is no row by itself."""
    assert "\n".join(lines(source, **options)) == text


@pytest.mark.parametrize("tag", ["td", "th"])
def test_a_web_table_repeats_what_spans_columns_and_rows(tag):
    """Also where its header is marked in no way; equal names of columns are numbered."""
    head = f'<tr><{tag} rowspan="2">Boat</{tag}><{tag} colspan="2">1973</{tag}><{tag}>Note</{tag}><{tag}>Note</{tag}></tr>'
    names = "".join(f"<{tag}>{name}</{tag}>" for name in ("Cod", "Eel", "", ""))
    body = '<tr><td rowspan="2">Skua</td><td>7</td><td>8</td><td>a</td><td>b</td></tr><tr><td>9</td><td>1</td><td>c</td><td>d</td></tr>'

    assert text_of("a.html", f"<table>{head}<tr>{names}</tr>{body}</table>").splitlines() == [
        "Boat: Skua · 1973 Cod: 7 · 1973 Eel: 8 · Note: a · Note (2): b",
        "Boat: Skua · 1973 Cod: 9 · 1973 Eel: 1 · Note: c · Note (2): d",
    ]


# A row that the document sets apart is a header: the same table with marks of every kind, and without.
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


def rows_with(first, other):
    """The rows above, their cells written by these functions of a text, `first` those of the first row."""
    return [[other(text) if n else first(text) for text in texts] for n, texts in enumerate(ROWS)]


def word(first, style=""):
    rows = "".join(f"<w:tr>{''.join(row)}</w:tr>" for row in rows_with(first, made.cell))
    return docx(f"<w:tbl>{style}{rows}</w:tbl>", parts={"word/styles.xml": WORD_STYLES})


def sheet(style):
    cell = '<c t="inlineStr" s="{}"><is><t>{}</t></is></c>'.format
    return xlsx(rows_with(lambda t: cell(style, t), lambda t: cell(0, t)), parts={"xl/styles.xml": XLSX_STYLES})


def text_document(first):
    return odf("text", odf_table(*map("".join, rows_with(first.format, odf_cell))), automatic=ODF_STYLES)


def page(first):
    return f"<table>{''.join(f'<tr>{a}{b}</tr>' for a, b in rows_with(first.format, '<td>{}</td>'.format))}</table>"


XLSX_TABLE = {"xl/tables/table1.xml": f'<table xmlns="{made.S}" ref="A1:B3"/>'}
MARKED = {
    "bold.xlsx": sheet(1),
    "filled.xlsx": sheet(2),
    "table.xlsx": xlsx(ROWS, relations={"t1": ("table", "../tables/table1.xml")}, parts=XLSX_TABLE),
    "bold.xls": made.xls(ROWS, bold_rows=(0,)),
    "bold.docx": word(lambda t: f"<w:tc>{p(run(t, '<w:b/>'))}</w:tc>"),
    "style.docx": word(lambda t: f"<w:tc>{p(run(t), style='Head')}</w:tc>"),
    "filled.docx": word(lambda t: made.cell(t, '<w:shd w:val="clear" w:fill="DDDDDD"/>')),
    "table-style.docx": word(made.cell, '<w:tblPr><w:tblStyle w:val="Grid"/><w:tblLook w:val="04A0"/></w:tblPr>'),
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
    "look.docx": word(made.cell, '<w:tblPr><w:tblStyle w:val="Grid"/><w:tblLook w:val="0080" w:firstRow="0"/></w:tblPr>'),
    "plain.html": page("<td>{}</td>"),
    "plain.odt": text_document("<table:table-cell><text:p>{}</text:p></table:table-cell>"),
    "plain.csv": "\n".join(map(",".join, ROWS)),
}


@pytest.mark.parametrize("name", [*MARKED, *PLAIN])
def test_a_row_that_the_document_sets_apart_is_a_header(name):
    """By bold letters, a fill, or markup; without them the same two columns are labels and values."""
    text = text_of(name, MARKED.get(name) or PLAIN[name])

    assert text.removeprefix("# Toll\n\n") == (AS_COLUMNS if name in MARKED else AS_PAIRS)


@pytest.mark.parametrize(
    "source",
    [
        "*Project,Manager\n*Harbour wall,Ane Holt",  # a first column that is set apart, also where the others read like names of columns
        "*Vessel,*Skua\n*Owner,*Ruth Sand\n*Port,*Vardby",
        "*Vessel,*Skua\nOwner,Ruth Sand\n*Port,*Vardby\nFlag,Ness",
    ],
)
def test_cells_that_are_set_apart_beside_or_below_each_other_are_labels(source):
    """A table that is all bold or has filled rows by turns has no header for that: it says nothing of the first row."""
    rows = [[HeadCell(cell[1:]) if cell.startswith("*") else cell for cell in line.split(",")] for line in source.splitlines()]

    assert find_layout(rows, likely=True).is_pairs


BESIDE = """
Boat|Berth||Pilot|Zone
Skua|41||Ruth Sand|Inner
Tern|7||Lars Holm|Outer
|||Bo Rask|Inner
|||Ane Holt|Outer
"""
APART = (
    "Boat: Skua · Berth: 41\nBoat: Tern · Berth: 7\n\n"
    "Pilot: Ruth Sand · Zone: Inner\nPilot: Lars Holm · Zone: Outer\nPilot: Bo Rask · Zone: Inner\nPilot: Ane Holt · Zone: Outer"
)


def grid(source):
    return [line.split("|") for line in source.strip("\n").split("\n")]


def lines_of_sheet(source, ranges=()):
    return "\n\n".join(block.text for block in sheet_blocks(enumerate(grid(source)), ranges)).split("\n")


@pytest.mark.parametrize("name", ["a.xlsx", "a.ods", "a.xls"])
def test_tables_side_by_side_have_each_its_own_header(name):
    """They are read one after the other."""
    sources = {
        "a.xlsx": xlsx([[int(text) if text.isdecimal() else text for text in row] for row in grid(BESIDE)]),
        "a.ods": odf("spreadsheet", odf_table(*("".join(map(odf_cell, row)) for row in grid(BESIDE)))),
        "a.xls": made.xls(grid(BESIDE)),
    }

    assert text_of(name, sources[name]).endswith(f"\n{APART}")


SHEETS = {
    # A table that begins further down is another one; its header is in the rows of the table beside it.
    "further down": (
        "Boat|Berth||\nSkua|41||Pilot|Zone\nTern|7||Ruth Sand|Inner\nGannet|9||Lars Holm|Outer", slice(3, None),
        "\nPilot: Ruth Sand · Zone: Inner\nPilot: Lars Holm · Zone: Outer"),
    # Tables of the same columns are told apart by their names, also where both are as long, and their rows begin with numbers.
    "same columns": (
        "Year|Births||Year|Deaths\n1871|7||1901|3\n1872|9||1902|4", slice(2, None), "\nYear: 1901 · Deaths: 3\nYear: 1902 · Deaths: 4"),
    "pairs beside": (
        "Owner:|Ruth Sand||Boat|Berth\nPort:|Vardby||Skua|41\nPhone:|555-1234||Tern|7", slice(4),
        "Owner: Ruth Sand\nPort: Vardby\nPhone: 555-1234\n"),
    # What stands above and below is read in the order of the rows.
    "between": (f"Harbour report\n||||{BESIDE}||||\nTotal|2||Total|4", slice(2, 9), APART),
    "above": (f"Harbour report\n||||{BESIDE}||||\nTotal|2||Total|4", slice(1), "Harbour report"),
}  # fmt: skip


@pytest.mark.parametrize(("source", "shown", "text"), SHEETS.values(), ids=SHEETS)
def test_tables_of_a_sheet_are_told_apart(source, shown, text):
    """By their rows, their names, and what stands around them."""
    found = lines_of_sheet(source)

    assert "\n".join(found[shown]) == text
    assert "Total" not in source or "Total" in found[-1]


@pytest.mark.parametrize(
    "source",
    [
        "Boat|Port||Tons|Crew\nSkua|Vardby||31|4\nTern|Ness||28|3\nGannet|Ness||30|\nPetrel|Ness||||",
        "Name|Office||Mail|Phone\nRuth Sand|Pilot||ruth@vardby.example|555\nBo Rask|Keeper||bo@ness.example|556",
        "Boat|Berth||Note\nSkua|41||leaks\nTern|7||",
    ],
    ids=["numbers of the rows", "as long as the rest", "a single column"],
)
def test_an_empty_column_within_a_table_divides_it_in_no_way(source):
    """Its rows stay whole."""
    first = lines_of_sheet(source)[0]

    assert first == " · ".join(f"{name}: {value}" for name, value in zip(*grid(source)[:2], strict=True) if name)


def test_spanning_cells_of_tables_side_by_side_are_repeated_within_their_own():
    """Their columns are counted from the left edge of the table."""
    source = "Zone|Boat||Zone|Pilot\nInner|Skua||Outer|Ruth Sand\n|Tern|||Lars Holm\n|||North|Bo Rask\n|||South|Ane Holt"
    found = lines_of_sheet(source, [CellRange(1, 0, 2, 0), CellRange(1, 3, 2, 3)])

    assert found[1] == "Zone: Inner · Boat: Tern"
    assert found[4] == "Zone: Outer · Pilot: Lars Holm"


def test_a_long_sheet_is_read_row_by_row():
    """Without waiting for what is below the table."""
    endless = ((n, [f"Boat {n}", str(n)] if n else ["Boat", "Berth"]) if n % 20_000 or not n else (n, []) for n in count())

    assert next(sheet_blocks(endless, ())).text.startswith("Boat: Boat 1 · Berth: 1\n")
