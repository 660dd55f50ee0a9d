"""Asking: the steps from a question to its stored answer, in order.

`answer_question` selects the documents, takes the steps of `ANSWER_STEPS`, attributes what they drafted to its sources, and stores the
answer.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial

from localrag.analysis.item_list import list_draft
from localrag.errors import UsageError
from localrag.filters import NO_FILTER, DocumentFilter
from localrag.llm.budgets import record_prefill_speed, record_throughput
from localrag.llm.model import elapsed_seconds
from localrag.project import Project, resolve_answer_style
from localrag.query.attribution import alias_lookup, place_lookup, support_checker
from localrag.query.citations import CitedAnswer, Citer
from localrag.query.collection_questions import collection_draft, file_filter
from localrag.query.conversation import rewrite_standalone
from localrag.query.extractive import refusal_draft, refusal_text, refuse_unrelated
from localrag.query.modes import MODE_FUNCTIONS, PASSAGE_MODES, available_mode, draft_in_mode, route_question
from localrag.query.passages import CHUNKS_READ
from localrag.query.question import (
    MAX_QUESTION_CALLS,
    MAX_QUESTION_TOKENS,
    NO_CALLBACKS,
    AnswerCallbacks,
    AnswerDraft,
    QueryBudget,
    QueryOptions,
    Question,
    check_question,
)
from localrag.query.question_kind import is_about_answer
from localrag.query.reading_budget import CONFIRM_FROM_CALLS
from localrag.query.retriever import hybrid_search
from localrag.records import CONTRADICTED_STATE, RELATED_STATE, SUPPORTED_STATE, UNSUPPORTED_STATE, Answer
from localrag.store import answers
from localrag.store.database import snapshot
from localrag.store.filtered import NoMatchingDocuments, open_filtered

MIN_FOREIGN_SENTENCES = 3  # unproved sentences of an answer of which its note says that the sources do not bear it out
ECHOED = "The model gave back its instructions instead of an answer, twice. Try another one: --model PATH.gguf"


async def answer_question(
    text: str,
    project: Project,
    options: QueryOptions,
    watch: AnswerCallbacks = NO_CALLBACKS,
    history: Sequence[Answer] = (),
) -> Answer:
    """Answer a question from the index, with verified citations; the answer is stored unless the project keeps none.

    `watch` receives the answer's text sentence by sentence, checked and cited, and the status before. If cancelled, the answer so far is
    stored. `history`: the conversation so far, if it is not stored in the index (`options.conversation`).

    The whole answer uses one snapshot of the index (`database.snapshot`), whatever is written meanwhile. If the graph is empty or
    incomplete, or the window too small for a mode, the next simpler mode is used and the answer's note says so. `watch.confirm_cost` is
    called if the answer may take more than a minute, after the cost was shown. Raises UsageError, NoIndex, ModelError, and LocalragError if
    the cost was declined.
    """
    check_question(text)
    _check_options(options)
    if project.reader is not None and options.mode in {"auto", *PASSAGE_MODES}:
        project.reader.start_loading()
    store = partial(store_answer, project=project, watch=watch, started=time.perf_counter(), before=_llm_usage(project))
    with snapshot(project.folder) as db:
        turns = tuple(history or (answers.conversation(db, options.conversation) if options.conversation else ()))
        options = replace(options, selection=options.selection if options.selection is not None else _selection_of(turns))
        question = Question(
            text,
            project.embedder.embed([text])[0],
            options.style,
            options,
            QueryBudget.of(options),
            watch=watch,
            history=turns,
            asked=text,
        )
        answer = await _run_steps(question, replace(project, db=db), store)
    return store(answer)


def _check_options(options: QueryOptions) -> None:
    if options.mode not in (*MODE_FUNCTIONS, "auto"):
        raise UsageError(f"There is no mode {options.mode!r}.", f"Modes: auto, {', '.join(MODE_FUNCTIONS)}")
    if options.style not in ("", "extractive", "abstractive"):
        raise UsageError(f"There is no style {options.style!r}.", "Styles: extractive, abstractive")


def _selection_of(turns: Sequence[Answer]) -> DocumentFilter:
    return DocumentFilter(turns[-1].filter_text, turns[-1].collections) if turns else NO_FILTER


async def _run_steps(question: Question, project: Project, store: Callable[[Answer], Answer]) -> Answer:
    """The answer; if cancelled, the answer so far is stored."""
    options, watch = question.options, question.watch
    try:
        project = select_documents(question, project)
    except NoMatchingDocuments as nothing:
        if watch.on_text:
            watch.on_text(str(nothing))
        refusal = AnswerDraft((), note=nothing.hint, is_refused=True, mode=options.mode)
        return attribute(question, refusal, CitedAnswer(str(nothing), ()))
    check = support_checker(project.embedder.embed, alias_lookup(project.db), project.reader, place_lookup(project.db))
    citer = Citer(project.db, check, strict=options.strict, bullets="list" in options.response_type.lower(), watch=watch)
    question = replace(question, on_point=citer.add)
    try:
        for step in ANSWER_STEPS:
            made = await step(question, project)
            if isinstance(made, AnswerDraft):
                return attribute(question, made, citer.result(made))
            question = made
    except asyncio.CancelledError:
        if (partly := citer.result()).text:
            store(attribute(question, AnswerDraft((), note="Stopped before its end."), partly))
        raise
    raise AssertionError("The last step drafts.")


def select_documents(question: Question, project: Project) -> Project:
    """The project restricted to the documents that were selected, else to the file that the question is about.

    Only this question is about that file, not those that follow it. Raises NoMatchingDocuments.
    """
    named = file_filter(question.text, project) if question.options.mode == "auto" and not question.options.selection else None
    selection = question.options.selection or named or NO_FILTER
    return replace(project, db=open_filtered(project.db, selection, project.root), search_cache={})


async def understand(question: Question, project: Project) -> Question:
    """The question with its style; a follow-up becomes a standalone question, or that of the last answer if it is about that."""
    question.report_status("searching …")
    turns, style = question.history, question.style or await resolve_answer_style(project)
    question = replace(question, style=style, history=())
    if not turns:
        return question
    if not question.is_extractive and is_about_answer(question.text, project):
        standalone, about = turns[-1].standalone_question or turns[-1].question, turns
    else:
        standalone, about = await rewrite_standalone(question, turns, project), ()
    return replace(question, text=standalone, vector=project.embedder.embed([standalone])[0], history=about)


async def answer_about_files(question: Question, project: Project) -> Question | AnswerDraft:
    """The answer to a question about the files themselves, from the store."""
    return (collection_draft(question, project) if _asks_freely(question) else None) or question


async def answer_from_records(question: Question, project: Project) -> Question | AnswerDraft:
    """The answer to a question for all records of a kind, from tables; where there is none, passages are said not to be all."""
    listed = list_draft(question, project) if _asks_freely(question) else None
    if listed is None or listed.points:
        return listed or question
    return replace(question, uncounted=listed.note)


def _asks_freely(question: Question) -> bool:
    return question.options.mode == "auto" and not question.history and not question.options.context_only


async def choose_mode(question: Question, project: Project) -> Question:
    """The question with its mode, or the next simpler one that the index supports."""
    mode, reason = question.options.mode, ""
    if mode == "auto":
        mode, reason = ("mix", "it is about the last answer") if question.history else route_question(question.text, project)
    mode, note = available_mode(project, mode)
    return replace(question, mode=mode, reason=reason, mode_note=note)


async def retrieve(question: Question, project: Project) -> Question | AnswerDraft:
    """The question with the nearest passages; a refusal where they do not answer it and its mode would not read them."""
    near = hybrid_search(question.text, question.vector, project, CHUNKS_READ)
    is_chosen = question.options.mode not in {"auto", *PASSAGE_MODES}  # for a question that may be about something particular
    refusal = await refuse_unrelated(question, near, project) if is_chosen else None
    return refusal or replace(question, near=tuple(near))


async def draft(question: Question, project: Project) -> AnswerDraft:
    """The draft of the mode, extractive or written; a refusal, with the nearest passages, where the model declines."""
    drafted, budget = await draft_in_mode(question, project), question.budget
    if not (budget.declined or budget.echoed):
        return drafted
    refusal = await refusal_draft(question, question.near, project, budget.declined or ECHOED)
    return replace(refusal, note=drafted.note, level=drafted.level, mode=drafted.mode)


# Each step returns the question with what it found out, or the draft of the answer, which ends the list.
ANSWER_STEPS: tuple[Callable[[Question, Project], Awaitable[Question | AnswerDraft]], ...] = (
    understand,
    answer_about_files,
    answer_from_records,
    choose_mode,
    retrieve,
    draft,
)


def attribute(question: Question, draft: AnswerDraft, cited: CitedAnswer) -> Answer:
    """The answer of a draft whose sentences were attributed to their sources, with notes on how it was made."""
    budget, options = question.budget, question.options
    selection = options.selection or NO_FILTER
    uncounted = "" if draft.short_answer or draft.is_refused else question.uncounted
    unsupported = _unsupported_note(cited, strict=options.strict)
    notes = (question.mode_note, draft.note, uncounted, _budget_note(budget, options), _failure_note(budget), unsupported)
    return Answer(
        question.asked,
        cited.text or refusal_text(question.text),
        draft.mode or question.mode or "mix",
        level=draft.level,
        citations=cited.citations,
        note=" ".join(filter(None, notes)),
        style=question.style,
        standalone_question=question.text,
        reason=draft.reason or question.reason,
        unsupported_sentences=cited.count(UNSUPPORTED_STATE),
        related=cited.count(RELATED_STATE),
        contradicted=cited.count(CONTRADICTED_STATE),
        sentences=cited.sentences,
        citation_marks=cited.citation_marks,
        passages=cited.passages,
        conversation=options.conversation or 0,
        is_answerable=not (draft.is_refused or budget.declined or budget.echoed) and bool(cited.text),
        confidence=draft.confidence,
        short_answer=draft.short_answer or None,
        filter_text=selection.expression.strip(),
        collections=selection.collections,
        by_program=options.by_program,
    )


def store_answer(answer: Answer, project: Project, watch: AnswerCallbacks, started: float, before: tuple[int, int, int]) -> Answer:
    """The answer with its cost since `started`, stored unless the project keeps none; `before`: what the models had done until then."""
    calls, read, written = (now - then for now, then in zip(_llm_usage(project), before, strict=True))
    if calls >= CONFIRM_FROM_CALLS:  # fewer calls do not fill the engine, so their speed is not representative
        record_throughput(project.model.file, project.model.metrics())
    if calls:
        record_prefill_speed(project.model.file, *project.model.token_counters[:2])
    answer = replace(answer, llm_calls=calls, prompt_tokens=read, output_tokens=written, seconds=elapsed_seconds(started))
    if project.keep_answers:
        try:
            answer = answers.save_answer(project.db, answer)
        except Exception as error:  # noqa: BLE001 — an index on a read-only disk still answers
            answer = replace(answer, note=f"{answer.note} The answer could not be stored: {error}.".strip())
    if watch.on_stored:
        watch.on_stored(answer)
    return answer


def _llm_usage(project: Project) -> tuple[int, int, int]:
    return project.model.calls, project.model.prompt_tokens, project.model.output_tokens


def _budget_note(budget: QueryBudget, options: QueryOptions) -> str:
    if not budget.is_exhausted:
        return ""
    if budget.deadline is not None and time.monotonic() >= budget.deadline:
        limit = f"{options.max_seconds:g} s"
    else:
        limit = (
            f"{MAX_QUESTION_CALLS} calls and {MAX_QUESTION_TOKENS:,} tokens" if options.max_calls is None else f"{options.max_calls} calls"
        )
    return f"Stopped at the limit of {limit}: this is the best answer so far."


def _failure_note(budget: QueryBudget) -> str:
    notes = ["The answer was cut off at its limit; its complete sentences are kept."] * budget.was_truncated
    notes += ["The model repeated itself, so its answer ends there."] * budget.was_repetitive
    if budget.failures:
        notes.append(f"{len(budget.failures)} of {budget.calls_made} model calls failed and are left out: {budget.failures[-1]}")
    return " ".join(notes)


def _unsupported_note(cited: CitedAnswer, *, strict: bool) -> str:
    descriptions = {
        RELATED_STATE: "only related to a source",
        CONTRADICTED_STATE: "that a source contradicts",
        UNSUPPORTED_STATE: "without support",
    }
    treatment = "left out" if strict else "marked"
    unproved = cited.count(UNSUPPORTED_STATE) + cited.count(CONTRADICTED_STATE)
    is_foreign = unproved >= MIN_FOREIGN_SENTENCES and not cited.count(SUPPORTED_STATE) and unproved > cited.count(RELATED_STATE)
    foreign = ["Nothing in the sources bears out most of this answer: it may be the model's own knowledge, or wrong."] * is_foreign
    notes = [f"{_n_sentences(n)} {description} {treatment}." for state, description in descriptions.items() if (n := cited.count(state))]
    return " ".join([*foreign, *notes, *[f"{_n_sentences(cited.n_repeated)} repeated; left out."] * bool(cited.n_repeated)])


def _n_sentences(n: int) -> str:
    return f"{n} sentence{'s' * (n > 1)}"
