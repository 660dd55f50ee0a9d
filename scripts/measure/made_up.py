"""Documents of any number that a fixed seed makes up, for measuring how indexing grows: texts, chunks, and what would be found in them.

Names are made of syllables, surnames and words drawn by Zipf's law, two thirds of a chunk's names from its document's own circle and the
others from everybody; a person stands in full, with Mr., by surname or by initial; companies with and without their form.
"""

import math
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from localrag.records import Chunk, Document, ExtractedEntity, ExtractedRelationship, Extraction, content_id

Made = tuple[Document, list[Chunk], list[Extraction]]  # a document, its chunks, and what is found in each

ENTITIES = 2  # for each chunk
PER_DOCUMENT = 20
PAIRS = 5  # sentences of a chunk with two names each
KINDS = ("Company", "Institute", "Society", "Bank", "Union", "Museum", "Council", "Society")


def words(n: int, rng: np.random.Generator) -> list[str]:
    """`n` different capitalised words of syllables, which no dictionary has."""
    heads, vowels, tails = (
        "b br d dr f g gr h j k kr l m n p r s sk st t tr v".split(),
        "a e i o u au ei".split(),
        "l n r s t ck ld rn sk".split(),
    )
    found: dict[str, None] = {}
    while len(found) < n:
        syllables = ("".join((str(rng.choice(heads)), str(rng.choice(vowels)))) for _ in range(int(rng.integers(2, 4))))
        found["".join((*syllables, str(rng.choice(tails)))).capitalize()] = None
    return list(found)


@lru_cache(8)
def _sums(n: int) -> Any:
    return np.cumsum(1 / np.arange(1, n + 1))


def zipf(n: int, size: int, rng: np.random.Generator) -> Any:
    """`size` numbers below `n`, the k-th as likely as 1 / k."""
    total = _sums(n)
    return np.searchsorted(total, rng.random(size) * total[-1]).clip(0, n - 1)


def make_names(n: int, rng: np.random.Generator) -> list[tuple[str, str]]:
    """`n` different names with their types: six of ten are people's, three organisations', one a place's."""
    surnames, given, places = words(max(50, n // 10), rng), words(400, rng), words(n // 10 + 1, rng)
    found: dict[str, str] = {}
    at = iter(zipf(len(surnames), 4 * n, rng).tolist())
    while len(found) < n:
        kind, surname = len(found) % 10, surnames[next(at)]
        first, second, place = (some[int(rng.integers(len(some)))] for some in (given, given, places))
        if kind < 6:
            found.setdefault(f"{first} {surname}" if kind < 4 else f"{first} {second} {surname}", "person")
        elif kind < 9:
            head = KINDS[int(rng.integers(len(KINDS)))]
            found.setdefault(f"{head} of {surname} {place}" if kind < 8 else f"{surname} {place} Company", "organization")
        else:
            found.setdefault(f"{place} {second}", "place")
    return list(found.items())


def written(name: str, kind: str, luck: float) -> str:
    """A name as a text might have it: in full, or as one of its variants."""
    parts = name.split()
    if kind == "person":
        variants = (f"Mr. {parts[-1]}", parts[-1], f"{parts[0][0]}. {parts[-1]}")
        return name if luck < 0.7 else variants[int((luck - 0.7) * 9.99)]
    return name.removesuffix(" Company") if kind == "organization" and luck > 0.9 else name


def vocabulary() -> tuple[list[str], list[str]]:
    """English nouns and past tenses, of the dictionary that finding names uses."""
    import textblob.en

    textblob.en.lexicon.load()
    tagged = [(w, t) for w, t in textblob.en.lexicon.items() if w.isalpha() and w.islower() and w.isascii() and len(w) > 3]
    return [w for w, t in tagged if t == "NN"], [w for w, t in tagged if t == "VBD"]


def make_documents(n: int) -> Iterator[Made]:
    """Documents of `n` chunks in all, one after the other; the same number gives the same ones."""
    rng = np.random.default_rng(7)
    names = make_names(ENTITIES * n, rng)
    nouns, verbs = vocabulary()
    circle = 2 * PER_DOCUMENT * PAIRS  # names a document has to itself, so that every entity is mentioned
    for d, first in enumerate(range(0, n, PER_DOCUMENT)):
        size = min(PER_DOCUMENT, n - first)
        own = (d * len(names) // math.ceil(n / PER_DOCUMENT) + np.arange(circle // 4)) % len(names)
        drawn = np.where(
            rng.random((size, 2 * PAIRS)) < 0.67,
            own[zipf(len(own), size * 2 * PAIRS, rng)].reshape(size, -1),
            zipf(len(names), size * 2 * PAIRS, rng).reshape(size, -1),
        )
        flat = drawn.reshape(-1)
        flat[rng.permutation(len(flat))[: len(own)]] = own[: len(flat)]
        at, key = 0, content_id("document", d)  # hashes, as those of real ones: rows come in no order
        chunks, extractions = list[Chunk](), list[Extraction]()
        for k in range(size):
            people = list(
                dict.fromkeys((written(*names[i], luck), names[i][1]) for i, luck in zip(drawn[k], rng.random(2 * PAIRS), strict=True))
            )
            text = make_text(people, nouns, verbs, rng, defined=k == 0)
            chunk = Chunk(content_id("chunk", first + k), key, k, at, at + len(text), text, len(text) // 4)
            chunks.append(chunk)
            at += len(text)
            extractions.append(make_extraction(chunk, people))
        whole = "".join(c.text for c in chunks)
        yield Document(key, f"notes/d{d:06}.txt", f"Notes {d}", whole, str(d)), chunks, extractions


def make_text(people: list[tuple[str, str]], nouns: list[str], verbs: list[str], rng: np.random.Generator, *, defined: bool) -> str:
    """Sentences of two names each with one without between them; `defined`: one says in brackets how an organisation is abbreviated."""
    thing, deed = iter(zipf(len(nouns), 60, rng).tolist()), iter(zipf(len(verbs), 30, rng).tolist())
    lines = []
    for (a, _), (b, _) in zip(people[::2], [*people[1::2], people[0]], strict=False):
        lines.append(f"{a} {verbs[next(deed)]} {b} about the {nouns[next(thing)]} of the {nouns[next(thing)]}.")
        lines.append(f"It was a {nouns[next(thing)]} that nobody {verbs[next(deed)]} in the {nouns[next(thing)]}.")
    long = next((name for name, kind in people if kind == "organization"), "")
    if defined and long:
        lines.append(f"The {long} ({acronym(long)}) met again.")
        people.append((acronym(long), "organization"))
    return " ".join(lines) + "\n\n"


def acronym(name: str) -> str:
    """The capitals of a name."""
    return "".join(c for c in name if c.isupper())


def make_extraction(chunk: Chunk, people: list[tuple[str, str]]) -> Extraction:
    """What would be found in the chunk: its names, related where they share a sentence or stand in adjacent ones."""
    found = list(dict(people).items())
    named = [n for n, _ in found][: 2 * PAIRS]
    pairs = [*pairwise(named), *([(named[0], named[2])] if len(named) > 2 else [])]
    related = tuple(ExtractedRelationship(a, b) for a, b in pairs if a not in b and b not in a)
    return Extraction(chunk.id, tuple(ExtractedEntity(n, t) for n, t in found), related, by="phrases")
