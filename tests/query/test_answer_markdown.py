"""The units of a Markdown answer: what is to be checked, what only joins, and the same however the text comes in."""

import random

import pytest

from localrag.query.answer_markdown import AnswerUnit, UnitKind, UnitParser, parse_units

ANSWER = """Employees get **20 days** of vacation [1]. They also get holidays. [2][3] See `a.b` for more.

## Benefits [4]

- **Vacation**: 20 days [1]
- Health insurance for you
  and your family. 【2, 3】
1. First do this.
2. Then write:

```ini
[Unit]
Description=x. y

ExecStart=/usr/bin [1]
```

| Role | Pay |
|------|:---:|
| Lead | 100 [1] |
| A \\| B | [2] |

Done, as "Dr. Smith" said (Source 3 is older).

**Sources:**
[1] foo.md
[2] bar.md
"""


def taken(text, sizes, **how):
    """The units of a text that comes in pieces of these sizes, again and again."""
    parser, units, at = UnitParser(), [], 0
    while at < len(text):
        size = next(sizes)
        units += parser.feed(text[at : at + size])
        at += size
    return [*units, *parser.finish(**how)]


def endless(*sizes):
    while True:
        yield from sizes


def test_an_answer_is_split_into_claims_and_layout():
    """Sentences, items, rows and code are claims; headings, heads of tables and a line with a colon are layout; a list of sources goes."""
    units = list(parse_units(ANSWER))

    assert [(u.kind, u.claim, u.cited) for u in units if u.claim] == [
        (UnitKind.SENTENCE, "Employees get 20 days of vacation.", (1,)),
        (UnitKind.SENTENCE, "They also get holidays.", (2, 3)),
        (UnitKind.SENTENCE, "See a.b for more.", ()),
        (UnitKind.SENTENCE, "Vacation: 20 days", (1,)),
        (UnitKind.SENTENCE, "Health insurance for you and your family.", (2, 3)),
        (UnitKind.SENTENCE, "First do this.", ()),
        (UnitKind.CODE, "[Unit]\nDescription=x. y\n\nExecStart=/usr/bin [1]\n", ()),
        (UnitKind.ROW, "Lead, 100", (1,)),
        (UnitKind.ROW, "A | B", (2,)),
        (UnitKind.SENTENCE, 'Done, as "Dr. Smith" said (Source 3 is older).', ()),
    ]
    assert [u.text for u in units if not u.claim] == ["## Benefits", "Then write:", "| Role | Pay |", "|------|:---:|"]
    assert [u.lead for u in units if u.kind is UnitKind.ROW] == [("Role", "Pay")] * 2
    assert "".join(u.before + u.text for u in units) == (
        ANSWER.partition("\n\n**Sources")[0]
        .replace(" [1]", "").replace("/usr/bin", "/usr/bin [1]").replace(" [2][3]", "").replace(" 【2, 3】", "")
        .replace(" [4]", "").replace("| [2] |", "| |")
    )  # fmt: skip


def test_pieces_of_any_length_make_the_same_units():
    """Two hundred random ways to cut the text, and the same in Chinese."""
    draw = random.Random(7)
    chinese = "渡轮漏水。[1] 船主卖掉了它。【2】\n\n- 修理费：500 元 [1]\n- 保险\n"
    for text in [ANSWER, chinese] * 100:
        assert taken(text, iter(lambda: draw.randint(1, 12), None)) == list(parse_units(text))


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("One is done. The next is not yet do", ["One is done."]),
        ("One is done.", ["One is done."]),
        ("- One item.\n- Health insurance for you and yourdepend", ["One item."]),
        ("| A | B |\n|---|---|\n| 1 | 2 |\n| 3 |", ["1, 2"]),
        ("See:\n\n```\nx = 1\ny = ", ["x = 1\n"]),
        ("渡轮漏水。船主卖", ["渡轮漏水。"]),
    ],
)
def test_of_a_text_that_was_cut_off_only_whole_units_are_kept(text, kept):
    """No half sentence, row or line of code; an open code block is closed."""
    units = taken(text, endless(4), is_cut=True)

    assert [u.claim for u in units if u.claim] == kept
    assert "".join(u.text for u in units).count("```") % 2 == 0


def test_an_answer_that_stands_in_a_code_block_as_a_whole_is_taken_out_of_it():
    """A model may wrap its Markdown; code inside it stays code."""
    units = list(parse_units("```markdown\nIt leaks.\n\n```sh\nbail\n```\n\nDone.\n```\n"))

    assert [(u.kind, u.claim) for u in units] == [
        (UnitKind.SENTENCE, "It leaks."),
        (UnitKind.CODE, "bail\n"),
        (UnitKind.SENTENCE, "Done."),
    ]


def test_links_are_no_citations():
    """A number in brackets before an address is a link's text."""
    assert list(parse_units("See [1](http://a.example/) now.")) == [
        AnswerUnit(UnitKind.SENTENCE, "See [1](http://a.example/) now.", claim="See 1 now.")
    ]
