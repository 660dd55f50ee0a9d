"""A pack is verified to the last byte before anything of it appears; then the index stands in its place, bound to this machine's models.

The file may be hostile: a member may claim to lie elsewhere, to be a link, or to be small. Only members that `pack` writes are accepted
(`members.py`), no member yields more bytes than the manifest lists or the disk has room for, and what the index stores about the machine
it was made on is dropped (`store/foreign.py`). `domain.toml` gives instructions to models, so it is left out and listed.
"""

import json
import os
import re
import shlex
import shutil
import sqlite3
import stat
import zlib
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile, ZipInfo

from sqlite_utils import Database

from localrag.config import INDEX_FOLDER
from localrag.errors import LocalragError, ModelError, UsageError
from localrag.exchange.members import DOCUMENTS, INDEX, KINDS, MAX_MEMBERS, MODELS, clashes, is_member_name, reason_to_leave_out
from localrag.exchange.pack import DIGITS, FORMAT, MANIFEST, SEAL, bundled, digest_of, is_served, measured
from localrag.llm.domain import FILE_NAME as DOMAIN
from localrag.model_table import known_models, shipped_models
from localrag.models import bundled_chat_model, find_chat_model, find_embedder, fingerprint, shards
from localrag.store import corpus, ledger
from localrag.store.foreign import drop_machine_state, sanitize_database
from localrag.store.names import FILE_NAME
from localrag.store.network import bring_files_up_to_date
from localrag.store.schema import open_index
from localrag.system.files import data_dir, new_file, private_file, private_folder, remove_dead_folders, working_folder

PLACE = "localrag-unpack"
MANIFEST_BASE_BYTES, MANIFEST_ROW_BYTES = 1 << 20, 200  # of a manifest's head; of a row beside the member's name
_SEAL = re.compile(SEAL.format(format=r"(\d{1,6})").encode() + rb"([0-9a-f]{%d})" % DIGITS)
Reasons = tuple[tuple[str, str], ...]  # names, each with the reason
_AGAIN = "Copy it again from where it was made, and check both: localrag unpack --check FILE"


@dataclass(frozen=True, slots=True)
class Model:
    """A model that the index is bound to: where it is on this machine, or, where it is not, what to do about it."""

    kind: str
    name: str
    fingerprint: str
    path: str = ""
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Unpacked:
    """The contents of a pack: the index folder (None if it was only checked), the numbers of documents and of their files, the models.

    `left_out`: files that were not unpacked, and why. `dropped`: what the index stored about the machine it was made on.
    """

    folder: Path | None
    localrag: str
    documents: int
    files: int
    members: int
    size: int
    models: tuple[Model, ...] = ()
    left_out: Reasons = ()
    dropped: Reasons = ()


def check_pack(file: Path) -> Unpacked:
    """Verify a pack, and nothing else. Raises UsageError, LocalragError."""
    with _opened(file) as archive:
        manifest = _manifest(archive, file)
        for info in _members(archive, manifest, file):
            _copied(archive, info, manifest["members"][info.filename], None, file)
    return _result(manifest, None, left_out=_left_out(manifest["members"], None))


def unpack(file: Path, folder: Path) -> Unpacked:
    """Verify a pack and put its index into `folder/.localrag`, its documents into `folder`, its models where pulled ones are kept.

    Nothing that is there is overwritten, and where anything is wrong nothing is left behind; what a killed process left there goes.

    Raises UsageError, LocalragError, IndexMismatch (made by a newer localrag).
    """
    remove_dead_folders(folder, PLACE)
    target = folder / INDEX_FOLDER
    if target.exists() or target.is_symlink():
        raise UsageError(f"There is an index in {folder} already.", "Choose another folder: localrag unpack FILE DIR")
    with _opened(file) as archive:
        manifest = _manifest(archive, file)
        infos = _members(archive, manifest, file)
        with _made(folder) as place:
            _check_room(infos, folder)
            for info in infos:
                private_folder((place / info.filename).parent)
                with private_file(place / info.filename).open("wb") as f:
                    _copied(archive, info, manifest["members"][info.filename], f, file)
            lost = sanitize_database(place / INDEX / FILE_NAME)
            with _unpacked_index(place / INDEX) as db:
                left_out = _left_out(manifest["members"], set(corpus.document_hashes(db)))
                kept = manifest["members"].keys() - dict(left_out).keys()
                documents = _places([info.filename for info in infos if info.filename in kept], folder)
                dropped = (*lost, *drop_machine_state(db))
                models = _bound(db, place, manifest)
                bring_files_up_to_date(db)
            for name, path in documents.items():
                private_folder(path.parent)
                (place / name).replace(path)
            (place / INDEX / DOMAIN).unlink(missing_ok=True)
            (place / INDEX).replace(target)
    return _result(manifest, target, models, left_out, dropped)


def _result(
    manifest: dict[str, Any],
    folder: Path | None,
    models: tuple[Model, ...] = (),
    left_out: Reasons = (),
    dropped: Reasons = (),
) -> Unpacked:
    members = manifest["members"]
    files = sum(name.startswith(f"{DOCUMENTS}/") for name in members.keys() - dict(left_out).keys())
    size = sum(m["size"] for m in members.values())
    shown = tuple((name.removeprefix(f"{DOCUMENTS}/"), why) for name, why in left_out)
    return Unpacked(folder, str(manifest["localrag"]), int(manifest["documents"]), files, len(members), size, models, shown, dropped)


def _left_out(members: Iterable[str], known: set[str] | None) -> Reasons:
    """The members that are not unpacked, and why; `known`: the paths of the index's documents, if it is open."""
    reasons = {}
    for name in members:
        top, _, path = name.partition("/")
        reason = reason_to_leave_out(path, windows=os.name == "nt") if top == DOCUMENTS else ""
        if name == f"{INDEX}/{DOMAIN}":
            reason = f"it gives instructions to models; to use it, read it and put it into {INDEX_FOLDER}: unzip -p FILE {name}"
        if top == DOCUMENTS and not reason and known is not None and path not in known:
            reason = "the index has no document of that path"
        if reason:
            reasons[name] = reason
    return tuple(reasons.items())


def _opened(file: Path) -> ZipFile:
    """The archive of a pack whose seal holds: every byte of it is the one that was written."""
    try:
        with file.open("rb") as f:
            if not stat.S_ISREG(os.fstat(f.fileno()).st_mode):
                raise UsageError(f"{file} is no file.", "Name the file that localrag pack made.")
            size = os.fstat(f.fileno()).st_size
            f.seek(max(0, size - 200))
            seal = re.search(_SEAL.pattern + rb"\Z", f.read())
            if seal is None or int(seal[1]) < 1:
                raise LocalragError(f"{file} is no pack of localrag, or was cut off.", _AGAIN)
            if int(seal[1]) > FORMAT:
                raise LocalragError(f"{file} was made by a newer localrag.", "Upgrade: pip install --upgrade localrag")
            if digest_of(f, size - len(seal[0])) != seal[2].decode():
                raise LocalragError(f"{file} is damaged: it is not what was packed.", _AGAIN)
        return ZipFile(file)
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}.", "Check the path: localrag unpack FILE") from error
    except (BadZipFile, ValueError, NotImplementedError) as error:
        raise _wrong(file, "it is no archive") from error


def _wrong(file: Path, what: str) -> LocalragError:
    return LocalragError(f"{file} is not as localrag packs: {what}. Nothing was unpacked.", "Use a file that localrag pack made.")


def _manifest(archive: ZipFile, file: Path) -> dict[str, Any]:
    try:
        info, most = archive.getinfo(MANIFEST), MANIFEST_BASE_BYTES
        most += sum(MANIFEST_ROW_BYTES + 6 * len(name) for name in archive.namelist())  # JSON may take six bytes for one
        if info.file_size > most:
            raise _wrong(file, "its manifest is too large")
        with archive.open(info) as f:
            found = json.loads(f.read(most))
        sound = isinstance(found["members"], dict) and f"{INDEX}/{FILE_NAME}" in found["members"] and isinstance(found["models"], list)
        sound = sound and all(isinstance(m["size"], int) and isinstance(m["sha256"], str) for m in found["members"].values())
        sound = sound and all(isinstance(m[k], str) for m in found["models"] for k in ("kind", "name", "path", "fingerprint"))
        if not sound or not isinstance(found["documents"], int) or not isinstance(found["localrag"], str):
            raise _wrong(file, "its manifest cannot be read")
    except (KeyError, TypeError, ValueError, EOFError, BadZipFile, zlib.error, AttributeError, RuntimeError) as error:
        raise _wrong(file, "its manifest cannot be read") from error
    return dict(found)


def _members(archive: ZipFile, manifest: dict[str, Any], file: Path) -> list[ZipInfo]:
    """The archive's members but for the manifest: plain files in their places, just those that are listed, as large as listed."""
    infos = [info for info in archive.infolist() if info.filename != MANIFEST]
    names = [info.filename for info in infos]
    if len(infos) + 1 != len(archive.infolist()) or sorted(names) != sorted(manifest["members"]) or len({*names}) != len(names):
        raise _wrong(file, "it has other members than its manifest lists")
    if len(infos) > MAX_MEMBERS or sum(info.compress_size for info in infos) > file.stat().st_size:  # overlapping members
        raise _wrong(file, "it has more members than it can hold")
    for info in infos:
        mode = info.external_attr >> 16
        if info.orig_filename != info.filename or not is_member_name(info.filename):
            raise _wrong(file, f"{info.filename!r} is not a member of any pack")
        if stat.S_IFMT(mode) not in (0, stat.S_IFREG) or info.is_dir() or info.flag_bits & 1:
            raise _wrong(file, f"{info.filename!r} is no plain file")
        if info.file_size != manifest["members"][info.filename]["size"]:
            raise _wrong(file, f"{info.filename!r} is not as large as its manifest says")
    if name := next(clashes(names), None):
        raise _wrong(file, f"some systems confuse {name!r} with another member")
    return infos


def _copied(archive: ZipFile, info: ZipInfo, listed: dict[str, Any], target: Any, file: Path) -> None:
    """Copy a member, which must be just what is listed."""
    try:
        with archive.open(info) as source:
            found = measured(source, target, most=listed["size"])
    except (BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise _wrong(file, f"{info.filename!r} cannot be unpacked") from error
    if found != {"size": listed["size"], "sha256": listed["sha256"]}:
        raise _wrong(file, f"{info.filename!r} is not what its manifest lists")


def _places(names: Iterable[str], folder: Path) -> dict[str, Path]:
    """Where the documents go. Raises UsageError where something is there already."""
    places = {name: folder / name.partition("/")[2] for name in names if name.startswith(f"{DOCUMENTS}/")}
    top = folder.resolve()
    for path in places.values():
        if path.exists() or path.is_symlink():
            raise UsageError(f"There is a file at {path} already.", "Choose another folder: localrag unpack FILE DIR")
        if not path.parent.resolve().is_relative_to(top):
            raise UsageError(f"{path.parent} is a link that leads out of {folder}.", "Choose another folder: localrag unpack FILE DIR")
    return places


@contextmanager
def _made(folder: Path) -> Iterator[Path]:
    """A place within the folder to unpack to, which is gone afterwards; so are folders that had to be made and stay empty."""
    with ExitStack() as stack:
        try:
            for path in reversed([p for p in (folder, *folder.absolute().parents) if not p.exists()]):
                path.mkdir(mode=0o700)
                stack.callback(_remove_empty, path)
            place = stack.enter_context(working_folder(folder, PLACE))
        except OSError as error:
            raise UsageError(
                f"The folder {folder} cannot be written to: {error.strerror}.", "Choose another: localrag unpack FILE DIR"
            ) from error
        yield place


def _remove_empty(folder: Path) -> None:
    with suppress(OSError):  # it holds what was unpacked
        folder.rmdir()


def _check_room(infos: list[ZipInfo], folder: Path) -> None:
    needed, free = sum(info.file_size for info in infos), shutil.disk_usage(folder).free
    if needed > free:
        raise LocalragError(
            f"The pack needs {needed / 1e9:,.1f} GB unpacked, and {folder} has {free / 1e9:,.1f} GB free. Nothing was unpacked.",
            "Make room, or choose a folder on another disk: localrag unpack FILE DIR",
        )


@contextmanager
def _unpacked_index(folder: Path) -> Iterator[Database]:
    """Open the unpacked index. Raises LocalragError where its contents cannot be used."""
    db = open_index(folder, create=True)
    try:
        yield db
    except sqlite3.DatabaseError as error:
        raise LocalragError(f"The index in the pack is not usable: {error}. Nothing was unpacked.", _AGAIN) from error
    finally:
        db.close()


def _bound(db: Database, place: Path, manifest: dict[str, Any]) -> tuple[Model, ...]:
    """Put packed models where pulled ones are kept, and bind the index to the models of this machine."""
    models = []
    for kind in KINDS:
        bound = ledger.settings(db).get(kind)
        if bound is None:
            continue
        model = Model(kind, bound["name"], bound["fingerprint"])
        served = any(row["kind"] == kind and is_served(row["path"]) for row in manifest["models"])
        model = _brought(place / MODELS / kind, model) or _here(model, served=served)
        if model.path:
            ledger.save_settings(db, **{kind: bound | {"path": model.path}})
        models.append(model)
    return tuple(models)


def _brought(packed: Path, model: Model) -> Model | None:
    """A model that came in the pack, now where pulled models are kept; None where none came. Raises ModelError for another one."""
    if not packed.is_dir():
        return None
    first = min(packed.iterdir())
    if fingerprint(first) != model.fingerprint:
        raise ModelError(f"The model {model.name} in the pack is not the one that its index was made with.", _AGAIN)
    folder = private_folder(data_dir() / "models")
    if first.is_dir():
        target = folder / f"{first.name}-{model.fingerprint}"
        if not target.exists():
            shutil.move(first, target)
        return replace(model, path=str(target))
    folder = private_folder(folder / model.fingerprint)  # two models may have one name
    for part in shards(first):  # other files in the folder are not taken
        if not (folder / part.name).exists():
            with new_file(folder / part.name) as new:
                shutil.copyfile(part, new)
    return replace(model, path=str(folder / first.name))


def _here(model: Model, *, served: bool) -> Model:
    """Find a model on this machine: among those that come with localrag, or on the list of models."""
    if model.fingerprint in bundled():
        return replace(model, path=_bundled_path(model))
    find, kind = (find_chat_model, "chat") if model.kind == "chat_model" else (find_embedder, "embedder")
    for name in known_models()[kind] if not served else ():
        with suppress(ModelError):
            file = find(name)
            if file.fingerprint == model.fingerprint:
                return replace(model, path=str(file.path))
    if served:
        return replace(model, remedy=f'Name its server once: localrag ask "…" --model http://HOST:PORT/v1#{shlex.quote(model.name)}')
    other = (
        "or ask with another: localrag ask --model NAME"
        if kind == "chat"
        else "or embed anew with another: localrag reembed --embedder NAME"
    )
    add = f"localrag models add FILE --name {shlex.quote(model.name)}"
    return replace(model, remedy=f"Copy its file here ({add}), include it in the pack (localrag pack FILE --models), {other}")


def _bundled_path(model: Model) -> str:
    file = bundled_chat_model() if model.kind == "chat_model" else find_embedder(shipped_models()["default_embedder"])
    return str(file.path)
