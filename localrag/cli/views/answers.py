"""Printing of answers, their citations and passages, conversations, and tables made from documents."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

from localrag import serializers
from localrag.cli.views.console import print_table, stdout_console, styled
from localrag.cli.views.markdown import STATE_COLORS, MarkdownPrinter, mark_states
from localrag.cli.views.terminal import escape_line, print_note, status_line
from localrag.filters import DocumentFilter
from localrag.query.citations import escape_marks
from localrag.records import (
    CONTRADICTED_STATE,
    RELATED_STATE,
    SUPPORTED_STATE,
    Answer,
    AnswerPassage,
    Chunk,
    Citation,
)
from localrag.text.sentences import collapse_whitespace

if TYPE_CHECKING:
    from localrag.analysis.tables import Cell, ResultTable


class AnswerStream:
    """Prints an answer while it is written, if `live`; otherwise only collects it in `heard`.

    On a terminal its Markdown has styles; elsewhere, or with NO_COLOR, it is printed as it is. Passages of documents are no Markdown: their
    lines stay as they are, with the short answers marked.
    """

    def __init__(self, *, live: bool) -> None:
        self.live, self.heard = live, ""
        self._is_styled = stdout_console.is_terminal and not (stdout_console.no_color or stdout_console.is_dumb_terminal)
        self._printer = MarkdownPrinter()
        self._next_passage: AnswerPassage | None = None

    def add_passage(self, passage: AnswerPassage) -> None:
        """Take a passage whose text comes next."""
        self._next_passage = passage

    def show_status(self, text: str) -> None:
        """Show what is being done, unless a line of the answer stands where it would be shown."""
        if not (self.live and self._printer.line):
            status_line.show(text)

    def write(self, text: str) -> None:
        """Add and print the next part of the answer."""
        self.heard += text
        passage, self._next_passage = self._next_passage, None
        if not self.live:
            return
        if passage and stdout_console.is_terminal:
            self._printer.print(_mark_answer(_bold_titles(text), passage))
        elif self._is_styled:
            self._printer.write(text)
        else:
            self._printer.print(text)

    def stop(self) -> None:
        """Print what was held back."""
        if self.live:
            self._printer.finish()

    def finish(self, answer: str) -> None:
        """Print the part of the final answer that was not printed yet, or all of it if it differs from the printed part."""
        if not answer.startswith(self.heard):  # the final answer was reworded
            self._printer.print("\n\n")
            self.heard = ""
        self.write(answer[len(self.heard) :] + "\n")
        self.stop()


def print_markdown(text: str) -> None:
    """Print a Markdown text, with styles on a terminal."""
    AnswerStream(live=True).finish(text)


def display_path(path: str, root: Path) -> str:
    """A stored path as the user would type it: relative if it is below the working folder."""
    full = root / path
    return os.path.relpath(full) if full.is_relative_to(Path.cwd()) else str(full)


def display_location(citation: Citation, root: Path) -> str:
    """File, part and headings of a citation: `report.pdf › page 3 › Costs`."""
    return escape_line(citation.place(display_path(citation.path, root)))


FIRST_KEYS = ("answer", "mode", "level", "citations", "calls", "prompt_tokens", "output_tokens", "seconds")


def answer_json(answer: Answer, root: Path) -> dict[str, Any]:
    """The answer as `--json` prints it, its Markdown neutralized."""
    row = serializers.serialize_answer(answer)
    shown = {key: [one | {"path": display_path(one["path"], root)} for one in row[key]] for key in ("citations", "passages")}
    return {key: row[key] for key in (*FIRST_KEYS, *row) if key not in ("id", "at", "segments")} | shown


def print_answer(answer: Answer, root: Path, stream: AnswerStream, opens: str = "localrag source 1") -> None:
    """Print the answer and its citations, then mode and cost on stderr. `opens` is the command that shows a source."""
    stream.finish(answer.answer)
    if answer.citations:
        stdout_console.print()
    _print_citations(answer, root)
    level = f", level {answer.level}" if answer.level is not None else ""
    note = f"\n{answer.note}" if answer.note else ""
    cost = f"{answer.llm_calls} calls, {answer.prompt_tokens + answer.output_tokens} tokens, " if answer.llm_calls else ""
    if answer.standalone_question not in ("", answer.question):
        print_note(f"\nunderstood as: {answer.standalone_question}")
    if chosen := DocumentFilter(answer.filter_text, answer.collections):
        print_note(f"\ndocuments: {chosen}")
    mode = f"{answer.mode} ({answer.reason})" if answer.reason else answer.mode
    hint = f" · open a source: {opens}" if opens and answer.citations else ""
    print_note(f"\nmode: {mode}{level} · {answer.style} · {cost}{answer.seconds:.1f} s{hint}{note}")


def _print_citations(answer: Answer, root: Path) -> None:
    for c in answer.citations:
        state = _state(answer, c)
        place = f"[{c.n}] {display_location(c, root)}, {c.start}-{c.end}  “{shorten(c.quote, MAX_QUOTE_CHARS)}”"
        stdout_console.print(styled((place, "dim"), (state, STATE_COLORS.get(state.strip(), ""))))


_STATE_NOTES = {
    RELATED_STATE: "Related: the source is about the topic of the sentence, but does not support it.",
    CONTRADICTED_STATE: "Contradicted: the source differs from the sentence.",
}


def _bold_titles(text: str) -> Text:
    lines = text.split("\n")
    shown = Text("\n").join(Text(t[2:-2], "bold") if len(t) > 4 and t.startswith("**") and t.endswith("**") else Text(t) for t in lines)
    return mark_states(shown)


def _mark_answer(shown: Text, passage: AnswerPassage) -> Text:
    at = shown.plain.find(escape_marks(passage.text))
    if passage.marked and at >= 0:
        start, end = (at + len(escape_marks(passage.text[:offset])) for offset in passage.marked)
        shown.stylize("bold underline", start, end)
    return shown


def print_source(citation: Citation, chunk: Chunk | None, root: Path, state: str = SUPPORTED_STATE) -> None:
    """Print the chunk of a citation with the quote marked (only the quote if the chunk is None), and a note if its `state` is no proof."""
    cited = replace(citation, headings=chunk.headings) if chunk else citation
    stdout_console.print(styled((display_location(cited, root), "bold"), f", characters {citation.start}-{citation.end}\n"))
    if state in _STATE_NOTES:
        stdout_console.print(styled((f"{_STATE_NOTES[state]}\n", STATE_COLORS[state])))
    if chunk is None:
        stdout_console.print(citation.quote)
        return
    a, b = citation.start - chunk.start, citation.end - chunk.start
    stdout_console.print(styled(chunk.text[:a], (chunk.text[a:b], "reverse"), chunk.text[b:]))


def source_json(citation: Citation, chunk: Chunk | None, root: Path, state: str) -> dict[str, Any]:
    """What `print_source` shows; `passage` is null if the index no longer contains the chunk."""
    row = serializers.serialize_citation(citation) | {"path": display_path(citation.path, root), "state": state, "passage": None}
    return row | {"headings": list(chunk.headings), "passage": chunk.text, "passage_start": chunk.start} if chunk else row


MAX_TITLE_CHARS, MAX_QUOTE_CHARS = 70, 100  # of a first question, of a quote


def print_conversations(rows: Sequence[dict[str, Any]]) -> None:
    """Print conversations: number, first question, number of answers, time of the last one."""
    for row in rows:
        many = f"{row['answers']} answer{'s' * (row['answers'] != 1)}"
        stdout_console.print(styled((f" {row['id']}", "bold"), f"  {shorten(row['title'])}  ", (f"{many} · {row['at']}", "dim")))
    if not rows:
        stdout_console.print("There are no conversations.")


def print_hits(rows: Sequence[dict[str, Any]]) -> None:
    """Print the answers that contain the searched words: conversation, question, time."""
    for row in rows:
        stdout_console.print(styled((str(row["id"]), "bold"), f"  {shorten(row['question'])}  ", (row["at"], "dim")))
    if not rows:
        stdout_console.print("Nothing was found.")


def print_past_answers(answers: Sequence[tuple[str, Answer]], root: Path) -> None:
    """Print answers and the times of their questions: number, question, answer, citations."""
    for at, answer in answers:
        stdout_console.print(styled((f"{answer.id}  {answer.question}", "bold"), (f"  {at} · {answer.mode}", "dim")))
        if answer.standalone_question not in ("", answer.question):
            stdout_console.print(f"understood as: {answer.standalone_question}", style="dim")
        if answer.passages and stdout_console.is_terminal:
            stdout_console.print(_bold_titles(answer.answer))
        else:
            print_markdown(answer.answer)
        _print_citations(answer, root)
        stdout_console.print()
    if not answers:
        stdout_console.print("No question has been asked of this index yet.")


def _state(answer: Answer, c: Citation) -> str:
    state = answer.state_of(c.n)
    return "" if state == SUPPORTED_STATE else f"  {state}"


def shorten(text: str, limit: int = MAX_TITLE_CHARS) -> str:
    """A text on one line, cut after `limit` characters."""
    plain = collapse_whitespace(text)
    return plain if len(plain) <= limit else f"{plain[: limit - 1]}…"


MIN_COLUMN_WIDTH = 22  # characters that a column needs to be read
MAX_TABLE_QUOTE_CHARS = 160
STATE_STYLES = {"not stated": "dim", "contradictory": "yellow", "corrected": "cyan", "approved": "green"}


def print_result_table(table: "ResultTable", root: Path) -> None:
    """Print a table with its quotes; what its reader should know goes to stderr."""
    if table.rows:
        rows = [[_cell_text(cell) for cell in row.cells] for row in table.rows]
        print_table([column.title for column in table.columns], rows, column_width=MIN_COLUMN_WIDTH, gap=1)
    for c in table.citations:
        place, quote = display_location(c, root), shorten(c.quote, MAX_TABLE_QUOTE_CHARS)
        stdout_console.print(styled((f"[{c.n}] {place}, {c.start}-{c.end}  “{quote}”", "dim")))
    if table.note:
        print_note(f"\n{table.note}" if table.rows else table.note)


def _cell_text(cell: "Cell") -> Text:
    said = cell.text or (str(cell.state) if cell.state != "found" else "–")
    marks = "".join(f" [{c.n}]" for c in cell.citations)
    state = f" ({cell.state})" if cell.text and cell.state != "found" else ""
    return Text(f"{said}{marks}{state}" + (f" ({cell.note})" if cell.note else ""), STATE_STYLES.get(cell.state, ""))
