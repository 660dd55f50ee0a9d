"""Tables for tests of the page and of MCP: of each kind, with quotes of a document, and of texts that are given."""

from localrag.analysis.tables import Cell, CellState, Column, ResultTable, TableRow, make_table
from localrag.records import Citation

OLD = "The fee is $1,200 a month. It is paid on the first day. The keys stay with the harbour master. The harbour is open in winter."
NEW = "The fee is $1,500 a month. It is paid on the first day. The harbour is closed in winter."
DOCUMENTS = {"old.txt": OLD, "new.txt": NEW}


def quote(path: str, text: str, quoted: str | None = None) -> Citation:
    """The citation of words of a document, or of a text that is said to stand there."""
    start = max(0, DOCUMENTS[path].find(text))
    return Citation(0, path, start, start + len(text), quoted or text)


def timeline() -> ResultTable:
    """Dates of every precision, one of them about right, one open."""
    dates = ["-0043", "18XX", "196X", "1967~", "1974-03", "1974-03-12", "1974-22", "1974-03-12/1974-04-02", "../1980", "1981/..", ""]
    columns = [Column("date", "date"), Column("what happened"), Column("document")]
    said = "It is paid on the first day."
    rows = [
        TableRow(
            (Cell(f"date {n}", value=date), Cell(said, (quote("old.txt", said), quote("new.txt", said))), Cell("old.txt; new.txt")), f"k{n}"
        )
        for n, date in enumerate(dates)
    ]
    return make_table("timeline", "Timeline", columns, rows)


def items() -> ResultTable:
    """Three items, of which one is shown twice."""
    said = "The keys stay with the harbour master."
    columns = [Column("item"), Column("statement"), Column("documents", "number")]
    rows = [
        TableRow(
            (Cell(f"Item {n}", confidence=0.9), Cell(said, (quote("old.txt", said), quote("new.txt", "The fee"))), Cell("2", value=2.0)),
            f"i{n}",
        )
        for n in range(3)
    ]
    return make_table("list", "All items", columns, rows, "All 12 passages that match were read.")


def comparison() -> ResultTable:
    """A changed passage, one that only the first has, one that moved, and one that contradicts."""

    def side(path: str, text: str) -> Cell:
        return Cell(text, (quote(path, text),)) if text else Cell(state=CellState.NOT_STATED)

    rows = [
        ("changed", "The fee is $1,200 a month.", "The fee is $1,500 a month.", Cell("$1,200 → $1,500")),
        ("only in first", "The keys stay with the harbour master.", "", Cell()),
        ("moved", "It is paid on the first day.", "It is paid on the first day.", Cell()),
        (
            "changed",
            "The harbour is open in winter.",
            "The harbour is closed in winter.",
            Cell("open → closed", (), CellState.CONTRADICTORY, 0.98),
        ),
    ]
    made = [TableRow((Cell(k), side("old.txt", a), side("new.txt", b), what), f"{k}-{n}") for n, (k, a, b, what) in enumerate(rows)]
    columns = [Column("kind", "choice"), Column("first passage"), Column("second passage"), Column("what changed")]
    return make_table("compare", "old.txt compared with new.txt", columns, made, "3 passages are the same.", {"same": 3, "changed": 2})


def review(n_rows: int, n_columns: int, text: str = "") -> ResultTable:
    """A review of every state of cells; with a text, all its texts are that."""
    states = list(CellState)
    columns = [Column("Document"), *(Column(text or f"Question {c}?", "date" if c % 3 else "text") for c in range(n_columns))]

    def cell(r: int, c: int) -> Cell:
        state = states[(r + c) % len(states)]
        if state is CellState.NOT_STATED:
            return Cell(state=state, confidence=0.9)
        said = "The fee is $1,200 a month."
        return Cell(text or f"Answer {r}.{c}", (quote("old.txt", said, text),), state, 0.83, note=text)

    rows = [TableRow((Cell(f"file {r}.txt"), *(cell(r, c) for c in range(n_columns))), f"folder/file {r}.txt") for r in range(n_rows)]
    return make_table("review", "Review", columns, rows)


TABLES = {"timeline": timeline, "list": items, "compare": comparison}
