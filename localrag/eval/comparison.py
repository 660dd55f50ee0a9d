"""The study of `localrag eval answers`: the paper's comparison of answers, in a folder that an interrupted run continues in.

The folder has `questions.json` (generated once, editable), `answers.jsonl`, `statements.jsonl`, `verdicts.jsonl`, `study.json`, and a copy
of the index from the start. All results are computed from these rows, and missing or failed ones are counted. The report is one HTML file
without external resources; plots are also saved as SVG and PNG.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from localrag.engine.embedder import open_embedder
from localrag.engine.settings import EngineOptions
from localrag.errors import UsageError
from localrag.eval.conditions import StudyCondition, answer_row, conditions, measure_context
from localrag.eval.datasets import FileRow, append_jsonl, latest_per_key, read_jsonl
from localrag.eval.judge import (
    BUNDLED_JUDGE,
    CLUSTER_THRESHOLDS,
    CRITERIA,
    PreferenceModel,
    agreement,
    bundled_judge,
    judge_answers,
    key_of,
    name_of,
    plan_comparisons,
    statements_row,
)
from localrag.eval.questions import GeneratedQuestion, generate_questions, read_questions, save_questions, template_questions
from localrag.eval.win_rates import interval, judge_figures, matrix, mean_rates, warnings_about, win_rates
from localrag.llm.grammar import DEFAULT_ENTITY_TYPE
from localrag.llm.model import ChatModel
from localrag.llm.prompts import DOMAIN_FILE, read_domain, write_domain
from localrag.model_files import find_chat_model, find_embedder
from localrag.project import Project, find_index, open_for_query, resolve_answer_style
from localrag.query.question import QueryOptions
from localrag.records import to_row
from localrag.store import documents, graph
from localrag.store.database import copy_database
from localrag.store.erasure import STUDY_RECORD_FILE, register_study
from localrag.store.llm_cache import SqliteLlmCache
from localrag.store.location import DATABASE_FILE
from localrag.store.opening import open_index, writer_lock
from localrag.system.files import ensure_private_folder, write_atomically
from localrag.text.quotes import EmbedSentences
from localrag.text.sentences import join_names

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ReportProgress = Callable[[str], None]
MAX_SUBJECTS = 40  # entities as subjects of generated questions, the most connected


@dataclass(frozen=True, slots=True)
class StudyPlan:
    """The settings of a study: see the options of `localrag eval answers`."""

    about: str
    users: int
    questions: Path | None
    conditions: tuple[str, ...]
    repeats: int
    samples: int
    options: QueryOptions
    model: str | None
    judge: str | None
    engine: EngineOptions


async def run_study(index: Path | None, folder: Path, plan: StudyPlan, on_progress: ReportProgress) -> None:
    """Answer and judge everything that `folder` does not have yet or that failed. Raises UsageError, NoIndex, IndexBusy, ModelError."""
    index_copy = ensure_private_folder(folder) / "index"
    _keep_index(index, index_copy, on_progress)
    with writer_lock(index_copy), open_for_query(index_copy, model=plan.model, engine=plan.engine) as project:
        selected = conditions(plan.conditions, project)
        options = replace(plan.options, style=plan.options.style or await resolve_answer_style(project))
        _check_same_plan(folder, plan, project, options)
        questions = await _questions(folder, plan, project, on_progress)
        await _describe(folder, selected, questions, plan, project, options, on_progress)
        await _answer_condition(folder, selected, questions, plan, project, options, on_progress)
        project.model.close()
        own_scores = plan.judge == BUNDLED_JUDGE or (plan.judge is None and await project.model.is_small())
        model = project.model.file if plan.judge in (None, BUNDLED_JUDGE) else find_chat_model(plan.judge)
        judge = ChatModel(SqliteLlmCache(project.db), model, plan.engine)
        try:
            await _count_statements(folder, questions, judge, on_progress)
            scores = bundled_judge(open_embedder(find_embedder()).embed) if own_scores else judge
            await _judge(folder, selected, questions, plan.repeats, scores, on_progress)
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


async def _questions(folder: Path, plan: StudyPlan, project: Project, on_progress: ReportProgress) -> list[GeneratedQuestion]:
    """The study's questions: the given ones, the stored ones, or new ones."""
    file = folder / "questions.json"
    if plan.questions is not None:
        questions = read_questions(plan.questions)
        save_questions(file, plan.about, str(plan.questions), questions)
        return questions
    if not file.exists():
        about = plan.about or project.settings.domain.description or _described_by_reports(project)
        if await project.model.is_small():
            on_progress("Questions are made from frames: the model is too small to write them")
            named = sorted((e for e in graph.entities(project.db) if e.type != DEFAULT_ENTITY_TYPE), key=lambda e: (-e.degree, e.name))
            save_questions(file, about, "frames", template_questions(plan.users, [e.name for e in named[:MAX_SUBJECTS]]))
        else:
            on_progress(f"Making {plan.users**3} questions: {plan.users} users, {plan.users} tasks each, {plan.users} questions each")
            save_questions(file, about, project.model.file.name, await generate_questions(about, plan.users, project.model))
    return read_questions(file)


def _described_by_reports(project: Project) -> str:
    covered = graph.coverage_of(project.db, graph.report_communities_at_level(project.db, 0))
    titles = [r.title for r in graph.reports_of(project.db, sorted(covered, key=lambda i: -covered[i])[:5])]
    n = len(documents.document_paths(project.db))
    return f"{n} document{'s' * (n != 1)}" + (f" about {join_names(titles)}." if titles else ".")


async def _describe(
    folder: Path,
    selected: Sequence[StudyCondition],
    questions: Sequence[GeneratedQuestion],
    plan: StudyPlan,
    project: Project,
    options: QueryOptions,
    on_progress: ReportProgress,
) -> None:
    """Store how much each condition reads."""
    on_progress("Measuring what each condition reads")
    rows = [asdict(c) | await measure_context(c, questions, project, options) for c in selected]
    save_study(folder, conditions=rows, documents=len(documents.document_paths(project.db)), samples=plan.samples)


async def _answer_condition(
    folder: Path,
    selected: Sequence[StudyCondition],
    questions: Sequence[GeneratedQuestion],
    plan: StudyPlan,
    project: Project,
    options: QueryOptions,
    on_progress: ReportProgress,
) -> None:
    samples = plan.samples if options.style == "abstractive" else 0  # extractive answers are the same every time
    done = {answer_key(r) for r in read_jsonl(folder / "answers.jsonl") if "error" not in r}
    wanted = [(q, c, n) for q in questions for c in selected if not c.same_as for n in range(1 + samples)]
    pending = [w for w in wanted if (w[0].id, w[1].name, w[2]) not in done]
    with append_jsonl(folder / "answers.jsonl") as append:
        for n, (question, condition, sample) in enumerate(pending, 1):
            on_progress(f"Answering {n} of {len(pending)}: {condition.name}: {question.text}")
            append(await answer_row(question, condition, project, options, sample))


async def _count_statements(folder: Path, questions: Sequence[GeneratedQuestion], judge: ChatModel, on_progress: ReportProgress) -> None:
    """Count the statements of every answer: split by the judge, or by sentences if it is too small for that."""
    splitter = None if await judge.is_small() else judge
    done = {(r["question"], r["condition"]) for r in read_jsonl(folder / "statements.jsonl") if "error" not in r}
    pending = [r for r in answers_of(folder, questions).values() if (r["question"], r["condition"]) not in done]
    with append_jsonl(folder / "statements.jsonl") as append:
        for n, row in enumerate(pending, 1):
            on_progress(f"Counting statements {n} of {len(pending)}")
            append(await statements_row(row, splitter))


async def _judge(
    folder: Path,
    selected: Sequence[StudyCondition],
    questions: Sequence[GeneratedQuestion],
    repeats: int,
    judge: ChatModel | PreferenceModel,
    on_progress: ReportProgress,
) -> None:
    save_study(folder, judge=name_of(judge))
    done = {key_of(r) for r in read_jsonl(folder / "verdicts.jsonl") if "error" not in r}
    given = answers_of(folder, questions)
    with append_jsonl(folder / "verdicts.jsonl") as append:
        for n, question in enumerate(questions, 1):
            answers = {c.name: given[question.id, c.name]["answer"] for c in selected if (question.id, c.name) in given}
            wanted = [p for p in plan_comparisons(question, list(answers), repeats) if p.key(name_of(judge)) not in done]
            on_progress(f"Judging question {n} of {len(questions)}: {len(wanted)} verdicts")
            await judge_answers(wanted, answers, judge, append)


def answer_key(row: FileRow) -> tuple[str, str, int]:
    """The key of an answer row: question id, condition, number of the sample."""
    return row["question"], row["condition"], row["sample"]


def answer_rows(folder: Path) -> list[FileRow]:
    """Every answer of a study, a failed one as a row with its error."""
    return latest_per_key(read_jsonl(folder / "answers.jsonl"), answer_key)


def answers_of(folder: Path, questions: Iterable[GeneratedQuestion], sample: int = 0) -> dict[tuple[str, str], FileRow]:
    """The answers without errors, by question id and condition."""
    asked = {q.id for q in questions}
    rows = answer_rows(folder)
    return {(r["question"], r["condition"]): r for r in rows if r["question"] in asked and r["sample"] == sample and "answer" in r}


def samples_of(folder: Path) -> dict[tuple[str, str], list[str]]:
    """The sampled answers, by question id and condition."""
    samples: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for row in answer_rows(folder):
        if row.get("sample") and "answer" in row:
            samples[row["question"], row["condition"]].append(row["answer"])
    return samples


def study_results(folder: Path, embed: Callable[[], EmbedSentences]) -> dict[str, Any]:
    """All results of a study: conditions with their measures, win rates, the judge, warnings.

    `embed` opens the embedder, if there are sampled answers. Raises UsageError if `folder` has no study.
    """
    study = read_study(folder)
    if "conditions" not in study:
        raise UsageError(f"There is no study in {folder}.", f"Make one: localrag eval answers --out {folder}")
    questions = read_questions(folder / "questions.json")
    question_ids = [q.id for q in questions]
    names = [c["name"] for c in study["conditions"] if not c["same_as"]]
    verdicts = [r for r in _verdicts(folder) if r["question"] in question_ids and r["judge"] == study.get("judge")]
    verdicts = [r for r in verdicts if r["first"] in names and r["second"] in names and r["repeat"] < study["repeats"]]
    answers, split = answers_of(folder, questions), latest_per_key(read_jsonl(folder / "statements.jsonl"), _place)
    failed = {_place(r) for r in answer_rows(folder) if "error" in r and not r["sample"]}
    drawn = samples_of(folder) if study.get("samples") else {}
    rated = []
    for c in study["conditions"]:
        answers_of_condition = {q: r for (q, name), r in answers.items() if name == c["name"]}
        lost = sum((q, c["name"]) in failed for q in question_ids)
        statements = [r for r in split if r["condition"] == c["name"] and r["question"] in answers_of_condition]
        rated.append(
            _measures(
                c,
                answers_of_condition,
                lost,
                statements,
                len(question_ids),
                {q: drawn[q, c["name"]] for q in answers_of_condition if (q, c["name"]) in drawn},
                embed,
            )
        )
    judge = judge_figures(verdicts)
    rates = win_rates(verdicts, names, question_ids, study["repeats"])
    return {
        "study": {k: v for k, v in study.items() if k != "conditions"} | {"questions": len(questions)},
        "conditions": rated,
        "judge": to_row(judge, {"first_position_wins": "first", "agreement": "agrees"}),
        "wins": [asdict(r) for r in rates],
        "warnings": [
            *_gaps(rated, len(questions)),
            *_missing_verdicts(verdicts, names, question_ids, study["repeats"]),
            *warnings_about(judge),
        ],
    }


def _verdicts(folder: Path) -> list[FileRow]:
    return latest_per_key(read_jsonl(folder / "verdicts.jsonl"), key_of)


def _place(row: FileRow) -> tuple[str, str]:
    return row["question"], row["condition"]


def _measures(
    condition: FileRow,
    answers: dict[str, FileRow],
    failed: int,
    split: Sequence[FileRow],
    n_questions: int,
    drawn: dict[str, list[str]],
    embed: Callable[[], EmbedSentences],
) -> FileRow:
    """The measures of a condition: means over the answered questions; None if not measured."""
    if condition["same_as"]:
        return condition | {"answered": None}
    good = [r for r in split if "error" not in r]
    counts = np.array([len(r["statements"]) for r in good])
    sentences = sum(r["sentences"] for r in answers.values())
    agreeing = [agreement(answers[q]["answer"], samples, embed()) for q, samples in drawn.items()]
    measured = [a for a in agreeing if a is not None]
    low, high = interval(counts)
    return condition | {
        "answered": len(answers),
        "failed": failed,
        "missing": n_questions - len(answers) - failed,
        "fell_back": sum(r["mode"] != condition["mode"] for r in answers.values()),
        "statements": _mean(list(counts)),
        "statements_low": low,
        "statements_high": high,
        "clusters": {str(t): _mean([r["clusters"][str(t)] for r in good]) for t in CLUSTER_THRESHOLDS},
        "statements_failed": len(split) - len(good),
        "supported": round(100 * sum(r["supported"] for r in answers.values()) / sentences, 1) if sentences else None,
        "agreement": round(100 * float(np.mean(measured)), 1) if measured else None,
        "calls": _mean([r["calls"] for r in answers.values()]),
        "tokens": _mean([r["tokens"] for r in answers.values()]),
        "seconds": _mean([r["seconds"] for r in answers.values()], 2),
    }


def _mean(values: Sequence[float], places: int = 1) -> float | None:
    return round(float(np.mean(values)), places) if len(values) else None


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
        if c["statements_failed"]:
            gaps.append(f"{c['name']}: the statements of {c['statements_failed']} answers could not be counted.")
    return gaps


def _missing_verdicts(verdicts: Sequence[FileRow], names: Sequence[str], question_ids: Sequence[str], repeats: int) -> list[str]:
    expected = 4 * len(names) * (len(names) - 1) * repeats * len(question_ids)
    short = expected - len(verdicts)
    return [f"{short} of {expected} verdicts are missing: the same command gives them."] if short > 0 else []


def per_question(folder: Path) -> list[dict[str, Any]]:
    """Every question with its answers and verdicts, for reading."""
    study, questions = read_study(folder), read_questions(folder / "questions.json")
    answers = answers_of(folder, questions)
    failures = {_place(r): r["error"] for r in answer_rows(folder) if "error" in r and not r["sample"]}
    by_question: defaultdict[str, list[FileRow]] = defaultdict(list)
    for row in _verdicts(folder):
        if row["judge"] == study.get("judge"):
            by_question[row["question"]].append(row)
    names = [c["name"] for c in study["conditions"] if not c["same_as"]]
    return [
        {
            "user": q.user,
            "task": q.task,
            "text": q.text,
            "answers": {n: answers.get((q.id, n)) or {"error": failures.get((q.id, n), "It was not given yet.")} for n in names},
            "verdicts": _grouped(by_question[q.id], names),
        }
        for q in questions
    ]


def _grouped(rows: Sequence[FileRow], names: Sequence[str]) -> list[tuple[str, list[FileRow]]]:
    """Group the verdicts by pair of conditions."""
    groups: defaultdict[tuple[str, ...], list[FileRow]] = defaultdict(list)
    for row in rows:
        if row["first"] in names and row["second"] in names:
            groups[tuple(sorted((row["first"], row["second"]), key=names.index))].append(row)
    return [(f"{pair[0]} – {pair[1]}", groups[pair]) for pair in sorted(groups, key=lambda pair: [names.index(n) for n in pair])]


def heat_maps(wins: Sequence[dict[str, Any]], names: Sequence[str]) -> "Figure":
    """A map for each criterion: how often the condition of a row beat that of a column, in percent."""
    from matplotlib.figure import Figure

    side = 1.2 + 0.55 * len(names)
    figure = Figure(figsize=(2 * side, 2 * side), layout="constrained")
    for axes, criterion in zip(figure.subplots(2, 2).flat, CRITERIA, strict=True):
        shown = matrix(wins, names, criterion)
        axes.imshow(shown, cmap="RdBu", vmin=0, vmax=100)
        axes.set_xticks(range(len(names)), names, fontsize=8)
        axes.set_yticks(range(len(names)), names, fontsize=8)
        axes.set_title(criterion, fontsize=10)
        for (i, j), rate in np.ndenumerate(shown):
            if i != j:
                text = "–" if np.isnan(rate) else f"{rate:.0f}"
                axes.text(j, i, text, ha="center", va="center", fontsize=8, color="white" if abs(rate - 50) > 30 else "black")
    return figure


def tokens_against_quality(conditions: Sequence[dict[str, Any]], wins: Sequence[dict[str, Any]]) -> "Figure":
    """Plot tokens read against the mean win rate for comprehensiveness, and against the number of statements."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    shown = [c for c in conditions if not c["same_as"]]
    rates = mean_rates(wins, [c["name"] for c in shown])
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    drawn = (
        ("mean win rate, comprehensiveness (%)", [rates[c["name"]]["comprehensiveness"] for c in shown]),
        ("statements of an answer", [c["statements"] for c in shown]),
    )
    for axes, (label, values) in zip(figure.subplots(1, 2), drawn, strict=True):
        for c, value in zip(shown, values, strict=True):
            if value is not None:
                x = max(1, c["context_tokens"])
                axes.scatter(x, value, color="#2b6cb0")
                axes.annotate(c["name"], (x, value), xytext=(4, 4), textcoords="offset points", fontsize=8)
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 3)))
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_xlabel("tokens read for a question", fontsize=9)
        axes.set_ylabel(label, fontsize=9)
    return figure


def save_plots(folder: Path, found: dict[str, Any]) -> dict[str, str]:
    """Save every plot as PNG and SVG to `folder`; returns the SVG texts by name."""
    from matplotlib import rc_context

    folder.mkdir(parents=True, exist_ok=True)
    names = [c["name"] for c in found["conditions"] if not c["same_as"]]
    figures = {
        "win-rates": heat_maps(found["wins"], names),
        "tokens-against-quality": tokens_against_quality(found["conditions"], found["wins"]),
    }
    texts = {}
    for name, figure in figures.items():
        with rc_context({"svg.fonttype": "none", "svg.hashsalt": "localrag"}):
            figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
        figure.savefig(folder / f"{name}.png", dpi=150)
        svg = (folder / f"{name}.svg").read_text(encoding="utf-8")
        texts[name] = svg[svg.index("<svg") :]
    return texts


TEMPLATE = Path(__file__).parent / "page.html"


def write_page(folder: Path, found: dict[str, Any]) -> Path:
    """Write `report.html` and the plots; returns the page's path. `found`: of `study_results`."""
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    names = [c["name"] for c in found["conditions"] if not c["same_as"]]
    plots = {name: Markup(svg) for name, svg in save_plots(folder / "plots", found).items()}
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    page = environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render(
        found,
        names=names,
        criteria=CRITERIA,
        rates=mean_rates(found["wins"], names),
        matrices={c: [[_cell(v) for v in row] for row in matrix(found["wins"], names, c)] for c in CRITERIA},
        plots=plots,
        asked=per_question(folder),
        figure=_figure,
    )
    write_atomically(folder / "report.html", page.encode())
    return folder / "report.html"


def _cell(rate: float) -> tuple[str, str]:
    """The text and colour of a win rate: blue above half, red below."""
    if rate != rate:  # NaN: not measured  # noqa: PLR0124
        return "–", "transparent"
    strength = abs(rate - 50) / 50
    return f"{rate:.0f}", f"rgba({'43,108,176' if rate > 50 else '197,48,48'},{0.85 * strength:.2f})"


def _figure(value: float | None, unit: str = "") -> str:
    return "–" if value is None else f"{value:,}{unit}"
