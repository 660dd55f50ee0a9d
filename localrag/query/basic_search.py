"""Modes basic (full text and vectors), ss (vectors only, the paper's baseline) and mix (PageRank over the graph); two-hop retrieval.

The second hop searches with the question and the best sentence of the first, so that passages connected only through a first one are found
by their own words (multi-hop retrieval with the evidence so far, as MDR, Xiong et al. 2021, but without training).
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from localrag.project import Project
from localrag.query.abstractive import effective_budgets, write_cited_prose
from localrag.query.extractive import extractive_draft
from localrag.query.question import AnswerDraft, DraftSource, Question
from localrag.query.retriever import hybrid_search, names_in, retrieve
from localrag.query.sentence_ranking import chunk_quotes, extract_answer_points, fit_budget, rank_quotes, score_candidates
from localrag.records import Chunk, Quote
from localrag.store import chunks as chunks_store
from localrag.store import documents, vectors
from localrag.text.sentences import collapse_whitespace

CANDIDATES_PER_HOP = 30  # passages
PASSAGES_RANKED = 8  # passages of the first hop whose sentences are ranked
SECOND_HOP_WEIGHT = 0.5  # of the second hop's score, relative to the first's


def retrieve_two_hop(question: str, vector: NDArray[np.float32], project: Project, k: int) -> list[tuple[Chunk, float]]:
    """The `k` most relevant passages for a question, best first, with scores relative to the best (1). `vector`, (d,): the question's."""
    first = retrieve(question, vector, project, max(k, CANDIDATES_PER_HOP))
    passage_scores = {c.id: score for c, score in first}
    quotes = chunk_quotes([c for c, _ in first[:PASSAGES_RANKED]], question)
    candidates = score_candidates(question, quotes, names_in(question, project), passage_scores)
    best = next(rank_quotes(question, vector, candidates, project, passage_scores), None)
    if best is None:
        return first[:k]
    extended_question = f"{question} {candidates.texts[best]}"
    return _fuse(first, retrieve(extended_question, project.embedder.embed([extended_question])[0], project, max(k, CANDIDATES_PER_HOP)))[
        :k
    ]


def _fuse(first: Sequence[tuple[Chunk, float]], second: Sequence[tuple[Chunk, float]]) -> list[tuple[Chunk, float]]:
    """The passages of both hops, ranked by the weighted sum of their scores, relative to the best (1)."""
    chunks = {c.id: c for c, _ in [*first, *second]}
    total = {c.id: score for c, score in first}
    for c, score in second:
        total[c.id] = total.get(c.id, 0.0) + SECOND_HOP_WEIGHT * score
    best = sorted(total, key=lambda i: (-total[i], i))
    return [(chunks[i], total[i] / total[best[0]]) for i in best]


async def ask_basic(question: Question, project: Project) -> AnswerDraft:
    """Answer from the best passages of full-text and vector search."""
    k = (await effective_budgets(question, project)).passages
    passages = hybrid_search(question.text, question.vector, project, k)
    return await answer_from_passages(question, project, [(c, 1 - n / k) for n, c in enumerate(passages)])


async def ask_vector_search(question: Question, project: Project) -> AnswerDraft:
    """Answer from the passages nearest in embedding space: the paper's baseline of plain vector search (section 4.1.2)."""
    k = (await effective_budgets(question, project)).passages
    nearest = vectors.nearest(project.db, project.folder, "chunk", question.vector, k)
    return await answer_from_passages(
        question, project, list(zip(chunks_store.chunks_by_id(project.db, [c for c, _ in nearest]), (s for _, s in nearest), strict=True))
    )


async def ask_graph_walk(question: Question, project: Project) -> AnswerDraft:
    """Answer from the passages found by PageRank over the graph."""
    k = (await effective_budgets(question, project)).passages
    passages = retrieve_two_hop(question.text, question.vector, project, k)
    return await answer_from_passages(question, project, passages, names_in(question.text, project))


async def answer_from_passages(
    question: Question, project: Project, passages: Sequence[tuple[Chunk, float]], names: Sequence[str] = ()
) -> AnswerDraft:
    """Answer from scored passages, best first."""
    if not passages:
        return AnswerDraft((), "No passage of the index matches this question.")
    if question.is_extractive:
        return await extractive_draft(question, passages, project)
    budgets = await effective_budgets(question, project)
    within_budget = fit_budget([c for c, _ in passages], lambda c: c.tokens, budgets.sources) or [passages[0][0]]
    points = await write_cited_prose(question, project, passage_sources(within_budget, project), "answer")
    return AnswerDraft(tuple(points) or extract_answer_points(question, passages, project, names))


def passage_sources(chunks: Sequence[Chunk], project: Project) -> list[DraftSource]:
    """Each passage as a source, with `prepend_metadata` after its document's header."""
    with_headers = project.settings.prepend_metadata
    headers = documents.document_headers(project.db, [c.document_id for c in chunks]) if with_headers else {}
    return [
        DraftSource(collapse_whitespace(f"{headers.get(c.document_id, '')}\n{c.text}"), (Quote(c.id, c.start, c.end, c.text),))
        for c in chunks
    ]
