"""`localrag eval answers`: verdicts to win rates by worked examples, and the whole protocol with the bundled model."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import asdict

import pytest

from localrag.engine.settings import EngineOptions
from localrag.errors import EngineError
from localrag.eval import comparison
from localrag.eval.comparison import study_results
from localrag.eval.conditions import conditions
from localrag.eval.datasets import append_jsonl, read_jsonl
from localrag.eval.judge import key_of, plan_comparisons
from localrag.eval.win_rates import judge_figures, scores, warnings_about, win_rates
from localrag.project import open_for_query
from localrag.query.question import QueryOptions
from tests.conftest import run_localrag
from tests.fakes import Scripted, answered_by, example

QUESTIONS = [f"q{n}" for n in range(8)]
ASKED_ONCE = "What happened?"


def judged(choose, *, repeats=1, names=("C0", "SS"), questions=QUESTIONS):
    """Rows of verdicts of a judge that chooses by `choose(pairing)` → the winner, or an error."""
    rows = []
    for q in questions:
        for p in plan_comparisons(q, names, repeats):
            said = choose(p)
            told = {"error": "cut off"} if said == "error" else {"winner": said, "reason": "so"}
            rows.append(dict(zip(("question", "first", "second", "criterion", "repeat", "judge"), p.key("j"), strict=True)) | told)
    return rows


def rate_of(rows, repeats=1, asked=None):
    asked = asked or sorted({r["question"] for r in rows})
    return win_rates(rows, ["C0", "SS"], asked, repeats)[0]


def test_a_win_in_both_orders_is_a_hundred_and_a_tie_is_fifty():
    """A win in both orders counts 100, a loss 0, a tie 50; the rate is the mean over questions."""
    won = iter(["C0"] * 8 + ["SS"] * 8 + ["tie"] * 8)
    rows = judged(lambda _: next(won), questions=["a", "b", "c"])

    assert list(scores([r for r in rows if r["criterion"] == "diversity"], "C0").values()) == [1.0, 0.0, 0.5]
    assert rate_of(rows).rate == 50.0


def test_a_judge_that_always_says_the_first_decides_nothing():
    """A judge that always takes the first answer gives 50 everywhere, is reported with 100 % of first choices, and is warned about."""
    rows = judged(lambda p: p.first)
    judge = judge_figures(rows)

    assert all(r.rate == 50.0 for r in win_rates(rows, ["C0", "SS"], sorted({r["question"] for r in rows}), 1))
    assert (judge.first_position_wins, judge.consistent) == (100.0, 0.0)
    assert any("100 %" in line and "nothing" in line for line in warnings_about(judge))


def test_failures_and_gaps_are_counted_and_count_for_no_one():
    """Where one order failed the repeat does not count; failed and missing verdicts stand beside the rate."""
    rows = judged(lambda p: "error" if p.question in "q0q1q2q3" and p.first == "C0" else "SS")
    asked = [*sorted({r["question"] for r in rows}), "never judged"]
    rate = rate_of(rows, asked=asked)

    assert (rate.rate, rate.questions, rate.failed, rate.missing) == (0.0, 4, 4, 2)
    assert any("16 of 64" in line for line in warnings_about(judge_figures(rows)))


def test_a_line_torn_by_a_crash_is_left_out(tmp_path):
    """A half-written last line is no row, and the next row stands on a line of its own."""
    file = tmp_path / "rows.jsonl"
    file.write_text('{"a": 1}\n{"a": ')
    with append_jsonl(file) as append:
        append({"a": 2})

    assert read_jsonl(file) == [{"a": 1}, {"a": 2}]


def study(folder, rows, *, answers):
    """A study's folder as an interrupted run leaves it, with verdicts and answers written by hand."""
    folder.mkdir(exist_ok=True)
    shape = {"mode": "global", "level": 0, "same_as": "", "units": 3, "context_tokens": 300}
    conditions = [shape | {"name": "C0"}, shape | {"name": "SS", "mode": "ss", "level": None, "context_tokens": 900}]
    about = {"model": "m", "judge": "j", "style": "extractive", "repeats": 1, "documents": 1}
    (folder / "study.json").write_text(json.dumps(about | {"conditions": conditions, "questions": [ASKED_ONCE]}))
    given = {"answer": "It sank. [1]", "note": "", "sources": [], "sentences": 1, "supported": 1, "calls": 0, "tokens": 0, "seconds": 0.1}
    with append_jsonl(folder / "answers.jsonl") as append:
        for name in answers:
            append({"question": ASKED_ONCE, "condition": name, "mode": {"C0": "global", "SS": "ss"}[name]} | given)
    with append_jsonl(folder / "verdicts.jsonl") as append:
        for row in rows:
            append(row)
    return folder


def test_missing_answers_and_verdicts_are_reported_not_guessed(tmp_path):
    """A study with a missing answer has no win rate for it, and says what is missing."""
    found = study_results(study(tmp_path / "s", [], answers=["C0"]))

    assert [c["missing"] for c in found["conditions"]] == [0, 1]
    assert all(w["rate"] is None and w["missing"] == 2 for w in found["wins"])
    assert any(line.startswith("SS: of 1 answers 1 are missing") for line in found["warnings"])
    assert any("8 of 8 verdicts are missing" in line for line in found["warnings"])


ASKED = ["eval", "answers", "q.txt", "--condition", "C0", "--condition", "SS", "--condition", "C3", "--repeats", "2", "--json"]


@pytest.mark.ci
def test_the_whole_protocol_runs_with_the_embedded_model(plain_town, tmp_path):
    """One question: answered, judged in both orders twice, reported; asked again, the results are the same."""
    (tmp_path / "q.txt").write_text("What happened?\n")
    first = run_localrag(*ASKED, "--index", str(plain_town), "--out", "study", cwd=tmp_path)
    found = json.loads(first.stdout)
    again = run_localrag(*ASKED, "--out", "study", cwd=tmp_path)

    names = [c["name"] for c in found["conditions"] if not c["same_as"]]
    pairs = len(names) * (len(names) - 1) // 2
    assert found["judge"]["verdicts"] == pairs * 2 * 2 * 4 and found["judge"]["first"] is not None
    assert all(c["answered"] == 1 and c["supported"] == 100 for c in found["conditions"] if not c["same_as"])
    assert json.loads(again.stdout) == found
    assert "No question has been asked" in run_localrag("logs", cwd=plain_town).stdout


def test_a_study_is_held_to_one_way_of_answering(plain_town, tmp_path):
    """The same folder with another style is refused, naming what it was begun with."""
    asked = ["eval", "answers", "q.txt", "--condition", "SS", "--index", str(plain_town), "--out", "study"]
    (tmp_path / "q.txt").write_text("What happened?\n")
    assert run_localrag(*asked, cwd=tmp_path).returncode == 0
    refused = run_localrag(*asked, "--style", "abstractive", cwd=tmp_path)

    assert refused.returncode == 2 and "style extractive" in refused.stderr and "--out" in refused.stderr


def test_an_unknown_condition_or_an_empty_file_is_named(plain_town, tmp_path):
    """An unknown condition and a file without questions are named, with what to do."""
    (tmp_path / "none.txt").write_text("\n")
    (tmp_path / "q.txt").write_text("What happened?\n")
    for given, named in ((["q.txt", "--condition", "C9"], "C9"), (["none.txt", "--condition", "SS"], "none.txt")):
        refused = run_localrag("eval", "answers", *given, "--index", str(plain_town), "--out", "study", cwd=tmp_path)
        assert refused.returncode == 2 and named in refused.stderr


@pytest.mark.slow
def test_a_study_that_was_killed_goes_on(plain_town, tmp_path):
    """Killed among its verdicts, the same command keeps what there is and gives every other verdict once."""
    (tmp_path / "q.txt").write_text("What happened?\n")
    command = [sys.executable, "-m", "localrag", *ASKED, "--index", str(plain_town), "--out", "study"]
    file = tmp_path / "study" / "verdicts.jsonl"
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=os.environ)
    deadline = time.monotonic() + 300
    while len(read_jsonl(file)) < 2 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    process.kill()
    process.wait()
    before = read_jsonl(file)
    found = json.loads(run_localrag(*ASKED, "--index", str(plain_town), "--out", "study", cwd=tmp_path).stdout)
    rows = read_jsonl(file)

    assert rows[: len(before)] == before and len({key_of(r) for r in rows}) == len(rows) == found["judge"]["verdicts"]
    assert not any("missing" in line for line in found["warnings"])


def test_failed_answers_are_counted_and_not_judged(tmp_path):
    """An answer that failed is named with its error, counts as failed and not as missing, and has no verdicts."""
    folder = study(tmp_path / "s", [], answers=["C0"])
    with append_jsonl(folder / "answers.jsonl") as append:
        append({"question": ASKED_ONCE, "condition": "SS", "error": "The model's answer was cut off."})
    found = study_results(folder)

    assert [(c["failed"], c["missing"]) for c in found["conditions"]] == [(0, 0), (1, 0)]
    assert any(line.startswith("SS: of 1 answers 1 failed") for line in found["warnings"])


def test_what_failed_is_asked_again_and_counts_once(plain_town, tmp_path):
    """An answer or verdict that failed is reported as failed and asked again by the next run; what it gives then is all that counts."""
    folder = tmp_path / "s"
    shutil.copytree(plain_town / ".localrag", tmp_path / "index")
    options = QueryOptions(style="abstractive")
    plan = comparison.StudyPlan(("Who bought the Skua?",), ("SS",), 1, options, None, None, EngineOptions())
    asked, broken = [], [EngineError("the server is gone")]

    def says(request):
        asked.append(request.task)
        return broken.pop() if broken else example(request.grammar.schema) if request.grammar else "The railway bought it. [1]"

    def run():
        with open_for_query(tmp_path / "index") as project:
            answered_by(project, Scripted(says))
            found = conditions(plan.conditions, project)
            comparison.save_study(folder, conditions=[asdict(c) for c in found], repeats=1, questions=plan.questions)
            asyncio.run(comparison._answer_in_modes(folder, found, plan, project, plan.options, lambda _: None))
        return study_results(folder)["conditions"][0]

    folder.mkdir()
    first, again, third = run(), run(), run()

    assert (first["failed"], first["answered"], first["missing"]) == (1, 0, 0)
    assert (again["failed"], again["answered"], again["missing"]) == (0, 1, 0) == (third["failed"], third["answered"], third["missing"])
    assert asked == ["answer", "answer"]
