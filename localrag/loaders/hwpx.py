"""Documents of Hancom Office (.hwpx): paragraphs, tables by row, notes and boxes where they stand."""

import re
from typing import Any

from localrag.loaders.content import LoadOptions, OpenFile, ParsedFile, clean_text, open_archive, read_entry
from localrag.loaders.html import xml_root
from localrag.loaders.tabular import table_lines

_SECTION = re.compile(r"Contents/section(\d{1,6})\.xml")


def parse_hwpx(file: OpenFile, _options: LoadOptions) -> ParsedFile:
    """Parse the sections of a document in their order."""
    with open_archive(file) as archive:
        names = sorted((int(match[1]), match[0]) for name in archive.namelist() if (match := _SECTION.fullmatch(name)))
        blocks = [block for _, name in names for block in _content(xml_root(read_entry(archive, name)))[1]]
    return ParsedFile(clean_text("\n\n".join(filter(None, blocks))))


def _content(element: Any) -> tuple[str, list[str]]:
    """The text of an element, and the paragraphs and tables in it."""
    text, blocks = "", list[str]()
    for child in element:
        name = str(child.tag).rpartition("}")[2]
        if name in {"t", "script"}:  # text, and a formula as it was typed
            for mark in child.iter("{*}lineBreak", "{*}tab", "{*}nbSpace", "{*}fwSpace"):
                mark.tail = f" {mark.tail or ''}"
            text += "".join(child.itertext())
        elif name == "tbl":
            rows = (
                [" ".join(filter(None, _content(cell)[1])) for cell in row.iterchildren("{*}tc")] for row in child.iterchildren("{*}tr")
            )
            blocks.append("\n".join(table_lines(rows, likely=True)))
        else:
            own, inner = _content(child)
            blocks += [" ".join(own.split()), *inner] if name == "p" else inner
            text += own if name != "p" else ""
    return text, blocks
