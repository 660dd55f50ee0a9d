"""Progress of a run of indexing: reports it to the caller and the store, and estimates the remaining time.

Each stage has a weight: the seconds that it usually takes, by the number of its chunks. How fast the weight of this run's stages was done
over the last minutes says how long the rest takes.
"""

import math
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from localrag.indexing.method import IndexingMethod
from localrag.project import Project
from localrag.records import SkippedFile
from localrag.store import graph
from localrag.store import runs as runs_store
from localrag.store.database import checkpoint_wal

# Fixed seconds, and seconds per chunk, on one core of a laptop: A Christmas Carol (95 chunks) and the demo (21), loading models included.
STAGE_SECONDS: Mapping[str, tuple[float, float]] = {
    "documents": (0.5, 0.03),
    "chunk embeddings": (4.0, 0.13),
    "sentences": (0.3, 0.015),
    "noun phrases": (0.5, 0.02),
    "extraction": (3.0, 0.5),  # by the tagger
    "entity resolution": (0.5, 0.008),
    "description summaries": (0.1, 0.005),
    "communities": (0.1, 0.002),
    "layout": (0.2, 0.004),
    "reports": (1.2, 0.035),
    "entity embeddings": (1.5, 0.03),
    "report embeddings": (1.5, 0.03),
    "themes": (0.3, 0.005),
}
MODEL_STAGE_SECONDS = {"description summaries": 15.0, "reports": 50.0}  # per chunk, if the chat model writes
MODEL_EXTRACTION_SECONDS = 20.0
PER_NEW_CHUNK_STAGES = frozenset({"documents", "chunk embeddings", "sentences", "noun phrases", "extraction"})  # the others work on all
RATE_WINDOW_S = 120.0  # seconds over which the speed of the run is measured
RATE_AFTER_S, RATE_AFTER_FRACTION = 5.0, 0.02  # before that nothing is estimated
RANGE_FACTOR = 1.5  # the rest may be that much faster or slower
MAX_FRACTION = 0.999  # the fraction is 1 only once the run has ended


def stage_seconds(stage: str, new: float, total: float, method: IndexingMethod) -> float:
    """The usual seconds of a stage for so many new chunks and chunks in all."""
    fixed, each = STAGE_SECONDS.get(stage, (1.0, 0.0))
    if stage == "extraction" and method.by == "model":
        each = MODEL_EXTRACTION_SECONDS
    elif "abstractive" in (method.style, method.reports if stage == "reports" else ""):
        each = MODEL_STAGE_SECONDS.get(stage, each)
    return fixed + each * (new if stage in PER_NEW_CHUNK_STAGES else max(new, total))


WAL_CHECKPOINT_EVERY_S = 10.0  # seconds between two looks at the size of the write-ahead log
STORE_EVERY_S = 1.0  # seconds between two writes of the progress to the store
SPEED_WINDOW_S = 15.0  # seconds over which the engine's speed is averaged
BYTES_PER_CHUNK = 2000  # bytes of an unread file per chunk: at most 680 tokens of text, in files that have little else
CHUNK_STAGES = ("documents", "chunk embeddings", "sentences", "noun phrases")
GRAPH_STAGES = ("entity resolution", "description summaries", "communities", "layout")
REPORT_STAGES = ("reports", "entity embeddings", "report embeddings", "themes")


@dataclass(frozen=True, slots=True)
class RunTotals:
    """The size of a run, known before it begins: files, files to read, their bytes, and chunks as estimated from these."""

    files: int = 0
    to_read: int = 0
    bytes: int = 0
    chunks: int = 0
    counted: bool = False  # false until the files to read are known


@dataclass(frozen=True, slots=True)
class RunProgress:
    """How far a run is. `tokens` are those that the model has computed in this run; speeds are tokens per second, None if unknown.

    `fraction` of the whole run never falls; `seconds_left` is a range, None while it cannot be estimated; `entities` are names found in
    this run, or entities of the graph; `file` is the present one; `skipped_files` are those since the step before. `workers` are rows of
    `RayPool.status`.
    """

    stage: str
    done: int
    total: int
    tokens: int = 0
    round: int = 1
    fraction: float = 0.0
    seconds_left: tuple[float, float] | None = None
    seconds: float = 0.0
    prefill_tokens_per_s: float | None = None
    decode_tokens_per_s: float | None = None
    entities: int = 0
    file: str = ""
    stages: tuple[str, ...] = ()
    totals: RunTotals | None = None
    skipped_files: tuple[SkippedFile, ...] = ()
    workers: tuple[dict[str, Any], ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The JSON-ready form for the store, event streams and `status`."""
        left = [round(s, 1) for s in self.seconds_left] if self.seconds_left else None
        rounded = {"fraction": round(self.fraction, 4), "seconds": round(self.seconds, 1), "seconds_left": left}
        return {name: getattr(self, name) for name in _JSON_FIELDS} | rounded | {"workers": list(self.workers)}


_JSON_FIELDS = (
    *("stage", "round", "done", "total", "fraction", "seconds_left", "seconds", "tokens"),
    *("prefill_tokens_per_s", "decode_tokens_per_s", "entities", "file"),
)


def extrapolate(facts: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """The stored progress of a running run, this many seconds later: its fraction grows and the time left shrinks, but not to nothing."""
    seconds_left = facts.get("seconds_left")
    now = facts["seconds"] + seconds
    later = {"seconds": round(now, 1), "fraction": facts["fraction"], "seconds_left": seconds_left}
    if seconds_left:
        later["seconds_left"] = [round(max(s - seconds, s / (1 + seconds / max(s, 1.0))), 1) for s in seconds_left]
        probably = math.sqrt(later["seconds_left"][0] * later["seconds_left"][1])
        fraction = min(MAX_FRACTION, now / (now + probably)) if now + probably else 0.0
        later["fraction"] = round(max(facts["fraction"], fraction), 4)
    return {**facts, **later}


class ProgressReporter:
    """Receives the progress of stages and reports the progress of the whole run.

    `run` is the run's number in the store, which is updated every second; None for work that is not a run of its own. `workers` returns the
    state of each of several workers.
    """

    def __init__(
        self,
        project: Project,
        run: int | None,
        progress: Callable[[RunProgress], None],
        *,
        stages: Sequence[str] = (),
        workers: Callable[[], Iterable[dict[str, Any]]] = tuple,
    ) -> None:
        self._project, self._run, self._progress, self._workers = project, run, progress, workers
        self._began, self._written, self._cut = time.monotonic(), 0.0, 0.0
        self._names: set[str] = set()
        self._entities, self._file = 0, ""
        self._totals: RunTotals | None = None
        self._left_out: list[SkippedFile] = []
        self._speeds: deque[tuple[float, tuple[int, float, int, float]]] = deque()
        self.last = RunProgress("", 0, 0)
        self._upcoming, self._rounds = list(stages), Counter[str]()
        self._new = self._total = 0
        self._stage_began = self._weight_done = self._fraction = 0.0
        self._rates: deque[tuple[float, float]] = deque()  # seconds of the run, and the weight that was done then
        self._seconds: dict[str, float] = {}
        by = "phrases" if project.settings.extractor == "phrases" else "tagger" if project.tagger else "model"
        self._method = IndexingMethod(by)

    def __call__(self, stage: str, done: int, total: int, file: str = "") -> None:
        """Report that `done` of `total` steps of a stage are done, now working on this file."""
        begins = stage != self.last.stage or not self._rounds
        if begins:
            self._begin(stage)
        if begins or file:
            self._file = file
        last = self.last
        self.last = replace(
            last,
            stage=stage,
            round=max(1, self._rounds[stage]),
            done=done if begins else max(done, last.done),
            total=total if begins else max(total, last.total),
        )
        self._pass_on(hurry=begins or done == total)

    def _begin(self, stage: str) -> None:
        """End the present stage, and those before this one that are left out."""
        self._end_stage()
        if stage in self._upcoming:
            del self._upcoming[: self._upcoming.index(stage) + 1]
        self._rounds[stage] += 1

    def _end_stage(self) -> None:
        if self.last.stage:
            self._seconds[self.last.stage] = self._seconds.get(self.last.stage, 0.0) + self._now - self._stage_began
            self._weight_done += self._weight(self.last.stage)
        self._stage_began = self._now

    def _weight(self, stage: str) -> float:
        rounds = self._rounds[stage] + self._upcoming.count(stage)
        return stage_seconds(stage, self._new / max(1, rounds), self._total, self._method)

    def set_method(self, method: IndexingMethod) -> None:
        """Set what extracts and what writes the reports, once that is known: the estimate follows from it."""
        self._method = method

    def set_files(self, files: Mapping[str, Path], left: Sequence[Path] | None = None) -> None:
        """Set the files, by stored path, and those to be read; they are counted before the work begins."""
        sizes = [file_size(f) for f in left or ()]
        guess = sum(max(1, round(size / BYTES_PER_CHUNK)) for size in sizes)
        self._totals = RunTotals(len(files), len(sizes), sum(sizes), guess, left is not None)
        if left is not None:
            self.set_chunks(guess, guess + graph.counts(self._project.db)["chunks"])

    def set_chunks(self, new: int, whole: int) -> None:
        """Set the number of new chunks, and of all chunks of the index."""
        self._new, self._total = new, whole

    def set_next_stages(self, stages: Sequence[str]) -> None:
        """Set the stages that come next, if the run decides that on the way."""
        self._upcoming = list(stages)

    def count_names(self, names: Iterable[str]) -> None:
        """Count names that were found in a chunk."""
        self._names.update(names)
        self._entities = len(self._names)

    def count_entities(self, entities: int) -> None:
        """Set the number of entities that the names were merged to."""
        self._entities = entities

    def report_skipped(self, skipped: Iterable[SkippedFile]) -> None:
        """Report files that are not in the index, and the reasons."""
        self._left_out += skipped
        if self._left_out:
            self._pass_on()

    @property
    def stage_seconds(self) -> dict[str, float]:
        """Seconds that each stage has taken."""
        return {stage: round(seconds, 2) for stage, seconds in self._seconds.items()}

    def finish(self) -> None:
        """End the run."""
        self._end_stage()
        self._upcoming, self._fraction, self._rates = [], 1.0, deque()
        self._pass_on(hurry=True)

    @property
    def _now(self) -> float:
        return time.monotonic() - self._began

    def _pass_on(self, *, hurry: bool = False) -> None:
        now, model = self._now, self._project.model
        seconds_left = self._estimate(now) if self._fraction < 1 else (0.0, 0.0)
        reading, writing = self._speed(now)
        self.last = replace(
            self.last,
            tokens=model.computed_tokens,
            fraction=self._fraction,
            seconds_left=seconds_left,
            seconds=now,
            prefill_tokens_per_s=reading,
            decode_tokens_per_s=writing,
            entities=self._entities,
            file=self._file,
            stages=tuple(self._upcoming),
            totals=self._totals,
            skipped_files=tuple(self._left_out),
            workers=tuple(self._workers()),
        )
        self._left_out.clear()
        self._progress(self.last)
        self._store(now, hurry=hurry)

    def _estimate(self, now: float) -> tuple[float, float] | None:
        """Update the fraction that is done, which never falls; returns the range of seconds that are left, None if unknown."""
        last = self.last
        done = self._weight_done + (self._weight(last.stage) * last.done / last.total if last.total else 0.0)
        whole = self._weight_done + sum(map(self._weight, [*([last.stage] if last.stage else []), *self._upcoming]))
        if self._totals is None or self._totals.counted:
            self._fraction = max(self._fraction, min(MAX_FRACTION, done / whole if whole else 0.0))
        self._rates.append((now, done))
        while len(self._rates) > 2 and now - self._rates[0][0] > RATE_WINDOW_S:
            self._rates.popleft()
        seconds, weight = now - self._rates[0][0], done - self._rates[0][1]
        if now < RATE_AFTER_S or self._fraction < RATE_AFTER_FRACTION or weight <= 0:
            return None
        probably = (whole - done) * seconds / weight
        return probably / RANGE_FACTOR, probably * RANGE_FACTOR

    def _store(self, now: float, *, hurry: bool) -> None:
        if self._run is not None and (hurry or now - self._written > STORE_EVERY_S):
            runs_store.update_run(self._project.db, self._run, self.last.to_json())
            self._written = now
        if now - self._cut > WAL_CHECKPOINT_EVERY_S:
            checkpoint_wal(self._project.db)
            self._cut = now

    def _speed(self, now: float) -> tuple[float | None, float | None]:
        """Prefill and decode tokens per second of the engine's own time, over the last seconds."""
        counters = self._project.model.token_counters
        if not self._speeds or now - self._speeds[-1][0] > 1:
            self._speeds.append((now, counters))
        while len(self._speeds) > 2 and now - self._speeds[0][0] > SPEED_WINDOW_S:
            self._speeds.popleft()
        read, reading, wrote, writing = (b - a for a, b in zip(self._speeds[0][1], counters, strict=True))
        return (round(read / reading, 1) if reading else None), (round(wrote / writing, 1) if writing else None)


def file_size(file: Path) -> int:
    """The size of a file in bytes; 0 if it cannot be looked at."""
    try:
        return file.stat().st_size
    except OSError:
        return 0
