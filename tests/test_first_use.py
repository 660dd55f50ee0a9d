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
    """What is known of the chat model; that of the embedder has nothing measured."""
    records = [json.loads(path.read_text()) for path in (place / "home" / "cache" / "tuning").glob("*.json")]
    (found,) = (r for r in records if any("measured" in choice for choice in r["choices"].values()))
    return found


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
        "weights=bf16": "SIGABRT",
        "kv_cache_type=q8_0/bf16": "SIGSEGV",
        "kv_cache_type=q8_0/f32": "hang",
        "flash_attention=yes": "wrong",
    }
    first = run(place, "index", "docs", "--model", quantised, "--extractor", "model", faults=faults)
    times = len(noted(place))
    second = run(place, "ask", "Who is the mate?", "--model", quantised, faults=faults)
    kept = record(place)

    assert first.returncode == 0, first.stderr
    assert first.stderr.count("Not used here") == 5  # the copy both with its weights rearranged and without
    for reason in ("SIGABRT", "SIGSEGV", "did not answer", "differ from"):
        assert reason in first.stderr
    assert second.returncode == 0, second.stderr
    assert len(noted(place)) == times
    assert {where for _, where, _ in noted(place)} == {"trial"}
    assert len(kept["refused"]) == 5
    assert kept["choices"]["@0"]["settings"]["kv_cache_type"] == "f16"


@pytest.mark.parametrize(("command", "typed"), [(("ask", "Who is the mate?"), ""), (("chat",), "Who is the mate?\n")])
def test_an_answer_is_never_followed_or_delayed_by_measuring(place, quantised, command, typed):
    """`ask` and `chat` end when they have answered: a new model runs with usual settings, which are only tried."""
    assert run(place, "index", "docs", "--extractor", "phrases").returncode == 0
    done = run(place, *command, "--model", quantised, typed=typed)

    assert done.returncode == 0, done.stderr
    assert "Measuring" not in done.stderr
    records = [json.loads(path.read_text()) for path in (place / "home" / "cache" / "tuning").glob("*.json")]
    assert not [choice for record in records for choice in record["choices"].values() if "measured" in choice]


@pytest.mark.slow
def test_a_test_of_a_model_measures_it(place, chat_file):
    """`models test` leaves a record of the fastest settings, with which the next answer runs."""
    done = run(place, "models", "test", str(chat_file.path))

    assert done.returncode == 0, done.stdout
    assert record(place)["choices"]


def test_kernels_for_this_cpu_that_end_the_process_are_left_out(place, quantised):
    """Where rearranged weights end the process, as with a badly compiled AMX, the file's own arrangement is used."""
    done = run(place, "index", "docs", "--model", quantised, "--extractor", "model", faults={"extra_buffers=yes": "SIGSEGV"})

    assert done.returncode == 0, done.stderr
    assert record(place)["choices"]["@0"]["settings"]["extra_buffers"] is False


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


def test_what_ended_the_users_process_is_not_used_again(place, quantised):
    """A layout that passed its trial and then ended the process is found by the mark it left; the same command goes on with another."""
    # A layout is all of its parts: which weights go with this KV is measured, so all that tells one from another is given by hand.
    usual = "weights=own,extra_buffers=yes,kv_cache_type=q8_0/bf16"
    model, faults = ["--model", quantised, "--extractor", "model"], {usual: "user SIGABRT"}
    first = run(place, "index", "docs", *model, "--engine", usual, faults=faults)
    second = run(place, "index", "docs", *model, faults=faults)

    assert first.returncode == -6
    assert second.returncode == 0, second.stderr
    assert [what for what, *_ in noted(place)] == ["SIGABRT"]
    assert any(usual in name and "ended a process" in why for name, why in record(place)["refused"].items())


def test_doctor_lists_what_was_refused_and_why(place, quantised):
    """The layouts that do not work here stand in `localrag doctor`, each with its reason."""
    run(place, "index", "docs", "--model", quantised, "--extractor", "model", faults={"kv_cache_type=q8_0/f32": "SIGSEGV"})
    said = run(place, "doctor", "--model", quantised, "--json")
    lines = {line["name"]: line for line in json.loads(said.stdout)["checks"]}

    assert "kv_cache_type=q8_0/f32" in lines["layouts"]["text"]
    assert "SIGSEGV" in lines["layouts"]["text"]


@pytest.mark.slow
def test_beside_processes_that_burn_all_cores_no_nonsense_is_kept(place, chat_file):
    """On a busy machine nothing is taken for measured: the usual settings are used, with the reason, and measured another time."""
    burners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() or 1)]
    try:
        code = "from localrag.engine.settings import EngineOptions; from localrag.engine.autotune.load import open_backend; "
        code += "from localrag.model_files import find_chat_model; open_backend(find_chat_model(None), EngineOptions(notify=print)).close()"
        env = os.environ | {"LOCALRAG_HOME": str(place / "home")}
        done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, env=env, cwd=ROOT)
    finally:
        for burner in burners:
            burner.kill()
    choice = record(place)["choices"]["@0"]

    assert done.returncode == 0, done.stderr
    assert choice["busy"]
    assert choice["measured"] == []
    assert "The machine is busy" in done.stdout
    assert (choice["settings"]["weights"], choice["settings"]["kv_cache_type"]) == ("q8_0", "q8_0/bf16")


@pytest.mark.slow
def test_the_demo_runs_on_a_machine_whose_first_two_layouts_die(place):
    """The first command of all ends well, with answers, where the two layouts tried first end their process."""
    done = run(place, "demo", faults={"kv_cache_type=q8_0/bf16": "SIGSEGV", "kv_cache_type=q8_0/f32": "SIGSEGV"})

    assert done.returncode == 0, done.stderr
    assert done.stderr.count("Not used here") == 2
    assert "[1]" in done.stdout
