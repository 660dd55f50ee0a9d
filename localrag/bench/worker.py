"""The process that measures one model: takes a task on stdin, answers with lines of JSON on stdout. Its peak memory is the model's."""

import json
import os
import sys
import time
from typing import Any, TextIO

from localrag.bench.measure import Task, measure, prepare
from localrag.errors import LocalragError, kind_and_place

EVERY = 0.2  # seconds between lines of progress


def main() -> None:
    """Read `{"do": "prepare" | "measure", "task": {…}}`; write progress, then `{"result": …}` or `{"error": …, "hint": …}`."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a library prints is no answer
    request = json.load(sys.stdin)
    task, tell = Task(**request["task"]), _Teller(answers)
    try:
        result = prepare(task, tell.say) if request["do"] == "prepare" else measure(task, tell)
        tell.write({"result": result})
    except LocalragError as error:
        tell.write({"error": str(error), "hint": error.hint})
    except Exception as error:  # noqa: BLE001 — whatever ends a model's measuring is its row's reason
        tell.write({"error": f"something unexpected happened: {kind_and_place(error)}", "hint": ""})


class _Teller:
    """Writes lines; progress at most every EVERY seconds."""

    def __init__(self, answers: TextIO) -> None:
        self._answers, self._spoke, self._stage = answers, 0.0, ""

    def write(self, value: dict[str, Any]) -> None:
        self._answers.write(json.dumps(value, ensure_ascii=False) + "\n")
        self._answers.flush()

    def say(self, text: str) -> None:
        self.write({"say": text})

    def __call__(self, stage: str, done: int, total: int) -> None:
        if stage != self._stage or time.monotonic() - self._spoke > EVERY:
            self._stage, self._spoke = stage, time.monotonic()
            self.write({"stage": stage, "done": done, "total": total, "pid": os.getpid()})


if __name__ == "__main__":
    main()
