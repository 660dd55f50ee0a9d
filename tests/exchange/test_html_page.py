"""The exported page in a real browser, opened as a file: it draws, it is searched, it asks nobody, and no name runs anything."""

import json
import re
from contextlib import contextmanager

import numpy as np
import pytest

from localrag.errors import LocalragError
from localrag.exchange import html_page
from localrag.exchange.export import export_index
from localrag.store import graph
from tests.exchange.made import make_index
from tests.serve.browser import Heard, chromium


@pytest.fixture(scope="module")
def page_file(opened, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "graph.html"
    export_index(opened, "html", path)
    return path


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


@contextmanager
def shown(browser, path, place="", **options):
    """The page, drawn, and what was heard of it."""
    context = browser.new_context(viewport={"width": 1280, "height": 800}, locale="en-GB", offline=True, reduced_motion="reduce", **options)
    page, heard = context.new_page(), Heard()
    page.on("request", lambda request: heard.requests.append(request.url))
    page.on("pageerror", lambda error: heard.errors.append(str(error)))
    page.on("console", lambda message: heard.errors.append(message.text) if message.type in ("error", "warning") else None)
    page.on("dialog", lambda dialog: (heard.dialogs.append(dialog.message), dialog.dismiss()))
    try:
        page.goto(f"{path.as_uri()}{place}")
        page.locator(".graph[data-ready]").wait_for()
        page.wait_for_timeout(400)
        yield page, heard
    finally:
        context.close()


def test_the_file_holds_no_text_that_ends_its_script(page_file):
    """Whatever names are in it; and its data are JSON with every entity."""
    text = page_file.read_text(encoding="utf-8")
    assert len(re.findall("</script", text, re.IGNORECASE)) == len(re.findall("<script", text, re.IGNORECASE)) == 4
    data = json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])
    assert len(data["entities"]) == 26
    assert not re.search(r"""(?:src|href)=["']?(?:https?:)?//""", text)


@pytest.mark.ci
def test_every_node_is_drawn_and_nothing_is_asked_for(browser, page_file, opened):
    """At each node's place is no paper; of nobody anything is requested but the file itself, and nothing is said to be wrong."""
    with shown(browser, page_file) as (page, heard):
        n = graph.counts(opened.db)["entities"]
        spots = page.evaluate("n => [...Array(n).keys()].map(k => localragGraph.screenOf(k))", n)
        script = """spots => { const c = document.querySelector(".graph-stage canvas"), g = c.getContext("2d");
          const [a, b] = [c.width / c.clientWidth, c.height / c.clientHeight];
          return spots.map(([x, y]) => [...g.getImageData(Math.trunc(x * a), Math.trunc(y * b), 1, 1).data.slice(0, 3)]); }"""
        seen = np.array(page.evaluate(script, [*spots, [3, 3]]))
        paper = seen[-1]
        assert (np.abs(seen[:-1] - paper).sum(axis=1) > 30).mean() > 0.9
        assert heard.requests == [page_file.as_uri()]
        assert not heard.errors


@pytest.mark.ci
def test_a_poisoned_name_runs_nothing_and_is_shown_as_it_is(browser, page_file, opened):
    """In the picture, the search, the panel and the lists: `window.ran` is set by none of them."""
    poisoned = next(e for e in graph.entities(opened.db) if e.name.startswith("</script"))
    with shown(browser, page_file, f"#/graph/entity/{poisoned.id}") as (page, heard):
        assert page.locator(".export-about h2").inner_text() == poisoned.name
        page.get_by_role("combobox", name="Search names").fill("</script")
        page.locator("[role=option]").first.wait_for()
        assert poisoned.name in page.locator("[role=option]").first.inner_text()
        assert page.evaluate("window.ran") is None
        assert not heard.dialogs
        assert page.locator("img").count() == 0
        assert heard.requests == [page_file.as_uri()]
        assert not heard.errors


@pytest.mark.ci
def test_its_policy_lets_no_other_script_run(browser, page_file):
    """One that is put into the page is refused, and so is a request, even to the file's own folder."""
    with shown(browser, page_file) as (page, heard):
        page.evaluate("""() => { const s = document.createElement("script");
          try { s.text = "window.ran = 1"; document.body.append(s); } catch { /* a script's text has to be trusted */ } }""")
        refused = page.evaluate("fetch('other.json').then(() => false, () => true)")
        assert refused
        assert page.evaluate("window.ran") is None
        assert any("Content Security Policy" in text or "Trusted" in text for text in heard.errors)


@pytest.mark.ci
def test_a_search_leads_to_an_entity_with_its_words(browser, page_file):
    """A name is found by its beginning, chosen by Enter, and the panel has description, quotes with their file, and relationships."""
    with shown(browser, page_file) as (page, heard):
        page.get_by_role("combobox", name="Search names").fill("ingr")
        page.locator("[role=option]").first.wait_for()
        page.keyboard.press("Enter")
        about = page.locator(".export-about")
        about.wait_for()
        assert about.locator("h2").inner_text() == "Ingrid Holm"
        assert "met her brother." in about.inner_text()
        assert "The Ingrid Holm was there." in about.locator("blockquote").first.inner_text()
        assert "a.txt, page 1" in about.locator("blockquote").first.inner_text()
        about.get_by_role("link", name="Ångström").first.click()
        page.wait_for_function("document.querySelector('.export-about h2').innerText === 'Ångström'")
        assert not heard.errors


def test_a_graph_without_a_picture_says_what_to_run(tmp_path):
    """An index of an earlier version has none."""
    old = make_index(tmp_path, ("Ada", "Bob"), layout=False)
    with pytest.raises(LocalragError, match="no picture") as missing:
        export_index(old, "html", tmp_path / "g.html")
    assert "localrag index" in missing.value.hint
    assert not (tmp_path / "g.html").exists()


def test_every_module_that_is_imported_is_in_the_file():
    """Under the name by which it is imported, with every language; no import is left that a browser would look for beside the file."""
    modules = html_page.page_modules()
    assert {"page/app.js", "lib/api.js", "vendor/preact.js", "views/graph.js", "i18n/de.js", "i18n/zh/graph.js"} <= modules.keys()
    for path, text in modules.items():
        wanted = re.findall(r"""^(?:import|export)\b[^;]*?\bfrom\s*["']([^"']+)["']|^import\s*["']([^"']+)["']""", text, re.MULTILINE)
        assert {a or b for a, b in wanted} <= modules.keys(), path
        assert set(re.findall(r"\bimport\(([^)]*)\)", text)) <= {"`i18n/${chosen}.js`"}, path
