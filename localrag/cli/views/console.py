"""The consoles: results on stdout, everything else on stderr, and nothing in a text that a terminal would obey."""

import sys
from collections.abc import Iterable
from typing import Any

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from localrag.cli.views.terminal import listener, status, visible, write_event


class Safe(Console):
    """A console on which texts are shown as they are: no markup, no emoji codes, and nothing in them that a terminal would obey.

    Styles are given by `Text`; the console's own orders to the terminal are no text.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """As Console has it, made safe."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)

    def on_broken_pipe(self) -> None:
        """Called where the pipe is gone: the command ends as it does at any other write."""
        raise  # noqa: PLE0704 — within the handler of the BrokenPipeError


out = Safe(soft_wrap=True)
err = Safe(stderr=True)


def say(text: str) -> None:
    """A line for the person at the terminal, on stderr."""
    if listener.on:
        write_event("message", text=text)
        return
    status.clear()
    err.print(text, soft_wrap=True)


def styled(*parts: str | tuple[str, str]) -> Text:
    """A line of texts, some with their style: `styled(("bold words", "bold"), " and plain ones")`."""
    return Text.assemble(*parts)


def wide(columns: int) -> Console:
    """Stdout with at least so many columns: figures cut off are worse than lines that wrap."""
    return Safe(width=max(out.width, columns))


def confirmed(question: str, *, default: bool = False) -> bool:
    """Whether a person says yes; no where nobody can be asked."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    status.clear()
    return typer.confirm(question, default=default, err=True)


def duration(seconds: float) -> str:
    """`95` → `1 min 35 s`."""
    whole = round(seconds)
    return f"{whole} s" if whole < 60 else f"{whole // 60} min {whole % 60} s"
