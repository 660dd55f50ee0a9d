"""Names in a text, found without a model: runs of capitalised words, and where they occur.

A document's own casing, and a dictionary (TextBlob's, 94,000 words, in its package), tell a name from a sentence's first word. Pronouns,
weekdays, units, numbers, page headers and licence texts are excluded.
"""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import combinations

from localrag.text.parts_of_speech import dictionary_tag, noun_phrases
from localrag.text.sentences import STOP_WORDS, Span, collapse_whitespace, is_cjk, sentences, split_at_breaks
from localrag.text.title_phrases import is_not_a_name

_LICENCE = re.compile(
    r"all rights reserved|copyright|©|licen[cs]e|warrant(?:y|ies)|liabilit|permission is hereby|terms of use|project gutenberg|trademark",
    re.IGNORECASE,
)
_GUTENBERG_MARK = re.compile(r"^\*\*\* ?(START|END) OF (?:THE|THIS) PROJECT GUTENBERG", re.MULTILINE)
_REPEATED = 3  # times that a line occurs in a document before it counts as a page header or footer
_LONGEST_LINE = 100
_AT_ONCE = 1_000_000  # characters whose lines are processed together
_LOOKED_IN = 100_000  # characters of licences that the ends of chunks are compared with: more than any licence has


class Boilerplate:
    """The lines of a document without content: page headers and footers, licence texts."""

    def __init__(self, text: str) -> None:
        shapes = Counter(_shape(line) for a, b in split_at_breaks(text, _AT_ONCE) for line in text[a:b].splitlines())
        self._shapes = {s for s, n in shapes.items() if n >= _REPEATED and any(c.isalpha() for c in s)}
        licences = [*_outside(text), *(p for p in _paragraphs(text) if len(_LICENCE.findall(p)) > 1)]
        self._lines = dict.fromkeys(line.strip() for part in licences for line in part.splitlines() if line.strip())
        self._joined = "\n".join(self._lines)[:_LOOKED_IN]

    def mask(self, text: str) -> str:
        """`text`, a part of the document, with these lines replaced by spaces of the same length."""
        return "".join(self._blank(text[a:b]) for a, b in split_at_breaks(text, _AT_ONCE))

    def _blank(self, text: str) -> str:
        lines = text.splitlines(keepends=True)
        cut = {0, len(lines) - 1}  # a chunk may begin and end within a line
        is_blank = [self._is_furniture(line) or (n in cut and self._is_part(line)) for n, line in enumerate(lines)]
        return "".join(re.sub(r"[^\n]", " ", line) if g else line for line, g in zip(lines, is_blank, strict=True))

    def _is_furniture(self, line: str) -> bool:
        return line.strip() in self._lines or _shape(line) in self._shapes

    def _is_part(self, line: str) -> bool:
        part = line.strip()
        return len(part) > 10 and part in self._joined


def _paragraphs(text: str) -> Iterator[str]:
    start = 0
    for gap in re.finditer(r"\n\s*\n", text):
        yield text[start : gap.start()]
        start = gap.end()
    yield text[start:]


def _outside(text: str) -> Iterator[str]:
    """The text before, between and after the books of a Project Gutenberg file, which may have several."""
    marks = list(_GUTENBERG_MARK.finditer(text))
    start = 0 if marks and marks[0][1] == "START" else None
    for mark in marks:
        if mark[1] == "START" and start is not None:
            yield text[start : mark.end()]
            start = None
        elif mark[1] == "END" and start is None:
            start = mark.start()
    if start is not None:
        yield text[start:]


def _shape(line: str) -> str:
    """A line with its numbers replaced, so that "Page 3 of 10" equals "Page 4 of 10"; empty for sentences and long lines."""
    line = line.strip()
    return "" if len(line) > _LONGEST_LINE or line.endswith((".", "!", "?", "。", "！", "？")) else re.sub(r"\d+", "0", line)


UPPER = "".join(c for c in map(chr, range(0x2000)) if c.isupper())
_SHORT = r"(?:Mr|Mrs|Ms|Dr|St|Jr|Sr|Prof|Rev|Capt|Gen|Col|Lt|Sen|Gov|Rep|Mt|Ft|No|[A-Z])"
_ABBREVIATED = rf"(?:(?:[A-Z]\.){{2,}}|{_SHORT}\.(?=\s[{UPPER}]))"
_DOT = r"(?:(?<![^\s(\[“\"'])\.(?=[A-Z]{2}))?"  # of .NET
_NAME_WORD = rf"(?:{_ABBREVIATED}|{_DOT}(?<![\w])(?<![\w][’'])[a-z]?[{UPPER}](?:[^\W_]++|[’'–-](?=\w))*+)"
NAME_PARTICLES = r"(?:of|de|del|des|la|le|les|do|dos|das|el|y|von|van|der|den|di|da|du|al|bin|&)"
_NUMBER = r"(?:(?<=\w{3})[ \n]\d{1,3}(?![\w:%]|[.,]\d|[ \n][A-Z]))?"  # Apollo 11
_LINES = 1_000_000  # characters whose lines are processed together
_MOST = 200  # words of a run: a text in capitals has no names that long, and would be one run from end to end
CAPITALIZED_RUN = re.compile(
    rf"(?:(?<!\w)\d{{1,3}}(?:st|nd|rd|th)[ \n])?{_NAME_WORD}(?:[ \n](?:{NAME_PARTICLES}[ \n]){{0,2}}{_NAME_WORD}){{0,{_MOST}}}{_NUMBER}"
)
_HEADING = re.compile(r"^(?:#.*|[^a-z\n]*)$", re.MULTILINE)  # marked as a heading, or without a lower-case letter
_LOWER = re.compile(r"(?<!\w)(?<!\w[’'])[a-zà-öø-ÿ][\w’'-]*")
GENITIVE_ENDING = re.compile(r"(?:['’]s|['’]|-)$")
_SHORT_LINE = re.compile(r"^(.{0,44})\n", re.MULTILINE)  # a line that its author broke: a heading, a row, a verse
_BEFORE_A_START = frozenset(".!?:;…-—–\"“”'‘’(_[*")


def mark_line_ends(text: str) -> str:
    """Replace the line break after each short line by a vertical tab, which no name spans; offsets stay."""
    return _replaced(_SHORT_LINE, "\\1\v", text)


def _replaced(pattern: re.Pattern[str], by: str | Callable[[re.Match[str]], str], text: str) -> str:
    """`pattern.sub` in batches of lines: in one call it would keep all the pieces of a text of millions of lines."""
    return "".join(pattern.sub(by, text[a:b]) for a, b in split_at_breaks(text, _LINES))


def _blank_line(heading: re.Match[str]) -> str:
    length = len(heading.group())
    return "\n" + " " * (length - 2) + "\n" if length > 1 else "\n" * length


def _character_before(text: str, at: int) -> str:
    """The last character before `at` that is no whitespace; empty if there is none."""
    while at and text[at - 1].isspace():
        at -= 1
    return text[at - 1 : at]


def normalize_word(word: str) -> str:
    """A word in lower case, without a possessive ending or a full stop."""
    return GENITIVE_ENDING.sub("", word).rstrip(".").lower()


class DocumentCasing:
    """The casing of a document: words in lower case, words capitalised inside a sentence, and recurring noun phrases."""

    def __init__(self, text: str) -> None:
        self.furniture = Boilerplate(text)
        text = self._text = self.furniture.mask(text)
        text = _replaced(_HEADING, _blank_line, text)
        starts = {s.start for s in sentences(text)}
        self.lower = {m.group().lower() for m in _LOWER.finditer(text)}
        self.inside: set[str] = set()
        text = mark_line_ends(text)
        for run in CAPITALIZED_RUN.finditer(text):
            for word in re.finditer(_NAME_WORD, run.group()):
                at = run.start() + word.start()
                if at not in starts and text[at - 1 : at] != "\v" and _character_before(text, at) not in _BEFORE_A_START:
                    self.inside.add(normalize_word(word.group()))

    @cached_property
    def phrases(self) -> Counter[str]:
        """How often the document uses each noun phrase, in lower case."""
        text, self._text = self._text, ""
        return Counter(collapse_whitespace(text[a:b]).lower() for a, b in noun_phrases(text))

    def is_written_as_name(self, word: str) -> bool:
        """Whether a word that is also a pronoun, verb or unit is written as a name: in capitals (US, IT), or with one inside a sentence."""
        return len(word) > 1 and any(c.isalpha() for c in word) and (word.isupper() or (len(word) > 2 and word.lower() in self.inside))

    def is_sentence_case_only(self, word: str, *, alone: bool) -> bool:
        """Whether a word is capitalised only because it begins a sentence.

        True for a function word, a word that the document also has in lower case, or, if it never occurs inside a sentence, a word that the
        dictionary knows as no name (`alone`) or as no part of one.
        """
        low = normalize_word(word)
        if low in STOP_WORDS or re.split("['’]", low)[0] in STOP_WORDS:
            return True
        if low in self.inside:
            return False
        return low in self.lower or is_common_word(word, alone=alone)


def is_common_word(word: str, *, alone: bool) -> bool:
    """Whether the dictionary has a capitalised word as no name; unless `alone`, nouns and adjectives may begin a name."""
    stem = GENITIVE_ENDING.sub("", word)
    tag = dictionary_tag(stem) or dictionary_tag(stem.lower())
    return bool(tag) and not tag.startswith(("NNP",) if alone else ("NN", "JJ"))


FEMALE_TITLES = frozenset("mrs ms miss lady madam madame mme queen princess duchess countess mother aunt sister dame dona".split())
TITLES = FEMALE_TITLES | frozenset(
    """
    mr dr sir lord captain capt father fr uncle king saint st professor prof judge mayor president senator sen gov governor rep
    representative gen general col colonel lt lieutenant major maj sergeant sgt prince duke count earl baron rev reverend minister
    doctor monsieur don pope bishop archbishop cardinal chancellor ambassador secretary justice chairman director inspector
    """.split()
)
EPITHETS = frozenset("old young poor little dear good o oh master mistress cousin brother".split())

_JOIN = re.compile(r"[ \n](?:(?:of|for|on|in|against)[ \n]the|for|on|and(?:[ \n]the)?)[ \n]")  # within one name or between two
_SHOUT = re.compile(rf"(?<=[a-z])[ \n](?=[{UPPER}]{{5}})|(?<=[{UPPER}]{{5}})[ \n](?=[{UPPER}][a-z])")  # Moscow PRAVDA: two names
_ORGANIZATION_NOUNS = frozenset(  # a name like "Association for the Advancement of …" begins or ends with one of these
    """
    academy administration agency alliance archive army assembly association authority bank battle board book brigade bureau
    cathedral center centre chamber church club coalition college commission committee community company conference confederation
    congress convention corporation council court department division faculty federation festival foundation front fund gallery
    guild house hospital institute institution journal kingdom laboratory league library ministry movement museum national office
    order organisation organization palace parliament party people's program programme project republic school
    service society state summit temple theatre treaty tribunal trust union university war workers
    """.split()
)


def capitalized_names(text: str, case: DocumentCasing) -> Iterator[str]:
    """The names in `text`, one for each occurrence, whitespace collapsed."""
    text = mark_line_ends(text)
    runs = list(CAPITALIZED_RUN.finditer(text))
    at = 0
    while at < len(runs):
        last = at
        while last + 1 < len(runs) and _JOIN.fullmatch(text, runs[last].end(), runs[last + 1].start()):
            last += 1
        parts = [run.group() for run in runs[at : last + 1]]
        links = [text[a.end() : b.start()] for a, b in zip(runs[at:last], runs[at + 1 : last + 1], strict=True)]
        for joined in (piece for joined_run in _joined(parts, links) for piece in _SHOUT.split(joined_run)):
            if name := _trimmed(joined, case):
                yield name
        at = last + 1


def _joined(parts: list[str], links: list[str]) -> list[str]:
    """Join parts if the first is the beginning of an organisation's name, or if "and" precedes the end of one."""
    names = [parts[0]]
    for link, part in zip(links, parts[1:], strict=True):
        head, joiner = names[-1], link.split()[0]
        if normalize_word(part.split()[0]) in STOP_WORDS:  # on January 29
            names.append(part)
            continue
        begun = not _ORGANIZATION_NOUNS.isdisjoint(map(normalize_word, head.split())) and (
            joiner != "and" or " of " in head or " for " in head
        )
        ends = (
            joiner == "and"
            and len(part.split()) > 1
            and normalize_word(part.split()[-1]) in _ORGANIZATION_NOUNS
            and normalize_word(head.split()[-1]) not in _ORGANIZATION_NOUNS
        )
        if (begun and joiner != "in") or ends:
            names[-1] = head + link + part
        else:
            names.append(part)
    return names


def _trimmed(run: str, case: DocumentCasing) -> str:
    """A run of words without those at its ends that only begin a sentence or are no name alone; empty if nothing remains."""
    words = run.split()
    while (
        words
        and case.is_sentence_case_only(words[0], alone=len(words) == 1)
        and not (len(words) > 1 and normalize_word(words[0]) in TITLES)
    ):
        words = words[1:]
    while words and (
        normalize_word(words[-1]) in STOP_WORDS or re.fullmatch(NAME_PARTICLES, words[-1]) or (words[-1].isdigit() and len(words) == 1)
    ):
        words = words[:-1]
    while words and (re.fullmatch(NAME_PARTICLES, words[0]) or (is_not_a_name(words[0]) and normalize_word(words[0]) not in TITLES)):
        words = words[1:]
    name = collapse_whitespace(GENITIVE_ENDING.sub("", " ".join(words)))
    if len(name) < 2 or not any(c.isupper() for c in name) or normalize_word(name) in TITLES or is_not_a_name(name):
        return ""
    return name


NamePair = tuple[str, str]


def find_name_spans(text: str, name: str) -> list[Span]:
    """Every occurrence of `name` in `text` as whole words, also across a line break; CJK names need no word boundary.

    A leading "the" also matches "The" at the start of a sentence.
    """
    places = _spaced_occurrences(text, name)
    return (
        list(places)
        if is_cjk(name)
        else [s for s in places if not (_goes_on(text[s.start - 1 : s.start]) or _goes_on(text[s.end : s.end + 1]))]
    )


def _spaced_occurrences(text: str, name: str) -> Iterator[Span]:
    """The spans of the words of `name` with any whitespace between them. Compiling a pattern for each name of a corpus is slower."""
    first, *other_words = name.split() or [name]
    article = bool(other_words) and first in ("the", "The")
    head = "he" if article else first
    at = text.find(head) if head else -1
    while at >= 0:
        start, end = at - article, _end(text, at + len(head), other_words)
        if end and (not article or text[max(start, 0) : at] in ("t", "T")):
            yield Span(start, end)
            at = text.find(head, end + article)
        else:
            at = text.find(head, at + 1)


def _end(text: str, at: int, words: Sequence[str]) -> int:
    """The end of `words` if they start at `at`, each after whitespace; else 0."""
    for word in words:
        begun = at
        while text[at : at + 1].isspace():
            at += 1
        if at == begun or not text.startswith(word, at):
            return 0
        at += len(word)
    return at


def _goes_on(character: str) -> bool:
    return (character.isalnum() or character == "_") and not "\u3040" <= character <= "\u9fff"


def drop_nested_spans(places: Mapping[str, Sequence[Span]]) -> dict[str, list[Span]]:
    """The spans of each name, without those inside a longer name's span, as York in New York Times."""
    ordered = sorted(((span, name) for name, spans in places.items() for span in spans), key=lambda p: (p[0].start - p[0].end, p[0].start))
    retained: dict[str, list[Span]] = {n: [] for n in places}
    taken = bytearray(max((span.end for span, _ in ordered), default=0))
    for span, name in ordered:
        if not any(taken[span.start : span.end]):
            taken[span.start : span.end] = b"\1" * (span.end - span.start)
            retained[name].append(span)
    return {name: sorted(spans) for name, spans in retained.items()}


def find_all_name_spans(text: str, names: Sequence[str]) -> dict[str, list[Span]]:
    """The spans of each name in `text`, without those inside a longer name's."""
    return drop_nested_spans({name: find_name_spans(text, name) for name in names})


def sentence_numbers(places: Mapping[str, Sequence[Span]], sentences: Sequence[Span]) -> dict[str, list[int]]:
    """For each name, the numbers of the sentences that contain it, ascending."""
    starts = [span.start for span in sentences]
    return {name: sorted({max(0, bisect_right(starts, at.start) - 1) for at in spans}) for name, spans in places.items()}


def cooccurring_pairs(places: dict[str, list[int]]) -> dict[NamePair, tuple[int, int]]:
    """The pairs of names that share a sentence, each with the first one as (number, same number).

    A name that shares no sentence with another is paired with those of the adjacent sentences: (number, next number).
    """
    nearest: dict[NamePair, tuple[int, int, int]] = {}
    for a, b in combinations(places, 2):
        distances = [(abs(i - j), min(i, j), max(i, j)) for i in places[a] for j in places[b] if abs(i - j) <= 1]
        if distances and a not in b and b not in a:  # "Scrooge" inside "Ebenezer Scrooge" is no second entity
            nearest[a, b] = min(distances)
    linked = {name for pair, (distance, *_) in nearest.items() if distance == 0 for name in pair}
    return {pair: (i, j) for pair, (distance, i, j) in nearest.items() if distance == 0 or not linked.issuperset(pair)}
