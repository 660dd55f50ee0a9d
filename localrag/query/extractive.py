"""Extractive answers: the short answer, the sentence that contains it, and supporting sentences.

The reader (`llm/qa_reader.py`) gets the best-ranked sentences, each with its neighbours, and returns the words that answer the question
(open-domain reading, Chen et al. 2017). Without a reader, or if it finds no answer, the best-ranked sentences are the answer.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice

from localrag.llm.qa_reader import NONE, ReaderAnswer
from localrag.project import Project
from localrag.query.question import AnswerDraft, Question
from localrag.query.question_analysis import global_question_word
from localrag.query.retriever import content_stems
from localrag.query.sentence_ranking import (
    MAX_SENTENCES,
    NAME,
    CandidateSentences,
    LazySequence,
    chunk_quotes,
    drop_repetitions,
    quote_point,
    rank_quotes,
    score_candidates,
)
from localrag.records import Chunk
from localrag.store import documents
from localrag.text.sentences import is_cjk

BRIEF = 3  # sentences under a short answer
READ = 3  # windows of sentences that are read
STRETCH = 420  # characters of a window, as in training
LOOKED_AT = 12  # best sentences among which one is looked for that leads to the answer's
SURE = -2.3  # natural logarithm of a short answer's probability, from which on it is given
_YES_OR_NO = re.compile(r"^(?:is|are|was|were|do|does|did|has|have|had|can|could|will|would|should|must)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Short:
    """A short answer, the number of the sentence that holds it, and its probability (natural logarithm)."""

    text: str
    sentence: int
    log_probability: float


async def extractive_draft(
    question: Question, passages: Sequence[tuple[Chunk, float]], project: Project, names: Sequence[str] = (), opening: str = ""
) -> AnswerDraft:
    """The sentences of scored passages that answer best, below the short answer where the reader finds one."""
    weight = {c.id: score for c, score in passages}
    quotes = chunk_quotes([c for c, _ in passages], question.text)
    found = score_candidates(question.text, quotes, names, weight)
    order = LazySequence(drop_repetitions(rank_quotes(question.text, question.vector, found, project, weight), found.texts))
    short = None if global_question_word(question.text) else await read(question, found, order, project)
    if short is None or short.log_probability < SURE:
        k = 1 if question.wants_one_sentence else MAX_SENTENCES
        return AnswerDraft(tuple(quote_point(found.quotes[n]) for n in islice(order, k)), opening)
    leading = _leading_to(short.sentence, islice((n for n in order if n != short.sentence), LOOKED_AT), found, project, names)
    first = [short.sentence, *leading]
    shown = islice(chain(first, (n for n in order if n not in first)), 1 if question.wants_one_sentence else BRIEF)
    bold = "" if question.options.response_type else f"**{short.text}**"  # a form that the user chose is kept to
    return AnswerDraft(tuple(quote_point(found.quotes[n]) for n in shown), bold, short_answer=short.text)


def windows_to_read(question: Question, passages: Sequence[Chunk], project: Project) -> list[str]:
    """The best sentences of passages, each with its neighbours, as texts for the reader."""
    weight = {c.id: 1 - n / len(passages) for n, c in enumerate(passages)}
    found = score_candidates(question.text, chunk_quotes(passages, question.text), (), weight)
    order = drop_repetitions(rank_quotes(question.text, question.vector, found, project, weight), found.texts)
    windows = list(_windows(found, order))
    titles = documents.document_titles(project.db, {found.quotes[w[0]].chunk_id for w in windows})
    return [_text(window, found, titles) for window in windows]


async def read(question: Question, found: CandidateSentences, order: Iterable[int], project: Project) -> Short | None:
    """The short answer that the reader finds likeliest in the best sentences; None where it finds none."""
    if project.qa_reader is None or is_cjk(question.text):  # it can hardly read Chinese: EM 7 % on XQuAD
        return None
    windows = list(_windows(found, order))
    if not windows:
        return None
    question.report_status(f"reading {len(windows)} passages …")
    titles = documents.document_titles(project.db, {found.quotes[w[0]].chunk_id for w in windows})
    texts = [_text(window, found, titles) for window in windows]
    whether = _asks_whether(question.text)
    if whether:  # two things may have to be compared, which stand in different passages
        windows, texts = [list(islice(order, 1)), *windows], [" ".join(texts), *texts]
    said = await project.qa_reader.read(question.text, texts, yes_or_no=whether)
    answers = [(one, window) for one, window in zip(said, windows, strict=False) if _new(one, question.text)]
    if not answers:
        return None
    best, window = max(answers, key=lambda a: a[0].log_probability)
    holding = [n for n in window if whether or best.text in found.texts[n]] or window
    sentence = holding[0] if len(holding) == 1 else next((n for n in order if n in holding), holding[0])
    return Short(best.text, sentence, best.log_probability)


def _new(said: ReaderAnswer, question: str) -> bool:
    """Whether something is said that the question does not say itself."""
    return said.text != NONE and (not content_stems(said.text) or not content_stems(said.text) <= content_stems(question))


def _asks_whether(question: str) -> bool:
    return bool(_YES_OR_NO.search(question)) and " or " not in question


def _windows(found: CandidateSentences, order: Iterable[int]) -> Iterator[list[int]]:
    """The best sentences, each with the sentences before and after it in its passage, as far as there is room; none in two windows."""
    taken: set[int] = set()
    windows = 0
    for n in order:
        if n in taken:
            continue
        first = last = n
        grown = True
        while grown:
            grown = False
            for new in (last + 1, first - 1):
                if 0 <= new < len(found.quotes) and new not in taken and found.quotes[new].chunk_id == found.quotes[n].chunk_id:
                    a, b = min(first, new), max(last, new)
                    if sum(len(t) + 1 for t in found.texts[a : b + 1]) <= STRETCH:
                        first, last, grown = a, b, True
        taken.update(range(first, last + 1))
        yield list(range(first, last + 1))
        windows += 1
        if windows == READ:
            return


def _text(window: Sequence[int], found: CandidateSentences, titles: Mapping[str, str]) -> str:
    """What the reader is shown of a window: its sentences behind the title of their document."""
    text = " ".join(found.texts[n] for n in window)
    title = titles.get(found.quotes[window[0]].chunk_id, "")
    return f"{title}. {text}" if title and not text.startswith(title) else text


def _leading_to(answer: int, others: Iterable[int], found: CandidateSentences, project: Project, names: Sequence[str]) -> list[int]:
    """The best sentence that says what the answer's passage has to do with the question, if that does not name what the question names.

    It names what the question names, and what the answer's passage is about: its title, or a name in the sentence with the answer.
    """
    asked = [n.lower() for n in names]
    text, quote = found.texts[answer], found.quotes[answer]
    if not asked or any(n in text.lower() for n in asked):
        return []
    title = documents.document_titles(project.db, [quote.chunk_id]).get(quote.chunk_id, "")
    about = {n.lower() for n in (title, *(m.group() for m in NAME.finditer(text))) if " " in n and n.lower() not in asked}
    for n in others:
        other = found.texts[n].lower()
        if found.quotes[n].chunk_id != quote.chunk_id and any(a in other for a in about) and any(a in other for a in asked):
            return [n]
    return []
