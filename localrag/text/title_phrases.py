"""Phrases that can be a title: noun phrases of English and Chinese, capitalised words of other languages."""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import accumulate, pairwise

from localrag.text.kinds import TextKind, classify_sentence, strip_markup
from localrag.text.parts_of_speech import GENERIC_NOUNS, dictionary_tag, is_english, tag_chinese, tag_english
from localrag.text.sentences import CJK, STOP_WORDS, Span, cjk_bigrams, is_cjk

MAX_PHRASE_WORDS, MAX_PHRASE_CJK_CHARS = 8, 10
SINGLE_NOUN_WEIGHT = 0.3  # of a title of one word that is in the dictionary
_LETTERS = re.compile(rf"[^\W\d_{CJK}]{{3,}}")
_GAP = re.compile(r"[ -]| & |['’](?=s\b)")  # between the words of a phrase
_VERBAL = re.compile(r" (?:the|an?|its?|his|her|him|their|them|my|me|our|us|your|you)\b")  # after a verb that was tagged as a noun
_NOUNS = re.compile(r"(?<![JN])[JN]*[NP](?:S[JN]*[NP])*")  # over the codes of words, see `_coded`
_ABBREVIATED = re.compile(r"\. \w")  # after a word within a sentence
_EMPTY_ADJECTIVES = frozenset("little whole entire certain different various following main real".split())
_CHINESE_NOUNS = re.compile(r"(?<![JN])[JN]*N(?:D[JN]*N)?")
_CHINESE_CODES = {"n": "N", "vn": "N", "a": "J", "b": "J"}
_INNER_CAPITAL = re.compile(r"[a-z][A-Z]")
_CAPITALISED = re.compile(r"(?<=[\w,;:] )[A-ZÀ-Þ][\w-]{2,}(?: [A-ZÀ-Þ][\w-]{2,}){0,2}")  # within a sentence
_EMPTY_NOUNS = GENERIC_NOUNS | frozenset(
    "man men woman women person people boy girl child children gentleman lady rest amount list set group pair range deal size".split()
)
# A phrase of letters alone: no code, file name, number or date. Capitals alone are an abbreviation of at most five letters.
_READABLE = re.compile(rf"(?:(?![A-Z]{{6}})[^\W\d_]+(?:['’](?:s\b)?|(?: & | – |, | |-)(?=\w)|$))+|[{CJK}]+")
_OPEN = re.compile(
    r"^(?:at|about|in|on|to|for|from|with|by|and|or) |\b(?:this|that|these|those|it|its|here|there|my|your|our|you|we|I)\b", re.IGNORECASE
)
PREPOSITION = re.compile(r" (?:of|in|for|on|with|between)(?: the)? ")


_NOISE = frozenset(
    """
    mon tue tues wed thu thur thurs fri sat sun jan feb mar apr jun jul aug sep sept oct nov dec gmt est edt pst pdt cst utc am pm ad
    bc bce ce vol pp ed eds isbn issn doi fig figs tab eq http https www com org net pdf nbsp
    他 她 它 我 你 他们 她们 它们 我们 你们 自己 咱们 大家 人家 星期一 星期二 星期三 星期四 星期五 星期六 星期日 星期天 周一 周二 周三
    周四 周五 周六 周日 今天 明天 昨天
    """.split()
)


def is_not_a_name(name: str) -> bool:
    """Whether a name is a pronoun, weekday, unit or bare number, or has no letter at all."""
    low = name.lstrip(" ,;:'’\"").rstrip(" .,;:'’\"").lower()  # .NET is a name
    return low in STOP_WORDS or low in _NOISE or not any(c.isalpha() for c in low) or low.isdigit()


@lru_cache(maxsize=32_768)  # a community's sentences are also those of the communities above it
def title_words(text: str) -> frozenset[str]:
    """The words of a text that can describe it, in lower case and singular; of Chinese its character pairs."""
    words = (w for w in _LETTERS.findall(text.lower()) if w not in STOP_WORDS and not is_not_a_name(w))
    return frozenset((*map(singular, words), *cjk_bigrams(text).split()))


def singular(text: str) -> str:
    """A text in lower case, its last word without the English plural."""
    low = text.lower()
    return low[:-1] if len(low) > 3 and low.endswith("s") and low[-2] not in "sui" else low


def form_weight(phrase: str) -> float:
    """A single word of the dictionary, or of three capitals, says less than a name or several words; one that is no noun says nothing."""
    if " " in phrase or is_cjk(phrase):
        return 1.0
    tag = dictionary_tag(phrase.lower())
    return 0.0 if tag and not tag.startswith("NN") else SINGLE_NOUN_WEIGHT if tag or phrase.islower() or len(phrase) <= 3 else 1.0


def is_readable(phrase: str) -> bool:
    """Whether a phrase can be read as a title: a few words of letters, no code, number, date or file name."""
    is_short = len(phrase) <= MAX_PHRASE_CJK_CHARS if is_cjk(phrase) else len(phrase.split()) <= MAX_PHRASE_WORDS
    if _OPEN.search(phrase) or _INNER_CAPITAL.search(phrase):
        return False
    return is_short and bool(_READABLE.fullmatch(phrase)) and bool(title_words(phrase))


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
    yield from (
        text[first.start : second.end] for first, second in pairwise(groups) if PREPOSITION.fullmatch(text, first.end, second.start)
    )


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
