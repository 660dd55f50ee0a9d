"""Free prose over numbered sources, for models that can write it: every sentence ends in citations chosen among the sources."""

from collections.abc import Sequence

from localrag.llm import PERSON
from localrag.llm.grammar import cited_lines
from localrag.llm.project import Project
from localrag.llm.prompts import load_prompt
from localrag.query.cite import Point, points_of
from localrag.query.context import Question
from localrag.records import Quote

MAX_TOKENS = 1000
MAX_SENTENCES = 8


async def write_prose(question: Question, project: Project, sources: Sequence[tuple[str, tuple[Quote, ...]]], task: str) -> list[Point]:
    """The model's answer from (text, passages) sources, as cited points. Raises what `Model.ask` raises."""
    numbered = "\n".join(f"[{n}] {text}" for n, (text, _) in enumerate(sources, 1))
    messages = load_prompt(f"abstractive/{task}").fill(
        question=question.text, sources=numbered, language=project.settings.language or "the language of the question"
    )
    grammar = cited_lines([f"[{n}]" for n in range(1, len(sources) + 1)], most=MAX_SENTENCES)
    reply = await project.model.ask(task, messages, max_tokens=MAX_TOKENS, grammar=grammar, priority=PERSON, on_text=question.on_text)
    return points_of(reply.text, [quotes for _, quotes in sources])
