"""Servers that do not enforce a schema, refuse fields, have small windows, fail for a while, or think: nothing is lost for it."""

import asyncio
import json
import threading
from contextlib import suppress
from dataclasses import replace

import pytest

from localrag.engine.remote import remote_engine
from localrag.engine.remote.remote_engine import RemoteEngine
from localrag.engine.remote.replies import GrammarFilter
from localrag.engine.remote.servers import with_server_info
from localrag.engine.request import Request
from localrag.engine.settings import EngineOptions
from localrag.errors import ContextTooSmall, EmptyAnswer, EngineError, ModelError
from localrag.index import Index
from localrag.llm.grammar import choice_of, entity_lines, pair_lines, question_lines
from localrag.model_files import find_chat_model
from localrag.system.files import cache_dir
from tests.conftest import write_town
from tests.servers import Server, answered, refusal, reply, schema_of, size_of, stream, with_window, writes_of_the_town

TEXT = "Ingrid Holm bought the ferry Skua in Vardby."
YES_OR_NO = choice_of(["yes", "no"])
NAMES = entity_lines([], ["person", "thing", "place"], span_of=TEXT)
OVERFLOW = "This model's maximum context length is {} tokens. However, you requested {} tokens."


@pytest.fixture(autouse=True)
def _forget():
    (cache_dir() / "servers.json").unlink(missing_ok=True)


def engine_of(server, notices=None, **options):
    """An engine of one server; what it tells its user goes to `notices`."""
    return RemoteEngine(
        find_chat_model(f"{server.url}#m"), EngineOptions(notify=(notices if notices is not None else []).append, **options)
    )


def request(grammar=None, text=TEXT, max_tokens=50, **options):
    return Request((), max_tokens, grammar, messages=({"role": "user", "content": text},), **options)


def answers_of(answer, *requests, gets=None, **options):
    """The answers to requests, one after the other, and what the server got."""
    with Server(answer, gets) as server:
        engine = engine_of(server, **options)
        return [asyncio.run(engine.generate(r)).text for r in requests], server.bodies


def thinks(body):
    return not (body.get("reasoning_effort") == "none" or "chat_template_kwargs" in body)


# Schemas that are not enforced, or refused


def test_what_a_server_cannot_be_held_to_is_asked_for_in_words():
    """An answer of another form is asked for once more, without the schema; its shape is behind the prompt both times."""

    def answer(body):
        return "I would rather not say." if "response_format" in body else '{"answer": "yes"}'

    texts, bodies = answers_of(answer, request(YES_OR_NO))

    assert texts == ["yes"]
    assert [("response_format" in b) for b in bodies] == [True, False]
    assert all(b["messages"][-1]["content"].endswith('{"answer": "yes" or "no"}') for b in bodies)


def test_a_server_that_refuses_schemas_is_told_the_shape_from_the_first_request_on():
    """Without response_format the answer is asked for in words at once, and the next request is sent without it."""

    def answer(body):
        if "response_format" in body:
            return refusal(400, "This response_format type is unavailable now")
        return '{"answer": "yes"}' if body["messages"][-1]["content"].endswith('{"answer": "yes" or "no"}') else "Well, well."

    texts, bodies = answers_of(answer, request(YES_OR_NO), request(YES_OR_NO))

    assert texts == ["yes", "yes"]
    assert [body.get("response_format", {}).get("type") for body in bodies] == ["json_schema", "json_object", None, None]


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
        asyncio.run(engine_of(server).generate(asked))
    body = server.bodies[0]
    items = json.loads(body["messages"][1]["content"])["items"]

    assert [item if isinstance(item, str) else {k: v for k, v in item.items() if k != "type"} for item in items] == shown
    assert list(json.loads(body["messages"][1]["content"])) == list(schema_of(body))
    assert 'Answer with JSON of this shape and nothing else: {"items": [' in body["messages"][-1]["content"]


def test_rows_that_are_all_of_another_form_are_asked_for_again():
    """A list of which nothing can be read is no empty one; one of names that the text does not have is not asked for again."""

    def answer(body):
        key = "entity" if "response_format" in body else "name"
        return json.dumps([{key: "Skua", "type": "thing"}])

    texts, bodies = answers_of(answer, request(NAMES))

    assert (texts, len(bodies)) == (['{"name": "Skua", "type": "thing"}\n'], 2)
    texts, bodies = answers_of(lambda _: '{"items": [{"name": "Atlantis", "type": "place"}]}', request(NAMES))
    assert (texts, len(bodies)) == ([""], 1)


def test_thinking_is_switched_on_where_switching_it_off_disables_the_schema():
    """As with newer models of Ollama: found out by the third attempt, and remembered after two requests that needed it."""

    def answer(body):
        return stream({"reasoning": "Hm."}, '{"answer": "yes"}') if schema_of(body) and thinks(body) else "Well, well."

    texts, bodies = answers_of(answer, *[request(YES_OR_NO)] * 4)

    assert texts == ["yes"] * 4
    assert [thinks(b) for b in bodies] == [False, False, True, False, False, True, True, True]
    assert bodies[-1]["max_tokens"] > 2000


def test_prose_is_written_without_thinking_where_a_schema_needs_it():
    """What was found out about schemas is no reason to think before an answer in prose."""

    def answer(body):
        return stream({"reasoning": "Hm."}, '{"answer": "yes"}') if schema_of(body) and thinks(body) else "Well, well."

    texts, bodies = answers_of(answer, *[request(YES_OR_NO)] * 3, request())

    assert texts == ["yes"] * 3 + ["Well, well."]
    assert [thinks(b) for b in bodies[-2:]] == [True, False]


def test_one_odd_answer_changes_nothing():
    """A server that disobeys once is asked as before; one that disobeys every time ends its request after three attempts."""
    said = iter(["Hm.", '{"answer": "yes"}', '{"answer": "no"}', '{"answer": "no"}'])
    texts, bodies = answers_of(lambda _: next(said), *[request(YES_OR_NO)] * 3)

    assert texts == ["yes", "no", "no"]
    assert ["response_format" in b for b in bodies] == [True, False, True, True]
    with Server(lambda _: "Hm.") as server, pytest.raises(EngineError, match="no usable answer: not of the form"):
        asyncio.run(engine_of(server).generate(request(YES_OR_NO)))
    assert len(server.bodies) == 3


def test_a_refused_schema_is_not_sent_again():
    """A server that does not support response_format is asked without it, from its first refusal on."""

    def answer(body):
        return refusal(400, "This response_format type is unavailable now") if "response_format" in body else "no"

    texts, bodies = answers_of(answer, *[request(YES_OR_NO)] * 3)

    assert texts == ["no"] * 3
    assert [b.get("response_format", {}).get("type") for b in bodies] == ["json_schema", "json_object", None, None, None]
    assert all(not thinks(b) for b in bodies)


def test_a_schema_is_sent_in_the_older_form_where_only_that_is_known():
    """As by the server of llama-cpp-python, which takes a schema with json_object."""

    def answer(body):
        shape = body.get("response_format", {})
        if shape.get("type") == "json_schema":
            return refusal(422, "body.response_format.type: Input should be 'text' or 'json_object'")
        return '{"answer": "yes"}' if shape.get("schema", {}).get("properties") else "Well, well."

    texts, bodies = answers_of(answer, *[request(YES_OR_NO)] * 2)

    assert texts == ["yes"] * 2
    assert [b["response_format"]["type"] for b in bodies] == ["json_schema", "json_object", "json_object"]


def test_a_stream_in_which_nothing_came_is_asked_for_without_streaming():
    """A server that fails once the stream began says why without one; one that never streams is asked without from then on."""

    def of_window(body):
        if size_of(body) > 2000:
            return b"" if body.get("stream") else refusal(400, OVERFLOW.format(2000, size_of(body)))
        return "yes"

    with Server(of_window) as server:
        engine = engine_of(server)
        with pytest.raises(ContextTooSmall):
            asyncio.run(engine.generate(request(text="Skua " * 2000)))
        assert engine.window == 2000
    texts, bodies = answers_of(lambda b: b"" if b.get("stream") else "yes", *[request()] * 3)
    assert texts == ["yes"] * 3
    assert [bool(b.get("stream")) for b in bodies] == [True, False, True, False, False]


def test_an_answer_that_another_request_interrupted_is_asked_for_again():
    """The end of the stream is marked, but no reason is given for the end of the answer."""
    said = iter([stream("Ingrid Holm", ended=None), "Ingrid Holm bought it."])
    texts, _ = answers_of(lambda _: next(said), request())
    assert texts == ["Ingrid Holm bought it."]


def test_the_newer_name_of_the_limit_is_used_where_it_is_asked_for():
    """OpenAI's own models take max_completion_tokens only."""
    message = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
    texts, bodies = answers_of(lambda b: refusal(400, message) if "max_tokens" in b else "yes", request(), request())

    assert texts == ["yes", "yes"]
    assert [b.get("max_completion_tokens") for b in bodies] == [None, 50, 50]


def test_what_a_server_needs_is_known_to_the_next_process():
    """A second engine of the same address asks as the first one learned to; after a day it asks as at first."""

    def answer(body):
        if "response_format" in body:
            return refusal(400, "This response_format type is unavailable now")
        return refusal(400, OVERFLOW.format(2000, size_of(body))) if size_of(body) > 2000 else "no"

    with Server(answer) as server:
        first, second = engine_of(server), engine_of(server)
        asyncio.run(first.generate(request(YES_OR_NO)))
        with pytest.raises(ContextTooSmall):
            asyncio.run(first.generate(request(text="Skua " * 2000)))
        asked = len(server.bodies)
        assert second.window == 4096  # it was opened before
        second = RemoteEngine(with_server_info(find_chat_model(f"{server.url}#m"), EngineOptions()), EngineOptions())
        asyncio.run(second.generate(request(YES_OR_NO)))

        assert second.window == 2000
        assert ["response_format" in b for b in server.bodies[asked:]] == [False]

        file = cache_dir() / "servers.json"
        stored = json.loads(file.read_text())
        stored[f"{server.url}#m"]["learned_at"] -= 25 * 3600
        file.write_text(json.dumps(stored))
        third = RemoteEngine(with_server_info(find_chat_model(f"{server.url}#m"), EngineOptions()), EngineOptions())
        asyncio.run(third.generate(request(YES_OR_NO)))

        assert third.window == 4096
        assert "response_format" in server.bodies[asked + 1]


def test_a_server_that_refuses_everything_is_asked_a_few_times():
    """After five requests without an answer a run ends with the server's own reason; one that has answered is asked on."""
    with Server(lambda _: refusal(403, "This account is closed.")) as server:
        engine = engine_of(server)
        for _ in range(remote_engine.MAX_REFUSED):
            with pytest.raises(EngineError, match="refused the request"):
                asyncio.run(engine.generate(request()))
        for _ in range(3):
            with pytest.raises(ModelError, match="refuses every request"):
                asyncio.run(engine.generate(request()))
        assert len(server.bodies) == remote_engine.MAX_REFUSED
    said = iter(["yes"])
    with Server(lambda _: next(said, None) or refusal(403, "This passage is not allowed.")) as server:
        engine = engine_of(server)
        asyncio.run(engine.generate(request()))
        for _ in range(remote_engine.MAX_REFUSED + 1):
            with pytest.raises(EngineError, match="refused the request"):
                asyncio.run(engine.generate(request()))


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
def test_an_index_of_a_model_that_obeys_no_schema_is_complete(tmp_path, refuses):
    """JSON lines, plain text and a report in a code block with its rating as a fraction: every chunk and report has its data.

    So it is whether the server ignores a schema or refuses it.
    """
    write_town(tmp_path / "docs")
    refused = refusal(400, "This response_format type is unavailable now")
    with Server(lambda body: refused if refuses and "response_format" in body else writes_of_the_town(body)) as server:
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
        lambda size: stream("I", ended="", done=False) + json.dumps({"error": {"message": OVERFLOW.format(2048, size)}}, indent=1).encode(),
        lambda _: refusal(400, "bad"),
        lambda _: 500,
    ],
    ids=[
        "400",
        "413",
        "500",
        "error event",
        "error in data",
        "JSON after the stream began",
        "unexplained 400",
        "unexplained 500",
    ],
)
def test_a_request_that_is_too_long_is_known_and_the_window_remembered(refuse, monkeypatch):
    """However it is said; the next request of that size is not sent, and a shorter one is answered."""
    monkeypatch.setattr(remote_engine, "backoff_delay", lambda _: 0.0)
    long = request(text=TEXT * 400)
    with Server(with_window(2048, lambda _: "yes", refuse)) as server:
        engine = engine_of(server)
        for _ in range(2):
            with pytest.raises(ContextTooSmall) as error:
                asyncio.run(engine.generate(long))
        sent = len(server.bodies)
        assert asyncio.run(engine.generate(request())).text == "yes"

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

    engine = RemoteEngine(find_chat_model(f"{servers[0].url}#m"), EngineOptions(notify=on_notice))
    with pytest.raises(ContextTooSmall):
        asyncio.run(engine.generate(long))
    servers[0].close()
    try:
        assert asyncio.run(engine.generate(request())).text == "yes"
        assert asyncio.run(engine.generate(long)).text == "yes"
    finally:
        servers[-1].close()


def test_a_window_is_found_out_by_an_answer_that_fills_it():
    """Cut off before its limit, an answer has met the end of the window: that is its size."""
    cut = stream("It is", ended="length", usage={"prompt_tokens": 1900, "completion_tokens": 148})
    with Server(lambda _: cut) as server, pytest.raises(ContextTooSmall):
        engine = engine_of(server)
        asyncio.run(engine.generate(request(max_tokens=500)))

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
        engine = engine_of(server, parallel_requests=4)
        assert all(isinstance(result, ContextTooSmall) for result in asyncio.run(several(engine)))

    assert engine.window == 2048


def test_ollama_s_window_is_read_again_once_its_model_is_loaded():
    """Before, it is assumed; an answer to a prompt that was cut without a word is not used, and the prompt not sent again."""
    window = 2048

    def loaded():
        return {"models": [{"name": "m:latest", "context_length": window}] if server.bodies else []}

    gets = {
        "/v1/models": {"data": [{"id": "m:latest", "owned_by": "library"}]},
        "/api/tags": {"models": [{"name": "m:latest", "digest": "abc"}]},
        "/api/ps": loaded,
    }
    with Server(lambda _: "yes", gets) as server:
        engine = engine_of(server)
        asyncio.run(engine.generate(request()))
        assert engine.window == window
        with pytest.raises(ContextTooSmall):
            asyncio.run(engine.generate(request(text=TEXT * 250)))
    assert len(server.bodies) == 1
    with Server(lambda _: "yes", gets | {"/api/ps": loaded}) as server:
        with pytest.raises(ContextTooSmall):
            asyncio.run(engine_of(server).generate(request(text=TEXT * 250)))
        assert len(server.bodies) <= 1


def test_ollama_s_setting_of_the_window_is_read_before_its_model_is_loaded():
    """From the parameters of the model."""
    gets = {
        "/v1/models": {"data": [{"id": "m"}]},
        "/api/tags": {"models": [{"name": "m", "digest": "abc"}]},
        "/api/show": lambda _: {"parameters": "stop  <|x|>\nnum_ctx    16384\n", "capabilities": ["completion"]},
    }
    with Server(lambda _: "yes", gets) as server:
        engine = engine_of(server)
        asyncio.run(engine.generate(request()))

    assert engine.window == 16384


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
    ("status", "message"),
    [
        (400, "Model unloaded."),
        (404, "No models loaded. Please load a model."),
        (500, "model is swapping, try again"),
        (429, ""),
        (503, ""),
    ],
)
def test_a_passing_fault_is_waited_for_and_changes_nothing(status, message, monkeypatch):
    """The request is sent again as it was; thinking stays switched off, and the schema is sent."""
    monkeypatch.setattr(remote_engine, "backoff_delay", lambda _: 0.0)
    turns = iter([refusal(status, message), '{"answer": "no"}', refusal(status, message), '{"answer": "no"}'])
    notices = []
    texts, bodies = answers_of(lambda _: next(turns), *[request(YES_OR_NO)] * 2, notices=notices)

    assert texts == ["no", "no"]
    assert all(body == bodies[0] for body in bodies)
    assert len(notices) == (2 if status not in (429, 503) else 0)


def test_a_model_that_stays_unloaded_ends_the_request(monkeypatch):
    """A person is told after the time for which a server is waited for."""
    monkeypatch.setattr(remote_engine, "backoff_delay", lambda _: 0.0)
    monkeypatch.setattr(remote_engine, "down_timeout", lambda _: 0.1)
    with Server(lambda _: refusal(400, "Model unloaded.")) as server, pytest.raises(EngineError, match="without its model"):
        asyncio.run(engine_of(server).generate(request()))


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
        engine = engine_of(server, parallel_requests=4)
        asyncio.run(several(engine))
        asyncio.run(engine.generate(request()))

    assert "stream_options" in server.bodies[-1]


def test_fields_that_a_server_always_refuses_are_given_up():
    """Two requests, one after the other, that were answered only without them are enough."""
    _, bodies = answers_of(lambda body: 400 if "seed" in body else "yes", *[request()] * 4)

    assert ["seed" in b for b in bodies] == [True, False, True, False, False, False]


def test_a_stream_that_nothing_ends_is_complete_when_it_comes_twice():
    """Neither a finish reason nor an end: asked again, and taken if it is the same; then at once."""
    texts, bodies = answers_of(lambda _: stream("yes", ended="", done=False), *[request()] * 3)

    assert texts == ["yes"] * 3
    assert len(bodies) <= 5


# Where the answer stands


@pytest.mark.parametrize(
    "said",
    [
        stream(
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "{}"}]},
            {"content": [{"type": "text", "text": '{"answer": "yes"}'}]},
        ),
        stream({"role": "assistant", "content": None}, {"reasoning_content": '{"answer": '}, {"reasoning_content": '"yes"}'}),
        stream("<|channel|>analysis<|message|>JSON like {}?<|end|><|start|>assistant<|channel|>final<|message|>", '{"answer": "yes"}'),
        stream("[THINK]JSON like {}?[/THINK]", '{"answer": "yes"}', "<|im_end|>"),
        json.dumps(answered([{"type": "text", "text": '{"answer": "yes"}'}])).encode(),
        b": ping\r\n\r\n" + stream('{"answer": ', '"yes"}').replace(b"data: ", b"data:").replace(b"\n", b"\r\n"),
        stream('{"answer": "yes"}', usage={"prompt_tokens": -3, "completion_tokens": 1.5}),
    ],
    ids=["parts", "in the field of thinking", "harmony", "tags with braces", "parts in one piece", "CRLF and comments", "odd counts"],
)
def test_the_answer_is_found_wherever_it_stands(said):
    """In one request, whatever the server wraps it in."""
    texts, bodies = answers_of(lambda _: said, request(YES_OR_NO))

    assert (texts, len(bodies)) == (["yes"], 1)


def test_an_empty_answer_fails_with_its_reason():
    """A model that only thinks and then stops has no answer; it is asked once more with thinking, and then said why."""
    empty = stream({"role": "assistant", "content": ""}, ended="content_filter")
    with Server(lambda _: empty) as server, pytest.raises(EmptyAnswer, match="content filter withheld"):
        asyncio.run(engine_of(server).generate(request()))
    assert len(server.bodies) == 2


def test_a_model_that_needs_long_to_think_gets_more_tokens():
    """First 2,000 more, then 8,000; what one request needed, the next has at once."""

    def answer(body):
        done = body["max_tokens"] > 5000
        return stream({"reasoning_content": "Hm. "}, *(["yes"] if done else []), ended="stop" if done else "length")

    texts, bodies = answers_of(answer, request(), request())

    assert texts == ["yes", "yes"]
    assert [b["max_tokens"] for b in bodies] == [50, 2050, 8050, 8050]


def test_endless_thinking_fails_with_its_reason():
    """It is not asked for ever: after the most tokens that thinking gets, the request fails and says why."""
    with (
        Server(lambda _: stream({"reasoning_content": "Hm. " * 50}, ended="length")) as server,
        pytest.raises(EngineError, match="thought for 8050 tokens without an answer"),
    ):
        asyncio.run(engine_of(server).generate(request()))
    assert len(server.bodies) == 3


def test_thinking_that_begins_without_a_mark_is_shown_once():
    """Whoever watches sees it the first time, and is told to ask again; from then on, in other processes too, answers are shown at their
    end.
    """
    said, shown = stream("Is it?", "</think>", "It is."), []
    with Server(lambda _: said) as server:
        with pytest.raises(EngineError, match="could not be told from its answer"):
            asyncio.run(engine_of(server).generate(request(on_text=lambda _: None)))
        engine = RemoteEngine(find_chat_model(f"{server.url}#m"), EngineOptions())
        assert asyncio.run(engine.generate(request(on_text=shown.append))).text == "It is."
    assert "".join(shown) == "It is."


@pytest.mark.parametrize("beginning", ["Okay, so the user ", "Hmm, is it? ", "The user asks whether it is. ", "We need to see. "])
def test_an_answer_that_begins_like_thinking_is_shown_at_its_end(beginning):
    """So thinking without a start mark is never shown, not even by a server that is asked for the first time."""
    shown: list[str] = []
    (text,), _ = answers_of(lambda _: stream(beginning, "It may be. ", "</think>", "It ", "is."), request(on_text=shown.append))
    assert (text, shown) == ("It is.", ["It is."])


def test_an_answer_that_does_not_begin_like_thinking_is_shown_while_it_is_written():
    """Only as much is waited for as tells the two apart."""
    shown: list[str] = []
    answers_of(lambda _: stream("Ok", "lahoma", " is a state", "."), request(on_text=shown.append))
    assert shown == ["Oklahoma", " is a state", "."]


def test_an_answer_that_is_held_back_and_cut_off_is_shown():
    """What looked like thinking was none."""
    shown: list[str] = []
    texts, _ = answers_of(lambda _: stream("We have ", "20 days", ended="length"), request(on_text=shown.append))
    assert (texts, shown) == (["We have 20 days"], ["We have 20 days"])


def test_thinking_without_a_mark_that_is_cut_off_is_no_answer():
    """Where a server is known to hide the start mark, a text without the end mark is not shown."""
    shown: list[str] = []
    held = GrammarFilter(None, shown.append, is_shown_at_end=True)
    held.add("It may be one. ")
    assert (held.finish_cut(), shown) == ("", [])
    held.add("</think>It is.")
    assert (held.finish_cut(), shown) == ("It is.", ["It is."])


# Servers that cannot be relied on


def test_a_server_that_changes_its_mind_in_every_answer_gives_one_or_an_error():
    """Every kind of answer and refusal in turn: each request ends, with an answer or an error of its own, and none hangs."""
    turns = [
        "Hm.",
        refusal(400, "Unknown field: seed"),
        '["yes"]',
        stream({"reasoning_content": "Hm."}, ended="length"),
        refusal(400, OVERFLOW.format(512, 900)),
        "<think>{}</think>yes",
        refusal(422, "response_format is not supported"),
        b"data: nothing\n\n",
        '{"answer": "no"}',
        stream([{"type": "text", "text": "no"}][0]),
    ]
    count = iter(range(10_000))

    def answer(_):
        return turns[next(count) % len(turns)]

    with Server(answer) as server:
        engine = engine_of(server)
        for _ in range(12):
            try:
                assert asyncio.run(engine.generate(request(YES_OR_NO))).text in ("yes", "no")
            except (EngineError, ContextTooSmall) as error:
                assert "127.0.0.1" in str(error)
    assert len(server.bodies) < 100


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
            asyncio.run(engine_of(server).generate(request(YES_OR_NO)))


def test_an_answer_far_longer_than_asked_for_is_refused():
    """Its sentences would be checked for minutes: no token has so many characters."""
    assert answers_of(lambda _: "word " * 6_000, request(max_tokens=50))[0] == ["word " * 6_000]
    with pytest.raises(EngineError, match=r"14\d+ characters, where 50 tokens were asked for"):
        answers_of(lambda _: "yes" + "<think></think>" * 100_000, request(max_tokens=50))
