"""Models measured in processes of their own: one that fails half its calls, one that is no model, one whose process dies."""

import itertools
import json
import os
import signal

import pytest

from localrag.bench.measure import ModelBenchmark
from localrag.bench.runs import measure_models, run_child, warnings
from tests.conftest import run_localrag
from tests.engine.remote.test_remote_engine import example
from tests.servers import Server


@pytest.mark.ci
def test_a_model_that_fails_half_its_calls_is_reported_as_such(tmp_path):
    """A server that refuses every second request: half of the calls are counted as failed, and no score looks fine."""
    turn = itertools.count()

    def answer(body):
        return 404 if next(turn) % 2 else json.dumps(example(body["response_format"]["json_schema"]["schema"]))

    server = Server(answer)
    try:
        run = measure_models([f"{server.url}#half"], ModelBenchmark(limit=20), lambda *_: None, tmp_path / "run.json")
    finally:
        server.close()
    (model,) = run["models"]
    found = model["figures"]

    assert found["failed_paragraphs"] == 10
    assert "failed 10 of 20 paragraphs" in warnings(run["models"])[0]
    assert found["peak_bytes"] is None
    assert json.loads((tmp_path / "run.json").read_text()) == run


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
        answer = run_child("measure", ModelBenchmark(model=f"{server.url}#dies", limit=4), kill)
    finally:
        server.close()

    assert answer["error"] == "its process was killed, most likely because memory ran out"


@pytest.mark.slow
def test_the_embedded_model_is_measured(tmp_path):
    """Memory, speeds and scores are there, and the same answers come again."""
    found = []
    for name in ("a", "b"):
        done = run_localrag("bench", "--limit", "6", "--repeat", "2", "--json", "--save", f"{name}.json", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert json.loads((tmp_path / f"{name}.json").read_text()) == json.loads(done.stdout)
        found.append(json.loads(done.stdout)["models"][0])
    figures = found[0]["figures"]

    assert figures["quantisation"] == "Q4_1"
    assert figures["peak_bytes"] > figures["file_bytes"]
    assert figures["decode_tps"] > 0
    assert figures["decode_tps_sd"] is not None
    assert figures["failed_calls"] == 0
    assert figures["in_text_share"] == 1.0
    assert figures["duplicates"] == 0
    assert found[0]["paragraphs"] == found[1]["paragraphs"]
