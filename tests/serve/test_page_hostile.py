"""Every view of the page in a real browser over hostile documents: nothing in them runs, loads, or breaks the layout."""

import pytest

from tests.conftest import run_localrag
from tests.serve.browser import opened

pytestmark = pytest.mark.ci

EVIL = "http://evil.example"
TEXTS = {  # put into names, titles, headings, texts and questions
    "script": "<script>alert(1)</script><script src=http://evil.example/a.js></script>",
    "handler": "<img src=http://evil.example/x.png onerror=alert(1)><svg onload=alert(1)>",
    "attribute": "\"' autofocus onfocus=alert(1) x=\"'",
    "markdown": f"![p]({EVIL}/p.png) [l](javascript:alert(1)) [m](data:text/html,<script>alert(1)</script>) <{EVIL}/a>",
    "template": "${alert(1)} {{constructor.constructor('alert(1)')()}} {% raw %} #{7*7}",
    "style": f"</style><style>*{{display:none}}</style><link rel=stylesheet href={EVIL}/a.css><base href={EVIL}>",
    "frame": f"<iframe srcdoc='<script>alert(1)</script>'></iframe><meta http-equiv=refresh content='0;url={EVIL}'><form action={EVIL}>",
    "direction": "\u202eabc\u2066def\u202d\u200f\u200bghi\ufeff",
    "control": "a\x08b\x1b[2Jc\x07d",
    "long": "x" * 3_000,
    "marks": "[1][2] [unsupported] # heading **bold",
    "route": "#/ask/1?q=1 ../../status %2e%2e/ %00 __proto__ constructor",
}
SENTENCE = "Captain Ingrid {0} Holm met Ruth Sand {0} in Vardby, and Ingrid {0} Holm sold the trawler Petrel to the Northern {0} Line."
NAMES = {  # of files, where the file system allows them
    "script": "<script>alert(1)<∕script>.md",
    "handler": "<img src=x onerror=alert(1)>.txt",
    "attribute": "\"' onfocus=alert(1) x=\"'.md",
    "markdown": "![p](http:∕∕evil.example∕p.png).md",
    "template": "${alert(1)}{{7*7}}.txt",
    "style": "<style>*{display:none}.md",
    "direction": "\u202etxt.exe\u2066.md",
    "long": "y" * 200 + ".txt",
    "route": "#%2e%2e?a=1&b.txt",
    "control": "a\x1b[2J\nb.txt",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory, home):
    """Documents with hostile names, titles, headings, metadata, texts and a hostile collection."""
    folder = tmp_path_factory.mktemp("hostile")
    docs = folder / "docs"
    docs.mkdir()
    for kind, text in TEXTS.items():
        title = text.replace("\n", " ").replace('"', '\\"') if kind != "control" else "control"
        said = "\n\n".join([SENTENCE.format(text)] * 2 + [f"Ruth Sand wrote of the trawler Petrel: {text}"])
        front = f'---\ntitle: "{title[:500]}"\nauthor: "{title[:200]}"\n---\n' if "\\" not in title else ""
        name = NAMES.get(kind, f"{kind}.md")
        try:
            (docs / name).write_text(f"{front}# {text}\n\n{said}\n", encoding="utf-8")
        except OSError:  # the file system allows no such name
            (docs / f"{kind}.md").write_text(f"{front}# {text}\n\n{said}\n", encoding="utf-8")
    done = run_localrag("index", "docs", "--extractor", "phrases", "-q", "--collection", TEXTS["handler"].replace(",", ""), cwd=folder)
    if done.returncode == 2:  # such a name is refused
        done = run_localrag("index", "docs", "--extractor", "phrases", "-q", cwd=folder)
    assert done.returncode in (0, 5), done.stderr
    return folder


@pytest.fixture(scope="module")
def places(server):
    """Every view of what the index holds, as fragments; each question is asked once, so that there are conversations."""
    with server.client() as client:
        for text in TEXTS.values():
            body = {"question": f"Who sold the trawler Petrel? {text[:900]}", "mode": "basic"}
            client.post("/api/ask", json=body).raise_for_status()
        documents = client.get("/api/documents").json()["documents"]
        entities = client.get("/api/names", params={"q": "Ingrid"}).json()["entities"]
        entities += client.get("/api/names", params={"q": "Northern"}).json()["entities"]
        communities = client.get("/api/communities").json()["communities"]
        talks = client.get("/api/conversations").json()["conversations"]
    assert len(documents) >= len(TEXTS)
    assert entities
    assert talks
    found = ["", "#/ask", "#/documents", "#/reports", "#/graph", "#/status", "#/library", "#/search?q=Petrel"]
    found += [f"#/document/{d['id']}" for d in documents if d["id"]]
    found += [f"#/{view}/{e['id']}" for e in entities for view in ("entity", "graph/entity")]
    found += [f"#/report/{c['id']}" for c in communities[:6]]
    found += [f"#/ask/{t['id']}" for t in talks] + [f"#/source/{t['id']}/1" for t in talks]
    return found


def unharmed(page, heard, server, place):
    """Nothing ran, nothing was loaded from elsewhere, and the page is still the page, no wider than its window."""
    assert heard.dialogs == [], place
    assert heard.outside(server.address) == [], place
    bad = "script:not([src^='static/']), iframe, object, embed, base, form[action], [onerror], [onload], [onfocus], a[href^='javascript:']"
    assert page.evaluate(f'[...document.querySelectorAll("{bad}")].map(e => e.outerHTML.slice(0, 200))') == [], place
    outward = "[...document.querySelectorAll('a[href], img[src], link[href]')].map(e => e.href || e.src)"
    links = [link for link in page.evaluate(outward) if not link.startswith((server.address, "blob:"))]
    assert links == [], place
    assert page.locator("nav").first.is_visible(), place
    wide = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert wide[0] <= wide[1] + 1, (place, wide)


@pytest.mark.parametrize("width", [1280, 390])
def test_hostile_documents_harm_no_view(browser, server, places, width):
    """Lists, documents, names, themes, the graph, sources, conversations and the state of the index."""
    with opened(browser, server, width=width, allowed="404|410") as (page, heard):
        for place in places:
            page.goto(f"{server.address}/{place}")
            page.locator("h1").first.wait_for()
            page.wait_for_load_state("networkidle") if place.startswith("#/graph") else page.wait_for_timeout(150)
            unharmed(page, heard, server, place)


def test_hostile_questions_searches_and_addresses_do_nothing(browser, server):
    """Neither typed text nor an address from another page runs or loads anything."""
    with opened(browser, server, "#/ask", allowed="Failed to load resource") as (page, heard):
        for kind, text in TEXTS.items():
            page.goto(f"{server.address}/#/ask")
            box = page.get_by_label("Your question")
            box.fill(f"Who sold the Petrel? {text[:500]}")
            box.press("Enter")
            page.locator("article.turn[data-state=done], article.turn[data-state=failed]").last.wait_for()
            unharmed(page, heard, server, f"question {kind}")
        for text in TEXTS.values():
            quoted = page.evaluate("text => encodeURIComponent(text)", text[:500])
            for view in ("search?q=", "document/", "entity/", "report/", "graph/entity/", "source/1/", "", "ask/"):
                page.goto(f"{server.address}/#/{view}{quoted}")
                page.wait_for_timeout(50)
                unharmed(page, heard, server, f"#/{view}{quoted}")
