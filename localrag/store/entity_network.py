"""The network of entities and chunks for personalized PageRank: built from the tables, kept in a cache file beside the database."""

import contextlib
import logging
import mmap
import os
from collections.abc import Iterator, Sequence
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
from localrag.store.vectors import vectors_state
from localrag.system.files import atomic_file
from localrag.system.trust import is_recorded_cache_file, record_cache_file

ROWS_PER_READ = 100_000
CACHE_FROM_CHUNKS = 10_000  # chunks; a smaller network is built by the first question, a larger one while indexing
_MATRICES = ("entity_to_chunk", "chunk_to_entity", "entity_to_entity")
log = logging.getLogger(__name__)


def network_of_tables(db: Database) -> PageRankGraph:
    """Build the network from the tables of `main`: it holds all rows, even if the connection shows only a part of them."""
    entities, chunks = (SortedIds([i for (i,) in db.execute(f"SELECT id FROM main.{t} ORDER BY id")]) for t in ("entities", "chunks"))
    mentioned, counts, title_shares = _mentions(db, entities, chunks)
    related, weights = _related(db, entities)
    return build_graph(entities, chunks, mentioned, counts, title_shares, related, weights)


def _mentions(db: Database, entities: SortedIds, chunks: SortedIds) -> tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.float32]]:
    """The mentions of entities in chunks: (entity, chunk) numbers, how often, and the share of the chunk's title that the name covers."""
    title_of = {key: title.lower() for key, title in db.execute("SELECT id, title FROM main.documents")}
    titles = [title_of[document] for (document,) in db.execute("SELECT document_id FROM main.chunks ORDER BY id")]
    parts = [(np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.float32))]
    rows = db.execute("SELECT entity_id, chunk_id, name FROM main.mentions ORDER BY entity_id, chunk_id")
    while batch := rows.fetchmany(ROWS_PER_READ):
        ids, chunk_ids, names = zip(*batch, strict=True)
        numbers = chunks.numbers(chunk_ids).astype(np.int32)
        shares = [_title_share(name, titles[n]) for name, n in zip(names, numbers.tolist(), strict=True)]
        parts.append((entities.numbers(ids).astype(np.int32), numbers, np.array(shares, np.float32)))
    entity_of, chunk_of, shares_of = (np.concatenate(column) for column in zip(*parts, strict=True))
    pairs = np.column_stack([entity_of, chunk_of])
    if not len(pairs):
        return pairs, shares_of, shares_of
    first = np.flatnonzero(np.r_[True, (pairs[1:] != pairs[:-1]).any(axis=1)])
    counts = np.diff(np.r_[first, len(pairs)]).astype(np.float32)
    return pairs[first], counts, np.maximum.reduceat(shares_of, first)


def _title_share(name: str, title: str) -> float:
    """The share of a title's characters that a name in it covers, 0 to 1."""
    return min(1.0, len(name) / len(title)) if title and name.lower() in title else 0.0


def _related(db: Database, entities: SortedIds) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """The related pairs of entity numbers, and their weights."""
    pairs, weights = [np.empty((0, 2), np.int32)], [np.empty(0, np.float32)]
    rows = db.execute("SELECT source_id, target_id, weight FROM main.relationships")
    while batch := rows.fetchmany(ROWS_PER_READ):
        a, b, weight = zip(*batch, strict=True)
        pairs.append(np.column_stack([entities.numbers(a), entities.numbers(b)]).astype(np.int32))
        weights.append(np.array(weight, np.float32))
    return np.concatenate(pairs), np.concatenate(weights)


def load_entity_network(db: Database, folder: Path) -> PageRankGraph:
    """The network of the stored graph: from memory, else from its cache file, else built from the tables."""
    file, memory = _network_file(db, folder), caches_of(folder)
    name, cached = memory.get("network", ("", None))
    if isinstance(cached, PageRankGraph) and name == file.name:
        return cached
    net = _read_network(file) or _build_network(db, file)
    memory["network"] = (file.name, net)
    return net


def update_cache_files(db: Database) -> None:
    """Write the cache files that are expensive to build: the FAISS indexes of many vectors, and the network of many chunks.

    The caller holds the writer lock.
    """
    vectors.update_indexes(db)
    file = _network_file(db, folder_of(db))
    if db.execute("SELECT count(*) FROM main.chunks").fetchone()[0] > CACHE_FROM_CHUNKS and _read_network(file) is None:
        _build_network(db, file)


def _build_network(db: Database, file: Path) -> PageRankGraph:
    net = network_of_tables(db)
    with contextlib.suppress(OSError):  # read-only folder: the network in memory is enough
        with atomic_file(file) as part, part.open("wb") as f:
            for array in _arrays(net):
                np.save(f, array)
        record_cache_file(file)
        for old in {f for f in file.parent.glob("network.*") if is_cache(f)} - {file}:
            old.unlink(missing_ok=True)
    return net


def matches_graph(db: Database, folder: Path) -> bool | None:
    """Whether the cache file equals the network built from the tables; None without a file of this machine."""
    file = _network_file(db, folder)
    if not is_recorded_cache_file(file):
        return None
    try:
        cached, expected = _read_network(file), network_of_tables(db)
    except KeyError:  # the tables are inconsistent
        return False
    return cached is not None and all(np.array_equal(a, b) for a, b in zip(_arrays(cached), _arrays(expected), strict=True))


def current_cache_files(db: Database, folder: Path) -> list[Path]:
    """The cache files of the present network and vectors, whether they exist or not."""
    indexes = (vectors.file_of(db, kind) for kind in vectors.VECTOR_KINDS)
    return [_network_file(db, folder), *(folder / index.name for index in indexes if index)]


def _network_file(db: Database, folder: Path) -> Path:
    """The cache file of the present graph, chunks (known by the version of their vectors) and titles."""
    graph = runs.load_settings(db).get("graph_hash")
    return folder / f"network.{content_id('network 5', graph, vectors_state(db, 'chunk'), vectors_state(db, 'title'))}.arrays"


def _arrays(net: PageRankGraph) -> Iterator[NDArray[Any]]:
    yield from (net.entities.data, net.chunks.data, net.rarity)
    for name in _MATRICES:
        matrix = getattr(net, name)
        yield from (matrix.data, matrix.indices, matrix.indptr)


def _read_network(file: Path) -> PageRankGraph | None:
    """The network of a file, memory-mapped; None if the file is missing or, with a warning, not as this machine wrote it."""
    try:
        file.lstat()
        arrays = _mapped_arrays(file)
        entities, chunks, rarity = SortedIds(arrays[0]), SortedIds(arrays[1]), arrays[2]
        m, n = len(entities), len(chunks)
        matrices = {
            name: csc_matrix(tuple(arrays[3 * i + 3 : 3 * i + 6]), shape)
            for i, (name, shape) in enumerate(zip(_MATRICES, ((n, m), (m, n), (m, m)), strict=True))
        }
    except FileNotFoundError:
        return None
    except (OSError, ValueError, IndexError) as error:
        log.warning("%s is not used, and is built again from the index: %s.", file, getattr(error, "strerror", None) or str(error))
        return None
    return PageRankGraph(entities, chunks, **matrices, rarity=rarity)


def _mapped_arrays(file: Path) -> Sequence[NDArray[Any]]:
    """Memory-map the one-dimensional arrays of a file that `np.save` wrote. NumPy trusts its headers. Raises OSError, ValueError."""
    if not is_recorded_cache_file(file):
        raise ValueError("it was not written on this machine, or was changed")
    arrays = list[NDArray[Any]]()
    with file.open("rb") as f:
        data = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)  # is closed with the arrays
        while f.tell() < len(data):
            np.lib.format.read_magic(f)
            (count,), _, dtype = np.lib.format.read_array_header_1_0(f)
            arrays.append(np.frombuffer(data, dtype, count, f.tell()) if count else np.empty(0, dtype))
            f.seek(count * dtype.itemsize, os.SEEK_CUR)
    return arrays
