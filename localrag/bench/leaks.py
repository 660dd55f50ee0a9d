"""Does a model say its instructions instead of the text? Words of the prompts' examples and wording that the text does not have."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from localrag.llm.prompts import load_prompt
from localrag.system.files import data_path
from localrag.text.plain import FUNCTION_WORDS

LONGEST = 5  # words in a row: shorter runs ("is a town in the") are the language's, not the prompt's

Window = tuple[str, ...]
_WORD = re.compile(r"[\u3040-\u9fff]|[^\W_]+")


@dataclass(frozen=True, slots=True)
class Wording:
    """What the prompts say of their own: runs of 1 to LONGEST words, by length, and the words that only ever stand there as names."""

    windows: tuple[frozenset[Window], ...]
    names: frozenset[str]


def wording(style: str) -> Wording:
    """The instructions and examples of all prompts of a style."""
    files = sorted((data_path("prompts") / style).glob("*.md"))
    return wording_of([text for file in files for _, text in load_prompt(f"{style}/{file.stem}").messages])


def wording_of(texts: Sequence[str]) -> Wording:
    """The wording of some prompts."""
    said = [re.findall(r"[^\W_]+", text) for text in texts]
    small = {word for words in said for word in words if word.islower()}
    names = {word for words in said for word in words if word.istitle() and len(word) > 3} - {w.title() for w in small | FUNCTION_WORDS}
    every = [_words(text) for text in texts]
    windows = (frozenset(run for words in every for run in _runs(words, n)) for n in range(1, LONGEST + 1))
    return Wording(tuple(windows), frozenset(names))


def leaks(said: str, text: str, prompts: Wording) -> bool:
    """Whether what a model said about `text` holds a name of the prompts, or words in a row of theirs, that the text does not have.

    What is shorter than LONGEST words counts as a whole.
    """
    words, read = _words(said), _words(text)
    length = min(LONGEST, len(words))
    if not length:
        return False
    if any(w in prompts.names for w in re.findall(r"[^\W_]+", said) if w.casefold() not in read):
        return True
    own = frozenset(_runs(read, length))
    return any(run in prompts.windows[length - 1] and run not in own for run in _runs(words, length))


def _words(text: str) -> list[str]:
    return [w.casefold() for w in _WORD.findall(text)]


def _runs(words: Sequence[str], length: int) -> list[Window]:
    return [tuple(words[i : i + length]) for i in range(len(words) - length + 1)]
