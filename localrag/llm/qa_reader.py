"""Reader of short answers: the bundled chat model with an adapter for extractive question answering."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, replace

from localrag.engine.engine import Engine
from localrag.engine.prefix_cache import PrefixCache
from localrag.engine.request import Request
from localrag.engine.sampler import Grammar
from localrag.engine.settings import EngineOptions, EngineSettings
from localrag.errors import LocalragError
from localrag.llm.grammar import short_answer
from localrag.llm.model import CALL_ERRORS, PERSON, run_in_thread
from localrag.model_files import find_adapter
from localrag.system.resources import available_cores

NONE, YES, NO = "none", "yes", "no"
MOST_TOKENS = 48  # of a short answer
SLOTS, CONTEXT = 4, 1024


@dataclass(frozen=True, slots=True)
class ReaderAnswer:
    """What the reader says of a text: the short answer, NONE where the text holds none, and its probability (natural logarithm)."""

    text: str
    log_probability: float


class QaReader:
    """Reads texts for a question; the model is merged with its adapter once per machine, and loaded on first use."""

    def __init__(self, options: EngineOptions) -> None:
        self._options = options
        self._loading: Future[Engine] | None = None
        self._failed = False

    async def read(self, question: str, texts: Sequence[str], *, yes_or_no: bool) -> list[ReaderAnswer]:
        """What each text answers; with `yes_or_no` only that. Empty where the reader cannot run here, which is said once."""
        if self._failed:
            return []
        try:
            loading = self._loading = self._loading or run_in_thread(self._open)
            engine = await asyncio.wrap_future(loading)
            return await asyncio.gather(*(self._said(engine, question, text, yes_or_no=yes_or_no) for text in texts))
        except LocalragError as error:
            self._failed = True
            self._options.notify(f"No short answers: {error} {error.hint}".strip())
            return []

    async def _said(self, engine: Engine, question: str, text: str, *, yes_or_no: bool) -> ReaderAnswer:
        cells = engine.backend.chat.encode(prompt_of(question, text))
        request = Request(
            cells, MOST_TOKENS, _grammar(text, yes_or_no=yes_or_no), priority=PERSON, task="reading", with_log_probability=True
        )
        try:
            found = await engine.generate(request)
        except CALL_ERRORS:  # a text of a script for which the window is too small
            return ReaderAnswer(NONE, 0.0)
        return ReaderAnswer(found.text if found.is_complete else NONE, found.log_probability)

    def _open(self) -> Engine:
        from localrag.engine.autotune.load import open_with
        from localrag.engine.llama.weights import merge_adapter  # brings llama.cpp

        path, base = find_adapter("reader")
        file = merge_adapter(base, path, self._options.notify)
        by_hand = EngineSettings(threads=available_cores()).with_values(self._options.overrides)
        settings = replace(by_hand, slots=SLOTS, n_ctx=CONTEXT, weights="own", gpu_layers=0, cpu_experts=0)
        engine = Engine(lambda: open_with(file, settings))
        if not self._options.prefix_files:
            engine.prefixes = PrefixCache(None)
        return engine

    def close(self) -> None:
        """Free the model."""
        if self._loading:
            with suppress(LocalragError):  # whoever asked for it heard of it
                self._loading.result().close()
        self._loading = None


def prompt_of(question: str, text: str) -> tuple[dict[str, str], ...]:
    """The conversation that the reader was trained on (scripts/train_adapter.py)."""
    system = {"role": "system", "content": "Answer with words of the text."}
    return (system, {"role": "user", "content": f"{text}\n\nQuestion: {question}"})


def _grammar(text: str, *, yes_or_no: bool) -> Grammar:
    return short_answer(text, [YES, NO, NONE] if yes_or_no else [NONE], stretch=not yes_or_no)
