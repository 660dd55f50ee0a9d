"""OpenDocument (LibreOffice): texts, spreadsheets and presentations, whose content is one XML file in an archive."""

from collections.abc import Iterator
from typing import Any

from localrag.index.documents.load.archive import entry, open_archive
from localrag.index.documents.load.content import Content, Options, Unreadable, clean, compose, described, first_heading, number_in
from localrag.index.documents.load.formats.tables import cell, table_lines
from localrag.index.documents.load.formats.xlsx import titled
from localrag.index.documents.load.formats.xml import xml_root
from localrag.index.documents.load.open_file import OpenFile

_OF = "urn:oasis:names:tc:opendocument:xmlns:"
_TEXT, _TABLE, _DRAW, _OFFICE = (f"{{{_OF}{name}:1.0}}" for name in ("text", "table", "drawing", "office"))
_SKIPPED = {f"{_TEXT}tracked-changes", f"{_TEXT}sequence-decls", f"{_TEXT}note-citation", f"{_TEXT}variable-decls", f"{_TEXT}list-header"}
_SPACE = {f"{_TEXT}tab": "\t", f"{_TEXT}line-break": "\n"}
_MOST_REPEATED = 1000  # of a row or cell; beyond that it is the empty rest of a sheet


def parse_opendocument(file: OpenFile, _options: Options) -> Content:
    """A text (.odt), spreadsheet (.ods) or presentation (.odp)."""
    with open_archive(file) as archive:
        if b"encryption-data" in entry(archive, "META-INF/manifest.xml", needed=False):
            raise Unreadable("password-protected")
        body = xml_root(entry(archive, "content.xml")).find(f"{_OFFICE}body")
        metadata = _metadata(entry(archive, "meta.xml", needed=False))
    if body is None or not len(body):
        raise Unreadable("damaged: it has no content", failed=True)
    sheets, slides = body[0].findall(f"{_TABLE}table"), body[0].findall(f"{_DRAW}page")
    if body[0].tag == f"{_OFFICE}spreadsheet":
        named = [(str(s.get(f"{_TABLE}name") or ""), "\n".join(table_lines(_rows(s), likely=True)).strip()) for s in sheets]
        text, parts = compose((f"sheet {name}", titled(name, text, always=len(named) > 1)) for name, text in named)
    elif slides:
        text, parts = compose((f"slide {n}", clean("\n".join(_blocks(s)))) for n, s in enumerate(slides, 1))
    else:
        text, parts = clean("\n".join(_blocks(body[0]))), ()
    return Content(text, dict(metadata).get("title", "") or first_heading(text), metadata, parts)


def _metadata(data: bytes) -> tuple[tuple[str, str], ...]:
    if not data:
        return ()
    root = xml_root(data)
    found = {str(e.tag).rpartition("}")[2]: "".join(e.itertext()) for e in root.iter("*") if not len(e)}
    return described(
        title=found.get("title"),
        author=found.get("initial-creator") or found.get("creator"),
        date=(found.get("date") or found.get("creation-date") or "")[:10],
        subject=found.get("subject"),
        description=found.get("description"),
    )


def _blocks(parent: Any, depth: int = 0) -> Iterator[str]:
    """The lines of headings, paragraphs, lists, tables and frames."""
    for child in parent:
        if child.tag == f"{_TEXT}h":
            level = str(child.get(f"{_TEXT}outline-level") or "1")
            text = _inline(child)
            yield f"\n{'#' * min(number_in(level, 1), 6)} {' '.join(text.split())}\n" if text.strip() else ""
        elif child.tag == f"{_TEXT}p":
            yield from _paragraph(child, depth)
        elif child.tag == f"{_TEXT}list":
            yield from _blocks(child, depth + 1)
        elif child.tag == f"{_TABLE}table":
            yield from ("", *_table(child), "")
        elif isinstance(child.tag, str) and child.tag not in _SKIPPED:
            yield from _blocks(child, depth)


def _paragraph(p: Any, depth: int) -> Iterator[str]:
    text = _inline(p).strip()
    if text:
        yield "  " * (min(depth, 10) - 1) + f"- {text}" if depth else f"\n{text}\n"
    for note in p.iter(f"{_TEXT}note-body"):
        yield f"\n[{_flat(note)}]\n"
    for frame in p.iter(f"{_DRAW}text-box"):
        if next(frame.iterancestors(f"{_TEXT}p")) is p:
            yield from _blocks(frame)


def _table(table: Any) -> list[str]:
    """The rows of a table, or the blocks of one that only lays out a page."""
    rows = list(_rows(table))
    if max(map(len, rows), default=0) > 1:
        return list(table_lines(rows, likely=len(rows[0]) > 2 or table.find(f"{_TABLE}table-header-rows") is not None))
    return [line for tc in table.iter(f"{_TABLE}table-cell") for line in _blocks(tc)]


def _rows(table: Any) -> Iterator[list[str]]:
    for tr in table.iter(f"{_TABLE}table-row"):
        if next(tr.iterancestors(f"{_TABLE}table")) is not table:
            continue
        row: list[str] = []
        for tc in tr:
            if tc.tag in (f"{_TABLE}table-cell", f"{_TABLE}covered-table-cell"):
                row += [_cell(tc)] * _repeated(tc, "columns")
        while row and not row[-1]:
            row.pop()
        for _ in range(_repeated(tr, "rows") if row else 1):
            yield row


def _cell(tc: Any) -> str:
    kind = tc.get(f"{_OFFICE}value-type")
    if kind == "date":
        return str(tc.get(f"{_OFFICE}date-value") or "").removesuffix("T00:00:00")
    return cell(_flat(tc))


def _repeated(element: Any, what: str) -> int:
    value = str(element.get(f"{_TABLE}number-{what}-repeated") or "1")
    return min(number_in(value, 1), _MOST_REPEATED)


def _flat(element: Any) -> str:
    return " ".join(" ".join(_inline(p) for p in element.iter(f"{_TEXT}p", f"{_TEXT}h")).split())


def _inline(element: Any) -> str:
    """The text of a paragraph, without that of notes and boxes in it."""
    pieces = [element.text or ""]
    for child in element:
        if child.tag == f"{_TEXT}s":
            count = str(child.get(f"{_TEXT}c") or "1")
            pieces.append(" " * min(number_in(count, 1), 100))
        elif child.tag in _SPACE:
            pieces.append(_SPACE[child.tag])
        elif isinstance(child.tag, str) and not child.tag.startswith(_DRAW) and child.tag not in {f"{_TEXT}note", f"{_OFFICE}annotation"}:
            pieces.append(_inline(child))
        pieces.append(child.tail or "")
    return "".join(pieces)
