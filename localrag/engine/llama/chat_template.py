"""Chat templates and vocabulary: conversations to tokens.

A template is probed once by rendering conversations with random contents: whether it takes a system role, whether turns must alternate, how
an answer begins. Real contents never pass through the template, so nothing in them can be taken for control tokens. Text between control
tokens is tokenized as a whole, as in llama.cpp: the tokens equal those of the whole prompt unless contents contain its markers.
"""

import ctypes
import re
import secrets
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Sequence as Seq
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import llama_cpp
from llguidance import LLTokenizer

from localrag.engine.llama.library import load_model
from localrag.engine.llama.template_process import reason_of, render_template
from localrag.errors import ModelError

_LONGEST = 1 << 14  # bytes per token
_C_WHITESPACE = " \t\n\v\f\r"  # as C's isspace
_NON_TEXT_TOKEN = int(llama_cpp.LLAMA_TOKEN_ATTR_CONTROL | llama_cpp.LLAMA_TOKEN_ATTR_UNKNOWN)
_CONTROL = int(llama_cpp.LLAMA_TOKEN_ATTR_CONTROL)
_USER = int(llama_cpp.LLAMA_TOKEN_ATTR_USER_DEFINED)
_LSTRIP, _RSTRIP = int(llama_cpp.LLAMA_TOKEN_ATTR_LSTRIP), int(llama_cpp.LLAMA_TOKEN_ATTR_RSTRIP)
# `<think>`, `[INST]`; not runs of spaces or single signs, which occur in ordinary text.
_USER_DEFINED_MARKER = re.compile(r"[^\w\s]\W*\w.*\S", re.DOTALL)


class PromptPart(NamedTuple):
    """A part of a prompt: text of the template (`is_template`) or of a message."""

    text: str
    is_template: bool


class Vocabulary:
    """The tokens of a loaded model, which must outlive this object."""

    def __init__(self, vocabulary: Any) -> None:
        self._vocabulary = vocabulary
        self.size = int(llama_cpp.llama_vocab_n_tokens(vocabulary))
        self._kinds: dict[int, int] = {}  # attributes of tokens that llama.cpp matches before all others
        self.controls: dict[str, int] = {}  # matched in text of the template only
        self._user: set[str] = set()  # matched by llama.cpp in any text
        for token in range(self.size):
            kind = int(llama_cpp.llama_vocab_get_attr(vocabulary, token))
            if kind & (_NON_TEXT_TOKEN | _USER):
                text = (llama_cpp.llama_vocab_get_text(vocabulary, token) or b"").decode(errors="replace")
                self._kinds[token] = kind
                if text and kind & _NON_TEXT_TOKEN:
                    self.controls.setdefault(text, token)
                elif _USER_DEFINED_MARKER.fullmatch(text):
                    self._user.add(text)
        self._control = alternatives_pattern(self.controls)
        first, last = llama_cpp.llama_vocab_bos(vocabulary), llama_cpp.llama_vocab_eos(vocabulary)
        self.bos, self.eos = (self.token_to_piece(token).decode(errors="replace") for token in (first, last))
        self.start = (int(first),) if llama_cpp.llama_vocab_get_add_bos(vocabulary) else ()

    def token_to_piece(self, token: int) -> bytes:
        """The bytes of a token; empty for a token that does not exist."""
        buffer = ctypes.create_string_buffer(256)
        n = llama_cpp.llama_token_to_piece(self._vocabulary, token, buffer, 256, 0, True) if token >= 0 else 0
        return buffer.raw[: max(0, n)]

    def grammar_tokenizer(self, end_tokens: Iterable[int]) -> LLTokenizer:
        """The vocabulary for llguidance, which this object must outlive. Control tokens begin with a byte that no text contains."""
        buffer = ctypes.create_string_buffer(_LONGEST)
        view, piece = memoryview(buffer).cast("B"), llama_cpp.llama_token_to_piece
        spelled = [bytes(view[: max(0, piece(self._vocabulary, t, buffer, _LONGEST, 0, True))]) for t in range(self.size)]
        for token, kind in self._kinds.items():
            text = spelled[token]
            if kind & _CONTROL or (kind & _USER and text.startswith(b"<") and text.endswith(b">")):
                spelled[token] = b"\xff" + text
        tokenize_with = ctypes.cast(llama_cpp.llama_cpp._lib.llama_tokenize, ctypes.c_void_p).value
        tokenizer: LLTokenizer = LLTokenizer.from_llamacpp(
            tokens=spelled, vocab_ptr=self._vocabulary, tokenize_fptr=tokenize_with, eos_token=sorted(end_tokens), slices=None
        )
        return tokenizer

    def tokenize_plain(self, text: str) -> list[int]:
        """The tokens of a text in which control tokens are read as plain text."""
        return tokenize(self._vocabulary, text, special=False, start=False)

    def split_at_control_tokens(self, text: str) -> list[str]:
        """The parts of a text between control tokens."""
        return self._control.split(text)

    def marks(self, texts: Iterable[str] = ()) -> "PlainMarkers":
        """Markers that must not be recognised in contents: user-defined tokens, and `texts` that a template writes as plain text."""
        return PlainMarkers({**dict.fromkeys(self._user, 1), **{text: self._cut(text) for text in texts}})

    def _cut(self, text: str) -> int:
        """The offset at which a plain text must be cut so that its tokens differ from those of the whole."""
        token_ids = self.tokenize_plain(text)
        return next(
            (
                offset
                for offset in range(1, len(text))
                if [*self.tokenize_plain(text[:offset]), *self.tokenize_plain(text[offset:])] != token_ids
            ),
            1,
        )

    def tokens(self, parts: Iterable[PromptPart], marks: "PlainMarkers") -> tuple[int, ...]:
        """The tokens of a prompt, without BOS."""
        token_ids: list[int] = []
        for item in self._items(parts, marks):
            token_ids += [item] if isinstance(item, int) else self.tokenize_plain(item)
        return tuple(token_ids)

    def _items(self, parts: Iterable[PromptPart], marks: "PlainMarkers") -> Iterator[int | str]:
        text, after = "", 0  # the text so far and the attributes of the control token before it
        for token, part, ends in self._pieces(parts, marks):
            text += part
            if token is None and not ends:
                continue
            kind = 0 if token is None else self._kinds[token]
            text = text.lstrip(_C_WHITESPACE) if after & _RSTRIP else text
            text = text.rstrip(_C_WHITESPACE) if kind & _LSTRIP else text
            if text:
                yield text
            if token is not None:
                yield token
            text, after = "", kind
        if text := text.lstrip(_C_WHITESPACE) if after & _RSTRIP else text:
            yield text

    def _pieces(self, parts: Iterable[PromptPart], marks: "PlainMarkers") -> Iterator[tuple[int | None, str, bool]]:
        """(control token, "", _) or (None, text, whether the text must be tokenized apart from the following text)."""
        for text, is_template in parts:
            if not is_template:
                *cut_parts, last_part = marks.split(text)
                yield from ((None, part, True) for part in cut_parts)
                yield None, last_part, False
                continue
            offset = 0
            for match in self._control.finditer(text):
                yield None, text[offset : match.start()], False
                yield self.controls[match.group()], "", False
                offset = match.end()
            yield None, text[offset:], False


class PlainMarkers:
    """Texts that are cut apart in contents, so that they are not read as tokens of the template."""

    def __init__(self, cuts: dict[str, int]) -> None:
        self._cuts = cuts
        self._any = alternatives_pattern(cuts)

    def split(self, text: str) -> list[str]:
        """The parts of a text, to be tokenized one by one."""
        text_parts, offset = [], 0
        while match := self._any.search(text, offset):
            cut = match.start() + self._cuts[match.group()]
            text_parts.append(text[offset:cut])
            offset = cut
        return [*text_parts, text[offset:]]


def alternatives_pattern(texts: Iterable[str]) -> re.Pattern[str]:
    """A pattern that matches the longest of the texts at a position; one that never matches if there are none."""
    longest_first: Seq[str] = sorted(texts, key=lambda text: (-len(text), text))
    return re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")


NO_MARKERS = PlainMarkers({})


def open_vocabulary(path: Path) -> Callable[[str], list[int]]:
    """A tokenizer with a GGUF's vocabulary alone; the weights are not loaded. Raises ModelError."""
    params = llama_cpp.llama_model_default_params()
    params.vocab_only = True
    vocabulary = llama_cpp.llama_model_get_vocab(load_model(path, params))
    return lambda text: tokenize(vocabulary, text, special=False, start=False)


def tokenize(vocabulary: Any, text: str, *, special: bool, start: bool) -> list[int]:
    """The tokens of a text; `special` recognises control tokens in it, `start` adds BOS if the vocabulary requires it."""
    data = text.encode()
    tokens = (llama_cpp.llama_token * (len(data) + 8))()
    n = llama_cpp.llama_tokenize(vocabulary, data, len(data), tokens, len(tokens), start, special)
    return list(tokens[:n])


Message = dict[str, str]
RenderTemplate = Callable[[Seq[Message], bool], str]  # text of a conversation; True: with the answer's beginning

# Template variables that switch thinking off. `reasoning_effort` gets the first of its values that the template mentions.
NO_THINKING = {"enable_thinking": False, "thinking": False, "thinking_mode": "chat", "thinking_budget": 0}
REASONING_EFFORTS = ("no_think", "none", "minimal", "low")
_THINKING_TAG = re.compile(r"[<\[◁]\|?[\w:]{0,40}(?:think|thought|reason|cot)[\w:]{0,40}\|?[>\]▷]", re.IGNORECASE)
_CONTROL_MARKER = re.compile(r"[<\[◁][^\w\s<>\[\]◁▷]*+\w[^\s<>\[\]◁▷]*[>\]▷]")  # the shape of control tokens
MAX_ANSWER_PREFIX = 200  # characters
_KEYS = re.compile(r"x([0-9a-f]{16})n(\d+)x")


@dataclass(frozen=True, slots=True)
class ChatFormat:
    """The chat format of one model."""

    file: str
    vocabulary: Vocabulary
    render: RenderTemplate
    bos: str  # the template may begin with it, but the tokenizer adds it
    has_system_role: bool = True  # else system messages are put before the first user message
    allows_repeated_roles: bool = True  # else consecutive turns of one role are joined
    answer_prefix: str = ""  # added after the template's beginning of an answer: a closed thinking block, a channel
    plain_markers: PlainMarkers = NO_MARKERS

    def encode(self, messages: Seq[Message]) -> tuple[int, ...]:
        """The tokens of a conversation, ready for the model's answer, with thinking switched off. Raises ModelError."""
        return (*self.vocabulary.start, *self.vocabulary.tokens(self.parts(messages), self.plain_markers))

    def parts(self, messages: Seq[Message]) -> list[PromptPart]:
        """A conversation as the template renders it. Raises ModelError if it cannot."""
        try:
            parts = self._written(messages, ask=True)
        except Exception as error:
            raise ModelError(f"The chat template of {self.file} cannot format this conversation: {reason_of(error)}", _ANOTHER) from error
        if self.bos and parts[0].is_template:
            parts[0] = PromptPart(parts[0].text.removeprefix(self.bos), is_template=True)
        return [*parts, PromptPart(self.answer_prefix, is_template=True)] if self.answer_prefix else parts

    def _written(self, messages: Seq[Message], *, ask: bool) -> list[PromptPart]:
        """The parts of a conversation. Raises any error of the template, and ValueError if it omits something."""
        turns = _merged(messages, system=self.has_system_role, repeats=self.allows_repeated_roles)
        secret = secrets.token_hex(8)
        contents = [turn["content"].strip() for turn in turns]
        hidden = []
        for n, (turn, content) in enumerate(zip(turns, contents, strict=True)):
            # Keeps the surrounding space, which the template may trim.
            hidden.append(turn | {"content": turn["content"].replace(content, f"x{secret}n{n}x", 1) if content else turn["content"]})
        parts, seen, offset = [], set(), 0
        text = self.render(hidden, ask)
        for key in _KEYS.finditer(text):
            if key[1] == secret:
                parts += [PromptPart(text[offset : key.start()], is_template=True), PromptPart(contents[int(key[2])], is_template=False)]
                seen.add(int(key[2]))
                offset = key.end()
        if missing := {turns[n]["role"] for n, content in enumerate(contents) if content} - {turns[n]["role"] for n in seen}:
            raise ValueError(f"it leaves out what the {' and the '.join(sorted(missing))} says")
        if len(seen) < sum(map(bool, contents)):
            raise ValueError("it leaves out a turn")
        return [*parts, PromptPart(text[offset:], is_template=True)]


_ANOTHER = "Give another model with --model."


def open_format(file: str, template: str, vocabulary: Vocabulary) -> ChatFormat:
    """The format of a model with this chat template. Raises ModelError if there is none, or none that works."""
    if not template:
        raise ModelError(f"{file} contains no chat template: it is not an instruction-tuned chat model.", "Give a chat model.")
    reason = ""
    for values in _variables(template, vocabulary):
        plain = ChatFormat(file, vocabulary, partial(_render, template, values), vocabulary.bos if vocabulary.start else "")
        try:
            format_ = _fit_to_template(plain)
        except Exception as error:  # noqa: BLE001 — a template is somebody else's program
            reason = reason or reason_of(error)
            continue
        marks = vocabulary.marks(_plain_marks(format_, vocabulary))
        return replace(format_, answer_prefix=_answer_prefix(format_, template), plain_markers=marks)
    raise ModelError(f"The chat template of {file} cannot be used: {reason}", _ANOTHER)


def _variables(template: str, vocabulary: Vocabulary) -> Iterator[dict[str, Any]]:
    """Variables that switch thinking off, best first: some templates refuse a value of `reasoning_effort`, or any they do not know."""
    tokens = {"bos_token": vocabulary.bos, "eos_token": vocabulary.eos}
    efforts = [word for word in REASONING_EFFORTS if re.search(rf"['\"]{word}['\"]", template)]
    for effort in dict.fromkeys([*efforts, "low"]):
        yield {**tokens, **NO_THINKING, "reasoning_effort": effort}
    yield {**tokens, "enable_thinking": False}


def _render(template: str, values: dict[str, Any], messages: Seq[Message], ask: bool) -> str:
    variables = {"messages": list(messages), "add_generation_prompt": ask, "tools": None, "documents": None}
    return render_template(template, variables | values)


def _merged(messages: Seq[Message], *, system: bool, repeats: bool) -> list[Message]:
    turns: list[Message] = []
    first_user = next((n for n, m in enumerate(messages) if m["role"] == "user"), -1)
    system_texts = [m["content"] for m in messages if m["role"] == "system"] if not system else []
    for n, message in enumerate(messages):
        if message["role"] == "system" and not system:
            continue
        content = "\n\n".join([*system_texts, message["content"]]) if n == first_user else message["content"]
        if turns and turns[-1]["role"] == message["role"] and not repeats:
            turns[-1] = turns[-1] | {"content": f"{turns[-1]['content']}\n\n{content}"}
        else:
            turns.append({"role": message["role"], "content": content})
    return turns


def _conversation(*roles: str) -> list[Message]:
    return [{"role": role, "content": f"{role} {n}"} for n, role in enumerate(roles)]


def _fit_to_template(plain: ChatFormat) -> ChatFormat:
    """The format without features that its template rejects. Raises the template's error if that does not help."""
    talk = _conversation("system", "user", "assistant", "user")
    try:
        plain._written(talk, ask=True)
    except Exception:  # noqa: BLE001 — a template is somebody else's program
        plain = replace(plain, has_system_role=False)
        plain._written(talk, ask=True)
    try:
        plain._written(_conversation("system", "user", "user", "assistant", "assistant", "user"), ask=True)
    except Exception:  # noqa: BLE001 — a template is somebody else's program
        plain = replace(plain, allows_repeated_roles=False)
    return plain


def _answer_prefix(format_: ChatFormat, template: str) -> str:
    """The text to add after the template's beginning of an answer, so that the answer follows without thinking.

    It is the text that the template writes before a past answer but not before a new one: the end of an empty thinking block, or a channel.
    Otherwise it closes a thinking block that the template leaves open.
    """
    begun = format_._written(_conversation("system", "user"), ask=True)[-1].text
    thoughts = list(_THINKING_TAG.finditer(begun))
    since = begun[thoughts[-1].end() :] if thoughts else ""  # another turn after the one with thoughts
    heads = [begun, *(since[mark.start() :] for mark in _CONTROL_MARKER.finditer(since))]
    for roles in (("system", "user", "assistant"), ("system", "user", "assistant", "user")):
        try:
            parts = format_._written(_conversation(*roles), ask=False)
        except Exception:  # noqa: BLE001 — a template may refuse to end with an answer
            continue
        template_texts = [part.text for part in parts if part.is_template]
        before = template_texts[-3] if roles[-1] == "user" else template_texts[-2]
        for head in heads:
            match, _, prefix = before.partition(head) if head else ("", "", before)
            if (head is not begun or not match) and prefix.strip() and len(prefix) < MAX_ANSWER_PREFIX:
                return prefix
    return "" if len(heads) > 1 else _closed(begun, template)


def _closed(begun: str, template: str) -> str:
    marks = list(_THINKING_TAG.finditer(begun))
    if not marks or re.search(r"end|no_", marks[-1][0], re.IGNORECASE):
        return ""
    mark, since = marks[-1][0], begun[marks[-1].end() :]
    closers = [mark[0] + "/" + mark[1:], mark[:2] + "/" + mark[2:], *(re.sub(a, b, mark) for a, b in _ENDS if re.search(a, mark))]
    closer = next((c for c in closers if c in template), closers[0])
    if closer in since:
        return ""
    return f"\n{closer}\n\n" if since.endswith("\n") else closer


_ENDS = (("START", "END"), ("BEGIN", "END"), ("start", "end"), ("begin", "end"))


def _plain_marks(format_: ChatFormat, vocabulary: Vocabulary) -> set[str]:
    """Markers that the template writes between turns as plain text, such as `[INST]` without a token of its own."""
    template_texts = [p.text for p in format_._written(_conversation("system", "user", "assistant", "user"), ask=True) if p.is_template]
    plain_texts = [text for text in template_texts[1:] if not any(mark in text for mark in vocabulary.controls)]
    lines = {line.strip() for text in plain_texts for line in text.splitlines()}
    words = (
        {
            word
            for text in template_texts
            for fragment in vocabulary.split_at_control_tokens(text)
            for word in _CONTROL_MARKER.findall(fragment)
        }
        if plain_texts
        else set()
    )
    return words | {line for line in lines if re.search(r"\w\W|\W\w", line)}
