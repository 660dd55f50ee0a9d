"""What the engine is asked and answers, and what it asks of a model."""

from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from localrag.engine.sampler import GREEDY, Grammar, Sampling
from localrag.engine.settings import EngineSettings

MARGIN = 32  # cells beyond a sequence's own that a step may touch
Row = tuple[int, int, int, bool]  # token, position, slot, wants logits


class Chat(Protocol):
    """How a model's conversations become tokens."""

    @property
    def note(self) -> str:
        """What is unusual about the model's chat template, in a line; empty where nothing is."""

    def cells(self, messages: Seq[dict[str, str]]) -> tuple[int, ...]:
        """The tokens of a conversation, ready for the model to answer. Raises ModelError."""

    def rest(self, before: Seq[dict[str, str]], messages: Seq[dict[str, str]]) -> tuple[int, ...] | None:
        """The tokens of a conversation after `before`, which ends with the model's answer; None: it has to be read anew."""


class Backend(Protocol):
    """What the engine asks of a model: `llama.Llama`, or the fake of the tests."""

    settings: EngineSettings
    parameters: int
    n_ctx: int  # cells a sequence may have
    capacity: int | None  # cells of all sequences together, where they share one buffer
    can_truncate: bool
    end_tokens: frozenset[int]
    prefix_folder: Path | None  # where KV of shared beginnings may be kept

    @property
    def chat(self) -> Chat:
        """The chat template."""

    def tokenize(self, text: str) -> list[int]:
        """The tokens of a text."""

    def piece(self, token: int) -> bytes:
        """The bytes of a token."""

    def grammar_tokenizer(self) -> Any:
        """llguidance's view of the vocabulary."""

    def decode(self, rows: list[Row]) -> NDArray[np.float32]:
        """Logits of the wanted rows. Raises NoRoom, which changes nothing, and EngineFailed, after which only `reset` helps."""

    def copy(self, source: int, target: int, length: int) -> None:
        """Make a slot hold the first `length` cells of another."""

    def truncate(self, sequence: int, length: int) -> None:
        """Cut a slot's KV."""

    def save(self, sequence: int, path: Path, cells: Seq[int]) -> bool:
        """Write a slot's KV to a file; whether that worked."""

    def load(self, sequence: int, path: Path, cells: Seq[int]) -> bool:
        """Read a slot's KV from a file; where that fails the slot is empty."""

    def reset(self) -> None:
        """Make all slots anew, empty."""

    def close(self) -> None:
        """Free the model."""


@dataclass(frozen=True, slots=True)
class Request:
    """A prompt to continue. `cells` may hold an earlier generation's, which then goes on in the KV it left.

    `task` names what kind of request it is: its prompts are expected to begin alike and its answers to be similarly long.
    """

    cells: tuple[int, ...]
    max_tokens: int
    grammar: Grammar | None = None
    sampling: Sampling = GREEDY
    stop: tuple[str, ...] = ()
    priority: int = 0
    on_text: Callable[[str], None] | None = None  # called on the event loop with each new stretch of text
    task: str = ""
    messages: tuple[dict[str, str], ...] = ()  # what `cells` were rendered from, for a model behind a server
    scored: bool = False  # say how probable the answer is


@dataclass(frozen=True, slots=True)
class Generation:
    """What came out. `complete` is False where `max_tokens` cut it off; `cells` is the whole sequence, to be continued."""

    text: str
    complete: bool
    cells: tuple[int, ...]
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    forced_tokens: int
    seconds: float
    waited: float
    log_probability: float = 0.0  # of the tokens drawn, as the model sees them without the grammar; of a scored request
