"""What a run asks first: is there anything to do? Answered from keys alone, without reading a text or what was extracted."""

import json
from collections.abc import Sequence

from sqlite_utils import Database

from localrag.records import content_id

_SUBJECTS = {"chunk": "SELECT id FROM chunks", "entity": "SELECT id FROM entities", "report": "SELECT community_id AS id FROM reports"}


def extraction_state(db: Database, recipes: Sequence[str], by_content: Sequence[str]) -> str:
    """A hash of which chunks there are and by which of these recipes, the first that was used on it, each was extracted.

    What a recipe gives follows from it and the chunk; where it does not (`by_content`), what it gave counts, too.
    """
    strays = {key for (key,) in db.execute("SELECT chunk_id FROM extractions EXCEPT SELECT id FROM chunks")}
    rank = f"CASE recipe {' '.join(f'WHEN ? THEN {n}' for n in range(len(recipes)))} END"
    of_chunk = f"SELECT chunk_id, min({rank}) AS best FROM extractions GROUP BY chunk_id HAVING best IS NOT NULL ORDER BY chunk_id"
    made = "\n".join(f"{chunk} {best}" for chunk, best in db.execute(of_chunk, recipes) if chunk not in strays)
    given = "SELECT chunk_id, recipe, result FROM extractions WHERE recipe IN (SELECT value FROM json_each(?)) ORDER BY 1, 2"
    rows = db.execute(given, [json.dumps(list(by_content))])
    return content_id(made, *(content_id(*row) for row in rows if row[0] not in strays))


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
