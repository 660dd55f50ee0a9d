"""Who may speak to the server: checked on every route from the route table itself, so that a new one cannot be forgotten."""

from pathlib import Path

import pytest
from starlette.testclient import TestClient

from localrag.serve.app import all_routes, make_app
from localrag.serve.auth import MAX_BODY_BYTES, PUBLIC_PATHS, AccessPolicy
from localrag.serve.context import IndexProcess, ServerContext
from localrag.serve.mcp_http import McpHttp
from localrag.serve.query_worker import QueryWorker
from localrag.serve.table_worker import TableWorker

KEY = "k" * 32
NOWHERE = Path("/nonexistent/.localrag")
DOOR = AccessPolicy(KEY, origins=("http://chat.test:3000",))
SITE = ServerContext(NOWHERE, NOWHERE.parent, QueryWorker(NOWHERE, None), IndexProcess(NOWHERE), NOWHERE / "inbox", most_bytes=1000)
TABLES = TableWorker(SITE.query_worker)
MADE = all_routes(SITE, DOOR, None, McpHttp(SITE.query_worker, NOWHERE, TABLES), TABLES)
ROUTES = [(route.path, method) for route in MADE for method in sorted(route.methods - {"HEAD"})]
PREFLIGHT = {"access-control-request-method": "POST", "access-control-request-headers": "authorization, content-type, mcp-session-id"}
GOOD = {"host": "127.0.0.1:8765", "authorization": f"Bearer {KEY}", "content-type": "application/json"}


def is_open(path):
    return path in PUBLIC_PATHS or path.startswith("/static/")


@pytest.fixture(scope="session")  # a worker can be started only once
def client():
    SITE.query_worker.start()  # there is no index: what gets past the guard is told so
    with TestClient(make_app(SITE, DOOR), raise_server_exceptions=False) as made:
        yield made


def asked(client, path, method, **headers):
    sent = {k: v for k, v in (GOOD | headers).items() if v is not None}
    return client.request(method, path, headers=sent, content=b"[]" if method in ("POST", "PUT") else None)


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
def test_every_route_turns_away_what_is_not_ours(client, headers, status):
    """Rebound and foreign names, pages of other origins and ports, wrong keys, forms; only the empty page and its like need no key."""
    for path, method in ROUTES:
        excused = (is_open(path) and status == 401) or (status == 415 and (method in ("GET", "DELETE") or path.startswith("/api/files/")))
        found = asked(client, path, method, **headers)

        assert (found.status_code == status) != excused, (method, path, found.text)


@pytest.mark.parametrize("host", ["127.0.0.1:8765", "localhost:8765", "LOCALHOST", "[::1]:8765", "[::1]", "127.0.0.1"])
def test_its_own_names_are_let_in(client, host):
    """With and without a port, in any case."""
    assert asked(client, "/v1/models", "GET", host=host).status_code == 200


def test_a_page_of_its_own_and_one_that_is_allowed_may_ask(client):
    """The allowed one is told so by the headers that its browser looks for; nobody else is."""
    own = asked(client, "/v1/models", "GET", origin="http://127.0.0.1:8765")
    allowed = asked(client, "/v1/models", "GET", origin="http://chat.test:3000", **{"sec-fetch-site": "cross-site"})
    before = asked(client, "/v1/models", "OPTIONS", origin="http://chat.test:3000", authorization=None, **PREFLIGHT)

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
    big = b"x" * (MAX_BODY_BYTES + 1)
    with_length = client.post("/v1/embeddings", headers=GOOD, content=big)
    without = client.post("/v1/embeddings", headers=GOOD, content=(big[:1000] for _ in range(MAX_BODY_BYTES // 1000 + 2)))

    assert with_length.status_code == without.status_code == 413
    assert with_length.json()["error"]["message"]


def test_the_pages_code_opens_once_and_the_key_always(client):
    """What it is given is another secret than the programs' key."""
    door = AccessPolicy(KEY)
    with TestClient(make_app(SITE, door), headers=GOOD | {"authorization": ""}) as fresh:
        (code,) = door.login_codes
        first, again, key, wrong = (fresh.post("/api/session", json={"code": c}) for c in (code, code, KEY, "guess"))

    assert (first.status_code, again.status_code, key.status_code, wrong.status_code) == (200, 401, 200, 401)
    assert first.json()["token"] == key.json()["token"] != KEY
    assert door.is_valid_key(first.json()["token"])
    assert not door.is_valid_key("")
    assert "link" in again.json()["error"]["message"]
    assert wrong.json()["error"]["message"] == "The key is wrong."


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        *(({"authorization": form.format(KEY)}, 200) for form in ("Bearer {}", "bearer {}", "Bearer   {} ", "{}", "Token {}")),
        ({"x-api-key": KEY}, 200),
        ({"api-key": KEY}, 200),
        ({"authorization": "Bearer dummy", "x-api-key": KEY}, 200),
        *(
            ({"authorization": form}, 401)
            for form in ("", "Bearer", "Bearer ", "Basic", "Basic !!", "Basic dXNlcjo=", f"Bearer {KEY} {KEY}")
        ),
        ({"x-api-key": ""}, 401),
        ({"api-key": "wrong"}, 401),
    ],
)
def test_the_key_is_taken_in_every_usual_header(client, headers, status):
    """As programs send it; nothing empty, wrong or cut off is one."""
    assert asked(client, "/v1/models", "GET", **{"authorization": None} | headers).status_code == status


def test_a_link_from_another_page_opens_ours_and_nothing_else(client):
    """What a browser sends for a link that was followed: a navigation, by GET, to the empty page."""
    link = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "authorization": None}

    assert asked(client, "/", "GET", **link).status_code == 200
    assert asked(client, "/", "GET", **link | {"sec-fetch-mode": "no-cors"}).status_code == 403
    assert asked(client, "/api/status", "GET", **link).status_code == 403
    assert asked(client, "/static/index.html", "GET", **link).status_code == 403


def test_an_index_that_is_gone_is_said_and_the_server_stays(client):
    """By every address that needs it, in words and with the command that mends it."""
    for path in ("/api/status", "/api/documents", "/api/conversations", "/api/questions"):
        found = asked(client, path, "GET")
        assert (found.status_code, found.json()["error"]["code"]) == (503, "no_index")
        assert "localrag index" in found.json()["error"]["hint"]
    assert asked(client, "/healthz", "GET").status_code == 200
