"""XML as text: articles of journals (JATS) without what is for machines, other prose as paragraphs, data by element; Hancom's documents."""

import re
from collections.abc import Iterator
from html.entities import html5
from itertools import takewhile
from typing import Any

from localrag.loaders.content import (
    LoadOptions,
    OpenFile,
    ParsedFile,
    Unreadable,
    clean_text,
    decode,
    metadata_pairs,
    open_archive,
    read_entry,
    superscript,
)
from localrag.loaders.html import data_table_lines, html_content, parse_html, xml_root
from localrag.loaders.inline_text import shifted_text
from localrag.loaders.tabular import format_row, tables

_HEADINGS = frozenset({"title", "book-title", "article-title", "head", "heading", "h1", "h2", "h3"})
_PARAGRAPHS = frozenset({"p", "para", "simpara", "cmd"})
_SECTIONS = frozenset("sec section div div1 div2 div3 sect1 sect2 sect3 sect4 chapter abstract appendix".split())
_SUPPRESSED = frozenset({"script", "style", "binary", "genre", "document-info"})
_STRUCK = frozenset({"strikethrough", "strike", "del"})
_NOTES = frozenset({"note", "fn", "footnote"})  # of TEI, JATS and DocBook, within a sentence
_REFERENCES = frozenset({"xref", "ref", "footnoteref"})
_MAX_HEAD_BYTES = 200_000  # in which a file declares its entities
_ENTITY = re.compile(r"&([A-Za-z][A-Za-z0-9]{1,31});")
_MARKUP = re.compile(r"</[a-z]+[1-6]?>|<(?:br|p|img)\b[^<>]*>|&(?:#\d+|[a-z]+);")
_NAMED_ENTITY = re.compile(rb"&(?!(?:amp|lt|gt|quot|apos);)[A-Za-z][A-Za-z0-9]{1,31};")


def _with_html_entities(text: str) -> str:
    """XML with the named characters of HTML written out, which some files use without declaring them."""
    declared = set(re.findall(r"<!ENTITY\s+(\w+)", text)) | {"amp", "lt", "gt", "quot", "apos"}
    return _ENTITY.sub(lambda m: m[0] if m[1] in declared else html5.get(f"{m[1]};", m[0]), text)


def parse_xml(file: OpenFile, options: LoadOptions) -> ParsedFile:
    """Parse XML to paragraphs, or to `tag: text` lines if each element holds one value; XHTML as HTML."""
    data = file.read_bytes()
    expand = b"<!ENTITY" in data[:_MAX_HEAD_BYTES]
    try:
        if _NAMED_ENTITY.search(data):
            raise Unreadable("it uses entities, maybe without a declaration")
        root = xml_root(data, expand=expand)
    except Unreadable:  # or the declared encoding was wrong
        text = re.sub(r"^\s*<\?xml[^>]*\?>", "", decode(data).lstrip("\ufeff"), count=1)
        root = xml_root(_with_html_entities(text).encode("utf-8"), expand=expand)
    if _name(root) == "html":
        return parse_html(file, options)
    if (vocabulary := _VOCABULARIES.get(_name(root))) and (text := clean_text("\n".join(vocabulary(root)))):
        return ParsedFile(text, _title(root))
    if articles := [article for article in (root, *root) if _name(article) == "article" and article.find("{*}front") is not None]:
        lines = [line for article in articles for line in _article_lines(article)]
        meta = _article_meta(articles[0])
        said = () if meta is None else metadata_pairs(title=_title(meta), author=", ".join(_authors(meta)), date=_date(meta))
        return ParsedFile(clean_text("\n".join(lines)), _title(root), said)
    lines = list(_paragraphs(root) if _is_prose(root) else _values(root))
    return ParsedFile(clean_text("\n".join(lines)), _title(root))


def _name(element: Any) -> str:
    return str(element.tag).rpartition("}")[2].lower()


def _is_prose(root: Any) -> bool:
    return any((e.tail or "").strip() or (len(e) and (e.text or "").strip()) or _name(e) in _PARAGRAPHS for e in root.iter("*"))


def _title(root: Any) -> str:
    element = next((e for e in root.iter("{*}article-title", "{*}book-title", "{*}title") if "".join(e.itertext()).strip()), None)
    return "" if element is None else " ".join("".join(element.itertext()).split())[:200]


def _paragraphs(element: Any) -> Iterator[str]:
    """Every element with text of its own, including its children, as a paragraph."""
    if _name(element) in _SUPPRESSED:
        return
    if _name(element) == "table" and (lines := data_table_lines(element) or _cals_table_lines(element)):
        yield "\n".join([*lines, ""])
        return
    if _name(element) == "ack" and element.find("{*}title") is None:
        yield "# Acknowledgments\n"
    if _name(element) == "ref":
        yield f"{_reference(element)}\n"
        return
    own_texts = [element.text or "", *(c.tail or "" for c in element)]
    if any(map(str.strip, own_texts)) or len(element) == 0 or _name(element) == "title":
        if text := _one_line(element):
            is_heading = _name(element) in _HEADINGS and (element.getparent() is None or _name(element.getparent()) != "caption")
            level = min(max(sum(_name(e) in _SECTIONS for e in element.iterancestors()), 1), 6)
            yield f"{'#' * level} {text}\n" if is_heading else f"{text}\n"
        return
    label = ""
    for child in element:
        if _name(child) == "label" and child.getnext() is not None:
            label = _one_line(child)
            continue
        for line in _paragraphs(child):
            hashes, space, text = line.partition(" ") if line.startswith("#") else ("", "", line)
            yield f"{hashes}{space}{label} {text}" if label else line
            label = ""


def _one_line(element: Any) -> str:
    return " ".join(_sentence(element).split())


def _sentence(element: Any) -> str:
    """The running text of an element; notes in it are in brackets."""
    texts = [element.text or ""]
    for child in element:
        name = _name(child)
        if name in _NOTES:
            texts.append(f" [{_one_line(child)}]")
        elif name in _REFERENCES and _is_reference_mark("".join(texts)[-_MAX_BRACKETED_CHARS:], " ".join(child.itertext()).strip()):
            texts.append(superscript(" ".join(child.itertext()), is_note=True))
        elif name in {"sup", "superscript", "sub", "subscript", "inf"}:
            text = _one_line(child)
            is_note = name.startswith("sup") and next(child.iter("{*}xref", "{*}ref"), None) is not None
            shifted = shifted_text("".join(texts)[-60:], text, 1 if name.startswith("sup") else -1)
            texts.append(superscript(text, is_note=True) if is_note else shifted)
        elif name in _STRUCK:
            texts.append(f"~~{_one_line(child)}~~")
        elif name in {"lb", "pb", "br", "cb"}:
            texts.append("" if child.get("break") == "no" else " ")
        elif name not in _SUPPRESSED:
            adjacent = len(texts) > 1 and not texts[-1] and texts[-2][-1:].strip()  # elements that only markup divides
            text = _sentence(child)
            texts += [" "] * bool(adjacent) + [text + _target(child, text)]
        texts.append(child.tail or "")
    return "".join(texts)


def _target(element: Any, words: str) -> str:
    """What follows the words of an element: the address of a link, unless they are part of it."""
    target = next((value for key, value in element.attrib.items() if key.endswith(("href", "url"))), "")
    return f" ({target})" if "://" in target and words.strip() and words.strip() not in target else ""


_MAX_BRACKETED_CHARS = 200


def _is_reference_mark(before: str, mark: str) -> bool:
    """Whether a reference is a mark that follows a word without a space, and not one of the numbers in brackets: `[4, 5]`."""
    in_brackets = before.rfind("[") > before.rfind("]") or before.rfind("(") > before.rfind(")")
    return mark.isalnum() and bool(before[-1:].strip()) and not in_brackets


def _article_lines(article: Any) -> Iterator[str]:
    """The lines of an article: title, authors with their institutions, journal, abstracts, body, and what stands behind it.

    Left out are ids, subjects, history, license, contributions and counts.
    """
    meta = _article_meta(article)
    if meta is not None:
        yield f"# {_title(meta)}\n"
        subtitles = meta.iterfind("{*}title-group/{*}subtitle")
        institutions = (_one_line(e) for e in meta.iter("{*}aff"))
        yield from (f"{text}\n" for text in (*map(_one_line, subtitles), ", ".join(_authors(meta)), "; ".join(institutions)) if text)
        words = ", ".join(filter(None, map(_one_line, meta.iterfind("{*}kwd-group/{*}kwd"))))
        yield from (f"{text}\n" for text in (_published(article, meta), f"Keywords: {words}" * bool(words)) if text)
    pieces = [] if meta is None else list(meta.iterchildren("{*}abstract", "{*}trans-abstract"))
    pieces += article.iterfind("{*}front/{*}notes")
    for piece in (*pieces, *article.iterchildren("{*}body", "{*}back", "{*}floats-group")):
        if _name(piece) == "abstract" and piece.find("{*}title") is None:
            yield "## Abstract\n"
        yield from (f"#{line}" if line.startswith("#") else line for line in _paragraphs(piece))
    for inner in article.iterchildren("{*}sub-article", "{*}response"):
        yield from _article_lines(inner)


def _article_meta(article: Any) -> Any:
    meta = article.find("{*}front/{*}article-meta")
    return article.find("{*}front-stub") if meta is None else meta


def _authors(meta: Any) -> list[str]:
    contributors = (c for c in meta.iterfind("{*}contrib-group/{*}contrib") if c.get("contrib-type") in (None, "author"))
    names = (next(c.iter("{*}name", "{*}string-name", "{*}collab", "{*}anonymous"), None) for c in contributors)
    return list(filter(None, (_person(name) for name in names if name is not None)))


def _person(name: Any) -> str:
    parts = [name.findtext(f"{{*}}{part}") or "" for part in ("given-names", "surname", "suffix")]
    return " ".join(" ".join(parts).split()) or _one_line(name)


def _published(article: Any, meta: Any) -> str:
    journal = next((_one_line(e) for e in article.iterfind("{*}front/{*}journal-meta//{*}journal-title")), "")
    places = (meta.findtext(f"{{*}}{name}") or "" for name in ("volume", "issue", "fpage", "elocation-id"))
    doi = meta.findtext("{*}article-id[@pub-id-type='doi']") or ""
    values = {"Journal": ", ".join(filter(None, (journal, *places))), "Date": _date(meta), "DOI": doi}
    return format_row(list(values), list(values.values()))


def _date(meta: Any) -> str:
    """The first full date of publication."""
    dates = [[(e.findtext(f"{{*}}{name}") or "").strip() for name in ("year", "month", "day")] for e in meta.iterchildren("{*}pub-date")]
    known = ["-".join(part.zfill(2) for part in takewhile(str.isdecimal, date)) for date in dates]
    return min(known, key=lambda date: (-len(date), date), default="")


def _reference(element: Any) -> str:
    """A reference of a list on one line, with its number in brackets."""
    cited = next(element.iter("{*}mixed-citation", "{*}citation", "{*}nlm-citation", "{*}element-citation"), element)
    text = _one_line(cited)
    if _name(cited) in {"nlm-citation", "element-citation"}:  # without punctuation
        people = [_person(name) for name in cited.iter("{*}name", "{*}collab")]
        others = [_one_line(e) for e in cited if _name(e) not in {"person-group", "name", "collab"}]
        text = ". ".join(filter(None, (", ".join(people), *others)))
    label = (element.findtext("{*}label") or "").strip("[].() \n") if cited is not element else ""
    return f"[{label}] {text}" if label and text else text


def _cals_table_lines(table: Any) -> list[str]:
    """The lines of a table in DocBook's form."""
    rows = [(row, [_one_line(cell) for cell in row.iter("{*}entry")]) for row in table.iter("{*}row")]
    head = [cells for row, cells in rows if _name(row.getparent()) == "thead"]
    body = [cells for row, cells in rows if _name(row.getparent()) != "thead"]
    if not body:
        return []
    titles = [_one_line(title) for title in table.iterchildren("{*}title")]
    return titles + ([format_row(head[-1], row) for row in body] if head else [table.text for table in tables(body, likely=True)])


def _notes(root: Any) -> Iterator[str]:
    """The notes of Evernote, each below its title."""
    for note in root.iter("{*}note"):
        yield f"\n# {note.findtext('{*}title')}\n"
        day = note.findtext("{*}created") or ""
        tags = (tag.text or "" for tag in note.iterchildren("{*}tag"))
        yield f"{day[:4]}-{day[4:6]}-{day[6:8]} {', '.join(tags)}".strip("- ")
        markup = (note.findtext("{*}content") or "").replace(' checked="false"', "").replace("<en-todo", "<input type='checkbox'")
        yield f"\n{html_content(markup).text}"


def _outline(root: Any) -> Iterator[str]:
    """The items of an outline (OPML) as a list with their notes."""
    for item in root.iter("{*}outline"):
        indent = "  " * len(list(item.iterancestors("{*}outline")))
        text, note, target = (" ".join(plain_value(item.get(key, "")).split()) for key in ("text", "_note", "xmlUrl"))
        yield f"{indent}- {text}{f' ({target})' if target else ''}"
        yield from [f"{indent}  {note}"] * bool(note)


def _placemarks(root: Any) -> Iterator[str]:
    """The places of a map (KML) without styles and lines."""
    for place in root.iter("{*}Folder", "{*}Placemark"):
        told = (place.findtext(path) for path in ("{*}name", "{*}description", "{*}Point/{*}coordinates"))
        yield from (*(" ".join(plain_value(text).split()) for text in told if text), "")


_VOCABULARIES = {"en-export": _notes, "opml": _outline, "kml": _placemarks}


def _values(root: Any) -> Iterator[str]:
    """`tag: text` for every element with text or attributes; a blank line after each child of the root, or of the root's only child."""
    top = root[0] if len(root) == 1 and len(root[0]) else root
    for record in top:
        for element in record.iter("*"):
            text = " ".join(plain_value(element.text or "").split())
            pairs = [f"{key.rpartition('}')[2]}: {' '.join(value.split())}" for key, value in element.attrib.items() if value.strip()]
            if text or pairs:
                yield " · ".join([f"{_name(element)}: {text}"] * bool(text) + pairs)
        yield ""


def plain_value(text: str) -> str:
    """A value without HTML in it."""
    return html_content(text).text if _MARKUP.search(text) else text


def parse_hwpx(file: OpenFile, _options: LoadOptions) -> ParsedFile:
    """Parse a document of Hancom Office."""
    with open_archive(file) as archive:
        names = sorted((name for name in archive.namelist() if name.startswith("Contents/section")), key=len)
        blocks = [block for name in names for block in _hwpx_blocks(xml_root(read_entry(archive, name)))]
    return ParsedFile(clean_text("\n\n".join(blocks)))


def _hwpx_blocks(element: Any) -> Iterator[str]:
    if _name(element) == "tbl":
        rows = [[" ".join(_hwpx_blocks(cell)) for cell in row.iterchildren("{*}tc")] for row in element.iterchildren("{*}tr")]
        yield from (table.text for table in tables(rows, likely=True))
        return
    if _name(element) == "p" and (texts := element.findall("{*}run/{*}t")):
        yield "".join(" ".join(text.itertext()) for text in texts)
    for child in element:
        yield from _hwpx_blocks(child)
