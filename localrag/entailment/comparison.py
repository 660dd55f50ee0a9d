"""Whether a source sentence entails or contradicts a claim.

Entailment: every word of the claim has a counterpart in the source with the same role in the same clause; Chinese words are aligned by
their characters, too. Contradiction: a different number, date or name, an antonym, a negation, another quantifier, or swapped roles.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass, field
from functools import lru_cache

from localrag.entailment.chinese import FUNCTION
from localrag.entailment.english import DAYS, IRREALIS_VERBS, MONTHS, OFTEN
from localrag.entailment.lexicon import (
    Clause,
    ParsedSentence,
    ParsedWord,
    are_antonyms,
    are_converses,
    are_synonyms,
    chinese_entries,
    english_quantities,
    synonyms_of,
)


@lru_cache(maxsize=20_000)
def _ways(word: str) -> tuple[str, ...]:
    return tuple(sorted({word, *synonyms_of(word, "zh")}, key=len, reverse=True))


def counterparts(word: ParsedWord, source: ParsedSentence, starts: dict[int, tuple[int, int]]) -> tuple[dict[int, int], set[int]]:
    """The words of the source that answer to a word of a claim (with how closely), and those that say the opposite."""
    alike = _written(word, source, starts)
    opposite = set()
    for j, other in enumerate(source.words):
        if j in alike or other.kind != "word":
            continue
        if are_antonyms(word.keys, other.keys, "zh"):
            opposite.add(j)
        elif word.kind == "word" and word.keys & other.keys:
            alike[j] = 2
    if not alike and not opposite:
        alike = {j: 2 for j, other in enumerate(source.words) if _kindred(word, other)}
    return alike, opposite


def _written(word: ParsedWord, source: ParsedSentence, starts: dict[int, tuple[int, int]]) -> dict[int, int]:
    """Where the word stands in the source, or one that means the same."""
    alike: dict[int, int] = {}
    for way in _ways(word.text) if word.kind == "word" else (word.text,):
        for m in re.finditer(re.escape(way), source.text):
            for j, (a, b) in starts.items():
                if a < m.end() and m.start() < b and not (len(way) == 1 and b - a > 1 and way != word.text):
                    alike[j] = max(alike.get(j, 0), 3 if way == word.text else 2)
    return alike


def _kindred(word: ParsedWord, other: ParsedWord) -> bool:
    """Verbs and the like that share a character (焚烧, 烧掉); nouns of which one is the other with something before or behind it."""
    if "word" not in (word.kind, other.kind) or "number" in (word.kind, other.kind) or word.when or other.when:
        return False
    short, long = sorted((word.text, other.text), key=len)
    if word.role == other.role == "noun":
        return len(short) < len(long) and len(long) < 5 and (long.startswith(short) or long.endswith(short)) and short not in _VAGUE
    if word.text in chinese_entries() and not word.text.startswith(other.text):
        return False  # what means the same is in the tables
    shared = set(word.text) & set(other.text) - set(_VAGUE) - LINKS - FUNCTION
    apart = (frozenset(set(word.text) - shared), frozenset(set(other.text) - shared))
    return bool(shared) and len(long) < 4 and not are_antonyms(*apart, "zh")


_VAGUE = frozenset("大小多少高低长短上下前后新老南北东西男女省市县年月日人有无心力气水火山")
LINKS = frozenset("的了着过在于和与已要还就也之再又才都会能将被把从到向对所以为很更")


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
class WordAlignment:
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


def unsupported_reason(claim: ParsedSentence, source: ParsedSentence) -> str:
    """Why the source does not support the claim, in one word; empty where it does."""
    match = matched(claim, source)
    if not any(i in match.alike and not word.soft for i, word in enumerate(claim.words)):
        return "nothing said"
    return (
        _missing(claim, source, match)
        or _conditions(claim, source)
        or _quantifiers(claim, source)
        or _amounts(claim, source, match)
        or _apart(claim, source, match)
        or next((why for clause in range(len(claim.clauses)) if (why := _clause(claim, clause, source, match))), "")
    )


def matched(claim: ParsedSentence, source: ParsedSentence) -> WordAlignment:
    """The words of the source that correspond to the words of the claim."""
    if claim.chinese:
        return _match_chinese(claim, source)
    match = WordAlignment({}, {})
    for i, word in enumerate(claim.words):
        for j, other in enumerate(source.words):
            how = _compare(word, other)
            if how > 0:
                match.alike.setdefault(i, {})[j] = how
            elif how < 0:
                match.opposite.setdefault(i, set()).add(j)
            if how <= 0 and {word.kind, other.kind} == {"word"} and are_converses(word.keys, other.keys, "en"):
                match.converse.setdefault(i, set()).add(j)
    _light(claim, source, match)
    _narrow(claim, source, match)
    return match


def _match_chinese(claim: ParsedSentence, source: ParsedSentence) -> WordAlignment:
    alike: dict[int, dict[int, int]] = {}
    opposite: dict[int, set[int]] = {}
    turned: dict[int, set[int]] = {}
    for i, word in enumerate(claim.words):
        if word.kind == "number":
            alike[i] = {j: SAME for j, other in enumerate(source.words) if _compare(word, other)}
            continue
        alike[i], opposite[i] = counterparts(word, source, source.spans)
        turned[i] = {j for j, other in enumerate(source.words) if j not in alike[i] and are_converses(word.keys, other.keys, "zh")}
        opposite[i] -= turned[i]
    return WordAlignment(
        {i: m for i, m in alike.items() if m},
        {i: m for i, m in opposite.items() if m},
        {i: m for i, m in turned.items() if m},
    )


def _compare(word: ParsedWord, other: ParsedWord) -> int:
    if "number" in (word.kind, other.kind):
        return SAME if word.kind == other.kind and not word.keys.isdisjoint(other.keys) and _same_unit(word.unit, other.unit) else 0
    if word.text == other.text:
        return SAME
    if "name" in (word.kind, other.kind):
        return ALIKE if word.kind == other.kind == "name" and are_synonyms(frozenset({word.text}), frozenset({other.text}), "en") else 0
    if are_antonyms(word.keys, other.keys, "en") and not _plain(word.keys) & _plain(other.keys):
        return OPPOSITE
    return SAME if word.keys & other.keys else ALIKE if are_synonyms(word.keys, other.keys, "en") else 0


def _same_unit(a: str, b: str) -> bool:
    return not a or not b or a == b or {a, b} <= {"th", "day"}


def _plain(keys: frozenset[str]) -> set[str]:
    return {k for k in keys if not k.startswith("~")}


def _light(claim: ParsedSentence, source: ParsedSentence, match: WordAlignment) -> None:
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


def _narrow(claim: ParsedSentence, source: ParsedSentence, match: WordAlignment) -> None:
    """Of several counterparts, those that stand together as the claim's words do: "chemical energy" is not the energy of "light energy"."""
    for i in range(len(claim.words) - 1):
        mine, other = match.alike.get(i), match.alike.get(i + 1)
        if not mine or not other or claim.words[i + 1].at != claim.words[i].at + 1:
            continue
        near = [(s, t) for s in mine for t in other if abs(source.words[s].at - source.words[t].at) == 1]
        if near:
            match.alike[i] = {s: mine[s] for s, _ in near}
            match.alike[i + 1] = {t: other[t] for _, t in near}


def _missing(claim: ParsedSentence, source: ParsedSentence, match: WordAlignment) -> str:
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


def _turned(claim: ParsedSentence, source: ParsedSentence, i: int, match: WordAlignment) -> bool:
    """Whether an opposite says the same because one of the two is denied: "not open" and "closed"."""
    mine = claim.clauses[claim.words[i].clause].negated
    return any(source.clauses[source.words[j].clause].negated != mine for j in match.opposite[i])


_EVEN_IF = re.compile(r"\b(?:even if|even when|regardless of|whether or not)\b", re.IGNORECASE)
_CONTRASTED = re.compile(r"(?:,|\bbut) not (?:(?:by|in|for|to|from|at|on|with|the|a|an)\s)*(\w+)", re.IGNORECASE)


def _conditions(claim: ParsedSentence, source: ParsedSentence) -> str:
    """A denied condition ("even if"), a contrast ("not the owner"), a frequency or a bound of the claim that the source does not have."""
    if (even := _EVEN_IF.search(claim.text)) and not _EVEN_IF.search(source.text):
        return f"word:{even[0]}"
    mine, others = _contrasted(claim), _contrasted(source)
    if mine and others and mine.isdisjoint(others):
        return "negation"
    return _other_frequency(claim, source) or _other_bound(claim, source)


def _contrasted(sentence: ParsedSentence) -> frozenset[str]:
    return frozenset(m[1].lower() for m in _CONTRASTED.finditer(sentence.text))


_NEEDED = ("all", "none", "only", "most", "few", "least", "half")


def _quantifiers(claim: ParsedSentence, source: ParsedSentence) -> str:
    """The first quantifier of the claim that the source lacks: all, most, few, only and none must occur there; many is not few."""
    for kind in _NEEDED:
        if kind in claim.quantifiers and kind not in source.quantifiers and not (kind == "none" and any(c.negated for c in source.clauses)):
            return f"quantifier:{kind}"
    if "some" in claim.quantifiers - source.quantifiers and source.quantifiers & {"all", "most", "none"}:
        return "quantifier:some"
    if "many" in claim.quantifiers - source.quantifiers and "few" in source.quantifiers:
        return "quantifier:many"
    return ""


def _amounts(claim: ParsedSentence, source: ParsedSentence, match: WordAlignment) -> str:
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


def _apart(claim: ParsedSentence, source: ParsedSentence, match: WordAlignment) -> str:
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


def members_of(claim: ParsedSentence, n: int) -> list[int]:
    """The words of clause `n`."""
    return [i for i, w in enumerate(claim.words) if w.clause == n]


def _clause(claim: ParsedSentence, n: int, source: ParsedSentence, match: WordAlignment) -> str:
    if claim.chinese:
        return _chinese_clause(claim, n, source, match)
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


def counterpart_clauses(claim: ParsedSentence, n: int, source: ParsedSentence, match: WordAlignment) -> list[int]:
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


def _against(claim: ParsedSentence, clause: Clause, members: Sequence[int], source: ParsedSentence, m: int, match: WordAlignment) -> str:
    """Why a clause of the claim does not restate clause `m` of the source; empty where it does."""
    other = source.clauses[m]
    how = verb_match(match, clause.verb, other.verb)
    if (clause.negated != other.negated) != (how == "opposite" or _opposed(claim, clause, members, match)):
        return "negation"
    if why := _modes(clause.modes, other.modes):
        return why
    is_stated = clause.verb is not None and bool(claim.words[clause.verb].keys & {"be", "amount", "total"})
    if is_stated and _is_expected(other, source, match.of(range(len(claim.words)))):
        return "mode:unreal"
    if how:
        for a, b in _PARTICLES:
            for x, y in ((a, b), (b, a)):
                if x in clause.particles and y in other.particles and x not in other.particles:
                    return f"particle:{x}"
    return _roles(claim, clause, source, other, match, how) or _elsewhere(claim, clause, members, source, m, match)


def _chinese_clause(claim: ParsedSentence, n: int, source: ParsedSentence, match: WordAlignment) -> str:
    """Why the stretch of a Chinese source that shares most words with clause `n` does not say it: denial, mode, place, or who does it."""
    clause, members = claim.clauses[n], [i for i in members_of(claim, n) if i in match.alike and not claim.words[i].soft]
    shared = Counter(m for i in members for m in {source.words[j].clause for j in match.alike[i]})
    if not shared:
        return ""
    m = max(shared, key=lambda number: (shared[number], number))
    if (clause.negated != source.clauses[m].negated) != _opposed(claim, clause, members_of(claim, n), match):
        return "negation"
    return _modes(clause.modes, source.clauses[m].modes) or _out_of_place(claim, members, source, m, match)


def _out_of_place(claim: ParsedSentence, members: Sequence[int], source: ParsedSentence, m: int, match: WordAlignment) -> str:
    """Which word of a Chinese claim stands elsewhere than in stretch `m` of the source, and whether somebody else does it there.

    Other words may be what is talked about: nouns of the stretch before, or the first word of an earlier one, if this has no other subject.
    """
    firsts = {c: next((j for j, w in enumerate(source.words) if w.clause == c and not w.soft and not w.when), None) for c in range(m + 1)}
    subject = firsts.pop(m)
    has_subject = subject is not None and (
        source.words[subject].kind == "name" or (source.words[subject].role == "noun" and subject not in match.of(members))
    )
    before = {j for j, word in enumerate(source.words) if word.role == "noun" and word.clause == m - 1} | set(firsts.values())
    nouns: dict[int, int] = {}
    for i in members:
        here = [j for j in match.alike[i] if source.words[j].clause == m] or [j for j in match.alike[i] if j in before and not has_subject]
        if not here and not claim.words[i].when:
            return f"elsewhere:{claim.words[i].text}"
        if here and all(_excluded(claim.words[i].before, source.words[j].before) for j in here):
            return f"preposition:{claim.words[i].text}"
        if here and "noun" in (claim.words[i].role, *(source.words[j].role for j in here)):
            nouns[i] = min(here)
    if not nouns or match.converse or "是" in claim.text:
        return ""
    return "" if nouns[_doer(claim, list(nouns))] == _doer(source, sorted(nouns.values())) else "role:swapped"


def _doer(sentence: ParsedSentence, nouns: Sequence[int]) -> int:
    """Which of some nouns of a Chinese sentence does it: the one right behind 被 or 由, else the first."""
    return next((n for n in nouns if sentence.text[max(0, sentence.spans[n][0] - 1)] in "被由"), nouns[0])


_SHADES = {"past", "future", "must", "certain"}  # modes that are compared by rules of their own


def _is_expected(clause: Clause, source: ParsedSentence, matched_words: Set[int]) -> bool:
    """Whether a clause of a source only expects, plans or asks for what a claim states: "expects revenue of 50 million" is none yet."""
    return clause.verb is not None and clause.verb not in matched_words and bool(source.words[clause.verb].keys & IRREALIS_VERBS)


def _modes(mine: frozenset[str], other: frozenset[str]) -> str:
    """What is said to be possible or a duty is not said to be so; "would" stands for what was promised, planned or proposed."""
    if "future" in other and "past" in mine:
        return "mode:future"
    if "certain" in mine - other:
        return "mode:certain"
    mine, other = mine - _SHADES, other - _SHADES
    for mode in ("possible", "duty"):
        if (mode in mine) != (mode in other) and not (mode in mine and other):
            return f"mode:{mode}"
    if ("unreal" in mine and not other) or ("unreal" in other and not mine):
        return "mode:unreal"
    return ""


def _opposed(claim: ParsedSentence, clause: Clause, members: Sequence[int], match: WordAlignment) -> bool:
    return any(match.opposite.get(i) and i not in match.alike and not claim.words[i].soft for i in members if i != clause.verb)


def verb_match(match: WordAlignment, verb: int | None, other: int | None) -> str:
    """How two verbs correspond: "same", "converse" (buy and sell) or "opposite"; empty if in none of these ways."""
    if verb is None or other is None:
        return ""
    if other in match.alike.get(verb, ()):
        return "same"
    if other in match.converse.get(verb, ()):
        return "converse"
    return "opposite" if other in match.opposite.get(verb, ()) else ""


def _roles(claim: ParsedSentence, clause: Clause, source: ParsedSentence, other: Clause, match: WordAlignment, how: str) -> str:
    """Whether who does it and to whom are the same."""
    if not how or clause.verb is None or other.verb is None or (how != "converse" and claim.words[clause.verb].keys & {"be"}):
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
    return _objects(source, other, done) if done and not done & other.objects else ""


def _objects(source: ParsedSentence, other: Clause, done: set[int]) -> str:
    """Whether what the claim has as objects, `done` in the source, can be those of the source's clause, though not read as such."""
    assert other.verb is not None
    if not other.passive and not other.leans and all(source.words[j].at < source.words[other.verb].at for j in done):
        return "role:before the verb"  # "the committee under Farrant fined" nobody named Farrant
    if not other.objects or _pronoun(source, other.objects):
        return ""
    number = source.clauses.index(other)
    inside = {j for j in done if number in (source.words[j].clause, source.clauses[source.words[j].clause].within)}
    if not inside:
        return "role:other object"
    behind = all(source.words[j].before in ("into", "from", "against", "without", "by") for j in inside)
    return "role:object behind a preposition" if behind else ""


def heads_of(reading: ParsedSentence, numbers: frozenset[int]) -> list[int]:
    """The nouns and names among some words: no numbers, no pronouns."""
    return [n for n in numbers if reading.words[n].kind in ("name", "word") and not reading.words[n].soft]


def _pronoun(reading: ParsedSentence, numbers: frozenset[int]) -> bool:
    return all(reading.words[n].soft for n in numbers)


def _elsewhere(claim: ParsedSentence, clause: Clause, members: Sequence[int], source: ParsedSentence, m: int, match: WordAlignment) -> str:
    """Whether the words of the claim's clause stand in the source's clause, in one within it, or are its subject."""
    other = source.clauses[m]
    inside = {m} | {n for n, c in enumerate(source.clauses) if c.within == m} | ({other.within} if other.within is not None else set())
    home = {j for j, w in enumerate(source.words) if w.clause in inside} | other.subject | other.objects
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
            _rivals(source, other, mine) or word.kind in ("name", "number") or i in clause.subject | clause.objects or word.when
        ):
            return f"elsewhere:{word.text}"
        if word.before and all(_excluded(word.before, source.words[j].before) for j in mine):
            return f"preposition:{word.text}"
    return ""


def _rivals(source: ParsedSentence, clause: Clause, numbers: set[int]) -> bool:
    """Whether words stand in clauses that say the opposite of this one: "fell in the first group but rose in the second"."""
    verbs = [source.clauses[source.words[n].clause].verb for n in numbers]
    return clause.verb is not None and any(
        verb is not None and are_antonyms(source.words[clause.verb].keys, source.words[verb].keys, "en") for verb in verbs
    )


def _excluded(a: str, b: str) -> bool:
    return any((a in x and b in y) or (a in y and b in x) for x, y in _EXCLUDE)


SAME_MATTER = 0.5  # least share of the claim's words in the source, at which both are taken to be about the same thing
# Quantifiers by how much they cover: two that are more than one step apart contradict each other.
_SCALE = {"none": -2, "few": 0, "some": 1, "many": 2, "half": 2.5, "most": 3, "all": 5}


def contradiction(
    claim: ParsedSentence, source: ParsedSentence, known: Callable[[ParsedWord], bool] = lambda _: False, *, names: bool = True
) -> str:
    """How the source contradicts the claim, in a word or two; empty where it does not, or is about something else.

    `known` tells whether a number or date occurs elsewhere in the passage. `names`: whether a capital marks a name in the claim's language;
    in German it marks any noun.
    """
    match = matched(claim, source)
    telling = [i for i, word in enumerate(claim.words) if not word.soft]
    lacking = [i for i in telling if not (i in match.alike or match.opposite.get(i) or match.converse.get(i))]
    if not telling or len(lacking) > (1 - SAME_MATTER) * len(telling):
        return ""
    return (
        _other_unit(claim, source)
        or _other_number(claim, source, match, lacking, known)
        or _other_of_class(claim, source, match, lacking, known)
        or _other_frequency(claim, source)
        or _other_bound(claim, source)
        or _other_contrast(claim, source)
        or (_other_name(claim, source, match, lacking) if names else "")
        or _other_quantifier(claim, source, match)
        or next((why for n in range(len(claim.clauses)) if (why := _clauses(claim, n, source, match))), "")
    )


def _other_unit(claim: ParsedSentence, source: ParsedSentence) -> str:
    """A number of the claim that the source has with other units only: 480,000 dollars for euros, two weeks for months, 3 pm for am."""
    for word in claim.words:
        if word.kind == "number" and word.unit:
            units = {other.unit for other in source.words if other.kind == "number" and other.text == word.text}
            if units and "" not in units and all(not _same_unit(word.unit, unit) for unit in units):
                return f"number:{word.text} {word.unit}"
    return ""


def _other_of_class(
    claim: ParsedSentence, source: ParsedSentence, match: WordAlignment, lacking: Sequence[int], known: Callable[[ParsedWord], bool]
) -> str:
    """A day of the week or month of the claim in place of which the source has another one."""
    said = match.of(range(len(claim.words)))
    rest = [word for j, word in enumerate(source.words) if j not in said]
    for word in (claim.words[i] for i in lacking):
        for members in (DAYS, MONTHS):
            if word.keys & members and not known(word) and any(other.keys & members for other in rest):
                return f"date:{word.text}"
    return ""


def _other_frequency(claim: ParsedSentence, source: ParsedSentence) -> str:
    """How often the claim says something happens, if the source says another frequency and not this one."""
    mine, often = ({OFTEN[word] for word in _lower(sentence) if word in OFTEN} for sentence in (claim, source))
    return f"number:{min(mine, key=str)}" if mine and often and not mine & often else ""


def _lower(sentence: ParsedSentence) -> list[str]:
    return re.findall(r"[^\W_]+", sentence.text.lower())


def _other_contrast(claim: ParsedSentence, source: ParsedSentence) -> str:
    """What the claim excludes and the source includes, and the other way round: the owner, not the insurer."""
    mine, others = _contrasted(claim), _contrasted(source)
    swapped = mine & {w.text for w in source.words} - others and others & {w.text for w in claim.words} - mine
    return "roles" if swapped else ""


_BOUND = re.compile(
    r"\b(?P<above>more than|over|above|at least|no (?:less|fewer) than|older than|longer than)\s+(?P<many>[\w,.]+)"
    r"|\b(?P<below>less than|fewer than|under|below|at most|up to|no more than|as many as|younger than|shorter than)\s+(?P<few>[\w,.]+)"
)


def _other_bound(claim: ParsedSentence, source: ParsedSentence) -> str:
    """A number that is a lower bound in one of the sentences and an upper bound in the other: over 14 for under 14."""
    mine, others = _bounds(claim), _bounds(source)
    return next((f"number:{n}" for n, sides in mine.items() if n in others and not sides & others[n]), "")


def _bounds(sentence: ParsedSentence) -> dict[str, set[str]]:
    """Number → whether it is said to be exceeded, or not to be reached."""
    found: dict[str, set[str]] = {}
    for m in _BOUND.finditer(sentence.text.lower()):
        side = "above" if m["above"] else "below"
        for quantity in english_quantities((m["many"] or m["few"]).strip(".,")):
            found.setdefault(quantity.value, set()).add(side)
    return found


def _other_number(
    claim: ParsedSentence, source: ParsedSentence, match: WordAlignment, lacking: Sequence[int], known: Callable[[ParsedWord], bool]
) -> str:
    """A number or date of the claim, in place of which the source has another."""
    said = match.of(range(len(claim.words)))
    alone = all(claim.words[i].figure for i in lacking)  # the source has everything else of the claim
    for i in lacking:
        word = claim.words[i]
        if not (word.figure or word.unit) or (known(word) and not alone):
            continue
        others = [j for j, other in enumerate(source.words) if j not in said and other.kind == word.kind and (other.figure or other.unit)]
        if any(_same_thing(claim, i, source, j, match) or (alone and _has_same_unit(word, source.words[j])) for j in others):
            return f"{'number' if word.kind == 'number' else 'date'}:{word.text}"
    return ""


def _other_name(claim: ParsedSentence, source: ParsedSentence, match: WordAlignment, lacking: Sequence[int]) -> str:
    """A name of the claim in place of which the source has another; only names may be missing from the source."""
    if not lacking or any(claim.words[i].kind != "name" for i in lacking):
        return ""
    said = match.of(range(len(claim.words)))
    others = [word for j, word in enumerate(source.words) if j not in said and word.kind == "name"]
    for word in (claim.words[i] for i in lacking):
        alike = [other for other in source.words if not other.keys.isdisjoint(word.keys)]
        if not alike and any(_same_place(word, other) for other in others):
            return f"name:{word.text}"
    return ""


def _same_place(a: ParsedWord, b: ParsedWord) -> bool:
    """Whether two words stand behind the same preposition, or are both a subject or both an object."""
    return a.before == b.before if a.before and b.before else a.role == b.role in ("subject", "object")


def _has_same_unit(a: ParsedWord, b: ParsedWord) -> bool:
    return a.unit == b.unit or not a.unit or not b.unit


def _same_thing(claim: ParsedSentence, i: int, source: ParsedSentence, j: int, match: WordAlignment) -> bool:
    """Whether two numbers count the same thing, or two years date it: the same word follows them, or the same preposition precedes them."""
    a, b = claim.words[i], source.words[j]
    after, following = _next(claim, i), _next(source, j)
    if after is not None and following is not None and following in match.alike.get(after, ()):
        return _has_same_unit(a, b)
    return bool(a.before) and a.before == b.before and _year(a) and _year(b)


def _next(reading: ParsedSentence, i: int) -> int | None:
    n = i + 1
    return n if n < len(reading.words) and reading.words[n].at - reading.words[i].at <= 2 else None


def _year(word: ParsedWord) -> bool:
    return word.when or (len(word.text) == 4 and word.text.isdigit() and not word.unit)


def _other_quantifier(claim: ParsedSentence, source: ParsedSentence, match: WordAlignment) -> str:
    """A quantifier of the claim that the source's quantifier of the same noun excludes: few and most, all and some."""
    if any(c.negated for c in (*claim.clauses, *source.clauses)):
        return ""
    for i, kind in claim.quantified:
        same = [other for j, other in source.quantified if j in match.alike.get(i, ())]
        if kind in _SCALE and same and all(other in _SCALE and abs(_SCALE[kind] - _SCALE[other]) > 1 for other in same):
            return f"quantifier:{kind}"
    return ""


def _clauses(claim: ParsedSentence, n: int, source: ParsedSentence, match: WordAlignment) -> str:
    """How all clauses of the source that clause `n` of the claim may restate contradict it: negation, mode, roles; empty if they do not."""
    if claim.chinese:
        return "negation" if _chinese_clause(claim, n, source, match) == "negation" else ""
    restated = counterpart_clauses(claim, n, source, match)
    if restated and all(_denies(claim, n, source, m, match) for m in restated):
        return "negation"
    mine = claim.clauses[n].modes
    if restated and "must" in mine and all("possible" in source.clauses[m].modes for m in restated):
        return "mode"
    return "roles" if restated and all(_swaps(claim, n, source, m, match) for m in restated) else ""


def _denies(claim: ParsedSentence, n: int, source: ParsedSentence, m: int, match: WordAlignment) -> bool:
    """Whether clause `m` of the source is the opposite of clause `n` of the claim: just one is negated, or a word has an antonym there."""
    clause, other = claim.clauses[n], source.clauses[m]
    rest = [i for i in members_of(claim, n) if i != clause.verb and not claim.words[i].soft]
    home = {j for j, word in enumerate(source.words) if word.clause == m} | other.subject | other.objects
    free = home - match.of(range(len(claim.words)))  # a word that the claim has, too, is not said in place of another
    turned = [i for i in rest if i not in match.alike and match.opposite.get(i, set()) & free]
    how = verb_match(match, clause.verb, other.verb)
    told = sum(bool(home & set(match.alike.get(i, ()))) for i in rest)
    if not (how or turned) or 2 * (told + len(turned)) < len(rest):
        return False
    return (clause.negated != other.negated) != (how == "opposite" or bool(turned))


def _swaps(claim: ParsedSentence, n: int, source: ParsedSentence, m: int, match: WordAlignment) -> bool:
    """Whether clause `m` of the source has subject and object of clause `n` swapped, or another name as subject."""
    clause, other = claim.clauses[n], source.clauses[m]
    how = verb_match(match, clause.verb, other.verb)
    if how not in ("same", "converse") or clause.verb is None or claim.words[clause.verb].keys & {"be"}:
        return False
    subject, objects = (other.objects, other.subject) if how == "converse" else (other.subject, other.objects)
    doer, done = match.of(heads_of(claim, clause.subject)), match.of(heads_of(claim, clause.objects))
    if not doer or doer & subject:
        return False
    named = how == "same" and all(any(source.words[j].kind == "name" for j in of) for of in (doer, subject))
    return named or bool(doer & objects and done & subject and not done & objects)
