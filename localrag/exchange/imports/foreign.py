"""What another program's index says, in our words and without its ids' meaning: what every reader of a format returns."""

from collections.abc import Mapping
from dataclasses import dataclass, field


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
