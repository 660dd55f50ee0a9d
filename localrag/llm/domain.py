"""What is known about a corpus beforehand: `domain.toml` in the index folder, written by `localrag tune` and made to be edited.

It may name the entity types, the language, who is asking (persona) and what matters to them, and hold examples of extraction that take
the place of those in the prompts. Its absence changes nothing.
"""

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tomlkit

from localrag.config import Domain, Example
from localrag.errors import UsageError
from localrag.llm.prompts import Prompt
from localrag.system.files import replace_file

FILE_NAME = "domain.toml"
_HEAD = """# What localrag knows about these documents beforehand. Edit it freely, then run `localrag index` again.
# Take it back: localrag tune --undo. Start anew: localrag tune.
"""


def read_domain(folder: Path) -> Domain:
    """The domain of an index folder, empty where there is no file. Raises UsageError for a file that cannot be read."""
    path = folder / FILE_NAME
    if not path.exists():
        return Domain()
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
        return _domain(values)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, TypeError, KeyError, ValueError, AttributeError) as error:
        raise UsageError(f"{path} cannot be read: {error}", "Correct it, or take it back: localrag tune --undo") from error


def _domain(values: dict[str, Any]) -> Domain:
    known = {"about", "persona", "language", "rating", "entity_types", "examples"}
    odd = {*values} - known | {key for e in values.get("examples", ()) for key in e} - {"text", "entities", "relationships"}
    if odd:
        raise ValueError(f"unknown {', '.join(sorted(odd))}")
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
    return Domain(**texts, entity_types=types, examples=examples)


def write_domain(folder: Path, domain: Domain) -> None:
    """Write a domain; the one before is kept beside it, for `undo_domain`."""
    path = folder / FILE_NAME
    if path.exists():
        path.replace(_before(folder))
    replace_file(path, _written(domain))


def change_domains(folder: Path, change: Callable[[Domain], Domain]) -> bool:
    """Change the domain, and the one before it, where `change` gives another; whether it did so. One that cannot be read is deleted."""
    changed = False
    for path in (folder / FILE_NAME, _before(folder)):
        try:
            domain = _domain(tomllib.loads(path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            continue
        except (ValueError, TypeError, KeyError, AttributeError):
            path.unlink()
            continue
        if (new := change(domain)) != domain:
            replace_file(path, _written(new))
            changed = True
    return changed


def _written(domain: Domain) -> bytes:
    examples = [
        {"text": e.text, "entities": [list(p) for p in e.entities], "relationships": [list(p) for p in e.relationships]}
        for e in domain.examples
    ]
    values = {
        "about": domain.about,
        "persona": domain.persona,
        "language": domain.language,
        "rating": domain.rating,
        "entity_types": list(domain.entity_types),
        "examples": examples,
    }
    return (_HEAD + tomlkit.dumps(values)).encode()


def undo_domain(folder: Path) -> bool:
    """Take back the last `write_domain`: the domain before it, or none. False where there is nothing to take back."""
    path, before = folder / FILE_NAME, _before(folder)
    if before.exists():
        before.replace(path)
        return True
    existed = path.exists()
    path.unlink(missing_ok=True)
    return existed


def _before(folder: Path) -> Path:
    return folder / f"{FILE_NAME}.before"


def with_domain(prompt: Prompt, domain: Domain, task: str) -> Prompt:
    """The prompt with what the domain says in its system message and, if the domain has examples of `task`, those in place of its own."""
    messages = list(prompt.messages)
    said = [f"The texts are about {domain.about}."] * bool(domain.about) + [f"You are {domain.persona}."] * bool(domain.persona)
    said += [f"What matters: {domain.rating}."] * bool(domain.rating and task == "report")
    if said and messages[0][0] == "system":
        messages[0] = ("system", " ".join([messages[0][1], *(s.replace("$", "$$") for s in said)]))
    shown = [pair for e in domain.examples if (pair := _turns(e, task)) is not None]
    if shown:
        messages = [m for m in messages if m[0] == "system"] + [turn for pair in shown for turn in pair] + [messages[-1]]
    return Prompt(prompt.name, tuple(messages))


def _turns(example: Example, task: str) -> tuple[tuple[str, str], tuple[str, str]] | None:
    """An example as question and answer of the extractive prompts; None where it has nothing for the task."""
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
