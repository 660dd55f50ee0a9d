"""Chunks → stored extractions: by phrases at once, then by the model; one of the same recipe is kept. Part of the pipeline."""

from functools import lru_cache
from itertools import groupby

from sqlite_utils import Database

from localrag.errors import LocalragError
from localrag.index.extraction.extract import extract, recipe
from localrag.index.extraction.names.case import Case
from localrag.index.extraction.phrases import PHRASES, extract_phrases
from localrag.index.progress import Tell
from localrag.llm.model import ABOUT, CALL_FAILED, in_window
from localrag.project import Project
from localrag.records import IMPORTED, Chunk, Failure, content_id
from localrag.store import corpus, ledger
from localrag.store import graph as store


class Cases:
    """How each document writes its words. Chunks come a document after the other: only that of the last one is kept."""

    def __init__(self, db: Database) -> None:
        self._of = lru_cache(maxsize=1)(lambda document_id: Case(corpus.document_by_id(db, document_id)))

    def of(self, chunk: Chunk) -> Case:
        """That of the chunk's document."""
        return self._of(chunk.document_id)


def split_sentences(db: Database, tell: Tell) -> None:
    """Split every chunk that is new into sentences; committed a document at a time."""
    left = corpus.chunks_without_sentences(db)
    done = 0
    if left:
        tell("sentences", 0, len(left))
    for _, some in groupby(left, key=lambda c: c.document_id):
        chunks = list(some)
        corpus.save_sentences(db, chunks)
        done += len(chunks)
        tell("sentences", done, len(left))


def find_phrases(project: Project, cases: Cases, tell: Tell) -> None:
    """Find names and phrases in every chunk that is new, without a model; committed a document at a time."""
    left = corpus.chunks_without_extraction(project.db, PHRASES)
    done = 0
    if left:
        tell("phrases", 0, len(left))
    for _, some in groupby(left, key=lambda c: c.document_id):
        found = []
        for chunk in some:
            found.append(extract_phrases(chunk, cases.of(chunk)))
            tell.found(e.name for e in found[-1].entities)
            done += 1
            tell("phrases", done, len(left))
        corpus.save_extractions(project.db, PHRASES, found)


def unread(project: Project, style: str) -> list[Chunk]:
    """The chunks the model has not extracted from, or not all that it was asked for, and no other program has."""
    return corpus.chunks_without_extraction(project.db, recipe_of(project, style), IMPORTED)


def recipe_of(project: Project, style: str) -> str:
    """What the model's extractions of this project depend on."""
    return recipe(project.settings, project.model.file.fingerprint, style, project.tagger)


async def extract_chunks(project: Project, style: str, cases: Cases, tell: Tell) -> None:
    """Extract from every chunk that has no extraction of this recipe; each is committed as it comes, a failure is a row."""
    db, key = project.db, recipe_of(project, style)
    left = unread(project, style)
    if not left:
        return
    total = store.counts(db)["chunks"]
    done = total - len(left)
    tell("extraction", done, total)

    async def one(chunk: Chunk) -> None:
        nonlocal done
        ABOUT.set(content_id(chunk.text))
        lost: list[LocalragError] = []
        try:
            found = await extract(chunk, cases.of(chunk), project.model, project.settings, style, lost, project.tagger)
            corpus.save_extraction(db, in_part(key) if lost else key, found)
            tell.found(e.name for e in found.entities)
        except CALL_FAILED as error:
            lost.append(error)
        if lost:
            ledger.save_failure(db, Failure("extraction", chunk.id, str(lost[0]), lost[0].kind))
        else:
            corpus.forget_extraction(db, in_part(key), chunk.id)
            ledger.clear_failure(db, "extraction", chunk.id)
        done += 1
        tell("extraction", done, total)

    # A conversation has one call at a time and needs its slot's KV for the next, so there are as many as slots; an extractive chunk has
    # many calls at once.
    slots = await project.model.at_once()
    await in_window((one(c) for c in left), size=slots if style == "abstractive" else max(8, slots))


def in_part(key: str) -> str:
    """The recipe of extractions some of whose calls failed: the graph uses them, the next run asks again."""
    return f"{key} in part"
