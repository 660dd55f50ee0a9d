"""The pages of a PDF: numbers, running heads, and sentences and words that go on over a page's end."""

import pytest

from localrag.loaders.content import Unreadable
from localrag.loaders.page_lines import HYPHEN, PageLine, join_paragraphs, strip_running_heads
from localrag.text.outline import Outline
from tests.indexing import files
from tests.loaders.parsing import parsed, text_of


def texts(pages):
    return [[line.text for line in page] for page in pages]


def pages_of(*pages):
    return [[PageLine(text) for text in page] for page in pages]


def drawn(lines):
    """A page: lines below each other, the last at the foot."""
    *body, foot = lines
    shown = "".join(f"0 -14 Td ({line}) Tj\n" for line in body)
    return f"BT /F1 12 Tf 50 790 Td\n{shown}ET BT /F1 12 Tf 290 30 Td ({foot}) Tj ET"


def put(x, y, *lines, size=12, step=14):
    """Lines below each other from a place on."""
    return f"BT /F1 {size} Tf {x} {y} Td {step} TL " + " T* ".join(f"({line}) Tj" for line in lines) + " ET "


def test_a_sentence_goes_on_over_the_end_of_a_page():
    """Neither the page's number nor the head of the next page stands in it; each page is still a part with its own words."""
    pages = [
        ["THE HARBOUR PAPERS", "Ruth Sand wrote to the master", "of the harbour at Vardby", "7"],
        ["THE HARBOUR PAPERS", "and asked for a berth.", "The harbour was so full that she con-", "8"],
        ["THE HARBOUR PAPERS", "cerned herself with the ferry.", "Nobody knew.", "9"],
        ["THE HARBOUR PAPERS", "She left in May.", "10"],
    ]
    document = parsed("a.pdf", files.pdf_of(map(drawn, pages)))

    assert document.text == (
        "THE HARBOUR PAPERS\n\nRuth Sand wrote to the master of the harbour at Vardby and asked for a berth.\n\n"
        "The harbour was so full that she concerned herself with the ferry. Nobody knew.\n\nTHE HARBOUR PAPERS She left in May."
    )
    words = [document.text[part.start : part.end].split() for part in document.parts]
    assert [part.label for part in document.parts] == ["page 1", "page 2", "page 3", "page 4"]
    assert [(own[0], own[-1]) for own in words] == [("THE", "Vardby"), ("and", "concerned"), ("herself", "knew."), ("THE", "May.")]


def test_a_number_sign_begins_no_heading():
    """It is a mark of a note in print; only Markdown has headings with it."""
    text = text_of("a.pdf", files.pdf_of([drawn(["# Denotes a change of all", "7"]), drawn(["Sold.", "8"])]))

    assert text.split()[:2] == ["#", "Denotes"]
    assert Outline(text).headings == []


@pytest.mark.parametrize("shown", ["{}", "- {} -", "Page {}", "{} / 31", "Page {} of 31", "第 {} 页"])
def test_a_page_number_is_no_text_however_it_is_written(shown):
    """Alone, between dashes, with a word, with the number of pages; at the head or the foot; counted from any page."""
    numbers = [shown.format(n) for n in (12, 13, 14)]

    assert texts(strip_running_heads(pages_of(*([n, "Text."] for n in numbers)))) == [["Text."]] * 3
    assert texts(strip_running_heads(pages_of(*(["Text.", n] for n in numbers)))) == [["Text."]] * 3


@pytest.mark.parametrize(
    "kept",
    [
        [["Ruth Sand Ltd", f"Paid in {month}."] for month in ("May", "June", "July", "August")],
        [[f"Lesson {n}", "We read."] for n in (1, 2, 3, 4)],
        [["Rent", f"Total: {n}.00"] for n in (1, 2, 3, 4)],
        [["Paid", amount] for amount in ("40", "12", "7", "310")],
        [["She wrote to", "7"], ["the master.", "8"]],
    ],
)
def test_what_only_looks_like_a_running_line_stays(kept):
    """Letterheads between whole sentences, numbered titles, totals, other numbers, lines of two pages only."""
    assert texts(strip_running_heads(pages_of(*kept))) == kept


def test_heads_of_tables_and_pages_without_text_are_in_nobodys_way():
    """Pages that begin with the head of a table keep it; there may be no page, empty ones, and a page of its number only."""
    table = [[PageLine("Name · Port", is_row=True), PageLine(f"{name} · Vardby", is_row=True)] for name in ("Ruth", "Ola", "Per")]

    assert strip_running_heads(table) == table
    assert strip_running_heads([]) == []
    assert texts(strip_running_heads(pages_of([], ["1"], ["Text.", "2"], ["More.", "3"]))) == [[], [], ["Text."], ["More."]]


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        # What a line end divided is one word again, and a hyphen of its own is kept.
        ([f"the well{HYPHEN}", f"known con{HYPHEN}", f"cern of North{HYPHEN}", "Vardby is a well-known one"],
         "the well-known concern of North-Vardby is a well-known one"),
        # Before a digit a hyphen is no sign of a divided word, which PDFium would return otherwise; a dash stands apart.
        (["of COVID-", "19 and"], "of COVID-19 and"),
        (["A -", "b to"], "A - b to"),
        # Words of Korean are divided where a line ends with a space; elsewhere it may end within one, and in Chinese a space is none.
        (["세계적 유행단계에 돌입한+", "와중에 국내 보험업계에서는"], "세계적 유행단계에 돌입한 와중에 국내 보험업계에서는"),
        (["세계적 유행단계에 돌입한", "와중에 국내 보험업계에서는"], "세계적 유행단계에 돌입한와중에 국내 보험업계에서는"),
        (["船在港口过冬了又+", "过了一个春天才走"], "船在港口过冬了又过了一个春天才走"),
        (["船在港口过冬了又", "过了一个春天才走"], "船在港口过冬了又过了一个春天才走"),
    ],
)  # fmt: skip
def test_lines_are_joined_to_paragraphs(lines, text):
    """A plus stands for the space at the end of a line."""
    page = [PageLine(t.rstrip("+"), 50, 700 - 14 * n, 294, 710 - 14 * n, has_space=t.endswith("+")) for n, t in enumerate(lines)]

    assert "".join(join_paragraphs(page)).strip() == text


LEFT = ["The society met on the tenth", "of June in the long room and", "thanked the members for the", "gifts to the museum."]
RIGHT = ["The treasurer then read the", "accounts of the year, and the", "meeting asked the master to", "paint the boathouse."]
TONS = [("Port of Ness", "412 tons"), ("Wessel", "388 tons"), ("Skerry", "75 tons"), ("Vardby", "9 tons")]


def rows(cells, places, size=10, step=12):
    """Rows of cells, drawn row by row."""
    return "".join(put(x, 700 - step * n, text, size=size) for n, row in enumerate(cells) for x, text in zip(places, row, strict=True))


def sideways(matrix, step):
    lines = ["gathered by the inspector from the", "books of the auction houses."]
    return "".join(f"BT /F1 12 Tf {matrix.format(300 + step * n)} Tm ({line}) Tj ET " for n, line in enumerate(lines))


RAISED = "BT /F1 {} Tf {} Ts 50 700 Td ({}) Tj /F1 {} Tf 0 Ts {} 0 Td ({}) Tj 0 -9 Td (is not older than this.) Tj ET"
DRAWN = {
    # Text drawn flat, whose letters have no height, takes no other with it.
    "flat": (["BT /F1 12 Tf 1 0 0 0 50 700 Tm (flat) Tj ET BT /F1 12 Tf 120 692 Td (upright) Tj ET"], "flat\n\nupright"),
    # A raised digit, smaller and higher than the word before it, is the mark of a note; behind a unit it is an exponent; others stay.
    "raised": (
        ["BT /F1 12 Tf 50 700 Td (Lit in 1871) Tj /F1 7 Tf 5 Ts (3) Tj /F1 12 Tf 0 Ts ( on 4 km) Tj /F1 7 Tf 5 Ts (2) Tj"
         " /F1 12 Tf 0 Ts ( by 12 men.) Tj ET"],
        "Lit in 1871[3] on 4 km^2 by 12 men."),
    # Many programs set text in size 1 and enlarge it; a digit that stands apart from the word is none of its marks.
    "enlarged": (
        ["BT /F1 1 Tf 12 0 0 12 50 700 Tm (Lit in 1871) Tj 7 0 0 7 129.2 705 Tm (3\\)) Tj 12 0 0 12 137.6 700 Tm (, by Rask) Tj ET"
         " BT /F1 12 Tf 50 600 Td (12) Tj /F1 7 Tf 5 Ts 80 0 Td (4) Tj ET"],
        "Lit in 1871[3], by Rask\n\n12 · 4"),
    # A note begins with its mark.
    "note": ([RAISED.format(5, 4, "3", 8, 3, "The letter")], "[3] The letter is not older than this."),
    # Footnotes, at the end of a page in smaller print, stand behind the sentence that they interrupt.
    "footnotes": (
        [put(50, 700, "Ruth Sand wrote to the master of the harbour", "and asked him for a berth at")
         + put(50, 60, "1. The letter is lost.", size=8),
         put(50, 700, "the northern mole. He refused.")],
        "Ruth Sand wrote to the master of the harbour and asked him for a berth at the northern mole."
        "\n\n1. The letter is lost.\n\nHe refused."),
    # Those of a column stand behind the page, not between the halves of a word that the next column ends.
    "footnotes of a column": (
        [put(50, 200, "Ruth Sand wrote to the master of the har-", size=10)
         + "BT /F1 5 Tf 3 Ts 50 60 Td (1) Tj /F1 7 Tf 0 Ts 3 0 Td (The letter is lost.) Tj ET "
         + put(320, 700, "bour and asked him for a berth at the mole.", size=10)],
        "Ruth Sand wrote to the master of the harbour and asked him for a berth at the mole.\n\n[1] The letter is lost."),
    # A number at the beginning of a line of small print, as of a page in a reference, begins no footnote.
    "number in small print": (
        [put(50, 700, "Ruth Sand wrote to the master of the harbour.", "He did not answer before the spring.")
         + put(50, 80, "Rask, E. 1972. A history of the mole, pages 222 to", "228. Vardby. Sand, R. 1974. The", size=8, step=9),
         put(50, 700, "ferry of Ness. Skerry.", size=8)],
        "Ruth Sand wrote to the master of the harbour. He did not answer before the spring.\n\n"
        "Rask, E. 1972. A history of the mole, pages 222 to\n\n228. Vardby. Sand, R. 1974. The ferry of Ness. Skerry."),
    # Two columns that are drawn row by row are read one after the other; the rows of a table are told from them.
    "columns": ([rows(zip(LEFT, RIGHT, strict=True), (50, 320))], f"{' '.join(LEFT)}\n\n{' '.join(RIGHT)}"),
    "table": ([rows(TONS, (50, 320))], "\n".join(map(" · ".join, TONS))),
    # Wide gaps divide cells; a row is a line of its own between the paragraphs.
    "gaps": (
        [put(50, 700, "The ships that the town had in the year of 1974:", "Name      Port      Tons", "Skua      Vardby    71",
             "All of them leaked.")],
        "The ships that the town had in the year of 1974:\n\nName · Port · Tons\nSkua · Vardby · 71\n\nAll of them leaked."),
    # Lines of a page that lies on its side, either way round, stay apart.
    "on its left": ([sideways("0 1 -1 0 {} 100", 14)], "gathered by the inspector from the books of the auction houses."),
    "on its right": ([sideways("0 -1 1 0 {} 700", -14)], "gathered by the inspector from the books of the auction houses."),
    # LaTeX's old fonts draw accents over letters, before them or after; PDFium may have them words later, beside blanks.
    "accent before": (
        ["BT /F1 12 Tf 50 700 Td [(Br) (\\250) 600 (u) (cke) ( ) (\\250) 600 (Uber K) (\\250) 600 (oln)] TJ ET"],
        "Brücke Über Köln"),
    "accent after": (["BT /F1 12 Tf 50 700 Td [(Fran) (c) 600 (\\270) (ois, caf) (e) 600 (\\264)] TJ ET"], "François, café"),
    "accent at the end": (
        [put(50, 700, "Baudis and Sedivy") + put(86, 700, "\\264") + put(86, 600, "a^b \\264 s")],
        "Baudiś and Sedivy a^b ´ s"),
    # A hidden layer of OCR is read only where no visible text is.
    "hidden layer": ([put(50, 700, "The Grey Heron sails.") + "3 Tr " + put(50, 699, "The Grey Her0n sai1s.") + put(50, 600, "A stamp.")],
                     "The Grey Heron sails. A stamp."),
    "hidden layer alone": (["3 Tr " + put(50, 600, "The Grey Heron sails.")], "The Grey Heron sails."),
    # PDFium leaves out a character without a meaning, but counts it: the places of all lines would be unknown.
    "no meaning": (
        [put(72, 700, "The keeper of the light saw the softmax\\000 in the", "fog, and he rang the bell for an hour, until it", "was gone.",
             size=10, step=12)],
        "The keeper of the light saw the softmax in the fog, and he rang the bell for an hour, until it was gone."),
    # Whether a hyphen stays is known by the words of any page.
    **{f"hyphen{name}": (
        [put(72, 700, "This is the Quux-", "frobnitz of the harbour.", size=10, step=12), put(72, 700, f"Every {word} is old.", size=10)],
        f"This is the {word} of the harbour.\n\nEvery {word} is old.")
       for name, word in (("", "Quux-frobnitz"), (" gone", "Quuxfrobnitz"))},
}  # fmt: skip


@pytest.mark.parametrize(("streams", "text"), DRAWN.values(), ids=DRAWN)
def test_a_page_is_read_as_it_is_seen(streams, text):
    """Whatever the order and the letters in which it is drawn."""
    assert text_of("a.pdf", files.pdf_of(streams)) == text


PLEADING = [
    "The plaintiff bought the fishing boat",
    "Grey Heron in March and paid",
    "2,400 crowns to the defendant in",
    "the office of the notary. The",
    "defendant promised to deliver the",
    "boat with two new sails.",
]
NUMBERS = [str(n) for n in range(1, 7)]


@pytest.mark.parametrize(
    "streams",
    [
        [put(90, 700, *PLEADING) + put(60, 700, *NUMBERS)],
        [rows(zip(NUMBERS, PLEADING, strict=True), (50, 90), step=14)],
        [put(90, 700, *PLEADING) + put(60, 700, *["101", "102", "103", "104", "105", "106"], size=6)],
        [rows(zip(NUMBERS, PLEADING, strict=True), (50, 90), step=14), rows(zip(NUMBERS, PLEADING[:3], strict=False), (50, 90), step=14)],
    ],
)
def test_numbers_of_lines_are_no_text(streams):
    """Beside their lines or drawn apart."""
    expected = " ".join(PLEADING + PLEADING[:3] * (len(streams) - 1))
    assert " ".join(text_of("a.pdf", files.pdf_of(streams)).split()) == expected


def pdf_with(more_catalog="", more_page="", objects=()):
    """A PDF of one page with a line, with more entries in its catalog and its page, and more objects, numbered from 7."""
    data = files.pdf_of(["BT /F1 12 Tf 50 700 Td (Name:) Tj 0 -40 Td (The rent is 900 crowns.) Tj ET"]).decode("cp1252")
    data = data.replace("/Pages 2 0 R >>", f"/Pages 2 0 R {more_catalog} >>", 1).replace("/MediaBox", f"{more_page} /MediaBox", 1)
    body = data[: data.index("xref")] + "".join(f"{n} 0 obj\n{text}\nendobj\n" for n, text in enumerate(objects, 7))
    return (body + "trailer << /Root 1 0 R >>\n%%EOF\n").encode("cp1252")  # PDFium finds the objects without a table


WIDGET, ANNOTATION = "<< /Type /Annot /Subtype /Widget", "<< /Type /Annot /Subtype"
LYING = {
    "form": (
        "/AcroForm << /Fields [7 0 R 8 0 R] >>", "/Annots [7 0 R 8 0 R]",
        [f"{WIDGET} /FT /Tx /T (name) /V (Torvald Hesse) /Rect [110 695 300 712] >>",
         f"{WIDGET} /FT /Btn /T (paid) /V /Yes /AS /Yes /Rect [300 655 312 668] >>"],
        ["Name: Torvald Hesse", "The rent is 900 crowns. ☒"], ["page 1"]),
    "comments": (
        "", "/Annots [7 0 R 8 0 R]",
        [f"{ANNOTATION} /FreeText /Contents (Amended: 1,150 crowns) /Rect [50 500 200 520] >>",
         f"{ANNOTATION} /Text /Contents (Ask Rowe) /T (Agda Wen) /M (D:20240301) /Rect [50 400 60 410] >>"],
        ["Comment: Amended: 1,150 crowns", "Comment by Agda Wen, 2024-03-01: Ask Rowe"], ["page 1"]),
    "attachment": (
        "/Names << /EmbeddedFiles << /Names [(annex.txt) 7 0 R] >> >>", "",
        ["<< /Type /Filespec /F (annex.txt) /UF (annex.txt) /EF << /F 8 0 R >> >>",
         "<< /Type /EmbeddedFile /Length 22 >>\nstream\nThe deposit is 75 kr.  \nendstream"],
        ["The deposit is 75 kr."], ["page 1", "attachment annex.txt"]),
}  # fmt: skip


@pytest.mark.parametrize(("catalog", "page", "objects", "shown", "parts"), LYING.values(), ids=LYING)
def test_what_lies_on_a_page_is_read(catalog, page, objects, shown, parts):
    """Filled fields beside their names, ticked boxes, comments with their author and day; attached files are parts, read by their kind."""
    content = parsed("a.pdf", pdf_with(catalog, page, objects))

    assert all(words in content.text for words in shown)
    assert [part.label for part in content.parts] == parts


LINK, QUAD = f"{ANNOTATION} /Link", "/QuadPoints [136 672 158 672 136 655 158 655] /Rect [136 655 158 672]"  # below 900
RENT = "The rent is {} crowns."
MARKED = {
    "link": ([f"{LINK} /Rect [80 655 106 672] /A << /S /URI /URI (https://ness.example/rent) >> >>"],
             "Name:\n\nThe rent (https://ness.example/rent) is 900 crowns."),
    "half a word": ([f"{LINK} /Rect [80 655 98 672] /A << /S /URI /URI (HTTPS://ness.example/) >> >>"],
                    "Name:\n\nThe rent (HTTPS://ness.example/) is 900 crowns."),
    "mail": ([f"{LINK} /Rect [80 655 106 672] /A << /S /URI /URI (mailto:ane@ness.example?subject=Rent) >> >>"],
             "Name:\n\nThe rent (ane@ness.example) is 900 crowns."),
    "two lines": (
        [f"{LINK} /Rect [50 {y} {x} {y + 17}] /A << /S /URI /URI (https://ness.example/) >> >>" for x, y in ((94, 695), (72, 655))],
        "Name:\n\nThe (https://ness.example/) rent is 900 crowns."),
    "within": ([f"{LINK} /Rect [80 655 106 672] /A << /S /GoTo /D [5 0 R /Fit] >> >>",
                f"{LINK} /Rect [80 655 106 672] /Dest [5 0 R /Fit] >>",
                f"{LINK} /Rect [80 655 106 672] /A << /S /URI /URI (javascript:alert\\(1\\)) >> >>"],
               f"Name:\n\n{RENT.format(900)}"),
    "struck": ([f"{ANNOTATION} /StrikeOut {QUAD} >>"], f"Name:\n\n{RENT.format('~~900~~')}"),
    "struck lines": ([f"{ANNOTATION} /StrikeOut /QuadPoints [50 712 86 712 50 695 86 695 50 672 220 672 50 655 220 655] >>"],
                     "~~Name:\n\nThe rent is 900 crowns.~~"),
    "highlighted": ([f"{ANNOTATION} /Highlight {QUAD} /Contents (Too high) /T (Ane Holt) >>"],
                    f"Name:\n\n{RENT.format('==900==')}\n\nComment by Ane Holt on “900”: Too high"),
}  # fmt: skip


@pytest.mark.parametrize(("objects", "text"), MARKED.values(), ids=MARKED)
def test_links_and_the_marks_of_readers_are_read(objects, text):
    """Addresses outside the document behind their words, struck and highlighted words between signs, notes with what they are about."""
    annotations = " ".join(f"{n} 0 R" for n in range(7, 7 + len(objects)))

    assert text_of("a.pdf", pdf_with("", f"/Annots [{annotations}]", objects)) == text


def test_pages_are_called_by_their_printed_numbers():
    """Their places among the pages are known beside them."""
    data = files.pdf_of([put(50, 700, f"Page {word}.") for word in ("one", "two", "three")])
    labels = b"/Pages 2 0 R /PageLabels << /Nums [0 << /S /r >> 1 << /S /D /St 2 >> 2 << /P (A-) /S /D >>] >> >>"
    parts = parsed("a.pdf", data.replace(b"/Pages 2 0 R >>", labels, 1)).parts

    assert [(part.label, part.number) for part in parts] == [("page i", 1), ("page 2", 0), ("page A-1", 3)]


def test_a_form_that_only_adobe_reader_shows_is_told(capfd):
    """Its page says no more than that."""
    data = pdf_with(
        "/NeedsRendering true /AcroForm << /Fields [] /XFA [(datasets) 7 0 R] >>", "", ["<< /Length 2 >>\nstream\n  \nendstream"]
    )
    with pytest.raises(Unreadable, match="only Adobe Reader shows"):
        parsed("a.pdf", data)
    assert not capfd.readouterr().err


def vertical(lines):
    """A page of columns, whose characters are drawn one by one below each other."""
    letters = sorted(set("".join(lines)))
    codes = {c: f"{n:02x}" for n, c in enumerate(letters, 48)}
    shown = [f"1 0 0 1 {500 - 20 * n} {700 - 12 * m} Tm <{codes[c]}> Tj" for n, line in enumerate(lines) for m, c in enumerate(line)]
    data = files.pdf_of([f"BT /F1 12 Tf {' '.join(shown)} ET"]).decode().replace("/WinAnsiEncoding", "/WinAnsiEncoding /ToUnicode 7 0 R", 1)
    codes_to_unicode = "\n".join(f"<{codes[c]}> <{ord(c):04x}>" for c in letters)
    cmap = f"begincmap 1 begincodespacerange <00> <ff> endcodespacerange {len(letters)} beginbfchar {codes_to_unicode} endbfchar endcmap"
    stream = f"7 0 obj\n<< /Length {len(cmap)} >>\nstream\n{cmap}\nendstream\nendobj\n"
    return (data[: data.index("xref")] + stream + "trailer << /Root 1 0 R >>\n%%EOF\n").encode()


def test_columns_of_japanese_are_joined_to_sentences():
    """A column that ends early ends a paragraph."""
    text = text_of("a.pdf", vertical(["港の時計塔は大工が建てた。鐘は毎朝六", "時に鳴らされる。", "茶屋は月曜日に休む。"]))

    assert text == "港の時計塔は大工が建てた。鐘は毎朝六時に鳴らされる。\n\n茶屋は月曜日に休む。"


def without_unicode(text):
    """A PDF whose font has names of its own for its characters."""
    differences = " ".join(f"/g{n}" for n in range(97, 123))
    font = f"/Encoding << /Type /Encoding /Differences [97 {differences}] >>"
    data = files.pdf_of([f"BT /F1 12 Tf 50 700 Td ({text}) Tj ET"]).decode("cp1252")
    data = data.replace("/BaseFont /Courier /Encoding /WinAnsiEncoding", f"/BaseFont /ABCDEF+Sub {font}")
    return (data[: data.index("xref")] + "trailer << /Root 1 0 R >>\n%%EOF\n").encode("cp1252")


def test_text_whose_characters_are_unknown_is_not_read():
    """A font without a map to Unicode gives gibberish; where the codes are those of the characters, as in a plot, it is text."""
    with pytest.raises(Unreadable, match="its fonts do not say which characters they draw"):
        parsed("a.pdf", without_unicode("wkh voxlfh nhhshu olyhv khuh"))
    assert text_of("a.pdf", without_unicode("landings of herring in tons by year")) == "landings of herring in tons by year"
