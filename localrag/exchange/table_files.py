"""Tables and answers as files for other people: spreadsheets, Word, Markdown, JSON. The suffix of the file chooses the format."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from localrag.analysis.tables import Cell, ResultTable
from localrag.errors import UsageError
from localrag.exchange.cited_texts import answer_source, cell_text, marked_answer, remark, replace_marks, source
from localrag.exchange.export_folder import check_target_file
from localrag.exchange.word_file import write_word_answer, write_word_table
from localrag.exchange.workbook import write_csv, write_workbook
from localrag.records import Answer
from localrag.serializers import serialize_table
from localrag.system.files import write_atomically
from localrag.text.markdown import escape_markdown, escape_plain_text, neutralize

T = TypeVar("T")


def write_table(table: ResultTable, path: Path, *, force: bool = False) -> None:
    """Write a table to a private file by its suffix. Raises UsageError for another suffix, an existing file, too large a table; OSError."""
    check_output_file(path, force=force)
    _writer(path, _TABLE_WRITERS)(table, path)


def check_output_file(path: Path, *, force: bool = False) -> None:
    """Raises UsageError if a table cannot be written to this path, so that nothing has to be made in vain."""
    _writer(path, _TABLE_WRITERS)
    check_target_file(path, force=force)


def check_answer_file(path: Path, *, force: bool = False) -> None:
    """Raises UsageError if an answer cannot be written to this path, so that no question is asked in vain."""
    _writer(path, _ANSWER_WRITERS)
    check_target_file(path, force=force)


def write_answer(answer: Answer, path: Path, *, force: bool = False) -> None:
    """Write a question and its answer to a file, whose suffix is one of ANSWER_SUFFIXES. Raises as `write_table` does."""
    write = _writer(path, _ANSWER_WRITERS)
    check_target_file(path, force=force)
    write(answer, path)


def _writer(path: Path, writers: Mapping[str, T]) -> T:
    write = writers.get(path.suffix.lower())
    if write is None:
        kind = f"files that end with {path.suffix}" if path.suffix else "files without a suffix"
        raise UsageError(f"There is no format for {kind}.", f"Name a file that ends with one of: {' '.join(writers)}")
    return write


def table_markdown(table: ResultTable) -> str:
    """A table below its title, its note, and a footnote for each citation. Texts of documents are escaped."""
    parts = [f"# {escape_markdown(table.title)}"] if table.title else []
    if table.columns:
        rows = [_row([escape_markdown(c.title) for c in table.columns]), _row(["---"] * len(table.columns))]
        parts.append("\n".join([*rows, *(_row([_cell(cell) for cell in row.cells]) for row in table.rows)]))
    if table.note:
        parts.append(escape_markdown(table.note))
    if table.citations:
        parts.append("\n".join(f"[^{c.n}]: {escape_markdown(source(c))}" for c in table.citations))
    return "\n\n".join(parts) + "\n"


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(cell: Cell) -> str:
    text = "<br>".join(escape_markdown(line) for line in cell_text(cell).split("\n"))
    state = f" *({escape_markdown(remark(cell))})*" if remark(cell) else ""
    return text + state + " ".join(f"[^{c.n}]" for c in cell.citations)


def answer_markdown(answer: Answer) -> str:
    """A question and its answer, with a footnote for each citation. None of it can load a picture, hold HTML or hide a link."""
    text = marked_answer(answer)
    body = (escape_plain_text(text) if answer.passages else neutralize(text).text).replace("[^", "\\[^")  # no footnote of its own
    parts = [f"# {escape_markdown(answer.question)}", replace_marks(body, "[^{}]").strip()]
    if answer.note:
        parts.append(f"*{escape_markdown(answer.note)}*")
    marked = {n for _, n in answer.citation_marks}
    if others := [c for c in answer.citations if c.n not in marked]:
        parts.append("\n".join(f"- {escape_markdown(answer_source(answer, c))}" for c in others))
    if notes := [c for c in answer.citations if c.n in marked]:
        parts.append("\n".join(f"[^{c.n}]: {escape_markdown(answer_source(answer, c))}" for c in notes))
    return "\n\n".join(parts) + "\n"


def _table_json(table: ResultTable) -> str:
    return json.dumps(serialize_table(table), ensure_ascii=False, indent=1) + "\n"


def _text_writer(to_text: Callable[[T], str]) -> Callable[[T, Path], None]:
    return lambda value, path: write_atomically(path, to_text(value).encode("utf-8", "replace"))


_TABLE_WRITERS: Mapping[str, Callable[[ResultTable, Path], None]] = {
    ".csv": write_csv,
    ".xlsx": write_workbook,
    ".md": _text_writer(table_markdown),
    ".docx": write_word_table,
    ".json": _text_writer(_table_json),
}
_ANSWER_WRITERS: Mapping[str, Callable[[Answer, Path], None]] = {".md": _text_writer(answer_markdown), ".docx": write_word_answer}
TABLE_SUFFIXES, ANSWER_SUFFIXES = tuple(_TABLE_WRITERS), tuple(_ANSWER_WRITERS)
