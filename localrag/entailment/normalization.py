"""Sentences in one form for comparison: on one line, without markup, and with dates written in one way."""

import re
from functools import lru_cache

from localrag.entailment.english import MONTH_NAMES
from localrag.text.markdown import plain_text, without_deleted

_ROLE = re.compile(r":[a-z]{1,20}(?::[a-z]{1,20})?:`([^`<>]{1,200})(?:<[^`<>]{1,300}>)?`")  # of reStructuredText
_LINK = re.compile(r"`([^`<>]{1,200})<[^`<>\s]{1,300}>`__?")
_MONTHS = [name.capitalize() for name in MONTH_NAMES]
_MONTH = "|".join(_MONTHS)
_ISO_DATE = re.compile(r"(?<![\w-])([12]\d{3})-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])(?![\w-])")
_DAY_FIRST = re.compile(rf"\b([0-3]?\d)(?:st|nd|rd|th)?(?: of)? ({_MONTH})\b,?")
_MONTH_FIRST = re.compile(rf"\b({_MONTH}) ([0-3]?\d)(?:st|nd|rd|th)?(?!\d)(?:,(?= [12]\d{{3}}\b))?")


@lru_cache(maxsize=4096)
def normalize_sentence(text: str) -> str:
    """The text on one line, without Markdown's and reStructuredText's marks and what is struck through, and with dates as "4 July 2014"."""
    said = plain_text(_LINK.sub(r"\1", _ROLE.sub(r"\1", without_deleted(text))))
    said = _ISO_DATE.sub(lambda m: f"{int(m[3])} {_MONTHS[int(m[2]) - 1]} {m[1]}", said)
    said = _MONTH_FIRST.sub(r"\2 \1", said)
    return _DAY_FIRST.sub(lambda m: f"{int(m[1])} {m[2]}", said)
