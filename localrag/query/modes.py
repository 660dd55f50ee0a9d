"""The query modes: which one a question with mode auto gets, and the next simpler one where that one cannot answer."""

from dataclasses import replace
from functools import partial

from localrag.errors import ContextTooSmall
from localrag.llm.budgets import MIN_BUDGETS
from localrag.project import Project
from localrag.query.basic_search import ask_basic, ask_graph_walk, ask_vector_search
from localrag.query.drift_search import ask_drift
from localrag.query.global_search import ask_global, ask_text_map_reduce
from localrag.query.local_search import ask_local
from localrag.query.question import AnswerDraft, Question
from localrag.query.question_kind import QuestionKind, WholeForm, question_kind, whole_form
from localrag.query.retriever import named_entities
from localrag.query.theme_answers import named_periods
from localrag.store import graph, runs
from localrag.store.filtered import FilteredDatabase
from localrag.text.language import has_few_words_beside

MIN_SURE_GLOBAL = 0.6  # probability from which on a question with a topic or a name is about the documents as a whole
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
SIMPLER_MODES = {"global": "mix", "drift": "local", "local": "mix", "mix": "basic", "ts": "basic"}


def route_question(question: str, project: Project) -> tuple[str, str]:
    """The mode for a question and the reason: `global` for questions about the whole corpus, `mix` for particulars.

    A single short document is answered from its passages (`ts`).
    """
    probabilities = question_kind(question, project)
    kind, named = probabilities.kind, named_entities(question, project)
    is_sure = probabilities.of(QuestionKind.GLOBAL) >= MIN_SURE_GLOBAL
    if kind is QuestionKind.GLOBAL and (is_sure or not (named or whole_form(question, project) is WholeForm.TOPIC)):
        if isinstance(project.db, FilteredDatabase):
            counts = graph.counts(project.db, ["documents", "chunks"])
            if counts["documents"] == 1 and counts["chunks"] <= MIN_BUDGETS.passages:
                return "ts", "it asks about the whole of one short document"
        return "global", "it asks about the documents as a whole"
    if kind is QuestionKind.COMPARISON and len(named_periods(question)) > 1:
        return "global", "it compares periods"
    if not named:
        return "mix", "it asks for something particular"
    names = list(dict.fromkeys(n.text for n in named[:3]))
    first = graph.entities(project.db, [named[0].entity_id])
    if kind is QuestionKind.EXPLANATION and first and first[0].type != "thing" and has_few_words_beside(question, names):
        return "local", f"it asks broadly about {named[0].text}"
    return "mix", f"it names {', '.join(names)}"


def available_mode(project: Project, mode: str) -> tuple[str, str]:
    """The requested mode, or the next simpler one that the index supports, and the reason."""
    run = runs.last_run(project.db)
    remedies = {"running": " It is being built now.", "complete": "", "partial": ""}
    building = remedies.get(run["state"], " Index again to finish it: localrag index PATH") if run else ""
    has_rows = partial(graph.has_rows, project.db)
    if mode in ("global", "drift") and not has_rows("reports" if mode == "drift" else "communities"):
        reason = "No report quotes these documents" if has_rows("communities") else "The graph has no communities"
        return ("mix" if has_rows("entities") else "basic"), f"{reason}, so this is answered from the passages.{building}"
    if mode in ("local", "mix") and not has_rows("entities"):
        return "basic", f"The graph has no entities, so this is answered from the nearest passages.{building}"
    return mode, f"The index is not complete.{building}" if building else ""


async def draft_in_mode(question: Question, project: Project) -> AnswerDraft:
    """The draft of the question's mode, or of the next simpler mode if its context does not fit the model or it finds nothing."""
    mode, failure = question.mode, ("", "")
    while True:
        try:
            draft, reason = await MODE_FUNCTIONS[mode](question, project), "Nothing was found in this mode"
        except ContextTooSmall:
            if mode == "basic":
                raise
            draft, reason = AnswerDraft(()), "The model's context window is too small for this mode"
        if draft.points or mode not in SIMPLER_MODES or question.budget.declined or question.budget.echoed:
            break
        mode, failure = SIMPLER_MODES[mode], failure if failure[0] else (reason, draft.note)
    note = f"{failure[0]}, so this is answered in mode {mode}. {failure[1]}".strip() if failure[0] else ""
    return replace(draft, mode=mode, note=f"{note} {draft.note}".strip())
