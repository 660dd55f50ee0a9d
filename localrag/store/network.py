"""The network of entities and chunks that questions walk over, read from the tables and kept beside the database as a cache.

Its file holds the counts too that it follows from: after an edit it is made from those before, and from the tables for what changed alone.
"""

import contextlib
import json
import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_matrix
from sqlite_utils import Database

from localrag.pagerank import Ids, Network, make_network
from localrag.records import content_id
from localrag.store import ledger, vector_index
from localrag.store.arrays import check_columns, check_ids, check_indices, check_kind, check_lengths, mapped_arrays
from localrag.store.connect import folder_of, is_cache
from localrag.store.counted import Changes, Counted, changed, count_all, counted_after
from localrag.store.memory import memory_of
from localrag.store.staged import AMONG, Staged
from localrag.store.vectors import state_of
from localrag.system.files import new_file

LEAST = 10_000  # chunks; a network of fewer is made by whoever asks first, one of more while indexing
_MATRICES = ("to_chunks", "to_entities", "to_related")
_COUNTED = 3 + 3 * len(_MATRICES)  # index of the first array of the counts
log = logging.getLogger(__name__)


def load_network(db: Database, folder: Path) -> Network:
    """The network of the stored graph: from memory, else from its file where that is of this graph, else built anew."""
    file = _file(db, folder)
    memory = memory_of(folder)
    name, kept = memory.get("network", ("", None))
    if isinstance(kept, Network) and name == file.name:
        return kept
    net = _read(file)
    if net is None:
        net = _make(db, file)
    memory["network"] = (file.name, net)
    return net


@dataclass(frozen=True, slots=True)
class Outdated:
    """The file of the network of a graph that is about to be replaced, and what of it will be another."""

    file: Path
    changes: Changes


def outdated(db: Database, graph: Staged | None) -> Outdated | None:
    """What the publication of a graph, and of what waits with it, changes of the network, if there is a file of it."""
    file = _of_graph(db, folder_of(db))
    changes = changed(db, graph) if file else None
    return Outdated(file, changes) if file and changes else None


def bring_files_up_to_date(db: Database, before: Outdated | None = None) -> None:
    """See to it that questions find in files what would take them long to make: the index of many vectors, the network of many chunks.

    For the one who holds the writer's lock. `before`: the network before a publication.
    """
    vector_index.bring_up_to_date(db)
    before = _with_other_titles(db, before)
    file = _file(db, folder_of(db))
    if _read(file) is None and (before or db.execute("SELECT count(*) FROM main.chunks").fetchone()[0] > LEAST):
        _make(db, file, before)


def _with_other_titles(db: Database, before: Outdated | None) -> Outdated | None:
    """The network before, with the chunks of retitled documents among its changes; its file no longer counts as the present one."""
    documents = sorted(key for (key,) in db.execute("SELECT document_id FROM retitled"))
    if not documents:
        return before
    file, keys = before.file if before else _of_graph(db, folder_of(db)), [json.dumps(documents)]
    chunks = {key for (key,) in db.execute(f"SELECT id FROM main.chunks WHERE document_id {AMONG}", keys)}
    titles = [title for (title,) in db.execute(f"SELECT title FROM main.documents WHERE id {AMONG} ORDER BY id", keys)]
    with db.atomic():
        ledger.save_settings(db, titles=content_id(ledger.settings(db).get("titles"), *documents, *titles))
        db.execute("DELETE FROM retitled")
    changes = before.changes if before else Changes()
    return Outdated(file, replace(changes, chunks=changes.chunks | chunks)) if file else None


def _make(db: Database, file: Path, before: Outdated | None = None) -> Network:
    """The network of the tables: from that `before`, where there is one, or from one with the same graph beside fewer chunks."""
    if before is None and (of_graph := _of_graph(db, file.parent)) and of_graph != file:  # the file itself is missing or damaged
        before = Outdated(of_graph, Changes())
    known = _read_counts(before.file) if before else None
    counted = counted_after(db, known, before.changes) if before and known else None
    counted = counted or count_all(db)
    net = _network(counted)
    _write([*_arrays(net), *counted.arrays()], file)
    return net


def same(db: Database, folder: Path) -> bool | None:
    """Whether the kept file of the present graph holds just that; None where there is none, or it waits for other titles."""
    file = _file(db, folder)
    if not file.exists() or db.execute("SELECT EXISTS (SELECT 1 FROM retitled)").fetchone()[0]:
        return None
    try:
        kept, made = _read(file), _network(count_all(db))
    except KeyError:  # the tables do not fit each other
        return False
    return kept is not None and all(np.array_equal(a, b) for a, b in zip(_arrays(kept), _arrays(made), strict=True))


def files(db: Database, folder: Path) -> list[Path]:
    """Where the network of the present graph is kept."""
    return [_file(db, folder)]


def _file(db: Database, folder: Path) -> Path:
    """Where the network of the graph that there is is kept: the chunks are others where their vectors are."""
    return folder / f"network.{_graph(db)}.{content_id(state_of(db, 'chunk'))}.arrays"


def _of_graph(db: Database, folder: Path) -> Path | None:
    """A file of the graph that there is, with whichever chunks."""
    return next(iter(sorted(folder.glob(f"network.{_graph(db)}.*.arrays"))), None)


def _graph(db: Database) -> str:
    settings = ledger.settings(db)
    return content_id("network 4", settings.get("graph"), *filter(None, [settings.get("titles")]))


def _network(counted: Counted) -> Network:
    mentioned, related = np.column_stack([counted.who, counted.where]), np.column_stack([counted.first, counted.second])
    return make_network(counted.entities, counted.chunks, mentioned, counted.counts, counted.titled, related, counted.weights)


def _arrays(net: Network) -> Iterator[NDArray[Any]]:
    yield from (net.entities.data, net.chunks.data, net.rarity)
    for name in _MATRICES:
        matrix = getattr(net, name)
        yield from (matrix.data, matrix.indices, matrix.indptr)


def _read(file: Path) -> Network | None:
    """The network in a file, mapped into memory; None where it is missing or damaged: it can be built from the tables."""
    arrays = _arrays_of(file)
    if arrays is None:
        return None
    entities, chunks = Ids(arrays[0]), Ids(arrays[1])
    matrices = {name: csc_matrix(tuple(part), shape) for name, part, shape in _matrices(arrays)}
    return Network(entities, chunks, **matrices, rarity=arrays[2])


def _read_counts(file: Path) -> Counted | None:
    """The counts in a file of a network; None where they are missing or damaged."""
    arrays = _arrays_of(file)
    return None if arrays is None else Counted(Ids(arrays[0]), Ids(arrays[1]), *arrays[_COUNTED:])


def _arrays_of(file: Path) -> list[NDArray[Any]] | None:
    """The arrays of a network's file; None where it is missing or, with a warning, not valid."""
    try:
        arrays = mapped_arrays(file)
        _check(arrays)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        log.warning("%s is not used, and is made anew from the index: %s.", file, getattr(error, "strerror", None) or error)
        return None
    return arrays


def _check(arrays: Sequence[NDArray[Any]]) -> None:
    """Raise ValueError unless the arrays are those of a network: SciPy does not check indices."""
    if len(arrays) != _COUNTED + len(fields(Counted)) - 2:
        raise ValueError("it has another number of arrays")
    entities, chunks, rarity = arrays[:3]
    for ids in (entities, chunks):
        check_ids(ids)
    check_kind("f4", rarity)
    check_lengths(entities, rarity)
    for _, (data, places, starts), shape in _matrices(arrays):
        check_columns(data, places, starts, shape)
    who, where, counts, titled, first, second, weights = arrays[_COUNTED:]
    check_kind("f4", counts, titled, weights)
    check_lengths(who, where, counts, titled)
    check_lengths(first, second, weights)
    for numbers, below in ((who, entities), (where, chunks), (first, entities), (second, entities)):
        check_indices(numbers, len(below))


def _matrices(arrays: Sequence[NDArray[Any]]) -> Iterator[tuple[str, Sequence[NDArray[Any]], tuple[int, int]]]:
    """The matrices among the arrays of a network: name; values, row indices and starts of columns; shape."""
    m, n = len(arrays[0]), len(arrays[1])
    for i, (name, shape) in enumerate(zip(_MATRICES, ((n, m), (m, n), (m, m)), strict=True)):
        yield name, arrays[3 * i + 3 : 3 * i + 6], shape


def _write(arrays: Iterable[NDArray[Any]], file: Path) -> None:
    with contextlib.suppress(OSError):  # a folder that cannot be written to: the network in memory serves as well
        with new_file(file) as part, part.open("wb") as f:
            for array in arrays:
                np.save(f, array)
        for old in {f for f in file.parent.glob("network.*") if is_cache(f)} - {file}:
            old.unlink(missing_ok=True)
