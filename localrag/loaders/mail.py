"""E-mail: headers, text, and names of attachments."""

from email import message_from_string, policy
from email.header import decode_header, make_header
from email.message import EmailMessage
from email.utils import parsedate_to_datetime
from typing import Any

from localrag.loaders.content import LoadOptions, OpenFile, ParsedFile, Unreadable, clean_text, decode, metadata_pairs
from localrag.loaders.html import html_content

HEADER_FIELDS = ("From", "To", "Cc", "Date", "Subject")
MAX_HEADER_CHARS = 50_000  # characters of a header, about 1,300 addresses; parsing them individually is quadratic


def parse_mail(file: OpenFile, _options: LoadOptions) -> ParsedFile:
    """Parse a message and the messages it forwards."""
    from email import message_from_bytes

    data = file.read_bytes()
    if not data.strip():
        raise Unreadable("empty")
    if data[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\0" in data[:200]:
        message: Any = message_from_string(decode(data).lstrip("\ufeff"), policy=policy.default)
    else:
        message = message_from_bytes(data.removeprefix(b"\xef\xbb\xbf"), policy=policy.default)
    if message.get_content_type() in {"multipart/encrypted", "application/pkcs7-mime", "application/x-pkcs7-mime"}:
        raise Unreadable("encrypted")
    headers = _headers(message)
    if not headers and not message.keys():
        raise Unreadable("damaged: it has no headers", failed=True)
    text = clean_text(_text(message))
    named = {name.lower(): value for name, value in headers.items() if name != "From"}
    return ParsedFile(text, headers.get("Subject", ""), metadata_pairs(title=headers.get("Subject"), author=headers.get("From"), **named))


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


def _text(message: EmailMessage) -> str:
    """Headers, body, names of attachments, then the forwarded messages."""
    lines = [f"{name}: {value}" for name, value in _headers(message).items()]
    plain: list[str] = []
    rich: list[str] = []
    attached: list[str] = []
    inner: list[str] = []
    _gather(message, plain, rich, attached, inner)
    body = plain if any(map(str.strip, plain)) else [html_content(markup).text for markup in rich]
    names = [f"Attachments: {', '.join(attached)}"] if attached else []
    return "\n\n".join(filter(None, ["\n".join(lines), *body, *names, *inner]))


def _gather(part: Any, plain: list[str], rich: list[str], attached: list[str], inner: list[str]) -> None:
    kind = part.get_content_type()
    if kind == "message/rfc822":
        inner += [_text(p) for p in part.get_payload() if isinstance(p, EmailMessage)] if part.is_multipart() else []
    elif part.is_multipart():
        for child in part.get_payload():
            _gather(child, plain, rich, attached, inner)
    elif name := _file_name(part):
        attached.append(name)
    elif kind in {"text/plain", "text/html"}:
        (plain if kind == "text/plain" else rich).append(_body(part))


def _file_name(part: Any) -> str:
    try:
        return " ".join(str(part.get_filename() or "").split())
    except Exception:  # noqa: BLE001 - as above
        return ""


def _body(part: Any) -> str:
    """The text of a part; its encoding is detected if the declared one is wrong."""
    payload = part.get_payload(decode=True)
    data = payload if isinstance(payload, bytes) else b""
    try:
        return decode(data, str(part.get_content_charset() or "")) if data else ""
    except Unreadable:
        return data.decode("utf-8", "replace")
