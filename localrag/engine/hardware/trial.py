"""First tries of native code, in a child process: what dies, hangs or computes wrongly there is never done in the user's process.

A job is a function of `localrag.engine` that takes a `Journal` and JSON-ready values, and returns one. The child tells what it is about to
try and what came of it, line by line. Where it dies or falls silent, what it was trying is refused, and a new child goes on from there:
nothing found before is lost.
"""

import importlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from localrag import errors
from localrag.errors import EngineFailed, LocalragError, ModelError, Refused, kind_and_place

PATIENCE = 180.0  # seconds without a word after which a child counts as hung; large models get more (`patience`)
MOST = 24  # children of one job
_GIB = 1 << 30
_INTERRUPTED = {-signal.SIGINT, -signal.SIGTERM} | ({-signal.SIGHUP} if hasattr(signal, "SIGHUP") else set())

Known = dict[str, Any]
Told = Callable[[str, Any], None]


class Journal:
    """The child's side: what was tried in this job, by this child and those before it."""

    def __init__(self, known: Known, write: Callable[[dict[str, Any]], None]) -> None:
        self._known, self._write = known, write

    def once(self, name: str, work: Callable[[], Any]) -> Any:
        """The JSON-ready result of `work`, computed by whichever child came first. Raises Refused where it failed or a child died of it."""
        if name not in self._known:
            self._write({"trying": name})
            try:
                value = work()
            except (EngineFailed, Refused) as error:
                value = {"refused": str(error), "passing": False}
            except LocalragError as error:  # too little memory at the moment, say: no fault of the layout
                value = {"refused": str(error), "passing": True}
            self._known[name] = value
            self._write({"tried": name, "value": value})
        self.check(name)
        return self._known[name]

    def check(self, name: str) -> None:
        """Do nothing where this was not tried, or tried and found well. Raises Refused."""
        value = self._known.get(name)
        if isinstance(value, dict) and "refused" in value:
            raise Refused(value["refused"])

    def refuse(self, name: str, why: str) -> None:
        """Keep that something does not work here which was found out by another name."""
        self._known[name] = {"refused": why, "passing": False}
        self._write({"tried": name, "value": self._known[name]})

    def refused(self, name: str) -> bool:
        """Whether this was tried and refused."""
        value = self._known.get(name)
        return isinstance(value, dict) and "refused" in value


def patience(size: int) -> float:
    """Seconds without a word after which a child that loads a model of `size` bytes counts as hung."""
    return PATIENCE * (1 + size / _GIB)


def apart(job: str, values: dict[str, Any], known: Known, told: Told, *, seconds: float | None = None) -> Any:
    """The result of a job, `module:function` below localrag.engine, computed in child processes.

    `known` holds what was tried before and grows; `told(name, value)` hears of every new entry at once. Raises what the job raises, and
    ModelError where a child ends without a word of what it tried.
    """
    for _ in range(MOST):
        said, why = _child(job, values, known, told, seconds or PATIENCE)
        if "result" in said:
            return said["result"]
        if "error" in said:
            kind = getattr(errors, said["error"], ModelError)
            raise kind(said["message"], said["hint"])
        trying = said.get("trying")
        if not trying or trying in known:
            raise ModelError(f"A first try of the model in a process of its own failed: {why}.", "Look at this machine: localrag doctor")
        known[trying] = {"refused": why, "passing": False}
        told(trying, known[trying])
    raise ModelError(f"{MOST} first tries of the model each ended their process.", "Look at this machine: localrag doctor")


def _child(job: str, values: dict[str, Any], known: Known, told: Told, seconds: float) -> tuple[dict[str, Any], str]:
    """Run one child to its end: its last line, or what it was trying; and why it ended."""
    lines: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
    state: dict[str, Any] = {}
    with tempfile.TemporaryFile() as noise:
        process = subprocess.Popen(
            [sys.executable, "-m", "localrag.engine.hardware.trial"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=noise,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        )
        assert process.stdin is not None and process.stdout is not None
        try:
            with suppress(BrokenPipeError):  # it died at its start: its exit code says so
                process.stdin.write(json.dumps({"job": job, "values": values, "known": known}).encode() + b"\n")
                process.stdin.flush()
            threading.Thread(target=_read, args=(process.stdout, lines), daemon=True).start()
            while line := lines.get(timeout=seconds):
                if "tried" in line:
                    known[line["tried"]] = line["value"]
                    told(line["tried"], line["value"])
                    state = {}
                else:
                    state = line
            code = process.wait(seconds)
        except (queue.Empty, subprocess.TimeoutExpired):
            return state, f"it did not answer within {seconds:.0f} seconds"
        finally:
            process.kill()
            with suppress(BrokenPipeError):
                process.stdin.close()
            process.wait()
        if code in _INTERRUPTED:
            raise ModelError("Interrupted while the model was being tried.", "Run the same command again.")
        return state, why_it_ended(code, noise)


def _read(stream: IO[bytes], lines: "queue.SimpleQueue[dict[str, Any] | None]") -> None:
    for line in stream:
        with suppress(ValueError):  # half a line of a process that died
            lines.put(json.loads(line))
    lines.put(None)


def why_it_ended(code: int, noise: IO[bytes]) -> str:
    """What a process died of, from its exit code and what it wrote to stderr."""
    noise.seek(0)
    said = [line.strip() for line in noise.read().decode(errors="replace").splitlines()]
    reason = next((f": {line[:200]}" for line in reversed(said) if "GGML_ASSERT" in line or "error" in line.lower()), "")
    if code == -9:
        return "its process was killed, most likely because the memory ran out"
    if code < 0:
        with suppress(ValueError):
            return f"it ended its process by {signal.Signals(-code).name}{reason}"
    return f"its process ended with code {code}{reason}"


def main() -> None:
    """The child: read `{"job", "values", "known"}`; write `{"trying"}`, `{"tried", "value"}`, at the end `{"result"}` or `{"error"}`."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a library prints is no answer
    _be_expendable()
    request = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=_end_with_parent, daemon=True).start()

    def write(value: dict[str, Any]) -> None:
        answers.write(json.dumps(value) + "\n")
        answers.flush()

    try:
        module, _, function = str(request["job"]).partition(":")
        job = getattr(importlib.import_module(f"localrag.engine.hardware.{module}"), function)
        write({"result": job(Journal(request["known"], write), **request["values"])})
    except LocalragError as error:
        write({"error": type(error).__name__, "message": str(error), "hint": error.hint})
    except Exception as error:  # noqa: BLE001 — the parent says what went wrong
        write({"error": "ModelError", "message": f"A first try of the model failed: {kind_and_place(error)}", "hint": ""})
    answers.flush()
    os._exit(0)  # freeing what native code left behind may end the process after all


def _be_expendable() -> None:
    """No core dumps; the first to be killed where memory runs out; an interrupt ends it at once, also inside native code."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    with suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def _end_with_parent() -> None:
    """The parent holds the other end of stdin: once it is gone, nobody waits for this process."""
    while os.read(0, 4096):
        continue
    os._exit(1)


if __name__ == "__main__":
    main()
