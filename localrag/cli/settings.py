"""Settings of the command line: their table, environment variables and settings files, trust, and defaults of options.

SETTINGS is the single source of options, environment variables, settings files, `localrag config` and the documentation. A setting takes
its value from the command line, the environment, the nearest localrag.toml, the user's config.toml, the index, or its
default, in this order.

A localrag.toml may come from another person: its risky settings take effect only after the user trusts it (`check_project`).
"""

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from localrag.cli.views.terminal import write_line
from localrag.errors import IndexMismatch, UsageError
from localrag.settings import ENV_PREFIX, PROJECT_FILE, QUERY_MODES, IndexSettings, project_file
from localrag.system.files import config_dir, ensure_private_folder, read_linked_file, write_atomically
from localrag.system.trust import is_trust_known, remember_trust, untrusted_reason

if TYPE_CHECKING:
    import tomlkit
    import typer
    from pydantic import BaseModel


COMMA_LIST = "A,B,…"
MAX_FILE_BYTES = 1_000_000
ANSWER_STYLES = ("extractive", "abstractive")
EXTRACTOR_NAMES = ("auto", "tagger", "model", "phrases")
_INDEX = IndexSettings()


@dataclass(frozen=True, slots=True)
class Setting:
    """Definition of a setting. Its type is that of `default`, or `kind` if the default is None.

    `index_key` is the key under which an index stores the value. An untrusted localrag.toml may set a bounded value, or only `safe`.
    `command` is the only command with this setting.
    """

    help: str
    default: Any = ""
    metavar: str | None = None
    choices: tuple[str, ...] = ()
    min: int | None = None
    max: int | None = None
    kind: type | None = None
    index_key: str = ""
    safe: Any = None
    command: str = ""
    check: Callable[[Any], Any] | None = None

    @property
    def type(self) -> type:
        """The type of the value: str, bool, int, float, or tuple (of texts)."""
        return self.kind or type(self.default)

    @property
    def is_bounded(self) -> bool:
        """Whether its type alone makes every value harmless: true or false, one of a few words, or a number with limits."""
        has_limits = self.type in (int, float) and None not in (self.min, self.max)
        return self.type is bool or bool(self.choices) or has_limits


def _check_types(types: tuple[str, ...]) -> tuple[str, ...]:
    if any('"' in kind or "\\" in kind or "\n" in kind for kind in types):
        raise ValueError("a type of entities has no quotation marks, backslashes or line breaks")
    return types


def _check_engine(values: str) -> str:
    from localrag.engine.settings import EngineOptions

    try:
        EngineOptions.of(values)
    except UsageError as error:
        raise ValueError(f"{error} {error.hint}") from error
    return values


_MODES_HELP = (
    "mix: details, by a walk over the graph. local: about entities. global: about everything. drift: broad, then deep. "
    "basic: nearest passages. ts, ss: the paper's baselines. auto: chosen by the question."
)
_SERVE = "serve"
SETTINGS = {
    "index": Setting("The index folder. Default: the nearest .localrag in this folder or above.", metavar="DIR"),
    "model": Setting(
        "Chat model: a name in models.toml, a GGUF file, or http://HOST:PORT/v1#NAME.",
        metavar="NAME|PATH",
        index_key="chat_model",
    ),
    "embedder": Setting(
        "Embedding model: a name in models.toml, or a GGUF file. Default: the index's own, else by the documents' languages.",
        metavar="NAME|PATH",
        index_key="embedder",
    ),
    "reranker": Setting("Re-rank passages with this cross-encoder (GGUF). Default: none.", metavar="NAME|PATH"),
    "mode": Setting(_MODES_HELP, "auto", choices=QUERY_MODES),
    "style": Setting("extractive: quote sentences. abstractive: let the model write. Default: by model size.", choices=ANSWER_STYLES),
    "strict": Setting("Leave out sentences that no passage supports.", default=False),
    "response_type": Setting("The form of answers, for example 'single sentence', 'list of 3 points', 'multiple paragraphs'."),
    "max_calls": Setting(
        "Maximum model calls of an answer. Then the best answer so far. Default: 50 calls and 100,000 tokens.",
        None,
        kind=int,
        min=0,
        max=1_000_000,
    ),
    "no_history": Setting("Write neither questions nor answers to the index or any other file.", default=False, safe=True),
    "max_seconds": Setting(
        "Maximum seconds of an answer. Then the best answer so far. Default: no limit.", None, kind=float, min=0, max=1_000_000
    ),
    "extractor": Setting(
        "What finds names and relationships. tagger: the bundled one, in seconds. model: the chat model. auto: the chat model where it "
        "needs at most 15 minutes, else the tagger. phrases: names and noun phrases, without a model.",
        _INDEX.extractor,
        choices=EXTRACTOR_NAMES,
        index_key="extractor",
    ),
    "types": Setting("Entity types to extract.", _INDEX.entity_types, metavar=COMMA_LIST, index_key="entity_types", check=_check_types),
    "gleanings": Setting("How often to ask the model for names it missed.", _INDEX.max_gleanings, min=0, max=10, index_key="max_gleanings"),
    "claims": Setting("Also extract claims: who did what, and when.", _INDEX.claims, index_key="claims"),
    "language": Setting("Language of reports and answers. Default: the documents' own.", index_key="language"),
    "chunk_tokens": Setting("Maximum tokens of a chunk.", _INDEX.chunk_tokens, min=100, max=4000, index_key="chunk_tokens"),
    "text_column": Setting("Column of CSV, Excel and JSON rows that contains the text.", metavar="NAME", index_key="text_column"),
    "metadata_columns": Setting("Columns to put before the text of a row.", (), metavar=COMMA_LIST, index_key="metadata_columns"),
    "prepend_metadata": Setting(
        "Add the document's title, date and author to each chunk.", _INDEX.prepend_metadata, index_key="prepend_metadata"
    ),
    "ocr": Setting("Read scans and pictures with Tesseract if it is installed, else with RapidOCR.", _INDEX.ocr, index_key="ocr"),
    "ocr_languages": Setting(
        "Languages of the scans, as Tesseract's codes: eng,deu. Default: the index's, or eng.",
        (),
        metavar=COMMA_LIST,
        index_key="ocr_languages",
    ),
    "follow_links": Setting(
        "Follow symbolic links to places outside the folders.", _INDEX.follow_links, index_key="follow_links", safe=False
    ),
    "all_files": Setting(
        "Also read what is no document: leftovers and conflicted copies, lock files, minified code, dependencies.",
        _INDEX.all_files,
        index_key="all_files",
    ),
    "engine": Setting(
        "Override engine settings, for example slots=4,n_ctx=8192,kv_cache_type=f16.",
        metavar="NAME=VALUE,…",
        check=_check_engine,
    ),
    "parallel": Setting("Parallel requests to the model server. 0: what it reports, or 8.", 0, metavar="N", min=0, max=1024),
    "workers": Setting("Number of parallel index processes. 0: one, with helpers on free cores.", 0, metavar="N", min=0, max=64),
    "deterministic": Setting("Make answers independent of parallel requests, even if that is slower. Always so on the CPU.", default=False),
    "allow_host": Setting("Allow sending document text to a model server on this host.", (), metavar="HOST"),
    "host": Setting("Address to listen on. Any but loopback needs an API key file.", "127.0.0.1", command=_SERVE),
    "port": Setting("Port to listen on. 0: any free port.", 8765, min=0, max=65535, command=_SERVE),
    "no_open": Setting("Do not open the page in a browser.", default=False, command=_SERVE),
    "read_only": Setting(
        "Do not allow adding, removing or indexing documents through the server.", default=False, safe=True, command=_SERVE
    ),
    "inbox": Setting("Folder for files that are dropped on the page. Default: inbox.", metavar="DIR", command=_SERVE),
    "api_key_file": Setting("File with the API key. Default: a new key in the index folder.", metavar="FILE", command=_SERVE),
    "trust_host": Setting("Another host name of the server.", (), metavar="NAME", command=_SERVE),
    "cors": Setting("Web origin that may use the server.", (), metavar="ORIGIN", command=_SERVE),
    "api_sources": Setting("List the sources behind each answer.", default=True, command=_SERVE),
}
SETTING_NAMES = tuple(SETTINGS)
# Settings that open this machine or send text to others. A folder with a localrag.toml may come from another person.
USER_FILE_ONLY = ("allow_host", "host", "api_key_file", "trust_host", "cors")
PATH_SETTINGS = ("index", "inbox", "api_key_file")  # relative to the folder of the settings file
MODEL_SETTINGS = ("model", "embedder", "reranker")  # likewise, if that file exists
INDEX_BOUND_SETTINGS = {name: setting.index_key for name, setting in SETTINGS.items() if setting.index_key}
_TYPES = {str: "a text", bool: "true or false", int: "a whole number", float: "a number", tuple: "a list of texts"}


def setting_help(name: str) -> str:
    """The help text of a setting."""
    setting = SETTINGS[name]
    return f"{setting.command}: {setting.help[0].lower()}{setting.help[1:]}" if setting.command else setting.help


def allowed_values(name: str) -> str:
    """The allowed values of a setting, in words."""
    setting = SETTINGS[name]
    if setting.choices:
        return f"{', '.join(setting.choices[:-1])} or {setting.choices[-1]}"
    if setting.max is not None:
        return f"{_TYPES[setting.type]} from {setting.min} to {setting.max}"
    return _TYPES[setting.type]


def split_list(value: Any) -> Any:
    """Convert a list or a text `A,B` to a tuple; other values are returned unchanged."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return tuple(value) if isinstance(value, list) else value


@cache
def settings_model() -> "type[BaseModel]":
    """SETTINGS as a pydantic model that checks values. It takes a while to load, so it is built only if something is set."""
    from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, create_model

    fields: dict[str, Any] = {}
    for name, setting in SETTINGS.items():
        kind: Any = setting.type
        if setting.choices:
            kind = Literal[("",) * (setting.default == "") + setting.choices]
        elif kind is tuple:
            kind = Annotated[tuple[str, ...], BeforeValidator(split_list)]
        elif setting.default is None:
            kind = kind | None
        if setting.check:
            kind = Annotated[kind, AfterValidator(setting.check)]
        fields[name] = (kind, Field(setting.default, ge=setting.min, le=setting.max))
    model: type[BaseModel] = create_model("Settings", __config__=ConfigDict(extra="forbid"), **fields)
    return model


Locate = Callable[[str], str]


def of_texts(raw: Mapping[str, str], where: Locate) -> dict[str, Any]:
    """Check settings given as texts, from environment variables or the command line. Raises UsageError."""
    return _validate(raw, where, strict=False)


def parse_file(raw: Mapping[str, Any], where: Locate) -> dict[str, Any]:
    """Check settings given in TOML's types; a quoted number is not a number. Raises UsageError."""
    return _validate(raw, where, strict=True)


def _validate(raw: Mapping[str, Any], where: Locate, *, strict: bool) -> dict[str, Any]:
    from pydantic import ValidationError

    try:
        values = settings_model().model_validate(raw, strict=strict)
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0])
        is_explained = first["type"] == "value_error"  # raised by `Setting.check`
        message = first["msg"].removeprefix("Value error, ") if is_explained else f"{name} cannot be {raw[name]!r}."
        raise UsageError(f"{where(name)}: {message}", f"{name} is {allowed_values(name)}.") from error
    return {name: getattr(values, name) for name in raw}


USER_FILE = "config.toml"
OTHER_ENV_VARIABLES = ("HOME", "API_KEY", "API_KEY_FILE", "CA_FILE", "DEBUG")  # variables that are not settings, like LOCALRAG_TEST_…


@dataclass(frozen=True, slots=True)
class SetValue:
    """A value that was set. `origin` is environment, project or user; `location` is the variable, or the file and line."""

    value: Any
    origin: str
    location: str


def user_file() -> Path:
    """Path of the user's settings file, which may not exist."""
    return config_dir() / USER_FILE


def read_set_values() -> dict[str, SetValue]:
    """The settings of the environment, the nearest localrag.toml and the user's file, in this order of precedence. Raises UsageError."""
    project, user = project_file(Path.cwd()), user_file()
    set_values = read_settings_file(user, "user") if user.is_file() else {}
    if project is not None:
        set_values |= read_settings_file(project, "project")
    return set_values | _read_environment()


def _read_environment() -> dict[str, SetValue]:
    texts = {v.removeprefix(ENV_PREFIX): value for v, value in os.environ.items() if v.startswith(ENV_PREFIX) and value}
    raw = {name.lower(): value for name, value in texts.items() if name.upper() not in OTHER_ENV_VARIABLES and not name.startswith("TEST_")}
    for name in raw:
        if name not in SETTING_NAMES:
            raise UsageError(f"{variable(name)}: there is no setting {name!r}.", f"{suggestion(name)} Or: unset {variable(name)}")
    if not raw:
        return {}
    return {name: SetValue(value, "environment", variable(name)) for name, value in of_texts(raw, variable).items()}


def variable(name: str) -> str:
    """The environment variable of a setting."""
    return ENV_PREFIX + name.upper()


def read_settings_file(path: Path, origin: str) -> dict[str, SetValue]:
    """Read the settings of a file. Raises UsageError, with the line, if it is unreadable or has invalid values."""
    text = read_text(path)
    raw = _parsed(path, text).unwrap()
    if not raw:
        return {}

    def where(name: str) -> str:
        return f"{path}{line_of(text, name)}"

    for name in raw:
        if name not in SETTING_NAMES:
            raise UsageError(f"{where(name)}: there is no setting {name!r}.", suggestion(name))
        if name in USER_FILE_ONLY and origin == "project":
            raise UsageError(
                f"{where(name)}: {name} opens this machine to others, and a folder's settings may come from somebody else.",
                f"Remove that line, and set it in your own file: localrag config set {name} VALUE --user",
            )
    return {name: SetValue(_absolute_path(name, value, path.parent), origin, where(name)) for name, value in parse_file(raw, where).items()}


def _absolute_path(name: str, value: Any, folder: Path) -> Any:
    """Resolve a path in a settings file relative to the file's folder; other values are returned unchanged."""
    if name not in (*PATH_SETTINGS, *MODEL_SETTINGS) or not value:
        return value
    path = folder / Path(value).expanduser()
    return str(path) if name in PATH_SETTINGS or path.exists() else value


def read_text(path: Path) -> str:
    """The text of a settings file. Raises UsageError."""
    try:
        return read_linked_file(path, MAX_FILE_BYTES).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}.", f"Correct it, or move it elsewhere: mv {path} {path}.old") from error


def line_of(text: str, name: str) -> str:
    """The line of a key in a TOML text, as `, line 3`; empty if the key is not found."""
    pattern = re.compile(rf"\s*+(?:\[+\s*)?[\"']?{re.escape(name)}[\"']?\s*[=.\]]")
    number = next((n for n, line in enumerate(text.splitlines(), 1) if pattern.match(line)), 0)
    return f", line {number}" if number else ""


def suggestion(name: str) -> str:
    """A hint with the settings most similar to an unknown name."""
    near = get_close_matches(name.replace("-", "_"), SETTING_NAMES, n=2)
    return f"Did you mean {' or '.join(map(repr, near))}?" if near else "List them: localrag config"


def check_project(path: Path, set_values: Mapping[str, SetValue]) -> None:
    """Raise UsageError for an untrusted localrag.toml that others may change, or that has a risky setting.

    Risky settings name a server or a file for native code, lead out of the folder, undo a precaution of the user, or are free texts, which
    may become part of a prompt.
    """
    if is_trusted(path, set_values):
        return
    hint = "See what it sets: localrag config. If you trust it: localrag config trust"
    if (why := untrusted_reason(path)) and not _is_file_known(path):
        raise UsageError(f"The settings in {path} are not used: the file {why}.", hint)
    first = next(
        name for name, value in risky_settings(path, set_values).items() if not is_trust_known("setting", *_fact(path, name, value))
    )
    setting = set_values[first]
    raise UsageError(f"{setting.location}: {first} = {setting.value} takes effect only if you trust that file.", hint)


def is_trusted(path: Path, set_values: Mapping[str, SetValue]) -> bool:
    """Whether the present settings of a localrag.toml may take effect."""
    if untrusted_reason(path) or _is_file_known(path):
        return _is_file_known(path)
    return all(is_trust_known("setting", *_fact(path, *item)) for item in risky_settings(path, set_values).items())


def trust(path: Path) -> dict[str, Any]:
    """Trust the present content of a localrag.toml; return its risky settings. Raises UsageError."""
    values = risky_settings(path, read_settings_file(path, "project"))
    for item in values.items():
        remember_trust("setting", *_fact(path, *item))
    remember_trust("settings-file", str(path.absolute()), _digest(path))
    return values


def risky_settings(path: Path, set_values: Mapping[str, SetValue]) -> dict[str, Any]:
    """The settings of a localrag.toml that need the user's trust, with their values."""
    folder = path.absolute().parent
    return {name: s.value for name, s in sorted(set_values.items()) if s.origin == "project" and _is_risky(name, s.value, folder)}


def _is_risky(name: str, value: Any, folder: Path) -> bool:
    if name in MODEL_SETTINGS:
        return "/" in value or value.endswith(".gguf")  # a server or a file; a plain name is looked up in the user's list
    if name in PATH_SETTINGS:  # harmless inside the folder of the file
        return bool(value) and not (folder / value).resolve().is_relative_to(folder.resolve())
    setting = SETTINGS[name]
    return bool(value) and not setting.is_bounded if setting.safe is None else value != setting.safe


def _is_file_known(path: Path) -> bool:
    return is_trust_known("settings-file", str(path.absolute()), _digest(path))


def _digest(path: Path) -> str:
    return sha256(read_text(path).encode()).hexdigest()


def _fact(path: Path, name: str, value: Any) -> tuple[str, str, str]:
    return str(path.absolute()), name, json.dumps(value)


def settings_file_to_write(*, user: bool) -> Path:
    """The settings file to write: the user's, or the nearest localrag.toml, or a new one in the working folder."""
    return user_file() if user else project_file(Path.cwd()) or Path.cwd() / PROJECT_FILE


def set_value(path: Path, name: str, text: str) -> Any:
    """Set a value in a file, and return it. Comments are kept. Raises UsageError."""
    import tomlkit

    if name not in SETTING_NAMES:
        raise UsageError(f"There is no setting {name!r}.", suggestion(name))
    if name in USER_FILE_ONLY and path != user_file():
        raise UsageError(
            f"{name} opens this machine to others, so it is set in your own file, not in a folder that others may copy.",
            f"localrag config set {name} {text} --user",
        )
    value = _relative_path(name, of_texts({name: text}, str)[name], path)
    document = _parsed(path, read_text(path) if path.exists() else "")
    keeps_trust = path != user_file() and _is_in_force(path)
    document[name] = list(value) if isinstance(value, tuple) else value
    _save(path, tomlkit.dumps(document))
    if keeps_trust:  # a file that was untrusted stays untrusted
        trust(path)
    return value


def _is_in_force(path: Path) -> bool:
    try:
        return not path.exists() or is_trusted(path, read_settings_file(path, "project"))
    except UsageError:
        return False


def unset_value(path: Path, name: str) -> None:
    """Remove a value from a file, also an unknown one. Raises UsageError if the file does not contain it."""
    import tomlkit

    document = _parsed(path, read_text(path)) if path.exists() else tomlkit.document()
    if name not in document:
        raise UsageError(f"{path} does not set {name}.", "See all settings: localrag config")
    del document[name]
    _save(path, tomlkit.dumps(document))


def _relative_path(name: str, value: Any, path: Path) -> Any:
    """A path given relative to the working folder, for a settings file in `path`: absolute if that is in another folder."""
    if name not in (*PATH_SETTINGS, *MODEL_SETTINGS) or not value:
        return value
    file = Path(value).expanduser()
    if file.is_absolute() or (name in MODEL_SETTINGS and not file.exists()):
        return value
    return str(file.resolve()) if Path.cwd() != path.parent else value


def _parsed(path: Path, text: str) -> "tomlkit.TOMLDocument":
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    try:
        return tomlkit.parse(text)
    except TOMLKitError as error:
        raise UsageError(f"{path} is not valid TOML: {error}.", f"Correct that line in {path}") from error


def _save(path: Path, text: str) -> None:
    """Write a settings file atomically and keep its mode. Raises UsageError for a link in a folder, which may come from somebody else."""
    if path.is_symlink() and path != user_file():
        raise UsageError(f"{path} is a link to {os.path.realpath(path)}.", "Change that file itself, or replace the link by a file.")
    path = path.resolve()
    if not path.exists():
        ensure_private_folder(path.parent)
        path.touch(mode=0o600 if path == user_file().resolve() else 0o666)
    mode = path.stat().st_mode
    write_atomically(path, text.encode())
    path.chmod(mode)


def to_toml(value: Any) -> str:
    """A value in TOML syntax, which is that of JSON for the types of settings."""
    return "none" if value is None else json.dumps(value, ensure_ascii=False)


def as_option_text(value: Any) -> str:
    """A value in the syntax of its option; a list as `A,B`."""
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(value) if isinstance(value, tuple) else "" if value is None else str(value)


def print_settings(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print settings, one per line: name, value, origin."""
    names, values = max(len(r["name"]) for r in rows), max(len(to_toml(r["value"])) for r in rows)
    for row in rows:
        write_line(f"{row['name']:<{names}}  {to_toml(row['value']):<{min(values, 40)}}  {row['where'] or row['origin']}")


COMMANDS_WITHOUT_SETTINGS = ("config", "help")  # must work with invalid settings
# (command, option) pairs where the option has the name of a setting but another meaning.
EXCLUDED_OPTIONS = {
    ("demo", "index"),  # uses its own index
    ("models pull", "allow_host"),  # hosts for downloads, not for document text
    ("worker", "allow_host"),  # hosts whose programs may run here
    ("eval retrieval", "mode"),  # the compared modes
    ("eval qa", "mode"),
}


def option_name(parameter: Any) -> str:
    """The long name of an option with underscores; empty for an argument."""
    if parameter.param_type_name != "option":
        return ""
    name: str = next((o for o in parameter.opts if o.startswith("--")), parameter.opts[0])
    return name.lstrip("-").replace("-", "_")


def apply_settings(context: "typer.Context", words: Sequence[str]) -> None:
    """Use the settings as defaults of the options of the command in `words`, but for help and some. Raises UsageError."""
    options = words[: words.index("--")] if "--" in words else words
    if words[:1] and words[0] not in COMMANDS_WITHOUT_SETTINGS and not {"-h", "--help"} & {*options}:
        set_values = read_set_values()
        if project := project_file(Path.cwd()):
            check_project(project, set_values)
        context.default_map = default_map(context.command, set_values)


def default_map(group: Any, set_values: Mapping[str, SetValue], path: str = "") -> dict[str, Any]:
    """Click's `default_map` of a group: the values that were set, by command and parameter."""
    table: dict[str, Any] = {}
    for name, command in group.commands.items():
        words = f"{path} {name}".strip()
        names = {p: option_name(p) for p in command.params}
        values = {
            p.name: _as_option_value(p, set_values[n].value)
            for p, n in names.items()
            if _is_set(n, set_values) and (words, n) not in EXCLUDED_OPTIONS
        }
        table[name] = values | (default_map(command, set_values, words) if hasattr(command, "commands") else {})
    return table


def _is_set(name: str, set_values: Mapping[str, SetValue]) -> bool:
    """Whether a setting has a value. An empty path or model overrides lower levels, so that the option's default applies."""
    return name in set_values and (
        set_values[name].value != "" or (SETTINGS[name].default == "" and name not in (*PATH_SETTINGS, *MODEL_SETTINGS))
    )


def _as_option_value(parameter: Any, value: Any) -> Any:
    """A value in the form that click expects: a list for a repeatable option, else a text with commas."""
    if parameter.multiple:
        return list(value) if isinstance(value, tuple) else [value]
    return ",".join(value) if isinstance(value, tuple) else value


def refuse_changes(context: "typer.Context", index: Path | None, *, rebuild: bool) -> None:
    """Raise IndexMismatch if settings (not the command line) differ from those the index was built with."""
    sources = {option_name(p): context.get_parameter_source(p.name) for p in context.command.params if p.name}
    set_before = {name for name, source in sources.items() if source and source.name == "DEFAULT_MAP"} & INDEX_BOUND_SETTINGS.keys()
    if not set_before or rebuild:
        return
    from localrag.project import bound_models

    bound, set_values = bound_models(index), read_set_values()
    for name in sorted(set_before, key=list(INDEX_BOUND_SETTINGS).index) if bound else ():
        if (has := conflicting_value(name, set_values[name].value, bound)) is not None:
            raise _mismatch(name, set_values[name], has)


def value_in_index(name: str, bound: Mapping[str, Any]) -> Any:
    """The value of a setting that an index was built with, from its `bound_models`; None if unknown."""
    if name in ("model", "embedder"):
        return bound.get(INDEX_BOUND_SETTINGS[name], {}).get("name")
    return getattr(IndexSettings.from_json(bound.get("settings", {})), INDEX_BOUND_SETTINGS[name])


def conflicting_value(name: str, value: Any, bound: Mapping[str, Any]) -> Any:
    """The value the index was built with if it differs from `value`, else None."""
    from localrag.model_files import find_chat_model, find_embedder

    has = value_in_index(name, bound)
    if name not in ("model", "embedder"):
        return None if value == has else has
    bound_model = bound.get(INDEX_BOUND_SETTINGS[name])
    if bound_model is None:
        return None
    file = find_chat_model(value) if name == "model" else find_embedder(value)
    # A server is asked for its model only when the index is opened.
    same = file.to_json["path"] == bound_model["path"] if file.url else file.fingerprint == bound_model["fingerprint"]
    return None if same else has


def _mismatch(name: str, setting: SetValue, has: Any) -> IndexMismatch:
    flag = name.replace("_", "-")
    if name == "model":
        change = "localrag index PATH --rebuild"
    elif name == "embedder":
        change = "localrag reembed"
    elif isinstance(setting.value, bool):
        change = f"localrag index PATH --{'' if setting.value else 'no-'}{flag}, or all with --rebuild"
    else:
        change = f"localrag index PATH --{flag} {as_option_text(setting.value) or repr('')}, or all with --rebuild"
    is_variable, user = setting.origin == "environment", " --user" * (setting.origin == "user")
    out = f"unset {setting.location}" if is_variable else f"localrag config unset {name}{user}"
    return IndexMismatch(
        f"The index was made with {name} = {to_toml(has)}, but {setting.location} says {to_toml(setting.value)}.",
        f"To change the index: {change}. To keep it as it is: {out}",
    )


def effective_settings(set_values: Mapping[str, SetValue], bound: Mapping[str, Any]) -> list[dict[str, Any]]:
    """All settings with their values and where each comes from, from the values that were set and the `bound_models` of the index.

    `origin` is environment, project, user, index or default; `where` the variable, or the file and line.
    """
    rows = []
    for name in SETTING_NAMES:
        given, has = set_values.get(name), value_in_index(name, bound) if bound and name in INDEX_BOUND_SETTINGS else None
        row = {"name": name, "value": SETTINGS[name].default, "origin": "default", "where": "", "about": setting_help(name)}
        if given is not None:
            row |= {"value": given.value, "origin": given.origin, "where": given.location}
        elif has is not None:
            row |= {"value": has, "origin": "index"}
        rows.append(row)
    return rows
