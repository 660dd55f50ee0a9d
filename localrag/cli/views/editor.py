"""The line that a person types in `localrag chat`: edited, recalled and completed where the terminal can do that, else read as it comes.

Nothing of it is written to a file: what may be recalled is given, and what is new is recalled until the process ends.
"""

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TextIO

from localrag.cli.views.terminal import standard_input

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

Complete = Callable[[str], Sequence[tuple[int, str]]]  # text before the cursor → how many of its characters are replaced, and by what
Read = Callable[[str], str]  # what was typed behind a prompt; raises EOFError at the end of input, KeyboardInterrupt at Ctrl-C


def line_reader(history: Iterable[str], complete: Complete) -> Read:
    """How lines are read here: `history` is what the arrow keys and Ctrl-R bring back, oldest first."""
    if not sys.stdin.isatty():
        return _piped
    term = os.environ.get("TERM", "" if os.name == "posix" else "windows")
    stream = next((s for s in (sys.stdout, sys.stderr) if s.isatty()), None)
    if term in ("dumb", "unknown", "") or stream is None:
        return _typed
    return _session(history, complete, stream).prompt


def _piped(_prompt: str) -> str:
    line = standard_input().readline()
    if not line:
        raise EOFError
    return line


def _typed(prompt: str) -> str:
    """A line on a terminal that can do no more than write one after the other."""
    out = sys.stdout if sys.stdout.isatty() else sys.stderr
    out.write(prompt)
    out.flush()
    return _piped(prompt)


def _session(history: Iterable[str], complete: Complete, stream: TextIO) -> "PromptSession[str]":
    """The line on a terminal that draws it. It has no menus and asks the terminal nothing, since not every terminal answers."""
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import CompleteEvent, Completer, Completion
    from prompt_toolkit.document import Document
    from prompt_toolkit.history import InMemoryHistory
    from prompt_toolkit.output import create_output
    from prompt_toolkit.output.vt100 import Vt100_Output
    from prompt_toolkit.shortcuts import CompleteStyle

    class Words(Completer):
        def get_completions(self, document: Document, _event: CompleteEvent) -> Iterable[Completion]:
            return (Completion(text, -replaced) for replaced, text in complete(document.text_before_cursor))

    output = create_output(stream)
    if isinstance(output, Vt100_Output):
        output.enable_cpr = False
    return PromptSession(
        history=InMemoryHistory(list(history)),
        completer=Words(),
        complete_while_typing=False,
        complete_style=CompleteStyle.READLINE_LIKE,
        reserve_space_for_menu=0,
        prompt_continuation="  ",
        enable_suspend=True,
        key_bindings=_keys(),
        output=output,
    )


def _keys() -> "KeyBindings":
    """Alt-Enter begins a new line; Ctrl-C takes back what was typed, and is heard of where there is nothing."""
    from prompt_toolkit.filters import is_searching
    from prompt_toolkit.key_binding import KeyBindings

    keys = KeyBindings()

    @keys.add("escape", "enter")
    def _new_line(event: "KeyPressEvent") -> None:
        event.current_buffer.insert_text("\n")

    @keys.add("c-c", filter=~is_searching)
    @keys.add("<sigint>", filter=~is_searching)
    def _take_back(event: "KeyPressEvent") -> None:
        if event.current_buffer.text:
            event.current_buffer.reset()
        else:
            event.app.exit(exception=KeyboardInterrupt(), style="class:aborting")

    return keys
