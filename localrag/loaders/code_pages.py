"""Encodings by the numbers that Windows gives them."""

import codecs

_NAMES = {1200: "utf-16-le", 1201: "utf-16-be", 65001: "utf-8", 10000: "mac_roman", 10007: "mac_cyrillic", 20127: "ascii", 20866: "koi8-r"}
_ISO_8859 = range(28591, 28607)


def code_page_encoding(number: int) -> str:
    """The encoding of a code page; that of western Windows for one that is not known."""
    name = _NAMES.get(number) or (f"iso8859_{number - 28590}" if number in _ISO_8859 else f"cp{number}")
    try:
        return codecs.lookup(name).name
    except LookupError:
        return "cp1252"
