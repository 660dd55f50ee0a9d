"""The list of models: `models.toml` as shipped, and over it the user's own, which `localrag models` writes.

The user's file is in the folder of the user's settings (`LOCALRAG_HOME` moves it), never in the package: an update keeps it.
"""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError

from localrag.errors import ModelError, UsageError
from localrag.system.files import config_dir, data_path, private_folder, replace_file

FILE_NAME = "models.toml"
KINDS = ("chat", "embedder", "reranker")
_DEFAULTS = tuple(f"default_{kind}" for kind in KINDS[:2])
_KEYS = ("path", "package", "source")  # of an entry; `source` says where a file was pulled from
_HEAD = "# Models of this user. Written by: localrag models add, pull, use, rm. Read it with: localrag models list\n\n"


def user_file() -> Path:
    """Where the user's own list is, whether or not there is one."""
    return config_dir() / FILE_NAME


def shipped_models() -> dict[str, Any]:
    """The list that came with localrag."""
    return tomllib.loads(data_path(FILE_NAME).read_text(encoding="utf-8"))


def known_models() -> dict[str, Any]:
    """The shipped list with the user's over it. Raises ModelError, with the line, where the user's cannot be read."""
    known, own = shipped_models(), user_models()
    kinds = {kind: known.get(kind, {}) | own.get(kind, {}) for kind in KINDS}
    return known | {name: own[name] for name in _DEFAULTS if name in own} | kinds


def user_models() -> dict[str, Any]:
    """The user's own list; empty where there is none. Raises ModelError, with the line, where it cannot be read."""
    path = user_file()
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(f"{path} cannot be read: {error}.", f"Correct it, or move it away: mv {path} {path}.old") from error
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ModelError(f"{path} is not valid TOML: {error}.", f"Correct that line in {path}") from error
    if problem := next(_problems(table), None):
        keys, said, hint = problem
        raise ModelError(f"{path}{_line(text, keys)}: {said}", hint)
    return table


Keys = tuple[str, ...]  # of a value in a TOML file: ("chat", "my-model", "path")


def _problems(table: Mapping[str, Any]) -> Iterator[tuple[Keys, str, str]]:
    """What no list of models holds: the keys of what it is about, what is wrong, what to do."""
    for key, value in table.items():
        if key in _DEFAULTS:
            kind = key.removeprefix("default_")
            names = [*shipped_models()[kind], *(table[kind] if isinstance(table.get(kind), dict) else ())]
            if not isinstance(value, str):
                yield (key,), f"{key} is no name of a model.", f'Write it like this: {key} = "NAME"'
            elif value not in names:
                yield (key,), f"there is no {kind} model {value!r} to be the default.", _meant(value, names)
        elif key not in KINDS:
            yield (key,), f"there is no setting {key!r}.", _meant(key, [*_DEFAULTS, *KINDS])
        elif not isinstance(value, dict):
            yield (key,), f"{key} is no table.", f"Write a model like this: [{key}.NAME], and below it path = …"
        else:
            for name, entry in value.items():
                yield from _entry_problems(key, name, entry)


def _entry_problems(kind: str, name: str, entry: Any) -> Iterator[tuple[Keys, str, str]]:
    at = (kind, name)
    if not isinstance(entry, dict):
        yield at, f"{kind}.{name} is no table.", f"Write a model like this: [{kind}.{name}], and below it path = …"
        return
    for key, value in entry.items():
        if isinstance(value, dict):
            yield (*at, key), f"{kind}.{name}.{key} is a table within a table.", f'A name with a dot needs quotes: [{kind}."{name}.{key}"]'
        elif key not in _KEYS:
            yield (*at, key), f"{kind}.{name} has no setting {key!r}.", _meant(key, _KEYS)
        elif not isinstance(value, str) or not value:
            yield (*at, key), f"{key} of {kind}.{name} is no text.", f'Write it like this: {key} = "…"'
    if "path" not in entry:
        yield at, f"{kind}.{name} has no path.", 'Add: path = "/…/model.gguf"'


def _meant(key: str, known: Sequence[str]) -> str:
    near = get_close_matches(key, known, n=1)
    return f"Did you mean {near[0]!r}?" if near else f"There are: {', '.join(known)}."


def _line(text: str, keys: Keys) -> str:
    """Where a value stands in a TOML file, as words; empty where it is not found on a line of its own."""
    table: Keys = ()
    for number, line in enumerate(text.splitlines(), 1):
        with suppress(tomllib.TOMLDecodeError):
            here = _keys(tomllib.loads(line))
            table, here = (here, here) if line.lstrip().startswith("[") else (table, table + here)
            if here[: len(keys)] == keys:
                return f", line {number}"
    return ""


def _keys(value: Any) -> Keys:
    """The keys of what one line of TOML holds."""
    if not isinstance(value, dict) or len(value) != 1:
        return ()
    ((key, inner),) = value.items()
    return (key, *_keys(inner))


def add_model(kind: str, name: str, path: str, source: str = "") -> None:
    """Put a model on the user's list, in place of one of the same name. Raises ModelError, OSError."""
    document = _document()
    entry = tomlkit.table()
    entry.add("path", path)
    if source:
        entry.add("source", source)
    document.setdefault(kind, tomlkit.table(is_super_table=True))[name] = entry
    _save(document)


def remove_model(kind: str, name: str) -> None:
    """Take a model off the user's list, and as the default where it is. Raises UsageError where it is not on it."""
    document = _document()
    if name not in document.get(kind, {}):
        raise UsageError(f"{name} is not on your own list of models.", "Yours are shown by: localrag models list")
    del document[kind][name]
    if not document[kind]:
        del document[kind]
    if document.get(f"default_{kind}") == name:
        del document[f"default_{kind}"]
    _save(document)


def set_default(kind: str, name: str) -> None:
    """Make a model the default of new indexes. Raises UsageError for a kind that has none."""
    if f"default_{kind}" not in _DEFAULTS:
        raise UsageError(f"A {kind} has no default: it is used where it is asked for.", f"Name it: --{kind} {name}")
    document = _document()
    if shipped_models().get(f"default_{kind}") == name:
        document.pop(f"default_{kind}", None)
    elif f"default_{kind}" in document:
        document[f"default_{kind}"] = name
    else:  # before the first table, or it would belong to it
        document = tomlkit.parse(f"default_{kind} = {tomlkit.string(name).as_string()}\n{tomlkit.dumps(document)}")
    _save(document)


def _document() -> Any:
    """The user's list with its comments, to be changed and saved. Raises ModelError where it cannot be read."""
    user_models()
    try:
        return tomlkit.parse(user_file().read_text(encoding="utf-8"))
    except FileNotFoundError:
        return tomlkit.parse(_HEAD)
    except TOMLKitError as error:
        raise ModelError(f"{user_file()} is not valid TOML: {error}.", f"Correct it in {user_file()}") from error


def _save(document: Any) -> None:
    path = user_file()
    private_folder(path.parent)
    replace_file(path, tomlkit.dumps(document).encode())
