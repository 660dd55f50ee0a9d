"""Detects answers that repeat the prompt, as those of small models do: its instructions, an example, or the question."""

import re
from collections.abc import Iterable, Iterator, Sequence
from string import Template

from localrag.llm.prompts import Prompt
from localrag.text.plain import CJK

RUN = 4  # words in a row that also occur in the prompt count as copied
COPIED = 0.6  # least share of copied words at which a text is an echo of the prompt
_WORD = re.compile(rf"[{CJK}]|[^\W_{CJK}]+")


class Echo:
    """Compares texts with the fixed text of a prompt and with the question; words that occur in the sources do not count as copied."""

    def __init__(self, prompt: Prompt, question: str, sources: str, *more: str) -> None:
        said = set(_runs(_words(sources)))
        fixed = [part for _, text in prompt.messages for part in Template.pattern.split(text) if part and " " in part]
        self._fixed = {run for text in (*fixed, *more) for run in _runs(_words(text))} - said
        self._question = set(_runs(_words(question))) - said
        self._asked = _words(question)

    def is_in(self, text: str) -> bool:
        """Whether a text mostly repeats the prompt, or is nothing but the question."""
        words = _words(text)
        if len(words) < RUN:
            return bool(words) and words == self._asked
        return _share(words, self._fixed) >= COPIED or _share(words, self._question) == 1


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _runs(words: Sequence[str]) -> Iterator[tuple[str, ...]]:
    return (tuple(words[n : n + RUN]) for n in range(len(words) - RUN + 1))


def _share(words: Sequence[str], known: Iterable[tuple[str, ...]]) -> float:
    """The share of words that are part of a known run."""
    held: set[int] = set()
    for n, run in enumerate(_runs(words)):
        if run in known:
            held.update(range(n, n + RUN))
    return len(held) / len(words)
