"""`localrag ask` and `questions`."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import localrag
from localrag.cli.options import (
    FILTER_OPTIONS,
    MODEL_OPTIONS,
    IndexOption,
    JsonOption,
    ModelOption,
    ModeOption,
    NoHistoryOption,
    OptionValues,
    ProgressOption,
    StrictOption,
    StyleOption,
    document_filter,
    engine_options,
    joined_words,
    setting_options,
    with_engine,
    with_options,
)
from localrag.cli.views.terminal import confirm, index_argument, print_note, status_line, stdin_text, write_json, write_result
from localrag.errors import LocalragError, UsageError
from localrag.filters import NO_FILTER

if TYPE_CHECKING:
    from localrag.index import Index
    from localrag.records import Answer

GoOnOption = Annotated[bool, typer.Option("--continue", "-c", help="Continue the last conversation.")]
AnswerFileOption = Annotated[
    Path | None, typer.Option("--out", "-o", metavar="FILE", help="Write the answer also to a .docx or .md file, with footnotes.")
]


HOW_OPTIONS = {
    "mode": (ModeOption, "auto"),
    "level": (Annotated[int | None, typer.Option("--level", help="Community level for global questions. 0 is the top.")], None),
    "dynamic": (Annotated[bool, typer.Option("--dynamic", help="Select reports for a global question from the top level down.")], False),
    "style": (StyleOption, ""),
    "strict": (StrictOption, False),
    **setting_options("response_type", "max_calls", "max_seconds"),
    "context_only": (Annotated[bool, typer.Option("--context-only", help="Print the context instead of an answer.")], False),
}


@with_options("how", **HOW_OPTIONS)
@with_options("selected", **FILTER_OPTIONS)
@with_options("opening", **MODEL_OPTIONS)
def ask_command(
    question: Annotated[
        list[str] | None, typer.Argument(metavar="QUESTION…", help="Your question. Without one, or as -, it is read from standard input.")
    ] = None,
    *,
    how: OptionValues,
    selected: OptionValues,
    go_on: GoOnOption = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before answers that may take over a minute.")] = False,
    no_history: NoHistoryOption = False,
    opening: OptionValues,
    out: AnswerFileOption = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    progress: ProgressOption = "auto",  # noqa: ARG001 — its callback tells the status line
    as_json: JsonOption = False,
) -> None:
    """Answer a question; every citation is a verbatim passage of a file."""
    text = _read_question(joined_words(question) if question else None)
    if out is not None:
        from localrag.exchange.table_files import check_answer_file

        check_answer_file(out, force=force)
    chosen = {**how, "selection": document_filter(selected)}
    with open_to_ask(opening, no_history=no_history) as opened:
        if go_on:
            chosen["conversation"] = last_conversation(opened)
        answer = ask_and_print(text, opened, chosen, as_json=as_json, asks=not yes)
    if out is not None:
        from localrag.exchange.table_files import write_answer

        write_answer(answer, out, force=force)
        print_note(f"The answer is in {out}.")


@contextmanager
def open_to_ask(opening: OptionValues, *, no_history: bool) -> "Iterator[Index]":
    """Open the index with its models, by the values of MODEL_OPTIONS."""
    engine, logs = replace(engine_options(opening), measure_later=True), not no_history
    index, model, reranker = (opening[name] for name in ("index", "model", "reranker"))
    with localrag.Index.open(index, model=model, reranker=reranker, engine=engine, logs=logs) as opened:
        opened.load_models()
        yield opened


def _read_question(given: str | None) -> str:
    """The question of the argument, else of standard input. Raises UsageError if that is a terminal or empty."""
    from localrag.query.question import MAX_QUESTION_CHARS

    remedy = 'Ask something: localrag ask "What are the main themes?"'
    if given not in (None, "-"):
        return given
    if given is None and sys.stdin.isatty():
        raise UsageError("There is no question.", f"{remedy}; question after question: localrag chat")
    text = stdin_text().read(MAX_QUESTION_CHARS + 1).strip()
    if not text:
        raise UsageError("Standard input is empty, so there is no question.", remedy)
    return text


def last_conversation(index: "Index") -> int:
    """The number of the last answer's conversation. Raises LocalragError if there is none."""
    last = index.last_answer()
    if last is None or not last.conversation:
        raise LocalragError("There is no conversation to continue.", 'Start one: localrag ask "…"')
    return last.conversation


def ask_and_print(
    question: str,
    index: "Index",
    how: dict[str, Any],
    *,
    as_json: bool = False,
    asks: bool = True,
    history: "Sequence[Answer]" = (),
    kept: "Callable[[Answer], None] | None" = None,
) -> "Answer":
    """Answer a question and print it: one JSON object, or sentences as they are written, then the citations. Returns the answer.

    `asks`: ask for confirmation on a terminal before a long answer. `history` and `kept` belong to a chat: `kept` is called with the
    stored answer, also of a stopped question. On Ctrl-C it prints what was stored and raises typer.Exit(130).
    """
    from localrag.cli.views.answers import AnswerStream, answer_json, print_answer
    from localrag.query.question import AnswerCallbacks

    stream, calls = AnswerStream(live=not as_json), index.calls
    agree = _confirm_cost if asks and sys.stdin.isatty() and sys.stderr.isatty() else None
    try:
        watch = AnswerCallbacks(
            on_text=stream.write,
            on_status=stream.show_status,
            confirm_cost=agree,
            on_stored=kept,
            on_passage=stream.add_passage,
        )
        result = index.ask(question, watch=watch, history=history, **how)
    except KeyboardInterrupt:
        stream.stop()
        print_note(_interrupted_answer(bool(stream.heard), index.calls - calls) if index.logs else "\nStopped. Nothing was stored.")
        raise typer.Exit(130) from None
    finally:
        status_line.clear()
    if as_json:
        write_json(answer_json(result, index.root))
    else:
        opens = "/source 1" if kept else f"localrag source 1{index_argument(index)}" if index.logs else ""
        print_answer(result, index.root, stream, opens)
    return result


def _confirm_cost() -> bool:
    return confirm("Go on?", default=True)


def _interrupted_answer(heard: bool, calls: int) -> str:
    """The message after a stopped question: whether part of the answer is stored, and the number of stored model calls."""
    answer = "The part that was written is stored: localrag logs -n 1." if heard else "No sentence had been written yet."
    finished = f" {calls} finished model calls are stored: the same question reuses them." if calls else ""
    return f"\nStopped. {answer}{finished}"


@with_engine
@with_options("selected", **FILTER_OPTIONS)
def questions_command(
    about: Annotated[str, typer.Option("--about", metavar="ENTITY", help="Suggest questions about this entity.")] = "",
    n: Annotated[int, typer.Option("-n", min=1, max=50, help="Number of questions.")] = 5,
    *,
    selected: OptionValues,
    index: IndexOption = None,
    model: ModelOption = None,
    engine: OptionValues,
    as_json: JsonOption = False,
) -> None:
    """Suggest questions to ask."""
    from localrag.cli.views.console import stdout_console

    documents = document_filter(selected) or NO_FILTER
    with localrag.Index.open(index, model=model, engine=engine_options(engine, quiet=as_json)) as opened:
        questions = opened.suggest(n, about=about, selection=documents)
    write_result(questions, stdout_console.print, "\n".join(questions), as_json=as_json)
