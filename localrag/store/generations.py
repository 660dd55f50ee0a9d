"""What readers see is one generation: documents, chunks, full text, vectors, graph, communities and reports of one state.

The tables hold the published generation, whole, and readers know nothing else. What a run makes for the next one waits in tables of its
own: `next_documents` and `next_chunks` (contents that changed or moved), `next_gone` (paths whose published content ends), `next_reports`,
`next_embeddings`. The graph waits in temporary tables (`staged.py`): it follows from
what is kept. `publish` puts all of this in place in one transaction, and
writes only rows that differ, so that an edit of one line costs little in a large index. A killed run loses nothing that was expensive:
calls, extractions and sentences are kept by what they are of and belong to no generation; vectors and reports wait for the next run.
While a run works, its connection, and no other, sees the next generation: `next_in_view` lays views over `documents` and `chunks`.
A new file beside a graph is published at once: its passages are found, and nothing else speaks of it yet. Without a graph there is nothing
to keep apart, and everything is published as it comes. A question reads from one `connect.snapshot` from first to last.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

from sqlite_utils import Database

from localrag.records import Layout
from localrag.store import collections, corpus, ledger, places
from localrag.store.connect import cut_log
from localrag.store.network import bring_files_up_to_date, outdated
from localrag.store.search import add_to_search, remove_from_search
from localrag.store.seen import tidy_seen
from localrag.store.sources import forget_changes
from localrag.store.staged import Staged
from localrag.store.vector_index import KINDS

_ENDING = "SELECT id FROM main.documents WHERE path IN (SELECT path FROM next_gone)"
_NEXT = {
    "documents": "SELECT * FROM main.documents WHERE path NOT IN (SELECT path FROM next_gone) UNION ALL SELECT * FROM main.next_documents",
    "chunks": f"SELECT * FROM main.chunks WHERE document_id NOT IN ({_ENDING}) UNION ALL SELECT * FROM main.next_chunks",
}

_WAITING = {"documents": "next_documents", "replaced documents": "next_gone", "reports": "next_reports", "vectors": "next_embeddings"}


@contextmanager
def next_in_view(db: Database) -> Iterator[None]:
    """Show this connection, which holds the writer's lock, the documents and chunks of the next generation in place of the published."""
    if db.execute("SELECT count(*) FROM temp.sqlite_master WHERE type = 'view' AND name = 'chunks'").fetchone()[0]:
        yield
        return
    for name, select in _NEXT.items():
        columns = ", ".join(f'"{row[1]}"' for row in db.execute(f"PRAGMA main.table_info({name})"))
        db.execute(f"CREATE TEMP VIEW {name} AS {select.replace('*', columns)}")
    try:
        yield
    finally:
        for name in _NEXT:  # VACUUM takes a view for the table of its name
            db.execute(f"DROP VIEW temp.{name}")


def waiting(db: Database) -> dict[str, int]:
    """How much of the next generation there is: contents that changed or moved, paths that end, reports, vectors."""
    return {name: int(db.execute(f"SELECT count(*) FROM {table}").fetchone()[0]) for name, table in _WAITING.items()}


def forget_waiting(db: Database) -> None:
    """Drop what waits for the next generation: the next run makes it anew."""
    with db.atomic():
        chunks = [key for (key,) in db.execute("SELECT id FROM next_chunks")]
        for table in ("next_chunks", *_WAITING.values()):
            db.execute(f"DELETE FROM {table}")
        corpus.forget_parts(db, chunks)


def lasting_chunks(db: Database) -> set[str]:
    """The published chunks whose documents stay as they are."""
    changing = "SELECT id FROM next_documents UNION ALL SELECT id FROM main.documents WHERE path IN (SELECT path FROM next_gone)"
    return {key for (key,) in db.execute(f"SELECT id FROM main.chunks WHERE document_id NOT IN ({changing})")}


def publish(
    db: Database,
    graph: Staged | None = None,
    *,
    layout: Layout | None = None,
    in_part: bool = False,
    without_report: Collection[str] | None = None,
    kinds: Iterable[str] = KINDS,
    embedder: Mapping[str, str] | None = None,
    settings: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    """Make what waits the published generation, in one transaction.

    What waits for the `graph` and its communities, and its `layout`, all or `in_part`, take the place of what is published.
    `without_report`: the communities of this generation that have none; where it is not known, published reports stay that quote nothing
    that went. `kinds`: of which vectors are put in place as well; `embedder`: the one that the index is bound to from here on, whose
    vectors alone stay. `settings` are saved with all this.
    """
    before = outdated(db, graph)
    with db.atomic():
        _publish_documents(db)
        if graph is not None:
            graph.publish()
            forget_changes(db)
        if layout is not None:
            (places.change if in_part else places.put)(db, layout)
        if without_report is not None:
            _publish_reports(db, without_report)
        elif graph is not None:
            _drop_stale_reports(db)
        if embedder:
            db.execute("DELETE FROM embeddings WHERE embedder <> ?", [embedder["fingerprint"]])
            ledger.save_settings(db, embedder=embedder)
        for kind in kinds:
            _publish_vectors(db, kind)
        for kind, rows in (("entity", "SELECT id FROM entities"), ("report", "SELECT community_id FROM reports")):
            db.execute(f"DELETE FROM embeddings WHERE kind = ? AND subject_id NOT IN ({rows})", [kind])
        ledger.save_settings(db, **settings)
    cut_log(db)
    bring_files_up_to_date(db, before)


def _publish_documents(db: Database) -> None:
    gone = [key for (key,) in db.execute(f"SELECT id FROM main.chunks WHERE document_id IN ({_ENDING})")]
    kept = {key for (key,) in db.execute("SELECT id FROM next_chunks")}
    gone = [key for key in gone if key not in kept]
    corpus.remove_chunks(db, gone)
    db.execute(f"DELETE FROM main.documents WHERE id IN ({_ENDING}) AND id NOT IN (SELECT id FROM next_documents)")
    stored = "SELECT 1 FROM main.chunks c WHERE c.id = n.id AND c.text = n.text"  # another text: only where one was damaged
    new = list(db.execute(f"SELECT id, text FROM next_chunks n WHERE NOT EXISTS ({stored})"))
    remove_from_search(db, [key for key, _ in new])
    for table in ("documents", "chunks"):
        columns = [f'"{row[1]}"' for row in db.execute(f"PRAGMA main.table_info({table})")]
        listed, changed = ", ".join(columns), ", ".join(f"{c} = excluded.{c}" for c in columns[1:])
        put = f"INSERT INTO main.{table} ({listed}) SELECT {listed} FROM next_{table} WHERE true"
        db.execute(f"{put} ON CONFLICT (id) DO UPDATE SET {changed}")  # a row that is replaced would take along what belongs to it
    add_to_search(db, new)
    collections.tidy(db)
    tidy_seen(db)
    for table in ("next_chunks", "next_documents", "next_gone"):
        db.execute(f"DELETE FROM {table}")
    corpus.forget_parts(db, gone)


def _publish_reports(db: Database, without: Collection[str]) -> None:
    ids = [json.dumps(sorted(without))]
    gone = "community_id NOT IN (SELECT id FROM communities) OR community_id IN (SELECT value FROM json_each(?))"
    lost = "SELECT community_id FROM main.reports EXCEPT SELECT id FROM communities UNION SELECT value FROM json_each(?)"
    db.execute(f"DELETE FROM main.reports WHERE community_id IN ({lost})", ids)  # their texts are not looked at
    db.execute(f"INSERT OR REPLACE INTO reports SELECT * FROM next_reports WHERE NOT ({gone})", ids)
    quotes = "next_reports r, json_each(r.findings) f, json_each(f.value, '$.quotes') q"
    found = f"{quotes} JOIN main.chunks c ON c.id = json_extract(q.value, '$.chunk_id') WHERE json_valid(r.findings) AND NOT ({gone})"
    db.execute(f"INSERT OR IGNORE INTO quoted SELECT c.document_id, r.community_id FROM {found}", ids)
    db.execute("DELETE FROM next_reports")


def _drop_stale_reports(db: Database) -> None:
    """Without those that quote a chunk that is no more."""
    quoted = "json_each(findings) AS f, json_each(f.value, '$.quotes') AS q"
    gone = f"SELECT 1 FROM {quoted} WHERE json_extract(q.value, '$.chunk_id') NOT IN (SELECT id FROM main.chunks)"
    db.execute(f"DELETE FROM reports WHERE CASE WHEN json_valid(findings) THEN EXISTS ({gone}) ELSE true END")


def _publish_vectors(db: Database, kind: str) -> None:
    subjects = {"chunk": "SELECT id FROM main.chunks", "entity": "SELECT id FROM entities", "report": "SELECT community_id FROM reports"}
    db.execute(
        "INSERT OR REPLACE INTO embeddings (kind, subject_id, content_hash, embedder, vector)"
        f" SELECT * FROM next_embeddings WHERE kind = ? AND subject_id IN ({subjects[kind]})",
        [kind],
    )
    db.execute("DELETE FROM next_embeddings WHERE kind = ?", [kind])
