"""Documents of the time that a question names: "last March's minutes", "the budget of 1974"."""

from collections.abc import Iterator
from datetime import date

from localrag.dates.date_mentions import DateMention, find_dates
from localrag.dates.edtf import Day
from localrag.project import Project
from localrag.store import documents
from localrag.text.language import detect_language

FIRST_DAY, LAST_DAY = (-9999, 1, 1), (9999, 12, 31)


def documents_of_dates(question: str, project: Project, today: date) -> frozenset[str]:
    """The documents (ids) of the time that a question names, by the date in their metadata or, of a single time, in their path.

    Empty if the question names none. `today`: what "last March" is reckoned from.
    """
    mentions = find_dates(question, today, detect_language(question)).mentions
    found = set[str]()
    for mention in mentions:
        first, last = _days(mention)
        found |= documents.ids_of_days(project.db, _iso(first), _iso(last), list(_name_patterns(mention)))
    return frozenset(found)


def _days(mention: DateMention) -> tuple[Day, Day]:
    """The first and the last day that are meant."""
    first, last = mention.value.first_day, mention.value.last_day
    if mention.bound in ("before", "until", "by") or mention.value.start is None:
        first = FIRST_DAY
    if mention.bound in ("after", "since") or mention.value.end is None:
        last = LAST_DAY
    return first, last


def _iso(day: Day) -> str:
    return f"{max(day[0], 0):04d}-{day[1]:02d}-{day[2]:02d}"


def _name_patterns(mention: DateMention) -> Iterator[str]:
    """Patterns of file names with a single year, month or day: `2024-03`, `2024_03`, `202403`."""
    one = mention.value.start
    if one is None or one != mention.value.end or mention.bound or one.years > 1 or one.month > 12 or one.year < 1000:
        return
    parts = [f"{one.year:04d}", *(f"{part:02d}" for part in (one.month, one.day) if part)]
    for between in ("-", "_", ".", "") if len(parts) > 1 else ("",):
        yield f"*[^0-9]{between.join(parts)}[^0-9]*"
