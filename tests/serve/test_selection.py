"""Some of the documents, asked over the API and MCP by real clients."""

import openai
import pytest

from localrag.serve.mcp_server import LocalBackend, make_server
from tests.conftest import run_localrag, write_town
from tests.serve.mcp_clients import by_client, tool
from tests.serve.server import asked

QUESTION = "Who is the mate of the Skua?"
ASKED = [{"role": "user", "content": QUESTION}]


@pytest.fixture(scope="module")
def folder(tmp_path_factory, home):
    made = tmp_path_factory.mktemp("selected")
    write_town(made / "docs")
    for path, name in (("docs", "all"), ("docs/b.txt", "信")):
        done = run_localrag("index", path, "--extractor", "phrases", "-q", "--collection", name, cwd=made)
        assert done.returncode == 0, done.stderr
    return made


def cited(made):
    return {result["title"].partition(" — ")[0] for result in made.model_extra["search_results"]}


def test_a_collection_is_a_model_that_chat_programs_can_choose(openai_client):
    """`localrag/NAME` and `localrag/NAME:MODE`, beside those of the whole index; its answers cite only its documents."""
    assert {"localrag", "localrag:mix", "localrag/all", "localrag/信", "localrag/信:global"} <= {m.id for m in openai_client.models.list()}
    for model in ("localrag/信", "localrag/信:basic"):
        made = openai_client.chat.completions.create(model=model, messages=ASKED)
        assert cited(made) == {"docs/b.txt"}
    with pytest.raises(openai.NotFoundError, match="no model"):
        openai_client.chat.completions.create(model="localrag/nowhere", messages=ASKED)


def test_filter_is_a_field_of_a_request(openai_client):
    """Joined with the model's collection by "and"; streams as well; what cannot be read is refused, with what there is."""
    made = openai_client.chat.completions.create(model="localrag", messages=ASKED, extra_body={"filter": "path=docs/c.txt"})
    assert cited(made) == {"docs/c.txt"}
    stream = openai_client.chat.completions.create(model="localrag", messages=ASKED, stream=True, extra_body={"filter": "path=docs/b.txt"})
    results = next(c.model_extra["search_results"] for c in stream if c.model_extra.get("search_results"))
    assert all(r["title"].startswith("docs/b.txt") for r in results)
    none = openai_client.chat.completions.create(model="localrag/信", messages=ASKED, extra_body={"filter": "path=docs/c.txt"})
    assert none.choices[0].message.content == "No document matches path=docs/c.txt in collection 信."
    assert not none.model_extra["citations"]
    for where, said in (("pth=a", "there is no key 'pth'"), ("meta.autor=x", "metadata key 'autor'"), (3, "`filter` is a text")):
        with pytest.raises(openai.BadRequestError, match=said):
            openai_client.chat.completions.create(model="localrag", messages=ASKED, extra_body={"filter": where})


def test_the_page_s_questions_take_documents_too(server):
    """`/api/ask` with `filter` and `collections`; a question that goes on keeps them; `/api/search` says why nothing was found."""
    with server.client() as door:
        first = asked(door, QUESTION, collections=["信"], filter="type=txt")
        on = asked(door, QUESTION, conversation=first["conversation"])
        for made in (first, on):
            assert {c["path"] for c in made["citations"]} == {"docs/b.txt"}
            assert (made["filter"], made["collections"]) == ("type=txt", ["信"])
        assert door.post("/api/ask", json={"question": QUESTION, "collections": 3}).status_code == 400
        found = door.get("/api/search", params={"q": QUESTION, "filter": "path=docs/a.md"}).json()
        assert {p["path"] for p in found["passages"]} == {"docs/a.md"}
        none = door.get("/api/search", params={"q": QUESTION, "filter": "type=pdf"}).json()
        assert none["passages"] == []
        assert "No document matches type=pdf." in none["note"]
        assert door.get("/api/search", params={"q": QUESTION, "collections": "nowhere"}).status_code == 400


def test_tools_of_mcp_take_documents(worker, folder):
    """`ask` and `search` use only the documents that were selected, or say what there is."""
    answer, found, none, wrong = by_client(
        make_server(folder / ".localrag", LocalBackend(worker)),
        tool("ask", question=QUESTION, filter="type=txt", collections="信"),
        tool("search", query=QUESTION, filter="path=docs/*.md"),
        tool("search", query=QUESTION, filter="path=nowhere"),
        tool("ask", question=QUESTION, collections="nowhere"),
    )
    assert {c["path"] for c in answer.structured_content["citations"]} == {"docs/b.txt"}
    assert {p["path"] for p in found.structured_content["passages"]} == {"docs/a.md"}
    assert "No document matches path=nowhere." in none.content[0].text
    assert wrong.is_error
    assert "There are: all, 信" in wrong.content[0].text
