"""What reads foreign text outside of the confined process takes time in proportion to its length, whatever the text is."""

import importlib
import inspect
import time
from collections.abc import Callable
from contextlib import suppress

import pytest

from localrag.analysis.placed_sentences import OpenedDocument
from localrag.analysis.text_records import record_tables
from localrag.entailment import parse_sentence
from localrag.errors import UsageError
from localrag.loaders.containers import split_text
from localrag.loaders.content import InnerDocument
from localrag.loaders.latex_inputs import MAX_INPUT_NAMES, input_definitions
from localrag.query.answer_markdown import parse_units
from localrag.records import Document, DocumentPart
from localrag.text.kinds import strip_markup
from localrag.text.markdown import NeutralStream, escape_plain_text
from localrag.text.outline import Outline
from localrag.text.sentences import RepetitionFilter
from tests.patterns import main_process_modules

PACKAGES = ("analysis", "dates", "exchange", "llm", "loaders", "query", "serve", "text", "engine.remote", "entailment.lexicon")
READ = {"text", "markdown", "line", "sentence", "front", "prose", "flat"}  # names of a parameter that is a foreign text
SHAPES = (
    *"a \n\t1*|_`#-.,[({<>!'\"“\\:…中。",
    *("a. ", "A. b ", "a b ", "A ", "1. ", "1,", "1.1", "1 a ", "- a\n", "a\n\n", " \n", "> ", "- ", "* ", "|a", "| a |\n", "a: b\n"),
    *("<a>", "<a ", "[a](", "[a", "![", "**a ", "_a ", "`a ", '"a ', "(a", "a,b;", "http://a", "a@a", "1/1/", "May 1, ", "the ", "中。"),
    *("```\n", "~~~\n", "---\n", "a\n===\n", "# a\n", "\\a{", "[1]", "&amp;", "[[a]]", "<think></think>", "a · b: ", "and ", "A of "),
)
MEASURED_S = 0.05  # from where a time can be told from noise
STEEPEST = 10  # times as long for a text four times as long: 16 is the square
LENGTHS = 2_000, 8_000


def readers() -> dict[str, Callable[[str], object]]:
    """The public functions of the main process that take a text and nothing else."""
    found: dict[str, Callable[[str], object]] = {}
    for name in main_process_modules():
        if not name.removeprefix("localrag.").startswith(PACKAGES):
            continue
        module = importlib.import_module(name)
        for function in vars(module).values():
            if inspect.isfunction(function) and function.__module__ == name and not function.__name__.startswith("_"):
                first, *others = [*inspect.signature(function).parameters.values(), None]
                if first and first.name in READ and all(p is None or p.default is not p.empty for p in others):
                    found[f"{name.removeprefix('localrag.')}.{function.__name__}"] = function
    return found


def opened(text: str) -> OpenedDocument:
    return OpenedDocument(Document("d", "d.txt", "d", text, "h"), [])


def repetitions(text: str) -> None:
    known = RepetitionFilter()
    for n in range(len(text) // 10):
        known.is_new(f"word{n:06} {text[10 * n : 10 * n + 10]}")


OTHERS: dict[str, Callable[[str], object]] = {
    "records": lambda text: [table.key_label for table in record_tables([opened(text)])],
    "outline": lambda text: Outline(text).blocks,
    "units": lambda text: list(parse_units(text)),
    # Four times as long, since what it keeps of a block is parsed again with each part.
    "neutral stream": lambda text: [stream := NeutralStream(), [stream.write((4 * text)[n : n + 50]) for n in range(0, 4 * len(text), 50)]],
    "parse_sentence": parse_sentence.__wrapped__,
    "plain text": escape_plain_text,
    "markup": strip_markup,
    "repetitions": repetitions,
}


def seconds(function: Callable[[str], object], text: str) -> float:
    start = time.thread_time()
    found = function(text)
    if inspect.isgenerator(found):
        list(found)
    return time.thread_time() - start


def growth(function: Callable[[str], object], make: Callable[[int], str]) -> float:
    """How many times as long a text four times as long takes; 0 where that is too short to measure."""
    if seconds(function, make(LENGTHS[1])) < MEASURED_S:
        return 0
    short, long = (min(seconds(function, make(n)) for _ in range(2)) for n in LENGTHS)
    return long / short if long >= MEASURED_S else 0


def steep_shapes(function: Callable[[str], object], shapes: "tuple[str, ...]" = SHAPES) -> list[str]:
    """The shapes of text for which a function's time grows much faster than the text; tried again, as the machine may be busy."""
    return [
        shape
        for shape in shapes
        if all(growth(function, lambda n, shape=shape: (shape * (n // len(shape) + 1))[:n] + "\x01") > STEEPEST for _ in range(3))  # type: ignore[misc]
    ]


# Functions whose text is bounded before, or that take no free text.
ELSEWHERE = ("loaders.ocr.", "analysis.list_request.", "llm.prompts.")
SOME_SHAPES = ("\n", "* ", "a. ", "[", "| a |\n", "id: 1\n")


@pytest.mark.parametrize("name", ["plain text", "markup", "units", "records", "repetitions"])
def test_a_text_of_one_shape_is_read_in_linear_time(name):
    """Some shapes for the functions that most often read what others wrote."""
    assert steep_shapes(OTHERS[name], SOME_SHAPES) == []


@pytest.mark.ci
def test_every_public_function_reads_any_shape_in_linear_time():
    """Errors apart: a text may be none that it reads."""
    steep, found = {}, readers()
    assert found.keys() > {"text.markdown.neutralize", "text.markdown.plain_text"}
    for name, function in (found | OTHERS).items():
        if not name.startswith(ELSEWHERE):
            with suppress(UsageError, ValueError, KeyError, RecursionError):
                if shapes := steep_shapes(function):
                    steep[name] = shapes

    assert steep == {}


def test_a_function_of_quadratic_time_is_found():
    """So that the tests above can fail."""
    assert steep_shapes(lambda text: [sum(map(ord, text[n:])) for n in range(0, len(text), 2)], ("a",)) == ["a"]


def records(n: int) -> str:
    """Records whose labels differ, as in a log of JSON lines."""
    return "\n\n".join(f"id: {n}\nalpha{n}: a\nbeta{n}: b" for n in range(n // 30))


def wide(n: int) -> str:
    """A Markdown table with a long header and short rows, and one with many rules."""
    header = "|a" * (n // 4)
    return f"{header}\n|-\n" + "|b\n" * (n // 8) + "\n" + "|-|\n" * (n // 8)


def growing(n: int) -> str:
    """Records of which each has a label more that no other has."""
    return "\n\n".join(f"id: {i}\na: 1\nb: 2\nc: 3\nnew{i}: x" for i in range(n // 32))


@pytest.mark.parametrize("make", [records, wide, growing])
def test_tables_of_records_are_found_in_linear_time(make):
    """Whatever their labels are."""
    assert min(growth(OTHERS["records"], lambda n: make(6 * n)) for _ in range(3)) <= STEEPEST


def test_records_whose_labels_differ_stay_apart():
    """And those with the same labels are one table, also where others are between them."""
    tables = record_tables([opened(f"{records(900)}\n\nid: 1\nalpha3: x\nbeta3: y")])

    assert [len(t.records) for t in tables] == [2]
    assert list(tables[0].labels) == ["id", "alpha3", "beta3"]


def test_a_mailbox_is_split_in_linear_time():
    """Each message with its own parts."""

    def split(text: str) -> object:
        n = len(text) // 10
        inner = [InnerDocument(f"m{i}", 10 * i, 10 * i, 10 * i + 10, "", ()) for i in range(n)]
        return split_text(text, [DocumentPart(f"p{i}", 10 * i + 1, 10 * i + 4) for i in range(n)], (), inner)

    found = split("0123456789" * 3)
    assert [(s.name, s.text, s.parts) for s in found[1:]] == [(f"m{i}", "0123456789", (DocumentPart(f"p{i}", 1, 4),)) for i in range(3)]
    assert min(growth(split, lambda n: "0123456789" * (n // 4)) for _ in range(3)) <= STEEPEST


@pytest.mark.parametrize("shape", ["\\input", "\\input ", " ", "\\input{a}", "\\usepackage[", "\\input{a,"])
def test_the_files_that_a_latex_file_takes_in_are_found_in_linear_time(tmp_path, shape):
    """It is read before the confined process gets it, and again by each later run; no more than so many names are looked up."""

    def read(text: str) -> object:
        (tmp_path / "a.tex").write_text("\\input" + text)
        return input_definitions(tmp_path / "a.tex")

    assert steep_shapes(read, (shape,)) == []
    names = "".join(f"\\input{{n{n}}}" for n in range(MAX_INPUT_NAMES))
    (tmp_path / "last.tex").write_text(r"\newcommand{\x}{y}")
    (tmp_path / "b.tex").write_text(rf"{names}\input{{last}}")
    assert input_definitions(tmp_path / "b.tex") == ""
    (tmp_path / "b.tex").write_text(rf"\input   [x] {{last}}{names}")
    assert "newcommand" in input_definitions(tmp_path / "b.tex")
