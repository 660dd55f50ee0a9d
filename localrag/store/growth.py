"""What an index no longer needs, and until when it is kept: answers and extractions that nothing asks for, backups, caches, old runs.

An answer of a model is needed where what is stored would ask for it again under the settings of today: it is about the text of a stored
chunk and was given for the recipe that chunks are read by, or about names, descriptions or a report that are stored. An answer about
something else is unused from the first run on that finds it so, and is kept for a while: a model or a prompt that is tried and taken back
costs nothing. It goes at once where it has a word that left the documents. What `localrag gc` collects is every unused one.

Each run looks at what it changed (`leaving`), and at everything only where the settings changed.
"""

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from sqlite_utils import Database

from localrag.about import OF_SEVERAL, compared, described, reported
from localrag.records import OF_A_QUESTION, UNSURE, content_id
from localrag.store import ledger
from localrag.store.departed import words_of
from localrag.store.names import FILE_NAME

KEPT_DAYS = 30  # of what nothing asks for, and of answers to questions
KEPT_BYTES = 256 << 20  # of answers that nothing asks for; beyond them the oldest go
BACKUPS = f"{FILE_NAME}.before-*"
WASTE = 0.05  # of the database's file that may be empty: new rows fill it
RUNS = 200  # the newest, of which it is kept how they went
_SIZE = "200 + " + " + ".join(f"length(CAST({c} AS BLOB))" for c in ("text", "tokens", "grammar", "sampling"))  # of a row, keys included
_SEVERAL = f"about >= '{OF_SEVERAL}' AND about < '{OF_SEVERAL[:-1]}!'"  # as the index on `about` finds them
_ESCAPE = re.compile(r"\\[nrtbf]")


@dataclass(frozen=True, slots=True)
class Today:
    """What the settings of today ask for: whose answers, by which recipe chunks are read (empty: by no model), whether the model writes."""

    model: str
    recipe: str
    recipes: tuple[str, ...]  # of the extractions that the graph is made from
    prose: bool

    @property
    def settings(self) -> list[object]:
        """What decides which answers are used."""
        return [self.model, *self.recipes, self.prose]


@dataclass(frozen=True, slots=True)
class Freed:
    """How many things of a kind were collected, and their bytes."""

    kind: str
    n: int
    bytes: int


def collect(db: Database, today: Today, words: set[str], *, everything: bool) -> list[Freed]:
    """Delete answers, extractions and runs that are over their limits, or rest on what is gone: `words` are those of `gone_words`.

    `everything`: every answer and extraction that nothing asks for.
    """
    with db.atomic():
        known = ledger.settings(db).get("collected_for")
        if everything or (known is not None and known != today.settings):
            _mark_all(db, today)
        else:
            _mark_left(db, today)
        freed = [_answers(db, words, everything=everything), _extractions(db, today, everything=everything), _runs(db)]
        _forget_pairs(db, words)
        if known != today.settings:
            ledger.save_settings(db, collected_for=today.settings)
        db.execute("DELETE FROM leaving")
    return [one for one in freed if one.n]


def is_due(db: Database, today: Today) -> bool:
    """Whether the settings are others than at the last collection, or a content left the documents since."""
    left = db.execute("SELECT EXISTS (SELECT 1 FROM leaving)").fetchone()[0]
    return bool(left) or ledger.settings(db).get("collected_for") != today.settings


class _Undone(Exception):
    """Takes a transaction back."""


def would_free(db: Database, today: Today, words: set[str]) -> list[Freed]:
    """What `collect` would delete, of everything; nothing is deleted."""
    freed: list[Freed] = []
    with suppress(_Undone), db.atomic():
        freed = collect(db, today, words, everything=True)
        raise _Undone
    return freed


def empty_pages(db: Database) -> list[Freed]:
    """Those in the database's file, where they are more than what new rows soon fill."""
    n, size, pages = (db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("freelist_count", "page_size", "page_count"))
    return [Freed("empty pages", n, n * size)] if n > pages * WASTE else []


def give_back(db: Database) -> None:
    """Write the database anew where a part of its file is empty."""
    if empty_pages(db):
        db.execute("VACUUM")


def kept(db: Database, folder: Path) -> dict[str, Any]:
    """What there is that nothing needs, and is kept for a while: answers and copies of the database, with their bytes and limits."""
    copies = [f.stat().st_size for f in folder.glob(BACKUPS)]
    n, size = db.execute(f"SELECT count(*), coalesce(sum({_SIZE}), 0) FROM llm_calls WHERE unused_since IS NOT NULL").fetchone()
    found = {"unused_answers": n, "unused_answer_bytes": size, "backups": len(copies), "backup_bytes": sum(copies)}
    return {**found, "kept_days": KEPT_DAYS, "kept_bytes": KEPT_BYTES}


# Which answers are used


def _mark_all(db: Database, today: Today) -> None:
    texts = _texts(db) if today.recipe else ()
    several = _several(db) if today.prose else ()
    with _needed(db, chain(texts, several)):
        which = f"about NOT IN ('', '{UNSURE}', '{OF_A_QUESTION}')"
        _mark(db, today, f"{which} AND NOT ({_SEVERAL})" if _is_unfinished(db) else which)


def _is_unfinished(db: Database) -> bool:
    """Whether the last run did not come to its end: what it asked for a graph that is not published is asked for again by the next."""
    run = ledger.last_run(db)
    return not ledger.settings(db).get("graph") or (run is not None and run["state"] not in ("complete", "partly"))


def _mark_left(db: Database, today: Today) -> None:
    """Look at answers about texts that left, and at those about several chunks, which may be about what is no more."""
    left = "SELECT value FROM leaving WHERE kind = 'text'"
    with _needed(db, _stored(db, {text for (text,) in db.execute(left)}) if today.recipe else ()):
        lost = f"about IN ({left}) AND about NOT IN (SELECT about FROM temp.needed)"
        db.execute(f"DELETE FROM also_about WHERE {lost}")
        other = "SELECT o.about FROM also_about o WHERE o.key = llm_calls.key"
        db.execute(f"UPDATE llm_calls SET about = ({other} LIMIT 1) WHERE {lost} AND EXISTS ({other})")
        _mark(db, today, f"about IN ({left})")
    with _needed(db, _several(db) if today.prose else ()):
        _mark(db, today, _SEVERAL)


@contextmanager
def _needed(db: Database, about: Iterable[str]) -> Iterator[None]:
    """What answers are needed about, as a table of this connection."""
    db.execute("CREATE TEMP TABLE needed (about TEXT PRIMARY KEY) WITHOUT ROWID")
    try:
        db.conn.executemany("INSERT OR IGNORE INTO temp.needed VALUES (?)", ((one,) for one in about))
        yield
    finally:
        db.execute("DROP TABLE temp.needed")


def _mark(db: Database, today: Today, which: str) -> None:
    """Note of answers since when nothing asks for them, or that something does."""
    also = "SELECT 1 FROM also_about o JOIN temp.needed n ON n.about = o.about WHERE o.key = llm_calls.key"
    needed = f"(about IN (SELECT about FROM temp.needed) OR EXISTS ({also}))"
    used = f"(model = :model AND recipe IN ('', :recipe) AND {needed})"  # empty: of an older localrag, or about several chunks
    since = f"CASE WHEN {used} THEN NULL ELSE CURRENT_DATE END"
    values = {"model": today.model, "recipe": today.recipe}
    db.execute(f"UPDATE llm_calls SET unused_since = {since} WHERE {which} AND (unused_since IS NULL) <> {used}", values)


def _texts(db: Database) -> Iterator[str]:
    for table in ("main.chunks", "main.next_chunks"):
        for (text,) in db.execute(f"SELECT text FROM {table}"):
            yield content_id(text)


def _stored(db: Database, texts: set[str]) -> set[str]:
    """Those of some texts, by their content ids, that a chunk still has."""
    if not texts:
        return texts
    if ledger.settings(db).get("chunk_vectors") != "bare":  # else the vectors tell
        return texts & set(_texts(db))
    have = "SELECT content_hash FROM {} WHERE kind = 'chunk' AND content_hash IN (SELECT value FROM json_each(:texts))"
    both = " UNION ".join(map(have.format, ("embeddings", "next_embeddings")))
    return {text for (text,) in db.execute(both, {"texts": json.dumps(sorted(texts))})}


def _several(db: Database) -> Iterator[str]:
    """What answers about several chunks are about that today's graph and reports are made with."""
    for name, said in db.execute("SELECT name, descriptions FROM entities"):
        yield described(name, json.loads(said))
    named = "JOIN entities a ON a.id = r.source_id JOIN entities b ON b.id = r.target_id"
    for first, second, said in db.execute(f"SELECT a.name, b.name, r.descriptions FROM relationships r {named}"):
        yield described(f"{first} and {second}", json.loads(said))
    for (key,) in db.execute("SELECT input_hash FROM reports UNION SELECT input_hash FROM next_reports"):
        yield reported(key)
    yield from _pairs(db)


def _pairs(db: Database) -> Iterator[str]:
    """Those that say of two names whether they are one entity's, as long as both are there."""
    names = {content_id("name", name): name for (name,) in db.execute("SELECT name FROM entities UNION SELECT alias FROM entity_aliases")}
    for (about,) in db.execute(f"SELECT DISTINCT about FROM llm_calls WHERE {_SEVERAL} AND task = 'same'"):
        first, _, second = about.removeprefix(OF_SEVERAL).partition(" ")
        if first in names and second in names:
            yield compared(names[first], names[second])


# What goes


def _answers(db: Database, gone: set[str], *, everything: bool) -> Freed:
    """Delete unused answers: with words that are gone, older than the limit, or all; and old answers to questions."""
    ids = _with_words(db, gone)
    old = f"date('now', '-{KEPT_DAYS} days')"
    ids |= {n for (n,) in db.execute(f"SELECT rowid FROM llm_calls WHERE about = '{OF_A_QUESTION}' AND created_at < {old}")}
    total = 0
    for n, size, is_old in db.execute(
        f"SELECT rowid, {_SIZE}, unused_since < {old} FROM llm_calls WHERE unused_since IS NOT NULL ORDER BY unused_since DESC, rowid DESC"
    ):
        total += size
        if everything or is_old or total > KEPT_BYTES:
            ids.add(n)
    if not ids:
        return Freed("answers", 0, 0)
    chosen, values = "rowid IN (SELECT value FROM json_each(?))", [json.dumps(sorted(ids))]
    n, size = db.execute(f"SELECT count(*), sum({_SIZE}) FROM llm_calls WHERE {chosen}", values).fetchone()
    before, more = ledger.settings(db).get("spent", {}), ledger.spent_on(db, chosen, values)
    ledger.save_settings(db, spent={name: value + before.get(name, 0) for name, value in more.items()})
    db.execute(f"DELETE FROM also_about WHERE key IN (SELECT key FROM llm_calls WHERE {chosen})", values)
    db.execute(f"DELETE FROM llm_calls WHERE {chosen}", values)
    return Freed("answers", n, size)


def _with_words(db: Database, gone: set[str]) -> set[int]:
    """The answers that nothing stored is made with, or of which it is not known, and that have one of these words."""
    if not gone:
        return set()
    doubtful = f"SELECT rowid, text FROM llm_calls WHERE about IN ('', '{OF_A_QUESTION}')"
    rows = chain(db.execute(doubtful), db.execute("SELECT rowid, text FROM llm_calls WHERE unused_since IS NOT NULL"))
    return {n for n, text in rows if not gone.isdisjoint(words_of(_ESCAPE.sub(" ", text)))}


def _extractions(db: Database, today: Today, *, everything: bool) -> Freed:
    """Delete extractions of recipes that were not used for a while; of one chunk they leave with it."""
    settings = ledger.settings(db)
    noted = settings.get("unused_recipes", {})
    if not everything and not noted and settings.get("collected_for") == today.settings:
        return Freed("extractions", 0, 0)
    (now, old) = db.execute(f"SELECT date('now'), date('now', '-{KEPT_DAYS} days')").fetchone()
    unused = [recipe for (recipe,) in db.execute("SELECT DISTINCT recipe FROM extractions") if recipe not in today.recipes]
    since = {recipe: noted.get(recipe, now) for recipe in unused}
    going = [recipe for recipe, day in since.items() if everything or day < old]
    chosen, values = "recipe IN (SELECT value FROM json_each(?))", [json.dumps(going)]
    rows = f"SELECT count(*), coalesce(sum(length(CAST(result AS BLOB)) + 60), 0) FROM extractions WHERE {chosen}"
    n, size = db.execute(rows, values).fetchone() if going else (0, 0)
    if going:
        db.execute(f"DELETE FROM extractions WHERE {chosen}", values)
    left = {recipe: day for recipe, day in since.items() if recipe not in going}
    if left != noted:
        ledger.save_settings(db, unused_recipes=left)
    return Freed("extractions", n, size)


def _runs(db: Database) -> Freed:
    size = "sum(length(CAST(figures AS BLOB)) + length(CAST(facts AS BLOB)) + 100)"
    old = f"id <= (SELECT max(id) FROM runs) - {RUNS}"
    n, freed = db.execute(f"SELECT count(*), coalesce({size}, 0) FROM runs WHERE {old}").fetchone()
    if n:
        db.execute(f"DELETE FROM runs WHERE {old}")
    return Freed("runs", n, freed)


def _forget_pairs(db: Database, gone: set[str]) -> None:
    """Forget what a model decided of names that have a word that is gone; what a user decided stands in a file of theirs."""
    settings = ledger.settings(db)
    by_model = settings.get("same_by_model", {}).get("pairs", [])
    lost = [pair for pair in by_model if any(not gone.isdisjoint(words_of(name)) for name in pair)]
    if lost:
        for key, name in (("same_by_model", "pairs"), ("decisions", "same")):
            value = settings.get(key, {})
            ledger.save_settings(db, **{key: value | {name: [pair for pair in value.get(name, []) if pair not in lost]}})


# Files beside the database


def unused_backups(folder: Path, now: float) -> list[Path]:
    """The copies of the database that go: all but the newest, and that one when it is as old as unused answers may be."""
    found = sorted(folder.glob(BACKUPS), key=lambda f: f.stat().st_mtime, reverse=True)
    young = [f for f in found[:1] if now - f.stat().st_mtime < KEPT_DAYS * 86_400]
    return [f for f in found if f not in young]
