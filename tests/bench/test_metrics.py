"""Figures, tables and exports of measurements made by hand."""

import pytest

from localrag.bench.report import as_markdown, recommendation, table, warnings
from localrag.bench.runs import answer_bias, compare_models, models_to_compare, recommend_model, reliability_warning, save_run
from localrag.errors import UsageError
from tests.bench.rows import measured, run_of

BROKEN = {"name": "broken.gguf", "given": "/models/broken.gguf", "error": "/models/broken.gguf is not a GGUF file.", "hint": ""}


def cells(model, label):
    made = table([model])
    return [line[1] for _, group in made.groups for line in group if line[0] == label]


def test_failures_stand_beside_the_scores_they_taint():
    """Half of the paragraphs failed: that is said in the score's own cell and in a note, and the missed names cost recall."""
    model = measured(failed=5)

    assert cells(model, "names with types F1") == ["0.53 (failed 5 of 10)"]
    assert cells(model, "calls") == ["failed 5 of 50"]
    assert cells(model, "English paragraphs/h") == ["300 (failed 5 of 10)"]  # only what was read counts
    assert warnings([model, BROKEN]) == [
        "broken.gguf: not measured: /models/broken.gguf is not a GGUF file.",
        "a: not reliable: failed 5 of 50 calls, failed 5 of 10 paragraphs (failed in the engine)",
    ]
    assert "failed 5 of 10 paragraphs" in reliability_warning(model["figures"])
    assert reliability_warning(measured()["figures"]) == ""


def test_a_model_that_always_says_yes_is_seen_to():
    """Half right looks like chance, the share of yes says why."""
    model = measured(says=[True] * 10)

    assert model["figures"]["yes_no_accuracy"] == 0.5
    assert cells(model, "says yes (half is right)") == ["100% (always says yes)"]
    assert answer_bias(measured()["figures"]) == ""
    assert answer_bias(measured(says=[False] * 10)["figures"]) == "always says no"


def test_the_better_model_is_told_and_chance_is_said():
    """More right in every paragraph is sure; the same counts are not; speeds are told apart by their repeats."""
    few, many = (1, 4, 4), (3, 4, 4)
    worse = measured("b", typed=((5, 10, 10),) * 5 + ((6, 10, 10),) * 5, relations=(few, many) * 5, speeds=(50.0, 51.0, 49.0))
    found = {c.name: c for c in compare_models(measured("a"), worse)}

    assert found["names with types F1"].verdict == "first better"
    assert found["relations F1"].verdict == "the interval includes 0"
    assert found["failed paragraphs"].verdict == "the same"
    assert found["prefill tokens/s"].verdict == "first better"
    assert found["paragraphs/h"].verdict == "one measurement: no interval"


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
    assert recommendation([BROKEN]) == "No model here can be relied on."


def test_the_recommendation_ends_with_the_command_that_takes_the_model():
    """A listed model is used by its name, another is added with its file; the words are quoted for a shell."""
    best = recommendation([measured('My "Model" Q4'), measured("b", typed=((1, 10, 10),) * 10)])

    assert best.endswith("\n→ localrag models add '/models/My \"Model\" Q4.gguf' --use")
    assert recommendation([measured("smollm2-135m")]).endswith("\n→ localrag models use smollm2-135m")


def test_markdown_has_every_model():
    """It names each model and its error."""
    text = as_markdown(run_of(measured("a"), measured("b", failed=5), BROKEN))

    assert "| | a | b |" in text
    assert "broken.gguf: not measured" in text
    assert "failed 5 of 10" in text


def test_runs_are_matched_by_their_models(tmp_path):
    """Two runs: by file, or the one model each has; one run: its first model against the others; a model can be picked."""
    paths = []
    for n, run in enumerate((run_of(measured("a"), measured("b")), run_of(measured("b")), run_of(measured("c")))):
        paths.append(str(tmp_path / f"{n}.json"))
        save_run(run, tmp_path / f"{n}.json")
    ab, b, c = paths

    assert [(x["name"], y["name"]) for _, x, _, y in models_to_compare([ab, b])] == [("b", "b")]
    assert [(x["name"], y["name"]) for _, x, _, y in models_to_compare([b, c])] == [("b", "c")]
    assert [(x["name"], y["name"]) for _, x, _, y in models_to_compare([ab])] == [("a", "b")]
    assert [(x["name"], y["name"]) for _, x, _, y in models_to_compare([f"{ab}#a", c])] == [("a", "c")]
    with pytest.raises(UsageError, match="no measured model in common"):
        models_to_compare([ab, c])
    with pytest.raises(UsageError, match="no measured model"):
        models_to_compare([f"{ab}#z", c])
