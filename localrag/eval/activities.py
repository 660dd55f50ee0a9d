"""Questions that make sense of a whole collection: users, the tasks of each, and what they would ask for each (paper, section 4.1.1)."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from localrag.errors import UsageError
from localrag.llm.grammar import question_lines, short_lines
from localrag.llm.model import Model
from localrag.llm.prompts import load_prompt
from localrag.records import content_id

LONGEST = 120  # characters of a user or task
TOKENS = 160  # of one line, in any script


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, and the user and task it was made for."""

    user: str
    task: str
    text: str

    @property
    def id(self) -> str:
        """Names the question; another wording is another question."""
        return content_id(self.text)[:12]


async def make_questions(about: str, n: int, model: Model) -> list[Asked]:
    """`n` users, `n` tasks of each, `n` questions for each of these: n³ questions, none twice. Raises what `Model.ask` raises."""
    found: list[Asked] = []
    for user in await _lines(model, "users", n, about=about):
        for task in await _lines(model, "tasks", n, about=about, user=user):
            before = [a.text for a in found]
            shown = "\n".join(f"- {text}" for text in before[-2 * n :]) or "- nothing yet"
            messages = load_prompt("eval/questions").fill(about=about, user=user, task=task, asked=shown, n=n)
            reply = await model.ask("eval questions", messages, max_tokens=TOKENS * n, grammar=question_lines(n, before))
            found += [Asked(user, task, text) for text in reply.text.splitlines()]
    return found


async def _lines(model: Model, name: str, n: int, **values: str) -> list[str]:
    messages = load_prompt(f"eval/{name}").fill(n=n, **values)
    reply = await model.ask(f"eval {name}", messages, max_tokens=TOKENS * n, grammar=short_lines(n, n, LONGEST))
    return reply.text.splitlines()


def save_questions(file: Path, about: str, made_by: str, questions: Sequence[Asked]) -> None:
    """Write questions where people can edit them."""
    rows = [{"user": q.user, "task": q.task, "question": q.text} for q in questions]
    file.write_text(json.dumps({"about": about, "made_by": made_by, "questions": rows}, ensure_ascii=False, indent=1), encoding="utf-8")


def load_questions(file: Path) -> list[Asked]:
    """The questions of a file: JSON as `save_questions` writes it or a list, or plain text with one a line. Raises UsageError."""
    try:
        text = file.read_text(encoding="utf-8")
        found = json.loads(text) if text.lstrip().startswith(("{", "[")) else text.splitlines()
        rows = found["questions"] if isinstance(found, dict) else found
        asked = [
            Asked("", "", r.strip()) if isinstance(r, str) else Asked(r.get("user", ""), r.get("task", ""), r["question"]) for r in rows
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{file} holds no questions that can be read: {error}.", "One question a line will do.") from error
    kept = list({a.text: a for a in asked if a.text.strip()}.values())
    if not kept:
        raise UsageError(f"{file} holds no question.", "One question a line will do.")
    return kept
