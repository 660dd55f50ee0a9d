"""local: the neighbourhood of the entities a question is about (paper's baseline; Microsoft GraphRAG's local search as designed)."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from localrag.llm.project import Project
from localrag.query.basic import passage_sources
from localrag.query.cite import Draft, Source
from localrag.query.context import pack, quoted_answer
from localrag.query.question import Question
from localrag.query.retrieve import named_entities, search
from localrag.query.write import budgets_of, write_prose
from localrag.records import Chunk, Entity, Quote, Relationship
from localrag.store import corpus, graph, vectors
from localrag.text import enumeration, is_cjk

ENTITIES, RELATIONSHIPS = 10, 10  # entities chosen; relationships to outside entities per chosen one
REPORTS, EDGES, TEXT = 0.15, 0.35, 0.5  # shares of the budget: reports, entities and relationships, passages
PASSAGES, POOL = 10, 30  # given, looked through


async def ask_local(question: Question, project: Project) -> Draft:
    """Answer from the entities the question names or is near to, their relationships, reports, claims and passages."""
    db = project.db
    found = named_entities(question.text, project)
    named = list(dict.fromkeys(n.entity_id for n in found))
    near = [i for i, _ in vectors.nearest(db, project.folder, "entity", question.vector, ENTITIES)]
    entities = graph.entities(db, list(dict.fromkeys([*named, *near]))[:ENTITIES])
    # What the question names decides; mere neighbours of it in meaning fill up.
    passages = passages_about(question.text, question.vector, project, PASSAGES, named)
    scored = [(c, 1 - n / PASSAGES) for n, c in enumerate(passages)]
    names = sorted({*(n.text for n in found), *(a for some in graph.aliases_of(db, named).values() for a in some)})
    if question.extractive:
        return Draft(quoted_answer(question, scored, project, names), _opening(entities[: len(named)]))
    points = await write_prose(question, project, await _sources(question, project, entities, passages), "answer")
    return Draft(tuple(points) or quoted_answer(question, scored, project, names))


def _opening(named: list[Entity]) -> str:
    names = enumeration([e.name for e in named])
    if is_cjk(names):
        return f"文档中关于{names}的内容："
    return f"What the documents say about {names}:" if names else ""


def passages_about(question: str, vector: NDArray[np.float32], project: Project, k: int, about: Sequence[str] = ()) -> list[Chunk]:
    """The `k` passages that bear most on the question, those first that mention the entities it is `about`, if it names any."""
    found = [c for c, _ in search(question, vector, project, max(k, POOL))]
    mentioned = Counter(
        chunk
        for chunk, _ in {(m.chunk_id, m.entity_id) for m in graph.mentions_in(project.db, [c.id for c in found]) if m.entity_id in about}
    )
    most = max(mentioned.values(), default=0)
    first = [c for c in found if mentioned[c.id] == most]
    return list({c.id: c for c in [*first[: k // 2], *found]}.values())[:k]


async def _sources(question: Question, project: Project, entities: list[Entity], passages: list[Chunk]) -> list[Source]:
    """Reports, entities, relationships and passages in their shares of the budget, each with what it rests on."""
    db = project.db
    chosen = {e.id for e in entities}
    matched = Counter(c.id for c in graph.communities(db) for e in c.entity_ids if e in chosen)
    reports = sorted((r for r in graph.reports(db) if matched[r.community_id]), key=lambda r: (-matched[r.community_id], -r.rating))
    sized: dict[str, int] = {}
    budget = (await budgets_of(question, project)).sources

    async def fits(texts: list[str], share: float) -> int:
        for text in texts:
            sized.setdefault(text, await project.model.count(text))
        return len(pack(texts, sized.__getitem__, int(budget * share)))

    report_texts = [f"{r.title}: {r.summary}" for r in reports]
    sources: list[Source] = []
    for n in range(await fits(report_texts, REPORTS)):
        sources.append(Source(report_texts[n], tuple(q for f in reports[n].findings for q in f.quotes)))
    edges = _relationships(graph.relationships(db, chosen), chosen)
    evidence = {e.relationship_id: e for e in reversed(graph.evidence(db, [r.id for r in edges]))}
    names = {e.id: e.name for e in graph.entities(db, sorted({i for r in edges for i in (r.source_id, r.target_id)}))}
    lines = [(f"{names[r.source_id]} – {names[r.target_id]}: {r.description}", evidence.get(r.id)) for r in edges]
    quotable = {c.id: c for c in corpus.chunks_by_id(db, [e.chunk_id for _, e in lines if e])}
    for text, e in lines[: await fits([t for t, _ in lines], EDGES)]:
        if e is not None:
            body = quotable[e.chunk_id]
            sources.append(Source(text, (Quote(e.chunk_id, e.start, e.end, body.text[e.start - body.start : e.end - body.start]),)))
    return [*sources, *passage_sources(pack(passages, lambda c: c.tokens, int(budget * TEXT)), project)]


def _relationships(found: list[Relationship], chosen: set[str]) -> list[Relationship]:
    """First all between chosen entities, then those to the outside entities that most chosen ones share."""
    inner = [r for r in found if r.source_id in chosen and r.target_id in chosen]
    outer = [r for r in found if (r.source_id in chosen) != (r.target_id in chosen)]
    shared = Counter(r.target_id if r.source_id in chosen else r.source_id for r in outer)
    outer.sort(key=lambda r: (-shared[r.target_id if r.source_id in chosen else r.source_id], -r.weight, r.id))
    return inner + outer[: RELATIONSHIPS * len(chosen)]
