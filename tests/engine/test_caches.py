"""The user cache: what is damaged in it is made anew, and what cannot be kept is done without."""

import json
import os
import shutil
import subprocess
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest

from localrag.engine.embedder import load_folder_by_llama
from localrag.engine.llama.model import LlamaModel
from localrag.engine.llama.weights import convert_to_gguf, copy_path, weights_file
from localrag.engine.settings import EngineSettings
from localrag.engine.tokenizer import Tokenizer
from localrag.errors import ModelError
from localrag.gguf import is_complete
from localrag.llm.budgets import model_throughput, record_throughput
from localrag.model_files import ModelFile, find_embedder, fingerprint
from localrag.system.files import cache_dir
from tests.conftest import TOWN, mostly_ci, run_localrag, run_process, write_town

DAMAGES = {"empty": 0.0, "half": 0.5, "nearly whole": 0.999}


@pytest.fixture
def own_home(tmp_path, monkeypatch):
    """A cache of the test's own."""
    monkeypatch.setenv("LOCALRAG_HOME", str(tmp_path / "home"))
    return cache_dir()


def damaged(path, share):
    """Cut the file off; at half its length, zeros follow, as after a power failure."""
    data = path.read_bytes()
    kept = data[: int(len(data) * share)]
    path.write_bytes(kept + bytes(len(data) - len(kept)) if share == 0.5 and path.suffix == ".json" else kept)


@pytest.mark.parametrize("share", DAMAGES.values(), ids=DAMAGES)
@pytest.mark.ci
def test_a_damaged_vocabulary_is_read_again(own_home, chat_file, share):
    """Cut off or full of zeros, the kept vocabulary is taken from the model again, and kept."""
    expected = Tokenizer(chat_file).counts(list(TOWN.values()))
    (kept,) = (own_home / "vocabularies").iterdir()
    whole = kept.read_bytes()
    damaged(kept, share)

    assert Tokenizer(chat_file).counts(list(TOWN.values())) == expected
    assert kept.read_bytes() == whole


@pytest.mark.ci
@pytest.mark.parametrize(
    "text", mostly_ci(["[]", "{}", '{"ranks": 3, "pre": "smollm"}', '{"ranks": ["a"], "pre": "of long ago"}', "null"], "[]")
)
def test_a_vocabulary_of_another_form_is_read_again(own_home, chat_file, text):
    """What an older or a newer localrag may have kept."""
    (own_home / "vocabularies").mkdir()
    (own_home / "vocabularies" / f"{chat_file.fingerprint}.json").write_text(text)

    assert Tokenizer(chat_file).count("The Skua leaks.") > 2


@pytest.mark.parametrize("share", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_copy_is_made_anew(own_home, tiny, share):
    """A requantised copy that was cut off is replaced by a whole one; the user's model is not blamed."""
    file = tiny("llama")
    copy = weights_file(file, "q8_0", 2)
    size = copy.stat().st_size
    damaged(copy, share)
    backend = LlamaModel(file, EngineSettings(slots=1, n_ctx=256, weights="q8_0"))
    backend.close()

    assert (is_complete(copy), copy.stat().st_size) == (True, size)


@pytest.mark.parametrize("share", mostly_ci(DAMAGES.values(), 0.5), ids=DAMAGES)
def test_a_damaged_embedder_is_converted_again(own_home, share):
    """The converted embedding model is made anew; its vectors are the same."""
    texts = list(TOWN.values())
    expected = load_folder_by_llama(find_embedder())(texts).vectors
    copy = convert_to_gguf(find_embedder()).path
    damaged(copy, share)

    assert np.array_equal(load_folder_by_llama(find_embedder())(texts).vectors, expected)
    assert is_complete(copy)


@pytest.mark.parametrize("text", ["", "[1]", '"x"', '{"PATH": 3}', '{"PATH": {"stamp": []}}', '{"PATH": {"stam', "\0" * 50])
def test_damaged_fingerprints_are_computed_again(own_home, tmp_path, tiny, text):
    """Cut off or of another form, the file of fingerprints costs the time to read the model again."""
    path = shutil.copy(tiny("llama").path, tmp_path / "m.gguf")
    expected = fingerprint(path)
    kept = own_home / "fingerprints.json"
    kept.write_text(text.replace("PATH", str(path)))

    assert fingerprint(path) == expected
    assert json.loads(kept.read_text())[str(path)]["sha256"] == expected


@pytest.mark.parametrize("text", ["", "[1]", '{"x": 3}', '{"x": {"y"'])
def test_damaged_speeds_are_forgotten(own_home, tiny, text):
    """A plan without them guesses as on a new machine, and the next run keeps its own."""
    (own_home / "speeds.json").write_text(text)
    assert model_throughput() == {}

    record_throughput(tiny("llama"), {"rows": 2000, "seconds": 4.0})
    assert model_throughput() == {tiny("llama").fingerprint: [500.0]}


@pytest.fixture
def full_disk(tmp_path):
    """A disk of 300 kB with nothing free, as a folder."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = (
        os.geteuid() == 0
        and not subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300k", "none", folder], check=False, capture_output=True).returncode
    )
    if not mounted:
        pytest.skip("only root may make a small disk")
    (folder / "cache").mkdir()
    with suppress(OSError):
        (folder / "filling").write_bytes(bytes(1 << 20))
    yield folder
    subprocess.run(["umount", folder], check=True)


@pytest.mark.slow
@pytest.mark.ci
def test_a_full_cache_costs_time_and_nothing_else(full_disk, tmp_path):
    """With no byte free for the cache, a folder is indexed and searched as ever, and `doctor` asks for room."""
    write_town(tmp_path / "docs")
    env = {"LOCALRAG_HOME": str(full_disk)}
    for command in (("index", "docs", "--extractor", "phrases"), ("ask", "Who is the mate?"), ("search", "mate of the Skua"), ("status",)):
        done = run_process(*command, cwd=tmp_path, **env)
        assert done.returncode == 0, done.stderr
    done = run_process("doctor", cwd=tmp_path, **env)

    assert "unexpected" not in done.stderr
    assert "Free space where" in done.stdout
    assert not list((full_disk / "cache").rglob("*.part"))


def test_a_copy_for_which_there_is_no_room_is_refused_in_words(full_disk, tiny, monkeypatch):
    """The copy is named, the place and what to do; nothing half-written stays, and the model's own weights work."""
    monkeypatch.setenv("LOCALRAG_HOME", str(full_disk))
    settings = EngineSettings(slots=1, n_ctx=256, weights="q8_0")
    with pytest.raises(ModelError, match=r"The q8_0 copy of llama\.gguf cannot be written to .*cache/models") as error:
        LlamaModel(tiny("llama"), settings)
    assert "--engine weights=own" in error.value.hint
    assert not list((full_disk / "cache").rglob("*.gguf*"))

    backend = LlamaModel(tiny("llama"), replace(settings, weights="own"))
    cells = [5 + n for n in range(200)]
    backend.decode([(token, n, 0, n == 199) for n, token in enumerate(cells)])
    assert backend.save_state(0, full_disk / "200-a.kv", cells) is False
    assert not list(full_disk.glob("200-a*"))
    backend.close()


@pytest.mark.slow
@pytest.mark.ci
def test_a_cache_that_cannot_be_made_is_done_without(tmp_path, chat_file, monkeypatch):
    """A file where the cache folder should be: vocabulary, fingerprint and questions work; `doctor` says what is amiss."""
    (tmp_path / "home").write_text("in the way")
    monkeypatch.setenv("LOCALRAG_HOME", str(tmp_path / "home"))
    write_town(tmp_path / "docs")

    assert Tokenizer(ModelFile("m", "chat", chat_file.path)).count("The Skua leaks.") > 2
    assert run_process("index", "docs", "--extractor", "phrases", cwd=tmp_path).returncode == 0
    done = run_localrag("doctor", cwd=tmp_path)
    assert "cannot be written to: every command repeats the measurements" in done.stdout
    assert "LOCALRAG_HOME" in done.stdout
    assert copy_path(chat_file, "bf16").parent.name == "models"
