"""Entities that might be one: alike in spelling or meaning. A large model says yes or no; otherwise they are left open for the user."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np
from numpy.typing import NDArray
from rapidfuzz import fuzz, process
from sqlite_utils import Database

from localrag.about import compared
from localrag.index.graph.spelling import digits, normalise
from localrag.index.graph.variants import BLOCK, MOST, SIMILAR, Decisions
from localrag.index.jobs import Alone, Crew, Tools, embed
from localrag.llm.grammar import choice
from localrag.llm.model import ABOUT, CALL_FAILED, in_window
from localrag.llm.prompts import load_prompt
from localrag.records import Failure, content_id
from localrag.store import vectors
from localrag.store.staged import AMONG, Staged
from localrag.text.plain import squeeze

NEAR = 0.9  # cosine of two names' vectors from which on they are alike in meaning
NAMED = 1000  # entities compared by meaning: the most connected of each type


def spelt_alike(staged: Staged, blocks: Iterable[tuple[str, str]]) -> None:
    """Compare the spelling of entities in these blocks, type and first two letters, anew: who is like whom is kept as rows."""
    for kind, start in sorted(blocks):
        block = f"{kind} {start}"
        keys = _most_frequent(staged, kind, start)
        scores = process.cdist(keys, keys, scorer=fuzz.ratio, score_cutoff=SIMILAR)
        found = ((keys[int(i)], keys[int(j)], float(scores[i, j])) for i, j in np.argwhere(np.triu(scores, 1) > 0))
        pairs = [(block, a, b, score) for a, b, score in found if digits(a) == digits(b)]
        staged.replace("alike", list(staged.rows("alike", "t.block = ?", [block])), pairs)


def _most_frequent(staged: Staged, kind: str, start: str) -> list[str]:
    """The keys of a block's entities that stand most often; names that are part of another entity are none."""
    where, most = "t.type = ? AND substr(t.key, 1, 2) = ? AND length(t.key) > 5", 2 * BLOCK
    while True:
        first = f"ORDER BY t.count DESC, t.key LIMIT {most}"
        rows = sorted(staged.rows("name_keys", where, [kind, start], "-t.count, t.key", first))
        ordered = [key for _, key in rows[:most]]
        entities = {key for (key,) in staged.rows("nodes", f"t.key {AMONG}", [json.dumps(ordered)], "t.key")}
        found = [key for key in ordered if key in entities]
        if len(found) >= BLOCK or len(rows) < most:
            return found[:BLOCK]
        most *= 4


def open_pairs(staged: Staged, decisions: Decisions) -> list[tuple[str, str, float]]:
    """The pairs of entities that are spelt alike, by key, the most alike first; without those that are decided on."""
    first = f"ORDER BY t.score DESC, t.a, t.b LIMIT {MOST + len(decisions.different)}"
    found = sorted(staged.rows("alike", columns="t.a, t.b, t.score", first=first), key=lambda row: (-row[2], row[0], row[1]))
    return [(a, b, round(score / 100, 2)) for a, b, score in found if frozenset((a, b)) not in decisions.different][:MOST]


async def alike_in_meaning(staged: Staged, crew: Crew, embedder: str, decisions: Decisions) -> list[tuple[str, str, float]]:
    """Pairs of entities of one type, by key, whose names have near vectors, though their spelling differs; digits are never bridged."""
    kinds = sorted(staged.values("entities", "type"))
    chosen = [names for names in (_most_connected(staged, kind) for kind in kinds) if len(names) > 1]
    vector_of = await _vectors(staged.db, crew, embedder, [name for some in chosen for name in some])
    found: dict[tuple[str, str], float] = {}
    for names in chosen:
        matrix = np.stack([vector_of[n] for n in names])
        for i, j in np.argwhere(np.triu(matrix @ matrix.T, 1) >= NEAR):
            a, b = (normalise(names[int(n)]) for n in (i, j))
            if _may_be_one(a, b, decisions):
                found[a, b] = round(float(matrix[i] @ matrix[j]), 2)
    return sorted(((a, b, score) for (a, b), score in found.items()), key=lambda p: (-p[2], p[1], p[0]))[:MOST]


def _most_connected(staged: Staged, kind: str) -> list[str]:
    """The names of the entities of a type that have most relationships."""
    first = f"ORDER BY t.degree DESC, t.id LIMIT {NAMED}"
    rows = staged.rows("entities", "t.type = ?", [kind], "t.degree, t.id, t.name", first)
    return [name for *_, name in sorted(rows, key=lambda row: (-row[0], row[1]))[:NAMED]]


async def _vectors(db: Database, crew: Crew, embedder: str, names: Sequence[str]) -> dict[str, NDArray[np.float32]]:
    """The vectors of names, which are kept as long as they are asked for."""
    kept = vectors.of_names(db, embedder)
    new = [n for n in dict.fromkeys(names) if n not in kept]
    made = dict(zip(new, await embed(crew, new), strict=True)) if new else {}
    vectors.keep_names(db, embedder, made, kept.keys() - set(names))
    return kept | made


def _may_be_one(a: str, b: str, decisions: Decisions) -> bool:
    return a != b and digits(a) == digits(b) and frozenset((a, b)) not in decisions.different and fuzz.ratio(a, b) < 100


@dataclass(frozen=True)
class SameEntity(Alone[bool]):
    """Whether two names are one entity's, each with a sentence that has it. Raises CALL_FAILED."""

    first: str
    first_quote: str
    second: str
    second_quote: str
    task = "same"

    async def work(self, tools: Tools) -> bool:
        """What the model says."""
        ABOUT.set(compared(self.first, self.second))
        prompt = load_prompt("abstractive/same", tools.settings.prompts)
        messages = prompt.fill(first=self.first, first_quote=self.first_quote, second=self.second, second_quote=self.second_quote)
        reply = await tools.model.ask("same", messages, max_tokens=4, grammar=choice(["yes", "no"]))
        return reply.text == "yes"


async def ask_whether_same(
    pairs: Sequence[tuple[tuple[str, str], tuple[str, str], tuple[str, str]]],
    crew: Crew,
    told: Callable[[int, int], None] = lambda *_: None,
) -> tuple[list[tuple[str, str]], list[Failure]]:
    """Which pairs the model says are one, and which it could not be asked about: they stay open.

    A pair: its names by key, (the fuller one, another); how they are written; a sentence of each. `told` hears how many were asked about,
    of how many.
    """
    failed: list[Failure] = []
    done = count()

    async def one(keys: tuple[str, str], names: tuple[str, str], shown: tuple[str, str]) -> tuple[str, str] | None:
        told(next(done), len(pairs))
        if not all(shown):
            return None
        first, second = (squeeze(text)[:300] for text in shown)
        try:
            same = await crew.run(SameEntity(names[0], first, names[1], second))
        except CALL_FAILED as error:
            failed.append(Failure("same entity", content_id(names[1], names[0]), str(error), error.kind))
            return None
        return (keys[1], keys[0]) if same else None

    said = await in_window(one(*pair) for pair in pairs)
    return [pair for pair in said if pair], sorted(failed, key=lambda f: f.subject)
