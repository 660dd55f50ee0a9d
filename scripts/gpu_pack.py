"""Everything that scripts/gpu_check.py needs on a machine without a network, in one archive of at most MAX_PACK_BYTES."""

import lzma
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zlib
from collections.abc import Iterator
from pathlib import Path

import install

ROOT = Path(__file__).resolve().parents[1]
MAX_PACK_BYTES = 64 << 20
DAMAGED = (OSError, EOFError, tarfile.TarError, lzma.LZMAError, zlib.error)  # what reading an archive that is cut off or none raises
TOP = "localrag-gpu"  # the archive's folder
TOKENIZER = "vendor/llama.cpp/models/ggml-vocab-qwen2.gguf"
# What localrag's engine, its command line and scripts/random_gguf.py import, besides torch, FAISS and llama.cpp itself.
WHEELS = ("llguidance", "diskcache", "jinja2", "markupsafe", "numpy", "platformdirs", "psutil", "tiktoken", "regex", "tomlkit", "typer",
          "click", "rich", "shellingham", "typing-extensions", "annotated-doc", "pygments", "markdown-it-py", "mdurl", "gguf", "tqdm",
          "pyyaml", "requests", "safetensors", "tokenizers", "networkx", "sqlite-utils", "sqlite-fts4", "pluggy", "python-dateutil", "six",
          "tabulate", "click-default-group", "rapidfuzz", "ninja", "pydantic", "pydantic-core",
          "annotated-types", "typing-inspection")  # fmt: skip
SOURCES = ("localrag", "prompts", "scripts", "models.toml", "README.md", "LICENSE", "pyproject.toml")
# Of llama.cpp: what a build for CUDA and the server compiles. Other devices, tests, pictures and documentation stay behind.
_PARTS = ("cmake", "common", "ggml/CMakeLists.txt", "ggml/cmake", "ggml/include", "include", "src", "vendor", "licenses", "LICENSE",
          "CMakeLists.txt", "CMakePresets.json", "scripts/ui-assets.cmake", "tools/CMakeLists.txt", "tools/mtmd", "tools/server",
          "tools/ui")  # fmt: skip
_DEVICES = ("ggml-cpu", "ggml-cuda")
_LEFT_OUT = ("tools/ui/src", "tools/ui/tests", "tools/ui/static", "tools/server/tests", "tools/server/bench", "tools/mtmd/tests",
             "tools/mtmd/legacy-models", "tools/mtmd/test-")  # fmt: skip


class PackError(Exception):
    """A pack that cannot be made; its text is the reason and the remedy in one line."""


def write_pack(out: Path, *, sdist: Path | None, wheels: Path | None, python: str) -> dict[str, int]:
    """Write the archive and return the bytes of its parts before compression, and its own as `archive`. Raises PackError.

    `sdist` of llama-cpp-python and the folder `wheels` are downloaded with pip if they are None; `python`: the version there, as 3.12.
    """
    with tempfile.TemporaryDirectory() as folder:
        sdist = sdist or download_sdist(Path(folder))
        wheels = wheels or download_wheels(Path(folder) / "wheels", python)
        members = [*repository_files(), *((f"wheels/{p.name}", p) for p in sorted(wheels.glob("*.whl")))]
        sizes = {"wheels": sum(p.stat().st_size for p in wheels.glob("*.whl"))}
        with tarfile.open(out, "w:xz", preset=6) as archive:
            for name, path in members:
                archive.add(path, f"{TOP}/{name}", recursive=False)
            sizes["llama.cpp"] = add_llama(archive, sdist)
        sizes["localrag"] = sum(path.stat().st_size for _, path in repository_files())
    size = out.stat().st_size
    if size > MAX_PACK_BYTES:
        out.unlink()
        biggest = ", ".join(f"{name} {n / 1e6:.0f} MB" for name, n in sorted(sizes.items(), key=lambda pair: -pair[1]))
        raise PackError(
            f"The pack has {size / (1 << 20):.1f} MiB, {MAX_PACK_BYTES >> 20} are allowed ({biggest}). Leave wheels out: --wheels FOLDER"
        )
    return sizes | {"archive": size}


def repository_files() -> Iterator[tuple[str, Path]]:
    """The files of localrag and of these scripts, with their names in the pack."""
    for name in SOURCES:
        found = [ROOT / name] if (ROOT / name).is_file() else sorted(p for p in (ROOT / name).rglob("*") if p.is_file())
        yield from ((p.relative_to(ROOT).as_posix(), p) for p in found if "__pycache__" not in p.parts and p.suffix != ".pyc")


def is_needed(name: str) -> bool:
    """Whether a build needs this file of the source distribution of llama-cpp-python, named from its folder."""
    inner = name.removeprefix("vendor/llama.cpp/")
    if inner == name:
        return name.startswith("llama_cpp/") or name in ("LICENSE.md", "PKG-INFO")
    if name == TOKENIZER:
        return True
    if inner.startswith("ggml/src/"):
        part, _, below = inner.removeprefix("ggml/src/").partition("/")
        return not below or part in _DEVICES
    return inner.startswith(_PARTS) and not inner.startswith(_LEFT_OUT)


def add_llama(archive: tarfile.TarFile, sdist: Path) -> int:
    """Copy the needed files of the source distribution into the archive, as llama/; returns their bytes. Raises PackError."""
    total = 0
    try:
        with tarfile.open(sdist) as source:
            for member in source:
                name = member.name.partition("/")[2]
                if member.isfile() and is_needed(name) and (content := source.extractfile(member)):
                    copy = tarfile.TarInfo(f"{TOP}/llama/{name}")  # the member's own headers keep its long name
                    copy.size, copy.mode, copy.mtime, total = member.size, member.mode, member.mtime, total + member.size
                    archive.addfile(copy, content)
    except DAMAGED as error:
        raise PackError(f"{sdist} is not a source distribution of llama-cpp-python: {error}. Give another: --sdist FILE") from error
    if not total:
        raise PackError(f"{sdist} holds no sources of llama.cpp. Give another: --sdist FILE")
    return total


def download_sdist(folder: Path) -> Path:
    """The source distribution of llama-cpp-python in the version that localrag needs. Raises PackError."""
    pip("download", "--no-deps", "--no-binary", "llama-cpp-python", "--dest", str(folder), install.llama_requirement())
    return next(folder.glob("llama_cpp_python-*.tar.gz"))


def download_wheels(folder: Path, python: str) -> Path:
    """The wheels of WHEELS for Linux on x86_64 and a Python version, in a folder. Raises PackError."""
    platforms = [f"--platform=manylinux_2_{n}_x86_64" for n in (35, 34, 31, 28, 27, 24, 17)] + ["--platform=manylinux2014_x86_64"]
    target = ["--only-binary=:all:", f"--python-version={python}", *platforms, "--dest", str(folder)]
    pip("download", "--no-deps", *target, *map(requirement, WHEELS))
    return folder


def requirement(name: str) -> str:
    """A package with the versions that pyproject.toml allows, if it names the package."""
    dependencies = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    return next((d for d in dependencies if re.split(r"[<>=]", d)[0] == name), name)


def pip(*arguments: str) -> None:
    """Run pip. Raises PackError."""
    done = subprocess.run([sys.executable, "-m", "pip", *arguments, "-q"], check=False, capture_output=True, text=True, env=os.environ)
    if done.returncode:
        last = next(iter(done.stderr.strip().splitlines()[-1:]), "no reason given")
        raise PackError(f"pip could not download: {last}. Bring the files yourself: --sdist FILE --wheels FOLDER")


def unpack(archive: Path, folder: Path) -> Path:
    """Unpack an archive of `write_pack` once; returns its folder. Raises PackError."""
    target = folder / TOP
    if (target / ".complete").exists():
        return target
    try:
        with tarfile.open(archive) as source:
            source.extractall(folder, filter="data")
    except DAMAGED as error:
        raise PackError(f"{archive} is not a pack: {error}. Make one: python scripts/gpu_check.py pack PACK.tar.xz") from error
    (target / ".complete").write_text("")
    return target


def summary(sizes: dict[str, int]) -> str:
    """The sizes of a pack in one line."""
    parts = ", ".join(f"{name} {size / 1e6:.1f} MB" for name, size in sizes.items() if name != "archive")
    return f"{sizes['archive'] / (1 << 20):.1f} MiB of {MAX_PACK_BYTES >> 20} allowed; before compression: {parts}"
