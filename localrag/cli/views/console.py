"""The rich consoles (results on stdout, notes on stderr, control characters escaped) and the one renderer of tables."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.measure import Measurement
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from localrag.cli.views.terminal import escape_controls


class SafeConsole(Console):
    """A rich console that prints text literally: no markup, no emoji codes, and control characters escaped, but for rich's own."""

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


def print_table(heads: Sequence[str], rows: Sequence[Sequence[Any]], *, column_width: int = 0, gap: int = 0) -> None:
    """Print rows as a table, or as blocks of lines where columns would be narrower than `column_width` or words. A dash stands for None."""
    table = Table(*heads, box=None, pad_edge=False, header_style="dim", padding=(0, 2, gap, 0))
    for column in table.columns:
        column.overflow = "fold"
    cells = [[value if isinstance(value, Text) else Text("–" if value is None else str(value)) for value in row] for row in rows]
    for row in cells:
        table.add_row(*row)
    if max(_measure(table).minimum, len(heads) * column_width) <= stdout_console.width or not (column_width or stdout_console.is_terminal):
        _print_whole(table, wraps=bool(column_width))
    else:
        _print_blocks(heads, cells)


def _measure(table: Table) -> Measurement:
    return Measurement.get(stdout_console, stdout_console.options.update_width(100_000), table)


def _print_whole(table: Table, *, wraps: bool = False) -> None:
    """Print a table; in a pipe with lines as long as they are, unless it `wraps` there, too."""
    wide = not (wraps or stdout_console.is_terminal)
    (SafeConsole(width=max(stdout_console.width, _measure(table).maximum)) if wide else stdout_console).print(table)


def _print_blocks(heads: Sequence[str], rows: Sequence[Sequence[Text]]) -> None:
    for first, *others in rows:
        first.stylize("bold")
        stdout_console.print(first, soft_wrap=False, overflow="fold")
        for head, cell in zip(heads[1:], others, strict=True):
            stdout_console.print(styled((f"  {head}  ", "dim")).append_text(cell), soft_wrap=False, overflow="fold")
        stdout_console.print()


def print_rows(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print rows of the same fields as a table with the fields' names as heads; nothing without rows."""
    if rows:
        print_table([*rows[0]], [[*row.values()] for row in rows])


def print_fields(values: Mapping[str, Any]) -> None:
    """Print named values, one a line; inner ones as `name=value`."""
    table = Table.grid(padding=(0, 2, 0, 0))
    for name, value in values.items():
        shown = ", ".join(f"{k}={v}" for k, v in value.items()) if isinstance(value, Mapping) else str(value)
        table.add_row(Text(name.replace("_", " "), "dim"), Text(shown, overflow="fold"))
    _print_whole(table)
