"""Whether the hyphen of a divided word belongs to the word: by the document's other words, else, in English, TextBlob's dictionary."""

import re
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path

_ALL_LETTERS = re.compile(r"[^\W\d_]+")
_COMPOUND = re.compile(r"(?<![\w-])[^\W\d_]+-[^\W\d_]+")
_MIN_CHARS = 4  # of the words on both sides of a hyphen that no dictionary knows
_ENGLISH_SHARE = 0.6  # of the different words of a text that an English dictionary has: English texts 0.8 and more, German ones 0.4


@dataclass(frozen=True, slots=True)
class DocumentWords:
    """The words of a document and its compounds of two words, in lower case; `as_written`: its words with their capitals."""

    as_written: frozenset[str] = frozenset()
    words: frozenset[str] = frozenset()
    compounds: frozenset[str] = frozenset()


def document_words(text: str) -> DocumentWords:
    """The words of a text, which should not contain divided ones."""
    as_written = frozenset(_ALL_LETTERS.findall(text))
    return DocumentWords(as_written, frozenset(map(str.lower, as_written)), frozenset(map(str.lower, _COMPOUND.findall(text))))


def is_compound(first: str, second: str, known: DocumentWords) -> bool:
    """Whether the hyphen between the parts of a divided word stays: `well-known`, and not `infor-mation`. The second is in lower case."""
    before, after = first.lower(), second.lower()
    if f"{before}-{after}" in known.compounds or before + after in known.words:
        return f"{before}-{after}" in known.compounds
    if _is_english(known):
        words = _english_words("lexicon")
        if f"{before}-{after}" in words or before + after in words:
            return before + after not in _english_words("spelling") and f"{before}-{after}" in words
        if before in words and after in words and len(after) >= _MIN_CHARS:
            return True
    return min(len(before), len(after)) >= _MIN_CHARS and before in known.words and second in known.as_written


@lru_cache(maxsize=2)
def _is_english(known: DocumentWords) -> bool:
    words = {word for word in known.words if len(word) >= _MIN_CHARS and word.isascii()}
    return len(words) > 0 and len(words & _english_words("lexicon")) >= _ENGLISH_SHARE * len(words)


@cache
def _english_words(name: str) -> frozenset[str]:
    """A word list of TextBlob, "lexicon" or "spelling"; empty where it is not installed. Importing the package takes a second."""
    spec = find_spec("textblob")
    file = Path(spec.origin or "").parent / "en" / f"en-{name}.txt" if spec else Path()
    return frozenset(file.read_text(encoding="utf-8").lower().split()) if file.is_file() else frozenset()  # with tags and numbers
