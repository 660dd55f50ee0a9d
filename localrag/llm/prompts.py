"""Prompt files and their overrides; the domain description of a corpus.

A prompt is a file, prompts/<style>/<name>.md, or a user's file in its place. It is a conversation: a line `## system`, `## user` or `##
assistant` starts a message, `$name` is a placeholder; text before the first heading is a comment. Fixed text comes first and variable text
last, so that calls share a prefix. `domain.toml` in the index folder, written by `localrag tune` and editable, may name entity types,
language, persona and rating criteria, and hold extraction examples that replace those of the prompts.
"""

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from hashlib import sha256
from pathlib import Path
from string import Template
from typing import Any

import tomlkit

from localrag.errors import LocalragError, UsageError
from localrag.records import content_id
from localrag.settings import Domain, Example, PromptOverrides
from localrag.system.files import config_dir, read_linked_file, read_regular_file, shipped_data_path, write_atomically
from localrag.system.installation import reinstall_hint
from localrag.system.trust import is_trust_known, remember_trust

_HEADING = re.compile(r"^## (system|user|assistant)[ \t]*\n", re.MULTILINE)

Message = dict[str, str]
MAX_PROMPT_BYTES = 1 << 20
OPTIONAL_PLACEHOLDERS = frozenset({"shape"})  # a user's prompt may describe the JSON object in its own words
PROMPT_STYLES = ("abstractive", "extractive", "tune")  # folders that users may override; prompts of evaluations are fixed


@dataclass(frozen=True, slots=True)
class Prompt:
    """A conversation with placeholders; `hash` identifies its wording."""

    name: str
    messages: tuple[tuple[str, str], ...]

    @property
    def hash(self) -> str:
        """A hash of the wording."""
        return content_id(*(part for message in self.messages for part in message))

    def fill(self, **values: object) -> list[Message]:
        """The messages with every placeholder filled. Raises LocalragError if placeholders and values differ."""
        wanted = {n for _, text in self.messages for n in Template(text).get_identifiers()}
        if odd_names := (wanted ^ values.keys()) - (OPTIONAL_PLACEHOLDERS - wanted):
            odd = ", ".join(sorted(odd_names))
            raise LocalragError(f"The prompt {self.name} and its values do not fit: {odd}.", "Correct the placeholders in that file.")
        return [{"role": role, "content": Template(text).substitute(values)} for role, text in self.messages]


def load_prompt(name: str, overrides: PromptOverrides = ()) -> Prompt:
    """The prompt with this name, e.g. `extractive/entities`: the user's override, else the shipped one."""
    return parse_prompt(name, next((text for override_name, text, _ in overrides if override_name == name), None) or shipped_prompt(name))


def override_hashes(overrides: PromptOverrides, *names: str) -> list[str]:
    """The hashes of those of these prompts that the user overrides, for config hashes without the shipped prompts."""
    return [load_prompt(name, overrides).hash for name in names if any(override_name == name for override_name, *_ in overrides)]


def parse_prompt(name: str, text: str) -> Prompt:
    """Parse a prompt file. Raises LocalragError if it does not end with a user message."""
    parts = _HEADING.split(text)[1:]
    messages = tuple((role, body.strip()) for role, body in zip(parts[::2], parts[1::2], strict=True))
    if not messages or messages[-1][0] != "user":
        raise LocalragError(f"The prompt {name} must end with a `## user` message.", "Correct that file.")
    return Prompt(name, messages)


@cache
def shipped_prompt(name: str) -> str:
    """The text of a prompt shipped with localrag."""
    path = shipped_data_path("prompts") / f"{name}.md"
    if not path.is_file():
        raise LocalragError(f"The prompt {name} is missing: {path}", reinstall_hint())
    return path.read_text(encoding="utf-8")


@cache
def prompt_names() -> tuple[str, ...]:
    """Names of the prompts that users may override."""
    return tuple(f"{style}/{f.stem}" for style in PROMPT_STYLES for f in sorted((shipped_data_path("prompts") / style).glob("*.md")))


def load_overrides(folders: Iterable[Path]) -> PromptOverrides:
    """The user's prompts, in STYLE/NAME.md below folders, the first of which has precedence; other files are ignored.

    A folder may come from somebody else, so files that the user has never trusted are skipped (see `untrusted_prompts`). Raises UsageError
    for a file without a shipped counterpart, with other placeholders, or changed since it was trusted.
    """
    overrides: dict[str, tuple[str, str, str]] = {}
    for path in prompt_files(folders):
        name = prompt_name(path)
        if is_trusted(path):
            remember_trust("prompt", str(path.absolute()))  # a later change is an error, also if the text was trusted at another path
            overrides.setdefault(name, (name, load_override(name, path), str(path)))
        elif is_trust_known("prompt", str(path.absolute())):
            load_override(name, path)
            raise UsageError(
                f"{path} was changed since you trusted it.",
                f"Read it. To use it: localrag prompts trust {name}",
            )
    return tuple(overrides[name] for name in sorted(overrides))


def untrusted_prompts(folders: Iterable[Path]) -> list[Path]:
    """The files that would override shipped prompts if the user trusted them."""
    return [path for path in prompt_files(folders) if not is_trusted(path)]


def is_trusted(path: Path) -> bool:
    """Whether a prompt file may be used: it is in the user's own folder, or its text is the shipped one or a trusted one."""
    if path.is_relative_to(config_dir() / "prompts"):
        return True
    text = _plain_text(path)
    return text is not None and (is_trust_known("prompt-text", _digest(text)) or (prompt_name(path), text) in _shipped())


def trust_prompt(path: Path) -> None:
    """Allow a file to override a shipped prompt until its text changes. Raises UsageError if it cannot."""
    text = load_override(prompt_name(path), path)
    remember_trust("prompt", str(path.absolute()))
    remember_trust("prompt-text", _digest(text))


def prompt_name(path: Path) -> str:
    """The name of the prompt that a file overrides."""
    return f"{path.parent.name}/{path.stem}"


def prompt_files(folders: Iterable[Path]) -> Iterator[Path]:
    """The files in folders at the path of a prompt."""
    yield from (f for folder in folders for style in PROMPT_STYLES for f in sorted((folder / style).glob("*.md")))


def _plain_text(path: Path) -> str | None:
    """The text of a file; None if it is not a regular file, not UTF-8 or larger than MAX_PROMPT_BYTES."""
    try:
        return read_user_prompt(path)
    except (OSError, UnicodeDecodeError):
        return None


def read_user_prompt(path: Path) -> str:
    """The text of a user's file, or of one that their link leads to. Raises OSError, UnicodeDecodeError."""
    return read_linked_file(path, MAX_PROMPT_BYTES).decode("utf-8")


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


@cache
def _shipped() -> frozenset[tuple[str, str]]:
    return frozenset((name, shipped_prompt(name)) for name in prompt_names())


def load_override(name: str, path: Path) -> str:
    """The text of a user's prompt. Raises UsageError if it cannot replace the shipped one."""
    if name not in prompt_names():
        raise UsageError(f"{path} replaces no prompt.", suggestion(name))
    hint = f"Correct it, or delete it and begin with the bundled one: localrag prompts edit {name}"
    try:
        text = read_user_prompt(path)
        override = parse_prompt(name, text)
        has, needs = (_placeholders(prompt) for prompt in (override, load_prompt(name)))
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {error}", hint) from error
    except LocalragError as error:
        raise UsageError(f"{path}: {error}", hint) from error
    missing = needs - has - OPTIONAL_PLACEHOLDERS
    problems = [f"${field} is missing" for field in sorted(missing)] + [f"there is no ${field}" for field in sorted(has - needs)]
    if problems:
        raise UsageError(f"{path}: {', '.join(problems)}.", hint)
    return text


def suggestion(name: str) -> str:
    """A hint for an unknown prompt name."""
    matches = get_close_matches(name, prompt_names(), n=1)
    return f"Did you mean {matches[0]}?" if matches else "List them: localrag prompts list"


def _placeholders(prompt: Prompt) -> set[str]:
    """The placeholders of a prompt. Raises ValueError for a `$` that starts none; a literal one is written `$$`."""
    for _, text in prompt.messages:
        if not Template(text).is_valid():
            raise ValueError("a $ that begins no placeholder; write it as $$")
    return {n for _, text in prompt.messages for n in Template(text).get_identifiers()}


DOMAIN_FILE = "domain.toml"
_DOMAIN_FILE_HEADER = """# What localrag knows about these documents in advance. Edit it as you like, then run `localrag index` again.
# The state before the last tuning is in domain.toml.before. Start again: localrag tune.
"""


def read_domain(folder: Path) -> Domain:
    """The domain of an index folder, empty without a file. Raises UsageError for an unreadable file."""
    path = folder / DOMAIN_FILE
    try:
        return _stored_domain(path)
    except FileNotFoundError:
        return Domain()
    except (OSError, TypeError, KeyError, ValueError, AttributeError, RecursionError) as error:
        raise UsageError(f"{path} cannot be read: {error}", "Correct it, or make it again: localrag tune") from error


def _stored_domain(path: Path) -> Domain:
    return _domain(tomllib.loads(read_regular_file(path, MAX_PROMPT_BYTES).decode("utf-8")))


def _domain(values: dict[str, Any]) -> Domain:
    allowed_keys = {"about", "persona", "language", "rating", "entity_types", "examples"}
    unknown = {*values} - allowed_keys | {key for e in values.get("examples", ()) for key in e} - {"text", "entities", "relationships"}
    if unknown:
        raise ValueError(f"unknown {', '.join(sorted(unknown))}")
    examples = tuple(
        Example(e["text"], tuple((n, t) for n, t in e["entities"]), tuple((a, b) for a, b in e.get("relationships", ())))
        for e in values.get("examples", ())
    )
    types = tuple(str(t) for t in values.get("entity_types", ()))
    for example in examples:
        for name, kind in example.entities:
            if types and kind not in types:
                raise ValueError(f"the example's entity {name!r} has the type {kind!r}, which is not among entity_types")
    texts = {key: " ".join(str(values.get(key, "")).split()) for key in ("about", "persona", "language", "rating")}
    return Domain(texts["about"], texts["persona"], texts["language"], texts["rating"], types, examples)


def write_domain(folder: Path, domain: Domain) -> None:
    """Write a domain file and keep the previous one."""
    path = folder / DOMAIN_FILE
    if path.exists():
        path.replace(_previous_file(folder))
    write_atomically(path, _domain_bytes(domain))


def update_domain_files(folder: Path, change: Callable[[Domain], Domain]) -> bool:
    """Apply `change` to the current and the previous domain file; whether anything changed. Unreadable files are deleted."""
    changed = False
    for path in (folder / DOMAIN_FILE, _previous_file(folder)):
        try:
            domain = _stored_domain(path)
        except FileNotFoundError:
            continue
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            with suppress(OSError):  # a folder of that name belongs to the user
                path.unlink()
            continue
        if (new := change(domain)) != domain:
            write_atomically(path, _domain_bytes(new))
            changed = True
    return changed


def _domain_bytes(domain: Domain) -> bytes:
    examples = [
        {"text": e.text, "entities": [list(p) for p in e.entities], "relationships": [list(p) for p in e.relationships]}
        for e in domain.examples
    ]
    values = {
        "about": domain.description,
        "persona": domain.persona,
        "language": domain.language,
        "rating": domain.rating_criteria,
        "entity_types": list(domain.entity_types),
        "examples": examples,
    }
    return (_DOMAIN_FILE_HEADER + tomlkit.dumps(values)).encode()


def _previous_file(folder: Path) -> Path:
    return folder / f"{DOMAIN_FILE}.before"


def with_domain(prompt: Prompt, domain: Domain, task: str) -> Prompt:
    """The prompt with the domain's description in its system message and the domain's examples of `task`, if any, in place of its own."""
    messages = list(prompt.messages)
    facts = [f"The texts are about {domain.description}."] * bool(domain.description) + [f"You are {domain.persona}."] * bool(
        domain.persona
    )
    facts += [f"What matters: {domain.rating_criteria}."] * bool(domain.rating_criteria and task == "report")
    if facts and messages[0][0] == "system":
        messages[0] = ("system", " ".join([messages[0][1], *(s.replace("$", "$$") for s in facts)]))
    examples = [pair for e in domain.examples if (pair := _turns(e, task)) is not None]
    if examples:
        messages = [m for m in messages if m[0] == "system"] + [turn for pair in examples for turn in pair] + [messages[-1]]
    return Prompt(prompt.name, tuple(messages))


def _turns(example: Example, task: str) -> tuple[tuple[str, str], tuple[str, str]] | None:
    import json

    def line(value: Any) -> str:
        return json.dumps(value, ensure_ascii=False).replace("$", "$$")

    text = example.text.replace("$", "$$")
    if task == "entities" and example.entities:
        return ("user", f"Text:\n{text}"), ("assistant", "\n".join(line({"name": n, "type": t}) for n, t in example.entities))
    if task == "relationships" and example.relationships:
        names = ", ".join(n for n, _ in example.entities).replace("$", "$$")
        return ("user", f"Text:\n{text}\n\nEntities: {names}"), ("assistant", "\n".join(line(list(p)) for p in example.relationships))
    return None
