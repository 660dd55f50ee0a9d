"""EPUB: a book as its chapters, each a page of HTML."""

import re
from posixpath import dirname, join, normpath

from localrag.index.documents.load.archive import entry, open_archive
from localrag.index.documents.load.content import Content, Options, Unreadable, compose, described, first_heading
from localrag.index.documents.load.encoding import decode
from localrag.index.documents.load.formats.html import html_content
from localrag.index.documents.load.formats.xml import xml_root
from localrag.index.documents.load.open_file import OpenFile

_DUBLIN_CORE = {
    "title": "title",
    "creator": "author",
    "date": "date",
    "publisher": "publisher",
    "language": "language",
    "subject": "subject",
}


def parse_epub(file: OpenFile, _options: Options) -> Content:
    """A book: its chapters in reading order are the parts."""
    with open_archive(file) as archive:
        names = set(archive.namelist())
        container = xml_root(entry(archive, "META-INF/container.xml"))
        path = next((str(r.get("full-path")) for r in container.iter("{*}rootfile")), "")
        if path not in names:
            raise Unreadable("damaged: the book has no table of its files", failed=True)
        package = xml_root(entry(archive, path))
        items = {i.get("id"): normpath(join(dirname(path), _unquoted(str(i.get("href"))))) for i in package.iter("{*}item")}
        spine = [items.get(i.get("idref"), "") for i in package.iter("{*}itemref")]
        chapters = [html_content(decode(entry(archive, name))) for name in spine if name in names]
    text, parts = compose((_chapter_name(c, n), c.text) for n, c in enumerate(chapters, 1))
    named = {tag: [" ".join((e.text or "").split()) for e in package.iter(f"{{*}}{tag}")] for tag in _DUBLIN_CORE}
    values = {label: ", ".join(filter(None, named[tag])) for tag, label in _DUBLIN_CORE.items()}
    return Content(text, values["title"], described(**values), parts)


def _unquoted(href: str) -> str:
    """A file name as it is, not as an address writes it: `%C3%A4.xhtml` → `ä.xhtml`."""
    return re.sub(
        r"(?:%[0-9a-fA-F]{2})+", lambda found: bytes.fromhex(found[0].replace("%", "")).decode("utf-8", "replace"), href.partition("#")[0]
    )


def _chapter_name(chapter: Content, n: int) -> str:
    heading = first_heading(chapter.text)
    return f"chapter {' '.join(heading.split())[:80]}" if heading else f"section {n}"
