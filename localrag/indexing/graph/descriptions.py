"""Descriptions: several of one entity or relationship are joined to one (paper, section 3.1.3)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from types import MappingProxyType

from localrag import records
from localrag.errors import ContextTooSmall
from localrag.indexing.tasks import Task, TaskContext, WorkerPool
from localrag.llm.budgets import MIN_BUDGETS, TokenBudgets, TokenDensity, less_than
from localrag.llm.grammar import single_line
from localrag.llm.model import CALL_ERRORS, CURRENT_SUBJECT, ChatModel, bounded_map, end_at_sentence
from localrag.llm.prompts import load_prompt
from localrag.records import Entity, Failure, Graph, Quote, Relationship
from localrag.settings import PromptOverrides
from localrag.text.quotes import informativeness
from localrag.text.sentences import collapse_whitespace, is_cjk

SENTENCES_PER_DESCRIPTION = 2  # of an extractive description
MAX_JOINED_CHARS = 400  # of several descriptions, that are joined as they are, without the model


@dataclass(frozen=True)
class SummarizeDescriptions(Task[str]):
    """Summarises several descriptions of an entity or relationship. Raises CALL_ERRORS."""

    subject: str
    descriptions: tuple[str, ...]
    budgets: TokenBudgets
    llm_task = "describe"

    async def run(self, tools: TaskContext) -> str:
        """The summary."""
        CURRENT_SUBJECT.set(records.description_subject(self.subject, self.descriptions))
        return await summarize(self.subject, self.descriptions, tools.model, self.budgets, tools.settings.prompts)


QuotesOf = Callable[[str], Sequence[Quote]]  # the sentences about an entity or a relationship, by its id


async def describe_graph(
    graph: Graph,
    of_entity: QuotesOf,
    of_relationship: QuotesOf,
    pool: WorkerPool | None,
    style: str,
    budgets: TokenBudgets = MIN_BUDGETS,
    on_progress: Callable[[int, int], None] = lambda *_: None,
    names: Mapping[str, str] = MappingProxyType({}),
) -> tuple[Graph, list[Failure]]:
    """Fill in every description of the graph; returns the failures too, whose items keep their longest description.

    Extractive: the most informative sentences, without model and pool. Abstractive: summaries. `on_progress` is called with the number
    done and the total. `names`: of ends of relationships that are not among the graph's entities.
    """
    failed: list[Failure] = []
    done = count()

    async def summary(key: str, subject: str, descriptions: Sequence[str]) -> str:
        several = tuple(sorted(set(descriptions)))
        try:
            if (joined := join_descriptions(several)) and _latin_chars(joined) <= MAX_JOINED_CHARS:
                return joined
            return await pool.run(SummarizeDescriptions(subject, several, budgets)) if pool and len(several) > 1 else "".join(several)
        except CALL_ERRORS as error:  # keeps one description and completes the graph
            failed.append(Failure("description", key, str(error), error.kind))
            return max(descriptions, key=len)
        finally:
            on_progress(next(done) + 1, len(graph.entities) + len(graph.relationships))

    if style == "extractive":
        # Only other programs' extractions have descriptions here: they are kept.
        entities = [_longest(e) or _join(of_entity(e.id)) for e in graph.entities]
        relationships = [_longest(r) or _join(_best(of_relationship(r.id))) for r in graph.relationships]
    else:
        names = {**names, **{e.id: e.name for e in graph.entities}}
        jobs = [(e.id, e.name, e.descriptions) for e in graph.entities]
        jobs += [(r.id, f"{names[r.source_id]} and {names[r.target_id]}", r.descriptions) for r in graph.relationships]
        texts = await bounded_map(summary(*job) for job in jobs)
        n = len(graph.entities)
        entities = [d or _join(of_entity(e.id)) for e, d in zip(graph.entities, texts[:n], strict=True)]
        relationships = [d or _join(_best(of_relationship(r.id))) for r, d in zip(graph.relationships, texts[n:], strict=True)]
    described = replace(
        graph,
        entities=tuple(replace(e, description=d) for e, d in zip(graph.entities, entities, strict=True)),
        relationships=tuple(replace(r, description=d) for r, d in zip(graph.relationships, relationships, strict=True)),
    )
    return described, sorted(failed, key=lambda f: f.subject)


def join_descriptions(descriptions: Sequence[str]) -> str:
    """The descriptions as sentences one after the other, without those that are part of another one."""
    folded = [d.rstrip(" .。").casefold() for d in descriptions]
    parts = {n for n, text in enumerate(folded) for m, other in enumerate(folded) if m != n and text in other and (m < n or text != other)}
    distinct = [d for n, d in enumerate(descriptions) if n not in parts]
    if len(distinct) <= 1:
        return "".join(distinct)
    end, gap = ("。", "") if is_cjk("".join(distinct)) else (".", " ")
    return gap.join(d if d.rstrip().endswith((".", "!", "?", "。", "！", "？")) else f"{d.rstrip()}{end}" for d in distinct)


def _latin_chars(text: str) -> int:
    """The length of a text, in which a character of Chinese, Japanese or Korean counts as much as three Latin ones."""
    return len(text) * (3 if is_cjk(text) else 1)


async def summarize(
    subject: str, descriptions: Sequence[str], model: ChatModel, budgets: TokenBudgets = MIN_BUDGETS, overrides: PromptOverrides = ()
) -> str:
    """Keep a single description; summarise several, in rounds if one prompt cannot hold them. Raises CALL_ERRORS."""
    waiting = sorted(set(descriptions))
    while len(waiting) > 1:
        taken, used = 0, 0
        while taken < len(waiting) and (taken < 2 or used + await model.count(waiting[taken]) <= budgets.descriptions):
            used += await model.count(waiting[taken])
            taken += 1
        batch = waiting[:taken]
        script = await TokenDensity.measure(model.count, "".join(batch))
        messages = load_prompt("abstractive/describe", overrides).fill(subject=subject, descriptions="\n".join(f"- {d}" for d in batch))
        longest = script.max_chars(budgets.description)
        try:
            reply = await model.ask("describe", messages, max_tokens=script.max_tokens(longest) + 8, grammar=single_line(longest))
        except ContextTooSmall:
            less = less_than(budgets)  # the window is smaller today than the index's budgets
            if less is None:
                raise
            return await summarize(subject, waiting, model, less, overrides)
        waiting = [end_at_sentence(reply.text.strip(), longest), *waiting[taken:]]
    return waiting[0] if waiting else ""


def _longest(of: Entity | Relationship) -> str:
    return max(of.descriptions, key=len, default="")


def _best(quotes: Sequence[Quote]) -> list[Quote]:
    return [max(quotes, key=lambda q: informativeness(collapse_whitespace(q.text), 2))] if len(quotes) > 1 else list(quotes)


def _join(quotes: Sequence[Quote]) -> str:
    return " ".join(collapse_whitespace(q.text) for q in quotes[:SENTENCES_PER_DESCRIPTION])
