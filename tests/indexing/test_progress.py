"""How much of a run is done and how long the rest takes, reckoned from what stages cost before."""

from localrag.indexing.progress import TimeEstimate
from localrag.llm.budgets import record_stage_speeds, stage_speeds

STAGES = ("documents", "chunk embeddings", "noun phrases", "entity resolution", "reports")
COSTS = {"documents": 2.0, "chunk embeddings": 10.0, "noun phrases": 3.0, "entity resolution": 4.0, "reports": 6.0}


def run(estimate, costs=COSTS, steps=10, chunks=40):
    """A run whose stages take what `costs` say: each moment's share of the time with the share that is shown."""
    seen, now, whole = [], 0.0, sum(costs.values())
    estimate.expect(STAGES)
    estimate.chunks = estimate.total_chunks = chunks
    for stage, seconds in costs.items():
        for done in range(steps + 1):
            estimate.update(stage, done, steps, now)
            seen.append((now / whole, estimate.fraction(now), estimate.seconds_left(now)))
            now += seconds / steps if done < steps else 0.0
    return seen


def test_after_a_run_of_the_same_kind_the_share_shown_is_the_share_of_the_time():
    """Within three hundredths at every step; the range of what is left holds what is left."""
    estimate = TimeEstimate({stage: [(40, seconds)] for stage, seconds in COSTS.items()})

    for true, shown, (low, _, high) in run(estimate):
        assert abs(true - shown) < 0.03
        assert low - 0.3 <= sum(COSTS.values()) * (1 - true) <= high + 0.3


def test_the_share_never_falls_whatever_the_stages_cost():
    """Neither where nothing is known of them, nor where they take ten times as long or as short as before."""
    for factor in (0.1, 1, 10):
        for runs in ({}, {stage: [(40, seconds * factor)] for stage, seconds in COSTS.items()}):
            shares = [shown for _, shown, _ in run(TimeEstimate(runs))]

            assert shares == sorted(shares)
            assert shares[-1] < 1


def test_what_is_left_converges_where_earlier_runs_were_three_times_as_fast():
    """From the middle of the run on, the estimate is nearer to the truth than at its beginning."""
    seen = run(TimeEstimate({stage: [(40, seconds / 3)] for stage, seconds in COSTS.items()}))
    wrong = [abs(true - shown) for true, shown, _ in seen]

    assert max(wrong[-15:]) < max(wrong)
    assert wrong[-1] < 0.02


def test_a_run_of_another_size_is_scaled():
    """Twice the chunks take longer, but not twice the time that loading a model takes."""
    few, many = (TimeEstimate({"chunk embeddings": [(40, 10.0)]}, chunks=n, total_chunks=n) for n in (40, 80))
    for one in (few, many):
        one.expect(["chunk embeddings"])

    assert few.seconds_left(0)[1] == 10.0
    assert 13 < many.seconds_left(0)[1] < 20


def test_stages_that_are_left_out_cost_nothing():
    """Where a later stage begins, those before it are over; the next one has no second round for it."""
    estimate = TimeEstimate(chunks=100, total_chunks=100)
    estimate.expect(STAGES)
    estimate.update("documents", 1, 1, 1.0)
    before = estimate.seconds_left(1.0)[1]
    estimate.update("reports", 0, 10, 1.1)

    assert estimate.seconds_left(1.1)[1] < before / 2
    assert estimate.upcoming_stages == []
    assert estimate.step.round == 1


def test_a_stage_that_comes_twice_has_rounds():
    """The graph that is built before the model reads is another bar than the one after it."""
    estimate = TimeEstimate(chunks=10, total_chunks=10)
    estimate.expect(["entity resolution", "reports", "extraction", "entity resolution", "reports"])
    told = []
    for stage in ("entity resolution", "reports", "extraction", "entity resolution", "reports"):
        estimate.update(stage, 0, 1, 0.0)
        told.append((stage, estimate.step.round))

    assert told == [("entity resolution", 1), ("reports", 1), ("extraction", 1), ("entity resolution", 2), ("reports", 2)]


def test_stages_of_a_portion_cost_what_their_own_chunks_cost():
    """What is read in portions of 10 and 30 chunks is expected to take as long as 10 and 30 chunks take, and is kept so for later runs."""
    estimate = TimeEstimate(chunks=40, total_chunks=40)
    estimate.expect(["chunk embeddings", "chunk embeddings"], [10, 30])
    alone = [TimeEstimate(chunks=n, total_chunks=n) for n in (10, 30)]
    for one in alone:
        one.expect(["chunk embeddings"])

    assert abs(estimate.seconds_left(0)[1] - sum(one.seconds_left(0)[1] for one in alone)) < 1e-9
    estimate.update("chunk embeddings", 0, 10, 0.0)
    estimate.update("entity resolution", 0, 1, 5.0)
    assert estimate.stage_speeds()["chunk embeddings"] == (10, 5.0)


def test_nothing_is_said_of_a_model_that_never_ran_here_until_it_has_read_something():
    """Unknown is unknown; after three chunks the stage is reckoned from itself."""
    estimate = TimeEstimate(unknown_stages=frozenset({"extraction"}))
    estimate.expect(["extraction", "entity resolution"])
    assert not estimate.is_known
    estimate.chunks = estimate.total_chunks = 30
    assert not estimate.is_known
    estimate.update("extraction", 0, 30, 0.0)
    estimate.update("extraction", 2, 30, 20.0)
    assert not estimate.is_known
    estimate.update("extraction", 9, 30, 90.0)
    assert estimate.is_known
    assert abs(estimate.seconds_left(90.0)[1] - 210) < 30


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
