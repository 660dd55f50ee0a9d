"""How far a run is, as people and programs see it: bars, lines, events, and `status`."""

import json
import re
import signal

import pytest

from localrag.cli.views.progress import format_seconds_left
from localrag.indexing.progress import RunProgress
from tests.cli.commands.test_index import rows
from tests.conftest import TOWN, mostly_ci, run_localrag, run_process, until
from tests.forked import Forked
from tests.terminals import Terminal, invoke

EVENTS = {
    "start": {"version", "totals"},
    "stage": {"stage", "round", "total", "ahead"},
    "progress": set(RunProgress("", 0, 0).to_json()),
    "skipped": {"path", "reason", "failed"},
    "message": {"text"},
}
ORDERS = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
STAGES = ("documents", "chunk embeddings", "noun phrases", "entity resolution", "reports", "entity embeddings", "report embeddings")


def write_docs(folder, copies=12):
    """The town's documents and as many letters; an empty file."""
    (folder / "docs").mkdir(parents=True)
    for name, text in TOWN.items():
        (folder / "docs" / name).write_text(text, encoding="utf-8")
    for n in range(copies):
        letter = f"Ada Quist met Number{n} Berg in Port{n} and wrote to the Northern Line. {TOWN['b.txt']}"
        (folder / "docs" / f"letter{n}.txt").write_text(letter * 12, encoding="utf-8")
    (folder / "docs" / "void.md").write_text("  \n")
    return folder


def index(folder, *args):
    """A run in a process of its own, without a model."""
    return run_process("index", "docs", "--extractor", "phrases", *args, cwd=folder)


def start(folder, *args):
    """A run that goes on in the background."""
    return Forked("index", "docs", "--extractor", "phrases", *args, cwd=folder)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A run with its events, what it printed, and its folder."""
    folder = write_docs(tmp_path_factory.mktemp("recorded"))
    done = index(folder, "--progress", "json", "--json")
    assert done.returncode == 0, done.stderr
    return folder, [json.loads(line) for line in done.stderr.splitlines()], json.loads(done.stdout)


def test_every_event_has_the_fields_that_are_documented(recorded):
    """Each line of stderr parses; the first says the totals and the version, before any work is told of; the last is the end."""
    _, events, result = recorded
    kinds = [e["event"] for e in events]

    assert kinds[0] == "start"
    assert events[0]["version"] == 1
    assert events[0]["totals"] == {
        "files": 16,
        "to_read": 16,
        "bytes": events[0]["totals"]["bytes"],
        "chunks": events[0]["totals"]["chunks"],
    }
    assert events[0]["totals"]["bytes"] > 10_000
    assert kinds.count("start") == kinds.count("end") == 1
    assert kinds[-1] == "end"
    for event in events[:-1]:
        assert set(event) - {"event"} == EVENTS[event["event"]]
    skipped = [{k: v for k, v in e.items() if k != "event"} for e in events if e["event"] == "skipped"]
    assert skipped == [{"path": "docs/void.md", "reason": "empty", "failed": False}] == result["skipped"]
    assert {k: v for k, v in events[-1].items() if k not in ("event", "seconds")} == {k: v for k, v in result.items() if k != "seconds"}


def test_the_store_says_what_the_stream_said(recorded):
    """`status --json` has the facts of the last event, and the result counts what `status` counts."""
    folder, events, result = recorded
    status = json.loads(run_localrag("status", "--json", cwd=folder).stdout)
    last = [e for e in events if e["event"] == "progress"][-1]

    assert status["run"]["progress"] == {k: v for k, v in last.items() if k != "event"}
    assert status["run"]["alive"] is None
    assert {k: status[k] for k in result["counts"]} == result["counts"]
    assert last["entities"] == status["entities"] > 0
    assert result["models"] == status["models"]


@pytest.mark.ci
def test_the_result_says_what_was_spent_and_what_comes_next(recorded):
    """The stages' seconds are those of the run; every command that is named exists."""
    folder, _, result = recorded

    assert sum(result["stage_seconds"].values()) <= result["seconds"] + 0.5
    assert set(STAGES) <= set(result["stage_seconds"])
    assert len(result["next"]) <= 4
    for command in result["next"]:
        assert invoke(*command.split()[1:2], "--help").exit_code == 0
        assert "--index" not in command
    elsewhere = index(folder, "--index", "other", "--json", "--quiet")
    assert all(c.endswith("--index other/.localrag") or c.endswith("--index other") for c in json.loads(elsewhere.stdout)["next"])


def test_an_error_is_an_event_too(tmp_path):
    """A program that reads events gets nothing else: what went wrong, its remedy and the exit code."""
    done = run_localrag("index", "nowhere", "--progress", "json", cwd=tmp_path)
    (event,) = [json.loads(line) for line in done.stderr.splitlines()]

    assert done.returncode == event["exit_code"] == 2
    assert (event["event"], event["state"]) == ("end", "failed")
    assert "nowhere" in event["error"]


@pytest.mark.ci
def test_without_a_terminal_nothing_is_drawn_and_quiet_says_nothing(tmp_path):
    """Lines for a log: the totals, the end; no control sequence. With --quiet not a byte."""
    write_docs(tmp_path, 2)
    done, again = index(tmp_path), index(tmp_path, "--rebuild", "--quiet")

    assert "\x1b" not in done.stderr
    assert "\n6 files to read (" in done.stderr
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "")


def frames(text):
    """What the lines of a terminal showed, one after the other."""
    return [line for line in ORDERS.sub("", text).replace("\r", "\n").split("\n") if line.strip()]


@pytest.mark.parametrize("columns", mostly_ci([60, 100], 60))
@pytest.mark.ci
def test_the_bars_fit_the_terminal_and_never_go_back(tmp_path, columns):
    """No line is longer than the terminal is wide; each share and each count is at least the one before; the end is 100 %."""
    write_docs(tmp_path)
    terminal = Terminal("index", "docs", "--extractor", "phrases", cwd=tmp_path, columns=columns)
    assert terminal.end() == 0
    shown = frames(terminal.text("err"))
    drawn = [line for line in shown if "━" in line]

    assert drawn
    assert max(map(len, drawn)) < columns
    whole = [int(m[1]) for line in drawn if line.startswith("all") and (m := re.search(r"(\d+) %", line))]
    assert whole == sorted(whole)
    assert whole[-1] == 100
    for stage in STAGES:
        done = [int(m[1]) for line in drawn if line.startswith(f"{stage} ") and (m := re.search(r"(\d+)/\d+", line))]
        assert done
        assert done == sorted(done)
    text = "\n".join(shown)
    assert "16 files to read" in text
    assert "left" in text
    assert text.index("16 files to read") < text.index("chunk embeddings")
    assert len(text.partition("Next:\n")[2].splitlines()) <= 4


@pytest.mark.parametrize("stage", [pytest.param(s, marks=() if s == "entity resolution" else pytest.mark.ci) for s in STAGES])
@pytest.mark.ci
def test_ctrl_c_is_answered_in_every_stage(tmp_path, stage):
    """It says what is saved and that the same command goes on, ends in 130, and the index is whole after the same command."""
    write_docs(tmp_path, 60 if stage in STAGES[-2:] else 12)  # the last stages are over at once where there is little to embed
    terminal = Terminal("index", "docs", "--extractor", "phrases", cwd=tmp_path, columns=60)
    terminal.wait_for("err", rf"\n?{stage} .*/")
    terminal.interrupt()
    terminal.wait_for("err", "Stopping; finished work is saved")

    assert terminal.end() == 130, terminal.text("err")[-2000:]
    assert "The same command resumes from here." in terminal.text("err")
    assert rows(tmp_path, "SELECT state FROM runs") == [("interrupted",)], terminal.text("err")


@pytest.mark.slow
@pytest.mark.ci
def test_a_run_that_was_killed_is_told_from_one_that_goes_on(tmp_path):
    """`status` says how far a run is; after kill -9, that its process is gone and what to run."""
    write_docs(tmp_path, 300)
    run = start(tmp_path, "-q")
    until((tmp_path / ".localrag" / "index.db").exists)
    until(lambda: "fraction" in run_localrag("status", "--json", cwd=tmp_path).stdout)
    run.send_signal(signal.SIGSTOP)  # so that it does not end before it is killed
    running = run_localrag("status", cwd=tmp_path).stdout
    run.send_signal(signal.SIGKILL)
    run.wait()

    assert "running: " in running
    assert "its process is gone" in run_localrag("status", cwd=tmp_path).stdout
    assert json.loads(run_localrag("status", "--json", cwd=tmp_path).stdout)["run"]["alive"] is False


@pytest.mark.parametrize(
    ("left", "said"),
    [
        (None, "estimating"),
        ((0.1, 0.6), "almost done"),
        ((10, 40), "about 20 s left"),
        ((100, 130), "about 2 min left"),
        ((4000, 9000), "about 1 h 40 min left"),
    ],
)
def test_a_time_is_told_as_a_person_would(left, said):
    """As one number, and in a word where nothing is known."""
    assert format_seconds_left(left) == said


@pytest.mark.ci
def test_other_commands_print_one_object_too(tmp_path):
    """`index --plan`, `reembed`, `check` and `rm` say on stdout, as JSON, what they did."""
    folder = write_docs(tmp_path, 1)
    plan = json.loads(run_localrag("index", "docs", "--extractor", "phrases", "--plan", "--json", cwd=folder).stdout)
    assert run_localrag("index", "docs", "--extractor", "phrases", "-q", cwd=folder).returncode == 0
    again = json.loads(run_localrag("reembed", "--json", "-q", cwd=folder).stdout)
    removed = json.loads(run_localrag("rm", "docs/a.md", "--json", "-q", cwd=folder).stdout)

    assert (plan["files"], plan["to_read"]) == (5, 4)
    assert again["embedded"]["chunks"] == plan["chunks"]
    assert again["embedder"]["name"]
    assert removed["removed"] == ["docs/a.md"]
    assert removed["documents"] == 3
    assert json.loads(run_localrag("check", "--json", cwd=folder).stdout)["ok"] is True
