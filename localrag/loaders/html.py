"""HTML and EPUB: headings as `# …`, lists, tables and paragraphs in order. XML is parsed without entities, DTDs or network."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
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
    number_in,
    open_archive,
    read_entry,
    subscript,
    superscript,
)
from localrag.loaders.headers import HeadCell
from localrag.loaders.inline_text import is_note_letter, picture_text
from localrag.loaders.numbering import format_number
from localrag.loaders.spans import CellRange, fill_spans
from localrag.loaders.tabular import table_lines

_DROPPED = frozenset("script style noscript template svg head iframe object datalist rp map audio video canvas del".split())
_BLOCKS = frozenset(
    "address article aside blockquote body center details dialog div dl dd dt fieldset figure figcaption footer form header hr html"
    " legend li main nav ol p section summary table caption tbody thead tfoot tr td th ul pre title".split()
)
_CONSENT = re.compile(r"cookie|consent|gdpr", re.IGNORECASE)  # in the names of what asks for it
_MAX_CONSENT_CHARS = 3000
_MIN_MAIN_SHARE = 0.2  # of a page's text, for its main element to be all that is read
_MAX_LINKED_CHARS = 200_000  # of a page's JSON-LD
_MIN_ALT_WORDS = 3  # of a picture's description; shorter ones name icons
_LIST_FORMS = {"a": "lowerLetter", "A": "upperLetter", "i": "lowerRoman", "I": "upperRoman"}
_LIST_STYLE = re.compile(r"list-style(?:-type)?\s*:[^;]{0,100}?\b(lower|upper)-(alpha|latin|roman)")
_BOLD = re.compile(r"font-weight\s*:\s*(?:bold|[6-9]00)")
_DECLARED = re.compile(rb"""(?:charset|encoding)\s*=\s*["']?\s*([\w-]+)""", re.IGNORECASE)
_MAX_COLUMNS = 200  # columns that a table cell may span
_MAX_NESTING = 12  # nested lists that are indented further
_BREAK = "\v"


@dataclass(slots=True)
class _List:
    """An open list: the last number and what is added to it; its form as in `format_number`, empty for a list without numbers."""

    number: int = 0
    step: int = 1
    form: str = ""


@dataclass(slots=True)
class _BlockWriter:
    """The blocks of a page in order: the text of each, and whether it follows the one before without a blank line."""

    blocks: list[tuple[str, bool]] = field(default_factory=list)
    inline: list[str] = field(default_factory=list)
    prefix: str = ""
    lists: list[_List] = field(default_factory=list)

    def flush(self) -> None:
        """End the current block."""
        text = "\n".join(squeezed for part in "".join(self.inline).split(_BREAK) if (squeezed := " ".join(part.split())))
        self.inline.clear()
        if text:
            self.blocks.append((self.prefix + text, bool(self.lists)))
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
    linked = _linked_data(root)
    title = " ".join((root.findtext(".//head/title") or root.findtext(".//title") or "").split())
    metadata = metadata_pairs(
        title=title,
        author=named.get("author") or named.get("article:author") or linked.get("author"),
        date=named.get("date") or named.get("article:published_time") or named.get("dc.date") or linked.get("date"),
        description=named.get("description"),
    )
    text = _tiddlers(root) or html_text(_main(root))
    return ParsedFile(text, title or first_heading(text), metadata)


def _tiddlers(root: Any) -> str:
    """The tiddlers of a TiddlyWiki without those of the program; empty for other pages."""
    texts = []
    for script in root.iterfind(".//script[@class='tiddlywiki-tiddler-store']"):
        with suppress(ValueError, RecursionError, TypeError, KeyError):
            texts += [f"# {one['title']}\n\n{one.get('text', '').strip()}" for one in json.loads(script.text) if one["title"][:3] != "$:/"]
    return "\n\n".join(texts)


def _main(root: Any) -> Any:
    """The element whose text is read: `main`, which excludes what a site repeats on each page, if there is one; else the body."""
    body = root.find("body")
    body = root if body is None else body
    mains = [node for node in body.iter("{*}main", "{*}div", "{*}section", "{*}article") if _is_main(node)]
    if len(mains) != 1:
        return body
    share = len("".join(mains[0].itertext()).split()) / max(1, len("".join(body.itertext()).split()))
    return mains[0] if share >= _MIN_MAIN_SHARE else body


def _is_main(node: Any) -> bool:
    return (str(node.tag).rpartition("}")[2] == "main" or node.get("role") == "main") and "hidden" not in node.attrib


def _linked_data(root: Any) -> dict[str, str]:
    """Author and date of publication in a page's JSON-LD."""
    found: dict[str, str] = {}
    for script in root.iter("script"):
        if str(script.get("type") or "").lower() == "application/ld+json" and len(script.text or "") <= _MAX_LINKED_CHARS:
            with suppress(ValueError, RecursionError):
                data = json.loads(script.text or "")
                listed = data.get("@graph", [data]) if isinstance(data, dict) else data
                for thing in listed if isinstance(listed, list) else ():
                    found = _published(thing) | found if isinstance(thing, dict) else found
    return found


def _published(thing: dict[str, Any]) -> dict[str, str]:
    author = thing.get("author")
    author = author[0] if isinstance(author, list) and author else author
    values = {"author": author.get("name") if isinstance(author, dict) else author, "date": thing.get("datePublished")}
    return {name: value for name, value in values.items() if isinstance(value, str) and value}


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
    inline = _inline_text(tag, node, page)
    if inline is not None:
        page.inline.append(inline)
    elif tag == "pre":
        page.flush()
        page.blocks.append(("".join(_raw(node)).strip("\n"), False))
    elif tag == "table" and (lines := data_table_lines(node)):
        page.flush()
        page.blocks.append(("\n".join(lines), False))
    elif re.fullmatch("h[1-6]", tag):
        _block(node, page, prefix="#" * int(tag[1]) + " ")
    elif tag == "li":
        _block(node, page, prefix=_indent(len(page.lists) - 1) + _list_marker(node, page.lists))
    elif tag in {"ul", "ol", "dl"}:
        page.flush()
        page.lists.append(_list(node) if tag == "ol" else _List())
        _children(node, page)
        page.flush()
        page.lists.pop()
    elif tag in _BLOCKS:
        _block(node, page, prefix=_indent(len(page.lists) - 1) if tag == "dt" else None)
    elif tag:
        _children(node, page)


def _inline_text(tag: str, node: Any, page: _BlockWriter) -> str | None:
    """The text of an element within a line; None for other elements."""
    if tag == "sup":
        before = "".join(page.inline[-8:]).rpartition(_BREAK)[2]
        return raised_text(node, _line_of(node), before, is_note=_is_note_mark(node))
    if tag == "a" and _is_note_mark(node, deep=False):
        return superscript(_line_of(node), is_note=True)
    return _INLINE[tag](node) if tag in _INLINE else None


def _indent(depth: int) -> str:
    return "  " * min(max(depth, 0), _MAX_NESTING)


def _list(node: Any) -> _List:
    """A numbered list before its first item."""
    reversed_list = "reversed" in node.attrib
    start = number_in(str(node.get("start") or ""), len(node.findall("{*}li")) if reversed_list else 1)
    form = _LIST_FORMS.get(str(node.get("type") or ""), "")
    if not form and (style := _LIST_STYLE.search(str(node.get("style") or ""))):
        form = style[1] + ("Roman" if style[2] == "roman" else "Letter")
    step = -1 if reversed_list else 1
    return _List(start - step, step, form or "decimal")


def _list_marker(item: Any, lists: list[_List]) -> str:
    """The marker of a list item: its number in a numbered list."""
    if not lists or not lists[-1].form:
        return "- "
    last = lists[-1]
    last.number = number_in(str(item.get("value") or ""), last.number + last.step)
    return f"{format_number(last.number, last.form)}. "


def _line_of(node: Any) -> str:
    return " ".join("".join(_raw(node)).split())


def raised_text(node: Any, text: str, before: str, *, is_note: bool) -> str:
    """A raised element with a text, as it follows the text before it; a mark that begins a note stands apart."""
    is_letter = is_note_letter(before, text)
    return superscript(text, is_note=is_note or is_letter) + " " * (is_letter and not before.strip() and bool(node.tail))


def _is_note_mark(node: Any, *, deep: bool = True) -> bool:
    """Whether an element is the mark of a note: it is called that, or, if `deep`, it is or holds a link within the book or page."""
    if any(_NOTE_MARK.search(str(node.get(name) or "")) for name in ("role", "epub:type", f"{_EPUB}type", "class")):
        return True
    links = (*node.iter("{*}a"), *node.iterancestors("{*}a")) if deep else ()
    return any("#" in str(link.get("href") or "") or _is_note_mark(link, deep=False) for link in links)


_EPUB = "{http://www.idpf.org/2007/ops}"
_NOTE_MARK = re.compile(r"noteref|footnote-?ref|endnote-?ref|\bfnref\b|footnote-?anchor")


def _form_field(node: Any) -> str:
    """What was entered into a field of a form."""
    kind = str(node.get("type") or "text").lower()
    if node.get("role") == "button":  # it opens a menu
        return ""
    if kind in {"checkbox", "radio"}:
        return "☒ " if "checked" in node.attrib else "☐ "
    shown = kind in {"text", "number", "date", "email", "tel", "url", "time", "month", "week", "datetime-local"}
    return f" {node.get('value') or ''} " if shown else ""


def _picture_text(node: Any) -> str:
    """The description of a picture, unless it is that of an icon, a file name, or stands beside it, too."""
    alt = " ".join(str(node.get("alt") or "").split())
    shown = picture_text(alt, _MIN_ALT_WORDS)
    if not shown:
        return ""
    owner = next(node.iterancestors("{*}figure", "{*}li", "{*}td", "{*}p"), None)
    beside = " ".join("".join(islice(owner.itertext(), _MAX_TEXTS_BESIDE)).split()) if owner is not None else ""
    return "" if alt in beside else f" {shown} "


_MAX_TEXTS_BESIDE = 50


def _selected_options(node: Any) -> str:
    return " " + ", ".join(_line_of(option) for option in node.iter("{*}option") if "selected" in option.attrib) + " "


_INLINE: dict[str, Callable[[Any], str]] = {
    "sub": lambda node: subscript(_line_of(node)),
    "input": _form_field,
    "select": _selected_options,
    "img": _picture_text,
    "br": lambda _: _BREAK,
}


def _tag(node: Any) -> str:
    """The name of an element; empty for invisible ones: comments, scripts, hidden elements, navigation."""
    if not isinstance(node.tag, str):
        return ""
    tag = str(node.tag).rpartition("}")[2].lower()
    hidden = "hidden" in node.attrib or node.get("aria-hidden") == "true" or (tag == "dialog" and "open" not in node.attrib)
    hidden = hidden or "display:none" in (node.get("style") or "").replace(" ", "").lower()
    if tag in _DROPPED or hidden or ((tag == "nav" or node.get("role") == "navigation") and _is_links(node)):
        return ""
    return "" if _CONSENT.search(f"{node.get('id')} {node.get('class')}") and _is_consent(node) else tag


def _is_consent(node: Any) -> bool:
    """Whether an element with such a name is a banner: a dialog, or short and with buttons."""
    asks = node.get("role") in {"dialog", "alertdialog"} or next(node.iter("{*}button", "{*}input"), None) is not None
    return asks and len("".join(node.itertext())) <= _MAX_CONSENT_CHARS


def _is_links(node: Any) -> bool:
    n_chars = len("".join("".join(node.itertext()).split()))
    n_linked = sum(len("".join("".join(a.itertext()).split())) for a in node.iter("{*}a"))
    return n_linked >= 0.5 * n_chars


def _block(node: Any, page: _BlockWriter, prefix: str | None = None) -> None:
    page.flush()
    if prefix is not None:
        page.prefix = prefix
    _children(node, page)
    page.flush()
    if prefix and prefix.startswith("#"):
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


def data_table_lines(table: Any) -> list[str]:
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
    grid, ranges = _grid(cells)
    caption = [html_text(c) for c in table.iterchildren("{*}caption")]
    likely = bool(n_headers) or width > 2
    filled = fill_spans(enumerate(grid), ranges, n_header=n_headers, likely=likely)
    lines = table_lines(filled, likely=likely, header_rows=1 if n_headers else None)
    return [line for line in (*caption, *lines) if line]


def _is_head(row: Any, cells: list[Any]) -> bool:
    return _tag(row.getparent()) == "thead" or all(_tag(c) == "th" for c in cells)


def _grid(cells: list[list[Any]]) -> tuple[list[list[str]], list[CellRange]]:
    """Cells by row and column, each text where its cell begins, and the cells that span rows or columns."""
    grid: list[list[str]] = []
    ranges: list[CellRange] = []
    taken: dict[int, int] = {}  # column → last row of the cell above that spans it
    for n, row in enumerate(cells):
        line: list[str] = []
        for c in row:
            while taken.get(len(line), -1) >= n:
                line.append("")
            left, width, height = len(line), _span_attribute(c, "colspan"), _span_attribute(c, "rowspan")
            text = " ".join(html_text(c).split())
            line += [HeadCell(text) if _is_set_apart(c) else text, *[""] * (width - 1)]
            if width > 1 or height > 1:
                ranges.append(CellRange(n, left, n + height - 1, left + width - 1))
                taken |= dict.fromkeys(range(left, left + width), n + height - 1)
        grid.append(line)
    return grid, ranges


def _is_set_apart(cell: Any) -> bool:
    """Whether a cell of a table is header markup or all bold."""
    if _tag(cell) == "th" or any(_BOLD.search(str(node.get("style") or "")) for node in (cell, cell.getparent())):
        return True
    n_bold = sum(len("".join("".join(b.itertext()).split())) for b in cell.iter("{*}b", "{*}strong"))
    return 0 < n_bold >= len("".join("".join(cell.itertext()).split()))


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
        spine = [name for i in package.iter("{*}itemref") if (name := items.get(i.get("idref"), "")) in names]
        if set(spine) & _encrypted_files(read_entry(archive, "META-INF/encryption.xml", needed=False)):
            raise Unreadable("protected against copying (DRM)")
        contents = [items[i.get("id")] for i in package.iter("{*}item") if _is_contents(i)]
        labels = {k: v for name in contents if name in names for k, v in _chapter_labels(read_entry(archive, name), name).items()}
        chapters = [(labels.get(name, ""), html_content(decode(read_entry(archive, name)))) for name in spine]
    text, parts = join_sections((_chapter_name(label, c, n), c.text) for n, (label, c) in enumerate(chapters, 1))
    values = {label: ", ".join(_dublin_core(package, tag)) for tag, label in _DUBLIN_CORE.items()}
    return ParsedFile(text, values["title"], metadata_pairs(**values), parts)


def _dublin_core(package: Any, tag: str) -> list[str]:
    """The values of a field of a book: of several dates the publication, of several people the authors."""
    opf = "{http://www.idpf.org/2007/opf}"
    elements = [e for e in package.iter(f"{{*}}{tag}") if (e.text or "").strip()]
    if tag == "date":
        elements = [e for e in elements if e.get(f"{opf}event") != "modification"][-1:]
    if tag == "creator":
        elements = [e for e in elements if e.get(f"{opf}role") in (None, "aut")] or elements
    return [" ".join(e.text.split()) for e in elements]


def _is_contents(item: Any) -> bool:
    return item.get("media-type") == "application/x-dtbncx+xml" or "nav" in str(item.get("properties") or "").split()


def _chapter_labels(data: bytes, path: str) -> dict[str, str]:
    """File → its first entry in a table of contents."""
    labels: dict[str, str] = {}
    with suppress(Unreadable):
        root = xml_root(data)
        pairs = [(point.find("{*}content"), point.find("{*}navLabel")) for point in root.iter("{*}navPoint")]
        pairs += [(link, link) for link in root.iter("{http://www.w3.org/1999/xhtml}a")]
        for target, label in pairs:
            if target is not None and label is not None and (href := target.get("src") or target.get("href")):
                file = normpath(join(dirname(path), _unquoted(str(href))))
                labels.setdefault(file, " ".join("".join(label.itertext()).split())[:80])
    return labels


def _encrypted_files(data: bytes) -> set[str]:
    with suppress(Unreadable):
        return {_unquoted(str(r.get("URI") or "")) for r in xml_root(data).iter("{*}CipherReference")} if data else set()
    return set()


def _unquoted(href: str) -> str:
    """A percent-decoded file name: `%C3%A4.xhtml` → `ä.xhtml`."""
    return re.sub(
        r"(?:%[0-9a-fA-F]{2})+", lambda match: bytes.fromhex(match[0].replace("%", "")).decode("utf-8", "replace"), href.partition("#")[0]
    )


def _chapter_name(label: str, chapter: ParsedFile, n: int) -> str:
    heading = label or first_heading(chapter.text)
    return f"chapter {' '.join(heading.split())[:80]}" if heading else f"section {n}"
