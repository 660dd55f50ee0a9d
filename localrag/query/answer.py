"""Questions to an index: `answer(question, project, options)` picks the mode's function and completes its answer."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from localrag.errors import ContextTooSmall, UsageError
from localrag.llm.model import seconds_since
from localrag.llm.speeds import keep_speed
from localrag.project import Project, choose_style
from localrag.query.answering.cite import Cited, Citer
from localrag.query.answering.refuse import should_refuse
from localrag.query.answering.verify import aliases_in, checker
from localrag.query.converse import standalone
from localrag.query.cost import MANY
from localrag.query.draft import Draft
from localrag.query.modes.drift import ask_drift
from localrag.query.modes.local import ask_local
from localrag.query.modes.map_reduce import ask_global, ask_ts
from localrag.query.modes.passages import ask_basic, ask_mix, ask_ss
from localrag.query.question import CALLS, LONGEST_QUESTION, NOBODY, TOKENS, UNBOUNDED, Budget, Options, Question, Watch
from localrag.query.retrieval.answerable import closest, unsaid
from localrag.query.route import route
from localrag.records import Answer
from localrag.states import CONTRADICTED, RELATED, UNSUPPORTED
from localrag.store import graph, ledger
from localrag.store.connect import snapshot
from localrag.store.selection import NothingSelected, Selected, narrow
from localrag.where import EVERYTHING, Selection

MODES = {
    "mix": ask_mix,
    "local": ask_local,
    "global": ask_global,
    "drift": ask_drift,
    "basic": ask_basic,
    "ts": ask_ts,
    "ss": ask_ss,
}
ECHOED = "The model gave back its instructions instead of an answer, twice. Try another one: --model PATH.gguf"
__all__ = ["LONGEST_QUESTION", "MODES", "UNBOUNDED", "Options", "Watch", "answer"]


async def answer(
    text: str,
    project: Project,
    options: Options,
    watch: Watch = NOBODY,
    history: Sequence[Answer] = (),
) -> Answer:
    """Answer a question from the index, with verified citations; the answer is kept for `localrag source`, unless the project keeps none.

    `watch` hears of it: the answer's text while it comes, sentence by sentence, checked and cited as in the answer; what is being done
    until then. Cancelled, it keeps what was given so far.

    `history`: the conversation so far, where it is not one that the index keeps (`options.conversation`).

    From first to last it is answered from the index as it is at this moment (`connect.snapshot`), whatever is written to it meanwhile.
    Where the graph is empty or still being built, or the window too small for a mode, one mode down is taken and the answer's note says
    so. `watch.agree` is called where it may take more than a minute, after the cost was said. Raises UsageError, NoIndex, ModelError, and
    LocalragError where `agree` said no.
    """
    started, before = time.perf_counter(), _spent(project)
    _check(text, options)

    def keep(made: Answer) -> Answer:
        calls, read, written = (now - then for now, then in zip(_spent(project), before, strict=True))
        if calls >= MANY:  # a few calls do not fill the engine: their speed would say nothing of many
            keep_speed(project.model.file, project.model.report())
        spent = replace(made, calls=calls, prompt_tokens=read, output_tokens=written, seconds=seconds_since(started))
        kept = _keep(spent, project)
        if watch.kept:
            watch.kept(kept)
        return kept

    with snapshot(project.folder) as db:
        history = history or (ledger.conversation(db, options.conversation) if options.conversation else [])
        options = replace(options, selection=options.selection if options.selection is not None else _selection_of(history))
        try:
            here = replace(project, db=narrow(db, options.selection or EVERYTHING, project.root))
        except NothingSelected as nothing:
            return keep(_nothing(text, options, nothing, watch))
        done = await _answered(text, here, options, watch, keep, history)
    return keep(done)


def _selection_of(history: Sequence[Answer]) -> Selection:
    """The documents that a conversation is about: those of its last answer."""
    return Selection(history[-1].where, history[-1].collections) if history else EVERYTHING


def _nothing(text: str, options: Options, nothing: NothingSelected, watch: Watch) -> Answer:
    """The answer where no document is selected: that it is so, and what would be; nothing is cited from elsewhere."""
    if watch.text:
        watch.text(str(nothing))
    made = Answer(text, str(nothing), options.mode, note=nothing.hint, style=options.style, asked=text, answerable=False)
    return _with_selection(replace(made, conversation=options.conversation or 0), options)


def _with_selection(made: Answer, options: Options) -> Answer:
    selection = options.selection or EVERYTHING
    return replace(made, where=selection.where.strip(), collections=selection.collections)


async def _answered(
    text: str, project: Project, options: Options, watch: Watch, keep: Callable[[Answer], Answer], history: Sequence[Answer]
) -> Answer:
    """The answer, without its cost; what there is of one that is cancelled is kept."""
    budget = Budget.of(options)
    if watch.status:
        watch.status("searching …")
    question = await _understood(text, project, options, budget, history)
    bullets = "list" in options.response_type.lower()
    check = checker(project.embedder.embed, aliases_in(project.db))
    citer = Citer(project.db, check, strict=options.strict, bullets=bullets, watch=watch)
    question = replace(question, on_point=citer.take, watch=watch)
    mode, reason = route(question.text, project) if options.mode == "auto" else (options.mode, "")
    mode, note = _mode_for(project, mode)
    refuses, sure = await should_refuse(question, project)

    def made(mode: str, cited: Cited, level: int | None, *notes: str) -> Answer:
        said = [note, *notes, _failed(budget), _left_out(cited, strict=options.strict)]
        answer = replace(_answer_of(text, question, cited), mode=mode, reason=reason, level=level, note=" ".join(n for n in said if n))
        return replace(answer, answerable=not (refuses or budget.declined or budget.echoed) and bool(cited.text), confidence=sure)

    try:
        mode, draft, smaller = (mode, closest(question, project), "") if refuses else await _draft(mode, question, project)
        if budget.declined or budget.echoed:
            draft = replace(closest(question, project, budget.declined or ECHOED), note=draft.note, level=draft.level)
    except asyncio.CancelledError:
        if (so_far := citer.cited()).text:
            keep(made(mode, so_far, None, "Stopped before its end."))
        raise
    done = made(mode, citer.cited(draft), draft.level, smaller, draft.note, _stopped(budget, options))
    return replace(done, short=draft.short or None)


async def _understood(text: str, project: Project, options: Options, budget: Budget, history: Sequence[Answer]) -> Question:
    """The question with its style, made to stand on its own where it goes on with a conversation."""
    question = Question(text, project.embedder.embed([text])[0], options.style or await choose_style(project), options, budget)
    asked = await standalone(question, history, project) if history else text
    return question if asked == text else replace(question, text=asked, vector=project.embedder.embed([asked])[0])


def _spent(project: Project) -> tuple[int, int, int]:
    """Calls, tokens read and tokens written by this process."""
    return project.model.calls, project.model.prompt_tokens, project.model.output_tokens


def _answer_of(text: str, question: Question, cited: Cited) -> Answer:
    said = cited.text or unsaid(question.text)
    made = Answer(
        text,
        said,
        question.options.mode,
        citations=cited.citations,
        style=question.style,
        asked=question.text,
        unsupported=cited.count(UNSUPPORTED),
        related=cited.count(RELATED),
        contradicted=cited.count(CONTRADICTED),
        sentences=cited.sentences,
        marks=cited.marks,
        conversation=question.options.conversation or 0,
    )
    return _with_selection(made, question.options)


def _keep(answer: Answer, project: Project) -> Answer:
    if not project.logs:
        return answer
    try:
        return ledger.save_answer(project.db, answer)
    except Exception as error:  # noqa: BLE001 — an index on a read-only disk still answers
        return replace(answer, note=f"{answer.note} The answer could not be kept: {error}.".strip())


def check_question(text: str) -> None:
    """Raises UsageError for a question or query that is empty or too long."""
    if not text.strip():
        raise UsageError("The question is empty.", 'Ask something: localrag ask "What are the main themes?"')
    if any("\ud800" <= c <= "\udfff" for c in text):  # stand for bytes that could not be decoded
        raise UsageError("The question is no text in UTF-8.", 'Ask something: localrag ask "What are the main themes?"')
    if len(text) > LONGEST_QUESTION:
        raise UsageError(
            f"The question has {len(text)} characters; {LONGEST_QUESTION} are read at most.", "Put long texts into a file and index it."
        )


def _check(text: str, options: Options) -> None:
    check_question(text)
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
    if draft.points or down is None or question.budget.declined or question.budget.echoed:
        return mode, draft, ""
    tried = draft.note
    mode, draft, _ = await _draft(down, question, project)
    return mode, draft, f"{why}, so this is answered in mode {mode}. {tried}".strip()


def _stopped(budget: Budget, options: Options) -> str:
    if not budget.stopped:
        return ""
    if budget.until is not None and time.monotonic() >= budget.until:
        reached = f"{options.max_seconds:g} s"
    else:
        reached = f"{CALLS} calls and {TOKENS:,} tokens" if options.max_calls is None else f"{options.max_calls} calls"
    return f"Stopped at the limit of {reached}: this is the best answer so far."


def _failed(budget: Budget) -> str:
    said = ["The answer was cut off at its limit; its complete sentences are kept."] * budget.cut_off
    if budget.failures:
        said.append(f"{len(budget.failures)} of {budget.made} calls to the model failed and are left out: {budget.failures[-1]}")
    return " ".join(said)


def _left_out(cited: Cited, *, strict: bool) -> str:
    what = {RELATED: "only related to a source", CONTRADICTED: "that a source contradicts", UNSUPPORTED: "without support"}
    done = "left out" if strict else "marked"
    said = [f"{_sentences(n)} {how} {done}." for state, how in what.items() if (n := cited.count(state))]
    return " ".join([*said, *[f"{_sentences(cited.repeated)} said before left out."] * bool(cited.repeated)])


def _sentences(n: int) -> str:
    return f"{n} sentence{'s' * (n > 1)}"


def _mode_for(project: Project, mode: str) -> tuple[str, str]:
    """The mode asked for, or the next simpler one that the index can serve, and why."""
    run = ledger.last_run(project.db)
    remedies = {"running": " It is being built now.", "complete": "", "partly": ""}
    building = remedies.get(run["state"], " Index again to finish it: localrag index PATH") if run else ""
    there = partial(graph.holds_any, project.db)
    if mode in ("global", "drift") and not there("reports"):
        why = "No reports are written yet" if there("communities") else "The graph has no communities"
        if isinstance(project.db, Selected) and graph.holds_any(project.db, "main.reports"):
            why = "No report quotes the selected documents"
        return ("mix" if there("entities") else "basic"), f"{why}, so this is answered from the passages.{building}"
    if mode in ("local", "mix") and not there("entities"):
        return "basic", f"The graph holds no entities, so this is answered from the nearest passages.{building}"
    return mode, f"The index is not complete.{building}" if building else ""
