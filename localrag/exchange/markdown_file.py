"""Tables and answers in Markdown, with the quotes and places of their sources as footnotes."""

import re

from localrag.analysis.tables import Cell, ResultTable
from localrag.exchange.cited_texts import answer_source, cell_text, marked_answer, remark, replace_marks, source
from localrag.records import Answer
from localrag.text.markdown import escape_markdown, escape_plain_text, neutralize


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
    body = escape_plain_text(text) if answer.passages else neutralize(text).text
    label = _unused_label(body)
    parts = [f"# {escape_markdown(answer.question)}", replace_marks(body, f"[^{label}{{}}]").strip()]
    if answer.note:
        parts.append(f"*{escape_markdown(answer.note)}*")
    marked = {n for _, n in answer.citation_marks}
    if others := [c for c in answer.citations if c.n not in marked]:
        parts.append("\n".join(f"- {escape_markdown(answer_source(answer, c))}" for c in others))
    if notes := [c for c in answer.citations if c.n in marked]:
        parts.append("\n".join(f"[^{label}{c.n}]: {escape_markdown(answer_source(answer, c))}" for c in notes))
    return "\n\n".join(parts) + "\n"


def _unused_label(text: str) -> str:
    """The beginning of the footnotes' labels: one with which the text itself refers to none."""
    label = ""
    while re.search(rf"\[\^{label}\d", text):
        label += "s"
    return label
