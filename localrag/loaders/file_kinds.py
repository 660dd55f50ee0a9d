"""What a file is: by its first bytes, the members of a zip archive, the streams of an OLE file, or the beginning of a text.

A kind is the usual suffix of files of a format. The suffix that a file has decides between equals, and for formats of text.
"""

import io
import re
import struct
import zlib
from zipfile import BadZipFile, ZipFile

from localrag.loaders.content import OpenFile, Unreadable
from localrag.loaders.encodings import decode_bytes, looks_binary

SNIFF_BYTES = 65_536
ZIP, OLE = "zip", "ole"
_SIGNATURES = (
    *((b"%PDF-", ".pdf"), (b"{\\rtf", ".rtf"), (b"PK\3\4", ZIP), (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", OLE)),
    *((b"\x89PNG\r\n\x1a\n", ".png"), (b"\xff\xd8\xff", ".jpg"), (b"GIF87a", ".gif"), (b"GIF89a", ".gif")),
    *((b"II*\0", ".tif"), (b"MM\0*", ".tif")),
)
_MIMETYPES = (  # what the member `mimetype` of an archive contains
    *(("epub+zip", ".epub"), ("hwp+zip", ".hwpx"), ("sun.xml.writer", ".sxw"), ("sun.xml.calc", ".sxc"), ("sun.xml.impress", ".sxi")),
    *((f"opendocument.{name}", f".od{name[0]}") for name in ("text", "spreadsheet", "presentation", "graphics", "formula")),
)
_OFFICE_MEMBERS = (("xl/workbook.bin", ".xlsb"), ("word/", ".docx"), ("xl/", ".xlsx"), ("ppt/", ".pptx"), ("visio/", ".vsdx"))
_OTHER_MEMBERS = (("Contents/content.hpf", ".hwpx"), ("META-INF/container.xml", ".epub"))
_STREAMS = (
    *(("WordDocument", ".doc"), ("Workbook", ".xls"), ("Book", ".xls"), ("PowerPoint Document", ".ppt")),
    *(("__properties_version1.0", ".msg"), ("\5HwpSummaryInformation", ".hwp"), ("VisioDocument", ".vsd")),
)
_ZIP_DAMAGES = (BadZipFile, KeyError, ValueError, OSError, NotImplementedError, RuntimeError, EOFError, zlib.error, struct.error)
_OLE_DAMAGES = (OSError, ValueError, LookupError, TypeError, AttributeError, OverflowError, struct.error)
CODE_SUFFIXES = frozenset(
    """
    .c .cc .cjs .cpp .cs .css .cxx .dart .diff .ejs .erb .go .h .hpp .hxx .java .js .jsx .kt .less .lua .m .mjs .patch .php .pl .pm
    .py .r .rb .rs .sass .scala .scss .sh .sql .svelte .swift .ts .tsx .twig .vue .xsd .xsl .xslt .yaml .yml
    """.split()
)
PLAIN_SUFFIXES = frozenset({".txt", ".text"})
_TEMPLATE = re.compile(r"<\?(?:php|=)|<%|\{\{|\{%")
_PRELUDE = re.compile(r"(?:\s+|<\?xml[^>]{0,500}\?>|<!--(?:(?!-->).){0,2000}-->)*", re.DOTALL)
_PAGE = re.compile(r"<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE)
_FRAGMENT = re.compile(r"<(?:table|meta|div|style)\b", re.IGNORECASE)
_FRONT_MATTER = re.compile(r"---[ \t]*\n[\w-]+:[^\n]*\n(?:[^\n]*\n){0,100}?---[ \t]*(?:\n|\Z)")
_MAILBOX = re.compile(r"From [^\n]*\b\d\d:\d\d\b[^\n]*\n>?[\w-]+:")
_HEADER = re.compile(r"([!-9;-~]+):[^\n]*\n(?:[ \t][^\n]*\n)*")
_MAIL_DATE = re.compile(r"^Date:\s+(?:\w{3},\s+)?\d{1,2} [A-Z][a-z]{2} \d{4} \d\d:\d\d", re.MULTILINE | re.IGNORECASE)
_OF_PROGRAMS = frozenset({"message-id", "mime-version", "received", "return-path", "x-mozilla-status", "delivered-to"})
_OTHER_TEXTS = (("BEGIN:VCALENDAR", ".ics"), ("BEGIN:VCARD", ".vcf"), ("WEBVTT", ".vtt"))


def first_bytes_kind(head: bytes) -> str:
    """The kind that the first bytes of a file tell, ZIP and OLE for containers of several kinds; empty if they tell nothing."""
    if head[:2] == b"BM" and head[6:10] == bytes(4):
        return ".bmp"
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return ".webp"
    start = head[:100].lstrip(b"\xef\xbb\xbf \t\r\n")
    kind = next((kind for signature, kind in _SIGNATURES if head.startswith(signature) or start.startswith(signature)), "")
    return kind or (".pdf" if b"%PDF-" in head[:1024] and looks_binary(head) else "")


def binary_kind(file: OpenFile, head: bytes) -> str:
    """The kind of a file whose first bytes tell it; empty otherwise. Raises Unreadable for an encrypted Office file."""
    kind = first_bytes_kind(head)
    return _zip_kind(file) if kind == ZIP else _ole_kind(file) if kind == OLE else kind


def _zip_kind(file: OpenFile) -> str:
    try:
        with ZipFile(file.open()) as archive:
            names = {name.replace("\\", "/") for name in archive.namelist()}
            declared = archive.open("mimetype").read(200).decode("latin-1") if "mimetype" in names else ""
    except _ZIP_DAMAGES:
        return ""
    members = (*(_OFFICE_MEMBERS if "[Content_Types].xml" in names else ()), *_OTHER_MEMBERS)
    kind = next((kind for name, kind in _MIMETYPES if name in declared), "")
    return kind or next((kind for start, kind in members if any(name.startswith(start) for name in names)), "")


def _ole_kind(file: OpenFile) -> str:
    import olefile

    try:
        with olefile.OleFileIO(io.BytesIO(file.read_bytes())) as ole:
            is_encrypted, kind = ole.exists("EncryptedPackage"), next((kind for name, kind in _STREAMS if ole.exists(name)), "")
    except _OLE_DAMAGES:
        return ""
    if is_encrypted:
        raise Unreadable("password-protected")
    return kind


def text_kind(head: bytes, *, is_plain: bool) -> str:
    """The kind that the beginning of a text tells; empty if it tells nothing.

    `is_plain`: the name says that it is plain text, so that only what nobody would write as such counts. XML and JSON are told by their
    first characters, and what does not parse as such is neither.
    """
    text = (decode_bytes(head) if b"\0" in head else head.decode("latin-1").removeprefix("\xef\xbb\xbf")).lstrip("\ufeff")
    text = text.replace("\r\n", "\n")
    body = text[_PRELUDE.match(text).end() :]  # type: ignore[union-attr]  # it matches an empty text
    if body.startswith("<"):
        if _TEMPLATE.search(text.removeprefix("<?xml")):
            return ""
        if _PAGE.match(body) or (_FRAGMENT.match(body) and not is_plain):
            return ".html" if not is_plain or "</html>" in text[-1000:].lower() or len(head) == SNIFF_BYTES else ""
        root = re.match(r"(?:<![^<>\[]*(?:\[[^\]]*\])?[^<>]*>\s*)*<([A-Za-z_][\w.:-]*)[\s/>]", body)
        is_xml = root and (not is_plain or text.lstrip().startswith("<?xml"))
        return (".fodt" if root[1] == "office:document" else ".xml") if root and is_xml else ""
    if re.match(r"[{\[]\s*[\"{\[]", body):
        return ".json"
    if _FRONT_MATTER.match(text):
        return ".md"
    return _mail_kind(text.lstrip()) or next((kind for start, kind in _OTHER_TEXTS if body.startswith(start)), "")


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


_CODE_OF_PROGRAMS = re.compile(rb"generated\b.{0,200}?\bdo not (?:edit|modify|change)|@generated\b", re.DOTALL | re.IGNORECASE)
MAX_CODE_LINE_BYTES = 200  # on average: longer lines are those of minified code
_MIN_MINIFIED_BYTES = 500


def unread_code(head: bytes, suffix: str) -> str:
    """Why a file of code is no document: minified, or generated by a program; empty otherwise."""
    if suffix not in CODE_SUFFIXES or head.startswith(b"window.YTD"):  # data of an archive
        return ""
    if suffix in {".js", ".mjs", ".cjs", ".css"} and len(head) > max(_MIN_MINIFIED_BYTES, MAX_CODE_LINE_BYTES * (head.count(b"\n") + 1)):
        return "minified code"
    return "generated code" if _CODE_OF_PROGRAMS.search(head[:2000]) else ""


_ANNEX_POINTER = re.compile(rb"(?:(?:\.\./)*\.git)?/annex/objects/\S+\s*\Z")


def check_pointer(head: bytes) -> None:
    """Raise Unreadable for the pointer that Git LFS or git-annex keeps in place of a file."""
    if head.startswith((b"version https://git-lfs.github.com/spec/", b"version https://hawser.github.com/spec/")):
        raise Unreadable("a pointer of Git LFS, whose file is not here; get it: git lfs pull", failed=True)
    if len(head) < 1000 and _ANNEX_POINTER.match(head):
        raise Unreadable("a pointer of git-annex, whose file is not here; get it: git annex get", failed=True)
