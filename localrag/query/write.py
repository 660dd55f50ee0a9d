"""What the model is asked while a question is answered, within the question's budget; and the prose it writes over numbered sources."""

from collections.abc import Sequence

from localrag.engine.sampler import GREEDY, Grammar, Sampling
from localrag.errors import ContextTooSmall
from localrag.llm import PERSON
from localrag.llm.grammar import cited_lines
from localrag.llm.project import Project
from localrag.llm.prompts import Message, load_prompt
from localrag.query.cite import Point, Source, points_of
from localrag.query.question import Question

MAX_TOKENS = 1000
MAX_SENTENCES = 8


async def call(
    question: Question,
    project: Project,
    task: str,
    messages: Sequence[Message],
    grammar: Grammar,
    max_tokens: int,
    *,
    streams: bool = False,
) -> str | None:
    """The model's answer, or None where the question's calls or seconds are used up. Raises what `Model.ask` raises."""
    if not question.budget.take():
        return None
    on_text = question.on_text if streams else None
    sampling = Sampling(question.options.temperature, seed=question.options.seed) if question.options.temperature else GREEDY
    try:
        async with question.budget.timeout():
            reply = await project.model.ask(
                task, messages, max_tokens=max_tokens, grammar=grammar, sampling=sampling, priority=PERSON, on_text=on_text
            )
    except TimeoutError:
        question.budget.stopped = True
        return None
    return reply.text


async def write_prose(question: Question, project: Project, sources: Sequence[Source], task: str) -> list[Point]:
    """The model's answer from sources, as cited points; none where its budget is used up. Fewer sources are shown to a small window.

    Asked for the context only, the sources themselves are the points.
    """
    if question.options.context_only:
        return [Point(s.text, s.quotes) for s in sources]
    if not sources:
        return []
    numbered = "\n".join(f"[{n}] {s.text}" for n, s in enumerate(sources, 1))
    messages = load_prompt(f"abstractive/{task}").fill(
        question=question.text,
        sources=numbered,
        language=project.settings.language or "the language of the question",
        form=question.options.response_type or "short, plain sentences",
    )
    most = 1 if question.one_sentence else MAX_SENTENCES
    grammar = cited_lines([f"[{n}]" for n in range(1, len(sources) + 1)], most=most)
    try:
        text = await call(question, project, task, messages, grammar, MAX_TOKENS, streams=True)
    except ContextTooSmall:
        if len(sources) == 1:
            raise
        return await write_prose(question, project, sources[: len(sources) // 2], task)
    return points_of(text or "", sources)
