"""Trials of native code in a child process, so that the user's process never crashes, hangs or computes wrongly.

A job is a function of `localrag.engine` that takes a `TrialLog` and JSON-ready values, and returns one. The child reports, line by line,
what it tries and the result. If it crashes or hangs, the current trial is rejected and a new child continues with all earlier results.
"""

import importlib
import os
import resource
import signal
from collections.abc import Callable
from contextlib import closing, suppress
from typing import Any

from localrag import errors
from localrag.errors import EngineError, LocalragError, ModelError, NativeTrialFailed, error_location, known_error
from localrag.system.child_process import ChildProcess, ParentConnection, set_oom_score

HANG_TIMEOUT_S = 180.0  # seconds without a message until a child counts as hung; large models get more (`hang_timeout`)
MAX_CHILDREN = 24  # per job
_GIB = 1 << 30
_INTERRUPTED = {-signal.SIGINT, -signal.SIGTERM, -signal.SIGHUP}

TrialResults = dict[str, Any]
OnTrial = Callable[[str, Any], None]


class TrialLog:
    """The child's side: the results of all trials of this job, by this child and earlier ones."""

    def __init__(self, known: TrialResults, write: Callable[[dict[str, Any]], None]) -> None:
        self._known, self._write = known, write

    def run_once(self, name: str, work: Callable[[], Any]) -> Any:
        """The JSON-ready result of `work`, computed once per job. Raises NativeTrialFailed if it failed or crashed a child."""
        if name not in self._known:
            self._write({"trying": name})
            try:
                value = work()
            except (EngineError, NativeTrialFailed) as error:
                value = {"refused": str(error), "passing": False}
            except LocalragError as error:  # for example too little free memory: not caused by the layout
                value = {"refused": str(error), "passing": True}
            self._known[name] = value
            self._write({"tried": name, "value": value})
        if self.is_refused(name):
            raise NativeTrialFailed(self._known[name]["refused"])
        return self._known[name]

    def is_refused(self, name: str) -> bool:
        """Whether this was tried and rejected."""
        value = self._known.get(name)
        return isinstance(value, dict) and "refused" in value


def hang_timeout(size: int) -> float:
    """Seconds without a message until a child that loads a model of `size` bytes counts as hung."""
    return HANG_TIMEOUT_S * (1 + size / _GIB)


def run_in_child(job: str, values: dict[str, Any], known: TrialResults, on_trial: OnTrial, *, seconds: float | None = None) -> Any:
    """The result of a job, `module:function` below localrag.engine.autotune, computed in child processes.

    `known` holds earlier trials and is extended; `on_trial(name, value)` is called for every new one. Raises the job's errors, and
    ModelError if a child ends without naming its trial.
    """
    for _ in range(MAX_CHILDREN):
        message, reason = _child(job, values, known, on_trial, seconds or HANG_TIMEOUT_S)
        if "result" in message:
            return message["result"]
        if "error" in message:
            kind = getattr(errors, message["error"], ModelError)
            raise kind(message["message"], message["hint"])
        trying = message.get("trying")
        if not trying or trying in known:
            raise ModelError(f"The first test of the model in a separate process failed: {reason}.", "Check this machine: localrag doctor")
        known[trying] = {"refused": reason, "passing": False}
        on_trial(trying, known[trying])
    raise ModelError(f"{MAX_CHILDREN} tests of the model each crashed their process.", "Check this machine: localrag doctor")


def _child(job: str, values: dict[str, Any], known: TrialResults, on_trial: OnTrial, seconds: float) -> tuple[dict[str, Any], str]:
    """Run one child to its end: its last message, or its current trial; and why it ended."""
    state: dict[str, Any] = {}
    with closing(ChildProcess("localrag.engine.autotune.trial")) as child:
        try:
            with suppress(OSError):  # it ended at its start: the exit code tells why
                child.send({"job": job, "values": values, "known": known})
            while not {"result", "error"} & state.keys():
                message = child.receive(seconds)
                if "tried" in message:
                    known[message["tried"]] = message["value"]
                    on_trial(message["tried"], message["value"])
                    message = {}
                state = message
            return state, ""
        except TimeoutError:
            return state, f"it did not answer within {seconds:.0f} seconds"
        except EOFError:
            if child.wait() in _INTERRUPTED:
                raise ModelError("Interrupted while the model was being tested.", "Run the same command again.") from None
            return state, child.why_ended()


def main() -> None:
    """Child process: receive `{"job", "values", "known"}`; send `{"trying"}`, `{"tried", "value"}`, finally `{"result"}` or `{"error"}`."""
    parent = ParentConnection()
    _allow_oom_kill()
    request = parent.receive()
    parent.listen()
    try:
        module, _, function = str(request["job"]).partition(":")
        job = getattr(importlib.import_module(f"localrag.engine.autotune.{module}"), function)
        parent.send({"result": job(TrialLog(request["known"], parent.send), **request["values"])})
    except Exception as error:  # noqa: BLE001 — the parent reports the error
        told = known_error(error) or ModelError(f"A first try of the model failed: {error_location(error)}")
        parent.send({"error": type(told).__name__, "message": str(told), "hint": told.hint})
    os._exit(0)  # freeing native memory may crash


def _allow_oom_kill() -> None:
    """Disable core dumps, make this the first process to be killed when memory runs out, and let an interrupt end it inside native code."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    set_oom_score(1000)


if __name__ == "__main__":
    main()
