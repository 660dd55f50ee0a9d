"""The graph in a real browser: pixels where nodes are, circles that open and close, keys, lists, names."""

import hashlib
import re

import numpy as np
import pytest

from scripts.measure.bench_graph import make_index
from tests.conftest import run_process
from tests.serve.browser import LOOKS, assert_accessible, focused, opened
from tests.serve.server import served
from tests.serve.test_api import read

pytestmark = pytest.mark.ci

SIZES = [pytest.param(5_000, id="5k"), pytest.param(200_000, id="200k", marks=pytest.mark.slow)]
STAGE = ".graph-stage"


@pytest.fixture(scope="module", params=SIZES)
def server(request, tmp_path_factory, home):
    """A server over a made-up graph of that many entities."""
    folder = tmp_path_factory.mktemp("drawn")
    make_index(folder / ".localrag", request.param)
    with served(folder) as running:
        yield running


@pytest.fixture(scope="module")
def picture(server):
    """The picture's numbers, read without the page, and the ids of a few nodes."""
    with server.client() as client:
        nodes, edges, circles, links, rest = read(client.get("/api/graph.bin").content)
        names = client.get("/api/graph/names", params={"numbers": ",".join(map(str, range(40)))}).json()["names"]
    return nodes, edges, circles, links, {"ids": [one["id"] for one in names], "names": [one["name"] for one in names], **rest}


def ready(page):
    """Wait until the picture is drawn with its names and nothing more happens to it."""
    page.locator(".graph[data-ready]").wait_for()
    page.wait_for_timeout(300)
    frames = -1
    while frames != (now := page.evaluate("localragGraph.timings.frames")):
        frames = now
        page.wait_for_timeout(400)


def pixels(page, places):
    """The colours of the canvas at places of the box, as rows of red, green and blue."""
    script = """places => { const c = document.querySelector(".graph-stage canvas"), g = c.getContext("2d");
      return places.map(([x, y]) => [...g.getImageData(Math.trunc(x), Math.trunc(y), 1, 1).data.slice(0, 3)]); }"""
    return np.array(page.evaluate(script, [[float(x), float(y)] for x, y in places]))


def drawn(page):
    """A hash of all that the canvas shows."""
    script = """() => { const c = document.querySelector(".graph-stage canvas");
      return [...c.getContext("2d").getImageData(0, 0, c.width, c.height).data].join(); }"""
    return hashlib.blake2b(page.evaluate(script).encode()).hexdigest()


def on_screen(page, x, y):
    """Where places of the world are in the box, by the camera alone."""
    c = page.evaluate("localragGraph.camera")
    return (x - c["x"]) * c["scale"] + c["width"] / 2, (y - c["y"]) * c["scale"] + c["height"] / 2


def hues(page):
    return np.array([[int(v) for v in re.findall(r"\d+", css)] for css in page.evaluate("localragGraph.colours.css")])


def hue_of(picture, node):
    """A node's hue: the place of its topmost circle among those, by twelve."""
    _, _, circles, *_ = picture
    tops = np.flatnonzero(circles["above"] == 0xFFFFFFFF).tolist()
    at = int(picture[0]["below"][node])
    while circles["above"][at] != 0xFFFFFFFF:
        at = int(circles["above"][at])
    return tops.index(at) % 12


def wheel(page, times, delta):
    box = page.locator(STAGE).bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    for _ in range(times):
        page.mouse.wheel(0, delta)
        page.wait_for_timeout(20)


def test_every_node_is_a_pixel_of_its_communitys_colour(browser, server, picture):
    """Sampled over all ranks: the colour at a node's place is nearest to its community's hue; a corner is paper."""
    with opened(browser, server, "#/graph") as (page, heard):
        ready(page)
        nodes = picture[0]
        some = np.linspace(0, len(nodes["x"]) - 1, 300).astype(int)
        x, y = on_screen(page, nodes["x"][some], nodes["y"][some])
        assert np.allclose([x[7], y[7]], page.evaluate("n => localragGraph.screenOf(n)", int(some[7])))
        seen, palette = pixels(page, zip(x, y, strict=True)).astype(int), hues(page)
        nearest = np.abs(seen[:, None] - palette[None]).sum(axis=2).argmin(axis=1)
        right = nearest == [hue_of(picture, int(n)) for n in some]
        assert right.mean() > 0.75  # names and links are drawn over some, a neighbour's pixel over others
        assert pixels(page, [(3, 3)]).tolist() == [[0xFA, 0xF9, 0xF6]]
        assert not heard.outside(server.address)


def test_zooming_opens_and_closes_circles_and_moves_nothing(browser, server, picture):
    """In, the largest circle opens; its nodes are where the camera says; out again the picture is what it was, pixel by pixel."""
    with opened(browser, server, "#/graph", reduced_motion="reduce") as (page, _):
        ready(page)
        page.get_by_role("button", name="Show everything").or_(page.get_by_role("button", name="All")).first.click()
        ready(page)
        before, camera = drawn(page), page.evaluate("localragGraph.camera")
        assert page.evaluate("localragGraph.open") == []
        wheel(page, 9, -120)
        ready(page)
        open_now = page.evaluate("localragGraph.open")
        assert open_now
        x, y = on_screen(page, picture[0]["x"][:200], picture[0]["y"][:200])
        assert np.allclose(np.stack([x, y], 1), page.evaluate("[...Array(200).keys()].map(n => localragGraph.screenOf(n))"), atol=0.05)
        for _ in range(3):
            wheel(page, 9, 120)
        page.get_by_role("button", name="All").first.click()
        ready(page)
        assert page.evaluate("localragGraph.camera") == pytest.approx(camera)
        assert page.evaluate("localragGraph.open") == []
        assert drawn(page) == before


def test_an_address_leads_to_an_entity_that_is_picked_and_has_neighbours(browser, server, picture):
    """The entity is in the middle and is what a pick there gives; its neighbours are listed; a click on another changes the address."""
    _, edges, *_, rest = picture
    with opened(browser, server, f"#/graph/entity/{rest['ids'][3]}", reduced_motion="reduce") as (page, _):
        ready(page)
        page.get_by_role("heading", name=rest["names"][3], exact=True).wait_for()
        assert page.evaluate("localragGraph.pick(...localragGraph.screenOf(3))") == {"kind": "entity", "number": 3}
        related = set(edges["ends"][(edges["ends"] == 3).any(axis=1)].ravel().tolist()) - {3}
        listed = page.locator(".neighbours button").count()
        assert listed == min(30, len(related))
        name = page.locator(".neighbours button").first.inner_text()
        page.locator(".neighbours button").first.click()
        page.get_by_role("heading", name=name, exact=True).wait_for()
        assert rest["ids"][3] not in page.url
        page.go_back()
        page.get_by_role("heading", name=rest["names"][3], exact=True).wait_for()


def test_a_click_on_a_circle_opens_it(browser, server, picture):
    """A pick in a closed circle gives it; the click leads to its address, and there it is open."""
    with opened(browser, server, "#/graph", reduced_motion="reduce") as (page, _):
        ready(page)
        x, y = page.evaluate("localragGraph.screenOf(0, 'community')")
        assert page.evaluate("([x, y]) => localragGraph.pick(x, y)", [x, y]) == {"kind": "community", "number": 0}
        page.locator(STAGE).click(position={"x": x, "y": y})
        page.wait_for_url(re.compile("#/graph/community/"))
        ready(page)
        assert 0 in page.evaluate("localragGraph.open")


def test_the_keys_do_everything(browser, server, picture):
    """Arrows walk and are told, Enter opens, Backspace goes up, + - 0 zoom, / searches, a found name is shown, Escape clears."""
    rest = picture[-1]
    with opened(browser, server, "#/graph", reduced_motion="reduce") as (page, _):
        ready(page)
        page.locator(STAGE).focus()
        page.keyboard.press("ArrowRight")
        news = page.locator("p[role=status].offscreen")
        page.wait_for_timeout(300)
        assert "community of" in news.inner_text()
        first = page.evaluate("localragGraph.cursor")
        page.keyboard.press("ArrowRight")
        page.wait_for_timeout(200)
        assert page.evaluate("localragGraph.cursor") != first
        page.keyboard.press("Enter")
        page.wait_for_url(re.compile("#/graph/community/"))
        ready(page)
        inside = page.evaluate("localragGraph.cursor")["number"]
        assert inside in page.evaluate("localragGraph.open")
        assert page.evaluate("document.activeElement.className") == "graph-stage"
        page.keyboard.press("Backspace")
        page.wait_for_url(re.compile("#/graph$"))
        ready(page)
        scale = page.evaluate("localragGraph.camera.scale")
        page.keyboard.press("+")
        ready(page)
        assert page.evaluate("localragGraph.camera.scale") == pytest.approx(scale * 1.5)
        page.keyboard.press("-")
        page.keyboard.press("0")
        ready(page)
        page.keyboard.press("/")
        assert page.evaluate("document.activeElement.id") == "graph-search"
        page.keyboard.type(rest["names"][5])
        page.locator("#graph-search-list [role=option]").first.wait_for()
        page.keyboard.press("Enter")
        page.wait_for_url(re.compile("#/graph/entity/"))
        ready(page)
        assert page.evaluate("localragGraph.cursor") == {"kind": "entity", "number": 5}
        page.keyboard.press("Escape")
        page.wait_for_url(re.compile("#/graph$"))
        assert page.evaluate("localragGraph.cursor") is None


def test_the_tree_does_what_the_picture_does(browser, server):
    """Down and right open a community, down goes into it, Enter shows it; names and sizes are read out."""
    with opened(browser, server, "#/graph", reduced_motion="reduce") as (page, _):
        ready(page)
        top = page.get_by_role("treeitem").first
        assert "entities" in top.inner_text()
        top.focus()
        page.keyboard.press("ArrowRight")
        page.locator("[role=treeitem][aria-level='2']").first.wait_for()
        assert top.get_attribute("aria-expanded") == "true"
        page.keyboard.press("ArrowDown")
        page.wait_for_timeout(200)
        assert page.evaluate("document.activeElement.getAttribute('aria-level')") == "2"
        page.keyboard.press("Enter")
        page.wait_for_url(re.compile("#/graph/"))
        page.locator("[role=treeitem][aria-level='2']").first.focus()
        page.keyboard.press("ArrowLeft")
        page.wait_for_timeout(200)
        assert page.evaluate("document.activeElement.getAttribute('aria-level')") == "1"
        assert focused(page)


@LOOKS
def test_the_graph_is_accessible(browser, server, scheme, width):
    """axe finds nothing, nothing is wider than the screen, and the canvas has the page's colours."""
    with opened(browser, server, "#/graph", scheme=scheme, width=width) as (page, _):
        ready(page)
        assert_accessible(page, width)
        paper = [0xFA, 0xF9, 0xF6] if scheme == "light" else [0x16, 0x18, 0x1A]
        assert pixels(page, [(2, 2)]).tolist() == [paper]


def test_an_empty_graph_says_why(browser, tmp_path):
    """Documents without entities: the page says so and what to run."""
    (tmp_path / "a.txt").write_text("nothing here has a name.")
    assert run_process("index", "a.txt", "--extractor", "phrases", "-q", cwd=tmp_path).returncode == 0
    with served(tmp_path) as server, opened(browser, server, "#/graph") as (page, _):
        page.get_by_text("no entities have been found").wait_for()
        assert page.get_by_text("localrag index").count()
