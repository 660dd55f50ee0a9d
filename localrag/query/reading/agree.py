"""Does one sentence say what another says? Every word of the claim needs a counterpart in the source, doing the same in the same clause."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from localrag.query.reading.lexicon import opposed, synonymous
from localrag.query.reading.record import Clause, Reading, Word

# Prepositions that exclude each other.
_EXCLUDE = (
    ({"from", "out of", "off"}, {"to", "into", "towards", "toward", "onto"}),
    ({"for"}, {"against"}),
    ({"with"}, {"without"}),
    ({"before", "until"}, {"after", "since"}),
    ({"above", "over"}, {"below", "under", "beneath", "underneath"}),
    ({"inside", "in"}, {"outside", "into"}),
)
_MODES = ("possible", "duty")
SAME, ALIKE, OPPOSITE = 3, 2, -1


@dataclass(frozen=True)
class Match:
    """What of the source each word of the claim answers to: number of the claim's word → those of the source, with how closely."""

    alike: dict[int, dict[int, int]]
    opposite: dict[int, set[int]]

    def of(self, numbers: Iterable[int]) -> set[int]:
        """The source's counterparts of some words of the claim."""
        return {s for n in numbers for s in self.alike.get(n, ())}


def objection(claim: Reading, source: Reading) -> str:
    """Why the source does not support the claim, in one word; empty where it does."""
    match = _match(claim, source)
    return (
        _missing(claim, source, match)
        or _quantifiers(claim, source, match)
        or _amounts(claim, source, match)
        or next((why for clause in range(len(claim.clauses)) if (why := _clause(claim, clause, source, match))), "")
    )


def _match(claim: Reading, source: Reading) -> Match:
    language = "zh" if claim.chinese else "en"
    alike: dict[int, dict[int, int]] = {}
    opposite: dict[int, set[int]] = {}
    for i, word in enumerate(claim.words):
        for j, other in enumerate(source.words):
            how = _compare(word, other, language)
            if how > 0:
                alike.setdefault(i, {})[j] = how
            elif how < 0:
                opposite.setdefault(i, set()).add(j)
    return Match(alike, opposite)


def _compare(word: Word, other: Word, language: str) -> int:
    if "number" in (word.kind, other.kind):
        if word.kind != other.kind or word.keys.isdisjoint(other.keys):
            return 0
        return SAME if not word.unit or not other.unit or word.unit == other.unit or {word.unit, other.unit} <= {"th", "day"} else 0
    if word.text == other.text:
        return SAME
    if "name" in (word.kind, other.kind):
        return ALIKE if word.kind == other.kind == "name" and synonymous(frozenset({word.text}), frozenset({other.text}), language) else 0
    if opposed(word.keys, other.keys, language) and not _plain(word.keys) & _plain(other.keys):
        return OPPOSITE
    if word.keys & other.keys:
        return SAME
    return ALIKE if synonymous(word.keys, other.keys, language) else 0


def _plain(keys: frozenset[str]) -> set[str]:
    return {k for k in keys if not k.startswith("~")}


def _missing(claim: Reading, source: Reading, match: Match) -> str:
    """The first word of the claim without a counterpart."""
    for i, word in enumerate(claim.words):
        if i in match.alike or word.soft:
            continue
        if i in match.opposite and _turned(claim, source, i, match):
            continue
        return f"{word.kind}:{word.text}"
    return ""


def _turned(claim: Reading, source: Reading, i: int, match: Match) -> bool:
    """Whether an opposite says the same because one of the two is denied: "not open" and "closed"."""
    mine = claim.clauses[claim.words[i].clause].negated
    return any(source.clauses[source.words[j].clause].negated != mine for j in match.opposite[i])


_NEEDED = ("all", "none", "only", "most", "least", "half")


def _quantifiers(claim: Reading, source: Reading, match: Match) -> str:
    """All, most, only and none need their like; "most", "almost" and "half" of the source must not be dropped."""
    for kind in _NEEDED:
        if kind in claim.quantifiers and kind not in source.quantifiers:
            return f"quantifier:{kind}"
    return ""


def _amounts(claim: Reading, source: Reading, match: Match) -> str:
    """A number counts the same thing on both sides: what follows it in the claim stands near it in the source."""
    for i, word in enumerate(claim.words):
        if word.kind != "number" or i + 1 >= len(claim.words):
            continue
        counted = claim.words[i + 1]
        if counted.at != word.at + 1 or counted.kind != "word" or i + 1 not in match.alike:
            continue
        near = any(abs(source.words[s].at - source.words[t].at) <= 5 for s in match.alike[i] for t in match.alike[i + 1])
        if not near:
            return f"counted:{word.text}"
    return ""


def _clause(claim: Reading, n: int, source: Reading, match: Match) -> str:
    clause = claim.clauses[n]
    members = [i for i, w in enumerate(claim.words) if w.clause == n]
    if not members:
        return ""
    whys = []
    for m in _candidates(clause, members, source, match):
        why = _against(claim, clause, members, source, m, match)
        if not why:
            return ""
        whys.append(why)
    return whys[0] if whys else ""


def _candidates(clause: Clause, members: Sequence[int], source: Reading, match: Match) -> list[int]:
    """The source's clauses that a clause of the claim may restate, likeliest first."""
    verbs = set(match.alike.get(clause.verb, ())) | match.opposite.get(clause.verb, set()) if clause.verb is not None else set()
    counterparts = match.of(members)
    scores = []
    for n, other in enumerate(source.clauses):
        shared = sum(source.words[s].clause == n for s in counterparts)
        scores.append((other.verb in verbs, shared, -n))
    exact = [s for s in scores if s[0]]
    ranked = sorted(exact or scores, reverse=True)
    return [-s[2] for s in ranked][: 3 if exact else 2]


def _against(claim: Reading, clause: Clause, members: Sequence[int], source: Reading, m: int, match: Match) -> str:
    """Why a clause of the claim does not restate clause `m` of the source; empty where it does."""
    other = source.clauses[m]
    aligned = clause.verb is not None and (other.verb in match.alike.get(clause.verb, ()) or other.verb in match.opposite.get(clause.verb, ()))
    turned = aligned and other.verb in match.opposite.get(clause.verb, ()) and other.verb not in match.alike.get(clause.verb, ())
    predicate = any(match.opposite.get(i, set()) and i not in match.alike for i in members if i != clause.verb)
    if (clause.negated != other.negated) != (turned or predicate):
        return "negation"
    for mode in _MODES:
        if (mode in clause.modes) != (mode in other.modes):
            return f"mode:{mode}"
    return _roles(claim, clause, source, other, match, aligned=aligned) or _elsewhere(claim, clause, members, source, m, match)


def _roles(claim: Reading, clause: Clause, source: Reading, other: Clause, match: Match, *, aligned: bool) -> str:
    """Whether who does it and to whom are the same."""
    subject, objects = _heads(claim, clause.subject), _heads(claim, clause.objects)
    if not aligned:
        return ""
    doer, done = match.of(subject), match.of(objects)
    if subject and other.subject and doer and not doer & other.subject and not _pronoun(source, other.subject):
        return "role:subject"
    if doer and doer & other.objects and not doer & other.subject:
        return "role:swapped"
    if done and done & other.subject and not done & other.objects:
        return "role:object"
    return ""


def _heads(reading: Reading, numbers: frozenset[int]) -> list[int]:
    return [n for n in numbers if reading.words[n].kind in ("name", "word") and not reading.words[n].soft]


def _pronoun(reading: Reading, numbers: frozenset[int]) -> bool:
    return all(reading.words[n].soft for n in numbers)


def _elsewhere(claim: Reading, clause: Clause, members: Sequence[int], source: Reading, m: int, match: Match) -> str:
    """Whether the words of the claim's clause stand in the source's clause, in one within it, or are its subject."""
    inside = {m} | {n for n, c in enumerate(source.clauses) if c.within == m} | ({source.clauses[m].within} if source.clauses[m].within is not None else set())
    other = source.clauses[m]
    home = {j for j, w in enumerate(source.words) if w.clause in inside} | other.subject | other.objects
    for i in members:
        word = claim.words[i]
        if word.soft or i not in match.alike or i == clause.verb:
            continue
        mine = set(match.alike[i])
        if not mine & home and word.kind in ("name", "number"):
            return f"elsewhere:{word.text}"
        if word.before and all(_excluded(word.before, source.words[j].before) for j in mine):
            return f"preposition:{word.text}"
    return ""


def _excluded(a: str, b: str) -> bool:
    return any((a in x and b in y) or (a in y and b in x) for x, y in _EXCLUDE)
