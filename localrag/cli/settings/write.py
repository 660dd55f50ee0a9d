"""Files of settings, written: a value set or taken out with all comments kept, and a new file that shows every setting."""

import re
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError

from localrag.cli.settings.read import meant, read_file, read_text, user_file
from localrag.cli.settings.table import MODELS, NAMES, PATHS, USER_ONLY, about, example
from localrag.cli.settings.trusted import is_trusted, trust
from localrag.cli.settings.values import of_text
from localrag.config import PROJECT_FILE, project_file
from localrag.errors import UsageError
from localrag.system.files import private_folder, replace_file

_HEAD = """# Settings of localrag in this folder and below. `localrag config` shows what holds and where it comes from.
# Taken first: options of a command, then LOCALRAG_NAME in the environment, this file, the user's own file, what the index was made with.
# Every setting stands here as it is without this file, or with an example. To change one, take the # away.
"""


def target(*, user: bool) -> Path:
    """The file to write to: the user's, else the nearest localrag.toml, else a new one here."""
    return user_file() if user else project_file(Path.cwd()) or Path.cwd() / PROJECT_FILE


def set_value(path: Path, name: str, text: str) -> Any:
    """Set a value in a file, in place of its old one or of the line that shows its default; returns it. Raises UsageError."""
    if name not in NAMES:
        raise UsageError(f"There is no setting {name!r}.", meant(name))
    if name in USER_ONLY and path != user_file():
        raise UsageError(
            f"{name} opens this machine, so it is set for yourself and not in a folder, which others may copy.",
            f"localrag config set {name} {text} --user",
        )
    value = _portable(name, of_text(name, text), path)
    before = read_text(path) if path.exists() else ""
    document = _parsed(path, before)
    trusts = path != user_file() and _is_in_force(path)
    item = list(value) if isinstance(value, tuple) else value
    commented = re.compile(rf"^#{name} = .*$", re.MULTILINE)
    if name not in document and commented.search(before):
        line = tomlkit.dumps({name: item}).strip()
        _save(path, commented.sub(lambda _: line, before, count=1))
    else:
        document[name] = item
        _save(path, tomlkit.dumps(document))
    if trusts:  # other settings of the file stay untrusted if they were
        trust(path)
    return value


def _is_in_force(path: Path) -> bool:
    """Whether a localrag.toml is trusted as it is, or does not exist yet. A broken one is not."""
    try:
        return not path.exists() or is_trusted(path, read_file(path, "project"))
    except UsageError:
        return False


def unset_value(path: Path, name: str) -> None:
    """Take a value out of a file, also one that is no setting. Raises UsageError where it is not in it."""
    document = _parsed(path, read_text(path)) if path.exists() else tomlkit.document()
    if name not in document:
        raise UsageError(f"{path} does not set {name}.", "What is set, and where: localrag config")
    del document[name]
    _save(path, tomlkit.dumps(document))


def new_file() -> Path:
    """Write a localrag.toml that shows every setting, all of them commented out. Raises UsageError where there is one here."""
    path = Path.cwd() / PROJECT_FILE
    if path.exists():
        raise UsageError(f"{path} exists already.", "See what it sets: localrag config. Change it: localrag config set NAME VALUE")
    lines = [f"# {about(name)}\n#{tomlkit.dumps({name: example(name)})}" for name in NAMES if name not in USER_ONLY]
    alone = f"# Set for yourself only, with `localrag config set NAME VALUE --user`: {', '.join(USER_ONLY)}.\n"
    _save(path, "\n".join([_HEAD, *lines, alone]))
    return path


def _portable(name: str, value: Any, path: Path) -> Any:
    """A value that names a file, which is relative to this folder, as seen from the folder of the file of settings."""
    if name not in (*PATHS, *MODELS) or not value:
        return value
    here = Path(value).expanduser()
    if here.is_absolute() or (name in MODELS and not here.exists()):
        return value
    return str(here.resolve()) if Path.cwd() != path.parent else value


def _parsed(path: Path, text: str) -> tomlkit.TOMLDocument:
    try:
        return tomlkit.parse(text)
    except TOMLKitError as error:
        raise UsageError(f"{path} is not valid TOML: {error}.", f"Correct that line in {path}") from error


def _save(path: Path, text: str) -> None:
    """In one step, and with the rights that the file has; a new one in a project has those of any other file."""
    path = path.resolve()
    if not path.exists():
        private_folder(path.parent)
        path.touch(mode=0o600 if path == user_file().resolve() else 0o666)
    mode = path.stat().st_mode
    replace_file(path, text.encode())
    path.chmod(mode)
