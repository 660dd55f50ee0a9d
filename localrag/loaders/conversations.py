"""Exports of chats, told by the shape of their JSON or lines: each message `NAME (YYYY-MM-DD HH:MM): text`, a paragraph, said once."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from html import unescape
from typing import Any

from localrag.loaders.content import LoadOptions, OpenFile, ParsedFile, decode
from localrag.loaders.tabular import flatten, parse_json_or_lines, value_text
from localrag.loaders.xml_text import plain_value

# Where messages have the time, the text, and the name (the first that is there).
_KEYS = (
    "ts text user_profile.real_name username user",  # Slack
    "date text from actor",  # Telegram
    "timestamp_ms content sender_name",  # Facebook, Instagram
    "timestamp content author.name",  # Discord
    "create_time content author.role",  # ChatGPT
    "created_at text sender",  # Claude
    "role content role",  # other models, without times
    "created_at full_text",  # Twitter
    "originalarrivaltime content displayName from",  # Teams, whose texts are HTML
    "createdDateTime body.content from.user.displayName",
)
_MIN_MESSAGES_SHARE = 0.5  # of the objects in a list
_MAX_SECONDS = 1e11  # larger times are in milliseconds


def parse_json(file: OpenFile, options: LoadOptions) -> ParsedFile:
    """Parse JSON: chats, or `path.to.key: value` lines, each object of a list a paragraph. Invalid JSON is read as text."""
    text = decode(file.read_bytes()).lstrip("\ufeff")
    values = parse_json_or_lines(_with_names(text, options.definitions))
    return ParsedFile(text if values is None else _json_text(values, options))


def _json_text(values: Any, options: LoadOptions) -> str:
    values = _with_strings(values, _repaired)
    paragraphs = [] if options.text_column else list(_chat_paragraphs(values))
    return "\n\n".join(paragraphs) or value_text(_with_strings(values, plain_value), options)


def _with_names(source: str, users: str) -> str:
    """JSON with the names of Slack's `users` in place of their ids."""
    listed = parse_json_or_lines(users)
    people = [user for user in listed if isinstance(user, dict)] if isinstance(listed, list) else []
    names = {str(user.get("id")): json.dumps(_first_text(user, ("real_name", "profile.real_name", "name")))[1:-1] for user in people}
    return re.sub(r"\b[UW][A-Z0-9]{8,}", lambda word: names.get(word[0]) or word[0], source) if names else source


def _with_strings(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [_with_strings(inner, change) for inner in value]
    return {key: _with_strings(inner, change) for key, inner in value.items()} if isinstance(value, dict) else value


def _repaired(text: str) -> str:
    """Text of which Facebook wrote each byte as a character."""
    with suppress(ValueError):
        return text if text.isascii() else text.encode("latin-1").decode("utf-8")
    return text


def _at(value: Any, path: str) -> Any:
    for key in path.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _first_text(value: Any, paths: Sequence[str]) -> str:
    return next(filter(None, (_text_in(_at(value, path)) for path in paths)), "")


def _text_in(value: Any) -> str:
    """A text, also one in pieces."""
    if isinstance(value, list):
        return "".join(map(_text_in, value))
    if isinstance(value, dict):
        words, target = _text_in(value.get("text") or value.get("parts")), value.get("href")
        return f"{words} ({target})" if target else words
    return value if isinstance(value, str) else ""


def _without_marks(text: str) -> str:
    """Text of Slack with `@name`, `#channel`, and links as `words (address)`."""
    text = re.sub(r"<([@#])(?:[^<>|]+\|)?([^<>|]+)>", r"\1\2", text)
    text = re.sub(r"<(?:mailto:)?(\w+[:@][^<>|\s]+)(?:\|\1)?>", r"\1", text)
    return unescape(re.sub(r"<(\w+:[^<>|\s]+)\|([^<>]+)>", r"\2 (\1)", text))


def _chat_paragraphs(value: Any) -> Iterator[str]:
    """The chats in a value, each below its title, with what else is told about it; nothing if there are none."""
    if isinstance(value, list):
        messages = _messages(value)
        yield from messages
        for inner in () if messages else value:
            if isinstance(inner, list | dict):
                yield from _chat_paragraphs(inner)
    elif isinstance(value, dict):
        branch = {"mapping": _branch(value)} if isinstance(value.get("mapping"), dict) else {}
        inner_values = {key: inner for key, inner in (value | branch).items() if isinstance(inner, list | dict)}
        found = {key: list(_chat_paragraphs(inner)) for key, inner in inner_values.items()}
        if any(found.values()):
            title = _first_text(value, ("title", "name", "displayName"))
            others = {key: inner for key, inner in value.items() if not found.get(key) and inner != title}
            yield from filter(None, (f"# {title}" if title else "", "\n".join(flatten(others))))
        for paragraphs in found.values():
            yield from paragraphs


def _branch(chat: Mapping[str, Any]) -> list[Any]:
    """The messages of ChatGPT's tree that lead to the current one."""
    found, key = dict[str, Any](), chat.get("current_node")
    while isinstance(key, str) and key not in found and isinstance(node := chat["mapping"].get(key), dict):
        found[key], key = node.get("message"), node.get("parent")
    return list(found.values())[::-1]


def _messages(values: Sequence[Any]) -> list[str]:
    """The messages of a list, the oldest first; none if it holds others."""
    objects = [inner.get("tweet") or inner for inner in values if isinstance(inner, dict)]
    if not objects:
        return []
    for keys in _KEYS:
        when, text, *names = keys.split()
        shaped = [m for m in objects if None not in (_at(m, text), _at(m, when)) and (not names or _first_text(m, names))]
        if len(shaped) > _MIN_MESSAGES_SHARE * len(objects) and "subject" not in shaped[0]:
            words = plain_value if "displayName" in keys else str
            said = [(_time(_at(m, when)), _first_text(m, names), words(_message_text(m, _at(m, text)))) for m in objects]
            return [_message(*message) for message in said[:: -1 if said[0][0] > said[-1][0] else 1] if message[2]]
    return []


def _message_text(message: Mapping[str, Any], text: Any) -> str:
    """A text with the names of the files sent with it."""
    sent = [file for key in ("files", "attachments") if isinstance(files := message.get(key), list) for file in files]
    names = filter(None, (_first_text(file, ("name", "fileName", "title", "fallback")) for file in sent))
    return "\n".join([_without_marks(_text_in(text)).strip(), *(f"[{name}]" for name in names)]).strip()


def _time(value: Any) -> str:
    """A time as `2031-03-14 18:05`: from seconds or milliseconds in UTC, or as it is written."""
    with suppress(ValueError, TypeError, OverflowError, OSError):
        number = float(value)
        return datetime.fromtimestamp(number / 1000 if number > _MAX_SECONDS else number, UTC).isoformat(" ")[:16]
    with suppress(ValueError, TypeError):
        return datetime.strptime(value, "%a %b %d %H:%M:%S %z %Y").isoformat(" ")[:16]
    return value.replace("T", " ")[:16] if isinstance(value, str) and value[:1].isdigit() else ""


def _message(when: str, who: str, text: str) -> str:
    return f"{' '.join(filter(None, (who, f'({when})' if when else '')))}: {text}".removeprefix(": ")


# A line of WhatsApp: `[14.03.31, 18:05:40] Name: text` of phones by Apple, `3/14/31, 6:05 PM - Name: text` of others.
_CHAT_LINE = re.compile(
    r"(?!\[\d{4}-\d\d-\d\d \d)(\[)?(\d{1,4})[./-]\s?(\d{1,2})[./-]\s?(\d{1,4})[.,]?\s([^\d\s]{0,4}\s?)(\d{1,2})[:.](\d\d)(?(1)(?::\d\d)?|)"
    r"([^\d\[\]]{0,8}?)(?(1)\]| -) (?:~\s?)?(?:([^:]{1,60}):(?:\s|\Z))?(.*)"
)
_DIRECTIONS = re.compile("[\u200e\u200f\u202a-\u202e\ufeff]")  # of writing
_HALF_DAY = re.compile(r"(p\.?\s?m|下午|午後|오후|م)|a\.?\s?m|上午|午前|오전|ص", re.IGNORECASE)
_MIN_CHAT_LINES = 2


def chat_text(text: str, options: LoadOptions) -> str:
    """The messages in lines of WhatsApp, or in a script of Twitter, which assigns JSON; empty for other text."""
    if text.startswith("window.YTD."):
        return _json_text(parse_json_or_lines(text.partition("=")[2].rstrip("; \n")), options)
    lines = _DIRECTIONS.sub("", text).replace("\u202f", " ").strip().split("\n")
    heads = {n: match for n, line in enumerate(lines) if (match := _CHAT_LINE.fullmatch(line))}
    if 0 not in heads or sum(bool(match[9]) for match in heads.values()) < _MIN_CHAT_LINES:
        return ""
    is_month_first = "M" in heads[0][8] or any(int(match[3]) > 12 for match in heads.values())
    return "\n\n".join(
        _message(_local_time(head, is_month_first=is_month_first), head[9] or "", "\n".join([head[10], *lines[start + 1 : end]]))
        for (start, head), end in zip(heads.items(), [*list(heads)[1:], len(lines)], strict=True)
    )


def _local_time(line: re.Match[str], *, is_month_first: bool) -> str:
    first, second, third = map(int, line.group(2, 3, 4))
    year, month, day = (first, second, third) if first > 31 else (third, first, second) if is_month_first else (third, second, first)
    half = _HALF_DAY.search(f"{line[5]} {line[8]}")
    hour = int(line[6]) % 12 + 12 * bool(half[1]) if half else int(line[6])
    return f"{year + 2000 * (year < 100)}-{month:02}-{day:02} {hour:02}:{int(line[7]):02}"
