"""Records that a fixed seed makes up, as CSV, JSON, one file each and prose, with requests whose items are known.

Four subjects of 100 records: vessels and suppliers, which `localrag/analysis/item_list.py` was tuned on, and staff and bridges, which were kept
apart. Each request has the function that tells whether a record belongs to its list.
"""  # noqa: E501

import csv
import io
import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from scripts.made_up import words

Record = dict[str, Any]
N_RECORDS = 100
PER_FILE = 10  # records of a file of prose


@dataclass(frozen=True, slots=True)
class Subject:
    """A kind of record: how one is drawn, what is written of it in prose, and requests, each with the test of a record."""

    name: str
    key: str
    draw: Callable[[str, random.Random], Record]
    prose: Callable[[Record, random.Random], str]
    requests: Sequence[tuple[str, Callable[[Record], bool]]]


def records_of(subject: Subject, seed: int = 1) -> list[Record]:
    """The records of a subject, whose names differ."""
    import numpy as np

    rng = random.Random(f"{seed} {subject.name}")
    first = "Ada Ben Carla Dov Elin Femi Greta Hugo Iris Jonas Karin Leo Mona Nils Olga Paul Rosa Sven Tara Ulf".split()
    names = words(N_RECORDS, np.random.default_rng(seed + len(subject.name)))
    return [subject.draw(f"{rng.choice(first)} {name}" if subject.name == "staff" else name, rng) for name in names]


def documents_of(subject: Subject, form: str, seed: int = 1) -> dict[str, str]:
    """File name → text of the records in a form: csv, json, files or prose."""
    records = records_of(subject, seed)
    rng = random.Random(f"{seed} {subject.name} {form}")
    if form == "csv":
        out = io.StringIO()
        writer = csv.DictWriter(out, list(records[0]))
        writer.writeheader()
        writer.writerows(records)
        return {f"{subject.name}.csv": out.getvalue()}
    if form == "json":
        return {f"{subject.name}.json": json.dumps([{k.lower().replace(" ", "_"): v for k, v in r.items()} for r in records], indent=1)}
    if form == "files":
        return {
            f"{subject.name}/{r[subject.key].replace(' ', '-').lower()}.txt": "\n".join(f"{k}: {v}" for k, v in r.items()) for r in records
        }
    parts = [records[n : n + PER_FILE] for n in range(0, len(records), PER_FILE)]
    return {
        f"{subject.name}-{n}.md": f"# {subject.name.capitalize()}, part {n}\n\n" + "\n\n".join(subject.prose(r, rng) for r in part)
        for n, part in enumerate(parts, 1)
    }


def _sentences(rng: random.Random, first: str, *others: str) -> str:
    rest = list(others)
    rng.shuffle(rest)
    return " ".join([first, *rest])


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


def _vessel_prose(r: Record, rng: random.Random) -> str:
    name, fate = r["Name"], r["Fate"]
    verb = "was " if fate.split()[0] in {"scrapped", "broken", "sold", "sunk", "burned", "destroyed"} else ""
    ending = f"{name} is {fate}." if fate.startswith(("in service", "still", "museum")) else f"{name} {verb}{fate}."
    first = rng.choice([
        f"The {r['Type']} {name} was built in {r['Builder']} in {r['Built']} for {r['Owner']}.",
        f"{name}, a {r['Type']} owned by {r['Owner']}, was launched at {r['Builder']} in {r['Built']}.",
    ])  # fmt: skip
    return _sentences(rng, first, f"She had a crew of {r['Crew']}.", f"She mostly carried {r['Cargo']}.", ending)


def _sank(r: Record) -> bool:
    return r["Fate"].startswith(("sank", "sunk", "foundered", "went down"))


VESSELS = Subject("vessels", "Name", _vessel, _vessel_prose, [
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


def _supplier_prose(r: Record, rng: random.Random) -> str:
    certified = ["It is certified to ISO 9001.", "It holds an ISO 9001 certificate."] if r["Certified"] == "yes" else [
        "It is not certified to ISO 9001.", "It has no ISO 9001 certificate."]  # fmt: skip
    note = {"delivers on time": "Deliveries were on time.", "was late three times": "It delivered late three times.", "": "",
            "never late": "It was never late.", "payment disputed": "A payment is disputed.", "late once": "It was late once."}  # fmt: skip
    first = rng.choice([
        f"{r['Supplier']} from {r['Country']} supplies {r['Product']}.",
        f"We buy {r['Product']} from {r['Supplier']}, a firm in {r['Country']}.",
    ])  # fmt: skip
    rating = rng.choice([f"Its rating is {r['Rating']}.", f"It was rated {r['Rating']} of 5."])
    return _sentences(rng, first, rating, rng.choice(certified), f"Its contract ends on {r['Contract ends']}.", note[r["Note"]]).strip()


SUPPLIERS = Subject("suppliers", "Supplier", _supplier, _supplier_prose, [
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


def _employee_prose(r: Record, rng: random.Random) -> str:
    name, last = r["Employee"], r["Employee"].split()[-1]
    article = "an" if r["Job"][0] in "aeiou" else "a"
    status = {
        "permanent": f"{last} has a permanent contract.", "temporary": f"{last}'s contract is temporary.",
        "left in 2023": f"{last} left the company in 2023.", "retired": f"{last} has retired.",
        "on parental leave": f"{last} is on parental leave.",
    }[r["Status"]]  # fmt: skip
    licence = f"{last} holds a driving licence." if r["Driving licence"] == "yes" else rng.choice(
        [f"{last} has no driving licence.", f"{last} does not have a driving licence."])  # fmt: skip
    first = rng.choice([
        f"{name} joined in {r['Joined']} and works as {article} {r['Job']} in {r['Office']}.",
        f"In the {r['Office']} office {name} is {article} {r['Job']}, since {r['Joined']}.",
    ])  # fmt: skip
    return _sentences(rng, first, f"{name} earns {r['Salary']:,} a year.", f"{last} speaks {r['Languages']}.", licence, status)


STAFF = Subject("staff", "Employee", _employee, _employee_prose, [
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


def _bridge_prose(r: Record, rng: random.Random) -> str:
    name, condition = r["Bridge"], r["Condition"]
    verb = "was" if condition.startswith(("rebuilt", "demolished")) else "is"
    first = rng.choice([
        f"{name}, built of {r['Material']}, crosses the {r['River']} and was opened in {r['Opened']}.",
        f"The {r['River']} is crossed by {name}, a {r['Material']} bridge of {r['Opened']}.",
    ])  # fmt: skip
    toll = f"A toll is charged on {name}." if r["Toll"] == "yes" else rng.choice([f"{name} is free of toll.", "No toll is charged there."])
    return _sentences(rng, first, f"{name} is {r['Length (m)']} metres long.", f"{name} {verb} {condition}.", toll)


BRIDGES = Subject("bridges", "Bridge", _bridge, _bridge_prose, [
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
])  # fmt: skip

SUBJECTS = {s.name: s for s in (VESSELS, SUPPLIERS, STAFF, BRIDGES)}
TUNED = ("vessels", "suppliers")
FORMS = ("csv", "json", "files", "prose")


def gold_items(subject: Subject, seed: int = 1) -> Iterator[tuple[str, list[str]]]:
    """Each request with the names of the records that it asks for."""
    records = records_of(subject, seed)
    return ((request, [r[subject.key] for r in records if test(r)]) for request, test in subject.requests)
