"""The judge without a model: places do not matter, and an answer made worse by hand loses."""

import asyncio

import pytest

from localrag.engine.embedder import open_embedder
from localrag.eval.judge import CRITERIA, bundled_judge, judge_answers, plan_comparisons, verdict_of
from localrag.eval.win_rates import judge_figures
from localrag.model_files import find_embedder

QUESTION = "Why was the harbour of Vardby closed in 1974?"
GOOD = (
    "The harbour of Vardby was closed in 1974 because its breakwater had been broken by the storm of January. The council had no money "
    "to mend it, and the insurer refused to pay. Two ferries had already run aground at the entrance."
)
FOREIGN = "Bread is baked from flour, water and salt. It rests overnight before it is baked. Stamps are collected by country."
EMPTY = "There are many things to say about this. It depends on how one looks at it. Others may see it in another way."


@pytest.fixture(scope="module")
def prefers():
    return bundled_judge(open_embedder(find_embedder()).embed)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_places_do_not_matter(prefers, criterion):
    """What the first answer gains in one order it loses in the other."""
    there, back = prefers(QUESTION, GOOD, FOREIGN, criterion), prefers(QUESTION, FOREIGN, GOOD, criterion)

    assert there + back == pytest.approx(1)
    assert prefers(QUESTION, GOOD, GOOD, criterion) == 0.5


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("worse", [FOREIGN, EMPTY, ""])
def test_an_answer_to_the_question_wins(prefers, criterion, worse):
    """Against one to another question, against phrases, against none."""
    assert verdict_of(prefers(QUESTION, GOOD, worse, criterion)) == "1"


def test_what_is_beside_the_question_is_less_direct(prefers):
    """The same answer with sentences mixed in that have nothing to do with it."""
    assert verdict_of(prefers(QUESTION, f"{FOREIGN} {GOOD}", GOOD, "directness")) == "2"


def test_half_an_answer_covers_less(prefers):
    """Its first sentence against all of it."""
    assert verdict_of(prefers(QUESTION, GOOD, GOOD.partition(". ")[0] + ".", "comprehensiveness")) == "1"


def test_its_verdicts_are_rows_like_those_of_a_model(prefers):
    """Both orders of every criterion, each with a winner and a reason; half of the choices stand first, and all stay when turned."""
    rows = []
    wanted = list(plan_comparisons(QUESTION, ["C0", "SS"], 1))
    asyncio.run(judge_answers(wanted, {"C0": GOOD, "SS": FOREIGN}, prefers, rows.append))
    figures = judge_figures(rows)

    assert len(rows) == 2 * len(CRITERIA)
    assert {row["judge"] for row in rows} == {"bundled"}
    assert {row["winner"] for row in rows} == {"C0"}
    assert (figures.first_position_wins, figures.consistent) == (50.0, 100.0)
