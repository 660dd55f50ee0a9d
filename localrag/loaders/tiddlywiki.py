"""TiddlyWiki: a wiki in one web page, which keeps its tiddlers as JSON in a script, earlier as hidden elements."""

import json
from contextlib import suppress
from typing import Any


def tiddlers(root: Any) -> str:
    """The text of a wiki's tiddlers, each below its title, without those of the program; empty for other pages."""
    found: list[Any] = [{**element.attrib, "text": "".join(element.itertext())} for element in root.iterfind(".//div[@id='storeArea']/div")]
    for script in root.iterfind(".//script[@class='tiddlywiki-tiddler-store']"):
        with suppress(ValueError, RecursionError):
            found += json.loads(script.text or "[]")
    return "\n\n".join(
        f"# {tiddler['title']}\n\n{str(tiddler.get('text')).strip()}"
        for tiddler in found
        if isinstance(tiddler, dict) and not str(tiddler.get("title", "$:/")).startswith("$:/")
    )
