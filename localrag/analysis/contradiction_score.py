"""How likely two statements contradict each other: logistic regression on a few features (`scripts/fit_contradictions.py`).

`prior_features` need no model and choose what is read; `pair_features` decide on the pairs that the reader calls contradictory.
"""

import math
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from localrag.analysis.differences import StatementDifference, missing_words, other_figures
from localrag.entailment import parse_sentence
from localrag.entailment.lexicon import ParsedSentence
from localrag.llm.reader import Entailment
from localrag.query.support_score import PARSED_LANGUAGES
from localrag.text.language import detect_language
from localrag.text.sentences import is_cjk

_FIGURE = re.compile(r"\d+(?:[.,:]\d+)*")
_NAME = re.compile(r"(?<![.!?:;] )(?<!^)\b[A-ZÄÖÜÉÁÓ][\w’'-]+")
_ANY_NAME = re.compile(r"\b[A-ZÄÖÜÉÁÓ][\w’'-]+")
_POINTING = re.compile(r"^\W*(?:it|its|they|their|this|that|these|those|he|she|his|her|here|such|both)\b", re.IGNORECASE)
_UNNAMED = re.compile(r"^(?:The|Our|Der|Die|Das|El|La|Los|Las|Le|Les) [a-zäöüéáó]")
_PERSONAL = re.compile(r"\b(?:I|me|my|you|your|ich|mich|mein\w*|du|Sie|Ihre?|je|moi|vous|yo|usted)\b|[我你您]")
_FIRST_PERSON = re.compile(
    r"\b(?:I|[Ww]e|us|[Oo]urs?|[Mm]y|me|[Ww]ir|uns|[Uu]nser\w*|[Ii]ch|[Mm]ein\w*|[Nn]ous|[Nn]otre|nos|[Nn]osotros|[Nn]uestr\w+|[Nn]osso\w*)\b"
    r"|我们|我們|我"
)
_YEAR = re.compile(r"(?<![\d.,])(?:1[0-9]|20)\d\d(?![\d,]|\.\d)")
MIN_CONTRADICTED, MIN_MEAN_CONTRADICTED = 0.2, 0.35  # what the reader says in each direction of a pair that is shown, and on average
MIN_SHARED_WORDS = 2

PRIOR_WEIGHTS = {
    "bias": -0.750, "cosine": 1.138, "overlap": 4.164, "cosine²": 1.425, "other figures": 0.758, "figures in one only": -0.324,
    "length": -1.214, "length ratio": -1.080,
}  # fmt: skip
PAIR_WEIGHTS = {
    "bias": -5.161, "agreeing": 0.337, "agreeing contradicted": -0.539, "aligned": 3.383, "cosine": 1.982, "length ratio": 1.097,
    "names as subjects": -4.079, "other years and more": -2.133,
}  # fmt: skip


class Agreement(NamedTuple):
    """A difference, and what the reader says of the statements without it, in both directions."""

    difference: StatementDifference
    readings: tuple[Entailment, Entailment]

    @property
    def entailed(self) -> float:
        """The higher probability that one statement then entails the other."""
        return max(reading.entailed for reading in self.readings)

    @property
    def contradicted(self) -> float:
        """The higher probability that one statement still contradicts the other."""
        return max(reading.contradicted for reading in self.readings)


def best_agreement(agreements: Sequence[Agreement]) -> Agreement:
    """The difference without which two statements say the same most surely."""
    return max(agreements, key=lambda agreement: agreement.entailed)


def may_contradict(forward: Entailment, backward: Entailment) -> bool:
    """Whether the reader, reading two statements in both directions, thinks that they may contradict each other."""
    values = forward.contradicted, backward.contradicted
    return min(values) > MIN_CONTRADICTED and sum(values) / 2 > MIN_MEAN_CONTRADICTED


def shares_enough_words(a: str, b: str) -> bool:
    """Whether two texts share so many telling words that they can be about the same thing: "I think so" says too little."""
    first, second = parse_sentence(a), parse_sentence(b)
    shared = [sum(not word.soft for word in x.words) - len(missing_words(x, y)) for x, y in ((first, second), (second, first))]
    return min(shared) >= MIN_SHARED_WORDS


def needs_context(text: str) -> bool:
    """Whether only the document tells what a text is about: it begins with a word such as "it", or speaks of "us"."""
    return begins_with_pronoun(text) or _FIRST_PERSON.search(text) is not None


def begins_with_pronoun(text: str) -> bool:
    """Whether a text begins with a word such as "it" or "these"."""
    return _POINTING.search(text) is not None


def needs_subject(text: str) -> bool:
    """Whether a text does not say what it is about: it begins with a word such as "it", or with "the" and no name."""
    return begins_with_pronoun(text) or _UNNAMED.search(text) is not None


def is_personal_remark(text: str) -> bool:
    """Whether somebody speaks of himself or to another."""
    return _PERSONAL.search(text) is not None


def shares_name(a: str, b: str) -> bool:
    """Whether two texts have a capitalized word in common that does not begin them; a text in Chinese or the like counts as if."""
    return is_cjk(a) or bool(set(_NAME.findall(a)) & set(_ANY_NAME.findall(b)) | set(_ANY_NAME.findall(a)) & set(_NAME.findall(b)))


def log_odds(probability: float) -> float:
    """The log odds of a probability, between -7 and 7."""
    return math.log((probability + 1e-3) / (1 - probability + 1e-3))


def prior_features(a: str, b: str, cosine: float, overlap: float) -> dict[str, float]:
    """What is known of two texts before they are read."""
    left, right = set(_FIGURE.findall(a)), set(_FIGURE.findall(b))
    return {
        "cosine": cosine,
        "overlap": overlap,
        "cosine²": cosine * cosine,
        "other figures": float(bool(left - right and right - left)),
        "figures in one only": float(bool(left) != bool(right)),
        "length": math.log(max(1, min(len(a), len(b)))),
        "length ratio": _length_ratio(a, b),
    }


def prior_log_odds(a: str, b: str, cosine: float, overlap: float) -> float:
    """The log odds that two statements contradict each other, before they are read."""
    return _weighted(PRIOR_WEIGHTS, prior_features(a, b, cosine, overlap))


def pair_features(a: str, b: str, cosine: float, agreements: Sequence[Agreement]) -> dict[str, float]:
    """What tells whether two texts with a difference, which the reader calls contradictory, are about the same thing."""
    first, second, best = parse_sentence(a), parse_sentence(b), best_agreement(agreements)
    return {
        "agreeing": log_odds(best.entailed),
        "agreeing contradicted": log_odds(best.contradicted),
        "aligned": max(_aligned_share(first, second), _aligned_share(second, first)),
        "cosine": cosine,
        "length ratio": _length_ratio(a, b),
        "names as subjects": float(best.difference.kind == "name" and _is_in_subjects(a, b, best.difference)),
        "other years and more": float(_has_other_years(a, b)),
    }


def contradiction_log_odds(a: str, b: str, cosine: float, agreements: Sequence[Agreement]) -> float:
    """The log odds that two statements with a difference contradict each other, after all readings."""
    return _weighted(PAIR_WEIGHTS, pair_features(a, b, cosine, agreements))


def _weighted(weights: Mapping[str, float], values: Mapping[str, float]) -> float:
    return weights["bias"] + sum(weights[name] * value for name, value in values.items())


def _length_ratio(a: str, b: str) -> float:
    """The log of how many times longer one text is than the other."""
    return math.log(max(len(a), len(b), 1) / max(1, min(len(a), len(b))))


def _aligned_share(sentence: ParsedSentence, other: ParsedSentence) -> float:
    """The share of a sentence's telling words that have a counterpart in another."""
    return 1 - len(missing_words(sentence, other)) / max(1, sum(not word.soft for word in sentence.words))


def _is_in_subjects(a: str, b: str, difference: StatementDifference) -> bool:
    """Whether a difference is in the subjects of both statements: then they may be about two things."""
    if detect_language(a) not in PARSED_LANGUAGES:
        return False
    for text, span in ((a, difference.first), (b, difference.second)):
        sentence, words = parse_sentence(text), set(re.findall(r"\w+", text[slice(*span)].lower()))
        subject = [sentence.words[i] for clause in sentence.clauses[:1] for i in clause.subject]
        if not any(word.text in words and word.before != "by" and not word.soft for word in subject):
            return False
    return True


def _has_other_years(a: str, b: str) -> bool:
    """Whether both texts have a year that the other lacks, and another figure besides: then they may be about two times."""
    years = set(_YEAR.findall(a)), set(_YEAR.findall(b))
    return bool(years[0] - years[1] and years[1] - years[0]) and min(map(len, other_figures(a, b))) > 1
