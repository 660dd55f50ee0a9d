"""Checks of the machine and the installation: one line per check, with its remedy."""

import asyncio
import importlib
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from shlex import quote
from typing import Any

import psutil

from localrag.engine.embedder import open_embedder
from localrag.engine.settings import EngineOptions, layout_summary
from localrag.errors import LocalragError, ModelError, error_location, known_error
from localrag.loaders import ocr
from localrag.loaders.sandbox import SCOPED
from localrag.model_files import ModelFile, checked_header, find_chat_model, find_embedder, total_size
from localrag.records import CheckLine
from localrag.store.full_text import sqlite_version
from localrag.system import graphics_cards
from localrag.system.files import cache_dir, check_platform, file_system_of, network_warning
from localrag.system.graphics_cards import BUILD_FOR_CUDA, GraphicsMachine
from localrag.system.installation import pip_install, reinstall_hint
from localrag.system.python_process import python_process
from localrag.system.resources import available_cores, available_memory

SPEED_TEST_S = 5.0  # seconds of the speed test
GIB = 1 << 30
CPU_FLAG_NAMES = {  # flag of the CPU → name in llama.cpp
    "avx2": "AVX2", "fma": "FMA", "f16c": "F16C", "avx512f": "AVX512", "avx512_vnni": "AVX512_VNNI", "avx512_bf16": "AVX512_BF16",
    "avx_vnni": "AVX_VNNI", "amx_int8": "AMX_INT8", "asimd": "NEON", "asimddp": "DOTPROD", "i8mm": "MATMUL_INT8", "sve": "SVE",
}  # fmt: skip
PACKAGES = {"llama.cpp": "llama-cpp-python", "faiss": "faiss-cpu", "torch": "torch"}  # of checks
_NETWORK = (
    "socket.connect",
    "socket.bind",
    "socket.getaddrinfo",
    "socket.gethostby",
    "socket.getnameinfo",
    "socket.sendto",
    "socket.sendmsg",
)


@dataclass(frozen=True, slots=True)
class DoctorTarget:
    """The index folder to check, if any, and its chat model and embedder by name or path."""

    folder: Path | None
    chat: str | None = None
    embedder: str | None = None


def run_checks(target: DoctorTarget, options: EngineOptions, *, speed: bool) -> list[CheckLine]:
    """Run all checks, those of the installation first. `speed`: also run both models for some seconds."""
    attempts = _watch_sockets()
    lines = [_python(), _llama(), *map(_package, ("faiss", "torch")), _sqlite(), _cpu()]
    location = target.folder or Path.cwd()
    lines += [
        _disk(location),
        _file_system(location),
        _permissions(target.folder),
        _check_or_error("file reader", _reader),
        _check_or_error("scans", _check_ocr),
    ]
    chat, line = _model("chat model", lambda: find_chat_model(target.chat), "--model PATH.gguf")
    embedder, embedder_line = _model("embedder", lambda: find_embedder(target.embedder), "--embedder NAME|PATH")
    lines += [line, embedder_line]
    if chat and not chat.url:
        lines.append(_check_or_error("layouts", lambda: _layouts(chat)))
        lines.append(_check_or_error("memory", lambda: _memory(chat, options)))
        if speed:
            lines.append(_check_or_error("speed", lambda: _chat_speed(chat, options)))
    if embedder and speed:
        lines.append(_check_or_error("embedding", lambda: _embedding_speed(embedder)))
    return [*lines, _offline(attempts)]


def run_gpu_checks(target: DoctorTarget) -> list[CheckLine]:
    """Check whether llama.cpp uses the graphics cards of this machine, and how much of the chat model fits on them."""
    machine = graphics_cards.read_machine()
    lines = [_check_or_error("llama.cpp", lambda: _gpu_backend(machine)), _check_or_error("cards", lambda: _cards(machine))]
    if machine.cards:
        lines.append(graphics_cards.check_processes(tuple(p for p in machine.processes if p.pid != os.getpid())))
    if machine.cards and machine.toolkit_cuda:
        lines.append(graphics_cards.check_toolkit(machine))
    chat, line = _model("chat model", lambda: find_chat_model(target.chat), "--model PATH.gguf")
    lines.append(line)
    if chat and chat.url:
        lines.append(CheckLine("layers", "ok", "the server decides, which runs the model"))
    elif chat:
        lines.append(_check_or_error("layers", lambda: _layers_on_gpu(chat, machine)))
    return lines


def _gpu_backend(machine: GraphicsMachine) -> CheckLine:
    """For which devices llama.cpp was built."""
    from localrag.engine.llama.library import HAS_GPU_OFFLOAD, LLAMA_CPP_VERSION, offload_devices

    text = f"llama-cpp-python {LLAMA_CPP_VERSION}"
    if HAS_GPU_OFFLOAD:
        backends = sorted({device.name.rstrip("0123456789") for device in offload_devices()})
        return CheckLine("llama.cpp", "ok", f"{text}, built for {', '.join(backends) or 'a GPU, but it finds none'}")
    if machine.cards:
        return CheckLine("llama.cpp", "fail", f"{text} was built for the CPU only and does not use {machine.cards[0].name}", BUILD_FOR_CUDA)
    return CheckLine("llama.cpp", "warn", f"{text} was built for the CPU only", f"With an NVIDIA card: {BUILD_FOR_CUDA}")


def _cards(machine: GraphicsMachine) -> CheckLine:
    """The cards that llama.cpp sees, else those that the driver sees, else why there are none."""
    from localrag.engine.llama.library import HAS_GPU_OFFLOAD, offload_devices

    seen = [f"{d.name} {d.description}: {d.free / GIB:.1f} of {d.total / GIB:.1f} GiB free" for d in offload_devices()]
    if seen:
        return CheckLine("cards", "ok", "; ".join(seen))
    if machine.cards:
        cards = "; ".join(f"{c.name}: {c.free / GIB:.1f} of {c.total / GIB:.1f} GiB free" for c in machine.cards)
        text = f"llama.cpp sees none; the driver sees {cards}"
        return CheckLine("cards", "fail" if HAS_GPU_OFFLOAD else "warn", text, BUILD_FOR_CUDA)
    reason = machine.failure or graphics_cards.driver_failure("")
    return CheckLine("cards", "warn", f"none, everything is computed on the CPU. {reason.text}", reason.remedy)


def _layers_on_gpu(file: ModelFile, machine: GraphicsMachine) -> CheckLine:
    """How many layers of a model fit into the free memory of the cards, beside a KV cache."""
    from localrag.engine.llama.library import offload_devices
    from localrag.engine.memory import MAX_SLOTS, context_and_slots, kv_cache_budget, offload, read_model_memory

    devices = offload_devices()
    memory = [(d.free, d.total) for d in devices] or [(c.free, c.total) for c in machine.cards]
    shape = read_model_memory(file.path, "f16")
    count = len(shape.layers)
    needs = f"{file.name} has {count} layers and {shape.weights / GIB:.1f} GiB of weights"
    if not memory:
        return CheckLine("layers", "warn", f"none on a card; {needs}", "Nothing needs to be done: it runs on the CPU.")
    placed = offload(shape, [free for free, _ in memory], [total for _, total in memory])
    on_card = count if placed.gpu_layers < 0 else placed.gpu_layers
    n_ctx, slots = context_and_slots(shape, kv_cache_budget(shape, placed, available_memory()), most=MAX_SLOTS)
    fit = "fit" if devices else "would fit"
    text = f"{on_card} of {count} {fit} on the card, with a KV cache for {slots} answers at once of {n_ctx} tokens; {needs}"
    if on_card == count:
        return CheckLine("layers", "ok", text)
    return CheckLine("layers", "warn", text, "Free memory of the card, or use a smaller model or quantization: localrag models list --all")


def _check_or_error(name: str, check: Callable[[], CheckLine]) -> CheckLine:
    """The line of a check, or a failure line if it raised an error, so that the other checks still run."""
    try:
        return check()
    except Exception as error:  # noqa: BLE001 — every error is a finding
        told = known_error(error) or LocalragError(error_location(error), reinstall_hint(PACKAGES.get(name, "")))
        return CheckLine(name, "fail", str(told), told.hint)


def _python() -> CheckLine:
    state = "ok" if sys.version_info >= (3, 11) else "fail"
    return CheckLine(
        "Python", state, f"{platform.python_version()} on {platform.system()} {platform.machine()}", "" if state == "ok" else "Use 3.11."
    )


def _llama() -> CheckLine:
    def check() -> CheckLine:
        from localrag.engine.llama.library import HAS_GPU_OFFLOAD, LLAMA_CPP_VERSION

        return CheckLine("llama.cpp", "ok", f"llama-cpp-python {LLAMA_CPP_VERSION}, {'with a GPU' if HAS_GPU_OFFLOAD else 'CPU only'}")

    return _check_or_error("llama.cpp", check)


def _package(name: str) -> CheckLine:
    def check() -> CheckLine:
        importlib.import_module(name)
        try:
            return CheckLine(name, "ok", version(PACKAGES[name]))
        except PackageNotFoundError:
            return CheckLine(name, "ok", "installed in another way")

    return _check_or_error(name, check)


def _sqlite() -> CheckLine:
    number, has_fts5 = sqlite_version()
    if not has_fts5:
        return CheckLine("SQLite", "fail", f"{number} without FTS5", "Use a Python whose SQLite has FTS5: uv python install 3.12")
    return CheckLine("SQLite", "ok", f"{number} with FTS5")


def _cpu() -> CheckLine:
    def check() -> CheckLine:
        from localrag.engine.llama.library import cpu_features

        used, flags = cpu_features(), _cpu_flags()
        unused = [name for flag, name in CPU_FLAG_NAMES.items() if flag in flags and name not in used]
        names = ", ".join(name for name in CPU_FLAG_NAMES.values() if name in used)
        text = f"{available_cores()} of {os.cpu_count()} cores; llama.cpp uses {names or 'nothing special'}"
        if unused:
            return CheckLine("CPU", "warn", f"{text}, but not {', '.join(unused)}, which this CPU has", _build_here())
        return CheckLine("CPU", "ok", text)

    return _check_or_error("CPU", check)


def _build_here(environment: str = "") -> str:
    options = ("--force-reinstall", "--no-deps", "--no-cache-dir", "--no-binary=llama-cpp-python", "llama-cpp-python")
    return f"Build it on this machine: {environment}{pip_install(*options)}"


def _cpu_flags() -> set[str]:
    """The flags of the CPU (Linux only; empty elsewhere)."""
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        return set()
    return next((set(line.partition(":")[2].split()) for line in lines if line.startswith(("flags", "Features"))), set())


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


def _file_system(folder: Path) -> CheckLine:
    if warning := network_warning(folder):
        return CheckLine("file system", "warn", *warning)
    return CheckLine("file system", "ok", file_system_of(folder) or "of unknown kind")


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
    check_platform()
    code = "from localrag.loaders import sandbox; print(sandbox.landlock_version(), sandbox.apply_sandbox())"
    command, environment = python_process(code)
    process = subprocess.run(command, env=environment, check=False, capture_output=True, text=True, timeout=60)
    version, _, enforced = process.stdout.strip().partition(" ")
    if enforced == "True":
        return _confined(int(version))
    weaker = "Python denies it connections, processes and writing, but the kernel does not deny them to native code"
    memory = "; its memory is not limited" if sys.platform == "darwin" else ""
    return CheckLine("file reader", "warn", weaker + memory, "Index files you do not trust on Linux, on x86_64 or ARM64.")


def _confined(landlock: int) -> CheckLine:
    """The line for the parser process's restrictions by the kernel, given the version of Landlock, 0 for none."""
    restrictions = "no connection, no other process, no signal, no file written"
    if not landlock:
        text = f"restricted by the kernel: {restrictions}; but without Landlock it can read every file that you can read"
        return CheckLine("file reader", "warn", text, "On Linux 5.13 or newer, boot with landlock in the kernel's lsm= parameter.")
    limits = "" if landlock >= SCOPED else f" (Landlock {landlock} of {SCOPED}: signals are denied by seccomp alone)"
    return CheckLine("file reader", "ok", f"restricted by the kernel: {restrictions}, no file read except libraries{limits}")


def _check_ocr() -> CheckLine:
    """Whether scans and images can be read, by which program and in which languages."""
    tesseract, rapidocr = ocr.find_tesseract(), ocr.rapidocr_version()
    codes = sorted(ocr.installed_languages(tesseract))
    other = f"RapidOCR {rapidocr} reads languages in Latin and Greek letters, Chinese and Japanese" if rapidocr else ""
    if tesseract and codes:
        text = f"Tesseract {tesseract.version} reads {', '.join(codes)}; more languages: {_how_to_get('others')}"
        return CheckLine("scans", "ok", f"{text}; {other}" if other else text)
    if other:
        return CheckLine("scans", "ok", f"{other}; Tesseract, which is faster and reads more, is not there: {_how_to_get('others')}")
    text = f"Tesseract {tesseract.version} has no data for any language" if tesseract else f"scans and pictures are not read: {ocr.NO_OCR}"
    return CheckLine("scans", "warn", text, _how_to_get("the languages you need"))


def _how_to_get(languages: str) -> str:
    """The command that installs Tesseract on this system, for example with English and German."""
    if sys.platform == "darwin":
        return "brew install tesseract tesseract-lang (all languages)"
    if sys.platform == "win32":
        return f"winget install UB-Mannheim.TesseractOCR, with {languages} chosen in its setup"
    if shutil.which("dnf"):
        return "dnf install tesseract tesseract-langpack-eng tesseract-langpack-deu (…)"
    if shutil.which("pacman"):
        return "pacman -S tesseract tesseract-data-eng tesseract-data-deu (…)"
    return "apt-get install tesseract-ocr tesseract-ocr-deu tesseract-ocr-chi-sim (…)"


def _model(name: str, find: Callable[[], ModelFile], option: str) -> tuple[ModelFile | None, CheckLine]:
    try:
        file = find()
        if not file.url and file.is_gguf:
            checked_header(file.path)
        size = "" if file.url or file.path.is_dir() else f", {total_size(file.path) / 1e6:.0f} MB"
        return file, CheckLine(name, "ok", f"{file.name} ({file.fingerprint}){size}, {file.cli_argument}")
    except ModelError as error:
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
    # Without these flags GCC 12 omits stores that AMX needs.
    build = _build_here('CFLAGS="-fno-tree-dse -fno-dse" CXXFLAGS="$CFLAGS" ' if "amx_tile" in _cpu_flags() else "")
    reasons = "; ".join(f"{layout_summary(name)}: {reason}" for name, reason in sorted(record.rejected_layouts.items()))
    return CheckLine("layouts", "warn", f"{len(record.rejected_layouts)} do not work here and are not used: {reasons}", build)


def _chat_speed(file: ModelFile, options: EngineOptions) -> CheckLine:
    from localrag.engine.autotune.load import open_backend
    from localrag.engine.engine import Engine
    from localrag.engine.request import Request

    engine = Engine(lambda: open_backend(file, options))
    try:
        token_ids = engine.backend.chat.encode([{"role": "user", "content": "Write a long story about a harbour."}])

        async def run_round() -> int:
            requests = (engine.generate(Request(token_ids, 16)) for _ in range(engine.settings.slots))
            return sum(g.output_tokens for g in await asyncio.gather(*requests))

        started, n_written = time.perf_counter(), 0
        while (seconds := time.perf_counter() - started) < SPEED_TEST_S:
            n_written += asyncio.run(run_round())
        seconds = time.perf_counter() - started
    finally:
        engine.close()
    text = f"{file.name} writes {n_written / seconds:.0f} tokens/s, {engine.settings.slots} answers at once"
    return (
        CheckLine("speed", "ok", text)
        if n_written / seconds >= 5
        else CheckLine("speed", "warn", text, "Use a smaller model, or one in Q4 or Q8_0.")
    )


def _embedding_speed(file: ModelFile) -> CheckLine:
    embedder, texts = open_embedder(file), [f"The harbour master wrote letter number {n} to the council of the town." for n in range(64)]
    embedder.embed(texts[:1])  # loads the model
    started = time.perf_counter()
    width = embedder.embed(texts).shape[1]
    return CheckLine(
        "embedding", "ok", f"{file.name} embeds {len(texts) / (time.perf_counter() - started):.0f} sentences/s, {width} dimensions"
    )


def _watch_sockets() -> list[str]:
    """A list that records every network access of this process from now on."""
    attempts: list[str] = []

    def on_event(event: str, args: tuple[Any, ...]) -> None:
        # 1: a socket between local processes, -1: an existing socket; asyncio uses such to wake itself up
        if event.startswith(_NETWORK) or (event == "socket.__new__" and args[1] not in (1, -1)):
            attempts.append(event)

    sys.addaudithook(on_event)
    return attempts


def _offline(attempts: list[str]) -> CheckLine:
    """The recorded network accesses of Python code, and the open connections, which include those of native libraries."""
    try:
        connections = len(psutil.Process().net_connections("inet"))
    except (psutil.Error, OSError):
        connections = 0
    if attempts or connections:
        text = f"{len(attempts)} attempts to reach a network ({', '.join(sorted(set(attempts)))}), {connections} connections are open"
        return CheckLine("offline", "fail", text, "Please report this: it must not happen.")
    return CheckLine("offline", "ok", "during these checks 0 network sockets were opened")
