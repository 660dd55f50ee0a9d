"""Names in alphabets with capitals: runs of capitalised words, joined and cut as English writes names.

A dictionary (TextBlob's, 94,000 words, in its package) tells a sentence's first word from a name, and an adjective from a noun.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cached_property

from localrag.index.noise import Furniture, is_noise
from localrag.index.nouns import noun_phrases, word_tag
from localrag.index.spelling import TITLES
from localrag.text import FUNCTION_WORDS, sentences, squeeze, stretches

_UPPER = "".join(c for c in map(chr, range(0x2000)) if c.isupper())
_SHORT = r"(?:Mr|Mrs|Ms|Dr|St|Jr|Sr|Prof|Rev|Capt|Gen|Col|Lt|Sen|Gov|Rep|Mt|Ft|No|[A-Z])"
_ABBREVIATED = rf"(?:(?:[A-Z]\.){{2,}}|{_SHORT}\.(?=\s[{_UPPER}]))"
_DOT = r"(?:(?<![^\s(\[“\"'])\.(?=[A-Z]{2}))?"  # of .NET
_WORD = rf"(?:{_ABBREVIATED}|{_DOT}(?<![\w])(?<![\w][’'])[a-z]?[{_UPPER}](?:[^\W_]++|[’'–-](?=\w))*+)"
_LINK = r"(?:of|de|del|des|la|le|les|do|dos|das|el|y|von|van|der|den|di|da|du|al|bin|&)"
_NUMBER = r"(?:(?<=\w{3})[ \n]\d{1,3}(?![\w:%]|[.,]\d|[ \n][A-Z]))?"  # Apollo 11
_LINES = 1_000_000  # characters whose lines are looked at together
_MOST = 200  # words of a run: text in capitals alone has no names that long, and would be one run from end to end
_RUN = re.compile(rf"(?:(?<!\w)\d{{1,3}}(?:st|nd|rd|th)[ \n])?{_WORD}(?:[ \n](?:{_LINK}[ \n]){{0,2}}{_WORD}){{0,{_MOST}}}{_NUMBER}")
_JOIN = re.compile(r"[ \n](?:(?:of|for|on|in|against)[ \n]the|for|on|and(?:[ \n]the)?)[ \n]")  # within one name or between two
_HEADING = re.compile(r"^(?:#.*|[^a-z\n]*)$", re.MULTILINE)  # marked so, or without a small letter
_LOWER = re.compile(r"(?<!\w)(?<!\w[’'])[a-zà-öø-ÿ][\w’'-]*")
_SHOUT = re.compile(rf"(?<=[a-z])[ \n](?=[{_UPPER}]{{5}})|(?<=[{_UPPER}]{{5}})[ \n](?=[{_UPPER}][a-z])")  # Moscow PRAVDA: two names
_ENDING = re.compile(r"(?:['’]s|['’]|-)$")
_SHORT_LINE = re.compile(r"^(.{0,44})\n", re.MULTILINE)  # ends where its author ended it: a heading, a row, a verse
_BEFORE_A_START = frozenset(".!?:;…-—–\"“”'‘’(_[*")
_BODIES = frozenset(  # what a name like "Association for the Advancement of …" begins or ends with
    """
    academy administration agency alliance archive army assembly association authority bank battle board book brigade bureau
    cathedral center centre chamber church club coalition college commission committee community company conference confederation
    congress convention corporation council court department division faculty federation festival foundation front fund gallery
    guild house hospital institute institution journal kingdom laboratory league library ministry movement museum national office
    order organisation organization palace parliament party people's program programme project republic school
    service society state summit temple theatre treaty tribunal trust union university war workers
    """.split()
)


def _broken(text: str) -> str:
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


def _plain(word: str) -> str:
    return _ENDING.sub("", word).rstrip(".").lower()


class Case:
    """How a document writes its words: which occur in lower case, which capitalised inside a sentence, which noun phrases recur."""

    def __init__(self, text: str) -> None:
        self.furniture = Furniture(text)
        text = self._text = self.furniture.blank(text)
        text = _replaced(_HEADING, _blank_line, text)
        starts = {s.start for s in sentences(text)}
        self.lower = {m.group().lower() for m in _LOWER.finditer(text)}
        self.inside: set[str] = set()
        text = _broken(text)
        for run in _RUN.finditer(text):
            for word in re.finditer(_WORD, run.group()):
                at = run.start() + word.start()
                if at not in starts and text[at - 1 : at] != "\v" and _before(text, at) not in _BEFORE_A_START:
                    self.inside.add(_plain(word.group()))

    @cached_property
    def phrases(self) -> Counter[str]:
        """How often the document uses each noun phrase, in lower case."""
        text, self._text = self._text, ""
        return Counter(squeeze(text[a:b]).lower() for a, b in noun_phrases(text))

    def is_plain(self, word: str, *, alone: bool) -> bool:
        """Whether a capitalised word is only a sentence's first: a function word, one the document also writes small, or, where it is
        never seen inside a sentence, one the dictionary knows as no name (`alone`) or as no part of one."""
        low = _plain(word)
        if low in FUNCTION_WORDS or re.split("['’]", low)[0] in FUNCTION_WORDS:
            return True
        if low in self.inside:
            return False
        return low in self.lower or is_common(word, alone=alone)


def is_common(word: str, *, alone: bool) -> bool:
    """Whether the dictionary has a capitalised word as something else than a name; in company, nouns and adjectives may begin one."""
    stem = _ENDING.sub("", word)
    tag = word_tag(stem) or word_tag(stem.lower())
    return bool(tag) and not tag.startswith(("NNP",) if alone else ("NN", "JJ"))


def capitalised(text: str, case: Case) -> Iterator[str]:
    """The names in `text`, one for each place, whitespace squeezed."""
    text = _broken(text)
    runs = list(_RUN.finditer(text))
    at = 0
    while at < len(runs):
        last = at
        while last + 1 < len(runs) and _JOIN.fullmatch(text, runs[last].end(), runs[last + 1].start()):
            last += 1
        parts = [run.group() for run in runs[at : last + 1]]
        links = [text[a.end() : b.start()] for a, b in zip(runs[at:last], runs[at + 1 : last + 1], strict=True)]
        for joined in (piece for whole in _joined(parts, links) for piece in _SHOUT.split(whole)):
            if name := _trimmed(joined, case):
                yield name
        at = last + 1


def count_noise(text: str, case: Case) -> int:
    """How many capitalised runs of `text` are no names, or stand in page furniture or licences."""
    return len(_RUN.findall(text)) - sum(1 for _ in capitalised(case.furniture.blank(text), case))


def _joined(parts: list[str], links: list[str]) -> list[str]:
    """Parts put together where the first is the beginning of a body's name, or "and" stands before the end of one."""
    names = [parts[0]]
    for link, part in zip(links, parts[1:], strict=True):
        head, joiner = names[-1], link.split()[0]
        if _plain(part.split()[0]) in FUNCTION_WORDS:  # on January 29
            names.append(part)
            continue
        begun = not _BODIES.isdisjoint(map(_plain, head.split())) and (joiner != "and" or " of " in head or " for " in head)
        ends = joiner == "and" and len(part.split()) > 1 and _plain(part.split()[-1]) in _BODIES and _plain(head.split()[-1]) not in _BODIES
        if (begun and joiner != "in") or ends:
            names[-1] = head + link + part
        else:
            names.append(part)
    return names


def _trimmed(run: str, case: Case) -> str:
    """A run without what only stands at the sentence's beginning or is no name by itself; empty where nothing is left."""
    words = run.split()
    while words and case.is_plain(words[0], alone=len(words) == 1) and not (len(words) > 1 and _plain(words[0]) in TITLES):
        words = words[1:]
    while words and (_plain(words[-1]) in FUNCTION_WORDS or re.fullmatch(_LINK, words[-1]) or (words[-1].isdigit() and len(words) == 1)):
        words = words[:-1]
    while words and (re.fullmatch(_LINK, words[0]) or (is_noise(words[0]) and _plain(words[0]) not in TITLES)):
        words = words[1:]
    name = squeeze(_ENDING.sub("", " ".join(words)))
    if len(name) < 2 or not any(c.isupper() for c in name) or _plain(name) in TITLES or is_noise(name):
        return ""
    return name
