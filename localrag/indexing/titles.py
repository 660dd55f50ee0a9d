"""Titles of extractive reports: the heading above most of a community's sentences, else its one or two most typical noun phrases.

Noun phrases are weighed by class-based tf-idf, the community's sentences against those of the corpus (Grootendorst 2022, BERTopic). A title
names a topic, not a person: a phrase that ends in a person's name, or in what persons are called in the text, is none.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise
from math import log, sqrt

from localrag.indexing.extraction.names import is_not_a_name
from localrag.text.kinds import TextKind, classify_sentence, strip_markup
from localrag.text.outline import Outline
from localrag.text.parts_of_speech import GENERIC_NOUNS, dictionary_tag, is_english, tag_chinese, tag_english
from localrag.text.sentences import CJK, STOP_WORDS, Span, cjk_bigrams, is_cjk, join_names

TITLES_VERSION = "titles 6"  # reports with titles of another version get new ones
MAX_TITLE_NAMES = 3  # in a title without a phrase
MAX_PHRASE_WORDS, MAX_PHRASE_CJK_CHARS = 8, 10
MAX_JOINED_WORDS = 6  # of two phrases together
MIN_HEADING_SENTENCES, MIN_HEADING_SHARE = 3, 0.2  # of the community, below a heading that can be its title
CHARS_PER_SENTENCE = 120  # on average, by which the sentences below a heading are estimated
SINGLE_NOUN_WEIGHT = 0.3  # of a title of one word that is in the dictionary
SINGLE_PHRASE_WEIGHT = 0.5  # of a phrase that occurs once
MIN_SECOND_SCORE = 0.5  # of the best phrase's score, for a second phrase in the title
SINGLE_OCCURRENCE_WEIGHT = 0.3  # weight of a word that occurs in only one sentence of the community
_LETTERS = re.compile(rf"[^\W\d_{CJK}]{{3,}}")
_GAP = re.compile(r"[ -]| & |['’](?=s\b)")  # between the words of a phrase
_VERBAL = re.compile(r" (?:the|an?|its?|his|her|him|their|them|my|me|our|us|your|you)\b")  # after a verb that was tagged as a noun
_LINK = re.compile(r" (?:of|in|for|on|with|between)(?: the)? ")
_NOUNS = re.compile(r"(?<![JN])[JN]*[NP](?:S[JN]*[NP])*")  # over the codes of words, see `_coded`
_ABBREVIATED = re.compile(r"\. \w")  # after a word within a sentence
_EMPTY_NOUNS = GENERIC_NOUNS | frozenset(
    "man men woman women person people boy girl child children gentleman lady rest amount list set group pair range deal size".split()
)
_EMPTY_ADJECTIVES = frozenset("little whole entire certain different various following main real".split())
_CHINESE_NOUNS = re.compile(r"(?<![JN])[JN]*N(?:D[JN]*N)?")
_CHINESE_CODES = {"n": "N", "vn": "N", "a": "J", "b": "J"}
# A phrase of letters alone: no code, file name, number or date. Capitals alone are an abbreviation of at most five letters.
_READABLE = re.compile(rf"(?:(?![A-Z]{{6}})[^\W\d_]+(?:['’](?:s\b)?|(?: & | – |, | |-)(?=\w)|$))+|[{CJK}]+")
_OPEN = re.compile(
    r"^(?:at|about|in|on|to|for|from|with|by|and|or) |\b(?:this|that|these|those|it|its|here|there|my|your|our|you|we|I)\b", re.IGNORECASE
)
_INNER_CAPITAL = re.compile(r"[a-z][A-Z]")
_CAPITALISED = re.compile(r"(?<=[\w,;:] )[A-ZÀ-Þ][\w-]{2,}(?: [A-ZÀ-Þ][\w-]{2,}){0,2}")  # within a sentence


@dataclass(frozen=True, slots=True)
class TitleSource:
    """What the title of a community is made of.

    `texts`: its sentences. `headings`: above these → the number of its sentences, and of all characters, below. `person_words`: words of
    persons' names. `names`: of the entities, the most connected first. `document_frequencies`: words → in how many of the corpus's `total`
    sentences.
    """

    texts: tuple[str, ...]
    headings: Mapping[str, tuple[int, int]]
    person_words: frozenset[str]
    names: tuple[str, ...]
    document_frequencies: Mapping[str, int]
    total: int

    def title(self) -> str:
        """`Configuration Handling`, `Lifeboat and Coast Lights Board`, else names."""
        is_chinese = 2 * sum(map(is_cjk, self.texts)) > len(self.texts)
        texts = [t for t in dict.fromkeys(self.texts) if is_cjk(t) == is_chinese]
        scores, repeated = self.scores(texts)
        best = sorted(scores, key=lambda phrase: (-scores[phrase], phrase))
        second = [p for p in best[1:] if p in repeated and scores[p] >= MIN_SECOND_SCORE * scores[best[0]] and _can_join(best[0], p)][:1]
        chosen = second if second and _form(best[0]) < 1 else [*best[:1], *second]
        names = [n for n in self.names if not self._is_person(n)] or self.names
        return join_title(chosen or names[:MAX_TITLE_NAMES], texts)

    def scores(self, texts: Sequence[str]) -> tuple[dict[str, float], Set[str]]:
        """The phrases and headings that can be the title, with scores above 0; and those that are in, or above, several sentences."""
        counts = Counter(word for text in texts for word in title_words(text))
        worth = {w: self._tf_idf(n, max(n, self.document_frequencies.get(w, 0)), len(texts)) for w, n in counts.items()}
        spellings: dict[str, Counter[str]] = {}
        for text in texts:
            for phrase in candidate_phrases(text):
                spellings.setdefault(singular(phrase), Counter())[phrase] += 1
        scores, repeated = {}, set()
        for spelled in spellings.values():
            phrase = max(spelled, key=lambda p: (spelled[p], p))
            words = title_words(phrase)
            of_words = sum(sorted(worth.get(word, 0.0) for word in words)) / (len(words) + 1)  # a little more for several words
            repeated |= {phrase} if spelled.total() > 1 else set()
            scores[phrase] = of_words * (SINGLE_PHRASE_WEIGHT + log(spelled.total())) * _form(phrase)
        for heading, (n, chars) in self.headings.items():
            if n >= max(MIN_HEADING_SENTENCES, MIN_HEADING_SHARE * len(self.texts)) and is_cjk(heading) == is_cjk(texts[0]):
                repeated.add(heading)
                everywhere = max(n, min(self.total, chars // CHARS_PER_SENTENCE))
                scores[heading] = self._tf_idf(n, everywhere, len(self.texts)) * 2 / 3 * (1 + log(n)) * _form(heading)
        return {phrase: score for phrase, score in scores.items() if score > 0 and not self._is_person(phrase)}, repeated

    def _tf_idf(self, n: int, everywhere: int, of: int) -> float:
        """Class-based tf-idf of what is in `n` of `of` sentences here, and in `everywhere` of the corpus.

        The square root of the frequency, and the idf of BM25, keep common words down (both as in BERTopic).
        """
        weight = 1 if n >= min(2, of) else SINGLE_OCCURRENCE_WEIGHT
        return weight * sqrt(n / of) * log(1 + (self.total - everywhere + 0.5) / (everywhere + 0.5))

    def _is_person(self, phrase: str) -> bool:
        """Whether a phrase or a part of it ends in a person's name or in what persons are called: "harbour master", "mind of Tom".

        In languages other than English and Chinese only names of several words are, and surnames: nouns are often tagged wrongly.
        """
        if is_cjk(phrase):
            head = phrase.rpartition("的")[2]
            return any(name in head for name in self.person_words)
        last_words = {singular(part).split()[-1] for part in _LINK.split(phrase)} & self.person_words
        is_surname = " " in phrase or any(name.lower().endswith(f" {phrase.lower()}") for name in self.names)
        return bool(last_words) and (is_surname or is_english(" ".join(self.texts)))


@dataclass(frozen=True, slots=True)
class Section:
    """A heading that can be a title, and the characters `start` to `end` of its document below it."""

    title: str
    start: int
    end: int


def titled_sections(text: str) -> list[Section]:
    """The sections of a document whose headings can be titles."""
    headings = Outline(text).headings
    found = []
    for n, heading in enumerate(headings):
        end = next((later.start for later in headings[n + 1 :] if later.level <= heading.level), len(text))
        if is_readable(heading.title):
            found.append(Section(heading.title, heading.start, end))
    return found


@lru_cache(maxsize=32_768)  # a community's sentences are also those of the communities above it
def title_words(text: str) -> frozenset[str]:
    """The words of a text that can describe it, in lower case and singular; of Chinese its character pairs."""
    words = (w for w in _LETTERS.findall(text.lower()) if w not in STOP_WORDS and not is_not_a_name(w))
    return frozenset((*map(singular, words), *cjk_bigrams(text).split()))


def singular(text: str) -> str:
    """A text in lower case, its last word without the English plural."""
    low = text.lower()
    return low[:-1] if len(low) > 3 and low.endswith("s") and low[-2] not in "sui" else low


def _form(phrase: str) -> float:
    """A single word of the dictionary, or of three capitals, says less than a name or several words; one that is no noun says nothing."""
    if " " in phrase or is_cjk(phrase):
        return 1.0
    tag = dictionary_tag(phrase.lower())
    return 0.0 if tag and not tag.startswith("NN") else SINGLE_NOUN_WEIGHT if tag or phrase.islower() or len(phrase) <= 3 else 1.0


def _can_join(phrase: str, other: str) -> bool:
    """Whether a second phrase can stand beside a title: not a single common noun, not too long, and without a word in common."""
    stems = ({word[:5] for word in title_words(p)} for p in (phrase, other))
    return _form(other) == 1 and len(f"{phrase} {other}".split()) <= MAX_JOINED_WORDS and set.isdisjoint(*stems)


def is_readable(phrase: str) -> bool:
    """Whether a phrase can be read as a title: a few words of letters, no code, number, date or file name."""
    is_short = len(phrase) <= MAX_PHRASE_CJK_CHARS if is_cjk(phrase) else len(phrase.split()) <= MAX_PHRASE_WORDS
    if _OPEN.search(phrase) or _INNER_CAPITAL.search(phrase):
        return False
    return is_short and bool(_READABLE.fullmatch(phrase)) and bool(title_words(phrase))


def join_title(phrases: Sequence[str], texts: Sequence[str]) -> str:
    """Phrases as a title in the language of the texts: `Templates and views`, `A, B`, 甲和乙."""
    known = is_english(" ".join(texts)) or all(map(is_cjk, phrases))
    title = join_names(phrases) if known else ", ".join(phrases)
    return title[:1].upper() + title[1:]


@lru_cache(maxsize=32_768)
def candidate_phrases(text: str) -> tuple[str, ...]:
    """The noun phrases of a sentence, two joined by a preposition too ("failure of the Gannet Head Light"), that can be a title."""
    if classify_sentence(text) not in (TextKind.PROSE, TextKind.HEADING):
        return ()
    plain = strip_markup(text)
    phrases = _chinese(plain) if is_cjk(plain) else _english(plain) if is_english(plain) else _CAPITALISED.findall(plain)
    return tuple(p for p in dict.fromkeys(phrases) if is_readable(p))


def _english(text: str) -> Iterator[str]:
    spans, codes = _coded(text, tag_english(text))
    groups = [
        Span(spans[m.start()].start, spans[m.end() - 1].end)
        for m in _NOUNS.finditer(codes)
        if text[slice(*spans[m.end() - 1])].lower() not in _EMPTY_NOUNS
        and not _VERBAL.match(text, spans[m.end() - 1].end)
        and not _ABBREVIATED.match(text, spans[m.end() - 1].end)
    ]
    yield from (text[slice(*group)] for group in groups)
    yield from (text[first.start : second.end] for first, second in pairwise(groups) if _LINK.fullmatch(text, first.end, second.start))


def _coded(text: str, words: Iterable[tuple[Span, str]]) -> tuple[list[Span], str]:
    """The words, and one letter for each: Noun, Plural, adJective, 'S, "-" for a word that is in no phrase or for a gap.

    What follows the plural of a common noun is mostly its verb: "animals need salt".
    """
    spans, codes, tag_before = [Span(0, 0)], "-", ""
    for span, tag in words:
        word = text[span.start : span.end].lower()
        if not _GAP.fullmatch(text, spans[-1].end, span.start):
            spans.append(Span(span.start, span.start))
            codes += "-"
        spans.append(span)
        is_verb = tag_before in {"MD", "PRP"} or codes[-1] == "P"  # "can use", tagged as a noun
        code = "-" if is_verb else "S" if word == "s" and text[span.start - 1] in "'’" else _code(word, tag, codes[-1])
        codes += "P" if code == "N" and tag == "NNS" and (text[span.start].islower() or not span.start) else code
        tag_before = tag
    return spans, codes


def _code(word: str, tag: str, before: str) -> str:
    if word in STOP_WORDS or word in _EMPTY_ADJECTIVES or len(word) == 1 or "--" in word:
        return "-"
    if tag.startswith("NN"):
        return "N"
    return "J" if tag.startswith("JJ") or (tag in {"VBN", "VBG"} and before in "SJ") else "-"


def _chinese(text: str) -> Iterator[str]:
    words = list(tag_chinese(text))
    starts = list(accumulate((len(word) for word, _ in words), initial=0))
    codes = "".join(
        "D" if word in {"的", "之"} else _CHINESE_CODES.get(flag if flag == "vn" else flag[:1], "-") for word, flag in words
    )  # fmt: skip
    for match in _CHINESE_NOUNS.finditer(codes):
        last, flag = words[match.end() - 1]
        if len(last) > 1 and not flag.startswith("nr"):
            yield text[starts[match.start()] : starts[match.end()]]
