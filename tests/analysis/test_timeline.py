"""Timelines: dated statements in order of time, repetitions as one row, about an entity or a topic; and as a calendar file."""

import re
import shutil
from datetime import date

import pytest

from localrag.analysis.calendar_file import timeline_to_ics
from localrag.analysis.tables import Cell, Column, ResultTable, TableRow
from localrag.analysis.timeline import FIGURES, make_timeline
from localrag.dates.edtf import parse_edtf
from localrag.engine.settings import EngineOptions
from localrag.errors import UsageError
from localrag.exchange.table_files import check_output_file, write_table
from localrag.filters import DocumentFilter
from localrag.index import Index
from localrag.project import open_for_query

SALE = "The ferry Skua was sold to Ingrid Holm on 12 March 2019 for £350,000."
DOCUMENTS = {
    "history.txt": "The chapel of Vardby was built about 1850. The old mill burned down before 1900.\n\n"
    "Herring were plentiful in the 1960s. The strike of the dockers lasted from 3 to 5 May 1926.\n\n"
    f"{SALE} The library has owned the map since 1967.\n",
    "letter.txt": "Vardby, 20 June 2019\n\nDear Ruth,\n\nYesterday the mayor opened the new bridge. "
    "The swimming pool will close in October.\n"
    "The council met on 2 May 2018. Three days later the chairman resigned.\n",
    "news.md": "# News of the harbour\n\nOn 12 March 2019 the ferry Skua was sold to Ingrid Holm. "
    "The brewery was not sold to Lars Berg on 1 July 2018. The brewery was sold to Lars Berg on 1 July 2018.\n",
    "diary.md": "# Diary of a keeper\n\n## 9 November 1973\n\nThe coaster struck the shoal in the storm.\n\n"
    "## 2 December 1973\n\nI found the carbon copy in the ledger.\n",
    "people.txt": "Ingrid Holm was born in 1931 in Vardby. She married a baker in 1955. "
    "Walter Muir became a pilot in 1960. He retired in 1990.\n",
    "soup.txt": "Take two carrots, an onion and a cod. Boil the bones for an hour.\n",
}


def make_index(folder, documents, extractor="phrases"):
    for name, text in documents.items():
        (folder / name).write_text(text, encoding="utf-8")
    with Index.create(folder, extractor=extractor) as index:
        index.add(folder)
    return folder


@pytest.fixture(scope="module")
def harbor(tmp_path_factory, home):
    """An index of six documents, one without a date."""
    return make_index(tmp_path_factory.mktemp("harbor"), DOCUMENTS, "auto")


@pytest.fixture(scope="module")
def table(harbor):
    """The timeline of everything."""
    return timeline_of(harbor)


def timeline_of(folder, about="", **options):
    with Index.open(folder) as index:
        return index.timeline(about, **options)


def rows_with(table, words):
    return [row for row in table.rows if words in row.cells[1].text]


def row_with(table, words):
    (row,) = rows_with(table, words)
    return row


def test_rows_are_in_order_of_time(table):
    """All dated statements by their first day; the table has figures of what was read."""
    assert [row.cells[0].value for row in table.rows] == [
        "1850~", "../1900", "1926-05-03/1926-05-05", "1931", "1955", "196X", "1960", "1967/..", "1973-11-09", "1973-12-02", "1990",
        "2018-05-02", "2018-05-05", "2018-07-01", "2018-07-01", "2019-03-12", "2019-06-19", "2019-06-20", "2019-10",
    ]  # fmt: skip
    days = [parse_edtf(row.cells[0].value).first_day for row in table.rows]
    assert days == sorted(days)
    assert tuple(table.figures) == FIGURES
    assert (table.figures["documents"], table.figures["documents_with_dates"], table.figures["merged"]) == (6, 5, 1)


def test_quotes_are_verbatim(table):
    """Each quote of a date and of a statement is the text of its document at its place, and the date lies in or above the statement."""
    assert table.citations
    for citation in table.citations:
        assert DOCUMENTS[citation.path][citation.start : citation.end] == citation.quote
    for row in table.rows:
        assert all(cell.citations for cell in row.cells[:2])


def test_ranges_and_uncertain_dates(table):
    """What is not exact, a period or open says so."""
    shown = {row.cells[0].value: row.cells[0].text for row in table.rows}

    assert shown["1850~"] == "about 1850"
    assert shown["../1900"] == "before 1900"
    assert shown["1926-05-03/1926-05-05"] == "3 May 1926 to 5 May 1926"
    assert shown["196X"] == "the 1960s"
    assert shown["1967/.."] == "since 1967"


def test_reckoned_dates(table):
    """Dates in relation to another are marked, and cite what they are reckoned from where the text names it."""
    yesterday, resigned, pool = (row_with(table, words) for words in ("new bridge", "chairman resigned", "swimming pool"))

    assert (yesterday.cells[0].text, yesterday.cells[0].note, yesterday.cells[0].value) == ("19 June 2019", "reckoned", "2019-06-19")
    assert (pool.cells[0].text, pool.cells[0].note, pool.cells[0].value) == ("October 2019", "reckoned", "2019-10")
    assert [citation.quote for citation in resigned.cells[0].citations] == ["Three days later", "2 May 2018"]
    assert "Dates reckoned from another date: 3." in table.note


def test_an_event_told_twice_is_one_row(table):
    """Two documents that say the same of one day, one of them more, are one row with both quotes, and the fuller as its text."""
    row = row_with(table, "Skua")

    assert row.cells[1].text == SALE
    assert sorted(citation.path for citation in row.cells[1].citations) == ["history.txt", "news.md"]
    assert row.cells[2].text == "history.txt; news.md"


def test_a_denial_is_no_repetition(table):
    """A statement with "not" is not merged with the same one without."""
    assert len(rows_with(table, "brewery")) == 2


def test_a_date_above_a_paragraph_dates_it(table):
    """A heading that is nothing but a date belongs to what stands below it."""
    row = row_with(table, "coaster struck")

    assert [citation.quote for citation in row.cells[0].citations] == ["9 November 1973"]
    assert not rows_with(table, "## ")


def test_a_list_belongs_to_the_heading_of_its_own_day(tmp_path, home):
    """Not to that of the day before as well."""
    days = {
        "2023-07-19": "- The pump was taken to the yard.",
        "2023-07-20": "- The pump failed its first test.\n- The yard ordered a new seal.",
    }
    text = "# Log\n\n" + "".join(f"### {day}\n\n{items}\n\n" for day, items in days.items())

    table = timeline_of(make_index(tmp_path, {"log.md": text}))

    assert [(row.cells[0].value, row.cells[1].text) for row in table.rows] == [
        ("2023-07-19", "The pump was taken to the yard."),
        ("2023-07-20", "The pump failed its first test."),
        ("2023-07-20", "The yard ordered a new seal."),
    ]


def test_about_an_entity(harbor):
    """Only what mentions the entity, or goes on about the person with "she"."""
    table = timeline_of(harbor, "Ingrid Holm")

    assert [row.cells[0].value for row in table.rows] == ["1931", "1955", "2019-03-12"]
    assert table.title == "Timeline of Ingrid Holm"


def test_about_a_topic(harbor):
    """Only what the reader finds relevant to the topic."""
    table = timeline_of(harbor, "the burning of the mill")

    assert [row.cells[0].value for row in table.rows] == ["../1900"]


def test_about_something_unknown(harbor):
    """Nothing is made up: a table without rows whose note says so."""
    table = timeline_of(harbor, "the election of a pope")

    assert table.rows == ()
    assert table.note.startswith("No dated statement about “the election of a pope” was found. Documents read: 6.")


def test_limit(harbor):
    """The first rows, and how many are left out."""
    table = timeline_of(harbor, limit=2)

    assert [row.cells[0].value for row in table.rows] == ["1850~", "../1900"]
    assert table.figures["omitted"] == 17
    assert "Later rows left out: 17." in table.note


def test_selection(harbor):
    """Only the documents that are filtered to."""
    table = timeline_of(harbor, selection=DocumentFilter("path = 'diary.md'"))

    assert [row.cells[0].value for row in table.rows] == ["1973-11-09", "1973-12-02"]


def test_no_dates(tmp_path, home):
    """Documents without dates give a table without rows, with a plain note."""
    table = timeline_of(make_index(tmp_path, {"soup.txt": DOCUMENTS["soup.txt"], "one.txt": "x"}))

    assert table.rows == ()
    assert table.note == "No dated statement was found. Documents read: 2."


def test_unknown_days(tmp_path, home):
    """Dates that cannot be reckoned are left out, and the note counts them."""
    table = timeline_of(make_index(tmp_path, {"note.txt": "Yesterday the boiler broke. The school opened in 1951.\n"}))

    assert [row.cells[0].value for row in table.rows] == ["1951"]
    assert table.note.endswith("do not say what day they start from: 1.")


def test_the_same_document_twice(tmp_path, home):
    """A copy of a document adds its quotes and no rows."""
    text = DOCUMENTS["history.txt"]

    table = timeline_of(make_index(tmp_path, {"a.txt": text, "b.txt": text}))

    assert [row.cells[0].value for row in table.rows] == ["1850~", "../1900", "1926-05-03/1926-05-05", "196X", "1967/..", "2019-03-12"]
    assert {row.cells[2].text for row in table.rows} == {"a.txt; b.txt"}


def test_long_lines(tmp_path, home):
    """Of a line without sentences, the part around the date is quoted."""
    line = "alpha beta gamma " * 1000 + "delta on 12 March 2019 epsilon " + "zeta eta theta " * 1000

    table = timeline_of(make_index(tmp_path, {"long.txt": line}))

    (row,) = table.rows
    assert "12 March 2019" in row.cells[1].text
    assert len(row.cells[1].text) <= 600


def test_the_same_index_gives_the_same_table(harbor, table):
    """Tables do not depend on the run."""
    assert timeline_of(harbor) == table


def test_a_topic_needs_the_reader(harbor):
    """With the reader switched off, a topic is refused with a hint, and everything else works."""
    with open_for_query(harbor, engine=EngineOptions(use_adapters=False), logs=False) as project:
        with pytest.raises(UsageError, match="switched off"):
            make_timeline(project, "the burning of the mill")
        assert make_timeline(project).rows


# Calendar files


def unfolded(text):
    """The content lines of an iCalendar file, as (name, parameters, value), checked by RFC 5545, sections 3.1 and 3.3.11."""
    raw = text.encode()
    assert raw.endswith(b"\r\n")
    assert b"\n" not in raw.replace(b"\r\n", b"")
    assert b"\r" not in raw.replace(b"\r\n", b"")
    physical = raw.split(b"\r\n")[:-1]
    assert all(len(line) <= 75 for line in physical)
    for line in physical:
        line.decode()  # no character is cut
    logical = re.sub(rb"\r\n ", b"", raw).decode().split("\r\n")[:-1]
    lines = [re.fullmatch(r"([A-Z-]+)((?:;[A-Z-]+=[^:;]*)*):(.*)", line) for line in logical]
    assert all(lines)
    assert not any(re.search(r"(?<!\\)(?:\\\\)*[,;]", m[3]) for m in lines if m[1] in ("SUMMARY", "DESCRIPTION", "LOCATION"))
    return [(m[1], m[2], re.sub(r"\\([\\;,nN])", lambda e: "\n" if e[1] in "nN" else e[1], m[3])) for m in lines]


def events_in(text):
    """The events of an iCalendar file, by name of their property."""
    lines = unfolded(text)
    assert lines[0][::2] == ("BEGIN", "VCALENDAR")
    assert lines[-1][::2] == ("END", "VCALENDAR")
    assert {"VERSION", "PRODID"} <= {name for name, _, _ in lines}
    events, event = [], None
    for name, parameters, value in lines:
        if (name, value) == ("BEGIN", "VEVENT"):
            event = {}
        elif (name, value) == ("END", "VEVENT"):
            events.append(event)
            event = None
        elif event is not None:
            assert name not in event
            event[name] = value
            assert not name.startswith("DT") or name == "DTSTAMP" or parameters == ";VALUE=DATE"
    assert len({event["UID"] for event in events}) == len(events)
    assert all("DTSTAMP" in event for event in events)
    return events


def test_a_timeline_as_a_calendar(table):
    """An event a row but those that no calendar shows; the same table gives the same file."""
    text = timeline_to_ics(table)
    events = events_in(text)

    assert len(events) == len(table.rows) - 1
    sale = next(event for event in events if "Skua" in event["SUMMARY"])
    assert (sale["DTSTART"], sale["DTEND"]) == ("20190312", "20190313")
    assert "“" + SALE + "”\nhistory.txt" in sale["DESCRIPTION"]
    assert sale["LOCATION"] == "history.txt; news.md"
    assert "decades\\, centuries or before the year 1: 1." in text.replace("\r\n ", "")
    assert timeline_to_ics(table) == text


def made_table(*values, text="It happened."):
    rows = [TableRow((Cell(value, value=value), Cell(text), Cell("a.txt")), key=f"{n}") for n, value in enumerate(values)]
    return ResultTable("timeline", "Timeline", (Column("date", "date"), Column("what happened"), Column("document")), tuple(rows))


@pytest.mark.parametrize(
    ("value", "start", "last"),
    [
        ("2019-03-12", date(2019, 3, 12), date(2019, 3, 12)),
        ("2020-02", date(2020, 2, 1), date(2020, 2, 29)),
        ("1974", date(1974, 1, 1), date(1974, 12, 31)),
        ("1914/1918", date(1914, 1, 1), date(1918, 12, 31)),
        ("../1900", date(1900, 1, 1), date(1900, 12, 31)),
        ("1967-05-02/..", date(1967, 5, 2), date(1967, 5, 2)),
        ("0410", date(410, 1, 1), date(410, 12, 31)),
    ],
)
def test_days_of_an_event(value, start, last):
    """A month or year covers all its days; the end is the day after the last."""
    (event,) = events_in(timeline_to_ics(made_table(value)))

    end = event["DTEND"]
    assert event["DTSTART"] == f"{start.year:04d}{start:%m%d}"
    assert (date(int(end[:4]), int(end[4:6]), int(end[6:])) - last).days == 1


@pytest.mark.parametrize("value", ["196X", "196X/1975", ""])
def test_what_no_calendar_shows(value):
    """Decades are no events."""
    assert events_in(timeline_to_ics(made_table(value))) == []


def test_the_end_of_the_calendar():
    """The last day that a calendar has is an event without an end."""
    (event,) = events_in(timeline_to_ics(made_table("9999-12-31")))

    assert "DTEND" not in event


@pytest.mark.parametrize("text", ["a, b; c\\n d\\", "漢字" * 60, "é" * 74, "x" * 500, "one\r\ntwo\x00\x07three\u2028four", "\ud800", ""])
def test_any_text_in_a_calendar(text):
    """Separators and line breaks are escaped, long lines folded without cutting a character, control characters left out."""
    (event,) = events_in(timeline_to_ics(made_table("2019", text=text)))

    if text.isprintable():
        assert event["SUMMARY"] == (text[:159] + "…" if len(text) > 160 else text)


def test_an_empty_timeline_is_a_calendar():
    """A table without rows gives a file without events."""
    assert events_in(timeline_to_ics(made_table())) == []


def test_a_copy_of_the_folder_gives_the_same_calendar(harbor, table, tmp_path):
    """Identifiers of events do not depend on where the index is."""
    copied = shutil.copytree(harbor, tmp_path / "copy")

    assert timeline_to_ics(timeline_of(copied)) == timeline_to_ics(table)


def test_a_calendar_is_written_for_timelines_only(table, tmp_path):
    """A file that ends with .ics holds the calendar; for another table it is refused before the work."""
    write_table(table, tmp_path / "t.ics")

    assert (tmp_path / "t.ics").read_bytes().decode() == timeline_to_ics(table)
    check_output_file(tmp_path / "other.ics", "timeline")
    with pytest.raises(UsageError, match="no format"):
        check_output_file(tmp_path / "other.ics", "review")
