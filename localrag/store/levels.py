"""The communities of a graph that waits or is published: which there are, and which a change concerns."""

import json
from collections.abc import Collection, Sequence
from typing import Any

from sqlite_utils import Database

from localrag.records import Report
from localrag.store.graph import report_of
from localrag.store.staged import AMONG, Staged


def levels(staged: Staged, keys: Collection[str] | None = None) -> dict[int, list[str]]:
    """Level → the ids of its communities, all or some, in their order."""
    where: tuple[str, list[Any]] = ("true", []) if keys is None else (f"t.id {AMONG}", [json.dumps(sorted(keys))])
    found: dict[int, list[str]] = {}
    for level, _, key in sorted(staged.rows("communities", *where, columns="t.level, t.ordinal, t.id")):
        found.setdefault(level, []).append(key)
    return found


def members(staged: Staged, community: str) -> list[str]:
    """The entities of a community, in the order of their ids."""
    return sorted(e for (e,) in staged.rows("members", "t.community_id = ?", [community], "t.entity_id"))


def below(staged: Staged, community: str) -> list[str]:
    """The communities that one is divided into, in their order."""
    return [key for _, key in sorted(staged.rows("communities", "t.parent_id = ?", [community], "t.ordinal, t.id"))]


def changed(staged: Staged) -> set[str]:
    """The communities that are new, gone, or have other members than before."""
    return {key for key, *_ in (*staged.changed("communities"), *staged.changed("members"))}


def around(staged: Staged, entities: Collection[str]) -> set[str]:
    """The communities, of all levels, that have one of these entities."""
    rows = staged.rows("members", f"t.entity_id {AMONG}", [json.dumps(sorted(entities))], "t.community_id")
    return {key for (key,) in rows}


def without_report(db: Database) -> set[str]:
    """The published communities that have no published report."""
    return {key for (key,) in db.execute("SELECT id FROM main.communities EXCEPT SELECT community_id FROM main.reports")}


def known_report(db: Database, community: str) -> Report | None:
    """The report of a community: that which waits, else the published one."""
    for table in ("next_reports", "reports"):
        for row in db.query(f"SELECT * FROM main.{table} WHERE community_id = ?", [community]):
            return report_of(row)
    return None


def next_reported(db: Database) -> list[str]:
    """The communities whose reports wait."""
    return [key for (key,) in db.execute("SELECT community_id FROM next_reports")]


def next_texts(db: Database, ids: Sequence[str]) -> dict[str, str]:
    """Community → the text of its report, of some of those that wait."""
    return dict(db.execute(f"SELECT community_id, markdown FROM next_reports WHERE community_id {AMONG}", [json.dumps(list(ids))]))
