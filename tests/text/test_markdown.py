"""Markdown of models and documents: what is made inert, what stays, and in parts as in the whole."""

import random

import pytest
from markdown_it import MarkdownIt

from localrag.text.markdown import NeutralStream, neutralize, without_deleted

HOSTILE = [
    "![x](http://evil.example/p.png)",
    "Look: ![x][pic] and ![pic].\n\n[pic]: http://evil.example/p.png",
    "[click](javascript:alert(1)) or [click][there]\n\n[there]: javascript:alert(1) 'title'",
    "- [1]: http://evil.example/\n- a claim [1]",
    "> [a\nb]: <http://evil.example/>\n\n[a b]",
    '<img src="http://evil.example/p.png">',
    "text <script>alert(1)</script> <!-- <b> --> </div> <?php ?> <!DOCTYPE html>",
    "<http://evil.example/> and <mailto:a@evil.example>",
    "[![x](http://evil.example/p.png)](http://evil.example/)",
    "![x](data:image/png;base64,AAAA) [y](data:text/html,<b>)",
    "```<?)|\n|---|\n```\n[a](http://evil.example)```---<http://evil.example>\n\n```---",
    "\\![x](http://evil.example/p.png) \\\\<b> \\[x](http://evil.example)",
    "# ![x](http://evil.example/p.png)\n\n1. a\n   - ![x](http://evil.example/p.png)",
]
# Code to one program and none to another, or only until something follows.
DOUBTFUL = [
    "| a ` | ![x](http://evil.example/p.png) | ` b |\n|---|---|---|\n| ` | [y](http://evil.example) ` | |",
    "x `\n![x](http://evil.example/p.png)`\n\n`` ` ![x](http://evil.example/p.png) ` `",
    "[text]: /url\n    ![x](http://evil.example/p.png)",
]
KEPT = [
    "a < b and c <= d, x <3, [1] [related][2], list[0], \\[1\\] and “[x]”",
    "```html\n<b>![x](http://evil.example)</b> [1]: x\n```\nand after",
    "Use `Vec<T>` and ``a[0](`x`)`` or `![x](y)`.",
    "- item\n\n  ~~~\n  <b>\n  ~~~\n\n      <indented>\n",
    "| `a<b>` | b \\| c |\n|---|---|\n| 1 | `x[0](y)` [1] |\n",
    "# Heading\n\n1. one\n   - two **bold** *thin*\n\n> said: https://example.org/a_b\n",
    "你好，`<b>`，مرحبا بالعالم [1]\r\n第二行",
]
PARSERS = {
    "GitHub": MarkdownIt("commonmark", {"html": True}).enable("table"),
    "without tables": MarkdownIt("commonmark", {"html": True}),
}
for parser in PARSERS.values():
    parser.validateLink = lambda _: True


def active_parts(text):
    """What a program would load, link or run."""
    blocks = [token for parser in PARSERS.values() for token in parser.parse(text)]
    inside = [child for block in blocks for child in block.children or ()]
    return [t for t in (*blocks, *inside) if t.type in ("image", "link_open", "html_block", "html_inline")]


def in_parts(text, lengths):
    """The text neutralized in parts of these lengths."""
    stream, shown = NeutralStream(), []
    while text:
        length = next(lengths)
        shown.append(stream.write(text[:length]).text)
        text = text[length:]
    return "".join(shown) + stream.finish()


@pytest.mark.parametrize("text", HOSTILE + DOUBTFUL)
def test_nothing_is_loaded_linked_or_run(text):
    """Pictures, links, their definitions, autolinks and HTML become text in every parser, and a second time nothing changes."""
    assert active_parts(text) or text in DOUBTFUL
    neutral = neutralize(text).text

    assert active_parts(neutral) == []
    assert neutralize(neutral).text == neutral


@pytest.mark.parametrize("text", KEPT)
def test_code_comparisons_and_marks_stay_as_they_are(text):
    """Also in lists, tables and other scripts."""
    assert neutralize(text).text == text
    assert in_parts(text, iter(lambda: 7, 0)).count("[1]") == text.count("[1]")


def test_a_reader_sees_the_same_text():
    """Escapes are not seen: what a program shows of an active text is its source."""
    rendered = PARSERS["GitHub"].render(neutralize('See ![x](http://e.example/p.png) <b>and</b> [y]("z").').text)

    assert rendered == "<p>See ![x](http://e.example/p.png) &lt;b&gt;and&lt;/b&gt; [y](&quot;z&quot;).</p>\n"


@pytest.mark.parametrize(
    ("text", "closing"), [("```py\nx = 1", "\n```"), ("~~~~\nx\n~~~\n", "~~~~"), ("```\nx\n```", ""), ("- ```\n  x", "")]
)
def test_a_fence_that_was_cut_is_closed(text, closing):
    """So that sources or other answers can stand below; one within a list ends with it."""
    assert neutralize(text).text == text + closing
    assert in_parts(text, iter(lambda: 5, 0)) == text + closing


def test_offsets_lead_to_the_same_places():
    """Marks and sentences are found in the neutralized text."""
    text = "Wow <b>! [1] See ![x](y) here. [related][2] `<b>` (c)[3](d)"
    neutral = neutralize(text)

    for mark in ("[1]", "[related]", "[2]", "here", "`<b>`", "[3]"):
        assert neutral.text[neutral.offset(text.index(mark)) :].startswith(mark)
    assert neutral.offset(len(text)) == len(neutral.text)


@pytest.mark.ci
def test_no_mixture_of_signs_is_active():
    """Random texts of signs, whole and in random parts."""
    pieces = [*"![]()<>`|\\:-#*\n a", *"\n\n@    @```@\n```\n@~~~\n@> @- @1. @\n|-|-|\n@[a]: @<b>@x\n@http://e".split("@")]
    choose = random.Random(7)
    for _ in range(3000):
        text = "".join(choose.choices(pieces, k=choose.randint(1, 18)))
        neutral = neutralize(text).text
        assert active_parts(neutral) == [], text
        assert neutralize(neutral).text == neutral, text
        assert active_parts(in_parts(text, iter(lambda: choose.randint(1, 9), 0))) == [], text


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("pays ~~14 crowns~~ 19", "pays               19"),
        ("~~~\ncode\n~~~", "~~~\ncode\n~~~"),
        ("about ~5 and ~~ 6", "about ~5 and ~~ 6"),
    ],
)
def test_what_is_struck_through_is_blank_and_nothing_moves(text, left):
    """So every offset of the text holds."""
    assert without_deleted(text) == left
