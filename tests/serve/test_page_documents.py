"""The page's documents in a real browser: files in, files out, what was read, one of them with its passage."""

import re

import pytest

from tests.conftest import run_localrag, write_town
from tests.serve.browser import LOOKS, assert_accessible, focused, opened, violations
from tests.serve.server import document_of, served

pytestmark = pytest.mark.ci


@pytest.fixture(scope="module")
def folder(tmp_path_factory, home):
    """An index of letters, a damaged file, and one with signs beyond the first plane."""
    folder = tmp_path_factory.mktemp("files")
    write_town(folder / "docs")
    (folder / "docs" / "bell.txt").write_text("😀😀 The bell of Vardby is of copper.\n", encoding="utf-8")
    (folder / "docs" / "broken.docx").write_bytes(b"PK\x03\x04 nothing of a document")
    done = run_localrag("index", "docs", "--extractor", "phrases", "-q", cwd=folder)
    assert done.returncode == 5, done.stderr
    return folder


@pytest.fixture(scope="module")
def fixed(folder):
    """A server over the same index that lets nothing be changed."""
    with served(folder, "--read-only", "--allow-host", "models.example") as running:
        yield running


def listed(page):
    """The paths and titles in the list."""
    page.locator(".files li").first.wait_for()
    return page.locator(".files").inner_text()


def given(name, text):
    """A file as the file button takes it."""
    return {"name": name, "mimeType": "text/plain", "buffer": text.encode()}


def test_files_are_listed_by_state_with_their_reason(browser, server):
    """The tabs count them, the field finds them by name, and what could not be read says why."""
    with opened(browser, server, "#/documents") as (page, _):
        assert "docs/b.txt" in listed(page)
        page.get_by_role("link", name="Failed 1").click()
        page.locator(".reason").wait_for()
        assert "broken.docx" in listed(page)
        assert len(page.locator(".reason").inner_text()) > len("Failed ")
        assert page.locator(".files a").count() == 0
        page.get_by_role("link", name=re.compile("^Indexed")).click()
        page.get_by_text("docs/a.md").wait_for()
        page.get_by_label("Search names").fill("bell")
        page.get_by_text("docs/a.md").wait_for(state="detached")
        assert "docs/bell.txt" in listed(page)
        assert page.locator(".files li").count() == 1
        page.get_by_label("Search names").fill("nothing like it")
        page.get_by_text("No file has “nothing like it” in its name.").wait_for()


def test_a_document_is_removed_after_a_question(browser, server):
    """The question names the file; declined, the file stays; agreed, it leaves the list."""
    with opened(browser, server, "#/documents") as (page, _):
        button = page.get_by_role("button", name="Remove c.txt")
        button.click()
        dialog = page.get_by_role("dialog", name="Remove this document?")
        assert "docs/c.txt" in dialog.inner_text()
        assert focused(page) == "Cancel"
        page.keyboard.press("Escape")
        dialog.wait_for(state="hidden")
        assert focused(page) == "Remove c.txt"
        assert "docs/c.txt" in listed(page)
        button.click()
        dialog.get_by_role("button", name="Remove").click()
        dialog.wait_for(state="hidden")
        page.get_by_text("docs/c.txt").wait_for(state="detached")
        assert "docs/a.md" in listed(page)


@pytest.mark.slow
def test_a_file_that_is_chosen_is_listed_and_indexed(browser, server):
    """Several at once; indexing begins by itself, and the list has them when it ends."""
    with opened(browser, server, "#/documents") as (page, _):
        page.get_by_label("Drop files here").set_input_files(
            [
                given("anchor.txt", "Mats Ek cast the anchor of the Skua in Vardby."),
                given("Öl & Tau #1.md", "# Rope\n\nNora Bly sells rope."),
            ]
        )
        for name in ("anchor.txt", "Öl & Tau #1.md"):
            row = page.locator(".uploads li", has_text=name)
            row.get_by_text("added").wait_for()
        page.get_by_role("link", name="anchor").wait_for()
        page.get_by_role("link", name="Rope").wait_for()
        page.locator("[data-state=done]").wait_for()


def test_a_file_that_is_refused_is_said(browser, server):
    """One whose name is there already, and one of a kind that cannot be read; others are taken."""
    with opened(browser, server, "#/documents", allowed="409|415") as (page, _):
        field = page.get_by_label("Drop files here")
        field.set_input_files([given("twice.txt", "The first of two.")])
        page.locator(".uploads li.sent").wait_for()
        sound = {"name": "sound.mp3", "mimeType": "audio/mpeg", "buffer": b"ID3\x03\x00\x00\x00\x00\x00\x00"}
        field.set_input_files([given("twice.txt", "The second of two."), sound])
        page.locator(".uploads").get_by_text("A file with this name already exists.").wait_for()
        page.locator(".uploads").get_by_text("Files of this kind cannot be read.").wait_for()
        page.get_by_role("button", name="Remove twice.txt from the list").click()
        page.get_by_text("A file with this name already exists.").wait_for(state="detached")


def test_files_are_dropped_anywhere_on_the_page(browser, server):
    """The page takes them in and is not replaced by them."""
    with opened(browser, server, "#/documents") as (page, _):
        page.locator(".drop").wait_for()
        transfer = page.evaluate_handle(
            "() => { const t = new DataTransfer(); t.items.add(new File(['Dropped in Vardby.'], 'dropped.txt')); return t; }"
        )
        page.dispatch_event("h1", "dragover", {"dataTransfer": transfer})
        page.locator(".drop.over").wait_for()
        page.dispatch_event("h1", "drop", {"dataTransfer": transfer})
        page.locator(".uploads li.sent", has_text="dropped.txt").wait_for()
        assert page.locator(".drop.over").count() == 0


def test_a_run_shows_how_far_it_is_and_is_stopped(browser, server):
    """Here with states that the test gives: the stage, the share, the time left, and a button that asks for the end."""
    with opened(browser, server, "#/documents") as (page, _):
        deleted = []
        run = {"state": "running", "ours": True, "stage": "reports", "done": 3, "total": 8, "fraction": 0.62, "seconds_left": 130}
        run |= {"message": "", "ended_at": None}

        def state(route):
            now = route.fetch(url=re.sub(r"\?.*", "", route.request.url)).json()
            ended = {"state": "stopped", "seconds_left": None} if deleted else {}
            if "since" in route.request.url:
                page.wait_for_timeout(200)
            route.fulfill(json=now | {"stamp": str(len(deleted)), "run": run | {"started_at": "2026-01-01"} | ended})

        def changed(route):
            deleted.append(route.request.method)
            route.fulfill(status=202, json={"stopped": True})

        page.route(re.compile(r"/api/status"), state)
        page.route("**/api/index", changed)
        page.reload()
        panel = page.locator(".run-panel")
        panel.get_by_text("Writing reports").wait_for()
        assert "62 % · 3 / 8 · 2 min left" in panel.inner_text()
        assert panel.locator("progress").evaluate("p => p.position") == pytest.approx(0.62)
        assert page.get_by_role("button", name="Index again").is_disabled()
        panel.get_by_role("button", name="Stop indexing").click()
        panel.get_by_text("Indexing was stopped").last.wait_for()
        assert deleted == ["DELETE"]


def test_a_server_that_only_reads_offers_no_change(browser, fixed):
    """No field for files, nothing that removes or indexes, and no conversation is deleted."""
    with opened(browser, fixed, "#/documents") as (page, _):
        assert "docs/a.md" in listed(page)
        assert page.locator("input[type=file]").count() == 0
        assert page.locator("main button").count() == 0
        page.goto(f"{fixed.address}/#/ask")
        page.get_by_label("Your question").fill("Who is the mate of the Skua?")
        page.keyboard.press("Enter")
        page.locator("[data-state=done]").wait_for()
        page.locator(".history li a").first.wait_for()
        assert page.locator(".history li button").count() == 0
    with fixed.client() as door:
        (kept, *_) = door.get("/api/conversations").json()["conversations"]
        assert door.delete(f"/api/conversations/{kept['id']}").status_code == 403
        assert kept in door.get("/api/conversations").json()["conversations"]


def test_the_status_says_what_runs_and_what_leaves_the_machine(browser, server, fixed, folder):
    """Nothing does, unless the server may ask a model elsewhere; the files' states lead to the list."""
    with opened(browser, server, "#/status") as (page, _):
        page.get_by_text("Nothing.", exact=True).wait_for()
        assert str(folder) in page.locator("main").inner_text()
        assert "all-minilm" in page.locator(".facts").inner_text()
        page.get_by_role("link", name="Failed").click()
        page.locator(".reason").wait_for()
    with opened(browser, fixed, "#/status") as (page, _):
        page.get_by_text("models.example").wait_for()
        assert page.get_by_text("Nothing.", exact=True).count() == 0
        assert "read-only" in page.locator("main").inner_text()


def test_a_document_shows_what_it_is(browser, server, folder):
    """Its place and the original, to be saved as it is; the entities there are ways on."""
    with server.client() as door:
        key, text = document_of(door, "bell.txt")
    with opened(browser, server, f"#/document/{key}?mark={text.index('bell')}-{len(text) - 1}") as (page, _):
        with page.expect_download() as waited:
            page.get_by_role("button", name="Download original").click()
        assert waited.value.suggested_filename == "bell.txt"
        assert waited.value.path().read_bytes() == (folder / "docs" / "bell.txt").read_bytes()
        assert "docs/bell.txt" in page.locator(".about").inner_text()
        page.get_by_role("link", name="Vardby").click()
        page.get_by_role("heading", name="Vardby", level=1).wait_for()
        assert focused(page) == "Vardby"


@LOOKS
def test_everybody_can_use_it(browser, server, scheme, width):
    """No finding of axe-core, and no sideways scrolling: the list, what failed, the question, one document, the status."""
    with server.client() as door:
        first = door.get("/api/documents", params={"state": "indexed"}).json()["documents"][0]["id"]
    for place in ("#/documents", "#/documents?state=failed", f"#/document/{first}?mark=5-40", "#/status"):
        with opened(browser, server, place, width=width, scheme=scheme) as (page, _):
            page.locator(".files li, mark, .numbers").first.wait_for()
            assert_accessible(page, width)
            if place == "#/documents":
                page.get_by_role("button", name=re.compile("^Remove ")).first.click()
                assert violations(page) == []
