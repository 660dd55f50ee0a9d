"""The index as an Obsidian vault: a note for every document, entity and community, linked as the graph is."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlite_utils import Database

from localrag.exchange.filenames import Names, file_name
from localrag.exchange.markdown import front_matter, link, more, quotation, written
from localrag.exchange.vault import divided, leftovers, notes_in
from localrag.records import Report
from localrag.store import graph, look, tables

QUOTES = 8  # of an entity
LINKS = 300  # in one list of a note; how many more there are is said
HOME = "home"
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Made:
    """How many notes there are of each kind; which files of the vault are of earlier exports, which of them go, which stay as they are."""

    counts: dict[str, int]
    own: list[str]
    gone: list[str]
    kept: list[str]


@dataclass(frozen=True, slots=True)
class _Vault:
    """What all notes need: the index, the depth, each thing's note, the titles and places of communities."""

    db: Database
    level: int | None
    names: Mapping[str, str]
    communities: Mapping[str, Row]


def write(db: Database, folder: Path, vault: Path, level: int | None = None) -> Made:
    """Write the notes that are new or other than those in `vault` into `folder`, each with what a person wrote below its line."""
    known, others = notes_in(vault)
    names = Names(others)
    for key, note in known.items():
        names.keep(key, Path(note.path).stem)
    communities = {row["id"]: row for row in look.tree(db) if level is None or row["level"] <= level}
    _name_all(db, names, communities.values())
    made = _Vault(db, level, names.of, communities)
    counts = {"documents": 0, "entities": 0, "communities": 0}
    kept, seen = [], set()
    for kind, key, place, text in _notes(made):
        seen.add(key)
        if kind:
            counts[kind] += 1
        old = known.get(key)
        if old and not old.untouched:
            kept.append(old.path)
        elif old is None or (new := divided(text, old.below)) != old.text:
            target = folder / (old.path if old else f"{place}{names.of[key]}.md")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(new if old else divided(text), encoding="utf-8", newline="\n")
    gone, stay = leftovers(known, seen)
    return Made(counts, [note.path for note in known.values()], gone, kept + stay)


def _name_all(db: Database, names: Names, communities: Iterable[Row]) -> None:
    names.give(HOME, "Start here")
    for row in tables.document_titles(db):
        names.give(f"document:{row['id']}", Path(row["path"]).name)
    for row in communities:
        names.give(f"community:{row['id']}", f"{_number(row)} {row['title'] or ''}")
    for key, title in tables.titles(db).items():
        names.give(f"entity:{key}", title)


def _number(row: Row) -> str:
    return f"{row['level']}.{row['ordinal']}"


def _notes(vault: _Vault) -> Iterator[tuple[str, str, str, str]]:
    """Every note: its kind, what it is of, the folder for it, its text above the line."""
    yield "", HOME, "", _home(vault)
    for row in tables.document_titles(vault.db):
        yield "documents", f"document:{row['id']}", "Documents/", _document(vault, row)
    reports = dict(_reports(vault))
    for row in tables.communities(vault.db, vault.level):
        yield "communities", f"community:{row['id']}", "Communities/", _community(vault, row, reports.get(row["id"]))
    for row in tables.entities(vault.db):
        yield "entities", f"entity:{row['id']}", f"Entities/{file_name(row['type'] or 'other')}/", _entity(vault, row)


def _reports(vault: _Vault) -> Iterator[tuple[str, Report]]:
    for place, report in tables.reports(vault.db, vault.level):
        yield place["id"], report


def _to(vault: _Vault, kind: str, key: str, text: str = "") -> str:
    return link(vault.names[f"{kind}:{key}"], text)


def _home(vault: _Vault) -> str:
    counts = graph.counts(vault.db)
    top = [f"- {_named(vault, row)} ({row['entities']} entities)" for row in vault.communities.values() if row["level"] == 0]
    documents = [f"- {_to(vault, 'document', row['id'], row['path'])}" for row in tables.document_titles(vault.db)]
    said = f"{counts['documents']} documents, {counts['entities']} entities, {counts['relationships']} relationships."
    parts = [
        front_matter({"localrag": HOME}),
        "# Start here",
        said,
        "## Communities",
        more(top, LINKS),
        "## Documents",
        more(documents, LINKS),
    ]
    return "\n\n".join(parts)


def _named(vault: _Vault, row: Row) -> str:
    return _to(vault, "community", row["id"], row["title"] or f"Community {_number(row)}")


def _document(vault: _Vault, row: Row) -> str:
    front = {"localrag": f"document:{row['id']}", "kind": "document", "source": row["path"]}
    front |= {name: value for name, value in row["metadata"] if name not in front}
    found = tables.mentioned_in(vault.db, row["id"], LINKS)
    names = graph.entities(vault.db, [m["id"] for m in found])
    lines = [f"- {_to(vault, 'entity', e.id, e.name)} ({m['mentions']})" for e, m in zip(names, found, strict=True)]
    listed = more(lines, LINKS, found[0]["total"] if found else 0)
    return "\n\n".join([front_matter(front), f"# {written(row['title'])}", f"Source: {written(row['path'])}", "## Mentioned", listed])


def _community(vault: _Vault, row: Row, report: Report | None) -> str:
    title = report.title if report else f"Community {_number(row)}"
    front = {"localrag": f"community:{row['id']}", "kind": "community", "number": _number(row), "level": row["level"], "aliases": [title]}
    parts = [front_matter(front), f"# {written(title)}"]
    if row["parent_id"]:
        parts.append(f"Part of {_named(vault, vault.communities[row['parent_id']])}")
    if report:
        parts += [written(report.summary), *_findings(vault, report)]
    inner = [f"- {_named(vault, one)}" for one in vault.communities.values() if one["parent"] == row["id"]]
    members = graph.entities(vault.db, row["entity_ids"])
    entities = [f"- {_to(vault, 'entity', e.id, e.name)}" for e in sorted(members, key=lambda e: (-e.degree, e.name))]
    parts += ["## Parts", more(inner, LINKS)] if inner else []
    return "\n\n".join([*parts, "## Entities", more(entities, LINKS)])


def _findings(vault: _Vault, report: Report) -> Iterator[str]:
    for finding in report.findings:
        yield f"## {written(finding.summary)}"
        yield written(finding.explanation)
        for place in look.placed(vault.db, finding.quotes):
            yield _quoted(vault, place, place["text"])


def _quoted(vault: _Vault, place: Row, text: str) -> str:
    return quotation(text, _to(vault, "document", place["document"], Path(place["path"]).name), place["part"])


def _entity(vault: _Vault, row: Row) -> str:
    front = {"localrag": f"entity:{row['id']}", "kind": "entity", "type": row["type"], "aliases": sorted({row["name"], *row["names"]})}
    parts = [front_matter(front | {"mentions": row["mentions"]}), f"# {written(row['name'])}"]
    parts += [written(row["description"])] * bool(row["description"])
    related = look.related_to(vault.db, row["id"], LINKS)
    lines = [f"- {_to(vault, 'entity', r['entity']['id'], r['entity']['name'])}{_how(r)}" for r in related]
    parts += ["## Related", more(lines, LINKS, row["degree"])] if lines else []
    claims = [f"- {written(c.description)} ({written(c.type)}, {c.status})" for c in graph.claims(vault.db, [row["id"]])]
    parts += ["## Claims", more(claims, LINKS)] if claims else []
    quotes = tables.quotes_of(vault.db, row["id"], QUOTES)
    parts += ["## Quotes", *(_quoted(vault, place, place["quote"]) for place in quotes)] if quotes else []
    inside = [c for c in look.communities_of(vault.db, row["id"]) if c["id"] in vault.communities]
    parts += ["## Communities", more([f"- {_named(vault, vault.communities[c['id']])}" for c in inside], LINKS)] if inside else []
    return "\n\n".join(parts)


def _how(relationship: Row) -> str:
    how = relationship["description"] or " ".join(relationship["descriptions"][:1])
    return f" ({relationship['weight']:g})" + (f": {written(how)}" if how else "")
