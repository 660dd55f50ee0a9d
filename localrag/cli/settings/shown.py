"""Every setting as it stands: its value, and where that comes from."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from localrag.cli.settings.apply import BOUND, bound_value, conflict
from localrag.cli.settings.read import Given
from localrag.cli.settings.table import NAMES, about, default
from localrag.errors import LocalragError


@dataclass(frozen=True, slots=True)
class Shown:
    """A setting with its value. `origin` is environment, project, user, index or default; `where` the variable, or the file with its line.

    `index` is what the index was made with, where it is another value: indexing ends in an error until one of them is changed.
    """

    name: str
    value: Any
    origin: str
    where: str
    index: Any
    about: str


def shown(found: Mapping[str, Given], bound: Mapping[str, Any]) -> list[Shown]:
    """All settings, from what was set and what `bound_to` tells of the index."""
    return [_shown(name, found.get(name), bound) for name in NAMES]


def _shown(name: str, given: Given | None, bound: Mapping[str, Any]) -> Shown:
    has = bound_value(name, bound) if bound and name in BOUND else None
    if given is None:
        value, origin = (default(name), "default") if has is None else (has, "index")
        return Shown(name, value, origin, "", None, about(name))
    return Shown(
        name, given.value, given.origin, given.where, has if has is not None and _differs(name, given, bound) else None, about(name)
    )


def _differs(name: str, given: Given, bound: Mapping[str, Any]) -> bool:
    try:
        return conflict(name, given.value, bound) is not None
    except LocalragError:  # a model that is not there is another
        return True


def bound_or_nothing(index: Path | None) -> tuple[dict[str, Any], str]:
    """What `bound_to` tells of an index, or nothing and why it cannot be read."""
    from localrag.opening import bound_to

    try:
        return bound_to(index), ""
    except LocalragError as error:
        return {}, str(error)
