"""What takes long to start and keeps nothing of what it did goes on from test to test: parser processes, and the bundled models."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from unittest import mock

from localrag import project
from localrag.engine import embedder
from localrag.engine.embedder import CachingEmbedder, EmbedTexts
from localrag.indexing.workers import worker
from localrag.llm.tagger import Tagger
from localrag.loaders import reader
from localrag.model_files import ModelFile, find_embedder
from localrag.system.child_process import ChildProcess

_start = reader._start
_idle: dict[object, list[ChildProcess]] = {}


class LentParser:
    """A parser process that is kept for the next who wants one when it is closed, unless it owes an answer or has ended."""

    def __init__(self, limits: reader.Limits) -> None:
        self._kept = _idle.setdefault((limits, os.environ.get("PYTHONPATH"), os.environ.get("PATH")), [])
        while self._kept and self._kept[-1]._process.poll() is not None:
            self._kept.pop().close()
        self._process = self._kept.pop() if self._kept else _start(limits)
        self._owes = False

    def send(self, message: object, **options: object) -> None:
        self._owes = True
        self._process.send(message, **options)

    def receive(self, timeout: float) -> dict[str, object]:
        answer = self._process.receive(timeout)
        self._owes = answer.get("reason") == "memory"  # such a process ends
        return answer

    def kill(self) -> None:
        if self._owes:
            self._process.kill()

    def close(self) -> None:
        if self._owes:
            self._process.close()
        else:
            self._kept.append(self._process)


@cache
def loaded_once(load: Callable[[ModelFile], EmbedTexts], file: ModelFile, home: str) -> EmbedTexts:
    """What this function loads, kept: the bundled model for the caches of this home."""
    return load(file)


def open_embedder(file: ModelFile, *, quick: bool = False) -> CachingEmbedder:
    """Open an embedder; what it loads of the bundled model, others may have loaded before."""
    made = embedder.open_embedder(file, quick=quick)
    if file.path == find_embedder(None).path:
        home = os.environ["LOCALRAG_HOME"]
        loads = [load and (lambda file, load=load: loaded_once(load, file, home)) for load in (made._load, made._load_quick)]
        return CachingEmbedder(file, *loads)
    return made


@contextmanager
def processes_and_models() -> Iterator[None]:
    """Files are read in this process by parsers that are lent; the bundled embedder and tagger are loaded once."""
    tagger = Tagger()
    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(reader, "_start", LentParser))
        stack.enter_context(mock.patch.object(project, "Tagger", lambda: tagger))
        for module in (project, worker):
            stack.enter_context(mock.patch.object(module, "open_embedder", open_embedder))
        yield
    for process in (process for kept in _idle.values() for process in kept):
        process.close()
    _idle.clear()


@contextmanager
def own_parsers() -> Iterator[None]:
    """Files are read by parser processes that nobody used before, and that end with their reader."""
    with mock.patch.object(reader, "_start", _start):
        yield
