"""Progress of a run of indexing: reports it to the caller and the store, and estimates the remaining time.

Every stage is estimated from a number of chunks: the new ones for stages that read them, all of the index for stages that work on the
whole. A stage that this machine has run before is expected to cost as much as in runs of the nearest size; any other costs what DEFAULTS
say, corrected by how this run's stages compare with DEFAULTS. The stage under way is extrapolated from itself, the more the further it is.
"""

import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlite_utils import Database

from localrag.indexing.method import IndexingMethod
from localrag.llm.budgets import model_throughput, record_stage_speeds, stage_speeds
from localrag.model_files import ModelFile
from localrag.project import Project
from localrag.records import SkippedFile
from localrag.store import graph
from localrag.store import runs as runs_store
from localrag.store.database import checkpoint_wal

Runs = Mapping[str, Sequence[Sequence[float]]]  # stage → (chunks, seconds) of its last runs on this machine

# Fixed seconds, and seconds per chunk, on one core of a laptop: A Christmas Carol (95 chunks) and the demo (21), loading models included.
DEFAULTS: Mapping[str, tuple[float, float]] = {
    "documents": (0.5, 0.03),
    "chunk embeddings": (4.0, 0.13),
    "sentences": (0.3, 0.015),
    "noun phrases": (0.5, 0.02),
    "extraction": (3.0, 0.5),  # by the tagger; a chat model's time follows from its speed
    "entity resolution": (0.5, 0.008),
    "entity duplicates": (0.0, 0.0),
    "description summaries": (0.1, 0.005),
    "communities": (0.1, 0.002),
    "layout": (0.2, 0.004),
    "reports": (1.2, 0.035),
    "entity embeddings": (1.5, 0.03),
    "report embeddings": (1.5, 0.03),
}
PER_CHUNK_STAGES = frozenset({"chunk embeddings", "sentences", "noun phrases", "extraction"})  # their steps are chunks
PER_NEW_CHUNK_STAGES = PER_CHUNK_STAGES | {"documents"}  # the other stages work on the whole index
KNOWN, GUESSED = 1.3, 2.0  # factors by which a stage may be slower or faster than runs on this machine, or than DEFAULTS
EXTRAPOLATE_FROM_FRACTION = 0.25  # of a stage: from there on it is extrapolated from itself alone
MAX_PREDICTED_FRACTION = 0.95  # of an unfinished step: time alone predicts no more
MIN_OBSERVED_STEPS = 3  # steps after which the speed of a stage without earlier runs counts as known
MAX_FRACTION = 0.999  # the fraction is 1 only once the run has ended


@dataclass(slots=True)
class StageProgress:
    """A stage of this run; `round` is 2 if the stage comes a second time, `size` its number of chunks, None if it is the usual one.

    Times are seconds since the start of the run.
    """

    stage: str
    round: int = 1
    size: float | None = None
    began: float = 0.0
    already_done: int = 0
    done: int = 0
    total: int = 0

    def fraction(self, now: float, expected: float) -> float:
        """The fraction that is done: the reported steps, and within a long step its expected time."""
        remaining_total = self.total - self.already_done
        reported = (self.done - self.already_done) / remaining_total if remaining_total > 0 else 0.0
        by_time = (now - self.began) / expected if expected > 0 else 1.0
        return min(1.0, max(reported, min(by_time, reported + MAX_PREDICTED_FRACTION / max(1, remaining_total))))


@dataclass(slots=True)
class TimeEstimate:
    """Estimates the rest of a run. `chunks` are the new ones, `total_chunks` those of the whole index, None while unknown; `runs` as
    `Runs`.

    `pace` overrides the cost of a stage (fixed seconds, seconds per chunk); `unknown_stages` cannot be estimated until they have begun.
    """

    runs: Runs = field(default_factory=dict)
    pace: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    unknown_stages: frozenset[str] = frozenset()
    chunks: float | None = None
    total_chunks: float | None = None
    sizes: dict[str, float] = field(default_factory=dict)  # chunks of a stage that works neither on `chunks` nor on `total_chunks`
    step: StageProgress | None = None
    upcoming_stages: list[StageProgress] = field(default_factory=list)
    finished_stages: list[tuple[StageProgress, float, float]] = field(
        default_factory=list
    )  # finished stages: the seconds they took, and the seconds by DEFAULTS
    _share: float = 0.0

    def expect(self, stages: Sequence[str], sizes: Sequence[float | None] = ()) -> None:
        """Set the stages that follow the present one, in order; `sizes`: their numbers of chunks, None for the usual one."""
        begun = [*(s.stage for s, *_ in self.finished_stages), *([self.step.stage] if self.step else [])]
        rounds = (1 + [*begun, *stages[:n]].count(stage) for n, stage in enumerate(stages))
        self.upcoming_stages = list(map(StageProgress, stages, rounds, sizes or [None] * len(stages)))

    def update(self, stage: str, done: int, total: int, now: float) -> bool:
        """Record how far a stage is, at this second of the run; returns whether it has just begun. Stages before it have ended or are left
        out.
        """
        step = self.step
        if step and step.stage == stage:
            step.done, step.total = max(done, step.done), max(total, step.total)
            return False
        if step:
            self.finished_stages.append((step, now - step.began, self._default(step)))
        at = next((n for n, s in enumerate(self.upcoming_stages) if s.stage == stage), None)
        again = sum(s.stage == stage for s, *_ in self.finished_stages)
        self.step = self.upcoming_stages[at] if at is not None else StageProgress(stage, 1 + again)
        self.upcoming_stages = self.upcoming_stages[at + 1 :] if at is not None else self.upcoming_stages
        if stage in PER_CHUNK_STAGES and self.step.size is None:
            self.sizes[stage] = total - done
        self.step.began, self.step.already_done, self.step.done, self.step.total = now, done, done, total
        return True

    def seconds_left(self, now: float) -> tuple[float, float, float]:
        """Seconds until the run ends: at least, probably, at most."""
        parts = [(self._expected(s), self._spread(s.stage)) for s in self.upcoming_stages]
        if self.step:
            parts.append(self._rest(self.step, now))
        return sum(t / s for t, s in parts), sum(t for t, _ in parts), sum(t * s for t, s in parts)

    def fraction(self, now: float) -> float:
        """The fraction of the run's time that is over; it never falls."""
        if self.chunks is not None:
            probably = self.seconds_left(now)[1]
            self._share = max(self._share, min(MAX_FRACTION, now / (now + probably) if now + probably > 0 else 0.0))
        return self._share

    @property
    def is_known(self) -> bool:
        """Whether the time of the run can be estimated at all."""
        step = self.step
        if self.chunks is None or any(s.stage in self.unknown_stages and not self.runs.get(s.stage) for s in self.upcoming_stages):
            return False
        return (
            step is None
            or step.stage not in self.unknown_stages
            or bool(self.runs.get(step.stage))
            or step.done - step.already_done >= MIN_OBSERVED_STEPS
        )

    def stage_speeds(self) -> dict[str, tuple[float, float]]:
        """Chunks and seconds of each stage that has ended and ran once."""
        return {s.stage: (self._size(s), round(t, 2)) for s, t, _ in self.finished_stages if s.round == 1}

    def _rest(self, step: StageProgress, now: float) -> tuple[float, float]:
        expected, spread = self._expected(step), self._spread(step.stage)
        fraction, took = step.fraction(now, expected), now - step.began
        if step.total and step.done >= step.total:
            return 0.0, 1.0
        trust = min(1.0, fraction / EXTRAPOLATE_FROM_FRACTION) if step.total - step.already_done > 4 or took > expected else 0.0
        from_itself = took * (1 - fraction) / fraction if fraction > 0 else 0.0
        return (1 - trust) * expected * (1 - fraction) + trust * from_itself, 1 + (spread - 1) * (1 - trust * 0.8)

    def _size(self, step: StageProgress) -> float:
        new, total = self.chunks or 0.0, self.total_chunks or 0.0
        if step.size is not None:
            return step.size
        if step.stage in self.sizes:
            return self.sizes[step.stage]
        return new if step.stage in PER_NEW_CHUNK_STAGES else max(new, total)

    def _default(self, step: StageProgress, size: float | None = None) -> float:
        fixed, each = self.pace.get(step.stage) or DEFAULTS.get(step.stage, (1.0, 0.0))
        return fixed + each * (self._size(step) if size is None else size)

    def _expected(self, step: StageProgress) -> float:
        """The expected seconds of a whole stage."""
        stage, size = step.stage, self._size(step)
        if runs := self.runs.get(stage):
            chunks, _ = min(runs, key=lambda run: abs(math.log((run[0] + 1) / (size + 1))))
            took = sorted(seconds for run_size, seconds in runs if run_size == chunks)
            then = self._default(step, chunks)
            return took[len(took) // 2] * (self._default(step) / then if then else 1.0)
        actual, predicted = 5.0, 5.0  # actual and DEFAULTS seconds; five of each, so that short stages count little
        for before, seconds, default in self.finished_stages:
            if before.stage not in self.pace:
                actual, predicted = actual + seconds, predicted + default
        return self._default(step) * (1.0 if stage in self.pace else actual / predicted)

    def _spread(self, stage: str) -> float:
        return KNOWN if self.runs.get(stage) or stage in self.pace else GUESSED


WAL_CHECKPOINT_EVERY_S = 10.0  # seconds between two looks at the size of the write-ahead log
STORE_EVERY_S = 1.0  # seconds between two writes of the progress to the store
SPEED_WINDOW_S = 15.0  # seconds over which the engine's speed is averaged
BYTES_PER_CHUNK = 2000  # bytes of an unread file per chunk: at most 680 tokens of text, in files that have little else
TOKENS_PER_CHUNK = 1200.0  # computed by the bundled model per chunk; see `plan_index`
TOKENS_PER_ITEM = {"entity duplicates": 200.0, "description summaries": 900.0, "reports": 3000.0}  # if the model writes them
CHUNK_STAGES = ("documents", "chunk embeddings", "sentences", "noun phrases")
GRAPH_STAGES = ("entity resolution", "entity duplicates", "description summaries", "communities", "layout")
REPORT_STAGES = ("reports", "entity embeddings", "report embeddings")


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
    `Scheduler.status` if there are several workers.
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
        return {
            "stage": self.stage,
            "round": self.round,
            "done": self.done,
            "total": self.total,
            "fraction": round(self.fraction, 4),
            "seconds_left": [round(s, 1) for s in self.seconds_left] if self.seconds_left else None,
            "seconds": round(self.seconds, 1),
            "tokens": self.tokens,
            "prefill_tokens_per_s": self.prefill_tokens_per_s,
            "decode_tokens_per_s": self.decode_tokens_per_s,
            "entities": self.entities,
            "file": self.file,
            "workers": list(self.workers),
        }


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
        self.estimate = TimeEstimate()
        self.set_method(_PHRASES if project.settings.extractor == "phrases" else _TAGGER if project.tagger else _MODEL)
        self.estimate.expect(stages)

    def __call__(self, stage: str, done: int, total: int, file: str = "") -> None:
        """Report that `done` of `total` steps of a stage are done, now working on this file."""
        now, begins = self._now, self.estimate.update(stage, done, total, self._now)
        if begins or file:
            self._file = file
        self._pass_on(now, hurry=begins or done == total)

    def set_method(self, method: IndexingMethod) -> None:
        """Set what extracts and what writes the reports, once that is known: the estimate follows from it."""
        self._key = speeds_key(self._project.embedder.file, self._project.model.file, method, self._project.db)
        self.estimate.runs = stage_speeds(self._key)
        self.estimate.pace, self.estimate.unknown_stages = model_pace(self._project.model.file, method)

    def set_files(self, files: Mapping[str, Path], left: Sequence[Path] | None = None) -> None:
        """Set the files, by stored path, and those to be read; they are counted before the work begins."""
        sizes = [_size(f) for f in left or ()]
        guess = sum(max(1, round(size / BYTES_PER_CHUNK)) for size in sizes)
        self._totals = RunTotals(len(files), len(sizes), sum(sizes), guess, left is not None)
        if left is not None:
            self.set_chunks(guess, guess + graph.counts(self._project.db)["chunks"])

    def set_chunks(self, new: int, whole: int) -> None:
        """Set the number of new chunks, and of all chunks of the index."""
        self.estimate.chunks, self.estimate.total_chunks = new, whole

    def set_stage_size(self, stage: str, chunks: int) -> None:
        """Set the number of chunks of a stage that does not work on the usual ones."""
        self.estimate.sizes[stage] = chunks

    def set_next_stages(self, stages: Sequence[str], sizes: Sequence[float | None] = ()) -> None:
        """Set the stages that come next, if the run decides that on the way; `sizes`: their numbers of chunks, None for the usual one."""
        self.estimate.expect(stages, sizes)

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
            self._pass_on(self._now)

    @property
    def stage_seconds(self) -> dict[str, float]:
        """Seconds that each stage has taken."""
        seconds: dict[str, float] = {}
        for step, took, _ in self.estimate.finished_stages:
            seconds[step.stage] = round(seconds.get(step.stage, 0.0) + took, 2)
        return seconds

    def finish(self, *, whole: bool = True) -> None:
        """End the run; a complete one is remembered for the next estimate."""
        now = self._now
        self.estimate.update("", 0, 0, now)
        if whole:
            record_stage_speeds(self._key, self.estimate.stage_speeds())
            self._pass_on(now, hurry=True, ended=True)

    @property
    def _now(self) -> float:
        return time.monotonic() - self._began

    def _pass_on(self, now: float, *, hurry: bool = False, ended: bool = False) -> None:
        last, step, model = self.last, self.estimate.step, self._project.model
        low, _, high = self.estimate.seconds_left(now)
        reading, writing = self._speed(now)
        at = (
            (step.stage, step.done, step.total, model.computed_tokens, step.round)
            if step and step.stage
            else _place(last, model.computed_tokens)
        )
        self.last = RunProgress(
            *at,
            1.0 if ended else self.estimate.fraction(now),
            (0.0, 0.0) if ended else (low, high) if self.estimate.is_known else None,
            now,
            reading,
            writing,
            self._entities,
            self._file,
            tuple(s.stage for s in self.estimate.upcoming_stages),
            self._totals,
            tuple(self._left_out),
            tuple(self._workers()),
        )
        self._left_out.clear()
        self._progress(self.last)
        self._store(now, hurry=hurry)

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


def _place(last: RunProgress, tokens: int) -> tuple[str, int, int, int, int]:
    return last.stage, last.done, last.total, tokens, last.round


def speeds_key(embedder: ModelFile, chat: ModelFile, method: IndexingMethod, db: Database | None) -> str:
    """The key of comparable runs: the models that compute, and whether an index is built or updated."""
    by = {"phrases": "phrases", "tagger": "tagger", "model": chat.fingerprint}[method.by]
    more = [chat.fingerprint] * (method.by != "model" and (method.asks_model or method.reports == "abstractive"))
    is_update = db is not None and runs_store.load_settings(db).get("reports_state")
    return " ".join([embedder.fingerprint, by, *more, "update" if is_update else "new"])


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0


def model_pace(chat: ModelFile, method: IndexingMethod) -> tuple[dict[str, tuple[float, float]], frozenset[str]]:
    """The cost of a chunk in each stage that asks the chat model, by its speed in earlier runs; and the stages without an estimate."""
    tokens = {"extraction": TOKENS_PER_CHUNK} if method.by == "model" else {}
    if method.style == "abstractive":
        tokens |= TOKENS_PER_ITEM
    if method.reports == "abstractive":
        tokens |= {"reports": TOKENS_PER_ITEM["reports"]}
    throughputs = sorted(model_throughput().get(chat.fingerprint, []))
    return {s: (3.0, n / throughputs[len(throughputs) // 2]) for s, n in tokens.items()} if throughputs else {}, frozenset(
        () if throughputs else tokens
    )


_PHRASES, _TAGGER, _MODEL = (IndexingMethod(by) for by in ("phrases", "tagger", "model"))
