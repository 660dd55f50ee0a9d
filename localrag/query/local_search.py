"""Mode local: the neighbourhood of the entities of a question (the paper's baseline; Microsoft GraphRAG's local search)."""

from collections import Counter
from collections.abc import Sequence, Set

import numpy as np
from numpy.typing import NDArray

from localrag.project import Project
from localrag.query.abstractive import effective_budgets, fit_sources, write_cited_prose
from localrag.query.basic_search import best_sources
from localrag.query.extractive import extractive_draft
from localrag.query.question import AnswerDraft, DraftSource, Question
from localrag.query.reading_budget import distinct_reports
from localrag.query.retriever import named_entities, retrieve
from localrag.records import Chunk, Claim, Entity, Quote, Relationship
from localrag.store import chunks as chunks_store
from localrag.store import graph, vectors
from localrag.text.quotes import claim_quotes, format_claim, sentence_quotes
from localrag.text.sentences import collapse_whitespace

MAX_LOCAL_ENTITIES, OUTSIDE_RELATIONSHIPS = 10, 10  # OUTSIDE_RELATIONSHIPS: to other entities, per chosen one
PASSAGES_SHARE, ENTITIES_SHARE, EDGES_SHARE, REPORTS_SHARE = 0.55, 0.1, 0.2, 0.15  # of the budget; EDGES_SHARE includes claims
CLAIMS_SHARE = 0.1  # part of EDGES_SHARE
CLAIMS_COMPARED = 100  # with the question
MAX_LOCAL_PASSAGES, MAX_CANDIDATE_PASSAGES = 10, 30
MAX_REPORTS_TRIED = 50  # for REPORTS_SHARE


async def ask_local(question: Question, project: Project) -> AnswerDraft:
    """Answer from the entities named in or near to the question, their relationships, reports, claims and passages."""
    db = project.db
    named = list(dict.fromkeys(n.entity_id for n in named_entities(question.text, project)))
    nearest = [i for i, _ in vectors.nearest(db, project.folder, "entity", question.vector, MAX_LOCAL_ENTITIES)]
    entities = graph.entities(db, list(dict.fromkeys([*named, *nearest]))[:MAX_LOCAL_ENTITIES])
    # Passages mentioning named entities come first; others fill up.
    passages = passages_mentioning(question.text, question.vector, project, MAX_LOCAL_PASSAGES, named)
    if not question.is_extractive:
        points = await write_cited_prose(question, project, await _sources(question, project, entities, passages), "answer")
        if points:
            return AnswerDraft(tuple(points))
    return await extractive_draft(question, passages, project)


def _claims(question: Question, project: Project, entity_ids: Sequence[str]) -> list[Claim]:
    claims = graph.claims(project.db, entity_ids)[:CLAIMS_COMPARED]
    if not claims:
        return []
    cosines = project.embedder.embed([c.description for c in claims]) @ question.vector
    return [claims[i] for i in np.argsort(-cosines, kind="stable")]


def passages_mentioning(question: str, vector: NDArray[np.float32], project: Project, k: int, about: Sequence[str] = ()) -> list[Chunk]:
    """The `k` most relevant passages for a question, first those that mention most of the entities `about`."""
    passages = [c for c, _ in retrieve(question, vector, project, max(k, MAX_CANDIDATE_PASSAGES))]
    mentioned = Counter(
        chunk
        for chunk, _ in {(m.chunk_id, m.entity_id) for m in graph.mentions_in(project.db, [c.id for c in passages]) if m.entity_id in about}
    )
    max_mentioned = max(mentioned.values(), default=0)
    first = [c for c in passages if mentioned[c.id] == max_mentioned]
    return list({c.id: c for c in [*first[: k // 2], *passages]}.values())[:k]


async def _sources(question: Question, project: Project, entities: list[Entity], passages: list[Chunk]) -> list[DraftSource]:
    """Passages, descriptions of entities, claims, relationships and reports in their shares of the budget, each with its quotes.

    What the passages say already is not said again.
    """
    chosen = {e.id: e for e in entities}
    budget = (await effective_budgets(question, project)).sources

    async def within(sources: Sequence[DraftSource], share: float) -> list[DraftSource]:
        return await fit_sources(sources, project, int(budget * share))

    shown = await best_sources(question, passages, project, int(budget * PASSAGES_SHARE))
    known = "\n".join(collapse_whitespace(s.text) for s in shown)
    claims = await within(_claim_sources(question, project, chosen.keys()), CLAIMS_SHARE)
    related = _relationship_sources(project, chosen.keys())
    others = [s for s in related if not all(collapse_whitespace(q.text) in known for q in s.quotes)]
    return [
        *shown,
        *await within(_entity_sources(entities, passages, project), ENTITIES_SHARE),
        *claims,
        *await within(others, EDGES_SHARE - CLAIMS_SHARE * bool(claims)),
        *await within(_report_sources(project, chosen.keys()), REPORTS_SHARE),
    ]


def _entity_sources(entities: Sequence[Entity], passages: Sequence[Chunk], project: Project) -> list[DraftSource]:
    """The descriptions of the entities, with the first sentence of the passages that mentions each."""
    chunks = {c.id: c for c in passages}
    first = {m.entity_id: m for m in reversed(graph.mentions_in(project.db, list(chunks)))}
    described = [e for e in entities if e.description and e.id in first]
    quotes = [sentence_quotes(chunks[first[e.id].chunk_id], first[e.id].start, first[e.id].end)[:1] for e in described]
    return [
        DraftSource(f"{e.name} ({e.type}): {e.description}", tuple(quoted))
        for e, quoted in zip(described, quotes, strict=True)
        if quoted and collapse_whitespace(quoted[0].text) != collapse_whitespace(e.description)
    ]


def _report_sources(project: Project, chosen: Set[str]) -> list[DraftSource]:
    """Titles and summaries of the reports whose communities contain most of the entities, those with the highest coverage first."""
    matched = graph.community_overlap(project.db, chosen)
    covered = graph.coverage_of(project.db, matched)
    best = sorted(matched, key=lambda i: (-matched[i], -covered.get(i, 0.0), i))[:MAX_REPORTS_TRIED]
    reports = distinct_reports(graph.reports_of(project.db, best))
    return [DraftSource(f"{r.title}: {r.summary}", tuple(q for f in r.findings for q in f.quotes)) for r in reports]


def _claim_sources(question: Question, project: Project, chosen: Set[str]) -> list[DraftSource]:
    claims = _claims(question, project, sorted(chosen))
    chunks = {c.id: c for c in chunks_store.chunks_by_id(project.db, [c.chunk_id for c in claims])}
    quotes = claim_quotes(claims, chunks)
    entities = {e.id: e for e in graph.entities(project.db, [i for c in claims for i in (c.subject_id, c.object_id) if i])}
    return [DraftSource(format_claim(c, entities), (quotes[c.id],)) for c in claims if c.id in quotes]


def _relationship_sources(project: Project, chosen: Set[str]) -> list[DraftSource]:
    db = project.db
    edges = _relationships(graph.relationships(db, chosen), chosen)
    evidence = {e.relationship_id: e for e in reversed(graph.evidence(db, [r.id for r in edges]))}
    names = {e.id: e.name for e in graph.entities(db, sorted({i for r in edges for i in (r.source_id, r.target_id)}))}
    quotable = {c.id: c for c in chunks_store.chunks_by_id(db, [e.chunk_id for e in evidence.values()])}

    sources = []
    for r in edges:
        e = evidence.get(r.id)
        if e and r.source_id in names and r.target_id in names:
            body = quotable[e.chunk_id]
            quote = Quote(e.chunk_id, e.start, e.end, body.text[e.start - body.start : e.end - body.start])
            text = r.description or collapse_whitespace(quote.text)
            sources.append(DraftSource(f"{names[r.source_id]} – {names[r.target_id]}: {text}", (quote,)))
    return sources


def _relationships(edges: list[Relationship], chosen: Set[str]) -> list[Relationship]:
    """All relationships between chosen entities, then those to the outside entities shared by most chosen ones."""
    inner = [r for r in edges if r.source_id in chosen and r.target_id in chosen]
    outer = [r for r in edges if (r.source_id in chosen) != (r.target_id in chosen)]
    shared = Counter(r.target_id if r.source_id in chosen else r.source_id for r in outer)
    outer.sort(key=lambda r: (-shared[r.target_id if r.source_id in chosen else r.source_id], -r.weight, r.id))
    return inner + outer[: OUTSIDE_RELATIONSHIPS * len(chosen)]
