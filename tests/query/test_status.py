"""What a question says of itself while it is answered."""

import asyncio
import re

import pytest

from localrag.asking import answer_question
from localrag.engine.settings import EngineOptions
from localrag.project import open_for_query
from localrag.query.question import AnswerCallbacks, QueryOptions
from tests.conftest import mostly_ci
from tests.fakes import Scripted, answered_by
from tests.query.test_failed_calls import QUESTION, town, well  # noqa: F401 — the same index


@pytest.fixture
def told(town):  # noqa: F811
    """A function that asks in a mode and gives what was told meanwhile."""

    def asked(mode, style="abstractive", **options):
        said = []
        with open_for_query(town, engine=EngineOptions(use_adapters=False), logs=False) as project:
            answered_by(project, Scripted(well))
            asyncio.run(
                answer_question(QUESTION, project, QueryOptions(mode, style=style, **options), AnswerCallbacks(on_status=said.append))
            )
        return said

    return asked


@pytest.mark.parametrize(("mode", "options", "steps"), [
    ("global", {}, ["reading {} reports …", "reading {} points …"]),
    ("global", {"dynamic": True}, ["rating {} reports …", "reading {} reports …", "reading {} points …"]),
    ("local", {}, ["reading {} passages …"]),
    *mostly_ci([
        ("ts", {}, ["reading {} passages …", "reading {} points …"]),
        ("drift", {}, ["reading {} reports …", "following up {} questions …", "reading {} points …"]),
        ("mix", {}, ["reading {} passages …"]),
        ("basic", {}, ["reading {} passages …"]),
        ("ss", {}, ["reading {} passages …"]),
    ]),
])  # fmt: skip
def test_every_mode_says_its_steps_with_counts(told, mode, options, steps):
    """First that it searches, then each step; where a step has parts, how many of them are done, from none to all."""
    said = told(mode, **options)

    assert said[0] == "searching …"
    assert list(dict.fromkeys(re.sub(r"\d+ of \d+|\d+", "{}", text) for text in said[1:])) == steps
    for step in steps[:-1]:
        counts = [tuple(map(int, n)) for text in said for n in re.findall(re.escape(step).replace(r"\{\}", r"(\d+) of (\d+)"), text)]
        for total in {t for _, t in counts}:
            done = [d for d, t in counts if t == total]
            assert (min(done), max(done)) == (0, total)


@pytest.mark.parametrize("mode", ["global", "drift", "local", "mix", "basic", "ts", "ss"])
def test_an_extractive_answer_says_that_it_searches(told, mode):
    """It takes no steps that have parts."""
    assert told(mode, "extractive") == ["searching …"]
