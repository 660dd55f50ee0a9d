"""The graph as rows: entities, relationships, mentions, evidence, claims, communities, reports; title word counts.

Words of `title_word_counts` are hashed: the counts stay for a while after an edit, the text must not.
"""

import json
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import asdict
from hashlib import blake2b
from typing import Any

from sqlite_utils import Database

from localrag.records import (
    IMPORTED_MARK,
    Chunk,
    Claim,
    Community,
    Entity,
    Evidence,
    Finding,
    Mention,
    NameMerge,
    Quote,
    Relationship,
    Report,
)
from localrag.store import chunks as chunks_store
from localrag.store.filtered import FilteredDatabase, filter_reports
from localrag.store.staging import IN_JSON_LIST, GraphStaging
from localrag.text.sentences import cached_sentences, collapse_whitespace


def entities(db: Database, ids: Sequence[str] | None = None) -> list[Entity]:
    """All entities, highest degree first, or those with the given ids in the order given."""
    if ids is None:
        return [_entity(row) for row in db.query("SELECT * FROM entities ORDER BY degree DESC, name")]
    rows = db.query("SELECT * FROM entities WHERE id IN (SELECT value FROM json_each(?))", [json.dumps(list(ids))])
    by_id = {row["id"]: _entity(row) for row in rows}
    return [by_id[i] for i in ids if i in by_id]


def _entity(row: dict[str, Any]) -> Entity:
    return Entity(**row | {"descriptions": tuple(json.loads(row["descriptions"]))})


def aliases(db: Database) -> dict[str, str]:
    """Every name of an entity → its id."""
    return {row["alias"]: row["entity_id"] for row in db.query("SELECT alias, entity_id FROM entity_aliases")}


def entity_ids_by_name(db: Database, names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Lower-case name → ids of the entities with this name, ignoring the case of ASCII letters."""
    rows = db.query(
        "SELECT DISTINCT lower(a.alias) AS name, a.entity_id FROM json_each(?) AS n"
        " JOIN entity_aliases AS a ON a.alias = n.value COLLATE NOCASE ORDER BY 1, 2",
        [json.dumps(sorted(names))],
    )
    ids_by_name: dict[str, tuple[str, ...]] = {}
    for row in rows:
        ids_by_name[row["name"].lower()] = (*ids_by_name.get(row["name"].lower(), ()), row["entity_id"])
    return ids_by_name


def aliases_of(db: Database, entity_ids: Iterable[str]) -> dict[str, list[str]]:
    """Entity id → all its names."""
    aliases_by_id: dict[str, list[str]] = {}
    rows = db.query(
        "SELECT alias, entity_id FROM entity_aliases WHERE entity_id IN (SELECT value FROM json_each(?)) ORDER BY alias",
        [json.dumps(list(entity_ids))],
    )
    for row in rows:
        aliases_by_id.setdefault(row["entity_id"], []).append(row["alias"])
    return aliases_by_id


def mentions_in(db: Database, chunk_ids: Sequence[str]) -> list[Mention]:
    """The mentions in the given chunks."""
    select = "SELECT entity_id, chunk_id, name, start, end FROM mentions WHERE chunk_id IN (SELECT value FROM json_each(?))"
    return [Mention(*row) for row in db.execute(select, [json.dumps(list(chunk_ids))])]


def most_mentioned(db: Database, kind: str, n: int) -> list[str]:
    """The entities of a type that most documents mention, those of most documents first."""
    rows = "entities e JOIN mentions m ON m.entity_id = e.id JOIN chunks c ON c.id = m.chunk_id WHERE e.type = ?"
    order = "GROUP BY e.id ORDER BY count(DISTINCT c.document_id) DESC, count(*) DESC, e.name LIMIT ?"
    return [entity for (entity,) in db.execute(f"SELECT e.id FROM {rows} {order}", [kind, n])]


def relationships(db: Database, touching: Iterable[str] | None = None) -> list[Relationship]:
    """All relationships, or those of the given entities; heaviest first."""
    where, values = "", []
    if touching is not None:
        ids = json.dumps(list(touching))
        where, values = (
            "WHERE source_id IN (SELECT value FROM json_each(?)) OR target_id IN (SELECT value FROM json_each(?))",
            [ids, ids],
        )
    rows = db.query(f"SELECT * FROM relationships {where} ORDER BY weight DESC, id", values)
    return [Relationship(**row | {"descriptions": tuple(json.loads(row["descriptions"]))}) for row in rows]


def _among(column: str, ids: Iterable[str] | None) -> tuple[str, list[str]]:
    """The SQL condition that a column is one of some ids, and its values; no condition for None."""
    return ("", []) if ids is None else (f"WHERE {column} {IN_JSON_LIST}", [json.dumps(list(ids))])


def mentions(db: Database, entity_ids: Iterable[str] | None = None) -> list[Mention]:
    """All mentions, or those of the given entities."""
    where, values = _among("entity_id", entity_ids)
    select = f"SELECT entity_id, chunk_id, name, start, end FROM mentions {where} ORDER BY chunk_id, start"
    return [Mention(*row) for row in db.execute(select, values)]


def evidence(db: Database, relationship_ids: Iterable[str] | None = None) -> list[Evidence]:
    """All evidence, or that of the given relationships."""
    where, values = _among("relationship_id", relationship_ids)
    return [Evidence(**row) for row in db.query(f"SELECT * FROM evidence {where} ORDER BY relationship_id, chunk_id, start", values)]


def claims(db: Database, entity_ids: Iterable[str] | None = None) -> list[Claim]:
    """All claims, or those whose subject is one of the given entities."""
    where, values = _among("subject_id", entity_ids)
    return [Claim(*row) for row in db.execute(f"SELECT * FROM claims {where} ORDER BY chunk_id, span_start, id", values)]


def name_merges(db: Database, *, done: bool) -> list[tuple[int, NameMerge]]:
    """The applied name merges, or the rejected candidates of similar spelling, each with its number."""
    form = "coalesce((SELECT form FROM corpus_names WHERE name_key = {0}), {0})"
    rows = db.execute(
        f"SELECT {form.format('m.name_key')}, m.entity_key, {form.format('m.entity_key')}, m.reason, m.score"
        " FROM name_merges m WHERE m.is_applied = ?"
        " ORDER BY m.score DESC, m.entity_key, m.name_key",
        [done],
    )
    return [(n, NameMerge(*row)) for n, row in enumerate(rows, 1)]


def count_merged_names(db: Database) -> int:
    """The number of names merged into others."""
    return int(db.execute("SELECT count(*) FROM name_merges WHERE is_applied = 1").fetchone()[0])


def communities(db: Database, level: int | None = None) -> list[Community]:
    """The communities of a level, or of all, each with its members."""
    where, values = ("WHERE level = ?", [level]) if level is not None else ("", [])
    members: dict[str, list[str]] = {}
    for row in db.query("SELECT community_id, entity_id FROM community_members ORDER BY community_id, entity_id"):
        members.setdefault(row["community_id"], []).append(row["entity_id"])
    rows = db.query(f"SELECT * FROM communities {where} ORDER BY level, ordinal", values)
    return [Community(r["id"], r["level"], r["ordinal"], r["parent_id"], tuple(members.get(r["id"], ()))) for r in rows]


def save_reports(db: Database, reports: Iterable[Report]) -> None:
    """Commit reports of the next generation; `reports` returns them after its publication."""
    with db.atomic():
        db.table("staged_reports").insert_all(map(_report_row, reports), replace=True)


def _report_row(report: Report) -> dict[str, Any]:
    row = asdict(report)
    return row | {"rating": report.rating or 0.0, "findings": json.dumps(row["findings"], ensure_ascii=False), "markdown": report.markdown}


def staged_report_ids(db: Database) -> list[str]:
    """The communities with a staged report."""
    return [key for (key,) in db.execute("SELECT community_id FROM staged_reports")]


def imported_reports(db: Database) -> dict[str, Report]:
    """Community id → its report, of the reports that another program wrote."""
    mark = f"{IMPORTED_MARK} "
    rows = db.query(f"SELECT * FROM reports WHERE substr(input_hash, 1, {len(mark)}) = '{mark}'")  # the expression of its index
    return {row["community_id"]: report_of(row) for row in rows}


def reports(db: Database, level: int | None = None) -> list[Report]:
    """The reports of a level, or of all, in the order of their communities."""
    where, values = ("WHERE c.level = ?", [level]) if level is not None else ("", [])
    rows = db.query(f"SELECT r.* FROM reports r JOIN communities c ON c.id = r.community_id {where} ORDER BY c.level, c.ordinal", values)
    return [report_of(row) for row in rows]


def reports_of(db: Database, community_ids: Sequence[str]) -> list[Report]:
    """The reports of these communities, in the order given; restricted by `filter_reports` in a FilteredDatabase."""
    rows = db.query("SELECT * FROM reports WHERE community_id IN (SELECT value FROM json_each(?))", [json.dumps(list(community_ids))])
    by_community = {row["community_id"]: report_of(row) for row in rows}
    reports = [by_community[i] for i in community_ids if i in by_community]
    return filter_reports(db, reports) if isinstance(db, FilteredDatabase) else reports


def communities_with_report(db: Database) -> list[tuple[str, int, str | None]]:
    """The communities with a report, in order: id, level, parent id."""
    rows = db.execute(
        "SELECT c.id, c.level, c.parent_id FROM communities c JOIN reports r ON r.community_id = c.id ORDER BY c.level, c.ordinal"
    )
    return [(str(i), int(level), parent) for i, level, parent in rows]


def report_communities_at_level(db: Database, level: int) -> list[str]:
    """The communities whose reports stand for a level: each community of that level, or its nearest ancestor with a report."""
    written = "EXISTS (SELECT 1 FROM reports r WHERE r.community_id = c.id)"
    rows = list(
        db.execute(f"SELECT c.id, c.level, c.parent_id, {written} FROM communities c WHERE c.level <= ? ORDER BY c.ordinal", [level])
    )
    parents, reported = {i: parent for i, _, parent, _ in rows}, {i for i, *_, is_reported in rows if is_reported}
    communities: dict[str, None] = {}
    for first in (i for i, its_level, *_ in rows if its_level == level):
        community: str | None = first
        while community is not None and community not in reported:
            community = parents.get(community)
        if community is not None:
            communities.setdefault(community)
    return list(communities)


def entities_of_communities(db: Database, community_ids: Iterable[str]) -> dict[str, list[str]]:
    """Community id → the ids of its entities."""
    members: dict[str, list[str]] = {}
    rows = db.execute(
        "SELECT community_id, entity_id FROM community_members WHERE community_id IN (SELECT value FROM json_each(?)) ORDER BY 1, 2",
        [json.dumps(list(community_ids))],
    )
    for community, entity in rows:
        members.setdefault(community, []).append(entity)
    return members


def communities_of(db: Database, entity_ids: Collection[str]) -> dict[str, list[str]]:
    """Entity id → its published communities by level; empty for an entity that is not published."""
    communities: dict[str, list[str]] = {key: [] for key in entity_ids}
    levels = "SELECT m.entity_id, m.community_id FROM main.community_members m JOIN main.communities c ON c.id = m.community_id"
    ids = [json.dumps(list(communities))]
    for entity, community in db.execute(f"{levels} WHERE m.entity_id IN (SELECT value FROM json_each(?)) ORDER BY c.level", ids):
        communities[entity].append(community)
    return communities


def community_overlap(db: Database, entity_ids: Iterable[str]) -> dict[str, int]:
    """Community id → number of these entities in it, without communities that have none."""
    rows = db.execute(
        "SELECT community_id, count(*) FROM community_members WHERE entity_id IN (SELECT value FROM json_each(?)) GROUP BY 1",
        [json.dumps(list(entity_ids))],
    )
    return dict(rows)


def report_of(row: dict[str, Any]) -> Report:
    """The report in a row of `reports` or `staged_reports`."""
    findings = (Finding(f["summary"], f["explanation"], tuple(Quote(**q) for q in f["quotes"])) for f in json.loads(row["findings"]))
    row |= {"findings": tuple(findings)}
    if not row["rating_explanation"]:  # an extractive report
        row["rating"] = None
    return Report(**{k: v for k, v in row.items() if k != "markdown"})


_MAIN_TABLES = ("documents", "chunks", "entities", "relationships", "communities", "reports", "failures", "claims")


def counts(db: Database, tables: Sequence[str] = _MAIN_TABLES) -> dict[str, int]:
    """Table → number of rows, of the main tables or of the given ones."""
    return {t: int(next(db.query(f"SELECT count(*) AS n FROM {t}"))["n"]) for t in tables}


def has_rows(db: Database, table: str) -> bool:
    """Whether a table has a row."""
    return bool(db.execute(f"SELECT EXISTS (SELECT 1 FROM {table})").fetchone()[0])


COMMUNITY_SIZE = "(SELECT count(*) FROM community_members m WHERE m.community_id = c.id)"  # entities, of a row c of communities
COMMUNITY_TITLE = (  # of a row c of communities and r of reports: the report's title, else the names of its most connected entities
    "coalesce(r.title, (SELECT group_concat(name, ', ') FROM (SELECT e.name FROM community_members m JOIN entities e ON e.id = m.entity_id"
    " WHERE m.community_id = c.id ORDER BY e.degree DESC, e.name LIMIT 3)))"
)


def communities_per_level(db: Database) -> dict[int, int]:
    """Level → number of communities."""
    return {r["level"]: r["n"] for r in db.query("SELECT level, count(*) AS n FROM communities GROUP BY level ORDER BY level")}


def community_ids_by_level(staged: GraphStaging, keys: Collection[str] | None = None) -> dict[int, list[str]]:
    """Level → the ids of its communities in order, all or the given ones."""
    where: tuple[str, list[Any]] = ("true", []) if keys is None else (f"t.id {IN_JSON_LIST}", [json.dumps(sorted(keys))])
    ids_by_level: dict[int, list[str]] = {}
    for level, _, key in sorted(staged.select("communities", *where, columns="t.level, t.ordinal, t.id")):
        ids_by_level.setdefault(level, []).append(key)
    return ids_by_level


def members_of(staged: GraphStaging, community: str) -> list[str]:
    """The entities of a community, sorted by id."""
    return sorted(e for (e,) in staged.select("community_members", "t.community_id = ?", [community], "t.entity_id"))


def child_communities(staged: GraphStaging, community: str) -> list[str]:
    """The children of a community, in order."""
    return [key for _, key in sorted(staged.select("communities", "t.parent_id = ?", [community], "t.ordinal, t.id"))]


def changed_communities(staged: GraphStaging) -> set[str]:
    """The communities that are new, deleted, or have other members than before."""
    return {key for key, *_ in (*staged.changed_keys("communities"), *staged.changed_keys("community_members"))}


def communities_containing(staged: GraphStaging, entities: Collection[str]) -> set[str]:
    """The communities of all levels with at least one of these entities."""
    rows = staged.select("community_members", f"t.entity_id {IN_JSON_LIST}", [json.dumps(sorted(entities))], "t.community_id")
    return {key for (key,) in rows}


MIN_REPORT_PASSAGES = 2  # that speak of a community with a report: the report of one passage would only repeat it


def needs_report(staged: GraphStaging, community: str) -> bool:
    """Whether several passages mention two of a community's entities, and it is no copy of that above, whose report stands for both."""
    row, members = staged.get("communities", community), members_of(staged, community)
    if row and row[3] and staged.count("community_members", "t.community_id = ?", [row[3]]) == len(members):
        return False
    named, passages = defaultdict[str, set[str]](set), set[str]()
    for chunk, entity in staged.select("mentions", f"t.entity_id {IN_JSON_LIST}", [json.dumps(members)], "t.chunk_id, t.entity_id"):
        named[chunk].add(entity)
        if len(named[chunk]) >= min(2, len(members)):
            passages.add(chunk)
            if len(passages) == MIN_REPORT_PASSAGES:
                return True
    return False


def current_report(db: Database, community: str) -> Report | None:
    """The report of a community: the staged one, else the published one; None without either."""
    for table in ("staged_reports", "reports"):
        for row in db.query(f"SELECT * FROM main.{table} WHERE community_id = ?", [community]):
            return report_of(row)
    return None


def staged_report_texts(db: Database, ids: Sequence[str]) -> dict[str, str]:
    """Community id → title and summary of its staged report, of the given communities."""
    texts = f"SELECT community_id, title || char(10) || summary FROM staged_reports WHERE community_id {IN_JSON_LIST}"
    return dict(db.execute(texts, [json.dumps(list(ids))]))


COVERAGE_SAMPLE_CHUNKS = 5_000  # sample for the coverage of large communities, if the index has more chunks
LARGE_COMMUNITY_ENTITIES = 1_000  # entities; the chunks of a smaller community are counted exactly

_REACHED = (
    "SELECT e.community_id, count(DISTINCT m.chunk_id) FROM community_members e JOIN mentions m ON m.entity_id = e.entity_id"
    " WHERE e.community_id IN (SELECT value FROM json_each(?)) GROUP BY 1"
)
# CROSS JOIN and + fix the query plan: the sampled chunks are read first.
_REACHED_OF_SAMPLE = (
    "SELECT e.community_id, count(DISTINCT m.chunk_id) FROM mentions m CROSS JOIN community_members e ON e.entity_id = m.entity_id"
    " WHERE m.chunk_id <= ? AND +e.community_id IN (SELECT value FROM json_each(?)) GROUP BY 1"
)


def coverage_of(db: Database, community_ids: Iterable[str]) -> dict[str, float]:
    """Community id → share of all chunks, 0 to 1, that mention one of its entities.

    For a community of at least LARGE_COMMUNITY_ENTITIES entities in an index of more than COVERAGE_SAMPLE_CHUNKS chunks it is estimated
    from the chunks with the smallest ids, which are hashes; standard error at most 0.007.
    """
    requested = list(community_ids)
    ((total,),) = db.execute("SELECT count(*) FROM chunks")
    large = _large(db, requested) if total > COVERAGE_SAMPLE_CHUNKS else set()
    shares = {key: n / total for key, n in db.execute(_REACHED, [json.dumps([i for i in requested if i not in large])])}
    if large:
        ((last_id,),) = db.execute("SELECT id FROM chunks ORDER BY id LIMIT 1 OFFSET ?", [COVERAGE_SAMPLE_CHUNKS - 1])
        shares |= {key: n / COVERAGE_SAMPLE_CHUNKS for key, n in db.execute(_REACHED_OF_SAMPLE, [last_id, json.dumps(sorted(large))])}
    return shares


def _large(db: Database, ids: Sequence[str]) -> set[str]:
    many = "SELECT 1 FROM community_members WHERE community_id = value LIMIT 1 OFFSET ?"
    rows = db.execute(f"SELECT value FROM json_each(?) WHERE EXISTS ({many})", [json.dumps(list(ids)), LARGE_COMMUNITY_ENTITIES - 1])
    return {key for (key,) in rows}


def sample_chunks(db: Database, n: int, after: str) -> list[str]:
    """The ids of up to `n` chunks that mention an entity: the next after the id `after`, wrapping around.

    Ids are hashes, so this is as good as a random sample.
    """
    named = "SELECT id FROM chunks c WHERE EXISTS (SELECT 1 FROM mentions m WHERE m.chunk_id = c.id)"
    ids = [key for (key,) in db.execute(f"{named} AND id > ? ORDER BY id LIMIT ?", [after, n])]
    remaining = n - len(ids)
    return ids + [key for (key,) in db.execute(f"{named} AND id <= ? ORDER BY id LIMIT ?", [after, remaining])]


_ALL_SENTENCES = ""  # key for the number of all sentences


def count_title_words(staged: GraphStaging, words_of: Callable[[str], Set[str]]) -> None:
    """Count in how many distinct sentences each word occurs, document by document, and store the counts above 1."""
    counts, total, seen = Counter[str](), 0, set[int]()
    for (document,) in staged.db.execute("SELECT id FROM documents").fetchall():
        for text in _supporting_sentences(staged, chunks_store.chunks_of(staged.db, document)):
            if hash(text) not in seen:
                seen.add(hash(text))
                total += 1
                counts.update(words_of(text))
    with staged.db.atomic():
        staged.db.execute("DELETE FROM title_word_counts")
        rows = [(_key(word), n) for word, n in counts.items() if n > 1]
        staged.db.conn.executemany("INSERT INTO title_word_counts VALUES (?, ?)", [(_key(_ALL_SENTENCES), total), *rows])


def title_word_frequencies(db: Database) -> tuple[Callable[[Collection[str]], Mapping[str, int]], int]:
    """A function from words to the number of sentences with them (only words in more than one), and the number of all sentences."""

    def counts(words: Collection[str]) -> dict[str, int]:
        keys = {_key(word): word for word in words}
        stored = f"SELECT word_hash, sentences FROM title_word_counts WHERE word_hash {IN_JSON_LIST}"
        return {keys[key]: n for key, n in db.execute(stored, [json.dumps(list(keys))])}

    return counts, counts([_ALL_SENTENCES]).get(_ALL_SENTENCES, 0)


def _key(word: str) -> int:
    return int.from_bytes(blake2b(word.encode(), digest_size=8).digest(), "little", signed=True)


def _supporting_sentences(staged: GraphStaging, chunks: Collection[Chunk]) -> Iterator[str]:
    """The sentences of chunks that mention an entity or support a relationship."""
    starts: dict[str, set[tuple[int, int]]] = {}
    keys = [json.dumps([c.id for c in chunks])]
    for table, end in (("mentions", "t.start"), ("evidence", "t.end")):
        for chunk, first, last in staged.select(table, f"t.chunk_id {IN_JSON_LIST}", keys, f"t.chunk_id, t.start, {end}"):
            starts.setdefault(chunk, set()).add((first, last))
    for chunk in chunks:
        spans = cached_sentences(chunk.text)
        begins = [span.start for span in spans]
        selected = set[int]()
        for first, last in starts.get(chunk.id, ()):
            index = max(0, bisect_right(begins, first - chunk.start) - 1)
            selected.update(range(index, max(index, bisect_right(begins, max(first, last - 1) - chunk.start) - 1) + 1))
        for n in sorted(selected):
            yield collapse_whitespace(chunk.text[slice(*spans[n])])


def mentions_in_chunks(db: Database, chunk_ids: Sequence[str]) -> Iterator[tuple[str, str, str, int, str]]:
    """The mentions in chunks: entity id, its type, chunk id, first character in the document, and the name as it is written."""
    joined = "mentions m JOIN entities e ON e.id = m.entity_id WHERE m.chunk_id IN (SELECT value FROM json_each(?))"
    yield from db.execute(f"SELECT m.entity_id, e.type, m.chunk_id, m.start, m.name FROM {joined}", [json.dumps(list(chunk_ids))])
