"""A corpus → its Domain, entirely by the local model: what `localrag tune` writes (after GraphRAG's auto prompt tuning)."""

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from localrag.config import Domain, Example, OwnPrompts, Settings
from localrag.index.extraction.extract import extract
from localrag.index.extraction.names.case import Case
from localrag.index.extraction.names.spans import find_name
from localrag.llm.grammar import choice, line, word_lines
from localrag.llm.model import Model
from localrag.llm.prompts import load_prompt
from localrag.records import Chunk, Extraction
from localrag.text.plain import chunk_sentences, is_cjk, squeeze
from localrag.text.words import is_english

LANGUAGES = (
    "English", "Chinese", "German", "French", "Spanish", "Italian", "Portuguese", "Dutch", "Russian", "Japanese", "Korean", "Arabic",
    "Polish", "Swedish", "Turkish",
)  # fmt: skip
PASSAGE = 900  # characters of a sampled chunk that are read for one answer
TYPES, EXAMPLES, COMPARED = 6, 3, 2
Matrix = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Compared:
    """One chunk extracted with the domain before and with the new one."""

    chunk: Chunk
    before: Extraction
    after: Extraction


def sample(chunks: Sequence[Chunk], vectors: Matrix, method: str, n: int, seed: int) -> list[Chunk]:
    """`n` chunks: at `random`, from the `top`, or for `auto` those nearest the centres of `n` clusters of their vectors (n_chunks, d)."""
    n = min(n, len(chunks))
    if method == "top":
        return list(chunks[:n])
    if method == "random":
        return random.Random(seed).sample(list(chunks), n)
    from sklearn.cluster import KMeans

    centres = KMeans(n, random_state=seed, n_init=1).fit(vectors).cluster_centers_
    nearest = dict.fromkeys(int((vectors @ centre).argmax()) for centre in centres)
    return [chunks[i] for i in nearest]


async def adapt(sampled: Sequence[Chunk], cases: Sequence[Case], model: Model, settings: Settings, style: str) -> Domain:
    """The domain of the sampled chunks: subject, reader, language, what matters, entity types, examples.

    Entity types are those in use and what at least a third of the passages agree on besides; an example is a sentence with what the
    model extracted from it. A model too small for prose gives language and types only, and the subject is the noun phrases that recur
    most: its own prose and examples were made up ("a doctor who reviews the town"). Raises what `Model.ask` raises.
    """
    passages = [squeeze(c.text)[:PASSAGE] for c in sampled]
    writes, own = style == "abstractive", settings.prompts
    if writes:
        about = await _line("about", model, own, text=" … ".join(p[: PASSAGE // 3] for p in passages[:4]))
        persona, rating = await asyncio.gather(_line("persona", model, own, about=about), _line("rating", model, own, about=about))
    else:
        about, persona, rating = ", ".join(p for p, _ in sum((c.phrases for c in cases), Counter[str]()).most_common(5)), "", ""
    languages, lists = await asyncio.gather(
        asyncio.gather(*(_language(p, model, own) for p in passages)), asyncio.gather(*(_types(p, model, own) for p in passages))
    )
    votes = Counter(kind for kinds in lists for kind in kinds if kind not in settings.entity_types)
    agreed = [kind for kind, n in votes.most_common() if n * 3 >= len(passages) and n > 1]
    types = (*settings.entity_types, *agreed)[: max(TYPES, len(settings.entity_types))]
    domain = Domain(about, persona, Counter(languages).most_common(1)[0][0], rating, types)
    if not writes:
        return domain
    adapted = settings.with_domain(domain)
    found = await asyncio.gather(*(extract(c, case, model, adapted, style) for c, case in zip(sampled, cases, strict=True)))
    examples = [e for c, x in zip(sampled, found, strict=True) if (e := _example(c, x)) is not None]
    return replace(domain, examples=tuple(sorted(examples, key=lambda e: (-len({t for _, t in e.entities}), e.text))[:EXAMPLES]))


async def compare(
    chunks: Sequence[Chunk], cases: Sequence[Case], model: Model, before: Settings, after: Settings, style: str
) -> list[Compared]:
    """What the two settings extract from the same chunks, so that a person can judge."""
    found = []
    for chunk, case in list(zip(chunks, cases, strict=True))[:COMPARED]:
        old, new = await asyncio.gather(extract(chunk, case, model, before, style), extract(chunk, case, model, after, style))
        found.append(Compared(chunk, old, new))
    return found


async def _line(task: str, model: Model, own: OwnPrompts, **values: str) -> str:
    reply = await model.ask("tune", load_prompt(f"tune/{task}", own).fill(**values), max_tokens=60, grammar=line(90))
    return reply.text.strip()


async def _language(passage: str, model: Model, own: OwnPrompts) -> str:
    if is_cjk(passage) or is_english(passage):
        return "Chinese" if is_cjk(passage) else "English"
    reply = await model.ask("tune", load_prompt("tune/language", own).fill(text=passage), max_tokens=8, grammar=choice(LANGUAGES))
    return reply.text


async def _types(passage: str, model: Model, own: OwnPrompts) -> list[str]:
    reply = await model.ask("tune", load_prompt("tune/types", own).fill(text=passage), max_tokens=60, grammar=word_lines(most=TYPES))
    return reply.text.split("\n")[:-1]


def _example(chunk: Chunk, extraction: Extraction) -> Example | None:
    """The sentence of a chunk that names most entities, with what was extracted from it."""
    best: Example | None = None
    for start, end in chunk_sentences(chunk.text):
        text = squeeze(chunk.text[start:end])
        entities = tuple((e.name, e.type) for e in extraction.entities if find_name(text, e.name))
        names = {n for n, _ in entities}
        pairs = tuple((r.source, r.target) for r in extraction.relationships if names >= {r.source, r.target})
        if 2 <= len(entities) <= 8 and len(text) < 400 and (best is None or len(entities) > len(best.entities)):
            best = Example(text, entities, pairs)
    return best
