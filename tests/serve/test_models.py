"""The chat model that answers is chosen on the page, among those of this machine."""

import pytest

from localrag.model_files import add_model, find_chat_model, remove_model
from tests.serve.browser import opened
from tests.serve.server import asked, served, served_here


@pytest.fixture(autouse=True)
def second(home):
    """A second chat model on the user's list: the bundled one, by another name."""
    add_model("chat", "second", str(find_chat_model(None).path))
    yield
    remove_model("chat", "second")


def test_the_models_of_this_machine_are_listed_and_one_of_them_is_chosen(folder):
    """The choice counts from the next question on, and the status tells which model answers."""
    with served_here(folder) as server, server.client() as client:
        asked(client, "Who is the harbour master?")
        before = client.get("/api/models").json()
        chosen = client.post("/api/models/second", json={})

        assert {before["answers_with"], "second"} <= set(before["models"])
        assert chosen.json() == {"answers_with": "second"}
        asked(client, "Who is the harbour master?")
        assert client.get("/api/status").json()["answers_with"] == "second"


def test_a_model_that_is_not_on_the_list_is_refused(folder):
    """Neither an unknown name nor the path of a file or the address of a server changes the model."""
    with served_here(folder) as server, server.client() as client:
        for name in ("third", "/etc/passwd", "http://127.0.0.1:1/v1"):
            refused = client.post(f"/api/models/{name}", json={})
            assert refused.status_code == 400
            assert "second" in refused.json()["error"]["hint"]
        asked(client, "Who is the harbour master?")
        assert client.get("/api/models").json()["answers_with"] != "third"


@pytest.mark.ci
def test_a_read_only_server_keeps_its_model(folder):
    """Its model is chosen by whoever starts it."""
    with served(folder, "--read-only") as server, server.client() as client:
        assert client.post("/api/models/second", json={}).status_code == 403


@pytest.mark.ci
def test_the_page_offers_them(browser, folder):
    """The menu shows which model answers, and changes it; the question after that is answered."""
    with served_here(folder) as server, opened(browser, server) as (page, _):
        menu = page.get_by_label("Model that answers")
        menu.select_option("second")
        page.wait_for_function("document.querySelector('select[title=\"Model that answers\"]').value === 'second'")
        with server.client() as client:
            assert client.get("/api/status").json()["answers_with"] == "second"
        box = page.get_by_label("Your question")
        box.fill("Who is the harbour master?")
        box.press("Enter")
        page.locator("article.turn footer.foot").wait_for()
