"""What a line of `localrag chat` may ask for besides an answer: lines that begin with a slash and the name of a command."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from localrag.cli.commands.look import print_citation
from localrag.cli.options import MODES

if TYPE_CHECKING:
    from localrag.library import Asking, Index
    from localrag.records import Answer

_COMMAND = re.compile(r"/([A-Za-z]*)(?:\s+(.*))?$", re.DOTALL)  # not /etc/hosts, which a question may begin with
LISTED = 20  # conversations
OFFERED = 20  # names of entities that a beginning is completed to


@dataclass(frozen=True, slots=True)
class Talk:
    """A conversation under way: what is asked, how, and the answers so far, oldest first, whether or not the index keeps them."""

    index: "Index"
    how: "Asking"
    answers: "tuple[Answer, ...]" = ()

    def after(self, *new: "Answer") -> "Talk":
        """The conversation with more answers; the index may have given it a number by them."""
        number = next((a.conversation for a in reversed(new) if a.conversation), None) or self.how.get("conversation")
        return replace(self, answers=(*self.answers, *new), how={**self.how, "conversation": number})


def as_command(line: str) -> tuple[str, str] | None:
    """A line as the name of a command and its argument; None where it is a question."""
    found = _COMMAND.match(line)
    return (found[1].lower(), (found[2] or "").strip()) if found else None


def carry_out(name: str, argument: str, talk: Talk) -> Talk | None:
    """The conversation after a command; None where it ends there. Raises UsageError, LocalragError."""
    from localrag.errors import UsageError

    name = "quit" if name in ("exit", "bye") else name
    if name not in COMMANDS:
        near = _near(name, list(COMMANDS), "/")
        raise UsageError(f"There is no command /{name}.", f"{near}All: /help. A question that begins so has a space before it.")
    return COMMANDS[name].run(argument, talk)


def _near(name: str, known: list[str], before: str = "") -> str:
    from rapidfuzz.process import extractOne

    found = extractOne(name, known, score_cutoff=60)
    return f"Did you mean {before}{found[0]}? " if found else ""


def _help(_argument: str, talk: Talk) -> Talk:
    from localrag.cli.views.console import out

    width = max(len(c.usage) for c in COMMANDS.values())
    for command in COMMANDS.values():
        out.print(f"{command.usage:<{width}}  {command.help}")
    out.print(f"\nmodes: {', '.join(MODES)}")
    out.print("Tab completes commands, modes and names of entities.\nUp, Down and Ctrl-R recall questions.")
    out.print("Alt-Enter begins a new line; a paste is one question.\nCtrl-C stops an answer or takes a line back. Ctrl-D ends.")
    return talk


def _mode(argument: str, talk: Talk) -> Talk:
    from localrag.cli.views.console import say
    from localrag.errors import UsageError

    if argument and argument not in MODES:
        raise UsageError(f"There is no mode {argument!r}.", f"{_near(argument, list(MODES))}Modes: {', '.join(MODES)}")
    mode = argument or talk.how["mode"]
    say(f"mode: {mode}" if argument else f"mode: {mode}; there are {', '.join(MODES)}")
    return replace(talk, how={**talk.how, "mode": mode})


def _source(argument: str, talk: Talk) -> Talk:
    from localrag.errors import UsageError

    if argument and not argument.isdecimal():
        raise UsageError(f"/source takes the number of a citation, not {argument!r}.", "For example: /source 1")
    last = talk.answers[-1] if talk.answers else talk.index.last_answer()
    print_citation(talk.index, last, int(argument or 1), "/source")
    return talk


def _entity(argument: str, talk: Talk) -> Talk:
    from localrag.cli.views.contents import entity_json, print_entity
    from localrag.errors import UsageError

    if not argument:
        raise UsageError("Name an entity.", "For example: /entity Ingrid Holm")
    for one in talk.index.describe(argument):
        print_entity(entity_json(one, talk.index.root))
    return talk


def _sessions(_argument: str, talk: Talk) -> Talk:
    from localrag.cli.views.conversations import print_conversations

    print_conversations(talk.index.conversations(LISTED), talk.how.get("conversation"))
    return talk


def _resume(argument: str, talk: Talk) -> Talk:
    from localrag.errors import UsageError

    if not argument.isdecimal():
        raise UsageError("Name a conversation by its number.", "Those there are: /sessions")
    return resumed(int(argument), talk)


def resumed(number: int, talk: Talk) -> Talk:
    """A conversation of the index, gone on with. Raises UsageError where there is none of that number."""
    from localrag.cli.commands.sessions import conversation_of
    from localrag.cli.views.console import say

    answers = tuple(made for _, made in conversation_of(talk.index, number))
    many = f"{len(answers)} answer{'s' * (len(answers) != 1)}"
    say(f"Conversation {number} goes on: “{answers[0].question}”, {many}.")
    return replace(talk, answers=answers, how={**talk.how, "conversation": number})


def _save(argument: str, talk: Talk) -> Talk:
    from localrag.cli.views.console import confirmed, say
    from localrag.cli.views.conversations import conversation_markdown
    from localrag.errors import LocalragError, UsageError
    from localrag.system.files import replace_file

    if not argument:
        raise UsageError("Name a file.", "For example: /save ferry.md")
    if not talk.answers:
        raise UsageError("There is nothing to save: no question was answered yet.", "Go on with an earlier conversation: /sessions")
    path = Path(argument).expanduser()
    try:
        if path.exists() and (path.is_dir() or not confirmed(f"{path} exists. Replace it?")):
            raise UsageError(f"{path} exists and stays as it is.", "Name another file: /save FILE")
        replace_file(path, conversation_markdown(talk.answers, talk.index.root).encode("utf-8", "replace"))
    except OSError as error:
        raise LocalragError(f"{path} cannot be written: {error.strerror}.", "Name another file: /save FILE") from error
    say(f"{len(talk.answers)} answer{'s' * (len(talk.answers) != 1)} in {path}")
    return talk


@dataclass(frozen=True, slots=True)
class Command:
    """A command: how it is written, what it does, and the function that carries it out (see `carry_out`)."""

    usage: str
    help: str
    run: Callable[[str, Talk], Talk | None]


COMMANDS = {
    "help": Command("/help", "this list", _help),
    "mode": Command("/mode [NAME]", "show or choose the query mode", _mode),
    "source": Command("/source [N]", "the passage behind a citation", _source),
    "entity": Command("/entity NAME", "what is said of an entity", _entity),
    "sessions": Command("/sessions", "past conversations", _sessions),
    "resume": Command("/resume N", "go on with one of them", _resume),
    "save": Command("/save FILE", "write this conversation as Markdown", _save),
    "quit": Command("/quit", "end; so does Ctrl-D", lambda _argument, _talk: None),
}


def completions(before: str, index: "Index") -> list[tuple[int, str]]:
    """What the text before the cursor may be completed to: how many of its characters are replaced, and by what."""
    if before.startswith("/") and not any(c.isspace() for c in before):
        return [(len(before), f"/{name}") for name in COMMANDS if f"/{name}".startswith(before.lower())]
    name, argument = as_command(before) or ("", "")
    if name == "mode":
        return [(len(argument), mode) for mode in MODES if mode.startswith(argument)]
    if name == "resume":
        return [(len(argument), str(row["id"])) for row in index.conversations(LISTED) if str(row["id"]).startswith(argument)]
    if name and name != "entity":
        return []
    words = [found.start() for found in re.finditer(r"\S+", argument if name else before)][-3:]
    text = argument if name else before
    for begun in (text[start:] for start in words):  # names of several words first: "Lars H"
        names = index.names(begun, OFFERED) if len(begun) > 1 and begun == begun.strip() else []
        if fit := [n for n in names if n.lower().startswith(begun.lower()) and n.isprintable()]:
            return [(len(begun), n) for n in fit]
    return []
