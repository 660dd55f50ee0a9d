"""`localrag doctor`: what it looks at, and what it says where something is amiss."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from localrag.doctor import run_checks
from localrag.engine.settings import EngineOptions
from localrag.loaders.sandbox import landlock_version
from localrag.system.resources import available_memory
from tests.conftest import run_localrag
from tests.indexing.scans import FOUND, remove_ocr, without_tesseract

ROOT = Path(__file__).parents[1]


def lines(folder, options="", **chosen):
    return {line.name: line for line in run_checks(folder, EngineOptions(options), **chosen)}


def test_a_sound_machine_is_well(plain_town):
    """Every line is there, none has failed, and the command says so with its exit code."""
    done = run_localrag("doctor", "--json", cwd=plain_town)
    found = json.loads(done.stdout)
    names = [line["name"] for line in found["checks"]]

    assert (done.returncode, found["ok"]) == (0, True), done.stdout
    assert names == ["machine", "llama.cpp", "faiss", "torch", "SQLite", "disk", "index", "file reader", "scans", "graphics card",
                     "chat model", "embedder", "layouts", "memory", "offline"]  # fmt: skip
    assert all(line["remedy"] for line in found["checks"] if line["state"] != "ok")


def test_what_reads_scans_is_named_or_how_to_get_it(tmp_path, monkeypatch):
    """Without any OCR the line says what to install, with languages; with it, which languages it reads."""
    remove_ocr(monkeypatch, tmp_path)
    missing = lines(None)["scans"]
    assert (missing.state, "neither Tesseract nor RapidOCR is installed" in missing.text) == ("warn", True)
    assert "tesseract-ocr-deu" in missing.remedy
    monkeypatch.undo()

    if FOUND:
        there = lines(None)["scans"]
        assert (there.state, f"Tesseract {FOUND.version} reads " in there.text) == ("ok", True)
    monkeypatch.setenv("PATH", without_tesseract(tmp_path))
    bundled = lines(None)["scans"]
    assert (bundled.state, bundled.text.startswith("RapidOCR 3"), "tesseract-ocr-deu" in bundled.text) == ("ok", True, True)


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's filter is Linux's")
@pytest.mark.ci
def test_a_kernel_without_landlock_is_named(tmp_path):
    """Without Landlock, a warning tells what the file reader can still read, and which kernel forbids it."""
    ours = lines(None)["file reader"]
    code = """
import ctypes, os, struct
from localrag.doctor import run_checks
from localrag.engine.settings import EngineOptions
from localrag.loaders.sandbox import _op
program = _op(0x20, 0) + _op(0x15, 444, 0, 1) + _op(0x06, 0x00050026) + _op(0x06, 0x7FFF0000)  # call 444 answers ENOSYS
code = ctypes.create_string_buffer(program, len(program))
libc = ctypes.CDLL(None)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.create_string_buffer(struct.pack("@HP", 4, ctypes.addressof(code))), 0, 0) == 0
line = next(line for line in run_checks(None, EngineOptions("")) if line.name == "file reader")
print(line.state, line.text, line.remedy, sep="\\n")
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=120, cwd=ROOT)

    state, text, remedy = done.stdout.splitlines()
    assert state == "warn"
    assert "without Landlock it can read every file that you can read" in text
    assert "Linux 5.13" in remedy
    assert ours.state == ("ok" if landlock_version() else "warn")


def test_a_model_that_is_not_there_or_no_model_is_a_line_with_its_remedy(tmp_path):
    """A path to nothing, a file of something else, a torn GGUF: lines, not crashes."""
    (tmp_path / "text.gguf").write_text("no model")
    (tmp_path / "torn.gguf").write_bytes(b"GGUF\x03\0\0\0" + b"\xff" * 100)
    for name, said in (("none.gguf", "no model file"), ("text.gguf", "is not a GGUF file"), ("torn.gguf", "cannot be loaded")):
        found = lines(None, chat=str(tmp_path / name))

        assert found["chat model"].state == "fail"
        assert said in found["chat model"].text
        assert found["chat model"].remedy
        assert "memory" not in found


def test_a_damaged_database_is_a_line(tmp_path):
    """An index that cannot be opened does not keep the machine from being examined."""
    (tmp_path / ".localrag").mkdir()
    (tmp_path / ".localrag" / "index.db").write_bytes(b"not a database" * 100)
    done = run_localrag("doctor", cwd=tmp_path)

    assert (done.returncode, "✓ SQLite" in done.stdout) == (1, True)
    assert "is not a usable index" in done.stdout


def test_more_memory_than_there_is_fails():
    """The KV is computed from the model's metadata and the settings; what cannot fit is said before it is tried."""
    found = lines(None, "slots=256,n_ctx=8192,kv_cache_type=f32")["memory"]
    few = lines(None, "slots=1,n_ctx=256")["memory"]

    needed, little = (float(line.text.split(", ")[1].split()[0]) for line in (found, few))

    assert needed == pytest.approx(90, abs=1)  # 30 layers of 3 heads of 64 keys and values, 2 million tokens, 4 bytes each
    assert (found.state == "fail") == (needed * 2**30 > available_memory())
    assert little < 0.1
    assert few.state == "ok"


def test_an_index_that_others_can_read_is_named_with_the_command_that_mends_it(tmp_path):
    """The remedy, carried out, makes the warning go."""
    folder = tmp_path / "an index"
    folder.mkdir()
    folder.chmod(0o755)
    found = lines(folder)["index"]
    subprocess.run(found.remedy, shell=True, check=True)

    assert found.state == "warn"
    assert lines(folder)["index"].state == "ok"


def test_the_proof_of_being_offline_can_fail():
    """One socket for a network, and the line says so."""
    code = (
        "import socket; from localrag.doctor import _offline\n"
        "print(_offline().state); s = socket.create_server(('127.0.0.1', 0)); print(_offline().state)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=ROOT, env=os.environ)

    assert done.stdout.split() == ["ok", "fail"]


def test_a_card_that_llama_cpp_was_not_built_for_gets_the_command_that_builds_it(tmp_path, monkeypatch):
    """Where NVIDIA's driver is; the command is the guide's. No card is no fault."""
    library = pytest.importorskip("localrag.engine.llama.library")
    if library.HAS_GPU_OFFLOAD:
        pytest.skip("llama.cpp was built for a GPU here")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert lines(None)["graphics card"].state == "ok"
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    found = lines(None)["graphics card"]

    assert (found.state, "an NVIDIA driver" in found.text) == ("warn", True)
    command = re.sub(r"\S+/bin/python", ".venv/bin/python", found.remedy)
    assert command in (ROOT / "docs" / "how-to" / "gpu.md").read_text(encoding="utf-8")
    assert shlex.split(command)[-1] in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
