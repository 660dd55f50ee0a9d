"""One file that carries an index to another machine and proves itself: a zip archive, its manifest, and a seal over every byte.

A zip, because every system can open it, it has random access (the manifest is read before anything is unpacked), members of any size
(ZIP64), and Python writes and reads it as a stream. Zip's own check sums are 32 bits wide and do not cover its headers, so the archive's
comment, its last bytes, is the seal: the SHA-256 of everything before it. It finds damage; it does not say who made the file.
"""

import json
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path, PurePosixPath
from tempfile import mkdtemp
from typing import Any, BinaryIO
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

from localrag import __version__
from localrag.errors import ModelError, UsageError
from localrag.exchange.members import (
    BESIDE,
    DOCUMENTS,
    INDEX,
    KINDS,
    MAX_MEMBERS,
    MODELS,
    clashes,
    is_member_name,
    is_safe,
    reason_to_leave_out,
)
from localrag.model_table import shipped_models
from localrag.models import ModelFile, bundled_chat_model, find_chat_model, find_embedder, shards
from localrag.opening import find_index, root_of
from localrag.store import corpus, ledger
from localrag.store.connect import snapshot
from localrag.store.names import FILE_NAME
from localrag.store.schema import copy_database, open_index
from localrag.system.files import new_file

FORMAT = 1
MANIFEST = "manifest.json"
SEAL = "localrag pack {format} sha256 "  # and 64 hexadecimal digits: the archive's comment
DIGITS = 64
BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class Packed:
    """What a pack holds, and what was left out of it: path and reason."""

    path: Path
    size: int
    manifest: dict[str, Any]
    left_out: tuple[tuple[str, str], ...] = ()


def pack(target: Path, chosen: Path | None = None, *, documents: bool = False, models: bool = False) -> Packed:
    """Write an index, as it is at this moment, to one new file; with the documents it was made from and its models, if so wished.

    Another process may go on indexing. The file is for its owner alone and appears whole or not at all. Raises NoIndex, UsageError,
    ModelError.
    """
    folder = find_index(chosen)
    if target.exists() or target.is_symlink():
        raise UsageError(f"There is a file at {target} already.", "Choose another name, or remove it first.")
    if not target.parent.is_dir():
        raise UsageError(f"There is no folder {target.parent}.", "Make it, or choose another place: localrag pack FILE")
    with _copied(folder, target.parent) as copy:
        with snapshot(copy) as db:
            bound, paths = ledger.settings(db), sorted(corpus.document_hashes(db))
        found, left_out = _documents(paths, root_of(folder)) if documents else ({}, ())
        rows = [{"kind": kind} | {k: bound[kind][k] for k in ("name", "path", "fingerprint")} for kind in KINDS if kind in bound]
        files = {f"{INDEX}/{FILE_NAME}": copy / FILE_NAME}
        files |= {f"{INDEX}/{name}": folder / name for name in BESIDE if (folder / name).is_file()}
        files |= {f"{DOCUMENTS}/{path}": file for path, file in found.items()}
        for row in rows if models else ():
            files |= _model_files(row)
        if len(files) > MAX_MEMBERS:
            raise UsageError(f"A pack holds at most {MAX_MEMBERS:,} files, and these are {len(files):,}.", "Leave out --documents.")
        manifest = {"format": FORMAT, "localrag": __version__, "documents": len(paths), "models": rows}
        with new_file(target) as part:
            manifest = _written(part, files, manifest)
    return Packed(target, target.stat().st_size, manifest, tuple(left_out))


@contextmanager
def _copied(folder: Path, beside: Path) -> Iterator[Path]:
    """A folder with a copy of the index's database, gone afterwards."""
    place = Path(mkdtemp(prefix=".localrag-pack-", dir=beside))
    try:
        db = open_index(folder)
        try:
            copy_database(db, place / FILE_NAME)
        finally:
            db.close()
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _documents(paths: list[str], root: Path) -> tuple[dict[str, Path], tuple[tuple[str, str], ...]]:
    """The files of documents that lie below the index's root; the others with the reason why they stay behind."""
    found: dict[str, Path] = {}
    left_out: dict[str, str] = {}
    for path in paths:
        file = root / path
        if PurePosixPath(path).is_absolute() or not is_safe(path):
            left_out[path] = "lies outside the folder that holds the index"
        elif reason := reason_to_leave_out(path):
            left_out[path] = reason
        elif not is_member_name(f"{DOCUMENTS}/{path}"):
            left_out[path] = "its path is too long for a pack"
        elif not file.is_file():
            left_out[path] = "no file is there"
        else:
            found[path] = file
    for path in clashes(found):
        left_out[path] = "some systems confuse its name with another document's"
        del found[path]
    return found, tuple(left_out.items())


def _model_files(bound: dict[str, Any]) -> dict[str, Path]:
    """The members that a bound model's files become; none of one that is bundled or behind a server. Raises ModelError."""
    if is_served(bound["path"]) or bound["fingerprint"] in bundled():
        return {}
    file = (find_chat_model if bound["kind"] == "chat_model" else find_embedder)(bound["path"])
    if file.fingerprint != bound["fingerprint"]:
        raise ModelError(
            f"{file.path} is not the model {bound['name']} that the index was made with.", "Put that back, or leave out --models."
        )
    return {f"{MODELS}/{bound['kind']}/{name}": path for name, path in _parts(file)}


def _parts(file: ModelFile) -> list[tuple[str, Path]]:
    """The files of a model with the names they go by below its own."""
    if not file.path.is_dir():
        return [(path.name, path) for path in shards(file.path)]
    some = sorted(path for path in file.path.rglob("*") if path.is_file() and not path.name.startswith("."))
    return [(f"{file.name}/{path.relative_to(file.path).as_posix()}", path) for path in some]


def is_served(path: str) -> bool:
    """Whether a bound model is one behind a server."""
    return path.startswith(("http://", "https://"))


def bundled() -> set[str]:
    """The fingerprints of the models that come with localrag wherever it is installed."""
    shipped = shipped_models()
    embedder = find_embedder(shipped["default_embedder"])
    return {bundled_chat_model().fingerprint, embedder.fingerprint}


def _written(part: Path, files: dict[str, Path], manifest: dict[str, Any]) -> dict[str, Any]:
    """Write the archive and its seal; returns the manifest with every member's size and SHA-256."""
    members: dict[str, dict[str, Any]] = {}
    seal = SEAL.format(format=FORMAT).encode()
    with ZipFile(part, "w", allowZip64=True) as archive:
        archive.comment = seal + b"0" * DIGITS
        for name, file in files.items():
            method = ZIP_STORED if name.startswith(f"{MODELS}/") else ZIP_DEFLATED  # weights are as good as random
            with file.open("rb") as source, archive.open(_info(name, method), "w", force_zip64=True) as member:
                members[name] = measured(source, member)
        whole = manifest | {"members": members}
        with archive.open(_info(MANIFEST, ZIP_DEFLATED), "w") as member:
            member.write(json.dumps(whole, ensure_ascii=False, indent=1).encode())
    with part.open("r+b") as f:
        digest = digest_of(f, part.stat().st_size - DIGITS - len(seal))
        f.seek(-DIGITS, os.SEEK_END)
        f.write(digest.encode())
        f.flush()
        os.fsync(f.fileno())
    return whole


def _info(name: str, method: int) -> ZipInfo:
    info = ZipInfo(name)  # of no date: the same content gives the same bytes
    info.compress_type = method
    info.external_attr = (stat.S_IFREG | 0o600) << 16
    return info


def measured(source: Any, target: Any, most: int | None = None) -> dict[str, Any]:
    """Copy a stream block by block; its size and SHA-256. Stops after `most` bytes and a block."""
    digest, size = sha256(), 0
    while block := source.read(BLOCK):
        digest.update(block)
        size += len(block)
        if most is not None and size > most:
            break
        if target is not None:
            target.write(block)
    return {"size": size, "sha256": digest.hexdigest()}


def digest_of(file: BinaryIO, length: int) -> str:
    """The SHA-256 of the first `length` bytes."""
    digest = sha256()
    file.seek(0)
    while length > 0 and (block := file.read(min(BLOCK, length))):
        digest.update(block)
        length -= len(block)
    return digest.hexdigest()
