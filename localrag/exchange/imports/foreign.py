"""What another program's index says, in our words and without its ids' meaning: what every reader of a format returns."""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from localrag.errors import UsageError

MAX_LEVEL = 1_000  # levels of communities


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


class UnexpectedValue(ValueError):
    """A value has another type or range than the format allows."""


@contextmanager
def unexpected_values_refused(folder: Path, program: str) -> Iterator[None]:
    """Turn errors from values that the program never writes (a list for a name, a number for a list) into a UsageError."""
    try:
        yield
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        raise UsageError(
            f"What {folder} holds is not as {program} writes it: {shortened_repr(str(error))}.",
            "Run that program again, or copy its output again.",
        ) from error


def whole_number(value: Any, what: str, most: int = 1 << 53) -> int:
    """A value as a whole number from 0 to `most`; `what` names it in the error. Raises UnexpectedValue."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if isinstance(value, bool) or not 0 <= number <= most or number != int(number):
        raise UnexpectedValue(f"{what} is {shortened_repr(value)}, not a whole number from 0")
    return int(number)


def real_number(value: Any, otherwise: float = 0.0) -> float:
    """A value as a finite number; `otherwise` if it is none."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return otherwise
    return number if math.isfinite(number) else otherwise


def strength_of(weight: Any, chunks: int) -> int:
    """The strength of a relationship in each chunk, 1 to 10, from its weight summed over so many chunks."""
    return min(10, max(1, round(min(1e6, max(0.0, real_number(weight, 1.0))) / max(1, chunks))))


def shortened_repr(value: Any) -> str:
    """The repr of a foreign value for an error message, cut to 60 characters."""
    return repr(value) if len(repr(value)) <= 60 else f"{repr(value)[:60]}…"


def tree_faults(parents: Mapping[Any, Any], levels: Mapping[Any, int]) -> dict[Any, str]:
    """The communities that belong to no tree, each with the reason: its parent is missing, on another level than the one above, or itself.

    Everything below such a community belongs to no tree either. Cycles are impossible where each parent is on the level above.
    """
    faults: dict[Any, str] = {}
    for key in sorted(levels, key=lambda k: levels[k]):
        above = parents.get(key)
        if above is None:
            wrong = "it has no community above, but is not on level 0" if levels[key] else ""
        elif above == key:
            wrong = "it is its own parent"
        elif above not in levels:
            wrong = f"its parent {shortened_repr(above)} is not there"
        elif levels[above] != levels[key] - 1:
            wrong = f"it is on level {levels[key]}, and its parent {shortened_repr(above)} on level {levels[above]}"
        else:
            wrong = f"its parent {shortened_repr(above)} is in no tree" if above in faults else ""
        if wrong:
            faults[key] = wrong
    return faults
