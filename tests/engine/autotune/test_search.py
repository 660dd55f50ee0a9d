"""What the engine finds out about a machine, and what can be set by hand."""

import json

import pytest

from localrag.bench.engine import read_workload
from localrag.engine.autotune.load import open_backend, read_record, with_row_rules
from localrag.engine.autotune.measure import Measurement, fastest
from localrag.engine.llama.model import LlamaModel
from localrag.engine.settings import EngineOptions, EngineSettings
from localrag.errors import ModelError, UsageError


def test_what_was_measured_is_kept(engine, chat_file):
    """The first use writes the settings; the next use measures nothing."""
    kept = json.loads(read_record(chat_file).path.read_text())["choices"]["@0"]["settings"]
    said = []
    backend = open_backend(chat_file, EngineOptions("n_ctx=2048", notify=said.append))
    backend.close()

    assert said == []
    assert backend.settings == engine.settings
    assert engine.settings.to_json() == {**with_row_rules(chat_file, EngineSettings(**kept)).to_json(), "n_ctx": 2048}


def test_settings_by_hand_win():
    """`--engine` changes what it names and nothing else."""
    settings = EngineSettings(threads=3).with_values("slots=2, kv_cache_type=f32,flash-attention=yes,prompt_lookup=no")

    assert settings == EngineSettings(threads=3, slots=2, kv_cache_type="f32", flash_attention=True, prompt_lookup=False)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("speed=9", "no setting 'speed'"),
        ("slots=many", "is a number"),
        ("slots=0", "at least 1"),
        ("slots=999", "256"),
        ("n_ctx=10", "at least 256"),
        ("kv_cache_type=q3", "cannot be 'q3'"),
        ("kv_cache_type=q8_0", "needs flash attention"),
        ("prompt_lookup=maybe", "yes or no"),
    ],
)
def test_a_setting_that_cannot_be_is_refused_in_words(text, said):
    """A mistake in --engine names the setting and what it may be."""
    with pytest.raises(UsageError, match=said):
        EngineSettings().with_values(text)


def test_too_little_memory_is_said_with_the_numbers(engine, chat_file):
    """A KV that the memory cannot hold is refused with what it needs, what there is, and what to ask for instead."""
    with pytest.raises(ModelError, match=r"256 slots of 8192 tokens needs .* GiB .* GiB are free") as error:
        LlamaModel(chat_file, EngineSettings(slots=256, n_ctx=8192, kv_cache_type="f32"))
    assert "--engine slots=128" in error.value.hint


def test_deterministic_settings_win_over_fast_ones(chat_file, engine):
    """With flash attention asked for, answers would depend on their company; --deterministic takes the plain layout."""
    options = EngineOptions("flash_attention=yes,kv_cache_type=f16,slots=2,n_ctx=512", deterministic=True)
    backend = open_backend(chat_file, options)
    backend.close()

    assert (backend.settings.flash_attention, backend.settings.extra_buffers, backend.settings.weights) == (False, False, "own")
    assert (backend.settings.slots, backend.settings.min_rows) == (2, 2)


def test_a_workload_that_is_longer_than_the_demo_is_refused():
    """How many words there are is said, and how to ask for fewer."""
    with pytest.raises(UsageError, match=r"40 chunks of 9000 need 360000"):
        read_workload(chunks=40, words=9000, max_tokens=5)


def test_a_later_choice_must_be_clearly_faster():
    """A gain of more than 8 % decides; the order is that of preference."""
    first, much, little = (Measurement(EngineSettings(), seconds, seconds) for seconds in (1.0, 0.9, 0.95))

    assert fastest([first, much]) is much
    assert fastest([first, little]) is first
    assert fastest([first, much, little]) is much
