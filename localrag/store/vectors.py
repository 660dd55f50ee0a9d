"""Vectors as float32 blobs in SQLite; FAISS indexes built from them and kept beside the database as a cache."""

import contextlib
import json
from collections.abc import Container, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlite_utils import Database

from localrag.records import Entity
from localrag.store import corpus, ledger
from localrag.store.selection import Selected
from localrag.system.files import new_file

FLAT_LIMIT = 250_000  # exact search up to here, HNSW above: 61 ms a query at 250k x 384


KINDS = {"chunk": "chunks", "entity": "entities", "report": "reports"}  # what has a vector
_TEXTS = {  # the text that it is the vector of
    "chunk": "SELECT id, text FROM chunks",
    "entity": "SELECT id, name || ': ' || description AS text FROM entities ORDER BY degree DESC, name",  # as entity_text
    "report": "SELECT community_id AS id, markdown AS text FROM reports",
}


def entity_text(entity: Entity) -> str:
    """What the vector of an entity is made of."""
    return f"{entity.name}: {entity.description}"


def texts(db: Database, kind: str, ids: Sequence[str] | None = None) -> dict[str, str]:
    """Subject id → the text that its vector is made of, of all subjects of a kind, or of some; chunks behind their document's header if so
    set.
    """
    if ids is not None:
        chosen = f"SELECT * FROM ({_TEXTS[kind]}) WHERE id IN (SELECT value FROM json_each(?))"
        return dict(db.execute(chosen, [json.dumps(list(ids))]))
    found = {row["id"]: row["text"] for row in db.query(_TEXTS[kind])}
    if kind != "chunk" or not ledger.settings(db).get("prepended"):
        return found
    headers = corpus.document_headers(db)
    return {row["id"]: f"{headers[row['document_id']]}\n{found[row['id']]}" for row in db.query("SELECT id, document_id FROM chunks")}


def missing(db: Database, kind: str, hashes: Mapping[str, str], embedder: str) -> list[str]:
    """The subjects whose content (subject id → content hash) has no vector of this embedder yet, published or waiting.

    Vectors that wait and are of another content, or another embedder's, are dropped.
    """
    rows = db.query("SELECT subject_id, content_hash, embedder FROM next_embeddings WHERE kind = ?", [kind])
    waiting = {row["subject_id"]: (row["content_hash"], row["embedder"]) for row in rows}
    stale = [subject for subject, found in waiting.items() if found != (hashes.get(subject), embedder)]
    with db.atomic():
        db.execute(
            "DELETE FROM next_embeddings WHERE kind = ? AND subject_id IN (SELECT value FROM json_each(?))", [kind, json.dumps(stale)]
        )
    known = (
        "SELECT subject_id, content_hash FROM embeddings WHERE kind = ? AND embedder = ? AND subject_id IN (SELECT value FROM json_each(?))"
    )
    rows = db.query(known, [kind, embedder, json.dumps(list(hashes))])
    have = {row["subject_id"]: row["content_hash"] for row in rows} | {s: waiting[s][0] for s in waiting.keys() - set(stale)}
    return [subject for subject, content_hash in hashes.items() if have.get(subject) != content_hash]


def save(
    db: Database,
    kind: str,
    embedder: str,
    subjects: Sequence[str],
    hashes: Mapping[str, str],
    vectors: NDArray[np.float32],
    *,
    waits: Container[str] = (),
) -> None:
    """Commit vectors, (n, d) float32, one per subject; those of `waits` for the next generation."""
    published, waiting = list[dict[str, Any]](), list[dict[str, Any]]()
    for s, v in zip(subjects, vectors, strict=True):
        row = {"kind": kind, "subject_id": s, "content_hash": hashes[s], "embedder": embedder, "vector": v.astype("<f4").tobytes()}
        (waiting if s in waits else published).append(row)
    with db.atomic():
        db.table("embeddings").insert_all(published, replace=True)
        db.table("next_embeddings").insert_all(waiting, replace=True)


def load(db: Database, kind: str, ids: Sequence[str] | None = None) -> tuple[list[str], NDArray[np.float32]]:
    """All subjects of a kind with their vectors, (n, d) float32, or those of the given ones that have a vector; sorted by id."""
    where, values = ("", []) if ids is None else ("AND subject_id IN (SELECT value FROM json_each(?))", [json.dumps(list(ids))])
    rows = list(db.query(f"SELECT subject_id, vector FROM embeddings WHERE kind = ? {where} ORDER BY subject_id", [kind, *values]))
    if not rows:
        return [], np.empty((0, 0), np.float32)
    vectors = np.frombuffer(b"".join(r["vector"] for r in rows), "<f4").reshape(len(rows), -1)
    return [r["subject_id"] for r in rows], vectors


def state_of(db: Database, kind: str) -> str:
    """Which vectors of a kind there are: another text after every change of them (a trigger sees to it)."""
    row = next(iter(db.query("SELECT state FROM vector_states WHERE kind = ?", [kind])), None)
    return "" if row is None else str(row["state"])


def nearest(db: Database, folder: Path, kind: str, query: NDArray[np.float32], k: int) -> list[tuple[str, float]]:
    """The `k` subjects of a kind closest to `query` ((d,) float32, L2-normalised), best first, as (id, cosine); fewer if fewer exist."""
    ids, index = _loaded(db, folder, kind)
    if not ids:
        return []
    asked = query[None, :].astype(np.float32)
    if isinstance(db, Selected):
        searched, params, k = _among(db, kind, ids, index, k)
        scores, rows = searched.search(asked, max(1, k), params=params)
    else:
        scores, rows = index.search(asked, min(k, len(ids)))
    return [(ids[row], float(score)) for row, score in zip(rows[0], scores[0], strict=True) if row >= 0]


def _among(db: Selected, kind: str, ids: Sequence[str], index: Any, k: int) -> tuple[Any, Any, int]:
    """What to search, and how, so that only selected subjects are found; and how many of `k` there can be.

    It is exact where the selected are few enough for it: a network of neighbours (HNSW) may lead past them, so its vectors are compared.
    """
    import faiss as untyped  # whose types know neither selectors nor the parameters of a search

    faiss: Any = untyped

    if ("bitmap", kind) not in db.kept:
        inside = db.subjects(kind)
        db.kept["bitmap", kind] = np.fromiter((i in inside for i in ids), bool, len(ids))
    bitmap = db.kept["bitmap", kind]
    chosen, selector = int(bitmap.sum()), faiss.IDSelectorBitmap(np.packbits(bitmap, bitorder="little"))
    k = min(k, chosen)
    if not isinstance(index, faiss.IndexHNSW):
        return index, faiss.SearchParameters(sel=selector), k
    if chosen <= FLAT_LIMIT:
        return faiss.downcast_index(index.storage), faiss.SearchParameters(sel=selector), k
    return index, faiss.SearchParametersHNSW(sel=selector, efSearch=max(64, k)), k


_kept: dict[tuple[Path, str], tuple[str, list[str], Any]] = {}  # of this process, which may ask many questions


def _loaded(db: Database, folder: Path, kind: str) -> tuple[list[str], Any]:
    """The subjects of a kind and their FAISS index, from memory while the vectors are the same."""
    state = state_of(db, kind)
    if _kept.get((folder, kind), ("", [], None))[0] != state or not state:
        ids = [r["subject_id"] for r in db.query("SELECT subject_id FROM embeddings WHERE kind = ? ORDER BY subject_id", [kind])]
        _kept[folder, kind] = (state, ids, _faiss_index(db, folder, kind, state, len(ids)) if ids else None)
    return _kept[folder, kind][1:]


def _faiss_index(db: Database, folder: Path, kind: str, state: str, size: int) -> Any:
    """The FAISS index of a kind, from its file where that was built from exactly the vectors in the database, else built anew."""
    import faiss

    index: Any = None
    path = _file(folder, kind, state)
    if path.exists():
        with contextlib.suppress(RuntimeError):
            index = faiss.read_index(str(path))
        if index is not None and index.ntotal == size:
            return index
        path.unlink(missing_ok=True)  # torn: the vectors themselves are in the database
    _, vectors = load(db, kind)
    if len(vectors) <= FLAT_LIMIT:
        index = faiss.IndexFlatIP(vectors.shape[1])
    else:
        index = faiss.IndexHNSWFlat(vectors.shape[1], 32, faiss.METRIC_INNER_PRODUCT)
    index.add(vectors)
    try:
        for old in folder.glob(f"{kind}.*.faiss"):
            old.unlink(missing_ok=True)
        with new_file(path) as part:
            faiss.write_index(index, str(part))
    except (OSError, RuntimeError):  # a folder that cannot be written to: the index in memory serves as well
        return index
    return index


def _file(folder: Path, kind: str, state: str) -> Path:
    return folder / f"{kind}.{state}.faiss"


def files(db: Database, folder: Path) -> list[Path]:
    """Where the FAISS indexes of the present vectors are kept."""
    return [_file(folder, kind, state_of(db, kind)) for kind in KINDS]


def same(db: Database, folder: Path, kind: str) -> bool:
    """Whether the kept FAISS index of the present vectors of a kind holds just these."""
    import faiss

    ids, stored = load(db, kind)
    try:
        index = faiss.read_index(str(_file(folder, kind, state_of(db, kind))))
    except RuntimeError:
        return False
    return index.ntotal == len(ids) and np.array_equal(index.reconstruct_n(0, len(ids)), stored)


def of_names(db: Database, embedder: str) -> dict[str, NDArray[np.float32]]:
    """Names that were compared by meaning → their vectors, (d,) float32, of this embedder."""
    rows = db.execute("SELECT name, vector FROM name_vectors WHERE embedder = ?", [embedder])
    return {name: np.frombuffer(vector, "<f4") for name, vector in rows}


def keep_names(db: Database, embedder: str, made: Mapping[str, NDArray[np.float32]], gone: Iterable[str]) -> None:
    """Keep vectors of names, and forget those of others and of other embedders."""
    with db.atomic():
        db.execute("DELETE FROM name_vectors WHERE embedder <> ?", [embedder])
        db.conn.executemany("DELETE FROM name_vectors WHERE name = ?", [(name,) for name in gone])
        rows = [(name, embedder, vector.astype("<f4").tobytes()) for name, vector in made.items()]
        db.conn.executemany("INSERT OR REPLACE INTO name_vectors VALUES (?, ?, ?)", rows)
