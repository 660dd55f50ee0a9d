"""Which settings of a folder's localrag.toml count only once the user has said so: a folder may come from somebody else.

Those that name a server or a file for native code, lead out of the folder, or take back a care that the user took. The rest changes how
documents are read and answers look. Settings that open this machine stand in the user's own file alone (`table.USER_ONLY`).
"""

import json
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from localrag.cli.settings.read import Given, read_file, read_text
from localrag.cli.settings.table import MODELS
from localrag.errors import UsageError
from localrag.system.ownership import foreign
from localrag.system.trust import is_known, remember

WITHIN = ("index", "inbox")  # harmless where they are in the folder of the file
CARE = {"follow_links": False, "no_log": True, "read_only": True}  # the value that harms nobody


def check_project(path: Path, found: Mapping[str, Given]) -> None:
    """Raises UsageError where a localrag.toml that others may change, or a setting of it that may harm, was not trusted by the user."""
    if is_trusted(path, found):
        return
    mend = "See what it sets: localrag config. If you trust it: localrag config trust"
    if (why := foreign(path)) and not _is_known(path):
        raise UsageError(f"The settings in {path} are not used: the file {why}.", mend)
    first = next(name for name, value in risky(path, found).items() if not is_known("setting", *_said(path, name, value)))
    raise UsageError(f"{found[first].where}: {first} = {found[first].value} counts only if you trust that file.", mend)


def is_trusted(path: Path, found: Mapping[str, Given]) -> bool:
    """Whether the settings of a localrag.toml count, as they are now."""
    if foreign(path):
        return _is_known(path)
    return _is_known(path) or all(is_known("setting", *_said(path, *one)) for one in risky(path, found).items())


def trust(path: Path) -> dict[str, Any]:
    """Let a localrag.toml count as it is now; returns its settings that may harm. Raises UsageError."""
    values = risky(path, read_file(path, "project"))
    for one in values.items():
        remember("setting", *_said(path, *one))
    remember("settings-file", str(path.absolute()), _text(path))
    return values


def risky(path: Path, found: Mapping[str, Given]) -> dict[str, Any]:
    """The settings of a localrag.toml that may harm, with their values."""
    return {
        name: one.value
        for name, one in sorted(found.items())
        if one.origin == "project" and _may_harm(name, one.value, path.absolute().parent)
    }


def _may_harm(name: str, value: Any, folder: Path) -> bool:
    if name in MODELS:
        return "/" in value or value.endswith(".gguf")  # the address of a server, or a file; a name stands for one of the user's list
    if name in WITHIN:
        return bool(value) and not (folder / value).resolve().is_relative_to(folder.resolve())
    return name in CARE and value != CARE[name]


def _is_known(path: Path) -> bool:
    return is_known("settings-file", str(path.absolute()), _text(path))


def _text(path: Path) -> str:
    return sha256(read_text(path).encode()).hexdigest()


def _said(path: Path, name: str, value: Any) -> tuple[str, str, str]:
    return str(path.absolute()), name, json.dumps(value)
