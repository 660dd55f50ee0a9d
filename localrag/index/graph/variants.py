"""Names → entities: which of a corpus' names are variants of one another (titles, surnames, initials, acronyms, company forms, spelling).

Rules decide what is certain and say why; what is merely similar is left open, for a large model's yes or no, or for the user. A rule
looks at one document first, where "Holm" is the one Holm it names in full, then at the whole corpus. Digits are never bridged.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

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
    target: dict[Node, Target] = {}
    for document, own in documents.items():
        target |= {(document, key): found for key, found in _targets(own, said[document], one_document=True).items()}
    corpus = _most_frequent(names)
    everywhere = _targets(corpus, {})
    for document, own in documents.items():
        for key in own:
            if key in everywhere and (document, key) not in target:
                target[document, key] = everywhere[key]
    for a, b in decisions.same:
        why = ("the model's yes", 0.8) if (a, b) in decisions.by_model else ("decided by the user", 1.0)
        target |= {(document, a): (b, *why) for document, own in documents.items() if a in own and a != b}
    found = Resolution()
    for document, own in documents.items():
        for key in own:
            found.entity_of[document, key] = _follow(document, key, target, decisions)
    found.merges = _log(found.entity_of, target, documents, corpus)
    found.open = list(_similar(corpus, found.entity_of, decisions))
    return found


def _most_frequent(names: Sequence[Name]) -> dict[str, Name]:
    best: dict[str, Name] = {}
    for name in names:
        if name.key not in best or (name.count, name.text) > (best[name.key].count, best[name.key].text):
            best[name.key] = name
    return best


def _follow(document: str, key: str, target: Mapping[Node, Target], decisions: Decisions) -> str:
    """The end of a chain Mr. Holm → Holm → Lars Holm, not stepping over what the user keeps apart."""
    seen = [key]
    while (document, seen[-1]) in target:
        following = target[document, seen[-1]][0]
        if following in seen or any(frozenset((s, following)) in decisions.different for s in seen):
            break
        seen.append(following)
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


class _Lookup:
    """The names of one document by what the rules look for."""

    def __init__(self, names: Mapping[str, Name]) -> None:
        self.by_surname: defaultdict[str, list[str]] = defaultdict(list)  # every proper end: Anna Maria Holm by Maria Holm and by Holm
        self.by_ends: defaultdict[tuple[str, str], list[str]] = defaultdict(list)  # given name or its initial, and surname
        self.by_first: defaultdict[str, list[str]] = defaultdict(list)
        self.by_initials: defaultdict[str, list[str]] = defaultdict(list)
        self.by_company: defaultdict[str, list[str]] = defaultdict(list)
        self.by_end: defaultdict[str, list[str]] = defaultdict(list)
        self.by_joined: defaultdict[str, list[str]] = defaultdict(list)
        for key, name in names.items():
            core = without_titles(key)
            words = core.split()
            self.by_company[without_company(key)].append(key)
            if len(words) > 1:
                self.by_initials[_initials(name.text)].append(key)
                self.by_end[key.rsplit(" ", 1)[1]].append(key)
                self.by_joined[key.replace(" ", "")].append(key)
                if is_person(name) and FEMALE.isdisjoint(key.split()[:1]):
                    parts = key.split()
                    for n in range(1, len(parts)):
                        self.by_surname[" ".join(parts[n:])].append(key)
                    for given in {words[0], words[0][0]}:
                        self.by_ends[given, words[-1]].append(key)
                    self.by_first[words[0]].append(key)


def _targets(names: Mapping[str, Name], said: Mapping[str, tuple[str, str]], *, one_document: bool = False) -> dict[str, Target]:
    """For each key with a fuller name the one that the first rule finds which finds exactly one; the longest names first."""
    lookup = _Lookup(names)
    found: dict[str, Target] = {}
    for key in sorted(names, key=lambda k: (-len(k), k)):
        other, why = said.get(key, ("", ""))
        if other in names:
            found[key] = (other, why, 1.0)
            continue
        for reason, score, options in _options(names[key], names, lookup, one_document=one_document):
            others = {found[o][0] if o in found else o for o in options if o != key} - {key}
            if only := _only(others, names):
                found[key] = (only, reason, score)
                break
    return found


def _only(keys: set[str], names: Mapping[str, Name]) -> str | None:
    """The one key, or that of several which stands at least twice as often as any other."""
    first, second = [*sorted(keys, key=lambda k: (-names[k].count, k)), "", ""][:2]
    return first if first and (not second or names[first].count >= DOMINANT * names[second].count) else None


Rules = Iterator[tuple[str, float, Iterable[str]]]  # for each rule that applies its name, how sure it is, the names it leads to


def _options(name: Name, names: Mapping[str, Name], lookup: _Lookup, *, one_document: bool) -> Rules:
    """The names that `name` may be a variant of, by rule."""
    key, words = name.key, name.key.split()
    if FEMALE.isdisjoint(words[:1]):
        yield from _person_options(name, names, lookup)
    if not COMPANY.isdisjoint(words):
        yield "company form", 0.95, [o for o in lookup.by_company[without_company(key)] if COMPANY.isdisjoint(o.split())]
    letters = name.text.replace(".", "")
    if letters.isupper() and letters.isalpha() and 3 <= len(letters) <= 8:
        yield "initials", 0.85, lookup.by_initials[letters]
    if key in STATES:
        yield "the same state", 0.95, [STATES[key]] if STATES[key] in names else []
    if one_document and name.type != "person":
        yield "written apart", 0.95, [o for o in lookup.by_joined[key] if names[o].type == name.type]
        if " " not in key and _is_word(key) and name.text[:1].isupper():
            yield "end of a longer name", 0.8, [o for o in lookup.by_end[key] if names[o].type == name.type]
        bare = _KIND_OF_PLACE.sub("", key)
        yield "kind of place", 0.9, [bare] if bare in names and names[bare].type == name.type else []


def _person_options(name: Name, names: Mapping[str, Name], lookup: _Lookup) -> Rules:
    """Of people: without title, by surname, by given name, by a fuller form."""
    key, words, core = name.key, name.key.split(), without_titles(name.key)
    if core in names and core != key:
        yield "title", 0.98, [core]
    if name.type not in ("place", "organization"):
        if len(words) > 2 and _is_word(words[0]) and " ".join(words[1:]) in names and "of" not in words:
            yield "title", 0.95, [" ".join(words[1:])]  # Skipper Hugh Dunmore
        yield "surname", 0.95, [o for o in lookup.by_surname.get(core, ()) if _is_surname(core, o)]
        if core == key and len(words) == 1 and not _is_word(key):
            yield "given name", 0.9, lookup.by_first[key]
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


def _fuller(core: str, lookup: _Lookup) -> list[str]:
    """Names of the same surname whose given names the words or initials of `core` abbreviate: J. Holm, George W. Bush."""
    words = core.split()
    some = lookup.by_ends.get((words[0], words[-1]), ()) if len(words) > 1 else lookup.by_surname.get(core, ())
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
        fewer = min(sides.values(), key=lambda some: (sum(n.count for n in some), some[0].type))
        other = f"{key} ({fewer[0].type})"
        for name in fewer:
            resolution.entity_of[name.document, name.key] = other
        resolution.merges.append(Merge(fewer[0].text, other, fewer[0].text, "homonym: kept apart", 0.9))
