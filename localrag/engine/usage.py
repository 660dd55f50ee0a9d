"""What an engine did: tokens, steps, seconds and waiting, in all and by task."""

from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class TaskFigures:
    """One task's requests. `seconds` and `waits` hold the last thousand."""

    requests: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    forced_tokens: int = 0
    drafted_tokens: int = 0
    seconds: deque[float] = field(default_factory=lambda: deque(maxlen=1000))
    waits: deque[float] = field(default_factory=lambda: deque(maxlen=1000))

    def to_json(self) -> dict[str, Any]:
        """Counts, and the median and 95th percentile of seconds from asking to the answer and of waiting for a slot."""
        counts = {name: getattr(self, name) for name in self.__slots__ if name.endswith("tokens") or name == "requests"}
        return counts | {
            "p50_s": percentile(self.seconds, 50),
            "p95_s": percentile(self.seconds, 95),
            "wait_p50_s": percentile(self.waits, 50),
            "wait_p95_s": percentile(self.waits, 95),
        }


@dataclass(slots=True)
class Figures:
    """Totals of an engine's life, and the tasks. A reading step is a piece of one prompt, a writing step some rows of all sequences."""

    steps: int = 0
    rows: int = 0
    read_tokens: int = 0
    read_seconds: float = 0.0
    written_tokens: int = 0
    write_steps: int = 0
    write_seconds: float = 0.0
    busy_slots: int = 0
    seconds: float = 0.0  # while there was something to do
    tasks: dict[str, TaskFigures] = field(default_factory=lambda: defaultdict(TaskFigures))

    def to_json(self, slots: int) -> dict[str, Any]:
        """Rates, shares and the tasks' figures."""
        computing = self.read_seconds + self.write_seconds
        return {
            "steps": self.steps,
            "rows": self.rows,
            "prefill_tokens_per_s": _rate(self.read_tokens, self.read_seconds),
            "decode_tokens_per_s": _rate(self.written_tokens, self.write_seconds),
            "slot_use": round(self.busy_slots / max(1, self.write_steps * slots), 3),
            "seconds": round(self.seconds, 2),
            "host_share": round(1 - computing / self.seconds, 4) if self.seconds else 0.0,
            "tasks": {name: task.to_json() for name, task in sorted(self.tasks.items())},
        }


def percentile(values: deque[float], percent: int) -> float:
    """The value that `percent` in a hundred do not pass; 0.0 for none."""
    ordered = sorted(values)
    return round(ordered[min(len(ordered) - 1, len(ordered) * percent // 100)], 3) if ordered else 0.0


def _rate(count: int, seconds: float) -> float:
    return round(count / seconds, 1) if seconds else 0.0
