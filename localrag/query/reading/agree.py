"""Does one sentence say what another says? Every word of the claim needs a counterpart in the source, doing the same in the same clause."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from localrag.query.reading.counterparts import counterparts
from localrag.query.reading.lexicon import converse, opposed, synonymous
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
_PARTICLES = (("for", "against"), ("with", "without"), ("up", "down"), ("on", "off"), ("in", "out"))
SAME, ALIKE, OPPOSITE = 3, 2, -1
# Verbs that leave the saying to their object: "imposed a fine" fined, "received a fine" was fined.
_GIVING = frozenset(
    "impose make give take hold carry_out issue do have levy launch conduct raise put provide perform show begin start".split()
)
# What they do to something it also does by itself: the council raised the rents, the rents rose.
_TURNS = frozenset(
    "raise rise increase decrease drop open close begin start end stop change double halve burn sink break move turn grow".split()
)
_TAKING = frozenset("receive get undergo suffer pay obtain see".split())


@dataclass(frozen=True)
class Match:
    """What of the source each word of the claim answers to: number of the claim's word → those of the source, with how closely."""

    alike: dict[int, dict[int, int]]
    opposite: dict[int, set[int]]
    converse: dict[int, set[int]] = field(default_factory=dict)

    def of(self, numbers: Iterable[int]) -> set[int]:
        """The source's counterparts of some words of the claim."""
        return {s for n in numbers for s in self.alike.get(n, ())}

    def verbs(self, number: int | None) -> set[int]:
        """The source's words that can be the verb of a clause whose verb is this word."""
        return set() if number is None else {*self.alike.get(number, ()), *self.opposite.get(number, ()), *self.converse.get(number, ())}


def objection(claim: Reading, source: Reading) -> str:
    """Why the source does not support the claim, in one word; empty where it does."""
    match = matched(claim, source)
    if not any(i in match.alike and not word.soft for i, word in enumerate(claim.words)):
        return "nothing said"
    return (
        _missing(claim, source, match)
        or _quantifiers(claim, source)
        or _amounts(claim, source, match)
        or _apart(claim, source, match)
        or next((why for clause in range(len(claim.clauses)) if (why := _clause(claim, clause, source, match))), "")
    )


def matched(claim: Reading, source: Reading) -> Match:
    """The words of the source that correspond to the words of the claim."""
    if claim.chinese:
        return _match_chinese(claim, source)
    match = Match({}, {})
    for i, word in enumerate(claim.words):
        for j, other in enumerate(source.words):
            how = _compare(word, other)
            if how > 0:
                match.alike.setdefault(i, {})[j] = how
            elif how < 0:
                match.opposite.setdefault(i, set()).add(j)
            if how <= 0 and {word.kind, other.kind} == {"word"} and converse(word.keys, other.keys, "en"):
                match.converse.setdefault(i, set()).add(j)
    _light(claim, source, match)
    _narrow(claim, source, match)
    return match


def _match_chinese(claim: Reading, source: Reading) -> Match:
    alike: dict[int, dict[int, int]] = {}
    opposite: dict[int, set[int]] = {}
    turned: dict[int, set[int]] = {}
    for i, word in enumerate(claim.words):
        if word.kind == "number":
            alike[i] = {j: SAME for j, other in enumerate(source.words) if _compare(word, other)}
            continue
        alike[i], opposite[i] = counterparts(word, source, source.spans)
        turned[i] = {j for j, other in enumerate(source.words) if j not in alike[i] and converse(word.keys, other.keys, "zh")}
        opposite[i] -= turned[i]
    return Match(
        {i: m for i, m in alike.items() if m},
        {i: m for i, m in opposite.items() if m},
        {i: m for i, m in turned.items() if m},
    )


def _compare(word: Word, other: Word) -> int:
    if "number" in (word.kind, other.kind):
        return SAME if word.kind == other.kind and not word.keys.isdisjoint(other.keys) and _same_unit(word.unit, other.unit) else 0
    if word.text == other.text:
        return SAME
    if "name" in (word.kind, other.kind):
        return ALIKE if word.kind == other.kind == "name" and synonymous(frozenset({word.text}), frozenset({other.text}), "en") else 0
    if opposed(word.keys, other.keys, "en") and not _plain(word.keys) & _plain(other.keys):
        return OPPOSITE
    return SAME if word.keys & other.keys else ALIKE if synonymous(word.keys, other.keys, "en") else 0


def _same_unit(a: str, b: str) -> bool:
    return not a or not b or a == b or {a, b} <= {"th", "day"}


def _plain(keys: frozenset[str]) -> set[str]:
    return {k for k in keys if not k.startswith("~")}


def _light(claim: Reading, source: Reading, match: Match) -> None:
    """A verb that only carries its object ("imposed a fine") answers to what the object answers to."""
    verbs = {c.verb for c in source.clauses}
    for clause in claim.clauses:
        verb = clause.verb
        if verb is None or match.alike.get(verb) or not claim.words[verb].keys & (_GIVING | _TAKING):
            continue
        carried = {s for o in clause.objects for s in match.alike.get(o, ()) if s in verbs}
        if carried and claim.words[verb].keys & _TAKING:
            match.converse[verb] = carried
        elif carried:
            match.alike[verb] = dict.fromkeys(carried, ALIKE)


def _narrow(claim: Reading, source: Reading, match: Match) -> None:
    """Of several counterparts, those that stand together as the claim's words do: "chemical energy" is not the energy of "light energy"."""
    for i in range(len(claim.words) - 1):
        mine, other = match.alike.get(i), match.alike.get(i + 1)
        if not mine or not other or claim.words[i + 1].at != claim.words[i].at + 1:
            continue
        near = [(s, t) for s in mine for t in other if abs(source.words[s].at - source.words[t].at) == 1]
        if near:
            match.alike[i] = {s: mine[s] for s, _ in near}
            match.alike[i + 1] = {t: other[t] for _, t in near}


def _missing(claim: Reading, source: Reading, match: Match) -> str:
    """The first word of the claim without a counterpart."""
    for i, word in enumerate(claim.words):
        if word.soft and claim.chinese and i in match.opposite and i not in match.alike:
            return f"turned:{word.text}"
        if i in match.alike or word.soft or i in match.converse:
            continue
        if i in match.opposite and _turned(claim, source, i, match):
            continue
        return f"{word.kind}:{word.text}"
    return ""


def _turned(claim: Reading, source: Reading, i: int, match: Match) -> bool:
    """Whether an opposite says the same because one of the two is denied: "not open" and "closed"."""
    mine = claim.clauses[claim.words[i].clause].negated
    return any(source.clauses[source.words[j].clause].negated != mine for j in match.opposite[i])


_NEEDED = ("all", "none", "only", "most", "few", "least", "half")


def _quantifiers(claim: Reading, source: Reading) -> str:
    """The first quantifier of the claim that the source lacks: all, most, few, only and none must occur there; many is not few."""
    for kind in _NEEDED:
        if kind in claim.quantifiers and kind not in source.quantifiers and not (kind == "none" and any(c.negated for c in source.clauses)):
            return f"quantifier:{kind}"
    if "some" in claim.quantifiers - source.quantifiers and source.quantifiers & {"all", "most", "none"}:
        return "quantifier:some"
    if "many" in claim.quantifiers - source.quantifiers and "few" in source.quantifiers:
        return "quantifier:many"
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
    for i, word in enumerate(claim.words):
        if word.part and i in match.alike and not any(source.words[s].part for s in match.alike[i]):
            return f"part:{word.text}"
    return ""


def _apart(claim: Reading, source: Reading, match: Match) -> str:
    """Words that stand side by side in the claim stand near each other in the source: first and last name, adjective and noun."""
    for i in range(len(claim.words) - 1):
        a, b = claim.words[i], claim.words[i + 1]
        if claim.chinese and not a.owner:
            continue
        if (not claim.chinese and b.at != a.at + 1) or a.soft or b.soft or "number" in (a.kind, b.kind) or "verb" in (a.role, b.role):
            continue
        if i not in match.alike or i + 1 not in match.alike or a.before != b.before or a.clause != b.clause or a.kind != b.kind:
            continue
        most = 2 if a.kind == b.kind == "name" and not a.owner else 6
        if a.owner and any(source.clauses[source.words[t].clause].leans for t in match.alike[i + 1]):
            continue
        if not any(abs(source.words[s].at - source.words[t].at) <= most for s in match.alike[i] for t in match.alike[i + 1]):
            return f"apart:{a.text} {b.text}"
    return ""


def members_of(claim: Reading, n: int) -> list[int]:
    """The words of clause `n`."""
    return [i for i, w in enumerate(claim.words) if w.clause == n]


def _clause(claim: Reading, n: int, source: Reading, match: Match) -> str:
    clause = claim.clauses[n]
    members = members_of(claim, n)
    if not members:
        return ""
    whys = []
    for m in counterpart_clauses(claim, n, source, match):
        why = _against(claim, clause, members, source, m, match)
        if not why:
            return ""
        whys.append(why)
    return whys[0] if whys else ""


def counterpart_clauses(claim: Reading, n: int, source: Reading, match: Match) -> list[int]:
    """The source's clauses that clause `n` of the claim may restate, likeliest first."""
    verbs = match.verbs(claim.clauses[n].verb)
    counterparts = match.of(members_of(claim, n))
    scores = []
    for m, other in enumerate(source.clauses):
        shared = sum(source.words[s].clause == m for s in counterparts)
        scores.append((other.verb in verbs, shared, -m))
    exact = [s for s in scores if s[0]]
    ranked = sorted(exact or scores, reverse=True)
    return [-s[2] for s in ranked][: 3 if exact else 2]


def _against(claim: Reading, clause: Clause, members: Sequence[int], source: Reading, m: int, match: Match) -> str:
    """Why a clause of the claim does not restate clause `m` of the source; empty where it does."""
    other = source.clauses[m]
    how = verb_match(match, clause.verb, other.verb)
    if (clause.negated != other.negated) != (how == "opposite" or _opposed(claim, clause, members, match)):
        return "negation"
    if why := _modes(clause.modes, other.modes):
        return why
    if how:
        for a, b in _PARTICLES:
            for x, y in ((a, b), (b, a)):
                if x in clause.particles and y in other.particles and x not in other.particles:
                    return f"particle:{x}"
    return _roles(claim, clause, source, other, match, how) or _elsewhere(claim, clause, members, source, m, match)


def _modes(mine: frozenset[str], other: frozenset[str]) -> str:
    """What is said to be possible or a duty is not said to be so; "would" stands for what was promised, planned or proposed."""
    for mode in ("possible", "duty"):
        if (mode in mine) != (mode in other) and not (mode in mine and other):
            return f"mode:{mode}"
    if ("unreal" in mine and not other) or ("unreal" in other and not mine):
        return "mode:unreal"
    return ""


def _opposed(claim: Reading, clause: Clause, members: Sequence[int], match: Match) -> bool:
    """Whether a word of the clause other than its verb has an antonym in the source."""
    return any(match.opposite.get(i) and i not in match.alike and not claim.words[i].soft for i in members if i != clause.verb)


def verb_match(match: Match, verb: int | None, other: int | None) -> str:
    """How two verbs correspond: "same", "converse" (buy and sell) or "opposite"; empty if in none of these ways."""
    if verb is None or other is None:
        return ""
    if other in match.alike.get(verb, ()):
        return "same"
    if other in match.converse.get(verb, ()):
        return "converse"
    return "opposite" if other in match.opposite.get(verb, ()) else ""


def _roles(claim: Reading, clause: Clause, source: Reading, other: Clause, match: Match, how: str) -> str:
    """Whether who does it and to whom are the same."""
    if not how or clause.verb is None or other.verb is None or (how != "converse" and claim.words[clause.verb].keys & {"be", "是"}):
        return ""  # "the lake is the largest" says the same either way round
    objects = heads_of(claim, clause.objects)
    doer, done = match.of(heads_of(claim, clause.subject)), match.of(objects)
    if how == "converse":
        return "role:converse" if doer & other.subject else ""
    if not doer & other.subject and doer:
        if other.subject and not _pronoun(source, other.subject):
            return "role:subject"
        if doer & other.objects and (objects or other.subject):
            return "role:swapped"
    turns = claim.words[clause.verb].keys & _TURNS and not other.objects
    if done & other.subject and not done & other.objects and not turns:
        return "role:object"
    return _objects(claim, clause, source, other, done) if done and not done & other.objects else ""


def _objects(claim: Reading, clause: Clause, source: Reading, other: Clause, done: set[int]) -> str:
    """Whether what the claim has as objects, `done` in the source, can be those of the source's clause, though not read as such."""
    assert clause.verb is not None and other.verb is not None
    if source.chinese and not other.leans and not clause.passive and not other.passive:
        verb, mine = source.words[other.verb].at, claim.words[clause.verb].at
        if all(source.words[j].at < verb for j in done) and all(claim.words[i].at > mine for i in heads_of(claim, clause.objects)):
            return "role:before the verb"
    if not source.chinese and not other.passive and not other.leans and all(source.words[j].at < source.words[other.verb].at for j in done):
        return "role:before the verb"  # "the committee under Farrant fined" nobody named Farrant
    if not other.objects or _pronoun(source, other.objects):
        return ""
    number = source.clauses.index(other)
    inside = {j for j in done if number in (source.words[j].clause, source.clauses[source.words[j].clause].within)}
    if not inside:
        return "role:other object"
    behind = all(source.words[j].before in ("into", "from", "against", "without", "by") for j in inside)
    return "role:object behind a preposition" if behind else ""


def heads_of(reading: Reading, numbers: frozenset[int]) -> list[int]:
    """The nouns and names among some words: no numbers, no pronouns."""
    return [n for n in numbers if reading.words[n].kind in ("name", "word") and not reading.words[n].soft]


def _pronoun(reading: Reading, numbers: frozenset[int]) -> bool:
    return all(reading.words[n].soft for n in numbers)


def _elsewhere(claim: Reading, clause: Clause, members: Sequence[int], source: Reading, m: int, match: Match) -> str:
    """Whether the words of the claim's clause stand in the source's clause, in one within it, or are its subject."""
    other = source.clauses[m]
    inside = {m} | {n for n, c in enumerate(source.clauses) if c.within == m} | ({other.within} if other.within is not None else set())
    home = {j for j, w in enumerate(source.words) if w.clause in inside} | other.subject | other.objects
    if source.chinese and not any(source.words[j].kind == "name" for j in other.subject):
        home |= source.clauses[0].subject | _topic(source, m)
    for i in members:
        word = claim.words[i]
        if word.soft or i not in match.alike or i == clause.verb:
            continue
        mine = set(match.alike[i])
        if word.before == "according_to":
            continue
        if other.leans and i in clause.objects:
            continue
        if not mine & home and (
            source.chinese
            or _rivals(source, other, mine)
            or word.kind in ("name", "number")
            or i in clause.subject | clause.objects
            or word.when
        ):
            return f"elsewhere:{word.text}"
        if word.before and all(_excluded(word.before, source.words[j].before) for j in mine):
            return f"preposition:{word.text}"
    return ""


def _rivals(source: Reading, clause: Clause, numbers: set[int]) -> bool:
    """Whether words stand in clauses that say the opposite of this one: "fell in the first group but rose in the second"."""
    verbs = [source.clauses[source.words[n].clause].verb for n in numbers]
    language = "zh" if source.chinese else "en"
    return clause.verb is not None and any(
        verb is not None and opposed(source.words[clause.verb].keys, source.words[verb].keys, language) for verb in verbs
    )


def _topic(source: Reading, m: int) -> set[int]:
    """What stands before the verb of an earlier clause with a subject: it goes on being what is talked about."""
    earlier = next((c for c in reversed(source.clauses[:m]) if c.subject and c.verb is not None), None)
    if earlier is None or earlier.verb is None:
        return set()
    clause, at = source.words[earlier.verb].clause, source.words[earlier.verb].at
    return {j for j, w in enumerate(source.words) if w.clause == clause and w.at < at}


def _excluded(a: str, b: str) -> bool:
    return any((a in x and b in y) or (a in y and b in x) for x, y in _EXCLUDE)
