"""How far the words and numbers of a list request are met by a text or a record, with negation."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from localrag.analysis.list_request import (
    ListRequest,
    NumberComparison,
    RequestWord,
    likeness,
    number_of,
    split_request_words,
)
from localrag.analysis.text_records import Cells

LABEL_SHARE = 0.5  # of a word that only the label of a cell has
CONTEXT_SHARE = 0.7  # of a word that only a heading, the title or the path has
MIN_LIKENESS = 0.8
MIN_COLUMN_LEAD = 0.4  # of the score of the column that a word is meant of
TRUE_VALUES = frozenset("yes true y x ja wahr oui vrai sí si verdadero sim vero да 是 有 ✓ ✔ ☑ [x]".split())
FALSE_VALUES = frozenset("0 no false n nein falsch non faux falso não nee нет 否 无 没有 ✗ ✘ ☐ [ ] none nil".split())
_NUMBER = re.compile(r"(?<![\w.,])[-+]?\d{1,3}(?:[,' ]\d{3})+(?:\.\d+)?(?![\d])|(?<![\w.,])[-+]?\d+(?:[.,]\d+)?")
_PLAIN_NUMBER = re.compile(r"[-+]?[\d.,']+")
_YEAR = re.compile(r"(?<!\d)(?:1\d{3}|20\d{2})(?!\d)")


@dataclass(frozen=True, slots=True)
class WordHit:
    """How far a text has a word, 0 to 1; `is_opposed`: it says the opposite; `label`: that of the cell, empty in prose.

    `fullness`: the share of the value that is the word.
    """

    share: float = 0.0
    is_opposed: bool = False
    label: str = ""
    fullness: float = 0.0


NO_HIT = WordHit()


def hits_in(words: Sequence[RequestWord], cells: Cells, context: str = "", columns: Sequence[str | None] = ()) -> list[WordHit]:
    """For each word the best hit in the cells of a record, or in a sentence, which is a cell without a label; else in its context.

    `columns`: for each word the label of the only column that counts; None for any.
    """
    return [_hit_in(word, cells, context, label) for word, label in zip(words, columns or [None] * len(words), strict=True)]


def _hit_in(word: RequestWord, cells: Cells, context: str, column: str | None) -> WordHit:
    best = NO_HIT
    for label, value in cells:
        if column is not None and label != column:
            continue
        share, is_opposed, fullness = _value_hit(word, value)
        if label and share < 1.0 and (in_label := _label_hit(word.text, label)) > share:
            boolean = _boolean(value)
            share, fullness = (in_label, float(not is_number(value))) if boolean is not None else (LABEL_SHARE * in_label, 0.0)
            is_opposed = boolean is not None and boolean is word.is_negated
        if share > best.share:
            best = WordHit(share, is_opposed, label, fullness)
    if not best.share and context and _label_hit(word.text, context):
        return WordHit(CONTEXT_SHARE)
    return best


def meant_columns(words: Sequence[RequestWord], hits: Sequence[Sequence[WordHit]]) -> list[str | None]:
    """For each word the label of the column that it is meant of; None if that is not sure. `hits`: of each record.

    "Bergen" in "built in Bergen" is meant of the column "Builder", whose label another word has, or of a column whose whole value it is,
    and not of remarks that mention it.
    """
    return [_meant_column(n, words, hits) for n in range(len(words))]


def _meant_column(n: int, words: Sequence[RequestWord], hits: Sequence[Sequence[WordHit]]) -> str | None:
    fullness: dict[str, list[float]] = {}
    for hit in (record[n] for record in hits):
        if hit.label and hit.fullness:
            fullness.setdefault(hit.label, []).append(hit.fullness)
    if len(fullness) < 2:
        return None
    others = [word.text for m, word in enumerate(words) if m != n]
    score = {label: sum(f) / len(f) + any(_label_hit(o, label) >= MIN_LIKENESS for o in others) for label, f in fullness.items()}
    best, second = sorted(score, key=lambda label: -score[label])[:2]
    return best if score[best] - score[second] >= MIN_COLUMN_LEAD else None


def _boolean(value: str) -> bool | None:
    """Whether a value says yes or no, as a number does that is not 0 or is; None for any other."""
    folded = value.strip().casefold()
    if folded in FALSE_VALUES:
        return False
    return True if folded in TRUE_VALUES or is_number(folded) else None


def is_number(value: str) -> bool:
    """Whether a value is a number and nothing else."""
    return bool(_PLAIN_NUMBER.fullmatch(value.strip()))


@lru_cache(maxsize=200_000)
def _value_hit(word: RequestWord, value: str) -> tuple[float, bool, float]:
    """How far a value has a word, whether with the opposite sense, and what share of it is the word; an unopposed hit counts first."""
    tokens = list(split_request_words(value))
    best, is_opposed = 0.0, False
    for token in tokens:
        like = likeness(word.text, token.text)
        opposed = token.is_negated is not word.is_negated
        if like and (like, not opposed) > (best, not is_opposed):
            best, is_opposed = like, opposed
    return best, is_opposed and best > 0, 1 / len(tokens) if best else 0.0


@lru_cache(maxsize=50_000)
def _label_hit(word: str, label: str) -> float:
    return max((likeness(word, token.text) for token in split_request_words(label)), default=0.0)


def is_about(head: str, text: str) -> bool:
    """Whether a label, heading or path has the noun that is asked for."""
    return bool(head) and _label_hit(head, text) >= MIN_LIKENESS


# Comparisons


def compared_labels(request: ListRequest, labels: Sequence[str], samples: Sequence[Cells], *, is_about: bool) -> list[str | None]:
    """For each comparison of a request the label of the column whose numbers are compared; None if no column is meant.

    `is_about`: the table is about what is asked for, so that a year may be compared with its only column of years.
    """
    return [_compared_label(c, request, labels, samples, is_about=is_about or request.language != "en") for c in request.comparisons]


def _compared_label(
    comparison: NumberComparison, request: ListRequest, labels: Sequence[str], samples: Sequence[Cells], *, is_about: bool
) -> str | None:
    words = (*comparison.words, *(w.text for w in request.words))

    def named(known: Sequence[str]) -> str | None:
        return next((label for word in words for label in known if _label_hit(word, label) >= MIN_LIKENESS), None)

    numeric = [label for label in labels if _has_numbers(label, samples)]
    dated = [label for label in labels if _has_numbers(label, samples, is_year=True)] if comparison.is_year else []
    whole = [label for label in dated if is_about and _has_numbers(label, samples, is_year=True, is_whole=True)]
    return named(dated) or (whole[0] if len(whole) == 1 else named(numeric))


def _has_numbers(label: str, samples: Sequence[Cells], *, is_year: bool = False, is_whole: bool = False) -> bool:
    """Whether most values of a column have a number, or a year; `is_whole`: and no words."""
    values = [value for cells in samples for name, value in cells if name == label]
    pattern = _YEAR if is_year else _NUMBER
    fitting = sum(bool(pattern.search(v)) and not (is_whole and any(map(str.isalpha, v))) for v in values)
    return bool(values) and 2 * fitting > len(values)


def meets(comparison: NumberComparison, value: str) -> bool | None:
    """Whether the number in a value is within the bounds; None without a number."""
    is_date = comparison.is_year and not is_number(value)
    found = (_YEAR if is_date else _NUMBER).search(value)
    return None if found is None else comparison.low <= number_of(found[0]) <= comparison.high
