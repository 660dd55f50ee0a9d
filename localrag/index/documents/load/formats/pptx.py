"""PowerPoint: each slide a part, its title a heading, with tables, charts and the speaker's notes."""

from collections.abc import Iterator, Mapping
from typing import Any

from localrag.index.documents.load.archive import open_archive
from localrag.index.documents.load.content import Content, Options, Unreadable, clean, compose, first_heading
from localrag.index.documents.load.formats.charts import chart_lines
from localrag.index.documents.load.formats.docx import comment_line, core_metadata
from localrag.index.documents.load.formats.tables import cell, table_lines
from localrag.index.documents.load.formats.xml import xml_root
from localrag.index.documents.load.open_file import OpenFile

_DEEPEST = 20  # groups within groups


def parse_pptx(file: OpenFile, _options: Options) -> Content:
    """A presentation."""
    import pptx

    open_archive(file).close()
    try:
        presentation = pptx.Presentation(file.open())
    except (ValueError, KeyError) as error:
        raise Unreadable(f"damaged: {error}", failed=True) from error
    authors = _authors(presentation.part)
    text, parts = compose((f"slide {n}", clean("\n\n".join(_slide(slide, authors)))) for n, slide in enumerate(presentation.slides, 1))
    metadata = core_metadata(presentation.core_properties)
    return Content(text, dict(metadata).get("title", "") or first_heading(text), metadata, parts)


def _slide(slide: Any, authors: Mapping[str, str]) -> Iterator[str]:
    title = slide.shapes.title
    if title is not None and (text := " ".join(title.text_frame.text.split())):
        yield f"# {text}"
    for shape in slide.shapes:
        if title is None or shape.shape_id != title.shape_id:
            yield from _shape(shape)
    if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
        notes = slide.notes_slide.notes_text_frame.text.strip()
        if notes:
            yield f"Notes: {notes}"
    for part in (r.target_part for r in slide.part.rels.values() if not r.is_external and str(r.reltype).endswith("/comments")):
        for comment in xml_root(part.blob).iter("{*}cm", "{*}reply"):
            yield from _comment(comment, authors)


def _shape(shape: Any, depth: int = 0) -> Iterator[str]:
    if hasattr(shape, "shapes") and depth < _DEEPEST:
        for inner in shape.shapes:
            yield from _shape(inner, depth + 1)
    elif getattr(shape, "has_table", False):
        rows = [[cell(c.text) for c in row.cells] for row in shape.table.rows]
        yield "\n".join(table_lines(rows, likely=shape.table.first_row or len(shape.table.columns) > 2))
    elif getattr(shape, "has_chart", False):
        yield "\n".join(chart_lines(xml_root(shape.chart.part.blob)))
    elif getattr(shape, "has_text_frame", False):
        paragraphs = [(p.level, " ".join(p.text.split())) for p in shape.text_frame.paragraphs]
        several = shape.is_placeholder and sum(bool(text) for _, text in paragraphs) > 1
        yield "\n".join("  " * level + ("- " if several else "") + text for level, text in paragraphs if text)


def _comment(comment: Any, authors: Mapping[str, str]) -> Iterator[str]:
    """What a reader noted: `text` in older files, a text body in newer ones, whose replies are comments of their own."""
    said = [e for child in comment for e in (child, *child.iter("{*}t")) if str(child.tag).endswith(("}text", "}txBody"))]
    text = " ".join(" ".join(e.text or "" for e in said).split())
    if text:
        name = authors.get(comment.get("authorId") or "", "")
        yield comment_line(text, name, comment.get("created") or comment.get("dt") or "")


def _authors(part: Any) -> dict[str, str]:
    """Id → name of those who noted something."""
    related = (r.target_part for r in part.rels.values() if not r.is_external and str(r.reltype).lower().endswith("authors"))
    return {a.get("id") or "": a.get("name") or "" for one in related for a in xml_root(one.blob)}
