"""A FAISS index of so many vectors of a kind that comparing them all takes too long: made while indexing, mapped into memory by questions.

It is a file of inverted lists with a byte for each dimension. It says which vectors to look at; their cosines are computed from the
vectors themselves, which stay in the database, so what it has of vectors that are no more is passed over. Vectors that came after it are
compared one by one, until they are a few per cent: then they are added to it, and what is gone is taken out. A vector's number is never
given again, so a file that the database names is right for as long as it is there.
"""

import contextlib
import json
import logging
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlite_utils import Database

from localrag.store.arrays import open_regular
from localrag.store.connect import folder_of, is_cache
from localrag.store.faiss_file import check_file
from localrag.store.memory import memory_of
from localrag.system.files import new_file

KINDS = {"chunk": "chunks", "entity": "entities", "report": "reports"}  # what has a vector
LEAST = 100_000  # vectors of a kind; fewer are compared one by one, from memory: 24 ms a question, and 0.4 s to read them
BEHIND = 0.05  # the share of vectors that a file may lack, or have too many, before it is brought up to date
LOOKED_AT = 500_000  # vectors in the lists that a search looks through, some 25 ms; questions unlike the documents need many
SAMPLE = 64  # vectors a list that the lists are chosen by
AT_ONCE = 16_384  # vectors read from the database

log = logging.getLogger(__name__)

Numbers = NDArray[np.int64]
Vectors = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class File:
    """The index file of a kind: its name, the number of the `last` vector that it may have, how many it has, and its size."""

    name: str
    last: int
    vectors: int
    size: int


def file_of(db: Database, kind: str) -> File | None:
    """The index file that a kind has by the database, whether it is there or not."""
    row = db.execute("SELECT file, last, vectors, size FROM vector_files WHERE kind = ?", [kind]).fetchone()
    return File(*row) if row else None


def count(db: Database, kind: str, above: int = 0) -> int:
    """How many vectors of a kind there are, with a number greater than `above`."""
    found = db.execute("SELECT count(*) FROM embeddings WHERE kind = ? AND number > ?", [kind, above]).fetchone()
    return int(found[0])


def numbers(db: Database, kind: str, above: int = 0) -> Numbers:
    """The numbers of the vectors of a kind that are greater than `above`, in order."""
    rows = db.execute("SELECT number FROM embeddings WHERE kind = ? AND number > ? ORDER BY number", [kind, above])
    return np.fromiter((n for (n,) in rows), np.int64)


def batches(db: Database, kind: str, above: int = 0) -> Iterator[tuple[Numbers, Vectors]]:
    """The vectors of a kind whose numbers are greater than `above`, in their order: numbers, and (n, d) float32."""
    rows = db.execute("SELECT number, vector FROM embeddings WHERE kind = ? AND number > ? ORDER BY number", [kind, above])
    while some := rows.fetchmany(AT_ONCE):
        yield np.array([n for n, _ in some], np.int64), as_matrix([v for _, v in some])


def some_vectors(db: Database, wanted: Numbers) -> tuple[Numbers, Vectors]:
    """Those of some numbers that have a vector, in order, with these, (n, d) float32."""
    chosen = "SELECT number, vector FROM embeddings WHERE number IN (SELECT value FROM json_each(?)) ORDER BY number"
    rows = db.execute(chosen, [json.dumps(wanted.tolist())]).fetchall()
    return np.array([n for n, _ in rows], np.int64), as_matrix([v for _, v in rows])


def as_matrix(blobs: list[bytes]) -> Vectors:
    """Stored vectors side by side, (n, d) float32."""
    return np.frombuffer(b"".join(blobs), "<f4").reshape(len(blobs), -1 if blobs else 0)


# Searching


def opened(db: Database, folder: Path, kind: str, dimensions: int) -> tuple[Any, int]:
    """The index file of a kind, mapped into memory, and the number of the last vector that it may have; None and 0 where there is none."""
    file = file_of(db, kind)
    if file is None:
        return None, 0
    memory, key = memory_of(folder), f"index file of {kind}"
    name, index = memory.get(key, ("", None))
    if name != file.name:
        index = _mapped(folder, kind, file)
        if index is None and not (folder / Path(file.name).name).exists():
            return None, 0
        memory[key] = (file.name, index)  # None: damaged
    return (index, file.last) if index is not None and index.d == dimensions else (None, 0)


def _mapped(folder: Path, kind: str, file: File) -> Any:
    """The index in a file, mapped into memory; None where it is missing or damaged: the vectors themselves are in the database.

    FAISS trusts every offset in a file, so one with another layout than ours is not read, with a warning.
    """
    import faiss

    path = folder / f"{kind}.faiss"
    try:
        if not re.fullmatch(rf"{kind}\.[0-9a-f]{{16}}\.faiss", file.name):  # the database may name any path
            raise ValueError("its name is not one that localrag gives")
        path = folder / file.name
        with open_regular(path) as opened_file:
            size = os.fstat(opened_file.fileno()).st_size
            if size != file.size:
                raise ValueError("its size has changed")
            check_file(opened_file, size, file.vectors)
        return faiss.read_index(str(path), faiss.IO_FLAG_MMAP | faiss.IO_FLAG_READ_ONLY)
    except FileNotFoundError:
        return None
    except (OSError, RuntimeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        log.warning("%s is not used, and is made anew by the next localrag index: %s.", path, reason)
        return None


def candidates(index: Any, query: Vectors, n: int, wider: int, inside: Numbers | None) -> Numbers:
    """The numbers of about the `n` vectors nearest a query, (d,), fewer where the lists that are looked through have fewer.

    `wider`: how many times as many lists are looked through as usual. `inside`: the only numbers to find, in order; the fewer they are,
    the more lists are looked through.
    """
    import faiss as untyped  # whose types know neither selectors nor the parameters of a search

    faiss: Any = untyped
    share, selector = min(1.0, LOOKED_AT * wider / max(1, index.ntotal)), None
    if inside is not None:
        bits = np.zeros(int(inside[-1]) + 1 if len(inside) else 1, bool)
        bits[inside] = True
        share *= index.ntotal / max(1, len(inside))
        selector = faiss.IDSelectorBitmap(np.packbits(bits, bitorder="little"))
    probed = min(index.nlist, round(index.nlist * share) + 1)
    params = faiss.SearchParametersIVF(nprobe=probed, **({"sel": selector} if selector else {}))
    _, found = index.search(query[None, :], min(n, index.ntotal), params=params)
    kept: Numbers = found[0][found[0] >= 0]
    return kept


# Making


def bring_up_to_date(db: Database) -> None:
    """See to it that questions find many vectors of a kind in an index file; for the one who holds the writer's lock."""
    for kind in KINDS:
        with contextlib.suppress(OSError, RuntimeError):  # a folder that is full: `unlisted` tells of it
            _bring_up_to_date(db, folder_of(db), kind)


def unlisted(db: Database) -> int:
    """How many vectors questions compare one by one although they are too many for that: their index file could not be written."""
    found, folder = 0, folder_of(db)
    for kind in KINDS:
        file, size = file_of(db, kind), count(db, kind)
        there = file is not None and (folder / file.name).exists()
        left = count(db, kind, file.last) if file is not None and there else size
        found += left if size > LEAST and left > BEHIND * size else 0
    return found


def _bring_up_to_date(db: Database, folder: Path, kind: str) -> None:
    file, size = file_of(db, kind), count(db, kind)
    if size <= LEAST:
        if file:
            _forget(db, folder, kind)
        return
    import faiss  # which a run with nothing to do has no use for

    mapped = _mapped(folder, kind, file) if file else None
    if file and mapped is not None and mapped.d == _dimensions(db, kind) and mapped.nlist >= lists(size):
        newer = count(db, kind, file.last)
        if max(newer, file.vectors - (size - newer)) <= BEHIND * size:
            return
        index, last = faiss.read_index(str(folder / file.name)), file.last
        gone = np.setdiff1d(np.concatenate([some for _, some, _ in _contents(index)]), numbers(db, kind))
        index.remove_ids(faiss.IDSelectorBatch(gone))
    else:
        index, last = _without_vectors(db, kind, lists(size)), 0
    for some, vectors in batches(db, kind, last):
        index.add_with_ids(vectors, some)
        last = int(some[-1])
    _put(db, folder, kind, index, last)


def lists(size: int) -> int:
    """Into how many lists so many vectors are divided: a power of 2 near the square root."""
    return int(2 ** round(np.log2(size) / 2))


def _dimensions(db: Database, kind: str) -> int:
    (found,) = db.execute("SELECT length(vector) / 4 FROM embeddings WHERE kind = ? LIMIT 1", [kind]).fetchone()
    return int(found)


def _without_vectors(db: Database, kind: str, divided: int) -> Any:
    """An index whose lists, and the range of each dimension within them, are chosen by a sample."""
    import faiss

    every = numbers(db, kind)
    drawn = np.random.default_rng(0).choice(every, min(len(every), SAMPLE * divided), replace=False)
    _, sample = some_vectors(db, np.sort(drawn))
    by, width = faiss.METRIC_INNER_PRODUCT, sample.shape[1]
    index = faiss.IndexIVFScalarQuantizer(faiss.IndexFlatIP(width), width, divided, faiss.ScalarQuantizer.QT_8bit, by)
    index.cp.min_points_per_centroid = 1  # fewer are worth no warning
    index.train(sample)
    return index


def _contents(index: Any) -> Iterator[tuple[int, Numbers, NDArray[np.uint8]]]:
    """Of each list that has any: its place, the numbers of the vectors in it, and their codes, (n, d)."""
    import faiss

    found = index.invlists
    for n in range(index.nlist):
        if size := found.list_size(n):
            codes = faiss.rev_swig_ptr(found.get_codes(n), size * index.code_size)
            yield n, faiss.rev_swig_ptr(found.get_ids(n), size).copy(), codes.reshape(size, -1).copy()


def _put(db: Database, folder: Path, kind: str, index: Any, last: int) -> None:
    """Write the index to a file of another name, and let the database name it once it is whole."""
    import faiss

    path = folder / f"{kind}.{token_hex(8)}.faiss"
    with new_file(path) as part:
        faiss.write_index(index, str(part))
        with part.open("rb") as written:
            os.fsync(written.fileno())
    with db.atomic():
        row = [kind, path.name, last, index.ntotal, path.stat().st_size]
        db.execute("INSERT OR REPLACE INTO vector_files VALUES (?, ?, ?, ?, ?)", row)
    _remove_others(folder, kind, path.name)


def _forget(db: Database, folder: Path, kind: str) -> None:
    with db.atomic():
        db.execute("DELETE FROM vector_files WHERE kind = ?", [kind])
    _remove_others(folder, kind)


def _remove_others(folder: Path, kind: str, name: str = "") -> None:
    for old in folder.glob(f"{kind}.*.faiss"):
        if old.name != name and is_cache(old):
            old.unlink(missing_ok=True)


def same(db: Database, folder: Path, kind: str) -> bool | None:
    """Whether the index file of a kind has just the vectors that it should; None where there is none."""
    file = file_of(db, kind)
    if file is None or not (folder / file.name).exists():
        return None
    index = _mapped(folder, kind, file)
    if index is None or index.ntotal != file.vectors:
        return False
    known, seen = numbers(db, kind), [np.empty(0, np.int64)]
    for n, some, codes in _contents(index):
        order = np.argsort(some)
        there, vectors = some_vectors(db, some[order])
        stored = codes[order][np.isin(some[order], there)].astype(int)
        if len(there) and np.abs(_codes(index, n, vectors) - stored).max() > 1:  # another processor may round in another way
            return False
        seen.append(there)
    return np.array_equal(np.sort(np.concatenate(seen)), known[known <= file.last])


def _codes(index: Any, n: int, vectors: Vectors) -> NDArray[np.int64]:
    """What list `n` has of vectors, (n, d): a byte for each dimension."""
    import faiss

    made, of = np.empty((len(vectors), index.code_size), np.uint8), np.full(len(vectors), n, np.int64)
    index.encode_vectors(len(vectors), faiss.swig_ptr(np.ascontiguousarray(vectors)), faiss.swig_ptr(of), faiss.swig_ptr(made))
    return made.astype(int)
