"""Vectors of chunks, entities and reports, for those that have none of the text they have now. Part of the pipeline."""

import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence, Set
from functools import partial
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from localrag.index.graph.stage import Made
from localrag.index.jobs import EMBED_BATCH, Crew, Embed, in_order
from localrag.index.progress import Tell
from localrag.index.reports.stage import Written
from localrag.project import Project
from localrag.records import content_id
from localrag.store import generations, lacking, ledger, levels, states, vectors
from localrag.store.staged import AMONG, Staged

Texts = Callable[[Sequence[str]], dict[str, str]]  # of subjects, by id
TOGETHER = 4096  # subjects whose texts are in memory together, and are embedded in order of their lengths


def _heard(tell: Tell, stage: str, total: int, before: int = 0) -> Callable[[int], None]:
    """Hears how many of some subjects have their vectors; `before` others of the stage have theirs."""
    if total:
        tell(stage, before, total)
    return lambda done: tell(stage, before + done, total)


async def _embed(
    project: Project, crew: Crew, kind: str, texts: Mapping[str, str], told: Callable[[int], None], lasting: Set[str] = frozenset()
) -> None:
    """Give subjects of a kind (id → text) a vector; it waits but for those of `lasting`. Equal texts are embedded once, in all runs.

    `told` hears how many subjects have theirs.
    """
    fingerprint = project.embedder.file.fingerprint
    hashes = {key: content_id(text) for key, text in texts.items()}
    left: defaultdict[str, list[str]] = defaultdict(list)  # text → what it is the text of: a report carried down has one with others
    for key, text in texts.items():
        left[text].append(key)
    done = 0

    def save(some: Sequence[str], found: NDArray[np.float32]) -> None:
        nonlocal done
        keys = [(key, n) for n, text in enumerate(some) for key in left[text]]
        subjects = [key for key, _ in keys]
        vectors.save(project.db, kind, fingerprint, subjects, hashes, found[[n for _, n in keys]], waits=set(subjects) - lasting)
        done += len(subjects)
        told(done)

    known = vectors.of_contents(project.db, kind, fingerprint, set(hashes.values()))
    stored = [text for text, keys in left.items() if hashes[keys[0]] in known]
    if stored:
        save(stored, np.stack([known[hashes[left[text][0]]] for text in stored]))
    distinct = sorted(left.keys() - set(stored), key=lambda text: (len(text), text))  # similar lengths together: less padding
    batches = [distinct[at : at + EMBED_BATCH] for at in range(0, len(distinct), EMBED_BATCH)]
    async for some in in_order(crew, (Embed(tuple(batch)) for batch in batches)):
        for job, found in some:
            save(job.texts, found)


def _without_vector(project: Project, kind: str, texts: Mapping[str, str]) -> dict[str, str]:
    """Those of all subjects of a kind (id → text) that have no vector, or one of another text."""
    hashes = {key: content_id(text) for key, text in texts.items()}
    return {key: texts[key] for key in vectors.missing(project.db, kind, hashes, project.embedder.file.fingerprint)}


async def embed_chunks(project: Project, crew: Crew, tell: Tell, most: int = lacking.ALL) -> None:
    """Vectors of published chunks are found at once, as long as they are of the embedder that questions are asked with.

    A chunk's text never changes, but the header of its document may: only where headers are, or were, put before texts are these compared.
    Else no more than `most` chunks get a vector, the first ones by path.
    """
    db, fingerprint, done = project.db, project.embedder.file.fingerprint, 0
    known = ledger.settings(db)
    if known.get("prepended") or (known.get("chunk_vectors") != "bare" and states.holds_vectors(db, "chunk")):
        texts = _without_vector(project, "chunk", dict(vectors.all_texts(db, "chunk")))
        total, pairs = len(texts), iter(texts.items())
    else:
        states.drop_stray_vectors(db, "chunk", fingerprint)
        chunks = lacking.without_vector(db, fingerprint, most)
        total, pairs = len(chunks), ((c.id, c.text) for c in chunks)
    lasting = set[str]() if not total or new_embedder(project) else generations.lasting_chunks(db)
    while some := dict(islice(pairs, TOGETHER)):
        await _embed(project, crew, "chunk", some, _heard(tell, "search index", total, done), lasting)
        done += len(some)
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
    complete = made is not None and bool(known.get("graph_vectors")) and not new_embedder(project)  # all that is published has its vector
    staged = made.staged if made else Staged.published(db)
    entities = new_texts(staged) if complete else [key for (key,) in staged.rows("entities", columns="t.id")]
    reports = [*levels.next_reported(db), *([] if complete else states.without_vector(db, "report", fingerprint))]
    for kind, subjects in (("entity", entities), ("report", reports)):
        texts = partial(_TEXTS[kind], staged)
        vectors.drop_stale(db, kind, fingerprint, texts)
        lasts = kind == "entity" and staged.ended and not new_embedder(project)  # of what is published: questions may have them at once
        await _embed_all(project, crew, kind, sorted(set(subjects)), texts, tell, lasts=lasts)
    return state


async def _embed_all(project: Project, crew: Crew, kind: str, keys: Sequence[str], texts: Texts, tell: Tell, *, lasts: bool) -> None:
    """Give those of these subjects a vector that have none of the text they have, some at a time. `lasts`: it is not to wait."""
    for at in range(0, len(keys), TOGETHER):
        lacks = _without_vector(project, kind, texts(keys[at : at + TOGETHER]))
        heard = _heard(tell, "entities" if kind == "entity" else "report vectors", len(keys), at)
        await _embed(project, crew, kind, lacks, heard, lacks.keys() if lasts else frozenset())


def _entity_texts(staged: Staged, ids: Sequence[str]) -> dict[str, str]:
    return dict(staged.rows("entities", f"t.id {AMONG}", [json.dumps(list(ids))], f"t.id, {_TEXT}"))


def _report_texts(staged: Staged, ids: Sequence[str]) -> dict[str, str]:
    return vectors.texts(staged.db, "report", ids) | levels.next_texts(staged.db, ids)


_TEXT = "name || ': ' || description"
_TEXTS = {"entity": _entity_texts, "report": _report_texts}


def new_texts(staged: Staged) -> list[str]:
    """The entities whose vectors are of another text than before."""
    return [key[0] for key, before, now in staged.changes("entities", _TEXT) if now and now != before]
