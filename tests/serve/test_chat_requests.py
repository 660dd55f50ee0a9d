"""Parameters and messages of chat requests: each is followed, or refused with a reason; none is passed over in silence."""

import json

import openai
import pytest

from localrag.engine.tokenizer import Tokenizer
from localrag.model_files import bundled_chat_model
from localrag.serve import auth
from tests.conftest import TOWN, mostly_ci
from tests.serve.server import chunks, events

ODD = "The cook of the Skua is Mia\u200b Berg, who says that a <b and c &lt; d for the price of the fish.\n"
ASKED = [{"role": "user", "content": "Who is the mate of the Skua?"}]


@pytest.fixture(scope="module")
def folder(indexed):
    return indexed(TOWN | {"odd.md": ODD}, "--extractor", "phrases")


def said(client, **changes):
    return client.post("/v1/chat/completions", json={"model": "localrag:mix", "messages": ASKED} | changes)


def streamed(client, **changes):
    """The text and the last reason of a stream."""
    choices = [chunk["choices"][0] for chunk in chunks(said(client, stream=True, **changes))]
    return "".join(c["delta"].get("content", "") for c in choices), choices[-1]["finish_reason"]


TOOL = {"type": "function", "function": {"name": "look_up", "parameters": {}}}


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {}}}}, "response_format"),
        ({"tools": [TOOL], "tool_choice": "required"}, "tool_choice"),
        ({"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "look_up"}}}, "tool_choice"),
        ({"n": 2}, "`n`"),
        ({"logprobs": True}, "logprobs"),
        ({"modalities": ["text", "audio"]}, "modalities"),
        ({"stop": "Sources"}, "stop"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_completion_tokens": -3}, "max_completion_tokens"),
        ({"stream": "perhaps"}, "stream"),
        ({"seed": "perhaps"}, "seed"),
    ],
)
def test_what_cannot_be_done_is_refused_by_name(client, changes, named):
    """With 400 in OpenAI's form, before the question is asked."""
    refused = said(client, **changes)
    assert refused.status_code == 400
    assert named in refused.json()["error"]["message"]


@pytest.mark.parametrize(
    "changes",
    [
        {"tools": [TOOL], "tool_choice": "auto"},
        {"n": 1, "stop": None, "max_tokens": None, "logprobs": False},
        {"n": 1.0, "stop": "", "max_tokens": -1, "logprobs": "false"},
        {"stop": ["", None], "max_tokens": "256", "seed": "7"},
        {"max_completion_tokens": 256.0, "max_tokens": ""},
        {"stream": "False", "stream_options": {"include_usage": "true"}},
    ],
)
def test_what_changes_nothing_is_accepted(client, changes):
    """Programs send their defaults."""
    assert "Lars Holm" in said(client, **changes).json()["choices"][0]["message"]["content"]


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
def test_the_largest_number_of_tokens_is_kept(client, name):
    """The text ends at a word, and the reason is told; a limit that is not reached changes nothing."""
    full = said(client).json()["choices"][0]["message"]["content"]
    choice = said(client, **{name: 6}).json()["choices"][0]

    assert full.startswith(choice["message"]["content"])
    assert 1 <= len(choice["message"]["content"].split()) <= 6
    assert choice["finish_reason"] == "length"
    assert streamed(client, **{name: 6}) == (choice["message"]["content"], "length")
    assert said(client, **{name: 5000}).json()["choices"][0]["finish_reason"] == "stop"


def test_embeddings_have_their_own_dimensions_only(openai_client):
    """The model's own number may be named; vectors are never cut."""
    made = openai_client.embeddings.create(model="localrag", input="the ferry", encoding_format="float").data[0].embedding
    assert openai_client.embeddings.create(model="localrag", input="the ferry", dimensions=len(made)).data
    with pytest.raises(openai.BadRequestError, match=f"{len(made)} dimensions"):
        openai_client.embeddings.create(model="localrag", input="the ferry", dimensions=8)


def test_two_slashes_are_one_for_everybody(client, server):
    """An address that ends with a slash works; the key is asked for as ever, and pages of others are kept out."""
    for path in ("//v1/models", "/v1//models", "//v1///models"):
        assert client.get(f"{server.address}{path}").status_code == 200
        assert client.get(f"{server.address}{path}", headers={"authorization": ""}).status_code == 401
        assert client.get(f"{server.address}{path}", headers={"origin": "http://evil.example"}).status_code == 403
    assert client.get(f"{server.address}//api//documents", headers={"authorization": ""}).status_code == 401


def test_pictures_in_the_conversation_do_not_matter(client):
    """Two of a megabyte, in an earlier message and in the last one, whose text is the question."""
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 1_400_000}}
    earlier = [
        {"role": "user", "content": [{"type": "text", "text": "What is this?"}, picture]},
        {"role": "assistant", "content": "A ship."},
    ]
    last = {"role": "user", "content": [picture, {"type": "text", "text": ASKED[0]["content"]}]}
    assert "Lars Holm" in said(client, messages=[*earlier, last]).json()["choices"][0]["message"]["content"]


def test_a_conversation_has_a_largest_size(client, monkeypatch):
    """More is refused, not cut."""
    monkeypatch.setattr(auth, "MAX_CHAT_BODY_BYTES", 1000)
    assert said(client, messages=[{"role": "user", "content": "x" * 2000}]).status_code == 413


def test_odd_characters_of_documents_and_questions_stay(client):
    """Signs of HTML, entities and characters without width, in quotes and in questions."""
    question = "What does Mia\u200b Berg, the cook, say about &lt; and <b?"
    answer = said(client, messages=[{"role": "user", "content": question}]).json()
    quotes = [result["snippet"] for result in answer["search_results"]]
    stored = client.get("/api/answers/" + answer["citations"][0].rsplit("/", 2)[1]).json()

    assert any("Mia\u200b Berg, who says that a <b and c &lt; d" in quote for quote in quotes)
    assert stored["question"] == question


def test_half_a_character_is_refused_and_a_whole_one_stays(client):
    """A sign beyond the first 65,536 may come as two escapes; one of them alone is no text."""
    head = '{"model": "localrag:mix", "messages": [{"role": "user", "content": "Who is the mate of the Skua? '
    half, whole = (
        client.post("/v1/chat/completions", content=f'{head}{x}"}}]}}', headers={"content-type": "application/json"})
        for x in ("\\ud83d", "\\ud83d\\ude00")
    )
    stored = client.get("/api/answers/" + whole.json()["citations"][0].rsplit("/", 2)[1]).json()

    assert half.status_code == 400
    assert "not valid JSON" in half.json()["error"]["message"]
    assert stored["question"].endswith("Skua? 😀")


@pytest.mark.parametrize(
    "messages",
    [
        [{"role": "system", "content": "Be brief."}, {"role": "system", "content": "Speak English."}, *ASKED],
        [*ASKED, {"role": "assistant", "content": None, "tool_calls": []}, {"role": "tool", "content": "x", "tool_call_id": "1"}],
        [*ASKED, {"role": "system", "content": "Answer now."}],
    ],
)
def test_prompts_of_the_system_and_tools_do_not_keep_the_question_away(client, messages):
    """Two of them, another name for one, results of tools, and one at the end."""
    assert "Lars Holm" in said(client, messages=messages).json()["choices"][0]["message"]["content"]


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ([], "No message of the user"),
        ([{"role": "system", "content": "Be brief."}, {"role": "system", "content": "Be kind."}], "No message of the user"),
        ([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}]}], "Pictures"),
        ([{"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}}]}], "sound"),
        ([{"role": "user", "content": ["?"]}], "No message of the user"),
        ("?", "list of objects"),
    ],
)
def test_a_conversation_without_a_question_is_refused(client, messages, words):
    """Tools only, system prompts only, a picture only: it is said what is missing."""
    refused = said(client, messages=messages, tools=[TOOL])
    assert refused.status_code == 400
    assert words in refused.json()["error"]["message"]


VALUES = (None, True, -1, 10**30, "\ud800", [], {}, [None], {"type": []})
FIELDS = {
    "/v1/chat/completions": "model messages stream stream_options stop max_tokens n seed tools tool_choice response_format filter logprobs",
    "/api/chat": "model messages stream options format think tools",
    "/api/show": "model name",
    "/v1/embeddings": "input dimensions encoding_format model",
}


@pytest.mark.parametrize("path", mostly_ci(FIELDS, "/api/show", "/v1/embeddings"))
def test_no_value_of_a_field_is_unexpected(client, path):
    """Each is accepted or refused with a reason; nothing else happens, whichever field has it."""
    title = "Give this conversation a title of at most 3 words, nothing else.\n\nUser: Who is the mate?\nAI: Lars Holm."
    asked = {"model": "localrag:mix", "messages": [{"role": "user", "content": title}]}
    good = asked | {"input": title}
    inner = {
        "/v1/chat/completions": [
            *({"messages": [{"role": "user", "content": [{"type": "text", "text": value}]}], "n": 2} for value in VALUES),
            *(
                {"response_format": {"type": "json_schema", "schema": {"properties": {"a": value, "b": {"type": value}}}}}
                for value in VALUES
            ),
        ],
        "/api/chat": [{"options": {"stop": value, "num_predict": value, "seed": value}} for value in VALUES],
    }.get(path, [])
    for changes in [{field: value} for field in FIELDS[path].split() for value in VALUES] + inner:
        body = json.dumps(good | changes).encode()
        said = client.post(path, content=body, headers={"content-type": "application/json"})
        assert said.status_code in (200, 400, 404), (changes, said.text)
        assert "Something unexpected" not in said.text, changes
        assert "codec" not in said.text, changes


def test_a_text_may_say_that_it_streams(client):
    """`"true"` streams, and a byte order mark before the body is passed over."""
    assert said(client, stream="true").headers["content-type"].startswith("text/event-stream")
    body = json.dumps({"model": "localrag:mix", "messages": ASKED}).encode("utf-8-sig")
    assert "Lars Holm" in client.post("/v1/chat/completions", content=body, headers={"content-type": "application/json"}).text


@pytest.mark.parametrize("tokens", [[15496, 995], [[15496, 995], [3]], [[15496], "ferry"]])
def test_tokens_are_not_taken_for_texts(client, tokens):
    """They are of a vocabulary that only the program knows; the error names the setting that sends texts."""
    for path, name in (("/v1/embeddings", "input"), ("/api/embed", "input")):
        refused = client.post(path, json={"model": "localrag", name: tokens})
        assert refused.status_code == 400
        assert "check_embedding_ctx_length=False" in refused.text


@pytest.mark.parametrize("number", [-(1 << 70), 1 << 63, 1 << 70, "9" * 5000])
def test_no_number_is_too_large_for_any_address(client, number):
    """What SQLite cannot hold is refused, or as good as the largest."""
    text = str(number)
    for path in (f"/api/conversations/{text}", f"/api/answers/{text}", f"/api/answers/1/citations/{text}"):
        assert client.get(path).status_code in (400, 404)
    for path in (
        "/api/documents?offset=",
        "/api/documents?limit=",
        "/api/conversations?limit=",
        "/api/communities?level=",
        "/api/search?q=a&k=",
    ):
        assert client.get(path + text).status_code in (200, 400)
    assert client.delete(f"/api/conversations/{text}").status_code in (400, 404)
    for name in ("conversation", "level", "max_seconds"):
        asked = client.post(
            "/api/ask", content=f'{{"question": "Who is Lars Holm?", "{name}": {text}}}', headers={"content-type": "application/json"}
        )
        assert "unexpected" not in asked.text
        assert asked.status_code in (200, 400)


def test_the_tokens_of_an_answer_without_a_model_are_counted(client, folder):
    """Those of the request and of the text, in every format, whole and in parts."""
    whole = said(client).json()
    counter = Tokenizer(bundled_chat_model())
    counts = counter.count(ASKED[0]["content"]), counter.count(whole["choices"][0]["message"]["content"])
    usage = whole["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"]) == counts
    *_, last = chunks(said(client, stream=True, stream_options={"include_usage": True}))
    assert last["usage"] == usage
    *_, last = events(client.post("/api/chat", json={"model": "localrag:mix", "messages": ASKED}))
    assert (last["prompt_eval_count"], last["eval_count"]) == counts
