"""Calendars (iCalendar, vCalendar), contacts (vCard) and directories (LDIF): each entry a paragraph of `name: value` lines."""

import re
from base64 import b64decode
from collections.abc import Iterator
from contextlib import suppress
from quopri import decodestring

from localrag.loaders.content import LoadOptions, OpenFile, ParsedFile, decode

_FOLD = re.compile(r"\n[ \t]")
_ITEM = re.compile(r"^BEGIN:(VEVENT|VTODO|VJOURNAL|VCARD)[ \t]*$", re.MULTILINE | re.IGNORECASE)
_QUOTED_PRINTABLE = re.compile(r"^[^:\n]*QUOTED-PRINTABLE[^:\n]*:(?:.*=\n)*", re.MULTILINE | re.IGNORECASE)
_PROPERTY = re.compile(r"(?:[\w-]+\.)?([A-Za-z-]+)((?:;(?:\"[^\"]*\"|[^\";:])*)*):(.*)")
_BASE64 = re.compile(r"^([\w;-]+)::[ \t]*(.*)\n", re.MULTILINE)  # a line of LDIF
_NAME = re.compile(r";CN=(?:\"([^\"]*)\"|([^;:]*))", re.IGNORECASE)
_TIME = re.compile(r"(\d{4})(\d\d)(\d\d)(?:T(\d\d)(\d\d)\d\d(Z?))?")
_ZONE = re.compile(r";TZID=\"?([^;:\"]+)", re.IGNORECASE)
_ESCAPED = re.compile(r"\\([nN,;\\])")
_SHOWN = {
    "SUMMARY": "Summary", "DTSTART": "Start", "DTEND": "End", "DUE": "Due", "LOCATION": "Location", "ORGANIZER": "Organizer",
    "ATTENDEE": "Attendee", "STATUS": "Status", "RRULE": "Repeats", "DESCRIPTION": "Description", "COMMENT": "Comment", "URL": "URL",
    "FN": "Name", "N": "Full name", "ORG": "Organization", "TITLE": "Title", "TEL": "Phone", "EMAIL": "E-mail", "ADR": "Address",
    "BDAY": "Birthday", "NOTE": "Note",
}  # fmt: skip


def parse_calendar(file: OpenFile, _options: LoadOptions) -> ParsedFile:
    """Parse a file of events or contacts; without any it is plain text."""
    text = decode(file.read_bytes()).lstrip("\ufeff")
    items = calendar_text(text)
    return ParsedFile(items or _FOLD.sub("", text))


def parse_ldif(file: OpenFile, _options: LoadOptions) -> ParsedFile:
    """Parse a directory: values in base64 are read if they are text, else left out."""
    return ParsedFile(_BASE64.sub(_base64_text, decode(file.read_bytes()).replace("\n ", "")))


def _base64_text(line: re.Match[str]) -> str:
    with suppress(ValueError):
        return f"{line[1]}: {b64decode(line[2]).decode('utf-8')}\n"
    return ""


def _unescaped(match: re.Match[str]) -> str:
    return "\n" if match[1] in "nN" else match[1]


def calendar_text(source: str) -> str:
    """The events, tasks, journal entries and contacts of a text with `\\n` line ends; empty if there are none."""
    text = _FOLD.sub("", _QUOTED_PRINTABLE.sub(lambda match: match[0].replace("=\n", ""), source))
    starts = [match.end() for match in _ITEM.finditer(text)]
    items = ("\n".join(_item_lines(text[start:end])) for start, end in zip(starts, [*starts[1:], len(text)], strict=True))
    return "\n\n".join(filter(None, items))


def _item_lines(source: str) -> Iterator[str]:
    """The lines of an item, in the order of _SHOWN; those of its alarms are left out."""
    values: dict[str, list[str]] = {}
    depth = 0
    for line in source.split("\n"):
        name = line.partition(":")[0].upper()
        depth += (name == "BEGIN") - (name == "END")
        if depth < 0:
            break
        if depth == 0 and (match := _PROPERTY.fullmatch(line.rstrip())) and match[1].upper() in _SHOWN:
            values.setdefault(match[1].upper(), []).append(_value(match[1].upper(), match[2], match[3]))
    for name, label in _SHOWN.items():
        yield from (f"{label}: {value}" for value in values.get(name, ()) if value)


def _value(name: str, parameters: str, value: str) -> str:
    """A value as text: a person by name and address, a time as `2024-05-12 14:00 UTC`."""
    if name in {"ORGANIZER", "ATTENDEE"}:
        address = re.sub(r"(?i)^mailto:", "", value.strip())
        named = _NAME.search(parameters)
        person = (named[1] or named[2] or "").strip() if named else ""
        return f"{person} <{address}>" if person and person != address else address
    if name in {"DTSTART", "DTEND", "DUE"} and (time := _TIME.fullmatch(value.strip())):
        zone = _ZONE.search(parameters)
        suffix = " UTC" if time[6] else f" {zone[1]}" if zone else ""
        return f"{time[1]}-{time[2]}-{time[3]}" + (f" {time[4]}:{time[5]}{suffix}" if time[4] else "")
    if "QUOTED-PRINTABLE" in parameters.upper():
        value = decode(decodestring(value.encode("utf-8")))
    if name in {"N", "ADR", "ORG"}:
        value = ", ".join(filter(None, re.split(r"(?<!\\);", value)))
    return _ESCAPED.sub(_unescaped, value).strip()
