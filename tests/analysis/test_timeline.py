"""Timelines: dated statements in order of time, repetitions as one row, about an entity or a topic."""

import pytest

from localrag.analysis.timeline import FIGURES, make_timeline
from localrag.dates.edtf import parse_edtf
from localrag.engine.settings import EngineOptions
from localrag.errors import UsageError
from localrag.filters import DocumentFilter
from localrag.index import Index
from localrag.project import open_for_query
from tests.analysis.made import make_index

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
    assert len(rows_with(table, "brewery")) == 2  # a denial is no repetition


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


@pytest.mark.parametrize(
    ("about", "dates", "note"),
    [
        ("Ingrid Holm", ["1931", "1955", "2019-03-12"], ""),
        ("the burning of the mill", ["../1900"], ""),
        ("the election of a pope", [], "No dated statement about “the election of a pope” was found. Documents read: 6."),
    ],
)
def test_about_something(harbor, about, dates, note):
    """Only what mentions an entity, or goes on about a person with "she"; what the reader finds relevant to a topic; nothing made up."""
    table = timeline_of(harbor, about)

    assert [row.cells[0].value for row in table.rows] == dates
    assert table.title == f"Timeline of {about}"
    assert table.note.startswith(note)


def test_limit_and_selection(harbor):
    """The first rows, and how many are left out; of only the documents that are filtered to."""
    table = timeline_of(harbor, limit=1, selection=DocumentFilter("path = 'diary.md'"))

    assert [row.cells[0].value for row in table.rows] == ["1973-11-09"]
    assert table.figures["omitted"] == 1
    assert "Later rows left out: 1." in table.note


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


def test_long_lines(tmp_path, home):
    """Of a line without sentences, the part around the date is quoted."""
    line = "alpha beta gamma " * 1000 + "delta on 12 March 2019 epsilon " + "zeta eta theta " * 1000

    table = timeline_of(make_index(tmp_path, {"long.txt": line}))

    (row,) = table.rows
    assert "12 March 2019" in row.cells[1].text
    assert len(row.cells[1].text) <= 600


def test_a_topic_needs_the_reader(harbor):
    """With the reader switched off, a topic is refused with a hint, and everything else works."""
    with open_for_query(harbor, engine=EngineOptions(use_adapters=False), logs=False) as project:
        with pytest.raises(UsageError, match="switched off"):
            make_timeline(project, "the burning of the mill")
        assert make_timeline(project).rows
