"""Entity resolution: finds the names of a corpus that denote the same entity, and reads the user's `aliases.txt`.

Rules on titles, surnames, initials, acronyms, company forms and spelling decide certain cases and give the reason; names that are only
similar are left to the user. A rule looks at one document first, where "Holm" is the only Holm it names in
full, then at the whole corpus. Names that differ in digits are never merged.

`aliases.txt` in the index folder has one decision per line and is read whenever the graph is built:

    Scrooge = Ebenezer Scrooge      these are one; the last is its name
    Johnson != Johnston             these are not
    # a comment
"""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Protocol

from localrag.errors import UsageError
from localrag.indexing.extraction.names import EPITHETS, FEMALE_TITLES, TITLES
from localrag.system.files import ensure_private_folder, read_regular_file, write_atomically
from localrag.text.parts_of_speech import dictionary_tag
from localrag.text.sentences import collapse_whitespace, is_cjk, without_accents

_POSSESSIVE = re.compile(r"['’]s?$")
_PUNCTUATION = re.compile(r"(?<!\d)[.,]|[.,](?!\d)|[;:!?\"“”«»()\[\]{}《》「」『』·・]")
_MANNER = "also|better|commonly|formerly|previously|originally|sometimes|professionally|officially|popularly|now|then|locally|once|best"
_CALLED = re.compile(  # the words between two names of one entity
    rf"(?<![\s,(\"“])[\s,(\"“]+(?:(?:who|which)\s)?(?:is\s|was\s|are\s|were\s)?(?:or\s)?"
    rf"(?:(?:(?:{_MANNER})\s){{1,4}}(?:known(?:\sas)?|called|named)|(?<=[,(])(?:known\sas|née|né|a\.k\.a\.|aka))"
    r"[\s:\"“]+(?:the\s)?"
)
_BRACKET = re.compile(r"[(（]([^()（）]{2,120})[)）]")
_TITLE = re.compile(r"^(?:mr|dr|the)\s+")  # not Mrs: Mrs. Cratchit is not Cratchit
COMPANY_FORMS = frozenset(
    "inc incorporated ltd limited corp corporation co company plc llc llp gmbh ag sa nv bv ab oy spa srl kg group".split()
)
_STATES = (  # names of the same state, but not of its people: "French" is mostly a language
    ("united states", "us", "usa", "united states of america"),
    ("united kingdom", "uk", "great britain"),
    ("soviet union", "ussr"),
    ("china", "prc", "people's republic of china"),
    ("european union", "eu"),
    ("united nations", "un"),
)
COUNTRY_ALIASES = {short: names[0] for names in _STATES for short in names[1:]}


@lru_cache(maxsize=100_000)
def name_key(name: str) -> str:
    """The key of a name: without case, possessive, accents, full stops, brackets, a leading Mr, Dr or The; Chinese in simplified
    characters.
    """
    folded = unicodedata.normalize("NFKC", name)
    if is_cjk(folded):
        return _PUNCTUATION.sub("", "".join(_simplified().convert(folded).casefold().split())) or folded
    words = " ".join(_PUNCTUATION.sub("", _POSSESSIVE.sub("", without_accents(folded).strip())).replace("-", " ").replace("–", " ").split())
    return _TITLE.sub("", words) or words or folded


@cache
def _simplified() -> Any:
    import opencc

    return opencc.OpenCC("t2s")


def without_titles(key: str) -> str:
    """A key without leading titles; one that has nothing but titles stays."""
    words = key.split()
    while len(words) > 1 and words[0] in TITLES:
        words = words[1:]
    return " ".join(words)


def numbers_in_key(key: str) -> list[str]:
    """The numbers in a key: names with different numbers are never merged (ASR1603, ASR1605)."""
    return re.findall(r"\d+", key)


def without_company(key: str) -> str:
    """A key without a trailing company form."""
    words = key.split()
    while len(words) > 1 and words[-1] in COMPANY_FORMS:
        words = words[:-1]
    return " ".join(words)


def defined_aliases(text: str, names: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Names that a text defines as equal: key of the short or second one → (key of the other, reason)."""
    known_names = list(names)
    aliases = {first: (other, "also called so in the text") for first, other in _explicit_aliases(text, known_names).items()}
    return aliases | {short: (long, "acronym defined in brackets") for short, long in defined_acronyms(text, known_names).items()}


def _explicit_aliases(text: str, names: Iterable[str]) -> dict[str, str]:
    """Explicit aliases: "Oslo, formerly known as Kristiania"; key of the second → key of the first."""
    written = sorted({collapse_whitespace(n) for n in names}, key=len, reverse=True)
    aliases = {}
    for match in _CALLED.finditer(text):
        before, after = (
            collapse_whitespace(text[max(0, match.start() - 150) : match.start()]),
            collapse_whitespace(text[match.end() : match.end() + 150]),
        )
        first = next((n for n in written if before.endswith(n)), "")
        second = next((n for n in written if after.startswith(n) and not after[len(n) : len(n) + 1].isalnum()), "")
        if first and second and name_key(first) != name_key(second):
            aliases[name_key(second)] = name_key(first)
    return aliases


def defined_acronyms(text: str, names: Iterable[str]) -> dict[str, str]:
    """Acronyms defined in the text, "Association for Computational Linguistics (ACL)" or reversed: key of the short → key of the long."""
    written = {collapse_whitespace(n) for n in names}
    acronyms = {}
    for match in _BRACKET.finditer(text):
        inner = collapse_whitespace(match.group(1)).strip("“”\"' ")
        before = collapse_whitespace(text[max(0, match.start() - 150) : match.start()])
        outer = max((n for n in written if before.endswith(n)), key=len, default="")
        short, long = sorted((inner, outer), key=len)
        if short and inner in written and _is_acronym(short, long):
            acronyms[name_key(short)] = name_key(long)
    return acronyms


def _is_acronym(short: str, long: str) -> bool:
    """Whether the letters of `short` occur in this order in `long`, the first at its beginning."""
    letters = iter(long.casefold())
    wanted = [c for c in short.casefold() if c.isalnum()]
    return len(short) < len(long) and long[:1].casefold() == short[:1].casefold() and all(c in letters for c in wanted)


MIN_SIMILARITY = 85.0  # of 100: names of one type with at least this similar spelling are left open
MAX_SIMILAR_PAIRS = 200  # of such pairs, the most similar first
DOMINANCE_FACTOR = 2  # a shorter name denotes the longer one that occurs this many times as often as any other
MAX_BLOCK_SIZE = 400  # names of one block that are compared with each other: the most frequent

DocumentName = tuple[str, str]  # document, key
NameTarget = tuple[str, str, float]  # the key of the fuller name, the reason, the confidence


@dataclass(frozen=True, slots=True)
class NameForm:
    """A normalised name in one document: `text` is its most frequent spelling, `type` its majority type, `count` its occurrences."""

    document: str
    key: str
    text: str
    type: str
    count: int


@dataclass(frozen=True, slots=True)
class MergeDecisions:
    """The user's decisions on names, by key: merged and separate pairs."""

    merged_pairs: tuple[tuple[str, str], ...] = ()
    separate_pairs: frozenset[frozenset[str]] = frozenset()


def targets_by_decision(decisions: MergeDecisions) -> dict[str, NameTarget]:
    """The targets of names by the user's decisions."""
    return {a: (b, "decided by the user", 1.0) for a, b in decisions.merged_pairs if a != b}


def resolve_chain(key: str, target: Callable[[str], NameTarget | None], decisions: MergeDecisions) -> str:
    """Follow a chain Mr. Holm → Holm → Lars Holm to its end, without crossing a pair that the user keeps separate."""
    seen = [key]
    while (step := target(seen[-1])) is not None:
        if step[0] in seen or any(frozenset((s, step[0])) in decisions.separate_pairs for s in seen):
            break
        seen.append(step[0])
    return seen[-1]


class NameLookup(Protocol):
    """Finds the keys of names by a kind of lookup and its arguments."""

    def __call__(self, *asked: str) -> Sequence[str]:
        """The keys of names with this lookup key."""


NamesByKey = Mapping[str, NameForm]


def index_keys(name: NameForm) -> Iterator[tuple[str, ...]]:
    """The lookup keys of a name: every suffix of a person's (Maria Holm and Holm for Anna Maria Holm), initials, company."""
    key = name.key
    words = without_titles(key).split()
    yield "company", without_company(key)
    if len(words) < 2:
        return
    yield "initials", _initials(name.text)
    yield "end", key.rsplit(" ", 1)[1]
    yield "joined", key.replace(" ", "")
    parts = key.split()
    if is_person_name(name) and FEMALE_TITLES.isdisjoint(parts[:1]):
        for n in range(1, len(parts)):
            yield "surname", " ".join(parts[n:])
        for given_name in {words[0], words[0][0]}:  # given name or its initial, and surname
            yield "ends", given_name, words[-1]
        yield "first", words[0]


def query_keys(name: NameForm) -> set[tuple[str, ...]]:
    """All lookups that the rules might do for a name; `("key", …)` for a name itself."""
    key, core = name.key, without_titles(name.key)
    words, parts = core.split(), key.split()
    queries: set[tuple[str, ...]] = {("company", without_company(key)), ("initials", name.text.replace(".", "")), ("surname", core)}
    queries |= {("key", k) for k in (core, " ".join(parts[1:]), COUNTRY_ALIASES.get(key, "")) if k and k != key}
    return queries | ({("ends", words[0], words[-1])} if len(words) > 1 else {("first", key)})


def in_memory_lookup(names: Iterable[NameForm]) -> NameLookup:
    """A lookup over names in memory."""
    keys_by_lookup: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
    for name in names:
        for value in index_keys(name):
            keys_by_lookup[value].append(name.key)
    return lambda *asked: keys_by_lookup.get(asked, [])


def find_targets(
    names: Mapping[str, NameForm], defined: Mapping[str, tuple[str, str]], *, one_document: bool = False
) -> dict[str, NameTarget]:
    """For each key the fuller name, by the first rule that finds exactly one; the longest names first."""
    lookup = in_memory_lookup(names.values())
    targets: dict[str, NameTarget] = {}
    for key in sorted(names, key=resolution_order):
        other, reason = defined.get(key, ("", ""))
        if target := (other, reason, 1.0) if other in names else find_target(key, names, lookup, targets.get, one_document=one_document):
            targets[key] = target
    return targets


def resolution_order(key: str) -> tuple[int, str]:
    """The order in which names are resolved: a target may have one already."""
    return -len(key), key


def find_target(
    key: str, names: NamesByKey, lookup: NameLookup, found: Callable[[str], NameTarget | None], *, one_document: bool = False
) -> NameTarget | None:
    """The fuller name of a key, by the first rule that finds exactly one. `found`: the targets of names before it in the order."""
    for reason, score, options in _candidate_targets(names[key], names, lookup, one_document=one_document):
        resolved = {((before := found(o)) and before[0]) or o for o in options if o != key} - {key}
        if only := _unique_or_dominant(resolved, names):
            return only, reason, score
    return None


def _unique_or_dominant(keys: set[str], names: NamesByKey) -> str | None:
    """The only key, or the one of several that occurs at least DOMINANCE_FACTOR times as often as any other."""
    first, second = [*sorted(keys, key=lambda k: (-names[k].count, k)), "", ""][:2]
    return first if first and (not second or names[first].count >= DOMINANCE_FACTOR * names[second].count) else None


CandidateRules = Iterator[tuple[str, float, Iterable[str]]]  # for each rule that applies: its name, confidence, and target names


def _candidate_targets(name: NameForm, names: NamesByKey, lookup: NameLookup, *, one_document: bool) -> CandidateRules:
    """The names that `name` may be a variant of, by rule."""
    key, words = name.key, name.key.split()
    if FEMALE_TITLES.isdisjoint(words[:1]):
        yield from _person_options(name, names, lookup)
    if not COMPANY_FORMS.isdisjoint(words):
        yield "company form", 0.95, [o for o in lookup("company", without_company(key)) if COMPANY_FORMS.isdisjoint(o.split())]
    letters = name.text.replace(".", "")
    if letters.isupper() and letters.isalpha() and 3 <= len(letters) <= 8:
        yield "initials", 0.85, lookup("initials", letters)
    if key in COUNTRY_ALIASES:
        yield "the same state", 0.95, [COUNTRY_ALIASES[key]] if COUNTRY_ALIASES[key] in names else []
    if one_document and name.type != "person":
        yield "written apart", 0.95, [o for o in lookup("joined", key) if names[o].type == name.type]
        if " " not in key and _is_word(key) and name.text[:1].isupper():
            yield "end of a longer name", 0.8, [o for o in lookup("end", key) if names[o].type == name.type]
        bare = _KIND_OF_PLACE.sub("", key)
        yield "kind of place", 0.9, [bare] if bare in names and names[bare].type == name.type else []


def _person_options(name: NameForm, names: NamesByKey, lookup: NameLookup) -> CandidateRules:
    """Rules for people: without title, by surname, by given name, by a fuller form."""
    key, words, core = name.key, name.key.split(), without_titles(name.key)
    if core in names and core != key:
        yield "title", 0.98, [core]
    if name.type not in ("place", "organization"):
        if len(words) > 2 and _is_word(words[0]) and " ".join(words[1:]) in names and "of" not in words:
            yield "title", 0.95, [" ".join(words[1:])]  # Skipper Hugh Dunmore
        yield "surname", 0.95, [o for o in lookup("surname", core) if _is_surname(core, o)]
        if core == key and len(words) == 1 and not _is_word(key):
            yield "given name", 0.9, lookup("first", key)
    if is_person_name(name) and len(words) > 1 and words[0] in EPITHETS:
        without_title = " ".join(words[1:])
        yield "epithet", 0.9, [without_title] if without_title in names and not _is_word(without_title) else []  # Old Fezziwig
    if is_person_name(name) and (" " in core or not _is_word(core)):
        yield "fuller form of a person's name", 0.9, _longer_forms(core, lookup)


_KIND_OF_PLACE = re.compile(r"^(?:kingdom|republic|free state|state|city|town|commonwealth|island) of | islands$")


def _is_surname(core: str, full: str) -> bool:
    """Whether `full` is `core` with given names before it; not so "Recipe of Ellen Kerrigan", nor "Engine Room Log" for the word log."""
    given_names = full.removesuffix(" " + core).split()
    if given_names == full.split() or "of" in given_names or given_names[-1].endswith("'s") or all(map(_is_word, given_names)):
        return False
    return len(given_names) == 1 or not _is_word(core)


def _longer_forms(core: str, lookup: NameLookup) -> list[str]:
    """Names with the same surname whose given names `core` abbreviates: J. Holm, George W. Bush."""
    words = core.split()
    candidates = lookup("ends", words[0], words[-1]) if len(words) > 1 else lookup("surname", core)
    return [
        o
        for o in candidates
        if without_titles(o) != core
        and len("".join(without_titles(o).split())) > len("".join(words))
        and _initials_fit(words[:-1], without_titles(o).split()[:-1])
    ]


def _initials_fit(short: Sequence[str], full: Sequence[str]) -> bool:
    """Whether the words of `short`, in order, are words of `full` or their initials; the first must be that of the first."""
    at = 0
    for i, word in enumerate(short):
        while at < len(full) and not (full[at] == word or (len(word) == 1 and full[at].startswith(word))):
            if i == 0:
                return False
            at += 1
        if at == len(full):
            return False
        at += 1
    return True


def is_person_name(name: NameForm) -> bool:
    """Whether a name is typed as a person's or, without a type, consists of words that the dictionary does not have."""
    if name.type != "name":
        return name.type == "person"
    words = [w for w in name.text.split() if name_key(w) not in TITLES]
    return 1 < len(words) <= 4 and all(w[0].isupper() and not _is_word(w) for w in words)


@lru_cache(maxsize=100_000)
def _is_word(word: str) -> bool:
    return bool(dictionary_tag(word.lower())) or dictionary_tag(word) not in ("", "NNP")


def _initials(text: str) -> str:
    return "".join(w[0] for w in re.findall(r"[^\W\d_]+", text) if w[0].isupper())


ALIASES_FILE = "aliases.txt"
MAX_ALIASES_BYTES = 10_000_000


def read_aliases(folder: Path) -> MergeDecisions:
    """Read the decisions of an index folder's `aliases.txt`, none without a file. Raises UsageError for an invalid line."""
    same: list[tuple[str, str]] = []
    different: set[frozenset[str]] = set()
    for number, line in enumerate(_lines(folder), start=1):
        text = line.split("#")[0].strip()
        apart = [name_key(part) for part in text.split("!=")]
        merged_keys = [name_key(part) for part in text.split("=")]
        if not text:
            continue
        if len(apart) == 2 and all(apart):
            different.add(frozenset(apart))
        elif len(merged_keys) > 1 and all(merged_keys) and "!" not in text:
            same += [(name, merged_keys[-1]) for name in merged_keys[:-1]]
        else:
            raise UsageError(f"{folder / ALIASES_FILE}, line {number}: {line.strip()!r} is not a decision.", "Write A = B or A != B.")
    decided = {pair for pair in same if frozenset(pair) in different}
    return MergeDecisions(tuple(p for p in same if p not in decided), frozenset(different))


def add_alias(folder: Path, line: str) -> None:
    """Append a decision to the file; one that says the opposite about the same names is removed."""
    opposite = line.replace("!=", "=") if "!=" in line else line.replace("=", "!=")
    retained = [old for old in _lines(folder) if old.strip() not in (line, opposite)]
    write_atomically(ensure_private_folder(folder) / ALIASES_FILE, ("\n".join([*retained, line]) + "\n").encode())


def remove_aliases(folder: Path, is_out: Callable[[str], bool]) -> int:
    """Remove the lines that `is_out` is true for; returns how many."""
    lines = _lines(folder)
    retained = [line for line in lines if not is_out(line)]
    if len(retained) < len(lines):
        write_atomically(folder / ALIASES_FILE, "".join(f"{line}\n" for line in retained).encode())
    return len(lines) - len(retained)


def _lines(folder: Path) -> list[str]:
    path = folder / ALIASES_FILE
    try:
        return read_regular_file(path, MAX_ALIASES_BYTES).decode("utf-8").splitlines()
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {getattr(error, 'strerror', error)}.", "Correct it, or move it away.") from error
