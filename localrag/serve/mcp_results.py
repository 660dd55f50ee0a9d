"""Results of the MCP tools: the values of the serializers, shortened to what a model can take, and the same as JSON in the text.

A result has at most about 8,000 tokens. If something was left out, it says so and names the call that continues. In the text, everything
that documents say stands between tags that it cannot close.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from mcp.types import CallToolResult, TextContent

from localrag.analysis.tables import Cell, CellState, ResultTable
from localrag.query.citations import fence_texts, to_one_line
from localrag.serializers import serialize_citation
from localrag.text.markdown import neutralize

ResultRow = dict[str, Any]
MAX_RESULT_BYTES = 24_000  # about 8,000 tokens: common tokenizers make at most one token of three bytes of prose
CONTENT_BYTES = MAX_RESULT_BYTES - 3_000  # for values and text; the rest is for notes and the frame of the message
MAX_TITLE_BYTES = 120  # of a title or a column
MAX_NOTE_BYTES = 1_000
MIN_TEXT_BYTES, MIN_ITEMS, MAX_ITEMS = 16, 3, 150  # of a shortened text, and of shortened lists
WANTED_ROWS, MIN_ROW_TEXT_BYTES = 5, 150  # rows are shortened until so many fit, but their texts not further than this
MAX_CELL_CITATIONS, WIDE_TABLE = 2, 8  # of a cell; a table of more columns has one citation a cell
WHOLE_VALUES = ("path", "id", "document", "key")  # by which something is found
ANSWER_KEYS = ("mode", "is_answerable", "citations", "sentences", "passages")
NARROW_QUESTION_HINT = "To continue: ask a narrower question, use mode `basic` or `mix`, or read passages with `search` and `passage`."
EMPTY_ANSWER: ResultRow = {
    **{"answer": "", "mode": "", "is_answerable": True, "citations": [], "sentences": [], "passages": []},
    "note": "Nothing was answered within the time.",
}


def passages_result(rows: Sequence[ResultRow]) -> CallToolResult:
    """Return the result of `search`, from the rows of `QueryWorker.search`."""
    return _result("passage", fit_values({"passages": list(rows)}, CONTENT_BYTES), "" if rows else "Nothing was found.")


def answer_result(answer: ResultRow, *, late: bool = False) -> CallToolResult:
    """Return the result of `ask`, from a serialized answer; `late`: it was stopped because time ran out."""
    is_complete = not late and "Stopped" not in answer["note"]
    note = " ".join(filter(None, (answer["note"], "" if is_complete else NARROW_QUESTION_HINT)))
    text = neutralize(truncate_bytes(answer["answer"], CONTENT_BYTES // 6)).text  # code that was cut is none
    head = {"answer": text, "complete": is_complete, "note": note}
    return _result("answer", head | fit_values(_pick(answer, ANSWER_KEYS), CONTENT_BYTES - _cost(head)), note)


def document_text_result(document: ResultRow) -> CallToolResult:
    """Return the result of `passage`, from `serialize_document`: as much of the text as fits."""
    text = "".join(s["text"] for s in document["segments"])[:CONTENT_BYTES]
    head = {"document": document["id"], "title": truncate_bytes(document["title"], MAX_TITLE_BYTES)} | _pick(document, ("path", "length"))
    while _cost(head | {"text": text}) > CONTENT_BYTES:
        text = text[: len(text) * 3 // 4]
    start, end = document["from"], document["from"] + len(text)
    note = f"The document continues: passage(start={end})." if end < document["length"] else ""
    return _result("passage", head | {"start": start, "end": end, "text": text}, note)


def item_result(tag: str, item: ResultRow) -> CallToolResult:
    """Return the result of `entity` or `report`, from the values of its serializer."""
    return _result(tag, fit_values({name: value for name, value in item.items() if name != "markdown"}, CONTENT_BYTES))


def page_result(tag: str, head: ResultRow, rows: Iterable[ResultRow], offset: int, total: int, n_columns: int = 0) -> CallToolResult:
    """Return as many rows of a list from an offset as fit, behind the values of `head`; the values name the offset that goes on."""
    shown: list[ResultRow] = []
    room = CONTENT_BYTES - _cost(head)
    for row in rows:
        short = fit_values(row, room // max(1, WANTED_ROWS - len(shown)), n_columns, MIN_ROW_TEXT_BYTES)
        short = short if shown or _cost(short) <= room else fit_values(row, room, n_columns)
        room -= _cost(short) + 4
        if room < 0:
            break
        shown.append(short)
    following = offset + len(shown) if offset + len(shown) < total else None
    more = "" if following is None else f"There are more: the same call with offset={following}."
    note = " ".join(filter(None, (str(head.get("note", "")), more)))
    return _result(tag, head | {"total": total, "rows": shown, "next": following}, note)


def table_result(table: ResultTable, offset: int) -> CallToolResult:
    """Return the result of a tool that makes a table: as many rows from an offset as fit, each cell with its citations."""
    head = {
        "kind": table.kind,
        "title": truncate_bytes(table.title, MAX_TITLE_BYTES),
        "columns": [truncate_bytes(column.title, MAX_TITLE_BYTES) for column in table.columns],
        "figures": dict(table.figures),
        "complete": not any(_is_unread(cell) for row in table.rows for cell in row.cells),
        "note": truncate_bytes(table.note.replace("the same command", "the same call"), MAX_NOTE_BYTES),
    }
    n_cited = MAX_CELL_CITATIONS if len(table.columns) <= WIDE_TABLE else 1
    rows = (
        {"key": truncate_bytes(row.key, 2 * MAX_TITLE_BYTES), "cells": [_cell(cell, n_cited) for cell in row.cells]}
        for row in table.rows[offset:]
    )
    return page_result("table", head, rows, offset, len(table.rows), len(table.columns))


def unfinished_table(kind: str, done: int, total: int) -> CallToolResult:
    """Return the result of a tool whose table is still being made when time is over."""
    note = "The table is not finished. It is being made: the same call goes on, or returns it."
    note += f" So far {done} of {total} steps are done." if total else ""
    nothing: ResultRow = {"columns": [], "figures": {}, "total": 0, "rows": [], "next": None}
    return _result("table", {"kind": kind, "title": "", "complete": False, "note": note} | nothing, note)


def _cell(cell: Cell, n_cited: int) -> ResultRow:
    confidence = None if cell.confidence is None else round(cell.confidence, 2)
    cited = [_pick(serialize_citation(c), ("path", "part", "start", "end", "quote")) for c in cell.citations[:n_cited]]
    return {"text": cell.note if _is_unread(cell) else cell.text, "state": cell.state.value, "confidence": confidence, "citations": cited}


def _is_unread(cell: Cell) -> bool:
    return cell.state is CellState.FOUND and not cell.text and not cell.citations and bool(cell.note)


def fit_values(values: ResultRow, room: int, min_items: int = 0, min_bytes: int = MIN_TEXT_BYTES) -> ResultRow:
    """Return values of at most `room` bytes: texts of more than `min_bytes`, and lists of more than `min_items`, are shortened."""
    shown, text_bytes, n_items = values, room, MAX_ITEMS
    while _cost(shown) > room and text_bytes > min_bytes:
        text_bytes, n_items = text_bytes * 2 // 3, max(n_items * 4 // 5, MIN_ITEMS, min_items)
        shown = _shortened(values, text_bytes, n_items)
    return shown


def _shortened(value: Any, text_bytes: int, n_items: int) -> Any:
    if isinstance(value, str):
        short = truncate_bytes(value, text_bytes)
        return short if short == value else neutralize(short).text
    if isinstance(value, list):
        return [_shortened(item, text_bytes, n_items) for item in value[:n_items]]
    if isinstance(value, dict):
        return {name: item if name in WHOLE_VALUES else _shortened(item, text_bytes, n_items) for name, item in value.items()}
    return value


def truncate_bytes(text: str, limit: int) -> str:
    """Return the first `limit` bytes of a text; a truncated one ends with an ellipsis."""
    return text if len(text.encode()) <= limit else text.encode()[: limit - 3].decode(errors="ignore") + "…"


def _pick(row: ResultRow, names: Sequence[str]) -> ResultRow:
    return {name: row[name] for name in names}


def _to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _cost(value: Any) -> int:
    """Return the bytes of a value in a result, which has it twice: as it is, and as JSON in a text."""
    body = _to_json(value)
    return len(body.encode()) + len(_to_json(body).encode())


def _result(tag: str, values: ResultRow, note: str = "") -> CallToolResult:
    body = to_one_line(_to_json(values))
    text = fence_texts(tag, [body])(body) + f"\n\n{to_one_line(note)}" * bool(note)
    return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=values)
