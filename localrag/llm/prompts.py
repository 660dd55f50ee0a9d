"""Prompts are files: prompts/<style>/<name>.md, and a user's own in their place. Find them, check their placeholders, fill them, hash them.

A file is a conversation: a line `## system`, `## user` or `## assistant` starts a message, `$name` is a placeholder. What comes before
the first heading is for the reader. Fixed text stands first and what differs from call to call last, so that calls share a prefix.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from hashlib import sha256
from pathlib import Path
from string import Template

from localrag.config import OwnPrompts
from localrag.errors import LocalragError, UsageError
from localrag.records import content_id
from localrag.system.files import config_dir, data_path
from localrag.system.trust import is_known, remember

_HEADING = re.compile(r"^## (system|user|assistant)[ \t]*\n", re.MULTILINE)

Message = dict[str, str]
MOST_BYTES = 1 << 20  # of a prompt file
STYLES = ("abstractive", "extractive", "tune")  # folders of prompts that users may write; those that measure are the same for everybody


@dataclass(frozen=True, slots=True)
class Prompt:
    """A conversation with placeholders; `hash` changes whenever its wording does."""

    name: str
    messages: tuple[tuple[str, str], ...]

    @property
    def hash(self) -> str:
        """Identifies the wording."""
        return content_id(*(part for message in self.messages for part in message))

    def fill(self, **values: object) -> list[Message]:
        """The messages with every placeholder filled. Raises LocalragError for a placeholder without a value or the reverse."""
        wanted = {n for _, text in self.messages for n in Template(text).get_identifiers()}
        if wanted != values.keys():
            odd = ", ".join(sorted(wanted ^ values.keys()))
            raise LocalragError(f"The prompt {self.name} and its values do not fit: {odd}.", "Correct the placeholders in that file.")
        return [{"role": role, "content": Template(text).substitute(values)} for role, text in self.messages]


def load_prompt(name: str, own: OwnPrompts = ()) -> Prompt:
    """The prompt of that name, e.g. `extractive/entities`: the user's own where there is one, else the shipped one."""
    return parse_prompt(name, next((text for known, text, _ in own if known == name), None) or shipped_prompt(name))


def own_hashes(own: OwnPrompts, *names: str) -> list[str]:
    """The hashes of those of these prompts that are the user's own, for recipes that do not hold the shipped ones'."""
    return [load_prompt(name, own).hash for name in names if any(known == name for known, *_ in own)]


def parse_prompt(name: str, text: str) -> Prompt:
    """A prompt from the text of its file. Raises LocalragError where it has no user message at its end."""
    parts = _HEADING.split(text)[1:]
    messages = tuple((role, body.strip()) for role, body in zip(parts[::2], parts[1::2], strict=True))
    if not messages or messages[-1][0] != "user":
        raise LocalragError(f"The prompt {name} must end with a `## user` message.", "Correct that file.")
    return Prompt(name, messages)


@cache
def shipped_prompt(name: str) -> str:
    """The text of a prompt as it came with localrag."""
    path = data_path("prompts") / f"{name}.md"
    if not path.is_file():
        raise LocalragError(f"The prompt {name} is missing: {path}", "Reinstall localrag.")
    return path.read_text(encoding="utf-8")


@cache
def prompt_names() -> tuple[str, ...]:
    """The prompts that users may write their own of."""
    return tuple(f"{style}/{f.stem}" for style in STYLES for f in sorted((data_path("prompts") / style).glob("*.md")))


def read_prompts(folders: Iterable[Path]) -> OwnPrompts:
    """The prompts that a user wrote, in STYLE/NAME.md below folders of which the first counts most; other folders' files are let be.

    A folder may come from somebody else, so files that the user has never trusted are skipped (see `untrusted_prompts`). Raises UsageError
    for a file that has no shipped counterpart, lacks one of its placeholders or has another, or was changed since it was trusted.
    """
    found: dict[str, tuple[str, str, str]] = {}
    for path in prompt_files(folders):
        name = prompt_name(path)
        if is_trusted(path):
            remember("prompt", str(path.absolute()))  # from now on a change is an error, also if the text was trusted at another path
            found.setdefault(name, (name, check_prompt(name, path), str(path)))
        elif is_known("prompt", str(path.absolute())):
            check_prompt(name, path)
            raise UsageError(
                f"{path} was changed since you trusted it.",
                f"See what it says: localrag prompts diff {name}. To use it: localrag prompts trust {name}",
            )
    return tuple(found[name] for name in sorted(found))


def untrusted_prompts(folders: Iterable[Path]) -> list[Path]:
    """The files that would replace shipped prompts if the user trusted them."""
    return [path for path in prompt_files(folders) if not is_trusted(path)]


def is_trusted(path: Path) -> bool:
    """Whether a prompt file may be used: it is in the user's own folder, or its text is the shipped one or one that the user trusted."""
    if path.is_relative_to(config_dir() / "prompts"):
        return True
    text = _plain_text(path)
    return text is not None and (is_known("prompt-text", _digest(text)) or (prompt_name(path), text) in _shipped())


def trust_prompt(path: Path) -> None:
    """Allow a file to replace a shipped prompt until its text changes. Raises UsageError where it cannot replace one."""
    text = check_prompt(prompt_name(path), path)
    remember("prompt", str(path.absolute()))
    remember("prompt-text", _digest(text))


def prompt_name(path: Path) -> str:
    """The name of the prompt that a file replaces."""
    return f"{path.parent.name}/{path.stem}"


def prompt_files(folders: Iterable[Path]) -> Iterator[Path]:
    """The files in folders that have the place of a prompt."""
    yield from (f for folder in folders for style in STYLES for f in sorted((folder / style).glob("*.md")))


def _plain_text(path: Path) -> str | None:
    """The text of a file; None if it is no regular file, no UTF-8 or larger than MOST_BYTES: a folder may hold anything under any name."""
    try:
        if not path.is_file() or path.stat().st_size > MOST_BYTES:
            return None
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


@cache
def _shipped() -> frozenset[tuple[str, str]]:
    return frozenset((name, shipped_prompt(name)) for name in prompt_names())


def check_prompt(name: str, path: Path) -> str:
    """The text of a user's own prompt. Raises UsageError where it cannot stand in for the shipped one."""
    if name not in prompt_names():
        raise UsageError(f"{path} stands in for no prompt.", meant(name))
    hint = f"See what differs: localrag prompts diff {name}"
    try:
        text = path.read_text(encoding="utf-8")
        own = parse_prompt(name, text)
        has, needs = (_placeholders(prompt) for prompt in (own, load_prompt(name)))
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {error}", hint) from error
    except LocalragError as error:
        raise UsageError(f"{path}: {error}", hint) from error
    problems = [f"${field} is missing" for field in sorted(needs - has)] + [f"there is no ${field}" for field in sorted(has - needs)]
    if problems:
        raise UsageError(f"{path}: {', '.join(problems)}.", hint)
    return text


def meant(name: str) -> str:
    """What to try in place of a name that no prompt has."""
    near = get_close_matches(name, prompt_names(), n=1)
    return f"Did you mean {near[0]}?" if near else "Those there are: localrag prompts list"


def _placeholders(prompt: Prompt) -> set[str]:
    """Raises ValueError for a `$` that begins none; one that is meant as such is written `$$`."""
    for _, text in prompt.messages:
        if not Template(text).is_valid():
            raise ValueError("a $ that begins no placeholder; write it as $$")
    return {n for _, text in prompt.messages for n in Template(text).get_identifiers()}
