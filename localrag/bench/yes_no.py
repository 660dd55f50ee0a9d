"""Yes or no: questions with known answers, half of them no. A model that always says yes is right half the time, and is seen to."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from localrag.bench.paragraphs import Asked, Tell
from localrag.engine.hardware.opened import open_backend
from localrag.engine.llama.chat import PIECE
from localrag.engine.request import Backend
from localrag.engine.settings import EngineOptions
from localrag.llm.grammar import choice
from localrag.llm.model import CALL_FAILED, Model, in_window
from localrag.llm.prompts import Message, load_prompt
from localrag.models import ModelFile
from localrag.system.cores import in_a_thread_that_ends

BINS = 5  # of confidence, from one half to one


@dataclass(frozen=True, slots=True)
class Said:
    """An answer: `said` None where there was none, for the reason in `error`; `p_yes` the model's probability of yes against no."""

    id: str
    answer: bool
    said: bool | None
    p_yes: float | None = None
    error: str = ""


async def ask_questions(asked: Sequence[Asked], model: Model, tell: Tell) -> list[Said]:
    """The model's answers, by grammar yes or no; a failed call is a result of its own."""
    done = 0

    async def one(question: Asked) -> Said:
        nonlocal done
        try:
            reply = await model.ask("yes or no", _messages(question), max_tokens=4, grammar=choice(["yes", "no"]))
            result = Said(question.id, question.answer, reply.text == "yes")
        except CALL_FAILED as error:
            result = Said(question.id, question.answer, None, None, error.kind)
        done += 1
        tell("yes or no", done, len(asked))
        return result

    return await in_window((one(q) for q in asked), size=8)


async def with_probabilities(said: Sequence[Said], asked: Sequence[Asked], file: ModelFile, options: EngineOptions) -> list[Said]:
    """The answers with the probability the model gave to yes; unchanged for a model behind a server, which does not say.

    Loads the model once more. Raises ModelError.
    """
    if file.url:
        return list(said)

    def measured() -> list[float | None]:
        backend = open_backend(file, options)
        try:
            return [probability_of_yes(backend, _messages(q)) for q in asked]
        finally:
            backend.close()

    found = await asyncio.to_thread(in_a_thread_that_ends, measured)
    return [replace(s, p_yes=None if p is None else round(p, 4)) for s, p in zip(said, found, strict=True)]


def _messages(question: Asked) -> list[Message]:
    return load_prompt("bench/yes_no").fill(text=question.text, question=question.question)


def probability_of_yes(backend: Backend, messages: list[Message]) -> float | None:
    """What share of the probability of beginning an answer with yes or no falls to yes; None where both begin with the same token.

    Raises EngineFailed for a prompt beyond the window.
    """
    yes, no = backend.tokenize("yes")[0], backend.tokenize("no")[0]
    if yes == no:
        return None
    cells = backend.chat.cells(messages)
    backend.truncate(0, 0)
    for at in range(0, len(cells), PIECE):
        piece = cells[at : at + PIECE]
        logits = backend.decode([(token, at + i, 0, at + i == len(cells) - 1) for i, token in enumerate(piece)])
    return float(1 / (1 + np.exp(np.clip(logits[0, no] - logits[0, yes], -50, 50))))


def calibration_error(said: Sequence[dict[str, Any]]) -> float | None:
    """The expected calibration error (Naeini et al. 2015): over bins of confidence, how far confidence is from the share that was right.

    said: rows of `Said`. 0 is perfect, 0.5 the worst of a model that is always sure. None where probabilities are not known.
    """
    rows = [(row["p_yes"], row["answer"]) for row in said if row["p_yes"] is not None]
    if not rows:
        return None
    p, answer = np.array([r[0] for r in rows]), np.array([r[1] for r in rows])
    sure, right = np.maximum(p, 1 - p), (p > 0.5) == answer
    bins = np.minimum((2 * (sure - 0.5) * BINS).astype(int), BINS - 1)
    gaps = [(bins == b).sum() * abs(sure[bins == b].mean() - right[bins == b].mean()) for b in set(bins.tolist())]
    return float(sum(gaps) / len(rows))
