"""`localrag eval answers`: the paper's comparison of answers in a folder that a stopped run goes on with.

It holds `questions.json` (made once, yours to edit), `answers.jsonl`, `statements.jsonl`, `verdicts.jsonl`, `study.json`, and the index as
it was when the study began.
"""

import json
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from localrag.engine.embedding.embedder import open_embedder
from localrag.engine.settings import EngineOptions
from localrag.errors import UsageError
from localrag.eval.activities import Asked, load_questions, make_questions, save_questions
from localrag.eval.bundled_judge import NAME, Prefers, bundled_judge
from localrag.eval.conditions import Condition, answer_row, conditions, context_of
from localrag.eval.frames import framed_questions
from localrag.eval.judge import give_verdicts, key_of, name_of, pairings
from localrag.eval.row_file import Row, appending, latest, read_rows
from localrag.eval.statements import statements_row
from localrag.llm.domain import FILE_NAME as DOMAIN_FILE
from localrag.llm.grammar import THING
from localrag.llm.model import Model
from localrag.models import find_chat_model, find_embedder
from localrag.opening import find_index, open_for_questions
from localrag.project import Project, choose_style
from localrag.query.answer import Options
from localrag.store import corpus, extent, graph
from localrag.store.ledger import CallLedger
from localrag.store.names import FILE_NAME
from localrag.store.schema import copy_database, open_index, writer_lock
from localrag.store.studies import RECORD, register
from localrag.system.files import private_folder, replace_file
from localrag.text.plain import enumeration

Tell = Callable[[str], None]
SUBJECTS = 40  # entities that questions may be about, the most connected


@dataclass(frozen=True, slots=True)
class Plan:
    """What is compared how: see the options of `localrag eval answers`."""

    about: str
    users: int
    questions: Path | None
    conditions: tuple[str, ...]
    repeats: int
    samples: int
    options: Options
    model: str | None
    judge: str | None
    engine: EngineOptions


async def run_study(index: Path | None, folder: Path, plan: Plan, tell: Tell) -> None:
    """Answer and judge everything that is not in `folder` yet or failed. Raises UsageError, NoIndex, IndexBusy, ModelError."""
    own = private_folder(folder) / "index"
    _keep_index(index, own, tell)
    with writer_lock(own), open_for_questions(own, model=plan.model, engine=plan.engine) as project:
        found = conditions(plan.conditions, project)
        options = replace(plan.options, style=plan.options.style or await choose_style(project))
        _bind(folder, plan, project, options)
        questions = await _questions(folder, plan, project, tell)
        await _describe(folder, found, questions, plan, project, options, tell)
        await _answer(folder, found, questions, plan, project, options, tell)
        project.model.close()
        own_scores = plan.judge == NAME or (plan.judge is None and await project.model.is_small())
        model = project.model.file if plan.judge in (None, NAME) else find_chat_model(plan.judge)
        judge = Model(CallLedger(project.db), model, plan.engine)
        try:
            await _split(folder, questions, judge, tell)
            scores = bundled_judge(open_embedder(find_embedder()).embed) if own_scores else judge
            await _judge(folder, found, questions, plan.repeats, scores, tell)
        finally:
            judge.close()


def _keep_index(index: Path | None, own: Path, tell: Tell) -> None:
    """Copy the index, as it is at this moment, into the study: answers must not change with it, nor its conversations with them."""
    if (own / FILE_NAME).exists():
        tell(f"The study goes on with its own copy of the index: {own}")
        return
    folder = find_index(index)
    private_folder(own)
    db = open_index(folder)
    try:
        if (folder / DOMAIN_FILE).exists():
            shutil.copy(folder / DOMAIN_FILE, own / DOMAIN_FILE)
        register(db, own.parent)  # before the copy is made, so that `rm` finds it
        copy_database(db, own / FILE_NAME)
    finally:
        db.close()


def _bind(folder: Path, plan: Plan, project: Project, options: Options) -> None:
    """Hold the study to one way of answering. Raises UsageError where it was begun with another."""
    asked = {"model": project.model.file.name, "style": options.style, "response_type": options.response_type, "seed": options.seed}
    known = read_study(folder)
    if any(known.get(key, value) != value for key, value in asked.items()):
        before = ", ".join(f"{key} {known[key]}" for key in asked if known[key] != asked[key])
        raise UsageError(f"The answers in {folder} were given otherwise: {before}.", "Ask the same way, or use another folder: --out DIR")
    save_study(folder, **asked, fingerprint=project.model.file.fingerprint, repeats=plan.repeats)


def read_study(folder: Path) -> dict[str, Any]:
    """What is known of a study; empty where none was begun. Raises UsageError."""
    file = folder / RECORD
    try:
        return dict(json.loads(file.read_text(encoding="utf-8"))) if file.exists() else {}
    except (OSError, ValueError, TypeError) as error:
        raise UsageError(f"{file} cannot be read: {error}.", "Delete it; the same command writes it again.") from error


def save_study(folder: Path, **values: Any) -> None:
    """Add to what is known of a study."""
    replace_file(folder / RECORD, json.dumps(read_study(folder) | values, ensure_ascii=False, indent=1).encode())


async def _questions(folder: Path, plan: Plan, project: Project, tell: Tell) -> list[Asked]:
    """The study's questions: those given, those it has, or new ones."""
    file = folder / "questions.json"
    if plan.questions is not None:
        given = load_questions(plan.questions)
        save_questions(file, plan.about, str(plan.questions), given)
        return given
    if not file.exists():
        about = plan.about or project.settings.domain.about or _described_by_reports(project)
        if await project.model.is_small():
            tell("Questions are made from frames: the model is too small to write them")
            named = sorted((e for e in graph.entities(project.db) if e.type != THING), key=lambda e: (-e.degree, e.name))
            save_questions(file, about, "frames", framed_questions(plan.users, [e.name for e in named[:SUBJECTS]]))
        else:
            tell(f"Making {plan.users**3} questions: {plan.users} users, {plan.users} tasks each, {plan.users} questions each")
            save_questions(file, about, project.model.file.name, await make_questions(about, plan.users, project.model))
    return load_questions(file)


def _described_by_reports(project: Project) -> str:
    covered = extent.coverage_of(project.db, graph.reported_at(project.db, 0))
    titles = [r.title for r in graph.reports_of(project.db, sorted(covered, key=lambda i: -covered[i])[:5])]
    n = len(corpus.document_paths(project.db))
    return f"{n} document{'s' * (n != 1)}" + (f" about {enumeration(titles)}." if titles else ".")


async def _describe(
    folder: Path, found: Sequence[Condition], questions: Sequence[Asked], plan: Plan, project: Project, options: Options, tell: Tell
) -> None:
    """Keep what each condition reads."""
    tell("Measuring what each condition reads")
    rows = [asdict(c) | await context_of(c, questions, project, options) for c in found]
    save_study(folder, conditions=rows, documents=len(corpus.document_paths(project.db)), samples=plan.samples)


async def _answer(
    folder: Path, found: Sequence[Condition], questions: Sequence[Asked], plan: Plan, project: Project, options: Options, tell: Tell
) -> None:
    samples = plan.samples if options.style == "abstractive" else 0  # extractive answers are the same every time
    done = {answer_key(r) for r in read_rows(folder / "answers.jsonl") if "error" not in r}
    wanted = [(q, c, n) for q in questions for c in found if not c.same_as for n in range(1 + samples)]
    left = [w for w in wanted if (w[0].id, w[1].name, w[2]) not in done]
    with appending(folder / "answers.jsonl") as append:
        for n, (question, condition, sample) in enumerate(left, 1):
            tell(f"Answering {n} of {len(left)}: {condition.name}: {question.text}")
            append(await answer_row(question, condition, project, options, sample))


async def _split(folder: Path, questions: Sequence[Asked], judge: Model, tell: Tell) -> None:
    """Count the statements of every answer: split by the judge, or where it is too small for that, by sentences."""
    splitter = None if await judge.is_small() else judge
    done = {(r["question"], r["condition"]) for r in read_rows(folder / "statements.jsonl") if "error" not in r}
    left = [r for r in answers_of(folder, questions).values() if (r["question"], r["condition"]) not in done]
    with appending(folder / "statements.jsonl") as append:
        for n, row in enumerate(left, 1):
            tell(f"Counting statements {n} of {len(left)}")
            append(await statements_row(row, splitter))


async def _judge(
    folder: Path, found: Sequence[Condition], questions: Sequence[Asked], repeats: int, judge: Model | Prefers, tell: Tell
) -> None:
    save_study(folder, judge=name_of(judge))
    done = {key_of(r) for r in read_rows(folder / "verdicts.jsonl") if "error" not in r}
    given = answers_of(folder, questions)
    with appending(folder / "verdicts.jsonl") as append:
        for n, question in enumerate(questions, 1):
            answers = {c.name: given[question.id, c.name]["answer"] for c in found if (question.id, c.name) in given}
            wanted = [p for p in pairings(question, list(answers), repeats) if p.key(name_of(judge)) not in done]
            tell(f"Judging question {n} of {len(questions)}: {len(wanted)} verdicts")
            await give_verdicts(wanted, answers, judge, append)


def answer_key(row: Row) -> tuple[str, str, int]:
    """What identifies an answer among rows: question id, condition, and which of several it is."""
    return row["question"], row["condition"], row["sample"]


def answer_rows(folder: Path) -> list[Row]:
    """Every answer of a study, a failed one as a row with its error."""
    return latest(read_rows(folder / "answers.jsonl"), answer_key)


def answers_of(folder: Path, questions: Iterable[Asked], sample: int = 0) -> dict[tuple[str, str], Row]:
    """The answers that did not fail, by question id and condition."""
    asked = {q.id for q in questions}
    rows = answer_rows(folder)
    return {(r["question"], r["condition"]): r for r in rows if r["question"] in asked and r["sample"] == sample and "answer" in r}


def samples_of(folder: Path) -> dict[tuple[str, str], list[str]]:
    """The answers that were drawn anew, by question id and condition."""
    found: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for row in answer_rows(folder):
        if row.get("sample") and "answer" in row:
            found[row["question"], row["condition"]].append(row["answer"])
    return found
