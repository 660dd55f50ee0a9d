"""The verbs of an English sentence, each with its auxiliaries, voice, negation and modes."""

import re

from localrag.query.reading.english import (
    BE,
    CONJUNCTIONS,
    DO,
    DUTY,
    HAVE,
    MODALS,
    MONTHS,
    NEGATORS,
    POSSIBLE,
    PREPOSITIONS,
    RELATIVE,
    TIMES,
    Group,
    Token,
    content,
)

_ADVERB = re.compile(r"RB")
HEADLESS = frozenset(
    "most half all some none part one many several few each any both majority number group party team crew members".split()
)
AUXILIARY = BE | HAVE | DO | MODALS
_ADVERBS = frozenset("not never also still already only just ever often always hardly barely scarcely n't now then soon later".split())


def verb_groups(toks: list[Token]) -> list[Group]:
    """The verbs in order, each with its auxiliaries, voice, negation and modes."""
    found: list[Group] = []
    i = 0
    while i < len(toks):
        group = _group_at(toks, i)
        if group:
            found.append(group)
            i = group.main + 1
        else:
            i += 1
    for n in range(1, len(found)):  # "its garrison, weakened by hunger, surrendered to the duke"
        bracketed = found[n - 1].form == "participle" or toks[found[n - 1].start - 1].low in ("who", "which")
        if found[n].form == "participle" and bracketed and toks[found[n].start - 1].low == "," and toks[found[n].main + 1].low != "by":
            found[n].form, found[n].passive = "finite", False
    return found or _promoted(toks)


def _group_at(toks: list[Token], i: int) -> Group | None:
    token = toks[i]
    if token.low == "to":
        k = _past_adverbs(toks, i + 1)
        if k < len(toks) and _is_base(toks, k):
            return _chain(toks, i, k, "infinitive")
        return None
    if token.low in AUXILIARY and token.tag != "NNP" and not (token.low == "may" and token.text == "May"):
        return _chain(toks, i, i, "finite")
    if _is_verb(toks, i):
        form = "finite"
        if token.tag == "VBG" or (token.low.endswith("ing") and token.tag != "VB"):
            form = "gerund"
        elif _reduced(toks, i):
            form = "participle"
        return Group(i, i, passive=form == "participle", form=form, negated=_negated_before(toks, i))
    return None


def _chain(toks: list[Token], start: int, at: int, form: str) -> Group:
    """From the first auxiliary to the verb proper."""
    main, last_aux, seen = at, "", []
    k = at
    while k < len(toks):
        low = toks[k].low
        if low in AUXILIARY:
            seen.append(low)
            last_aux, main = low, k
        elif low == "to" and last_aux in HAVE | BE | {"ought", "need"} and _is_base(toks, k + 1):
            seen.append("to")
        elif low in _ADVERBS or low in POSSIBLE or _ADVERB.match(toks[k].tag):
            seen.append(low)
        elif _fits(toks, k, last_aux):
            main = k
            break
        else:
            break
        k += 1
    passive = last_aux in BE and toks[main].low not in AUXILIARY and not toks[main].low.endswith("ing")
    passive = passive or (last_aux in ("get", "gets", "got") and toks[main].tag == "VBN")
    modes = {"possible"} if set(seen) & POSSIBLE else set()
    modes |= {"duty"} if set(seen) & DUTY or ("to" in seen and set(seen) & HAVE) else set()
    modes |= {"would"} if "would" in seen else set()
    negated = bool(set(seen) & NEGATORS) or _negated_before(toks, start)
    return Group(start, main, passive, form, negated, modes)


def _fits(toks: list[Token], k: int, aux: str) -> bool:
    """Whether a token is the verb that an auxiliary waits for."""
    token = toks[k]
    if not token.verb or token.low in FUNCTION_LIKE:
        return False
    if aux in MODALS | DO or not aux:
        return token.low == token.verb or token.tag.startswith("VB")
    participle = token.low.endswith(("ed", "en", "ing")) or token.tag in ("VBN", "VBD", "VBG") or token.low in IRREGULAR
    if aux in BE and token.tag.startswith("JJ") and not token.low.endswith("ed"):
        return False
    return (participle and token.low != token.verb) or (participle and token.low in ("put", "set", "cut", "shut", "let", "read", "hit"))


FUNCTION_LIKE = frozenset("well like near down out up back even".split())
IRREGULAR = frozenset(
    """
    born sold bought told given taken made built won lost led paid held kept left sent found brought caught taught thought sought fought
    hung hurt cut put set shut hit let read said heard felt met spent lent bent dealt dreamt meant slept swept wept stood understood
    shot got sat struck stuck stung swung sung rung sunk drunk begun swum run come become overcome done gone seen been known grown
    thrown blown flown drawn shown sworn torn worn written driven ridden risen hidden bitten forgotten broken spoken stolen chosen
    frozen woken eaten fallen beaten forgiven forbidden withdrawn laid lain bred fed fled bled split spread burnt learnt spelt
    """.split()
)


def _past_adverbs(toks: list[Token], k: int) -> int:
    while k < len(toks) and (_ADVERB.match(toks[k].tag) or toks[k].low in _ADVERBS) and not toks[k].verb:
        k += 1
    return k


def _is_base(toks: list[Token], k: int) -> bool:
    """Whether `to` before this token makes it an infinitive."""
    if k >= len(toks):
        return False
    token = toks[k]
    if token.low in ("be", "have", "do"):
        return True
    if token.text[:1].isupper() or token.amount or token.low != token.verb:
        return False
    previous = toks[k - 2] if k > 1 else None
    told = previous is not None and (
        previous.low in ("him", "her", "them", "me", "us") or (previous.tag.startswith("VB") and token.low not in _PLACES)
    )
    if told and token.tag in ("NN", "JJ"):
        return True
    return token.tag in ("VB", "VBP") or (token.tag in ("NN", "JJ", "IN", "RB") and k + 1 < len(toks) and _opens_phrase(toks[k + 1]))


_PLACES = frozenset("school court work bed church market town sea land home prison trial war college university".split())


def _opens_phrase(token: Token) -> bool:
    return token.tag.startswith(("DT", "PRP", "NNP", "CD", "WP")) or token.low in ("a", "an", "the")


def _is_verb(toks: list[Token], i: int) -> bool:
    token = toks[i]
    if token.verb and i and toks[i - 1].low in ("he", "she", "it", "they", "we", "i", "who") and token.tag.startswith("NN"):
        return not token.text[:1].isupper() and (i + 1 < len(toks) and not toks[i + 1].tag.startswith(("VB", "MD")))
    if not token.verb or not token.tag.startswith("VB") or token.owner or (token.text[:1].isupper() and i and token.tag != "VBG"):
        return False
    previous = toks[i - 1] if i else None
    following = toks[i + 1] if i + 1 < len(toks) else None
    if previous and previous.tag.startswith(("DT", "PRP$", "JJ", "CD")) and token.tag in ("VBN", "VBG", "VB", "VBD"):
        return not (following is None or following.tag.startswith(("NN", "JJ", ".", ",", "IN", "VB"))) and previous.tag != "PRP"
    if token.tag == "VBZ" and following and following.tag.startswith(("VB", "MD")):
        return False  # "Corvex shares climbed"
    if token.tag == "VB" and previous and previous.low in PREPOSITIONS:
        return False
    # "newly discovered lands", "quarterly adjusted profit"
    return not (
        token.tag == "VBN"
        and previous
        and previous.tag == "RB"
        and following
        and following.tag.startswith("NN")
        and i > 1
        and toks[i - 2].tag == "DT"
    )


def _reduced(toks: list[Token], i: int) -> bool:
    """Whether a past participle stands for a relative clause: "the school, founded by the widow"; "held in Lyon"."""
    token = toks[i]
    if token.tag not in ("VBN", "VBD") and token.low not in IRREGULAR:
        return False
    past = verb_past(token)
    if not past:
        return False
    following = toks[i + 1] if i + 1 < len(toks) else None
    previous = toks[i - 1] if i else None
    if following is None or (following.low not in PREPOSITIONS and following.tag not in ("IN", "TO", ",")):
        return False
    if following.low == "by" and i + 2 < len(toks) and toks[i + 2].amount:
        return False  # "climbed by 12 %"
    after_noun = previous is not None and (previous.tag.startswith("NN") or previous.low == ",")
    return (following.low == "by" and after_noun) or ((previous is None or previous.low == ",") and token.low.endswith(("ed", "en", "rn")))


def verb_past(token: Token) -> bool:
    """Whether a form can be a past participle."""
    return token.low.endswith(("ed", "en", "wn", "ught")) or token.low in IRREGULAR


def _negated_before(toks: list[Token], start: int) -> bool:
    """Whether the subject says no: "no woman won", "neither he nor she knew", "without asking"."""
    for k in range(start - 1, max(-1, start - 8), -1):
        token = toks[k]
        if token.low in ("no", "none", "neither", "nobody", "without", "never", "hardly", "nor", "not", "nothing", "no_one"):
            return token.low not in ("without", "not", "never", "hardly") or k == start - 1
        if token.low in CONJUNCTIONS - {"nor"} or token.low in ",;" or token.low in RELATIVE or token.tag.startswith("VB"):
            return False
    return False


def _promoted(toks: list[Token]) -> list[Group]:
    """The likeliest verb of a sentence in which the tagger found none: "Plants store sugar", "The concert cost £5"."""
    for i in range(1, len(toks)):
        token, previous = toks[i], toks[i - 1]
        after_noun = previous.tag.startswith(("NN", "PRP", "CD")) or previous.low in ("who", "which")
        if token.verb and not token.text[:1].isupper() and after_noun and not token.owner:
            following = toks[i + 1] if i + 1 < len(toks) else None
            if following is None or not following.tag.startswith((".", ",")) or token.low != token.verb:
                return [Group(i, i)]
    return []


def prepositions(toks: list[Token]) -> dict[int, str]:
    """Token → the preposition that governs it: those behind one up to the end of its noun phrase."""
    found: dict[int, str] = {}
    current, filled, number = "", False, False
    for k, token in enumerate(toks):
        if (
            token.low in PREPOSITIONS
            and not (k and token.text[0].isupper())
            and not (token.low in ("before", "after", "until", "since", "as", "like") and clause_follows(toks, k))
        ):
            current, filled, number = token.low, False, False
            continue
        opens = token.tag.startswith(("DT", "PRP")) or (
            token.text[:1].isupper() and k > 0 and (number or toks[k - 1].keys & TIMES) and toks[k - 1].low not in MONTHS
        )
        stops = token.tag.startswith(("VB", "MD", "WP", "WDT", "TO")) or token.low in ",;:()—" or token.low in CONJUNCTIONS - {"and", "or"}
        if token.tag in ("VBG", "VBN") and not filled:
            stops = False
        if current and (stops or (opens and filled)) and not token.amount:
            current = "" if token.low not in ("and", "or") else current
        if current:
            found[k] = current
            filled = filled or content(token) or token.low in HEADLESS
            number = token.amount is not None
    return found


def clause_follows(toks: list[Token], k: int) -> bool:
    """Whether "before", "after" and the like open a clause with a verb of its own, not a noun phrase."""
    for token in toks[k + 1 : k + 9]:
        if token.low in ",;." or token.low in PREPOSITIONS:
            return False
        if token.tag.startswith(("VBD", "VBZ", "VBP", "MD")):
            return True
    return False
