"""Checks of the machine and the installation: one line per check, with its remedy."""

import importlib
import os
import platform
import shutil
import subprocess
from collections.abc import Callable
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from shlex import quote

import psutil

from localrag.engine.settings import EngineOptions, layout_summary
from localrag.errors import LocalragError, error_location, known_error
from localrag.loaders import ocr
from localrag.model_files import ModelFile, checked_header, find_chat_model, find_embedder, total_size
from localrag.project import bound_model
from localrag.records import CheckLine
from localrag.store.full_text import sqlite_version
from localrag.system.files import cache_dir
from localrag.system.installation import pip_install, reinstall_hint
from localrag.system.python_process import python_process
from localrag.system.resources import available_cores, available_memory

GIB = 1 << 30
LIBRARIES = {  # name of the check → module, package
    "llama.cpp": ("localrag.engine.llama.library", "llama-cpp-python"),
    "faiss": ("faiss", "faiss-cpu"),
    "torch": ("torch", "torch"),
}
OCR_REMEDY = "Install it with the languages you need: apt-get install tesseract-ocr tesseract-ocr-deu, or brew install tesseract-lang"
_REBUILD = ("--force-reinstall", "--no-deps", "--no-cache-dir", "llama-cpp-python")
BUILD_HERE = f"Build llama.cpp on this machine: {pip_install('--no-binary=llama-cpp-python', *_REBUILD)}"
BUILD_FOR_CUDA = f'CMAKE_ARGS="-DGGML_CUDA=on" {pip_install(*_REBUILD)}'


def run_checks(folder: Path | None, options: EngineOptions, *, chat: str | None = None) -> list[CheckLine]:
    """Run all checks, those of the installation first; `folder` is that of the index, if any, `chat` another chat model than its own."""
    location = folder or Path.cwd()
    lines = [
        _machine(),
        *(_check_or_error(name, partial(_library, name)) for name in LIBRARIES),
        _sqlite(),
        _disk(location),
        _permissions(folder),
        _check_or_error("file reader", _reader),
        _check_or_error("scans", _check_ocr),
        _check_or_error("graphics card", _graphics_card),
    ]
    own = folder if folder and not chat else None
    file, line = _model("chat model", lambda: bound_model(own, "chat_model") if own else find_chat_model(chat), "--model PATH.gguf")
    _, embedder_line = _model("embedder", lambda: bound_model(folder, "embedder") if folder else find_embedder(), "--embedder NAME|PATH")
    lines += [line, embedder_line]
    if file and not file.url:
        lines.append(_check_or_error("layouts", lambda: _layouts(file)))
        lines.append(_check_or_error("memory", lambda: _memory(file, options)))
    return [*lines, _offline()]


def _graphics_card() -> CheckLine:
    """The cards that llama.cpp uses, or how to build it for one that may be here."""
    from localrag.engine.llama.library import offload_devices

    if devices := offload_devices():
        text = "; ".join(f"{d.name} {d.description}: {d.free / GIB:.1f} of {d.total / GIB:.1f} GiB free" for d in devices)
        return CheckLine("graphics card", "ok", text)
    if shutil.which("nvidia-smi"):
        text = "here is an NVIDIA driver, but llama.cpp uses no card: everything is computed on the CPU"
        return CheckLine("graphics card", "warn", text, BUILD_FOR_CUDA)
    return CheckLine("graphics card", "ok", "none, everything is computed on the CPU")


def _check_or_error(name: str, check: Callable[[], CheckLine]) -> CheckLine:
    try:
        return check()
    except Exception as error:  # noqa: BLE001 — every error is a finding
        told = known_error(error) or LocalragError(error_location(error), reinstall_hint(LIBRARIES.get(name, ("", ""))[1]))
        return CheckLine(name, "fail", str(told), told.hint)


def _machine() -> CheckLine:
    text = f"Python {platform.python_version()} on {platform.system()} {platform.machine()}, {available_cores()} of {os.cpu_count()} cores"
    return CheckLine("machine", "ok", text)


def _library(name: str) -> CheckLine:
    module, distribution = LIBRARIES[name]
    importlib.import_module(module)
    try:
        return CheckLine(name, "ok", f"{distribution} {version(distribution)}")
    except PackageNotFoundError:
        return CheckLine(name, "ok", "installed in another way")


def _sqlite() -> CheckLine:
    number, has_fts5 = sqlite_version()
    if not has_fts5:
        return CheckLine("SQLite", "fail", f"{number} without FTS5", "Use a Python whose SQLite has FTS5: uv python install 3.12")
    return CheckLine("SQLite", "ok", f"{number} with FTS5")


def _disk(folder: Path) -> CheckLine:
    if not os.access(cache_dir(), os.W_OK):
        text = f"{cache_dir()} cannot be written to: every command repeats the measurements and conversions that are stored there"
        return CheckLine("disk", "warn", text, "Make it writable, or use another folder: export LOCALRAG_HOME=FOLDER")
    free = min(shutil.disk_usage(p).free for p in (folder, cache_dir()))
    text, remedy = (
        f"{free / GIB:.1f} GiB free",
        f"Free space where {folder} and {cache_dir()} are, or keep the index elsewhere: --index DIR",
    )
    if free < GIB // 10:
        return CheckLine("disk", "fail", text, remedy)
    return CheckLine("disk", "warn", text, remedy) if free < GIB else CheckLine("disk", "ok", text)


def _permissions(folder: Path | None) -> CheckLine:
    if folder is None:
        return CheckLine("index", "ok", "none here yet")
    if not os.access(folder, os.W_OK):
        return CheckLine(
            "index", "warn", f"{folder} cannot be written to: questions work, answers are not stored", f"chmod u+w {quote(str(folder))}"
        )
    if folder.stat().st_mode & 0o077:
        return CheckLine("index", "warn", f"{folder} can be read by other users of this machine", f"chmod -R go-rwx {quote(str(folder))}")
    return CheckLine("index", "ok", f"{folder}, readable only by its owner")


def _reader() -> CheckLine:
    """The restrictions of the parser process, tried in a child process, because they are irrevocable."""
    code = "from localrag.loaders import sandbox; print(sandbox.landlock_version(), sandbox.apply_sandbox())"
    command, environment = python_process(code)
    process = subprocess.run(command, env=environment, check=False, capture_output=True, text=True, timeout=60)
    landlock, _, enforced = process.stdout.strip().partition(" ")
    if enforced != "True":
        text = "Python denies it connections, processes and writing, but the kernel does not deny them to native code"
        return CheckLine("file reader", "warn", text, "Index files you do not trust on Linux, on x86_64 or ARM64.")
    text = "restricted by the kernel: no connection, no other process, no signal, no file written"
    if landlock == "0":
        text += "; but without Landlock it can read every file that you can read"
        return CheckLine("file reader", "warn", text, "On Linux 5.13 or newer, boot with landlock in the kernel's lsm= parameter.")
    return CheckLine("file reader", "ok", f"{text}, no file read except libraries")


def _check_ocr() -> CheckLine:
    tesseract, rapidocr = ocr.find_tesseract(), ocr.rapidocr_version()
    codes = sorted(ocr.installed_languages(tesseract))
    other = f"RapidOCR {rapidocr} reads languages in Latin and Greek letters, Chinese and Japanese" if rapidocr else ""
    if tesseract and codes:
        text = f"Tesseract {tesseract.version} reads {', '.join(codes)}"
        return CheckLine("scans", "ok", f"{text}; {other}" if other else text)
    if other:
        return CheckLine("scans", "ok", f"{other}; Tesseract, which is faster and reads more, is not there. {OCR_REMEDY}")
    text = f"Tesseract {tesseract.version} has no data for any language" if tesseract else f"scans and pictures are not read: {ocr.NO_OCR}"
    return CheckLine("scans", "warn", text, OCR_REMEDY)


def _model(name: str, find: Callable[[], ModelFile], option: str) -> tuple[ModelFile | None, CheckLine]:
    try:
        file = find()
        if not file.url and file.is_gguf:
            checked_header(file.path)
        size = "" if file.url or file.path.is_dir() else f", {total_size(file.path) / 1e6:.0f} MB"
        return file, CheckLine(name, "ok", f"{file.name} ({file.fingerprint}){size}, {file.cli_argument}")
    except LocalragError as error:
        return None, CheckLine(name, "fail", str(error), error.hint)
    except OSError as error:
        return None, CheckLine(name, "fail", f"The model file cannot be read: {error.strerror}", f"Check it, or give another: {option}")


def _memory(file: ModelFile, options: EngineOptions) -> CheckLine:
    from localrag.engine.autotune.load import estimate_memory

    weights, kv, s = estimate_memory(file, options)
    free = available_memory()
    text = f"{weights / GIB:.2f} GiB for the weights, {kv / GIB:.2f} for the KV of {s.slots} sequences of {s.n_ctx} tokens"
    if free is None:
        return CheckLine("memory", "warn", f"{text}; how much is free cannot be read here", "Look at it yourself.")
    text += f"; {free / GIB:.1f} GiB are free"
    smaller = f"slots={max(1, s.slots // 2)},n_ctx={max(256, s.n_ctx // 2)}"
    remedy = f"Close other programs, use a smaller model, or a smaller KV cache: --engine {smaller}"
    if weights + kv > free:
        return CheckLine("memory", "fail", text, remedy)
    return CheckLine("memory", "warn", text, remedy) if weights + kv > 0.8 * free else CheckLine("memory", "ok", text)


def _layouts(file: ModelFile) -> CheckLine:
    """The layouts of weights and KV cache that were tested on this machine and do not work."""
    from localrag.engine.autotune.load import read_record

    record = read_record(file)
    if not record.verified_layouts:
        return CheckLine("layouts", "ok", "none tested here yet: the first use of the model does it")
    if not record.rejected_layouts:
        return CheckLine("layouts", "ok", f"{len(record.verified_layouts)} tested here, all work")
    reasons = "; ".join(f"{layout_summary(name)}: {reason}" for name, reason in sorted(record.rejected_layouts.items()))
    return CheckLine("layouts", "warn", f"{len(record.rejected_layouts)} do not work here and are not used: {reasons}", BUILD_HERE)


def _offline() -> CheckLine:
    """The open connections of this process, which include those of native libraries."""
    try:
        connections = len(psutil.Process().net_connections("inet"))
    except (psutil.Error, OSError):
        return CheckLine("offline", "warn", "whether connections are open cannot be read here", "Look at it yourself: ss -p")
    if connections:
        return CheckLine("offline", "fail", f"{connections} connections are open", "Please report this: it must not happen.")
    return CheckLine("offline", "ok", "after these checks 0 network sockets are open")
