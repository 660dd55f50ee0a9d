"""Does a model give back its prompt instead of an answer? Small models do: the instructions, an example, the question."""

import re
from collections.abc import Iterable, Iterator, Sequence
from string import Template

from localrag.llm.prompts import Prompt
from localrag.text.plain import CJK

RUN = 4  # words in a row that the prompt has, too, are taken from it
MADE_OF = 0.6  # share of a text's words in such runs, from which on it is made of the prompt
_WORD = re.compile(rf"[{CJK}]|[^\W_{CJK}]+")


class Echo:
    """Knows the fixed text of a prompt, and a question; what the sources of an answer say themselves is nobody's echo."""

    def __init__(self, prompt: Prompt, question: str, sources: str, *more: str) -> None:
        said = set(_runs(_words(sources)))
        fixed = [part for _, text in prompt.messages for part in Template.pattern.split(text) if part and " " in part]
        self._fixed = {run for text in (*fixed, *more) for run in _runs(_words(text))} - said
        self._question = set(_runs(_words(question))) - said
        self._asked = _words(question)

    def is_in(self, text: str) -> bool:
        """Whether a text is made of the prompt, or merely repeats the question."""
        words = _words(text)
        if len(words) < RUN:
            return bool(words) and words == self._asked
        return _share(words, self._fixed) >= MADE_OF or _share(words, self._question) == 1


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _runs(words: Sequence[str]) -> Iterator[tuple[str, ...]]:
    return (tuple(words[n : n + RUN]) for n in range(len(words) - RUN + 1))


def _share(words: Sequence[str], known: Iterable[tuple[str, ...]]) -> float:
    """The share of words that stand in a run that is known."""
    held: set[int] = set()
    for n, run in enumerate(_runs(words)):
        if run in known:
            held.update(range(n, n + RUN))
    return len(held) / len(words)
