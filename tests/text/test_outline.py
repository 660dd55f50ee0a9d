"""The outline of a text: headings of Markdown and reStructuredText, blocks, and what stands together."""

import random
from itertools import pairwise

import pytest

from localrag.text.outline import BlockKind, Outline, attached

MARKDOWN = """# Guide

Intro text.

## Install

Run this:

```sh
# not a heading
pip install x
```

- one
- two

| a | b |
|---|---|
| 1 | 2 |

### Notes

Last words.
"""

RST = """=====
Guide
=====

Intro text.

Install
-------

Run this::

    # not a heading
    pip install x

Notes
~~~~~

Last words.
"""


@pytest.mark.parametrize("text", [MARKDOWN, RST])
@pytest.mark.parametrize(
    ("words", "headings"),
    [("Intro", ("Guide",)), ("Install", ("Guide", "Install")), ("pip", ("Guide", "Install")), ("words", ("Guide", "Install", "Notes"))],
)
def test_a_character_has_the_headings_above_it(text, words, headings):
    """A heading stands below those around it and is its own."""
    assert Outline(text).headings_at(text.index(words)) == headings
    assert Outline(text[text.index("Intro") :]).headings_at(0) == ()


DIVIDED = {
    # Rules that divide a text: those of an e-book reader between highlights, and across a page.
    "highlights": "Salt (Ann Lee)\n- Note\n\nask Ragna about the bell of 1788\n==========\nRope\n- Note\n\nyes\n==========\n",
    "end": "The ferry leaves at noon\nfrom the quay.\n----------------------------------------\nIt froze.\n",
}


@pytest.mark.parametrize("text", DIVIDED.values(), ids=DIVIDED)
def test_a_rule_that_divides_a_text_underlines_no_title(text):
    """It stands below lines of any length."""
    assert Outline(text).headings == []


@pytest.mark.parametrize("text", [MARKDOWN, RST])
def test_headings_have_levels_and_code_has_none(text):
    """The same three headings in both languages; a comment in code is none."""
    outline = Outline(text)

    assert [(h.level, h.title) for h in outline.headings] == [(1, "Guide"), (2, "Install"), (3, "Notes")]
    assert outline.blocks[-1].headings == ("Guide", "Install", "Notes")
    assert text[outline.blocks[-1].start : outline.blocks[-1].end] == "Last words."


def test_blocks_are_of_their_kinds():
    """Paragraphs, code, lists and tables of Markdown."""
    kinds = [b.kind for b in Outline(MARKDOWN).blocks]

    heading, paragraph = BlockKind.HEADING, BlockKind.PARAGRAPH
    assert kinds == [heading, paragraph, heading, paragraph, BlockKind.CODE, BlockKind.LIST, BlockKind.TABLE, heading, paragraph]


@pytest.mark.parametrize("text", [MARKDOWN, RST])
def test_what_follows_a_colon_stands_with_it(text):
    """The code below "Run this:" is in one group with it, and so is the heading above."""
    groups = [text[g[0].start : g[-1].end] for g in attached(Outline(text).blocks, text)]

    assert any("Install" in g and "Run this" in g and "pip install x" in g for g in groups)
    assert not any("Intro" in g and "Run this" in g for g in groups)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Overview", True),
        ("ITEM 4. MINE SAFETY DISCLOSURES", True),
        ("概要", True),
        ("She left in May.", False),
        ("and asked for a berth", False),
        ("über den Hafen", False),
        ("Dear Ruth,", False),
        ("Fee: 3 euros", False),
        ("The whole of what the harbour master said on that day in May", False),
    ],
)
def test_a_line_that_may_be_a_heading_stands_with_what_follows(line, expected):
    """A PDF marks no headings; a sentence, a field or a row is none, and of several such lines only the last one."""
    text = f"Ruth Sand\n\nLars Holm\n\n{line}\n\nThey met in May."
    groups = [text[g[0].start : g[-1].end] for g in attached(Outline(text).blocks, text)]

    assert (f"{line}\n\nThey met in May." in groups) is expected
    assert "Ruth Sand" in groups


def test_blocks_cover_every_text_in_order():
    """Whatever lines a text has, its blocks do not overlap, and every letter is in one."""
    chance = random.Random(3)
    lines = ["# a", "b", "---", "===", "- c", "", "", "```", "    d", "| e | f |", ".. g::", "h:", "1. i", "~~~~", "j\tk", "***"]
    for _ in range(300):
        text = "\n".join(chance.choice(lines) for _ in range(chance.randrange(30)))
        blocks = Outline(text).blocks

        assert all(a.end <= b.start for a, b in pairwise(blocks))
        covered = {n for b in blocks for n in range(b.start, b.end)}
        assert all(n in covered for n, c in enumerate(text) if c.isalnum())
        for start in range(0, len(text), 7):
            found = Outline(text).blocks_between(start, start + 5)
            assert list(found) == [b for b in blocks if b.start < start + 5 and b.end > start]
