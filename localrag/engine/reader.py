"""The bundled reader: where in passages a short answer stands, by the embedding model merged with its adapter and two small heads."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from localrag.engine.adapter import Adapter
from localrag.engine.encoder import Encoded, Encoder
from localrag.models import ModelFile

KINDS = ("span", "yes", "no", "none")  # what the second head tells apart
LONGEST = 40  # tokens of a short answer


@dataclass(frozen=True, slots=True)
class Read:
    """What the model says of one window: logits that an answer starts and ends at each token, (n,) float32 each, less those of none; and
    the probabilities of `KINDS`, (4,)."""

    tokens: Encoded
    start: NDArray[np.float32]
    end: NDArray[np.float32]
    kinds: NDArray[np.float32]


class Reader:
    """Reads passages for a question; the model is made and loaded on first use."""

    def __init__(self, file: ModelFile, adapter: Adapter) -> None:
        from localrag.engine.llama.states import States  # loads llama.cpp

        self._file, self._adapter = file, adapter
        self._states = States(file, adapter)

    @cached_property
    def encoder(self) -> Encoder:
        """What makes tokens of texts."""
        return Encoder(self._file.path, self._adapter.characters)

    @property
    def window(self) -> int:
        """The most tokens of a question with its passages."""
        return self._adapter.window

    def read(self, question: str, windows: Sequence[Sequence[str]]) -> list[Read]:
        """What the model says of each window, which is one or several passages. Raises ModelError, EngineFailed."""
        encoded = [self.encoder.encode(question, passages, self.window) for passages in windows]
        weights, bias = self._adapter.heads
        found = []
        for tokens, states in zip(encoded, self._states.compute([e.ids for e in encoded]), strict=True):
            logits = states @ weights.T + bias
            kinds = np.exp(logits[0, 2:] - logits[0, 2:].max())
            found.append(Read(tokens, logits[:, 0] - logits[0, 0], logits[:, 1] - logits[0, 1], kinds / kinds.sum()))
        return found


def best_span(read: Read, first: int, last: int) -> tuple[float, int, int]:
    """Of the tokens `first` to `last` (inclusive): the best span's score over that of no answer, its first and its last token."""
    total = read.start[first : last + 1, None] + read.end[None, first : last + 1]
    allowed = np.triu(np.ones_like(total)) - np.triu(np.ones_like(total), LONGEST)
    a, b = np.unravel_index(int(np.where(allowed > 0, total, -np.inf).argmax()), total.shape)
    return float(total[a, b]), first + int(a), first + int(b)
