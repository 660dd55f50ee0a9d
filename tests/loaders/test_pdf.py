"""The pages of a PDF: numbers, running heads, and sentences and words that go on over a page's end."""

import pytest

from localrag.loaders.content import InnerFile, LoadOptions, Unreadable
from localrag.loaders.parser_process import parse_file
from localrag.loaders.pdf import HYPHEN, PageLine, join_paragraphs, sentence_continues, strip_running_heads
from localrag.text.outline import Outline
from tests.indexing import files
from tests.loaders.test_load import read, write


def texts(pages):
    return [[line.text for line in page] for page in pages]


def pages_of(*pages):
    return [[PageLine(text) for text in page] for page in pages]


def drawn(lines):
    """A page: lines below each other, the last at the foot."""
    *body, foot = lines
    shown = "".join(f"0 -14 Td ({line}) Tj\n" for line in body)
    return f"BT /F1 12 Tf 50 790 Td\n{shown}ET BT /F1 12 Tf 290 30 Td ({foot}) Tj ET"


def test_a_sentence_goes_on_over_the_end_of_a_page(tmp_path):
    """Neither the page's number nor the head of the next page stands in it; each page is still a part with its own words."""
    pages = [
        ["THE HARBOUR PAPERS", "Ruth Sand wrote to the master", "of the harbour at Vardby", "7"],
        ["THE HARBOUR PAPERS", "and asked for a berth.", "The harbour was so full that she con-", "8"],
        ["THE HARBOUR PAPERS", "cerned herself with the ferry.", "Nobody knew.", "9"],
        ["THE HARBOUR PAPERS", "She left in May.", "10"],
    ]
    document = read(write(tmp_path, {"a.pdf": files.pdf_of(map(drawn, pages))}) / "a.pdf")

    assert document.text == (
        "THE HARBOUR PAPERS\n\nRuth Sand wrote to the master of the harbour at Vardby and asked for a berth.\n\n"
        "The harbour was so full that she concerned herself with the ferry. Nobody knew.\n\nTHE HARBOUR PAPERS She left in May."
    )
    assert [(p.label, document.text[p.start : p.end].split()[0], document.text[p.start : p.end].split()[-1]) for p in document.parts] == [
        ("page 1", "THE", "Vardby"),
        ("page 2", "and", "concerned"),
        ("page 3", "herself", "knew."),
        ("page 4", "THE", "May."),
    ]


def test_a_number_sign_begins_no_heading(tmp_path):
    """It is a mark of a note in print; only Markdown has headings with it."""
    document = read(write(tmp_path, {"a.pdf": files.pdf_of([drawn(["# Denotes a change of all", "7"]), drawn(["Sold.", "8"])])}) / "a.pdf")

    assert document.text.split()[:2] == ["#", "Denotes"]
    assert Outline(document.text).headings == []


def test_a_page_number_is_no_text_however_it_is_written():
    """Alone, between dashes, with a word, with the number of pages; at the head or the foot; counted from any page."""
    for shown in ("{}", "- {} -", "Page {}", "{} / 31", "Page {} of 31", "第 {} 页"):
        numbers = [shown.format(n) for n in (12, 13, 14)]
        assert texts(strip_running_heads(pages_of(*([n, "Text."] for n in numbers)))) == [["Text."]] * 3
        assert texts(strip_running_heads(pages_of(*(["Text.", n] for n in numbers)))) == [["Text."]] * 3


def test_what_only_looks_like_a_running_line_stays():
    """Letterheads between whole sentences, numbered titles, totals, other numbers, lines of two pages only, and the head of a table."""
    for kept in (
        [["Ruth Sand Ltd", f"Paid in {month}."] for month in ("May", "June", "July", "August")],
        [[f"Lesson {n}", "We read."] for n in (1, 2, 3, 4)],
        [["Rent", f"Total: {n}.00"] for n in (1, 2, 3, 4)],
        [["Paid", amount] for amount in ("40", "12", "7", "310")],
        [["She wrote to", "7"], ["the master.", "8"]],
    ):
        assert texts(strip_running_heads(pages_of(*kept))) == kept
    table = [[PageLine("Name · Port", is_row=True), PageLine(f"{name} · Vardby", is_row=True)] for name in ("Ruth", "Ola", "Per")]
    assert strip_running_heads(table) == table


def test_pages_without_text_are_in_nobodys_way():
    """None at all, empty ones, and a page of its number only."""
    assert strip_running_heads([]) == []
    assert texts(strip_running_heads(pages_of([], ["1"], ["Text.", "2"], ["More.", "3"]))) == [[], [], ["Text."], ["More."]]


def test_only_a_sentence_that_was_not_ended_goes_on():
    """A new sentence, an item of a list and a row of a table begin something else."""
    assert sentence_continues("first\nwrote to the master", "of the harbour")
    assert not sentence_continues("He wrote.", "of the harbour")
    assert not sentence_continues("wrote to the master", "Of the harbour")
    assert not sentence_continues("wrote to the master", "b) of the harbour")
    assert not sentence_continues("Name · Port", "of the harbour")


def test_a_broken_word_is_mended_and_a_hyphen_of_its_own_kept():
    """What a line end divided is one word again."""
    lines = [f"the well{HYPHEN}", f"known con{HYPHEN}", f"cern of North{HYPHEN}", "Vardby is a well-known one"]

    assert list(join_paragraphs([PageLine(t) for t in lines])) == ["the well-known concern of North-Vardby is a well-known one\n"]


def parsed(data):
    """What a PDF is read as."""
    return parse_file(InnerFile("a.pdf", -1, data), LoadOptions())


@pytest.mark.parametrize(("has_space", "between"), [(True, " "), (False, "")])
def test_words_of_korean_are_divided_where_a_line_ends_with_a_space(has_space, between):
    """Elsewhere a line may end within a word, and in Chinese a space is none."""
    for first, second, wanted in (
        ("세계적 유행단계에 돌입한", "와중에 국내 보험업계에서는", between),
        ("船在港口过冬了又", "过了一个春天才走", ""),
    ):
        page = [PageLine(first, 50, 700, 294, 710, has_space=has_space), PageLine(second, 50, 686, 294, 696)]
        assert "".join(join_paragraphs(page)).strip() == f"{first}{wanted}{second}"


def test_a_raised_digit_is_the_mark_of_a_note():
    """Smaller and higher than the word before it; behind a unit it is an exponent; a plain number stays."""
    stream = (
        "BT /F1 12 Tf 50 700 Td (Lit in 1871) Tj /F1 7 Tf 5 Ts (3) Tj /F1 12 Tf 0 Ts ( on 4 km) Tj /F1 7 Tf 5 Ts (2) Tj"
        " /F1 12 Tf 0 Ts ( by 12 men.) Tj ET"
    )
    assert parsed(files.pdf_of([stream])).text == "Lit in 1871[3] on 4 km^2 by 12 men."


def test_a_raised_digit_is_told_in_fonts_that_are_enlarged():
    """Many programs set text in size 1 and enlarge it; a digit that stands apart from the word is none of its marks."""
    stream = (
        "BT /F1 1 Tf 12 0 0 12 50 700 Tm (Lit in 1871) Tj 7 0 0 7 129.2 705 Tm (3\\)) Tj 12 0 0 12 137.6 700 Tm (, by Rask) Tj ET"
        " BT /F1 12 Tf 50 600 Td (12) Tj /F1 7 Tf 5 Ts 80 0 Td (4) Tj ET"
    )
    assert parsed(files.pdf_of([stream])).text == "Lit in 1871[3], by Rask\n\n12 · 4"


@pytest.mark.parametrize(("mark", "word", "text"), [("3", "The letter", "[3] The letter"), ("14", "C of the letter", "^14C of the letter")])
def test_a_line_may_begin_with_a_raised_digit(mark, word, text):
    """A note does with its mark, and an isotope with its number."""
    stream = (
        f"BT /F1 5 Tf 4 Ts 50 700 Td ({mark}) Tj /F1 8 Tf 0 Ts {3 * len(mark)} 0 Td ({word}) Tj 0 -9 Td (is not older than this.) Tj ET"
    )
    assert parsed(files.pdf_of([stream])).text == f"{text} is not older than this."


def test_footnotes_stand_behind_the_sentence_that_they_interrupt():
    """At the end of a page, in smaller print."""
    first = (
        "BT /F1 12 Tf 50 700 Td (Ruth Sand wrote to the master of the harbour) Tj 0 -14 Td (and asked him for a berth at) Tj ET"
        " BT /F1 8 Tf 50 60 Td (1. The letter is lost.) Tj ET"
    )
    second = "BT /F1 12 Tf 50 700 Td (the northern mole. He refused.) Tj ET"
    content = parsed(files.pdf_of([first, second]))
    assert content.text == (
        "Ruth Sand wrote to the master of the harbour and asked him for a berth at the northern mole."
        "\n\n1. The letter is lost.\n\nHe refused."
    )


def test_footnotes_of_a_column_stand_behind_the_page():
    """Not between the halves of a word that the next column ends."""
    stream = (
        "BT /F1 10 Tf 50 200 Td (Ruth Sand wrote to the master of the har-) Tj ET BT /F1 5 Tf 3 Ts 50 60 Td (1) Tj /F1 7 Tf 0 Ts 3 0 Td"
        " (The letter is lost.) Tj ET BT /F1 10 Tf 320 700 Td (bour and asked him for a berth at the mole.) Tj ET"
    )
    assert parsed(files.pdf_of([stream])).text == (
        "Ruth Sand wrote to the master of the harbour and asked him for a berth at the mole.\n\n[1] The letter is lost."
    )


def test_a_number_within_a_sentence_of_small_print_begins_no_footnote():
    """As a page of a reference does, at the beginning of a line."""
    first = (
        "BT /F1 12 Tf 50 700 Td (Ruth Sand wrote to the master of the harbour.) Tj 0 -14 Td (He did not answer before the spring.) Tj ET "
        "BT /F1 8 Tf 50 80 Td (Rask, E. 1972. A history of the mole, pages 222 to) Tj 0 -9 Td (228. Vardby. Sand, R. 1974. The) Tj ET"
    )
    second = "BT /F1 8 Tf 50 700 Td (ferry of Ness. Skerry.) Tj ET"
    assert "pages 222 to\n\n228. Vardby. Sand, R. 1974. The ferry of Ness." in parsed(files.pdf_of([first, second])).text


def test_two_columns_drawn_row_by_row_are_read_one_after_the_other():
    """Running text is told from the rows of a table."""
    left = ["The society met on the tenth", "of June in the long room and", "thanked the members for the", "gifts to the museum."]
    right = ["The treasurer then read the", "accounts of the year, and the", "meeting asked the master to", "paint the boathouse."]
    rows = "".join(
        f"BT /F1 10 Tf 50 {700 - 12 * n} Td ({a}) Tj ET BT /F1 10 Tf 320 {700 - 12 * n} Td ({b}) Tj ET "
        for n, (a, b) in enumerate(zip(left, right, strict=True))
    )
    text = parsed(files.pdf_of([rows])).text
    assert text.index("gifts to the museum.") < text.index("The treasurer then")
    assert "tenth of June in the long room" in text
    table = "".join(
        f"BT /F1 10 Tf 50 {700 - 12 * n} Td ({a}) Tj ET BT /F1 10 Tf 320 {700 - 12 * n} Td ({b}) Tj ET "
        for n, (a, b) in enumerate([("Port of Ness", "412 tons"), ("Wessel", "388 tons"), ("Skerry", "75 tons"), ("Vardby", "9 tons")])
    )
    assert "Wessel · 388 tons" in parsed(files.pdf_of([table])).text


def test_lines_of_a_page_that_lies_on_its_side_stay_apart():
    """Text drawn sideways, either way round: words of two lines do not join, cells are told apart."""
    for matrix in ("0 1 -1 0 {} 100", "0 -1 1 0 {} 700"):
        step = 14 if matrix.startswith("0 1") else -14
        lines = "".join(
            f"BT /F1 12 Tf {matrix.format(300 + step * n)} Tm ({line}) Tj ET "
            for n, line in enumerate(["gathered by the inspector from the", "books of the auction houses."])
        )
        assert "from the books of the auction" in parsed(files.pdf_of([lines])).text


def pdf_with(more_catalog="", more_page="", objects=()):
    """A PDF of one page with a line, with more entries in its catalog and its page, and more objects, numbered from 7."""
    data = files.pdf_of(["BT /F1 12 Tf 50 700 Td (Name:) Tj 0 -40 Td (The rent is 900 crowns.) Tj ET"]).decode("cp1252")
    data = data.replace("/Pages 2 0 R >>", f"/Pages 2 0 R {more_catalog} >>", 1).replace("/MediaBox", f"{more_page} /MediaBox", 1)
    body = data[: data.index("xref")] + "".join(f"{n} 0 obj\n{text}\nendobj\n" for n, text in enumerate(objects, 7))
    return (body + "trailer << /Root 1 0 R >>\n%%EOF\n").encode("cp1252")  # PDFium finds the objects without a table


def test_filled_fields_of_a_form_stand_beside_their_names():
    """Texts, and boxes that are ticked or not."""
    objects = [
        "<< /Type /Annot /Subtype /Widget /FT /Tx /T (name) /V (Torvald Hesse) /Rect [110 695 300 712] >>",
        "<< /Type /Annot /Subtype /Widget /FT /Btn /T (paid) /V /Yes /AS /Yes /Rect [300 655 312 668] >>",
    ]
    text = parsed(pdf_with("/AcroForm << /Fields [7 0 R 8 0 R] >>", "/Annots [7 0 R 8 0 R]", objects)).text
    assert "Name: Torvald Hesse" in text
    assert "The rent is 900 crowns. ☒" in text


def test_comments_of_readers_are_read():
    """Text on the page and notes, with their author and day."""
    objects = [
        "<< /Type /Annot /Subtype /FreeText /Contents (Amended: 1,150 crowns) /Rect [50 500 200 520] >>",
        "<< /Type /Annot /Subtype /Text /Contents (Ask Rowe) /T (Agda Wen) /M (D:20240301) /Rect [50 400 60 410] >>",
    ]
    text = parsed(pdf_with("", "/Annots [7 0 R 8 0 R]", objects)).text
    assert "Comment: Amended: 1,150 crowns" in text
    assert "Comment by Agda Wen, 2024-03-01: Ask Rowe" in text


def test_files_attached_to_a_pdf_are_parts():
    """Read by their own kind."""
    objects = [
        "<< /Type /Filespec /F (annex.txt) /UF (annex.txt) /EF << /F 8 0 R >> >>",
        "<< /Type /EmbeddedFile /Length 22 >>\nstream\nThe deposit is 75 kr.  \nendstream",
    ]
    content = parsed(pdf_with("/Names << /EmbeddedFiles << /Names [(annex.txt) 7 0 R] >> >>", "", objects))
    assert [part.label for part in content.parts] == ["page 1", "attachment annex.txt"]
    assert "The deposit is 75 kr." in content.text


def without_unicode(text):
    """A PDF whose font has names of its own for its characters."""
    differences = " ".join(f"/g{n}" for n in range(97, 123))
    font = f"/Encoding << /Type /Encoding /Differences [97 {differences}] >>"
    data = files.pdf_of([f"BT /F1 12 Tf 50 700 Td ({text}) Tj ET"]).decode("cp1252")
    data = data.replace("/BaseFont /Courier /Encoding /WinAnsiEncoding", f"/BaseFont /ABCDEF+Sub {font}")
    return (data[: data.index("xref")] + "trailer << /Root 1 0 R >>\n%%EOF\n").encode("cp1252")


def test_text_whose_characters_are_unknown_is_not_read():
    """A font without a map to Unicode gives gibberish; the file is listed with that reason."""
    with pytest.raises(Unreadable, match="its fonts do not say which characters they draw"):
        parsed(without_unicode("wkh voxlfh nhhshu olyhv khuh"))


def test_the_words_of_a_plot_are_read():
    """Its fonts are drawn, without a map to Unicode, but their codes are those of the characters."""
    assert parsed(without_unicode("landings of herring in tons by year")).text == "landings of herring in tons by year"


def test_a_character_without_a_meaning_does_not_spoil_the_paragraphs_of_its_page():
    """PDFium leaves it out of the text, but counts it: the places of all lines would be unknown."""
    first = "The keeper of the light saw the softmax\\000 in the"
    text = parsed(
        files.pdf_of(
            [f"BT /F1 10 Tf 72 700 Td 12 TL ({first}) Tj T* (fog, and he rang the bell for an hour, until it) Tj T* (was gone.) Tj ET"]
        )
    ).text

    assert text == "The keeper of the light saw the softmax in the fog, and he rang the bell for an hour, until it was gone."


@pytest.mark.parametrize(("first", "second", "joined"), [("of COVID-", "19 and", "of COVID-19 and"), ("A -", "b to", "A - b to")])
def test_a_line_that_ends_with_a_hyphen_goes_on_without_a_space(first, second, joined):
    """Before a digit it is no sign of a divided word, which PDFium would return otherwise; a dash stands apart."""
    page = [PageLine(first, 50, 700, 294, 710), PageLine(second, 50, 686, 294, 696)]

    assert "".join(join_paragraphs(page)).strip() == joined


def test_words_of_other_pages_tell_whether_a_hyphen_stays():
    """A compound is known by any page of the document."""
    divided = "BT /F1 10 Tf 72 700 Td 12 TL (This is the Quux-) Tj T* (frobnitz of the harbour.) Tj ET"
    other = "BT /F1 10 Tf 72 700 Td (Every Quux-frobnitz is old.) Tj ET"

    assert "Quux-frobnitz of" in parsed(files.pdf_of([divided, other])).text
    assert "Quuxfrobnitz of" in parsed(files.pdf_of([divided, other.replace("-", "")])).text


def test_cells_that_stand_close_are_divided_where_other_rows_have_gaps():
    """A wide cell leaves hardly more than a space before the next one."""
    rows = [("BM25", "7", "47.0"), ("BM25 with gold", "31", "50.1"), ("Gold", "9", "42.6"), ("Gold and both", "12", "43.1")]
    places = (72, 162, 240)
    drawn = "".join(
        f"BT /F1 10 Tf {x} {700 - 14 * n} Td ({text}) Tj ET " for n, row in enumerate(rows) for x, text in zip(places, row, strict=True)
    )

    assert parsed(files.pdf_of([drawn])).text.splitlines()[-4:] == [" · ".join(row) for row in rows]
