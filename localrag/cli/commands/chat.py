"""`localrag chat`: question after question in one conversation."""

import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from localrag.cli.commands.ask import ask_and_print, last_conversation
from localrag.cli.commands.slash import Talk, as_command, carry_out, completions, resumed
from localrag.cli.options import (
    AllowHostOption,
    AtOnceOption,
    CollectionOption,
    DeterministicOption,
    EngineOption,
    IndexOption,
    ModelOption,
    ModeOption,
    NoLogOption,
    RerankerOption,
    StrictOption,
    StyleOption,
    WhereOption,
    engine_options,
    selection,
)

if TYPE_CHECKING:
    from localrag.cli.views.editor import Read
    from localrag.records import Answer

REMEMBERED = 200  # questions that the arrow keys bring back


def chat_command(
    mode: ModeOption = "auto",
    where: WhereOption = None,
    collection: CollectionOption = None,
    style: StyleOption = "",
    strict: StrictOption = False,
    go_on: Annotated[bool, typer.Option("--continue", "-c", help="Continue the last conversation.")] = False,
    resume: Annotated[
        int | None, typer.Option("--resume", metavar="N", help="Continue a conversation of `localrag sessions list`.")
    ] = None,
    no_log: NoLogOption = False,
    index: IndexOption = None,
    model: ModelOption = None,
    reranker: RerankerOption = None,
    allow_host: AllowHostOption = None,
    at_once: AtOnceOption = 0,
    engine: EngineOption = "",
    deterministic: DeterministicOption = False,
) -> None:
    """Ask questions in a conversation. `/help` lists commands, Ctrl-C stops an answer, Ctrl-D ends."""
    from localrag.cli.views.console import say
    from localrag.cli.views.editor import line_reader
    from localrag.errors import UsageError
    from localrag.library import Index

    if go_on and resume is not None:
        raise UsageError("Either --continue or --resume, not both.", "The last conversation: -c. Another: --resume N")
    chosen = engine_options(engine, deterministic=deterministic, hosts=allow_host, at_once=at_once)
    documents = selection(where, collection)
    with Index.open(index, model=model, reranker=reranker, engine=chosen, logs=not no_log) as opened:
        opened.prepare()
        talk = Talk(opened, {"mode": mode, "style": style, "strict": strict, "selection": documents})
        if go_on or resume is not None:
            talk = resumed(last_conversation(opened) if resume is None else resume, talk)
        say("Ask; /help lists commands, Ctrl-C stops an answer, Ctrl-D ends." + " Nothing is kept." * no_log)
        past = [a.question for *_, a in reversed(opened.answers(REMEMBERED))]
        _converse(talk, line_reader(past, lambda before: completions(before, opened)))


def _converse(talk: Talk, read: "Read") -> None:
    """Answer line after line until the end."""
    now: Talk | None = talk
    while now is not None and (line := _line(read, now.how["mode"])) is not None:
        now = _turn(line, now)


def _turn(line: str, talk: Talk) -> Talk | None:
    """Carry out a command or answer a question; what cannot be done is answered with why, and changes nothing. None at the end."""
    from localrag.cli.views.console import say
    from localrag.errors import LocalragError

    try:
        command = as_command(line)
        return carry_out(*command, talk) if command else _ask(line.strip(), talk)
    except LocalragError as error:
        say(f"{error} {error.hint}".strip())
    except (KeyboardInterrupt, typer.Abort):  # of a command, or at a question whether to go on
        if not sys.stdin.isatty():
            raise
        say("\nStopped.")
    return talk


def _ask(text: str, talk: Talk) -> Talk:
    """Answer a question. Ctrl-C stops this answer only; what there is of it belongs to the conversation."""
    made: list[Answer] = []
    with suppress(typer.Exit):
        ask_and_print(text, talk.index, talk.how, history=talk.answers, kept=made.append)
    return talk.after(*made)


def _line(read: "Read", mode: str) -> str | None:
    """What the person types, without blank lines; None at the end of it. On a terminal, Ctrl-C takes a line back."""
    from localrag.cli.views.console import say

    while True:
        try:
            if sys.stdin.isatty():
                sys.stderr.write("\n")
                sys.stderr.flush()
            line = read(f"{'' if mode == 'auto' else mode}> ")
        except EOFError:
            return None
        except KeyboardInterrupt:
            if not sys.stdin.isatty():
                raise
            say("/quit or Ctrl-D ends.")
            continue
        if line.strip():
            return line.rstrip()
