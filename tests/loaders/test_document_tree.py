"""What parsers make of a file is written by one function, whose offsets hold until a document is stored and outlined."""

import pytest

from localrag.loaders.containers import split_text
from localrag.loaders.content import InnerDocument, ParsedFile, normalize_typography
from localrag.loaders.document_tree import RenderedText, TextRun, heading_block, inline_text, item, join_sections, paragraph, render
from localrag.loaders.tabular import tables
from localrag.text.outline import BlockKind, Outline

URL = "https://forms.tarn.example/plots"


@pytest.mark.parametrize(
    ("runs", "text"),
    [
        ([TextRun("Fill in the "), TextRun("plot form", link=URL), TextRun(".")], f"Fill in the plot form ({URL})."),
        ([TextRun("see "), TextRun("forms.tarn.example/plots", link=URL)], "see forms.tarn.example/plots"),
        ([TextRun("write to Edda", link="mailto:edda@tarn.example?subject=Plots")], "write to Edda (edda@tarn.example)"),
        ([TextRun("above", link="#top"), TextRun(" and "), TextRun("home", link="../index.html")], "above and home"),
        ([TextRun("the lease", link="files/lease.pdf")], "the lease (files/lease.pdf)"),
        ([TextRun("offer", link=f"{URL}?id={'7' * 300}")], f"offer ({URL})"),
        ([TextRun("It pays "), TextRun("14 crowns ", is_deleted=True), TextRun("19 crowns.")], "It pays ~~14 crowns~~ 19 crowns."),
        ([TextRun("10"), TextRun("5", shift=1), TextRun(" of CO"), TextRun("2", shift=-1)], "10^5 of CO2"),
        ([TextRun(" The landlord ", is_highlighted=True), TextRun("repairs")], " ==The landlord== repairs"),
    ],
)
def test_runs_become_one_text_with_marks(runs, text):
    """Blanks beside a mark stay outside of it; an address that the words say is not repeated."""
    assert inline_text(runs) == text


def test_every_block_is_where_its_offsets_say():
    """What has no text is no block."""
    rows = [["Name", "Berth"], ["Heron", "41"], ["Gull", "7"]]
    blocks = [
        heading_block(2, "Rules\nof the house"),
        paragraph("One."),
        item(0, "-", "a  "),
        item(1, "1.", "b"),
        *tables(rows, likely=True),
    ]
    rendered = render([*blocks, paragraph("\x00 ")])
    assert [rendered.text[b.start : b.end] for b in rendered.blocks] == [
        "## Rules of the house",
        "One.",
        "- a",
        "  1. b",
        "Name: Heron · Berth: 41\nName: Gull · Berth: 7",
    ]
    assert "- a\n  1. b\n\nName" in rendered.text
    assert rendered.blocks[-1].columns == ("Name", "Berth")


def test_joined_sections_keep_their_blocks():
    """Also where a section begins with blanks."""
    first, second = render([item(1, "-", "deep"), paragraph("End.")]), render([heading_block(1, "Next")])
    joined = join_sections([("page 1", first), ("page 2", "plain"), ("page 3", second)])
    assert [joined.text[b.start : b.end] for b in joined.blocks] == ["- deep", "End.", "# Next"]
    assert [joined.text[p.start : p.end] for p in joined.parts] == ["- deep\n\nEnd.", "plain", "# Next"]


def test_blocks_move_with_the_letters_before_them():
    """Letters and their accents become one letter."""
    rendered = render([paragraph("e\u0301\u00ad " * 3), heading_block(1, "After")])
    content = normalize_typography(ParsedFile(rendered.text, blocks=rendered.blocks))
    assert content.text[content.blocks[1].start :] == "# After"


def test_blocks_go_with_the_document_they_are_in():
    """A file within a file takes its own."""
    rendered = render([paragraph("Mail."), heading_block(1, "plan.html"), heading_block(2, "Plan")])
    start = rendered.text.index("# plan")
    main, inner = split_text(rendered.text, (), rendered.blocks, [InnerDocument("plan.html", start, start + 13, len(rendered.text))])
    assert [main.text[b.start : b.end] for b in main.blocks] == ["Mail."]
    assert [inner.text[b.start : b.end] for b in inner.blocks] == ["## Plan"]


def test_an_outline_takes_the_blocks_that_the_format_marks():
    """A line that looks like a heading is none if the format says so."""
    rendered = RenderedText("# not a heading\n\n# Real", render([paragraph("# not a heading"), heading_block(1, "Real")]).blocks)
    outline = Outline(rendered.text, rendered.blocks)
    assert [h.title for h in outline.headings] == ["Real"]
    assert [b.kind for b in outline.blocks] == [BlockKind.PARAGRAPH, BlockKind.HEADING]


def test_what_no_block_covers_is_outlined_by_its_text():
    """As in the plain text of a mail with a page attached."""
    known = render([paragraph("# told otherwise")])
    text = known.text + "\n\n# Guessed\n\n- one\n- two"
    assert [h.title for h in Outline(text, known.blocks).headings] == ["Guessed"]


def test_the_items_of_a_list_are_one_block_of_an_outline():
    """As they are where a list is found in the text."""
    rendered = render([item(0, "-", "one"), item(0, "-", "two"), paragraph("End.")])
    assert [b.kind for b in Outline(rendered.text, rendered.blocks).blocks] == [BlockKind.LIST, BlockKind.PARAGRAPH]
