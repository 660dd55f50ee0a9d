"""Packs: one zip file that carries an index to another machine, with a manifest that has the SHA-256 of every member.

A zip can be opened on every system, has random access (the manifest is read before anything is unpacked) and members of any size (ZIP64),
and Python reads and writes it as a stream. The hashes find damage; they do not say who made the file.

A pack is verified completely before anything of it is moved into place. The file may be hostile: only members that `pack` writes are
accepted, no member yields more bytes than the manifest lists or the disk has room for, and what the index stores about its machine is
dropped (`store/foreign.py`). `domain.toml` has instructions for models, so it is left out and listed.
"""

import json
import os
import re
import shutil
import sqlite3
import stat
import unicodedata
import zlib
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from itertools import pairwise
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from sqlite_utils import Database

from localrag import __version__
from localrag.errors import LocalragError, UsageError
from localrag.indexing.graph.entity_resolution import ALIASES_FILE
from localrag.llm.prompts import DOMAIN_FILE
from localrag.project import documents_root, find_index, is_own_place
from localrag.settings import INDEX_FOLDER, PROJECT_FILE
from localrag.store import documents as documents_store
from localrag.store.database import copy_database, snapshot
from localrag.store.entity_network import update_cache_files
from localrag.store.foreign import drop_machine_state, forget_id, sanitize_database
from localrag.store.location import DATABASE_FILE
from localrag.store.opening import open_index
from localrag.system.files import (
    atomic_file,
    ensure_private_file,
    ensure_private_folder,
    find_link,
    place_below,
    remove_stale_temp_files,
    temp_folder,
)
from localrag.system.installation import upgrade_hint

ARCHIVE_INDEX, ARCHIVE_DOCUMENTS = "index", "documents"  # the archive's folders
COMPANION_FILES = (DOMAIN_FILE, ALIASES_FILE)  # other index files that are packed; caches can be rebuilt, and serve.key is secret
INDEX_FILES = (DATABASE_FILE, *COMPANION_FILES)
PROMPTS_FOLDER = "prompts"  # a folder beside an index that is read as the user's prompts
MAX_MEMBERS = 1_000_000
MAX_MEMBER_NAME_BYTES = 1_000  # of a member's name
_WINDOWS_DEVICES = frozenset({"con", "prn", "aux", "nul", *(f"{d}{n}" for d in ("com", "lpt") for n in range(1, 10))})
_NOT_ON_WINDOWS = re.compile(r'[<>:"|?*]|[. ](?:/|$)')


def is_safe_member_name(name: str) -> bool:
    """Whether a relative path stays below its folder on every system and is in its simplest form."""
    parts = name.split("/")
    return not any(p in ("", ".", "..") for p in parts) and not any(c in name for c in "\\\0") and not re.match(r"[A-Za-z]:", name)


def is_member_name(name: str) -> bool:
    """Whether a pack may have a member of this name: an index file or a document."""
    top, _, inner = name.partition("/")
    if not is_safe_member_name(inner) or len(name.encode("utf-8", "surrogatepass")) > MAX_MEMBER_NAME_BYTES:
        return False
    if top == ARCHIVE_DOCUMENTS:
        return INDEX_FOLDER not in fold_member_name(inner).split("/")
    return top == ARCHIVE_INDEX and inner in INDEX_FILES


def reason_to_leave_out(path: str, *, windows: bool = False) -> str:
    """Why a document's file must not be packed, since some files do more on another machine than a document should; empty if it may be."""
    folded = fold_member_name(path).split("/")
    if _is_hidden(path) or _is_hidden(fold_member_name(path)):
        return "its name is hidden: programs read such files as their settings"
    if PROJECT_FILE in folded:
        return f"{PROJECT_FILE} holds settings of the machine it is on"
    if folded[0] == PROMPTS_FOLDER:
        return "the folder prompts beside an index holds instructions to models"
    if not _is_printable(path) or any(part.partition(".")[0].strip() in _WINDOWS_DEVICES for part in folded):
        return "its name cannot be a file name on every system"
    return "its name is not allowed on Windows" if windows and _NOT_ON_WINDOWS.search(path) else ""


def conflicting_names(names: Iterable[str]) -> Iterator[str]:
    """The names that some system confuses with an earlier one: equal but for case or encoding, or a file where another has a folder."""
    keys = [(fold_member_name(name), -n, name) for n, name in enumerate(names)]
    keys.sort(key=lambda entry: (entry[0].replace("/", "\0"), *entry[:2]))  # a folder's name directly before its content
    for (key, _, name), (following, *_) in pairwise(keys):
        if following == key or following.startswith(f"{key}/"):
            yield name


def fold_member_name(name: str) -> str:
    """A name reduced as on the system that distinguishes fewest: without case, Unicode variants and invisible characters."""
    visible = "".join(c for c in name if unicodedata.category(c) != "Cf")
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", visible).casefold())


def _is_hidden(path: str) -> bool:
    return any(part.startswith(".") for part in path.split("/"))


def _is_printable(path: str) -> bool:
    """Whether a name can be printed and encoded as UTF-8: no control characters, line separators or surrogates."""
    return not any(unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") for c in path)


PACK_VERSION = 1
MANIFEST = "manifest.json"
COPY_BLOCK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class PackResult:
    """The content of a pack, and the files left out of it: path and reason."""

    path: Path
    size: int
    manifest: dict[str, Any]
    skipped_files: tuple[tuple[str, str], ...] = ()


def pack_index(target: Path, chosen: Path | None = None, *, documents: bool = False) -> PackResult:
    """Write a snapshot of an index to one new file, optionally with its documents.

    Another process may continue indexing. The file is readable only by its owner, and appears only when it is complete. Raises NoIndex,
    UsageError.
    """
    folder = find_index(chosen)
    if target.exists() or target.is_symlink():
        raise UsageError(f"There is a file at {target} already.", "Choose another name, or remove it first.")
    if not target.parent.is_dir():
        raise UsageError(f"There is no folder {target.parent}.", "Create it, or choose another path: localrag pack FILE")
    with TemporaryDirectory(prefix=".localrag-pack-", dir=target.parent, ignore_cleanup_errors=True) as place:
        copy = Path(place)
        with closing(open_index(folder)) as db:
            copy_database(db, copy / DATABASE_FILE)
        with snapshot(copy) as db:
            paths = sorted(documents_store.document_hashes(db))
            document_files, left_out = _documents(paths, documents_root(folder), db) if documents else ({}, ())
        forget_id(copy / DATABASE_FILE)
        files = {f"{ARCHIVE_INDEX}/{DATABASE_FILE}": copy / DATABASE_FILE}
        companions = [path for name in COMPANION_FILES if (path := folder / name).is_file() and not path.is_symlink()]
        files |= {f"{ARCHIVE_INDEX}/{path.name}": path for path in companions}
        files |= {f"{ARCHIVE_DOCUMENTS}/{path}": file for path, file in document_files.items()}
        if len(files) > MAX_MEMBERS:
            raise UsageError(f"A pack contains at most {MAX_MEMBERS:,} files, and these are {len(files):,}.", "Leave out --documents.")
        manifest = {"format": PACK_VERSION, "localrag": __version__, "documents": len(paths)}
        with atomic_file(target) as part:
            manifest = _write_archive(part, files, manifest)
    return PackResult(target, target.stat().st_size, manifest, tuple(left_out))


def _documents(paths: list[str], root: Path, db: Database) -> tuple[dict[str, Path], tuple[tuple[str, str], ...]]:
    """The files of documents below the index's root; the others with the reason why they are left out."""
    files: dict[str, Path] = {}
    left_out: dict[str, str] = {}
    stored = set(paths)
    for path in paths:
        file = root / path
        if any(parent.as_posix() in stored for parent in PurePosixPath(path).parents):
            continue  # within a file
        if PurePosixPath(path).is_absolute() or not is_safe_member_name(path) or not is_own_place(db, root, file):
            left_out[path] = "lies outside the folder that holds the index"
        elif reason := reason_to_leave_out(path):
            left_out[path] = reason
        elif not is_member_name(f"{ARCHIVE_DOCUMENTS}/{path}"):
            left_out[path] = "its path is too long for a pack"
        elif not file.is_file():
            left_out[path] = "no file is there"
        elif not file.resolve().is_relative_to(root.resolve()):  # a folder from somebody else may have any links
            left_out[path] = "is a link that leads out of the folder that holds the index"
        else:
            files[path] = file
    for path in conflicting_names(files):
        left_out[path] = "some systems confuse its name with another document's"
        del files[path]
    return files, tuple(left_out.items())


def _write_archive(part: Path, files: dict[str, Path], manifest: dict[str, Any]) -> dict[str, Any]:
    members: dict[str, dict[str, Any]] = {}
    with ZipFile(part, "w", allowZip64=True) as archive:
        for name, file in files.items():
            with file.open("rb") as source, archive.open(_info(name), "w", force_zip64=True) as member:
                members[name] = copy_and_hash(source, member)
        full_manifest = manifest | {"members": members}
        with archive.open(_info(MANIFEST), "w") as member:
            member.write(json.dumps(full_manifest, ensure_ascii=False, indent=1).encode())
    with part.open("r+b") as f:
        os.fsync(f.fileno())
    return full_manifest


def _info(name: str) -> ZipInfo:
    info = ZipInfo(name)  # without a date: the same content gives the same bytes
    info.compress_type = ZIP_DEFLATED
    info.external_attr = (stat.S_IFREG | 0o600) << 16
    return info


def copy_and_hash(source: Any, target: Any, limit: int | None = None) -> dict[str, Any]:
    """Copy a stream block by block; returns its size and SHA-256. Stops one block after `limit` bytes."""
    digest, size = sha256(), 0
    while block := source.read(COPY_BLOCK_BYTES):
        digest.update(block)
        size += len(block)
        if limit is not None and size > limit:
            break
        if target is not None:
            target.write(block)
    return {"size": size, "sha256": digest.hexdigest()}


UNPACK_FOLDER = "localrag-unpack"
MANIFEST_BASE_BYTES, MANIFEST_ROW_BYTES = 1 << 20, 200  # of a manifest's head, and of a row without the member's name
Reasons = tuple[tuple[str, str], ...]  # (name, reason)
_COPY_AGAIN_HINT = "Copy it again from the original, and check both: localrag unpack --check FILE"


@dataclass(frozen=True, slots=True)
class UnpackResult:
    """The content of a pack; `folder` is None if it was only checked. `left_out`: files not unpacked; `dropped`: facts of its machine."""

    folder: Path | None
    localrag: str
    documents: int
    files: int
    members: int
    size: int
    left_out: Reasons = ()
    dropped: Reasons = ()


def verify_pack(file: Path) -> UnpackResult:
    """Verify a pack without unpacking it. Raises UsageError, LocalragError."""
    with _open_archive(file) as archive:
        manifest = _manifest(archive, file)
        for info in _members(archive, manifest, file):
            _extract_member(archive, info, manifest["members"][info.filename], None, file)
    return _result(manifest, None, _skipped_members(manifest["members"], None))


def unpack_index(file: Path, folder: Path) -> UnpackResult:
    """Verify a pack and put its index into `folder/.localrag` and its documents into `folder`.

    Nothing that exists is overwritten, and after an error nothing is left behind; what a killed process left there is removed.

    Raises UsageError, LocalragError, IndexMismatch (made by a newer localrag).
    """
    remove_stale_temp_files(folder)
    target = folder / INDEX_FOLDER
    if target.exists() or target.is_symlink():
        raise UsageError(f"There is an index in {folder} already.", "Choose another folder: localrag unpack FILE DIR")
    with _open_archive(file) as archive:
        manifest = _manifest(archive, file)
        infos = _members(archive, manifest, file)
        with _unpack_folder(folder) as place:
            _check_room(infos, folder)
            for info in infos:
                ensure_private_folder((place / info.filename).parent)
                with ensure_private_file(place / info.filename).open("wb") as f:
                    _extract_member(archive, info, manifest["members"][info.filename], f, file)
            lost = sanitize_database(place / ARCHIVE_INDEX / DATABASE_FILE)
            with _unpacked_index(place / ARCHIVE_INDEX) as db:
                left_out = _skipped_members(manifest["members"], set(documents_store.document_hashes(db)))
                unpacked = manifest["members"].keys() - dict(left_out).keys()
                documents = _document_targets([info.filename for info in infos if info.filename in unpacked], folder)
                dropped = (*lost, *drop_machine_state(db))
                update_cache_files(db)
            for name, path in documents.items():
                place_below(folder, path, place / name)
            (place / ARCHIVE_INDEX / DOMAIN_FILE).unlink(missing_ok=True)
            (place / ARCHIVE_INDEX).replace(target)
    return _result(manifest, target, left_out, dropped)


def _result(
    manifest: dict[str, Any],
    folder: Path | None,
    left_out: Reasons = (),
    dropped: Reasons = (),
) -> UnpackResult:
    members = manifest["members"]
    files = sum(name.startswith(f"{ARCHIVE_DOCUMENTS}/") for name in members.keys() - dict(left_out).keys())
    size = sum(m["size"] for m in members.values())
    shown = tuple((name.removeprefix(f"{ARCHIVE_DOCUMENTS}/"), reason) for name, reason in left_out)
    return UnpackResult(folder, str(manifest["localrag"]), int(manifest["documents"]), files, len(members), size, shown, dropped)


def _skipped_members(members: Iterable[str], document_paths: set[str] | None) -> Reasons:
    """The members that are not unpacked, with reasons; `document_paths`: the paths of the index's documents, if it is open."""
    reasons = {}
    for name in members:
        top, _, path = name.partition("/")
        if name == f"{ARCHIVE_INDEX}/{DOMAIN_FILE}":
            reasons[name] = f"it gives instructions to models; to use it, read it and put it into {INDEX_FOLDER}: unzip -p FILE {name}"
        elif top == ARCHIVE_DOCUMENTS and (reason := reason_to_leave_out(path, windows=os.name == "nt")):
            reasons[name] = reason
        elif top == ARCHIVE_DOCUMENTS and document_paths is not None and path not in document_paths:
            reasons[name] = "the index has no document with that path"
    return tuple(reasons.items())


def _open_archive(file: Path) -> ZipFile:
    try:
        if not stat.S_ISREG(file.stat().st_mode):
            raise UsageError(f"{file} is not a file.", "Give a file that localrag pack wrote.")
        return ZipFile(file)
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}.", "Check the path: localrag unpack FILE") from error
    except (BadZipFile, ValueError, NotImplementedError) as error:
        raise LocalragError(f"{file} is not a pack of localrag, or is truncated.", _COPY_AGAIN_HINT) from error


def _damage_error(file: Path, description: str) -> LocalragError:
    return LocalragError(f"{file} is damaged, or not a pack of localrag: {description}. Nothing was unpacked.", _COPY_AGAIN_HINT)


def _manifest(archive: ZipFile, file: Path) -> dict[str, Any]:
    try:
        info, limit = archive.getinfo(MANIFEST), MANIFEST_BASE_BYTES
        limit += sum(MANIFEST_ROW_BYTES + 6 * len(name) for name in archive.namelist())  # JSON may take six bytes for one
        if info.file_size > limit:
            raise _damage_error(file, "its manifest is too large")
        with archive.open(info) as f:
            manifest = json.loads(f.read(limit))
        if not isinstance(manifest["format"], int) or manifest["format"] < 1:
            raise _damage_error(file, "its manifest cannot be read")
        if manifest["format"] > PACK_VERSION:
            raise LocalragError(f"{file} was made by a newer localrag.", upgrade_hint())
        sound = isinstance(manifest["members"], dict) and f"{ARCHIVE_INDEX}/{DATABASE_FILE}" in manifest["members"]
        sound = sound and all(isinstance(m["size"], int) and isinstance(m["sha256"], str) for m in manifest["members"].values())
        if not sound or not isinstance(manifest["documents"], int) or not isinstance(manifest["localrag"], str):
            raise _damage_error(file, "its manifest cannot be read")
    except (KeyError, TypeError, ValueError, EOFError, OSError, BadZipFile, zlib.error, AttributeError, RuntimeError) as error:
        raise _damage_error(file, "its manifest cannot be read") from error
    return dict(manifest)


def _members(archive: ZipFile, manifest: dict[str, Any], file: Path) -> list[ZipInfo]:
    """The archive's members without the manifest: regular files in allowed places, exactly those listed, with the listed sizes."""
    infos = [info for info in archive.infolist() if info.filename != MANIFEST]
    names = [info.filename for info in infos]
    if len(infos) + 1 != len(archive.infolist()) or sorted(names) != sorted(manifest["members"]) or len({*names}) != len(names):
        raise _damage_error(file, "it has other members than its manifest lists")
    if len(infos) > MAX_MEMBERS or sum(info.compress_size for info in infos) > file.stat().st_size:  # overlapping members
        raise _damage_error(file, "it has more members than it can hold")
    for info in infos:
        mode = info.external_attr >> 16
        if info.orig_filename != info.filename or not is_member_name(info.filename):
            raise _damage_error(file, f"{info.filename!r} is not a member of any pack")
        is_plain = stat.S_IFMT(mode) in (0, stat.S_IFREG) and not info.is_dir() and not info.flag_bits & 1
        if not is_plain or info.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
            raise _damage_error(file, f"{info.filename!r} is not a plain file")
        if info.file_size != manifest["members"][info.filename]["size"]:
            raise _damage_error(file, f"{info.filename!r} is not as large as its manifest says")
    if name := next(conflicting_names(names), None):
        raise _damage_error(file, f"some systems confuse {name!r} with another member")
    return infos


def _extract_member(archive: ZipFile, info: ZipInfo, listed: dict[str, Any], target: Any, file: Path) -> None:
    try:
        with archive.open(info) as source:
            copied = copy_and_hash(source, target, limit=listed["size"])
    except (BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
        raise _damage_error(file, f"{info.filename!r} cannot be unpacked") from error
    if copied != {"size": listed["size"], "sha256": listed["sha256"]}:
        raise _damage_error(file, f"{info.filename!r} is not what its manifest lists")


def _document_targets(names: Iterable[str], folder: Path) -> dict[str, str]:
    """Raises UsageError if something exists at one of the paths, or a link on the way there."""
    places = {name: name.partition("/")[2] for name in names if name.startswith(f"{ARCHIVE_DOCUMENTS}/")}
    for path in places.values():
        link, target = find_link(folder, path), folder / path
        if link == target or target.exists():
            raise UsageError(f"There is a file at {target} already.", "Choose another folder: localrag unpack FILE DIR")
        if link:
            where = "another place in" if Path(os.path.realpath(link)).is_relative_to(os.path.realpath(folder)) else "a place outside"
            raise UsageError(f"{link} is a link to {where} {folder}.", "Choose another folder: localrag unpack FILE DIR")
    return places


@contextmanager
def _unpack_folder(folder: Path) -> Iterator[Path]:
    """A temporary folder to unpack to; removed at the end, together with new folders that are empty."""
    with ExitStack() as stack:
        try:
            for path in reversed([p for p in (folder, *folder.absolute().parents) if not p.exists()]):
                path.mkdir(mode=0o700)
                stack.callback(_remove_empty, path)
            place = stack.enter_context(temp_folder(folder, UNPACK_FOLDER))
        except OSError as error:
            raise UsageError(
                f"The folder {folder} cannot be written to: {error.strerror}.", "Choose another: localrag unpack FILE DIR"
            ) from error
        yield place


def _remove_empty(folder: Path) -> None:
    with suppress(OSError):  # it has the unpacked files
        folder.rmdir()


def _check_room(infos: list[ZipInfo], folder: Path) -> None:
    needed, free = sum(info.file_size for info in infos), shutil.disk_usage(folder).free
    if needed > free:
        raise LocalragError(
            f"The pack needs {needed / 1e9:,.1f} GB unpacked, and {folder} has {free / 1e9:,.1f} GB free. Nothing was unpacked.",
            "Free some space, or choose a folder on another disk: localrag unpack FILE DIR",
        )


@contextmanager
def _unpacked_index(folder: Path) -> Iterator[Database]:
    db = open_index(folder, create=True)
    try:
        yield db
    except sqlite3.DatabaseError as error:
        raise LocalragError(f"The index in the pack is not usable: {error}. Nothing was unpacked.", _COPY_AGAIN_HINT) from error
    finally:
        db.close()
