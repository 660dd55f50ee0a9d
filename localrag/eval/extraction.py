"""Evaluation of extraction (`localrag eval extraction`): scores of spans, types and relations against gold annotation."""

import tempfile
import time
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from localrag.engine.settings import EngineOptions
from localrag.engine.tokenizer import Tokenizer
from localrag.errors import UsageError
from localrag.eval.datasets import TYPE_MAPPINGS, GoldDocument
from localrag.eval.metrics import bootstrap_interval, micro_f1
from localrag.indexing.documents import split_document
from localrag.indexing.extraction.extract import extract_chunk
from localrag.indexing.extraction.names import DocumentCasing, find_all_name_spans, find_name_spans
from localrag.indexing.extraction.nlp import extract_noun_phrases
from localrag.llm.model import ChatModel, bounded_map
from localrag.llm.tagger import Tagger
from localrag.model_files import ModelFile
from localrag.project import tagger_for
from localrag.records import Chunk, Document, ExtractedEntity, Extraction, content_id
from localrag.settings import IndexSettings
from localrag.store.llm_cache import SqliteLlmCache
from localrag.store.opening import open_index

EntityTypePair = tuple[str, str]
SCORE_BOOTSTRAP_SAMPLES = 1000


@dataclass(slots=True)
class PrecisionRecall:
    """Counts for precision and recall; `per_document` has those of every document."""

    n_correct: int = 0
    n_predicted: int = 0
    gold: int = 0
    per_document: list[tuple[int, int, int]] = field(default_factory=list)

    def add(self, right: int, predicted: int, gold: int) -> None:
        """Add one document's counts."""
        self.n_correct, self.n_predicted, self.gold = self.n_correct + right, self.n_predicted + predicted, self.gold + gold
        self.per_document.append((right, predicted, gold))

    @property
    def f1_95(self) -> list[float]:
        """A 95 % interval of F1, by bootstrap over documents."""
        counts = np.array(self.per_document or [(0, 0, 0)], np.float64)
        return [
            round(bound, 4) for bound in bootstrap_interval(len(counts), lambda drawn: micro_f1(counts[drawn]), SCORE_BOOTSTRAP_SAMPLES)
        ]

    @property
    def precision(self) -> float:
        """Share of the predicted items that are correct."""
        return self.n_correct / self.n_predicted if self.n_predicted else 0.0

    @property
    def recall(self) -> float:
        """Share of the gold items that were predicted."""
        return self.n_correct / self.gold if self.gold else 0.0

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall; 1 if there are neither gold nor predicted items."""
        total = self.n_predicted + self.gold
        return 2 * self.n_correct / total if total else 1.0


@dataclass(slots=True)
class ExtractionScores:
    """The counts over a set of documents."""

    types: Mapping[str, str] = field(default_factory=dict)  # gold type → type asked for
    counted_types: frozenset[str] = frozenset()  # types whose entities count; empty: all
    spans: PrecisionRecall = field(default_factory=PrecisionRecall)
    typed: PrecisionRecall = field(default_factory=PrecisionRecall)
    relations: PrecisionRecall = field(default_factory=PrecisionRecall)
    names: int = 0
    verbatim: int = 0
    duplicates: int = 0

    def add_entities(self, document: GoldDocument, listed: Sequence[ExtractedEntity]) -> None:
        """Count the entities of one document, in the order they were listed, including repeats."""
        kinds = {e.name: e.type for e in reversed(listed) if e.type in self.counted_types or not self.counted_types}
        self.names += len(listed)
        self.verbatim += sum(bool(find_name_spans(document.text, e.name)) for e in listed)
        self.duplicates += len(listed) - len({e.name.casefold() for e in listed})
        predicted = {
            (span.start, span.end): kinds[name] for name, spans in find_all_name_spans(document.text, list(kinds)).items() for span in spans
        }
        invented = sum(not find_name_spans(document.text, name) for name in kinds)  # wrong, though it has no span
        gold = {(m.start, m.end): self.types.get(m.type, "") for m in document.mentions}
        self.spans.add(len(predicted.keys() & gold.keys()), len(predicted) + invented, len(gold))
        asked = {(span, kind) for span, kind in gold.items() if kind}
        answered = {
            (span, kind) for span, kind in predicted.items() if gold.get(span, kind)
        }  # a gold type that is not asked for is no error
        self.typed.add(len(asked & answered), len(answered) + invented, len(asked))

    def add_relations(self, document: GoldDocument, pairs: Collection[EntityTypePair]) -> None:
        """Count pairs of names against pairs of gold entities; a name stands for all entities it is written for."""
        groups: defaultdict[str, set[str]] = defaultdict(set)
        for m in document.mentions:
            groups[document.text[m.start : m.end].casefold()].add(m.group)
        predicted = {
            frozenset((a, b)) for x, y in pairs for a in groups.get(x.casefold(), {x}) for b in groups.get(y.casefold(), {y}) if a != b
        }
        self.relations.add(len(predicted & document.relations), len(predicted), len(document.relations))

    def figures(self) -> dict[str, Any]:
        """The scores under their reported names, rounded to four places, without those that the gold does not have. `_95`: an interval."""
        scores = {
            "entity_precision": self.spans.precision,
            "entity_recall": self.spans.recall,
            "entity_f1": self.spans.f1,
            "typed_f1": self.typed.f1,
            "relation_precision": self.relations.precision,
            "relation_recall": self.relations.recall,
            "relation_f1": self.relations.f1,
            "verbatim": self.verbatim / max(1, self.names),
        }
        tallies = {"entity_": self.spans, "typed_": self.typed, "relation_": self.relations}
        silent = tuple(prefix for prefix, tally in tallies.items() if not tally.gold)
        rounded = {k: round(v, 4) for k, v in scores.items()} | {f"{k}f1_95": t.f1_95 for k, t in tallies.items()}
        return {k: v for k, v in rounded.items() if not k.startswith(silent or ("\0",))} | {"duplicates": self.duplicates}


EVALUATED_EXTRACTORS = ("model", "phrases")


async def evaluate_extraction(
    documents: Sequence[GoldDocument], form: str, extractor: str, file: ModelFile, options: EngineOptions, settings: IndexSettings
) -> dict[str, Any]:
    """Scores and costs of an extractor, asked for the types that the gold types map to. Raises UsageError, ModelError."""
    if extractor not in EVALUATED_EXTRACTORS:
        raise UsageError(f"There is no extractor {extractor!r}.", f"Extractors: {', '.join(EVALUATED_EXTRACTORS)}")
    types = TYPE_MAPPINGS[form]
    settings = replace(settings, entity_types=tuple(dict.fromkeys(types.values())) or settings.entity_types)
    scores = ExtractionScores(types, frozenset() if extractor == "phrases" else frozenset(settings.entity_types))
    tokenizer = Tokenizer(file)
    chunks = [gold_chunks(d, tokenizer, settings) for d in documents]
    with tempfile.TemporaryDirectory() as folder:
        db = open_index(Path(folder), create=True)
        model, tagger = ChatModel(SqliteLlmCache(db), file, options), tagger_for(file, options)
        try:
            if extractor != "phrases" and not tagger:
                await model.engine()  # loading is not measured
            start = time.perf_counter()
            found = await bounded_map(
                (_extract(c, DocumentCasing(d.text), extractor, model, settings, tagger) for d, c in zip(documents, chunks, strict=True)),
                size=4,
            )
            seconds = time.perf_counter() - start
            for document, extractions in zip(documents, found, strict=True):
                count_names(scores, document, extractions)
            report = model.metrics()
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


def gold_chunks(document: GoldDocument, tokenizer: Tokenizer, settings: IndexSettings) -> list[Chunk]:
    """The chunks of an annotated text, as indexing would make them."""
    whole = Document(content_id(document.id), document.id, document.id, document.text, content_id(document.text))
    return split_document(whole, tokenizer.counts, size=settings.chunk_tokens, overlap=settings.chunk_overlap)


async def _extract(
    chunks: Sequence[Chunk], case: DocumentCasing, extractor: str, model: ChatModel, settings: IndexSettings, tagger: Tagger | None
) -> list[Extraction]:
    if extractor == "phrases":
        return [extract_noun_phrases(piece, case) for piece in chunks]
    return [await extract_chunk(piece, case, model, settings, "extractive", tagger=tagger) for piece in chunks]


def count_names(scores: ExtractionScores, document: GoldDocument, extractions: Sequence[Extraction]) -> None:
    """Count the entities and relationships extracted from the chunks of an annotated text."""
    listed: list[ExtractedEntity] = []
    for extraction in extractions:
        earlier = {e.name.casefold() for e in listed}  # a name that another chunk also has is no repeat
        listed += [e for e in extraction.entities if e.name.casefold() not in earlier]
    scores.add_entities(document, listed)
    if document.relations:
        scores.add_relations(document, {(r.source, r.target) for x in extractions for r in x.relationships})
