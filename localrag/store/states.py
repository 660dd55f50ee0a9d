"""What a run asks first: is there anything to do? Answered from keys alone, without reading a text or what was extracted."""

from sqlite_utils import Database

_SUBJECTS = {"chunk": "SELECT id FROM chunks", "entity": "SELECT id FROM entities", "report": "SELECT community_id AS id FROM reports"}


def lacking_vector(kind: str, embedder: str) -> tuple[str, list[str]]:
    """An SQL query, and its values, for the subjects of a kind that have no vector of this embedder, published or waiting."""
    own = " ".join(f"EXCEPT SELECT subject_id FROM {table} WHERE kind = ? AND embedder = ?" for table in ("embeddings", "next_embeddings"))
    return f"{_SUBJECTS[kind]} {own}", [kind, embedder] * 2


def without_vector(db: Database, kind: str, embedder: str) -> list[str]:
    """The subjects of a kind that have no vector of this embedder, published or waiting."""
    return [key for (key,) in db.execute(*lacking_vector(kind, embedder))]


def holds_vectors(db: Database, kind: str) -> bool:
    """Whether any subject of a kind has a vector, of whatever embedder."""
    own = (f"EXISTS (SELECT 1 FROM {table} WHERE kind = :kind)" for table in ("embeddings", "next_embeddings"))
    return bool(db.execute(f"SELECT {' OR '.join(own)}", {"kind": kind}).fetchone()[0])


def drop_stray_vectors(db: Database, kind: str, embedder: str) -> None:
    """Drop the vectors that wait and are of another embedder, or of what is no more."""
    stray = f"kind = ? AND (embedder <> ? OR subject_id NOT IN ({_SUBJECTS[kind]}))"
    if db.execute(f"SELECT EXISTS (SELECT 1 FROM next_embeddings WHERE {stray})", [kind, embedder]).fetchone()[0]:
        with db.atomic():
            db.execute(f"DELETE FROM next_embeddings WHERE {stray}", [kind, embedder])
