"""Word documents: headings, lists, tables, charts, notes and comments in their places."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from localrag.index.documents.load.archive import open_archive
from localrag.index.documents.load.content import Content, Options, Unreadable, clean, described, first_heading, number_in
from localrag.index.documents.load.formats.charts import chart_lines, formula
from localrag.index.documents.load.formats.numbering import Numbering, read_numbering
from localrag.index.documents.load.formats.tables import table_lines
from localrag.index.documents.load.formats.xml import xml_root
from localrag.index.documents.load.open_file import OpenFile

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_M = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
_RELATED = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"
_FALLBACK = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
_SKIPPED = {f"{_W}del", f"{_W}moveFrom", f"{_W}instrText", f"{_W}txbxContent", f"{_W}pPr", f"{_W}rPr", _FALLBACK}
_SPACE = {f"{_W}tab": "\t", f"{_W}br": "\n", f"{_W}cr": "\n", f"{_W}noBreakHyphen": "-"}
_NOTE = {f"{_W}footnoteReference": "footnotes", f"{_W}endnoteReference": "endnotes"}


@dataclass(slots=True)
class _Styles:
    """What the document's styles say of paragraphs: style id → level of a heading, and whether it is a list item."""

    level: dict[str, int] = field(default_factory=dict)
    listed: dict[str, tuple[str, int]] = field(default_factory=dict)  # style id → the list and depth it counts in
    numbering: Numbering = field(default_factory=lambda: Numbering({}, {}))
    charts: dict[str, list[str]] = field(default_factory=dict)  # relationship id → lines
    notes: list[tuple[str, str]] = field(default_factory=list)  # (kind, id) in the order of their references


def core_metadata(properties: Any) -> tuple[tuple[str, str], ...]:
    """Title, author and so on, as Office formats keep them."""
    when = properties.modified or properties.created
    title = "" if properties.title in {"PowerPoint Presentation", "Word Document"} else properties.title
    return described(
        title=title,
        author=properties.author if properties.author not in {"python-docx", "openpyxl"} else "",
        date=when.date().isoformat() if when else "",
        subject=properties.subject,
        keywords=properties.keywords,
    )


def comment_line(text: str, author: str, date: str) -> str:
    """A reader's comment, with whose it is and of which day."""
    return f"Comment{f' by {author}' if author else ''}{f', {date[:10]}' if date else ''}: {text}"


def parse_docx(file: OpenFile, _options: Options) -> Content:
    """A Word document."""
    import docx

    open_archive(file).close()
    try:
        document = docx.Document(file.open())
    except (ValueError, KeyError) as error:
        raise Unreadable(f"damaged: {error}", failed=True) from error
    styles = _styles(document.styles.element)
    styles.charts = {
        key: list(chart_lines(xml_root(r.target_part.blob)))
        for key, r in document.part.rels.items()
        if not r.is_external and str(r.reltype).endswith("/chart")
    }
    related = {str(r.reltype).rpartition("/")[2]: r.target_part for r in document.part.rels.values() if not r.is_external}
    if "numbering" in related:
        styles.numbering = read_numbering(xml_root(related["numbering"].blob))
    lines = list(_blocks(document.element.body, styles))
    notes = {kind: _noted(related[kind]) for kind in set(_NOTE.values()) & related.keys()}
    lines += [f"\n[{n}] {notes.get(kind, {}).get(key, '')}" for n, (kind, key) in enumerate(styles.notes, 1)]
    if "comments" in related:
        for comment in xml_root(related["comments"].blob).iter(f"{_W}comment"):
            if text := _flat(comment):
                lines += ["", comment_line(text, comment.get(f"{_W}author") or "", comment.get(f"{_W}date") or "")]
    metadata = core_metadata(document.core_properties)
    text = clean("\n".join(lines))
    return Content(text, dict(metadata).get("title", "") or first_heading(text), metadata)


def _styles(root: Any) -> _Styles:
    found = _Styles()
    based: dict[str, str] = {}
    for style in root.iter(f"{_W}style"):
        key = style.get(f"{_W}styleId") or ""
        name = _value(style.find(f"{_W}name")).lower()
        outline = _value(style.find(f"{_W}pPr/{_W}outlineLvl"))
        based[key] = _value(style.find(f"{_W}basedOn"))
        if heading := re.fullmatch(r"(?:heading|berschrift|titre) ?([1-9])", name):
            found.level[key] = int(heading[1])
        elif name == "title":
            found.level[key] = 1
        elif number_in(outline, 9) < 9:
            found.level[key] = number_in(outline) + 1
        if (number := style.find(f"{_W}pPr/{_W}numPr")) is not None or name.startswith("list"):
            found.listed[key] = _place(number)
    for key in list(based):
        parent = based.get(key, "")
        for _ in range(10):
            if parent in found.level:
                found.level.setdefault(key, found.level[parent])
            if parent in found.listed:
                found.listed.setdefault(key, found.listed[parent])
            parent = based.get(parent, "")
    return found


def _value(element: Any) -> str:
    return "" if element is None else str(element.get(f"{_W}val") or "")


def _place(number: Any) -> tuple[str, int]:
    """The list a paragraph counts in, and how deep."""
    if number is None:
        return "", 0
    depth = _value(number.find(f"{_W}ilvl"))
    return _value(number.find(f"{_W}numId")), min(number_in(depth), 9)


def _blocks(parent: Any, styles: _Styles) -> Iterator[str]:
    """The lines of paragraphs and tables, those in content controls and text boxes too."""
    for child in parent:
        if child.tag == f"{_W}p":
            yield from _paragraph(child, styles)
        elif child.tag == f"{_W}tbl":
            yield from ("", *_table(child, styles), "")
        elif isinstance(child.tag, str) and child.tag not in _SKIPPED:
            yield from _blocks(child, styles)


def _paragraph(p: Any, styles: _Styles) -> Iterator[str]:
    text = "".join(_inline(p, styles)).strip()
    style = _value(p.find(f"{_W}pPr/{_W}pStyle"))
    number = p.find(f"{_W}pPr/{_W}numPr")
    listed = _place(number) if number is not None else styles.listed.get(style)
    if listed == ("0", 0):  # Word's way of taking a number away
        listed = None
    mark = styles.numbering.next(*listed) if text and listed is not None else ""
    if text and style in styles.level:
        number_before = "" if mark in ("", "-") else f"{mark} "
        yield f"\n{'#' * min(styles.level[style], 6)} {number_before}{' '.join(text.split())}\n"
    elif text and listed is not None:
        yield "  " * listed[1] + f"{mark} {text}"
    elif text:
        yield f"\n{text}\n"
    for chart in p.iter("{http://schemas.openxmlformats.org/drawingml/2006/chart}chart"):
        yield from ("", *styles.charts.get(chart.get(_RELATED) or "", ()), "")
    for box in p.iter(f"{_W}txbxContent"):
        if not any(True for _ in box.iterancestors(_FALLBACK)) and next(box.iterancestors(f"{_W}p")) is p:
            yield from _blocks(box, styles)


def _inline(element: Any, styles: _Styles) -> Iterator[str]:
    for child in element:
        if child.tag == f"{_M}oMath":
            yield formula(child)
        elif child.tag == f"{_W}t":
            yield child.text or ""
        elif child.tag in _SPACE:
            yield _SPACE[child.tag]
        elif child.tag in _NOTE:
            styles.notes.append((_NOTE[child.tag], child.get(f"{_W}id") or ""))
            yield f" [{len(styles.notes)}]"
        elif child.tag not in _SKIPPED:
            yield from _inline(child, styles)


def _table(table: Any, styles: _Styles) -> Iterator[str]:
    """The rows of a table; one that only lays out a page (a single column, or with tables inside) as the blocks it holds."""
    rows = [list(_cells(tr)) for tr in table.iter(f"{_W}tr") if next(tr.iterancestors(f"{_W}tbl")) is table]
    width = max((sum(wide for _, wide in row) for row in rows), default=0)
    if width < 2 or next(table.iterdescendants(f"{_W}tbl"), None) is not None:
        for row in rows:
            for tc, _ in row:
                yield from _blocks(tc, styles)
        return
    grid: list[list[str]] = []
    for row in rows:
        line: list[str] = []
        for tc, wide in row:
            merged = tc.find(f"{_W}tcPr/{_W}vMerge")
            above = grid[-1][len(line)] if grid and len(grid[-1]) > len(line) else ""
            text = above if merged is not None and _value(merged) != "restart" else _flat(tc, styles)
            line += [text, *[""] * (wide - 1)]
        grid.append(line)
    marked = table.find(f".//{_W}tblHeader") is not None
    yield from table_lines(grid, likely=marked or width > 2)


def _cells(row: Any) -> Iterator[tuple[Any, int]]:
    for tc in row.iter(f"{_W}tc"):
        if next(tc.iterancestors(f"{_W}tr")) is row:
            span = _value(tc.find(f"{_W}tcPr/{_W}gridSpan"))
            yield tc, min(number_in(span, 1), 200)


def _flat(element: Any, styles: _Styles | None = None) -> str:
    """All paragraphs of an element on one line."""
    styles = styles or _Styles()
    return " ".join(" ".join("".join(_inline(p, styles)) for p in element.iter(f"{_W}p")).split())


def _noted(part: Any) -> dict[str, str]:
    """Id → text of the footnotes or endnotes."""
    return {note.get(f"{_W}id") or "": _flat(note) for note in xml_root(part.blob)}
