"""XFA forms, which only Adobe Reader shows: the pages of such a PDF are nothing but a notice that says so."""

import ctypes
import re
from collections.abc import Iterator
from typing import Any

from localrag.loaders.content import MEGABYTE, clean_text

_DECLARATION = re.compile(rb"<\?xml[^>]*\?>")
_XHTML = "{http://www.w3.org/1999/xhtml}"
_MAX_PACKETS, _MAX_PACKET_BYTES, _MAX_VALUE_CHARS = 50, 20 * MEGABYTE, 20_000  # longer values are pictures


def xfa_text(document: Any) -> str:
    """What was entered into a PDF's XFA form, behind the captions or names of its fields; empty if nothing was."""
    from lxml import etree

    parser = etree.XMLParser(recover=True, resolve_entities=False, no_network=True, load_dtd=False, remove_comments=True, remove_pis=True)
    root = etree.fromstring(b"<form>%b</form>" % _DECLARATION.sub(b"", b"".join(_packets(document))), parser)
    captions = {field.get("name"): _one_line(field.find("{*}caption")) for field in root.iter("{*}field", "{*}exclGroup")}
    lines = list[str]()
    for element in root.iterfind(".//{*}datasets/{*}data//*"):
        is_value = not element.tag.startswith(_XHTML) and (len(element) == 0 or element[0].tag.startswith(_XHTML))
        if is_value and 0 < len(value := _one_line(element)) <= _MAX_VALUE_CHARS:
            name = element.tag.rpartition("}")[2]
            lines.append(f"{captions.get(name) or name}: {value}")
    return clean_text("\n\n".join(lines))


def _one_line(element: Any) -> str:
    return "" if element is None else " ".join("".join(element.itertext()).split())


def _packets(document: Any) -> Iterator[bytes]:
    """The parts of a form, which together are an XML document."""
    import pypdfium2.raw as pdfium

    size = ctypes.c_ulong()
    for n in range(min(pdfium.FPDF_GetXFAPacketCount(document), _MAX_PACKETS)):
        pdfium.FPDF_GetXFAPacketContent(document, n, None, 0, size)
        buffer = ctypes.create_string_buffer(min(size.value, _MAX_PACKET_BYTES))
        pdfium.FPDF_GetXFAPacketContent(document, n, buffer, len(buffer), size)
        yield buffer.raw
