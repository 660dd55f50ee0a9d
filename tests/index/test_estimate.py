"""How much of a run is done and how long the rest takes, reckoned from what stages cost before."""

from localrag.index.estimate import Estimate
from localrag.llm.speeds import keep_paces, paces

STAGES = ("documents", "search index", "phrases", "graph", "reports")
COSTS = {"documents": 2.0, "search index": 10.0, "phrases": 3.0, "graph": 4.0, "reports": 6.0}


def run(estimate, costs=COSTS, steps=10, chunks=40):
    """A run whose stages take what `costs` say: each moment's share of the time with the share that is shown."""
    seen, now, whole = [], 0.0, sum(costs.values())
    estimate.expect(STAGES)
    estimate.chunks = estimate.whole = chunks
    for stage, seconds in costs.items():
        for done in range(steps + 1):
            estimate.told(stage, done, steps, now)
            seen.append((now / whole, estimate.share(now), estimate.left(now)))
            now += seconds / steps if done < steps else 0.0
    return seen


def test_after_a_run_of_the_same_kind_the_share_shown_is_the_share_of_the_time():
    """Within three hundredths at every step; the range of what is left holds what is left."""
    estimate = Estimate({stage: [(40, seconds)] for stage, seconds in COSTS.items()})

    for true, shown, (low, _, high) in run(estimate):
        assert abs(true - shown) < 0.03
        assert low - 0.3 <= sum(COSTS.values()) * (1 - true) <= high + 0.3


def test_the_share_never_falls_whatever_the_stages_cost():
    """Neither where nothing is known of them, nor where they take ten times as long or as short as before."""
    for factor in (0.1, 1, 10):
        for runs in ({}, {stage: [(40, seconds * factor)] for stage, seconds in COSTS.items()}):
            shares = [shown for _, shown, _ in run(Estimate(runs))]

            assert shares == sorted(shares)
            assert shares[-1] < 1


def test_what_is_left_converges_where_earlier_runs_were_three_times_as_fast():
    """From the middle of the run on, the estimate is nearer to the truth than at its beginning."""
    seen = run(Estimate({stage: [(40, seconds / 3)] for stage, seconds in COSTS.items()}))
    wrong = [abs(true - shown) for true, shown, _ in seen]

    assert max(wrong[-15:]) < max(wrong)
    assert wrong[-1] < 0.02


def test_a_run_of_another_size_is_scaled():
    """Twice the chunks take longer, but not twice the time that loading a model takes."""
    few, many = (Estimate({"search index": [(40, 10.0)]}, chunks=n, whole=n) for n in (40, 80))
    for one in (few, many):
        one.expect(["search index"])

    assert few.left(0)[1] == 10.0
    assert 13 < many.left(0)[1] < 20


def test_stages_that_are_left_out_cost_nothing():
    """Where a later stage begins, those before it are over; the next one has no second round for it."""
    estimate = Estimate(chunks=100, whole=100)
    estimate.expect(STAGES)
    estimate.told("documents", 1, 1, 1.0)
    before = estimate.left(1.0)[1]
    estimate.told("reports", 0, 10, 1.1)

    assert estimate.left(1.1)[1] < before / 2
    assert estimate.ahead == []
    assert estimate.step.round == 1


def test_a_stage_that_comes_twice_has_rounds():
    """The graph that is built before the model reads is another bar than the one after it."""
    estimate = Estimate(chunks=10, whole=10)
    estimate.expect(["graph", "reports", "extraction", "graph", "reports"])
    told = []
    for stage in ("graph", "reports", "extraction", "graph", "reports"):
        estimate.told(stage, 0, 1, 0.0)
        told.append((stage, estimate.step.round))

    assert told == [("graph", 1), ("reports", 1), ("extraction", 1), ("graph", 2), ("reports", 2)]


def test_stages_of_a_portion_cost_what_their_own_chunks_cost():
    """What is read in portions of 10 and 30 chunks is expected to take as long as 10 and 30 chunks take, and is kept so for later runs."""
    estimate = Estimate(chunks=40, whole=40)
    estimate.expect(["search index", "search index"], [10, 30])
    alone = [Estimate(chunks=n, whole=n) for n in (10, 30)]
    for one in alone:
        one.expect(["search index"])

    assert abs(estimate.left(0)[1] - sum(one.left(0)[1] for one in alone)) < 1e-9
    estimate.told("search index", 0, 10, 0.0)
    estimate.told("graph", 0, 1, 5.0)
    assert estimate.paces()["search index"] == (10, 5.0)


def test_nothing_is_said_of_a_model_that_never_ran_here_until_it_has_read_something():
    """Unknown is unknown; after three chunks the stage is reckoned from itself."""
    estimate = Estimate(unknown=frozenset({"extraction"}))
    estimate.expect(["extraction", "graph"])
    assert not estimate.known
    estimate.chunks = estimate.whole = 30
    assert not estimate.known
    estimate.told("extraction", 0, 30, 0.0)
    estimate.told("extraction", 2, 30, 20.0)
    assert not estimate.known
    estimate.told("extraction", 9, 30, 90.0)
    assert estimate.known
    assert abs(estimate.left(90.0)[1] - 210) < 30


def test_paces_are_kept_for_each_kind_of_run(tmp_path, monkeypatch):
    """The last five; stages that did nothing are not, and a damaged file is as none."""
    monkeypatch.setenv("LOCALRAG_HOME", str(tmp_path))
    for n in range(7):
        keep_paces("a", {"graph": (10.0, float(n)), "layout": (0.0, 1.0)})
    keep_paces("b", {"graph": (3.0, 1.0)})

    assert paces("a") == {"graph": [[10.0, float(n)] for n in range(2, 7)]}
    assert paces("b") == {"graph": [[3.0, 1.0]]}
    (tmp_path / "cache" / "paces.json").write_text("[")
    assert paces("a") == {}
    keep_paces("a", {"graph": (1.0, 1.0)})
    assert paces("a") == {"graph": [[1.0, 1.0]]}
