"""`localrag eval extraction`: an extractor run over annotated texts, and its scores."""

import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from localrag.config import Settings
from localrag.engine.settings import EngineOptions
from localrag.engine.tokens import Tokenizer
from localrag.errors import UsageError
from localrag.eval.freeform import extract_freely
from localrag.eval.gold import TYPES, GoldDocument
from localrag.eval.scores import Scores
from localrag.index.documents.chunk import chunk
from localrag.index.extraction.extract import extract
from localrag.index.extraction.names.case import Case
from localrag.index.extraction.phrases import extract_phrases
from localrag.index.graph.describe import describe
from localrag.index.graph.resolve import resolve
from localrag.index.graph.spelling import defined_names, normalise
from localrag.index.graph.variants import Decisions, Name, resolve_names
from localrag.llm.model import Model, in_window
from localrag.llm.tagging import Tagger
from localrag.models import ModelFile
from localrag.opening import tagger_for
from localrag.records import Chunk, Document, ExtractedEntity, Extraction, content_id
from localrag.store.ledger import CallLedger
from localrag.store.schema import open_index
from localrag.text.quotes import entity_quotes, relationship_quotes

EXTRACTORS = ("model", "phrases", "freeform")


async def evaluate(
    documents: Sequence[GoldDocument], form: str, extractor: str, file: ModelFile, options: EngineOptions, settings: Settings
) -> dict[str, Any]:
    """The scores of an extractor on annotated texts, with what they cost; the types asked for are those the gold is mapped to.

    Raises UsageError for an unknown extractor, ModelError.
    """
    if extractor not in EXTRACTORS:
        raise UsageError(f"There is no extractor {extractor!r}.", f"Extractors: {', '.join(EXTRACTORS)}")
    types = TYPES[form]
    settings = replace(settings, entity_types=tuple(dict.fromkeys(types.values())) or settings.entity_types)
    scores = Scores(types, frozenset() if extractor == "phrases" else frozenset(settings.entity_types))
    tokenizer = Tokenizer(file)
    chunks = [gold_chunks(d, tokenizer, settings) for d in documents]
    with tempfile.TemporaryDirectory() as folder:
        db = open_index(Path(folder), create=True)
        model, tagger = Model(CallLedger(db), file, options), tagger_for(file, options)
        try:
            if extractor != "phrases" and not tagger:
                await model.engine()  # loading is no part of the work
            start = time.perf_counter()
            found = await in_window(
                (_extract(c, Case(d.text), extractor, model, settings, tagger) for d, c in zip(documents, chunks, strict=True)), size=4
            )
            seconds = time.perf_counter() - start
            for document, pieces, extractions in zip(documents, chunks, found, strict=True):
                await _count(scores, document, pieces, extractions)
            report = model.report()
        finally:
            model.close()
            db.close()
    words = sum(len(d.text.split()) for d in documents)
    tasks = report.get("tasks", {}).values()
    return {
        "format": form,
        "documents": len(documents),
        "chunks": sum(map(len, chunks)),
        "words": words,
        "extractor": extractor,
        "model": file.name if extractor != "phrases" else "",
        **scores.figures(),
        "output_tokens": model.output_tokens,
        "output_tokens_per_chunk": round(model.output_tokens / sum(map(len, chunks)), 1),
        "forced_tokens": sum(task["forced_tokens"] for task in tasks),
        "seconds": round(seconds, 2),
        "seconds_per_1000_words": round(seconds / words * 1000, 2),
        "types": types,
    }


def gold_chunks(document: GoldDocument, tokenizer: Tokenizer, settings: Settings) -> list[Chunk]:
    """The chunks of an annotated text, as indexing would make them."""
    whole = Document(content_id(document.id), document.id, document.id, document.text, content_id(document.text))
    return chunk(whole, tokenizer.counts, size=settings.chunk_tokens, overlap=settings.chunk_overlap)


async def _extract(
    chunks: Sequence[Chunk], case: Case, extractor: str, model: Model, settings: Settings, tagger: Tagger | None
) -> list[Extraction]:
    """What the extractor finds in a document's chunks."""
    if extractor == "phrases":
        return [extract_phrases(piece, case) for piece in chunks]
    if extractor == "freeform":
        return [await extract_freely(piece, model, settings) for piece in chunks]
    return [await extract(piece, case, model, settings, "extractive", tagger=tagger) for piece in chunks]


async def _count(scores: Scores, document: GoldDocument, chunks: Sequence[Chunk], found: Sequence[Extraction]) -> None:
    count_names(scores, document, found)
    add_merging(scores, document)
    if document.facts:
        by_id = {c.id: c for c in chunks}
        graph = resolve(found, by_id)
        of_entity, of_relationship = entity_quotes(graph, by_id), relationship_quotes(graph, by_id)
        described, _ = await describe(graph, lambda i: of_entity.get(i, ()), lambda i: of_relationship.get(i, ()), None, "extractive")
        scores.add_facts(document, described)


def count_names(scores: Scores, document: GoldDocument, found: Sequence[Extraction]) -> None:
    """Count the entities and relationships that were found in the chunks of an annotated text."""
    listed: list[ExtractedEntity] = []
    for extraction in found:
        earlier = {e.name.casefold() for e in listed}  # naming again what another chunk named is no repeat
        listed += [e for e in extraction.entities if e.name.casefold() not in earlier]
    scores.add_entities(document, listed)
    if document.relations:
        scores.add_relations(document, {(r.source, r.target) for x in found for r in x.relationships})


def add_merging(scores: Scores, document: GoldDocument) -> None:
    """Score how the names of the gold mentions are merged, where the gold says which belong together; common nouns are left out."""
    text = document.text
    mentions = tuple(m for m in document.mentions if not text[m.start : m.end].split()[-1][0].islower())
    if len({m.group for m in mentions}) == len(mentions):
        return  # one mention each: this set has no coreference
    votes: defaultdict[str, Counter[str]] = defaultdict(Counter)
    written: dict[str, str] = {}
    for m in mentions:
        name = text[m.start : m.end]
        votes[normalise(name)][scores.types.get(m.type, m.type.lower())] += 1
        written[normalise(name)] = name
    names = [Name("", key, written[key], kinds.most_common(1)[0][0], kinds.total()) for key, kinds in votes.items()]
    defined = {("", key): other for key, other in defined_names(text, written.values()).items()}
    entity_of = resolve_names(names, defined, Decisions()).entity_of
    said = {text[m.start : m.end]: entity_of["", normalise(text[m.start : m.end])] for m in mentions}
    scores.add_merging(replace(document, mentions=mentions), said)
