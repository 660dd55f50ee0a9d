"""Presentations: each slide with its title, texts, lists, tables, charts, diagrams, speaker notes and comments."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from localrag.loaders.content import LoadOptions, OpenFile, ParsedFile, Unreadable, number_in
from localrag.loaders.document_tree import TextBlock, apart_block, heading_block, item, join_sections, marked_text, paragraph, render
from localrag.loaders.inline_text import comment_line, embedded_files_line, picture_text, quoted_words, running_text
from localrag.loaders.numbering import format_number
from localrag.loaders.open_xml import (
    CHART_NS,
    DIAGRAM_NS,
    DRAWING_NS,
    RELATION_NS,
    OpenXmlPackage,
    Relation,
    chart_blocks,
    clicked_link,
    core_metadata,
    diagram_blocks,
    drawing_text,
    drawing_texts,
    open_package,
    parsed_file,
    part_name,
)
from localrag.loaders.spans import CellRange, fill_spans
from localrag.loaders.tabular import format_cell, tables

SLIDE_NS = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
_MAX_GROUP_DEPTH = 20  # nested groups
_TITLES = frozenset({"title", "ctrTitle"})
_RUNNING = {"ftr": "Footer", "hdr": "Header", "dt": "Date"}
_NUMBERED = {
    "alphaLc": "lowerLetter", "alphaUc": "upperLetter", "romanLc": "lowerRoman", "romanUc": "upperRoman", "arabic": "decimal",
    "ea1Chs": "chineseCounting", "ea1Cht": "chineseCounting", "ea1Jpn": "japaneseCounting", "circleNum": "decimalEnclosedCircle",
}  # fmt: skip


@dataclass(slots=True)
class _Deck:
    """A presentation while it is read. `running`: the lines of headers and footers so far, which stand once."""

    package: OpenXmlPackage
    authors: Mapping[str, str]
    running: set[str] = field(default_factory=set)


def parse_pptx(file: OpenFile, _options: LoadOptions) -> ParsedFile:
    """Parse a presentation, slide show or template: each slide is a part."""
    package = open_package(file, "ppt/presentation.xml")
    deck = _Deck(package, _authors(package))
    slides = ((f"slide {n}", render(_slide(deck, name))) for n, name in enumerate(_slide_names(package), 1))
    return parsed_file(join_sections(slides), core_metadata(package))


def _slide_names(package: OpenXmlPackage) -> list[str]:
    """The parts of the slides in the order of the presentation."""
    relations = package.relations(package.main)
    listed = package.root(package.main).iterfind(f"{SLIDE_NS}sldIdLst/{SLIDE_NS}sldId")
    return list(filter(None, (part_name(relations, s.get(f"{RELATION_NS}id")) for s in listed)))


def _slide(deck: _Deck, name: str) -> Iterator[TextBlock]:
    try:
        root = deck.package.root(name)
    except Unreadable:
        yield paragraph(f"[{name.rpartition('/')[2]} cannot be read]")
        return
    relations = deck.package.relations(name)
    tree = root.find(f"{SLIDE_NS}cSld/{SLIDE_NS}spTree")
    shapes = _reading_order([] if tree is None else list(tree))
    title = next((shape for shape in shapes if _placeholder(shape) in _TITLES), None)
    if title is not None:
        yield heading_block(1, " ".join(drawing_texts(title, relations)))
    for shape in shapes:
        if shape is not title:
            yield from apart_block(_shape(shape, deck, relations))
    yield from _notes(deck.package, relations)
    for relation in relations.values():
        comments = deck.package.optional_root(relation.target) if relation.kind == "comments" and not relation.is_external else None
        for comment in comments.iter("{*}cm", "{*}reply") if comments is not None else ():
            yield from _comment(comment, deck.authors, tree)
    yield from map(paragraph, embedded_files_line(deck.package.embedded_names(name)))


def _placeholder(shape: Any) -> str:
    element = shape.find(f"{SLIDE_NS}nvSpPr/{SLIDE_NS}nvPr/{SLIDE_NS}ph")
    return "" if element is None else str(element.get("type") or "obj")


def _reading_order(shapes: list[Any]) -> list[Any]:
    """The shapes of a slide in their order, except that text boxes which stand one below the other are read from top to bottom."""
    boxes = [n for n, shape in enumerate(shapes) if shape.tag == f"{SLIDE_NS}sp" and not _placeholder(shape) and _box(shape)]
    places = [_box(shapes[n]) for n in boxes]
    if len(boxes) < 2 or len(boxes) > 100 or not _is_column(places):
        return shapes
    ordered = list(shapes)
    by_top = sorted(boxes, key=lambda n: _box(shapes[n])[1])
    for target, source in zip(boxes, by_top, strict=True):
        ordered[target] = shapes[source]
    return ordered


def _is_column(places: Sequence[tuple[int, ...]]) -> bool:
    by_top = sorted(places, key=lambda place: place[1])
    overlap = max(place[0] for place in places) < min(place[2] for place in places)
    return overlap and all(above[3] <= below[1] for above, below in pairwise(by_top))


def _box(shape: Any) -> tuple[int, ...]:
    """The place of a shape as left, top, right, bottom; empty if it is its layout's, or if the shape has no text."""
    frame = shape.find(f"{SLIDE_NS}spPr/{DRAWING_NS}xfrm")
    offset, extent = (None if frame is None else frame.find(f"{DRAWING_NS}{name}") for name in ("off", "ext"))
    if offset is None or extent is None or shape.find(f"{SLIDE_NS}txBody") is None:
        return ()
    left, top, width, height = (number_in(str(e.get(k) or "")) for e, k in ((offset, "x"), (offset, "y"), (extent, "cx"), (extent, "cy")))
    return left, top, left + width, top + height


def _shape(shape: Any, deck: _Deck, relations: Mapping[str, Relation], depth: int = 0) -> Iterator[TextBlock]:
    link = clicked_link(shape.find(f"*/{SLIDE_NS}cNvPr"), relations)
    if shape.tag == f"{SLIDE_NS}grpSp" and depth < _MAX_GROUP_DEPTH:
        for inner in shape:
            yield from apart_block(_shape(inner, deck, relations, depth + 1))
    elif shape.tag == f"{SLIDE_NS}graphicFrame":
        yield from _graphic(shape, deck.package, relations)
    elif shape.tag == f"{SLIDE_NS}pic":
        described = shape.find(f"{SLIDE_NS}nvPicPr/{SLIDE_NS}cNvPr")
        yield paragraph(marked_text(picture_text(described.get("descr") or ""), link) if described is not None else "")
    elif (kind := _placeholder(shape)) in _RUNNING:
        text = running_text(" ".join(drawing_texts(shape, relations)))
        line = f"{_RUNNING[kind]}: {text}"
        if text and line not in deck.running:
            deck.running.add(line)
            yield paragraph(line)
    elif kind != "sldNum" and (body := shape.find(f"{SLIDE_NS}txBody")) is not None:
        yield from _paragraphs(body, relations, is_placeholder=bool(kind), link=link)


def _graphic(frame: Any, package: OpenXmlPackage, relations: Mapping[str, Relation]) -> Iterator[TextBlock]:
    for table in frame.iter(f"{DRAWING_NS}tbl"):
        yield from _slide_table(table, relations)
    for chart in frame.iter(f"{CHART_NS}chart"):
        yield from chart_blocks(package, part_name(relations, chart.get(f"{RELATION_NS}id")))
    for diagram in frame.iter(f"{DIAGRAM_NS}relIds"):
        yield from apart_block(diagram_blocks(package, part_name(relations, diagram.get(f"{RELATION_NS}dm"))))


def _paragraphs(body: Any, relations: Mapping[str, Relation], *, is_placeholder: bool, link: str = "") -> Iterator[TextBlock]:
    """The paragraphs of a text body: those of a placeholder with several are a list, unless they say otherwise."""
    paragraphs = [(p, text) for p in body.iterchildren(f"{DRAWING_NS}p") if (text := drawing_text(p, relations))]
    is_list = is_placeholder and len(paragraphs) > 1
    counted: dict[int, tuple[str, int]] = {}  # level → kind of its numbers and the last one
    items: list[TextBlock] = []
    for p, text in paragraphs:
        properties = p.find(f"{DRAWING_NS}pPr")
        level = 0 if properties is None else number_in(str(properties.get("lvl") or "0"))
        numbered = None if properties is None else properties.find(f"{DRAWING_NS}buAutoNum")
        for deeper in [n for n in counted if n > level or (n == level and numbered is None)]:
            del counted[deeper]
        if numbered is not None:
            mark = _auto_number(numbered, level, counted)
        elif properties is not None and properties.find(f"{DRAWING_NS}buNone") is not None:
            mark = ""
        else:
            mark = "-" if is_list or (properties is not None and properties.find(f"{DRAWING_NS}buChar") is not None) else ""
        items.append(item(level, mark, text))
    if link and items:
        items[-1] = replace(items[-1], text=marked_text(items[-1].text, link))
    yield from items if any(one.marker for one in items) else [paragraph("\n".join("  " * one.level + one.text for one in items))]


def _auto_number(numbered: Any, level: int, counted: dict[int, tuple[str, int]]) -> str:
    """The next number of a list at a level: `2.`, `b)`, `(iv)`."""
    scheme, start = str(numbered.get("type") or "arabicPeriod"), max(number_in(str(numbered.get("startAt") or "1"), 1), 1)
    kind, last = counted.get(level, ("", 0))
    number = last + 1 if kind == f"{scheme} {start}" else start
    counted[level] = f"{scheme} {start}", number
    form = next((form for prefix, form in _NUMBERED.items() if scheme.startswith(prefix)), "decimal")
    text = format_number(number, form)
    if scheme.endswith("ParenBoth"):
        return f"({text})"
    return f"{text})" if scheme.endswith("ParenR") else f"{text}." if scheme.endswith("Period") else text


def _slide_table(table: Any, relations: Mapping[str, Relation]) -> Iterator[TextBlock]:
    grid: list[list[str]] = []
    ranges: list[CellRange] = []
    for n, tr in enumerate(table.iterchildren(f"{DRAWING_NS}tr")):
        line: list[str] = []
        for column, tc in enumerate(tr.iterchildren(f"{DRAWING_NS}tc")):
            is_covered = any(str(tc.get(name) or "0") in {"1", "true"} for name in ("hMerge", "vMerge"))
            text = "" if is_covered else " ".join(drawing_texts(tc, relations))
            line.append(format_cell(text))
            n_rows, n_columns = (max(number_in(str(tc.get(name) or "1"), 1), 1) for name in ("rowSpan", "gridSpan"))
            if n_rows * n_columns > 1 and not is_covered:
                ranges.append(CellRange(n, column, n + n_rows - 1, column + n_columns - 1))
        grid.append(line)
    properties = table.find(f"{DRAWING_NS}tblPr")
    is_marked = properties is not None and str(properties.get("firstRow") or "0") in {"1", "true"}
    likely = is_marked or max(map(len, grid), default=0) > 2
    yield from tables(fill_spans(enumerate(grid), ranges, likely=likely), likely=likely)


def _notes(package: OpenXmlPackage, relations: Mapping[str, Relation]) -> Iterator[TextBlock]:
    for relation in relations.values():
        root = package.optional_root(relation.target) if relation.kind == "notesSlide" and not relation.is_external else None
        for shape in root.iter(f"{SLIDE_NS}sp") if root is not None else ():
            body = shape.find(f"{SLIDE_NS}txBody")
            if _placeholder(shape) == "body" and body is not None:
                text = render(_paragraphs(body, package.relations(relation.target), is_placeholder=False)).text
                yield paragraph(f"Notes: {text}" if text else "")


def _comment(comment: Any, authors: Mapping[str, str], tree: Any) -> Iterator[TextBlock]:
    """A reader's comment: `text` in older files, a text body in newer ones, where replies are comments of their own."""
    elements = [e for child in comment for e in (child, *child.iter("{*}t")) if str(child.tag).endswith(("}text", "}txBody"))]
    text = " ".join(" ".join(e.text or "" for e in elements).split())
    if text:
        is_reply = str(comment.tag).endswith("}reply")
        name, date = authors.get(comment.get("authorId") or "", ""), comment.get("created") or comment.get("dt") or ""
        about = "" if is_reply else quoted_words(_commented_words(comment, tree))
        yield paragraph(comment_line(text, name, date, about, "Reply" if is_reply else "Comment"))


def _commented_words(comment: Any, tree: Any) -> str:
    """The words that a comment is about, of the shape that it names; empty if it is about the slide."""
    named, marked = next(comment.iter("{*}spMk"), None), next(comment.iter("{*}txMk"), None)
    shapes = {} if tree is None else {e.get("id"): e.getparent().getparent() for e in tree.iter(f"{SLIDE_NS}cNvPr")}
    shape = None if named is None else shapes.get(named.get("id"))
    if shape is None:
        return ""
    text = "\n".join("".join(p.itertext(f"{DRAWING_NS}t")) for p in shape.iter(f"{DRAWING_NS}p"))
    start, length = (0 if marked is None else number_in(str(marked.get(name) or "")) for name in ("cp", "len"))
    return text[start : start + length] if length else text


def _authors(package: OpenXmlPackage) -> dict[str, str]:
    """Id → name of the authors of comments."""
    relations = package.relations(package.main).values()
    roots = (package.optional_root(r.target) for r in relations if not r.is_external and r.kind.lower().endswith("authors"))
    return {a.get("id") or "": a.get("name") or "" for root in roots if root is not None for a in root if isinstance(a.tag, str)}
