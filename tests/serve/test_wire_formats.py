"""One question in Ollama's wire format."""

import json
import re

import pytest

ASKED = "Who is the mate of the Skua?"
CHAT = {"model": "localrag:mix", "messages": [{"role": "user", "content": ASKED}]}


@pytest.fixture(scope="module")
def full_text(client):
    """The answer as the chat completions API gives it."""
    return client.post("/v1/chat/completions", json=CHAT).json()["choices"][0]["message"]["content"]


def lines_of(client, **changes):
    """The lines of Ollama's chat API."""
    said = client.post("/api/chat", json=CHAT | changes)
    assert said.status_code == 200, said.text
    return [json.loads(line) for line in said.text.splitlines()]


def content(lines):
    return "".join(line["message"]["content"] for line in lines)


def test_a_stream_of_lines_is_the_same_answer(client, full_text):
    """Ollama's way: a stream unless it is declined, each line with a message, the last one with the reason and the counts."""
    lines, (whole,) = lines_of(client), lines_of(client, stream=False)

    assert content(lines) == content([whole]) == full_text
    assert [line["done"] for line in lines] == [False] * (len(lines) - 1) + [True]
    for last in (lines[-1], whole):
        assert (last["model"], last["done"], last["done_reason"]) == ("localrag:mix", True, "stop")
        assert last["total_duration"] > 0
        assert last["search_results"]
    assert all({"model", "created_at", "message", "done"} <= line.keys() for line in lines)


def test_ollamas_options_are_followed(client, full_text):
    """The largest number of tokens, and no limit."""
    (cut,) = lines_of(client, stream=False, options={"num_predict": 6})

    assert cut["done_reason"] == "length"
    assert full_text.startswith(content([cut]))
    assert content(lines_of(client, options={"num_predict": -1, "stop": []})) == full_text


def test_steps_are_thoughts_where_they_are_wanted(client):
    """Otherwise they are not sent."""
    assert any(
        "thinking" in line["message"] for line in lines_of(client, think=True, messages=[{"role": "user", "content": "<a>\nx\n</a>\nWho?"}])
    )
    assert not any("thinking" in line["message"] for line in lines_of(client))


def test_ollamas_names_have_a_tag_that_means_nothing(client):
    """Its clients append it; every model of the list is shown and answers."""
    names = [model["name"] for model in client.get("/api/tags").json()["models"]]
    assert {"localrag", "localrag:mix", "localrag:global"} <= set(names)
    assert client.post("/api/show", json={"model": names[0]}).json()["capabilities"] == ["completion"]
    assert client.post("/api/show", json={"name": "localrag:latest"}).status_code == 200
    assert "Lars Holm" in content(lines_of(client, model="localrag:latest"))
    assert re.match(r"\d+\.\d+", client.get("/api/version").json()["version"])


def test_a_request_without_messages_loads_the_model(client):
    """It is in memory already."""
    for messages in ([], None):
        (line,) = lines_of(client, messages=messages)
        assert (line["done"], line["done_reason"], line["message"]["content"]) == (True, "load", "")


@pytest.mark.parametrize(
    ("changes", "status", "words"),
    [
        ({"model": "llama3", "messages": []}, 404, "llama3"),
        ({"format": "json"}, 400, "response_format"),
        ({"format": "yaml"}, 400, "json"),
        ({"options": {"num_predict": "many"}}, 400, "max_tokens"),
        ({"messages": [{"role": "user", "content": "", "images": ["AA"]}]}, 400, "No message of the user"),
        ({"messages": "hello"}, 400, "list of objects"),
    ],
)
def test_ollamas_errors_are_texts(client, changes, status, words):
    """With the status that its clients look at."""
    refused = client.post("/api/chat", json=CHAT | changes)
    assert refused.status_code == status
    assert words in refused.json()["error"]


def test_a_stream_that_fails_ends_with_the_reason(client):
    """A question too long to be read: as a line of the format."""
    lines = lines_of(client, messages=[{"role": "user", "content": "why " * 5000}])
    assert "10000 at most" in lines[-1]["error"]


def test_a_prompt_is_answered_as_a_chat_is(client, full_text):
    """Whole and in parts; a request without a prompt loads the model."""
    asked = {"model": "localrag:mix", "prompt": ASKED}
    whole = client.post("/api/generate", json=asked | {"stream": False}).json()
    assert (whole["response"], whole["done"], whole["done_reason"]) == (full_text, True, "stop")
    lines = [json.loads(line) for line in client.post("/api/generate", json=asked | {"system": "Be brief."}).text.splitlines()]
    assert "".join(line["response"] for line in lines) == full_text
    assert [line["done"] for line in lines] == [False] * (len(lines) - 1) + [True]
    assert client.post("/api/generate", json={"model": "localrag"}).json()["done_reason"] == "load"
    assert client.post("/api/chat", json=CHAT | {"stream": "false"}).json()["message"]["content"] == full_text


def test_ollamas_embeddings_are_those_of_the_index(client, openai_client):
    """For one text and several."""
    texts = ["ferry", "mayor"]
    first, second = (e.embedding for e in openai_client.embeddings.create(model="localrag", input=texts, encoding_format="float").data)
    many = client.post("/api/embed", json={"model": "localrag", "input": texts}).json()
    assert many["embeddings"] == [pytest.approx(first, abs=1e-4), pytest.approx(second, abs=1e-4)]
    assert many["prompt_eval_count"] > 0
    (one,) = client.post("/api/embed", json={"model": "localrag", "input": "ferry"}).json()["embeddings"]
    assert one == pytest.approx(first, abs=1e-4)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [*(("POST", f"/api/{name}", 404) for name in ("pull", "create", "copy")), ("DELETE", "/api/delete", 404), ("GET", "/api/chat", 404)],
)
def test_what_ollama_has_and_this_server_has_not_is_a_text(client, method, path, status):
    """A client shows it; and so is a wrong key."""
    refused = client.request(method, path, json={} if method == "POST" else None)
    assert refused.status_code == status
    assert isinstance(refused.json()["error"], str)
    refused = client.request(method, path, json={} if method == "POST" else None, headers={"authorization": "Bearer wrong"})
    assert refused.status_code == 401
    assert "key" in refused.json()["error"]
