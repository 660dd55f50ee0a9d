"""One question in several wire formats: OpenAI's Responses API by its own client, and Ollama's API."""

import json
import re
import shutil

import openai
import pytest

ASKED = "Who is the mate of the Skua?"
BEFORE = [{"role": "user", "content": "Who is Lars Holm?"}, {"role": "assistant", "content": "Lars Holm is the mate of the Skua."}]
TITLE = f"Give this conversation a title of at most 3 words, nothing else.\n\nUser: {ASKED}\nAI: Lars Holm."
RESPONSE = {"model": "localrag:mix", "input": ASKED}
CHAT = {"model": "localrag:mix", "messages": [{"role": "user", "content": ASKED}]}


@pytest.fixture(scope="module")
def folder(plain_town, tmp_path_factory):
    return shutil.copytree(plain_town, tmp_path_factory.mktemp("formats") / "town")


@pytest.fixture(scope="module")
def client(server):
    with server.client() as made:
        yield made


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


def test_a_response_is_the_same_answer_with_flat_annotations(openai_client, full_text):
    """Each at its mark in the text, with the words of its source."""
    response = openai_client.responses.create(**RESPONSE)
    (message,) = response.output

    assert response.status == "completed"
    assert response.output_text == full_text
    assert message.content[0].annotations
    for n, note in enumerate(message.content[0].annotations, 1):
        assert note.type == "url_citation"
        assert full_text[note.start_index : note.end_index] == f"[{n}]"
        assert re.search(r"docs/\w\.\w+.*“.+”", note.title)
    assert response.model_extra["search_results"]
    assert response.usage.total_tokens == response.usage.input_tokens + response.usage.output_tokens


def test_a_stream_of_events_adds_up_to_the_response(openai_client, full_text):
    """In OpenAI's order, numbered from 0; its client puts them together."""
    with openai_client.responses.stream(**RESPONSE) as stream:
        events = list(stream)
        final = stream.get_final_response()
    kinds = [event.type for event in events]

    assert kinds[:4] == ["response.created", "response.in_progress", "response.output_item.added", "response.content_part.added"]
    assert "response.output_text.annotation.added" in kinds
    assert kinds[-4:] == ["response.output_text.done", "response.content_part.done", "response.output_item.done", "response.completed"]
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == full_text == final.output_text
    assert [event.sequence_number for event in events] == list(range(len(events)))


def test_a_response_takes_a_conversation_of_items(client):
    """Instructions, messages of typed parts, and results of tools among them."""
    items = [
        *BEFORE,
        {"type": "function_call_output", "call_id": "a", "output": "x"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "What did he write to the mayor?"}]},
    ]
    said = client.post("/v1/responses", json={"model": "localrag:mix", "instructions": "Be brief.", "input": items}).json()
    assert "Lars Holm" in said["asked"]


def test_a_response_is_cut_at_its_largest_number_of_tokens(openai_client):
    """And is then incomplete, with the reason, also as a stream."""
    response = openai_client.responses.create(**RESPONSE, max_output_tokens=6)
    assert (response.status, response.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    *_, last = openai_client.responses.create(**RESPONSE, max_output_tokens=6, stream=True)
    assert last.type == "response.incomplete"
    assert last.response.output_text == response.output_text


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"background": True}, "background"),
        ({"input": [{"type": "item_reference", "id": "a"}]}, "references"),
        ({"input": 5}, "input"),
        ({"text": {"format": {"type": "json_object"}}}, "response_format"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "data:"}]}]}, "Pictures"),
    ],
)
def test_a_response_that_cannot_be_given_is_refused(openai_client, changes, named):
    """Nothing is kept between requests, and the rest is as for chat completions."""
    with pytest.raises(openai.BadRequestError, match=named):
        openai_client.responses.create(**RESPONSE | changes)


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
    """The largest number of tokens, stop sequences, and no limit."""
    (cut,) = lines_of(client, stream=False, options={"num_predict": 6})
    (stopped,) = lines_of(client, stream=False, options={"stop": ["\n\nSources"]})

    assert cut["done_reason"] == "length"
    assert full_text.startswith(content([cut]))
    assert content([stopped]) == full_text.partition("\n\nSources")[0]
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
        ({"model": "llama3"}, 404, "llama3"),
        ({"model": "llama3", "messages": []}, 404, "llama3"),
        ({"format": "json"}, 400, "response_format"),
        ({"format": {"type": "object", "properties": {}}}, 400, "response_format"),
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


@pytest.mark.parametrize(("path", "body"), [("/v1/responses", RESPONSE), ("/api/chat", CHAT), ("/api/show", {"model": "localrag"})])
def test_no_format_is_open_without_the_key(client, path, body):
    """As for chat completions; `/api/tags` and `/api/version` neither."""
    nobody = {"authorization": ""}
    assert client.post(path, json=body, headers=nobody).status_code == 401
    assert client.get("/api/tags", headers=nobody).status_code == client.get("/api/version", headers=nobody).status_code == 401


def test_a_title_is_made_in_every_format(openai_client, client):
    """Without the index, as for chat completions."""
    assert openai_client.responses.create(model="localrag", input=TITLE).output_text == "Who is the"
    assert content(lines_of(client, messages=[{"role": "user", "content": TITLE}])) == "Who is the"
    (formed,) = lines_of(
        client, messages=[{"role": "user", "content": TITLE}], stream=False, format={"properties": {"title": {"type": "string"}}}
    )
    assert json.loads(content([formed])) == {"title": "Who is the"}


@pytest.mark.parametrize("path", ["/v1/responses", "/api/chat"])
def test_a_stream_that_fails_ends_with_the_reason(client, path):
    """A question too long to be read: an event, or a line, of the format."""
    long = "why " * 5000
    said = client.post(path, json=RESPONSE | CHAT | {"input": long, "messages": [{"role": "user", "content": long}], "stream": True}).text
    last = json.loads([line.removeprefix("data: ") for line in said.splitlines() if line.startswith(("data: {", "{"))][-1])
    error = last["error"] if path == "/api/chat" else last["response"]["error"]["message"]
    assert "10000 at most" in error


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
    """For one text and several, and in the older form."""
    texts = ["ferry", "mayor"]
    first, second = (e.embedding for e in openai_client.embeddings.create(model="localrag", input=texts, encoding_format="float").data)
    many = client.post("/api/embed", json={"model": "localrag", "input": texts}).json()
    assert many["embeddings"] == [pytest.approx(first, abs=1e-4), pytest.approx(second, abs=1e-4)]
    assert many["prompt_eval_count"] > 0
    (one,) = client.post("/api/embed", json={"model": "localrag", "input": "ferry"}).json()["embeddings"]
    older = client.post("/api/embeddings", json={"model": "x", "prompt": "ferry"}).json()["embedding"]
    assert one == pytest.approx(first, abs=1e-4)
    assert older == pytest.approx(first, abs=1e-4)


def test_the_index_is_loaded(client):
    """As Ollama's clients ask before they send a question."""
    (model,) = client.get("/api/ps").json()["models"]
    assert model["name"] == "localrag"


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
