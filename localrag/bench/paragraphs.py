"""Forty annotated paragraphs read by a model: which names, types and pairs it finds, what it repeats, and what it says of its prompts."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from localrag.bench.leaks import Wording, leaks, wording
from localrag.config import Settings
from localrag.engine.tokens import Tokenizer
from localrag.eval.extraction import count_names, gold_chunks
from localrag.eval.gold import TYPES, GoldDocument, load_gold, marked_sections
from localrag.eval.scores import Scores, Tally
from localrag.index.extraction.extract import extract
from localrag.index.extraction.names.case import Case
from localrag.llm.model import CALL_FAILED, Model, in_window
from localrag.llm.tagging import Tagger
from localrag.records import Extraction

GOLD = Path(__file__).parent / "gold"
SHOWN = 3  # leaks of a paragraph that are kept
AT_ONCE = 8  # as many as indexing has under way
LANGUAGES = {"en": "English", "zh": "Chinese"}

Counts = tuple[int, int, int]  # right, said, gold
Tell = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Asked:
    """A question about a paragraph whose answer is known."""

    id: str
    text: str
    question: str
    answer: bool


@dataclass(frozen=True, slots=True)
class Found:
    """What was found in one paragraph. Without an answer, `error` says why, and all that is there to find counts as missed.

    `names`, `typed` and `relations` are counts; `listed` names were listed, of which `in_text` stand in it; of `written` names and
    descriptions `leaked` hold words of the prompts, such as `leaks`. `words` are the paragraph's.
    """

    id: str
    names: Counts
    typed: Counts
    relations: Counts
    listed: int = 0
    in_text: int = 0
    duplicates: int = 0
    written: int = 0
    leaked: int = 0
    leaks: tuple[str, ...] = ()
    words: int = 0
    error: str = ""

    @property
    def language(self) -> str:
        """The first part of its id."""
        return self.id.partition("-")[0]


@dataclass(frozen=True, slots=True)
class Reading:
    """All paragraphs of a language: the results and what they took."""

    found: tuple[Found, ...]
    seconds: float


def paragraphs(limit: int = 0) -> list[GoldDocument]:
    """The annotated paragraphs; with `limit`, so many of them spread over languages and kinds of text."""
    every = load_gold(GOLD / "paragraphs.md", "marked")
    return _spread(every, limit)


def questions(limit: int = 0) -> list[Asked]:
    """The questions about those paragraphs."""
    text_of = {d.id: d.text for d in paragraphs(limit)}
    sections = marked_sections((GOLD / "paragraphs.md").read_text(encoding="utf-8"))
    return [
        Asked(name, text_of[name], rest, word == "yes")
        for name, _, below in sections
        for word, rest in below
        if name in text_of and word in ("yes", "no")
    ]


def _spread(every: list[GoldDocument], limit: int) -> list[GoldDocument]:
    """Every so manieth."""
    if not 0 < limit < len(every):
        return every
    return [every[i * len(every) // limit] for i in range(limit)]


async def read(
    documents: Sequence[GoldDocument], model: Model, settings: Settings, style: str, tell: Tell, tagger: Tagger | None = None
) -> Reading:
    """Extract from the paragraphs as indexing does; one that fails is a result with its error, and the others go on."""
    tokenizer, prompts, done = Tokenizer(model.file), wording(style), 0

    async def one(document: GoldDocument) -> Found:
        nonlocal done
        try:
            chunks = gold_chunks(document, tokenizer, settings)
            made = [await extract(c, Case(document.text), model, settings, style, tagger=tagger) for c in chunks]
            result = score(document, made, settings, prompts)
        except CALL_FAILED as error:
            result = score(document, [], settings, prompts, error.kind)
        done += 1
        tell(f"{LANGUAGES.get(result.language, '')} paragraphs".strip(), done, len(documents))
        return result

    started = time.perf_counter()
    found = await in_window((one(d) for d in documents), size=AT_ONCE)
    return Reading(tuple(found), time.perf_counter() - started)


def score(document: GoldDocument, made: Sequence[Extraction], settings: Settings, prompts: Wording, error: str = "") -> Found:
    """The counts of one paragraph's extractions."""
    scores = Scores(TYPES["marked"], frozenset(settings.entity_types))
    count_names(scores, document, made)
    said = [s for x in made for e in x.entities for s in (e.name, e.description)]
    said += [r.description for x in made for r in x.relationships]
    said = [s for s in said if s]
    leaked = [s for s in said if leaks(s, document.text, prompts)]
    return Found(
        document.id,
        _counts(scores.spans),
        _counts(scores.typed),
        _counts(scores.relations),
        scores.names,
        scores.verbatim,
        scores.duplicates,
        len(said),
        len(leaked),
        tuple(dict.fromkeys(leaked))[:SHOWN],
        len(document.text.split()),
        error,
    )


def _counts(tally: Tally) -> Counts:
    return tally.right, tally.said, tally.gold
