"""Exports of chats, told by the shape of their JSON or lines: each message `NAME (YYYY-MM-DD HH:MM): text`, a paragraph, said once."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from html import unescape
from itertools import pairwise
from typing import Any, NamedTuple

from localrag.loaders.content import LoadOptions, OpenFile, ParsedFile, decode
from localrag.loaders.tabular import flatten, parse_json_or_lines, value_text
from localrag.loaders.xml_text import plain_value


class Message(NamedTuple):
    """What someone wrote, and when as far as it is known: `2031-03-14 18:05`."""

    who: str
    when: str
    text: str


_SLACK_MARK = re.compile(r"<([@#!]?)([^<>|\s]+)(?:\|([^<>]*))?>")
_MENTION = re.compile(r"@(\w+)")


def _slack_text(text: str) -> str:
    """Text of Slack with people and channels as `@name` and `#name`, and links as `words (address)`."""

    def named(match: re.Match[str]) -> str:
        sign, target, words = match[1].replace("!", "@"), match[2].removeprefix("mailto:"), match[3] or ""
        if sign:
            return sign + (words or target).lstrip("@#")
        return f"{words} ({target})" if words and words not in target else target

    return unescape(_SLACK_MARK.sub(named, text))


# What the text of a program's messages is written in, and where they have the time, the text, and the name (the first that is there).
_KEYS: tuple[tuple[Callable[[str], str], str], ...] = (
    (_slack_text, "ts text user_profile.real_name user_profile.display_name real_name username user bot_id"),
    (str, "date text from actor from_id"),  # Telegram
    (str, "timestamp_ms content sender_name"),  # Facebook, Instagram
    (str, "timestamp text senderName"),  # Messenger
    (str, "timestamp content author.nickname author.name"),  # Discord
    (str, "create_time content author.role"),  # ChatGPT
    (str, "- content author.role"),
    (str, "created_at text sender"),  # Claude
    (str, "- content role"),  # other models
    (plain_value, "createdDateTime body.content from.user.displayName from.application.displayName"),  # Teams
    (plain_value, "originalarrivaltime content displayName from"),  # Teams and Skype for private use
    (unescape, "created_at full_text"),  # Twitter
    (unescape, "createdAt text senderId"),
)
_TITLES = ("title", "name", "displayName", "channel.name")
_FILES = ("files", "attachments", "photos", "videos", "file_name")
_FILE_NAMES = ("name", "fileName", "title", "fallback", "uri", "text")
JSON_SCRIPT = "window.YTD."  # begins the files of an archive of Twitter, which assign JSON to such a name
_SAMPLED_OBJECTS = 50  # of a list
_MIN_MESSAGES_SHARE = 0.5  # of these objects
_MAX_SECONDS = 1e11  # since 1970; larger times are in milliseconds


def parse_json(file: OpenFile, options: LoadOptions) -> ParsedFile:
    """Parse JSON: chats, or `path.to.key: value` lines, each object of a list a paragraph. Invalid JSON is read as text."""
    text = decode(file.read_bytes()).lstrip("\ufeff")
    values = parse_json_or_lines(text.partition("=")[2].rstrip("; \n") if text.startswith(JSON_SCRIPT) else text)
    if values is None:
        return ParsedFile(text)
    values = _with_strings(values, _repaired)
    paragraphs = [] if options.text_column else list(_chat_paragraphs(values, _people(options.definitions)))
    titles = [paragraph[2:] for paragraph in paragraphs if paragraph.startswith("# ")]
    text = "\n\n".join(paragraphs) or value_text(_with_strings(values, plain_value), options)
    return ParsedFile(text, titles[0] if len(titles) == 1 else "")


def _with_strings(value: Any, change: Callable[[str], str]) -> Any:
    """A value of JSON with each string in it changed."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [_with_strings(inner, change) for inner in value]
    return {change(key): _with_strings(inner, change) for key, inner in value.items()} if isinstance(value, dict) else value


def _repaired(text: str) -> str:
    r"""A string whose UTF-8 bytes were written as characters each: `\u00c3\u00bc` for `ü`, as Facebook does."""
    with suppress(ValueError):
        return text if text.isascii() else text.encode("latin-1").decode("utf-8")
    return text


def _people(source: str) -> dict[str, str]:
    """The names of people by the ids that Slack's messages have in their place. `source`: the export's list of people."""
    listed = parse_json_or_lines(source)
    users = (user for user in listed if isinstance(user, dict)) if isinstance(listed, list) else ()
    return {str(user.get("id")): _first_text(user, ("real_name", "profile.real_name", "name")) for user in users}


def _at(value: Any, path: str) -> Any:
    for key in path.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _first_text(value: Any, paths: Sequence[str]) -> str:
    """The first of several values that is there, as text."""
    return next(filter(None, (_text_in(_at(value, path)) for path in paths)), "")


def _text_in(value: Any) -> str:
    """A text, also one in pieces."""
    if isinstance(value, list):
        return "".join(map(_text_in, value))
    if isinstance(value, dict):
        words, target = _text_in(value.get("text") or value.get("parts")), value.get("href")
        return f"{words} ({target})" if isinstance(target, str) and target != words else words
    return value.replace("\u200e", "") if isinstance(value, str) else ""


def _chat_paragraphs(value: Any, people: Mapping[str, str]) -> Iterator[str]:
    """The chats in a value, each below its title, with what else is told about it; nothing if there are none."""
    if isinstance(value, list):
        messages = list(_messages(value, people))
        yield from map(message_text, messages)
        for inner in () if messages else value:
            yield from _chat_paragraphs(inner, people)
    elif isinstance(value, dict):
        branch = {"mapping": _branch(value)} if isinstance(value.get("mapping"), dict) else {}
        found = {key: list(_chat_paragraphs(inner, people)) for key, inner in (value | branch).items()}
        if any(found.values()):
            title = _first_text(value, _TITLES)
            others = {key: inner for key, inner in value.items() if not found[key] and inner != title}
            yield from filter(None, (f"# {title}" if title else "", "\n".join(flatten(others))))
        for paragraphs in found.values():
            yield from paragraphs


def _branch(chat: Mapping[str, Any]) -> list[Any]:
    """The messages of ChatGPT's tree that lead to the current one, from the first."""
    nodes, found, key = chat["mapping"], dict[str, Any](), chat.get("current_node")
    if key is None:
        return [node.get("message") for node in nodes.values() if isinstance(node, dict)]
    while isinstance(key, str) and key not in found and isinstance(node := nodes.get(key), dict):
        found[key], key = node.get("message"), node.get("parent")
    return list(found.values())[::-1]


def _messages(values: Sequence[Any], people: Mapping[str, str]) -> Iterator[Message]:
    """The messages of a list in the order of their times; none if it is no list of messages."""
    objects = [inner.get("tweet") or inner.get("messageCreate") or inner for inner in values if isinstance(inner, dict)]
    sample = objects[:_SAMPLED_OBJECTS]
    for plain, row in _KEYS:
        when, text, *names = row.split()
        shaped = [m for m in sample if None not in (_at(m, text), when == "-" or _at(m, when)) and "subject" not in m]
        if len(shaped) > _MIN_MESSAGES_SHARE * len(sample) and any(_first_text(m, names) or not names for m in shaped):
            messages = [
                Message(_first_text(m, names), _time(_at(m, when)), _message_text(m, plain(_text_in(_at(m, text))))) for m in objects
            ]
            for who, time, said in messages[:: -1 if messages[0].when > messages[-1].when else 1]:
                named = _MENTION.sub(lambda mention: f"@{people.get(mention[1], mention[1])}", said) if people else said
                if said:
                    yield Message(people.get(who, who), time, named)
            return


def _message_text(message: Mapping[str, Any], text: str) -> str:
    """The text of a message with the names of the files sent with it."""
    sent = [file for key in _FILES if (found := message.get(key)) for file in (found if isinstance(found, list) else [found])]
    names = (file if isinstance(file, str) else _first_text(file, _FILE_NAMES) for file in sent)
    return "\n".join(filter(None, (text.strip(), *(f"[{name}]" for name in names if name))))


def _time(value: Any) -> str:
    """A time as `2031-03-14 18:05`: from seconds or milliseconds since 1970 in UTC, or from text as it is written."""
    with suppress(ValueError, TypeError, OverflowError, OSError):
        number = float(value)
        return datetime.fromtimestamp(number / 1000 if abs(number) > _MAX_SECONDS else number, UTC).isoformat(" ")[:16]
    with suppress(ValueError, TypeError):
        return datetime.strptime(value, "%a %b %d %H:%M:%S %z %Y").isoformat(" ")[:16]
    return " ".join(value.split()).replace("T", " ", 1)[:16] if isinstance(value, str) else ""


def message_text(message: Message) -> str:
    """A message as a paragraph."""
    when = f"({message.when})" * bool(message.when)
    return f"{' '.join(filter(None, (message.who, when)))}: {message.text}".removeprefix(": ")


# A line of WhatsApp, in any language: `[14.03.31, 18:05:40] Name: text` of phones by Apple, `3/14/31, 6:05 PM - Name: text` of others.
_CHAT_LINE = re.compile(
    r"(?!\[\d{4}-\d\d-\d\d \d)(\[)?(\d{1,4})[./년-]\s?(\d{1,2})[./월-]\s?(\d{1,4})([^\d\[\]]{1,12})(\d{1,2})[:.](\d\d)(?(1)(?:[:.]\d\d)?|)"
    r"([^\d\[\]]{0,8}?)(?(1)\]| [-–]) (?:~\s?)?(?:([^:]{1,60}):(?:\s|\Z))?(.*)"
)
_DIRECTIONS = re.compile("[\u200e\u200f\u202a-\u202e\ufeff]")  # marks of the direction of writing
_HALF_DAY = re.compile(r"(p\.?\s?m|下午|午後|오후|م|μ\.?μ)|a\.?\s?m|上午|午前|오전|ص|π\.?μ", re.IGNORECASE)
_MIN_CHAT_LINES = 2


def chat_text(text: str) -> str:
    """The messages of a chat that WhatsApp has exported as text; empty if it is none."""
    lines = _DIRECTIONS.sub("", text).replace("\u202f", " ").strip().split("\n")
    heads = {n: match for n, line in enumerate(lines) if (match := _CHAT_LINE.fullmatch(line))}
    if 0 not in heads or sum(bool(match[9]) for match in heads.values()) < _MIN_CHAT_LINES:
        return ""
    is_american = "M" in heads[0][8] and "/" in lines[0] and all(int(match[2]) <= 12 for match in heads.values())
    is_month_first = is_american or any(int(match[3]) > 12 for match in heads.values())
    messages = (
        Message(
            heads[start][9] or "",
            _local_time(heads[start], is_month_first=is_month_first),
            "\n".join([heads[start][10], *lines[start + 1 : end]]),
        )
        for start, end in pairwise([*heads, len(lines)])
    )
    return "\n\n".join(map(message_text, messages))


def _local_time(line: re.Match[str], *, is_month_first: bool) -> str:
    first, second, third = (int(line[n]) for n in (2, 3, 4))
    year, month, day = (first, second, third) if first > 31 else (third, first, second) if is_month_first else (third, second, first)
    half = _HALF_DAY.search(f"{line[5]} {line[8]}")
    hour = int(line[6]) % 12 + 12 * bool(half[1]) if half else int(line[6])
    return f"{year + 2000 * (year < 100)}-{month:02}-{day:02} {hour:02}:{int(line[7]):02}"
