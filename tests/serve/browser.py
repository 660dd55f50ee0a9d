"""A real Chromium for tests of the page, with what it asked for, said and refused written down."""

import os
import re
import shutil
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

CHROMIUM = os.environ.get("LOCALRAG_TEST_CHROMIUM") or shutil.which("chromium")
QUIET = ("background-networking", "component-update", "sync", "quic", "gpu", "default-apps", "extensions")
ARGS = ["--no-sandbox", "--no-first-run", *(f"--disable-{name}" for name in QUIET)]


@dataclass
class Heard:
    """What a page did: addresses it asked for, errors on its console, dialogs it opened."""

    requests: list = field(default_factory=list)
    errors: list = field(default_factory=list)
    dialogs: list = field(default_factory=list)

    def outside(self, address):
        """Addresses of other servers than this one."""
        return [url for url in self.requests if not url.startswith((address, "blob:", "data:"))]


@contextmanager
def chromium():
    """A browser; the test is skipped where there is none."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if not CHROMIUM or not os.access(CHROMIUM, os.X_OK):
        pytest.skip(f"there is no browser{f' at {CHROMIUM}' if CHROMIUM else ' named chromium on the path'}: set LOCALRAG_TEST_CHROMIUM")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGS)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def opened(browser, server, place="", *, width=1280, height=800, scheme="light", token=True, allowed="", **kwargs):
    """A page of its own storage at a fragment of the server, and what is heard of it, in the end no errors but `allowed` ones.

    `token` False: without the link.
    """
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme, locale="en-GB", **kwargs)
    page, heard = context.new_page(), Heard()
    page.set_default_timeout(180_000)
    page.on("request", lambda request: heard.requests.append(request.url))
    page.on("pageerror", lambda error: heard.errors.append(str(error)))
    page.on("console", lambda message: heard.errors.append(message.text) if message.type == "error" else None)
    page.on("dialog", lambda dialog: (heard.dialogs.append(dialog.message), dialog.dismiss()))
    try:
        if token:
            # The key opens the page as the link does, and more than once.
            page.goto(f"{server.address}/#k={server.key}")
            page.locator("nav").first.wait_for()
        page.goto(f"{server.address}/{place}")
        page.locator("h1").first.wait_for()
        yield page, heard
        assert [error for error in heard.errors if not (allowed and re.search(allowed, error))] == []
    finally:
        context.close()


def focused(page):
    """What has the focus, in words: its accessible label or its text."""
    return page.evaluate("(document.activeElement.getAttribute('aria-label') ?? document.activeElement.innerText ?? '').trim()")


LOOKS = pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 1280), ("light", 320), ("dark", 320)])


def assert_accessible(page, width):
    """Nothing for axe-core to find, and no sideways scrolling."""
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert violations(page) == []


def own_words(page):
    """The marked words, without what is only read aloud."""
    page.locator("mark").first.wait_for()
    own = "m => [...m.childNodes].filter(n => n.nodeType === 3).map(n => n.data).join('')"
    return page.evaluate(f"[...document.querySelectorAll('mark')].map({own}).join('')")


def violations(page):
    """What axe-core finds against WCAG 2.2 AA, each with the elements."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed").Axe()
    tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
    found = axe.run(page, options={"runOnly": {"type": "tag", "values": tags}}).response["violations"]
    return [(rule["id"], [node["html"][:200] for node in rule["nodes"]]) for rule in found]
