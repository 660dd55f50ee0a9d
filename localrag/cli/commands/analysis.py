"""`localrag review`, `timeline`, `list` and `compare`: tables made from documents."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import localrag
from localrag.cli.options import (
    ENGINE_OPTIONS,
    FILTER_OPTIONS,
    IndexOption,
    JsonOption,
    ModelOption,
    OptionValues,
    ProgressOption,
    choice_option,
    document_filter,
    engine_options,
    joined_words,
    with_options,
)
from localrag.cli.views.terminal import (
    confirm,
    format_duration,
    json_events,
    print_note,
    status_line,
    stdin_text,
    write_event,
    write_result,
)
from localrag.errors import UsageError
from localrag.filters import NO_FILTER
from localrag.system.files import read_linked_file

if TYPE_CHECKING:
    from localrag.analysis.tables import ResultTable
    from localrag.filters import DocumentFilter
    from localrag.index import Index

ROW_KINDS = ("document", "chapter", "record")
MAX_QUESTIONS_BYTES = 10_000_000
CONFIRM_FROM_S = 600.0  # seconds from which on a review asks before it begins
OutOption = Annotated[
    Path | None, typer.Option("--out", "-o", metavar="FILE", help="Write the table to a .csv, .xlsx, .docx, .md or .json file.")
]
_TABLE_OPTIONS = {
    "out": (OutOption, None),
    "force": (Annotated[bool, typer.Option("--force", help="Replace an existing file.")], False),
    "index": (IndexOption, None),
    "model": (ModelOption, None),
    **ENGINE_OPTIONS,
    "progress": (ProgressOption, "auto"),  # its callback tells the status line
    "as_json": (JsonOption, False),
}
with_table = with_options("given", **FILTER_OPTIONS, **_TABLE_OPTIONS)


def _make(given: OptionValues, make: "Callable[[Index, DocumentFilter], ResultTable]") -> None:
    """Open the index, make a table and print or write it; an existing out file is refused before the work."""
    from localrag.cli.views.answers import print_result_table
    from localrag.exchange.table_files import check_output_file, write_table
    from localrag.serializers import serialize_table

    selection, out, force = document_filter(given) or NO_FILTER, given["out"], given["force"]
    if out is not None:
        check_output_file(out, force=force)
    with localrag.Index.open(given["index"], model=given["model"], engine=engine_options(given, quiet=given["as_json"])) as opened:
        opened.load_models()
        table = make(opened, selection)
        status_line.clear()
        if out is not None:
            write_table(table, out, force=force)
            print_note(f"{len(table.rows):,} rows are in {out}." + f" {table.note}" * bool(table.note))
        else:
            write_result(serialize_table(table), print_result_table, table, opened.root, as_json=given["as_json"])


def _show_work(done: int, total: int) -> None:
    if json_events.is_active:
        write_event("progress", done=done, total=total)
    else:
        status_line.show(f"{done:,} of {total:,}")


@with_table
def review_command(
    questions: Annotated[
        Path | None,
        typer.Argument(
            metavar="QUESTIONS",
            help="A file with a question a line; - for standard input. date:, amount:, yes/no:, list: or "
            "one of A|B: in front of a question say what to answer.",
        ),
    ] = None,
    rows: Annotated[str, typer.Option("--rows", help="What a row is.", **choice_option("kind of row", ROW_KINDS))] = "document",
    max_seconds: Annotated[
        float | None, typer.Option("--max-seconds", min=0, help="Stop after this time; the same command goes on.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before work that takes more than ten minutes.")] = False,
    *,
    given: OptionValues,
) -> None:
    """Put the same questions to every document: a table of answers with quotes."""
    lines = _read_lines(questions)

    def make(opened: "Index", selection: "DocumentFilter") -> "ResultTable":
        plan = opened.plan_review(lines, rows=rows, selection=selection)
        if plan.new_cells:
            print_note(f"{plan.new_cells:,} of {plan.cells:,} cells to read, about {format_duration(max(1.0, plan.seconds))}.")
        if plan.seconds > CONFIRM_FROM_S and not yes and max_seconds is None and sys.stdin.isatty() and not confirm("Go on?", default=True):
            raise typer.Exit(1)
        return opened.review(lines, rows=rows, max_seconds=max_seconds, selection=selection, on_work=_show_work)

    _make(given, make)


def _read_lines(questions: Path | None) -> list[str]:
    from localrag.analysis.review_questions import EXAMPLE, parse_questions
    from localrag.loaders.encodings import decode_bytes

    if questions is None or str(questions) == "-":
        if questions is None and sys.stdin.isatty():
            raise UsageError("There are no questions.", f"{EXAMPLE} Then: localrag review QUESTIONS.txt")
        text = stdin_text().read()
    else:
        try:
            text = decode_bytes(read_linked_file(questions, MAX_QUESTIONS_BYTES))
        except OSError as error:
            raise UsageError(f"The questions in {questions} cannot be read: {error.strerror}.", EXAMPLE) from error
    return [q.line for q in parse_questions(text.splitlines())]


@with_table
def timeline_command(
    about: Annotated[list[str] | None, typer.Argument(metavar="ABOUT…", help="An entity or a topic. Default: everything.")] = None,
    limit: Annotated[int | None, typer.Option("-n", "--limit", min=1, help="Number of rows. Default: all.")] = None,
    *,
    given: OptionValues,
) -> None:
    """List dated statements in order of time, each with its quote."""
    topic = joined_words(about)
    _make(given, lambda opened, selection: opened.timeline(topic, limit=limit, selection=selection, on_work=_show_work))


@with_table
def list_items_command(
    request: Annotated[list[str], typer.Argument(metavar="WHAT…", help="What to list, such as: all vessels that sank.")],
    *,
    given: OptionValues,
) -> None:
    """List all records of tables that match, each with its quote; else names in prose that may be meant."""
    _make(given, lambda opened, selection: opened.list_items(joined_words(request), selection=selection, on_work=_show_work))


@with_options("given", **_TABLE_OPTIONS)
def compare_command(
    first: Annotated[str, typer.Argument(metavar="A", help="A document of the index.")],
    second: Annotated[str, typer.Argument(metavar="B", help="Another one.")],
    include_same: Annotated[bool, typer.Option("--include-same", help="Show also the passages that are the same.")] = False,
    *,
    given: OptionValues,
) -> None:
    """Compare two documents or versions, passage by passage."""
    _make(given, lambda opened, _: opened.compare(first, second, include_same=include_same, on_work=_show_work))
