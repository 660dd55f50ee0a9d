"""What tests share: a home, the command line in this process, and small indexes that are made once a run."""

import asyncio
import contextlib
import io
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any
from unittest import mock

import platformdirs
import pytest
from filelock import FileLock
from hypothesis import settings

from tests import hashed_embedder
from tests.forked import run_forked

settings.register_profile("localrag", deadline=None)  # a busy machine is no failure
settings.load_profile("localrag")
# Started in the background of a script, the tests would pass on to their processes that an interrupt is to be ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
worker = os.environ.get("PYTEST_XDIST_WORKER", "")
if worker:
    # A core for each process of the run: two models that compute on the same cores wait for each other.
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[int(worker.removeprefix("gw")) % len(cores)]})
ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT.parent / "shared" / "data"
HASHED = ROOT / "tests" / "hashed"


def mostly_ci(values: Iterable[object], *quick: object) -> list[object]:
    """Values of a test's parameters: the `quick` ones for the quick tests, the others for `make test-ci`."""
    return [v if v in quick else pytest.param(*(v if isinstance(v, tuple) else (v,)), marks=pytest.mark.ci) for v in values]


def mostly_slow(values: Iterable[object], *in_ci: object) -> list[object]:
    """Values of a test's parameters: the ones `in_ci` for `make test-ci`, the others for `make test-all`."""
    return [pytest.param(v, marks=pytest.mark.ci if v in in_ci else pytest.mark.slow) for v in values]


def seeds(first: int, *others: int) -> list[object]:
    """Seeds of a test of random cases: the first for the quick tests, the others for `make test-ci`."""
    return mostly_ci([first, *others], first)


def run_module(name: str, *args: object) -> str:
    """What `python -m name args…` prints, run from the checkout; it must succeed."""
    command = [sys.executable, "-m", name, *map(str, args)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | {"PYTHONPATH": str(ROOT)}, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout


# What one home takes over from another: files that are replaced and never written to, so that a second name is as good as a copy.
SHARED = ("models/*", "embedders/*", "tuning/*", "vocabularies/*", "fingerprints.json", "jieba.cache")


def shared_home() -> Path:
    """Where a machine keeps, from run to run, what is measured and converted for the bundled models: for these requirements and cores.

    `LOCALRAG_TEST_HOME` names another folder. What no run has used for a month is deleted.
    """
    named = os.environ.get("LOCALRAG_TEST_HOME")
    kept = platformdirs.user_cache_path("localrag-tests")
    folder = Path(named) if named else kept / sha256((ROOT / "pyproject.toml").read_bytes()).hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    os.utime(folder)
    for other in kept.glob("*") if not named else ():
        if time.time() - other.stat().st_mtime > 30 * 86_400:
            shutil.rmtree(other, ignore_errors=True)
    return folder


# What has the bundled models measured and converted.
PREPARING = {
    "chat model": (["index", "docs"],),
    "embedder": (["index", "docs", "--extractor", "phrases"], ["ask", "Who bought the Skua?"]),
}


def prepare(shared: Path, work: Path) -> None:
    """Have the bundled models measured and converted: one kind by this process, the other by another one where there are several."""
    kinds = list(PREPARING)
    for kind in kinds if worker in ("", "gw0") else kinds[::-1]:
        done = shared / f"prepared {kind} {cores_here()}"
        with FileLock(shared / f"{kind}.lock"):
            if not done.exists():
                write_town(work / kind / "docs")
                for command in PREPARING[kind]:
                    ran = run_localrag(*command, cwd=work / kind, LOCALRAG_HOME=str(shared))
                    assert ran.returncode == 0, ran.stderr
                done.touch()


def cores_here() -> int:
    """How many cores this process may use: what is measured with fewer of them holds for no more."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def take_over(shared: Path, home: Path) -> None:
    """Give a home what was measured and converted, where it has nothing of that name itself."""
    for source in (path for pattern in SHARED for path in (shared / "cache").glob(pattern) if path.suffix != ".part"):
        target = home / source.relative_to(shared)
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not target.exists():
            link_or_copy(source, target)


def link_or_copy(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


@pytest.fixture(autouse=True, scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of this run's for settings and caches, never the user's. It begins with what was measured and converted in earlier runs."""
    folder, shared = tmp_path_factory.mktemp("home"), shared_home()
    prepare(shared, tmp_path_factory.mktemp("prepared"))
    (folder / "cache").mkdir(mode=0o700)
    take_over(shared, folder)
    os.environ["LOCALRAG_HOME"] = str(folder)
    return folder


@pytest.fixture(autouse=True, scope="session")
def _shared(home: Path) -> Iterator[None]:
    """The tests of a process share its parser processes and the bundled models."""
    from tests.shared import processes_and_models

    with processes_and_models():
        yield


@pytest.fixture
def own_parsers() -> Iterator[None]:
    """Files are read by parser processes that no other test used, and that end with their reader."""
    from tests import shared

    with shared.own_parsers():
        yield


@pytest.fixture(scope="session")
def chat_file(home):
    """The bundled chat model."""
    from localrag.model_files import find_chat_model

    return find_chat_model(None)


@pytest.fixture(scope="session")
def engine(chat_file):
    """An engine over the bundled model, loaded once; an exact one holds nothing over from test to test."""
    from localrag.engine.autotune.load import open_backend
    from localrag.engine.engine import Engine
    from localrag.engine.settings import EngineOptions
    from tests.fakes import inconsistencies

    made = Engine(lambda: open_backend(chat_file, EngineOptions("n_ctx=2048")))
    yield made
    assert inconsistencies(made) == []
    made.close()


SCRIPT = Path(__file__).parents[1] / "scripts" / "random_gguf.py"
SMALL = ["--type", "f32", "--layers", "4", "--width", "64", "--ffn", "128", "--heads", "2", "--kv-heads", "1", "--context", "1024"]


@pytest.fixture(scope="session")
def tiny(home, chat_file, tmp_path_factory):
    """A function that gives a small model with random weights of an architecture: llama, gemma2, mamba or lfm2."""
    from localrag.engine.autotune.load import open_backend
    from localrag.engine.settings import EngineOptions
    from localrag.model_files import ModelFile

    folder, shared = tmp_path_factory.mktemp("tiny"), shared_home()

    def made(architecture):
        path, kept = folder / f"{architecture}.gguf", shared / "tiny" / f"{architecture}-{cores_here()}.gguf"
        if path.exists():
            return ModelFile(architecture, "chat", path)
        with FileLock(shared / "lock"):
            if not kept.exists():
                kept.parent.mkdir(exist_ok=True)
                subprocess.run([sys.executable, SCRIPT, chat_file.path, path, "--architecture", architecture, *SMALL], check=True)
                with mock.patch.dict(os.environ, LOCALRAG_HOME=str(shared)):
                    open_backend(ModelFile(architecture, "chat", path), EngineOptions()).close()
                shutil.move(path, kept)
        take_over(shared, home)
        shutil.copy(kept, path)
        return ModelFile(architecture, "chat", path)

    return made


def run_localrag(*args: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Run the command line in this process, which has the libraries loaded already. What a process of its own is for: `run_process`."""
    from localrag.cli import main

    said, told, code = io.StringIO(), io.StringIO(), 0
    hook, level = threading.excepthook, logging.getLogger("asyncio").level
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    with (
        contextlib.chdir(cwd),
        mock.patch.dict(os.environ, env),
        mock.patch.object(sys, "argv", ["localrag", *args]),
        contextlib.redirect_stdout(said),
        contextlib.redirect_stderr(told),
    ):
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
        finally:
            threading.excepthook = hook
            logging.getLogger("asyncio").setLevel(level)
            for number, handler in handlers.items():
                signal.signal(number, handler)
    return subprocess.CompletedProcess(args, code, said.getvalue(), told.getvalue())


def run_json(*args: str, cwd: Path, **env: str) -> Any:
    """What a command that succeeds prints with --json."""
    done = run_localrag(*args, "--json", cwd=cwd, **env)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def run_process(
    *args: str, cwd: Path, timeout: float = 600, given: str | bytes | None = None, hashed: bool = False, **env: str
) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process of its own, where `hashed` with `HashedEmbedder`s; `given` is its standard input."""
    path = env.pop("PYTHONPATH", "") or hashed_path()
    if not hashed:
        path = path.removeprefix(f"{HASHED}{os.pathsep}")
    return run_forked(*args, cwd=cwd, timeout=timeout, given=given, env=os.environ | env | {"PYTHONPATH": path})


@pytest.fixture
def hashed() -> Iterator[None]:
    """Indexes and questions in this process use `HashedEmbedder`: no model is loaded for vectors."""
    with hashed_embedder.in_this_process():
        yield


@pytest.fixture(scope="module")
def hashed_module() -> Iterator[None]:
    """The same for all of a module and what it shares: `pytestmark = pytest.mark.usefixtures("hashed_module")`."""
    with hashed_embedder.in_this_process():
        yield


def hashed_path() -> str:
    """A PYTHONPATH with which a process uses `HashedEmbedder` too."""
    return os.pathsep.join(filter(None, [str(HASHED), str(ROOT), os.environ.get("PYTHONPATH", "")]))


TOWN = {
    "a.md": "# The ferry\n\nIngrid Holm bought the ferry Skua from the Northern Line in Vardby. "
    "Her brother Lars Holm is the mate of the Skua. The town of Vardby had waited two years for a ferry.\n",
    "b.txt": "Lars Holm wrote to Mayor Ruth Sand that the Skua leaks. Mayor Ruth Sand asked the Northern Line to pay. "
    "The Northern Line answered that Ingrid Holm had seen the Skua before she signed.\n",
    "c.txt": "英格丽·霍尔姆（Ingrid Holm）买下了渡轮“海鸥号”。王海明是“海鸥号”的轮机长。王海明说，渡轮漏水不是他的错。\n",
}


@pytest.fixture(scope="session")
def made_once(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """A function that gives a folder of its own with what a function makes in a folder: made once a run, by the first process, then copied.

    `made_once(name, make, to=None)`: a folder at `to`, or a new one; what is made by one `name` is the same.
    """
    base = tmp_path_factory.getbasetemp()
    base = (base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base) / "made"
    base.mkdir(exist_ok=True)

    def give(name: str, make: Callable[[Path], object], to: Path | None = None) -> Path:
        made = base / sha256(name.encode()).hexdigest()[:16]
        with FileLock(f"{made}.lock"):
            if not made.exists():
                work = made.with_suffix(".part")
                shutil.rmtree(work, ignore_errors=True)
                work.mkdir()
                make(work)
                work.rename(made)
        target = to or tmp_path_factory.mktemp("made")
        shutil.copytree(made, target, dirs_exist_ok=True)
        return target

    return give


@pytest.fixture(scope="session")
def indexed(made_once: Callable[..., Path]) -> Callable[..., Path]:
    """A function that gives a folder with an index of its own, see `made_once`.

    `indexed(documents, *options, hashed=False, to=None)`: a folder with `documents` (name → text) in `docs` and the index that
    `localrag index docs *options` makes of them.
    """

    def give(documents: dict[str, str | bytes], *options: str, hashed: bool = False, to: Path | None = None) -> Path:
        def make(folder: Path) -> None:
            write_documents(folder / "docs", documents)
            with hashed_embedder.in_this_process() if hashed else contextlib.nullcontext():
                done = run_localrag("index", "docs", *options, cwd=folder)
            assert done.returncode == 0, done.stderr

        return made_once(json.dumps([{name: str(text) for name, text in documents.items()}, options, hashed]), make, to)

    return give


@pytest.fixture(scope="session")
def demo_town(made_once: Callable[..., Path]) -> Path:
    """A folder with the demo's documents in `docs`, indexed without a language model."""
    from localrag.demo import CORPUS
    from localrag.indexing.pipeline import build_index
    from localrag.project import open_for_writing

    def make(folder: Path) -> None:
        shutil.copytree(CORPUS, folder / "docs")
        with open_for_writing(folder / ".localrag", extractor="phrases") as project:
            asyncio.run(build_index([folder / "docs"], project, lambda _: None))

    return made_once("demo", make)


@pytest.fixture(scope="session")
def town(indexed: Callable[..., Path]) -> Path:
    """A folder of three short documents, indexed by the bundled models through the command line."""
    return indexed(TOWN)


@pytest.fixture(scope="session")
def plain_town(indexed: Callable[..., Path]) -> Path:
    """The same documents, indexed without a language model."""
    return indexed(TOWN, "--extractor", "phrases")


@pytest.fixture
def own_town(plain_town: Path, tmp_path: Path) -> Path:
    """A copy of that, which a test may change."""
    return Path(shutil.copytree(plain_town, tmp_path / "town"))


@pytest.fixture
def in_own_town(own_town: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same, as the working folder."""
    monkeypatch.chdir(own_town)
    return own_town


def until(holds: Callable[[], object], seconds: float = 120) -> None:
    """Wait for something; an error where it does not come."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)


def write_documents(folder: Path, documents: dict[str, str | bytes]) -> None:
    for name, text in documents.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())


def write_town(docs: Path) -> None:
    docs.mkdir(parents=True, exist_ok=True)
    for name, text in TOWN.items():
        (docs / name).write_text(text, encoding="utf-8")
