"""Questions to an index: `answer(question, mode)` picks the mode's function and completes its answer."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from localrag.errors import UsageError
from localrag.llm import seconds_since
from localrag.llm.project import Project, choose_style
from localrag.query.basic import ask_basic
from localrag.query.cite import Draft, cite
from localrag.query.context import Question
from localrag.query.global_ import ask_global
from localrag.query.local import ask_local
from localrag.records import Answer
from localrag.store import graph, ledger

MODES = {"local": ask_local, "global": ask_global, "basic": ask_basic}


@dataclass(frozen=True, slots=True)
class Options:
    """How to answer: the mode, the community level of global questions (None: the one that fits), the seed of shuffles."""

    mode: str = "local"
    level: int | None = None
    seed: int = 0


async def answer(text: str, project: Project, options: Options, on_text: Callable[[str], None] | None = None) -> Answer:
    """Answer a question from the index, with verified citations; the answer is kept for `localrag source`.

    Where the graph is empty or still being built, one mode down is taken and the answer's note says so. Raises UsageError, NoIndex,
    ModelError.
    """
    started = time.perf_counter()
    if not text.strip():
        raise UsageError("The question is empty.", 'Ask something: localrag ask "What are the main themes?"')
    mode, note = _mode_for(project, options.mode)
    model = project.model
    question = Question(text, project.embedder.embed([text])[0], await choose_style(project), options.level, options.seed, on_text)
    draft: Draft = await MODES[mode](question, project)
    body, citations = cite(draft, project.db)
    done = Answer(
        text,
        body,
        mode,
        draft.level,
        citations,
        model.calls,
        model.prompt_tokens,
        model.output_tokens,
        seconds_since(started),
        " ".join(n for n in (note, draft.note) if n),
        question.style,
    )
    try:
        ledger.save_answer(project.db, done)
    except Exception as error:  # noqa: BLE001 — an index on a read-only disk still answers
        return replace(done, note=f"{done.note} The answer could not be kept: {error}.".strip())
    return done


def _mode_for(project: Project, mode: str) -> tuple[str, str]:
    """The mode asked for, or the next simpler one that the index can serve, and why."""
    counts = graph.counts(project.db)
    run = ledger.last_run(project.db)
    remedies = {"running": " It is being built now.", "complete": "", "partly": ""}
    building = remedies.get(run["state"], " Index again to finish it: localrag index PATH") if run else ""
    if mode == "global" and not counts["reports"]:
        why = "No reports are written yet" if counts["communities"] else "The graph has no communities"
        mode, note = ("local" if counts["entities"] else "basic"), f"{why}, so this is answered from the passages.{building}"
        return mode, note
    if mode == "local" and not counts["entities"]:
        return "basic", f"The graph holds no entities, so this is answered from the nearest passages.{building}"
    return mode, f"The index is not complete.{building}" if building else ""
