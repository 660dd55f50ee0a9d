"""Names → entities: which of a corpus' names are variants of one another (titles, surnames, initials, acronyms, company forms, spelling).

Rules decide what is certain and say why; what is merely similar is left open, for a large model's yes or no, or for the user. A rule
looks at one document first, where "Holm" is the one Holm it names in full, then at the whole corpus. Digits are never bridged.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Protocol

import numpy as np
from rapidfuzz import fuzz, process

from localrag.index.extraction.names.titles import EPITHETS, FEMALE, TITLES
from localrag.index.graph.spelling import COMPANY, STATES, digits, normalise, without_company, without_titles
from localrag.records import Merge
from localrag.text.words import word_tag

SIMILAR = 85.0  # of 100: names of one type whose spelling is at least so alike are left open
MOST = 200  # such pairs, the most alike first
DOMINANT = 2  # times as often as any other must a name stand to be meant by a shorter one
BLOCK = 400  # names of one block that are compared with each other: the most frequent

Node = tuple[str, str]  # document, key
Target = tuple[str, str, float]  # the key of the fuller name, the reason, how surely


@dataclass(frozen=True, slots=True)
class Name:
    """A normalised name in one document: `text` as it is mostly written there, its type by vote, how often it stands there."""

    document: str
    key: str
    text: str
    type: str
    count: int


@dataclass(frozen=True, slots=True)
class Decisions:
    """What was decided: names that are one, names that are not; by key. `by_model`: those of `same` that the user did not say."""

    same: tuple[tuple[str, str], ...] = ()
    different: frozenset[frozenset[str]] = frozenset()
    by_model: frozenset[tuple[str, str]] = frozenset()


@dataclass(slots=True)
class Resolution:
    """Which entity each name of each document belongs to (its key), the merges that led there, and the pairs left open."""

    entity_of: dict[Node, str] = field(default_factory=dict)
    merges: list[Merge] = field(default_factory=list)
    open: list[Merge] = field(default_factory=list)


def resolve_names(names: Sequence[Name], defined: Mapping[Node, tuple[str, str]], decisions: Decisions) -> Resolution:
    """Assign every name to an entity. `defined`: name of a document → the key of the one it is said to mean there, and what says so."""
    documents: defaultdict[str, dict[str, Name]] = defaultdict(dict)
    for name in names:
        documents[name.document][name.key] = name
    said: defaultdict[str, dict[str, tuple[str, str]]] = defaultdict(dict)
    for (document, key), other in defined.items():
        said[document][key] = other
    corpus = _most_frequent(names)
    everywhere = _targets(corpus, {})
    decided = decided_targets(decisions)
    found, target = Resolution(), dict[Node, Target]()
    for document, own in documents.items():
        here = {k: t for k, t in (everywhere | document_targets(own, said[document]) | decided).items() if k in own}
        target |= {(document, key): t for key, t in here.items()}
        for key in own:
            found.entity_of[document, key] = follow(key, here.get, decisions)
    found.merges = _log(found.entity_of, target, documents, corpus)
    found.open = list(_similar(corpus, found.entity_of, decisions))
    return found


def decided_targets(decisions: Decisions) -> dict[str, Target]:
    """What the user, or the model, said is another name of something."""
    why = {True: ("the model's yes", 0.8), False: ("decided by the user", 1.0)}
    return {a: (b, *why[(a, b) in decisions.by_model]) for a, b in decisions.same if a != b}


def document_targets(names: Mapping[str, Name], said: Mapping[str, tuple[str, str]]) -> dict[str, Target]:
    """The fuller names that the names of one document stand for in it."""
    return _targets(names, said, one_document=True)


def _most_frequent(names: Sequence[Name]) -> dict[str, Name]:
    best: dict[str, Name] = {}
    for name in names:
        if name.key not in best or _rank(name) > _rank(best[name.key]):
            best[name.key] = name
    return best


def _rank(name: Name) -> tuple[int, str, str]:
    """What decides which of several documents' forms of a name is the corpus': nothing that depends on their order."""
    return name.count, name.text, name.type


def follow(key: str, target: Callable[[str], Target | None], decisions: Decisions) -> str:
    """The end of a chain Mr. Holm → Holm → Lars Holm, not stepping over what the user keeps apart."""
    seen = [key]
    while (step := target(seen[-1])) is not None:
        if step[0] in seen or any(frozenset((s, step[0])) in decisions.different for s in seen):
            break
        seen.append(step[0])
    return seen[-1]


def _log(
    entity_of: Mapping[Node, str],
    target: Mapping[Node, Target],
    documents: Mapping[str, Mapping[str, Name]],
    corpus: Mapping[str, Name],
) -> list[Merge]:
    """One merge for every name and entity, with the reason of its first step."""
    log: dict[tuple[str, str], Merge] = {}
    for (document, key), entity in sorted(entity_of.items()):
        if key != entity:
            _, reason, score = target[document, key]
            into = corpus[entity].text if entity in corpus else entity
            log.setdefault((key, entity), Merge(documents[document][key].text, entity, into, reason, score))
    return list(log.values())


class Lookup(Protocol):
    """The keys of names by what the rules look for: a kind, and what is asked of it."""

    def __call__(self, *asked: str) -> Sequence[str]:
        """The keys of names that offer this."""


Names = Mapping[str, Name]


def offers(name: Name) -> Iterator[tuple[str, ...]]:
    """What a name is found by: every proper end of a person's (Anna Maria Holm by Maria Holm and by Holm), initials, company."""
    key = name.key
    words = without_titles(key).split()
    yield "company", without_company(key)
    if len(words) < 2:
        return
    yield "initials", _initials(name.text)
    yield "end", key.rsplit(" ", 1)[1]
    yield "joined", key.replace(" ", "")
    parts = key.split()
    if is_person(name) and FEMALE.isdisjoint(parts[:1]):
        for n in range(1, len(parts)):
            yield "surname", " ".join(parts[n:])
        for given in {words[0], words[0][0]}:  # given name or its initial, and surname
            yield "ends", given, words[-1]
        yield "first", words[0]


def asks(name: Name) -> set[tuple[str, ...]]:
    """All that the rules might look for on behalf of a name, in a corpus; `("key", …)` for a name itself."""
    key, core = name.key, without_titles(name.key)
    words, parts = core.split(), key.split()
    found: set[tuple[str, ...]] = {("company", without_company(key)), ("initials", name.text.replace(".", "")), ("surname", core)}
    found |= {("key", k) for k in (core, " ".join(parts[1:]), STATES.get(key, "")) if k and k != key}
    return found | ({("ends", words[0], words[-1])} if len(words) > 1 else {("first", key)})


def lookup_of(names: Iterable[Name]) -> Lookup:
    """The lookup of names that are all in memory."""
    found: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
    for name in names:
        for value in offers(name):
            found[value].append(name.key)
    return lambda *asked: found.get(asked, [])


def _targets(names: Mapping[str, Name], said: Mapping[str, tuple[str, str]], *, one_document: bool = False) -> dict[str, Target]:
    """For each key with a fuller name the one that the first rule finds which finds exactly one; the longest names first."""
    lookup = lookup_of(names.values())
    found: dict[str, Target] = {}
    for key in sorted(names, key=in_turn):
        other, why = said.get(key, ("", ""))
        if target := (other, why, 1.0) if other in names else target_of(key, names, lookup, found.get, one_document=one_document):
            found[key] = target
    return found


def in_turn(key: str) -> tuple[int, str]:
    """The order in which names get their targets: what a name leads to may have one already."""
    return -len(key), key


def target_of(
    key: str, names: Names, lookup: Lookup, found: Callable[[str], Target | None], *, one_document: bool = False
) -> Target | None:
    """The fuller name of a key: what the first rule finds which finds exactly one. `found`: the targets of names before it, in turn."""
    for reason, score, options in _options(names[key], names, lookup, one_document=one_document):
        others = {((before := found(o)) and before[0]) or o for o in options if o != key} - {key}
        if only := _only(others, names):
            return only, reason, score
    return None


def _only(keys: set[str], names: Names) -> str | None:
    """The one key, or that of several which stands at least twice as often as any other."""
    first, second = [*sorted(keys, key=lambda k: (-names[k].count, k)), "", ""][:2]
    return first if first and (not second or names[first].count >= DOMINANT * names[second].count) else None


Rules = Iterator[tuple[str, float, Iterable[str]]]  # for each rule that applies its name, how sure it is, the names it leads to


def _options(name: Name, names: Names, lookup: Lookup, *, one_document: bool) -> Rules:
    """The names that `name` may be a variant of, by rule."""
    key, words = name.key, name.key.split()
    if FEMALE.isdisjoint(words[:1]):
        yield from _person_options(name, names, lookup)
    if not COMPANY.isdisjoint(words):
        yield "company form", 0.95, [o for o in lookup("company", without_company(key)) if COMPANY.isdisjoint(o.split())]
    letters = name.text.replace(".", "")
    if letters.isupper() and letters.isalpha() and 3 <= len(letters) <= 8:
        yield "initials", 0.85, lookup("initials", letters)
    if key in STATES:
        yield "the same state", 0.95, [STATES[key]] if STATES[key] in names else []
    if one_document and name.type != "person":
        yield "written apart", 0.95, [o for o in lookup("joined", key) if names[o].type == name.type]
        if " " not in key and _is_word(key) and name.text[:1].isupper():
            yield "end of a longer name", 0.8, [o for o in lookup("end", key) if names[o].type == name.type]
        bare = _KIND_OF_PLACE.sub("", key)
        yield "kind of place", 0.9, [bare] if bare in names and names[bare].type == name.type else []


def _person_options(name: Name, names: Names, lookup: Lookup) -> Rules:
    """Of people: without title, by surname, by given name, by a fuller form."""
    key, words, core = name.key, name.key.split(), without_titles(name.key)
    if core in names and core != key:
        yield "title", 0.98, [core]
    if name.type not in ("place", "organization"):
        if len(words) > 2 and _is_word(words[0]) and " ".join(words[1:]) in names and "of" not in words:
            yield "title", 0.95, [" ".join(words[1:])]  # Skipper Hugh Dunmore
        yield "surname", 0.95, [o for o in lookup("surname", core) if _is_surname(core, o)]
        if core == key and len(words) == 1 and not _is_word(key):
            yield "given name", 0.9, lookup("first", key)
    if is_person(name) and len(words) > 1 and words[0] in EPITHETS:
        rest = " ".join(words[1:])
        yield "epithet", 0.9, [rest] if rest in names and not _is_word(rest) else []  # Old Fezziwig
    if is_person(name) and (" " in core or not _is_word(core)):
        yield "fuller form of a person's name", 0.9, _fuller(core, lookup)


_KIND_OF_PLACE = re.compile(r"^(?:kingdom|republic|free state|state|city|town|commonwealth|island) of | islands$")


def _is_surname(core: str, full: str) -> bool:
    """Whether `full` is `core` with given names before it; Recipe of Ellen Kerrigan is not, nor Engine Room Log for the word log."""
    given = full.removesuffix(" " + core).split()
    if given == full.split() or "of" in given or given[-1].endswith("'s") or all(map(_is_word, given)):
        return False
    return len(given) == 1 or not _is_word(core)


def _fuller(core: str, lookup: Lookup) -> list[str]:
    """Names of the same surname whose given names the words or initials of `core` abbreviate: J. Holm, George W. Bush."""
    words = core.split()
    some = lookup("ends", words[0], words[-1]) if len(words) > 1 else lookup("surname", core)
    return [
        o
        for o in some
        if without_titles(o) != core
        and len("".join(without_titles(o).split())) > len("".join(words))
        and _initials_fit(words[:-1], without_titles(o).split()[:-1])
    ]


def _initials_fit(short: Sequence[str], full: Sequence[str]) -> bool:
    """Whether the words of `short`, in order, are words of `full` or their first letters; the first must be that of the first."""
    at = 0
    for i, word in enumerate(short):
        while at < len(full) and not (full[at] == word or (len(word) == 1 and full[at].startswith(word))):
            if i == 0:
                return False
            at += 1
        if at == len(full):
            return False
        at += 1
    return True


def is_person(name: Name) -> bool:
    """Whether a name is typed as a person's or, where nobody has typed it, is made of words that the dictionary does not have."""
    if name.type != "name":
        return name.type == "person"
    words = [w for w in name.text.split() if normalise(w) not in TITLES]
    return 1 < len(words) <= 4 and all(w[0].isupper() and not _is_word(w) for w in words)


@lru_cache(maxsize=100_000)
def _is_word(word: str) -> bool:
    return bool(word_tag(word.lower())) or word_tag(word) not in ("", "NNP")


def _initials(text: str) -> str:
    return "".join(w[0] for w in re.findall(r"[^\W\d_]+", text) if w[0].isupper())


def _similar(corpus: Mapping[str, Name], entity_of: Mapping[Node, str], decisions: Decisions) -> Iterator[Merge]:
    """Pairs of entities of one type that are spelt alike (Johnson, Johnston), the most alike first."""
    blocks: defaultdict[tuple[str, str], list[Name]] = defaultdict(list)
    for key in sorted(set(entity_of.values()) & corpus.keys()):
        if len(key) > 5:
            blocks[corpus[key].type, key[:2]].append(corpus[key])
    pairs = []
    for every in blocks.values():
        block = sorted(every, key=lambda n: (-n.count, n.key))[:BLOCK]
        keys = [n.key for n in block]
        scores = process.cdist(keys, keys, scorer=fuzz.ratio, score_cutoff=SIMILAR)
        for i, j in np.argwhere(np.triu(scores, 1) > 0):
            a, b = block[int(i)], block[int(j)]
            if digits(a.key) == digits(b.key) and frozenset((a.key, b.key)) not in decisions.different:
                pairs.append((float(scores[i, j]), a, b))
    for score, a, b in sorted(pairs, key=lambda p: (-p[0], p[1].key, p[2].key))[:MOST]:
        yield Merge(b.text, a.key, a.text, "spelt alike", round(score / 100, 2))


def split_homonyms(names: Sequence[Name], resolution: Resolution, neighbours: Mapping[Node, set[str]], decisions: Decisions) -> None:
    """Give a name two entities where it is a person in some documents and none in others, and the two have no neighbour in common.

    Either side must be sure: two documents, a neighbour; small models mistake types too often for less. `Paris = Paris` among the user's
    decisions keeps a name whole.
    """
    whole = {a for a, b in decisions.same if a == b}
    uses: defaultdict[str, defaultdict[bool, list[Name]]] = defaultdict(lambda: defaultdict(list))
    for name in names:
        uses[resolution.entity_of[name.document, name.key]][name.type == "person"].append(name)
    for key, sides in sorted((key, sides) for key, sides in uses.items() if len(sides) == 2):
        near = {side: set().union(*(neighbours.get((n.document, key), set()) for n in some)) for side, some in sides.items()}
        sure = all(len({n.document for n in some}) > 1 and near[side] for side, some in sides.items())
        apart = {n.document for n in sides[True]}.isdisjoint(n.document for n in sides[False])
        if not sure or not apart or near[True] & near[False] or key in whole:
            continue
        fewer = min(sides.values(), key=lambda some: (sum(n.count for n in some), kind_of(n.type for n in some)))
        other = f"{key} ({kind_of(n.type for n in fewer)})"
        for name in fewer:
            resolution.entity_of[name.document, name.key] = other
        resolution.merges.append(Merge(fewer[0].text, other, fewer[0].text, "homonym: kept apart", 0.9))


def kind_of(types: Iterable[str]) -> str:
    """The most frequent of some types, of equals the first in the alphabet."""
    kinds = Counter(types)
    return min(kinds, key=lambda kind: (-kinds[kind], kind))
