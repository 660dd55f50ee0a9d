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
from localrag.text.language import detect_language

_REFUSAL_TEXTS = {
    "en": ("The documents do not say.", "Closest:"),
    "de": ("Das steht nicht in den Dokumenten.", "Am nächsten kommt:"),
    "es": ("Los documentos no lo dicen.", "Lo más cercano:"),
    "fr": ("Les documents ne le disent pas.", "Au plus près :"),
    "it": ("I documenti non lo dicono.", "Il più vicino:"),
    "pt": ("Os documentos não o dizem.", "O mais próximo:"),
    "nl": ("De documenten zeggen dat niet.", "Het dichtst erbij:"),
    "zh": ("文档中没有提到。", "最接近的内容："),
    "ja": ("文書には書かれていません。", "最も近い箇所："),
    "ko": ("문서에 나와 있지 않습니다.", "가장 가까운 내용:"),
    "ru": ("В документах этого нет.", "Ближе всего:"),
    "uk": ("У документах цього немає.", "Найближче:"),
    "pl": ("Dokumenty tego nie podają.", "Najbliżej:"),
    "cs": ("V dokumentech to není.", "Nejblíže:"),
    "tr": ("Belgelerde bu yazmıyor.", "En yakını:"),
    "sv": ("Det står inte i dokumenten.", "Närmast:"),
    "da": ("Det står ikke i dokumenterne.", "Tættest på:"),
    "no": ("Det står ikke i dokumentene.", "Nærmest:"),
    "fi": ("Asiakirjoissa ei sanota sitä.", "Lähimpänä:"),
    "hu": ("Ez nem szerepel a dokumentumokban.", "A legközelebbi:"),
    "ro": ("Documentele nu spun asta.", "Cel mai apropiat:"),
    "el": ("Τα έγγραφα δεν το λένε.", "Πιο κοντά:"),
    "ar": ("لا تذكر الوثائق ذلك.", "الأقرب:"),
    "he": ("המסמכים אינם אומרים זאת.", "הקרוב ביותר:"),
    "vi": ("Tài liệu không nói điều đó.", "Gần nhất:"),
    "id": ("Dokumen tidak menyebutkannya.", "Yang terdekat:"),
    "hi": ("दस्तावेज़ों में यह नहीं है।", "सबसे निकट:"),
}


def refusal_text(question: str) -> str:
    """That the documents do not say it, in the question's language, else in English."""
    return _REFUSAL_TEXTS.get(detect_language(question), _REFUSAL_TEXTS["en"])[0]


def is_refusal(text: str) -> bool:
    """Whether a text begins with this program's own phrase for "The documents do not say.", in any language."""
    return any(text.lstrip().casefold().startswith(said.rstrip(".。").casefold()) for said, _ in _REFUSAL_TEXTS.values())


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
    intro = _REFUSAL_TEXTS.get(detect_language(question.text), _REFUSAL_TEXTS["en"])[1]
    opening = f"{said or refusal_text(question.text)}" + f"\n\n{intro}" * bool(passages)
    return AnswerDraft(tuple(map(_passage_point, passages)), opening, is_refused=True, confidence=sure)


def _passage_point(passage: ShownPassage) -> AnswerPoint:
    quote = Quote(passage.chunk_id, passage.start, passage.end, passage.text)
    return AnswerPoint(passage.text, (quote,), passage=(passage.headings, passage.marked))
