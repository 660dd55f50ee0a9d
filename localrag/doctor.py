"""Can localrag work well on this machine? Each line is one thing that was looked at, with what mends it."""

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

from localrag.engine.embedding.embedder import open_embedder
from localrag.engine.settings import EngineOptions, brief
from localrag.errors import LocalragError, ModelError, kind_and_place
from localrag.index.documents.load.sandbox import SCOPED
from localrag.index.documents.load.tesseract import find_tesseract
from localrag.models import ModelFile, find_chat_model, find_embedder, weights_size, whole_header
from localrag.records import Line
from localrag.store.search import sqlite_version
from localrag.system.cores import free_cores, free_memory
from localrag.system.files import cache_dir, check_system

SECONDS = 5.0  # of the speed test
GIB = 1 << 30
SHARED = frozenset("nfs nfs4 cifs smb2 smb3 smbfs afpfs webdav davfs fuse.sshfs fuse.rclone ceph fuse.ceph lustre 9p glusterfs afs".split())
CPU = {  # what the CPU calls it, what llama.cpp calls it
    "avx2": "AVX2", "fma": "FMA", "f16c": "F16C", "avx512f": "AVX512", "avx512_vnni": "AVX512_VNNI", "avx512_bf16": "AVX512_BF16",
    "avx_vnni": "AVX_VNNI", "amx_int8": "AMX_INT8", "asimd": "NEON", "asimddp": "DOTPROD", "i8mm": "MATMUL_INT8", "sve": "SVE",
}  # fmt: skip
REINSTALL = "pip install --force-reinstall --no-cache-dir localrag"
BUILD_HERE = "Build it on this machine: pip install --force-reinstall --no-cache-dir --no-binary llama-cpp-python llama-cpp-python"
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
class Subject:
    """What is examined: the index folder, if there is one, and the models it is or would be made with, by name or path."""

    folder: Path | None
    chat: str | None = None
    embedder: str | None = None


def examine(subject: Subject, options: EngineOptions, *, speed: bool) -> list[Line]:
    """Every line, those of the installation first. `speed`: run both models for some seconds."""
    attempts = _watch_sockets()
    lines = [_python(), _llama(), *map(_package, ("faiss", "torch")), _sqlite(), _cpu()]
    place = subject.folder or Path.cwd()
    lines += [_disk(place), _file_system(place), _permissions(subject.folder), _guarded("file reader", _reader), _guarded("scans", _scans)]
    chat, line = _model("chat model", lambda: find_chat_model(subject.chat), "--model PATH.gguf")
    embedder, other = _model("embedder", lambda: find_embedder(subject.embedder), "--embedder NAME|PATH")
    lines += [line, other]
    if chat and not chat.url:
        lines.append(_guarded("layouts", lambda: _layouts(chat)))
        lines.append(_guarded("memory", lambda: _memory(chat, options)))
        if speed:
            lines.append(_guarded("speed", lambda: _chat_speed(chat, options)))
    if embedder and speed:
        lines.append(_guarded("embedding", lambda: _embedding_speed(embedder)))
    return [*lines, _offline(attempts)]


def _guarded(name: str, look: Callable[[], Line]) -> Line:
    """The line, or one that says why there is none: nothing a machine lacks may end the examination."""
    try:
        return look()
    except LocalragError as error:
        return Line(name, "fail", str(error), error.hint)
    except Exception as error:  # noqa: BLE001 — what goes wrong here is what is looked for
        return Line(name, "fail", kind_and_place(error), REINSTALL)


def _python() -> Line:
    state = "ok" if sys.version_info >= (3, 11) else "fail"
    return Line(
        "Python", state, f"{platform.python_version()} on {platform.system()} {platform.machine()}", "" if state == "ok" else "Use 3.11."
    )


def _llama() -> Line:
    def look() -> Line:
        from localrag.engine.llama.library import BUILD, GPU

        return Line("llama.cpp", "ok", f"llama-cpp-python {BUILD}, {'with a GPU' if GPU else 'CPU only'}")

    return _guarded("llama.cpp", look)


def _package(name: str) -> Line:
    def look() -> Line:
        importlib.import_module(name)
        try:
            return Line(name, "ok", version({"faiss": "faiss-cpu"}.get(name, name)))
        except PackageNotFoundError:
            return Line(name, "ok", "installed in another way")

    return _guarded(name, look)


def _sqlite() -> Line:
    number, has_fts5 = sqlite_version()
    if not has_fts5:
        return Line("SQLite", "fail", f"{number} without FTS5", "Use a Python whose SQLite has FTS5: uv python install 3.12")
    return Line("SQLite", "ok", f"{number} with FTS5")


def _cpu() -> Line:
    def look() -> Line:
        from localrag.engine.llama.library import cpu_features

        used, has = cpu_features(), _cpu_flags()
        unused = [name for flag, name in CPU.items() if flag in has and name not in used]
        names = ", ".join(name for name in CPU.values() if name in used)
        text = f"{free_cores()} of {os.cpu_count()} cores; llama.cpp uses {names or 'nothing special'}"
        if unused:
            return Line("CPU", "warn", f"{text}, but not {', '.join(unused)}, which this CPU has", BUILD_HERE)
        return Line("CPU", "ok", text)

    return _guarded("CPU", look)


def _cpu_flags() -> set[str]:
    """What the CPU says it has, where the system tells (Linux)."""
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        return set()
    return next((set(line.partition(":")[2].split()) for line in lines if line.startswith(("flags", "Features"))), set())


def _disk(place: Path) -> Line:
    if not os.access(cache_dir(), os.W_OK):
        text = f"{cache_dir()} cannot be written to: what is measured and converted there is done anew by every command"
        return Line("disk", "warn", text, "Let it be written to, or keep it elsewhere: export LOCALRAG_HOME=FOLDER")
    free = min(shutil.disk_usage(p).free for p in (place, cache_dir()))
    text, remedy = f"{free / GIB:.1f} GiB free", f"Make room where {place} and {cache_dir()} are, or keep the index elsewhere: --index DIR"
    if free < GIB // 10:
        return Line("disk", "fail", text, remedy)
    return Line("disk", "warn", text, remedy) if free < GIB else Line("disk", "ok", text)


def _file_system(place: Path) -> Line:
    mounts = [p for p in psutil.disk_partitions(all=True) if place.resolve().is_relative_to(p.mountpoint)]
    kind = max(mounts, key=lambda p: len(p.mountpoint)).fstype if mounts else ""
    if kind in SHARED:
        text = f"{place} is on a network file system ({kind}), where SQLite's log may fail or lose what another machine wrote"
        return Line("file system", "warn", text, "Keep the index on a disk of this machine: --index DIR")
    return Line("file system", "ok", kind or "of unknown kind")


def _permissions(folder: Path | None) -> Line:
    if folder is None:
        return Line("index", "ok", "none here yet")
    if not os.access(folder, os.W_OK):
        return Line(
            "index", "warn", f"{folder} cannot be written to: questions work, answers are not kept", f"chmod u+w {quote(str(folder))}"
        )
    if folder.stat().st_mode & 0o077:
        return Line("index", "warn", f"{folder} can be read by other users of this machine", f"chmod -R go-rwx {quote(str(folder))}")
    return Line("index", "ok", f"{folder}, for its owner alone")


def _reader() -> Line:
    """How the process that parses files is confined: tried in one like it, for what is refused stays refused."""
    check_system()
    code = "from localrag.index.documents.load import sandbox; print(sandbox.landlock_version(), sandbox.enforce())"
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=60)
    version, _, enforced = done.stdout.strip().partition(" ")
    if enforced == "True":
        return _confined(int(version))
    weaker = "Python refuses it connections, processes and writing, but the kernel does not refuse them to native code"
    memory = "; its memory is not limited" if sys.platform == "darwin" else ""
    return Line("file reader", "warn", weaker + memory, "Index files you do not trust on Linux, on x86_64 or ARM64.")


def _confined(landlock: int) -> Line:
    """What the kernel refuses the file reader, by the version of its Landlock, 0 for none."""
    always = "no connection, no other process, no signal, no file written"
    if not landlock:
        text = f"confined by the kernel: {always}; but without Landlock it can read every file that you can read"
        return Line("file reader", "warn", text, "On Linux 5.13 or newer, boot with landlock in the kernel's lsm= parameter.")
    rest = "" if landlock >= SCOPED else f" (Landlock {landlock} of {SCOPED}: signals are refused by seccomp alone)"
    return Line("file reader", "ok", f"confined by the kernel: {always}, no file read but libraries{rest}")


def _scans() -> Line:
    """Whether scans and pictures can be read, and in which languages."""
    found = find_tesseract()
    if found is None:
        return Line("scans", "warn", "scans and pictures are not read: Tesseract is not installed", _how_to_get("the languages you need"))
    codes = [code for code in found.languages if code != "osd"]
    if not codes:
        return Line("scans", "warn", f"Tesseract {found.version} has no data for any language", _how_to_get("the languages you need"))
    return Line("scans", "ok", f"Tesseract {found.version} reads {', '.join(codes)}; more languages: {_how_to_get('others')}")


def _how_to_get(languages: str) -> str:
    """The command that installs Tesseract here, with English and German for example."""
    if sys.platform == "darwin":
        return "brew install tesseract tesseract-lang (all languages)"
    if sys.platform == "win32":
        return f"winget install UB-Mannheim.TesseractOCR, with {languages} chosen in its setup"
    if shutil.which("dnf"):
        return "dnf install tesseract tesseract-langpack-eng tesseract-langpack-deu (…)"
    if shutil.which("pacman"):
        return "pacman -S tesseract tesseract-data-eng tesseract-data-deu (…)"
    return "apt-get install tesseract-ocr tesseract-ocr-deu tesseract-ocr-chi-sim (…)"


def _model(name: str, find: Callable[[], ModelFile], option: str) -> tuple[ModelFile | None, Line]:
    try:
        file = find()
        if not file.url and not file.path.is_dir():
            whole_header(file.path)
        size = "" if file.url or file.path.is_dir() else f", {weights_size(file.path) / 1e6:.0f} MB"
        return file, Line(name, "ok", f"{file.name} ({file.fingerprint}){size}, {file.given}")
    except ModelError as error:
        return None, Line(name, "fail", str(error), error.hint)
    except OSError as error:
        return None, Line(name, "fail", f"The model file cannot be read: {error.strerror}", f"Check it, or give another: {option}")


def _memory(file: ModelFile, options: EngineOptions) -> Line:
    from localrag.engine.hardware.opened import memory_needed

    weights, kv, s = memory_needed(file, options)
    free = free_memory()
    text = f"{weights / GIB:.2f} GiB for the weights, {kv / GIB:.2f} for the KV of {s.slots} sequences of {s.context} tokens"
    if free is None:
        return Line("memory", "warn", f"{text}; how much is free cannot be read here", "Look at it yourself.")
    text += f"; {free / GIB:.1f} GiB are free"
    remedy = (
        f"Close other programs, take a smaller model, or less KV: --engine slots={max(1, s.slots // 2)},context={max(256, s.context // 2)}"
    )
    if weights + kv > free:
        return Line("memory", "fail", text, remedy)
    return Line("memory", "warn", text, remedy) if weights + kv > 0.8 * free else Line("memory", "ok", text)


def _layouts(file: ModelFile) -> Line:
    """Which layouts of weights and KV were tried here and do not work."""
    from localrag.engine.hardware.opened import read_record

    record = read_record(file)
    if not record.proved:
        return Line("layouts", "ok", "none tried here yet: the first use of the model does it")
    if not record.refused:
        return Line("layouts", "ok", f"{len(record.proved)} tried here, all work")
    # GCC 12 leaves out stores that AMX needs unless it is told to keep them.
    build = (
        BUILD_HERE.replace("pip", 'CFLAGS="-fno-tree-dse -fno-dse" CXXFLAGS="$CFLAGS" pip', 1) if "amx_tile" in _cpu_flags() else BUILD_HERE
    )
    why = "; ".join(f"{brief(name)}: {reason}" for name, reason in sorted(record.refused.items()))
    return Line("layouts", "warn", f"{len(record.refused)} do not work here and are not used: {why}", build)


def _chat_speed(file: ModelFile, options: EngineOptions) -> Line:
    from localrag.engine.engine import Engine
    from localrag.engine.hardware.opened import open_backend
    from localrag.engine.request import Request

    engine = Engine(lambda: open_backend(file, options))
    try:
        cells = engine.backend.chat.cells([{"role": "user", "content": "Write a long story about a harbour."}])

        async def a_round() -> int:
            requests = (engine.generate(Request(cells, 16)) for _ in range(engine.settings.slots))
            return sum(g.output_tokens for g in await asyncio.gather(*requests))

        started, written = time.perf_counter(), 0
        while (seconds := time.perf_counter() - started) < SECONDS:
            written += asyncio.run(a_round())
        seconds = time.perf_counter() - started
    finally:
        engine.close()
    text = f"{file.name} writes {written / seconds:.0f} tokens/s, {engine.settings.slots} answers at once"
    return (
        Line("speed", "ok", text) if written / seconds >= 5 else Line("speed", "warn", text, "Take a smaller model, or one in Q4 or Q8_0.")
    )


def _embedding_speed(file: ModelFile) -> Line:
    embedder, texts = open_embedder(file), [f"The harbour master wrote letter number {n} to the council of the town." for n in range(64)]
    embedder.embed(texts[:1])  # loads it
    started = time.perf_counter()
    width = embedder.embed(texts).shape[1]
    return Line("embedding", "ok", f"{file.name} embeds {len(texts) / (time.perf_counter() - started):.0f} sentences/s, {width} dimensions")


def _watch_sockets() -> list[str]:
    """A list that grows by a line with every attempt of this process to reach a network, from now on."""
    attempts: list[str] = []

    def watch(event: str, args: tuple[Any, ...]) -> None:
        # 1 is a socket between programs of this machine, -1 one that exists already: asyncio wakes itself up with such
        if event.startswith(_NETWORK) or (event == "socket.__new__" and args[1] not in (1, -1)):
            attempts.append(event)

    sys.addaudithook(watch)
    return attempts


def _offline(attempts: list[str]) -> Line:
    """What Python did is in the list; what a library did below it shows as an open connection."""
    try:
        connections = len(psutil.Process().net_connections("inet"))
    except (psutil.Error, OSError):
        connections = 0
    if attempts or connections:
        text = f"{len(attempts)} attempts to reach a network ({', '.join(sorted(set(attempts)))}), {connections} connections are open"
        return Line("offline", "fail", text, "Please report this: it must not be.")
    return Line("offline", "ok", "while all this ran, 0 network sockets were opened")
