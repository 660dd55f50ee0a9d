"""Settings: what a user may choose, with the defaults that were measured; and where localrag keeps its files."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar

import platformdirs
import psutil

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
    """Where requantised models, vocabularies and fingerprints are kept (`LOCALRAG_HOME` moves it); created if missing."""
    home = os.environ.get("LOCALRAG_HOME")
    return private_folder(Path(home) / "cache" if home else platformdirs.user_cache_path("localrag"))


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
    part = private_file(path.with_name(f"{path.name}.{os.getpid()}.{id(data):x}.part"))
    part.write_bytes(data)
    part.replace(path)


def free_cores() -> int:
    """How many cores the engine may use: the ones this process is allowed on."""
    try:
        return max(1, len(os.sched_getaffinity(0)))
    except AttributeError:  # macOS and Windows have no affinity call
        return max(1, os.cpu_count() or 1)


def in_a_thread_that_ends(work: Callable[[], T]) -> T:
    """The result of `work`, computed in a thread of its own.

    OpenMP keeps a team of workers for every thread that ever computed with it. Torch and llama.cpp share one OpenMP: once it counts more
    workers than cores, they sleep instead of spin at each of a step's thousand barriers (measured: 258 ms a step against 95). A thread that
    ends takes its team along.
    """
    with ThreadPoolExecutor(1) as once:
        return once.submit(work).result()


def free_memory() -> int | None:
    """Bytes of memory that are free or can be freed, where the system says."""
    try:
        return int(psutil.virtual_memory().available)
    except (OSError, RuntimeError, NotImplementedError):
        return None
