"""A written answer on a terminal: its Markdown while it comes, on a screen, on a pipe; cut, hostile and long."""

import io
import re
import unicodedata

import pyte
import pytest

from localrag.cli.views import answers as answers_view
from localrag.cli.views import markdown as markdown_view
from localrag.cli.views.answers import AnswerStream, print_answer
from localrag.cli.views.console import SafeConsole
from localrag.cli.views.markdown import inline_text
from localrag.records import Answer, AnswerPassage, AnswerSentence, Citation
from tests.terminals import plain
from tests.text.test_markdown import HOSTILE

PROSE = ["## Setup\n\n", "Run `pip install x`. [1]", " Then **restart**. [related][2]\n\n", "- one [1]\n", "  - two [unsupported]\n\n"]
TABLE = ["| Plan | Price |\n", "|---|---:|\n", "| Basic \\| small | 10 € [1] |\n", "| 中文 | 2000 [contradicted][2] |\n", "\n"]
CODE = ["```yaml\n", "key: [1]  # " + "long " * 30 + "\n", "  deep: <b>\n", "```\n", "[1]\n"]


class Shown:
    """A stdout of 60 columns, as text and as a screen."""

    def __init__(self, monkeypatch, *, terminal=True, columns=60, **options):
        self._file = io.StringIO()
        console = SafeConsole(
            file=self._file,
            force_terminal=terminal,
            width=columns,
            soft_wrap=True,
            color_system="standard" if terminal else None,
            **options,
        )
        for view in (answers_view, markdown_view):
            monkeypatch.setattr(view, "stdout_console", console)
        self.columns = columns

    @property
    def raw(self):
        return self._file.getvalue()

    @property
    def text(self):
        return plain(self.raw)

    @property
    def screen(self):
        screen = pyte.Screen(self.columns, 60)
        pyte.Stream(screen).feed(self.raw.replace("\n", "\r\n"))
        return [line.rstrip() for line in screen.display]


@pytest.fixture
def terminal(monkeypatch):
    return Shown(monkeypatch)


def stream_of(parts):
    stream = AnswerStream(live=True)
    for part in parts:
        stream.write(part)
    return stream


def test_text_is_printed_as_it_comes_and_once(terminal):
    """After each part the sentence, item or line of code stands there; what was printed is not printed again."""
    stream, before = AnswerStream(live=True), ""
    for part in PROSE + CODE:
        stream.write(part)
        assert terminal.text.startswith(before)
        before = terminal.text
        assert re.sub(r"[*`#|-]", "", part).split()[-1:] in ([], re.sub(r"[*`#|•-]", "", before).split()[-1:])
    stream.finish("".join(PROSE + CODE))

    code = "".join(CODE[1:3])
    assert terminal.text == (
        f"Setup\n\nRun pip install x. [1] Then restart. [related][2]\n\n• one [1]\n  • two [unsupported]\n\n```yaml\n{code}```\n[1]\n\n"
    )


def test_marks_of_states_have_their_colours_and_code_has_none(terminal):
    """As on a plain sentence, also in cells; what code says of itself is no mark."""
    stream_of(["A. [related][1] B. [unsupported]\n", *TABLE, "`x[\\[unsupported\\]]`\n```\ny [related]\n```\n"]).stop()

    assert terminal.raw.count("\x1b[36m[related]") == 1
    assert terminal.raw.count("\x1b[33m[unsupported]") == 1
    assert terminal.raw.count("\x1b[1;31m[contradicted]") == 1
    assert "x[[unsupported]]" in terminal.text


def test_a_table_is_aligned_when_it_is_complete(terminal):
    """Nothing of it is seen before; wide characters count twice, an escaped `|` is one, numbers are right-aligned."""
    stream = stream_of(TABLE[:4])
    assert terminal.text == ""
    stream.write(TABLE[4])
    lines = [line.rstrip() for line in terminal.text.splitlines()]

    assert [line.split("  ")[0].strip("─ ") for line in lines if line] == ["Plan", "", "Basic | small", "中文"]
    assert lines[2].index("€") > 20
    assert len({sum(2 if unicodedata.east_asian_width(c) == "W" else 1 for c in line) for line in lines if "[" in line}) == 1


def test_a_table_that_is_cut_is_shown_as_far_as_it_came(terminal):
    """Ctrl-C in the middle of it: the rows that are stored are printed."""
    stream_of(["Prices:\n\n", *TABLE[:3], "| Plus"]).stop()

    assert "10 € [1]" in terminal.text
    assert "Plus" in terminal.text
    assert "|---" not in terminal.text


def test_a_line_with_bars_that_is_no_table_stays_a_line(terminal):
    """It is printed as soon as the next line is known."""
    stream = stream_of(["Use a | b. [1]\n"])
    assert terminal.text == ""
    stream.write("Next.\n")

    assert terminal.text == "Use a | b. [1]\nNext.\n"


@pytest.mark.parametrize("options", [{"terminal": False}, {"no_color": True}], ids=["a pipe", "NO_COLOR"])
def test_without_styles_markdown_is_printed_as_it_is(monkeypatch, options):
    """Character by character, without cursor movements."""
    shown = Shown(monkeypatch, **options)
    parts = PROSE + TABLE + CODE
    stream = AnswerStream(live=True)
    for part in parts:
        stream.write(part)
    stream.finish("".join(parts))

    assert shown.raw == "".join(parts) + "\n"


def test_passages_of_documents_are_no_markdown(terminal):
    """Their lines stay as they are, and the short answer is underlined."""
    text = "# a comment\n| a | b |\n    *p = <x> \\[1\\]"
    passage = AnswerPassage(1, "a.c", (), 0, len(text), text.replace("\\", ""), (2, 11))
    stream = AnswerStream(live=True)
    stream.add_passage(passage)
    stream.write(f"**a.c**\n{text} [1]")
    stream.finish(f"**a.c**\n{text} [1]")

    assert terminal.text == f"a.c\n{text} [1]\n"
    assert "\x1b[1;4ma comment" in terminal.raw


@pytest.mark.parametrize(
    "text", [*HOSTILE, "\x1b]8;;http://evil.example\x07here\x1b]8;;\x07 \x9b2J \u202e \x08", "```\n\x1b[2J\n", "| \x1b[1A | b |\n|--|--|\n"]
)
def test_a_terminal_is_given_no_links_and_no_orders(terminal, text):
    """No hyperlinks, no control characters; the address of a link is there to be read, a picture is its description."""
    stream = stream_of([text])
    stream.finish(text)

    bad = [c for c in terminal.text.replace("\n", "") if unicodedata.category(c) in ("Cc", "Cf", "Cs")]
    assert not bad, bad
    assert "\x1b]" not in terminal.raw
    assert "\x1b" not in terminal.text  # styles are gone


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("[click](http://evil.example/a) and <http://b.example>", "click (http://evil.example/a) and http://b.example"),
        ("![a map](http://evil.example/p.png) [click](javascript:alert(1))", "[a map] [click](javascript:alert(1))"),
        ("[a][b] ![c][d] <img src=x> a < b \\* &lt;", "[a][b] ![c][d] <img src=x> a < b * <"),
        ("A claim \\[1\\]. [1] *مرحبا* ~~old~~", "A claim \\[1\\]. [1] مرحبا old"),
    ],
)
def test_a_line_is_read_as_markdown(source, shown):
    """Links have their addresses, pictures their descriptions, and marks that a text imitates stay escaped."""
    assert inline_text(source).plain == shown


CITED = Citation(1, "a.md", 3, 9, "quoted", "", "page 2", ("Setup", "Linux\x1b[2J"))


def answer_of(text, **more):
    return Answer("What?", text, "mix", citations=(CITED,), sentences=(AnswerSentence(0, 3, "related", (1,)),), **more)


def test_sources_name_file_part_and_headings(terminal, tmp_path, monkeypatch):
    """In the list below an answer; an older answer has no headings."""
    monkeypatch.chdir(tmp_path)
    print_answer(answer_of("Yes. [related][1]"), tmp_path, AnswerStream(live=True))

    assert "[1] a.md › page 2 › Setup › Linux␛[2J, 3-9  “quoted”  related" in terminal.text
