"""How much of a run of indexing is done and how long the rest takes: the stages weighted by what they cost in earlier runs.

Every stage is estimated from a number of chunks: those that are new for what reads them, all of the index for what is made of the whole.
A stage that this machine has run before costs what it cost in runs of the nearest size; any other what DEFAULTS say, corrected by how
the stages of this run compare with them. The stage under way is extrapolated from itself, the more the further it is.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

Runs = Mapping[str, Sequence[Sequence[float]]]  # stage → (chunks, seconds) of its last runs here

# Fixed seconds and seconds a chunk, on one core of a laptop: A Christmas Carol (95 chunks) and the demo (21), loading models included.
DEFAULTS: Mapping[str, tuple[float, float]] = {
    "documents": (0.5, 0.03),
    "search index": (4.0, 0.13),
    "sentences": (0.3, 0.015),
    "phrases": (0.5, 0.02),
    "extraction": (3.0, 0.5),  # by the tagger; a chat model's is known by its speed
    "graph": (0.5, 0.008),
    "same names": (0.0, 0.0),
    "descriptions": (0.1, 0.005),
    "communities": (0.1, 0.002),
    "layout": (0.2, 0.004),
    "reports": (1.2, 0.035),
    "entities": (1.5, 0.03),
    "report vectors": (1.5, 0.03),
}
OF_CHUNKS = frozenset({"search index", "sentences", "phrases", "extraction"})  # their steps are chunks
OF_NEW = OF_CHUNKS | {"documents"}  # the rest works on the whole index
KNOWN, GUESSED = 1.3, 2.0  # a stage may take that many times longer or shorter than runs here, or DEFAULTS, say
TRUSTED = 0.25  # of a stage: from there on it is extrapolated from itself alone
WITHIN = 0.95  # of a step that is not done: the most that time alone can make of it
HEARD = 3  # steps of a stage of which nothing was known, from which on something is
NEARLY = 0.999  # the share is 1 only once the run has ended


@dataclass(slots=True)
class Step:
    """A stage of this run; `round` is 2 where a stage comes again, `size` of how many chunks it is, None as others of its kind are.

    Times are seconds of the run.
    """

    stage: str
    round: int = 1
    size: float | None = None
    began: float = 0.0
    first: int = 0
    done: int = 0
    total: int = 0

    def fraction(self, now: float, expected: float) -> float:
        """How much of it is done: what has been told, and in a long step what its time says."""
        whole = self.total - self.first
        told = (self.done - self.first) / whole if whole > 0 else 0.0
        by_time = (now - self.began) / expected if expected > 0 else 1.0
        return min(1.0, max(told, min(by_time, told + WITHIN / max(1, whole))))


@dataclass(slots=True)
class Estimate:
    """What is left of a run. `chunks` are the new ones, `whole` all of the index, None while they are unknown; `runs` as `Runs`.

    `pace` says otherwise what a stage costs (fixed, a chunk); `unknown` are stages of which nobody can say, until they have begun.
    """

    runs: Runs = field(default_factory=dict)
    pace: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    unknown: frozenset[str] = frozenset()
    chunks: float | None = None
    whole: float | None = None
    sizes: dict[str, float] = field(default_factory=dict)  # chunks of a stage that is about others than `chunks` or `whole`
    step: Step | None = None
    ahead: list[Step] = field(default_factory=list)
    spent: list[tuple[Step, float, float]] = field(default_factory=list)  # what has ended: seconds it took and DEFAULTS said
    _share: float = 0.0

    def expect(self, stages: Sequence[str], sizes: Sequence[float | None] = ()) -> None:
        """The stages that come after the one under way, in order; `sizes`: of how many chunks each is, where that is another number."""
        begun = [*(s.stage for s, *_ in self.spent), *([self.step.stage] if self.step else [])]
        rounds = (1 + [*begun, *stages[:n]].count(stage) for n, stage in enumerate(stages))
        self.ahead = list(map(Step, stages, rounds, sizes or [None] * len(stages)))

    def told(self, stage: str, done: int, total: int, now: float) -> bool:
        """Take in how far a stage is, at this second of the run; whether it has just begun. Stages before it have ended or are left out."""
        step = self.step
        if step and step.stage == stage:
            step.done, step.total = max(done, step.done), max(total, step.total)
            return False
        if step:
            self.spent.append((step, now - step.began, self._default(step)))
        at = next((n for n, s in enumerate(self.ahead) if s.stage == stage), None)
        again = sum(s.stage == stage for s, *_ in self.spent)
        self.step = self.ahead[at] if at is not None else Step(stage, 1 + again)
        self.ahead = self.ahead[at + 1 :] if at is not None else self.ahead
        if stage in OF_CHUNKS and self.step.size is None:
            self.sizes[stage] = total - done
        self.step.began, self.step.first, self.step.done, self.step.total = now, done, done, total
        return True

    def left(self, now: float) -> tuple[float, float, float]:
        """Seconds until the run ends: at least, probably, at most."""
        parts = [(self._expected(s), self._spread(s.stage)) for s in self.ahead]
        if self.step:
            parts.append(self._rest(self.step, now))
        return sum(t / s for t, s in parts), sum(t for t, _ in parts), sum(t * s for t, s in parts)

    def share(self, now: float) -> float:
        """How much of the run is over, as a share of its time; it never falls."""
        if self.chunks is not None:
            probably = self.left(now)[1]
            self._share = max(self._share, min(NEARLY, now / (now + probably) if now + probably > 0 else 0.0))
        return self._share

    @property
    def known(self) -> bool:
        """Whether anything can be said of how long the run takes."""
        step = self.step
        if self.chunks is None or any(s.stage in self.unknown and not self.runs.get(s.stage) for s in self.ahead):
            return False
        return step is None or step.stage not in self.unknown or bool(self.runs.get(step.stage)) or step.done - step.first >= HEARD

    def paces(self) -> dict[str, tuple[float, float]]:
        """Of each stage that has ended once in this run: chunks and seconds."""
        return {s.stage: (self._size(s), round(t, 2)) for s, t, _ in self.spent if s.round == 1}

    def _rest(self, step: Step, now: float) -> tuple[float, float]:
        expected, spread = self._expected(step), self._spread(step.stage)
        fraction, took = step.fraction(now, expected), now - step.began
        if step.total and step.done >= step.total:
            return 0.0, 1.0
        trust = min(1.0, fraction / TRUSTED) if step.total - step.first > 4 or took > expected else 0.0
        from_itself = took * (1 - fraction) / fraction if fraction > 0 else 0.0
        return (1 - trust) * expected * (1 - fraction) + trust * from_itself, 1 + (spread - 1) * (1 - trust * 0.8)

    def _size(self, step: Step) -> float:
        new, whole = self.chunks or 0.0, self.whole or 0.0
        if step.size is not None:
            return step.size
        if step.stage in self.sizes:
            return self.sizes[step.stage]
        return new if step.stage in OF_NEW else max(new, whole)

    def _default(self, step: Step, size: float | None = None) -> float:
        fixed, each = self.pace.get(step.stage) or DEFAULTS.get(step.stage, (1.0, 0.0))
        return fixed + each * (self._size(step) if size is None else size)

    def _expected(self, step: Step) -> float:
        """Seconds that a stage takes in all."""
        stage, size = step.stage, self._size(step)
        if runs := self.runs.get(stage):
            chunks, _ = min(runs, key=lambda run: abs(math.log((run[0] + 1) / (size + 1))))
            took = sorted(seconds for others, seconds in runs if others == chunks)
            then = self._default(step, chunks)
            return took[len(took) // 2] * (self._default(step) / then if then else 1.0)
        here, said = 5.0, 5.0  # how this machine compares with that of DEFAULTS, five seconds being worth nothing
        for before, seconds, default in self.spent:
            if before.stage not in self.pace:
                here, said = here + seconds, said + default
        return self._default(step) * (1.0 if stage in self.pace else here / said)

    def _spread(self, stage: str) -> float:
        return KNOWN if self.runs.get(stage) or stage in self.pace else GUESSED
