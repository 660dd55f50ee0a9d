"""Choosing the next token: greedy or by temperature, held to a grammar by llguidance masks.

A mask is computed only when the token the model prefers is refused; for greedy decoding the result is exactly that of masking
every row. One grammar may follow another within a generation (`Grammar.following`), which is how a list forbids what it already
holds: each following grammar starts at a line break, where no token of the usual vocabularies reaches across.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from llguidance import LLMatcher, LLParserLimits, LLTokenizer
from numpy.typing import NDArray

from localrag.errors import DeadEnd, EngineFailed


@dataclass(frozen=True, slots=True)
class Grammar:
    """What may be generated. `following(text so far)` gives the Lark grammar of what comes next, None where the text is complete.

    It is called once with "" and again whenever a grammar is exhausted; `key` identifies the whole (it goes into cache keys).
    For servers that take no grammar, `schema` is the nearest JSON schema and `from_json` turns such an answer into pieces of this form.
    """

    key: str
    following: Callable[[str], str | None]
    schema: dict[str, Any] | None = None
    from_json: Callable[[Any], list[str]] | None = None


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a token is drawn: temperature 0 is greedy; otherwise top-p, then min-p (relative to the best), with a seed."""

    temperature: float = 0.0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int = 0


GREEDY = Sampling()
# Stretches of Chinese text without the names listed so far need more than the default 200,000; errors must not print a document.
LIMITS = LLParserLimits(step_lexer_fuel=5_000_000, verbose_errors=False)

REASONS = ("NoExtension", "TooComplex", "Parser Error", "lexer error", "invalid regex", "unknown name", "Expected token", "Invalid type")


class Constraint:
    """One generation's grammar state: which tokens may come next, and whether the text is complete."""

    def __init__(self, tokenizer: LLTokenizer, grammar: Grammar) -> None:
        self._tokenizer = tokenizer
        self._grammar = grammar
        self._mask = np.zeros((tokenizer.vocab_size + 31) // 32, np.int32)
        self.finished = False
        self._enter("")

    def _enter(self, text: str) -> None:
        lark = self._grammar.following(text)
        self.finished = lark is None
        if lark is None:
            return
        self._matcher = LLMatcher(self._tokenizer, lark, log_level=0, limits=LIMITS)
        self._check()

    def _check(self) -> None:
        if self._matcher.is_error():
            error = self._matcher.get_error()
            kind = DeadEnd if "NoExtension" in error else EngineFailed
            why = ", ".join(reason for reason in REASONS if reason in error)  # the rest may quote the document that the grammar is of
            raise kind(f"The grammar {self._grammar.key} cannot be followed: {why or 'llguidance refuses it'}.")

    def accepts(self, token: int) -> bool:
        """Take `token` if the grammar allows it; otherwise nothing changes."""
        return bool(self._matcher.try_consume_tokens([token]))

    def consume(self, token: int) -> None:
        """Take a token that the mask allows."""
        self._matcher.consume_token(token)
        self._check()

    def valid(self, tokens: list[int]) -> int:
        """How many of `tokens` the grammar would take from here."""
        return int(self._matcher.validate_tokens(tokens))

    def allowed(self) -> NDArray[np.int64]:
        """The ids of all tokens that may come next."""
        self._matcher.unsafe_compute_mask_ptr(self._mask.ctypes.data, self._mask.nbytes)
        self._check()
        return np.flatnonzero(np.unpackbits(self._mask.view(np.uint8), bitorder="little"))

    def forced(self) -> list[int]:
        """The tokens that must come next whatever the model thinks, already taken; empty where there is a choice."""
        tokens = list(self._matcher.compute_ff_tokens())
        if tokens:
            self._matcher.consume_tokens(tokens)
            self._check()
        return tokens

    def advance(self, text: Callable[[], str]) -> None:
        """After a token: go on to the grammar that follows, where this one is exhausted."""
        if self._matcher.is_stopped():
            self._enter(text())


class Sampler:
    """Draws one sequence's tokens from its rows of logits."""

    def __init__(self, sampling: Sampling, constraint: Constraint | None, *, scored: bool = False) -> None:
        self._scored = scored
        self.log_probability = 0.0  # of the tokens drawn so far, among all tokens; summed up where `scored`
        self._sampling = sampling
        self._constraint = constraint
        self._random = np.random.default_rng(sampling.seed)

    def choose(self, logits: NDArray[np.float32]) -> int:
        """The next token of a (n_vocab,) row, taken into the grammar."""
        token = self._chosen(logits)
        if self._scored:
            best = float(logits.max())
            self.log_probability += float(logits[token]) - best - math.log(float(np.exp(logits - best).sum()))
        return token

    def _chosen(self, logits: NDArray[np.float32]) -> int:
        constraint = self._constraint
        if constraint is None:
            return self._draw(logits)
        if constraint.accepts(token := self._draw(logits)):
            return token
        allowed = constraint.allowed()
        token = int(allowed[self._draw(logits[allowed])])
        constraint.consume(token)
        return token

    def _draw(self, logits: NDArray[np.float32]) -> int:
        s = self._sampling
        if s.temperature <= 0:
            return int(logits.argmax())
        scaled = logits.astype(np.float64) / s.temperature
        p = np.exp(scaled - scaled.max())
        p[p < s.min_p] = 0  # p is relative to the best here
        p /= p.sum()
        if s.top_p < 1:
            order = np.argsort(-p)
            kept = order[: int(np.searchsorted(np.cumsum(p[order]), s.top_p)) + 1]
            cut = np.zeros_like(p)
            cut[kept] = p[kept]
            p = cut / cut.sum()
        return int(self._random.choice(len(p), p=p))
