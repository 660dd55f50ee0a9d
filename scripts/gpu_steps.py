"""The steps of scripts/gpu_check.py, each in a process of its own: `python gpu_steps.py STEP OUT`.

A step writes each figure to OUT/results/STEP.json as soon as it has it, and does not measure again what an interrupted run of it measured.
"""

import asyncio
import json
import os
import platform
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from importlib.metadata import distributions
from pathlib import Path
from statistics import median
from typing import Any

SCRIPTS = Path(__file__).resolve().parent
GB, GIB = 10**9, 1 << 30
BIG_MODEL_FREE_BYTES = 12 * GIB  # of the card, for the 8B shape in Q8_0 with its KV
REQUESTS, SERVER_CONTEXT = 32, 4096
MODELS = {  # the shapes of Qwen2.5-1.5B and Qwen3-8B; name → architecture, shape, whether the output has a matrix of its own
    "qwen2.5-1.5b-shape": ("qwen2", {"layers": 28, "width": 1536, "ffn": 8960, "heads": 12, "kv_heads": 2, "context": 32768}, False),
    "qwen3-8b-shape": (
        "qwen3",
        {"layers": 36, "width": 4096, "ffn": 12288, "heads": 32, "kv_heads": 8, "head": 128, "context": 40960},
        True,
    ),
}
TINY_MODELS = {
    "tiny-qwen2": ("qwen2", {"layers": 4, "width": 128, "ffn": 256, "heads": 2, "kv_heads": 1, "context": 8192}, False),
    "tiny-qwen3": ("qwen3", {"layers": 4, "width": 128, "ffn": 256, "heads": 2, "kv_heads": 1, "head": 64, "context": 8192}, True),
}


class Step:
    """A step's job and its figures so far."""

    def __init__(self, name: str, out: Path) -> None:
        self.out = out
        self.job = json.loads((out / "job.json").read_text(encoding="utf-8"))
        self.rehearse, self.pack = bool(self.job["rehearse"]), Path(self.job["pack"])
        self._path = out / "results" / f"{name}.json"
        self.figures: dict[str, Any] = json.loads(self._path.read_text(encoding="utf-8")) if self._path.exists() else {}
        self.figures.pop("skipped", None)

    def put(self, name: str, value: Any) -> Any:
        """Write a figure down."""
        self.figures[name] = value
        part = self._path.with_suffix(".part")
        part.write_text(json.dumps(self.figures, indent=1, ensure_ascii=False), encoding="utf-8")
        part.replace(self._path)
        print(f"{name}: {value}", flush=True)
        return value

    def once(self, name: str, measured: Callable[[], Any]) -> Any:
        """A figure, measured unless an earlier run of this step did."""
        return self.figures[name] if name in self.figures else self.put(name, measured())

    def skip(self, reason: str) -> None:
        """Say why a step, or the rest of it, is left out."""
        self.put("skipped", reason)

    def models(self) -> dict[str, Path]:
        """The models that the step `weights` has written, by name. Exits if there are none."""
        written = {p.stem: p for p in sorted((self.out / "models").glob("*.gguf"), key=lambda p: p.stat().st_size)}
        if not written:
            sys.exit("There are no models: the step weights has not run")
        return written


def use_pack(out: Path) -> None:
    """Make the packages and the llama.cpp of the earlier steps importable here and in child processes."""
    job = json.loads((out / "job.json").read_text(encoding="utf-8"))
    paths = [Path(job["pack"]), SCRIPTS]
    if not job["rehearse"]:
        paths = [out / "site", out / "llama", *paths]
    sys.path[:0] = [str(path) for path in paths]
    os.environ["PYTHONPATH"] = os.pathsep.join([*map(str, paths), *filter(None, [os.environ.get("PYTHONPATH", "")])])
    os.environ["LOCALRAG_HOME"] = str(out / "home")


def machine(step: Step) -> None:
    """What is here: card, driver, CUDA, compilers, Python, cores, memory."""
    from gpu_check import read_cards

    cards = read_cards()
    for number, card in enumerate(cards):
        step.put(f"card {number}", f"{card.name}, {card.free / GIB:.1f} of {card.total / GIB:.1f} GiB free, sm_{card.architecture}")
    step.put("driver", cards[0].driver if cards else "none")
    for tool in (find_nvcc(), "cmake", "ninja", "ccache", "c++"):
        step.put(tool, tool_version(tool))
    step.put("Python", platform.python_version())
    step.put("cores", len(os.sched_getaffinity(0)))
    step.put("memory", f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / GIB:.0f} GiB")
    step.put("disk", f"{shutil.disk_usage(step.out).free / GIB:.0f} GiB free")


def find_nvcc() -> str:
    """The path of CUDA's compiler; its usual place is tried as well. Just `nvcc` if there is none."""
    usual = "/usr/local/cuda/bin/nvcc"
    return shutil.which("nvcc") or (usual if Path(usual).exists() else "nvcc")


def tool_version(tool: str) -> str:
    """The first line of what a tool says about itself; "not found" without it."""
    if not shutil.which(tool):
        return "not found"
    done = subprocess.run([tool, "--version"], check=False, capture_output=True, text=True)
    return next(iter((done.stdout or done.stderr).splitlines()), "no answer")


def packages(step: Step) -> None:
    """Install the pack's wheels of packages that this Python lacks into a folder of the run."""
    wheels = sorted((step.pack / "wheels").glob("*.whl"))
    if not wheels:
        step.skip("The pack has no wheels; the packages of this Python are used")
        return
    if step.rehearse:
        step.skip(f"{len(wheels)} wheels are for the machine with the card; the packages of this Python are used")
        return
    wheels = missing(wheels)
    command = ["-m", "pip", "install", "--no-index", "--no-deps", "--no-compile", "--upgrade", "--target", str(step.out / "site")]
    if wheels:
        subprocess.run([sys.executable, *command, *map(str, wheels)], check=True)
    step.put("installed", ", ".join(wheel.name.split("-")[0] for wheel in wheels) or "nothing was missing")


def missing(wheels: Sequence[Path]) -> list[Path]:
    """The wheels of packages that this Python does not have; torch and others here may need the versions that it has."""
    here = {re.sub("[-_.]+", "_", distribution.name or "").lower() for distribution in distributions()}
    return [wheel for wheel in wheels if re.sub("[-_.]+", "_", wheel.name.split("-")[0]).lower() not in here]


def cmake_options(architecture: str) -> list[str]:
    """What llama.cpp is built with: shared libraries and the server, for one architecture of CUDA, or for the CPU if it is empty."""
    on = ["BUILD_SHARED_LIBS", "LLAMA_BUILD_COMMON", "LLAMA_BUILD_SERVER", "GGML_NATIVE"]
    off = ["LLAMA_BUILD_TESTS", "LLAMA_BUILD_EXAMPLES", "LLAMA_BUILD_APP", "LLAMA_BUILD_TOOLS", "LLAMA_BUILD_UI", "LLAMA_USE_PREBUILT_UI",
           "LLAMA_OPENSSL", "LLAMA_CURL"]  # fmt: skip
    cuda = ["-DGGML_CUDA=ON", f"-DCMAKE_CUDA_ARCHITECTURES={architecture}"] if architecture else []
    return ["-DCMAKE_BUILD_TYPE=Release", *(f"-D{name}=ON" for name in on), *(f"-D{name}=OFF" for name in off), *cuda]


def write_server_project(llama: Path) -> Path:
    """A CMake project of llama.cpp's library, mtmd and its server alone: the pack has no other tools."""
    project = llama.parent / "server_project"
    project.mkdir(exist_ok=True)
    source = llama / "vendor" / "llama.cpp"
    (project / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.21)\nproject(gpu_check C CXX)\n"
        "set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)\nset(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)\n"
        "find_package(Threads REQUIRED)\n"
        f"add_subdirectory({source} llama.cpp)\n"
        + "".join(f"add_subdirectory({source}/tools/{name} tools/{name})\n" for name in ("mtmd", "ui", "server")),
        encoding="utf-8",
    )
    return project


def build(step: Step) -> None:
    """Compile llama.cpp for the card, with its server; an interrupted build goes on. A rehearsal configures it and counts the files."""
    import compiler_flags

    llama = step.pack / "llama"
    if not llama.is_dir() or not shutil.which("cmake"):
        step.skip("There are no sources here (--pack), or no CMake")
        return
    folder, architecture = step.out / "build", "" if step.rehearse else step.job["architecture"]
    flags = " ".join(compiler_flags.needed_flags()) if not step.rehearse else ""
    toolkit, paths = toolkit_options(sys.path) if architecture else ([], {})
    environment = os.environ | {"CFLAGS": flags, "CXXFLAGS": flags} | nvcc_environment() | paths
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    cache = [f"-DCMAKE_{name}_COMPILER_LAUNCHER=ccache" for name in ("C", "CXX", "CUDA")] if shutil.which("ccache") else []
    options = [*generator, *cmake_options(architecture), *cache, *toolkit]
    subprocess.run(["cmake", "-S", str(write_server_project(llama)), "-B", str(folder), *options], check=True, env=environment)
    if step.rehearse:
        planned = subprocess.run(["ninja", "-C", str(folder), "-n", "llama-server", "mtmd"], check=False, capture_output=True, text=True)
        if planned.returncode:
            sys.exit(planned.stderr or planned.stdout[-500:])
        step.put("files to compile for the CPU", int(re.findall(r"/(\d+)\]", planned.stdout)[-1]))
        step.put("llama.cpp", "that of this Python; a rehearsal compiles nothing")
        return
    started = time.perf_counter()
    subprocess.run(["cmake", "--build", str(folder), "--parallel", "--target", "llama-server", "mtmd"], check=True, env=environment)
    step.put("compiled in seconds", round(time.perf_counter() - started, 1))
    shutil.copytree(llama / "llama_cpp", step.out / "llama" / "llama_cpp", dirs_exist_ok=True)
    libraries = step.out / "llama" / "llama_cpp" / "lib"
    libraries.mkdir(exist_ok=True)
    for library in (folder / "bin").glob("*.so*"):
        (libraries / library.name).unlink(missing_ok=True)
        (libraries / library.name).symlink_to(library)
    code = "from localrag.engine.llama.library import devices; print(*(f'{d.name} {d.description}' for d in devices()), sep=', ')"
    path = os.pathsep.join([str(step.out / "llama"), os.environ["PYTHONPATH"]])
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environment | {"PYTHONPATH": path})
    step.put("devices of the build", done.stdout.strip())


def toolkit_options(packages: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """CMake's options, and variables of the environment, for what a toolkit of the compiler alone lacks.

    cuBLAS is then the one that torch brought along in `packages`, and the driver's library the driver's own. Exits without cuBLAS.
    """
    nvcc = Path(os.path.realpath(shutil.which(find_nvcc()) or "/usr/local/cuda/bin/nvcc"))
    roots = [nvcc.parents[1], *Path("/usr/local").glob("cuda*"), Path("/usr")]
    folders = [root / part for root in roots for part in ("lib64", "lib64/stubs", "lib/x86_64-linux-gnu")]
    options: list[str] = []
    environment: dict[str, str] = {}
    if not any(next(folder.glob("libcublas.so*"), None) for folder in folders):
        found = [p for folder in packages for p in sorted(Path(folder).glob("nvidia/*/lib/libcublas.so*"))]
        if not found:
            sys.exit("The CUDA toolkit here has no cuBLAS. Install it, for example with sudo apt-get install libcublas-dev-13-0")
        light = next(found[0].parent.glob("libcublasLt.so*"), found[0])
        options += [f"-DCUDA_cublas_LIBRARY={found[0]}", f"-DCUDA_cublasLt_LIBRARY={light}"]
        environment = {"CPATH": str(found[0].parents[1] / "include")}  # searched after the toolkit's own headers
    if not any((folder / "libcuda.so").exists() for folder in folders):
        listed = subprocess.run(["/sbin/ldconfig", "-p"], check=False, capture_output=True, text=True).stdout
        driver = re.search(r"libcuda\.so\.1 .*=> (\S+)", listed)
        options.append(f"-DCUDA_cuda_driver_LIBRARY={driver[1]}" if driver else "-DGGML_CUDA_NO_VMM=ON")
    return options, environment


def nvcc_environment() -> dict[str, str]:
    """Where CMake finds CUDA's compiler, also if it is not on the PATH."""
    path = shutil.which(find_nvcc())
    return {"CUDACXX": path} if path else {}


def weights(step: Step) -> None:
    """Write models with random weights: the exact shapes of Qwen2.5-1.5B and of Qwen3-8B, with Qwen's tokenizer."""
    import gpu_pack
    import random_gguf

    tokenizer = step.pack / "llama" / gpu_pack.TOKENIZER
    if not tokenizer.exists():
        step.skip("The tokenizer is in the pack: --pack PACK.tar.xz")
        return
    (step.out / "models").mkdir(exist_ok=True)
    for name, (architecture, shape, output) in (TINY_MODELS if step.rehearse else MODELS).items():
        if not step.rehearse and name == "qwen3-8b-shape" and free_on_card() < BIG_MODEL_FREE_BYTES:
            step.put(name, f"left out: the card has {free_on_card() / GIB:.1f} GiB free")
            continue

        def written(path: Path, kind: str, numbers: dict[str, int], own: bool) -> str:
            started = time.perf_counter()
            vocabulary = random_gguf.same(tokenizer)
            random_gguf.write(path, kind, random_gguf.Shape(**numbers), vocabulary, random_gguf.CHAT, blocks=True, output=own)
            path.rename(path.with_suffix(".gguf"))
            return f"{path.with_suffix('.gguf').stat().st_size / GB:.2f} GB, written in {time.perf_counter() - started:.1f} s"

        step.once(name, partial(written, step.out / "models" / f"{name}.part", architecture, shape, output))


def free_on_card() -> int:
    """Free bytes of the card with most."""
    from gpu_check import read_cards

    return max((card.free for card in read_cards()), default=0)


def exactness(step: Step) -> None:
    """Whether answers depend on what is computed beside them, and how far each layout's logits are from the CPU's."""
    from localrag.engine.autotune.measure import MAX_KL_DIVERGENCE
    from localrag.engine.autotune.search import CPU_LAYOUTS, GPU_LAYOUTS
    from localrag.engine.settings import EngineSettings

    name, path = next(iter(step.models().items()))
    step.put("model", name)
    step.put("tolerance", f"median Kullback-Leibler divergence of {MAX_KL_DIVERGENCE} nats, as for every layout that localrag tries")
    plain = EngineSettings(threads=cores(), gpu_layers=0, extra_buffers=False, slots=8, n_ctx=768)
    reference = logits_of(path, plain)
    for changes in CPU_LAYOUTS if step.rehearse else GPU_LAYOUTS:
        settings = replace(plain, gpu_layers=0 if step.rehearse else -1, **changes)
        label = ", ".join(f"{key}={value}" for key, value in changes.items())
        step.once(label, lambda s=settings: compared(path, s, reference))


def cores() -> int:
    """Cores for llama.cpp."""
    from localrag.system.resources import available_cores

    return available_cores()


def model_file(path: Path) -> Any:
    """A model of the step `weights`."""
    from localrag.model_files import ModelFile

    return ModelFile(path.stem, "chat", path)


def logits_of(path: Path, settings: Any) -> Any:
    """Logits after the last 32 of 200 tokens, (32, n_vocab)."""
    from localrag.engine.llama.model import LlamaModel

    model = LlamaModel(model_file(path), settings)
    try:
        return model.decode([(100 + 37 * i, i, 0, i >= 168) for i in range(200)]).copy()
    finally:
        model.close()


def compared(path: Path, settings: Any, reference: Any) -> dict[str, Any]:
    """A layout's distance from the reference, and how many of ten answers differ when they are computed together."""
    import numpy as np

    from localrag.engine.autotune.load import with_row_rules
    from localrag.engine.autotune.measure import MAX_KL_DIVERGENCE
    from localrag.engine.engine import Engine
    from localrag.engine.llama.model import LlamaModel

    got = logits_of(path, settings)
    log_p, log_q = (x - x.max(1, keepdims=True) for x in (reference.astype(np.float64), got.astype(np.float64)))
    log_p, log_q = (x - np.log(np.exp(x).sum(1, keepdims=True)) for x in (log_p, log_q))
    divergence = (np.exp(log_p) * (log_p - log_q)).sum(1)
    figures = {
        "median divergence in nats": float(f"{np.median(divergence):.3g}"),
        "largest divergence in nats": float(f"{divergence.max():.3g}"),
        "largest difference of a logit": float(f"{np.abs(got - reference).max():.3g}"),
        "same most likely token": f"{int((got.argmax(1) == reference.argmax(1)).sum())} of {len(got)}",
        "within tolerance": bool(np.median(divergence) <= MAX_KL_DIVERGENCE),
    }
    ruled = with_row_rules(model_file(path), settings)
    engine = Engine(lambda: LlamaModel(model_file(path), ruled))
    try:
        prompts = [[(7 * n + 31 * i) % 50_000 + 100 for i in range(20 + 23 * n)] for n in range(10)]
        together = generated(engine, prompts, 40)
        alone = [generated(engine, [prompt], 40)[0] for prompt in prompts]
    finally:
        engine.close()
    differ = sum(a.token_ids != b.token_ids for a, b in zip(together, alone, strict=True))
    rule = f"rows in multiples of {ruled.row_multiple}, at least {ruled.min_rows}"
    return figures | {"answers that differ in a batch": f"{differ} of 10", "rule for rows": rule}


def generated(engine: Any, prompts: Sequence[Sequence[int]], tokens: int) -> list[Any]:
    """Greedy answers of so many tokens to all prompts at once."""
    from localrag.engine.request import Request

    async def gather() -> list[Any]:
        return list(await asyncio.gather(*(engine.generate(Request(tuple(p), tokens)) for p in prompts)))

    return asyncio.run(gather())


def bench(step: Step) -> None:
    """The workload of `localrag bench engine`: this engine and a llama.cpp server of the same build, in turn.

    Random weights often repeat themselves, which tokens guessed from the text so far profit from more than with trained weights: the ratio
    to the server is that without guesses.
    """
    from localrag.bench.engine import read_workload
    from localrag.engine.settings import EngineOptions

    chunks, words, tokens = (4, 40, 16) if step.rehearse else (REQUESTS, 180, 200)
    work = read_workload(chunks=chunks, words=words, max_tokens=tokens)
    options = EngineOptions(overrides="slots=2,n_ctx=2048,kv_cache_type=f16" if step.rehearse else "", notify=print)
    unguessed = replace(options, overrides=f"{options.overrides},prompt_lookup=no")
    for name, path in step.models().items():
        file = model_file(path)
        tools: dict[str, Callable[[], dict[str, Any]]] = {
            "localrag, without guesses": partial(engine_figures, file, unguessed, work),
            "llama.cpp server": partial(server_figures, step, path, work),
            "localrag": partial(engine_figures, file, options, work),
        }
        step.once(f"{name}: measuring the settings", partial(tuned, file, options))
        for number in range(1 if step.rehearse or name.startswith("qwen3") else 3):
            for tool, measured in tools.items():
                step.once(f"{name}: {tool}, round {number + 1}", measured)
            put_ratio(step, name)


def engine_figures(file: Any, options: Any, work: Any) -> dict[str, Any]:
    """The figures of `localrag bench engine` that are compared, and the settings with which they were measured."""
    from localrag.bench.engine import run_workload

    figures = run_workload(file, options, work)
    names = ("output_tokens", "seconds", "output_tokens_per_s", "prefill_tokens_per_s", "decode_tokens_per_s", "host_share", "slot_use")
    settings = {key: figures["settings"][key] for key in ("slots", "n_ctx", "gpu_layers", "kv_cache_type")}
    return {key: figures[key] for key in names} | {"settings": settings}


def tuned(file: Any, options: Any) -> dict[str, Any]:
    """How long localrag measures a new model, and what it chooses."""
    from localrag.engine.autotune.load import open_backend, settings_summary

    started = time.perf_counter()
    backend = open_backend(file, options)
    backend.close()
    return {"seconds": round(time.perf_counter() - started, 1), "settings": settings_summary(backend.settings)}


def put_ratio(step: Step, name: str) -> None:
    """The median over rounds of this engine's output tokens/s, without guesses, over the server's."""
    rates = {
        tool: [v["output_tokens_per_s"] for k, v in step.figures.items() if k.startswith(f"{name}: {tool}, round") and v.get("seconds")]
        for tool in ("localrag, without guesses", "llama.cpp server")
    }
    ratios = [a / b for a, b in zip(*rates.values(), strict=False) if b]
    if ratios:
        step.put("ratio_to_server" if name == next(iter(step.models())) else f"{name}: ratio to server", round(median(ratios), 2))


@contextmanager
def server(step: Step, path: Path, slots: int) -> Iterator[str]:
    """Start the llama.cpp server of this build, and yield its address once it has loaded the model."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    program, context = str(step.out / "build" / "bin" / "llama-server"), str(slots * SERVER_CONTEXT)
    command = [program, "-m", str(path), "--host", "127.0.0.1", "--port", str(port), "-np", str(slots), "-c", context]
    command += ["-ngl", "99", "-fa", "on"]
    with (step.out / "logs" / "server.log").open("ab") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            url = f"http://127.0.0.1:{port}"
            while not answers(f"{url}/health"):
                if process.poll() is not None:
                    sys.exit(f"The server ended with code {process.returncode}; logs/server.log has its reason")
                time.sleep(0.2)
            yield url
        finally:
            process.kill()
            process.wait()


def answers(url: str) -> bool:
    """Whether a server answers."""
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except OSError:
        return False


def server_figures(step: Step, path: Path, work: Any) -> dict[str, Any]:
    """Output tokens/s of a llama.cpp server with all requests at once; loading is not counted."""
    if step.rehearse:
        return {"left out": "a rehearsal compiles no server"}
    form = {"type": "json_schema", "json_schema": {"name": "graph", "schema": work.schema}}

    def ask(url: str, chunk: str) -> int:
        body = {"messages": [*work.prefix, {"role": "user", "content": chunk}], "temperature": 0, "max_tokens": work.max_tokens}
        request = urllib.request.Request(
            f"{url}/v1/chat/completions", json.dumps(body | {"response_format": form}).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=600) as answer:
            return int(json.load(answer)["usage"]["completion_tokens"])

    with server(step, path, min(len(work.chunks), REQUESTS)) as url, ThreadPoolExecutor(len(work.chunks)) as pool:
        started = time.perf_counter()
        written = sum(pool.map(partial(ask, url), work.chunks))
        seconds = time.perf_counter() - started
    return {"output_tokens": written, "seconds": round(seconds, 2), "output_tokens_per_s": round(written / seconds, 1)}


def doctor(step: Step) -> None:
    """`localrag doctor`, as users see it."""
    path = next(iter(step.models().values()))
    command = [sys.executable, "-m", "localrag", "doctor", "--json", "--model", str(path)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=step.out)
    if not done.stdout:
        sys.exit(done.stderr[-300:])
    step.put("exit code", done.returncode)
    for line in json.loads(done.stdout)["checks"]:
        step.put(line["name"], f"{line['state']}: {line['text']}")


STEPS = {f.__name__: f for f in (machine, packages, build, weights, exactness, bench, doctor)}


if __name__ == "__main__":
    use_pack(Path(sys.argv[2]))
    STEPS[sys.argv[1]](Step(sys.argv[1], Path(sys.argv[2])))
