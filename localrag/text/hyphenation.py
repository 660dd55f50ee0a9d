"""Words that the end of a line divides: whether the hyphen belongs to the word or only to the line.

The document decides if it has the word elsewhere; else, in English, the dictionary of TextBlob's tagger, which has 10,000 compounds.
"""

import re
from collections import Counter
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path

_ALL_LETTERS = re.compile(r"[^\W\d_]+")
_COMPOUND = re.compile(r"(?<![\w-])[^\W\d_]+-[^\W\d_]+")
_MIN_CHARS = 4  # of the words on both sides of a hyphen that no dictionary knows
_ENGLISH_SHARE = 0.6  # of the different words of a text that an English dictionary has: English texts 0.8 and more, German ones 0.4
_MIN_COMPOUNDS = 3  # of a dictionary that begin with a word, for it to begin others, too


@dataclass(frozen=True, slots=True)
class DocumentWords:
    """The words of a document and its compounds of two words, in lower case; `as_written`: its words with their capitals."""

    as_written: frozenset[str] = frozenset()
    words: frozenset[str] = frozenset()
    compounds: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class _Dictionary:
    """The words of a dictionary, those that are common, and how many of its compounds begin with a word."""

    words: frozenset[str] = frozenset()
    common: frozenset[str] = frozenset()
    beginnings: Counter[str] = field(default_factory=Counter)


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
        dictionary = _english()
        if before + after in dictionary.common:
            return False
        if f"{before}-{after}" in dictionary.words or before + after in dictionary.words:
            return f"{before}-{after}" in dictionary.words
        if before in dictionary.words and after in dictionary.words and len(after) >= _MIN_CHARS:
            return dictionary.beginnings[before] >= _MIN_COMPOUNDS
    return min(len(before), len(after)) >= _MIN_CHARS and before in known.words and second in known.as_written


@lru_cache(maxsize=2)
def _is_english(known: DocumentWords) -> bool:
    words = {word for word in known.words if len(word) >= _MIN_CHARS and word.isascii()}
    return len(words) > 0 and len(words & _english().words) >= _ENGLISH_SHARE * len(words)


@cache
def _english() -> _Dictionary:
    """The English dictionary; empty where it is not installed. Read as files: importing the package takes a second."""
    spec = find_spec("textblob")
    folder = Path(spec.origin or "").parent / "en" if spec else Path()
    files = [folder / f"en-{name}.txt" for name in ("lexicon", "spelling")]
    if not all(file.is_file() for file in files):
        return _Dictionary()
    lexicon, common = (file.read_text(encoding="utf-8").lower().split() for file in files)  # with the tags and numbers behind the words
    return _Dictionary(frozenset(lexicon), frozenset(common), Counter(word.partition("-")[0] for word in lexicon if "-" in word))
