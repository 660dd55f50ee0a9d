"""Sentences read without a model, so that one can be held against another: words, amounts, clauses, who does what to whom."""

from collections.abc import Callable
from functools import lru_cache

from localrag.query.reading.record import Clause, Reading, Word
from localrag.text.plain import is_cjk

__all__ = ["Clause", "Reading", "Word", "read"]


@lru_cache(maxsize=2048)
def read(text: str) -> Reading:
    """The reading of one English or Chinese sentence; other languages are read by the English rules."""
    from localrag.query.reading import chinese, clauses

    reader: Callable[[str], Reading] = chinese.read if is_cjk(text) else clauses.read
    return reader(text)
