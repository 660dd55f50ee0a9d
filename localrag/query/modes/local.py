"""local: the neighbourhood of the entities a question is about (paper's baseline; Microsoft GraphRAG's local search as designed)."""

from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from localrag.project import Project
from localrag.query.answering.quoted import brief_draft
from localrag.query.answering.written import budgets_of, write_prose
from localrag.query.draft import Draft, Source
from localrag.query.modes.passages import passage_sources
from localrag.query.question import Question
from localrag.query.retrieval.context import pack, quoted_answer
from localrag.query.retrieval.retrieve import named_entities, search
from localrag.records import Chunk, Claim, Entity, Quote, Relationship
from localrag.store import corpus, extent, graph, vectors
from localrag.text.plain import enumeration, is_cjk, squeeze
from localrag.text.quotes import claim_line, claim_quotes

ENTITIES, RELATIONSHIPS = 10, 10  # entities chosen; relationships to outside entities per chosen one
REPORTS, EDGES, TEXT = 0.15, 0.35, 0.5  # shares of the budget: reports, entities with claims and relationships, passages
CLAIMS = 0.1  # of that share of entities, what claims may have
CLAIMS_COMPARED, CLAIMED = 100, 3  # claims compared with the question; sentences of claims added to an extractive answer's passages
PASSAGES, POOL = 10, 30  # given, looked through
MATCHED = 50  # reports that are tried for their share of the budget


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
        claimed = _claimed(question, project, named)
        return await brief_draft(question, [*claimed, *scored], project, names, _opening(entities[: len(named)]))
    points = await write_prose(question, project, await _sources(question, project, entities, passages), "answer")
    return Draft(tuple(points) or quoted_answer(question, scored, project, names))


def _claims(question: Question, project: Project, entity_ids: Sequence[str]) -> list[Claim]:
    """Claims on the entities, those nearest the question first."""
    found = graph.claims(project.db, entity_ids)[:CLAIMS_COMPARED]
    if not found:
        return []
    near = project.embedder.embed([c.description for c in found]) @ question.vector
    return [found[i] for i in np.argsort(-near, kind="stable")]


def _claimed(question: Question, project: Project, named: Sequence[str]) -> list[tuple[Chunk, float]]:
    """The sentences of the claims on whom the question names that are nearest it, each as a passage of its own."""
    claims = _claims(question, project, named)[:CLAIMED]
    chunks = _chunks_of(claims, project)
    quotes = claim_quotes(claims, chunks).values()
    return [(replace(chunks[q.chunk_id], start=q.start, end=q.end, text=q.text), 1.0) for q in quotes]


def _chunks_of(claims: Sequence[Claim], project: Project) -> dict[str, Chunk]:
    return {c.id: c for c in corpus.chunks_by_id(project.db, [c.chunk_id for c in claims])}


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
    """Reports, claims, relationships and passages in their shares of the budget, each with what it rests on."""
    chosen = {e.id for e in entities}
    budget = (await budgets_of(question, project)).sources

    async def within(sources: Sequence[Source], share: float) -> list[Source]:
        sized = [(await project.model.count(s.text), s) for s in sources]
        return [s for _, s in pack(sized, lambda some: some[0], int(budget * share))]

    claims = await within(_claim_sources(question, project, chosen), CLAIMS)
    return [
        *await within(_report_sources(project, chosen), REPORTS),
        *claims,
        *[s for s in await within(_edge_sources(project, chosen), EDGES - CLAIMS * bool(claims)) if s.quotes],
        *passage_sources(pack(passages, lambda c: c.tokens, int(budget * TEXT)), project),
    ]


def _report_sources(project: Project, chosen: Set[str]) -> list[Source]:
    """Titles and summaries of the reports whose communities hold most of the entities, those that cover most first."""
    matched = graph.communities_with(project.db, chosen)
    covered = extent.coverage_of(project.db, matched)
    best = sorted(matched, key=lambda i: (-matched[i], -covered.get(i, 0.0), i))[:MATCHED]
    reports = graph.reports_of(project.db, best)
    return [Source(f"{r.title}: {r.summary}", tuple(q for f in r.findings for q in f.quotes)) for r in reports]


def _claim_sources(question: Question, project: Project, chosen: Set[str]) -> list[Source]:
    claims = _claims(question, project, sorted(chosen))
    quotes = claim_quotes(claims, _chunks_of(claims, project))
    entities = {e.id: e for e in graph.entities(project.db, [i for c in claims for i in (c.subject_id, c.object_id) if i])}
    return [Source(claim_line(c, entities), (quotes[c.id],)) for c in claims if c.id in quotes]


def _edge_sources(project: Project, chosen: Set[str]) -> list[Source]:
    db = project.db
    edges = _relationships(graph.relationships(db, chosen), chosen)
    evidence = {e.relationship_id: e for e in reversed(graph.evidence(db, [r.id for r in edges]))}
    names = {e.id: e.name for e in graph.entities(db, sorted({i for r in edges for i in (r.source_id, r.target_id)}))}
    quotable = {c.id: c for c in corpus.chunks_by_id(db, [e.chunk_id for e in evidence.values()])}

    def quotes(relationship_id: str) -> tuple[Quote, ...]:
        if (e := evidence.get(relationship_id)) is None:
            return ()
        body = quotable[e.chunk_id]
        return (Quote(e.chunk_id, e.start, e.end, body.text[e.start - body.start : e.end - body.start]),)

    found = [(r, quotes(r.id)) for r in edges if r.source_id in names and r.target_id in names]
    said = [r.description or squeeze(" ".join(q.text for q in some)) for r, some in found]  # a selection shows no description of others'
    return [Source(f"{names[r.source_id]} – {names[r.target_id]}: {text}", some) for (r, some), text in zip(found, said, strict=True)]


def _relationships(found: list[Relationship], chosen: Set[str]) -> list[Relationship]:
    """First all between chosen entities, then those to the outside entities that most chosen ones share."""
    inner = [r for r in found if r.source_id in chosen and r.target_id in chosen]
    outer = [r for r in found if (r.source_id in chosen) != (r.target_id in chosen)]
    shared = Counter(r.target_id if r.source_id in chosen else r.source_id for r in outer)
    outer.sort(key=lambda r: (-shared[r.target_id if r.source_id in chosen else r.source_id], -r.weight, r.id))
    return inner + outer[: RELATIONSHIPS * len(chosen)]
