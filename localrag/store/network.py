"""The network of entities and chunks that questions walk over, read from the tables and kept beside the database as a cache."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray
from scipy.sparse import csc_matrix
from sqlite_utils import Database

from localrag.pagerank import Ids, Network, make_network
from localrag.records import content_id
from localrag.store import ledger, vector_index
from localrag.store.connect import folder_of
from localrag.store.vectors import state_of
from localrag.system.files import new_file

LEAST = 250_000  # chunks; a network of fewer is made by whoever asks first, one of more while indexing
AT_ONCE = 100_000  # rows read from the database
_MATRICES = ("to_chunks", "to_entities", "to_related")
_kept: dict[Path, tuple[str, Network]] = {}  # of this process, which may ask many questions


def load_network(db: Database, folder: Path) -> Network:
    """The network of the stored graph: from memory, else from its file where that is of this graph, else built anew."""
    state, file = _file(db, folder)
    if folder in _kept and _kept[folder][0] == state:
        return _kept[folder][1]
    net = _read(file)
    if net is None:
        net = _build(db)
        _write(net, file)
    _kept[folder] = (state, net)
    return net


def bring_files_up_to_date(db: Database) -> None:
    """See to it that questions find in files what would take them long to make: the index of many vectors, the network of many chunks.

    For the one who holds the writer's lock.
    """
    vector_index.bring_up_to_date(db)
    _, file = _file(db, folder_of(db))
    if db.execute("SELECT count(*) FROM main.chunks").fetchone()[0] > LEAST and _read(file) is None:
        _write(_build(db), file)


def same(db: Database, folder: Path) -> bool | None:
    """Whether the kept file of the present graph holds just that; None where there is none."""
    _, file = _file(db, folder)
    if not file.exists():
        return None
    try:
        kept, made = _read(file), _build(db)
    except KeyError:  # the tables do not fit each other
        return False
    return kept is not None and all(np.array_equal(a, b) for a, b in zip(_arrays(kept), _arrays(made), strict=True))


def files(db: Database, folder: Path) -> list[Path]:
    """Where the network of the present graph is kept."""
    return [_file(db, folder)[1]]


def _file(db: Database, folder: Path) -> tuple[str, Path]:
    """Which graph there is, and where its network is kept."""
    state = content_id("network 3", ledger.settings(db).get("graph"), state_of(db, "chunk"))
    return state, folder / f"network.{state}.arrays"


def _build(db: Database) -> Network:
    """Of the tables themselves (`main`), also where the connection shows a part of them: the network is kept for every question."""
    entities = Ids([i for (i,) in db.execute("SELECT id FROM main.entities ORDER BY id")])
    chunks = Ids([i for (i,) in db.execute("SELECT id FROM main.chunks ORDER BY id")])
    mentions = (
        "SELECT m.entity_id, m.chunk_id, count(*), max(CASE WHEN instr(lower(d.title), lower(m.name)) THEN"
        " min(1.0, 1.0 * length(m.name) / length(d.title)) ELSE 0 END)"
        " FROM main.mentions m JOIN main.chunks c ON c.id = m.chunk_id JOIN main.documents d ON d.id = c.document_id GROUP BY 1, 2"
    )
    who, where, counts, titled = _columns(db, mentions, entities, chunks)
    first, second, weights = _columns(db, "SELECT source_id, target_id, weight FROM main.relationships", entities, entities)
    mentioned, related = np.column_stack([who, where]), np.column_stack([first, second])
    return make_network(entities, chunks, mentioned, counts, titled, related, weights)


def _columns(db: Database, select: str, first: Ids, second: Ids) -> list[NDArray[Any]]:
    """The columns of many rows: two of ids as int32 places, and float32 numbers."""
    rows, parts = db.execute(select), list[list[NDArray[Any]]]()
    width = len(rows.description)
    while some := rows.fetchmany(AT_ONCE):
        a, b, *numbers = zip(*some, strict=True)
        places = [first.numbers(a).astype(np.int32), second.numbers(b).astype(np.int32)]
        parts.append([*places, *(np.array(n, np.float32) for n in numbers)])
    empty = [np.empty(0, np.int32), np.empty(0, np.int32), *[np.empty(0, np.float32)] * (width - 2)]
    return [np.concatenate(column) for column in zip(empty, *parts, strict=True)]


def _arrays(net: Network) -> Iterator[NDArray[Any]]:
    yield from (net.entities.data, net.chunks.data, net.rarity)
    for name in _MATRICES:
        matrix = getattr(net, name)
        yield from (matrix.data, matrix.indices, matrix.indptr)


def _read(file: Path) -> Network | None:
    """The network in a file, whose pages are read when a walk comes by; None where it is missing or torn: the tables have it all."""
    try:
        arrays = list(_mapped(file))
        entities, chunks = Ids(arrays[0]), Ids(arrays[1])
        m, n = len(entities), len(chunks)
        shapes = ((n, m), (m, n), (m, m))
        matrices = {name: csc_matrix(tuple(arrays[3 * i + 3 : 3 * i + 6]), shapes[i]) for i, name in enumerate(_MATRICES)}
        return Network(entities, chunks, **matrices, rarity=arrays[2])
    except (OSError, ValueError, IndexError, EOFError):
        return None


def _mapped(file: Path) -> Iterator[NDArray[Any]]:
    """The arrays that were saved one after the other into a file, mapped into memory."""
    size = file.stat().st_size
    with file.open("rb") as f:
        while f.tell() < size:
            npy.read_magic(f)
            shape, _, dtype = npy.read_array_header_1_0(f)
            count, at = int(np.prod(shape)), f.tell()
            yield np.memmap(file, dtype, "r", at, shape) if count else np.empty(shape, dtype)
            f.seek(at + count * dtype.itemsize)


def _write(net: Network, file: Path) -> None:
    with contextlib.suppress(OSError):  # a folder that cannot be written to: the network in memory serves as well
        with new_file(file) as part, part.open("wb") as f:
            for array in _arrays(net):
                np.save(f, array)
        for old in set(file.parent.glob("network.*")) - {file}:
            old.unlink(missing_ok=True)
