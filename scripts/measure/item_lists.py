"""Measures lists of records on tables that nobody here wrote, whose items are known.

    python -m scripts.measure.item_lists tuned apart --data DATA --indexes FOLDER

Printed are, of each table, the items wanted, found and right, precision and recall, and of how many lists the count and the items are
right; with `--lists` every request. The part `tuned` was tuned on, the other is kept apart. DATA has tables of Vega
(https://github.com/vega/vega-datasets) in docs/tables_vega, of Docling and Unstructured beside it; what is missing is left out.
FOLDER keeps the indexes.
"""

import argparse
import csv
import json
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from localrag.index import Index
from localrag.text.sentences import collapse_whitespace

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class KnownSet:
    """Documents, written into a folder by `write`, and requests with the names of their items."""

    name: str
    write: Callable[[Path], object]
    requests: Sequence[tuple[str, Sequence[set[str]]]]  # the names of each item


@dataclass(slots=True)
class Counts:
    """What was wanted, found and right, and how many lists there were, with how many right counts and right items."""

    wanted: int = 0
    found: int = 0
    right: int = 0
    lists: int = 0
    counts: int = 0
    sets: int = 0

    def add(self, wanted: Sequence[set[str]], found: Sequence[str]) -> None:
        """Count one list: each item may be found once, by one of its names."""
        right = sum(is_wanted for is_wanted in matches(wanted, found))
        self.wanted, self.found, self.right = self.wanted + len(wanted), self.found + len(found), self.right + right
        self.lists, self.counts = self.lists + 1, self.counts + (len(wanted) == len(found))
        self.sets += right == len(wanted) == len(found)

    def merge(self, other: "Counts") -> None:
        """Add other counts."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def __str__(self) -> str:
        precision, recall = self.right / max(1, self.found), self.right / max(1, self.wanted)
        figures = f"{self.wanted:5} {self.found:5} {self.right:5}   {precision:4.0%} {recall:4.0%}"
        return f"{figures}   {self.counts:2} of {self.lists} {self.sets:2} of {self.lists}"


def matches(wanted: Sequence[set[str]], found: Sequence[str]) -> list[bool]:
    """Of each name found whether it is that of an item that no name before it is; case, white space and articles make no difference."""
    left = [{folded(name) for name in names} for names in wanted]
    said = []
    for name in map(folded, found):
        item = next((names for names in left if name in names), None)
        said.append(item is not None)
        if item is not None:
            left.remove(item)
    return said


def folded(name: str) -> str:
    """A name in lower case, on one line, without an article."""
    return re.sub(r"^(?:the|an?|der|die|das)\s", "", collapse_whitespace(name).casefold())


# Tables that nobody here wrote: path, the columns that name a row, and requests with the condition on a row


@dataclass(frozen=True, slots=True)
class RealTable:
    """A table of a file, with requests."""

    path: str
    names: Sequence[str]
    requests: Sequence[tuple[str, Callable[[Row], bool]]]
    lines_above: int = 0  # the header

    def rows(self, folder: Path) -> list[Row]:
        """The rows of the source."""
        text = (folder / self.path).read_text(encoding="utf-8-sig")
        if self.path.endswith(".json"):
            found: list[Row] = json.loads(text)
            return found
        lines = text.splitlines()[self.lines_above :]
        return list(csv.DictReader(lines, delimiter="|" if "|" in lines[0] else ","))


def _number(row: Row, label: str) -> float:
    return float(row[label]) if row[label] not in ("", None) else float("nan")


TABLES_TUNED = [
    RealTable("tables_vega/gapminder-health-income.csv", ["country"], [
        ("countries in sub-saharan africa", lambda r: r["region"] == "sub_saharan_africa"),
        ("countries with a population of more than 100 million", lambda r: _number(r, "population") > 1e8),
        ("countries with an income below 1000", lambda r: _number(r, "income") < 1000),
        ("How many countries have an income above 50000?", lambda r: _number(r, "income") > 50000),
        ("countries in south asia or america", lambda r: r["region"] in ("south_asia", "america")),
        ("countries in America with an income of at least 20000", lambda r: r["region"] == "america" and _number(r, "income") >= 20000),
    ]),
    RealTable("tables_vega/burtin.json", ["Bacteria"], [
        ("gram positive bacteria", lambda r: r["Gram_Staining"] == "positive"),
        ("bacteria that are not gram positive", lambda r: r["Gram_Staining"] == "negative"),
        ("All bacteria of the genus Streptococcus", lambda r: r["Genus"] == "Streptococcus"),
        ("bacteria with a penicillin value of more than 100", lambda r: r["Penicillin"] > 100),
        ("bacteria of the genus Salmonella or Staphylococcus", lambda r: r["Genus"] in ("Salmonella", "Staphylococcus")),
    ]),
    RealTable("tables_vega/monarchs.json", ["name"], [
        ("monarchs whose reign started after 1680", lambda r: r["start"] > 1680),
        ("List all monarchs", lambda _: True),
        ("monarchs with an end before 1650", lambda r: r["end"] < 1650),
    ]),
    RealTable("mixed_docling/csv/sources/csv-pipe.csv", ["First Name", "Last Name"], [
        ("customers in Chile", lambda r: r["Country"] == "Chile"),
        ("Which customers live in Antigua and Barbuda?", lambda r: r["Country"] == "Antigua and Barbuda"),
        ("customers who subscribed in 2021", lambda r: r["Subscription Date"].startswith("2021")),
        ("customers with a subscription date before 2021", lambda r: r["Subscription Date"] < "2021"),
    ]),
    RealTable("tables_vega/wheat.json", ["year"], [
        ("years in which wheat was above 80", lambda r: r["wheat"] > 80),
        ("years with wages of less than 6", lambda r: r.get("wages", 99) < 6),
    ]),
]  # fmt: skip
TABLES_APART = [
    RealTable("tables_vega/la-riots.csv", ["first_name", "last_name"], [
        ("How many women died?", lambda r: r["gender"] == "Female"),
        ("people who died in Koreatown", lambda r: r["neighborhood"] == "Koreatown"),
        ("homicides", lambda r: r["type"] == "Homicide"),
        ("deaths that were not riot-related", lambda r: r["type"] == "Not riot-related"),
        ("victims younger than 20", lambda r: _number(r, "age") < 20),
        ("All Asian or White victims", lambda r: r["race"] in ("Asian", "White")),
        ("Black women", lambda r: r["race"] == "Black" and r["gender"] == "Female"),
        ("officer-involved shootings in Compton", lambda r: r["type"] == "Officer-involved shooting" and r["neighborhood"] == "Compton"),
    ]),
    RealTable("tables_vega/cars.json", ["Name"], [
        ("cars from Japan with more than 100 horsepower", lambda r: r["Origin"] == "Japan" and (r["Horsepower"] or 0) > 100),
        ("cars with 3 cylinders", lambda r: r["Cylinders"] == 3),
        ("How many cars come from Europe?", lambda r: r["Origin"] == "Europe"),
        ("cars with less than 11 miles per gallon", lambda r: (r["Miles_per_Gallon"] or 99) < 11),
        ("Japanese cars of 1971", lambda r: r["Origin"] == "Japan" and r["Year"].startswith("1971")),
    ]),
    RealTable("tables_vega/seattle-weather.csv", ["date"], [
        ("all days with snow", lambda r: r["weather"] == "snow"),
        ("days with more than 40 mm of precipitation", lambda r: _number(r, "precipitation") > 40),
        ("days with a temp_max of at least 34", lambda r: _number(r, "temp_max") >= 34),
        ("days with fog in 2014", lambda r: r["weather"] == "fog" and r["date"].startswith("2014")),
    ]),
    RealTable("tables_vega/obesity.json", ["state"], [
        ("states with a rate above 0.23", lambda r: r["rate"] > 0.23),
        ("states with a rate of at most 0.15", lambda r: r["rate"] <= 0.15),
    ]),
    RealTable("mixed_unstructured/stanley-cups.csv", ["Team"], [
        ("teams that won more than 1 Stanley Cup", lambda r: int(r["Stanley Cups"]) > 1),
    ], lines_above=1),
]  # fmt: skip
PARTS = {"tuned": TABLES_TUNED, "apart": TABLES_APART}


def table_sets(tables: Sequence[RealTable], folder: Path) -> Iterator[KnownSet]:
    """The sets of tables in a folder; those that are missing there are left out."""
    for table in tables:
        if (folder / table.path).exists():
            rows = table.rows(folder)
            requests = [(request, [{" ".join(r[n] for n in table.names)} for r in rows if test(r)]) for request, test in table.requests]
            yield KnownSet(table.path, lambda target, t=table: shutil.copy(folder / t.path, target), requests)


def opened_index(known: KnownSet, indexes: Path) -> Index:
    """The index of a set, made in its folder if it is not there."""
    folder = indexes / known.name.replace("/", "_").replace(", ", "_").replace(" ", "-")
    if (folder / "done").exists():
        return Index.open(folder)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    known.write(folder)
    index = Index.create(folder, extractor="phrases")
    index.add(folder)
    (folder / "done").touch()
    return index


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="+", choices=[*PARTS])
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--indexes", type=Path, required=True, help="where indexes are kept")
    parser.add_argument("--only", default="", help="only sets whose name has this")
    parser.add_argument("--lists", action="store_true", help="print every request")
    args = parser.parse_args()
    print(f"{'':46} wanted found right precision recall  right counts, right lists")
    for part in args.parts:
        whole = Counts()
        for known in (k for k in table_sets(PARTS[part], args.data / "docs") if args.only in k.name):
            counts = measured(known, args.indexes, is_verbose=args.lists)
            print(f"{known.name:46} {counts}", flush=True)
            whole.merge(counts)
        print(f"{part:46} {whole}", flush=True)


def measured(known: KnownSet, indexes: Path, *, is_verbose: bool) -> Counts:
    """The counts of all requests of a set."""
    counts = Counts()
    with opened_index(known, indexes) as index:
        for request, wanted in known.requests:
            one = Counts()
            table = index.list_items(request)
            one.add(wanted, [row.cells[0].text for row in table.rows[: int(table.figures["items"])]])
            counts.merge(one)
            if is_verbose:
                print(f"  {request:<50.50} {one}", flush=True)
    return counts


if __name__ == "__main__":
    main()
