"""Requests to model servers as JSON: optional fields, the forms in which an answer may be asked for, room for JSON syntax and thinking.

An answer is asked for as a JSON schema for the server, then in words alone, as where a server refuses or ignores schemas. Optional fields
are those that not every server supports (llama-server, vLLM, LM Studio, Ollama); a server that rejects one gets the request without it.
"""

import json
from typing import Any

from localrag.engine.remote.refusals import JSON_SCHEMA, LEAST_REASONING
from localrag.engine.request import Request

_LOCAL_FORMS = ("items", "answer", "line")  # the only property of a schema whose local grammar is lines or plain text

# Switch thinking off: llama-server and vLLM read `chat_template_kwargs`, both and Ollama `reasoning_effort`; the templates of Granite and
# DeepSeek name the switch `thinking`.
_NO_THINKING: dict[str, Any] = {"chat_template_kwargs": {"enable_thinking": False, "thinking": False}, "reasoning_effort": "none"}
_JSON_OVERHEAD_TOKENS = 64  # braces, whitespace (llama.cpp's schema allows two line breaks and 20 spaces), a code fence
REASONING_TOKENS = 8000  # added for a model that thinks although told not to
_MAX_SHOWN_OPTIONS = 12


def request_messages(request: Request, *, in_words: bool) -> list[dict[str, str]]:
    """A request's messages, with earlier answers and the next one's shape as JSON. Where a prompt tells its JSON, only `in_words`."""
    messages, schema = list(request.messages), request.grammar.schema if request.grammar else None
    if not schema or not messages:
        return messages
    *before, last = messages
    if is_local := tuple(schema["properties"]) in [(name,) for name in _LOCAL_FORMS]:
        before = [m | {"content": _as_json(m["content"], schema)} if m["role"] == "assistant" else m for m in before]
    if not (is_local or in_words):
        return messages
    return [*before, last | {"content": f"{last['content']}\n\nAnswer with JSON of this shape and nothing else: {shape_in_words(schema)}"}]


def _as_json(text: str, schema: dict[str, Any]) -> str:
    """An answer in the form of a local grammar as the JSON that a server is asked for; each row of a list stays on a line of its own."""
    (name, part), lines = next(iter(schema["properties"].items())), text.strip().split("\n")
    fields = part.get("items", {}).get("properties", {})
    if lines[0].startswith("["):
        lines = [json.dumps(dict(zip(fields, json.loads(line), strict=False)), ensure_ascii=False) for line in lines]
    elif name == "items" and not fields:
        lines = [json.dumps(line, ensure_ascii=False) for line in lines]
    elif not lines[0].startswith("{"):
        return json.dumps({"answer" if name == "items" else name: text.strip()}, ensure_ascii=False)
    return '{"items": [\n' + "\n,\n".join(lines) + "\n]}"


def shape_in_words(schema: dict[str, Any]) -> str:
    """A JSON value of a schema with what may stand in each place."""
    if options := schema.get("enum"):
        more = " or …" * (len(options) > _MAX_SHOWN_OPTIONS)
        return " or ".join(json.dumps(option, ensure_ascii=False) for option in options[:_MAX_SHOWN_OPTIONS]) + more
    kind = schema.get("type")
    if kind == "object":
        parts = schema.get("properties", {}).items()
        return "{" + ", ".join(f"{json.dumps(name, ensure_ascii=False)}: {shape_in_words(part)}" for name, part in parts) + "}"
    if kind == "array":
        most = f" at most {schema['maxItems']}" * ("maxItems" in schema)
        return f"[{shape_in_words(schema['items'])}, …{most}]"
    if kind == "integer":
        return f"{schema['minimum']} to {schema['maximum']}" if schema.keys() >= {"minimum", "maximum"} else "a whole number"
    if kind == "string":
        return f'"… at most {schema["maxLength"]} characters"' if "maxLength" in schema else '"…"'
    return "a number"


def request_body(model: str, request: Request, without: frozenset[str], *, in_words: bool = False, extra_tokens: int = 0) -> dict[str, Any]:
    """The request as JSON. `without`: optional fields that this server rejected; `extra_tokens`: for JSON syntax and thinking."""
    s = request.sampling
    body: dict[str, Any] = {
        "model": model,
        "messages": request_messages(request, in_words=in_words),
        "max_tokens": request.max_tokens + extra_tokens,
        "temperature": s.temperature,
        "top_p": 1.0,  # servers have other defaults
        "seed": s.seed,
        "stream": True,
        "stream_options": {"include_usage": True},
        **_NO_THINKING,
    }
    if LEAST_REASONING in without and "reasoning_effort" in body:
        body["reasoning_effort"] = "low"
    if not in_words and request.grammar and request.grammar.schema:
        schema = request.grammar.schema
        shape = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, "strict": True}}
        body["response_format"] = {"type": "json_object", "schema": schema} if JSON_SCHEMA in without else shape
    if "max_tokens" in without:  # OpenAI's newer name
        body["max_completion_tokens"] = body["max_tokens"]
    return {name: value for name, value in body.items() if name not in without}


def json_tokens(request: Request) -> int:
    """Tokens of an answer's JSON syntax: callers count only the tokens of the local grammar."""
    return _JSON_OVERHEAD_TOKENS + _extra(request.grammar.schema) if request.grammar and request.grammar.schema else 0


def _extra(schema: dict[str, Any]) -> int:
    """Tokens of names, quotes and brackets in a value of a schema, and of its longest fixed value."""
    if "properties" in schema:
        return sum(len(name.encode()) // 2 + 6 + _extra(part) for name, part in schema["properties"].items())
    if schema.get("type") == "array":
        return int(schema.get("maxItems", 10)) * (3 + _extra(schema["items"]))
    return max((len(str(value).encode()) // 2 + 1 for value in schema.get("enum", [])), default=2)
