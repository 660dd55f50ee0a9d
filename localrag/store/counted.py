"""What the network of entities and chunks follows from, counted from the tables: all of it, or what a publication changes."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlite_utils import Database

from localrag.pagerank import Ids
from localrag.store.staged import AMONG, Row, Staged

AT_ONCE = 100_000  # rows read from the database
SHARE = 0.1  # of the chunks, or of the related pairs, that may have changed: with more all is counted again
Ints = NDArray[np.int32]
Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Counted:
    """Entities and chunks by id; which entity (`who`) is mentioned in which chunk (`where`), how often (`counts`); what is related.

    `titled`: the share of the title of the chunk's document that the entity's name makes up, 0 to 1. `first`, `second`: numbers of
    related entities, with `weights`. Each pair once, in no order.
    """

    entities: Ids
    chunks: Ids
    who: Ints
    where: Ints
    counts: Floats
    titled: Floats
    first: Ints
    second: Ints
    weights: Floats

    def arrays(self) -> Iterator[NDArray[Any]]:
        """The columns of mentions and of related pairs, in the order of the fields."""
        return (getattr(self, field.name) for field in fields(self)[2:])


@dataclass(frozen=True, slots=True)
class Changes:
    """What a publication changes: chunks whose mentions or title are others; related pairs as (entity, entity, weight), before and now."""

    chunks: frozenset[str] = frozenset()
    before: Sequence[Row] = ()
    now: Sequence[Row] = ()


def changed(db: Database, graph: Staged | None) -> Changes | None:
    """What the publication of a graph and of what waits with it will change, to be asked before it; None where that is too much."""
    waiting = "SELECT id FROM next_chunks UNION SELECT id FROM main.chunks WHERE document_id IN (SELECT id FROM next_documents)"
    chunks = {key for (key,) in db.execute(waiting)}
    if graph is None:
        return Changes(frozenset(chunks))
    every, pairs = (db.execute(f"SELECT count(*) FROM main.{table}").fetchone()[0] for table in ("chunks", "relationships"))
    if graph.anew or len(graph.changed("relationships")) > SHARE * pairs:
        return None
    chunks |= {chunk for _, chunk, *_ in graph.changed("mentions")}
    rows = [row[1:] for row in graph.changes("relationships", "source_id, target_id, weight")]
    before, now = ([row for row in some if row] for some in (zip(*rows, strict=True) if rows else ((), ())))
    return Changes(frozenset(chunks), before, now) if len(chunks) <= SHARE * every else None


def count_all(db: Database) -> Counted:
    """Of the tables themselves (`main`), also where the connection shows a part of them: the network is kept for every question."""
    entities, chunks = _ids(db)
    related = db.execute("SELECT source_id, target_id, weight FROM main.relationships")
    return Counted(entities, chunks, *_mentions(db, entities, chunks), *_related(related, entities))


def counted_after(db: Database, old: Counted, changes: Changes) -> Counted | None:
    """What there is after `changes`, from what there was; None where the two do not fit each other, or too much changed.

    Chunks that are new or gone are noticed.
    """
    entities, chunks = _ids(db)
    entity_now, chunk_now = _numbers_now(old.entities, entities), _numbers_now(old.chunks, chunks)
    again = np.ones(len(chunks), bool)
    again[chunk_now[chunk_now >= 0]] = False
    known = [n for n in map(chunks.number, changes.chunks) if n is not None]
    again[known] = True
    if again.sum() > SHARE * len(chunks):
        return None
    who, where = entity_now[old.who], chunk_now[old.where]
    stays = (where >= 0) & ~again[where]
    if (who[stays] < 0).any():
        return None
    new = _mentions(db, entities, chunks, [chunks[int(n)] for n in np.flatnonzero(again)])
    mentions = [np.concatenate(pair) for pair in zip([who[stays], where[stays], old.counts[stays], old.titled[stays]], new, strict=True)]
    first, second = entity_now[old.first], entity_now[old.second]
    other = {(entities.number(a), entities.number(b)) for a, b, _ in changes.before}
    code = first.astype(np.int64) * len(entities) + second
    gone = [a * len(entities) + b for a, b in other if a is not None and b is not None]
    left = (first >= 0) & (second >= 0) & ~np.isin(code, gone)
    more = _related(changes.now, entities)
    related = [np.concatenate(pair) for pair in zip([first[left], second[left], old.weights[left]], more, strict=True)]
    return Counted(entities, chunks, *mentions, *related)


def _ids(db: Database) -> tuple[Ids, Ids]:
    entities, chunks = (Ids([i for (i,) in db.execute(f"SELECT id FROM main.{t} ORDER BY id")]) for t in ("entities", "chunks"))
    return entities, chunks


def _numbers_now(old: Ids, new: Ids) -> Ints:
    """The number that each old id has now, -1 where it is gone."""
    if not len(new):
        return np.full(len(old), -1, np.int32)
    place = np.minimum(np.searchsorted(new.data, old.data), len(new) - 1)
    return np.where(new.data[place] == old.data, place, -1).astype(np.int32)


def _mentions(db: Database, entities: Ids, chunks: Ids, among: Sequence[str] | None = None) -> list[NDArray[Any]]:
    """The columns of mentions, of all chunks or of those among some."""
    keys, where = ([], "true") if among is None else ([json.dumps(among)], f"chunk_id {AMONG}")
    title = _titles(db, chunks, among)
    select = f"SELECT entity_id, chunk_id, name FROM main.mentions WHERE {where} ORDER BY entity_id, chunk_id"
    parts = [(np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.float32))]
    rows = db.execute(select, keys)
    while some := rows.fetchmany(AT_ONCE):
        ids, inside, names = zip(*some, strict=True)
        place = chunks.numbers(inside).astype(np.int32)
        share = [_share(name, title(n)) for name, n in zip(names, place.tolist(), strict=True)]
        parts.append((entities.numbers(ids).astype(np.int32), place, np.array(share, np.float32)))
    who, at, titled = (np.concatenate(column) for column in zip(*parts, strict=True))
    if not len(who):
        return [who, at, titled, titled]
    first = np.flatnonzero(np.r_[True, (who[1:] != who[:-1]) | (at[1:] != at[:-1])])
    return [who[first], at[first], np.diff(np.r_[first, len(who)]).astype(np.float32), np.maximum.reduceat(titled, first)]


def _titles(db: Database, chunks: Ids, among: Sequence[str] | None) -> Callable[[int], str]:
    """Number of a chunk → the title of its document, in lower case."""
    of = {key: title.lower() for key, title in db.execute("SELECT id, title FROM main.documents")}
    if among is None:
        return [of[document] for (document,) in db.execute("SELECT document_id FROM main.chunks ORDER BY id")].__getitem__
    rows = db.execute(f"SELECT id, document_id FROM main.chunks WHERE id {AMONG}", [json.dumps(among)])
    return {chunks.number(key): of[document] for key, document in rows}.__getitem__


def _share(name: str, title: str) -> float:
    """The share of a title that a name makes up."""
    return min(1.0, len(name) / len(title)) if title and name.lower() in title else 0.0


def _related(rows: Iterable[Row], entities: Ids) -> list[NDArray[Any]]:
    """The columns of related pairs."""
    parts, left = [(np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.float32))], iter(rows)
    while some := list(islice(left, AT_ONCE)):
        a, b, weights = zip(*some, strict=True)
        parts.append((entities.numbers(a).astype(np.int32), entities.numbers(b).astype(np.int32), np.array(weights, np.float32)))
    return [np.concatenate(column) for column in zip(*parts, strict=True)]
