"""The check of a machine with a graphics card (scripts/gpu_check.py): errors, resumed and failed steps, the pack, a rehearsal."""

import json
import os
import subprocess
import sys
import tarfile
from importlib import import_module
from pathlib import Path

import psutil
import pytest

from tests.conftest import until

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = ROOT / "scripts" / "gpu_check.py"
sys.path.insert(0, str(SCRIPT.parent))

gpu_check, gpu_pack = map(import_module, ("gpu_check", "gpu_pack"))

STEPS = tuple(gpu_check.Step(name, name, 30) for name in ("first", "second", "third"))
JOB = {"rehearse": True, "card": "", "pack": str(ROOT), "command": "gpu_check.py run OUT --rehearse"}


def run_of(folder, **job):
    return gpu_check.open_run(folder, JOB | job)


def program(code):
    """The command of a step that writes down that it ran, and then runs this code."""
    return [sys.executable, "-c", f"import json, sys, pathlib\npathlib.Path('ran').open('a').write('x')\n{code}"]


def states(run):
    return {name: state.state for name, state in run.states.items()}


def test_a_machine_without_a_card_is_told_in_one_line(tmp_path, monkeypatch):
    """With what to do; nothing is written."""
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\necho 'No devices were found'\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    done = subprocess.run([sys.executable, SCRIPT, "run", tmp_path / "out"], check=False, capture_output=True, text=True)

    assert (done.returncode, done.stderr.count("\n"), "no card" in done.stderr) == (1, 1, True)
    assert not (tmp_path / "out").exists()


def test_a_failed_step_does_not_stop_the_later_ones(tmp_path):
    """Its last line is the reason, what it had measured stays, and the report has all three."""
    run = run_of(tmp_path)
    commands = {
        "first": program("pathlib.Path('results/first.json').write_text(json.dumps({'rate': 7})); sys.exit('the card is gone')"),
        "second": program("import os, signal; os.kill(os.getpid(), signal.SIGABRT)"),
        "third": program("pathlib.Path('results/third.json').write_text(json.dumps({'skipped': 'no torch'}))"),
    }
    gpu_check.run_steps(run, STEPS, commands.get, 60)

    assert states(run) == {"first": "failed", "second": "failed", "third": "skipped"}
    assert run.states["first"].result == {"rate": 7}
    assert "code 1: the card is gone" in run.states["first"].reason
    assert "signal 6" in run.states["second"].reason
    report = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "the card is gone" in report
    assert "not measured" in report
    assert json.loads((tmp_path / "report.json").read_text())["steps"]["third"]["reason"] == "no torch"


def test_a_second_run_goes_on_where_the_first_was_interrupted(tmp_path):
    """The finished step is not run again; the one that was cut off and the one that failed are."""
    run = run_of(tmp_path)
    gpu_check.run_steps(run, STEPS[:1], lambda _: program(""), 60)
    run.states["second"] = gpu_check.StepState()  # as it is stored while the step runs
    run.states["third"] = gpu_check.StepState("failed", reason="once")
    run.save()
    again = run_of(tmp_path)
    assert states(again) == {"first": "done", "second": "interrupted", "third": "failed"}
    gpu_check.run_steps(again, STEPS, lambda _: program(""), 60)

    assert set(states(run_of(tmp_path)).values()) == {"done"}
    assert (tmp_path / "ran").read_text() == "xxx"


@pytest.mark.ci
def test_a_step_is_stopped_at_its_limit_with_what_it_started(tmp_path):
    """Its figures so far are kept, its child process ends with it, and steps for which no time is left wait for the next run."""
    code = (
        "import subprocess, time; child = subprocess.Popen(['sleep', '60']); pathlib.Path('child').write_text(str(child.pid))\n"
        "pathlib.Path('results/first.json').write_text(json.dumps({'rate': 7})); time.sleep(60)"
    )
    run = run_of(tmp_path)
    gpu_check.run_steps(run, [gpu_check.Step("first", "first", 5), STEPS[1]], lambda _: program(code), 8)

    assert states(run) == {"first": "failed", "second": "not reached"}
    assert "stopped after 5 s" in run.states["first"].reason
    assert run.states["first"].result == {"rate": 7}
    child = int((tmp_path / "child").read_text())
    until(lambda: not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE, 10)


def test_a_pack_has_the_sources_that_a_build_needs_under_their_names(tmp_path, monkeypatch):
    """Long names stay, other devices, documentation and vocabularies stay behind; one over the limit is refused with its largest part."""
    cuda = "vendor/llama.cpp/ggml/src/ggml-cuda/template-instances/fattn-mma-f16-instance-ncols1_16-ncols2_16.cu"
    kept = {cuda, gpu_pack.TOKENIZER, "llama_cpp/llama.py"}
    others = {"vendor/llama.cpp/docs/a.md", "vendor/llama.cpp/models/ggml-vocab-gemma-4.gguf", "tests/test_llama.py"}
    for name in kept | others | {"vendor/llama.cpp/ggml/src/ggml-vulkan/ggml-vulkan.cpp"}:
        (tmp_path / "llama_cpp_python-0.3.36" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "llama_cpp_python-0.3.36" / name).write_text("text")
    with tarfile.open(tmp_path / "llama_cpp_python-0.3.36.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "llama_cpp_python-0.3.36", "llama_cpp_python-0.3.36")
    (tmp_path / "wheels").mkdir()
    (tmp_path / "wheels" / "made-1-py3-none-any.whl").write_bytes(os.urandom(1000))
    monkeypatch.setattr(gpu_pack, "SOURCES", ("LICENSE", "localrag/records.py"))
    given = {"sdist": tmp_path / "llama_cpp_python-0.3.36.tar.gz", "wheels": tmp_path / "wheels", "python": "3.12"}
    sizes = gpu_pack.write_pack(tmp_path / "pack.tar.xz", **given)
    folder = gpu_pack.unpack(tmp_path / "pack.tar.xz", tmp_path / "there")

    assert {p.relative_to(folder / "llama").as_posix() for p in (folder / "llama").rglob("*") if p.is_file()} == kept
    assert {p.name for p in folder.iterdir()} >= {"LICENSE", "localrag", "wheels"}
    assert "of 64 allowed" in gpu_pack.summary(sizes)
    monkeypatch.setattr(gpu_pack, "MAX_PACK_BYTES", 1000)
    with pytest.raises(gpu_pack.PackError, match=r"allowed \("):
        gpu_pack.write_pack(tmp_path / "larger.tar.xz", **given)
    assert not (tmp_path / "larger.tar.xz").exists()


@pytest.mark.ci
def test_cheap_steps_are_rehearsed(tmp_path):
    """Without a card and a pack: the machine is described, what needs a pack is left out with its reason, and nothing fails."""
    command = [sys.executable, SCRIPT, "run", tmp_path, "--rehearse", "--only", "machine", "packages", "build", "weights"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(ROOT)})
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))["steps"]

    assert done.returncode == 0, done.stdout + done.stderr
    assert report["machine"]["result"]["Python"].startswith("3.")
    assert (report["weights"]["state"], "--pack" in report["weights"]["reason"]) == ("skipped", True)
    assert "Rehearsal without a card" in (tmp_path / "report.md").read_text(encoding="utf-8")
