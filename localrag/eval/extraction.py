"""Evaluation of extraction (`localrag eval extraction`): scores of spans, types, relations, merged names and facts against gold annotation.

The baseline asks the same model for one JSON object of the same facts, without constraints that tie it to the text.
"""

import json
import re
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from localrag.engine.engine import Engine
from localrag.engine.request import Request
from localrag.engine.settings import EngineOptions
from localrag.engine.tokenizer import Tokenizer
from localrag.errors import UsageError
from localrag.eval.datasets import TYPE_MAPPINGS, GoldDocument
from localrag.eval.in_memory_graph import build_graph_in_memory, resolve_all_names
from localrag.eval.metrics import bootstrap_interval, micro_f1
from localrag.indexing.documents import split_document
from localrag.indexing.extraction.extract import extract_chunk
from localrag.indexing.extraction.names import DocumentCasing, find_all_name_spans, find_name_spans
from localrag.indexing.extraction.nlp import extract_noun_phrases
from localrag.indexing.graph.entity_resolution import MergeDecisions, NameForm, defined_aliases, name_key
from localrag.indexing.graph.stage import describe_graph
from localrag.llm.grammar import json_object
from localrag.llm.model import ChatModel, bounded_map
from localrag.llm.prompts import parse_prompt
from localrag.llm.tagger import Tagger
from localrag.model_files import ModelFile
from localrag.project import tagger_for
from localrag.records import Chunk, Document, ExtractedEntity, ExtractedRelationship, Extraction, Graph, content_id
from localrag.settings import IndexSettings
from localrag.store.llm_cache import SqliteLlmCache
from localrag.store.opening import open_index
from localrag.text.quotes import entity_quotes, relationship_quotes
from localrag.text.sentences import STOP_WORDS

EntityTypePair = tuple[str, str]
SCORE_BOOTSTRAP_SAMPLES = 1000


@dataclass(slots=True)
class PrecisionRecall:
    """Counts for precision and recall; `per_document` has those of every document."""

    n_correct: int = 0
    n_predicted: int = 0
    gold: int = 0
    per_document: list[tuple[int, int, int]] = field(default_factory=list)

    def add(self, right: int, predicted: int, gold: int) -> float:
        """Add one document's counts; returns its F1."""
        self.n_correct, self.n_predicted, self.gold = self.n_correct + right, self.n_predicted + predicted, self.gold + gold
        self.per_document.append((right, predicted, gold))
        return PrecisionRecall(right, predicted, gold).f1

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
    merging: PrecisionRecall = field(default_factory=PrecisionRecall)  # pairs of mentions
    of_documents: list[float] = field(default_factory=list)  # each document's span F1
    b_cubed: list[tuple[float, float]] = field(default_factory=list)  # each mention's precision and recall
    touching: Counter[str] = field(default_factory=Counter)
    names: int = 0
    verbatim: int = 0
    duplicates: int = 0
    facts: int = 0
    facts_kept: int = 0

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
        self.of_documents.append(self.spans.add(len(predicted.keys() & gold.keys()), len(predicted) + invented, len(gold)))
        self.touching["said"] += sum(any(a < d and c < b for c, d in gold) for a, b in predicted)
        self.touching["gold"] += sum(any(a < d and c < b for c, d in predicted) for a, b in gold)
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

    def add_facts(self, document: GoldDocument, graph: Graph) -> None:
        """Count the facts whose content words all occur in one entity, its description and those of its neighbours."""
        words_of = {e.id: content_words(f"{e.name} {e.description}") for e in graph.entities}
        context_words = {key: set(words) for key, words in words_of.items()}
        for r in graph.relationships:
            context_words[r.source_id] |= words_of[r.target_id] | content_words(r.description)
            context_words[r.target_id] |= words_of[r.source_id] | content_words(r.description)
        self.facts += len(document.facts)
        self.facts_kept += sum(any(content_words(fact) <= held for held in context_words.values()) for fact in document.facts)

    def add_merging(self, document: GoldDocument, entity_of: Mapping[str, str]) -> None:
        """Count how the names of the gold mentions were merged; `entity_of`: name → merged entity."""
        named = [(m.group, entity_of[document.text[m.start : m.end]]) for m in document.mentions]
        both, gold, predicted = Counter(named), Counter(g for g, _ in named), Counter(s for _, s in named)
        self.merging.add(_count_links(both), _count_links(predicted), _count_links(gold))
        self.b_cubed += [(both[g, s] / predicted[s], both[g, s] / gold[g]) for g, s in named]

    def figures(self) -> dict[str, Any]:
        """The scores under their reported names, rounded to four places, without those that the gold does not have. `_95`: an interval."""
        scores = {
            "entity_precision": self.spans.precision,
            "entity_recall": self.spans.recall,
            "entity_f1": self.spans.f1,
            "entity_f1_macro": _mean(self.of_documents),
            "partial_f1": _f1(self.touching["said"] / max(1, self.spans.n_predicted), self.touching["gold"] / max(1, self.spans.gold)),
            "typed_f1": self.typed.f1,
            "relation_precision": self.relations.precision,
            "relation_recall": self.relations.recall,
            "relation_f1": self.relations.f1,
            "merge_precision": self.merging.precision,
            "merge_recall": self.merging.recall,
            "merge_f1": self.merging.f1,
            "merge_b3": _f1(_mean([p for p, _ in self.b_cubed]), _mean([r for _, r in self.b_cubed])),
            "fact_retention": self.facts_kept / max(1, self.facts),
            "verbatim": self.verbatim / max(1, self.names),
        }
        missing = (
            ("entity_", self.spans.gold), ("partial_", self.spans.gold), ("typed_", self.typed.gold),
            ("relation_", self.relations.gold), ("merge_", self.merging.gold), ("fact_", self.facts),
        )  # fmt: skip
        silent = tuple(prefix for prefix, counted in missing if not counted)
        tallies = {"entity_f1_95": self.spans, "typed_f1_95": self.typed, "relation_f1_95": self.relations}
        rounded = {k: round(v, 4) for k, v in scores.items()} | {k: t.f1_95 for k, t in tallies.items()}
        return {k: v for k, v in rounded.items() if not k.startswith(silent or ("\0",))} | {"duplicates": self.duplicates}


def content_words(text: str) -> set[str]:
    """The stems of a text's content words."""
    words = (w for w in re.findall(r"[^\W_]{3,}", text.casefold()) if w not in STOP_WORDS)
    return {_stem(w) for w in words}


@cache
def _stem(word: str) -> str:
    return str(_stemmer().stem(word))


@cache
def _stemmer() -> Any:
    from nltk.stem.snowball import EnglishStemmer

    return EnglishStemmer()


def _count_links(counts: Counter[Hashable] | Counter[tuple[str, str]] | Counter[str]) -> int:
    return sum(n * (n - 1) // 2 for n in counts.values())


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _f1(precision: float, recall: float) -> float:
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


JSON_TOKENS = 300  # tokens that an answer may have beyond those of its chunk: a model that repeats itself fills any limit
_OBJECT = re.compile(r"\{[^{}\[\]]*\}")
_PROMPT = parse_prompt(
    "freeform",
    """
## system
You extract a knowledge graph from a text: its named entities, each with its type ($types), and which of them are related.

## user
Text:
The council of Tilbury wrote to Anna Marsh, who runs Marsh & Sons in Dover, about the Great Flood of 1953.

## assistant
{"entities": [{"name": "Tilbury", "type": "$place"}, {"name": "Anna Marsh", "type": "$person"}, {"name": "Marsh & Sons", "type": \
"$organization"}, {"name": "Dover", "type": "$place"}], "relationships": [{"source": "Anna Marsh", "target": "Marsh & Sons"}]}

## user
Text:
$text
""",
)


async def extract_freeform(chunk: Chunk, model: ChatModel, settings: IndexSettings) -> Extraction:
    """Extract without constraints, with the model's repetitions and inventions; of a truncated answer, the complete items."""
    engine = await model.engine()
    if not isinstance(engine, Engine):
        raise UsageError("The freeform baseline runs on a model file.", "Give one: --model PATH.gguf")
    types = settings.entity_types
    example = {kind: kind if kind in types else types[0] for kind in ("person", "organization", "place")}
    messages = tuple(_PROMPT.fill(text=chunk.text, types=", ".join(types), **example))
    item = {"type": "object", "additionalProperties": False}
    name = {"type": "string"}
    entity = item | {"properties": {"name": name, "type": {"enum": list(types)}}, "required": ["name", "type"]}
    related = item | {"properties": {"source": name, "target": name}, "required": ["source", "target"]}
    lists = {"entities": {"type": "array", "items": entity}, "relationships": {"type": "array", "items": related}}
    grammar = json_object(item | {"properties": lists, "required": list(lists)})
    cells = engine.backend.chat.encode(messages)
    answer = await engine.generate(Request(cells, chunk.tokens + JSON_TOKENS, grammar, task="freeform", messages=messages))
    model.output_tokens += answer.output_tokens
    rows = [json.loads(match) for match in _OBJECT.findall(answer.text)]
    entities = tuple(ExtractedEntity(row["name"], row["type"]) for row in rows if "name" in row)
    pairs = tuple(ExtractedRelationship(row["source"], row["target"]) for row in rows if "source" in row)
    return Extraction(chunk.id, entities, pairs)


EVALUATED_EXTRACTORS = ("model", "phrases", "freeform")


async def evaluate_extraction(
    documents: Sequence[GoldDocument], form: str, extractor: str, file: ModelFile, options: EngineOptions, settings: IndexSettings
) -> dict[str, Any]:
    """The scores and costs of an extractor on annotated texts; the types asked for are those that the gold types map to.

    Raises UsageError for an unknown extractor, ModelError.
    """
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
            for document, pieces, extractions in zip(documents, chunks, found, strict=True):
                await _count(scores, document, pieces, extractions)
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
    """Extract from a document's chunks with the extractor."""
    if extractor == "phrases":
        return [extract_noun_phrases(piece, case) for piece in chunks]
    if extractor == "freeform":
        return [await extract_freeform(piece, model, settings) for piece in chunks]
    return [await extract_chunk(piece, case, model, settings, "extractive", tagger=tagger) for piece in chunks]


async def _count(scores: ExtractionScores, document: GoldDocument, chunks: Sequence[Chunk], extractions: Sequence[Extraction]) -> None:
    count_names(scores, document, extractions)
    add_merging(scores, document)
    if document.facts:
        by_id = {c.id: c for c in chunks}
        graph = build_graph_in_memory(extractions, by_id)
        of_entity, of_relationship = entity_quotes(graph, by_id), relationship_quotes(graph, by_id)
        described, _ = await describe_graph(graph, lambda i: of_entity.get(i, ()), lambda i: of_relationship.get(i, ()), None, "extractive")
        scores.add_facts(document, described)


def count_names(scores: ExtractionScores, document: GoldDocument, extractions: Sequence[Extraction]) -> None:
    """Count the entities and relationships extracted from the chunks of an annotated text."""
    listed: list[ExtractedEntity] = []
    for extraction in extractions:
        earlier = {e.name.casefold() for e in listed}  # a name that another chunk also has is no repeat
        listed += [e for e in extraction.entities if e.name.casefold() not in earlier]
    scores.add_entities(document, listed)
    if document.relations:
        scores.add_relations(document, {(r.source, r.target) for x in extractions for r in x.relationships})


def add_merging(scores: ExtractionScores, document: GoldDocument) -> None:
    """Score how the names of the gold mentions are merged, if the gold has coreference; common nouns are left out."""
    text = document.text
    mentions = tuple(m for m in document.mentions if not text[m.start : m.end].split()[-1][0].islower())
    if len({m.group for m in mentions}) == len(mentions):
        return  # one mention each: this dataset has no coreference
    votes: defaultdict[str, Counter[str]] = defaultdict(Counter)
    written: dict[str, str] = {}
    for m in mentions:
        name = text[m.start : m.end]
        votes[name_key(name)][scores.types.get(m.type, m.type.lower())] += 1
        written[name_key(name)] = name
    names = [NameForm("", key, written[key], kinds.most_common(1)[0][0], kinds.total()) for key, kinds in votes.items()]
    defined = {("", key): other for key, other in defined_aliases(text, written.values()).items()}
    entity_of = resolve_all_names(names, defined, MergeDecisions()).entity_of
    entity_by_name = {text[m.start : m.end]: entity_of["", name_key(text[m.start : m.end])] for m in mentions}
    scores.add_merging(replace(document, mentions=mentions), entity_by_name)
