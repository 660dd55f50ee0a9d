"""How likely two statements contradict each other: logistic regression on what the reader and the rules say of them.

`prior_features` need no model and choose what is read; `pair_features` decide (`scripts/fit_contradictions.py`).
"""

import math
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from localrag.analysis.differences import StatementDifference, missing_words, other_figures
from localrag.entailment import parse_sentence
from localrag.entailment.comparison import contradiction, matched
from localrag.entailment.english import DAYS, MONTHS
from localrag.entailment.lexicon import ParsedSentence, ParsedWord
from localrag.llm.reader import Entailment
from localrag.query.question_analysis import detect_language
from localrag.query.support_score import PARSED_LANGUAGES
from localrag.text.sentences import is_cjk

_NEGATION = re.compile(
    r"\b(?:not|no|never|none|nobody|nothing|neither|nor|without|cannot|\w+n[’']t|nicht|kein\w*|nie|niemand|nichts|ohne|nunca|ning[uú]n\w*"
    r"|nadie|sin|pas|jamais|aucun\w*|sans|non|mai|n[ãa]o)\b|[不没未无非]",
    re.IGNORECASE,
)
_FIGURE = re.compile(r"\d+(?:[.,:]\d+)*")
_NAME = re.compile(r"(?<![.!?:;] )(?<!^)\b[A-ZÄÖÜÉÁÓ][\w’'-]+")
_ANY_NAME = re.compile(r"\b[A-ZÄÖÜÉÁÓ][\w’'-]+")
# A number behind one of these says which of several things is meant, not how many or how much.
_IDENTIFIED = re.compile(
    r"\b(?:pages?|sections?|chapters?|figures?|fig\.|tables?|steps?|routes?|highways?|issues?|numbers?|no\.|rooms?|lines?|parts?|phases?"
    r"|volumes?|articles?|rules?|appendix|appendices|episodes?|seasons?|grades?|class(?:es)?|levels?|questions?|examples?|items?|notes?"
    r"|Seite|Abschnitt|Kapitel|Tabelle|Abbildung|Schritt|Nr\.|página|sección|capítulo|tabla|figura|paso|tableau|étape|#|§)\s*(\d+)",
    re.IGNORECASE,
)
_TIME = re.compile(
    r"\b(?:until|till|since|formerly|previously|earlier|later|then|now|today|currently|nowadays|originally|initially|at first|before"
    r"|after|used to|no longer|anymore|first|last|next|new|old|former|current|recently|again|ago|by then|at that time|bis|seit|früher"
    r"|heute|später|damals|nicht mehr|zuvor|danach|hasta|desde|antes|después|ahora|jusqu|depuis|avant|après)\b",
    re.IGNORECASE,
)
_CHANGED = re.compile(
    r"\b(?:until|formerly|previously|originally|initially|used to|no longer|at that time|planned|expected|intended|proposed|bis|früher"
    r"|damals|nicht mehr|hasta|antes)\b",
    re.IGNORECASE,
)
_CONDITION = re.compile(
    r"\b(?:if|unless|except|only|when|where|while|during|for|some|most|many|may|might|could|should|would|according|said|wenn|falls|außer|nur"
    r"|si|salvo|sauf)\b",
    re.IGNORECASE,
)
_PERSONAL = re.compile(r"\b(?:I|you|he|she|him|her|his|me|my|your)\b", re.IGNORECASE)
_POINTING = re.compile(r"^\W*(?:it|its|they|their|this|that|these|those|he|she|his|her|here|there|such|both)\b", re.IGNORECASE)
_OWNER = re.compile(r"\b(?:we|our|us|ours|this (?:site|website|policy|document|company|report|notice|agreement))\b", re.IGNORECASE)
_YEAR = re.compile(r"(?<![\d.,])(?:1[0-9]|20)\d\d(?![\d,]|\.\d)")
REASON_KINDS = ("number", "date", "name", "negation", "quantifier", "roles", "mode")
DIFFERENCE_KINDS = ("number", "date", "name", "negation", "opposite", "wording")
KINDS_IN_SUBJECT = ("name", "opposite", "wording", "number")
# What follows a subject of which there is only one: is the captain, won the final, chairs our board.
_UNIQUE = re.compile(r"\W*(?:\w+\W+){1,4}?(?:the|its|our|der|die|das|den|el|la|los|las|le|les)\b", re.IGNORECASE)
_COUNTED = re.compile(r"[ -]?([^\W\d_]+|[%€$£°]+)")
MAX_COUNT = 4.0


PRIOR_WEIGHTS = {
    "bias": -0.750, "cosine": 1.138, "overlap": 4.164, "cosine²": 1.425, "shared names": -0.018, "names in both only": 0.169,
    "names in one only": -0.227, "other figures": 0.758, "figures in one only": -0.324, "one negated": 0.226, "length": -1.214,
    "length ratio": -1.080,
}  # fmt: skip
SCREENING_WEIGHTS = {
    "bias": -0.335, "prior": 0.802, "contradicted": 0.206, "entailed": -0.058,
}  # fmt: skip
PAIR_WEIGHTS = {
    "bias": -6.443, "contradicted": -0.131, "contradicted, at best": 0.211, "entailed": -0.240, "cosine": 1.389, "aligned": 1.129,
    "aligned, at best": 1.636, "other names": -0.054, "other figures": -0.039, "other words": -0.061, "more names": -0.506,
    "more figures": 0.237, "more words": 0.112, "other names and figures": -1.022, "other years": -1.076,
    "other years and more": -1.029, "year in one only": 0.100, "other identifiers": -2.845, "shared names": -0.224,
    "shared subject": -0.125, "other named subject": -0.461, "one negated": -0.086, "time words": 0.386, "changed": -2.085,
    "condition words": -0.206, "some": -1.106, "owner": -0.952, "personal": -0.747, "pointing": -0.923, "length": 0.422,
    "length ratio": 0.520, "both reasons": 0.234, "no difference": -0.071, "more kinds of difference": -1.244,
    "no difference × contradicted": 0.515, "agreeing": 0.414, "agreeing, both ways": 0.079, "agreeing contradicted": -0.477,
    "difference in subject": 0.058, "reason: number": 0.006, "reason: date": 1.554, "reason: name": 0.273, "reason: negation": 1.003,
    "reason: quantifier": 1.317, "reason: roles": 3.263, "reason: mode": -3.222, "kind: number": 0.249, "kind: date": 0.892,
    "kind: name": 0.606, "kind: negation": -0.262, "kind: opposite": 0.195, "kind: wording": -1.447, "in subject: name": -1.124,
    "in subject: opposite": -0.152, "in subject: wording": -1.031, "in subject: number": -0.842,
    "in subject: name, not unique": -0.239,
}  # fmt: skip


class Agreement(NamedTuple):
    """A difference, and what the reader says of the statements without it, in both directions."""

    difference: StatementDifference
    readings: tuple[Entailment, Entailment]

    @property
    def entailed(self) -> float:
        """The higher probability that one statement then entails the other."""
        return max(reading.entailed for reading in self.readings)


def prior_features(a: str, b: str, cosine: float, overlap: float) -> dict[str, float]:
    """What is known of two texts before they are read."""
    numbers, names = (set(_FIGURE.findall(a)), set(_FIGURE.findall(b))), (set(_NAME.findall(a)), set(_NAME.findall(b)))
    missing = [len(mine - others) for mine, others in (names, names[::-1])]
    is_negated = [_NEGATION.search(text) is not None for text in (a, b)]
    return {
        "cosine": cosine,
        "overlap": overlap,
        "cosine²": cosine * cosine,
        "shared names": min(MAX_COUNT, len(names[0] & names[1])),
        "names in both only": min(MAX_COUNT, min(missing)),  # noqa: PLW3301
        "names in one only": min(MAX_COUNT, max(missing)),
        "other figures": float(bool(numbers[0] - numbers[1] and numbers[1] - numbers[0])),
        "figures in one only": float(bool(numbers[0]) != bool(numbers[1])),
        "one negated": float(is_negated[0] != is_negated[1]),
        "length": math.log(max(1, min(len(a), len(b)))),
        "length ratio": math.log(max(len(a), len(b), 1) / max(1, min(len(a), len(b)))),
    }


def is_pointing(text: str) -> bool:
    """Whether a text begins with a word for what was named before it, such as "it"."""
    return _POINTING.search(text) is not None


def shares_name(a: str, b: str) -> bool:
    """Whether two texts have a capitalized word in common that does not begin them; a text in Chinese or the like counts as if."""
    return is_cjk(a) or bool(set(_NAME.findall(a)) & set(_ANY_NAME.findall(b)) | set(_ANY_NAME.findall(a)) & set(_NAME.findall(b)))


def log_odds(probability: float) -> float:
    """The log odds of a probability, between -7 and 7."""
    return math.log((probability + 1e-3) / (1 - probability + 1e-3))


def prior_log_odds(a: str, b: str, cosine: float, overlap: float) -> float:
    """The log odds that two statements contradict each other, before they are read."""
    return _weighted(PRIOR_WEIGHTS, prior_features(a, b, cosine, overlap))


def screening_features(prior: float, reading: Entailment) -> dict[str, float]:
    """What is known after one reading."""
    return {"prior": prior, "contradicted": log_odds(reading.contradicted), "entailed": log_odds(reading.entailed)}


def screening_log_odds(prior: float, reading: Entailment) -> float:
    """The log odds after one reading."""
    return _weighted(SCREENING_WEIGHTS, screening_features(prior, reading))


def contradiction_log_odds(a: str, b: str, cosine: float, readings: Sequence[Entailment], agreements: Sequence[Agreement]) -> float:
    """The log odds after all readings."""
    return _weighted(PAIR_WEIGHTS, pair_features(a, b, cosine, readings, agreements))


def _weighted(weights: Mapping[str, float], values: Mapping[str, float]) -> float:
    return weights["bias"] + sum(weight * values[name] for name, weight in weights.items() if name != "bias")


def pair_features(a: str, b: str, cosine: float, readings: Sequence[Entailment], agreements: Sequence[Agreement]) -> dict[str, float]:
    """What the reader, in both directions, and the rules say of two texts."""
    is_parsed = detect_language(a) in PARSED_LANGUAGES
    first, second = parse_sentence(a), parse_sentence(b)
    reasons = [contradiction(x, y, names=is_parsed).split(":")[0] for x, y in ((first, second), (second, first))]
    if not is_parsed:
        reasons = [reason if reason in ("number", "date") else "" for reason in reasons]
    against = min(log_odds(r.contradicted) for r in readings)
    values: dict[str, float] = {
        "contradicted": against,
        "contradicted, at best": max(log_odds(r.contradicted) for r in readings),
        "entailed": max(log_odds(r.entailed) for r in readings),
        "cosine": cosine,
        "some": float("some" in first.quantifiers | second.quantifiers),
        "both reasons": float(all(reasons)),
    }
    values |= {f"reason: {kind}": float(kind in reasons) for kind in REASON_KINDS}
    values |= _word_features(a, b, first, second, is_parsed=is_parsed) | _text_features(a, b)
    return values | _agreement_features(a, b, first, second, against, agreements, is_parsed=is_parsed)


def _word_features(a: str, b: str, first: ParsedSentence, second: ParsedSentence, *, is_parsed: bool) -> dict[str, float]:
    """Which words, names and figures only one of two sentences has."""
    missing = [missing_words(x, y) for x, y in ((first, second), (second, first))]
    telling = [max(1, sum(not word.soft for word in x.words)) for x in (first, second)]
    aligned = [1 - len(words) / n for words, n in zip(missing, telling, strict=True)]
    kinds = [{kind: sum(_kind(word, is_parsed) == kind for word in words) for kind in ("name", "word")} for words in missing]
    both = {kind: min(k[kind] for k in kinds) for kind in ("name", "word")}
    either = {kind: max(k[kind] for k in kinds) for kind in ("name", "word")}
    years = [set(_YEAR.findall(text)) for text in (a, b)]
    numbers = sorted(len(found) for found in other_figures(a, b))
    has_other_years = bool(years[0] - years[1] and years[1] - years[0])
    return {
        "aligned": min(aligned),
        "aligned, at best": max(aligned),
        "other names": min(MAX_COUNT, both["name"]),
        "other figures": min(MAX_COUNT, numbers[0]),
        "other words": min(MAX_COUNT, both["word"]),
        "more names": min(MAX_COUNT, either["name"] - both["name"]),
        "more figures": min(MAX_COUNT, numbers[1] - numbers[0]),
        "more words": min(2 * MAX_COUNT, either["word"] - both["word"]),
        "other names and figures": float(both["name"] > 0 and numbers[0] > 0),
        "other years": float(has_other_years),
        "other years and more": float(has_other_years and numbers[0] + both["name"] > 1),
        "year in one only": float(bool(years[0]) != bool(years[1])),
        "shared names": min(MAX_COUNT, _shared_names(first, second, is_parsed)),
        "shared subject": float(_subject_shared(first, second)),
        "other named subject": float(_subject_names_differ(first, second, missing)) * is_parsed,
    }


def _text_features(a: str, b: str) -> dict[str, float]:
    """Signs of conditions, times, negations and owners in two texts."""
    identifiers = [set(_IDENTIFIED.findall(text.lower())) for text in (a, b)]
    return {
        "other identifiers": float(bool(identifiers[0] ^ identifiers[1])),
        "one negated": float((_NEGATION.search(a) is None) != (_NEGATION.search(b) is None)),
        "time words": float(_matched_words(_TIME, a) != _matched_words(_TIME, b)),
        "changed": float(bool(_CHANGED.search(a)) != bool(_CHANGED.search(b))),
        "condition words": min(MAX_COUNT, len(_matched_words(_CONDITION, a) ^ _matched_words(_CONDITION, b))),
        "owner": float(bool(_OWNER.search(a) or _OWNER.search(b))),
        "personal": float(bool(_PERSONAL.search(a) or _PERSONAL.search(b))),
        "pointing": float(bool(_POINTING.search(a) or _POINTING.search(b))),
        "length": math.log(max(1, min(len(a), len(b)))),
        "length ratio": math.log(max(len(a), len(b), 1) / max(1, min(len(a), len(b)))),
    }


def _agreement_features(
    a: str, b: str, first: ParsedSentence, second: ParsedSentence, against: float, agreements: Sequence[Agreement], *, is_parsed: bool
) -> dict[str, float]:
    """What is known of two texts by what they would say without their difference."""
    best = max(agreements, key=lambda x: x.entailed, default=None)
    kind = best.difference.kind if best else ""
    tested = best if best is not None and kind != "wording" else None  # with the same words the statements are the same
    values: dict[str, float] = {
        "no difference": float(best is None),
        "more kinds of difference": float(max(0, len({x.difference.kind for x in agreements}) - 1)),
        "no difference × contradicted": 0.0 if best else against,
        "agreeing": log_odds(tested.entailed) if tested else 0.0,
        "agreeing, both ways": log_odds(min(r.entailed for r in tested.readings)) if tested else 0.0,
        "agreeing contradicted": log_odds(max(r.contradicted for r in tested.readings)) if tested else 0.0,
        "wording × contradicted": against if kind == "wording" else 0.0,
        "same unit": float(best is not None and kind == "number" and _counts_same(a, b, best.difference)),
        "difference in subject": float(best is not None and is_parsed and _in_subjects(a, b, first, second, best.difference)),
    }
    values |= {f"kind: {one}": float(kind == one) for one in DIFFERENCE_KINDS}
    values |= {f"in subject: {one}": values["difference in subject"] * values[f"kind: {one}"] for one in KINDS_IN_SUBJECT}
    is_unique = best is not None and all(
        _UNIQUE.match(text[span[1] :]) for text, span in ((a, best.difference.first), (b, best.difference.second))
    )
    values["in subject: name, not unique"] = values["in subject: name"] * (not is_unique)
    return values


def _counts_same(a: str, b: str, difference: StatementDifference) -> bool:
    """Whether the same word, or sign of a unit, follows two numbers."""
    following = [_COUNTED.match(text[span[1] :]) for text, span in ((a, difference.first), (b, difference.second))]
    words = [
        m[1].lower()[:4] if m else text[slice(*span)].split()[-1].lower()[:4]
        for m, text, span in zip(following, (a, b), (difference.first, difference.second), strict=True)
    ]
    return words[0] == words[1] and not words[0][0].isdigit()


def _in_subjects(a: str, b: str, first: ParsedSentence, second: ParsedSentence, difference: StatementDifference) -> bool:
    """Whether a difference is in the subjects of both statements: then they may be about two things."""
    for text, sentence, span in ((a, first, difference.first), (b, second, difference.second)):
        words = set(re.findall(r"\w+", text[slice(*span)].lower()))
        if not any(sentence.words[i].text in words and sentence.words[i].before != "by" for i in _subject_words(sentence)):
            return False
    return True


def _kind(word: ParsedWord, is_parsed: bool) -> str:
    if word.kind == "number" or word.when or word.keys & (MONTHS | DAYS):
        return "figure"
    return "name" if word.kind == "name" and is_parsed else "word"


def _shared_names(a: ParsedSentence, b: ParsedSentence, is_parsed: bool) -> int:
    if not is_parsed:
        return 0
    match = matched(a, b)
    return len({word.text for i, word in enumerate(a.words) if word.kind == "name" and i in match.alike})


def _subject_words(sentence: ParsedSentence) -> set[int]:
    return {i for clause in sentence.clauses[:1] for i in clause.subject if not sentence.words[i].soft}


def _subject_shared(a: ParsedSentence, b: ParsedSentence) -> bool:
    """Whether the subject of the first clause of one sentence occurs in the other's subject."""
    match, mine, others = matched(a, b), _subject_words(a), _subject_words(b)
    return bool(match.of(mine) & others)


def _subject_names_differ(a: ParsedSentence, b: ParsedSentence, missing: Sequence[Sequence[ParsedWord]]) -> bool:
    """Whether both subjects have a name that the other sentence does not have."""
    return all(
        any(sentence.words[i].kind == "name" and sentence.words[i] in missing for i in _subject_words(sentence))
        for sentence, missing in ((a, missing[0]), (b, missing[1]))
    )


@lru_cache(maxsize=20_000)
def _matched_words(pattern: re.Pattern[str], text: str) -> frozenset[str]:
    return frozenset(word.lower() for word in pattern.findall(text))
