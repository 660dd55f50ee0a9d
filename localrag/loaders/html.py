"""HTML and EPUB: the blocks of a page in order. XML is parsed without entities, DTDs or network."""

import json
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice, takewhile
from posixpath import dirname, join, normpath
from typing import Any

from localrag.loaders.content import (
    LoadOptions,
    OpenFile,
    ParsedFile,
    Unreadable,
    clean_text,
    decode,
    metadata_pairs,
    number_in,
    open_archive,
    read_entry,
    superscript,
)
from localrag.loaders.document_tree import (
    RenderedText,
    TextBlock,
    TextRun,
    code,
    heading_block,
    inline_text,
    item,
    join_sections,
    paragraph,
    render,
)
from localrag.loaders.headers import HeadCell
from localrag.loaders.inline_text import checkbox, picture_text, ruby_text
from localrag.loaders.numbering import format_number
from localrag.loaders.page_furniture import CODE_NAME, class_names, line_of, local_name, remove_furniture, write_formulas
from localrag.loaders.spans import CellRange, fill_spans
from localrag.loaders.tabular import tables
from localrag.text.outline import MAX_TITLE_CHARS, BlockKind

_BLOCKS = frozenset(
    "address article aside blockquote body center details dialog div dl dd dt fieldset figure figcaption footer form h1 h2 h3 h4 h5 h6"
    " header hr html legend li main nav ol p section summary table caption tbody template thead tfoot tr td th ul pre title".split()
)
_MIN_MAIN_SHARE = 0.2  # of a page's text, for its main element to be all that is read
_MAX_TEXTS_BESIDE = 50  # of a picture, in which its description is looked for
_MIN_ALT_WORDS = 3  # of a picture's description; shorter ones name icons
_MIN_LINKS, _CHARS_PER_LINK = 20, 150  # of a page with so many links that those to its own site are left out
_LIST_FORMS = {"a": "lowerLetter", "A": "upperLetter", "i": "lowerRoman", "I": "upperRoman"}
_STRUCK = re.compile(r"text-decoration[\w-]*\s*:[^;{}]*line-through", re.IGNORECASE)
_LANGUAGE = re.compile(r"(?:\b(?:language|lang|highlight-source|highlight)-|\bbrush:\s*|\bsourceCode )([\w+#.-]+)")
_DECLARED = re.compile(rb"""(?:charset|encoding)\s*=\s*["']?\s*([\w-]+)""", re.IGNORECASE)
_MAX_COLUMNS = 200  # columns that a table cell may span
_HOST = re.compile(r"https?://(?:[^/?#@]*@)?(?:www\.)?([^/:?#\s]+)", re.IGNORECASE)
_SHARED_LABELS = frozenset("ac co com edu gov org".split())  # before a country's
_BREAK = "\v"


def parse_html(file: OpenFile, _options: LoadOptions) -> ParsedFile:
    """Parse a web page; its title and description are metadata."""
    data = file.read_bytes()
    declared = _DECLARED.search(data[:4096])
    return html_content(decode(data, declared[1].decode("ascii", "replace") if declared else ""))


def html_content(markup: str, address: str = "") -> ParsedFile:
    """The text, blocks and metadata of a page; `address`: where it was saved from, if that is known."""
    import lxml.html

    try:
        markup = re.sub(r"^\s*<\?xml[^>]*\?>", "", markup.lstrip("\ufeff"), count=1)
        parser = lxml.html.HTMLParser(no_network=True, huge_tree=True, remove_comments=True, remove_pis=True)  # the process is limited
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
    canonical = next((str(link.get("href")) for link in root.iter("link") if link.get("rel") == "canonical"), "")
    own = next(filter(None, (canonical, named.get("og:url"), address)), "")
    tiddlers = _tiddlers(root)
    page = _read_page(root, str(own))
    rendered = RenderedText(tiddlers) if tiddlers else render(_page_blocks(_main(root), page))
    content = ParsedFile(rendered.text, title, metadata, blocks=rendered.blocks)
    return content if title else replace(content, title=first_title(content))


def first_title(content: ParsedFile) -> str:
    """The first heading of a page; empty if it has none."""
    return next((content.text[b.start : b.end].lstrip("# ") for b in content.blocks if b.kind == BlockKind.HEADING), "")


def _tiddlers(root: Any) -> str:
    """The tiddlers of a TiddlyWiki without those of the program; empty for other pages."""
    texts = []
    for script in root.iterfind(".//script[@class='tiddlywiki-tiddler-store']"):
        with suppress(ValueError, RecursionError, TypeError, KeyError):
            texts += [f"# {one['title']}\n\n{one.get('text', '').strip()}" for one in json.loads(script.text) if one["title"][:3] != "$:/"]
    return "\n\n".join(texts)


def _main(root: Any) -> Any:
    """The element whose text is read: `main`, if there is one; else the body."""
    body = root.find("body")
    body = root if body is None else body
    mains = [node for node in body.xpath("//main | //*[@role='main']") if "hidden" not in node.attrib]
    if len(mains) != 1:
        return body
    share = len("".join(mains[0].itertext()).split()) / max(1, len("".join(body.itertext()).split()))
    return mains[0] if share >= _MIN_MAIN_SHARE else body


def _bare(markup: str) -> str:
    """All the text of a page nested too deeply to be parsed."""
    from html import unescape

    markup = re.sub(r"(?is)<!--.*?(?:-->|\Z)|<(script|style)\b.*?(?:</\1\s*>|\Z)|<[^<>]*>", " ", markup)
    return clean_text(unescape(markup))


@dataclass(frozen=True, slots=True)
class _PageHead:
    """Where a page stands. `own_site`: the domain whose addresses are left out, in a page with many links; empty in others."""

    address: str = ""
    base: str = ""
    own_site: str = ""

    def link(self, href: str) -> str:
        """The address of a link; empty for one within the page or, in a page with many links, on its site."""
        href = href.strip()
        if href.startswith("//"):
            href = f"https:{href}"
        elif self.base and not re.match(r"#|[a-z][\w+.-]*:", href, re.IGNORECASE):
            folder = self.base.rpartition("/")[0] if self.base.count("/") > 2 else self.base
            href = f"{'/'.join(self.base.split('/')[:3])}{href}" if href.startswith("/") else f"{folder}/{href}"
        is_within = bool(self.address) and href.partition("#")[0] == self.address.partition("#")[0]
        return "" if is_within or (self.own_site and _site(_host(href)) == self.own_site) else href


def _strikes(node: Any) -> bool:
    return local_name(node) in {"del", "s", "strike"} or bool(_STRUCK.search(node.get("style") or ""))


def _host(address: str) -> str:
    match = _HOST.match(address)
    return match[1].lower() if match else ""


def _site(host: str) -> str:
    """The domain of a host: `bbc.co.uk` for `news.bbc.co.uk`."""
    labels = host.split(".")
    return ".".join(labels[-3 if labels[-2:-1] and labels[-2] in _SHARED_LABELS else -2 :])


def _read_page(root: Any, address: str) -> _PageHead:
    """What a page says about all of it; its furniture is taken out."""
    base = next((str(node.get("href")) for node in root.iter("base") if _host(str(node.get("href")))), "")
    body = root.find("body")
    body = root if body is None else body
    write_formulas(body)
    remove_furniture(body)
    n_links = sum(bool(link.get("href")) for link in body.iter("a"))
    own_site = _site(_host(address or base)) if n_links > max(_MIN_LINKS, len(line_of(body)) / _CHARS_PER_LINK) else ""
    return _PageHead(address, base, own_site)


@dataclass(slots=True)
class _List:
    """An open list: the last number; its form as in `format_number`, empty for a list without numbers."""

    number: int = 0
    form: str = ""


_PLAIN_RUN = TextRun("")


@dataclass(slots=True)
class _BlockWriter:
    """The blocks of a page in order, and what is open: the runs of a block, the style of each element that has one, lists, a heading.

    `marker`: where the next block begins an item, its depth and bullet or number. `titled`: the element that is a heading, of `level`.
    `last_level`: of the last heading that the page marks.
    """

    page: _PageHead
    style: TextRun = _PLAIN_RUN
    blocks: list[TextBlock] = field(default_factory=list)
    runs: list[TextRun] = field(default_factory=list)
    styles: list[tuple[Any, TextRun]] = field(default_factory=list)
    lists: list[_List] = field(default_factory=list)
    marker: tuple[int, str] | None = None
    titled: Any = None
    level: int = 0
    last_level: int = 1

    def add(self, text: str | None) -> None:
        """Add text in the style of the open elements."""
        if text:
            style = self.style
            self.runs.append(TextRun(text, style.shift, style.link, style.is_deleted, style.is_highlighted))

    def flush(self) -> None:
        """End the current block."""
        if not any(run.text and not run.text.isspace() for run in self.runs):
            self.runs.clear()
            return
        is_linked = any(run.link for run in self.runs)
        text = "\n".join(squeezed for part in inline_text(self.runs).split(_BREAK) if (squeezed := " ".join(part.split())))
        self.runs.clear()
        if not text:
            return
        if self.level:
            self.blocks.append(heading_block(self.level, text))
        elif self.lists or self.marker:
            self.blocks.append(item(*(self.marker or (len(self.lists), "")), text))
        else:
            self.blocks.append(paragraph(text))
        self.marker = None
        if is_linked and self.style.link:  # of a link around several blocks the first tells where it leads
            self.style = replace(self.style, link="")

    def start(self, node: Any) -> bool:
        """Begin an element; returns whether it is written already, with all that is in it."""
        tag = local_name(node)
        if tag in _INLINE:
            self.runs.append(replace(self.style, text=_INLINE[tag](node), link="" if tag == "img" else self.style.link))
        elif tag in {"sup", "a"} and _is_note_mark(node, deep=tag == "sup"):
            self.add(superscript(line_of(node), is_note=True))
        elif (tag == "pre" and "signature" not in node.get("class", "")) or (tag == "div" and node.get("class") == "fragment"):
            self.flush()
            self.blocks.append(code(_raw(node).strip("\n"), _language(node)))
        elif tag == "table" and (found := _tables(node, self.page, self.style)):
            self.flush()
            self.blocks += found
        else:
            self._open(tag, node)
            return False
        return True

    def _open(self, tag: str, node: Any) -> None:
        """Begin an element whose text and elements follow."""
        if tag in _BLOCKS or _opens(tag, node):
            self.flush()
        if tag in _LEVELS:
            self.titled, self.level, self.last_level = node, _LEVELS[tag], _LEVELS[tag]
        elif self.titled is None and self._is_question(tag, node):
            self.titled, self.level = node, min(self.last_level + 1, 6)
        elif tag == "li":
            self.marker = max(len(self.lists) - 1, 0), _list_marker(node, self.lists)
        elif tag in {"ul", "ol", "dl"}:
            form = _LIST_FORMS.get(str(node.get("type")), "decimal") if tag == "ol" else ""
            self.lists.append(_List(number_in(str(node.get("start") or ""), 1) - 1, form))
        elif tag == "dt":
            self.marker = max(len(self.lists) - 1, 0), ""
        style = self._style(tag, node)
        if style is not self.style:
            if style.shift:
                self.runs.append(replace(self.style, text="", shift=0))  # it does not go on with what is raised before it
            self.styles.append((node, self.style))
            self.style = style
        self.add(node.text)

    def _is_question(self, tag: str, node: Any) -> bool:
        """Whether an element is the question above an answer: of a list of terms, what opens, a bold paragraph of its own."""
        if not (tag in {"summary", "dt"} or _opens(tag, node) or (tag == "p" and not self.lists and _is_bold(node))):
            return False
        text = line_of(node)
        return text.endswith(("?", "？", "؟")) and len(text) <= MAX_TITLE_CHARS

    def _style(self, tag: str, node: Any) -> TextRun:
        style = self.style
        if tag in {"sup", "sub"}:
            style = replace(style, shift=1 if tag == "sup" else -1)
        elif tag == "a" and node.get("href") and next(node.iterancestors("{*}code"), None) is None:
            style = replace(style, link=self.page.link(str(node.get("href"))))
        elif tag == "mark":
            style = replace(style, is_highlighted=True)
        return replace(style, is_deleted=True) if not style.is_deleted and _strikes(node) else style

    def end(self, node: Any) -> None:
        """End an element that `start` has begun."""
        tag = local_name(node)
        if tag in _BLOCKS or _opens(tag, node):
            self.flush()
        if node is self.titled:
            self.titled, self.level = None, 0
        if tag in {"ul", "ol", "dl"} and self.lists:
            self.lists.pop()
        if self.styles and self.styles[-1][0] is node:
            self.style = self.styles.pop()[1]


_BOLD = re.compile(r"font-weight\s*:\s*(?:bold|[6-9]00)")
_LEVELS = {f"h{level}": level for level in range(1, 7)}


def _opens(tag: str, node: Any) -> bool:
    """Whether an element opens a panel."""
    return node.get("role") == "tab" or (tag == "button" and ("aria-expanded" in node.attrib or "aria-controls" in node.attrib))


def _page_blocks(root: Any, page: _PageHead, style: TextRun = _PLAIN_RUN) -> list[TextBlock]:
    from lxml import etree

    writer, written = _BlockWriter(page, style), None
    walk = etree.iterwalk(root, events=("start", "end"))
    for event, node in walk:
        if event == "start":
            if writer.start(node):
                written = node
                walk.skip_subtree()
            continue
        if node is not written:
            writer.end(node)
        if node is not root:
            writer.add(node.tail)
    writer.flush()
    return writer.blocks


def _list_marker(item: Any, lists: list[_List]) -> str:
    if not lists or not lists[-1].form:
        return "-"
    last = lists[-1]
    last.number = number_in(str(item.get("value") or ""), last.number + 1)
    return f"{format_number(last.number, last.form)}."


def _is_note_mark(node: Any, *, deep: bool = True) -> bool:
    """Whether an element is the mark of a note: it is called that, or, if `deep`, it is or holds a link within the book or page."""
    if any(_NOTE_MARK.search(str(node.get(name))) for name in ("role", "epub:type", "class")):
        return True
    links = (*node.iter("{*}a"), *node.iterancestors("{*}a")) if deep else ()
    return any("#" in str(link.get("href") or "") or _is_note_mark(link, deep=False) for link in links)


_NOTE_MARK = re.compile(r"noteref|footnote-?ref|endnote-?ref|\bfnref\b|footnote-?anchor")


def _form_field(node: Any) -> str:
    kind = str(node.get("type") or "text").lower()
    if node.get("role") == "button":  # it opens a menu
        return ""
    if kind in {"checkbox", "radio"}:
        return f"{checkbox('checked' in node.attrib)} "
    return "" if kind in {"button", "hidden", "image", "password", "reset", "submit"} else f" {node.get('value') or ''} "


def _picture_text(node: Any) -> str:
    """The description of a picture, unless it is that of an icon or a file name, or its caption."""
    shown = picture_text(str(node.get("alt") or ""), _MIN_ALT_WORDS)
    figure = next(node.iterancestors("{*}figure", "{*}li"), None)
    beside = " ".join("".join(islice(figure.itertext(), _MAX_TEXTS_BESIDE)).split()) if figure is not None else ""
    return "" if shown.strip("[]") in beside else f" {shown} "


def _ruby(node: Any) -> str:
    reading = "".join(line_of(part) for part in node.iter("{*}rt"))
    for part in list(node.iter("{*}rt", "{*}rp")):
        part.clear(keep_tail=True)
    return ruby_text(line_of(node), reading)


_INLINE: dict[str, Callable[[Any], str]] = {
    "input": _form_field,
    "select": lambda node: ", ".join(line_of(option) for option in node.iter("{*}option") if "selected" in option.attrib),
    "img": _picture_text,
    "ruby": _ruby,
    "br": lambda _: _BREAK,
}


def _names_around(node: Any) -> str:
    return " ".join(class_names(e) for e in (node, *islice(node.iterancestors(), 3), *islice(node.iter("{*}code"), 1)))


def _language(node: Any) -> str:
    named = _LANGUAGE.search(_names_around(node))
    return named[1].lower() if named else ""


def _raw(root: Any) -> str:
    """The text of an element with its lines as they are."""
    from lxml import etree

    texts: list[str] = []
    for event, node in etree.iterwalk(root, events=("start", "end")):
        tag = local_name(node)
        if event == "start":
            texts.append("\n" if tag == "br" else node.text or "")
        elif node is not root:
            ends_line = tag in {"div", "p", "li", "tr"} and bool(texts) and not texts[-1].endswith("\n")
            texts.append("\n" * ends_line + (node.tail or ""))
    return "".join(texts)


def data_table_lines(table: Any) -> list[str]:
    """The lines of a data table; empty for a layout table."""
    found = _tables(table, _PageHead(), _PLAIN_RUN)
    return "\n\n".join(block.text for block in found).split("\n") if found else []


def _tables(table: Any, page: _PageHead, style: TextRun) -> list[TextBlock]:
    """A data table, or more where empty rows divide it; the code of a listing in a table; nothing for a layout table."""
    rows = [row for row in table.iter("{*}tr") if next(row.iterancestors("{*}table")) is table]
    cells = [[c for c in row if local_name(c) in {"td", "th"}] for row in rows]
    width = max((len(row) for row in cells), default=0)
    if width == 1 and CODE_NAME.search(" ".join(map(_names_around, (table, *cells[0])))):
        return [code("\n".join(_raw(c).strip("\n") for row in cells for c in row), _language(table))]
    if width < 2 or table.get("role") == "presentation":
        return []
    if any(next(row.iterdescendants("{*}table", "{*}h1", "{*}h2", "{*}h3"), None) is not None for row in rows):  # it arranges a page
        return []
    are_heads = (len(row) and (local_name(row.getparent()) == "thead" or {*map(local_name, row)} == {"th"}) for row in rows[:-1])
    n_headers = sum(1 for _ in takewhile(bool, are_heads))
    grid, ranges = _grid(rows, cells, page, style)
    likely = bool(n_headers) or width > 2
    filled = fill_spans(enumerate(grid), ranges, n_header=n_headers, likely=likely)
    found = list(tables(filled, likely=likely, header_rows=1 if n_headers else None))
    captions = [text for c in table.iterchildren("{*}caption") if (text := _cell_text(c, page, style))]
    return [replace(found[0], text="\n".join([*captions, found[0].text])), *found[1:]] if found else []


def _cell_text(cell: Any, page: _PageHead, style: TextRun) -> str:
    if not len(cell) and style == _PLAIN_RUN and not _strikes(cell):
        return " ".join((cell.text or "").split())
    return " ".join(" ".join(f"{block.marker} {block.text}" for block in _page_blocks(cell, page, style)).split())


def _grid(rows: list[Any], cells: list[list[Any]], page: _PageHead, style: TextRun) -> tuple[list[list[str]], list[CellRange]]:
    """Cells by row and column, each text where its cell begins, and the cells that span rows or columns."""
    grid: list[list[str]] = []
    ranges: list[CellRange] = []
    taken: dict[int, int] = {}  # column → last row of the cell above that spans it
    for n, row in enumerate(cells):
        line: list[str] = []
        own = replace(style, is_deleted=True) if _strikes(rows[n]) else style
        for c in row:
            while taken.get(len(line), -1) >= n:
                line.append("")
            left, width, height = len(line), _span_attribute(c, "colspan"), _span_attribute(c, "rowspan")
            text = _cell_text(c, page, own)
            line += [HeadCell(text) if _is_set_apart(c) else text, *[""] * (width - 1)]
            if width > 1 or height > 1:
                ranges.append(CellRange(n, left, n + height - 1, left + width - 1))
                taken |= dict.fromkeys(range(left, left + width), n + height - 1)
        grid.append(line)
    return grid, ranges


def _is_set_apart(cell: Any) -> bool:
    """Whether a cell of a table is header markup or all bold."""
    styles = (str(node.get("style") or "") for node in (cell, cell.getparent()))
    return local_name(cell) == "th" or any(map(_BOLD.search, styles)) or _is_bold(cell)


def _is_bold(node: Any) -> bool:
    """Whether all the text of an element is in bold elements."""
    bold = "".join(line_of(e) for e in node.iter("{*}b", "{*}strong")).replace(" ", "")
    return len(node) > 0 and 0 < len(bold) >= len(line_of(node).replace(" ", ""))


def _span_attribute(node: Any, name: str) -> int:
    value = str(node.get(name) or "1").strip()
    return min(max(int(value), 1), _MAX_COLUMNS) if value.isdecimal() and len(value) < 9 else 1


def xml_root(data: bytes, *, expand: bool = False) -> Any:
    """The root element of an XML document. Raises Unreadable if it is not well-formed.

    `expand`: replace the entities that it declares itself, as far as libxml2 finds their growth harmless.
    """
    from lxml import etree

    settings: dict[str, Any] = {"no_network": True, "load_dtd": False, "remove_comments": True, "remove_pis": True}
    parser = etree.XMLParser(resolve_entities="internal" if expand else False, huge_tree=not expand, **settings)
    try:
        return etree.fromstring(data, parser)
    except (etree.XMLSyntaxError, ValueError) as error:
        if expand:
            return xml_root(data)
        raise Unreadable(f"damaged: {error}", failed=True) from error


def parse_epub(file: OpenFile, _options: LoadOptions) -> ParsedFile:
    """Parse a book: its chapters in reading order are the parts."""
    with open_archive(file) as archive:
        names = set(archive.namelist())
        container = xml_root(read_entry(archive, "META-INF/container.xml"))
        path = next((str(r.get("full-path")) for r in container.iter("{*}rootfile")), "")
        if path not in names:
            raise Unreadable("damaged: the book has no list of its files", failed=True)
        package = xml_root(read_entry(archive, path))
        items = {i.get("id"): _file(path, i.get("href")) for i in package.iter("{*}item")}
        spine = [name for i in package.iter("{*}itemref") if (name := items.get(i.get("idref"), "")) in names]
        if set(spine) & _encrypted_files(read_entry(archive, "META-INF/encryption.xml", needed=False)):
            raise Unreadable("protected against copying (DRM)")
        contents = [items[i.get("id")] for i in package.iter("{*}item") if "dtbncx" in str(i.attrib) or i.get("properties") == "nav"]
        labels = {k: v for name in contents if name in names for k, v in _chapter_labels(read_entry(archive, name), name).items()}
        chapters = [(labels.get(name, ""), html_content(decode(read_entry(archive, name)))) for name in spine]
    joined = join_sections((_chapter_name(label, c, n), RenderedText(c.text, c.blocks)) for n, (label, c) in enumerate(chapters, 1))
    title, author, date = (_dublin_core(package, name) for name in ("title", "creator", "date"))
    return ParsedFile(joined.text, title, metadata_pairs(title=title, author=author, date=date), joined.parts, joined.blocks)


def _dublin_core(package: Any, tag: str) -> str:
    """The values of a field of a book: of several dates the publication, of several people the authors."""
    opf = "{http://www.idpf.org/2007/opf}"
    elements = [e for e in package.iter(f"{{*}}{tag}") if (e.text or "").strip()]
    if tag == "date":
        elements = [e for e in elements if e.get(f"{opf}event") != "modification"][-1:]
    if tag == "creator":
        elements = [e for e in elements if e.get(f"{opf}role") in (None, "aut")] or elements
    return ", ".join(" ".join(e.text.split()) for e in elements)


def _chapter_labels(data: bytes, path: str) -> dict[str, str]:
    """File → its first entry in a table of contents."""
    labels: dict[str, str] = {}
    with suppress(Unreadable):
        root = xml_root(data)
        pairs = [(point.find("{*}content"), point.find("{*}navLabel")) for point in root.iter("{*}navPoint")]
        pairs += [(link, link) for link in root.iter("{http://www.w3.org/1999/xhtml}a")]
        for target, label in pairs:
            if target is not None and label is not None and (href := target.get("src") or target.get("href")):
                labels.setdefault(_file(path, href), " ".join("".join(label.itertext()).split())[:80])
    return labels


def _encrypted_files(data: bytes) -> set[str]:
    with suppress(Unreadable):
        return {_unquoted(str(r.get("URI"))) for r in xml_root(data).iter("{*}CipherReference")} if data else set()
    return set()


def _file(path: str, href: Any) -> str:
    """The file of a book to which an address in the file at a path leads."""
    return normpath(join(dirname(path), _unquoted(str(href).partition("#")[0])))


def _unquoted(name: str) -> str:
    return re.sub(r"(?:%[0-9a-fA-F]{2})+", lambda code: bytes.fromhex(code[0].replace("%", "")).decode("utf-8", "replace"), name)


def _chapter_name(label: str, chapter: ParsedFile, n: int) -> str:
    name = label or first_title(chapter)
    return f"chapter {' '.join(name.split())[:80]}" if name else f"section {n}"
