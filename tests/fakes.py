"""A backend without a model: its logits depend on the whole sequence, and it refuses what llama.cpp would refuse."""

import asyncio
import time
import zlib
from collections import Counter

import numpy as np

from localrag.engine.request import EngineMetrics, Generation
from localrag.engine.settings import EngineSettings
from localrag.errors import ContextTooSmall, EngineError

VOCABULARY = 64
END = 0
MARGIN = 32


def tokens(text):
    return [1 + ord(c) % (VOCABULARY - 1) for c in text]


def inconsistencies(engine):
    """Errors in the bookkeeping of an idle engine, such as slots without a caller; empty if it is consistent."""
    held = [f"slot {i} is held" for i, s in enumerate(engine.slots._slots) if s.sequence is not None]
    waiting = [s for *_, s in engine.slots._waiting if not s.is_cancelled]
    return held + [f"{len(waiting)} sequences wait"] * bool(waiting) + [f"{len(engine._sequences)} are kept"] * bool(engine._sequences)


class FakeChat:
    def encode(self, messages):
        return tuple(tokens("".join(f"<{m['role']}>{m['content']}" for m in messages) + "<assistant>"))


class FakeLlama:
    """Tokens are characters; the next token is a hash of the sequence and of how each cell was computed (alone or in company).

    `memory`: only so many of the last cells count, so that texts repeat themselves and guesses come true.
    """

    def __init__(
        self,
        slots: int = 4,
        n_ctx: int = 256,
        *,
        can_truncate: bool = True,
        fail_on: int | None = None,
        seconds: float = 0,
        memory: int = 10_000,
        prefix_folder=None,
        **settings,
    ) -> None:
        self.settings = EngineSettings(slots=slots, **settings)
        self.n_ctx, self.can_truncate = n_ctx, can_truncate
        self.end_tokens = frozenset({END})
        self.parameters = 1
        self.chat = FakeChat()
        self.memory = memory
        self.prefix_folder = prefix_folder
        self.fail_on = fail_on
        self.seconds = seconds  # of one step
        self.steps: list[list[tuple[int, int]]] = []  # per step: (slot, rows)
        self.computed_rows = self.resets = self.loads = 0
        self.closed = False
        self.kv: list[list[tuple[int, str]]] = []
        self.reset()
        self.resets = 0

    def tokenize(self, text):
        return tokens(text)

    def token_to_piece(self, token):
        return bytes([97 + token % 26])

    def grammar_tokenizer(self):
        raise AssertionError("the fake follows no grammar")

    def decode(self, rows):
        if self.fail_on is not None and any(token == self.fail_on for token, *_ in rows):
            self.kv = [[(-1, "lost")] for _ in self.kv]
            raise EngineError("the fake was told to fail")
        time.sleep(self.seconds)
        per_slot: dict[int, int] = {}
        for _, _, slot, _ in rows:
            per_slot[slot] = per_slot.get(slot, 0) + 1
        assert list(per_slot) == sorted(per_slot), "rows must be in ascending order of slots"
        assert len(set(per_slot.values())) == 1, "every slot must have the same number of rows"
        assert len(rows) % self.settings.row_multiple == 0 or not self.can_truncate, "rows must come in multiples"
        logits = []
        for token, position, slot, wanted in rows:
            assert position == len(self.kv[slot]), f"slot {slot} holds {len(self.kv[slot])} cells, the row is for {position}"
            assert position < self.n_ctx + MARGIN
            alone = per_slot[slot] < self.settings.min_rows and self.can_truncate
            self.kv[slot].append((token, "alone" if alone else "read"))
            if wanted:
                logits.append(self._logits(slot))
        self.steps.append(sorted(per_slot.items()))
        self.computed_rows += len(rows)
        return np.array(logits, np.float32).reshape(len(logits), VOCABULARY)

    def _logits(self, slot: int) -> np.ndarray:
        seed = zlib.crc32(repr(self.kv[slot][-self.memory :]).encode())
        return np.random.default_rng(seed).random(VOCABULARY).astype(np.float32)

    def copy_prefix(self, source, target, length):
        self.kv[target] = list(self.kv[source][:length])
        assert self.can_truncate or length == len(self.kv[source])

    def truncate(self, sequence, length):
        if length and length < len(self.kv[sequence]):
            assert self.can_truncate, "this model's state cannot be cut"
        del self.kv[sequence][length:]

    def save_state(self, sequence, path, cells):
        assert [token for token, _ in self.kv[sequence]] == list(cells), "a kept beginning holds just its cells"
        path.write_text(repr(self.kv[sequence]))
        return True

    def load_state(self, sequence, path, cells):
        self.loads += 1
        self.kv[sequence] = [(token, "read") for token in cells]
        if path.read_text() == repr(self.kv[sequence]):
            return True
        self.kv[sequence] = []
        return False

    def reset(self):
        self.kv = [[] for _ in range(self.settings.slots)]
        self.resets += 1

    def close(self):
        self.closed = True


SPEED = None  # tokens per second that such an engine is taken to read; None: it takes no time


class Scripted:
    """An engine that says what a test wants: `says(request)` gives the JSON value of an answer, a text that is cut off, or an error.

    Requests that need more than `window` tokens, four characters each, are refused as an engine would.
    """

    def __init__(self, says, *, window: int = 4096, at_once: int = 8, seconds: float = 0) -> None:
        self.says, self.window, self.parallel_requests, self.seconds = says, window, at_once, seconds
        self.parameters = None  # as of a server that does not tell
        self.figures = EngineMetrics()
        self.requests: list = []
        self.under_way: Counter[str] = Counter()
        self.most_of: Counter[str] = Counter()  # per task: requests under way at once

    async def generate(self, request):
        self.requests.append(request)
        needed = sum(len(m["content"]) for m in request.messages) // 4 + request.max_tokens
        if needed > self.window:
            raise ContextTooSmall(f"needs {needed} of {self.window} tokens", left=self.window - needed + request.max_tokens)
        self.under_way[request.task] += 1
        self.most_of[request.task] = max(self.most_of[request.task], self.under_way[request.task])
        await asyncio.sleep(self.seconds)
        self.under_way[request.task] -= 1
        said = self.says(request)
        if isinstance(said, Exception):
            raise said
        if isinstance(said, CutOff):
            return Generation(str(said), False, (), 9, 0, 9, 0, 0.0)
        text = "".join(request.grammar.from_json(said)) if request.grammar and request.grammar.from_json else said
        return Generation(text, True, (), 9, 0, 9, 0, 0.0)

    @property
    def tasks(self) -> list[str]:
        return [r.task for r in self.requests]

    def metrics(self):
        return self.figures.to_json(self.parallel_requests)

    def close(self):
        pass


def answered_by(project, engine):
    """The engine, which from now on answers what the project's model is asked."""
    project.model._engine = engine
    project.model.prefill_speed = lambda: SPEED
    return engine


class CutOff(str):
    """A text that the token limit cut off."""

    __slots__ = ()


def example(schema):
    """The least that a schema allows."""
    if "enum" in schema:
        return schema["enum"][0]
    if schema["type"] == "object":
        return {name: example(part) for name, part in schema["properties"].items()}
    if schema["type"] == "array":
        return [example(schema["items"])] * max(1, schema.get("minItems", 1))
    return schema.get("maximum", 1) if schema["type"] == "integer" else "The Skua is a ferry."
