"""Requests that chat programs make on their own: a title, tags, follow-up questions, search queries, a summary, a completion.

They come as ordinary messages. A message counts as such a request by its parts, whatever its words: it asks for one of these things, says
that it is about a conversation, limits the form of the answer, and brings the conversation along (or refers to the one before it). Each
sign alone also occurs in questions of users; a rule with fewer of them would keep questions from the index.
"""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from localrag.serve.prompt_parts import AttachedBlock, fenced_blocks, outermost, outside_text, ruled_blocks, tagged_blocks
from localrag.text.markdown import neutralize

Utterance = tuple[str, str]  # "user" or "assistant", and the text
MAX_TITLE_WORDS = 8
MAX_TITLE_CHARS = 80
MAX_INSTRUCTION_CHARS = 12_000  # read of a request's instruction, which templates keep short
MAX_SYSTEM_CHARS = 1_500  # of a system prompt that is a request by itself
MAX_SUMMARY_TURNS, MAX_SUMMARY_CHARS = 12, 300  # of a summary, and of each text in it
VERB_REACH = 12  # words from a verb to what it asks for

_VERBS = frozenset(
    "generate create write give suggest provide produce propose reply respond return make choose extract name summarize summarise output"
    " assign draft compose craft formulate rephrase condense rewrite turn convert predict recommend list devise invent pick find think"
    " label come categorize entitle erstelle erstellen erzeuge erzeugen generiere generieren schreibe schreib gib formuliere fasse nenne"
    " schlage finde vergib verfasse génère générez donne donnez écris écrivez crée créez résume résumez rédige rédigez trouve genera"
    " genere escribe escriba crea cree propón proponga resume resuma redacta sugiere".split()
)
_CONVERSATION = (
    "(?:conversations?|chats?|dialog(?:ue)?s?|discussion|messages?|exchange|transcript|thread|unterhaltung|gesprächs?|chatverlaufs?"
    "|nachricht(?:en)?|échange|conversación|mensajes?|diálogo)"
)
_NUMBER = r"(?:\d{1,4}|one|two|three|four|five|six|seven|eight|nine|ten|twenty|fifty|hundred)"
_AMOUNT = rf"(?:(?:at|up|no|about|max|maximum|exactly) |{_NUMBER}\b)"
_WEAK_TITLE = "(?:name|subject|topic|heading|label|caption|namen|nom|nombre)"  # names are given to much else
_OF_ELSE = rf"(?! of (?!(?:\w+ ){{0,3}}{_CONVERSATION}\b|{_AMOUNT}))"  # not "the title of the contract"
# In the words from a verb on, with one space between them. The first kind in this order counts.
_KINDS = {
    "text": r"\b(?:autocomplet\w*|continue the text)",
    "queries": r"\bstandalone|\bsearch (?:query|queries|terms|keywords)|\bsuchanfragen?\b",
    "follow_ups": r"\bfollow ?ups\b|\bfollow ?up (?:questions|prompts)|\b(?:folge|anschluss)fragen"
    r"|\b(?:questions|prompts|replies)\b.* (?:next|user)\b",
    "tags": r"\b(?:tags|keywords|hashtags|categories|schlagwörter|stichwörter|étiquettes|etiquetas)\b",
    "title": rf"\b(?:titles?|header|headline|titel|überschrift|titre|título|titulo)\b{_OF_ELSE}"
    rf"|\b{_CONVERSATION}\b.* {_WEAK_TITLE}\b|\b{_WEAK_TITLE}\b{_OF_ELSE} (?:(?!and |und |et |y )\w+ ){{0,9}}?{_CONVERSATION}\b"
    rf"|^(?:name|label|entitle) (?:\w+ )?{_CONVERSATION}\b",
    "summary": r"\b(?:summary|summaries|recap|zusammenfassung|résumé|resumen)\b"
    rf"|^(?:summari[sz]e|condense|fasse|résume|résumez|resume|resuma) (?:\w+ ){{0,5}}?{_CONVERSATION}\b",
    "emoji": r"\bemojis?\b",
}
_KIND_PATTERNS = {kind: re.compile(pattern) for kind, pattern in _KINDS.items()}
_ANY_CONVERSATION = re.compile(rf"\b{_CONVERSATION}\b|对话|会话|聊天|消息|会話", re.IGNORECASE)
_ANY_CONVERSATION_OR_QUERY = re.compile(
    rf"{_ANY_CONVERSATION.pattern}"
    r"|\b(?:the|this|user['’]?s) (?:following |previous |above |user['’]?s )?(?:query|prompt|question|request)\b",
    re.IGNORECASE,
)
# The one before: "our conversation", "the discussion", but not "the discussion in the minutes".
_CONVERSATION_BEFORE = re.compile(
    rf"\b(?:this|our|these|above|previous|preceding|diese[rs]?|unsere?[rs]?|cette|notre|esta|nuestra) {_CONVERSATION}\b"
    rf"|\bthe (?:chat |whole |entire )?{_CONVERSATION}\b(?! (?:in|of|at|between|with|about|on)\b)|对话|会话|聊天|会話",
    re.IGNORECASE,
)
_HAN_KINDS = {
    "title": re.compile(r"(?:生成|起|取|给出|写|提供|总结|概括|命名|拟)[^。！？\n]{0,40}?(?:标题|题目|名称|名字)"),
    "tags": re.compile(r"(?:生成|给出|提供|提取)[^。！？\n]{0,40}?(?:标签|关键词)"),
    "follow_ups": re.compile(r"(?:生成|给出|提供|建议|推荐)[^。！？\n]{0,40}?(?:追问|后续问题)"),
    "summary": re.compile(r"(?:总结|概括|摘要)[^。！？\n]{0,40}?(?:对话|聊天|会话)"),
}
_STRICT = re.compile(
    r"\b(?:only|just|nothing else|json|nur|höchstens|maximal|sans|seulement|solo|únicamente)\b"
    r"|\b(?:no|without|any|ohne|keine?|sin) "
    r"(?:quot|punct|expla|addit|extra|lead|other|further|format|prefix|surround|anführ|satz|erkl|comillas)"
    rf"|\b{_NUMBER}\b[ -]{{0,2}}(?:words?|characters?|chars|wörter|zeichen|mots|palabras)\b"
    r"|\b(?:or (?:less|fewer)|at most|maximum|max)\b|只|仅|不超过|以内|不要|字左右|直接返回",
    re.IGNORECASE,
)
_LOOSE = re.compile(r"\b(?:concise|short|brief|briefly|kurze?n?|courte?|concis|breve)\b|简短|简洁", re.IGNORECASE)
_ROLE_LINE = re.compile(
    r"^[ \t>*_#|-]{0,6}(?:role[ \t]?[:=][ \t]?)?"
    r"(user|human|me|nutzer|benutzer|utilisateur|usuario|用户|ユーザー|assistant|ai|bot|model|chatgpt|助手)"
    r"\*{0,2}[ \t]{0,2}(?:[:：]\*{0,2}|$)",
    re.IGNORECASE | re.MULTILINE,
)
_USERS = frozenset("user human me nutzer benutzer utilisateur usuario 用户 ユーザー".split())
_JSON_ROLE = re.compile(r"[\"']role[\"']\s{0,4}:\s{0,4}[\"'](?:user|human)[\"']", re.IGNORECASE)
_JSON_KEY = re.compile(
    r"[{,][^\S\n]{0,8}\n?[^\S\n]{0,8}[\"'](title|tags|follow_ups|queries|text|prompt|tool_calls|summary|emoji|language)[\"'][^\S\n]{0,4}:"
)
_HOLES = re.compile(
    r"<\|?(?:fim|file)_(prefix|suffix|middle)\|?>|<｜fim▁(begin|hole|end)｜>|<(PRE|SUF|MID)>|\[(PREFIX|SUFFIX|MIDDLE)\]|\{\{(FILL_HERE)\}\}"
)
_FOLLOW_UP_LABEL = re.compile(
    r"^[ \t]{0,4}(?:follow[- ]?up|latest|last|current|new)[ \t](?:input|question|message|query)[ \t]?:[ \t]?(.+)$",
    re.IGNORECASE | re.MULTILINE,
)
_FIRST_SENTENCE = re.compile(r"[^.!?。！？:：\n]{0,400}[?？](?:\s|\Z)")  # that is a question
_CONVERSATION_TAG = re.compile(r"chat|conversation|dialog|message|transcript")
_INSTRUCTION_TAG = re.compile(r"instruction|rules|guideline|outputformat|system")
_ATTACHED_TAG = re.compile(r"context|source|document|file|attach|environment|knowledge|reference|search|result")
_LAST_STUB = re.compile(r"\n[^\n:：]{1,40}[:：][ \t]*\Z")  # "Title:", which the model is to complete
_OLD_SUMMARY = re.compile(r"^[ \t]{0,4}(?:current|previous|existing|old)[ \t]summary[ \t]?:[ \t]*", re.IGNORECASE | re.MULTILINE)
_MAX_WORDS = re.compile(r"(?:(\d{1,3})\s?(?:-|–|to)\s?)?(\d{1,3})[ -]?words?\b", re.IGNORECASE)
_MAX_CHARS = re.compile(r"(\d{1,3})[ -]?(?:characters?|chars|zeichen)\b|(\d{1,3})\s?个?(?:字|字符)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ClientTask:
    """A chat program's own request: its kind, the keys of the JSON object that it wants (none: plain text), and the conversation."""

    kind: str
    keys: tuple[str, ...]
    instruction: str
    utterances: tuple[Utterance, ...]


def answer_client_task(messages: Sequence[Utterance], schema: dict[str, Any] | None = None) -> str | None:
    """The answer to a chat program's own request, without index and model; None if the messages are a conversation of the user.

    `messages` are (role, text). `schema`: the JSON schema that the answer has to have, if the program sent one.
    """
    task = find_client_task(messages)
    return None if task is None else _answer_task(task, schema)


def find_client_task(messages: Sequence[Utterance]) -> ClientTask | None:
    """The request that a chat program makes with the last message, or with its system prompt about the messages; None without one."""
    spoken = [(role, text) for role, text in messages if text.strip()]
    if not spoken or spoken[-1][0] not in ("user", "system", "developer"):
        return None
    last = spoken[-1][1]
    history = tuple((role, text) for role, text in spoken[:-1] if role in ("user", "assistant"))
    if len({next(filter(None, hole.groups())) for hole in _HOLES.finditer(last)}) > 1 or "{{FILL_HERE}}" in last:
        return ClientTask("completion", (), "", ())
    if (task := _task_of_message(last, history)) is not None:
        return task
    system = "\n\n".join(text for role, text in spoken[:-1] if role in ("system", "developer"))
    return _task_of_system(system, last, history) if system else None


def _task_of_message(message: str, history: tuple[Utterance, ...]) -> ClientTask | None:
    """The request in a message, which holds the conversation, or refers to the one before it."""
    blocks = outermost([*tagged_blocks(message), *fenced_blocks(message)])
    if any(block.is_question for block in blocks):
        return None
    blocks = [block for block in blocks if not _INSTRUCTION_TAG.search(block.name)] or ruled_blocks(message)
    outside = outside_text(message, blocks)
    instruction = _instruction(outside)
    kind, keys, is_strict = _kind_of(instruction), _json_keys(instruction), _is_strict(instruction)
    transcript = _transcript(outside, blocks)
    if _FIRST_SENTENCE.match(instruction):
        return None
    if transcript and keys and (kind or instruction.startswith("#") or "task" in instruction.casefold()):
        return ClientTask(kind or keys[0], keys, instruction, transcript)
    asked = _ANY_CONVERSATION if kind not in ("title", "tags", "emoji") or not is_strict else _ANY_CONVERSATION_OR_QUERY
    is_about_talk = asked.search(instruction) or any(_CONVERSATION_TAG.search(block.name) for block in blocks)
    if not kind or not is_about_talk:
        return None
    if transcript:
        is_limited = is_strict or _LOOSE.search(instruction) or kind in ("queries", "summary", "emoji")
    else:
        is_limited = is_strict or kind == "emoji"
        transcript = _rest_of_instruction(instruction, kind) or (history if _points_back(instruction) else ())
    return ClientTask(kind, keys, instruction, transcript) if is_limited and transcript else None


def _instruction(outside: str) -> str:
    """A message without its blocks, up to the first line that begins with a role, and the last line."""
    role = _ROLE_LINE.search(outside)
    if role:
        outside = outside[: role.start()] + "\n" + outside[outside.rstrip().rfind("\n") + 1 :]
    return outside[:MAX_INSTRUCTION_CHARS].strip()


def _is_strict(instruction: str) -> bool:
    """Whether an instruction limits the form of the answer."""
    return instruction.startswith("#") or bool(_STRICT.search(instruction))


def _task_of_system(system: str, last: str, history: tuple[Utterance, ...]) -> ClientTask | None:
    """The request in a system prompt about the user's messages: about the last one if that is a conversation, else a title of them all."""
    kind, keys = _kind_of(system[:MAX_INSTRUCTION_CHARS]), _json_keys(system[-MAX_INSTRUCTION_CHARS:])
    blocks = outermost([*tagged_blocks(last), *fenced_blocks(last)])
    # A block alone is no conversation here: a question with code would be taken for a request of a long system prompt.
    is_conversation = bool(_ROLE_LINE.search(last) or _JSON_ROLE.search(last))
    transcript = _transcript(outside_text(last, blocks), blocks) if is_conversation else ()
    if transcript and keys and (kind or "task" in system.casefold()):
        return ClientTask(kind or keys[0], keys, system, transcript)
    if not kind or not _ANY_CONVERSATION.search(system) or not _STRICT.search(system):
        return None
    if transcript:
        return ClientTask(kind, keys, system, transcript)
    is_only_task = kind == "title" and len(system) <= MAX_SYSTEM_CHARS and not re.search(r"\banswer|回答|antwort", system, re.IGNORECASE)
    said = [turn for turn in (*history, ("user", last)) if turn[0] != "user" or not (_kind_of(turn[1]) and _points_back(turn[1]))]
    return ClientTask(kind, keys, system, tuple(said)) if is_only_task and said else None


def _lower_words(text: str) -> list[str]:
    return re.findall(r"[^\W_]+", text.casefold())


def _kind_of(instruction: str) -> str:
    """The kind of thing that an instruction asks for; empty if it is none that chat programs need."""
    words = _lower_words(instruction)
    kinds = {"text"} if _KIND_PATTERNS["text"].search(" ".join(words)) else set()
    kinds |= {"emoji"} if "expression" in words and {"emoji", "emojis"} & set(words) else set()
    kinds |= {kind for kind, pattern in _HAN_KINDS.items() if pattern.search(instruction)}
    for n, word in enumerate(words):
        if word in _VERBS:
            reach = " ".join(words[n : n + VERB_REACH + 1])
            kinds |= {kind for kind, pattern in _KIND_PATTERNS.items() if pattern.search(reach)}
    return next((kind for kind in _KINDS if kind in kinds), "")


def _points_back(instruction: str) -> bool:
    """Whether an instruction without a conversation means the one before it."""
    return bool(_CONVERSATION_BEFORE.search(" ".join(instruction.split())))


def _json_keys(instruction: str) -> tuple[str, ...]:
    """The keys of the JSON object that an instruction shows, without repetition."""
    return tuple(dict.fromkeys(match[1] for match in _JSON_KEY.finditer(instruction)))


def _rest_of_instruction(instruction: str, kind: str) -> tuple[Utterance, ...]:
    """The text that follows an instruction of one paragraph, or its last colon; a summary or a query needs more than that."""
    first, _, rest = instruction.partition("\n")
    if not rest.strip():
        _, _, behind = first.rpartition(": ")
        rest = behind if len(behind.split()) > 1 and behind != first else ""
    return (("user", rest.strip()),) if rest.strip() and kind not in ("summary", "queries") else ()


def _transcript(outside: str, blocks: Sequence[AttachedBlock]) -> tuple[Utterance, ...]:
    """The conversation that a message holds: in a block, in lines that begin with a role, or as JSON. Attached documents are none."""
    parts = [block.text for block in blocks if not _ATTACHED_TAG.search(block.name)]
    for text in (*parts, outside):
        if _ROLE_LINE.search(text) or _JSON_ROLE.search(text):
            return _utterances(text)
    longest = max(parts, key=len, default="").strip()
    return (("user", longest),) if longest else ()


def _utterances(text: str) -> tuple[Utterance, ...]:
    """What was said by whom in a conversation as JSON, or in lines that begin with a role."""
    if json_role := _JSON_ROLE.search(text):
        start, end = text.rfind("[", 0, json_role.start()), text.rfind("]")
        try:
            rows = json.loads(text[start : end + 1])
        except (ValueError, RecursionError):
            rows = []
        said = [(str(row.get("role")), _row_text(row)) for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
        if said := [(role, words) for role, words in said if words]:
            return tuple(said)
    roles = list(_ROLE_LINE.finditer(text))
    if not roles:
        return (("user", text.strip()),)
    text = _LAST_STUB.sub("", text.rstrip())
    ends = [role.start() for role in roles[1:]] + [len(text)]
    parts = ((_role(role[1]), text[role.end() : end].strip().strip('"').strip()) for role, end in zip(roles, ends, strict=True))
    return tuple((who, said) for who, said in parts if said)


def _row_text(row: dict[str, Any]) -> str:
    return next((row[key].strip() for key in ("content", "mainText", "text", "message") if isinstance(row.get(key), str)), "")


def _role(label: str) -> str:
    return "user" if label.casefold() in _USERS else "assistant"


def _answer_task(task: ClientTask, schema: dict[str, Any] | None) -> str:
    """A request's answer, as JSON if it wants that."""
    properties = schema.get("properties") if schema else None
    if isinstance(properties, dict) and properties:
        values = {key: _value(task, key, _json_type(part)) for key, part in properties.items()}
        return json.dumps(values, ensure_ascii=False)
    if task.keys:
        return json.dumps({key: _value(task, key, None) for key in task.keys}, ensure_ascii=False)
    value = _value(task, task.kind, None)
    return value if isinstance(value, str) else _last_question(task) if task.kind == "queries" else ""


def _json_type(part: Any) -> str | None:
    """The JSON type of a property, the first one of several; None if the schema does not say."""
    kind = part.get("type") if isinstance(part, dict) else None
    kinds = kind if isinstance(kind, list) else [kind]
    return next((k for k in kinds if isinstance(k, str) and k != "null"), None)


def _value(task: ClientTask, key: str, kind: str | None) -> Any:
    """The value of a key of a request's answer, of the JSON type `kind` if one is given."""
    makers: dict[str, Callable[[], Any]] = {
        "title": lambda: _title(task),
        "summary": lambda: _summary(task),
        "emoji": lambda: "💬",
        "tags": list,
        "follow_ups": list,
        "queries": list,
        "tool_calls": list,
    }
    made = makers.get(key, str)()
    empty: dict[str | None, Any] = {"array": [], "object": {}, "boolean": False, "integer": 0, "number": 0, "string": ""}
    wanted = empty.get(kind, made)
    return made if type(made) is type(wanted) else wanted


def _title(task: ClientTask) -> str:
    """The first words of the conversation, as many as the request allows."""
    said = next((text for role, text in task.utterances if role == "user"), "") or next((text for _, text in task.utterances), "")
    line = next((line for line in said.splitlines() if line.strip()), "")
    words = [int(match[2]) for match in _MAX_WORDS.finditer(task.instruction)]
    chars = [int(match[1] or match[2]) for match in _MAX_CHARS.finditer(task.instruction)]
    title = " ".join(line.split()[: min([MAX_TITLE_WORDS, *words])])
    limit = min([MAX_TITLE_CHARS, *(n for n in chars if n)])
    return title[:limit].strip().strip("?.!？。！\"'“”«»").strip() or "Documents"


def _last_question(task: ClientTask) -> str:
    """The question that is to be searched for: the labelled one, else the last of the user."""
    if label := list(_FOLLOW_UP_LABEL.finditer(task.instruction)) or [
        match for _, text in task.utterances for match in _FOLLOW_UP_LABEL.finditer(text)
    ]:
        return label[-1][1].strip()
    return next((text for role, text in reversed(task.utterances) if role == "user"), "")


def _summary(task: ClientTask) -> str:
    """The conversation in short: the summary so far, and the beginning of what was said last."""
    parts = []
    if old := list(_OLD_SUMMARY.finditer(task.instruction)):
        parts.append(task.instruction[old[-1].end() :].partition("\n\n")[0].strip())
    for role, text in task.utterances[-MAX_SUMMARY_TURNS:]:
        line = " ".join(text.split())
        parts.append(
            f"{'User' if role == 'user' else 'Assistant'}: {line if len(line) <= MAX_SUMMARY_CHARS else line[:MAX_SUMMARY_CHARS] + '…'}"
        )
    return neutralize("\n".join(filter(None, parts))).text  # it may quote documents, and a program may show it
