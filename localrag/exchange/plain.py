"""Texts of documents made fit for formats that do not hold every character."""

import re

# What XML 1.0 has no place for or advises against; other formats are better off without it, too.
_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")


def clean(text: str) -> str:
    """The text with U+FFFD in place of each control character but tab and line break; line breaks are `\\n`."""
    return _CONTROLS.sub("\ufffd", text.replace("\r\n", "\n").replace("\r", "\n"))
