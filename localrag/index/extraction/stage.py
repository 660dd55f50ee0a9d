"""Chunks → stored extractions: by phrases at once, then by the model; one of the same recipe is kept. Part of the pipeline."""

from collections.abc import Sequence

from sqlite_utils import Database

from localrag.index.extraction.extract import recipe
from localrag.index.extraction.jobs import TAGGED_AT_ONCE, Attempt, Extract, FindPhrases, SplitSentences, units_of
from localrag.index.extraction.phrases import PHRASES
from localrag.index.jobs import Crew, in_order
from localrag.index.progress import Tell
from localrag.project import Project
from localrag.records import IMPORTED, Chunk, Failure, content_id
from localrag.store import corpus, lacking, ledger
from localrag.store import graph as store
from localrag.text.plain import sentence_bounds


async def split_sentences(db: Database, crew: Crew, tell: Tell, most: int = lacking.ALL) -> None:
    """Split every chunk that is new into sentences, or no more than `most`, the first ones by path."""
    left = lacking.without_sentences(db, most)
    done = 0
    if left:
        tell("sentences", 0, len(left))
    jobs = (SplitSentences(chunks) for chunks in units_of(left, crew.unit))
    async for some in in_order(crew, jobs):
        corpus.save_sentences(db, {c.id: b for job, bounds in some for c, b in zip(job.chunks, bounds, strict=True)})
        done += sum(job.weight for job, _ in some)
        tell("sentences", done, len(left))


async def find_phrases(project: Project, crew: Crew, tell: Tell, most: int = lacking.ALL) -> None:
    """Find names and phrases in every chunk that is new, or in no more than `most`, the first ones by path, without a model."""
    left = lacking.without_extraction(project.db, PHRASES, most=most)
    done = 0
    if left:
        tell("phrases", 0, len(left))
    jobs = (FindPhrases(chunks, _bounds(chunks)) for chunks in units_of(left, crew.unit))
    async for some in in_order(crew, jobs):
        found = [x for _, those in some for x in those]
        corpus.save_extractions(project.db, PHRASES, found)
        tell.found(e.name for x in found for e in x.entities)
        done += len(found)
        tell("phrases", done, len(left))


def _bounds(chunks: tuple[Chunk, ...]) -> tuple[bytes, ...]:
    return tuple(sentence_bounds(c.text) for c in chunks)


def unread(project: Project, style: str) -> lacking.ChunkList:
    """The chunks the model has not extracted from, or not all that it was asked for, and no other program has."""
    return lacking.without_extraction(project.db, recipe_of(project, style), IMPORTED)


def recipe_of(project: Project, style: str) -> str:
    """What the model's extractions of this project depend on."""
    return recipe(project.settings, project.model.file.fingerprint, style, project.tagger)


async def extract_chunks(project: Project, style: str, crew: Crew, tell: Tell) -> None:
    """Extract from every chunk that has no extraction of this recipe; a failure is a row."""
    db, key = project.db, recipe_of(project, style)
    left = unread(project, style)
    if not left:
        return
    total = store.counts(db)["chunks"]
    done = total - len(left)
    tell("extraction", done, total)
    jobs = (Extract(chunks, _bounds(chunks), style, _beside(db, chunks)) for chunks in units_of(left, crew.unit))
    tagged = project.tagger is not None and style == "extractive"
    least = 1 if style == "abstractive" else TAGGED_AT_ONCE
    async for some in in_order(crew, jobs, asks=not tagged, least=least):
        pairs = [(chunk, attempt) for job, attempts in some for chunk, attempt in zip(job.chunks, attempts, strict=True)]
        _save(db, key, pairs)
        tell.found(e.name for _, attempts in some for a in attempts if a.found for e in a.found.entities)
        done += sum(job.weight for job, _ in some)
        tell("extraction", done, total)


def _beside(db: Database, chunks: tuple[Chunk, ...]) -> tuple[str, ...]:
    return tuple(map(content_id, corpus.texts_beside(db, chunks[0], chunks[-1])))


def _save(db: Database, key: str, attempts: Sequence[tuple[Chunk, Attempt]]) -> None:
    """Commit what was read together, what failed as a row; what was made good is forgotten."""
    whole = [(chunk, a.found) for chunk, a in attempts if a.found and not a.error]
    with db.atomic():
        corpus.save_extractions(db, key, [found for _, found in whole])
        corpus.forget_extractions(db, in_part(key), [chunk.id for chunk, _ in whole])
        ledger.clear_failures(db, "extraction", [chunk.id for chunk, _ in whole])
        for chunk, attempt in attempts:
            if attempt.error:
                corpus.save_extractions(db, in_part(key), [attempt.found] if attempt.found else [])
                ledger.save_failure(db, Failure("extraction", chunk.id, attempt.error, attempt.kind))


def in_part(key: str) -> str:
    """The recipe of extractions some of whose calls failed: the graph uses them, the next run asks again."""
    return f"{key} in part"
