"""Settings: what a user may choose, with the defaults that were measured."""

from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


INDEX_FOLDER = ".localrag"
VARIABLES = "LOCALRAG_"  # how the environment's begin
PROJECT_FILE = "localrag.toml"  # settings of everything in and below its folder

OwnPrompts = tuple[tuple[str, str, str], ...]  # prompts that a user wrote: name, text of the file, path of the file


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


_OWN_FILES = ("domain", "prompts")


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
    ocr: bool = True  # scans and pictures are read where Tesseract is installed
    ocr_languages: tuple[str, ...] = ()  # Tesseract's codes; empty: the index's language, else English
    follow_links: bool = False  # links that lead out of the folders that are indexed
    prepend_metadata: bool = False  # title, date and author before a chunk where it is embedded or shown to a model
    domain: Domain = Domain()  # read from its own file whenever the index is opened
    prompts: OwnPrompts = ()  # likewise

    def to_json(self) -> dict[str, Any]:
        """The settings as JSON-ready values; the domain and prompts have files of their own."""
        return {k: v for k, v in asdict(self).items() if k not in _OWN_FILES}

    def with_domain(self, domain: Domain) -> "Settings":
        """These settings with what the domain says of types and language."""
        return replace(
            self, domain=domain, entity_types=domain.entity_types or self.entity_types, language=self.language or domain.language
        )

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Settings":
        """The settings that `to_json` wrote; unknown names are ignored, missing ones take today's default."""
        known = {f.name for f in fields(cls) if f.name not in _OWN_FILES}
        kept: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items() if k in known}
        return cls(**kept)


def project_file(start: Path) -> Path | None:
    """The nearest localrag.toml in a folder or above it, if there is one."""
    start = start.absolute()
    return next((f for folder in (start, *start.parents) if (f := folder / PROJECT_FILE).is_file()), None)
