"""basic: the passages nearest the question, no graph. ss: the paper's semantic search, by vectors alone. mix: a walk over the graph."""

from collections.abc import Sequence

from localrag.project import Project
from localrag.query.answering.quoted import brief_draft
from localrag.query.answering.written import budgets_of, write_prose
from localrag.query.draft import Draft, Source
from localrag.query.question import Question
from localrag.query.retrieval.context import pack, quoted_answer
from localrag.query.retrieval.retrieve import names_in, nearest_chunks
from localrag.query.retrieval.two_steps import search_twice
from localrag.records import Chunk, Quote
from localrag.store import corpus, vectors
from localrag.text.plain import squeeze


async def ask_basic(question: Question, project: Project) -> Draft:
    """Answer from the passages nearest by words and meaning."""
    k = (await budgets_of(question, project)).passages
    found = nearest_chunks(question.text, question.vector, project, k)
    return await answer_from(question, project, [(c, 1 - n / k) for n, c in enumerate(found)])


async def ask_ss(question: Question, project: Project) -> Draft:
    """Answer from the passages nearest in meaning: the paper's baseline of plain vector search (section 4.1.2)."""
    k = (await budgets_of(question, project)).passages
    found = vectors.nearest(project.db, project.folder, "chunk", question.vector, k)
    return await answer_from(
        question, project, list(zip(corpus.chunks_by_id(project.db, [c for c, _ in found]), (s for _, s in found), strict=True))
    )


async def ask_mix(question: Question, project: Project) -> Draft:
    """Answer from the passages that a walk over the graph finds."""
    k = (await budgets_of(question, project)).passages
    passages = search_twice(question.text, question.vector, project, k)
    return await answer_from(question, project, passages, names_in(question.text, project))


async def answer_from(question: Question, project: Project, passages: Sequence[tuple[Chunk, float]], names: Sequence[str] = ()) -> Draft:
    """Answer from scored passages, best first."""
    if not passages:
        return Draft((), "No passage of the index fits this question.")
    if question.extractive:
        return await brief_draft(question, passages, project, names)
    budgets = await budgets_of(question, project)
    kept = pack([c for c, _ in passages], lambda c: c.tokens, budgets.sources) or [passages[0][0]]
    points = await write_prose(question, project, passage_sources(kept, project), "answer")
    return Draft(tuple(points) or quoted_answer(question, passages, project, names))


def passage_sources(chunks: Sequence[Chunk], project: Project) -> list[Source]:
    """Each passage as a source of its own, with `prepend_metadata` behind the header of its document."""
    shown = project.settings.prepend_metadata
    headers = corpus.document_headers(project.db, [c.document_id for c in chunks]) if shown else {}
    return [Source(squeeze(f"{headers.get(c.document_id, '')}\n{c.text}"), (Quote(c.id, c.start, c.end, c.text),)) for c in chunks]
