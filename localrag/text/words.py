"""Parts of speech without a model: English by TextBlob's dictionary and rules, Chinese by jieba's; both bring their data along."""

import logging
import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from typing import Any

from localrag.system.files import cache_dir
from localrag.text.plain import FUNCTION_WORDS, Span, is_cjk, stretches

_ENGLISH = re.compile(r"\b(?:the|of|and|to|in|is|was|are|for|with|that|by|on|as|it)\b", re.IGNORECASE)
_WORD = re.compile(r"[^\W\d_][\w’'-]*")
_CONNECTED = re.compile(r"[ \n-]")
_AT_ONCE = 50_000  # characters handed to a tagger: it holds all it is given as lists
VAGUE = frozenset(  # nouns that head no entity
    """
    way thing things something anything everything nothing time times day days night morning evening moment hour hours minute minutes
    year years week weeks month months kind sort lot lots part parts number numbers bit piece side end ends case cases fact facts
    example examples instance reason reasons result results use uses order place places point points hand hands eye eyes face head
    voice word words sense manner course matter question questions idea ideas others ones someone somebody anyone everyone none
    """.split()
)


def is_english(text: str) -> bool:
    """Whether the commonest English words make up a tenth of the text's words."""
    words = sum(1 for _ in _WORD.finditer(text))
    return words > 0 and sum(1 for _ in _ENGLISH.finditer(text)) * 10 >= words


def noun_phrases(text: str) -> Iterator[Span]:
    """The noun phrases of an English or Chinese text: adjectives and nouns ending in a noun, without articles. Others have none."""
    cjk = is_cjk(text)
    if cjk or is_english(text):
        for start, end in stretches(text, _AT_ONCE):
            part = text[start:end]
            for a, b in chinese_phrases(chinese_words(part)) if cjk else _english_phrases(part):
                yield Span(start + a, start + b)


def chinese_phrases(words: Iterable[tuple[str, str]]) -> Iterator[Span]:
    """The nouns of a Chinese text of two characters and more, given its words with their parts of speech."""
    at = 0
    for word, flag in words:
        if flag.startswith("n") and len(word) > 1:
            yield Span(at, at + len(word))
        at += len(word)


def _english_phrases(text: str) -> Iterator[Span]:
    run: list[tuple[Span, str]] = []
    for span, tag in [*english_words(text), (Span(len(text), len(text)), ".")]:
        word = text[span.start : span.end]
        fits = tag.startswith(("NN", "JJ")) and len(word) > 1 and word.lower() not in FUNCTION_WORDS
        if fits and (not run or _CONNECTED.fullmatch(text, run[-1][0].end, span.start)):
            run.append((span, tag))
            continue
        yield from _phrase(text, run)
        run = [(span, tag)] if fits else []


def _phrase(text: str, run: list[tuple[Span, str]]) -> Iterator[Span]:
    while run and not run[-1][1].startswith("NN"):
        run.pop()
    if run and text[run[-1][0].start : run[-1][0].end].lower() not in VAGUE:
        yield Span(run[0][0].start, run[-1][0].end)


def english_words(text: str) -> Iterator[tuple[Span, str]]:
    """The words of an English text with their part of speech (Penn Treebank)."""
    at = 0
    for word, tag in _tagged(text):
        found = text.find(word, at)
        if found >= 0:
            at = found + len(word)
            if _WORD.match(word):
                yield Span(found, at), tag


def _tagged(text: str) -> Iterator[list[str]]:
    """As TextBlob's `tag`, which writes all of it as a string and splits that again."""
    for sentence in _textblob().parser.parse(text, tokenize=True, tags=True, chunks=False, collapse=False):
        yield from sentence


def word_tag(word: str) -> str:
    """The part of speech the English dictionary has for a word as it is written (Penn Treebank); empty for an unknown one."""
    return str(_textblob().lexicon.get(word) or "")


def chinese_words(text: str) -> Iterator[tuple[str, str]]:
    """The words of a Chinese text with jieba's part of speech; together they are the text."""
    for pair in _jieba().cut(text):
        yield pair.word, pair.flag


@cache
def _textblob() -> Any:
    """The English part of TextBlob without the package around it, which imports NLTK and SciPy: more than a second of CPU."""
    spec = find_spec("textblob")
    if spec is None or "textblob" in sys.modules:
        return import_module("textblob.en")
    sys.modules["textblob"] = module_from_spec(spec)  # not executed
    try:
        return import_module("textblob.en")
    finally:
        for name in [n for n in sys.modules if n.split(".")[0] == "textblob"]:  # whoever else imports it gets all of it
            del sys.modules[name]


@cache
def _jieba() -> Any:
    import jieba
    import jieba.posseg

    jieba.setLogLevel(logging.WARNING)
    jieba.dt.tmp_dir = str(cache_dir())  # its own choice is /tmp, where anybody could have put the file it then loads
    return jieba.posseg
