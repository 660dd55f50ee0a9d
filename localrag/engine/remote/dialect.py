"""What a request says to a server, and what a server's events say, in the dialects of llama-server, vLLM, LM Studio and Ollama.

Fields that not every server knows are optional. llama-server and Ollama pass over what they do not know, vLLM over fields but not over
values; a server that refuses one is asked again without it, and that is remembered for it.
"""

import re
from dataclasses import dataclass
from typing import Any

from localrag.engine.remote.server import Malformed, Refused, refused
from localrag.engine.request import Request

# Thinking off: llama-server and vLLM read `chat_template_kwargs`, both and Ollama `reasoning_effort`; Granite's and DeepSeek's templates
# call the switch `thinking`.
_OPTIONAL: dict[str, Any] = {
    "chat_template_kwargs": {"enable_thinking": False, "thinking": False},
    "reasoning_effort": "none",
    "stream_options": {"include_usage": True},
}
_NAMED_BY = {"chat_template_kwargs": "chat_template", "reasoning_effort": "reasoning", "stream_options": "stream_options", "seed": "seed"}
_LEAST = "reasoning_effort=none"  # where this value is refused, the least there is is asked for: gpt-oss always thinks
_WRAPPING = 64  # tokens: braces, line breaks between them (llama.cpp's schema allows two and 20 spaces), a fence around it all
_THINKING = 2000  # tokens more for a model that thinks whatever it is told; its answer comes after
_TOO_LONG = re.compile(r"context (length|size|window)|maximum context|prompt is too long|too many tokens")


def body_of(model: str, request: Request, without: frozenset[str], *, spare: bool = True, thinks: bool = False) -> dict[str, Any]:
    """The request as JSON. `without` are optional fields that this server refused; `spare`: with the tokens that JSON and thinking need."""
    s = request.sampling
    body: dict[str, Any] = {
        "model": model,
        "messages": list(request.messages),
        "max_tokens": request.max_tokens + (json_tokens(request) + _THINKING * thinks if spare else 0),
        "temperature": s.temperature,
        "top_p": s.top_p,
        "seed": s.seed,
        "stream": True,
        **_OPTIONAL,
    }
    if s.min_p:
        body["min_p"] = s.min_p
    if _LEAST in without:
        body["reasoning_effort"] = "low"
    if request.stop:
        body["stop"] = list(request.stop)
    if request.grammar and request.grammar.schema:
        shape = {"name": "answer", "schema": request.grammar.schema, "strict": True}
        body["response_format"] = {"type": "json_schema", "json_schema": shape}
    return {name: value for name, value in body.items() if name not in without}


def next_without(error: Refused, body: dict[str, Any], without: frozenset[str]) -> frozenset[str] | None:
    """What to leave out after a refusal: what its words name, else everything optional; None where nothing is left to leave out."""
    if error.status not in (400, 422):
        return None
    named = [name for name, word in _NAMED_BY.items() if name in body and word in error.words]
    if named == ["reasoning_effort"] and _LEAST not in without:
        return without | {_LEAST}
    left = named or [name for name in _NAMED_BY if name in body]
    return without | set(left) if left else None


def too_long(error: Refused) -> bool:
    """Whether a server refused a request because it does not fit its window."""
    return error.status in (400, 413, 422) and (error.kind == "exceed_context_size_error" or bool(_TOO_LONG.search(error.words)))


def json_tokens(request: Request) -> int:
    """Tokens to allow for what an answer's JSON has beyond the answer: callers count what the local grammar would write."""
    return _WRAPPING + _extra(request.grammar.schema) if request.grammar and request.grammar.schema else 0


def _extra(schema: dict[str, Any]) -> int:
    """Tokens of names, quotes and brackets that a value of a schema may have, and of its longest fixed value."""
    if "properties" in schema:
        return sum(len(name.encode()) // 2 + 6 + _extra(part) for name, part in schema["properties"].items())
    if schema.get("type") == "array":
        return int(schema.get("maxItems", 10)) * (3 + _extra(schema["items"]))
    return max((len(str(value).encode()) // 2 + 1 for value in schema.get("enum", [])), default=2)


@dataclass(slots=True)
class Told:
    """What a server's events have told so far, beside the text itself."""

    ended: str = ""
    prompt_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    choices: bool = False
    thought: bool = False

    def read(self, event: Any) -> str:
        """The text that an event adds. Raises Refused for an event that is an error, Malformed."""
        if not isinstance(event, dict):
            raise Malformed("an answer in an unknown form")
        if error := event.get("error"):
            status = whole(error.get("code")) if isinstance(error, dict) else 0
            raise refused(status if 400 <= status < 600 else 500, error)
        if isinstance(usage := event.get("usage"), dict):
            details = usage.get("prompt_tokens_details")
            self.prompt_tokens, self.output_tokens = whole(usage.get("prompt_tokens")), whole(usage.get("completion_tokens"))
            self.cached_tokens = whole(details.get("cached_tokens")) if isinstance(details, dict) else 0
        choices = event.get("choices")
        if not choices:
            return ""
        choice = choices[0] if isinstance(choices, list) else None
        said = (choice.get("delta") or choice.get("message")) if isinstance(choice, dict) else None
        if not isinstance(choice, dict) or not isinstance(said or {}, dict):
            raise Malformed("an answer in an unknown form")
        self.choices = True
        self.ended = choice.get("finish_reason") or self.ended
        text = (said or {}).get("content") or ""
        if not isinstance(text, str) or not isinstance(self.ended, str):
            raise Malformed("an answer in an unknown form")
        self.thought = self.thought or "<think>" in text or any((said or {}).get(name) for name in ("reasoning_content", "reasoning"))
        return text


def whole(value: Any) -> int:
    """A count as a server tells it; 0 for what is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 50 else 0
