"""Generated questions about a whole collection: users, their tasks, and a question for each (paper, section 4.1.1).

Without a large model, templates are filled with the subjects that a collection names most: asked for users, tasks and questions, a model of
135 million parameters continued the example of its prompt.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from localrag.errors import UsageError
from localrag.llm.grammar import question_lines, short_lines
from localrag.llm.model import ChatModel
from localrag.llm.prompts import load_prompt
from localrag.records import content_id
from localrag.system.files import write_atomically
from localrag.text.sentences import is_cjk

MAX_LINE_CHARS = 120  # of a user or task
MAX_LINE_TOKENS = 160  # of one line, in any script


@dataclass(frozen=True, slots=True)
class GeneratedQuestion:
    """A question, and the user and task it was made for."""

    user: str
    task: str
    text: str

    @property
    def id(self) -> str:
        """The id of the question; another wording has another id."""
        return content_id(self.text)[:12]


async def generate_questions(about: str, n: int, model: ChatModel) -> list[GeneratedQuestion]:
    """`n` users, `n` tasks of each, `n` questions for each of these: n³ questions, none twice. Raises what `ChatModel.ask` raises."""
    questions: list[GeneratedQuestion] = []
    for user in await _lines(model, "users", n, about=about):
        for task in await _lines(model, "tasks", n, about=about, user=user):
            before = [a.text for a in questions]
            shown = "\n".join(f"- {text}" for text in before[-2 * n :]) or "- nothing yet"
            messages = load_prompt("eval/questions").fill(about=about, user=user, task=task, asked=shown, n=n)
            reply = await model.ask("eval questions", messages, max_tokens=MAX_LINE_TOKENS * n, grammar=question_lines(n, before))
            questions += [GeneratedQuestion(user, task, text) for text in reply.text.splitlines()]
    return questions


async def _lines(model: ChatModel, name: str, n: int, **values: str) -> list[str]:
    messages = load_prompt(f"eval/{name}").fill(n=n, **values)
    reply = await model.ask(f"eval {name}", messages, max_tokens=MAX_LINE_TOKENS * n, grammar=short_lines(n, n, MAX_LINE_CHARS))
    return reply.text.splitlines()


def save_questions(file: Path, about: str, made_by: str, questions: Sequence[GeneratedQuestion]) -> None:
    """Write questions to a file for editing."""
    rows = [{"user": q.user, "task": q.task, "question": q.text} for q in questions]
    write_atomically(file, json.dumps({"about": about, "made_by": made_by, "questions": rows}, ensure_ascii=False, indent=1).encode())


def read_questions(file: Path) -> list[GeneratedQuestion]:
    """The questions of a file: JSON as `save_questions` writes it or a list, or plain text with one a line. Raises UsageError."""
    try:
        text = file.read_text(encoding="utf-8")
        content = json.loads(text) if text.lstrip().startswith(("{", "[")) else text.splitlines()
        rows = content["questions"] if isinstance(content, dict) else content
        asked = [
            GeneratedQuestion("", "", r.strip())
            if isinstance(r, str)
            else GeneratedQuestion(r.get("user", ""), r.get("task", ""), r["question"])
            for r in rows
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{file} contains no readable questions: {error}.", "Write one question a line.") from error
    distinct = list({a.text: a for a in asked if a.text.strip()}.values())
    if not distinct:
        raise UsageError(f"{file} contains no question.", "Write one question a line.")
    return distinct


TEMPLATE_USERS = (
    "a newcomer who has to work with these documents",
    "a researcher who writes about them",
    "a reporter who looks for what matters to the public",
    "an adviser who has to make a recommendation",
    "a teacher who prepares a lesson on them",
    "an archivist who describes them for others",
    "a critic who weighs what they claim",
    "someone who was there and wants to see it told",
)
# Task, its templates in English, and in Chinese.
TEMPLATE_TASKS = (
    (
        "get an overview",
        ("What are the main themes, and where does {} come in?", "What does the whole say about {}?"),
        ("整体上关于{}说了什么？",),
    ),
    (
        "see how things change",
        ("How do matters around {} change over time?", "What brings about the changes around {}?"),
        ("围绕{}的情况如何变化？",),
    ),
    ("find conflicts", ("Which conflicts is {} part of?", "Where do views on {} differ?"), ("{}卷入了哪些冲突？",)),
    ("see connections", ("How is {} connected with everything else?", "Who and what depends on {}?"), ("{}与其他人和事有什么联系？",)),
    ("judge what matters", ("Why does {} matter to the others?", "What would be missing without {}?"), ("{}为什么重要？",)),
    (
        "find causes",
        ("What are the causes of what happens around {}?", "What follows from what is said about {}?"),
        ("与{}有关的事情起因是什么？",),
    ),
    ("compare", ("How do different passages describe {}?", "What sets {} apart from others?"), ("不同的段落如何描述{}？",)),
    (
        "learn about the setting",
        ("What does {} tell about the time and place?", "Which rules and customs shape what happens around {}?"),
        ("{}反映了怎样的时代和地方？",),
    ),
)


def template_questions(n: int, subjects: Sequence[str]) -> list[GeneratedQuestion]:
    """Up to `n` users, tasks and questions each about the subjects, the most frequent first; none twice, fewer with few subjects."""
    by_text: dict[str, GeneratedQuestion] = {}
    for number, user in enumerate(TEMPLATE_USERS[:n]):
        turned = [*subjects[number:], *subjects[:number]]  # each user starts with another subject
        for task, english, chinese in TEMPLATE_TASKS[:n]:
            texts = (f.format(s) for s in turned for f in (chinese if is_cjk(s) else english))
            for text in [t for t in texts if t not in by_text][:n]:
                by_text[text] = GeneratedQuestion(user, task, text)
    return list(by_text.values())
