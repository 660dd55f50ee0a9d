"""Prompts are files: prompts/<style>/<name>.md. Find them, check their placeholders, fill them, hash them.

A file is a conversation: a line `## system`, `## user` or `## assistant` starts a message, `$name` is a placeholder. What comes before
the first heading is for the reader. Fixed text stands first and what differs from call to call last, so that calls share a prefix.
"""

import re
from dataclasses import dataclass
from functools import cache
from string import Template

from localrag.errors import LocalragError
from localrag.records import content_id
from localrag.system.files import data_path

_HEADING = re.compile(r"^## (system|user|assistant)[ \t]*\n", re.MULTILINE)

Message = dict[str, str]


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


def load_prompt(name: str) -> Prompt:
    """The prompt of that name, e.g. `extractive/entities`."""
    return parse_prompt(name, _read(name))


def parse_prompt(name: str, text: str) -> Prompt:
    """A prompt from the text of its file. Raises LocalragError where it has no user message at its end."""
    parts = _HEADING.split(text)[1:]
    messages = tuple((role, body.strip()) for role, body in zip(parts[::2], parts[1::2], strict=True))
    if not messages or messages[-1][0] != "user":
        raise LocalragError(f"The prompt {name} must end with a `## user` message.", "Correct that file.")
    return Prompt(name, messages)


@cache
def _read(name: str) -> str:
    path = data_path("prompts") / f"{name}.md"
    if not path.is_file():
        raise LocalragError(f"The prompt {name} is missing: {path}", "Reinstall localrag.")
    return path.read_text(encoding="utf-8")
