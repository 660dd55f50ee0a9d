"""The study of `localrag eval answers`: the paper's comparison of answers, in a folder that an interrupted run continues in.

The folder has `answers.jsonl`, `verdicts.jsonl`, `study.json`, and a copy of the index from the start. All results are computed from these
rows, and missing or failed ones are counted.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from localrag.engine.embedder import open_embedder
from localrag.engine.settings import EngineOptions
from localrag.errors import UsageError
from localrag.eval.conditions import StudyCondition, answer_row, conditions, measure_context
from localrag.eval.datasets import FileRow, append_jsonl, latest_per_key, read_jsonl
from localrag.eval.judge import BUNDLED_JUDGE, PreferenceModel, bundled_judge, judge_answers, key_of, name_of, plan_comparisons
from localrag.eval.win_rates import judge_figures, warnings_about, win_rates
from localrag.llm.model import ChatModel
from localrag.llm.prompts import DOMAIN_FILE, read_domain, write_domain
from localrag.model_files import find_chat_model, find_embedder
from localrag.project import Project, find_index, open_for_query, resolve_answer_style
from localrag.query.question import QueryOptions
from localrag.records import to_row
from localrag.store import documents
from localrag.store.database import copy_database
from localrag.store.erasure import STUDY_RECORD_FILE, register_study
from localrag.store.llm_cache import SqliteLlmCache
from localrag.store.location import DATABASE_FILE
from localrag.store.opening import open_index, writer_lock
from localrag.system.files import ensure_private_folder, write_atomically

ReportProgress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class StudyPlan:
    """The settings of a study: see the options of `localrag eval answers`."""

    questions: tuple[str, ...]
    conditions: tuple[str, ...]
    repeats: int
    options: QueryOptions
    model: str | None
    judge: str | None
    engine: EngineOptions


def read_questions(file: Path) -> tuple[str, ...]:
    """The questions of a text file, one a line, each once. Raises UsageError."""
    hint = "Write one question a line, or let localrag suggest some: localrag questions -n 10 > questions.txt"
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise UsageError(f"{file} contains no readable questions: {error}.", hint) from error
    if not (questions := tuple(dict.fromkeys(line.strip() for line in lines if line.strip()))):
        raise UsageError(f"{file} contains no question.", hint)
    return questions


async def run_study(index: Path | None, folder: Path, plan: StudyPlan, on_progress: ReportProgress) -> None:
    """Answer and judge everything that `folder` does not have yet or that failed. Raises UsageError, NoIndex, IndexBusy, ModelError."""
    index_copy = ensure_private_folder(folder) / "index"
    _keep_index(index, index_copy, on_progress)
    with writer_lock(index_copy), open_for_query(index_copy, model=plan.model, engine=plan.engine) as project:
        selected = conditions(plan.conditions, project)
        options = replace(plan.options, style=plan.options.style or await resolve_answer_style(project))
        _check_same_plan(folder, plan, project, options)
        on_progress("Measuring what each condition reads")
        rows = [asdict(c) | await measure_context(c, plan.questions, project, options) for c in selected]
        save_study(folder, conditions=rows, questions=plan.questions, documents=len(documents.document_paths(project.db)))
        await _answer_in_modes(folder, selected, plan, project, options, on_progress)
        project.model.close()
        if plan.judge == BUNDLED_JUDGE or (plan.judge is None and await project.model.is_small()):
            await _judge(folder, selected, plan, bundled_judge(open_embedder(find_embedder()).embed), on_progress)
            return
        judge = ChatModel(SqliteLlmCache(project.db), find_chat_model(plan.judge) if plan.judge else project.model.file, plan.engine)
        try:
            await _judge(folder, selected, plan, judge, on_progress)
        finally:
            judge.close()


def _keep_index(index: Path | None, index_copy: Path, on_progress: ReportProgress) -> None:
    """Copy the index into the study, so that answers do not change with the index, nor its conversations with the study."""
    if (index_copy / DATABASE_FILE).exists():
        on_progress(f"The study goes on with its own copy of the index: {index_copy}")
        return
    folder = find_index(index)
    ensure_private_folder(index_copy)
    db = open_index(folder)
    try:
        if (folder / DOMAIN_FILE).exists():
            write_domain(index_copy, read_domain(folder))
        register_study(db, index_copy.parent)  # before the copy is made, so that `rm` finds it
        copy_database(db, index_copy / DATABASE_FILE)
    finally:
        db.close()


def _check_same_plan(folder: Path, plan: StudyPlan, project: Project, options: QueryOptions) -> None:
    """Check that the study's settings are those it was started with. Raises UsageError."""
    requested = {"model": project.model.file.name, "style": options.style, "response_type": options.response_type, "seed": options.seed}
    study = read_study(folder)
    if any(study.get(key, value) != value for key, value in requested.items()):
        before = ", ".join(f"{key} {study[key]}" for key in requested if study[key] != requested[key])
        raise UsageError(
            f"The answers in {folder} were made with other settings: {before}.", "Use the same settings, or another folder: --out DIR"
        )
    save_study(folder, **requested, fingerprint=project.model.file.fingerprint, repeats=plan.repeats)


def read_study(folder: Path) -> dict[str, Any]:
    """The stored facts of a study; empty for a new one. Raises UsageError."""
    file = folder / STUDY_RECORD_FILE
    try:
        return dict(json.loads(file.read_text(encoding="utf-8"))) if file.exists() else {}
    except (OSError, ValueError, TypeError) as error:
        raise UsageError(f"{file} cannot be read: {error}.", "Delete it; the same command writes it again.") from error


def save_study(folder: Path, **values: Any) -> None:
    """Add facts to a study."""
    write_atomically(folder / STUDY_RECORD_FILE, json.dumps(read_study(folder) | values, ensure_ascii=False, indent=1).encode())


async def _answer_in_modes(
    folder: Path,
    selected: Sequence[StudyCondition],
    plan: StudyPlan,
    project: Project,
    options: QueryOptions,
    on_progress: ReportProgress,
) -> None:
    done = {_place(r) for r in read_jsonl(folder / "answers.jsonl") if "error" not in r}
    pending = [(q, c) for q in plan.questions for c in selected if not c.same_as and (q, c.name) not in done]
    with append_jsonl(folder / "answers.jsonl") as append:
        for n, (question, condition) in enumerate(pending, 1):
            on_progress(f"Answering {n} of {len(pending)}: {condition.name}: {question}")
            append(await answer_row(question, condition, project, options))


async def _judge(
    folder: Path,
    selected: Sequence[StudyCondition],
    plan: StudyPlan,
    judge: ChatModel | PreferenceModel,
    on_progress: ReportProgress,
) -> None:
    save_study(folder, judge=name_of(judge))
    done = {key_of(r) for r in read_jsonl(folder / "verdicts.jsonl") if "error" not in r}
    given = {_place(r): r["answer"] for r in answer_rows(folder) if "answer" in r}
    with append_jsonl(folder / "verdicts.jsonl") as append:
        for n, question in enumerate(plan.questions, 1):
            answers = {c.name: given[question, c.name] for c in selected if (question, c.name) in given}
            wanted = [p for p in plan_comparisons(question, list(answers), plan.repeats) if p.key(name_of(judge)) not in done]
            on_progress(f"Judging question {n} of {len(plan.questions)}: {len(wanted)} verdicts")
            await judge_answers(wanted, answers, judge, append)


def answer_rows(folder: Path) -> list[FileRow]:
    """Every answer of a study, a failed one as a row with its error."""
    return latest_per_key(read_jsonl(folder / "answers.jsonl"), _place)


def _place(row: FileRow) -> tuple[str, str]:
    return row["question"], row["condition"]


def study_results(folder: Path) -> dict[str, Any]:
    """All results of a study: conditions with their measures, win rates, the judge, warnings."""
    study = read_study(folder)
    questions, repeats = study["questions"], study["repeats"]
    names = [c["name"] for c in study["conditions"] if not c["same_as"]]
    verdicts = [
        r
        for r in latest_per_key(read_jsonl(folder / "verdicts.jsonl"), key_of)
        if r["question"] in questions
        and r["judge"] == study.get("judge")
        and r["repeat"] < repeats
        and {r["first"], r["second"]} <= {*names}
    ]
    answers = [r for r in answer_rows(folder) if r["question"] in questions]
    rated = [_measures(c, [r for r in answers if r["condition"] == c["name"]], len(questions)) for c in study["conditions"]]
    judge = judge_figures(verdicts)
    expected = 4 * len(names) * (len(names) - 1) * repeats * len(questions)
    missing = expected - len(verdicts)
    return {
        "study": {k: v for k, v in study.items() if k != "conditions"} | {"questions": len(questions)},
        "conditions": rated,
        "judge": to_row(judge, {"first_position_wins": "first", "agreement": "agrees"}),
        "wins": [asdict(r) for r in win_rates(verdicts, names, questions, repeats)],
        "warnings": [
            *_gaps(rated, len(questions)),
            *[f"{missing} of {expected} verdicts are missing: the same command gives them."] * (missing > 0),
            *warnings_about(judge),
        ],
    }


def _measures(condition: FileRow, rows: Sequence[FileRow], n_questions: int) -> FileRow:
    if condition["same_as"]:
        return condition | {"answered": None}
    answers = [r for r in rows if "answer" in r]
    sentences = sum(r["sentences"] for r in answers)
    return condition | {
        "answered": len(answers),
        "failed": len(rows) - len(answers),
        "missing": n_questions - len(rows),
        "fell_back": sum(r["mode"] != condition["mode"] for r in answers),
        "supported": round(100 * sum(r["supported"] for r in answers) / sentences, 1) if sentences else None,
        **{name: round(float(np.mean([r[name] for r in answers])), 2) if answers else None for name in ("calls", "tokens", "seconds")},
    }


def _gaps(rated: Sequence[FileRow], questions: int) -> list[str]:
    gaps = []
    for c in rated:
        if c["same_as"]:
            gaps.append(f"{c['name']} is {c['same_as']} here: the communities have no deeper level.")
            continue
        gap_counts = ((c["failed"], "failed"), (c["missing"], "are missing"), (c["fell_back"], "were given in a simpler mode"))
        parts = [f"{n} {label}" for n, label in gap_counts if n]
        if parts:
            gaps.append(f"{c['name']}: of {questions} answers {', '.join(parts)}.")
    return gaps
