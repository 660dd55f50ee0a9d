"""A request of a chat program in any wire format: the user's question after a conversation, or a request of the program itself."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from localrag.errors import NoIndex
from localrag.filters import DocumentFilter
from localrag.query.modes import MODE_FUNCTIONS
from localrag.query.question import QueryOptions
from localrag.records import Answer
from localrag.serve.client_tasks import answer_client_task
from localrag.serve.context import ServerContext, UnknownModel, filter_text_of
from localrag.serve.prompt_parts import read_prompt
from localrag.serve.values import read_int
from localrag.store.collections import collections
from localrag.store.database import snapshot

# `localrag` chooses the mode by the question, `localrag:MODE` fixes it, `localrag/COLLECTION[:MODE]` restricts it to a collection.
MODEL_NAME = "localrag"
MAX_HISTORY_TURNS = 20  # of a conversation, read from its end
TEXT_TYPES = ("text", "input_text", "output_text")  # of the parts of a message


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A question with the conversation before it and its options; `max_tokens` cuts the text of the answer.

    `task_answer`: the answer to a request that the program made on its own, which needs no index; None for a question of the user.
    `has_attached`: the program put texts of its own into the user's message.
    """

    model: str
    question: str
    history: tuple[Answer, ...]
    options: QueryOptions
    max_tokens: int | None = None
    task_answer: str | None = None
    has_attached: bool = False


def base_model_names(site: ServerContext) -> list[str]:
    """Model names without modes: the index and each of its collections. A missing index has no collections."""
    try:
        with snapshot(site.folder) as db:
            return [MODEL_NAME, *(f"{MODEL_NAME}/{collection}" for collection in collections(db))]
    except NoIndex:
        return [MODEL_NAME]


def all_model_names(site: ServerContext) -> list[str]:
    """The index and each of its collections, in every mode."""
    return [name for base in base_model_names(site) for name in (base, *(f"{base}:{mode}" for mode in MODE_FUNCTIONS))]


async def split_model_name(name: Any, site: ServerContext) -> tuple[str, str]:
    """The base name and the mode of a model, which may be missing. Raises UnknownModel."""
    base, _, mode = str(MODEL_NAME if name is None else name).partition(":")
    if base not in await asyncio.to_thread(base_model_names, site) or (mode and mode not in MODE_FUNCTIONS):
        raise UnknownModel(f"There is no model {str(name)[:200]!r}.", "List them: GET /v1/models")
    return base, mode


async def read_chat_request(body: Mapping[str, Any], site: ServerContext) -> ChatRequest:
    """The request in a body of the chat completions API. Raises ValueError, UsageError and UnknownModel."""
    messages = body["messages"]
    if not isinstance(messages, list) or not all(isinstance(m, dict) for m in messages):
        raise ValueError("`messages` is a list of objects.")
    base, mode = await split_model_name(body.get("model"), site)
    return await asyncio.to_thread(_read_messages, body, messages, base, mode, site.max_seconds)  # they may be long


def _read_messages(
    body: Mapping[str, Any], messages: Sequence[Mapping[str, Any]], base: str, mode: str, max_seconds: float | None
) -> ChatRequest:
    spoken = [(str(m.get("role")), message_text(m)) for m in messages]
    max_tokens = _max_tokens(body)
    model, schema = str(body.get("model") or MODEL_NAME), _json_schema(body.get("response_format"))
    if (task_answer := answer_client_task(spoken, schema)) is not None:
        return ChatRequest(model, "", (), QueryOptions(), max_tokens, task_answer)
    _check_parameters(body)
    if schema is not None:
        raise ValueError("This model answers questions in Markdown: `response_format` can only be of the type text.")
    question, history, has_attached = _conversation(spoken, messages)
    seed = 0 if body.get("seed") in (None, "") else read_int("seed", body["seed"])
    selection = DocumentFilter(filter_text_of(body), (base.removeprefix(f"{MODEL_NAME}/"),) if base != MODEL_NAME else ())
    options = QueryOptions(mode or "auto", seed=seed, selection=selection, max_seconds=max_seconds)
    return ChatRequest(model, question, history, options, max_tokens, has_attached=has_attached)


def message_text(message: Mapping[str, Any]) -> str:
    """The text of a message, whose content may be a list of parts."""
    content = message.get("content")
    if isinstance(content, list):
        return "\n".join(str(p.get("text", "")) for p in content if isinstance(p, dict) and p.get("type") in TEXT_TYPES)
    return content if isinstance(content, str) else ""


def _conversation(spoken: Sequence[tuple[str, str]], messages: Sequence[Mapping[str, Any]]) -> tuple[str, tuple[Answer, ...], bool]:
    """The last question of the user, the questions and replies before it, and whether texts are attached to it. Raises ValueError."""
    turns = [n for n, (role, text) in enumerate(spoken) if role == "user" and text.strip()][-MAX_HISTORY_TURNS:]
    prompts = {n: read_prompt(spoken[n][1]) for n in turns}
    asked = [n for n in turns if prompts[n].question]
    if not turns:
        has_picture = any(m.get("role") == "user" and m.get("content") for m in messages)
        what = "Pictures, sound and files are not read. " if has_picture else ""
        raise ValueError(f"{what}No message of the user has a text.")
    if not asked:  # nothing but marked text
        return spoken[turns[-1]][1].strip(), (), False
    replies = [next((text for role, text in spoken[n + 1 :] if role == "assistant"), "") for n in asked[:-1]]
    history = tuple(Answer(prompts[n].question, reply, "mix") for n, reply in zip(asked[:-1], replies, strict=True))
    return prompts[asked[-1]].question, history, any(prompts[n].has_attached for n in turns if n >= asked[-1])


def _check_parameters(body: Mapping[str, Any]) -> None:
    """Raise ValueError for what this model cannot do, if the answer would not be what the program expects."""
    for name in ("tool_choice", "function_call"):
        if body.get(name) not in (None, "auto", "none"):
            raise ValueError(f"This model calls no tools: `{name}` can only be auto or none.")
    stop = body.get("stop")
    if stop and (not isinstance(stop, list) or any(stop)):
        raise ValueError("This model writes its answer to the end: leave out `stop`.")
    if body.get("n") is not None and read_int("n", body["n"]) != 1:
        raise ValueError("This model gives one answer: `n` can only be 1.")
    if any(body.get(name) and str(body[name]).casefold() != "false" for name in ("logprobs", "top_logprobs")):
        raise ValueError("This model gives no probabilities: leave out `logprobs`.")
    modalities = body.get("modalities")
    if body.get("audio") or (isinstance(modalities, list) and modalities != ["text"]):
        raise ValueError("This model answers in text: `modalities` can only be text.")


def _json_schema(response_format: Any) -> dict[str, Any] | None:
    if response_format is None:
        return None
    if not isinstance(response_format, dict):
        raise ValueError("`response_format` is an object.")
    kind = response_format.get("type")
    if kind == "text":
        return None
    if kind == "json_object":
        return {}
    schema = response_format.get("json_schema", response_format)
    if kind == "json_schema" and isinstance(schema, dict):
        inner = schema.get("schema")
        return inner if isinstance(inner, dict) else {}
    raise ValueError("The type of `response_format` is text, json_object or json_schema.")


def _max_tokens(body: Mapping[str, Any]) -> int | None:
    """The largest number of tokens of the answer's text; None without a limit, which programs also write as -1 or -2. Raises ValueError."""
    limits = []
    for name in ("max_completion_tokens", "max_tokens"):
        if body.get(name) not in (None, ""):
            limits.append(read_int(name, body[name]))
            if limits[-1] < 1 and limits[-1] not in (-1, -2):
                raise ValueError(f"`{name}` is a whole number of at least 1, or -1 for no limit.")
    return min((limit for limit in limits if limit > 0), default=None)
