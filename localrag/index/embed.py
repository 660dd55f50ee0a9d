"""Vectors of chunks, entities and reports, for those that have none of the text they have now. Part of the pipeline."""

from collections import defaultdict
from collections.abc import Mapping, Sequence, Set

from localrag.index.graph.stage import Made
from localrag.index.jobs import EMBED_BATCH, Crew, Embed, in_order
from localrag.index.progress import Tell
from localrag.index.reports.stage import Written
from localrag.project import Project
from localrag.records import content_id
from localrag.store import generations, ledger, levels, states, vectors
from localrag.store.staged import Staged


async def _embed(
    project: Project, crew: Crew, kind: str, stage: str, tell: Tell, texts: Mapping[str, str], lasting: Set[str] = frozenset()
) -> None:
    """Give subjects of a kind (id → text) a vector; it waits but for those of `lasting`."""
    fingerprint = project.embedder.file.fingerprint
    hashes = {key: content_id(text) for key, text in texts.items()}
    left: defaultdict[str, list[str]] = defaultdict(list)  # text → what it is the text of: a report carried down has one with others
    for key, text in texts.items():
        left[text].append(key)
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


def _without_vector(project: Project, kind: str, texts: Mapping[str, str]) -> dict[str, str]:
    """Those of all subjects of a kind (id → text) that have no vector, or one of another text."""
    hashes = {key: content_id(text) for key, text in texts.items()}
    return {key: texts[key] for key in vectors.missing(project.db, kind, hashes, project.embedder.file.fingerprint)}


async def embed_chunks(project: Project, crew: Crew, tell: Tell) -> None:
    """Vectors of published chunks are found at once, as long as they are of the embedder that questions are asked with.

    A chunk's text never changes, but the header of its document may: only where headers are, or were, put before texts are these compared.
    """
    db, fingerprint = project.db, project.embedder.file.fingerprint
    known = ledger.settings(db)
    if known.get("prepended") or known.get("chunk_vectors") != "bare":
        left = _without_vector(project, "chunk", vectors.texts(db, "chunk"))
    else:
        states.drop_stray_vectors(db, "chunk", fingerprint)
        missing = states.without_vector(db, "chunk", fingerprint)
        left = vectors.texts(db, "chunk", missing) if missing else {}
    if left:
        lasting = set() if new_embedder(project) else generations.lasting_chunks(db)
        await _embed(project, crew, "chunk", "search index", tell, left, lasting)
    made = "headed" if known.get("prepended") else "bare"
    if known.get("chunk_vectors") != made:
        ledger.save_settings(db, chunk_vectors=made)


def new_embedder(project: Project) -> dict[str, str] | None:
    """The project's embedder, where the published vectors are of another."""
    file = project.embedder.file
    known = ledger.settings(project.db).get("embedder", file.binding)["fingerprint"] == file.fingerprint
    return None if known else file.binding


async def embed_graph(project: Project, crew: Crew, tell: Tell, made: Made | None, written: Written | None) -> str | None:
    """Give entities and reports their vectors: those that were made, else the stored ones. The hash of what these now are of, to be kept.

    Where nothing was made and the stored vectors are of just that, no text is looked at. None where some reports could not be written.
    """
    db, fingerprint = project.db, project.embedder.file.fingerprint
    known = ledger.settings(db)
    of = (made.state if made else known.get("graph"), written.state if written else known.get("reports"))
    state = content_id(*of, fingerprint) if all(of) else None
    kinds = ("entity", "report")
    known_to_be = made is None and written is None and state is not None and state == known.get("graph_vectors")
    if known_to_be and not any(states.without_vector(db, kind, fingerprint) for kind in kinds):
        return state
    entities = new_texts(made.staged, states.without_vector(db, "entity", fingerprint)) if made else vectors.texts(db, "entity")
    await _embed(project, crew, "entity", "entities", tell, _without_vector(project, "entity", entities))
    reports = vectors.texts(db, "report", states.without_vector(db, "report", fingerprint)) | levels.next_texts(db)
    await _embed(project, crew, "report", "report vectors", tell, _without_vector(project, "report", reports))
    return state


def new_texts(staged: Staged, lacking: Sequence[str]) -> dict[str, str]:
    """Entity id → the text of its vector, of those whose text is another than before or that lack a vector."""
    columns = "name || ': ' || description"
    changed = {key[0]: now[0] for key, before, now in staged.changes("entities", columns) if now and now != before}
    rows = (row for key in lacking if key not in changed and (row := staged.row("entities", key)))
    return changed | {row[0]: f"{row[1]}: {row[3]}" for row in rows}
