"""The network of entities and chunks for personalized PageRank: counts from the tables, cache file, incremental updates.

The cache file beside the database also holds the counts, so that after an edit only the changed chunks and pairs are counted again.
"""

import contextlib
import json
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_matrix
from sqlite_utils import Database

from localrag.pagerank import PageRankGraph, SortedIds, build_graph
from localrag.records import content_id
from localrag.store import runs, vectors
from localrag.store.database import caches_of, folder_of, is_cache
from localrag.store.staging import IN_JSON_LIST, GraphStaging, StagedRow
from localrag.store.vectors import check_columns, check_dtype, check_ids, check_indices, check_lengths, mapped_arrays, vectors_state
from localrag.system.files import atomic_file
from localrag.system.trust import is_recorded_cache_file, record_cache_file

ROWS_PER_READ = 100_000
MAX_CHANGED_SHARE = 0.1  # above this share of changed chunks or related pairs, everything is counted again
Ints = NDArray[np.int32]
Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class CooccurrenceCounts:
    """The mentions of entities in chunks, and the related entity pairs, as parallel arrays of numbers into `entities` and `chunks`.

    `entity_numbers`, `chunk_numbers`, `counts`: an entity, a chunk that mentions it, and how often. `title_shares`: the share of the
    chunk's document title that the entity's name covers, 0 to 1. `first`, `second`, `weights`: related entities, each pair once, in no
    order.
    """

    entities: SortedIds
    chunks: SortedIds
    entity_numbers: Ints
    chunk_numbers: Ints
    counts: Floats
    title_shares: Floats
    first: Ints
    second: Ints
    weights: Floats

    def arrays(self) -> Iterator[NDArray[Any]]:
        """The arrays of mentions and of related pairs, in the order of the fields."""
        return (getattr(self, field.name) for field in fields(self)[2:])


@dataclass(frozen=True, slots=True)
class NetworkChanges:
    """The changes of a publication: chunks with other mentions or another title; related pairs (entity, entity, weight) before and now."""

    chunks: frozenset[str] = frozenset()
    before: Sequence[StagedRow] = ()
    now: Sequence[StagedRow] = ()


def changes_of_publication(db: Database, graph: GraphStaging | None) -> NetworkChanges | None:
    """The changes that publishing `graph` and the staged documents will make; None if too many. Call it before the publication."""
    staged = "SELECT id FROM staged_chunks UNION SELECT id FROM main.chunks WHERE document_id IN (SELECT id FROM staged_documents)"
    chunks = {key for (key,) in db.execute(staged)}
    if graph is None:
        return NetworkChanges(frozenset(chunks))
    n_chunks, n_pairs = (db.execute(f"SELECT count(*) FROM main.{table}").fetchone()[0] for table in ("chunks", "relationships"))
    if graph.from_scratch or len(graph.changed_keys("relationships")) > MAX_CHANGED_SHARE * n_pairs:
        return None
    chunks |= {chunk for _, chunk, *_ in graph.changed_keys("mentions")}
    rows = [row[1:] for row in graph.changed_columns("relationships", "source_id, target_id, weight")]
    before, now = ([row for row in column if row] for column in (zip(*rows, strict=True) if rows else ((), ())))
    return NetworkChanges(frozenset(chunks), before, now) if len(chunks) <= MAX_CHANGED_SHARE * n_chunks else None


def count_all(db: Database) -> CooccurrenceCounts:
    """Count the network from the tables of `main`: it holds all rows, even if the connection shows only a part of them."""
    entities, chunks = _ids(db)
    related = db.execute("SELECT source_id, target_id, weight FROM main.relationships")
    return CooccurrenceCounts(entities, chunks, *_mentions(db, entities, chunks), *_related(related, entities))


def apply_changes(db: Database, old: CooccurrenceCounts, changes: NetworkChanges) -> CooccurrenceCounts | None:
    """The counts after `changes`, from the counts before; None if the two are inconsistent or too much changed.

    New and deleted chunks are detected here.
    """
    entities, chunks = _ids(db)
    entity_now, chunk_now = _remap(old.entities, entities), _remap(old.chunks, chunks)
    is_recounted = np.ones(len(chunks), bool)
    is_recounted[chunk_now[chunk_now >= 0]] = False
    changed = [n for n in map(chunks.number, changes.chunks) if n is not None]
    is_recounted[changed] = True
    if is_recounted.sum() > MAX_CHANGED_SHARE * len(chunks):
        return None
    entity_of, chunk_of = entity_now[old.entity_numbers], chunk_now[old.chunk_numbers]
    is_kept = (chunk_of >= 0) & ~is_recounted[chunk_of]
    if (entity_of[is_kept] < 0).any():
        return None
    new = _mentions(db, entities, chunks, [chunks[int(n)] for n in np.flatnonzero(is_recounted)])
    mentions = [
        np.concatenate(pair)
        for pair in zip([entity_of[is_kept], chunk_of[is_kept], old.counts[is_kept], old.title_shares[is_kept]], new, strict=True)
    ]
    first, second = entity_now[old.first], entity_now[old.second]
    old_pairs = {(entities.number(a), entities.number(b)) for a, b, _ in changes.before}
    code = first.astype(np.int64) * len(entities) + second
    removed = [a * len(entities) + b for a, b in old_pairs if a is not None and b is not None]
    remaining = (first >= 0) & (second >= 0) & ~np.isin(code, removed)
    added = _related(changes.now, entities)
    related = [np.concatenate(pair) for pair in zip([first[remaining], second[remaining], old.weights[remaining]], added, strict=True)]
    return CooccurrenceCounts(entities, chunks, *mentions, *related)


def _ids(db: Database) -> tuple[SortedIds, SortedIds]:
    entities, chunks = (SortedIds([i for (i,) in db.execute(f"SELECT id FROM main.{t} ORDER BY id")]) for t in ("entities", "chunks"))
    return entities, chunks


def _remap(old: SortedIds, new: SortedIds) -> Ints:
    """The current number of each old id, -1 if it is deleted."""
    if not len(new):
        return np.full(len(old), -1, np.int32)
    position = np.minimum(np.searchsorted(new.data, old.data), len(new) - 1)
    return np.where(new.data[position] == old.data, position, -1).astype(np.int32)


def _mentions(db: Database, entities: SortedIds, chunks: SortedIds, among: Sequence[str] | None = None) -> list[NDArray[Any]]:
    """The arrays of mentions (entity, chunk, count, title share), of all chunks or of the given ones."""
    keys, where = ([], "true") if among is None else ([json.dumps(among)], f"chunk_id {IN_JSON_LIST}")
    title = _titles(db, chunks, among)
    select = f"SELECT entity_id, chunk_id, name FROM main.mentions WHERE {where} ORDER BY entity_id, chunk_id"
    parts = [(np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.float32))]
    rows = db.execute(select, keys)
    while batch := rows.fetchmany(ROWS_PER_READ):
        ids, chunk_ids, names = zip(*batch, strict=True)
        chunk_numbers = chunks.numbers(chunk_ids).astype(np.int32)
        shares = [_title_share(name, title(n)) for name, n in zip(names, chunk_numbers.tolist(), strict=True)]
        parts.append((entities.numbers(ids).astype(np.int32), chunk_numbers, np.array(shares, np.float32)))
    entity_of, chunk_of, title_shares = (np.concatenate(column) for column in zip(*parts, strict=True))
    if not len(entity_of):
        return [entity_of, chunk_of, title_shares, title_shares]
    first = np.flatnonzero(np.r_[True, (entity_of[1:] != entity_of[:-1]) | (chunk_of[1:] != chunk_of[:-1])])
    return [
        entity_of[first],
        chunk_of[first],
        np.diff(np.r_[first, len(entity_of)]).astype(np.float32),
        np.maximum.reduceat(title_shares, first),
    ]


def _titles(db: Database, chunks: SortedIds, among: Sequence[str] | None) -> Callable[[int], str]:
    """A function from a chunk's number to the title of its document in lower case."""
    title_of = {key: title.lower() for key, title in db.execute("SELECT id, title FROM main.documents")}
    if among is None:
        return [title_of[document] for (document,) in db.execute("SELECT document_id FROM main.chunks ORDER BY id")].__getitem__
    rows = db.execute(f"SELECT id, document_id FROM main.chunks WHERE id {IN_JSON_LIST}", [json.dumps(among)])
    return {chunks.number(key): title_of[document] for key, document in rows}.__getitem__


def _title_share(name: str, title: str) -> float:
    """The share of a title's characters that a name in it covers, 0 to 1."""
    return min(1.0, len(name) / len(title)) if title and name.lower() in title else 0.0


def _related(rows: Iterable[StagedRow], entities: SortedIds) -> list[NDArray[Any]]:
    """The arrays of related pairs: first, second, weight."""
    parts, remaining = [(np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.float32))], iter(rows)
    while batch := list(islice(remaining, ROWS_PER_READ)):
        a, b, weights = zip(*batch, strict=True)
        parts.append((entities.numbers(a).astype(np.int32), entities.numbers(b).astype(np.int32), np.array(weights, np.float32)))
    return [np.concatenate(column) for column in zip(*parts, strict=True)]


CACHE_FROM_CHUNKS = 10_000  # chunks; a smaller network is built by the first question, a larger one while indexing
_MATRICES = ("entity_to_chunk", "chunk_to_entity", "entity_to_entity")
_COUNTED = 3 + 3 * len(_MATRICES)  # index of the first array of the counts
log = logging.getLogger(__name__)


def load_entity_network(db: Database, folder: Path) -> PageRankGraph:
    """The network of the stored graph: from memory, else from its cache file, else built from the tables."""
    file = _network_file(db, folder)
    memory = caches_of(folder)
    name, cached = memory.get("network", ("", None))
    if isinstance(cached, PageRankGraph) and name == file.name:
        return cached
    net = _read_network(file)
    if net is None:
        net = _build_network(db, file)
    memory["network"] = (file.name, net)
    return net


@dataclass(frozen=True, slots=True)
class OutdatedNetwork:
    """The cache file of a graph that is about to be replaced, and the changes since."""

    file: Path
    changes: NetworkChanges


def pending_network_change(db: Database, graph: GraphStaging | None) -> OutdatedNetwork | None:
    """The cache file and the changes that publishing `graph` and the staged documents will make; None without a file."""
    file = _any_graph_file(db, folder_of(db))
    changes = changes_of_publication(db, graph) if file else None
    return OutdatedNetwork(file, changes) if file and changes else None


def update_cache_files(db: Database, before: OutdatedNetwork | None = None) -> None:
    """Write the cache files that are expensive to build: the FAISS indexes of many vectors, and the network of many chunks.

    The caller holds the writer lock. `before`: the network before a publication.
    """
    vectors.update_indexes(db)
    before = _with_other_titles(db, before)
    file = _network_file(db, folder_of(db))
    if _read_network(file) is None and (before or db.execute("SELECT count(*) FROM main.chunks").fetchone()[0] > CACHE_FROM_CHUNKS):
        _build_network(db, file, before)


def _with_other_titles(db: Database, before: OutdatedNetwork | None) -> OutdatedNetwork | None:
    """Add the chunks of retitled documents to the changes of `before`, and invalidate the current cache file."""
    documents = sorted(key for (key,) in db.execute("SELECT document_id FROM retitled_documents"))
    if not documents:
        return before
    file, keys = before.file if before else _any_graph_file(db, folder_of(db)), [json.dumps(documents)]
    chunks = {key for (key,) in db.execute(f"SELECT id FROM main.chunks WHERE document_id {IN_JSON_LIST}", keys)}
    titles = [title for (title,) in db.execute(f"SELECT title FROM main.documents WHERE id {IN_JSON_LIST} ORDER BY id", keys)]
    with db.atomic():
        runs.save_settings(db, repaired_titles=content_id(runs.load_settings(db).get("repaired_titles"), *documents, *titles))
        db.execute("DELETE FROM retitled_documents")
    changes = before.changes if before else NetworkChanges()
    return OutdatedNetwork(file, replace(changes, chunks=changes.chunks | chunks)) if file else None


def _build_network(db: Database, file: Path, before: OutdatedNetwork | None = None) -> PageRankGraph:
    """Build the network from the tables and write its file; incrementally from `before`, or from a file of the same graph with fewer
    chunks.
    """
    if before is None and (of_graph := _any_graph_file(db, file.parent)) and of_graph != file:  # the current file is missing or damaged
        before = OutdatedNetwork(of_graph, NetworkChanges())
    old_counts = _read_counts(before.file) if before else None
    counted = apply_changes(db, old_counts, before.changes) if before and old_counts else None
    counted = counted or count_all(db)
    net = _network(counted)
    _write_arrays([*_arrays(net), *counted.arrays()], file)
    return net


def matches_graph(db: Database, folder: Path) -> bool | None:
    """Whether the cache file equals the network built from the tables; None without a file of this machine, or if titles changed since."""
    file = _network_file(db, folder)
    if not is_recorded_cache_file(file) or db.execute("SELECT EXISTS (SELECT 1 FROM retitled_documents)").fetchone()[0]:
        return None
    try:
        cached, expected = _read_network(file), _network(count_all(db))
    except KeyError:  # the tables are inconsistent
        return False
    return cached is not None and all(np.array_equal(a, b) for a, b in zip(_arrays(cached), _arrays(expected), strict=True))


def network_files(db: Database, folder: Path) -> list[Path]:
    """The cache files of the present graph's network."""
    return [_network_file(db, folder)]


def _network_file(db: Database, folder: Path) -> Path:
    """The cache file of the present graph and the present chunks, which are identified by the version of their vectors."""
    return folder / f"network.{_graph_id(db)}.{content_id(vectors_state(db, 'chunk'))}.arrays"


def _any_graph_file(db: Database, folder: Path) -> Path | None:
    """Any cache file of the present graph, whatever its chunks; None if there is none."""
    return next(iter(sorted(folder.glob(f"network.{_graph_id(db)}.*.arrays"))), None)


def _graph_id(db: Database) -> str:
    settings = runs.load_settings(db)
    return content_id("network 4", settings.get("graph_hash"), *filter(None, [settings.get("repaired_titles")]))


def _network(counted: CooccurrenceCounts) -> PageRankGraph:
    mentioned, related = np.column_stack([counted.entity_numbers, counted.chunk_numbers]), np.column_stack([counted.first, counted.second])
    return build_graph(counted.entities, counted.chunks, mentioned, counted.counts, counted.title_shares, related, counted.weights)


def _arrays(net: PageRankGraph) -> Iterator[NDArray[Any]]:
    yield from (net.entities.data, net.chunks.data, net.rarity)
    for name in _MATRICES:
        matrix = getattr(net, name)
        yield from (matrix.data, matrix.indices, matrix.indptr)


def _read_network(file: Path) -> PageRankGraph | None:
    """The network of a file, memory-mapped; None if the file is missing or damaged."""
    arrays = _arrays_of(file)
    if arrays is None:
        return None
    entities, chunks = SortedIds(arrays[0]), SortedIds(arrays[1])
    matrices = {name: csc_matrix(tuple(part), shape) for name, part, shape in _matrices(arrays)}
    return PageRankGraph(entities, chunks, **matrices, rarity=arrays[2])


def _read_counts(file: Path) -> CooccurrenceCounts | None:
    """The counts of a network's file; None if the file is missing or damaged."""
    arrays = _arrays_of(file)
    return None if arrays is None else CooccurrenceCounts(SortedIds(arrays[0]), SortedIds(arrays[1]), *arrays[_COUNTED:])


def _arrays_of(file: Path) -> list[NDArray[Any]] | None:
    """The arrays of a network's file; None if it is missing or, with a warning, invalid."""
    try:
        arrays = mapped_arrays(file)
        _check(arrays)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        log.warning("%s is not used, and is built again from the index: %s.", file, getattr(error, "strerror", None) or error)
        return None
    return arrays


def _check(arrays: Sequence[NDArray[Any]]) -> None:
    """Raise ValueError unless the arrays form a network: SciPy does not check indices."""
    if len(arrays) != _COUNTED + len(fields(CooccurrenceCounts)) - 2:
        raise ValueError("it has another number of arrays")
    entities, chunks, rarity = arrays[:3]
    for ids in (entities, chunks):
        check_ids(ids)
    check_dtype("f4", rarity)
    check_lengths(entities, rarity)
    for _, (data, row_indices, column_starts), shape in _matrices(arrays):
        check_columns(data, row_indices, column_starts, shape)
    entity_of, chunk_of, counts, title_shares, first, second, weights = arrays[_COUNTED:]
    check_dtype("f4", counts, title_shares, weights)
    check_lengths(entity_of, chunk_of, counts, title_shares)
    check_lengths(first, second, weights)
    for numbers, target_ids in ((entity_of, entities), (chunk_of, chunks), (first, entities), (second, entities)):
        check_indices(numbers, len(target_ids))


def _matrices(arrays: Sequence[NDArray[Any]]) -> Iterator[tuple[str, Sequence[NDArray[Any]], tuple[int, int]]]:
    """The matrices among the arrays of a network: name; values, row indices and column starts; shape."""
    m, n = len(arrays[0]), len(arrays[1])
    for i, (name, shape) in enumerate(zip(_MATRICES, ((n, m), (m, n), (m, m)), strict=True)):
        yield name, arrays[3 * i + 3 : 3 * i + 6], shape


def _write_arrays(arrays: Iterable[NDArray[Any]], file: Path) -> None:
    with contextlib.suppress(OSError):  # read-only folder: the network in memory is enough
        with atomic_file(file) as part, part.open("wb") as f:
            for array in arrays:
                np.save(f, array)
        record_cache_file(file)
        for old in {f for f in file.parent.glob("network.*") if is_cache(f)} - {file}:
            old.unlink(missing_ok=True)
