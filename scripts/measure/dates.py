"""Precision and recall of the dates that are found in annotated texts: python -m scripts.measure.dates [--show] [--half HALF] [SOURCE].

SOURCE is a file with a sentence a row: half, language, the document's own date, and the text with ⟦words→date⟧, a `*` before a date that is
reckoned; or a folder of TimeML files (TimeBank, AQUAINT, KRAUTS), whose dates of the types DATE and TIME are wanted to the day; every
second file is of the half "apart". A found date is right if it overlaps an annotated one of the same value.
"""

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import NamedTuple

from lxml import etree

from localrag.dates.date_mentions import DateMention, find_dates
from localrag.dates.edtf import PartialDate, parse_edtf

MARKED = re.compile(r"⟦([^→⟧]*)→(\*?)([^⟧]*)⟧")
TIMEX_DAY = re.compile(r"(\d{4}-\d\d-\d\d)T.*")
SEASONS = {"SP": "21", "SU": "22", "FA": "23", "WI": "24", "Q1": "33", "Q2": "34", "Q3": "35", "Q4": "36"}
OWN_FILE = Path("tests/data/dates.tsv")


class WantedDate(NamedTuple):
    """An annotated date: its characters, its value in EDTF, and whether it is reckoned; None where that is not annotated."""

    start: int
    end: int
    value: str
    is_reckoned: bool | None


class AnnotatedText(NamedTuple):
    """A text of a half of the set, with its language, the document's own date, and its dates."""

    half: str
    language: str
    own: PartialDate | None
    text: str
    dates: list[WantedDate]


def read_rows(path: Path) -> Iterator[AnnotatedText]:
    """The rows of a file."""
    for line in path.read_text(encoding="utf-8").splitlines()[1:]:
        half, language, own, marked = line.split("\t")
        text, dates, at = "", [], 0
        for m in MARKED.finditer(marked):
            text += marked[at : m.start()]
            dates.append(WantedDate(len(text), len(text) + len(m[1]), m[3], bool(m[2])))
            text, at = text + m[1], m.end()
        yield AnnotatedText(half, language, own_date(own), text + marked[at:], dates)


def own_date(text: str) -> PartialDate | None:
    """A date of a column, if there is one."""
    date = parse_edtf(text)
    return date.start if date else None


def read_timeml(folder: Path, language: str) -> Iterator[AnnotatedText]:
    """The TimeML files of a folder."""
    for n, path in enumerate(sorted(p for p in folder.rglob("*.tml") if not p.name.startswith("."))):
        root = etree.parse(path, etree.XMLParser(resolve_entities=False, no_network=True)).getroot()
        own = root.find(".//TIMEX3[@functionInDocument='CREATION_TIME']")
        own_day = own_date(to_edtf(own.get("value", ""))) if own is not None else None
        parts, dates = list[str](), list[WantedDate]()
        _collect(root.find(".//TEXT"), parts, dates)
        yield AnnotatedText("apart" if n % 2 else "tune", language, own_day, "".join(parts), dates)


def _collect(element: etree._Element, parts: list[str], dates: list[WantedDate]) -> None:
    """Add the text of an element to the parts, and its dates."""
    start = sum(map(len, parts))
    parts.append(element.text or "")
    for child in element:
        _collect(child, parts, dates)
        parts.append(child.tail or "")
    if element.tag == "TIMEX3" and element.get("type") in ("DATE", "TIME") and (value := to_edtf(element.get("value", ""))):
        dates.append(WantedDate(start, sum(map(len, parts)), value, None))


def to_edtf(value: str) -> str:
    """A value of TimeML in EDTF; empty for what names no point in time, such as PRESENT_REF, and for a weekday without a date."""
    value = TIMEX_DAY.sub(r"\1", value)
    if re.fullmatch(r"\d{3}", value):
        return f"{value}X"
    if re.fullmatch(r"\d\d", value):
        return f"{value}XX"
    if m := re.fullmatch(r"(\d{4})-(SP|SU|FA|WI|Q[1-4])", value):
        return f"{m[1]}-{SEASONS[m[2]]}"
    if m := re.fullmatch(r"(\d{4})-W(\d\d)", value):
        return f"{date.fromisocalendar(int(m[1]), int(m[2]), 1)}/{date.fromisocalendar(int(m[1]), int(m[2]), 7)}"
    return value if re.fullmatch(r"\d{4}(-\d\d(-\d\d)?|-W\d\d-WE|-H[12])?", value) else ""


def value_without_bound(mention: DateMention) -> str:
    """The date itself, without "since", "by" or "about" before it, which TimeML annotates elsewhere."""
    return str(mention.value.start or mention.value.end) if mention.bound or mention.value.is_about else str(mention.value)


def measure(texts: Iterator[AnnotatedText], half: str, *, is_timeml: bool, show: bool) -> dict[str, Counter[str]]:
    """Counts of wanted, found and right dates by half and language."""
    counts: dict[str, Counter[str]] = {}
    for one in texts:
        if half not in ("", one.half):
            continue
        value_of = value_without_bound if is_timeml else lambda mention: str(mention.value)
        found = find_dates(one.text, one.own, one.language).mentions
        right = [m for m in found if any(m.start < d.end and d.start < m.end and value_of(m) == d.value for d in one.dates)]
        exact = [m for m in right if any((d.is_reckoned, d.value) == (m.is_reckoned, value_of(m)) for d in one.dates)]
        for key in (f"{one.half} {one.language}", one.half, "all"):
            counts.setdefault(key, Counter()).update(wanted=len(one.dates), found=len(found), right=len(right), marked=len(exact))
        if show:
            for m in found:
                if m not in right:
                    around = " ".join(one.text[max(0, m.start - 60) : m.end + 40].split())
                    print(f"wrong: {one.text[m.start : m.end]!r} → {m.value} (own date {one.own}): {around}")
            for d in one.dates:
                if not any(m.start < d.end and d.start < m.end and value_of(m) == d.value for m in right):
                    print(f"missed: {one.text[d.start : d.end]!r} → {d.value}")
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, nargs="?", default=OWN_FILE)
    parser.add_argument("--half", choices=("", "tune", "apart"), default="")
    parser.add_argument("--language", default="en", help="of TimeML files")
    parser.add_argument("--show", action="store_true", help="print what is wrong and what is missed")
    args = parser.parse_args()
    texts = read_timeml(args.source, args.language) if args.source.is_dir() else read_rows(args.source)
    for key, n in sorted(measure(texts, args.half, is_timeml=args.source.is_dir(), show=args.show).items()):
        precision, recall = n["right"] / max(1, n["found"]), n["right"] / max(1, n["wanted"])
        print(f"{key}: {n['wanted']} dates, precision {precision:.3f}, recall {recall:.3f}", end="")
        is_marked = not args.source.is_dir()
        print(f", marked rightly as reckoned or not {n['marked'] / max(1, n['right']):.3f}" if is_marked else "")


if __name__ == "__main__":
    sys.exit(main())
