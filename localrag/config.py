"""Settings: what a user may choose, with the defaults that were measured; and where localrag keeps its files."""

import os
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from secrets import token_hex
from typing import Any, TypeVar

import platformdirs
import psutil

from localrag.cgroups import core_limit, memory_left
from localrag.errors import LocalragError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

T = TypeVar("T")

INDEX_FOLDER = ".localrag"


@dataclass(frozen=True, slots=True)
class Example:
    """An extraction to show the model: a text, its entities as (name, type), which of them are related."""

    text: str
    entities: tuple[tuple[str, str], ...]
    relationships: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Domain:
    """What is known about a corpus beforehand (`llm/domain.py`)."""

    about: str = ""
    persona: str = ""
    language: str = ""
    rating: str = ""
    entity_types: tuple[str, ...] = ()
    examples: tuple[Example, ...] = ()


@dataclass(frozen=True, slots=True)
class Settings:
    """The choices an index is made with; they are stored in it."""

    chunk_tokens: int = 680  # at most; 570 on average
    chunk_overlap: int = 100
    entity_types: tuple[str, ...] = ("person", "organization", "place", "event")
    max_cluster_size: int = 10
    seed: int = 0
    style: str = "auto"  # extractive | abstractive | auto: by the model's size
    extractor: str = "model"  # model | phrases: without a model
    max_gleanings: int = 0  # how often the model is asked whether names were missed
    claims: bool = False  # what is said of entities: type, status, dates
    language: str = ""  # of prompts and answers; empty: the documents' own
    text_column: str = ""  # of files of rows (CSV, JSON …): the column that holds the text, each row a paragraph
    metadata_columns: tuple[str, ...] = ()  # those whose values stand before it
    follow_links: bool = False  # links that lead out of the folders that are indexed
    prepend_metadata: bool = False  # title, date and author before a chunk where it is embedded or shown to a model
    domain: Domain = Domain()  # read from its own file whenever the index is opened

    def to_json(self) -> dict[str, Any]:
        """The settings as JSON-ready values; the domain has a file of its own."""
        return {k: v for k, v in asdict(self).items() if k != "domain"}

    def with_domain(self, domain: Domain) -> "Settings":
        """These settings with what the domain says of types and language."""
        return replace(
            self, domain=domain, entity_types=domain.entity_types or self.entity_types, language=self.language or domain.language
        )

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Settings":
        """The settings that `to_json` wrote; unknown names are ignored, missing ones take today's default."""
        known = {f.name for f in fields(cls) if f.name != "domain"}
        kept: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items() if k in known}
        return cls(**kept)


def cache_dir() -> Path:
    """Where requantised models, vocabularies and fingerprints are kept (`LOCALRAG_HOME` moves it); created if missing.

    Where it cannot be created, writing to it fails: everything in it can be done without.
    """
    home = os.environ.get("LOCALRAG_HOME")
    folder = Path(home) / "cache" if home else platformdirs.user_cache_path("localrag")
    with suppress(OSError):
        private_folder(folder)
    return folder


def private_folder(folder: Path) -> Path:
    """The folder, made if it is missing with those above it, for its owner alone; one that exists keeps the mode its owner gave it."""
    if not folder.is_dir():
        private_folder(folder.parent).joinpath(folder.name).mkdir(mode=0o700, exist_ok=True)
    return folder


def private_file(path: Path) -> Path:
    """The file, made empty if it is missing, and then for its owner alone: libraries that write to it leave its mode as it is."""
    path.touch(mode=0o600)
    return path


def replace_file(path: Path, data: bytes) -> None:
    """Write a file for its owner alone, in one step: another process sees the old content or the new, never half."""
    with new_file(path) as part:
        part.write_bytes(data)


@contextmanager
def new_file(target: Path) -> Iterator[Path]:
    """An empty file beside `target`, for its owner alone, to be written by its path; then it takes the target's place in one step.

    It is removed where the writing fails, and so are those that killed processes left in the folder. Raises OSError.
    """
    remove_dead_parts(target.parent)
    part = private_file(target.with_name(f"{target.name}.localrag-{os.getpid()}-{token_hex(4)}.part"))
    try:
        with part.open("rb") as held:
            if fcntl:  # says that its process lives also where process numbers do not: in another container, on another machine
                fcntl.flock(held, fcntl.LOCK_SH)
            yield part
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def remove_dead_parts(folder: Path) -> None:
    """Remove the files that `new_file` began in a folder and whose process is gone."""
    with suppress(OSError):
        for part in folder.glob("*.localrag-*.part"):
            pid = re.search(r"\.localrag-(\d+)-[0-9a-f]+\.part$", part.name)
            if pid and not psutil.pid_exists(int(pid[1])) and not _is_held(part):
                part.unlink(missing_ok=True)


def _is_held(part: Path) -> bool:
    if not fcntl:
        return False
    try:
        with part.open("rb") as f:
            fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    return False


def check_system() -> None:
    """Raises LocalragError on Windows, which lacks what indexing needs: limits for another process, locks that end with theirs."""
    if not fcntl:
        raise LocalragError("Indexing does not run on Windows itself.", "Use the Windows Subsystem for Linux: wsl --install")


def free_cores() -> int:
    """How many cores the engine may use: those this process is allowed on, and no more than its container has time for."""
    try:
        allowed = len(os.sched_getaffinity(0))
    except AttributeError:  # macOS and Windows have no affinity call
        allowed = os.cpu_count() or 1
    return max(1, int(min(allowed, core_limit() or allowed)))


def in_a_thread_that_ends(work: Callable[[], T]) -> T:
    """The result of `work`, computed in a thread of its own.

    OpenMP keeps a team of workers for every thread that ever computed with it. Torch and llama.cpp share one OpenMP: once it counts more
    workers than cores, they sleep instead of spin at each of a step's thousand barriers (measured: 258 ms a step against 95). A thread that
    ends takes its team along.
    """
    with ThreadPoolExecutor(1) as once:
        return once.submit(work).result()


def free_memory() -> int | None:
    """Bytes of memory that are free or can be freed, on the machine and in this process's container, where the system says."""
    found = [memory_left()]
    with suppress(OSError, RuntimeError, NotImplementedError):
        found.append(int(psutil.virtual_memory().available))
    return min((n for n in found if n is not None), default=None)
