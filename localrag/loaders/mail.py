"""E-mail: messages with their attachments, mailboxes, and web pages saved as MHTML."""

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from email import message_from_bytes, policy
from email.header import decode_header, make_header
from email.message import EmailMessage
from email.utils import parsedate_to_datetime
from mimetypes import guess_extension
from typing import Any

from localrag.loaders.containers import InnerFiles
from localrag.loaders.content import LoadOptions, OpenFile, ParsedFile, Unreadable, clean_text, decode, metadata_pairs
from localrag.loaders.document_tree import RenderedText, join_sections
from localrag.loaders.html import html_content

HEADER_FIELDS = ("From", "To", "Cc", "Date", "Subject")
MAX_HEADER_CHARS = 50_000  # characters of a header, about 1,300 addresses; parsing them individually is quadratic
MAX_MESSAGES = 20_000  # of a mailbox
MAX_NESTED = 10  # messages within messages
PLAIN_SHARE = 0.8  # of the words of the other versions of a message: then its plain text says as much
_ENCRYPTED = {"multipart/encrypted", "application/pkcs7-mime", "application/x-pkcs7-mime"}
_MBOX_START = re.compile(rb"(?:\A|(?<=\n\n)|(?<=\r\n\r\n))From [^\r\n]*\r?\n")
_QUOTED_FROM = re.compile(rb"^>(>*From )", re.MULTILINE)


@dataclass(slots=True)
class _Body:
    """What a message holds: texts in order, other files, and messages."""

    texts: list[RenderedText] = field(default_factory=list)
    files: list[tuple[str, bytes]] = field(default_factory=list)
    messages: list[EmailMessage] = field(default_factory=list)

    @property
    def n_words(self) -> int:
        """Number of words of the texts."""
        return sum(len(rendered.text.split()) for rendered in self.texts)


def parse_mail(file: OpenFile, options: LoadOptions) -> ParsedFile:
    """Parse a message; the files attached to it and the messages that it forwards are documents of their own."""
    return _parsed_file(file.read_bytes(), options)


def parse_apple_mail(file: OpenFile, options: LoadOptions) -> ParsedFile:
    """Parse a message of Apple Mail: its length on a line, the message, and what the program notes about it."""
    length, _, data = file.read_bytes().partition(b"\n")
    return _parsed_file(data[: int(length)] if length.strip().isdigit() else data, options)


def _parsed_file(data: bytes, options: LoadOptions) -> ParsedFile:
    inner = InnerFiles(options)
    content = _parsed_message(_message(data), inner)
    return replace(content, metadata=content.metadata + inner.metadata())


def _parsed_message(message: EmailMessage, inner: InnerFiles, depth: int = 0) -> ParsedFile:
    """A message with its headers as metadata. `inner` gets the files attached to it and the messages that it forwards."""
    body = _part_body(message)
    headers = _headers(message)
    lines = "\n".join(f"{name}: {value}" for name, value in headers.items())
    names = f"Attachments: {', '.join(name for name, _ in body.files)}" if body.files else ""
    for name, data in body.files:
        inner.read(name, data)
    for forwarded in body.messages if depth < MAX_NESTED else ():
        place = f"forwarded {_place(forwarded)}"
        inner.add(place, place, _parsed_message(forwarded, InnerFiles(inner.options, unread=inner.unread), depth + 1))
    if body.messages and depth >= MAX_NESTED:
        inner.unread.append(("messages within messages", f"more than {MAX_NESTED} deep"))
    own = join_sections([("", clean_text(lines)), *(("", text) for text in body.texts), ("", clean_text(names))])
    rendered = join_sections([("", own), *inner.sections])
    named = {name.lower(): value for name, value in headers.items() if name != "From"}
    metadata = metadata_pairs(title=headers.get("Subject"), author=headers.get("From"), **named)
    documents = inner.documents(rendered.parts)
    return ParsedFile(rendered.text, headers.get("Subject", ""), metadata, rendered.parts, rendered.blocks, inner=documents)


def parse_mailbox(file: OpenFile, options: LoadOptions) -> ParsedFile:
    """Parse a mailbox (mbox): each message is a document of its own, named by its day and subject."""
    data = file.read_bytes()
    starts = [m.span() for m in _MBOX_START.finditer(data)]
    if not starts or starts[0][0]:
        raise Unreadable("damaged: it is no mailbox", failed=True)
    messages = InnerFiles(options)
    ends = [start for start, _ in starts[1:]] + [len(data)]
    for (_, start), end in list(zip(starts, ends, strict=True))[:MAX_MESSAGES]:
        try:
            message = _message(_QUOTED_FROM.sub(rb"\1", data[start:end]))
        except Unreadable as error:
            messages.unread.append((f"message {len(messages.sections) + 1}", str(error)))
            continue
        content = _parsed_message(message, InnerFiles(options, unread=messages.unread))
        messages.add(_place(message), _place(message), content, is_listed=True)
    if len(starts) > MAX_MESSAGES:
        messages.unread.append((f"{len(starts) - MAX_MESSAGES} messages", f"after the first {MAX_MESSAGES:,}"))
    rendered = join_sections(messages.sections)
    documents = messages.documents(rendered.parts)
    return ParsedFile(rendered.text, "", messages.metadata(), rendered.parts, rendered.blocks, inner=documents)


def parse_web_archive(file: OpenFile, options: LoadOptions) -> ParsedFile:
    """Parse a web page that a browser has saved with its pictures (MHTML)."""
    message = _message(file.read_bytes())
    page = next((part for part in message.walk() if part.get_content_type() in {"text/html", "application/xhtml+xml"}), None)
    if page is None:
        return parse_mail(file, options)
    content = html_content(_text_of(page), str(page.get("Content-Location") or ""))
    saved = {"title": _header(message, "Subject"), "date": _header(message, "Date")}
    values = saved | {"title": content.title or saved["title"]} | dict(content.metadata)
    return replace(content, title=values["title"], metadata=metadata_pairs(**values))


def _message(data: bytes) -> EmailMessage:
    """A message from its bytes. Raises Unreadable."""
    if not data.strip():
        raise Unreadable("empty")
    if data[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\0" in data[:200]:
        data = decode(data).lstrip("\ufeff").encode()
    message = message_from_bytes(data.removeprefix(b"\xef\xbb\xbf"), policy=policy.default)
    if message.get_content_type() in _ENCRYPTED:
        raise Unreadable("encrypted")
    if not message.keys():
        raise Unreadable("damaged: it has no headers", failed=True)
    return message


def _place(message: EmailMessage) -> str:
    headers = _headers(message)
    place = " ".join(filter(None, (headers.get("Date", "")[:10], headers.get("Subject", "")[:80])))
    return place.replace("/", "-") or "message"


def _headers(message: EmailMessage) -> dict[str, str]:
    return {name: value for name in HEADER_FIELDS if (value := _header(message, name))}


def _header(message: EmailMessage, name: str) -> str:
    try:
        raw = next((value for key, value in message.raw_items() if key.lower() == name.lower()), "")
        decoded = make_header(decode_header(raw)) if len(raw) > MAX_HEADER_CHARS else message[name]
        value = " ".join(str(decoded or "").split())
    except Exception:  # noqa: BLE001 - the standard library's parser of broken headers raises what it likes
        return ""
    with suppress(ValueError, TypeError, IndexError, OverflowError):
        return parsedate_to_datetime(value).isoformat(sep=" ") if name == "Date" else value
    return value


def _part_body(part: Any) -> _Body:
    """What a part of a message holds: all of a mixture, the best of alternatives, the root of related parts with what goes with it."""
    kind = part.get_content_type()
    if kind == "message/rfc822":
        return _Body(messages=[p for p in part.get_payload() if isinstance(p, EmailMessage)] if part.is_multipart() else [])
    if part.is_multipart():
        bodies = [_part_body(child) for child in part.get_payload()]
        are_versions = kind == "multipart/alternative"
        texts = _best(bodies) if are_versions else [text for body in bodies for text in body.texts]
        files = [file for body in bodies for file in body.files]
        return _Body(texts, list(dict.fromkeys(files)) if are_versions else files, [m for body in bodies for m in body.messages])
    name = _file_name(part)
    if kind in {"text/plain", "text/html"} and not name and part.get_content_disposition() != "attachment":
        text = _text_of(part)
        content = html_content(text) if kind == "text/html" else ParsedFile(clean_text(text))
        return _Body([RenderedText(content.text, content.blocks)])
    if kind.endswith("-signature") or (kind.startswith("image/") and not name):  # a picture without a name is one of the text
        return _Body()
    suffix = ".ics" if kind == "text/calendar" else guess_extension(kind) or ""
    return _Body(files=[(name or ("invitation" if suffix == ".ics" else "unnamed") + suffix, _payload(part))])


def _best(bodies: Sequence[_Body]) -> list[RenderedText]:
    """The first of several versions that says about as much as the longest, plain text mostly."""
    most = max((body.n_words for body in bodies), default=0)
    return next((body.texts for body in bodies if body.n_words >= PLAIN_SHARE * most), [])


def _file_name(part: Any) -> str:
    try:
        return " ".join(str(part.get_filename() or "").split())
    except Exception:  # noqa: BLE001 - as above
        return ""


def _payload(part: Any) -> bytes:
    payload = part.get_payload(decode=True)
    return payload if isinstance(payload, bytes) else b""


def _text_of(part: Any) -> str:
    """The text of a part; its encoding is detected if the declared one is wrong."""
    data = _payload(part)
    try:
        return decode(data, str(part.get_content_charset() or "")) if data else ""
    except Unreadable:
        return data.decode("utf-8", "replace")
