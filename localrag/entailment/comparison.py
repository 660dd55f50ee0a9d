"""Whether a source sentence entails or contradicts a claim.

Entailment: every word of the claim has a counterpart in the source with the same role in the same clause; Chinese words are aligned by
their characters, too. Contradiction: a different number, date or name, an antonym, a negation, another quantifier, or swapped roles.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from localrag.entailment.english import DAYS, MONTHS, OFTEN
from localrag.entailment.lexicon import (
    Clause,
    ParsedSentence,
    ParsedWord,
    are_antonyms,
    are_converses,
    are_synonyms,
    english_quantities,
    synonyms_of,
)

# Prepositions that exclude each other.
_OPPOSITE_PREPOSITIONS = (
    ({"from", "out of", "off"}, {"to", "into", "towards", "toward", "onto"}),
    ({"for"}, {"against"}),
    ({"with"}, {"without"}),
    ({"before", "until"}, {"after", "since"}),
    ({"above", "over"}, {"below", "under", "beneath", "underneath"}),
    ({"inside", "in"}, {"outside", "into"}),
)


@dataclass(frozen=True)
class WordAlignment:
    """The numbers of the source's words that each word of the claim answers to: alike, the opposite, or the same from the other side."""

    alike: dict[int, set[int]] = field(default_factory=dict)
    opposite: dict[int, set[int]] = field(default_factory=dict)
    converse: dict[int, set[int]] = field(default_factory=dict)

    def of(self, numbers: Iterable[int]) -> set[int]:
        """The source's counterparts of some words of the claim."""
        return {s for n in numbers for s in self.alike.get(n, ())}


def unsupported_reason(claim: ParsedSentence, source: ParsedSentence) -> str:
    """Why the source does not support the claim, in one word; empty where it does."""
    match = matched(claim, source)
    if not any(i in match.alike and not word.soft for i, word in enumerate(claim.words)):
        return "nothing said"
    return (
        _unmatched_word(claim, source, match)
        or _conditions(claim, source)
        or _quantifiers(claim, source)
        or _separated_words(claim, source, match)
        or next((why for clause in range(len(claim.clauses)) if (why := _clause(claim, clause, source, match))), "")
    )


def matched(claim: ParsedSentence, source: ParsedSentence) -> WordAlignment:
    """The words of the source that correspond to the words of the claim."""
    match, language = WordAlignment(), "zh" if claim.chinese else "en"
    for i, word in enumerate(claim.words):
        written = _occurrences(word, source) if claim.chinese and word.kind != "number" else frozenset()
        for j, other in enumerate(source.words):
            if j in written or _is_same(word, other, language):
                match.alike.setdefault(i, set()).add(j)
            elif {word.kind, other.kind} == {"word"} and are_converses(word.keys, other.keys, language):
                match.converse.setdefault(i, set()).add(j)
            elif _is_opposite(word, other, language):
                match.opposite.setdefault(i, set()).add(j)
    return match


def _occurrences(word: ParsedWord, source: ParsedSentence) -> set[int]:
    """The words of a Chinese source within which a word, or one that means the same, is written."""
    found = set()
    for way in {word.text, *synonyms_of(word.text, "zh")} if word.kind == "word" else {word.text}:
        for m in re.finditer(re.escape(way), source.text):
            is_short = len(way) == 1 and way != word.text
            found |= {j for j, (a, b) in source.spans.items() if a < m.end() and m.start() < b and not (is_short and b - a > 1)}
    return found


def _is_same(word: ParsedWord, other: ParsedWord, language: str) -> bool:
    if "number" in (word.kind, other.kind):
        return word.kind == other.kind and not word.keys.isdisjoint(other.keys) and _same_unit(word.unit, other.unit)
    if word.text == other.text:
        return True
    if language == "zh":
        return False
    if "name" in (word.kind, other.kind):
        return word.kind == other.kind == "name" and are_synonyms(frozenset({word.text}), frozenset({other.text}), "en")
    if are_antonyms(word.keys, other.keys, "en") and not _plain(word.keys) & _plain(other.keys):
        return False
    return bool(word.keys & other.keys) or are_synonyms(word.keys, other.keys, "en")


def _is_opposite(word: ParsedWord, other: ParsedWord, language: str) -> bool:
    if language == "zh":
        return other.kind == "word" and are_antonyms(word.keys, other.keys, "zh")
    return word.kind == other.kind == "word" and are_antonyms(word.keys, other.keys, "en") and not _plain(word.keys) & _plain(other.keys)


def _same_unit(a: str, b: str) -> bool:
    return not a or not b or a == b or {a, b} <= {"th", "day"}


def _plain(keys: frozenset[str]) -> set[str]:
    return {k for k in keys if not k.startswith("~")}


def _unmatched_word(claim: ParsedSentence, source: ParsedSentence, match: WordAlignment) -> str:
    """The first word of the claim without a counterpart."""
    for i, word in enumerate(claim.words):
        if word.soft and claim.chinese and i in match.opposite and i not in match.alike:
            return f"turned:{word.text}"
        if i in match.alike or word.soft or i in match.converse:
            continue
        if i in match.opposite and _is_double_negation(claim, source, i, match):
            continue
        return f"{word.kind}:{word.text}"
    return ""


def _is_double_negation(claim: ParsedSentence, source: ParsedSentence, i: int, match: WordAlignment) -> bool:
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


def _separated_words(claim: ParsedSentence, source: ParsedSentence, match: WordAlignment) -> str:
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
        if not any(abs(source.words[s].at - source.words[t].at) <= most for s in match.alike[i] for t in match.alike[i + 1]):
            return f"apart:{a.text} {b.text}"
    return ""


def _clause(claim: ParsedSentence, n: int, source: ParsedSentence, match: WordAlignment) -> str:
    """Why no clause of the source that shares most words with clause `n` says it: denial, mode, place, role; empty if one does."""
    all_members = [i for i, word in enumerate(claim.words) if word.clause == n]
    members = [i for i in all_members if i in match.alike and not claim.words[i].soft]
    shared = Counter(m for i in members for m in {source.words[j].clause for j in match.alike[i]})
    verb, reasons = claim.clauses[n].verb, []
    if verb is not None:
        verbs = {*match.alike.get(verb, ()), *match.opposite.get(verb, ()), *match.converse.get(verb, ())}
        shared = Counter({m: count for m, count in shared.items() if source.clauses[m].verb in verbs}) or shared
    for m in (m for m, count in sorted(shared.items(), reverse=True) if count == max(shared.values())):
        mine, other = claim.clauses[n], source.clauses[m]
        if (mine.negated != other.negated) != _opposed(claim, all_members, source, m, match):
            reasons.append("negation")
        else:
            place = _out_of_place if claim.chinese else _other_place
            reasons.append(_modality_difference(mine.modes, other.modes) or place(claim, members, source, m, match))
    return "" if "" in reasons else next(iter(reasons), "")


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
        if here and "noun" in (claim.words[i].role, *(source.words[j].role for j in here)):
            nouns[i] = min(here)
    if not nouns or match.converse or "是" in claim.text:
        return ""
    return "" if nouns[_doer(claim, list(nouns))] == _doer(source, sorted(nouns.values())) else "role:swapped"


def _doer(sentence: ParsedSentence, nouns: Sequence[int]) -> int:
    """Which of some nouns of a Chinese sentence does it: the one right behind 被 or 由, else the first."""
    return next((n for n in nouns if sentence.text[max(0, sentence.spans[n][0] - 1)] in "被由"), nouns[0])


_SHADES = {"past", "future", "must", "certain"}  # modes that are compared by rules of their own


def _modality_difference(mine: frozenset[str], other: frozenset[str]) -> str:
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


def _opposed(claim: ParsedSentence, members: Sequence[int], source: ParsedSentence, m: int, match: WordAlignment) -> bool:
    """Whether a word has its opposite in clause `m` of the source, not itself; a word that the claim has, too, stands for itself."""
    here = {j for j, word in enumerate(source.words) if word.clause == m}
    verb = claim.clauses[claim.words[members[0]].clause].verb
    free = [i for i in members if here.isdisjoint(match.alike.get(i, ())) and (i == verb or not claim.words[i].soft)]
    said = match.of(range(len(claim.words)))
    return any((match.opposite.get(i, set()) & here) - said for i in free)


def _other_place(claim: ParsedSentence, members: Sequence[int], source: ParsedSentence, m: int, match: WordAlignment) -> str:
    """Which word of an English claim stands elsewhere than in clause `m` of the source, or has another role there."""
    other = source.clauses[m]
    home = {j for j, word in enumerate(source.words) if word.clause == m} | other.subject | other.objects
    for i in members:
        word, here = claim.words[i], home & match.alike[i]
        if not here and (word.kind in ("name", "number") or word.when or word.role in ("subject", "object")):
            return f"elsewhere:{word.text}"
        if here and word.before and all(_excluded(word.before, source.words[j].before) for j in here):
            return f"preposition:{word.text}"
    return _other_role(claim, members, other, match)


def _other_role(claim: ParsedSentence, members: Sequence[int], other: Clause, match: WordAlignment) -> str:
    doer, done = (match.of(i for i in members if claim.words[i].role == role) for role in ("subject", "object"))
    verb = claim.clauses[claim.words[members[0]].clause].verb
    if verb is not None and other.verb in match.converse.get(verb, ()):
        return "role:converse" if doer & other.subject else ""  # who bought it is not who sold it
    if verb is None or other.verb not in match.alike.get(verb, ()):
        return ""
    if doer and not doer & other.subject and (other.subject or doer & other.objects):
        return "role:subject" if other.subject and not doer & other.objects else "role:swapped"
    return "role:object" if done and other.objects and not done & other.objects else ""


def _excluded(a: str, b: str) -> bool:
    return any((a in x and b in y) or (a in y and b in x) for x, y in _OPPOSITE_PREPOSITIONS)


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
    unmatched = [i for i in telling if not (i in match.alike or match.opposite.get(i) or match.converse.get(i))]
    if not telling or len(unmatched) > (1 - SAME_MATTER) * len(telling):
        return ""
    return (
        _other_unit(claim, source)
        or _other_number(claim, source, match, unmatched, known)
        or _other_of_class(claim, source, match, unmatched, known)
        or _other_frequency(claim, source)
        or _other_bound(claim, source)
        or _other_contrast(claim, source)
        or (_other_name(claim, source, match, unmatched) if names else "")
        or _other_quantifier(claim, source, match)
        or next((why for n in range(len(claim.clauses)) if (why := _clause_against(claim, n, source, match))), "")
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
    claim: ParsedSentence, source: ParsedSentence, match: WordAlignment, unmatched: Sequence[int], known: Callable[[ParsedWord], bool]
) -> str:
    """A day of the week or month of the claim in place of which the source has another one."""
    said = match.of(range(len(claim.words)))
    rest = [word for j, word in enumerate(source.words) if j not in said]
    for word in (claim.words[i] for i in unmatched):
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
    claim: ParsedSentence, source: ParsedSentence, match: WordAlignment, unmatched: Sequence[int], known: Callable[[ParsedWord], bool]
) -> str:
    """A number or date of the claim, in place of which the source has another."""
    said = match.of(range(len(claim.words)))
    alone = all(claim.words[i].figure for i in unmatched)  # the source has everything else of the claim
    for i in unmatched:
        word = claim.words[i]
        if not (word.figure or word.unit) or (known(word) and not alone):
            continue
        others = [j for j, other in enumerate(source.words) if j not in said and other.kind == word.kind and (other.figure or other.unit)]
        if any(_same_thing(claim, i, source, j, match) or (alone and _has_same_unit(word, source.words[j])) for j in others):
            return f"{'number' if word.kind == 'number' else 'date'}:{word.text}"
    return ""


def _other_name(claim: ParsedSentence, source: ParsedSentence, match: WordAlignment, unmatched: Sequence[int]) -> str:
    """A name of the claim in place of which the source has another; only names may be missing from the source."""
    if not unmatched or any(claim.words[i].kind != "name" for i in unmatched):
        return ""
    said = match.of(range(len(claim.words)))
    others = [word for j, word in enumerate(source.words) if j not in said and word.kind == "name"]
    for word in (claim.words[i] for i in unmatched):
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


def _clause_against(claim: ParsedSentence, n: int, source: ParsedSentence, match: WordAlignment) -> str:
    """How the clause of the source that clause `n` of the claim restates contradicts it: negation, duty for permission, roles."""
    members = [i for i, word in enumerate(claim.words) if word.clause == n and not word.soft]
    if 2 * sum(i in match.alike or bool(match.opposite.get(i)) for i in members) < len(members):
        return ""
    reason = _clause(claim, n, source, match)
    if reason == "mode:possible" and "must" in claim.clauses[n].modes:
        return "mode"
    return "negation" if reason == "negation" else "roles" if reason == "role:swapped" and not claim.chinese else ""
