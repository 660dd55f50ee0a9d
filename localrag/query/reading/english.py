"""An English sentence → its words and clauses, by TextBlob's tagger, lemminflect's dictionary and rules of word order."""

import re
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any

from localrag.query.reading.amounts import NAMED, Amount, english_amounts
from localrag.query.reading.lexicon import phrases
from localrag.text.plain import FUNCTION_WORDS

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
MONTHS = frozenset("january february march april may june july august september october november december".split())
DAYS = frozenset("monday tuesday wednesday thursday friday saturday sunday".split())
# What says when and is neither subject nor object.
_TIMES = """
    spring summer autumn winter morning evening night afternoon noon midnight day week month year decade century today yesterday tomorrow
    tonight weekend time moment hour minute season dawn dusk
    """
TIMES = MONTHS | DAYS | frozenset(_TIMES.split())
# Function words whose exchange turns the meaning: they need a counterpart like any other word.
TELLING = frozenset(
    """
    before after until since without over under above below against inside outside more less most least fewer up down between within
    beyond during three second first last same other another now once all both each every some any many several few only none nothing
    nobody everybody just off out enough further again own he she his her him here
    """.split()
)
SOFT = frozenset(
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
# What stands in their complement did not happen by that: proposed, feared, tried.
UNREAL = frozenset(
    """
    propose order ask request command want hope plan intend expect threaten offer promise try attempt allege claim suspect believe think
    fear consider wish urge recommend suggest demand require seek desire prepare instruct vow pledge aim refuse decline fail deny forbid
    prevent doubt hesitate
    """.split()
)
FAILING = frozenset("fail neglect".split())
_REFUSALS = frozenset("refuse decline fail deny forbid prevent doubt unable forget avoid neglect cease stop unlikely".split())
_TOKEN = re.compile(rf"{NAMED}|[^\W\d_]+(?:[’'-][^\W\d_]+)*|\d+|[,;:()—–\"“”.?!]|\S")
_APOSTROPHES = str.maketrans(dict.fromkeys("’‘ʼ´＇", "'"))
_CONTRACTED = {"s": "is", "re": "are", "ve": "have", "ll": "will", "d": "would", "m": "am"}
_PARTICLES = frozenset("up down off out back away on over in".split())


@dataclass
class Token:
    """A word, number or mark of a sentence while it is read."""

    text: str
    low: str
    tag: str = ""
    keys: frozenset[str] = frozenset()
    amount: Amount | None = None
    owner: bool = False  # stands in the possessive
    verb: str = ""  # dictionary form, if it can be a verb
    particle: str = ""  # that the verb is put together with


@dataclass
class Group:
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


def tokens(text: str) -> list[Token]:
    """The tokens of a sentence with their parts of speech; numbers and set phrases are one token each."""
    text = text.translate(_APOSTROPHES)
    made: list[Token] = []
    at = 0
    for amount in [*english_amounts(text), None]:
        end = amount.start if amount else len(text)
        for m in _TOKEN.finditer(text, at, max(at, end)):
            made += _split(m[0])
        if amount:
            made.append(Token(text[amount.start : amount.end], text[amount.start : amount.end].lower(), "CD", amount=amount))
            at = amount.end
    made = [
        t
        for k, t in enumerate(made)
        if not (t.text == "." and k and (made[k - 1].low in TITLES or len(made[k - 1].low) == 1) and k + 1 < len(made))
    ]
    _tag(made)
    return _joined(made)


def _split(text: str) -> list[Token]:
    """The parts of a contraction: "I'd've" is I, would, have; an unknown part stays with the word before it."""
    low = text.lower()
    if low.endswith("n't"):
        stem = {"won't": "will", "can't": "can", "shan't": "shall"}.get(low, low[:-3])
        return [Token(stem, stem), Token("not", "not")]
    if low == "cannot":
        return [Token("can", "can"), Token("not", "not")]
    if low.endswith(("'s", "s'")) and len(low) > 2 and low not in ("it's", "he's", "she's", "that's", "there's"):
        bare = text[:-2] if low.endswith("'s") else text[:-1]
        return [Token(bare, bare.lower(), owner=True)]
    head, _, tail = text.rpartition("'")
    if head and (meant := _CONTRACTED.get(tail.lower())):
        return [*_split(head), Token(meant, meant)]
    return [Token(text, low)]


def _tag(made: list[Token]) -> None:
    spaced = " ".join(t.text.replace("/", "-").replace(" ", "_") for t in made)
    tagged = [tag for _, tag in _tagger().tag(spaced, tokenize=False)] if made else []
    if len(tagged) != len(made):
        tagged = ["NN"] * len(made)
    for token, tag in zip(made, tagged, strict=True):
        token.tag = token.tag or tag
        if token.amount is None and any(map(str.isalpha, token.low)):
            token.keys, token.verb = forms(token.low), verb_form(token.low)


def _joined(made: list[Token]) -> list[Token]:
    """Set phrases as one token each, also around a pronoun ("picked them up")."""
    out: list[Token] = []
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


def _phrase(part: list[Token], n: int) -> tuple[str, ...]:
    """The phrase of the tables that the tokens are, in dictionary forms; empty if none."""
    if len(part) < n or any(t.amount for t in part):
        return ()
    rest = tuple(t.low for t in part[1:])
    for head in {part[0].low, part[0].verb, *part[0].keys}:
        if (head, *rest) in phrases():
            return (head, *rest)
    return ()


def _separated(made: list[Token], i: int) -> int:
    """Where the particle of a verb stands behind its pronoun or short object; 0 if nowhere."""
    for k in range(i + 2, min(i + 5, len(made))):
        if made[k].low in _PARTICLES and (made[i].verb, made[k].low) in phrases():
            last = k + 1 >= len(made) or made[k + 1].tag in (".", ",", "IN", "CC", "RB")
            return k if last and all(t.tag.startswith(("PRP", "DT", "NN", "JJ")) for t in made[i + 1 : k]) else 0
    return 0


def content(token: Token) -> bool:
    """Whether a token says something that a source has to hold."""
    if token.amount:
        return True
    if not any(map(str.isalpha, token.low)):
        return False
    if token.low in MONTHS | DAYS and token.text[0].isupper():
        return True
    if token.low in PREPOSITIONS and "_" in token.low:
        return False
    return "_" in token.low or token.low in TELLING or (token.low not in FUNCTION_WORDS and token.low not in PREPOSITIONS | NEGATORS)


def quantifier(token: Token) -> str:
    """The kind of quantifier a token is; empty if none."""
    if token.low == "each_other" or (token.low == "none" and token.text == "None"):
        return ""
    return _QUANTIFIER.get(token.low, "")
