"""The first use of a model on a machine: whatever its native code does there, the user's process goes on."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import SCRIPT, SMALL, run_process, write_town

pytestmark = pytest.mark.ci
FAULTS = Path(__file__).parent / "faults"
ROOT = Path(__file__).parents[1]


@pytest.fixture
def place(tmp_path):
    write_town(tmp_path / "docs")
    return tmp_path


def run(place, *args, faults=None, typed="", **env):
    """localrag in a fresh home of its own, where layouts fail as `faults` says. `typed` is its standard input."""
    path = os.pathsep.join([str(FAULTS), str(ROOT), os.environ.get("PYTHONPATH", "")])
    given = {"FAULTS": json.dumps(faults or {}), "FAULTS_LOG": str(place / "faults.log"), "PYTHONPATH": path}
    return run_process(*args, cwd=place, given=typed, LOCALRAG_HOME=str(place / "home"), **given, **env)


def noted(place):
    """What failed, in order: (fault, "trial" or "user", layout)."""
    log = place / "faults.log"
    return [line.split(" ", 2) for line in log.read_text().splitlines()] if log.exists() else []


def record(place):
    """What is known of the chat model."""
    files = [*(place / "home" / "cache" / "tuning").glob("*.json")]
    return json.loads(files[0].read_text()) if files else {"choices": {}}


@pytest.fixture(scope="session")
def quantised(chat_file, tmp_path_factory):
    """A small model with random weights in Q8_0, of which there may be a copy in another type."""
    path = tmp_path_factory.mktemp("quantised") / "small.gguf"
    shape = [*SMALL, "--type", "q8_0", "--context", "4096"]
    subprocess.run([sys.executable, SCRIPT, chat_file.path, path, "--architecture", "llama", *shape], check=True)
    return str(path)


def test_layouts_that_die_hang_or_lie_are_refused_and_indexing_goes_on(place, quantised):
    """A copy of the weights and a layout end their processes, one is silent, one wrong: each is said in a line, indexing goes on with what
    is left, and none of them is ever tried again."""
    faults = {
        "weights=bf16,extra_buffers=yes": "SIGABRT",
        "weights=bf16,extra_buffers=no": "wrong",
        "kv_cache_type=q8_0/bf16": "SIGSEGV",
        "kv_cache_type=q8_0/f32": "hang",
    }
    first = run(place, "index", "docs", "--model", quantised, "--extractor", "model", faults=faults)
    times = len(noted(place))
    second = run(place, "ask", "Who is the mate?", "--model", quantised, faults=faults)
    kept = record(place)

    assert first.returncode == 0, first.stderr
    assert first.stderr.count("Not used here") == 4
    for reason in ("SIGABRT", "SIGSEGV", "did not answer", "differ from"):
        assert reason in first.stderr
    assert second.returncode == 0, second.stderr
    assert len(noted(place)) == times
    assert {where for _, where, _ in noted(place)} == {"trial"}
    assert len(kept["refused"]) == 4
    assert kept["choices"]["@0"]["settings"]["kv_cache_type"] == "f16"


@pytest.mark.parametrize(("command", "typed"), [(("ask", "Who is the mate?"), ""), (("chat",), "Who is the mate?\n")])
def test_an_answer_is_never_followed_or_delayed_by_measuring(place, quantised, command, typed):
    """`ask` and `chat` end when they have answered: a new model runs with usual settings, which are only tried."""
    assert run(place, "index", "docs", "--extractor", "phrases").returncode == 0
    done = run(place, *command, "--model", quantised, typed=typed)

    assert done.returncode == 0, done.stderr
    assert "Measuring" not in done.stderr
    assert not record(place)["choices"]


def test_a_layout_given_by_hand_that_does_not_work_is_an_error_with_its_remedy(place, quantised):
    """What the user asks for and the machine cannot do ends in exit code 4 and words, not in a crash."""
    model = ["--model", quantised, "--extractor", "model"]
    faults = {"flash_attention=yes": "SIGSEGV"}
    assert run(place, "index", "docs", *model, faults=faults).returncode == 0
    done = run(place, "index", "docs", "--rebuild", "--types", "person", *model, "--engine", "flash_attention=yes", faults=faults)

    assert done.returncode == 4
    assert "does not work on this machine" in done.stderr
    assert "--engine" in done.stderr
    assert "unexpected" not in done.stderr


def test_doctor_lists_what_was_refused_and_why(place, quantised):
    """The layouts that do not work here stand in `localrag doctor`, each with its reason."""
    run(place, "index", "docs", "--model", quantised, "--extractor", "model", faults={"kv_cache_type=q8_0/f32": "SIGSEGV"})
    said = run(place, "doctor", "--model", quantised, "--json")
    lines = {line["name"]: line for line in json.loads(said.stdout)["checks"]}

    assert "kv_cache_type=q8_0/f32" in lines["layouts"]["text"]
    assert "SIGSEGV" in lines["layouts"]["text"]
