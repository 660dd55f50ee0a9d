"""XML, parsed without entities, DTDs or network; as running text or as data, whichever it is."""

import re
from collections.abc import Iterator
from typing import Any

from localrag.index.documents.load.content import Content, Options, Unreadable, clean
from localrag.index.documents.load.encoding import decode
from localrag.index.documents.load.formats.html import html_content, parse_html
from localrag.index.documents.load.open_file import OpenFile

_HEADINGS = frozenset({"title", "article-title", "head", "heading", "h1", "h2", "h3"})
_SUPPRESSED = frozenset({"script", "style"})


def xml_root(data: bytes) -> Any:
    """The root element. Raises Unreadable for what is not well-formed."""
    from lxml import etree

    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=True, remove_comments=True, remove_pis=True)
    try:
        return etree.fromstring(data, parser)
    except (etree.XMLSyntaxError, ValueError) as error:
        raise Unreadable(f"damaged: {error}", failed=True) from error


def parse_xml(file: OpenFile, options: Options) -> Content:
    """A document's paragraphs, or `tag: text` lines where each element holds one value; pages of HTML as such."""
    data = file.read_bytes()
    try:
        root = xml_root(data)
    except Unreadable:
        text = re.sub(r"^\s*<\?xml[^>]*\?>", "", decode(data).lstrip("\ufeff"), count=1)
        root = xml_root(text.encode("utf-8"))  # its declaration names another encoding than it has
    if _name(root) == "html":
        return parse_html(file, options)
    lines = list(_paragraphs(root) if _is_prose(root) else _values(root))
    return Content(clean("\n".join(lines)), _title(root))


def _name(element: Any) -> str:
    return str(element.tag).rpartition("}")[2].lower()


def _is_prose(root: Any) -> bool:
    """Whether elements stand within sentences."""
    return any((c.tail or "").strip() for c in root.iter("*"))


def _title(root: Any) -> str:
    found = next((e for e in root.iter("{*}article-title", "{*}title") if "".join(e.itertext()).strip()), None)
    return "" if found is None else " ".join("".join(found.itertext()).split())[:200]


def _paragraphs(element: Any) -> Iterator[str]:
    """Every element that has text of its own, with all that is in it, as a paragraph."""
    if _name(element) in _SUPPRESSED:
        return
    own = [element.text or "", *(c.tail or "" for c in element)]
    if any(map(str.strip, own)) or len(element) == 0:
        text = " ".join(" ".join(element.itertext()).split() if len(element) else (element.text or "").split())
        if text:
            yield f"# {text}\n" if _name(element) in _HEADINGS else f"{text}\n"
        return
    for child in element:
        yield from _paragraphs(child)


def _values(root: Any) -> Iterator[str]:
    """`tag: text` for every element with text or attributes; a blank line before each child of the root, and of a root's only child."""
    top = root[0] if len(root) == 1 and len(root[0]) else root
    for record in top:
        for element in record.iter("*"):
            text = _plain(element.text or "")
            pairs = [f"{key.rpartition('}')[2]}: {' '.join(value.split())}" for key, value in element.attrib.items() if value.strip()]
            if text or pairs:
                yield " · ".join([f"{_name(element)}: {text}"] * bool(text) + pairs)
        yield ""


def _plain(text: str) -> str:
    """A value without the HTML that feeds put in it."""
    if re.search(r"</?\w+[^<>]*>", text):
        text = html_content(text).text
    return " ".join(text.split())
