"""Stage 5: the vectors of chunks, entities and reports whose text has none yet."""

import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence, Set
from functools import partial
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from localrag.engine.embedder import TextVectors
from localrag.indexing.graph.stage import BuiltGraph
from localrag.indexing.progress import ProgressReporter
from localrag.indexing.report_stage import ReportsResult
from localrag.indexing.tasks import EMBED_BATCH, EmbedPassages, EmbedTexts, WorkerPool, run_in_order
from localrag.project import Project
from localrag.records import content_id
from localrag.store import chunks as chunks_store
from localrag.store import generations, graph, runs, vectors
from localrag.store.graph import staged_report_ids
from localrag.store.staging import IN_JSON_LIST, GraphStaging

Texts = Callable[[Sequence[str]], dict[str, str]]  # ids → text to embed, by id
TEXTS_PER_BATCH = 4096  # texts in memory at a time; they are embedded in order of length


def _stage_progress(progress: ProgressReporter, stage: str, total: int, before: int = 0) -> Callable[[int], None]:
    """A callback that reports how many vectors of a stage exist; `before` were there already."""
    if total:
        progress(stage, before, total)
    return lambda done: progress(stage, before + done, total)


async def _embed(
    project: Project,
    pool: WorkerPool,
    kind: str,
    texts: Mapping[str, str],
    on_progress: Callable[[int], None],
    lasting: Set[str] = frozenset(),
) -> None:
    """Embed subjects of a kind (id → text). Their vectors are staged, but those of `lasting` published at once; equal texts are embedded
    once.

    `on_progress` is called with the number of subjects that have a vector.
    """
    fingerprint = project.embedder.file.fingerprint
    hashes = {key: content_id(text) for key, text in texts.items()}
    pending: defaultdict[str, list[str]] = defaultdict(list)  # text → ids (a report carried down a level has the same text)
    for key, text in texts.items():
        pending[text].append(key)
    done = 0

    def save(results: Sequence[str], found: Sequence[vectors.StoredVector]) -> None:
        nonlocal done
        rows = {key: vector for text, vector in zip(results, found, strict=True) for key in pending[text]}
        matrix, windows = np.stack([v for v, _ in rows.values()]), [w for _, w in rows.values()]
        vectors.save_vectors(project.db, kind, fingerprint, list(rows), hashes, matrix, windows=windows, waits=rows.keys() - lasting)
        done += len(rows)
        on_progress(done)

    cached = vectors.vectors_by_content(project.db, kind, fingerprint, set(hashes.values()))
    stored = [text for text, keys in pending.items() if hashes[keys[0]] in cached]
    if stored:
        save(stored, [cached[hashes[pending[text][0]]] for text in stored])
    distinct = sorted(pending.keys() - set(stored), key=lambda text: (len(text), text))  # similar lengths together: less padding
    batches = [distinct[at : at + EMBED_BATCH] for at in range(0, len(distinct), EMBED_BATCH)]
    task: type[EmbedTexts | EmbedPassages] = EmbedPassages if kind == "chunk" else EmbedTexts
    async for results in run_in_order(pool, (task(tuple(batch)) for batch in batches)):
        for job, found in results:
            save(job.texts, _rows_of(found))


def _rows_of(found: TextVectors | NDArray[np.float32]) -> list[vectors.StoredVector]:
    """The vectors as they are stored, with those of their windows if they have any."""
    if not isinstance(found, TextVectors):
        return [(vector, b"") for vector in found]
    of_text = (found.owners == n for n in range(len(found.vectors)))
    return [(v, vectors.encode_windows(found.spans[own], found.windows[own])) for v, own in zip(found.vectors, of_text, strict=True)]


def _missing_vectors(project: Project, kind: str, texts: Mapping[str, str]) -> dict[str, str]:
    """The subjects of a kind (id → text) that have no vector, or a vector of another text."""
    hashes = {key: content_id(text) for key, text in texts.items()}
    return {key: texts[key] for key in vectors.subjects_without_vector_of(project.db, kind, hashes, project.embedder.file.fingerprint)}


async def embed_chunks(project: Project, pool: WorkerPool, progress: ProgressReporter, most: int = chunks_store.NO_LIMIT) -> None:
    """Embed chunks; vectors of published chunks can be searched at once if they are of the embedder that queries use.

    A chunk's text never changes, but the header of its document may: texts are compared only if headers are, or were, embedded with them.
    Otherwise no more than `most` chunks are embedded, the first ones by path.
    """
    db, fingerprint, done = project.db, project.embedder.file.fingerprint, 0
    settings = runs.load_settings(db)
    if settings.get("prepend_metadata") or (settings.get("chunk_embedding_text") != "bare" and chunks_store.has_vectors(db, "chunk")):
        texts = _missing_vectors(project, "chunk", dict(vectors.texts_to_embed(db, "chunk")))
        total, pairs = len(texts), iter(texts.items())
    else:
        chunks_store.delete_stale_staged_vectors(db, "chunk", fingerprint)
        chunks = chunks_store.chunks_without_vector(db, fingerprint, most)
        total, pairs = len(chunks), ((c.id, c.text) for c in chunks)
    lasting = set[str]() if not total or changed_embedder(project) else generations.unchanged_chunks(db)
    while batch := dict(islice(pairs, TEXTS_PER_BATCH)):
        await _embed(project, pool, "chunk", batch, _stage_progress(progress, "chunk embeddings", total, done), lasting)
        done += len(batch)
    form = "headed" if settings.get("prepend_metadata") else "bare"
    if settings.get("chunk_embedding_text") != form:
        runs.save_settings(db, chunk_embedding_text=form)


def changed_embedder(project: Project) -> dict[str, str] | None:
    """The project's embedder if the published vectors are of another one, else None."""
    file = project.embedder.file
    is_same = runs.load_settings(project.db).get("embedder", file.to_json)["fingerprint"] == file.fingerprint
    return None if is_same else file.to_json


async def embed_graph(
    project: Project, pool: WorkerPool, progress: ProgressReporter, built: BuiltGraph | None, written: ReportsResult | None
) -> str | None:
    """Embed entities and reports of the new graph, or of the stored one. Returns the hash of their input, to be stored as a setting.

    If nothing was built and the stored vectors have this hash, no text is read. Returns None if some reports could not be written.
    """
    db, fingerprint = project.db, project.embedder.file.fingerprint
    settings = runs.load_settings(db)
    of = (built.graph_hash if built else settings.get("graph_hash"), written.reports_hash if written else settings.get("reports_state"))
    state = content_id(*of, fingerprint) if all(of) else None
    kinds = ("entity", "report")
    known_to_be = built is None and written is None and state is not None and state == settings.get("graph_embeddings_hash")
    if known_to_be and not any(chunks_store.subjects_without_vector(db, kind, fingerprint) for kind in kinds):
        return state
    has_vectors = bool(settings.get("graph_embeddings_hash"))  # of everything published
    complete = built is not None and has_vectors and not changed_embedder(project)
    staged = built.staging if built else GraphStaging.published(db)
    if complete:  # those whose text is not the one that was embedded
        entities = [key[0] for key, before, now in staged.changed_columns("entities", vectors.ENTITY_TEXT) if now and now != before]
    else:
        entities = [key for (key,) in staged.select("entities", columns="t.id")]
    reports = [*staged_report_ids(db), *([] if complete else chunks_store.subjects_without_vector(db, "report", fingerprint))]
    for kind, subjects in (("entity", entities), ("report", reports)):
        texts = partial(_TEXTS[kind], staged)
        vectors.delete_stale_vectors(db, kind, fingerprint, texts)
        lasts = (
            kind == "entity" and staged.is_published and not changed_embedder(project)
        )  # of published subjects: queries may use them at once
        await _embed_all(project, pool, kind, sorted(set(subjects)), texts, progress, lasts=lasts)
    return state


async def _embed_all(
    project: Project, pool: WorkerPool, kind: str, keys: Sequence[str], texts: Texts, progress: ProgressReporter, *, lasts: bool
) -> None:
    """Embed the subjects that have no vector of their present text, in batches. `lasts`: publish the vectors at once."""
    for at in range(0, len(keys), TEXTS_PER_BATCH):
        lacks = _missing_vectors(project, kind, texts(keys[at : at + TEXTS_PER_BATCH]))
        on_progress = _stage_progress(progress, "entity embeddings" if kind == "entity" else "report embeddings", len(keys), at)
        await _embed(project, pool, kind, lacks, on_progress, lacks.keys() if lasts else frozenset())


def _entity_texts(staged: GraphStaging, ids: Sequence[str]) -> dict[str, str]:
    return dict(staged.select("entities", f"t.id {IN_JSON_LIST}", [json.dumps(list(ids))], f"t.id, {vectors.ENTITY_TEXT}"))


def _report_texts(staged: GraphStaging, ids: Sequence[str]) -> dict[str, str]:
    return vectors.texts_of(staged.db, "report", ids) | graph.staged_report_texts(staged.db, ids)


_TEXTS = {"entity": _entity_texts, "report": _report_texts}
