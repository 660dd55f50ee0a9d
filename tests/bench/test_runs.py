"""Models measured in processes of their own: one that fails half its calls, one that is no model, one whose process dies."""

import itertools
import json
import os
import signal

import pytest

from localrag.bench.measure import ModelBenchmark
from localrag.bench.report import warnings
from localrag.bench.runs import load_run, measure_models, run_child
from localrag.errors import UsageError
from tests.conftest import run_localrag
from tests.fakes import example
from tests.servers import Server


@pytest.mark.ci
def test_a_model_that_fails_half_its_calls_is_reported_as_such(tmp_path):
    """A server that refuses every second request: half of the calls are counted as failed, and no score looks fine."""
    turn = itertools.count()

    def answer(body):
        return 404 if next(turn) % 2 else json.dumps(example(body["response_format"]["json_schema"]["schema"]))

    server = Server(answer)
    try:
        run = measure_models([f"{server.url}#half"], ModelBenchmark(quick=True, limit=20), lambda *_: None, tmp_path / "run.json")
    finally:
        server.close()
    (model,) = run["models"]
    found = model["figures"]

    assert found["failed_paragraphs"] == 10
    assert found["yes_no_failed"] == 10
    assert "failed 10 of 20 paragraphs, failed 10 of 20 yes/no questions" in warnings(run["models"])[0]
    assert found["peak_bytes"] is None
    assert load_run(str(tmp_path / "run.json")) == run


@pytest.mark.ci
def test_a_file_that_is_no_model_is_a_row_and_the_others_go_on(tmp_path):
    """What cannot be loaded says why; the command ends in 4 where nothing could be measured."""
    (tmp_path / "text.gguf").write_text("no model")

    done = run_localrag("bench", "-m", "text.gguf", "-m", "missing.gguf", "--json", "--save", "run.json", cwd=tmp_path)
    rows = json.loads(done.stdout)["models"]

    assert done.returncode == 4
    assert [row["name"] for row in rows] == ["text.gguf", "missing.gguf"]
    assert "is not a GGUF file" in rows[0]["error"]
    assert "no model file" in rows[1]["error"]


@pytest.mark.ci
def test_a_process_that_dies_is_an_error_of_its_model():
    """The measuring process is ended from outside: its model's row says by what."""

    def kill(line):
        if line.get("stage"):
            os.kill(line["pid"], signal.SIGKILL)

    server = Server(lambda body: json.dumps(example(body["response_format"]["json_schema"]["schema"])))
    try:
        answer = run_child("measure", ModelBenchmark(model=f"{server.url}#dies", quick=True, limit=4), kill)
    finally:
        server.close()

    assert answer["error"] == "its process was killed, most likely because memory ran out"


def test_what_is_asked_wrongly_is_said_at_once(tmp_path):
    """An unknown style or run is an error with its remedy."""
    with pytest.raises(UsageError, match="no style"):
        measure_models([None], ModelBenchmark(style="florid"), lambda *_: None, tmp_path / "r.json")
    with pytest.raises(UsageError, match="no run"):
        load_run("2001-01-01")
    (tmp_path / "x.json").write_text("[]")
    with pytest.raises(UsageError, match="is not a run"):
        load_run(str(tmp_path / "x.json"))


@pytest.mark.slow
def test_the_embedded_model_is_measured_and_compared(tmp_path):
    """Measured twice: memory, speeds and scores are there, the same answers come again, and differences of scores are none."""
    for name in ("a", "b"):
        done = run_localrag("bench", "--quick", "--limit", "6", "--repeat", "2", "--json", "--save", f"{name}.json", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert json.loads((tmp_path / f"{name}.json").read_text()) == json.loads(done.stdout)
    found = load_run(str(tmp_path / "a.json"))["models"][0]["figures"]
    done = run_localrag("bench", "compare", "a.json", "b.json", "--json", cwd=tmp_path)
    lines = {row["name"]: row for row in map(json.loads, done.stdout.splitlines())}

    assert found["quantisation"] == "Q4_1"
    assert found["peak_bytes"] > found["file_bytes"]
    assert found["decode_tps"] > 0
    assert found["decode_tps_sd"] is not None
    assert found["failed_calls"] == 0
    assert found["in_text_share"] == 1.0
    assert found["duplicates"] == 0
    assert (lines["names with types F1"]["low"], lines["names with types F1"]["high"]) == (0.0, 0.0)
    assert lines["names with types F1"]["verdict"] == "the same"
    assert lines["prefill tokens/s"]["low"] is not None
