"""Tables made from documents, on a terminal: a grid where it fits, else a block for each row; then the quotes."""

from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table

from localrag.cli.views.answers import display_location
from localrag.cli.views.console import stdout_console, styled
from localrag.cli.views.terminal import print_note
from localrag.text.sentences import collapse_whitespace

if TYPE_CHECKING:
    from localrag.analysis.tables import Cell, ResultTable

MIN_COLUMN_WIDTH = 22  # characters that a column needs to be read
MAX_QUOTE_CHARS = 160
STATE_STYLES = {"not stated": "dim", "contradictory": "yellow", "corrected": "cyan", "approved": "green"}


def print_result_table(table: "ResultTable", root: Path) -> None:
    """Print a table with its quotes; what its reader should know goes to stderr."""
    if table.rows:
        fits = len(table.columns) * MIN_COLUMN_WIDTH <= stdout_console.width
        (_print_grid if fits else _print_blocks)(table)
    for c in table.citations:
        quote = collapse_whitespace(c.quote)
        short = quote if len(quote) <= MAX_QUOTE_CHARS else f"{quote[: MAX_QUOTE_CHARS - 1]}…"
        stdout_console.print(styled((f"[{c.n}] {display_location(c, root)}, {c.start}-{c.end}  “{short}”", "dim")))
    if table.note:
        print_note(f"\n{table.note}" if table.rows else table.note)


def _print_grid(table: "ResultTable") -> None:
    grid = Table(*(column.title for column in table.columns), box=None, pad_edge=False, header_style="dim", padding=(0, 2, 1, 0))
    for row in table.rows:
        grid.add_row(*(styled((_cell_text(cell), STATE_STYLES.get(cell.state, ""))) for cell in row.cells))
    stdout_console.print(grid)


def _print_blocks(table: "ResultTable") -> None:
    for row in table.rows:
        first, *others = row.cells
        stdout_console.print(styled((_cell_text(first), "bold")))
        for column, cell in zip(table.columns[1:], others, strict=True):
            stdout_console.print(styled((f"  {column.title}  ", "dim"), (_cell_text(cell), STATE_STYLES.get(cell.state, ""))))
        stdout_console.print()


def _cell_text(cell: "Cell") -> str:
    """The text of a cell, the numbers of its quotes, and its state unless it was simply found."""
    said = cell.text or (str(cell.state) if cell.state != "found" else "–")
    marks = "".join(f" [{c.n}]" for c in cell.citations)
    state = f" ({cell.state})" if cell.text and cell.state != "found" else ""
    return f"{said}{marks}{state}" + (f" ({cell.note})" if cell.note else "")
