"""Tables: dialects of delimited text, headers, and pairs of label and value, the same in every format."""

import time
from statistics import fmean

import pytest

from localrag.loaders.column_labels import label_score
from localrag.loaders.delimited import find_delimiter, split_rows
from localrag.loaders.tabular import table_lines
from tests.indexing import files as files_indexing
from tests.loaders.test_load import read, write


def csv_text(tmp_path, source, name="rows.csv"):
    return read(write(tmp_path, {name: source.encode()}) / name).text


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("Tag;Nord;West\n0,5;1,25;2,75\n1,5;2,25;3,75\n", "Tag: 0,5 · Nord: 1,25 · West: 2,75\nTag: 1,5 · Nord: 2,25 · West: 3,75"),
        ("0,5;1,25\n1,5;2,25\n2,5;3,5\n", "0,5 · 1,25\n1,5 · 2,25\n2,5 · 3,5"),
        ("Shed;Where\nShed 1;north, gate 2, left\nShed 2;south, gate 1, left\n", "Shed: Shed 1 · Where: north, gate 2, left"),
        ("sep=|\nShip|Tons\nSkua|7,5\n", "Ship: Skua · Tons: 7,5"),
        ("Ship\tTons\nSkua\t7,5\nTern\t8,5\n", "Ship: Skua · Tons: 7,5\nShip: Tern · Tons: 8,5"),
        ("note\nIt rained all day, and the men slept.\nAt noon, a sail was seen.\nNothing more.\n", "At noon, a sail was seen."),
    ],
    ids=["decimal commas", "without header", "commas in fields", "declared", "tabs", "sentences"],
)
def test_the_delimiter_is_the_one_that_divides_the_columns(tmp_path, source, text):
    """Decimal commas and the commas of sentences divide nothing."""
    assert text in csv_text(tmp_path, source)


def test_a_tsv_file_is_divided_at_tabs():
    """Even where commas would divide its lines more evenly."""
    assert list(split_rows("a, b\t1\nc, d\t2", prefers_tab=True)) == [["a, b", "1"], ["c, d", "2"]]
    assert find_delimiter(["a,b", "c,d"], prefers_tab=True) == ","


@pytest.mark.parametrize(
    "source",
    [
        'Rope,Size,From\nA,"6 inch,Holm\nB,2 inch,Sand\nC,3 inch,Lind\n',
        'Rope,Size,From\nA,"6 inch,Holm\nB,2 inch,Sand\nC,3",Lind\nD,1 inch,Holm\n',
    ],
)
def test_a_stray_quote_takes_no_row_with_it(source):
    """Neither one that nothing closes, nor one that another stray quote seems to close."""
    rows = [row for row in split_rows(source) if row]

    assert [len(row) for row in rows] == [3] * len(rows)
    assert ["B", "2 inch", "Sand"] in rows


def test_a_quoted_field_may_have_several_lines():
    """With blank lines, delimiters and doubled quotes in it."""
    assert list(split_rows('id,text\n1,"The ""Skua"", she says,\n\nleaks."\n2,\n')) == [
        ["id", "text"],
        ["1", 'The "Skua", she says,\n\nleaks.'],
        ["2", ""],
        [],
    ]


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
    return list(table_lines([line.split(",") for line in source.splitlines()], **{"likely": True} | options))


@pytest.mark.parametrize(
    "source",
    [
        "from,to,port\nLars Holm,Ruth Sand,Vardby\nRuth Sand,Lars Holm,Brannock\nAnna Lind,Lars Holm,Vardby",
        "word,explanation\nhalyard,a rope that raises a sail\nkeel,the lowest beam of a ship",
        "Name,Port\nRuth,Vardby\nLars,Brannock",
        "Begriff,Bedeutung\nKiel,unterster Balken\nMast,trägt das Segel",
        "Land,Hauptstadt\nNorwegen,Oslo\nSchweden,Stockholm\nFinnland,Helsinki",
        "Property,Value\nLength,31 m\nBuilt,1971\nOwner,Ruth Sand",
        "Which of the many piers of the harbour do you use?,How often?\nthe long one,daily\nnone at all,never",
    ],
)
def test_a_header_above_columns_of_text_is_found(source):
    """By its form, its words, and that its cells do not occur again."""
    head, *rows = [line.split(",") for line in source.splitlines()]

    assert lines(source) == [
        " · ".join(f"{name}{' ' if name.endswith('?') else ': '}{value}" for name, value in zip(head, row, strict=True)) for row in rows
    ]


@pytest.mark.parametrize(
    "source",
    ["Lars Holm,12,Vardby\nRuth Sand,15,Brannock\nAnna Lind,9,Vardby", "Oslo,Norway,city\nBergen,Norway,city\nRome,Italy,city"],
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
        "Hersteller,Werft Nord\nBaujahr,1931\nLänge,31 m\nEigner,Lars Holm",
        "Owner:,Ruth Sand\nPhone:,555-1234\nMail:,ruth@vardby.example",
    ],
)
def test_a_table_of_labels_and_values_has_no_header(source, likely):
    """Each row is its label and value."""
    assert lines(source, likely=likely) == [line.replace(":,", ": ").replace(",", ": ") for line in source.splitlines()]


def test_columns_of_the_same_name_are_numbered():
    """They keep their name, from the second on with its number."""
    assert lines("Rower,Time,Time\nRuth,31,32\nLars,33,34") == [
        "Rower: Ruth · Time: 31 · Time (2): 32",
        "Rower: Lars · Time: 33 · Time (2): 34",
    ]


@pytest.mark.parametrize("top", ["Boat,1973,,1974,", "Boat,1973,1973,1974,1974"])
def test_a_header_of_two_rows_gives_each_column_both_its_names(top):
    """Whether a cell that spans columns is repeated or stands in the first of them."""
    source = f"{top}\n,Cod,Eel,Cod,Eel\nSkua,7,8,9,10\nTern,1,2,3,4"

    assert lines(source)[0] == "Boat: Skua · 1973 Cod: 7 · 1973 Eel: 8 · 1974 Cod: 9 · 1974 Eel: 10"
    assert lines(source.replace(top, top.replace(",,", ",1973,").removesuffix(",") + ",1974" * top.endswith(",")), header_rows=2)[1] == (
        "Boat: Tern · 1973 Cod: 1 · 1973 Eel: 2 · 1974 Cod: 3 · 1974 Eel: 4"
    )


def test_rows_above_a_header_are_not_taken_for_it(tmp_path):
    """The particulars of an export stand before the table as they are."""
    source = "Written by Tidebook;;\nFrom;1.1.1974;31.3.1974\nBoat;Berth;Length\nSkua;41;12,5\nTern;7;31,0\nGannet;9;8,5\n"

    assert csv_text(tmp_path, source).splitlines()[:3] == [
        "Written by Tidebook",
        "From · 1.1.1974 · 31.3.1974",
        "Boat: Skua · Berth: 41 · Length: 12,5",
    ]


def test_notes_below_a_table_are_in_none_of_its_columns():
    """Rows of one cell after a blank row stand without the first column's name."""
    assert lines("Boat,Cod,Eel\nSkua,7,8\nTern,9,1\n,,\nWithout the catch of the strangers.,,")[-1] == "Without the catch of the strangers."


def test_headings_in_a_single_column_head_no_other_paragraph():
    """A list of headings, each with a line below, is no table."""
    assert lines("Version\n1.0 (January 2012)\n\nContact\nruth@vardby.example")[-2:] == ["Contact", "ruth@vardby.example"]


def test_names_above_limits_are_a_header():
    """Also above a single row of them; ranges that name columns stay names."""
    assert lines("C,Si,P\n0.39 - 0.46,0.2 - 0.35,max 0.025") == ["C: 0.39 - 0.46 · Si: 0.2 - 0.35 · P: max 0.025"]
    assert lines("Age,0-14,15-64\nNess,12,40\nVardby,9,31")[0] == "Age: Ness · 0-14: 12 · 15-64: 40"


@pytest.mark.parametrize("name", ["a.csv", "a.xlsx", "a.ods", "a.html"])
def test_every_format_tells_pairs_from_headers(tmp_path, name):
    """The same table gives the same lines in each."""
    rows = [("Vessel", "Skua of Vardby"), ("Owner", "Ruth Sand"), ("Builder", "Holm & Sons")]
    cells = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows).replace("&", "&amp;")
    sources = {
        "a.csv": "\n".join(map(",".join, rows)).encode(),
        "a.xlsx": files_indexing.xlsx(rows),
        "a.ods": files_indexing.opendocument("spreadsheet", files_indexing.table(*rows).replace("& ", "&amp; ")),
        "a.html": f"<table>{cells}</table>".encode(),
    }

    assert "\n".join(map(": ".join, rows)) in read(write(tmp_path, {name: sources[name]}) / name).text


@pytest.mark.parametrize("tag", ["td", "th"])
def test_a_web_table_repeats_what_spans_columns_and_rows(tmp_path, tag):
    """Also where its header is marked in no way; equal names of columns are numbered."""
    head = f'<tr><{tag} rowspan="2">Boat</{tag}><{tag} colspan="2">1973</{tag}><{tag}>Note</{tag}><{tag}>Note</{tag}></tr>'
    names = "".join(f"<{tag}>{name}</{tag}>" for name in ("Cod", "Eel", "", ""))
    body = '<tr><td rowspan="2">Skua</td><td>7</td><td>8</td><td>a</td><td>b</td></tr><tr><td>9</td><td>1</td><td>c</td><td>d</td></tr>'
    page = f"<table>{head}<tr>{names}</tr>{body}</table>"

    assert read(write(tmp_path, {"a.html": page.encode()}) / "a.html").text.splitlines() == [
        "Boat: Skua · 1973 Cod: 7 · 1973 Eel: 8 · Note: a · Note (2): b",
        "Boat: Skua · 1973 Cod: 9 · 1973 Eel: 1 · Note: c · Note (2): d",
    ]


def test_labels_are_told_from_values_by_their_words():
    """On average, in several languages: a single cell decides nothing."""
    labels = ["name", "Operator", "recipient", "title", "Adresse", "Verfasser", "pays", "approved by", "Owner", "Height"]
    values = ["Ruth Sand", "Port of Vardby", "Lars Holm", "a rope that raises a sail", "Werft Nord", "Holm & Sons", "Skua of Vardby"]

    assert fmean(map(label_score, labels)) > 0.5
    assert fmean(map(label_score, values)) < -0.5
    assert label_score("1974") == 0
