"""A model's chat template: conversations become tokens, in whatever form the model was trained on.

What a template is like is found out once, by letting it write conversations whose contents are random words: whether it takes a system
role, whether turns must alternate, how a model's answer begins. Contents never pass through a template, so it cannot change what it
writes because of them, and nothing in them can pass for its marks.
"""

import ctypes
import re
import secrets
from collections.abc import Callable, Iterator
from collections.abc import Sequence as Seq
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

import llama_cpp
from jinja2 import BaseLoader
from jinja2.sandbox import ImmutableSandboxedEnvironment
from llama_cpp.llama_chat_format import Jinja2ChatFormatter

from localrag.engine.llama.vocabulary import NO_MARKS, Marks, Part, Vocabulary
from localrag.errors import ModelError

Message = dict[str, str]
Writer = Callable[[Seq[Message], bool], str]  # the text of a conversation, with the beginning of an answer where that is asked for

# How templates are told not to think. `reasoning_effort` has other words in each, of which the first that the template names is taken.
NO_THINKING = {"enable_thinking": False, "thinking": False, "thinking_mode": "chat", "thinking_budget": 0}
EFFORTS = ("no_think", "none", "minimal", "low")
# The forms that llama.cpp can write itself, by a mark of each that its vocabulary would have.
BUILT_IN = {"<|im_start|>": "chatml", "<start_of_turn>": "gemma", "<|start_header_id|>": "llama3", "[INST]": "mistral-v3",
            "<|start_of_role|>": "granite", "<|assistant|>": "phi3"}  # fmt: skip
_THINKING = re.compile(r"[<\[◁]\|?[\w:]*(?:think|thought|reason|cot)[\w:]*\|?[>\]▷]", re.IGNORECASE)
_MARK = re.compile(r"[<\[◁][^\s<>\[\]◁▷]*\w[^\s<>\[\]◁▷]*[>\]▷]")  # what a mark looks like
LONGEST_OPENING = 200  # characters
_KEYS = re.compile(r"x([0-9a-f]{16})n(\d+)x")


@dataclass(frozen=True, slots=True)
class ChatFormat:
    """How one model's conversations are written. `note` says in a line what is unusual about it, if anything is."""

    file: str
    vocabulary: Vocabulary
    write: Writer
    bos: str  # what the template may begin with, which the tokenizer's rule adds itself
    system: bool = True  # it has a system role; else the system's words stand before the first user's
    repeats: bool = True  # two turns of one role may follow each other; else they become one
    opening: str = ""  # what an answer begins with beyond what the template writes: a closed thinking block, a channel
    marks: Marks = NO_MARKS
    note: str = ""

    def cells(self, messages: Seq[Message]) -> tuple[int, ...]:
        """The tokens of a conversation, ready for the model to answer, thinking switched off. Raises ModelError."""
        return (*self.vocabulary.start, *self._tokens(self.parts(messages)))

    def rest(self, before: Seq[Message], messages: Seq[Message]) -> tuple[int, ...] | None:
        """The tokens that a conversation has after `before`, which ends with the model's answer.

        None where the template writes earlier turns differently from then on: everything has to be read anew. Raises ModelError.
        """
        asked, answer = _text(self.parts(before[:-1])), before[-1]["content"]
        parts = self.parts(messages)
        done = _end_of_answer(_text(parts), asked, answer)
        return None if done is None else self._tokens(_after(parts, done))

    def parts(self, messages: Seq[Message]) -> list[Part]:
        """A conversation as the template writes it. Raises ModelError where it cannot."""
        try:
            parts = self._written(messages, ask=True)
        except Exception as error:
            raise ModelError(f"The chat template of {self.file} cannot write this conversation: {_reason(error)}", _ANOTHER) from error
        if self.bos and parts[0].own:
            parts[0] = Part(parts[0].text.removeprefix(self.bos), own=True)
        return [*parts, Part(self.opening, own=True)] if self.opening else parts

    def _tokens(self, parts: Seq[Part]) -> tuple[int, ...]:
        return self.vocabulary.tokens(parts, self.marks)

    def _written(self, messages: Seq[Message], *, ask: bool) -> list[Part]:
        """The parts of a conversation. Raises whatever the template does, and ValueError where it leaves something out."""
        turns = _merged(messages, system=self.system, repeats=self.repeats)
        secret = secrets.token_hex(8)
        contents = [turn["content"].strip() for turn in turns]
        hidden = []
        for n, (turn, content) in enumerate(zip(turns, contents, strict=True)):
            # With the space around it, which the template may trim or keep.
            hidden.append(turn | {"content": turn["content"].replace(content, f"x{secret}n{n}x", 1) if content else turn["content"]})
        parts, seen, at = [], set(), 0
        text = self.write(hidden, ask)
        for key in _KEYS.finditer(text):
            if key[1] == secret:
                parts += [Part(text[at : key.start()], own=True), Part(contents[int(key[2])], own=False)]
                seen.add(int(key[2]))
                at = key.end()
        if missing := {turns[n]["role"] for n, content in enumerate(contents) if content} - {turns[n]["role"] for n in seen}:
            raise ValueError(f"it leaves out what the {' and the '.join(sorted(missing))} says")
        if len(seen) < sum(map(bool, contents)):
            raise ValueError("it leaves out a turn")
        return [*parts, Part(text[at:], own=True)]


_ANOTHER = "Give another model with --model."


def open_format(file: str, template: str, vocabulary: Vocabulary) -> ChatFormat:
    """The format of a model with that chat template. Raises ModelError where there is none, or none that can be used."""
    if not template:
        raise ModelError(f"{file} carries no chat template: it is not an instruction-tuned chat model.", "Give a chat model.")
    reason = ""
    for write, note in _writers(template, vocabulary):
        plain = ChatFormat(file, vocabulary, write, vocabulary.bos if vocabulary.start else "")
        try:
            found = _fitted(plain)
        except Exception as error:  # noqa: BLE001 — a template is somebody else's program
            reason = reason or _reason(error)
            continue
        said = f"The chat template of {file} cannot be used ({reason}); {note}." if note else ""
        opening = _opening(found, template)
        return replace(found, opening=opening, marks=vocabulary.marks(_plain_marks(found, vocabulary)), note=said)
    raise ModelError(f"The chat template of {file} cannot be used: {reason}", _ANOTHER)


def _writers(template: str, vocabulary: Vocabulary) -> Iterator[tuple[Writer, str]]:
    """The ways to write in a template's form, the best first, each with what is to be said about it."""
    tokens = {"bos_token": vocabulary.bos, "eos_token": vocabulary.eos}
    efforts = [word for word in EFFORTS if re.search(rf"['\"]{word}['\"]", template)]
    for effort in dict.fromkeys([*efforts, "low"]):
        yield partial(_by_jinja, template, {**tokens, **NO_THINKING, "reasoning_effort": effort}), ""
    yield partial(_by_jinja, template, {**tokens, "enable_thinking": False}), ""
    yield partial(_by_llama_cpp, template), "the form that llama.cpp takes it for is used"
    name = next((name for mark, name in BUILT_IN.items() if mark in vocabulary.controls), "chatml")
    yield partial(_by_llama_cpp, name), f"the form {name} is used instead"


@lru_cache(maxsize=4)
def _compiled(template: str) -> Any:
    """The template read by Jinja as its makers test it: with the extensions and filters that transformers gives it."""
    extensions = [Jinja2ChatFormatter.IgnoreGenerationTags, "jinja2.ext.loopcontrols"]
    environment = ImmutableSandboxedEnvironment(loader=BaseLoader(), trim_blocks=True, lstrip_blocks=True, extensions=extensions)
    environment.filters["tojson"] = Jinja2ChatFormatter.tojson
    return environment.from_string(template)


def _by_jinja(template: str, values: dict[str, Any], messages: Seq[Message], ask: bool) -> str:
    """What the template writes. Raises whatever it does."""

    def refuse(message: str) -> None:
        raise ValueError(message)

    # No date: today's in the prefix would make every cached answer expire overnight.
    functions = {"raise_exception": refuse, "strftime_now": lambda _format: ""}
    said = {"messages": list(messages), "add_generation_prompt": ask, "tools": None, "documents": None}
    return str(_compiled(template).render(**said, **functions, **values))


def _by_llama_cpp(template: str, messages: Seq[Message], ask: bool) -> str:
    """What llama.cpp writes itself in the form that a template, or a name, stands for. Raises ValueError for one it does not know."""
    encoded = [(m["role"].encode(), m["content"].encode()) for m in messages]
    turns = (llama_cpp.llama_chat_message * len(encoded))(*(llama_cpp.llama_chat_message(role, text) for role, text in encoded))
    buffer = ctypes.create_string_buffer(4096 + 2 * sum(len(text) for _, text in encoded))
    n = llama_cpp.llama_chat_apply_template(template.encode(), turns, len(encoded), ask, buffer, len(buffer))
    if not 0 <= n <= len(buffer):
        raise ValueError("llama.cpp does not know it")
    return buffer.raw[:n].decode()


def _merged(messages: Seq[Message], *, system: bool, repeats: bool) -> list[Message]:
    """The turns as a template can take them: without a system role, without two turns of one role after each other."""
    turns: list[Message] = []
    first_user = next((n for n, m in enumerate(messages) if m["role"] == "user"), -1)
    said = [m["content"] for m in messages if m["role"] == "system"] if not system else []
    for n, message in enumerate(messages):
        if message["role"] == "system" and not system:
            continue
        content = "\n\n".join([*said, message["content"]]) if n == first_user else message["content"]
        if turns and turns[-1]["role"] == message["role"] and not repeats:
            turns[-1] = turns[-1] | {"content": f"{turns[-1]['content']}\n\n{content}"}
        else:
            turns.append({"role": message["role"], "content": content})
    return turns


def _conversation(*roles: str) -> list[Message]:
    return [{"role": role, "content": f"{role} {n}"} for n, role in enumerate(roles)]


def _fitted(plain: ChatFormat) -> ChatFormat:
    """The format with what its template does not take left out. Raises what the template does where nothing helps."""
    talk = _conversation("system", "user", "assistant", "user")
    try:
        plain._written(talk, ask=True)
    except Exception:  # noqa: BLE001 — a template is somebody else's program
        plain = replace(plain, system=False)
        plain._written(talk, ask=True)
    try:
        plain._written(_conversation("system", "user", "user", "assistant", "assistant", "user"), ask=True)
    except Exception:  # noqa: BLE001 — a template is somebody else's program
        plain = replace(plain, repeats=False)
    return plain


def _opening(format_: ChatFormat, template: str) -> str:
    """What has to follow the template's beginning of an answer, so that the answer itself comes next and no thoughts.

    Where the template writes more before an answer that was given than before one that is to be given, it is that: the end of an empty
    thinking block, a channel. Else a thinking block that it leaves open is closed.
    """
    begun = format_._written(_conversation("system", "user"), ask=True)[-1].text
    thoughts = list(_THINKING.finditer(begun))
    since = begun[thoughts[-1].end() :] if thoughts else ""  # a turn that was begun anew after one for thoughts
    heads = [begun, *(since[mark.start() :] for mark in _MARK.finditer(since))]
    for roles in (("system", "user", "assistant"), ("system", "user", "assistant", "user")):
        try:
            given = format_._written(_conversation(*roles), ask=False)
        except Exception:  # noqa: BLE001 — a template may refuse to end with an answer
            continue
        own = [part.text for part in given if part.own]
        before = own[-3] if roles[-1] == "user" else own[-2]
        for head in heads:
            found, _, more = before.partition(head) if head else ("", "", before)
            if (head is not begun or not found) and more.strip() and len(more) < LONGEST_OPENING:
                return more
    return "" if len(heads) > 1 else _closed(begun, template)


def _closed(begun: str, template: str) -> str:
    """The end of the thinking block in which the beginning of an answer ends, empty where it does not."""
    marks = list(_THINKING.finditer(begun))
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
    """What the template writes between turns in plain text, such as the `[INST]` of a vocabulary that has no token for it."""
    own = [p.text for p in format_._written(_conversation("system", "user", "assistant", "user"), ask=True) if p.own]
    bare = [text for text in own[1:] if not any(mark in text for mark in vocabulary.controls)]
    lines = {line.strip() for text in bare for line in text.splitlines()}
    words = {word for text in own for piece in vocabulary.between(text) for word in _MARK.findall(piece)} if bare else set()
    return words | {line for line in lines if re.search(r"\w\W|\W\w", line)}


def _text(parts: Seq[Part]) -> str:
    return "".join(part.text for part in parts)


def _end_of_answer(text: str, asked: str, answer: str) -> int | None:
    """Where an answer to what was asked ends in the text of the conversation that goes on; the template may trim it or set it off."""
    if text.startswith(asked + answer):
        return len(asked + answer)
    given = text[len(asked) :].lstrip()
    if not text.startswith(asked) or not given.startswith(answer.strip()):
        return None
    return len(text) - len(given) + len(answer.strip())


def _after(parts: Seq[Part], done: int) -> list[Part]:
    """The parts without their first characters."""
    left = []
    for text, own in parts:
        left.append(Part(text[done:], own))
        done = max(0, done - len(text))
    return left


def _reason(error: Exception) -> str:
    """What a template says against a conversation of random words, in a line."""
    line = getattr(error, "lineno", None)
    words = " ".join(str(error).split())[:200] or type(error).__name__
    return f"line {line}: {words}" if line else words
