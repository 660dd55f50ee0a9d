"""Sampling of tokens, constrained by grammars (llguidance).

A mask is computed only if the grammar refuses the model's preferred token; for greedy decoding the result is exactly that of masking every
row. A generation may switch grammars (`Grammar.next_grammar`), so that a list can exclude items already listed: each following grammar
starts at a line break, which no token of the usual vocabularies crosses.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from llguidance import LLMatcher, LLParserLimits, LLTokenizer
from numpy.typing import NDArray

from localrag.errors import EngineError, GrammarDeadEnd


@dataclass(frozen=True, slots=True)
class Grammar:
    """The texts that may be generated.

    `next_grammar(text so far)` returns the Lark grammar of the continuation, None if the text is complete.

    It is called once with "" and again whenever a grammar is exhausted; `key` identifies the whole sequence of grammars in cache keys. For
    servers without grammars, `schema` is the nearest JSON schema and `from_json` converts such an answer to parts of the grammar's form.
    """

    key: str
    next_grammar: Callable[[str], str | None]
    schema: dict[str, Any] | None = None
    from_json: Callable[[Any], list[str]] | None = None


@dataclass(frozen=True, slots=True)
class Sampling:
    """Sampling parameters: temperature 0 is greedy."""

    temperature: float = 0.0
    seed: int = 0


GREEDY = Sampling()
# Chinese text without the names listed so far needs more than the default 200,000; errors must not print a document.
PARSER_LIMITS = LLParserLimits(step_lexer_fuel=5_000_000, verbose_errors=False)

LLGUIDANCE_ERRORS = (
    "NoExtension",
    "TooComplex",
    "Parser Error",
    "lexer error",
    "invalid regex",
    "unknown name",
    "Expected token",
    "Invalid type",
)


class GrammarMatcher:
    """The grammar state of one generation: which tokens may come next, and whether the text is complete."""

    def __init__(self, tokenizer: LLTokenizer, grammar: Grammar) -> None:
        self._tokenizer = tokenizer
        self._grammar = grammar
        self._mask = np.zeros((tokenizer.vocab_size + 31) // 32, np.int32)
        self.finished = False
        self._enter("")

    def _enter(self, text: str) -> None:
        lark = self._grammar.next_grammar(text)
        self.finished = lark is None
        if lark is None:
            return
        self._matcher = LLMatcher(self._tokenizer, lark, log_level=0, limits=PARSER_LIMITS)
        self._check()

    def _check(self) -> None:
        if self._matcher.is_error():
            error = self._matcher.get_error()
            kind = GrammarDeadEnd if "NoExtension" in error else EngineError
            # Other parts of the message may quote the document behind the grammar.
            reasons = ", ".join(reason for reason in LLGUIDANCE_ERRORS if reason in error)
            raise kind(f"The grammar {self._grammar.key} cannot be followed: {reasons or 'llguidance refuses it'}.")

    def accepts(self, token: int) -> bool:
        """Consume `token` if the grammar allows it; otherwise nothing changes."""
        return bool(self._matcher.try_consume_tokens([token]))

    def consume(self, token: int) -> None:
        """Consume a token that the mask allows."""
        self._matcher.consume_token(token)
        self._check()

    def count_valid(self, tokens: list[int]) -> int:
        """Number of leading `tokens` that the grammar would accept."""
        return int(self._matcher.validate_tokens(tokens))

    def allowed_tokens(self) -> NDArray[np.int64]:
        """The ids of all tokens that may come next."""
        self._matcher.unsafe_compute_mask_ptr(self._mask.ctypes.data, self._mask.nbytes)
        self._check()
        return np.flatnonzero(np.unpackbits(self._mask.view(np.uint8), bitorder="little"))

    def forced_tokens(self) -> list[int]:
        """The tokens that the grammar forces next, already consumed; empty if there is a choice."""
        tokens = list(self._matcher.compute_ff_tokens())
        if tokens:
            self._matcher.consume_tokens(tokens)
            self._check()
        return tokens

    def advance(self, text: Callable[[], str]) -> None:
        """Switch to the next grammar if this one is exhausted; call it after every token."""
        if self._matcher.is_stopped():
            self._enter(text())


class Sampler:
    """Samples the tokens of one sequence from rows of logits."""

    def __init__(self, sampling: Sampling, constraint: GrammarMatcher | None) -> None:
        self._sampling = sampling
        self._constraint = constraint
        self._random = np.random.default_rng(sampling.seed)

    def sample(self, logits: NDArray[np.float32]) -> int:
        """The next token for a row of logits, (n_vocab,), consumed by the grammar."""
        constraint = self._constraint
        if constraint is None:
            return self._draw(logits)
        if constraint.accepts(token := self._draw(logits)):
            return token
        allowed = constraint.allowed_tokens()
        token = int(allowed[self._draw(logits[allowed])])
        constraint.consume(token)
        return token

    def _draw(self, logits: NDArray[np.float32]) -> int:
        s = self._sampling
        if s.temperature <= 0:
            return int(logits.argmax())
        scaled = logits.astype(np.float64) / s.temperature
        p = np.exp(scaled - scaled.max())
        return int(self._random.choice(len(p), p=p / p.sum()))
