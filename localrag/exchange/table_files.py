"""Tables and answers as files for other people: spreadsheets, Word, Markdown, JSON. The suffix of the file chooses the format."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from localrag.analysis.calendar_file import timeline_to_ics
from localrag.analysis.tables import ResultTable
from localrag.errors import UsageError
from localrag.exchange.export_folder import check_target_file
from localrag.exchange.markdown_file import answer_markdown, table_markdown
from localrag.exchange.word_file import write_word_answer, write_word_table
from localrag.exchange.workbook import write_csv, write_workbook
from localrag.records import Answer
from localrag.serializers import serialize_table
from localrag.system.files import write_atomically

T = TypeVar("T")


def write_table(table: ResultTable, path: Path, *, force: bool = False) -> None:
    """Write a table to a file, whose suffix is one of TABLE_SUFFIXES, or .ics for a timeline; only its owner can read it.

    Raises UsageError for another suffix, if the file exists and `force` is not set, or if the table is too large for the format; OSError.
    """
    check_output_file(path, table.kind, force=force)
    _writer(path, _writers_of(table.kind))(table, path)


def check_output_file(path: Path, kind: str = "", *, force: bool = False) -> None:
    """Raises UsageError if a table of a kind cannot be written to this path, so that nothing has to be made in vain."""
    _writer(path, _writers_of(kind))
    check_target_file(path, force=force)


def _writers_of(kind: str) -> Mapping[str, Callable[[ResultTable, Path], None]]:
    return {**_TABLE_WRITERS, ".ics": _write_calendar} if kind == "timeline" else _TABLE_WRITERS


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


def _write_markdown(table: ResultTable, path: Path) -> None:
    write_atomically(path, table_markdown(table).encode("utf-8", "replace"))


def _write_json(table: ResultTable, path: Path) -> None:
    write_atomically(path, (json.dumps(serialize_table(table), ensure_ascii=False, indent=1) + "\n").encode("utf-8", "replace"))


def _write_calendar(table: ResultTable, path: Path) -> None:
    write_atomically(path, timeline_to_ics(table).encode("utf-8", "replace"))


def _write_answer_markdown(answer: Answer, path: Path) -> None:
    write_atomically(path, answer_markdown(answer).encode("utf-8", "replace"))


_TABLE_WRITERS: Mapping[str, Callable[[ResultTable, Path], None]] = {
    ".csv": write_csv,
    ".xlsx": write_workbook,
    ".md": _write_markdown,
    ".docx": write_word_table,
    ".json": _write_json,
}
_ANSWER_WRITERS: Mapping[str, Callable[[Answer, Path], None]] = {".md": _write_answer_markdown, ".docx": write_word_answer}
TABLE_SUFFIXES, ANSWER_SUFFIXES = tuple(_TABLE_WRITERS), tuple(_ANSWER_WRITERS)
