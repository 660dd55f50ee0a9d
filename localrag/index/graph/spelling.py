"""What must be equal for two names to be one entity, and the words around a name that do not make it another."""

import re
import unicodedata
from collections.abc import Iterable
from functools import cache, lru_cache
from typing import Any

from localrag.index.extraction.names.titles import TITLES
from localrag.text.plain import is_cjk, squeeze

_POSSESSIVE = re.compile(r"['’]s?$")
_NOT_MEANT = re.compile(r"(?<!\d)[.,]|[.,](?!\d)|[;:!?\"“”«»()\[\]{}《》「」『』·・]")
_MANNER = "also|better|commonly|formerly|previously|originally|sometimes|professionally|officially|popularly|now|then|locally|once|best"
_CALLED = re.compile(  # what stands between two names of one thing
    rf"[\s,(\"“]+(?:(?:who|which)\s)?(?:is\s|was\s|are\s|were\s)?(?:or\s)?"
    rf"(?:(?:(?:{_MANNER})\s)+(?:known(?:\sas)?|called|named)|(?<=[,(])(?:known\sas|née|né|a\.k\.a\.|aka))"
    r"[\s:\"“]+(?:the\s)?"
)
_BRACKET = re.compile(r"[(（]([^()（）]{2,120})[)）]")
_TITLE = re.compile(r"^(?:mr|dr|the)\s+")  # not Mrs: Mrs. Cratchit is not Cratchit
COMPANY = frozenset("inc incorporated ltd limited corp corporation co company plc llc llp gmbh ag sa nv bv ab oy spa srl kg group".split())
_STATES = (  # other names of the same state, not its people: "French" is mostly a language
    ("united states", "us", "usa", "united states of america"),
    ("united kingdom", "uk", "great britain"),
    ("soviet union", "ussr"),
    ("china", "prc", "people's republic of china"),
    ("european union", "eu"),
    ("united nations", "un"),
)
STATES = {short: names[0] for names in _STATES for short in names[1:]}


@lru_cache(maxsize=100_000)
def normalise(name: str) -> str:
    """The key of a name: without case, possessive, accents, points, brackets, a leading Mr, Dr or The; Chinese in simplified characters."""
    folded = unicodedata.normalize("NFKC", name)
    if is_cjk(folded):
        return _NOT_MEANT.sub("", "".join(_simplified().convert(folded).casefold().split())) or folded
    plain = "".join(c for c in unicodedata.normalize("NFKD", folded.casefold()) if not unicodedata.combining(c))
    words = " ".join(_NOT_MEANT.sub("", _POSSESSIVE.sub("", plain.strip())).replace("-", " ").replace("–", " ").split())
    return _TITLE.sub("", words) or words or folded


@cache
def _simplified() -> Any:
    import opencc

    return opencc.OpenCC("t2s")


def without_titles(key: str) -> str:
    """A key without the titles before it; one that is nothing but titles stays."""
    words = key.split()
    while len(words) > 1 and words[0] in TITLES:
        words = words[1:]
    return " ".join(words)


def digits(key: str) -> list[str]:
    """The numbers in a key: names whose numbers differ are never one (ASR1603, ASR1605)."""
    return re.findall(r"\d+", key)


def without_company(key: str) -> str:
    """A key without the company form after it."""
    words = key.split()
    while len(words) > 1 and words[-1] in COMPANY:
        words = words[:-1]
    return " ".join(words)


def defined_names(text: str, names: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Names that a text says mean the same: key of the short or second one → (key of the other, what says so)."""
    known = list(names)
    found = {first: (other, "also called so in the text") for first, other in _also_called(text, known).items()}
    return found | {short: (long, "acronym defined in brackets") for short, long in defined_acronyms(text, known).items()}


def _also_called(text: str, names: Iterable[str]) -> dict[str, str]:
    """Names that are said to be another's: "Oslo, formerly known as Kristiania"; key of the second → of the first."""
    written = sorted({squeeze(n) for n in names}, key=len, reverse=True)
    found = {}
    for match in _CALLED.finditer(text):
        before, after = squeeze(text[max(0, match.start() - 150) : match.start()]), squeeze(text[match.end() : match.end() + 150])
        first = next((n for n in written if before.endswith(n)), "")
        second = next((n for n in written if after.startswith(n) and not after[len(n) : len(n) + 1].isalnum()), "")
        if first and second and normalise(first) != normalise(second):
            found[normalise(second)] = normalise(first)
    return found


def defined_acronyms(text: str, names: Iterable[str]) -> dict[str, str]:
    """Names defined next to each other, "Association for Computational Linguistics (ACL)" or reversed: key of the short → of the long."""
    written = {squeeze(n) for n in names}
    found = {}
    for match in _BRACKET.finditer(text):
        inner = squeeze(match.group(1)).strip("“”\"' ")
        before = squeeze(text[max(0, match.start() - 150) : match.start()])
        outer = max((n for n in written if before.endswith(n)), key=len, default="")
        short, long = sorted((inner, outer), key=len)
        if short and inner in written and _is_acronym(short, long):
            found[normalise(short)] = normalise(long)
    return found


def _is_acronym(short: str, long: str) -> bool:
    """Whether the letters of `short` stand in this order in `long`, the first at its beginning."""
    letters = iter(long.casefold())
    wanted = [c for c in short.casefold() if c.isalnum()]
    return len(short) < len(long) and long[:1].casefold() == short[:1].casefold() and all(c in letters for c in wanted)
