"""Vectors as float32 blobs in SQLite, exact and indexed nearest neighbors, and arrays mapped from validated files.

A kind with more than INDEX_FROM_VECTORS vectors gets a FAISS file (IVF, one byte per dimension), built while indexing and memory-mapped by
questions. It only proposes candidates: cosines are computed from the vectors in the database, so entries of deleted vectors do no harm.
Newer vectors are compared exactly until they exceed MAX_UNINDEXED_SHARE; then the file is updated. Vector numbers are never reused, so a
file that the database names stays valid.

Files may not have been written by this process, and NumPy, SciPy and FAISS trust offsets and indices in them. So each file is validated
before one of these libraries reads it.
"""

import contextlib
import json
import logging
import mmap
import os
import re
import stat
import struct
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from sqlite_utils import Database

from localrag.records import content_id
from localrag.store import documents, runs
from localrag.store.database import caches_of, folder_of, is_cache
from localrag.store.filtered import FilteredDatabase
from localrag.system.files import atomic_file
from localrag.system.trust import is_recorded_cache_file, record_cache_file

NPY_MAGIC = b"\x93NUMPY\x01\x00"
MAX_ARRAYS = 64  # arrays per file
_HEADER = re.compile(rb"\{'descr': '([<>|])([fiS])([1-9]\d{0,3})', 'fortran_order': False, 'shape': \((\d{1,15}),\), \} *\n")
_SIZES = {b"f": {4, 8}, b"i": {4, 8}}  # bytes per number; strings may have any length


def mapped_arrays(file: Path) -> list[NDArray[Any]]:
    """Memory-map the one-dimensional arrays (numbers or byte strings) of a file that `np.save` wrote. Raises OSError, ValueError."""
    with open_own(file) as f:
        size, arrays = os.fstat(f.fileno()).st_size, list[NDArray[Any]]()
        data = mmap.mmap(f.fileno(), size, access=mmap.ACCESS_READ) if size else b""
        offset = 0
        while offset < size:
            dtype, count, start = _header(data, offset)
            offset = start + count * dtype.itemsize
            if offset > size or len(arrays) == MAX_ARRAYS:
                raise ValueError("it ends before its arrays do")
            arrays.append(np.frombuffer(data, dtype, count, start) if count else np.empty(0, dtype))
    return arrays


def open_own(file: Path) -> BinaryIO:
    """Open a regular file that this machine wrote, but no link, pipe or device. Raises OSError, ValueError."""
    handle = os.open(file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0))
    opened = os.fdopen(handle, "rb")
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        opened.close()
        raise ValueError("it is not a regular file")
    if not is_recorded_cache_file(file):
        opened.close()
        raise ValueError("it was not written on this machine, or was changed")
    return opened


def _header(data: Any, offset: int) -> tuple[np.dtype[Any], int, int]:
    """The dtype of the array at `offset`, its length, and the offset of its first value."""
    if data[offset : offset + len(NPY_MAGIC)] != NPY_MAGIC:
        raise ValueError("an array has no NumPy header")
    begin = offset + len(NPY_MAGIC) + 2
    end = begin + int.from_bytes(data[begin - 2 : begin], "little")
    header = _HEADER.fullmatch(data[begin:end])
    if header is None or (header[2] in _SIZES and int(header[3]) not in _SIZES[header[2]]):
        raise ValueError("an array is not of numbers or byte strings")
    return np.dtype((header[1] + header[2] + header[3]).decode()), int(header[4]), end


def check_dtype(kind: str, *arrays: NDArray[Any]) -> None:
    """Raise ValueError unless all arrays have this dtype: `f4`, `i4` or `S`."""
    for array in arrays:
        if (array.dtype.kind if kind == "S" else array.dtype.str[1:]) != kind:
            raise ValueError(f"an array holds {array.dtype}, not {kind}")


def check_ids(ids: NDArray[Any]) -> None:
    """Raise ValueError unless the ids are ASCII, unique and sorted by their bytes."""
    check_dtype("S", ids)
    letters = np.frombuffer(np.ascontiguousarray(ids).data, np.uint8) if len(ids) else np.empty(0, np.uint8)
    if (letters > 127).any() or (ids[1:] <= ids[:-1]).any():
        raise ValueError("ids are not in order")


def check_indices(indices: NDArray[Any], length: int) -> None:
    """Raise ValueError unless all are valid indices into a sequence of this length."""
    check_dtype("i4", indices)
    if len(indices) and not (indices.min() >= 0 and indices.max() < length):
        raise ValueError("an index is out of range")


def check_lengths(*arrays: Sequence[Any] | NDArray[Any]) -> None:
    """Raise ValueError unless all arrays have the same length."""
    if len({len(array) for array in arrays}) > 1:
        raise ValueError("arrays that belong together have different lengths")


def check_columns(data: NDArray[Any], indices: NDArray[Any], starts: NDArray[Any], shape: tuple[int, int]) -> None:
    """Raise ValueError unless the arrays form a CSC matrix of float32 of this shape: rows, columns."""
    check_dtype("f4", data)
    check_dtype("i4", starts)
    check_indices(indices, shape[0])
    check_lengths(data, indices)
    if len(starts) != shape[1] + 1 or starts[0] != 0 or starts[-1] != len(data) or (np.diff(starts) < 0).any():
        raise ValueError("the columns of a matrix are not in order")


QT_8BIT = 0  # FAISS's code for the scalar quantizer with one byte per dimension
INNER_PRODUCT = 0  # FAISS's code for the metric


class _IndexFileReader:
    """Reads the values of a file in sequence. Raises ValueError at its end."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self.file, self.size = file, size

    def take(self, kinds: str) -> tuple[int, ...]:
        data = self.file.read(struct.calcsize(f"<{kinds}"))
        try:
            return struct.unpack(f"<{kinds}", data)
        except struct.error:
            raise ValueError("it ends too early") from None

    def skip(self, count: int) -> None:
        position = self.file.tell() + count
        if position > self.size:
            raise ValueError("it ends too early")
        self.file.seek(position)

    def magic(self, *expected: bytes) -> bytes:
        magic = self.file.read(4)
        if magic not in expected:
            raise ValueError(f"it holds {magic!r}, not {expected[0]!r}")
        return magic

    def sizes(self) -> list[int]:
        (count,) = self.take("Q")
        if 8 * count > self.size:
            raise ValueError("it ends too early")
        return list(self.take(f"{count}Q"))


def check_index_file(file: BinaryIO, size: int, vectors: int) -> None:
    """Raise ValueError unless a file is an index in localrag's only layout (IVF, one byte per dimension) with `vectors` vectors."""
    reader = _IndexFileReader(file, size)
    reader.magic(b"IwSq")
    width, total = _read_header(reader)
    lists, probed = reader.take("QQ")
    reader.magic(b"IxFI")
    _require(0 < lists <= size, 0 < probed <= lists, total == vectors, 0 < width <= size, _read_header(reader) == (width, lists))
    _require(reader.take("Q") == (lists * width,))
    reader.skip(4 * lists * width)
    _require(reader.take("BQ") == (0, 0))  # no direct map
    kind, _, _, *widths = reader.take("iifQQ")
    _require(kind == QT_8BIT, widths == [width, width], reader.take("Q") == (2 * width,))
    reader.skip(4 * 2 * width)
    code, by_residual = reader.take("QB")
    _require(code == width, by_residual in (0, 1))
    reader.magic(b"ilar")
    _require(reader.take("QQ") == (lists, width))
    _require(_count_entries(reader, lists) == total, file.tell() + total * (width + 8) == size)


def _read_header(reader: _IndexFileReader) -> tuple[int, int]:
    """Read the header of an index: dimensions and number of vectors."""
    width, total, _, _, trained, metric = reader.take("iqqqBi")
    _require(trained == 1, metric == INNER_PRODUCT)
    return width, total


def _count_entries(reader: _IndexFileReader, lists: int) -> int:
    """Count the vectors of all lists, stored as one size per list, or as index and size of each list that is not empty."""
    if reader.magic(b"full", b"sprs") == b"full":
        sizes = reader.sizes()
        _require(len(sizes) == lists)
        return sum(sizes)
    pairs = reader.sizes()
    list_indices = pairs[::2]
    _require(len(pairs) % 2 == 0, list_indices == sorted(set(list_indices)), all(i < lists for i in list_indices))
    return sum(pairs[1::2])


def _require(*conditions: bool) -> None:
    if not all(conditions):
        raise ValueError("its fields do not fit together")


VECTOR_KINDS = {"chunk": "chunks", "entity": "entities", "report": "reports"}  # kind → plural, for messages
INDEX_FROM_VECTORS = 100_000  # vectors of a kind; fewer are compared exactly, from memory: 24 ms a question, and 0.4 s to read them
MAX_UNINDEXED_SHARE = 0.05  # share of missing or deleted vectors above which a file is updated
MAX_SCANNED_VECTORS = 500_000  # vectors in the probed lists, some 25 ms; questions unlike the documents need many
TRAINING_VECTORS_PER_LIST = 64  # training vectors per list
ADD_BATCH = 16_384  # vectors per read

log = logging.getLogger(__name__)

VectorNumbers = NDArray[np.int64]
Vectors = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class IndexFile:
    """The index file of a kind: its name, the number of the last vector it may contain, its number of vectors, and its size in bytes."""

    name: str
    last_number: int
    vectors: int
    size: int


def file_of(db: Database, kind: str) -> IndexFile | None:
    """The index file that the database names for a kind, whether it exists or not."""
    row = db.execute("SELECT file, last_vector_id, n_vectors, size FROM vector_index_files WHERE kind = ?", [kind]).fetchone()
    return IndexFile(*row) if row else None


def count_vectors(db: Database, kind: str, above: int = 0) -> int:
    """The number of vectors of a kind with a number greater than `above`."""
    row = db.execute("SELECT count(*) FROM embeddings WHERE kind = ? AND vector_id > ?", [kind, above]).fetchone()
    return int(row[0])


def vector_numbers(db: Database, kind: str, above: int = 0) -> VectorNumbers:
    """The numbers of the vectors of a kind that are greater than `above`, sorted."""
    rows = db.execute("SELECT vector_id FROM embeddings WHERE kind = ? AND vector_id > ? ORDER BY vector_id", [kind, above])
    return np.fromiter((n for (n,) in rows), np.int64)


def vector_batches(db: Database, kind: str, above: int = 0) -> Iterator[tuple[VectorNumbers, Vectors]]:
    """The vectors of a kind with numbers greater than `above`, sorted by number, in batches: numbers, and (n, d) float32."""
    rows = db.execute("SELECT vector_id, vector FROM embeddings WHERE kind = ? AND vector_id > ? ORDER BY vector_id", [kind, above])
    while batch := rows.fetchmany(ADD_BATCH):
        yield np.array([n for n, _ in batch], np.int64), decode_vectors([v for _, v in batch])


def some_vectors(db: Database, wanted: VectorNumbers) -> tuple[VectorNumbers, Vectors]:
    """The vectors with these numbers, as far as they exist: numbers, sorted, and (n, d) float32."""
    chosen = "SELECT vector_id, vector FROM embeddings WHERE vector_id IN (SELECT value FROM json_each(?)) ORDER BY vector_id"
    rows = db.execute(chosen, [json.dumps(wanted.tolist())]).fetchall()
    return np.array([n for n, _ in rows], np.int64), decode_vectors([v for _, v in rows])


def decode_vectors(blobs: list[bytes]) -> Vectors:
    """Stored vectors as an array, (n, d) float32."""
    return np.frombuffer(b"".join(blobs), "<f4").reshape(len(blobs), -1 if blobs else 0)


# Searching


def open_index_file(db: Database, folder: Path, kind: str, dimensions: int) -> tuple[Any, int]:
    """The memory-mapped index file of a kind, and the number of the last vector it may contain; (None, 0) without a file."""
    file = file_of(db, kind)
    if file is None:
        return None, 0
    memory, key = caches_of(folder), f"index file of {kind}"
    name, index = memory.get(key, ("", None))
    if name != file.name:
        index = _mapped(folder, kind, file)
        if index is None and not (folder / Path(file.name).name).exists():
            return None, 0
        memory[key] = (file.name, index)  # None if damaged
    return (index, file.last_number) if index is not None and index.d == dimensions else (None, 0)


def _mapped(folder: Path, kind: str, file: IndexFile) -> Any:
    """The memory-mapped index of a file; None if it is missing or, with a warning, damaged.

    FAISS trusts every offset in a file, so only localrag's layout is accepted. The vectors themselves are in the database.
    """
    import faiss

    path = folder / f"{kind}.faiss"
    try:
        if not re.fullmatch(rf"{kind}\.[0-9a-f]{{16}}\.faiss", file.name):  # the database may name any path
            raise ValueError("its name is not one that localrag gives")
        path = folder / file.name
        with open_own(path) as opened_file:
            size = os.fstat(opened_file.fileno()).st_size
            if size != file.size:
                raise ValueError("its size has changed")
            check_index_file(opened_file, size, file.vectors)
        return faiss.read_index(str(path), faiss.IO_FLAG_MMAP | faiss.IO_FLAG_READ_ONLY)
    except FileNotFoundError:
        return None
    except (OSError, RuntimeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        log.warning("%s is not used and is built again by the next localrag index: %s.", path, reason)
        return None


def search_candidates(index: Any, query: Vectors, n: int, wider: int, inside: VectorNumbers | None) -> VectorNumbers:
    """The numbers of about the `n` vectors nearest to `query`, (d,); fewer if the probed lists have fewer.

    `wider`: factor for the number of probed lists. `inside`: the only numbers to find, sorted; the fewer they are, the more lists are
    probed.
    """
    import faiss as untyped  # its type stubs lack selectors and search parameters

    faiss: Any = untyped
    share, selector = min(1.0, MAX_SCANNED_VECTORS * wider / max(1, index.ntotal)), None
    if inside is not None:
        bits = np.zeros(int(inside[-1]) + 1 if len(inside) else 1, bool)
        bits[inside] = True
        share *= index.ntotal / max(1, len(inside))
        selector = faiss.IDSelectorBitmap(np.packbits(bits, bitorder="little"))
    probed = min(index.nlist, round(index.nlist * share) + 1)
    params = faiss.SearchParametersIVF(nprobe=probed, **({"sel": selector} if selector else {}))
    _, numbers = index.search(query[None, :], min(n, index.ntotal), params=params)
    candidates: VectorNumbers = numbers[0][numbers[0] >= 0]
    return candidates


# Building


def update_indexes(db: Database) -> None:
    """Build or update the index file of each kind with many vectors. The caller holds the writer lock."""
    for kind in VECTOR_KINDS:
        with contextlib.suppress(OSError, RuntimeError):  # disk full: `count_unindexed` reports it
            _update_index(db, folder_of(db), kind)


def count_unindexed(db: Database) -> int:
    """The number of vectors that questions compare exactly, although they are too many, because no index file could be written."""
    total, folder = 0, folder_of(db)
    for kind in VECTOR_KINDS:
        file, size = file_of(db, kind), count_vectors(db, kind)
        has_file = file is not None and (folder / file.name).exists()
        n_unindexed = count_vectors(db, kind, file.last_number) if file is not None and has_file else size
        total += n_unindexed if size > INDEX_FROM_VECTORS and n_unindexed > MAX_UNINDEXED_SHARE * size else 0
    return total


def _update_index(db: Database, folder: Path, kind: str) -> None:
    """Build, update or delete the index file of a kind."""
    file, size = file_of(db, kind), count_vectors(db, kind)
    if size <= INDEX_FROM_VECTORS:
        if file:
            _delete_index_file(db, folder, kind)
        return
    import faiss  # slow import, only where it is needed

    mapped = _mapped(folder, kind, file) if file else None
    if file and mapped is not None and mapped.d == _dimensions(db, kind) and mapped.nlist >= n_lists(size):
        n_new = count_vectors(db, kind, file.last_number)
        if max(n_new, file.vectors - (size - n_new)) <= MAX_UNINDEXED_SHARE * size:
            return
        index, last = faiss.read_index(str(folder / file.name)), file.last_number
        removed = np.setdiff1d(np.concatenate([numbers for _, numbers, _ in _contents(index)]), vector_numbers(db, kind))
        index.remove_ids(faiss.IDSelectorBatch(removed))
    else:
        index, last = _trained_index(db, kind, n_lists(size)), 0
    for batch, vectors in vector_batches(db, kind, last):
        index.add_with_ids(vectors, batch)
        last = int(batch[-1])
    _save_index_file(db, folder, kind, index, last)


def n_lists(size: int) -> int:
    """The number of lists for `size` vectors: a power of 2 near the square root."""
    return int(2 ** round(np.log2(size) / 2))


def _dimensions(db: Database, kind: str) -> int:
    (dimensions,) = db.execute("SELECT length(vector) / 4 FROM embeddings WHERE kind = ? LIMIT 1", [kind]).fetchone()
    return int(dimensions)


def _trained_index(db: Database, kind: str, lists: int) -> Any:
    """An empty index whose lists, and value range per dimension within them, are trained on a sample."""
    import faiss

    numbers = vector_numbers(db, kind)
    sample_numbers = np.random.default_rng(0).choice(numbers, min(len(numbers), TRAINING_VECTORS_PER_LIST * lists), replace=False)
    _, sample = some_vectors(db, np.sort(sample_numbers))
    metric, width = faiss.METRIC_INNER_PRODUCT, sample.shape[1]
    index = faiss.IndexIVFScalarQuantizer(faiss.IndexFlatIP(width), width, lists, faiss.ScalarQuantizer.QT_8bit, metric)
    index.cp.min_points_per_centroid = 1  # avoids a warning for small samples
    index.train(sample)
    return index


def _contents(index: Any) -> Iterator[tuple[int, VectorNumbers, NDArray[np.uint8]]]:
    """The lists of an index that are not empty: list index, numbers of its vectors, and their codes, (n, d)."""
    import faiss

    lists = index.invlists
    for n in range(index.nlist):
        if size := lists.list_size(n):
            codes = faiss.rev_swig_ptr(lists.get_codes(n), size * index.code_size)
            yield n, faiss.rev_swig_ptr(lists.get_ids(n), size).copy(), codes.reshape(size, -1).copy()


def _save_index_file(db: Database, folder: Path, kind: str, index: Any, last_number: int) -> None:
    """Write the index to a new file, and record the file in the database once it is complete."""
    import faiss

    path = folder / f"{kind}.{token_hex(8)}.faiss"
    with atomic_file(path) as part:
        faiss.write_index(index, str(part))
        with part.open("rb") as written:
            os.fsync(written.fileno())
    record_cache_file(path)
    with db.atomic():
        row = [kind, path.name, last_number, index.ntotal, path.stat().st_size]
        db.execute("INSERT OR REPLACE INTO vector_index_files VALUES (?, ?, ?, ?, ?)", row)
    _remove_others(folder, kind, path.name)


def _delete_index_file(db: Database, folder: Path, kind: str) -> None:
    with db.atomic():
        db.execute("DELETE FROM vector_index_files WHERE kind = ?", [kind])
    _remove_others(folder, kind)


def _remove_others(folder: Path, kind: str, name: str = "") -> None:
    for old in folder.glob(f"{kind}.*.faiss"):
        if old.name != name and is_cache(old):
            old.unlink(missing_ok=True)


def matches_vectors(db: Database, folder: Path, kind: str) -> bool | None:
    """Whether the index file of a kind has exactly the vectors it should have; None without a file of this machine."""
    file = file_of(db, kind)
    if file is None or not is_recorded_cache_file(folder / file.name):
        return None
    index = _mapped(folder, kind, file)
    if index is None or index.ntotal != file.vectors:
        return False
    expected, indexed = vector_numbers(db, kind), [np.empty(0, np.int64)]
    for n, list_numbers, codes in _contents(index):
        order = np.argsort(list_numbers)
        existing, vectors = some_vectors(db, list_numbers[order])
        stored = codes[order][np.isin(list_numbers[order], existing)].astype(int)
        if len(existing) and np.abs(_codes(index, n, vectors) - stored).max() > 1:  # processors may round differently
            return False
        indexed.append(existing)
    return np.array_equal(np.sort(np.concatenate(indexed)), expected[expected <= file.last_number])


def _codes(index: Any, n: int, vectors: Vectors) -> NDArray[np.int64]:
    """The codes of vectors, (n, d), in list `n`: one byte per dimension."""
    import faiss

    codes, lists = np.empty((len(vectors), index.code_size), np.uint8), np.full(len(vectors), n, np.int64)
    index.encode_vectors(len(vectors), faiss.swig_ptr(np.ascontiguousarray(vectors)), faiss.swig_ptr(lists), faiss.swig_ptr(codes))
    return codes.astype(int)


ROWS_PER_PAGE = 4096  # staged vectors per query
CANDIDATE_FACTOR = 4  # candidates from the index file per result

_TEXTS = {  # kind → its subjects and the texts to embed
    "chunk": "SELECT id, text FROM chunks",
    "entity": "SELECT id, name || ': ' || description AS text FROM entities ORDER BY degree DESC, name",
    "report": "SELECT community_id AS id, markdown AS text FROM reports",
}


def texts_to_embed(db: Database, kind: str) -> Iterator[tuple[str, str]]:
    """The subjects of a kind with the texts to embed; chunks are prefixed with their document's header if the index is set so."""
    if kind != "chunk" or not runs.load_settings(db).get("prepend_metadata"):
        yield from db.execute(_TEXTS[kind])
        return
    headers = documents.document_headers(db)
    for key, document, text in db.execute("SELECT id, document_id, text FROM chunks"):
        yield key, f"{headers[document]}\n{text}"


def without_subject(db: Database, kind: str) -> Iterator[str]:
    """The subjects of stored vectors of a kind that no longer exist."""
    exists = f"SELECT 1 FROM ({_TEXTS[kind]}) t WHERE t.id = e.subject_id"
    return (key for (key,) in db.execute(f"SELECT subject_id FROM embeddings e WHERE kind = ? AND NOT EXISTS ({exists})", [kind]))


def texts_of(db: Database, kind: str, ids: Sequence[str]) -> dict[str, str]:
    """Subject id → text to embed, of the given entities or reports."""
    chosen = f"SELECT * FROM ({_TEXTS[kind]}) WHERE id IN (SELECT value FROM json_each(?))"
    return dict(db.execute(chosen, [json.dumps(list(ids))]))


def delete_stale_vectors(db: Database, kind: str, embedder: str, texts_of: Callable[[Sequence[str]], Mapping[str, str]]) -> None:
    """Delete staged vectors of another embedder, or of another text than `texts_of` returns for their subject."""
    last = ""
    page = "SELECT subject_id, content_hash, embedder FROM staged_embeddings WHERE kind = ? AND subject_id > ? ORDER BY subject_id LIMIT ?"
    while rows := db.execute(page, [kind, last, ROWS_PER_PAGE]).fetchall():
        last, current = rows[-1][0], texts_of([row[0] for row in rows])
        stale = [
            key
            for key, content_hash, row_embedder in rows
            if row_embedder != embedder or key not in current or content_id(current[key]) != content_hash
        ]
        with db.atomic():
            inside = "IN (SELECT value FROM json_each(?))"
            db.execute(f"DELETE FROM staged_embeddings WHERE kind = ? AND subject_id {inside}", [kind, json.dumps(stale)])


def subjects_without_vector_of(db: Database, kind: str, hashes: Mapping[str, str], embedder: str) -> list[str]:
    """The subjects (subject id → content hash) without a vector of this embedder, published or staged.

    Their staged vectors of another content or another embedder are deleted.
    """
    values = [kind, json.dumps(list(hashes))]
    inside = "kind = ? AND subject_id IN (SELECT value FROM json_each(?))"
    staged = {
        key: row for key, *row in db.execute(f"SELECT subject_id, content_hash, embedder FROM staged_embeddings WHERE {inside}", values)
    }
    stale = [key for key, content in staged.items() if content != [hashes[key], embedder]]
    if stale:
        with db.atomic():
            db.execute(f"DELETE FROM staged_embeddings WHERE {inside}", [kind, json.dumps(stale)])
    stored = dict(db.execute(f"SELECT subject_id, content_hash FROM embeddings WHERE {inside} AND embedder = ?", [*values, embedder]))
    stored |= {key: staged[key][0] for key in staged.keys() - set(stale)}
    return [subject for subject, content_hash in hashes.items() if stored.get(subject) != content_hash]


def save_vectors(
    db: Database,
    kind: str,
    embedder: str,
    subjects: Sequence[str],
    hashes: Mapping[str, str],
    vectors: NDArray[np.float32],
    *,
    waits: Container[str] = (),
) -> None:
    """Commit vectors, (n, d) float32, one per subject; those of subjects in `waits` are staged for the next generation."""
    published, staged = list[dict[str, Any]](), list[dict[str, Any]]()
    for s, v in zip(subjects, vectors, strict=True):
        row = {"kind": kind, "subject_id": s, "content_hash": hashes[s], "embedder": embedder, "vector": v.astype("<f4").tobytes()}
        (staged if s in waits else published).append(row)
    with db.atomic():
        db.table("embeddings").insert_all(published, replace=True)
        db.table("staged_embeddings").insert_all(staged, replace=True)


def vectors_by_content(db: Database, kind: str, embedder: str, hashes: Iterable[str]) -> dict[str, NDArray[np.float32]]:
    """Content hash → vector of this embedder, (d,) float32, published or staged; only those that exist."""
    select = "SELECT content_hash, vector FROM {} WHERE kind = ? AND +embedder = ? AND content_hash IN (SELECT value FROM json_each(?))"
    values = [kind, embedder, json.dumps(list(hashes))]
    rows = (row for table in ("embeddings", "staged_embeddings") for row in db.execute(select.format(table), values))
    return {key: np.frombuffer(vector, "<f4") for key, vector in rows}


def load_vectors(db: Database, kind: str, ids: Sequence[str] | None = None) -> tuple[list[str], NDArray[np.float32]]:
    """The subjects of a kind with their vectors, (n, d) float32, all or those of `ids` that have one; sorted by id."""
    where, values = ("", []) if ids is None else ("AND subject_id IN (SELECT value FROM json_each(?))", [json.dumps(list(ids))])
    rows = list(db.query(f"SELECT subject_id, vector FROM embeddings WHERE kind = ? {where} ORDER BY subject_id", [kind, *values]))
    if not rows:
        return [], np.empty((0, 0), np.float32)
    vectors = np.frombuffer(b"".join(r["vector"] for r in rows), "<f4").reshape(len(rows), -1)
    return [r["subject_id"] for r in rows], vectors


def vectors_state(db: Database, kind: str) -> str:
    """The version of the vectors of a kind: a trigger changes it with every change of them."""
    row = next(iter(db.query("SELECT version FROM vector_versions WHERE kind = ?", [kind])), None)
    return "" if row is None else str(row["version"])


def nearest(db: Database, folder: Path, kind: str, query: NDArray[np.float32], k: int) -> list[tuple[str, float]]:
    """The `k` subjects of a kind closest to `query` ((d,) float32, L2-normalized), best first, as (id, cosine); fewer if fewer exist.

    Uses the index file if there is one, and compares all other vectors exactly.
    """
    if k < 1:
        return []
    query_vector = np.ascontiguousarray(query, np.float32)
    inside = db.vector_ids(kind) if isinstance(db, FilteredDatabase) else None
    index, last = open_index_file(db, folder, kind, len(query_vector))
    best = TopK(k)
    for numbers, matrix in _matrix_of(db, folder, kind, last):
        is_selected = slice(None) if inside is None else np.isin(numbers, inside, assume_unique=True)
        best.add(numbers[is_selected], (matrix @ query_vector)[is_selected])
    if index is not None:
        best.add(*_search_index(db, index, query_vector, k, inside))
    return best.results(db)


class TopK:
    """The best vectors so far: their numbers and cosines."""

    def __init__(self, k: int) -> None:
        self.k = k
        self.numbers, self.cosines = np.empty(0, np.int64), np.empty(0, np.float32)

    def add(self, numbers: VectorNumbers, cosines: NDArray[np.float32]) -> None:
        """Add vectors and keep the `k` best, including ties with the last."""
        numbers, cosines = np.concatenate([self.numbers, numbers]), np.concatenate([self.cosines, cosines])
        if self.k < len(cosines):
            is_kept = cosines >= np.partition(cosines, -self.k)[-self.k]
            numbers, cosines = numbers[is_kept], cosines[is_kept]
        self.numbers, self.cosines = numbers, cosines

    def results(self, db: Database) -> list[tuple[str, float]]:
        """The `k` best as (id, cosine); ties by id."""
        select = "SELECT vector_id, subject_id FROM embeddings WHERE vector_id IN (SELECT value FROM json_each(?))"
        names = dict(db.execute(select, [json.dumps(self.numbers.tolist())]))
        rows = [(names[n], s) for n, s in zip(self.numbers.tolist(), self.cosines.tolist(), strict=True) if n in names]
        return sorted(rows, key=lambda row: (-row[1], row[0]))[: self.k]


def _search_index(
    db: Database, index: Any, query: NDArray[np.float32], k: int, inside: VectorNumbers | None
) -> tuple[VectorNumbers, NDArray[np.float32]]:
    """Candidates of the index file with their exact cosines; widens the search while many candidates are deleted vectors."""
    enough, wider = min(2 * k, index.ntotal if inside is None else len(inside)), 1
    while True:
        candidates = search_candidates(index, query, CANDIDATE_FACTOR * k * wider, wider, inside)
        numbers, matrix = some_vectors(db, candidates)
        if len(numbers) >= enough or wider >= index.ntotal:
            return numbers, matrix @ query if len(numbers) else np.empty(0, np.float32)
        wider *= 4


def _matrix_of(db: Database, folder: Path, kind: str, above: int) -> Iterable[tuple[VectorNumbers, Vectors]]:
    """The vectors of a kind with numbers greater than `above`: from memory, or in batches if they are too many for it."""
    state = f"{vectors_state(db, kind)} {above}"
    memory, name = caches_of(folder), f"vectors of {kind}"
    cached = memory.get(name, ("", np.empty(0, np.int64), np.empty((0, 0), np.float32)))
    if cached[0] != state:
        if count_vectors(db, kind, above) > INDEX_FROM_VECTORS:
            return vector_batches(db, kind, above)
        cached = memory[name] = (state, *_refreshed_matrix(db, kind, vector_numbers(db, kind, above), *cached[1:]))
    return [cached[1:]] if len(cached[1]) else []


def _refreshed_matrix(
    db: Database, kind: str, wanted: VectorNumbers, numbers: VectorNumbers, matrix: Vectors
) -> tuple[VectorNumbers, Vectors]:
    """The `wanted` vectors of a kind: those already in memory, and the others from the database."""
    is_kept = np.isin(numbers, wanted, assume_unique=True)
    new = np.setdiff1d(wanted, numbers, assume_unique=True)
    if not len(new):
        return numbers[is_kept], matrix[is_kept]
    filled, all_numbers, all_vectors = int(is_kept.sum()), np.empty(len(wanted), np.int64), np.empty((0, 0), np.float32)
    all_numbers[:filled] = numbers[is_kept]
    for batch, vectors in vector_batches(db, kind, int(new.min()) - 1):
        if not all_vectors.size:
            all_vectors = np.empty((len(wanted), vectors.shape[1]), np.float32)
            all_vectors[:filled] = matrix[is_kept] if filled else 0  # without vectors in memory the dimension was unknown
        is_new = np.isin(batch, new, assume_unique=True)
        end = filled + int(is_new.sum())
        all_numbers[filled:end], all_vectors[filled:end] = batch[is_new], vectors[is_new]
        filled = end
    return all_numbers, all_vectors


def index_files(db: Database, folder: Path) -> list[Path]:
    """The paths of the current index files."""
    return [folder / file.name for kind in VECTOR_KINDS if (file := file_of(db, kind))]


def name_vectors(db: Database, embedder: str) -> dict[str, NDArray[np.float32]]:
    """Name → its vector of this embedder, (d,) float32, of names that were compared by meaning."""
    rows = db.execute("SELECT name, vector FROM name_embeddings WHERE embedder = ?", [embedder])
    return {name: np.frombuffer(vector, "<f4") for name, vector in rows}


def save_name_vectors(db: Database, embedder: str, added: Mapping[str, NDArray[np.float32]], removed: Iterable[str]) -> None:
    """Store the `added` vectors of names, and delete those of `removed` names and of other embedders."""
    with db.atomic():
        db.execute("DELETE FROM name_embeddings WHERE embedder <> ?", [embedder])
        db.conn.executemany("DELETE FROM name_embeddings WHERE name = ?", [(name,) for name in removed])
        rows = [(name, embedder, vector.astype("<f4").tobytes()) for name, vector in added.items()]
        db.conn.executemany("INSERT OR REPLACE INTO name_embeddings VALUES (?, ?, ?)", rows)
