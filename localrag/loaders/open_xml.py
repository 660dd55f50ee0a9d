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

from localrag.loaders.content import OpenFile, ParsedFile, Unreadable, metadata_pairs, number_in, open_archive
from localrag.loaders.html import xml_root
from localrag.loaders.inline_text import TextRun, join_runs, symbol_text
from localrag.loaders.number_formats import iso_date
from localrag.loaders.tabular import format_cell, format_row

CHART_NS = "{http://schemas.openxmlformats.org/drawingml/2006/chart}"
DRAWING_NS = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
DIAGRAM_NS = "{http://schemas.openxmlformats.org/drawingml/2006/diagram}"
MATH_NS = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
RELATION_NS = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_ALTERNATIVES_NS = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
_STRICT = re.compile(rb"""(["'])http://purl\.oclc\.org/ooxml/(\w+)/(\w+)""")
_CONTENT = frozenset({"chart", "relIds", "OLEObject", "oleObj", "oMath", "tbl"})  # elements that are more than decoration
_PACKAGE_NAMES = frozenset({"PowerPoint Presentation", "Word Document"})  # titles that say nothing
_LIBRARIES = frozenset({"python-docx", "openpyxl"})  # programs that name themselves as the author
MAX_DIAGRAM_DEPTH = 12


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


def drawing_text(paragraph: Any) -> str:
    """A paragraph of a drawing, slide or diagram on one line."""
    return " ".join(join_runs(_drawing_runs(paragraph)).split())


def _drawing_runs(paragraph: Any) -> Iterator[TextRun]:
    for child in paragraph:
        if child.tag in {f"{DRAWING_NS}r", f"{DRAWING_NS}fld"}:
            properties = child.find(f"{DRAWING_NS}rPr")
            text = "".join(t.text or "" for t in child.iterchildren(f"{DRAWING_NS}t"))
            if properties is None:
                yield text, 0
            else:
                yield symbol_text(_symbol_font(properties), text), _baseline(properties)
        elif child.tag == f"{DRAWING_NS}br":
            yield "\n", 0
        elif child.tag != f"{DRAWING_NS}pPr":
            yield from ((formula_text(m), 0) for m in child.iter(f"{MATH_NS}oMath"))


def _symbol_font(properties: Any) -> str:
    font = properties.find(f"{DRAWING_NS}sym")
    if font is None:
        font = properties.find(f"{DRAWING_NS}latin")
    return "" if font is None else str(font.get("typeface") or "")


def _baseline(properties: Any) -> int:
    """1 for raised text, -1 for lowered: its distance in thousandths of a percent, or in percent."""
    distance = str(properties.get("baseline") or "0").rstrip("%")
    return 0 if not distance.strip("-0.") else -1 if distance.startswith("-") else 1


def diagram_lines(root: Any) -> Iterator[str]:
    """The texts of a SmartArt diagram as a list, nested as in the diagram."""
    texts: dict[str, str] = {}
    for point in root.iter(f"{DIAGRAM_NS}pt"):
        paragraphs = point.iterfind(f"{DIAGRAM_NS}t/{DRAWING_NS}p")
        texts[str(point.get("modelId"))] = " ".join(filter(None, map(drawing_text, paragraphs)))
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


def _diagram_branch(key: str, texts: Mapping[str, str], children: Mapping[str, list[tuple[int, str]]], seen: set[str]) -> Iterator[str]:
    """A node and the nodes below it, in order; each node once."""
    open_nodes = [(key, 0)]
    while open_nodes:
        node, depth = open_nodes.pop()
        if node in seen:
            continue
        seen.add(node)
        if texts[node]:
            yield f"{'  ' * min(depth, MAX_DIAGRAM_DEPTH)}- {texts[node]}"
        below = depth + bool(texts[node])
        open_nodes += [(child, below) for _, child in sorted(children.get(node, ()), reverse=True)]


def diagram_part_lines(package: OpenXmlPackage, relations: Mapping[str, Relation], relation_id: str) -> list[str]:
    """The texts of the diagram that a drawing refers to."""
    relation = relations.get(relation_id)
    root = package.optional_root(relation.target) if relation else None
    return [] if root is None else list(diagram_lines(root))


def chart_part_lines(package: OpenXmlPackage, relations: Mapping[str, Relation], relation_id: str) -> list[str]:
    """The lines of the chart that a drawing refers to."""
    relation = relations.get(relation_id)
    root = package.optional_root(relation.target) if relation else None
    return [] if root is None else list(chart_lines(root))


def parsed_file(text: str, metadata: tuple[tuple[str, str], ...], heading: str, parts: Any = ()) -> ParsedFile:
    """A document with the title of its metadata, else its first heading."""
    return ParsedFile(text, dict(metadata).get("title", "") or heading, metadata, parts)


def chart_lines(root: Any) -> Iterator[str]:
    """The titles of a chart, then one line per category with the values of all series."""
    for title in root.iter(f"{CHART_NS}title"):
        if text := " ".join("".join(t.text or "" for t in title.iter(f"{DRAWING_NS}t")).split()):
            yield text
    series = [
        (" ".join(_values(ser, "tx").values()), _values(ser, "cat") or _values(ser, "xVal"), _values(ser, "val") or _values(ser, "yVal"))
        for ser in root.iter(f"{CHART_NS}ser")
    ]
    if not series:
        return
    categories: dict[int, str] = {}
    for _, named, values in series:
        categories = {n: "" for n in values} | named | categories
    header = ["", *(name for name, *_ in series)]
    yield from (format_row(header, [categories[n], *(values.get(n, "") for *_, values in series)]) for n in sorted(categories))


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


def formula_text(element: Any) -> str:
    """A Word formula on one line: fractions with /, powers with ^, roots with √."""
    tag = str(element.tag).removeprefix(MATH_NS)
    if tag == "t":
        return element.text or ""
    inner = {str(c.tag).removeprefix(MATH_NS): formula_text(c) for c in element if isinstance(c.tag, str) and c.tag.startswith(MATH_NS)}
    base, subscript, superscript = (inner.get(name, "") for name in ("e", "sub", "sup"))
    match tag:
        case "f":
            text = f"({inner.get('num', '')})/({inner.get('den', '')})"
        case "rad":
            text = f"√({base})"
        case "sSup" | "sSub" | "sSubSup":
            text = base + f"_{subscript}" * bool(subscript) + f"^{superscript}" * bool(superscript)
        case "d":
            text = f"({', '.join(formula_text(c) for c in element.iterchildren(f'{MATH_NS}e'))})"
        case "nary":
            sign = element.find(f"{MATH_NS}naryPr/{MATH_NS}chr")
            text = f"{'∫' if sign is None else sign.get(f'{MATH_NS}val')}_{subscript}^{superscript} {base}"
        case _:
            text = "".join(
                formula_text(c) for c in element if isinstance(c.tag, str) and c.tag.startswith(MATH_NS) and not c.tag.endswith("Pr")
            )
    return text
