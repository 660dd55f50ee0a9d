"""What a file is: by its first bytes, the members of a zip archive, the streams of an OLE file, or the beginning of a text.

A kind is the usual suffix of files of a format. The suffix that a file has decides between equals, and for formats of text.
"""

import io
import re
from zipfile import ZipFile

from localrag.loaders.content import OpenFile, Unreadable
from localrag.loaders.encodings import decode_bytes, looks_binary
from localrag.loaders.non_documents import TAKEN_WITH_ALL_FILES

SNIFF_BYTES = 65_536
ZIP, OLE = "zip", "ole"
_SIGNATURES = [
    (re.compile(pattern, re.DOTALL), kind)
    for pattern, kind in (
        *((rb"(?:\xef\xbb\xbf)?\s{0,20}%PDF-", ".pdf"), (rb"\s{0,20}\{\\rtf", ".rtf"), (rb"PK\x03\x04", ZIP)),
        *((rb"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", OLE), (rb"\x89PNG\r\n", ".png"), (rb"\xff\xd8\xff", ".jpg"), (rb"GIF8[79]a", ".gif")),
        *((rb"II\*\0|MM\0\*", ".tif"), (rb"BM.{4}\0{4}", ".bmp"), (rb"RIFF.{4}WEBP", ".webp")),
    )
]
_MIMETYPES = (  # what the member `mimetype` of an archive contains
    ("epub+zip", ".epub"),
    ("hwp+zip", ".hwpx"),
    *((f"opendocument.{name}", f".od{name[0]}") for name in ("text", "spreadsheet", "presentation")),
)
_MEMBERS = (
    *(("xl/workbook.bin", ".xlsb"), ("word/document", ".docx"), ("xl/workbook", ".xlsx"), ("ppt/presentation", ".pptx")),
    *(("contents/section", ".hwpx"), ("meta-inf/container.xml", ".epub")),
)
_STREAMS = (
    *(("WordDocument", ".doc"), ("Workbook", ".xls"), ("Book", ".xls"), ("PowerPoint Document", ".ppt")),
    ("__properties_version1.0", ".msg"),
)
_ENCRYPTED = "EncryptedPackage".encode("utf-16-le")
CODE_SUFFIXES = frozenset(  # of code that may begin as a page, as JSON or as a message
    """
    .cjs .css .diff .ejs .erb .hbs .j2 .jinja .js .jsx .less .liquid .m .mjs .mustache .patch .scss .svelte .tmpl .tpl .ts .tsx .twig .vue
    .xsd .xsl .xslt .yaml .yml
    """.split()
)
PLAIN_SUFFIXES = frozenset({".txt", ".text", ".php", ".jsp", ".asp"})
_PRELUDE = re.compile(
    r"(?:\s+|<\?[^>]{0,500}\?>|<!--(?:(?!-->).){0,20000}-->|<!DOCTYPE(?!\s+html)[^<>\[]*+(?:\[[^\]]*+\]\s*+)?>)*", re.DOTALL | re.IGNORECASE
)
_PAGE = re.compile(r"<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE)
_ROOT = re.compile(r"<([A-Za-z_][\w.:-]*+)[\s/>]")
_FRONT_MATTER = re.compile(r"---[ \t]*\n[\w-]+:[^\n]*\n(?:[^\n]*\n){0,100}?---[ \t]*(?:\n|\Z)")
_MAILBOX = re.compile(r"From [^\n]{1,200}?\b\d\d:\d\d\b[^\n]{0,100}\n>?[\w-]+:")
_HEADER = re.compile(r"([!-9;-~]+):[^\n]*\n(?:[ \t][^\n]*\n)*")
_MAIL_DATE = re.compile(r"^Date:\s+(?:\w{3},\s+)?\d{1,2} [A-Z][a-z]{2} \d{4} \d\d:\d\d", re.MULTILINE | re.IGNORECASE)
_OF_PROGRAMS = frozenset({"message-id", "mime-version", "received", "return-path", "x-mozilla-status", "delivered-to"})


def first_bytes_kind(head: bytes) -> str:
    """The kind that the first bytes of a file tell, ZIP and OLE for containers of several kinds; empty if they tell nothing."""
    kind = next((kind for signature, kind in _SIGNATURES if signature.match(head)), "")
    return kind or (".pdf" if b"%PDF-" in head[:1024] and looks_binary(head) else "")


def binary_kind(file: OpenFile, head: bytes) -> str:
    """The kind of a file whose first bytes tell it; empty otherwise. Raises Unreadable for an encrypted Office file."""
    kind = first_bytes_kind(head)
    return _zip_kind(file) if kind == ZIP else _ole_kind(file) if kind == OLE else kind


def _zip_kind(file: OpenFile) -> str:
    try:
        with ZipFile(file.open()) as archive:
            names = [name.replace("\\", "/").lower() for name in archive.namelist()]
            declared = archive.open("mimetype").read(200).decode("latin-1") if "mimetype" in names else ""
    except Exception:  # noqa: BLE001 - a damaged archive raises anything, and its parser says what is wrong
        return ""
    kind = next((kind for name, kind in _MIMETYPES if name in declared), "")
    return kind or next((kind for start, kind in _MEMBERS if any(name.startswith(start) for name in names)), "")


def _ole_kind(file: OpenFile) -> str:
    import olefile

    data = file.read_bytes()
    if _ENCRYPTED in data:
        raise Unreadable("password-protected")
    try:
        with olefile.OleFileIO(io.BytesIO(data)) as ole:
            return next((kind for name, kind in _STREAMS if ole.exists(name)), "")
    except Exception:  # noqa: BLE001 - as above
        return ""


def text_kind(head: bytes, *, is_plain: bool) -> str:
    """The kind that the beginning of a text tells; empty if it tells nothing.

    `is_plain`: the name says that it is plain text, so that only what nobody would write as such counts. XML and JSON are told by their
    first characters, and what does not parse as such is neither.
    """
    text = decode_bytes(head) if b"\0" in head else head.decode("latin-1").removeprefix("\xef\xbb\xbf")
    text = text.lstrip("\ufeff\r\n\t ").replace("\r\n", "\n")
    body = text[_PRELUDE.match(text).end() :]  # type: ignore[union-attr]  # it matches any text
    if body.startswith("<") and any(mark in text for mark in ("<?php", "<?=", "<%")):  # of programs that write pages
        return ""
    if _PAGE.match(body):
        return ".html" if not is_plain or "</html" in text.lower() or len(head) == SNIFF_BYTES else ""
    if (root := _ROOT.match(body)) and (not is_plain or text.startswith("<?xml")):
        return {"office:document": ".fodt", "table": ".html", "div": ".html", "meta": ".html"}.get(root[1].lower(), ".xml")
    if re.match(r"[{\[]\s*[\"{\[]", body):
        return ".json"
    return ".md" if _FRONT_MATTER.match(text) else _mail_kind(text)


def _mail_kind(text: str) -> str:
    """The kind of a message by its headers, which come from a program and not from a writer of notes; empty if they do not."""
    if _MAILBOX.match(text):
        return ".mbox"
    length = re.match(r"\d+[ \t]*\n", text)
    start = position = length.end() if length else 0
    names = set[str]()
    while header := _HEADER.match(text, position):
        names.add(header[1].lower())
        position = header.end()
    if position < len(text) and text[position] != "\n":
        return ""
    if {"mime-version", "content-type"} <= names and ("from" not in names or "snapshot-content-location" in names):
        return ".mhtml"
    is_mail = {"from", "date"} <= names and (names & _OF_PROGRAMS or _MAIL_DATE.search(text, start, position))
    return (".emlx" if length else ".eml") if is_mail else ""


_MINIFIED_LINE_BYTES = 200  # of a line on average
_POINTER = re.compile(rb"version https://(git-lfs|hawser)\.github\.com/spec/|(?:(?:\.\./)*\.git)?/annex/objects/\S+\s*\Z")


def refuse_minified_code(head: bytes, suffix: str) -> None:
    """Raise Unreadable for minified code."""
    is_long = len(head) > _MINIFIED_LINE_BYTES * (head.count(b"\n") + 2) and not head.startswith(b"window.YTD")  # data of an archive
    if suffix in {".js", ".mjs", ".cjs", ".css"} and is_long:
        raise Unreadable(f"minified code {TAKEN_WITH_ALL_FILES}")


def refuse_pointer(head: bytes) -> None:
    """Raise Unreadable for the pointer that Git LFS or git-annex keeps in place of a file."""
    if len(head) < 1000 and (pointer := _POINTER.match(head)):
        program, command = ("Git LFS", "git lfs pull") if pointer[1] else ("git-annex", "git annex get")
        raise Unreadable(f"a pointer of {program}, the file is not here; get it: {command}", failed=True)
