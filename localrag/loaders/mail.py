"""E-mail: messages with their attachments, mailboxes, and web pages saved as MHTML."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from email import message_from_bytes, message_from_string, policy
from email.header import decode_header, make_header
from email.message import EmailMessage
from email.utils import parsedate_to_datetime
from mimetypes import guess_extension
from typing import Any

from localrag.loaders.containers import InnerFiles
from localrag.loaders.content import LoadOptions, OpenFile, ParsedFile, Unreadable, clean_text, decode, join_sections, metadata_pairs
from localrag.loaders.html import html_content

HEADER_FIELDS = ("From", "To", "Cc", "Date", "Subject")
MAX_HEADER_CHARS = 50_000  # characters of a header, about 1,300 addresses; parsing them individually is quadratic
MAX_MESSAGES = 20_000  # of a mailbox
MAX_NESTED = 10  # messages within messages
PLAIN_SHARE = 0.8  # of the words of the other versions of a message: then its plain text says as much
_ENCRYPTED = {"multipart/encrypted", "application/pkcs7-mime", "application/x-pkcs7-mime"}
_SIGNATURES = {"application/pgp-signature", "application/pkcs7-signature", "application/x-pkcs7-signature"}
_MBOX_START = re.compile(rb"(?:\A|(?<=\n\n)|(?<=\r\n\r\n))From [^\r\n]*\r?\n")
_QUOTED_FROM = re.compile(rb"^>(>*From )", re.MULTILINE)


@dataclass(slots=True)
class _Body:
    """What a message holds: texts in order, other files, and messages."""

    texts: list[str] = field(default_factory=list)
    files: list[tuple[str, bytes]] = field(default_factory=list)
    messages: list[EmailMessage] = field(default_factory=list)

    def add(self, other: "_Body") -> None:
        """Put what another part holds behind it."""
        self.texts += other.texts
        self.files += other.files
        self.messages += other.messages

    @property
    def words(self) -> int:
        """Number of words of the texts."""
        return sum(len(text.split()) for text in self.texts)


def parse_mail(file: OpenFile, options: LoadOptions) -> ParsedFile:
    """Parse a message; the files attached to it and the messages that it forwards are documents of their own."""
    message = _message(file.read_bytes())
    inner = InnerFiles(options)
    content = _parsed_message(message, inner)
    return replace(content, metadata=content.metadata + inner.metadata())


def _parsed_message(message: EmailMessage, inner: InnerFiles, depth: int = 0) -> ParsedFile:
    """A message with its headers as metadata. `inner` gets the files attached to it and the messages that it forwards."""
    body = _part_body(message)
    headers = _headers(message)
    lines = [f"{name}: {value}" for name, value in headers.items()]
    names = [f"Attachments: {', '.join(name for name, _ in body.files)}"] if body.files else []
    for name, data in body.files:
        inner.read(name, data)
    for forwarded in body.messages if depth < MAX_NESTED else ():
        place = f"forwarded {_place(forwarded)}"
        inner.add(place, place, _parsed_message(forwarded, InnerFiles(inner.options, unread=inner.unread), depth + 1))
    if body.messages and depth >= MAX_NESTED:
        inner.unread.append(("messages within messages", f"more than {MAX_NESTED} deep"))
    own = clean_text("\n\n".join(filter(None, ["\n".join(lines), *body.texts, *names])))
    text, parts = join_sections([("", own), *inner.sections])
    named = {name.lower(): value for name, value in headers.items() if name != "From"}
    metadata = metadata_pairs(title=headers.get("Subject"), author=headers.get("From"), **named)
    return ParsedFile(text, headers.get("Subject", ""), metadata, parts, inner=inner.documents(parts))


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
        messages.add(
            _place(message), _place(message), _parsed_message(message, InnerFiles(options, unread=messages.unread)), is_listed=True
        )
    if len(starts) > MAX_MESSAGES:
        messages.unread.append((f"{len(starts) - MAX_MESSAGES} messages", f"after the first {MAX_MESSAGES:,}"))
    text, parts = join_sections(messages.sections)
    return ParsedFile(text, "", messages.metadata(), parts, inner=messages.documents(parts))


def parse_web_archive(file: OpenFile, options: LoadOptions) -> ParsedFile:
    """Parse a web page that a browser has saved with its pictures (MHTML)."""
    message = _message(file.read_bytes())
    page = next((part for part in message.walk() if part.get_content_type() in {"text/html", "application/xhtml+xml"}), None)
    if page is None:
        return parse_mail(file, options)
    content = html_content(_text_of(page))
    headers = _headers(message)
    named = dict(content.metadata)
    values = {
        "title": content.title or headers.get("Subject"),
        "author": named.get("author"),
        "date": named.get("date") or headers.get("Date"),
    }
    return ParsedFile(content.text, values["title"] or "", metadata_pairs(**values, description=named.get("description")))


def _message(data: bytes) -> EmailMessage:
    """A message from its bytes. Raises Unreadable."""
    if not data.strip():
        raise Unreadable("empty")
    if data[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\0" in data[:200]:
        message: Any = message_from_string(decode(data).lstrip("\ufeff"), policy=policy.default)
    else:
        message = message_from_bytes(data.removeprefix(b"\xef\xbb\xbf"), policy=policy.default)
    if message.get_content_type() in _ENCRYPTED:
        raise Unreadable("encrypted")
    if not message.keys():
        raise Unreadable("damaged: it has no headers", failed=True)
    return message  # type: ignore[no-any-return]


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
        value = ""
    if name != "Date":
        return value
    try:
        return parsedate_to_datetime(value).isoformat(sep=" ")
    except (ValueError, TypeError, IndexError, OverflowError):
        return value


def _part_body(part: Any) -> _Body:
    """What a part of a message holds: all of a mixture, the best of alternatives, the root of related parts with what goes with it."""
    kind = part.get_content_type()
    if kind == "message/rfc822":
        return _Body(messages=[p for p in part.get_payload() if isinstance(p, EmailMessage)] if part.is_multipart() else [])
    if part.is_multipart():
        bodies = [_part_body(child) for child in part.get_payload()]
        return _best(bodies) if kind == "multipart/alternative" else _all(bodies)
    name = _file_name(part)
    if kind in {"text/plain", "text/html"} and not name and part.get_content_disposition() != "attachment":
        text = _text_of(part)
        return _Body([html_content(text).text if kind == "text/html" else _unwrapped(text, part)])
    if kind in _SIGNATURES or (kind.startswith("image/") and not name):  # a picture without a name is one of the text
        return _Body()
    suffix = ".ics" if kind == "text/calendar" else guess_extension(kind) or ""
    return _Body(files=[(name or ("invitation" if suffix == ".ics" else "unnamed") + suffix, _payload(part))])


def _all(bodies: Sequence[_Body]) -> _Body:
    whole = _Body()
    for body in bodies:
        whole.add(body)
    return whole


def _best(bodies: Sequence[_Body]) -> _Body:
    """The first of several versions that says about as much as the longest, plain text mostly, and the files of all: invitations, too."""
    most = max((body.words for body in bodies), default=0)
    chosen = next((body for body in bodies if body.words >= PLAIN_SHARE * most), _Body())
    whole = _Body(chosen.texts)
    for body in bodies:
        whole.files += [file for file in body.files if file not in whole.files]
        whole.messages += body.messages
    return whole


def _unwrapped(text: str, part: Any) -> str:
    """Plain text whose lines were wrapped for sending (format=flowed, RFC 3676) in its paragraphs."""
    if str(part.get_param("format") or "").lower() != "flowed":
        return text
    joins = str(part.get_param("delsp") or "").lower() == "yes"
    lines: list[str] = []
    flows = False
    for raw in text.split("\n"):
        line = raw[1:] if raw.startswith(" ") else raw
        if flows and not line.startswith(">") and lines:
            lines[-1] = (lines[-1][:-1] if joins else lines[-1]) + line
        else:
            lines.append(line)
        flows = line.endswith(" ") and line != "-- " and not line.startswith(">")
    return "\n".join(lines)


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
