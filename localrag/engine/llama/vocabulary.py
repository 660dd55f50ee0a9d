"""How a prompt becomes tokens: what the template wrote with its control tokens, what others wrote without.

Runs of text between control tokens are tokenized whole, as llama.cpp itself does it: prompts without a mark of the template in their
contents have the same tokens as if the whole text were tokenized at once.
"""

import ctypes
import re
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Sequence as Seq
from pathlib import Path
from typing import Any, NamedTuple

import llama_cpp
from llguidance import LLTokenizer

from localrag.engine.llama.library import load

_LONGEST = 1 << 14  # bytes of a token
_SPACE = " \t\n\v\f\r"  # what C's isspace takes for space
_UNSPOKEN = int(llama_cpp.LLAMA_TOKEN_ATTR_CONTROL | llama_cpp.LLAMA_TOKEN_ATTR_UNKNOWN)
_CONTROL = int(llama_cpp.LLAMA_TOKEN_ATTR_CONTROL)
_USER = int(llama_cpp.LLAMA_TOKEN_ATTR_USER_DEFINED)
_LSTRIP, _RSTRIP = int(llama_cpp.LLAMA_TOKEN_ATTR_LSTRIP), int(llama_cpp.LLAMA_TOKEN_ATTR_RSTRIP)
_MARK = re.compile(r"[^\w\s].*\w.*\S", re.DOTALL)  # `<think>`, `[INST]`: not runs of spaces or single signs, which texts are written with


class Part(NamedTuple):
    """A stretch of a prompt: `own` of the template, else somebody's words."""

    text: str
    own: bool


class Vocabulary:
    """The tokens of a loaded model, which must outlive it."""

    def __init__(self, vocabulary: Any) -> None:
        self._vocabulary = vocabulary
        self.size = int(llama_cpp.llama_vocab_n_tokens(vocabulary))
        self._kinds: dict[int, int] = {}  # attributes of the tokens that llama.cpp reads in a text before all others
        self.controls: dict[str, int] = {}  # read in the template's own text only
        self._user: set[str] = set()  # llama.cpp reads these in any text
        for token in range(self.size):
            kind = int(llama_cpp.llama_vocab_get_attr(vocabulary, token))
            if kind & (_UNSPOKEN | _USER):
                text = (llama_cpp.llama_vocab_get_text(vocabulary, token) or b"").decode(errors="replace")
                self._kinds[token] = kind
                if text and kind & _UNSPOKEN:
                    self.controls.setdefault(text, token)
                elif _MARK.fullmatch(text):
                    self._user.add(text)
        self._control = any_of(self.controls)
        first, last = llama_cpp.llama_vocab_bos(vocabulary), llama_cpp.llama_vocab_eos(vocabulary)
        self.bos, self.eos = (self.piece(token).decode(errors="replace") for token in (first, last))
        self.start = (int(first),) if llama_cpp.llama_vocab_get_add_bos(vocabulary) else ()

    def piece(self, token: int) -> bytes:
        """The bytes a token stands for; none for a token that there is not."""
        buffer = ctypes.create_string_buffer(256)
        n = llama_cpp.llama_token_to_piece(self._vocabulary, token, buffer, 256, 0, True) if token >= 0 else 0
        return buffer.raw[: max(0, n)]

    def for_grammars(self, end_tokens: Iterable[int]) -> LLTokenizer:
        """llguidance's view of the vocabulary, which must outlive it: made as by its own function, in half the time.

        Tokens that no text can spell, control tokens and those of a user's that look so, begin with a byte that no text has.
        """
        buffer = ctypes.create_string_buffer(_LONGEST)
        view, piece = memoryview(buffer).cast("B"), llama_cpp.llama_token_to_piece
        spelled = [bytes(view[: max(0, piece(self._vocabulary, t, buffer, _LONGEST, 0, True))]) for t in range(self.size)]
        for token, kind in self._kinds.items():
            text = spelled[token]
            if kind & _CONTROL or (kind & _USER and text.startswith(b"<") and text.endswith(b">")):
                spelled[token] = b"\xff" + text
        tokenize_with = ctypes.cast(llama_cpp.llama_cpp._lib.llama_tokenize, ctypes.c_void_p).value
        made: LLTokenizer = LLTokenizer.from_llamacpp(
            tokens=spelled, vocab_ptr=self._vocabulary, tokenize_fptr=tokenize_with, eos_token=sorted(end_tokens), slices=None
        )
        return made

    def plain(self, text: str) -> list[int]:
        """The tokens of a text in which control tokens are read as plain text."""
        return tokenize(self._vocabulary, text, special=False, start=False)

    def between(self, text: str) -> list[str]:
        """What stands in a text between control tokens."""
        return self._control.split(text)

    def marks(self, texts: Iterable[str] = ()) -> "Marks":
        """What must not be read in contents as the template's: user-defined tokens, and `texts` that a template writes in plain text."""
        return Marks({**dict.fromkeys(self._user, 1), **{text: self._cut(text) for text in texts}})

    def _cut(self, text: str) -> int:
        """Where to cut a plain text so that its tokens are not those it has as a whole."""
        whole = self.plain(text)
        return next((at for at in range(1, len(text)) if [*self.plain(text[:at]), *self.plain(text[at:])] != whole), 1)

    def tokens(self, parts: Iterable[Part], marks: "Marks") -> tuple[int, ...]:
        """The tokens of a prompt or of its continuation, without BOS."""
        found: list[int] = []
        for item in self._items(parts, marks):
            found += [item] if isinstance(item, int) else self.plain(item)
        return tuple(found)

    def _items(self, parts: Iterable[Part], marks: "Marks") -> Iterator[int | str]:
        """Control tokens and the texts between them."""
        text, after = "", 0  # the run of text so far and the attributes of the control token before it
        for token, piece, ends in self._pieces(parts, marks):
            text += piece
            if token is None and not ends:
                continue
            kind = 0 if token is None else self._kinds[token]
            text = text.lstrip(_SPACE) if after & _RSTRIP else text
            text = text.rstrip(_SPACE) if kind & _LSTRIP else text
            if text:
                yield text
            if token is not None:
                yield token
            text, after = "", kind
        if text := text.lstrip(_SPACE) if after & _RSTRIP else text:
            yield text

    def _pieces(self, parts: Iterable[Part], marks: "Marks") -> Iterator[tuple[int | None, str, bool]]:
        """(control token, "", _) or (None, text, whether the text must not be tokenized together with what follows)."""
        for text, own in parts:
            if not own:
                *cut, last = marks.apart(text)
                yield from ((None, piece, True) for piece in cut)
                yield None, last, False
                continue
            at = 0
            for match in self._control.finditer(text):
                yield None, text[at : match.start()], False
                yield self.controls[match.group()], "", False
                at = match.end()
            yield None, text[at:], False


class Marks:
    """Texts that are cut apart where they stand in contents, so that they are not read as tokens of the template."""

    def __init__(self, cuts: dict[str, int]) -> None:
        self._cuts = cuts
        self._any = any_of(cuts)

    def apart(self, text: str) -> list[str]:
        """The text in pieces to be tokenized one by one."""
        pieces, at = [], 0
        while match := self._any.search(text, at):
            cut = match.start() + self._cuts[match.group()]
            pieces.append(text[at:cut])
            at = cut
        return [*pieces, text[at:]]


def any_of(texts: Iterable[str]) -> re.Pattern[str]:
    """An expression for the longest of the texts that stands at a place; for none of them one that nothing matches."""
    longest_first: Seq[str] = sorted(texts, key=lambda text: (-len(text), text))
    return re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")


NO_MARKS = Marks({})


def open_vocabulary(path: Path) -> Callable[[str], list[int]]:
    """A tokenizer over a GGUF's vocabulary alone; the weights are not loaded. Raises ModelError."""
    params = llama_cpp.llama_model_default_params()
    params.vocab_only = True
    vocabulary = llama_cpp.llama_model_get_vocab(load(path, params))
    return lambda text: tokenize(vocabulary, text, special=False, start=False)


def tokenize(vocabulary: Any, text: str, *, special: bool, start: bool) -> list[int]:
    """The tokens of a text; `special` reads control tokens in it, `start` adds BOS where the vocabulary wants it."""
    data = text.encode()
    tokens = (llama_cpp.llama_token * (len(data) + 8))()
    n = llama_cpp.llama_tokenize(vocabulary, data, len(data), tokens, len(tokens), start, special)
    return list(tokens[:n])
