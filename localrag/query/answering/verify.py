"""The state of a sentence that a model wrote: supported, related, contradicted or unsupported by its sources.

Supported: one sentence of the sources says the same, see `reading.agree`. Contradicted: the nearest one says something else about the same
thing, see `reading.contradict`. Related: the nearest one is on the topic, and its passage holds every number and date. Unsupported: none of
these.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from sqlite_utils import Database

from localrag.query.questions.language import language_of
from localrag.query.reading import Word, read
from localrag.query.reading.agree import objection
from localrag.query.reading.contradict import contradiction
from localrag.query.retrieval.retrieve import stems
from localrag.records import Quote
from localrag.states import CONTRADICTED, RELATED, SUPPORTED, UNSUPPORTED
from localrag.store import graph
from localrag.text.plain import chunk_sentences, is_cjk, squeeze
from localrag.text.quotes import Embed

# Of the mean of cosine and shared words, from which on two sentences are taken to tell of the same matter: 60 to 73 % of true statements
# in other words than the text's are, and 15 to 17 % of those checked against other passages of the same book
# (scripts/support_threshold.py).
SUPPORT = 0.5
TOPIC = 0.4  # least cosine at which a sentence of a source is on the topic of a written one
MOST = 2  # quotes for one sentence of an answer


@dataclass(frozen=True, slots=True)
class Verdict:
    """The state of a written sentence, with the quotes that prove it or the nearest one; `why` is the reason that it is not proved."""

    state: str
    quotes: tuple[Quote, ...] = ()
    why: str = ""


Check = Callable[[str, Sequence[Quote], Sequence[Quote]], Verdict]
Aliases = Callable[[str], Iterable[str]]

_NAMES = re.compile(r"[A-Z][\w’'-]*(?:\s+(?:(?:of|de|von|van|the|du|da)\s+)?[A-Z][\w’'-]*)*")


def checker(embed: Embed, aliases: Aliases = lambda _: ()) -> Check:
    """A function that checks a sentence against the passages that it cites, then against all others that the model was shown.

    The quotes of its verdict are verbatim sentences of the passages, best first. `aliases` gives the other names of the entity that a name
    stands for: a source may use any of them.
    """
    nearest = _Nearest(embed)

    def check(sentence: str, named: Sequence[Quote], given: Sequence[Quote] = ()) -> Verdict:
        others = [quote for quote in given if quote not in named]
        tried = [passages for passages in (named, others) if passages]
        for passages in tried:
            if parts := supporting(sentence, passages, aliases):
                scores = support([sentence], [squeeze(p.text) for p in parts], embed)[0]
                return Verdict(SUPPORTED, tuple(parts[int(i)] for i in np.argsort(-scores, kind="stable")[:MOST]))
        verdicts = [_unproved(sentence, passages, nearest, aliases, named) for passages in tried]
        best = next((v for v in verdicts if v.state != UNSUPPORTED), None)
        return best or next(iter(verdicts), Verdict(UNSUPPORTED, (), "no passage"))

    return check


class _Nearest:
    """Finds the sentence of some passages that is nearest to a written one; each is embedded once."""

    def __init__(self, embed: Embed) -> None:
        self._embed = embed
        self._known: dict[str, NDArray[np.float32]] = {}

    def __call__(self, sentence: str, passages: Sequence[Quote]) -> tuple[Quote, Quote, float] | None:
        """The sentence, its passage, and the cosine; None where the passages have no sentence.

        The cosine is the passage's if that is higher, since a written sentence may join several of the passage's.
        """
        parts = [(part, whole) for whole in passages for part, _ in _sentences(whole)]
        if not parts:
            return None
        to = self._vectors([sentence])[0]
        cosines = self._vectors([squeeze(part.text) for part, _ in parts]) @ to
        part, whole = parts[best := int(np.argmax(cosines))]
        return part, whole, max(float(cosines[best]), float(self._vectors([squeeze(whole.text)])[0] @ to))

    def _vectors(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if new := [text for text in dict.fromkeys(texts) if text not in self._known]:
            self._known |= dict(zip(new, self._embed(new), strict=True))
        return np.array([self._known[text] for text in texts], np.float32)


def _unproved(sentence: str, passages: Sequence[Quote], nearest: _Nearest, aliases: Aliases, named: Sequence[Quote]) -> Verdict:
    """The verdict on a sentence that nothing proves, from the nearest sentence of the passages.

    Its numbers and dates may stand anywhere in that sentence's passage or in the passages that it cites (`named`).
    """
    found = nearest(sentence, passages)
    if found is None:
        return Verdict(UNSUPPORTED, (), "no passage")
    source, passage, cosine = found
    claim, figures = read(_with_names_of(squeeze(sentence), source.text, aliases)), _figures({passage, *named})
    if why := contradiction(claim, read(squeeze(source.text)), figures, names=language_of(sentence) in ("en", "zh")):
        return Verdict(CONTRADICTED, (source,), why)
    if cosine < TOPIC:
        return Verdict(UNSUPPORTED, (), "topic")
    missing = next((word.text for word in claim.words if word.figure and not figures(word)), "")
    return Verdict(UNSUPPORTED, (), f"missing:{missing}") if missing else Verdict(RELATED, (source,))


def _figures(passages: Iterable[Quote]) -> Callable[[Word], bool]:
    """A function that tells whether a number or date occurs in any of the passages."""
    words = [word for whole in passages for part, _ in _sentences(whole) for word in read(squeeze(part.text)).words]
    numbers = {word.text for word in words if word.kind == "number"}
    dates = {key for word in words if word.when for key in word.keys}
    return lambda word: word.text in numbers if word.kind == "number" else not word.keys.isdisjoint(dates)


def aliases_in(db: Database) -> Aliases:
    """The other names that the graph's entities of a name go by."""

    @cache
    def others(name: str) -> tuple[str, ...]:
        ids = graph.entities_named(db, [name]).get(name.lower(), ())
        return tuple(dict.fromkeys(alias for names in graph.aliases_of(db, ids).values() for alias in names if alias != name))

    return others


def supporting(text: str, cited: Sequence[Quote], aliases: Aliases = lambda _: ()) -> list[Quote]:
    """The sentences of passages that say what `text` says; none unless each sentence of `text` is said by one of them."""
    sources = list(dict.fromkeys(pair for quote in cited for pair in _sentences(quote)))
    found: list[Quote] = []
    for start, end in chunk_sentences(text):
        claim = squeeze(text[start:end])
        held = [part for part, before in sources if says(claim, squeeze(part.text), before, aliases)]
        if not held:
            return []
        found += held
    return list(dict.fromkeys(found))


def _sentences(quote: Quote) -> Iterator[tuple[Quote, str]]:
    """The sentences of a passage, each with the text of the one before it."""
    before = ""
    for start, end in chunk_sentences(quote.text):
        part = quote.text[start:end]
        yield Quote(quote.chunk_id, quote.start + start, quote.start + end, part), before
        before = squeeze(part)


def says(claim: str, source: str, before: str = "", aliases: Aliases = lambda _: ()) -> bool:
    """Whether one sentence of a source says what the claim says.

    A pronoun at its head stands for the subject of the sentence `before`; a name may be given by an alias.
    """
    return why_not(claim, source, before, aliases) == ""


def why_not(claim: str, source: str, before: str = "", aliases: Aliases = lambda _: ()) -> str:
    """What speaks against it that a sentence says what the claim says, in a word or two; empty if nothing does."""
    claim = _with_names_of(claim, source, aliases)
    reasons = []
    for text in (source, _resolved(source, before)):
        if text:
            why = objection(read(claim), read(text))
            if not why:
                return ""
            reasons.append(why)
    return reasons[0] if reasons else "nothing said"


_LEADING = re.compile(
    r"^((?:[A-Z][a-z]+ed\s|When\s|While\s|After\s|Before\s|As\s|If\s|In \d{4},?\s|Later,?\s|Then,?\s|But\s|And\s)?)"
    r"(He|She|It|They|he|she|it|they)\b"
)
_LEADING_OWNER = re.compile(r"^((?:In \d{4},?\s)?)(His|Her|Its|Their)\b")
_LEADING_CHINESE = re.compile(
    r"^((?:后来|之后|随后|其后|当时|同年|次年|\d+年，?)?，?)(他们|她们|它们|他|她|它|该公司|该校|该市|该村|该馆|该书)"
)


def _resolved(source: str, before: str) -> str:
    """The source with the pronoun at its head replaced by the subject of the sentence before it; empty without either."""
    if not before:
        return ""
    subject = read(before).subject
    if not subject:
        return ""
    if is_cjk(source):
        return _LEADING_CHINESE.sub(lambda m: m[1] + subject, source, count=1) if _LEADING_CHINESE.match(source) else ""
    if _LEADING.match(source):
        return _LEADING.sub(lambda m: m[1] + subject, source, count=1)
    if _LEADING_OWNER.match(source):
        return _LEADING_OWNER.sub(lambda m: f"{m[1]}{subject}’s", source, count=1)
    return ""


def _with_names_of(claim: str, source: str, aliases: Aliases) -> str:
    """The claim with names that the source does not hold replaced by aliases that it does."""
    for name in dict.fromkeys(_NAMES.findall(claim)):
        if not _holds(source, name):
            other = next((a for a in aliases(name) if a != name and _holds(source, a)), None)
            claim = claim.replace(name, other) if other else claim
    return claim


def _holds(text: str, name: str) -> bool:
    """Whether a text holds a name as whole words."""
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) is not None if not is_cjk(name) else name in text


def support(sentences: Sequence[str], texts: Sequence[str], embed: Embed) -> NDArray[np.float32]:
    """How near each text comes to each sentence, (sentences, texts): the mean of their cosine and the share of its words."""
    vectors = embed([*sentences, *texts])
    have = [stems(t) for t in texts]
    wanted = [stems(s) for s in sentences]
    words = np.array([[len(w & h) / max(1, len(w)) for h in have] for w in wanted], np.float32)
    return np.asarray((vectors[: len(sentences)] @ vectors[len(sentences) :].T + words) / 2, np.float32)
