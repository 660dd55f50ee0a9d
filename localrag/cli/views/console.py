"""The rich consoles: results on stdout, notes on stderr, control characters escaped."""

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from localrag.cli.views.terminal import escape_controls


class SafeConsole(Console):
    """A rich console that prints text literally: no markup, no emoji codes, and control characters escaped.

    Styles are given by rich's `Text`; control segments of the console itself are not escaped.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render with control characters escaped."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(escape_controls(segment.text), segment.style)

    def on_broken_pipe(self) -> None:
        """Raise the BrokenPipeError again, so that it is handled like that of any other write."""
        raise  # noqa: PLE0704 — within the handler of the BrokenPipeError


stdout_console = SafeConsole(soft_wrap=True)
stderr_console = SafeConsole(stderr=True)


def styled(*parts: str | tuple[str, str]) -> Text:
    """A line of texts with optional styles: `styled(("bold words", "bold"), " and plain ones")`."""
    return Text.assemble(*parts)


def stdout_at_least(columns: int) -> Console:
    """A console on stdout with at least this many columns: wrapped lines are better than truncated figures."""
    return SafeConsole(width=max(stdout_console.width, columns))
