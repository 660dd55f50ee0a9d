"""Answers of model servers: the events of a stream, and the text and JSON in what a model wrote.

A model answers in the shape of the request's schema only where the server enforces it. Otherwise it writes any of the shapes that its
prompt shows: an object, a list, one JSON object a line, plain lines, in a code block or after its thinking. All of them are read. The
filter then drops lines that the request's grammar does not allow. Accepted text is only appended to, so it can be streamed.
"""

import json
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from llguidance import LLMatcher, LLTokenizer

from localrag.engine.remote.refusals import error_in
from localrag.engine.sampler import PARSER_LIMITS, Grammar

MAX_STREAMED_CHARS = 30_000  # of what a model writes, up to which it is shown while it is written; each part is looked at as a whole
MAX_THINKING_BLOCKS = 50  # of an answer that follow one another
MAX_BROKEN_VALUES = 1000  # of an answer: each costs as much as counting the lines before it
MAX_MENDED_VALUES = 200  # of these, at most which are read again with mistakes mended
MAX_PART_CHARS = 200_000  # of a part that the grammar is asked about
_REASONING_FIELDS = ("reasoning_content", "reasoning", "thinking")
# Beginning and end of thinking, by model family; the template may have written the beginning.
_REASONING_TAGS = (
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<reasoning>", "</reasoning>"),
    ("<seed:think>", "</seed:think>"),
    ("[THINK]", "[/THINK]"),
    ("◁think▷", "◁/think▷"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
    ("<unused94>", "<unused95>"),
    ("<|channel>", "<channel|>"),  # Gemma
    ("<|channel|>analysis", "<|channel|>final<|message|>"),  # harmony: gpt-oss
    ("<|channel|>commentary", "<|channel|>final<|message|>"),
    ("<|start|>assistant<|channel|>analysis", "<|channel|>final<|message|>"),
)
_ANSWER_MARKS = ("<|start|>assistant<|channel|>final<|message|>", "<|channel|>final<|message|>", "<|START_RESPONSE|>", "<answer>")
_END_MARKS = (
    *("<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end|>", "<|return|>", "<|endoftext|>", "<|end_of_text|>", "<|END_RESPONSE|>"),
    *("<end_of_turn>", "<turn|>", "<eos>", "</s>", "</answer>", "<|assistant|>", "<|user|>", "<｜end▁of▁sentence｜>"),
)
_OPENERS = tuple(opener for opener, _ in _REASONING_TAGS)
_CLOSERS = tuple(dict.fromkeys(closer for _, closer in _REASONING_TAGS))
_LONGEST_END_MARK = max(map(len, _END_MARKS))


class MalformedResponse(Exception):
    """The answer is no JSON, no event stream, or too long; the message never quotes it."""


class NoResponse(MalformedResponse):
    """The server sent nothing."""


class EmptyResponse(MalformedResponse):
    """The model wrote nothing."""


@dataclass(slots=True)
class StreamState:
    """What a server's events have reported so far, besides the text."""

    finish_reason: str = ""
    prompt_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    choices: bool = False
    has_reasoning: bool = False
    first_text_at: float = 0.0  # time.perf_counter()
    reasoning: list[str] = field(default_factory=list)

    def read(self, event: Any) -> str:
        """The text that an event adds. Raises HttpError for an error event, MalformedResponse."""
        if error := error_in(event):
            raise error
        if not isinstance(event, dict):
            raise MalformedResponse("an answer in an unknown format")
        if isinstance(usage := event.get("usage"), dict):
            details = usage.get("prompt_tokens_details")
            self.prompt_tokens, self.output_tokens = as_count(usage.get("prompt_tokens")), as_count(usage.get("completion_tokens"))
            self.cached_tokens = as_count(details.get("cached_tokens")) if isinstance(details, dict) else 0
        choices = event.get("choices")
        if not choices:
            return ""
        choice = choices[0] if isinstance(choices, list) else None
        message = (choice.get("delta") or choice.get("message") or {}) if isinstance(choice, dict) else None
        if not isinstance(choice, dict) or not isinstance(message, dict):
            raise MalformedResponse("an answer in an unknown format")
        self.choices = True
        self.finish_reason = choice.get("finish_reason") or self.finish_reason
        if not isinstance(self.finish_reason, str):
            raise MalformedResponse("an answer in an unknown format")
        text = _text_in(message.get("content"))
        self.reasoning += filter(None, (_text_in(message.get(name)) for name in _REASONING_FIELDS))
        self.has_reasoning = self.has_reasoning or bool(self.reasoning) or text.lstrip().startswith(_OPENERS)
        if (text or self.has_reasoning) and not self.first_text_at:
            self.first_text_at = time.perf_counter()
        return text

    def why_empty(self) -> str:
        """Why there is no answer, as the end of a sentence."""
        if self.finish_reason == "content_filter":
            return "its content filter withheld the answer"
        if self.has_reasoning:
            return "the model only thought and then wrote nothing"
        return "the model wrote nothing"


def _text_in(content: Any) -> str:
    if content is not None and not isinstance(content, str):
        raise MalformedResponse("an answer in an unknown format")
    return content or ""


def as_count(value: Any) -> int:
    """A count from a server's JSON; 0 for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 50 else 0


def strip_reasoning(text: str) -> str:
    """The text after thinking blocks, whose start tag a template may have written, without end marks; empty while a block is open."""
    start = text.lstrip()
    start = start[_end_of_hidden_thinking(start) :].lstrip()
    for _ in range(MAX_THINKING_BLOCKS):
        if (opened := _opening_tags(start)) is None:
            break
        start = start.removeprefix(opened[0]).partition(opened[1])[2].lstrip()
    if start and any(mark.startswith(start) for mark in (*_OPENERS, *_ANSWER_MARKS)):
        return ""
    return _without_end_marks(start.removeprefix(next((m for m in _ANSWER_MARKS if start.startswith(m)), "")).lstrip())


def _end_of_hidden_thinking(start: str) -> int:
    """Where the first thinking ends whose start mark is missing; 0 if there is none. JSON may hold such marks as text."""
    if start.startswith(("{", "[", *_OPENERS)):
        return 0
    return min((at + len(closer) for closer in _CLOSERS if (at := start.find(closer)) >= 0), default=0)


def _opening_tags(start: str) -> tuple[str, str] | None:
    return next(((opener, closer) for opener, closer in _REASONING_TAGS if start.startswith(opener)), None)


def _without_end_marks(text: str) -> str:
    end = len(text)
    while True:
        last = end
        while last and text[last - 1].isspace():
            last -= 1
        mark = next((m for m in _END_MARKS if text.endswith(m, 0, last)), "")
        if not mark or (mark == "</s>" and "<s>" in text):  # in HTML it ends a struck-out text
            return text[:end]
        end = last - len(mark)


def _without_open_end(text: str) -> str:
    """A text that is still being written, without what may become an end mark."""
    at = text.rfind("<", -_LONGEST_END_MARK)
    return text[:at] if at >= 0 and any(mark.startswith(text[at:]) for mark in _END_MARKS) else text


class GrammarFilter:
    """Filters an answer while it arrives: `add` text, then `finish`; `accepted_text` is the part that the grammar allows."""

    def __init__(self, grammar: Grammar | None, on_kept: Callable[[str], None] | None = None) -> None:
        self.accepted_text = ""
        self.dropped_rows = 0  # that the grammar does not allow
        self._grammar, self._on_kept = grammar, on_kept
        self._text, self._parts = "", list[str]()  # what the model wrote, and its newest parts
        self._taken = 0  # parts of the grammar's form processed
        self._items: list[Any] = []  # complete ones of a list that is being written
        self._items_end = 0  # of these in the answer

    @property
    def text(self) -> str:
        """Everything that the model wrote."""
        if self._parts:
            self._text, self._parts = self._text + "".join(self._parts), []
        return self._text

    @property
    def has_reasoning(self) -> bool:
        """Whether the text begins with thinking."""
        return self.text.lstrip().startswith(_OPENERS)

    @property
    def has_answer(self) -> bool:
        """Whether anything follows the thinking."""
        return bool(strip_reasoning(self.text).strip())

    @property
    def has_hidden_start(self) -> bool:
        """Whether thinking ends in the text whose start mark is missing: it cannot be told from the answer before."""
        return _end_of_hidden_thinking(self.text.lstrip()) > 0

    def add(self, new: str) -> None:
        """Add text; with a callback, complete list items and plain text outside thinking are accepted at once."""
        self._parts.append(new)
        if self._on_kept is None or len(self._text) > MAX_STREAMED_CHARS:
            return
        answer = strip_reasoning(self.text)
        if self._grammar is None:
            answer = _without_open_end(answer)
            if answer.startswith(self.accepted_text):  # else thinking has ended whose start mark is missing
                self._keep(answer)
        elif self._grammar.from_json and self._read_items(answer):
            try:
                self._accept_parts(self._grammar, self._grammar.from_json({"items": self._items}))
            except (KeyError, TypeError, ValueError, AttributeError):
                return  # incomplete or malformed: `finish` decides

    def _read_items(self, answer: str) -> bool:
        before, (head, bracket, _) = len(self._items), answer.partition("[")
        if not bracket or "".join(head.split()) != '{"items":':
            return False
        self._items_end = self._items_end or len(head) + 1
        while rest := answer[self._items_end :].lstrip(" \t\r\n,"):
            try:
                item, end = json.JSONDecoder().raw_decode(rest)
            except (ValueError, RecursionError):
                break
            if not isinstance(item, (dict, str)):  # a number may continue
                break
            self._items.append(item)
            self._items_end = len(answer) - len(rest) + end
        return len(self._items) > before

    def finish_cut(self) -> str:
        """An answer that its limit cut off, as far as it is known to be one: complete items of a list, all of a plain text."""
        if self._grammar is None:
            self._keep(strip_reasoning(self.text))
        return self.accepted_text if self._on_kept else self.text

    def finish(self, reasoning: str = "") -> str:
        """The whole answer in the grammar's form; where it is empty, JSON in `reasoning` is read in its place.

        Raises MalformedResponse if the grammar allows none of it, if its rows are all of another form, or if there is none.
        """
        text = strip_reasoning(self.text)
        if not text.strip() and self._grammar and (answer := strip_reasoning(reasoning)).startswith(("{", "[")):
            text = answer
        if not text.strip():
            raise EmptyResponse("nothing")
        if self._grammar is None:
            self._keep(text)
        else:
            self._finish(self._grammar, text)
        try:
            self.accepted_text.encode()
        except UnicodeEncodeError as error:
            raise MalformedResponse("half a character") from error
        return self.accepted_text

    def _finish(self, grammar: Grammar, text: str) -> None:
        try:
            value = read_value(text, grammar.schema or {}) if grammar.from_json else None
            if not _has_row_of(grammar.schema or {}, value):
                raise ValueError("no row of the schema")
            parts = grammar.from_json(value) if grammar.from_json else [text]
            self._accept_parts(grammar, parts)
        except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
            raise MalformedResponse(f"not of the form asked for, in {len(text)} characters") from error
        lark = grammar.next_grammar(self.accepted_text)
        if lark is not None and not _accepts(lark, ""):
            raise MalformedResponse(f"nothing that was asked for, in {len(text)} characters")

    def _accept_parts(self, grammar: Grammar, parts: list[str]) -> None:
        for part in parts[self._taken :]:
            lark = grammar.next_grammar(self.accepted_text)
            if lark is not None and len(part) <= MAX_PART_CHARS and _accepts(lark, part):
                self._keep(self.accepted_text + part)
            else:
                self.dropped_rows += 1
            self._taken += 1

    def _keep(self, text: str) -> None:
        if text != self.accepted_text and self._on_kept:
            self._on_kept(text)
        self.accepted_text = text


def _has_row_of(schema: dict[str, Any], value: Any) -> bool:
    """Whether a list has a row with the schema's fields; also for an empty list, or another schema."""
    row = schema.get("properties", {}).get("items", {}).get("items", {})
    rows = value["items"] if "properties" in row and isinstance(value, dict) else []
    return not rows or any(isinstance(part, dict) and part.keys() >= row["properties"].keys() for part in rows)


def _accepts(lark: str, text: str) -> bool:
    matcher = LLMatcher(_byte_tokenizer(), lark, log_level=0, limits=PARSER_LIMITS)
    return not matcher.is_error() and matcher.consume_tokens(list(text.encode())) and bool(matcher.is_accepting())


@cache
def _byte_tokenizer() -> Any:
    return LLTokenizer("byte")


def read_value(text: str, schema: dict[str, Any]) -> Any:
    """The value of a schema in an answer of any usual shape: objects, arrays, lines, under other names. Raises ValueError, KeyError."""
    properties = schema.get("properties", {})
    values = _json_values(text)
    if list(properties) == ["items"]:
        return {"items": _rows_in(text, values, properties["items"]["items"])}
    if list(properties) == ["answer"] and "enum" in properties["answer"]:
        return {"answer": _choice(text, values, properties["answer"]["enum"])}
    if list(properties) == ["line"]:
        return {"line": _line_in(text, values)}
    return _object(values, properties)


def _json_values(text: str) -> list[Any]:
    """The objects and arrays in a text. Where something cannot be read, usual mistakes are mended, if that gives fewer failures."""
    values, failures = _strict_values(text)
    if 0 < failures <= MAX_MENDED_VALUES:
        mended, remaining = _strict_values(_repaired_json(text))
        return mended if remaining < failures else values
    return values


def _strict_values(text: str) -> tuple[list[Any], int]:
    """The values in a text, and how often a bracket began none; work is limited, as brackets that never close would be read to the end."""
    values: list[Any] = []
    decoder, position, failures, budget = json.JSONDecoder(strict=False), 0, 0, 10_000 + 4 * len(text)
    while budget > 0 and failures < MAX_BROKEN_VALUES and (start := _BRACKET.search(text, position)):
        try:
            value, position = decoder.raw_decode(text, start.start())
        except (ValueError, RecursionError) as error:
            position, failures = start.end(), failures + 1
            budget -= error.pos - start.start() if isinstance(error, json.JSONDecodeError) else len(text) // 8
        else:
            values.append(value)
    return values, failures


_BRACKET = re.compile(r"[\[{]")
_STRING = re.compile(r"""(?<=[{\[,:])(\s{0,20})(["'“”‘’])(.{0,500}?)["'“”‘’](?=\s{0,20}[,:}\]])""")
_BARE_NAME = re.compile(r"(?<=[{,])(\s{0,20})([A-Za-z_]\w{0,60})(?=\s{0,20}:)")
_TRAILING_COMMA = re.compile(r",(?=\s{0,20}[}\]])")


def _repaired_json(text: str) -> str:
    """A text whose JSON has no trailing commas, and double quotes around its names and texts."""

    def quoted(found: re.Match[str]) -> str:
        space, mark, inner = found.groups()
        return space + (
            f'"{inner}"' if mark == '"' and _ESCAPED.fullmatch(inner) else json.dumps(inner.replace("\\'", "'"), ensure_ascii=False)
        )

    return _TRAILING_COMMA.sub("", _BARE_NAME.sub(r'\1"\2"', _STRING.sub(quoted, text)))


_ESCAPED = re.compile(r'(?:[^"\\]|\\.)*')


def _is_json(text: str) -> bool:
    return text.lstrip().removeprefix("```json").removeprefix("```").lstrip().startswith(("{", "["))


def _rows_in(text: str, values: Sequence[Any], row: dict[str, Any]) -> list[Any]:
    """The rows of a list: objects with the fields of `row`, or texts."""
    names = list(row.get("properties", ()))
    if not names:
        return [part for value in values for part in _texts(value)] if values and _is_json(text) else _plain_lines(text)
    if not values:
        raise ValueError("no JSON")
    return [part for value in values for part in _objects(value, names)]


def _objects(value: Any, names: Sequence[str], depth: int = 0) -> list[Any]:
    """A list of as many plain values as there are names is a row; an object of objects is a list of rows."""
    if isinstance(value, dict):
        return _objects_of(value, names, depth)
    if not isinstance(value, list):
        return [value]
    if len(value) == len(names) and not any(isinstance(part, (dict, list)) for part in value):
        return [dict(zip(names, value, strict=True))]
    return [row for part in value for row in (_objects(part, names, depth + 1) if isinstance(part, list) and depth < 3 else [part])]


def _objects_of(value: dict[str, Any], names: Sequence[str], depth: int) -> list[Any]:
    if value.keys() & set(names):
        return [value]
    if lists := [part for part in value.values() if isinstance(part, list)]:
        return _objects(value["items"] if isinstance(value.get("items"), list) else lists[-1], names, depth)
    return [value]


def _texts(value: Any) -> list[Any]:
    if isinstance(value, dict):
        parts = value.get("items", next((part for part in value.values() if isinstance(part, list)), None))
        return _texts(parts) if isinstance(parts, list) else [part for part in value.values() if isinstance(part, str)][:1]
    return [text for part in value for text in (_texts(part) if isinstance(part, dict) else [part])] if isinstance(value, list) else []


def _plain_lines(text: str) -> list[str]:
    lines = (re.sub(r"^\s{0,20}(?:[-*•–]|\d{1,3}[.):])\s+", "", line).strip().strip('"“”`').strip() for line in text.split("\n"))
    return [line for line in lines if line and line != "json" and not line.endswith(":")]


def _choice(text: str, values: Sequence[Any], options: Sequence[Any]) -> Any:
    """The option that an answer names: in its JSON, as its whole text, or the only one in its last line."""
    told = [part for value in values if isinstance(value, dict) for part in ([value["answer"]] if "answer" in value else value.values())]
    if values and told:
        text = str(told[0])
    by_word = {str(option).casefold(): option for option in options}
    lines = _plain_lines(text.replace("*", ""))
    whole = " ".join(lines).casefold().strip(" .!'\"")
    if whole in by_word:
        return by_word[whole]
    last = dict.fromkeys(w for w in re.findall(r"\w+", lines[-1].casefold()[-200:]) if w in by_word) if lines else {}
    if len(last) != 1:
        raise ValueError("no option")
    return by_word[next(iter(last))]


def _line_in(text: str, values: Sequence[Any]) -> str:
    for value in values if _is_json(text) else ():
        if isinstance(value, dict) and (told := [part for part in (value.get("line"), *value.values()) if isinstance(part, str)]):
            return told[0]
    lines = [] if _is_json(text) else _plain_lines(text)
    if not lines:
        raise ValueError("no line")
    return lines[0]


def _object(values: Sequence[Any], properties: dict[str, Any]) -> Any:
    """The object with most of the properties; also one under a name or in a list, the rows of its only list, or a row for each property."""
    parts = [part for value in values for part in (value if isinstance(value, list) else [value]) if isinstance(part, dict)]
    parts += [inner for part in parts for inner in part.values() if isinstance(inner, dict)]
    best = max(parts, key=lambda part: len(part.keys() & properties.keys()), default=None)
    if best is not None and best.keys() & properties.keys():
        return best
    lists = [name for name, part in properties.items() if part.get("type") == "array"]
    if len(properties) == 1 and lists and values:
        return {lists[0]: parts or values[0]}
    named = {part["name"]: part.get("type") for part in parts if isinstance(part.get("name"), str) and part["name"] in properties}
    if not named:
        raise ValueError("no object")
    return named
