"""IndexSettings: the choices an index is built with, and their defaults; names of settings files and variables."""

from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, get_args

INDEX_FOLDER = ".localrag"
ENV_PREFIX = "LOCALRAG_"  # prefix of environment variables
PROJECT_FILE = "localrag.toml"  # settings for everything in and below its folder
QueryMode = Literal["auto", "mix", "local", "global", "drift", "basic", "ts", "ss"]
QUERY_MODES: tuple[str, ...] = get_args(QueryMode)

PromptOverrides = tuple[tuple[str, str, str], ...]  # a user's prompts: (name, text, path)


@dataclass(frozen=True, slots=True)
class Example:
    """An example extraction for the model: a text, its entities as (name, type), and its related pairs."""

    text: str
    entities: tuple[tuple[str, str], ...]
    relationships: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Domain:
    """A description of the corpus by the user (`llm/domain.py`)."""

    description: str = ""
    persona: str = ""
    language: str = ""
    rating_criteria: str = ""
    entity_types: tuple[str, ...] = ()
    examples: tuple[Example, ...] = ()


DEFAULT_ENTITY_TYPES = ("person", "organization", "place", "event", "product", "concept", "rule", "date")
_SETTINGS_IN_OWN_FILES = ("domain", "prompts")


@dataclass(frozen=True, slots=True)
class IndexSettings:
    """The choices an index is built with; they are stored in it."""

    chunk_tokens: int = 680  # maximum; 570 on average
    chunk_overlap: int = 100
    entity_types: tuple[str, ...] = DEFAULT_ENTITY_TYPES
    max_cluster_size: int = 10
    seed: int = 0
    style: str = "auto"  # extractive | abstractive | auto: by the model's size
    extractor: str = "auto"  # auto | tagger | model | phrases
    max_gleanings: int = 0  # rounds in which the model is asked for missed names
    claims: bool = False  # extract claims about entities: type, status, dates
    language: str = ""  # language of prompts and answers; empty: the documents' own
    text_column: str = ""  # of tables (CSV, JSON …): the column with the text, each row a paragraph
    metadata_columns: tuple[str, ...] = ()  # the columns whose values precede the text
    ocr: bool = True  # read scans and images
    ocr_languages: tuple[str, ...] = ()  # Tesseract's codes; empty: the index's language, else English
    follow_links: bool = False  # follow links out of the indexed folders
    all_files: bool = False  # also read leftovers, lock files, generated code, dependencies
    prepend_metadata: bool = False  # prefix chunks with title, date and author for embedding and prompts
    domain: Domain = Domain()  # read from its own file when the index is opened
    prompts: PromptOverrides = ()  # likewise

    def to_json(self) -> dict[str, Any]:
        """The settings as JSON-ready values, without domain and prompts, which have their own files."""
        return {name: value for name, value in asdict(self).items() if name not in _SETTINGS_IN_OWN_FILES}

    def with_domain(self, domain: Domain) -> "IndexSettings":
        """These settings with the domain, including its entity types and language."""
        return replace(
            self, domain=domain, entity_types=domain.entity_types or self.entity_types, language=self.language or domain.language
        )

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "IndexSettings":
        """The settings written by `to_json`; unknown names are ignored, missing ones and those of another type get the current defaults."""
        names = {field.name for field in fields(cls)} - set(_SETTINGS_IN_OWN_FILES)
        arguments: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items() if k in names}
        return cls(**{name: v for name, v in arguments.items() if _is_of_type(v, getattr(_DEFAULTS, name))})


def _is_of_type(value: Any, default: Any) -> bool:
    return type(value) is type(default) and (not isinstance(value, tuple) or all(isinstance(text, str) for text in value))


_DEFAULTS = IndexSettings()


def project_file(start: Path) -> Path | None:
    """The nearest localrag.toml in or above a folder; None if there is none."""
    start = start.absolute()
    return next((f for folder in (start, *start.parents) if (f := folder / PROJECT_FILE).is_file()), None)
