"""The recorded calls of an index run (gpu_calls.json), as lengths, and random prompts that share beginnings as they did.

A recorded call has no text: its task, the tokens of its prompt and of its answer, and how many tokens of its beginning an earlier call has
as well, so that a replay shares prefixes as the run did. `stage` rises where the run waited for all earlier calls.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

NO_SOURCE = -1


@dataclass(frozen=True)
class Call:
    """A call of a run: `source` is the number of the earlier call whose prompt and answer begin with the same `shared_tokens`."""

    task: str
    stage: int
    prompt_tokens: int
    output_tokens: int
    source: int = NO_SOURCE
    shared_tokens: int = 0


@dataclass(frozen=True)
class Recording:
    """The calls of the index run of a text of so many words; `model` computed them."""

    text: str
    words: int
    model: str
    calls: tuple[Call, ...]


def read_recording(path: Path) -> Recording:
    """Read a recording. Raises ValueError."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        return Recording(values["text"], values["words"], values["model"], tuple(Call(**call) for call in values["calls"]))
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is not a recording of calls: {error}") from error


def replay_prompts(calls: Sequence[Call], vocabulary: int, seed: int) -> list[list[int]]:
    """Random token ids for every call, as long as its sequence was, with the recorded common beginnings; prompts are their first part.

    The beginning that later prompts share with one that has no source, such as examples in a prompt, is the same for every `seed`.
    """
    random, common = np.random.default_rng(seed), np.random.default_rng(1 << 30)
    sequences: list[list[int]] = []
    for number, call in enumerate(calls):
        if call.source == NO_SOURCE:
            shared = [c.shared_tokens for c in calls if c.source == number and c.shared_tokens < call.prompt_tokens]
            beginning = common.integers(0, vocabulary, max(shared, default=0)).tolist()
        else:
            beginning = sequences[call.source][: call.shared_tokens]
        length = max(0, call.prompt_tokens + call.output_tokens - len(beginning))
        sequences.append([*beginning, *random.integers(0, vocabulary, length).tolist()])
    return sequences
