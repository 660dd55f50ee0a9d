"""What a group of sentences is about, as a stretch of one of them: the title of an extractive report ("The wreck of the Marian Dace").

Nothing is written: small models invent here. Asked for free titles, the bundled one put a person of the prompt's example into one of the
six shown for the demo corpus.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
from math import log

from localrag.index.extraction.names.noise import is_noise
from localrag.text.plain import CJK, FUNCTION_WORDS, Span, cjk_bigrams, enumeration, is_cjk
from localrag.text.words import VAGUE, chinese_words, english_words, is_english

NAMES = 3  # in a title where no sentence has a fitting stretch
LOOKED_AT = 24  # sentences of a group that stretches are taken from: those with most of what stands out
SHORTEST, LONGEST = 3, 8  # words of a title
_WORD = re.compile(rf"[^\W\d_{CJK}]{{3,}}")
_GAP = re.compile(r"[ -]| & |['’](?=s\b)")  # between the words of a title
NAMED, RELATED = 1.5, 1.3  # what a title that has a name of the group counts, and one with a preposition
ONCE = 0.2  # what a word counts that only one sentence of the group has
LINKED = 3  # noun phrases that prepositions join in a title
_EMPTY = VAGUE | frozenset(  # nouns that head no title
    """
    home state period sight opinion subject possession atmosphere pair kinds list air glimpse copy rest range sum deal tons length
    piece pieces amount set sets group groups man men woman women person people copies shame
    """.split()
)
_VERBAL = re.compile(r" (?:the|an?|its?|his|her|him|their|them|my|me|our|us|your|you)\b")  # after a verb that was taken for a noun
_LINKS = frozenset("of in for on at with against between".split())
_RELATION = re.compile(rf" (?:{'|'.join(sorted(_LINKS))}) |[的之]")
_NOUNS = re.compile(r"D?[JN]*N(?:S[JN]*N)*")  # over the codes of words, see `_coded`
_ARTICLE = re.compile(r"an? ", re.IGNORECASE)


class Topics:
    """The vocabulary of a corpus, against which a group of sentences stands out."""

    def __init__(self, counts: Callable[[Collection[str]], Mapping[str, int]], total: int) -> None:
        """`counts`: words → in how many of the `total` sentences each is, of those in more than one."""
        self._counts, self.total = counts, total

    @classmethod
    def of(cls, texts: Iterable[str]) -> "Topics":
        """Of all sentences, Chinese by character pairs."""
        every = [set(words_of(text)) for text in dict.fromkeys(texts)]
        counts = Counter(word for words in every for word in words)
        return cls(lambda words: {w: counts[w] for w in words if counts[w] > 1}, len(every))

    def known(self, texts: Iterable[str]) -> Mapping[str, int]:
        """The words of texts, as far as they are in several sentences: in how many."""
        return self._counts(frozenset().union(*map(_words, texts)))

    def phrase(self, texts: Sequence[str], names: Collection[str]) -> str:
        """The stretch of one of `texts` that has most of what stands out in them all, fit to be a title; empty where none is."""
        same = [t for t in dict.fromkeys(texts) if is_cjk(t) == (2 * sum(map(is_cjk, texts)) > len(texts))]
        said = [_words(t) for t in same]
        here = Counter(word for words in said for word in words)
        everywhere = self._counts(here)
        worth = {word: self._stands_out(n, len(same), everywhere.get(word, 0)) for word, n in here.items()}
        weight = [sum(sorted(worth[word] for word in words)) for words in said]
        looked_at = sorted(range(len(same)), key=lambda n: -weight[n])[:LOOKED_AT]
        found = {p: self._worth(p, worth) * _form(p, names) for n in looked_at for p in phrases(same[n])}
        best = max(found, key=lambda phrase: found[phrase], default="")
        return best if best and found[best] > 0 else ""

    def _stands_out(self, here: int, of: int, everywhere: int) -> float:
        """How much more often a word is in the sentences of a group than in all, by its rarity (tf-idf); one that is new counts as here."""
        known = max(everywhere, here)
        if known < 2:  # what one sentence alone has says nothing
            return 0.0
        rarity = log((1 + self.total) / (1 + known)) + 1
        return rarity * max(here / of - known / max(1, self.total), 0.0) * (1 if here >= min(2, of) else ONCE)

    def _worth(self, phrase: str, worth: Mapping[str, float]) -> float:
        return sum(sorted(worth.get(word, 0.0) for word in set(words_of(phrase))))


def words_of(text: str) -> list[str]:
    """The words of a text that may say what it is about, in lower case; of Chinese its character pairs."""
    return [w for w in _WORD.findall(text.lower()) if w not in FUNCTION_WORDS and not is_noise(w)] + cjk_bigrams(text).split()


@lru_cache(maxsize=32_768)  # as of `phrases`
def _words(text: str) -> frozenset[str]:
    return frozenset(words_of(text))


def _form(phrase: str, names: Collection[str]) -> float:
    """How readable a stretch is as a title: short, naming a thing, and saying how things hang together."""
    size = len(phrase) / 2 if is_cjk(phrase) else len(phrase.split())
    worth = NAMED if any(name in phrase for name in names) else 1.0
    return worth * (RELATED if _RELATION.search(phrase) else 1.0) / (8 + size)


@lru_cache(maxsize=32_768)  # a community's sentences are those of the ones above it too
def phrases(text: str) -> tuple[str, ...]:
    """The stretches of a sentence that could be a title: a noun with what is said of it ("quota on herring landings", 皇帝的儿子)."""
    found = _chinese(text) if is_cjk(text) else _english(text) if is_english(text) else ()
    return tuple(dict.fromkeys(found))


def _english(text: str) -> Iterator[str]:
    spans, codes = _coded(text, english_words(text))
    groups = [Span(*m.span()) for m in _NOUNS.finditer(codes) if text[slice(*spans[m.end() - 1])].lower() not in _EMPTY]
    for n, group in enumerate(groups):
        end = group.end
        for other in [group, *groups[n + 1 : n + LINKED]]:
            if other is not group and not (other.start == end + 1 and codes[end] == "O"):
                break
            end = other.end
            if _VERBAL.match(text, spans[end - 1].end):
                continue
            phrase = text[spans[group.start].start : spans[end - 1].end]
            phrase = phrase[len(article[0]) :] if (article := _ARTICLE.match(phrase)) else phrase
            if SHORTEST <= len(phrase.split()) <= LONGEST and not phrase.isupper():
                yield phrase


def _coded(text: str, words: Iterable[tuple[Span, str]]) -> tuple[list[Span], str]:
    """The words, and a letter for each: Noun, adJective, Determiner, 'S, link Of, "-" for what is in no title or is a gap."""
    spans, codes = [Span(0, 0)], "-"
    for span, tag in words:
        word = text[span.start : span.end].lower()
        if not _GAP.fullmatch(text, spans[-1].end, span.start):
            spans.append(Span(span.start, span.start))
            codes += "-"
        spans.append(span)
        codes += "S" if word == "s" and text[span.start - 1] in "'’" else _code(word, tag, codes[-1])
    return spans, codes


def _code(word: str, tag: str, before: str) -> str:
    if word in FUNCTION_WORDS or len(word) == 1 or "--" in word:
        return "D" if word in {"the", "a", "an"} else "O" if word in _LINKS else "-"
    if tag.startswith("NN"):
        return "N"
    return "J" if tag.startswith("JJ") or (tag in {"VBN", "VBG"} and before in "DSJ") else "-"


_CHINESE = re.compile(r"(?:V?[JN])++D[JN]*N|[JN]+N")
_LIGHT = frozenset("是 作为 算是 成为 称为 看着 有 时候 地方 家伙 东西 人 时 命 事情 样子".split())  # begin or end no title
_CHINESE_CODES = {"n": "N", "a": "J", "b": "J", "v": "V"}


def _chinese(text: str) -> Iterator[str]:
    words = list(chinese_words(text))
    starts = list(accumulate((len(word) for word, _ in words), initial=0))
    codes = "".join("D" if word in {"的", "之"} else _CHINESE_CODES.get(flag[:1], "-") for word, flag in words)
    for match in _CHINESE.finditer(codes):
        start, end = starts[match.start()], starts[match.end()]
        if words[match.start()][0] in _LIGHT or words[match.end() - 1][0] in _LIGHT:
            continue
        if 4 <= end - start <= 16:
            yield text[start:end]


def title(names: Sequence[str], phrase: str) -> str:
    """`The wreck of the Marian Dace`, else `Magnus Ostler and Hugh Dunmore`."""
    return phrase[:1].upper() + phrase[1:] if phrase else enumeration(names[:NAMES])
