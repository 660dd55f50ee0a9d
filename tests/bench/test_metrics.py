"""Figures and tables of measurements made by hand."""

import tomllib

from localrag.bench.runs import recommend_model, recommendation, reliability_warning, table, warnings
from localrag.system.files import shipped_data_path
from tests.bench.rows import measured

BROKEN = {"name": "broken.gguf", "given": "/models/broken.gguf", "error": "/models/broken.gguf is not a GGUF file.", "hint": ""}


def cells(model, label):
    made = table([model])
    return [line[1] for _, group in made.groups for line in group if line[0] == label]


def test_failures_stand_beside_the_scores_they_taint():
    """Half of the paragraphs failed: that is said in the score's own cell and in a note, and the missed names cost recall."""
    model = measured(failed=5)

    assert cells(model, "names with types F1") == ["0.53 (failed 5 of 10)"]
    assert cells(model, "calls") == ["failed 5 of 40"]
    assert cells(model, "English paragraphs/h") == ["300 (failed 5 of 10)"]  # only what was read counts
    assert warnings([model, BROKEN]) == [
        "broken.gguf: not measured: /models/broken.gguf is not a GGUF file.",
        "a: not reliable: failed 5 of 40 calls, failed 5 of 10 paragraphs (failed in the engine)",
    ]
    assert "failed 5 of 10 paragraphs" in reliability_warning(model["figures"])
    assert reliability_warning(measured()["figures"]) == ""


def test_speed_and_chunks_are_counted():
    """Ten English paragraphs in a minute are 600 an hour; speeds have their spread."""
    found = measured(seconds=60.0)["figures"]

    assert found["paragraphs_per_hour"] == 600
    assert (found["json_tps"], found["json_tps_sd"]) == (100.0, 2.0)
    assert found["forced_share"] == 0.8


def test_a_faster_model_of_the_same_quality_is_recommended():
    """Quality that chance cannot tell apart: speed decides; a sure difference of quality decides against speed."""
    mixed = tuple((8 + n % 2, 10, 10) for n in range(10))
    chosen, reason = recommend_model(
        [measured("slow", typed=mixed, seconds=120.0), measured("fast", typed=tuple(reversed(mixed)), seconds=30.0)]
    )
    assert chosen["name"] == "fast"
    assert "as good as slow within chance and 4.0 times as fast" in reason

    chosen, _ = recommend_model([measured("good", seconds=120.0), measured("fast", typed=((4, 10, 10),) * 10, seconds=30.0)])
    assert chosen["name"] == "good"


def test_a_model_that_fails_is_not_recommended():
    """Half of its calls failed: another is taken, or none."""
    chosen, reason = recommend_model([measured("bad", failed=5), measured("good"), BROKEN])
    assert (chosen["name"], "only one of 3 models" in reason) == ("good", True)
    assert recommend_model([measured("bad", failed=5), BROKEN]) is None
    assert recommendation([BROKEN]) == "# localrag bench: no model here can be relied on"


def test_the_recommendation_fits_into_models_toml():
    """Pasted at the end, the file is read and has the model."""
    lines = recommendation([measured('My "Model" Q4'), measured("b", typed=((1, 10, 10),) * 10)])

    table_ = tomllib.loads(shipped_data_path("models.toml").read_text(encoding="utf-8") + "\n" + lines)
    assert table_["chat"]["my-model-q4"]["path"] == '/models/My "Model" Q4.gguf'
    assert table_["default_chat"] == "smollm2-135m"
    assert recommendation([measured("smollm2-135m")]).endswith('default_chat = "smollm2-135m"')
