"""English tokens: words with their parts of speech (TextBlob's tagger) and dictionary word_forms (lemminflect), numbers, set phrases."""

import re
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from localrag.entailment.lexicon import NAMES_WITH_DIGITS, Quantity, english_quantities, multiword_entries
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
REQUIRED_FUNCTION_WORDS = frozenset(
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
POSSIBILITY_WORDS = frozenset(
    "may might can could able be_able_to perhaps possibly probably likely maybe allegedly reportedly supposedly apparently planned".split()
)
DUTY_WORDS = frozenset("should must ought shall".split())
CERTAINTY_WORDS = frozenset("certainly definitely undoubtedly surely".split())
# What stands in their complement did not happen by that: proposed, feared, tried.
IRREALIS_VERBS = frozenset(
    """
    propose order ask request command want hope plan intend expect threaten offer promise try attempt allege claim suspect believe think
    fear consider wish urge recommend suggest demand require seek desire prepare instruct vow pledge aim refuse decline fail deny forbid
    prevent doubt hesitate
    """.split()
)
NEGATIVE_VERBS = frozenset("fail neglect".split())
REFUSALS = frozenset("refuse decline fail deny forbid prevent doubt unable forget avoid neglect cease stop unlikely".split())
_TOKEN = re.compile(rf"{NAMES_WITH_DIGITS}|[^\W\d_]+(?:[’'-][^\W\d_]+)*|\d+|[,;:()—–\"“”.?!]|\S")
_APOSTROPHES = str.maketrans(dict.fromkeys("’‘ʼ´＇", "'"))
_CONTRACTED = {"s": "is", "re": "are", "ve": "have", "ll": "will", "d": "would", "m": "am"}


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
def word_forms(word: str) -> frozenset[str]:
    """The dictionary word_forms of a lower-case word, the word itself, and its stem marked with `~`."""
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
            made += _split_contraction(m[0])
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


def _split_contraction(text: str) -> list[EnglishToken]:
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
        return [*_split_contraction(head), EnglishToken(meant, meant)]
    return [EnglishToken(text, low[:-1] if low[:-1] in DAYS else low)]


def _tag(made: list[EnglishToken]) -> None:
    spaced = " ".join(t.text.replace("/", "-").replace(" ", "_") for t in made)
    tagged = [tag for _, tag in _tagger().tag(spaced, tokenize=False)] if made else []
    if len(tagged) != len(made):
        tagged = ["NN"] * len(made)
    for token, tag in zip(made, tagged, strict=True):
        token.tag = token.tag or tag
        if token.amount is None and any(map(str.isalpha, token.low)):
            token.keys, token.verb = word_forms(token.low), verb_form(token.low)


def _joined(made: list[EnglishToken]) -> list[EnglishToken]:
    """Set phrases as one token each."""
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
        out.append(first)
        i += length
    return out


def _phrase(part: list[EnglishToken], n: int) -> tuple[str, ...]:
    """The phrase of the tables that the tokens are, in dictionary word_forms; empty if none."""
    if len(part) < n or any(t.amount for t in part):
        return ()
    rest = tuple(t.low for t in part[1:])
    for head in {part[0].low, part[0].verb, *part[0].keys}:
        if (head, *rest) in multiword_entries():
            return (head, *rest)
    return ()


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
    is_function_word = token.low in STOP_WORDS or token.low in PREPOSITIONS | NEGATORS
    return "_" in token.low or token.low in REQUIRED_FUNCTION_WORDS or not is_function_word


def quantifier(token: EnglishToken) -> str:
    """The kind of quantifier a token is; empty if none."""
    if token.low == "each_other" or (token.low == "none" and token.text == "None"):
        return ""
    return _QUANTIFIER.get(token.low, "")


PRONOUN_QUANTIFIERS = frozenset(
    "most half all some none part one many several few each any both majority number group party team crew members".split()
)
AUXILIARY = BE | HAVE | DO | MODALS


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
