"""Models on the machine of a worker: found there by what is in them, or sent in pieces and checked."""

import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from os import getpid
from pathlib import Path

import psutil

from localrag.errors import LocalragError, ModelError
from localrag.model_table import known_models
from localrag.models import ModelFile, find_chat_model, find_embedder, fingerprint, shards, stamp
from localrag.system.files import cache_dir, private_file, private_folder, was_used

PIECE = 16 << 20  # bytes that are sent at once
FOLDER = "models"  # in the cache


@dataclass(frozen=True, slots=True)
class Wanted:
    """A model that a worker needs: what it is known by, its files with their sizes, where it is on the machine that has it."""

    kind: str
    name: str
    fingerprint: str
    weight: int  # bytes that the fingerprint is of
    files: tuple[tuple[str, int], ...]
    path: Path
    folder: bool

    @classmethod
    def of(cls, file: ModelFile) -> "Wanted":
        """The model in a file, in several, or in a folder. Raises ModelError."""
        folder = file.path.is_dir()
        found = sorted(p for p in file.path.rglob("*") if p.is_file()) if folder else shards(file.path)
        root = file.path if folder else file.path.parent
        files = tuple((p.relative_to(root).as_posix(), p.stat().st_size) for p in found)
        return cls(file.kind, file.name, file.fingerprint, _weight(file.path), files, file.path, folder)

    @property
    def size(self) -> int:
        """Bytes to send."""
        return sum(size for _, size in self.files)

    def in_folder(self, folder: Path) -> Path:
        """What is to be opened, where its files are in a folder."""
        return folder if self.folder else folder / self.files[0][0]

    def pieces(self) -> Iterator[tuple[str, int, bytes]]:
        """Its files in order: name, place in the file, bytes. Raises OSError."""
        root = self.path if self.folder else self.path.parent
        for name, _ in self.files:
            with (root / name).open("rb") as f:
                at = 0
                while piece := f.read(PIECE):
                    yield name, at, piece
                    at += len(piece)


def _weight(path: Path) -> int:
    return sum(size for _, size, _ in stamp(path))


def find(wanted: Wanted) -> Path | None:
    """Where the model is on this machine: sent before, or among those that are known here under whatever name."""
    for path in _candidates(wanted):
        with suppress(ModelError, OSError):
            if path.exists() and _weight(path) == wanted.weight and fingerprint(path) == wanted.fingerprint:
                if path.is_relative_to(cache_dir() / FOLDER):
                    was_used(_folder_of(wanted) / wanted.files[0][0])
                return path
    return None


def _candidates(wanted: Wanted) -> Iterator[Path]:
    yield wanted.in_folder(_folder_of(wanted))
    for name in known_models()[wanted.kind]:
        with suppress(ModelError):
            yield (find_embedder if wanted.kind == "embedder" else find_chat_model)(name).path


def _folder_of(wanted: Wanted) -> Path:
    """The folder in the cache for the files of a model that another machine sent."""
    return cache_dir() / FOLDER / wanted.fingerprint


class Arriving:
    """A model on its way to this machine. What does not come whole leaves nothing."""

    def __init__(self, wanted: Wanted) -> None:
        """Make room for it. Raises LocalragError where the disk has none."""
        self.wanted = wanted
        self._target = _folder_of(wanted)
        self._part = self._target.with_name(f"{wanted.fingerprint}.{getpid()}.part")
        try:
            private_folder(self._target.parent)
            for part in dead_parts(self._target.parent):
                shutil.rmtree(part, ignore_errors=True)
            free = shutil.disk_usage(self._target.parent).free
        except OSError as error:
            raise self._full(error.strerror) from error
        if free < wanted.size:
            raise self._full(f"{free / 1e6:.0f} MB are free")

    def _full(self, why: str | None) -> LocalragError:
        said = f"There is no room for the model {self.wanted.name} ({self.wanted.size / 1e6:.0f} MB) in {self._target.parent}: {why}."
        return LocalragError(said, "Make room there, or put the models elsewhere with LOCALRAG_HOME, and start the worker again.")

    def take(self, name: str, at: int, piece: bytes) -> None:
        """Write a piece. Raises LocalragError."""
        if name not in dict(self.wanted.files):
            raise LocalragError("A file came that is none of the model's.")
        path = self._part / name
        try:
            private_folder(path.parent)
            with private_file(path).open("r+b") as f:
                f.seek(at)
                f.write(piece)
        except OSError as error:
            self.drop()
            raise self._full(error.strerror) from error

    def seal(self, digests: dict[str, str]) -> Path:
        """Check every file and put the model into place; where it is. Raises LocalragError."""
        try:
            for name, digest in digests.items():
                with (self._part / name).open("rb") as f:
                    found = sha256()
                    while block := f.read(1 << 20):
                        found.update(block)
                if found.hexdigest() != digest:
                    raise LocalragError(f"The model {self.wanted.name} arrived damaged.", "Start the worker again.")
            with suppress(OSError):  # another worker of this machine was quicker
                self._part.rename(self._target)
        except OSError as error:
            raise self._full(error.strerror) from error
        finally:
            self.drop()
        path = self.wanted.in_folder(self._target)
        if fingerprint(path) != self.wanted.fingerprint:
            raise LocalragError(f"The model {self.wanted.name} arrived as another.", f"Remove {self._target} and start the worker again.")
        return path

    def drop(self) -> None:
        """Remove what came so far."""
        shutil.rmtree(self._part, ignore_errors=True)


def dead_parts(folder: Path) -> list[Path]:
    """The folders of incomplete models whose receiving process has ended."""
    numbers = {part: part.name.split(".")[-2] for part in folder.glob("*.*.part")}
    return [part for part, number in numbers.items() if number.isdigit() and not psutil.pid_exists(int(number)) and part.is_dir()]
