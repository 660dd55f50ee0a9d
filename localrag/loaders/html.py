"""HTML, EPUB and XML: headings as `# …`, lists, tables and paragraphs in order.

XML is parsed without entities, DTDs or network, as running text or as data.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from posixpath import dirname, join, normpath
from typing import Any

from localrag.loaders.content import (
    LoadOptions,
    OpenFile,
    ParsedFile,
    Unreadable,
    clean_text,
    decode,
    first_heading,
    join_sections,
    metadata_pairs,
    open_archive,
    read_entry,
)
from localrag.loaders.tabular import format_row, table_lines

_DROPPED = frozenset("script style noscript template svg head iframe object select datalist rp map audio video canvas".split())
_BLOCKS = frozenset(
    "address article aside blockquote body center details dialog div dl dd dt fieldset figure figcaption footer form header hr html"
    " legend li main nav ol p section summary table caption tbody thead tfoot tr td th ul pre title".split()
)
_DECLARED = re.compile(rb"""(?:charset|encoding)\s*=\s*["']?\s*([\w-]+)""", re.IGNORECASE)
_MAX_COLUMNS = 200  # columns that a table cell may span
_MAX_NESTING = 12  # nested lists that are indented further
_BREAK = "\v"


@dataclass(slots=True)
class _BlockWriter:
    """The blocks of a page in order: the text of each, and whether it follows the one before without a blank line."""

    blocks: list[tuple[str, bool]] = field(default_factory=list)
    inline: list[str] = field(default_factory=list)
    prefix: str = ""
    lists: list[int | None] = field(default_factory=list)  # open lists: last number of each, None without numbers

    def flush(self) -> None:
        """End the current block."""
        lines = ["\n".join(squeezed for part in "".join(self.inline).split(_BREAK) if (squeezed := " ".join(part.split())))]
        self.inline.clear()
        if lines[0]:
            self.blocks.append((self.prefix + lines[0], bool(self.lists)))
            self.prefix = _indent(len(self.lists))

    @property
    def text(self) -> str:
        """All blocks; list items on lines of their own, other blocks separated by blank lines."""
        parts: list[str] = []
        was_close = False
        for text, is_close in self.blocks:
            parts += [("\n" if is_close and was_close else "\n\n") if parts else "", text]
            was_close = is_close
        return clean_text("".join(parts))


def parse_html(file: OpenFile, _options: LoadOptions) -> ParsedFile:
    """Parse a web page; its title and description are metadata."""
    data = file.read_bytes()
    declared = _DECLARED.search(data[:4096])
    return html_content(decode(data, declared[1].decode("ascii", "replace") if declared else ""))


def html_content(markup: str) -> ParsedFile:
    """The text and metadata of a page."""
    import lxml.html

    try:
        markup = re.sub(r"^\s*<\?xml[^>]*\?>", "", markup.lstrip("\ufeff"), count=1)
        parser = lxml.html.HTMLParser(no_network=True, huge_tree=True)  # the process is limited
        root: Any = lxml.html.document_fromstring(markup, parser=parser)
        if any("depth" in entry.message or "HUGE" in entry.message for entry in parser.error_log):
            return ParsedFile(_bare(markup))  # the parser stopped there, without an exception
    except (lxml.etree.LxmlError, ValueError, AssertionError):
        return ParsedFile("")
    named = {str(m.get("name") or m.get("property") or "").lower(): m.get("content") for m in root.iter("meta")}
    title = " ".join((root.findtext(".//head/title") or root.findtext(".//title") or "").split())
    metadata = metadata_pairs(
        title=title,
        author=named.get("author") or named.get("article:author"),
        date=named.get("date") or named.get("article:published_time") or named.get("dc.date"),
        description=named.get("description"),
    )
    body = root.find("body")
    text = html_text(root if body is None else body)
    return ParsedFile(text, title or first_heading(text), metadata)


def _bare(markup: str) -> str:
    """All the text of a page nested too deeply to be parsed."""
    from html import unescape

    markup = re.sub(r"(?is)<!--.*?(?:-->|\Z)|<(script|style)\b.*?(?:</\1\s*>|\Z)", " ", markup)
    markup = re.sub(r"(?i)</?(?:p|div|br|li|tr|h[1-6]|table|section|article)\b[^<>]*>", "\n\n", markup)
    return clean_text(unescape(re.sub(r"<[^<>]*>", "", markup)))


def html_text(root: Any) -> str:
    """The text of a tree of HTML elements."""
    page = _BlockWriter()
    _walk(root, page)
    page.flush()
    return page.text


def _walk(node: Any, page: _BlockWriter) -> None:
    tag = _tag(node)
    if tag == "br":
        page.inline.append(_BREAK)
    elif tag == "pre":
        page.flush()
        page.blocks.append(("".join(_raw(node)).strip("\n"), False))
    elif tag == "table" and (lines := _data_table_lines(node)):
        page.flush()
        page.blocks.append(("\n".join(lines), False))
    elif re.fullmatch("h[1-6]", tag):
        _block(node, page, prefix="#" * int(tag[1]) + " ")
    elif tag == "li":
        _block(node, page, prefix=_indent(len(page.lists) - 1) + _list_marker(page.lists))
    elif tag in {"ul", "ol", "dl"}:
        page.flush()
        page.lists.append(_start(node) - 1 if tag == "ol" else None)
        _children(node, page)
        page.flush()
        page.lists.pop()
    elif tag in _BLOCKS:
        _block(node, page)
    elif tag:
        _children(node, page)


def _indent(depth: int) -> str:
    return "  " * min(max(depth, 0), _MAX_NESTING)


def _list_marker(lists: list[int | None]) -> str:
    """The marker of a list item: its number in a numbered list."""
    if not lists or lists[-1] is None:
        return "- "
    lists[-1] += 1
    return f"{lists[-1]}. "


def _start(node: Any) -> int:
    start = str(node.get("start") or "1")
    return int(start) if start.isdecimal() and len(start) < 7 else 1


def _tag(node: Any) -> str:
    """The name of an element; empty for invisible ones: comments, scripts, hidden elements, navigation."""
    if not isinstance(node.tag, str):
        return ""
    tag = str(node.tag).rpartition("}")[2].lower()
    hidden = "hidden" in node.attrib or "display:none" in (node.get("style") or "").replace(" ", "").lower()
    return "" if tag in _DROPPED or hidden or ((tag == "nav" or node.get("role") == "navigation") and _is_links(node)) else tag


def _is_links(node: Any) -> bool:
    n_chars = len("".join("".join(node.itertext()).split()))
    n_linked = sum(len("".join("".join(a.itertext()).split())) for a in node.iter("{*}a"))
    return n_linked >= 0.5 * n_chars


def _block(node: Any, page: _BlockWriter, prefix: str = "") -> None:
    page.flush()
    if prefix:
        page.prefix = prefix
    _children(node, page)
    page.flush()
    if prefix.startswith("#"):
        page.prefix = ""


def _children(node: Any, page: _BlockWriter) -> None:
    page.inline.append(node.text or "")
    for child in node:
        _walk(child, page)
        page.inline.append(child.tail or "")


def _raw(node: Any) -> Iterator[str]:
    yield node.text or ""
    for child in node:
        if _tag(child):
            yield "\n" if _tag(child) == "br" else "".join(_raw(child))
        yield child.tail or ""


def _data_table_lines(table: Any) -> list[str]:
    """The lines of a data table; empty for a layout table."""
    rows = [row for row in table.iter("{*}tr") if next(row.iterancestors("{*}table")) is table]
    cells = [[c for c in row if _tag(c) in {"td", "th"}] for row in rows]
    width = max((len(row) for row in cells), default=0)
    if width < 2 or table.get("role") == "presentation" or next(table.iterdescendants("{*}table"), None) is not None:
        return []
    if any(c.find(f".//{{*}}{tag}") is not None for row in cells for c in row for tag in ("h1", "h2", "h3", "form")):
        return []
    n_headers = 0
    while n_headers < len(rows) - 1 and cells[n_headers] and _is_head(rows[n_headers], cells[n_headers]):
        n_headers += 1
    grid = _grid(cells, n_headers)
    caption = [html_text(c) for c in table.iterchildren("{*}caption")]
    if n_headers:
        header = [" ".join(dict.fromkeys(filter(None, column))) for column in zip(*_even(grid[:n_headers]), strict=True)]
        lines = [format_row(header, row) for row in grid[n_headers:]]
    else:
        lines = list(table_lines(grid, likely=width > 2))
    return [line for line in (*caption, *lines) if line]


def _is_head(row: Any, cells: list[Any]) -> bool:
    return _tag(row.getparent()) == "thead" or all(_tag(c) == "th" for c in cells)


def _even(grid: list[list[str]]) -> list[list[str]]:
    width = max(len(row) for row in grid)
    return [row + [""] * (width - len(row)) for row in grid]


def _grid(cells: list[list[Any]], n_headers: int) -> list[list[str]]:
    """Cells by row and column: a cell that spans rows is in each of them, one that spans columns in the first (a header in all)."""
    grid: list[list[str]] = []
    row_spans: dict[int, tuple[int, str]] = {}  # column → (remaining rows, text)
    for n, row in enumerate(cells):
        line: list[str] = []
        new_spans: dict[int, tuple[int, str]] = {}
        for c in row:
            _fill(line, row_spans)
            text = " ".join(html_text(c).split())
            n_rows = _span_attribute(c, "rowspan")
            for k in range(_span_attribute(c, "colspan")):
                if n_rows > 1:
                    new_spans[len(line)] = (n_rows - 1, text if not k or n < n_headers else "")
                line.append(text if not k or n < n_headers else "")
        _fill(line, row_spans)
        row_spans = {column: (remaining - 1, text) for column, (remaining, text) in row_spans.items() if remaining > 1} | new_spans
        grid.append(line)
    return grid


def _fill(line: list[str], row_spans: dict[int, tuple[int, str]]) -> None:
    while len(line) in row_spans:
        line.append(row_spans[len(line)][1])


def _span_attribute(node: Any, name: str) -> int:
    value = str(node.get(name) or "1").strip()
    return min(max(int(value), 1), _MAX_COLUMNS) if value.isdecimal() and len(value) < 9 else 1


_HEADINGS = frozenset({"title", "article-title", "head", "heading", "h1", "h2", "h3"})
_SUPPRESSED = frozenset({"script", "style"})


def xml_root(data: bytes) -> Any:
    """The root element of an XML document. Raises Unreadable if it is not well-formed."""
    from lxml import etree

    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=True, remove_comments=True, remove_pis=True)
    try:
        return etree.fromstring(data, parser)
    except (etree.XMLSyntaxError, ValueError) as error:
        raise Unreadable(f"damaged: {error}", failed=True) from error


def parse_xml(file: OpenFile, options: LoadOptions) -> ParsedFile:
    """Parse XML to paragraphs, or to `tag: text` lines if each element holds one value; XHTML as HTML."""
    data = file.read_bytes()
    try:
        root = xml_root(data)
    except Unreadable:
        text = re.sub(r"^\s*<\?xml[^>]*\?>", "", decode(data).lstrip("\ufeff"), count=1)
        root = xml_root(text.encode("utf-8"))  # the declared encoding was wrong
    if _name(root) == "html":
        return parse_html(file, options)
    lines = list(_paragraphs(root) if _is_prose(root) else _values(root))
    return ParsedFile(clean_text("\n".join(lines)), _title(root))


def _name(element: Any) -> str:
    return str(element.tag).rpartition("}")[2].lower()


def _is_prose(root: Any) -> bool:
    """Whether elements occur within sentences."""
    return any((c.tail or "").strip() for c in root.iter("*"))


def _title(root: Any) -> str:
    element = next((e for e in root.iter("{*}article-title", "{*}title") if "".join(e.itertext()).strip()), None)
    return "" if element is None else " ".join("".join(element.itertext()).split())[:200]


def _paragraphs(element: Any) -> Iterator[str]:
    """Every element with text of its own, including its children, as a paragraph."""
    if _name(element) in _SUPPRESSED:
        return
    own_texts = [element.text or "", *(c.tail or "" for c in element)]
    if any(map(str.strip, own_texts)) or len(element) == 0:
        text = " ".join(" ".join(element.itertext()).split() if len(element) else (element.text or "").split())
        if text:
            yield f"# {text}\n" if _name(element) in _HEADINGS else f"{text}\n"
        return
    for child in element:
        yield from _paragraphs(child)


def _values(root: Any) -> Iterator[str]:
    """`tag: text` for every element with text or attributes; a blank line after each child of the root, or of the root's only child."""
    top = root[0] if len(root) == 1 and len(root[0]) else root
    for record in top:
        for element in record.iter("*"):
            text = _plain(element.text or "")
            pairs = [f"{key.rpartition('}')[2]}: {' '.join(value.split())}" for key, value in element.attrib.items() if value.strip()]
            if text or pairs:
                yield " · ".join([f"{_name(element)}: {text}"] * bool(text) + pairs)
        yield ""


def _plain(text: str) -> str:
    """A value without the HTML that feeds put into it."""
    if re.search(r"</?\w+[^<>]*>", text):
        text = html_content(text).text
    return " ".join(text.split())


_DUBLIN_CORE = {
    "title": "title",
    "creator": "author",
    "date": "date",
    "publisher": "publisher",
    "language": "language",
    "subject": "subject",
}


def parse_epub(file: OpenFile, _options: LoadOptions) -> ParsedFile:
    """Parse a book: its chapters in reading order are the parts."""
    with open_archive(file) as archive:
        names = set(archive.namelist())
        container = xml_root(read_entry(archive, "META-INF/container.xml"))
        path = next((str(r.get("full-path")) for r in container.iter("{*}rootfile")), "")
        if path not in names:
            raise Unreadable("damaged: the book has no list of its files", failed=True)
        package = xml_root(read_entry(archive, path))
        items = {i.get("id"): normpath(join(dirname(path), _unquoted(str(i.get("href"))))) for i in package.iter("{*}item")}
        spine = [items.get(i.get("idref"), "") for i in package.iter("{*}itemref")]
        chapters = [html_content(decode(read_entry(archive, name))) for name in spine if name in names]
    text, parts = join_sections((_chapter_name(c, n), c.text) for n, c in enumerate(chapters, 1))
    named = {tag: [" ".join((e.text or "").split()) for e in package.iter(f"{{*}}{tag}")] for tag in _DUBLIN_CORE}
    values = {label: ", ".join(filter(None, named[tag])) for tag, label in _DUBLIN_CORE.items()}
    return ParsedFile(text, values["title"], metadata_pairs(**values), parts)


def _unquoted(href: str) -> str:
    """A percent-decoded file name: `%C3%A4.xhtml` → `ä.xhtml`."""
    return re.sub(
        r"(?:%[0-9a-fA-F]{2})+", lambda match: bytes.fromhex(match[0].replace("%", "")).decode("utf-8", "replace"), href.partition("#")[0]
    )


def _chapter_name(chapter: ParsedFile, n: int) -> str:
    heading = first_heading(chapter.text)
    return f"chapter {' '.join(heading.split())[:80]}" if heading else f"section {n}"
