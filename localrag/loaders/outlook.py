"""Messages saved by Outlook (.msg): turned into an ordinary message, with its attachments, and read as such."""

import io
import re
import struct
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.encoders import encode_base64
from email.header import Header
from email.message import Message
from email.mime.base import MIMEBase
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText
from email.utils import format_datetime, formataddr
from typing import Any

from localrag.loaders.code_pages import code_page_encoding
from localrag.loaders.content import InnerFile, LoadOptions, OpenFile, ParsedFile, Unreadable
from localrag.loaders.mail import parse_mail

_SUBJECT, _BODY, _HTML, _RTF, _HEADERS = 0x0037, 0x1000, 0x1013, 0x1009, 0x007D
_SENDER_NAME, _SENDER_ADDRESS, _SENDER_SMTP = 0x0C1A, 0x0C1F, 0x5D01
_NAME, _ADDRESS, _SMTP, _RECIPIENT_TYPE = 0x3001, 0x3003, 0x39FE, 0x0C15
_SENT, _RECEIVED = 0x0039, 0x0E06
_DATA, _LONG_NAME, _SHORT_NAME = 0x3701, 0x3707, 0x3704
_CODE_PAGES = 0x3FDE, 0x3FFD
_RECIPIENTS = {1: "To", 2: "Cc", 3: "Bcc"}
_MAX_DEPTH = 5  # messages attached to messages
_MAX_PARTS = 1000  # recipients or attachments


def parse_msg(file: OpenFile, options: LoadOptions) -> ParsedFile:
    """Parse a message, and those attached to it, like mail."""
    import olefile

    try:
        with olefile.OleFileIO(io.BytesIO(file.read_bytes())) as ole:
            message = OutlookMessage(ole, ()).to_mail()
    except (OSError, ValueError, IndexError, struct.error) as error:
        raise Unreadable(f"damaged: {error}", failed=True) from error
    return parse_mail(InnerFile(f"{file.name}.eml", -1, message.as_bytes()), options)


class OutlookMessage:
    """A message, recipient or attachment: a storage of an OLE file whose streams are its properties."""

    def __init__(self, ole: Any, path: tuple[str, ...], depth: int = 0) -> None:
        self._ole, self._path, self._depth = ole, path, depth
        self._values = self._fixed_values()
        page = next(filter(None, (self._values.get((key, 0x0003)) for key in _CODE_PAGES)), b"")
        self._encoding = code_page_encoding(int.from_bytes(page[:4], "little"))

    def to_mail(self) -> Message:
        """The message with its headers, text, HTML and attachments."""
        mail = MIMEMultipart("mixed")
        for name, value in self._headers():
            if value:
                mail[name] = value if value.isascii() else Header(value, "utf-8").encode()
        bodies = list(self._bodies())
        if bodies:
            alternative = MIMEMultipart("alternative")
            for subtype, text in bodies:
                alternative.attach(MIMEText(text.encode("utf-8", "replace").decode("utf-8"), subtype, "utf-8"))
            mail.attach(alternative)
        for part in self._attachments():
            mail.attach(part)
        return mail

    def text(self, key: int) -> str:
        """A text property on one line; empty if there is none."""
        return " ".join(self._long_text(key).split())

    def _headers(self) -> Iterator[tuple[str, str]]:
        address = self.text(_SENDER_SMTP) or self.text(_SENDER_ADDRESS)
        yield "From", _mailbox(self.text(_SENDER_NAME), address)
        recipients: dict[str, list[str]] = {}
        for storage in self._children("__recip_version1.0_"):
            person = OutlookMessage(self._ole, storage, self._depth)
            kind = int.from_bytes(person._values.get((_RECIPIENT_TYPE, 0x0003), b"\1")[:4], "little") & 0xF
            mailbox = _mailbox(person.text(_NAME), person.text(_SMTP) or person.text(_ADDRESS))
            recipients.setdefault(_RECIPIENTS.get(kind, "To"), []).append(mailbox)
        for name in ("To", "Cc"):
            yield name, ", ".join(filter(None, recipients.get(name, ())))
        yield "Date", self._date()
        yield "Subject", self.text(_SUBJECT)

    def _date(self) -> str:
        if found := re.search(r"^Date:[ \t]*(\S[^\r\n]{0,60})", self._long_text(_HEADERS)[:100_000], re.MULTILINE):
            return found[1].strip()  # with the sender's own hour
        stamp = self._values.get((_SENT, 0x0040)) or self._values.get((_RECEIVED, 0x0040)) or b""
        microseconds = int.from_bytes(stamp, "little") // 10
        try:
            return format_datetime(datetime(1601, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)) if microseconds else ""
        except OverflowError:
            return ""

    def _bodies(self) -> Iterator[tuple[str, str]]:
        plain = self._long_text(_BODY)
        if plain.strip():
            yield "plain", plain
        html = self._long_text(_HTML) or self._stream(_HTML, 0x0102).decode(self._encoding, "replace")
        if html.strip():
            yield "html", html
        if not plain.strip() and not html.strip() and self._stream(_RTF, 0x0102):
            yield "plain", "[its text, compressed RTF, cannot be read]"

    def _attachments(self) -> Iterator[Message]:
        for storage in self._children("__attach_version1.0_"):
            attachment = OutlookMessage(self._ole, storage, self._depth)
            name = attachment.text(_LONG_NAME) or attachment.text(_SHORT_NAME) or attachment.text(_NAME)
            inner = (*storage, "__substg1.0_3701000D")
            if self._ole.exists([*inner, "__properties_version1.0"]) and self._depth < _MAX_DEPTH:
                part: Message = MIMEBase("message", "rfc822")
                part.set_payload([OutlookMessage(self._ole, inner, self._depth + 1).to_mail()])
            else:
                part = MIMEBase("application", "octet-stream")
                part.set_payload(attachment._stream(_DATA, 0x0102))
                encode_base64(part)
            part.add_header("Content-Disposition", "attachment", filename=("utf-8", "", name or "attachment"))
            yield part

    def _children(self, prefix: str) -> list[tuple[str, ...]]:
        depth = len(self._path)
        found = {
            tuple(entry[: depth + 1])
            for entry in self._ole.listdir()
            if tuple(entry[:depth]) == self._path and len(entry) > depth + 1 and entry[depth].startswith(prefix)
        }
        return sorted(found)[:_MAX_PARTS]

    def _stream(self, key: int, kind: int) -> bytes:
        name = [*self._path, f"__substg1.0_{key:04X}{kind:04X}"]
        return bytes(self._ole.openstream(name).read()) if self._ole.exists(name) else b""

    def _long_text(self, key: int) -> str:
        wide = self._stream(key, 0x001F)
        return (wide.decode("utf-16-le", "replace") if wide else self._stream(key, 0x001E).decode(self._encoding, "replace")).rstrip("\0")

    def _fixed_values(self) -> dict[tuple[int, int], bytes]:
        """(property, type) → eight bytes of the properties of a fixed size."""
        name = [*self._path, "__properties_version1.0"]
        data = bytes(self._ole.openstream(name).read()) if self._ole.exists(name) else b""
        last = self._path[-1] if self._path else ""
        start = 8 if last.startswith(("__recip", "__attach")) else 24 if last else 32
        entries = (data[n : n + 16] for n in range(start, len(data) - 15, 16))
        return {(int.from_bytes(e[2:4], "little"), int.from_bytes(e[:2], "little")): e[8:] for e in entries}


def _mailbox(name: str, address: str) -> str:
    if "@" not in address:
        return name
    try:
        return formataddr((name if name != address else "", address))
    except ValueError:  # an address in other letters
        return f"{name} <{address}>"
