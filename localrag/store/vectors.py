"""Vectors as float32 blobs in SQLite; FAISS indexes built from them and kept beside the database as a cache."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlite_utils import Database

from localrag.records import content_id

FLAT_LIMIT = 250_000  # exact search up to here, HNSW above: 61 ms a query at 250k x 384


def missing(db: Database, kind: str, hashes: Mapping[str, str], embedder: str) -> list[str]:
    """The subjects whose content (subject id → content hash) has no vector of this embedder yet."""
    rows = db.query("SELECT subject_id, content_hash FROM embeddings WHERE kind = ? AND embedder = ?", [kind, embedder])
    have = {row["subject_id"]: row["content_hash"] for row in rows}
    return [subject for subject, content_hash in hashes.items() if have.get(subject) != content_hash]


def save(db: Database, kind: str, embedder: str, subjects: Sequence[str], hashes: Mapping[str, str], vectors: NDArray[np.float32]) -> None:
    """Commit vectors, (n, d) float32, one per subject."""
    rows = (
        {"kind": kind, "subject_id": s, "content_hash": hashes[s], "embedder": embedder, "vector": v.astype("<f4").tobytes()}
        for s, v in zip(subjects, vectors, strict=True)
    )
    with db.atomic():
        db.table("embeddings").insert_all(rows, replace=True)


def load(db: Database, kind: str) -> tuple[list[str], NDArray[np.float32]]:
    """All subjects of a kind with their vectors, (n, d) float32."""
    rows = list(db.query("SELECT subject_id, vector FROM embeddings WHERE kind = ? ORDER BY subject_id", [kind]))
    if not rows:
        return [], np.empty((0, 0), np.float32)
    vectors = np.frombuffer(b"".join(r["vector"] for r in rows), "<f4").reshape(len(rows), -1)
    return [r["subject_id"] for r in rows], vectors


def nearest(db: Database, folder: Path, kind: str, query: NDArray[np.float32], k: int) -> list[tuple[str, float]]:
    """The `k` subjects of a kind closest to `query` ((d,) float32, L2-normalised), best first, as (id, cosine); fewer if fewer exist."""
    ids = [r["subject_id"] for r in db.query("SELECT subject_id FROM embeddings WHERE kind = ? ORDER BY subject_id", [kind])]
    if not ids:
        return []
    index = _faiss_index(db, folder, kind)
    scores, rows = index.search(query[None, :].astype(np.float32), min(k, len(ids)))
    return [(ids[row], float(score)) for row, score in zip(rows[0], scores[0], strict=True) if row >= 0]


def _faiss_index(db: Database, folder: Path, kind: str) -> Any:
    """The FAISS index of a kind, from its file where that was built from exactly the vectors in the database, else built anew."""
    import faiss

    rows = db.query("SELECT subject_id, content_hash, embedder FROM embeddings WHERE kind = ? ORDER BY subject_id", [kind])
    state = content_id(*(f"{r['subject_id']} {r['content_hash']} {r['embedder']}" for r in rows))
    path = folder / f"{kind}.{state}.faiss"
    if path.exists():
        try:
            return faiss.read_index(str(path))
        except RuntimeError:
            path.unlink(missing_ok=True)  # torn: the vectors themselves are in the database
    _, vectors = load(db, kind)
    if len(vectors) <= FLAT_LIMIT:
        index: Any = faiss.IndexFlatIP(vectors.shape[1])
    else:
        index = faiss.IndexHNSWFlat(vectors.shape[1], 32, faiss.METRIC_INNER_PRODUCT)
    index.add(vectors)
    try:
        for old in folder.glob(f"{kind}.*.faiss"):
            old.unlink(missing_ok=True)
        part = path.with_suffix(".part")
        faiss.write_index(index, str(part))
        part.replace(path)
    except (OSError, RuntimeError):  # a folder that cannot be written to: the index in memory serves as well
        return index
    return index
