"""The shape of a JSON object that a model writes, defined once: for the prompt in words, and as the schema that its answer must follow."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from localrag.llm.grammar import object_schema

PERCENT: dict[str, Any] = {"type": "integer", "minimum": 0, "maximum": 100}


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a JSON object, what it says, and its schema. Of a list of objects, `parts` are their fields, `schema` has the limits."""

    name: str
    words: str
    schema: dict[str, Any]
    parts: tuple["Field", ...] = ()


def schema_of(fields: Sequence[Field]) -> dict[str, Any]:
    """The JSON schema of an object with these fields, in this order."""
    return object_schema(**{f.name: f.schema | {"type": "array", "items": schema_of(f.parts)} if f.parts else f.schema for f in fields})


def shape_text(fields: Sequence[Field]) -> str:
    """The object as a prompt shows it: its names in this order, each with what it says."""
    return "{" + ", ".join(f'"{f.name}": {f"[{f.words}, each {shape_text(f.parts)}]" if f.parts else f.words}' for f in fields) + "}"
