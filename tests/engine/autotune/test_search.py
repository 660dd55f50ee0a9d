"""What the engine finds out about a machine, and what can be set by hand."""

import asyncio
import json
import subprocess
import sys
from dataclasses import replace

import pytest

from localrag.bench.engine import read_workload
from localrag.engine.autotune.load import open_backend, read_record
from localrag.engine.autotune.measure import is_batch_invariant
from localrag.engine.autotune.search import model_file_to_json, search_settings
from localrag.engine.autotune.trial import TrialLog
from localrag.engine.engine import Engine
from localrag.engine.llama.model import LlamaModel
from localrag.engine.settings import EngineOptions, EngineSettings, layout_key
from localrag.errors import ModelError, NativeTrialFailed, UsageError
from localrag.llm.grammar import choice_of
from localrag.llm.model import ChatModel
from localrag.model_files import ModelFile
from localrag.store.llm_cache import SqliteLlmCache
from localrag.store.opening import open_index
from tests.conftest import run_localrag


def test_what_was_measured_is_kept(engine, chat_file):
    """The first use writes the settings and the figures behind them; the next use measures nothing."""
    kept = json.loads(read_record(chat_file).path.read_text())
    choice = kept["choices"].get("n_ctx=2048@0") or kept["choices"]["@0"]
    said = []
    backend = open_backend(chat_file, EngineOptions("n_ctx=2048", notify=said.append))
    backend.close()

    assert said == []
    assert choice["busy"] or len(choice["measured"]) >= 5
    assert all(row["read_ms"] > 0 and row["write_ms"] > 0 for row in choice["measured"])
    settings = choice["settings"]
    assert {**settings, "n_ctx": 2048} == engine.settings.to_json()


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


def test_a_mistake_in_engine_settings_ends_before_anything_is_made(tmp_path):
    """The command line refuses it with exit code 2 and leaves no index behind."""
    (tmp_path / "a.txt").write_text("Lars Holm is the mate.")
    done = run_localrag("index", "a.txt", "--engine", "slots=0", cwd=tmp_path)

    assert done.returncode == 2
    assert not (tmp_path / ".localrag").exists()


def test_too_little_memory_is_said_with_the_numbers(engine, chat_file):
    """A KV that the memory cannot hold is refused with what it needs, what there is, and what to ask for instead."""
    with pytest.raises(ModelError, match=r"256 slots of 8192 tokens needs .* GiB .* GiB are free") as error:
        LlamaModel(chat_file, EngineSettings(slots=256, n_ctx=8192, kv_cache_type="f32"))
    assert "--engine slots=128" in error.value.hint


@pytest.mark.slow
@pytest.mark.ci
def test_exactness_is_measured_not_assumed(engine):
    """The layout in use passes the test that an answer depends on its request alone; with fewer rows for a sequence it does not."""
    settings = engine.settings

    assert settings.batch_invariant
    assert is_batch_invariant(engine.backend, settings)
    assert settings.min_rows == 1 or not is_batch_invariant(engine.backend, replace(settings, min_rows=1))


@pytest.mark.slow
@pytest.mark.ci
def test_deterministic_engines_are_exact(chat_file, engine):
    """With flash attention asked for, answers would depend on their company; --deterministic takes a layout where they do not."""
    loose = Engine(
        lambda: open_backend(
            chat_file,
            EngineOptions("flash_attention=yes,kv_cache_type=f16,slots=2,n_ctx=512,batch_invariant=no", deterministic=True),
        )
    )
    settings = loose.settings
    loose.close()

    assert settings.batch_invariant
    assert not settings.flash_attention


@pytest.mark.ci
def test_bench_engine_prints_what_a_comparison_needs(tmp_path):
    """The workload runs, and one JSON object with all figures is all that stdout gets."""
    done = run_localrag("bench", "engine", "--chunks", "3", "--words", "30", "--max-tokens", "40", "--json", cwd=tmp_path)
    figures = json.loads(done.stdout)

    assert done.returncode == 0, done.stderr
    assert {
        "output_tokens",
        "seconds",
        "output_tokens_per_s",
        "chunks_per_s",
        "forced_tokens",
        "prefix_tokens_saved",
        "steps",
    } <= figures.keys()
    assert 0 < figures["output_tokens"] <= 120
    assert figures["settings"]["threads"] >= 1


def test_a_workload_that_is_longer_than_the_demo_is_refused():
    """How many words there are is said, and how to ask for fewer."""
    with pytest.raises(UsageError, match=r"40 chunks of 9000 need 360000"):
        read_workload(chunks=40, words=9000, max_tokens=5)


@pytest.mark.ci
def test_a_replaced_model_file_is_noticed(tmp_path, chat_file):
    """A model file that changes under a running engine ends the run in words, before another answer is committed under its name."""
    path = tmp_path / "model.gguf"
    path.write_bytes(chat_file.path.read_bytes())
    model = ChatModel(
        SqliteLlmCache(open_index(tmp_path / "index", create=True)), ModelFile("m", "chat", path), EngineOptions("slots=2,n_ctx=512")
    )

    async def run():
        question = [{"role": "user", "content": "Hello"}]
        await model.ask("t", question, max_tokens=30, grammar=choice_of(["yes", "no"]))
        path.touch()
        await model.ask("t", [*question, {"role": "user", "content": "Again"}], max_tokens=30, grammar=choice_of(["yes", "no"]))

    with pytest.raises(ModelError, match="was replaced while it was in use"):
        asyncio.run(run())
    model.close()


def test_a_crash_is_laid_to_the_model_loaded_last(tmp_path):
    """Where a process holds two models, an embedder and a chat model, and dies, only the one loaded last bears the mark."""
    code = "import os, sys, pathlib; from localrag.engine.settings import EngineSettings; "
    code += "from localrag.engine.autotune.load import TuningRecord, write_crash_marker; home = pathlib.Path(sys.argv[1]); "
    code += "[write_crash_marker(TuningRecord(home / f'{name}.json'), EngineSettings()) for name in ('first', 'last')]; os.abort()"
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False, capture_output=True)
    said = {mark.name.split(".")[0]: mark.read_text() for mark in tmp_path.glob("*.died")}

    assert done.returncode == -6
    assert "Fatal Python error" not in said["first"]
    assert "Fatal Python error: Aborted" in said["last"]


@pytest.mark.ci
def test_a_layout_that_fails_after_it_was_chosen_is_left_out(tiny):
    """What dies while the rules for its rows are found out is refused, and the next layout taken; its rules are found out as well."""
    told, file = [], tiny("llama")
    start = EngineSettings(gpu_layers=0)
    died = [layout_key(replace(start, kv_cache_type=kv)) for kv in ("q8_0/bf16", "q8_0/f32")]
    known = {"measured ways": None, "measured layouts": None} | {f"rules {name}": {"refused": "SIGSEGV", "passing": False} for name in died}
    found = search_settings(TrialLog(known, told.append), file=model_file_to_json(file), values="slots=2,n_ctx=512", deterministic=False)

    assert (found["settings"]["kv_cache_type"], found["settings"]["flash_attention"]) == ("f16", False)
    assert [row["tried"] for row in told if row.get("value") == {"refused": "SIGSEGV", "passing": False}] == died
    both = [layout_key(replace(start, kv_cache_type="f16", extra_buffers=on)) for on in (True, False)]
    known |= {f"rules {name}": {"refused": "SIGSEGV", "passing": False} for name in both}
    with pytest.raises(NativeTrialFailed, match="SIGSEGV"):
        by_hand = "slots=2,n_ctx=512,flash_attention=no,kv_cache_type=f16"
        search_settings(TrialLog(known, told.append), file=model_file_to_json(file), values=by_hand, deterministic=False)
