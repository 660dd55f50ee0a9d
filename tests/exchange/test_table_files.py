"""Tables and answers as files: read back by the programs that people open them with, whatever the documents say."""

import csv
import json
import os
import re
import stat
from dataclasses import replace
from datetime import datetime

import pytest
from docx import Document as WordFile
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from openpyxl import load_workbook

from localrag.analysis.tables import Cell, CellState, Column, TableRow, make_table
from localrag.errors import UsageError
from localrag.exchange.table_files import TABLE_SUFFIXES, answer_markdown, check_output_file, table_markdown, write_answer, write_table
from localrag.exchange.workbook import MAX_ROWS, neutralize_formula
from localrag.loaders.content import LoadOptions, OpenFile
from localrag.loaders.spreadsheet import parse_xlsx
from localrag.loaders.word import parse_docx
from localrag.records import Answer, AnswerPassage, Citation

DATE, PRICE = "Signed on 2 May 1974.", "The price is €1,200."
MARKUP = "one | two\nthree `four` *five* [six](http://x) ![s](http://x) <b>seven</b> [^1] &amp;"
HOSTILE = (
    '=HYPERLINK("http://example.org","pay")', "+1+2", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "＝1", "#N/A", "a\x07b\x00c\ud800\ufffe",
    "_x0041_", MARKUP, "王海明 👩‍🚀", "x" * 40_000, "👩" * 20_000,
)  # fmt: skip


def cited(quote, start, path="docs/a.md"):
    return Citation(0, path, start, start + len(quote), quote, "chunk", "page 1", ("The deal | x",))


def table_of(texts=HOSTILE, kind="text"):
    """A table of a date, an amount, a number and a text for each row; each text is also its quote."""
    columns = [Column("Document"), Column("Signed", "date"), Column("Price", "amount"), Column("Berths", "number"), Column("=What", kind)]
    rows = [
        TableRow(
            (
                Cell(f"{n}.md"),
                Cell("2 May 1974", (cited(DATE, 10),), value="1974-05-02"),
                Cell("€1,200", (cited(PRICE, 40),), value=1200.0, state=CellState.CONTRADICTORY),
                Cell("-5", value=-5) if n else Cell(state=CellState.NOT_STATED),
                Cell(text, (cited(text, 90 + n), cited(DATE, 10)), note="Read by hand." if n else ""),
            ),
            f"{n}.md",
        )
        for n, text in enumerate(texts)
    ]
    return make_table("review", "Deals & <b>prices</b>", columns, rows, "Two files | were not read.", {"documents": 2})


def written(table, tmp_path, suffix):
    write_table(table, tmp_path / f"t{suffix}")
    return tmp_path / f"t{suffix}"


def loaded(parse, path):
    """What localrag itself reads of a file."""
    return parse(OpenFile(path.name, os.open(path, os.O_RDONLY)), LoadOptions()).text


def test_a_csv_file_has_the_source_beside_each_cell_and_no_formula(tmp_path):
    """Dates and numbers as such, amounts with their currency; every other cell that would be a formula begins with an apostrophe."""
    path = written(table_of(), tmp_path, ".csv")
    head, first, *others = csv.reader(path.read_text(encoding="utf-8-sig").splitlines(keepends=True))

    assert head[:4] == ["Document", "Document: source", "Signed", "Signed: source"]
    assert head[8:] == ["'=What", "'=What: source"]
    assert first[2:6] == ["1974-05-02", "“Signed on 2 May 1974.” — docs/a.md › page 1 › The deal | x", "€1,200", first[5]]
    assert first[5].startswith("[contradictory] “The price is €1,200.” — ")
    assert (first[6], others[0][6]) == ("not stated", "-5")
    assert first[8] == "'" + HOSTILE[0]
    for row in (head, first, *others):
        assert not [cell for n, cell in enumerate(row) if n != 6 and cell.startswith(tuple("=+-@\t\r＝"))]


@given(st.text())
def test_no_text_is_left_as_a_formula(text):
    """An apostrophe stands in front, and nothing else is changed."""
    assert neutralize_formula(text).removeprefix("'") == text.removeprefix("'")
    assert not neutralize_formula(text).startswith(tuple("=+-@\t\r\n"))


@pytest.mark.parametrize(
    ("text", "value", "shown"),
    [
        ("30 days", 30.0, (30, 'General" days"')),
        ("$10,000", 10_000.0, (10_000, '#,##0.00 "$"')),
        ("1 hour and 48 minutes", 1.8, ("1 hour and 48 minutes", "General")),
        ("$50 / $500", 50.0, ("$50 / $500", "General")),
    ],
)
def test_an_amount_in_a_workbook_keeps_its_unit(tmp_path, text, value, shown):
    """By the format of its number, or as text where no single number says it."""
    table = make_table("review", "Terms", [Column("Term", "amount")], [TableRow((Cell(text, value=value),), "a.md")])
    cell = load_workbook(written(table, tmp_path, ".xlsx"))["Table"]["A2"]

    assert (cell.value, cell.number_format) == shown


def test_a_workbook_has_real_values_and_its_quotes_as_comments(tmp_path):
    """Dates and numbers can be computed with; the header stays in view; states have colors."""
    book = load_workbook(written(table_of(), tmp_path, ".xlsx"))
    sheet = book["Table"]

    assert sheet.freeze_panes == "A2"
    assert sheet["B2"].value == datetime(1974, 5, 2)
    assert (sheet["C2"].value, sheet["C2"].number_format) == (1200, '#,##0.00 "€"')
    assert (sheet["D2"].value, sheet["D3"].value) == ("not stated", -5)
    assert "[1] docs/a.md › page 1 › The deal | x\n“Signed on 2 May 1974.”" in sheet["B2"].comment.text
    assert sheet["C2"].comment.text.startswith("contradictory\n")
    assert sheet["E3"].comment.text.startswith("Read by hand.\n")
    assert {sheet[name].fill.start_color.rgb[2:] for name in ("C2", "D2")} == {"F8CBAD", "E7E6E6"}
    assert sheet["E2"].alignment.wrap_text
    about = dict(book["About"].iter_rows(values_only=True))
    assert (about["Title"], about["Note"], about["documents"]) == ("Deals & <b>prices</b>", "Two files | were not read.", 2)


def test_no_cell_of_a_workbook_is_a_formula_or_too_long(tmp_path):
    """Also after somebody edits it; texts are cut at what a cell can hold, counted as Excel does; the others stay as they are."""
    path = written(table_of(), tmp_path, ".xlsx")
    book = load_workbook(path)
    cells = [cell for sheet in book for row in sheet.iter_rows() for cell in row]

    assert not [cell for cell in cells if cell.data_type in "fe"]
    assert all(cell.quotePrefix for cell in cells if isinstance(cell.value, str) and cell.value.startswith(("=", "+", "@", "-2")))
    assert max(len(str(cell.value).encode("utf-16-le")) // 2 for cell in cells) <= 32_767
    assert book["Table"]["E14"].value == "x" * 32_766 + "…"
    assert book["Table"]["E10"].value == "a�b�c��"
    assert "_x0041_" in loaded(parse_xlsx, path)


@pytest.mark.parametrize(
    ("name", "columns", "rows", "said", "other"), [("t.xlsx", 1, MAX_ROWS, "too large", ".csv"), ("t.docx", 64, 1, "63 columns", ".xlsx")]
)
def test_a_table_that_a_format_has_no_room_for_is_refused(tmp_path, name, columns, rows, said, other):
    """Nothing is cut off without a word; the hint names a format that has room."""
    table = make_table("list", "Many", [Column("a")] * columns, ())
    object.__setattr__(table, "rows", (TableRow((Cell("x"),) * columns),) * rows)
    with pytest.raises(UsageError, match=said) as refused:
        write_table(table, tmp_path / name)
    assert other in refused.value.hint
    assert not list(tmp_path.iterdir())


def test_a_markdown_table_shows_its_texts_as_they_are(tmp_path):
    """As many cells in each row, no link, picture or HTML of a document, a footnote for every mark."""
    text = written(table_of(), tmp_path, ".md").read_text(encoding="utf-8")
    html = MarkdownIt("commonmark", {"html": True}).enable("table").render(text)

    assert [row.count("<td>") for row in html.split("<tr>")[2:]] == [5] * len(HOSTILE)
    assert not re.search(r"<(?:a|img|b|code|em)\b(?!>\()", html.replace("<em>(contradictory)", "").replace("<em>(Read by hand.)", ""))
    assert "one | two<br>three `four` *five* [six](http://x) ![s](http://x) &lt;b&gt;seven&lt;/b&gt; [^1] &amp;amp;" in html
    marks = set(re.findall(r"(?<!\\)\[\^(\d+)\](?!:)", text))
    assert marks == set(re.findall(r"^\[\^(\d+)\]:", text, re.MULTILINE)) == {str(n) for n in range(1, len(HOSTILE) + 3)}
    assert "\n[^1]: “Signed on 2 May 1974.” — docs/a.md › page 1 › The deal \\| x\n" in text


def test_a_word_file_is_read_as_it_was_written(tmp_path):
    """Cells with their states and line breaks, and the title."""
    word = WordFile(written(table_of(), tmp_path, ".docx"))
    (grid,) = word.tables
    assert [cell.text for cell in grid.rows[0].cells] == ["Document", "Signed", "Price", "Berths", "=What"]
    assert grid.cell(1, 2).text == "€1,200 (contradictory)[2]"
    assert grid.cell(11, 4).text.startswith("one | two\nthree `four`")
    assert word.core_properties.title == "Deals & <b>prices</b>"
    text = loaded(parse_docx, tmp_path / "t.docx")
    assert re.search(r"2 May 1974 ?\[1\]", text)
    assert "[1] “Signed on 2 May 1974.” — docs/a.md › page 1 › The deal | x" in text


def test_json_has_the_whole_table(tmp_path):
    """Cells name their citations by number; values are typed."""
    values = json.loads(written(table_of(("x",)), tmp_path, ".json").read_text(encoding="utf-8"))

    assert (values["kind"], values["title"], values["figures"]) == ("review", "Deals & <b>prices</b>", {"documents": 2})
    assert values["columns"][1] == {"title": "Signed", "kind": "date"}
    first = values["rows"][0]
    assert first["key"] == "0.md"
    assert first["cells"][1] == {
        **{"text": "2 May 1974", "value": "1974-05-02", "state": "found", "confidence": None, "note": "", "citations": [1]}
    }
    assert values["citations"][0] == {
        **{"n": 1, "path": "docs/a.md", "part": "page 1", "start": 10, "end": 31, "quote": DATE, "headings": ["The deal | x"]}
    }


@pytest.mark.parametrize("suffix", TABLE_SUFFIXES)
def test_a_file_is_written_whole_and_private(suffix, tmp_path):
    """An existing one is kept unless it may be replaced; nothing else is left in the folder."""
    table = table_of()
    path = written(table, tmp_path, suffix)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(UsageError, match="exists already"):
        write_table(table, path)
    with pytest.raises(UsageError, match="exists already"):
        check_output_file(path)
    path.write_bytes(b"mine")
    write_table(table, path, force=True)
    assert path.read_bytes() != b"mine"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["t.ods", "t", "t.html", "t.ics"])
def test_another_suffix_names_those_there_are(name, tmp_path):
    """Before anything is written."""
    with pytest.raises(UsageError, match="no format") as refused:
        write_table(table_of(), tmp_path / name)
    assert all(suffix in refused.value.hint for suffix in TABLE_SUFFIXES)
    with pytest.raises(UsageError, match="no folder"):
        write_table(table_of(), tmp_path / "none" / "t.csv")
    assert not list(tmp_path.iterdir())


@settings(max_examples=15)
@given(st.lists(st.text(st.characters(codec=None)), min_size=1, max_size=3))
def test_any_text_can_be_written_and_read_back(tmp_path_factory, texts):
    """Whatever its characters; the programs' own libraries read the files."""
    folder, table = tmp_path_factory.mktemp("any"), table_of(texts)
    for suffix in TABLE_SUFFIXES:
        write_table(table, folder / f"t{suffix}")
    assert load_workbook(folder / "t.xlsx")["Table"].max_row == len(texts) + 1
    assert len(WordFile(folder / "t.docx").tables[0].rows) == len(texts) + 1
    assert len(json.loads((folder / "t.json").read_text(encoding="utf-8"))["rows"]) == len(texts)
    assert table_markdown(table).count("\n| ") == len(texts) + 2


WRITTEN = "# The ferry\n\nIngrid **bought** it in 1974. [1] It *leaks*. [related][2]\n\n"
WRITTEN += "- one `x[1]`\n- two [1]\n\n1. first\n   - inner\n2. next\n\n"
WRITTEN += "> quoted\n\n| a | b |\n|---|---|\n| c | d [2] |\n\n```\ncode <b>\n```\n\n![p](http://x) [l](http://y) <i>z</i> [^1]\n"


def answer_of(text, **values):
    marks = tuple((found.start(), int(found[1])) for found in re.finditer(r"(?<!x)\[([12])\]", text))
    citations = tuple(replace(c, n=n) for n, c in enumerate((cited(DATE, 10), cited(PRICE, 40), cited("More.", 70)), 1))
    return Answer("Who bought the <b>Skua</b>?", text, "mix", citations=citations, citation_marks=marks, note="A note.", **values)


def test_a_written_answer_keeps_its_markdown_and_gets_footnotes(tmp_path):
    """Its pictures, links and HTML are inert, as is a footnote of its own."""
    write_answer(answer_of(WRITTEN), tmp_path / "a.md")
    text = (tmp_path / "a.md").read_text(encoding="utf-8")

    assert text.startswith("# Who bought the \\<b\\>Skua\\</b\\>?\n")
    assert "Ingrid **bought** it in 1974.[^1] It *leaks*. [related][^2]" in text
    assert "- one `x[1]`\n- two[^1]" in text
    assert "| c | d[^2] |" in text
    assert "!\\[p]" in text
    assert "&lt;i>z" in text
    assert "&lt;/i> \\[^1]" in text
    assert "\n[^1]: “Signed on 2 May 1974.” — docs/a.md › page 1 › The deal \\| x\n" in text
    assert "\n- “More.” — docs/a.md" in text


def test_a_written_answer_becomes_paragraphs_lists_and_tables_in_word(tmp_path):
    """With the numbers of its sources where the marks stood."""
    write_answer(answer_of(WRITTEN), tmp_path / "a.docx")
    word = WordFile(tmp_path / "a.docx")
    paragraphs = [(p.style.name, p.text) for p in word.paragraphs]

    assert paragraphs[:3] == [("Heading 1", "Who bought the <b>Skua</b>?"), ("Heading 2", "The ferry"), paragraphs[2]]
    assert paragraphs[2][1].startswith("Ingrid bought it in 1974.[1] It leaks. [related][2]")
    assert [run.text for run in word.paragraphs[2].runs if run.bold] == ["bought"]
    for expected in (("List Bullet", "one x[1]"), ("List Bullet", "two[1]"), ("Normal", "1. first"), ("Normal", "2. next")):
        assert expected in paragraphs
    assert ("List Bullet 2", "inner") in paragraphs
    assert ("Normal", "code <b>") in paragraphs
    assert ("Normal", "![p](http://x) [l](http://y) <i>z</i> [^1]") in paragraphs
    assert [cell.text for cell in word.tables[0].rows[1].cells] == ["c", "d[2]"]
    text = loaded(parse_docx, tmp_path / "a.docx")
    assert "[1] “Signed on 2 May 1974.” — docs/a.md" in text
    assert "[2] “The price is €1,200.” — docs/a.md" in text
    assert ("Normal", "[3] “More.” — docs/a.md › page 1 › The deal | x") in paragraphs


def test_passages_of_an_answer_stay_as_they_stand(tmp_path):
    """They are no Markdown: signs in them are shown, their own marks are text."""
    text = "**docs/a.md › page 1**\n# Not a heading\n*Starred* \\[1\\] text. [1]"
    passage = AnswerPassage(1, "docs/a.md", (), 0, 10, "# Not a heading\n*Starred* [1] text.")
    answer = replace(answer_of(text, passages=(passage,)), citation_marks=((len(text) - 3, 1),))

    assert "**docs/a.md › page 1**\n\\# Not a heading\n*Starred* \\[1\\] text.[^1]" in answer_markdown(answer)
    write_answer(answer, tmp_path / "a.docx")
    lines = [p.text for p in WordFile(tmp_path / "a.docx").paragraphs]
    assert lines[1:4] == ["docs/a.md › page 1", "# Not a heading", "*Starred* [1] text.[1]"]
    with pytest.raises(UsageError, match="no format"):
        write_answer(answer, tmp_path / "a.xlsx")
