"""A worker on another machine of a Ray cluster: the actor there, its proxy here, and the transfer of models.

A model is found on the worker's machine by its content, or sent in chunks and verified. All other values are sent pickled, in chunks so
small that Ray never stores them.

No method of the actor raises: an error's text could contain text of a document, and Ray writes errors into its logs. For the same reason
the output of libraries is discarded.
"""

import asyncio
import os
import pickle
import platform
import shutil
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import count
from os import getpid
from pathlib import Path
from typing import Any

import psutil

from localrag.errors import LocalragError, ModelError
from localrag.indexing.workers.ray_cluster import RAY_RESOURCE
from localrag.indexing.workers.worker import (
    TaskRequest,
    TaskResult,
    TaskRunner,
    Worker,
    WorkerLost,
    engine_layout,
    numerics_class,
    software_versions,
    worker_error,
)
from localrag.model_files import ModelFile, find_chat_model, find_embedder, fingerprint, merged_models, shard_paths, stat_key
from localrag.system.child_process import set_oom_score
from localrag.system.files import cache_dir, ensure_private_file, ensure_private_folder, touch_atime
from localrag.system.resources import available_cores

FILE_CHUNK_BYTES = 16 << 20  # bytes that are sent at once
SENT_MODELS_FOLDER = "models"  # in the cache


@dataclass(frozen=True, slots=True)
class ModelManifest:
    """A model that a worker needs: its fingerprint, its files with their sizes, and its path on the machine that has it."""

    kind: str
    name: str
    fingerprint: str
    total_size: int  # bytes that the fingerprint covers
    files: tuple[tuple[str, int], ...]
    path: Path
    is_folder: bool

    @classmethod
    def of(cls, file: ModelFile) -> "ModelManifest":
        """The manifest of a model in a file, several files, or a folder. Raises ModelError."""
        folder = file.path.is_dir()
        paths = sorted(p for p in file.path.rglob("*") if p.is_file()) if folder else shard_paths(file.path)
        root = file.path if folder else file.path.parent
        files = tuple((p.relative_to(root).as_posix(), p.stat().st_size) for p in paths)
        return cls(file.kind, file.name, file.fingerprint, _weight(file.path), files, file.path, folder)

    @property
    def size(self) -> int:
        """Bytes to send."""
        return sum(size for _, size in self.files)

    def in_folder(self, folder: Path) -> Path:
        """The path to open if its files are in a folder."""
        return folder if self.is_folder else folder / self.files[0][0]

    def pieces(self) -> Iterator[tuple[str, int, bytes]]:
        """The content of its files in order: name, offset in the file, bytes. Raises OSError."""
        root = self.path if self.is_folder else self.path.parent
        for name, _ in self.files:
            with (root / name).open("rb") as f:
                at = 0
                while piece := f.read(FILE_CHUNK_BYTES):
                    yield name, at, piece
                    at += len(piece)


def _weight(path: Path) -> int:
    return sum(size for _, size, _ in stat_key(path))


def find_model(wanted: ModelManifest) -> Path | None:
    """The path of the model on this machine: sent before, or a local model with the same content, whatever its name."""
    for path in _candidates(wanted):
        with suppress(ModelError, OSError):
            if path.exists() and _weight(path) == wanted.total_size and fingerprint(path) == wanted.fingerprint:
                if path.is_relative_to(cache_dir() / SENT_MODELS_FOLDER):
                    touch_atime(_folder_of(wanted) / wanted.files[0][0])
                return path
    return None


def _candidates(wanted: ModelManifest) -> Iterator[Path]:
    yield wanted.in_folder(_folder_of(wanted))
    for name in merged_models()[wanted.kind]:
        with suppress(ModelError):
            yield (find_embedder if wanted.kind == "embedder" else find_chat_model)(name).path


def _folder_of(wanted: ModelManifest) -> Path:
    """The folder in the cache for the files of a model that another machine sent."""
    return cache_dir() / SENT_MODELS_FOLDER / wanted.fingerprint


class IncomingModel:
    """A model that is being received. An incomplete one leaves no files."""

    def __init__(self, wanted: ModelManifest) -> None:
        """Create its folder. Raises LocalragError if the disk has too little space."""
        self.wanted = wanted
        self._target = _folder_of(wanted)
        self._part = self._target.with_name(f"{wanted.fingerprint}.{getpid()}.part")
        try:
            ensure_private_folder(self._target.parent)
            for part in dead_parts(self._target.parent):
                shutil.rmtree(part, ignore_errors=True)
            free = shutil.disk_usage(self._target.parent).free
        except OSError as error:
            raise self._full(error.strerror) from error
        if free < wanted.size:
            raise self._full(f"{free / 1e6:.0f} MB are free")

    def _full(self, reason: str | None) -> LocalragError:
        message = f"There is no room for the model {self.wanted.name} ({self.wanted.size / 1e6:.0f} MB) in {self._target.parent}: {reason}."
        return LocalragError(message, "Free some space there, or put the models elsewhere with LOCALRAG_HOME, and start the worker again.")

    def write_chunk(self, name: str, at: int, piece: bytes) -> None:
        """Write a chunk of a file. Raises LocalragError."""
        if name not in dict(self.wanted.files):
            raise LocalragError("A file arrived that does not belong to the model.")
        path = self._part / name
        try:
            ensure_private_folder(path.parent)
            with ensure_private_file(path).open("r+b") as f:
                f.seek(at)
                f.write(piece)
        except OSError as error:
            self.discard()
            raise self._full(error.strerror) from error

    def verify(self, digests: dict[str, str]) -> Path:
        """Verify every file and move the model into place; returns its path. Raises LocalragError."""
        try:
            for name, digest in digests.items():
                with (self._part / name).open("rb") as f:
                    found = sha256()
                    while block := f.read(1 << 20):
                        found.update(block)
                if found.hexdigest() != digest:
                    raise LocalragError(f"The model {self.wanted.name} arrived damaged.", "Start the worker again.")
            with suppress(OSError):  # another worker of this machine was first
                self._part.rename(self._target)
        except OSError as error:
            raise self._full(error.strerror) from error
        finally:
            self.discard()
        path = self.wanted.in_folder(self._target)
        if fingerprint(path) != self.wanted.fingerprint:
            raise LocalragError(
                f"The model {self.wanted.name} arrived as a different model.", f"Remove {self._target} and start the worker again."
            )
        return path

    def discard(self) -> None:
        """Remove the files received so far."""
        shutil.rmtree(self._part, ignore_errors=True)


def dead_parts(folder: Path) -> list[Path]:
    """The folders of incomplete models whose receiving process has ended."""
    numbers = {part: part.name.split(".")[-2] for part in folder.glob("*.*.part")}
    return [part for part, number in numbers.items() if number.isdigit() and not psutil.pid_exists(int(number)) and part.is_dir()]


MESSAGE_CHUNK_BYTES = 64 << 10  # bytes: from 100 KiB on, Ray puts a value into its object store, and that may go to a disk


def pickle_in_chunks(value: Any) -> list[bytes]:
    """A value, pickled and cut into chunks."""
    data = pickle.dumps(value, protocol=5)
    return [data[at : at + MESSAGE_CHUNK_BYTES] for at in range(0, len(data), MESSAGE_CHUNK_BYTES)]


class RayWorkerActor:
    """The Ray actor that runs tasks. Messages over 64 KiB are sent in chunks, so that Ray never stores them."""

    def __init__(self) -> None:
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1)
        os.dup2(silent, 2)
        set_oom_score(500)
        self._incoming: defaultdict[int, list[bytes]] = defaultdict(list)
        self._outgoing: dict[int, list[bytes]] = {}
        self._running: dict[int, asyncio.Task[Any]] = {}
        self._runner: TaskRunner | None = None
        self._tools: Any = None
        self._paths: dict[str, Path] = {}
        self._arriving: dict[str, IncomingModel] = {}

    async def software_info(self) -> dict[str, Any]:
        """Versions of the software here, in plain values, which any other version can read."""
        return {
            "software": software_versions(),
            "time": time.time(),
            "host": platform.node(),
            "cores": available_cores(),
            "pid": os.getpid(),
        }

    async def receive_chunk(self, number: int, piece: bytes) -> None:
        """Receive the next chunk of a request."""
        self._incoming[number].append(piece)

    async def request(self, number: int, piece: bytes) -> tuple[bytes, int]:
        """Receive the last chunk of a request; returns the first chunk of the answer, and the number of further ones."""
        try:
            what, value = pickle.loads(b"".join([*self._incoming.pop(number, []), piece]))
            self._running[number] = task = asyncio.ensure_future(getattr(self, f"_{what}")(value))
            answer: Any = await task
        except asyncio.CancelledError:  # the caller has cancelled it
            answer = None
        except Exception as error:  # noqa: BLE001 — sent to the caller, which raises it
            answer = worker_error(error)
        finally:
            self._running.pop(number, None)
        first, *other_chunks = pickle_in_chunks(answer)
        if other_chunks:
            self._outgoing[number] = other_chunks
        return first, len(other_chunks)

    async def next_chunk(self, number: int) -> bytes:
        """The next chunk of an answer."""
        piece = self._outgoing[number].pop(0)
        if not self._outgoing[number]:
            del self._outgoing[number]
        return piece

    async def cancel(self, number: int) -> None:
        """Cancel a request and drop its answer."""
        self._incoming.pop(number, None)
        self._outgoing.pop(number, None)
        if task := self._running.get(number):
            task.cancel()

    async def receive_model_chunk(self, fingerprint: str, name: str, at: int, piece: bytes) -> LocalragError | None:
        """Receive a chunk of a model file, which may go through Ray's object store."""
        try:
            self._arriving[fingerprint].write_chunk(name, at, piece)
        except Exception as error:  # noqa: BLE001 — as above
            return worker_error(error)
        return None

    async def _has(self, wanted: ModelManifest) -> bool:
        """Whether a model is on this machine; if not, get ready to receive it. Raises LocalragError."""
        if path := find_model(wanted):
            self._paths[wanted.kind] = path
            return True
        self._arriving[wanted.fingerprint] = IncomingModel(wanted)
        return False

    async def _seal(self, value: tuple[str, dict[str, str]]) -> None:
        fingerprint, digests = value
        arriving = self._arriving.pop(fingerprint)
        self._paths[arriving.wanted.kind] = arriving.verify(digests)

    async def _open(self, config: Any) -> None:
        if self._runner is not None:
            self._runner.close()
        self._tools = config.with_files(self._paths).open(None)
        self._runner = TaskRunner(self._tools)

    async def _layout(self, _: None) -> str:
        return await engine_layout(self._tools)

    async def _probe(self, asks: bool) -> str:
        return await numerics_class(self._tools, asks=asks)

    async def _do(self, request: Any) -> Any:
        assert self._runner is not None
        return await self._runner.run_task(request)

    async def _facts(self, _: None) -> dict[str, Any]:
        assert self._runner is not None
        return await self._runner.engine_limits()


GONE = "its process or its machine is gone"


class RayWorker(Worker):
    """A worker on another machine."""

    def __init__(self, name: str, node: dict[str, Any], gpus: int, prepare: Callable[["RayWorker"], Awaitable[None]],
                 cluster_ended: asyncio.Event, *, asks: bool, noted: bool) -> None:  # fmt: skip
        """`prepare` makes it ready for tasks; `asks`: it has the chat model; `noted`: its numerics class is stored with its replies."""
        self.name, self.has_llm = name, asks
        self._prepare, self._cluster_ended, self._noted = prepare, cluster_ended, noted
        self.lost = asyncio.Event()
        self._node, self._gpus = node, gpus
        self._numbers = count(1)
        self._actor: Any = None

    async def start(self) -> None:
        """Ask Ray for the actor, on its machine only, and prepare it. Raises WorkerLost, and LocalragError if it must not work.

        No retries by Ray: the scheduler knows what remains to be done.
        """
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        share = self._node["Resources"][RAY_RESOURCE] / max(1, self._gpus)
        self._actor = (
            ray.remote(max_restarts=0, max_task_retries=0)(RayWorkerActor)
            .options(
                num_cpus=0,
                num_gpus=min(1, self._gpus),
                resources={RAY_RESOURCE: int(share * 10_000) / 10_000},
                max_concurrency=1000,
                scheduling_strategy=NodeAffinitySchedulingStrategy(self._node["NodeID"], soft=False),
            )
            .remote()
        )
        await self._prepare(self)

    async def ended(self) -> str:
        """The reason why it has ended, once it has."""
        await self.lost.wait()
        return GONE

    async def software_info(self) -> dict[str, Any]:
        """The software versions there. Raises WorkerLost."""
        return dict(await self._told(self._actor.software_info.remote()))

    async def run_task(self, request: TaskRequest) -> TaskResult:
        """Run a task and return its result, with the numerics class of new replies if it is noted. Raises WorkerLost."""
        result = await super().run_task(request)
        if not self._noted:
            return result
        return replace(result, new_calls=tuple(replace(call, numerics=self.numerics) for call in result.new_calls))

    async def send_model(self, wanted: ModelManifest) -> bool:
        """Send a model if its machine does not have it; returns whether it was. Raises WorkerLost, LocalragError if its disk is full."""
        if await self.ask("has", wanted):
            return False
        digests: dict[str, Any] = {}
        for name, at, piece in wanted.pieces():
            digests.setdefault(name, sha256()).update(piece)
            if error := await self._told(self._actor.receive_model_chunk.remote(wanted.fingerprint, name, at, piece)):
                raise error
        await self.ask("seal", (wanted.fingerprint, {name: digest.hexdigest() for name, digest in digests.items()}))
        return True

    async def ask(self, what: str, value: Any) -> Any:
        """Send a request and return the answer. Raises WorkerLost, and the LocalragError that the worker answers."""
        number, (*other_chunks, last) = next(self._numbers), pickle_in_chunks((what, value))
        try:
            for piece in other_chunks:
                await self._told(self._actor.receive_chunk.remote(number, piece))
            chunk, more = await self._told(self._actor.request.remote(number, last))
            for _ in range(more):
                chunk += await self._told(self._actor.next_chunk.remote(number))
        except asyncio.CancelledError:
            with suppress(Exception):
                self._actor.cancel.remote(number)
            raise
        answer = pickle.loads(chunk)
        if isinstance(answer, LocalragError):
            raise answer
        return answer

    async def _told(self, reference: Any) -> Any:
        from ray.exceptions import RayError

        try:
            return await reference
        except (RayError, ConnectionError, RuntimeError) as error:
            self.lost.set()
            raise WorkerLost(GONE) from error

    def close(self) -> None:
        """End its process."""
        import ray

        self.lost.set()
        if self._actor is not None and not self._cluster_ended.is_set():
            with suppress(Exception):  # it may have ended, and Ray with it
                ray.kill(self._actor, no_restart=True)
