"""`answer_question`: route, retrieve, answer, cite. The router chooses the mode of a question with mode auto."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from localrag.errors import ContextTooSmall, UsageError
from localrag.filters import NO_FILTER, DocumentFilter
from localrag.llm.budgets import MIN_BUDGETS, record_prefill_speed, record_throughput
from localrag.llm.model import elapsed_seconds
from localrag.project import Project, resolve_answer_style
from localrag.query.attribution import alias_lookup, place_lookup, support_checker
from localrag.query.basic_search import ask_basic, ask_graph_walk, ask_vector_search
from localrag.query.citations import CitedAnswer, Citer
from localrag.query.collection_questions import collection_draft, file_filter
from localrag.query.conversation import rewrite_standalone
from localrag.query.drift_search import ask_drift
from localrag.query.extractive import refusal_draft, refusal_text, refuse_unrelated
from localrag.query.global_search import ask_global, ask_text_map_reduce
from localrag.query.local_search import ask_local
from localrag.query.passages import CHUNKS_READ
from localrag.query.question import (
    MAX_QUESTION_CALLS,
    MAX_QUESTION_CHARS,
    MAX_QUESTION_TOKENS,
    NO_CALLBACKS,
    NO_LIMIT,
    AnswerCallbacks,
    AnswerDraft,
    FindPendingReports,
    FindRecords,
    QueryBudget,
    QueryOptions,
    Question,
)
from localrag.query.question_kind import QuestionKind, is_about_answer, question_kind
from localrag.query.reading_budget import CONFIRM_FROM_CALLS
from localrag.query.retriever import hybrid_search, named_entities
from localrag.records import CONTRADICTED_STATE, RELATED_STATE, SUPPORTED_STATE, UNSUPPORTED_STATE, Answer
from localrag.store import answers, graph, runs
from localrag.store.database import snapshot
from localrag.store.filtered import FilteredDatabase, NoMatchingDocuments, open_filtered
from localrag.text.language import has_few_words_beside

MIN_GLOBAL_DESPITE_NAMES = 0.9  # probability from which on a question that names an entity is about the documents as a whole


def route_question(question: str, project: Project) -> tuple[str, str]:
    """The mode for a question and the reason: `global` for questions about the whole corpus, `mix` for particulars.

    A single short document is answered from its passages (`ts`): reports would split its content by names that others share with it. From
    two documents on, their reports, filtered to them, quote more of the documents: for two to six of the demo's documents 196 of 270, `ts`
    103.
    """
    probabilities = question_kind(question, project)
    kind, named = probabilities.kind, named_entities(question, project)
    if kind is QuestionKind.GLOBAL and (not named or probabilities.of(kind) >= MIN_GLOBAL_DESPITE_NAMES):
        if isinstance(project.db, FilteredDatabase):
            counts = graph.counts(project.db, ["documents", "chunks"])
            if counts["documents"] == 1 and counts["chunks"] <= MIN_BUDGETS.passages:
                return "ts", "it asks about the whole of one short document"
        return "global", "it asks about the documents as a whole"
    if not named:
        return "mix", "it asks for something particular"
    names = list(dict.fromkeys(n.text for n in named[:3]))
    first = graph.entities(project.db, [named[0].entity_id])
    if kind is QuestionKind.EXPLANATION and first and first[0].type != "thing" and has_few_words_beside(question, names):
        return "local", f"it asks broadly about {named[0].text}"
    return "mix", f"it names {', '.join(names)}"


def _route(question: Question, project: Project) -> tuple[str, str]:
    """The mode for a question and the reason."""
    return ("mix", "it is about the last answer") if question.history else route_question(question.text, project)


MODE_FUNCTIONS = {
    "mix": ask_graph_walk,
    "local": ask_local,
    "global": ask_global,
    "drift": ask_drift,
    "basic": ask_basic,
    "ts": ask_text_map_reduce,
    "ss": ask_vector_search,
}
PASSAGE_MODES = frozenset({"mix", "local", "basic", "ss"})  # their passages tell whether the documents answer
MIN_FOREIGN_SENTENCES = 3  # unproved sentences of an answer of which its note says that the sources do not bear it out
ECHOED = "The model gave back its instructions instead of an answer, twice. Try another one: --model PATH.gguf"
__all__ = ["MAX_QUESTION_CHARS", "MODE_FUNCTIONS", "NO_LIMIT", "AnswerCallbacks", "QueryOptions", "answer_question"]


async def answer_question(
    text: str,
    project: Project,
    options: QueryOptions,
    watch: AnswerCallbacks = NO_CALLBACKS,
    history: Sequence[Answer] = (),
    pending_reports: FindPendingReports | None = None,
    find_records: FindRecords | None = None,
) -> Answer:
    """Answer a question from the index, with verified citations; the answer is stored unless the project keeps none.

    `watch` receives the answer's text sentence by sentence, checked and cited, and the status before. If cancelled, the answer so far is
    stored. `history`: the conversation so far, if it is not stored in the index (`options.conversation`). `pending_reports`: finds reports
    that the chat model may write for a question about the whole. `find_records`: answers a question for all records of a kind; if its
    draft has nothing but a note, the question is answered from passages, and the note stands below them.

    The whole answer uses one snapshot of the index (`database.snapshot`), whatever is written meanwhile. If the graph is empty or
    incomplete, or the window too small for a mode, the next simpler mode is used and the answer's note says so. `watch.confirm_cost` is
    called if the answer may take more than a minute, after the cost was shown. Raises UsageError, NoIndex, ModelError, and LocalragError if
    the cost was declined.
    """
    started, before = time.perf_counter(), _llm_usage(project)
    _check(text, options)
    if project.reader is not None and options.mode in {"auto", *PASSAGE_MODES}:
        project.reader.start_loading()

    def keep(made: Answer) -> Answer:
        calls, read, written = (now - then for now, then in zip(_llm_usage(project), before, strict=True))
        if calls >= CONFIRM_FROM_CALLS:  # fewer calls do not fill the engine, so their speed is not representative
            record_throughput(project.model.file, project.model.metrics())
        if calls:
            record_prefill_speed(project.model.file, *project.model.token_counters[:2])
        spent = replace(made, llm_calls=calls, prompt_tokens=read, output_tokens=written, seconds=elapsed_seconds(started))
        kept = _store_answer(spent, project)
        if watch.on_stored:
            watch.on_stored(kept)
        return kept

    with snapshot(project.folder) as db:
        history = history or (answers.conversation(db, options.conversation) if options.conversation else [])
        options = replace(options, selection=options.selection if options.selection is not None else _selection_of(history))
        # Only this question is about the file that it names, not those that follow it.
        selection = options.selection or (file_filter(text, replace(project, db=db)) if options.mode == "auto" else None) or NO_FILTER
        try:
            filtered_project = replace(project, db=open_filtered(db, selection, project.root), search_cache={})
        except NoMatchingDocuments as nothing:
            return keep(_no_documents_answer(text, options, nothing, watch))
        answer = await _produce_answer(text, filtered_project, options, watch, keep, history, pending_reports, find_records)
    return keep(answer)


def _selection_of(history: Sequence[Answer]) -> DocumentFilter:
    """The document filter of a conversation: that of its last answer."""
    return DocumentFilter(history[-1].filter_text, history[-1].collections) if history else NO_FILTER


def _no_documents_answer(text: str, options: QueryOptions, nothing: NoMatchingDocuments, watch: AnswerCallbacks) -> Answer:
    """The answer if no document matches the filter: a statement of this, with a hint."""
    if watch.on_text:
        watch.on_text(str(nothing))
    made = Answer(text, str(nothing), options.mode, note=nothing.hint, style=options.style, standalone_question=text, is_answerable=False)
    return _with_selection(replace(made, conversation=options.conversation or 0), options)


def _with_selection(made: Answer, options: QueryOptions) -> Answer:
    selection = options.selection or NO_FILTER
    return replace(made, filter_text=selection.expression.strip(), collections=selection.collections, by_program=options.by_program)


async def _produce_answer(
    text: str,
    project: Project,
    options: QueryOptions,
    watch: AnswerCallbacks,
    keep: Callable[[Answer], Answer],
    history: Sequence[Answer],
    pending_reports: FindPendingReports | None,
    find_records: FindRecords | None,
) -> Answer:
    """The answer without its cost; if cancelled, the answer so far is stored."""
    budget = QueryBudget.of(options)
    if watch.on_status:
        watch.on_status("searching …")
    question = await _prepare_question(text, project, options, budget, history)
    bullets = "list" in options.response_type.lower()
    check = support_checker(project.embedder.embed, alias_lookup(project.db), project.reader, place_lookup(project.db))
    citer = Citer(project.db, check, strict=options.strict, bullets=bullets, watch=watch)
    question = replace(question, on_point=citer.add, watch=watch, pending_reports=pending_reports)
    uncounted = ""  # said below passages, where all or a number was asked for
    if options.mode == "auto" and not question.history and not options.context_only:
        drafts = (("it asks about the files", collection_draft), ("it asks for all records of a kind", find_records))
        for reason, find in drafts:
            listed = find(question, project) if find else None
            if listed and not listed.points and not listed.opening:
                uncounted = listed.note
            elif listed:
                citer = Citer(project.db, check, bullets=bool(listed.points), watch=watch)
                answer = replace(_answer_of(text, question, citer.result(listed)), mode="mix", reason=reason)
                return replace(answer, note=listed.note, is_answerable=True)
    near = hybrid_search(question.text, question.vector, project, CHUNKS_READ)  # while the reader, which the route needs, is loaded
    mode, reason = _route(question, project) if options.mode == "auto" else (options.mode, "")
    mode, note = _available_mode(project, mode)

    def made(mode: str, cited: CitedAnswer, draft: AnswerDraft, *notes: str) -> Answer:
        said = [note, *notes, _failure_note(budget), _unsupported_note(cited, strict=options.strict)]
        answer = replace(
            _answer_of(text, question, cited), mode=mode, reason=reason, level=draft.level, note=" ".join(n for n in said if n)
        )
        is_answerable = not (draft.is_refused or budget.declined or budget.echoed) and bool(cited.text)
        return replace(answer, is_answerable=is_answerable, confidence=draft.confidence)

    try:
        refusal = await refuse_unrelated(question, near, project) if mode not in PASSAGE_MODES else None
        mode, draft, mode_note = (mode, refusal, "") if refusal else await _draft(mode, question, project)
        if budget.declined or budget.echoed:
            said = await refusal_draft(question, near, project, budget.declined or ECHOED)
            draft = replace(said, note=draft.note, level=draft.level)
    except asyncio.CancelledError:
        if (partial := citer.result()).text:
            keep(made(mode, partial, AnswerDraft(()), "Stopped before its end."))
        raise
    uncounted = "" if draft.short_answer or draft.is_refused else uncounted
    done = made(mode, citer.result(draft), draft, mode_note, draft.note, uncounted, _budget_note(budget, options))
    return replace(done, short_answer=draft.short_answer or None)


async def _prepare_question(text: str, project: Project, options: QueryOptions, budget: QueryBudget, history: Sequence[Answer]) -> Question:
    """The question with its style; a follow-up becomes a standalone question, or that of the last answer if it is about that."""
    question = Question(text, project.embedder.embed([text])[0], options.style or await resolve_answer_style(project), options, budget)
    if not history:
        return question
    if not question.is_extractive and is_about_answer(text, project):
        last = history[-1].standalone_question or history[-1].question
        return replace(question, text=last, vector=project.embedder.embed([last])[0], asked=text, history=tuple(history))
    standalone = await rewrite_standalone(question, history, project)
    return question if standalone == text else replace(question, text=standalone, vector=project.embedder.embed([standalone])[0])


def _llm_usage(project: Project) -> tuple[int, int, int]:
    """Calls, prompt tokens and output tokens of this process."""
    return project.model.calls, project.model.prompt_tokens, project.model.output_tokens


def _answer_of(text: str, question: Question, cited: CitedAnswer) -> Answer:
    said = cited.text or refusal_text(question.text)
    made = Answer(
        text,
        said,
        question.options.mode,
        citations=cited.citations,
        style=question.style,
        standalone_question=question.text,
        unsupported_sentences=cited.count(UNSUPPORTED_STATE),
        related=cited.count(RELATED_STATE),
        contradicted=cited.count(CONTRADICTED_STATE),
        sentences=cited.sentences,
        citation_marks=cited.citation_marks,
        passages=cited.passages,
        conversation=question.options.conversation or 0,
    )
    return _with_selection(made, question.options)


def _store_answer(answer: Answer, project: Project) -> Answer:
    if not project.keep_answers:
        return answer
    try:
        return answers.save_answer(project.db, answer)
    except Exception as error:  # noqa: BLE001 — an index on a read-only disk still answers
        return replace(answer, note=f"{answer.note} The answer could not be stored: {error}.".strip())


def check_question(text: str) -> None:
    """Raises UsageError for a question or query that is empty or too long."""
    if not text.strip():
        raise UsageError("The question is empty.", 'Ask something: localrag ask "What are the main themes?"')
    if any("\ud800" <= c <= "\udfff" for c in text):  # surrogates replace undecodable bytes
        raise UsageError("The question is not valid UTF-8.", 'Ask something: localrag ask "What are the main themes?"')
    if len(text) > MAX_QUESTION_CHARS:
        raise UsageError(
            f"The question has {len(text)} characters; {MAX_QUESTION_CHARS} at most are read.", "Put long texts into a file and index it."
        )


def _check(text: str, options: QueryOptions) -> None:
    check_question(text)
    if options.mode not in (*MODE_FUNCTIONS, "auto"):
        raise UsageError(f"There is no mode {options.mode!r}.", f"Modes: auto, {', '.join(MODE_FUNCTIONS)}")
    if options.style not in ("", "extractive", "abstractive"):
        raise UsageError(f"There is no style {options.style!r}.", "Styles: extractive, abstractive")


async def _draft(mode: str, question: Question, project: Project) -> tuple[str, AnswerDraft, str]:
    """The draft of a mode, or of the next simpler mode if its context does not fit the model or it finds nothing."""
    try:
        draft = await MODE_FUNCTIONS[mode](question, project)
    except ContextTooSmall:
        if mode == "basic":
            raise
        draft, reason = AnswerDraft(()), "The model's context window is too small for this mode"
    else:
        reason = "Nothing was found in this mode"
    simpler_mode = {"global": "mix", "drift": "local", "local": "mix", "mix": "basic", "ts": "basic"}.get(mode)
    if draft.points or simpler_mode is None or question.budget.declined or question.budget.echoed:
        return mode, draft, ""
    failed_note = draft.note
    mode, draft, _ = await _draft(simpler_mode, question, project)
    return mode, draft, f"{reason}, so this is answered in mode {mode}. {failed_note}".strip()


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
    notes += ["The model repeated itself or its sources, so its answer ends there."] * budget.was_repetitive
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
    notes = [f"{_sentence_limit(n)} {description} {treatment}." for state, description in descriptions.items() if (n := cited.count(state))]
    return " ".join([*foreign, *notes, *[f"{_sentence_limit(cited.n_repeated)} repeated; left out."] * bool(cited.n_repeated)])


def _sentence_limit(n: int) -> str:
    return f"{n} sentence{'s' * (n > 1)}"


def _available_mode(project: Project, mode: str) -> tuple[str, str]:
    """The requested mode, or the next simpler one that the index supports, and the reason."""
    run = runs.last_run(project.db)
    remedies = {"running": " It is being built now.", "complete": "", "partial": ""}
    building = remedies.get(run["state"], " Index again to finish it: localrag index PATH") if run else ""
    has_rows = partial(graph.has_rows, project.db)
    if mode in ("global", "drift") and not has_rows("reports"):
        reason = "No reports are written yet" if has_rows("communities") else "The graph has no communities"
        if isinstance(project.db, FilteredDatabase) and graph.has_rows(project.db, "main.reports"):
            reason = "No report quotes the selected documents"
        return ("mix" if has_rows("entities") else "basic"), f"{reason}, so this is answered from the passages.{building}"
    if mode in ("local", "mix") and not has_rows("entities"):
        return "basic", f"The graph has no entities, so this is answered from the nearest passages.{building}"
    return mode, f"The index is not complete.{building}" if building else ""
