"""Settings of a folder's localrag.toml that take effect only once the user trusts them: a folder may come from somebody else.

They name a server or a file for native code, lead out of the folder, or undo a precaution of the user. The other settings change only how
documents are read and answers look. Settings that open this machine are allowed only in the user's own file (`table.USER_ONLY`).
"""

import json
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from localrag.cli.settings.read import Given, read_file, read_text
from localrag.cli.settings.table import MODELS
from localrag.errors import UsageError
from localrag.system.ownership import untrusted_reason
from localrag.system.trust import is_known, remember

FOLDER_SETTINGS = ("index", "inbox")  # harmless inside the folder of the file
SAFE_VALUES = {"follow_links": False, "no_log": True, "read_only": True}  # the harmless values


def check_project(path: Path, found: Mapping[str, Given]) -> None:
    """Raise UsageError if the user has not trusted a localrag.toml that others may change, or a risky setting in it."""
    if is_trusted(path, found):
        return
    hint = "See what it sets: localrag config. If you trust it: localrag config trust"
    if (why := untrusted_reason(path)) and not _is_file_known(path):
        raise UsageError(f"The settings in {path} are not used: the file {why}.", hint)
    first = next(name for name, value in risky_settings(path, found).items() if not is_known("setting", *_fact(path, name, value)))
    raise UsageError(f"{found[first].where}: {first} = {found[first].value} counts only if you trust that file.", hint)


def is_trusted(path: Path, found: Mapping[str, Given]) -> bool:
    """Whether the settings of a localrag.toml count, as they are now."""
    if untrusted_reason(path) or _is_file_known(path):
        return _is_file_known(path)
    return all(is_known("setting", *_fact(path, *item)) for item in risky_settings(path, found).items())


def trust(path: Path) -> dict[str, Any]:
    """Trust a localrag.toml as it is now; returns its risky settings. Raises UsageError."""
    values = risky_settings(path, read_file(path, "project"))
    for item in values.items():
        remember("setting", *_fact(path, *item))
    remember("settings-file", str(path.absolute()), _digest(path))
    return values


def risky_settings(path: Path, found: Mapping[str, Given]) -> dict[str, Any]:
    """The settings of a localrag.toml that need the user's trust, with their values."""
    folder = path.absolute().parent
    return {name: s.value for name, s in sorted(found.items()) if s.origin == "project" and _is_risky(name, s.value, folder)}


def _is_risky(name: str, value: Any, folder: Path) -> bool:
    if name in MODELS:
        return "/" in value or value.endswith(".gguf")  # a server or a file; a plain name is looked up in the user's list
    if name in FOLDER_SETTINGS:
        return bool(value) and not (folder / value).resolve().is_relative_to(folder.resolve())
    return name in SAFE_VALUES and value != SAFE_VALUES[name]


def _is_file_known(path: Path) -> bool:
    return is_known("settings-file", str(path.absolute()), _digest(path))


def _digest(path: Path) -> str:
    return sha256(read_text(path).encode()).hexdigest()


def _fact(path: Path, name: str, value: Any) -> tuple[str, str, str]:
    return str(path.absolute()), name, json.dumps(value)
