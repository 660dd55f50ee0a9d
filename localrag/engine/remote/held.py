"""Holding a server's answer to the request's own grammar: a line that the grammar would not have allowed is left out.

What is kept grows piece by piece, and nothing that was kept is taken back. So an answer can be streamed while it comes: what is shown is
what is kept.
"""

import json
from collections.abc import Callable
from functools import cache
from typing import Any

from llguidance import LLMatcher, LLTokenizer

from localrag.engine.remote.server import Malformed
from localrag.engine.sampler import LIMITS, Grammar


class Answer:
    """An answer as it comes: `add` text, then `finish`; `kept` is what the grammar allows of it so far."""

    def __init__(self, grammar: Grammar | None, on_kept: Callable[[str], None] | None = None) -> None:
        self.text = self.kept = ""
        self._grammar, self._on_kept = grammar, on_kept
        self._taken = 0  # pieces that were looked at

    def add(self, new: str) -> None:
        """Take in what came; complete items of a list, and plain text that is no thinking, are kept at once where someone watches."""
        self.text += new
        if self._on_kept is None:
            return
        if self._grammar is None:
            self._keep(without_thinking(self.text))
        elif self._grammar.from_json and (found := items_so_far(json_part(self.text))):
            try:
                self._take(self._grammar, self._grammar.from_json({"items": found}))
            except (KeyError, TypeError, ValueError, AttributeError):
                return  # of a form that only the whole answer explains, or of none: the end will tell

    def finish(self) -> str:
        """The whole answer in the grammar's own form. Raises Malformed where nothing that the grammar allows is left."""
        if self._grammar is None:
            self._keep(without_thinking(self.text))
        else:
            self._finish(self._grammar)
        try:
            self.kept.encode()
        except UnicodeEncodeError as error:
            raise Malformed("half a character") from error
        return self.kept

    def _finish(self, grammar: Grammar) -> None:
        try:
            pieces = grammar.from_json(json.loads(json_part(self.text))) if grammar.from_json else [without_thinking(self.text)]
            self._take(grammar, pieces)
        except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
            raise Malformed(f"not of the form asked for, in {len(self.text)} characters") from error
        lark = grammar.following(self.kept)
        if lark is not None and not _accepts(lark, ""):
            raise Malformed(f"nothing that was asked for, in {len(self.text)} characters")

    def _take(self, grammar: Grammar, pieces: list[str]) -> None:
        for piece in pieces[self._taken :]:
            lark = grammar.following(self.kept)
            if lark is not None and _accepts(lark, piece):
                self._keep(self.kept + piece)
            self._taken += 1

    def _keep(self, text: str) -> None:
        if text != self.kept and self._on_kept:
            self._on_kept(text)
        self.kept = text


def _accepts(lark: str, piece: str) -> bool:
    matcher = LLMatcher(_byte_tokenizer(), lark, log_level=0, limits=LIMITS)
    return not matcher.is_error() and matcher.consume_tokens(list(piece.encode())) and bool(matcher.is_accepting())


@cache
def _byte_tokenizer() -> Any:
    return LLTokenizer("byte")


def without_thinking(text: str) -> str:
    """The text behind a block of thinking, whose opening a chat template may have written; none while the block is open."""
    start = text.lstrip()
    if start.startswith("<think>") or ("</think>" in text and "<think>" not in text):
        return text.partition("</think>")[2].lstrip()
    return "" if "<think>".startswith(start) else text


def json_part(text: str) -> str:
    """The JSON object of an answer, without thinking before it and the fence that some models put around it."""
    text = text if text.lstrip().startswith("{") else without_thinking(text)
    start, end = text.find("{"), text.rfind("}")
    return text[start:] if end < start else text[start : end + 1] if start >= 0 else ""


def items_so_far(text: str) -> list[Any]:
    """The complete members of `{"items": [...`, as far as it is written."""
    head, found, rest = text.partition("[")
    if not found or "".join(head.split()) != '{"items":':
        return []
    items: list[Any] = []
    decoder, at = json.JSONDecoder(), 0
    while True:
        while at < len(rest) and rest[at] in " \t\r\n,":
            at += 1
        try:
            item, at = decoder.raw_decode(rest, at)
        except (ValueError, RecursionError):
            return items
        if not isinstance(item, (dict, str)):  # of a number more may follow
            return items
        items.append(item)
