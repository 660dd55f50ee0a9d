"""The output boundary: what of a text may reach a terminal, plain and JSON lines on stdout, and the status line on stderr."""

import io
import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO

import typer

# Everything a terminal may take for an order: C0 but for tab and line break, DEL, C1, marks that turn the direction of what follows.
# Halves of characters, which stand for bytes of file names that are no UTF-8, cannot be written at all.
_ORDERS = "\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff"
_IN_TEXT, _IN_LINE = re.compile(f"[{_ORDERS}]"), re.compile(rf"[\t\n{_ORDERS}]")
_IN_JSON = re.compile("[\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: str) -> str:
    """The text with a sign for each character that a terminal would obey: `␛` for ESC."""
    return _IN_TEXT.sub(_sign, text)


def in_line(text: str) -> str:
    """As `visible`, for what has to stay on one line, such as a file's name."""
    return _IN_LINE.sub(_sign, text)


def _sign(found: re.Match[str]) -> str:
    code = ord(found[0])
    return chr(0x2400 + code) if code < 0x20 else "␡" if code == 0x7F else "\ufffd"


def write_out(text: str) -> None:
    """Text on stdout, as it is; on a terminal nothing in it is obeyed."""
    sys.stdout.write(visible(text) if sys.stdout.isatty() else text)


def write_line(text: str) -> None:
    """As `write_out`, a line."""
    sys.stdout.write((in_line(text) if sys.stdout.isatty() else text) + "\n")


def write_json(value: Any) -> None:
    """A JSON value on a line of stdout."""
    sys.stdout.write(as_json_line(value))


def as_json_line(value: Any) -> str:
    """A JSON value as a line; what a terminal would obey is escaped, as JSON itself does with some of it."""
    text = json.dumps(value, ensure_ascii=False)
    return _IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n"


class Listener:
    """Whether a program reads stderr (`--progress json`): then all that is said there is an event on a line, docs/reference/json.md."""

    on = False


listener = Listener()  # there is one stderr


def write_event(event: str, **values: Any) -> None:
    """An event on a line of stderr."""
    sys.stderr.write(as_json_line({"event": event} | values))
    sys.stderr.flush()


def standard_input() -> TextIO:
    """Stdin; bytes in it that are no text of its encoding are halves of characters, as in arguments, and end nothing by themselves."""
    if isinstance(sys.stdin, io.TextIOWrapper) and sys.stdin.errors == "strict":  # before anything is read
        sys.stdin.reconfigure(errors="surrogateescape")
    return sys.stdin


class Status:
    """A line on stderr that says what is being done, and is gone when there is something to show; only on a terminal, or to a program."""

    def __init__(self) -> None:
        self._shown = False
        self.silent = False

    def show(self, text: str) -> None:
        """Put a text in the line's place."""
        if listener.on:
            write_event("status", text=text)
        elif not self.silent and sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
            self._shown = True
            sys.stderr.write(f"\r\x1b[K{in_line(text)[: shutil.get_terminal_size().columns - 1]}")
            sys.stderr.flush()

    def clear(self) -> None:
        """Take the line away."""
        if self._shown:
            self._shown = False
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


status = Status()  # there is one stderr


@contextmanager
def ends_quietly() -> Iterator[None]:
    """Where a command runs: a reader that has gone (`| head`) ends it with 0, Ctrl-C with 130 and a word."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        for stream in (sys.stdout, sys.stderr):  # what is left in them would fail again when the interpreter ends
            _drop(stream)
        raise typer.Exit(0) from None
    except KeyboardInterrupt:
        status.clear()
        if listener.on:
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
