"""`localrag ask` and `questions`."""

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from localrag.cli.options import (
    AllowHostOption,
    AtOnceOption,
    CollectionOption,
    DeterministicOption,
    EngineOption,
    IndexOption,
    JsonOption,
    ModelOption,
    ModeOption,
    NoLogOption,
    ProgressOption,
    RemeasureOption,
    RerankerOption,
    StrictOption,
    StyleOption,
    WhereOption,
    engine_options,
    selection,
)
from localrag.cli.views.terminal import standard_input, status, write_json

if TYPE_CHECKING:
    from localrag.library import Asking, Index
    from localrag.records import Answer


def ask_command(
    question: Annotated[
        str | None, typer.Argument(metavar="[QUESTION]", help="Your question. Without one, or as -, it is read from standard input.")
    ] = None,
    mode: ModeOption = "auto",
    where: WhereOption = None,
    collection: CollectionOption = None,
    level: Annotated[int | None, typer.Option("--level", help="Community level for global questions. 0 is the top.")] = None,
    dynamic: Annotated[bool, typer.Option("--dynamic", help="Select reports for a global question from the top level down.")] = False,
    go_on: Annotated[bool, typer.Option("--continue", "-c", help="Continue the last conversation.")] = False,
    style: StyleOption = "",
    strict: StrictOption = False,
    response_type: Annotated[
        str, typer.Option("--response-type", help="For example 'single sentence', 'list of 3 points', 'multiple paragraphs'.")
    ] = "",
    max_calls: Annotated[
        int | None,
        typer.Option("--max-calls", min=0, help="Maximum model calls. Then the best answer so far. Default: 50 calls and 100,000 tokens."),
    ] = None,
    max_seconds: Annotated[float | None, typer.Option("--max-seconds", min=0, help="Maximum seconds. Then the best answer so far.")] = None,
    context_only: Annotated[bool, typer.Option("--context-only", help="Print the context instead of an answer.")] = False,
    seed: Annotated[int, typer.Option("--seed", help="Seed that shuffles the reports of a global question.")] = 0,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before answers that may take over a minute.")] = False,
    no_log: NoLogOption = False,
    index: IndexOption = None,
    model: ModelOption = None,
    reranker: RerankerOption = None,
    allow_host: AllowHostOption = None,
    at_once: AtOnceOption = 0,
    engine: EngineOption = "",
    remeasure: RemeasureOption = False,
    deterministic: DeterministicOption = False,
    progress: ProgressOption = "auto",  # noqa: ARG001 — its callback tells the status line
    as_json: JsonOption = False,
) -> None:
    """Answer a question; every citation is a verbatim passage of a file."""
    from localrag.library import Index

    text = _asked(question)
    how: Asking = {
        "mode": mode,
        "level": level,
        "dynamic": dynamic,
        "seed": seed,
        "style": style,
        "strict": strict,
        "max_calls": max_calls,
        "max_seconds": max_seconds,
        "response_type": response_type,
        "context_only": context_only,
        "selection": selection(where, collection),
    }
    chosen = engine_options(engine, remeasure=remeasure, deterministic=deterministic, hosts=allow_host, at_once=at_once)
    with Index.open(index, model=model, reranker=reranker, engine=chosen, logs=not no_log) as opened:
        opened.prepare()
        if go_on:
            how["conversation"] = last_conversation(opened)
        ask_and_print(text, opened, how, as_json=as_json, asks=not yes)


def _asked(given: str | None) -> str:
    """The question as it was given, else what comes on standard input. Raises UsageError where that is a terminal, empty, or no text."""
    from localrag.errors import UsageError
    from localrag.query.question import LONGEST_QUESTION

    remedy = 'Ask something: localrag ask "What are the main themes?"'
    if given not in (None, "-"):
        return str(given)
    if given is None and sys.stdin.isatty():
        raise UsageError("There is no question.", f"{remedy}; question after question: localrag chat")
    text = standard_input().read(LONGEST_QUESTION + 1).strip()
    if not text:
        raise UsageError("Nothing came on standard input, so there is no question.", remedy)
    return text


def last_conversation(index: "Index") -> int:
    """The number of the conversation that the last answer belongs to. Raises LocalragError."""
    from localrag.errors import LocalragError

    last = index.last_answer()
    if last is None or not last.conversation:
        raise LocalragError("There is no conversation to go on with.", 'Begin one: localrag ask "…"')
    return last.conversation


def ask_and_print(
    question: str,
    index: "Index",
    how: "Asking",
    *,
    as_json: bool = False,
    asks: bool = True,
    history: "Sequence[Answer]" = (),
    kept: "Callable[[Answer], None] | None" = None,
) -> None:
    """Ask and render: JSON alone on stdout, or text that comes sentence by sentence, then its citations.

    `asks`: whether a person at a terminal is asked before an answer that takes long. `history` and `kept` are those of a chat:
    the latter is given the answer, also what there is of one that was stopped. Ctrl-C ends it: what was kept is said, and typer.Exit(130)
    raised.
    """
    from localrag.cli.views.answers import Stream, answer_json, print_answer
    from localrag.cli.views.console import say
    from localrag.query.question import Watch

    stream, calls = Stream(live=not as_json), index.calls
    agree = _go_on if asks and sys.stdin.isatty() and sys.stderr.isatty() else None
    try:
        watch = Watch(text=stream.write, status=status.show, agree=agree, kept=kept)
        result = index.ask(question, watch=watch, history=history, **how)
    except KeyboardInterrupt:
        say(_kept(bool(stream.heard), index.calls - calls) if index.logs else "\nStopped. Nothing of it is kept.")
        raise typer.Exit(130) from None
    finally:
        status.clear()
    if as_json:
        write_json(answer_json(result, index.root))
    else:
        opens = "/source 1" if kept else "localrag source 1" if index.logs else ""
        print_answer(result, index.root, stream, opens)


def _go_on() -> bool:
    from localrag.cli.views.console import confirmed

    return confirmed("Go on?", default=True)


def _kept(heard: bool, calls: int) -> str:
    """What a question that was stopped leaves behind."""
    answer = "What was written is kept: localrag logs -n 1." if heard else "No sentence was written yet."
    finished = f" {calls} finished calls of the model are kept: the same question does not make them again." if calls else ""
    return f"\nStopped. {answer}{finished}"


def questions_command(
    about: Annotated[str, typer.Option("--about", metavar="ENTITY", help="Suggest questions about this entity.")] = "",
    n: Annotated[int, typer.Option("-n", min=1, max=50, help="Number of questions.")] = 5,
    where: WhereOption = None,
    collection: CollectionOption = None,
    index: IndexOption = None,
    model: ModelOption = None,
    allow_host: AllowHostOption = None,
    at_once: AtOnceOption = 0,
    engine: EngineOption = "",
    deterministic: DeterministicOption = False,
    as_json: JsonOption = False,
) -> None:
    """Suggest questions to ask."""
    from localrag.cli.views.console import out
    from localrag.library import Index
    from localrag.where import EVERYTHING

    chosen = engine_options(engine, deterministic=deterministic, hosts=allow_host, at_once=at_once, quiet=as_json)
    documents = selection(where, collection) or EVERYTHING
    with Index.open(index, model=model, engine=chosen) as opened:
        found = opened.suggest(n, about=about, selection=documents)
    if as_json:
        write_json(found)
    else:
        out.print("\n".join(found))
