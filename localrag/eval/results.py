"""The figures of a study, from the rows in its folder alone: what is missing or failed is counted, never left out of sight."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from localrag.errors import UsageError
from localrag.eval.activities import load_questions
from localrag.eval.judge import key_of
from localrag.eval.row_file import Row, latest, read_rows
from localrag.eval.statements import THRESHOLDS, agreement
from localrag.eval.study import answer_rows, answers_of, read_study, samples_of
from localrag.eval.wins import interval, judge_figures, warnings_about, win_rates
from localrag.text.quotes import Embed


def results(folder: Path, embed: Callable[[], Embed]) -> dict[str, Any]:
    """Everything a report shows: conditions with their measures, win rates, the judge, warnings.

    `embed` opens the embedder; it is needed only where answers were drawn anew. Raises UsageError where `folder` holds no study.
    """
    study = read_study(folder)
    if "conditions" not in study:
        raise UsageError(f"There is no study in {folder}.", f"Make one: localrag eval answers --out {folder}")
    questions = load_questions(folder / "questions.json")
    asked = [q.id for q in questions]
    names = [c["name"] for c in study["conditions"] if not c["same_as"]]
    verdicts = [r for r in _verdicts(folder) if r["question"] in asked and r["judge"] == study.get("judge")]
    verdicts = [r for r in verdicts if r["first"] in names and r["second"] in names and r["repeat"] < study["repeats"]]
    answers, split = answers_of(folder, questions), latest(read_rows(folder / "statements.jsonl"), _place)
    failed = {_place(r) for r in answer_rows(folder) if "error" in r and not r["sample"]}
    drawn = samples_of(folder) if study.get("samples") else {}
    rated = []
    for c in study["conditions"]:
        given = {q: r for (q, name), r in answers.items() if name == c["name"]}
        lost = sum((q, c["name"]) in failed for q in asked)
        own = [r for r in split if r["condition"] == c["name"] and r["question"] in given]
        rated.append(_measures(c, given, lost, own, len(asked), {q: drawn[q, c["name"]] for q in given if (q, c["name"]) in drawn}, embed))
    judge = judge_figures(verdicts)
    rates = win_rates(verdicts, names, asked, study["repeats"])
    return {
        "study": {k: v for k, v in study.items() if k != "conditions"} | {"questions": len(questions)},
        "conditions": rated,
        "judge": asdict(judge),
        "wins": [asdict(r) for r in rates],
        "warnings": [*_gaps(rated, len(questions)), *_missing(verdicts, names, asked, study["repeats"]), *warnings_about(judge)],
    }


def _verdicts(folder: Path) -> list[Row]:
    return latest(read_rows(folder / "verdicts.jsonl"), key_of)


def _place(row: Row) -> tuple[str, str]:
    return row["question"], row["condition"]


def _measures(
    condition: Row,
    given: dict[str, Row],
    failed: int,
    split: Sequence[Row],
    asked: int,
    drawn: dict[str, list[str]],
    embed: Callable[[], Embed],
) -> Row:
    """A condition's figures: means over the questions that were answered; None for what was not measured."""
    if condition["same_as"]:
        return condition | {"answered": None}
    good = [r for r in split if "error" not in r]
    counts = np.array([len(r["statements"]) for r in good])
    sentences = sum(r["sentences"] for r in given.values())
    agreeing = [agreement(given[q]["answer"], others, embed()) for q, others in drawn.items()]
    measured = [a for a in agreeing if a is not None]
    low, high = interval(counts)
    return condition | {
        "answered": len(given),
        "failed": failed,
        "missing": asked - len(given) - failed,
        "fell_back": sum(r["mode"] != condition["mode"] for r in given.values()),
        "statements": _mean(list(counts)),
        "statements_low": low,
        "statements_high": high,
        "clusters": {str(t): _mean([r["clusters"][str(t)] for r in good]) for t in THRESHOLDS},
        "statements_failed": len(split) - len(good),
        "supported": round(100 * sum(r["supported"] for r in given.values()) / sentences, 1) if sentences else None,
        "agreement": round(100 * float(np.mean(measured)), 1) if measured else None,
        "calls": _mean([r["calls"] for r in given.values()]),
        "tokens": _mean([r["tokens"] for r in given.values()]),
        "seconds": _mean([r["seconds"] for r in given.values()], 2),
    }


def _mean(values: Sequence[float], places: int = 1) -> float | None:
    return round(float(np.mean(values)), places) if len(values) else None


def _gaps(rated: Sequence[Row], questions: int) -> list[str]:
    found = []
    for c in rated:
        if c["same_as"]:
            found.append(f"{c['name']} is {c['same_as']} here: the communities have no deeper level.")
            continue
        told = ((c["failed"], "failed"), (c["missing"], "are missing"), (c["fell_back"], "were given in a simpler mode"))
        parts = [f"{n} {what}" for n, what in told if n]
        if parts:
            found.append(f"{c['name']}: of {questions} answers {', '.join(parts)}.")
        if c["statements_failed"]:
            found.append(f"{c['name']}: the statements of {c['statements_failed']} answers could not be counted.")
    return found


def _missing(verdicts: Sequence[Row], names: Sequence[str], asked: Sequence[str], repeats: int) -> list[str]:
    expected = 4 * len(names) * (len(names) - 1) * repeats * len(asked)
    short = expected - len(verdicts)
    return [f"{short} of {expected} verdicts are missing: the same command gives them."] if short > 0 else []


def per_question(folder: Path) -> list[dict[str, Any]]:
    """Every question with the answers to it and the verdicts on them, for reading."""
    study, questions = read_study(folder), load_questions(folder / "questions.json")
    given = answers_of(folder, questions)
    failures = {_place(r): r["error"] for r in answer_rows(folder) if "error" in r and not r["sample"]}
    by_question: defaultdict[str, list[Row]] = defaultdict(list)
    for row in _verdicts(folder):
        if row["judge"] == study.get("judge"):
            by_question[row["question"]].append(row)
    names = [c["name"] for c in study["conditions"] if not c["same_as"]]
    return [
        {
            "user": q.user,
            "task": q.task,
            "text": q.text,
            "answers": {n: given.get((q.id, n)) or {"error": failures.get((q.id, n), "It was not given yet.")} for n in names},
            "verdicts": _grouped(by_question[q.id], names),
        }
        for q in questions
    ]


def _grouped(rows: Sequence[Row], names: Sequence[str]) -> list[tuple[str, list[Row]]]:
    """The verdicts of every two conditions together."""
    groups: defaultdict[tuple[str, ...], list[Row]] = defaultdict(list)
    for row in rows:
        if row["first"] in names and row["second"] in names:
            groups[tuple(sorted((row["first"], row["second"]), key=names.index))].append(row)
    return [(f"{pair[0]} – {pair[1]}", groups[pair]) for pair in sorted(groups, key=lambda pair: [names.index(n) for n in pair])]
