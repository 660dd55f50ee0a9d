"""A request for a list, such as "all vessels that sank": what it asks for, and the conditions on it.

English requests are taken apart by their parts of speech. Of other languages only the words beside function words are known, and numbers
that are compared, in German, French, Spanish and Chinese.
"""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from localrag.entailment.english import word_forms
from localrag.entailment.lexicon import are_synonyms
from localrag.errors import UsageError
from localrag.project import Project
from localrag.query.collection_questions import CollectionKind, collection_kind
from localrag.query.question_kind import QuestionKind, question_kind
from localrag.text.language import FUNCTION_WORDS_BY_LANGUAGE, detect_language
from localrag.text.parts_of_speech import tag_english
from localrag.text.sentences import STOP_WORDS, Span, cjk_bigrams, is_cjk

MAX_REQUEST_CHARS = 1000
NEGATION_REACH_TOKENS = 4  # between a negation and the word that it negates
MIN_PREFIX_CHARS, MAX_SUFFIX_CHARS = 4, 3  # of words of which one begins with the other, such as "wood" and "wooden"
MIN_COMMON_CHARS, MIN_COMMON_SHARE = 6, 0.6  # at the beginning of words derived from one, such as "certified" and "certificate"
TOKEN = re.compile(r"[^\W_]+(?:[.,]\d+)*(?:['’][^\W_]+)?|[.,;:!?。，；：！？]")
_BREAKS = frozenset(".,;:!?。，；：！？") | {"but", "and", "aber", "und", "mais", "pero"}
_OR = frozenset("or oder ou o u".split())
NEGATIONS = frozenset(
    """
    not never no none neither nor nobody nothing without hardly nearly almost cannot
    nicht nie niemals kein keine keinen keinem keiner ohne beinahe fast
    ne pas jamais sans aucun aucune nunca sin jamás ningún ninguna
    """.split()
)
_CJK_NEGATION = re.compile("[不没未无非]")
_COUNTING = re.compile(
    r"^\W*(?:how many|number of|count (?:of|the|all)|wie ?viele|combien d|cu[aá]nt[oa]s)|多少|几(?:个|位|名|艘|家|座|条|种|次)",
    re.IGNORECASE,
)
_ALL = re.compile(
    r"^\W*(?:(?:please )?(?:list|show|name|enumerate|find|give me)\b.{0,12}\b(?:all|every|each)\b|all\b(?! about)|every\b|list of all\b"
    r"|(?:liste )?(?:alle|sämtliche)\b|jede[rsn]?\b|tou(?:te)?s les\b|tod[oa]s l[oa]s\b|所有|全部|列出)",
    re.IGNORECASE,
)
_OPENING = re.compile(  # what a request begins with, before the noun
    r"请?(?:列出|找出|给出)?(?:所有|全部)?的?有?(?:多少|哪些|几个|什么)?\W*+"
    r"(?:(?:please|can|could|you|list|show|give|find|name|enumerate|count|tell|get|display|me|us|up|(?:the\s++)?(?:names?|number)\s++of"
    r"|complete|full|how|many|which|what|who|all|every|each|any|of|the|our|my|your|those|these"
    r"|bitte|liste|nenne|zeige|finde|gib|mir|uns|wie|viele|wieviele|welche[rsn]?|alle|sämtliche|jede[rsn]?|wer"
    r"|cite|nomme|donne|montre|moi|combien|d[eu]|quel(?:le)?s|tou(?:te)?s|les|qui"
    r"|lista|nombra|muestra|enumera|cu[aá]nt[oa]s|qué|cuáles|tod[oa]s|l[oa]s|quiénes)\b\W*+)*+",
    re.IGNORECASE,
)
_PERSONS = re.compile(r"^\W*(?:(?:list|tell|name)\s+(?:me\s+)?)?who\b", re.IGNORECASE)
_STOPS = {code: frozenset(words.split()) for code, words in FUNCTION_WORDS_BY_LANGUAGE.items()}
_MODIFIERS = ("JJ", "VBN", "VBG", "NN", "CD")
_ALSO_SAID = {"woman": "female", "girl": "female", "man": "male", "boy": "male", "female": "woman", "male": "man"}  # in tables
_GENERIC_WORDS = frozenset(
    "name item entry record row thing one example instance number total exist mention mentioned document file".split()
)


@dataclass(frozen=True, slots=True)
class RequestWord:
    """A word of a condition, in lower case; `is_negated`: what is asked for lacks it.

    `is_optional`: a table need not have it, as "work" in "who work in Bergen", whose columns say what is meant. `choice`: the number of the
    "A or B" that it is a word of, 0 for none; `side`: whether it is of A (0) or of B (1).
    """

    text: str
    is_negated: bool = False
    is_optional: bool = False
    choice: int = 0
    side: int = 0


@dataclass(frozen=True, slots=True)
class NumberComparison:
    """Bounds of a number, both inclusive. `words` name what is counted or measured; `is_year`: the number is a year."""

    words: tuple[str, ...]
    low: float
    high: float
    is_year: bool = False


@dataclass(frozen=True, slots=True)
class ListRequest:
    """A request taken apart.

    `head`: the noun for what is listed, empty if unknown; `words`: those of the conditions.
    """

    text: str
    language: str
    head: str
    words: tuple[RequestWord, ...]
    comparisons: tuple[NumberComparison, ...]


def is_list_request(question: str, project: Project) -> bool:
    """Whether a question asks for all of something in the documents, or how many there are, and not about the files."""
    if collection_kind(question, project) is not CollectionKind.OTHER:
        return False
    return asks_for_all(question) or question_kind(question, project).kind is QuestionKind.LIST


def asks_for_all(question: str) -> bool:
    """Whether a question asks for all things of a kind by these words, or for their number."""
    return asks_how_many(question) or bool(_ALL.match(question))


def asks_how_many(question: str) -> bool:
    """Whether a question asks for a number of things."""
    return bool(_COUNTING.search(question))


def parse_list_request(text: str) -> ListRequest:
    """Take a request apart. Raises UsageError if it is empty or too long."""
    plain = " ".join(text.split())
    if not any(map(str.isalnum, plain)):
        raise UsageError("The request is empty.", 'Say what to list: localrag list "all vessels that sank"')
    if len(plain) > MAX_REQUEST_CHARS:
        raise UsageError(f"The request is longer than {MAX_REQUEST_CHARS} characters.", "Say in one sentence what to list.")
    language = detect_language(plain)
    comparisons, rest = _comparisons(plain.rstrip(" ?!.。？！"))
    if language != "en" or is_cjk(plain):
        return _parse_other(plain, rest, language, comparisons)
    return _parse_english(plain, rest, comparisons)


def _parse_english(plain: str, rest: str, comparisons: Sequence[NumberComparison]) -> ListRequest:
    phrase = "" if _PERSONS.match(plain) else _noun_phrase(_without_opening(plain).rstrip(" ?!."))
    noun_words = [w.lower() for w in re.findall(r"[^\W_]+", phrase)]
    head = noun_words[-1] if noun_words else ""
    words = _content_words(_without_opening(rest), "en", head, comparisons)
    kept = tuple(replace(c, words=tuple(w for w in c.words if w != head)) for c in comparisons)
    return ListRequest(plain, "en", head, words, kept)


def _without_opening(text: str) -> str:
    opening = _OPENING.match(text)
    return text[opening.end() if opening else 0 :]


def _noun_phrase(body: str) -> str:
    """The noun phrase that a request begins with, such as "stone bridges"."""
    end, tag_before = 0, ""
    tagged = [*tag_english(body)]
    for (span, tag), (after, tag_after) in zip(tagged, [*tagged[1:], (Span(len(body), len(body)), "")], strict=True):
        word = body[span.start : span.end].lower()
        between = body[end : span.start]
        is_part = tag.startswith(_MODIFIERS) and word not in STOP_WORDS | {"that", "without", "with"} and not between.strip(" -&")
        is_last = not tag_after.startswith("NN") or bool(body[span.end : after.start].strip(" -"))
        if is_part and end and is_last and tag.startswith(("VB", "JJ")) and _is_noun(body[:end].rsplit(maxsplit=1)[-1]):
            break  # "ships built in Bergen", but "gram positive bacteria"
        if is_part and end and not tag.startswith("NNP") and tag_before == "NNS":
            break  # "firms sell paint"
        if not is_part:
            break
        end, tag_before = span.end, tag
    return body[:end]


def _is_noun(word: str) -> bool:
    tags = [tag for _, tag in tag_english(word)]
    return bool(tags) and tags[-1].startswith("NN")


def _parse_other(plain: str, rest: str, language: str, comparisons: Sequence[NumberComparison]) -> ListRequest:
    words = _content_words(_without_opening(rest).strip(" ,"), language, "", comparisons)
    has_head = bool(words) and not is_cjk(plain)
    return ListRequest(plain, language, words[0].text if has_head else "", words[has_head:], tuple(comparisons))


def _content_words(text: str, language: str, head: str, comparisons: Sequence[NumberComparison]) -> tuple[RequestWord, ...]:
    """The words of the conditions, in order, each once; CJK text as character pairs."""
    small = _STOPS.get(language, frozenset()) | STOP_WORDS | _GENERIC_WORDS
    found: dict[str, RequestWord] = {}
    run: list[str] = []  # words that stand together
    optional = _verbs(text, language).union(*(c.words for c in comparisons))
    choice = side = 0
    for word in split_request_words(text, keep_small=True):
        if word.text in _OR and run:
            choice, side = choice + 1, 1
            found |= {w: replace(found[w], choice=choice) for w in run}
            run = []
        elif word.text in small | NEGATIONS or word.text == head or (len(word.text) < 2 and not word.text.isdigit()):
            side, run = (0, []) if run else (side, run)
        elif word.text not in found:
            found[word.text] = replace(word, is_optional=word.text in optional, choice=choice if side else 0, side=side)
            run.append(word.text)
    return tuple(found.values())


def _verbs(text: str, language: str) -> set[str]:
    """The words that may be verbs: of other languages than English all in lower case."""
    if language != "en":
        return {word for word in TOKEN.findall(text) if word.islower()}
    return {text[span.start : span.end].lower() for span, tag in tag_english(text) if tag.startswith("VB")}


def split_request_words(text: str, *, keep_small: bool = False) -> Iterator[RequestWord]:
    """The words of a text in lower case, CJK text as character pairs; `is_negated`: a negation stands shortly before it.

    With `keep_small` also negations and words such as "and".
    """
    since = NEGATION_REACH_TOKENS + 1
    for m in TOKEN.finditer(text):
        word = m[0].lower()
        if word in _BREAKS:
            since = NEGATION_REACH_TOKENS + 1
            if keep_small:
                yield RequestWord(word)
        elif word in NEGATIONS or word.endswith(("n't", "n’t")):
            since = 0
            if keep_small:
                yield RequestWord(word)
        elif pairs := cjk_bigrams(word).split():
            at = 0
            for pair in pairs:
                at = word.find(pair, at)
                yield RequestWord(pair, bool(_CJK_NEGATION.search(word[max(0, at - 3) : at])))
        else:
            since += 1
            yield RequestWord(re.sub(r"['’]s$", "", word), since <= NEGATION_REACH_TOKENS)


# Words that mean the same


@lru_cache(maxsize=200_000)
def likeness(wanted: str, word: str) -> float:
    """How far a word stands for a wanted one: 1 the same or another form of it, 0.8 a synonym, 0 another. Both in lower case."""
    if wanted == word:
        return 1.0
    if wanted[0].isdigit() or word[0].isdigit() or not wanted.isalpha() or min(len(wanted), len(word)) < 2:
        return 0.0
    if is_cjk(wanted) or is_cjk(word):
        return 0.0
    short, long = sorted((wanted, word), key=len)
    if long.startswith(short) and len(short) >= MIN_PREFIX_CHARS and len(long) - len(short) <= MAX_SUFFIX_CHARS:
        return 1.0
    mine, others = word_forms(wanted), word_forms(word)
    if mine & others or any(_ALSO_SAID.get(form) in others for form in mine):
        return 1.0
    n_common = next((n for n, (a, b) in enumerate(zip(short, long, strict=False)) if a != b), len(short))
    is_derived = n_common >= max(MIN_COMMON_CHARS, MIN_COMMON_SHARE * len(long))
    return 0.8 if is_derived or are_synonyms(mine, others, "en") else 0.0


# Numbers

_NUMBER = r"(?P<number>\d[\d.,' ]{0,30}(?<=\d)|\d)(?:\s*+(?P<scale>k\b|thousand|million|billion|tausend|millionen|万|亿))?"
_YEAR = r"(?P<number>[12]\d{3})\b"
_BETWEEN = re.compile(
    r"\b(?:between|from|zwischen|von|entre|de)\s+(?P<low>\d[\d.,']{0,30})\s*(?:and|to|und|bis|et|à|y|a|–|-)\s*(?P<high>\d[\d.,']{0,30})",
    re.IGNORECASE,
)
# Whether it is the least or the greatest number, whether that is left out, whether it is a year.
_BOUNDS = tuple(
    (re.compile(pattern, re.IGNORECASE), *kind)
    for pattern, kind in (
        (rf"(?:at least|no less than|minimum of|>=|≥|mindestens|au moins|al menos|至少)\s*{_NUMBER}", (True, False, False)),
        (
            rf"(?:at most|(?:no|not) more than|maximum of|up to|<=|≤|höchstens|maximal|au plus|como máximo|最多)\s*{_NUMBER}",
            (False, False, False),
        ),
        (rf"{_NUMBER}\s*(?:以上|or more|oder mehr|ou plus|o más)", (True, False, False)),
        (rf"{_NUMBER}\s*(?:以下|or fewer|or less)", (False, False, False)),
        (
            rf"(?:above|over|exceeding|(?:more(?: expensive)?|greater|higher|longer|older|larger|bigger|heavier|taller|later) than|>|über"
            rf"|(?:mehr|größer|höher|länger|älter) als|plus de|supérieure?s? à|más de|mayor(?:es)? que|超过|大于|高于|多于)\s*{_NUMBER}",
            (True, True, False),
        ),
        (
            rf"(?:below|under|(?:less|fewer|lower|shorter|younger|smaller|lighter|earlier|cheaper) than|<|unter"
            rf"|(?:weniger|kleiner|kürzer|jünger|niedriger) als|moins de|inférieure?s? à|menos de|低于|小于|少于)\s*{_NUMBER}",
            (False, True, False),
        ),
        (rf"\b(?:after|nach|après|después de)\s+{_YEAR}|(?P<zh>[12]\d{{3}})年?(?:之后|以后)", (True, True, True)),
        (rf"\b(?:before|prior to|vor|avant|antes de)\s+{_YEAR}|(?P<zh>[12]\d{{3}})年?(?:之前|以前)", (False, True, True)),
        (rf"\b(?:since|from|seit|ab|depuis|desde)\s+{_YEAR}|(?P<zh>[12]\d{{3}})年?以来", (True, False, True)),
        (rf"\b(?:until|till|bis|jusqu'en|hasta)\s+{_YEAR}", (False, False, True)),
    )
)
_COUNTED = re.compile(r"(?<![\w.,-])(?P<number>\d{1,3}(?:[.,]\d+)?)\s+(?P<noun>[^\W\d_]{3,})")
_SCALES = {"k": 1e3, "thousand": 1e3, "tausend": 1e3, "million": 1e6, "millionen": 1e6, "billion": 1e9, "万": 1e4, "亿": 1e8}
_MEASURED = {  # what a comparative compares
    "longer": "length", "shorter": "length", "older": "age", "younger": "age", "higher": "height", "taller": "height",
    "heavier": "weight", "larger": "size", "bigger": "size", "smaller": "size", "expensive": "price", "cheaper": "price",
}  # fmt: skip


def number_of(text: str) -> float:
    """Return a written number: 60,000 and 60.000 and 60 000 are sixty thousand, 3.5 and 3,5 three and a half."""
    plain = re.sub(r"[ ']", "", text)
    plain = re.sub(r"[.,](?=\d{3}(?:\D|$))(?!\d{3}\d)", "", plain) if re.fullmatch(r"[1-9]\d{0,2}(?:[.,]\d{3})+", plain) else plain
    try:
        return float(plain.replace(",", "."))
    except ValueError:
        return float("nan")


def _comparisons(text: str) -> tuple[list[NumberComparison], str]:
    """Return the comparisons of a request, and it without their numbers."""
    found: list[NumberComparison] = []
    for m in _BETWEEN.finditer(text):
        low, high = number_of(m["low"]), number_of(m["high"])
        found.append(NumberComparison(_words_near(text, m.start(), m.end()), low, high, _is_year(low) and _is_year(high)))
    rest = _BETWEEN.sub(" ", text)
    for pattern, is_least, is_open, is_year in _BOUNDS:
        found += [_bound_of_number(m, is_least=is_least, is_open=is_open, is_year=is_year) for m in pattern.finditer(rest)]
        rest = pattern.sub(" ", rest)
    for m in _COUNTED.finditer(rest):
        number = number_of(m["number"])
        found.append(NumberComparison((m["noun"].lower(),), number, number))
    return found, _COUNTED.sub(lambda m: f" {m['noun']}", rest)


def _bound_of_number(m: re.Match[str], *, is_least: bool, is_open: bool, is_year: bool) -> NumberComparison:
    groups = m.groupdict()
    number = number_of(groups["number"] or groups["zh"]) * _SCALES.get((groups.get("scale") or "").lower(), 1)
    measured = [noun for word, noun in _MEASURED.items() if word in m[0].lower()]
    step = (1 if is_year else 1e-9 * max(1.0, abs(number))) if is_open else 0
    low, high = (number + step, math.inf) if is_least else (-math.inf, number - step)
    return NumberComparison((*measured, *_words_near(m.string, m.start(), m.end())), low, high, is_year or (is_open and _is_year(number)))


def _is_year(number: float) -> bool:
    return 1000 <= number <= 2100 and number.is_integer()


def _words_near(text: str, start: int, end: int) -> tuple[str, ...]:
    """Return the content words beside a number, the nearest first: two before it and two after it."""
    before = [w.text for w in split_request_words(text[:start]) if w.text not in STOP_WORDS and not w.text.isdigit()][-2:][::-1]
    after = [w.text for w in split_request_words(text[end:]) if w.text not in STOP_WORDS and not w.text.isdigit()][:2]
    return tuple(dict.fromkeys([*after[:1], *before, *after[1:]]))
