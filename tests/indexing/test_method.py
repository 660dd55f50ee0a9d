"""The bundled tagger extracts, whichever chat model will answer, unless that is quick; the chat model writes reports on demand."""

import contextlib
import json
import sqlite3
import time
from itertools import count
from types import SimpleNamespace

import pytest

from localrag import project
from localrag.engine.remote.servers import with_server_info
from localrag.engine.settings import EngineOptions
from localrag.index import Index
from localrag.indexing import method as methods
from localrag.indexing import pipeline
from localrag.indexing.extraction import stage
from localrag.indexing.method import MAX_MODEL_SECONDS, MethodChoice, extraction_seconds, record_extraction_speed
from localrag.llm.tagger import Tagger
from localrag.model_files import find_chat_model
from localrag.project import open_for_writing
from localrag.settings import Domain, IndexSettings
from tests.conftest import TOWN, run_localrag
from tests.fakes import example
from tests.indexing.runs import put
from tests.servers import Server, llama

pytestmark = pytest.mark.usefixtures("hashed_module")
NUMBERS = count(4_000_000_000)  # of parameters: each server has a model of its own, whose speed is not known


def big():
    return llama("writer", window=8192, n_params=next(NUMBERS))


def writes(body):
    """What the schema of a request allows at least; the names of the town as entities."""
    if "response_format" not in body:
        return "The Skua is a ferry."
    schema, said = body["response_format"]["json_schema"]["schema"], body["messages"][-1]["content"]
    item = schema["properties"].get("items", {}).get("items", {}).get("properties", {})
    if {"name", "type"} <= item.keys():
        named = [n for n in ("Ingrid Holm", "Lars Holm", "Skua") if n in said]
        return json.dumps({"items": [{"name": n, "type": "person", "description": f"{n} is named here."} for n in named]})
    return json.dumps(example(schema))


@pytest.fixture
def server():
    """A server with a model of four billion parameters, which answers at once."""
    with Server(writes, big()) as one:
        yield one


@pytest.fixture
def slow_server(monkeypatch):
    """A server that takes longer for a chunk than a measurement does."""
    monkeypatch.setattr(stage, "MAX_MEASURED_S", 0.5)
    monkeypatch.setattr(methods, "MAX_MODEL_SECONDS", 1.0)

    def late(body):
        time.sleep(3)
        return writes(body)

    with Server(late, big()) as one:
        yield one


@pytest.fixture
def docs(tmp_path):
    """Two documents."""
    return put(tmp_path, {name: TOWN[name] for name in ("a.md", "b.txt")})


def index(docs, server, **settings):
    """Index the documents with the server's model; returns how many requests it got, who extracted, and the reports."""
    before = len(server.bodies)
    with Index.open(docs.parent / ".localrag", model=f"{server.url}#writer", missing_ok=True) as opened:
        with opened.write_session(**settings):
            result = opened.add(docs)
        reports = opened.reports()
    assert result.complete
    with open_for_writing(docs.parent / ".localrag") as opened:
        read_by = {json.loads(r)["extractor"] for (r,) in opened.db.execute("SELECT result FROM extractions WHERE config_hash <> 'x'")}
    return len(server.bodies) - before, read_by, reports


def test_a_quick_server_extracts_and_writes_the_reports(docs, server):
    """Its speed is measured on the first chunks, whose replies are not asked for twice."""
    asked, read_by, reports = index(docs, server)

    assert "model" in read_by
    assert any(r.rating is not None for r in reports)
    bodies = [json.dumps(b["messages"]) for b in server.bodies]
    assert asked == len(set(bodies))


@pytest.mark.ci
def test_with_a_slow_server_the_tagger_extracts_and_reports_quote(docs, slow_server):
    """An index is ready without the model; a later run does not measure again, and an edit changes nothing in the method."""
    _, read_by, reports = index(docs, slow_server)

    assert "tagger" in read_by
    assert "model" not in read_by
    assert reports
    assert all(r.rating is None for r in reports)
    (docs / "a.md").write_text(TOWN["a.md"] + "\nLars Holm sold the Skua to Ruth Sand.\n")
    asked, read_by, _ = index(docs, slow_server)
    assert asked == 0
    assert "model" not in read_by


@pytest.mark.ci
def test_the_tagger_never_asks_and_the_model_always_does(docs, server):
    """`tagger` and `model` hold whatever is measured; changing from one to the other extracts again, and back costs nothing."""
    asked, read_by, reports = index(docs, server, extractor="tagger")
    assert (asked, "tagger" in read_by, "model" in read_by) == (0, True, False)
    assert all(r.rating is None for r in reports)

    asked, read_by, _ = index(docs, server, extractor="model")
    assert asked
    assert "model" in read_by
    assert index(docs, server, extractor="tagger")[0] == 0


def test_what_the_tagger_cannot_read_gets_names_and_phrases(docs, server):
    """A Chinese text is not sent to the model."""
    (docs / "c.txt").write_text(TOWN["c.txt"])
    asked, read_by, _ = index(docs, server, extractor="tagger")

    assert asked == 0
    assert read_by == {"tagger", "phrases"}


def choice(db=None, *, url="", is_small=False, **settings):
    file = SimpleNamespace(fingerprint="new model", url=url)
    return MethodChoice(IndexSettings(**settings), file, Tagger(), db, is_small)


def test_a_local_model_extracts_only_if_it_is_known_to_be_quick():
    """Of unknown speed it does not; a known one decides by the time it takes for all chunks."""
    assert choice().extractor(100, None) == "tagger"
    assert choice().extractor(100, MAX_MODEL_SECONDS + 1) == "tagger"
    assert choice().extractor(100, MAX_MODEL_SECONDS - 1) == "model"
    assert choice(is_small=True).extractor(100, 1.0) == "tagger"
    assert choice(url="http://127.0.0.1:1/v1").extractor(100, None) is None


def test_other_types_and_a_described_corpus_are_for_the_model():
    """The tagger knows neither, so that `auto` leaves them to the model; the usual types are the tagger's."""
    assert choice(entity_types=("person", "ship")).extractor(100, None) == "model"
    assert choice(domain=Domain("ships")).extractor(100, None) == "model"
    assert choice(entity_types=("person", "place")).extractor(100, None) == "tagger"
    assert choice(entity_types=("person", "ship"), extractor="tagger").extractor(100, None) == "tagger"


def test_the_speed_of_an_extraction_is_remembered():
    """The median of the last extractions of a model, per chunk."""
    file = SimpleNamespace(fingerprint="measured model")
    for seconds in (10.0, 20.0, 90.0):
        record_extraction_speed(file, 10, seconds)

    assert extraction_seconds(file, 100) == 200.0


@pytest.mark.ci
def test_reports_are_written_on_demand_by_another_model_than_the_index_was_made_with(docs, server):
    """`index --write-reports` needs no path; the reports stay the model's when a document changes."""
    assert run_localrag("index", "docs", cwd=docs.parent).returncode == 0
    done = run_localrag("index", "--write-reports", "--model", f"{server.url}#writer", cwd=docs.parent)

    assert done.returncode == 0, done.stderr
    assert server.bodies
    opened = Index.open(docs.parent / ".localrag")
    assert any(r.rating is not None for r in opened.reports())
    (docs / "a.md").write_text(TOWN["a.md"] + "\nLars Holm sold the Skua to Ruth Sand in Vardby.\n")
    assert run_localrag("index", "docs", cwd=docs.parent).returncode == 0
    assert any(r.rating is not None for r in opened.reports())


def test_a_small_model_writes_no_reports(docs):
    """The bundled model is refused, with the option that names another."""
    run_localrag("index", "docs", "-q", cwd=docs.parent)
    done = run_localrag("index", "--write-reports", cwd=docs.parent)

    assert done.returncode
    assert "too small" in done.stderr
    assert "--model" in done.stderr


def test_the_plan_and_the_run_say_what_extracts(docs, server):
    """The plan names the tagger, the model and the options that choose otherwise; so does the run before it begins."""
    model = f"{server.url}#writer"
    plan = run_localrag("index", "docs", "--plan", "--model", model, "--extractor", "tagger", cwd=docs.parent)
    ran = run_localrag("index", "docs", "--model", model, "--extractor", "tagger", cwd=docs.parent)

    for said in (" ".join(text.split()) for text in (plan.stdout, ran.stderr)):
        assert "The bundled tagger extracts" in said
        assert "--extractor model" in said
        assert "--write-reports" in said


@pytest.mark.ci
def test_the_users_default_model_answers_in_an_index_of_the_bundled_one(docs, server, monkeypatch):
    """After `models use`, questions go to that model; an index that another model was chosen for keeps it."""
    run_localrag("index", "docs", "-q", cwd=docs.parent)
    chosen = project.merged_models() | {"default_chat": f"{server.url}#writer"}
    monkeypatch.setattr(project, "merged_models", lambda: chosen)

    with project.open_for_query(docs.parent / ".localrag") as opened:
        assert opened.model.file.url == server.url
    index(docs, server, extractor="tagger")
    monkeypatch.setattr(project, "merged_models", lambda: chosen | {"default_chat": "http://127.0.0.1:1/v1#other"})
    with project.open_for_query(docs.parent / ".localrag") as opened:
        assert opened.model.file.url == server.url


def test_while_a_chat_model_extracts_a_graph_of_phrases_can_be_asked(docs, monkeypatch):
    """With `--extractor model` it is there before the model is asked for the first time."""
    monkeypatch.setattr(pipeline, "PRELIMINARY_GRAPH_FROM_SECONDS", -1.0)
    there = []

    def looks(body):
        with contextlib.closing(sqlite3.connect(docs.parent / ".localrag" / "index.db")) as db:
            there.append(db.execute("SELECT count(*) FROM entities").fetchone()[0])
        return writes(body)

    with Server(looks, big()) as one:
        record_extraction_speed(with_server_info(find_chat_model(f"{one.url}#writer"), EngineOptions()), 1, 1.0)
        index(docs, one, extractor="model")

    assert there
    assert min(there) > 0
