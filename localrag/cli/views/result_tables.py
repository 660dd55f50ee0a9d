"""Tables made from documents, on a terminal: a grid where it fits, else a block for each row; then the quotes."""

from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from localrag.cli.views.answers import display_location, shorten
from localrag.cli.views.console import print_table, stdout_console, styled
from localrag.cli.views.terminal import print_note

if TYPE_CHECKING:
    from localrag.analysis.tables import Cell, ResultTable

MIN_COLUMN_WIDTH = 22  # characters that a column needs to be read
MAX_QUOTE_CHARS = 160
STATE_STYLES = {"not stated": "dim", "contradictory": "yellow", "corrected": "cyan", "approved": "green"}


def print_result_table(table: "ResultTable", root: Path) -> None:
    """Print a table with its quotes; what its reader should know goes to stderr."""
    if table.rows:
        rows = [[_cell_text(cell) for cell in row.cells] for row in table.rows]
        print_table([column.title for column in table.columns], rows, column_width=MIN_COLUMN_WIDTH, gap=1)
    for c in table.citations:
        place, quote = display_location(c, root), shorten(c.quote, MAX_QUOTE_CHARS)
        stdout_console.print(styled((f"[{c.n}] {place}, {c.start}-{c.end}  “{quote}”", "dim")))
    if table.note:
        print_note(f"\n{table.note}" if table.rows else table.note)


def _cell_text(cell: "Cell") -> Text:
    said = cell.text or (str(cell.state) if cell.state != "found" else "–")
    marks = "".join(f" [{c.n}]" for c in cell.citations)
    state = f" ({cell.state})" if cell.text and cell.state != "found" else ""
    return Text(f"{said}{marks}{state}" + (f" ({cell.note})" if cell.note else ""), STATE_STYLES.get(cell.state, ""))
