"""Requests that chat programs make on their own in messages, such as a title or tags; TASK_PATTERNS says what they have in common."""

import json
import re
from collections.abc import Sequence
from typing import Any

from localrag.serve.prompt_parts import read_prompt

MAX_TITLE_WORDS, MAX_TITLE_CHARS = 8, 80
MAX_READ_CHARS, MAX_TITLE_REQUEST_CHARS = 6_000, 1_000  # at each end of a message, and at its beginning; templates are short
MAX_SYSTEM_CHARS = 1_500  # of a system prompt that asks for a title
# What the instruction of each kind of request has; the first one counts. `json`: Open WebUI's, which show the object that they want.
TASK_PATTERNS = {
    "completion": re.compile(r"\{\{FILL_HERE\}\}"),
    "json": re.compile(r"\A### Task:\n(?!Respond)(?s:.*)<chat_history>|choose and return the correct tool\(s\)"),
    "query": re.compile(r"rephrase the follow ?up question to be a standalone question"),
}
_HOLE = re.compile(r"<[|｜]?fim[_▁]|<(?:PRE|SUF|MID)>|\[(?:PRE|SUF)FIX\]")  # of a completion, which has two or more
_TALK = r"(?:conversation|chat|dialogue|thread|unterhaltung|conversación|(?:previous|following) query|here is the message:)"
_TITLE = r"\b(?:title|headline|header|label|titel|titre|título)\b(?! of (?:the|a|an|this)\b(?! (?:conversation|chat)))"
_TITLE_REQUEST = re.compile(
    rf"{_TITLE}[^?]{{0,150}}\b{_TALK}|\b{_TALK} (?:[^?]{{0,150}}{_TITLE}|a name\b)|(?:会话|对话).{{0,40}}标题", re.IGNORECASE
)
_LIMIT = re.compile(r"\bonly\b|nothing else|\b(?:words?|wörter|mots|palabras|characters)\b|字", re.IGNORECASE)
_QUESTION = re.compile(r"[^.!:\n?]*+\?")
_KEY = re.compile(r'\{\s{0,9}"(title|tags|follow_ups|queries|text|prompt|tool_calls)"\s?:\s?(\[?)')
_USER_TEXT = re.compile(  # in lines that begin with a role, or in JSON
    r"(?:^[ >*_#|-]{0,6}(?:user|human|nutzer|utilisateur|usuario|用户)\*{0,2} ?[:：]\*{0,2}\s{0,3}\"{0,3}"
    r"|\"role\":\s?\"user\",\s?\"\w{1,20}\":\s?\")([^\n\"]+)",
    re.IGNORECASE | re.MULTILINE,
)
_TEXT_BEHIND = re.compile(r"(?:\A(?s:.*?):\s|\n\n)\s{0,2}(?:```\w{0,9}\s)?([^\n]+)")  # an instruction
_EMPTY_VALUES: dict[str, Any] = {"array": [], "object": {}, "boolean": False, "integer": 0, "number": 0}  # by JSON type; of others ""


def answer_client_task(messages: Sequence[tuple[str, str]], schema: dict[str, Any] | None = None) -> str | None:
    """Answer a program's own request by its (role, text), in the `schema` it sent, without a model; None for a user's conversation."""
    spoken = [(role, text) for role, text in messages if text.strip()]
    if not spoken or spoken[-1][0] not in ("user", "system", "developer"):
        return None
    prompts = [text for role, text in spoken[:-1] if role in ("system", "developer") and len(text) <= MAX_SYSTEM_CHARS]
    for prompt in (spoken[-1][1], *(text for text in prompts if not re.search(r"\banswer|回答", text, re.IGNORECASE))):
        read = prompt[:MAX_READ_CHARS] + prompt[MAX_READ_CHARS:][-MAX_READ_CHARS:]
        if kind := _kind(read, prompt):
            asked = "".join(text for role, text in spoken if role == "user" and text != prompt)
            return _task_answer(kind, read, asked, spoken[-1][1], schema)
    return None


def _kind(read: str, prompt: str) -> str:
    """Return the kind of a request by the ends of its prompt; empty for a question of the user. A document may say anything."""
    if kind := next((kind for kind, pattern in TASK_PATTERNS.items() if pattern.search(read)), ""):
        return kind
    if len(_HOLE.findall(read)) > 1:
        return "completion"
    head = prompt[:MAX_TITLE_REQUEST_CHARS]
    is_title = _TITLE_REQUEST.search(head) and _LIMIT.search(head) and not _QUESTION.match(head)
    return "title" if is_title and not read_prompt(prompt).has_attached else ""


def _task_answer(kind: str, prompt: str, asked: str, last: str, schema: dict[str, Any] | None) -> str | None:
    """Return the answer to a request of a kind after what was asked; `last`: the last message. None if there is no text to name."""
    title = _title(_USER_TEXT.search(last) or re.search(r"([^\n]+)", asked) or _TEXT_BEHIND.search(last), prompt)
    wanted: dict[str, Any] = {key: [] if is_list else "" for key, is_list in reversed(_KEY.findall(prompt))}
    if schema and isinstance(properties := schema.get("properties"), dict):
        wanted = {key: _EMPTY_VALUES.get(str(form.get("type")), "") if isinstance(form, dict) else "" for key, form in properties.items()}
    if wanted:
        return json.dumps(wanted | ({"title": title} if wanted.get("title") == "" else {}), ensure_ascii=False)
    if kind == "query":
        return str(re.findall(r"Input: ?(.*)|\Z", prompt, re.IGNORECASE)[0])
    return title or None if kind == "title" else ""


def _title(text: re.Match[str] | None, prompt: str) -> str:
    words = re.findall(r"(\d{1,3})[ -]?(?:words?|wörter|mots|palabras)\b", prompt, re.IGNORECASE)
    chars = re.findall(r"(\d{1,3}) ?(?:characters?\b|zeichen\b|个?字)", prompt, re.IGNORECASE)
    title = " ".join((text[1] if text else "").split()[: min([MAX_TITLE_WORDS, *map(int, words)])])
    return title[: min([MAX_TITLE_CHARS, *map(int, chars)])].strip(" ?.!？。！\"'“”«»")
