"""What extracts the names of an index, and what writes its reports: the bundled tagger or the chat model.

With `--extractor auto` the chat model does so where it is measured to be done within MAX_MODEL_SECONDS on this machine or its server. The
choice is made once for an index, so that an edit does not cause everything to be extracted again; `--rebuild` makes it again.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

from sqlite_utils import Database

from localrag.errors import UsageError
from localrag.indexing.extraction.nlp import has_tagger_types
from localrag.llm.budgets import DECODE_FACTOR, estimate_seconds, record_stage_speeds, stage_speeds
from localrag.llm.model import SMALL_MODEL_PARAMETERS
from localrag.llm.tagger import Tagger
from localrag.model_files import ModelFile, bundled_chat_model, parameters_of
from localrag.project import Project, resolve_answer_style
from localrag.settings import IndexSettings
from localrag.store import graph, runs

MAX_MODEL_SECONDS = 900.0  # in which the chat model extracts everything, or writes all reports, to be chosen
PREFILL_TOKENS_PER_CHUNK, DECODE_TOKENS_PER_CHUNK = 1500, 900  # of an extraction by a model that writes descriptions
TOKENS_PER_CHUNK_OF_WRITER = PREFILL_TOKENS_PER_CHUNK + DECODE_TOKENS_PER_CHUNK
TOKENS_PER_REPORT_CHUNK = 2500  # of reports, descriptions and decisions on equal names, per chunk of the index


@dataclass(frozen=True, slots=True)
class IndexingMethod:
    """How an index is built. `by`: tagger, model or phrases; `style`: of extractions and descriptions; `reports`: of reports.

    `asks_model`: the chat model extracts; beside the tagger it does what that cannot, and missed names and claims if they are asked for.
    """

    by: str
    style: str = "extractive"
    asks_model: bool = False
    reports: str = "extractive"

    @property
    def uses_tagger(self) -> bool:
        """Whether the bundled tagger extracts what it can read."""
        return self.by == "tagger"


PHRASES_METHOD, TAGGER_METHOD = IndexingMethod("phrases"), IndexingMethod("tagger")


@dataclass(frozen=True, slots=True)
class MethodChoice:
    """Everything that the choice of a method depends on. `db` is the index, if there is one; `tagger` is None if adapters are disabled."""

    settings: IndexSettings
    file: ModelFile
    tagger: Tagger | None
    db: Database | None
    is_small: bool

    @classmethod
    async def of(cls, project: Project) -> "MethodChoice":
        """The choice for an opened index. Raises ModelError."""
        return cls(project.settings, project.model.file, project.tagger, project.db, await resolve_answer_style(project) == "extractive")

    @classmethod
    def planned(cls, settings: IndexSettings, file: ModelFile, tagger: Tagger | None, db: Database | None) -> "MethodChoice":
        """The choice for a plan: no model is loaded, and a server counts as one that writes."""
        small = not file.url and parameters_of(file.path) < SMALL_MODEL_PARAMETERS
        return cls(settings, file, tagger, db, small if settings.style == "auto" else settings.style == "extractive")

    @property
    def _stored(self) -> dict[str, Any]:
        return runs.load_settings(self.db) if self.db else {}

    def extractor(self, n_chunks: int, seconds: float | None) -> str | None:
        """tagger, model or phrases; None if the time that the model takes is unknown and has to be measured.

        `seconds`: of the model for all `n_chunks` new chunks, None if unknown.
        """
        if fixed := self._fixed_extractor():
            return fixed
        stored = self._stored.get("auto_extractor")
        if stored and self.file.fingerprint in stored:
            return str(stored[self.file.fingerprint])
        if seconds is not None:
            return "model" if seconds <= MAX_MODEL_SECONDS else "tagger"
        return None if n_chunks and (self.file.url or _has_gpu()) else "tagger"

    def _fixed_extractor(self) -> str:
        """The extractor if no speed has to be known; else empty."""
        wanted, style = self.settings.extractor, self.settings.style
        if wanted in ("phrases", "model"):
            return wanted
        if self.tagger is None or (wanted == "auto" and (style == "abstractive" or not has_tagger_types(self.settings))):
            return "model"
        return "tagger" if wanted == "tagger" or self.is_small else ""

    def method(self, extractor: str, total_chunks: int) -> IndexingMethod:
        """The method with this extractor, for an index of `total_chunks`."""
        style = "abstractive" if extractor == "model" and not self.is_small else "extractive"
        beside_tagger = _is_bundled(self.file) or self.settings.claims or self.settings.max_gleanings > 0
        asks = extractor == "model" or (extractor == "tagger" and beside_tagger)
        return IndexingMethod(extractor, style, asks, self.reports(extractor, total_chunks))

    def reports(self, extractor: str, total_chunks: int) -> str:
        """abstractive if the chat model wrote the reports before, or does so in time; else extractive."""
        stored = self._stored
        if self.file.fingerprint in (styles := stored.get("reports_style", {})):
            return str(styles[self.file.fingerprint])
        if self.is_small or extractor == "phrases":
            return "extractive"
        if self.settings.style == "abstractive":
            return "abstractive"
        if extractor == "model" and self.settings.extractor == "auto":
            return "abstractive"
        seconds = report_seconds(self.file, total_chunks)
        return "abstractive" if seconds is not None and seconds <= MAX_MODEL_SECONDS else "extractive"


def _is_bundled(file: ModelFile) -> bool:
    return not file.url and file.fingerprint == bundled_chat_model().fingerprint


def _has_gpu() -> bool:
    from localrag.engine.llama.library import offload_devices  # imports llama.cpp

    return bool(offload_devices())


def speed_key(file: ModelFile) -> str:
    """The key of a model's extraction speed among `stage_speeds`."""
    return f"{file.fingerprint} extraction"


def extraction_seconds(file: ModelFile, n_chunks: int) -> float | None:
    """Seconds for a chat model to extract from chunks, by its last extractions, else by its tokens per second; None if neither is known."""
    if measured := stage_speeds(speed_key(file)).get("extraction"):
        per_chunk = sorted(seconds / max(done, 0.1) for done, seconds in measured)
        return n_chunks * per_chunk[len(per_chunk) // 2]
    return estimate_seconds(n_chunks * (PREFILL_TOKENS_PER_CHUNK + DECODE_FACTOR * DECODE_TOKENS_PER_CHUNK), file)


def report_seconds(file: ModelFile, n_chunks: int) -> float | None:
    """Seconds for a chat model to write the reports of an index of so many chunks; None if its speed is unknown."""
    if (seconds := extraction_seconds(file, n_chunks)) is not None:
        return seconds * TOKENS_PER_REPORT_CHUNK / TOKENS_PER_CHUNK_OF_WRITER
    return None


def record_extraction_speed(file: ModelFile, n_chunks: float, seconds: float) -> None:
    """Store that a chat model extracted from so many chunks in so many seconds."""
    record_stage_speeds(speed_key(file), {"extraction": (n_chunks, round(seconds, 2))})


# Extracts from a sample of the new chunks; returns the number of finished chunks and the seconds, at most the given ones.
MeasureExtraction = Callable[[float], Awaitable[tuple[float, float]]]


async def resolve_method(project: Project, measure: MeasureExtraction | None = None) -> IndexingMethod:
    """The method for an index with its present chunks; the choice of the extractor is stored if it may be measured. Raises ModelError."""
    stored = runs.load_settings(project.db)
    if project.settings.extractor == "phrases" and not stored.get("reports_style"):
        return PHRASES_METHOD
    choice, total = await MethodChoice.of(project), graph.counts(project.db, ["chunks"])["chunks"]
    extractor = choice.extractor(total, extraction_seconds(choice.file, total))
    if extractor is None and measure is not None:
        done, seconds = await measure(MAX_MODEL_SECONDS)
        record_extraction_speed(choice.file, done, seconds)
        extractor = choice.extractor(total, extraction_seconds(choice.file, total))
    method = choice.method(extractor or "tagger", total)
    if measure is not None and project.settings.extractor == "auto":
        _save_choice(project, "auto_extractor", method.by)
    return method


async def settle_reports(project: Project, method: IndexingMethod) -> IndexingMethod:
    """The method with its choice of reports made for good: after an extraction by the chat model its speed is known."""
    total = graph.counts(project.db, ["chunks"])["chunks"]
    method = replace(method, reports=(await MethodChoice.of(project)).reports(method.by, total))
    _save_choice(project, "reports_style", method.reports)
    return method


def _save_choice(project: Project, name: str, value: str) -> None:
    stored = runs.load_settings(project.db).get(name, {})
    if stored.get(project.model.file.fingerprint) != value:
        runs.save_settings(project.db, **{name: {**stored, project.model.file.fingerprint: value}})


async def choose_written_reports(project: Project) -> None:
    """Have the chat model write the reports of an index from now on. Raises UsageError if it is too small, ModelError."""
    if await project.model.is_small():
        raise UsageError(
            f"{project.model.file.name} is too small to write reports.",
            "Name another chat model: localrag index --write-reports --model NAME|PATH|URL",
        )
    _save_choice(project, "reports_style", "abstractive")


def describe_method(method: IndexingMethod, file: ModelFile, n_chunks: int, total_chunks: int) -> str:
    """What extracts from the new chunks and what writes the reports, how long the chat model takes or would take, and how to choose it."""
    if method.by == "phrases":
        return "Names and noun phrases are found without a model, and reports quote the documents."
    others = not _is_bundled(file)
    seconds, reporting = extraction_seconds(file, n_chunks), report_seconds(file, total_chunks)
    if method.uses_tagger:
        first = f"The bundled tagger extracts names and relationships from {n_chunks} chunks"
        first += f" ({file.name}: {format_estimate(seconds)}, with --extractor model)." if others else "."
    else:
        first = f"{file.name} extracts names and relationships from {n_chunks} chunks, in {format_estimate(seconds)}."
    if method.reports == "abstractive":
        writer = "It" if method.by == "model" else file.name
        return f"{first} {writer} writes the reports, in {format_estimate(reporting)}."
    by_model = f" ({file.name}: {format_estimate(reporting)}, with --write-reports)" * others
    return f"{first} Reports quote the documents{by_model}."


def format_estimate(seconds: float | None) -> str:
    """A rough duration: `about 5 min`; `an unknown time` for None."""
    if seconds is None:
        return "an unknown time"
    if seconds < 90:
        return f"about {max(10, round(seconds, -1)):.0f} s"
    return f"about {seconds / 60:.0f} min" if seconds < 5400 else f"about {seconds / 3600:.0f} h"
