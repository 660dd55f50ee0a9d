"""`localrag doctor`: what it looks at, and what it says where something is amiss."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from localrag.doctor import DoctorTarget, _layers_on_gpu, run_checks
from localrag.engine.settings import EngineOptions
from localrag.loaders.sandbox import landlock_version
from localrag.model_files import find_chat_model
from localrag.system.graphics_cards import GraphicsMachine, parse_cards
from localrag.system.resources import available_memory
from tests.conftest import TOWN, run_localrag, write_documents
from tests.indexing.scans import FOUND, remove_ocr, without_tesseract
from tests.system.test_graphics_cards import tools

ROOT = Path(__file__).parents[1]


def lines(subject, options=""):
    return {line.name: line for line in run_checks(subject, EngineOptions(options), speed=False)}


def test_a_sound_machine_is_well(plain_town):
    """Every line is there, none has failed, and the command says so with its exit code."""
    done = run_localrag("doctor", "--no-speed", "--json", cwd=plain_town)
    found = json.loads(done.stdout)
    names = [line["name"] for line in found["checks"]]

    assert (done.returncode, found["ok"]) == (0, True), done.stdout
    assert names == ["Python", "llama.cpp", "faiss", "torch", "SQLite", "CPU", "disk", "file system", "index", "file reader", "scans",
                     "chat model", "embedder", "layouts", "memory", "offline"]  # fmt: skip
    assert all(line["remedy"] for line in found["checks"] if line["state"] != "ok")


def test_an_index_on_a_network_share_is_warned_of_when_it_is_made(tmp_path, monkeypatch):
    """SQLite's log may fail there. Later runs do not repeat it, and `doctor` says it."""
    write_documents(tmp_path, {"docs/a.txt": TOWN["b.txt"]})
    share = psutil.disk_partitions(all=True)[0]._replace(mountpoint=str(tmp_path), fstype="nfs4")
    monkeypatch.setattr(psutil, "disk_partitions", lambda **_: [share])
    first, second = (run_localrag("index", "docs", "--extractor", "phrases", cwd=tmp_path) for _ in range(2))

    assert "is on a network file system (nfs4)" in first.stderr
    assert "network file system" not in second.stderr
    assert lines(DoctorTarget(tmp_path / ".localrag"))["file system"].state == "warn"


def test_what_reads_scans_is_named_or_how_to_get_it(tmp_path, monkeypatch):
    """Without any OCR the line says what to install, with languages; with it, which languages it reads."""
    remove_ocr(monkeypatch, tmp_path)
    missing = lines(DoctorTarget(None))["scans"]
    assert (missing.state, "neither Tesseract nor RapidOCR is installed" in missing.text) == ("warn", True)
    assert "tesseract-ocr-deu" in missing.remedy
    monkeypatch.undo()

    if FOUND:
        there = lines(DoctorTarget(None))["scans"]
        assert (there.state, f"Tesseract {FOUND.version} reads " in there.text) == ("ok", True)
    monkeypatch.setenv("PATH", without_tesseract(tmp_path))
    bundled = lines(DoctorTarget(None))["scans"]
    assert (bundled.state, bundled.text.startswith("RapidOCR 3"), "tesseract-ocr-deu" in bundled.text) == ("ok", True, True)


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's filter is Linux's")
@pytest.mark.ci
def test_a_kernel_without_landlock_is_named(tmp_path):
    """Without Landlock, a warning tells what the file reader can still read, and which kernel forbids it."""
    ours = lines(DoctorTarget(None))["file reader"]
    code = """
import ctypes, os, struct
from localrag.doctor import DoctorTarget, _layers_on_gpu, run_checks
from localrag.engine.settings import EngineOptions
from localrag.loaders.sandbox import _op
program = _op(0x20, 0) + _op(0x15, 444, 0, 1) + _op(0x06, 0x00050026) + _op(0x06, 0x7FFF0000)  # call 444 answers ENOSYS
code = ctypes.create_string_buffer(program, len(program))
libc = ctypes.CDLL(None)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.create_string_buffer(struct.pack("@HP", 4, ctypes.addressof(code))), 0, 0) == 0
line = next(line for line in run_checks(DoctorTarget(None), EngineOptions(""), speed=False) if line.name == "file reader")
print(line.state, line.text, line.remedy, sep="\\n")
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=120, cwd=ROOT)

    state, text, remedy = done.stdout.splitlines()
    assert state == "warn"
    assert "without Landlock it can read every file that you can read" in text
    assert "Linux 5.13" in remedy
    assert ours.state == ("ok" if landlock_version() else "warn")


def test_a_model_that_is_not_there_or_no_model_is_a_line_with_its_remedy(tmp_path):
    """A path to nothing, a file of something else, a torn GGUF, a folder without a model: lines, not crashes."""
    (tmp_path / "text.gguf").write_text("no model")
    (tmp_path / "torn.gguf").write_bytes(b"GGUF\x03\0\0\0" + b"\xff" * 100)
    for name, said in (("none.gguf", "no model file"), ("text.gguf", "is not a GGUF file"), ("torn.gguf", "cannot be loaded")):
        found = lines(DoctorTarget(None, chat=str(tmp_path / name), embedder=str(tmp_path / "none/")))

        assert found["chat model"].state == "fail"
        assert said in found["chat model"].text
        assert found["chat model"].remedy
        assert "no embedding model" in found["embedder"].text
        assert "memory" not in found


def test_a_missing_model_ends_the_command_in_1(tmp_path):
    """Every line is printed, the failed one with its remedy below it."""
    done = run_localrag("doctor", "--no-speed", "--model", "./none.gguf", cwd=tmp_path)

    assert done.returncode == 1
    assert "✗ chat model" in done.stdout
    assert "→ Check the path" in done.stdout
    assert "0 network sockets" in done.stdout


def test_a_damaged_database_is_a_line(tmp_path):
    """An index that cannot be opened does not keep the machine from being examined."""
    (tmp_path / ".localrag").mkdir()
    (tmp_path / ".localrag" / "index.db").write_bytes(b"not a database" * 100)
    done = run_localrag("doctor", "--no-speed", cwd=tmp_path)

    assert done.returncode == 1
    assert "is not a usable index" in done.stdout
    assert "✓ SQLite" in done.stdout


def test_more_memory_than_there_is_fails():
    """The KV is computed from the model's metadata and the settings; what cannot fit is said before it is tried."""
    found = lines(DoctorTarget(None), "slots=256,n_ctx=8192,kv_cache_type=f32")["memory"]
    few = lines(DoctorTarget(None), "slots=1,n_ctx=256")["memory"]

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
    found = lines(DoctorTarget(folder))["index"]
    subprocess.run(found.remedy, shell=True, check=True)

    assert found.state == "warn"
    assert lines(DoctorTarget(folder))["index"].state == "ok"


def test_the_proof_of_being_offline_can_fail():
    """One socket for a network, and the line says so."""
    code = (
        "import socket; from localrag.doctor import _offline, _watch_sockets; a = _watch_sockets()\n"
        "print(_offline(a).state); s = socket.socket(); s.bind(('127.0.0.1', 0)); print(_offline(a).state, _offline(a).text)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=ROOT, env=os.environ)

    assert done.stdout.split()[:2] == ["ok", "fail"]
    assert "socket.bind" in done.stdout


def test_a_card_that_llama_cpp_was_not_built_for_fails_with_the_command_that_builds_it(tmp_path, monkeypatch):
    """The driver's card is named, the command is the guide's, and the layers of the model that would fit are counted."""
    library = pytest.importorskip("localrag.engine.llama.library")
    if library.HAS_GPU_OFFLOAD:
        pytest.skip("llama.cpp was built for a GPU here")
    tools(tmp_path / "bin", monkeypatch, smi="0, NVIDIA GeForce RTX 3060, 12288, 11900, 8.6, 580.159.04\n")
    done = run_localrag("doctor", "--gpu", "--json", cwd=tmp_path)
    found = {line["name"]: line for line in json.loads(done.stdout)["checks"]}

    assert (done.returncode, found["llama.cpp"]["state"]) == (1, "fail")
    assert "does not use NVIDIA GeForce RTX 3060" in found["llama.cpp"]["text"]
    command = re.sub(r"\S+/bin/python", ".venv/bin/python", found["llama.cpp"]["remedy"])
    assert command in (ROOT / "docs" / "how-to" / "gpu.md").read_text(encoding="utf-8")
    assert shlex.split(command)[-1] in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert found["layers"]["text"].startswith("30 of 30 would fit on the card")


def test_a_small_card_gets_a_part_of_the_layers():
    """Of a card with less free memory than the model needs beside a KV cache, only some layers are promised."""
    machine = GraphicsMachine(parse_cards("0, NVIDIA T400, 2048, 800, 7.5, 580.159.04\n"), (13, 0), (13, 0))
    layers = _layers_on_gpu(find_chat_model(None), machine)

    assert (layers.state, layers.text.startswith("30 of 30")) == ("warn", False)
    assert 0 < int(layers.text.split()[0]) < 30


def test_without_any_card_the_command_succeeds_and_says_so(tmp_path, monkeypatch):
    """Nothing is broken: the warning names the driver, and a word about the layers follows."""
    tools(tmp_path / "none", monkeypatch)
    done = run_localrag("doctor", "--gpu", cwd=tmp_path)

    assert done.returncode == 0, done.stdout
    assert "There is no NVIDIA driver here" in done.stdout
    assert "layers" in done.stdout
