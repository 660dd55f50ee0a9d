"""An answer from the documents' sentences: the short answer, the sentence that holds it first, and what leads to it."""

import json
from dataclasses import asdict

import pytest

from localrag import serializers
from localrag.cli.views import answers as views
from localrag.engine.settings import EngineOptions
from localrag.project import open_for_query
from localrag.serve import mcp_results
from localrag.system.installation import reinstall_hint
from tests.conftest import run_localrag
from tests.query.made import ask, index_of

TEXTS = {
    "skua": "# The Skua\n\nThe ferry Skua was bought by Ingrid Holm in 1974. Her aunt lent her the money. The Skua is painted green.\n",
    "holm": "# Ingrid Holm\n\nIngrid Holm grew up on a farm. She was born in the town of Molde. Her mother kept forty goats.\n",
    "tern": "# The Tern\n\nThe ferry Tern belongs to the Northern Line. It was painted white in 1950, and red in 1960.\n",
    "bread": "# Bread\n\nBread is baked from flour, water and salt. It rests overnight before it is baked.\n",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Short documents under a title, indexed without a model."""
    with index_of(tmp_path_factory.mktemp("brief"), {f"{name}.md": text for name, text in TEXTS.items()}) as opened:
        return opened.root


@pytest.fixture(scope="module")
def project(folder):
    with open_for_query(folder / ".localrag") as opened:
        yield opened


@pytest.mark.parametrize(
    ("question", "short"),
    [
        ("Who bought the ferry Skua?", "Ingrid Holm"),
        ("In which year was the Skua bought?", "1974"),
        ("Where was Ingrid Holm born?", "Molde"),
    ],
)
def test_the_short_answer_comes_first(project, question, short):
    """In bold, in the documents' words; then the passage that holds it, marked there, and three passages at most."""
    found = ask(project, question)

    assert found.short_answer is not None
    assert short in found.short_answer
    assert found.answer.startswith(f"**{found.short_answer}**\n\n")
    assert 1 <= len(found.citations) <= 3
    first = found.passages[0]
    assert first.text == found.citations[0].quote
    assert first.text[slice(*first.marked)] == found.short_answer


def test_passages_have_one_shape_in_every_interface(project):
    """The library's record, and the same keys and values in the JSON of the command line, the server and MCP."""
    found = ask(project, "Who bought the ferry Skua?")
    stored = serializers.serialize_answer(found)
    of_mcp = mcp_results.answer_result(stored).structured_content["passages"]
    of_cli = [shown | {"path": p.path} for shown, p in zip(views.answer_json(found, project.root)["passages"], found.passages, strict=True)]

    assert found.passages[0].marked
    assert of_cli == stored["passages"] == of_mcp == json.loads(json.dumps([asdict(p) for p in found.passages]))


def test_a_first_question_loads_no_chat_model(folder):
    """Whether a model is small, and so whether sentences are quoted, stands in its file's header."""
    with open_for_query(folder / ".localrag") as opened:
        ask(opened, "Who bought the ferry Skua?")

        assert opened.model.metrics() == {}


def test_without_the_adapter_passages_stand_alone(folder):
    """`--engine adapter=no` leaves the reader out: passages as retrieval ranks them, and no short answer."""
    args = ("ask", "Who bought the ferry Skua?", "--json")
    without = json.loads(run_localrag(*args, "--engine", "adapter=no", cwd=folder).stdout)
    having = json.loads(run_localrag(*args, cwd=folder).stdout)

    assert without["short_answer"] is None
    assert without["passages"]
    assert without["passages"][0]["marked"] is None
    assert having["short_answer"] == "Ingrid Holm"


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-1000], lambda data: data[:5000] + bytes([data[5000] ^ 1]) + data[5001:], lambda _: b""]
)
def test_a_damaged_reader_costs_the_reading_only(folder, tmp_path, monkeypatch, damage):
    """A truncated or changed file is refused by its hash and named once, with what mends it; ranked passages are the answer."""
    from localrag import project as opened_projects
    from localrag.llm import reader
    from localrag.system import files

    there = files.shipped_data_path
    damaged = tmp_path / "reader_e5.safetensors"
    damaged.write_bytes(damage(there("adapters/reader_e5.safetensors").read_bytes()))
    monkeypatch.setattr(reader, "shipped_data_path", lambda name: damaged if name.endswith(damaged.name) else there(name))
    monkeypatch.setattr(opened_projects, "SHARED_READER", reader.PassageReader())
    said = []
    with open_for_query(folder / ".localrag", engine=EngineOptions(notify=said.append)) as opened:
        found = ask(opened, "Who bought the ferry Skua?")
        ask(opened, "Where was Ingrid Holm born?")

    assert found.short_answer is None
    assert "Ingrid Holm" in found.answer
    assert len([line for line in said if "damaged" in line and reinstall_hint() in line]) == 1
