"""A call that fails while indexing costs what it would have said; it is noted, and the next run asks again and nothing else."""

import asyncio
from dataclasses import replace

import pytest

from localrag.errors import EngineError
from localrag.indexing.graph import stage
from localrag.indexing.pipeline import build_index
from localrag.project import open_for_writing
from localrag.store import graph
from tests.conftest import TOWN
from tests.fakes import CutOff, Scripted, example
from tests.indexing.runs import put

pytestmark = pytest.mark.usefixtures("hashed_module")
NAMES = ("Ingrid Holm", "Lars Holm", "Skua", "Northern Line", "Ruth Sand")


@pytest.fixture
def index(tmp_path, monkeypatch):
    """Indexes two documents in the abstractive style; the scripted model is asked for every description, even a short one."""
    monkeypatch.setattr(stage, "MAX_JOINED_CHARS", 0)
    put(tmp_path, {name: TOWN[name] for name in ("a.md", "b.txt")})

    def indexed(says, *, window=4096, at_once=8, seconds=0, **settings):
        with open_for_writing(tmp_path / ".localrag") as opened:
            project = replace(opened, settings=replace(opened.settings, style="abstractive", **settings))
            project.model._engine = engine = Scripted(says, window=window, at_once=at_once, seconds=seconds)
            outcome = asyncio.run(build_index([tmp_path / "docs"], project, lambda _: None))
            return outcome.failures, engine, graph.entities(project.db), graph.claims(project.db)

    return indexed


def well(request):
    """A good answer to any request: names and pairs that the text has, yes to every question once."""
    said = request.messages[-1]["content"]
    if request.task == "entities":
        return {"items": [{"name": n, "type": "person", "description": f"{n} is in {len(said)}"} for n in NAMES if n in said]}
    if request.task == "gleaning":
        return {"answer": "yes"} if "answer" in request.grammar.schema["properties"] else {"items": []}
    return {"items": []} if request.task in ("claims", "relationships") else example(request.grammar.schema)


def failing(task, how, nth=1):
    """`well`, but for the nth request of a task."""
    seen = []

    def says(request):
        seen.append(request.task)
        return how if request.task == task and seen.count(task) == nth else well(request)

    return says


@pytest.mark.parametrize("how", [CutOff("Ingri"), EngineError("the step failed")], ids=["cut off", "failed"])
def test_a_summary_that_fails_is_asked_again_by_the_next_run(index, how):
    """The subject keeps its longest description, the others are summarised; the next run asks for this one alone."""
    failures, engine, entities, _ = index(failing("describe", how))

    assert [(f.stage, f.kind) for f in failures] == [("description", "truncated" if isinstance(how, CutOff) else "failed in the engine")]
    assert engine.tasks.count("describe") > 1
    of = {e.id: e for e in entities}
    assert of[failures[0].subject].description in of[failures[0].subject].descriptions

    again, engine, entities, _ = index(well)
    assert again == ()
    assert engine.tasks.count("describe") == 1
    assert all(e.description not in e.descriptions for e in entities if len(e.descriptions) > 1)
    assert index(well)[1].tasks == []


@pytest.mark.parametrize(("task", "nth", "settings"), [
    ("gleaning", 1, {"max_gleanings": 1}), ("gleaning", 2, {"max_gleanings": 1}), ("claims", 1, {"claims": True}), ("relationships", 1, {}),
])  # fmt: skip
def test_a_later_turn_that_fails_does_not_cost_the_entities(index, task, nth, settings):
    """The chunk's entities are in the graph; what is missing is noted, and the next run asks for it and for nothing that was answered."""
    failures, engine, entities, _ = index(failing(task, EngineError("the step failed"), nth), at_once=1, **settings)

    assert [(f.stage, f.kind) for f in failures] == [("extraction", "failed in the engine")]
    said = {e.name: len(e.descriptions) for e in entities}
    assert said["Ingrid Holm"] == said["Northern Line"] == 2  # of the chunk that failed, too

    again, engine, _, _ = index(well, at_once=1, **settings)
    assert again == ()
    assert task in engine.tasks
    assert "entities" not in engine.tasks
    assert index(well, at_once=1, **settings)[1].tasks == []


def test_what_a_retried_turn_gives_reaches_the_graph(index):
    """Entities that only a second run could glean are in the graph after it."""

    def gleaned(request):
        if request.task == "gleaning" and "items" in request.grammar.schema["properties"]:
            return {"items": [{"name": "Vardby", "type": "place", "description": "A town"}] * ("Vardby" in str(request.messages))}
        return well(request)

    _, _, before, _ = index(lambda r: EngineError("x") if r.task == "gleaning" else well(r), max_gleanings=1)
    _, _, after, _ = index(gleaned, max_gleanings=1)

    assert {e.name for e in after} - {e.name for e in before} == {"Vardby"}


def test_a_report_that_is_cut_off_is_asked_for_in_fewer_words(index):
    """An answer denser than its data suggests hits the token limit once; the second time its limits in characters are a third."""
    failures, engine, _, _ = index(failing("report", CutOff('{"title": "1 2 3')))
    titles = [r.grammar.schema["properties"]["title"]["maxLength"] for r in engine.requests if r.task == "report"]

    assert failures == ()
    assert sorted(titles)[:2] == [33, 100]


def test_a_failed_first_turn_costs_its_chunk_only(index):
    """Without entities there is nothing to keep: the chunk is noted and asked again."""
    failures, _, _, _ = index(failing("entities", EngineError("the step failed")))
    again, engine, _, _ = index(well)

    assert [f.stage for f in failures] == ["extraction"]
    assert again == ()
    assert engine.tasks.count("entities") == 1


def test_as_many_conversations_as_slots(index, tmp_path):
    """Extraction keeps every slot of a large engine busy, and has no more conversations under way than slots hold."""
    for n in range(30):
        (tmp_path / "docs" / f"{n}.txt").write_text(f"Ingrid Holm saw the Skua on day {n}.")
    _, engine, _, _ = index(
        lambda r: well(r) if r.task in ("entities", "relationships") else example(r.grammar.schema), at_once=20, seconds=0.01
    )
    first = [r for r in engine.requests if r.task in ("entities", "relationships")]

    assert len(first) >= 32
    assert engine.most_of["entities"] == 20
