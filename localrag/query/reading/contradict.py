"""Whether one sentence contradicts another: another number, date or name, an antonym, a negation, another quantifier, swapped roles."""

from collections.abc import Callable, Sequence

from localrag.query.reading.agree import Match, counterpart_clauses, heads_of, matched, members_of, verb_match
from localrag.query.reading.record import Reading, Word

SAME_MATTER = 0.5  # least share of the claim's words in the source, at which both are taken to be about the same thing
# Quantifiers by how much they cover: two that are more than one step apart contradict each other.
_SCALE = {"none": -2, "few": 0, "some": 1, "many": 2, "most": 3, "all": 5}


def contradiction(claim: Reading, source: Reading, known: Callable[[Word], bool] = lambda _: False, *, names: bool = True) -> str:
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
        _other_number(claim, source, match, lacking, known)
        or (_other_name(claim, source, match, lacking) if names else "")
        or _other_quantifier(claim, source, match)
        or next((why for n in range(len(claim.clauses)) if (why := _clauses(claim, n, source, match))), "")
    )


def _other_number(claim: Reading, source: Reading, match: Match, lacking: Sequence[int], known: Callable[[Word], bool]) -> str:
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


def _other_name(claim: Reading, source: Reading, match: Match, lacking: Sequence[int]) -> str:
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


def _same_place(a: Word, b: Word) -> bool:
    """Whether two words stand behind the same preposition, or are both a subject or both an object."""
    return a.before == b.before if a.before and b.before else a.role == b.role in ("subject", "object")


def _has_same_unit(a: Word, b: Word) -> bool:
    return a.unit == b.unit or not a.unit or not b.unit


def _same_thing(claim: Reading, i: int, source: Reading, j: int, match: Match) -> bool:
    """Whether two numbers count the same thing, or two years date it: the same word follows them, or the same preposition precedes them."""
    a, b = claim.words[i], source.words[j]
    after, following = _next(claim, i), _next(source, j)
    if after is not None and following is not None and following in match.alike.get(after, ()):
        return _has_same_unit(a, b)
    return bool(a.before) and a.before == b.before and _year(a) and _year(b)


def _next(reading: Reading, i: int) -> int | None:
    """The index of the word right behind word `i`, if there is one."""
    n = i + 1
    return n if n < len(reading.words) and reading.words[n].at - reading.words[i].at <= 2 else None


def _year(word: Word) -> bool:
    return word.when or (len(word.text) == 4 and word.text.isdigit() and not word.unit)


def _other_quantifier(claim: Reading, source: Reading, match: Match) -> str:
    """A quantifier of the claim that the source's quantifier of the same noun excludes: few and most, all and some."""
    if any(c.negated for c in (*claim.clauses, *source.clauses)):
        return ""
    for i, kind in claim.quantified:
        same = [other for j, other in source.quantified if j in match.alike.get(i, ())]
        if kind in _SCALE and same and all(other in _SCALE and abs(_SCALE[kind] - _SCALE[other]) > 1 for other in same):
            return f"quantifier:{kind}"
    return ""


def _clauses(claim: Reading, n: int, source: Reading, match: Match) -> str:
    """How all clauses of the source that clause `n` of the claim may restate contradict it: "negation" or "roles", empty if they do not."""
    restated = counterpart_clauses(claim, n, source, match)
    if restated and all(_denies(claim, n, source, m, match) for m in restated):
        return "negation"
    return "roles" if restated and all(_swaps(claim, n, source, m, match) for m in restated) else ""


def _denies(claim: Reading, n: int, source: Reading, m: int, match: Match) -> bool:
    """Whether clause `m` of the source is the opposite of clause `n` of the claim: just one is negated, or a word has an antonym there."""
    clause, other = claim.clauses[n], source.clauses[m]
    rest = [i for i in members_of(claim, n) if i != clause.verb and not claim.words[i].soft]
    home = {j for j, word in enumerate(source.words) if word.clause == m} | other.subject | other.objects
    turned = [i for i in rest if i not in match.alike and match.opposite.get(i, set()) & home]
    how = verb_match(match, clause.verb, other.verb)
    told = sum(bool(home & set(match.alike.get(i, ()))) for i in rest)
    if not (how or turned) or 2 * (told + len(turned)) < len(rest):
        return False
    return (clause.negated != other.negated) != (how == "opposite" or bool(turned))


def _swaps(claim: Reading, n: int, source: Reading, m: int, match: Match) -> bool:
    """Whether clause `m` of the source has subject and object of clause `n` swapped, or another name as subject."""
    clause, other = claim.clauses[n], source.clauses[m]
    how = verb_match(match, clause.verb, other.verb)
    if how not in ("same", "converse") or clause.verb is None or claim.words[clause.verb].keys & {"be", "是"}:
        return False
    subject, objects = (other.objects, other.subject) if how == "converse" else (other.subject, other.objects)
    doer, done = match.of(heads_of(claim, clause.subject)), match.of(heads_of(claim, clause.objects))
    if not doer or doer & subject:
        return False
    named = how == "same" and all(any(source.words[j].kind == "name" for j in of) for of in (doer, subject))
    return named or bool(doer & objects and done & subject and not done & objects)
