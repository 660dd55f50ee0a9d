"""Vectors as float32 blobs in SQLite, and their nearest neighbors, exact or by way of a FAISS file.

A kind with more than INDEX_FROM_VECTORS vectors gets a FAISS file (IVF, one byte per dimension), built while indexing and memory-mapped by
questions. It only proposes candidates: cosines are computed from the vectors in the database, so entries of deleted vectors do no harm.
Newer vectors are compared exactly until they exceed MAX_UNINDEXED_SHARE; then the file is built again. Vector numbers are never reused, so
a file that the database names stays valid. FAISS trusts the offsets in a file, so only files that this machine wrote are read.
"""

import contextlib
import json
import logging
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlite_utils import Database

from localrag.records import content_id
from localrag.store import documents, runs
from localrag.store.database import caches_of, folder_of, is_cache
from localrag.store.filtered import FilteredDatabase
from localrag.system.files import atomic_file
from localrag.system.trust import is_recorded_cache_file, record_cache_file

VECTOR_KINDS = {"chunk": "chunks", "entity": "entities", "report": "reports"}  # kind → plural, for messages
INDEX_FROM_VECTORS = 100_000  # vectors of a kind; fewer are compared exactly, from memory: 24 ms a question, and 0.4 s to read them
MAX_UNINDEXED_SHARE = 0.05  # share of missing or deleted vectors above which a file is built again
MAX_SCANNED_VECTORS = 500_000  # vectors in the probed lists, some 25 ms; questions unlike the documents need many
TRAINING_VECTORS_PER_LIST = 64  # training vectors per list
ADD_BATCH = 16_384  # vectors per read

log = logging.getLogger(__name__)

VectorNumbers = NDArray[np.int64]
Vectors = NDArray[np.float32]
StoredVector = tuple[Vectors, bytes]  # (d,), and the windows of its text as `encode_windows` gives them, of chunks only


@dataclass(frozen=True, slots=True)
class IndexFile:
    """The index file of a kind: its name, and the number of the last vector it may contain."""

    name: str
    last_number: int


def file_of(db: Database, kind: str) -> IndexFile | None:
    """The index file that the database names for a kind, whether it exists or not."""
    row = db.execute("SELECT value FROM index_settings WHERE key = ?", [_setting(kind)]).fetchone()
    return IndexFile(*json.loads(row[0])) if row else None


def _setting(kind: str) -> str:
    """The setting that names the index file of a kind; it stays on the machine that wrote the file."""
    return f"{kind}_index_file"


INDEX_FILE_SETTINGS = frozenset(map(_setting, VECTOR_KINDS))


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


def encode_windows(spans: NDArray[np.int32], windows: Vectors) -> bytes:
    """The windows of a text, (m, 2) characters and (m, d) vectors, as they are stored: half the size, which does for comparing them."""
    packed = np.empty(len(spans), _window_type(windows.shape[1]))
    packed["span"], packed["vector"] = spans, windows
    return packed.tobytes()


def _window_type(width: int) -> np.dtype[Any]:
    return np.dtype([("span", "<i4", (2,)), ("vector", "<f2", (width,))])


def load_windows(db: Database) -> tuple[list[str], NDArray[np.int32], Vectors]:
    """The windows of all chunks in the order of their documents: chunk ids, characters in the chunk, (m, 2), and vectors, (m, d)."""
    select = "SELECT c.id, length(c.text), length(e.vector) / 4, e.windows FROM chunks c JOIN embeddings e ON e.subject_id = c.id"
    ids, parts, width = list[str](), list[NDArray[Any]](), 0
    for key, size, width, blob in db.execute(f"{select} WHERE e.kind = 'chunk' ORDER BY c.document_id, c.ordinal"):
        if len(blob) % _window_type(width).itemsize:
            continue  # damaged
        windows = np.frombuffer(blob, _window_type(width)).copy()
        windows["span"] -= max(0, int(windows["span"].max(initial=0)) - size)  # the header of the document, where it was embedded too
        windows = windows[windows["span"][:, 1] > 0]
        ids += [key] * len(windows)
        parts.append(windows)
    found = np.concatenate(parts) if parts else np.empty(0, _window_type(1))
    return ids, np.maximum(found["span"], 0), np.nan_to_num(found["vector"].astype(np.float32))


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
    if memory.get(key, ("",))[0] != file.name:
        memory[key] = (file.name, _mapped(folder, kind, file))
    index = memory[key][1]
    return (index, file.last_number) if index is not None and index.d == dimensions else (None, 0)


def _mapped(folder: Path, kind: str, file: IndexFile) -> Any:
    """The memory-mapped index of a file; None if it is missing or, with a warning, not as this machine wrote it."""
    import faiss

    path = folder / f"{kind}.faiss"
    try:
        if not re.fullmatch(rf"{kind}\.[0-9a-f]{{16}}\.faiss", file.name):  # the database may name any path
            raise ValueError("its name is not one that localrag gives")
        path = folder / file.name
        path.lstat()
        if not is_recorded_cache_file(path):
            raise ValueError("it was not written on this machine, or was changed")
        return faiss.read_index(str(path), faiss.IO_FLAG_MMAP | faiss.IO_FLAG_READ_ONLY)
    except FileNotFoundError:
        return None
    except (OSError, RuntimeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
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
    """Build the index file of each kind with many vectors, if it is missing or too old. The caller holds the writer lock."""
    for kind in VECTOR_KINDS:
        with contextlib.suppress(OSError, RuntimeError):  # disk full: `check` reports it
            _update_index(db, folder_of(db), kind)


def _update_index(db: Database, folder: Path, kind: str) -> None:
    """Build or delete the index file of a kind."""
    file, size = file_of(db, kind), count_vectors(db, kind)
    if size <= INDEX_FROM_VECTORS:
        if file:
            with db.atomic():
                db.execute("DELETE FROM index_settings WHERE key = ?", [_setting(kind)])
            _remove_others(folder, kind)
        return
    mapped = _mapped(folder, kind, file) if file else None
    dimensions = db.execute("SELECT length(vector) / 4 FROM embeddings WHERE kind = ? LIMIT 1", [kind]).fetchone()[0]
    if file and mapped is not None and mapped.d == dimensions:
        n_new = count_vectors(db, kind, file.last_number)
        if max(n_new, mapped.ntotal - (size - n_new)) <= MAX_UNINDEXED_SHARE * size:
            return
    index, last = _trained_index(db, kind, 2 ** round(np.log2(size) / 2)), 0  # near the square root
    for batch, vectors in vector_batches(db, kind):
        index.add_with_ids(vectors, batch)
        last = int(batch[-1])
    _save_index_file(db, folder, kind, index, last)


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


def _save_index_file(db: Database, folder: Path, kind: str, index: Any, last_number: int) -> None:
    """Write the index to a new file, and record the file in the database once it is complete."""
    import faiss

    path = folder / f"{kind}.{token_hex(8)}.faiss"
    with atomic_file(path) as part:
        faiss.write_index(index, str(part))
    record_cache_file(path)
    runs.save_settings(db, **{_setting(kind): [path.name, last_number]})
    _remove_others(folder, kind, path.name)


def _remove_others(folder: Path, kind: str, name: str = "") -> None:
    for old in folder.glob(f"{kind}.*.faiss"):
        if old.name != name and is_cache(old):
            old.unlink(missing_ok=True)


def matches_vectors(db: Database, folder: Path, kind: str) -> bool | None:
    """Whether the index file of a kind has exactly the vectors it should have; None without a file of this machine."""
    file = file_of(db, kind)
    if file is None or not is_recorded_cache_file(folder / file.name):
        return None
    index, expected = _mapped(folder, kind, file), vector_numbers(db, kind)
    return index is not None and np.array_equal(np.intersect1d(numbers_in(index), expected), expected[expected <= file.last_number])


def numbers_in(index: Any) -> VectorNumbers:
    """The numbers of the vectors in an index, unordered."""
    import faiss

    lists, parts = index.invlists, [np.empty(0, np.int64)]
    for n in range(index.nlist):
        if size := lists.list_size(n):
            parts.append(faiss.rev_swig_ptr(lists.get_ids(n), size).copy())
    return np.concatenate(parts)


ROWS_PER_PAGE = 4096  # staged vectors per query
CANDIDATE_FACTOR = 4  # candidates from the index file per result

ENTITY_TEXT = "name || ': ' || substr(description, 1, 200)"  # of an entity, to embed: its first sentences tell what it is
_TEXTS = {  # kind → its subjects and the texts to embed
    "chunk": "SELECT id, text FROM chunks",
    "entity": f"SELECT id, {ENTITY_TEXT} AS text FROM entities ORDER BY degree DESC, name",
    "report": "SELECT community_id AS id, title || char(10) || summary AS text FROM reports",
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
    windows: Sequence[bytes] = (),
    waits: Container[str] = (),
) -> None:
    """Commit vectors, (n, d) float32, one per subject; those of subjects in `waits` are staged for the next generation.

    `windows`: of each subject, as `encode_windows` gives them; of chunks only.
    """
    published, staged = list[dict[str, Any]](), list[dict[str, Any]]()
    for s, v, w in zip(subjects, vectors, windows or [b""] * len(subjects), strict=True):
        row = {"kind": kind, "subject_id": s, "content_hash": hashes[s], "embedder": embedder, "vector": v.astype("<f4").tobytes()}
        (staged if s in waits else published).append(row | {"windows": w})
    with db.atomic():
        db.table("embeddings").insert_all(published, replace=True)
        db.table("staged_embeddings").insert_all(staged, replace=True)


def vectors_by_content(db: Database, kind: str, embedder: str, hashes: Iterable[str]) -> dict[str, StoredVector]:
    """Content hash → vector of this embedder, published or staged; only those that exist."""
    select = (
        "SELECT content_hash, vector, windows FROM {} WHERE kind = ? AND +embedder = ? AND content_hash IN (SELECT value FROM json_each(?))"
    )
    values = [kind, embedder, json.dumps(list(hashes))]
    rows = (row for table in ("embeddings", "staged_embeddings") for row in db.execute(select.format(table), values))
    return {key: (np.frombuffer(vector, "<f4"), windows) for key, vector, windows in rows}


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

    Uses the index file if there is one, and compares all other vectors exactly. Ties are in the order of their ids.
    """
    if k < 1:
        return []
    query_vector = np.ascontiguousarray(query, np.float32)
    inside = db.vector_ids(kind) if isinstance(db, FilteredDatabase) else None
    index, last = open_index_file(db, folder, kind, len(query_vector))
    compared = [(numbers, matrix @ query_vector) for numbers, matrix in _matrix_of(db, folder, kind, last)]
    if index is not None:
        compared.append(_search_index(db, index, query_vector, k, inside))
    if not compared:
        return []
    numbers, cosines = map(np.concatenate, zip(*compared, strict=True))
    if inside is not None:
        is_selected = np.isin(numbers, inside, assume_unique=True)
        numbers, cosines = numbers[is_selected], cosines[is_selected]
    if k < len(cosines):
        is_kept = cosines >= np.partition(cosines, -k)[-k]
        numbers, cosines = numbers[is_kept], cosines[is_kept]
    select = "SELECT vector_id, subject_id FROM embeddings WHERE vector_id IN (SELECT value FROM json_each(?))"
    subjects = dict(db.execute(select, [json.dumps(numbers.tolist())]))
    rows = [(subjects[n], cosine) for n, cosine in zip(numbers.tolist(), cosines.tolist(), strict=True) if n in subjects]
    return sorted(rows, key=lambda row: (-row[1], row[0]))[:k]


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
    cached = memory.get(name, ("",))
    if cached[0] != state:
        batches = vector_batches(db, kind, above)
        if count_vectors(db, kind, above) > INDEX_FROM_VECTORS:
            return batches
        numbers, matrices = list[VectorNumbers](), list[Vectors]()
        for batch, vectors in batches:
            numbers.append(batch)
            matrices.append(vectors)
        cached = memory[name] = (state, *([(np.concatenate(numbers), np.concatenate(matrices))] if numbers else []))
    return cached[1:]
