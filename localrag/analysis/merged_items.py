"""Candidates for items joined where they are one thing: by the graph's names, and by spelling."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from rapidfuzz import fuzz

from localrag.analysis.item_candidates import ItemCandidate
from localrag.indexing.graph.entity_resolution import name_key, numbers_in_key, without_company, without_titles
from localrag.project import Project
from localrag.store import graph

MIN_SPELLING_RATIO, MIN_SPELLING_CHARS = 95.0, 8  # of names that differ by a typing error
MAX_COMPARED_NAMES = 2_000  # among which typing errors are looked for


def merge_items(candidates: Sequence[ItemCandidate], project: Project) -> list[list[ItemCandidate]]:
    """The candidates of each item, in the order in which the items first stand in the documents."""
    ids = graph.entity_ids_by_name(project.db, {c.name for c in candidates})
    groups: dict[tuple[str, ...], list[ItemCandidate]] = {}
    ordered = sorted(candidates, key=lambda c: (c.source.document.path, c.start, c.name))
    for candidate in ordered:
        groups.setdefault(_same_item_key(candidate, ids), []).append(candidate)
    same = _same_names([key for key in groups if key[0] == "name"])
    merged: defaultdict[tuple[str, ...], list[ItemCandidate]] = defaultdict(list)
    for key, members in groups.items():
        merged[same.get(key, key)] += members
    return list(merged.values())


def _same_item_key(candidate: ItemCandidate, ids: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
    if candidate.identity:
        return ("record", *candidate.identity)
    known = ids.get(candidate.name.lower(), ())
    return ("entity", known[0]) if len(known) == 1 else ("name", without_company(without_titles(name_key(candidate.name))))


def _same_names(keys: Iterable[tuple[str, ...]]) -> dict[tuple[str, ...], tuple[str, ...]]:
    """Names that are another one misspelt, or with its words in another order → that one."""
    same: dict[tuple[str, ...], tuple[str, ...]] = {}
    kept: list[tuple[str, ...]] = []
    for key in list(keys)[:MAX_COMPARED_NAMES]:
        other = next((k for k in kept if _are_alike(k[1], key[1])), None)
        if other is None:
            kept.append(key)
        else:
            same[key] = other
    return same


def _are_alike(a: str, b: str) -> bool:
    if numbers_in_key(a) != numbers_in_key(b):
        return False
    if sorted(a.split()) == sorted(b.split()):
        return True
    return min(len(a), len(b)) >= MIN_SPELLING_CHARS and fuzz.ratio(a, b) >= MIN_SPELLING_RATIO
