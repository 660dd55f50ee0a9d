"""What another program's index says, in our words and without its ids' meaning: what every reader of a format returns."""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from localrag.errors import UsageError

DEEPEST = 1_000  # levels of communities


@dataclass(frozen=True, slots=True)
class Source:
    """A document: `key` is the other program's id of it."""

    key: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Passage:
    """A chunk of the document `source`, or of one that is not known ("")."""

    key: str
    source: str
    text: str


@dataclass(frozen=True, slots=True)
class Node:
    """An entity, found in the chunks `passages`."""

    name: str
    type: str
    description: str
    passages: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Edge:
    """A relationship of two entities by name, stated in the chunks `passages`; `strength` 1 to 10."""

    source: str
    target: str
    description: str
    strength: int
    passages: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Statement:
    """A claim, made in the chunk `passage` in the words `quote`."""

    subject: str
    object: str
    type: str
    status: str
    since: str
    until: str
    description: str
    quote: str
    passage: str


@dataclass(frozen=True, slots=True)
class Insight:
    """A finding of a report, with the names of entities and the ends of relationships that it refers to."""

    summary: str
    explanation: str
    nodes: tuple[str, ...] = ()
    edges: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Group:
    """A community of entities by name, within the one `parent`, with its report."""

    key: str
    level: int
    parent: str | None
    nodes: tuple[str, ...]
    title: str
    summary: str
    rating: float
    rating_explanation: str
    insights: tuple[Insight, ...]


@dataclass(frozen=True, slots=True)
class Foreign:
    """All of it. `state` is a hash of the files it was read from, `program` who made them; `skipped`: what could not be read → why."""

    program: str
    state: str
    sources: tuple[Source, ...]
    passages: tuple[Passage, ...]
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    statements: tuple[Statement, ...] = ()
    groups: tuple[Group, ...] = ()
    skipped: Mapping[str, str] = field(default_factory=dict)


class Unusual(ValueError):
    """A value that is not of the kind that it must be."""


@contextmanager
def unusual_refused(folder: Path, program: str) -> Iterator[None]:
    """Raises UsageError where values are of kinds that the program never writes: a list for a name, a number for a list."""
    try:
        yield
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        raise UsageError(
            f"What {folder} holds is not as {program} writes it: {shown(str(error))}.", "Run that program again, or copy its output again."
        ) from error


def whole_number(value: Any, what: str, most: int = 1 << 53) -> int:
    """A number without a fraction, from 0. Raises Unusual."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if isinstance(value, bool) or not 0 <= number <= most or number != int(number):
        raise Unusual(f"{what} is {shown(value)}, not a whole number from 0")
    return int(number)


def real_number(value: Any, otherwise: float = 0.0) -> float:
    """A number; `otherwise` for what is none, or endless."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return otherwise
    return number if math.isfinite(number) else otherwise


def strength_of(weight: Any, chunks: int) -> int:
    """What a relationship of a weight in so many chunks is worth in each, 1 to 10."""
    return min(10, max(1, round(min(1e6, max(0.0, real_number(weight, 1.0))) / max(1, chunks))))


def shown(value: Any) -> str:
    """A value of somebody else's in an error, cut to what says which it is."""
    return repr(value) if len(repr(value)) <= 60 else f"{repr(value)[:60]}…"


def tree_faults(parents: Mapping[Any, Any], levels: Mapping[Any, int]) -> dict[Any, str]:
    """The communities that are in no tree, each with why: a parent that is none, is not on the level above, or is below itself.

    What lies below such a one is in no tree either. With levels that fall on the way up no way goes round.
    """
    found: dict[Any, str] = {}
    for key in sorted(levels, key=lambda k: levels[k]):
        above = parents.get(key)
        if above is None:
            wrong = "it has no community above, but is not on level 0" if levels[key] else ""
        elif above == key:
            wrong = "it is its own parent"
        elif above not in levels:
            wrong = f"its parent {shown(above)} is not there"
        elif levels[above] != levels[key] - 1:
            wrong = f"it is on level {levels[key]}, and its parent {shown(above)} on level {levels[above]}"
        else:
            wrong = f"its parent {shown(above)} is in no tree" if above in found else ""
        if wrong:
            found[key] = wrong
    return found
