"""English clauses: each verb with its subject, objects and adjuncts."""

from dataclasses import dataclass, field

from localrag.entailment.english import (
    _REFUSALS,
    AUXILIARY,
    BE,
    CONJUNCTIONS,
    IRREALIS_VERBS,
    MONTHS,
    NEGATIVE_VERBS,
    NEGATORS,
    OPTIONAL_WORDS,
    PREPOSITIONS,
    PRONOUN_QUANTIFIERS,
    RELATIVE,
    TIMES,
    TITLES,
    EnglishToken,
    VerbGroup,
    clause_follows,
    is_content_word,
    prepositions,
    quantifier,
    tokens,
    verb_groups,
)
from localrag.entailment.lexicon import Clause, ParsedSentence, ParsedWord

_PRONOUNS = frozenset("he she it they".split())
_LEANS = frozenset("it him her them his its their this that these those he she they one ones".split())
_ABLE = frozenset("able able_to be_able_to unable enable".split())
_MEASURES = frozenset("vote percent majority margin point mean way unit time".split())


@dataclass
class _Part:
    """A clause while it is built; the numbers are those of tokens."""

    group: VerbGroup
    before: list[int] = field(default_factory=list)  # the subject as it is written
    after: list[int] = field(default_factory=list)  # objects without a preposition
    agent: list[int] = field(default_factory=list)  # behind "by"
    region: list[int] = field(default_factory=list)
    within: int | None = None
    opened_by: str = ""
    relative: bool = False


def parse_english(text: str) -> ParsedSentence:
    """The reading of an English sentence."""
    toks = tokens(text)
    governed = prepositions(toks)
    parts = _parts(toks, governed)
    places = {k: n for n, part in enumerate(parts) for k in part.region}
    words: list[ParsedWord] = []
    number_of: dict[int, int] = {}
    roles = _roles(parts)
    for k, token in enumerate(toks):
        if is_content_word(token) or (parts and any(k == p.group.main for p in parts)):
            number_of[k] = len(words)
            words.append(_word(toks, k, places.get(k, 0), roles.get(k, "other"), governed.get(k, "")))
    clauses = tuple(_clause(toks, part, parts, number_of) for part in parts) or (
        Clause(None, negated=any(t.low in NEGATORS for t in toks)),
    )
    kinds = {k: kind for k in range(len(toks)) if (kind := _quantifier(toks, k))}
    quantified = tuple((number_of[j], kind) for k, kind in kinds.items() if (j := _next_of(k, number_of, kinds)))
    first = next((p for p in parts if _noun(toks, p.before) and p.group.form == "finite"), None)
    subject = _phrase(toks, first.before) if first else ""
    return ParsedSentence(text, tuple(words), clauses, frozenset(kinds.values()), quantified, subject=subject)


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
    start = min(numbers) - (min(numbers) > 0 and toks[min(numbers) - 1].low in ("the", "a", "an"))
    between = range(start, max(numbers) + 1)
    return " ".join(toks[k].text + "’s" * toks[k].owner for k in between) if len(between) < 12 else ""


def _word(toks: list[EnglishToken], k: int, clause: int, role: str, before: str) -> ParsedWord:
    token = toks[k]
    if token.amount:
        return ParsedWord(
            token.amount.value,
            frozenset({token.amount.value}),
            "number",
            k,
            clause,
            role,
            before,
            unit=token.amount.unit or "",
            part=not token.amount.unit and _of_more(toks, k),
        )
    kind = "name" if _is_name(toks, k) else "word"
    month = token.low in MONTHS and token.text[0].isupper()
    failing = bool(token.keys & NEGATIVE_VERBS) and k + 1 < len(toks) and toks[k + 1].low == "to"
    soft = (
        not month
        and (
            failing
            or token.low in OPTIONAL_WORDS | AUXILIARY
            or bool(token.keys & OPTIONAL_WORDS and not token.particle and not token.keys & TIMES)
            or bool({k for k in token.keys if "_" in k} & OPTIONAL_WORDS)
            or token.low.strip(".") in TITLES
        )
        and (kind == "word" or token.low in TITLES)
    )
    return ParsedWord(
        token.low,
        token.keys or frozenset({token.low}),
        kind,
        k,
        clause,
        role,
        before,
        soft,
        owner=token.owner,
        when=bool(token.keys & TIMES),
    )


def _of_more(toks: list[EnglishToken], k: int) -> bool:
    """Whether a number is a part of a larger one: "three of its five camels", "of whom 612 were women"."""
    return (k + 1 < len(toks) and toks[k + 1].low == "of") or (
        k > 1 and toks[k - 2].low == "of" and toks[k - 1].low in ("whom", "which", "them", "these")
    )


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


def _parts(toks: list[EnglishToken], governed: dict[int, str]) -> list[_Part]:
    parts: list[_Part] = []
    groups = verb_groups(toks)
    end_of_last = -1
    for group in groups:
        part = _Part(group)
        gap = list(range(end_of_last + 1, group.start))
        head = _subject(toks, gap, part, parts, governed)
        if parts:
            parts[-1].region += [k for k in gap if k not in set(head)]
        part.region = [*head, *range(group.start, group.main + 1)]
        if not parts:
            part.region = [*gap, *range(group.start, group.main + 1)]
        parts.append(part)
        end_of_last = group.main
    if parts:
        parts[-1].region += range(end_of_last + 1, len(toks))
    for part in parts:
        _objects(toks, part, governed)
    _share(toks, parts)
    return parts


def _subject(toks: list[EnglishToken], gap: list[int], part: _Part, parts: list[_Part], governed: dict[int, str]) -> list[int]:
    """Finds what stands before a verb as its subject; returns the tokens of the gap that belong to this clause."""
    group = part.group
    breaks = [k for k in gap if _breaks(toks, k)]
    part.opened_by = toks[breaks[-1]].low if breaks else ""
    if group.form in ("infinitive", "gerund"):
        part.within = len(parts) - 1 if parts else None
        before = [k for k in gap if is_content_word(toks[k])]
        if group.form == "gerund" and before and toks[gap[-1]].low not in PREPOSITIONS | {","}:
            part.before = _noun_before(toks, group.start)
        return []
    if group.form == "participle":
        part.before = _noun_before(toks, group.start)
        part.within = len(parts) - 1 if parts else None
        return list(gap) if not parts else []
    head = [k for k in gap if not breaks or k > breaks[-1]]
    if not breaks and parts:
        head = _last_phrase(toks, head, governed)
    free = _free(toks, head, governed)
    if (
        gap
        and not free
        and not breaks
        and parts
        and toks[gap[-1]].low == ","
        and (parts[-1].relative or parts[-1].group.form == "participle")
    ):
        part.before = list(parts[-1].before)  # "the museum, which is closed on Mondays, charges"
        return []
    if part.opened_by in ("who", "which", "that") and not [k for k in free if toks[k].low not in PRONOUN_QUANTIFIERS]:
        antecedent = _noun_before(toks, breaks[-1])
        part.relative = toks[breaks[-1]].tag.startswith("W") or bool(antecedent)
        part.before = antecedent if part.relative else []
        part.within = len(parts) - 1 if parts else None
        return head
    part.before = free
    if part.opened_by in ("which", "whom", "that") and free and toks[breaks[-1]].tag.startswith("W"):
        part.after = _noun_before(toks, breaks[-1])
    return head


def _free(toks: list[EnglishToken], head: list[int], governed: dict[int, str]) -> list[int]:
    """The words of a subject: what no preposition governs, or "of" behind a word of quantity."""
    nouns = [
        k
        for k in head
        if (is_content_word(toks[k]) or toks[k].low in _PRONOUNS or toks[k].low in PRONOUN_QUANTIFIERS) and not toks[k].owner
    ]
    counted = [j for j in head if toks[j].low in PRONOUN_QUANTIFIERS]
    timeless = [k for k in nouns if not toks[k].keys & TIMES and toks[k].low not in ("every", "each", "last", "next", "same", "that")]
    nouns = timeless or nouns
    return [k for k in nouns if k not in governed or (governed[k] == "of" and any(j < k for j in counted))]


def _last_phrase(toks: list[EnglishToken], gap: list[int], governed: dict[int, str]) -> list[int]:
    """What stands behind the last comma, or the last words that no preposition governs."""
    commas = [k for k in gap if toks[k].low == ","]
    tail = [k for k in gap if not commas or k > commas[-1]]
    if commas:
        return tail
    found: list[int] = []
    for k in reversed(tail):
        if k in governed or toks[k].low in PREPOSITIONS:
            break
        found.insert(0, k)
    return found


def _breaks(toks: list[EnglishToken], k: int) -> bool:
    """Whether a clause can begin behind this token."""
    token = toks[k]
    if token.low in RELATIVE - {"that"} or token.low in ";:—.":
        return True
    if token.low in ("and", "or", "nor"):
        return not (k and k + 1 < len(toks) and _joins_nouns(toks, k))
    return token.low in CONJUNCTIONS and (token.low not in PREPOSITIONS or clause_follows(toks, k))


def _joins_nouns(toks: list[EnglishToken], k: int) -> bool:
    """Whether "and" stands between two nouns of which the second is followed by no verb: "boys and girls", "Hobbs nor Carter knew"."""
    left, right = toks[k - 1], toks[k + 1]
    if left.low == ",":
        return False
    nouns = left.tag.startswith(("NN", "PRP", "CD", "JJ")) and right.tag.startswith(("NN", "PRP$", "CD", "JJ", "DT"))
    if not nouns:
        return False
    for j in range(k - 1, -1, -1):  # a verb before it: a clause may follow; none: two subjects
        if toks[j].tag.startswith(("VB", "MD")):
            following = next((t for t in toks[k + 1 :] if t.tag.startswith(("VB", "MD")) or t.low in ",;"), None)
            return following is None or not following.tag.startswith(("VB", "MD")) or following.tag in ("VBG", "VBN")
    return True


def _noun_before(toks: list[EnglishToken], k: int) -> list[int]:
    """The noun phrase that ends right before a token, a comma between them or not."""
    j = k - 1
    while j >= 0 and toks[j].low in (",", "to", "of", "in", "from", "with", "for"):
        j -= 1
    found: list[int] = []
    while (
        j >= 0 and (toks[j].tag.startswith(("NN", "JJ", "CD")) or toks[j].text[:1].isupper() or toks[j].owner) and toks[j].low not in ",;"
    ):
        found.insert(0, j)
        j -= 1
    return [k for k in found if is_content_word(toks[k])]


def _objects(toks: list[EnglishToken], part: _Part, governed: dict[int, str]) -> None:
    group = part.group
    open_ = True
    for k in sorted(k for k in part.region if k > group.main):
        token = toks[k]
        if governed.get(k) == "by" and group.passive and is_content_word(token):
            if token.amount is None and not token.keys & _MEASURES:
                part.agent.append(k)
        elif part.agent and token.text[:1].isupper() and k - 2 <= part.agent[-1] + 1 and is_content_word(token):
            part.agent.append(k)  # "by her deputy, Colin Frayne"
        elif token.low in ",;:(" or token.low in CONJUNCTIONS - {"and", "or", "nor"}:
            open_ = open_ and token.low == ","
        elif open_ and k not in governed and is_content_word(token) and not _describes(toks, k, group):
            part.after.append(k)
        if open_ and k not in governed and token.low in ("no", "none", "nothing", "nobody", "neither") and not part.after:
            group.negated = not group.negated


def _describes(toks: list[EnglishToken], k: int, group: VerbGroup) -> bool:
    """Whether a word behind a verb says how, not whom: adverbs; and adjectives on their own, save behind "be"."""
    token = toks[k]
    alone = not (k + 1 < len(toks) and toks[k + 1].tag.startswith(("NN", "JJ")))
    return token.tag.startswith("RB") or (token.tag.startswith("JJ") and alone and toks[group.main].low not in BE)


def _share(toks: list[EnglishToken], parts: list[_Part]) -> None:
    """Subjects that a verb takes from another: joined verbs, infinitives, and verbs behind a bracketed clause."""
    for n, part in enumerate(parts):
        if _noun(toks, part.before) or part.relative:
            continue
        if n and part.group.form == "infinitive":
            matrix = parts[n - 1]
            part.before = list(matrix.after or matrix.before) if toks[matrix.group.main].verb in IRREALIS_VERBS else list(matrix.before)
        elif n and part.group.form in ("finite", "gerund"):
            earlier = next(
                (p for p in reversed(parts[:n]) if not p.relative and p.group.form == "finite" and _noun(toks, p.before)), parts[n - 1]
            )
            part.before = [*part.before, *earlier.before]


def _noun(toks: list[EnglishToken], numbers: list[int]) -> bool:
    return any(toks[k].low not in _PRONOUNS for k in numbers)


def _roles(parts: list[_Part]) -> dict[int, str]:
    found: dict[int, str] = {}
    for part in parts:
        subject, objects = (part.agent, part.before + part.after) if part.group.passive else (part.before, part.after)
        for k in objects:
            found.setdefault(k, "object")
        for k in subject:
            found.setdefault(k, "subject")
        found[part.group.main] = "verb"
    return found


def _clause(toks: list[EnglishToken], part: _Part, parts: list[_Part], number_of: dict[int, int]) -> Clause:
    group = part.group
    subject, objects = (part.agent, part.before + part.after) if group.passive else (part.before, part.after)
    modes = set(group.modes) | ({"possible"} if any(toks[k].low in _ABLE or toks[k].keys & _ABLE for k in part.region) else set())
    n = parts.index(part)
    matrix = parts[part.within] if part.within is not None else parts[n - 1] if n and part.opened_by in ("that", "") else None
    negated = group.negated
    if matrix is not None and matrix is not part:
        verb = toks[matrix.group.main].verb
        adjective = {toks[k].low for k in matrix.region} & {"unable", "forbidden", "unwilling"}
        if group.form == "infinitive" and matrix.group.negated and verb in ("learn", "manage", "dare", "bother", "begin", "remember"):
            negated = not negated
        elif group.form == "infinitive" and (verb in _REFUSALS or adjective) and not part.relative:
            negated = negated != True  # noqa: E712 — "failed to pay": not paid; "did not fail to pay" stands on its own
        elif verb in IRREALIS_VERBS and (group.form == "infinitive" or part.opened_by == "that" or _bare_that(matrix, part)):
            modes.add("unreal")
    if part.opened_by in ("if", "unless", "whether") or (part.opened_by in ("until", "till") and matrix_waits(toks, parts, n)):
        modes.add("possible")
    verb_number = number_of.get(group.main)
    particles = frozenset(
        particle
        for k in part.region
        for particle in (toks[k].low, toks[k].particle)
        if particle in ("for", "against", "with", "without", "up", "down", "on", "off", "in", "out")
    )
    return Clause(
        verb_number,
        frozenset(number_of[k] for k in subject if k in number_of),
        frozenset(number_of[k] for k in objects if k in number_of),
        negated,
        frozenset(modes),
        part.within,
        group.passive,
        particles,
        any(toks[k].low in _LEANS for k in part.region if k > group.main),
    )


def matrix_waits(toks: list[EnglishToken], parts: list[_Part], n: int) -> bool:
    """Whether what comes before "until" is a wait for it, so that it need not have come."""
    return any(toks[p.group.main].verb in ("defer", "postpone", "wait", "suspend", "delay", "refuse") for p in parts[:n])


def _bare_that(matrix: _Part, part: _Part) -> bool:
    """ "Some believe the tower is old": no "that" between."""
    return part.opened_by == "" and part.group.form == "finite" and not matrix.after and matrix.group.main < part.group.start
