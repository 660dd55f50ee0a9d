"""Formats that are zip archives, opened only if they unpack to a sane size."""

from zipfile import BadZipFile, ZipFile

from localrag.index.documents.load.content import MEGABYTE, Unreadable
from localrag.index.documents.load.open_file import OpenFile

MOST_BYTES = 500 * MEGABYTE
MOST_RATIO = 200  # real documents reach 40
SMALL = 20 * MEGABYTE  # whatever packs to less than this may do so as tightly as it likes
MOST_FILES = 20_000
_OLD_OFFICE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"


def open_archive(file: OpenFile) -> ZipFile:
    """The archive. What it declares is what is ever unpacked: zipfile stops there and calls the rest damaged.

    Raises Unreadable for encrypted ones, for bombs and for what is no archive.
    """
    _refuse_old_office(file)
    try:
        archive = ZipFile(file.open())
    except (BadZipFile, ValueError, OSError, NotImplementedError) as error:
        raise Unreadable(f"damaged: {error}", failed=True) from error
    entries = archive.infolist()
    size, packed = sum(e.file_size for e in entries), sum(e.compress_size for e in entries)
    if size > MOST_BYTES or len(entries) > MOST_FILES or (size > SMALL and size > packed * MOST_RATIO):
        raise Unreadable(f"a zip bomb: {file.size / MEGABYTE:.1f} MB unpack to {size / MEGABYTE:,.0f} MB")
    if any(e.flag_bits & 1 for e in entries):
        raise Unreadable("password-protected")
    return archive


def entry(archive: ZipFile, name: str, *, needed: bool = True) -> bytes:
    """A file of an archive; one that is not `needed` is empty where it is missing or damaged. Raises Unreadable."""
    try:
        return archive.read(name)
    except (KeyError, BadZipFile) as error:
        if needed:
            raise Unreadable(f"damaged: {name} is missing or spoilt", failed=True) from error
        return b""


def _refuse_old_office(file: OpenFile) -> None:
    """Office encrypts a document into a file of its old format, whatever the suffix says."""
    with file.open() as f:
        head = f.read(MEGABYTE)
    if head.startswith(_OLD_OFFICE):
        encrypted = "EncryptedPackage".encode("utf-16-le") in head
        raise Unreadable("password-protected" if encrypted else f"format not supported: Office before 2007, though named {file.suffix}")
