"""A model behind an OpenAI-compatible server: spoken to over loopback, held to the grammar all the same."""

import asyncio
import json
import threading
import time
from dataclasses import replace
from secrets import token_hex

import pytest

from localrag.engine.remote import client
from localrag.engine.remote.remote_engine import RemoteEngine
from localrag.engine.settings import EngineOptions
from localrag.errors import EngineError, ModelError, UsageError
from localrag.llm.grammar import entity_lines
from localrag.llm.model import CALL_ERRORS
from localrag.model_files import find_chat_model
from tests.conftest import run_localrag, write_town
from tests.engine.remote.asking import TEXT, YES_OR_NO, ask, generate, remote, request
from tests.question_lines import question_lines
from tests.servers import Server, answered, event, refusal, writes_of_the_town


def test_the_schema_goes_to_the_server():
    """The request has the messages, the limit, the sampling and the JSON schema of its grammar."""
    answer, (body,) = ask(lambda _: '{"answer": "yes"}', YES_OR_NO)

    assert answer.text == "yes"
    assert body["response_format"]["json_schema"]["schema"]["properties"] == {"answer": {"enum": ["yes", "no"]}}
    assert body["messages"][0]["content"] == f'{TEXT}\n\nAnswer with JSON of this shape and nothing else: {{"answer": "yes" or "no"}}'
    assert (body["temperature"], body["top_p"]) == (0.0, 1.0)
    assert body["max_tokens"] > 50
    assert answer.output_tokens == 4


def test_what_the_grammar_forbids_is_left_out():
    """Names that the text does not have, and repeats, are dropped; what is left has the form the local engine would have written."""
    names = ["Ingrid Holm", "Santa Claus", "Skua", "Skua"]
    items = [{"name": n, "type": "person"} for n in names]
    answer, _ = ask(lambda _: json.dumps({"items": items}), entity_lines([], ["person", "place"], span_of=TEXT))

    assert answer.text == '{"name": "Ingrid Holm", "type": "person"}\n{"name": "Skua", "type": "person"}\n'


def test_a_yes_or_no_gets_the_tokens_that_its_json_needs():
    """Four tokens are enough for the local grammar; JSON with line breaks and a fence around it takes more, and they are asked for."""
    said = '```json\n{\n    "answer"\n\n:\n\n"yes"\n\n}\n```'

    def cut(body):
        return json.dumps(answered(said if body["max_tokens"] >= 40 else said[: body["max_tokens"]], "stop")).encode()

    assert ask(cut, YES_OR_NO, max_tokens=4)[0].text == "yes"
    assert ask(lambda _: "no limit", None, max_tokens=4)[1][0]["max_tokens"] == 4


@pytest.mark.parametrize(
    "said",
    [
        "{",
        '{"answer": "perhaps"}',
        '{"answer": null}',
        "",
        None,
        3,
        302,
        404,
        500,
        b"",
        b"[]",
        b"<html>secret</html>",
        b'{"choices": [{"message": {"content": "secret',
        b'{"choices": [{"message": 3}]}',
        b'{"choices": [{"message": {"content": {"answer": "yes"}}}]}',
        b'{"choices": [{"message": {"content": "{}"}, "finish_reason": []}]}',
        b'{"error": "secret"}',
        b"[" * 100_000,
        b'{"a": \xff}',
        b"data: {secret\n\n",
        json.dumps(answered('{"answer": "\ud800"}')).encode(),
    ],
)
def test_a_server_that_breaks_its_word_is_a_failed_call(said):
    """Whatever is not an answer fails that request, in words that do not repeat what the server said."""
    said = str(said) if said == 3 else said
    with pytest.raises(CALL_ERRORS, match=r"127\.0\.0\.1") as error:
        ask(lambda _: said, YES_OR_NO)
    assert "secret" not in str(error.value)


def test_odd_counts_are_no_reason_to_lose_an_answer():
    """Tokens counted in words, negative or as truths count as none."""
    data = answered("yes") | {"usage": {"prompt_tokens": "nine", "completion_tokens": -4, "prompt_tokens_details": [True]}}
    answer, _ = ask(lambda _: json.dumps(data).encode())

    assert (answer.text, answer.prompt_tokens, answer.output_tokens) == ("yes", 0, 0)


def test_an_endless_answer_is_given_up(monkeypatch):
    """A body beyond what an answer can have is not read to its end."""
    monkeypatch.setattr(client, "MAX_RESPONSE_BYTES", 100_000)
    sent = 0

    def endless(handler):
        nonlocal sent
        handler.send_response(200)
        handler.end_headers()
        while True:  # until the client hangs up
            sent += handler.wfile.write(b" " * 50_000)

    with pytest.raises(EngineError, match="more than"):
        ask(lambda _: endless)
    assert sent < 50_000_000


def test_an_answer_that_always_breaks_off_fails_its_request():
    """A connection lost within the body is tried again, but not for ever where the server itself is well."""

    def half(handler):
        handler.send_response(200)
        handler.send_header("Content-Length", "1000")
        handler.end_headers()
        handler.wfile.write(b'{"choices"')

    with pytest.raises(EngineError, match="lost the connection 5 times"):
        ask(lambda _: half)


def test_spare_tokens_are_given_up_where_they_do_not_fit():
    """A server that counts the answer's limit as part of the prompt is asked again with what the answer needs at least."""

    def strict(body):
        return '{"answer": "no"}' if body["max_tokens"] <= 4 else refusal(400, "maximum context length is 20 tokens")

    assert ask(strict, YES_OR_NO, max_tokens=4)[0].text == "no"


def test_text_comes_as_it_is_written():
    """Of a list, every item is shown when it is complete, before the next is written; what was shown is what is kept."""
    shown, first = [], threading.Event()

    def on_text(text):
        shown.append(text)
        first.set()

    def slowly(handler):
        handler.send_response(200)
        handler.end_headers()
        handler.wfile.write(event('{"items": ["Is it a fer') + event('ry of old?", "It le'))
        assert first.wait(20)
        handler.wfile.write(event('aks now.", "Is it the Skua?"]}') + b"data: [DONE]\n\n")

    answer, _ = ask(lambda _: slowly, question_lines(2), on_text=on_text)

    assert shown == ["Is it a ferry of old?\n", "Is it the Skua?\n"]
    assert answer.text == "".join(shown)


def test_a_server_is_as_fast_as_its_first_word_comes():
    """The tokens of a prompt that were not cached, over the time until text comes; only of answers that a person waits for."""

    def later(handler):
        handler.send_response(200)
        handler.end_headers()
        time.sleep(0.2)
        usage = {"prompt_tokens": 1100, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 100}}
        handler.wfile.write(event("It is one.") + b"data: " + json.dumps({"choices": [], "usage": usage}).encode() + b"\n\n")
        handler.wfile.write(b"data: [DONE]\n\n")

    with Server(lambda _: later) as made:
        engine = remote(made.url)
        for priority in (0, 1):
            generate(engine, priority=priority)

    assert engine.figures.prefill_tokens == 1000
    assert 0.2 <= engine.figures.prefill_seconds < 20


def test_what_was_shown_of_an_answer_that_is_cut_off_is_what_is_kept():
    """Cut off at its token limit, a list that somebody watched ends with its last complete item, not in the server's JSON."""
    shown = []
    end = b"data: " + json.dumps({"choices": [{"delta": {}, "finish_reason": "length"}]}).encode() + b"\n\n"
    data = event('{"items": ["Is it a ferry of old?", "Is') + end
    answer, _ = ask(lambda _: data, question_lines(2), on_text=shown.append)

    assert (shown, answer.text, answer.is_complete) == (["Is it a ferry of old?\n"], "Is it a ferry of old?\n", False)


def test_a_cancelled_request_hangs_up_at_once():
    """Whoever stops waiting closes the connection, which tells the server to stop; no thread waits for the answer."""
    gone = threading.Event()

    def hang(handler):
        if handler.connection.recv(1) == b"":
            gone.set()

    async def run(url):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await remote(url).generate(request())

    with Server(lambda _: hang) as made:
        asyncio.run(run(made.url))
        assert gone.wait(10)


def test_one_engine_serves_several_event_loops():
    """A conversation is a loop a question; each waits for slots and connections of its own."""

    async def several(engine):
        return await asyncio.gather(*(engine.generate(request()) for _ in range(20)))

    with Server(lambda _: "yes") as made:
        engine = remote(made.url, parallel_requests=2)
        for _ in range(3):
            assert [a.text for a in asyncio.run(several(engine))] == ["yes"] * 20
    assert made.most <= 2


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.ci
def test_a_busy_server_is_asked_again_when_it_says(status):
    """Too many requests are no failure: they wait, as long as the server asks for, and are answered."""
    turn, times = iter([refusal(status, "busy", Retry_After="1"), "yes"]), []

    def answer(_):
        times.append(asyncio.new_event_loop().time())
        return next(turn)

    assert ask(answer)[0].text == "yes"
    assert times[1] - times[0] >= 1


@pytest.mark.parametrize("status", [500, 502, 504])
def test_a_passing_failure_is_tried_again(status):
    """One error of the server or of a gateway before it costs the request nothing."""
    turn = iter([status, "yes"])
    assert ask(lambda _: next(turn))[0].text == "yes"


def test_the_key_goes_to_the_server_and_nowhere_else(tmp_path, monkeypatch):
    """Without a key no header is sent; it comes from the environment or a file; an address that holds one is refused."""
    sent = []

    def headers():
        with Server(lambda _: 403) as made, pytest.raises(EngineError) as error:
            generate(remote(made.url))
        sent.append(made.headers[0].get("Authorization"))
        assert "sesame" not in f"{error.value} {error.value.hint}"

    headers()
    (tmp_path / "key").write_text("sesame-2\n")
    monkeypatch.setenv("LOCALRAG_API_KEY_FILE", str(tmp_path / "key"))
    headers()
    monkeypatch.setenv("LOCALRAG_API_KEY", "sesame-1")
    headers()

    assert sent == [None, "Bearer sesame-2", "Bearer sesame-1"]
    with pytest.raises(ModelError, match="must not contain"):
        find_chat_model("http://me:sesame@127.0.0.1:8080/v1#m")
    monkeypatch.setenv("LOCALRAG_API_KEY", "sesame\n1")
    with pytest.raises(UsageError, match="is not a server with its key") as error:
        remote("http://127.0.0.1:1/v1")
    assert "sesame" not in str(error.value)


def test_https_trusts_the_ca_it_is_given(tmp_path, monkeypatch):
    """A certificate of one's own CA is refused in words, and taken once the CA is named."""
    trustme = pytest.importorskip("trustme")
    ca = trustme.CA()
    certificate = ca.issue_cert("127.0.0.1")
    ca.cert_pem.write_to_path(tmp_path / "ca.pem")
    certificate.private_key_and_cert_chain_pem.write_to_path(tmp_path / "server.pem")
    with Server(lambda _: "yes", certificate=(tmp_path / "server.pem", None)) as made:
        with pytest.raises(EngineError, match="not trusted") as error:
            generate(remote(made.url))
        assert "LOCALRAG_CA_FILE" in error.value.hint
        assert made.bodies == []
        monkeypatch.setenv("LOCALRAG_CA_FILE", str(tmp_path / "ca.pem"))
        assert generate(remote(made.url)).text == "yes"


def test_no_proxy_sees_anything(monkeypatch):
    """The environment's proxies are not asked, for a loopback server or any other."""
    with Server(lambda _: "through the proxy") as proxy:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url.removesuffix("/v1"))
        assert ask(lambda _: "straight")[0].text == "straight"
    assert proxy.bodies == proxy.asked == []


def test_a_key_goes_to_the_server_it_was_set_for(monkeypatch, home):
    """A key is bound to the first server that the user names and that answers; another gets it only with its address. It is not stored."""
    key = token_hex(16)

    def sent(made, *, by_index=False):
        file = replace(find_chat_model(f"{made.url}#m"), by_index=by_index)
        generate(RemoteEngine(file, EngineOptions()))
        return made.headers[-1].get("Authorization")

    monkeypatch.setenv("LOCALRAG_API_KEY", key)
    with Server(lambda _: "yes") as first, Server(lambda _: "yes") as other, Server(lambda _: 401) as strict:
        got = [sent(first, by_index=True), sent(first), sent(first, by_index=True), sent(other), sent(first)]
        with pytest.raises(EngineError) as refused:
            sent(strict)
        monkeypatch.setenv("LOCALRAG_API_KEY", f"{other.url} {key}")
        got += [sent(other), sent(first)]
        monkeypatch.setenv("LOCALRAG_API_KEY", key)
        got += [sent(other)]

    assert got == [None, f"Bearer {key}", f"Bearer {key}", None, f"Bearer {key}", f"Bearer {key}", None, f"Bearer {key}"]
    assert strict.headers[-1].get("Authorization") is None
    assert f"LOCALRAG_API_KEY='http://127.0.0.1:{strict.port} KEY'" in refused.value.hint
    assert not [f for f in home.rglob("*.json") if key in f.read_text(encoding="utf-8", errors="replace")]


@pytest.mark.parametrize("url", ["http://192.168.1.7:8080/v1", "https://api.openai.com/v1", "http://127.0.0.1.example.org/v1"])
def test_another_machine_is_refused_unless_allowed(url):
    """Documents go to no other host unless it was named."""
    with pytest.raises(UsageError, match="not on this machine"):
        remote(url)
    remote(url, allowed_hosts=(url.split("/")[2].split(":")[0],))


@pytest.mark.ci
def test_a_folder_is_indexed_and_asked_through_a_server(tmp_path):
    """The command line takes a server's address for --model; the index remembers it."""

    made, key = Server(writes_of_the_town), token_hex(16)
    write_town(tmp_path / "docs")
    indexed = run_localrag("index", "docs", "--model", f"{made.url}#played", cwd=tmp_path, LOCALRAG_API_KEY=key)
    asked = run_localrag("ask", "Who is the mate?", "--json", cwd=tmp_path, LOCALRAG_API_KEY=key)
    made.close()

    assert indexed.returncode == 0, indexed.stderr
    assert asked.returncode == 0, asked.stderr
    assert {b["model"] for b in made.bodies} == {"played"}
    assert {h["Authorization"] for h in made.headers} == {f"Bearer {key}"}
    assert not [f for f in (tmp_path / ".localrag").rglob("*") if f.is_file() and key.encode() in f.read_bytes()]
    assert json.loads(asked.stdout)["citations"]
