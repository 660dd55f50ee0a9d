"""Servers that do not enforce a schema, refuse fields, have small windows, fail for a while, or think: nothing is lost for it."""

import asyncio
import json
import threading
from contextlib import suppress
from dataclasses import replace

import pytest

from localrag.engine.remote import remote_engine
from localrag.errors import ContextTooSmall, EmptyAnswer, EngineError
from localrag.index import Index
from localrag.llm.grammar import entity_lines, pair_lines
from tests.conftest import write_town
from tests.engine.remote.asking import TEXT, YES_OR_NO, generate, remote, request
from tests.question_lines import question_lines
from tests.servers import Server, answered, refusal, reply, schema_of, size_of, stream, with_window, writes_of_the_town

NAMES = entity_lines([], ["person", "thing", "place"], span_of=TEXT)
OVERFLOW = "This model's maximum context length is {} tokens. However, you requested {} tokens."
YES = '{"answer": "yes"}'
NO_SCHEMA = refusal(400, "This response_format type is unavailable now")
NEWER_LIMIT = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."


def answers_of(answer, *requests, gets=None, **options):
    """The answers to requests, one after the other, and what the server got."""
    with Server(answer, gets) as server:
        engine = remote(server.url, **options)
        return [asyncio.run(engine.generate(r)).text for r in requests], server.bodies


def shape(body):
    return body.get("response_format", {}).get("type")


def older_schema(body):
    if shape(body) == "json_schema":
        return refusal(422, "body.response_format.type: Input should be 'text' or 'json_object'")
    return YES if body.get("response_format", {}).get("schema", {}).get("properties") else "Well, well."


def thinks_long(body):
    done = body["max_tokens"] > 5000
    return stream({"reasoning_content": "Hm. "}, *(["yes"] if done else []), ended="stop" if done else "length")


def in_turn(*said):
    turns = iter(said)
    return lambda _: next(turns)


# What a server says to a body; the grammar; the answers to as many requests; what is looked at in each request, and what it is there.
ODD = {
    "ignores a schema": (
        lambda b: "I would rather not say." if shape(b) else YES, YES_OR_NO, ["yes"] * 3, shape,
        ["json_schema", None, "json_schema", None, None],
    ),
    "refuses schemas": (
        lambda b: NO_SCHEMA if shape(b) else "no", YES_OR_NO, ["no"] * 3, shape, ["json_schema", "json_object", None, None, None],
    ),
    "knows the older form only": (older_schema, YES_OR_NO, ["yes"] * 2, shape, ["json_schema", "json_object", "json_object"]),
    "disobeys once": (in_turn("Hm.", YES, YES, YES), YES_OR_NO, ["yes"] * 3, shape, ["json_schema", None, "json_schema", "json_schema"]),
    "has rows of another form": (
        lambda b: json.dumps([{"entity" if shape(b) else "name": "Skua", "type": "thing"}]), NAMES, ['{"name": "Skua", "type": "thing"}\n'],
        shape, ["json_schema", None],
    ),
    "names what the text has not": (
        lambda _: '{"items": [{"name": "Atlantis", "type": "place"}]}', NAMES, [""], shape, ["json_schema"],
    ),
    "needs the newer limit": (
        lambda b: refusal(400, NEWER_LIMIT) if "max_tokens" in b else "yes", None, ["yes"] * 2, lambda b: b.get("max_completion_tokens"),
        [None, 50, 50],
    ),
    "refuses a field by name": (
        lambda b: refusal(400, "Unknown field: chat_template_kwargs") if "chat_template_kwargs" in b else "yes", None, ["yes"] * 2,
        lambda b: ("chat_template_kwargs" in b, b["reasoning_effort"]), [(True, "none"), (False, "none"), (False, "none")],
    ),
    "refuses a field without its name": (
        lambda b: 400 if "seed" in b else "yes", None, ["yes"] * 2, lambda b: "seed" in b, [True, False, True, False],
    ),
    "always reasons": (
        lambda b: refusal(400, f"invalid reasoning value: {b['reasoning_effort']}") if "reasoning_effort" in b else "yes", None, ["yes"],
        lambda b: b.get("reasoning_effort"), ["none", "low", None],
    ),
    "does not stream": (
        lambda b: b"" if b.get("stream") else "yes", None, ["yes"] * 2, lambda b: bool(b.get("stream")), [True, False, True, False],
    ),
    "thinks long": (thinks_long, None, ["yes"] * 2, lambda b: b["max_tokens"], [50, 8050, 8050]),
    "is interrupted": (in_turn(stream("It", ended=None), "It is."), None, ["It is."], lambda b: b["max_tokens"], [50, 50]),
    "ends its streams silently": (lambda _: stream("yes", ended="", done=False), None, ["yes"] * 2, lambda b: b["max_tokens"], [50] * 3),
}  # fmt: skip


@pytest.mark.parametrize("name", ODD)
def test_an_odd_server_is_asked_until_its_answer_can_be_read(name):
    """Only what a server refuses by name, or needs twice, is remembered for the next request."""
    answer, grammar, expected, seen, requests = ODD[name]
    texts, bodies = answers_of(answer, *[request(grammar)] * len(expected))

    assert texts == expected
    assert [seen(body) for body in bodies] == requests


def test_a_server_that_always_disobeys_ends_its_request():
    """After the schema and the words; both times the shape is behind the prompt."""
    with Server(lambda _: "Hm.") as server, pytest.raises(EngineError, match="no usable answer: not of the form"):
        generate(remote(server.url), YES_OR_NO)
    assert [b["messages"][-1]["content"].endswith('{"answer": "yes" or "no"}') for b in server.bodies] == [True, True]


@pytest.mark.parametrize(
    ("grammar", "said", "shown"),
    [
        (NAMES, '{"name": "Skua", "type": "thing"}\n{"name": "Vardby", "type": "place"}', [{"name": "Skua"}, {"name": "Vardby"}]),
        (pair_lines([("Skua", "Vardby")], most=2), '["Skua", "Vardby"]', [{"source": "Skua", "target": "Vardby"}]),
        (question_lines(2), "Who is it?\nWhat is it?", ["Who is it?", "What is it?"]),
    ],
)
def test_examples_and_the_schema_have_one_shape(grammar, said, shown):
    """Lists of the conversation, which the local engine writes as lines, are sent as the JSON that the schema and the prompt ask for."""
    example = [{"role": "user", "content": "List."}, {"role": "assistant", "content": said}]
    asked = replace(request(grammar), messages=(*example, *request(grammar).messages))
    with Server(lambda _: '{"items": []}') as server, suppress(EngineError):
        asyncio.run(remote(server.url).generate(asked))
    body = server.bodies[0]
    items = json.loads(body["messages"][1]["content"])["items"]

    assert [item if isinstance(item, str) else {k: v for k, v in item.items() if k != "type"} for item in items] == shown
    assert list(json.loads(body["messages"][1]["content"])) == list(schema_of(body))
    assert 'Answer with JSON of this shape and nothing else: {"items": [' in body["messages"][-1]["content"]


def failures_of(folder, server, question=""):
    """How much failed while a server's model made an index of a folder with its reports, and the answer to a question."""
    with Index.open(folder / ".localrag", model=f"{server.url}#m", missing_ok=True) as index:
        with index.write_session(extractor="model"):
            index.add(folder / "docs")
            index.write_reports()
        counts = index.counts()
        assert counts["relationships"] > 0
        assert counts["reports"] > 0
        text = index.ask(question).answer if question else ""
        return index.status()["failures"], text


@pytest.mark.usefixtures("hashed")
@pytest.mark.parametrize("refuses", [False, True])
@pytest.mark.ci
def test_an_index_of_a_model_that_obeys_no_schema_is_complete(tmp_path, refuses):
    """JSON lines, plain text, a report in a code block: every chunk and report has its data, whether the schema is ignored or refused."""
    write_town(tmp_path / "docs")
    with Server(lambda body: NO_SCHEMA if refuses and "response_format" in body else writes_of_the_town(body)) as server:
        assert failures_of(tmp_path, server) == (0, "")


# Windows


@pytest.mark.parametrize(
    "refuse",
    [
        lambda size: refusal(400, OVERFLOW.format(2048, size), "BadRequestError"),
        lambda _: refusal(413, "Request Entity Too Large"),
        lambda size: refusal(500, f"rpc error: request ({size} tokens) exceeds the available context size (2048 tokens)"),
        lambda size: b'event: error\ndata: {"error": {"message": "Cannot truncate prompt with n_keep (%d) >= n_ctx (2048)"}}\n\n' % size,
        lambda size: b'data: {"object": "error", "message": "maximum context length is 2048 tokens", "code": 400}\n\ndata: [DONE]\n\n',
    ],
    ids=["400", "413", "500", "error event", "error in data"],
)
def test_a_request_that_is_too_long_is_known_and_the_window_remembered(refuse):
    """However it is said; the next request of that size is not sent, and a shorter one is answered."""
    long = request(text=TEXT * 400)
    with Server(with_window(2048, lambda _: "yes", refuse)) as server:
        engine = remote(server.url)
        for _ in range(2):
            with pytest.raises(ContextTooSmall) as error:
                asyncio.run(engine.generate(long))
        sent = len(server.bodies)
        assert generate(engine).text == "yes"

    assert sent <= 3
    assert "does not fit" in str(error.value)
    assert engine.window < 4400


def test_a_window_that_was_found_out_is_forgotten_when_its_server_comes_back():
    """It may have been started again with a larger one."""
    servers = [Server(with_window(512, lambda _: "yes", lambda size: refusal(400, OVERFLOW.format(512, size))))]
    port, long = servers[0].port, request(text=TEXT * 100)

    def on_notice(text):
        if "does not answer" in text:
            servers.append(Server(lambda _: "yes", port=port))

    engine = remote(servers[0].url, notify=on_notice)
    with pytest.raises(ContextTooSmall):
        asyncio.run(engine.generate(long))
    servers[0].close()
    try:
        assert generate(engine).text == "yes"
        assert asyncio.run(engine.generate(long)).text == "yes"
    finally:
        servers[-1].close()


def test_a_window_is_found_out_by_an_answer_that_fills_it():
    """Cut off before its limit, an answer has met the end of the window: that is its size."""
    cut = stream("It is", ended="length", usage={"prompt_tokens": 1900, "completion_tokens": 148})
    with Server(lambda _: cut) as server, pytest.raises(ContextTooSmall):
        engine = remote(server.url)
        generate(engine, max_tokens=500)

    assert engine.window == 2048


def test_refusals_of_requests_that_were_under_way_shrink_a_window_once():
    """Four requests that are refused at the same time say the same: the window is the one that the error names, no smaller one."""
    together = threading.Barrier(4)

    def refuse(size):
        together.wait(20)
        return refusal(400, OVERFLOW.format(2048, size))

    async def several(engine):
        requests = (request(text=f"{i} {TEXT * 400}") for i in range(4))
        return await asyncio.gather(*(engine.generate(r) for r in requests), return_exceptions=True)

    with Server(with_window(2048, lambda _: "yes", refuse)) as server:
        engine = remote(server.url, parallel_requests=4)
        assert all(isinstance(result, ContextTooSmall) for result in asyncio.run(several(engine)))

    assert engine.window == 2048


@pytest.mark.usefixtures("hashed")
@pytest.mark.parametrize("is_told", [True, False])
@pytest.mark.parametrize("window", [2048, 4096])
@pytest.mark.ci
def test_an_index_behind_a_small_window_is_complete(tmp_path, window, is_told):
    """Chunks, reports and an answer fit into a window of 2,048 or 4,096 tokens, whether the server tells it or it is found out."""
    (tmp_path / "docs").mkdir()
    lines = (f"In {1900 + i} Ingrid Holm sold {i * 7} nets of the Skua to the town of Vardby {i}, wrote Lars Holm." for i in range(90))
    (tmp_path / "docs" / "a.txt").write_text(" ".join(lines))
    gets = {"/v1/models": {"data": [{"id": "m", "max_model_len": window}]}} if is_told else None
    answer = with_window(window, writes_of_the_town, lambda size: refusal(400, OVERFLOW.format(window, size)))
    with Server(answer, gets) as server:
        failed, text = failures_of(tmp_path, server, "Who sold the nets?")

    assert failed == 0
    assert "bought the ferry" in text
    assert max(map(size_of, server.bodies)) > window / 3


# Faults that pass


@pytest.mark.parametrize(
    ("status", "message"), [(404, "No models loaded. Please load a model."), (500, "model is swapping, try again"), (503, "")]
)
def test_a_passing_fault_is_waited_for_and_changes_nothing(status, message, monkeypatch):
    """The request is sent again as it was; thinking stays switched off, and the schema is sent."""
    monkeypatch.setattr(remote_engine, "backoff_delay", lambda _: 0.0)
    turns = iter([refusal(status, message), '{"answer": "no"}'] * 2)
    notices = []
    texts, bodies = answers_of(lambda _: next(turns), *[request(YES_OR_NO)] * 2, notify=notices.append)

    assert texts == ["no", "no"]
    assert all(body == bodies[0] for body in bodies)
    assert len(notices) == (0 if status == 503 else 2)


def test_a_model_that_stays_unloaded_ends_the_request(monkeypatch):
    """A person is told after the time for which a server is waited for."""
    monkeypatch.setattr(remote_engine, "backoff_delay", lambda _: 0.0)
    monkeypatch.setattr(remote_engine, "down_timeout", lambda _: 0.1)
    with Server(lambda _: refusal(400, "Model unloaded.")) as server, pytest.raises(EngineError, match="without its model"):
        generate(remote(server.url))


def test_an_outage_that_many_requests_meet_at_once_changes_nothing():
    """Refusals without a reason, of requests under way at the same time, are one observation; the fields are sent again afterwards."""
    outage = threading.Barrier(4)

    def answer(body):
        if "stream_options" not in body or len(server.bodies) > 8:
            return "yes"
        outage.wait(20)
        return 400

    async def several(engine):
        return await asyncio.gather(*(engine.generate(request(text=f"{TEXT} {i}")) for i in range(4)))

    with Server(answer) as server:
        engine = remote(server.url, parallel_requests=4)
        asyncio.run(several(engine))
        generate(engine)

    assert "stream_options" in server.bodies[-1]


@pytest.mark.parametrize(
    "said",
    [
        stream({"role": "assistant", "content": None}, {"reasoning_content": '{"answer": '}, {"reasoning_content": '"yes"}'}),
        b": ping\r\n\r\n" + stream('{"answer": ', '"yes"}').replace(b"data: ", b"data:").replace(b"\n", b"\r\n"),
    ],
    ids=["in the field of thinking", "CRLF and comments"],
)
def test_the_answer_is_found_wherever_it_stands(said):
    """In one request, whatever the server wraps it in."""
    texts, bodies = answers_of(lambda _: said, request(YES_OR_NO))

    assert (texts, len(bodies)) == (["yes"], 1)


def test_an_empty_answer_fails_with_its_reason():
    """What a server withholds is no answer, and the reason is said."""
    empty = stream({"role": "assistant", "content": ""}, ended="content_filter")
    with Server(lambda _: empty) as server, pytest.raises(EmptyAnswer, match="content filter withheld"):
        generate(remote(server.url))
    assert len(server.bodies) == 1


def test_endless_thinking_fails_with_its_reason():
    """It is not asked for ever: after the most tokens that thinking gets, the request fails and says why."""
    with (
        Server(lambda _: stream({"reasoning_content": "Hm. " * 50}, ended="length")) as server,
        pytest.raises(EngineError, match="thought for 8050 tokens without an answer"),
    ):
        generate(remote(server.url))
    assert len(server.bodies) == 2


def test_thinking_that_begins_without_a_mark_is_told_from_the_answer():
    """Whoever watches is told to switch it off; an answer that nobody watches has none of it."""
    with Server(lambda _: stream("Is it?", "</think>", "It is.")) as server:
        with pytest.raises(EngineError, match="without a mark where it begins"):
            generate(remote(server.url), on_text=lambda _: None)
        assert generate(remote(server.url)).text == "It is."


def test_an_answer_that_is_cut_off_is_shown():
    """As far as it came."""
    shown: list[str] = []
    texts, _ = answers_of(lambda _: stream("We have ", "20 days", ended="length"), request(on_text=shown.append))
    assert (texts, shown) == (["We have 20 days"], ["We have ", "20 days"])


# Servers that cannot be relied on


def test_a_megabyte_in_one_line_is_an_answer_like_any_other():
    """A line without an end, in a stream and in one piece, fails its request; nothing is read over and over again."""
    long = "x" * (1 << 20)

    def in_pieces(handler):
        handler.send_response(200)
        handler.end_headers()
        data = stream(long)
        for i in range(0, len(data), 1000):
            handler.wfile.write(data[i : i + 1000])

    for said in (in_pieces, json.dumps(answered(long)).encode(), lambda h: reply(h, 400, long.encode())):
        with Server(lambda _, said=said: said) as server, pytest.raises(EngineError):
            generate(remote(server.url), YES_OR_NO)


def test_an_answer_far_longer_than_asked_for_is_refused():
    """Its sentences would be checked for minutes: no token has so many characters."""
    assert answers_of(lambda _: "word " * 6_000, request(max_tokens=50))[0] == ["word " * 6_000]
    with pytest.raises(EngineError, match=r"14\d+ characters, where 50 tokens were asked for"):
        answers_of(lambda _: "yes" + "<think></think>" * 100_000, request(max_tokens=50))
