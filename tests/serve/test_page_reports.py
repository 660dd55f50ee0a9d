"""The page's themes, entities and search in a real browser: from a report or a relationship to the words of a document."""

import re
import shutil
from pathlib import Path

import pytest

from localrag import demo
from tests.conftest import run_localrag, write_town
from tests.serve.browser import LOOKS, assert_accessible, opened, own_words

pytestmark = pytest.mark.ci


@pytest.fixture(scope="module")
def folder(tmp_path_factory, home):
    """Letters whose first signs count twice in JavaScript, and enough documents for several levels of themes."""
    folder = tmp_path_factory.mktemp("themes")
    write_town(folder / "docs")
    for file in (folder / "docs").iterdir():
        file.write_text(f"😀😀😀\n\n{file.read_text(encoding='utf-8')}", encoding="utf-8")
    for name in ("council", "logs"):
        shutil.copytree(Path(demo.__file__).parent / "corpus" / name, folder / "docs" / name)
    (folder / "docs" / "rope.txt").write_text("Nora Bly sold rope to Olaf Brandt. Olaf Brandt paid Nora Bly in salt.\n", encoding="utf-8")
    done = run_localrag("index", "docs", "--extractor", "phrases", "-q", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def find(server):
    """What the server has under a name or an address."""

    def found(path, **query):
        with server.client() as door:
            return door.get(path, params=query).json()

    return found


@pytest.fixture(scope="module")
def communities(find):
    """Every community, the coarsest first."""
    return find("/api/communities")["communities"]


def entity_named(find, name):
    return next(one["id"] for one in find("/api/names", q=name)["entities"] if one["name"] == name)


def test_a_theme_unfolds_to_sentences_that_lead_to_their_documents(browser, server, find):
    """Each theme tells in how many documents it is; unfolded, by keyboard too, it shows sentences, which are marked in their document."""
    themes = find("/api/themes")["themes"]
    first = themes[0]
    with opened(browser, server, "#/reports") as (page, _):
        theme = page.locator("details.theme").first
        theme.wait_for()
        assert page.locator(".themes > details").count() == len(themes)
        assert f"in {first['documents']} of {first['of_documents']} documents" in theme.locator("summary").first.inner_text()
        theme.locator("summary").first.focus()
        page.keyboard.press("Enter")
        theme.locator(".quoted").first.click()
        page.locator("mark").first.wait_for()
        assert own_words(page) == first["quotes"][0]["text"]


def test_a_report_leads_to_the_words_it_rests_on(browser, server, find, communities):
    """Each quote is a link to its document, where exactly those characters are marked."""
    reports = [find(f"/api/reports/{c['id']}") for c in communities if c["title"]]
    quotes = [(r, q) for r in reports for f in r["findings"] for q in f["quotes"]]
    report, quote = next((r, q) for r, q in quotes if q["path"] in ("docs/a.md", "docs/b.txt", "docs/c.txt"))
    key = report["id"]
    with opened(browser, server, f"#/report/{key}") as (page, _):
        page.get_by_role("heading", name=report["title"], level=1).wait_for()
        assert report["summary"].split()[0] in page.locator(".lead").inner_text()
        assert page.get_by_role("link", name="Show in the graph").get_attribute("href") == f"#/graph/community/{key}"
        page.locator(f".quotes a[href$='mark={quote['start']}-{quote['end']}']").first.click()
        assert own_words(page) == quote["text"]


def test_a_relationship_shows_its_evidence_which_leads_to_the_document(browser, server, find):
    """The words are read when they are asked for, and marked in their document on the right characters; so are mentions."""
    key = entity_named(find, "Lars Holm")
    found = find(f"/api/entities/{key}")
    relation, mention = found["relationships"][0], found["mentions"][-1]
    place = find(f"/api/relationships/{relation['id']}")["evidence"][0]
    with opened(browser, server, f"#/entity/{key}") as (page, heard):
        page.get_by_role("heading", name="Lars Holm", level=1).wait_for()
        assert not [url for url in heard.requests if "/api/relationships/" in url]
        button = page.get_by_role("button", name=f"Evidence for the relationship with {relation['entity']['name']}", exact=True)
        button.click()
        assert button.get_attribute("aria-expanded") == "true"
        link = page.locator(f".relations a.quoted[href$='mark={place['start']}-{place['end']}']").first
        assert place["quote"].strip() in link.inner_text()
        link.click()
        assert own_words(page) == place["quote"]
        page.go_back()
        page.get_by_role("link", name=found["communities"][0]["title"]).first.wait_for()
        assert page.locator(".mentions a").count() == len(found["mentions"])
        page.locator(".mentions a").last.click()
        page.wait_for_url(lambda url: url.endswith(f"mark={mention['start']}-{mention['end']}"))


def test_the_way_to_another_entity_is_found_by_its_name(browser, server, find):
    """Chosen from a list by keyboard; where no way leads, that is said."""
    key = entity_named(find, "Lars Holm")
    goal = entity_named(find, "Vardby")
    way = find("/api/path", **{"from": key, "to": goal})["entities"]
    with opened(browser, server, f"#/entity/{key}", allowed="404") as (page, _):
        field = page.get_by_role("combobox", name="How is Lars Holm connected to …")
        field.press_sequentially("Vard")
        page.get_by_role("option", name="Vardby").wait_for()
        field.press("ArrowDown")
        assert page.locator("#goal-0").get_attribute("aria-selected") == "true"
        assert field.get_attribute("aria-activedescendant") == "goal-0"
        field.press("Enter")
        page.locator("ol.path").wait_for()
        assert page.locator("ol.path a").all_inner_texts() == [one["name"] for one in way]
        field.fill("Nora")
        page.get_by_role("option", name="Nora Bly").first.click()
        page.get_by_text("No relationships lead from one to the other.").wait_for()


def test_the_header_finds_as_one_types(browser, server):
    """Entities, themes and passages in a list that arrows walk; Enter opens one, Escape closes the list, and "/" leads to the field."""
    with opened(browser, server, "#/status") as (page, _):
        page.locator(".numbers").wait_for()
        page.keyboard.press("/")
        field = page.get_by_role("combobox", name="Search documents")
        assert page.evaluate("document.activeElement.id") == "find"
        field.press_sequentially("Lars")
        page.get_by_role("option", name="Lars Holm").first.wait_for()
        assert field.get_attribute("aria-expanded") == "true"
        field.press("Escape")
        assert field.get_attribute("aria-expanded") == "false"
        assert field.input_value() == "Lars"
        field.press("ArrowDown")
        first = page.locator("#find-list [aria-selected=true]")
        assert first.count() == 1
        name = first.locator("span").first.inner_text()
        page.get_by_role("group", name="Passages").get_by_role("option").first.wait_for()
        field.press("Enter")
        page.get_by_role("heading", name=name, level=1).wait_for()
        assert field.input_value() == ""


def test_a_search_shows_everything_that_is_found(browser, server):
    """Enter without a choice leads to a page with entities, themes and the nearest passages, each a link to its place."""
    with opened(browser, server, "#/documents") as (page, _):
        field = page.get_by_role("combobox", name="Search documents")
        field.fill("Ingrid Holm")
        field.press("Enter")
        page.get_by_role("heading", name="Search", level=1).wait_for()
        assert page.url.endswith("#/search?q=Ingrid+Holm")
        page.get_by_role("heading", name="Passages").wait_for()
        assert page.locator(".names a", has_text="Ingrid Holm").count() >= 1
        page.locator(".quotes a").first.click()
        assert "Ingrid Holm" in own_words(page)
        page.go_back()
        page.locator(".search-form input").fill("zzzz")
        page.get_by_role("button", name="Search", exact=True).click()
        page.wait_for_url(re.compile("q=zzzz"))


@LOOKS
def test_everybody_can_use_it(browser, server, find, communities, scheme, width):
    """No finding of axe-core, and no sideways scrolling: the tree, a report, an entity with its evidence, a search."""
    entity = entity_named(find, "Ingrid Holm")
    report = next(one["id"] for one in communities if one["title"])
    for place in ("#/reports", f"#/report/{report}", f"#/entity/{entity}", "#/search?q=Ingrid"):
        with opened(browser, server, place, width=width, scheme=scheme) as (page, _):
            page.locator(".theme, .findings, .relations, .quotes").first.wait_for()
            if "entity" in place:
                page.locator(".relations button").first.click()
                page.locator(".relations .quoted").first.wait_for()
            if place == "#/reports":
                page.locator("details.theme summary").first.click()
            assert_accessible(page, width)
