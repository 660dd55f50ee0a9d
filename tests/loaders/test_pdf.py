"""The pages of a PDF: numbers, running heads, and sentences and words that go on over a page's end."""

from localrag.loaders.pdf import HYPHEN, PageLine, join_paragraphs, sentence_continues, strip_running_heads
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
