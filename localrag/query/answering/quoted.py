"""An answer in the documents' own words: the short answer, the sentence that holds it, and the sentences that bear it out.

The reader (`llm/reader.py`) is shown the sentences that rank best, each with its neighbours, and says in which words they answer
(open-domain reading, Chen et al. 2017). Without a reader, or where it finds no answer, the sentences stand as they rank.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice

from localrag.llm.reader import NONE, Said
from localrag.project import Project
from localrag.query.draft import Draft
from localrag.query.question import Question
from localrag.query.questions.whole import about_everything
from localrag.query.retrieval.context import SENTENCES, AsNeeded, Sentences, chunk_quotes, quoted, ranked, unlike, worth_quoting
from localrag.query.retrieval.rank_sentences import NAME
from localrag.query.retrieval.retrieve import stems
from localrag.records import Chunk
from localrag.store import corpus
from localrag.text.plain import is_cjk

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


async def brief_draft(
    question: Question, passages: Sequence[tuple[Chunk, float]], project: Project, names: Sequence[str] = (), opening: str = ""
) -> Draft:
    """The sentences of scored passages that answer best, below the short answer where the reader finds one."""
    weight = {c.id: score for c, score in passages}
    quotes = chunk_quotes([c for c, _ in passages], question.text)
    found = worth_quoting(question.text, quotes, names, weight)
    order = AsNeeded(unlike(ranked(question.text, question.vector, found, project, weight), found.texts))
    short = None if about_everything(question.text) else await read(question, found, order, project)
    if short is None or short.log_probability < SURE:
        k = 1 if question.one_sentence else SENTENCES
        return Draft(tuple(quoted(found.quotes[n]) for n in islice(order, k)), opening)
    leading = _leading_to(short.sentence, islice((n for n in order if n != short.sentence), LOOKED_AT), found, project, names)
    first = [short.sentence, *leading]
    shown = islice(chain(first, (n for n in order if n not in first)), 1 if question.one_sentence else BRIEF)
    bold = "" if question.options.response_type else f"**{short.text}**"  # a form that the user chose is kept to
    return Draft(tuple(quoted(found.quotes[n]) for n in shown), bold, short=short.text)


def windows_to_read(question: Question, passages: Sequence[Chunk], project: Project) -> list[str]:
    """The best sentences of passages, each with its neighbours, as texts for the reader."""
    weight = {c.id: 1 - n / len(passages) for n, c in enumerate(passages)}
    found = worth_quoting(question.text, chunk_quotes(passages, question.text), (), weight)
    order = unlike(ranked(question.text, question.vector, found, project, weight), found.texts)
    windows = list(_windows(found, order))
    titles = corpus.titles(project.db, {found.quotes[w[0]].chunk_id for w in windows})
    return [_text(window, found, titles) for window in windows]


async def read(question: Question, found: Sentences, order: Iterable[int], project: Project) -> Short | None:
    """The short answer that the reader finds likeliest in the best sentences; None where it finds none."""
    if project.reader is None or is_cjk(question.text):  # it can hardly read Chinese: EM 7 % on XQuAD
        return None
    windows = list(_windows(found, order))
    if not windows:
        return None
    question.tell(f"reading {len(windows)} passages …")
    titles = corpus.titles(project.db, {found.quotes[w[0]].chunk_id for w in windows})
    texts = [_text(window, found, titles) for window in windows]
    whether = _asks_whether(question.text)
    if whether:  # two things may have to be compared, which stand in different passages
        windows, texts = [list(islice(order, 1)), *windows], [" ".join(texts), *texts]
    said = await project.reader.read(question.text, texts, yes_or_no=whether)
    answers = [(one, window) for one, window in zip(said, windows, strict=False) if _new(one, question.text)]
    if not answers:
        return None
    best, window = max(answers, key=lambda a: a[0].log_probability)
    holding = [n for n in window if whether or best.text in found.texts[n]] or window
    sentence = holding[0] if len(holding) == 1 else next((n for n in order if n in holding), holding[0])
    return Short(best.text, sentence, best.log_probability)


def _new(said: Said, question: str) -> bool:
    """Whether something is said that the question does not say itself."""
    return said.text != NONE and (not stems(said.text) or not stems(said.text) <= stems(question))


def _asks_whether(question: str) -> bool:
    return bool(_YES_OR_NO.search(question)) and " or " not in question


def _windows(found: Sentences, order: Iterable[int]) -> Iterator[list[int]]:
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


def _text(window: Sequence[int], found: Sentences, titles: Mapping[str, str]) -> str:
    """What the reader is shown of a window: its sentences behind the title of their document."""
    text = " ".join(found.texts[n] for n in window)
    title = titles.get(found.quotes[window[0]].chunk_id, "")
    return f"{title}. {text}" if title and not text.startswith(title) else text


def _leading_to(answer: int, others: Iterable[int], found: Sentences, project: Project, names: Sequence[str]) -> list[int]:
    """The best sentence that says what the answer's passage has to do with the question, if that does not name what the question names.

    It names what the question names, and what the answer's passage is about: its title, or a name in the sentence with the answer.
    """
    asked = [n.lower() for n in names]
    text, quote = found.texts[answer], found.quotes[answer]
    if not asked or any(n in text.lower() for n in asked):
        return []
    title = corpus.titles(project.db, [quote.chunk_id]).get(quote.chunk_id, "")
    about = {n.lower() for n in (title, *(m.group() for m in NAME.finditer(text))) if " " in n and n.lower() not in asked}
    for n in others:
        other = found.texts[n].lower()
        if found.quotes[n].chunk_id != quote.chunk_id and any(a in other for a in about) and any(a in other for a in asked):
            return [n]
    return []
