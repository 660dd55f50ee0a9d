"""Open XML packages (DOCX, PPTX, XLSX): parts and their relationships, properties, and the drawings they share.

Both variants of the format are read, the strict one by its namespaces' older names.
"""

import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from posixpath import dirname, join, normpath
from typing import Any
from zipfile import BadZipFile, ZipFile

from localrag.loaders.content import OpenFile, ParsedFile, Unreadable, first_heading, metadata_pairs, number_in, open_archive
from localrag.loaders.document_tree import RenderedText, TextBlock, TextRun, inline_text, item
from localrag.loaders.formulas import MATH_NS, after, office_formula
from localrag.loaders.html import xml_root
from localrag.loaders.inline_text import symbol_text
from localrag.loaders.number_formats import iso_date
from localrag.loaders.tabular import format_cell, format_row
from localrag.text.outline import BlockKind

CHART_NS = "{http://schemas.openxmlformats.org/drawingml/2006/chart}"
DRAWING_NS = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
DIAGRAM_NS = "{http://schemas.openxmlformats.org/drawingml/2006/diagram}"
RELATION_NS = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_ALTERNATIVES_NS = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
_STRICT = re.compile(rb"""(["'])http://purl\.oclc\.org/ooxml/(\w+)/(\w+)""")
_CONTENT = frozenset({"chart", "relIds", "OLEObject", "oleObj", "oMath", "tbl"})  # elements that are more than decoration
_PACKAGE_NAMES = frozenset({"PowerPoint Presentation", "Word Document"})  # titles that say nothing
_LIBRARIES = frozenset({"python-docx", "openpyxl"})  # programs that name themselves as the author


@dataclass(frozen=True, slots=True)
class Relation:
    """A reference from one part to another: the last segment of its type, and the name of the part in the archive, or its address."""

    kind: str
    target: str
    is_external: bool = False


@dataclass(slots=True)
class OpenXmlPackage:
    """The parts of an Open XML file, by their names in the archive."""

    archive: ZipFile
    main: str = ""
    names: dict[str, str] = field(default_factory=dict)  # lower-case name → name: some programs write them in other letters

    def read(self, name: str) -> bytes:
        """The bytes of a part. Raises Unreadable."""
        try:
            return self.archive.read(self.names.get(name.lower(), name))
        except (KeyError, BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
            raise Unreadable(f"damaged: {name or 'the document'} is missing or corrupt", failed=True) from error

    def root(self, name: str) -> Any:
        """The root element of a part, with one branch of each alternative. Raises Unreadable."""
        data = self.read(name)
        if b"purl.oclc.org/ooxml" in data:
            data = _STRICT.sub(rb"\1http://schemas.openxmlformats.org/\2/2006/\3", data)
        root = xml_root(data)
        choose_alternatives(root)
        return root

    def optional_root(self, name: str) -> Any:
        """The root element of a part; None if it is missing or damaged: the rest of the document is read without it."""
        try:
            return self.root(name) if name else None
        except Unreadable:
            return None

    def relations(self, name: str) -> dict[str, Relation]:
        """Id → relation of a part; empty if it has none."""
        folder, base = dirname(name), name.rpartition("/")[2]
        root = self.optional_root(join(folder, "_rels", f"{base}.rels"))
        if root is None:
            return {}
        found: dict[str, Relation] = {}
        for element in root.iter("{*}Relationship"):
            target = str(element.get("Target") or "")
            is_external = element.get("TargetMode") == "External"
            path = target if is_external else normpath(join("/", folder, target)).lstrip("/")
            found[str(element.get("Id"))] = Relation(str(element.get("Type") or "").rstrip("/").rpartition("/")[2], path, is_external)
        return found

    def related(self, name: str, kind: str) -> list[str]:
        """The parts that a part refers to with a kind of relation."""
        return [r.target for r in self.relations(name).values() if r.kind == kind and not r.is_external]

    def embedded_names(self, name: str) -> list[str]:
        """The names of the files embedded in a part, without their folders."""
        kinds = {"package", "oleObject"}
        return [r.target.rpartition("/")[2] for r in self.relations(name).values() if r.kind in kinds and not r.is_external]


def open_package(file: OpenFile, fallback: str) -> OpenXmlPackage:
    """Open an Open XML file; `fallback`: the name of its main part if the package does not say. Raises Unreadable."""
    archive = open_archive(file)
    package = OpenXmlPackage(archive, names={name.replace("\\", "/").lower(): name for name in archive.namelist()})
    main = next(iter(package.related("", "officeDocument")), "")
    package.main = main if main.lower() in package.names else fallback
    if package.main.lower() not in package.names:
        raise Unreadable(f"damaged: {package.main} is missing", failed=True)
    return package


def choose_alternatives(root: Any) -> None:
    """Replace each choice of contents by one of them: the first with text or an object that can be read, else the first."""
    for element in reversed(list(root.iter(f"{_ALTERNATIVES_NS}AlternateContent"))):
        parent = element.getparent()
        branches = [c for c in element if c.tag in {f"{_ALTERNATIVES_NS}Choice", f"{_ALTERNATIVES_NS}Fallback"}]
        if parent is not None:
            chosen = next((branch for branch in branches if _has_content(branch)), branches[0] if branches else ())
            index = parent.index(element)
            for child in reversed(list(chosen)):
                parent.insert(index, child)
            parent.remove(element)


def _has_content(branch: Any) -> bool:
    for element in branch.iter("*"):
        name = str(element.tag).rpartition("}")[2]
        if name in _CONTENT or (name == "t" and (element.text or "").strip()):
            return True
    return False


def core_metadata(package: OpenXmlPackage) -> tuple[tuple[str, str], ...]:
    """Title, author, date, subject and keywords of an Office document, as far as it has them."""
    root = package.optional_root(next(iter(package.related("", "core-properties")), "docProps/core.xml"))
    if root is None:
        return ()
    values = {str(e.tag).rpartition("}")[2]: (e.text or "").strip() for e in root.iter("*")}
    title, author = values.get("title", ""), values.get("creator", "")
    return metadata_pairs(
        title="" if title in _PACKAGE_NAMES else title,
        author="" if author in _LIBRARIES else author,
        date=iso_date(values.get("modified", "")) or iso_date(values.get("created", "")),
        subject=values.get("subject"),
        keywords=values.get("keywords"),
    )


def drawing_text(paragraph: Any, relations: Mapping[str, Relation]) -> str:
    """A paragraph of a drawing, slide or diagram on one line; `relations`: of the part that it is in."""
    return " ".join(inline_text(_drawing_runs(paragraph, relations)).split())


def drawing_texts(element: Any, relations: Mapping[str, Relation]) -> list[str]:
    """The texts of the paragraphs in an element that have any."""
    return [text for p in element.iter(f"{DRAWING_NS}p") if (text := drawing_text(p, relations))]


def clicked_link(element: Any, relations: Mapping[str, Relation]) -> str:
    """The address that a click on a text, shape or picture leads to, given its properties; empty within the document."""
    click = None if element is None else element.find(f"{DRAWING_NS}hlinkClick")
    return "" if click is None else external_target(relations, click.get(f"{RELATION_NS}id"))


def external_target(relations: Mapping[str, Relation], key: str | None) -> str:
    """The address of a relation to something outside of the document; empty for any other."""
    relation = relations.get(key or "")
    return relation.target if relation and relation.is_external else ""


def part_name(relations: Mapping[str, Relation], key: str | None) -> str:
    """The part that a relation leads to; empty if it leads out of the document, or nowhere."""
    relation = relations.get(key or "")
    return relation.target if relation and not relation.is_external else ""


def _drawing_runs(paragraph: Any, relations: Mapping[str, Relation]) -> Iterator[TextRun]:
    before = ""
    for child in paragraph:
        if child.tag in {f"{DRAWING_NS}r", f"{DRAWING_NS}fld"}:
            properties = child.find(f"{DRAWING_NS}rPr")
            text = before = "".join(t.text or "" for t in child.iterchildren(f"{DRAWING_NS}t"))
            if properties is None:
                yield TextRun(text)
            else:
                is_struck = properties.get("strike", "noStrike") != "noStrike"
                is_highlighted = properties.find(f"{DRAWING_NS}highlight") is not None
                text = symbol_text(_symbol_font(properties), text)
                yield TextRun(text, _baseline(properties), clicked_link(properties, relations), is_struck, is_highlighted)
        elif child.tag == f"{DRAWING_NS}br":
            yield TextRun("\n")
        elif child.tag != f"{DRAWING_NS}pPr":
            yield from (TextRun(after(before, office_formula(m))) for m in child.iter(f"{MATH_NS}oMath"))


def _symbol_font(properties: Any) -> str:
    font = properties.find(f"{DRAWING_NS}sym")
    if font is None:
        font = properties.find(f"{DRAWING_NS}latin")
    return "" if font is None else str(font.get("typeface") or "")


def _baseline(properties: Any) -> int:
    """1 for raised text, -1 for lowered: its distance in thousandths of a percent, or in percent."""
    distance = str(properties.get("baseline") or "0").rstrip("%")
    return 0 if not distance.strip("-0.") else -1 if distance.startswith("-") else 1


def diagram_blocks(package: OpenXmlPackage, name: str) -> Iterator[TextBlock]:
    """The texts of a SmartArt diagram as a list, nested as in the diagram."""
    root = package.optional_root(name)
    if root is None:
        return
    inner_relations = package.relations(name)
    texts: dict[str, str] = {}
    for point in root.iter(f"{DIAGRAM_NS}pt"):
        texts[str(point.get("modelId"))] = " ".join(
            text for part in point.iterfind(f"{DIAGRAM_NS}t") for text in drawing_texts(part, inner_relations)
        )
    children: dict[str, list[tuple[int, str]]] = {}
    inner = set[str]()
    for connection in root.iter(f"{DIAGRAM_NS}cxn"):
        source, target = str(connection.get("srcId")), str(connection.get("destId"))
        if connection.get("type", "parOf") == "parOf" and source in texts and target in texts and target not in inner and source != target:
            children.setdefault(source, []).append((number_in(str(connection.get("srcOrd"))), target))
            inner.add(target)
    seen = set[str]()
    for key in [key for key in texts if key not in inner] + list(texts):
        yield from _diagram_branch(key, texts, children, seen)


def _diagram_branch(
    key: str, texts: Mapping[str, str], children: Mapping[str, list[tuple[int, str]]], seen: set[str]
) -> Iterator[TextBlock]:
    """A node and the nodes below it, in order; each node once."""
    open_nodes = [(key, 0)]
    while open_nodes:
        node, depth = open_nodes.pop()
        if node in seen:
            continue
        seen.add(node)
        if texts[node]:
            yield item(depth, "-", texts[node])
        below = depth + bool(texts[node])
        open_nodes += [(child, below) for _, child in sorted(children.get(node, ()), reverse=True)]


def parsed_file(rendered: RenderedText, metadata: tuple[tuple[str, str], ...], *, is_sheet: bool = False) -> ParsedFile:
    """A document with the title of its metadata, else its first heading; that of a sheet is none."""
    title = dict(metadata).get("title", "") or ("" if is_sheet else first_heading(rendered.text))
    return ParsedFile(rendered.text, title, metadata, rendered.parts, rendered.blocks)


def chart_blocks(package: OpenXmlPackage, name: str, *before: str) -> Iterator[TextBlock]:
    """A chart as a table: its titles, then a line per category with the values of all series. `before`: lines above it."""
    root = package.optional_root(name)
    if root is None:
        return
    titles = (" ".join("".join(t.text or "" for t in title.iter(f"{DRAWING_NS}t")).split()) for title in root.iter(f"{CHART_NS}title"))
    lines = [title for title in titles if title]
    series = [
        (" ".join(_values(ser, "tx").values()), _values(ser, "cat") or _values(ser, "xVal"), _values(ser, "val") or _values(ser, "yVal"))
        for ser in root.iter(f"{CHART_NS}ser")
    ]
    categories: dict[int, str] = {}
    for _, named, values in series:
        categories = {n: "" for n in values} | named | categories
    header = ["", *(name for name, *_ in series)]
    lines += [format_row(header, [categories[n], *(values.get(n, "") for *_, values in series)]) for n in sorted(categories)]
    if lines:
        yield TextBlock(BlockKind.TABLE, "\n".join([*before, *lines]), columns=tuple(header))


def _values(series: Any, name: str) -> dict[int, str]:
    """Index → cached value of a chart's row of cells."""
    values: dict[int, str] = {}
    parent = series.find(f"{CHART_NS}{name}")
    if parent is None:
        return values
    for n, point in enumerate(parent.iter(f"{CHART_NS}v")):
        index = str(point.getparent().get("idx") or n)
        text = format_cell(point.text)
        values[number_in(index, n)] = text.removesuffix(".0")
    return values
