"""Part-of-speech tags and noun phrases without a model: TextBlob's rules for English, jieba for Chinese; both include their data."""

import logging
import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from typing import Any

from localrag.system.files import cache_dir
from localrag.text.sentences import STOP_WORDS, Span, is_cjk, split_at_breaks

_ENGLISH = re.compile(r"\b(?:the|of|and|to|in|is|was|are|for|with|that|by|on|as|it)\b", re.IGNORECASE)
_WORD_PATTERN = re.compile(r"[^\W\d_][\w’'-]*")
_CONNECTED = re.compile(r"[ \n-]")
_MAX_TAGGER_CHARS = 50_000  # characters per call of a tagger, which builds lists of all its input
GENERIC_NOUNS = frozenset(  # nouns that name no entity
    """
    way thing things something anything everything nothing time times day days night morning evening moment hour hours minute minutes
    year years week weeks month months kind sort lot lots part parts number numbers bit piece side end ends case cases fact facts
    example examples instance reason reasons result results use uses order place places point points hand hands eye eyes face head
    voice word words sense manner course matter question questions idea ideas others ones someone somebody anyone everyone none
    """.split()
)


def is_english(text: str) -> bool:
    """Whether the most common English words make up at least a tenth of the text's words."""
    words = sum(1 for _ in _WORD_PATTERN.finditer(text))
    return words > 0 and sum(1 for _ in _ENGLISH.finditer(text)) * 10 >= words


def noun_phrases(text: str) -> Iterator[Span]:
    """The noun phrases of an English or Chinese text: adjectives and nouns ending in a noun, without articles. Other languages: none."""
    cjk = is_cjk(text)
    if cjk or is_english(text):
        for start, end in split_at_breaks(text, _MAX_TAGGER_CHARS):
            part = text[start:end]
            for a, b in chinese_noun_phrases(tag_chinese(part)) if cjk else _english_phrases(part):
                yield Span(start + a, start + b)


def chinese_noun_phrases(words: Iterable[tuple[str, str]]) -> Iterator[Span]:
    """The nouns of at least two characters in a Chinese text, given its words with their tags."""
    position = 0
    for word, flag in words:
        if flag.startswith("n") and len(word) > 1:
            yield Span(position, position + len(word))
        position += len(word)


def _english_phrases(text: str) -> Iterator[Span]:
    run: list[tuple[Span, str]] = []
    for span, tag in [*tag_english(text), (Span(len(text), len(text)), ".")]:
        word = text[span.start : span.end]
        is_part = tag.startswith(("NN", "JJ")) and len(word) > 1 and word.lower() not in STOP_WORDS
        if is_part and (not run or _CONNECTED.fullmatch(text, run[-1][0].end, span.start)):
            run.append((span, tag))
            continue
        yield from _phrase(text, run)
        run = [(span, tag)] if is_part else []


def _phrase(text: str, run: list[tuple[Span, str]]) -> Iterator[Span]:
    while run and not run[-1][1].startswith("NN"):
        run.pop()
    if run and text[run[-1][0].start : run[-1][0].end].lower() not in GENERIC_NOUNS:
        yield Span(run[0][0].start, run[-1][0].end)


def tag_english(text: str) -> Iterator[tuple[Span, str]]:
    """The words of an English text with their Penn Treebank tags."""
    end = 0
    for word, tag in _tagged(text):
        start = text.find(word, end)
        if start >= 0:
            end = start + len(word)
            if _WORD_PATTERN.match(word):
                yield Span(start, end), tag


def _tagged(text: str) -> Iterator[list[str]]:
    """Like TextBlob's `tag`, without its detour through a string."""
    for sentence in _textblob().parser.parse(text, tokenize=True, tags=True, chunks=False, collapse=False):
        yield from sentence


def dictionary_tag(word: str) -> str:
    """The Penn Treebank tag of a word in the English dictionary, as written; empty for an unknown word."""
    return str(_textblob().lexicon.get(word) or "")


def tag_chinese(text: str) -> Iterator[tuple[str, str]]:
    """The words of a Chinese text with jieba's tags; joined, they are the text."""
    for pair in _jieba().cut(text):
        yield pair.word, pair.flag


@cache
def _textblob() -> Any:
    """The English module of TextBlob without its package, which imports NLTK and SciPy: more than a second of CPU time."""
    spec = find_spec("textblob")
    if spec is None or "textblob" in sys.modules:
        return import_module("textblob.en")
    sys.modules["textblob"] = module_from_spec(spec)  # empty: the package's code is not executed
    try:
        return import_module("textblob.en")
    finally:
        for name in [n for n in sys.modules if n.split(".")[0] == "textblob"]:  # other importers get the complete package
            del sys.modules[name]


@cache
def _jieba() -> Any:
    import jieba
    import jieba.posseg

    jieba.setLogLevel(logging.WARNING)
    jieba.dt.tmp_dir = str(cache_dir())  # its default is /tmp, where anybody could have put the file it loads
    return jieba.posseg
