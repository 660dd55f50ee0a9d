"""Vectors of chunks, entities and reports, for those that have none of the text they have now. Part of the pipeline."""

from collections import defaultdict
from collections.abc import Mapping, Set

from localrag.index.graph.stage import Made
from localrag.index.jobs import EMBED_BATCH, Crew, Embed, in_order
from localrag.index.progress import Tell
from localrag.index.reports.stage import Written
from localrag.project import Project
from localrag.records import content_id
from localrag.store import generations, ledger, vectors


async def _embed(
    project: Project, crew: Crew, kind: str, stage: str, tell: Tell, texts: Mapping[str, str], lasting: Set[str] = frozenset()
) -> None:
    """Give every subject of a kind (id → text) a vector that has none, or one of another text; it waits but for those of `lasting`."""
    fingerprint = project.embedder.file.fingerprint
    hashes = {key: content_id(text) for key, text in texts.items()}
    left: defaultdict[str, list[str]] = defaultdict(list)  # text → what it is the text of: a report carried down has one with others
    for key in vectors.missing(project.db, kind, hashes, fingerprint):
        left[texts[key]].append(key)
    distinct = sorted(left, key=len)  # similar lengths together: less padding
    batches = [distinct[at : at + EMBED_BATCH] for at in range(0, len(distinct), EMBED_BATCH)]
    done = 0
    if distinct:
        tell(stage, 0, len(distinct))
    async for some in in_order(crew, (Embed(tuple(batch)) for batch in batches)):
        for job, found in some:
            keys = [(key, n) for n, text in enumerate(job.texts) for key in left[text]]
            subjects = [key for key, _ in keys]
            vectors.save(project.db, kind, fingerprint, subjects, hashes, found[[n for _, n in keys]], waits=set(subjects) - lasting)
            done += len(job.texts)
        tell(stage, done, len(distinct))


async def embed_chunks(project: Project, crew: Crew, tell: Tell) -> None:
    """Vectors of published chunks are found at once, as long as they are of the embedder that questions are asked with."""
    lasting = set() if new_embedder(project) else generations.lasting_chunks(project.db)
    await _embed(project, crew, "chunk", "search index", tell, vectors.texts(project.db, "chunk"), lasting)


def new_embedder(project: Project) -> dict[str, str] | None:
    """The project's embedder, where the published vectors are of another."""
    file = project.embedder.file
    known = ledger.settings(project.db).get("embedder", file.binding)["fingerprint"] == file.fingerprint
    return None if known else file.binding


async def embed_graph(project: Project, crew: Crew, tell: Tell, made: Made | None, written: Written | None) -> None:
    """Give entities and reports their vectors: those that were made, else the stored ones."""
    entities = {e.id: vectors.entity_text(e) for e in made.graph.entities} if made else vectors.texts(project.db, "entity")
    await _embed(project, crew, "entity", "entities", tell, entities)
    reports = {key: r.markdown for key, r in written.reports.items()} if written else vectors.texts(project.db, "report")
    await _embed(project, crew, "report", "report vectors", tell, reports)
