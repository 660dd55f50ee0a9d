"""Extractive answers: a sure short answer, and the passages that answer as they stand in the documents."""

import asyncio
from collections.abc import Sequence

from localrag.errors import ModelError
from localrag.project import Project
from localrag.query.answerability import is_unanswered
from localrag.query.passages import (
    CHUNKS_READ,
    PASSAGES_SHOWN,
    ReadWindow,
    ShownPassage,
    answer_confidence,
    chunk_windows,
    passages_of,
    rank_unread,
    read_windows,
    short_answer,
)
from localrag.query.question import AnswerDraft, AnswerPoint, Question, quote_point
from localrag.query.question_kind import QuestionKind, question_kind
from localrag.records import Chunk, Quote
from localrag.text.language import frame_text, frame_texts


def refusal_text(question: str) -> str:
    """That the documents do not say it, in the question's language, else in English."""
    return frame_text("refusal", question)


def is_refusal(text: str) -> bool:
    """Whether a text begins with this program's own phrase for "The documents do not say.", in any language."""
    refusals = frame_texts()["refusal"].values()
    return any(text.lstrip().casefold().startswith(said.rstrip(".。").casefold()) for said in refusals)


async def read_chunks(question: str, chunks: Sequence[Chunk], project: Project) -> tuple[list[ReadWindow], bool]:
    """The windows of the best chunks, the likeliest to answer first, and whether the reader read them.

    Where it is switched off or cannot be loaded, which is said once, they are ranked by retrieval and by the question's words.
    """
    windows = list(chunk_windows(chunks[:CHUNKS_READ], project))
    if project.reader is not None:
        try:
            return await asyncio.to_thread(read_windows, question, windows, project), True
        except ModelError as error:
            project.reader.report(project.model.options.notify, error)
    return rank_unread(question, windows), False


async def extractive_draft(question: Question, chunks: Sequence[Chunk], project: Project) -> AnswerDraft:
    """The passages that answer best, below the short answer where the reader is sure of one; a refusal where it is sure that none does."""
    read, is_read = await read_chunks(question.text, chunks, project)
    if not read:
        return AnswerDraft((), refusal_text(question.text), is_refused=True)
    kind = question_kind(question.text, project)
    is_judged = is_read and kind.kind is not QuestionKind.GLOBAL
    sure = answer_confidence(read) if is_judged else None
    if is_judged and is_unanswered(question, read, project):
        return _refusal(question, passages_of(read, None), "", sure)
    short = short_answer(question.text, read) if is_judged and kind.wants_few_words else None
    if question.options.response_type:  # a form that the user chose: sentences, not passages
        best = dict.fromkeys([*filter(None, [short]), *read][: 1 if question.wants_one_sentence else PASSAGES_SHOWN])
        sentences = tuple(quote_point(window.sentence) for window in best)
        return AnswerDraft(sentences, confidence=sure, short_answer=short.answer if short else "")
    points = tuple(map(_passage_point, passages_of(read, short, question.text, kind.kind)))
    if short is None:
        return AnswerDraft(points, confidence=sure)
    return AnswerDraft(points, f"**{short.answer}**", confidence=sure, short_answer=short.answer)


async def refuse_unrelated(question: Question, chunks: Sequence[Chunk], project: Project) -> AnswerDraft | None:
    """A refusal of a question of particulars if the reader is sure that none of the nearest chunks answers it; None if not, or unread.

    A model that writes prose is asked every question, and declines itself.
    """
    if project.reader is None or not question.is_extractive or question_kind(question.text, project).kind is QuestionKind.GLOBAL:
        return None
    read, is_read = await read_chunks(question.text, chunks, project)
    if not (is_read and read and is_unanswered(question, read, project)):
        return None
    return _refusal(question, passages_of(read, None), "", answer_confidence(read))


async def refusal_draft(question: Question, chunks: Sequence[Chunk], project: Project, said: str = "") -> AnswerDraft:
    """The closest passages of the documents, behind `said` or "The documents do not say." in the question's language."""
    read, is_read = await read_chunks(question.text, chunks, project)
    return _refusal(question, passages_of(read, None) if read else [], said, answer_confidence(read) if is_read and read else None)


def _refusal(question: Question, passages: Sequence[ShownPassage], said: str, sure: float | None) -> AnswerDraft:
    intro = frame_text("closest", question.text)
    opening = f"{said or refusal_text(question.text)}" + f"\n\n{intro}" * bool(passages)
    return AnswerDraft(tuple(map(_passage_point, passages)), opening, is_refused=True, confidence=sure)


def _passage_point(passage: ShownPassage) -> AnswerPoint:
    quote = Quote(passage.chunk_id, passage.start, passage.end, passage.text)
    return AnswerPoint(passage.text, (quote,), passage=(passage.headings, passage.marked))
