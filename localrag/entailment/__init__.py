"""Entailment of one sentence by another without a model: words, quantities, clauses and their roles."""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

from localrag.entailment.lexicon import Clause, ParsedSentence, ParsedWord
from localrag.text.sentences import is_cjk

__all__ = ["MAX_SENTENCE_CHARS", "Clause", "ParsedSentence", "ParsedWord", "parse_sentence"]
MAX_SENTENCE_CHARS = 2_000  # of a longer sentence no more is read, and nothing proves it: the time grows faster than the length


@lru_cache(maxsize=2048)
def parse_sentence(text: str) -> ParsedSentence:
    """The reading of one English or Chinese sentence; other languages are read by the English rules."""
    from localrag.entailment import chinese, english_clauses

    reader: Callable[[str], ParsedSentence] = chinese.parse_chinese if is_cjk(text) else english_clauses.parse_english
    return replace(reader(text[:MAX_SENTENCE_CHARS]), text=text)
