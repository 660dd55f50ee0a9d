"""The graph as rows: entities, relationships, mentions, evidence, communities and reports."""

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from sqlite_utils import Database

from localrag.records import IMPORTED, Claim, Community, Entity, Evidence, Finding, Graph, Mention, Merge, Quote, Relationship, Report
from localrag.store.narrowed import narrowed_reports
from localrag.store.selection import Selected
from localrag.store.staged import TABLES, Row, Staged


def staged_graph(db: Database, graph: Graph, communities: Sequence[Community]) -> Staged:
    """A whole graph and its communities, to be published in place of the stored ones; reports of communities that stay, stay."""
    staged = Staged(db, anew=True)
    staged.put("entities", (_row("entities", _described(e)) for e in graph.entities))
    staged.put("relationships", (_row("relationships", _described(r)) for r in graph.relationships))
    staged.put("entity_aliases", {(m.name, m.entity_id) for m in graph.mentions})
    staged.put("mentions", ((m.entity_id, m.chunk_id, m.start, m.end, m.name, 0.0) for m in graph.mentions))
    staged.put("evidence", (_row("evidence", _flat(e)) for e in graph.evidence))
    staged.put("claims", (_row("claims", _flat(c)) for c in graph.claims))
    staged.put("communities", (_row("communities", _flat(c)) for c in communities))
    staged.put("members", ((c.id, e) for c in communities for e in c.entity_ids))
    return staged


def replace_graph(db: Database, graph: Graph, communities: Sequence[Community], input_hash: str) -> None:
    """Put a graph and its communities in place of the stored ones, in one transaction."""
    staged = staged_graph(db, graph, communities)
    with db.atomic():
        staged.publish()
        db.table("settings").insert({"key": "graph", "value": json.dumps(input_hash)}, replace=True)


def _row(table: str, values: Mapping[str, Any]) -> Row:
    return tuple(values[c] for c in TABLES[table].columns)


def _flat(record: Any) -> dict[str, Any]:
    """The values of a record that holds no other; `asdict` takes ten times as long, which counts for millions."""
    return {name: getattr(record, name) for name in record.__slots__}


def _described(record: Entity | Relationship) -> dict[str, Any]:
    return _flat(record) | {"descriptions": json.dumps(record.descriptions, ensure_ascii=False)}


def entities(db: Database, ids: Sequence[str] | None = None) -> list[Entity]:
    """All entities by degree, or those with the given ids in the order given."""
    if ids is None:
        return [_entity(row) for row in db.query("SELECT * FROM entities ORDER BY degree DESC, name")]
    rows = db.query("SELECT * FROM entities WHERE id IN (SELECT value FROM json_each(?))", [json.dumps(list(ids))])
    found = {row["id"]: _entity(row) for row in rows}
    return [found[i] for i in ids if i in found]


def _entity(row: dict[str, Any]) -> Entity:
    return Entity(**row | {"descriptions": tuple(json.loads(row["descriptions"]))})


def aliases(db: Database) -> dict[str, str]:
    """Every name an entity goes by → its id."""
    return {row["alias"]: row["entity_id"] for row in db.query("SELECT alias, entity_id FROM entity_aliases")}


def entities_named(db: Database, names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Name in lower case → ids of the entities that go by it, whatever its case (of ASCII letters)."""
    rows = db.query(
        "SELECT DISTINCT lower(a.alias) AS name, a.entity_id FROM json_each(?) AS n"
        " JOIN entity_aliases AS a ON a.alias = n.value COLLATE NOCASE ORDER BY 1, 2",
        [json.dumps(sorted(names))],
    )
    found: dict[str, tuple[str, ...]] = {}
    for row in rows:
        found[row["name"].lower()] = (*found.get(row["name"].lower(), ()), row["entity_id"])
    return found


def aliases_of(db: Database, entity_ids: Iterable[str]) -> dict[str, list[str]]:
    """Entity id → every name it goes by."""
    found: dict[str, list[str]] = {}
    rows = db.query(
        "SELECT alias, entity_id FROM entity_aliases WHERE entity_id IN (SELECT value FROM json_each(?)) ORDER BY alias",
        [json.dumps(list(entity_ids))],
    )
    for row in rows:
        found.setdefault(row["entity_id"], []).append(row["alias"])
    return found


def mentions_in(db: Database, chunk_ids: Sequence[str]) -> list[Mention]:
    """The mentions that stand in the given chunks."""
    select = "SELECT entity_id, chunk_id, name, start, end FROM mentions WHERE chunk_id IN (SELECT value FROM json_each(?))"
    return [Mention(*row) for row in db.execute(select, [json.dumps(list(chunk_ids))])]


def relationships(db: Database, touching: Iterable[str] | None = None) -> list[Relationship]:
    """All relationships, or those with an end among the given entity ids; heaviest first."""
    where, values = "", []
    if touching is not None:
        ids = json.dumps(list(touching))
        where, values = (
            "WHERE source_id IN (SELECT value FROM json_each(?)) OR target_id IN (SELECT value FROM json_each(?))",
            [ids, ids],
        )
    rows = db.query(f"SELECT * FROM relationships {where} ORDER BY weight DESC, id", values)
    return [Relationship(**row | {"descriptions": tuple(json.loads(row["descriptions"]))}) for row in rows]


def mentions(db: Database, entity_ids: Iterable[str] | None = None) -> list[Mention]:
    """All mentions, or those of the given entities."""
    where, values = "", []
    if entity_ids is not None:
        where, values = "WHERE entity_id IN (SELECT value FROM json_each(?))", [json.dumps(list(entity_ids))]
    select = f"SELECT entity_id, chunk_id, name, start, end FROM mentions {where} ORDER BY chunk_id, start"
    return [Mention(*row) for row in db.execute(select, values)]


def evidence(db: Database, relationship_ids: Iterable[str] | None = None) -> list[Evidence]:
    """All evidence, or that of the given relationships."""
    where, values = "", []
    if relationship_ids is not None:
        where, values = "WHERE relationship_id IN (SELECT value FROM json_each(?))", [json.dumps(list(relationship_ids))]
    return [Evidence(**row) for row in db.query(f"SELECT * FROM evidence {where} ORDER BY relationship_id, chunk_id, start", values)]


def claims(db: Database, entity_ids: Iterable[str] | None = None) -> list[Claim]:
    """All claims, or those whose subject is one of the given entities."""
    where, values = "", []
    if entity_ids is not None:
        where, values = "WHERE subject_id IN (SELECT value FROM json_each(?))", [json.dumps(list(entity_ids))]
    return [Claim(**row) for row in db.query(f"SELECT * FROM claims {where} ORDER BY chunk_id, start, id", values)]


def merges(db: Database, *, done: bool) -> list[tuple[int, Merge]]:
    """The names that were made one, or those spelt alike that were not, each with its number."""
    form = "coalesce((SELECT text FROM name_keys WHERE key IN ({0}, (SELECT base FROM homonyms WHERE entity = {0}))), {0})"
    rows = db.execute(
        f"SELECT {form.format('m.name_key')}, m.key, {form.format('m.key')}, m.reason, m.score FROM merges m WHERE m.done = ?"
        " ORDER BY m.score DESC, m.key, m.name_key",
        [done],
    )
    return [(n, Merge(*row)) for n, row in enumerate(rows, 1)]


def merged(db: Database) -> int:
    """How many names were made part of others."""
    return int(db.execute("SELECT count(*) FROM merges WHERE done = 1").fetchone()[0])


def communities(db: Database, level: int | None = None) -> list[Community]:
    """The communities of a level, or of all, each with its members."""
    where, values = ("WHERE level = ?", [level]) if level is not None else ("", [])
    members: dict[str, list[str]] = {}
    for row in db.query("SELECT community_id, entity_id FROM members ORDER BY community_id, entity_id"):
        members.setdefault(row["community_id"], []).append(row["entity_id"])
    rows = db.query(f"SELECT * FROM communities {where} ORDER BY level, ordinal", values)
    return [Community(r["id"], r["level"], r["ordinal"], r["parent_id"], tuple(members.get(r["id"], ()))) for r in rows]


def save_reports(db: Database, reports: Iterable[Report]) -> None:
    """Commit reports of the next generation; `reports` gives them once that is published."""
    with db.atomic():
        db.table("next_reports").insert_all(map(_report_row, reports), replace=True)


def _report_row(report: Report) -> dict[str, Any]:
    findings = json.dumps([asdict(f) for f in report.findings], ensure_ascii=False)
    return _flat(report) | {"rating": report.rating or 0.0, "findings": findings, "markdown": report.markdown}


def waiting_reports(db: Database) -> list[str]:
    """The communities whose report waits for the next generation."""
    return [key for (key,) in db.execute("SELECT community_id FROM next_reports")]


def imported_reports(db: Database) -> dict[str, Report]:
    """Community id → its report, of those that another program wrote."""
    mark = f"{IMPORTED} "
    rows = db.query(f"SELECT * FROM reports WHERE substr(input_hash, 1, {len(mark)}) = '{mark}'")  # as the index of these has it
    return {row["community_id"]: report_of(row) for row in rows}


def reports(db: Database, level: int | None = None) -> list[Report]:
    """The reports of a level, or of all, in the order of their communities."""
    where, values = ("WHERE c.level = ?", [level]) if level is not None else ("", [])
    rows = db.query(f"SELECT r.* FROM reports r JOIN communities c ON c.id = r.community_id {where} ORDER BY c.level, c.ordinal", values)
    return [report_of(row) for row in rows]


def reports_of(db: Database, community_ids: Sequence[str]) -> list[Report]:
    """The reports of these communities, in the order given; none for one that has none. See `narrowed_reports` for a selection."""
    rows = db.query("SELECT * FROM reports WHERE community_id IN (SELECT value FROM json_each(?))", [json.dumps(list(community_ids))])
    found = {row["community_id"]: report_of(row) for row in rows}
    reports = [found[i] for i in community_ids if i in found]
    return narrowed_reports(db, reports) if isinstance(db, Selected) else reports


def reported(db: Database) -> list[tuple[str, int, str | None]]:
    """The communities that have a report, in their order: id, level, and the id of the community above."""
    rows = db.execute(
        "SELECT c.id, c.level, c.parent_id FROM communities c JOIN reports r ON r.community_id = c.id ORDER BY c.level, c.ordinal"
    )
    return [(str(i), int(level), above) for i, level, above in rows]


def reported_at(db: Database, level: int) -> list[str]:
    """The communities whose reports are those of a level; one without a report is stood for by the nearest above it that has one."""
    written = "EXISTS (SELECT 1 FROM reports r WHERE r.community_id = c.id)"
    rows = list(
        db.execute(f"SELECT c.id, c.level, c.parent_id, {written} FROM communities c WHERE c.level <= ? ORDER BY c.ordinal", [level])
    )
    parents, own = {i: above for i, _, above, _ in rows}, {i for i, *_, has in rows if has}
    found: dict[str, None] = {}
    for first in (i for i, of, *_ in rows if of == level):
        at: str | None = first
        while at is not None and at not in own:
            at = parents.get(at)
        if at is not None:
            found.setdefault(at)
    return list(found)


def reports_at(db: Database, level: int) -> list[Report]:
    """The reports of a level; a community without a report there is stood for by its nearest ancestor's."""
    return reports_of(db, reported_at(db, level))


def members(db: Database, community_ids: Iterable[str]) -> dict[str, list[str]]:
    """Community id → the ids of its entities."""
    found: dict[str, list[str]] = {}
    rows = db.execute(
        "SELECT community_id, entity_id FROM members WHERE community_id IN (SELECT value FROM json_each(?)) ORDER BY 1, 2",
        [json.dumps(list(community_ids))],
    )
    for community, entity in rows:
        found.setdefault(community, []).append(entity)
    return found


def communities_of(db: Database, entity_ids: Collection[str]) -> dict[str, list[str]]:
    """Entity id → its published communities, level by level; none of one that is not published."""
    found: dict[str, list[str]] = {key: [] for key in entity_ids}
    levels = "SELECT m.entity_id, m.community_id FROM main.members m JOIN main.communities c ON c.id = m.community_id"
    ids = [json.dumps(list(found))]
    for entity, community in db.execute(f"{levels} WHERE m.entity_id IN (SELECT value FROM json_each(?)) ORDER BY c.level", ids):
        found[entity].append(community)
    return found


def communities_with(db: Database, entity_ids: Iterable[str]) -> dict[str, int]:
    """Community id → how many of these entities it holds, of those that hold one."""
    rows = db.execute(
        "SELECT community_id, count(*) FROM members WHERE entity_id IN (SELECT value FROM json_each(?)) GROUP BY 1",
        [json.dumps(list(entity_ids))],
    )
    return dict(rows)


# What stood in place of a model's reason for its rating while a report that no model wrote had the share of passages for a rating.
_NO_MODEL = re.compile(r"Its entities are mentioned in \d+ of \d+ passages\.|\d+ 个段落中有 \d+ 个提到其中的实体。|")


def report_of(row: dict[str, Any]) -> Report:
    """The report in a row of `reports` or `next_reports`."""
    found = (Finding(f["summary"], f["explanation"], tuple(Quote(**q) for q in f["quotes"])) for f in json.loads(row["findings"]))
    row |= {"findings": tuple(found)}
    if _NO_MODEL.fullmatch(row["rating_explanation"]):
        row |= {"rating": None, "rating_explanation": ""}
    return Report(**{k: v for k, v in row.items() if k != "markdown"})


_COUNTED = ("documents", "chunks", "entities", "relationships", "communities", "reports", "failures", "claims")


def counts(db: Database, tables: Sequence[str] = _COUNTED) -> dict[str, int]:
    """How many rows the main tables hold, or some of them."""
    return {t: int(next(db.query(f"SELECT count(*) AS n FROM {t}"))["n"]) for t in tables}


def holds_any(db: Database, table: str) -> bool:
    """Whether a table has a row."""
    return bool(db.execute(f"SELECT EXISTS (SELECT 1 FROM {table})").fetchone()[0])


def communities_per_level(db: Database) -> dict[int, int]:
    """Level → number of communities."""
    return {r["level"]: r["n"] for r in db.query("SELECT level, count(*) AS n FROM communities GROUP BY level ORDER BY level")}


def coverage(db: Database) -> dict[str, Any]:
    """What all reports cover: how many documents are quoted in one, and the paths of those that no report's entities are mentioned in."""
    quoted = db.execute("SELECT count(*) FROM documents WHERE id IN (SELECT document_id FROM quoted)").fetchone()[0]
    reported = "SELECT 1 FROM members e JOIN reports r ON r.community_id = e.community_id WHERE e.entity_id = m.entity_id"
    mentioned = f"SELECT 1 FROM chunks c JOIN mentions m ON m.chunk_id = c.id WHERE c.document_id = d.id AND EXISTS ({reported})"
    if not holds_any(db, "reports"):  # yet: all mentions of every document would be looked at in vain
        mentioned = "SELECT 1 WHERE false"
    missing = db.execute(f"SELECT path FROM documents d WHERE NOT EXISTS ({mentioned}) ORDER BY path")
    return {"quoted": quoted, "in_no_report": [path for (path,) in missing]}
