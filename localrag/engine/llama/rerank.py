"""Rerankers as GGUF files (cross-encoders such as bge-reranker, or Qwen3-Reranker), through llama.cpp's RANK pooling."""

from collections.abc import Sequence
from functools import cached_property

import llama_cpp
import numpy as np
from numpy.typing import NDArray

from localrag.config import in_a_thread_that_ends
from localrag.engine.llama.pooled import Pooled
from localrag.engine.llama.weights import tokenize
from localrag.engine.pooling import open_pooled
from localrag.models import ModelFile


class Reranker:
    """Scores how well passages answer a question with the GGUF reranker in `file`, which is loaded on first use."""

    def __init__(self, file: ModelFile) -> None:
        self.file = file

    @cached_property
    def _pooled(self) -> Pooled:
        return open_pooled(self.file, "scores")

    def scores(self, question: str, passages: Sequence[str]) -> NDArray[np.float32]:
        """(n,) float32, higher is better. What does not fit the window beside the question is left off a passage's end.

        Raises ModelError where the model cannot be loaded, EngineFailed where it cannot compute.
        """
        return in_a_thread_that_ends(lambda: self._pooled.compute([self._pair(question, p) for p in passages])[:, 0])

    def _pair(self, question: str, passage: str) -> list[int]:
        """A question and a passage as the model was trained to see them: by the file's own template, else as a cross-encoder's pair."""
        pooled, vocab = self._pooled, self._pooled.vocab
        if template := llama_cpp.llama_model_chat_template(pooled.model, b"rerank"):
            before, after = template.decode().replace("{query}", question).split("{document}")
            parts = [tokenize(vocab, text, special=True, start=n == 0) for n, text in enumerate((before, passage, after))]
        else:
            asked, end = tokenize(vocab, question, special=False, start=False), llama_cpp.llama_vocab_eos(vocab)
            separator = llama_cpp.llama_vocab_sep(vocab)
            start = [llama_cpp.llama_vocab_bos(vocab)] * llama_cpp.llama_vocab_get_add_bos(vocab)
            close = [end if end >= 0 else separator] * llama_cpp.llama_vocab_get_add_eos(vocab)
            between = [separator] * llama_cpp.llama_vocab_get_add_sep(vocab)
            body = tokenize(vocab, passage, special=False, start=False)
            parts = [[*start, *asked[: pooled.window // 2], *close, *between], body, close]
        room = max(0, pooled.window - len(parts[0]) - len(parts[2]))
        return [*parts[0], *parts[1][:room], *parts[2]][: pooled.window]
