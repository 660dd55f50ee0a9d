"""Drive Open WebUI in Chromium against `localrag serve`: a chat, a follow-up, its title, and a question about an attached file.

    python scripts/drive_open_webui.py OPEN_WEBUI DOCS --ask QUESTION [--then FOLLOW_UP] [--file FILE --about QUESTION] [--out FOLDER]

OPEN_WEBUI is the `open-webui` command of an environment that has the package (0.12 was tried); DOCS is indexed. Everything runs on this
machine without network: embeddings of attached files are those of `serve`. Prints what the page shows, and keeps a picture of each step.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

PORT, SERVE_PORT = 8888, 8766
START_S, ANSWER_S = 180, 25
CHROMIUM_ARGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync"]


@contextmanager
def running(command: list[str], log: Path, cwd: Path, **environment: str) -> Iterator[None]:
    """A process until the end of the block, its output in `log`."""
    with log.open("w") as out:
        process = subprocess.Popen(command, cwd=cwd, stdout=out, stderr=out, env=os.environ | environment)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def wait_for(address: str) -> None:
    for _ in range(START_S):
        with suppress(OSError):
            urllib.request.urlopen(address, timeout=5)
            return
        time.sleep(1)
    raise SystemExit(f"{address} does not answer.")


def ask(page: Page, question: str, picture: Path, file: Path | None = None) -> None:
    """Type a question, with a file attached; print the conversation and the title of the tab."""
    if file:
        page.locator("input[type=file]").first.set_input_files(file)
        page.wait_for_timeout(8000)
    page.locator("#chat-input").first.click()
    page.keyboard.type(question, delay=5)
    page.keyboard.press("Enter")
    page.wait_for_timeout(ANSWER_S * 1000)
    page.screenshot(path=picture)
    print(f"=== {page.title()}\n", *page.locator("#messages-container").all_inner_texts(), sep="\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("open_webui", type=Path)
    parser.add_argument("docs", type=Path)
    parser.add_argument("--ask", required=True)
    parser.add_argument("--then")
    parser.add_argument("--file", type=Path)
    parser.add_argument("--about")
    parser.add_argument("--out", type=Path, default=Path(tempfile.mkdtemp()))
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    args = parser.parse_args()
    work = args.out.resolve()
    work.mkdir(parents=True, exist_ok=True)
    tool = [sys.executable, "-m", "localrag"]
    subprocess.run([*tool, "index", str(args.docs.resolve())], cwd=work, check=True)
    with running([*tool, "serve", "--port", str(SERVE_PORT), "--no-open"], work / "serve.log", work):
        wait_for(f"http://127.0.0.1:{SERVE_PORT}/")
        found = re.search(r"Key: (\S+)", (work / "serve.log").read_text())
        key, api = found[1] if found else "", f"http://127.0.0.1:{SERVE_PORT}/v1"
        settings = {"OFFLINE_MODE": "true", "HF_HUB_OFFLINE": "1", "WEBUI_AUTH": "False", "ENABLE_OLLAMA_API": "false"}
        settings |= {"WEBUI_SECRET_KEY": "x", "DATA_DIR": str(work / "data"), "ANONYMIZED_TELEMETRY": "false"}
        settings |= {"OPENAI_API_BASE_URL": api, "OPENAI_API_KEY": key}
        settings |= {"RAG_EMBEDDING_ENGINE": "openai", "RAG_OPENAI_API_BASE_URL": api, "RAG_OPENAI_API_KEY": key}
        command = [str(args.open_webui.resolve()), "serve", "--host", "127.0.0.1", "--port", str(PORT)]
        with running(command, work / "open-webui.log", work, **settings), sync_playwright() as playwright:
            wait_for(f"http://127.0.0.1:{PORT}/health")
            browser = playwright.chromium.launch(executable_path=args.chromium, args=CHROMIUM_ARGS)
            page = browser.new_page(viewport={"width": 1300, "height": 1000})
            page.goto(f"http://127.0.0.1:{PORT}/", wait_until="domcontentloaded")
            page.wait_for_timeout(8000)
            with suppress(Exception):  # what is new is only told once
                page.get_by_text("Okay, Let's Go!").first.click(timeout=3000)
            ask(page, args.ask, work / "chat.png")
            if args.then:
                ask(page, args.then, work / "follow-up.png")
            if args.file and args.about:
                page.goto(f"http://127.0.0.1:{PORT}/", wait_until="domcontentloaded")
                page.wait_for_timeout(4000)
                ask(page, args.about, work / "file.png", args.file)
            browser.close()


if __name__ == "__main__":
    main()
