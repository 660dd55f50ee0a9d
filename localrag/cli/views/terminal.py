"""Terminal output and input without rich: escaping of control characters, JSON lines, the status line, the line editor."""

import io
import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TextIO

import typer

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession

    from localrag.index import Index


# Characters that control a terminal: C0 except tab and line break, DEL, C1, and marks that change the text direction.
# Surrogates, which stand for bytes of file names that are not UTF-8, cannot be encoded.
_CONTROL_CHARS = "\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff"
_TEXT_CONTROLS, _LINE_CONTROLS = re.compile(f"[{_CONTROL_CHARS}]"), re.compile(rf"[\t\n{_CONTROL_CHARS}]")
_JSON_CONTROLS = re.compile("[\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def escape_controls(text: str) -> str:
    """Replace control characters in a text by visible signs: `␛` for ESC."""
    return _TEXT_CONTROLS.sub(_sign, text)


def escape_line(text: str) -> str:
    """Replace control characters, tabs and line breaks, so that a text such as a file name stays on one line."""
    return _LINE_CONTROLS.sub(_sign, text)


def _sign(match: re.Match[str]) -> str:
    code = ord(match[0])
    return chr(0x2400 + code) if code < 0x20 else "␡" if code == 0x7F else "\ufffd"


def write_out(text: str) -> None:
    """Write a text to stdout, with control characters escaped if it is a terminal."""
    sys.stdout.write(escape_controls(text) if sys.stdout.isatty() else text)


def write_line(text: str) -> None:
    """Write a line to stdout, with control characters escaped if it is a terminal."""
    sys.stdout.write((escape_line(text) if sys.stdout.isatty() else text) + "\n")


def write_json(value: Any) -> None:
    """Write a JSON value as one line to stdout."""
    sys.stdout.write(as_json_line(value))


def write_result(value: Any, view: Callable[..., object], *shown: Any, as_json: bool) -> None:
    """Write a result as one line of JSON, or as its view prints it for people, from `shown` instead of the value if that is given."""
    if as_json:
        write_json(value)
    else:
        view(*(shown or (value,)))


def as_json_line(value: Any) -> str:
    """A JSON value as one line, with every control character escaped."""
    text = json.dumps(value, ensure_ascii=False)
    return _JSON_CONTROLS.sub(lambda match: f"\\u{ord(match[0]):04x}", text) + "\n"


class JsonEvents:
    """Whether a program reads stderr (`--progress json`): then every message is a JSON line (docs/reference/json.md)."""

    is_active = False


json_events = JsonEvents()  # there is one stderr


def write_event(event: str, **values: Any) -> None:
    """Write an event as one line of JSON to stderr."""
    sys.stderr.write(as_json_line({"event": event} | values))
    sys.stderr.flush()


def stdin_text() -> TextIO:
    """Stdin; invalid bytes become surrogates, as in arguments, instead of raising an error."""
    if isinstance(sys.stdin, io.TextIOWrapper) and sys.stdin.errors == "strict":  # must precede the first read
        sys.stdin.reconfigure(errors="surrogateescape")
    return sys.stdin


class StatusLine:
    """A temporary line on stderr with the current activity: on a terminal, or as events for a program."""

    def __init__(self) -> None:
        self._shown = False
        self.silent = False

    def show(self, text: str) -> None:
        """Show a text instead of the present one."""
        if json_events.is_active:
            write_event("status", text=text)
        elif not self.silent and sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
            self._shown = True
            sys.stderr.write(f"\r\x1b[K{escape_line(text)[: shutil.get_terminal_size().columns - 1]}")
            sys.stderr.flush()

    def clear(self) -> None:
        """Remove the line."""
        if self._shown:
            self._shown = False
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


status_line = StatusLine()  # there is one stderr


def print_note(text: str) -> None:
    """Print a line for the user on stderr, or a `message` event."""
    if json_events.is_active:
        write_event("message", text=text)
        return
    status_line.clear()
    sys.stderr.write(escape_controls(f"{text}\n"))


def confirm(question: str, *, default: bool = False) -> bool:
    """Ask the user yes or no; False without a terminal."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    status_line.clear()
    return typer.confirm(question, default=default, err=True)


def format_duration(seconds: float) -> str:
    """`95` → `1 min 35 s`."""
    whole = round(seconds)
    return f"{whole} s" if whole < 60 else f"{whole // 60} min {whole % 60} s"


@contextmanager
def quiet_exit() -> Iterator[None]:
    """Run a command; a closed pipe (`| head`) ends it with exit code 0, Ctrl-C with 130 and a message."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        for stream in (sys.stdout, sys.stderr):  # flushing the rest would fail again at exit
            _drop(stream)
        raise typer.Exit(0) from None
    except KeyboardInterrupt:
        status_line.clear()
        if json_events.is_active:
            write_event("end", state="interrupted")
        else:
            sys.stderr.write("\nStopped.\n")
        raise typer.Exit(130) from None


def _drop(stream: Any) -> None:
    try:
        stream.flush()
    except BrokenPipeError:
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


Complete = Callable[[str], Sequence[tuple[int, str]]]  # text before the cursor → (number of replaced characters, replacement)
ReadLine = Callable[[str], str]  # prompt → typed line; raises EOFError at the end of input, KeyboardInterrupt at Ctrl-C


def line_reader(history: Iterable[str], complete: Complete) -> ReadLine:
    """The reader of lines for this terminal or pipe. `history` (oldest first) can be recalled; nothing is written to a file."""
    if not sys.stdin.isatty():
        return _read_piped
    term = os.environ.get("TERM", "" if os.name == "posix" else "windows")
    stream = next((s for s in (sys.stdout, sys.stderr) if s.isatty()), None)
    if term in ("dumb", "unknown", "") or stream is None:
        return _read_plain
    return _prompt_session(history, complete, stream).prompt


def _read_piped(_prompt: str) -> str:
    line = stdin_text().readline()
    if not line:
        raise EOFError
    return line


def _read_plain(prompt: str) -> str:
    out = sys.stdout if sys.stdout.isatty() else sys.stderr
    out.write(prompt)
    out.flush()
    return _read_piped(prompt)


def _prompt_session(history: Iterable[str], complete: Complete, stream: TextIO) -> "PromptSession[str]":
    """The line editor. It has no menus and sends no queries to the terminal, since not every terminal answers."""
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
        output=output,
    )


def index_argument(opened: "Index") -> str:
    """` --index FOLDER` where a command in the working folder would not find this index, else nothing."""
    from localrag.errors import NoIndex, UsageError
    from localrag.project import find_index

    try:
        is_default = find_index(None).resolve() == opened.folder.resolve()
    except (NoIndex, UsageError):  # UsageError: others may have made it
        is_default = False
    return "" if is_default else f" --index {shlex.quote(os.path.relpath(opened.folder))}"
