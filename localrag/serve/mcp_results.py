"""Results of the MCP tools: text for a model, links to the documents, and the same values as the serializers have them.

A result has at most about 8,000 tokens. If something was left out, it says so and names the call that continues.
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from mcp.shared.uri_template import UriTemplate
from mcp.types import CallToolResult, ContentBlock, ResourceLink, TextContent

from localrag import serializers
from localrag.analysis.tables import Cell, CellState, ResultTable
from localrag.query.citations import fence_texts, quote_as_json, to_one_line
from localrag.records import SUPPORTED_STATE, Citation
from localrag.text.markdown import neutralize

ResultRow = dict[str, Any]
MAX_RESULT_BYTES = 24_000  # about 8,000 tokens: common tokenizers make at most one token of three bytes of prose
MAX_ITEM_BYTES = 1_000  # of a description, a quote or a name in it
DOCUMENT, REPORT = "localrag://doc/{+path}", "localrag://report/{id}"
TOOL_OF_COMMAND = {
    "ask": "ask",
    "chat": "ask",
    "search": "search",
    "files": "documents",
    "tree": "communities",
    "entity": "entity",
    "source": "passage",
    "report": "report",
    "review": "review",
    "timeline": "timeline",
    "list": "list_items",
    "compare": "compare",
}
OTHER_COMMANDS = (
    "index questions logs status check doctor rm gc reembed export demo init tune layout pack unpack serve mcp worker help import models"
    " collections config prompts merges sessions eval bench wiki"
).split()
# A command with its subcommand, options, and values in capitals, in quotes or with a slash; not the words of a sentence behind it.
_COMMAND = re.compile(
    rf"`?\blocalrag ({'|'.join([*TOOL_OF_COMMAND, *OTHER_COMMANDS])})\b"
    r"((?: (?:(?:rm|add|use|pull|set|trust|list|show|chat|embedder)\b|--[a-z][a-z-]*|[A-Z]{2,}[A-Z|]*\b"
    r"|\"[^\"]*\"|'[^']*'|\.{0,2}/[^\s,;]*[^\s,;.]))*)`?"
)
_ESCAPED = str.maketrans({"%": "%25", "#": "%23", "?": "%3F"})  # kept by `{+path}`, but special in a URI


PLACE_KEYS = ("path", "part", "headings", "start", "end")
PASSAGE_KEYS = ("document", *PLACE_KEYS, "score", "snippet")
CITATION_KEYS = ("n", *PLACE_KEYS, "quote", "state")
ANSWER_PASSAGE_KEYS = ("n", "path", "headings", "start", "end", "text", "marked")


def for_assistant(text: str) -> str:
    """A message or a note for an assistant: commands become the tools that do the same, or something that only the user can do."""
    return _COMMAND.sub(_tool_or_request, text).replace("--filter", "`filter`")


def _tool_or_request(command: re.Match[str]) -> str:
    tool = TOOL_OF_COMMAND.get(command[1])
    return f"the tool `{tool}`" if tool else f"`{command[0].strip('`')}` (a command that only the user can run: ask for it)"


def passages_result(rows: Sequence[ResultRow]) -> CallToolResult:
    """The result of `search`, from the rows of `QueryWorker.search`."""
    if not rows:
        return _result("Nothing was found.", {"passages": []})
    room = MAX_RESULT_BYTES // 2 // len(rows)
    passages = [
        _pick_keys(row, PASSAGE_KEYS)
        | {"snippet": truncate_bytes(row["snippet"], room // 2), "headings": _fit_bytes(row["headings"], room // 8)}
        for row in rows
    ]
    fenced = fence_texts("passage", texts := [truncate_bytes(row["text"], room) for row in rows])
    numbered = [f"{n}. {_place(row)}\n{fenced(text)}" for n, (row, text) in enumerate(zip(rows, texts, strict=True), 1)]
    return _result("\n\n".join(numbered), {"passages": passages}, [document_link(row["path"]) for row in rows])


def answer_result(answer: ResultRow, *, late: bool = False) -> CallToolResult:
    """The result of `ask`, from a serialized answer; `late`: it was stopped because time ran out."""
    note = answer["note"]
    complete = not late and "Stopped" not in note
    note = for_assistant(note)
    if not complete:
        note = f"{note} {NARROW_QUESTION_HINT}".strip()
    sources: list[ResultRow] = []
    room = MAX_RESULT_BYTES // 2
    for c in answer["citations"]:
        short = {"quote": truncate_bytes(c["quote"], MAX_ITEM_BYTES), "headings": _fit_bytes(c["headings"], MAX_ITEM_BYTES)}
        source = _pick_keys(c, CITATION_KEYS) | short
        room -= 2 * _size(source)
        if room < 0:
            note += f" {len(answer['citations']) - len(sources)} further sources are not listed."
            break
        sources.append(source)
    text = neutralize(truncate_bytes(answer["answer"], MAX_RESULT_BYTES // 6)).text  # code that was cut is none
    sentences = [
        {"text": neutralize(truncate_bytes(s["text"], MAX_ITEM_BYTES // 8)).text} | _pick_keys(s, ("state", "citations"))
        for s in answer["sentences"]
    ]
    listed = "\n".join(map(_source_line, sources))
    refusal = "" if answer["is_answerable"] else "The documents do not say it; these are the closest passages."
    fenced = text and fence_texts("answer", [text])(text)
    prose = "\n\n".join(part for part in (refusal, fenced, listed and f"Sources\n{listed}", to_one_line(note)) if part)
    flags = {k: answer[k] for k in ("mode", "is_answerable")} | {"complete": complete, "note": note.strip()}
    passages = _fit_bytes([_pick_keys(p, ANSWER_PASSAGE_KEYS) for p in answer["passages"]], room)
    if left_out := len(answer["passages"]) - len(passages):
        note += f" {left_out} further passages are only in the text."
    said = _fit_bytes(sentences, MAX_RESULT_BYTES // 12)
    values = {"answer": text} | flags | {"citations": sources, "sentences": said, "passages": passages}
    return _result(prose, values, [document_link(s["path"]) for s in sources])


NARROW_QUESTION_HINT = "To continue: ask a narrower question, use mode `basic` or `mix`, or read passages with `search` and `passage`."
_NOTHING = {"answer": "", "mode": "", "is_answerable": True, "citations": [], "sentences": [], "passages": []}
EMPTY_ANSWER: ResultRow = _NOTHING | {"note": "Nothing was answered within the time."}


def document_text_result(document: ResultRow) -> CallToolResult:
    """The result of `passage`, from `serialize_document`: as much of the text as fits."""
    full_text = "".join(s["text"] for s in document["segments"])
    text = full_text.encode()[: MAX_RESULT_BYTES // 2 - MAX_ITEM_BYTES].decode(errors="ignore")
    start, title = document["from"], truncate_bytes(document["title"], MAX_ITEM_BYTES)
    end = start + len(text)
    values = {"document": document["id"], "title": title, "start": start, "end": end, "text": text} | _pick_keys(
        document, ("path", "length")
    )
    rest = f"\n\nThe document continues: passage(start={end})." if end < document["length"] else ""
    return _result(
        f"{to_one_line(document['path'])}, characters {start}–{end} of {document['length']}\n{fence_texts('passage', [text])(text)}{rest}",
        values,
        [document_link(document["path"])],
    )


def entity_result(entity: ResultRow, others: Sequence[str]) -> CallToolResult:
    """The result of `entity`, from `serialize_entity`; `others` are the names of other matches."""
    related = [
        {
            "name": truncate_bytes(r["entity"]["name"], MAX_ITEM_BYTES),
            "type": r["entity"]["type"],
            "weight": r["weight"],
            "description": truncate_bytes(r["description"], MAX_ITEM_BYTES),
        }
        for r in entity["relationships"]
    ]
    mentions = [
        _pick_keys(m, ("path", "part", "start", "end")) | {"text": truncate_bytes(m["before"] + m["name"] + m["after"], MAX_ITEM_BYTES)}
        for m in entity["mentions"]
    ]
    reports = [f"{c['number']} {truncate_bytes(c['title'], MAX_ITEM_BYTES)}".strip() for c in entity["communities"]]
    values: ResultRow = {
        "name": truncate_bytes(entity["name"], MAX_ITEM_BYTES),
        "names": _fit_bytes(entity["names"], MAX_ITEM_BYTES),
        "description": truncate_bytes(entity["description"], MAX_ITEM_BYTES),
        "relationships": _fit_bytes(related, MAX_RESULT_BYTES // 6),
        "mentions": _fit_bytes(mentions, MAX_RESULT_BYTES // 8),
        "communities": _fit_bytes(reports, MAX_ITEM_BYTES),
        "others": _fit_bytes(others, MAX_ITEM_BYTES),
    } | _pick_keys(entity, ("type", "relationships_total", "mentions_total"))
    related_title = f"Related to ({len(values['relationships'])} of {values['relationships_total']})"
    lines = [
        to_one_line(f"{values['name']} ({values['type']})"),
        to_one_line(values["description"]),
        _listed("Also called", values["names"]),
        _listed(related_title, map(_relation, values["relationships"])),
        _listed(f"Mentioned ({len(values['mentions'])} of {values['mentions_total']})", map(_mention, values["mentions"])),
        _listed("In the communities", values["communities"]),
        _listed("Other entities with that name", values["others"]),
    ]
    links = [document_link(m["path"]) for m in values["mentions"]] + [
        report_link(c["number"], c["title"]) for c in entity["communities"] if c["title"]
    ]
    return _result("\n\n".join(line for line in lines if line), values, links)


def communities_result(rows: Sequence[ResultRow], levels: Iterable[int], offset: int) -> CallToolResult:
    """The result of `communities`, from the rows of `serialize_communities` at an offset."""
    numbers = {r["id"]: r["number"] for r in rows}
    listed = [
        _pick_keys(r, ("number", "level", "entities"))
        | {"title": truncate_bytes(r["title"], MAX_ITEM_BYTES), "parent": numbers.get(r["parent"] or "", "")}
        for r in rows[offset : offset + 200]
    ]
    shown = _fit_bytes(listed, MAX_RESULT_BYTES // 3)
    following = _next(offset, len(shown), len(rows))
    lines = [f"{c['number']} {to_one_line(c['title']) or '(no report)'}, {c['entities']} entities" for c in shown]
    text = "\n".join([f"{len(shown)} of {len(rows)} communities; `report` shows one.", *lines])
    values = {"total": len(rows), "levels": sorted(levels), "communities": shown, "next": following}
    return _result(text + _further("communities", following), values, [report_link(c["number"], c["title"]) for c in shown if c["title"]])


def report_result(report: ResultRow) -> CallToolResult:
    """The result of `report`, from `serialize_report`."""
    findings = [{name: truncate_bytes(f[name], MAX_ITEM_BYTES) for name in ("summary", "explanation")} for f in report["findings"]]
    children = [f"{c['number']} {truncate_bytes(c['title'], MAX_ITEM_BYTES)}".strip() for c in report["children"]]
    values: ResultRow = {
        "number": report["number"],
        "title": truncate_bytes(report["title"], MAX_ITEM_BYTES),
        "summary": truncate_bytes(report["summary"], MAX_RESULT_BYTES // 8),
        "findings": _fit_bytes(findings, MAX_RESULT_BYTES // 4),
        "entities": _fit_bytes([e["name"] for e in report["entities"]], MAX_ITEM_BYTES),
        "children": _fit_bytes(children, MAX_ITEM_BYTES),
    }
    paths = dict.fromkeys(q["path"] for f in report["findings"] for q in f["quotes"])
    text = neutralize(truncate_bytes(report["markdown"], MAX_RESULT_BYTES // 3)).text
    lines = [fence_texts("report", [text])(text), _listed("Entities", values["entities"])]
    lines.append(_listed("Communities within it", values["children"]))
    return _result("\n\n".join(line for line in lines if line), values, [document_link(path) for path in paths])


def documents_result(total: int, rows: Sequence[ResultRow], offset: int) -> CallToolResult:
    """The result of `documents`, from the rows of `list_files` at an offset."""
    listed = [
        _pick_keys(r, ("path", "state"))
        | {"document": r["id"] or "", "characters": r["characters"] or 0}
        | {name: truncate_bytes(r[name], MAX_ITEM_BYTES) for name in ("title", "reason")}
        for r in rows
    ]
    shown = _fit_bytes(listed, MAX_RESULT_BYTES // 3)
    following = _next(offset, len(shown), total)
    lines = [_file_line(d) for d in shown]
    text = "\n".join([f"{len(shown)} of {total} files.", *map(to_one_line, lines)]) + _further("documents", following)
    values = {"total": total, "documents": shown, "next": following}
    return _result(text, values, [document_link(d["path"]) for d in shown if d["document"]])


def _file_line(d: ResultRow) -> str:
    said = f"{d['title']}, {d['characters']} characters" if d["document"] else f"{d['state']}, {d['reason']}"
    return f"{d['path']}: {said}"


@dataclass(frozen=True, slots=True)
class _TableLimits:
    """The most bytes of a cell and of a quote, and the most citations of a cell, in the result of a table."""

    cell: int
    quote: int
    citations: int


# As much of each row as fits while several rows do.
TABLE_LIMITS = (_TableLimits(MAX_ITEM_BYTES, 500, 4), _TableLimits(600, 200, 3), _TableLimits(300, 80, 2), _TableLimits(150, 0, 1))
WANTED_ROWS = 5
MAX_COLUMN_BYTES = 200  # of the title of a column, and of the key of a row
MAX_FRAME_BYTES = 2_000  # of a result without rows, titles and note


def table_result(table: ResultTable, offset: int) -> CallToolResult:
    """The result of a tool that makes a table: as many rows from an offset as fit."""
    for limits in TABLE_LIMITS:
        rows, cited = _fit_rows(table, offset, limits)
        if len(rows) >= min(WANTED_ROWS, len(table.rows) - offset):
            break
    following = _next(offset, len(rows), len(table.rows))
    is_complete = not any(_is_unread(cell) for row in table.rows for cell in row.cells)
    values: ResultRow = {
        "kind": table.kind,
        "title": truncate_bytes(table.title, MAX_ITEM_BYTES),
        "columns": [truncate_bytes(column.title, MAX_COLUMN_BYTES) for column in table.columns],
        "rows": rows,
        "citations": cited,
        "figures": dict(table.figures),
        "total": len(table.rows),
        "next": following,
        "complete": is_complete,
        "note": truncate_bytes(for_assistant(table.note).replace("the same command", "the same call"), MAX_ITEM_BYTES),
    }
    columns = [f"{n}. {to_one_line(title)}" for n, title in enumerate(values["columns"], 1)]
    body = "\n".join([*columns, "", *map(_row_lines, rows)])
    sources = "\n".join(map(_table_source, cited))
    span = f"Rows {offset + 1} to {offset + len(rows)} of {len(table.rows)}" if rows else f"No rows of {len(table.rows)}"
    shown = f"{span}; each line begins with the number of its column."
    more = "" if following is None else f"There are more: the same call with offset={following}."
    fenced = fence_texts("table", [body])(body)
    parts = (to_one_line(values["title"]), shown, fenced, f"Sources\n{sources}" * bool(sources), values["note"], more)
    return _result("\n\n".join(filter(None, parts)), values, [document_link(c["path"]) for c in cited])


def unfinished_table(kind: str, done: int, total: int) -> CallToolResult:
    """The result of a tool whose table is still being made when time is over."""
    progress = f" So far {done} of {total} steps are done." if total else ""
    note = f"The table is not finished.{progress} It is being made: the same call goes on, or returns it."
    nothing: ResultRow = {"columns": [], "rows": [], "citations": [], "figures": {}, "total": 0, "next": None}
    return _result(note, {"kind": kind, "title": "", "complete": False, "note": note} | nothing)


def _fit_rows(table: ResultTable, offset: int, limits: _TableLimits) -> tuple[list[ResultRow], list[ResultRow]]:
    """The rows from an offset that fit, with their citations, each once."""
    head = [truncate_bytes(text, MAX_ITEM_BYTES) for text in (table.title, table.note)]
    head += [f"99. {truncate_bytes(column.title, MAX_COLUMN_BYTES)}" for column in table.columns]
    room = MAX_RESULT_BYTES - MAX_FRAME_BYTES - 2 * sum(len(text.encode()) for text in head)  # as text and as values
    rows, cited = list[ResultRow](), dict[int, ResultRow]()
    for row in table.rows[offset:]:
        cells = [_cell_result(cell, limits) for cell in row.cells]
        listed = {"key": truncate_bytes(row.key, MAX_COLUMN_BYTES), "cells": cells}
        wanted = {n for cell in cells for n in cell["citations"]} - cited.keys()
        new = {c.n: _table_citation(c, limits) for cell in row.cells for c in cell.citations if c.n in wanted}
        lines = (_row_lines(listed), *map(_table_source, new.values()))
        room -= sum(len(line.encode()) + 4 for line in lines) + sum(map(_size, (listed, *new.values())))
        if room < 0:
            break
        rows.append(listed)
        cited |= new
    return rows, sorted(cited.values(), key=lambda c: int(c["n"]))


def _cell_result(cell: Cell, limits: _TableLimits) -> ResultRow:
    text = cell.note if _is_unread(cell) else cell.text
    cited = [c.n for c in cell.citations[: limits.citations]]
    confidence = None if cell.confidence is None else round(cell.confidence, 2)
    return {"text": truncate_bytes(text, limits.cell), "state": str(cell.state), "confidence": confidence, "citations": cited}


def _is_unread(cell: Cell) -> bool:
    return cell.state is CellState.FOUND and not cell.text and not cell.citations and bool(cell.note)


def _table_citation(c: Citation, limits: _TableLimits) -> ResultRow:
    quote = truncate_bytes(c.quote, limits.quote) if limits.quote else ""
    headings = _fit_bytes(c.headings, limits.quote)
    return {"n": c.n, "path": c.path, "part": c.part, "headings": headings, "start": c.start, "end": c.end, "quote": quote}


def _row_lines(row: ResultRow) -> str:
    """The cells of a row, a line each."""
    return "\n".join([*(_cell_line(n, cell) for n, cell in enumerate(row["cells"], 1)), ""])


def _cell_line(n: int, cell: ResultRow) -> str:
    sure = "" if cell["confidence"] is None else f"{cell['confidence']:.0%}"
    about = ", ".join(filter(None, ("" if cell["state"] == CellState.FOUND else cell["state"], sure)))
    numbers = "".join(f"[{c}]" for c in cell["citations"])
    return f"{n}: " + " ".join(filter(None, (to_one_line(cell["text"]), numbers, f"({about})" * bool(about))))


def _table_source(c: ResultRow) -> str:
    return f"[{c['n']}] {_cited_place(c)}" + f": {quote_as_json(c['quote'])}" * bool(c["quote"])


def _cited_place(c: ResultRow) -> str:
    """Where a citation stands; headings are text of the document, like the quote."""
    place = " › ".join((to_one_line(c["path"]), *filter(None, (to_one_line(c["part"]),)), *map(quote_as_json, c["headings"])))
    return f"{place}, characters {c['start']}–{c['end']}"


def document_uri(path: str) -> str:
    """The URI of a document as a resource."""
    return UriTemplate.parse(DOCUMENT).expand({"path": path.translate(_ESCAPED)})


def document_link(path: str) -> ResourceLink:
    """A resource link to a document."""
    return ResourceLink(type="resource_link", name=path, uri=document_uri(path), mime_type="text/plain")


def report_link(number: str, title: str) -> ResourceLink:
    """A resource link to a community's report."""
    return ResourceLink(
        type="resource_link",
        name=f"Report {number}",
        title=truncate_bytes(title, MAX_ITEM_BYTES),
        uri=f"localrag://report/{number}",
        mime_type="text/markdown",
    )


def truncate_bytes(text: str, limit: int) -> str:
    """The first `limit` bytes of a text; a truncated one ends with an ellipsis."""
    return text if len(text.encode()) <= limit else text.encode()[: limit - 3].decode(errors="ignore") + "…"


def _pick_keys(row: ResultRow, keys: Sequence[str]) -> ResultRow:
    return {key: row[key] for key in keys}


def _size(value: Any) -> int:
    """The bytes of a value as JSON."""
    return len(json.dumps(value, ensure_ascii=False).encode())


def _result(text: str, values: ResultRow, links: Sequence[ResourceLink] = ()) -> CallToolResult:
    """A tool result with as many links as fit; the text names everything they link to."""
    room = MAX_RESULT_BYTES - len(text.encode()) - _size(values)
    blocks: list[ContentBlock] = [TextContent(type="text", text=text), *_fit_bytes({link.uri: link for link in links}.values(), room)]
    return CallToolResult(content=blocks, structured_content=values)


def _fit_bytes(items: Iterable[Any], room: int) -> list[Any]:
    """As many of the first items (texts, rows or links) as fit into `room` bytes."""
    fitting = []
    for item in items:
        room -= 4 + (_size(item.model_dump(mode="json", exclude_none=True)) if isinstance(item, ResourceLink) else _size(item))
        if room < 0:
            break
        fitting.append(item)
    return fitting


def _place(row: ResultRow) -> str:
    part = f", {row['part']}" if row["part"] else ""
    return f"{to_one_line(row['path'] + part)}, characters {row['start']}–{row['end']}"


def _source_line(c: ResultRow) -> str:
    """A line of the list of sources."""
    state = "" if c["state"] == SUPPORTED_STATE else f"({c['state']}) "
    return f"[{c['n']}] {state}{_cited_place(c)}: {quote_as_json(c['quote'])}"


def _mention(m: ResultRow) -> str:
    return f"{_place(m)}: {quote_as_json(m['text'])}"


def _relation(r: ResultRow) -> str:
    return f"{r['name']} ({r['type']}): {r['description']}" if r["description"] else f"{r['name']} ({r['type']})"


def _listed(title: str, lines: Iterable[str]) -> str:
    items = [f"- {to_one_line(line)}" for line in lines]
    return "\n".join([f"{title}:", *items]) if items else ""


def _next(offset: int, shown: int, total: int) -> int | None:
    return offset + shown if offset + shown < total else None


def _further(tool: str, offset: int | None) -> str:
    return "" if offset is None else f"\nThere are more: {tool}(offset={offset})."


def whole_document(document: ResultRow) -> str:
    """The text of a document as a resource, cut after MAX_TEXT_WINDOW characters with a note."""
    text = "".join(s["text"] for s in document["segments"])
    if document["to"] >= document["length"]:
        return text
    return f"{text}\n\n[The document continues: these are its first {serializers.MAX_TEXT_WINDOW} of {document['length']} characters.]"
