"""Prompt tuning: the Domain of a corpus, written by the local model for `localrag tune` (after GraphRAG's auto prompt tuning)."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from localrag.indexing.extraction.extract import extract_chunk
from localrag.indexing.extraction.names import DocumentCasing, find_name_spans
from localrag.llm.grammar import choice_of, single_line, word_lines
from localrag.llm.model import ChatModel
from localrag.llm.prompts import load_prompt
from localrag.records import Chunk, Extraction
from localrag.settings import Domain, Example, IndexSettings, PromptOverrides
from localrag.text.parts_of_speech import is_english
from localrag.text.sentences import cached_sentences, collapse_whitespace, is_cjk

LANGUAGES_BY_CODE = (
    "English", "Chinese", "German", "French", "Spanish", "Italian", "Portuguese", "Dutch", "Russian", "Japanese", "Korean", "Arabic",
    "Polish", "Swedish", "Turkish",
)  # fmt: skip
MAX_SAMPLE_CHARS = 900  # of a sampled chunk that are put into a prompt
MAX_TUNED_TYPES, MAX_TUNED_EXAMPLES = 6, 3
Matrix = NDArray[np.float32]


def sample_chunks(chunks: Sequence[Chunk], vectors: Matrix, n: int) -> list[Chunk]:
    """`n` typical chunks: those nearest the centres of `n` clusters of their vectors (n_chunks, d)."""
    from sklearn.cluster import KMeans

    centres = KMeans(min(n, len(chunks)), random_state=0, n_init=1).fit(vectors).cluster_centers_
    nearest = dict.fromkeys(int((vectors @ centre).argmax()) for centre in centres)
    return [chunks[i] for i in nearest]


async def tune_domain(
    sampled: Sequence[Chunk], cases: Sequence[DocumentCasing], model: ChatModel, settings: IndexSettings, style: str
) -> Domain:
    """Write the domain of the sampled chunks: subject, reader, language, focus, entity types, examples.

    Entity types are those in use, and any other that at least a third of the passages agree on; an example is a sentence with the model's
    extraction. A model too small for prose gives language and types only, and the subject is the most frequent noun phrases: its own prose
    and examples were invented ("a doctor who reviews the town"). Raises what `ChatModel.ask` raises.
    """
    passages = [collapse_whitespace(c.text)[:MAX_SAMPLE_CHARS] for c in sampled]
    writes, overrides = style == "abstractive", settings.prompts
    if writes:
        about = await _ask_for_line("about", model, overrides, text=" … ".join(p[: MAX_SAMPLE_CHARS // 3] for p in passages[:4]))
        persona, rating = await asyncio.gather(
            _ask_for_line("persona", model, overrides, about=about), _ask_for_line("rating", model, overrides, about=about)
        )
    else:
        about, persona, rating = ", ".join(p for p, _ in sum((c.phrases for c in cases), Counter[str]()).most_common(5)), "", ""
    languages, lists = await asyncio.gather(
        asyncio.gather(*(_language(p, model, overrides) for p in passages)),
        asyncio.gather(*(_types(p, model, overrides) for p in passages)),
    )
    votes = Counter(kind for kinds in lists for kind in kinds if kind not in settings.entity_types)
    agreed = [kind for kind, n in votes.most_common() if n * 3 >= len(passages) and n > 1]
    types = (*settings.entity_types, *agreed)[: max(MAX_TUNED_TYPES, len(settings.entity_types))]
    domain = Domain(about, persona, Counter(languages).most_common(1)[0][0], rating, types)
    if not writes:
        return domain
    adapted = settings.with_domain(domain)
    extractions = await asyncio.gather(*(extract_chunk(c, case, model, adapted, style) for c, case in zip(sampled, cases, strict=True)))
    examples = [e for c, x in zip(sampled, extractions, strict=True) if (e := _example(c, x)) is not None]
    return replace(domain, examples=tuple(sorted(examples, key=lambda e: (-len({t for _, t in e.entities}), e.text))[:MAX_TUNED_EXAMPLES]))


async def _ask_for_line(task: str, model: ChatModel, overrides: PromptOverrides, **values: str) -> str:
    reply = await model.ask("tune", load_prompt(f"tune/{task}", overrides).fill(**values), max_tokens=60, grammar=single_line(90))
    return reply.text.strip(" .\n\"'")


async def _language(passage: str, model: ChatModel, overrides: PromptOverrides) -> str:
    if is_cjk(passage) or is_english(passage):
        return "Chinese" if is_cjk(passage) else "English"
    reply = await model.ask(
        "tune", load_prompt("tune/language", overrides).fill(text=passage), max_tokens=8, grammar=choice_of(LANGUAGES_BY_CODE)
    )
    return reply.text


async def _types(passage: str, model: ChatModel, overrides: PromptOverrides) -> list[str]:
    reply = await model.ask(
        "tune", load_prompt("tune/types", overrides).fill(text=passage), max_tokens=60, grammar=word_lines(most=MAX_TUNED_TYPES)
    )
    return reply.text.split("\n")[:-1]


def _example(chunk: Chunk, extraction: Extraction) -> Example | None:
    """The sentence of a chunk with most entities, with its extraction."""
    best: Example | None = None
    for start, end in cached_sentences(chunk.text):
        text = collapse_whitespace(chunk.text[start:end])
        entities = tuple((e.name, e.type) for e in extraction.entities if find_name_spans(text, e.name))
        names = {n for n, _ in entities}
        pairs = tuple((r.source, r.target) for r in extraction.relationships if names >= {r.source, r.target})
        if 2 <= len(entities) <= 8 and len(text) < 400 and (best is None or len(entities) > len(best.entities)):
            best = Example(text, entities, pairs)
    return best
