"""Chunk → Extraction by the bundled tagger: names with their types, and the pairs of them that the text relates."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace

from localrag.config import Domain, Settings
from localrag.engine.embedding.tagger import TYPES
from localrag.index.extraction.names.candidates import candidates, concepts
from localrag.index.extraction.names.noise import is_noise
from localrag.index.extraction.names.spans import find_names, nearby_pairs
from localrag.index.extraction.names.titles import TITLES
from localrag.index.extraction.passage import Passage
from localrag.llm.grammar import THING
from localrag.llm.tagging import Named, Tagger
from localrag.records import ExtractedEntity, ExtractedRelationship
from localrag.text.plain import Span, is_cjk, squeeze
from localrag.text.words import word_tag

MOST_BETWEEN = 60  # characters between two names of a phrase that says how they are related
LONGEST_SHORT = 7  # an abbreviation has fewer characters
_THE = ("the ", "The ")
_WORDS = re.compile(r"\w[\w.&'’-]*\w|\w")
_PART = re.compile(r"-(?=[^\W\d_a-z])\w+")
_BEFORE = re.compile(r"\b([^\W\d_a-z]\w*)\.?\s$")
_GOES_ON = re.compile(r"\.(?=[,;)]|\s[a-z(])")  # no sentence ends there
_STOP = re.compile(r"[.;:!?()“”\"]")
SOMEBODY = 0.6  # least probability that a common noun stands for a person or a place
RELATED = 0.35  # least probability that two names are related


def can_tag(text: str, settings: Settings) -> bool:
    """Whether the tagger gives what is asked for: it was taught on European languages, and knows four types."""
    return not is_cjk(text) and settings.domain == Domain() and set(settings.entity_types) <= set(TYPES)


async def extract_tagged(passage: Passage, tagger: Tagger, settings: Settings) -> tuple[list[ExtractedEntity], list[ExtractedRelationship]]:
    """The entities of a passage and their relationships.

    What stands for somebody, as "the surgeon" does, is an entity, and so are noun phrases that recur; they are related to what shares a
    sentence with them.

    Raises ModelError.
    """
    text = passage.plain
    likely = find_names(text, candidates(passage))
    tagged = await tagger.tag(text, [(s.start, s.end) for spans in likely.values() for s in spans])
    names = [_whole(text, n) for n in _grown(tagged.names, likely)]
    written = [squeeze(text[n.start : n.end]) for n in names]
    votes: defaultdict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for name, n in zip(written, names, strict=True):
        if not n.nominal and len(name) > 1 and not is_noise(name):
            votes[name][n.type] += n.score
    named = {name: _asked(max(kinds, key=lambda k: kinds[k]), settings) for name, kinds in votes.items()}
    for name in _unseen(passage, list(named), list(likely)):
        named[name] = THING
    somebody = {
        "the " + phrase[4:]: n.type
        for phrase, n in zip(written, names, strict=True)
        if n.nominal and n.score >= SOMEBODY and phrase[:4] in _THE
    }
    folded = {name.casefold() for name in named}
    phrases = [p for p in dict.fromkeys([*somebody, *concepts(passage, list(named))]) if p.casefold() not in folded]
    places = passage.numbers([*named, *phrases])
    entities = [ExtractedEntity(name, kind) for name, kind in named.items()]
    entities += [ExtractedEntity(p, _asked(somebody.get(p, THING), settings)) for p in phrases]
    entities = [e for e in entities if places[e.name]]  # one cut out of a longer word stands nowhere as a word
    related = _related(passage, names, written, tagged.related, {e.name for e in entities})
    met = [pair for pair, (i, j) in nearby_pairs(places).items() if i == j and not set(pair).isdisjoint(phrases)]
    return entities, [*related, *(ExtractedRelationship(*pair) for pair in met)]


def _asked(kind: str, settings: Settings) -> str:
    return kind if kind in settings.entity_types else THING


def _unseen(passage: Passage, known: Sequence[str], others: Sequence[str]) -> list[str]:
    """Those of `others` that stand somewhere where no known name does."""
    return [name for name, spans in passage.spans_apart([*known, *others]).items() if spans and name not in known]


def _grown(names: Sequence[Named], likely: Mapping[str, Sequence[Span]]) -> list[Named]:
    """The names; one that a likely name begins with, and whose rest is no other name, is all of it: "Dover Lines", not Dover alone."""
    ends = {span.start: span.end for spans in likely.values() for span in spans}
    taken = {n.start for n in names}
    return [
        replace(n, end=ends[n.start])
        if not n.nominal and ends.get(n.start, 0) > n.end and taken.isdisjoint(range(n.start + 1, ends[n.start]))
        else n
        for n in names
    ]


def _whole(text: str, n: Named) -> Named:
    """A name with the capitalised part of a compound behind it, the point of an abbreviation, and a person's titles.

    Without articles, small words and signs at its ends; nothing is left where it has no capital. Common nouns stay as they are.
    """
    if n.nominal:
        return n
    words = list(_WORDS.finditer(text, n.start, n.end))
    while words and (words[0].group().islower() or words[0].group() == "The"):
        words = words[1:]
    while words and words[-1].group().islower():
        words = words[:-1]
    if not words:
        return replace(n, end=n.start)
    start, end = words[0].start(), words[-1].end()
    if part := _PART.match(text, end):
        end = part.end()
    if _GOES_ON.match(text, end) and len(text[start:end].rsplit(maxsplit=1)[-1]) < LONGEST_SHORT:
        end += 1
    while n.type == "person" and (title := _BEFORE.search(text[max(0, start - 24) : start])) and title[1].lower() in TITLES:
        start -= len(title.group())
    return replace(n, start=start, end=end)


def _related(
    passage: Passage, names: Sequence[Named], written: Sequence[str], related: Sequence[tuple[int, int, float]], named: Set[str]
) -> list[ExtractedRelationship]:
    """The names that are related, the most probable first, each pair where it is most probable."""
    best: dict[frozenset[str], tuple[float, int, int]] = {}
    for i, j, p in related:
        a, b = written[i], written[j]
        if p >= RELATED and a in named and b in named and a not in b and b not in a:
            key = frozenset((a, b))
            best[key] = max(best.get(key, (0.0, 0, 0)), (p, i, j))
    return [
        ExtractedRelationship(written[i], written[j], _how(passage.plain, names[i], names[j]) if passage.english else "")
        for _, i, j in sorted(best.values(), reverse=True)
    ]


def _how(text: str, a: Named, b: Named) -> str:
    """The text from one name to the other where that is short and a verb stands between them; else nothing."""
    between = squeeze(text[a.end : b.start])
    if len(between) > MOST_BETWEEN or _STOP.search(between) or not any(word_tag(w).startswith("VB") for w in between.split()):
        return ""
    return squeeze(text[a.start : b.end])
