"""A backend without a model: its logits depend on the whole sequence, and it refuses what llama.cpp would refuse."""

import time
import zlib

import numpy as np

from localrag.errors import EngineFailed

VOCABULARY = 64
END = 0


class FakeChat:
    def render(self, messages):
        return "".join(f"<{m['role']}>{m['content']}" for m in messages) + "<assistant>"


class FakeLlama:
    """Tokens are characters; the next token is a hash of the sequence and of how each cell was computed (alone or in company)."""

    def __init__(
        self, slots: int = 4, n_ctx: int = 256, *, can_truncate: bool = True, fail_on: int | None = None, seconds: float = 0
    ) -> None:
        self.slots, self.n_ctx, self.can_truncate = slots, n_ctx, can_truncate
        self.end_tokens = frozenset({END})
        self.parameters = 1
        self.chat = FakeChat()
        self.kv: list[list[tuple[int, str]]] = [[] for _ in range(slots)]
        self.steps: list[list[tuple[int, int]]] = []  # per step: (slot, rows)
        self.computed_rows = 0
        self.fail_on = fail_on
        self.seconds = seconds  # of one step
        self.closed = False

    def tokenize(self, text, *, special=False, start=False):
        return [1 + ord(c) % (VOCABULARY - 1) for c in text]

    def piece(self, token):
        return bytes([97 + token % 26])

    def grammar_tokenizer(self):
        raise AssertionError("the fake follows no grammar")

    def decode(self, rows):
        if self.fail_on is not None and any(token == self.fail_on for token, *_ in rows):
            raise EngineFailed("the fake was told to fail")
        time.sleep(self.seconds)
        per_slot: dict[int, int] = {}
        for _, _, slot, _ in rows:
            per_slot[slot] = per_slot.get(slot, 0) + 1
        assert list(per_slot) == sorted(per_slot), "rows must be in ascending order of slots"
        assert len(set(per_slot.values())) == 1, "every slot must have the same number of rows"
        logits = []
        for token, position, slot, wanted in rows:
            assert position == len(self.kv[slot]), f"slot {slot} holds {len(self.kv[slot])} cells, the row is for {position}"
            self.kv[slot].append((token, "alone" if per_slot[slot] == 1 else "read"))
            if wanted:
                logits.append(self._logits(slot))
        self.steps.append(sorted(per_slot.items()))
        self.computed_rows += len(rows)
        return np.array(logits, np.float32).reshape(len(logits), VOCABULARY)

    def _logits(self, slot: int) -> np.ndarray:
        seed = zlib.crc32(repr(self.kv[slot]).encode())
        return np.random.default_rng(seed).random(VOCABULARY).astype(np.float32)

    def copy(self, source, target):
        self.kv[target] = list(self.kv[source])

    def truncate(self, sequence, length):
        if length and length < len(self.kv[sequence]):
            assert self.can_truncate, "this model's state cannot be cut"
        del self.kv[sequence][length:]

    def close(self):
        self.closed = True
