"""Timelines as iCalendar files (RFC 5545), which calendar programs import."""

from datetime import date, timedelta

from localrag.analysis.tables import ResultTable, TableRow
from localrag.dates.edtf import DateRange, parse_edtf
from localrag.records import content_id

MAX_LINE_BYTES = 75  # of a content line, without the line break; longer ones are folded (section 3.1)
MAX_SUMMARY_CHARS = 160
_STAMP = "19700101T000000Z"  # when an event was written: always the same, so that the same table gives the same file
_ESCAPES = str.maketrans({"\\": "\\\\", ";": "\\;", ",": "\\,", "\n": "\\n"})


def timeline_to_ics(table: ResultTable) -> str:
    """A timeline (`make_timeline`) as an iCalendar file: an all-day event a row, a month or year over all its days.

    Left out are decades, which no calendar can show; the calendar's description says how many.
    """
    events = [event for row in table.rows if (event := _event(row))]
    n_omitted = len(table.rows) - len(events)
    omitted = f" Decades left out: {n_omitted}." if n_omitted else ""
    head = ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//localrag//timeline//EN", "CALSCALE:GREGORIAN"]
    named = [f"X-WR-CALNAME:{_escaped(table.title)}", f"X-WR-CALDESC:{_escaped((table.note + omitted).strip())}"]
    lines = [*head, *named, *(line for event in events for line in event), "END:VCALENDAR"]
    return "".join(f"{_folded(line)}\r\n" for line in lines)


def _event(row: TableRow) -> list[str] | None:
    """The lines of a row's event; None if its date has no days in a calendar."""
    when, what, where = row.cells
    value = parse_edtf(str(when.value))
    days = _days_of(value) if value else None
    if days is None:
        return None
    summary = what.text if len(what.text) <= MAX_SUMMARY_CHARS else what.text[: MAX_SUMMARY_CHARS - 1].rstrip() + "…"
    description = "\n".join(
        [f"Date: {when.text}" + f" ({when.note})" * bool(when.note), *(f"“{c.quote.strip()}”\n{c.place()}" for c in what.citations)]
    )
    start, end = days
    return [
        "BEGIN:VEVENT",
        f"UID:{content_id('timeline', row.key)}@localrag",
        f"DTSTAMP:{_STAMP}",
        f"DTSTART;VALUE=DATE:{start}",
        *([f"DTEND;VALUE=DATE:{end}"] if end else []),
        f"SUMMARY:{_escaped(summary)}",
        f"DESCRIPTION:{_escaped(description)}",
        f"LOCATION:{_escaped(where.text)}",
        "TRANSP:TRANSPARENT",
        "END:VEVENT",
    ]


def _days_of(value: DateRange) -> tuple[str, str] | None:
    """The first day, and the day after the last, which is empty if the calendar ends before it."""
    ends = [end for end in (value.start, value.end) if end is not None]
    first, last = value.first_day, value.last_day
    if any(end.years > 1 for end in ends):
        return None
    try:
        after = f"{date(*last) + timedelta(days=1):%Y%m%d}".rjust(8, "0")
    except OverflowError:
        after = ""
    return "".join(f"{part:0{width}d}" for part, width in zip(first, (4, 2, 2), strict=True)), after


def _escaped(text: str) -> str:
    """Text as a value of a property, with line breaks and signs escaped (section 3.3.11), without other control characters."""
    lines = "\n".join(text.splitlines())
    return "".join(c for c in lines if c in "\n\t" or c.isprintable() or c.isspace()).translate(_ESCAPES)


def _folded(line: str) -> str:
    """A content line in parts of at most MAX_LINE_BYTES, each but the first behind a space; no character is cut."""
    parts, size = [""], 0
    for character in line:
        width = len(character.encode("utf-8", "replace"))
        if size + width > MAX_LINE_BYTES:
            parts.append("")
            size = 1
        parts[-1] += character
        size += width
    return "\r\n ".join(parts)
