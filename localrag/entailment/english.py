"""English tokens and verb groups.

Sentences are parsed by TextBlob's tagger, lemminflect's dictionary and word-order rules; a verb group has auxiliaries, voice, negation and
modality.
"""

import re
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any

from localrag.entailment.lexicon import NAMED, Quantity, english_quantities, multiword_entries
from localrag.text.sentences import STOP_WORDS

TITLES = frozenset("mr mrs ms miss sir madam dr cllr councillor councilor frau herr mme m lady lord mister st prof professor".split())
BE = frozenset("be is are was were been being am 's 're 'm".split())
HAVE = frozenset("have has had having".split())
DO = frozenset("do does did".split())
MODALS = frozenset("will would shall should may might can could must ought need".split())
NEGATORS = frozenset("not n't never no none neither nor nobody nothing hardly barely scarcely rarely seldom without cannot".split())
PREPOSITIONS = frozenset(
    """
    of in on at by with from to into onto for about against between through during under over above below across among around as
    behind beneath beside beyond despite down inside near off out outside per since than through throughout till toward towards
    underneath until up upon via within without after before ahead along amid like except including according because_of due_to
    owing_to according_to next_to along_with together_with in_addition_to instead apart_from in_front_of in_spite_of on_account_of
    as_well_as
    """.split()
)
RELATIVE = frozenset("who which whom whose that where when".split())
CONJUNCTIONS = frozenset(
    "and but or nor yet so while whereas because that if unless when although though since after before until till as once where than"
    " whether however meanwhile".split()
)
MONTH_NAMES = tuple("january february march april may june july august september october november december".split())
MONTHS = frozenset(MONTH_NAMES)
DAYS = frozenset("monday tuesday wednesday thursday friday saturday sunday".split())
# How often something happens: once and twice, and the intervals between.
OFTEN = {"once": 1, "twice": 2, "thrice": 3} | {"daily": "daily", "weekly": "weekly", "monthly": "monthly", "quarterly": "quarterly"}
OFTEN |= {"yearly": "yearly", "annually": "yearly", "annual": "yearly", "hourly": "hourly"}
# What says when and is neither subject nor object.
_TIMES = """
    spring summer autumn winter morning evening night afternoon noon midnight day week month year decade century today yesterday tomorrow
    tonight weekend time moment hour minute season dawn dusk
    """
COUNTED_TIMES = frozenset("day week month year decade century hour minute time".split())
TIMES = MONTHS | DAYS | frozenset(_TIMES.split())
# Function words whose exchange turns the meaning: they need a counterpart like any other word.
TELLING = frozenset(
    """
    before after until since without over under above below against inside outside more less most least fewer up down between within
    beyond during three second first last same other another now once all both each every some any many several few only none nothing
    nobody everybody just off out enough further again own he she his her him here
    """.split()
)
OPTIONAL_WORDS = frozenset(
    """
    be have do make take get give put say tell state report note mention add call name know include happen occur place become come go
    accord way fact form case person thing time number total amount also then however thus therefore too just still already very quite so
    such same own other another one there this these those that which who it they he she we you his her him their its our my your
    them us me i now here once up down out off all both each every some any many several few only more most during between within
    about around approximately nearly almost mister mr mrs ms miss dr councillor cllr sir professor eventually later approx roughly
    able manage remain continue begin start use various certain particular namely indeed actually even away back together upon
    kind sort part order be_able_to as_well as_well_as together_with along_with in_addition_to take_place take_part carry_out
    altogether circa hold turn well today lie locate situate stand aloud each_other further group team member people person place area
    site event worker amount size length decide total measure contain consist comprise represent extend span cover
    """.split()
)
QUANTIFIERS = {
    "all": "all every each everybody everyone everything always both entire whole entirely completely fully invariably constantly",
    "most": "most mostly mainly majority largely generally usually chiefly",
    "many": "many numerous",
    "few": "few",
    "some": "some several partly partially occasionally sometimes",
    "none": "none no nobody nothing neither never",
    "only": "only solely exclusively sole alone",
    "least": "least",
    "almost": "almost nearly virtually practically",
    "half": "half",
}
_QUANTIFIER = {word: kind for kind, words in QUANTIFIERS.items() for word in words.split()}
POSSIBLE = frozenset(
    "may might can could able be_able_to perhaps possibly probably likely maybe allegedly reportedly supposedly apparently planned".split()
)
DUTY = frozenset("should must ought shall".split())
CERTAIN = frozenset("certainly definitely undoubtedly surely".split())
# What stands in their complement did not happen by that: proposed, feared, tried.
IRREALIS_VERBS = frozenset(
    """
    propose order ask request command want hope plan intend expect threaten offer promise try attempt allege claim suspect believe think
    fear consider wish urge recommend suggest demand require seek desire prepare instruct vow pledge aim refuse decline fail deny forbid
    prevent doubt hesitate
    """.split()
)
NEGATIVE_VERBS = frozenset("fail neglect".split())
_REFUSALS = frozenset("refuse decline fail deny forbid prevent doubt unable forget avoid neglect cease stop unlikely".split())
_TOKEN = re.compile(rf"{NAMED}|[^\W\d_]+(?:[’'-][^\W\d_]+)*|\d+|[,;:()—–\"“”.?!]|\S")
_APOSTROPHES = str.maketrans(dict.fromkeys("’‘ʼ´＇", "'"))
_CONTRACTED = {"s": "is", "re": "are", "ve": "have", "ll": "will", "d": "would", "m": "am"}
_PARTICLES = frozenset("up down off out back away on over in".split())


@dataclass
class EnglishToken:
    """A word, number or mark of a sentence while it is read."""

    text: str
    low: str
    tag: str = ""
    keys: frozenset[str] = frozenset()
    amount: Quantity | None = None
    owner: bool = False  # stands in the possessive
    verb: str = ""  # dictionary form, if it can be a verb
    particle: str = ""  # that the verb is put together with


@dataclass
class VerbGroup:
    """A verb with its auxiliaries: tokens `start` to `main`."""

    start: int
    main: int
    passive: bool = False
    form: str = "finite"  # or infinitive, gerund, participle
    negated: bool = False
    modes: set[str] = field(default_factory=set)


@cache
def _tagger() -> Any:
    import textblob.en

    return textblob.en


@cache
def _stemmer() -> Any:
    from nltk.stem.porter import PorterStemmer

    return PorterStemmer()


@lru_cache(maxsize=100_000)
def _lemmas(word: str) -> dict[str, tuple[str, ...]]:
    import lemminflect

    return dict(lemminflect.getAllLemmas(word))


@lru_cache(maxsize=100_000)
def forms(word: str) -> frozenset[str]:
    """The dictionary forms of a lower-case word, the word itself, and its stem marked with `~`."""
    adverbs = {word[:-2], word[:-3] + "y", word[:-1] + "e"} if word.endswith("ly") and len(word) > 5 else set()
    lemmas = adverbs | {lemma for found in _lemmas(word).values() for lemma in found}
    if word.endswith(("er", "or", "ers", "ors")) and len(word) > 5:  # leader: lead, winner: win
        bare = word.rstrip("s")[:-2]
        found = {v for v in (bare, bare + "e", bare[:-1]) if v in _lemmas(v).get("VERB", ()) and len(v) > 2}
        lemmas |= {v for v in found if v != bare[:-1] or bare[-1:] == bare[-2:-1]}
    return frozenset({word, *lemmas, *(f"~{_stemmer().stem(w)}" for w in {word, *lemmas} if len(w) > 3)})


@lru_cache(maxsize=100_000)
def verb_form(word: str) -> str:
    """The infinitive of a word that can be a verb; else empty."""
    found = [v for v in _lemmas(word).get("VERB", ()) if v != word] or list(_lemmas(word).get("VERB", ()))
    return found[0] if found else ""


def tokens(text: str) -> list[EnglishToken]:
    """The tokens of a sentence with their parts of speech; numbers and set phrases are one token each."""
    text = text.translate(_APOSTROPHES)
    made: list[EnglishToken] = []
    at = 0
    for amount in [*english_quantities(text), None]:
        end = amount.start if amount else len(text)
        for m in _TOKEN.finditer(text, at, max(at, end)):
            made += _split(m[0])
        if amount:
            made.append(EnglishToken(text[amount.start : amount.end], text[amount.start : amount.end].lower(), "CD", amount=amount))
            at = amount.end
    made = [
        t
        for k, t in enumerate(made)
        if not (t.text == "." and k and (made[k - 1].low in TITLES or len(made[k - 1].low) == 1) and k + 1 < len(made))
    ]
    _tag(made)
    return _joined(made)


def _split(text: str) -> list[EnglishToken]:
    """The parts of a contraction: "I'd've" is I, would, have; an unknown part stays with the word before it."""
    low = text.lower()
    if low.endswith("n't"):
        stem = {"won't": "will", "can't": "can", "shan't": "shall"}.get(low, low[:-3])
        return [EnglishToken(stem, stem), EnglishToken("not", "not")]
    if low == "cannot":
        return [EnglishToken("can", "can"), EnglishToken("not", "not")]
    if low.endswith(("'s", "s'")) and len(low) > 2 and low not in ("it's", "he's", "she's", "that's", "there's"):
        bare = text[:-2] if low.endswith("'s") else text[:-1]
        return [EnglishToken(bare, bare.lower(), owner=True)]
    head, _, tail = text.rpartition("'")
    if head and (meant := _CONTRACTED.get(tail.lower())):
        return [*_split(head), EnglishToken(meant, meant)]
    return [EnglishToken(text, low[:-1] if low[:-1] in DAYS else low)]


def _tag(made: list[EnglishToken]) -> None:
    spaced = " ".join(t.text.replace("/", "-").replace(" ", "_") for t in made)
    tagged = [tag for _, tag in _tagger().tag(spaced, tokenize=False)] if made else []
    if len(tagged) != len(made):
        tagged = ["NN"] * len(made)
    for token, tag in zip(made, tagged, strict=True):
        token.tag = token.tag or tag
        if token.amount is None and any(map(str.isalpha, token.low)):
            token.keys, token.verb = forms(token.low), verb_form(token.low)


def _joined(made: list[EnglishToken]) -> list[EnglishToken]:
    """Set phrases as one token each, also around a pronoun ("picked them up")."""
    out: list[EnglishToken] = []
    i = 0
    while i < len(made):
        length = next((n for n in (5, 4, 3, 2) if _phrase(made[i : i + n], n)), 1)
        first = made[i]
        if length > 1:
            phrase = "_".join(_phrase(made[i : i + length], length))
            if phrase in PREPOSITIONS:
                first.text, first.low, first.tag, first.keys, first.verb = phrase, phrase, "IN", frozenset({phrase}), ""
                out.append(first)
                i += length
                continue
            first.particle = made[i + length - 1].low
            first.keys = first.keys | {phrase} if first.verb and first.tag.startswith(("V", "N", "J")) else frozenset({phrase})
            if not (first.verb and first.tag.startswith("V")):
                first.text = first.low = phrase
        elif first.verb and (k := _separated(made, i)):
            first.keys |= {f"{first.verb}_{made[k].low}"}
            del made[k]
        out.append(first)
        i += length
    return out


def _phrase(part: list[EnglishToken], n: int) -> tuple[str, ...]:
    """The phrase of the tables that the tokens are, in dictionary forms; empty if none."""
    if len(part) < n or any(t.amount for t in part):
        return ()
    rest = tuple(t.low for t in part[1:])
    for head in {part[0].low, part[0].verb, *part[0].keys}:
        if (head, *rest) in multiword_entries():
            return (head, *rest)
    return ()


def _separated(made: list[EnglishToken], i: int) -> int:
    """Where the particle of a verb stands behind its pronoun or short object; 0 if nowhere."""
    for k in range(i + 2, min(i + 5, len(made))):
        if made[k].low in _PARTICLES and (made[i].verb, made[k].low) in multiword_entries():
            last = k + 1 >= len(made) or made[k + 1].tag in (".", ",", "IN", "CC", "RB")
            return k if last and all(t.tag.startswith(("PRP", "DT", "NN", "JJ")) for t in made[i + 1 : k]) else 0
    return 0


def is_content_word(token: EnglishToken) -> bool:
    """Whether a token says something that a source has to hold."""
    if token.amount:
        return True
    if not any(map(str.isalpha, token.low)):
        return False
    if token.low in MONTHS | DAYS and token.text[0].isupper():
        return True
    if token.low in PREPOSITIONS and "_" in token.low:
        return False
    return "_" in token.low or token.low in TELLING or (token.low not in STOP_WORDS and token.low not in PREPOSITIONS | NEGATORS)


def quantifier(token: EnglishToken) -> str:
    """The kind of quantifier a token is; empty if none."""
    if token.low == "each_other" or (token.low == "none" and token.text == "None"):
        return ""
    return _QUANTIFIER.get(token.low, "")


_ADVERB = re.compile(r"RB")
PRONOUN_QUANTIFIERS = frozenset(
    "most half all some none part one many several few each any both majority number group party team crew members".split()
)
AUXILIARY = BE | HAVE | DO | MODALS
_ADVERBS = frozenset("not never also still already only just ever often always hardly barely scarcely n't now then soon later".split())


_PAST = frozenset("was were had did".split())


def verb_groups(toks: list[EnglishToken]) -> list[VerbGroup]:
    """The verbs in order, each with its auxiliaries, voice, negation and modes."""
    found: list[VerbGroup] = []
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


def _group_at(toks: list[EnglishToken], i: int) -> VerbGroup | None:
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
        modes = {"past"} if form == "finite" and token.tag == "VBD" else set()
        return VerbGroup(i, i, form == "participle", form, _negated_before(toks, i), modes)
    return None


def _chain(toks: list[EnglishToken], start: int, at: int, form: str) -> VerbGroup:
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
        elif low in _ADVERBS or (low in POSSIBLE and not _fits(toks, k, last_aux)) or _ADVERB.match(toks[k].tag):
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
    modes |= {"future"} if "will" in seen else set()
    modes |= {"must"} if "must" in seen or ("to" in seen and set(seen) & HAVE) else set()
    modes |= {"certain"} if set(seen) & CERTAIN else set()
    modes |= {"past"} if set(seen) & _PAST and not set(seen) & MODALS else set()
    negated = bool(set(seen) & NEGATORS) or _negated_before(toks, start)
    return VerbGroup(start, main, passive, form, negated, modes)


def _fits(toks: list[EnglishToken], k: int, aux: str) -> bool:
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


def _past_adverbs(toks: list[EnglishToken], k: int) -> int:
    while k < len(toks) and (_ADVERB.match(toks[k].tag) or toks[k].low in _ADVERBS) and not toks[k].verb:
        k += 1
    return k


def _is_base(toks: list[EnglishToken], k: int) -> bool:
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


def _opens_phrase(token: EnglishToken) -> bool:
    return token.tag.startswith(("DT", "PRP", "NNP", "CD", "WP")) or token.low in ("a", "an", "the")


def _is_verb(toks: list[EnglishToken], i: int) -> bool:
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


def _reduced(toks: list[EnglishToken], i: int) -> bool:
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


def verb_past(token: EnglishToken) -> bool:
    """Whether a form can be a past participle."""
    return token.low.endswith(("ed", "en", "wn", "ught")) or token.low in IRREGULAR


def _negated_before(toks: list[EnglishToken], start: int) -> bool:
    """Whether the subject says no: "no woman won", "neither he nor she knew", "without asking"."""
    for k in range(start - 1, max(-1, start - 8), -1):
        token = toks[k]
        if token.low in ("no", "none", "neither", "nobody", "without", "never", "hardly", "nor", "not", "nothing", "no_one"):
            return token.low not in ("without", "not", "never", "hardly") or k == start - 1
        if token.low in CONJUNCTIONS - {"nor"} or token.low in ",;" or token.low in RELATIVE or token.tag.startswith("VB"):
            return False
    return False


def _promoted(toks: list[EnglishToken]) -> list[VerbGroup]:
    """The likeliest verb of a sentence in which the tagger found none: "Plants store sugar", "The concert cost £5"."""
    for i in range(1, len(toks)):
        token, previous = toks[i], toks[i - 1]
        after_noun = previous.tag.startswith(("NN", "PRP", "CD")) or previous.low in ("who", "which")
        if token.verb and not token.text[:1].isupper() and after_noun and not token.owner:
            following = toks[i + 1] if i + 1 < len(toks) else None
            if following is None or not following.tag.startswith((".", ",")) or token.low != token.verb:
                return [VerbGroup(i, i)]
    return []


def prepositions(toks: list[EnglishToken]) -> dict[int, str]:
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
            filled = filled or is_content_word(token) or token.low in PRONOUN_QUANTIFIERS
            number = token.amount is not None
    return found


def clause_follows(toks: list[EnglishToken], k: int) -> bool:
    """Whether "before", "after" and the like open a clause with a verb of its own, not a noun phrase."""
    for token in toks[k + 1 : k + 9]:
        if token.low in ",;." or token.low in PREPOSITIONS:
            return False
        if token.tag.startswith(("VBD", "VBZ", "VBP", "MD")):
            return True
    return False
