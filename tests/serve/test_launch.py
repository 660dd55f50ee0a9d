"""The page that `serve` opens: its code is on no command line, works once, and expires."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from localrag.serve import auth
from localrag.serve.auth import AccessPolicy, redirect_file
from tests.serve.browser import chromium
from tests.serve.server import served

BROWSER = """#!{python}
import json, pathlib, stat, sys, urllib.parse, urllib.request
address = sys.argv[-1]
found = {{"argv": sys.argv}}
if address.startswith("file:"):
    file = pathlib.Path(urllib.request.url2pathname(urllib.parse.urlsplit(address).path))
    found |= {{"file": str(file), "page": file.read_text(), "modes": [stat.S_IMODE(p.stat().st_mode) for p in (file, file.parent)]}}
pathlib.Path({said!r}).write_text(json.dumps(found))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="a program that stands for a browser is a script")
@pytest.mark.ci
def test_the_code_stands_on_no_command_line(plain_town, tmp_path):
    """The browser is given a file that only its user may read; it redirects to the page, and is removed when the server ends."""
    said, browser = tmp_path / "said.json", tmp_path / "browser"
    browser.write_text(BROWSER.format(python=sys.executable, said=str(said)))
    browser.chmod(0o700)
    command = [sys.executable, "-m", "localrag", "serve", "--port", "0", "--open", "--read-only"]
    environment = os.environ | {"BROWSER": f"{browser} %s", "TMPDIR": str(tmp_path)}
    process = subprocess.Popen(command, cwd=plain_town, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        for _ in range(600):
            if said.exists() and said.stat().st_size:
                break
            time.sleep(0.1)
        found = json.loads(said.read_text())
        link = re.search(r'url=([^"]+)"', found["page"])[1]
        address, code = link.split("/#k=")
        opened = [httpx.post(f"{address}/api/session", json={"code": code}, trust_env=False) for _ in range(2)]
    finally:
        process.send_signal(2)
        process.communicate(timeout=60)
    assert not any(code in argument for argument in found["argv"])
    assert found["modes"] == [0o600, 0o700]
    assert [answer.status_code for answer in opened] == [200, 401]
    assert not Path(found["file"]).parent.exists()


def test_a_code_that_nobody_used_in_time_opens_nothing(monkeypatch):
    """An expired code gives no token; the key still does."""
    door = AccessPolicy("k" * 32)
    [code] = door.login_codes
    assert door.token_for("another") is None
    monkeypatch.setattr(auth, "CODE_LIFETIME", 0.0)
    assert door.token_for(code) is None
    assert door.token_for("k" * 32) == door.token


@pytest.mark.ci
def test_a_real_browser_comes_from_the_file_to_the_page(plain_town):
    """The file redirects to a page that has a token and does not ask for the key."""
    with chromium() as browser, served(plain_town, "--read-only") as server, redirect_file(f"{server.address}/#k={server.code}") as file:
        page = browser.new_context().new_page()
        page.goto(file.as_uri())
        page.locator("nav").first.wait_for()
        assert page.url.startswith(server.address)
        assert server.code not in page.url
