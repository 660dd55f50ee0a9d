"""Vectors as float32 blobs in SQLite, and the search for those nearest a question's."""

import json
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlite_utils import Database

from localrag.records import Entity, content_id
from localrag.store import corpus, ledger, vector_index
from localrag.store.memory import memory_of
from localrag.store.selection import Selected
from localrag.store.vector_index import Numbers, Vectors

PAGE = 4096  # vectors that wait and are looked at together
CANDIDATES = 4  # times as many vectors as are wanted are looked at, of those that an index file has near a question

_TEXTS = {  # the text that it is the vector of
    "chunk": "SELECT id, text FROM chunks",
    "entity": "SELECT id, name || ': ' || description AS text FROM entities ORDER BY degree DESC, name",  # as entity_text
    "report": "SELECT community_id AS id, markdown AS text FROM reports",
}


def entity_text(entity: Entity) -> str:
    """What the vector of an entity is made of."""
    return f"{entity.name}: {entity.description}"


def all_texts(db: Database, kind: str) -> Iterator[tuple[str, str]]:
    """The subjects of a kind with the texts that their vectors are made of; chunks behind their document's header if so set."""
    if kind != "chunk" or not ledger.settings(db).get("prepended"):
        yield from db.execute(_TEXTS[kind])
        return
    headers = corpus.document_headers(db)
    for key, document, text in db.execute("SELECT id, document_id, text FROM chunks"):
        yield key, f"{headers[document]}\n{text}"


def without_subject(db: Database, kind: str) -> Iterator[str]:
    """The subjects of stored vectors of a kind that are no more."""
    there = f"SELECT 1 FROM ({_TEXTS[kind]}) t WHERE t.id = e.subject_id"
    return (key for (key,) in db.execute(f"SELECT subject_id FROM embeddings e WHERE kind = ? AND NOT EXISTS ({there})", [kind]))


def texts(db: Database, kind: str, ids: Sequence[str]) -> dict[str, str]:
    """Subject id → the text that its vector is made of, of some entities or reports."""
    chosen = f"SELECT * FROM ({_TEXTS[kind]}) WHERE id IN (SELECT value FROM json_each(?))"
    return dict(db.execute(chosen, [json.dumps(list(ids))]))


def drop_stale(db: Database, kind: str, embedder: str, texts_of: Callable[[Sequence[str]], Mapping[str, str]]) -> None:
    """Drop vectors that wait and are of another embedder, or of another text than their subject's as `texts_of` gives it."""
    last = ""
    page = "SELECT subject_id, content_hash, embedder FROM next_embeddings WHERE kind = ? AND subject_id > ? ORDER BY subject_id LIMIT ?"
    while rows := db.execute(page, [kind, last, PAGE]).fetchall():
        last, now = rows[-1][0], texts_of([row[0] for row in rows])
        stale = [key for key, of, by in rows if by != embedder or key not in now or content_id(now[key]) != of]
        with db.atomic():
            inside = "IN (SELECT value FROM json_each(?))"
            db.execute(f"DELETE FROM next_embeddings WHERE kind = ? AND subject_id {inside}", [kind, json.dumps(stale)])


def missing(db: Database, kind: str, hashes: Mapping[str, str], embedder: str) -> list[str]:
    """The subjects whose content (subject id → content hash) has no vector of this embedder yet, published or waiting.

    Vectors of theirs that wait and are of another content, or another embedder's, are dropped.
    """
    asked = [kind, json.dumps(list(hashes))]
    inside = "kind = ? AND subject_id IN (SELECT value FROM json_each(?))"
    waiting = {
        key: row for key, *row in db.execute(f"SELECT subject_id, content_hash, embedder FROM next_embeddings WHERE {inside}", asked)
    }
    stale = [key for key, found in waiting.items() if found != [hashes[key], embedder]]
    if stale:
        with db.atomic():
            db.execute(f"DELETE FROM next_embeddings WHERE {inside}", [kind, json.dumps(stale)])
    have = dict(db.execute(f"SELECT subject_id, content_hash FROM embeddings WHERE {inside} AND embedder = ?", [*asked, embedder]))
    have |= {key: waiting[key][0] for key in waiting.keys() - set(stale)}
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


def of_contents(db: Database, kind: str, embedder: str, hashes: Iterable[str]) -> dict[str, NDArray[np.float32]]:
    """Content hash → the vector of this embedder, (d,) float32, published or waiting, of those that have one."""
    known = "SELECT content_hash, vector FROM {} WHERE kind = ? AND +embedder = ? AND content_hash IN (SELECT value FROM json_each(?))"
    values = [kind, embedder, json.dumps(list(hashes))]
    rows = (row for table in ("embeddings", "next_embeddings") for row in db.execute(known.format(table), values))
    return {key: np.frombuffer(vector, "<f4") for key, vector in rows}


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
    """The `k` subjects of a kind closest to `query` ((d,) float32, L2-normalised), best first, as (id, cosine); fewer if fewer exist.

    Many vectors are looked up in an index file (`vector_index`), and what is not in one is compared with the query vector by vector.
    """
    if k < 1:
        return []
    asked = np.ascontiguousarray(query, np.float32)
    inside = db.vectors(kind) if isinstance(db, Selected) else None
    index, last = vector_index.opened(db, folder, kind, len(asked))
    best = Best(k)
    for numbers, matrix in _compared(db, folder, kind, last):
        chosen = slice(None) if inside is None else np.isin(numbers, inside, assume_unique=True)
        best.add(numbers[chosen], (matrix @ asked)[chosen])
    if index is not None:
        best.add(*_looked_up(db, index, asked, k, inside))
    return best.subjects(db)


class Best:
    """The best of what was compared so far: numbers of vectors, and their cosines."""

    def __init__(self, k: int) -> None:
        self.k = k
        self.numbers, self.cosines = np.empty(0, np.int64), np.empty(0, np.float32)

    def add(self, numbers: Numbers, cosines: NDArray[np.float32]) -> None:
        """Keep the `k` best of these and those before, with what is as good as the last of them."""
        numbers, cosines = np.concatenate([self.numbers, numbers]), np.concatenate([self.cosines, cosines])
        if self.k < len(cosines):
            kept = cosines >= np.partition(cosines, -self.k)[-self.k]
            numbers, cosines = numbers[kept], cosines[kept]
        self.numbers, self.cosines = numbers, cosines

    def subjects(self, db: Database) -> list[tuple[str, float]]:
        """The `k` best as (id, cosine), equal ones by their ids."""
        found = "SELECT number, subject_id FROM embeddings WHERE number IN (SELECT value FROM json_each(?))"
        names = dict(db.execute(found, [json.dumps(self.numbers.tolist())]))
        rows = [(names[n], s) for n, s in zip(self.numbers.tolist(), self.cosines.tolist(), strict=True) if n in names]
        return sorted(rows, key=lambda row: (-row[1], row[0]))[: self.k]


def _looked_up(db: Database, index: Any, asked: NDArray[np.float32], k: int, inside: Numbers | None) -> tuple[Numbers, NDArray[np.float32]]:
    """The numbers of the vectors that an index file has near a query, and their cosines; more are looked at where many of them are gone."""
    enough, wider = min(2 * k, index.ntotal if inside is None else len(inside)), 1
    while True:
        tried = vector_index.candidates(index, asked, CANDIDATES * k * wider, wider, inside)
        numbers, matrix = vector_index.some_vectors(db, tried)
        if len(numbers) >= enough or wider >= index.ntotal:
            return numbers, matrix @ asked if len(numbers) else np.empty(0, np.float32)
        wider *= 4


def _compared(db: Database, folder: Path, kind: str, above: int) -> Iterable[tuple[Numbers, Vectors]]:
    """The vectors of a kind whose numbers are greater than `above`: from memory, or as they are read where they are too many for it."""
    state = f"{state_of(db, kind)} {above}"
    memory, name = memory_of(folder), f"vectors of {kind}"
    before = memory.get(name, ("", np.empty(0, np.int64), np.empty((0, 0), np.float32)))
    if before[0] != state:
        if vector_index.count(db, kind, above) > vector_index.LEAST:
            return vector_index.batches(db, kind, above)
        before = memory[name] = (state, *_brought_up_to_date(db, kind, vector_index.numbers(db, kind, above), *before[1:]))
    return [before[1:]] if len(before[1]) else []


def _brought_up_to_date(db: Database, kind: str, wanted: Numbers, numbers: Numbers, matrix: Vectors) -> tuple[Numbers, Vectors]:
    """The `wanted` vectors of a kind: those of them that are in memory, and the others read."""
    there = np.isin(numbers, wanted, assume_unique=True)
    new = np.setdiff1d(wanted, numbers, assume_unique=True)
    if not len(new):
        return numbers[there], matrix[there]
    at, known, made = int(there.sum()), np.empty(len(wanted), np.int64), np.empty((0, 0), np.float32)
    known[:at] = numbers[there]
    for some, vectors in vector_index.batches(db, kind, int(new.min()) - 1):
        if not made.size:
            made = np.empty((len(wanted), vectors.shape[1]), np.float32)
            made[:at] = matrix[there] if at else 0  # where none is in memory its width is not known
        mine = np.isin(some, new, assume_unique=True)
        end = at + int(mine.sum())
        known[at:end], made[at:end] = some[mine], vectors[mine]
        at = end
    return known, made


def files(db: Database, folder: Path) -> list[Path]:
    """Where the index files of the present vectors are kept."""
    return [folder / file.name for kind in vector_index.KINDS if (file := vector_index.file_of(db, kind))]


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
