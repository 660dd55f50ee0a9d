"""Words that mean the same and words that exclude each other: tables in words/*.txt, one group a line."""

from collections import defaultdict
from functools import cache, lru_cache
from pathlib import Path

_WORDS = Path(__file__).parent / "words"


@cache
def _synonyms(language: str) -> dict[str, frozenset[int]]:
    found: defaultdict[str, set[int]] = defaultdict(set)
    for n, line in enumerate((_WORDS / f"synonyms.{language}.txt").read_text(encoding="utf-8").splitlines()):
        for word in line.split():
            found[word].add(n)
    return {word: frozenset(groups) for word, groups in found.items()}


@cache
def _sides(table: str) -> dict[str, frozenset[tuple[int, int]]]:
    """Word → (line, side) of every pair it stands in."""
    found: defaultdict[str, set[tuple[int, int]]] = defaultdict(set)
    for n, line in enumerate((_WORDS / f"{table}.txt").read_text(encoding="utf-8").splitlines()):
        for side, words in enumerate(line.split("|")):
            for word in words.split():
                found[word].add((n, side))
    return {word: frozenset(places) for word, places in found.items()}


@lru_cache(maxsize=50_000)
def synonymous(a: frozenset[str], b: frozenset[str], language: str) -> bool:
    """Whether two words, each given by its dictionary forms, stand in one group."""
    table = _synonyms(language)
    mine = {g for k in a for g in table.get(k, ())}
    return bool(mine) and any(not mine.isdisjoint(table.get(k, ())) for k in b)


@lru_cache(maxsize=50_000)
def synonyms_of(word: str, language: str) -> frozenset[str]:
    """Every word that shares a group with this one."""
    groups = _synonyms(language).get(word, frozenset())
    return frozenset(w for w, g in _synonyms(language).items() if not g.isdisjoint(groups)) if groups else frozenset()


@lru_cache(maxsize=50_000)
def opposed(a: frozenset[str], b: frozenset[str], language: str) -> bool:
    """Whether two words stand on the two sides of one pair; in English also where one is the other with un-, in-, dis- and the like."""
    if _across(a, b, f"antonyms.{language}"):
        return True
    return language == "en" and any(f"{p}{x}" == y or f"{p}{y}" == x for x in a for y in b for p in _PREFIXES if len(x) > 3 and len(y) > 3)


@lru_cache(maxsize=50_000)
def converse(a: frozenset[str], b: frozenset[str], language: str) -> bool:
    """Whether two words tell the same from two sides: A sold B something, B bought it from A."""
    return _across(a, b, f"converses.{language}")


def _across(a: frozenset[str], b: frozenset[str], table: str) -> bool:
    sides = _sides(table)
    mine = {(n, 1 - side) for k in a for n, side in sides.get(k, ())}
    return bool(mine) and any(not mine.isdisjoint(sides.get(k, ())) for k in b)


_PREFIXES = ("un", "in", "im", "ir", "il", "dis", "non", "non-", "mis", "de", "anti", "anti-", "ab")


@cache
def chinese_words_known() -> frozenset[str]:
    """Every Chinese word of the tables."""
    return frozenset(_synonyms("zh")) | frozenset(_sides("antonyms.zh")) | frozenset(_sides("converses.zh"))


@cache
def phrases() -> frozenset[tuple[str, ...]]:
    """English entries of several words, as tuples."""
    return frozenset(tuple(w.split("_")) for w in {*_synonyms("en"), *_sides("antonyms.en"), *_sides("converses.en")} if "_" in w)
