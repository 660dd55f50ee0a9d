"""How much of a run is done and how long the rest takes."""

from types import SimpleNamespace

import pytest

from localrag.indexing import progress as progress_module
from localrag.indexing.progress import ProgressReporter
from localrag.llm.budgets import record_stage_speeds, stage_speeds

COSTS = {"documents": 20.0, "chunk embeddings": 100.0, "noun phrases": 30.0, "entity resolution": 40.0, "reports": 60.0}


@pytest.fixture
def clock(monkeypatch):
    """A time that a test sets."""
    now = SimpleNamespace(seconds=0.0)
    monkeypatch.setattr(progress_module, "time", SimpleNamespace(monotonic=lambda: now.seconds))
    monkeypatch.setattr(progress_module, "checkpoint_wal", lambda _db: None)
    return now


def reporter(seen, stages):
    model = SimpleNamespace(computed_tokens=0, token_counters=(0, 0.0, 0, 0.0))
    project = SimpleNamespace(settings=SimpleNamespace(extractor="phrases"), tagger=None, model=model, db=None)
    made = ProgressReporter(project, None, seen.append, stages=stages)
    made.set_chunks(40, 40)
    return made


def run(clock, factor=1.0, steps=20):
    """A run whose stages take what COSTS say, times a factor: what was told, and how much of the time was over then."""
    seen, over, whole = [], [], factor * sum(COSTS.values())
    tell = reporter(seen, tuple(COSTS))
    for stage, seconds in COSTS.items():
        for done in range(steps + 1):
            tell(stage, done, steps)
            over.append(clock.seconds / whole)
            clock.seconds += factor * seconds / steps if done < steps else 0.0
    tell.finish()
    return seen, over, tell


@pytest.mark.parametrize("factor", [0.1, 1, 10])
def test_the_share_never_falls_and_ends_at_one(clock, factor):
    """However long the stages take; only the end is the whole."""
    seen, *_ = run(clock, factor)
    shares = [told.fraction for told in seen]

    assert shares == sorted(shares)
    assert shares[-2] < 1 == shares[-1]
    assert seen[-1].seconds_left == (0.0, 0.0)


@pytest.mark.parametrize("factor", [0.2, 5])
def test_the_time_left_follows_from_the_speed_of_the_run(clock, factor):
    """At first nothing is said; in a stage whose speed is even, the rest of the run is told within a factor of two and a half."""
    seen, over, _ = run(clock, factor)
    whole = factor * sum(COSTS.values())
    told = [(range_, whole * (1 - share)) for p, share in zip(seen, over, strict=False) if 0.3 < share < 0.9 and (range_ := p.seconds_left)]

    assert seen[0].seconds_left is None
    assert len(told) > 20
    assert all(low / 2.5 <= left <= high * 2.5 for (low, high), left in told)


def test_a_stage_that_comes_twice_has_rounds(clock):
    """The graph that is built before the model reads is another bar than the one after it; a stage that is left out has none."""
    stages, seen = ("entity resolution", "layout", "reports", "extraction", "entity resolution", "reports"), []
    tell = reporter(seen, stages)
    for stage in stages:
        if stage != "layout":
            tell(stage, 0, 1)
            clock.seconds += 2
    tell.finish()

    assert [(p.stage, p.round) for p in seen[:-1]] == [
        ("entity resolution", 1),
        ("reports", 1),
        ("extraction", 1),
        ("entity resolution", 2),
        ("reports", 2),
    ]
    assert seen[1].stages == ("extraction", "entity resolution", "reports")
    assert tell.stage_seconds == {"entity resolution": 4.0, "reports": 4.0, "extraction": 2.0}


def test_paces_are_kept_for_each_kind_of_run(tmp_path, monkeypatch):
    """The last five; stages that did nothing are not, and a damaged file is as none."""
    monkeypatch.setenv("LOCALRAG_HOME", str(tmp_path))
    for n in range(7):
        record_stage_speeds("a", {"entity resolution": (10.0, float(n)), "layout": (0.0, 1.0)})
    record_stage_speeds("b", {"entity resolution": (3.0, 1.0)})

    assert stage_speeds("a") == {"entity resolution": [[10.0, float(n)] for n in range(2, 7)]}
    assert stage_speeds("b") == {"entity resolution": [[3.0, 1.0]]}
    (tmp_path / "cache" / "paces.json").write_text("[")
    assert stage_speeds("a") == {}
    record_stage_speeds("a", {"entity resolution": (1.0, 1.0)})
    assert stage_speeds("a") == {"entity resolution": [[1.0, 1.0]]}
