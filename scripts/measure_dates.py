"""Precision and recall of the dates that are found in annotated sentences: python scripts/measure_dates.py [--show] [HALF] [FILE].

FILE (default tests/data/dates.tsv) has a sentence a row: half, language, the document's own date, and the text with ⟦words→date⟧, a `*`
before a date that is reckoned. A found date is right if it overlaps an annotated one of the same value. HALF: tune or apart.
"""

import re
import sys
from collections import Counter
from pathlib import Path

from localrag.analysis.dates import find_dates
from localrag.analysis.edtf import PartialDate, parse_edtf

MARKED = re.compile(r"⟦([^→⟧]*)→(\*?)([^⟧]*)⟧")


def main(show: bool, half: str, path: Path) -> None:
    counts: dict[str, Counter[str]] = {}
    for line in path.read_text(encoding="utf-8").splitlines()[1:]:
        row, language, own, marked = line.split("\t")
        if half in ("", row):
            text, wanted = annotated(marked)
            found = find_dates(text, own_date(own), language).mentions
            right = [m for m in found if any(m.start < end and start < m.end and str(m.value) == value for start, end, value, _ in wanted)]
            exact = [m for m in right if any((m.is_reckoned, str(m.value)) == (reckoned, value) for _, _, value, reckoned in wanted)]
            for key in (f"{row} {language}", row):
                counts.setdefault(key, Counter()).update(wanted=len(wanted), found=len(found), right=len(right), marked=len(exact))
            if show and (len(right) < len(wanted) or len(found) > len(right)):
                print(language, marked, "\n    found:", [(text[m.start : m.end], str(m.value), m.is_reckoned) for m in found])
    for key, n in sorted(counts.items()):
        print(
            f"{key}: {n['wanted']} dates, precision {n['right'] / max(1, n['found']):.3f}, recall {n['right'] / max(1, n['wanted']):.3f}",
            end="",
        )
        print(f", marked rightly as reckoned or not {n['marked'] / max(1, n['right']):.3f}")


def own_date(text: str) -> PartialDate | None:
    """A date of a column, if there is one."""
    date = parse_edtf(text)
    return date.start if date else None


def annotated(marked: str) -> tuple[str, list[tuple[int, int, str, bool]]]:
    """The text without its marks, and its dates: start, end, value, whether it is reckoned."""
    text, dates, at = "", [], 0
    for m in MARKED.finditer(marked):
        text += marked[at : m.start()]
        dates.append((len(text), len(text) + len(m[1]), m[3], bool(m[2])))
        text, at = text + m[1], m.end()
    return text + marked[at:], dates


if __name__ == "__main__":
    args = [a for a in sys.argv[1:] if a != "--show"]
    main("--show" in sys.argv, args[0] if args else "", Path(args[1] if len(args) > 1 else "tests/data/dates.tsv"))
