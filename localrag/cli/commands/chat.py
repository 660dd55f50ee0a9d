"""`localrag chat`: question after question in one conversation."""

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from localrag.cli.commands.ask import ask_and_print, last_conversation
from localrag.cli.commands.look import print_citation
from localrag.cli.options import (
    AllowHostOption,
    AtOnceOption,
    DeterministicOption,
    EngineOption,
    IndexOption,
    ModelOption,
    ModeOption,
    RerankerOption,
    StrictOption,
    StyleOption,
    engine_options,
)
from localrag.text.plain import squeeze

if TYPE_CHECKING:
    from localrag.project import Project
    from localrag.query.question import Options

ENDS = ("/quit", "/exit", "/bye")
_COMMAND = re.compile(r"/(\w*)(?:\s+(.*))?$", re.DOTALL)  # not /etc/hosts, which a question may begin with
REMEMBERED = 200  # questions that the arrow keys bring back


def chat_command(
    mode: ModeOption = "auto",
    style: StyleOption = "",
    strict: StrictOption = False,
    go_on: Annotated[bool, typer.Option("--continue", "-c", help="Continue the last conversation.")] = False,
    index: IndexOption = None,
    model: ModelOption = None,
    reranker: RerankerOption = None,
    allow_host: AllowHostOption = None,
    at_once: AtOnceOption = 0,
    engine: EngineOption = "",
    deterministic: DeterministicOption = False,
) -> None:
    """Ask questions in a conversation. `/quit` ends, `/source N` opens a citation, Ctrl-C stops an answer."""
    from localrag.cli.views.console import say
    from localrag.errors import LocalragError
    from localrag.opening import open_for_questions
    from localrag.query.question import Options
    from localrag.store import ledger

    chosen = engine_options(engine, deterministic=deterministic, hosts=allow_host, at_once=at_once)
    with open_for_questions(index, model=model, reranker=reranker, engine=chosen) as project:
        options = Options(mode, style=style, strict=strict, conversation=last_conversation(project) if go_on else None)
        say("Ask; /source N opens a citation, Ctrl-C stops an answer, /quit ends.")
        for text in _lines([a.question for *_, a in reversed(ledger.answers(project.db, REMEMBERED))]):
            try:
                if command := _COMMAND.match(text):
                    _carry_out(command[1], command[2] or "", project)
                else:
                    options = _ask(text, project, options)
            except LocalragError as error:
                say(f"{error} {error.hint}".strip())


def _carry_out(command: str, argument: str, project: "Project") -> None:
    """Open a citation. Raises UsageError for what is no command."""
    from localrag.errors import UsageError

    if command != "source" or not (argument.isdecimal() or not argument):
        raise UsageError(f"There is no command /{f'{command} {argument}'.strip()}.", "Those there are: /source N, /quit.")
    print_citation(project, int(argument or 1))


def _ask(text: str, project: "Project", options: "Options") -> "Options":
    """Answer a question; the options to ask the next one with. Ctrl-C stops this answer only, which is kept as far as it has come."""
    from localrag.store import ledger

    try:
        conversation = ask_and_print(text, project, options).conversation
    except typer.Exit:
        last = ledger.last_answer(project.db)
        conversation = last.conversation if last and last.question == text else options.conversation or 0
    return replace(options, conversation=conversation or None)


def _lines(history: Sequence[str]) -> Iterator[str]:
    """What the person types until the end of it. On a terminal, Ctrl-C takes a line back."""
    from localrag.cli.views.console import say

    read = _editor(history) if sys.stdin.isatty() else sys.stdin.readline
    while True:
        try:
            line = read()
        except KeyboardInterrupt:
            if not sys.stdin.isatty():
                raise
            say("\n/quit or Ctrl-D ends.")
            continue
        if not line or line.strip() in ENDS:
            return
        if line.strip():
            yield line.strip()


def _editor(history: Sequence[str]) -> Callable[[], str]:
    """A function that reads a line that can be edited, empty at the end; the arrow keys bring back the history."""
    with suppress(ImportError):  # not everywhere
        import readline

        readline.set_history_length(REMEMBERED)
        for question in history:
            readline.add_history(squeeze(question))

    def read() -> str:
        sys.stderr.write("\n" if sys.stdout.isatty() else "\n> ")
        sys.stderr.flush()
        try:
            return input("> " if sys.stdout.isatty() else "") + "\n"
        except EOFError:
            return ""

    return read
