"""Questions to an index: `answer(question, project, options)` picks the mode's function and completes its answer."""

import time
from collections.abc import Callable
from dataclasses import replace

from localrag.errors import ContextTooSmall, UsageError
from localrag.llm import seconds_since
from localrag.llm.project import Project, choose_style
from localrag.query.answerable import answerable, closest, unsaid
from localrag.query.basic import ask_basic, ask_mix, ask_ss
from localrag.query.cite import Draft, cite
from localrag.query.converse import standalone
from localrag.query.drift import ask_drift
from localrag.query.global_ import ask_global, ask_ts
from localrag.query.local import ask_local
from localrag.query.question import Budget, Options, Question
from localrag.query.route import route
from localrag.query.verify import checker
from localrag.records import Answer
from localrag.store import graph, ledger

MODES = {
    "mix": ask_mix,
    "local": ask_local,
    "global": ask_global,
    "drift": ask_drift,
    "basic": ask_basic,
    "ts": ask_ts,
    "ss": ask_ss,
}
LONGEST_QUESTION = 10_000  # characters

__all__ = ["LONGEST_QUESTION", "MODES", "Options", "answer"]


async def answer(text: str, project: Project, options: Options, on_text: Callable[[str], None] | None = None) -> Answer:
    """Answer a question from the index, with verified citations; the answer is kept for `localrag source`.

    Where the graph is empty or still being built, or the window too small for a mode, one mode down is taken and the answer's note says
    so. Raises UsageError, NoIndex, ModelError.
    """
    started = time.perf_counter()
    _check(text, options)
    model = project.model
    before = (model.calls, model.prompt_tokens, model.output_tokens)
    until = None if options.max_seconds is None else time.monotonic() + options.max_seconds
    budget = Budget(options.max_calls, until)
    style = options.style or await choose_style(project)
    history = ledger.conversation(project.db, options.conversation) if options.conversation else []
    draft_of = Question(text, project.embedder.embed([text])[0], style, options, budget)
    asked = await standalone(draft_of, history, project) if history else text
    vector = draft_of.vector if asked == text else project.embedder.embed([asked])[0]
    question = replace(draft_of, text=asked, vector=vector, on_text=on_text)
    mode, reason = route(asked, project) if options.mode == "auto" else (options.mode, "")
    mode, note = _mode_for(project, mode)
    says = options.context_only or answerable(question, project)
    mode, draft, smaller = await _draft(mode, question, project) if says else (mode, closest(question, project), "")
    cited = cite(draft, project.db, checker(project.embedder.embed), strict=options.strict, bullets="list" in options.response_type.lower())
    notes = [note, smaller, draft.note, _stopped(budget, options), _failed(budget), _unsupported(cited.unsupported, strict=options.strict)]
    done = Answer(
        text,
        cited.text or unsaid(asked),
        mode,
        draft.level,
        cited.citations,
        model.calls - before[0],
        model.prompt_tokens - before[1],
        model.output_tokens - before[2],
        seconds_since(started),
        " ".join(n for n in notes if n),
        style,
        asked,
        reason,
        cited.unsupported,
        options.conversation or 0,
        says and bool(cited.text),
    )
    try:
        return ledger.save_answer(project.db, done)
    except Exception as error:  # noqa: BLE001 — an index on a read-only disk still answers
        return replace(done, note=f"{done.note} The answer could not be kept: {error}.".strip())


def _check(text: str, options: Options) -> None:
    if not text.strip():
        raise UsageError("The question is empty.", 'Ask something: localrag ask "What are the main themes?"')
    if len(text) > LONGEST_QUESTION:
        raise UsageError(
            f"The question has {len(text)} characters; {LONGEST_QUESTION} are read at most.", "Put long texts into a file and index it."
        )
    if options.mode not in (*MODES, "auto"):
        raise UsageError(f"There is no mode {options.mode!r}.", f"Modes: auto, {', '.join(MODES)}")
    if options.style not in ("", "extractive", "abstractive"):
        raise UsageError(f"There is no style {options.style!r}.", "Styles: extractive, abstractive")


async def _draft(mode: str, question: Question, project: Project) -> tuple[str, Draft, str]:
    """The draft of a mode, or of the next simpler one where the mode's context does not fit the model or nothing is found."""
    try:
        draft = await MODES[mode](question, project)
    except ContextTooSmall:
        if mode == "basic":
            raise
        draft, why = Draft(()), "The model's window is too small for this mode"
    else:
        why = "Nothing was found this way"
    down = {"global": "mix", "drift": "local", "local": "mix", "mix": "basic", "ts": "basic"}.get(mode)
    if draft.points or down is None:
        return mode, draft, ""
    mode, draft, _ = await _draft(down, question, project)
    return mode, draft, f"{why}, so this is answered in mode {mode}."


def _stopped(budget: Budget, options: Options) -> str:
    if not budget.stopped:
        return ""
    limits = ((options.max_calls, "calls"), (options.max_seconds, "s"))
    reached = " and ".join(f"{n:g} {unit}" for n, unit in limits if n is not None)
    return f"Stopped at the limit of {reached}: this is the best answer so far."


def _failed(budget: Budget) -> str:
    said = ["The answer was cut off; its complete sentences are kept."] * budget.cut_off
    if budget.failures:
        said.append(f"{len(budget.failures)} of {budget.made} calls to the model failed and are left out: {budget.failures[-1]}")
    return " ".join(said)


def _unsupported(n: int, *, strict: bool) -> str:
    if not n:
        return ""
    sentences = f"{n} sentence{'s' * (n > 1)}"
    return f"{sentences} without support {'left out' if strict else 'marked'}."


def _mode_for(project: Project, mode: str) -> tuple[str, str]:
    """The mode asked for, or the next simpler one that the index can serve, and why."""
    counts = graph.counts(project.db)
    run = ledger.last_run(project.db)
    remedies = {"running": " It is being built now.", "complete": "", "partly": ""}
    building = remedies.get(run["state"], " Index again to finish it: localrag index PATH") if run else ""
    if mode in ("global", "drift") and not counts["reports"]:
        why = "No reports are written yet" if counts["communities"] else "The graph has no communities"
        return ("mix" if counts["entities"] else "basic"), f"{why}, so this is answered from the passages.{building}"
    if mode in ("local", "mix") and not counts["entities"]:
        return "basic", f"The graph holds no entities, so this is answered from the nearest passages.{building}"
    return mode, f"The index is not complete.{building}" if building else ""
