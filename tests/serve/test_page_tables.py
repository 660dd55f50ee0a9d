"""The page's tables in a real browser: forms, the grid of a review, its cells, the other kinds, keyboard, small windows, hostile texts."""

import re

import pytest

from localrag.analysis.tables import Cell, Column, TableRow, make_table
from localrag.index import Index
from localrag.serve import table_worker
from tests.serve.browser import assert_accessible, focused, opened, violations
from tests.serve.result_tables import DOCUMENTS, TABLES, quote, review
from tests.serve.server import served_here
from tests.serve.test_page_hostile import EVIL, TEXTS, unharmed
from tests.serve.test_tables import MadeTables

pytestmark = pytest.mark.ci

QUESTIONS = "amount: What fee is paid?\nWho keeps the keys?"
REVIEW = "Review the documents"


@pytest.fixture(scope="module")
def folder(tmp_path_factory, home):
    """An index of two versions of a lease."""
    folder = tmp_path_factory.mktemp("leases")
    for name, text in DOCUMENTS.items():
        (folder / name).write_text(text, encoding="utf-8")
    with Index.create(folder, extractor="phrases") as index:
        index.add(folder)
    return folder


@pytest.fixture(scope="module")
def server(folder):
    """A server with the reader, which reviews need."""
    with served_here(folder, reads=True) as running:
        yield running


@pytest.fixture
def made(monkeypatch):
    """Tables that tests give, by kind; set `review` for that of a review."""
    tables = {kind: table() for kind, table in TABLES.items()}
    monkeypatch.setattr(table_worker, "make_requested_table", lambda request, *_, **__: tables[request.kind])
    return tables


def fill(page, questions=QUESTIONS):
    page.get_by_label("Questions, one a line").fill(questions)


def make(page, name=REVIEW):
    """Press the button that makes a table, and wait for it."""
    page.get_by_role("button", name=name).click()
    page.locator(".made").wait_for()


def at(page):
    """The row and column of the grid's cell that has the focus."""
    return page.evaluate("document.activeElement.dataset.cell ?? document.activeElement.tagName")


def test_a_review_is_asked_for_read_and_found_again(browser, server):
    """A cell opens with its quotes, these lead to their words, the way back to the cell; the address brings the table again."""
    with server.client() as client:  # whatever the reader thinks, this cell has a quote
        answer = {"path": "old.txt", "question": QUESTIONS.splitlines()[1], "text": "the harbour master"}
        client.put("/api/review/cell", json=answer).raise_for_status()
    with opened(browser, server, "#/work") as (page, heard):
        fill(page)
        make(page)
        assert page.get_by_role("columnheader").count() == 3
        assert page.get_by_role("rowheader").all_inner_texts() == ["new.txt", "old.txt"]
        page.get_by_role("gridcell").nth(3).click()
        dialog = page.get_by_role("dialog", name="Who keeps the keys?")
        dialog.wait_for()
        assert "old.txt" in dialog.inner_text()
        dialog.get_by_role("link", name=re.compile("harbour master")).first.click()
        page.locator("mark").wait_for()
        assert "harbour master" in page.locator("mark").inner_text()
        page.go_back()
        dialog.wait_for()
        page.keyboard.press("Escape")
        dialog.wait_for(state="hidden")
        assert "table=" in page.url
        before = page.locator("table.review").inner_text()
        page.reload()
        page.locator("table.review").wait_for()
        assert page.locator("table.review").inner_text() == before
        assert page.get_by_label("Questions, one a line").input_value() == QUESTIONS
        posted = [url for url in heard.requests if url.endswith("/api/tables/review")]
        assert len(posted) == 1


def test_a_cell_is_corrected_approved_and_opened_again(browser, server):
    """By buttons that say what they did; the grid shows the state in words, also after the page was loaded anew."""
    with opened(browser, server, "#/work") as (page, _):
        fill(page)
        make(page)
        cell = page.get_by_role("gridcell").nth(3)
        cell.click()
        dialog = page.locator("dialog.cell")
        dialog.get_by_role("button", name="Correct").click()
        field = dialog.get_by_label("Right answer")
        field.fill("Ruth Sand")
        field.press("Escape")
        assert dialog.is_visible()
        assert dialog.get_by_label("Right answer").count() == 0
        dialog.get_by_role("button", name="Correct").click()
        field.fill("the harbour master")
        dialog.get_by_role("button", name="Save").click()
        dialog.get_by_role("status").get_by_text("Corrected.").wait_for()
        assert "corrected" in dialog.locator(".answer").inner_text()
        assert "the harbour master" in dialog.locator(".quotes").inner_text()
        dialog.get_by_role("button", name="Approve").click()
        dialog.get_by_role("status").get_by_text("Approved.").wait_for()
        assert dialog.get_by_role("button", name="Approve").count() == 0
        dialog.get_by_role("button", name="Close").click()
        assert re.match(r"the harbour master\s+approved", cell.inner_text())
        assert "cell=" not in page.evaluate("location.hash")
        page.wait_for_url(lambda url: "cell=" not in url)  # the browser hears of it later than the page
        page.reload()
        cell.wait_for()
        assert "approved" in cell.inner_text()
        cell.click()
        dialog.get_by_role("button", name="Reopen").click()
        dialog.get_by_role("button", name="Reopen").wait_for(state="detached")
        dialog.get_by_role("button", name="Approve").wait_for()  # it was read again by itself
        assert "approved" not in dialog.locator(".answer").inner_text()


def test_the_grid_is_used_with_the_keyboard_alone(browser, server, made):
    """One cell is reached by Tab; arrows, Home, End and pages move within; Enter opens a cell or follows a link, Escape comes back."""
    made["review"] = review(30, 6)
    with opened(browser, server, "#/work") as (page, _):
        fill(page)
        make(page)
        assert page.locator("table.review [tabindex='0']").count() == 1
        page.locator("table.review [tabindex='0']").focus()
        assert at(page) == "0.1"
        for key, cell in [
            ("ArrowRight", "0.2"),
            ("ArrowDown", "1.2"),
            ("ArrowLeft", "1.1"),
            ("ArrowLeft", "1.0"),
            ("ArrowLeft", "1.0"),
            ("End", "1.6"),
            ("ArrowRight", "1.6"),
            ("PageDown", "11.6"),
            ("Home", "11.0"),
            ("Control+End", "29.6"),
            ("ArrowDown", "29.6"),
            ("Control+Home", "0.0"),
            ("ArrowUp", "-1.0"),
            ("ArrowUp", "-1.0"),
            ("ArrowRight", "-1.1"),
            ("ArrowDown", "0.1"),
            ("PageUp", "0.1"),
        ]:
            page.keyboard.press(key)
            assert at(page) == cell, key
        assert page.locator("table.review [tabindex='0']").count() == 1
        page.keyboard.press("Control+End")
        box, cell = page.locator(".grid-box").bounding_box(), page.locator("[data-cell='29.6']").bounding_box()
        assert cell["x"] + cell["width"] <= box["x"] + box["width"] + 1
        page.keyboard.press("Enter")
        dialog = page.locator("dialog.cell")
        dialog.wait_for()
        assert focused(page) == "Question 5?"
        page.keyboard.press("Escape")
        dialog.wait_for(state="hidden")
        page.wait_for_function("document.activeElement.dataset.cell === '29.6'")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.closest('table')") is None
        page.keyboard.press("Shift+Tab")
        assert at(page) == "29.6"


def test_a_longer_table_is_shown_in_pages(browser, server, made):
    """And the keys stay on the page that is shown."""
    made["review"] = review(400, 20)
    with opened(browser, server, "#/work") as (page, _):
        fill(page)
        make(page)
        page.get_by_text("1–238 of 400").wait_for()
        page.get_by_role("button", name="Next").click()
        page.get_by_text("239–400 of 400").wait_for()
        page.locator("table.review [tabindex='0']").focus()
        assert at(page) == "238.1"
        page.keyboard.press("ArrowUp")
        assert at(page) == "-1.1"
        page.keyboard.press("Control+End")
        assert at(page) == "399.20"


def test_what_a_long_review_costs_is_said_before_it_begins(browser, server, made):
    """It begins when it is told to, or not."""
    made["review"] = review(2, 2)
    with opened(browser, server, "#/work") as (page, heard):
        plan = {"rows": 90, "cells": 180, "new_cells": 170, "seconds": 700}
        page.route("**/api/tables/review/plan", lambda route: route.fulfill(json=plan))
        fill(page)
        page.get_by_role("button", name=REVIEW).click()
        page.get_by_text("180 cells for 90 rows. 170 of them must be read, which takes about 12 min.").wait_for()
        assert not [url for url in heard.requests if url.endswith("/api/tables/review")]
        page.get_by_role("button", name="Cancel").click()
        page.get_by_text("180 cells").wait_for(state="detached")
        page.get_by_role("button", name=REVIEW).click()
        page.get_by_role("button", name="Begin").click()
        page.locator("table.review").wait_for()


def test_a_table_shows_how_far_it_is_and_is_stopped(browser, server, monkeypatch):
    """Also while another view is open; a stopped review has what was read."""
    monkeypatch.setattr(table_worker, "make_requested_table", MadeTables())
    with opened(browser, server, "#/work") as (page, _):
        fill(page)
        page.get_by_role("button", name=REVIEW).click()
        page.get_by_text("Reading documents").wait_for()
        page.get_by_text(re.compile(r"\d+ / 1,000")).wait_for()
        assert page.get_by_role("button", name=REVIEW).is_disabled()
        page.get_by_role("link", name="Status").click()
        page.get_by_role("heading", name="Status", level=1).wait_for()
        page.go_back()
        page.get_by_role("progressbar", name="Reading documents").wait_for()
        page.get_by_role("button", name="Stop").click()
        page.locator("table.review").wait_for()
        assert page.locator(".table-note").get_by_text("Stopped before its end.").is_visible()
        page.goto(f"{server.address}/#/work/list?request=all+ships")
        page.get_by_role("button", name="Make the list").click()
        page.get_by_role("button", name="Stop").click()
        page.locator(".table-note").get_by_text("Stopped before its end.").wait_for()
        assert page.locator(".made").count() == 0


def test_a_timeline_is_a_picture_and_a_table(browser, server, made):
    """Each date has a mark, those that are not sure another one; the picture says nothing that the table does not say."""
    with opened(browser, server, "#/work/timeline") as (page, _):
        make(page, "Make the timeline")
        assert page.locator("svg rect.date").count() == 10  # an empty value is no date
        assert page.locator("svg rect.about").count() == 1
        assert page.locator("svg rect.open").count() == 2
        assert page.locator(".timeline-picture[aria-hidden=true] :focus, .timeline-picture [tabindex]").count() == 0
        assert page.locator("table.dates tbody tr").count() == 11
        assert page.locator("table.dates thead").inner_text().split("\n")[0].startswith("Date")
        page.locator("table.dates").get_by_role("link").first.click()
        page.locator("mark").wait_for()


def test_dates_are_understood_as_they_are_written(browser, server):
    """Days, months, seasons, quarters, decades, centuries, years before the first, ranges and open ends; anything else is no date."""
    days = """async texts => {
        const { parseDates } = await import("/static/work/timeline.js");
        const day = time => new Date(time).toISOString().replace(/T.*/, "");
        return texts.map(text => { const d = parseDates(text);
            return d.first === undefined ? null : [day(d.first), day(d.last), Boolean(d.isAbout), Boolean(d.isOpen)]; });
    }"""
    dates = {
        "1974-03-12": ["1974-03-12", "1974-03-13", False, False],
        "1974-22": ["1974-06-01", "1974-09-01", False, False],
        "2019-35": ["2019-07-01", "2019-10-01", False, False],
        "196X": ["1960-01-01", "1970-01-01", False, False],
        "18XX": ["1800-01-01", "1900-01-01", False, False],
        "-0043": ["-000043-01-01", "-000042-01-01", False, False],
        "1914/1918": ["1914-01-01", "1919-01-01", False, False],
        "1967/..": ["1967-01-01", "1968-01-01", False, True],
        "": None,
        "soon": None,
        "../..": None,
    }
    with opened(browser, server, "#/work") as (page, _):
        assert page.evaluate(days, list(dates)) == list(dates.values())


def test_a_list_is_counted_and_says_whether_it_is_complete(browser, server, made):
    """Each item with its quotes, of which the first is seen at once; it is saved as a file."""
    with opened(browser, server, "#/work/list") as (page, _):
        page.get_by_label("What to list").fill("all items")
        make(page, "Make the list")
        page.get_by_text("3 items").wait_for()
        page.get_by_text("All 12 passages that match were read.").wait_for()
        first = page.locator(".items > li").first
        assert "Item 0" in first.inner_text()
        assert first.get_by_role("link").first.is_visible()
        first.get_by_text("1 more quote").click()
        assert first.get_by_role("link").nth(1).is_visible()
        with page.expect_download() as waited:
            page.get_by_role("button", name="CSV").click()
        assert waited.value.suggested_filename == "list.csv"
        assert "Item 0" in waited.value.path().read_text(encoding="utf-8-sig")


def test_compared_documents_show_the_words_that_changed(browser, server, made):
    """Removed words in the first, new words in the second; kinds are counted and can be hidden."""
    with opened(browser, server, "#/work/compare?first=old.txt&second=new.txt") as (page, _):
        assert page.get_by_role("combobox", name="First document").input_value() == "old.txt"
        make(page, "Compare")
        first = page.locator(".differences > li").first
        assert first.locator("del").all_inner_texts() == ["1,200"]
        assert first.locator("ins").all_inner_texts() == ["1,500"]
        assert page.locator(".kinds").inner_text().split() == "Changed 2 Only in the first 1 Moved 1 Same 3".split()
        changed = page.get_by_role("button", name="Changed 2")
        changed.click()
        assert changed.get_attribute("aria-pressed") == "false"
        assert page.locator(".differences > li").count() == 2
        changed.click()
        assert "contradictory" in page.locator(".differences > li").last.inner_text()


def test_words_that_differ_are_found(browser, server):
    """By the longest sequence of words that both have; of Chinese, characters; not in texts so long that they would stop the page."""
    marked = """async ([a, b]) => {
        const { markWords } = await import("/static/work/compare.js");
        const words = piece => [piece.props.children].flat().join("").trim();
        const of = (pieces, tag) => [pieces].flat().filter(piece => piece?.type === tag).map(words);
        const [one, two] = markWords(a, b);
        return [of(one, "del"), of(two, "ins")];
    }"""
    long = "async () => (await import('/static/work/compare.js')).commonWords(Array(2000).fill('a'), Array(2000).fill('b'))"
    with opened(browser, server, "#/work") as (page, _):
        for first, second, removed, added in (
            ("a b c", "a x c", ["b"], ["x"]),
            ("", "a", [], ["a"]),
            ("渡轮漏水", "渡船漏水", ["轮"], ["船"]),
            ("He may go", "He must not go", ["may"], ["must not"]),
        ):
            assert page.evaluate(marked, [first, second]) == [removed, added]
        assert page.evaluate(long) is None


def test_what_cannot_be_made_is_said(browser, server):
    """With what mends it."""
    with opened(browser, server, "#/work/list?request=ships&filter=pth%3Da", allowed="400") as (page, _):
        page.get_by_role("button", name="Make the list").click()
        page.get_by_role("alert").wait_for()
        assert "there is no key 'pth'" in page.get_by_role("alert").inner_text()


def test_an_address_fills_the_form_and_makes_nothing(browser, server):
    """A link from elsewhere starts no work; one to a table that is gone shows the form."""
    with opened(browser, server, "#/work/timeline?about=Vardby&limit=7&table=0123456789abcdef", allowed="404") as (page, heard):
        page.wait_for_load_state("networkidle")
        assert page.get_by_role("combobox", name="Name or topic").input_value() == "Vardby"
        assert page.get_by_label("At most").input_value() == "7"
        assert page.locator(".made").count() == 0
        assert [url for url in heard.requests if "/api/tables/" in url] == [f"{server.address}/api/tables/0123456789abcdef"]


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 320)])
def test_everybody_can_use_it(browser, server, made, scheme, width):
    """No finding of axe-core and no sideways scrolling: every form and every table, a cell, the cost of a review."""
    made["review"] = review(6, 4)
    with opened(browser, server, "#/work", width=width, scheme=scheme) as (page, _):
        for kind, query in (("review", "q=Who%3F"), *((kind, "request=x&first=a&second=b") for kind in TABLES)):
            page.goto(f"{server.address}/#/work/{kind}?{query}")
            page.locator(".table-form button.main").click()
            page.locator(".made").wait_for()
            for details in page.locator("main details").all():
                details.evaluate("d => { d.open = true; }")
            assert_accessible(page, width)
        page.goto(f"{server.address}/#/work/review?q=Who%3F&cell=0.1")
        page.locator("dialog.cell").wait_for()
        page.get_by_role("button", name="Correct").click()
        assert violations(page) == []
        assert page.locator("dialog.cell").bounding_box()["width"] <= width


def hostile_tables(text):
    """A table of each kind of which every text is that."""
    columns = [Column(text), Column(text), Column(text), Column(text)]
    cells = (Cell(text, value="1974", note=text), *(Cell(text, (quote(path, "The", text),)) for path in DOCUMENTS), Cell(text))
    return {kind: make_table(kind, text, columns, [TableRow(cells, text)], text) for kind in TABLES} | {"review": review(2, 2, text)}


@pytest.mark.parametrize("width", [1280, 390])
def test_hostile_texts_do_nothing(browser, server, monkeypatch, width):
    """In questions, answers, quotes, titles and notes: nothing runs, nothing is loaded, nothing breaks the layout."""
    tables = {}
    monkeypatch.setattr(table_worker, "make_requested_table", lambda request, *_, **__: tables[request.kind])
    with opened(browser, server, "#/work", width=width, allowed="400") as (page, heard):
        for name, hostile in TEXTS.items():
            text = f"Who? {hostile}"  # a question may not begin with a number sign
            tables.update(hostile_tables(text))
            said = page.evaluate("text => encodeURIComponent(text)", text[:300])
            for kind in tables:
                query = "&".join(f"{field}={said}" for field in ("q", "topic", "about", "request", "first", "second"))
                page.goto(f"{server.address}/#/work/{kind}?{query}")
                page.locator(".table-form button.main").click()
                page.locator(".made").wait_for()
                if kind == "review":
                    page.get_by_role("gridcell").last.click()
                    page.locator("dialog.cell").wait_for()
                unharmed(page, heard, server, f"{name} in {kind}")
        assert not [url for url in heard.requests if EVIL in url]
