"""Every setting: its name, which is its option's, its type, its default and what it does."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from localrag.config import VARIABLES


def _parts(value: Any) -> Any:
    """A list, also where it is written as an option takes it: A,B."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return tuple(value) if isinstance(value, list) else value


def _plain(kinds: tuple[str, ...]) -> tuple[str, ...]:
    if any('"' in kind or "\\" in kind or "\n" in kind for kind in kinds):
        raise ValueError("a type of entities has no quotation marks, backslashes or line breaks")
    return kinds


def _engine(values: str) -> str:
    from localrag.engine.settings import EngineOptions
    from localrag.errors import UsageError

    try:
        EngineOptions.of(values)
    except UsageError as error:
        raise ValueError(f"{error} {error.hint}") from error
    return values


Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_parts)]
Mode = Literal["auto", "mix", "local", "global", "drift", "basic", "ts", "ss"]


class Values(BaseSettings):
    """The settings. `examples` stand for a default that is no value of its own: they are what `localrag init` writes."""

    model_config = SettingsConfigDict(env_prefix=VARIABLES, extra="forbid", env_ignore_empty=True)

    index: str = Field("", description="The index folder. Default: the nearest .localrag, here or above.", examples=[".localrag"])
    model: str = Field(
        "", description="Chat model: a name in models.toml, a GGUF file, or http://HOST:PORT/v1#NAME.", examples=["models/chat.gguf"]
    )
    embedder: str = Field("", description="Embedding model: a name in models.toml, or a GGUF file.", examples=["models/embedder.gguf"])
    reranker: str = Field("", description="Re-rank passages with this cross-encoder. Default: none.", examples=["models/reranker.gguf"])

    mode: Mode = Field("auto", description="How questions are answered: auto, mix, local, global, drift, basic, ts or ss.")
    style: Literal["", "extractive", "abstractive"] = Field(
        "", description="extractive: quote sentences. abstractive: let the model write. Default: by model size.", examples=["extractive"]
    )
    strict: bool = Field(default=False, description="Leave out sentences that no passage supports.")
    response_type: str = Field("", description="The form of answers.", examples=["multiple paragraphs"])
    max_calls: int | None = Field(
        None, ge=0, description="Maximum model calls of an answer. Default: 50 calls and 100,000 tokens.", examples=[50]
    )
    no_log: bool = Field(default=False, description="Keep neither questions nor answers.")
    max_seconds: float | None = Field(None, ge=0, description="Maximum seconds of an answer. Default: no limit.", examples=[120])

    extractor: Literal["model", "phrases"] = Field(
        "model", description="How names are found: model, or phrases: names and noun phrases, without a model."
    )
    types: Annotated[Names, AfterValidator(_plain)] = Field(
        ("person", "organization", "place", "event"), description="Entity types to extract."
    )
    gleanings: int = Field(0, ge=0, description="How often to ask the model for missed names.")
    claims: bool = Field(default=False, description="Also extract claims: who did what, and when.")
    language: str = Field("", description="Language of reports and answers. Default: the documents' own.", examples=["English"])
    chunk_tokens: int = Field(680, ge=100, le=4000, description="Maximum tokens of a chunk.")
    text_column: str = Field("", description="Column of CSV, Excel and JSON rows that holds the text.", examples=["text"])
    metadata_columns: Names = Field((), description="Columns to put before the text of a row.", examples=[["date", "author"]])
    prepend_metadata: bool = Field(default=False, description="Add the document's title, date and author to each chunk.")
    ocr: bool = Field(default=True, description="Read scans and pictures with Tesseract where it is installed.")
    ocr_languages: Names = Field(
        (), description="Tesseract's codes of the scans' languages. Default: the index's, or eng.", examples=[["eng", "deu"]]
    )
    follow_links: bool = Field(default=False, description="Follow symbolic links that lead out of the folders.")

    engine: Annotated[str, AfterValidator(_engine)] = Field("", description="Engine settings by hand.", examples=["slots=4,context=8192"])
    at_once: int = Field(0, ge=0, description="Parallel requests to each model server. 0: what it reports, or 8.")
    workers: int = Field(0, ge=0, le=256, description="Processes that index at the same time. 0: one, helped by free cores.")
    deterministic: bool = Field(default=False, description="Make every answer independent of other requests, even if that is slower.")
    allow_host: Names = Field((), description="Allow sending document text to a model server on these hosts.", examples=[["gpu.example"]])

    host: str = Field("127.0.0.1", description="serve: address to listen on. Beyond this machine only with api_key_file.")
    port: int = Field(8765, ge=0, le=65535, description="serve: port to listen on. 0: any that is free.")
    no_open: bool = Field(default=False, description="serve: do not open the page in a browser.")
    read_only: bool = Field(default=False, description="serve: let nobody add, remove or index documents through the server.")
    inbox: str = Field("", description="serve: folder for files that are dragged into the page. Default: inbox.", examples=["inbox"])
    api_key_file: str = Field("", description="serve: file with the API key. Default: one in the index folder.", examples=["serve.key"])
    trust_host: Names = Field((), description="serve: other names the server goes by.", examples=[["rag.example"]])
    cors: Names = Field((), description="serve: web origins that may use the server.", examples=[["https://notes.example"]])
    api_sources: bool = Field(default=True, description="serve: list the sources behind each answer.")


NAMES = tuple(Values.model_fields)
# Each opens this machine or sends text away from it, and a folder with a localrag.toml may come from somebody else.
USER_ONLY = ("allow_host", "host", "api_key_file", "trust_host", "cors")
NO_VARIABLE = ("api_key_file",)  # LOCALRAG_API_KEY_FILE is the key for a model server
PATHS = ("index", "inbox", "api_key_file")  # in a file, relative to its folder
MODELS = ("model", "embedder", "reranker")  # likewise, where there is such a file


def about(name: str) -> str:
    """What a setting does, in a sentence or two."""
    return str(Values.model_fields[name].description)


def default(name: str) -> Any:
    """The default of a setting."""
    return Values.model_fields[name].default


def example(name: str) -> Any:
    """The default, or a value by way of example where the default is no value of its own."""
    field = Values.model_fields[name]
    return field.examples[0] if field.examples else field.default


def allowed(name: str) -> str:
    """What a setting may be, in words."""
    schema = Values.model_json_schema()["properties"][name]
    schema = next((s for s in schema.get("anyOf", ()) if s["type"] != "null"), schema)
    if choices := [c for c in schema.get("enum", ()) if c]:
        return f"{', '.join(choices[:-1])} or {choices[-1]}"
    kind = {"string": "a text", "boolean": "true or false", "integer": "a whole number", "number": "a number", "array": "a list of texts"}
    least, most = schema.get("minimum"), schema.get("maximum")
    between = f" from {least} to {most}" if most is not None else f" of at least {least}" if least is not None else ""
    return kind[schema["type"]] + between
