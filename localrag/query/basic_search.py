"""Modes basic (full text and vectors), ss (vectors only, the paper's baseline) and mix (PageRank over the graph); two-hop retrieval.

The second hop searches with the question and the sentence that the reader prefers in the passages of the first, so that passages connected
only through a first one are found by their own words (multi-hop retrieval with the evidence so far, as MDR, Xiong et al. 2021).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

import numpy as np
from numpy.typing import NDArray

from localrag.project import Project
from localrag.query.abstractive import effective_budgets, previous_sources, write_cited_prose
from localrag.query.citations import to_one_line
from localrag.query.extractive import extractive_draft, read_chunks
from localrag.query.passage_ranking import SearchSignals, rank_passages
from localrag.query.passages import CHUNKS_READ, ReadWindow, ShownPassage, chunk_windows, passages_of, rank_unread, window_passage
from localrag.query.question import AnswerDraft, DraftSource, Question
from localrag.query.question_kind import question_kind
from localrag.query.retriever import hybrid_search, retrieve, search_meaning_and_words
from localrag.records import Chunk, Quote
from localrag.store import chunks as chunks_store
from localrag.store import documents, vectors
from localrag.text.sentences import collapse_whitespace

CANDIDATES_PER_HOP = 60  # passages
COMPLETE_PASSAGES = 2  # of the sections and lists that an answer without a model shows, for a prompt
PREVIOUS_SHARE = 3  # a third of the budget is for the sources of the last answer
PLACE_TOKENS = 12  # of a source's number and file
# With less room than this, in tokens, a prompt has only windows whose log odds to answer are at most MAX_BELOW_BEST below the best ones',
# and the best window of each of the LEADING_CHUNKS, which may hold what a second step needs. Of 80 questions of docqa 70 keep their gold
# passages, as without a limit, with two thirds of the tokens; of 60 of HotpotQA 49, without a limit 52.
ROOM_FOR_UNLIKELY, MAX_BELOW_BEST, LEADING_CHUNKS = 3000, 4.0, 4


async def retrieve_two_hop(question: str, vector: NDArray[np.float32], project: Project, k: int) -> list[Chunk]:
    """The `k` most relevant passages for a question, best first. `vector`, (d,): the question's. Raises ModelError without the ranking."""
    found = await search_two_hops(question, vector, project)
    if found.searches is None:
        return list(found.chunks[:k])
    return rank_passages(found.chunks, *found.searches, project)[:k]


@dataclass(frozen=True, slots=True)
class TwoHops:
    """The passages of both searches, those of the first one before the others, and what each search says; None if there was only one."""

    chunks: tuple[Chunk, ...]
    searches: tuple[SearchSignals, SearchSignals] | None


async def search_two_hops(question: str, vector: NDArray[np.float32], project: Project) -> TwoHops:
    """Search for a question, and again with the sentence that the reader prefers added to it; once where nothing can be read."""
    first = retrieve(question, vector, project, CANDIDATES_PER_HOP)
    read, is_read = await read_chunks(question, [c for c, _ in first], project)
    if not read:
        return TwoHops(tuple(c for c, _ in first), None)
    extended = f"{question} {collapse_whitespace(read[0].sentence.text if is_read else read[0].window.text)}"
    extended_vector = project.embedder.embed([extended])[0]
    second = retrieve(extended, extended_vector, project, CANDIDATES_PER_HOP)
    chunks = {c.id: c for c, _ in [*first, *second]}
    searches = (search_signals(question, vector, first, project), search_signals(extended, extended_vector, second, project))
    return TwoHops(tuple(chunks.values()), searches)


def search_signals(text: str, vector: NDArray[np.float32], found: Sequence[tuple[Chunk, float]], project: Project) -> SearchSignals:
    """What a search for a text, with its vector, (d,), says of the chunks that it found."""
    by_meaning, by_words = search_meaning_and_words(text, vector, project)
    return SearchSignals(text, {c.id: score for c, score in found}, dict(by_meaning), dict(by_words))


async def ask_basic(question: Question, project: Project) -> AnswerDraft:
    """Answer from the best passages of full-text and vector search."""
    k = (await effective_budgets(question, project)).passages
    return await answer_from_passages(question, project, hybrid_search(question.text, question.vector, project, k))


async def ask_vector_search(question: Question, project: Project) -> AnswerDraft:
    """Answer from the passages nearest in embedding space: the paper's baseline of plain vector search (section 4.1.2)."""
    k = (await effective_budgets(question, project)).passages
    return await answer_from_passages(question, project, nearest_passages(question, project, k))


def nearest_passages(question: Question, project: Project, k: int) -> list[Chunk]:
    """The `k` passages nearest to the question in embedding space."""
    nearest = vectors.nearest(project.db, project.folder, "chunk", question.vector, k)
    return chunks_store.chunks_by_id(project.db, [chunk_id for chunk_id, _ in nearest])


async def ask_graph_walk(question: Question, project: Project) -> AnswerDraft:
    """Answer from the passages found by PageRank over the graph."""
    k = (await effective_budgets(question, project)).passages
    return await answer_from_passages(question, project, await retrieve_two_hop(question.text, question.vector, project, k))


async def answer_from_passages(question: Question, project: Project, passages: Sequence[Chunk]) -> AnswerDraft:
    """Answer from passages, best first."""
    if not passages:
        return AnswerDraft((), "No passage of the index matches this question.")
    if question.is_extractive:
        return await extractive_draft(question, passages, project)
    sources = await best_sources(question, passages, project, (await effective_budgets(question, project)).sources)
    points = await write_cited_prose(question, project, sources, "answer")
    return AnswerDraft(tuple(points)) if points else await extractive_draft(question, passages, project)


async def best_sources(question: Question, chunks: Sequence[Chunk], project: Project, budget: int) -> list[DraftSource]:
    """Stretches of the chunks as sources within a number of tokens, the likeliest to answer first; none of them twice.

    First the passages that an answer without a model would show, then the other windows of the best chunks as the reader ranks them, then
    those of the other chunks. A small budget has the likely ones alone: they are read sooner, and distract a small model less.
    """
    previous = previous_sources(question, budget // PREVIOUS_SHARE)
    budget -= sum([await project.model.count(s.text) for s in previous])
    read, is_read = await read_chunks(question.text, chunks, project)
    if not read:
        return previous
    shown = passages_of(read, None, question.text, question_kind(question.text, project).kind)[:COMPLETE_PASSAGES]
    if is_read and budget < ROOM_FOR_UNLIKELY:
        windows = likely_windows(read)
    else:
        windows = [*read, *rank_unread(question.text, chunk_windows(chunks[CHUNKS_READ:], project))]
    taken: list[ShownPassage] = []
    left = budget
    for passage in [*shown, *(window_passage(w.window) for w in windows)]:
        if any(passage.overlaps(other) for other in taken):
            continue
        size = await project.model.count(f"{passage.text}\n{' '.join(passage.headings)}") + PLACE_TOKENS
        if size > left and taken:
            break
        taken.append(passage)
        left -= size
    return [*previous, *(_passage_source(passage, project) for passage in taken)]


def likely_windows(read: Sequence[ReadWindow]) -> list[ReadWindow]:
    """Of windows, best first, those that are nearly as likely to answer as the best, and the best one of each leading chunk."""
    least, seen, likely = read[0].score - MAX_BELOW_BEST, set(), []
    for window in read:
        rank = window.window.rank
        if window.score >= least or (rank < LEADING_CHUNKS and rank not in seen):
            likely.append(window)
        seen.add(rank)
    return likely


def _passage_source(passage: ShownPassage, project: Project) -> DraftSource:
    quote = Quote(passage.chunk_id, passage.start, passage.end, passage.text)
    header = f"{passage.document.header}\n" if project.settings.prepend_metadata else ""
    return DraftSource(header + passage.text, (quote,), place_of(passage.document.path, passage.headings))


def place_of(path: str, headings: Sequence[str]) -> str:
    """Where a passage stands, for prompts: its file and the headings above it."""
    return to_one_line(" › ".join((path if not path.startswith("/") else PurePosixPath(path).name, *headings)))


def passage_sources(chunks: Sequence[Chunk], project: Project) -> list[DraftSource]:
    """Each chunk as a source, with `prepend_metadata` below its document's header."""
    with_headers = project.settings.prepend_metadata
    headers = documents.document_headers(project.db, [c.document_id for c in chunks]) if with_headers else {}
    return [
        DraftSource(
            f"{headers.get(c.document_id, '')}\n{c.text}".strip(),
            (Quote(c.id, c.start, c.end, c.text),),
            place_of(documents.document_path(project.db, c.id), c.headings),
        )
        for c in chunks
    ]
