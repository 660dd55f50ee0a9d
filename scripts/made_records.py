"""Records that a fixed seed makes up, as tables and files of `label: value` lines, with requests whose items are known.

Eight subjects of 100 records. Vessels, suppliers, incidents and machines (in German) are those that were tuned on;
staff, bridges, contracts and members (in German) are kept apart. Each request has the function that tells whether a record belongs to it.
"""

import csv
import io
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.made_up import words

Record = dict[str, Any]
N_RECORDS = 100


@dataclass(frozen=True, slots=True)
class Subject:
    """A kind of record: how one is drawn, and requests, each with the test of a record."""

    name: str
    key: str
    draw: Callable[[str, random.Random], Record]
    requests: Sequence[tuple[str, Callable[[Record], bool]]]


def records_of(subject: Subject, seed: int = 1) -> list[Record]:
    """The records of a subject, whose names differ."""
    import numpy as np

    rng = random.Random(f"{seed} {subject.name}")
    first = "Ada Ben Carla Dov Elin Femi Greta Hugo Iris Jonas Karin Leo Mona Nils Olga Paul Rosa Sven Tara Ulf".split()
    names = words(N_RECORDS, np.random.default_rng(seed + len(subject.name)))
    is_person = subject.name in ("staff", "mitglieder")
    if subject.name in ("incidents", "contracts"):
        names = [f"{name} {number}" for name, number in zip(names, rng.sample(range(1000, 9999), N_RECORDS), strict=True)]
    return [subject.draw(f"{rng.choice(first)} {name}" if is_person else name, rng) for name in names]


def write_documents(subject: Subject, form: str, folder: Path, seed: int = 1) -> None:
    """Write the records into a folder in one of TABLE_FORMS: a table, or a file of lines for each."""
    if form == "xlsx":
        _write_workbook(records_of(subject, seed), folder / f"{subject.name}.xlsx")
        return
    for name, text in documents_of(subject, form, seed).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


def _write_workbook(records: Sequence[Record], path: Path) -> None:
    from openpyxl import Workbook

    book = Workbook()
    sheet = book.active
    for row in [list(records[0]), *(list(r.values()) for r in records)]:
        sheet.append(row)
    book.save(path)


def documents_of(subject: Subject, form: str, seed: int = 1) -> dict[str, str]:
    """File name → text of the records in a form of text."""
    records = records_of(subject, seed)
    if form == "csv":
        out = io.StringIO()
        writer = csv.DictWriter(out, list(records[0]))
        writer.writeheader()
        writer.writerows(records)
        return {f"{subject.name}.csv": out.getvalue()}
    if form == "md":
        rows = [list(records[0]), ["---"] * len(records[0]), *(list(r.values()) for r in records)]
        return {f"{subject.name}.md": "\n".join("| " + " | ".join(map(str, row)) + " |" for row in rows) + "\n"}
    texts = ["\n".join(f"{k}: {v}" for k, v in r.items()) for r in records]
    return {f"{subject.name}/{n:03}.txt": text for n, text in enumerate(texts, 1)}


# Vessels

_PORTS = "Bergen Vardby Brannock Hull Gdansk Lisbon".split()
_LINES = ["Northern Line", "Holm & Sons", "Baltic Freight", "Skerry Fisheries", "the Crown"]
_FATES = {
    "sank": ["sank off {p} in {y}", "foundered in a gale near {p} in {y}", "went down off {p} in {y} with all hands", "sunk by ice in {y}"],
    "scrapped": ["scrapped at {p} in {y}", "broken up at {p} in {y}", "sold for scrap in {y}"],
    "in service": ["in service", "still sailing out of {p}", "in service, damaged in a storm in {y} but did not sink"],
    "museum": ["museum ship at {p} since {y}"],
    "burned": ["burned at her moorings in {p} in {y}, never sank", "destroyed by fire at {p} in {y}"],
}


def _vessel(name: str, rng: random.Random) -> Record:
    fate, built = rng.choice(list(_FATES)), rng.randint(1860, 1975)
    text = rng.choice(_FATES[fate]).format(p=rng.choice(_PORTS), y=built + rng.randint(8, 60))
    kind = rng.choice("schooner trawler ferry barque tug steamer".split())
    return {
        "Name": name, "Type": kind, "Built": built, "Builder": rng.choice(_PORTS), "Owner": rng.choice(_LINES), "Crew": rng.randint(3, 60),
        "Cargo": rng.choice("timber herring coal wool passengers salt".split()), "Fate": text,
    }  # fmt: skip


def _sank(r: Record) -> bool:
    return r["Fate"].startswith(("sank", "sunk", "foundered", "went down"))


VESSELS = Subject("vessels", "Name", _vessel, [
    ("all vessels that sank", _sank),
    ("Which ships were scrapped?", lambda r: r["Fate"].startswith(("scrapped", "broken up", "sold for scrap"))),
    ("How many schooners are there?", lambda r: r["Type"] == "schooner"),
    ("ships built in Bergen", lambda r: r["Builder"] == "Bergen"),
    ("vessels built before 1900", lambda r: r["Built"] < 1900),
    ("List every vessel owned by the Northern Line", lambda r: r["Owner"] == "Northern Line"),
    ("ships with a crew of more than 40", lambda r: r["Crew"] > 40),
    ("schooners that sank", lambda r: r["Type"] == "schooner" and _sank(r)),
    ("Which vessels carried timber?", lambda r: r["Cargo"] == "timber"),
    ("Which vessels burned?", lambda r: r["Fate"].startswith(("burned", "destroyed by fire"))),
    ("alle Schiffe, die gesunken sind", _sank),
    ("¿Qué barcos se hundieron?", _sank),
    ("Welche Schiffe wurden in Bergen gebaut?", lambda r: r["Builder"] == "Bergen"),
    ("Welche Schiffe hatten Holz geladen?", lambda r: r["Cargo"] == "timber"),
    ("tous les navires construits avant 1900", lambda r: r["Built"] < 1900),
    ("所有运煤的船", lambda r: r["Cargo"] == "coal"),
    ("ferries of the Crown", lambda r: r["Type"] == "ferry" and r["Owner"] == "the Crown"),
    ("museum ships", lambda r: r["Fate"].startswith("museum")),
    ("vessels that did not sink", lambda r: not _sank(r)),
    ("engines built in Bergen", lambda _: False),
    ("vessels that were hijacked", lambda _: False),
    ("vessels of the Southern Line", lambda _: False),
])  # fmt: skip

# Suppliers

_COUNTRIES = "Germany Norway Poland Spain Italy".split()


def _supplier(name: str, rng: random.Random) -> Record:
    return {
        "Supplier": f"{name} {rng.choice(['GmbH', 'AS', 'Ltd', '& Co', 'Group'])}", "Country": rng.choice(_COUNTRIES),
        "Product": rng.choice("timber,steel pipes,paint,rope,engines,sail cloth".split(",")), "Rating": rng.randint(1, 5),
        "Certified": rng.choice(["yes", "no"]), "Contract ends": f"{rng.randint(2024, 2028)}-{rng.randint(1, 12):02}-28",
        "Note": rng.choice(["delivers on time", "was late three times", "never late", "payment disputed", "", "late once"]),
    }  # fmt: skip


SUPPLIERS = Subject("suppliers", "Supplier", _supplier, [
    ("List every supplier with a rating above 3", lambda r: r["Rating"] > 3),
    ("suppliers from Germany", lambda r: r["Country"] == "Germany"),
    ("Which suppliers are not certified?", lambda r: r["Certified"] == "no"),
    ("All suppliers of timber", lambda r: r["Product"] == "timber"),
    ("How many suppliers have a contract that ends in 2025?", lambda r: r["Contract ends"].startswith("2025")),
    ("certified suppliers in Norway", lambda r: r["Certified"] == "yes" and r["Country"] == "Norway"),
    ("Which suppliers were late?", lambda r: r["Note"] in ("was late three times", "late once")),
    ("suppliers with a rating of at most 2", lambda r: r["Rating"] <= 2),
    ("Which firms sell paint?", lambda r: r["Product"] == "paint"),
    ("所有德国供应商", lambda r: r["Country"] == "Germany"),
    ("Lieferanten aus Spanien", lambda r: r["Country"] == "Spain"),
    ("fournisseurs de peinture", lambda r: r["Product"] == "paint"),
    ("proveedores sin certificado", lambda r: r["Certified"] == "no"),
    ("suppliers of rope or sail cloth", lambda r: r["Product"] in ("rope", "sail cloth")),
    ("suppliers whose contract ends before 2026", lambda r: int(r["Contract ends"][:4]) < 2026),
    ("suppliers from Portugal", lambda _: False),
    ("timber suppliers in Iceland", lambda _: False),
])  # fmt: skip

# Staff: kept apart

_JOBS = "engineer accountant welder designer clerk electrician".split()


def _employee(name: str, rng: random.Random) -> Record:
    languages = rng.sample("English German French Polish Arabic".split(), rng.randint(1, 3))
    return {
        "Employee": name, "Job": rng.choice(_JOBS), "Office": rng.choice("Bergen Oslo Hamburg Riga".split()),
        "Joined": rng.randint(1995, 2024), "Salary": rng.randint(30, 95) * 1000, "Languages": ", ".join(languages),
        "Driving licence": rng.choice(["yes", "no"]),
        "Status": rng.choice(["permanent", "temporary", "left in 2023", "retired", "on parental leave"]),
    }  # fmt: skip


STAFF = Subject("staff", "Employee", _employee, [
    ("How many employees work in Bergen?", lambda r: r["Office"] == "Bergen"),
    ("Which employees speak German?", lambda r: "German" in r["Languages"]),
    ("List all engineers", lambda r: r["Job"] == "engineer"),
    ("employees who joined after 2015", lambda r: r["Joined"] > 2015),
    ("employees without a driving licence", lambda r: r["Driving licence"] == "no"),
    ("Who has left the company?", lambda r: r["Status"] == "left in 2023"),
    ("staff with a salary of more than 60000", lambda r: r["Salary"] > 60000),
    ("engineers in Oslo", lambda r: r["Job"] == "engineer" and r["Office"] == "Oslo"),
    ("all employees who retired", lambda r: r["Status"] == "retired"),
    ("Welche Mitarbeiter sprechen Französisch?", lambda r: "French" in r["Languages"]),
    ("engineers in Lisbon", lambda _: False),
    ("employees who speak Latin", lambda _: False),
])  # fmt: skip

# Bridges: kept apart

_CONDITIONS = {
    "good": "in good condition",
    "closed": "closed to lorries since {y}",
    "repair": "in need of repair",
    "rebuilt": "rebuilt in {y}",
    "replaced": "demolished in {y}",
}


def _bridge(name: str, rng: random.Random) -> Record:
    opened = rng.randint(1780, 2010)
    condition = rng.choice(list(_CONDITIONS))
    return {
        "Bridge": f"{name} Bridge", "River": rng.choice("Arn Lode Teal Ister".split()), "Material": rng.choice("stone steel wood concrete".split()),  # noqa: E501
        "Length (m)": rng.randint(12, 400), "Opened": opened, "Condition": _CONDITIONS[condition].format(y=rng.randint(2011, 2024)),
        "Toll": rng.choice(["yes", "no", "no"]),
    }  # fmt: skip


BRIDGES = Subject("bridges", "Bridge", _bridge, [
    ("bridges that need repair", lambda r: r["Condition"] == "in need of repair"),
    ("all stone bridges", lambda r: r["Material"] == "stone"),
    ("Which bridges cross the Arn?", lambda r: r["River"] == "Arn"),
    ("bridges longer than 200 metres", lambda r: r["Length (m)"] > 200),
    ("How many bridges were opened before 1900?", lambda r: r["Opened"] < 1900),
    ("Which bridges are closed to lorries?", lambda r: r["Condition"].startswith("closed")),
    ("Which bridges were demolished?", lambda r: r["Condition"].startswith("demolished")),
    ("wooden bridges over the Lode", lambda r: r["Material"] == "wood" and r["River"] == "Lode"),
    ("bridges with a toll", lambda r: r["Toll"] == "yes"),
    ("todos los puentes de piedra", lambda r: r["Material"] == "stone"),
    ("bridges over the Danube", lambda _: False),
])  # fmt: skip

# Incidents

_CAUSES = "a faulty valve,a loose rope,an icy deck,a broken crane,an electrical fault".split(",")


def _incident(name: str, rng: random.Random) -> Record:
    return {
        "Incident": f"IR-{name.split()[1]}", "Date": f"{rng.randint(2019, 2025)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}",
        "Site": rng.choice(_PORTS), "Cause": rng.choice(_CAUSES), "Injured": rng.choice([0, 0, 0, 1, 1, 2, 3, 5]),
        "Severity": rng.choice(["minor", "serious", "critical"]), "Reported to insurer": rng.choice(["yes", "no"]),
        "Status": rng.choice(["open", "closed", "under review"]),
    }  # fmt: skip


INCIDENTS = Subject("incidents", "Incident", _incident, [
    ("all incidents caused by a faulty valve", lambda r: "valve" in r["Cause"]),
    ("How many incidents are still open?", lambda r: r["Status"] == "open"),
    ("incidents with more than 2 injured", lambda r: r["Injured"] > 2),
    ("incidents in 2021", lambda r: r["Date"].startswith("2021")),
    ("incidents after 2022", lambda r: r["Date"][:4] > "2022"),
    ("Which incidents were not reported to the insurer?", lambda r: r["Reported to insurer"] == "no"),
    ("serious incidents in Hull", lambda r: r["Severity"] == "serious" and r["Site"] == "Hull"),
    ("incidents in Bergen or Lisbon", lambda r: r["Site"] in ("Bergen", "Lisbon")),
    ("incidents in which nobody was injured", lambda r: not r["Injured"]),
    ("List all critical incidents", lambda r: r["Severity"] == "critical"),
    ("incidents caused by a wolf", lambda _: False),
])  # fmt: skip

# Machines, in German

_MAKERS = "Brandt,Kessler,Olm,Vogt".split(",")


def _machine(name: str, rng: random.Random) -> Record:
    kind = rng.choice("Presse Drehbank Säge Fräse".split())
    return {
        "Maschine": f"{name} {rng.randint(2, 9)}00", "Art": kind, "Baujahr": rng.randint(1965, 2022),
        "Standort": f"Halle {rng.randint(1, 4)}",
        "Hersteller": rng.choice(_MAKERS), "Zustand": rng.choice(["in Ordnung", "defekt", "ausgemustert"]),
        "Geprüft": rng.choice(["ja", "nein"]), "Leistung (kW)": rng.randint(2, 90),
    }  # fmt: skip


MASCHINEN = Subject("maschinen", "Maschine", _machine, [
    ("alle Maschinen, die defekt sind", lambda r: r["Zustand"] == "defekt"),
    ("Welche Maschinen stehen in Halle 2?", lambda r: r["Standort"] == "Halle 2"),
    ("Wie viele Pressen gibt es?", lambda r: r["Art"] == "Presse"),
    ("Maschinen, die nicht geprüft sind", lambda r: r["Geprüft"] == "nein"),
    ("Maschinen, die vor 1990 gebaut wurden", lambda r: r["Baujahr"] < 1990),
    ("Maschinen mit einer Leistung von mehr als 40 kW", lambda r: r["Leistung (kW)"] > 40),
    ("Maschinen von Vogt oder Olm", lambda r: r["Hersteller"] in ("Vogt", "Olm")),
    ("Sägen in Halle 3", lambda r: r["Art"] == "Säge" and r["Standort"] == "Halle 3"),
    ("ausgemusterte Maschinen", lambda r: r["Zustand"] == "ausgemustert"),
    ("Maschinen in Halle 9", lambda _: False),
])  # fmt: skip

# Contracts: kept apart


def _contract(name: str, rng: random.Random) -> Record:
    start, (firm, number) = rng.randint(2012, 2022), name.split()
    return {
        "Contract": f"{rng.choice('CLSR')}-{number}", "Partner": f"{firm} {rng.choice(['Ltd', 'Inc', 'BV'])}",
        "Subject": rng.choice("cleaning catering security software transport".split()), "Signed": start, "Ends": start + rng.randint(2, 12),
        "Value": rng.randint(4, 250) * 1000, "Renewal clause": rng.choice(["yes", "no"]),
        "Law": rng.choice("English Dutch Norwegian".split()),
        "Status": rng.choice(["active", "terminated", "expired", "disputed"]),
    }  # fmt: skip


CONTRACTS = Subject("contracts", "Contract", _contract, [
    ("Which of the contracts have no renewal clause?", lambda r: r["Renewal clause"] == "no"),
    ("contracts with a value of more than 150000", lambda r: r["Value"] > 150000),
    ("How many contracts were terminated?", lambda r: r["Status"] == "terminated"),
    ("contracts under Norwegian law", lambda r: r["Law"] == "Norwegian"),
    ("all contracts for cleaning or catering", lambda r: r["Subject"] in ("cleaning", "catering")),
    ("contracts signed before 2016", lambda r: r["Signed"] < 2016),
    ("disputed contracts about software", lambda r: r["Status"] == "disputed" and r["Subject"] == "software"),
    ("contracts that have not expired", lambda r: r["Status"] != "expired"),
    ("contracts about insurance", lambda _: False),
])  # fmt: skip

# Members of a club, in German: kept apart


def _member(name: str, rng: random.Random) -> Record:
    return {
        "Mitglied": name, "Ort": rng.choice("Bremen Husum Kiel Celle".split()), "Eintritt": rng.randint(1970, 2024),
        "Abteilung": rng.choice("Turnen Fußball Rudern Schach".split()), "Beitrag": rng.choice([60, 90, 120, 180]),
        "Ehrenamt": rng.choice(["ja", "nein", "nein"]), "Status": rng.choice(["aktiv", "ausgetreten", "verstorben"]),
    }  # fmt: skip


MITGLIEDER = Subject("mitglieder", "Mitglied", _member, [
    ("alle Mitglieder aus Husum", lambda r: r["Ort"] == "Husum"),
    ("Wie viele Mitglieder sind verstorben?", lambda r: r["Status"] == "verstorben"),
    ("Mitglieder, die nach 2010 eingetreten sind", lambda r: r["Eintritt"] > 2010),
    ("Mitglieder mit einem Beitrag von mehr als 100 Euro", lambda r: r["Beitrag"] > 100),
    ("Welche Mitglieder haben ein Ehrenamt?", lambda r: r["Ehrenamt"] == "ja"),
    ("Mitglieder ohne Ehrenamt", lambda r: r["Ehrenamt"] == "nein"),
    ("Mitglieder der Abteilung Rudern oder Schach", lambda r: r["Abteilung"] in ("Rudern", "Schach")),
    ("Mitglieder aus Hamburg", lambda _: False),
    ("Mitglieder der Abteilung Turnen aus Kiel", lambda r: r["Abteilung"] == "Turnen" and r["Ort"] == "Kiel"),
])  # fmt: skip

TUNED = (VESSELS, SUPPLIERS, INCIDENTS, MASCHINEN)
KEPT_APART = (STAFF, BRIDGES, CONTRACTS, MITGLIEDER)
TABLE_FORMS = ("csv", "xlsx", "md", "files")


def gold_items(subject: Subject, seed: int = 1) -> Iterator[tuple[str, list[str]]]:
    """Each request with the names of the records that it asks for."""
    records = records_of(subject, seed)
    return ((request, [r[subject.key] for r in records if test(r)]) for request, test in subject.requests)
