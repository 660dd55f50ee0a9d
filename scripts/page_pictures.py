"""Pictures of every view of the page, for the documentation: docs/pictures/*.png.

    python scripts/page_pictures.py

The index is that of the demo, without a chat model. The browser is LOCALRAG_TEST_CHROMIUM or the `chromium` of the PATH.
"""

import io
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image

from scripts.bench_serve import indexed
from tests.serve.browser import chromium, opened
from tests.serve.server import Served, served

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

OUT = ROOT / "docs" / "pictures"
SIZE = {"width": 1120, "height": 700}
QUESTION = "Who published the report on the loss of the Marian Dace?"


def views(server: Served) -> dict[str, dict[str, Any]]:
    """Where each picture is taken: the fragment, and how the browser is set."""
    with server.client() as client:
        body = {"question": QUESTION, "mode": "mix"}
        *_, last = client.post("/api/ask", json=body).text.strip().splitlines()
        answer = json.loads(last)["answer"]
        people = client.get("/api/names", params={"q": "Margaret"}).json()["entities"]
        document = next(d["id"] for d in client.get("/api/documents").json()["documents"] if d["path"].endswith("petition.txt"))
        report = client.get("/api/communities").json()["communities"][0]["id"]
    conversation, entity = answer["conversation"], people[0]["id"]
    return {
        "ask": {"place": f"#/ask/{conversation}"},
        "source": {"place": f"#/source/{answer['id']}/1"},
        "documents": {"place": "#/documents"},
        "document": {"place": f"#/document/{document}"},
        "reports": {"place": "#/reports"},
        "report": {"place": f"#/report/{report}"},
        "entity": {"place": f"#/entity/{entity}"},
        "graph": {"place": "#/graph"},
        "graph-dark": {"place": f"#/graph/entity/{entity}", "scheme": "dark"},
        "search": {"place": "#/search?q=harbour"},
        "status": {"place": "#/status"},
        "ask-narrow": {"place": f"#/ask/{conversation}", "width": 320, "height": 640, "scheme": "dark"},
    }


def main() -> None:
    """Take them all."""
    OUT.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        made = indexed(Path(folder) / "demo", long=False)
        with served(made) as server, chromium() as browser:
            for name, how in views(server).items():
                with opened(browser, server, **(SIZE | how)) as (page, heard):
                    if "graph" in name:
                        page.locator(".graph[data-ready]").wait_for()
                    page.wait_for_timeout(1500)
                    picture = Image.open(io.BytesIO(page.screenshot()))
                    picture.convert("RGB").quantize(96, dither=Image.Dither.NONE).save(OUT / f"{name}.png", optimize=True)
                    assert not heard.errors, (name, heard.errors)
                print(name, (OUT / f"{name}.png").stat().st_size // 1000, "KB")


if __name__ == "__main__":
    main()
