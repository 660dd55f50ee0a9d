"""Scores of extractions against gold annotation: spans, types, relations, merged names, facts."""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from localrag.eval.gold import GoldDocument
from localrag.eval.intervals import LEVEL, SEED, micro_f1
from localrag.index.extraction.names.spans import find_name, find_names
from localrag.records import ExtractedEntity, Graph
from localrag.text.plain import FUNCTION_WORDS

Pair = tuple[str, str]
DRAWS = 1000  # of documents, for an interval


@dataclass(slots=True)
class Tally:
    """Counts behind precision and recall; `of_each` has those of every document."""

    right: int = 0
    said: int = 0
    gold: int = 0
    of_each: list[tuple[int, int, int]] = field(default_factory=list)

    def add(self, right: int, said: int, gold: int) -> float:
        """Add one document's counts; gives its F1."""
        self.right, self.said, self.gold = self.right + right, self.said + said, self.gold + gold
        self.of_each.append((right, said, gold))
        return Tally(right, said, gold).f1

    @property
    def f1_95(self) -> list[float]:
        """A 95 % interval of F1, by a percentile bootstrap (Efron 1979) that draws documents."""
        counts = np.array(self.of_each or [(0, 0, 0)], np.float64)
        rng = np.random.default_rng(SEED)
        drawn = [float(micro_f1(counts[rng.integers(0, len(counts), len(counts))])) for _ in range(DRAWS)]
        return [round(float(q), 4) for q in np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])]

    @property
    def precision(self) -> float:
        """Share of what was said that is right."""
        return self.right / self.said if self.said else 0.0

    @property
    def recall(self) -> float:
        """Share of what is right that was said."""
        return self.right / self.gold if self.gold else 0.0

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall; 1 where there was nothing to say and nothing was said."""
        total = self.said + self.gold
        return 2 * self.right / total if total else 1.0


@dataclass(slots=True)
class Scores:
    """Everything that is counted over a set of documents."""

    types: Mapping[str, str] = field(default_factory=dict)  # gold type → type asked for
    asked: frozenset[str] = frozenset()  # types whose entities count; all, where it is empty
    spans: Tally = field(default_factory=Tally)
    typed: Tally = field(default_factory=Tally)
    relations: Tally = field(default_factory=Tally)
    merging: Tally = field(default_factory=Tally)  # pairs of mentions
    of_documents: list[float] = field(default_factory=list)  # each document's span F1
    b_cubed: list[tuple[float, float]] = field(default_factory=list)  # each mention's precision and recall
    touching: Counter[str] = field(default_factory=Counter)
    names: int = 0
    verbatim: int = 0
    duplicates: int = 0
    facts: int = 0
    facts_kept: int = 0

    def add_entities(self, document: GoldDocument, listed: Sequence[ExtractedEntity]) -> None:
        """Count the entities of one document, in the order they were listed, repeats and all."""
        kinds = {e.name: e.type for e in reversed(listed) if e.type in self.asked or not self.asked}
        self.names += len(listed)
        self.verbatim += sum(bool(find_name(document.text, e.name)) for e in listed)
        self.duplicates += len(listed) - len({e.name.casefold() for e in listed})
        said = {(span.start, span.end): kinds[name] for name, spans in find_names(document.text, list(kinds)).items() for span in spans}
        invented = sum(not find_name(document.text, name) for name in kinds)  # wrong, though it has no place
        gold = {(m.start, m.end): self.types.get(m.type, "") for m in document.mentions}
        self.of_documents.append(self.spans.add(len(said.keys() & gold.keys()), len(said) + invented, len(gold)))
        self.touching["said"] += sum(any(a < d and c < b for c, d in gold) for a, b in said)
        self.touching["gold"] += sum(any(a < d and c < b for c, d in said) for a, b in gold)
        asked = {(span, kind) for span, kind in gold.items() if kind}
        answered = {(span, kind) for span, kind in said.items() if gold.get(span, kind)}  # a gold type that is not asked for is no error
        self.typed.add(len(asked & answered), len(answered) + invented, len(asked))

    def add_relations(self, document: GoldDocument, pairs: Collection[Pair]) -> None:
        """Count pairs of names against pairs of gold entities; a name stands for the entities it is written for."""
        groups: defaultdict[str, set[str]] = defaultdict(set)
        for m in document.mentions:
            groups[document.text[m.start : m.end].casefold()].add(m.group)
        found = {
            frozenset((a, b)) for x, y in pairs for a in groups.get(x.casefold(), {x}) for b in groups.get(y.casefold(), {y}) if a != b
        }
        self.relations.add(len(found & document.relations), len(found), len(document.relations))

    def add_facts(self, document: GoldDocument, graph: Graph) -> None:
        """Count the facts all of whose content words stand in one entity, its description and those of its neighbours."""
        own = {e.id: content_words(f"{e.name} {e.description}") for e in graph.entities}
        near = {key: set(words) for key, words in own.items()}
        for r in graph.relationships:
            near[r.source_id] |= own[r.target_id] | content_words(r.description)
            near[r.target_id] |= own[r.source_id] | content_words(r.description)
        self.facts += len(document.facts)
        self.facts_kept += sum(any(content_words(fact) <= held for held in near.values()) for fact in document.facts)

    def add_merging(self, document: GoldDocument, entity_of: Mapping[str, str]) -> None:
        """Count how the names of the gold mentions were merged; `entity_of` gives the entity each name became."""
        named = [(m.group, entity_of[document.text[m.start : m.end]]) for m in document.mentions]
        both, gold, said = Counter(named), Counter(g for g, _ in named), Counter(s for _, s in named)
        self.merging.add(_links(both), _links(said), _links(gold))
        self.b_cubed += [(both[g, s] / said[s], both[g, s] / gold[g]) for g, s in named]

    def figures(self) -> dict[str, Any]:
        """The scores by the names they are reported under, to four places; what the gold does not say is left out. `_95`: an interval."""
        found = {
            "entity_precision": self.spans.precision,
            "entity_recall": self.spans.recall,
            "entity_f1": self.spans.f1,
            "entity_f1_macro": _mean(self.of_documents),
            "partial_f1": _f1(self.touching["said"] / max(1, self.spans.said), self.touching["gold"] / max(1, self.spans.gold)),
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
        rounded = {k: round(v, 4) for k, v in found.items()} | {k: t.f1_95 for k, t in tallies.items()}
        return {k: v for k, v in rounded.items() if not k.startswith(silent or ("\0",))} | {"duplicates": self.duplicates}


def content_words(text: str) -> set[str]:
    """The stems of a text's words that say something."""
    words = (w for w in re.findall(r"[^\W_]{3,}", text.casefold()) if w not in FUNCTION_WORDS)
    return {_stem(w) for w in words}


@cache
def _stem(word: str) -> str:
    return str(_stemmer().stem(word))


@cache
def _stemmer() -> Any:
    from nltk.stem.snowball import EnglishStemmer

    return EnglishStemmer()


def _links(counts: Counter[Hashable] | Counter[tuple[str, str]] | Counter[str]) -> int:
    return sum(n * (n - 1) // 2 for n in counts.values())


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _f1(precision: float, recall: float) -> float:
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0
