"""Who may speak to the server: checked on every route from the route table itself, so that a new one cannot be forgotten."""

import pytest
from starlette.testclient import TestClient

from localrag.serve.app import make_app, routes
from localrag.serve.guard import MOST_BYTES, OPEN, Door
from localrag.serve.openai import Api

KEY = "k" * 32
API = Api(None, None)
ROUTES = [(route.path, sorted(route.methods - {"HEAD"})[0]) for route in routes(API)]
GOOD = {"host": "127.0.0.1:8765", "authorization": f"Bearer {KEY}", "content-type": "application/json"}


@pytest.fixture(scope="module")
def client():
    with TestClient(make_app(API, Door(KEY, origins=("http://chat.test:3000",))), raise_server_exceptions=False) as made:
        yield made


def asked(client, path, method, **headers):
    sent = {k: v for k, v in (GOOD | headers).items() if v is not None}
    return client.request(method, path, headers=sent, content=b"[]" if method == "POST" else None)


@pytest.mark.parametrize(("path", "method"), ROUTES)
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 421),
        ({"host": ""}, 421),
        ({"host": ":8765"}, 421),
        ({"host": "localhost.evil.example:8765"}, 421),
        ({"host": "127.0.0.1:x"}, 421),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://127.0.0.1:9999"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"authorization": None}, 401),
        ({"authorization": "Bearer wrong"}, 401),
        ({"authorization": f"Basic {KEY}"}, 401),
        ({"content-type": "text/plain"}, 415),
    ],
)
def test_every_route_turns_away_what_is_not_ours(client, path, method, headers, status):
    """Rebound and foreign names, pages of other origins and ports, wrong keys, forms; `/healthz` alone needs no key."""
    excused = (path in OPEN and status in (401, 415)) or (status == 415 and method == "GET")
    found = asked(client, path, method, **headers)

    assert (found.status_code == status) != excused, found.text


@pytest.mark.parametrize("host", ["127.0.0.1:8765", "localhost:8765", "LOCALHOST", "[::1]:8765", "[::1]", "127.0.0.1"])
def test_its_own_names_are_let_in(client, host):
    """With and without a port, in any case."""
    assert asked(client, "/v1/models", "GET", host=host).status_code == 200


def test_a_page_of_its_own_and_one_that_is_allowed_may_ask(client):
    """The allowed one is told so by the headers that its browser looks for; nobody else is."""
    own = asked(client, "/v1/models", "GET", origin="http://127.0.0.1:8765")
    allowed = asked(client, "/v1/models", "GET", origin="http://chat.test:3000", **{"sec-fetch-site": "cross-site"})
    before = asked(client, "/v1/models", "OPTIONS", origin="http://chat.test:3000", authorization=None)

    assert (own.status_code, allowed.status_code, before.status_code) == (200, 200, 200)
    assert "access-control-allow-origin" not in own.headers
    assert allowed.headers["access-control-allow-origin"] == before.headers["access-control-allow-origin"] == "http://chat.test:3000"


def test_every_answer_has_the_headers_that_keep_it_inert(client):
    """Also refusals and errors: nothing is framed, sniffed, kept or run."""
    for found in (asked(client, "/v1/models", "GET"), asked(client, "/nowhere", "GET"), asked(client, "/v1/models", "GET", host="evil")):
        assert "default-src 'none'" in found.headers["content-security-policy"]
        assert found.headers["x-content-type-options"] == "nosniff"
        assert found.headers["cache-control"] == "no-store"


def test_no_more_is_read_than_allowed(client):
    """With a length that says so, and without one; the error is one that OpenAI's clients read."""
    big = b"x" * (MOST_BYTES + 1)
    with_length = client.post("/v1/embeddings", headers=GOOD, content=big)
    without = client.post("/v1/embeddings", headers=GOOD, content=(big[:1000] for _ in range(MOST_BYTES // 1000 + 2)))

    assert with_length.status_code == without.status_code == 413
    assert with_length.json()["error"]["message"]
