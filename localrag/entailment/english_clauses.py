"""English clauses: the text between two marks or conjunctions with its verb, subject and objects, without a parser."""

from collections.abc import Sequence
from typing import NamedTuple

from localrag.entailment.english import (
    AUXILIARY,
    BE,
    CERTAINTY_WORDS,
    CONJUNCTIONS,
    DUTY_WORDS,
    IRREALIS_VERBS,
    MONTHS,
    NEGATIVE_VERBS,
    NEGATORS,
    OPTIONAL_WORDS,
    POSSIBILITY_WORDS,
    PREPOSITIONS,
    REFUSALS,
    RELATIVE,
    TIMES,
    TITLES,
    EnglishToken,
    is_content_word,
    prepositions,
    quantifier,
    tokens,
)
from localrag.entailment.lexicon import Clause, ParsedSentence, ParsedWord

_PRONOUNS = frozenset("he she it they".split())
_MEASURES = frozenset("vote percent majority margin point mean way unit time".split())
_MODE_WORDS = {
    "possible": POSSIBILITY_WORDS | {"if", "unless", "whether", "able", "unable"},
    "duty": DUTY_WORDS,
    "certain": CERTAINTY_WORDS,
    "past": frozenset("was were had did".split()),
    "future": frozenset({"will"}),
    "would": frozenset({"would"}),
    "must": frozenset({"must"}),
}


class _EnglishClause(NamedTuple):
    """A clause by the numbers of its tokens.

    `before` and `behind`: nouns before and behind its verb that no preposition governs; `before` may be those of an earlier clause.
    """

    tokens: list[int]
    verb: int | None = None
    before: Sequence[int] = ()
    behind: Sequence[int] = ()
    agent: Sequence[int] = ()
    passive: bool = False

    @property
    def subject(self) -> Sequence[int]:
        """Who does it; a passive is turned round."""
        return self.agent if self.passive else self.before

    @property
    def objects(self) -> Sequence[int]:
        """To whom it is done."""
        return [*self.before, *self.behind] if self.passive else self.behind


def parse_english(text: str) -> ParsedSentence:
    """The reading of an English sentence."""
    toks = tokens(text)
    governed = prepositions(toks)
    parsed: list[_EnglishClause] = []
    for part in _clause_tokens(toks):
        parsed.append(_parse_clause(toks, part, governed, parsed))
    places = {k: n for n, one in enumerate(parsed) for k in one.tokens}
    roles = {k: "object" for one in parsed for k in one.objects if k in one.tokens}
    roles |= {k: "subject" for one in parsed for k in one.subject if k in one.tokens}
    roles |= {one.verb: "verb" for one in parsed if one.verb is not None}
    told = [k for k, token in enumerate(toks) if is_content_word(token) or (roles.get(k) == "verb" and token.low not in AUXILIARY)]
    number_of = {k: n for n, k in enumerate(told)}
    words = tuple(_word(toks, k, places[k], roles.get(k, "other"), governed.get(k, "")) for k in told)
    clauses = tuple(_to_clause(toks, one, number_of) for one in parsed)
    kinds = {k: kind for k in range(len(toks)) if (kind := _quantifier(toks, k))}
    quantified = tuple((number_of[j], kind) for k, kind in kinds.items() if (j := _next_of(k, number_of, kinds)))
    subject = _phrase(toks, [k for k in parsed[0].before if toks[k].low not in _PRONOUNS]) if parsed else ""
    return ParsedSentence(text, words, clauses, frozenset(kinds.values()), quantified, subject=subject)


def _clause_tokens(toks: list[EnglishToken]) -> list[list[int]]:
    """The tokens of each clause: those between two marks or conjunctions, with what has no verb of its own."""
    pieces: list[list[int]] = [[]]
    for k, token in enumerate(toks):
        if token.low in ",;:—–" or (token.low in RELATIVE | CONJUNCTIONS and not (k and toks[k - 1].low == "not")):
            pieces.append([])
        pieces[-1].append(k)
    found: list[list[int]] = [[]]
    pending: list[int] = []  # a conjunction and what follows it, until a verb tells whether it begins a clause
    for piece in filter(None, pieces):
        verb = next((k for k in piece if _is_verb(toks, k)), None)
        if verb is None:
            if pending or toks[piece[0]].low in CONJUNCTIONS - PREPOSITIONS:
                pending += piece
            else:
                found[-1] += piece
        elif any(_is_verb(toks, k) for k in found[-1]) and not (verb and toks[verb - 1].low == "to" and not pending):
            found.append([*pending, *piece])
            pending = []
        else:
            found[-1] += [*pending, *piece]
            pending = []
    found[-1] += pending
    return found


def _verb_of(toks: list[EnglishToken], part: list[int]) -> int | None:
    """The first verb of some tokens behind its auxiliaries; None without one."""
    verbs = [k for k in part if _is_verb(toks, k)]
    if not verbs:
        return None
    last = verbs[0]
    for k in verbs[1:]:
        if toks[last].low not in AUXILIARY or any(not toks[j].tag.startswith("RB") and toks[j].low != "not" for j in range(last + 1, k)):
            break
        last = k
    return last


def _is_verb(toks: list[EnglishToken], k: int) -> bool:
    token = toks[k]
    if token.low in AUXILIARY and token.tag != "NNP" and not (token.low == "may" and token.text == "May"):
        return True
    before = toks[k - 1].tag if k else ""  # "the adjusted profit", "the meeting", "of paid vacation"
    is_attribute = before.startswith(("DT", "PRP$", "JJ", "CD")) or (before == "IN" and token.tag == "VBN")
    return bool(token.verb) and token.tag.startswith("VB") and not (is_attribute or token.owner or (token.text[:1].isupper() and k))


def _parse_clause(toks: list[EnglishToken], part: list[int], governed: dict[int, str], earlier: list[_EnglishClause]) -> _EnglishClause:
    """A clause with its subject and object; without a noun before the verb it has the antecedent, or what the clause before it has."""
    verb = _verb_of(toks, part)
    if verb is None:
        return _EnglishClause(part)
    auxiliaries = {toks[k].low for k in part if k < verb and verb - k < 4}
    nouns = [k for k in part if k != verb and _can_do(toks[k])]
    before = [k for k in nouns if k < verb and k not in governed]
    behind = [k for k in nouns if k > verb and k not in governed]
    agent = [k for k in nouns if k > verb and governed.get(k) == "by" and not toks[k].keys & _MEASURES]
    is_bare = toks[verb].tag == "VBN" and not auxiliaries & AUXILIARY
    participle = is_bare and not before and not (earlier and earlier[-1].passive)
    is_put = toks[verb].tag in ("VBN", "VBD") and not auxiliaries.isdisjoint(BE | {"get", "gets", "got"})
    passive = participle or is_put or (bool(agent) and (is_bare or toks[verb - 1].low == ","))  # "the stone, found by soldiers, is"
    if not before and earlier:
        is_relative = any(toks[k].tag.startswith("W") for k in part[:2])
        before = _antecedent(toks, part[0], governed) if is_relative or participle or toks[verb].tag == "VBG" else list(earlier[-1].before)
    return _EnglishClause(part, verb, before, behind, agent, passive)


def _can_do(token: EnglishToken) -> bool:
    """Whether a word can be subject or object."""
    if token.owner or token.amount or token.keys & TIMES or not (is_content_word(token) or token.low in _PRONOUNS):
        return False
    return token.tag.startswith(("NN", "PRP", "JJ")) or token.text[:1].isupper()


def _antecedent(toks: list[EnglishToken], start: int, governed: dict[int, str]) -> list[int]:
    """The words of the noun phrase before a clause."""
    found: list[int] = []
    for k in range(start - 1, max(-1, start - 6), -1):
        if _can_do(toks[k]) and (not found or governed.get(k) == governed.get(found[-1])):
            found.append(k)
        elif found:
            break
    return found


def _to_clause(toks: list[EnglishToken], one: _EnglishClause, number_of: dict[int, int]) -> Clause:
    """What a clause is under: denial, possibility, duty, a wish or a plan."""
    said = {toks[k].low for k in one.tokens if not (toks[k].text[:1].isupper() and k)}  # not May, nor Reporters Without Borders
    modes = {mode for mode, words in _MODE_WORDS.items() if said & words}
    refused = [k for k in one.tokens if (toks[k].verb or toks[k].low) in REFUSALS and _to_follows(toks, k)]
    if any(toks[k].verb in IRREALIS_VERBS and toks[k].tag.startswith("VB") and k not in refused for k in one.tokens):
        modes.add("unreal")
    if one.verb is not None and toks[one.verb].tag == "VBD":
        modes.add("past")
    is_denied = bool(said & NEGATORS) != (len(refused) % 2 == 1)  # "no moons and almost no air" denies once
    subject, objects = (frozenset(number_of[k] for k in numbers if k in number_of) for numbers in (one.subject, one.objects))
    verb = None if one.verb is None else number_of.get(one.verb)
    return Clause(verb, is_denied, frozenset(modes), subject, objects)


def _to_follows(toks: list[EnglishToken], k: int) -> bool:
    """Whether a verb stands behind another: "failed to pay", "stopped paying"."""
    return k + 1 < len(toks) and (toks[k + 1].low in ("to", "from") or toks[k + 1].tag == "VBG")


def _quantifier(toks: list[EnglishToken], k: int) -> str:
    """The kind of quantifier a token is: "a few" and "not all" count as some; "how many" and the "some" of "some 20" as no quantifier."""
    kind, before = quantifier(toks[k]), toks[k - 1].low if k else ""
    if (kind == "some" and k + 1 < len(toks) and toks[k + 1].amount) or (kind == "many" and before == "how"):
        return ""
    return "some" if (kind, before) in (("few", "a"), ("all", "not")) else kind


def _next_of(k: int, number_of: dict[int, int], kinds: dict[int, str]) -> int:
    """The index of the word that a quantifier applies to: the next content word that is no quantifier itself; 0 if none is near."""
    return next((j for j in range(k + 1, k + 5) if j in number_of and j not in kinds), 0)


def _phrase(toks: list[EnglishToken], numbers: list[int]) -> str:
    if not numbers:
        return ""
    start = min(numbers) - (min(numbers) > 0 and toks[min(numbers) - 1].low in ("the", "a", "an"))
    between = range(start, max(numbers) + 1)
    return " ".join(toks[k].text + "’s" * toks[k].owner for k in between) if len(between) < 12 else ""


def _word(toks: list[EnglishToken], k: int, clause: int, role: str, before: str) -> ParsedWord:
    token = toks[k]
    if token.amount:
        value, unit = token.amount.value, token.amount.unit or ""
        return ParsedWord(value, frozenset({value}), "number", k, clause, role, before, unit=unit)
    kind = "name" if _is_name(toks, k) else "word"
    when = bool(token.keys & TIMES)
    keys, soft = token.keys or frozenset({token.low}), _is_soft(toks, k, kind)
    return ParsedWord(token.low, keys, kind, k, clause, role, before, soft, owner=token.owner, when=when)


def _is_soft(toks: list[EnglishToken], k: int, kind: str) -> bool:
    """Whether a source need not have the word."""
    token = toks[k]
    if token.low.strip(".") in TITLES:
        return True
    if kind == "name" or (token.low in MONTHS and token.text[0].isupper()):
        return False
    failing = bool(token.keys & NEGATIVE_VERBS) and k + 1 < len(toks) and toks[k + 1].low == "to"
    optional = token.keys & OPTIONAL_WORDS
    said = optional and not token.particle and not token.keys & TIMES
    return failing or token.low in OPTIONAL_WORDS | AUXILIARY or bool(said) or any("_" in key for key in optional)


def _is_name(toks: list[EnglishToken], k: int) -> bool:
    token = toks[k]
    if any(map(str.isdigit, token.text)) and not token.amount:
        return True  # 37signals, B2B
    if not token.text[:1].isupper() or token.low in TITLES or token.low in MONTHS:
        return False
    if k and toks[k - 1].text not in ('"', "“", ".", ":", "?", "!"):
        return True
    if k + 1 < len(toks) and toks[k + 1].text[:1].isupper() and not toks[k + 1].amount and token.tag.startswith("NN"):
        return True
    return token.tag.startswith("NNP") and not _known(token)


def _known(token: EnglishToken) -> bool:
    """Whether the tagger's dictionary has the word in lower case: then a capital at the head of a sentence says nothing."""
    from localrag.text.parts_of_speech import dictionary_tag

    return any(not (tag := dictionary_tag(k)).startswith("NNP") and tag for k in token.keys if not k.startswith("~")) or "_" in token.low
