"""Requests and generations, the sequence in progress, prompt lookup, metrics."""

import asyncio
import codecs
import time
from collections import defaultdict, deque
from collections.abc import Callable
from collections.abc import Sequence as Seq
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from localrag.engine.sampler import GREEDY, Grammar, GrammarMatcher, Sampler, Sampling

WINDOW_MARGIN = 32  # KV cells beyond a sequence's own that a step may use
BatchRow = tuple[int, int, int, bool]  # token, position, slot, wants logits


@dataclass(frozen=True, slots=True)
class Request:
    """A prompt, or an earlier generation, to continue: its KV is reused. A `task` has prompts with a shared prefix, and similar answers."""

    token_ids: tuple[int, ...]
    max_tokens: int
    grammar: Grammar | None = None
    sampling: Sampling = GREEDY
    priority: int = 0
    on_text: Callable[[str], None] | None = None  # called on the event loop with each new part of the text
    task: str = ""
    messages: tuple[dict[str, str], ...] = ()  # the conversation behind `token_ids`, for a model server


@dataclass(frozen=True, slots=True)
class Generation:
    """The result of a request. `is_complete` is False if `max_tokens` cut it off; `token_ids` is the whole sequence, for a continuation."""

    text: str
    is_complete: bool
    token_ids: tuple[int, ...]
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    forced_tokens: int
    seconds: float
    dropped_rows: int = 0  # rows of a server's answer that the grammar does not allow


MAX_DRAFT = 15  # tokens drafted, and verified in one step, at most
MAX_DRAFT_FROM_ONE_TOKEN = 2  # tokens drafted after a single known token


class PromptLookup:
    """Drafts what followed the last tokens before (prompt lookup decoding, Saxena 2023): extraction copies much of its prompt."""

    def __init__(self) -> None:
        self._after: dict[tuple[int, ...], int] = {}
        self._seen = 0

    def propose(self, token_ids: Seq[int]) -> list[int]:
        """The tokens that followed the last occurrence of the final three, two or one tokens of `token_ids`; empty if there is none.

        Call it with the same sequence as it grows. On JSON answers the first drafted token is accepted in 8 of 10 cases after a known
        triple, in 4 of 10 after a pair or a single token: worth a row that would be padding otherwise.
        """
        after, end = self._after, len(token_ids)
        for i in range(max(1, self._seen), end):  # the last tokens have no successor yet
            for n in range(1, min(3, i) + 1):
                after[tuple(token_ids[i - n : i])] = i
        self._seen = max(self._seen, end)
        for n in (3, 2, 1):
            if position := after.get(tuple(token_ids[-n:])):
                return list(token_ids[position : position + (MAX_DRAFT if n > 1 else MAX_DRAFT_FROM_ONE_TOKEN)])
        return []


@dataclass(eq=False, slots=True)
class Sequence:
    """A request in the engine: `token_ids[:n_computed]` are in the KV cache of `slot`; `draft` are proposed next tokens."""

    request: Request
    loop: asyncio.AbstractEventLoop | None = None
    future: "asyncio.Future[Generation] | None" = None
    # Scheduling
    token_ids: list[int] = field(init=False)
    arrival_order: int = 0
    n_computed: int = 0
    slot: int | None = None
    n_generated: int = 0
    draft: list[int] = field(default_factory=list)
    acceptance_rate: float = 0.6  # moving average of accepted draft tokens
    prefill_boundary: int = 0  # a prefill chunk ends here, so that the KV state of the prefix can be saved
    is_cancelled: bool = False
    # Generation
    sampler: Sampler | None = None
    constraint: GrammarMatcher | None = None
    lookup: PromptLookup = field(default_factory=PromptLookup)
    decoder: codecs.IncrementalDecoder = field(default_factory=lambda: codecs.getincrementaldecoder("utf-8")("replace"))
    text: str = ""
    n_forced: int = 0
    n_cached: int = 0
    submitted_at: float = field(default_factory=time.perf_counter)
    has_started: bool = False  # it has had a slot

    def __post_init__(self) -> None:
        self.token_ids = list(self.request.token_ids)

    @property
    def n_pending(self) -> int:
        """Known tokens that are not computed yet."""
        return len(self.token_ids) - self.n_computed

    @property
    def n_to_boundary(self) -> int:
        """Tokens up to the boundary at which a prefill chunk must end; without one, the length of the sequence."""
        remaining = self.prefill_boundary - self.n_computed
        return remaining if remaining > 0 else len(self.token_ids)

    def append(self, tokens: Seq[int]) -> None:
        """Add generated tokens: the sampled one and those the grammar forced after it."""
        self.token_ids.extend(tokens)
        self.n_generated += len(tokens)

    def expected_accepted(self, rows: int) -> float:
        """Expected number of accepted tokens in a step of `rows` rows."""
        n_known = min(rows, self.n_pending)
        drafted = min(rows - n_known, len(self.draft)) if n_known == self.n_pending else 0
        return n_known + (self.acceptance_rate * (1 - self.acceptance_rate**drafted) / (1 - self.acceptance_rate) if drafted else 0.0)

    def emit(self, data: bytes) -> None:
        """Add bytes to the text, and pass new text to the caller's `on_text`."""
        new = self.decoder.decode(data)
        self.text += new
        if new and self.request.on_text:
            self._call_soon(self.request.on_text, new)

    def resolve(self, result: Generation | Exception) -> None:
        """Give the caller the result or the error, unless they cancelled meanwhile."""
        self._call_soon(self._settle, result)

    def _settle(self, result: Generation | Exception) -> None:
        if self.future is None or self.future.done():
            return
        if isinstance(result, Exception):
            self.future.set_exception(result)
        else:
            self.future.set_result(result)

    def _call_soon(self, callback: Callable[..., None], value: Any) -> None:
        with suppress(RuntimeError):
            if self.loop:
                self.loop.call_soon_threadsafe(callback, value)


def common_prefix_length(a: Seq[int], b: Seq[int]) -> int:
    """Number of tokens that two sequences share from the start."""
    n = min(len(a), len(b))
    if a[:n] == b[:n]:
        return n
    low, high = 0, n  # the first difference lies in [low, high)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if a[low:middle] == b[low:middle] else (low, middle)
    return low


@dataclass(slots=True)
class TaskMetrics:
    """Metrics of one task's requests. `seconds` holds those of the last thousand."""

    requests: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    forced_tokens: int = 0
    drafted_tokens: int = 0
    seconds: deque[float] = field(default_factory=lambda: deque(maxlen=1000))

    def count(self, prompt: int, cached: int, output: int, forced: int, *, seconds: float) -> None:
        """Count a request with its tokens."""
        self.requests += 1
        self.prompt_tokens += prompt
        self.cached_tokens += cached
        self.output_tokens += output
        self.forced_tokens += forced
        self.seconds.append(seconds)

    def to_json(self) -> dict[str, Any]:
        """Counts, and median and 95th percentile of the seconds from submission to the answer."""
        counts = {name: getattr(self, name) for name in self.__slots__ if name.endswith("tokens") or name == "requests"}
        return counts | {
            "p50_s": percentile(self.seconds, 50),
            "p95_s": percentile(self.seconds, 95),
        }


@dataclass(slots=True)
class EngineMetrics:
    """Totals since the engine's start, and metrics by task. A prefill step is a chunk of one prompt; a decode step has rows of all."""

    steps: int = 0
    rows: int = 0
    prefill_tokens: int = 0
    prefill_seconds: float = 0.0
    decode_tokens: int = 0
    decode_steps: int = 0
    decode_seconds: float = 0.0
    busy_slots: int = 0
    seconds: float = 0.0  # while not idle
    tasks: dict[str, TaskMetrics] = field(default_factory=lambda: defaultdict(TaskMetrics))

    def to_json(self, slots: int) -> dict[str, Any]:
        """Rates, shares and the tasks' metrics."""
        computing = self.prefill_seconds + self.decode_seconds
        return {
            "steps": self.steps,
            "rows": self.rows,
            "prefill_tokens_per_s": _rate(self.prefill_tokens, self.prefill_seconds),
            "decode_tokens_per_s": _rate(self.decode_tokens, self.decode_seconds),
            "slot_use": round(self.busy_slots / max(1, self.decode_steps * slots), 3),
            "seconds": round(self.seconds, 2),
            "host_share": round(1 - computing / self.seconds, 4) if self.seconds else 0.0,
            "tasks": {name: task.to_json() for name, task in sorted(self.tasks.items())},
        }


def percentile(values: deque[float], percent: int) -> float:
    """The value that `percent` of a hundred values do not exceed; 0.0 for no values."""
    ordered = sorted(values)
    return round(ordered[min(len(ordered) - 1, len(ordered) * percent // 100)], 3) if ordered else 0.0


def _rate(count: int, seconds: float) -> float:
    return round(count / seconds, 1) if seconds else 0.0
