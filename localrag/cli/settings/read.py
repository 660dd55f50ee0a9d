"""What was set, and where: in the environment, the nearest localrag.toml, the user's config.toml. The first of these counts."""

import os
import re
import tomllib
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from localrag.config import VARIABLES, project_file
from localrag.errors import UsageError
from localrag.system.files import config_dir

USER_FILE = "config.toml"
OTHERS = ("HOME", "API_KEY", "API_KEY_FILE", "CA_FILE", "DEBUG")  # variables that are no settings; nor are LOCALRAG_TEST_…


@dataclass(frozen=True, slots=True)
class Given:
    """A value that somebody set: `origin` is environment, project or user; `where` the variable, or the file with its line."""

    value: Any
    origin: str
    where: str


def user_file() -> Path:
    """The file of the user's settings, whether or not there is one."""
    return config_dir() / USER_FILE


def given() -> dict[str, Given]:
    """Every setting that was set, by name. Raises UsageError, with the place, for what is no setting or cannot be its value."""
    project, user = project_file(Path.cwd()), user_file()
    found = read_file(user, "user") if user.is_file() else {}
    if project is not None:
        found |= read_file(project, "project")
    return found | _read_environment()


def _read_environment() -> dict[str, Given]:
    """Empty variables count as not set."""
    names = [v.removeprefix(VARIABLES) for v, value in os.environ.items() if v.startswith(VARIABLES) and value]
    names = [name for name in names if name not in OTHERS and not name.startswith("TEST_")]
    if not names:  # pydantic takes a quarter of a second to load
        return {}
    from localrag.cli.settings.table import NAMES, NO_VARIABLE
    from localrag.cli.settings.values import of_environment

    for name in names:
        if name.lower() not in NAMES:
            raise UsageError(
                f"{VARIABLES}{name}: there is no setting {name.lower()!r}.", f"{meant(name.lower())} Or: unset {VARIABLES}{name}"
            )
    found = of_environment(lambda name: VARIABLES + name.upper())
    return {name: Given(value, "environment", VARIABLES + name.upper()) for name, value in found.items() if name not in NO_VARIABLE}


def read_file(path: Path, origin: str) -> dict[str, Given]:
    """The settings of a file. Raises UsageError, with the line, where it cannot be read or says what cannot be."""
    text = read_text(path)
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path} is not valid TOML: {error}.", f"Correct that line in {path}") from error
    if not raw:
        return {}
    from localrag.cli.settings.table import NAMES, USER_ONLY
    from localrag.cli.settings.values import of_file

    def where(name: str) -> str:
        return f"{path}{line_of(text, name)}"

    for name in raw:
        if name not in NAMES:
            raise UsageError(f"{where(name)}: there is no setting {name!r}.", meant(name))
        if name in USER_ONLY and origin == "project":
            raise UsageError(
                f"{where(name)}: {name} opens this machine, and a folder's own settings may come from somebody else.",
                f"Take that line out, and set it for yourself: localrag config set {name} VALUE --user",
            )
    return {name: Given(_placed(name, value, path.parent), origin, where(name)) for name, value in of_file(raw, where).items()}


def _placed(name: str, value: Any, folder: Path) -> Any:
    """A value that names a file, as seen from anywhere: in a file of settings it is relative to that file's folder."""
    from localrag.cli.settings.table import MODELS, PATHS

    if name not in (*PATHS, *MODELS) or not value:
        return value
    path = folder / Path(value).expanduser()
    return str(path) if name in PATHS or path.exists() else value


def read_text(path: Path) -> str:
    """The text of a file of settings. Raises UsageError."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}.", f"Correct it, or move it away: mv {path} {path}.old") from error


def line_of(text: str, name: str) -> str:
    """Where a key stands in a TOML file, as words; empty where it is not found."""
    pattern = re.compile(rf"\s*(?:\[+\s*)?[\"']?{re.escape(name)}[\"']?\s*[=.\]]")
    found = next((n for n, line in enumerate(text.splitlines(), 1) if pattern.match(line)), 0)
    return f", line {found}" if found else ""


def meant(name: str) -> str:
    """What to try in place of a name that no setting has."""
    from localrag.cli.settings.table import NAMES

    near = get_close_matches(name.replace("-", "_"), NAMES, n=2)
    return f"Did you mean {' or '.join(map(repr, near))}?" if near else "Those there are: localrag config"
