"""What a writing model is shown of a chunk: its text, with the file and the headings above it, after what all requests share."""

import json

import pytest

from localrag.index import Index
from tests.servers import Server, llama

TEXT = """# Harbour report

## Open questions

Open the lid. Enable the pump. Elm
Present were Ingrid Holm and Lars Holm, who read Order 25 in Vardby.

## Ferries

Ingrid Holm bought the ferry Skua from the Northern Line. Lars Holm is its mate.
"""
FERRIES = "From: minutes/Spring meeting.md › Harbour report › Ferries"


@pytest.fixture
def requests(tmp_path):
    """The requests for entities of two chunks, and the entities of the index; the model also names what is only in the place."""
    (tmp_path / "minutes").mkdir()
    (tmp_path / "minutes" / "Spring meeting.md").write_text(TEXT)
    named = ["Ingrid Holm", "Spring meeting", "Harbour report"]

    def answer(body):
        fields = body["response_format"]["json_schema"]["schema"]["properties"]["items"]["items"]["properties"]
        rows = [] if "source" in fields else [{"name": n, "type": "person", "description": f"{n} is named."} for n in named]
        return json.dumps({"items": rows})

    with (
        Server(answer, llama("writer", window=8192, n_params=5_000_000_000)) as server,
        Index.open(tmp_path / ".localrag", model=f"{server.url}#writer", missing_ok=True) as opened,
        opened.write_session(extractor="model", chunk_tokens=40, chunk_overlap=0),
    ):
        opened.add(tmp_path / "minutes")
        asked = [b["messages"] for b in server.bodies if b["messages"][-1]["content"].startswith("From: ")]
        return asked, opened.entities()


@pytest.mark.usefixtures("hashed")
def test_the_place_of_a_chunk_is_told_and_nothing_is_extracted_from_it(requests):
    """The path and the headings stand before the text; a name that only they have is no entity."""
    asked, entities = requests

    places = [messages[-1]["content"].split("\n")[0] for messages in asked]
    assert FERRIES in places
    assert all(place.startswith("From: minutes/Spring meeting.md") for place in places)
    assert "Ingrid Holm" in {e.name for e in entities}
    assert "Spring meeting" not in {e.name for e in entities}


@pytest.mark.usefixtures("hashed")
def test_all_chunks_share_the_beginning_of_their_prompt_and_no_names_are_suggested(requests):
    """Only the last message differs, and it holds the place, the text and the shape of the answer: no word is offered as a name."""
    asked, _ = requests

    assert len(asked) > 1
    assert len({json.dumps(messages[:-1]) for messages in asked}) == 1
    for messages in asked:
        place, text, *rest = messages[-1]["content"].split("\n\n")
        assert place.startswith("From: ")
        assert text.startswith("Text:\n")
        assert [part for part in rest if part not in TEXT and not part.lstrip().startswith("Answer with JSON")] == []
