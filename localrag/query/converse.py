"""Conversations: follow-up questions made to stand on their own, and questions worth asking."""

from collections.abc import Sequence

from localrag.llm.budgets import Script
from localrag.llm.grammar import line, question_lines
from localrag.llm.model import PERSON
from localrag.llm.prompts import load_prompt
from localrag.project import Project, choose_style
from localrag.query.answering.written import call_alone
from localrag.query.question import Question
from localrag.query.questions.leaning import leans
from localrag.query.retrieval.retrieve import named_entities
from localrag.records import Answer
from localrag.store import graph, look
from localrag.text.plain import is_cjk, squeeze

REWRITTEN = 300  # characters of a follow-up made to stand on its own
BEST_KNOWN = 200  # entities that a question to begin with may be about
TURNS = 5  # of a conversation that a follow-up may lean on: the newest


async def standalone(question: Question, history: Sequence[Answer], project: Project) -> str:
    """A follow-up as a question of its own. A question that leans on nothing is kept as it is.

    A model that writes prose rewrites it; otherwise the names of the last question that names any are put behind it.
    """
    if not leans(question.text, [n.text for n in named_entities(question.text, project)]):
        return question.text
    if question.style == "abstractive":
        turns = "\n".join(f"Q: {a.asked or a.question}\nA: {squeeze(a.answer)[:400]}" for a in history[-TURNS:])
        messages = load_prompt("abstractive/standalone", project.settings.prompts).fill(history=turns, question=question.text)
        script = await Script.of(project.model.count, question.text, turns, language=project.settings.language)
        longest = script.characters(REWRITTEN)
        said = await call_alone(question, project, "standalone", messages, line(longest), script.tokens(longest) + 8)
        if said and said.strip():
            return squeeze(said)
    for turn in reversed(history[-TURNS:]):
        names = list(dict.fromkeys(n.text for n in named_entities(turn.asked or turn.question, project)))
        proper = [n for n in names if n[0].isupper() or is_cjk(n)] or names
        new = [n for n in proper if n.lower() not in question.text.lower()]
        if new:
            return f"{question.text}（{'、'.join(new)}）" if is_cjk(question.text) else f"{question.text} ({', '.join(new)})"
    return question.text


async def questions_worth_asking(project: Project, history: Sequence[Answer], *, about: str = "", n: int = 5) -> list[str]:
    """`n` questions that the index can answer: follow-ups of a conversation, about an entity, or to start with."""
    names = _subjects(project, history, about)
    if await choose_style(project) == "abstractive" and names:
        written = await _written(project, history, names, n)
        if written:
            return written[:n]
    return _worded(names, n, start=not about and not history)


def suggested(project: Project, *, n: int = 5) -> list[str]:
    """`n` questions to start with that the index can answer, without a model."""
    return _worded(_subjects(project, (), ""), n, start=True)


def _worded(names: Sequence[tuple[str, str]], n: int, *, start: bool) -> list[str]:
    chinese = all(is_cjk(a) for a, _ in names) if names else False
    found: list[str] = []
    for a, b in names:
        found.append(f"{a}和{b}有什么关系？" if chinese and b else f"How are {a} and {b} connected?" if b else f"What is said about {a}?")
    general = "这些文档的主题是什么？" if chinese else "What are the main themes of these documents?"
    return [*[general] * start, *dict.fromkeys(found)][:n]


def _subjects(project: Project, history: Sequence[Answer], about: str) -> list[tuple[str, str]]:
    """Pairs of entities that are strongly related, or single ones ("" as the second): whom questions can be asked about."""
    named = [x.entity_id for x in named_entities(about, project)] if about else []
    for turn in reversed(history[-TURNS:]):
        named += [x.entity_id for x in named_entities(f"{turn.asked or turn.question} {turn.answer[:500]}", project)]
    wanted = list(dict.fromkeys(named)) or look.best_known(project.db, BEST_KNOWN)
    entities = {e.id: e for e in graph.entities(project.db, wanted) if e.type != "thing" or named}
    chosen = dict.fromkeys(list(entities)[:20])
    pairs = []
    for r in graph.relationships(project.db, chosen):
        ends = graph.entities(project.db, [r.source_id, r.target_id])
        if len(ends) == 2 and all(e.type != "thing" for e in ends):
            pairs.append((ends[0].name, ends[1].name))
        if len(pairs) >= 30:
            break
    singles = [(e.name, "") for e in list(entities.values())[:10]]
    mixed = [p for both in zip(singles, pairs, strict=False) for p in both]
    return list(dict.fromkeys([*mixed, *pairs, *singles]))


async def _written(project: Project, history: Sequence[Answer], names: Sequence[tuple[str, str]], n: int) -> list[str]:
    about = "\n".join(f"- {a}" + (f" and {b}" if b else "") for a, b in names[:15])
    said = "\n".join(f"- {a.asked or a.question}" for a in history[-TURNS:]) or "none"
    messages = load_prompt("abstractive/questions", project.settings.prompts).fill(subjects=about, asked=said, n=n)
    reply = await project.model.ask("questions", messages, max_tokens=60 * n, grammar=question_lines(n), priority=PERSON)
    return [squeeze(q) for q in reply.text.splitlines() if q.strip()]
