"""Which words of a Chinese source answer to a word of a claim: without spaces, by the characters as much as by the words."""

import re
from functools import lru_cache

from localrag.query.reading.lexicon import chinese_words_known, opposed, synonyms_of
from localrag.query.reading.particles import FUNCTION, STOP
from localrag.query.reading.record import Reading, Word


@lru_cache(maxsize=20_000)
def _ways(word: str) -> tuple[str, ...]:
    """A word and what may stand for it in a source, longest first."""
    return tuple(sorted({word, *synonyms_of(word, "zh")}, key=len, reverse=True))


def counterparts(word: Word, source: Reading, starts: dict[int, tuple[int, int]]) -> tuple[dict[int, int], set[int]]:
    """The words of the source that answer to a word of a claim (with how closely), and those that say the opposite."""
    alike = _written(word, source, starts)
    opposite = set()
    for j, other in enumerate(source.words):
        if j in alike or other.kind != "word":
            continue
        if opposed(word.keys, other.keys, "zh"):
            opposite.add(j)
        elif word.kind == "word" and (word.keys & other.keys or _contains(word, other)):
            alike[j] = 2
    return alike or ({} if opposite else _resembling(word, source, starts)), opposite


def _written(word: Word, source: Reading, starts: dict[int, tuple[int, int]]) -> dict[int, int]:
    """Where the word stands in the source, or one that means the same."""
    alike: dict[int, int] = {}
    for way in _ways(word.text) if word.kind == "word" else (word.text,):
        for m in re.finditer(re.escape(way), source.text):
            for j, (a, b) in starts.items():
                if a < m.end() and m.start() < b and not (len(way) == 1 and b - a > 1 and way != word.text):
                    alike[j] = max(alike.get(j, 0), 3 if way == word.text else 2)
            if m.span() in source.particles and not alike:
                alike[_nearest(m.start(), starts)] = 2
    return alike


def _resembling(word: Word, source: Reading, starts: dict[int, tuple[int, int]]) -> dict[int, int]:
    """Words that share characters with a word that stands nowhere in the source."""
    found = {j: 2 for j, other in enumerate(source.words) if _composed(word.text, other.text)}
    found = found or {j: 2 for j, other in enumerate(source.words) if _kindred(word, other)} or _spread(word, source, starts)
    return found or (_pieces(word, source, starts) if len(word.text) > 1 and word.kind == "word" else {})


def _nearest(at: int, starts: dict[int, tuple[int, int]]) -> int:
    """The word nearest to a place where a particle stands that says the same: 仍 for 继续."""
    return min(starts, key=lambda j: abs(starts[j][0] - at), default=0)


def _composed(a: str, b: str) -> bool:
    """Two words of two characters that share one, the others meaning the same: 喝酒 and 饮酒."""
    if len(a) != 2 or len(b) != 2:
        return False
    return any(a[i] == b[i] and a[1 - i] != b[1 - i] and b[1 - i] in synonyms_of(a[1 - i], "zh") for i in (0, 1))


def _kindred(word: Word, other: Word) -> bool:
    """Verbs and the like that share a character (焚烧, 烧掉); nouns of which one is the other with something before or behind it."""
    if "word" not in (word.kind, other.kind) or "number" in (word.kind, other.kind) or word.when or other.when:
        return False
    short, long = sorted((word.text, other.text), key=len)
    if word.role == other.role == "noun":
        return len(short) < len(long) and len(long) < 5 and (long.startswith(short) or long.endswith(short)) and short not in _VAGUE
    if word.text in chinese_words_known() and not word.text.startswith(other.text):
        return False  # what means the same is in the tables
    shared = set(word.text) & set(other.text) - set(_VAGUE) - LINKS - FUNCTION
    apart = (frozenset(set(word.text) - shared), frozenset(set(other.text) - shared))
    return bool(shared) and len(long) < 4 and not opposed(*apart, "zh")


def _spread(word: Word, source: Reading, starts: dict[int, tuple[int, int]]) -> dict[int, int]:
    """A word whose characters stand in this order close together in the source: 降血压 in 降低血压."""
    if len(word.text) < 2 or word.kind == "number" or word.when:
        return {}
    start, end = _close_together(word.text, source.text)
    if start == end or any(c in source.text[start:end] for c in STOP):
        return {}
    return {j: 2 for j, (a, b) in starts.items() if a < end and start < b}


def _close_together(word: str, text: str) -> tuple[int, int]:
    """The first range of the text that has the characters of a word in order, at most two others between them; (0, 0) if there is none."""
    begun = -1  # bit set of where the rest of the word may begin. A regular expression would try the same places again and again.
    for c in reversed(word):
        begun = int("".join("01"[t == c] for t in reversed(text)) or "0", 2) & (begun >> 1 | begun >> 2 | begun >> 3)
    if not begun:
        return 0, 0
    start = (begun & -begun).bit_length() - 1
    ends = {start + 1}
    for c in word[1:]:
        ends = {n + 1 for end in ends for n in range(end, min(end + 3, len(text))) if text[n] == c}
    return start, min(ends)


def _contains(word: Word, other: Word) -> bool:
    """A verb of two characters and one of them alone: 购买 and 买."""
    short, long = sorted((word.text, other.text), key=len)
    return len(short) == 1 and len(long) == 2 and short in long and short not in FUNCTION and short not in _VAGUE


_VAGUE = frozenset("大小多少高低长短上下前后新老南北东西男女省市县年月日人有无心力气水火山")


LINKS = frozenset("的了着过在于和与已要还就也之再又才都会能将被把从到向对所以为很更")


def _pieces(word: Word, source: Reading, starts: dict[int, tuple[int, int]]) -> dict[int, int]:
    """A long word that stands in the source in pieces: of two characters or more, or single words of it, particles aside."""
    single = {source.text[a:b] for a, b in starts.values() if b - a == 1}
    found: dict[int, int] = {}
    at = 0
    text = word.text
    while at < len(text):
        for end in range(len(text), at, -1):
            piece = text[at:end]
            if (len(piece) > 1 and piece in source.text and end - at < len(text)) or piece in single:
                place = source.text.find(piece)
                found |= {j: 2 for j, (a, b) in starts.items() if a < place + len(piece) and place < b}
                at = end
                break
            if piece in LINKS:
                at = end
                break
        else:
            return {}
    return found
