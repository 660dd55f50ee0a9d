"""How far a run of indexing is: told to the caller at once, and to the store, where another terminal reads it."""

import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from localrag.index.estimate import NEARLY, Estimate
from localrag.llm.speeds import keep_paces, paces, speeds
from localrag.project import Project
from localrag.records import Skipped
from localrag.store import graph, ledger
from localrag.store.connect import cut_log

CUT_EVERY = 10.0  # seconds: how often the database's log is looked at
WRITTEN_EVERY = 1.0  # seconds: how often the store hears of it
LOOKED_BACK = 15.0  # seconds over which the engine's speed is taken
TEXT_OF_CHUNK = 2000  # bytes of a file for a chunk, before it is read: text of 680 tokens at most, in files that hold little else
TOKENS_OF_CHUNK = 1200.0  # that the bundled model computes for a chunk; `plan` says where the figure is from
TOKENS_OF_PROSE = {"same names": 200.0, "descriptions": 900.0, "reports": 3000.0}  # where the model writes them
READING = ("documents", "search index", "sentences", "phrases")
GRAPH = ("graph", "same names", "descriptions", "communities", "layout")
REPORTS = ("reports", "entities", "report vectors")


@dataclass(frozen=True, slots=True)
class Totals:
    """What a run is about, known before it begins: files, those to read, their bytes, and chunks as estimated from these."""

    files: int = 0
    to_read: int = 0
    bytes: int = 0
    chunks: int = 0
    counted: bool = False  # false until it is known which files are to be read


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is. `tokens` counts what the model has computed in this run; speeds are tokens a second, None where they are not known.

    `share` of the whole run never falls; `left` is a range of seconds, None while nothing can be said; `entities` are names found in this
    run, or what the graph has of them; `file` is the one being worked on; `left_out` are files that were skipped since the step before.
    `workers` are rows of `Scheduler.status`, where several do the work.
    """

    stage: str
    done: int
    total: int
    tokens: int = 0
    round: int = 1
    share: float = 0.0
    left: tuple[float, float] | None = None
    seconds: float = 0.0
    read_speed: float | None = None
    write_speed: float | None = None
    entities: int = 0
    file: str = ""
    stages: tuple[str, ...] = ()
    totals: Totals | None = None
    left_out: tuple[Skipped, ...] = ()
    workers: tuple[dict[str, Any], ...] = ()

    def facts(self) -> dict[str, Any]:
        """What the store, a stream of events and `status` say of it, JSON-ready."""
        return {
            "stage": self.stage,
            "round": self.round,
            "done": self.done,
            "total": self.total,
            "share": round(self.share, 4),
            "left": [round(s, 1) for s in self.left] if self.left else None,
            "seconds": round(self.seconds, 1),
            "tokens": self.tokens,
            "read_tokens_per_s": self.read_speed,
            "written_tokens_per_s": self.write_speed,
            "entities": self.entities,
            "file": self.file,
            "workers": list(self.workers),
        }


def aged(facts: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """The facts of a run that goes on, so many seconds after they were told: its share grows, what is left shrinks, but not to nothing."""
    left = facts.get("left")
    now = facts["seconds"] + seconds
    later = {"seconds": round(now, 1), "share": facts["share"], "left": left}
    if left:
        later["left"] = [round(max(s - seconds, s / (1 + seconds / max(s, 1.0))), 1) for s in left]
        probably = math.sqrt(later["left"][0] * later["left"][1])
        later["share"] = round(max(facts["share"], min(NEARLY, now / (now + probably))) if now + probably else facts["share"], 4)
    return {**facts, **later}


class Tell:
    """Hears from the stages how far they are, and passes it on with all that is known of the whole run.

    `run` is the run's number in the store, which hears of it every second; None for work that is not a run of its own. `workers` tells what
    each of several does.
    """

    def __init__(
        self,
        project: Project,
        run: int | None,
        progress: Callable[[Progress], None],
        *,
        stages: Sequence[str] = (),
        workers: Callable[[], Iterable[dict[str, Any]]] = tuple,
    ) -> None:
        self._project, self._run, self._progress, self._workers = project, run, progress, workers
        self._began, self._written, self._cut = time.monotonic(), 0.0, 0.0
        self._names: set[str] = set()
        self._entities, self._file = 0, ""
        self._totals: Totals | None = None
        self._left_out: list[Skipped] = []
        self._speeds: deque[tuple[float, tuple[int, float, int, float]]] = deque()
        self.last = Progress("", 0, 0)
        pace, unknown = _of_model(project)
        self._key = _key(project)
        self.estimate = Estimate(paces(self._key), pace, unknown)
        self.estimate.expect(stages)

    def __call__(self, stage: str, done: int, total: int, file: str = "") -> None:
        """A stage has done so much of so much, just now with this file."""
        now, begins = self._now, self.estimate.told(stage, done, total, self._now)
        if begins or file:
            self._file = file
        self._pass_on(now, hurry=begins or done == total)

    def files(self, files: Mapping[str, Path], left: Sequence[Path] | None = None) -> None:
        """Which files there are, by stored path, and which of them are to be read; all that is counted before the work begins."""
        sizes = [_size(f) for f in left or ()]
        guess = sum(max(1, round(size / TEXT_OF_CHUNK)) for size in sizes)
        self._totals = Totals(len(files), len(sizes), sum(sizes), guess, left is not None)
        if left is not None:
            self.chunks(guess, guess + graph.counts(self._project.db)["chunks"])

    def chunks(self, new: int, whole: int) -> None:
        """How many chunks are new, and how many the index has."""
        self.estimate.chunks, self.estimate.whole = new, whole

    def size(self, stage: str, chunks: int) -> None:
        """How many chunks a stage is about, where that is another number."""
        self.estimate.sizes[stage] = chunks

    def expect(self, stages: Sequence[str], sizes: Sequence[float | None] = ()) -> None:
        """Which stages come next, where that is decided on the way; `sizes`: of how many chunks each is, where that is another number."""
        self.estimate.expect(stages, sizes)

    def found(self, names: Iterable[str]) -> None:
        """Names that were found in a chunk."""
        self._names.update(names)
        self._entities = len(self._names)

    def resolved(self, entities: int) -> None:
        """How many entities the names are."""
        self._entities = entities

    def left_out(self, skipped: Iterable[Skipped]) -> None:
        """Files that are not in the index, and why."""
        self._left_out += skipped
        if self._left_out:
            self._pass_on(self._now)

    @property
    def took(self) -> dict[str, float]:
        """Seconds that each stage has taken."""
        seconds: dict[str, float] = {}
        for step, took, _ in self.estimate.spent:
            seconds[step.stage] = round(seconds.get(step.stage, 0.0) + took, 2)
        return seconds

    def end(self, *, whole: bool = True) -> None:
        """The run has ended; one that did all it was for is remembered for the next estimate."""
        now = self._now
        self.estimate.told("", 0, 0, now)
        if whole:
            keep_paces(self._key, self.estimate.paces())
            self._pass_on(now, hurry=True, ended=True)

    @property
    def _now(self) -> float:
        return time.monotonic() - self._began

    def _pass_on(self, now: float, *, hurry: bool = False, ended: bool = False) -> None:
        last, step, model = self.last, self.estimate.step, self._project.model
        low, _, high = self.estimate.left(now)
        reading, writing = self._speed(now)
        at = (step.stage, step.done, step.total, model.computed, step.round) if step and step.stage else _place(last, model.computed)
        self.last = Progress(
            *at,
            1.0 if ended else self.estimate.share(now),
            (0.0, 0.0) if ended else (low, high) if self.estimate.known else None,
            now,
            reading,
            writing,
            self._entities,
            self._file,
            tuple(s.stage for s in self.estimate.ahead),
            self._totals,
            tuple(self._left_out),
            tuple(self._workers()),
        )
        self._left_out.clear()
        self._progress(self.last)
        self._store(now, hurry=hurry)

    def _store(self, now: float, *, hurry: bool) -> None:
        if self._run is not None and (hurry or now - self._written > WRITTEN_EVERY):
            ledger.update_run(self._project.db, self._run, self.last.facts())
            self._written = now
        if now - self._cut > CUT_EVERY:
            cut_log(self._project.db)
            self._cut = now

    def _speed(self, now: float) -> tuple[float | None, float | None]:
        """Tokens read and written a second of the engine's own time, over the last seconds."""
        counters = self._project.model.counters
        if not self._speeds or now - self._speeds[-1][0] > 1:
            self._speeds.append((now, counters))
        while len(self._speeds) > 2 and now - self._speeds[0][0] > LOOKED_BACK:
            self._speeds.popleft()
        read, reading, wrote, writing = (b - a for a, b in zip(self._speeds[0][1], counters, strict=True))
        return (round(read / reading, 1) if reading else None), (round(wrote / writing, 1) if writing else None)


def _place(last: Progress, tokens: int) -> tuple[str, int, int, int, int]:
    return last.stage, last.done, last.total, tokens, last.round


def _key(project: Project) -> str:
    """What a run is like others in: the models that compute, and whether an index is made or brought up to date."""
    chat = f"{project.model.file.fingerprint}{' tagger' * (project.tagger is not None)}"
    by = "phrases" if project.settings.extractor == "phrases" else chat
    return f"{project.embedder.file.fingerprint} {by} {'update' if ledger.settings(project.db).get('reports') else 'new'}"


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0


def _of_model(project: Project) -> tuple[dict[str, tuple[float, float]], frozenset[str]]:
    """What a chunk costs the chat model in each stage that asks it, by its speed in earlier runs here; those of which nothing is known."""
    if project.settings.extractor == "phrases":
        return {}, frozenset()
    tokens = {} if project.tagger else {"extraction": TOKENS_OF_CHUNK}
    if project.settings.style == "abstractive":
        tokens |= TOKENS_OF_PROSE
    known = sorted(speeds().get(project.model.file.fingerprint, []))
    return {s: (3.0, n / known[len(known) // 2]) for s, n in tokens.items()} if known else {}, frozenset(() if known else tokens)
