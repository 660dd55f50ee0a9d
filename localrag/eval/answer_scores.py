"""Scores of answers against gold answers and gold evidence."""

import re
import string
from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Any

from localrag.eval.qa_sets import Span
from localrag.query.answering.verify import SUPPORT, support
from localrag.records import Quote
from localrag.text.plain import CJK, chunk_sentences, squeeze
from localrag.text.quotes import Embed

_TOKEN = re.compile(rf"[{CJK}]|[^\W_]+")
_MARKS = re.compile(r"\s*(?:≠ “[^\n]*?” (?=\[contradicted\]))?\[(?:\d+|unsupported|related|contradicted)\]")
_TITLE = re.compile(r"^\*\*.*\*\*$", re.MULTILINE)


def plain(answer: str) -> str:
    """An answer without citation marks and titles: what is compared."""
    return squeeze(_TITLE.sub("", without_marks(answer)))


def without_marks(answer: str) -> str:
    """An answer without the numbers of its citations."""
    return _MARKS.sub("", answer)


def cited_sentences(answer: str) -> int:
    """How many stretches of an answer cite something or are marked as unsupported."""
    return sum("[" in p for p in answer.split("\n\n"))


def exact_match(answer: str, gold: Sequence[str]) -> float:
    """1 where the answer is one of the gold answers up to case, punctuation and articles (SQuAD, Rajpurkar et al. 2016)."""
    return float(any(_words(answer) == _words(g) for g in gold))


def word_f1(answer: str, gold: Sequence[str]) -> float:
    """The best F1 of the answer's words against a gold answer's, normalised as for `exact_match`; Chinese by character."""
    return max((_f1(_words(answer), _words(g)) for g in gold), default=0.0)


def stands_in(quotes: Sequence[str], gold: Sequence[str]) -> float | None:
    """1 where a gold answer stands in one of the quotes, word for word as for `exact_match`; None where all are yes or no."""
    wanted = [g for g in gold if _words(g) not in ([], ["yes"], ["no"])]
    if not wanted:
        return None
    held = [f" {' '.join(_words(q))} " for q in quotes]
    return float(any(f" {' '.join(_words(g))} " in h for g in wanted for h in held))


def rouge(answer: str, gold: Sequence[str]) -> dict[str, float]:
    """F-measures of ROUGE-1, -2 and -L (Lin 2004), the best over the gold answers; words are stemmed, Chinese is counted by character."""
    scores = _scorer().score_multi(list(gold), answer)
    return {name: float(scores[key].fmeasure) for name, key in (("R-1", "rouge1"), ("R-2", "rouge2"), ("R-L", "rougeL"))}


def evidence_recall(evidence: Sequence[Span | str], passages: Sequence[tuple[str, Quote]], embed: Embed) -> float | None:
    """The share of gold evidence that passages (file name, quote) hold; None without gold evidence.

    A place counts if any passage overlaps it; a statement if a sentence of the passages is near enough to it (`verify.SUPPORT`).
    """
    if not evidence:
        return None
    places = [e for e in evidence if isinstance(e, Span)]
    held = sum(any(_overlap(e, name, q) for name, q in passages) for e in places)
    statements = [e for e in evidence if isinstance(e, str)]
    sentences = list({squeeze(q.text[a:b]) for _, q in passages for a, b in chunk_sentences(q.text)}) if statements else []
    if sentences:
        held += int((support(statements, sentences, embed).max(axis=1) >= SUPPORT).sum())
    return held / len(evidence)


def _overlap(gold: Span, name: str, quote: Quote) -> bool:
    return name == gold.document and (not gold.end or (quote.start < gold.end and gold.start < quote.end))


def _words(text: str) -> list[str]:
    spaced = re.sub(f"([{CJK}])", r" \1 ", text.lower())
    bare = "".join(" " if c in "-–—" else c for c in spaced if c not in string.punctuation or c in "-")
    return [w for w in bare.split() if w not in ("a", "an", "the")]


def _f1(said: list[str], gold: list[str]) -> float:
    common = sum((Counter(said) & Counter(gold)).values())
    return 2 * common / (len(said) + len(gold)) if common else float(said == gold)


class _Words:
    """ROUGE's words: stemmed as by Porter, Chinese characters one by one."""

    def __init__(self) -> None:
        from nltk.stem.porter import PorterStemmer

        self._stem = PorterStemmer().stem

    def tokenize(self, text: str) -> list[str]:
        """The words of a text."""
        return [self._stem(w) if len(w) > 3 and w.isascii() else w for w in _TOKEN.findall(text.lower())]


@cache
def _scorer() -> Any:
    from rouge_score.rouge_scorer import RougeScorer

    return RougeScorer(["rouge1", "rouge2", "rougeL"], tokenizer=_Words())
