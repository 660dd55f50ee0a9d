"""HTML, and EPUB, which is HTML in an archive: headings as `# …`, lists, tables and paragraphs in their order."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from localrag.index.documents.load.content import Content, Options, clean, described, first_heading
from localrag.index.documents.load.encoding import decode
from localrag.index.documents.load.formats.tables import row_line, table_lines
from localrag.index.documents.load.open_file import OpenFile

_DROPPED = frozenset("script style noscript template svg head iframe object select datalist rp map audio video canvas".split())
_BLOCKS = frozenset(
    "address article aside blockquote body center details dialog div dl dd dt fieldset figure figcaption footer form header hr html"
    " legend li main nav ol p section summary table caption tbody thead tfoot tr td th ul pre title".split()
)
_DECLARED = re.compile(rb"""(?:charset|encoding)\s*=\s*["']?\s*([\w-]+)""", re.IGNORECASE)
_WIDEST = 200  # columns of a table that a cell may claim to span
_DEEPEST = 12  # lists in lists whose items stand further and further to the right
_BREAK = "\v"


@dataclass(slots=True)
class _Page:
    """The blocks of a page as they come: each a text, and whether it keeps close to the one before."""

    blocks: list[tuple[str, bool]] = field(default_factory=list)
    inline: list[str] = field(default_factory=list)
    prefix: str = ""
    lists: list[int | None] = field(default_factory=list)  # those we are in: how far each is counted, None without numbers

    def flush(self) -> None:
        """End the block that is being gathered."""
        lines = ["\n".join(squeezed for part in "".join(self.inline).split(_BREAK) if (squeezed := " ".join(part.split())))]
        self.inline.clear()
        if lines[0]:
            self.blocks.append((self.prefix + lines[0], bool(self.lists)))
            self.prefix = _indent(len(self.lists))

    @property
    def text(self) -> str:
        """All blocks; list items on lines of their own, everything else with a blank line between."""
        pieces: list[str] = []
        close_before = False
        for text, close in self.blocks:
            pieces += [("\n" if close and close_before else "\n\n") if pieces else "", text]
            close_before = close
        return clean("".join(pieces))


def parse_html(file: OpenFile, _options: Options) -> Content:
    """A web page; its title and description are metadata."""
    data = file.read_bytes()
    declared = _DECLARED.search(data[:4096])
    return html_content(decode(data, declared[1].decode("ascii", "replace") if declared else ""))


def html_content(markup: str) -> Content:
    """The text and metadata of a page."""
    import lxml.html

    try:
        markup = re.sub(r"^\s*<\?xml[^>]*\?>", "", markup.lstrip("\ufeff"), count=1)
        parser = lxml.html.HTMLParser(no_network=True, huge_tree=True)  # the process has limits of its own
        root: Any = lxml.html.document_fromstring(markup, parser=parser)
        if any("depth" in entry.message or "HUGE" in entry.message for entry in parser.error_log):
            return Content(_bare(markup))  # the parser stopped there and says so nowhere else
    except (lxml.etree.LxmlError, ValueError, AssertionError):
        return Content("")
    named = {str(m.get("name") or m.get("property") or "").lower(): m.get("content") for m in root.iter("meta")}
    title = " ".join((root.findtext(".//head/title") or root.findtext(".//title") or "").split())
    metadata = described(
        title=title,
        author=named.get("author") or named.get("article:author"),
        date=named.get("date") or named.get("article:published_time") or named.get("dc.date"),
        description=named.get("description"),
    )
    body = root.find("body")
    text = html_text(root if body is None else body)
    return Content(text, title or first_heading(text), metadata)


def _bare(markup: str) -> str:
    """All the text of a page that is nested too deeply to be parsed."""
    from html import unescape

    markup = re.sub(r"(?is)<!--.*?(?:-->|\Z)|<(script|style)\b.*?(?:</\1\s*>|\Z)", " ", markup)
    markup = re.sub(r"(?i)</?(?:p|div|br|li|tr|h[1-6]|table|section|article)\b[^<>]*>", "\n\n", markup)
    return clean(unescape(re.sub(r"<[^<>]*>", "", markup)))


def html_text(root: Any) -> str:
    """The text of a tree of HTML elements."""
    page = _Page()
    _walk(root, page)
    page.flush()
    return page.text


def _walk(node: Any, page: _Page) -> None:
    tag = _tag(node)
    if tag == "br":
        page.inline.append(_BREAK)
    elif tag == "pre":
        page.flush()
        page.blocks.append(("".join(_raw(node)).strip("\n"), False))
    elif tag == "table" and (lines := _table(node)):
        page.flush()
        page.blocks.append(("\n".join(lines), False))
    elif re.fullmatch("h[1-6]", tag):
        _block(node, page, prefix="#" * int(tag[1]) + " ")
    elif tag == "li":
        _block(node, page, prefix=_indent(len(page.lists) - 1) + _mark(page.lists))
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
    return "  " * min(max(depth, 0), _DEEPEST)


def _mark(lists: list[int | None]) -> str:
    """What stands before a list item: its number in a numbered list."""
    if not lists or lists[-1] is None:
        return "- "
    lists[-1] += 1
    return f"{lists[-1]}. "


def _start(node: Any) -> int:
    start = str(node.get("start") or "1")
    return int(start) if start.isdecimal() and len(start) < 7 else 1


def _tag(node: Any) -> str:
    """The name of an element; empty for what is not shown: comments, scripts, hidden elements, navigation."""
    if not isinstance(node.tag, str):
        return ""
    tag = str(node.tag).rpartition("}")[2].lower()
    hidden = "hidden" in node.attrib or "display:none" in (node.get("style") or "").replace(" ", "").lower()
    return "" if tag in _DROPPED or hidden or ((tag == "nav" or node.get("role") == "navigation") and _is_links(node)) else tag


def _is_links(node: Any) -> bool:
    whole = len("".join("".join(node.itertext()).split()))
    linked = sum(len("".join("".join(a.itertext()).split())) for a in node.iter("{*}a"))
    return linked >= 0.5 * whole


def _block(node: Any, page: _Page, prefix: str = "") -> None:
    page.flush()
    if prefix:
        page.prefix = prefix
    _children(node, page)
    page.flush()
    if prefix.startswith("#"):
        page.prefix = ""


def _children(node: Any, page: _Page) -> None:
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


def _table(table: Any) -> list[str]:
    """The lines of a table of data; none for a table that only lays out a page."""
    rows = [row for row in table.iter("{*}tr") if next(row.iterancestors("{*}table")) is table]
    cells = [[c for c in row if _tag(c) in {"td", "th"}] for row in rows]
    width = max((len(row) for row in cells), default=0)
    if width < 2 or table.get("role") == "presentation" or next(table.iterdescendants("{*}table"), None) is not None:
        return []
    if any(c.find(f".//{{*}}{tag}") is not None for row in cells for c in row for tag in ("h1", "h2", "h3", "form")):
        return []
    heads = 0
    while heads < len(rows) - 1 and cells[heads] and _is_head(rows[heads], cells[heads]):
        heads += 1
    grid = _grid(cells, heads)
    caption = [html_text(c) for c in table.iterchildren("{*}caption")]
    if heads:
        header = [" ".join(dict.fromkeys(filter(None, column))) for column in zip(*_even(grid[:heads]), strict=True)]
        lines = [row_line(header, row) for row in grid[heads:]]
    else:
        lines = list(table_lines(grid, likely=width > 2))
    return [line for line in (*caption, *lines) if line]


def _is_head(row: Any, cells: list[Any]) -> bool:
    return _tag(row.getparent()) == "thead" or all(_tag(c) == "th" for c in cells)


def _even(grid: list[list[str]]) -> list[list[str]]:
    width = max(len(row) for row in grid)
    return [row + [""] * (width - len(row)) for row in grid]


def _grid(cells: list[list[Any]], heads: int) -> list[list[str]]:
    """Cells by row and column: one that spans rows is in each of them, one that spans columns in the first (a header in all)."""
    grid: list[list[str]] = []
    down: dict[int, tuple[int, str]] = {}  # column → how many rows are still to have what
    for n, row in enumerate(cells):
        line: list[str] = []
        begun: dict[int, tuple[int, str]] = {}
        for c in row:
            _fill(line, down)
            text = " ".join(html_text(c).split())
            high = _span(c, "rowspan")
            for k in range(_span(c, "colspan")):
                if high > 1:
                    begun[len(line)] = (high - 1, text if not k or n < heads else "")
                line.append(text if not k or n < heads else "")
        _fill(line, down)
        down = {at: (left - 1, text) for at, (left, text) in down.items() if left > 1} | begun
        grid.append(line)
    return grid


def _fill(line: list[str], down: dict[int, tuple[int, str]]) -> None:
    while len(line) in down:
        line.append(down[len(line)][1])


def _span(node: Any, name: str) -> int:
    value = str(node.get(name) or "1").strip()
    return min(max(int(value), 1), _WIDEST) if value.isdecimal() and len(value) < 9 else 1
