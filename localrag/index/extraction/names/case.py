"""How a document writes its words: runs of capitalised ones, and what tells a name from a sentence's first word.

A dictionary (TextBlob's, 94,000 words, in its package) tells a sentence's first word from a name, and an adjective from a noun.
"""

import re
from collections import Counter
from collections.abc import Callable
from functools import cached_property

from localrag.index.extraction.names.noise import Furniture
from localrag.text.plain import FUNCTION_WORDS, sentences, squeeze, stretches
from localrag.text.words import noun_phrases, word_tag

UPPER = "".join(c for c in map(chr, range(0x2000)) if c.isupper())
_SHORT = r"(?:Mr|Mrs|Ms|Dr|St|Jr|Sr|Prof|Rev|Capt|Gen|Col|Lt|Sen|Gov|Rep|Mt|Ft|No|[A-Z])"
_ABBREVIATED = rf"(?:(?:[A-Z]\.){{2,}}|{_SHORT}\.(?=\s[{UPPER}]))"
_DOT = r"(?:(?<![^\s(\[“\"'])\.(?=[A-Z]{2}))?"  # of .NET
_WORD = rf"(?:{_ABBREVIATED}|{_DOT}(?<![\w])(?<![\w][’'])[a-z]?[{UPPER}](?:[^\W_]++|[’'–-](?=\w))*+)"
LINK = r"(?:of|de|del|des|la|le|les|do|dos|das|el|y|von|van|der|den|di|da|du|al|bin|&)"
_NUMBER = r"(?:(?<=\w{3})[ \n]\d{1,3}(?![\w:%]|[.,]\d|[ \n][A-Z]))?"  # Apollo 11
_LINES = 1_000_000  # characters whose lines are looked at together
_MOST = 200  # words of a run: text in capitals alone has no names that long, and would be one run from end to end
RUN = re.compile(rf"(?:(?<!\w)\d{{1,3}}(?:st|nd|rd|th)[ \n])?{_WORD}(?:[ \n](?:{LINK}[ \n]){{0,2}}{_WORD}){{0,{_MOST}}}{_NUMBER}")
_HEADING = re.compile(r"^(?:#.*|[^a-z\n]*)$", re.MULTILINE)  # marked so, or without a small letter
_LOWER = re.compile(r"(?<!\w)(?<!\w[’'])[a-zà-öø-ÿ][\w’'-]*")
ENDING = re.compile(r"(?:['’]s|['’]|-)$")
_SHORT_LINE = re.compile(r"^(.{0,44})\n", re.MULTILINE)  # ends where its author ended it: a heading, a row, a verse
_BEFORE_A_START = frozenset(".!?:;…-—–\"“”'‘’(_[*")


def broken(text: str) -> str:
    """The text with a vertical tab for the end of each short line, which no name goes across; all offsets stay."""
    return _replaced(_SHORT_LINE, "\\1\v", text)


def _replaced(pattern: re.Pattern[str], by: str | Callable[[re.Match[str]], str], text: str) -> str:
    """What `pattern.sub` makes of lines, some at a time: it would keep all the pieces of a text of millions of them."""
    return "".join(pattern.sub(by, text[a:b]) for a, b in stretches(text, _LINES))


def _blank_line(heading: re.Match[str]) -> str:
    """As long as the heading, an end of a line at either end."""
    length = len(heading.group())
    return "\n" + " " * (length - 2) + "\n" if length > 1 else "\n" * length


def _before(text: str, at: int) -> str:
    """The last character before `at` that is no whitespace; empty where there is none."""
    while at and text[at - 1].isspace():
        at -= 1
    return text[at - 1 : at]


def plain(word: str) -> str:
    """A word in lower case, without a genitive's ending or a point."""
    return ENDING.sub("", word).rstrip(".").lower()


class Case:
    """How a document writes its words: which occur in lower case, which capitalised inside a sentence, which noun phrases recur."""

    def __init__(self, text: str) -> None:
        self.furniture = Furniture(text)
        text = self._text = self.furniture.blank(text)
        text = _replaced(_HEADING, _blank_line, text)
        starts = {s.start for s in sentences(text)}
        self.lower = {m.group().lower() for m in _LOWER.finditer(text)}
        self.inside: set[str] = set()
        text = broken(text)
        for run in RUN.finditer(text):
            for word in re.finditer(_WORD, run.group()):
                at = run.start() + word.start()
                if at not in starts and text[at - 1 : at] != "\v" and _before(text, at) not in _BEFORE_A_START:
                    self.inside.add(plain(word.group()))

    @cached_property
    def phrases(self) -> Counter[str]:
        """How often the document uses each noun phrase, in lower case."""
        text, self._text = self._text, ""
        return Counter(squeeze(text[a:b]).lower() for a, b in noun_phrases(text))

    def is_plain(self, word: str, *, alone: bool) -> bool:
        """Whether a capitalised word is only a sentence's first: a function word, one the document also writes small, or, where it is
        never seen inside a sentence, one the dictionary knows as no name (`alone`) or as no part of one."""
        low = plain(word)
        if low in FUNCTION_WORDS or re.split("['’]", low)[0] in FUNCTION_WORDS:
            return True
        if low in self.inside:
            return False
        return low in self.lower or is_common(word, alone=alone)


def is_common(word: str, *, alone: bool) -> bool:
    """Whether the dictionary has a capitalised word as something else than a name; in company, nouns and adjectives may begin one."""
    stem = ENDING.sub("", word)
    tag = word_tag(stem) or word_tag(stem.lower())
    return bool(tag) and not tag.startswith(("NNP",) if alone else ("NN", "JJ"))
