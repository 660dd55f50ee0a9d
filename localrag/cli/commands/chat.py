"""`localrag chat`, with its slash commands, and `localrag sessions`."""

import re
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Any

import typer

import localrag
from localrag.cli.commands.ask import HOW_OPTIONS, GoOnOption, ask_and_print, last_conversation, open_to_ask
from localrag.cli.commands.inspect import print_citation, writable
from localrag.cli.options import (
    FILTER_OPTIONS,
    MODEL_OPTIONS,
    IndexOption,
    JsonOption,
    NoHistoryOption,
    OptionValues,
    document_filter,
    joined_words,
    with_options,
)
from localrag.cli.views.terminal import confirm, line_reader, print_note, write_result
from localrag.errors import LocalragError, UsageError
from localrag.settings import QUERY_MODES

if TYPE_CHECKING:
    from localrag.cli.views.terminal import ReadLine
    from localrag.index import Index
    from localrag.records import Answer


_COMMAND = re.compile(r"/([A-Za-z]*)(?:\s+(.*))?$", re.DOTALL)  # does not match /etc/hosts, which may begin a question


@dataclass(frozen=True, slots=True)
class ChatSession:
    """A running conversation: the index, query options, and the answers so far (oldest first), also if they are not stored."""

    index: "Index"
    how: dict[str, Any]
    answers: "tuple[Answer, ...]" = ()

    def after(self, *new: "Answer") -> "ChatSession":
        """The conversation with further answers, and with the number that the index gave it."""
        number = next((a.conversation for a in reversed(new) if a.conversation), None) or self.how.get("conversation")
        return replace(self, answers=(*self.answers, *new), how={**self.how, "conversation": number})


def parse_command(line: str) -> tuple[str, str] | None:
    """Name and argument of a slash command, or None if the line is a question."""
    match = _COMMAND.match(line)
    return (match[1].lower(), (match[2] or "").strip()) if match else None


def run_command(name: str, argument: str, talk: ChatSession) -> ChatSession | None:
    """Run a slash command; return the conversation after it, or None to end. Raises UsageError and LocalragError."""
    name = "quit" if name in ("exit", "bye") else name
    if name not in COMMANDS:
        near = _near(name, COMMANDS, "/")
        raise UsageError(
            f"There is no command /{name}.", f"{near}All: /help. To ask a question that begins with a slash, put a space before it."
        )
    return COMMANDS[name].run(argument, talk)


def _near(name: str, choices: Iterable[str], before: str = "") -> str:
    match = get_close_matches(name, choices, n=1)
    return f"Did you mean {before}{match[0]}? " if match else ""


def _help(_argument: str, talk: ChatSession) -> ChatSession:
    from localrag.cli.views.console import stdout_console

    width = max(len(c.usage) for c in COMMANDS.values())
    for command in COMMANDS.values():
        stdout_console.print(f"{command.usage:<{width}}  {command.help}")
    stdout_console.print(f"\nmodes: {', '.join(QUERY_MODES)}")
    stdout_console.print("Tab completes commands and modes.\nUp, Down and Ctrl-R recall questions. Pasted text is one question.")
    stdout_console.print("Ctrl-C stops an answer or discards a line. Ctrl-D ends.")
    return talk


def _mode(argument: str, talk: ChatSession) -> ChatSession:
    if argument and argument not in QUERY_MODES:
        raise UsageError(f"There is no mode {argument!r}.", f"{_near(argument, QUERY_MODES)}Modes: {', '.join(QUERY_MODES)}")
    mode = argument or talk.how["mode"]
    print_note(f"mode: {mode}" if argument else f"mode: {mode}; there are {', '.join(QUERY_MODES)}")
    return replace(talk, how={**talk.how, "mode": mode})


def _source(argument: str, talk: ChatSession) -> ChatSession:
    if argument and not argument.isdecimal():
        raise UsageError(f"/source takes the number of a citation, not {argument!r}.", "For example: /source 1")
    last = talk.answers[-1] if talk.answers else talk.index.last_answer()
    print_citation(talk.index, last, int(argument or 1), "/source")
    return talk


def resume_session(number: int, talk: ChatSession) -> ChatSession:
    """Continue a stored conversation. Raises UsageError for an unknown number."""
    answers = tuple(answer for _, answer in conversation_of(talk.index, number))
    many = f"{len(answers)} answer{'s' * (len(answers) != 1)}"
    print_note(f"Conversation {number} goes on: “{answers[0].question}”, {many}.")
    return replace(talk, answers=answers, how={**talk.how, "conversation": number})


@dataclass(frozen=True, slots=True)
class SlashCommand:
    """A slash command: its usage and help, and the function that runs it (see `run_command`)."""

    usage: str
    help: str
    run: Callable[[str, ChatSession], ChatSession | None]


COMMANDS = {
    "help": SlashCommand("/help", "this list", _help),
    "mode": SlashCommand("/mode [NAME]", "show or choose the query mode", _mode),
    "source": SlashCommand("/source [N]", "the passage behind a citation", _source),
    "quit": SlashCommand("/quit", "end; so does Ctrl-D", lambda _argument, _talk: None),
}


def completions(before: str) -> list[tuple[int, str]]:
    """Completions of a command or mode before the cursor, as (number of replaced characters, replacement)."""
    if before.startswith("/") and not any(c.isspace() for c in before):
        return [(len(before), f"/{name}") for name in COMMANDS if f"/{name}".startswith(before.lower())]
    name, argument = parse_command(before) or ("", "")
    return [(len(argument), mode) for mode in QUERY_MODES if mode.startswith(argument)] if name == "mode" else []


MAX_HISTORY_LINES = 200  # questions recalled by the arrow keys


@with_options("how", **{name: HOW_OPTIONS[name] for name in ("mode", "style", "strict")})
@with_options("selected", **FILTER_OPTIONS)
@with_options("opening", **MODEL_OPTIONS)
def chat_command(
    *,
    how: OptionValues,
    selected: OptionValues,
    go_on: GoOnOption = False,
    resume: Annotated[
        int | None, typer.Option("--resume", metavar="N", help="Continue a conversation of `localrag sessions list`.")
    ] = None,
    no_history: NoHistoryOption = False,
    opening: OptionValues,
) -> None:
    """Ask questions in a conversation. `/help` lists commands, Ctrl-C stops an answer, Ctrl-D ends."""
    if go_on and resume is not None:
        raise UsageError("Either --continue or --resume, not both.", "The last conversation: -c. Another: --resume N")
    chosen = {**how, "selection": document_filter(selected)}
    with open_to_ask(opening, no_history=no_history) as opened:
        talk = ChatSession(opened, chosen)
        if go_on or resume is not None:
            talk = resume_session(last_conversation(opened) if resume is None else resume, talk)
        print_note("Ask a question. /help lists commands, Ctrl-C stops an answer, Ctrl-D ends." + " Nothing is kept." * no_history)
        past = [a.question for *_, a in reversed(opened.answers(MAX_HISTORY_LINES))]
        _chat_loop(talk, line_reader(past, completions))


def _chat_loop(talk: ChatSession, read: "ReadLine") -> None:
    now: ChatSession | None = talk
    while now is not None and (line := _read_line(read, now.how["mode"])) is not None:
        now = _handle_line(line, now)


def _handle_line(line: str, talk: ChatSession) -> ChatSession | None:
    """Run a command or answer a question, and return the conversation, or None to end. An error is printed and changes nothing."""
    try:
        command = parse_command(line)
        return run_command(*command, talk) if command else _ask(line.strip(), talk)
    except LocalragError as error:
        print_note(f"{error} {error.hint}".strip())
    except (KeyboardInterrupt, typer.Abort):  # from a command, or from a confirmation
        if not sys.stdin.isatty():
            raise
        print_note("\nStopped.")
    return talk


def _ask(text: str, talk: ChatSession) -> ChatSession:
    """Answer a question. Ctrl-C stops only this answer; its finished part belongs to the conversation."""
    answers: list[Answer] = []
    with suppress(typer.Exit):
        ask_and_print(text, talk.index, talk.how, history=talk.answers, kept=answers.append)
    return talk.after(*answers)


def _read_line(read: "ReadLine", mode: str) -> str | None:
    """Read the next line that is not blank; None at the end of input. On a terminal, Ctrl-C discards the line."""
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
            print_note("/quit or Ctrl-D ends.")
            continue
        if line.strip():
            return line.rstrip()


NO_LIMIT = 1 << 30  # of conversations
NumberArgument = Annotated[int, typer.Argument(metavar="N", help="Number shown by `localrag sessions list`.")]

sessions_app = typer.Typer(no_args_is_help=True, help="List, search, show and delete conversations. Continue one: localrag chat --resume N")


@sessions_app.command("list")
def list_sessions_command(
    n: Annotated[int, typer.Option("-n", min=1, help="Number of conversations, newest first.")] = 20,
    programs: Annotated[bool, typer.Option("--programs", help="Those of programs (localrag serve, MCP) instead of your own.")] = False,
    index: IndexOption = None,
    as_json: JsonOption = False,
) -> None:
    """List conversations: number, first question, how many answers, when."""
    from localrag.cli.views.answers import print_conversations

    rows = localrag.Index.open(index).conversations(n, by_program=programs)
    write_result(rows, print_conversations, as_json=as_json)


@sessions_app.command("search")
def search_command(
    words: Annotated[list[str], typer.Argument(metavar="TEXT…", help="Words that all occur in a question or its answer.")],
    index: IndexOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find conversations by words in their questions and answers."""
    from localrag.cli.views.answers import print_hits

    if not (text := joined_words(words)).strip():
        raise UsageError("There is nothing to search for.", 'Name some words: localrag sessions search "ferry"')
    hits = localrag.Index.open(index).search_conversations(text)
    write_result(hits, print_hits, as_json=as_json)


@sessions_app.command("show")
def show_session_command(
    number: NumberArgument,
    index: IndexOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print a conversation: questions, answers, citations."""
    from localrag.cli.views.answers import print_past_answers
    from localrag.cli.views.contents import log_json

    opened = localrag.Index.open(index)
    answers = conversation_of(opened, number)
    rows = [log_json(answer.id, at, answer, opened.root) for at, answer in answers]
    write_result(rows, print_past_answers, answers, opened.root, as_json=as_json)


def conversation_of(index: "Index", number: int) -> "list[tuple[str, Answer]]":
    """The answers of a conversation with their times, oldest first. Raises UsageError for an unknown number."""
    answers = index.conversation(number)
    if not answers:
        raise UsageError(f"There is no conversation {number}.", "List them: localrag sessions list")
    return answers


@sessions_app.command("rm")
def remove_sessions_command(
    numbers: Annotated[list[int] | None, typer.Argument(metavar="N…", help="Numbers shown by `localrag sessions list`.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Delete every conversation.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    index: IndexOption = None,
) -> None:
    """Delete conversations and every copy of their text in the index."""
    from localrag.store import answers, erasure

    if numbers and everything:
        raise UsageError("Either numbers or --all, not both.", "List them: localrag sessions list")
    with writable(index) as (db, folder):
        deleted = _selected_sessions(
            [row["id"] for who in (False, True) for row in answers.conversations(db, NO_LIMIT, by_program=who)],
            numbers or (),
            is_pending=erasure.is_conversation_erasure_pending(db),
            all_=everything,
        )
        if everything and not yes and not confirm(f"Delete all {len(deleted)} conversations?"):
            raise UsageError(
                f"All {len(deleted)} conversations would be deleted; nothing was.", "To delete them: localrag sessions rm --all --yes"
            )
        erasure.erase_conversations(db, folder, deleted)
    print_note(f"{len(deleted)} conversation{'s are' if len(deleted) != 1 else ' is'} deleted; no copy of the text is left in the index.")


def _selected_sessions(existing: Sequence[int], numbers: Sequence[int], *, is_pending: bool, all_: bool) -> list[int]:
    """May be empty if an earlier deletion is pending. Raises UsageError."""
    if not numbers and not all_ and not is_pending:
        raise UsageError("Name the conversations to delete: numbers, or --all.", "List them: localrag sessions list")
    if unknown := [n for n in numbers if n not in existing]:
        raise UsageError(f"There is no conversation {unknown[0]}.", "List them: localrag sessions list")
    return list(existing if all_ else dict.fromkeys(numbers))
