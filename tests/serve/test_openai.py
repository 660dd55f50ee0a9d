"""`localrag serve` as a real process, spoken to by OpenAI's own client."""

import base64
import re

import httpx
import numpy as np
import openai
import pytest

from tests.conftest import TOWN, run_localrag
from tests.serve.server import served
from tests.servers import Server, llama


@pytest.fixture(scope="module")
def folder(indexed):
    return indexed(TOWN, "--extractor", "phrases")


QUESTION = [{"role": "user", "content": "Who is the mate of the Skua?"}]


def test_a_whole_answer_has_its_citations_in_every_form(openai_client, server):
    """Numbers in the text, annotations that lead to the page's view of the quote, a list of sources."""
    answer = openai_client.chat.completions.create(model="localrag:mix", messages=QUESTION)
    message = answer.choices[0].message

    assert "[1]" in message.content
    assert "Sources" in message.content
    assert message.annotations
    for found in message.annotations:
        cited = found.url_citation
        mark = message.content[cited.start_index : cited.end_index]
        number, n = re.fullmatch(rf"{server.address}/#/source/(\d+)/(\d+)", cited.url).groups()
        assert mark == f"[{n}]"
        with server.client() as door:
            shown = door.get(f"/api/answers/{number}/citations/{n}").json()
        assert shown["state"] == "exact"
        assert " ".join(shown["passage"]["quote"].split())[:100] in cited.title
    assert len(answer.model_extra["search_results"]) == len(message.annotations)
    sentences = answer.model_extra["sentences"]
    assert sentences and all(s["text"] in message.content and s["state"] == "supported" for s in sentences)
    assert {n for s in sentences for n in s["citations"]} == set(range(1, len(message.annotations) + 1))
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


def test_a_question_that_leans_on_the_conversation_is_understood_from_its_messages(openai_client):
    """Of whom "he" is said, the messages before tell; the index keeps nothing of it."""
    before = [{"role": "user", "content": "Who is Lars Holm?"}, {"role": "assistant", "content": "Lars Holm is the mate of the Skua."}]
    asked = [{"role": "user", "content": "What did he write to the mayor?"}]
    alone = openai_client.chat.completions.create(model="localrag:mix", messages=asked)
    after = openai_client.chat.completions.create(model="localrag:mix", messages=[*before, *asked])

    assert "Lars Holm" in after.model_extra["asked"]
    assert "Lars Holm" not in alone.model_extra["asked"]


def test_embeddings_as_numbers_and_in_base64_are_the_same(openai_client, server):
    """By the index's embedder, of length 1; the SDK asks for base64 by itself."""
    texts = ["the ferry", "der Hafen"]
    plain = openai_client.embeddings.create(model="localrag", input=texts, encoding_format="float")
    raw = httpx.post(
        f"{server.address}/v1/embeddings",
        headers={"authorization": f"Bearer {server.key}"},
        json={"input": texts, "encoding_format": "base64"},
        trust_env=False,
    ).json()
    vectors = [np.frombuffer(base64.b64decode(d["embedding"]), "<f4") for d in raw["data"]]

    assert np.allclose([d.embedding for d in plain.data], vectors, atol=1e-6)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert plain.usage.prompt_tokens > 0


@pytest.mark.ci
def test_a_model_that_fails_is_said_and_the_server_stays(folder):
    """A model behind a server that answers with errors: a program is told which, each time, and gets what needs no model."""
    large = llama(n_params=4_000_000_000)  # a small one would be asked to choose sentences, not to write
    question = {"model": "localrag:mix", "messages": [{"role": "user", "content": "Tell me about the ferry Skua."}]}
    with Server(lambda body: 500, gets=large) as model, served(folder, "--model", f"{model.url}#smol.gguf") as running:
        client = openai.OpenAI(base_url=f"{running.address}/v1", api_key=running.key, max_retries=0, timeout=120)
        for _ in range(2):
            with pytest.raises(openai.InternalServerError, match=re.escape(f"{model.url} refused the request")):
                client.chat.completions.create(**question)

        assert client.embeddings.create(model="localrag", input=["the ferry"]).data


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--host", "0.0.0.0"], "--api-key-file"),
        (["--api-key-file", "short"], "16 characters"),
        (["--api-key-file", "open"], "chmod 600"),
        (["--api-key-file", "none"], "cannot be read"),
    ],
)
def test_a_door_that_would_stand_open_is_not_opened(folder, args, said):
    """Beyond this machine only with a key of the user's own, which nobody else can read."""
    (folder / "short").write_text("secret")
    (folder / "open").write_text("k" * 32)
    for name, mode in (("short", 0o600), ("open", 0o644)):
        (folder / name).chmod(mode)
    done = run_localrag("serve", "--port", "0", *args, cwd=folder)

    assert done.returncode == 2
    assert said in done.stderr
