"""Set up .venv and say at each step what is done and how long it usually takes: `python3 scripts/install.py demo` or `… all`.

`demo` installs what `localrag demo` needs, `all` what the tests and scripts need as well. `wheel FOLDER` sets up another environment and
installs localrag there from its wheel, as a user has it. Only the standard library is used here, since nothing else is installed yet. The
times in the texts were measured on two cores.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
import tomllib
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import compiler_flags

if sys.version_info < (3, 11):  # noqa: UP036 - whatever Python the machine has runs this first
    sys.exit("localrag needs Python 3.11 or newer. Name one: make PYTHON=python3.12 demo")

ROOT = Path(__file__).resolve().parents[1]
VENV = Path(sys.argv[2]).absolute() if len(sys.argv) == 3 else ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
TORCH = "torch==2.13.0"
COMPILE_PROGRESS = re.compile(r"^\s*\[(\d+)/(\d+)\] ")  # as ninja prints it
PROGRESS_PARTS = 5  # a line at each fifth of the compilation
ERROR_LINES = 40
LARGE_DOWNLOAD = re.compile(r"Downloading (?:\S*/)?([^\s/-]+-[^\s-]+)\S* \((\d{2,}\.\d [MG]B)")  # from 10 MB
COMPILERS = {"CC": ("cc", "gcc", "clang"), "CXX": ("c++", "g++", "clang++")}  # variable that names one → else the first that works
BUILD_STARTED = re.compile(r"Building wheel for (\S+) .*started")


def main() -> None:
    target = sys.argv[1] if len(sys.argv) > 1 else ""
    if target not in ("demo", "all", "wheel") or len(sys.argv) != (3 if target == "wheel" else 2):
        sys.exit("Usage: python3 scripts/install.py demo|all, or: python3 scripts/install.py wheel FOLDER")
    started = time.monotonic()
    steps = [make_environment, install_torch, install_llama, install_wheel if target == "wheel" else install_libraries]
    if target == "all":
        steps.append(install_everything)
    for number, step in enumerate(steps, 1):
        step(f"[{number}/{len(steps)}]")
    say(f"Installed in {duration(time.monotonic() - started)}.")


def make_environment(step: str) -> None:
    """The virtual environment, with a pip that knows dependency groups. Ends if a compiler will be missing: before any large download."""
    say(f"{step} Virtual environment {VENV.name} (about 10 seconds)")
    if not os.access(PYTHON, os.X_OK):
        run([sys.executable, "-m", "venv", str(VENV)])
    pip("install", "--upgrade", "pip>=25.1")
    compiled = installed_version("llama-cpp-python") == llama_version() or cached_wheel(dict(os.environ))
    if not compiled and not all(any(map(is_compiler, choices)) for choices in compilers()):
        sys.exit(
            "llama.cpp is compiled here, and no C and C++ compiler works: install one with sudo apt-get install build-essential "
            "(Debian, Ubuntu), sudo dnf install gcc-c++ (Fedora) or xcode-select --install (macOS), and run the same command again."
        )


def compilers() -> list[list[str]]:
    """The commands that CMake may use to compile C, and those to compile C++."""
    return [[os.environ[variable]] if os.environ.get(variable) else list(names) for variable, names in COMPILERS.items()]


def is_compiler(command: str) -> bool:
    """Whether a command runs; that of macOS exists before the compiler is installed, and fails."""
    words = shlex.split(command)
    return shutil.which(words[0]) is not None and subprocess.run([*words, "--version"], check=False, capture_output=True).returncode == 0


def install_torch(step: str) -> None:
    """Torch as a CPU build, before all others: as a dependency of another package pip would download gigabytes of CUDA libraries."""
    if installed_version("torch"):
        say(f"{step} torch is installed already")
        return
    say(f"{step} torch, the build for CPUs (200 MB; about 30 seconds and the download)")
    if pip("install", f"{TORCH}+cpu", may_fail=True):
        return
    say("    pip has no CPU build here; uv gets it")
    pip("install", "uv")
    run([str(VENV / "bin" / "uv"), "pip", "install", "-q", "--python", str(PYTHON), "--torch-backend=cpu", TORCH])


def install_llama(step: str) -> None:
    """llama.cpp with its Python binding: the wheel that pip compiled before, or compiled now for this processor."""
    if installed_version("llama-cpp-python") == llama_version():
        say(f"{step} llama.cpp is installed already")
        return
    environment = build_environment(compiler_flags.needed_flags())
    if wheel := cached_wheel(environment):
        say(f"{step} llama.cpp, from pip's cache: {wheel} (seconds)")
        pip("install", llama_requirement(), environment=environment)
        return
    say(f"{step} llama.cpp, compiled for this processor (80 MB; about 4 minutes on 2 cores; pip keeps the result, so only once)")
    pip("install", "--verbose", llama_requirement(), environment=environment)


def install_libraries(step: str) -> None:
    """localrag itself and the libraries that it always needs."""
    say(f"{step} localrag and its libraries, with the bundled models (1.1 GB installed; about a minute and the download)")
    remove_former_name()
    pip("install", "-e", ".")


def remove_former_name() -> None:
    """Uninstall this checkout as `localrag`, its former name: if that were removed later, the command would go with it.

    Ends if that package is not this checkout's: it would be imported in its place.
    """
    code = "from importlib.metadata import distribution; print(distribution('localrag').read_text('direct_url.json') or '{}')"
    found = subprocess.run([str(PYTHON), "-c", code], check=False, capture_output=True, text=True)
    if found.returncode:  # there is none
        return
    record = json.loads(found.stdout)
    if record.get("url") != ROOT.as_uri() or not record.get("dir_info", {}).get("editable"):
        sys.exit(f".venv has a package `localrag` that is not this checkout. Look at it, and remove it: {PYTHON} -m pip uninstall localrag")
    run([str(PYTHON), "-m", "pip", "uninstall", "--yes", "localrag"])


def install_wheel(step: str) -> None:
    """The same from the wheel that is built here; an environment that has it already gets the new one."""
    say(f"{step} localrag's wheel and its libraries, with the bundled models (about a minute and the download)")
    with TemporaryDirectory() as folder:
        pip("wheel", "--no-deps", "--wheel-dir", folder, ".")
        (wheel,) = Path(folder).glob("*.whl")
        pip("install", str(wheel))
        pip("install", "--force-reinstall", "--no-deps", str(wheel))


def install_everything(step: str) -> None:
    """The extras and what the tests, scripts and documentation need."""
    say(f"{step} extras, tests and documentation (some minutes, most of them for downloads)")
    pip("install", "-e", ".[all,train,ray]", "--group", "dev")


def llama_requirement() -> str:
    """The version range that pyproject.toml names."""
    dependencies = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    return next(d for d in dependencies if d.startswith("llama-cpp-python"))


def llama_version() -> str:
    """The oldest version of that range."""
    return llama_requirement().partition(">=")[2].partition(",")[0]


def build_environment(flags: tuple[str, ...]) -> dict[str, str]:
    """The environment for compiling: where a compiler needs flags, these, and a cache apart from wheels that were compiled without them."""
    added = {name: " ".join([os.environ.get(name, ""), *flags]).strip() for name in ("CFLAGS", "CXXFLAGS")} if flags else {}
    if flags and (cache := pip_output("cache", "dir")):  # pip may be configured to have none
        added["PIP_CACHE_DIR"] = f"{cache}-{re.sub('[^a-z0-9-]', '', ''.join(flags))}"
    return os.environ | added


def cached_wheel(environment: dict[str, str]) -> str:
    """The name of a wheel of llama-cpp-python that pip compiled before; "" where there is none."""
    listed = pip_output("cache", "list", "--format=abspath", "llama_cpp_python", environment=environment)
    wanted = f"llama_cpp_python-{llama_version()}-"
    return next((Path(line).name for line in listed.splitlines() if Path(line).name.startswith(wanted)), "")


def installed_version(package: str) -> str:
    """The version of a package in .venv; "" where it has none."""
    code = f"from importlib.metadata import version; print(version({package!r}))"
    return subprocess.run([str(PYTHON), "-c", code], check=False, capture_output=True, text=True).stdout.strip()


def pip(*arguments: str, environment: dict[str, str] | None = None, may_fail: bool = False) -> bool:
    return run([str(PYTHON), "-m", "pip", *arguments, "--progress-bar=off"], environment=environment, may_fail=may_fail)


def pip_output(*arguments: str, environment: dict[str, str] | None = None) -> str:
    """What a short pip command prints; "" where it fails."""
    command = [str(PYTHON), "-m", "pip", *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True, env=environment).stdout.strip()


def run(command: list[str], *, environment: dict[str, str] | None = None, may_fail: bool = False) -> bool:
    """Run a command and print the lines of its output that say what is going on; its last lines, and the end, where it fails."""
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    last: deque[str] = deque(maxlen=ERROR_LINES)
    assert process.stdout is not None
    for line in shown_lines(remembered(process.stdout, last)):
        say(f"    {line}")
    if process.wait() == 0:
        return True
    if not may_fail:
        sys.exit(f"{''.join(last)}\nThis command failed: {' '.join(command)}")
    return False


def remembered(lines: Iterator[str], last: deque[str]) -> Iterator[str]:
    for line in lines:
        last.append(line)
        yield line


def shown_lines(lines: Iterator[str]) -> Iterator[str]:
    """The lines worth showing, shortened: large downloads, what is built, how far the compilation is, how many packages are installed."""
    part = 0
    for line in lines:
        if found := COMPILE_PROGRESS.match(line):
            done, total = int(found[1]), int(found[2])
            if done * PROGRESS_PARTS // total > part:
                part = done * PROGRESS_PARTS // total
                yield f"compiled: {done} of {total} files"
        elif found := LARGE_DOWNLOAD.search(line):
            yield f"downloading {found[1]} ({found[2]})"
        elif found := BUILD_STARTED.search(line):
            yield f"building {found[1]}"
        elif "Installing collected packages:" in line:
            yield f"installing packages: {line.count(',') + 1}"


def duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 60 else f"{seconds // 60:.0f} min {seconds % 60:.0f} s"


def say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    main()
