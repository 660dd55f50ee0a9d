"""Which documents a request is about: its `where` and its `collections`."""

from collections.abc import Mapping
from typing import Any

from localrag.where import Selection, collection_names, parse_where


def where_of(body: Mapping[str, Any]) -> str:
    """The `where` of a request; empty where it has none. Raises ValueError and UsageError."""
    where = body.get("where")
    if where is not None and not isinstance(where, str):
        raise ValueError(f"`where` is a text like path=contracts/*,type=pdf, not {where!r:.40}.")
    parse_where(where or "")
    return where or ""


def selection_of(body: Mapping[str, Any]) -> Selection | None:
    """The documents that a request selects by `where` and `collections` (a list, or names with commas); None where it has neither.

    Raises ValueError and UsageError.
    """
    names = body.get("collections")
    if isinstance(names, list) and all(isinstance(n, str) for n in names):
        names = ",".join(names)
    if names is not None and not isinstance(names, str):
        raise ValueError(f"`collections` is a list of names, not {names!r:.40}.")
    if names is None and body.get("where") is None:
        return None
    return Selection(where_of(body), collection_names(names or ""))
