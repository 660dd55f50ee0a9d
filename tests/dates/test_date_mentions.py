"""Dates in sentences of five languages: what is found, what it means, and what is no date."""

import random
import re
from datetime import date
from pathlib import Path

import pytest

from localrag.dates.date_mentions import find_dates
from localrag.dates.edtf import PartialDate, parse_edtf

ANNOTATED = Path(__file__).parents[1] / "data" / "dates.tsv"
MARKED = re.compile(r"⟦([^→⟧]*)→(\*?)([^⟧]*)⟧")  # ⟦words→date⟧, with a * before a date that is reckoned


def found_in(text, own=None, language="en"):
    """The words and values of the dates in a text."""
    return [(text[m.start : m.end], str(m.value)) for m in find_dates(text, own, language).mentions]


def values_in(text, own=None, language="en"):
    return [value for _, value in found_in(text, own, language)]


def annotated_rows():
    """Language, own date, text without its marks, and its dates, of the half of the annotated sentences that rules may be made from."""
    for line in ANNOTATED.read_text(encoding="utf-8").splitlines()[1:]:
        half, language, own, marked = line.split("\t")
        if half == "tune":
            dates = [(m[3], bool(m[2])) for m in MARKED.finditer(marked)]
            yield language, own, MARKED.sub(r"\1", marked), dates


@pytest.mark.parametrize(("language", "own", "text", "dates"), list(annotated_rows()))
def test_annotated_sentences(language, own, text, dates):
    """Each date of a sentence is found with its value, told apart from reckoned ones, and nothing else."""
    known = parse_edtf(own) if own else None

    mentions = find_dates(text, known.start if known else None, language).mentions

    assert [(str(m.value), m.is_reckoned) for m in mentions] == dates


@pytest.mark.parametrize(
    ("language", "text", "words", "value"),
    [
        ("en", "On March 3rd, 2019 it rained.", "March 3rd, 2019", "2019-03-03"),
        ("en", "It was the twenty-first of June 1850.", "twenty-first of June 1850", "1850-06-21"),
        ("en", "Seen between 1915 and 1927.", "1915 and 1927", "1915/1927"),
        ("de", "Er kam am Montag, den 4. März 1974.", "Montag, den 4. März 1974", "1974-03-04"),
        ("de", "Vom 3. bis 5. Mai 1999 war Markt.", "3. bis 5. Mai 1999", "1999-05-03/1999-05-05"),
        ("zh", "二〇〇八年八月八日开幕。", "二〇〇八年八月八日", "2008-08-08"),
    ],
)
def test_words_and_value(language, text, words, value):
    """A date is found at its words, with the value that they say."""
    assert found_in(text, None, language) == [(words, value)]


@pytest.mark.parametrize(
    ("language", "text", "values"),
    [
        ("en", "Yesterday it rained; three weeks ago it snowed.", ["2020-05-14", "2020-04-24"]),
        ("en", "They met last Tuesday and will meet on Monday.", ["2020-05-12", "2020-05-18"]),
        ("en", "He resigned in March; his successor will begin in October.", ["2020-03", "2020-10"]),
        ("zh", "十二年后他回来了。", []),
    ],
)
def test_reckoned_from_the_texts_own_date(language, text, values):
    """Dates in relation to the text's own date, which is 15 May 2020, a Friday."""
    mentions = find_dates(text, date(2020, 5, 15), language).mentions

    assert [str(m.value) for m in mentions] == values
    assert all(m.is_reckoned and m.base is None for m in mentions)


def test_reckoned_from_the_date_before():
    """What follows on a date is reckoned from that and points to it."""
    text = "The siege began on 2 May 1565. Three days later the fort fell, and the following year a new one was built."

    siege, fort, year = find_dates(text).mentions

    assert [str(m.value) for m in (siege, fort, year)] == ["1565-05-02", "1565-05-05", "1566"]
    assert text[slice(*fort.base)] == "2 May 1565"
    assert not siege.is_reckoned


def test_unknown_days_are_counted():
    """Without a date to reckon from, relative ones are left out and counted."""
    found = find_dates("Yesterday it rained. We met last week.")

    assert found.mentions == ()
    assert found.n_unresolved == 2


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("en", "Call 555-1974, 0171 2020 1999 or +49 30 1203 1974."),
        ("en", "You may march at dawn; may I second that? Mark may win."),
        ("en", "Radio station WILM (1450 AM) plays music."),
        ("en", "The dates are date(2022, 3, 28) and f(1999, 1)."),
        ("en", "Open Monday to Friday and on Sundays."),
        ("zh", "全长1911米，重2008公斤，共3年完成，2000人参加。"),
    ],
)
def test_no_dates(language, text):
    """Page numbers, prices, versions, telephone numbers, amounts and "may" the verb are no dates."""
    assert found_in(text, PartialDate(2020, 5, 15), language) == []


@pytest.mark.parametrize(
    "text",
    [
        "It was due on 31 February 2019.",
        "It was due on 30.02.2020 and on 2019-02-30.",
        "会议于2019年13月40日举行。",
    ],
)
def test_impossible_dates(text):
    """A day that the calendar does not have is no date, and no part of it is one."""
    assert found_in(text, None, "zh" if "年" in text else "en") == []


def test_leap_days():
    """29 February is a day of leap years only."""
    assert values_in("On 29 February 2000 and 29 February 1900 and 29 February 2024.") == ["2000-02-29", "2024-02-29"]


def test_order_of_day_and_month():
    """Dates in digits are read in the order that the text's telling dates have; without one they are known to the year in English."""
    assert values_in("Paid on 04/03/2017, due on 13/02/2017.") == ["2017-03-04", "2017-02-13"]
    assert values_in("Paid on 04/03/2017, due on 02/13/2017.") == ["2017-04-03", "2017-02-13"]
    assert values_in("Paid on 04/03/2017.") == ["2017"]
    assert values_in("Bezahlt am 04.03.2017.", None, "de") == ["2017-03-04"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("It burned down before 1900.", "before 1900"),
        ("It runs until 31 December 2030.", "until 31 December 2030"),
        ("The fair of 3 to 5 May 1999 was wet.", "3 May 1999 to 5 May 1999"),
        ("Sales rose in the third quarter of 2019.", "quarter 3 of 2019"),
    ],
)
def test_shown_text(text, shown):
    """A date is shown as people write it, with what bounds it."""
    (mention,) = find_dates(text).mentions

    assert mention.text == shown


@pytest.mark.parametrize("piece", ["12 ", "May 3 – ", "1999, ", "(1999, ", "1.1.", "a year ago ", "一月", " ", "twenty-", "x"])
def test_long_lines(piece):
    """A line of 100,000 characters is read to its end, whatever it repeats."""
    text = (piece * 100_000)[:100_000] + " It ended on 12 March 2019."

    assert values_in(text, PartialDate(2020), "en")[-1] == "2019-03-12"


def test_any_text():
    """Mixtures of signs and parts of dates raise no error; found dates lie in the text in order, and their values are EDTF."""
    rng = random.Random(0)
    parts = "12|May|31|2019|/|-|.| |\n|–|last |week|年|月|十|BC|the |and |to |\0|é|0".split("|")
    for n in range(300):
        text = "".join(rng.choices(parts, k=40))
        mentions = find_dates(text, PartialDate(2019, 5, 15), ("en", "de", "es", "fr", "zh", "ja", "xx")[n % 7]).mentions
        ends = [at for m in mentions for at in (m.start, m.end)]
        assert ends == sorted(ends)
        assert all(0 <= at <= len(text) for at in ends)
        assert all(parse_edtf(str(m.value)) == m.value for m in mentions), text


@pytest.mark.parametrize("text", ["", "..", "../..", "1974-13-40x", "197", "1974/1975/1976", "soon", "1974-3", "1974-22", "2019-02-30"])
def test_what_is_no_edtf(text):
    """Only the dates of the format are read."""
    assert parse_edtf(text) is None


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("1974", (1974, 1, 1), (1974, 12, 31)),
        ("2020-02", (2020, 2, 1), (2020, 2, 29)),
        ("2019-35", (2019, 7, 1), (2019, 9, 30)),
        ("196X", (1960, 1, 1), (1969, 12, 31)),
        ("../1900", (1900, 1, 1), (1900, 12, 31)),
        ("1914/1918", (1914, 1, 1), (1918, 12, 31)),
    ],
)
def test_days_of_a_date(text, first, last):
    """A date begins and ends with the days of its period, and is written as it was read."""
    value = parse_edtf(text)

    assert (value.first_day, value.last_day, str(value)) == (first, last, text)
