"""What changed between two versions of a passage, in plain words: "30 days → 14 days; shall → may; added: not"."""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rapidfuzz.distance import Indel

from localrag.text.sentences import CJK, STOP_WORDS, collapse_whitespace

MAX_SHOWN_CHANGES, MAX_SHOWN_CHARS = 6, 80  # of a passage; of one side of a change
MAX_KEPT_FUNCTION_WORDS = 2  # between two changes that are shown as one
MIN_SHARED_WORDS = 0.4  # below, the changes are not listed word by word

_LINK_TARGET = re.compile(r"\]\([^()\s]{1,500}\)|https?://[^\s)>\]]+")
HTML_TAG = r"</?(?:a|b|br|div|em|font|i|p|span|strong|sub|sup|u)\b[^<>\n]{0,200}>"  # in Markdown
_TAG = re.compile(HTML_TAG)
_TOKEN = re.compile(rf"{HTML_TAG}|{_LINK_TARGET.pattern}|[{CJK}]|\d+(?:[.,:/-]\d+)*%?|[^\W\d_{CJK}]+(?:['’-][^\W\d_{CJK}]+)*|\w|[^\w\s]")
_NUMBER = re.compile(r"\d")
_LEADING_MARKS = re.compile(r"(?:#{1,6}\s+|[-*+•‣▪>]\s+|\*\*(?=\d))+")
_NUMBERING = re.compile(
    r"(?:\(?(?:\d{1,3}(?:\.\d{1,3}){0,4}|[a-zA-Z]|[ivxIVX]{1,5})[.):]\)?|\((?:\d{1,3}|[a-zA-Z]|[ivxIVX]{1,5})\)|\d{1,3}(?:\.\d{1,3}){2,4})\s+"
)
_HEADING_NUMBER = re.compile(r"\d{1,3}(?:\.\d{1,3}){0,4}\s+")


class DiffToken(NamedTuple):
    """A word, number or sign at characters `start` to `end` of a passage."""

    start: int
    end: int
    text: str

    @property
    def is_link(self) -> bool:
        """Whether it is the target of a link."""
        return _LINK_TARGET.match(self.text) is not None

    @property
    def is_word(self) -> bool:
        """Whether it is a word or a number."""
        return self.text.isalnum() or (len(self.text) > 1 and not self.is_link and _TAG.fullmatch(self.text) is None)


class WordChange(NamedTuple):
    """Tokens `a` to `b` of the first passage became `c` to `d` of the second one."""

    a: int
    b: int
    c: int
    d: int


def tokens_of(text: str) -> list[DiffToken]:
    """The words, numbers and signs of a text; of Chinese and Japanese the characters."""
    return [DiffToken(*m.span(), m[0]) for m in _TOKEN.finditer(text)]


def describe_row_changes(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """The columns of a row whose values differ: "Price: 30 → 35; without Stock"."""
    both = ((name, value, after[name]) for name, value in before.items() if name in after)
    changed = [f"{name}: {_shortened(old)} → {_shortened(new)}" for name, old, new in both if old != new]
    removed = [f"without {name}" for name in before if name not in after]
    added = [f"with {name}: {_shortened(value)}" for name, value in after.items() if name not in before]
    return _listed([*changed, *removed, *added])


def split_number(text: str, *, is_heading: bool = False) -> tuple[str, str]:
    """The number of a list item, clause or heading with which a passage begins, such as "3." or "(b)", and the text after it.

    Signs of headings and of items without a number are left out.
    """
    is_heading = is_heading or text.startswith("#")
    rest = text[_end_of(_LEADING_MARKS, text) :]
    end = _end_of(_NUMBERING, rest) or (_end_of(_HEADING_NUMBER, rest) if is_heading else 0)
    return rest[:end].strip(), rest[end:]


def _end_of(pattern: "re.Pattern[str]", text: str) -> int:
    """Where a match at the beginning of a text ends; 0 if nothing would be left."""
    found = pattern.match(text)
    return found.end() if found and found.end() < len(text) else 0


def describe_changes(before: str, after: str) -> str:
    """Return the words that changed."""
    (old_number, before), (new_number, after) = split_number(before), split_number(after)
    renumbered = [f"renumbered: {old_number} → {new_number}"] if old_number and new_number and old_number != new_number else []
    old, new = tokens_of(before), tokens_of(after)
    words = [[t.text.casefold() for t in tokens if t.is_word] for tokens in (old, new)]
    if words[0] == words[1]:
        return _listed(["only capital letters, links, punctuation or spaces", *renumbered])
    if Indel.normalized_similarity(*words) < MIN_SHARED_WORDS:
        return _listed(["worded differently", *_differing_numbers(old, new), *renumbered])
    changes = _word_changes(old, new)
    worded = [c for c in changes if any(t.is_word for t in (*old[c.a : c.b], *new[c.c : c.d]))]
    return _listed([*(_describe(c, old, new, before, after) for c in worded), *renumbered])


def _word_changes(old: Sequence[DiffToken], new: Sequence[DiffToken]) -> list[WordChange]:
    """The changes between two lists of tokens; those with nothing but function words or signs between them become one."""
    changes = list[WordChange]()
    for op in Indel.opcodes([t.text for t in old], [t.text for t in new]):
        if op.tag == "equal":
            continue
        a, c = op.src_start, op.dest_start
        if changes and _is_filler(old[changes[-1].b : a]):
            a, _, c, _ = changes.pop()
        changes.append(WordChange(a, op.src_end, c, op.dest_end))
    return changes


def _is_filler(tokens: Sequence[DiffToken]) -> bool:
    """Whether kept tokens between two changes are too few and too slight to be read as kept."""
    return len(tokens) <= MAX_KEPT_FUNCTION_WORDS and all(
        t.text.casefold() in STOP_WORDS or not t.text.isalnum() or (len(t.text) == 1 and not t.text.isascii()) for t in tokens
    )


def _describe(change: WordChange, old: Sequence[DiffToken], new: Sequence[DiffToken], before: str, after: str) -> str:
    """One change, such as "30 days → 14 days"."""
    a, b, c, d = change
    removed, added = old[a:b], new[c:d]
    if removed and added and _NUMBER.search(removed[-1].text + added[-1].text) and b < len(old) and _is_word(old[b]):
        b, d = b + 1, d + 1  # the unit of a number
    if removed and added and a and c and not old[a - 1].text.isalnum() and old[a - 1].text in "$€£¥":
        a, c = a - 1, c - 1
    sides = [
        _shortened(text[tokens[n].start : tokens[m - 1].end]) if m > n else ""
        for text, tokens, n, m in ((before, old, a, b), (after, new, c, d))
    ]
    if all(sides):
        return f"{sides[0]} → {sides[1]}"
    return f"added: {sides[1]}" if sides[1] else f"removed: {sides[0]}"


def _is_word(token: DiffToken) -> bool:
    return token.text.isalpha() and token.text.casefold() not in STOP_WORDS


def _differing_numbers(old: Sequence[DiffToken], new: Sequence[DiffToken]) -> list[str]:
    """The numbers that only one of two differently worded passages has."""
    numbers = [list(dict.fromkeys(t.text for t in tokens if t.is_word and _NUMBER.search(t.text))) for tokens in (old, new)]
    removed, added = ([n for n in mine if n not in other] for mine, other in (numbers, numbers[::-1]))
    if not (removed or added):
        return []
    return [f"numbers: {', '.join(removed) or 'none'} → {', '.join(added) or 'none'}"]


def _shortened(text: str) -> str:
    line = collapse_whitespace(text)
    half = MAX_SHOWN_CHARS // 2
    return line if len(line) <= MAX_SHOWN_CHARS else f"{line[:half].rstrip()} … {line[-half:].lstrip()}"


def _listed(changes: Sequence[str]) -> str:
    more = len(changes) - MAX_SHOWN_CHANGES
    left_out = [f"and {more} more change{'s' * (more > 1)}"] if more > 0 else []
    return "; ".join([*changes[:MAX_SHOWN_CHANGES], *left_out])
