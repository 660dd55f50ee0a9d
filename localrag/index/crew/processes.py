"""Workers that are processes on this machine. What is said goes through their standard input and output, as pickled values with lengths.

Only a process and the one that started it speak so: neither opens what anybody else could write to.
"""

import asyncio
import os
import pickle
import signal
import struct
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import IO, Any, BinaryIO, Protocol

from localrag.engine.hardware.trial import why_it_ended
from localrag.engine.settings import EngineOptions
from localrag.errors import LocalragError, kind_and_place
from localrag.index.crew.kit import Workshop
from localrag.index.crew.parcel import Bundle, Parcel, WorkerLost
from localrag.index.jobs import UNIT, Tools

_LENGTH = struct.Struct("<Q")


class Opens(Protocol):
    """What a worker is sent to begin with: `Kit`."""

    @property
    def options(self) -> EngineOptions:
        """How its engine is set up."""

    def open(self, options: EngineOptions | None = None) -> Tools:
        """What it works with."""


class ProcessWorker:
    """A worker in a process of its own. `start` it in an event loop; `close` ends it at once, and so does the end of this process."""

    arithmetic = ""  # this machine's own

    def __init__(
        self,
        name: str,
        kit: Opens,
        *,
        asks: bool,
        place: str,
        say: Callable[[str], None],
        environment: dict[str, str] | None = None,
        only_asks: bool = False,
    ) -> None:
        self.name, self.asks, self.only_asks, self.place, self.room = name, asks, only_asks, place, UNIT + 1
        self._say = say
        self.worked = False  # whether it has done anything
        self._kit, self._environment = kit, environment or {}
        self._numbers = count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._noise: IO[bytes] | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._listening: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int:
        """The process."""
        assert self._process is not None
        return self._process.pid

    async def start(self) -> None:
        """Begin; models are loaded when a job needs them. Raises WorkerLost where it ends before it can do anything."""
        self._noise = tempfile.TemporaryFile()  # noqa: SIM115 — open for as long as the process writes to it
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "localrag.index.crew.processes",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=self._noise,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)} | self._environment,
        )
        self._write(0, "kit", self._kit)
        self._listening = asyncio.create_task(self._listen())
        await self._ask("ready", None)

    async def do(self, parcel: Parcel) -> Bundle:
        """What comes of a parcel. Raises WorkerLost."""
        found = await self._ask("do", parcel)
        assert isinstance(found, Bundle)
        self.worked = True
        return found

    async def facts(self) -> dict[str, Any]:
        """What its engine can do. Raises WorkerLost, ModelError."""
        return dict(await self._ask("facts", None))

    async def _ask(self, what: str, value: Any) -> Any:
        number, answer = next(self._numbers), asyncio.get_running_loop().create_future()
        if self._listening is None or self._listening.done():
            raise WorkerLost("its process has ended")
        self._waiting[number] = answer
        self._write(number, what, value)
        try:
            found = await answer
        except asyncio.CancelledError:
            with suppress(WorkerLost):
                self._write(number, "stop", None)
            raise
        finally:
            self._waiting.pop(number, None)
        if isinstance(found, LocalragError):
            raise found
        return found

    def _write(self, number: int, what: str, value: Any) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(_packed((number, what, value)))  # a pipe to a process that ended swallows it; `_listen` says so

    async def _listen(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        stream = self._process.stdout
        with suppress(asyncio.IncompleteReadError, OSError):
            while True:
                (length,) = _LENGTH.unpack(await stream.readexactly(_LENGTH.size))
                number, value = pickle.loads(await stream.readexactly(length))
                if number == 0:
                    self._say(value)
                elif (answer := self._waiting.get(number)) and not answer.done():
                    answer.set_result(value)
        code = await self._process.wait()
        assert self._noise is not None
        lost = WorkerLost(why_it_ended(code, self._noise))
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(lost)

    async def ended(self) -> None:
        """Return when its process has ended."""
        if self._listening is not None:
            await asyncio.wait([self._listening])

    def close(self) -> None:
        """End its process."""
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.kill()


def _packed(value: Any) -> bytes:
    data = pickle.dumps(value, protocol=5)
    return _LENGTH.pack(len(data)) + data


def main() -> None:
    """The worker: read what is to be done from standard input, write what came of it to standard output."""
    answers, questions = os.fdopen(os.dup(1), "wb"), os.fdopen(os.dup(0), "rb")
    os.dup2(2, 1)  # what a library prints is no answer
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal it goes to all; the one who hands out jobs ends this one
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("500", encoding="ascii")
    _, _, kit = _read(questions)
    asyncio.run(_serve(kit, questions, answers))


def _read(stream: BinaryIO) -> tuple[int, str, Any]:
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        os._exit(0)  # the one who started this is gone: nobody waits
    return pickle.loads(stream.read(_LENGTH.unpack(head)[0]))  # type: ignore[no-any-return]


async def _serve(kit: Opens, questions: BinaryIO, answers: BinaryIO) -> None:
    loop = asyncio.get_running_loop()
    running: dict[int, asyncio.Task[None]] = {}
    writing = threading.Lock()

    def write(number: int, value: Any) -> None:
        with writing:
            answers.write(_packed((number, value)))
            answers.flush()

    shop = Workshop(kit.open(replace(kit.options, say=lambda text: write(0, text))))

    async def one(number: int, what: str, value: Any) -> None:
        try:
            found: Any = await shop.do(value) if what == "do" else await shop.facts() if what == "facts" else None
        except LocalragError as error:
            found = error
        except Exception as error:  # noqa: BLE001 — the one who asked says what went wrong
            found = LocalragError(f"A worker failed: {kind_and_place(error)}.")
        write(number, found)

    def heard(number: int, what: str, value: Any) -> None:
        if what == "stop":
            if task := running.get(number):
                task.cancel()
            return
        running[number] = task = loop.create_task(one(number, what, value))
        task.add_done_callback(lambda _: running.pop(number, None))

    def listen() -> None:
        while True:
            loop.call_soon_threadsafe(heard, *_read(questions))

    threading.Thread(target=listen, daemon=True).start()
    await loop.create_future()


if __name__ == "__main__":
    main()
