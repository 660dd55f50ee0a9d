"""What tests share: a home of their own, the fake backend, and small indexes made by the real models."""

import contextlib
import io
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import settings

settings.register_profile("localrag", deadline=None)  # a busy machine is no failure
settings.load_profile("localrag")
# Started in the background of a script, the tests would pass on to their processes that an interrupt is to be ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
if worker := os.environ.get("PYTEST_XDIST_WORKER"):
    # A core for each process of the run: two models that compute on the same cores wait for each other.
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[int(worker.removeprefix("gw")) % len(cores)]})
DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


def run_module(name: str, *args: object) -> str:
    """What `python -m name args…` prints, run from the checkout; it must succeed."""
    root = Path(__file__).resolve().parents[1]
    command = [sys.executable, "-m", name, *map(str, args)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | {"PYTHONPATH": str(root)}, cwd=root)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(autouse=True, scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Caches go to a folder of the test run, never to the user's."""
    folder = Path(os.environ.get("LOCALRAG_TEST_HOME") or tmp_path_factory.mktemp("home"))
    os.environ["LOCALRAG_HOME"] = str(folder)
    yield folder


@pytest.fixture(scope="session")
def chat_file(home):
    """The bundled chat model."""
    from localrag.models import find_chat_model

    return find_chat_model(None)


@pytest.fixture(scope="session")
def engine(chat_file):
    """An engine over the bundled model, loaded once; an exact one holds nothing over from test to test."""
    from localrag.engine.engine import Engine
    from localrag.engine.hardware.opened import open_backend
    from localrag.engine.settings import EngineOptions

    made = Engine(lambda: open_backend(chat_file, EngineOptions("context=2048")))
    yield made
    assert made.leaks() == []
    made.close()


SCRIPT = Path(__file__).parents[1] / "scripts" / "random_gguf.py"
SMALL = ["--type", "f32", "--layers", "4", "--width", "64", "--ffn", "128", "--heads", "2", "--kv-heads", "1", "--context", "1024"]


@pytest.fixture(scope="session")
def tiny(chat_file, tmp_path_factory):
    """A function that gives a small model with random weights of an architecture: llama, gemma2, mamba or lfm2."""
    from localrag.models import ModelFile

    folder = tmp_path_factory.mktemp("tiny")

    def made(architecture):
        path = folder / f"{architecture}.gguf"
        if not path.exists():
            subprocess.run([sys.executable, SCRIPT, chat_file.path, path, "--architecture", architecture, *SMALL], check=True)
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


def run_process(*args: str, cwd: Path, timeout: float = 600, **env: str) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "localrag", *args],
        check=False,
        cwd=cwd,
        timeout=timeout,
        capture_output=True,
        text=True,
        env=os.environ | env,
    )


TOWN = {
    "a.md": "# The ferry\n\nIngrid Holm bought the ferry Skua from the Northern Line in Vardby. "
    "Her brother Lars Holm is the mate of the Skua. The town of Vardby had waited two years for a ferry.\n",
    "b.txt": "Lars Holm wrote to Mayor Ruth Sand that the Skua leaks. Mayor Ruth Sand asked the Northern Line to pay. "
    "The Northern Line answered that Ingrid Holm had seen the Skua before she signed.\n",
    "c.txt": "英格丽·霍尔姆（Ingrid Holm）买下了渡轮“海鸥号”。王海明是“海鸥号”的轮机长。王海明说，渡轮漏水不是他的错。\n",
}


@pytest.fixture(scope="session")
def town(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of three short documents, indexed by the bundled models through the command line."""
    folder = tmp_path_factory.mktemp("town")
    write_town(folder / "docs")
    done = run_localrag("index", "docs", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="session")
def plain_town(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same documents, indexed without a language model."""
    folder = tmp_path_factory.mktemp("plain")
    write_town(folder / "docs")
    done = run_localrag("index", "docs", "--extractor", "phrases", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


def write_town(docs: Path) -> None:
    docs.mkdir(parents=True, exist_ok=True)
    for name, text in TOWN.items():
        (docs / name).write_text(text, encoding="utf-8")
