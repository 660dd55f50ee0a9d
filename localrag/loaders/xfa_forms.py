"""XFA forms, which only Adobe Reader shows: the pages of such a PDF are nothing but a notice that says so."""

import ctypes
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from localrag.loaders.content import MEGABYTE, clean_text

_DECLARATION = re.compile(rb"<\?xml[^>]*\?>")
_XHTML = "{http://www.w3.org/1999/xhtml}"
_MAX_PACKETS, _MAX_PACKET_BYTES, _MAX_VALUE_CHARS = 50, 20 * MEGABYTE, 20_000  # longer values are pictures
_Values = Mapping[tuple[str, str], list[str]]  # by the names of the part of the form and the field


def xfa_text(document: Any) -> str:
    """The texts of a PDF's XFA form and the captions of its fields with what was entered; empty if nothing was."""
    from lxml import etree

    parser = etree.XMLParser(recover=True, resolve_entities=False, no_network=True, load_dtd=False, remove_comments=True, remove_pis=True)
    root = etree.fromstring(b"<form>%b</form>" % _DECLARATION.sub(b"", b"".join(_packets(document))), parser)
    values = defaultdict[tuple[str, str], list[str]](list)
    for element in root.iterfind(".//{*}datasets/{*}data//*") if root is not None else ():
        is_value = len(element) == 0 or element[0].tag.startswith(_XHTML)
        if is_value and not element.tag.startswith(_XHTML) and 0 < len(text := _one_line(element)) <= _MAX_VALUE_CHARS:
            values[_local_name(element.getparent()), _local_name(element)].append(text)
    return clean_text("\n\n".join(_lines(root, values))) if values else ""


def _packets(document: Any) -> Iterator[bytes]:
    """The parts of a form, which together are an XML document."""
    import pypdfium2.raw as pdfium

    size = ctypes.c_ulong()
    for n in range(min(pdfium.FPDF_GetXFAPacketCount(document), _MAX_PACKETS)):
        pdfium.FPDF_GetXFAPacketContent(document, n, None, 0, size)
        buffer = ctypes.create_string_buffer(min(size.value, _MAX_PACKET_BYTES) + 1)
        pdfium.FPDF_GetXFAPacketContent(document, n, buffer, len(buffer) - 1, size)
        yield buffer.value


def _lines(root: Any, values: _Values) -> Iterator[str]:
    """The form in its order, then the values without a field."""
    remaining = dict(values)
    for element in root.iter("{*}draw", "{*}field", "{*}exclGroup"):
        if _local_name(element) == "draw":
            yield _one_line(element.find("{*}value"))
        elif entered := remaining.pop((_part_name(element), element.get("name", "")), None):
            yield f"{_one_line(element.find('{*}caption')) or element.get('name')}: {'; '.join(entered)}"
    yield from (f"{name}: {'; '.join(entered)}" for (_, name), entered in remaining.items())


def _part_name(element: Any) -> str:
    return next((name for above in element.iterancestors() if (name := above.get("name", ""))), "")


def _local_name(element: Any) -> str:
    return str(element.tag).rpartition("}")[2]


def _one_line(element: Any) -> str:
    return "" if element is None else " ".join("".join(element.itertext()).split())
