"""A model behind an OpenAI-compatible server: spoken to over loopback, held to the grammar all the same."""

import asyncio
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from localrag.engine.remote import AT_ONCE, Remote
from localrag.engine.request import Request
from localrag.errors import EngineFailed, UsageError
from localrag.llm.grammar import choice, cited_lines, entity_lines, json_object, pair_lines
from tests.conftest import run_localrag, write_town

TEXT = "Ingrid Holm bought the ferry Skua in Vardby."


class Server:
    """An OpenAI-compatible server on loopback; `answer(body)` gives the content of its reply, or a status."""

    def __init__(self, answer):
        self.bodies, self.under_way, self.most = [], 0, 0
        lock, outer = threading.Lock(), self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with lock:
                    outer.bodies.append(body)
                    outer.under_way += 1
                    outer.most = max(outer.most, outer.under_way)
                said = answer(body)
                with lock:
                    outer.under_way -= 1
                status, location = (said, "http://192.0.2.1/") if isinstance(said, int) else (200, "")
                reply = {
                    "choices": [{"message": {"content": said}, "finish_reason": "stop"}],
                    "usage": {"prompt_tokens": 9, "completion_tokens": 4},
                }
                self.send_response(status)
                if location:
                    self.send_header("Location", location)
                self.end_headers()
                self.wfile.write(json.dumps(reply).encode())

            def log_message(self, *_):
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}/v1"
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    def close(self):
        self._http.shutdown()
        self._http.server_close()


def example(schema):
    """The least a schema allows, with names of the town."""
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema["type"]
    if kind == "object":
        values = {name: example(part) for name, part in schema["properties"].items()}
        ends = schema["properties"].get("target", {}).get("enum")
        return values | ({"target": ends[1]} if ends else {}) | ({"name": "Lars Holm"} if "name" in values else {})
    if kind == "array":
        return [example(schema["items"])] * max(1, schema.get("minItems", 1))
    return schema.get("minimum", 1) if kind == "integer" else "The Skua is a ferry."


def ask(answer, grammar=None, **options):
    server = Server(answer)
    try:
        request = Request((), 50, grammar, messages=({"role": "user", "content": TEXT},), **options)
        return asyncio.run(Remote(server.url, "m").generate(request)), server.bodies
    finally:
        server.close()


def test_the_schema_goes_to_the_server():
    """The request has the messages, the limit, the sampling and the JSON schema of its grammar."""
    answer, (body,) = ask(lambda _: '{"answer": "yes"}', choice(["yes", "no"]), stop=("x",))

    assert answer.text == "yes"
    assert body["response_format"]["json_schema"]["schema"]["properties"] == {"answer": {"enum": ["yes", "no"]}}
    assert (body["messages"][0]["content"], body["max_tokens"], body["temperature"], body["stop"]) == (TEXT, 50, 0.0, ["x"])
    assert answer.output_tokens == 4


def test_what_the_grammar_forbids_is_left_out():
    """Names that the text does not have, and repeats, are dropped; what is left has the form the local engine would have written."""
    names = ["Ingrid Holm", "Santa Claus", "Skua", "Skua"]
    items = [{"name": n, "type": "person"} for n in names]
    answer, _ = ask(lambda _: json.dumps({"items": items}), entity_lines([], ["person", "place"], span_of=TEXT))

    assert answer.text == '{"name": "Ingrid Holm", "type": "person"}\n{"name": "Skua", "type": "person"}\n'


@pytest.mark.parametrize(
    ("grammar", "said", "expected"),
    [
        (entity_lines(["Skua"], ["thing"]), {"Skua": "thing"}, '{"name": "Skua", "type": "thing"}\n'),
        (pair_lines([("A", "B")], most=3), {"items": [{"source": "B", "target": "A"}, {"source": "A", "target": "A"}]}, '["B", "A"]\n'),
        (cited_lines(["[1]", "[2]"], most=2), {"items": [{"text": "It is a ferry.", "marks": ["[2]"]}]}, "It is a ferry. [2]\n"),
        (json_object({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}), {"a": 3}, '{"a": 3}'),
    ],
)
def test_every_kind_of_answer_comes_back_in_its_own_form(grammar, said, expected):
    """What a server says as JSON reads like what the grammar would have written."""
    assert ask(lambda _: json.dumps(said, ensure_ascii=False), grammar)[0].text == expected


@pytest.mark.parametrize("said", ["{", '{"answer": "perhaps"}', "[]", 500, 302])
def test_a_server_that_breaks_its_word_is_an_error(said):
    """No JSON, a value outside the schema, a refusal and a redirect to elsewhere each fail the request in words."""
    with pytest.raises(EngineFailed, match=r"127\.0\.0\.1"):
        ask(lambda _: said, choice(["yes", "no"]))


def test_no_more_requests_at_once_than_servers_take():
    """Of fifty requests a bounded number is under way."""
    barrier = threading.Event()
    server = Server(lambda _: barrier.wait(0.05) or "ok")
    remote = Remote(server.url, "m")

    async def run():
        return await asyncio.gather(*(remote.generate(Request((), 5, messages=())) for _ in range(50)))

    answers = asyncio.run(run())
    server.close()

    assert [a.text for a in answers] == ["ok"] * 50
    assert 1 < server.most <= AT_ONCE
    assert remote.report()["tasks"][""]["requests"] == 50


@pytest.mark.parametrize("url", ["http://192.168.1.7:8080/v1", "https://api.openai.com/v1", "http://127.0.0.1.example.org/v1"])
def test_another_machine_is_refused_unless_allowed(url):
    """Documents go to no other host unless it was named."""
    with pytest.raises(UsageError, match="not on this machine"):
        Remote(url, "m")
    Remote(url, "m", allowed=(url.split("/")[2].split(":")[0],))


def test_a_folder_is_indexed_and_asked_through_a_server(tmp_path):
    """The command line takes a server's address for --model; the index remembers it."""

    def play(body):
        return json.dumps(example(body["response_format"]["json_schema"]["schema"])) if "response_format" in body else "A ferry."

    server = Server(play)
    write_town(tmp_path / "docs")
    indexed = run_localrag("index", "docs", "--model", f"{server.url}#played", cwd=tmp_path)
    asked = run_localrag("ask", "Who is the mate?", "--json", cwd=tmp_path)
    server.close()

    assert indexed.returncode == 0, indexed.stderr
    assert asked.returncode == 0, asked.stderr
    assert {b["model"] for b in server.bodies} == {"played"}
    assert json.loads(asked.stdout)["citations"]
